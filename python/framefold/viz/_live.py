"""The live plots of a run: making them, and telling them of new data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from framefold.exceptions import InvalidArgumentError
from framefold.viz._channels import all_channels
from framefold.viz.base import Live2DPlot

if TYPE_CHECKING:
    from framefold.run.plan import Run
    from framefold.run.results import UDFResults


class RunPlots:
    """The plots of one run.

    Parameters
    ----------
    run
        The run.
    plots
        As for :meth:`framefold.Context.run_udf`: True, a list of channels, a list of such lists,
        or a list of plots.
    plot_class
        What is made for channels.
    """

    def __init__(self, run: Run, plots: Any, plot_class: Any) -> None:
        self._run = run
        self._plot_class = plot_class
        #: Either all of them made by the caller, or for each UDF the channels to make them for.
        self._plots: list[tuple[int, Any]] = []
        self._channels: list[list[Any]] | None = None
        if plots is True:
            return
        if isinstance(plots, str) or not isinstance(plots, Sequence):
            raise InvalidArgumentError(
                f"plots is {plots!r}; use True, a list of channels, a list of channels for each "
                f"UDF, or a list of plots"
            )
        plots = list(plots)
        if plots and all(hasattr(plot, "new_data") for plot in plots):
            self._plots = [(self._index_of(plot), plot) for plot in plots]
            self._channels = [[] for _ in run.udfs]
        else:
            self._channels = self._nested(plots)

    def begin(self, results: UDFResults) -> None:
        """Make and show the plots that channels stand for; ``results`` are those before any merge.

        Raises
        ------
        InvalidArgumentError
            If there is no such channel.
        """
        for index, udf in enumerate(self._run.udfs):
            if self._channels is not None and not self._channels[index]:
                continue
            with np.errstate(all="ignore"):  # means of nothing, ratios of zeros
                buffers = results.buffers[index]
            asked = None if self._channels is None else self._channels[index]
            for channel in all_channels(buffers, asked):
                plot = self._plot_class(
                    self._run.dataset,
                    udf=udf,
                    roi=self._run.roi,
                    channel=channel,
                    udfresult=buffers,
                )
                self._plots.append((index, plot))
                plot.display()

    def update(self, results: UDFResults, *, last: bool) -> None:
        """Pass on what was merged."""
        damage = results.damage.data
        for index, plot in self._plots:
            # Results need not be computed for plots that would not look at them.
            is_due = getattr(plot, "is_due", None)
            if last or is_due is None or is_due():
                plot.new_data(results.buffers[index], damage, force=last)

    def _index_of(self, plot: Any) -> int:
        udf = plot.get_udf() if hasattr(plot, "get_udf") else plot.udf
        shape = self._run.dataset.shape
        nav, sig = tuple(shape.nav), tuple(shape.sig)
        if isinstance(plot, Live2DPlot) and plot._nav != nav:
            raise InvalidArgumentError(
                f"the plot {plot.title!r} was made for a scan of shape {plot._nav}, but this run "
                f"is over one of shape {nav}; make a plot with the data set of this run"
            )
        if isinstance(plot, Live2DPlot) and plot._is_of_frames and plot._sig != sig:
            raise InvalidArgumentError(
                f"the plot {plot.title!r} was made for frames of shape {plot._sig}, but this run "
                f"is over those of shape {sig}; make a plot with the data set of this run"
            )
        for index, running in enumerate(self._run.udfs):
            if running is udf:
                return index
        raise InvalidArgumentError(
            f"a plot belongs to {udf!r}, which is not among the UDFs that are run; make it with "
            f"the same object that is passed as udf="
        )

    def _nested(self, plots: list[Any]) -> list[list[Any]]:
        """For each UDF the channels to plot."""
        if all(isinstance(entry, list) for entry in plots):
            missing = len(self._run.udfs) - len(plots)
            if missing < 0:
                raise InvalidArgumentError(
                    f"plots has lists of channels for {len(plots)} UDFs, but "
                    f"{len(self._run.udfs)} are run; pass one list for each, empty for none"
                )
            return [*plots, *([] for _ in range(missing))]
        if len(self._run.udfs) > 1:
            raise InvalidArgumentError(
                f"plots is one list of channels, but {len(self._run.udfs)} UDFs are run; pass a "
                f"list of such lists, one for each UDF"
            )
        return [plots]
