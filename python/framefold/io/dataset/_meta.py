"""What a data set says about itself."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from framefold.common._read_only import ReadOnlyDict

if TYPE_CHECKING:
    from framefold.common.shape import Shape
    from framefold.io.dataset.base import DataSet

__all__ = ["DataSetMeta"]


class DataSetMeta(ReadOnlyDict[str, str]):
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
        sync = dataset.get_sync_offset_info()
        shown = sum(stop - start for start, stop in dataset._engine.positions_with_data)
        left_out = sync["frames_skipped_start"] + sync["frames_ignored_end"]
        attributes = {
            "shape": dataset.shape,
            "dtype": dataset.dtype,
            "raw_dtype": dataset.dtype,
            "image_count": shown + left_out,
            "sync_offset": sync["frames_skipped_start"] - sync["frames_inserted_start"],
            "array_backends": dataset.native_backends,
            "metadata": dataset.metadata,
        }
        return cls._made(dict(dataset._engine.details), attributes)

    @classmethod
    def _made(cls, texts: dict[str, str], attributes: dict[str, Any]) -> DataSetMeta:
        meta = cls(texts)
        vars(meta).update(attributes)
        return meta

    def __setattr__(self, name: str, value: Any) -> None:
        self._refuse()

    def __reduce__(self) -> tuple[Any, ...]:
        return DataSetMeta._made, (dict(self), dict(vars(self)))
