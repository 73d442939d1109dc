"""The report's plots: ratios, width of intervals against time, growth."""

import os

import matplotlib

matplotlib.use("agg")
import matplotlib.pyplot as plt


def _save(figure, folder: str, name: str) -> None:
    figure.savefig(os.path.join(folder, name), dpi=80, bbox_inches="tight", metadata={"Software": None})
    plt.close(figure)


def ratios(results: list[dict], folder: str) -> None:
    """The peer's time by ours, one bar for each comparison."""
    shown = sorted((r for r in results if "ratio" in r), key=lambda r: r["ratio"])
    figure, axes = plt.subplots(figsize=(7, 0.5 + 0.22 * len(shown)))
    colours = ["tab:red" if r["ratio"] < 1.0 else "tab:blue" for r in shown]
    names = [r["case"] if r["peer_name"] in r["case"] else f"{r['case']} ({r['peer_name']})" for r in shown]
    axes.barh(names, [r["ratio"] - 1.0 for r in shown], left=1.0, color=colours)
    axes.axvline(1.0, color="black", linewidth=0.8)
    axes.set_xscale("log")
    axes.set_xlabel("time of the peer / time of jaxacct")
    axes.tick_params(axis="y", labelsize=7)
    _save(figure, folder, "ratios.png")


def gaps(results: list[dict], folder: str) -> None:
    """Relative width of the interval against warm time; a line joins ours and the peer's of one task."""
    figure, axes = plt.subplots(figsize=(7, 4.5))
    for r in results:
        points = []
        for side, warm, marker, colour in (("ours", "warm", "o", "tab:blue"), ("peer", "peer_warm", "x", "tab:orange")):
            value = r.get(f"{side}_value")
            if isinstance(value, list) and value[0] > 0.0 and warm in r:
                points.append((r[warm]["cpu"], max(value[1] / value[0] - 1.0, 1e-16)))
                axes.plot(*points[-1], marker, color=colour, markersize=5)
        if len(points) == 2:
            axes.plot(*zip(*points, strict=True), color="grey", linewidth=0.5)
    for marker, colour, name in (("o", "tab:blue", "jaxacct"), ("x", "tab:orange", "peer")):
        axes.plot([], [], marker, color=colour, label=name)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("warm CPU seconds")
    axes.set_ylabel("(upper - lower) / lower")
    axes.legend()
    _save(figure, folder, "gaps.png")


def growth(families: list[dict], folder: str) -> None:
    """Warm time against the parameter, relative to its smallest value's abscissa."""
    figure, axes = plt.subplots(figsize=(7, 4.5))
    for family in families:
        points = family["points"]
        axes.plot(
            [p["value"] for p in points],
            [p["cpu"] for p in points],
            "o-",
            markersize=3,
            label=f"{family['family']}: {family['parameter']}",
        )
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlabel("parameter")
    axes.set_ylabel("warm CPU seconds")
    axes.legend(fontsize=7)
    _save(figure, folder, "growth.png")


def plot_all(data: dict, folder: str) -> None:
    os.makedirs(folder, exist_ok=True)
    ratios(data["results"], folder)
    gaps(data["results"], folder)
    if data["scaling"]:
        growth(data["scaling"], folder)
