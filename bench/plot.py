"""Plots of throughput over data size, tile size and number of threads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

AXES = {
    "size": ("data size in MiB", "sum of all frames, uint16"),
    "tile": ("largest tile in KiB", "Python per tile: np.sum, uint16"),
    "threads": ("threads", "centre of mass, uint16"),
}

COLORS = {
    "limit-warm": "0.45",
    "framefold": "tab:red",
    "libertem-threads": "tab:blue",
    "numpy": "tab:green",
    "dask": "tab:orange",
}

LABELS = {
    "limit-warm": "streaming limit",
    "libertem-threads": "LiberTEM, threads",
    "numpy": "NumPy",
    "dask": "dask.array",
}


def plots(report: dict[str, Any], folder: Path) -> list[Path]:
    """Draw what was measured of the three; gives the pictures' paths."""
    written = []
    for axis in AXES:
        points = [case for case in report["cases"] if case["sweep"] and case["sweep"][0] == axis]
        if len(points) > 1:
            written.append(folder / f"{axis}.png")
            draw(points, axis, written[-1])
    return written


def draw(points: list[dict[str, Any]], axis: str, path: Path) -> None:
    """Draw one line per engine, with a bar from the slowest to the fastest round."""
    import matplotlib as mpl

    mpl.use("Agg")
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(figsize=(6.4, 4.2), layout="constrained")
    for name, color in COLORS.items():
        line = [
            (case["sweep"][1], case["bytes"], case["engines"][name])
            for case in points
            if "median_s" in case["engines"].get(name, {})
        ]
        if not line:
            continue
        rates = [n_bytes / entry["median_s"] / 1e9 for _, n_bytes, entry in line]
        low = [n_bytes / entry["max_s"] / 1e9 for _, n_bytes, entry in line]
        high = [n_bytes / entry["min_s"] / 1e9 for _, n_bytes, entry in line]
        errors = [
            [rate - bound for rate, bound in zip(rates, low, strict=True)],
            [bound - rate for rate, bound in zip(rates, high, strict=True)],
        ]
        axes.errorbar(
            [value for value, _, _ in line],
            rates,
            yerr=errors,
            color=color,
            label=LABELS.get(name, name),
            marker="" if name == "limit-warm" else "o",
            linestyle="--" if name == "limit-warm" else "-",
            capsize=3,
        )
    values = sorted({case["sweep"][1] for case in points})
    axes.set_xscale("log", base=2)
    axes.set_xticks(values, [f"{value:g}" for value in values])
    axes.minorticks_off()
    axes.set_xlabel(AXES[axis][0])
    axes.set_ylabel("throughput in GB/s")
    axes.set_ylim(bottom=0)
    axes.set_xmargin(0.04)
    axes.set_title(AXES[axis][1])
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=130)
    plt.close(figure)
