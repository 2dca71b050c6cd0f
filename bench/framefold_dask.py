"""framefold on a Dask cluster of its own on this machine; see ``--engine``."""

from __future__ import annotations

from udf_engine import Engine as UDFEngine


class Engine(UDFEngine):
    """framefold on a Dask cluster of its own on this machine."""

    def __init__(self) -> None:
        super().__init__("framefold", "dask")
