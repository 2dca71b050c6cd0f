"""Vector fields on a scan: shifts, corrections, derivatives, and corrections guessed from them.

All functions take the two components separately, y first, as arrays of the same shape; those
that differentiate need two axes of at least two positions each. Integers and half precision count
as float64, and masked elements as NaN.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from framefold.common._booleans import boolean
from framefold.common._masked import has_masked, masked_in
from framefold.common._numbers import number
from framefold.common._roi import roi_mask
from framefold.common.sparse import to_dense
from framefold.exceptions import InvalidArgumentError
from framefold.masks import circular

Array = npt.NDArray[Any]
#: What selects positions of a scan: a boolean array, or slices.
Selection = npt.NDArray[np.bool_] | tuple[slice, ...]

#: Derivatives at the last row and column are taken from one side only.
INNER = np.s_[:-1, :-1]


class GuessResult(NamedTuple):
    """Parameters for :meth:`framefold.udf.com.CoMUDF.with_params`, guessed from a field.

    Attributes
    ----------
    scan_rotation
        In degrees, above -180 and up to 180.
    flip_y
        Whether the detector's y axis is flipped against the scan's.
    cy, cx
        The mean of the input, in its units and relative to its reference point.
    """

    scan_rotation: int
    flip_y: bool
    cy: float
    cx: float


def guess_corrections(
    y_centers: npt.ArrayLike, x_centers: npt.ArrayLike, roi: Selection | None = None
) -> GuessResult:
    """Guess centre, scan rotation and flip from centres of mass.

    Meant for atomic resolution of a specimen without magnetic field: an electrostatic field has
    no curl, its mean is zero, and its divergence has its strongest values, negative ones, at
    the atoms. So the field is turned, and flipped if need be, until its curl is least; of the
    two angles for which this holds, the one is taken with which more of the strongest fifths of
    the divergence are negative.

    Parameters
    ----------
    y_centers, x_centers
        Centre of mass for each position of the scan, two-dimensional. Positions that are NaN or
        masked, or next to one that is, are left out.
    roi
        The positions to consider: a boolean array of the shape of the scan, or one of zeros and
        ones, or slices. All but the last row and column if None.

    Raises
    ------
    InvalidArgumentError
        If the input is not two-dimensional, ``roi`` does not fit it, or nothing is left to
        consider.
    """
    y, x = _components(y_centers, x_centers)
    selection = _selected(roi, y.shape)
    known = np.isfinite(y[selection]) & np.isfinite(x[selection])
    curls = coordinate_check(y, x, selection)
    # Half a turn later the curl is the same but for its sign.
    straight, flipped = curls[0][:180], curls[1][:180]
    flip_y = bool(np.min(flipped) < np.min(straight))
    angle = int(np.argmin(flipped if flip_y else straight))

    strength = divergence(*apply_correction(y, x, angle, flip_y))[selection]
    strength = strength[np.isfinite(strength)]
    limit = np.max(np.abs(strength))
    histogram, _ = np.histogram(strength, bins=5, range=(-limit, limit) if limit else None)
    if histogram[-1] > histogram[0]:
        angle = angle - 180 if angle > 0 else 180
    return GuessResult(
        angle, flip_y, float(np.mean(y[selection][known])), float(np.mean(x[selection][known]))
    )


def coordinate_check(
    y_centers: npt.ArrayLike, x_centers: npt.ArrayLike, roi: Selection | None = None
) -> tuple[Array, Array]:
    """The strength of the curl for each possible scan rotation, without and with a flip.

    Right settings make it least for specimens without magnetic field.

    Parameters
    ----------
    y_centers, x_centers, roi
        As for :func:`guess_corrections`.

    Returns
    -------
    straight, flipped : numpy.ndarray
        Root mean square of the curl, float64, for ``scan_rotation`` of 0 to 359 degrees, with
        ``flip_y=False`` and ``flip_y=True``.
    """
    y, x = _components(y_centers, x_centers)
    selection = _selected(roi, y.shape)
    angles = np.deg2rad(np.arange(360))
    both = []
    for flipped_y in (y, -y):
        # To turn a field mixes its curl and its divergence.
        curl = curl_2d(flipped_y, x)[selection]
        source = divergence(flipped_y, x)[selection]
        known = np.isfinite(curl) & np.isfinite(source)
        if not known.any():
            raise InvalidArgumentError(
                "there is no position to judge the curl at: the selected ones are NaN, or have "
                "a neighbour that is; select others with roi"
            )
        curl, source = curl[known], source[known]
        both.append(
            np.array(
                [
                    np.sqrt(np.mean((curl * np.cos(angle) + source * np.sin(angle)) ** 2))
                    for angle in angles
                ]
            )
        )
    return both[0], both[1]


def center_shifts(
    img_sum: npt.ArrayLike,
    img_y: npt.ArrayLike,
    img_x: npt.ArrayLike,
    ref_y: npt.ArrayLike,
    ref_x: npt.ArrayLike,
) -> tuple[Array, Array]:
    """Centres of mass relative to a reference point.

    Parameters
    ----------
    img_sum, img_y, img_x
        The sum of each frame, and that of its pixels times their y and x.
    ref_y, ref_x
        The reference point in pixels; or one for each frame.

    Returns
    -------
    y, x : numpy.ndarray
        In pixels; 0 where the sum is 0.
    """
    total = _floats(img_sum)
    filled = total != 0
    divisor = np.where(filled, total, 1)
    y = np.where(filled, _floats(img_y) / divisor - _floats(ref_y), 0)
    x = np.where(filled, _floats(img_x) / divisor - _floats(ref_x), 0)
    return y, x


def com_masks_generic(
    detector_y: int, detector_x: int, base_mask_factory: Callable[[], Array]
) -> list[Callable[[], Array]]:
    """Masks whose products with a frame are the parts of a centre of mass.

    Parameters
    ----------
    detector_y, detector_x
        The shape of a frame.
    base_mask_factory
        Makes the mask that says which pixels count, or how much: shape
        ``(detector_y, detector_x)``.

    Returns
    -------
    list of functions
        For :class:`~framefold.udf.masks.ApplyMasksUDF`: that mask itself, and that mask times y and
        times x in pixels. These have the dtype of the mask's product with float32: float64 for
        wide integers, complex for complex masks. :func:`center_shifts` takes the three products.
    """
    return [
        base_mask_factory,
        partial(_moment, 0, (detector_y, detector_x), base_mask_factory),
        partial(_moment, 1, (detector_y, detector_x), base_mask_factory),
    ]


def com_masks_factory(
    detector_y: int, detector_x: int, cy: float, cx: float, r: float
) -> list[Callable[[], Array]]:
    """As :func:`com_masks_generic`, for the pixels in a circle.

    Parameters
    ----------
    detector_y, detector_x
        The shape of a frame.
    cy, cx, r
        Centre and radius in pixels.
    """
    # By position: the other way round than everywhere else, x first.
    disk = partial(circular, cx, cy, detector_x, detector_y, r)
    return com_masks_generic(detector_y, detector_x, disk)


def _moment(axis: int, sig: tuple[int, int], base_mask_factory: Callable[[], Any]) -> Array:
    """The mask of some pixels, times their coordinate along an axis."""
    coordinates = np.indices(sig, dtype=np.float32)[axis]
    result: Array = to_dense(base_mask_factory()) * coordinates
    return result


def apply_correction(
    y_centers: npt.ArrayLike,
    x_centers: npt.ArrayLike,
    scan_rotation: float,
    flip_y: bool,
    forward: bool = True,
) -> tuple[Array, Array]:
    """Put shifts on the detector into the axes of the scan.

    Parameters
    ----------
    y_centers, x_centers
        Shifts, in any unit and of any shape.
    scan_rotation
        Angle in degrees; a positive one turns shifts clockwise, seen with y pointing down.
    flip_y
        Turn the y component around, before the rotation.
    forward
        False for the way back, from the scan to the detector.
    """
    y, x = _floats(y_centers), _floats(x_centers)
    flip_y, forward = boolean("flip_y", flip_y), boolean("forward", forward)
    rotation = number("scan_rotation", scan_rotation, unit="degrees")
    angle = np.deg2rad(rotation if forward else -rotation)
    if flip_y and forward:
        y = -y
    turned_y = y * np.cos(angle) + x * np.sin(angle)
    turned_x = x * np.cos(angle) - y * np.sin(angle)
    if flip_y and not forward:
        turned_y = -turned_y
    return turned_y, turned_x


def divergence(y_centers: npt.ArrayLike, x_centers: npt.ArrayLike) -> Array:
    """The divergence of a field, per scan step: dy/dy + dx/dx by finite differences."""
    y, x = _components(y_centers, x_centers)
    result: Array = np.gradient(y, axis=0) + np.gradient(x, axis=1)
    return result


def curl_2d(y_centers: npt.ArrayLike, x_centers: npt.ArrayLike) -> Array:
    """The curl of a field, per scan step: dy/dx - dx/dy by finite differences."""
    y, x = _components(y_centers, x_centers)
    result: Array = np.gradient(y, axis=1) - np.gradient(x, axis=0)
    return result


def magnitude(y_centers: npt.ArrayLike, x_centers: npt.ArrayLike) -> Array:
    """The length of each vector."""
    y, x = _floats(y_centers), _floats(x_centers)
    if y.dtype.kind == "c" or x.dtype.kind == "c":
        length: Array = np.sqrt(y * y + x * x)
        return length
    result: Array = np.hypot(y, x)
    return result


def _components(y_centers: npt.ArrayLike, x_centers: npt.ArrayLike) -> tuple[Array, Array]:
    """Both as arrays that can be differentiated along two axes."""
    y, x = _floats(y_centers), _floats(x_centers)
    if y.shape != x.shape:
        raise InvalidArgumentError(
            f"the components of the field have different shapes, {y.shape} and {x.shape}"
        )
    if y.ndim != 2 or min(y.shape) < 2:
        raise InvalidArgumentError(
            f"the components of the field have shape {y.shape}; expected two axes of at least "
            f"two positions each"
        )
    return y, x


def _floats(values: npt.ArrayLike) -> Array:
    """An array that neither wraps around nor rounds to half precision; NaN where it is masked."""
    array = np.asarray(values)
    if array.dtype.kind not in "fc" or array.dtype == np.float16:
        array = array.astype(np.result_type(array.dtype, np.float64))
    return np.where(masked_in(values), np.nan, array) if has_masked(values) else array


def _selected(roi: Selection | None, nav: tuple[int, ...]) -> Any:
    """The positions to consider, as an index."""
    mask = roi_mask(roi, nav)
    return INNER if mask is None else mask
