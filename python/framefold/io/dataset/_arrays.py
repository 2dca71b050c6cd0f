"""Data sets from arrays in memory."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold.common._integers import MOST
from framefold.common._items import indices
from framefold.common.sparse import is_scipy, is_sparse
from framefold.exceptions import InvalidArgumentError, LimitError


class Rows(NamedTuple):
    """Sparse frames as the engine has them, one row for each."""

    indptr: npt.NDArray[Any]
    indices: npt.NDArray[Any]
    values: npt.NDArray[Any]
    sig: tuple[int, ...]

    @classmethod
    def of(cls, engine: _engine.Dataset) -> Rows | None:
        """Those of a data set, where they lie; None if its frames are no sparse rows in memory."""
        parts = engine.rows()
        if parts is None:
            return None
        indptr, indices, values = (part.view(dtype) for dtype, part in parts)
        return cls(indptr, indices, values, engine.shape[engine.nav_dims :])


def load_memory(
    data: Any,
    *,
    sparse: bool | None = None,
    datashape: tuple[int, ...] | None = None,
    sig_dims: int | None = None,
    nav_shape: tuple[int, ...] | None = None,
    sig_shape: tuple[int, ...] | None = None,
    sync_offset: int | None = None,
    num_partitions: int | None = None,
) -> tuple[_engine.Dataset, Rows | npt.NDArray[Any]]:
    """A data set that reads an array in place, and what it reads.

    Parameters
    ----------
    data
        At least one navigation and one signal axis. Dense arrays whose frames do not lie in C
        order are read in place, too, but those that run backwards are copied. Sparse arrays become
        compressed sparse rows, unless they are.
    sparse
        Whether frames are to be sparse: converted once, now. As the data are if None.
    datashape
        Another shape for the data, with as many elements.
    sig_dims
        How many of the last axes are signal axes. By default as many as ``sig_shape`` has, or as
        ``nav_shape`` leaves; 2 without either.
    nav_shape, sig_shape
        Other shapes for scan and frame, with as many elements as the axes of the array that they
        stand for.
    sync_offset
        As for :meth:`framefold.Context.load`. Where it is given, be it 0, ``nav_shape`` may have
        more or fewer positions than there are frames.
    num_partitions
        As for :meth:`framefold.Context.load`.
    """
    if nav_shape is not None:
        nav_shape = lengths("nav_shape", nav_shape)
    if sig_shape is not None:
        sig_shape = lengths("sig_shape", sig_shape)
    if isinstance(data, Rows):
        grid = _grid((data.indptr.size - 1,), nav_shape, sync_offset)
        rows = data[:3]
        made = _engine.from_csr(*rows, data.sig, grid, sync_offset or 0, num_partitions)
        return made, data
    if is_sparse(data):
        check_dtype("data", data.dtype)
        nav, sig = _sparse_axes(data, datashape, sig_dims, nav_shape, sig_shape)
        grid = _grid(nav, nav_shape, sync_offset)
        if sparse is not False:
            return _read(_from_sparse(data, nav, sig, grid, sync_offset or 0, num_partitions))
        array = _dense_frames(_from_sparse(data, nav, sig, None)).reshape((*nav, *sig))
        sig_dims, sig_shape = len(sig), None
    else:
        array = np.asarray(data).view()  # of which no other code sets shape and dtype
        check_dtype("data", array.dtype)
        if datashape is not None and datashape != array.shape:
            _check_size("datashape", datashape, array.shape)
            array = array.reshape(datashape)
    sig_dims = _sig_dims(array.shape, sig_dims, nav_shape, sig_shape)
    if array.ndim == sig_dims:
        array = array[np.newaxis]
    n_nav = array.ndim - sig_dims
    if sig_shape is not None and sig_shape != array.shape[n_nav:]:
        _check_size("sig_shape", sig_shape, array.shape[n_nav:])
        array, sig_dims = array.reshape(array.shape[:n_nav] + sig_shape), len(sig_shape)
    if any(stride < 0 for stride in array.strides):
        array = array.copy(order="C")  # the engine reads forward only
    grid = _grid(array.shape[:n_nav], nav_shape, sync_offset)
    if not sparse:
        made = _engine.from_array(array, sig_dims, grid, sync_offset or 0, num_partitions)
        return made, array
    frames = _engine.from_array(array, sig_dims)
    return _read(frames.to_sparse(grid, sync_offset or 0, num_partitions))


def load_zeros(
    datashape: tuple[int, ...],
    *,
    sig_dims: int | None = None,
    nav_shape: tuple[int, ...] | None = None,
    sig_shape: tuple[int, ...] | None = None,
    sync_offset: int | None = None,
    num_partitions: int | None = None,
) -> tuple[_engine.Dataset, Rows]:
    """A sparse data set without any entries; as :func:`load_memory`."""
    if nav_shape is not None:
        nav_shape = lengths("nav_shape", nav_shape)
    if sig_shape is not None:
        sig_shape = lengths("sig_shape", sig_shape)
    nav, sig = _cut(datashape, sig_dims, nav_shape, sig_shape)
    grid = _grid(nav, nav_shape, sync_offset)
    try:
        indptr = np.zeros(prod(nav) + 1, dtype=np.uint8)
    except (MemoryError, ValueError, OverflowError):
        raise LimitError(f"{prod(nav)} frames are more than fit into memory") from None
    empty = np.empty(0, dtype=np.uint32)
    values = np.empty(0, dtype=np.float32)
    rows = indptr, empty, values
    return _read(_engine.from_csr(*rows, sig, grid, sync_offset or 0, num_partitions))


def lengths(name: str, shape: Iterable[int]) -> tuple[int, ...]:
    """A shape as a tuple of positive integers."""
    try:
        dims = indices(name, shape)
    except TypeError:
        raise InvalidArgumentError(f"{name}={shape!r} is not a tuple of lengths") from None
    if max(dims, default=0) > MOST:
        raise InvalidArgumentError(f"{name}={dims} is longer than anything can be")
    if not dims or min(dims) < 1:
        raise InvalidArgumentError(f"{name}={dims} is no shape: lengths are 1 or more")
    return dims


def _read(engine: _engine.Dataset) -> tuple[_engine.Dataset, Rows]:
    """A data set of sparse rows, and these."""
    rows = Rows.of(engine)
    assert rows is not None
    return engine, rows


def _from_sparse(
    data: Any,
    nav: tuple[int, ...],
    sig: tuple[int, ...],
    nav_shape: tuple[int, ...] | None,
    sync_offset: int = 0,
    num_partitions: int | None = None,
) -> _engine.Dataset:
    from framefold.arrays.compressed import sparse_rows

    rows = sparse_rows(data, prod(nav), prod(sig))
    return _engine.from_csr(*rows, sig, nav_shape, sync_offset, num_partitions)


def _dense_frames(rows: _engine.Dataset) -> npt.NDArray[Any]:
    """All frames of sparse data."""
    try:
        frames = np.zeros(rows.shape, dtype=rows.dtype)
    except (MemoryError, ValueError):
        raise LimitError(
            f"dense frames of shape {rows.shape} do not fit into memory; leave them sparse"
        ) from None
    rows.read_frames(frames.reshape(-1).view(np.uint8))
    return frames


def _sparse_axes(
    data: Any,
    datashape: tuple[int, ...] | None,
    sig_dims: int | None,
    nav_shape: tuple[int, ...] | None,
    sig_shape: tuple[int, ...] | None,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """The navigation and signal axes of a sparse array."""
    shape = tuple(int(length) for length in data.shape)
    if 0 in shape:
        raise InvalidArgumentError(f"data has shape {list(shape)}: there are no elements")
    if datashape is not None:
        _check_size("datashape", datashape, shape)
        shape = datashape
    elif is_scipy(data) and len(shape) == 2:
        # SciPy's matrices cannot have more axes: a row is a frame.
        if sig_shape is not None:
            _check_size("sig_shape", sig_shape, shape[1:])
            return shape[:1], sig_shape
        if sig_dims != 1:
            raise InvalidArgumentError(
                f"the rows of a sparse matrix of shape {shape} are frames of a shape that it does "
                f"not say; pass sig_shape=…, datashape=… for all axes, or sig_dims=1"
            )
    return _cut(shape, sig_dims, nav_shape, sig_shape)


def _cut(
    shape: tuple[int, ...],
    sig_dims: int | None,
    nav_shape: tuple[int, ...] | None,
    sig_shape: tuple[int, ...] | None,
) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Navigation and signal axes; no navigation axes if there is one frame."""
    n_nav = len(shape) - _sig_dims(shape, sig_dims, nav_shape, sig_shape)
    nav, sig = shape[:n_nav], shape[n_nav:]
    if sig_shape is not None and sig_shape != sig:
        _check_size("sig_shape", sig_shape, sig)
        sig = sig_shape
    return nav, sig


