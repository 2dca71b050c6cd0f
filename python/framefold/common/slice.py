"""A rectangular part of a data set."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from operator import index
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.common.shape import Shape


class SliceUsageError(ValueError):
    """Slices or shapes were combined that do not fit each other."""


class Slice:
    """A rectangular part of a data set: an origin and a shape.

    Parameters
    ----------
    origin
        The first index on each axis.
    shape
        The extent, split into navigation and signal axes.

    Raises
    ------
    SliceUsageError
        If there is not one index per axis, or the shape is a plain tuple.
    TypeError
        If an index is no whole number.
    """

    __slots__ = ("origin", "shape")

    def __init__(self, origin: Iterable[int], shape: Shape) -> None:
        if not isinstance(shape, Shape):
            raise SliceUsageError(
                f"the shape of a slice is the {type(shape).__name__} {shape!r}; use "
                f"framefold.common.Shape, which knows the signal axes"
            )
        self.origin = tuple(map(index, origin))
        self.shape = shape
        if len(self.origin) != len(shape):
            raise SliceUsageError(f"origin {self.origin} does not fit the shape {shape}")

    @classmethod
    def _of(cls, origin: tuple[int, ...], shape: Shape) -> Slice:
        """Without the checks, for an origin and a shape that are known to fit."""
        made = cls.__new__(cls)
        made.origin = origin
        made.shape = shape
        return made

    @classmethod
    def from_shape(cls, shape: Sequence[int], sig_dims: int) -> Slice:
        """The slice that covers all of ``shape``."""
        return cls((0,) * len(shape), Shape(shape, sig_dims=sig_dims))

    @property
    def nav(self) -> Slice:
        """The part on the navigation axes."""
        nav = self.shape.nav
        return Slice._of(self.origin[: len(nav)], nav)

    @property
    def sig(self) -> Slice:
        """The part on the signal axes."""
        sig = self.shape.sig
        return Slice._of(self.origin[len(self.origin) - len(sig) :], sig)

    def get(self, arr: Any = None, sig_only: bool = False, nav_only: bool = False) -> Any:
        """The part of ``arr``, or the index for it if ``arr`` is None.

        Parameters
        ----------
        arr
            An array with the axes that are selected below. Signal axes are its last ones, all
            others its first ones.
        sig_only, nav_only
            Use the signal or navigation axes only.
        """
        part = self.sig if sig_only else self.nav if nav_only else self
        where = tuple(
            slice(start, start + length)
            for start, length in zip(part.origin, part.shape, strict=True)
        )
        if arr is None:
            return where
        return arr[(..., *where)] if sig_only else arr[where]

    def intersection_with(self, other: Slice) -> Slice:
        """The part that both slices share; of extent 0 where they share nothing."""
        self._must_match(len(other.shape), "intersect")
        origin = tuple(max(a, b) for a, b in zip(self.origin, other.origin, strict=True))
        stop = (
            min(a + m, b + n)
            for a, m, b, n in zip(self.origin, self.shape, other.origin, other.shape, strict=True)
        )
        extent = (max(0, end - start) for start, end in zip(origin, stop, strict=True))
        return Slice(origin, self._like(extent))

    def shift(self, other: Slice) -> Slice:
        """The slice as seen from the origin of ``other``."""
        return self.shift_by([-start for start in other.origin])

    def shift_by(self, offset: Sequence[int]) -> Slice:
        """The slice moved by ``offset``, one number per axis."""
        self._must_match(len(offset), "shift")
        return Slice((a + b for a, b in zip(self.origin, offset, strict=True)), self.shape)

    def clip_to(self, shape: Shape) -> Slice:
        """The part inside of an array of ``shape``."""
        self._must_match(len(shape), "clip")
        return self.intersection_with(Slice((0,) * len(shape), self._like(shape)))

    def flatten_nav(self, containing_shape: Sequence[int]) -> Slice:
        """The same frames with one navigation axis.

        Parameters
        ----------
        containing_shape
            The shape of the data set that the slice is a part of, or of its navigation axes alone.

        Raises
        ------
        SliceUsageError
            If the frames do not follow each other in the flattened order.
        """
        nav, extent = self.nav, tuple(self.shape.nav)
        if len(containing_shape) != len(extent):
            self._must_match(len(containing_shape), "flatten")
        full = tuple(containing_shape)[: len(extent)]
        # Behind the first axis with several entries, all axes must be complete.
        inner = next((i for i, length in enumerate(extent) if length != 1), len(extent)) + 1
        if extent[inner:] != full[inner:] or any(nav.origin[inner:]):
            raise SliceUsageError(
                f"the frames of {self} do not follow each other in a scan of shape {full}; "
                f"use complete rows, or a part of one row"
            )
        start = 0
        for position, length in zip(nav.origin, full, strict=True):
            start = start * length + position
        sig = self.sig
        shape = Shape((nav.shape.size, *sig.shape), sig_dims=len(sig.shape))
        return Slice((start, *sig.origin), shape)

    def adjust_for_roi(self, roi: npt.NDArray[np.bool_] | None) -> Slice:
        """The slice counted in the frames that ``roi`` selects.

        Parameters
        ----------
        roi
            Boolean array over the navigation axes of the whole data set, or None for all.

        Raises
        ------
        SliceUsageError
            If the slice has not exactly one navigation axis.
        """
        if roi is None:
            return self
        if self.shape.nav_dims != 1:
            raise SliceUsageError(
                f"{self} has {self.shape.nav_dims} navigation axes; use flatten_nav first"
            )
        flat = np.asarray(roi).reshape(-1)
        start, stop = self.origin[0], self.origin[0] + self.shape[0]
        before, inside = int(flat[:start].sum()), int(flat[start:stop].sum())
        return Slice((before, *self.origin[1:]), self._like((inside, *self.shape[1:])))

    def subslices(self, shape: Sequence[int]) -> Iterator[Slice]:
        """Slices of at most ``shape`` that cover this one, in C order, without overlap."""
        self._must_match(len(shape), "divide")
        if any(step < 1 for step in shape):
            raise SliceUsageError(f"slices of shape {tuple(shape)} are empty; use 1 or more")
        ranges = [
            range(start, start + length, step)
            for start, length, step in zip(self.origin, self.shape, shape, strict=True)
        ]
        for origin in product(*ranges):
            yield self.intersection_with(Slice(origin, self._like(shape)))

    def is_null(self) -> bool:
        """Whether there are no cells."""
        return self.shape.size == 0

    def discard_nav(self) -> Slice:
        """The same with origin and extent 0 on the navigation axes."""
        none = (0,) * self.shape.nav_dims
        return Slice((*none, *self.sig.origin), self._like((*none, *self.shape.sig)))

    def _like(self, extent: Iterable[int]) -> Shape:
        return Shape(extent, sig_dims=self.shape.sig_dims)

    def _must_match(self, dims: int, verb: str) -> None:
        if dims != len(self.shape):
            raise SliceUsageError(f"cannot {verb} {self} with something of {dims} axes")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Slice):
            return NotImplemented
        return self.origin == other.origin and self.shape == other.shape

    def __hash__(self) -> int:
        return hash((self.origin, tuple(self.shape)))

    def __repr__(self) -> str:
        return f"<Slice origin={self.origin} shape={self.shape}>"
