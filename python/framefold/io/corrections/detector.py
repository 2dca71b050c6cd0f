"""Correction of arrays in memory, and of masks in the place of the data.

These functions do with NumPy what the engine does with every tile when ``run_udf`` gets
``corrections``.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.common._booleans import boolean
from framefold.common._masked import refuse_masked
from framefold.common.sparse import is_sparse, to_dense
from framefold.exceptions import InvalidArgumentError
from framefold.io.corrections.excluded import excluded

__all__ = [
    "CorrectError",
    "RepairDescriptor",
    "RepairValueError",
    "correct",
    "correct_dot_masks",
]

_EXCLUDE = "pass them as excluded pixels, and filled values here"


class CorrectError(InvalidArgumentError):
    """Corrections that cannot be applied."""


class RepairValueError(CorrectError):
    """An excluded pixel has no good neighbour."""


def correct(
    buffer: npt.NDArray[Any],
    dark_image: npt.ArrayLike | None = None,
    gain_map: npt.ArrayLike | None = None,
    excluded_pixels: Any = None,
    repair_descriptor: RepairDescriptor | None = None,
    inplace: bool = False,
    sig_shape: tuple[int, ...] | None = None,
    allow_empty: bool = False,
) -> npt.NDArray[Any]:
    """Compute ``(buffer - dark_image) * gain_map``, then repair excluded pixels.

    An excluded pixel becomes the mean of its good neighbours: the cells of the same frame that
    are at most one away on any axis, and not excluded.

    Parameters
    ----------
    buffer
        Frames, shape ``(*any, *sig_shape)``, any number dtype.
    dark_image
        What to subtract, shape ``sig_shape``.
    gain_map
        What to multiply with, shape ``sig_shape``.
    excluded_pixels
        An array of ``sig_shape``, dense or sparse, of which elements other than 0 are excluded;
        or coordinates of shape ``(d, n)``.
    repair_descriptor
        A prepared :class:`RepairDescriptor`, in the place of ``excluded_pixels``.
    inplace
        Write to ``buffer`` and return it; only for floats and complex numbers.
    sig_shape
        The shape of a frame, where neither dark image nor gain map nor a mask tells.
    allow_empty
        Leave excluded pixels without good neighbours as they are.

    Returns
    -------
    numpy.ndarray
        The shape of ``buffer``, and its dtype promoted with float32.

    Raises
    ------
    RepairValueError
        If an excluded pixel has no good neighbour, unless ``allow_empty``.
    InvalidArgumentError
        If shapes or dtypes do not fit, or no argument tells the shape of a frame; if dark image or
        gain map are NaN or infinite in the dtype of the result where a pixel is not excluded.
    TypeError
        If ``inplace`` is asked for and ``buffer`` holds integers.
    """
    refuse_masked("the data", buffer, _EXCLUDE)
    inplace = boolean("inplace", inplace)
    buffer = np.asarray(buffer)
    dark, gain = plane("dark_image", dark_image), plane("gain_map", gain_map)
    pixels = excluded(excluded_pixels)
    shape = _frame_shape(
        sig_shape,
        None if repair_descriptor is None else repair_descriptor.sig_shape,
        dark,
        gain,
        None if pixels is None else pixels.known_shape(),
    )
    if buffer.ndim < len(shape) or buffer.shape[buffer.ndim - len(shape) :] != shape:
        raise InvalidArgumentError(
            f"the data have shape {buffer.shape}, expected the last axes to be those of a frame, "
            f"{shape}"
        )
    if inplace and buffer.dtype.kind not in "fc":
        raise TypeError(
            f"data of dtype {buffer.dtype} cannot be corrected in place; "
            f"use a floating-point array, or inplace=False"
        )
    dtype = buffer.dtype if inplace else np.result_type(buffer.dtype, np.float32)
    for what, values in (("dark_image", dark), ("gain_map", gain)):
        if values is not None and values.dtype.kind == "c" and dtype.kind != "c":
            raise InvalidArgumentError(
                f"{what} has dtype {values.dtype}, but the data have dtype {buffer.dtype}; "
                f"pass a real one for real data"
            )
    if repair_descriptor is None:
        repair_descriptor = RepairDescriptor(shape, pixels, allow_empty)
    dark = _converted("dark_image", dark, dtype, repair_descriptor)
    gain = _converted("gain_map", gain, dtype, repair_descriptor)
    out = buffer if inplace else buffer.astype(dtype)
    if dark is not None:
        out -= dark
    if gain is not None:
        if dtype.kind == "c" and gain.dtype.kind != "c":
            # Part by part: a complex product would make NaN of an infinite part.
            out.real *= gain
            out.imag *= gain
        else:
            out *= gain
    repair_descriptor.repair(out)
    return out


def _converted(
    what: str, values: npt.NDArray[Any] | None, dtype: np.dtype[Any], repair: RepairDescriptor
) -> npt.NDArray[Any] | None:
    """A dark frame or gain map as it is applied to frames of ``dtype``; None for None."""
    if values is None:
        return None
    with np.errstate(over="ignore"):  # what is too large is infinite then
        converted = values.astype(dtype if values.dtype.kind == "c" else _real(dtype))
    bad = ~np.isfinite(converted)
    bad.flat[repair.exclude_flat] = False
    if bad.any():
        raise InvalidArgumentError(
            f"{what} is NaN, infinite or too large for {converted.dtype} at {bad.sum()} pixels "
            f"that are not excluded; the first is {tuple(np.argwhere(bad)[0].tolist())}"
        )
    return converted


def correct_dot_masks(
    masks: Any,
    gain_map: npt.ArrayLike | None = None,
    excluded_pixels: Any = None,
    allow_empty: bool = False,
) -> Any:
    """Masks whose products with raw frames are those of ``masks`` with corrected frames.

    The weight of an excluded pixel is shared out among its good neighbours in equal parts, and
    weights are multiplied by the gain. A dark frame has to be subtracted from the frames, or its
    own product with the result from the products.

    Parameters
    ----------
    masks
        Shape ``(*any, *sig_shape)``, or ``(*any, n_pixels)`` with the frame flattened; a NumPy
        array, a ``sparse.COO`` or a two-dimensional ``scipy.sparse`` one, of which that of the
        shape of a frame is one mask.
    gain_map
        Shape ``sig_shape``.
    excluded_pixels, allow_empty
        As for :func:`correct`.

    Returns
    -------
    The masks, of the same kind and shape, and of float dtype.

    Raises
    ------
    RepairValueError
        If an excluded pixel has no good neighbour, unless ``allow_empty``.
    InvalidArgumentError
        If shapes do not fit, or neither the gain map nor a mask tells the shape of a frame.
    """
    gain, pixels = plane("gain_map", gain_map), excluded(excluded_pixels)
    shape = _frame_shape(None, None, None, gain, None if pixels is None else pixels.known_shape())
    n_pixels = int(np.prod(shape))
    found = tuple(masks.shape) if hasattr(masks, "shape") else np.shape(masks)
    if found[-1:] != (n_pixels,) and found[max(0, len(found) - len(shape)) :] != shape:
        raise InvalidArgumentError(
            f"the masks have shape {found}, expected the last axes to be those of a frame, "
            f"{shape}, or {n_pixels} pixels"
        )
    repair = RepairDescriptor(shape, pixels, allow_empty)
    if gain is not None:
        # Pixels that take no part have no gain: it may be NaN there.
        gain = gain.copy()
        gain.flat[repair.exclude_flat[repair.repair_counts > 0]] = 0
    if hasattr(masks, "shape") and not isinstance(masks, np.ndarray):
        return _correct_sparse(masks, gain, repair, n_pixels)
    refuse_masked("the masks", masks)
    dense = np.asarray(masks)
    dtype = np.result_type(dense, np.float32 if gain is None else gain, np.float32)
    out = dense.astype(dtype).reshape(-1, n_pixels)
    weights = out[:, repair.exclude_flat] / np.maximum(repair.repair_counts, 1)
    out[:, repair.exclude_flat[repair.repair_counts > 0]] = 0
    for k in range(repair.repair_flat.shape[1]):
        there = k < repair.repair_counts
        # Two excluded pixels can share a neighbour: add up.
        for mask, shares in zip(out, weights, strict=True):
            np.add.at(mask, repair.repair_flat[there, k], shares[there])
    if gain is not None:
        out *= gain.reshape(-1)
    return out.reshape(found)


def _correct_sparse(
    masks: Any, gain: npt.NDArray[Any] | None, repair: RepairDescriptor, n_pixels: int
) -> Any:
    """As :func:`correct_dot_masks`, as the product with a sparse matrix."""
    import scipy.sparse

    is_scipy = scipy.sparse.issparse(masks)
    flat = masks.reshape((-1, n_pixels))
    flat = flat if is_scipy else flat.to_scipy_sparse()
    kept = np.ones(n_pixels)
    kept[repair.exclude_flat[repair.repair_counts > 0]] = 0
    there = np.arange(repair.repair_flat.shape[1]) < repair.repair_counts[:, None]
    rows = np.broadcast_to(repair.exclude_flat[:, None], there.shape)[there]
    shares = np.repeat(1 / np.maximum(repair.repair_counts, 1), repair.repair_counts)
    matrix = scipy.sparse.diags(kept) + scipy.sparse.coo_matrix(
        (shares, (rows, repair.repair_flat[there])), shape=(n_pixels, n_pixels)
    )
    if gain is not None:
        matrix = matrix @ scipy.sparse.diags(gain.reshape(-1))
    product = scipy.sparse.csr_matrix(flat) @ matrix
    if is_scipy:
        return type(masks)(product.reshape(masks.shape))
    return type(masks).from_scipy_sparse(product.tocoo()).reshape(masks.shape)


class RepairDescriptor:
    """Which pixels are repaired with which neighbours.

    Parameters
    ----------
    sig_shape
        The shape of a frame.
    excluded_pixels
        As for :func:`correct`.
    allow_empty
        Leave excluded pixels without good neighbours as they are.

    Attributes
    ----------
    sig_shape : tuple of int
        The shape of a frame.
    exclude_flat : numpy.ndarray of int, shape (n,)
        The excluded pixels as flat indices, ascending.
    repair_flat : numpy.ndarray of int, shape (n, 3**d - 1)
        The good neighbours of each as flat indices, filled up with 0.
    repair_counts : numpy.ndarray of int, shape (n,)
        How many good neighbours each has.

    Raises
    ------
    RepairValueError
        If an excluded pixel has no good neighbour, unless ``allow_empty``.
    InvalidArgumentError
        If the excluded pixels do not fit the frame.
    """

    def __init__(
        self, sig_shape: tuple[int, ...], excluded_pixels: Any = None, allow_empty: bool = False
    ) -> None:
        self.sig_shape = tuple(int(length) for length in sig_shape)
        allow_empty = boolean("allow_empty", allow_empty)
        pixels = excluded(excluded_pixels)
        dims = len(self.sig_shape)
        where = np.zeros((dims, 0), np.intp) if pixels is None else pixels.for_shape(self.sig_shape)
        bad = np.zeros(self.sig_shape, dtype=bool)
        bad[tuple(where)] = True
        self.exclude_flat = np.flatnonzero(bad)
        places = np.stack(np.unravel_index(self.exclude_flat, self.sig_shape), axis=1)
        self.repair_flat = np.zeros((len(places), 3**dims - 1), dtype=np.intp)
        self.repair_counts = np.zeros(len(places), dtype=np.intp)
        for step in np.ndindex(*(3,) * dims):
            around = places + np.subtract(step, 1)
            good: npt.NDArray[np.bool_] = np.all((around >= 0) & (around < self.sig_shape), axis=1)
            good[good] = ~bad[tuple(around[good].T)]
            flat = np.ravel_multi_index(tuple(around[good].T), self.sig_shape)
            self.repair_flat[good, self.repair_counts[good]] = flat
            self.repair_counts[good] += 1
        if not allow_empty and not self.repair_counts.all():
            empty = self.repair_counts == 0
            first = tuple(places[empty][0].tolist())
            raise RepairValueError(
                f"{np.count_nonzero(empty)} of {len(places)} excluded pixels of a frame of shape "
                f"{self.sig_shape} cannot be repaired, because all of their neighbours are "
                f"excluded, too; the first is {first}; exclude fewer pixels, or set allow_empty to "
                f"leave these as they are"
            )

    def repair(self, frames: npt.NDArray[Any]) -> None:
        """Replace excluded pixels by the mean of their good neighbours, in place.

        Parameters
        ----------
        frames
            Shape ``(*any, *sig_shape)``; floats or complex numbers.
        """
        wide = np.complex128 if frames.dtype.kind == "c" else np.float64
        lead = frames.shape[: frames.ndim - len(self.sig_shape)]
        sums = np.zeros((*lead, len(self.exclude_flat)), dtype=wide)
        for k in range(self.repair_flat.shape[1]):
            there = k < self.repair_counts
            sums[..., there] += frames[self._cells(self.repair_flat[there, k])]
        repaired = self.repair_counts > 0
        means, counts = sums[..., repaired], self.repair_counts[repaired]
        # Part by part: NumPy divides complex numbers in another way.
        means.real /= counts
        if wide is np.complex128:
            means.imag /= counts
        frames[self._cells(self.exclude_flat[repaired])] = means

    def _cells(self, flat: npt.NDArray[np.intp]) -> tuple[Any, ...]:
        """The index of cells in frames, whatever axes come before theirs."""
        return (..., *np.unravel_index(flat, self.sig_shape))


def plane(what: str, values: npt.ArrayLike | None) -> npt.NDArray[Any] | None:
    """A dark frame or gain map as an array of numbers; None for None.

    Raises
    ------
    InvalidArgumentError
        If ``values``, called ``what`` in the message, are not numbers.
    """
    if values is None:
        return None
    refuse_masked(what, values, _EXCLUDE)
    array = to_dense(values) if is_sparse(values) else np.asarray(values)
    if array.dtype.kind not in "biufc" or array.ndim == 0:
        raise InvalidArgumentError(
            f"{what} has dtype {array.dtype} and shape {array.shape}; "
            f"pass an array of numbers of the shape of a frame"
        )
    return array


def _frame_shape(
    sig_shape: tuple[int, ...] | None,
    of_descriptor: tuple[int, ...] | None,
    dark: npt.NDArray[Any] | None,
    gain: npt.NDArray[Any] | None,
    of_mask: tuple[int, ...] | None,
) -> tuple[int, ...]:
    """The one shape that all that is given agrees on."""
    given = {
        "sig_shape": sig_shape and tuple(int(length) for length in sig_shape),
        "repair_descriptor": of_descriptor,
        "dark_image": None if dark is None else dark.shape,
        "gain_map": None if gain is None else gain.shape,
        "excluded_pixels": of_mask,
    }
    shapes = {name: shape for name, shape in given.items() if shape is not None}
    if not shapes:
        raise InvalidArgumentError(
            "nothing tells the shape of a frame; pass sig_shape, a dark image or a gain map"
        )
    (first, shape), *others = shapes.items()
    for name, other in others:
        if other != shape:
            raise InvalidArgumentError(
                f"{first} is for frames of shape {shape}, but {name} for frames of shape {other}"
            )
    return shape


def _real(dtype: np.dtype[Any]) -> np.dtype[Any]:
    """The dtype of the real part."""
    return np.empty(0, dtype).real.dtype
