"""The blanket of shuffled reports: its theorems by enumeration and quadrature, its laws against closed forms."""

import itertools
import math
from collections import defaultdict

import numpy as np
import pytest
from scipy.special import ndtr
from scipy.stats import binom, chi, multinomial, norm
from support.shuffled_reports import divergence, seen, true_delta

from jaxacct.divergence.batches._one_step import StepLaw
from jaxacct.divergence.blanket._antipodal import gaussian_law, laplace_law
from jaxacct.divergence.blanket._ball import ball_law, chi_tail
from jaxacct.divergence.blanket._finite import finite_law, k_ary_law
from jaxacct.divergence.blanket._hidden import hidden_law
from jaxacct.divergence.blanket._profile import Round, round_delta, round_delta_alone, round_epsilon

# Two inputs, and a third whose report may be one that theirs never are.
REVEALING = [[0.7, 0.3, 0.0], [0.3, 0.7, 0.0], [0.3, 0.3, 0.4]]


def law_of_one(make, *arguments):
    """For class Round, the one law that ``make(*arguments, cut)`` gives."""
    return lambda cut: make(*arguments, cut)


def _rows(rng, inputs, outputs):
    rows = rng.dirichlet(np.full(outputs, 1.5), inputs) + 0.02
    return rows / rows.sum(axis=1, keepdims=True)


def _pairs(rows):
    """The law of each pair of inputs."""
    return _pairs_of(finite_law(rows))


def _pairs_of(law):
    every = zip(law.first, law.second, law.gone, strict=True)
    return [law._replace(first=x[None], second=y[None], gone=gone[None]) for x, y, gone in every]


def _finite_delta(rows, num_users, epsilon, prob=1.0):
    return round_delta_alone(Round(lambda cut: finite_law(rows), float(num_users), prob), epsilon)


def enumerated(law, num_users, epsilon, prob=1.0):
    """E(S)_+ / n + q cut by definition, of a law of few atoms."""
    step: StepLaw = law.at(epsilon)
    idle = prob * (1.0 - step.mass.sum())
    values, masses = [*step.value, 0.0, -math.expm1(epsilon)], [*(prob * step.mass), idle, 1.0 - prob]
    total = 0.0
    for chosen in itertools.product(range(len(values)), repeat=num_users):
        total += math.prod(masses[i] for i in chosen) * max(sum(values[i] for i in chosen), 0.0)
    return total / num_users + prob * step.cut


@pytest.mark.parametrize("num_users", [2, 3, 4])
@pytest.mark.parametrize("prob", [1.0, 0.6])
def test_no_data_of_a_finite_randomizer_tell_more(num_users, prob):
    """BL-1 and BL-2: all data of all users, by enumeration; and how close the numerics are to the theorem."""
    rng = np.random.default_rng(num_users)
    for _ in range(3):
        rows = _rows(rng, 3, 3)
        for epsilon in (0.05, 0.4, 0.9):
            found = _finite_delta(rows, num_users, epsilon, prob)
            assert found >= true_delta(rows, num_users, epsilon, prob) * (1.0 - 1e-12)
            # the one pair that is the worst, if there is one
            assert found >= max(enumerated(law, num_users, epsilon, prob) for law in _pairs(rows)) * (1.0 - 1e-12)


def test_one_pair_of_inputs_that_is_the_worst_decides():
    """The numerics against the theorem; three rows that lie on a line, of which the outer ones are the worst."""
    rows = [[0.7, 0.2, 0.1], [0.4, 0.2, 0.4], [0.1, 0.2, 0.7]]
    for num_users, prob, epsilon in itertools.product((2, 4), (1.0, 0.5), (0.1, 0.7)):
        law = finite_law(rows).at(epsilon)
        assert len(law.value) == 3
        theorem = max(enumerated(pair, num_users, epsilon, prob) for pair in _pairs(rows))
        found = _finite_delta(rows, num_users, epsilon, prob)
        assert theorem <= found <= theorem * 1.02 + 1e-12


