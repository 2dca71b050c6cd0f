"""Which processors and CUDA devices this process can use.

The driver of the devices is asked, so nothing needs to be installed, and nothing is imported.
"""

from __future__ import annotations

import ctypes
import os
import sys
from functools import cache
from importlib.util import find_spec
from typing import Any

from framefold.common.cores import cpus

__all__ = ["detect", "has_cupy"]

#: The devices that this process cannot use any more, and why.
lost: dict[int, str] = {}

_DRIVERS = {"win32": "nvcuda.dll", "linux": "libcuda.so.1"}


def detect() -> dict[str, Any]:
    """What there is.

    Returns
    -------
    dict
        ``'cpus'``: the numbers of the CPUs that the process may use; ``'cudas'``: those of its
        CUDA devices, as CUDA numbers them (see ``CUDA_VISIBLE_DEVICES``), empty if there is no
        driver; ``'has_cupy'``: :func:`has_cupy`. Devices that this process has lost to an error
        of CUDA are left out: it cannot use them any more.
    """
    cudas = [device for device in cuda_ids() if device not in lost]
    return {"cpus": cpus(), "cudas": cudas, "has_cupy": has_cupy()}


def has_cupy() -> bool:
    """Whether CuPy can be imported. It is, then."""
    if not cupy_installed():
        return False
    try:
        import cupy  # noqa: F401
    except Exception:  # what a broken installation raises is of many kinds
        return False
    return True


def cupy_installed() -> bool:
    """Whether CuPy is installed; whether it works takes longer to find out."""
    return "cupy" in sys.modules or find_spec("cupy") is not None


def cuda_ids() -> list[int]:
    """The numbers of the CUDA devices, in order, with those that were lost."""
    return list(range(_asked_driver()[0]))


def why_no_device() -> str:
    """Why there is no CUDA device, in words."""
    return _asked_driver()[1]


@cache
def _asked_driver() -> tuple[int, str]:
    """How many devices the driver shows to this process, and why if there are none.

    Once per process: the driver looks at the environment when it is first used.
    """
    name = _DRIVERS.get(sys.platform)
    try:
        driver = ctypes.CDLL(name) if name else None
    except OSError:
        driver = None
    if driver is None:
        return 0, "no CUDA driver is installed"
    count = ctypes.c_int()
    try:
        status = driver.cuInit(0) or driver.cuDeviceGetCount(ctypes.byref(count))
    except AttributeError:
        return 0, f"{name} is no CUDA driver"
    if status == 0 and count.value > 0:
        return count.value, ""
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    shown = "" if visible is None else f" with CUDA_VISIBLE_DEVICES={visible!r}"
    return 0, f"the CUDA driver shows no device{shown} (status {status})"
