"""User-defined functions: the base class, and those that come with framefold."""

from framefold.udf.auto import AutoUDF
from framefold.udf.base import UDF, UDFData, UDFMeta

__all__ = ["UDF", "AutoUDF", "UDFData", "UDFMeta"]