def _adaptive(rows, num_users, encoding, first, others):
    """The law of the reports in order: users in random order, datum and place and last report give the input."""
    law = defaultdict(float)
    for order in itertools.permutations((first, *others)):
        for outputs in itertools.product(range(len(rows[0])), repeat=num_users):
            p, last = 1.0 / math.factorial(num_users), len(rows[0])
            for place, (datum, output) in enumerate(zip(order, outputs, strict=True)):
                p, last = p * rows[encoding[place, last, datum]][output], output
            law[outputs] += p
    return law


@pytest.mark.parametrize("num_users", [2, 3])
def test_encodings_that_depend_on_what_was_seen_tell_no_more(num_users):
    """Which row a datum takes may depend on the place and on earlier reports: no single pair of inputs is the worst."""
    rng = np.random.default_rng(num_users)
    for _ in range(12):
        rows = _rows(rng, 3, 3)
        encoding = rng.integers(0, 3, (num_users, 4, 4))
        epsilon = rng.choice([0.1, 0.3, 0.8])
        others = rng.integers(2, 4, num_users - 1)
        laws = [_adaptive(rows, num_users, encoding, first, others) for first in (0, 1)]
        assert divergence(*laws, epsilon) <= _finite_delta(rows, num_users, epsilon) * (1.0 + 1e-12)


def test_a_law_above_all_pairs_is_above_each():
    rng = np.random.default_rng(9)
    for inputs, outputs in ((3, 3), (4, 6), (9, 12)):
        law = finite_law(_rows(rng, inputs, outputs))
        for epsilon in (0.0, 0.3, 1.5):
            found, total = law.at(epsilon), law.mass.sum()
            assert total * (1.0 - 1e-9) <= found.mass.sum() <= total * (1.0 + 1e-9)
            for pair in _pairs_of(law):
                value = pair.at(epsilon).value
                for k in np.linspace(1.2 * value.min() - 0.1, 1.1 * value.max(), 50):
                    wanted = float((law.mass * np.maximum(value - k, 0.0)).sum())
                    assert float((found.mass * np.maximum(found.value - k, 0.0)).sum()) >= wanted * (1.0 - 1e-14)


@pytest.mark.parametrize("prob", [0.3, 0.8, 1.0])
def test_reports_that_tell_their_senders_count_the_rest(prob):
    """Check-ins of others who send what is not common are seen; a bound that forgets that is too small.

    Two inputs, others hold the third: the theorem is exact there. By its mean given that nothing common is sent, the
    term of a user, 0 or 1 - c, would be less in the convex order, and the bound a third of the truth.
    """
    epsilon, num_users = 0.6, 2
    first, second = (seen(REVEALING, (x, 2), prob) for x in (0, 1))
    true = divergence(first, second, epsilon)
    law = next(law for law in _pairs(REVEALING) if not law.gone.any())
    assert enumerated(law, num_users, epsilon, prob) == pytest.approx(true, rel=1e-12)
    assert true <= _finite_delta(REVEALING, num_users, epsilon, prob)


def test_outputs_that_an_input_never_gives_are_counted_whole():
    for num_users, epsilon, prob in itertools.product((1, 2, 3), (0.0, 0.5), (1.0, 0.5)):
        found = _finite_delta(REVEALING, num_users, epsilon, prob)
        assert true_delta(REVEALING, num_users, epsilon, prob) <= found <= 1.0
    assert _finite_delta([[1.0, 0.0], [0.0, 1.0]], 5, 0.3) == 1.0  # nothing in common
    rng = np.random.default_rng(4)
    for _ in range(10):  # the pair that tells most by the last output is not the one that tells most by the others
        rows = _rows(rng, 3, 4)
        rows[0, 3] = 0.0
        rows[1, 3] *= 0.1
        rows /= rows.sum(axis=1, keepdims=True)
        for num_users, epsilon, prob in ((2, 0.1, 1.0), (3, 0.3, 1.0), (2, 0.1, 0.5)):
            true = true_delta(rows, num_users, epsilon, prob)
            assert true <= _finite_delta(rows, num_users, epsilon, prob) * (1.0 + 1e-12)


