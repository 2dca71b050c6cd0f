"""Loops over pixels, as users write them: compiled on framefold, called by a function on LiberTEM.

Numba is imported here, so engines import this where a case needs it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numba


def marker(package: str) -> Callable[[Any], Any]:
    """What a loop is marked with; the user of LiberTEM calls what Numba made of it."""
    if package == "framefold":
        import framefold as ff

        mark: Callable[[Any], Any] = ff.compiled(boundscheck=False)
        return mark
    made: Callable[[Any], Any] = numba.njit(nogil=True)
    return made


def brightest(frame: Any) -> int:
    """The first of the brightest pixels: the largest value of a row needs no branches."""
    top, row = frame[0, 0], 0
    for y in range(frame.shape[0]):
        largest = frame[y, 0]
        for x in range(frame.shape[1]):
            largest = max(largest, frame[y, x])
        if largest > top:
            top, row = largest, y
    for x in range(frame.shape[1]):
        if frame[row, x] == top:
            return row * frame.shape[1] + x
    return 0


def largest(frame: Any) -> Any:
    """The largest value."""
    return frame.max()


def add(frame: Any, total: Any) -> None:
    """Add a frame."""
    for y in range(frame.shape[0]):
        for x in range(frame.shape[1]):
            total[y, x] += frame[y, x]


def loop_udf(package: str, base: Any, task: str) -> Callable[[], Any]:
    """Make a function of the user's around one of the loops."""
    mark = marker(package)
    # LiberTEM calls a method of Python, which calls the loop.
    method = mark if package == "framefold" else lambda function: function

    class Native(base):  # type: ignore[misc]
        def get_preferred_input_dtype(self) -> Any:
            return self.USE_NATIVE_DTYPE

    class PerFrame(Native):
        def get_result_buffers(self) -> Any:
            return {"result": self.buffer(kind="nav", dtype="int64")}

    if task == "frame-add":
        add_ = mark(add)

        class Add(Native):
            def get_result_buffers(self) -> Any:
                return {"result": self.buffer(kind="sig", dtype="uint64")}

            @method
            def process_frame(self, frame: Any) -> None:
                add_(frame, self.results.result)

            def merge(self, dest: Any, src: Any) -> None:
                dest.result[:] += src.result

        return Add
    one = mark({"frame-brightest": brightest, "frame-largest": largest}[task])

    class One(PerFrame):
        @method
        def process_frame(self, frame: Any) -> None:
            self.results.result[0] = one(frame)

    return One
