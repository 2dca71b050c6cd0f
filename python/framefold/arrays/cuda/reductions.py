"""How framefold's reductions are done with arrays of CuPy, one row for each.

Where the frames are on a device anyway, these take the place of the native kernels. Their results
have the names, kinds and dtypes that the kernels declare; sums of integers are exact before they
are rounded, as there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

from framefold.arrays.cuda.pairs import are_paired, sum_of_frames
from framefold.arrays.cuda.pixels import as_dtype
from framefold.arrays.cuda.products import mask_products
from framefold.arrays.cuda.worker import current_worker
from framefold.common.buffers import BufferDeclaration
from framefold.common.udf import UDFMethod
from framefold.masks._disks import in_disk
from framefold.udf._exact_sums import _check
from framefold.udf._vector_field import center_shifts
from framefold.udf.base import UDF
from framefold.udf.masks import ApplyMasksUDF

if TYPE_CHECKING:
    from framefold import _engine

Array = npt.NDArray[Any]
#: Kind, extra shape and dtype of what is added up, by name.
Parts = dict[str, tuple[str, tuple[int, ...], npt.DTypeLike]]


class Row(NamedTuple):
    """One reduction; all functions get the :class:`OnCupy` at work."""

    #: What is added up.
    parts: Callable[[OnCupy], Parts]
    #: Adds a stack of frames, of shape ``(n, *sig)`` and the dtype of the data, on the device.
    add: Callable[[OnCupy, Any], None]
    #: The results that the kernel declares, of what all partitions added up.
    finish: Callable[[OnCupy], dict[str, Array]]
    #: Merges what another set of frames added up.
    merge: Callable[[OnCupy, Any, Any], None]
    #: Whether frames of complex numbers can be reduced.
    takes_complex: bool = True


class OnCupy(UDF):
    """A native kernel's work, done by CuPy.

    Parameters
    ----------
    native
        The kernel.
    kernel
        Its name.
    parameters
        What it was made with.
    pixels
        The dtype that it gets frames in.
    masks
        A container of masks, for those that multiply with them.
    """

    def __init__(
        self,
        native: _engine.NativeUdf,
        kernel: str,
        parameters: Mapping[str, Any],
        pixels: npt.DTypeLike,
        masks: Any,
    ) -> None:
        super().__init__(
            native=native,
            kernel=kernel,
            parameters=parameters,
            pixels=np.dtype(pixels),
            masks=masks,
        )

    def get_backends(self) -> tuple[str, ...]:
        """Dense arrays of CuPy."""
        return (self.BACKEND_CUPY,)

    def get_method(self) -> UDFMethod:
        """Stacks of whole frames."""
        return UDFMethod.FRAMES

    def get_preferred_input_dtype(self) -> npt.DTypeLike:
        """The dtype of the data, as kernels get them."""
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self) -> dict[str, BufferDeclaration]:
        """The parts, and the results of the kernel."""
        buffers = {
            name: self.buffer(kind, extra, dtype, where="device", use="private")  # type: ignore[arg-type]
            for name, (kind, extra, dtype) in self._row.parts(self).items()
        }
        for name, (kind, extra, dtype) in self.declared.items():
            buffers[name] = self.buffer(kind, extra, dtype, use="result_only")  # type: ignore[arg-type]
        return buffers

    @property
    def declared(self) -> Parts:
        """The results that the kernel declares."""
        shape, roi = self.meta.dataset_shape, self.meta.roi
        flat = None if roi is None else np.ascontiguousarray(roi, dtype=bool).reshape(-1)
        nav, sig = tuple(shape.nav), tuple(shape.sig)
        native: _engine.NativeUdf = self.params.native
        return {
            name: (kind, tuple(extra), np.dtype(of))
            for name, kind, extra, of, _ in native.buffers(nav, sig, self.dtype.name, flat)
        }

    @property
    def dtype(self) -> np.dtype[Any]:
        """That of the frames."""
        dtype: np.dtype[Any] = self.params.pixels
        return dtype

    @property
    def wide(self) -> np.dtype[Any]:
        """What sums of pixels are computed in."""
        wide: dict[str, type[Any]] = {"f": np.float64, "c": np.complex128}
        dtype: np.dtype[Any] = np.dtype(wide.get(self.dtype.kind, np.int64))
        return dtype

    @property
    def _row(self) -> Row:
        return ROWS[self.params.kernel]

    def reduces(self, frame_bytes: int) -> bool:
        """Whether the results of a frame are much smaller than it."""
        if self.params.kernel == "masks":
            n_masks: int = len(self.params.masks)
            return 16 * 8 * n_masks <= frame_bytes
        return bool(self.params.kernel != "pick")

    def get_task_data(self) -> dict[str, Any]:
        """How many frames there were, and the weights of moments, once for each worker."""
        data: dict[str, Any] = {"counts": {"present": 0}}
        worker = current_worker()
        if self.params.kernel == "com" and worker is not None:
            data["weights"] = worker.keep((self.params.native, "com"), lambda: _weights(self))
        return data

    def preprocess(self) -> None:
        """Begin with the smallest number where the largest is looked for."""
        if self.params.kernel == "max":
            self.results.highest[:] = _smallest(self.dtype)

    def process_frames(self, frames: Any) -> None:
        """Add them."""
        # Functions that run beside it may have wished for another dtype, in which they all fit.
        self._row.add(self, as_dtype(frames, self.dtype))

    def merge(self, dest: Any, src: Any) -> None:
        """Add what another set of frames came to."""
        with np.errstate(invalid="ignore", over="ignore"):  # as on devices, and in kernels
            self._row.merge(self, dest, src)

    def get_results(self) -> dict[str, Any]:
        """Those of the kernel, in the dtypes that it declares."""
        merged, results = self.meta.get_valid_nav_mask(), {}
        is_last = merged is not None and merged.all()
        by_frame = any(kind == "nav" for kind, _, _ in self._row.parts(self).values())
        with np.errstate(invalid="ignore", over="ignore"):
            finished = self._row.finish(self)
            for name, (_, _, declared) in self.declared.items():
                dtype = np.dtype(declared)
                # A copy for the NaN: the run goes on to merge into what it has.
                results[name] = np.asarray(finished[name]).astype(dtype, copy=not is_last)
                if by_frame and merged is not None and dtype.kind in "fc":
                    nan = complex(np.nan, np.nan) if dtype.kind == "c" else np.nan
                    results[name][~merged] = nan
        return results


def twin_of(
    udf: UDF, native: _engine.NativeUdf, dtype: np.dtype[Any], pixels: np.dtype[Any]
) -> UDF | None:
    """What does the same as a native kernel on a device; None if nothing does.

    Parameters
    ----------
    udf
        The UDF that runs on the kernel.
    native
        A kernel that declares the results of the one for it.
    dtype, pixels
        The dtype of the data, and what corrections make of it.
    """
    kernel = udf._native_kernel
    row = None if kernel is None or udf._plugin is not None else ROWS.get(kernel)
    if row is None or (pixels.kind == "c" and not row.takes_complex):
        return None
    parameters = udf._native_declaration(dtype) or {}
    if parameters.get("shifts") is not None:
        return None  # what moves from frame to frame is for the kernel
    if kernel == "com" and not parameters.get("shifts_only"):
        return None
    if kernel == "masks" and not isinstance(udf, ApplyMasksUDF):
        return None
    masks = udf.masks if isinstance(udf, ApplyMasksUDF) else None
    # Messages and plans name the user's class.
    cls = type(type(udf).__name__, (OnCupy,), {"__module__": __name__})
    region = {name: parameters.get(name) for name in ("cy", "cx", "r", "ri")}
    made: UDF = cls(native, kernel, region, pixels, masks)
    return made


# --- Sums ---------------------------------------------------------------------------------------


def _sum_parts(kind: str) -> Callable[[OnCupy], Parts]:
    """Sums of pixels; of integers of 64 bits, in two halves, so that they do not overflow."""

    def parts(udf: OnCupy) -> Parts:
        halves = ("total", "upper") if _in_halves(udf) else ("total",)
        return dict.fromkeys(halves, (kind, (), udf.wide))

    return parts


def _in_halves(udf: OnCupy) -> bool:
    return udf.dtype.kind in "iu" and udf.dtype.itemsize == 8


def _sums_of_halves(frames: Any, axis: int | tuple[int, ...]) -> tuple[Any, Any]:
    """Sums of integers of 64 bits: those of 2³² in them, and those of the rest, from 0 up."""
    upper = (frames >> 32).sum(axis=axis, dtype=np.int64)
    return upper, (frames & 0xFFFF_FFFF).sum(axis=axis, dtype=np.int64)


def _add_sums(udf: OnCupy, frames: Any, axis: int | tuple[int, ...]) -> None:
    if _in_halves(udf):
        upper, lower = _sums_of_halves(frames, axis)
        udf.results.upper[:] += upper
        udf.results.total[:] += lower
    elif axis == 0 and are_paired(frames):
        udf.results.total[:] += sum_of_frames(frames)
    else:
        udf.results.total[:] += frames.sum(axis=axis, dtype=udf.wide)


def _finish_sums(udf: OnCupy) -> dict[str, Array]:
    total: Array = np.asarray(udf.results.total)
    ((name, (_, _, dtype)),) = udf.declared.items()
    if _in_halves(udf):
        # Integers of Python: as long as need be.
        total = np.asarray(udf.results.upper).astype(object) * 2**32 + total.astype(object)
        if np.dtype(dtype).kind in "iu":
            _check(total, np.dtype(dtype))
    return {name: total}


def _axes(frames: Any) -> tuple[int, ...]:
    return tuple(range(1, frames.ndim))


def _merge_added(udf: OnCupy, dest: Any, src: Any) -> None:
    for name in udf._row.parts(udf):
        getattr(dest, name)[:] += getattr(src, name)


def _merge_assigned(udf: OnCupy, dest: Any, src: Any) -> None:
    for name in udf._row.parts(udf):
        getattr(dest, name)[:] = getattr(src, name)


# --- Largest pixels -----------------------------------------------------------------------------


def _smallest(dtype: np.dtype[Any]) -> Any:
    if dtype.kind == "b":
        return False
    return np.iinfo(dtype).min if dtype.kind in "iu" else -np.inf


def _add_highest(udf: OnCupy, frames: Any) -> None:
    highest = udf.results.highest
    highest[:] = udf.xp.maximum(highest, frames.max(axis=0))


def _merge_highest(udf: OnCupy, dest: Any, src: Any) -> None:
    dest.highest[:] = np.maximum(dest.highest, src.highest)


# --- Deviations ---------------------------------------------------------------------------------


def _deviation_parts(udf: OnCupy) -> Parts:
    return {
        "total": ("sig", (), np.result_type(udf.wide, np.float64)),
        "squares": ("sig", (), np.float64),
        "n": ("single", (), np.int64),
    }


def _add_deviations(udf: OnCupy, frames: Any) -> None:
    results, n = udf.results, len(frames)
    present = udf.task_data.counts["present"]
    total = _rounded_sum(udf, frames)
    parts = (frames.real, frames.imag) if udf.dtype.kind == "c" else (frames,)
    squares = sum(_doubled(part).var(axis=0) for part in parts) * float(n)
    if present:
        squares = squares + _between(results.total, present, total, n)
    results.squares[:] += squares
    results.total[:] += total
    results.n[:] += n
    udf.task_data.counts["present"] = present + n


def _rounded_sum(udf: OnCupy, frames: Any) -> Any:
    """The sum of a stack in double precision."""
    dtype = udf.results.total.dtype
    if not _in_halves(udf):
        return frames.sum(axis=0, dtype=udf.wide).astype(dtype)
    upper, lower = (half.astype(dtype) for half in _sums_of_halves(frames, 0))
    return upper * 2.0**32 + lower


def _doubled(part: Any) -> Any:
    """Numbers whose mean and deviations CuPy computes in double precision.

    It does so for whole numbers as they are. With a ``dtype``, ``var`` would round their mean.
    """
    return part if part.dtype.kind in "biu" else part.astype(np.float64, copy=False)


def _between(one: Any, n_one: int, other: Any, n_other: int) -> Any:
    """What two sets of frames deviate more together than each from its own mean."""
    delta = other * (1 / n_other) - one * (1 / n_one)
    return (delta * delta.conj()).real * (n_one * n_other / (n_one + n_other))


def _merge_deviations(_udf: OnCupy, dest: Any, src: Any) -> None:
    n_dest, n_src = int(dest.n[0]), int(src.n[0])
    if n_dest and n_src:
        dest.squares[:] += _between(dest.total, n_dest, src.total, n_src)
    dest.squares[:] += src.squares
    dest.total[:] += src.total
    dest.n[:] += src.n


def _finish_deviations(udf: OnCupy) -> dict[str, Array]:
    total, squares = udf.results.total, udf.results.squares
    n = max(int(udf.results.n[0]), 1)
    var = squares / n
    moments = {"varsum": squares, "num_frames": udf.results.n, "sum": total}
    # Part by part: a complex quotient would make NaN of the part beside an infinite one.
    mean = (np.asarray(total).view(np.float64) / n).view(total.dtype)
    return {**moments, "var": var, "std": np.sqrt(var), "mean": mean}


# --- Logarithms ---------------------------------------------------------------------------------


def _add_logarithms(udf: OnCupy, frames: Any) -> None:
    # Single precision holds all numbers of up to 16 bits, and their differences.
    dtype = np.dtype(np.float32 if udf.dtype.itemsize <= 2 else np.float64)
    if _in_halves(udf):
        # Not rounded before: small differences between large numbers would be 0. Unsigned ones
        # hold all that signed ones can differ by.
        lowest = frames.min(axis=_axes(frames), keepdims=True)
        above = as_dtype(frames.view(np.uint64) - lowest.view(np.uint64), dtype)
    else:
        frames = as_dtype(frames, dtype)
        above = frames - frames.min(axis=_axes(frames), keepdims=True)
    udf.results.total[:] += udf.xp.log1p(above).sum(axis=0, dtype=np.float64)


# --- Frames as they are -------------------------------------------------------------------------


def _frame_parts(udf: OnCupy) -> Parts:
    return {"frames": ("nav", tuple(udf.meta.dataset_shape.sig), udf.dtype)}


def _add_frames(udf: OnCupy, frames: Any) -> None:
    udf.results.frames[:] = frames


def _finish_frames(udf: OnCupy) -> dict[str, Array]:
    return {"intensity": udf.results.frames}


# --- Products with masks ------------------------------------------------------------------------


def _product_dtype(udf: OnCupy) -> np.dtype[Any]:
    """What is multiplied in: integers in double precision, so that their sums are exact."""
    whole = udf.dtype.kind in "biu" and udf.params.masks.dtype.kind in "biu"
    return np.dtype(np.float64 if whole else udf.declared["intensity"][2])


def _product_parts(udf: OnCupy) -> Parts:
    return {"products": ("nav", (len(udf.params.masks),), _product_dtype(udf))}


def _add_products(udf: OnCupy, frames: Any) -> None:
    flat, dtype = frames.reshape((len(frames), -1)), udf.results.products.dtype
    udf.results.products[:] = mask_products(flat, udf.params.masks, udf.meta.sig_slice, dtype)


def _finish_products(udf: OnCupy) -> dict[str, Array]:
    return {"intensity": udf.results.products}


# --- Centres of mass ----------------------------------------------------------------------------


def _centre(udf: OnCupy) -> tuple[float, float]:
    region, (height, width) = udf.params.parameters, udf.meta.dataset_shape.sig
    cy, cx = region["cy"], region["cx"]
    return height // 2 if cy is None else cy, width // 2 if cx is None else cx


def _weights(udf: OnCupy) -> tuple[Any, Any]:
    """Which pixels count, None for all of them, and their weights, shape ``(pixels, 3)``."""
    region, (cy, cx) = udf.params.parameters, _centre(udf)
    y, x = np.indices(tuple(udf.meta.dataset_shape.sig), dtype=np.float64).reshape((2, -1))
    inside = in_disk(y - cy, x - cx, region["r"])
    if region["ri"]:
        inside &= ~in_disk(y - cy, x - cx, region["ri"])
    weights = np.stack([np.ones_like(y), y, x], axis=1)[inside]
    pixels = None if inside.all() else udf.xp.asarray(np.flatnonzero(inside))
    return pixels, udf.xp.asarray(weights)


def _add_moments(udf: OnCupy, frames: Any) -> None:
    pixels, weights = udf.task_data.weights
    flat = frames.reshape((len(frames), -1))
    # Pixels that do not count may be anything, such as NaN.
    flat = flat if pixels is None else udf.xp.take(flat, pixels, axis=1)
    udf.results.moments[:] = flat.astype(np.float64) @ weights


def _finish_moments(udf: OnCupy) -> dict[str, Array]:
    moments, (cy, cx) = udf.results.moments, _centre(udf)
    shifts = np.stack(center_shifts(moments[:, 0], moments[:, 1], moments[:, 2], cy, cx), axis=-1)
    return {"raw_shifts": shifts, "raw_com": shifts + np.array([cy, cx])}


#: By the names of the kernels.
ROWS: dict[str, Row] = {
    "sum": Row(_sum_parts("sig"), lambda u, f: _add_sums(u, f, 0), _finish_sums, _merge_added),
    "sum_sig": Row(
        _sum_parts("nav"), lambda u, f: _add_sums(u, f, _axes(f)), _finish_sums, _merge_assigned
    ),
    "max": Row(
        lambda udf: {"highest": ("sig", (), udf.dtype)},
        _add_highest,
        lambda udf: {"intensity": udf.results.highest},
        _merge_highest,
        takes_complex=False,
    ),
    "stddev": Row(_deviation_parts, _add_deviations, _finish_deviations, _merge_deviations),
    "logsum": Row(
        lambda _udf: {"total": ("sig", (), np.float64)},
        _add_logarithms,
        lambda udf: {"logsum": udf.results.total},
        _merge_added,
        takes_complex=False,
    ),
    "pick": Row(_frame_parts, _add_frames, _finish_frames, _merge_assigned),
    "masks": Row(_product_parts, _add_products, _finish_products, _merge_assigned),
    "com": Row(
        lambda _udf: {"moments": ("nav", (3,), np.float64)},
        _add_moments,
        _finish_moments,
        _merge_assigned,
        takes_complex=False,
    ),
}
