"""Renders what one run measured: ``python bench/report.py FILE [--out DIRECTORY]``, FILE as run.py --json writes it.

Writes REPORT.md and its plots (in plots/) to this folder, or to DIRECTORY. A run of some cases gives their report.
"""

import argparse
import json
import math
import os

from plotting import plot_all
from reasons import reason
from run import in_words

HERE = os.path.dirname(os.path.abspath(__file__))
MB = 1.048576  # of a MiB
ALLOWED_MB = 100.0  # over an idle process that imported JAX
ROUNDING = 1e-9  # relative; a smaller difference of two upper ends is no difference


def upper(value) -> float:
    """The upper end of an answer, which is a number or [lower, upper]."""
    return value[1] if isinstance(value, list) else value


def gap(value) -> float | None:
    """(upper - lower) / lower of an interval."""
    if not isinstance(value, list):
        return None
    return value[1] / value[0] - 1.0 if value[0] > 0.0 else math.inf


def contradicted(result: dict) -> bool:
    """Whether the peer's answer lies below our certified lower end: no upper bound then."""
    ours, peer = result["ours_value"], result.get("peer_value")
    return peer is not None and isinstance(ours, list) and upper(peer) < ours[0] * (1.0 - ROUNDING)


def excess(result: dict) -> float | None:
    """How far our upper end lies above the peer's, relative; None where the two are not comparable bounds."""
    if "peer_value" not in result or result["estimates"] or contradicted(result):
        return None
    return upper(result["ours_value"]) / upper(result["peer_value"]) - 1.0


def looser(result: dict) -> bool:
    return (excess(result) or 0.0) > ROUNDING


def slower(result: dict) -> bool:
    return result.get("ratio", math.inf) < 1.0


def starts_slower(result: dict) -> bool:
    return not result["cold_case"] and result.get("peer_cold", {}).get("cpu", math.inf) < result["cold"]["cpu"]


def _value(value) -> str:
    if value is None:
        return ""
    if isinstance(value, list):
        return f"[{value[0]:.8g}, {value[1]:.8g}]"
    return f"{value:.8g}"


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.2g} %"


def _table(head: tuple[str, ...], rows: list[list[str]]) -> list[str]:
    return [f"| {' | '.join(head)} |", f"|{' --- |' * len(head)}", *(f"| {' | '.join(row)} |" for row in rows), ""]


def _over_idle(data: dict, result: dict) -> float:
    return MB * (result["cold"]["max_mib"] - data["idle_mib"]["imported"])


def _ratio(result: dict) -> str:
    if "ratio" not in result:
        return ""
    kind = "cold" if result["cold_case"] else "warm"
    return f"{result['ratio']:.3g} ({kind})"


def _required(result: dict) -> str:
    if result["required"] is None:
        return ""
    return f"{result['required']:,g}: {'met' if result['met'] else 'MISSED' if 'ratio' in result else 'not measured'}"


def times(data: dict) -> list[str]:
    rows = []
    for result in data["results"]:
        cold, peer = result["cold"], result.get("peer_name", "none")
        rows.append(
            [
                result["case"],
                in_words(cold["cpu"]),
                in_words(max(cold["compile"], 0.0)),
                in_words(result["warm"]["cpu"]),
                f"{_over_idle(data, result):.0f}",
                f"{peer}: not installed" if "missing" in result else peer,
                in_words(result["peer_cold"]["cpu"]) if "peer_cold" in result else "",
                in_words(result["peer_warm"]["cpu"]) if "peer_warm" in result else "",
                _ratio(result),
                _required(result),
            ]
        )
    head = ("task", "cold", "compile", "warm", "MB over idle", "peer", "peer cold", "peer warm", "ratio", "required")
    return _table(head, rows)