def _sig_dims(
    shape: tuple[int, ...],
    sig_dims: int | None,
    nav_shape: tuple[int, ...] | None,
    sig_shape: tuple[int, ...] | None,
) -> int:
    """How many of the last axes are signal axes."""
    if sig_dims is None and sig_shape is not None:
        # The axes that hold as many pixels, if some do: they may have another shape.
        fitting = [n for n in range(1, len(shape)) if prod(shape[-n:]) == prod(sig_shape)]
        sig_dims = len(sig_shape)
        if fitting and sig_dims not in fitting:
            return fitting[0]
    elif sig_dims is None and nav_shape is not None:
        # The axes that hold as many frames; a single frame needs none.
        ndim = len(shape)
        fitting = [n for n in range(1, ndim + 1) if prod(shape[: ndim - n]) == prod(nav_shape)]
        if not fitting:
            raise InvalidArgumentError(
                f"nav_shape {nav_shape} does not have as many positions as the first axes of data "
                f"of shape {shape}, whichever they are; pass another nav_shape, or sig_dims=… and "
                f"sync_offset=… for a scan that has more or fewer positions than frames"
            )
        for likely in (ndim - len(nav_shape), 2):
            if likely in fitting:
                return likely
        return fitting[0]
    elif sig_dims is None:
        sig_dims = 2
    if sig_shape is not None and len(sig_shape) != sig_dims:
        raise InvalidArgumentError(f"sig_shape {sig_shape} does not have sig_dims={sig_dims} axes")
    if not 1 <= sig_dims <= len(shape):
        raise InvalidArgumentError(
            f"sig_dims={sig_dims} does not fit data of shape {shape}; "
            f"it must be between 1 and {len(shape)}"
        )
    return sig_dims


