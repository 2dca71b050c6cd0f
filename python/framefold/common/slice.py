"""A rectangular part of a data set."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from framefold.common.shape import Shape


class Slice:
    """A rectangular part of a data set: an origin and a shape.

    Parameters
    ----------
    origin
        The first index on each axis.
    shape
        The extent, split into navigation and signal axes.
    """

    __slots__ = ("origin", "shape")

    def __init__(self, origin: Iterable[int], shape: Shape) -> None:
        self.origin = tuple(int(start) for start in origin)
        self.shape = shape
        if len(self.origin) != len(shape):
            raise ValueError(f"origin {self.origin} does not fit the shape {shape}")

    @property
    def nav(self) -> Slice:
        """The part on the navigation axes."""
        nav = self.shape.nav
        return Slice(self.origin[: len(nav)], nav)

    @property
    def sig(self) -> Slice:
        """The part on the signal axes."""
        sig = self.shape.sig
        return Slice(self.origin[len(self.origin) - len(sig) :], sig)

    def get(self, arr: Any = None, sig_only: bool = False, nav_only: bool = False) -> Any:
        """The part of ``arr``, or the index for it if ``arr`` is None.

        Parameters
        ----------
        arr
            An array with the axes that are selected below.
        sig_only, nav_only
            Use the signal or navigation axes only.
        """
        part = self.sig if sig_only else self.nav if nav_only else self
        index = tuple(
            slice(start, start + length)
            for start, length in zip(part.origin, part.shape, strict=True)
        )
        return index if arr is None else arr[index]

    def intersection_with(self, other: Slice) -> Slice:
        """The part that both slices share; of extent 0 where they share nothing."""
        origin = tuple(max(a, b) for a, b in zip(self.origin, other.origin, strict=True))
        stop = (
            min(a + m, b + n)
            for a, m, b, n in zip(self.origin, self.shape, other.origin, other.shape, strict=True)
        )
        extent = (max(0, end - start) for start, end in zip(origin, stop, strict=True))
        return Slice(origin, Shape(extent, sig_dims=len(self.shape.sig)))

    def shift(self, other: Slice) -> Slice:
        """The slice as seen from the origin of ``other``."""
        origin = (a - b for a, b in zip(self.origin, other.origin, strict=True))
        return Slice(origin, self.shape)

    def is_null(self) -> bool:
        """Whether there are no cells."""
        return self.shape.size == 0

    def discard_nav(self) -> Slice:
        """The part on the signal axes."""
        return self.sig

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Slice):
            return NotImplemented
        return self.origin == other.origin and self.shape == other.shape

    def __hash__(self) -> int:
        return hash((self.origin, tuple(self.shape)))

    def __repr__(self) -> str:
        return f"<Slice origin={self.origin} shape={self.shape}>"
