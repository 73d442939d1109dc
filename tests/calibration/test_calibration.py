"""Calibration: certified within the budget, and as near to it as the method allows."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxacct as ja
from jaxacct.calibration import calibrate
from jaxacct.calibration._routes import Answered
from jaxacct.calibration._search import SearchRange, search
from jaxacct.mechanisms._fields import find_field, with_fields

TOLERANCE = 1e-6  # of a calibrated value, relative: the default
TOL_F32 = 2e-7  # a value cast to float32, relative
TOL_GRADIENT = 1e-5  # against central differences of values calibrated to 1e-10, relative
TOL_KINKED = 1e-3  # the same where the profile is piecewise smooth in steps finer than the difference
INF = math.inf

GAUSSIAN = ja.Gaussian(None)


def poisson(sigma=None, sampling_prob=0.01, num_steps=1000):
    return ja.PoissonSampled(ja.Gaussian(sigma), sampling_prob, num_steps)


def allocation(sigma=None, num_steps=1000, num_selected=1, num_epochs=1):
    return ja.RandomAllocation(ja.Gaussian(sigma), num_steps, num_selected, num_epochs)


def shuffled(local_epsilon=1.0, num_reports=10**5, num_epochs=1):
    return ja.Shuffled(ja.LocalRandomizer(local_epsilon), num_reports, num_epochs)


# The search itself


def run_search(fn, target, where, start, tolerance=TOLERANCE):
    turns = []

    def ask(values, wanted):
        turns.append(wanted.sum())
        return Answered(fn(values), {})

    return search(ask, target, where, start, np.ones(target.shape, bool), tolerance), len(turns)


ONES = np.ones(100)
ROOTS = 10 ** np.random.default_rng(0).uniform(-3, 4, 100)
POWERS = np.random.default_rng(1).uniform(0.2, 3.0, 100)
SHAPES = {  # epsilon as a function of noise, and the most turns that finding the root may take
    "power": (lambda x: (ROOTS / x) ** POWERS, 12),
    "inf below": (lambda x: np.where(x < 0.8 * ROOTS, INF, (ROOTS / x) ** POWERS), 20),
    "zero above": (lambda x: np.maximum((ROOTS / x) ** POWERS - 0.2, 0.0) / 0.8, 20),
    "kink": (lambda x: (ROOTS / x) ** np.where(x < ROOTS, 5 * POWERS, POWERS / 5), 60),
    "jump": (lambda x: (ROOTS / x) ** POWERS * np.where(x < ROOTS, 1.01, 0.99), 40),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("rising", [False, True])
def test_search_ends_on_the_safe_side(name, rising):
    fn, most = SHAPES[name]
    if rising:
        where = SearchRange(1e4 * ONES, 1e-8 * ONES, is_whole=False)
        found, turns = run_search(lambda x: fn(1 / x), ONES, where, ONES)
        noise = 1 / found.value
    else:
        found, turns = run_search(fn, ONES, SearchRange(1e-4 * ONES, 1e8 * ONES, is_whole=False), ONES)
        noise = found.value
    assert turns <= most
    assert np.all(found.is_affordable)
    assert np.all(fn(noise) <= 1.0 + 1e-12)
    assert np.all(noise <= ROOTS * (1 + 1.1 * TOLERANCE))


@pytest.mark.parametrize("power", [-0.5, 1.0, 2.0])
def test_search_for_whole_numbers_is_exact(power):
    roots = np.floor(10 ** np.random.default_rng(2).uniform(0, 12, 100))
    ends = (ONES, 2.0**53 * ONES) if power < 0 else (2.0**53 * ONES, ONES)
    found, turns = run_search(lambda x: (x / roots) ** power, ONES, SearchRange(*ends, is_whole=True), 100 * ONES)
    np.testing.assert_array_equal(found.value, roots)
    assert turns <= 20


def test_search_without_a_root():
    where = SearchRange(1e-4 * ONES, 1e8 * ONES, is_whole=False)
    found, _ = run_search(lambda x: 2.0 + 1.0 / x, ONES, where, ONES)
    assert not found.is_affordable.any()
    np.testing.assert_allclose(found.epsilon, 2.0, rtol=1e-6)
    found, _ = run_search(lambda x: 0.0 * x, ONES, where, ONES)
    np.testing.assert_array_equal(found.value, where.worst)


# Fields by name


def test_fields_are_found_by_name():
    run = ja.Composed((ja.Gaussian(1.0), allocation(2.0)), (1, 3))
    assert with_fields(run, {find_field(run, "num_steps"): 7}).mechanisms[1].num_steps == 7
    assert with_fields(run, {find_field(run, "mechanisms.0.noise_multiplier"): 7.0}).mechanisms[0] == ja.Gaussian(7.0)
    assert with_fields(run, {find_field(run, "counts.1"): 7}).counts == (1, 7)
    one = ja.Composed(ja.Gaussian(1.0), 3)
    assert with_fields(one, {find_field(one, "counts"): 5, find_field(one, "noise_multiplier"): 2.0}) == ja.Composed(
        ja.Gaussian(2.0), 5
    )
    with pytest.raises(ValueError, match=r"field='noise_multiplier' is ambiguous .*'mechanisms.0.noise_multiplier'"):
        find_field(run, "noise_multiplier")
    with pytest.raises(
        ValueError, match=r"field='sigma' is not a field of .*must be one of \['mechanism.noise_multiplier'"
    ):
        find_field(allocation(1.0), "sigma")
    with pytest.raises(ValueError, match="mechanism=3 must be"):
        find_field(3, "sigma")


# Each field of each mechanism: (build, field, is it noise-like, epsilon, arguments of the question)
QUICK = {"precision": INF}
FIELDS = {
    "gaussian": (ja.Gaussian, "noise_multiplier", True, 2.0, {}),
    "gaussian, rdp": (ja.Gaussian, "noise_multiplier", True, 2.0, {"method": "rdp"}),
    "counts": (lambda n: ja.Composed(ja.Gaussian(20.0), n), "counts", False, 2.0, {}),
    "poisson, exact": (poisson, "noise_multiplier", True, 2.0, {"method": "exact"}),
    "poisson, quick": (poisson, "noise_multiplier", True, 2.0, QUICK),
    "sampling_prob": (lambda q: poisson(1.0, q), "sampling_prob", False, 2.0, QUICK),
    "poisson num_steps": (lambda t: poisson(1.0, 0.01, t), "num_steps", False, 2.0, QUICK),
    "allocation, exact": (allocation, "noise_multiplier", True, 0.5, {}),
    "allocation, quick": (lambda s: allocation(s, 100, 3, 2), "noise_multiplier", True, 2.0, QUICK),
    "allocation num_steps": (lambda t: allocation(1.0, t), "num_steps", True, 1.0, QUICK),
    "num_selected": (lambda k: allocation(2.0, 100, k), "num_selected", False, 2.0, QUICK),
    "num_epochs": (lambda e: allocation(1.0, 1000, 1, e), "num_epochs", False, 2.0, QUICK),
    "num_reports": (lambda n: shuffled(1.0, n), "num_reports", True, 0.1, {}),
    "local_epsilon": (shuffled, "local_epsilon", False, 0.1, {}),
}


@pytest.mark.sample(3)
@pytest.mark.parametrize("name", FIELDS)
def test_a_calibrated_value_is_affordable_and_the_next_is_not(name):
    build, field, is_noise, epsilon, how = FIELDS[name]
    value = calibrate(build(1), field, epsilon, 1e-6, **how)  # whatever it is given
    assert ja.epsilon(build(value), 1e-6, **how) <= epsilon
    step = 1 if isinstance(value, int) else value * 1.01 * TOLERANCE
    assert ja.epsilon(build(value - step if is_noise else value + step), 1e-6, **how) > epsilon * (1 - 1e-9)


def test_a_batch_is_its_points():
    epsilon, t, k = np.array([0.5, 1.0, 2.0])[:, None], np.array([100, 1000]), np.array([3, 1])
    how = {"method": "direct", "direction": ja.Direction.REMOVE}
    sigma = calibrate(allocation(None, t, k), "noise_multiplier", epsilon, 1e-6, **how)
    assert sigma.shape == (3, 2)
    assert sigma.dtype == np.float64
    for i, j in np.ndindex(3, 2):
        one = calibrate(allocation(None, int(t[j]), int(k[j])), "noise_multiplier", float(epsilon[i, 0]), 1e-6, **how)
        assert type(one) is float
        assert sigma[i, j] == pytest.approx(one, rel=2 * TOLERANCE)
    counts = calibrate(allocation(2.0, 100, None), "num_selected", [1.0, 2.0], 1e-6, **how)
    assert counts.dtype == np.int64
    assert counts.shape == (2,)
    assert calibrate(GAUSSIAN, "noise_multiplier", np.ones(0), 1e-6).shape == (0,)


def hundred(seed=0):
    rng = np.random.default_rng(seed)
    return rng.uniform(0.5, 4.0, 100), 10.0 ** -rng.uniform(5, 8, 100), rng


def test_a_hundred_allocations_at_once():
    epsilon, delta, rng = hundred()
    run = allocation(None, rng.integers(100, 5000, 100), rng.integers(1, 6, 100))
    how = {"method": "direct", "direction": ja.Direction.REMOVE}
    sigma = calibrate(run, "noise_multiplier", epsilon, delta, **how)

    def spent(sigma):
        """The same bound on another way: the curve at fixed orders, converted."""
        noisy = with_fields(run, {find_field(run, "noise_multiplier"): sigma})
        return ja.epsilon(ja.rdp(noisy, range(2, 65), direction=ja.Direction.REMOVE), delta)

    assert np.all(spent(sigma) <= epsilon)
    assert np.all(spent(sigma * (1 - 1.01 * TOLERANCE)) > epsilon * (1 - 2e-9))


def test_poisson_noise_is_within_the_budget_of_another_accountant():
    """dp-accounting's pessimistic distribution: an upper bound, a little above the exact value."""
    pld = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    for sampling_prob, num_steps, epsilon in ((0.01, 1000, 2.0), (0.02, 2000, 4.0)):
        sigma = calibrate(poisson(None, sampling_prob, num_steps), "noise_multiplier", epsilon, 1e-6)
        step = pld.from_gaussian_mechanism(sigma, sampling_prob=sampling_prob)
        theirs = step.self_compose(num_steps).get_epsilon_for_delta(1e-6)
        assert epsilon * (1 - TOLERANCE) <= theirs <= epsilon * 1.001