def _grid(
    nav: tuple[int, ...], nav_shape: tuple[int, ...] | None, sync_offset: int | None
) -> tuple[int, ...]:
    """The shape of the scan; without ``sync_offset``, one with a position for each frame."""
    if nav_shape is None:
        return nav or (1,)
    if sync_offset is None and prod(nav_shape) != prod(nav):
        raise InvalidArgumentError(
            f"nav_shape {nav_shape} has {prod(nav_shape)} positions, and there are {prod(nav)} "
            f"frames; pass sync_offset=0 as well if the scan has more or fewer positions than that"
        )
    return nav_shape


def check_dtype(what: str, dtype: np.dtype[Any]) -> None:
    """Raise if frames cannot hold it."""
    if dtype.kind not in "biufc":
        raise InvalidArgumentError(
            f"{what} has dtype {dtype}; frames hold bools, integers, floats or complex numbers"
        )
    widest = np.dtype("complex128" if dtype.kind == "c" else "float64")
    if dtype.itemsize > widest.itemsize:
        raise InvalidArgumentError(
            f"{what} has dtype {dtype}, which is wider than frames can hold; convert it with "
            f"astype({widest.name!r})"
        )


def _check_size(name: str, shape: tuple[int, ...], of: tuple[int, ...]) -> None:
    what = "frames" if name == "sig_shape" else "data"
    noun = "pixels" if name == "sig_shape" else "elements"
    if prod(shape) != prod(of):
        raise InvalidArgumentError(
            f"{name} {shape} does not have as many {noun} as {what} of shape {of}"
        )
