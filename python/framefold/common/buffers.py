"""Result buffers as users and UDFs see them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from framefold.common.shape import Shape

BufferKind = Literal["nav", "sig", "single"]
BufferUse = Literal["private", "result_only"]


class BufferDeclaration:
    """The declaration of a result buffer, as made by :meth:`framefold.udf.UDF.buffer`."""

    __slots__ = ("dtype", "extra_shape", "kind", "use", "where")

    def __init__(
        self,
        kind: BufferKind,
        extra_shape: Sequence[int],
        dtype: npt.DTypeLike,
        where: str | None,
        use: BufferUse | None,
    ) -> None:
        self.kind = kind
        self.extra_shape = tuple(int(dim) for dim in extra_shape)
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self.where = where
        self.use = use

    def flat_shape(self, dataset_shape: Shape, n_frames: int) -> tuple[int, ...]:
        """The shape for ``n_frames`` frames, with navigation flattened."""
        if self.kind == "nav":
            return (n_frames, *self.extra_shape)
        if self.kind == "sig":
            return (*dataset_shape.sig, *self.extra_shape)
        return self.extra_shape or (1,)


class BufferWrapper:
    """One result of a run; can be used wherever an array can.

    Attributes
    ----------
    kind : str
        ``nav``, ``sig`` or ``single``.
    extra_shape : tuple of int
        The axes behind those that follow from the kind.
    dtype : numpy.dtype
        The element type.
    """

    def __init__(
        self,
        kind: BufferKind,
        extra_shape: Sequence[int] = (),
        dtype: npt.DTypeLike = "float32",
        *,
        raw: npt.NDArray[Any] | None = None,
        dataset_shape: Shape | None = None,
        roi: npt.NDArray[np.bool_] | None = None,
        valid: npt.NDArray[np.bool_] | None = None,
    ) -> None:
        self.kind: BufferKind = kind
        self.extra_shape = tuple(int(dim) for dim in extra_shape)
        self.dtype: np.dtype[Any] = np.dtype(dtype)
        self._raw = raw
        self._shape = dataset_shape
        self._roi = roi
        self._valid = valid
        self._full: npt.NDArray[Any] | None = None

    @property
    def raw_data(self) -> npt.NDArray[Any]:
        """The result with one entry per selected frame, shape ``(n_selected, *extra_shape)``.

        The same as :attr:`data` for buffers of kind ``sig`` and ``single``.
        """
        if self._raw is None:
            raise ValueError("the buffer is only a declaration; it has no data before a run")
        return self._raw

    @property
    def data(self) -> npt.NDArray[Any]:
        """The result in the shape of the data set, ``(*nav, *extra_shape)`` for kind ``nav``.

        Positions outside of the ROI or without data hold NaN, or False, 0, ``''`` or None if
        the dtype has no NaN; see :attr:`valid_mask`.
        """
        raw = self.raw_data
        if self.kind != "nav" or self._shape is None:
            return raw
        if self._roi is None and (self._valid is None or self._valid.all()):
            return raw.reshape((*self._shape.nav, *raw.shape[1:]))
        if self._full is None:
            selected = self._selected()
            full = np.full((self._shape.nav.size, *raw.shape[1:]), _no_value(raw.dtype), raw.dtype)
            full[selected] = raw if self._valid is None else raw[self._valid]
            self._full = full.reshape((*self._shape.nav, *raw.shape[1:]))
        return self._full

    @property
    def valid_mask(self) -> npt.NDArray[np.bool_]:
        """Whether each element of :attr:`data` is a result: a boolean array of its shape."""
        data = self.data
        if self.kind != "nav" or self._shape is None:
            merged = self._valid is None or bool(self._valid.any())
            return np.full(data.shape, merged)
        nav = np.zeros(self._shape.nav.size, dtype=bool)
        nav[self._selected()] = True
        nav = nav.reshape(tuple(self._shape.nav) + (1,) * (data.ndim - len(self._shape.nav)))
        return np.broadcast_to(nav, data.shape)

    @property
    def masked_data(self) -> np.ma.MaskedArray[Any, Any]:
        """:attr:`data` as a masked array in which invalid elements are masked."""
        return np.ma.MaskedArray(self.data, mask=~self.valid_mask)

    @property
    def raw_masked_data(self) -> np.ma.MaskedArray[Any, Any]:
        """:attr:`raw_data` as a masked array in which invalid elements are masked."""
        raw = self.raw_data
        if self.kind != "nav" or self._valid is None:
            return np.ma.MaskedArray(raw, mask=np.zeros(raw.shape, dtype=bool))
        valid = self._valid.reshape((-1,) + (1,) * (raw.ndim - 1))
        return np.ma.MaskedArray(raw, mask=~np.broadcast_to(valid, raw.shape))

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of :attr:`data`."""
        return self.data.shape

    @property
    def roi_is_zero(self) -> bool:
        """Whether no frame is selected."""
        return self._roi is not None and not self._roi.any()

    def _selected(self) -> npt.NDArray[Any]:
        """The flat navigation positions that hold a result."""
        if self._roi is None:
            positions = np.arange(self.raw_data.shape[0])
        else:
            positions = np.flatnonzero(self._roi)
        return positions if self._valid is None else positions[self._valid]

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        data = self.data
        if dtype is not None and np.dtype(dtype) != data.dtype:
            if copy is False:
                raise ValueError(f"a copy is needed to turn {data.dtype} into {np.dtype(dtype)}")
            return data.astype(dtype)
        return data.copy() if copy else data

    def __getitem__(self, index: Any) -> Any:
        return self.data[index]

    def __len__(self) -> int:
        return len(self.data)

    def __repr__(self) -> str:
        return f"<BufferWrapper kind={self.kind} dtype={self.dtype} extra_shape={self.extra_shape}>"


def _no_value(dtype: np.dtype[Any]) -> Any:
    """What stands for "no value" in an array of ``dtype``."""
    if dtype.kind in "fc":
        return np.nan
    if dtype.kind == "O":
        return None
    return np.zeros((), dtype=dtype)[()]