@pytest.mark.filterwarnings("ignore::jaxacct.OrderEdgeWarning")
def test_what_cannot_be_met():
    with pytest.raises(
        ValueError, match=r"no noise_multiplier meets target_epsilon=0.001 .*least epsilon found is 0\.0"
    ):
        calibrate(poisson(), "noise_multiplier", 0.001, 1e-8, method="rdp")
    with pytest.raises(
        ValueError, match=r"no num_selected meets target_epsilon=0.01 at target_delta=1e-06 at index \(1,\)"
    ):
        calibrate(allocation(0.5, 10, None), "num_selected", [100.0, 0.01, 0.01], 1e-6, precision=INF)
    # and what is met by every value
    assert calibrate(allocation(5.0, 10, None), "num_selected", 20.0, 1e-6, precision=INF) == 10
    assert calibrate(poisson(2.0, None, 1), "sampling_prob", 5.0, 1e-6, precision=INF) == 1.0


def test_targets_near_zero():
    sigma = calibrate(GAUSSIAN, "noise_multiplier", 1e-12, 0.1)
    assert ja.epsilon(ja.Gaussian(sigma), 0.1) <= 1e-12
    # total variation: 2 Phi(1 / (2 sigma)) - 1 = 0.1, and Phi(0.12566134685507402) = 0.55
    assert sigma == pytest.approx(0.5 / 0.12566134685507402, rel=2 * TOLERANCE)
    assert calibrate(GAUSSIAN, "noise_multiplier", 0.0, 0.1) == pytest.approx(sigma, rel=2 * TOLERANCE)


