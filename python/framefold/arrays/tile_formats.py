"""One sparse tile in all formats: the engine's compressed rows in another coat.

Rows are shown as SciPy's CSR or PyData's COO without a copy of the values, and the other formats
are converted from these two. Everything is read-only: several UDFs may see the same memory, which
may be the mapped file.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator
from itertools import pairwise
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.arrays import convert as door
from framefold.common.optional import require
from framefold.common.udf import (
    CUDA,
    D2_BACKENDS,
    SCIPY_COO,
    SCIPY_COO_ARRAY,
    SCIPY_CSR,
    SCIPY_CSR_ARRAY,
    SPARSE_COO,
    SPARSE_DOK,
)

Array = npt.NDArray[Any]

#: SciPy counts entries and columns with so many bits where they are enough.
SMALL = np.iinfo(np.int32).max

#: The most memory for frames of one tile that are kept for UDFs to come. Those beyond that are
#: converted for each UDF.
SHARED_BYTES = 64 << 20
#: What an entry takes as an entry of a dict.
DICT_ENTRY_BYTES = 200

#: Formats of which frames are cut from the tile.
_CUT = frozenset({CUDA, SCIPY_COO, SCIPY_COO_ARRAY, SCIPY_CSR, SCIPY_CSR_ARRAY, SPARSE_COO})


def converts_frames(format_: str) -> bool:
    """Whether each frame of that format is a conversion, rather than a part of the tile."""
    return format_ not in _CUT


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
        self._made_frames: dict[str, list[Any]] = {}
        self._n_bytes_left = SHARED_BYTES

    @property
    def depth(self) -> int:
        """The number of frames."""
        return len(self.starts) - 1

    def tile(self, format_: str, shared: bool = False) -> Any:
        """The whole tile: ``(depth, *sig)``, or ``(depth, cells)`` in formats of two axes.

        ``shared``: others get the same arrays, each in an object of its own.
        """
        if not shared:
            return self._tile(format_)
        if format_ not in self._made:
            self._made[format_] = self._tile(format_)
        return _own(self._made[format_], format_)

    def frames(self, format_: str, shared: bool = False) -> Iterator[Any]:
        """The frames: of shape ``sig``, or ``(1, cells)`` in formats of two axes.

        ``shared``: others get the same arrays, each in an object of its own.
        """
        if self.depth == 1 and format_ in D2_BACKENDS:
            return iter((self.tile(format_, shared),))
        if format_ == CUDA:
            return iter(self.tile(format_, shared))
        if not converts_frames(format_):
            return self._nd_frames() if format_ == SPARSE_COO else self._2d_frames(format_)
        return self._kept(format_) if shared else self._converted(format_)

    def _tile(self, format_: str) -> Any:
        if format_ == CUDA:
            return self._dense()
        if format_ in (SCIPY_CSR, SCIPY_CSR_ARRAY):
            return _csr(format_, self.values, self.columns, self.starts, self.depth, self.n_cells)
        if format_ == SPARSE_COO:
            shape = (self.depth, *self.sig)
            return _coo(load(SPARSE_COO).COO, self.coords, self.values, shape)
        source = SPARSE_COO if format_.startswith("sparse.") else SCIPY_CSR
        return _frozen(door.convert(self._tile(source), source, format_))

    def _dense(self) -> Array:
        """NumPy's array, for functions that bring it to a device themselves."""
        flat = np.zeros((self.depth, self.n_cells), dtype=self.values.dtype)
        flat[np.repeat(np.arange(self.depth), np.diff(self.starts)), self.columns] = self.values
        tile = flat.reshape((self.depth, *self.sig))
        tile.flags.writeable = False
        return tile

    def _converted(self, format_: str, first: int = 0) -> Iterator[Any]:
        """Frames from number ``first`` on, each converted when it is asked for."""
        if format_.startswith("sparse."):
            source, frames = SPARSE_COO, self._nd_frames(first)
        else:
            source, frames = SCIPY_CSR, self._2d_frames(SCIPY_CSR, first)
        return (_frozen(door.convert(frame, source, format_)) for frame in frames)

    def _kept(self, format_: str) -> Iterator[Any]:
        """Frames that are converted once for all who take them, as far as they fit the memory."""
        kept = self._made_frames.setdefault(format_, [])
        converted: Iterator[Any] | None = None
        for i in range(self.depth):
            if i < len(kept):
                converted = None
                yield _own(kept[i], format_)
                continue
            converted = converted or self._converted(format_, i)
            frame = next(converted)
            n_bytes = _n_bytes(frame)
            if i == len(kept) and n_bytes <= self._n_bytes_left:
                self._n_bytes_left -= n_bytes
                kept.append(frame)
            yield _own(frame, format_)

    def _2d_frames(self, format_: str, first: int = 0) -> Iterator[Any]:
        """Frames from number ``first`` on in a format that shows the values as they are."""
        nothing = np.zeros(2, dtype=self.starts.dtype)
        class_ = SCIPY_CSR_ARRAY if format_ in (SCIPY_CSR_ARRAY, SCIPY_COO_ARRAY) else SCIPY_CSR
        empty = _csr(class_, self.values[:0], self.columns[:0], nothing, 1, self.n_cells)
        by_row = format_ == class_
        if not by_row:
            empty = empty.tocoo()
        zeros = self._zeros_of_longest() if not by_row else nothing
        make, like = type(empty), vars(empty)
        for start, end in pairwise(self.starts[first:].tolist()):
            # The constructor would check what is known, in several times the time.
            frame: Any = object.__new__(make)
            vars(frame).update(like)
            frame.data = self.values[start:end]
            if by_row:
                frame.indices = self.columns[start:end]
                frame.indptr = np.array((0, end - start), dtype=self.starts.dtype)
            elif "coords" in like:
                frame.coords = zeros[: end - start], self.columns[start:end]
            else:
                frame.row, frame.col = zeros[: end - start], self.columns[start:end]
            yield frame

    def _zeros_of_longest(self) -> Array:
        """The number of the one row that a frame has, for each entry of the longest frame."""
        longest = int(np.diff(self.starts).max(initial=0))
        zeros = np.zeros(longest, dtype=self.columns.dtype)
        zeros.flags.writeable = False
        return zeros

    def _nd_frames(self, first: int = 0) -> Iterator[Any]:
        make, coords = load(SPARSE_COO).COO, self.coords[1:]
        for start, end in pairwise(self.starts[first:].tolist()):
            part = slice(start, end)
            yield _coo(make, coords[:, part], self.values[part], self.sig)

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


