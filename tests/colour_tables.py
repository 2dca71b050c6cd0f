"""The command line's colour maps, made from those of matplotlib.

Run it to write the tables again: ``python tests/colour_tables.py``.
"""

from __future__ import annotations

from pathlib import Path

import matplotlib
import numpy as np

#: All that the command line has but ``gray``, which needs no table.
NAMES = ("viridis", "inferno", "magma", "plasma", "cividis", "turbo")
TABLES = Path(__file__).parents[1] / "crates/cli/src/render/colormap/tables.rs"

HEAD = """\
//! Colours from low to high, 0xRRGGBB: those that matplotlib draws. Made by
//! `tests/colour_tables.py`; do not edit.
//!
//! Viridis, inferno, magma and plasma are by S. van der Walt, N. Smith and E. Firing (CC0); cividis
//! is by J. Nuñez, C. Anderton and R. Renslow, doi:10.1371/journal.pone.0199239; turbo is by
//! A. Mikhailov, Google (Apache-2.0).
"""


def colours(name: str) -> list[int]:
    """The 256 colours of a map as whole numbers."""
    red, green, blue, _ = matplotlib.colormaps[name](np.arange(256), bytes=True).T.astype(int)
    return [int(colour) for colour in red << 16 | green << 8 | blue]


def text() -> str:
    """The tables as they have to be."""
    parts = [HEAD]
    for name in NAMES:
        rows = np.array([f"0x{colour:06x}" for colour in colours(name)]).reshape(-1, 8)
        lines = "".join(f"    {', '.join(row)},\n" for row in rows)
        constant = f"pub(super) const {name.upper()}: [u32; 256]"
        parts.append(f"#[rustfmt::skip]\n{constant} = [\n{lines}];\n")
    return "\n".join(parts)


if __name__ == "__main__":
    TABLES.write_text(text(), "utf-8")