@pytest.mark.parametrize(
    ("field", "args", "message"),
    [
        ("noise_multiplier", (-1.0, 1e-6), "target_epsilon=-1.0 must be"),
        ("noise_multiplier", (1.0, 1.0), "target_delta=1.0 must be"),
        ("sampling_probability", (1.0, 1e-6), "field='sampling_probability' is not a field"),
    ],
)
def test_bad_arguments(field, args, message):
    with pytest.raises(ValueError, match=message):
        calibrate(poisson(1.0), field, *args)


def test_bad_options():
    with pytest.raises(ValueError, match="tolerance=0 must be"):
        calibrate(GAUSSIAN, "noise_multiplier", 1.0, 1e-6, tolerance=0)
    with pytest.raises(ValueError, match="tolerance='a'"):
        calibrate(GAUSSIAN, "noise_multiplier", 1.0, 1e-6, tolerance="a")
    with pytest.raises(ValueError, match="precision="):
        calibrate(GAUSSIAN, "noise_multiplier", 1.0, 1e-6, precision=np.ones(2))
    with pytest.raises(ValueError, match="method='nonsense' must be"):
        calibrate(GAUSSIAN, "noise_multiplier", 1.0, 1e-6, method="nonsense")
    with pytest.raises(ValueError, match="field='num_categories' cannot be calibrated"):
        calibrate(ja.Shuffled(ja.KaryRandomizedResponse(1.0, 4), 100), "num_categories", 1.0, 1e-6)


