"""Corrections of frames on a device, as the engine makes them on the host."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from framefold.io.corrections.detector import RepairDescriptor

if TYPE_CHECKING:
    from framefold.io.corrections.corrset import CorrectionSet


class DeviceCorrections:
    """Dark frame, gain map and repairs in the memory of the current device.

    Pixels are converted first and corrected in the dtype of the UDF; means of neighbours are taken
    in double precision, in the order of the engine.

    Parameters
    ----------
    corrections
        What is corrected.
    sig
        The shape of a frame.
    dtype
        That of corrected pixels: floats or complex numbers.
    part
        Which pixels of frames are wanted; None for all.
    """

    def __init__(
        self,
        corrections: CorrectionSet,
        sig: tuple[int, ...],
        dtype: np.dtype[Any],
        part: tuple[slice, ...] | None = None,
    ) -> None:
        import cupy

        checked = corrections.for_shape(sig)
        part = tuple(slice(0, n) for n in sig) if part is None else part
        #: The pixels that :meth:`apply` gets: those of the part, and all that touch them.
        self.around = tuple(
            slice(max(0, wanted.start - 1), min(n, wanted.stop + 1))
            for wanted, n in zip(part, sig, strict=True)
        )
        self._wanted = (
            slice(None),
            *(
                slice(wanted.start - near.start, wanted.stop - near.start)
                for wanted, near in zip(part, self.around, strict=True)
            ),
        )
        self._dtype = dtype
        self._dark = self._gain = None
        if checked.dark is not None:
            self._dark = cupy.asarray(checked.dark[self.around].astype(dtype))
        if checked.gain is not None:
            gain, real = checked.gain[self.around], np.empty(0, dtype).real.dtype
            self._gain = cupy.asarray(gain.astype(dtype if gain.dtype.kind == "c" else real))
        excluded = np.zeros(sig, dtype=bool)
        excluded.flat[np.asarray(checked.excluded, dtype=np.intp)] = True
        excluded = excluded[self.around]
        repairs = RepairDescriptor(excluded.shape, excluded, allow_empty=True)
        # Cells with many neighbours first: the n-th neighbour is then that of the first cells.
        order = np.argsort(-repairs.repair_counts, kind="stable")
        counts = repairs.repair_counts[order]
        order, counts = order[counts > 0], counts[counts > 0]
        self._counts = counts
        self._cells = cupy.asarray(repairs.exclude_flat[order])
        self._divisors = cupy.asarray(counts.astype(np.float64)[:, np.newaxis])
        self._neighbours = [
            cupy.asarray(repairs.repair_flat[order[counts > n], n])
            for n in range(int(counts.max(initial=0)))
        ]

    def apply(self, frames: Any) -> Any:
        """Corrected copies of frames without gaps, in their own dtype; only the part of them."""
        import cupy

        corrected = frames.astype(self._dtype)
        if self._dark is not None:
            corrected -= self._dark
        if self._gain is not None:
            # By a real gain part by part: a complex product would make NaN of an infinite part.
            n_parts = self._dtype.itemsize // self._gain.dtype.itemsize
            parts = corrected.view(self._gain.dtype).reshape((*corrected.shape, n_parts))
            parts *= self._gain[..., np.newaxis]
        if self._neighbours:
            self._repair(corrected)
        return cupy.ascontiguousarray(corrected[self._wanted])

    def _repair(self, corrected: Any) -> None:
        """Replace excluded pixels by the means of their neighbours."""
        import cupy

        flat = corrected.reshape((len(corrected), -1))
        wide = np.complex128 if self._dtype.kind == "c" else np.float64
        sums = cupy.zeros((len(flat), len(self._counts)), dtype=wide)
        for places in self._neighbours:
            part = sums[:, : places.size]
            part += cupy.take(flat, places, axis=1)
        # Real and imaginary parts each by itself, as the engine divides them.
        parts = sums.view(np.float64).reshape((len(flat), len(self._counts), -1))
        parts /= self._divisors
        flat[:, self._cells] = sums.astype(self._dtype)
