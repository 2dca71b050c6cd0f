"""Fourier series of the intensity around rings: symmetry, and deviations from it."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from itertools import product
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold import masks
from framefold.analysis.base import picture_of
from framefold.analysis.masks import SingleMaskAnalysis
from framefold.common import _memory
from framefold.common._numbers import count
from framefold.common.analysis import AnalysisResult, AnalysisResultSet
from framefold.common.buffers import BufferWrapper
from framefold.common.container import MaskFactories
from framefold.udf.masks import ApplyMasksUDF

__all__ = ["RadialFourierAnalysis", "RadialFourierResultSet"]


#: What part of the strongest modulus an order needs in order to be called dominant.
WEAK = 0.2


class RadialFourierResultSet(AnalysisResultSet):
    """The results of :class:`RadialFourierAnalysis`, which lists them."""


class RadialFourierAnalysis(SingleMaskAnalysis):
    """Coefficients of a Fourier series over the angle, for each of a number of rings.

    Parameters
    ----------
    dataset
        With frames of two axes.
    parameters
        ``cx``, ``cy``: the centre in pixels, by default the middle of the frame. ``ri``, ``ro``:
        inner and outer radius of all rings together, by default from the centre to the farthest
        corner. ``n_bins``: how many rings of equal width, by default 1. ``max_order``: the
        highest order, by default 24. ``use_sparse``: as for
        :class:`~framefold.udf.masks.ApplyMasksUDF`.

    Results
    -------
    dominant_0, … : shape ``nav``, int64
        For each ring the order from 1 on that is strongest; 0 where there is no result, where
        ``max_order`` is 0, and where it is weak: below a fifth of the strongest that the ring has
        anywhere on the scan.
    absolute_0_0, … : shape ``nav``
        Modulus, for each ring and order; order 0 is the sum over the ring.
    phase_0_0, … : shape ``nav``
        Argument, in radians.
    complex_0_0, … : shape ``nav``
        The coefficients: sums over the ring times ``exp(i order angle)``, where the angle is
        that of :func:`framefold.masks.polar_map`. From order 1 on they are relative to the
        modulus of order 0, unless that is 0.

    Notes
    -----
    ``raw_results`` of the set are the sums themselves, complex, of shape
    ``(n_bins, max_order + 1, *nav)``.
    """

    def get_mask_factories(self) -> MaskFactories:
        """Ring after ring, all orders."""
        height, width = self.frame_shape()
        cy, cx = self.centre()
        inner = self.number("ri", 0)
        outer = self.number("ro", masks.bounding_radius(cx, cy, width, height))
        n_bins, highest = self.n_bins(), self.orders()[-1]
        _memory.check((n_bins, highest + 1, height, width), np.complex128)
        return partial(fourier_masks, cx, cy, width, height, inner, outer, n_bins, highest)

    def n_bins(self) -> int:
        """The number of rings."""
        given = self.parameters.get("n_bins")
        return 1 if given is None else count("n_bins", given, 1)

    def orders(self) -> range:
        """All orders."""
        given = self.parameters.get("max_order")
        return range((24 if given is None else count("max_order", given)) + 1)

    def get_udf(self) -> ApplyMasksUDF:
        """Products with all masks."""
        return ApplyMasksUDF(
            mask_factories=self.get_mask_factories(),
            use_sparse=self.parameters.get("use_sparse"),
            mask_count=self.n_bins() * len(self.orders()),
            mask_dtype=np.complex64,
        )

    def get_udf_results(
        self, udf_results: Mapping[str, BufferWrapper], roi: Any, damage: Any
    ) -> AnalysisResultSet:
        """Strongest orders and moduli, then phases, then coefficients."""
        products = udf_results["intensity"].data
        nav = products.shape[:-1]
        series = products.reshape((*nav, self.n_bins(), len(self.orders())))
        moduli, phases = np.abs(series), np.angle(series)
        rings, orders = range(self.n_bins()), self.orders()
        raw = np.moveaxis(series, (-2, -1), (0, 1))
        results = []

        def add(values: npt.NDArray[Any], key: str, title: str, desc: str) -> None:
            results.append(AnalysisResult(values, picture_of(False), title, desc, key))

        for ring in rings:
            desc = "Dominant Fourier component"
            strongest = _strongest(moduli[..., ring, :])
            add(strongest, f"dominant_{ring}", f"dominant order of bin {ring}", desc)
            for order in orders:
                title = f"absolute of bin {ring} order {order}"
                desc = "Absolute value of Fourier component"
                add(moduli[..., ring, order], f"absolute_{ring}_{order}", title, desc)
        for ring, order in product(rings, orders):
            title, desc = f"phase of bin {ring} order {order}", "Phase of Fourier component"
            add(phases[..., ring, order], f"phase_{ring}_{order}", title, desc)
        size = moduli[..., :1].copy()
        size[size == 0] = 1
        with np.errstate(invalid="ignore"):  # NaN outside of the ROI
            series = np.concatenate([series[..., :1], series[..., 1:] / size], axis=-1)
        for ring, order in product(rings, orders):
            title, desc = f"bin {ring} order {order}", "Fourier component"
            add(series[..., ring, order], f"complex_{ring}_{order}", title, desc)
        return RadialFourierResultSet(results, raw_results=raw)


def fourier_masks(
    cx: float,
    cy: float,
    width: int,
    height: int,
    inner: float,
    outer: float,
    n_bins: int,
    max_order: int,
) -> npt.NDArray[np.complex64]:
    """Rings times ``exp(i order angle)``, shape ``(n_bins * (max_order + 1), height, width)``."""
    _memory.check((n_bins, max_order + 1, height, width), np.complex128)
    rings = masks.radial_bins(
        cx, cy, width, height, outer, radius_inner=inner, n_bins=n_bins, use_sparse=False
    )
    _, angle = masks.polar_map(cx, cy, width, height)
    turns = np.exp(1j * np.arange(max_order + 1)[:, np.newaxis, np.newaxis] * angle)
    stack: npt.NDArray[np.complex64] = (rings[:, np.newaxis] * turns).astype(np.complex64)
    return stack.reshape((-1, height, width))


def _strongest(moduli: npt.NDArray[Any]) -> npt.NDArray[np.int64]:
    """The order from 1 on with the largest modulus; 0 where there is none, or it is weak."""
    strongest = np.zeros(moduli.shape[:-1], dtype=np.int64)
    known = np.isfinite(moduli).all(axis=-1)
    if moduli.shape[-1] > 1 and known.any():
        found = moduli[known][:, 1:]
        largest = found.max(axis=-1)
        weak = largest < WEAK * largest.max()
        strongest[known] = np.where(weak, 0, 1 + np.argmax(found, axis=-1))
    return strongest
