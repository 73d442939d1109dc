"""Recomputes Figure 1 of "Privacy amplification by random allocation": ``python bench/figure1.py --out FILE.csv``.

Epsilon against the noise multiplier, t = 1e6 steps, k = 1, delta = 1e-10, at 20 log-spaced noise multipliers:

* direct: the paper's direct bound, remove direction, orders extended until the best one is inside, and that order;
* direct_2_60: the same at the paper's orders 2..60 only, which is why its curve is flat on the right;
* local: no amplification; poisson_rdp: Poisson sampling at rate 1/t, by its Renyi divergences;
* certified: our epsilon, both directions, best method.

Then checks the direct and local curves, with orders to 60 and to 256, at reference points that were computed
independently of this package; exit status 1 if one differs in the last digit given.
"""

import argparse
import csv
import sys

import numpy as np

import jaxacct as ja

NUM_STEPS = 10**6
DELTA = 1e-10
# noise multiplier: direct with orders 2..60, its order where it is known, the same for 2..256, local
REFERENCE = {
    0.2: ("32.824", None, "32.824", None, "43.663"),
    0.3: ("13.411", None, "13.411", None, "26.202"),
    0.5: ("3.5913", None, "3.5913", None, "14.274"),
    0.7: ("1.6252", None, "1.6252", None, "9.728"),
    1.0: ("0.72114", 27, "0.72114", 27, "6.548"),
    1.5: ("0.30408", 60, "0.29513", 62, "4.216"),
    2.0: ("0.30407", 60, "0.15901", 110, "3.099"),
}


def allocation(noise_multipliers: np.ndarray) -> ja.RandomAllocation:
    return ja.RandomAllocation(ja.Gaussian(noise_multipliers), num_steps=NUM_STEPS)


def restricted(noise_multipliers: np.ndarray, max_order: int) -> tuple[np.ndarray, np.ndarray]:
    """The direct bound with orders 2..max_order only, and its best order."""
    curve = ja.rdp(allocation(noise_multipliers), range(2, max_order + 1), direction=ja.Direction.REMOVE)
    a = curve.orders
    by_order = curve.values + np.log1p(-1.0 / a) - np.log(DELTA * a) / (a - 1.0)
    return ja.epsilon(curve, DELTA), a[np.argmin(by_order, axis=-1)].astype(int)


def figure(noise_multipliers: np.ndarray) -> dict[str, np.ndarray]:
    """The columns of the figure."""
    run = allocation(noise_multipliers)
    poisson = ja.PoissonSampled(ja.Gaussian(noise_multipliers), sampling_prob=1.0 / NUM_STEPS, num_steps=NUM_STEPS)
    direct = next(entry for entry in ja.compare(run, DELTA) if entry.method == "direct")
    to_60, order_60 = restricted(noise_multipliers, 60)
    return {
        "noise_multiplier": noise_multipliers,
        "direct": direct.value,
        "direct_order": direct.order.astype(int),
        "direct_2_60": to_60,
        "direct_2_60_order": order_60,
        "local": ja.epsilon(run, DELTA, method="no amplification"),
        "poisson_rdp": ja.epsilon(poisson, DELTA, method="rdp"),
        "certified": ja.epsilon(run, DELTA),
    }


def check() -> bool:
    """Prints the reference points beside ours; whether all agree to the digits given."""
    sigmas = np.array(list(REFERENCE))
    columns = (*restricted(sigmas, 60), *restricted(sigmas, 256))
    columns = (*columns, ja.epsilon(allocation(sigmas), DELTA, method="no amplification"))
    agree = True
    print("sigma  direct 2..60 (order)  direct 2..256 (order)  local;  reference in brackets")
    for sigma, expected, *ours in zip(sigmas, REFERENCE.values(), *columns, strict=True):
        fields = []
        for value, wanted in zip(ours, expected, strict=True):
            digits = len(wanted.partition(".")[2]) if isinstance(wanted, str) else 0
            good = wanted is None or f"{value:.{digits}f}" == str(wanted)
            agree &= good
            fields.append(f"{value:.{digits}f} [{'-' if wanted is None else wanted}]{'' if good else ' DIFFERS'}")
        print(f"{sigma:<5g}  {'  '.join(fields)}")
    return agree


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", required=True, metavar="FILE.csv")
    args = parser.parse_args()
    columns = figure(np.geomspace(0.2, 2.0, 20))
    with open(args.out, "w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))
    sys.exit(0 if check() else 1)


if __name__ == "__main__":
    main()
