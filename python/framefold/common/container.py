"""A stack of masks, ready to be multiplied with tiles."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.common._booleans import boolean
from framefold.common._copying import concatenated
from framefold.common._dtypes import as_dtype
from framefold.common._losses import first_lost
from framefold.common._masked import refuse_masked
from framefold.common.device_masks import masks_on_device
from framefold.common.optional import require
from framefold.common.slice import Slice
from framefold.common.sparse import (
    has_background,
    is_scipy,
    is_sparse,
    scipy_dtype,
    to_csr,
    to_dense,
)
from framefold.common.udf import CPU_BACKENDS, CUDA, CUPY_BACKENDS
from framefold.exceptions import InvalidArgumentError, UnsupportedError

MaskFactory = Callable[[], Any]
MaskFactories = MaskFactory | Sequence[MaskFactory]

#: Formats of sparse masks.
SPARSE_FORMATS = (
    "sparse.pydata",
    "sparse.pydata.GCXS",
    "scipy.sparse",
    "scipy.sparse.csc",
    "scipy.sparse.csr",
)

#: So many parts of a stack are kept; a run needs as many as its tiling has signal slices.
MAX_CACHED_PARTS = 1024

#: Most masks weigh one of so many pixels that follow each other.
N_LOOKED_AT = 4096


class MaskContainer:
    """A stack of masks, of which the part that belongs to a tile is available as a matrix.

    Masks are computed when they are needed first, and parts are kept, so that asking again for
    the same one costs next to nothing. A container may be used from several threads.

    Parameters
    ----------
    mask_factories
        One function that returns a stack of masks, shape ``(n_masks, *sig)``, or a list of
        functions that return one mask of shape ``sig`` each. Masks are NumPy arrays or sparse
        arrays of SciPy or PyData.
    dtype
        The dtype of the masks, in the machine's byte order; by default the common one of all of
        them. It has to hold their values; fractions are cut off in integers. SciPy knows no half
        precision: sparse parts of such masks are in single precision.
    use_sparse
        The format of the parts: False for NumPy arrays; True for ``default_sparse``; one of
        ``'scipy.sparse'`` (the same as ``'scipy.sparse.csr'``), ``'scipy.sparse.csr'``,
        ``'scipy.sparse.csc'``, ``'sparse.pydata'`` and ``'sparse.pydata.GCXS'``. By default
        sparse if all masks are. A sparse array with a ``fill_value`` other than 0 counts as dense.
    count
        The number of masks, if it is known: ``len`` need not compute them then. Checked when
        they are computed.
    backend
        The array format of the tiles that the parts are for, unless another one is asked for. All
        formats on the CPU get the same parts. Those of CuPy get arrays and ``cupyx`` matrices on
        the current device: a worker brings each part there once in a run.
    default_sparse
        The format for ``use_sparse=True``.

    Raises
    ------
    InvalidArgumentError
        If there is no factory, one is not callable, or ``use_sparse`` is not known.
    """

    def __init__(
        self,
        mask_factories: MaskFactories,
        dtype: npt.DTypeLike | None = None,
        use_sparse: bool | str | None = None,
        count: int | None = None,
        backend: str | None = None,
        default_sparse: str = "scipy.sparse",
    ) -> None:
        for name, value in (("use_sparse", use_sparse), ("default_sparse", default_sparse)):
            if isinstance(value, str) and value not in SPARSE_FORMATS:
                raise InvalidArgumentError(
                    f"{name} is {value!r}, expected {'' if name != 'use_sparse' else 'a bool or '}"
                    f"one of {', '.join(map(repr, SPARSE_FORMATS))}"
                )
        self.mask_factories = mask_factories
        self._dtype = None if dtype is None else as_dtype("dtype of masks", dtype).newbyteorder("=")
        if not (use_sparse is None or isinstance(use_sparse, str)):
            use_sparse = boolean("use_sparse", use_sparse)
        self._use_sparse = default_sparse if use_sparse is True else use_sparse
        self._count = count
        self.backend = backend
        self._default_sparse = default_sparse
        self._lock = threading.RLock()
        self._parts: OrderedDict[tuple[Any, ...], Any] = OrderedDict()
        self._stack: _Stack | None = None
        self._computed: Any = None
        self._heaviest: float | None = None
        self.validate_mask_functions()
        self._check_backend(backend)

    def get(
        self,
        key: Any,
        dtype: npt.DTypeLike | None = None,
        sparse_backend: str | bool | None = None,
        transpose: bool = True,
        backend: str | None = None,
    ) -> Any:
        """The part of the masks that belongs to a tile, with flattened signal axes.

        Parameters
        ----------
        key
            A :class:`~framefold.common.Slice`, of which only the signal part matters, or
            anything with a ``tile_slice``.
        dtype
            The dtype of the result, which has to hold the values; by default :attr:`dtype`.
        sparse_backend
            A format like ``use_sparse``, for this call.
        transpose
            Return shape ``(pixels, n_masks)``, to be multiplied from the right, instead of
            ``(n_masks, pixels)``.
        backend
            The array format of the tiles, for this call.

        Returns
        -------
        numpy.ndarray, cupy.ndarray or sparse matrix
            Kept and shared: NumPy arrays are read-only, and others are not to be changed.

        Raises
        ------
        InvalidArgumentError
            If the slice does not lie within the masks, or ``dtype`` does not hold what it has.
        UnsupportedError
            If CuPy does not have that sparse format.
        """
        part = getattr(key, "tile_slice", key)
        if not isinstance(part, Slice):
            raise InvalidArgumentError(
                f"masks are selected by a Slice or a tile with a tile_slice, "
                f"found {type(key).__name__}"
            )
        return self.get_for_sig_slice(part, dtype, sparse_backend, transpose, backend)

    def get_for_sig_slice(
        self,
        sig_slice: Slice,
        dtype: npt.DTypeLike | None = None,
        sparse_backend: str | bool | None = None,
        transpose: bool = True,
        backend: str | None = None,
    ) -> Any:
        """As :meth:`get`, for a slice of the signal axes; navigation axes do not matter."""
        self._check_backend(backend)
        sig_slice = sig_slice.sig
        if (self.backend if backend is None else backend) in CUPY_BACKENDS:
            return self._on_device(sig_slice, dtype, sparse_backend, transpose)
        form = self._form(sparse_backend)
        target = self.dtype if dtype is None else np.dtype(dtype)
        cache_key = (sig_slice.origin, tuple(sig_slice.shape), target, form, transpose)
        with self._lock:
            part = self._parts.get(cache_key)
            if part is None:
                part = self._part(sig_slice, target, form, transpose)
                self._parts[cache_key] = part
                if len(self._parts) > MAX_CACHED_PARTS:
                    self._parts.popitem(last=False)
        return part

    def get_for_idx(
        self,
        scheme: Any,
        idx: int,
        dtype: npt.DTypeLike | None = None,
        sparse_backend: str | bool | None = None,
        transpose: bool = True,
        backend: str | None = None,
    ) -> Any:
        """As :meth:`get`, for the slice with number ``idx`` of a tiling scheme."""
        part: Slice = scheme[idx]
        return self.get_for_sig_slice(part, dtype, sparse_backend, transpose, backend)

    def get_masks_for_slice(
        self,
        slice_: Slice,
        dtype: npt.DTypeLike | None = None,
        sparse_backend: str | bool | None = None,
        transpose: bool = True,
        backend: str | None = "numpy",
    ) -> Any:
        """As :meth:`get`."""
        return self.get(slice_, dtype, sparse_backend, transpose, backend)

    def validate_mask_functions(self) -> None:
        """Check that there are factories, and that they can be called.

        Raises
        ------
        InvalidArgumentError
            If not.
        """
        if callable(self.mask_factories):
            return
        factories = self.mask_factories
        if not isinstance(factories, Sequence):
            raise InvalidArgumentError(
                f"mask_factories is of type {type(factories).__name__}, expected a function "
                f"without parameters that returns a stack of masks, or a list of functions that "
                f"return one mask each"
            )
        if not factories:
            raise InvalidArgumentError("there is no mask factory; give at least one")
        for index, factory in enumerate(factories):
            if not callable(factory):
                raise InvalidArgumentError(
                    f"mask factory {index} is of type {type(factory).__name__}, expected a "
                    f"function without parameters that returns a mask; "
                    f"wrap an array as lambda: array"
                )

    @property
    def computed_masks(self) -> Any:
        """All masks, shape ``(n_masks, *sig)``: a NumPy array, or a ``sparse.COO`` if sparse."""
        stack = self._masks()
        if stack.dense is not None:
            return stack.dense.reshape((stack.count, *stack.sig))
        with self._lock:
            if self._computed is None:
                self._computed = _as_coo(stack)
            return self._computed

    def compressed_rows(self) -> Any:
        """All masks as a ``scipy.sparse.csr_matrix``, shape ``(n_masks, pixels)``.

        The pixels of each mask are in rising order, each at most once.
        """
        stack = self._masks()
        dense = stack.dense
        return _csr(stack.columns if dense is None else dense.reshape((stack.count, -1)))

    def cover_pixels(self) -> npt.NDArray[np.bool_]:
        """Whether each mask has a weight that is not 0; shape ``(n_masks,)``."""
        stack = self._masks()
        if stack.dense is not None:
            dense, found = stack.dense.reshape((stack.count, -1)), np.zeros(stack.count, dtype=bool)
            for start in range(0, dense.shape[1], N_LOOKED_AT):
                left = np.flatnonzero(~found)
                if not len(left):
                    break
                found[left] = dense[left, start : start + N_LOOKED_AT].any(axis=1)
            return found
        rows = to_csr(stack.columns)
        found = np.zeros(stack.count, dtype=bool)
        found[np.repeat(np.arange(stack.count), np.diff(rows.indptr))[rows.data != 0]] = True
        return found

    def heaviest(self) -> float:
        """The largest sum of the magnitudes of one mask, in double precision."""
        with self._lock:
            if self._heaviest is None:
                stack = self._masks()
                if stack.dense is None:
                    columns = stack.columns
                    sums = np.bincount(columns.indices, np.abs(columns.data.astype(np.float64)))
                    self._heaviest = float(sums.max(initial=0))
                else:
                    each = (np.abs(mask.astype(np.float64)).sum() for mask in stack.dense)
                    self._heaviest = float(max(each))
            return self._heaviest

    @property
    def sig_shape(self) -> tuple[int, ...]:
        """The shape of one mask; computes the masks."""
        return self._masks().sig

    @property
    def dtype(self) -> np.dtype[Any]:
        """The dtype of the masks; computes them if it was not given."""
        return self._masks().dtype if self._dtype is None else self._dtype

    @property
    def use_sparse(self) -> str | bool:
        """The format of the parts, or False; computes the masks if it was not given."""
        if self._use_sparse is None:
            self._use_sparse = self._default_sparse if self._masks().dense is None else False
        return self._use_sparse

    def __len__(self) -> int:
        """The number of masks; computes them if it is not known."""
        if self._count is not None:
            return self._count
        if not callable(self.mask_factories):
            return len(self.mask_factories)
        return self._masks().count

    def __reduce__(self) -> tuple[Any, ...]:
        # Factories travel, masks do not: they are made anew where they are needed.
        args = (self.mask_factories, self._dtype, self._use_sparse, self._count, self.backend)
        return (type(self), (*args, self._default_sparse))

    def _masks(self) -> _Stack:
        with self._lock:
            if self._stack is None:
                stack = _compute(self.mask_factories, self._dtype, self._use_sparse)
                if self._count is not None and self._count != stack.count:
                    raise InvalidArgumentError(
                        f"the number of masks was given as {self._count}, "
                        f"but the factory made {stack.count}"
                    )
                self._stack = stack
            return self._stack

    def _form(self, sparse_backend: str | bool | None) -> str | bool:
        """The format that is asked for."""
        if sparse_backend is None:
            return self.use_sparse
        form = self._default_sparse if sparse_backend is True else sparse_backend
        if isinstance(form, str) and form not in SPARSE_FORMATS:
            raise InvalidArgumentError(
                f"sparse_backend is {form!r}, expected a bool or one of "
                f"{', '.join(map(repr, SPARSE_FORMATS))}"
            )
        return form

    def _on_device(
        self,
        sig_slice: Slice,
        dtype: npt.DTypeLike | None,
        sparse_backend: str | bool | None,
        transpose: bool,
    ) -> Any:
        form = self._form(sparse_backend)
        if isinstance(form, str) and form.startswith("sparse.pydata"):
            raise UnsupportedError(
                f"CuPy has no arrays of format {form!r}; use 'scipy.sparse.csr' or "
                f"'scipy.sparse.csc' for masks on a device"
            )
        require("cupy", "MaskContainer", "masks on a device")
        target = self.dtype if dtype is None else np.dtype(dtype)
        return masks_on_device(self, sig_slice, target, form, transpose)

    def _part(
        self, sig_slice: Slice, dtype: np.dtype[Any], form: str | bool, transpose: bool
    ) -> Any:
        stack = self._masks()
        origin, extent = sig_slice.origin, tuple(sig_slice.shape)
        if len(origin) != len(stack.sig) or any(
            start < 0 or start + length > size
            for start, length, size in zip(origin, extent, stack.sig, strict=False)
        ):
            raise InvalidArgumentError(
                f"the slice with origin {origin} and shape {extent} does not lie within masks "
                f"of shape {stack.sig}"
            )
        index = tuple(slice(a, a + n) for a, n in zip(origin, extent, strict=True))
        if stack.dense is not None:
            dense = stack.dense[(slice(None), *index)].reshape((stack.count, prod(extent)))
            return _formatted(dense.T if transpose else dense, dtype, form)
        grid = np.ix_(*(np.arange(a, a + n) for a, n in zip(origin, extent, strict=True)))
        pixels = np.ravel_multi_index(grid, stack.sig).reshape(-1)
        columns = stack.columns[:, pixels]
        return _formatted(columns.T if transpose else columns, dtype, form)

    def _check_backend(self, backend: str | None) -> None:
        known = CPU_BACKENDS | CUPY_BACKENDS | {CUDA}
        if backend is not None and backend not in known:
            raise UnsupportedError(
                f"masks cannot be made for tiles of format {backend!r}, "
                f"expected one of {', '.join(sorted(known))}"
            )


class _Stack:
    """Computed masks: either ``dense``, or ``columns``, a CSC matrix ``(count, pixels)``."""

    def __init__(
        self,
        sig: tuple[int, ...],
        dtype: np.dtype[Any],
        dense: npt.NDArray[Any] | None,
        columns: Any,
    ) -> None:
        self.sig = sig
        self.count: int = (columns if dense is None else dense).shape[0]
        self.dense = dense
        self.columns = columns
        self.dtype = dtype


def _compute(
    factories: MaskFactories, dtype: np.dtype[Any] | None, use_sparse: str | bool | None
) -> _Stack:
    if callable(factories):
        stack = _native(factories())
        shape = tuple(int(length) for length in stack.shape)
        if len(shape) < 2 or shape[0] == 0:
            raise InvalidArgumentError(
                f"the mask factory returned shape {shape}, expected a stack of masks, shape "
                f"(n_masks, *sig); for a single mask, give a list with one factory"
            )
        sig = shape[1:]
        rows = [stack.reshape((shape[0], prod(sig)))]
        sparse = is_sparse(stack)
    else:
        masks = [_native(factory()) for factory in factories]
        shapes = [tuple(int(length) for length in mask.shape) for mask in masks]
        sig = shapes[0]
        if not sig or any(shape != sig for shape in shapes):
            raise InvalidArgumentError(
                f"all masks must have the same shape, that of a frame; found "
                f"{', '.join(map(str, dict.fromkeys(shapes)))}"
            )
        rows = [mask.reshape((1, prod(sig))) for mask in masks]
        sparse = all(is_sparse(mask) for mask in masks)
    target = np.result_type(*(row.dtype for row in rows)) if dtype is None else dtype
    if sparse if use_sparse is None else bool(use_sparse):
        scipy_sparse = require("scipy.sparse", "MaskContainer", "sparse masks")
        parts = [_converted(_csr(row), target) for row in rows]
        return _Stack(sig, target, None, scipy_sparse.vstack(parts, format="csc"))
    arrays = [to_dense(row) for row in rows]
    for array in arrays:
        _check_that_it_fits(array, target)
    dense = concatenated(arrays, target)
    return _Stack(sig, target, dense.reshape((len(dense), *sig)), None)


def _converted(matrix: Any, dtype: np.dtype[Any]) -> Any:
    """A CSR matrix with values of a dtype that holds them."""
    _check_that_it_fits(matrix.data, dtype)
    # Rounded to the dtype, also where SciPy has it in a wider one only.
    values = matrix.data.astype(dtype).astype(scipy_dtype(dtype), copy=False)
    return type(matrix)((values, matrix.indices, matrix.indptr), shape=matrix.shape)


def _check_that_it_fits(mask: npt.NDArray[Any], dtype: np.dtype[Any]) -> None:
    """Refuse values that become others; floats become integers as NumPy makes them."""
    lost = None if dtype.kind == "b" else first_lost(mask, dtype, fractions=False)
    if lost is None and dtype.kind in "fc" and not np.can_cast(mask.dtype, dtype, "safe"):
        values = mask if dtype.kind == "c" else mask.real
        with np.errstate(over="ignore"):
            beyond = values[np.isfinite(values) & ~np.isfinite(values.astype(dtype))]
        lost = beyond.flat[0].item() if beyond.size else None
    if lost is not None:
        raise InvalidArgumentError(
            f"a mask holds {lost!r}, which {dtype} cannot; give a wider dtype of masks (mask_dtype "
            f"of ApplyMasksUDF), or leave it out"
        )


def _native(mask: Any) -> Any:
    """A mask, or a stack of them, as an array in the machine's byte order."""
    refuse_masked("a mask", mask, "use mask.filled(0) for pixels that are not to count")
    if has_background(mask):
        mask = to_dense(mask)
    mask = mask if is_sparse(mask) else np.asarray(mask)
    dtype = np.dtype(mask.dtype)
    if dtype.kind not in "biufc":
        raise InvalidArgumentError(f"a mask has dtype {dtype}; pass an array of numbers")
    if is_scipy(mask) and dtype.kind in "iu" and dtype.itemsize < 8 and len(mask.shape) == 2:
        sums, limits = to_csr(mask.astype(np.int64)).data, np.iinfo(dtype)
        if len(sums) and not limits.min <= sums.min() <= sums.max() <= limits.max:
            raise InvalidArgumentError(
                f"a mask is a sparse array of {dtype} with several entries of the same pixel, "
                f"which add up to more than {dtype} holds; give it in a wider dtype"
            )
    # SciPy makes matrices of half precision, but does nothing with them.
    known = scipy_dtype(dtype) if is_scipy(mask) else dtype.newbyteorder("=")
    return mask if dtype == known else mask.astype(known)


