"""Every kernel that NumPy can evaluate, evaluated by NumPy and compiled, over its range: the same to a few ulp.

A method on lanes, or a kernel of a module, that says `on_host` and has no settings below makes a test fail.
"""

import importlib
import itertools
import pkgutil

import numpy as np
import pytest

import jaxacct as ja
from jaxacct._method import LaneMethod, Query, RenyiMethod
from jaxacct._precision import Kernel, KernelByStructure, _floats, _ways
from jaxacct._types import Bound
from jaxacct.answering._lanes import _kernel
from jaxacct.bounds.composed import METHODS, methods_of
from jaxacct.mechanisms._base import Mechanism

import jax  # isort: skip

_LANES = 4  # settings in one call of a compiled program: as many as are compiled quickly
_CLOSE = 1e-12  # relative, of the answer or, where it is tiny, of its logarithm: a hundredth of what is booked


def _between(low: float, high: float, *, rng: np.random.Generator) -> np.ndarray:
    """Log-uniform numbers."""
    return np.exp(rng.uniform(np.log(low), np.log(high), _LANES))


def _whole(low: float, high: float, *, rng: np.random.Generator) -> np.ndarray:
    return np.floor(_between(low, high, rng=rng))


def _gaussian(rng: np.random.Generator, low: float = 0.3) -> ja.Gaussian:
    return ja.Gaussian(_between(low, 50.0, rng=rng))


def _local(rng: np.random.Generator) -> ja.LocalRandomizer:
    return ja.LocalRandomizer(_between(0.05, 6.0, rng=rng))


def _finite(rng: np.random.Generator) -> ja.FiniteRandomizer:
    return ja.FiniteRandomizer([[0.7, 0.2, 0.1], [0.1, 0.2, 0.7], [0.2, 0.6, 0.2]])


def _k_ary(rng: np.random.Generator) -> ja.KaryRandomizedResponse:
    return ja.KaryRandomizedResponse(_between(0.05, 6.0, rng=rng), _whole(3.0, 50.0, rng=rng))


def _reports(rng: np.random.Generator) -> ja.GaussianReports:
    return ja.GaussianReports(_between(2.0, 30.0, rng=rng))


def _laplace_reports(rng: np.random.Generator) -> ja.LaplaceReports:
    return ja.LaplaceReports(_between(0.4, 30.0, rng=rng))


def _allocation(rng: np.random.Generator) -> ja.RandomAllocation:
    selected = _whole(1.0, 5.0, rng=rng)
    return ja.RandomAllocation(_gaussian(rng), selected * _whole(2.0, 1e4, rng=rng) + 1.0, selected, 3)


def _shuffled(randomizer):
    return lambda rng, rounds=1: ja.Shuffled(randomizer(rng), _whole(10.0, 1e5, rng=rng), rounds)


def _check_in(randomizer):
    return lambda rng: ja.CheckIn(randomizer(rng), _whole(100.0, 1e4, rng=rng), _between(0.01, 0.9, rng=rng), 1)


