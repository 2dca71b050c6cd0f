"""Parts of ``sig`` buffers that are no single piece of their memory.

Tiles with some of the columns only belong to such parts. A function gets an array of its own for
each, in C order, so that ``reshape`` shows memory and does not copy it; what it holds is written
back once all tiles of the part are processed.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np
import numpy.typing as npt


def write_changed(
    place: npt.NDArray[Any], array: npt.NDArray[Any], before: npt.NDArray[Any]
) -> None:
    """Write to ``place`` those elements of ``array`` that are not what they were ``before``.

    The others may have been written to in ``place`` itself.
    """
    same = (array == before) | ((array != array) & (before != before))
    np.copyto(place, array, where=~np.asarray(same, dtype=bool))


class DeviceCuts:
    """The parts of one buffer on a device in one partition."""

    def __init__(self, buffer: Any) -> None:
        self._buffer = buffer
        self._index = -1
        #: Places in the buffer, and their contents: the current part is the last one, and user code
        #: has views of the others.
        self._parts: list[tuple[Any, Any]] = []

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
            place, array = self._parts.pop()
            place[...] = array
            # This name, the argument, and other references.
            if sys.getrefcount(array) > 2:
                self._parts.append((place, array))

    def end(self) -> None:
        """Write all parts back."""
        for place, array in self._parts:
            place[...] = array
        self._parts.clear()
