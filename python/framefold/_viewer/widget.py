"""The viewer as a widget; imports anywidget, which is optional."""

from __future__ import annotations

from typing import Any

import anywidget

from framefold import _engine
from framefold._viewer.connection import Connection

__all__ = ["ViewerWidget"]

_SCRIPT, _STYLE = _engine.viewer_page()


class ViewerWidget(anywidget.AnyWidget):
    """The viewer of a data set; made by :func:`framefold.view`.

    What is shown stays in the notebook's page: the widget holds sessions of the engine, and closes
    them with :meth:`close` or when it is garbage collected.
    """

    _esm = _SCRIPT
    _css = _STYLE

    def __init__(self, host: _engine.ViewerHost) -> None:
        super().__init__()
        self._connection = Connection(host, self._pass_on)
        self.on_msg(_receive)

    def close(self) -> None:
        """End it, and all that is computed for it; more calls do nothing."""
        self._connection.close()
        super().close()

    def _pass_on(self, content: dict[str, Any], buffers: list[bytes]) -> None:
        self.send(content, buffers)


def _receive(widget: ViewerWidget, content: Any, buffers: list[Any]) -> None:
    # No bound method, which would keep the widget alive.
    widget._connection.receive(content, buffers)
