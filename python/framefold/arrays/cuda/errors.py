"""What went wrong on a CUDA device: memory that ran out, a device that is lost, or neither.

After some errors, as of a kernel that wrote where it must not, CUDA refuses all that a process
asks of the device from then on. Whether an error is one of these is not looked up in a list, which
differs between versions: the device is asked whether it still works.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any

from framefold.common._notes import notes_of
from framefold.common._telling import tell
from framefold.exceptions import DeviceError, FramefoldError, LimitError
from framefold.utils import devices as system
from framefold.warnings import LostDeviceWarning

#: What becomes of a device after it was lost, in the process that the user started.
afterwards = (
    "it is lost for this process, whose later runs go on without it; restart the process to use it "
    "again"
)

#: Packages whose errors tell of the device. Others are a UDF's own, whatever the device does.
_OF_CUDA = frozenset({"cupy", "cupy_backends", "cupyx", "numba"})
#: The devices of whose loss there was a warning, and why they were lost.
_told: set[tuple[int, str]] = set()


def why_unusable(device: int) -> str | None:
    """What CUDA says if the device does not work in this process; None if it does, or is full.

    Waits for all that the device does for this process.
    """
    said = None
    for _ in range(2):  # the first answer may be about something earlier, the second is not
        said = _answer(device)
        if said is None:
            return None
    return said


def why_useless(device: int) -> str | None:
    """The same for a process that is to work on the device, with what hides devices from it."""
    reason = system.lost.get(device) or why_unusable(device)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    if reason is None or visible is None:
        return reason
    return f"{reason}, with CUDA_VISIBLE_DEVICES={visible!r}"


def clear(error: Exception, device: int, tile_bytes: int) -> Exception:
    """What a run is to raise for an error that came from a worker with a device.

    That is the error itself, unless memory of the device ran out, or CUDA failed in a way that the
    device is lost: that is noted in :data:`framefold.utils.devices.lost`.

    Parameters
    ----------
    error
        Of framefold, CUDA, or user code.
    device
        The number of the device.
    tile_bytes
        How large tiles were on the device; 0 if there were none.
    """
    if isinstance(error, FramefoldError):
        return error
    if out_of_memory(error):
        return _with_notes(LimitError(_out_of_memory_message(error, device, tile_bytes)), error)
    reason = why_unusable(device)
    if reason is None:
        return error
    if not _of_cuda(error):
        lose(device, reason)
        error.add_note(f"CUDA device {device} failed in this run, too: {reason}; {afterwards}")
        return error
    # What was said first: later answers may be about what follows from it.
    reason = lose(device, _said(error))
    failed = DeviceError(
        f"CUDA device {device} failed: {reason}. Repeat the run on the CPU with backends='numpy', "
        f"where mistakes of a function show as Python's exceptions; as for the device, {afterwards}"
    )
    failed.device = device
    return _with_notes(failed, error)


def lose(device: int, reason: str) -> str:
    """Note that this process cannot use a device any more; gives why, as it was first noted."""
    return system.lost.setdefault(device, reason)


def is_lost(device: int, reason: str) -> DeviceError:
    """For a run that needs a device which is lost."""
    error = DeviceError(
        f"CUDA device {device} is lost: {reason}. Run on the CPU with a function that takes "
        f"'numpy', or restart the process to use the device again"
    )
    error.device = device
    return error


def tell_lost(lost: Mapping[int, str]) -> None:
    """Warn, once for each device that was lost, that runs go on without it."""
    for device, reason in lost.items():
        if (device, reason) not in _told:
            _told.add((device, reason))
            tell(
                f"CUDA device {device} is lost: {reason}. Runs go on with the CPU and the devices "
                f"that are left; restart the process to use it again",
                LostDeviceWarning,
            )


def out_of_memory(error: Exception) -> bool:
    """Whether CUDA could not get memory, of the device or page-locked memory of the host."""
    return _of_cuda(error) and (
        type(error).__name__ == "OutOfMemoryError"
        or "cudaErrorMemoryAllocation" in str(error)
        or "ALLOC_FAILED" in str(error)  # cuBLAS, cuFFT, cuSPARSE and cuSOLVER
    )


def _out_of_memory_message(error: Exception, device: int, tile_bytes: int) -> str:
    what = f"memory of CUDA device {device}"
    if type(error).__name__ != "OutOfMemoryError":
        what += ", or page-locked memory of the host for it,"
    there = []
    try:
        cupy = _cupy()
        with cupy.cuda.Device(device):
            free, total = cupy.cuda.runtime.memGetInfo()
        there.append(f"{_size(free)} of its {_size(total)} are free")
    except Exception:
        pass  # it cannot be asked
    if tile_bytes:
        there.append(f"tiles take {_size(tile_bytes)} there")
    details = f" ({'; '.join(there)})" if there else ""
    return (
        f"{what} ran out{details}: {error}; process smaller tiles (get_tiling_preferences), let go "
        f"of arrays sooner, or restrict the run to the CPU with backends='numpy'"
    )


def _size(n_bytes: int) -> str:
    """In units of 1024, with as many digits as are of use."""
    size, units = float(n_bytes), iter(("KiB", "MiB", "GiB", "TiB"))
    unit = "bytes"
    while size >= 1024 and (larger := next(units, None)):
        size, unit = size / 1024, larger
    return f"{size:.3g} {unit}" if size < 1000 else f"{size:.0f} {unit}"


def _answer(device: int) -> str | None:
    cupy = _cupy()
    try:
        with cupy.cuda.Device(device):
            cupy.cuda.runtime.deviceSynchronize()
    except Exception as error:
        return _said(error) if _of_cuda(error) and not out_of_memory(error) else None
    return None


def _said(error: BaseException) -> str:
    """What an error of CUDA says, in one line."""
    return " ".join(str(error).split()) or type(error).__name__


def _of_cuda(error: BaseException) -> bool:
    return type(error).__module__.partition(".")[0] in _OF_CUDA


def _with_notes(clear: Exception, error: BaseException) -> Exception:
    for note in notes_of(error):
        clear.add_note(note)
    return clear


def _cupy() -> Any:
    import cupy

    return cupy
