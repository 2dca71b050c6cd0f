"""framefold with its default executor; see ``--engine``."""

from __future__ import annotations

from udf_engine import Engine as UDFEngine


class Engine(UDFEngine):
    """framefold with its default executor."""

    def __init__(self) -> None:
        super().__init__("framefold", "auto")
