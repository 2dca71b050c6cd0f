"""Analyses: UDFs with parameters chosen, whose results come with titles and pictures."""

from importlib import import_module
from typing import Any

#: Where each class is; they are imported when they are asked for.
CLASSES = {
    "COMAnalysis": "com",
    "DiskMaskAnalysis": "disk",
    "MasksAnalysis": "masks",
    "PickFrameAnalysis": "raw",
    "PointMaskAnalysis": "point",
    "RadialFourierAnalysis": "radialfourier",
    "RingMaskAnalysis": "ring",
    "SumAnalysis": "sum",
}


def __getattr__(name: str) -> Any:
    if name not in CLASSES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{CLASSES[name]}"), name)


def __dir__() -> list[str]:
    return [*globals(), *CLASSES]