def test_binary_randomized_response_is_its_own_blanket():
    """All others hold the other value: no data of binary randomized response are worse, so that the bound is exact."""
    for local, num_users, epsilon in ((1.0, 6, 0.3), (2.0, 5, 0.8), (0.5, 7, 0.1)):
        p = 1.0 / (1.0 + math.exp(local))
        found = _finite_delta([[1.0 - p, p], [p, 1.0 - p]], num_users, epsilon)
        of_k_ary = round_delta_alone(Round(law_of_one(lambda cut, x=local: k_ary_law(x, 2.0)), num_users), epsilon)
        assert found == pytest.approx(of_k_ary, rel=1e-6)
        exact = enumerated(k_ary_law(local, 2.0), num_users, epsilon)
        assert exact <= found <= exact * 1.003


@pytest.mark.parametrize(("local", "k", "n", "epsilon"), [(2.0, 3, 60, 0.5), (2.0, 10, 60, 0.5), (1.0, 4, 40, 0.3)])
@pytest.mark.parametrize("prob", [1.0, 0.5])
def test_many_reports_of_three_kinds_by_their_counts(local, k, n, epsilon, prob):
    """k-ary response by the sum over its counts, which is the theorem's own expectation."""
    law = k_ary_law(local, k)
    step = law.at(epsilon)
    counts = np.stack(np.meshgrid(*3 * [np.arange(n + 1)], indexing="ij"), -1).reshape(-1, 3)
    left = n - counts.sum(1)
    counts, left = counts[left >= 0], left[left >= 0]
    masses = prob * step.mass
    nothing = 1.0 - masses.sum()
    chance = multinomial.pmf(np.column_stack([counts, left]), n, [*masses, nothing])
    # of those who send nothing of the blanket, so many have not joined
    missing = np.arange(n + 1) if prob < 1.0 else np.zeros(1)
    extra = binom.pmf(missing, left[:, None], (1.0 - prob) / nothing)
    total = (counts @ step.value)[:, None] - math.expm1(epsilon) * missing
    exact = float(chance @ (extra * np.maximum(total, 0.0)).sum(1)) / n
    found = round_delta_alone(Round(lambda cut: law, float(n), prob), epsilon)
    assert exact * (1.0 - 1e-9) <= found <= exact * 1.003


def _stop_loss(law, epsilon, k):
    """E(L - k)_+ of a law, at most, what is left being at 0."""
    step = law.at(epsilon)
    rest = max(-k, 0.0) * (1.0 - step.mass.sum())
    return float((step.mass * np.maximum(step.value - k, 0.0)).sum()) + rest + step.cut


@pytest.mark.parametrize("a", [1e-3, 0.1, 0.5, 1.0, 2.5])
@pytest.mark.parametrize("share", [0.0, 0.5, 2.0])
def test_one_gaussian_coordinate_is_above_in_the_convex_order(a, share):
    """Against E(L - k)_+ in closed form: where w > x, L = e^(2 a w) - c; where w < 0, 1 - c e^(-2 a w)."""
    epsilon, law = share * a, gaussian_law(a, 1e-12)
    c, gamma = math.exp(epsilon), 2.0 * ndtr(-a)
    assert gamma * (1.0 - 1e-10) <= law.least_mass <= gamma
    assert law.cut <= 1e-12
    step = law.at(epsilon)
    assert float((step.mass * step.value).sum()) == pytest.approx(1.0 - c, abs=1e-9 * max(a, -1.0 + c))
    for k in np.array([-3.0, -0.5, -0.1, 0.0, 0.2, 1.0, 4.0]) * a:
        # the right half, L > k from x on; the left half, where L > k next to 0; and 0 with what is left
        x = max(math.log(c + k) / (2.0 * a), 0.0) if c + k > 0 else 0.0
        true = ndtr(a - x) - (c + k) * ndtr(-a - x)
        x = math.log((1.0 - k) / c) / (2.0 * a) if k < 1.0 else -1.0
        if x > 0.0:
            true += (1.0 - k) * (ndtr(-a) - ndtr(-a - x)) - c * (ndtr(x - a) - ndtr(-a))
        true += max(-k, 0.0) * (1.0 - gamma)
        found = _stop_loss(law, epsilon, k)
        assert true <= found + 2.0**-38 * max(-k, 0.0)
        assert found <= true + 3e-4 * max(true, 1e-2 * a)