def answers(data: dict) -> list[str]:
    rows = []
    for result in data["results"]:
        ours, peer = result["ours_value"], result.get("peer_value")
        share = excess(result)
        if contradicted(result):
            remark = "the peer's lies below our lower end"
        elif share is None:
            remark = "estimates" if result["estimates"] else ""
        else:
            side = "above" if share > 0 else "below"
            remark = "equal" if abs(share) <= ROUNDING else f"ours {_percent(abs(share))} {side}"
        kind = "estimate" if result["estimates"] == "both" else "both ends" if isinstance(ours, list) else "upper"
        cells = [result["quantity"], _value(ours), kind, _percent(gap(ours)), result["peer_name"], _value(peer)]
        rows.append([result["case"], *cells, _percent(gap(peer)), remark])
    return _table(("task", "quantity", "ours", "bound", "gap", "peer", "peer's", "gap", "upper ends"), rows)


def _list(results: list[dict], kind: str, text) -> list[str]:
    if not results:
        return ["None.", ""]
    return [*(f"* {r['case']}: {text(r)}. {reason(kind, r['case'])}" for r in results), ""]


def wins(data: dict) -> list[str]:
    results = data["results"]

    def timed(r: dict) -> str:
        kind = "cold" if r["cold_case"] else "warm"
        return f"{in_words(r[kind]['cpu'])} against {in_words(r[f'peer_{kind}']['cpu'])} of {r['peer_name']}"

    def by(r: dict) -> str:
        return f"{_percent(excess(r))} above {r['peer_name']}"

    return [
        "### Both looser and slower",
        "",
        *_list([r for r in results if looser(r) and slower(r)], "both", lambda r: f"{by(r)}; {timed(r)}"),
        "### Looser, but faster",
        "",
        *_list([r for r in results if looser(r) and not slower(r)], "looser", by),
        "### Slower, but not looser",
        "",
        *_list([r for r in results if slower(r) and not looser(r)], "slower", timed),
        "### Slower to a first answer",
        "",
        "In a fresh process, start and import included; no task asks for it, and a compiled program costs it once.",
        reason("cold", ""),
        "",
        *_table(
            ("task", "ours", "of it compiling", "peer", "peer's"),
            [
                [
                    r["case"],
                    in_words(r["cold"]["cpu"]),
                    in_words(max(r["cold"]["compile"], 0.0)),
                    r["peer_name"],
                    in_words(r["peer_cold"]["cpu"]),
                ]
                for r in results
                if starts_slower(r)
            ],
        ),
        "### Not upper bounds",
        "",
        "Answers of peers below our certified lower end.",
        "",
        *_list(
            [r for r in results if contradicted(r)],
            "below",
            lambda r: f"{r['peer_name']} {_value(r['peer_value'])}, ours {_value(r['ours_value'])}",
        ),
    ]


def memory(data: dict) -> list[str]:
    idle = {name: MB * mib for name, mib in data["idle_mib"].items()}
    above: dict[str, list[str]] = {}
    for r in data["results"]:
        if _over_idle(data, r) > ALLOWED_MB:
            compiler = MB * r["cold"]["compiler_mib"]
            above.setdefault(reason("memory", r["case"]), []).append(
                f"{r['case']} ({_over_idle(data, r):.0f} MB, {compiler:.0f} of them the compiler's)"
            )
    number = sum(map(len, above.values()))
    return [
        f"A process that only imports JAX peaks at {idle['imported']:.0f} MB, one that also ran the smallest program",
        f"at {idle['one program']:.0f} MB. Peaks are of a fresh process that answers twice, compilation included.",
        f"Of {len(data['results'])} cases {len(data['results']) - number} stay within {ALLOWED_MB:g} MB over the",
        "first; these do not:",
        "",
        *(f"* {why} {'; '.join(cases)}." for why, cases in above.items()),
        "",
    ]


def compilations(data: dict) -> list[str]:
    return _table(
        ("task", "to the first answer", "in the second", "in all warm calls"),
        [
            [
                r["case"],
                f"{r['cold']['compiled_first']:g}",
                f"{r['cold']['compiled_second']:g}",
                str(r["compiled_warm"]),
            ]
            for r in data["results"]
        ],
    )


