"""Live plots with matplotlib."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold.common.axes import Axis
from framefold.results.colours import (
    opaque_colours,
    robust_limits,
    vector_colours,
)
from framefold.results.plots import (
    MARKED,
    OF_NUMBERS,
    asked_limits,
    aspect_of,
    draw_wheel,
    limits_of,
    literal,
    scale_bar,
)
from framefold.viz._channels import ChannelSpec, Look, curve_rows, curves, picture_mask
from framefold.viz._screens import Screen, open_screen
from framefold.viz.base import Live2DPlot

if TYPE_CHECKING:
    from framefold.io.dataset.base import DataSet
    from framefold.udf.base import UDF


#: Where axes of curves and scales of colours end at most: matplotlib computes with multiples.
FARTHEST = 1e300


class MPLLive2DPlot(Live2DPlot):
    """A live plot drawn by matplotlib, in a notebook or in a window.

    The backend that matplotlib is set to decides: a picture in the notebook (``inline``), an
    interactive figure in the notebook (``ipympl``, ``nbagg``), a window, or, where there is no
    screen, a figure that can only be saved: ``plot.fig.savefig("plot.png")``.

    Parameters
    ----------
    dataset, udf, roi, channel, title, min_delta, udfresult
        As for :class:`~framefold.viz.base.Live2DPlot`.
    **kwargs
        Passed on to :meth:`matplotlib.axes.Axes.imshow`, or to
        :meth:`matplotlib.axes.Axes.plot` for curves. ``vmin`` and ``vmax``, or
        ``clim``, take the place of the limits that follow the data.

    Attributes
    ----------
    fig : matplotlib.figure.Figure or None
        The figure; None before :meth:`display`.
    axes : matplotlib.axes.Axes or None
        Where the data are drawn.
    im_obj : matplotlib.image.AxesImage or None
        The image; None for curves.
    lines : list of matplotlib.lines.Line2D
        The curves.
    """

    MIN_DELTA = 0.5
    _keeps_channel = True

    def __init__(
        self,
        dataset: DataSet,
        udf: UDF,
        roi: Any = None,
        channel: ChannelSpec = None,
        title: str | None = None,
        min_delta: float | None = None,
        udfresult: Any = None,
        **kwargs: Any,
    ) -> None:
        super().__init__(
            dataset,
            udf,
            roi=roi,
            channel=channel,
            title=title,
            min_delta=min_delta,
            udfresult=udfresult,
        )
        self.kwargs = kwargs
        self.fig: Any = None
        self.axes: Any = None
        self.im_obj: Any = None
        self.lines: list[Any] = []
        self._wheel: Any = None
        self._has_scale = False
        self._screen: Screen | None = None
        self._options = dict(kwargs)
        self._limits: tuple[float | None, float | None] = (None, None)
        if self._look is not Look.CURVES:
            self._options, self._limits = asked_limits(kwargs)

    def display(self) -> None:
        """Make the figure and show it.

        Raises
        ------
        MissingLibraryError
            If there is no matplotlib.
        """
        screen = open_screen(type(self).__name__)
        self.fig = screen.figure
        self.axes = self.fig.add_subplot()
        self.axes.set_title(self.title)
        if self._look is Look.CURVES:
            self._start_curves()
        else:
            self._start_image()
        self._draw(picture_mask(self.data, self._look))
        self._screen = screen
        screen.show()

    def update(self, damage: Any, force: bool = False) -> None:
        """Draw :attr:`data`; shows the plot if it was not shown yet."""
        if self._screen is None:
            self.display()
        self._draw(np.asarray(damage, dtype=bool))
        assert self._screen is not None
        self._screen.refresh()

    def _draw(self, damage: npt.NDArray[np.bool_]) -> None:
        if self._look is Look.CURVES:
            self._draw_curves()
        elif self._look is Look.VECTORS:
            picture, vmax = vector_colours(self.data, damage, self._limits[1])
            self.im_obj.set_data(picture)
            if damage.any():
                self._wheel.set_title(f"length {vmax:.3g}", fontsize="small")
        elif self._look is Look.COLOURS:
            self.im_obj.set_data(opaque_colours(self.data, damage))
        else:
            self._draw_numbers(damage)

    def _start_image(self) -> None:
        height, width = self._image_shape = self.data.shape[:2]
        y, x = axes = self._axes if len(self._axes) == 2 else (_counted(height), _counted(width))
        aspect = aspect_of(axes)
        # Here, the numbers on the sides are those of pixels.
        aspect = aspect if isinstance(aspect, str) else aspect * abs(y.scale / x.scale)
        options = {"interpolation": "nearest", "aspect": aspect} | self._options
        if self._look is Look.IMAGE:
            norm = options.get("norm")
            vmin, vmax = limits_of(0.0, 1.0, self._limits) if norm is None else self._limits
            # Those of a norm are fixed, too; it has others as soon as there is an image.
            low, high = self._limits
            self._limits = getattr(norm, "vmin", low), getattr(norm, "vmax", high)
            blank = np.ones((height, width))
            self.im_obj = self.axes.imshow(blank, vmin=vmin, vmax=vmax, **options)
            if norm is None:
                self._draw_scale()
        else:
            for name in OF_NUMBERS:
                options.pop(name, None)
            start = np.zeros((height, width, 4), dtype=np.uint8)
            self.im_obj = self.axes.imshow(start, **options)
        if self._look is Look.VECTORS:
            self._draw_wheel()
        if (
            len(self._axes) == 2
            and "extent" not in self.kwargs
            and not scale_bar(self.axes, self._axes)
        ):
            self.axes.set_ylabel(literal(self._axes[0].name))
            self.axes.set_xlabel(literal(self._axes[1].name))

    def _draw_numbers(self, damage: npt.NDArray[np.bool_]) -> None:
        numbers = np.ma.getdata(self.data)
        numbers = numbers.astype(np.float64 if numbers.dtype.itemsize > 2 else np.float32)
        with np.errstate(invalid="ignore"):
            usable = damage & np.isfinite(numbers)
            self.im_obj.set_data(np.ma.MaskedArray(numbers, mask=~usable))
            # What the scale cannot show, such as zero on a logarithmic one, sets no limit.
            usable &= _on_scale(self.im_obj.norm, numbers)
        if not usable.any():
            return
        if None in self._limits:
            low, high = np.clip(robust_limits(numbers, usable), -FARTHEST, FARTHEST)
            ends = limits_of(low, high, self._limits)
            if self._limits == (None, None):
                # As the norm would have it: one with a centre has others.
                self.im_obj.norm.autoscale(np.array(ends))
            else:
                self.im_obj.set_clim(*ends)
        if not self._has_scale:
            self._draw_scale()

    def _draw_scale(self) -> None:
        """Say which colour is which number; a norm of the user's can be asked from data on."""
        options = {}
        aspect = self.axes.get_aspect()
        if aspect != "auto":
            # As high as the image, whose height follows from the shape of the data.
            height, width = self.data.shape
            options = {"fraction": 0.046 * aspect * height / width, "pad": 0.04}
        self.fig.colorbar(self.im_obj, ax=self.axes, **options)
        self._has_scale = True

    def _start_curves(self) -> None:
        n_points = self.data.shape[0]
        names = list(curves(self.data))
        for name in names:
            options = {"label": name, "marker": "." if n_points <= MARKED else ""} | self._options
            blank = np.full(n_points, np.nan)
            self.lines += self.axes.plot(np.arange(n_points), blank, **options)
        self.axes.set_xlim(-0.5, n_points - 0.5)
        if len(names) > 1:
            self.axes.legend(loc="upper right")
        if len(self._axes) == 1:
            self.axes.set_xlabel(literal(self._axes[0].name))

    def _draw_curves(self) -> None:
        values = curve_rows(self.data)
        values[~np.isfinite(values)] = np.nan
        for line, curve in zip(self.lines, values, strict=True):
            line.set_ydata(curve)
        if not np.isnan(values).all():
            ends = np.nanmin(values), np.nanmax(values)
            low, high = map(float, np.clip(ends, -FARTHEST, FARTHEST))
            margin = 0.05 * (high - low) or 0.05 * (abs(low) or 1.0)
            self.axes.set_ylim(low - margin, high + margin)

    def _draw_wheel(self) -> None:
        """What direction which hue is, and, as its title, what length is full saturation."""
        self.fig.subplots_adjust(right=0.78)
        self._wheel = self.fig.add_axes((0.81, 0.58, 0.18, 0.26))
        names = ("Re", "Im") if self.data.dtype.kind == "c" else ("x", "y")
        draw_wheel(self._wheel, *names, self.im_obj.origin)


def _counted(size: int) -> Axis:
    """An axis of which nothing is known."""
    return Axis("", "", 1.0, 0.0, size, "nav")


def _on_scale(norm: Any, numbers: npt.NDArray[Any]) -> npt.NDArray[np.bool_]:
    """Which numbers a colour scale can show at all."""
    from matplotlib.colors import LogNorm

    return numbers > 0 if isinstance(norm, LogNorm) else np.full(numbers.shape, True)
