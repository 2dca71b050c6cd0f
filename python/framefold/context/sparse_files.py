"""Writing data sets as sparse files."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any, NamedTuple

from framefold import _engine
from framefold.common._booleans import boolean
from framefold.common._numbers import number
from framefold.common._paths import path_text
from framefold.context.exporting import ExistingFileError, FramesDone
from framefold.exceptions import InvalidArgumentError
from framefold.io.dataset.base import DataSet
from framefold.run.progress import progress_reporter


class ConvertedFiles(NamedTuple):
    """What :meth:`framefold.Context.convert` wrote.

    Attributes
    ----------
    paths : list of str
        The files; the first one is the one to open.
    n_frames : int
        Frames that were written.
    n_entries : int
        Pixels that were kept.
    n_bytes : int
        The size of the files, but for the first one.
    """

    paths: list[str]
    n_frames: int
    n_entries: int
    n_bytes: int


def write_raw_csr(
    dataset: DataSet,
    path: str | os.PathLike[str],
    threshold: float | None,
    overwrite: bool,
    progress: Any,
) -> ConvertedFiles:
    """Write ``dataset`` as raw_csr; see :meth:`framefold.Context.convert`."""
    overwrite = boolean("overwrite", overwrite)
    threshold = None if threshold is None else number("threshold", threshold)
    dataset._check_files()
    target = Path(path_text("path", path))
    if target.suffix.lower() != ".toml":
        raise InvalidArgumentError(
            f"'{target}' does not end in .toml, as the file of raw_csr that is opened does"
        )
    outputs = [target, *(target.with_suffix(end) for end in (".indptr", ".indices", ".data"))]
    existing = next((output for output in outputs if os.path.lexists(output)), None)
    if existing is not None and not overwrite:
        # Arrays may be those of another descriptor, as of scan.toml beside scan.2.toml.
        effect = "replace it" if existing == target else "give the arrays other names"
        raise ExistingFileError(f"'{existing}' exists; pass overwrite=True to {effect}")
    for output in outputs:
        _engine.keeps_inputs(os.fspath(output), dataset._inputs)
    reporting = FramesDone(progress_reporter(progress), int(dataset.valid_mask.sum()))
    try:
        paths, *numbers = _engine.write_raw_csr(
            dataset._corrected(None, None)[1],
            os.fspath(target),
            threshold,
            overwrite,
            reporting.frames,
        )
    finally:
        reporting.end()
    return ConvertedFiles([os.fspath(path) for path in paths], *numbers)
