"""Sparse arrays of SciPy and PyData as compressed sparse rows: one row per frame.

The parts of such arrays are plain NumPy arrays, and these are all that is looked at: neither
package is imported, and nothing of theirs runs on indices that were not checked.
"""

from __future__ import annotations

from math import prod
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from framefold.common._masked import refuse_masked
from framefold.exceptions import InvalidArgumentError, LimitError

Array = npt.NDArray[Any]


class SparseRows(NamedTuple):
    """Frame ``k`` has the entries from ``indptr[k]`` up to ``indptr[k + 1]``.

    Attributes
    ----------
    indptr, indices, values
        One-dimensional. Rows need not be in order, and may hold a pixel several times; indices
        are checked by the engine.
    """

    indptr: Array
    indices: Array
    values: Array


def sparse_rows(data: Any, n_frames: int, frame_len: int) -> SparseRows:
    """The entries of a sparse array, cut into frames in C order.

    Rows of arrays that are compressed by frames already are not copied.

    Parameters
    ----------
    data
        A sparse array of SciPy or PyData with ``n_frames * frame_len`` elements.

    Raises
    ------
    InvalidArgumentError
        If the parts of the array do not fit each other, or its fill value is not 0.
    LimitError
        If 64 bits cannot count the elements.
    """
    fill = getattr(data, "fill_value", 0)
    if fill != 0:
        raise InvalidArgumentError(
            f"the sparse data have the fill value {fill!r}; only 0 can be left out. "
            f"Subtract it first, or pass the data as a dense array"
        )
    compressed = _compressed(data)
    if compressed is not None:
        rows, n_rows, places = compressed
        if places == "C" and n_rows == n_frames and rows.indptr.size == n_frames + 1:
            return rows
        coordinates = _expand(data, rows, n_rows)
        values = rows.values[: coordinates[0].size]
    else:
        coordinates, values = _coordinates(data)
    return _compress(coordinates, values, tuple(data.shape), n_frames, frame_len)


def _compressed(data: Any) -> tuple[SparseRows, int, str] | None:
    """The parts of CSR, CSC and GCXS, the number of rows, and ``'C'`` if rows come in C order."""
    if not all(hasattr(data, name) for name in ("indptr", "indices", "data")):
        return None
    if getattr(data, "format", "") == "bsr" or np.ndim(data.data) != 1:
        return None
    values, indices, indptr = (_part(data, name) for name in ("data", "indices", "indptr"))
    # Both packages allow for room after the last entry.
    if indptr.size and indptr.dtype.kind in "iu":
        if indptr[0] != 0:
            raise InvalidArgumentError(
                f"indptr of the sparse data begins with {indptr[0]}, expected 0"
            )
        n_entries = int(indptr[-1])
        if 0 <= n_entries <= min(values.size, indices.size):
            values, indices = values[:n_entries], indices[:n_entries]
    axes = _row_axes(data)
    n_rows = prod(int(data.shape[axis]) for axis in axes)
    in_order = tuple(axes) == tuple(range(len(axes)))
    return SparseRows(indptr, indices, values), n_rows, "C" if in_order else "other"


def _row_axes(data: Any) -> tuple[int, ...]:
    """The axes that rows run over."""
    if hasattr(data, "compressed_axes"):
        return tuple(int(axis) for axis in data.compressed_axes or ())
    return (1,) if data.format == "csc" else tuple(range(len(data.shape) - 1))


def _part(data: Any, name: str) -> Array:
    """One of the arrays that a sparse array is made of: one axis, without gaps."""
    refuse_masked(f"{name} of the sparse data", getattr(data, name))
    part = np.asarray(getattr(data, name))
    if part.ndim != 1:
        raise InvalidArgumentError(
            f"{name} of the sparse data has shape {part.shape}, expected one axis"
        )
    return np.ascontiguousarray(part)


