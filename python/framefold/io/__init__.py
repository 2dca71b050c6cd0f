"""Reading of data sets."""

from typing import Any

from framefold.compat.submodules import submodule


def __getattr__(name: str) -> Any:
    """A submodule that was not imported yet."""
    return submodule(__name__, name)
