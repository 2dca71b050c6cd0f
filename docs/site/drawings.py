"""Draws the pictures of the concepts: ``python docs/site/drawings.py`` writes docs/drawings.

They are committed, so that pages show them on a code host as well; a test compares. Each stands on
a light card of its own, so that it is as readable on a dark page.
"""

from __future__ import annotations

import re
from html import escape
from pathlib import Path

DOCS = Path(__file__).resolve().parent.parent
DEEP, MIDDLE, LIGHT, PALE = "#0b5563", "#2a8c98", "#9cc9ce", "#e3f0f2"
WARM, INK, GREY = "#d9822b", "#1d2b33", "#6b7a83"


class Drawing:
    """A card to draw on: all units are pixels, y counts down."""

    def __init__(self, width: int, height: int, title: str) -> None:
        self.size = (width, height)
        self.title = title
        self.parts: list[str] = []

    def box(
        self, x: float, y: float, w: float, h: float, text: str = "", fill: str = PALE, **more: str
    ) -> None:
        """Draw a rectangle with lines of text in its middle."""
        stroke = more.get("stroke", DEEP)
        self.parts.append(
            f'<rect x="{x:g}" y="{y:g}" width="{w:g}" height="{h:g}" rx="{more.get("rx", "4")}" '
            f'fill="{fill}" stroke="{stroke}"/>'
        )
        lines = text.split("\n") if text else []
        colour = "#ffffff" if fill in (DEEP, MIDDLE, WARM) else INK
        for i, line in enumerate(lines):
            top = y + h / 2 + 5 + 17 * (i - (len(lines) - 1) / 2)
            self.text(x + w / 2, top, line, anchor="middle", fill=colour)

    def text(self, x: float, y: float, text: str, **more: str) -> None:
        """Write one line; ``anchor`` is start, middle or end."""
        self.parts.append(
            f'<text x="{x:g}" y="{y:g}" text-anchor="{more.get("anchor", "start")}" '
            f'fill="{more.get("fill", INK)}" font-size="{more.get("size", "14")}" '
            f'font-weight="{more.get("weight", "normal")}">{escape(text)}</text>'
        )

    def arrow(self, x1: float, y1: float, x2: float, y2: float, colour: str = GREY) -> None:
        """Draw an arrow from the first point to the second."""
        self.parts.append(
            f'<line x1="{x1:g}" y1="{y1:g}" x2="{x2:g}" y2="{y2:g}" stroke="{colour}" '
            'stroke-width="1.6" marker-end="url(#tip)"/>'
        )

    def svg(self) -> str:
        """Give the file's contents."""
        width, height = self.size
        return "\n".join(
            [
                f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" '
                f'width="{width}" height="{height}" role="img" '
                "font-family=\"system-ui, 'DejaVu Sans', sans-serif\">",
                f"<title>{escape(self.title)}</title>",
                '<defs><marker id="tip" viewBox="0 0 8 8" refX="7" refY="4" markerWidth="7" '
                f'markerHeight="7" orient="auto"><path d="M0 0L8 4L0 8z" fill="{GREY}"/>'
                "</marker></defs>",
                f'<rect width="{width}" height="{height}" rx="8" fill="#fbfdfd"/>',
                *self.parts,
                "</svg>",
                "",
            ]
        )


def axes() -> Drawing:
    """Navigation and signal axes."""
    d = Drawing(720, 290, "A scan of frames: navigation axes and signal axes")
    d.text(40, 32, "navigation axes: the scan", weight="bold")
    d.text(400, 32, "signal axes: one frame", weight="bold")
    for row in range(5):
        for column in range(7):
            chosen = (row, column) == (2, 4)
            d.box(60 + 30 * column, 60 + 30 * row, 26, 26, "", WARM if chosen else LIGHT, rx="2")
    d.text(165, 238, "nav = (5, 7): rows, columns", anchor="middle")
    d.text(165, 260, "position (2, 4)", anchor="middle", fill=WARM)
    d.arrow(212, 133, 415, 133)
    d.text(310, 124, "one frame", anchor="middle", fill=GREY)
    d.box(424, 55, 160, 160, "", DEEP)
    for x, y, r in ((504, 135, 13), (474, 135, 6), (534, 135, 6), (504, 105, 6), (504, 165, 6)):
        d.parts.append(f'<circle cx="{x}" cy="{y}" r="{r}" fill="{PALE}"/>')
    for x in (474, 534):
        for y in (105, 165):
            d.parts.append(f'<circle cx="{x}" cy="{y}" r="4" fill="{LIGHT}"/>')
    d.text(504, 238, "sig = (256, 256): y, x", anchor="middle")
    d.text(360, 280, "shape of the data set: (5, 7, 256, 256)", anchor="middle", weight="bold")
    return d


