"""What a UDF can find out about the run and about the data it is looking at."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold.common import _memory
from framefold.common._booleans import boolean
from framefold.common.shape import Shape
from framefold.common.slice import Slice
from framefold.common.threading import allowed_threads
from framefold.common.tiling_scheme import TilingScheme

if TYPE_CHECKING:
    from framefold._engine import TileCursor
    from framefold.io.corrections.corrset import CorrectionSet


class UDFMeta:
    """Meta information about the current run, available as ``self.meta`` in a UDF.

    What is processed is the frame or tile in ``process_…``, the whole partition in the other
    methods of a worker (``get_task_data``, ``preprocess``, ``postprocess``, ``cleanup``), where the
    result buffers are whole, too, and all selected frames on the main side.
    """

    def __init__(
        self,
        *,
        dataset_shape: Shape,
        dataset_dtype: npt.DTypeLike,
        input_dtype: npt.DTypeLike,
        roi: npt.NDArray[np.bool_] | None,
        tiling_scheme: TilingScheme | None = None,
        merged: npt.NDArray[np.bool_] | None = None,
        corrections: CorrectionSet | None = None,
        positions: npt.NDArray[np.intp] | None = None,
        array_backend: str | None = None,
        device_class: str = "cpu",
    ) -> None:
        self._dataset_shape = dataset_shape
        self._dataset_dtype: np.dtype[Any] = np.dtype(dataset_dtype)
        self._input_dtype: np.dtype[Any] = np.dtype(input_dtype)
        self._roi = roi
        self._tiling_scheme = tiling_scheme
        self._partition: tuple[int, int] | None = None
        #: Where the current frame or tile is; None where none is processed.
        self._cursor: TileCursor | None = None
        self._merged = merged
        self._corrections = corrections
        self._positions = positions
        self._array_backend = array_backend
        self._device_class = device_class
        #: Shapes of slices by number of frames and of the signal slice: few, and asked for often.
        self._shapes: dict[tuple[int, int], Shape] = {}

    def _for_partition(self, start: int, stop: int) -> UDFMeta:
        """The same for a partition of the run."""
        made = UDFMeta.__new__(UDFMeta)
        made.__dict__ = self.__dict__.copy()
        made._partition = (start, stop)
        return made

    @property
    def dataset_shape(self) -> Shape:
        """The shape of the data set, for example ``(16, 16, 128, 128)``."""
        return self._dataset_shape

    @property
    def dataset_dtype(self) -> np.dtype[Any]:
        """The dtype of the data set."""
        return self._dataset_dtype

    @property
    def input_dtype(self) -> np.dtype[Any]:
        """The dtype of the frames or tiles that the UDF gets."""
        return self._input_dtype

    @property
    def roi(self) -> npt.NDArray[np.bool_] | None:
        """The region of interest in the shape of the navigation axes, read-only, or None."""
        return self._roi

    @property
    def corrections(self) -> CorrectionSet:
        """What was corrected in the frames or tiles; an empty set if nothing was."""
        if self._corrections is None:
            from framefold.io.corrections.corrset import CorrectionSet

            self._corrections = CorrectionSet()
        return self._corrections

    @property
    def partition_shape(self) -> Shape:
        """The shape of the partition, navigation flattened: ``(frames, *sig)``.

        Raises
        ------
        ValueError
            Outside of the processing of a partition.
        """
        if self._partition is None:
            raise ValueError("partition_shape is only known while a partition is processed")
        sig = self._dataset_shape.sig
        return Shape((self._partition[1] - self._partition[0], *sig), sig_dims=len(sig))

    @property
    def slice(self) -> Slice | None:
        """The part being processed, navigation flattened and counted within the ROI.

        None on the main side, where there is no such part.
        """
        cursor = self._cursor
        if cursor is None:
            if self._partition is None:
                return None
            origin = (self._partition[0], *(0 for _ in self._dataset_shape.sig))
            return Slice._of(origin, self.partition_shape)
        sig, start = self._sig_slice(), cursor.start
        key = (cursor.stop - start, cursor.slice_index)
        shape = self._shapes.get(key)
        if shape is None:
            shape = Shape((key[0], *sig.shape), sig_dims=len(sig.shape))
            self._shapes[key] = shape
        return Slice._of((start, *sig.origin), shape)

    @property
    def sig_slice(self) -> Slice:
        """The signal part of :attr:`slice`; the whole frame where no tile is processed."""
        return self._sig_slice()

    @property
    def tiling_scheme(self) -> TilingScheme | None:
        """How frames are cut into tiles; None before that is decided."""
        return self._tiling_scheme

    @property
    def tiling_scheme_idx(self) -> int | None:
        """The number of :attr:`sig_slice` in the tiling scheme; None where no tile is processed."""
        return None if self._cursor is None else self._cursor.slice_index

    @property
    def coordinates(self) -> npt.NDArray[np.int_]:
        """Coordinates of the frames being processed, shape ``(frames, nav_dims)``.

        In ``get_results`` and ``merge``: of all selected frames.
        """
        nav = self._dataset_shape.nav.to_tuple()
        cursor = self._cursor
        if cursor is not None:
            start, stop = cursor.start, cursor.stop
        else:
            start, stop = self._partition or (0, self._dataset_shape.nav.size)
        selected = self._selected()
        if stop - start == 1 and cursor is not None:
            position = start if selected is None else int(selected[start])
            coordinates: list[int] = []
            for length in reversed(nav):
                position, index = divmod(position, length)
                coordinates.append(index)
            return np.array([coordinates[::-1]], dtype=np.int_)
        positions = np.arange(start, stop) if selected is None else selected[start:stop]
        return np.stack(np.unravel_index(positions, nav), axis=-1)

    def get_valid_nav_mask(self, full_nav: bool = False) -> npt.NDArray[np.bool_] | None:
        """Which frames have been merged so far; for ``get_results`` and ``merge``.

        Parameters
        ----------
        full_nav
            One entry per position of the scan, flattened, instead of one per selected frame.

        Returns
        -------
        numpy.ndarray or None
            Boolean, one-dimensional; None while a partition is processed.
        """
        if self._merged is None:
            return None
        if not boolean("full_nav", full_nav):
            return self._merged.copy()
        nav = _memory.zeros((self._dataset_shape.nav.size,), bool)
        selected = self._selected()
        nav[slice(None) if selected is None else selected] = self._merged
        return nav

    @property
    def device_class(self) -> str:
        """The kind of device that the array format is for: ``'cpu'`` or ``'cuda'``."""
        return self._device_class

    @property
    def array_backend(self) -> str | None:
        """The array format of frames and tiles, one of the ``BACKEND_`` constants of ``UDF``.

        None on the main side, where there are none. Partitions can differ, if some of them are
        processed on a CUDA device.
        """
        return self._array_backend

    @property
    def threads_per_worker(self) -> int:
        """How many threads a UDF may use by itself."""
        return allowed_threads()

    def _selected(self) -> npt.NDArray[np.intp] | None:
        """The flat positions that the ROI selects, None for all."""
        if self._positions is None and self._roi is not None:
            self._positions = np.flatnonzero(self._roi)
        return self._positions

    def _sig_slice(self) -> Slice:
        sig = self._dataset_shape.sig
        if self._tiling_scheme is None or self._cursor is None:
            return Slice((0,) * len(sig), sig)
        return self._tiling_scheme[self._cursor.slice_index]
