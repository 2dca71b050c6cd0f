"""The part of :class:`framefold.Context` that writes other formats."""

from __future__ import annotations

from os import PathLike
from typing import TYPE_CHECKING, Literal

from framefold.common._tracebacks import shortened
from framefold.exceptions import InvalidArgumentError
from framefold.io.dataset.base import DataSet

if TYPE_CHECKING:
    from framefold.common.progress import ProgressReporter
    from framefold.context.sparse_files import ConvertedFiles

__all__ = ["ConvertMethods"]


class ConvertMethods:
    """Base of :class:`framefold.Context`: sparse files; whole arrays are exported."""

    @shortened
    def convert(
        self,
        dataset: DataSet,
        path: str | PathLike[str],
        to: Literal["raw_csr"] = "raw_csr",
        *,
        threshold: float | None = None,
        overwrite: bool = False,
        progress: bool | ProgressReporter = False,
    ) -> ConvertedFiles:
        """Write a data set as sparse frames, as the command ``framefold convert`` does.

        Frames are written as they are read, so memory does not limit the size. The files appear
        under their names when all are complete, and none stays if something goes wrong.

        Parameters
        ----------
        dataset
            From :meth:`open` or :meth:`load`.
        path
            For ``'raw_csr'``, a file that ends in ``.toml``; three more with the same name and
            the endings ``.indptr``, ``.indices`` and ``.data`` are written beside it; with
            ``.2`` before the ending where a file is replaced that has the others.
        to
            The format: ``'raw_csr'``, sparse frames.
        threshold
            Keep pixels above this number, which is 0 or more, and NaN. If None, all pixels that
            are not 0, so that nothing is lost.
        overwrite
            Replace files if there are any.
        progress
            As for :meth:`run_udf`.

        Returns
        -------
        ConvertedFiles
            ``paths``, ``n_frames``, ``n_entries`` and ``n_bytes``; ``open(paths[0])`` reads the
            result.

        Raises
        ------
        FileAccessError
            If a file exists (a ``FileExistsError``, too) or cannot be written.
        InvalidArgumentError
            If the format, the path or the threshold cannot be, or a file is being read.
        UnsupportedError
            If frames in between are missing, or pixels are complex and there is a threshold.
        """
        if not isinstance(dataset, DataSet):
            raise InvalidArgumentError(
                f"dataset is a {type(dataset).__name__}; use the result of Context.open or "
                f"Context.load"
            )
        if to != "raw_csr":
            raise InvalidArgumentError(
                f"convert does not write {to!r}; use 'raw_csr', or export_dataset for .npy, "
                f".zarr, .h5, .hspy and .zspy"
            )
        from framefold.context.sparse_files import write_raw_csr

        return write_raw_csr(dataset, path, threshold, overwrite, progress)
