"""From measured times to ratios, targets and tables."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from engines import ARRAYS, LIBERTEM
from targets import targets_of

#: How ratios and numbers are written.
FORMATS = {
    "of_limit": "{:.2f} of limit",
    "of_peak": "{:.2f} of peak",
    "times_libertem": "{:.1f} × LiberTEM",
    "times_arrays": "{:.1f} × arrays",
    "max_us_per_frame": "{:.2f} µs a frame",
    "max_ns_per_event": "{:.2f} ns an event",
    "max_seconds": "{:.4f} s",
    "max_anon_mb": "{:.0f} MB",
    "max_mapped": "{:.2f} × the selection mapped",
}


@dataclass(frozen=True)
class Verdict:
    """One target of one case."""

    kind: str
    wanted: float
    found: float

    @property
    def passed(self) -> bool:
        """Whether it is met."""
        if self.kind.startswith("max_"):
            return self.found <= self.wanted
        return self.found >= self.wanted

    def __str__(self) -> str:
        sign = "≤" if self.kind.startswith("max_") else "≥"
        mark = "✓" if self.passed else "✗"
        return f"{mark} {FORMATS[self.kind].format(self.found)} ({sign} {self.wanted:g})"


def best(case: dict[str, Any], names: tuple[str, ...]) -> tuple[str, float] | None:
    """Find the fastest of some engines, and its median."""
    medians = {
        name: case["engines"][name]["median_s"]
        for name in names
        if "median_s" in case["engines"].get(name, {})
    }
    if not medians:
        return None
    name = min(medians, key=lambda name: medians[name])
    return name, medians[name]


def figures(case: dict[str, Any]) -> dict[str, float]:
    """Compute all that can be said of a case, by the names that targets have."""
    ours = best(case, (case["ours"],))
    if ours is None:
        return {}
    seconds = ours[1]
    others = {
        "of_limit": best(case, (case.get("limit", "limit-warm"),)),
        "of_peak": best(case, ("peak",)),
        "times_libertem": best(case, LIBERTEM),
        "times_arrays": best(case, ARRAYS),
    }
    found = {kind: other[1] / seconds for kind, other in others.items() if other is not None}
    found["max_us_per_frame"] = 1e6 * seconds / case["frames"]
    if case.get("events"):
        found["max_ns_per_event"] = 1e9 * seconds / case["events"]
    found["max_seconds"] = seconds
    entry = case["engines"][case["ours"]]
    if "peak_anon_bytes" in entry:
        found["max_anon_mb"] = entry["peak_anon_bytes"] / 1e6
        numpys = case["engines"].get("numpy", {}).get("mapped_bytes", 0)
        found["max_mapped"] = entry["mapped_bytes"] / max(case["bytes"], numpys)
    return found


def verdicts(case: dict[str, Any]) -> list[Verdict]:
    """Hold a case against its targets, as far as what they compare with was measured."""
    if case["sweep"] is not None:
        return []
    found = figures(case)
    targets = targets_of(case["name"], case["data"])
    return [Verdict(kind, wanted, found[kind]) for kind, wanted in targets.items() if kind in found]


def complete(report: dict[str, Any]) -> dict[str, Any]:
    """Add to each case what follows from its times."""
    for case in report["cases"]:
        case["figures"] = figures(case)
        case["targets"] = [
            {"kind": v.kind, "wanted": v.wanted, "found": v.found, "passed": v.passed}
            for v in verdicts(case)
        ]
    return report


def milliseconds(seconds: float) -> str:
    """Write a time with three digits."""
    value = 1e3 * seconds
    return f"{value:.0f}" if value >= 100 else f"{value:.3g}"


def line(case: dict[str, Any]) -> list[str]:
    """One row: title, time, spread, throughput, the three ratios, targets."""
    if case["wrong"]:
        words = "; ".join(f"{name}: {what}" for name, what in case["wrong"].items())
        return [case["title"], "wrong", "", "", "", "", "", words]
    found, entry = figures(case), case["engines"].get(case["ours"], {})
    if not found:
        return [case["title"], "", "", "", "", "", "", case["left_out"].get(case["ours"], "")]
    rate = case["bytes"] / entry["median_s"] / 1e9

    def ratio(kind: str, names: tuple[str, ...]) -> str:
        if kind not in found:
            return "–"
        who = best(case, names)
        suffix = "" if who is None else f" ({who[0].removeprefix('libertem-')})"
        return f"{found[kind]:.1f}{suffix}"

    return [
        case["title"],
        milliseconds(entry["median_s"]),
        f"{100 * entry['spread']:.0f} %",
        "–" if case["data"] == "startup" else f"{rate:.2f}",
        f"{found['of_limit']:.2f}" if "of_limit" in found else "–",
        ratio("times_libertem", LIBERTEM),
        ratio("times_arrays", ARRAYS),
        "; ".join([*map(str, verdicts(case)), *unjudged(case, found)]),
    ]


def unjudged(case: dict[str, Any], found: dict[str, float]) -> list[str]:
    """What is worth saying although there is no target: the cost of events and of frames."""
    if not case.get("events"):
        return []
    return [FORMATS[kind].format(found[kind]) for kind in ("max_ns_per_event", "max_us_per_frame")]


HEADER = ["case", "ms", "spread", "GB/s", "of limit", "× LiberTEM", "× arrays", "targets"]
WIDTHS = [30, 8, 7, 7, 9, 15, 13, 0]


def text_line(cells: list[str]) -> str:
    """Lay out a row for a terminal: names to the left, numbers to the right."""
    padded = [cells[0].ljust(WIDTHS[0])]
    padded += [c.rjust(w) for c, w in zip(cells[1:-1], WIDTHS[1:-1], strict=True)]
    return " ".join([*padded, " " + cells[-1]]).rstrip()


def markdown(report: dict[str, Any]) -> str:
    """Both tables of a report, and what they were measured on, as Markdown."""
    cases = [case for case in report["cases"] if case["sweep"] is None]
    rows = [HEADER, ["---", *["---:"] * 6, "---"], *(line(case) for case in cases)]
    names = list(dict.fromkeys(name for case in cases for name in case["engines"]))
    medians = [["case", *names], ["---", *["---:"] * len(names)]]
    for case in cases:
        entries = [case["engines"].get(name, {}) for name in names]
        cells = [milliseconds(e["median_s"]) if "median_s" in e else "–" for e in entries]
        medians.append([case["title"], *cells])
    where = report["environment"]
    versions = ", ".join(f"{name} {version}" for name, version in where["versions"].items())
    scale = "" if report["scale"] == 1 else f" Data sets scaled down by {report['scale']}."
    intro = (
        f"{where['cpu']}, {where['cores']} cores, {where['system']}; {versions}. "
        f"Medians of {report['rounds']} rounds or more, fewer where an engine takes seconds; "
        f"files in the system's cache.{scale}"
    )
    tables = ["\n".join(f"| {' | '.join(row)} |" for row in table) for table in (rows, medians)]
    return f"{intro}\n\n{tables[0]}\n\nMedians of all engines, in ms:\n\n{tables[1]}\n"


def conclusion(report: dict[str, Any]) -> str:
    """How many targets are met, and what was left out."""
    cases = report["cases"]
    targets = [target["passed"] for case in cases for target in case.get("targets", [])]
    lines = [f"{sum(targets)} of {len(targets)} targets met"] if targets else []
    left_out: dict[str, list[str]] = {}
    for case in cases:
        for name, words in case["left_out"].items():
            left_out.setdefault(f"{name} ({words})", []).append(case["name"])
    lines += [f"left out: {who} of {', '.join(names)}" for who, names in left_out.items()]
    wrong = [case["name"] for case in cases if case["wrong"]]
    if wrong:
        lines.append(f"wrong answers, so no times: {', '.join(wrong)}")
    return "\n".join(lines)
