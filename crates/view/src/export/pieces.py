"""What exported scripts are put together of: each gets the functions and classes that it uses.

A piece is what stands between two pairs of empty lines, known by its name (``pieces.rs``). It runs
with framefold and with LiberTEM, and uses nothing but NumPy, the standard library and other pieces.
Shapes are those of the viewer, operation for operation, so that they have the same pixels.
"""

from __future__ import annotations

import base64
import math

import numpy as np

from framefold.udf import UDF


def point(y, x, at_y, at_x):
    """The pixel nearest to a point."""
    return (y == np.floor(at_y + 0.5)) & (x == np.floor(at_x + 0.5))


def disk(y, x, cy, cx, r):
    """All at most r from the centre."""
    return (y - cy) ** 2 + (x - cx) ** 2 <= r * r


def ring(y, x, cy, cx, ri, ro):
    """All at most ro, and more than ri, from the centre."""
    return disk(y, x, cy, cx, ro) & ~disk(y, x, cy, cx, ri)


def wedge(y, x, cy, cx, ri, ro, begin, end):
    """The part of a ring between two angles, in degrees clockwise from +x on the screen."""
    inside = ring(y, x, cy, cx, ri, ro)
    width = math.inf if end - begin >= 360 else (end - begin) % 360
    for row, column in np.argwhere(inside):
        angle = math.degrees(math.atan2(row - cy, column - cx))
        inside[row, column] = (angle - begin) % 360 < width
    return inside


def rectangle(y, x, y0, x0, y1, x1):
    """From the pixel of one corner to that of the other, both within."""
    (top, bottom), (left, right) = np.trunc(sorted((y0, y1))), np.trunc(sorted((x0, x1)))
    return (top <= y) & (y <= bottom) & (left <= x) & (x <= right)


def polygon(y, x, points):
    """All within a polygon, by the even-odd rule."""
    inside = np.zeros(np.broadcast_shapes(y.shape, x.shape), dtype=bool)
    for (y0, x0), (y1, x1) in zip(points, points[1:] + points[:1], strict=True):
        if y0 != y1:
            inside ^= ((y0 <= y) != (y1 <= y)) & (x0 + (y - y0) / (y1 - y0) * (x1 - x0) <= x)
    return inside


def lattice(y, x, cy, cx, a, b, r, order):
    """Disks around all points of a lattice; a pixel in two of them counts once."""
    inside = np.zeros(np.broadcast_shapes(y.shape, x.shape), dtype=bool)
    for i in range(-order, order + 1):
        for j in range(-order, order + 1):
            inside |= disk(y, x, cy + i * a[0] + j * b[0], cx + i * a[1] + j * b[1], r)
    return inside


def from_text(shape, text, kind):
    """An array that was written as text: bits, or elements of a dtype."""
    data = np.frombuffer(base64.b64decode(text), np.uint8 if kind == "bits" else kind)
    if kind == "bits":
        data = np.unpackbits(data, count=int(np.prod(shape)))
    return data.reshape(shape).astype(np.float64)


class DetectorStd(UDF):
    """The standard deviation of the pixels of a detector, for each frame."""

    def __init__(self, inside):
        super().__init__(inside=inside)

    def get_preferred_input_dtype(self):
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self):
        return {"value": self.buffer(kind="nav", dtype=np.float64)}

    def process_frame(self, frame):
        self.results.value[:] = frame[self.params.inside].astype(np.float64).std()


class DetectorMax(UDF):
    """The largest of the pixels of a detector, for each frame."""

    def __init__(self, inside):
        super().__init__(inside=inside)

    def get_preferred_input_dtype(self):
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self):
        return {"value": self.buffer(kind="nav", dtype=np.float64)}

    def process_frame(self, frame):
        self.results.value[:] = frame[self.params.inside].max()


class FrameMax(UDF):
    """The maximum over all frames, pixel by pixel."""

    def get_preferred_input_dtype(self):
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self):
        return {"value": self.buffer(kind="sig", dtype=np.float64)}

    def preprocess(self):
        self.results.value[:] = -np.inf

    def process_tile(self, tile):
        self.results.value[:] = np.maximum(self.results.value, np.max(tile, axis=0))

    def merge(self, dest, src):
        dest.value[:] = np.maximum(dest.value, src.value)


def entry_of(result, shape, entry):
    """One of the numbers for each position or pixel; NaN where there is none."""
    values = result.masked_data.reshape((*shape, -1))[..., entry]
    values = np.abs(values) if np.iscomplexobj(values) else values
    return np.ma.filled(values.astype(np.float64), np.nan)


