"""The forms in which excluded pixels can be given."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.common._masked import refuse_masked
from framefold.exceptions import InvalidArgumentError

Coordinates = npt.NDArray[np.intp]


@dataclass(frozen=True)
class Excluded:
    """Excluded pixels, as far as they are known before the shape of a frame is.

    Attributes
    ----------
    shape
        The shape of a frame, if the pixels came as an array of that shape.
    mask
        The coordinates of its set elements, shape ``(d, n)``, if they may have come so.
    coordinates
        The array itself, shape ``(d, n)``, if it may hold coordinates.
    """

    shape: tuple[int, ...] | None = None
    mask: Coordinates | None = None
    coordinates: Coordinates | None = None

    def known_shape(self) -> tuple[int, ...] | None:
        """The shape of a frame, if there is no doubt about it."""
        return self.shape if self.coordinates is None else None

    def any(self, sig_shape: tuple[int, ...] | None) -> bool:
        """Whether a pixel of a frame of ``sig_shape`` is excluded; of any shape for None."""
        if sig_shape is not None:
            return self.for_shape(sig_shape).size > 0
        return any(found is not None and found.size for found in (self.mask, self.coordinates))

    def for_shape(self, sig_shape: tuple[int, ...]) -> Coordinates:
        """The coordinates of the excluded pixels in a frame of ``sig_shape``, shape ``(d, n)``.

        Raises
        ------
        InvalidArgumentError
            If they do not fit; names both shapes.
        """
        if self.mask is not None and self.shape == sig_shape:
            return self.mask
        if self.coordinates is None:
            raise InvalidArgumentError(
                f"excluded_pixels has shape {self.shape}, but frames have shape {sig_shape}; "
                f"pass an array of the shape of a frame, or coordinates as a list of one "
                f"sequence per axis"
            )
        found = self.coordinates
        if found.shape[0] != len(sig_shape):
            raise InvalidArgumentError(
                f"excluded_pixels has shape {found.shape}, which is neither that of a frame, "
                f"{sig_shape}, nor that of coordinates, ({len(sig_shape)}, n); coordinates are "
                f"one sequence per axis: transpose a list of positions"
            )
        outside = ((found < 0) | (found >= np.reshape(sig_shape, (-1, 1)))).any(axis=0)
        if outside.any():
            first = tuple(found[:, outside.argmax()].tolist())
            raise InvalidArgumentError(
                f"the excluded pixel {first} is outside of a frame of shape {sig_shape}"
            )
        return found


def excluded(given: Any) -> Excluded | None:
    """Excluded pixels from a mask or from coordinates; None for None.

    Parameters
    ----------
    given
        An array of the shape of a frame, dense or sparse, of which elements other than 0 are
        excluded; or coordinates of shape ``(d, n)``, as a list or an array of integers. An
        array of integers that fits both is a mask; a list of d lists of d numbers, which may also
        hold one pixel each, is refused.

    Raises
    ------
    InvalidArgumentError
        If it is none of these.
    """
    if given is None or isinstance(given, Excluded):
        return given
    if not isinstance(given, np.ndarray | list | tuple):
        return _from_sparse(given)
    refuse_masked("excluded_pixels", given, "use filled(True) where they are to be excluded")
    try:
        array = np.asarray(given)
    except ValueError:
        array = np.empty(0, dtype=object)
    if array.dtype.kind not in "biuf" or array.ndim == 0:
        raise InvalidArgumentError(
            f"excluded_pixels is {_shown(given)}; pass a boolean array of the shape of a frame, "
            f"or coordinates as a list of one sequence of integers per axis"
        )
    if array.size == 0:
        return None
    may_be_coordinates = array.dtype.kind in "iu" and array.ndim == 2
    coordinates = array.astype(np.intp) if may_be_coordinates else None
    if isinstance(given, np.ndarray) or coordinates is None:
        return Excluded(array.shape, np.stack(np.nonzero(array)), coordinates)
    # A tuple is as np.nonzero gives it: one sequence per axis.
    rows = [each for each in given if isinstance(each, list | tuple)]
    if isinstance(given, list) and len(rows) == coordinates.shape[1] == len(given) > 1:
        raise InvalidArgumentError(
            f"excluded_pixels is {_shown(given)}, which may be {len(given)} pixels, or all "
            f"coordinates of each axis; pass np.array(pixels).T for pixels, as (y, x), or "
            f"np.array([all_y, all_x]) for the axes"
        )
    return Excluded(coordinates=coordinates)


def _from_sparse(given: Any) -> Excluded:
    shape = getattr(given, "shape", None)
    if not isinstance(shape, tuple) or not hasattr(given, "todense"):
        raise InvalidArgumentError(
            f"excluded_pixels is {_shown(given)}; pass an array of the shape of a frame, dense "
            f"or sparse, or coordinates as a list of one sequence per axis"
        )
    # Its elements, not what it stores: that may be zeros, and several that are added up.
    return Excluded(shape, np.stack(np.nonzero(np.asarray(given.todense()))))


def _shown(given: Any) -> str:
    text = repr(given)
    return text if len(text) <= 60 else f"{text[:57]}..."
