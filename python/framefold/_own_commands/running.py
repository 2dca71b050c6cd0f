"""Runs a list of functions over files, and writes their results."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from framefold import _engine
from framefold._own_commands.items import Item, items_of
from framefold._own_commands.options import (
    Parser,
    add_file_options,
    add_parameters,
    opened,
    whole,
)
from framefold.api import Context
from framefold.common.buffers import BufferWrapper
from framefold.exceptions import FileAccessError, InvalidArgumentError
from framefold.results.saving import FOR_ONE, WRITERS, ending_of, new_file


def run_all(given: Namespace) -> int:
    """Run what the arguments of the command say over each file; gives the exit code."""
    items = items_of(given)
    template = template_of(items, given)
    for file in given.files:
        run_over(file, items, template, given)
    return 0


def run_parser() -> Parser:
    """What ``framefold run MODULE:NAME`` takes."""
    parser = Parser(
        prog="framefold run",
        description="Runs a function of your own over files: a UDF, or a function of a frame.",
        allow_abbrev=False,
    )
    parser.add_argument(
        "function",
        metavar="MODULE:NAME",
        help="a UDF class, a UDF, or a function that takes a frame; FILE.py:NAME is as good; a "
        "list of these and of reductions runs in one pass: 'sum,MODULE:NAME -p x=3,ring 18,50'",
    )
    parser.add_argument("files", nargs="+", metavar="FILE", help="the files to run over")
    add_parameters(parser)
    parser.add_argument(
        "-o",
        "--output",
        metavar="OUT",
        help="NAME.npz, .h5 and others for all buffers, NAME.npy or .tif for one; '{stem}' and "
        "'{reduction}' stand for names; a folder, FOLDER/, is FOLDER/{reduction}.h5",
    )
    parser.add_argument("-f", "--force", action="store_true", help="replace OUT if it exists")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on with NAME.zarr where the same command was ended before; of one function",
    )
    parser.add_argument("-b", "--buffer", metavar="NAME", help="which result buffer to write")
    parser.add_argument(
        "-r", "--roi", help="'0:64,10:20', '::2', '3,4', several joined by ';', or .npy"
    )
    parser.any_value_follows("-r", "--roi")
    parser.add_argument("-j", "--threads", type=whole, metavar="N", help="the number of threads")
    parser.add_argument("-q", "--quiet", action="store_true", help="no progress, no summary")
    add_file_options(parser)
    return parser


def template_of(items: list[Item], given: Namespace) -> str | None:
    """Where results go, with the places of names in it; None if they are not written."""
    template: str | None = given.output
    if template is None:
        return None
    is_known = any(template.lower().endswith(ending) for ending in WRITERS)
    if template.endswith(("/", os.sep)) or (not is_known and Path(template).is_dir()):
        stem = "{stem}-" if len(given.files) > 1 and "{stem}" not in template else ""
        template = os.path.join(template, stem + "{reduction}.h5")
    if len(items) > 1 and "{reduction}" not in template:
        raise InvalidArgumentError(
            f"{len(items)} reductions would be written to one output, '{template}'; name a folder, "
            f"as in -o out/, or files in it: -o 'out/{{reduction}}.npz'"
        )
    if len(given.files) > 1 and "{stem}" not in template:
        raise InvalidArgumentError(
            "several input files would be written to this output; put {stem} into its name"
        )
    return template


def check_place(path: Path, inputs: list[str]) -> None:
    """Refuse a place among what is read, and in Zarr, whose folders hold nothing else."""
    folder = path.parent.resolve()
    hint = "choose a place outside of it for the result"
    if folder.is_dir() and any(Path(file).resolve() == folder for file in inputs):
        raise InvalidArgumentError(f"'{path}' would be in a folder that is read; {hint}")
    for above in (folder, *folder.parents):
        if any((above / name).is_file() for name in ("zarr.json", ".zarray", ".zgroup")):
            raise InvalidArgumentError(
                f"'{path}' would be in a Zarr array or group, '{above}'; {hint}"
            )


@contextmanager
def _in_folder(folder: Path) -> Iterator[None]:
    """Makes a folder; one that is empty at the end goes."""
    is_new = not folder.exists()
    if is_new:
        try:
            folder.mkdir()
        except OSError as error:
            raise FileAccessError(f"could not make the folder '{folder}': {error}") from None
    try:
        yield
    finally:
        if is_new and not any(folder.iterdir()):
            folder.rmdir()


def run_over(file: str, items: list[Item], template: str | None, given: Namespace) -> None:
    """Run over one file, write the results, and say what they are."""
    how = {} if given.threads is None else {"cpus": given.threads}
    named = [] if template is None else [template.replace("{reduction}", i.name) for i in items]
    paths = [Path(name.replace("{stem}", Path(file).stem)) for name in named]
    said: list[str] = []
    for path in paths:
        check_place(path, given.files)
    with ExitStack() as stack:
        if template is not None and "{reduction}" in template:
            stack.enter_context(_in_folder(paths[0].parent))
        # Such a file is written while the run goes on; others at its end.
        grows = len(paths) == 1 and ending_of(paths[0]) == ".zarr"
        if given.resume and not grows:
            raise InvalidArgumentError(
                "--resume goes on with the .zarr of one function; write to one: -o NAME.zarr"
            )
        at_end = [] if grows else paths
        writes = [stack.enter_context(new_file(path, given.force)) for path in at_end]
        ctx = stack.enter_context(
            Context.make_with("auto" if given.threads is None else "threads", **how)
        )
        dataset = opened(ctx, given, file)
        udfs = [item.made() for item in items]
        roi = None
        if given.roi is not None:
            roi = _engine.parse_roi(given.roi, tuple(dataset.shape.nav))
        progress = not given.quiet and sys.stderr.isatty()
        out: dict[str, Any] = {}
        if grows:
            name = items[0].buffer
            where = paths[0] if name is None else {name: paths[0]}
            out = {"out": where, "overwrite": given.force, "resume": given.resume}
        several = ctx.run_udf(dataset=dataset, udf=udfs, roi=roi, progress=progress, **out)
        for i, (item, results) in enumerate(zip(items, several, strict=True)):
            names = list(results) if item.buffer is None else [item.buffer]
            if item.buffer is not None and item.buffer not in results:
                raise InvalidArgumentError(
                    f"there is no result buffer '{item.buffer}'; there are {', '.join(results)}"
                )
            if paths and ending_of(paths[i]) in FOR_ONE:
                names = [item.main_buffer] if item.main_buffer in names else names[:1]
            if at_end:
                writes[i]({"": {name: results[name] for name in names}})
            of = f"{file}: {item.text}" if len(items) > 1 else file
            said += [f"{paths[i] if paths else of}: {_in_words(n, results[n])}" for n in names]
    if not given.quiet:
        # Names of files that are not UTF-8, as the engine writes them.
        print(os.fsencode("\n".join(said)).decode(errors="replace"))


def _in_words(name: str, buffer: BufferWrapper) -> str:
    data = np.asarray(buffer.data)
    text = f"{name} {data.shape} {data.dtype}"
    if data.dtype.kind not in "iuf":
        return text
    # Row by row, as they may be in a file that is larger than memory.
    pairs = zip(np.atleast_1d(data), np.atleast_1d(buffer.valid_mask), strict=True)
    rows = (np.atleast_1d(row)[np.atleast_1d(valid)] for row, valid in pairs)
    # What there is of numbers, of NaN alone NaN.
    limits = [(np.fmin.reduce(row), np.fmax.reduce(row)) for row in rows if row.size]
    if limits:
        lows, highs = zip(*limits, strict=True)
        text += f", from {np.fmin.reduce(lows)} to {np.fmax.reduce(highs)}"
    return text
