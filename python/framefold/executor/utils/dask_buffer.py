"""Results that Dask computes when their values are used."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold.common.buffers import About, BufferKind, BufferWrapper
from framefold.common.shape import Shape
from framefold.executor._delayed.graph import over_scan

if TYPE_CHECKING:
    import dask.array as da

__all__ = ["DaskResultBufferWrapper"]

#: Other results that are computed with one are not larger than this, in bytes.
TOGETHER = 64 << 20

#: Computes several collections in one go.
Compute = Callable[..., Sequence[Any]]


class DaskResultBufferWrapper(BufferWrapper):
    """One result of a delayed run.

    :attr:`delayed_data` and :attr:`delayed_raw_data` are Dask arrays. Everything else that needs
    the values, such as :attr:`data`, has them computed when it is first looked at, and keeps them.

    Each computation reads the data set again. Compute what belongs together in one go:
    ``dask.compute(one.delayed_data, other.delayed_data)``. Looking at the values of one result
    computes those of the same UDF with it, as far as they are not larger than 64 MiB.
    """

    def __init__(
        self,
        kind: BufferKind,
        extra_shape: Sequence[int],
        dtype: npt.DTypeLike,
        *,
        delayed_raw: da.Array,
        delayed_mask: Any = None,
        delayed_full: da.Array | None = None,
        compute: Compute,
        dataset_shape: Shape,
        roi: npt.NDArray[np.bool_] | None,
        valid: npt.NDArray[np.bool_],
        about: About | None = None,
    ) -> None:
        super().__init__(
            kind,
            extra_shape,
            dtype,
            dataset_shape=dataset_shape,
            roi=roi,
            valid=valid,
            about=about,
        )
        self._delayed_raw = delayed_raw
        self._delayed_mask = delayed_mask
        self._delayed_full = delayed_full
        self._compute = compute
        #: All results of the UDF. Those without another reference need not be computed.
        self._siblings: list[weakref.ref[DaskResultBufferWrapper]] = []

    def __getstate__(self) -> dict[str, Any]:
        there = [sibling() for sibling in self._siblings]
        return {**vars(self), "_siblings": [each for each in there if each is not None]}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _siblings=[weakref.ref(each) for each in state["_siblings"]])

    @property
    def delayed_raw_data(self) -> da.Array:
        """:attr:`raw_data` as a Dask array."""
        return self._delayed_raw

    @property
    def delayed_data(self) -> da.Array:
        """:attr:`data` as a Dask array."""
        if self._delayed_full is None:
            if self.kind != "nav" or self._shape is None or self._valid is None:
                return self._delayed_raw
            self._delayed_full = over_scan(self._delayed_raw, self._shape, self._roi, self._valid)
        return self._delayed_full

    def has_data(self) -> bool:
        """Always True, although it may have to be computed first."""
        return True

    @property
    def raw_data(self) -> npt.NDArray[Any]:
        """The result with one entry per selected frame; computed when it is first looked at."""
        if self._raw is None:
            others = [
                each
                for sibling in self._siblings
                if (each := sibling()) is not None
                and each is not self
                and each._raw is None
                and each._delayed_raw.nbytes <= TOGETHER
            ]
            together = [self, *others]
            # Side by side: Dask mixes up arrays and other objects in nested lists.
            values = self._compute(
                *(each._delayed_raw for each in together),
                *(each._delayed_mask for each in together),
            )
            masks = values[len(together) :]
            for each, raw, mask in zip(together, values, masks, strict=False):
                each._raw = np.asarray(raw)
                if mask is not None:
                    each._custom_mask, each._given = mask
        assert self._raw is not None
        return self._raw

    def _state(self) -> str:
        return ", computed" if self._raw is not None else ", not computed yet"