def vectors(moments, frame, pixel, centre, rotation, flip_y):
    """Centres of mass from a centre, turned by an angle in degrees, clockwise on the screen.

    Moments are the sums under the detector: of the pixels, of these times y, and times x. A centre
    of None is the mean of all centres of mass. Frames without intensity have theirs at the centre,
    or in the middle; those whose sum is not finite have none. Vectors are in pixels along x: one
    along y is as long as `pixel` of these.
    """
    total, *first = np.moveaxis(np.asarray(moments, dtype=np.float64), -1, 0)
    if len(first) == 1:  # frames are lines
        first = [np.zeros_like(total), *first]
    origin = [n // 2 for n in (1, *frame)[-2:]] if centre is None else centre
    with np.errstate(divide="ignore", invalid="ignore"):
        # Pixels of row 0 count nothing times y, not even infinite ones.
        centres = [np.where(np.isfinite(total), moment / total, np.nan) for moment in first]
    y, x = (np.where(total == 0, at, c) - at for c, at in zip(centres, origin, strict=True))
    y = y * pixel
    if flip_y:
        y = -y
    if rotation:
        sin, cos = math.sin(math.radians(rotation)), math.cos(math.radians(rotation))
        y, x = y * cos + x * sin, x * cos - y * sin
    if centre is None:
        y, x = y - np.nanmean(y), x - np.nanmean(x)
    return np.stack([y, x])


def slope(values, axis, step):
    """The derivative: central differences, one-sided at the borders."""
    if values.shape[axis] == 1:
        return np.full_like(values, np.nan)
    return np.gradient(values, step, axis=axis)


def divergence(field, step):
    """For a step of the scan along x; one along y is as long as `step` of these."""
    y, x = field.reshape((2, *(1, *field.shape[1:])[-2:]))
    found = np.where(np.isfinite(y + x), slope(y, 0, step) + slope(x, 1, 1.0), np.nan)
    return found.reshape(field.shape[1:])


def curl(field, step):
    """For a step of the scan along x; one along y is as long as `step` of these."""
    y, x = field.reshape((2, *(1, *field.shape[1:])[-2:]))
    found = np.where(np.isfinite(y + x), slope(y, 1, 1.0) - slope(x, 0, step), np.nan)
    return found.reshape(field.shape[1:])


def known(values):
    """What is not known is taken as the mean of the others."""
    finite = np.isfinite(values)
    return np.where(finite, values, values[finite].mean() if finite.any() else 0.0)


def integrated(vectors, step):
    """The phase whose gradient is 2π times the vectors, with mean 0, by Fourier transform.

    A step of the scan along y is as long as `step` along x.

    Lazić, Bosch, Lazar: Ultramicroscopy 160 (2016), 265.
    """
    field = np.stack([known(part) - np.nanmean(part) for part in vectors])
    y, x = field.reshape((2, *(1, *field.shape[1:])[-2:]))
    fy, fx = np.fft.fftfreq(y.shape[0], step)[:, np.newaxis], np.fft.fftfreq(y.shape[1])
    squared = fy**2 + fx**2
    squared[0, 0] = np.inf
    phase = np.fft.ifft2(-1j * (fy * np.fft.fft2(y) + fx * np.fft.fft2(x)) / squared).real
    return np.where(np.isfinite(vectors).all(axis=0), phase.reshape(field.shape[1:]), np.nan)


def fourier(picture):
    """The absolute value of the Fourier transform, with frequency 0 in the middle."""
    return np.abs(np.fft.fftshift(np.fft.fftn(known(picture))))


def cepstrum(picture):
    """The exit-wave power cepstrum: that of the logarithm, of what is above 0.

    Padgett and others: Ultramicroscopy 214 (2020), 112994.
    """
    above = picture[np.isfinite(picture) & (picture > 0)]
    return fourier(np.log(np.maximum(picture, above.min() if above.size else 1.0)))


def wheel(field, table, norm):
    """Colours of vectors: 256 for directions, from +x towards +y, as bright as they are long."""
    valid = np.isfinite(field).all(axis=0)
    y, x = np.where(valid, field, 0)
    direction = (np.arctan2(y, x) / (2 * np.pi) % 1 * 256).astype(int) % 256
    brightness = np.ma.filled(norm(np.hypot(y, x)), 0)[..., np.newaxis]
    return np.concatenate([table[direction] * brightness, valid[..., np.newaxis]], axis=-1)