SETTINGS = {
    (ja.Gaussian,): _gaussian,
    (ja.RandomizedResponse,): lambda rng: ja.RandomizedResponse(_between(0.01, 20.0, rng=rng), 5),
    (ja.EpsilonDelta,): lambda rng: ja.EpsilonDelta(_between(0.01, 20.0, rng=rng), _between(1e-12, 0.01, rng=rng)),
    (ja.Exponential,): lambda rng: ja.Exponential(_between(0.01, 20.0, rng=rng)),
    (ja.Laplace,): lambda rng: ja.Laplace(_between(0.05, 50.0, rng=rng)),
    (ja.PermuteAndFlip,): lambda rng: ja.PermuteAndFlip(_between(0.01, 20.0, rng=rng)),
    (ja.DiscreteLaplace,): lambda rng: ja.DiscreteLaplace(_between(0.01, 3.0, rng=rng), _whole(1.0, 5.0, rng=rng)),
    (ja.DiscreteGaussian,): lambda rng: ja.DiscreteGaussian(_between(0.5, 50.0, rng=rng)),
    (ja.ZCdp,): lambda rng: ja.ZCdp(_between(0.001, 3.0, rng=rng), _between(0.001, 3.0, rng=rng)),
    (ja.AboveThreshold,): lambda rng: ja.AboveThreshold(
        _between(0.2, 50.0, rng=rng), _between(0.2, 50.0, rng=rng), _whole(1.0, 9.0, rng=rng)
    ),
    (ja.GaussianAboveThreshold,): lambda rng: ja.GaussianAboveThreshold(
        _between(0.5, 50.0, rng=rng), _between(0.5, 50.0, rng=rng), _whole(1.0, 1e4, rng=rng), _whole(1.0, 9.0, rng=rng)
    ),
    (ja.PoissonSampled, ja.Gaussian): lambda rng: ja.PoissonSampled(
        _gaussian(rng), _between(1e-6, 0.9, rng=rng), _whole(1.0, 1e4, rng=rng)
    ),
    (ja.RandomAllocation, ja.Gaussian): _allocation,
    (ja.PartialAllocation, ja.Gaussian): lambda rng: ja.PartialAllocation(
        _gaussian(rng), 1e4, _whole(1.0, 1e4, rng=rng)
    ),
    (ja.ScheduledAllocation,): lambda rng: ja.ScheduledAllocation(
        (_between(0.5, 9.0, rng=rng), _between(0.5, 9.0, rng=rng)), (_whole(1.0, 99.0, rng=rng), 50.0), 2
    ),
    (ja.Shuffled, ja.LocalRandomizer): _shuffled(_local),
    (ja.Shuffled, ja.FiniteRandomizer): _shuffled(_finite),
    (ja.Shuffled, ja.KaryRandomizedResponse): _shuffled(_k_ary),
    (ja.PartialShuffledBatches, ja.Gaussian): lambda rng: ja.PartialShuffledBatches(
        _gaussian(rng), 100, _whole(1.0, 99.0, rng=rng)
    ),
    (ja.ShuffledBatches, ja.Gaussian): lambda rng: ja.ShuffledBatches(_gaussian(rng), 100, _whole(1.0, 9.0, rng=rng)),
    (ja.CheckIn, ja.LocalRandomizer): _check_in(_local),
    (ja.CheckIn, ja.FiniteRandomizer): _check_in(_finite),
    (ja.CheckIn, ja.KaryRandomizedResponse): _check_in(_k_ary),
    (ja.CheckIn, ja.GaussianReports): _check_in(_reports),
    (ja.Shuffled, ja.GaussianReports): _shuffled(_reports),
    (ja.Shuffled, ja.LaplaceReports): _shuffled(_laplace_reports),
    (ja.CheckIn, ja.LaplaceReports): _check_in(_laplace_reports),
    (ja.Composed,): lambda rng: ja.Composed((_gaussian(rng), ja.PoissonSampled(_gaussian(rng), 0.1, 7)), (2, 3)),
    (ja.ReplaceOne,): lambda rng: ja.ReplaceOne(ja.PoissonSampled(_gaussian(rng), _between(1e-6, 0.9, rng=rng), 9)),
    (ja.ZeroOut,): lambda rng: ja.ZeroOut(ja.PoissonSampled(_gaussian(rng), _between(1e-6, 0.9, rng=rng), 9)),
    (ja.PrivateSelection,): lambda rng: ja.PrivateSelection(_gaussian(rng), _between(1.0, 99.0, rng=rng), 0.5),
}
"""For each signature of a mechanism some settings, random ones, over the range of its kernels."""
_SEVERAL_ROUNDS = {"clones, composed", "no amplification"}  # of shuffled reports
# whose compilation takes 5 seconds and more, or that only repeat another's: the same kernels of another randomizer
_SLOW = {"check-in profile", "check-in profile, composed", "purified check-in", "purified clones"}
_REPEATED = {"clones", "clones pair from below", "clones, composed"}
# whose kernels are optimised in a second or two each
_QUICKLY_OPTIMISED = {ja.Gaussian, ja.Laplace, ja.PoissonSampled, ja.RandomizedResponse, ja.EpsilonDelta, ja.ZCdp}
# a bound from below, sharper on the host where another sum is affordable; a search that ends within 5e-8 of the target
_SHARPER = {"binary randomized response": 1e-6, "blanket": 1e-7}
# bounds of check-ins, whose profile NumPy knows more closely, by a contour or narrower blocks
_SHARPER |= dict.fromkeys(["check-in profile", "purified check-in", "check-in profile, composed", "check-in rdp"], 0.05)
# the least over all local epsilons by NumPy, over a grid of them by a program
_SHARPER |= {"purified clones": 0.3, "purified check-in": 0.3}
# of check-ins from below NumPy has a contour too
_SHARPER_BELOW = {(ja.CheckIn, "binary randomized response"): 0.3}
# where NumPy leaves a weight of e^-120 unsummed, and a program sums every block
_NEGLIGIBLE = {"check-in profile": 1e-45, "purified check-in": 1e-45}
# on the host only: a program claims nothing
_HOST_ONLY = {"check-in profile from below"}
_OPTIMISED: dict[str, str | bool] = {"xla_backend_optimization_level": "3", "xla_cpu_use_fusion_emitters": True}
_ORDERS = (1.02, 1.5, 2.0, 2.5, 4.875, 7.0, 16.0, 41.3)