@pytest.mark.parametrize("rate", [0.05, 0.5, 1.0, 3.0, 20.0])
def test_laplace_reports_are_above_in_the_convex_order(rate):
    law = laplace_law(rate)
    assert law.least_mass == pytest.approx(math.exp(-rate), rel=1e-10)
    assert law.least_mass <= math.exp(-rate)
    assert law.cut == 0.0
    w = (np.arange(200_000) + 0.5) * (rate / 200_000)
    density = 0.5 * np.exp(-w - rate) * (rate / 200_000)
    for share in (0.0, 0.3, 1.0):
        c = math.exp(share * min(rate, 1.0))
        value = np.concatenate([np.exp(2.0 * w) - c, [math.exp(2.0 * rate) - c]])
        other = np.concatenate([1.0 - c * np.exp(2.0 * w), [1.0 - c * math.exp(2.0 * rate)]])
        mass = np.concatenate([density, [0.5 * math.exp(-2.0 * rate)]])
        assert float((mass * (value + other)).sum()) == pytest.approx(1.0 - c, abs=1e-6)
        for k in np.array([-2.0, -0.1, 0.0, 0.5, 2.0]) * min(rate, 1.0):
            true = float((mass * (np.maximum(value - k, 0.0) + np.maximum(other - k, 0.0))).sum())
            true += max(-k, 0.0) * (1.0 - math.exp(-rate))
            found = _stop_loss(law, math.log(c), k)
            assert true * (1.0 - 1e-7) <= found <= true + 2e-3 * max(true, 1e-2 * min(rate, 1.0))


@pytest.mark.parametrize(
    "noise", [norm.pdf, lambda w: 0.5 * np.exp(-np.abs(w)), lambda w: 0.25 / np.cosh(0.5 * w) ** 2]
)
def test_opposite_data_are_the_worst_of_one_dimension(noise):
    """BL-3 by quadrature: F(x, x') = int (f_x - A f_x' - t inf f)_+ is greatest for 1 and -1, whatever A and t."""
    rng = np.random.default_rng(5)
    w = np.linspace(-16.0, 16.0, 6401)
    for _ in range(60):
        size, t = math.exp(rng.uniform(-1.5, 1.0)), math.exp(rng.normal()) * rng.choice([-1.0, 1.0])
        odds = math.exp(rng.normal())
        x, y = rng.uniform(-size, size, 2)
        common = noise(np.abs(w) + size)

        def score(x, y, odds=odds, t=t, common=common):
            return np.maximum(noise(w - x) - odds * noise(w - y) - t * common, 0.0).sum() * (w[1] - w[0])

        assert score(size, -size) >= score(x, y) - 1e-5


def test_opposite_data_are_the_worst_of_the_plane():
    """BL-4 by quadrature, for data of any two lengths and any angle between them."""
    rng = np.random.default_rng(6)
    u, v = np.meshgrid(*2 * [np.linspace(-8.0, 8.0, 241)])
    cell = (16.0 / 240) ** 2 / (2.0 * math.pi)
    for _ in range(40):
        a, t = math.exp(rng.uniform(-1.5, 0.7)), math.exp(rng.normal()) * rng.choice([-1.0, 1.0])
        odds, angle = math.exp(rng.normal()), rng.uniform(0.0, math.pi)
        common = np.exp(-0.5 * (np.hypot(u, v) + a) ** 2)

        def at(x, y):
            return np.exp(-0.5 * ((u - x) ** 2 + (v - y) ** 2))

        def score(p, q, odds=odds, t=t, common=common):
            return np.maximum(p - odds * q - t * common, 0.0).sum() * cell

        r, s = a * rng.random(2) ** 0.3
        assert score(at(a, 0.0), at(-a, 0.0)) >= score(at(r, 0.0), at(s * math.cos(angle), s * math.sin(angle))) - 1e-6


