"""Stages: what makes other frames of the frames of a data set, for :meth:`DataSet.pipe`.

All make each frame of the one at its place, but for :class:`Rebin`, which makes another scan.
"""

from __future__ import annotations

from collections.abc import Sequence
from operator import index
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from framefold.common._booleans import boolean
from framefold.common._dtypes import as_dtype
from framefold.common._integers import is_integer
from framefold.common._items import has_items, in_order
from framefold.common._masked import refuse_masked
from framefold.common._numbers import number as finite
from framefold.exceptions import ArgumentTypeError, InvalidArgumentError
from framefold.io.dataset._calibration import turn_of

__all__ = [
    "Bin",
    "Cast",
    "Count",
    "Crop",
    "Flip",
    "Gaussian",
    "Log",
    "Median",
    "Pad",
    "Rebin",
    "Rotate",
    "Shift",
    "Stage",
    "Threshold",
    "Transpose",
]


class Stage:
    """Makes other frames of frames.

    Base of :class:`Bin`, :class:`Crop` and the others. A stage is plain data: it can be pickled,
    and used for any number of data sets.
    """

    def _changes(self) -> tuple[tuple[str, dict[str, Any]], ...]:
        """Methods of the engine's data set, and what they take."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        return type(self) is type(other) and vars(self) == vars(other)

    def __hash__(self) -> int:
        return hash((type(self), repr(self)))

    def __repr__(self) -> str:
        values = ", ".join(f"{name}={value!r}" for name, value in vars(self).items())
        return f"{type(self).__name__}({values})"


class _TextStage(Stage):
    """One that the engine has under a name of its own."""

    def _text(self) -> str:
        """As on the command line."""
        raise NotImplementedError

    def _changes(self) -> tuple[tuple[str, dict[str, Any]], ...]:
        return (("piped", {"stage": self._text()}),)


class Bin(_TextStage):
    """Sums of neighbouring pixels.

    The pixel size grows, and each bin lies in the middle of its pixels. Pixels at the end of an
    axis that do not fill a bin are left out, and a warning says so.

    Parameters
    ----------
    factors
        How many pixels of each axis make one: a number for all axes, or one for each.
    mean
        Whether to take means instead. They are ``float32`` for pixels of up to 16 bits, and
        ``float64`` for others, in which integers of 64 bits are rounded; of complex pixels complex.

    Notes
    -----
    Sums of integers have the smallest dtype of the same sign that can hold any such sum: 2 × 2
    pixels of ``uint16`` give ``uint32``. Those of 64 bits keep their dtype, and a sum that does not
    fit is an error. Sums of floats are added in double precision, and rounded once to the dtype of
    the pixels (``float16`` gives ``float32``).
    """

    def __init__(self, factors: int | Sequence[int], mean: bool = False) -> None:
        self.factors = _whole_numbers("factors", factors)
        self.mean = boolean("mean", mean)

    def _text(self) -> str:
        return f"bin {_joined(self.factors)}" + (" mean=true" if self.mean else "")


class Count(_TextStage):
    """Electrons counted: local maxima above a threshold become 1, all else 0, and frames sparse.

    To subtract the dark frame, put it before as that of a
    :class:`~framefold.io.corrections.corrset.CorrectionSet`. Frames are ``uint8``, and have the
    layout of sparse data (``csr``) for all that takes it; copies in the format ``raw_csr`` are
    small.

    Parameters
    ----------
    threshold
        Pixels above this may count.
    maximum
        Pixels above this, such as those hit by X-rays, are left out, as if they were dark; none are
        if None.

    Notes
    -----
    A pixel counts if it is larger than its neighbours that come before it, in the order of rows,
    and not smaller than those that come behind it, the neighbours being the other pixels of a 3 × 3
    window (of 3 along each axis). So equal pixels that touch each other count once, the first of
    them, but for the two upper ends of a shape like V. NaN never counts. Complex pixels cannot be
    counted.
    """

    def __init__(self, threshold: float, maximum: float | None = None) -> None:
        self.threshold = _number("threshold", threshold)
        self.maximum = None if maximum is None else _number("maximum", maximum)

    def _text(self) -> str:
        rest = "" if self.maximum is None else f" maximum={self.maximum!r}"
        return f"count {self.threshold!r}{rest}"


class Crop(_TextStage):
    """A part of each frame; nothing else is read.

    Parameters
    ----------
    region
        A slice for each axis of a frame, as ``numpy.s_[8:56, 8:56]`` makes them. Steps are 1; what
        ends beyond the frame is an error, and what begins before it begins at its first pixel.
    """

    def __init__(self, region: slice | Sequence[slice]) -> None:
        parts: tuple[Any, ...] = tuple(region) if isinstance(region, (tuple, list)) else (region,)
        if not parts or not all(isinstance(part, slice) for part in parts):
            raise InvalidArgumentError(
                f"region is {region!r}, expected a slice for each axis of a frame: "
                f"numpy.s_[8:56, 8:56]"
            )
        if any(part.step not in (None, 1) for part in parts):
            raise InvalidArgumentError(
                f"region is {region!r}, but a part of a frame has no gaps: use slices of step 1, "
                f"and Bin for coarser frames"
            )
        self.region = parts

    def _text(self) -> str:
        return f"crop {','.join(map(_range, self.region))}"


class Pad(_TextStage):
    """A margin around each frame.

    Parameters
    ----------
    widths
        A number of pixels for all edges; or for each axis a pair ``(before, after)``, or one number
        for both. ``(1, 2)`` are the numbers of two axes, and not those before and after both, as
        for :func:`numpy.pad`.
    value
        That of the new pixels.
    """

    def __init__(self, widths: int | Sequence[int | tuple[int, int]], value: float = 0) -> None:
        try:
            several = in_order("widths", widths) if has_items(widths) else (widths,)
            pairs = tuple(map(_pair, several))
        except (TypeError, ValueError):
            pairs = ()
        if not pairs or min(map(min, pairs)) < 0:
            raise InvalidArgumentError(
                f"widths is {widths!r}, expected a number of pixels, or a tuple of (before, "
                f"after) for each axis"
            )
        self.widths = pairs
        self.value = _number("value", value)

    def _text(self) -> str:
        widths = ",".join(f"{before}:{after}" for before, after in self.widths)
        return f"pad {widths} value={self.value!r}"


class Shift(Stage):
    """The content of each frame moved, for all frames alike or for each scan position by itself.

    A spot at ``(y, x)`` is at ``(y + dy, x + dx)`` afterwards, as :func:`scipy.ndimage.shift` has
    it. To undo a shift ``yx`` of the beam, pipe ``Shift(-yx)``. Axes stay as they are.

    Parameters
    ----------
    yx
        Pixels along each axis of frames: an array of shape ``(2,)`` for all frames, or of shape
        ``(*nav, 2)`` with one pair for each scan position. ``nav`` is the whole scan, also where a
        region of interest selects some of it. Integers or floats, all of them finite.
    fill
        The value of pixels that come from outside of a frame.

    Raises
    ------
    InvalidArgumentError
        If ``yx`` holds anything else. By :meth:`DataSet.pipe`: if its shape does not fit the data
        set, or no pixel can have the value ``fill``.

    Notes
    -----
    If all numbers of ``yx`` are whole, pixels are copied and keep their dtype; if one of them is
    not, all frames are interpolated: they are ``float32`` for pixels of up to 16 bits and for
    ``float32``, ``float64`` for others, and of complex pixels complex.

    Along an axis with the shift ``n + f``, ``n`` whole and ``0 <= f < 1``, pixel ``j`` is
    ``(1 - f) * before[j - n] + f * before[j - n - 1]``, where pixels outside of the frame have the
    value ``fill``. Both axes together are bilinear interpolation, as ``scipy.ndimage.shift(…,
    order=1, mode="grid-constant", cval=fill)``, computed in double precision. What has the weight 0
    does not count.
    """

    def __init__(self, yx: npt.ArrayLike, fill: float = 0) -> None:
        self.yx = _shifts(yx)
        self.fill = _number("fill", fill)

    def _changes(self) -> tuple[tuple[str, dict[str, Any]], ...]:
        return (("shifted", {"yx": self.yx, "fill": self.fill}),)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Shift):
            return NotImplemented
        return np.array_equal(self.yx, other.yx) and self.fill == other.fill

    def __hash__(self) -> int:
        return hash((self.yx.shape, self.yx.tobytes(), self.fill))

    def __repr__(self) -> str:
        one = self.yx.ndim == 1
        yx = self.yx.tolist() if one else f"<array of shape {self.yx.shape}>"
        return f"Shift(yx={yx}, fill={self.fill!r})"


class Rebin(_TextStage):
    """Sums of the frames of neighbouring scan positions.

    The scan gets smaller and its steps larger, and each position lies in the middle of its block.
    Positions at the end of an axis that do not fill a block are left out, and a warning says so. A
    block of which a position has no data has none itself. Regions of interest are for the new scan.

    Parameters
    ----------
    factors
        How many positions of each axis of the scan make one: a number for all axes, or one for
        each.
    mean
        Whether to take means instead.

    Notes
    -----
    Dtypes are those of :class:`Bin`, and sums of integers as exact. Sums of floats are added in the
    order of the scan, in double precision, and rounded once.
    """

    def __init__(self, factors: int | Sequence[int], mean: bool = False) -> None:
        self.factors = _whole_numbers("factors", factors)
        self.mean = boolean("mean", mean)

    def _text(self) -> str:
        return f"rebin {_joined(self.factors)}" + (" mean=true" if self.mean else "")


class Threshold(_TextStage):
    """Pixels below a value become 0.

    Parameters
    ----------
    minimum
        Pixels below this become 0, NaN as well.
    maximum
        Pixels above this become 0, too; none do if None.
    """

    def __init__(self, minimum: float, maximum: float | None = None) -> None:
        self.minimum = _number("minimum", minimum)
        self.maximum = None if maximum is None else _number("maximum", maximum)

    def _text(self) -> str:
        rest = "" if self.maximum is None else f" maximum={self.maximum!r}"
        return f"threshold {self.minimum!r}{rest}"


class Cast(_TextStage):
    """Pixels of another dtype.

    Parameters
    ----------
    dtype
        Values beyond the range of an integer are clipped to it, those beyond a float become
        infinite; floats become integers by leaving out their fractions, and NaN becomes 0. Complex
        pixels do not become real.
    """

    def __init__(self, dtype: npt.DTypeLike) -> None:
        if dtype is None:  # float64 for NumPy
            raise ArgumentTypeError("dtype is None, expected one of pixels, such as 'float32'")
        self.dtype = as_dtype("dtype", dtype).name

    def _text(self) -> str:
        return f"cast {self.dtype}"


class Log(_TextStage):
    """The natural logarithm of each pixel plus an offset.

    ``float32`` for pixels of up to 16 bits, ``float64`` for others, computed in double precision.
    Where the sum is 0 it is -inf, and NaN below.

    Parameters
    ----------
    offset
        Added to each pixel before.
    """

    def __init__(self, offset: float = 1) -> None:
        self.offset = _number("offset", offset)

    def _text(self) -> str:
        return f"log {self.offset!r}"


class Gaussian(_TextStage):
    """Frames smoothed by a Gaussian along all axes, as ``scipy.ndimage.gaussian_filter`` does it.

    Frames are reflected at their edges. ``float32`` for pixels of up to 16 bits, ``float64`` for
    others, computed in double precision.

    Parameters
    ----------
    sigma
        The standard deviation in pixels.
    truncate
        How many of them the filter reaches to each side.
    """

    def __init__(self, sigma: float, truncate: float = 4) -> None:
        self.sigma = _number("sigma", sigma)
        self.truncate = _number("truncate", truncate)

    def _text(self) -> str:
        return f"gaussian {self.sigma!r} truncate={self.truncate!r}"


class Median(_TextStage):
    """The median of the window around each pixel, as ``scipy.ndimage.median_filter`` takes it.

    Frames are reflected at their edges. NaN counts as larger than all numbers.

    Parameters
    ----------
    size
        The pixels of the window along each axis: an odd number for all axes, or one for each.
    """

    def __init__(self, size: int | Sequence[int] = 3) -> None:
        self.size = _whole_numbers("size", size)

    def _text(self) -> str:
        return f"median {_joined(self.size)}"


class _Turn(Stage):
    """One that :meth:`DataSet.orient` does."""

    def _turns(self) -> Sequence[tuple[str | None, bool]]:
        """``flip`` and ``transpose``, one after the other."""
        raise NotImplementedError

    def _changes(self) -> tuple[tuple[str, dict[str, Any]], ...]:
        return tuple(("oriented", dict(turn_of(*turn))) for turn in self._turns())


class Flip(_Turn):
    """Rows or columns in reverse order, as :meth:`DataSet.orient` does it.

    Parameters
    ----------
    axes
        ``'y'`` for rows, ``'x'`` for columns, ``'yx'`` for both.
    """

    def __init__(self, axes: Literal["y", "x", "yx"]) -> None:
        if not isinstance(axes, str):
            raise ArgumentTypeError(f"axes is {axes!r}, expected 'y', 'x' or 'yx'")
        self.axes = axes

    def _turns(self) -> Sequence[tuple[str | None, bool]]:
        return ((self.axes, False),)


class Transpose(_Turn):
    """Rows become columns: the last two axes of frames are swapped."""

    def _turns(self) -> Sequence[tuple[str | None, bool]]:
        return ((None, True),)


class Rotate(_Turn):
    """Frames turned by quarters of a circle, as :func:`numpy.rot90` does it.

    Parameters
    ----------
    degrees
        A multiple of 90; from the first of the last two axes towards the second, which is
        anticlockwise as frames are drawn.
    """

    def __init__(self, degrees: int) -> None:
        number = _number("degrees", degrees)
        if number % 90:
            raise InvalidArgumentError(
                f"degrees is {degrees!r}, expected a multiple of 90; other angles need "
                f"interpolation, which is up to a UDF"
            )
        self.degrees = int(number)

    def _turns(self) -> Sequence[tuple[str | None, bool]]:
        quarters = self.degrees // 90 % 4
        return {0: (), 1: (("y", True),), 2: (("yx", False),), 3: (("x", True),)}[quarters]


def _whole_numbers(name: str, value: Any) -> tuple[int, ...]:
    """Whole numbers from 1 on, one or several."""
    try:
        several = in_order(name, value) if has_items(value) else (value,)
        numbers = tuple(map(_whole, several))
    except TypeError:
        numbers = ()
    if not numbers or min(numbers) < 1:
        raise InvalidArgumentError(
            f"{name} is {value!r}, expected a whole number from 1 on, or a tuple of one for "
            f"each axis"
        )
    return numbers


def _shifts(value: Any) -> npt.NDArray[np.float64]:
    """A copy of finite numbers as an array."""
    try:
        array = np.asanyarray(value)
    except (TypeError, ValueError):
        array = np.asanyarray(None)
    if array.dtype.kind not in "iuf" or array.ndim == 0:
        raise InvalidArgumentError(
            f"yx holds {array.dtype} in the shape {array.shape}, expected real numbers: (dy, dx), "
            f"or such a pair for each scan position"
        )
    refuse_masked("yx", value, "fill them, for instance with 0, which leaves a frame where it is")
    numbers = np.array(array, dtype=np.float64, order="C")
    if not np.isfinite(numbers).all():
        raise InvalidArgumentError(
            f"yx holds {numbers[~np.isfinite(numbers)][0]}, expected finite numbers; 0 leaves a "
            f"frame where it is"
        )
    numbers.setflags(write=False)
    return numbers


def _whole(value: Any) -> int:
    """A whole number; True and False are none."""
    if not is_integer(value):
        raise TypeError
    return index(value)


def _number(name: str, value: Any) -> float:
    number = finite(name, value)
    if is_integer(value) and index(value) != int(number):
        raise InvalidArgumentError(
            f"{name} is {value!r}, which double precision, in which stages compute, does not hold; "
            f"the number next to it is {int(number)}"
        )
    return number


def _pair(value: Any) -> tuple[int, int]:
    """Two whole numbers, or one twice."""
    if not has_items(value):
        return _whole(value), _whole(value)
    before, after = in_order("widths", value)
    return _whole(before), _whole(after)


def _joined(numbers: Sequence[int]) -> str:
    return ",".join(map(str, numbers))


def _range(part: slice) -> str:
    try:
        ends = ["" if end is None else str(_whole(end)) for end in (part.start, part.stop)]
    except TypeError:
        raise InvalidArgumentError(f"region holds {part!r}, expected whole numbers") from None
    return ":".join(ends)
