"""framefold in worker processes; see ``--engine``."""

from __future__ import annotations

from udf_engine import Engine as UDFEngine


class Engine(UDFEngine):
    """framefold in worker processes."""

    def __init__(self) -> None:
        super().__init__("framefold", "processes")
