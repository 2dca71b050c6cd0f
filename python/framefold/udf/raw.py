"""Frames as they are."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from framefold.common.buffers import BufferDeclaration
from framefold.common.shape import n_selected
from framefold.udf.base import UDF


class PickUDF(UDF):
    """The selected frames as they are, in the dtype of the data.

    Meant for a ROI of one or few frames: all of them are held in memory.

    Results
    -------
    intensity : kind ``single``, extra_shape ``(n_selected, *sig)``
    """

    _native_kernel = "pick"

    def __init__(self) -> None:
        super().__init__()

    def get_preferred_input_dtype(self) -> npt.DTypeLike:
        """The dtype of the data."""
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self) -> dict[str, BufferDeclaration]:
        """One frame per selected position."""
        shape, roi = self.meta.dataset_shape, self.meta.roi
        extra_shape = (n_selected(shape, roi), *shape.sig)
        return {
            "intensity": self.buffer(
                kind="single", extra_shape=extra_shape, dtype=self.meta.input_dtype
            )
        }

    def process_tile(self, tile: Any) -> None:
        """Copy."""
        part = self.meta.slice
        if part is not None:
            self.results.intensity[part.get()] = tile

    def merge(self, dest: Any, src: Any) -> None:
        """Add: each frame is 0 in all partial results but one."""
        dest.intensity[:] += src.intensity
