"""One worker of a run that uses CUDA devices: a thread, and the device that is its own."""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any

from framefold.arrays.cuda import errors
from framefold.common.backend import working_on
from framefold.utils import devices as system

if TYPE_CHECKING:
    from framefold.arrays.cuda.staging import Staging
    from framefold.arrays.cuda.tiles import DeviceTiles, Held
    from framefold.arrays.cuda.upload import Uploader

_here = threading.local()

#: How many workers use CuPy right now, in all runs; their memory is given back after the last.
_lock = threading.Lock()
_n_open = 0
_used: set[int] = set()
#: Streams and events of devices that are lost, which CUDA refuses to destroy.
_left_behind: list[Any] = []


def current_worker() -> DeviceWorker | None:
    """The worker with a device that this thread is; None if it is none."""
    return getattr(_here, "worker", None)


class CpuWorker:
    """A worker without a device, beside others that have one."""

    device = None

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
        How many threads of the engine read its tiles; 0 if the worker does.
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
    def staging(self) -> Staging | None:
        """Where threads of the engine put its tiles, for use while active; None without any."""
        if self._n_readers == 0:
            return None
        if self._staging is None:
            from framefold.arrays.cuda.staging import Staging

            self._staging = Staging(self._n_readers, self.device)
        return self._staging

    @contextmanager
    def active(self) -> Iterator[None]:
        """Let this thread be the worker: its device and its stream are the current ones.

        Raises
        ------
        LimitError
            If memory of the device runs out, in framefold or in user code.
        DeviceError
            If CUDA fails in a way that this process cannot use the device any more, or has done so
            before.
        """
        with ExitStack() as stack:
            stack.enter_context(working_on(self.device, self.keep))
            stack.enter_context(_as_worker(self))
            if self._on_cupy:
                stack.enter_context(self._clear_errors())
                stack.enter_context(_on(self.device))
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
        try:
            self._release()
        finally:
            self._uploaders.clear()
            self._staging = None
            self._compute = None
            _leave()

    def _release(self) -> None:
        """Wait for the device, unless it is lost, and release memory."""
        if self.device not in system.lost:
            # What went wrong on the device was raised before, or none of its results was used.
            try:
                with _on(self.device):
                    for uploader in self._uploaders.values():
                        uploader.close()
                    self._compute.synchronize()
                    if self._staging is not None:
                        self._staging.close()
                return
            except Exception:
                reason = errors.why_unusable(self.device)
                if reason is None:
                    return
                errors.lose(self.device, reason)
        # Streams and events are kept: destroyed, they would only make CUDA complain.
        _left_behind.append(self._compute)
        for uploader in self._uploaders.values():
            _left_behind.extend(uploader.leave_behind())
        if self._staging is not None:
            _left_behind.extend(self._staging.leave_behind())

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
        if (reason := system.lost.get(self.device)) is not None:
            raise errors.is_lost(self.device, reason)
        try:
            yield
        except Exception as error:
            sizes = (uploader.len_bytes for uploader in self._uploaders.values())
            clear = errors.clear(error, self.device, max(sizes, default=0))
            if clear is error:
                raise
            raise clear from error


@contextmanager
def _on(device: int) -> Iterator[None]:
    """Let the device be the current one; an error within is the one that is raised."""
    entered = _cupy().cuda.Device(device)
    entered.__enter__()
    try:
        yield
    except BaseException:
        with suppress(Exception):  # a device that is lost refuses that, too
            entered.__exit__(None, None, None)
        raise
    entered.__exit__(None, None, None)


def _leave() -> None:
    """Give back the memory that CuPy keeps for later, if no run goes on."""
    global _n_open
    with _lock:
        _n_open -= 1
        if _n_open:
            return
        cupy = _cupy()
        # What a device that is lost had goes with the process: CUDA refuses to free it. Memory of
        # the host can be freed where any device works.
        usable = sorted(_used - system.lost.keys())
        for device in usable:
            with suppress(Exception), _on(device):
                cupy.get_default_memory_pool().free_all_blocks()
        for device in usable[:1]:
            with suppress(Exception), _on(device):
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


def _cupy() -> Any:
    import cupy

    return cupy
