"""Frames that stay in the memory of a device, and the tiles that runs get of them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold.arrays.cuda.corrections import DeviceCorrections
from framefold.arrays.cuda.errors import out_of_memory
from framefold.arrays.cuda.pixels import as_dtype
from framefold.arrays.cuda.tiles import DeviceTile, DeviceTiles, Key
from framefold.arrays.cuda.worker import DeviceWorker
from framefold.exceptions import InvalidArgumentError, LimitError

if TYPE_CHECKING:
    from framefold.udf.engine.bridge import RunDescription

#: Which share of the free memory of a device resident frames may take, unless a budget is given.
SHARE = 0.8


class Resident:
    """Frames of a data set in the memory of a device, in the dtype of the data.

    Parameters
    ----------
    name
        Of the data set, for messages.
    device
        The number of the device.
    shape
        How many frames there are, and the shape of one.
    dtype
        That of the pixels.
    roi
        Which positions of the scan they are of, a boolean array of its shape; None for all.
    budget
        The most bytes that they may take; a share of what is free if None.
    are_corrected
        Whether corrections of the data set itself were applied to them.

    Raises
    ------
    LimitError
        If they do not fit; before that, nothing is allocated.

    Notes
    -----
    The memory is not from CuPy's pool: it goes back to the driver with the last reference, which
    waits for what was queued.
    """

    def __init__(
        self,
        name: str,
        device: int,
        shape: Sequence[int],
        dtype: np.dtype[Any],
        roi: npt.NDArray[np.bool_] | None,
        budget: int | None = None,
        are_corrected: bool = False,
    ) -> None:
        import cupy

        self.device = device
        self.are_corrected = are_corrected
        self.roi = roi
        self.n_bytes = prod(shape) * dtype.itemsize
        self._name = name
        self._positions = None if roi is None else np.flatnonzero(roi)
        with cupy.cuda.Device(device):
            free, _ = cupy.cuda.runtime.memGetInfo()
            most = int(SHARE * free) if budget is None else min(budget, free)
            if self.n_bytes > most:
                of = f"{SHARE:.0%} of what is free" if budget is None else f"the budget of {budget}"
                raise self._too_large(free, f"{most} bytes may be taken, {of}")
            try:
                memory = cupy.cuda.Memory(max(1, self.n_bytes))
            except Exception as error:
                if not out_of_memory(error):
                    raise
                raise self._too_large(free, str(error)) from error
            pointer = cupy.cuda.MemoryPointer(memory, 0)
            self._array: Any = cupy.ndarray(tuple(shape), dtype=dtype, memptr=pointer)

    def _too_large(self, free: int, why: str) -> LimitError:
        return LimitError(
            f"{self._name}: the frames take {self.n_bytes} bytes, and CUDA device {self.device} "
            f"has {free} bytes free: {why}; select some of them with roi=…, make them smaller "
            f"with pipe(ff.Crop(…)) or pipe(ff.Bin(2)), or name another device"
        )

    @property
    def array(self) -> Any:
        """The frames, a CuPy array of shape ``(frames, *sig)``.

        Raises
        ------
        InvalidArgumentError
            If their memory was given back.
        """
        if self._array is None:
            raise InvalidArgumentError(
                f"{self._name}: its memory on CUDA device {self.device} was given back by close(); "
                f"call to_device() again, or run over the data set that this one was made from"
            )
        return self._array

    def close(self) -> None:
        """Give the memory back."""
        self._array = None

    def __repr__(self) -> str:
        if self._array is None:
            return f"nothing on CUDA device {self.device}, closed"
        of = "" if self.roi is None else f" of {self.roi.size}"
        return f"{len(self._array)}{of} frames on CUDA device {self.device} ({self.n_bytes} bytes)"

    def rows(self, roi: npt.NDArray[np.bool_] | None) -> npt.NDArray[np.intp] | None:
        """Where the frames of a ROI are among those that are resident; None for all, in order.

        Raises
        ------
        InvalidArgumentError
            If some of them are not resident, or none any more.
        """
        assert self.array is not None
        wanted = slice(None) if roi is None else roi
        if self.roi is None or self._positions is None:
            return None if roi is None else np.flatnonzero(roi)
        n_missing = int(np.count_nonzero(~self.roi[wanted]))
        if n_missing:
            n_wanted, n_there = self.roi[wanted].size, len(self._positions)
            raise InvalidArgumentError(
                f"{self._name}: {n_missing} of the {n_wanted} frames of this run are not on CUDA "
                f"device {self.device}, where {n_there} are; pass roi=dataset.resident.roi, or a "
                f"part of it, or run over the data set that this one was made from"
            )
        positions = self._positions if roi is None else np.flatnonzero(roi)
        return np.searchsorted(self._positions, positions)


class ResidentTiles(DeviceTiles):
    """The tiles of one run over resident frames.

    Parameters
    ----------
    takers
        As for :class:`~framefold.arrays.cuda.tiles.DeviceTiles`.
    resident
        The frames.
    rows
        Which of them the run is over, in order; None for all.
    in_place
        Whether functions read the frames themselves, in the dtype that they have, where they lie
        in order; only for those that never write. Others get copies in their own dtype, one for
        all functions, with the corrections of the run.
    """

    are_resident = True

    def __init__(
        self,
        takers: Sequence[tuple[str, bool]],
        resident: Resident,
        rows: npt.NDArray[np.intp] | None,
        in_place: bool,
    ) -> None:
        super().__init__(takers, of_rows=False)
        self._resident = resident
        self._rows = rows
        self._in_place = in_place

    def giver_of(
        self, run: RunDescription, format_: str, frames: bool, show: Callable[[int, int, int], None]
    ) -> tuple[Callable[..., Any], Callable[..., Any]]:
        """What the engine calls with the place of each tile.

        The first one beside functions that take NumPy arrays, with what was read for them, which
        is not used; the other one where nothing is read.

        Parameters
        ----------
        run
            Knows the parts of frames, and the dtype.
        format_, frames, show
            As for :meth:`giver`.
        """
        array, scheme, only_reads = self._resident.array, run.device_scheme, run.bridge.is_twin
        dtype = None if self._in_place else run.bridge.input_dtype

        def make(start: int, stop: int, index: int, worker: DeviceWorker) -> DeviceTile:
            part = scheme[index]
            box = tuple(slice(o, o + n) for o, n in zip(part.origin, part.shape, strict=True))
            if run.bridge.corrections is None or dtype is None:
                made = self._frames(worker, array, start, stop, box, dtype)
            else:
                of = run.bridge.corrections, array.shape[1:], dtype, box
                kept = self, "corrections", dtype, index
                corrections = worker.keep(kept, lambda: DeviceCorrections(*of))
                raw = self._frames(worker, array, start, stop, corrections.around, None)
                made = corrections.apply(raw)
            return DeviceTile(tuple(part.shape), stop - start, dense=made)

        def give(start: int, stop: int, index: int, *_read: Any) -> Any:
            key: Key = start, stop, index, "" if dtype is None else dtype.char
            tile, is_last = self._tile(key, partial(make, start, stop, index))
            if not (is_last or only_reads):
                tile = tile.own(format_)
            if frames:
                return tile.frames(format_, self._n_sharing[format_, True] > 1, start, index, show)
            show(start, stop, index)
            return tile.whole(format_)

        def give_unread(place: tuple[int, int, int], *_unread: Any) -> Any:
            return give(*place)

        return give, give_unread

    def _frames(
        self,
        worker: DeviceWorker,
        array: Any,
        start: int,
        stop: int,
        box: tuple[slice, ...],
        dtype: np.dtype[Any] | None,
    ) -> Any:
        """A part of some frames, without gaps; what is given out may be written to if it is."""
        import cupy

        rows = self._rows
        first, last = (start, stop) if rows is None else (int(rows[start]), int(rows[stop - 1]) + 1)
        if last - first == stop - start:
            part, is_copy = array[(slice(first, last), *box)], False
        else:
            # Once for each worker; they ascend, and are not one after the other.
            places = worker.keep((self, "rows"), lambda: cupy.asarray(rows))
            part = cupy.take(array, places[start:stop], axis=0)[(slice(None), *box)]
            is_copy = part.flags.c_contiguous
        if dtype is None:
            return cupy.ascontiguousarray(part)
        return part.astype(dtype) if part.dtype == dtype and not is_copy else as_dtype(part, dtype)
