"""Sparse tiles as UDFs get them, and what of them UDFs share.

The engine hands over three arrays: where the rows of the frames begin, the cell of each entry,
and its value. :mod:`framefold.arrays.tile_formats` makes the formats of these.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.arrays.tile_formats import SHARED_BYTES, Rows, converts_frames, load
from framefold.common.udf import CUPY_SCIPY_CSC, D2_BACKENDS, SCIPY_CSC, SCIPY_CSC_ARRAY

Array = npt.NDArray[Any]
Key = tuple[int, int, int, str]
Current = tuple[tuple[int, int, int], dict[str, Rows], int]
Give = Callable[[int, int, int, Array, Array, Array], Any]

#: What an array of a frame takes beside its entries, in bytes.
OBJECT_BYTES = 4096
BY_COLUMN = (SCIPY_CSC, SCIPY_CSC_ARRAY, CUPY_SCIPY_CSC)


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
        self._n_sharing = Counter(takers)
        self._local = threading.local()
        for format_, _ in takers:
            load(format_)  # now, and not on a worker

    def n_sharing(self, format_: str, frames: bool) -> int:
        """How many UDFs of the run get the same: tiles of that format, or frames."""
        return self._n_sharing[format_, frames]

    def max_depth(self, format_: str, frames: bool, sig: Sequence[int]) -> int | None:
        """The most frames that a tile may have, so that what UDFs share of it fits the memory.

        Parameters
        ----------
        format_, frames
            What a UDF gets.
        sig
            The shape of a frame.

        Returns
        -------
        int | None
            None if there is no limit.
        """
        if not frames or self._n_sharing[format_, True] < 2 or not converts_frames(format_):
            return None
        return max_depth(format_, sig)

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
        n_sharing = self._n_sharing[format_, frames]
        # In formats of two axes, a tile of one frame is that frame.
        n_of_one = n_sharing
        if format_ in D2_BACKENDS:
            n_of_one += self._n_sharing[format_, not frames]

        def give(
            start: int, stop: int, index: int, starts: Array, columns: Array, values: Array
        ) -> Any:
            key = (start, stop, index, values.dtype.char)
            rows = self._rows(key, sig_shapes[index], starts, columns, values)
            shared = (n_of_one if rows.depth == 1 else n_sharing) > 1
            return rows.frames(format_, shared) if frames else rows.tile(format_, shared)

        return give

    def _rows(
        self, key: Key, sig: tuple[int, ...], starts: Array, columns: Array, values: Array
    ) -> Rows:
        if self._n_takers == 1:
            return Rows(sig, starts, columns, values)
        place, dtype = key[:3], key[3]
        current: Current | None = getattr(self._local, "current", None)
        if current is None or current[0] != place:
            current = place, {}, self._n_takers
        _, made, n_left = current
        rows = made.get(dtype)
        if rows is None:
            rows = made[dtype] = Rows(sig, starts, columns, values)
        self._local.current = (place, made, n_left - 1) if n_left > 1 else None
        return rows


def max_depth(format_: str, sig: Sequence[int]) -> int:
    """The most frames that a tile may have if all are to be kept in that format."""
    of_frame = OBJECT_BYTES
    if format_ in BY_COLUMN:
        # They say for each pixel where its entries begin.
        of_frame += (prod(sig) + 1) * np.dtype(np.int32).itemsize
    return max(1, SHARED_BYTES // 4 // of_frame)
