"""Runs a list of functions over files, and writes their results."""

from __future__ import annotations

import os
import sys
from argparse import Namespace
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold._own_commands.ending import report, say
from framefold._own_commands.items import Item, items_of
from framefold._own_commands.options import (
    Parser,
    add_file_options,
    add_parameters,
    opened,
    whole,
)
from framefold._own_commands.targets import check_not_read, in_folder, targets_of
from framefold.api import Context
from framefold.common.buffers import BufferWrapper
from framefold.exceptions import InvalidArgumentError
from framefold.io.dataset.base import DataSet
from framefold.results.saving import FOR_ONE, ending_of, new_file
from framefold.run.inspecting import UDFRunner
from framefold.udf.base import UDF


def run_all(given: Namespace) -> int:
    """Run what the arguments of the command say over each file; gives the exit code.

    A file that fails is reported, and the others are still done; the code is that of the first one.
    """
    items = items_of(given)
    udfs = [item.made() for item in items]
    targets = targets_of([item.name for item in items], given)
    if given.resume and not all(_grows(paths) for paths in targets):
        raise InvalidArgumentError(
            "--resume goes on with the .zarr of one function; write to one: -o NAME.zarr"
        )
    check_not_read((path for paths in targets for path in paths), _named_files(items, given))
    code = 0
    for file, paths in zip(given.files, targets, strict=True):
        try:
            said = _run_over(file, items, udfs, paths, given)
        except KeyboardInterrupt:
            raise
        except BaseException as error:  # also of user code, such as sys.exit(3)
            failed = report(error, file)
            code = code or failed
            continue
        if not given.quiet:
            say("\n".join(said))
    return code


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


def _named_files(items: Sequence[Item], given: Namespace) -> Iterator[str]:
    """The files that a command names and reads."""
    yield from given.files
    planes = (given.dark, given.gain)
    yield from (file for file in planes if file is not None)
    arrays = (given.roi, given.bad_pixels)
    yield from (text for text in arrays if text is not None and text.lower().endswith(".npy"))
    for item in items:
        yield from item.files


def _grows(paths: Sequence[Path]) -> bool:
    """Whether results are written while the run goes on; others are at its end."""
    return len(paths) == 1 and ending_of(paths[0]) == ".zarr"


def _run_over(
    file: str, items: list[Item], udfs: list[UDF], paths: list[Path], given: Namespace
) -> list[str]:
    """Run over one file, and write the results; gives what they are."""
    how = {} if given.threads is None else {"cpus": given.threads}
    said: list[str] = []
    with ExitStack() as stack:
        ctx = stack.enter_context(
            Context.make_with("auto" if given.threads is None else "threads", **how)
        )
        dataset = opened(ctx, given, file)
        for path in paths:
            _engine.keeps_inputs(os.fspath(path), dataset._inputs)
        roi = None
        if given.roi is not None:
            roi = _engine.parse_roi(given.roi, tuple(dataset.shape.nav))
        for item, udf in zip(items, udfs, strict=True):
            _check_buffer(item, udf, dataset, roi)
        for folder in dict.fromkeys(path.parent for path in paths):
            stack.enter_context(in_folder(folder))
        at_end = [] if _grows(paths) else paths
        writes = [stack.enter_context(new_file(path, given.force)) for path in at_end]
        progress = not given.quiet and sys.stderr.isatty()
        out: dict[str, Any] = {}
        if _grows(paths):
            name = items[0].buffer
            where = paths[0] if name is None else {name: paths[0]}
            out = {"out": where, "overwrite": given.force, "resume": given.resume}
        several = ctx.run_udf(dataset=dataset, udf=udfs, roi=roi, progress=progress, **out)
        for i, (item, results) in enumerate(zip(items, several, strict=True)):
            names = list(results) if item.buffer is None else [item.buffer]
            if paths and ending_of(paths[i]) in FOR_ONE:
                names = [item.main_buffer] if item.main_buffer in names else names[:1]
            if at_end:
                writes[i]({"": {name: results[name] for name in names}})
            of = f"{file}: {item.text}" if len(items) > 1 else file
            said += [f"{paths[i] if paths else of}: {_in_words(n, results[n])}" for n in names]
    return said


def _check_buffer(
    item: Item, udf: UDF, dataset: DataSet, roi: npt.NDArray[np.bool_] | None
) -> None:
    """Refuse a result that there will not be, before the data are read."""
    if item.buffer is None:
        return
    declared = UDFRunner.inspect_udf(udf, dataset, roi)
    names = [name for name, buffer in declared.items() if buffer.use != "private"]
    if item.buffer not in names:
        raise InvalidArgumentError(
            f"there is no result buffer '{item.buffer}'; there are {', '.join(names) or 'none'}"
        )


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
