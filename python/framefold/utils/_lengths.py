"""Lengths on the axes of frames: from the units that callers give to pixels."""

from __future__ import annotations

from collections.abc import Sequence
from math import isclose, isfinite, isnan
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from framefold.common._numbers import count
from framefold.exceptions import InvalidArgumentError
from framefold.io.dataset._calibration import number_or_quantity

if TYPE_CHECKING:
    from framefold.common.axes import Axis
    from framefold.io.dataset.base import DataSet

#: Sides of pixels that differ by less are equal: files hold them in single precision.
_EQUAL = 1e-5
#: Decimals of a pixel that are kept, so that 0.3 mrad of 0.1 mrad are 3 pixels, not a bit less.
_DECIMALS = 9
#: By so much of a pixel, an ellipse is wider than its radii, which are rounded: its rim is inside.
RIM = 10.0**-_DECIMALS


class Place(NamedTuple):
    """Where a detector is, in pixels of a frame.

    Attributes
    ----------
    cy, cx
        Its centre.
    height, width
        Of the frame.
    radii
        Along y and x, which differ where a circle in units is an ellipse in pixels.
    """

    cy: float
    cx: float
    height: int
    width: int
    radii: tuple[tuple[float, float], ...]


def place(frame: Sequence[int] | DataSet, cy: Any, cx: Any, **radii: Any) -> Place:
    """Where the detector is that a caller describes.

    Raises
    ------
    InvalidArgumentError
        If anything is no length, or has a unit that the axes do not have.
    """
    from framefold.io.dataset.base import DataSet

    if isinstance(frame, DataSet):
        dataset, shape = frame, tuple(frame.shape.sig)
    elif isinstance(frame, np.ndarray) and frame.ndim != 1:
        raise InvalidArgumentError(
            f"the first argument is an array of shape {frame.shape}; pass the data set, or the "
            f"shape of a frame: frame.shape"
        )
    else:
        try:
            dataset, shape = None, tuple(frame)
        except TypeError:
            raise InvalidArgumentError(
                f"the first argument is a {type(frame).__name__}; pass the data set, or the shape "
                f"of a frame, dataset.shape.sig"
            ) from None
    if len(shape) != 2:
        raise InvalidArgumentError(
            f"detectors have two axes, and frames of shape {shape} have {len(shape)}; pass "
            f"dataset.shape.sig"
        )
    height, width = (count("the shape of a frame", length) for length in shape)
    middle = (height // 2, width // 2) if dataset is None else _zero(dataset)
    centre = []
    for i, (name, given) in enumerate((("cy", cy), ("cx", cx))):
        value = middle[i] if given is None else _position(name, given, dataset, i)
        if not isfinite(value):
            raise InvalidArgumentError(f"the centre {name}={value} is not finite")
        centre.append(value)
    found = [_radius(name, given, dataset) for name, given in radii.items()]
    shapes = {ry == rx for ry, rx in found if ry}
    if len(shapes) > 1:
        raise InvalidArgumentError(
            f"{' and '.join(radii)} are {tuple(radii.values())!r}: pixels that are not square "
            f"make an ellipse of the one and a circle of the other; pass both with a unit, or "
            f"both in pixels"
        )
    return Place(centre[0], centre[1], height, width, tuple(found))


def _zero(dataset: DataSet) -> tuple[float, float]:
    """The pixel at which both axes are 0, if the data set says one; else the middle."""
    axes = _frame_axes(dataset)
    zeros = [-axis.offset / axis.scale for axis in axes]
    if all(0 < zero <= axis.size - 1 for zero, axis in zip(zeros, axes, strict=True)):
        return round(zeros[0], _DECIMALS), round(zeros[1], _DECIMALS)
    return axes[0].size // 2, axes[1].size // 2


def _frame_axes(dataset: DataSet) -> list[Axis]:
    return [axis for axis in dataset.axes if axis.kind == "sig"]


def _position(name: str, given: Any, dataset: DataSet | None, i: int) -> float:
    value, unit = number_or_quantity(name, given)
    if unit is None:
        return value
    known = _known(name, given, dataset)
    axis = _frame_axes(known)[i]
    on_axis = value * _factor(name, given, unit, axis.unit, known)
    return round((on_axis - axis.offset) / axis.scale, _DECIMALS)


def _radius(name: str, given: Any, dataset: DataSet | None) -> tuple[float, float]:
    """A radius in pixels along y and x."""
    value, unit = number_or_quantity(name, given)
    if isnan(value) or value < 0:
        raise InvalidArgumentError(f"{name} is {given!r}, expected a radius of 0 or more")
    if unit is None:
        return value, value
    known = _known(name, given, dataset)
    ry, rx = (
        round(value * _factor(name, given, unit, axis.unit, known) / abs(axis.scale), _DECIMALS)
        for axis in _frame_axes(known)
    )
    return (rx, rx) if isclose(ry, rx, rel_tol=_EQUAL) else (ry, rx)


def _known(name: str, given: Any, dataset: DataSet | None) -> DataSet:
    """The data set, whose axes say what a unit is in pixels."""
    if dataset is None:
        raise InvalidArgumentError(
            f"{name} is {given!r}, and the shape of a frame has no units; pass the data set in its "
            f"place, or {name} in pixels"
        )
    bare = [axis.name for axis in _frame_axes(dataset) if not axis.unit]
    if bare:
        raise InvalidArgumentError(
            f"{name} is {given!r}, and the axes {' and '.join(bare)} of the frames have no unit; "
            f"say the size of a pixel, dataset.calibrate(pixel_size=(1.2, 'mrad')), or pass {name} "
            f"in pixels"
        )
    return dataset


def _factor(name: str, given: Any, unit: str, of_axis: str, dataset: DataSet) -> float:
    """How many units of an axis one of the caller's is."""
    from framefold.utils.calibration import angle_to_inverse, inverse_to_angle

    if unit == of_axis:
        return 1.0
    try:
        # As the engine has them: mrad, 1/nm, nm, eV.
        (one, ours), (other, theirs) = (_usual(dataset, each) for each in (unit, of_axis))
    except InvalidArgumentError as error:
        raise InvalidArgumentError(
            f"{name} is {given!r}, and the axes of the frames are in {of_axis}; one of these units "
            f"is not known: {error}"
        ) from None
    if ours == theirs:
        return one / other
    voltage = dataset.metadata.get("acceleration_voltage")
    between = {("mrad", "1/nm"): angle_to_inverse, ("1/nm", "mrad"): inverse_to_angle}
    convert = between.get((ours, theirs))
    if convert is None:
        raise InvalidArgumentError(
            f"{name} is {given!r}, and the axes of the frames are in {of_axis}: one is not the "
            f"other; pass it in {of_axis} or in pixels"
        )
    if not isinstance(voltage, int | float):
        raise InvalidArgumentError(
            f"{name} is {given!r}, and the axes of the frames are in {of_axis}: the acceleration "
            f"voltage would say what that is, and the file tells none; convert it by "
            f"framefold.utils.calibration.{convert.__name__}(value, kV), or pass it in {of_axis}"
        )
    return convert(one, voltage)[0] / other


def _usual(dataset: DataSet, unit: str) -> tuple[float, str]:
    """What one of a unit is in the unit that the engine has for its quantity."""
    axis = dataset.calibrate(pixel_size=(1.0, unit)).axes[-1]
    return axis.scale, axis.unit