def test_asking_changes_nothing():
    run = poisson(3.0)
    calibrate(run, "noise_multiplier", 2.0, 1e-6, precision=INF)
    assert run == poisson(3.0)


# Inside a user's program


def central_difference(fn, x, h=1e-3):
    """Fourth order, relative step."""
    h = h * x
    return (8 * (fn(x + h) - fn(x - h)) - (fn(x + 2 * h) - fn(x - 2 * h))) / (12 * h)


TRACED = {
    "gaussian, epsilon": (lambda v, **k: calibrate(GAUSSIAN, "noise_multiplier", v, 1e-6, **k), 2.0, True),
    "gaussian, delta": (lambda v, **k: calibrate(GAUSSIAN, "noise_multiplier", 2.0, v, **k), 2.0**-20, True),
    "poisson, sampling_prob": (
        lambda v, **k: calibrate(poisson(None, v), "noise_multiplier", 2.0, 1e-6, method="rdp", **k),
        2.0**-7,
        True,
    ),
    "sampling_prob": (
        lambda v, **k: calibrate(poisson(v, None), "sampling_prob", 2.0, 1e-6, method="rdp", **k),
        1.25,
        False,
    ),
}


@pytest.mark.more
@pytest.mark.sample(1)
@pytest.mark.parametrize("name", TRACED)
def test_calibration_in_a_float32_program(name):
    fn, x, is_noise = TRACED[name]
    assert not jax.config.jax_enable_x64
    exact = fn(x, tolerance=1e-10)
    value, slope = jax.jit(jax.value_and_grad(fn))(x)
    assert value.dtype == slope.dtype == jnp.float32
    np.testing.assert_allclose(value, exact, rtol=TOL_F32)
    assert (float(value) >= exact * (1 - 2e-10)) if is_noise else (float(value) <= exact * (1 + 2e-10))
    numeric = central_difference(lambda v: fn(v, tolerance=1e-10), x)
    np.testing.assert_allclose(slope, numeric, rtol=TOL_GRADIENT)


@pytest.mark.slow
def test_second_derivatives():
    fn = TRACED["gaussian, epsilon"][0]
    second = jax.jit(jax.grad(jax.grad(fn)))(2.0)
    slope = jax.jit(jax.grad(fn))
    h = 2.0**-4
    numeric = (float(slope(2.0 + h)) - float(slope(2.0 - h))) / (2 * h)
    np.testing.assert_allclose(second, numeric, rtol=1e-2)


