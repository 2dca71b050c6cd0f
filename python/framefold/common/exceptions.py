"""Exceptions of the UDF interface under the module path of the reference system."""

from framefold.exceptions import ExecutorSpecException, UDFException, UDFRunCancelled

__all__ = ["ExecutorSpecException", "UDFException", "UDFRunCancelled"]
