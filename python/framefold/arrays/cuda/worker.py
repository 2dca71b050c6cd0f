"""One worker of a run that uses CUDA devices: a thread, and the device that is its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from framefold.common.backend import working_on
from framefold.exceptions import LimitError

if TYPE_CHECKING:
    from framefold.arrays.cuda.staging import Staging
    from framefold.arrays.cuda.tiles import DeviceTiles, Held
    from framefold.arrays.cuda.upload import Uploader

_here = threading.local()

#: How many workers use CuPy right now, in all runs; their memory is given back after the last.
_lock = threading.Lock()
_n_open = 0
_used: set[int] = set()


def current_worker() -> DeviceWorker | None:
    """The worker with a device that this thread is; None if it is none."""
    return getattr(_here, "worker", None)


class CpuWorker:
    """A worker without a device, beside others that have one."""

    @contextmanager
    def active(self) -> Iterator[None]:
        """Let this thread be the worker."""
        with working_on(None), _as_worker(None):
            yield

    def close(self) -> None:
        """Nothing to release."""


class DeviceWorker:
    """A worker with a device.

    Parameters
    ----------
    device
        The number of its device.
    on_cupy
        Whether any UDF of the run gets arrays of CuPy. If not, all that happens is that
        :func:`framefold.common.backend.get_use_cuda` knows the device.
    n_readers
        How many threads of the engine read its tiles.
    """

    def __init__(self, device: int, on_cupy: bool, n_readers: int) -> None:
        self.device = device
        self._on_cupy = on_cupy
        self._compute: Any = None
        self._n_readers = n_readers
        self._staging: Staging | None = None
        self._uploaders: dict[DeviceTiles, Uploader] = {}
        #: The tile of the moment, for UDFs that have not taken it yet.
        self.held: dict[DeviceTiles, Held] = {}
        self._kept: dict[Hashable, Any] = {}

    def keep(self, key: Hashable, make: Callable[[], Any]) -> Any:
        """What ``make`` returned when this was first asked for ``key``, until the run ends."""
        if key not in self._kept:
            self._kept[key] = make()
        return self._kept[key]

    def uploader(self, tiles: DeviceTiles) -> Uploader:
        """What brings these tiles to the device, for use while active.

        Each kind of tiles has its own: the tile of the moment stays where it is, until the next
        one of its kind comes.
        """
        if tiles not in self._uploaders:
            from framefold.arrays.cuda.upload import Uploader

            self._uploaders[tiles] = Uploader(self._compute)
        return self._uploaders[tiles]

    @property
    def staging(self) -> Staging:
        """Where the engine puts its tiles, for use while active."""
        if self._staging is None:
            from framefold.arrays.cuda.staging import Staging

            self._staging = Staging(self._n_readers)
        return self._staging

    @contextmanager
    def active(self) -> Iterator[None]:
        """Let this thread be the worker: its device and its stream are the current ones.

        Raises
        ------
        LimitError
            If memory of the device runs out, in framefold or in user code.
        """
        with ExitStack() as stack:
            stack.enter_context(working_on(self.device))
            stack.enter_context(_as_worker(self))
            if self._on_cupy:
                stack.enter_context(self._clear_errors())
                stack.enter_context(_cupy().cuda.Device(self.device))
                if self._compute is None:
                    self._open()
                stack.enter_context(self._compute)
            yield

    def close(self) -> None:
        """Give the memory back, when the device has done its work."""
        self.held.clear()
        self._kept.clear()
        if self._compute is None:
            return
        # What went wrong on the device was raised before, or none of its results was used.
        with suppress(Exception), _cupy().cuda.Device(self.device):
            for uploader in self._uploaders.values():
                uploader.close()
            self._compute.synchronize()
        self._uploaders.clear()
        self._staging = None
        self._compute = None
        _leave()

    def _open(self) -> None:
        global _n_open
        # Of the kind that the default stream waits for, and that waits for it: so libraries that
        # know nothing of streams compute with tiles that are there, and stay there.
        self._compute = _cupy().cuda.Stream()
        with _lock:
            _n_open += 1
            _used.add(self.device)

    @contextmanager
    def _clear_errors(self) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if not _out_of_memory(error):
                raise
            clear = LimitError(
                f"memory of CUDA device {self.device} ran out: {error}; process smaller tiles "
                f"(get_tiling_preferences), let go of arrays sooner, or restrict the run to the "
                f"CPU with backends='numpy'"
            )
            for note in getattr(error, "__notes__", ()):
                clear.add_note(note)
            raise clear from error


def _leave() -> None:
    """Give back the memory that CuPy keeps for later, if no run goes on."""
    global _n_open
    with _lock:
        _n_open -= 1
        if _n_open:
            return
        cupy = _cupy()
        for device in sorted(_used):
            with suppress(Exception), cupy.cuda.Device(device):
                cupy.get_default_memory_pool().free_all_blocks()
        with suppress(Exception):
            cupy.get_default_pinned_memory_pool().free_all_blocks()
        _used.clear()


@contextmanager
def _as_worker(worker: DeviceWorker | None) -> Iterator[None]:
    before = current_worker()
    _here.worker = worker
    try:
        yield
    finally:
        _here.worker = before


def _out_of_memory(error: Exception) -> bool:
    package = type(error).__module__.partition(".")[0]
    return package in ("cupy", "cupy_backends") and (
        type(error).__name__ == "OutOfMemoryError" or "cudaErrorMemoryAllocation" in str(error)
    )


def _cupy() -> Any:
    import cupy

    return cupy
