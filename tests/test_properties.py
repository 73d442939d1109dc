"""What must hold of the public answers, whichever method gives them."""

import functools
import itertools
import math
import re

import jax
import jax.numpy as jnp
import mpmath as mp
import numpy as np
import pytest

import jaxacct as ja
from jaxacct import Direction

TOL_MONOTONE = 1e-9  # the relative slack of two certified bounds that are equal in truth
TOL_ROUNDING = 1e-12  # different routes to the same bound
TOL_CONVERSION = 1e-13  # rounding added by a conversion
TOL_GAUSSIAN = 1e-12  # epsilon of the exact Gaussian
NAN, INF = float("nan"), float("inf")

# the quick methods, as inside jit; the engines have their own tests
epsilon_of = functools.partial(ja.epsilon, precision=math.inf)
delta_of = functools.partial(ja.delta, precision=math.inf)

# an optimal order on the edge of the grid leaves a bound valid
loose_is_fine = pytest.mark.filterwarnings("ignore::jaxacct.OrderEdgeWarning")


def allocation(sigma=1.0, num_steps=1000, num_selected=1, num_epochs=1):
    return ja.RandomAllocation(
        ja.Gaussian(sigma), num_steps=num_steps, num_selected=num_selected, num_epochs=num_epochs
    )


def poisson(sigma=1.0, sampling_prob=0.01, num_steps=1000):
    return ja.PoissonSampled(ja.Gaussian(sigma), sampling_prob=sampling_prob, num_steps=num_steps)


def decreasing(values):
    return np.all(values[1:] <= values[:-1] * (1 + TOL_MONOTONE))


def increasing(values):
    return decreasing(values[::-1])


SIGMAS = np.geomspace(0.6, 8.0, 8)
DELTAS = np.geomspace(1e-12, 1e-2, 8)
FACTORS = np.array([1, 2, 3, 5, 8, 20, 50, 200])


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("build", "values", "direction"),
    [
        (lambda v: ja.Gaussian(v), SIGMAS, decreasing),
        (lambda v: poisson(sigma=v), SIGMAS, decreasing),
        (lambda v: poisson(sampling_prob=v), np.geomspace(1e-3, 1.0, 8), increasing),
        (lambda v: poisson(num_steps=v), 10 * FACTORS, increasing),
        (lambda v: allocation(sigma=v), 0.4 * SIGMAS, decreasing),
        (lambda v: allocation(num_steps=v), 10 * FACTORS, decreasing),
        (lambda v: allocation(num_steps=1000, num_selected=v), FACTORS, increasing),
        (lambda v: allocation(num_epochs=v), FACTORS, increasing),
        (lambda v: ja.Composed(ja.Gaussian(4.0), v), FACTORS, increasing),
    ],
    ids=[
        "Gaussian noise", "Poisson noise", "Poisson prob", "Poisson steps", "allocation noise", "allocation steps",
        "allocation selected", "allocation epochs", "Composed counts",
    ],
)  # fmt: skip
def test_epsilon_is_monotone(build, values, direction):
    answers = epsilon_of(build(values), target_delta=1e-6)
    assert answers.shape == (8,)
    assert np.all(np.isfinite(answers) & (answers > 0))
    assert direction(answers)


@loose_is_fine
@pytest.mark.parametrize(
    ("mechanism", "close", "over"),
    # the upper ends of allocation's bracket on lanes, for epsilon and for delta, are each a bound of its own
    [(ja.Gaussian(1.0), 1e-6, 1e-9), (poisson(), 1e-6, 1e-9), (allocation(), 1e-3, 1e-5)],
    ids=lambda value: type(value).__name__,
)
def test_epsilon_and_delta_are_inverse(mechanism, close, over):
    epsilons = epsilon_of(mechanism, target_delta=DELTAS)
    assert decreasing(epsilons)
    deltas = delta_of(mechanism, target_epsilon=epsilons)
    assert decreasing(deltas[::-1])
    # rounding errors of epsilon, times the slope of log delta
    assert np.all(deltas <= DELTAS * (1 + over))
    again = epsilon_of(mechanism, target_delta=deltas)
    np.testing.assert_allclose(again, epsilons, rtol=close)


