"""Floating-point and combinatorial functions that have nothing to do with privacy.

Functions take and return float64 arrays, [L] or [N, L] with one column per lane where it matters, and are meant to run
inside the float64 boundary (`jaxacct._precision`). The tables of factorials, the bisections of plain numbers and the
outward rounding of sums and products run on the host only; the outward rounding takes and returns Python floats.
"""

from jaxacct.special._binomial import LOG_2PI, binomial_rate, log_binomial_pmf, pmf_rounding
from jaxacct.special._binomial_tail import binomial_tail
from jaxacct.special._binomial_window import binomial_window, log_binomial_weights
from jaxacct.special._bisection import bisect, bisect_lanes, bisect_whole, crossing, first_doubling
from jaxacct.special._chirp import turned_sums
from jaxacct.special._chord import at_real_orders
from jaxacct.special._circular import complex_exp, complex_log, cos_and_sin, turn, vector_cos_and_sin
from jaxacct.special._combinatorics import binomial_masses, log_binomial_table, log_factorial_table
from jaxacct.special._gauss import gauss_legendre
from jaxacct.special._log_concave import integrals, is_concave, where_fallen
from jaxacct.special._logspace import (
    exp_or_inf,
    log1mexp,
    log_one_minus_inverse,
    log_or_minus_inf,
    log_sum_exp,
    logexpm1,
    map_rows,
    one_minus_exp,
    series_of_excess,
    softplus,
)
from jaxacct.special._namespace import (
    expm1,
    fori_loop,
    is_jax,
    log1p,
    rows_from,
    sinh,
    stop_gradient,
    tanh,
    with_rows,
    xp,
)
from jaxacct.special._normal import erfcx, log_normal_density, log_normal_tail, mills_difference, mills_ratio
from jaxacct.special._normal_quantile import normal_upper_quantile
from jaxacct.special._outward import outward, product_outward, sum_outward
from jaxacct.special._products import rows_times, rows_times_rows
from jaxacct.special._roots import solve_decreasing
from jaxacct.special._rounding import (
    LEAST_NORMAL,
    ULP,
    down,
    finite_size,
    grown,
    log_down,
    log_sum_of_many,
    log_sum_outward,
    log_up,
    up,
    with_few_bits,
)
from jaxacct.special._series import log_series_power, log_series_product
from jaxacct.special._shown import shown, shown_down
from jaxacct.special._skellam import SkellamMasses, skellam_masses, skellam_reach

__all__ = [
    "LEAST_NORMAL",
    "LOG_2PI",
    "ULP",
    "SkellamMasses",
    "at_real_orders",
    "binomial_masses",
    "binomial_rate",
    "binomial_tail",
    "binomial_window",
    "bisect",
    "bisect_lanes",
    "bisect_whole",
    "complex_exp",
    "complex_log",
    "cos_and_sin",
    "crossing",
    "down",
    "erfcx",
    "exp_or_inf",
    "expm1",
    "finite_size",
    "first_doubling",
    "fori_loop",
    "gauss_legendre",
    "grown",
    "integrals",
    "is_concave",
    "is_jax",
    "log1mexp",
    "log1p",
    "log_binomial_pmf",
    "log_binomial_table",
    "log_binomial_weights",
    "log_down",
    "log_factorial_table",
    "log_normal_density",
    "log_normal_tail",
    "log_one_minus_inverse",
    "log_or_minus_inf",
    "log_series_power",
    "log_series_product",
    "log_sum_exp",
    "log_sum_of_many",
    "log_sum_outward",
    "log_up",
    "logexpm1",
    "map_rows",
    "mills_difference",
    "mills_ratio",
    "normal_upper_quantile",
    "one_minus_exp",
    "outward",
    "pmf_rounding",
    "product_outward",
    "rows_from",
    "rows_times",
    "rows_times_rows",
    "series_of_excess",
    "shown",
    "shown_down",
    "sinh",
    "skellam_masses",
    "skellam_reach",
    "softplus",
    "solve_decreasing",
    "stop_gradient",
    "sum_outward",
    "tanh",
    "turn",
    "turned_sums",
    "up",
    "vector_cos_and_sin",
    "where_fallen",
    "with_few_bits",
    "with_rows",
    "xp",
]
