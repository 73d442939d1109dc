"""The mutants of `mutants.py`: wrong signs and dropped terms on lines that soundness rests on."""

from typing import NamedTuple


class Mutant(NamedTuple):
    """`old` in jaxacct/`file` becomes `new`; the quick ones of `tests` should fail."""

    file: str
    old: str
    new: str
    tests: str


PROPERTIES = "tests/test_properties.py"
CONTOUR = "tests/divergence/test_contour.py -k moments"
LAPLACE_STEP = "tests/divergence/test_laplace_step.py"
SPARSE = "tests/bounds/test_above_threshold.py -k 'easier or best_queries or proved_of_any'"
ENCLOSED = "tests/bounds/test_above_threshold.py -k 'enclosed or pure_epsilon'"
PLANNED = "tests/training/test_planned_filter.py"
JOINS = "tests/divergence/test_contour.py -k join"
ONE_STEP = "tests/divergence/test_contour.py -k closed_form"
PARTICIPATION = "tests/bounds/test_participation.py"
EVERYBODY = "tests/bounds/test_everybody.py"
ONE_SAMPLED = "tests/divergence/test_one_sampled.py"
INVERSION = "tests/bounds/test_inversion.py"
RARE_ZERO = "tests/divergence/test_laws.py -k may_be_0"
APART = "tests/divergence/test_laws.py -k 'apart and not 5.0'"
TRANSFORM = "tests/divergence/test_laws.py -k transform"
AVERAGES = "tests/divergence/test_laws.py -k 'average and not close'"
LAW_ENDS = "tests/divergence/test_laws.py -k err_by_themselves"
ONE_WAY = "tests/divergence/test_laws.py -k err_one_way"
CELLS = "tests/divergence/test_laws.py -k as_narrow_as_gauss_rule"
LARGE = "tests/divergence/test_laws.py -k large_ratios"
GIVEN_POINTS = "tests/divergence/test_given_points.py"
WITHOUT_AMPLIFICATION = "tests/bounds/test_answers_by_laws.py -k without_amplification"
REPLACED_LAW = "tests/divergence/test_laws.py -k replaced_step"
KNOWN_LAWS = "tests/bounds/test_known_laws.py -k directions"
FEW_POINTS = "tests/divergence/test_laws_of_few_outputs.py -k 'window or (close and (laplace or guarantee))'"
COUNTS_OF_CLONES = "tests/divergence/test_clones_law.py -k counts"
MEANS_OF_SIGNS = "tests/divergence/test_clones_law.py -k profile"
CLONES_LAW = "tests/divergence/test_clones_law.py -k 'law and not counts and not profile'"
SINGLE = "tests/divergence/test_laws.py -k single"
TURNS = "tests/special/test_special.py -k vectors"
LAWS = "tests/divergence/test_laws.py -k 'moments or compositions or infinite or fail_closed'"
ALIASES = "tests/bounds/test_inversion.py -k bound_on_aliases"
CONVERSION = "tests/test_conversion.py"
MEMBERSHIP = "tests/test_membership.py"
PROFILES = "tests/curves/test_distributions.py tests/curves/test_pld.py"
PLD = "tests/curves/test_pld.py tests/test_domination.py"
ONLY_ONE = "tests/test_domination.py -k only_one"
EXPONENTS = "tests/curves/test_pld.py -k exponents"
BOOKED = "tests/curves/test_pld.py -k booked"
ATOMS = "tests/curves/test_atoms.py"
BINARY = "tests/bounds/test_many_binary_rounds.py"
DIVERGENCE = "tests/divergence/test_divergence.py"
SAMPLED = "tests/divergence/test_divergence.py -k sampled"
LAPLACE = "tests/divergence/test_divergence.py -k laplace"
BOUNDS = "tests/bounds/test_allocation_bounds.py"
BOTH_ENDS = "tests/divergence/test_divergence.py -k both_ends"
PURIFIED = "tests/bounds/test_gaussian_reports.py"
REPORTS = "tests/bounds/test_shuffle_bounds.py -k reports"
QUANTILE = "tests/special/test_normal_quantile.py"
VERTICES = "tests/divergence/test_clones.py -k vertices"
COINS = "tests/special/test_fair_coins_proved.py"
PROVED = "tests/special/test_proved.py"
SHIFT = "tests/curves/test_distributions.py -k shift"
FFT = "tests/curves/test_distributions.py -k fft"
CURVES = "tests/bounds/test_allocation_bounds.py -k distribution"
MORE = "tests/bounds/test_allocation_more.py"
EXACT = "tests/divergence/test_exact.py"
FEW = "tests/bounds/test_few_outputs.py"
OVERLAPS = "tests/papers/test_overlaps_rounded.py"
LATTICE = "tests/divergence/test_lattice_laws.py"
OUTPUTS = "tests/papers/test_discrete_moments.py"
CLONES = "tests/divergence/test_clones.py"
NODES = "tests/divergence/test_clones_contour.py"
SINGLE_COUNTS = "tests/divergence/test_single_counts.py"
POWERS = "tests/divergence/test_divergence.py -k test_allocation_against_a_power_series"
HOST_POWERS = "tests/divergence/test_exact.py -k integer_moments"
SERIES = "tests/special/test_special.py -k 'series or rounded_up'"
ON_HOST = "tests/divergence/test_divergence.py -k on_the_host"
SCHEDULED_POWERS = "tests/bounds/test_allocation_more.py -k multinomial"
COMPOSED = "tests/divergence/test_clones_composed.py"
CLONES_RENYI = "tests/divergence/test_clones_renyi.py"
SHUFFLE = "tests/divergence/test_shuffle_kernels.py"
SHUFFLE_BOUNDS = "tests/bounds/test_shuffle_bounds.py"
LARGE_LOCAL = "tests/bounds/test_large_local_epsilons.py"
GIRGIS = "tests/papers/test_girgis.py"
GIRGIS_ROUNDED = "tests/papers/test_girgis.py -k rounded"
CHEN = "tests/papers/test_chen.py"
MANY_LINES = "tests/bounds/test_many_lines.py"
ONE_MOMENT = "tests/bounds/test_one_moment.py -k single_lines"
LINE_MOMENTS = "tests/divergence/test_line_moments.py -k 'late or negative'"
ON_A_RAY = "tests/divergence/test_line_moments.py -k sums_on_a_ray"
CHIRP = "tests/special/test_chirp.py"
CORRELATIONS = "tests/divergence/test_correlations.py"
RULE = "tests/divergence/test_rule.py"
CHECK_IN = "tests/bounds/test_check_in.py"
MOMENTS = "tests/papers/test_check_in_moments.py"
GUARANTEES = "tests/papers/test_check_in_guarantees.py"
PAIR_BELOW = "tests/papers/test_pair_from_below.py"
FEW_STEPS = "tests/papers/test_few_steps_rounded.py"
BLOCKS = "tests/bounds/test_few_outputs.py -k blocks"
SINH = "tests/bounds/test_check_in.py -k 'sine or lognormal_ternary'"
PAIR_ABOVE = "tests/papers/test_pair_from_above.py"
CHECK_LINE = "tests/divergence/test_check_in_line.py"
CHECK_RESPONSE = "tests/divergence/test_check_in_response.py"
CHECK_FEW = "tests/divergence/test_check_in_few_clones.py"
LEAST = "tests/bounds/test_check_in.py -k least"
ESTIMATION = "tests/test_estimation.py"
INVERTED = "tests/answering/test_inverted.py -k selected"
SCALES = "tests/bounds/test_answers_by_laws.py -k every_scale"
CALIBRATED = "tests/calibration/test_calibration.py -k law"
SPECIAL = "tests/special/test_special.py"
TAILS = "tests/divergence/test_threshold_test.py -k tails"
CALLED = "tests/accounting/test_on_host.py"
HELD = "tests/divergence/test_threshold_test.py -k with_and_without"
BEYOND = "tests/divergence/test_threshold_test.py -k lies_beyond"
HOW_MANY = "tests/bounds/test_how_many.py"
POINTS = "tests/divergence/test_point_steps.py"
FILTER = "tests/training/test_filter.py"
BATCHES_BELOW = "tests/bounds/test_shuffled_batches.py"
BLANKET = "tests/divergence/test_report_blanket.py"
SUMS = "tests/divergence/test_correlated_sum.py"
BINS = "tests/bounds/test_balls_in_bins.py"
REPORT_BOUNDS = "tests/bounds/test_report_bounds.py"
ROUNDS = "tests/bounds/test_check_in_rounds.py"
PURE_ROUNDS = "tests/bounds/test_pure_rounds.py"
EQUAL_ROUNDS = "tests/bounds/test_equal_rounds.py"
POSITIVE_SUM = "tests/divergence/test_positive_sum.py"
TESTED = "tests/divergence/test_tested_reports.py"
DENSITY = "tests/divergence/test_density_blanket.py"
LOG_CONCAVE = "tests/special/test_log_concave.py"