@pytest.mark.more
def test_traced_calibration_beside_a_part_whose_numbers_make_its_law():
    """The law of Skellam noise is a constant of the program; the slope was 0 wherever "laws" answers."""

    def run(noise):
        return ja.Composed([ja.Skellam(100.0, 1.0), ja.Gaussian(noise)], [2, 10])

    solve = jax.jit(jax.value_and_grad(lambda e: calibrate(run(None), "noise_multiplier", e, 1e-6)))
    value, slope = solve(5.0)
    found = ja.epsilon_interval(run(float(value)), 1e-6, precision=1e-5)
    assert found.lower <= 5.0 <= found.upper * (1.0 + 1e-3)
    np.testing.assert_allclose(slope, (float(solve(5.1)[0]) - float(solve(4.9)[0])) / 0.2, rtol=0.01)


@pytest.mark.more
def test_traced_calibration_knows_no_law_of_the_unknown():
    run = ja.Composed([ja.Skellam(None, 1.0), ja.Gaussian(3.0)], [2, 10])
    with pytest.raises(ValueError, match=r"Skellam\.variance must be closed over"):
        jax.jit(lambda e: calibrate(run, "variance", e, 1e-6))(50.0)


def test_calibration_is_vectorised_over_traced_targets():
    epsilons = jnp.asarray([0.5, 2.0, 8.0])
    got = jax.jit(jax.vmap(lambda e: calibrate(GAUSSIAN, "noise_multiplier", e, 1e-6)))(epsilons)
    np.testing.assert_allclose(got, calibrate(GAUSSIAN, "noise_multiplier", np.asarray(epsilons), 1e-6), rtol=2e-6)


@pytest.mark.more
def test_traced_calibration_fails_closed():
    fn = jax.jit(TRACED["gaussian, epsilon"][0])
    for bad in (-1.0, math.nan, 0.0):
        assert fn(bad) == INF
    prob = jax.jit(TRACED["sampling_prob"][0])
    for bad in (-1.0, math.nan):
        assert prob(bad) == 0.0
    with pytest.raises(ValueError, match="need concrete numbers"):
        jax.jit(lambda e: calibrate(poisson(1.0, 0.01, None), "num_steps", e, 1e-6))(2.0)
    with pytest.raises(ValueError, match="need concrete numbers"):
        jax.jit(lambda e: calibrate(poisson(), "noise_multiplier", e, 1e-6, precision=0.1))(2.0)


@pytest.mark.slow
def test_calibration_by_one_method_in_a_float32_program():
    def fn(v, **k):
        return calibrate(shuffled(), "local_epsilon", v, 1e-6, method="clones", **k)

    epsilon = 0.125

    value, slope = jax.jit(jax.value_and_grad(fn))(epsilon)
    np.testing.assert_allclose(value, fn(epsilon), rtol=2 * TOLERANCE)
    np.testing.assert_allclose(slope, central_difference(lambda v: fn(v, tolerance=1e-10), epsilon), rtol=TOL_KINKED)


@pytest.mark.slow
def test_several_epochs_by_the_engines():
    sigma = calibrate(allocation(None, 1000, 1, 10), "noise_multiplier", 0.6, 1e-6)
    assert ja.epsilon(allocation(sigma, 1000, 1, 10), 1e-6) <= 0.6
    assert ja.epsilon(allocation(sigma * 0.98, 1000, 1, 10), 1e-6) > 0.6
    assert sigma < 0.98 * calibrate(
        allocation(None, 1000, 1, 10), "noise_multiplier", 0.6, 1e-6, method="decomposition"
    )


def test_quick_answers_that_come_from_brackets_are_searched_to_the_end():
    """The tolerance of the search followed the precision, which is inf: it stopped where it began."""
    run = ja.ZeroOut(ja.TruncatedPoisson(ja.Gaussian(None), 0.01, 1000, 12, 20))
    found = ja.calibrate(run, "noise_multiplier", 1.0, 1e-5, precision=math.inf)
    assert found == pytest.approx(1.39986, rel=1e-3)
