"""Results that are files."""

from __future__ import annotations

import os
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold.common.buffers import BufferWrapper
from framefold.results.layout import Stored

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["MappedBufferWrapper", "stored"]

#: Chunks have at least so many bytes, but for the last one.
CHUNK_BYTES = 1 << 20


class MappedBufferWrapper(BufferWrapper):
    """A result of kind ``nav`` that is in a file: :attr:`data` is that file, mapped, read-only.

    It takes memory only as far as it is looked at, and the system may have that back.
    """

    _mapped: npt.NDArray[Any] | None = None
    _path: Path | None = None

    def map(self, file: str | os.PathLike[str], offset: int, path: Path) -> None:
        """Show an array in a file.

        Parameters
        ----------
        file, offset
            Where its first byte is.
        path
            What the file belongs to, for people to read.
        """
        shape = self.shape
        if prod(shape) == 0:
            array: npt.NDArray[Any] = np.empty(shape, self.dtype)
            array.flags.writeable = False
        else:
            array = np.memmap(file, self.dtype, "r", offset, shape)
        self._mapped, self._path = array, path

    def has_data(self) -> bool:
        """Whether there is a result, rather than a declaration alone."""
        return self._mapped is not None or super().has_data()

    def replace_array(self, data: npt.ArrayLike) -> None:
        """Hold another result of the same shape, in memory; the file stays as it is."""
        super().replace_array(data)
        self._mapped = None

    @property
    def raw_data(self) -> npt.NDArray[Any]:
        """The result with one entry per selected frame, shape ``(n_selected, *extra_shape)``.

        Without a ROI, the file. With one, it is read into memory.
        """
        if self._mapped is None:
            return super().raw_data
        assert self._shape is not None
        flat = self._mapped.reshape((self._shape.nav.size, *self.extra_shape))
        return flat if self._roi is None else np.asarray(flat[np.flatnonzero(self._roi)])

    @property
    def data(self) -> npt.NDArray[Any]:
        """The file, mapped: ``(*nav, *extra_shape)``, read-only.

        Positions outside of the ROI or without data hold NaN, or False or 0 if the dtype has no
        NaN; see :attr:`valid_mask`.
        """
        return super().data if self._mapped is None else self._mapped

    @property
    def valid_positions(self) -> npt.NDArray[np.bool_]:
        """Which positions of the scan hold a result: a boolean array of its shape."""
        assert self._shape is not None
        nav = np.zeros(self._shape.nav.size, bool)
        nav[self._selected()] = True
        return nav.reshape(tuple(self._shape.nav))

    def _data_shape(self) -> tuple[int, ...]:
        # With a region, raw_data would be read for it.
        return super()._data_shape() if self._mapped is None else self._mapped.shape

    def _state(self) -> str:
        if self._mapped is not None:
            return f" file='{self._path}'"
        return super()._state()


def stored(shape: tuple[int, ...], dtype: np.dtype[Any]) -> Stored:
    """How an array lies in one file: in chunks that follow each other in C order.

    A chunk is the smallest run of whole last axes, and of a part of the axis before, with
    :data:`CHUNK_BYTES` or more. That part divides the axis, unless that is the first one of the
    array that is longer than 1: then the last chunk is longer than the array.
    """
    chunk, shard = [1] * len(shape), list(shape)
    run = dtype.itemsize
    for axis in reversed(range(len(shape))):
        if run >= CHUNK_BYTES or prod(shape) == 0:
            break
        length, wanted = shape[axis], -(-CHUNK_BYTES // run)
        if wanted >= length:
            chunk[axis] = length
        elif prod(shape[:axis]) == 1:
            chunk[axis] = wanted
            shard[axis] = -(-length // wanted) * wanted
        else:
            chunk[axis] = _divisor(length, wanted)
        run *= chunk[axis]
    shard = [max(1, length) for length in shard]
    return Stored(shape, dtype, tuple(chunk), tuple(shard))


def _divisor(n: int, least: int) -> int:
    """The smallest divisor of ``n`` that is at least that large."""
    below = range(1, int(n**0.5) + 1)
    divisors = {d for small in below if n % small == 0 for d in (small, n // small)}
    return min(d for d in divisors if d >= least)