_COMPOSED = (
    Mutant(
        "divergence/batches/_blanket.py",
        "others * one, some",
        "0.9 * others * one, some",
        "tests/divergence/test_shuffled_order.py",
    ),
    Mutant(
        "divergence/batches/_powers.py",
        "(steps.most_steps - count + 1.0) * log",
        "(steps.most_steps - count) * log",
        "tests/divergence/test_shuffled_order.py",
    ),
    Mutant(
        "divergence/batches/_positive_sum.py",
        "step / (4.0 * size)",
        "step / (4.2 * size)",
        "tests/divergence/test_shuffled_order.py",
    ),
    Mutant(
        "divergence/batches/_positive_sum.py",
        "weight[1:] *= 2.0",
        "weight[1:] *= 1.9",
        "tests/divergence/test_shuffled_order.py",
    ),
    Mutant(
        "divergence/batches/_explicit.py",
        "masses(2.0 * a), middle",
        "masses(1.9 * a), middle",
        "tests/divergence/test_shuffled_order.py",
    ),
    Mutant(
        "divergence/batches/_profile.py",
        "if value > delta:",
        "if value > 1.001 * delta:",
        "tests/divergence/test_shuffled_order.py",
    ),
    Mutant(
        "divergence/batches/_positive_sum.py",
        "min(found, now + beyond)",
        "min(found, now)",
        "tests/divergence/test_shuffled_order.py",
    ),
    Mutant(
        "divergence/batches/_explicit.py", "* errors + outside", "* errors", "tests/divergence/test_shuffled_order.py"
    ),
    Mutant(
        "divergence/batches/_profile.py",
        "grid <= right, chord + slack",
        "grid <= right, chord * 0.99",
        "tests/divergence/test_shuffled_order.py",
    ),
    Mutant("divergence/batches/_positive_sum.py", "(apart + both)", "apart", POSITIVE_SUM),
    Mutant("divergence/batches/_positive_sum.py", "+ 2.0**-44)\n", "- 1e-3)\n", POSITIVE_SUM),
    Mutant("divergence/batches/_positive_sum.py", "+ 0.26 * apart * apart * variance\n", "\n", POSITIVE_SUM),
    Mutant("divergence/batches/_positive_sum.py", "number = math.ceil(last / apart) + 2", "number = 8", POSITIVE_SUM),
    Mutant("divergence/blanket/_profile.py", "idle = (1.0 - q) *", "idle = q * (1.0 - q) *", BLANKET),
    Mutant(
        "divergence/blanket/_profile.py",
        "-math.expm1(epsilon) * (1.0 -",
        "-2.0 * math.expm1(epsilon) * (1.0 -",
        BLANKET,
    ),
    Mutant("divergence/blanket/_profile.py", "found + q * step.cut", "found", BLANKET),
    Mutant("divergence/blanket/_profile.py", "step.cut + run.beyond", "step.cut", BLANKET),
    Mutant("divergence/blanket/_profile.py", "mean_positive(most) + lost", "mean_positive(most)", BLANKET),
    Mutant("divergence/blanket/_profile.py", "math.log(goal * n)) / n", "math.log(goal * n)) / (n + 1)", BLANKET),
    Mutant(
        "divergence/blanket/_antipodal.py", "-np.expm1(self.log_ratio + epsilon)", "-np.expm1(self.log_ratio)", BLANKET
    ),
    Mutant("divergence/blanket/_antipodal.py", "np.square(w + a)", "np.square(w + 1.01 * a)", BLANKET),
    Mutant("divergence/blanket/_antipodal.py", "0.5 * math.exp(-2.0 * rate)", "0.4 * math.exp(-2.0 * rate)", BLANKET),
    Mutant("divergence/blanket/_antipodal.py", "_WIDTH * cells - a]", "_WIDTH * cells]", BLANKET),
    Mutant("divergence/blanket/_antipodal.py", "return _law(2.0 * a *", "return _law(1.99 * a *", BLANKET),
    Mutant("divergence/blanket/_ball.py", "powers, scale = j - 0.5", "powers, scale = j - 0.6", BLANKET),
    Mutant("divergence/blanket/_ball.py", "dimension - 1\n", "dimension - 2\n", BLANKET),
    Mutant("divergence/blanket/_finite.py", "np.append(error, 0.0) + np", "-np.append(error, 0.0) - np", BLANKET),
    Mutant("divergence/blanket/_finite.py", "float(told.max()))", "float(told.min()))", BLANKET),
    Mutant("divergence/blanket/_finite.py", "(told.max() - told)", "(2.0 * told.max() - told)", BLANKET),
    Mutant("divergence/blanket/_finite.py", "if np.all(_stop_loss", "if np.any(_stop_loss", BLANKET),
    Mutant("divergence/blanket/_finite.py", "least = rows.min(axis=0)", "least = np.sort(rows, axis=0)[1]", BLANKET),
    Mutant("divergence/blanket/_finite.py", "odds + num_categories - 1.0)", "odds + num_categories)", BLANKET),
    Mutant("divergence/blanket/_density.py", "np.where(right > 0.0, self.most, self.least)", "self.least", DENSITY),
    Mutant("divergence/blanket/_density.py", "np.where(right > 0.0, self.most, self.least)", "self.most", DENSITY),
    Mutant("divergence/blanket/_density.py", "self.least), self.back]", "self.least), self.least]", DENSITY),
    Mutant("divergence/blanket/_density.py", "self.behind + epsilon) + ULP", "self.behind) + ULP", DENSITY),
    Mutant("divergence/blanket/_density.py", "sum() + sum(tails))", "sum())", DENSITY),
    Mutant("divergence/blanket/_density.py", "(log_ratio + off)[ends]", "(log_ratio - off)[ends]", DENSITY),
    Mutant(
        "divergence/blanket/_density.py", "np.maximum(log_ratio - off, 0.0)[ends]", "(log_ratio + off)[ends]", DENSITY
    ),
    Mutant(
        "divergence/blanket/_density.py",
        "_down(cells[2]) / high, _up(cells[3]) / low",
        "_up(cells[3]) / low, _up(cells[3]) / low",
        DENSITY,
    ),
    Mutant(
        "divergence/blanket/_density.py",
        "_down(cells[2]) / high, _up(cells[3]) / low",
        "_down(cells[2]) / high, _down(cells[2]) / high",
        DENSITY,
    ),
    Mutant("divergence/blanket/_density.py", "float(_up(tails[1] / total[0]))", "0.0", DENSITY),
    Mutant("divergence/blanket/_density.py", "common.upper.sum() + tails[0]", "common.lower.sum()", DENSITY),
    Mutant(
        "divergence/blanket/_density.py",
        "_down(_split(low, shares[0])) / total[1]",
        "_down(_split(low, shares[1])) / total[1]",
        DENSITY,
    ),
    Mutant(
        "divergence/blanket/_density.py", "return value, accuracy * (1.0 + np.abs(value)) +", "return value,", DENSITY
    ),
    Mutant(
        "divergence/blanket/_density.py",
        "np.where(most > 0.0, _up(most), 1.0)",
        "np.where(most > 0.0, 0.99 * most, 1.0)",
        DENSITY,
    ),
    Mutant("divergence/blanket/_density.py", "if not is_concave(place, value, error)", "if False", DENSITY),
    Mutant("special/_log_concave.py", "_mean_growth(slope[1:-1] * h)", "_mean_growth(before * h)", LOG_CONCAVE),
    Mutant(
        "special/_log_concave.py",
        "* rest * _mean_growth(-after * rest)",
        "* rest * _mean_growth(-slope[1:-1] * rest)",
        LOG_CONCAVE,
    ),
    Mutant("special/_log_concave.py", "under * np.exp(-off - rounded)", "under * np.exp(-rounded)", LOG_CONCAVE),
    Mutant("special/_log_concave.py", "off * (1.0 + 2.0 * h / beside)", "off", LOG_CONCAVE),
    Mutant(
        "special/_log_concave.py",
        "slope[:-2], slope[2:], width[1:-1]",
        "slope[1:-1], slope[1:-1], width[1:-1]",
        LOG_CONCAVE,
    ),
    Mutant("special/_log_concave.py", "unsure[1:] + unsure[:-1]", "1e9", LOG_CONCAVE),
    Mutant(
        "bounds/blanket/_from_below.py",
        "math.log1p(-law.wrong) - math.log(law.wrong)",
        "1.5 * (math.log1p(-law.wrong) - math.log(law.wrong))",
        REPORT_BOUNDS,
    ),
    Mutant(
        "divergence/blanket/_tested.py",
        "others = 2**test.points, users - 1.0",
        "others = 2**test.points, users - 1.5",
        TESTED,
    ),
    Mutant("divergence/blanket/_tested.py", "(one - gain * mass) *", "(one - mass) *", TESTED),
    Mutant(
        "divergence/blanket/_tested.py",
        "np.append(prob * cells.own, 1.0 - prob)",
        "np.append(prob * cells.own, 1.0)",
        TESTED,
    ),
    Mutant("divergence/blanket/_tested.py", "- outside - known * (2.0 * error", "- known * (0.0 * error", TESTED),
    Mutant(
        "divergence/blanket/_tested.py",
        "users * math.log(total) - test.tilt",
        "users * math.log(total) + 0.1 - test.tilt",
        TESTED,
    ),
    Mutant("divergence/blanket/_hidden.py", "self.shift, epsilon", "0.9 * self.shift, epsilon", BLANKET),
    Mutant(
        "bounds/blanket/_known.py",
        "(1.0 - float(run.dropout_prob)), 6)",
        "(1.0 - float(run.dropout_prob)) ** 2, 6)",
        REPORT_BOUNDS,
    ),
    Mutant(
        "bounds/blanket/_order.py",
        "return BatchEpoch(_shift",
        "return BatchEpoch(0.9 * _shift",
        REPORT_BOUNDS,
    ),
    Mutant("bounds/_rounds.py", "direction), one_of(mechanism)[1])", "direction), 1)", REPORT_BOUNDS),
    Mutant("bounds/check_in/_rounds.py", "least = min(found)", "least = min(found) - 1e-3", ROUNDS),
    Mutant(
        "bounds/shuffle/_pure_rounds.py",
        "append(log_replacement_cost(*lanes))",
        "append(log_replacement_cost(*lanes) - 0.01)",
        PURE_ROUNDS,
    ),
    Mutant(
        "bounds/shuffle/_pure_rounds.py",
        "(1.0 - 2.0**-40) - math.exp(",
        "(1.0 - 2.0**-40) - 0.0 * math.exp(",
        PURE_ROUNDS,
    ),
    Mutant("bounds/shuffle/_pure_rounds.py", "np.logaddexp(a, b)", "np.maximum(a, b)", PURE_ROUNDS),
    Mutant("bounds/shuffle/_pure_rounds.py", ".upper <= epsilon)", ".upper >= epsilon)", PURE_ROUNDS),
    Mutant("bounds/shuffle/_pure_rounds.py", "_UNSEEN = 2.0**-40", "_UNSEEN = 1.0", PURE_ROUNDS),
    Mutant("bounds/_equal_rounds.py", "rounds = sum(", "rounds = max(", EQUAL_ROUNDS),
    Mutant("bounds/shuffle/_pure_rounds.py", "asked.log_total <= math.log(delta) else", "delta else", PURE_ROUNDS),
    Mutant(
        "bounds/composed.py", "in reversed(methods_of(mechanism, D", "in iter(methods_of(mechanism, D", REPORT_BOUNDS
    ),
    Mutant("bounds/check_in/_rounds.py", "4)), LEAST_NORMAL), 1.0)", "4)), 0.0), 1.0)", ROUNDS),
    Mutant("bounds/check_in/_rounds.py", "if epsilon >= local:", "if epsilon >= 0.5 * local:", ROUNDS),
    Mutant(
        "bounds/shuffle/_gaussian_reports.py",
        "rate + log1p(-expm1(-rate))",
        "2.0 * rate + log1p(-expm1(-rate))",
        REPORT_BOUNDS,
    ),
    Mutant("bounds/shuffled_batches/_tests.py", "return Outputs(2.0 * mu", "return Outputs(2.1 * mu", BATCHES_BELOW),
    Mutant("bounds/shuffled_batches/_tests.py", ", before=mu)", ", before=0.9 * mu)", BATCHES_BELOW),
    Mutant(
        "bounds/shuffled_batches/_tests.py",
        "num_epochs, num_epochs, before",
        "num_epochs, 2 * num_epochs, before",
        BATCHES_BELOW,
    ),
    Mutant("training/_filter.py", "self._delta / len(self._orders)", "self._delta", FILTER),
    Mutant(
        "training/_filter.py",
        "epsilon - base + tail - _MARGIN * sizes",
        "epsilon - base + tail + _MARGIN * sizes",
        FILTER,
    ),
    Mutant(
        "training/_filter.py",
        "if not np.any(whole <= self._budget)",
        "if not np.any(self._spent <= self._budget)",
        FILTER,
    ),
    # curves
    Mutant("curves/_pld.py", "total + slack) if self.bound", "total - slack) if self.bound", PLD),
    Mutant("curves/_pld.py", "+ self.infinite_mass\n        slack =", "\n        slack =", PLD),
    Mutant("curves/_pld.py", "first = max(0, int(place))", "first = max(0, int(place) + 2)", PLD),
    Mutant("curves/_pld.py", "settled = self.delta(answer) <= delta", "settled = self.delta(answer) >= delta", PLD),
    Mutant(
        "curves/_regridding.py", "upper = pld.bound is Bound.UPPER", "upper = pld.bound is not Bound.UPPER", PROFILES
    ),
    Mutant("curves/_regridding.py", "share * part.masses", "part.masses * share * share", PROFILES),
    # composition of loss distributions
    Mutant("curves/_convolution.py", "np.maximum(result + error, 0.0)", "np.maximum(result - error, 0.0)", PLD),
    Mutant("curves/_convolution.py", "np.maximum(result - error, 0.0)", "np.maximum(result + error, 0.0)", PLD),
    Mutant("curves/_convolution.py", "(grow if upper else -grow)", "(-grow if upper else grow)", EXPONENTS),
    Mutant("curves/_convolution.py", "infinite = 0.0 - math.expm1(log_finite) * (", "infinite = 0.0 * (", PLD),
    Mutant("curves/_convolution.py", "if end < full:", "if False:", PLD),
    Mutant("curves/_convolution.py", "if window.size > MAX_POINTS:", "if False:", f"{PLD} -k too_many_losses"),
    # laws of ratios
    Mutant("divergence/lattice/_ratio.py", "masses * (1.0 + rounding), 0.0", "masses * (1.0 - rounding), 0.0", PLD),
    Mutant("divergence/lattice/_ratio.py", "sum_outward((infinite, upper_p), up=True)", "infinite", PLD),
    Mutant("divergence/lattice/_ratio.py", "kept[0] += moved * grow", "kept[0] += 0.0", PLD),
    Mutant("divergence/lattice/_ratio.py", "far_above = np.expm1(empty)", "far_above = 0.9 * np.expm1(empty)", LATTICE),
    Mutant(
        "divergence/lattice/_ratio.py", "far_below = -np.expm1(-empty)", "far_below = -0.9 * np.expm1(-empty)", LATTICE
    ),
    Mutant(
        "divergence/lattice/_ratio.py", "(0 if removing else 1)] += lone", "(1 if removing else 0)] += lone", LATTICE
    ),
    Mutant("divergence/lattice/_ratio.py", "np.argmax(np.where(least, mass, -1.0))", "np.argmin(cost)", LATTICE),
    Mutant("bounds/bases/_few_outputs.py", "place += math.log1p(", "place += 0.01 * step + math.log1p(", LATTICE),
    Mutant("bounds/bases/_few_outputs.py", "np.abs(distances) <= step", "np.abs(distances) <= 0.0", LATTICE),
    Mutant("curves/_pld.py", "(slack if upper else -slack)", "0.0", f"{PLD} -k few_deltas"),
    Mutant("divergence/lattice/_sums.py", "dataclasses.replace(law, zero_mass=zero,", "dataclasses.replace(law,", PLD),
    Mutant(
        "divergence/lattice/_sums.py",
        "np.maximum.accumulate(np.floor(rise) + distance) - distance",
        "np.floor(rise)",
        f"{LATTICE} -k far_apart",
    ),
    # what is rounded once a step: the masses at 0 and at infinity
    Mutant("divergence/lattice/_sums.py", "b.zero_mass, up=up)\n", "b.zero_mass, up=not up)\n", BOOKED),
    Mutant("divergence/lattice/_ratio.py", "b.zero_mass), up=up)\n", "b.zero_mass), up=not up)\n", BOOKED),
    Mutant("divergence/lattice/_ratio.py", "b.infinite_mass), up=up)\n", "b.infinite_mass), up=not up)\n", BOOKED),
    Mutant(
        "divergence/lattice/_sums.py",
        "for part in parts), up=up)\n        infinite = outward(total / (weight_a + weight_b), up=up)",
        "for part in parts), up=not up)\n        infinite = outward(total / (weight_a + weight_b), up=not up)",
        BOOKED,
    ),
    Mutant("divergence/lattice/_ratio.py", "law.infinite_mass, up=up)", "law.infinite_mass, up=not up)", BOOKED),
    Mutant(
        "divergence/lattice/_ratio.py", "grow = 1.0 + _TAIL_ROUNDING if up", "grow = 1.0 - _TAIL_ROUNDING if up", BOOKED
    ),
    Mutant("divergence/lattice/_ratio.py", "1.0 + rounding if law.side", "1.0 - rounding if law.side", BOOKED),
    Mutant("divergence/lattice/_ratio.py", "np.log(rest + share *", "np.log1p(share - 1.0 + share *", BOOKED),
    Mutant("bounds/bases/_discrete.py", "masses[~there], up=up)", "masses[~there], up=not up)", BOOKED),
    Mutant("bounds/bases/_discrete.py", "alone, up=up)", "alone, up=not up)", BOOKED),
    Mutant("curves/_regridding.py", "part.infinite_mass, up=is_upper)", "part.infinite_mass, up=not is_upper)", BOOKED),
    Mutant(
        "curves/_regridding.py", "sum_outward(weighed, up=is_upper)", "sum_outward(weighed, up=not is_upper)", BOOKED
    ),
    Mutant("special/_outward.py", "math.inf if up else 0.0", "math.inf if not up else 0.0", BOOKED),
    Mutant("special/_outward.py", "math.inf if up else -math.inf", "math.inf if not up else -math.inf", BOOKED),
    Mutant("special/_outward.py", "if left > 0.0 and up:", "if left > 0.0 and not up:", BOOKED),
    Mutant("special/_outward.py", "elif left < 0.0 and not up:", "elif left < 0.0 and up:", BOOKED),
    Mutant(
        "bounds/bases/_base.py", "law.reach) * (1.0 if upper else -1.0)", "law.reach) * (-1.0 if upper else 1.0)", ATOMS
    ),
    Mutant("bounds/bases/_base.py", "infinite_mass * math.exp(law.blur) if upper", "infinite_mass if upper", ATOMS),
    Mutant(
        "divergence/lattice/_ratio.py",
        "end = 1.0 if side is Side.LOWER_ADD",
        "end = 1.0 if side is Side.LOWER_REMOVE",
        ATOMS,
    ),
    Mutant("divergence/lattice/_sums.py", "sum_outward((zero, lost), up=True)", "zero", ATOMS),
    Mutant("divergence/lattice/_sums.py", "if a.zero_mass + b.zero_mass <= LUMPS * tail:", "if False:", ATOMS),
    Mutant("divergence/lattice/_sums.py", "if a.zero_mass + b.zero_mass <= LUMPS * tail:", "if True:", ATOMS),
    Mutant("divergence/lattice/_ratio.py", "sum_outward((zero, *(mass for mass, _ in lumps)), up=True)", "zero", ATOMS),
    Mutant(
        "divergence/lattice/_ratio.py",
        "sum_outward((infinite, *(mass * mean * grow for mass, mean in lumps)), up=True)",
        "infinite",
        ATOMS,
    ),
    Mutant("divergence/lattice/_ratio.py", "if law.zero_mass <= LUMPS * tail:", "if True:", ATOMS),
    Mutant("divergence/lattice/_sums.py", "additions=2 * size, blur=blur)", "additions=2 * size, blur=0.0)", ATOMS),
    Mutant("bounds/bases/_gaussian.py", "(error / ULP, _CELLS + error)", "(error / ULP, 0.0)", ATOMS),
    Mutant("bounds/bases/_gaussian.py", "(error / ULP, _CELLS + error)", "(0.0, _CELLS + error)", ATOMS),
    Mutant("divergence/lattice/_ratio.py", "mixed[low] = np.log(rest +", "mixed[low] = np.log1p(share * 0.0 +", ATOMS),
    Mutant("bounds/bases/_laplace.py", "+ sampling_prob * p_between", "+ sampling_prob * q_between", ATOMS),
    Mutant("divergence/lattice/_sums.py", "if still > 0:  # 0 + x = x", "if False:", PLD),
    Mutant("bounds/bases/_gaussian.py", "zero_mass=outside, inf", "zero_mass=0.0, inf", PLD),
    Mutant("bounds/bases/_gaussian.py", "min(1.0, outside + beyond)", "min(1.0, beyond)", ATOMS),
    Mutant("bounds/bases/_gaussian.py", "min(1.0, outside + beyond)", "outside", JOINS),
    Mutant(
        "divergence/lattice/_ratio.py",
        "masses, zero, infinite, step, law.side",
        "masses, 0.0, 0.0, step, law.side",
        ONLY_ONE,
    ),
    Mutant("composition.py", "(k - larger) * epochs", "(k - larger)", "--doctest-modules jaxacct/composition.py"),
    Mutant(
        "bounds/bases/_continuous.py",
        "from_cells(q - high + low_error, high + error",
        "from_cells(q - high, high",
        "tests/curves/test_distributions.py -k accuracy",
    ),
    Mutant(
        "bounds/bases/_continuous.py",
        "error / (1.0 - error)",
        "error",
        "tests/curves/test_distributions.py -k all_of_their_accuracy",
    ),
    Mutant(
        "bounds/bases/_continuous.py",
        "low_error = error + q_error",
        "low_error = error",
        "tests/curves/test_distributions.py -k may_err_by",
    ),
    # profiles to distributions and back
    Mutant(
        "curves/_from_profile.py",
        "+ slope_error[1:] + slope_error[:-1]",
        "- slope_error[1:] - slope_error[:-1]",
        CURVES,
    ),
    Mutant("curves/_from_profile.py", "np.minimum(value + slack, 1.0)", "np.minimum(value - slack, 1.0)", CURVES),
    Mutant("curves/_from_profile_below.py", "- error[1:] - error[:-1]", "+ error[1:] + error[:-1]", CURVES),
)