def _on_host_methods():
    for signature, methods in METHODS.items():
        for method in methods:
            if isinstance(method, LaneMethod) and method.numpy:
                yield signature, method


def test_every_method_on_the_host_has_settings():
    missing = {signature for signature, _ in _on_host_methods()} - SETTINGS.keys()
    assert not missing, f"settings wanted for {missing}"


def _cases(*, optimised: bool = False):
    for signature in SETTINGS:
        names = dict.fromkeys(m.name for s, m in _on_host_methods() if s == signature)
        for name in names:
            label = "-".join([*(kind.__name__ for kind in signature), name.replace(" ", "_")])
            is_repeated = name in _REPEATED and signature[1] is not ja.LocalRandomizer
            is_slow = name in _SLOW or is_repeated or (optimised and not set(signature) <= _QUICKLY_OPTIMISED)
            marks = [pytest.mark.slow] if is_slow else []
            yield pytest.param(signature, name, id=label, marks=marks)


def _optimised(kernel: Kernel, flat: list[np.ndarray], static) -> list[np.ndarray]:
    """By a program compiled for speed, whatever these tests' flags are."""
    with _floats.own_settings():
        program = kernel._program(static).lower(*flat).compile(compiler_options=_OPTIMISED)
        return [np.moveaxis(np.asarray(y), -1, 0) for y in jax.tree.leaves(program(*flat))]


def _agree(
    kernel: Kernel,
    lanes: list[np.ndarray],
    static,
    *,
    close: float = _CLOSE,
    negligible: float = 1e-300,
    host_only: bool = False,
    is_optimised: bool = False,
    is_below: bool = False,
) -> None:
    """The kernel's answers by NumPy, one lane at a time, and by a compiled program, all lanes at once."""
    shape = np.broadcast_shapes(*(np.shape(x) for x in lanes))
    flat = [np.broadcast_to(np.asarray(x, np.float64), shape).reshape(-1) for x in lanes]
    quick = Kernel(kernel._fn, lane_bytes=2**10)
    compiled = _optimised(quick, flat, static) if is_optimised else jax.tree.leaves(quick(*flat, **static))
    for i in range(flat[0].size):
        on_host = jax.tree.leaves(kernel._by_numpy([x[i : i + 1] for x in flat], static))
        for one, many in zip(on_host, compiled, strict=True):
            same = np.asarray(one)[..., 0]
            other = np.moveaxis(many, 0, -1)[..., i]
            if host_only:
                assert np.all(np.isnan(other) | (other == 0.0))
            else:
                _assert_close(same, other, [x[i] for x in flat], close, negligible, is_below)


