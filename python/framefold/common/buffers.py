"""Result buffers as users and UDFs see them."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Sequence
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold.common import _memory
from framefold.common._aligned import empty_aligned, reshaped_view, zeros_aligned
from framefold.common._declared import (
    About,
    ArrayWithMask,
    BufferDeclaration,
    BufferKind,
    BufferUse,
    InvalidMaskError,
    OverScan,
    lengths,
)
from framefold.common._dtypes import as_dtype
from framefold.common._like_arrays import LikeArray, converted
from framefold.common._losses import first_lost
from framefold.common._masked import refuse_masked
from framefold.common.shape import Shape, n_selected
from framefold.exceptions import InvalidArgumentError

if TYPE_CHECKING:
    from pathlib import Path

    from framefold.common.axes import Axis

__all__ = [
    "About",
    "ArrayWithMask",
    "AuxBufferWrapper",
    "BufferDeclaration",
    "BufferKind",
    "BufferUse",
    "BufferWrapper",
    "InvalidMaskError",
    "OverScan",
    "empty_aligned",
    "reshaped_view",
    "zeros_aligned",
]


class BufferWrapper(LikeArray):
    """One result of a run; can be used wherever an array can.

    What is computed from it, as in ``result + 1`` or ``result == 0``, is a plain array.

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
        where: str | None = None,
        use: BufferUse | None = None,
        *,
        raw: npt.NDArray[Any] | ArrayWithMask | OverScan | None = None,
        dataset_shape: Shape | None = None,
        roi: npt.NDArray[np.bool_] | None = None,
        valid: npt.NDArray[np.bool_] | None = None,
        about: About | None = None,
    ) -> None:
        self.about = about or About()
        self.kind: BufferKind = kind
        self.extra_shape = lengths(extra_shape)
        self.dtype = as_dtype("dtype of a buffer", dtype)
        self.where = where
        self.use: BufferUse | None = use
        self._custom_mask: npt.NDArray[np.bool_] | None = None
        #: What a UDF gave for positions outside of the ROI, together with the others.
        self._given: npt.NDArray[Any] | None = None
        if isinstance(raw, OverScan):
            self._given = raw.full
            raw = raw.part
        if isinstance(raw, ArrayWithMask):
            self._custom_mask = raw.mask
            raw = raw.arr
        self._raw = raw
        self._shape = dataset_shape
        self._roi = roi
        self._valid = valid

    def has_data(self) -> bool:
        """Whether there is a result, rather than a declaration alone."""
        return self._raw is not None

    def set_shape_ds(self, dataset_shape: Shape, roi: npt.NDArray[np.bool_] | None = None) -> None:
        """Say where the buffer belongs, before :meth:`allocate`, as runs do by themselves."""
        given = None if roi is None else np.array(roi)
        if given is not None and (given.dtype != bool or given.size != dataset_shape.nav.size):
            raise InvalidArgumentError(
                f"roi has shape {given.shape} and dtype {given.dtype}, expected bool and the "
                f"shape of the scan, {tuple(dataset_shape.nav)}"
            )
        if self.has_data():
            raise InvalidArgumentError("the buffer has data already; make a new BufferWrapper")
        self._shape, self._roi = dataset_shape, None if given is None else given.reshape(-1)

    def allocate(self) -> None:
        """Hold zeros, one row for each selected frame, as runs do by themselves."""
        if self._shape is None or self.has_data():
            known = "no shape yet; call set_shape_ds" if self._shape is None else "data already"
            raise InvalidArgumentError(f"the buffer has {known}")
        rows = (n_selected(self._shape, self._roi), *self.extra_shape)
        self._raw = _memory.zeros(rows if self.kind == "nav" else self.shape, self.dtype)

    def replace_array(self, data: npt.ArrayLike) -> None:
        """Hold another result of the same shape.

        Parameters
        ----------
        data
            As :attr:`raw_data`, or with all elements of it in another shape.
        """
        raw = self.raw_data
        refuse_masked("the new array", data)
        array = np.asarray(data)
        if array.size != raw.size:
            raise InvalidArgumentError(
                f"the new array has shape {array.shape}, expected one of shape {raw.shape}"
            )
        self._raw = array.reshape(raw.shape)
        self.dtype = array.dtype
        self._given = None

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
        the dtype has no NaN; see :attr:`valid_mask`. Outside of the ROI it is what ``get_results``
        put there, if that returned an array of this shape. With a ROI or missing frames, it is a
        new array at each access, so what is written into it does not change the result; else
        :attr:`raw_data` in another shape.
        """
        raw = self.raw_data
        if self.kind != "nav" or self._shape is None:
            return raw
        if self._roi is None and (self._valid is None or self._valid.all()):
            return raw.reshape(self._data_shape())
        selected = self._selected()
        shape = (self._shape.nav.size, *raw.shape[1:])
        full = _memory.full(shape, _no_value(raw.dtype), raw.dtype)
        if self._given is not None and self._roi is not None:
            full[~self._roi] = self._given.reshape(shape)[~self._roi]
        full[selected] = raw if self._valid is None else raw[self._valid]
        return full.reshape(self._data_shape())

    @property
    def valid_mask(self) -> npt.NDArray[np.bool_]:
        """Whether each element of :attr:`data` is a result: a boolean array of its shape."""
        shape = self._data_shape()
        if self.kind != "nav" or self._shape is None:
            return self._valid_raw()
        if self._custom_mask is not None:
            nav_size = self._shape.nav.size
            full = _memory.zeros((nav_size, *self._custom_mask.shape[1:]), bool)
            part = slice(None) if self._valid is None else self._valid
            full[self._selected()] = self._custom_mask[part]
            return full.reshape(shape)
        return np.broadcast_to(self._merged(len(shape)), shape)

    @property
    def masked_data(self) -> np.ma.MaskedArray[Any, Any]:
        """:attr:`data` as a masked array in which invalid elements are masked."""
        return np.ma.MaskedArray(self.data, mask=~self.valid_mask)

    @property
    def raw_masked_data(self) -> np.ma.MaskedArray[Any, Any]:
        """:attr:`raw_data` as a masked array in which invalid elements are masked."""
        return np.ma.MaskedArray(self.raw_data, mask=~self._valid_raw())

    def _merged(self, n_dims: int) -> npt.NDArray[np.bool_]:
        """Which elements frames were merged into: broadcasts to arrays of so many axes."""
        if self.kind != "nav" or self._shape is None:
            return np.array(self._valid is None or self._valid.any())
        nav = _memory.zeros((self._shape.nav.size,), bool)
        nav[self._selected()] = True
        return nav.reshape(tuple(self._shape.nav) + (1,) * (n_dims - len(self._shape.nav)))

    def _valid_raw(self) -> npt.NDArray[np.bool_]:
        """Whether each element of :attr:`raw_data` is a result, of a frame that was merged."""
        raw = self.raw_data
        merged: npt.NDArray[np.bool_] | np.bool_ = np.bool_(True)
        if self._valid is not None and self.kind == "nav":
            merged = self._valid.reshape((-1,) + (1,) * (raw.ndim - 1))
        elif self._valid is not None:
            merged = self._valid.any()
        if self._custom_mask is not None:
            return self._custom_mask & merged
        return np.broadcast_to(merged, raw.shape)

    @property
    def valid_slice_bounding(self) -> tuple[slice, ...]:
        """The smallest box that holds all valid elements, as an index into :attr:`data`."""
        mask = self.valid_mask
        if not mask.any():
            return (slice(0, 0),) * mask.ndim
        box = []
        for axis in range(mask.ndim):
            others = tuple(other for other in range(mask.ndim) if other != axis)
            occupied = np.flatnonzero(mask.any(axis=others))
            box.append(slice(int(occupied[0]), int(occupied[-1]) + 1))
        return tuple(box)

    def get_valid_slice_inner(self, axis: int = 0) -> tuple[slice, ...]:
        """A box of valid elements only, as an index into :attr:`data`.

        The longest run of entries along ``axis`` that are valid throughout, such as complete
        rows of a scan. Axes count from the last one if ``axis`` is below 0.

        Raises
        ------
        IndexError
            If there is no such axis.
        """
        mask = self.valid_mask
        axis = range(mask.ndim)[axis]
        others = tuple(other for other in range(mask.ndim) if other != axis)
        complete = np.flatnonzero(np.diff(np.pad(mask.all(axis=others), 1).astype(np.int8)))
        box = [slice(None)] * mask.ndim
        if complete.size == 0:
            box[axis] = slice(0, 0)
        else:
            starts, stops = complete[::2], complete[1::2]
            longest = int(np.argmax(stops - starts))
            box[axis] = slice(int(starts[longest]), int(stops[longest]))
        return tuple(box)

    @property
    def shape(self) -> tuple[int, ...]:
        """The shape of :attr:`data`, which need not be there yet."""
        if self._raw is not None or self._shape is None:
            return self._data_shape()
        if self.kind == "nav":
            return (*self._shape.nav, *self.extra_shape)
        if self.kind == "sig":
            return (*self._shape.sig, *self.extra_shape)
        return self.extra_shape or (1,)

    def _data_shape(self) -> tuple[int, ...]:
        """The shape of :attr:`data`, which has to be there, but is not made for it."""
        if self.kind != "nav" or self._shape is None:
            return self.data.shape
        return (*self._shape.nav, *self.raw_data.shape[1:])

    @property
    def ndim(self) -> int:
        """The number of axes of :attr:`data`."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements of :attr:`data`."""
        return prod(self.shape)

    @property
    def name(self) -> str:
        """The name of the buffer; empty if it is not the result of a run."""
        return self.about.name

    @property
    def unit(self) -> str:
        """The unit of the values, as the UDF declares it; empty if there is none."""
        return self.about.unit

    @property
    def axes(self) -> tuple[Axis, ...]:
        """One :class:`~framefold.common.axes.Axis` for each axis of :attr:`data`.

        Those of the scan for kind ``nav``, those of frames for kind ``sig``, with the units of the
        data set, see :attr:`framefold.io.dataset.base.DataSet.axes`; then those of ``extra_shape``,
        of kind ``extra``, on which positions are counted.
        """
        from framefold.common.axes import Axis

        shape = self.shape
        known = [axis for axis in self.about.axes if axis.kind == self.kind]
        if tuple(axis.size for axis in known) != shape[: len(known)]:
            known = []
        elif not known and self._shape is not None and self.kind != "single":
            n_own = len(self._shape.nav if self.kind == "nav" else self._shape.sig)
            known = [
                Axis(f"{self.kind}_{axis}", "", 1.0, 0.0, shape[axis], self.kind)
                for axis in range(n_own)
            ]
        extra = [
            Axis(f"extra_{axis}", "", 1.0, 0.0, size, "extra")
            for axis, size in enumerate(shape[len(known) :])
        ]
        return (*known, *extra)

    def to_xarray(self) -> Any:
        """The result as an ``xarray.DataArray``: :attr:`data`, with a name for each axis.

        Axes that are calibrated have coordinates with the attribute ``units``. Where elements are
        not valid, a coordinate ``valid`` says which.

        Raises
        ------
        MissingLibraryError
            If there is no xarray.
        """
        from framefold.results.exports import to_xarray

        return to_xarray(self)

    def to_hyperspy(self) -> Any:
        """The result as a signal of HyperSpy: ``Signal2D`` or ``Signal1D``, with its axes.

        Axes of the scan or of frames are signal axes, up to two; those of ``extra_shape`` navigate.

        Raises
        ------
        MissingLibraryError
            If there is no HyperSpy.
        """
        from framefold.results.exports import to_hyperspy

        return to_hyperspy(self)

    def save(self, path: str | os.PathLike[str], *, overwrite: bool = False) -> Path:
        """Write the result to a file, with axes and units as far as the format has them.

        The file appears under its name when it is complete, or not at all.

        Parameters
        ----------
        path
            Its ending says what is written: ``.h5`` (NeXus), ``.hspy`` or ``.zspy`` (HyperSpy),
            ``.zarr`` (version 3, as xarray has it), ``.tif`` (with units as ImageJ has them),
            ``.ome.tif``, ``.npz``, ``.npy``.
        overwrite
            Replace a file that there is, unless the data set is read from it.

        Returns
        -------
        pathlib.Path
            Where it is.

        Raises
        ------
        InvalidArgumentError
            If the ending means nothing, or the file exists.
        UnsupportedError
            If the format cannot hold the result, such as complex numbers in TIFF.
        FileAccessError
            If it cannot be written.
        """
        from framefold.results.saving import save

        return save({"": {self.name or "data": self}}, path, overwrite)

    def plot(
        self, ax: Any = None, *, index: int | tuple[int, ...] | None = None, **kwargs: Any
    ) -> Any:
        """Draw the result with matplotlib.

        Images have a colour bar, and a scale bar where their axes are calibrated; vectors and
        complex numbers are colours, explained by a wheel. Of one axis, a curve. Each entry of an
        axis of ``extra_shape`` is a picture, or a curve.

        Parameters
        ----------
        ax
            The :class:`matplotlib.axes.Axes` to draw into, if there is one picture; new ones if
            None.
        index
            The one entry of the axes of ``extra_shape`` to draw; all of them if None.
        **kwargs
            For ``imshow``, such as ``cmap``, ``vmin`` and ``vmax``, or for ``plot`` of curves.

        Returns
        -------
        matplotlib.axes.Axes
            An array of them for several pictures.

        Raises
        ------
        MissingLibraryError
            If there is no matplotlib.
        UnsupportedError
            If it is no picture: a single number, more than two axes, or too many pictures.
        """
        from framefold.results.plots import plot

        return plot(self, ax, index, kwargs)

    @property
    def roi_is_zero(self) -> bool:
        """Whether no frame is selected."""
        return self._roi is not None and not self._roi.any()

    def _selected(self) -> npt.NDArray[Any] | slice:
        """The flat navigation positions that hold a result, as an index."""
        if self._roi is None:
            # A mask, which takes an eighth of what numbers do.
            return slice(None) if self._valid is None else self._valid
        _memory.check((2 * int(np.count_nonzero(self._roi)),), np.intp)
        positions = np.flatnonzero(self._roi)
        return positions if self._valid is None else positions[self._valid]

    def __array__(
        self, dtype: npt.DTypeLike | None = None, copy: bool | None = None
    ) -> npt.NDArray[Any]:
        return converted(self.data, dtype, copy)

    def __getitem__(self, key: Any) -> Any:
        return self.data[key]

    def __iter__(self) -> Iterator[Any]:
        return iter(self.data)

    def __len__(self) -> int:
        return len(self.data)

    def __int__(self) -> int:
        return int(self.data.item())

    def __float__(self) -> float:
        return float(self.data.item())

    def __complex__(self) -> complex:
        return complex(self.data.item())

    def __repr__(self) -> str:
        about, state = self.about, self._state()
        name = f" {about.name!r}" if about.name else ""
        of = f" of {about.udf}" if about.udf else ""
        unit = f" unit={about.unit!r}" if about.unit else ""
        steps = [axis for axis in self.axes if axis.is_calibrated] if self._is_placed() else []
        axes = f" axes=({', '.join(map(repr, steps))})" if steps else ""
        shape = f" shape={self.shape}" if self._is_placed() else ""
        return (
            f"<{type(self).__name__}{name}{of} kind={self.kind}{shape} dtype={self.dtype} "
            f"extra_shape={self.extra_shape}{unit}{axes}{state}>"
        )

    def _is_placed(self) -> bool:
        """Whether the shape is known without computing anything."""
        return self._raw is not None or self._shape is not None

    def _state(self) -> str:
        """What else there is to say of it."""
        return "" if self.has_data() else ", no data"


def _no_value(dtype: np.dtype[Any]) -> Any:
    """What stands for "no value" in an array of ``dtype``."""
    if dtype.kind in "fc":
        return np.nan if dtype.kind == "f" else complex(np.nan, np.nan)
    if dtype.kind in "mM":
        return np.array("NaT", dtype=dtype)
    if dtype.kind == "O":
        return None
    return np.zeros((), dtype=dtype)[()]


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
        refuse_masked("AUX data", data)
        if not isinstance(kind, str) or kind not in ("nav", "sig", "single"):
            raise InvalidArgumentError(f"AUX data of kind {kind!r}; use 'nav', 'sig' or 'single'")
        given, wanted = np.asarray(data), as_dtype("dtype of AUX data", dtype)
        if given.dtype.kind == "c" and wanted.kind in "iuf":
            raise InvalidArgumentError(
                f"AUX data have dtype {given.dtype}, and {wanted} holds no imaginary parts; pass "
                f"dtype={given.dtype.name!r}, or the real part"
            )
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

    def holding(self, laid_out: npt.NDArray[Any]) -> AuxBufferWrapper:
        """The same with data that were laid out, in the shape in which they were given."""
        held = copy.copy(self)
        held._raw = laid_out.reshape(self.data.shape)
        return held
