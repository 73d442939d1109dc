"""A backend for Flower's privacy accounting: its `PrivacyAccountant` protocol with the certified bounds of jaxacct.

It is written for flwr 1.42, whose strategies take an ``accountant=``. Flower is imported only where a result has one of
its types.
"""

import math
from fractions import Fraction
from typing import Any

from jaxacct._validate import check_delta, check_epsilon, check_positive, checked_number, checked_whole
from jaxacct.accounting import delta, epsilon
from jaxacct.mechanisms import Composed, FixedBatches, Gaussian, PoissonSampled, ReplaceOne
from jaxacct.mechanisms._base import Mechanism

_VERSION, _BACKEND = 1, "jaxacct"
_LEDGERS = (_BACKEND, "rdp")  # whose states list the same events
_FIELDS = ("noise_multiplier", "sample_size", "population_size")
_SETTINGS = ("target_delta", "population_size", "neighboring_relation", "sampling_method", "max_epsilon")
_MOST = 2**53  # of a count


class FlowerAccountant:
    """Accounts for the rounds of a Flower strategy: ``DifferentialPrivacyServerSideFixedClipping(.., accountant=..)``.

    The `sampling_method` of the configuration decides what a round is:

    - ``poisson``: `PoissonSampled` at sample_size / population_size; a client is added or removed.
    - ``without-replacement``: `FixedBatches`; a client is replaced by any other client.
    - ``no-amplification``: `Gaussian`; it is known who took part. A client is added or removed. If a sample has fewer
      clients than the population, another client takes the place of one that is removed, which moves the sum by up to
      two clipping norms. Such a round counts with *half* the noise, unless `leaves_gap` says that the place stays
      empty. Flower's own backend does not make this distinction: it is right if the place stays empty, or if all
      clients are sampled.

    Args:
      config: a `flwr.serverapp.PrivacyConfig`.
      leaves_gap: without amplification, whether the place of a client that is removed from the population stays empty.
      precision: as for `jaxacct.epsilon`.

    Raises:
      ValueError: if `leaves_gap` is not a bool, or the configuration's sampling is not known here.

    >>> from flwr import serverapp  # doctest: +SKIP
    >>> from jaxacct.interop import FlowerAccountant
    >>> config = serverapp.PrivacyConfig(
    ...     target_delta=1e-6, population_size=1000, sampling_method=serverapp.SamplingMethod.POISSON,
    ...     neighboring_relation=serverapp.NeighboringRelation.ADD_OR_REMOVE_ONE,
    ... )  # doctest: +SKIP
    >>> accountant = FlowerAccountant(config)  # doctest: +SKIP
    >>> accountant.compose(serverapp.GaussianPrivacyEvent(1.0, 10, 1000), count=100)  # doctest: +SKIP
    >>> round(accountant.get_epsilon(1e-6), 3)  # doctest: +SKIP
    0.954
    """

    def __init__(self, config: Any, *, leaves_gap: bool = False, precision: float | None = None) -> None:
        if not isinstance(leaves_gap, bool):
            raise ValueError(f"leaves_gap={leaves_gap!r} must be True or False")
        missing = [name for name in _SETTINGS if not hasattr(config, name)]
        if missing:
            raise ValueError(f"config={config!r} must be a flwr.serverapp.PrivacyConfig: it has no {missing[0]}")
        method, relation = (getattr(config, name).value for name in ("sampling_method", "neighboring_relation"))
        if (method, relation) not in _ROUNDS:
            raise ValueError(
                f"config={config!r}: sampling_method={method!r} with neighboring_relation={relation!r} must be one of "
                + ", ".join(f"{m!r} with {r!r}" for m, r in _ROUNDS)
            )
        self._config, self._round = config, _ROUNDS[method, relation]
        self._leaves_gap, self._precision = leaves_gap, precision
        self._ledger: dict[tuple[float, int, int], int] = {}

    @property
    def config(self) -> Any:
        """The configuration."""
        return self._config

    @property
    def num_releases(self) -> int:
        """How many rounds were composed."""
        return sum(self._ledger.values())

    @property
    def mechanism(self) -> Mechanism | None:
        """All rounds so far as one mechanism, for `jaxacct.report` and other functions; None before the first round."""
        return self._described(self._ledger)

    def compose(self, event: Any, count: int = 1) -> None:
        """Adds `count` rounds as described by `event`, a `GaussianPrivacyEvent`."""
        self._ledger = self._with(event, count)

    def get_epsilon(self, delta: float) -> float:
        """Epsilon of all rounds at `delta`: a certified upper bound; 0 before the first round."""
        check_delta("delta", checked_number("delta", delta))
        return self._epsilon(self._ledger, delta)

    def get_delta(self, epsilon: float) -> float:
        """Delta of all rounds at `epsilon`: a certified upper bound; 0 before the first round."""
        check_epsilon("epsilon", checked_number("epsilon", epsilon))
        run = self.mechanism
        return 0.0 if run is None else float(delta(run, epsilon, precision=self._precision))

    def get_privacy_spent(self, delta: float | None = None) -> Any:
        """A `flwr.serverapp.PrivacySpent`, at the configuration's delta unless another one is given."""
        from flwr.serverapp import PrivacySpent  # type: ignore[import-not-found]

        at = self._config.target_delta if delta is None else delta
        return PrivacySpent(self.get_epsilon(at), at, self.num_releases, _BACKEND)

    def would_exceed(self, event: Any, max_epsilon: float | None = None, count: int = 1) -> bool:
        """Whether `count` more rounds would exceed `max_epsilon` at the configuration's delta; none are added."""
        most = self._config.max_epsilon if max_epsilon is None else max_epsilon
        if most is None:
            raise ValueError("max_epsilon=None must be given, here or in the configuration")
        check_positive("max_epsilon", checked_number("max_epsilon", most))
        return self._epsilon(self._with(event, count), self._config.target_delta) > most

    def state_dict(self) -> dict[str, object]:
        """The configuration and all rounds, ready for JSON."""
        events = [
            {"event": dict(zip(_FIELDS, key, strict=True)), "count": count} for key, count in self._ledger.items()
        ]
        return {"schema_version": _VERSION, "backend": _BACKEND, "config": self._settings(), "compositions": events}

    def load_state_dict(self, state: dict[str, object]) -> None:
        """Continues from a state of `state_dict`, from this class or Flower's own backend, for the same configuration.

        Raises:
          ValueError: if `state` is not such a state, or has another configuration; the rounds so far are then kept.
        """
        if not isinstance(state, dict) or state.get("schema_version") != _VERSION:
            raise ValueError(f"state={state!r} must be a state of schema_version {_VERSION}")
        if state.get("backend") not in _LEDGERS:
            raise ValueError(f"state: backend={state.get('backend')!r} must be one of {_LEDGERS}")
        if state.get("config") != self._settings():
            raise ValueError(f"state: config={state.get('config')!r} must be {self._settings()!r}, this accountant's")
        compositions = state.get("compositions")
        if not isinstance(compositions, list):
            raise ValueError(f"state: compositions={compositions!r} must be a list")
        ledger: dict[tuple[float, int, int], int] = {}
        for entry in compositions:
            try:
                event, count = entry["event"], entry["count"]
                held = tuple(event[name] for name in _FIELDS)
            except (KeyError, TypeError) as error:
                raise ValueError(f"state: {entry!r} must be an event and its count") from error
            ledger = _added(ledger, self._checked(held), count)
        self._ledger = ledger

    def _settings(self) -> dict[str, object]:
        values = {name: getattr(self._config, name) for name in _SETTINGS}
        return {name: getattr(value, "value", value) for name, value in values.items()}

    def _checked(self, held: tuple[Any, ...]) -> tuple[float, int, int]:
        """The numbers of an event; raises ValueError unless it is about this population."""
        noise = checked_number("noise_multiplier", held[0])
        check_positive("noise_multiplier", noise)
        population = checked_whole("population_size", held[2], 1, _MOST)
        if population != self._config.population_size:
            raise ValueError(
                f"population_size={population} must be {self._config.population_size}, the configuration's"
            )
        return float(noise), checked_whole("sample_size", held[1], 1, population), population

    def _with(self, event: Any, count: int) -> dict[tuple[float, int, int], int]:
        """All rounds so far and `count` more."""
        missing = [name for name in _FIELDS if not hasattr(event, name)]
        if missing:
            raise ValueError(f"event={event!r} must be a flwr.serverapp.GaussianPrivacyEvent: it has no {missing[0]}")
        return _added(self._ledger, self._checked(tuple(getattr(event, name) for name in _FIELDS)), count)

    def _described(self, ledger: dict[tuple[float, int, int], int]) -> Mechanism | None:
        runs = [self._round(*key, count, self._leaves_gap) for key, count in ledger.items()]
        return None if not runs else runs[0] if len(runs) == 1 else Composed(runs)

    def _epsilon(self, ledger: dict[tuple[float, int, int], int], at: float) -> float:
        run = self._described(ledger)
        return 0.0 if run is None else float(epsilon(run, at, precision=self._precision))


