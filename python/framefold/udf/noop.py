"""A UDF that reads the data and does nothing with them."""

from __future__ import annotations

from typing import Any

import numpy.typing as npt

from framefold.common._dtypes import as_dtype
from framefold.common.buffers import BufferDeclaration
from framefold.udf.base import UDF


class NoOpUDF(UDF):
    """Does nothing and has no results: for tests, and to time reading and conversion.

    Parameters
    ----------
    preferred_input_dtype
        The dtype that the data are converted to; by default they stay as they are.
    """

    def __init__(self, preferred_input_dtype: npt.DTypeLike = UDF.USE_NATIVE_DTYPE) -> None:
        super().__init__(preferred_input_dtype=preferred_input_dtype)

    def get_preferred_input_dtype(self) -> npt.DTypeLike:
        """The ``preferred_input_dtype`` parameter."""
        return as_dtype("preferred_input_dtype", self.params.preferred_input_dtype)

    def get_result_buffers(self) -> dict[str, BufferDeclaration]:
        """None."""
        return {}

    def process_tile(self, tile: Any) -> None:
        """Do nothing."""
