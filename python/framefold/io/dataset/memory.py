"""Data sets of arrays in memory."""

from __future__ import annotations

import os
from collections.abc import Iterable
from functools import cached_property
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold.common._integers import MOST, whole
from framefold.common._items import has_items, listed
from framefold.common._masked import refuse_masked
from framefold.common.memory import from_span, span
from framefold.common.sparse import is_scipy, is_sparse
from framefold.common.udf import (
    CPU_BACKENDS,
    CUDA_BACKENDS,
    NUMPY,
    SCIPY_CSR,
    SCIPY_CSR_ARRAY,
    SPARSE_BACKENDS,
    SPARSE_COO,
)
from framefold.exceptions import (
    ArgumentTypeError,
    InvalidArgumentError,
    LimitError,
    UnsupportedError,
)
from framefold.io.dataset._arrays import Rows, lengths, load_memory, load_zeros
from framefold.io.dataset.base import DataSet

#: Arrays that sparse ones are made of.
_PARTS = ("data", "indices", "indptr", "coords", "row", "col")

_LAYOUT = ("nav_shape", "sig_shape", "sig_dims", "sync_offset", "num_partitions")


class MemoryDataSet(DataSet):
    """An array as a data set; made by ``Context.load("memory", data=…)``.

    Parameters
    ----------
    data
        A NumPy array, or a sparse array of SciPy or PyData. NumPy arrays and ``csr`` are read in
        place, not copied, ``csr`` if the columns of each row ascend and have 4 bytes; all other
        formats are converted to that, once. NumPy arrays that run backwards, such as
        ``array[::-1]``, or that NumPy copies for another shape, are copied, once. A matrix of SciPy
        has a row for each frame.
    datashape
        The shape of ``data`` with all axes, navigation first, where it is not its own. Without
        ``data``: that of an array of ``float32`` zeros.
    array_backends
        The array formats of the frames, best first. If the first one is sparse and ``data`` is
        dense, or the other way round, the data are converted once. Tiles of formats of CUDA are
        made on the devices of workers, of data that stay in memory. As the data are if None.
    tileshape
        The shape of tiles: frames, then signal axes. framefold's own choice if None.
    check_cast
        Of no effect: conversions are never refused.
    **options
        As for :meth:`framefold.Context.load`. Without ``sig_dims``, as many of the last axes are
        signal axes as ``sig_shape`` has, or as ``nav_shape`` leaves; 2 without either. Where
        ``sync_offset`` is not given, the scan has a position for each frame.

    Raises
    ------
    InvalidArgumentError
        If shapes do not fit, the parts of a sparse array do not fit each other, or pixels of
        ``data`` are masked.
    UnsupportedError
        If ``data`` are on a CUDA device.
    LimitError
        If the data do not fit into memory after conversion.
    """

    def __init__(
        self,
        data: Any = None,
        *,
        datashape: Iterable[int] | None = None,
        array_backends: Iterable[str] | None = None,
        tileshape: Iterable[int] | None = None,
        check_cast: bool = True,
        _quiet: bool = False,
        **options: Any,
    ) -> None:
        _check_options(options)
        data = data if data is None or isinstance(data, Rows) else _on_host(data)
        _check_integers(options)
        formats = None if array_backends is None else _check_formats(array_backends)
        shape = None if datashape is None else lengths("datashape", datashape)
        sparse = None if formats is None else formats[0] in SPARSE_BACKENDS
        if data is None and shape is None:
            raise InvalidArgumentError("load('memory') needs an array: pass data=… or datashape=…")
        self._is_given = data is not None
        self._read: Rows | npt.NDArray[Any]
        if data is None and shape is not None and sparse:
            engine, self._read = load_zeros(shape, **options)
            data = np.broadcast_to(np.float32(0), shape)
        else:
            if data is None:
                data = _zeros(shape)
            engine, self._read = load_memory(data, datashape=shape, sparse=sparse, **options)
        if tileshape is not None:
            tileshape = lengths("tileshape", tileshape)
            engine = _with_tiles(engine, tileshape)
        super().__init__(engine)
        self._data = data
        self._formats = formats if formats is not None else (_own_format(data),)
        nav, sig = engine.shape[: engine.nav_dims], engine.shape[engine.nav_dims :]
        #: All that is not in what is read.
        self._how = {
            "array_backends": self._formats,
            "tileshape": tileshape,
            "nav_shape": nav,
            "sig_dims": len(sig),
            "sync_offset": options.get("sync_offset"),
            "num_partitions": options.get("num_partitions"),
        }
        if not _quiet:
            self._tell_oddities()

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles hold what is read: an array laid out in memory as it is, or sparse rows."""
        read: Any = self._read
        if not isinstance(read, Rows):
            memory = span(read) if self._is_given else None
            read = (memory, read.dtype.str, read.shape, read.strides)
        return _made_again, (read, self._how)

    @property
    def _bytes_to_copy(self) -> int:
        if isinstance(self._read, Rows):
            return sum(part.nbytes for part in self._read[:3])
        return span(self._read).nbytes if self._is_given else 0

    @cached_property
    def _inputs(self) -> tuple[str, ...]:
        """The files that the array is, or that its parts are, where these are mapped."""
        data = self._data
        parts = [getattr(data, name, None) for name in _PARTS] if is_sparse(data) else [data]
        return tuple(file for part in parts if (file := _mapped_file(part)) is not None)

    @property
    def data(self) -> Any:
        """The array itself, as it was given: :meth:`orient` and :meth:`pipe` do not change it.

        Copies of data sets that were pickled have sparse frames as SciPy's ``csr_array``.
        """
        if isinstance(self._data, Rows):
            from scipy.sparse import csr_array

            indptr, indices, values, sig = self._data
            return csr_array((values, indices, indptr), (indptr.size - 1, prod(sig)))
        return self._data

    @property
    def native_backends(self) -> tuple[str, ...]:
        """The array formats that its frames are best given in, the best one first."""
        return super().native_backends if self._engine.stages else self._formats


def _on_host(data: Any) -> Any:
    """``data`` as an array of NumPy, or a sparse one as it is."""
    kind = type(data)
    package = kind.__module__.partition(".")[0]
    if package == "dask" and hasattr(kind, "compute"):
        # Made an array of NumPy at once, it would be without the masks of its chunks.
        return _on_host(data.compute())
    if package == "cupyx" or hasattr(kind, "__cuda_array_interface__"):
        raise UnsupportedError(
            f"data is a {package}.{kind.__name__}, which may be on a CUDA device, and frames are "
            f"read from the memory of the host; bring it there, with data.get() for CuPy, or "
            f"data.cpu().numpy() for PyTorch"
        )
    if is_sparse(data):
        return data
    refuse_masked(
        "data",
        data,
        "frames have a number for each pixel: use data.filled(…), and "
        "corrections=CorrectionSet(excluded_pixels=…) for pixels that no frame has",
    )
    return np.asarray(data)


def _mapped_file(array: Any) -> str | None:
    """The file that an array of NumPy is a part of, if that is mapped."""
    while isinstance(array, np.ndarray) and not isinstance(array, np.memmap):
        array = array.base
    file = array.filename if isinstance(array, np.memmap) else None
    return None if file is None else os.fspath(file)


def _made_again(data: Any, how: dict[str, Any]) -> MemoryDataSet:
    if isinstance(data, Rows):
        return MemoryDataSet(data, _quiet=True, **how)
    if data[0] is None:
        return MemoryDataSet(datashape=data[2], _quiet=True, **how)
    return MemoryDataSet(from_span(*data), _quiet=True, **how)


def _zeros(shape: Any) -> Any:
    try:
        return np.zeros(shape, dtype=np.float32)
    except (MemoryError, ValueError) as error:
        raise LimitError(f"zeros of shape {shape} do not fit into memory: {error}") from None


def _check_integers(options: dict[str, Any]) -> None:
    """Options as the engine takes them."""
    if isinstance(options.get("sig_dims"), bool):  # which is an integer for Python
        raise InvalidArgumentError(f"sig_dims={options['sig_dims']} is not a whole number")
    for name, least in (("num_partitions", 1), ("sync_offset", -MOST), ("sig_dims", 1)):
        if options.get(name) is not None:
            options[name] = whole(name, options[name], least)
    for name in ("nav_shape", "sig_shape"):
        if options.get(name) is not None:
            options[name] = lengths(name, options[name])


def _check_options(options: dict[str, Any]) -> None:
    """Refuse what there is not; None, and what changes nothing, is as good as left out."""
    for name in ("tiledelay", "base_shape", "force_need_decode"):
        if options.pop(name, None):
            raise UnsupportedError(
                f"{name} serves tests of how LiberTEM cuts and decodes files; leave it out"
            )
    if options.pop("io_backend", None) is not None:
        raise UnsupportedError("io_backend is for files; leave it out for data in memory")
    for name in set(options) - set(_LAYOUT):
        raise ArgumentTypeError(
            f"there is no option '{name}' for data in memory; there are data, datashape, "
            f"array_backends, tileshape, {', '.join(_LAYOUT)}"
        )
    for name in [name for name, value in options.items() if value is None]:
        del options[name]


def _check_formats(names: Iterable[str]) -> tuple[str, ...]:
    """Names of array formats that frames in memory can have."""
    if not has_items(names):
        raise InvalidArgumentError(f"array_backends is {names!r}, expected names of array formats")
    formats = (names,) if isinstance(names, str) else tuple(listed("array_backends", names))
    if not formats:
        raise InvalidArgumentError("array_backends is empty; leave it out, or name a format")
    for name in formats:
        if name not in CPU_BACKENDS | CUDA_BACKENDS:
            there = ", ".join(sorted(CPU_BACKENDS | CUDA_BACKENDS))
            raise InvalidArgumentError(f"array_backends holds {name!r}; there are {there}")
    return formats


def _own_format(data: Any) -> str:
    """The name of the format that an array has."""
    if not is_sparse(data):
        return NUMPY
    classes = [cls.__name__ for cls in type(data).__mro__]
    package = "scipy.sparse" if is_scipy(data) else "sparse"
    for name in classes:
        if f"{package}.{name}" in SPARSE_BACKENDS:
            return f"{package}.{name}"
    if package == "sparse":
        return SPARSE_COO
    return SCIPY_CSR if "spmatrix" in classes else SCIPY_CSR_ARRAY


def _with_tiles(engine: _engine.Dataset, tileshape: tuple[int, ...]) -> _engine.Dataset:
    """The same in tiles of a given shape."""
    sig = engine.shape[engine.nav_dims :]
    fits = len(tileshape) == 1 + len(sig)
    if not fits or any(n > length for n, length in zip(tileshape[1:], sig, strict=True)):
        raise InvalidArgumentError(
            f"tileshape {tileshape} does not fit frames of shape {sig}: expected a number of "
            f"frames and lengths up to those"
        )
    return engine.with_tile_shape(tileshape)
