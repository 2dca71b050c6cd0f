"""The part of :class:`framefold.Context` that makes and runs analyses."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import numpy.typing as npt

from framefold.common._numbers import coordinate
from framefold.common._telling import tell_of
from framefold.common._tracebacks import shortened
from framefold.exceptions import InvalidArgumentError
from framefold.warnings import DetectorWarning

if TYPE_CHECKING:
    from framefold.analysis.base import Analysis
    from framefold.analysis.com import COMAnalysis
    from framefold.analysis.disk import DiskMaskAnalysis
    from framefold.analysis.masks import MasksAnalysis, SingleMaskAnalysis
    from framefold.analysis.point import PointMaskAnalysis
    from framefold.analysis.radialfourier import RadialFourierAnalysis
    from framefold.analysis.raw import PickFrameAnalysis
    from framefold.analysis.ring import RingMaskAnalysis
    from framefold.analysis.sum import SumAnalysis
    from framefold.common.analysis import AnalysisResultSet
    from framefold.common.container import MaskFactories
    from framefold.io.dataset.base import DataSet

    Single = TypeVar("Single", bound=SingleMaskAnalysis)

__all__ = ["AnalysisMethods"]


class AnalysisMethods:
    """Base of :class:`framefold.Context`: everything about analyses."""

    run_udf: Any

    def create_mask_analysis(
        self,
        factories: MaskFactories,
        dataset: DataSet,
        use_sparse: bool | None = None,
        mask_count: int | None = None,
        mask_dtype: npt.DTypeLike | None = None,
        dtype: npt.DTypeLike | None = None,
    ) -> MasksAnalysis:
        """An analysis that applies masks: :class:`~framefold.analysis.masks.MasksAnalysis`.

        Parameters
        ----------
        factories
            A function that returns a stack of masks, or a list of functions that return one mask
            each, as for :class:`~framefold.udf.masks.ApplyMasksUDF`.
        dataset
            From :meth:`open` or :meth:`load`.
        use_sparse, mask_count, mask_dtype
            As there.
        dtype
            The dtype that data should be converted to; ``preferred_dtype`` there.

        Examples
        --------
        >>> import numpy as np
        >>> import framefold as ff
        >>> ctx = ff.Context()
        >>> dataset = ctx.load("memory", data=np.ones((4, 4, 8, 8)), sig_dims=2)
        >>> diagonal = ctx.create_mask_analysis([lambda: np.eye(8)], dataset)
        >>> ctx.run(diagonal).mask_0.raw_data.shape
        (4, 4)
        """
        from framefold.analysis.masks import MasksAnalysis

        parameters = {
            "factories": factories,
            "use_sparse": use_sparse,
            "mask_count": mask_count,
            "mask_dtype": mask_dtype,
            "dtype": dtype,
        }
        return MasksAnalysis(dataset, parameters)

    def create_com_analysis(
        self,
        dataset: DataSet,
        cx: float | None = None,
        cy: float | None = None,
        mask_radius: float | None = None,
        flip_y: bool = False,
        mask_radius_inner: float | None = None,
        scan_rotation: float = 0.0,
    ) -> COMAnalysis:
        """An analysis of centres of mass: :class:`~framefold.analysis.com.COMAnalysis`.

        Parameters
        ----------
        dataset
            From :meth:`open` or :meth:`load`, with two navigation and two signal axes.
        cx, cy
            The reference point in pixels; the middle of the frame if None.
        mask_radius, mask_radius_inner
            Only pixels between these distances from it count; all if None.
        flip_y, scan_rotation
            As for :meth:`framefold.udf.com.CoMUDF.with_params`.

        Raises
        ------
        InvalidArgumentError
            If the data set has other axes, or the inner radius is not below the outer one.
        """
        from framefold.analysis.com import COMAnalysis

        parameters = {
            "cx": cx,
            "cy": cy,
            "r": mask_radius,
            "ri": mask_radius_inner,
            "flip_y": flip_y,
            "scan_rotation": scan_rotation,
        }
        return COMAnalysis(dataset, parameters)

    def create_radial_fourier_analysis(
        self,
        dataset: DataSet,
        cx: float | None = None,
        cy: float | None = None,
        ri: float | None = None,
        ro: float | None = None,
        n_bins: int | None = None,
        max_order: int | None = None,
        use_sparse: bool | None = None,
    ) -> RadialFourierAnalysis:
        """An analysis of Fourier series around rings.

        Parameters
        ----------
        dataset
            From :meth:`open` or :meth:`load`, with frames of two axes.
        cx, cy, ri, ro, n_bins, max_order, use_sparse
            As for :class:`~framefold.analysis.radialfourier.RadialFourierAnalysis`, which says
            what they are if None.
        """
        from framefold.analysis.radialfourier import RadialFourierAnalysis

        parameters = {
            "cx": cx,
            "cy": cy,
            "ri": ri,
            "ro": ro,
            "n_bins": n_bins,
            "max_order": max_order,
            "use_sparse": use_sparse,
        }
        return _checked(RadialFourierAnalysis(dataset, parameters))

    def create_disk_analysis(
        self,
        dataset: DataSet,
        cx: float | None = None,
        cy: float | None = None,
        r: float | None = None,
    ) -> DiskMaskAnalysis:
        """An analysis that sums over a disk: :class:`~framefold.analysis.disk.DiskMaskAnalysis`.

        Parameters
        ----------
        dataset
            From :meth:`open` or :meth:`load`, with frames of two axes.
        cx, cy
            The centre in pixels; the middle of the frame if None.
        r
            The radius in pixels; 0.3 of half the shorter side if None.
        """
        from framefold.analysis.disk import DiskMaskAnalysis

        return _checked(DiskMaskAnalysis(dataset, {"cx": cx, "cy": cy, "r": r}))

    def create_ring_analysis(
        self,
        dataset: DataSet,
        cx: float | None = None,
        cy: float | None = None,
        ri: float | None = None,
        ro: float | None = None,
    ) -> RingMaskAnalysis:
        """An analysis that sums over a ring: :class:`~framefold.analysis.ring.RingMaskAnalysis`.

        Parameters
        ----------
        dataset
            From :meth:`open` or :meth:`load`, with frames of two axes.
        cx, cy
            The centre in pixels; the middle of the frame if None.
        ri, ro
            Inner and outer radius in pixels; ``ro`` is half the shorter side if None, and ``ri``
            0.8 of ``ro``, which has to be finite then.

        Raises
        ------
        InvalidArgumentError
            If ``ri`` is infinite, or is to be 0.8 of infinity.
        """
        from framefold.analysis.ring import RingMaskAnalysis

        return _checked(RingMaskAnalysis(dataset, {"cx": cx, "cy": cy, "ri": ri, "ro": ro}))

    def create_point_analysis(
        self, dataset: DataSet, x: float | None = None, y: float | None = None
    ) -> PointMaskAnalysis:
        """An analysis of one pixel: :class:`~framefold.analysis.point.PointMaskAnalysis`.

        Parameters
        ----------
        dataset
            From :meth:`open` or :meth:`load`, with frames of two axes.
        x, y
            The pixel, rounded towards zero; that in the middle of the frame if None.

        Raises
        ------
        InvalidArgumentError
            If there is no such pixel.
        """
        from framefold.analysis.point import PointMaskAnalysis

        # Under the names that they have here.
        cx = None if x is None else coordinate("x", x)
        cy = None if y is None else coordinate("y", y)
        return _checked(PointMaskAnalysis(dataset, {"cx": cx, "cy": cy}))

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

    @shortened
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
        job.prepare(partial(self.run_udf, job.dataset, corrections=corrections))
        own = job.get_roi()
        if own is not None and roi is not None:
            raise InvalidArgumentError(
                f"{type(job).__name__} chooses the frames itself; leave out roi"
            )
        roi = roi if own is None else own
        tell_of(type(job).__name__, job._doubts(), DetectorWarning)
        results = self.run_udf(
            dataset=job.dataset,
            udf=job.get_udf(),
            roi=roi,
            progress=progress,
            corrections=corrections,
        )
        return job.get_udf_results(results, roi, damage=True)


def _checked(analysis: Single) -> Single:
    """An analysis whose parameters and data set fit together."""
    analysis.get_mask_factories()
    return analysis
