"""Analyses: UDFs with parameters chosen, whose results come with titles and pictures."""

from importlib import import_module
from typing import Any

from framefold.compat.submodules import submodule

#: Where each class is; they are imported when they are asked for.
CLASSES = {
    "ApplyFFTMask": "apply_fft_mask",
    "COMAnalysis": "com",
    "ClusterAnalysis": "clust",
    "DiskMaskAnalysis": "disk",
    "FEMAnalysis": "fem",
    "MasksAnalysis": "masks",
    "PickFFTFrameAnalysis": "rawfft",
    "PickFrameAnalysis": "raw",
    "PointMaskAnalysis": "point",
    "RadialFourierAnalysis": "radialfourier",
    "RingMaskAnalysis": "ring",
    "SDAnalysis": "sd",
    "SumAnalysis": "sum",
    "SumSigAnalysis": "sumsig",
    "SumfftAnalysis": "sumfft",
}
#: The names that the reference knows them by.
IDS = {
    "APPLY_DISK_MASK": "DiskMaskAnalysis",
    "APPLY_FFT_MASK": "ApplyFFTMask",
    "APPLY_POINT_SELECTOR": "PointMaskAnalysis",
    "APPLY_RING_MASK": "RingMaskAnalysis",
    "CENTER_OF_MASS": "COMAnalysis",
    "CLUST": "ClusterAnalysis",
    "FEM": "FEMAnalysis",
    "FFTSUM_FRAMES": "SumfftAnalysis",
    "MASKS": "MasksAnalysis",
    "PICK_FFT_FRAME": "PickFFTFrameAnalysis",
    "PICK_FRAME": "PickFrameAnalysis",
    "RADIAL_FOURIER": "RadialFourierAnalysis",
    "SD_FRAMES": "SDAnalysis",
    "SUM_FRAMES": "SumAnalysis",
    "SUM_SIG": "SumSigAnalysis",
}
#: So that ``from framefold.analysis import *`` finds them.
__all__ = [*CLASSES]


def __getattr__(name: str) -> Any:
    if name not in CLASSES:
        return submodule(__name__, name)
    return getattr(import_module(f"{__name__}.{CLASSES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *CLASSES]