@pytest.mark.parametrize("degrees", [1, 2, 3, 8, 9, 99, 998])
def test_tails_of_lengths(degrees):
    x = np.linspace(0.0, math.sqrt(degrees) + 6.0, 60)
    assert np.all(chi_tail(degrees, x) >= chi.sf(x, degrees) * (1.0 - 1e-13))
    assert np.all(chi_tail(degrees, x) <= chi.sf(x, degrees) * (1.0 + 1e-9))


@pytest.mark.parametrize(("a", "dimension"), [(0.25, 2), (1.0, 2), (0.5, 3), (0.25, 10), (0.5, 40)])
def test_the_blanket_of_a_ball_is_above_in_the_convex_order(a, dimension):
    """Its mass and E(L - k)_+ against quadrature over u and the length of the rest."""
    law = ball_law(a, dimension, 1e-10)
    u = np.linspace(-9.0, 9.0, 1801)
    z = np.linspace(max(math.sqrt(dimension - 1) - 9.0, 0.0), math.sqrt(dimension - 1) + 9.0, 1801)
    middle = 0.5 * (z[1:] + z[:-1])
    weight = norm.pdf(u)[:, None] * (u[1] - u[0]) * np.diff(chi.cdf(z, dimension - 1))
    exponent = a * np.hypot(u[:, None], middle) + 0.5 * a * a
    measure = weight * np.exp(-exponent)
    gamma = float(measure.sum())
    assert gamma * (1.0 - 0.01 * a - 2e-3) <= law.law.least_mass <= gamma * (1.0 + 1e-5)
    for epsilon in (0.0, 0.5 * a, 2.0 * a):
        gain = np.exp(a * u - 0.5 * a * a)[:, None] - math.exp(epsilon) * np.exp(-a * u - 0.5 * a * a)[:, None]
        value = np.exp(exponent) * gain
        for k in np.array([-1.0, 0.0, 0.5, 3.0]) * a * math.exp(2.0 * a):
            true = float((measure * np.maximum(value - k, 0.0)).sum()) + max(-k, 0.0) * (1.0 - gamma)
            found = _stop_loss(law, epsilon, k)
            assert true * (1.0 - 1e-5) <= found <= true + 0.01 * max(true, 0.1 * a)


def _two_gaussian_reports(data, sigma, prob, w):
    """Densities of what is seen of two users: nothing, one report, two of them in order."""
    f = [norm.pdf(w, x, sigma) * (w[1] - w[0]) for x in data]
    both = np.outer(*f)
    return (1.0 - prob) ** 2, prob * (1.0 - prob) * (f[0] + f[1]), 0.5 * prob**2 * (both + both.T)


@pytest.mark.parametrize("sigma", [0.7, 2.0, 4.0])
@pytest.mark.parametrize("prob", [1.0, 0.4])
def test_two_gaussian_reports_by_quadrature(sigma, prob):
    """No data of two users, in one coordinate, tell more than the bounds by the blanket and by hidden places."""
    w = np.linspace(-1.0 - 7.0 * sigma, 1.0 + 7.0 * sigma, 701)
    blanket = Round(law_of_one(gaussian_law, 1.0 / sigma), 2.0, prob)
    hidden = Round(law_of_one(hidden_law, 1.0 / sigma), 2.0, prob, prob**2)
    for epsilon in (0.02, 0.4, 1.2):
        found = 0.0
        for other, (x, y) in itertools.product((-1.0, 0.0, 1.0), itertools.permutations((-1.0, 0.0, 1.0), 2)):
            parts = zip(*(_two_gaussian_reports((z, other), sigma, prob, w) for z in (x, y)), strict=True)
            found = max(found, sum(np.maximum(p - math.exp(epsilon) * q, 0.0).sum() for p, q in parts))
        assert round_delta_alone(blanket, epsilon) >= found * (1.0 - 2e-4)
        assert round_delta_alone(hidden, epsilon) >= found * (1.0 - 2e-4)


