"""Products of each frame with masks: virtual detectors."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from math import floor
from typing import TYPE_CHECKING, Any, Self
from weakref import WeakKeyDictionary

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold.arrays.formats import restriction
from framefold.common._dtypes import as_dtype
from framefold.common.buffers import AuxBufferWrapper, BufferDeclaration
from framefold.common.container import MaskContainer, MaskFactories
from framefold.common.sparse import is_sparse, scipy_dtype, to_csr
from framefold.common.udf import (
    CUPY,
    CUPY_SCIPY_COO,
    CUPY_SCIPY_CSC,
    CUPY_SCIPY_CSR,
    NUMPY,
    SCIPY_COO,
    SCIPY_CSC,
    SCIPY_CSR,
    SPARSE_COO,
    SPARSE_GCXS,
    UDFMethod,
)
from framefold.exceptions import InvalidArgumentError
from framefold.udf._exact_products import always_fit, product
from framefold.udf._exact_sums import PRODUCTS, add, fit
from framefold.udf._shifts import as_shifts, check_finite, check_scan, unmasked, whole
from framefold.udf.base import UDF
from framefold.udf.references import FromResult

if TYPE_CHECKING:
    from framefold.io.dataset.base import DataSet

#: Preferred dtypes with which the native kernel gives the same dtype as NumPy's rules.
_NATIVE_PREFERENCES = (None, np.dtype(np.float32), np.dtype(np.float64))

#: So many masks are named in a warning.
MAX_NAMED = 5

#: The dtypes that the kernels know, by their characters.
_KNOWN = "?bBhHiIlLqQefdFD"

#: Masks of the kernel for shifts, made once for all copies of a UDF.
_SHIFTED: WeakKeyDictionary[MaskContainer, _engine.ShiftedMasks] = WeakKeyDictionary()
_SHIFTED_LOCK = threading.Lock()

#: The array formats of tiles that masks are applied to.
_BACKENDS = (
    CUPY_SCIPY_CSR,
    CUPY_SCIPY_CSC,
    CUPY_SCIPY_COO,
    SCIPY_CSR,
    SCIPY_CSC,
    SCIPY_COO,
    CUPY,
    NUMPY,
    SPARSE_COO,
    SPARSE_GCXS,
)
#: The same for masks that are shifted.
_SHIFTED_BACKENDS = tuple(f for f in _BACKENDS if f not in (CUPY_SCIPY_COO, SCIPY_COO))


class ApplyMasksUDF(UDF):
    """The scalar product of each frame with each of a number of masks.

    Parameters
    ----------
    mask_factories
        One function that returns a stack of masks, shape ``(n_masks, *sig)``, or a list of
        functions that return a mask of the shape of a frame each: NumPy arrays, or sparse ones
        of SciPy or PyData. Functions, not arrays, so that they are cheap to send to workers.
    use_torch
        Accepted for compatibility, and ignored: dense masks are multiplied by the engine.
    use_sparse
        Whether to multiply with sparse masks, or a format as for
        :class:`~framefold.common.container.MaskContainer`. By default sparse if all masks are,
        with a ``fill_value`` of 0. The format makes no difference to the result.
    mask_count
        The number of masks; if given, it is checked.
    mask_dtype
        The dtype to convert masks to; it has to hold their values, but for fractions.
    preferred_dtype
        The dtype that data should be converted to, unless they need a wider one; float32 by
        default, ``UDF.USE_NATIVE_DTYPE`` for the data's own.
    backends
        The array formats of tiles to accept; by default all but the arrays of SciPy.
    shifts
        How far the masks are moved against each frame, in pixels along each signal axis: a shift
        (dy, dx) moves them by (+dy, +dx). One pair for all frames; an array of shape
        ``(*nav, 2)`` or ``(positions, 2)`` with one pair for each position of the scan, whatever
        the ROI; or AUX data (``ApplyMasksUDF.aux_data(data, kind='nav', extra_shape=(2,),
        dtype=int)``). Whole numbers move masks by whole pixels, exactly. Fractions move them by
        linear interpolation along each axis, with zeros around the mask:
        ``scipy.ndimage.shift(mask, shift, order=1, mode='grid-constant')``. What a mask loses
        over the edge of the frame does not count.

    Results
    -------
    intensity : kind ``nav``, extra_shape ``(n_masks,)``
        Its dtype is the common one of data and masks, where integers and booleans count as
        64 bits wide. With ``mask_dtype`` of integers and without ``shifts``, it is not widened.
        Sums of integers that the dtype can hold are right, whatever is added up on the way, and
        others are an error; where tiles are parts of frames, the sum up to each of them has to
        fit, too. In single precision a result is off by at most ``2**-16`` times the sum of the
        magnitudes of its products (in practice far less), where that is below 3.4e38; integer
        data times masks of integers are summed exactly, as long as sums stay below 2**53, and
        then rounded to the dtype. On a device, products and sums are in the dtype of the result;
        those of integers only with ``backends=("cupy",)`` here.

    Raises
    ------
    InvalidArgumentError
        When a run is planned: if ``backends`` are no array formats; if masks and frames differ
        in shape, or ``mask_count`` is wrong; if ``shifts`` are not one number per signal axis,
        for all frames or for each position of the scan; if they have fractions and the results
        are integers. Later, if the shift of a
        frame that is processed is not finite, or a sum of integers does not fit.
    """

    _computed = frozenset({"_container"})

    def __init__(
        self,
        mask_factories: MaskFactories,
        use_torch: bool = True,
        use_sparse: bool | str | None = None,
        mask_count: int | None = None,
        mask_dtype: npt.DTypeLike | None = None,
        preferred_dtype: npt.DTypeLike | None = None,
        backends: str | Sequence[str] | None = None,
        shifts: Any = None,
        **kwargs: Any,
    ) -> None:
        self._container: MaskContainer | None = None
        is_plain = shifts is not None and not isinstance(shifts, (AuxBufferWrapper, FromResult))
        if is_plain and np.ndim(shifts) > 1:
            array = unmasked(type(self).__name__, shifts)
            # What a frame sees is its own shift, as of AUX data.
            shifts = self.aux_data(array, "nav", array.shape[-1:], array.dtype)
        super().__init__(
            mask_factories=mask_factories,
            use_torch=use_torch,
            use_sparse=use_sparse,
            mask_count=mask_count,
            mask_dtype=mask_dtype,
            preferred_dtype=preferred_dtype,
            backends=backends,
            shifts=shifts,
            **kwargs,
        )

    @property
    def _native_kernel(self) -> str | None:  # type: ignore[override]
        """The kernel, as far as it knows the dtype of the masks."""
        preferred = self.params.preferred_dtype
        if self.params.backends is not None:
            return None
        if (
            None if preferred is None else as_dtype("preferred_dtype", preferred)
        ) not in _NATIVE_PREFERENCES:
            return None
        return "masks" if self.masks.dtype.char in _KNOWN else None

    @property
    def masks(self) -> MaskContainer:
        """The masks; shared by all copies of this UDF, so that a run computes them once."""
        masks = self._container
        if masks is None:
            masks = self._container = self._make_mask_container()
        return masks

    def _at_begin(self, dataset: DataSet) -> None:
        # What the factories give may have changed since the run before.
        self._container = None

    def _make_mask_container(self) -> MaskContainer:
        return MaskContainer(
            self.params.mask_factories,
            dtype=self.params.mask_dtype,
            use_sparse=self.params.use_sparse,
            count=self.params.mask_count,
        )

    def kernel_masks(self) -> dict[str, Any]:
        """All masks for the native kernel.

        Returns
        -------
        dict
            ``masks``: a dense array, shape ``(n_masks, *sig)``; or, if they are sparse, the
            values that are stored, with ``starts`` and ``pixels`` as of compressed rows, as
            arrays of int64. ``sig_shape``: the shape of a mask.
        """
        masks = self._checked_masks()
        shape = {"sig_shape": tuple(masks.sig_shape)}
        if masks.use_sparse is False:
            return {"masks": self._widened(masks.computed_masks), **shape}
        rows = masks.compressed_rows()
        return {
            "masks": self._widened(rows.data),
            "starts": rows.indptr.astype(np.int64),
            "pixels": rows.indices.astype(np.int64),
            **shape,
        }

    def _native_parameters(self, dtype: np.dtype[Any]) -> dict[str, Any]:
        shifts = self._all_shifts()
        return self.kernel_masks() if shifts is None else {**self.kernel_masks(), "shifts": shifts}

    def _native_declaration(self, dtype: np.dtype[Any]) -> dict[str, Any]:
        """As many masks of the same shape and dtype, which weigh no pixel."""
        if self._kwargs.get("shifts") is not None:
            return self._native_parameters(dtype)
        masks = self._checked_masks()
        return {
            "masks": self._widened(np.zeros(0, masks.dtype)),
            "starts": np.zeros(len(masks) + 1, np.int64),
            "pixels": np.zeros(0, np.int64),
            "sig_shape": tuple(masks.sig_shape),
        }

    def _all_shifts(self) -> npt.NDArray[np.float64] | None:
        """The shifts of all positions, or the one for all frames; before parts are handed out."""
        given = self._kwargs.get("shifts")
        n_axes = len(self._checked_masks().sig_shape)
        return None if given is None else as_shifts(type(self).__name__, whole(given), n_axes)

    def _widened(self, values: npt.NDArray[Any]) -> npt.NDArray[Any]:
        # The kernel takes the data as they are; a preference for wider results is met here.
        wider = [np.float32] if values.dtype == np.float16 else []
        if self.params.preferred_dtype is not None:
            wider.append(self.params.preferred_dtype)
        return values.astype(np.result_type(values.dtype, *wider)) if wider else values

    def _doubts(self, dataset: DataSet) -> list[str]:
        empty = np.flatnonzero(~self.masks.cover_pixels())
        if not len(empty):
            return []
        many = len(empty) > 1
        names = ", ".join(map(str, empty[:MAX_NAMED])) + (", …" if len(empty) > MAX_NAMED else "")
        return [
            f"{'masks' if many else 'mask'} {names} of {len(self.masks)} "
            f"{'cover' if many else 'covers'} no pixel: all weights are 0"
        ]

    def copy(self) -> Self:
        """A clean copy that shares the masks."""
        other = super().copy()
        other._container = self.masks
        return other

    def get_method(self) -> UDFMethod | str:
        """Tiles; single frames if masks are shifted."""
        return UDFMethod.TILE if self.params.shifts is None else UDFMethod.FRAME

    def get_backends(self) -> str | Sequence[str]:
        """The ``backends`` parameter, or what the interface documents."""
        backends: str | Sequence[str] | None = self.params.backends
        if backends is not None:
            restriction(backends)
            return backends
        shifted = self.params.shifts is not None
        return _SHIFTED_BACKENDS if shifted else _BACKENDS

    def get_preferred_input_dtype(self) -> npt.DTypeLike:
        """The ``preferred_dtype`` parameter, or float32."""
        preferred = self.params.preferred_dtype
        return np.float32 if preferred is None else as_dtype("preferred_dtype", preferred)

    def get_mask_dtype(self) -> np.dtype[Any]:
        """The dtype of the masks."""
        return self.masks.dtype

    def get_mask_count(self) -> int:
        """The number of masks."""
        return len(self.masks)

    def get_result_buffers(self) -> dict[str, BufferDeclaration]:
        """One number per frame and mask."""
        masks = self._checked_masks()
        self._check_shifts()
        return {
            "intensity": self.buffer(
                kind="nav", extra_shape=(len(masks),), dtype=self._result_dtype(), where="device"
            )
        }

    def get_task_data(self) -> dict[str, Any]:
        """The masks, and the dtype to multiply in."""
        masks, dtype = self._checked_masks(), self._wide_dtype()
        if dtype.kind in "fc" and not self._on_device:
            dtype = np.result_type(dtype, np.float64)
        data: dict[str, Any] = {"masks": masks, "dtype": dtype, "sums": None}
        if self.params.shifts is not None:
            data["shifted"] = self._shifted_kernel()
        is_rounded = dtype.kind in "fc" and dtype != self._result_dtype()
        partition = self.meta.slice
        if is_rounded and partition is not None and len(self.meta.tiling_scheme or ()) > 1:
            sums = np.zeros((partition.shape[0], len(masks)), dtype)
            data["sums"] = (partition.origin[0], sums)
        return data

    def process_tile(self, tile: Any) -> None:
        """Add the products with the part of the masks that belongs to the tile."""
        products = self._products(tile.reshape((tile.shape[0], -1)), self.meta.sig_slice)
        part = self.meta.slice
        if self.task_data.sums is None or part is None:
            self._add(products)
            return
        (first, all_sums), intensity = self.task_data.sums, self.results.intensity
        sums = all_sums[part.origin[0] - first :][: len(products)]
        # What was lost when they were rounded; a subclass may have changed the results since.
        is_rounded = intensity == sums.astype(intensity.dtype)
        sums[...] = np.where(is_rounded, sums, intensity) + products
        intensity[:] = sums

    def _add(self, products: Any) -> None:
        intensity = self.results.intensity
        if isinstance(intensity, np.ndarray):
            add(intensity, products, PRODUCTS)
        elif isinstance(products, np.ndarray):
            total = intensity.get()
            add(total, products, PRODUCTS)
            intensity[:] = self.xp.asarray(total)
        else:
            intensity[:] += products

    def process_frame(self, frame: Any) -> None:
        """Multiply with the masks where they lie on this frame."""
        shifts, sig = self._shifts(), tuple(self.meta.dataset_shape.sig)
        kernel = self.task_data.shifted
        if kernel is not None:
            self.results.intensity[:] = self._shifted_products(kernel, frame, shifts)
            return
        # NumPy multiplies integers by itself, exactly; the frame is moved instead of the masks.
        if self._on_device and hasattr(frame, "toarray"):
            frame = frame.toarray()
        row = to_csr(frame.reshape((1, -1))) if is_sparse(frame) else None
        total: Any = 0
        for corner, weight in _corners(shifts):
            if row is None:
                moved = self._moved_frame(frame.reshape(sig), corner).reshape((1, -1))
            else:
                moved = _moved(row, corner, sig)
            products = self._products(moved, self.meta.sig_slice)[0]
            total = total + (products if weight == 1 else products * weight)
        self.results.intensity[:] = 0
        self._add(total)

    def _moved_frame(self, frame: Any, shifts: Sequence[int]) -> Any:
        """A frame moved against the masks, by whole pixels."""
        window, source = [], []
        for shift, length in zip(shifts, frame.shape, strict=True):
            # Cell i of the mask lies on pixel i + shift of the frame.
            window.append(slice(max(0, -shift), max(0, length - max(0, shift))))
            source.append(slice(max(0, shift), max(0, length + min(0, shift))))
        moved = self.xp.zeros(frame.shape, dtype=self.task_data.dtype)
        moved[tuple(window)] = frame[tuple(source)]
        return moved

    @property
    def _on_device(self) -> bool:
        return self.meta.array_backend in self.CUPY_BACKENDS

    def _products(self, frames: Any, sig_slice: Any) -> Any:
        """Products of flat ``frames`` with all masks, shape ``(len(frames), n_masks)``."""
        masks, dtype = self.task_data.masks, self.task_data.dtype
        if self._on_device:
            return self._device_products(frames, sig_slice)
        # What is real stays real, as by the kernel.
        of_masks, of_frames = (
            dtype if kind == "c" else dtype.type(0).real.dtype
            for kind in (masks.dtype.kind, frames.dtype.kind)
        )
        if is_sparse(frames):
            frames = to_csr(frames)
            plain = self._fit(frames.data)
            form = "scipy.sparse.csr" if masks.use_sparse else False
            columns = masks.get_for_sig_slice(sig_slice, dtype=of_masks, sparse_backend=form)
            return product(frames.astype(of_frames), columns, plain)
        plain = self._fit(frames)
        frames = np.asarray(frames)
        frames = frames if plain else frames.astype(of_frames)
        if masks.use_sparse is False:
            return product(frames, masks.get_for_sig_slice(sig_slice, dtype=of_masks), plain)
        rows = masks.get_for_sig_slice(
            sig_slice, dtype=of_masks, sparse_backend="scipy.sparse.csr", transpose=False
        )
        return product(rows, frames.T.astype(scipy_dtype(of_frames), copy=False), plain).T

    def _device_products(self, frames: Any, sig_slice: Any) -> Any:
        """On the device; on the host where results may not hold the sums, which is seen there."""
        from framefold.arrays.cuda.products import mask_products

        masks, dtype = self.task_data.masks, self.task_data.dtype
        # All tiles of a run are alike in that, so that none is added without a look after others.
        is_plain = dtype.kind not in "iu" or always_fit(
            self.meta.input_dtype, masks.heaviest(), self.results.intensity.dtype
        )
        if is_plain:
            return mask_products(frames, masks, sig_slice, dtype)
        is_sparse_there = hasattr(frames, "tocsr")
        if fit(frames.data if is_sparse_there else frames, masks.heaviest(), dtype):
            return mask_products(frames, masks, sig_slice, dtype).get()
        if is_sparse_there:
            raise InvalidArgumentError(
                f"{type(self).__name__}: sums of products may be beyond what {dtype} can hold, and "
                f"sparse arrays of CuPy cannot say whether they are; use "
                f"preferred_dtype='float64', or backends='cupy'"
            )
        columns = masks.get_for_sig_slice(sig_slice, dtype, False, backend=NUMPY)
        return product(frames.get().astype(dtype), columns, plain=False)

    def _fit(self, values: Any) -> bool:
        """Whether sums of products of these pixels fit into what they are multiplied in."""
        masks, dtype = self.task_data.masks, self.task_data.dtype
        if dtype.kind not in "iu":
            return True
        weight = masks.heaviest()
        return always_fit(self.meta.input_dtype, weight, dtype) or fit(values, weight, dtype)

    def _shifted_kernel(self) -> _engine.ShiftedMasks | None:
        """The kernel for sums of floating-point numbers: NumPy's depend on the number of cores."""
        result, dtypes = self._result_dtype(), (self.masks.dtype, self.meta.input_dtype)
        known = all(np.dtype(dtype).char in _KNOWN for dtype in dtypes)
        if self._on_device or not known or result.kind not in "fc":
            return None
        masks = self._checked_masks()
        with _SHIFTED_LOCK:
            kernel = _SHIFTED.get(masks)
            if kernel is None:
                kernel = _SHIFTED[masks] = _engine.ShiftedMasks(
                    self.kernel_masks(), tuple(masks.sig_shape)
                )
        return kernel

    def _shifted_products(
        self, kernel: _engine.ShiftedMasks, frame: Any, shifts: list[float]
    ) -> npt.NDArray[Any]:
        wide: Any = np.complex128 if np.dtype(frame.dtype).kind == "c" else np.float64
        if is_sparse(frame):
            row = to_csr(frame.reshape((1, -1)))
            columns = row.indices.astype(np.uint32)
            products = kernel.products(row.data.astype(wide), shifts, columns)
        else:
            # In single precision as it is; the kernel widens it.
            dtype: Any = frame.dtype if frame.dtype.char in "fF" else wide
            products = kernel.products(np.ascontiguousarray(frame, dtype).reshape(-1), shifts)
        return products if self.task_data.dtype.kind == "c" else products.real

    def _result_dtype(self) -> np.dtype[Any]:
        """The common dtype of data and masks; integers 64 bits wide if none was asked for."""
        dtype, asked = self._wide_dtype(), self.params.mask_dtype
        if asked is None or self.params.shifts is not None or dtype.kind not in "iu":
            return dtype
        narrow = np.result_type(self.meta.input_dtype, self.masks.dtype)
        return narrow if np.dtype(asked).kind in "iu" else dtype

    def _wide_dtype(self) -> np.dtype[Any]:
        """The common dtype of data and masks, integers 64 bits wide."""
        dtype = np.result_type(self.meta.input_dtype, self.masks.dtype)
        wide: dict[str, type[Any]] = {"b": np.int64, "i": np.int64, "u": np.uint64}
        return np.dtype(wide.get(dtype.kind, dtype))

    def _check_shifts(self) -> None:
        """Refuse shifts that the run cannot follow."""
        shifts = self._all_shifts()
        if shifts is None:
            return
        check_scan(type(self).__name__, shifts, self.meta.dataset_shape)
        result = self._result_dtype()
        fractions = np.isfinite(shifts) & (shifts != np.floor(shifts))
        if result.kind in "iu" and fractions.any():
            raise InvalidArgumentError(
                f"{type(self).__name__}: shifts have fractions, but results are {result}, which "
                f"cannot hold sums between those of pixels; round them, or give preferred_dtype="
                f"'float64'"
            )

    def _shifts(self) -> list[float]:
        """Those of the frame."""
        shifts = np.asarray(self.params.shifts, dtype=np.float64).reshape(-1)
        check_finite(type(self).__name__, shifts)
        # Anything beyond the frame is as far away as anything else.
        return [max(-(2.0**62), min(float(shift), 2.0**62)) for shift in shifts]

    def _checked_masks(self) -> MaskContainer:
        masks = self.masks
        sig = tuple(self.meta.dataset_shape.sig) if hasattr(self, "meta") else masks.sig_shape
        if masks.sig_shape != sig:
            raise InvalidArgumentError(
                f"{type(self).__name__}: the masks have shape {masks.sig_shape}, "
                f"but frames have shape {sig}"
            )
        return masks


def _corners(shifts: Sequence[float]) -> list[tuple[tuple[int, ...], float]]:
    """Shifts by whole pixels whose products, each times a weight, add up to those in between."""
    corners: list[tuple[tuple[int, ...], float]] = [((), 1.0)]
    for shift in shifts:
        first = floor(shift)
        fraction = shift - first
        parts = [(first, 1 - fraction), (first + 1, fraction)]
        corners = [
            ((*corner, at), weight * part)
            for corner, weight in corners
            for at, part in parts
            if part > 0
        ]
    return corners


def _moved(row: Any, shifts: Sequence[int], sig: tuple[int, ...]) -> Any:
    """One sparse frame moved against the masks: pixel i + shift comes to lie on cell i."""
    cells = np.stack(np.unravel_index(row.indices, sig)) - np.array(shifts)[:, np.newaxis]
    stays = ((cells >= 0) & (cells < np.array(sig)[:, np.newaxis])).all(axis=0)
    columns = np.ravel_multi_index(tuple(cells[:, stays]), sig)
    starts = np.array([0, len(columns)])
    return type(row)((row.data[stays], columns, starts), shape=row.shape)
