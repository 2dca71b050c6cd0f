"""Dask arrays as data sets."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from contextlib import AbstractContextManager
from math import prod
from operator import index
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold.common._booleans import boolean
from framefold.common._integers import is_integer
from framefold.common.optional import require
from framefold.exceptions import ArgumentTypeError, InvalidArgumentError, UnsupportedError
from framefold.io.dataset._arrays import check_dtype
from framefold.io.dataset._chunks import ChunkReader, Layout, given_blocks, held_by_cluster
from framefold.io.dataset.base import DataSet

if TYPE_CHECKING:
    import dask.array as da

__all__ = ["DaskDataSet"]

#: Chunks are taken together until they have so many bytes, but no fewer partitions than so many.
MIN_SIZE = 32 << 20
FEWEST = 64


class DaskDataSet(DataSet):
    """A Dask array as a data set; made by ``Context.load("dask", array)``.

    Partitions follow the chunks: each is computed as a whole, once in a run, and let go when its
    partition is processed. A worker holds the chunks of one partition at a time. Nothing is
    rechunked. Chunks are best if each holds whole frames that follow each other in the scan, that
    is, if all navigation axes but the first are in one piece. Of others, those that make up such a
    run of frames are put together in memory, which takes more of it; :attr:`meta` and
    :attr:`warnings` say how much.

    Parameters
    ----------
    dask_array
        Navigation axes first. Chunks must be NumPy arrays of the shape and dtype that it says.
    sig_dims
        How many of the last axes are signal axes.
    preserve_dimensions
        False to bring the navigation axes in the order in which chunks take the least memory: the
        one that is cut most often becomes the first. Shapes of results follow.
    min_size
        Small chunks are taken together until a partition has so many bytes. If None, 32 MiB, and
        less where that would leave fewer than 64 partitions.

    Raises
    ------
    InvalidArgumentError
        If it is no Dask array, or its shape is not known or does not fit.
    UnsupportedError
        For options that have no meaning here, such as ``nav_shape``.
    """

    def __init__(
        self,
        dask_array: da.Array,
        *,
        sig_dims: int = 2,
        preserve_dimensions: bool = True,
        min_size: float | None = None,
        io_backend: None = None,
        **options: Any,
    ) -> None:
        _check_options(options, io_backend)
        module = require("dask.array", "load('dask')", "its arrays")
        if not isinstance(dask_array, module.Array):
            raise InvalidArgumentError(
                f"load('dask') got a {type(dask_array).__name__}, expected a Dask array; use "
                f"load('memory', data=…) for arrays in memory"
            )
        _check_array(dask_array, sig_dims)
        if min_size is None:
            min_size = min(MIN_SIZE, dask_array.nbytes / FEWEST)
        is_number = isinstance(min_size, int | float | np.integer | np.floating)
        if isinstance(min_size, bool) or not is_number or not min_size >= 0:
            raise InvalidArgumentError(f"min_size is {min_size!r}, expected a number of bytes")
        if dask_array.ndim == sig_dims:
            dask_array = dask_array[np.newaxis]
        preserve_dimensions = boolean("preserve_dimensions", preserve_dimensions)
        array = dask_array if preserve_dimensions else _reordered(dask_array, sig_dims)
        dtype = array.dtype.newbyteorder("=")
        self._begin(array, Layout(array.chunks, sig_dims, dtype, min_size))
        self._tell_oddities()

    def _begin(self, array: da.Array | None, layout: Layout, *, elsewhere: bool = False) -> None:
        self._array = array
        self._layout = layout
        self._elsewhere = elsewhere
        self._reader = ChunkReader(array, layout, None, elsewhere=elsewhere)
        super().__init__(self._engine_for(self._reader))

    @property
    def array(self) -> da.Array:
        """The Dask array, with navigation axes in the order of the data set.

        Raises
        ------
        UnsupportedError
            If :meth:`orient` or :meth:`pipe` make the frames of the data set of those of the array.
        """
        if self._makes_frames:
            raise UnsupportedError(
                f"{self._name} has no array: its frames are made of those of a Dask array; "
                f"framefold.contrib.daskadapter.make_dask_array(dataset) makes one, and the data "
                f"set that this one was made from has that array"
            )
        return self._array

    @property
    def warnings(self) -> list[str]:
        """What is odd, takes much memory, or keeps partitions from being processed side by side."""
        layout, warnings = self._layout, list(super().warnings)
        if layout.scattered and layout.largest_bytes > 1 << 30:
            warnings.append(
                f"chunks do not hold runs of frames: up to {_size(layout.largest_bytes)} are in "
                f"memory at a time for each worker; cut the array along its first navigation axis "
                f"only, or try preserve_dimensions=False"
            )
        if len(layout.pieces) == 1 and prod(layout.shape) * layout.dtype.itemsize > MIN_SIZE:
            warnings.append(
                "there is only one partition, and nothing to be done side by side; cut the array "
                "along its first navigation axis, or use a smaller min_size"
            )
        return warnings

    def _engine_for(self, reader: ChunkReader) -> _engine.Dataset:
        layout = self._layout
        dtype = layout.dtype.name
        details = [("chunks", self._described()), ("read in", self._pieces_described())]
        return _engine.from_pieces(
            reader, layout.starts, dtype, layout.sig, layout.nav, "dask", details
        )

    def _described(self) -> str:
        chunks = self._layout.chunks
        counts = tuple(len(lengths) for lengths in chunks)
        largest = tuple(max(lengths) for lengths in chunks)
        return f"{prod(counts)} in a grid of {counts}, of shape {largest} at most"

    def _pieces_described(self) -> str:
        layout = self._layout
        size = _size(layout.largest_bytes)
        n = len(layout.pieces)
        said = f"{n} piece{'s' if n > 1 else ''} of whole chunks, {size} at most"
        if layout.n_joined > 1:
            what = "runs of frames" if layout.scattered else "whole frames"
            said += f"; up to {layout.n_joined} chunks are put together, to make {what}"
        return said

    def _explain(self) -> str:
        chunks = f"chunks      {self._described()}\nread in     {self._pieces_described()}\n"
        return chunks + super()._explain()

    @property
    def _is_rescanned(self) -> bool:
        """Whether a stage made another scan of that of the array, with positions of its own."""
        return tuple(self._shape.nav) != tuple(self._layout.nav)

    def _frames_of(self, roi: npt.NDArray[np.bool_ | np.intp] | None) -> _engine.Dataset:
        if roi is None or self._is_rescanned:
            return self._engine
        nav = self.shape.nav
        mask = np.zeros(nav.size, dtype=bool)
        mask[roi.reshape(-1)] = True  # true ones, or those at these positions
        return self._engine_for(self._reader_for(mask.reshape(tuple(nav))))

    def _reader_for(self, roi: npt.NDArray[np.bool_] | None) -> ChunkReader:
        if roi is None:
            return self._reader
        return ChunkReader(self._array, self._layout, roi, elsewhere=self._elsewhere)

    def _blocks(
        self, partitions: Sequence[tuple[int, int]], roi: npt.NDArray[np.bool_] | None
    ) -> tuple[Any, list[list[Any]]]:
        if self._is_rescanned:
            # A partition takes frames of several pieces, which its task computes.
            return super()._blocks(partitions, roi)
        reader = self._reader_for(roi)
        positions = None if roi is None else np.flatnonzero(roi)
        firsts = (start if positions is None else positions[start] for start, _ in partitions)
        return self._array, [reader.keys(self._piece_of(first)) for first in firsts]

    def _with_blocks(
        self, frames: tuple[int, int], roi: npt.NDArray[np.bool_] | None, blocks: Any
    ) -> AbstractContextManager[None]:
        if self._is_rescanned:
            return super()._with_blocks(frames, roi, blocks)
        first = frames[0] if roi is None else int(np.flatnonzero(roi)[frames[0]])
        piece = self._piece_of(first)
        context: AbstractContextManager[None] = given_blocks(self._layout, roi, piece, blocks)
        return context

    def _piece_of(self, position: int) -> int:
        """The piece that holds the frame at a flat position of the scan."""
        return bisect_right(self._layout.starts, position) - 1

    @property
    def _held(self) -> list[Any]:
        return held_by_cluster(self._array)

    def _for_tasks(self) -> DataSet:
        if self._is_rescanned:
            return self
        return _without_array(self._layout)._changed(*self._changes)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickles hold the tasks that compute the array."""
        return _made_again, (self._array, self._layout)


