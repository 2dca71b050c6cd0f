"""Pictures of results with matplotlib: images with scale and colour bars, vectors, curves."""

from __future__ import annotations

from collections.abc import Mapping
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from framefold.common._integers import MOST, whole
from framefold.common.axes import Axis
from framefold.common.optional import require
from framefold.exceptions import InvalidArgumentError, UnsupportedError
from framefold.results.colours import (
    is_coloured,
    n_placed,
    opaque_colours,
    rgb_from_2dvector,
    robust_limits,
    vector_colours,
)

if TYPE_CHECKING:
    from framefold.common.buffers import BufferWrapper

#: The most pictures that are drawn side by side.
MOST_PICTURES = 16
#: The most curves in one picture.
MOST_CURVES = 10
#: Images longer than this, in relation to their width, are stretched.
LONGEST = 8.0
#: Curves of up to so many points have a mark at each.
MARKED = 64
#: Width and height of a picture, in inches.
PICTURE = (4.2, 3.4)
#: Options that colours which are known already do not have.
OF_NUMBERS = ("norm", "cmap")
#: The part of an image's width that a scale bar takes at most.
BAR = 0.3


class Picture(NamedTuple):
    """One picture of a result.

    Attributes
    ----------
    title
        UDF, buffer, and which entry of it.
    data
        ``(y, x)`` or ``(n,)``, with a last axis for the components of vectors or for several
        curves; masked where there is nothing.
    axes
        Of ``data``, without that last axis.
    unit
        Of the values.
    vector
        Whether there are components.
    curves
        What each curve is.
    coloured
        Whether the last axis of ``data`` are bytes of red, green and blue, maybe with opacity.
    """

    title: str
    data: np.ma.MaskedArray[Any, Any]
    axes: tuple[Axis, ...]
    unit: str
    vector: bool
    curves: tuple[str, ...] = ("",)
    coloured: bool = False


def plot(
    buffer: BufferWrapper, ax: Any, index: int | tuple[int, ...] | None, options: dict[str, Any]
) -> Any:
    """As :meth:`BufferWrapper.plot`."""
    pictures = pictures_of(buffer, index)
    if ax is not None:
        if len(pictures) > 1:
            raise InvalidArgumentError(
                f"{pictures[0].title} and {len(pictures) - 1} more are several pictures, and ax is "
                f"one; pass index= to choose one"
            )
        draw(ax, pictures[0], options)
        return ax
    drawn = _side_by_side(pictures, options)
    return drawn[0] if len(pictures) == 1 else drawn


def plot_all(buffers: Mapping[str, BufferWrapper], options: dict[str, Any]) -> Any:
    """As :meth:`UDFResultDict.plot`."""
    drawn = [
        buffer
        for buffer in buffers.values()
        if buffer.dtype.kind in "biufc" and _n_axes(buffer) in (1, 2)
    ]
    # Those of kind single, such as coefficients, are rather read than looked at.
    drawn = [buffer for buffer in drawn if buffer.kind != "single"] or drawn
    pictures = [picture for buffer in drawn for picture in pictures_of(buffer, None)]
    if not pictures:
        raise UnsupportedError(
            f"there is nothing to draw: none of {', '.join(buffers) or 'no results'} is a picture "
            f"or a curve"
        )
    return _side_by_side(pictures, options)


def pictures_of(buffer: BufferWrapper, index: int | tuple[int, ...] | None) -> list[Picture]:
    """The pictures that a result is.

    Raises
    ------
    UnsupportedError
        If it is none.
    """
    about = buffer.about
    title = ": ".join(part for part in (about.udf, about.name) if part) or "result"
    if buffer.dtype.kind not in "biufc":
        raise UnsupportedError(f"{title} has dtype {buffer.dtype}, which cannot be drawn")
    data, axes = buffer.masked_data, buffer.axes
    n_own = _n_own(axes)
    coloured = index is None and is_coloured(buffer)
    n_components = 1 if about.vector or coloured else 0
    extra = data.shape[n_own : data.ndim - n_components]
    keep = [i for i in range(n_own) if data.shape[i] > 1] or [0]
    if len(keep) > 2 or data.size in (0, 1):
        raise UnsupportedError(
            f"{title} has shape {data.shape}, which is neither a picture nor a curve; draw a part "
            f"of it, such as plt.imshow(result[{about.name!r}][0])"
            if data.size > 1
            else f"{title} has {data.size} elements, too few for a picture: print it"
        )
    together = len(keep) == 1 and not about.vector and data.dtype.kind != "c"
    most, what = (MOST_CURVES, "curves") if together else (MOST_PICTURES, "pictures")
    if index is None and prod(extra) > most:
        raise UnsupportedError(
            f"{title} has {prod(extra)} {what}, too many to draw at once; draw one: plot(index=0)"
        )
    entries = _entries(title, extra, index)
    own = tuple(axes[i] for i in keep)
    dropped = tuple(i for i in range(n_own) if i not in keep)
    found = []
    for entry in entries:
        part = np.ma.squeeze(data[(slice(None),) * n_own + entry], dropped)
        shown = f"{title}[{', '.join(map(str, entry))}]" if entry else title
        found.append(Picture(shown, part, own, about.unit, about.vector, coloured=coloured))
    return _together(title, found, entries) if together and len(found) > 1 else found


