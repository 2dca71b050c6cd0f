"""Names of the single methods of a UDF, for code that lists them as base classes.

A UDF does not need them: implementing the method is enough. They say in which form a class
processes the data: ``class Mine(UDFFrameMixin, UDF)``.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt


class UDFFrameMixin:
    """A UDF that processes frames."""

    def process_frame(self, frame: npt.NDArray[Any]) -> None:
        """Process one frame of shape ``sig``."""
        raise _missing(self, "process_frame")


class UDFTileMixin:
    """A UDF that processes tiles."""

    def process_tile(self, tile: npt.NDArray[Any]) -> None:
        """Process a tile of shape ``(depth, *sig part)``."""
        raise _missing(self, "process_tile")


class UDFPartitionMixin:
    """A UDF that processes partitions."""

    def process_partition(self, partition: npt.NDArray[Any]) -> None:
        """Process a partition of shape ``(frames, *sig)``."""
        raise _missing(self, "process_partition")


class UDFPreprocessMixin:
    """A UDF that initializes its result buffers."""

    def preprocess(self) -> None:
        """Initialize result buffers."""
        raise _missing(self, "preprocess")


class UDFPostprocessMixin:
    """A UDF that finishes its partitions."""

    def postprocess(self) -> None:
        """Finish a partition."""
        raise _missing(self, "postprocess")


class UDFMergeAllMixin:
    """A UDF that can merge all partial results in one step."""

    def merge_all(self, ordered_results: Mapping[Any, Any]) -> Mapping[str, npt.ArrayLike]:
        """Merge partial results, given as slice to results, in order of the slices."""
        raise _missing(self, "merge_all")


def check_cast(fromvar: npt.ArrayLike, tovar: npt.ArrayLike) -> None:
    """Check that ``fromvar`` can be assigned to ``tovar`` without a loss of another kind.

    Raises
    ------
    TypeError
        If NumPy's rule ``'safe'`` does not allow it.
    """
    source, target = np.result_type(fromvar), np.result_type(tovar)
    if not np.can_cast(source, target, casting="safe"):
        raise TypeError(f"values of dtype {source} cannot be kept safely in an array of {target}")


def _missing(udf: object, method: str) -> NotImplementedError:
    return NotImplementedError(f"{type(udf).__name__} does not implement {method}")
