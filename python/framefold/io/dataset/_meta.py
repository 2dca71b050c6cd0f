"""What a data set says about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from framefold.common.shape import Shape
    from framefold.io.dataset.base import DataSet

__all__ = ["DataSetMeta"]


class DataSetMeta(dict[str, str]):
    """Texts for people to read, by name; and what the reference has there as attributes.

    Attributes
    ----------
    shape : Shape
        All axes.
    dtype, raw_dtype : numpy.dtype
        Both that of the pixels.
    image_count : int
        How many frames there are, whether or not a position of the scan shows them.
    sync_offset : int
        How many frames are left out before the first position; negative for positions that
        are left out before the first frame.
    array_backends : tuple of str
        The array formats of the frames, the best first.
    metadata : dict
        As :attr:`DataSet.metadata`.
    """

    shape: Shape
    dtype: np.dtype[Any]
    raw_dtype: np.dtype[Any]
    image_count: int
    sync_offset: int
    array_backends: tuple[str, ...]
    metadata: dict[str, float | str]

    @classmethod
    def of(cls, dataset: DataSet) -> DataSetMeta:
        """That of a data set."""
        meta = cls(dataset._engine.details)
        meta.shape = dataset.shape
        meta.dtype = meta.raw_dtype = dataset.dtype
        sync = dataset.get_sync_offset_info()
        shown = sum(stop - start for start, stop in dataset._engine.positions_with_data)
        left_out = sync["frames_skipped_start"] + sync["frames_ignored_end"]
        meta.image_count = shown + left_out
        meta.sync_offset = sync["frames_skipped_start"] - sync["frames_inserted_start"]
        meta.array_backends = dataset.native_backends
        meta.metadata = dataset.metadata
        return meta
