"""Writing data sets as whole arrays: NPY, Zarr, HDF5."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any
from uuid import uuid4

import numpy as np

from framefold import _engine
from framefold.common._booleans import boolean
from framefold.common._dtypes import as_dtype
from framefold.common._integers import whole
from framefold.common._paths import path_text
from framefold.common._roi import roi_mask
from framefold.common._telling import tell
from framefold.common.progress import ProgressReporter, ProgressState
from framefold.exceptions import FileAccessError, InvalidArgumentError
from framefold.io.dataset._arrays import lengths
from framefold.io.dataset.base import DataSet
from framefold.run.progress import progress_reporter
from framefold.warnings import MissingFramesWarning


class ExistingFileError(FileAccessError, FileExistsError):
    """A file would be overwritten."""


def export(
    dataset: DataSet,
    path: str | os.PathLike[str],
    *,
    progress: bool | ProgressReporter,
    overwrite: bool,
    format: str | None,
    zarr_format: int | None,
    chunks: Sequence[int] | None,
    compression: str | None,
    level: int | None,
    dtype: Any,
    lossy: bool,
    roi: Any,
    corrections: Any,
    verify: bool,
    turn: dict[str, Any],
    facts: dict[str, Any],
    orientation: str | None,
) -> None:
    """Write ``dataset`` to ``path``; see :meth:`framefold.Context.export_dataset`."""
    if not isinstance(dataset, DataSet):
        raise InvalidArgumentError(
            f"dataset is a {type(dataset).__name__}; use the result of Context.open or Context.load"
        )
    overwrite, lossy = boolean("overwrite", overwrite), boolean("lossy", lossy)
    verify = boolean("verify", verify)
    dataset._check_files()
    if turn["flip"] is not None or turn["transpose"] is not False:
        dataset = dataset.orient(**turn)
    if any(value is not None for value in facts.values()):
        dataset = dataset.calibrate(**facts)
    target = Path(path_text("path", path))
    if os.path.lexists(target) and not overwrite:
        raise ExistingFileError(f"'{target}' exists; pass overwrite=True to replace it")
    _engine.keeps_inputs(os.fspath(target), dataset._inputs)
    mask = roi_mask(roi, tuple(dataset.shape.nav))
    _, frames = dataset._corrected(corrections, mask)
    n_frames = int(dataset.shape.nav.size if mask is None else mask.sum())
    reporting = FramesDone(progress_reporter(progress), n_frames)
    try:
        written = _engine.write_dataset(
            frames,
            os.fspath(target),
            format,
            zarr_format=None
            if zarr_format is None
            else whole("zarr_format", zarr_format, 0, 2**31),
            chunks=None if chunks is None else list(lengths("chunks", chunks)),
            compression=compression,
            level=None if level is None else whole("level", level, -(2**31), 2**31 - 1),
            dtype=None if dtype is None else as_dtype("dtype", dtype).name,
            lossy=lossy,
            roi=None if mask is None else np.ascontiguousarray(mask).reshape(-1),
            force=overwrite,
            verify=verify,
            callback=reporting.frames,
            orientation=orientation,
        )
    finally:
        reporting.end()
    if written["n_missing"]:
        tell(
            f"{written['n_missing']} of {written['n_frames']} scan positions have no data; in "
            f"'{target}' they are {written['fill']}",
            MissingFramesWarning,
        )


class FramesDone:
    """Tells a reporter how many frames are done."""

    def __init__(self, reporter: ProgressReporter | None, n_frames: int) -> None:
        self._reporter = reporter
        self._state = ProgressState(0, n_frames, 0, 1, 1, "")
        self._open = False

    def frames(self, n_done: int) -> None:
        """Hear that so many are done."""
        if self._reporter is None:
            return
        if not self._open:
            self._open = True
            self._state = self._state._replace(progress_id=str(uuid4()))
            self._reporter.start(self._state)
        self._state = self._state._replace(num_frames_complete=n_done)
        self._reporter.update(self._state)

    def end(self) -> None:
        """Hear that nothing more will be written."""
        if self._reporter is not None and self._open:
            whole = self._state.num_frames_complete == self._state.num_frames_total
            self._reporter.end(
                self._state._replace(num_part_complete=int(whole), num_part_in_progress=0)
            )
