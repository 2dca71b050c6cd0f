"""The kernels that framefold has CuPy compile, for the stand-in for CuPy: known by their names."""

from __future__ import annotations

import numpy as np


def _compute(function, array):
    import fake_cupy

    return fake_cupy.compute(function, array)


class ReductionKernel:
    """Two sums of 32 bits in one number of 64."""

    def __init__(self, takes, gives, _map, _reduce, _post, _identity, name):
        assert gives == "uint64 y"
        self.dtype, self.n_bits = np.dtype(takes.removesuffix(" x")), int(name.split("_")[-1])
        assert name == f"framefold_sum_of_{self.n_bits}"

    def __call__(self, pairs, axis):
        assert pairs.dtype == self.dtype

        def added(x):
            low = (x & ((1 << self.n_bits) - 1)).astype(np.uint64)
            high = (x >> self.n_bits).astype(np.uint64)
            return (low | high << np.uint64(32)).sum(axis=axis, dtype=np.uint64)

        return _compute(added, pairs)


class ElementwiseKernel:
    """Four narrow pixels as four floats, in the room of one complex number."""

    def __init__(self, takes, gives, _operation, name):
        assert gives == "complex128 y"
        self.four, self.pixel = np.dtype(takes.removesuffix(" x")), np.dtype(name.split("_")[-1])
        assert name == f"framefold_floats_of_{self.pixel}"
        assert self.four == np.dtype(f"u{4 * self.pixel.itemsize}")

    def __call__(self, fours):
        assert fours.dtype == self.four

        def floats(x):
            return np.ascontiguousarray(x).view(self.pixel).astype(np.float32).view(np.complex128)

        return _compute(floats, fours)