_ANSWERS = (
    Mutant("conversion.py", "rdp + base - tail + rounding)", "rdp + base - tail - rounding)", PROPERTIES),
    Mutant("conversion.py", "rdp + base - tail + rounding)", "rdp + 2.0 * base - tail + rounding)", PROPERTIES),
    Mutant("conversion.py", "+ base - log_a + rounding", "+ base + log_a + rounding", PROPERTIES),
    Mutant("conversion.py", "_ROUNDING = 2.0**-49", "_ROUNDING = 0.0", CONVERSION),
    Mutant("composition.py", "return Group(size, (k - larger)", "return Group(size + 1, (k - larger)", PROPERTIES),
    Mutant(
        "composition.py",
        "return up(total, 2 * (len(terms) + 1))",
        "return total / up(1.0, 2 * (len(terms) + 1))",
        PROPERTIES,
    ),
    Mutant(
        "answering/_found.py",
        "jnp.maximum if is_traced(values) else np.maximum, values)",
        "jnp.minimum if is_traced(values) else np.minimum, values)",
        PROPERTIES,
    ),
    Mutant(
        "answering/_lanes.py",
        "return xp.where(ok, value, query.worst if upper else 0.0), order",
        "return value, order",
        PROPERTIES,
    ),
    Mutant(
        "answering/_found.py",
        "return largest([bracket.upper for bracket in self.brackets.values()])",
        "return -largest([-bracket.upper for bracket in self.brackets.values()])",
        "tests/accounting/test_intervals.py",
    ),
    Mutant(
        "bounds/_distribution.py",
        "max(at.width, query.width / _STAGE)",
        "at.width",
        "tests/accounting/test_intervals.py -k coarser_precision",
    ),
    Mutant(
        "bounds/bases/_points.py",
        "law(release, sampling_prob, spacing * together, side, _TAIL)",
        "law(release, sampling_prob, spacing * together, type(side).UPPER, _TAIL)",
        "tests/divergence/test_point_steps.py -k neighbours",
    ),
    Mutant("accounting/_on_host.py", "return rounded_up(value, dtype), *", "return value.astype(dtype), *", CALLED),
    Mutant("accounting/_on_host.py", "[jnp.broadcast_to(x, shape) for x in numbers]", "list(numbers)", CALLED),
    Mutant("accounting/_on_host.py", "frozenset().union(*map(varying, whole))", "frozenset()", CALLED),
    Mutant("accounting/_slopes.py", "        _CHECKS[self._query](self._query.given, target)\n", "", CALLED),
    Mutant("composition.py", "if len(directions) > 1:", "if len(directions) > 2:", "tests/curves/test_rdp.py"),
    Mutant(
        "_precision/_floats.py",
        "narrow.astype(y.dtype) < y if up",
        "narrow.astype(y.dtype) > y if up",
        "tests/test_precision.py",
    ),
    Mutant("membership.py", "mu - z + off", "mu - z - off", MEMBERSHIP),
    Mutant("bounds/shuffle/_one_purified_round.py", "mu, np.ones_like(n))", "mu, 0.1 * np.ones_like(n))", PURIFIED),
    Mutant("bounds/shuffle/_one_purified_round.py", "if residual <= 0.0:", "if residual <= 0.1:", PURIFIED),
    Mutant("bounds/shuffle/_one_purified_round.py", "np.asarray(cost) <= log_delta", "cost <= log_delta + 1", PURIFIED),
    Mutant(
        "bounds/shuffle/_purified_rounds.py", "run.noise_multiplier, run.rounds)", "run.noise_multiplier, 1)", PURIFIED
    ),
    Mutant("bounds/shuffle/_purified_rounds.py", "(run.num_users * run.prob, local", "(run.prob, local", PURIFIED),
    Mutant("bounds/shuffle/_purified_rounds.py", "asked.epsilon if holds else", "asked.epsilon if True else", PURIFIED),
    Mutant(
        "bounds/shuffle/_pure_rounds.py", "Guarantee(*pure), log_cost)", "Guarantee(*pure), log_cost - 1)", PURIFIED
    ),
    Mutant("bounds/check_in/_other_schemes.py", "Gaussian(0.5 * mechanism", "Gaussian(0.45 * mechanism", PURIFIED),
    Mutant("bounds/shuffle/_gaussian_reports.py", "squared = 4.0 * mech", "squared = 8.0 * mech", REPORTS),
    Mutant(
        "divergence/gaussian/_pair.py", "mu), log_delta - slack, -xp.inf)", "mu), log_delta + slack, 0.0)", BOTH_ENDS
    ),
    Mutant("bounds/shuffle/_gaussian_reports.py", "half = 1.0 / rand", "half = 2.0 / rand", REPORTS),
    Mutant("divergence/clones/_tradeoff.py", "z - other + error + other_error", "z - other", VERTICES),
    Mutant("special/_normal_quantile.py", "37.0 * ULP * (1.0 + z * z)", "0.0", QUANTILE),
    Mutant("special/_normal_quantile.py", "slack * xp.exp(log_p - other)", "slack", QUANTILE),
    Mutant(
        "estimation.py", "scale * unit_mean, num_samples, error_prob", "scale * unit_mean, num_samples, 0.9", ESTIMATION
    ),
    Mutant("bounds/_unamplified.py", "up(rho + 2.0 *", "up(2.0 *", SCALES),
    Mutant("bounds/adjacent.py", "run.signature() == (PrivateSelection,)", "False", INVERTED),
    Mutant("calibration/_traced.py", "*lanes, value=log_excess", "*lanes", CALIBRATED),
    Mutant("calibration/__init__.py", "[traced if leaf is None", "[field.start if leaf is None", CALIBRATED),
    Mutant("special/_roots.py", "xp.where(good, xp.minimum(x, high), high)", "xp.minimum(x, high)", SPECIAL),
)

