"""Sparse tiles as UDFs get them: the engine's compressed rows in another coat.

The engine hands over three arrays: where the rows of the frames begin, the cell of each entry,
and its value. They are shown as SciPy's CSR or PyData's COO without a copy of the values, and
the other formats are converted from these two. Everything is read-only: several UDFs may see
the same memory, which may be the mapped file.
"""

from __future__ import annotations

import copy
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.common import convert as door
from framefold.common.optional import require
from framefold.common.udf import (
    SCIPY_CSR,
    SCIPY_CSR_ARRAY,
    SPARSE_COO,
    SPARSE_DOK,
)

Array = npt.NDArray[Any]
Key = tuple[int, int, int, str]
Give = Callable[[int, int, int, Array, Array, Array], Any]

#: SciPy counts entries and columns with so many bits where they are enough.
SMALL = np.iinfo(np.int32).max


class SparseTiles:
    """The sparse tiles of one run, each converted once for all UDFs that want the same.

    Parameters
    ----------
    takers
        For each UDF of the run that gets sparse tiles the format, and whether it gets frames
        of that format one by one.

    Notes
    -----
    A worker hands each tile to one UDF after the other, on one thread. So there is one current
    tile per thread; it is let go with the last UDF that takes it, before the engine makes the
    next one in the same memory.
    """

    def __init__(self, takers: Sequence[tuple[str, bool]]) -> None:
        self._n_takers = len(takers)
        self._whole = Counter(format_ for format_, frames in takers if not frames)
        self._local = threading.local()
        for format_, _ in takers:
            _load(format_)  # now, and not on a worker

    def n_sharing(self, format_: str) -> int:
        """How many UDFs of the run get whole tiles of that format."""
        return self._whole[format_]

    def clear(self) -> None:
        """Forget the current tile of this thread."""
        self._local.current = None

    def giver(self, format_: str, frames: bool, sig_shapes: Sequence[tuple[int, ...]]) -> Give:
        """What the engine calls with the position and the arrays of each tile.

        Parameters
        ----------
        format_
            The format to give.
        frames
            Whether to give an iterator over the frames of the tile, or the tile.
        sig_shapes
            The shape of each signal slice.
        """
        shared = self._whole[format_] > 1

        def give(
            start: int, stop: int, index: int, starts: Array, columns: Array, values: Array
        ) -> Any:
            key = (start, stop, index, values.dtype.char)
            rows = self._rows(key, sig_shapes[index], starts, columns, values)
            return rows.frames(format_) if frames else rows.tile(format_, shared)

        return give

    def _rows(
        self, key: Key, sig: tuple[int, ...], starts: Array, columns: Array, values: Array
    ) -> Rows:
        if self._n_takers == 1:
            return Rows(sig, starts, columns, values)
        current: tuple[Key, Rows, int] | None = getattr(self._local, "current", None)
        if current is None or current[0] != key:
            current = key, Rows(sig, starts, columns, values), self._n_takers
        _, rows, n_left = current
        self._local.current = (key, rows, n_left - 1) if n_left > 1 else None
        return rows


