"""The shape of a data set: navigation axes first, then signal axes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import prod
from typing import overload

import numpy as np
import numpy.typing as npt

from framefold.common._items import indices


class Shape(Sequence[int]):
    """A shape with navigation and signal parts; otherwise behaves like a tuple.

    Parameters
    ----------
    shape
        All axes, navigation first.
    sig_dims
        How many of the last axes are signal axes.

    Raises
    ------
    TypeError
        If a length is no whole number, as ``True`` is none, or they have no order.
    """

    __slots__ = ("_dims", "_nav_dims")

    def __init__(self, shape: Iterable[int], sig_dims: int) -> None:
        self._dims = indices("shape", shape)
        if not 0 <= sig_dims <= len(self._dims):
            raise ValueError(f"sig_dims {sig_dims} does not fit the shape {self._dims}")
        self._nav_dims = len(self._dims) - sig_dims

    @classmethod
    def _of(cls, dims: tuple[int, ...], nav_dims: int) -> Shape:
        """Without the checks, for plain numbers that are known to fit."""
        made = cls.__new__(cls)
        made._dims = dims
        made._nav_dims = nav_dims
        return made

    @property
    def nav(self) -> Shape:
        """The navigation axes."""
        return Shape._of(self._dims[: self._nav_dims], self._nav_dims)

    @property
    def sig(self) -> Shape:
        """The signal axes."""
        return Shape._of(self._dims[self._nav_dims :], 0)

    @property
    def dims(self) -> int:
        """The number of axes."""
        return len(self._dims)

    @property
    def nav_dims(self) -> int:
        """The number of navigation axes."""
        return self._nav_dims

    @property
    def sig_dims(self) -> int:
        """The number of signal axes."""
        return len(self._dims) - self._nav_dims

    @property
    def size(self) -> int:
        """The number of cells."""
        return prod(self._dims)

    def flatten_nav(self) -> Shape:
        """The same shape with one navigation axis."""
        sig = self._dims[self._nav_dims :]
        return Shape((prod(self._dims[: self._nav_dims]), *sig), sig_dims=len(sig))

    def flatten_sig(self) -> Shape:
        """The same shape with one signal axis."""
        nav = self._dims[: self._nav_dims]
        return Shape((*nav, prod(self._dims[self._nav_dims :])), sig_dims=1)

    def to_tuple(self) -> tuple[int, ...]:
        """All axes as a plain tuple."""
        return self._dims

    @overload
    def __getitem__(self, key: int) -> int: ...
    @overload
    def __getitem__(self, key: slice) -> tuple[int, ...]: ...
    def __getitem__(self, key: int | slice) -> int | tuple[int, ...]:
        return self._dims[key]

    def __len__(self) -> int:
        return len(self._dims)

    def __iter__(self) -> Iterator[int]:
        return iter(self._dims)

    def __add__(self, other: Iterable[int]) -> Shape:
        """More axes at the end; they count as signal axes."""
        dims = self._dims + tuple(other)
        return Shape(dims, sig_dims=len(dims) - self._nav_dims)

    def __radd__(self, other: Iterable[int]) -> Shape:
        """More axes in front; they count as navigation axes."""
        return Shape(tuple(other) + self._dims, sig_dims=self.sig_dims)

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Shape):
            return self._dims == other._dims and self._nav_dims == other._nav_dims
        if isinstance(other, tuple | list):
            return self._dims == tuple(other)
        return NotImplemented

    def __hash__(self) -> int:
        return hash(self._dims)

    def __repr__(self) -> str:
        return repr(self._dims)

    def __reduce__(self) -> tuple[type[Shape], tuple[tuple[int, ...], int]]:
        return (Shape, (self._dims, self.sig_dims))


def n_selected(shape: Shape, roi: npt.NDArray[np.bool_] | None) -> int:
    """How many positions of a scan a ROI selects; all without one."""
    return shape.nav.size if roi is None else int(np.count_nonzero(roi))