def growth(points: list[dict]) -> float | None:
    """The exponent of the warm time over the larger half of the points."""
    half = points[len(points) // 2 - 1 :]
    if len(half) < 2:
        return None
    return math.log(half[-1]["cpu"] / half[0]["cpu"]) / math.log(half[-1]["value"] / half[0]["value"])


def scaling(data: dict) -> list[str]:
    lines = []
    for family in data["scaling"]:
        points, exponent = family["points"], growth(family["points"])
        lines += [
            f"**{family['family']}**, by {family['parameter']}"
            + ("" if exponent is None else f"; warm time grows as the power {exponent:.2f} over the larger half"),
            "",
            *_table(
                (family["parameter"], *(f"{p['value']:,}" for p in points)),
                [
                    ["first", *(in_words(p["first"]) for p in points)],
                    ["warm", *(in_words(p["cpu"]) for p in points)],
                    ["MB over idle", *(f"{MB * (p['max_mib'] - data['idle_mib']['imported']):.0f}" for p in points)],
                ],
            ),
        ]
    return lines


def limits(data: dict) -> list[str]:
    most = data["limits"]
    rows = []
    for r in data["results"]:
        work, wall = r["work"], r["warm"]["wall"]
        shares = work["flops"] / wall / most["flops"], work["bytes accessed"] / wall / most["bytes"]
        cells = [f"{work['flops']:.3g}", f"{work['transcendentals']:.3g}", f"{work['bytes accessed']:.3g}"]
        rows.append([r["case"], in_words(wall), *cells, *(_percent(s) for s in shares)])
    return [
        f"The device ({most['platform']}, {most['kind']}) was measured at {most['flops'] / 1e9:.3g} Gflop/s of float64",
        f"(multiply and add, fused in one program) and {most['bytes'] / 1e9:.3g} GB/s (large arrays).",
        "Work of a warm call as XLA counts it in the programs compiled ahead of time: at least, since a loop's body",
        "counts once; a logarithm or an exponential counts apart, and bytes may come from a cache.",
        "",
        *_table(("task", "wall", "flop", "log, exp ..", "bytes", "of flop/s", "of byte/s"), rows),
    ]


def render(data: dict) -> str:
    """The report as markdown."""
    host = data["machine"]
    present = ", ".join(f"{name} {version}" for name, version in host["versions"].items() if version)
    absent = [name for name, version in host["versions"].items() if not version]
    memory_text = f"{host['memory_gib']:.0f} GiB, " if host["memory_gib"] else ""
    clock = "wall" if data["limits"]["platform"] == "gpu" else "CPU"
    sittings = f", in {data['sittings']} sittings" if data["sittings"] > 1 else ""
    left_out = [f"Left out, {data['why']}: {', '.join(data['left_out'])}.", ""] if data["left_out"] else []
    return "\n".join(
        [
            "# jaxacct beside its peers",
            "",
            f"{host['date']}: {host['cpu']}, {host['cpus']} cores, {memory_text}{host['machine']}; load",
            f"{host['load'][0]:.1f} at the start; device {data['limits']['kind']}. Python {host['python']}, {present}"
            + (f"; not installed: {', '.join(absent)}" if absent else "")
            + ".",
            "",
            f"Generated by `python bench/report.py` from one run of `python bench/run.py`{sittings}; they say what is",
            "measured.",
            f"Times are CPU seconds, medians; a ratio is the peer's {clock} time by ours, both measured",
            "in turn in that run, warm or cold as it says. Every peer runs at its defaults.",
            "",
            *left_out,
            "## Time and memory",
            "",
            *times(data),
            "![Ratios](plots/ratios.png)",
            "",
            "## Answers",
            "",
            *answers(data),
            "![Width of the intervals against time](plots/gaps.png)",
            "",
            "## Where a peer wins",
            "",
            *wins(data),
            "## Memory",
            "",
            *memory(data),
            "## Programs compiled",
            "",
            *compilations(data),
            "## Growth",
            "",
            *scaling(data),
            *(["![Growth](plots/growth.png)", ""] if data["scaling"] else []),
            "## The device's limits",
            "",
            *limits(data),
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", metavar="FILE")
    parser.add_argument("--out", default=HERE, metavar="DIRECTORY")
    args = parser.parse_args()
    with open(args.file) as file:
        data = json.load(file)
    os.makedirs(args.out, exist_ok=True)
    with open(os.path.join(args.out, "REPORT.md"), "w") as file:
        file.write(render(data))
    plot_all(data, os.path.join(args.out, "plots"))


if __name__ == "__main__":
    main()
