"""Sizes of pixels that follow from the microscope: camera length, acceleration voltage.

Each is one formula. Nothing of it is derived by itself: what a function returns is passed on to
:meth:`DataSet.calibrate() <framefold.io.dataset.base.DataSet.calibrate>`.
"""

from __future__ import annotations

from math import sqrt
from typing import TYPE_CHECKING, Any

import numpy as np

from framefold.common._numbers import number
from framefold.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from framefold.io.dataset.base import DataSet

__all__ = ["angle_to_inverse", "camera_pixel_size", "electron_wavelength", "inverse_to_angle"]

# Constants of the SI, CODATA 2018: h, e and c are exact.
_PLANCK = 6.62607015e-34
_CHARGE = 1.602176634e-19
_LIGHT = 299792458.0
_MASS = 9.1093837015e-31


def electron_wavelength(acceleration_voltage: float) -> float:
    """The wavelength of electrons, with relativity.

    λ = h / sqrt(2 m e U (1 + e U / (2 m c²)))

    Parameters
    ----------
    acceleration_voltage
        In kV, as in :attr:`DataSet.metadata`.

    Returns
    -------
    float
        In pm: 2.508 at 200 kV.

    Raises
    ------
    InvalidArgumentError
        If it is not above 0.
    """
    volts = 1e3 * _positive("acceleration_voltage", acceleration_voltage)
    energy = _CHARGE * volts
    momentum = sqrt(2 * _MASS * energy * (1 + energy / (2 * _MASS * _LIGHT**2)))
    return 1e12 * _PLANCK / momentum


def angle_to_inverse(angle: float, acceleration_voltage: float) -> tuple[float, str]:
    """What an angle of diffraction is in reciprocal space.

    q = θ / λ, for small angles; without the factor 2 π.

    Parameters
    ----------
    angle
        In mrad, as that of a pixel; below 0 if values fall.
    acceleration_voltage
        In kV.

    Returns
    -------
    tuple
        In 1/nm, with the unit, as ``calibrate(pixel_size=…)`` takes it.
    """
    angle = number("angle", angle)
    return angle * 1e-3 / (electron_wavelength(acceleration_voltage) * 1e-3), "1/nm"


def inverse_to_angle(inverse: float, acceleration_voltage: float) -> tuple[float, str]:
    """Which angle of diffraction a length in reciprocal space is.

    θ = q λ, for small angles; the other way of :func:`angle_to_inverse`.

    Parameters
    ----------
    inverse
        In 1/nm; 1/Å is ten times as much.
    acceleration_voltage
        In kV.

    Returns
    -------
    tuple
        In mrad, with the unit, as ``calibrate(pixel_size=…)`` takes it.
    """
    return number("inverse", inverse) * electron_wavelength(acceleration_voltage), "mrad"


def camera_pixel_size(
    dataset: DataSet | None = None,
    *,
    camera_length: float | None = None,
    pixel_size: float | tuple[float, float] | None = None,
    binning: float | tuple[float, float] | None = None,
) -> tuple[tuple[float, str], tuple[float, str]]:
    """The angle of a pixel that follows from camera length and pixel size on the detector.

    θ = binning · pixel size / camera length, in mrad from µm and mm.

    Parameters
    ----------
    dataset
        Whose :attr:`~framefold.io.dataset.base.DataSet.metadata` says what is not given:
        ``camera_length``, ``pixel_size_y``, ``pixel_size_x``, ``binning_y``, ``binning_x``.
    camera_length
        In mm.
    pixel_size
        Of the detector without binning, in µm: one number, or height and width.
    binning
        Pixels of the detector in one of a frame: one number, or in a column and in a row; 1 if
        nothing says it. Stages such as ``Bin`` count in what the data set says.

    Returns
    -------
    tuple
        Height and width of a pixel in mrad, with the unit, as ``calibrate(pixel_size=…)`` takes
        them.

    Raises
    ------
    InvalidArgumentError
        If camera length or pixel size are neither given nor known, or not above 0.
    """
    known: dict[str, Any] = {} if dataset is None else dict(dataset.metadata)
    length = known.get("camera_length") if camera_length is None else camera_length
    if length is None:
        raise InvalidArgumentError("the file tells no camera length; pass camera_length=… in mm")
    angles = []
    for i, axis in enumerate("yx"):
        size = _of_axis("pixel_size", pixel_size, i, known.get(f"pixel_size_{axis}"))
        if size is None:
            raise InvalidArgumentError(
                "the file tells no size of the detector's pixels; pass pixel_size=… in µm"
            )
        n = _of_axis("binning", binning, i, known.get(f"binning_{axis}", 1.0))
        angle = _positive("binning", n) * _positive("pixel_size", size)
        angles.append(angle / _positive("camera_length", length))
    return (angles[0], "mrad"), (angles[1], "mrad")


def _of_axis(name: str, given: Any, axis: int, known: Any) -> Any:
    """What is given for an axis, or else is known."""
    if given is None:
        return known
    if not isinstance(given, tuple | list | np.ndarray) or np.shape(given) == ():
        return given
    if len(given) != 2:
        raise InvalidArgumentError(f"{name} is {given!r}, expected one number, or (height, width)")
    return given[axis]


def _positive(name: str, value: Any) -> float:
    found = number(name, value)
    if not found > 0:
        raise InvalidArgumentError(f"{name} is {value}, expected a number above 0")
    return found