def gaussian_log_delta(epsilon, mu):
    epsilon, mu = mp.mpf(epsilon), mp.mpf(mu)
    x = epsilon / mu - mu / 2
    return mp.log(mp.ncdf(-x) - mp.exp(epsilon) * mp.ncdf(-x - mu))


def assert_exact_gaussian(epsilon, mu, delta):
    with mp.workdps(60):
        assert gaussian_log_delta(epsilon, mu) <= mp.log(mp.mpf(delta))
        assert gaussian_log_delta(epsilon * (1 - TOL_GAUSSIAN), mu) > mp.log(mp.mpf(delta))


@pytest.mark.more
def test_limits_are_the_exact_gaussian():
    for sigma, delta in ((1.0, 1e-6), (3.0, 1e-10)):
        with mp.workdps(60):
            assert_exact_gaussian(epsilon_of(ja.Gaussian(sigma), delta), 1 / mp.mpf(sigma), delta)
            assert_exact_gaussian(epsilon_of(allocation(sigma, 1), delta), 1 / mp.mpf(sigma), delta)
            assert_exact_gaussian(epsilon_of(allocation(sigma, 9, 9), delta), 3 / mp.mpf(sigma), delta)
            assert_exact_gaussian(epsilon_of(allocation(sigma, 9, 9, 4), delta), 6 / mp.mpf(sigma), delta)
            assert_exact_gaussian(epsilon_of(poisson(sigma, 1.0, 4), delta), 2 / mp.mpf(sigma), delta)
            assert_exact_gaussian(epsilon_of(ja.Composed(ja.Gaussian(sigma), 4), delta), 2 / mp.mpf(sigma), delta)
    exact = epsilon_of(ja.Gaussian(1.0), DELTAS)
    for limit in (allocation(1.0, 1), allocation(3.0, 9, 9), poisson(1.0, 1.0, 1)):
        np.testing.assert_allclose(epsilon_of(limit, DELTAS), exact, rtol=TOL_ROUNDING)


def test_amplification_never_hurts():
    """No answer is above the one that throws the sampling away."""
    for mechanism, uses in ((allocation(SIGMAS, 10, 3, 2), 6), (poisson(SIGMAS, 0.3, 6), 6)):
        unamplified = epsilon_of(ja.Gaussian(SIGMAS / math.sqrt(uses)), 1e-6)
        assert np.all(epsilon_of(mechanism, 1e-6) <= unamplified * (1 + TOL_ROUNDING))


