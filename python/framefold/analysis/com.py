"""Centre of mass: the vector field that differential phase contrast shows."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from math import inf
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.analysis.base import Analysis, picture_of
from framefold.analysis.masks import middle
from framefold.common._booleans import boolean
from framefold.common._numbers import number
from framefold.common.analysis import AnalysisResult, AnalysisResultSet
from framefold.common.buffers import BufferWrapper
from framefold.exceptions import InvalidArgumentError
from framefold.masks._disks import in_disk
from framefold.udf._vector_field import (
    GuessResult,
    apply_correction,
    center_shifts,
    com_masks_factory,
    com_masks_generic,
    coordinate_check,
    curl_2d,
    divergence,
    guess_corrections,
    magnitude,
)
from framefold.udf.base import UDF
from framefold.udf.com import CoMUDF
from framefold.udf.masks import ApplyMasksUDF

__all__ = [
    "COMAnalysis",
    "COMResultSet",
    "GuessResult",
    "apply_correction",
    "center_shifts",
    "com_masks_factory",
    "com_masks_generic",
    "coordinate_check",
    "curl_2d",
    "divergence",
    "guess_corrections",
    "magnitude",
]


class COMResultSet(AnalysisResultSet):
    """The results of :class:`COMAnalysis`, which lists them."""


#: Each component of the field, and its description.
COMPONENTS = {"x": "x component of the center", "y": "y component of the center"}


class COMAnalysis(Analysis):
    """The centre of mass of each frame, relative to a reference point.

    Parameters
    ----------
    dataset
        With two navigation axes, and frames of two axes.
    parameters
        ``cx``, ``cy``: the reference point in pixels, by default the middle of the frame.
        ``r``, ``ri``, ``scan_rotation``, ``flip_y``: as for
        :meth:`framefold.udf.com.CoMUDF.with_params`.

    Results
    -------
    field : shape ``(2, *nav)``
        x, then y; the picture shows directions as colours.
    magnitude, divergence, curl, x, y : shape ``nav``
        In pixels, as for :class:`~framefold.udf.com.CoMUDF`.
    x_real, y_real, x_imag, y_imag
        For complex data, in place of all others.

    Raises
    ------
    InvalidArgumentError
        If the data set has other axes.
    """

    def __init__(self, dataset: Any, parameters: Mapping[str, Any] | None = None) -> None:
        super().__init__(dataset, parameters)
        for name, axes in (("navigation", dataset.shape.nav), ("signal", dataset.shape.sig)):
            if len(axes) != 2:
                raise InvalidArgumentError(
                    f"a centre of mass analysis needs two {name} axes, the data set has "
                    f"{tuple(axes)}; load the data with another shape, or use CoMUDF"
                )

    def get_udf(self) -> UDF:
        """Centres of mass; for complex data the sums that they follow from."""
        cy, cx = self._centre()
        given = self.parameters
        radius, inner = given.get("r"), given.get("ri")
        radius, inner = inf if radius is None else radius, 0.0 if inner is None else inner
        # It refuses what is no number for the sums, too.
        udf = CoMUDF.with_params(
            cy=cy,
            cx=cx,
            r=radius,
            ri=inner,
            scan_rotation=self._rotation(),
            flip_y=self._flipped(),
        )
        if np.dtype(self.dataset.dtype).kind != "c":
            return udf
        sig = tuple(self.dataset.shape.sig)
        masks = partial(moments, cy, cx, sig, radius, inner)
        return ApplyMasksUDF(mask_factories=masks, mask_count=3)

    def get_udf_results(
        self, udf_results: Mapping[str, BufferWrapper], roi: Any, damage: Any
    ) -> AnalysisResultSet:
        """The field, its components, and what follows from it."""
        if "field" not in udf_results:
            return self._complex_results(udf_results["intensity"].data)
        found = {name: udf_results[f"field_{name}"].data for name in COMPONENTS}
        field = np.stack([found["x"], found["y"]])
        whole = AnalysisResult(
            field,
            _colours,
            "field",
            "directions of the vector field as colours",
            "field",
            include_in_download=False,
        )
        of_field = {
            "magnitude": "magnitude of the vector field",
            "divergence": "divergence of the vector field",
            "curl": "curl of the 2D vector field",
        }
        parts = {key: (udf_results[key].data, desc) for key, desc in of_field.items()}
        parts |= {key: (found[key], desc) for key, desc in COMPONENTS.items()}
        return COMResultSet(
            [whole, *(_plain(values, key, key, desc) for key, (values, desc) in parts.items())]
        )

    def _complex_results(self, sums: npt.NDArray[Any]) -> AnalysisResultSet:
        cy, cx = self._centre()
        y, x = center_shifts(sums[..., 0], sums[..., 1], sums[..., 2], cy, cx)
        y, x = apply_correction(y, x, self._rotation(), self._flipped())
        parts = {"real": np.real, "imag": np.imag}
        return COMResultSet(
            [
                _plain(part(values), f"{key}_{name}", f"{key} [{name}]", COMPONENTS[key])
                for name, part in parts.items()
                for key, values in (("x", x), ("y", y))
            ]
        )

    def _centre(self) -> tuple[float, float]:
        height, width = self.dataset.shape.sig
        return middle((height, width), self.parameters)

    def _flipped(self) -> bool:
        flip_y = self.parameters.get("flip_y")
        return False if flip_y is None else boolean("flip_y", flip_y)

    def _rotation(self) -> float:
        rotation = self.parameters.get("scan_rotation")
        return 0.0 if rotation is None else number("scan_rotation", rotation, unit="degrees")


def moments(
    cy: float, cx: float, sig: tuple[int, ...], radius: float, inner: float
) -> npt.NDArray[np.float64]:
    """Masks for the sum, and for the sums of pixels times their y and x."""
    y, x = np.indices(sig, dtype=np.float64)
    inside = in_disk(y - cy, x - cx, radius)
    if inner > 0:
        inside &= ~in_disk(y - cy, x - cx, inner)
    return np.stack([inside, inside * y, inside * x])


def _plain(values: npt.NDArray[Any], key: str, title: str, desc: str) -> AnalysisResult:
    return AnalysisResult(values, picture_of(False), title, desc, key)


def _colours(field: npt.NDArray[Any]) -> npt.NDArray[np.uint8]:
    from framefold.viz import rgb_from_2dvector

    return rgb_from_2dvector(x=field[0], y=field[1])