def _csr(matrix: Any) -> Any:
    """A two-dimensional array or matrix in CSR, in a dtype that SciPy has."""
    dtype = scipy_dtype(np.dtype(matrix.dtype))
    return to_csr(matrix if matrix.dtype == dtype else matrix.astype(dtype))


def _as_coo(stack: _Stack) -> Any:
    """Sparse masks as a ``sparse.COO``, shape ``(n_masks, *sig)``."""
    sparse = require("sparse", "MaskContainer", "stacks of sparse masks")
    rows = to_csr(stack.columns)
    rows.sort_indices()
    mask = np.repeat(np.arange(stack.count), np.diff(rows.indptr))
    return sparse.COO(
        np.stack([mask, *np.unravel_index(rows.indices, stack.sig)]),
        rows.data.astype(stack.dtype, copy=False),
        shape=(stack.count, *stack.sig),
        has_duplicates=False,
        sorted=True,
    )


def _formatted(matrix: Any, dtype: np.dtype[Any], form: str | bool) -> Any:
    """A two-dimensional array or SciPy matrix in another dtype and format."""
    if form is False:
        array = to_dense(matrix)
        _check_that_it_fits(array, dtype)
        dense = np.asarray(array, dtype=dtype, order="C").view()
        dense.flags.writeable = False
        return dense
    csr = _csr(matrix)
    _check_that_it_fits(csr.data, dtype)
    csr = csr.astype(scipy_dtype(dtype))
    if form == "scipy.sparse.csc":
        return csr.tocsc()
    if form in ("sparse.pydata", "sparse.pydata.GCXS"):
        coo = require("sparse", "MaskContainer", f"masks of format {form!r}").COO.from_scipy_sparse(
            csr
        )
        return coo.asformat("gcxs") if form == "sparse.pydata.GCXS" else coo
    return csr
