"""Write the data to a file of NumPy's own format."""

from __future__ import annotations

import errno
import math
import os
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold.common._booleans import boolean
from framefold.common._paths import absolute, path_text
from framefold.common.buffers import BufferDeclaration
from framefold.common.shape import n_selected
from framefold.exceptions import FileAccessError, FramefoldError
from framefold.udf._whole_file import WholeFile, part_of
from framefold.udf.base import UDF

if TYPE_CHECKING:
    from framefold.io.dataset.base import DataSet


class RecordUDF(UDF):
    """Records the data as a .npy file, in their own dtype.

    Where corrections make a wider dtype of them, in that one. The file has the shape of the data
    set; with a ROI, ``(n_selected, *sig)``. Positions without data are 0. Space for all of it is
    taken at the start, where the file system can do that, so that a full disk shows at once.

    Until all data are written, it is another file beside it, ``.<filename>.framefold-part``. That
    goes if the run fails or is cancelled, and a file that was there before stays as it was. What
    replaces a file gets its permissions; a link stays, and what it leads to is replaced.

    Parameters
    ----------
    filename
        The file to write; its name is taken as it is.
    overwrite
        Replace the file if there is one. Without, an existing file is an error: it may well be
        the measurement itself.

    Raises
    ------
    FileAccessError
        When run, if the file exists or cannot be written, or is one that the data set is read from.
    """

    def __init__(self, filename: str | os.PathLike[str], overwrite: bool = False) -> None:
        overwrite = boolean("overwrite", overwrite)
        filename = absolute(path_text("filename", filename))
        super().__init__(filename=filename, overwrite=overwrite)

    def get_preferred_input_dtype(self) -> npt.DTypeLike:
        """The dtype of the data."""
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self) -> dict[str, BufferDeclaration]:
        """None: the result is the file."""
        return {}

    def _at_begin(self, dataset: DataSet) -> None:
        path = self.params.filename
        try:
            _engine.keeps_inputs(path, dataset._inputs)
        except FramefoldError as error:
            raise _refusal(path, str(error), error.hint) from error

    def preprocess(self) -> None:
        """Make the file: on the main side, before any partition is processed."""
        meta = self.meta
        if meta.slice is None:
            shape, roi = meta.dataset_shape, meta.roi
            nav = tuple(shape.nav) if roi is None else (n_selected(shape, roi),)
            full, dtype = (*nav, *shape.sig), meta.input_dtype

            self._file = _file_of(self.params.filename, full, dtype, self.params.overwrite)

    def _at_end(self) -> Callable[[bool], None] | None:
        """Gives the file its name, or removes it."""
        file: WholeFile | None = self.__dict__.pop("_file", None)
        path = self.params.filename
        if file is None:
            return None  # a class derived from this one writes in its own way

        def end(complete: bool) -> None:
            try:
                file.end(complete)
            except FramefoldError as error:
                raise _refusal(path, str(error), error.hint) from error

        return end

    def get_task_data(self) -> dict[str, Any]:
        """The frames in the file; partitions write to different ones."""
        mapped = np.lib.format.open_memmap(part_of(self.params.filename), mode="r+")
        return {"memmap": mapped.reshape((-1, *self.meta.dataset_shape.sig))}

    def process_tile(self, tile: Any) -> None:
        """Write a tile to its place."""
        place = self.meta.slice
        if place is not None:
            self.task_data.memmap[place.get()] = tile


def _file_of(path: str, shape: tuple[int, ...], dtype: np.dtype[Any], overwrite: bool) -> WholeFile:
    """A file full of zeros; what is written to its mapping has its place on the disk."""
    try:
        file = WholeFile(path, overwrite)
    except FramefoldError as error:
        raise _refusal(path, str(error), error.hint) from error
    try:
        new_npy(file.part, shape, dtype)
    except OSError as error:
        file.end(False)
        raise _refusal(path, error.strerror or str(error), None) from error
    return file


def new_npy(path: str | os.PathLike[str], shape: tuple[int, ...], dtype: np.dtype[Any]) -> None:
    """Make a .npy file full of zeros of an empty file.

    Raises
    ------
    OSError
        If it does not fit the disk.
    """
    header = {
        "descr": np.lib.format.dtype_to_descr(dtype),
        "fortran_order": False,
        "shape": shape,
    }
    with open(path, "r+b") as file:
        np.lib.format.write_array_header_1_0(file, header)
        _take_space(file, file.tell() + math.prod(shape) * dtype.itemsize)


def _take_space(file: BinaryIO, len_bytes: int) -> None:
    file.flush()
    file.truncate(len_bytes)
    if hasattr(os, "posix_fallocate"):
        try:
            os.posix_fallocate(file.fileno(), 0, len_bytes)
        except OSError as error:
            if error.errno not in (errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS):
                raise


def _refusal(path: str, reason: str, hint: str | None) -> FileAccessError:
    error = FileAccessError(f"RecordUDF: cannot write '{path}': {reason}")
    error.path, error.hint = path, hint
    return error