class Rows:
    """One tile: a row per frame, of which only the entries are kept."""

    def __init__(self, sig: tuple[int, ...], starts: Array, columns: Array, values: Array) -> None:
        self.sig = sig
        self.n_cells = prod(sig)
        small = self.n_cells <= SMALL and len(values) <= SMALL
        # The engine's columns are not signed; their bits mean the same.
        self.columns = columns.view(np.int32) if small else columns.astype(np.int64)
        self.starts = starts.astype(np.int32) if small else starts
        self.starts.flags.writeable = False
        self.values = values
        self._coords: Array | None = None
        self._made: dict[str, Any] = {}

    @property
    def depth(self) -> int:
        """The number of frames."""
        return len(self.starts) - 1

    def tile(self, format_: str, shared: bool = False) -> Any:
        """The whole tile: ``(depth, *sig)``, or ``(depth, cells)`` in formats of two axes.

        ``shared``: others get the same arrays, each in an object of its own.
        """
        made = self._made.get(format_)
        if made is None:
            made = self._tile(format_)
            # A DOK array is a dict, which cannot be made read-only: each UDF gets its own.
            if shared and format_ != SPARSE_DOK:
                self._made[format_] = made
        return copy.copy(made) if shared else made

    def _tile(self, format_: str) -> Any:
        if format_ in (SCIPY_CSR, SCIPY_CSR_ARRAY):
            return self._csr(format_)
        if format_ == SPARSE_COO:
            return self._coo()
        if format_.startswith("sparse."):
            return _frozen(door.convert(self.tile(SPARSE_COO), SPARSE_COO, format_))
        return _frozen(door.convert(self._csr(SCIPY_CSR), SCIPY_CSR, format_))

    def frames(self, format_: str) -> Iterator[Any]:
        """The frames: of shape ``sig``, or ``(1, cells)`` in formats of two axes."""
        if format_.startswith("sparse."):
            return self._nd_frames(format_)
        return self._2d_frames(format_)

    def _2d_frames(self, format_: str) -> Iterator[Any]:
        class_ = SCIPY_CSR_ARRAY if format_ == SCIPY_CSR_ARRAY else SCIPY_CSR
        nothing = np.zeros(2, dtype=self.starts.dtype)
        empty = _csr(class_, self.values[:0], self.columns[:0], nothing, 1, self.n_cells)
        make, like = type(empty), vars(empty)
        for start, end in pairwise(self.starts.tolist()):
            # The constructor would check what is known, in several times the time.
            frame: Any = object.__new__(make)
            vars(frame).update(like)
            frame.data = self.values[start:end]
            frame.indices = self.columns[start:end]
            frame.indptr = np.array((0, end - start), dtype=self.starts.dtype)
            yield frame if format_ == class_ else door.convert(frame, class_, format_)

    def _nd_frames(self, format_: str) -> Iterator[Any]:
        make, coords = _load(SPARSE_COO).COO, self.coords[1:]
        for start, end in pairwise(self.starts.tolist()):
            part = slice(start, end)
            frame = _coo(make, coords[:, part], self.values[part], self.sig)
            yield frame if format_ == SPARSE_COO else door.convert(frame, SPARSE_COO, format_)

    def _csr(self, class_: str) -> Any:
        return _csr(class_, self.values, self.columns, self.starts, self.depth, self.n_cells)

    def _coo(self) -> Any:
        make = _load(SPARSE_COO).COO
        return _coo(make, self.coords, self.values, (self.depth, *self.sig))

    @property
    def coords(self) -> Array:
        """Frame and signal coordinates of each entry, one row per axis."""
        if self._coords is None:
            coords = np.empty((1 + len(self.sig), len(self.values)), dtype=np.intp)
            coords[0] = np.repeat(np.arange(self.depth), np.diff(self.starts))
            rest = self.columns
            for axis in range(len(self.sig), 1, -1):
                rest, coords[axis] = np.divmod(rest, self.sig[axis - 1])
            coords[1] = rest
            coords.flags.writeable = False
            self._coords = coords
        return self._coords


def _csr(
    class_: str, values: Array, columns: Array, starts: Array, depth: int, n_cells: int
) -> Any:
    scipy_sparse = _load(class_)
    make = scipy_sparse.csr_array if class_ == SCIPY_CSR_ARRAY else scipy_sparse.csr_matrix
    matrix = make((values, columns, starts), shape=(depth, n_cells), copy=False)
    matrix.has_canonical_format = True  # the engine has checked that
    return matrix


def _coo(make: Any, coords: Array, values: Array, shape: tuple[int, ...]) -> Any:
    return make(coords, values, shape=shape, has_duplicates=False, sorted=True)


def _load(format_: str) -> Any:
    """The library that has that format."""
    module = "sparse" if format_.startswith("sparse.") else "scipy.sparse"
    return require(module, "framefold", f"arrays of format {format_!r}")


def _frozen(array: Any) -> Any:
    """The same, with its parts read-only."""
    for name in ("data", "indices", "indptr", "coords"):
        parts = getattr(array, name, None)
        for part in parts if isinstance(parts, tuple) else (parts,):
            if isinstance(part, np.ndarray):
                part.flags.writeable = False
    return array