_GAUSSIAN = (
    Mutant("divergence/gaussian/_pair.py", "log_delta + slack, 0.0", "log_delta - slack, 0.0", DIVERGENCE),
    Mutant(
        "divergence/gaussian/_pair.py",
        "return up(0.5 * orders",
        "return up(0.5 * (1.0 - 2.0**-49) * orders",
        DIVERGENCE,
    ),
    Mutant("divergence/gaussian/_pair.py", "(ratios[0] + ratios[1])", "(ratios[0] - ratios[1])", DIVERGENCE),
    Mutant(
        "divergence/gaussian/_sampled.py",
        "* xp.pi) + 2.0**-43 * (1.0 + a) + 2",
        "* xp.pi) - 2.0**-43 * (1.0 + a) - 2",
        SAMPLED,
    ),
    Mutant("divergence/gaussian/_sampled.py", "return found + stop", "return found - stop", SAMPLED),
    Mutant("divergence/gaussian/_sampled.py", "(a - 1.0) * softplus(t)", "(a - 2.0) * softplus(t)", SAMPLED),
    Mutant("divergence/gaussian/_sampled.py", "log_normal_tail(end - a * s)", "log_normal_tail(end)", SAMPLED),
    Mutant("divergence/gaussian/_sampled.py", "xp.abs(x) - other * decay", "xp.abs(x) + other * decay", SAMPLED),
    Mutant("divergence/gaussian/_sampled_add.py", "(1.0 + b) * (2.0**-43", "-(1.0 + b) * (2.0**-43", SAMPLED),
    Mutant("divergence/gaussian/_sampled_add.py", "_TAIL_SDS + _mode(", "_TAIL_SDS + 0.0 * _mode(", SAMPLED),
    Mutant("divergence/gaussian/_sampled_add.py", "[log_sum, right, left, step]", "[log_sum]", SAMPLED),
    Mutant("special/_normal.py", "8.88314979438837594", "8.8831497944", PROVED),
    Mutant("special/_normal.py", "3.60344899949804439e-1", "3.60344900e-1", PROVED),
    Mutant("special/_normal.py", "0.006457973642032787", "0.006457973642032788", PROVED),
    Mutant("special/_fair_coins.py", "1.1093323208613803885", "1.10933232", PROVED),
    Mutant("special/_fair_coins.py", "_TURN = 4.5", "_TURN = 9.0", COINS),
    Mutant("special/_fair_coins.py", "_TOP = 24", "_TOP = 18", COINS),
    Mutant("special/_fair_coins.py", "_ORDERS = 4", "_ORDERS = 3", COINS),
    Mutant("special/_fair_coins.py", "1.1093323208613803885", "1.10933232086", COINS),
    Mutant("special/_binomial.py", "139.42603953082007334", "139.4260396", PROVED),
    Mutant("divergence/allocation/_real.py", "+ transform_rounding(of, u)", "- 2.0 * transform_rounding(of, u)", RULE),
    Mutant("divergence/allocation/_real.py", "1.0 + x + slip, density)", "1.0 + x - slip, density)", RULE),
    Mutant("divergence/allocation/_transform.py", "e.real, e.imag = less - t * turned", "e.real, e.imag = less", RULE),
    Mutant(
        "divergence/allocation/_added_lanes.py",
        "np.maximum(np.log(most), 0.0)",
        "0.99 * np.maximum(np.log(most), 0.0)",
        MANY_LINES,
    ),
    Mutant(
        "divergence/allocation/_clipped_lanes.py",
        "np.maximum(moment, 0.0)\n",
        "-np.maximum(moment, 0.0) - 1.0\n",
        MANY_LINES,
    ),
    Mutant("divergence/allocation/_added_plans.py", "- j + grown\n", "- 1.1 * j + grown\n", MANY_LINES),
    Mutant("divergence/allocation/_added_plans.py", "np.where(j > _NUM_SERIES, rest, 0.0)", "0.0", MANY_LINES),
    Mutant("bounds/_line_answers.py", "target * (1.0 - 2.0**-50) - dropped", "target * 1.001", MANY_LINES),
    Mutant("bounds/_one_moment.py", "-(1.0 + powers) *", "-(2.5 + powers) *", ONE_MOMENT),
    Mutant("divergence/allocation/_negative_moments.py", "- drop * (mean", "- 1.1 * drop * (mean", LINE_MOMENTS),
    Mutant("divergence/allocation/_negative_moments.py", "- np.log(powers))", "- np.log(powers) - 1.0)", LINE_MOMENTS),
    Mutant("divergence/allocation/_ray_moments.py", "+ missed * (1.0 + 2.0**-30)", "", LINE_MOMENTS),
    Mutant("divergence/allocation/_ray_moments.py", "found = found / fall", "found = 0.5 * found / fall", LINE_MOMENTS),
    Mutant("divergence/allocation/_ray_moments.py", "error + own_error + by_height * b", "error + own_error", ON_A_RAY),
    Mutant("divergence/allocation/_correlations.py", "every).max(1)", "every).min(1)", CORRELATIONS),
    Mutant(
        "special/_chirp.py", "return sums, error + moved * np.arange(count)", "return sums, error + 0.0 * far", CHIRP
    ),
    Mutant("special/_chirp.py", "(2.0 * eta + 8.0 * ULP) * norm +", "(1.0 * eta + 8.0 * ULP) * norm +", CHIRP),
    Mutant("special/_chirp.py", "error + 96.0 * ULP * float(sizes.sum())", "error", CHIRP),
    Mutant("divergence/allocation/_rule.py", "self.far_left + self.left", "self.far_left + 0.0", f"{EXACT} -k tails"),
    Mutant("curves/_convolution.py", "return eta / (1.0 - eta) * norms * math.exp(grown) +", "return", FFT),
    Mutant("curves/_regridding.py", "shift = max(shifts) if is_upper else min(shifts)", "shift = shifts[0]", SHIFT),
    Mutant("curves/_regridding.py", "1e-9 * step + 4.0 * ULP", "1e-9 * step + 0.0 * ULP", SHIFT),
    Mutant("curves/_convolution.py", "drift < 0.25 and grown < 1.0", "True", FFT),
    Mutant(
        "divergence/_inversion.py",
        "below = found.value - found.error - aliases",
        "below = found.value - found.error",
        INVERSION,
    ),
    Mutant("divergence/_inversion.py", "found.value, 0.0) + found.error", "found.value, 0.0) - found.error", INVERSION),
    Mutant(
        "divergence/_inversion.py",
        "error = error + np.exp(np.max(moments.log_decay",
        "error = error + 0.0 * np.exp(np.max(moments.log_decay",
        INVERSION,
    ),
    Mutant("divergence/_inversion.py", "step * table.shape[1] * rows", "step * (table.shape[1] + 1) * rows", INVERSION),
    Mutant("divergence/_inversion.py", "bound + 2.0**-48 * sizes + _log", "bound + _log", ALIASES),
    Mutant("divergence/_inversion.py", "rest - fall + 2.0**-48 * (fall + rest)", "rest - fall", ALIASES),
    Mutant(
        "divergence/_inversion.py",
        "np.logaddexp(2.0**-48 + _log_geometric((a - 1.0) * line.period), right)",
        "right",
        INVERSION,
    ),
    Mutant(
        "divergence/_tail.py", "below = value - error - exp_or_inf", "below = value - error - 0.0 * exp_or_inf", TAILS
    ),
    Mutant("divergence/_tail.py", "error = error + exp_or_inf", "error = error + 0.0 * exp_or_inf", TAILS),
    Mutant("divergence/_tail.py", "shares[-1] += ", "shares[-1] += 0.0 * ", BEYOND),
    Mutant(
        "divergence/_tail.py",
        "np.append(np.diff(edges) + nodes.step, nodes.step)",
        "np.append(np.diff(edges), 0.0)",
        BEYOND,
    ),
    Mutant("divergence/gaussian/_allocated_steps.py", "(high - (1.0 - self.rate) * low)", "(high - low)", HELD),
    Mutant("bounds/allocation/_how_many.py", "steps * math.log(total) - log_b", "-log_b", HOW_MANY),
    Mutant(
        "bounds/allocation/_how_many.py", "math.fsum(weights[j:]) if is_last else weights[j]", "weights[j]", HOW_MANY
    ),
    Mutant("bounds/allocation/_how_many_epochs.py", "if least < LEAST_NORMAL", "if least < 0.0", HOW_MANY),
    Mutant("bounds/allocation/_how_many_roughly.py", "_TAIL = 1e-100", "_TAIL = 1e-16", HOW_MANY),
    Mutant("bounds/allocation/_how_many_roughly.py", "1.0, 2.0) / size", "1.0, 1.0) / size", HOW_MANY),
    Mutant("bounds/allocation/_how_many_epochs.py", ".epsilon(least) + whole", ".epsilon(least)", HOW_MANY),
    Mutant("bounds/allocation/_how_many_epochs.py", "delta * math.exp(whole)", "delta", HOW_MANY),
    Mutant(
        "divergence/_tail.py",
        "times(held, num_steps - num_selected)",
        "times(held, num_steps)",
        POINTS,
    ),
    Mutant(
        "divergence/_laplace_step.py",
        "heights) + np.take_along_axis(by_rule, block, 1)",
        "heights) + 0.0 * np.take_along_axis(by_rule, block, 1)",
        LAPLACE_STEP,
    ),
    Mutant(
        "divergence/_laplace_step.py",
        "largest = 2.0 * np.where(slopes",
        "largest = 0.5 * np.where(slopes",
        LAPLACE_STEP,
    ),
    Mutant("divergence/_laplace_step.py", "+ b[:, :, None] * argument", "", LAPLACE_STEP),
    Mutant(
        "divergence/_laplace_step.py",
        "np.exp(log_atoms).sum(2)[:, :, None] + left",
        "np.exp(log_atoms).sum(2)[:, :, None]",
        LAPLACE_STEP,
    ),
    Mutant("bounds/_line_steps.py", "lambda kind: kind.moments)", "lambda kind: 0.5 * kind.moments)", LAPLACE_STEP),
    Mutant("bounds/_line_steps.py", "lanes.append(kind.lane)", "lanes.append(0 * kind.lane)", LAPLACE_STEP),
    Mutant(
        "bounds/_line_steps.py",
        "return down(total, self._roundings())",
        "return total",
        f"{LAPLACE_STEP} -k many_different_steps",
    ),
    Mutant(
        "bounds/_line_steps.py",
        "return up(self._sum(own, lambda kind: kind.moments), self._roundings())",
        "return self._sum(own, lambda kind: kind.moments)",
        f"{LAPLACE_STEP} -k many_different_steps",
    ),
    Mutant("bounds/_line_answers.py", "2.0 * np.bincount", "0.0 * np.bincount", f"{MANY_LINES} -k many_rounds"),
    Mutant("bounds/_host_line.py", "math.fsum(x)", "sum(x)", f"{LAPLACE_STEP} -k many_kinds"),
    Mutant("divergence/gaussian/_sampled_step.py", "error = edges *", "error = 0.0 * edges *", CONTOUR),
    Mutant("divergence/gaussian/_sampled_step.py", "rule.num_nodes[:, None] + 32.0", "32.0", CONTOUR),
    Mutant("divergence/gaussian/_sampled_step.py", "expm1(-fall) + window", "expm1(-fall)", CONTOUR),
    Mutant("divergence/gaussian/_sampled_step.py", "2.0 * (tau[:, 1:] / mu) ** 2 + 0.5", "0.5", CONTOUR),
    Mutant("divergence/gaussian/_sampled_step.py", "+ 0.5 * rise * rise - b", "- b", CONTOUR),
    Mutant("divergence/gaussian/_sampled_step.py", "psi[adds] - 0.5 * excess", "psi[adds] - 0.0 * excess", CONTOUR),
    Mutant("divergence/gaussian/_sampled_step.py", "b * theta[:, :-1]", "1.5 * b * theta[:, :-1]", CONTOUR),
    Mutant(
        "divergence/gaussian/_pair.py",
        "return down(math.exp(log_delta - ",
        "return up(math.exp(log_delta + ",
        ONE_STEP,
    ),
    Mutant("divergence/gaussian/_one_sampled.py", "(1.0 + 2.0**-51) /", "(1.0 - 2.0**-30) /", ONE_SAMPLED),
    Mutant(
        "divergence/gaussian/_one_sampled.py",
        "y * (1.0 - _BLUR)",
        "y * (1.0 + 2.0**-30)",
        ONE_SAMPLED,
    ),
    Mutant(
        "divergence/gaussian/_one_sampled.py",
        "spent = down(spent, 16)",
        "spent = up(spent, 2**24)",
        ONE_SAMPLED,
    ),
    Mutant(
        "divergence/gaussian/_one_sampled.py",
        "y, log_share = epsilon - log_left, log_share + log_left",
        "y = epsilon - log_left",
        ONE_SAMPLED,
    ),
    Mutant(
        "divergence/gaussian/_one_sampled.py",
        "large - xp.log(prob) + log1p((prob - 1.0)",
        "large - xp.log(prob) + 0.0 * log1p((prob - 1.0)",
        ONE_SAMPLED,
    ),
    Mutant(
        "divergence/gaussian/_one_sampled.py",
        "log_share = log_delta - log_prob\n",
        "log_share = log_delta - 0.5 * log_prob\n",
        ONE_SAMPLED,
    ),
    Mutant(
        "divergence/gaussian/_one_sampled.py",
        "return log_up(value - mixture, 8) - target",
        "return log_up(value - 1.01 * mixture, 8) - target",
        ONE_SAMPLED,
    ),
    Mutant(
        "divergence/gaussian/_one_sampled.py",
        "change = prob * xp.expm1(-y)",
        "change = 0.999 * prob * xp.expm1(-y)",
        ONE_SAMPLED,
    ),
    Mutant(
        "divergence/gaussian/_one_sampled.py",
        "return xp.where(loses, xp.where(y < xp.inf, epsilon, xp.inf), 0.0)",
        "return xp.where(loses, 0.999 * epsilon, 0.0)",
        ONE_SAMPLED,
    ),
    Mutant("bounds/poisson/_one_step.py", "== 1, found, xp.inf", ">= 1, found, xp.inf", ONE_SAMPLED),
    Mutant("divergence/_one_sampled_step.py", "c = kept + sign * error", "c = kept - sign * error", ONE_STEP),
    Mutant("divergence/law/_law.py", "jnp.where(at == 0, below, 0.0) + ", "", APART),
    Mutant("divergence/law/_law.py", "jnp.where(stays, of.below, 0.0), beyond", "jnp.zeros_like(q), beyond", APART),
    Mutant("divergence/law/_allocated.py", "lost = steps * cut", "lost = 0.0 * cut", RARE_ZERO),
    Mutant("divergence/law/_law.py", "(1.0 + 2.0**-45 + ULP", "(1.0 - 2.0**-45 - ULP", APART),
    Mutant("divergence/law/_law.py", "upper = expm1(mu * u)", "upper = 0.99 * expm1(mu * u)", APART),
    Mutant("divergence/law/_law.py", "(1.0 - q) * of.above + q * of.beyond", "(1.0 - q) * of.above", APART),
    Mutant("divergence/law/_law.py", "mass * (1.0 + 2.0**-45), none", "mass * (1.0 - 2.0**-45), none", APART),
    Mutant("divergence/law/_given.py", "_ROUNDED = 1.0 + 2.0**-40", "_ROUNDED = 1.0 - 2.0**-40", GIVEN_POINTS),
    Mutant("divergence/law/_given.py", "share + _SHARE", "share - 2.0**-38", GIVEN_POINTS),
    Mutant("divergence/law/_given.py", "grown = 1.0 + 2.0**-51", "grown = 1.0 - 2.0**-43", GIVEN_POINTS),
    Mutant("divergence/law/_given.py", "np.full(num, 2.0**-49 *", "np.full(num, 0.0 *", GIVEN_POINTS),
    Mutant("divergence/law/_given.py", "infinite_mass + float(masses[is_beyond].sum())", "infinite_mass", GIVEN_POINTS),
    Mutant("divergence/law/_given.py", "np.append(first, mass[low:])", "np.append(0.0, mass[low:])", GIVEN_POINTS),
    Mutant("bounds/_known_laws.py", "is_add=d is Direction.ADD", "is_add=d is Direction.REMOVE", KNOWN_LAWS),
    Mutant("divergence/law/_transform.py", "+ 0.5 * (u[1:] - u[:-1]) * slope", "", TRANSFORM),
    Mutant("divergence/law/_transform.py", "v * (of.slope + lost_size) + 0.5", "0.5", TRANSFORM),
    Mutant("divergence/law/_transform.py", "* of.square + lost", "* of.square", TRANSFORM),
    Mutant(
        "divergence/law/_transform.py",
        "rounding + moved * jnp.minimum(",
        "rounding + 0.5 * moved * jnp.minimum(",
        TRANSFORM,
    ),
    Mutant("divergence/law/_allocated.py", "(found + errors) + beyond", "(found - errors) + beyond", AVERAGES),
    Mutant("divergence/law/_allocated.py", "(sums.blurred + ULP", "(ULP", ONE_WAY),
    Mutant(
        "divergence/law/_allocated.py",
        "sums.lost_mean * others - expm1((t - 1.0) * log_kept)",
        "sums.lost_mean * others",
        LARGE,
    ),
    Mutant(
        "divergence/law/_allocated.py",
        "value = value + jnp.where(low, 0.0, jnp.maximum(mean",
        "value = value + jnp.where(low, 0.0, 0.0 * jnp.maximum(mean",
        AVERAGES,
    ),
    Mutant("divergence/law/_allocated.py", "last[-1] + beyond", "beyond", AVERAGES),
    Mutant("bounds/_by_laws.py", "_BEND = 2.5", "_BEND = 4.5", CELLS),
    Mutant("divergence/law/_allocated.py", "(k > start) & (k", "(k > start + 1.0) & (k", AVERAGES),
    Mutant("divergence/law/_allocated.py", "2.0 * jnp.stack([slip_first", "0.0 * jnp.stack([slip_first", LAW_ENDS),
    Mutant(
        "divergence/law/_allocated.py", "jnp.pad(across, (0, 1)) - outer", "jnp.pad(across, (0, 1)) + outer", AVERAGES
    ),
    Mutant("divergence/law/_clones.py", "+ pmf_rounding(jnp.maximum", "- pmf_rounding(jnp.maximum", COUNTS_OF_CLONES),
    Mutant("divergence/law/_clones.py", "grown = 1.0 + 8.0", "grown = 1.0 - 8.0", COUNTS_OF_CLONES),
    Mutant(
        "divergence/law/_clones.py",
        "ends = jnp.stack([grid.low - 1.0, last])",
        "ends = jnp.stack([grid.low, last]) - 60.0",
        COUNTS_OF_CLONES,
    ),
    Mutant(
        "divergence/law/_clones.py",
        "log_top = log_top + pmf_rounding(log_top)",
        "log_top = log_top - pmf_rounding(log_top)",
        MEANS_OF_SIGNS,
    ),
    Mutant("divergence/law/_clones.py", "2.0 * end * rest / (1.0 - ratio), value", "0.0, value", MEANS_OF_SIGNS),
    Mutant("divergence/law/_clones.py", "end * (1.0 + rest), tail", "end, tail", MEANS_OF_SIGNS),
    Mutant(
        "divergence/law/_clones.py",
        "weight = mass / m * (1.0 + 2.0**-41)",
        "weight = mass / m * (1.0 - 2.0**-41)",
        MEANS_OF_SIGNS,
    ),
    Mutant("divergence/law/_clones.py", "at - 8.0 * ULP * (1.0 + at)", "at + 8.0 * ULP * (1.0 + at)", MEANS_OF_SIGNS),
    Mutant("divergence/law/_clones.py", "(0.5 * math.pi - 1.0)", "(0.5 * math.pi - 1.1)", MEANS_OF_SIGNS),
    Mutant(
        "divergence/law/_clones.py",
        "(1.0 + ULP * (256.0 + 64.0 * square))",
        "(1.0 - ULP * (256.0 + 64.0 * square))",
        MEANS_OF_SIGNS,
    ),
    Mutant(
        "divergence/law/_clones.py", "mass = counts.mass.at[-1].add(counts.above)", "mass = counts.mass", MEANS_OF_SIGNS
    ),
    Mutant("divergence/law/_clones.py", "0.5 * counts.below + jnp.where", "jnp.where", CLONES_LAW),
    Mutant("divergence/law/_clones.py", "jnp.where(grid.is_cut, to_one, 0.0)) * (1.0", "0.0) * (1.0", CLONES_LAW),
    Mutant("divergence/law/_clones.py", "jnp.append(lower, counts.above)", "jnp.append(lower, 0.0)", MEANS_OF_SIGNS),
    Mutant("divergence/law/_clones.py", "* (1.0 + 2.0**-45) + at_ends", "* (1.0 + 2.0**-45)", CLONES_LAW),
    Mutant("divergence/law/_clones.py", "+ 16.0 * ULP * jnp.concatenate", "- 16.0 * ULP * jnp.concatenate", CLONES_LAW),
    Mutant("divergence/law/_few.py", "_ROUNDED = 1.0 + 2.0**-40", "_ROUNDED = 1.0 - 2.0**-40", FEW_POINTS),
    Mutant("divergence/law/_few.py", "_replace(below=delta, beyond=delta)", "_replace(below=delta)", FEW_POINTS),
    Mutant("divergence/law/_few.py", "mass, below, above, beyond)", "mass, 0.0 * below, above, beyond)", FEW_POINTS),
    Mutant("divergence/law/_few.py", "tail(last + 1.0 - sensitivity)", "0.0 * above", FEW_POINTS),
    Mutant(
        "divergence/law/_few.py",
        "jnp.where(is_end, 1.0, -expm1(",
        "jnp.where(is_end, -expm1(-noise_parameter), -expm1(",
        FEW_POINTS,
    ),
    Mutant("bounds/_unamplified.py", "2.0 / x.noise", "1.0 / x.noise", WITHOUT_AMPLIFICATION),
    Mutant(
        "bounds/_unamplified.py",
        "losses += [(x.count, 1.0 / x.noise",
        "losses += [(x.count, 0.5 / x.noise",
        WITHOUT_AMPLIFICATION,
    ),
    Mutant("divergence/law/_replaced.py", "density * b[1:, None]", "density * b[:-1, None]", REPLACED_LAW),
    Mutant("divergence/law/_replaced.py", "(1.0 - q) * beside + q * far", "beside", REPLACED_LAW),
    Mutant("divergence/law/_replaced.py", "jnp.where(at == num - 1, beside, 0.0)", "0.0", REPLACED_LAW),
    Mutant(
        "divergence/law/_replaced.py", "q * less[:-1, None] * jnp.exp(-mu * u)", "q * less[:-1, None]", REPLACED_LAW
    ),
    Mutant("divergence/law/_contour.py", "blur = law.blur + 4.0", "blur = 0.9 * law.blur + 4.0", LAWS),
    Mutant("divergence/law/_contour.py", "modulus + error, modulus)", "modulus, modulus)", LAWS),
    Mutant("divergence/law/_contour.py", "jnp.abs(w) * law.blur + ULP", "0.8 * jnp.abs(w) * law.blur + ULP", LAWS),
    Mutant(
        "divergence/law/_contour.py",
        "jnp.where(is_enough & ~jnp.isnan(best), best",
        "jnp.where(~jnp.isnan(best), best",
        LAWS,
    ),
    Mutant("divergence/law/_contour.py", "jnp.logaddexp(best, jnp.log(dropped(run, add) + 1e-300))", "best", LAWS),
    Mutant("divergence/law/_contour.py", "lost * jnp.exp(growth)", "0.5 * lost * jnp.exp(growth)", LAWS),
    Mutant("divergence/law/_contour.py", "jnp.maximum(value, 0.0) + error", "jnp.maximum(value, 0.0) - error", LAWS),
    Mutant("divergence/law/_contour.py", "jnp.where(add, -logs, logs) + blur", "jnp.where(add, -logs, logs)", SINGLE),
    Mutant("special/_circular.py", "1.57079632673412561417", "1.5707963267", TURNS),
    Mutant("bounds/check_in/_other_schemes.py", "check_in_prob == 1.0", "check_in_prob > 0.0", EVERYBODY),
    Mutant("bounds/check_in/_other_schemes.py", " & (mechanism.dropout_prob == 0.0)", "", EVERYBODY),
    Mutant(
        "bounds/check_in/_other_schemes.py",
        "mechanism.num_users, mechanism.num_epochs)",
        "mechanism.num_users, 1)",
        EVERYBODY,
    ),
    Mutant(
        "bounds/poisson/_participation.py",
        "Ends(0.0, float(most[0]))",
        "Ends(0.0, 0.9 * float(most[0]))",
        PARTICIPATION,
    ),
    Mutant("bounds/poisson/_participation.py", "<= log_delta\n", "<= log_delta + 0.1\n", PARTICIPATION),
    Mutant(
        "bounds/poisson/_participation.py",
        "some = up(-xp.expm1(",
        "some = up(-0.9 * xp.expm1(",
        JOINS,
    ),
)

