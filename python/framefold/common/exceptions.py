"""Exceptions of the UDF interface under the module path of the reference system."""

from __future__ import annotations

from framefold.exceptions import InvalidArgumentError, UDFRunCancelled
from framefold.exceptions import UDFError as UDFException

__all__ = ["ExecutorSpecException", "UDFException", "UDFRunCancelled"]

#: What is raised for an executor that there is not.
ExecutorSpecException = InvalidArgumentError
