"""Which device user code is to work on.

Inside a UDF that is the device of its worker. Elsewhere it is what :func:`set_use_cuda` and
:func:`set_use_cpu` set for the process, or the environment variables ``FRAMEFOLD_USE_CUDA`` and
``FRAMEFOLD_USE_CPU``, each with the number of a device. Without these, ``LIBERTEM_USE_CUDA`` and
``LIBERTEM_USE_CPU`` count. CUDA itself numbers devices, and heeds ``CUDA_VISIBLE_DEVICES``.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import contextmanager
from typing import Any, Literal

from framefold.exceptions import InvalidArgumentError
from framefold.utils import devices as system

__all__ = ["get_device_class", "get_use_cpu", "get_use_cuda", "set_use_cpu", "set_use_cuda"]

#: The first that names a device is heeded.
_PREFIXES = ("FRAMEFOLD", "LIBERTEM")

_worker = threading.local()


def get_use_cuda() -> int | None:
    """The number of the CUDA device to use; None for the CPU, also if this process lost the device.

    Raises
    ------
    InvalidArgumentError
        If an environment variable holds something else than a number.
    """
    if hasattr(_worker, "device"):
        device: int | None = _worker.device
        return device
    asked_for = _configured()[0]
    return None if asked_for in system.lost else asked_for


def get_use_cpu() -> int | None:
    """The number of the CPU to use: 0 if none was asked for; None on a CUDA device."""
    return None if get_use_cuda() is not None else _configured()[1] or 0


def set_use_cuda(cuda_device: int) -> None:
    """Let this process work on that CUDA device, in all runs to come and outside of them.

    UDFs that take CUDA array formats then run on this device alone.
    """
    _set("CUDA", cuda_device)


def set_use_cpu(cpu: int) -> None:
    """Let this process work on the CPU: runs look for no CUDA devices by themselves.

    Parameters
    ----------
    cpu
        Any number; which CPU that is remains up to the operating system.
    """
    _set("CPU", cpu)


def get_device_class() -> Literal["cpu", "cuda"]:
    """``'cuda'`` if there is a CUDA device to use, otherwise ``'cpu'``."""
    return "cpu" if get_use_cuda() is None else "cuda"


def environment_of(device: int) -> dict[str, str]:
    """The environment variables of a process that is to work on that CUDA device."""
    unset = {f"{prefix}_USE_{kind}": "" for prefix in _PREFIXES for kind in ("CUDA", "CPU")}
    return {**unset, f"{_PREFIXES[0]}_USE_CUDA": str(device)}


@contextmanager
def working_on(
    device: int | None, keep: Callable[[Hashable, Callable[[], Any]], Any] | None = None
) -> Iterator[None]:
    """Tell this thread that it works on a device, and what keeps things there, or on the CPU."""
    before = _worker.__dict__.copy()
    _worker.device, _worker.keep = device, keep
    try:
        yield
    finally:
        _worker.__dict__.clear()
        _worker.__dict__.update(before)


def kept_by_worker(key: Hashable, make: Callable[[], Any]) -> Any:
    """What ``make`` returned when this worker first asked for it in the run.

    Made anew on threads that are no worker with a device.
    """
    keep = getattr(_worker, "keep", None)
    return make() if keep is None else keep(key, make)


def _configured() -> tuple[int | None, int | None]:
    """The CUDA device and the CPU that are asked for; at most one of them is not None."""
    name, number = _variable()
    return (number, None) if name.endswith("CUDA") else (None, number)


def _variable() -> tuple[str, int | None]:
    """The environment variable that counts, and its number; None if no variable is set."""
    for prefix in _PREFIXES:
        for kind in ("CUDA", "CPU"):
            name = f"{prefix}_USE_{kind}"
            value = os.environ.get(name, "").strip()
            if value:
                return name, _number(name, value)
    return "", None


def _set(kind: str, number: int) -> None:
    checked = _number(f"set_use_{kind.lower()}", number)
    for prefix in _PREFIXES:
        os.environ.pop(f"{prefix}_USE_CUDA", None)
        os.environ.pop(f"{prefix}_USE_CPU", None)
    # The environment, so that processes started from here on work where this one does.
    os.environ[f"{_PREFIXES[0]}_USE_{kind}"] = str(checked)


def _number(what: str, value: int | str) -> int:
    try:
        number = int(value)
    except (TypeError, ValueError):
        number = -1
    if number < 0:
        raise InvalidArgumentError(
            f"{what}: {value!r} is not the number of a device; use 0 for the first one"
        )
    return number
