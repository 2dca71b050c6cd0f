"""Whether a function keeps to the rules of the interface: tried out, and said in words."""

from framefold.checking.report import Finding, UDFReport
from framefold.checking.udf import check_udf

__all__ = ["Finding", "UDFReport", "check_udf"]
