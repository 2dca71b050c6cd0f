"""From numbers to colours: limits, colour maps, and the colour wheel of vectors."""

from __future__ import annotations

from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold._engine import vector_colours as vector_picture
from framefold.common._booleans import boolean
from framefold.common.optional import require

if TYPE_CHECKING:
    from framefold.common.axes import Axis
    from framefold.common.buffers import BufferWrapper

#: The name of the axis of frames that holds the colours of pixels.
COLOUR = "colour"

#: At most this part of the values at either end may be taken for outliers.
OUTLIERS = 0.01
#: Quantiles are estimated from at most so many values.
SAMPLE = 1 << 18


def visualize_simple(
    result: npt.ArrayLike,
    colormap: Any = None,
    logarithmic: bool = False,
    vmin: float | None = None,
    vmax: float | None = None,
    damage: Any = None,
) -> npt.NDArray[np.uint8]:
    """A picture of an array of numbers.

    Parameters
    ----------
    result
        Shape ``(y, x)``, real. If complex, the colours show phase and modulus, see
        :func:`rgb_from_2dvector`, and only ``damage`` and ``vmax`` are used.
    colormap
        A matplotlib colour map or its name; ``gist_earth`` if None.
    logarithmic
        Show ``log(1 + result - min)``.
    vmin, vmax
        The values that get the first and the last colour; from :func:`robust_limits` if None.
    damage
        Which values to find the limits from: a boolean array of shape ``(y, x)``, or one bool.
        All if None.

    Returns
    -------
    numpy.ndarray
        RGBA, shape ``(y, x, 4)``, dtype uint8. Transparent where ``result`` is NaN or masked.
    """
    given: np.ma.MaskedArray[Any, Any] = np.ma.asanyarray(result)
    usable = np.broadcast_to(True if damage is None else np.asarray(damage, bool), given.shape)
    if given.dtype.kind == "c":
        return vector_colours(given, usable & ~np.ma.getmaskarray(given), vmax)[0]
    values = _floats(given)
    if boolean("logarithmic", logarithmic):
        finite = values[usable & np.isfinite(values)]
        lowest = finite.min() if finite.size else 0.0
        vmin, vmax = (
            None if limit is None else float(np.log1p(max(limit - lowest, 0.0)))
            for limit in (vmin, vmax)
        )
        values = np.log1p(np.maximum(values - lowest, 0.0))
    low, high = robust_limits(values, usable)
    low = low if vmin is None else vmin
    high = high if vmax is None else vmax
    matplotlib = require("matplotlib", "visualize_simple", "colour maps")
    colours = (
        matplotlib.colormaps["gist_earth" if colormap is None else colormap]
        if (colormap is None or isinstance(colormap, str))
        else colormap
    )
    # Halves, as the difference of the largest numbers is none.
    span = high / 2 - low / 2
    with np.errstate(invalid="ignore", over="ignore"):
        # Without a span, what lies above is the last colour, everything else the first.
        scaled = (values / 2 - low / 2) / span if span > 0 else (values > low).astype(np.float64)
    scaled = np.ma.MaskedArray(scaled, mask=np.isnan(values))
    colours = colours.with_extremes(bad=(0.0, 0.0, 0.0, 0.0))
    picture: npt.NDArray[np.uint8] = colours(np.ma.clip(scaled, 0.0, 1.0), bytes=True)
    return picture