def _assert_close(
    one: np.ndarray, other: np.ndarray, setting: list[float], close: float, negligible: float, is_below: bool
) -> None:
    with np.errstate(all="ignore"):
        same = np.abs(one - other) <= close * np.abs(other)
        tiny = (other > 0) & (one > 0) & (other < 1e-3)
        same |= tiny & (np.abs(np.log(one) - np.log(other)) <= close * (1.0 - np.log(other)))
    same |= (one == other) | (np.isnan(one) & np.isnan(other))
    if close > 1e-3:  # NumPy is the sharper one, but for what either leaves unsummed
        same &= ~(one < other * (1.0 - 1e-9)) if is_below else ~(one > other * (1.0 + 1e-9))
    same |= (np.abs(one) < negligible) & (np.abs(other) < negligible)  # a program flushes subnormal numbers to 0
    assert np.all(same), (one, other, one - other, setting)


@pytest.mark.sample(5)
@pytest.mark.parametrize(("signature", "name"), list(_cases()))
def test_numpy_and_compiled_programs_agree(signature, name):
    _compare(signature, name)


@pytest.mark.sample(4)
@pytest.mark.parametrize(("signature", "name"), list(_cases(optimised=True)))
def test_numpy_and_optimised_programs_agree(signature, name):
    _compare(signature, name, is_optimised=True)


def _compare(signature, name, **how) -> None:
    rng = np.random.default_rng(_number_of(signature, name))
    several = {"rounds": 3} if signature[0] is ja.Shuffled and name in _SEVERAL_ROUNDS else {}
    mechanism: Mechanism = SETTINGS[signature](rng, **several)
    leaves, structure = jax.tree.flatten(mechanism)
    for method in methods_of(mechanism, LaneMethod, is_batch=True):
        if method.name != name or not isinstance(method, LaneMethod):
            continue
        static, queries = method.statics(mechanism), list(Query)
        if isinstance(method, RenyiMethod):
            if not method.together(static):
                continue
            static, queries = {**static, "orders": _orders(method)}, [Query.EPSILON]
        for query in queries:
            target = _between(1e-12, 0.1, rng=rng) if query is Query.EPSILON else _between(0.01, 5.0, rng=rng)
            kernel, close = _kernel(method, query).of(structure), _SHARPER.get(name, _CLOSE)
            close = _SHARPER_BELOW.get((signature[0], name), close)
            how |= {"negligible": _NEGLIGIBLE.get(name, 1e-300), "host_only": name in _HOST_ONLY}
            how |= {"is_below": Bound.UPPER not in method.ends}
            _agree(kernel, [*leaves, target], static, close=close, **how)


def _number_of(signature, name) -> int:
    """The same in every process."""
    return sum(map(ord, "".join(kind.__name__ for kind in signature) + name))


def _orders(method: RenyiMethod) -> tuple[float, ...]:
    grid = np.asarray(method.grids[0])
    wanted = {float(grid[np.argmin(np.abs(grid - order))]) for order in _ORDERS}
    return tuple(sorted(wanted))


# Kernels of modules


def _curve(rng: np.random.Generator) -> list[np.ndarray]:
    return [_between(1e-3, 5.0, rng=rng) for _ in _ORDERS]


def _pair(rng: np.random.Generator) -> list[np.ndarray]:
    local = _between(0.05, 4.0, rng=rng)
    return [_whole(10.0, 1e5, rng=rng), np.exp(-local), local]


def _users(rng: np.random.Generator) -> list[np.ndarray]:
    return [_whole(10.0, 1e5, rng=rng), _between(0.05, 4.0, rng=rng)]


