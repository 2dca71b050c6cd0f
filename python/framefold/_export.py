"""Writing data sets as NPY files."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold.common.buffers import BufferDeclaration
from framefold.exceptions import FileAccessError, InvalidArgumentError
from framefold.udf.base import UDF
from framefold.udf.record import new_npy

if TYPE_CHECKING:
    from framefold.io.dataset.base import DataSet


def export_npy(
    dataset: DataSet, path: str | os.PathLike[str], overwrite: bool, run: Callable[[UDF], Any]
) -> None:
    """Write ``dataset`` to ``path``; see :meth:`framefold.Context.export_dataset`.

    The data go to a file beside it, which takes its name when it is complete.

    Parameters
    ----------
    run
        Runs a UDF over the data set.
    """
    target = Path(path)
    if target.suffix.lower() != ".npy":
        raise InvalidArgumentError(
            f"'{target}' does not end in .npy, which is the only format that is written"
        )
    if target.exists() and not overwrite:
        raise ExistingFileError(f"'{target}' exists; pass overwrite=True to replace it")
    if any(Path(source).resolve() == target.resolve() for source in dataset.paths):
        raise InvalidArgumentError(
            f"'{target}' is the file that the data set is read from; export to another path"
        )
    partial = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        partial.unlink(missing_ok=True)
        new_npy(partial, tuple(dataset.shape), dataset.dtype)
        run(_WriteUDF(path=str(partial)))
        os.replace(partial, target)
    except OSError as error:
        if isinstance(error, FileAccessError):
            raise
        raise FileAccessError(f"cannot write '{target}': {error.strerror or error}") from error
    finally:
        partial.unlink(missing_ok=True)


class ExistingFileError(FileAccessError, FileExistsError):
    """A file would be overwritten."""


class _WriteUDF(UDF):
    """Writes each tile to its place in an NPY file; positions without data stay zero."""

    def __init__(self, path: str) -> None:
        super().__init__(path=path)

    def get_preferred_input_dtype(self) -> npt.DTypeLike:
        """The dtype of the data."""
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self) -> dict[str, BufferDeclaration]:
        """None: the file is the result."""
        return {}

    def get_task_data(self) -> dict[str, Any]:
        """The file, mapped, with flattened navigation axes."""
        array = np.lib.format.open_memmap(self.params.path, mode="r+")
        shape = self.meta.dataset_shape
        return {"frames": array.reshape((shape.nav.size, *shape.sig))}

    def process_tile(self, tile: Any) -> None:
        """Write."""
        part = self.meta.slice
        if part is not None:
            self.task_data.frames[part.get()] = tile

    def merge(self, dest: Any, src: Any) -> None:
        """Nothing to merge."""
