"""Vocabulary shared by data sets and UDFs: shapes, slices, buffers."""

from typing import TYPE_CHECKING, Any

from framefold.compat.submodules import submodule

if TYPE_CHECKING:
    from framefold.common.shape import Shape
    from framefold.common.slice import Slice, SliceUsageError

__all__ = ["Shape", "Slice", "SliceUsageError"]

#: What is imported when it is asked for, as it imports NumPy.
_LAZY = {"Shape": "shape", "Slice": "slice", "SliceUsageError": "slice"}


def __getattr__(name: str) -> Any:
    """A name of this package, or a submodule, that was not imported yet."""
    if name not in _LAZY:
        return submodule(__name__, name)
    value = globals()[name] = getattr(submodule(__name__, _LAZY[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
