"""What result buffers are declared to be, and what goes along with their arrays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from framefold.common._booleans import boolean
from framefold.common._dtypes import as_dtype
from framefold.common._items import indices
from framefold.common._masked import refuse_masked
from framefold.common.shape import Shape
from framefold.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from framefold.common.axes import Axis

BufferKind = Literal["nav", "sig", "single"]
BufferUse = Literal["private", "result_only"]


class BufferDeclaration:
    """The declaration of a result buffer, as made by :meth:`framefold.udf.UDF.buffer`."""

    __slots__ = ("dtype", "extra_shape", "kind", "unit", "use", "vector", "where")

    def __init__(
        self,
        kind: BufferKind,
        extra_shape: Sequence[int],
        dtype: npt.DTypeLike,
        where: str | None,
        use: BufferUse | None,
        *,
        unit: str = "",
        vector: bool = False,
    ) -> None:
        self.kind = kind
        self.extra_shape = lengths(extra_shape)
        self.dtype: np.dtype[Any] = as_dtype("dtype of a buffer", dtype)
        self.where = where
        self.use = use
        self.unit = unit
        self.vector = boolean("vector", vector)

    def flat_shape(self, dataset_shape: Shape, n_frames: int) -> tuple[int, ...]:
        """The shape for ``n_frames`` frames, with navigation flattened."""
        if self.kind == "nav":
            return (n_frames, *self.extra_shape)
        if self.kind == "sig":
            return (*dataset_shape.sig, *self.extra_shape)
        return self.extra_shape or (1,)

    def __repr__(self) -> str:
        return (
            f"<BufferDeclaration kind={self.kind} dtype={self.dtype} "
            f"extra_shape={self.extra_shape} where={self.where} use={self.use}>"
        )


class InvalidMaskError(InvalidArgumentError):
    """A mask does not fit the result that it is for."""


class ArrayWithMask:
    """A result together with the information which of its elements are valid.

    Made by :meth:`framefold.udf.UDF.with_mask` in ``get_results``.

    Parameters
    ----------
    arr
        The result.
    mask
        True where it is valid; of a shape that broadcasts to that of ``arr``.
    """

    def __init__(self, arr: npt.ArrayLike, mask: npt.ArrayLike | bool) -> None:
        refuse_masked(
            "the data of with_mask", arr, "pass the data, and mask & ~numpy.ma.getmaskarray(data)"
        )
        refuse_masked("the mask", mask, "use mask.filled(False)")
        self.arr = np.asarray(arr)
        mask = np.asarray(mask)
        if mask.dtype != np.bool_:
            raise InvalidMaskError(f"the mask has dtype {mask.dtype}, expected bool")
        try:
            self.mask: npt.NDArray[np.bool_] = np.broadcast_to(mask, self.arr.shape)
        except ValueError:
            raise InvalidMaskError(
                f"the mask has shape {mask.shape}, which does not fit a result of shape "
                f"{self.arr.shape}"
            ) from None

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the result."""
        return self.arr.dtype

    def __repr__(self) -> str:
        return f"<ArrayWithMask shape={self.arr.shape} dtype={self.arr.dtype}>"


class OverScan:
    """A result that ``get_results`` gave for all positions of the scan, in a run with a ROI.

    Parameters
    ----------
    part
        What belongs to the selected frames.
    full
        All of it, ``(*nav, *extra_shape)``.
    """

    def __init__(self, part: npt.NDArray[Any] | ArrayWithMask, full: npt.NDArray[Any]) -> None:
        self.part = part
        self.full = full

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the result."""
        return self.part.dtype


class About(NamedTuple):
    """Where a result is from, and what it means.

    Attributes
    ----------
    udf, name
        The UDF and the buffer.
    unit
        That of the values; empty if it is not known, or there is none.
    vector
        Whether the last axis holds the components (y, x) of vectors.
    axes
        Those of the data set.
    files
        What the data set is read from: no result is saved in its place.
    """

    udf: str = ""
    name: str = ""
    unit: str = ""
    vector: bool = False
    axes: tuple[Axis, ...] = ()
    files: tuple[str, ...] = ()


def lengths(extra_shape: Sequence[int]) -> tuple[int, ...]:
    """The lengths of extra axes.

    Raises
    ------
    TypeError
        If it is no sequence of whole numbers.
    """
    try:
        return indices("extra_shape", extra_shape)
    except TypeError:
        raise TypeError(
            f"extra_shape is {extra_shape!r}, expected a tuple of whole numbers such as (3,)"
        ) from None