_ALLOCATION = (
    Mutant(
        "divergence/allocation/_powers.py",
        "return up(softplus(log_excess)",
        "return down(softplus(log_excess)",
        DIVERGENCE,
    ),
    Mutant(
        "divergence/allocation/_powers.py",
        "- jnp.log(number) + tree_rounding(",
        "- jnp.log(number) - tree_rounding(",
        POWERS,
    ),
    Mutant("divergence/allocation/_powers.py", "d = d + excess_rounding(", "d = d - excess_rounding(", POWERS),
    Mutant(
        "divergence/allocation/_powers.py",
        "- math.log(n) + tree_rounding(",
        "- math.log(n) - tree_rounding(",
        HOST_POWERS,
    ),
    Mutant("divergence/allocation/_powers.py", "d[n] = value + ULP", "d[n] = value - ULP", ON_HOST),
    Mutant("special/_series.py", "product(square, square, sign=sign)", "product(square, square)", SERIES),
    Mutant(
        "divergence/allocation/_powers.py",
        "found + excess_rounding(",
        "found - 99.0 * excess_rounding(",
        SCHEDULED_POWERS,
    ),
    Mutant("special/_series.py", "found + sign * ULP * (3.0", "found - sign * ULP * (3.0", SERIES),
    Mutant("special/_series.py", "found + sign * ULP * (3.0", "found + ULP * (3.0", SERIES),
    Mutant("divergence/clones/_smooth.py", "xp.sum(errors * smooth.moduli, axis=0)", "0.0", NODES),
    Mutant("divergence/clones/_smooth.py", "missed + _rounding(pair, smooth)", "missed", NODES),
    Mutant(
        "divergence/clones/_profile.py",
        "pair.log_chernoff) + by_cap",
        "pair.log_chernoff) - by_cap",
        f"{CLONES} -k brute_force",
    ),
    Mutant("divergence/allocation/_laplace.py", "- total + 2.0**-50 * (80", "- total - 2.0**-50 * (80", LAPLACE),
    Mutant("divergence/allocation/_laplace.py", "1.0 - xs * (1.0 / n)", "1.0 + xs * (1.0 / n)", LAPLACE),
    Mutant("divergence/allocation/_laplace.py", "log_phi + 2.0**-50 * ((64", "log_phi - 2.0**-50 * ((64", LAPLACE),
    Mutant("divergence/allocation/_laplace.py", "moved * (reach - 0.5 * moved)", "-moved * reach", LAPLACE),
    Mutant("divergence/allocation/_fractional.py", "xp.exp(log_grid) + rounding", "xp.exp(log_grid) - rounding", MORE),
    Mutant("bounds/allocation/_renyi.py", "(1.0 + xp.asarray(p)", "(1.0 - xp.asarray(p)", MORE),
    Mutant("bounds/allocation/_renyi.py", "xp.log(xp.where(some, idle, 1.0)), -xp.inf)", "-800.0, -xp.inf)", MORE),
    Mutant(
        "bounds/allocation/_exact.py",
        "+ 0.5 / noise_multiplier / noise_multiplier)",
        "- 0.5 / noise_multiplier / noise_multiplier)",
        MORE,
    ),
    Mutant(
        "papers/random_allocation/_few_steps.py",
        "for spread in (False, True)",
        "for spread in (False, False)",
        MORE + " -k few_steps",
    ),
    Mutant("papers/random_allocation/_discrete_moments.py", "8.0 * ULP", "0.0 * ULP", OUTPUTS),
    Mutant("papers/random_allocation/_discrete_moments.py", "upward=True", "upward=False", OUTPUTS),
    Mutant("papers/random_allocation/_overlap_exact.py", "log_choose) + slack", "log_choose) - slack", OVERLAPS),
    Mutant("papers/random_allocation/_overlap_exact.py", "* (order - sum(subset)))", "* (1 - sum(subset)))", OVERLAPS),
    Mutant("papers/random_allocation/_overlap_exact.py", "top))) + size", "top))) - size", OVERLAPS),
    Mutant("papers/random_allocation/_overlap_exact.py", "(1.0 + 2.0 * size)", "(1.0 - 2.0 * size)", OVERLAPS),
    Mutant("papers/random_allocation/_recursive.py", "rate)), 4.0)", "rate)), -64.0)", OVERLAPS),
    Mutant("papers/random_allocation/_truncated_poisson.py", "2.0), 12.0 +", "2.0), -640.0 +", OVERLAPS),
    Mutant("bounds/discrete.py", "(1.0 if upper else -1.0)", "(-1.0 if upper else 1.0)", FEW),
    Mutant("bounds/discrete.py", "chosen * ratios[0] + (num_steps - chosen)", "chosen * ratios[0] + num_steps", BINARY),
    Mutant("special/_binomial_window.py", "own - other - lacks, error", "own - other + 1e-6, error", BINARY),
    Mutant("bounds/discrete.py", "np.maximum(masses * (1.0 + 2.0 * found.error), LEAST_NORMAL)", "masses", FEW),
    Mutant(
        "bounds/allocation/_largest_output.py",
        "lost = np.exp(exponent) *",
        "lost = np.exp(exponent - epsilon) * np.exp(epsilon) *",
        BOUNDS,
    ),
    Mutant(
        "bounds/allocation/_largest_output.py",
        "run.used * log_phi[1] + others",
        "run.total * log_phi[1]",
        BOUNDS,
    ),
    Mutant("papers/random_allocation/_truncated_poisson.py", "epsilon)) + tail, 4)", "epsilon)), 4)", BOUNDS),
    Mutant("papers/random_allocation/_truncated_poisson.py", "- 1.0 / (num_steps * rate) - 2", "- 2", BOUNDS),
    Mutant("bounds/allocation/_posterior_rate.py", "return rise - fall + 2", "return rise - 2.0 * fall + 2", BOUNDS),
    Mutant("papers/random_allocation/_recursive.py", "scale = -2.0 * inner", "scale = -4.0 * inner", BOUNDS),
    Mutant("bounds/allocation/_posterior_rate.py", "/ -np.expm1(at - top)", "/ 1.0", BOUNDS),
    Mutant("bounds/allocation/_posterior_rate.py", "up(delta + tail, 4)", "up(delta, 4)", BOUNDS),
    Mutant("bounds/allocation/_posterior_rate.py", "math.log(r.num_runs) + tail", "tail", BOUNDS),
    Mutant(
        "bounds/allocation/_decomposition.py",
        "direction)) * poisson, _ULPS))",
        "direction)) ** 2 * poisson, _ULPS))",
        BOUNDS,
    ),
    Mutant("bounds/allocation/_decomposition.py", "if participation == 1.0:", "if participation > 1.0:", BOUNDS),
    Mutant("bounds/allocation/_decomposition.py", "(-epsilon) / participation", "(-epsilon)", BOUNDS),
    Mutant("bounds/allocation/_decomposition.py", "if found <= cap:", "if found < math.inf:", BOUNDS),
    Mutant("bounds/allocation/_overlap.py", "epochs * v if a >= 2.0 else np.inf", "epochs * v", BOUNDS),
    Mutant(
        "bounds/allocation/_overlap.py",
        "* (1.0 + 2.0 * self.error + size)",
        "* (1.0 - 2.0 * self.error - size)",
        f"{BOUNDS} -k overlap",
    ),
    Mutant(
        "bounds/allocation/_overlap.py",
        "    log_weights -= math.log(float(np.exp(log_weights).sum()))",
        "    with np.errstate(divide='ignore'):\n        log_weights = np.log(np.exp(log_weights) / np.exp(log_weights).sum())",
        f"{BOUNDS} -k overlap",
    ),
    Mutant(
        "bounds/allocation/_overlap.py",
        "return slice(start, ",
        "return slice(start, peak) if peak else slice(start, ",
        f"{BOUNDS} -k overlap",
    ),
    Mutant(
        "bounds/allocation/_overlap.py", "_LEAST_TERM = 2.0**-150", "_LEAST_TERM = 2.0**-30", f"{BOUNDS} -k overlap"
    ),
    Mutant("divergence/allocation/_profile.py", "found.above + moved, found.below + moved", "moved, moved", EXACT),
    Mutant("divergence/allocation/_lines.py", "error + np.exp(self.centre * x + self.log_tail)", "error", EXACT),
    Mutant("divergence/allocation/_lines.py", "error, error + copies", "error, error", EXACT),
    Mutant("divergence/allocation/_grid.py", "rest + linear_error - square_error", "rest", f"{EXACT} -k ratios"),
    Mutant(
        "divergence/allocation/_powers.py",
        "up(np.logaddexp(0.0, found), 8)",
        "np.logaddexp(0.0, found) * (1.0 - 2.0**-36)",
        f"{EXACT} -k integer_moments",
    ),
    Mutant("divergence/lattice/_prefix.py", "(num_steps - steps_done) / num_steps", "1.0", f"{MORE} -k never_gives"),
)

_SHUFFLED = (
    Mutant(
        "mechanisms/_local_randomizers.py",
        "np.where(top <= 2.0 * least, np.log1p",
        "np.where(top <= 0.0 * least, np.log1p",
        "tests/mechanisms/test_mechanisms.py -k nearly_agree",
    ),
    Mutant("bounds/shuffle/_law.py", "min(last, local, MAX_LOSS)", "min(last, local)", LARGE_LOCAL),
    Mutant(
        "curves/_from_profile.py",
        "-math.exp(losses[j]) * math.expm1(losses[i] - losses[j])",
        "math.exp(losses[i]) * math.expm1(losses[j] - losses[i])",
        LARGE_LOCAL,
    ),
    Mutant("divergence/clones/_profile.py", "exact.delta + exact.missing", "exact.delta", CLONES),
    Mutant("divergence/clones/_profile.py", "smooth.delta - error\n", "smooth.delta + error\n", CLONES),
    Mutant("divergence/clones/_profile.py", "smooth.delta + error\n", "smooth.delta - error\n", CLONES),
    Mutant(
        "divergence/clones/_profile.py",
        "pair.log_scale - xp.where(use_low",
        "pair.log_scale + xp.where(use_low",
        CLONES,
    ),
    Mutant(
        "divergence/clones/_profile.py",
        "pair.log_scale + xp.where(use_contour",
        "pair.log_scale - xp.where(use_contour",
        CLONES,
    ),
    Mutant(
        "divergence/clones/_profile.py",
        "xp.stack([lower, at.log_delta.upper]) - safe",
        "xp.stack([lower, at.log_delta.upper])",
        CLONES,
    ),
    Mutant("divergence/clones/_smooth.py", "(first + peaks + beyond)", "first", CLONES),
    Mutant("divergence/clones/_composed.py", "(k - 1.0)\n", "(k - 1.0) + ends[1] - ends[0]\n", COMPOSED),
    Mutant(
        "divergence/clones/_composed.py",
        "np.logaddexp(found.log_decay - 0.5 * v * last**2, beyond)",
        "beyond - 30.0",
        COMPOSED,
    ),
    Mutant("divergence/clones/_turned_sums.py", "_POWERS = 18", "_POWERS = 10", COMPOSED),
    Mutant("divergence/clones/_turned_sums.py", "not 2.2 * eta", "not 0.0 * eta", COMPOSED),
    Mutant("divergence/clones/_moments.py", "+ missed), 0.0)", "), 0.0)", COMPOSED),
    Mutant("divergence/clones/_composed.py", "_THETA * math.exp(", "1.5 * _THETA * math.exp(", COMPOSED),
    Mutant("divergence/clones/_moments.py", "1.1 * (share * (size + 1.0) + sides + edges)", "0.0", COMPOSED),
    Mutant("divergence/clones/_tradeoff.py", "height - _ROUNDING", "height + _ROUNDING", CLONES),
    Mutant(
        "divergence/clones/_renyi.py",
        "log_excess + rounding, log_error",
        "log_excess - rounding, -xp.inf",
        CLONES_RENYI,
    ),
    Mutant(
        "divergence/clones/_renyi.py",
        "log_excess - rounding + log1mexp",
        "log_excess + rounding + 0.0 * log1mexp",
        CLONES_RENYI,
    ),
    Mutant(
        "divergence/clones/_renyi_nodes.py",
        "xp.where(strided, xp.logaddexp(log_tail, log_end), log_tail)",
        "xp.full_like(log_tail, -800.0)",
        f"{CLONES_RENYI} -k one_label",
    ),
    Mutant(
        "divergence/clones/_multi_component.py", "* (1.0 + slack(upper)), 1.0)", "* (1.0 - slack(upper)), 1.0)", SHUFFLE
    ),
    Mutant(
        "divergence/clones/_multi_component.py", "lower * (1.0 - slack(lower))", "lower * (1.0 + slack(lower))", SHUFFLE
    ),
    Mutant("divergence/clones/_multi_component_mean.py", "value + rounding + spread, 0.5", "value, 0.5", SHUFFLE),
    Mutant(
        "divergence/response/_binary.py",
        "- 2.0**-50 * mean - 2.0**-45 * (stride - 1.0) - 2.0**-47 * distance",
        "",
        SINGLE_COUNTS,
    ),
    Mutant(
        "special/_binomial_blocks.py",
        "value - pmf_rounding(value)",
        "value + pmf_rounding(value)",
        f"{SHUFFLE} -k binary_response_delta",
    ),
    Mutant(
        "divergence/response/_single_counts.py", "log_mass - pmf_rounding(log_mass)", "log_mass + 1e-12", SINGLE_COUNTS
    ),
    Mutant("divergence/response/_single_counts.py", "- distance - by_mean", "- distance + by_mean", SINGLE_COUNTS),
    Mutant("divergence/response/_single_counts.py", "excess >= 0.0", "excess >= -1e-7", SINGLE_COUNTS),
    Mutant("bounds/shuffle/_rounds.py", "log_up(rest, 64)", "-xp.inf", SHUFFLE_BOUNDS),
    Mutant("papers/clones/_closed.py", "+ log1mexp(jnp.minimum(log_slack, 0.0))", "", SHUFFLE_BOUNDS),
    Mutant(
        "papers/clones/_reductions.py",
        "total = max(excess(high), lack(low))",
        "total = min(excess(high), lack(low))",
        SHUFFLE_BOUNDS,
    ),
    Mutant(
        "bounds/shuffle/_closed_form.py",
        "8.0 * xp.sqrt(spread / clones)",
        "6.0 * xp.sqrt(spread / clones)",
        SHUFFLE_BOUNDS,
    ),
    Mutant("divergence/response/_renyi.py", "log_total + spread, log_error)", "log_total - spread, log_error)", GIRGIS),
    Mutant("divergence/response/_renyi.py", "lower = log_total - spread +", "lower = log_total + spread +", GIRGIS),
    Mutant(
        "divergence/response/_special_pair.py",
        "weight + power + error",
        "weight + power - 16.0 * error",
        PAIR_ABOVE,
    ),
    Mutant("divergence/response/_special_pair.py", "+ 12.0 * xp.abs(log_s)", "- 99.0 * xp.abs(log_s)", PAIR_ABOVE),
    Mutant("divergence/response/_special_pair.py", "+ 12.0 * xp.abs(chi2)", "- 99.0 * xp.abs(chi2)", PAIR_ABOVE),
    Mutant("divergence/response/_special_pair.py", "num_clients * value, 48)", "num_clients * value, -48)", PAIR_ABOVE),
    Mutant("papers/girgis/_from_above.py", "num_reports, _ULPS)", "num_reports, -_ULPS)", PAIR_ABOVE),
    Mutant("papers/girgis/_from_above.py", "- 16.0 * ULP * (", "+ 99.0 * ULP * (", PAIR_ABOVE),
    Mutant("papers/girgis/_from_below.py", "down(excess, 18)", "down(excess, -18)", PAIR_ABOVE),
    Mutant("divergence/response/_special_pair.py", "series = 1.0 + z / k", "series = 1.0 - z / k", GIRGIS_ROUNDED),
    Mutant("bounds/shuffle/_special_pairs.py", "log_up(xp.logaddexp(excess, tail), 16)", "excess", GIRGIS),
    Mutant("special/_chord.py", "* ((i - 1.0) / (a - 1.0))", "* (i / (a - 1.0))", GIRGIS),
    Mutant("special/_chord.py", "near, far = (j - a)", "near, far = (a - i)", SAMPLED),
    Mutant("bounds/shuffle/_special_pairs_exact.py", "xp.logaddexp(log_total, error)", "log_total", GIRGIS),
    Mutant(
        "bounds/shuffle/_special_pairs_exact.py",
        "weight + xp.log(at.step) + spread",
        "weight + xp.log(at.step) - 100.0 * spread",
        GIRGIS,
    ),
    Mutant("papers/chen/_bounds.py", "(x + fade * y)", "(x - fade * y)", CHEN),
    Mutant(
        "papers/chen/_bounds.py", "log_up(single, SINGLE_ULPS))) / powers", "log_down(single, 900.0))) / powers", CHEN
    ),
    Mutant("papers/chen/_bounds.py", "value + sign * ULP * (50.0", "value - 64.0 * sign * ULP * (50.0", CHEN),
    Mutant(
        "papers/chen/_bounds.py",
        "log_up(log_up(single, SINGLE_ULPS) +",
        "log_down(log_down(single, SINGLE_ULPS) +",
        CHEN,
    ),
    Mutant("papers/chen/_bounds.py", "(n - 1.0) * log1p(-0.5 * p)", "(n - 1.0) * log1p(-0.25 * p)", CHEN),
)