def test_one_user_whose_place_is_told_or_hidden():
    """BL-5 of one user: q times the divergence of two normal laws, and q for having no place to hide."""
    for a, epsilon, prob in ((0.25, 0.1, 0.3), (1.0, 1.5, 0.7)):
        alone = ndtr(a - 0.5 * epsilon / a) - math.exp(epsilon) * ndtr(-a - 0.5 * epsilon / a)
        found = round_delta_alone(Round(law_of_one(hidden_law, a), 1.0, prob, prob), epsilon)
        assert prob * alone <= found - prob <= prob * alone * 1.002


def test_three_gaussian_reports_by_quadrature():
    sigma, w = 2.0, np.linspace(-12.0, 12.0, 97)
    f = {x: norm.pdf(w, x, sigma) * (w[1] - w[0]) for x in (-1.0, 1.0)}
    run = Round(law_of_one(gaussian_law, 1.0 / sigma), 3.0)
    for epsilon in (0.1, 0.5):
        for others in ((-1.0, -1.0), (-1.0, 1.0), (1.0, 1.0)):
            laws = []
            for x in (1.0, -1.0):
                orders = list(itertools.permutations((x, *others)))
                laws.append(sum(np.einsum("i,j,k->ijk", *(f[y] for y in order)) for order in orders) / 6.0)
            true = np.maximum(laws[0] - math.exp(epsilon) * laws[1], 0.0).sum()
            assert round_delta_alone(run, epsilon) >= true * (1.0 - 1e-3)


def test_more_users_and_more_joining_are_in_order():
    """delta falls with n, and grows with the probability of a report; the worst law of several decides."""
    law = law_of_one(gaussian_law, 0.5)
    deltas = [round_delta(Round(law, n), 0.1, 1e-6) for n in (10, 30, 100, 1000, 10_000)]
    assert all(x > y for x, y in itertools.pairwise(deltas))
    deltas = [round_delta(Round(law, 100.0, q), 0.1, 1e-6) for q in (0.01, 0.1, 0.5, 0.9, 1.0)]
    assert all(x < y for x, y in itertools.pairwise(deltas))


def test_epsilon_is_where_the_worst_pair_falls_to_delta():
    rows = [[0.6, 0.3, 0.1], [0.2, 0.5, 0.3], [0.35, 0.4, 0.25]]
    run = Round(lambda cut: finite_law(rows), 500.0)
    epsilon = round_epsilon(run, 1e-7, math.inf)
    assert 0.999e-7 <= round_delta(run, epsilon, 1e-7) <= 1e-7
    assert round_epsilon(run, 1e-7, 0.1) == 0.1  # what is known to do
    assert round_epsilon(run, 0.9, math.inf) == 0.0
    assert round_epsilon(Round(lambda cut: None, 500.0), 1e-7, math.inf) == math.inf
    assert round_delta(Round(lambda cut: None, 500.0), 1.0, 1e-7) == 1.0


def test_where_nothing_is_known_nothing_is_claimed():
    assert gaussian_law(4.1, 1e-10) is None
    assert gaussian_law(3.9, 1e-300) is None
    assert laplace_law(31.0) is None
    assert hidden_law(4.1, 1e-10) is None
    assert ball_law(0.5, 5000, 1e-10) is None
    assert ball_law(3.9, 3000, 1e-10) is None
    assert k_ary_law(61.0, 3.0) is None
