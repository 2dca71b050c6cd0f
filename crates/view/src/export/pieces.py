"""What exported scripts are put together of: each gets the functions and classes that it uses.

A piece is what stands between two pairs of empty lines, known by its name (``pieces.rs``). It runs with
framefold and with LiberTEM, and uses nothing but NumPy and other pieces. Shapes are those of the viewer
(``shapes.rs``), operation for operation, so that they have the same pixels.
"""

from __future__ import annotations

import base64

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
    angle = np.degrees(np.arctan2(y - cy, x - cx))
    return ring(y, x, cy, cx, ri, ro) & ((angle - begin) % 360 < (end - begin) % 360)


def rectangle(y, x, y0, x0, y1, x1):
    """From one corner to the other, both within."""
    rows = (min(y0, y1) <= y) & (y <= max(y0, y1))
    return rows & (min(x0, x1) <= x) & (x <= max(x0, x1))


def polygon(y, x, points):
    """All within a polygon, by the even-odd rule."""
    inside = np.zeros(np.broadcast_shapes(y.shape, x.shape), dtype=bool)
    for (y0, x0), (y1, x1) in zip(points, points[1:] + points[:1], strict=True):
        if y0 != y1:
            crossed = (y0 > y) != (y1 > y)
            inside ^= crossed & (x < (x1 - x0) * (y - y0) / (y1 - y0) + x0)
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


def vectors(moments, centre, rotation, flip_y):
    """Centres of mass from a centre, turned by an angle in degrees, clockwise on the screen.

    Moments are the sums under the detector: of the pixels, of these times y, and times x. A centre of None
    is the mean of all centres of mass.
    """
    total, *first = np.moveaxis(np.asarray(moments, dtype=np.float64), -1, 0)
    with np.errstate(divide="ignore", invalid="ignore"):
        y, x = (moment / total for moment in first)
    cy, cx = (np.nanmean(y), np.nanmean(x)) if centre is None else centre
    y, x = np.where(total == 0, 0.0, y - cy), np.where(total == 0, 0.0, x - cx)
    if flip_y:
        y = -y
    sin, cos = np.sin(np.radians(rotation)), np.cos(np.radians(rotation))
    return np.stack([sin * x + cos * y, cos * x - sin * y])


def divergence(field):
    """For a step of the scan."""
    return np.gradient(field[0], axis=0) + np.gradient(field[1], axis=1)


def curl(field):
    """For a step of the scan."""
    return np.gradient(field[0], axis=1) - np.gradient(field[1], axis=0)


def integrated(field):
    """The scalar field whose gradient comes closest to the vectors, with mean 0; by Fourier transform.

    Lazić, Bosch, Lazar: Ultramicroscopy 160 (2016), 265.
    """
    y, x = field
    fy, fx = np.fft.fftfreq(y.shape[0])[:, np.newaxis], np.fft.fftfreq(y.shape[1])
    squared = fy**2 + fx**2
    squared[0, 0] = 1
    spectrum = (fy * np.fft.fft2(y) + fx * np.fft.fft2(x)) / (2j * np.pi * squared)
    spectrum[0, 0] = 0
    return np.fft.ifft2(spectrum).real


def fourier(picture):
    """The absolute value of the Fourier transform, with frequency 0 in the middle."""
    return np.abs(np.fft.fftshift(np.fft.fftn(picture)))


def cepstrum(picture):
    """The exit-wave power cepstrum: that of the logarithm.

    Padgett and others: Ultramicroscopy 214 (2020), 112994.
    """
    return fourier(np.log(np.maximum(picture, 1e-10)))


def wheel(field, table, norm):
    """Colours of vectors: the direction is one of 256 colours from +x towards +y, the length its brightness."""
    y, x = field
    valid = np.isfinite(y) & np.isfinite(x)
    direction = np.floor(np.where(valid, np.arctan2(y, x) / (2 * np.pi) % 1, 0) * 256).astype(int) % 256
    brightness = np.ma.filled(norm(np.where(valid, np.hypot(y, x), 0)), 0)
    return np.concatenate([table[direction] * brightness[..., np.newaxis], valid[..., np.newaxis]], axis=-1)