def draw(ax: Any, picture: Picture, options: dict[str, Any]) -> None:
    """Draw a picture into axes of matplotlib."""
    ax.set_title(picture.title)
    if len(picture.axes) == 1:
        _draw_curves(ax, picture, options)
    else:
        _draw_image(ax, picture, options)


def asked_limits(
    options: dict[str, Any],
) -> tuple[dict[str, Any], tuple[float | None, float | None]]:
    """Take the limits of colours, ``vmin`` and ``vmax`` or ``clim``, out of options.

    Raises
    ------
    InvalidArgumentError
        If the lower one is above the upper one. Where they are equal, :func:`limits_of` moves one.
    """
    others = {key: value for key, value in options.items() if key not in ("vmin", "vmax", "clim")}
    low, high = options.get("vmin"), options.get("vmax")
    if options.get("clim") is not None:
        if (low, high) != (None, None) or np.size(options["clim"]) != 2:
            raise InvalidArgumentError(
                f"clim is {options['clim']!r}, vmin is {low!r} and vmax is {high!r}, expected "
                f"clim=(vmin, vmax), or vmin= and vmax= without it"
            )
        low, high = options["clim"]
    if low is not None and high is not None and not low <= high:
        raise InvalidArgumentError(
            f"vmin is {low!r} and vmax is {high!r}, expected vmin up to vmax; for colours the "
            f"other way round, use their name with _r: cmap='viridis_r'"
        )
    return others, (low, high)


def limits_of(
    low: float, high: float, asked: tuple[float | None, float | None]
) -> tuple[float, float]:
    """The limits of colours of data from ``low`` to ``high``, of which some were asked for.

    Where that leaves no range, as the data have none or lie beyond a limit that was asked for,
    the other limit is as far from it as it is from 0, or 1.
    """
    low, high = (low if asked[0] is None else asked[0]), (high if asked[1] is None else asked[1])
    if low < high:
        return low, high
    if asked[1] is not None:
        return high - (abs(high) or 1.0), high
    return low, low + (abs(low) or 1.0)


def scale_bar(ax: Any, axes: tuple[Axis, ...]) -> bool:
    """Draw a scale bar into an image whose axes (y, x) have the same unit; whether it did.

    There is none where lengths are drawn in another way along y than along x. Its length follows
    when a part of the image is shown.
    """
    aspect = ax.get_aspect()
    if aspect == "auto" or not (len(axes) == 2 and axes[0].unit and axes[0].unit == axes[1].unit):
        return False
    from matplotlib import patches, patheffects

    left, right, bottom, top = ax.get_images()[-1].get_extent()
    # Lengths for each 1 of the numbers on the sides.
    per_y = axes[0].size * abs(axes[0].scale / (top - bottom))
    per_x = axes[1].size * abs(axes[1].scale / (right - left))
    if not np.isclose(aspect * per_x, per_y):
        return False
    box = patches.Rectangle((0.05, 0.05), 0.0, 0.018, transform=ax.transAxes, facecolor="white")
    box.set_edgecolor("black")
    box.set_linewidth(0.8)
    box.set_gid("scale bar")
    ax.add_patch(box)
    text = ax.text(
        0.05,
        0.08,
        "",
        transform=ax.transAxes,
        color="white",
        ha="center",
        va="bottom",
        fontsize="small",
    )
    text.set_path_effects([patheffects.withStroke(linewidth=1.6, foreground="black")])
    ax.set_xticks([])
    ax.set_yticks([])

    def fit(shown: Any) -> None:
        width = abs(np.subtract(*shown.get_xlim())) * per_x
        length = round_length(BAR * width)
        box.set_width(length / width)
        text.set_x(0.05 + length / width / 2)
        text.set_text(f"{length:g} {literal(axes[1].unit)}")

    fit(ax)
    ax.callbacks.connect("xlim_changed", fit)
    return True


