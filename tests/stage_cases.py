"""Stages with what NumPy and SciPy make of the same arrays."""

from __future__ import annotations

import warnings

import numpy as np
from scipy import ndimage

import framefold as ff
from framefold.warnings import DataSetWarning

#: The shape of a scan, and of its frames.
NAV, SIG = (3, 5), (16, 23)

#: All dtypes of pixels but half precision, which has tests of its own.
DTYPES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float32", "float64", "complex64", "complex128"),
)


def numbers(shape, dtype, seed=1):
    """Pixels of the whole range of a dtype; of 64 bits, as much as sums of them can take."""
    rng = np.random.default_rng(seed)
    dtype = np.dtype(dtype)
    if dtype.kind == "b":
        return rng.random(shape) < 0.5
    if dtype.kind in "ui":
        info = np.iinfo(dtype)
        low, high = (info.min, info.max) if dtype.itemsize < 8 else (info.min >> 6, info.max >> 6)
        return rng.integers(low, high, shape, dtype=dtype, endpoint=True)
    values = rng.normal(3, 10, shape)
    if dtype.kind == "c":
        values = values + 1j * rng.normal(3, 10, shape)
    return values.astype(dtype)


def binned(frames, factors, mean=False):
    """Sums over blocks of the last axes."""
    factors = (factors,) * 2 if np.isscalar(factors) else factors
    ny, nx = (n // f for n, f in zip(frames.shape[-2:], factors, strict=True))
    frames = frames[..., : ny * factors[0], : nx * factors[1]]
    blocks = frames.reshape((*frames.shape[:-2], ny, factors[0], nx, factors[1]))
    n_cells = factors[0] * factors[1]
    wide = {"b": "u8", "u": "u8", "i": "i8", "f": "f8", "c": "c16"}[frames.dtype.kind]
    if mean:
        wide_mean = "c16" if frames.dtype.kind == "c" else "f8"
        exact = frames.dtype.itemsize < 8 or frames.dtype.kind in "fc"
        sums = blocks.sum((-3, -1), dtype=wide if exact else "f8")
        return (sums.astype(wide_mean) / n_cells).astype(np.result_type(frames.dtype, "float32"))
    return blocks.sum((-3, -1), dtype=wide).astype(dtype_of_sums(frames.dtype, n_cells))


def rebinned(frames, factors, mean=False):
    """Sums over blocks of the first two axes."""
    turned = np.moveaxis(frames, (0, 1), (-2, -1))
    return np.moveaxis(binned(turned, factors, mean), (-2, -1), (0, 1))


def dtype_of_sums(dtype, n_cells):
    """The smallest integer that can hold any sum, or the pixels' own float."""
    if dtype.kind in "fc" or dtype in ("u8", "i8"):
        return dtype
    if dtype.kind == "b":
        low, high = 0, n_cells
    else:
        low, high = (int(n) * n_cells for n in (np.iinfo(dtype).min, np.iinfo(dtype).max))
    fitting = ("i1", "i2", "i4", "i8") if dtype.kind == "i" else ("u1", "u2", "u4", "u8")
    return next(
        each for each in fitting if np.iinfo(each).min <= low and high <= np.iinfo(each).max
    )


def kept(frames, minimum, maximum=None):
    inside = frames >= minimum
    if maximum is not None:
        inside &= frames <= maximum
    return np.where(inside, frames, frames.dtype.type(0))


def cast(frames, dtype):
    dtype = np.dtype(dtype)
    if dtype.kind in "ui" and frames.dtype.kind in "uif":
        info = np.iinfo(dtype)
        if frames.dtype.kind == "f":
            whole = np.trunc(frames.astype("f8"))
            inside = np.clip(whole, info.min, info.max).astype(dtype)
            return np.where(whole >= info.max, dtype.type(info.max), inside)
        # Python's integers have no end.
        return np.clip(frames.astype(object), info.min, info.max).astype(dtype)
    return frames.astype(dtype)


def filtered(function, frames, dtype=None, **options):
    """A filter of each frame by itself."""
    flat = frames.reshape((-1, *frames.shape[-2:]))
    flat = flat if dtype is None else flat.astype(dtype)
    return np.stack([function(frame, **options) for frame in flat]).reshape(frames.shape)


def smoothed(frames, sigma, truncate=4):
    dtype = np.result_type(frames.dtype, "float32")
    result = filtered(ndimage.gaussian_filter, frames, "f8", sigma=sigma, truncate=truncate)
    return result.astype(dtype)


def logarithm(frames, offset):
    with np.errstate(invalid="ignore", divide="ignore"):
        wide = np.log(frames.astype("f8") + offset)
    return wide.astype(np.result_type(frames.dtype, "float32"))


def medians(frames, size):
    """Exact, where SciPy's filter goes through doubles."""
    size = (size,) * 2 if np.isscalar(size) else size
    around = ((0, 0),) * (frames.ndim - 2)
    frames = np.pad(frames, (*around, *((n // 2, n // 2) for n in size)), mode="symmetric")
    windows = np.lib.stride_tricks.sliding_window_view(frames, size, axis=(-2, -1))
    windows = np.sort(windows.reshape((*windows.shape[:-2], -1)), axis=-1)
    return windows[..., windows.shape[-1] // 2]


def padded(frames, widths, value=0):
    around = ((0, 0),) * (frames.ndim - 2)
    return np.pad(frames, (*around, *widths), constant_values=value)


def shifted(frames, yx, fill=0):
    """Each frame moved by its own vector, or all by one; pixel by pixel."""
    yx = np.asarray(yx)
    whole = (yx == np.trunc(yx)).all()
    dtype = frames.dtype if whole else np.result_type(frames.dtype, "float32")
    wide = frames.dtype if whole else np.result_type(frames.dtype, "float64")
    flat = frames.reshape((-1, *frames.shape[-2:])).astype(wide)
    yx = np.broadcast_to(yx, (*frames.shape[:-2], 2)).reshape((-1, 2))
    moved = np.stack([_moved(*each, whole, fill) for each in zip(flat, yx, strict=True)])
    return moved.reshape(frames.shape).astype(dtype)


def _moved(frame, by, whole, fill):
    if not whole:
        options = {"order": 1, "mode": "grid-constant", "prefilter": False}
        if frame.dtype.kind == "c":
            real = ndimage.shift(frame.real, by, cval=fill, **options)
            return real + 1j * ndimage.shift(frame.imag, by, cval=0, **options)
        return ndimage.shift(frame, by, cval=fill, **options)
    moved = np.full_like(frame, fill)
    (y, x), (dy, dx) = np.indices(frame.shape), by.astype(int)
    from_y, from_x = y - dy, x - dx
    ny, nx = frame.shape
    inside = (from_y >= 0) & (from_y < ny) & (from_x >= 0) & (from_x < nx)
    moved[inside] = frame[from_y[inside], from_x[inside]]
    return moved


def counted(frames, threshold, maximum=None):
    """Peaks of a window of 3 × 3, pixel by pixel of a margin that is never above anything."""
    inside = frames > threshold
    if maximum is not None:
        inside &= frames <= maximum
    # The order of the pixels, dark ones last.
    _, order = np.unique(frames[inside], return_inverse=True)
    rank = np.zeros(frames.shape, int)
    rank[inside] = order.reshape(-1) + 1
    around = ((0, 0),) * (frames.ndim - 2)
    padded_rank = np.pad(rank, (*around, (1, 1), (1, 1)))
    ny, nx = frames.shape[-2:]
    peaks = inside.copy()
    for dy, dx in np.ndindex(3, 3):
        other = padded_rank[..., dy : dy + ny, dx : dx + nx]
        if (dy, dx) < (1, 1):
            peaks &= rank > other
        elif (dy, dx) > (1, 1):
            peaks &= rank >= other
    return peaks.astype(np.uint8)


#: One vector for each of the positions of ``NAV`` in test_stages.py. SciPy takes the fractions of
#: coordinates, which are exact for these.
WHOLE = np.random.default_rng(11).integers(-6, 7, (3, 5, 2))
FRACTIONS = np.random.default_rng(12).integers(-500, 500, (3, 5, 2)) / 64
WHOLE[1, 1], FRACTIONS[1, 1] = (0, 0), (2, -1)
WHOLE[2, 1], FRACTIONS[2, 1] = (-16, 3), (1e300, 0)

#: Names of cases: the stage, and the same by NumPy. With a *, floats may be rounded in another way.
CASES = {
    "crop": (lambda: ff.Crop(np.s_[2:-1, -7:]), lambda a: a[..., 2:-1, -7:]),
    "bin*": (lambda: ff.Bin(2), lambda a: binned(a, 2)),
    "bin uneven*": (lambda: ff.Bin((3, 4)), lambda a: binned(a, (3, 4))),
    "bin mean*": (lambda: ff.Bin(3, mean=True), lambda a: binned(a, 3, mean=True)),
    "pad": (lambda: ff.Pad(((1, 0), (0, 3))), lambda a: padded(a, ((1, 0), (0, 3)))),
    "shift": (lambda: ff.Shift((2, -3)), lambda a: shifted(a, (2, -3))),
    "shift fill": (lambda: ff.Shift((-1, 0), fill=1), lambda a: shifted(a, (-1, 0), 1)),
    "shift fraction*": (lambda: ff.Shift((0.25, -1.5)), lambda a: shifted(a, (0.25, -1.5))),
    "shift whole": (lambda: ff.Shift(WHOLE), lambda a: shifted(a, WHOLE)),
    "shift mixed*": (lambda: ff.Shift(FRACTIONS, 7), lambda a: shifted(a, FRACTIONS, 7)),
    "threshold": (lambda: ff.Threshold(7.5), lambda a: kept(a, 7.5)),
    "threshold twice": (lambda: ff.Threshold(-3, 90), lambda a: kept(a, -3, 90)),
    "count": (lambda: ff.Count(0), lambda a: counted(a, 0)),
    "count some": (lambda: ff.Count(9.5, 90), lambda a: counted(a, 9.5, 90)),
    "cast uint8": (lambda: ff.Cast("uint8"), lambda a: cast(a, "uint8")),
    "cast int16": (lambda: ff.Cast("int16"), lambda a: cast(a, "int16")),
    "cast float64": (lambda: ff.Cast(float), lambda a: cast(a, "float64")),
    "log*": (lambda: ff.Log(300), lambda a: logarithm(a, 300)),
    "gaussian*": (lambda: ff.Gaussian(0.8), lambda a: smoothed(a, 0.8)),
    "gaussian far*": (lambda: ff.Gaussian(9, truncate=3), lambda a: smoothed(a, 9, 3)),
    "median": (lambda: ff.Median(), lambda a: medians(a, 3)),
    "median flat": (lambda: ff.Median((1, 7)), lambda a: medians(a, (1, 7))),
    "flip": (lambda: ff.Flip("y"), lambda a: a[..., ::-1, :]),
    "transpose": (lambda: ff.Transpose(), lambda a: a.swapaxes(-1, -2)),
    "rotate": (lambda: ff.Rotate(90), lambda a: np.rot90(a, 1, (-2, -1))),
    "rotate back": (lambda: ff.Rotate(-90), lambda a: np.rot90(a, -1, (-2, -1))),
    "rotate twice": (lambda: ff.Rotate(540), lambda a: np.rot90(a, 2, (-2, -1))),
}

#: What complex pixels cannot go through.
REAL_ONLY = ("threshold", "count", "cast", "log", "gaussian", "median")


def takes(name, dtype):
    return np.dtype(dtype).kind != "c" or not name.startswith(REAL_ONLY)


def check(found, expected, name):
    """The same bits; or, of floats with a * in the name, the same but for rounding."""
    assert found.dtype == expected.dtype, name
    assert found.shape == expected.shape, name
    if "*" not in name or expected.dtype.kind not in "fc":
        np.testing.assert_array_equal(found, expected, err_msg=name)
        return
    eps = np.finfo(expected.dtype).eps if expected.dtype.kind in "fc" else 0
    scale = float(np.nanmax(np.abs(expected), initial=1))
    np.testing.assert_allclose(found, expected, rtol=8 * eps, atol=8 * eps * scale, err_msg=name)


def piped(dataset, *stages):
    """Without the warning of pixels that bins leave out."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataSetWarning)
        return dataset.pipe(*stages)


class Frames(ff.UDF):
    """The frames as they come, by any method, and their sum."""

    def __init__(self, method="tile", depth=3, size=2000):
        super().__init__(method=method, depth=depth, size=size)

    def get_preferred_input_dtype(self):
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self):
        dtype = self.meta.input_dtype
        sig = tuple(self.meta.dataset_shape.sig)
        return {"frames": self.buffer("nav", extra_shape=sig, dtype=dtype)}

    def get_tiling_preferences(self):
        return {"depth": self.params.depth, "total_size": self.params.size}

    def get_method(self):
        return self.params.method

    def process_tile(self, tile):
        part = self.meta.sig_slice.get()
        self.results.frames[:, *part] = tile

    def process_frame(self, frame):
        self.results.frames[:] = frame

    def process_partition(self, partition):
        self.results.frames[:] = partition
