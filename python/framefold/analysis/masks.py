"""Products with masks: virtual detectors."""

from __future__ import annotations

from collections.abc import Mapping
from math import inf
from typing import Any, ClassVar

import numpy as np

from framefold import _engine
from framefold.analysis.base import Analysis, scan_results
from framefold.common._numbers import FARTHEST, coordinate, number, radius_of
from framefold.common.analysis import AnalysisResultSet
from framefold.common.buffers import BufferWrapper
from framefold.common.container import MaskFactories
from framefold.exceptions import InvalidArgumentError
from framefold.udf.masks import ApplyMasksUDF

__all__ = ["MasksAnalysis", "MasksResultSet", "SingleMaskAnalysis", "SingleMaskResultSet"]


class MasksResultSet(AnalysisResultSet):
    """The results of :class:`MasksAnalysis`, which lists them."""


class SingleMaskResultSet(AnalysisResultSet):
    """The results of analyses with one mask, which list them."""


class MasksAnalysis(Analysis):
    """The scalar product of each frame with each of a number of masks.

    Parameters
    ----------
    dataset
        What is analysed.
    parameters
        ``factories``, as ``mask_factories`` of :class:`~framefold.udf.masks.ApplyMasksUDF`, and
        if need be ``use_sparse``, ``mask_count``, ``mask_dtype``, and ``dtype``, which is called
        ``preferred_dtype`` there.

    Results
    -------
    mask_0, mask_1, … : shape ``nav``
        One for each mask. For complex numbers the magnitude, with ``mask_0_log``,
        ``mask_0_real``, ``mask_0_imag``, ``mask_0_angle`` and ``mask_0_complex``.
    """

    def get_mask_factories(self) -> MaskFactories:
        """The function, or functions, that make the masks."""
        factories: MaskFactories = self.parameters["factories"]
        return factories

    def get_udf(self) -> ApplyMasksUDF:
        """Products with the masks."""
        given = self.parameters
        return ApplyMasksUDF(
            mask_factories=self.get_mask_factories(),
            use_sparse=given.get("use_sparse"),
            mask_count=given.get("mask_count"),
            mask_dtype=given.get("mask_dtype"),
            preferred_dtype=given.get("dtype"),
        )

    def get_udf_results(
        self, udf_results: Mapping[str, BufferWrapper], roi: Any, damage: Any
    ) -> AnalysisResultSet:
        """One result for each mask, or several if they are complex."""
        products = udf_results["intensity"].data
        return MasksResultSet(
            [
                result
                for index in range(products.shape[-1])
                for result in scan_results(
                    products[..., index],
                    f"mask_{index}",
                    f"mask {index}",
                    f"integrated intensity for mask {index}",
                    scales=False,
                )
            ]
        )


#: The reference has two classes, of which scripts derive from either.
BaseMasksAnalysis = MasksAnalysis


class SingleMaskAnalysis(MasksAnalysis):
    """Base of analyses with one mask that follows from numbers.

    Results
    -------
    intensity, intensity_log : shape ``nav``
        The product, to be seen on a linear and on a logarithmic scale; the numbers are the same.
    intensity_real, intensity_imag, intensity_angle, intensity_complex
        For complex data, where the first two are the magnitude.
    """

    #: What one integrates over, for descriptions.
    shape_name: ClassVar[str] = "mask"

    def get_udf_results(
        self, udf_results: Mapping[str, BufferWrapper], roi: Any, damage: Any
    ) -> AnalysisResultSet:
        """The product on all scales."""
        product = udf_results["intensity"].data[..., 0]
        desc = f"intensity of the integration over the selected {self.shape_name}"
        return SingleMaskResultSet(scan_results(product, "intensity", "intensity", desc))

    def _doubts(self) -> list[str]:
        sig = tuple(self.dataset.shape.sig)
        if len(sig) != 2:
            return []
        cy, cx = self.centre()
        return _engine.doubts("com", {"cy": cy, "cx": cx}, sig)

    def frame_shape(self) -> tuple[int, int]:
        """Height and width of a frame.

        Raises
        ------
        InvalidArgumentError
            If frames do not have two axes.
        """
        sig = tuple(self.dataset.shape.sig)
        if len(sig) != 2:
            raise InvalidArgumentError(
                f"{type(self).__name__} needs frames with two axes, these have shape {sig}; load "
                f"the data with a sig_shape of two axes"
            )
        return sig

    def centre(self) -> tuple[float, float]:
        """``cy`` and ``cx``, the middle of the frame by default."""
        return middle(self.frame_shape(), self.parameters)

    def number(self, name: str, default: float) -> float:
        """A radius among the parameters, or the default if it is left out or None."""
        value = self.parameters.get(name)
        if value is None:
            return default
        found = radius_of(name, value)
        return found if found == inf else number(name, value, 0, FARTHEST, "pixels")


def middle(sig: tuple[int, int], parameters: Mapping[str, Any]) -> tuple[float, float]:
    """``cy`` and ``cx`` of ``parameters``, or half of the frame where they are left out."""
    cy, cx = parameters.get("cy"), parameters.get("cx")
    return (
        sig[0] / 2 if cy is None else coordinate("cy", cy),
        sig[1] / 2 if cx is None else coordinate("cx", cx),
    )


#: The dtype of masks that follow from numbers.
MASK_DTYPE = np.float32
