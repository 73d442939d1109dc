"""`on_host=True`: traced code gets the answers of outside, and compiles nothing for them."""

import math
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxacct as ja
from jaxacct import _precision

DELTA = 1e-6
WITH_64_BITS = pytest.mark.usefixtures("with_64_bits")

ASKED = {
    "epochs": lambda s: ja.RandomAllocation(ja.Gaussian(s), 50, 1, 3),
    "k of t": lambda s: ja.RandomAllocation(ja.Gaussian(s), 36, 9),
    "Poisson": lambda s: ja.PoissonSampled(ja.Gaussian(s), 0.02, 300),
    "Laplace": lambda s: ja.PoissonSampled(ja.Laplace(s), 0.02, 300),
    "reports": lambda s: ja.Shuffled(ja.LocalRandomizer(s), 10_000),
    "mixture": lambda s: ja.MixtureOfGaussians(s, (1.0, 0.5), (0.5, 0.5)),
    "replaced": lambda s: ja.ReplaceOne(ja.RandomAllocation(ja.Gaussian(s), 50)),
    "group": lambda s: ja.Group(ja.PoissonSampled(ja.Gaussian(s), 0.02, 30), 2),
    "composed": lambda s: ja.Composed([ja.PoissonSampled(ja.Gaussian(s), 0.02, 300), ja.Gaussian(4.0)]),
}


@pytest.fixture
def with_64_bits() -> Any:
    with jax.enable_x64(True):
        yield


@WITH_64_BITS
@pytest.mark.parametrize("name", ASKED)
def test_answers_are_those_of_outside(name: str) -> None:
    mechanism = ASKED[name]
    inside = jax.jit(lambda s, d: ja.epsilon(mechanism(s), d, on_host=True))(1.25, DELTA)
    assert float(inside) == ja.epsilon(mechanism(1.25), DELTA)
    inside = jax.jit(lambda s, e: ja.delta(mechanism(s), e, on_host=True))(1.25, 0.5)
    assert float(inside) == ja.delta(mechanism(1.25), 0.5)


def test_choices_are_those_of_outside() -> None:
    run, choices = ASKED["Poisson"], {"direction": "add", "method": "rdp (add)", "prefix": (0.5, 1e-7)}
    with jax.enable_x64(True):
        inside = jax.jit(lambda s: ja.epsilon(run(s), DELTA, on_host=True, **choices))(1.25)
    assert float(inside) == ja.epsilon(run(1.25), DELTA, **choices)


@WITH_64_BITS
@pytest.mark.parametrize("name", ["epochs", "replaced"])
def test_slopes_are_those_of_outside(name: str) -> None:
    mechanism = ASKED[name]
    value, slope = jax.jit(jax.value_and_grad(lambda s: ja.epsilon(mechanism(s), DELTA, on_host=True)))(1.25)
    outside, wanted = jax.value_and_grad(lambda s: ja.epsilon(mechanism(s), DELTA))(1.25)
    assert float(value) == float(outside)
    assert float(slope) == float(wanted) < 0.0


def test_each_slope_belongs_to_its_number() -> None:
    def epsilon(s: Any, q: Any, d: Any, *, on_host: bool) -> Any:
        return ja.epsilon(ja.PoissonSampled(ja.Gaussian(s), q, 300), d, on_host=on_host)

    at = 1.25, 0.02, DELTA
    inside = jax.jit(jax.grad(lambda *x: epsilon(*x, on_host=True), (0, 2)))(*at)
    outside = jax.grad(lambda *x: epsilon(*x, on_host=False), (0, 2))(*at)
    np.testing.assert_allclose(inside, outside, rtol=1e-5)
    assert inside[0] < 0.0
    assert inside[1] < 0.0


def test_upper_ends_are_rounded_up_to_the_program_s_floats() -> None:
    noises = np.linspace(0.8, 1.2, 9, dtype=np.float32)
    with jax.enable_x64(False):
        inside = jax.jit(lambda s: ja.epsilon(ja.Gaussian(s), DELTA, on_host=True))(noises)
    outside = ja.epsilon(ja.Gaussian(noises.astype(np.float64)), DELTA)
    assert inside.dtype == jnp.float32
    assert np.all(np.asarray(inside, np.float64) >= outside)
    assert np.all(np.asarray(inside, np.float64) <= outside * (1.0 + 2.0**-22))


def test_a_mapped_program_asks_for_its_batch_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    calls = []
    find = ja.accounting._slopes.TracedQuestion.find
    monkeypatch.setattr(ja.accounting._slopes.TracedQuestion, "find", lambda *of: calls.append(of) or find(*of))

    def epsilon(s: Any, n: Any) -> Any:
        return ja.epsilon(ja.PoissonSampled(ja.Gaussian(s), jnp.array([0.01, 0.02]), n), DELTA, on_host=True)

    noises, counts = np.array([1.0, 1.5, 2.0]), np.array([10, 20, 30, 40])
    inside = jax.jit(jax.vmap(jax.vmap(epsilon, (None, 0)), (0, None)))(noises, counts)
    assert len(calls) == 1
    run = ja.PoissonSampled(ja.Gaussian(noises[:, None, None]), np.array([0.01, 0.02]), counts[None, :, None])
    np.testing.assert_allclose(inside, ja.epsilon(run, DELTA), rtol=1e-6)