_CHECKED_IN = (
    Mutant("divergence/check_in/_blocks.py", "+ log_sum + wide) + slack", "+ log_sum - wide) - slack", CHECK_IN),
    Mutant("divergence/check_in/_blocks.py", "(reach + tilt) / span", "(reach - tilt) / span", CHECK_IN),
    Mutant("divergence/check_in/_both_ends.py", "high[num - 1 :: num]", "high[::num]", CHECK_IN),
    Mutant("divergence/check_in/_both_ends.py", "centre * (1.0 + 2.0**-46)", "0.5 * centre", CHECK_IN),
    Mutant("divergence/check_in/_both_ends.py", "together, 1.0 / inverse", "together, 1.05 / inverse", CHECK_IN),
    Mutant(
        "divergence/check_in/_both_ends.py", "np.minimum(1.0 / inverse,", "1.01 * np.minimum(1.0 / inverse,", CHECK_IN
    ),
    Mutant("divergence/check_in/_both_ends.py", "+ math.exp(cells.log_rest - top)", "", CHECK_IN),
    Mutant("divergence/check_in/_both_ends.py", "far = np.clip(far / (", "far = np.clip(0.5 * far / (", CHECK_IN),
    Mutant(
        "divergence/check_in/_others.py", "outside = outside + shares[:, -1:]", "outside = shares[:, -1:]", CHECK_LINE
    ),
    Mutant("divergence/check_in/_others.py", "pmf_rounding(log_first) + 2.0**-49", "2.0**-56", CHECK_LINE),
    Mutant("divergence/check_in/_clones.py", "excess + sign * ULP", "excess - 1e6 * sign * ULP", CHECK_LINE),
    Mutant("divergence/check_in/_few_clones.py", "(1.0 - 2.0**-46))", "(1.0 + 2.0**-6))", CHECK_FEW),
    Mutant("divergence/check_in/_few_clones.py", "+ table.outside", "", CHECK_FEW),
    Mutant("divergence/check_in/_few_clones.py", "value - error - 2.0**-44", "value - 2.0**-44", CHECK_FEW),
    Mutant("divergence/check_in/_few_clones.py", "(left_out + q * (right", "(left_out + 0.0 * (right", CHECK_FEW),
    Mutant("divergence/check_in/_few_clones.py", "y / np.maximum(1.0 - y, 1e-300)", "0.1 * y", CHECK_FEW),
    Mutant("divergence/check_in/_few_clones.py", "relative = left + right +", "relative = 0.0 *", CHECK_FEW),
    Mutant("divergence/check_in/_positive_part.py", "+ on_axis * at.beyond / math.pi", "", CHECK_LINE),
    Mutant("divergence/check_in/_positive_part.py", "np.exp(-less)", "0.01 * np.exp(-less)", CHECK_LINE),
    Mutant("divergence/check_in/_positive_part.py", "(value - error - aliases,", "(value - error,", CHECK_LINE),
    Mutant("divergence/check_in/_response_line.py", "unit * x, g", "9.0 * unit * x, g", CHECK_RESPONSE),
    Mutant(
        "divergence/check_in/_response.py", "reach[above] - distance)", "reach[above] - 0.9 * distance)", CHECK_RESPONSE
    ),
    Mutant("divergence/check_in/_line.py", "* (1.0 + 2.0**-45) + outside", "* (1.0 + 2.0**-45)", CHECK_LINE),
    Mutant(
        "divergence/check_in/_line.py",
        "error = most3 * np.sqrt(square * fourth) / 6.0",
        "error = 0.0 * np.sqrt(square * fourth) / 6.0",
        CHECK_LINE,
    ),
    Mutant("divergence/check_in/_moments.py", "- log_width + slack", "- log_width - slack", CHECK_IN),
    Mutant("special/_rounding.py", "return value + error if upward else value - error", "return value", PAIR_BELOW),
    Mutant(
        "papers/check_ins/_from_below.py",
        "error = (1.0 if upward else -1.0) * ULP",
        "error = (-9.0 if upward else 9.0) * ULP",
        PAIR_BELOW,
    ),
    Mutant(
        "papers/check_ins/_from_below.py",
        "rest + sign_part - error",
        "rest + sign_part + 64.0 * error",
        PAIR_BELOW,
    ),
    Mutant(
        "papers/check_ins/_from_below.py",
        " - ULP * (4.0 + 8.0 * sizes)",
        " + 64.0 * ULP * (4.0 + 8.0 * sizes)",
        PAIR_BELOW,
    ),
    Mutant(
        "papers/check_ins/_from_below.py",
        "log_factor + behind - error",
        "log_factor + behind + 64.0 * error",
        PAIR_BELOW,
    ),
    Mutant(
        "papers/check_ins/_from_below.py",
        "falling = falling - ULP",
        "falling = falling + 64.0 * ULP",
        PAIR_BELOW,
    ),
    Mutant(
        "papers/check_ins/_from_below.py",
        "down(softplus(log_excess) / whole, 12)",
        "softplus(log_excess) / whole",
        PAIR_BELOW,
    ),
    Mutant(
        "papers/check_ins/_from_below.py",
        "moments + tilt + (error if upward else -error)",
        "moments + tilt + (-error if upward else error)",
        PAIR_BELOW,
    ),
    Mutant(
        "papers/check_ins/_from_below.py",
        "(up if upward else down)(gap * gap, 4)",
        "(down if upward else up)(gap * gap, 4)",
        PAIR_BELOW,
    ),
    Mutant(
        "papers/check_ins/_from_below.py",
        " - ULP * (4.0 + 4.0 * (finite_size(found) + log_x * j))",
        " + 64.0 * ULP * (4.0 + 4.0 * (finite_size(found) + log_x * j))",
        PAIR_BELOW,
    ),
    Mutant("papers/random_allocation/_few_steps.py", ".max() + 8.0) * ULP", ".max() + 8.0) * 0.0", FEW_STEPS),
    Mutant("papers/random_allocation/_few_steps.py", "float(tail_error.max() + moved), 0.0)", "0.0, 0.0)", FEW_STEPS),
    Mutant(
        "papers/random_allocation/_few_steps.py", "float(tail_error.max() + moved + ends + 8.0 * ULP)", "0.0", FEW_STEPS
    ),
    Mutant(
        "papers/random_allocation/_few_steps.py", "last = ULP * (1.0 + level) * (72.0 + s)", "last = 0.0", FEW_STEPS
    ),
    Mutant("papers/clones/_pairs.py", "logs + sign * error", "logs", BLOCKS),
    Mutant(
        "papers/clones/_pairs.py",
        "upper = log_up(log_sum_outward(upper, float(num_blocks), upward=True), math.log(num_blocks) + 1.0)",
        "upper = log_sum_exp(upper)",
        BLOCKS,
    ),
    Mutant(
        "papers/clones/_pairs.py",
        "lower = log_down(log_sum_outward(lower, float(num_blocks), upward=False), math.log(num_blocks) + 1.0)",
        "lower = log_sum_exp(lower)",
        BLOCKS,
    ),
    Mutant(
        "papers/check_ins/_distributed.py",
        "x * x + ULP * jax.lax.stop_gradient(error)",
        "x * x - ULP * jax.lax.stop_gradient(error)",
        SINH,
    ),
    Mutant("papers/check_ins/_distributed.py", "value + ULP * (16.0 + 4.0", "value - 64.0 * ULP * (16.0 + 4.0", SINH),
    Mutant("papers/check_ins/_distributed.py", "doubled + error", "doubled - 64.0 * error", SINH),
    Mutant("papers/check_ins/_distributed.py", "x = x + slope(x) / (1.0 + bend)", "x = x + 0.0 * bend", SINH),
    Mutant(
        "papers/girgis/_pairs.py",
        "(log_m + log_r) + ULP * error",
        "(log_m + log_r) - 64.0 * ULP * error",
        PAIR_ABOVE,
    ),
    Mutant(
        "papers/girgis/_pairs.py",
        "log_weight + earlier + error",
        "log_weight + earlier - 64.0 * error",
        PAIR_ABOVE,
    ),
    Mutant("papers/girgis/_pairs.py", "falling = falling + ULP", "falling = falling - 64.0 * ULP", PAIR_ABOVE),
    Mutant("papers/girgis/_pairs.py", "found + ULP * (error + 2.0", "found - ULP * (error + 2.0", PAIR_ABOVE),
    Mutant(
        "papers/check_ins/_optimal_conversion.py",
        "above.value - above.error - ULP",
        "above.value + 4.0 * above.error + ULP",
        LEAST,
    ),
    Mutant(
        "papers/check_ins/_optimal_conversion.py",
        "rdp - least_rdp_lanes(",
        "rdp - 1.01 * least_rdp_lanes(",
        f"{CHECK_IN} -k optimal",
    ),
    Mutant("divergence/response/_renyi.py", "(24.0 + 8.0 * size)", "(-96.0 - 32.0 * size)", LEAST),
    Mutant("papers/girgis/_ternary_response.py", "ULP * (288.0 +", "-9.0 * ULP * (288.0 +", GIRGIS_ROUNDED),
    Mutant("papers/check_ins/_optimal_conversion.py", "lost < -1.0, log1mexp", "lost < -1.0, 0.0 * log1mexp", LEAST),
    Mutant("papers/check_ins/_optimal_conversion.py", "below.error - ULP", "below.error + 64.0 * ULP", LEAST),
    Mutant("papers/check_ins/_profiles.py", "rest * jnp.sum(moved", "0.0 * jnp.sum(moved", GUARANTEES),
    Mutant(
        "bounds/check_in/_profile.py",
        "log_up(log_fixed, 8), log_up(grown, 32)",
        "log_up(grown, 32), log_up(grown, 32)",
        f"{CHECK_IN} -k costs",
    ),
    Mutant("divergence/check_in/_clones.py", "xp.log(contrast) + slack", "xp.log(contrast) - slack", CHECK_IN),
    Mutant(
        "papers/check_ins/_guarantees.py",
        "log_up(weight + at.log_delta, 2.0), beyond[None]",
        "log_up(weight + at.log_delta, 2.0)",
        f"{CHECK_IN} -k counted",
    ),
    Mutant(
        "papers/check_ins/_renyi.py",
        "jnp.minimum(log_up(_LOG_4 + logexpm1(jnp.maximum(rdp, 0.0)), 18.0), general)",
        "jnp.minimum(logexpm1(jnp.maximum(rdp, 0.0)), general)",
        MOMENTS,
    ),
    Mutant("papers/check_ins/_renyi.py", "general = general + ULP", "general = general - 64.0 * ULP", MOMENTS),
    Mutant("papers/check_ins/_renyi.py", "log_up(logexpm1(jnp.minimum(h, 700.0)), 10.0)", "logexpm1(h)", MOMENTS),
    Mutant("papers/check_ins/_renyi.py", "log_up(log1mexp(-h), 8.0)", "log_up(log1mexp(-h), -999.0)", MOMENTS),
    Mutant("papers/check_ins/_renyi.py", "log_ternary + ULP", "log_ternary - 64.0 * ULP", MOMENTS),
    Mutant("papers/check_ins/_renyi.py", "3.0 * i + 2.0)", "-64.0 * i)", MOMENTS),
    Mutant("papers/check_ins/_renyi.py", "- scale + jax", "- scale - 64.0 * jax", MOMENTS),
    Mutant("papers/check_ins/_renyi.py", "_ULPS = 12", "_ULPS = -64", MOMENTS),
    Mutant("special/_rounding.py", "float(rows), upward=True), float", "float(rows), upward=False), float", MOMENTS),
    Mutant(
        "papers/check_ins/_distributed.py",
        "log_up(terms + pmf_rounding(terms), 1.0)",
        "terms - pmf_rounding(terms)",
        MOMENTS,
    ),
    Mutant("papers/check_ins/_distributed.py", "(known, by_failure", "(known, 0.0 * by_failure", MOMENTS),
    Mutant("papers/check_ins/_distributed.py", "log_up(pmf_rounding(alone) - alone, 1.0)", "-alone", MOMENTS),
    Mutant("papers/check_ins/_distributed.py", "last + fall - beyond + ULP", "last + fall + ULP", MOMENTS),
    Mutant("papers/check_ins/_guarantees.py", "log_contrast - error", "log_contrast + 64.0 * error", GUARANTEES),
    Mutant("papers/check_ins/_guarantees.py", "1.0 - prob), 88)", "1.0 - prob), 0)", GUARANTEES),
    Mutant("papers/check_ins/_guarantees.py", "failure, -1.0)), 6.0)", "failure, -1.0)), -4096.0)", GUARANTEES),
    Mutant("papers/check_ins/_guarantees.py", "log_excess + ULP * 4.0", "log_excess - ULP * 64.0", GUARANTEES),
    Mutant("papers/check_ins/_profiles.py", "2 * (num_users // 2) + 20", "-2 * (num_users // 2) - 20", GUARANTEES),
    Mutant(
        "papers/check_ins/_profiles.py",
        "log_up(log_others + pmf_rounding(log_others), 1.0)",
        "log_others",
        GUARANTEES,
    ),
    Mutant(
        "papers/check_ins/_profiles.py", "xp.expm1(epsilon), 10)), 6)", "xp.expm1(epsilon), -16)), -16)", GUARANTEES
    ),
    Mutant("papers/check_ins/_profiles.py", "/ k)), 6.0), 2.0)", "/ k)), -64.0), -64.0)", GUARANTEES),
    Mutant("papers/check_ins/_profiles.py", "xp.expm1(inner)), 12)", "xp.expm1(inner)), 0)", GUARANTEES),
    Mutant(
        "papers/clones/_reductions.py",
        "log_up(guarantee.log_delta + log_up(xp.log(sampling_prob), 4.0), 2.0)",
        "log_up(guarantee.log_delta + log_up(xp.log(sampling_prob), -64.0), -64.0)",
        GUARANTEES,
    ),
    Mutant(
        "papers/girgis/_ternary_response.py",
        "log_down(log_total - spread +",
        "log_down(log_total + spread +",
        GIRGIS_ROUNDED,
    ),
)

GROUND = "tests/test_ground.py -k sound"
ELEMENTARY = "tests/special/test_special.py -k elementary"
_GROUND = (
    Mutant(
        "_ground.py",
        "return self.measured <= self.booked",
        "return self.measured <= 100.0 * self.booked + 100.0",
        GROUND,
    ),
    Mutant("_ground.py", "0.0 if np.array_equal(row, true) else math.inf", "0.0", "tests/test_ground.py -k fast"),
    Mutant("special/_elementary.py", "far = x < -0.25", "far = x < -0.5", ELEMENTARY),
    Mutant("special/_elementary.py", "range(16, 2, -1)", "range(10, 2, -1)", ELEMENTARY),
    Mutant("special/_elementary.py", "range(9, 1, -1)", "range(5, 1, -1)", ELEMENTARY),
    Mutant("special/_elementary.py", "far = size > 1.0\n    half", "far = size > 800.0\n    half", ELEMENTARY),
    Mutant(
        "papers/check_ins/_optimal_conversion.py",
        "logexpm1(down(exponent, 8)), 40.0)",
        "logexpm1(exponent), -64.0)",
        LEAST,
    ),
    Mutant(
        "papers/check_ins/_optimal_conversion.py",
        "near = ratio > 0.5",
        "near = ratio > -1.0",
        LEAST,
    ),
)

