"""Errors of CUDA as CuPy raises them, for the stand-in for CuPy."""

from __future__ import annotations

from dataclasses import dataclass


class OutOfMemoryError(MemoryError):
    """As CuPy's."""


OutOfMemoryError.__module__ = "cupy.cuda.memory"

#: Some errors of CUDA's runtime: number, name, and what CUDA says of them.
ERRORS = {
    1: ("cudaErrorInvalidValue", "invalid argument"),
    2: ("cudaErrorMemoryAllocation", "out of memory"),
    46: ("cudaErrorDevicesUnavailable", "CUDA-capable device(s) is/are busy or unavailable"),
    100: ("cudaErrorNoDevice", "no CUDA-capable device is detected"),
    101: ("cudaErrorInvalidDevice", "invalid device ordinal"),
    214: ("cudaErrorECCUncorrectable", "uncorrectable ECC error encountered"),
    700: ("cudaErrorIllegalAddress", "an illegal memory access was encountered"),
    710: ("cudaErrorAssert", "device-side assert triggered"),
    719: ("cudaErrorLaunchFailure", "unspecified launch failure"),
}


class CUDARuntimeError(RuntimeError):
    """As CuPy's."""

    def __init__(self, status):
        self.status = status
        super().__init__(": ".join(ERRORS[status]))

    def __reduce__(self):
        return type(self), (self.status,)


CUDARuntimeError.__module__ = "cupy_backends.cuda.api.runtime"


@dataclass
class Fault:
    """What is to fail: so many more of its kind succeed before."""

    kind: str
    status: int
    n_before: int
    sticky: bool
    device: int
