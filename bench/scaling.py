"""How our own time and memory grow: one parameter of a headline task at a time, each point in a fresh process.

first: CPU seconds of the first answer, compilation included; warm: of a later one, with a new noise multiplier or local
epsilon each; peak memory of the process.

By itself, ``python bench/scaling.py``, it prints how sweeps grow with workers, by `workers`.
"""

import collections
import functools
import time

from harness import WARM_UP, run_child

# `build(value)` imports what it needs and returns `call(i)`, as a case's `ours`.
Family = collections.namedtuple("Family", "name parameter values build")

DELTA = 1e-6
_ENOUGH = 0.5  # CPU seconds of warm calls
_POINT = "import scaling; print(json.dumps(scaling.point(sys.argv[2], int(sys.argv[3]))))"


def _varied(base: float, i: int) -> float:
    return base * (1.0 + 1e-4 * i)


def allocation_renyi(num_steps: int = 1000, top: int = 60, num: int = 1):
    """Orders 2..top, remove direction, of `num` noise multipliers from 0.5 to 2."""
    import numpy as np

    import jaxacct as ja

    base = np.linspace(0.5, 2.0, num) if num > 1 else 1.0
    orders = list(range(2, top + 1))

    def call(i: int) -> float:
        run = ja.RandomAllocation(ja.Gaussian(base + 1e-4 * i), num_steps)
        return float(np.max(ja.rdp(run, orders, direction=ja.Direction.REMOVE).values))

    return call


def allocation_epsilon(num_steps: int, num_epochs: int = 1):
    import jaxacct as ja

    def call(i: int) -> float:
        return ja.epsilon(ja.RandomAllocation(ja.Gaussian(_varied(1.0, i)), num_steps, 1, num_epochs), DELTA)

    return call


def poisson_epsilon(num_steps: int):
    import jaxacct as ja

    def call(i: int) -> float:
        return ja.epsilon(ja.PoissonSampled(ja.Gaussian(_varied(1.0, i)), 0.01, num_steps), DELTA)

    return call


def shuffle_epsilon(num_reports: int):
    import jaxacct as ja

    def call(i: int) -> float:
        return ja.epsilon(ja.Shuffled(ja.LocalRandomizer(_varied(1.0, i)), num_reports), DELTA)

    return call


def shuffle_renyi(num_reports: int):
    import jaxacct as ja

    def call(i: int) -> float:
        run = ja.Shuffled(ja.LocalRandomizer(_varied(1.0, i)), num_reports)
        return float(ja.rdp(run, list(range(2, 61))).values[-1])

    return call


def _sizes(low: int, high: int) -> tuple[int, ...]:
    return tuple(10**k for k in range(low, high + 1))


FAMILIES = (
    Family("allocation, Renyi orders 2..60", "t", _sizes(1, 6), allocation_renyi),
    Family("allocation, epsilon", "t", _sizes(1, 5), allocation_epsilon),
    Family("allocation, epsilon, 10 epochs", "t", _sizes(1, 4), functools.partial(allocation_epsilon, num_epochs=10)),
    Family("Poisson sampling, epsilon", "steps", _sizes(2, 6), poisson_epsilon),
    Family("shuffle, epsilon", "n", _sizes(3, 9), shuffle_epsilon),
    Family("shuffle, Renyi orders 2..60", "n", _sizes(3, 9), shuffle_renyi),
    Family(
        "allocation, Renyi, t = 1000",
        "largest order",
        (8, 16, 32, 64, 128, 256),
        lambda top: allocation_renyi(top=top),
    ),
    Family(
        "sweep of noise multipliers, orders 2..60, t = 1000",
        "points",
        _sizes(0, 5),
        lambda num: allocation_renyi(num=num),
    ),
)


def find(name: str) -> Family:
    """The family called `name`."""
    return next(family for family in FAMILIES if family.name == name)


def point(name: str, value: int) -> dict[str, float]:
    """One point, in this process; called in a child of its own by `measure_family`."""
    start = time.process_time()
    call = find(name).build(value)
    built = time.process_time()
    call(0)
    first = time.process_time()
    for i in range(1, WARM_UP):
        call(i)
    calls, cpu, wall = 0, time.process_time(), time.perf_counter()
    while calls < 3 or time.process_time() - cpu < _ENOUGH:
        calls += 1
        call(WARM_UP + calls)
    return {
        "import": built - start,
        "first": first - built,
        "cpu": (time.process_time() - cpu) / calls,
        "wall": (time.perf_counter() - wall) / calls,
    }


def measure_family(family: Family) -> dict:
    """Every value of the family's parameter, as a dictionary ready for JSON."""
    points = []
    for value in family.values:
        found, usage, _ = run_child(_POINT, family.name, str(value))
        points.append({"value": value, **found, "max_mib": usage.ru_maxrss / 1024})
    return {"family": family.name, "parameter": family.parameter, "points": points}


if __name__ == "__main__":
    import workers

    workers.main()
