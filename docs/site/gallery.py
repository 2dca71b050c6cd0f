"""Runs the scripts of docs/gallery, and makes a page of each with the picture that it draws."""

from __future__ import annotations

import ast
import runpy
from functools import cache
from pathlib import Path
from unittest import mock

import matplotlib as mpl

import framefold

mpl.use("Agg")

import matplotlib.pyplot as plt
from stage import DOCS, toctree

#: What a newcomer looks for comes before the others.
FIRST = ("virtual-detectors", "centre-of-mass")
#: Most scripts look at the same scan, which takes longer to simulate than to look at.
example_scan = cache(framefold.example_scan)


def title_and_text(script: str) -> tuple[str, str, str]:
    """Take a script apart: title and text of its docstring, and the code below."""
    module = ast.parse(script)
    title, _, text = (ast.get_docstring(module) or "").partition("\n")
    code = "\n".join(script.split("\n")[module.body[0].end_lineno or 0 :]).strip()
    return title.rstrip("."), text.strip(), code


def draw(script: Path, picture: Path) -> None:
    """Run a script, and save what it would show."""
    plt.close("all")
    with mock.patch.object(plt, "show"), mock.patch.object(framefold, "example_scan", example_scan):
        runpy.run_path(str(script))
    plt.gcf().savefig(picture, dpi=110)
    plt.close("all")


def write_gallery(stage: Path) -> None:
    """Write the pages of the gallery into the sources of the site."""
    folder = stage / "gallery"
    folder.mkdir(exist_ok=True)
    scripts = sorted(
        (DOCS / "gallery").glob("*.py"), key=lambda path: (path.stem not in FIRST, path)
    )
    index = [
        "# Gallery",
        "",
        "Scripts of a screen each, and what they draw; the pictures are made when this site is",
        "built. All of them use the simulated scan of `framefold.example_scan()`; with a file of",
        "yours, it is `ctx.open(…)` instead.",
        "",
    ]
    for script in scripts:
        title, text, code = title_and_text(script.read_text(encoding="utf-8"))
        picture = f"{script.stem}.png"
        draw(script, folder / picture)
        page = [f"# {title}", "", text, "", f"![{title}]({picture})", "", "```python", code, "```"]
        (folder / f"{script.stem}.md").write_text("\n".join([*page, ""]), encoding="utf-8")
        index += [
            f"## [{title}]({script.stem}.md)",
            "",
            f"[![{title}]({picture})]({script.stem}.md)",
            "",
        ]
    index.append(toctree(script.stem for script in scripts))
    (folder / "index.md").write_text("\n".join(index), encoding="utf-8")