BATCHES = "tests/training/test_batches.py -k 'size_is_the_least or truncation or fit or tails'"
DRAWN = "tests/training/test_batches.py -k 'coins or sets or orders or binomial or remainders or subsets'"
SKELLAM = "tests/special/test_skellam_masses.py"
SKELLAM_RUNS = "tests/bounds/test_skellam.py"
STAYS = "tests/bounds/test_fixed_batches.py -k stays"
PRESENT = "tests/bounds/test_fixed_batches.py -k probably"
NEARBY = "tests/bounds/test_nearby.py"
CLIPPED = "tests/training/test_private_gradients.py -k 'adds_more or not_finite'"
ADDED = "tests/training/test_private_gradients.py -k 'noise_is or follows or phases or by_half or share or cycles'"
RELEASED = "tests/training/test_private_gradients.py -k 'other_noise'"
NORMAL = "tests/training/test_private_gradients.py -k tails"
PIECES = "tests/training/test_private_gradients.py -k 'whole_batch or cut_already'"
EVENTS = "tests/interop/test_interop.py -k 'refused_together or whole_and'"
NARROW = "tests/curves/test_pld.py -k narrow_numbers"
HISTOGRAMS = "tests/bounds/test_few_outputs.py -k tiny_probabilities"
ACCOUNTED = "tests/training/test_batches.py -k as_many_as"
TRACED = "tests/mechanisms/test_mechanisms.py -k traced_counts"
ROWS = "tests/mechanisms/test_mechanisms.py -k divided_by_their_sums"
RARE = "tests/divergence/test_one_sampled.py -k 'no_double or such_rates'"
SHARES = "tests/bounds/test_allocation_more.py -k 'add_up or largest_loss'"
UNDER = "tests/bounds/test_answers_by_laws.py -k masses_below"
BEYOND = "tests/bounds/test_shuffled_batches.py -k 37_standard"
DEVICES = "tests/training/test_private_gradients.py -k eight_devices"
SEVERAL = "tests/training/test_private_gradients.py -k several_batches"
INJECTED = "tests/training/test_private_gradients.py -k injected_noise"
OWN = "tests/training/test_batches.py -k of_their_own"
GRAIN = "tests/training/test_batches.py -k grain"
HELD = "tests/training/test_training.py -k 'told or accumulated'"
TOGETHER = "tests/mechanisms/test_several_releases.py"
STATED = "tests/training/test_training_report.py -k of_batches"
PUBLIC = "tests/training/test_batches.py -k 'public or sorted'"
SEPARATION = "tests/interop/test_interop_jax_privacy.py -k separation"
RESPONSES = "tests/interop/test_interop.py -k lose_no_less"
GROUPS = "tests/interop/test_interop_jax_privacy.py -k equal_groups"
REPLACED_RENYI = "tests/bounds/test_adjacency_renyi.py -k 'half or weak'"
RUNS = "tests/bounds/test_number_of_runs.py -k generating"
ORDERS = "tests/bounds/test_selection_profile.py -k 'order or mean_of_one'"
COMPOSED_RUNS = "tests/bounds/test_selection_distribution.py"
LOSSES = "tests/bounds/test_selection_profile.py -k order_by_losses"
BELOW = "tests/bounds/test_selection_profile.py -k no_order"
SAME_DIGITS = "tests/bounds/test_selection_profile.py -k asked_before"
NEAR_A_CROSSING = "tests/bounds/test_selection_profile.py -k crossing"
PURE_SELECTION = "tests/bounds/test_selection.py -k pure_delta"
_BATCHES = (
    Mutant("special/_binomial_tail.py", "/ (1.0 - ratio) * _ROUND_UP", "* _ROUND_UP", BATCHES),
    Mutant("training/_batches.py", "(self.num_records + 1, self._s", "(self.num_records, self._s", BATCHES),
    Mutant("training/_batches.py", "(num_steps * tail + inexact)", "(tail + inexact)", BATCHES),
    Mutant("accounting/_truncation.py", "overflow + grown(overflow, epsilon", "grown(overflow, epsilon", BATCHES),
    Mutant("accounting/_truncation.py", "excess(overflow, found) <= share", "overflow <= share", BATCHES),
    Mutant("accounting/_truncation.py", "target_delta * (1.0 - share), 0.0", "target_delta, 0.0", BATCHES),
    Mutant("accounting/_truncation.py", "left = math.nextafter(target_delta *", "left = math.nextafter(", BATCHES),
    Mutant("reporting.py", "lower, analysis_lower = (max(0.0, low - more)", "lower, analysis_lower = (low", STATED),
    Mutant("reporting.py", "_replace(target_delta=larger)", "_replace(target_delta=delta)", STATED),
    Mutant("training/_clipping.py", "1.0 - rounding, kind", "1.0, kind", CLIPPED),
    Mutant("training/_clipping.py", "& (scale <= most) & jnp.isfinite(norms)", "", CLIPPED),
    Mutant(
        "training/_clipping.py",
        "jnp.minimum(limit * jnp.asarray(_LARGEST_RATIO",
        "(0 * limit + jnp.asarray(1e38",
        CLIPPED,
    ),
    Mutant("training/_normals.py", "(low.astype(dtype) + half) * word", "word", NORMAL),
    Mutant("training/_clipping.py", "within, half, -half)", "within, half + half, 0.0 * half)", ADDED),
    Mutant("training/_adaptive.py", "of_count = 2.0 *", "of_count = 4.0 *", ADDED),
    Mutant("training/_noise.py", "place = counts[i] %", "place = 0 * counts[i] %", ADDED),
    Mutant("training/_noise.py", "np.array_equal(said, asked)", "True", RELEASED),
    Mutant("training/_release.py", "PrivateAggregateState(new_key", "PrivateAggregateState(state.rng_key", ADDED),
    Mutant("training/_release.py", "/ sizes, jnp.zeros_like(sizes))", "/ sizes, jnp.ones_like(sizes))", ADDED),
    Mutant("training/_release.py", "jnp.where(same, releases", "jnp.where(same | True, releases", RELEASED),
    Mutant("interop/_accountants.py", "*(mechanism for mechanism, _, _ in releases)", "*()", EVENTS),
    Mutant("interop/_reading.py", 'checked_whole("count", event.count, 0, 2**53)', "event.count", EVENTS),
    Mutant("interop/_reading.py", "len(shifts) == len(shares) > 0 and all", "all", EVENTS),
    Mutant(
        "curves/_pld.py", "object.__setattr__(self, field, checked", "(lambda *_: None)(self, field, checked", NARROW
    ),
    Mutant("papers/girgis/_from_below.py", "if left_out > 0.0:", "if False:", HISTOGRAMS),
    Mutant("mechanisms/_sampling.py", "if self.last_batch is not None:", "if False:", ACCOUNTED),
    Mutant("mechanisms/_composed.py", "if is_traced(self):", "if False:", TRACED),
    Mutant("divergence/_one_sampled_step.py", "if epsilon < 1.0:", "if epsilon < 1e9:", RARE),
    Mutant(
        "divergence/allocation/_laplace.py",
        "xp.maximum(t - done, 0.0) / t",
        "xp.maximum(t - done, 1e-16 * t) / t",
        SHARES,
    ),
    Mutant(
        "bounds/allocation/_exact.py", "math.log1p(steps_done / left)", "-math.log1p(-steps_done / num_steps)", SHARES
    ),
    Mutant("divergence/law/_given.py", "np.maximum(under, LEAST_NORMAL)", "under", UNDER),
    Mutant("divergence/batches/_one_step.py", "min(x, 37.0)", "x if x < 37.0 else 99.0", BEYOND),
    Mutant(
        "mechanisms/_local_randomizers.py", "rows = rows / np.array([[math.fsum(row)] for row in rows])", "pass", ROWS
    ),
    Mutant("training/_private.py", "jnp.pad(leaf, padding)", "jnp.pad(leaf, padding, mode='edge')", PIECES),
    Mutant("training/_private.py", "((over or is_tracked) and over != names)", "(over and over != names)", DEVICES),
    Mutant("training/_release.py", "if shape[1] >= rows and", "if shape[1] > rows and", SEVERAL),
    Mutant("training/_noise.py", "if any(names >= _SCHEDULED", "if False and any(names >= _SCHEDULED", INJECTED),
    Mutant("training/_table.py", "if len(self.released_noise) else ()", "if False else ()", INJECTED),
    Mutant("training/_counting.py", "if drawn and not is_counted_inside:", "if False:", HELD),
    Mutant("training/_batches.py", "return self._secret + _use", "return repr(self).encode() + _use", OWN),
    Mutant(
        "training/_grain.py", "divmod(operator.index(place), len(self._shards))", "(operator.index(place), 0)", GRAIN
    ),
    Mutant("training/_accumulation.py", "phase.releases(count * batches)", "phase.releases(count)", HELD),
    Mutant("training/_accumulation.py", "times // batches if", "times if", HELD),
    Mutant("mechanisms/_gaussian.py", "noise_multiplier / batches", "noise_multiplier", HELD),
    Mutant("mechanisms/_composed.py", "(least / noise) ** 2", "(least / noise)", TOGETHER),
    Mutant("mechanisms/_composed.py", "down = 1.0 - (", "down = 1.0 + (", TOGETHER),
    Mutant("mechanisms/_same_bins.py", "noise * self.num_cycles**0.5 *", "noise *", ADDED),
    Mutant(
        "special/_rounding.py",
        "min(exponent, _MOST_EXPONENT)",
        "min(exponent, 700.0)",
        "tests/special/test_special.py -k grows",
    ),
    Mutant(
        "bounds/_number_of_runs.py",
        "_SMALLEST = 2.0**-900",
        "_SMALLEST = 2.0**-30",
        "tests/bounds/test_selection.py -k near_0",
    ),
    Mutant(
        "divergence/gaussian/_sampled_add.py",
        "log_weight + log_q + log_y, exponent)",
        "log_weight - 1e9, exponent)",
        "tests/divergence/test_divergence.py -k no_doubles",
    ),
    Mutant(
        "answering/_loop.py",
        "(rival < upper)",
        "(rival > upper)",
        "tests/answering/test_points.py -k decides",
    ),
    Mutant("training/_words.py", "words = words[words < multiple]", "pass", DRAWN),
    Mutant("training/_drawing.py", "step[joined[here, step]] = j", "pass", DRAWN),
    Mutant("training/_drawing.py", "// ((count + 1) * tails)", "// (count * tails + tails + 1)", DRAWN),
    Mutant("training/_drawing.py", "repeats |= first == second", "pass", DRAWN),
    Mutant("training/_drawing.py", "np.sort(subset(words, records.size, sampling.most))", ": sampling.most", PUBLIC),
    Mutant("training/_drawing.py", "words.below if sampling.with_replacement else", "words.below or", PUBLIC),
    Mutant("training/_drawing.py", "(number * size + order) // num_selected", "order // num_selected", PUBLIC),
    Mutant("interop/_jax_privacy.py", "max(some, up(spread * prob, 4))", "some", SEPARATION),
    Mutant("interop/_jax_privacy.py", "apart * math.log1p(-prob)", "0.9 * apart * math.log1p(-prob)", SEPARATION),
    Mutant("interop/_jax_privacy.py", "number % length in (0, length - 1)", "number < 0", GROUPS),
    Mutant("interop/_reading.py", "min(told + slack, 1.0)", "told", RESPONSES),
    Mutant("interop/_reading.py", "odds * told * (1.0 - slack)", "odds * told", RESPONSES),
    Mutant("bounds/_adjacent_on_lanes.py", "(a - 0.5) / (a - 1.0)", "1.0", REPLACED_RENYI),
    Mutant("bounds/_adjacent_on_lanes.py", "for less in (0.0, 1.0)", "for less in (1.0, 1.0)", REPLACED_RENYI),
    Mutant("bounds/_adjacent_on_lanes.py", "0.5 * run.noise_multiplier", "run.noise_multiplier", REPLACED_RENYI),
    Mutant("special/_skellam.py", "a = twice * (k + 1.0)", "a = twice * k", SKELLAM),
    Mutant("special/_skellam.py", "* (1.0 + 2.0**-48) + _ROUNDINGS", "* 0.0", SKELLAM),
    Mutant("special/_skellam.py", "exponent * (1.0 - 2.0**-40) >= log_tail", "1.02 * exponent >= log_tail", SKELLAM),
    Mutant(
        "bounds/bases/_few_outputs.py", "masses.log_masses[outputs[::-1]]", "masses.log_masses[outputs]", SKELLAM_RUNS
    ),
    Mutant("bounds/_full_batches.py", "prob * (1.0 - full.most) + limit", "prob + limit", STAYS),
    Mutant("bounds/_full_batches.py", "math.log1p(-1.0 / int(", "math.log(1.0 - 1.0 / int(", PRESENT),
    Mutant("bounds/_nearby.py", "up(target + _SHIFT * lost, 4)", "target + _SHIFT * lost", NEARBY),
    Mutant("bounds/_nearby.py", "down(below(asked) - _SHIFT * lost, 4)", "below(asked) - _SHIFT * lost", NEARBY),
    Mutant("bounds/bases/_glued.py", "_BIN_ERROR = 2.0**-40", "_BIN_ERROR = 2.0**-60", NEARBY),
    Mutant("bounds/selection.py", "/ (1.0 + xp.exp(-x))", "/ (1.1 + xp.exp(-x))", PURE_SELECTION),
    Mutant("bounds/_number_of_runs.py", "_MEAN_BELOW = 1.0 - 2.0**-40", "_MEAN_BELOW = 1.0 + 2.0**-20", RUNS),
    Mutant(
        "bounds/_number_of_runs.py", "max(np.float64(delta) / odds, grown", "max(np.float64(0.0) / odds, grown", RUNS
    ),
    Mutant("bounds/_number_of_runs.py", "log1p(rank / odds) if", "log1p(2.0 * rank / odds) if", RUNS),
    Mutant("bounds/_number_of_runs.py", "rate = self._rate_below\n", "rate = self._rate * (1.0 + 2.0**-30)\n", RUNS),
    Mutant("bounds/_number_of_runs.py", "* math.expm1(-self.mean * (1.0 - rank))", "* 0.9", RUNS),
    Mutant("bounds/_number_of_runs.py", "return down(-math.log1p(-delta)", "return up(-math.log1p(-delta)", RUNS),
    Mutant("bounds/_selection_profile.py", "cells[last].density * (here - before) +", "", ORDERS),
    Mutant("bounds/_selection_profile.py", "density(left).upper, self", "density(right).upper, self", ORDERS),
    Mutant("bounds/_selection_profile.py", "self.law.beyond(left), self", "0.5 * self.law.beyond(left), self", LOSSES),
    Mutant("bounds/_selection_profile.py", "self.log_ratio(right))", "self.log_ratio(left))", ORDERS),
    Mutant("bounds/_selection_profile.py", "+ math.exp(epsilon) * back", "+ 0.5 * math.exp(epsilon) * back", ORDERS),
    Mutant("bounds/_selection_distribution.py", "    with apart():", "    if True:", SAME_DIGITS),
    Mutant("special/_bisection.py", "return a if at_a <= 0.0 else b", "return a", NEAR_A_CROSSING),
    Mutant("special/_bisection.py", "(at_c - at_b), 0.5", "(at_c - at_b), share", NEAR_A_CROSSING),
    Mutant("bounds/_selection_distribution.py", "max(loss.delta(", "0.7 * max(loss.delta(", COMPOSED_RUNS),
    Mutant("bounds/_selection_distribution.py", "/ float(mechanism.mean_runs)", "* 1e9", COMPOSED_RUNS),
    Mutant("bounds/_selection_profile.py", "min(most, 1.0)).lower", "0.0).lower", BELOW),
    Mutant("training/_drawing.py", "keep[subset(words, num_records, num_records - size)] = False", "pass", DRAWN),
)