def test_in_a_scan() -> None:
    def step(total: Any, n: Any) -> Any:
        epsilon = ja.epsilon(ja.PoissonSampled(ja.Gaussian(1.0), 0.02, n), DELTA, on_host=True)
        return total + epsilon, epsilon

    total, each = jax.jit(lambda counts: jax.lax.scan(step, 0.0, counts))(np.array([10, 20, 30]))
    outside = ja.epsilon(ja.PoissonSampled(ja.Gaussian(1.0), 0.02, np.array([10, 20, 30])), DELTA)
    np.testing.assert_allclose(each, outside, rtol=1e-6)
    assert float(total) == pytest.approx(outside.sum(), rel=1e-6)


def test_no_kernel_is_put_into_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> Any:
        raise AssertionError("a kernel was put into a program")

    monkeypatch.setattr(_precision.Kernel, "_traced_program", refuse)

    def slope(*, on_host: bool) -> Any:
        return jax.jit(jax.grad(lambda s: ja.epsilon(ASKED["epochs"](s), DELTA, on_host=on_host)))

    assert float(slope(on_host=True)(1.25)) < 0.0
    with pytest.raises(AssertionError, match="a kernel was put"):
        slope(on_host=False)(1.25)


def test_concrete_questions_are_the_host_s_anyway() -> None:
    assert ja.epsilon(ja.Gaussian(1.0), DELTA, on_host=True) == ja.epsilon(ja.Gaussian(1.0), DELTA)


def test_a_curve_is_not_asked_on_the_host() -> None:
    with pytest.raises(ValueError, match="on_host=True must be False for an RdpCurve"):
        ja.epsilon(ja.rdp(ja.Gaussian(1.0), [2.0, 3.0]), DELTA, on_host=True)


def test_what_is_wrong_is_said_when_it_is_known() -> None:
    with pytest.raises(ValueError, match="direction='sideways'"):
        jax.jit(lambda s: ja.epsilon(ja.Gaussian(s), DELTA, on_host=True, direction="sideways"))(1.0)
    with pytest.raises(ValueError, match="precision=-1"):
        jax.jit(lambda s: ja.epsilon(ja.Gaussian(s), DELTA, on_host=True, precision=-1.0))(1.0)
    with pytest.raises(Exception, match=r"noise_multiplier=-1\.0 must be > 0"):
        jax.block_until_ready(jax.jit(lambda s: ja.epsilon(ja.Gaussian(s), DELTA, on_host=True))(-1.0))
    slope = jax.jit(jax.grad(lambda e: ja.delta(ja.Gaussian(1.0), e, on_host=True)))
    with pytest.raises(Exception, match="no derivative with respect to a number that is 0"):
        jax.block_until_ready(slope(0.0))


@pytest.mark.parametrize("delta", [0.0, -1.0, 1.0, 2.0, math.nan, math.inf])
@pytest.mark.parametrize("name", ["reports", "epochs"])
def test_a_target_out_of_range_is_an_error(name: str, delta: float) -> None:
    with pytest.raises(Exception, match=r"target_delta=.* must be in \(0, 1\)"):
        jax.block_until_ready(jax.jit(lambda d: ja.epsilon(ASKED[name](1.0), d, on_host=True))(delta))


@pytest.mark.parametrize("epsilon", [-0.5, math.nan, math.inf])
def test_so_is_a_target_epsilon(epsilon: float) -> None:
    with pytest.raises(Exception, match=r"target_epsilon=.* must be >= 0 and finite"):
        jax.block_until_ready(jax.jit(lambda e: ja.delta(ja.Gaussian(1.0), e, on_host=True))(epsilon))


def test_second_derivatives_are_refused() -> None:
    with pytest.raises(ValueError, match="on_host=True gives no second derivatives"):
        jax.grad(jax.grad(lambda s: ja.epsilon(ja.Gaussian(s), DELTA, on_host=True)))(1.25)


def test_answers_differ_between_the_devices_of_a_shard_map() -> None:
    mesh = jax.sharding.Mesh(np.array(jax.devices()[:1]), ("x",))
    spread, same = jax.sharding.PartitionSpec("x"), jax.sharding.PartitionSpec()
    noises = np.array([1.0, 1.5])

    def run(s: Any, q: Any) -> Any:
        return ja.PoissonSampled(ja.Gaussian(s), q, 30)

    def mapped(out: Any) -> Any:
        def epsilon(s: Any, q: Any) -> Any:
            return ja.epsilon(run(s, q), DELTA, on_host=True)

        return jax.shard_map(epsilon, mesh=mesh, in_specs=(spread, same), out_specs=out)

    slopes = jax.jit(jax.grad(lambda *x: mapped(spread)(*x).sum(), (0, 1)))(noises, 0.02)
    outside = jax.grad(lambda s, q: ja.epsilon(run(s, q), DELTA).sum(), (0, 1))(noises, 0.02)
    for found, wanted in zip(slopes, outside, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-5)
    with pytest.raises(ValueError, match="out_specs which require replication"):
        jax.jit(mapped(same))(noises, 0.02)