def load(format_: str) -> Any:
    """The library that has that format; None for NumPy's arrays."""
    if format_ == CUDA:
        return None
    module = "sparse" if format_.startswith("sparse.") else "scipy.sparse"
    return require(module, "framefold", f"arrays of format {format_!r}")


def _csr(
    class_: str, values: Array, columns: Array, starts: Array, depth: int, n_cells: int
) -> Any:
    scipy_sparse = load(class_)
    make = scipy_sparse.csr_array if class_ == SCIPY_CSR_ARRAY else scipy_sparse.csr_matrix
    matrix = make((values, columns, starts), shape=(depth, n_cells), copy=False)
    matrix.has_canonical_format = True  # the engine has checked that
    return matrix


def _coo(make: Any, coords: Array, values: Array, shape: tuple[int, ...]) -> Any:
    return make(coords, values, shape=shape, has_duplicates=False, sorted=True)


def _own(made: Any, format_: str) -> Any:
    """An object of its own around the same parts, for one UDF."""
    if format_ == CUDA:
        return made.view()
    own = copy.copy(made)
    if format_ == SPARSE_DOK:
        # A dict cannot be made read-only.
        own.data = dict(made.data)
    return own


def _parts(array: Any) -> Iterator[Array]:
    """The arrays of which a sparse array consists."""
    for parts in vars(array).values():
        for part in parts if isinstance(parts, tuple) else (parts,):
            if isinstance(part, np.ndarray):
                yield part


def _frozen(array: Any) -> Any:
    """The same, with its parts read-only."""
    for part in _parts(array):
        part.flags.writeable = False
    return array


def _n_bytes(array: Any) -> int:
    """About how much memory it takes."""
    if isinstance(array.data, dict):
        return len(array.data) * DICT_ENTRY_BYTES
    return sum(part.nbytes for part in _parts(array))