def _expand(data: Any, rows: SparseRows, n_rows: int) -> tuple[Array, ...]:
    """The coordinates of the entries of compressed rows."""
    indptr = rows.indptr
    if indptr.dtype.kind not in "iu" or rows.indices.dtype.kind not in "iu":
        raise InvalidArgumentError(
            f"indptr and indices of the sparse data are {indptr.dtype} and {rows.indices.dtype}, "
            f"expected integers"
        )
    if indptr.size != n_rows + 1:
        raise InvalidArgumentError(
            f"indptr of the sparse data has {indptr.size} elements, expected {n_rows + 1}"
        )
    pointers = indptr.astype(np.int64)
    n_per_row = np.diff(pointers)
    if pointers[-1] != rows.indices.size or (n_per_row < 0).any():
        raise InvalidArgumentError(
            f"indptr of the sparse data goes from {indptr[0]} to {indptr[-1]}, expected 0 to "
            f"{rows.indices.size} without a step down"
        )
    row_axes = _row_axes(data)
    other_axes = tuple(axis for axis in range(len(data.shape)) if axis not in row_axes)
    within = prod(int(data.shape[axis]) for axis in other_axes)
    _check("indices", rows.indices, within)
    coordinates: list[Array] = [np.empty(0)] * len(data.shape)
    places = np.repeat(np.arange(n_rows), n_per_row), rows.indices.astype(np.int64)
    for axes, flat in zip((row_axes, other_axes), places, strict=True):
        found = np.unravel_index(flat, tuple(int(data.shape[axis]) for axis in axes))
        for axis, values in zip(axes, found, strict=True):
            coordinates[axis] = values
    return tuple(coordinates)


def _coordinates(data: Any) -> tuple[tuple[Array, ...], Array]:
    """Coordinates and values of COO, DOK, and whatever can become COO."""
    if isinstance(getattr(data, "data", None), dict):  # PyData's DOK
        places = np.array(list(data.data), dtype=np.int64).reshape(-1, len(data.shape))
        return tuple(places.T), np.array(list(data.data.values()), dtype=data.dtype)
    if not hasattr(data, "coords") and not hasattr(data, "row"):
        data = data.tocoo() if hasattr(data, "tocoo") else data.asformat("coo")
    coords = data.coords if hasattr(data, "coords") else (data.row, data.col)
    return tuple(np.asarray(axis) for axis in coords), _part(data, "data")


def _compress(
    coordinates: tuple[Array, ...],
    values: Array,
    shape: tuple[int, ...],
    n_frames: int,
    frame_len: int,
) -> SparseRows:
    """Sort entries by frame; those of one frame keep their order."""
    if prod(shape) >= 2**63:
        raise LimitError(f"sparse data of shape {shape} have more elements than 64 bits can count")
    if len(coordinates) != len(shape) or any(axis.shape != values.shape for axis in coordinates):
        raise InvalidArgumentError(
            f"the sparse data have {values.size} values, and coordinates of shape "
            f"{[axis.shape for axis in coordinates]} for {len(shape)} axes"
        )
    for number, (axis, length) in enumerate(zip(coordinates, shape, strict=True)):
        _check(f"coordinates on axis {number}", axis, length)
    flat = np.zeros(values.size, dtype=np.int64)
    for axis, length in zip(coordinates, shape, strict=True):
        flat *= length
        flat += axis.astype(np.int64, copy=False)
    frames, pixels = np.divmod(flat, frame_len)
    if (frames[1:] < frames[:-1]).any():
        order = np.argsort(frames, kind="stable")
        frames, pixels, values = frames[order], pixels[order], values[order]
    try:
        indptr = np.bincount(frames + 1, minlength=n_frames + 1)
    except MemoryError:
        raise LimitError(f"{n_frames} frames are more than fit into memory") from None
    np.cumsum(indptr, out=indptr)
    narrow = np.uint32 if frame_len <= 2**32 else np.int64
    return SparseRows(indptr, pixels.astype(narrow), values)


def _check(what: str, indices: Array, length: int) -> None:
    """Refuse indices outside of an axis."""
    if indices.dtype.kind not in "iu":
        raise InvalidArgumentError(
            f"{what} of the sparse data are {indices.dtype}, expected integers"
        )
    outside = (indices < 0) | (indices >= length)
    if outside.any():
        entry = int(np.argmax(outside))
        raise InvalidArgumentError(
            f"entry {entry} of the sparse data has {indices[entry]} among its {what}, "
            f"expected 0 to {length - 1}"
        )
