"""Shared memory for partial results: used again when they are merged.

A worker writes large arrays of a partial result into a slot. The main process maps it once, merges
from it, and says that it is free as soon as no array refers to it any more: user code may keep what
it merged.
"""

from __future__ import annotations

import weakref
from collections import deque
from typing import Any

import numpy as np

from framefold.executor._wire import pickles
from framefold.executor._wire.pickles import Bytes, Places

#: The slot's number, its size, what is where, whether its descriptor comes along, and the number of
#: the slot that it replaces, if there is one.
Filled = tuple[int, int, Places, bool, int | None]


class Slots:
    """The worker's side, for one job."""

    def __init__(self) -> None:
        self._memory: dict[int, Bytes] = {}
        self._free: list[int] = []
        self._number = 0

    def fill(self, arrays: list[memoryview]) -> tuple[Filled | None, list[int]]:
        """Write arrays to a slot; if it is a new one, its descriptor is to be sent along."""
        if not arrays:
            return None, []
        places, size = pickles.layout(arrays)
        number, descriptors, replaced = self._slot(size)
        memory = self._memory[number]
        for array, (start, length) in zip(arrays, places, strict=True):
            memory[start : start + length] = np.frombuffer(array, np.uint8)
        return (number, memory.size, places, bool(descriptors), replaced), descriptors

    @property
    def in_use(self) -> bool:
        """Whether there are any slots."""
        return bool(self._memory)

    def release(self, numbers: list[int]) -> None:
        """These are merged."""
        self._free += numbers

    def _slot(self, size: int) -> tuple[int, list[int], int | None]:
        for number in self._free:
            if self._memory[number].size >= size:
                self._free.remove(number)
                return number, [], None
        replaced = None
        if self._free:  # too small, and larger ones will be needed
            replaced = self._free.pop()
            del self._memory[replaced]
        descriptor = pickles.allocate(size)
        memory = pickles.mapped(descriptor, size, private=False, keep=True)
        self._number += 1
        self._memory[self._number] = memory
        return self._number, [descriptor], replaced


class MappedSlots:
    """The main side of all slots of one worker and job."""

    def __init__(self) -> None:
        self._memory: dict[int, Any] = {}
        self._free: deque[int] = deque()

    def lend(self, filled: Filled, descriptors: list[int]) -> tuple[Bytes, Places]:
        """The slot's memory, which is lent while references to it exist, and what is where.

        Parameters
        ----------
        descriptors
            Of new slots, in order; taken out.
        """
        number, size, places, is_new, replaced = filled
        if replaced is not None:
            self._memory.pop(replaced, None)
        if is_new:
            self._memory[number] = pickles.mapped(descriptors.pop(0), size, private=False)
        # A separate object, to see when it is gone; views of it refer to it.
        memory: Bytes = np.frombuffer(self._memory[number].base, np.uint8)
        weakref.finalize(memory, self._free.append, number).atexit = False
        return memory, places

    def returned(self) -> list[int]:
        """The slots to which no reference is left, each once."""
        return [self._free.popleft() for _ in range(len(self._free))]