_WHOLE = (2, 3, 7)
_STATEMENTS = {
    "girgis._from_above._theorem1": lambda rng: ([*_users(rng), rng.uniform(0.1, 0.9, _LANES)], {"orders": _WHOLE}),
    "girgis._from_above._theorem2": lambda rng: ([*_users(rng), 0.5], {"orders": _WHOLE, "sharp": True}),
    "girgis._from_above._earlier": lambda rng: (_users(rng), {"orders": _WHOLE}),
    "girgis._from_above._corollary1": lambda rng: (_users(rng), {"orders": _WHOLE}),
    "girgis._from_above._best_split": lambda rng: (_users(rng), {"orders": _WHOLE}),
    "girgis._from_above._exact": lambda rng: (_users(rng), {"orders": (1.5, 7.0), "nodes": 64, "window": 64}),
    "girgis._from_above._moments": lambda rng: (_users(rng), {"orders": _WHOLE, "nodes": 64}),
    "girgis._from_above._sampled": lambda rng: ([*_users(rng), 0.3], {"orders": _WHOLE, "nodes": 64, "num_bits": 17}),
    "girgis._from_above._chords": lambda rng: ([*np.cumsum(_curve(rng)[:3], axis=0)], {"orders": (1.5, 2.0, 3.5)}),
    "girgis._pairs._by_moments": lambda rng: ([*_users(rng), 0.1], {"orders": _WHOLE, "own": True}),
    "girgis._pairs._by_exponential": lambda rng: (_users(rng), {"orders": (1.5, 7.0), "sharp": True}),
    "girgis._pairs._by_series": lambda rng: ([*_users(rng), 0.5], {"orders": _WHOLE, "num_bits": None}),
    "girgis._pairs._chi_square": lambda rng: (_users(rng)[1:], {}),
    "girgis._pairs._tail": lambda rng: (_users(rng), {"index": 5}),
    "girgis._pairs._log_moments": lambda rng: ([*_users(rng), 0.5], {"top": 7}),
    "girgis._from_below._response": lambda rng: (
        _users(rng),
        {"orders": (1.5, 7.0), "window": 128, "reverse": True},
    ),
    "girgis._from_below._simple": lambda rng: (_users(rng), {"orders": _WHOLE}),
    "girgis._from_below._ternary": lambda rng: (_users(rng), {"orders": (1.5, 7.0), "window": 64}),
    "girgis._from_below._largest": lambda rng: (
        _users(rng),
        {"orders": (1.5, 7.0), "window": 128, "reverse_window": 128, "ternary": 32},
    ),
    "girgis._published._split": lambda rng: (_users(rng), {}),
    "girgis._published._sampled": lambda rng: (
        [rng.uniform(0.01, 0.9, _LANES), *_curve(rng)[:6]],
        {"orders": _WHOLE, "general": True},
    ),
    "clones._reductions._approximate_epsilon": lambda rng: (
        [*_users(rng), np.log(_between(1e-30, 1e-12, rng=rng)), np.log(1e-6)],
        {"window": 512},
    ),
    "clones._reductions._purified_epsilon": lambda rng: (
        [*_users(rng), _between(0.01, 0.1, rng=rng), np.log(1e-6)],
        {"window": 512},
    ),
    "clones._sufficient._fewest_reports": lambda rng: (
        [_between(0.5, 2.0, rng=rng), 0.4, np.log(1e-6), 1e7],
        {"window": 512},
    ),
    "clones._reductions._subsampled": lambda rng: ([_between(0.05, 4.0, rng=rng), -20.0, 0.1], {}),
    "clones._reductions._replaced": lambda rng: ([_between(0.05, 4.0, rng=rng), -20.0], {}),
    "clones._sufficient._sufficient": lambda rng: ([_between(0.05, 4.0, rng=rng), -20.0, 2.0], {}),
    "clones._sufficient._least": lambda rng: ([_between(0.05, 4.0, rng=rng), -20.0, 2.0], {}),
    "clones._reductions._total": lambda rng: ([0.3, -20.0, *_users(rng), -40.0, 3.0], {}),
}