def rgb_from_2dvector(
    y: npt.ArrayLike, x: npt.ArrayLike, vmax: float | None = None
) -> npt.NDArray[np.uint8]:
    """Vectors as colours: hue for the direction, saturation for the length.

    All colours are equally light, so that direction and length do not look like relief. The
    zero vector is grey. The command line's pictures have the same colours: orange points to the
    right (+x), green to +y, which is downwards in a picture, blue left and purple up.

    Parameters
    ----------
    y, x
        Components, of the same shape.
    vmax
        The length that gets full saturation, and everything longer; that of the longest vector
        if None.

    Returns
    -------
    numpy.ndarray
        RGB, shape ``(*y.shape, 3)``, dtype uint8. Black where a component is not finite, or
        masked.

    References
    ----------
    The colour space is OKLab, B. Ottosson, "A perceptual color space for image processing"
    (2020), https://bottosson.github.io/posts/oklab/.
    """
    y, x = np.broadcast_arrays(_floats(y), _floats(x))
    if vmax is None:
        finite = np.isfinite(y) & np.isfinite(x)
        vmax = float(np.hypot(y[finite], x[finite]).max(initial=0.0))
    flat_y, flat_x = np.ascontiguousarray(y).reshape(-1), np.ascontiguousarray(x).reshape(-1)
    return vector_picture(flat_y, flat_x, float(vmax)).reshape(*y.shape, 3)


def robust_limits(values: npt.ArrayLike, usable: Any = None) -> tuple[float, float]:
    """The smallest and the largest value, but for NaN, infinity, outliers and what is masked.

    Outliers are values that lie far from the rest, further than the rest is wide, provided
    that there are few of them, at most one in a hundred at either end (and one at least, from
    ten values on). Data without outliers keep their full range.

    Parameters
    ----------
    values
        Real numbers of any shape.
    usable
        Which of them count: a boolean array of the same shape, or None for all.

    Returns
    -------
    tuple of float
        ``(0.0, 0.0)`` if there is no finite value.
    """
    given: np.ma.MaskedArray[Any, Any] = np.ma.asanyarray(values)
    if np.ma.is_masked(given):
        valid = ~np.ma.getmaskarray(given)
        usable = valid if usable is None else valid & np.asarray(usable, bool)
    numbers: npt.NDArray[Any] = np.ma.getdata(given)
    numbers = numbers.reshape(-1) if usable is None else numbers[np.asarray(usable, bool)]
    if numbers.dtype.kind in "fO":
        numbers = numbers.astype(np.float64, copy=False)
        numbers = numbers[np.isfinite(numbers)]
    if numbers.size == 0:
        return 0.0, 0.0
    sample = numbers
    if numbers.size > SAMPLE:
        # At random: every n-th value would be those of a few columns of a picture.
        sample = numbers[np.random.default_rng(0).integers(numbers.size, size=SAMPLE)]
    low, high = _fences(sample.astype(np.float64))
    inside = numbers[(numbers >= low) & (numbers <= high)]
    return float(inside.min()), float(inside.max())


def encode_image(
    result: npt.NDArray[np.uint8], save_kwargs: dict[str, Any] | None = None
) -> BytesIO:
    """A picture as the bytes of a file.

    Parameters
    ----------
    result
        RGB or RGBA, shape ``(y, x, 3)`` or ``(y, x, 4)``, dtype uint8.
    save_kwargs
        Passed on to ``PIL.Image.Image.save``; ``{"format": "png"}`` if None.
    """
    image = require("PIL.Image", "encode_image", "writing pictures")
    buffer = BytesIO()
    image.fromarray(result).save(buffer, **({"format": "png"} | (save_kwargs or {})))
    buffer.seek(0)
    return buffer


def vector_colours(
    data: npt.NDArray[Any], damage: npt.NDArray[np.bool_], vmax: float | None = None
) -> tuple[npt.NDArray[np.uint8], float]:
    """Vectors or complex numbers as colours, transparent where there are none.

    Parameters
    ----------
    data
        Complex, shape ``(y, x)``, or vectors (y, x), shape ``(y, x, 2)``.
    damage
        Where they are valid; shape ``(y, x)``.
    vmax
        As for :func:`rgb_from_2dvector`; the longest length that is no outlier if None.

    Returns
    -------
    picture : numpy.ndarray
        RGBA, shape ``(y, x, 4)``, dtype uint8.
    vmax : float
        The length that gets full saturation.
    """
    numbers = np.ma.getdata(data)
    if numbers.dtype.kind == "c":
        y, x = numbers.imag, numbers.real
    else:
        y, x = numbers[..., 0].astype(np.float64), numbers[..., 1].astype(np.float64)
    usable = damage & np.isfinite(y) & np.isfinite(x)
    if vmax is None:
        with np.errstate(invalid="ignore"):
            vmax = robust_limits(np.hypot(y, x), usable)[1]
    alpha = np.where(usable, np.uint8(255), np.uint8(0))
    return np.dstack([rgb_from_2dvector(y, x, vmax=vmax), alpha]), vmax