BASES_RENYI = "tests/bounds/test_renyi_of_bases.py -k 'random or discrete_laplace'"
_RENYI = (
    Mutant("divergence/_two_sided.py", "a / (2.0 * a - 1.0), (a", "(a - 1.0) / (2.0 * a - 1.0), (a", BASES_RENYI),
    Mutant("divergence/_two_sided.py", "0.5 * a * x * x", "0.45 * a * x * x", BASES_RENYI),
    Mutant("divergence/_ratio_moments.py", "jnp.logaddexp(atom, half)", "atom", BASES_RENYI),
    Mutant(
        "divergence/_ratio_moments.py", "0.5 * jnp.maximum(x, 1e-300)", "0.4999 * jnp.maximum(x, 1e-300)", BASES_RENYI
    ),
    Mutant(
        "divergence/_ratio_moments.py",
        "jnp.where(add & lost, jnp.inf, ",
        "jnp.where(add & lost, 1.0, ",
        "tests/bounds/test_renyi_of_bases.py -k cannot",
    ),
)
_KNOWN = "tests/bounds/test_known_distributions.py"
_TINY_NOISE = "tests/test_membership.py -k 'tiny or chosen'"
_FAR = (
    Mutant("bounds/bases/_known.py", "infinite = up(infinite + float(p[far].sum()), 64)", "pass", _KNOWN),
    Mutant("bounds/bases/_known.py", "np.maximum(pld.losses, _LOWEST)", "pld.losses", _KNOWN),
    Mutant("bounds/bases/_known.py", "p = np.where(pld.losses < _LOWEST, 0.0, p)", "pass", _KNOWN),
    Mutant("curves/_regridding.py", "if not number <= MAX_POINTS:", "if number <= MAX_POINTS:", _KNOWN),
    Mutant("curves/_convolution.py", "if not reach <= _MOST_REACH:", "if False:", _KNOWN),
    Mutant("curves/_convolution.py", "if not error < math.inf:", "if False:", PLD),
    Mutant(
        "divergence/lattice/_ratio.py", "if not cell.max() - cell.min() <= _MAX_SIZE:", "if cell.max() < 1e9:", _KNOWN
    ),
    Mutant("curves/_from_profile.py", "np.exp(into - step) * np.expm1(-into)", "np.expm1(-into)", _KNOWN),
    Mutant("bounds/bases/_known.py", "(losses > MAX_LOSS) | (masses < LEAST_NORMAL)", "losses > 1e9", _KNOWN),
    Mutant("curves/_convolution.py", "pld if pld.step == finest else", "pld if pld.step < 1.1 * finest else", _KNOWN),
    Mutant("curves/_regridding.py", "shares = shares / total *", "shares = shares *", _KNOWN),
    Mutant(
        "answering/_found.py",
        "np.where(np.asarray(delta) < LEAST_NORMAL, 0.0, value)",
        "np.asarray(value)",
        "tests/bounds/test_far_settings.py -k normal_doubles",
    ),
    Mutant(
        "bounds/allocation/__init__.py",
        "run.mechanism.num_steps * run.num_selected * run.num_epochs",
        "run.mechanism.num_steps * run.num_selected",
        "tests/bounds/test_participation.py",
    ),
    Mutant("membership.py", "1.0 - quick <= error.min()", "True", "tests/test_membership.py"),
    Mutant("membership.py", "return 1.0 - quick <= error.min() and", "return 1.0 - quick > 2.0 or", _TINY_NOISE),
    Mutant(
        "bounds/composed.py",
        "math.nextafter(target / sum(int(count) for _, count in parts) * _SHARE_DOWN, 0.0)",
        "target / sum(int(count) for _, count in parts) * _SHARE_DOWN",
        "tests/bounds/test_far_settings.py -k shares",
    ),
    Mutant(
        "bounds/parallel_poisson.py",
        "run.num_steps), run.num_workers)",
        "run.num_steps), 1)",
        "tests/bounds/test_parallel_poisson.py -k mixture",
    ),
    Mutant(
        "bounds/sampled_runs.py",
        "grown = 1.0 if direction is Direction.REMOVE else prob",
        "grown = 1.0 if direction is Direction.REMOVE else 1.0 + prob",
        "tests/bounds/test_sampled_runs.py -k exact_mixture",
    ),
    Mutant(
        "bounds/sampled_runs.py",
        "sign = 1.0 if direction is Direction.REMOVE else -1.0",
        "sign = 1.0",
        "tests/bounds/test_sampled_runs.py -k exact_mixture",
    ),
    Mutant(
        "bounds/sampled_runs.py",
        "float(mechanism.sampling_prob), step, side, tail)",
        "0.9 * float(mechanism.sampling_prob), step, side, tail)",
        "tests/bounds/test_sampled_runs.py -k sums",
    ),
    Mutant("bounds/group.py", "if prob == 1.0:", "if prob in (0.0, 1.0):", "tests/bounds/test_groups.py -k never"),
    Mutant("bounds/composed.py", "target - asked * _SUM_UP", "target", "tests/accounting/test_prefix.py -k sums"),
    Mutant("bounds/composed.py", "(answered + _at_equal", "(_at_equal", "tests/accounting/test_prefix.py -k sums"),
    Mutant(
        "mechanisms/_base.py",
        "not wraps.is_any and part.relation is not _DRAWN",
        "wraps.is_several",
        "tests/accounting/test_prefix.py -k replaced",
    ),
    Mutant(
        "bounds/pure.py",
        "dataclasses.replace(_GUARANTEED, parts=in_own_relation(_GUARANTEED.parts))",
        "_GUARANTEED",
        "tests/accounting/test_prefix.py -k adjacency",
    ),
    Mutant(
        "bounds/check_in/_taking_part.py",
        "_log_up(up(rounds * local_delta, 4))",
        "_log_up(local_delta * xp.ones_like(lanes))",
        "tests/bounds/test_far_settings.py -k all_reports",
    ),
    Mutant(
        "bounds/check_in/_taking_part.py",
        "xp.where(epsilon >= total_epsilon, log_total_delta, 0.0)",
        "log_total_delta",
        "tests/bounds/test_far_settings.py -k all_reports",
    ),
    Mutant(
        "bounds/check_in/_taking_part.py",
        "up(mechanism.num_epochs * rest, 32)",
        "up(rest, 32)",
        "tests/bounds/test_far_settings.py -k taking_part",
    ),
    Mutant(
        "bounds/check_in/_taking_part.py",
        "up(rounds * pair_of",
        "up(1.0 * pair_of",
        "tests/bounds/test_far_settings.py -k all_reports",
    ),
)
_LARGE = (
    Mutant(
        "bounds/allocation/_large_noise.py",
        "math.expm1(0.5 * epochs * selected * each",
        "math.expm1(0.3 * epochs * selected * each",
        "tests/bounds/test_large_noise.py -k variance",
    ),
    Mutant(
        "bounds/allocation/_large_noise.py",
        "share * (1.0 - share) * math.exp(noise**-2.0)",
        "share * (1.0 - share) * 0.5",
        "tests/bounds/test_large_noise.py -k variance",
    ),
    Mutant(
        "bounds/allocation/_large_noise.py",
        "np.fmin(0.5 * size * (size",
        "np.fmin(0.4 * size * (size",
        "tests/bounds/test_large_noise.py -k cover",
    ),
    Mutant(
        "bounds/allocation/_large_noise.py",
        "by_density = 0.4 * length",
        "by_density = 0.3 * length",
        "tests/bounds/test_large_noise.py -k cover",
    ),
    Mutant(
        "bounds/allocation/_large_noise.py",
        "total = factor.outliers + float",
        "total = float",
        "tests/bounds/test_large_noise.py -k outliers",
    ),
    Mutant(
        "bounds/allocation/_large_noise.py",
        "-p * far, -0.5 * self.num * np.log(left)",
        "-p * far, 0.0 * left",
        "tests/bounds/test_large_noise.py -k tail",
    ),
    Mutant(
        "bounds/allocation/_large_noise.py",
        "whole = up(upper, 8) + _excess(epsilon, mu.upper, factor_at(upper))",
        "whole = up(upper, 8)",
        "tests/bounds/test_large_noise.py -k one_of_two",
    ),
    Mutant(
        "bounds/allocation/_large_noise.py",
        "mu = selected * math.sqrt(epochs / steps) / noise",
        "mu = selected * math.sqrt(1.0 / steps) / noise",
        "tests/bounds/test_large_noise.py -k 'close or every_step'",
    ),
    Mutant(
        "mechanisms/_fields.py",
        "holds(value) & is_exact(value)",
        "holds(value)",
        "tests/bounds/test_far_settings.py -k traced",
    ),
    Mutant(
        "_precision/_floats.py",
        "return jnp.where(is_small, small, wide)",
        "return wide",
        "tests/bounds/test_far_settings.py -k traced",
    ),
    Mutant(
        "answering/_lanes.py",
        "once((method, structure, fields, orders,",
        "once((method, structure, orders,",
        "tests/answering/test_same_digits.py -k share",
    ),
    Mutant(
        "answering/_lanes.py",
        "ok if upper else ok & is_exact(target)",
        "ok",
        "tests/bounds/test_far_settings.py -k targets",
    ),
    Mutant(
        "accounting/_curves.py",
        "xp.where(may_lose(mechanism), xp.maximum(whole, LEAST_NORMAL), whole)",
        "xp.where(may_lose(mechanism), whole, whole)",
        "tests/bounds/test_far_settings.py -k nothing_is_lost",
    ),
    Mutant(
        "divergence/gaussian/_pair.py",
        "step = xp.maximum(mu, _LEAST_STEP)",
        "step = mu",
        "tests/bounds/test_far_settings.py -k hardly",
    ),
)

_CORRELATED = (
    Mutant(
        "bounds/correlated/_groups.py",
        "Gaussian(noise / math.sqrt(squared) * _DOWN)",
        "Gaussian(noise / math.sqrt(squared))",
        f"{BINS} -k inward",
    ),
    Mutant(
        "bounds/correlated/_groups.py",
        "noise, t = float(run.noise_multiplier) / _DOWN**3, int(run.num_batches)",
        "noise, t = float(run.noise_multiplier), int(run.num_batches)",
        f"{BINS} -k inward",
    ),
    Mutant(
        "bounds/correlated/_overlaps.py",
        "up(float(rows_times(mean[h:], mean[: n - h])), ulps) + _TINY",
        "float(rows_times(mean[h:], mean[: n - h])) + _TINY",
        f"{BINS} -k inward",
    ),
    Mutant("bounds/correlated/_overlaps.py", "down(value, ulps) - _TINY", "value - _TINY", f"{BINS} -k inward"),
    Mutant(
        "bounds/correlated/_overlaps.py",
        "np.where(largest > 0.0, up(largest, ulps) + _TINY, _touching(means, t))",
        "up(largest, ulps)",
        f"{BINS} -k tiny",
    ),
    Mutant(
        "bounds/correlated/_overlaps.py",
        "return np.maximum(near, np.concatenate([near[:1], self.largest[::-1][: t // 2]]))",
        "return near",
        f"{BINS} -k definition",
    ),
    Mutant(
        "divergence/correlated/_chain.py", "weights[:, 0] += _tail(low)", "weights[:, 0] += 0.0", f"{SUMS} -k weights"
    ),
    Mutant(
        "divergence/correlated/_chain.py", "np.maximum(weights * grown,", "np.maximum(weights,", f"{SUMS} -k weights"
    ),
    Mutant("divergence/correlated/_chain.py", "np.maximum(charge * grown,", "np.maximum(charge,", f"{SUMS} -k weights"),
    Mutant(
        "divergence/correlated/_sum.py",
        "self.charge += float(held.sum(axis=1) @ self.off_grid(one.charge, first))",
        "self.charge += 0.0",
        f"{SUMS} -k narrow",
    ),
    Mutant("divergence/correlated/_sum.py", "1.0 - _SUMS if", "1.0 if", f"{SUMS} -k roundings"),
    Mutant("divergence/correlated/_sum.py", "else 1.0 + _SUMS", "else 1.0", f"{SUMS} -k roundings"),
    Mutant("divergence/correlated/_factor.py", "+ _OPTION_ERROR * first", "- 0.0", f"{SUMS} -k options"),
    Mutant(
        "divergence/correlated/_factor.py",
        "weights * (1.0 + _WEIGHTS_ERROR), beyond",
        "weights, beyond",
        f"{SUMS} -k factors",
    ),
    Mutant(
        "divergence/correlated/_sum.py",
        "self.charge += lost * self.factor.beyond",
        "self.charge += 0.0",
        f"{SUMS} -k exceeds",
    ),
    Mutant(
        "bounds/correlated/_fits.py",
        "white = white * _SLACK if white > 1e-6 * variance else 0.0",
        "white = 0.99 * white if white > 1e-6 * variance else 0.0",
        "tests/bounds/test_markov_chains.py -k kept",
    ),
    Mutant(
        "bounds/correlated/_fits.py",
        "beyond[np.minimum(places, t - places)]",
        "0.99 * beyond[np.minimum(places, t - places)]",
        "tests/bounds/test_markov_chains.py -k kept",
    ),
)

_MEASURES = "tests/measures/test_measures.py"
_AUDIT = "tests/audit/test_audit.py"
_MEASURED = (
    Mutant(
        "measures/_gaussian_dp.py",
        "return np.append(level, 0.0), np.append(caught, deltas[-1])",
        "return np.append(level, 0.0), np.append(caught, 0.0)",
        f"{_MEASURES} -k corners",
    ),
    Mutant(
        "measures/_gaussian_dp.py", "(level + self.slack)", "(level + 2.0 * self.slack)", f"{_MEASURES} -k random_pair"
    ),
    Mutant(
        "measures/_gaussian_dp.py", "caught - self.slack", "caught - 2.0 * self.slack", f"{_MEASURES} -k random_pair"
    ),
    Mutant(
        "measures/_concentrated.py",
        "np.maximum(ratios[:-1], ratios[1:])",
        "np.minimum(ratios[:-1], ratios[1:])",
        f"{_MEASURES} -k ratios",
    ),
    Mutant("measures/_concentrated.py", "max(gaps.max(), divergences[0])", "gaps.max()", f"{_MEASURES} -k laplace"),
    Mutant("measures/_measure.py", "(1.0 - float(delta(", "(1.001 - float(delta(", f"{_MEASURES} -k 'closed or prior'"),
    Mutant("audit/_one_run.py", "more = 2.0 * num_canaries", "more = 1.0 * num_canaries", f"{_AUDIT} -k term"),
    Mutant("audit/_many_runs.py", "(1.0 - math.log(middle))", "(1.0 - 0.5 * math.log(middle))", f"{_AUDIT} -k product"),
    Mutant("audit/_many_runs.py", "math.exp(epsilon) * q + delta", "math.exp(epsilon) * q", f"{_AUDIT} -k explains"),
)

_FILTERS = (
    Mutant(
        "training/_planned_filter.py", "np.all(above <= below + tau)", "np.all(above[:1] <= below[:1] + tau)", PLANNED
    ),
    Mutant(
        "training/_planned_filter.py",
        "return math.ceil(count * quotient**2)",
        "return math.floor(count * quotient**2)",
        PLANNED,
    ),
    Mutant(
        "training/_planned_filter.py",
        "for d in self._planned.directions",
        "for d in self._planned.directions[:1]",
        PLANNED,
    ),
    Mutant(
        "training/_planned_filter.py", "self._spent + price, self._others", "self._spent + 1, self._others", PLANNED
    ),
)
_SPARSE_VECTOR = (
    Mutant(
        "divergence/_sparse_vector.py",
        "log_above = a * log1p(-y) + (a - 1.0)",
        "log_above = a * log1p(-y) + 0.99 * (a - 1.0)",
        SPARSE,
    ),
    Mutant(
        "divergence/_sparse_vector.py",
        "by_ends = low_a - log1mexp(high_b)",
        "by_ends = low_a - log1mexp(low_b)",
        SPARSE,
    ),
    Mutant("divergence/_sparse_vector.py", "+ width * xp.maximum(slope, 0.0)", "", SPARSE),
    Mutant(
        "divergence/_sparse_vector.py",
        "log_more = xp.log(num_queries) +",
        "log_more = 0.5 * xp.log(num_queries) +",
        SPARSE,
    ),
    Mutant(
        "mechanisms/_above_threshold.py",
        "else 2.0) * self.sensitivity / self.query_scale",
        "else 1.0) * self.sensitivity / self.query_scale",
        ENCLOSED,
    ),
    Mutant(
        "divergence/_sparse_vector_pair.py",
        "(1.0, x - (self.reach - 1.0)) if is_moved",
        "(1.0, x - self.reach) if is_moved",
        ENCLOSED,
    ),
    Mutant(
        "divergence/_sparse_vector_pair.py", "float(ends.upper.sum()) + beyond", "float(ends.lower.sum())", ENCLOSED
    ),
)

MUTANTS = (
    _FILTERS
    + _SPARSE_VECTOR
    + _LARGE
    + _FAR
    + _RENYI
    + _BATCHES
    + _GROUND
    + _COMPOSED
    + _ANSWERS
    + _GAUSSIAN
    + _ALLOCATION
    + _SHUFFLED
    + _CHECKED_IN
    + _CORRELATED
    + _MEASURED
)