@pytest.mark.more
def test_floor_and_ceil_are_never_worse_than_floor():
    """The paper's k groups of floor(t/k) steps, against groups that use every step (RA-S4)."""
    orders = [2.0, 3.0, 32.0]
    for t, k in ((7, 2), (100, 33), (11, 10)):
        ours, floor = (
            ja.rdp(m, orders, direction=Direction.REMOVE).values
            for m in (allocation(SIGMAS, t, k), allocation(SIGMAS, t // k, 1, k))
        )
        assert np.all(ours <= floor * (1 + TOL_ROUNDING))
    ours, floor = (
        ja.rdp(m, [2.0, 3.0], direction=Direction.ADD).values
        for m in (allocation(SIGMAS, 1000, 7), allocation(SIGMAS, 142, 1, 7))
    )
    assert np.all(ours <= floor * (1 + TOL_MONOTONE))
    # where k divides t there is nothing to gain
    np.testing.assert_allclose(
        ja.rdp(allocation(SIGMAS, 100, 5), orders, direction=Direction.REMOVE).values,
        ja.rdp(allocation(SIGMAS, 20, 1, 5), orders, direction=Direction.REMOVE).values,
        rtol=TOL_ROUNDING,
    )


def test_composed_of_one_is_itself():
    orders = [1.5, 2.0, 17.0]
    for mechanism in (ja.Gaussian(2.0), poisson(), allocation()):
        one = ja.Composed(mechanism)
        np.testing.assert_allclose(ja.rdp(one, orders).values, ja.rdp(mechanism, orders).values, rtol=TOL_ROUNDING)
    assert epsilon_of(ja.Composed(ja.Gaussian(2.0)), 1e-6) == pytest.approx(
        epsilon_of(ja.Gaussian(2.0), 1e-6), rel=TOL_ROUNDING
    )
    assert epsilon_of(ja.Composed(poisson()), 1e-6) == pytest.approx(epsilon_of(poisson(), 1e-6), rel=TOL_ROUNDING)


def test_composition_of_many():
    orders = [1.5, 2.0, 17.0]
    parts, counts = (ja.Gaussian(2.0), poisson(num_steps=1), allocation(num_epochs=1)), (3, 1000, 4)
    whole = ja.rdp(ja.Composed(parts, counts), orders)
    assert whole.bound is ja.Bound.UPPER
    # the worse direction of each part, then the sum: never below the worse direction of the sum
    added = ja.compose([ja.rdp(p, orders) for p in parts], counts)
    assert np.all(whole.values <= added.values * (1 + TOL_ROUNDING))
    by_hand = sum(c * ja.rdp(p, orders).values for p, c in zip(parts, counts, strict=True))
    np.testing.assert_allclose(added.values, by_hand, rtol=TOL_ROUNDING)
    assert np.all(added.values >= by_hand)
    np.testing.assert_allclose(
        ja.rdp(allocation(num_epochs=4), orders).values,
        ja.compose(ja.rdp(allocation(), orders), counts=4).values,
        rtol=TOL_ROUNDING,
    )


def test_compose_rejects_what_does_not_add_up():
    curve, other = ja.rdp(ja.Gaussian(1.0), [2.0, 3.0]), ja.rdp(ja.Gaussian(1.0), [2.0, 4.0])
    with pytest.raises(ValueError, match="orders"):
        ja.compose([curve, other])
    with pytest.raises(ValueError, match="counts"):
        ja.compose([curve, curve], counts=[1])
    with pytest.raises(ValueError, match=r"counts=0 must be a whole number in \[1"):
        ja.compose(curve, counts=0)
    with pytest.raises(ValueError, match="at least one"):
        ja.compose([])


def test_a_curve_converts_to_the_safe_side():
    """Canonne, Kamath and Steinke 2020, Proposition 12, at one order."""
    with mp.workdps(50):
        for order in (1.02, 1.5, 2.0, 2.415, 2.42, 2.45, 2.5, 2.7, 3.0, 10.0, 100.0, 1000.0):
            curve = ja.rdp(ja.Gaussian(3.0), [order])
            a, r = mp.mpf(order), mp.mpf(float(curve.values[0]))
            for delta in (1e-300, 1e-10, 1e-3):
                truth = r + mp.log1p(-1 / a) - mp.log(delta * a) / (a - 1)
                above = mp.mpf(epsilon_of(curve, delta)) - max(truth, 0)
                assert 0 <= above <= TOL_CONVERSION * (1 + abs(truth)), (order, delta)
            for epsilon in (0.5, 3.0):
                truth = mp.exp((a - 1) * (r - epsilon) + a * mp.log1p(-1 / a) - mp.log(a - 1))
                above = mp.mpf(delta_of(curve, epsilon)) / min(truth, 1) - 1
                assert 0 <= above <= TOL_CONVERSION * (1 + (order - 1) * epsilon), (order, epsilon)


def test_arrays_broadcast_and_equal_the_scalars():
    sigma, delta = np.array([0.8, 1.0, 2.0])[:, None], np.array([1e-8, 1e-5])
    for build in (ja.Gaussian, poisson, allocation):
        table = epsilon_of(build(sigma), delta)
        assert table.shape == (3, 2)
        assert table.dtype == np.float64
        for i, j in itertools.product(range(3), range(2)):
            scalar = epsilon_of(build(float(sigma[i, 0])), float(delta[j]))
            assert type(scalar) is float
            # four questions of allocation or more at once are answered by lines of their own, to 1e-6
            assert table[i, j] == pytest.approx(scalar, rel=1e-6 if build is allocation else TOL_ROUNDING)
    mixed = allocation(np.array([0.8, 1.0]), np.array([10, 1000]), np.array([3, 1]), np.array([1, 5]))
    for i, args in enumerate(((0.8, 10, 3, 1), (1.0, 1000, 1, 5))):
        assert epsilon_of(mixed, 1e-6)[i] == pytest.approx(epsilon_of(allocation(*args), 1e-6), rel=TOL_ROUNDING)
    assert ja.rdp(ja.Gaussian(sigma), [2.0, 3.0, 4.0]).values.shape == (3, 1, 3)


def test_lists_are_arrays():
    sigmas = [1.0, 2.0]
    np.testing.assert_array_equal(epsilon_of(ja.Gaussian(np.array(sigmas)), 1e-6).shape, (2,))
    curve = ja.rdp(ja.Gaussian(1.0), [2, 3])
    assert epsilon_of(curve, [1e-6, 1e-5]).shape == (2,)


def test_compare_lists_what_epsilon_chooses_from():
    for mechanism in (ja.Gaussian(1.0), poisson(), allocation(), allocation(1.0, 10, 3)):
        entries = ja.compare(mechanism, target_delta=1e-6, precision=math.inf)
        assert all(e.bound is ja.Bound.UPPER for e in entries)
        by_direction = {d: min(e.value for e in entries if e.direction is d) for d in Direction}
        for direction, value in by_direction.items():
            chosen = epsilon_of(mechanism, 1e-6, direction=direction)
            assert chosen == pytest.approx(value, rel=TOL_ROUNDING)


@pytest.mark.more
def test_compare_of_batches_in_any_field():
    """The methods on lanes, each with a value for every point; those on the host are not asked whether they apply."""
    shuffle = ja.Shuffled(ja.LocalRandomizer(np.array([0.5, 1.0])), 1000, np.array([2, 3]))
    entries = ja.compare(shuffle, target_delta=1e-6)
    assert entries
    assert all(entry.value.shape == (2,) for entry in entries)


# Exact values of 1-out-of-t allocation: our specification's anchor numbers (spectral inversion, 12 digits or more)
EXACT_DELTAS = [
    # sigma, t, epsilon, epochs, remove, add
    (1.0, 100, 0.5, 1, 4.40890803386304e-5, 5.92528369170911e-7),
    (1.0, 1000, 0.2, 1, 2.03724929707738e-7, 2.01024326311673e-9),
    (2.0, 10, 0.5, 1, 1.13084995654202e-4, 7.17262403162757e-5),
    (1.0, 2, 0.5, 1, 0.149177523135520, 0.142686965823743),
    (0.75, 10**4, 0.5, 1, 2.95102907675897e-10, None),
    (1.0, 10**4, 0.1, 1, 1.08448496707899e-11, 4.81370819265476e-18),
    (1.0, 100, 1.0, 10, 2.00149278172732e-3, 1.35470449085824e-3),
    (1.0, 100, 2.0, 50, 1.26654035007e-2, 1.11219699606e-2),
]
# The same by the algorithms note, section F "Values": exact epsilons. At sigma 0.5 the note has 4.106015966 and
# 7.3772789; enclosures in ball arithmetic of delta there are 9.9999986e-7 and 9.675e-11, and of what stands here 1e-6
# and 1e-10.
EXACT_EPSILONS = [
    # sigma, t, delta, remove, add
    (1.0, 1000, 1e-6, 0.1717286846, 0.1494309549),
    (1.0, 100, 1e-6, 0.857985977, 0.486425090),
    (0.5, 1000, 1e-6, 4.1060159088, 0.561020891),
    (0.5, 1000, 1e-10, 7.3669657601, None),
    (2.0, 10**4, 1e-8, 0.022917321, 0.022865203),
    (1.0, 10**5, 1e-6, 0.013029001, 0.012923727),
    (0.5, 10**5, 1e-6, 0.469128515, 0.069178344),
    (0.8, 10**6, 1e-8, 0.007957045, 0.007872190),
]


def exact_cases(rows):
    for *query, remove, add in rows:
        for direction, value in ((Direction.REMOVE, remove), (Direction.ADD, add)):
            if value is not None:
                yield direction, query, value


@loose_is_fine
@pytest.mark.parametrize("direction", list(Direction))
def test_delta_is_never_below_the_exact_one(direction):
    rows = [(q, v) for d, q, v in exact_cases(EXACT_DELTAS) if d is direction]
    sigma, t, epsilon, epochs = map(np.array, zip(*(q for q, _ in rows), strict=True))
    exact = np.array([v for _, v in rows])
    got = delta_of(allocation(sigma, t, 1, epochs), epsilon, direction=direction)
    assert np.all(got >= exact * (1 - 1e-11))
    # our specification's anchor number for k = 2 of t = 3, exact over both directions
    assert delta_of(allocation(1.0, 3, 2), 0.5) >= 0.3157157088


@loose_is_fine
@pytest.mark.parametrize("direction", list(Direction))
def test_epsilon_is_never_below_the_exact_one(direction):
    rows = [(q, v) for d, q, v in exact_cases(EXACT_EPSILONS) if d is direction]
    sigma, t, delta = map(np.array, zip(*(q for q, _ in rows), strict=True))
    exact = np.array([v for _, v in rows])
    got = epsilon_of(allocation(sigma, t), delta, direction=direction)
    assert np.all(got >= exact * (1 - 1e-7))  # digits printed


def test_rdp_agrees_with_the_exact_anchors():
    """Anchors of our specification: both directions at sigma = 1, t = 100; remove at fractional orders by the chord."""
    add = ja.rdp(allocation(1.0, 100), [1.5, 2.0, 3.0, 32.0], direction=Direction.ADD).values
    np.testing.assert_allclose(
        add, [0.0125255424190512, 0.0166413892131402, 0.0247933531222794, 0.235946210714721], rtol=1e-12
    )
    exact = np.array([0.012722574938635, 0.02139271034181, 0.066549677760794])
    remove = ja.rdp(allocation(1.0, 100), [1.5, 2.5, 7.25], direction=Direction.REMOVE).values
    assert np.all(remove >= exact * (1 - 1e-13))
    np.testing.assert_allclose(remove, exact, rtol=0.1)
    np.testing.assert_allclose(remove[0], exact[0], rtol=1e-9)


# Errors

GAUSSIAN = ja.Gaussian(1.0)
POSITIVE = "> 0 and finite"
COUNT = r"a whole number in \[1, 9007199254740992\]"


def bad_fields():
    """(name, rule, builder, bad values) of each argument."""
    yield "noise_multiplier", POSITIVE, ja.Gaussian, [0.0, -1.0, NAN, INF, -INF]
    yield "sampling_prob", r"in \[0, 1\]", lambda v: ja.PoissonSampled(GAUSSIAN, v, 1), [-0.1, 1.5, NAN, INF]
    counts = [0, -1, 1.5, NAN, INF, 2**60]
    yield "num_steps", COUNT, lambda v: ja.PoissonSampled(GAUSSIAN, 0.1, v), counts
    yield "num_steps", COUNT, lambda v: ja.RandomAllocation(GAUSSIAN, v), counts
    yield "num_selected", COUNT, lambda v: ja.RandomAllocation(GAUSSIAN, 10, v), counts
    yield "num_epochs", COUNT, lambda v: ja.RandomAllocation(GAUSSIAN, 10, 1, v), counts
    yield "counts", COUNT, lambda v: ja.Composed(GAUSSIAN, v), counts
    yield "target_delta", r"in \(0, 1\)", lambda v: epsilon_of(GAUSSIAN, v), [0.0, 1.0, -1e-6, 2.0, NAN, INF]
    yield "target_epsilon", ">= 0 and finite", lambda v: delta_of(GAUSSIAN, v), [-1.0, NAN, INF]
    yield "target_delta", r"in \(0, 1\)", lambda v: ja.compare(GAUSSIAN, v), [0.0, NAN]
    yield "target_epsilon", ">= 0", lambda v: ja.compare(GAUSSIAN, target_epsilon=v), [-1.0, NAN]
    yield "orders", ">= 1", lambda v: ja.rdp(GAUSSIAN, v), [0.5, -2.0, NAN]


@pytest.mark.parametrize(
    ("name", "rule", "build", "value"),
    [
        pytest.param(name, rule, build, value, id=f"{i}-{name}={value}")
        for i, (name, rule, build, values) in enumerate(bad_fields())
        for value in values
    ],
)
def test_bad_numbers(name, rule, build, value):
    shown = re.escape(str(float(value) if name == "orders" else value))
    with pytest.raises(ValueError, match=rf"{name}={shown}.* must be {rule}"):
        build(value)
    with pytest.raises(ValueError, match=rf"{name}=.* in an array must be {rule}"):
        build(np.array([value, value]))


COMPARES = (9, 10)
NOT_A_NUMBER = [
    pytest.param(name, build, value, id=f"{i}-{name}={value!r}")
    for i, (name, _, build, _) in enumerate(bad_fields())
    for value in ("1", None, True, 1j)
    # None is a default target of `compare`, and a placeholder in a pytree's fields until a question is asked
    if not (value is None and ((name.startswith("target_") and i in COMPARES) or not name.startswith("target_")))
]


@pytest.mark.parametrize(("name", "build", "value"), NOT_A_NUMBER)
def test_what_is_no_number(name, build, value):
    with pytest.raises(ValueError, match=name):
        build(value)


def test_no_field_may_be_missing_when_asked():
    with pytest.raises(ValueError, match="num_steps=None must be a number"):
        epsilon_of(ja.RandomAllocation(GAUSSIAN, num_steps=None), 1e-6)


def test_more_selected_than_steps():
    with pytest.raises(ValueError, match="num_selected=11 must be <= num_steps=10"):
        ja.RandomAllocation(GAUSSIAN, num_steps=10, num_selected=11)
    with pytest.raises(ValueError, match="num_selected=4 must be <= num_steps=3"):
        ja.RandomAllocation(GAUSSIAN, num_steps=np.array([10, 3]), num_selected=4)


@pytest.mark.parametrize(
    ("run", "name"),
    [
        (ja.RandomAllocation(ja.Gaussian(1.0), 100, 5), "largest output"),
        (ja.RandomAllocation(ja.Gaussian(1.0), 100, 5), "threshold test"),
        (ja.RandomAllocation(ja.Gaussian(1.0), 100, 5), "exact, from below"),
        (ja.Shuffled(ja.LocalRandomizer(1.0), 1000), "binary randomized response"),
    ],
)
def test_a_lower_bound_is_not_taken_for_an_answer(run, name):
    field = "noise_multiplier" if isinstance(run, ja.RandomAllocation) else "local_epsilon"
    for ask in (
        lambda: ja.epsilon(run, 1e-6, method=name),
        lambda: ja.delta(run, 0.5, method=name),
        lambda: ja.calibrate(run, field, 0.1, 1e-6, method=name),
    ):
        with pytest.raises(ValueError, match=f"method='{name}' "):
            ask()


def test_the_loss_distribution_is_a_method():
    run = ja.RandomAllocation(ja.Gaussian(1.0), 10)
    exact = ja.epsilon(run, 1e-6, method="exact")
    assert exact <= ja.epsilon(run, 1e-6, method="loss distribution") <= 1.02 * exact


@pytest.mark.parametrize("setting", [jax.debug_nans(True), jax.debug_infs(True), jax.disable_jit()])
def test_debugging_does_not_change_answers(setting):
    plain = epsilon_of(allocation(), 1e-6)
    with setting:
        assert epsilon_of(allocation(), 1e-6) == plain
        assert ja.epsilon(ja.Gaussian(1.5), 1e-6) > 0


@pytest.mark.slow
@pytest.mark.parametrize("noise_multiplier", [1.3, 4.1, 4.3])
@pytest.mark.parametrize(
    "build",
    [
        lambda s: ja.ScheduledAllocation((s, 2.0), (10, 20)),
        lambda s: ja.PartialAllocation(ja.Gaussian(s), 30, 30),
        lambda s: ja.CheckIn(ja.GaussianReports(s), 1000, 0.1),
    ],
    ids=["schedule", "finished", "check-in"],
)
def test_gradients_are_numbers(build, noise_multiplier):
    assert -np.inf < jax.grad(lambda s: ja.epsilon(build(s), 1e-6))(noise_multiplier) <= 0.0


@pytest.mark.more
@pytest.mark.parametrize(
    "run",
    [
        ja.CheckIn(ja.GaussianReports(2.0), 20, 0.5),
        ja.Shuffled(ja.GaussianReports(2.0), 20, 4),
        pytest.param(ja.CheckIn(ja.GaussianReports(2.0), 20, 1.0, 4), marks=pytest.mark.slow),  # equal to the shuffle
    ],
    ids=["check-ins", "shuffles", "all check in"],
)
def test_gaussian_reports_are_never_worse_than_unshuffled(run):
    local = ja.Gaussian(1.0 / math.sqrt(run.num_epochs))
    assert ja.epsilon(run, 1e-6) <= ja.epsilon(local, 1e-6) * (1 + 1e-11)  # a search, beside a closed form
    assert ja.delta(run, 3.0) <= ja.delta(local, 3.0) * (1 + TOL_ROUNDING)


@pytest.mark.slow
def test_rounds_of_gaussian_reports_keep_their_amplification():
    reports = ja.GaussianReports(4.0)
    rounds = ja.epsilon(ja.Shuffled(reports, 10**5, 5), 1e-6)
    assert rounds <= ja.epsilon(ja.CheckIn(reports, 10**5, 1.0, 5), 1e-6)
    assert rounds <= 5 * ja.epsilon(ja.Shuffled(reports, 10**5), 2e-7)


_MIXED = ja.PoissonSampled(ja.Composed([GAUSSIAN, ja.Laplace(1.0)]), 0.1, num_steps=1)


def test_bad_names():
    with pytest.raises(
        ValueError,
        match=r"method='nonsense' must be one of \['exact', 'loss distribution', 'moment inversion', 'rdp'\]",
    ):
        epsilon_of(GAUSSIAN, 1e-6, method="nonsense")
    with pytest.raises(ValueError, match="method='direct' does not bound direction=add"):
        epsilon_of(allocation(), 1e-6, method="direct", direction=Direction.ADD)
    # alone it would be .163 here, where the worse of both directions is .172
    with pytest.raises(
        ValueError, match="method='real orders' does not bound direction=remove: ask for direction='add'"
    ):
        epsilon_of(allocation(), 1e-6, method="real orders")
    for ask in (lambda d: epsilon_of(GAUSSIAN, 1e-6, direction=d), lambda d: ja.rdp(GAUSSIAN, [2.0], direction=d)):
        with pytest.raises(ValueError, match="direction='both' must be"):
            ask("both")
    for mechanism in (1.0, None, "Gaussian", _MIXED):
        with pytest.raises(ValueError, match="mechanism="):
            epsilon_of(mechanism, 1e-6)
    with pytest.raises(ValueError, match="exactly one"):
        ja.compare(GAUSSIAN)
    with pytest.raises(ValueError, match="exactly one"):
        ja.compare(GAUSSIAN, 1e-6, target_epsilon=1.0)
    with pytest.raises(ValueError, match="at least one"):
        ja.Composed(())
    with pytest.raises(ValueError, match="orders of shape"):
        ja.rdp(GAUSSIAN, np.ones((2, 2)) * 2)


def test_asking_changes_nothing():
    mechanism = allocation(np.array([0.8, 1.0]))
    before = repr(mechanism)
    epsilon_of(mechanism, 1e-6)
    ja.rdp(mechanism, [2.0])
    assert repr(mechanism) == before
    with pytest.raises(AttributeError):
        mechanism.num_steps = 3


# Traced arguments cannot be checked: they fail closed

BAD_TRACED = [0.0, -1.0, NAN, INF]


def never_nan(answers, bad, *, worst):
    """One answer for each bad value: `worst`, or for a limit such as sigma = inf a number from the right side."""
    answers = np.asarray(answers)
    assert not np.any(np.isnan(answers)), dict(zip(bad, answers, strict=True))
    for value, answer in zip(bad, answers, strict=True):
        if math.isnan(value) or value < 0:
            assert answer == worst, (value, answer)


TRACED = {
    "Gaussian, noise": lambda v, d: (ja.Gaussian(v), d),
    "Gaussian, target": lambda v, d: (ja.Gaussian(1.0), v),
    "Poisson, noise": lambda v, d: (poisson(sigma=v), d),
    "Poisson, prob": lambda v, d: (poisson(sampling_prob=v), d),
    "allocation, noise": lambda v, d: (allocation(sigma=v), d),
    "allocation, steps": lambda v, d: (allocation(num_steps=v), d),
    "allocation, selected": lambda v, d: (allocation(num_selected=v), d),
}


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", TRACED)
def test_traced_bad_values_fail_closed(name):
    bad = BAD_TRACED + ([1.5] if name == "Poisson, prob" else [2000.0] if name == "allocation, selected" else [])
    ask = jax.jit(lambda v: epsilon_of(*TRACED[name](v, 1e-6)))
    never_nan([ask(jnp.float32(v)) for v in bad], bad, worst=INF)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["Gaussian, noise", "Gaussian, target", "allocation, noise"])
def test_traced_bad_values_give_delta_one(name):
    ask = jax.jit(lambda v: delta_of(*TRACED[name](v, 1.0)))
    never_nan([ask(jnp.float32(v)) for v in BAD_TRACED], BAD_TRACED, worst=1.0)
