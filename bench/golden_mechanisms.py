"""The mechanisms of the support matrix, edges of their range included, whose answers `golden` records."""

import functools
from typing import Any

import numpy as np

import jaxacct as ja


# The loss of Laplace noise of scale 2, as in the example of `ContinuousPair`.
def _cdf_p(loss: Any) -> Any:
    return np.where(loss < -0.5, 0.0, np.where(loss < 0.5, 0.5 * np.exp((loss - 0.5) / 2.0), 1.0))


def _sf_p(loss: Any) -> Any:
    return np.where(loss < -0.5, 1.0, np.where(loss < 0.5, 1.0 - 0.5 * np.exp((loss - 0.5) / 2.0), 0.0))


def _cdf_q(loss: Any) -> Any:
    return np.where(loss < -0.5, 0.0, np.where(loss < 0.5, 1.0 - 0.5 * np.exp(-(loss + 0.5) / 2.0), 1.0))


def _sf_q(loss: Any) -> Any:
    return np.where(loss < -0.5, 1.0, np.where(loss < 0.5, 0.5 * np.exp(-(loss + 0.5) / 2.0), 0.0))


def _randomizers() -> dict[str, Any]:
    return {
        "local": ja.LocalRandomizer(1.0),
        "finite": ja.FiniteRandomizer([[0.6, 0.4], [0.4, 0.6]]),
        "k-ary": ja.KaryRandomizedResponse(1.0, 4),
        "gaussian reports": ja.GaussianReports(4.0),
    }


def _releases() -> dict[str, tuple[Any, str]]:
    """One release, and what is Poisson-sampled, each with the field to calibrate."""
    noise, pure, pair = ja.Gaussian(1.0), ja.Laplace(1.0), ja.DiscretePair((0.75, 0.25), (0.25, 0.75))
    pld = ja.pld(noise)
    leaking = ja.DiscretePair((0.6, 0.3, 0.1), (0.3, 0.7, 0.0))
    continuous = ja.ContinuousPair(_cdf_p, _sf_p, _cdf_q, _sf_q, lowest=-0.6, highest=0.6)
    sampled = functools.partial(ja.PoissonSampled, noise)
    return {
        "gaussian": (noise, "noise_multiplier"),
        "gaussian, tiny noise": (ja.Gaussian(0.01), "noise_multiplier"),
        "gaussian, huge noise": (ja.Gaussian(1e4), "noise_multiplier"),
        "laplace": (pure, "noise_multiplier"),
        "laplace, tiny noise": (ja.Laplace(0.02), "noise_multiplier"),
        "laplace, huge noise": (ja.Laplace(1e4), "noise_multiplier"),
        "pair": (pair, "p"),
        "pair, infinite loss": (leaking, "p"),
        "pair, equal": (ja.DiscretePair((0.5, 0.5), (0.5, 0.5)), "p"),
        "continuous pair": (continuous, "accuracy"),
        "pld": (pld, "step"),
        "poisson gaussian": (sampled(0.01, 100), "noise_multiplier"),
        "poisson gaussian, one step": (sampled(0.01, 1), "sampling_prob"),
        "poisson gaussian, prob 0": (sampled(0.0, 100), "noise_multiplier"),
        "poisson gaussian, prob 1": (sampled(1.0, 10), "noise_multiplier"),
        "poisson gaussian, tiny noise": (ja.PoissonSampled(ja.Gaussian(0.05), 0.01, 10), "noise_multiplier"),
        "poisson gaussian, huge noise": (ja.PoissonSampled(ja.Gaussian(1e4), 0.01, 100), "num_steps"),
        "poisson laplace": (ja.PoissonSampled(pure, 0.01, 100), "sampling_prob"),
        "poisson pair": (ja.PoissonSampled(pair, 0.01, 100), "sampling_prob"),
        "poisson continuous pair": (ja.PoissonSampled(continuous, 0.01, 100), "num_steps"),
        "poisson pld": (ja.PoissonSampled(pld, 0.01, 100), "sampling_prob"),
    }


