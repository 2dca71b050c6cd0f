"""A UDF made from a plain function of one frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from framefold.common.buffers import BufferDeclaration
from framefold.udf.base import UDF


class AutoUDF(UDF):
    """Applies a function to each frame and keeps what it returns.

    Shape and dtype of the result buffer follow from a trial call with a frame of ones.

    Parameters
    ----------
    f
        Takes a frame of shape ``sig``, returns a number or an array of fixed shape.
    monitor
        Also keep the result for the most recent frame, as ``monitor``.

    Results
    -------
    result : nav, extra_shape as ``f`` returns
    monitor : single, only if asked for
    """

    def __init__(self, f: Callable[[Any], Any], monitor: bool = False) -> None:
        super().__init__(f=f, monitor=monitor)

    def _trial(self) -> np.ndarray[Any, np.dtype[Any]]:
        frame = np.ones(tuple(self.meta.dataset_shape.sig), dtype=self.meta.input_dtype)
        return np.asarray(self.params.f(frame))

    def get_result_buffers(self) -> dict[str, BufferDeclaration]:
        """One buffer of the shape and dtype that the function returns."""
        trial = self._trial()
        buffers = {"result": self.buffer(kind="nav", extra_shape=trial.shape, dtype=trial.dtype)}
        if self.params.monitor:
            buffers["monitor"] = self.buffer(
                kind="single", extra_shape=trial.shape, dtype=trial.dtype
            )
        return buffers

    def process_frame(self, frame: Any) -> None:
        """Call the function."""
        result = self.params.f(frame)
        self.results.result[:] = result
        if self.params.monitor:
            self.results.monitor[:] = result

    def merge(self, dest: Any, src: Any) -> None:
        """Assign."""
        for name in src:
            getattr(dest, name)[:] = getattr(src, name)
