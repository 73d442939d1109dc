"""Poisson-sampled Gaussian noise at delta = 1e-6, a new noise multiplier on each call, beside the usual accountants.

Each peer at its defaults, all steps recorded at once (Opacus' history holds their number, so none pays a loop):

* prv-accountant: `DPSGDAccountant`, an interval, eps_error 0.1; and once at 0.01.
* Opacus: the upper ends of its PRV accountant (eps_error 0.01), its RDP accountant, and its GDP accountant, which is
  asymptotic: an estimate, no bound.
* autodp: Renyi divergence of the amplified mechanism (its improved bound). It has no amplification by shuffling.

Ours is `epsilon_interval` at 1 % beside an accountant of loss distributions; beside one of Renyi divergences it is
the upper bound by Renyi divergences (`precision=inf`).
"""

import functools

from harness import Case

DELTA = 1e-6


def noise_multiplier(base: float, i: int) -> float:
    return base * (1.0 + 1e-5 * i)


def our_interval(sigma: float, sampling_prob: float, num_steps: int):
    import jaxacct as ja

    def call(i: int) -> list[float]:
        run = ja.PoissonSampled(ja.Gaussian(noise_multiplier(sigma, i)), sampling_prob, num_steps)
        found = ja.epsilon_interval(run, target_delta=DELTA, precision=0.01)
        return [float(found.lower), float(found.upper)]

    return call


def our_renyi(sigma: float, sampling_prob: float, num_steps: int):
    import jaxacct as ja

    def call(i: int) -> float:
        run = ja.PoissonSampled(ja.Gaussian(noise_multiplier(sigma, i)), sampling_prob, num_steps)
        return float(ja.epsilon(run, target_delta=DELTA, precision=float("inf")))

    return call


def prv_accountant(sigma: float, sampling_prob: float, num_steps: int, **options: float):
    from prv_accountant.dpsgd import DPSGDAccountant

    def call(i: int) -> list[float]:
        accountant = DPSGDAccountant(noise_multiplier(sigma, i), sampling_prob, num_steps, **options)
        lower, _, upper = accountant.compute_epsilon(DELTA, num_steps)
        return [float(lower), float(upper)]

    return call


def opacus(sigma: float, sampling_prob: float, num_steps: int, *, kind: str):
    from opacus.accountants import create_accountant

    def call(i: int) -> float:
        accountant = create_accountant(kind)
        accountant.history.append((noise_multiplier(sigma, i), sampling_prob, num_steps))
        return float(accountant.get_epsilon(DELTA))

    return call


def autodp(sigma: float, sampling_prob: float, num_steps: int):
    from autodp.mechanism_zoo import GaussianMechanism
    from autodp.transformer_zoo import AmplificationBySampling, Composition

    def call(i: int) -> float:
        noise = GaussianMechanism(noise_multiplier(sigma, i))
        step = AmplificationBySampling(PoissonSampling=True)(noise, sampling_prob, improved_bound_flag=True)
        return float(Composition()([step], [num_steps]).get_approxDP(DELTA))

    return call


RUNS = {"1e3": (1.0, 0.01, 1000), "1e4": (1.0, 0.01, 10_000), "1e5 rare": (0.7, 0.001, 100_000)}


def _case(run: str, ours, peer_name: str, peer, **options) -> Case:
    name = f"poisson {run}, {peer_name}"
    bound = functools.partial(ours, *RUNS[run]), peer_name, functools.partial(peer, *RUNS[run])
    return Case(name, *bound, **{"calls": (10, 1), "rounds": 5, "cold_runs": 1, **options})


_FINE = "prv-accountant, eps_error 0.01"
CASES = [
    *(_case(run, our_interval, "prv-accountant", prv_accountant) for run in RUNS),
    *(_case(run, our_interval, "Opacus PRV", functools.partial(opacus, kind="prv")) for run in RUNS),
    _case("1e4", our_interval, _FINE, functools.partial(prv_accountant, eps_error=0.01), rounds=3),
    *(_case(run, our_renyi, "Opacus RDP", functools.partial(opacus, kind="rdp")) for run in RUNS),
    *(_case(run, our_renyi, "autodp RDP", autodp) for run in RUNS),
    _case("1e4", our_interval, "Opacus GDP", functools.partial(opacus, kind="gdp"), estimates="peer"),
]