def _added(
    ledger: dict[tuple[float, int, int], int], key: tuple[float, int, int], count: Any
) -> dict[tuple[float, int, int], int]:
    """A new ledger with `count` more rounds of one kind."""
    return {**ledger, key: ledger.get(key, 0) + checked_whole("count", count, 1, _MOST)}


def _poisson(noise: float, sample: int, population: int, count: int, leaves_gap: bool) -> Mechanism:
    del leaves_gap
    rate = sample / population
    if Fraction(rate) * population < sample:
        rate = math.nextafter(rate, 1.0)
    return PoissonSampled(Gaussian(noise), sampling_prob=rate, num_steps=count)


def _without_replacement(noise: float, sample: int, population: int, count: int, leaves_gap: bool) -> Mechanism:
    del leaves_gap
    if sample == population:
        return ReplaceOne(Composed(Gaussian(noise), count))
    return ReplaceOne(FixedBatches(Gaussian(noise), population, sample, num_steps=count))


def _no_amplification(noise: float, sample: int, population: int, count: int, leaves_gap: bool) -> Mechanism:
    return Composed(Gaussian(noise if sample == population or leaves_gap else 0.5 * noise), count)


_ROUNDS = {  # by sampling method and adjacency, as Flower calls them
    ("poisson", "add-or-remove-one"): _poisson,
    ("without-replacement", "replace-one"): _without_replacement,
    ("no-amplification", "add-or-remove-one"): _no_amplification,
}
