"""Where a matplotlib figure is shown: in a notebook, in a window, or nowhere."""

from __future__ import annotations

import warnings
from io import BytesIO
from typing import Any, Protocol

from framefold.common.optional import require


class Screen(Protocol):
    """Shows a figure and keeps it up to date."""

    figure: Any

    def show(self) -> None:
        """Show the figure; called once, after it was drawn for the first time."""

    def refresh(self) -> None:
        """Show what changed. Does not wait, and does nothing if the window was closed."""


def open_screen(who: str) -> Screen:
    """An empty figure on the screen that goes with matplotlib's current backend.

    Parameters
    ----------
    who
        The class that draws, for messages.
    """
    matplotlib = require("matplotlib", who, "drawing")
    backend = matplotlib.get_backend().lower()
    if "inline" in backend:
        return InlineScreen()
    plt = require("matplotlib.pyplot", who, "drawing")
    with plt.ioff():  # or some backends would show an empty figure at once
        figure = plt.figure()
    if "ipympl" in backend or "nbagg" in backend or backend == "widget":
        return WidgetScreen(figure)
    if getattr(type(figure.canvas), "required_interactive_framework", None) is not None:
        return WindowScreen(figure)
    plt.close(figure)  # pyplot would keep it for ever
    return NoScreen(figure)


class InlineScreen:
    """A picture in a notebook that is replaced with every refresh.

    The figure is unknown to pyplot, which would show it once more at the end of the cell.
    """

    def __init__(self) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        self.figure = Figure()
        FigureCanvasAgg(self.figure)
        self._handle: Any = None

    def show(self) -> None:
        """Add the picture to the output of the cell."""
        display = require("IPython.display", "the inline backend", "showing pictures").display
        self._handle = display(self._picture(), display_id=True)

    def refresh(self) -> None:
        """Replace the picture."""
        if self._handle is not None:  # None outside of a notebook
            self._handle.update(self._picture())

    def _picture(self) -> Any:
        image = require("IPython.display", "the inline backend", "showing pictures").Image
        buffer = BytesIO()
        self.figure.savefig(buffer, format="png")
        return image(data=buffer.getvalue(), format="png")


class WidgetScreen:
    """An interactive figure in a notebook (ipympl, nbagg)."""

    def __init__(self, figure: Any) -> None:
        self.figure = figure

    def show(self) -> None:
        """Add the widget to the output of the cell."""
        if hasattr(self.figure.canvas, "comm"):  # the canvas itself is the widget: ipympl
            require("IPython.display", "ipympl", "showing figures").display(self.figure.canvas)
        else:
            self.figure.canvas.manager.show()

    def refresh(self) -> None:
        """Draw at once: requests to draw later are not served while a cell runs."""
        self.figure.canvas.draw()


class WindowScreen:
    """A window on the desktop."""

    def __init__(self, figure: Any) -> None:
        self.figure = figure

    def show(self) -> None:
        """Open the window, without waiting until it is closed."""
        with warnings.catch_warnings():
            # "cannot be shown" where there is no desktop after all; saving still works.
            warnings.simplefilter("ignore", UserWarning)
            self.figure.show()
        self.refresh()

    def refresh(self) -> None:
        """Draw, and let the window handle what the user did meanwhile."""
        from matplotlib import pyplot as plt

        if plt.fignum_exists(self.figure.number):
            self.figure.canvas.draw_idle()
            self.figure.canvas.flush_events()


class NoScreen:
    """A figure that can only be saved."""

    def __init__(self, figure: Any) -> None:
        self.figure = figure

    def show(self) -> None:
        """Do nothing."""

    def refresh(self) -> None:
        """Do nothing: the figure is drawn when it is saved."""
