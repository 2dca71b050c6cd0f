"""Transforms in all forms, with what NumPy makes of the same array."""

from __future__ import annotations

import time
from pathlib import Path

import framefold as ff


class Base(ff.Transform):
    """Frames of one row less, each pixel of itself and the one below it."""

    def __init__(self, amount=0.5, dtype="float32", mask=None):
        super().__init__(amount=amount, dtype=dtype, mask=mask)

    def get_output(self):
        ny, nx = self.meta.dataset_shape.sig
        return self.output(sig=(ny - 1, nx), dtype=self.params.dtype)


class Each(Base):
    def process_frame(self, frame, out):
        assert frame.shape == tuple(self.meta.dataset_shape.sig)
        assert frame.dtype == self.meta.input_dtype
        assert out.flags.c_contiguous
        assert not out.any()
        out[:] = frame[:-1] * 1.0 + frame[1:] * self.params.amount


class Stacks(Base):
    def process_frames(self, frames, out):
        assert frames.shape[1:] == tuple(self.meta.dataset_shape.sig)
        assert out.shape[0] == len(frames) > 0
        assert out.flags.c_contiguous
        assert not out.any()
        out[:] = frames[:, :-1] * 1.0 + frames[:, 1:] * self.params.amount


class CompiledEach(Base):
    @ff.compiled
    def process_frame(self, frame, out):
        ny, nx = self.meta.dataset_shape.sig
        for y in range(ny - 1):
            for x in range(nx):
                out[y, x] += frame[y, x] * 1.0 + frame[y + 1, x] * self.params.amount


class CompiledStacks(Base):
    """With loops, as expressions of whole arrays take seconds to compile, for each dtype anew."""

    @ff.compiled
    def process_frames(self, frames, out):
        for i in range(len(frames)):
            for y in range(out.shape[1]):
                for x in range(out.shape[2]):
                    out[i, y, x] += frames[i, y, x] * 1.0 + frames[i, y + 1, x] * self.params.amount


class CompiledArrays(Base):
    """The same as an expression of whole arrays."""

    @ff.compiled
    def process_frames(self, frames, out):
        for i in range(len(frames)):
            out[i] += frames[i, :-1] * 1.0 + frames[i, 1:] * self.params.amount


class Slow(ff.Transform):
    """Says that it has begun, and takes its time."""

    def __init__(self, begun):
        super().__init__(begun=begun)

    def process_frame(self, frame, out):
        Path(self.params.begun).touch()
        time.sleep(0.02)


FORMS = {
    "frames": Each,
    "stacks": Stacks,
    "compiled": CompiledEach,
    "compiled stacks": CompiledStacks,
}


def by_numpy(frames, amount=0.5, dtype="float32"):
    return (frames[..., :-1, :] * 1.0 + frames[..., 1:, :] * amount).astype(dtype)