def round_length(most: float) -> float:
    """The largest of 1, 2 and 5 times a power of ten that is not above ``most``."""
    power = 10.0 ** np.floor(np.log10(most))
    return float(max(n * power for n in (1, 2, 5) if n * power <= most * (1 + 1e-9)))


def axis_label(axis: Axis) -> str:
    """``scan_x (nm)``."""
    return literal(f"{axis.name} ({axis.unit})" if axis.unit else axis.name)


def literal(text: str) -> str:
    """A text from elsewhere for matplotlib, which takes what is between two $ for a formula."""
    return text.replace("$", r"\$")


def draw_wheel(ax: Any, first: str, second: str, origin: str) -> None:
    """Draw which direction has which colour, for an image whose first row is at ``origin``.

    ``first`` is to the right, ``second`` is downwards if the origin is ``upper``, else upwards.
    """
    is_upper = origin == "upper"
    y, x = np.mgrid[-1:1:65j, -1:1:65j]
    disk = np.dstack([rgb_from_2dvector(y, x, vmax=1.0), 255 * (np.hypot(y, x) <= 1)])
    ax.imshow(disk.astype(np.uint8), origin="upper", extent=(-1, 1, 1, -1))
    ax.text(1.1, 0, first, ha="left", va="center", fontsize="small")
    ax.text(0, 1.1, second, ha="center", va="top" if is_upper else "bottom", fontsize="small")
    # Room for the letters.
    ax.set_xlim(-1.1, 1.8)
    ax.set_ylim((1.8, -1.1) if is_upper else (-1.1, 1.8))
    ax.set_axis_off()


def extent_of(axes: tuple[Axis, ...], origin: str = "upper") -> tuple[float, float, float, float]:
    """Where the sides of an image lie: left, right, bottom, top; the first row at ``origin``."""
    y, x = axes
    sides = [
        (axis.offset - 0.5 * axis.scale, axis.offset + (axis.size - 0.5) * axis.scale)
        for axis in (x, y)
    ]
    return (*sides[0], *(sides[1][::-1] if origin == "upper" else sides[1]))


def aspect_of(axes: tuple[Axis, ...]) -> float | str:
    """How much higher a unit is drawn than wide; ``auto`` for what would be too long."""
    y, x = axes
    # With different units, pixels are squares.
    aspect = abs(x.scale / y.scale) if y.unit != x.unit else 1.0
    height, width = y.size * abs(y.scale) * aspect, x.size * abs(x.scale)
    return aspect if 1 / LONGEST <= height / width <= LONGEST else "auto"


def _n_own(axes: tuple[Axis, ...]) -> int:
    """How many axes a picture of a result has: those that are places, or all if none is."""
    return n_placed(axes) or len(axes)


def _n_axes(buffer: BufferWrapper) -> int:
    """How many axes a picture of the result has, without those of length 1."""
    own = buffer.axes[: _n_own(buffer.axes)]
    return sum(axis.size > 1 for axis in own) if prod(buffer.shape) else 0


def _entries(
    title: str, extra: tuple[int, ...], index: int | tuple[int, ...] | None
) -> list[tuple[int, ...]]:
    """The entries of the extra axes that are drawn."""
    if index is None:
        return list(np.ndindex(extra))
    given = index if isinstance(index, tuple) else (index,)
    entry = tuple(whole("index", i, least=-MOST) for i in given)
    fits = len(entry) == len(extra)
    if not fits or not all(-n <= i < n for i, n in zip(entry, extra, strict=True)):
        raise InvalidArgumentError(
            f"index is {index!r}, but the entries of {title} have the shape {extra}"
        )
    return [tuple(i % n for i, n in zip(entry, extra, strict=True))]


def _together(title: str, pictures: list[Picture], entries: list[tuple[int, ...]]) -> list[Picture]:
    """Curves in one picture."""
    data = np.ma.stack([picture.data for picture in pictures], axis=-1)
    names = tuple(", ".join(map(str, entry)) for entry in entries)
    return [pictures[0]._replace(title=title, data=data, curves=names)]


