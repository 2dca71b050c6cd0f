"""A set of corrections, as ``run_udf`` takes it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold.common._booleans import boolean
from framefold.common.slice import Slice
from framefold.exceptions import InvalidArgumentError, MissingLibraryError
from framefold.io.corrections.detector import RepairDescriptor, correct, plane
from framefold.io.corrections.excluded import Excluded, excluded

__all__ = ["CorrectionSet"]


class CorrectionSet:
    """Dark frame, gain map and excluded pixels for the frames of a data set.

    Pixels become ``(raw - dark) * gain``, and excluded ones then the mean of their good
    neighbours in the same frame. See :func:`framefold.io.corrections.detector.correct`.

    Parameters
    ----------
    dark
        What to subtract, shape ``sig``, any number dtype.
    gain
        What to multiply with, shape ``sig``.
    excluded_pixels
        An array of shape ``sig``, of which elements other than 0 are excluded: a NumPy array, a
        ``sparse.COO`` or a ``scipy.sparse`` one. Or coordinates of shape ``(d, n)``: a list of
        one sequence per axis, or an array of integers that is not of shape ``sig``. A list of
        as many lists or tuples of numbers as each of them has numbers is refused, as it may hold
        one pixel each: as an array, it has one row per axis.
    allow_empty
        Leave excluded pixels without any good neighbour as they are, instead of an error.

    Raises
    ------
    InvalidArgumentError
        If shapes do not agree, or dark or gain are NaN or infinite where a pixel is not
        excluded. Pixels that come as coordinates are checked when the set is used, unless dark
        or gain tell the shape of a frame.
    RepairValueError
        If an excluded pixel has no good neighbour, unless ``allow_empty``.

    Examples
    --------
    >>> import numpy as np
    >>> from framefold.io.corrections import CorrectionSet
    >>> gain = np.full((4, 4), 0.5)
    >>> CorrectionSet(gain=gain, excluded_pixels=[(1,), (2,)])
    <CorrectionSet gain=float64, 1 excluded pixel, for frames of shape (4, 4)>
    """

    def __init__(
        self,
        dark: npt.ArrayLike | None = None,
        gain: npt.ArrayLike | None = None,
        excluded_pixels: Any = None,
        allow_empty: bool = False,
    ) -> None:
        self._dark = _own(plane("dark", dark))
        self._gain = _own(plane("gain", gain))
        self._excluded: Excluded | None = excluded(excluded_pixels)
        self._allow_empty = boolean("allow_empty", allow_empty)
        self._checked: tuple[tuple[int, ...], _engine.Corrections] | None = None
        shape = self._sig_shape()
        if shape is not None:
            self.for_shape(shape)

    def have_corrections(self) -> bool:
        """Whether there is anything to correct; a mask that excludes no pixel is nothing."""
        if self._dark is not None or self._gain is not None:
            return True
        if self._excluded is None:
            return False
        return self._excluded.any(None if self._checked is None else self._checked[0])

    def get_dark_frame(self) -> npt.NDArray[Any] | None:
        """What is subtracted, shape ``sig``, or None."""
        return self._dark

    def get_gain_map(self) -> npt.NDArray[Any] | None:
        """What is multiplied with, shape ``sig``, or None."""
        return self._gain

    def get_excluded_pixels(self) -> Any:
        """The excluded pixels as a ``sparse.COO`` of bool and of shape ``sig``, or None.

        Raises
        ------
        InvalidArgumentError
            If they came as coordinates, and nothing tells the shape of a frame.
        MissingLibraryError
            If the package ``sparse`` is not installed.
        """
        if self._excluded is None:
            return None
        shape = self._checked[0] if self._checked is not None else None
        if shape is None:
            raise InvalidArgumentError(
                "the excluded pixels were given as coordinates, and nothing tells the shape of a "
                "frame; pass an array of that shape, or a dark frame or gain map along with them"
            )
        try:
            import sparse
        except ImportError as error:
            raise MissingLibraryError(
                "get_excluded_pixels returns a sparse array, but the package 'sparse' is not "
                "installed; install it, or keep the array that was passed"
            ) from error
        flat = RepairDescriptor(shape, self._excluded, allow_empty=True).exclude_flat
        coords = np.stack(np.unravel_index(flat, shape))
        # In order already: sparse would have numba compile a function to look through them.
        return sparse.COO(coords, True, shape=shape, has_duplicates=False, sorted=True)

    def repair_descriptor(self, sig_slice: Slice) -> RepairDescriptor:
        """What :meth:`apply` repairs in a part of the frame, given by its signal slice."""
        sig = sig_slice.sig
        shape = tuple(sig.shape)
        if self._excluded is None:
            return RepairDescriptor(shape, None, self._allow_empty)
        pixels = self._excluded.for_shape(self._shape_around(sig))
        inside = pixels - np.reshape(sig.origin, (-1, 1))
        inside = inside[:, ((inside >= 0) & (inside < np.reshape(shape, (-1, 1)))).all(axis=0)]
        return RepairDescriptor(shape, Excluded(coordinates=inside), self._allow_empty)

    def apply(self, data: npt.NDArray[Any], tile_slice: Slice) -> None:
        """Correct a part of the data in place.

        Pixels are repaired with neighbours in this part only; :meth:`adjust_tileshape` finds
        parts that have all of them. ``run_udf`` needs neither: it reads what it needs.

        Parameters
        ----------
        data
            Shape ``tile_slice.shape``; floats or complex numbers.
        tile_slice
            Which part of the data set it is.

        Raises
        ------
        InvalidArgumentError, RepairValueError, TypeError
            As :func:`framefold.io.corrections.detector.correct`; if excluded pixels are an array of
            integers that may be a mask as well as coordinates, and the shape of a frame is not
            known.
        """
        if not self.have_corrections():
            return
        sig = tile_slice.sig
        correct(
            data,
            dark_image=None if self._dark is None else sig.get(self._dark),
            gain_map=None if self._gain is None else sig.get(self._gain),
            repair_descriptor=self.repair_descriptor(sig),
            inplace=True,
        )

    def adjust_tileshape(
        self, tile_shape: Sequence[int], sig_shape: Sequence[int], base_shape: Sequence[int]
    ) -> tuple[int, ...]:
        """The shape near ``tile_shape`` whose tiles cut no excluded pixel from its neighbours.

        Parameters
        ----------
        tile_shape
            The wanted shape of a tile on the signal axes.
        sig_shape
            The shape of a frame.
        base_shape
            What lengths are to be multiples of.

        Returns
        -------
        tuple of int
            The closest multiple of ``base_shape`` on each axis; the whole axis if there is none.
        """
        shape = tuple(int(length) for length in sig_shape)
        if self._excluded is None:
            return tuple(int(length) for length in tile_shape)
        pixels = self._excluded.for_shape(shape)
        return tuple(
            _uncut_length(np.unique(places), int(wanted), length, int(base))
            for places, wanted, length, base in zip(
                pixels, tile_shape, shape, base_shape, strict=True
            )
        )

    def for_shape(self, sig_shape: tuple[int, ...]) -> _engine.Corrections:
        """The checked corrections for frames of ``sig_shape``, as the engine takes them.

        Raises
        ------
        InvalidArgumentError, RepairValueError
            As the class.
        """
        if self._checked is not None and self._checked[0] == sig_shape:
            return self._checked[1]
        repair = RepairDescriptor(sig_shape, self._excluded, self._allow_empty)
        engine = _engine.Corrections(
            sig_shape,
            None if self._dark is None else _native(self._dark),
            None if self._gain is None else _native(self._gain),
            repair.exclude_flat.tolist(),
            self._allow_empty,
        )
        self._checked = (sig_shape, engine)
        return engine

    def _sig_shape(self) -> tuple[int, ...] | None:
        """The shape of a frame, as far as it is known from what was given."""
        for array in (self._dark, self._gain):
            if array is not None:
                return array.shape
        return None if self._excluded is None else self._excluded.known_shape()

    def _shape_around(self, sig: Slice) -> tuple[int, ...]:
        """The shape of a frame; where it is not known, one that is large enough."""
        known = self._sig_shape()
        if known is None and self._checked is not None:
            known = self._checked[0]
        if known is not None or self._excluded is None or self._excluded.coordinates is None:
            return known or tuple(sig.shape)
        ends = tuple(start + length for start, length in zip(sig.origin, sig.shape, strict=True))
        places, of_mask = self._excluded.coordinates, self._excluded.shape
        if len(places) != len(ends):
            return ends if of_mask is None else of_mask
        if of_mask is not None and all(a <= b for a, b in zip(ends, of_mask, strict=True)):
            raise InvalidArgumentError(
                f"excluded_pixels is an array of integers of shape {of_mask}, and nothing tells "
                f"whether that is a mask of the shape of a frame, or coordinates of "
                f"{of_mask[1]} pixels; pass a boolean mask, or a list of one sequence per axis"
            )
        return tuple(max(end, int(axis.max()) + 1) for end, axis in zip(ends, places, strict=True))

    def __getstate__(self) -> dict[str, Any]:
        # What the engine holds is made anew on the other side.
        return {**self.__dict__, "_checked": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        shape = self._sig_shape()
        if shape is not None:
            self.for_shape(shape)

    def __repr__(self) -> str:
        parts = [
            f"{name}={array.dtype}"
            for name, array in (("dark", self._dark), ("gain", self._gain))
            if array is not None
        ]
        if self._excluded is not None and self._checked is not None:
            n = self._excluded.for_shape(self._checked[0]).shape[1]
            parts.append(f"{n} excluded pixel{'' if n == 1 else 's'}")
        elif self._excluded is not None:
            parts.append("excluded pixels")
        shape = "" if self._checked is None else f", for frames of shape {self._checked[0]}"
        return f"<CorrectionSet {', '.join(parts) or 'empty'}{shape}>"


def _native(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array in a dtype that the engine knows."""
    if array.dtype.name in ("float128", "longdouble"):
        return array.astype(np.float64)
    if array.dtype.name in ("complex256", "clongdouble"):
        return array.astype(np.complex128)
    return array


def _uncut_length(places: npt.NDArray[np.intp], wanted: int, length: int, base: int) -> int:
    """The length of a tile on one axis that cuts no place from its neighbours.

    It is the multiple of ``base`` closest to ``wanted`` whose own multiples fall neither on an
    excluded place nor right behind one; ``length`` if there is none.
    """
    wanted, base = min(wanted, length), max(base, 1)
    if len(places) > length // 3:
        return length
    # An edge at p or p + 1 is one that is next to p, unless it is the end of the axis.
    edges = np.union1d(places, places + 1)
    edges = edges[(edges > 0) & (edges < length)]
    candidates = [n for n in range(base, length, base) if not (edges % n == 0).any()]
    return min(candidates, key=lambda n: (abs(n - wanted), n), default=length)


def _own(array: npt.NDArray[Any] | None) -> npt.NDArray[Any] | None:
    """A copy: the caller may fill the array anew, and workers are sent it later."""
    if array is None:
        return None
    copy = np.array(array)
    copy.flags.writeable = False
    return copy