def _allocations() -> dict[str, tuple[Any, str]]:
    noise, pure, pair = ja.Gaussian(1.0), ja.Laplace(1.0), ja.DiscretePair((0.75, 0.25), (0.25, 0.75))
    allocated = functools.partial(ja.RandomAllocation, noise)
    return {
        "allocation gaussian": (allocated(100), "noise_multiplier"),
        "allocation gaussian, epochs": (allocated(100, 1, 5), "noise_multiplier"),
        "allocation gaussian, k uneven": (allocated(100, 3), "noise_multiplier"),
        "allocation gaussian, k, epochs": (allocated(20, 6, 3), "num_epochs"),
        "allocation gaussian, k = t": (allocated(10, 10), "noise_multiplier"),
        "allocation gaussian, one step": (allocated(1), "noise_multiplier"),
        "allocation gaussian, tiny noise": (ja.RandomAllocation(ja.Gaussian(0.05), 10), "noise_multiplier"),
        "allocation gaussian, huge noise": (ja.RandomAllocation(ja.Gaussian(100.0), 10), "num_epochs"),
        "allocation laplace": (ja.RandomAllocation(pure, 100), "noise_multiplier"),
        "allocation laplace, k, epochs": (ja.RandomAllocation(pure, 20, 3, 2), "num_epochs"),
        "allocation pair": (ja.RandomAllocation(pair, 10), "num_epochs"),
        "allocation pair, k": (ja.RandomAllocation(pair, 10, 2), "num_epochs"),
        "allocation pair, epochs": (ja.RandomAllocation(pair, 10, 1, 3), "num_epochs"),
        "allocation pld": (ja.RandomAllocation(ja.pld(noise), 10), "num_epochs"),
        "partial allocation": (ja.PartialAllocation(noise, 100, 50), "noise_multiplier"),
        "partial allocation, all steps": (ja.PartialAllocation(noise, 10, 10), "noise_multiplier"),
        "scheduled allocation": (ja.ScheduledAllocation((1.0, 2.0), (50, 50)), "num_epochs"),
        "scheduled allocation, epochs": (ja.ScheduledAllocation((1.0, 2.0), (5, 10), 3), "num_epochs"),
    }


def _reports() -> dict[str, tuple[Any, str]]:
    rows: dict[str, tuple[Any, str]] = {}
    for name, randomizer in _randomizers().items():
        rows[f"shuffled {name}"] = ja.Shuffled(randomizer, 1000), "num_reports"
        rows[f"shuffled {name}, rounds"] = ja.Shuffled(randomizer, 1000, 4), "num_reports"
        rows[f"check-in {name}"] = ja.CheckIn(randomizer, 1000, 0.1), "check_in_prob"
    local = ja.LocalRandomizer(1.0)
    rows["shuffled local, approximate"] = ja.Shuffled(ja.LocalRandomizer(1.0, 1e-9), 1000), "num_reports"
    rows["shuffled local, no loss"] = ja.Shuffled(ja.LocalRandomizer(0.0), 1000), "local_epsilon"
    rows["shuffled local, one report"] = ja.Shuffled(local, 1), "local_epsilon"
    rows["shuffled local, large loss"] = ja.Shuffled(ja.LocalRandomizer(20.0), 1000), "local_epsilon"
    rows["check-in local, rounds, dropout"] = ja.CheckIn(local, 1000, 0.1, 4, 0.2), "check_in_prob"
    rows["check-in local, everybody"] = ja.CheckIn(local, 100, 1.0), "local_epsilon"
    rows["check-in local, nobody"] = ja.CheckIn(local, 100, 0.0), "local_epsilon"
    return rows


def _compositions() -> dict[str, tuple[Any, str]]:
    noise, local = ja.Gaussian(1.0), ja.LocalRandomizer(1.0)
    sampled, allocated = ja.PoissonSampled(noise, 0.01, 100), ja.RandomAllocation(noise, 100, 1, 2)
    shuffled, visits = ja.Shuffled(local, 1000), ja.CheckIn(local, 1000, 0.1)
    approximate = ja.Shuffled(ja.LocalRandomizer(1.0, 1e-9), 1000)
    first = "mechanisms.0."
    return {
        "composed gaussians": (ja.Composed((noise, ja.Gaussian(2.0)), (2, 3)), f"{first}noise_multiplier"),
        "composed laplaces": (ja.Composed(ja.Laplace(1.0), 5), "noise_multiplier"),
        "composed poisson, gaussian": (ja.Composed((sampled, noise)), f"{first}sampling_prob"),
        "composed laplace, gaussian": (ja.Composed((ja.Laplace(2.0), noise)), f"{first}noise_multiplier"),
        "composed allocation, poisson": (ja.Composed((allocated, sampled)), f"{first}num_epochs"),
        "composed shuffles": (ja.Composed((shuffled, ja.Shuffled(local, 500)), (2, 1)), f"{first}num_reports"),
        "composed reports": (ja.Composed((shuffled, visits)), f"{first}num_reports"),
        "composed approximate reports": (ja.Composed((approximate, visits)), f"{first}num_reports"),
    }


def mechanisms() -> dict[str, tuple[Any, str]]:
    """Every mechanism by name, with the field that is calibrated."""
    return {**_releases(), **_allocations(), **_reports(), **_compositions()}
