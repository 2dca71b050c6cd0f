"""User-defined functions: the base class, and those that come with framefold."""

from typing import TYPE_CHECKING, Any

from framefold.compat.submodules import submodule
from framefold.udf.base import (
    UDF,
    UDFData,
    UDFFrameMixin,
    UDFMergeAllMixin,
    UDFMeta,
    UDFPartitionMixin,
    UDFPostprocessMixin,
    UDFPreprocessMixin,
    UDFRunCancelled,
    UDFTileMixin,
    check_cast,
)

if TYPE_CHECKING:
    from framefold.udf.auto import AutoUDF

__all__ = [
    "UDF",
    "AutoUDF",
    "UDFData",
    "UDFFrameMixin",
    "UDFMergeAllMixin",
    "UDFMeta",
    "UDFPartitionMixin",
    "UDFPostprocessMixin",
    "UDFPreprocessMixin",
    "UDFRunCancelled",
    "UDFTileMixin",
    "check_cast",
]


def __getattr__(name: str) -> Any:
    """The UDF behind ``Context.map``, which derives from the base class; submodules."""
    if name == "AutoUDF":
        from framefold.udf.auto import AutoUDF

        return AutoUDF
    return submodule(__name__, name)
