"""The part of :class:`framefold.Context` that makes and runs analyses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from framefold.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from framefold.analysis.base import Analysis
    from framefold.analysis.raw import PickFrameAnalysis
    from framefold.analysis.sum import SumAnalysis
    from framefold.common.analysis import AnalysisResultSet
    from framefold.io.dataset.base import DataSet

__all__ = ["AnalysisMethods"]


class AnalysisMethods:
    """Base of :class:`framefold.Context`: everything about analyses."""

    run_udf: Any

    def create_sum_analysis(self, dataset: DataSet) -> SumAnalysis:
        """An analysis that sums frames: :class:`~framefold.analysis.sum.SumAnalysis`.

        Parameters
        ----------
        dataset
            From :meth:`open` or :meth:`load`.

        Examples
        --------
        >>> import numpy as np
        >>> import framefold as ff
        >>> ctx = ff.Context()
        >>> dataset = ctx.load("memory", data=np.ones((4, 4, 8, 8)), sig_dims=2)
        >>> result = ctx.run(ctx.create_sum_analysis(dataset=dataset))
        >>> result.intensity.raw_data[0, 0]
        np.float64(16.0)
        """
        from framefold.analysis.sum import SumAnalysis

        return SumAnalysis(dataset)

    def create_pick_analysis(
        self, dataset: DataSet, x: int, y: int | None = None, z: int | None = None
    ) -> PickFrameAnalysis:
        """An analysis that gives one frame: :class:`~framefold.analysis.raw.PickFrameAnalysis`.

        Parameters
        ----------
        dataset
            From :meth:`open` or :meth:`load`, with one to three navigation axes.
        x, y, z
            The position, counted along the last, the second to last and the third to last
            navigation axis; as many as the data set has.

        Raises
        ------
        InvalidArgumentError
            If there is no such position.
        """
        from framefold.analysis.raw import PickFrameAnalysis

        analysis = PickFrameAnalysis(dataset, {"x": x, "y": y, "z": z})
        analysis.get_roi()
        return analysis

    def run(
        self, job: Analysis, roi: Any = None, progress: Any = False, corrections: Any = None
    ) -> AnalysisResultSet:
        """Run an analysis.

        Parameters
        ----------
        job
            From one of the ``create_…_analysis`` methods.
        roi, progress, corrections
            As for :meth:`run_udf`. Analyses that choose the frames themselves take no ``roi``.

        Returns
        -------
        AnalysisResultSet
            The results by name, with pictures; each class of analysis lists its own.
        """
        from framefold.analysis.base import Analysis

        if not isinstance(job, Analysis):
            raise InvalidArgumentError(
                f"{job!r} is not an analysis; use one of the create_…_analysis methods, "
                f"or run_udf for UDFs"
            )
        own = job.get_roi()
        if own is not None and roi is not None:
            raise InvalidArgumentError(
                f"{type(job).__name__} chooses the frames itself; leave out roi"
            )
        roi = roi if own is None else own
        results = self.run_udf(
            dataset=job.dataset,
            udf=job.get_udf(),
            roi=roi,
            progress=progress,
            corrections=corrections,
        )
        return job.get_udf_results(results, roi, damage=True)
