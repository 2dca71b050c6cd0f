"""Positions of the scan whose frames are alike, as clusters."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from framefold.analysis.base import Analysis, picture_of
from framefold.analysis.getroi import get_roi
from framefold.common.analysis import AnalysisResult, AnalysisResultSet
from framefold.common.buffers import BufferWrapper
from framefold.common.optional import require
from framefold.exceptions import InvalidArgumentError
from framefold.masks._disks import in_disk
from framefold.udf.masks import ApplyMasksUDF
from framefold.udf.stddev import StdDevUDF

__all__ = ["ClusterAnalysis"]

#: Parameters that have no default.
NEEDED = ("n_peaks", "n_clust", "min_dist", "cx", "cy", "ri", "ro")


class ClusterAnalysis(Analysis):
    """Clusters of positions, by how bright some pixels are there.

    Two passes: the first finds pixels on a ring whose standard deviation over the scan has a
    maximum, the second their values at all positions, relative to their means. Clusters are those
    of Ward's method, each in one piece on the scan. Needs scikit-image and scikit-learn.

    Parameters
    ----------
    dataset
        With two navigation axes, and frames of two axes.
    parameters
        ``n_clust``: how many clusters. ``cx``, ``cy``, ``ri``, ``ro``: centre, inner and outer
        radius of the ring in pixels. ``n_peaks``: at most so many pixels, those with the largest
        standard deviation. ``min_dist``: how far they are from each other, and from the border.
        ``roi``, as for :func:`framefold.analysis.getroi.get_roi`: positions that deviations are
        those of. ``delta`` is of no effect, as in the reference.

    Results
    -------
    intensity : shape ``nav``
        Numbers of clusters from 1 on.

    Raises
    ------
    InvalidArgumentError
        If a parameter is missing, or no pixel has a maximum.
    MissingLibraryError
        If scikit-image or scikit-learn are not installed.
    """

    def __init__(self, dataset: Any, parameters: Mapping[str, Any] | None = None) -> None:
        super().__init__(dataset, parameters)
        missing = [name for name in NEEDED if self.parameters.get(name) is None]
        if missing:
            raise InvalidArgumentError(f"a cluster analysis needs {', '.join(missing)}, too")
        for name, axes in (("navigation", dataset.shape.nav), ("signal", dataset.shape.sig)):
            if len(axes) != 2:
                raise InvalidArgumentError(
                    f"a cluster analysis needs two {name} axes, the data set has {tuple(axes)}; "
                    f"load the data with another shape"
                )
        self._peaks: np.ndarray[Any, Any] | None = None

    def prepare(self, run_udf: Callable[..., Any]) -> None:
        """Find the pixels."""
        search = require("skimage.feature", type(self).__name__, "maxima").peak_local_max
        given = self.parameters
        # With all digits: rounded, others would be the largest among those that are nearly equal.
        deviating = StdDevUDF(dtype=np.float64)
        found = run_udf(deviating, roi=get_roi(given, tuple(self.dataset.shape.nav)))
        deviations = found["std"].data
        y, x = np.indices(deviations.shape)
        distance = y - given["cy"], x - given["cx"]
        ring = in_disk(*distance, given["ro"]) & ~in_disk(*distance, given["ri"])
        peaks = search(
            np.where(ring, deviations, 0),
            num_peaks=given["n_peaks"],
            min_distance=given["min_dist"],
        )
        if not len(peaks):
            raise InvalidArgumentError(
                "no pixel of the ring has a maximum of the standard deviation; choose another "
                "ring, or a smaller min_dist"
            )
        self._peaks = peaks

    def get_roi(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """All positions: clusters are those of the whole scan."""
        return np.ones(tuple(self.dataset.shape.nav), dtype=bool)

    def get_udf(self) -> ApplyMasksUDF:
        """The values of the pixels, after :meth:`prepare`."""
        if self._peaks is None:
            raise InvalidArgumentError("the pixels are not known yet; use ctx.run(analysis)")
        peaks = self._peaks
        sig = tuple(self.dataset.shape.sig)

        def stack() -> Any:
            # One pixel each.
            masks = np.zeros((len(peaks), *sig), dtype=np.float32)
            masks[np.arange(len(peaks)), peaks[:, 0], peaks[:, 1]] = 1
            return masks

        return ApplyMasksUDF(mask_factories=stack, mask_count=len(peaks), use_sparse=True)

    def get_udf_results(
        self, udf_results: Mapping[str, BufferWrapper], roi: Any, damage: Any
    ) -> AnalysisResultSet:
        """The clusters."""
        who = type(self).__name__
        cluster = require("sklearn.cluster", who, "clusters")
        image = require("sklearn.feature_extraction.image", who, "clusters")
        assert self._peaks is not None
        nav = tuple(self.dataset.shape.nav)
        values = udf_results["intensity"].data.reshape((-1, len(self._peaks)))
        method = cluster.AgglomerativeClustering(
            n_clusters=self.parameters["n_clust"],
            linkage="ward",
            connectivity=image.grid_to_graph(*nav),
        )
        labels = method.fit(values / values.mean(axis=0)).labels_.reshape(nav) + 1
        return AnalysisResultSet(
            [
                AnalysisResult(
                    labels, picture_of(False), "intensity", "Labels for the clustering", "intensity"
                )
            ]
        )