def _side_by_side(pictures: list[Picture], options: dict[str, Any]) -> Any:
    """New axes for each picture, drawn."""
    pyplot = require("matplotlib.pyplot", "plot", "drawing")
    n_columns = min(len(pictures), 2 if len(pictures) == 4 else 3)
    n_rows = -(-len(pictures) // n_columns)
    size = PICTURE[0] * n_columns, PICTURE[1] * n_rows
    figure = pyplot.figure(figsize=size, layout="constrained")
    found = np.empty(len(pictures), dtype=object)
    for number, picture in enumerate(pictures):
        found[number] = figure.add_subplot(n_rows, n_columns, number + 1)
        draw(found[number], picture, options)
    return found


def _draw_image(ax: Any, picture: Picture, options: dict[str, Any]) -> None:
    from matplotlib import rcParams

    origin = options.get("origin") or rcParams["image.origin"]
    known: dict[str, Any] = {
        "interpolation": "nearest",
        "extent": extent_of(picture.axes, origin),
        "aspect": aspect_of(picture.axes),
    }
    options, asked = asked_limits(options)
    valid = ~np.ma.getmaskarray(picture.data)
    if picture.vector or picture.data.dtype.kind == "c":
        options = {key: value for key, value in options.items() if key not in OF_NUMBERS}
        valid = np.asarray(valid.all(axis=-1)) if picture.vector else valid
        colours, vmax = vector_colours(picture.data, valid, asked[1])
        ax.imshow(colours, **(known | options))
        wheel = ax.inset_axes((1.04, 0.56, 0.36, 0.36))
        draw_wheel(wheel, *(("x", "y") if picture.vector else ("Re", "Im")), origin)
        unit = f" {picture.unit}" if picture.unit else ""
        wheel.set_title(f"{vmax:.3g}{unit}", fontsize="small")
    elif picture.coloured:
        options = {key: value for key, value in options.items() if key not in OF_NUMBERS}
        colours = opaque_colours(picture.data, np.asarray(valid.all(axis=-1)))
        ax.imshow(colours, **(known | options))
    else:
        _draw_numbers(ax, picture, valid, known | options, asked)
    if not scale_bar(ax, picture.axes):
        for side, axis in zip((ax.yaxis, ax.xaxis), picture.axes, strict=True):
            side.set_label_text(axis_label(axis))
            if not axis.is_calibrated:
                side.get_major_locator().set_params(integer=True)


def _draw_numbers(
    ax: Any,
    picture: Picture,
    valid: npt.NDArray[np.bool_],
    options: dict[str, Any],
    asked: tuple[float | None, float | None],
) -> None:
    numbers = np.ma.getdata(picture.data)
    numbers = numbers.astype(np.float64 if numbers.dtype.itemsize > 2 else np.float32)
    usable = valid & np.isfinite(numbers)
    has_norm = options.get("norm") is not None
    vmin, vmax = asked if has_norm else limits_of(*robust_limits(numbers, usable), asked)
    shown = np.ma.MaskedArray(numbers, mask=~usable)
    image = ax.imshow(shown, vmin=vmin, vmax=vmax, **options)
    there = numbers[usable]
    image.norm.autoscale_None(there)
    if has_norm and asked != (None, None):
        image.set_clim(*limits_of(image.norm.vmin, image.norm.vmax, asked))
    below, above = (there < image.norm.vmin).any(), (there > image.norm.vmax).any()
    extend = {(0, 0): "neither", (1, 0): "min", (0, 1): "max", (1, 1): "both"}[below, above]
    # As high as the image, wherever the layout puts that.
    place = ax.inset_axes((1.04, 0.0, 0.05, 1.0), label="colour bar")
    ax.figure.colorbar(image, cax=place, extend=extend, label=picture.unit or "")


def _draw_curves(ax: Any, picture: Picture, options: dict[str, Any]) -> None:
    axis = picture.axes[0]
    values = picture.data
    if values.dtype.kind == "c":
        curves = {"real": values.real, "imaginary": values.imag}
    elif picture.vector:
        curves = {"y": values[:, 0], "x": values[:, 1]}
    elif values.ndim == 2:
        curves = {name: values[:, i] for i, name in enumerate(picture.curves)}
    else:
        curves = {"": values}
    known = {"marker": "." if axis.size <= MARKED else ""}
    for name, curve in curves.items():
        shown = np.ma.filled(curve.astype(np.float64), np.nan)
        ax.plot(axis.values, shown, **(known | {"label": name} | options))
    ax.set_xlabel(axis_label(axis))
    ax.set_ylabel(picture.unit)
    if len(curves) > 1:
        ax.legend()
