"""Writes the reference: a page for each part of the package, with every public name."""

from __future__ import annotations

import inspect
import typing
from collections import defaultdict
from pathlib import Path

from public import Name, public_names
from stage import toctree

#: Parts of the package: what the reference calls them, in the order of the menu.
PARTS = {
    "framefold": "framefold: the common names",
    "api": "framefold.api: the context and results",
    "udf": "framefold.udf: functions",
    "masks": "framefold.masks: masks",
    "detectors": "framefold.detectors: virtual detectors",
    "io": "framefold.io: data sets and corrections",
    "corrections": "framefold.corrections: corrections and coordinates",
    "executor": "framefold.executor: where the work is done",
    "viz": "framefold.viz: plots",
    "analysis": "framefold.analysis: ready-made analyses",
    "common": "framefold.common: shapes, buffers, helpers",
    "contrib": "framefold.contrib: other libraries",
    "utils": "framefold.utils: simulated data, devices",
    "exceptions": "framefold.exceptions: errors",
    "warnings": "framefold.warnings: warnings",
    "cli": "framefold.cli: the command line",
}

#: Classes that users derive from or hold in their hands: with all that they inherit.
WHOLE = ("framefold.UDF", "framefold.Context", "framefold.io.dataset.base.DataSet")


def part_of(module: str) -> str:
    """Which part of the package a module belongs to."""
    return module.split(".")[1] if "." in module else module


def _heading(text: str, line: str) -> list[str]:
    return ["", text, line * len(text), ""]


def _entry(name: Name) -> list[str]:
    """Have one name described."""
    options = [":members:", ":show-inheritance:"]
    if name.path in WHOLE:
        options += [":inherited-members:", ":undoc-members:"]
        options += [":special-members: __enter__, __exit__, __getitem__"]
    if isinstance(name.value, type) and issubclass(name.value, BaseException):
        directive, options = "autoexception", [":show-inheritance:"]
    elif isinstance(name.value, type):
        directive = "autoclass"
    elif inspect.isroutine(name.value) or hasattr(name.value, "__wrapped__"):
        directive, options = "autofunction", []
    elif typing.get_origin(name.value) is not None:
        meaning = str(name.value).replace("typing.", "").replace("~", "")
        short = name.path.rpartition(".")[2]
        return [f".. py:data:: {short}", "", f"   A type: ``{meaning}``.", ""]
    else:
        directive, options = "autodata", []
    return [f".. {directive}:: {name.path}", *(f"   {option}" for option in options), ""]


def _module(module: str, here: list[Name], elsewhere: list[tuple[str, Name]]) -> list[str]:
    """Write what one module has."""
    lines = _heading(module, "-")
    lines += [f".. automodule:: {module}", "   :no-members:", ""]
    for name in here:
        lines += _entry(name)
    if elsewhere:
        lines += ["Described elsewhere:", ""]
        lines += [f"- ``{short}``: :py:obj:`{name.path}`" for short, name in elsewhere] + [""]
    return lines


def write_reference(stage: Path) -> None:
    """Write the pages of the reference into the sources of the site."""
    names = public_names()
    by_module: dict[str, dict[str, Name]] = defaultdict(dict)
    for name in names:
        for path in (name.path, *name.also):
            module, _, short = path.rpartition(".")
            by_module[module][short] = name
    lines: dict[str, list[str]] = defaultdict(list)
    for module, found in sorted(by_module.items()):
        here = [name for short, name in sorted(found.items()) if name.path == f"{module}.{short}"]
        elsewhere = [(short, name) for short, name in sorted(found.items()) if name not in here]
        lines[part_of(module)] += _module(module, here, elsewhere)
    folder = stage / "api"
    folder.mkdir()
    # Parts without a title of their own come last.
    titles = {part: PARTS.get(part, f"framefold.{part}") for part in [*PARTS, *sorted(lines)]}
    for part, text in lines.items():
        title = _heading(titles[part], "=")
        (folder / f"{part}.rst").write_text("\n".join([*title, *text]), encoding="utf-8")
    index = [
        "# Reference",
        "",
        f"Every public name of the package, {len(names)} of them. What scripts mostly need stands",
        "[at the top level](framefold.rst); everything else is where LiberTEM has it, with",
        "`libertem` read as `framefold`. The {ref}`index <genindex>` has all names in the order",
        "of the alphabet.",
        "",
        *(f"- [{title}]({part}.rst)" for part, title in titles.items() if part in lines),
        "",
        toctree(part for part in titles if part in lines),
    ]
    (folder / "index.md").write_text("\n".join(index), encoding="utf-8")