def n_placed(axes: tuple[Axis, ...]) -> int:
    """How many axes of a result are places: not its own ones, and not a last one of colours."""
    own = [axis for axis in axes if axis.kind != "extra"]
    return len(own) - bool(own and own[-1].name == COLOUR)


def is_coloured(buffer: BufferWrapper) -> bool:
    """Whether a result is a picture in colours: three or four bytes for each place of two axes."""
    shape = buffer.shape
    return (
        buffer.dtype == np.uint8
        and len(shape) == 3
        and shape[-1] in (3, 4)
        and min(shape) > 1
        and n_placed(buffer.axes) == 2
    )


def opaque_colours(data: npt.NDArray[Any], damage: npt.NDArray[np.bool_]) -> npt.NDArray[np.uint8]:
    """RGB or RGBA colours as RGBA of dtype uint8, transparent where there are none.

    Parameters
    ----------
    data
        Shape ``(y, x, 3)`` or ``(y, x, 4)``; integers from 0 to 255 or floats from 0 to 1.
        Others are clipped.
    damage
        Where they are valid; shape ``(y, x)``.
    """
    colours = np.ma.getdata(data)
    if colours.dtype.kind == "f":
        damage = damage & np.isfinite(colours).all(axis=-1)
        colours = np.round(255 * np.nan_to_num(colours).clip(0.0, 1.0))
    elif colours.dtype.kind == "b":
        colours = colours * 255
    colours = colours.clip(0, 255).astype(np.uint8)
    alpha = colours[..., 3] if colours.shape[-1] == 4 else np.full(damage.shape, 255, np.uint8)
    return np.dstack([colours[..., :3], np.where(damage, alpha, np.uint8(0))])


def cyclic_colormap() -> Any:
    """The colours of directions as a colour map of matplotlib: from -180 to 180 degrees."""
    colors = require("matplotlib.colors", "libertem_cyclic", "a colour map")
    angle = np.linspace(-np.pi, np.pi, 256)[np.newaxis]
    rim = rgb_from_2dvector(np.sin(angle), np.cos(angle), vmax=1.0)[0] / 255
    return colors.LinearSegmentedColormap.from_list("libertem_cyclic", rim, N=256)


def _floats(values: npt.ArrayLike) -> npt.NDArray[np.float64]:
    """Numbers as float64, NaN where they are masked."""
    given: np.ma.MaskedArray[Any, Any] = np.ma.asanyarray(values)
    numbers: npt.NDArray[np.float64] = np.ma.filled(given.astype(np.float64), np.nan)
    return numbers


def _fences(sample: npt.NDArray[np.float64]) -> tuple[float, float]:
    """Beyond which values an outlier lies; all of ``sample`` is inside if there is none."""
    n = sample.size
    if n < 10:
        return -np.inf, np.inf
    cut = int(np.ceil(n * OUTLIERS))
    ranked = np.partition(sample, (cut, n - 1 - cut))
    low, high = float(ranked[cut]), float(ranked[n - 1 - cut])
    if high > low:
        width = high - low
        return low - width, high + width
    # Almost all are the same, as in sparse counts: the others decide, if they are enough.
    others = sample[sample != low]
    if others.size < 10:
        return -np.inf, np.inf
    below, above = _fences(others) if others.size < n else (-np.inf, np.inf)
    return min(below, low), max(above, high)