MODULE_KERNELS = {
    "jaxacct.bounds.shuffle._law._delta_ends": lambda rng: (
        [_between(0.01, 3.0, rng=rng), *_pair(rng)],
        {"window": 4096},
    ),
    "jaxacct.bounds.shuffle._law._last_loss": lambda rng: (
        [-_between(1.0, 60.0, rng=rng), *_pair(rng)],
        {"window": 4096},
    ),
    "jaxacct.bounds.allocation._largest_output._log_tail": lambda rng: ([rng.uniform(-9.0, 40.0, _LANES)], {}),
    "jaxacct.membership._GAUSSIAN": lambda rng: ([rng.uniform(0.0, 1.0, _LANES), rng.uniform(0.01, 9.0, _LANES)], {}),
    "jaxacct.membership._CLONES": lambda rng: ([rng.uniform(0.0, 1.0, _LANES), *_pair(rng)], {"window": 1024}),
    "jaxacct.accounting._curves._RDP": None,  # of a structure: below
    "jaxacct.membership._MU": None,
    "jaxacct.accounting._curves._moments_kernel": lambda rng: (
        [_whole(50.0, 1e4, rng=rng), 2.0, 3.0, *(0.3 * c * (c - 1) for c in range(9))],
        {"uneven": True, "num_bits": 14},
    ),
    "jaxacct.conversion._curve_epsilon": lambda rng: (
        [_between(1e-12, 0.1, rng=rng), *_curve(rng)],
        {"orders": _ORDERS},
    ),
    "jaxacct.conversion._curve_delta": lambda rng: ([_between(0.01, 9.0, rng=rng), *_curve(rng)], {"orders": _ORDERS}),
    "jaxacct.composition._weighted_sum": lambda rng: ([*_curve(rng)[:2], 3.0, _whole(1.0, 99.0, rng=rng)], {}),
    "jaxacct.divergence.gaussian._pair._gaussian_log_delta": lambda rng: (
        [_between(0.01, 20.0, rng=rng), _between(1e-4, 9.0, rng=rng)],
        {},
    ),
}
"""Arguments for each kernel of a module that NumPy can evaluate, by its name."""
STATEMENTS = {f"jaxacct.papers.{name}": arguments for name, arguments in _STATEMENTS.items()}
"""The same for the statements of the papers."""
# optimised in 5 seconds and more
_SLOW_KERNELS = {"jaxacct.membership._CLONES", "jaxacct.papers.girgis._from_below._largest"}
_SLOW_KERNELS |= {f"jaxacct.papers.clones._reductions.{name}" for name in ("_approximate_epsilon", "_purified_epsilon")}
_SLOW_KERNELS |= {"jaxacct.papers.clones._sufficient._fewest_reports"}


def _module_kernels():
    for info in pkgutil.walk_packages(ja.__path__, "jaxacct."):
        try:
            module = importlib.import_module(info.name)
        except ImportError:  # of an optional package
            continue
        for name, value in vars(module).items():
            if isinstance(value, Kernel | KernelByStructure):
                yield f"{info.name}.{name}", value


def test_every_kernel_of_a_module_on_the_host_has_arguments():
    found = {}
    for name, kernel in _module_kernels():
        if kernel._running.get("on_host"):
            found.setdefault(id(kernel), []).append(name)
    for names in found.values():
        assert (MODULE_KERNELS | STATEMENTS).keys() & set(names), f"arguments wanted for {names}"


def _kernel_cases(table):
    for name, is_optimised in itertools.product(
        (name for name, arguments in table.items() if arguments), (False, True)
    ):
        marks = [pytest.mark.slow] if is_optimised and name in _SLOW_KERNELS else []
        yield pytest.param(name, is_optimised, marks=marks)


@pytest.mark.sample(4)
@pytest.mark.parametrize(("name", "is_optimised"), list(_kernel_cases(MODULE_KERNELS)))
def test_kernels_of_modules_agree(name, is_optimised):
    _compare_kernel(name, MODULE_KERNELS[name], is_optimised)


@pytest.mark.sample(3)
@pytest.mark.parametrize(("name", "is_optimised"), list(_kernel_cases(STATEMENTS)))
def test_kernels_of_statements_agree(name, is_optimised):
    _compare_kernel(name, STATEMENTS[name], is_optimised)


def _compare_kernel(name, arguments, is_optimised):
    module, attribute = name.rsplit(".", 1)
    lanes, static = arguments(np.random.default_rng(len(name)))
    _agree(getattr(importlib.import_module(module), attribute), lanes, static, is_optimised=is_optimised)


def test_renyi_curves_agree():
    run = ja.PoissonSampled(ja.Gaussian(0.8), 0.01, 100)
    one = ja.rdp(run, _ORDERS).values
    with _ways.of_many_points():
        np.testing.assert_allclose(one, ja.rdp(run, _ORDERS).values, rtol=_CLOSE)


def test_distances_of_gaussians_agree():
    run = ja.Composed((ja.Gaussian(0.8), ja.Gaussian(3.0)), (3, 100))
    one = ja.gdp(run)
    with _ways.of_many_points():
        np.testing.assert_allclose(one, ja.gdp(run), rtol=_CLOSE)
