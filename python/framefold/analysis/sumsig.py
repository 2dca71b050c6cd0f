"""Sum of each frame."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

from framefold.analysis.base import Analysis, picture_of
from framefold.common.analysis import AnalysisResult, AnalysisResultSet
from framefold.common.buffers import BufferWrapper
from framefold.udf.base import UDF
from framefold.udf.sumsigudf import SumSigUDF

__all__ = ["ScanAnalysis", "SumSigAnalysis"]


class ScanAnalysis(Analysis):
    """Base of analyses whose UDF gives one number per frame.

    Results
    -------
    intensity : shape ``nav``
    """

    #: What the number is.
    description: ClassVar[str] = ""

    def get_udf_results(
        self, udf_results: Mapping[str, BufferWrapper], roi: Any, damage: Any
    ) -> AnalysisResultSet:
        """The numbers."""
        values = udf_results["intensity"].data
        return AnalysisResultSet(
            [AnalysisResult(values, picture_of(False), "intensity", self.description, "intensity")]
        )


class SumSigAnalysis(ScanAnalysis):
    """Sum of all pixels of each frame; takes no parameters."""

    description: ClassVar[str] = "sum of each frame"

    def get_udf(self) -> UDF:
        """Sum of each frame."""
        return SumSigUDF()
