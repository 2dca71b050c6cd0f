"""Auxiliary data: parameters of which a UDF sees the part that belongs to what it processes."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.common._losses import first_lost
from framefold.common.buffers import BufferKind, BufferWrapper
from framefold.common.shape import Shape
from framefold.exceptions import InvalidArgumentError


class AuxBufferWrapper(BufferWrapper):
    """Auxiliary data, as made by :meth:`framefold.udf.UDF.aux_data`."""

    def __init__(
        self,
        kind: BufferKind,
        extra_shape: Sequence[int] = (),
        dtype: npt.DTypeLike = "float32",
        *,
        data: npt.ArrayLike,
    ) -> None:
        given, wanted = np.asarray(data), np.dtype(dtype)
        # Floats become integers, and numbers truth values, as NumPy makes them.
        lost = None if wanted.kind == "b" else first_lost(given, wanted, fractions=False)
        if lost is not None:
            raise InvalidArgumentError(
                f"AUX data hold {lost!r}, which {wanted} cannot; pass a wider dtype"
            )
        super().__init__(kind, extra_shape, dtype, raw=given.astype(wanted, copy=False))

    @property
    def raw_data(self) -> npt.NDArray[Any]:
        """The data, with one axis for all positions of the scan: ``(positions, *extra_shape)``.

        The same as :attr:`data` for those of kind ``sig`` and ``single``.
        """
        data = self.data
        if self.kind != "nav" or prod(self.extra_shape) == 0:
            return data
        flat = data.size // prod(self.extra_shape), *self.extra_shape
        # What does not fit is refused when a run begins.
        return data.reshape(flat) if prod(flat) == data.size else data

    @property
    def data(self) -> npt.NDArray[Any]:
        """The data as they were given."""
        return super().raw_data

    def replace_array(self, data: npt.ArrayLike) -> None:
        """Hold other data of the same shape, or with as many elements in another one."""
        shape = self.data.shape
        super().replace_array(data)
        self._raw = super().raw_data.reshape(shape)

    def laid_out(self, name: str, shape: Shape) -> npt.NDArray[Any]:
        """The data with flattened navigation, in C order, read-only, for a data set of ``shape``.

        Raises
        ------
        InvalidArgumentError
            If the data do not have the shape that kind and ``extra_shape`` ask for.
        """
        data = self.data
        if self.kind == "nav":
            flat = (shape.nav.size, *self.extra_shape)
            allowed = [flat, (*shape.nav, *self.extra_shape)]
        elif self.kind == "sig":
            flat = (*shape.sig, *self.extra_shape)
            allowed = [flat, (shape.sig.size, *self.extra_shape)]
        else:
            flat = self.extra_shape or (1,)
            allowed = [flat, self.extra_shape]
        # All in one row is what ``data.ravel()`` gives, with which many scripts were written.
        allowed.append((prod(flat),))
        if data.shape not in allowed:
            expected = " or ".join(str(option) for option in dict.fromkeys(allowed))
            raise InvalidArgumentError(
                f"AUX data {name!r} have shape {data.shape}; with kind={self.kind!r} and "
                f"extra_shape={self.extra_shape} they must have shape {expected}"
            )
        laid_out = np.array(data.reshape(flat), order="C")
        laid_out.flags.writeable = False
        return laid_out
