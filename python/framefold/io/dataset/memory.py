"""Data sets of arrays in memory."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold._loading import load_memory
from framefold.common.udf import NUMPY
from framefold.exceptions import InvalidArgumentError, UnsupportedError
from framefold.io.dataset.base import DataSet


class MemoryDataSet(DataSet):
    """An array as a data set; made by ``Context.load("memory", data=…)``.

    Parameters
    ----------
    data
        The array; read in place, not copied.
    datashape
        Instead of ``data``: the shape of an array of ``float32`` zeros, for tests.
    array_backends
        The array formats of the frames, of which framefold has dense NumPy arrays.
    **options
        As for :meth:`framefold.Context.load`.

    Raises
    ------
    UnsupportedError
        If ``array_backends`` holds no format that there is.
    """

    def __init__(
        self,
        data: npt.NDArray[Any] | None = None,
        *,
        datashape: Iterable[int] | None = None,
        array_backends: Iterable[str] | None = None,
        **options: Any,
    ) -> None:
        formats = (NUMPY,) if array_backends is None else tuple(array_backends)
        if NUMPY not in formats:
            raise UnsupportedError(
                f"array_backends={formats} cannot be had, only dense arrays; "
                f"leave array_backends out, or add {NUMPY!r}"
            )
        if datashape is not None:
            if data is not None:
                raise InvalidArgumentError("data= and datashape= exclude each other; pass one")
            data = np.zeros(tuple(datashape), dtype=np.float32)
        super().__init__(load_memory(data, **options))
        self._data = np.asanyarray(data)

    @property
    def data(self) -> npt.NDArray[Any]:
        """The array itself."""
        return self._data
