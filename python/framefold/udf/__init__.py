"""User-defined functions: the base class, and those that come with framefold."""

from framefold.udf.auto import AutoUDF
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
