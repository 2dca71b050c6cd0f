"""Simple made-up frames: diffraction disks on a lattice, an electron hologram, a ramp.

For scans with physics behind them, whose truth is known, see :mod:`framefold.utils.simulate`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.common._booleans import boolean
from framefold.common._numbers import number
from framefold.common.math import prod
from framefold.common.optional import require
from framefold.compat.elsewhere import elsewhere
from framefold.exceptions import InvalidArgumentError
from framefold.masks import circular
from framefold.utils import _wide, frame_peaks

#: How often to start again before giving up to place pixels.
ATTEMPTS = 100


def cbed_frame(
    fy: int = 128,
    fx: int = 128,
    zero: npt.ArrayLike | None = None,
    a: npt.ArrayLike | None = None,
    b: npt.ArrayLike | None = None,
    indices: npt.ArrayLike | None = None,
    radius: float = 4,
    all_equal: bool = False,
    margin: float | None = None,
) -> tuple[npt.NDArray[np.float32], npt.NDArray[Any], npt.NDArray[Any]]:
    """A frame with antialiased disks on a lattice.

    Parameters
    ----------
    fy, fx
        The shape of the frame.
    zero, a, b
        Origin and vectors of the lattice, ``(y, x)`` in pixels. By default the middle of the
        frame, and an eighth of its height along y and x.
    indices
        The lattice points to fill, as for :func:`framefold.utils.regularize_indices`; by
        default up to 10 in each direction.
    radius
        The radius of the disks in pixels.
    all_equal
        Give all disks the height 1. Otherwise no two are alike, and those near ``zero`` are
        higher.
    margin
        The distance from the borders within which no disk is centred; by default ``radius``.

    Returns
    -------
    data : numpy.ndarray
        Shape ``(1, fy, fx)``, float32.
    indices, peaks : numpy.ndarray
        Indices and positions of the disks, shape ``(n, 2)`` each.
    """
    zero = np.array((fy // 2, fx // 2), dtype=float) if zero is None else np.asarray(zero)
    a = (fy // 8, 0) if a is None else a
    b = (0, fy // 8) if b is None else b
    indices = np.mgrid[-10:11, -10:11] if indices is None else indices
    indices, peaks = frame_peaks(fy, fx, zero, a, b, radius if margin is None else margin, indices)
    heights = np.ones(len(peaks))
    if not boolean("all_equal", all_equal) and len(peaks):
        distances = np.linalg.norm(peaks - zero, axis=-1)
        heights = max(len(peaks), distances.max()) - distances + np.arange(1, len(peaks) + 1)
    frame = np.zeros((fy, fx), dtype=np.float32)
    for height, (y, x) in zip(heights, peaks, strict=True):
        frame += height * circular(x, y, fx, fy, radius, antialiased=True)
    return frame[np.newaxis], indices, peaks


def hologram_frame(
    amp: npt.ArrayLike,
    phi: npt.ArrayLike,
    counts: float = 1000.0,
    sampling: float = 5.0,
    visibility: float = 1.0,
    f_angle: float = 30.0,
    gaussian_noise: float | None = None,
    poisson_noise: float | None = None,
) -> npt.NDArray[np.float64]:
    """An off-axis electron hologram of an object wave.

    The intensity of the interference of a plane reference wave of amplitude 1 with the object
    wave [1]_, ``counts / 2 * (1 + amp² + 2 * visibility * amp * cos(carrier - phi))``.

    Parameters
    ----------
    amp, phi
        Amplitude, and phase in radians, of the object wave, shape ``(fy, fx)``.
    counts
        The mean intensity per pixel for ``amp`` 1.
    sampling
        The distance between fringes in pixels.
    visibility
        The contrast of the fringes, from 0 to 1.
    f_angle
        The direction in which fringes follow each other, in degrees from the y axis to the
        x axis.
    gaussian_noise
        Blur by a Gaussian with this standard deviation in pixels; needs SciPy.
    poisson_noise
        Draw from a Poisson distribution such that one event is ``poisson_noise * counts``.

    Returns
    -------
    numpy.ndarray
        Shape ``(fy, fx)``, float64.

    Raises
    ------
    InvalidArgumentError
        If amplitude and phase are not two-dimensional arrays of the same shape.

    References
    ----------
    .. [1] M. Lehmann, H. Lichte: Tutorial on Off-Axis Electron Holography. Microscopy and
       Microanalysis 8 (2002), 447-466. https://doi.org/10.1017/S1431927602020147
    """
    amplitude, phase = _wide("the amplitude", amp), _wide("the phase", phi)
    if amplitude.ndim != 2 or amplitude.shape != phase.shape:
        raise InvalidArgumentError(
            f"amplitude and phase have shapes {amplitude.shape} and {phase.shape}, "
            f"expected two axes and the same shape"
        )
    counts, visibility = number("counts", counts), number("visibility", visibility)
    sampling, angle = number("sampling", sampling), np.deg2rad(number("f_angle", f_angle))
    y, x = np.indices(amplitude.shape)
    carrier = 2 * np.pi * (y * np.cos(angle) + x * np.sin(angle)) / sampling
    fringes = 2 * visibility * amplitude * np.cos(carrier - phase)
    hologram: npt.NDArray[np.float64] = counts / 2 * (1 + amplitude**2 + fringes)
    if poisson_noise:
        event = number("poisson_noise", poisson_noise) * counts
        events = np.random.default_rng().poisson(hologram / event)
        hologram = events.astype(np.float64) * event
    if gaussian_noise:
        ndimage = require("scipy.ndimage", "hologram_frame", "blurred holograms")
        hologram = ndimage.gaussian_filter(hologram, gaussian_noise)
    return hologram


def gradient_data(nav_dims: Sequence[int], sig_dims: Sequence[int]) -> npt.NDArray[np.float32]:
    """Data that rise evenly from 5 to 30, shape ``(*nav_dims, *sig_dims)``, float32."""
    shape = (*nav_dims, *sig_dims)
    return np.linspace(5, 30, num=prod(shape), dtype=np.float32).reshape(shape)


def exclude_pixels(
    sig_dims: Sequence[int], num_excluded: int, rng: np.random.Generator | None = None
) -> npt.NDArray[np.int64] | None:
    """Random pixels to be excluded, none of them at a border or next to another one.

    Parameters
    ----------
    sig_dims
        The shape of a frame.
    num_excluded
        How many pixels.
    rng
        The source of randomness.

    Returns
    -------
    numpy.ndarray or None
        Coordinates, shape ``(len(sig_dims), num_excluded)``; None for no pixels.

    Raises
    ------
    InvalidArgumentError
        If so many pixels do not find room.
    """
    if num_excluded == 0:
        return None
    rng = np.random.default_rng() if rng is None else rng
    inner = [max(0, int(length) - 2) for length in sig_dims]
    for _ in range(ATTEMPTS):
        free = np.ones(inner, dtype=bool)
        chosen: list[npt.NDArray[np.int64]] = []
        for flat in rng.permutation(prod(inner)):
            pixel = np.array(np.unravel_index(flat, inner))
            if free[tuple(pixel)]:
                chosen.append(pixel + 1)
                free[tuple(slice(max(0, i - 1), i + 2) for i in pixel)] = False
                if len(chosen) == num_excluded:
                    return np.stack(chosen, axis=1)
    raise InvalidArgumentError(
        f"{num_excluded} pixels that are neither at a border nor next to each other do not fit "
        f"into a frame of shape {tuple(sig_dims)}"
    )


def __getattr__(name: str) -> Any:
    """Names that scripts find here, as in the reference."""
    return elsewhere(__name__, name)
