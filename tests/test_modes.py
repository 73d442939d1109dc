"""The same answers under any setting of x64 and of dtype promotion, also those of the environment.

`.ci/matrix` runs this file with JAX_ENABLE_X64 off and on and JAX_NUMPY_DTYPE_PROMOTION standard and strict.
"""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import jaxacct as ja

TOL = {jnp.float32: 2e-7, jnp.float64: 1e-12}  # one cast; the same program compiled another way
EPS = 2.0**-52
DELTA = 1e-6

RUNS = {
    "gaussian": lambda x: ja.Gaussian(x),
    "poisson": lambda x: ja.PoissonSampled(ja.Gaussian(x), sampling_prob=0.01, num_steps=1000),
    "allocation": lambda x: ja.RandomAllocation(ja.Gaussian(x), num_steps=1000, num_epochs=10),
    "shuffled": lambda x: ja.Shuffled(ja.LocalRandomizer(x), num_reports=10_000),
    "check-in": lambda x: ja.CheckIn(ja.LocalRandomizer(x), num_users=10_000, check_in_prob=0.1),
    "composed": lambda x: ja.Composed(ja.Gaussian(x), 3),
}
SETTINGS = pytest.mark.parametrize(
    ("x64", "promotion"), [(False, "standard"), (False, "strict"), (True, "standard"), (True, "strict")]
)
X = 1.25  # exact in float32


@pytest.fixture(autouse=True)
def _settings_survive():
    before = dict(jax.config.values)
    yield
    assert jax.config.values == before


def quick(name):
    return lambda x: ja.epsilon(RUNS[name](x), target_delta=DELTA, precision=math.inf)


@pytest.mark.sample(1)
@pytest.mark.parametrize("name", ["gaussian", "poisson", "allocation", "shuffled"])
def test_inside_and_outside_a_program(name):
    """In the settings of the environment; that slopes are right is `test_precision`'s."""
    epsilon, user = quick(name), jnp.result_type(float)
    points = np.array([X, 1.5])
    eager = epsilon(points)
    assert eager.dtype == np.float64
    values, slopes = jax.jit(jax.vmap(jax.value_and_grad(epsilon)))(jnp.asarray(points, user))
    assert values.dtype == slopes.dtype == user
    if name == "allocation":  # several epochs: outside a program the host brackets the value, no program does
        assert np.all(np.asarray(values, np.float64) >= eager)
        return
    if name == "poisson":  # a program moves the ratios apart to points, which is sharper than Renyi divergences
        eager = ja.epsilon(RUNS[name](points), target_delta=DELTA)
        assert np.all(np.asarray(values, np.float64) <= 1.002 * eager)
    else:
        np.testing.assert_allclose(values, eager, rtol=TOL[user.type])
    if user == jnp.float32:
        assert np.all(np.asarray(values, np.float64) >= eager)
    assert np.all(slopes * (eager[1] - eager[0]) > 0)


@pytest.mark.sample(5)
@SETTINGS
@pytest.mark.parametrize("name", RUNS)
def test_settings_change_no_digit(name, x64, promotion):
    """Of concrete questions, whose programs are the same; also while the user's own function is traced.

    The last digit may change where a question has been asked so often that its program is compiled for speed.
    """
    want, seen = quick(name)(X), []
    assert isinstance(want, float)
    with jax.enable_x64(x64), jax.numpy_dtype_promotion(promotion):
        assert quick(name)(X) == pytest.approx(want, rel=4 * EPS)
        jax.jit(lambda y: seen.append(quick(name)(X)) or y)(1.0)
        jax.jit(lambda y: seen.append(quick(name)(np.float64(X))) or y)(1.0)
    assert seen == pytest.approx([want, want], rel=4 * EPS)


@pytest.mark.parametrize("name", ["poisson", "allocation"])
def test_exact_answers(name):
    """The engines that the host drives, under the settings of the environment."""
    found = ja.epsilon_interval(RUNS[name](X), target_delta=DELTA)
    assert 0.0 < found.lower <= found.upper <= quick(name)(X) * (1 + 1e-12)
