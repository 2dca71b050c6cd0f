"""Parts of ``sig`` buffers that are no single piece of their memory.

Tiles with some of the columns only belong to such parts. A function gets an array of its own for
each, in C order, so that ``reshape`` shows memory and does not copy it; what it holds is written
back once all tiles of the part are processed, and, if the function kept it, once more after the
last tile. What is written to it later would be lost, and is an error.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.exceptions import UDFError


def write_changed(
    place: npt.NDArray[Any], array: npt.NDArray[Any], before: npt.NDArray[Any]
) -> None:
    """Write to ``place`` those elements of ``array`` that are not what they were ``before``.

    The others may have been written to in ``place`` itself.
    """
    same = (array == before) | ((array != array) & (before != before))
    np.copyto(place, array, where=~np.asarray(same, dtype=bool))


def content(array: npt.NDArray[Any]) -> tuple[bytes, Any]:
    """What an array holds, for :func:`check_unchanged`."""
    # As bytes: NaN is equal to itself. Those of objects are addresses, kept from being used again.
    return array.tobytes(), array.copy() if array.dtype.hasobject else None


def check_unchanged(name: str, array: npt.NDArray[Any], held: tuple[bytes, Any]) -> None:
    """Raise an error if a part of the buffer ``name`` is not what it was after the last tile."""
    if array.tobytes() != held[0]:
        raise UDFError(
            f"after the last tile, the function wrote to a part of the result buffer {name!r} that "
            f"it had kept from an earlier tile, where that would be lost; in postprocess, write to "
            f"self.results.{name}, which is the whole buffer"
        )


class DeviceCuts:
    """The parts of the buffer ``name`` on a device in one partition."""

    def __init__(self, name: str, buffer: Any) -> None:
        self._name = name
        self._buffer = buffer
        self._index = -1
        #: Places in the buffer, and their contents: the current part is the last one, and user code
        #: has views of the others.
        self._parts: list[tuple[Any, Any]] = []
        #: Those that it has after the last tile, and what they hold.
        self._ended: list[tuple[Any, tuple[bytes, Any]]] = []

    def part(self, index: int, box: tuple[slice, ...]) -> Any:
        """The part that belongs to signal slice number ``index``."""
        if index != self._index:
            place = self._buffer[box]
            if place.flags.c_contiguous:
                return place
            self._leave()
            self._index = index
            self._parts.append((place, place.copy()))
        # A view, whose shape user code may change.
        return self._parts[-1][1][...]

    def _leave(self) -> None:
        if self._parts:
            place, array = self._parts[-1]
            place[...] = array
            del array
            if not _is_kept(self._parts[-1]):
                self._parts.pop()

    def end(self) -> None:
        """Write all parts back; called after the last tile."""
        while self._parts:
            part = self._parts.pop()
            part[0][...] = part[1]
            if _is_kept(part):
                self._ended.append((part[1], content(part[1].get())))

    def check(self) -> None:
        """Raise an error if what was kept of the parts was written to after that."""
        while self._ended:
            array, held = self._ended.pop()
            check_unchanged(self._name, array.get(), held)


def _is_kept(part: tuple[Any, Any]) -> bool:
    """Whether user code has views of the content of a part, which are references to it."""
    return sys.getrefcount(part[1]) > 2  # that of the tuple, and the argument