def partitions() -> Drawing:
    """Partitions and tiles."""
    d = Drawing(720, 330, "Frames are cut into partitions, and partitions into tiles")
    d.text(30, 30, "frames, in the order of the scan", weight="bold")
    colours = (DEEP, MIDDLE, LIGHT)
    for frame in range(24):
        d.box(30 + 27 * frame, 44, 24, 34, "", colours[frame // 8], rx="2", stroke="#ffffff")
    for i in range(3):
        d.text(138 + 216 * i, 98, f"partition {i}", anchor="middle")
    d.arrow(354, 108, 354, 140)
    d.text(30, 160, "one partition, seen by a function as", weight="bold")
    for i in range(8):
        fill = MIDDLE if i == 7 else LIGHT
        d.box(34 + 8 * i, 178 + 5 * i, 60, 60, "", fill, rx="2", stroke="#ffffff")
    d.text(94, 300, "process_frame", anchor="middle", weight="bold")
    d.text(94, 318, "one frame at a time", anchor="middle", fill=GREY)
    for part in range(2):
        for i in range(4):
            left, top = 250 + 90 * part + 8 * i, 186 + 5 * i
            d.box(left, top, 60, 28, "", MIDDLE, rx="2", stroke="#ffffff")
            d.box(left, top + 50, 60, 28, "", LIGHT, rx="2", stroke="#ffffff")
    d.text(345, 300, "process_tile", anchor="middle", weight="bold")
    d.text(345, 318, "some frames, all or part of each", anchor="middle", fill=GREY)
    for i in range(8):
        d.box(540 + 8 * i, 178 + 5 * i, 60, 60, "", DEEP, rx="2", stroke="#ffffff")
    d.text(600, 300, "process_partition", anchor="middle", weight="bold")
    d.text(600, 318, "all frames at once", anchor="middle", fill=GREY)
    return d


def merging() -> Drawing:
    """Partial results and how they are merged."""
    d = Drawing(720, 330, "Partial results are merged in the order of the partitions")
    for i in range(3):
        top = 46 + 84 * i
        d.box(24, top, 110, 44, f"partition {i}", (DEEP, MIDDLE, LIGHT)[i])
        d.arrow(134, top + 22, 184, top + 22)
        d.box(188, top, 120, 44, f"partial result {i}")
        d.arrow(308, top + 22, 372, 152)
    d.text(188, 30, "on any worker, in any order", fill=GREY)
    d.box(376, 126, 86, 52, "merge", WARM)
    d.text(419, 198, "always 0, 1, 2", anchor="middle", fill=GREY)
    d.arrow(462, 152, 504, 152)
    for i in range(3):
        d.box(510 + 56 * i, 60, 54, 30, "", (DEEP, MIDDLE, LIGHT)[i], rx="2")
    d.text(510, 50, "kind nav: side by side", weight="bold")
    d.box(510, 138, 60, 60, "0+1+2", PALE)
    d.text(510, 130, "kind sig: pixel by pixel", weight="bold")
    d.box(510, 240, 60, 30, "x", PALE)
    d.text(510, 232, "kind single: one value", weight="bold")
    d.text(360, 312, "the same bits on every executor", anchor="middle", weight="bold")
    return d


def executors() -> Drawing:
    """The same four verbs on each executor."""
    d = Drawing(720, 340, "Executors differ in where partitions are processed")
    d.box(24, 132, 96, 52, "plan", DEEP)
    d.text(72, 204, "no pixel read", anchor="middle", fill=GREY)
    rows = (
        ("inline", "the calling thread"),
        ("threads", "threads of this process"),
        ("processes", "worker processes of its own"),
        ("dask", "workers of a Dask cluster"),
    )
    for i, (name, where) in enumerate(rows):
        top = 28 + 72 * i
        d.arrow(120, 158, 176, top + 26)
        d.box(180, top, 300, 52, "", PALE)
        d.box(188, top + 8, 96, 36, name, MIDDLE)
        d.text(294, top + 31, where, size="12")
        d.arrow(480, top + 26, 536, 158)
    d.box(540, 132, 76, 52, "merge", WARM)
    d.arrow(616, 158, 638, 158)
    d.box(640, 132, 68, 52, "results", DEEP)
    d.text(330, 330, "auto: threads, or processes once a Python function has run for 0.1 s",
           anchor="middle", weight="bold", size="13")  # fmt: skip
    return d


def crates() -> Drawing:
    """Which crate uses which."""
    d = Drawing(720, 420, "The crates: each uses those below it")
    d.box(90, 24, 250, 56, "cli\nthe command framefold", LIGHT)
    d.box(380, 24, 250, 56, "python\nthe extension; alone names pyo3", LIGHT)
    d.box(235, 118, 250, 56, "framefold\nthe front door for Rust", PALE)
    parts = (
        "io\nfiles and frames",
        "stages\nframes of frames",
        "kernels\nreductions",
        "exec\nplan and merge",
        "plugins\nfunctions in C",
    )
    for i, part in enumerate(parts):
        d.box(14 + 140 * i, 214, 132, 56, part, MIDDLE)
    d.box(235, 308, 250, 42, "core: shapes, contracts, errors", DEEP)
    d.box(235, 366, 250, 42, "simd: vector instructions", DEEP)
    d.arrow(215, 80, 320, 116)
    d.arrow(505, 80, 400, 116)
    for x in (80, 220, 360, 500, 640):
        d.arrow(360, 174, x, 212)
        d.arrow(x, 270, 360 + (x - 360) / 3, 306)
    d.arrow(360, 350, 360, 364)
    d.box(540, 308, 156, 42, "abi: the C interface", DEEP)
    d.arrow(640, 270, 640, 306)
    d.text(24, 330, "testkit, fuzz: for tests", fill=GREY)
    d.text(696, 376, "python/framefold: the", fill=GREY, anchor="end")
    d.text(696, 394, "package, on python", fill=GREY, anchor="end")
    return d


def run() -> Drawing:
    """What happens in a run."""
    d = Drawing(720, 376, "A run, from the data set to the results")
    d.box(24, 24, 130, 48, "data set, UDFs,\nROI, options")
    d.arrow(154, 48, 200, 48)
    d.box(204, 24, 200, 48, "plan: partitions, tiles,\ndtypes, array formats", DEEP)
    d.arrow(304, 72, 304, 104)
    d.box(204, 108, 200, 48, "schedule: who is next,\nwhat waits, what repeats", DEEP)
    d.box(24, 200, 672, 96, "", PALE)
    d.text(330, 220, "each worker, partition by partition", fill=GREY, size="12")
    steps = (
        "read\nand decode",
        "correct,\nconvert",
        "cut tiles",
        "all UDFs:\nprocess",
        "partial\nresult",
    )
    for i, step in enumerate(steps):
        d.box(40 + 132 * i, 232, 112, 52, step, MIDDLE)
        if i:
            d.arrow(20 + 132 * i, 258, 38 + 132 * i, 258)
    d.arrow(304, 156, 96, 230)
    d.box(552, 108, 144, 48, "merge in order\nof partitions", WARM)
    d.arrow(624, 230, 624, 158)
    d.arrow(552, 132, 408, 132)
    d.text(480, 124, "next", anchor="middle", fill=GREY, size="12")
    d.arrow(624, 108, 624, 76)
    d.box(552, 24, 144, 48, "results: complete,\nor so far", DEEP)
    d.text(
        36, 330, "Memory: workers × (tile + partial result), partial results that wait, the result."
    )
    d.text(
        36, 354, "Nothing in the plan depends on the number of workers, so the bits do not, either."
    )
    return d


#: Cases of the table in docs/performance.md that the plot shows.
CASES = (
    "sum, uint16",
    "maximum, uint16",
    "standard deviation, uint16",
    "centre of mass, uint16",
    "1 mask, uint16",
    "8 masks, uint16",
    "sum, MIB raw, 12 bits",
    "sum, 1 % hit",
    "Python per frame: np.sum",
    "Python per tile: np.sum",
)


def ratios(page: str, cases: tuple[str, ...]) -> dict[str, float]:
    """Read from the page on performance how many times LiberTEM's speed each case reached."""
    rows = [[cell.strip() for cell in row.split("|")] for row in page.split("\n")]
    found = {row[1]: row[6] for row in rows if len(row) == 10 and re.match(r"[\d.]+ \(", row[6])}
    return {case: float(found[case].split(" ")[0]) for case in cases}


def speed() -> Drawing:
    """Speed beside LiberTEM's, from the measured table."""
    values = ratios((DOCS / "performance.md").read_text(encoding="utf-8"), CASES)
    d = Drawing(720, 60 + 30 * len(values), "Speed relative to the fastest executor of LiberTEM")
    d.text(24, 30, "times as fast as LiberTEM's fastest executor", weight="bold")
    scale = 400 / 8
    line = 250 + scale
    for i, (case, value) in enumerate(values.items()):
        top = 46 + 30 * i
        d.text(240, top + 16, case, anchor="end")
        d.box(250, top, scale * value, 22, "", MIDDLE if value >= 1 else WARM, rx="2")
        end = line if 0 < line - 250 - scale * value < 40 else 250 + scale * value
        d.text(end + 8, top + 16, f"{value:g} ×")
    d.parts.append(
        f'<line x1="{line:g}" y1="40" x2="{line:g}" y2="{46 + 30 * len(values)}" stroke="{INK}" '
        'stroke-dasharray="3 3"/>'
    )
    return d


DRAWINGS = {
    "axes": axes,
    "partitions": partitions,
    "merging": merging,
    "executors": executors,
    "crates": crates,
    "run": run,
    "speed": speed,
}


def main() -> None:
    """Write all drawings."""
    folder = DOCS / "drawings"
    folder.mkdir(exist_ok=True)
    for name, draw in DRAWINGS.items():
        (folder / f"{name}.svg").write_text(draw().svg(), encoding="utf-8")


if __name__ == "__main__":
    main()