def _made_again(array: da.Array | None, layout: Layout) -> DaskDataSet:
    dataset = DaskDataSet.__new__(DaskDataSet)
    dataset._begin(array, layout, elsewhere=True)
    return dataset


def _without_array(layout: Layout) -> DaskDataSet:
    return _made_again(None, layout)


def _check_options(options: dict[str, Any], io_backend: Any) -> None:
    reasons = {
        "nav_shape": "the array has its shape: use array.reshape",
        "sig_shape": "the array has its shape: use array.reshape",
        "sync_offset": "no frame is without a position: cut the array",
        "num_partitions": "partitions follow the chunks: use array.rechunk, or min_size=",
        "io_backend": "Dask reads the data",
    }
    given = {**options, "io_backend": io_backend}
    for name, value in given.items():
        if name not in reasons:
            raise ArgumentTypeError(
                f"there is no option '{name}' for Dask arrays; there are sig_dims, "
                f"preserve_dimensions, min_size"
            )
        if value is not None:
            raise UnsupportedError(
                f"{name}={value!r} has no meaning for a Dask array; {reasons[name]}"
            )


def _check_array(array: da.Array, sig_dims: Any) -> None:
    if any(np.isnan(length) for length in array.shape):
        raise InvalidArgumentError(
            f"the Dask array has the shape {array.shape}, which is not known yet; call "
            f"array.compute_chunk_sizes() first"
        )
    if not is_integer(sig_dims):
        raise InvalidArgumentError(f"sig_dims is {sig_dims!r}, expected a whole number")
    n_sig = index(sig_dims)
    if not 1 <= n_sig <= array.ndim:
        raise InvalidArgumentError(
            f"sig_dims={n_sig} does not fit an array of shape {array.shape}; it must be between 1 "
            f"and {array.ndim}"
        )
    if 0 in array.shape or any(0 in lengths for lengths in array.chunks):
        raise InvalidArgumentError(
            f"the Dask array of shape {array.shape} has chunks {array.chunks}, of which some have "
            f"no element; leave them out"
        )
    check_dtype("the Dask array", array.dtype)


def _reordered(array: da.Array, sig_dims: int) -> da.Array:
    """The navigation axes in the order of the number of chunks, most of them first."""
    n_nav = array.ndim - sig_dims
    order = sorted(range(n_nav), key=lambda axis: -array.numblocks[axis])
    return array.transpose((*order, *range(n_nav, array.ndim)))


def _size(n_bytes: float) -> str:
    for unit in ("bytes", "KiB", "MiB"):
        if n_bytes < 1024:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1024
    return f"{n_bytes:.3g} GiB"
