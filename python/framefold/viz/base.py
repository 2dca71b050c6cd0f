"""The base class of live plots."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
import numpy.typing as npt

from framefold.exceptions import InvalidArgumentError
from framefold.results.colours import encode_image, rgb_from_2dvector, visualize_simple
from framefold.viz._channels import (
    Buffers,
    Channel,
    ChannelSpec,
    Look,
    get_plottable_2D_channels,
    nav_damage,
)
from framefold.viz._empty import empty_results

if TYPE_CHECKING:
    from framefold.io.dataset.base import DataSet
    from framefold.udf.base import UDF

__all__ = [
    "Dummy2DPlot",
    "Live2DPlot",
    "encode_image",
    "get_plottable_2D_channels",
    "rgb_from_2dvector",
    "visualize_simple",
]

#: After a drawing, a plot with a ``min_delta`` rests at least this many times as long as the
#: drawing took, so that a plot that is slow to draw takes no more than a fifth of a run.
REST = 4.0


class Live2DPlot:
    """A picture of one result that follows a run.

    Pass plots to :meth:`framefold.Context.run_udf` as ``plots=[plot]``; the run calls
    :meth:`new_data` after merges, and at the end with ``force=True``. Subclasses implement
    :meth:`display` and :meth:`update`.

    Parameters
    ----------
    dataset
        What the UDF will run on.
    udf
        The UDF whose result is plotted: the same object that is passed to ``run_udf``.
    roi
        The region of interest of the run, in any form that ``run_udf`` takes.
    channel
        What to plot:

        - None: the first result that can be plotted as it is
        - ``'name'``: the result of that name, with one or two axes after axes of length one are
          left out, or the components of vectors
        - ``('name', 1)``: one entry of a result with several per position, such as one mask of two
        - ``('name', function)``: what ``function(data)`` makes of the data of that result
        - ``function``: what ``function(udf_results, damage)`` gives: a pair of data and damage.
          It gets a dict of name to :class:`~framefold.common.buffers.BufferWrapper`, and a
          boolean array of shape ``nav`` that says which positions are covered. The damage it
          returns has the shape of the data, or is True.

        Functions may return an image ``(y, x)``, a curve ``(n,)``, vectors ``(y, x, 2)`` in the
        order (y, x), complex numbers ``(y, x)``, or RGB or RGBA colours ``(y, x, 3 or 4)``,
        uint8 or floats from 0 to 1.
    title
        The title; name of the UDF and of the channel if None.
    min_delta
        The least time in seconds between the end of a drawing and the next; that of the class,
        ``MIN_DELTA``, if None. If it is not 0, a plot also rests four times as long as the last
        drawing took. The final state is always drawn.
    udfresult
        Empty results that tell what the plot will look like: ``UDFResults`` of this UDF alone,
        or a dict of result buffers. Planned if None, which reads no pixel.

    Attributes
    ----------
    data : numpy.ma.MaskedArray
        What is drawn, masked where there are no results yet.
    title : str
        The title.
    last_update : float
        When the last drawing ended, by ``time.monotonic()``; 0 before the first.

    Raises
    ------
    InvalidArgumentError
        If the channel does not exist, or cannot be plotted; if another one is chosen for a plot
        whose figure is made for one; later, if an image has another shape than the one that is
        on the screen.
    """

    #: Seconds from one drawing to the next, unless another ``min_delta`` is given.
    MIN_DELTA: float = 0
    #: Whether what is on the screen is made for one channel, which stays.
    _keeps_channel: ClassVar[bool] = False
    #: Set by subclasses for the reference, together with ``channel``: a function of results and
    #: damage that makes the picture in place of it.
    _extract: Any = None
    #: The shape of the image on the screen, set by subclasses whose images keep theirs.
    _image_shape: tuple[int, ...] | None = None

    def __init__(
        self,
        dataset: DataSet,
        udf: UDF,
        roi: Any = None,
        channel: ChannelSpec = None,
        title: str | None = None,
        min_delta: float | None = None,
        udfresult: Any = None,
    ) -> None:
        min_delta = self.MIN_DELTA if min_delta is None else min_delta
        if not min_delta >= 0:
            raise InvalidArgumentError(f"min_delta is {min_delta}, expected seconds, 0 or more")
        self.udf = udf
        self.min_delta = min_delta
        self._nav, self._sig = tuple(dataset.shape.nav), tuple(dataset.shape.sig)
        buffers, damage = _initial(dataset, udf, roi, udfresult)
        #: Without numbers: what can be plotted.
        self._declared = buffers
        self._channel = self._chosen(channel)
        self._is_titled = title is not None
        self.title = self._own_title() if title is None else title
        self.last_update = 0.0
        self._next_update = -np.inf
        self._look = Look.IMAGE
        #: Those of the picture, if it is a result as it is.
        self._axes = self._channel.axes(buffers)
        self.data: Any
        self.data, _ = self.extract(buffers, damage)

    @property
    def channel(self) -> str | None:
        """The name of the result that is plotted; None for a function of all results.

        Where a subclass draws any picture, it can be set to what the parameter takes: the next
        drawing shows that, and a title that was not given follows it.
        """
        return self._channel.name

    @channel.setter
    def channel(self, channel: ChannelSpec) -> None:
        if self._keeps_channel:
            raise InvalidArgumentError(
                f"{type(self).__name__} draws the channel that it was made with, "
                f"{self._channel.label!r}; make another plot, with channel={channel!r}"
            )
        self._channel = self._chosen(self._extract if channel is None else channel)
        if not self._is_titled:
            self.title = self._own_title()

    @property
    def _is_of_frames(self) -> bool:
        """Whether what is on the screen is declared to have the shape of a frame, and keeps it."""
        declared = self._declared.get(self._channel.name or "")
        if declared is None or self._channel.is_computed:
            return False
        return self._keeps_channel and declared.kind == "sig"

    def _chosen(self, channel: ChannelSpec) -> Channel:
        return Channel(channel, self.udf._shown_name, self._declared)

    def _own_title(self) -> str:
        return f"{self.udf._shown_name}: {self._channel.label}"

    def get_udf(self) -> UDF:
        """The UDF whose result is plotted."""
        return self.udf

    def extract(
        self, udf_results: Buffers, damage: Any
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.bool_]]:
        """What to draw, and where it is valid.

        Parameters
        ----------
        udf_results
            Results so far: name to :class:`~framefold.common.buffers.BufferWrapper`.
        damage
            Which positions of the scan they cover: a buffer of kind ``nav``, a boolean array of
            shape ``nav``, or one bool.

        Returns
        -------
        data : numpy.ma.MaskedArray
            Axes of length one are left out; masked where ``damage`` is False.
        damage : numpy.ndarray
            bool, in the shape of the picture, that is, without an axis for components.
        """
        channel = self._channel if self._extract is None else self._chosen(self._extract)
        view = channel.extract(udf_results, nav_damage(damage, self._nav))
        self._look = view.look
        return view.data, view.damage

    def is_due(self) -> bool:
        """Whether :meth:`new_data` would draw; if not, results need not be made for it."""
        return time.monotonic() >= self._next_update

    def new_data(self, udf_results: Buffers, damage: Any, force: bool = False) -> None:
        """Draw new results if it is time to.

        Called by the run, on the thread that merges.

        Parameters
        ----------
        udf_results, damage
            As for :meth:`extract`; not looked at unless something is drawn.
        force
            Draw in any case: the results are final.
        """
        if not (force or self.is_due()):
            return
        begin = time.monotonic()
        self.data, picture_damage = self.extract(udf_results, damage)
        if self._image_shape not in (None, self.data.shape[:2]):
            raise InvalidArgumentError(
                f"the plot {self.title!r} shows an image of shape {self._image_shape}, but there "
                f"is one of shape {self.data.shape[:2]} now; make a plot with the data set of this "
                f"run"
            )
        self.update(picture_damage, force=force)
        self.last_update = time.monotonic()
        if self.min_delta > 0:
            rest = max(self.min_delta, REST * (self.last_update - begin))
            self._next_update = self.last_update + rest

    def update(self, damage: Any, force: bool = False) -> None:
        """Draw :attr:`data`.

        Parameters
        ----------
        damage
            Where it is valid: a boolean array in the shape of the picture.
        force
            The data are final.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement update")

    def display(self) -> Any:
        """Show the plot; called before the run."""
        raise NotImplementedError(f"{type(self).__name__} does not implement display")


class Dummy2DPlot(Live2DPlot):
    """A plot that draws nothing, for tests and runs without a screen."""

    def update(self, damage: Any, force: bool = False) -> None:
        """Do nothing."""

    def display(self) -> None:
        """Do nothing."""


def _initial(dataset: DataSet, udf: UDF, roi: Any, udfresult: Any) -> tuple[Buffers, Any]:
    """Results to begin with, and which positions they cover."""
    if udfresult is None:
        return empty_results(dataset, udf, roi)
    if isinstance(udfresult, Mapping):
        return udfresult, False
    return udfresult.buffers[0], udfresult.damage
