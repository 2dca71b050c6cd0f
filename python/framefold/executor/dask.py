"""Partitions on the workers of a Dask cluster."""

from __future__ import annotations

import _thread
import os
import struct
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, closing, suppress
from functools import partial
from math import inf
from typing import TYPE_CHECKING, Any, TypeVar

from framefold.arrays.cuda.placement import Workers, devices_by_default
from framefold.common._ending import at_end, is_ending, too_late
from framefold.common._numbers import number
from framefold.common.cores import available_cores
from framefold.common.scheduler import WorkerInfo, WorkerSet
from framefold.exceptions import (
    InvalidArgumentError,
    MissingLibraryError,
    WorkerError,
)
from framefold.executor._active import active
from framefold.executor._dask import devices as dask_devices
from framefold.executor._dask.uninterrupted import LEAVING, Work, made
from framefold.executor.base import (
    Crew,
    JobExecutor,
    cannot_be_pickled,
    check_main_process_gpu,
    check_seconds,
    listed,
)

if TYPE_CHECKING:
    from distributed import Client

    from framefold.executor._dask.cluster import LocalCluster
    from framefold.executor._dask.resources import Transfers
    from framefold.run.plan import Run

__all__ = ["DaskJobExecutor", "cluster_spec"]

T = TypeVar("T")

#: For how long messages to the scheduler of a local cluster wait for others, in seconds.
INTERVAL = 0.001


class DaskJobExecutor(JobExecutor):
    """Processes partitions on the workers of a Dask cluster.

    Workers open files themselves, under the same path; those that cannot are left out. Each run is
    sent once to each worker. Needs the packages ``dask`` and ``distributed``, and on the workers
    framefold of the same version.

    Parameters
    ----------
    client
        Of :mod:`distributed`; it is not closed by the executor.
    is_local
        Whether the workers have nothing that this process has not: then runs of native kernels
        alone use threads of this process, and nothing has to be sent; over arrays that the cluster
        has computed (``persist``), they run on the workers.
    lt_resources
        Of no effect: workers need no tags.
    main_process_gpu
        Accepted and of no effect: partial results are merged on the CPU.
    timeout
        How many seconds a partition may take on a worker, with the time that it waits there for
        tasks of others. If it takes longer, the run fails with
        :class:`~framefold.exceptions.WorkerTimeoutError`. Any time if None.
    startup_timeout
        How many seconds to wait for workers where there are none, or where all are paused or kept
        busy by functions of runs that were ended; with a ``timeout``, also until a worker is ready
        for a run.
    """

    def __init__(
        self,
        client: Client,
        is_local: bool = False,
        lt_resources: bool | None = None,
        main_process_gpu: int | bool | None = None,
        *,
        timeout: float | None = None,
        startup_timeout: float = 60.0,
    ) -> None:
        check_main_process_gpu(main_process_gpu)
        distributed = import_distributed()
        from framefold.executor._dask.memory import BufferPool
        from framefold.executor._dask.resources import Transfers

        if not isinstance(client, distributed.Client):
            raise InvalidArgumentError(
                f"client is a {type(client).__name__}; pass a distributed.Client, or use "
                f"DaskJobExecutor.connect(address) or DaskJobExecutor.make_local()"
            )
        if client.asynchronous:
            raise InvalidArgumentError(
                "the client belongs to an event loop (asynchronous=True); pass one without it: "
                "run_udf(…, sync=False) does not block the event loop"
            )
        times = _checked_times(timeout, startup_timeout)
        self.client = client
        self.is_local = is_local
        self._timeout, self._startup_timeout = times
        self._buffers = BufferPool()
        self._transfers = Transfers()
        self._closed = False
        self._process = os.getpid()
        self._own: LocalCluster | None = None
        self._closing: Work[object] | None = None

    @classmethod
    def connect(
        cls,
        scheduler_uri: str,
        *args: Any,
        client_kwargs: Mapping[str, Any] | None = None,
        main_process_gpu: int | bool | None = None,
        timeout: float | None = None,
        startup_timeout: float = 60.0,
    ) -> DaskJobExecutor:
        """Use the cluster of a scheduler that is running.

        Parameters
        ----------
        scheduler_uri
            Its address, such as ``tcp://10.0.0.1:8786``.
        *args, client_kwargs
            For :class:`distributed.Client`: ``timeout`` says how long to try to connect.
            ``set_as_default`` is False if it is not given.
        main_process_gpu, timeout, startup_timeout
            As for the class.

        Raises
        ------
        WorkerError
            If no scheduler answers there.
        InvalidArgumentError
            If there can be no client of these arguments.
        """
        check_main_process_gpu(main_process_gpu)
        distributed = import_distributed()
        from framefold.executor._dask.options import client_options, most_seconds

        options = client_options(client_kwargs)
        try:
            within = most_seconds(scheduler_uri, *args, **options)
            client = _connected(distributed.Client, scheduler_uri, *args, within=within, **options)
        except (OSError, TimeoutError) as error:
            raise WorkerError(
                f"no Dask scheduler answers at {scheduler_uri} ({type(error).__name__}: {error}); "
                f"see whether the address is right and `dask scheduler` is running there, or pass "
                f"client_kwargs={{'timeout': …}} to wait longer"
            ) from error
        except (MemoryError, OverflowError, struct.error) as error:  # of what it took for lengths
            raise WorkerError(
                f"what answers at {scheduler_uri} is no Dask scheduler; see whether the address is "
                f"right, and the port that of `dask scheduler`, not of its dashboard"
            ) from error
        except ValueError as error:
            raise InvalidArgumentError(
                f"{scheduler_uri!r} is no address of a Dask scheduler: {error}; use one such as "
                f"'tcp://10.0.0.1:8786'"
            ) from error
        except Exception as error:
            if isinstance(error, TypeError) and "ssl_context" in str(error):
                raise InvalidArgumentError(
                    f"connections to {scheduler_uri} need certificates, and there are none; pass "
                    f"client_kwargs={{'security': distributed.Security(tls_ca_file=…, "
                    f"tls_client_cert=…, tls_client_key=…)}}"
                ) from error
            raise InvalidArgumentError(
                f"Dask makes no client of these arguments for {scheduler_uri!r}: "
                f"{type(error).__name__}: {error}"
            ) from error
        try:
            executor = cls(client, timeout=timeout, startup_timeout=startup_timeout)
        except BaseException:
            client.close()
            raise
        executor._owns(partial(_close_connected, client, executor._transfers))
        return executor

    @classmethod
    def make_local(
        cls,
        spec: Mapping[Any, Any] | None = None,
        cluster_kwargs: Mapping[str, Any] | None = None,
        client_kwargs: Mapping[str, Any] | None = None,
        preload: Sequence[str] | None = None,
        snooze_timeout: float | None = None,
        main_process_gpu: int | bool | None = None,
        *,
        timeout: float | None = None,
        startup_timeout: float = 60.0,
    ) -> DaskJobExecutor:
        """Start a cluster on this machine, which ends with the executor.

        Returns as soon as the scheduler is there, which is part of this process; workers come
        while data sets are opened. A worker that dies is replaced. All of them listen on
        127.0.0.1 alone, and accept no connection without the certificate of the cluster, which is
        ``executor.client.security``.

        Parameters
        ----------
        spec
            The workers, from :func:`cluster_spec`; one process with one thread for each core, and
            one for each CUDA device if CuPy is installed, if None.
        cluster_kwargs
            For :class:`distributed.SpecCluster`. ``security=False`` does without certificates,
            where the machine has no other users; ``dashboard_address`` starts Dask's dashboard.
        client_kwargs
            For :class:`distributed.Client`. ``set_as_default=True`` makes the cluster Dask's
            default scheduler.
        preload
            Modules that workers import when they start, if ``spec`` is None.
        snooze_timeout
            Accepted and of no effect: workers are kept until the executor is closed.
        main_process_gpu
            Accepted and of no effect: partial results are merged on the CPU.
        timeout, startup_timeout
            As for the class.
        """
        check_main_process_gpu(main_process_gpu)
        _checked_times(timeout, startup_timeout)
        distributed = import_distributed()
        from framefold.executor._dask import cluster as dask_cluster
        from framefold.executor._dask.options import checked_spec, client_options, cluster_options

        for_cluster = cluster_options(cluster_kwargs)
        for_client = {"direct_to_workers": True, **client_options(client_kwargs)}
        if spec is None:
            cudas = devices_by_default()
            spec = cluster_spec(range(available_cores()), cudas, bool(cudas), preload=preload)
        workers = checked_spec(spec)

        def start() -> DaskJobExecutor:
            with ExitStack() as started:
                cluster = dask_cluster.start(workers, for_cluster)
                started.enter_context(closing(cluster))
                client = _connected(distributed.Client, cluster, **for_client)
                started.enter_context(closing(client))
                # Messages are cheap here, and what they say is waited for: Dask collects them for
                # 10 ms.
                if hasattr(client.scheduler_comm, "interval"):
                    client.scheduler_comm.interval = INTERVAL
                executor = cls(client, True, timeout=timeout, startup_timeout=startup_timeout)
                executor._own = cluster
                started.callback(_await_arrivals, client, executor._transfers)
                executor._owns(started.pop_all().close)
                return executor

        return made(start, cls.close, "framefold-start")

    @property
    def n_workers(self) -> int:
        """How many workers there are now."""
        self.check_open()
        return len(self.client.nthreads())

    def run_function(self, fn: Callable[..., T], *args: Any, **kwargs: Any) -> T:
        """What a function returns on any worker.

        Raises
        ------
        WorkerError
            If there is no worker that can begin anything for ``startup_timeout``.
        """
        self.check_open()
        with self._waiting():
            task = self.client.submit(_with_named(fn, kwargs), *args, pure=False)
            (result,) = self._gathered(fn, [task])
        return result

    def map(self, fn: Callable[[Any], T], iterable: Iterable[Any]) -> list[T]:
        """What a function returns for each entry, as :meth:`run_function`, in order."""
        self.check_open()
        with self._waiting():
            return self._gathered(fn, self.client.map(fn, list(iterable), pure=False))

    def _gathered(self, fn: Callable[..., T], futures: list[Any]) -> list[T]:
        from framefold.executor._dask.calls import gathered

        name = f"the function {getattr(fn, '__qualname__', None) or repr(fn)}"
        results: list[T]
        results, failure = self.client.sync(gathered, self, name, futures)
        try:
            if failure is not None:
                raise failure
        finally:
            del failure  # it refers to this frame
        return results

    def _waiting(self) -> AbstractContextManager[None]:
        """Waiting for workers within, perhaps in a task of one of them."""
        from framefold.executor._dask.within import on_leave

        return on_leave(self.client)

    def run_each_worker(self, fn: Callable[..., T], *args: Any, **kwargs: Any) -> dict[str, T]:
        """What a function returns on each worker that is there now, by name."""
        found = self._each(fn, args, kwargs, lambda worker: worker.name)
        return {worker.name: value for worker, value in found}

    def run_each_host(self, fn: Callable[..., T], *args: Any, **kwargs: Any) -> dict[str, T]:
        """What a function returns on one worker of each host, by host."""
        found = self._each(fn, args, kwargs, lambda worker: worker.host)
        return {worker.host: value for worker, value in found}

    def get_available_workers(self) -> WorkerSet:
        """The workers that there are now."""
        return WorkerSet(self._workers().values())

    def _each(
        self,
        fn: Callable[..., T],
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        part: Callable[[WorkerInfo], str],
    ) -> list[tuple[WorkerInfo, T]]:
        """What a function returns on one worker of each part."""
        workers = self._workers()
        chosen = {part(worker): address for address, worker in workers.items()}.values()
        found = self.client.run(_with_named(fn, kwargs), *args, workers=list(chosen))
        return [(workers[address], found[address]) for address in chosen]

    def _workers(self) -> dict[str, WorkerInfo]:
        self.check_open()
        if not self.client.nthreads():
            task = self.client.submit(
                bool, pure=False
            )  # for which a cluster that adapts starts one
            try:
                self.client.wait_for_workers(1, self._startup_timeout)
            except TimeoutError:
                return {}
            finally:
                task.release()
        # Not of scheduler_info, which at times gives what the client asked for in the meantime.
        about = self.client.sync(self.client.scheduler.identity, n_workers=-1)["workers"]
        return {
            address: WorkerInfo(
                str(known["name"]), known["host"], known["nthreads"], dict(known["resources"])
            )
            for address, known in about.items()
        }

    def close(self) -> None:
        """End all runs, and what the executor has started: client, scheduler and workers."""
        if os.getpid() != self._process:
            return  # in a fork, they are those of the other process
        super().close()
        self._closed = True
        for crew in list(active):
            if getattr(crew, "executor", None) is self:
                crew.stop("the executor was closed during the run")
        try:
            if self._closing is None:
                _await_arrivals(self.client, self._transfers)
            else:
                self._closing.start()
                if not self.client.asynchronous:  # that is, on the thread of its event loop
                    self._closing.wait()
                    self._closing.check()
        finally:
            self._buffers.close()

    def explain(self, run: Run) -> str:
        """Where the partitions of a run are processed, and why."""
        if not self._takes(run):
            return "executor    threads: all UDFs run on native kernels, which need no workers\n"
        self.check_open()
        n_threads = self.client.nthreads()
        return f"executor    {len(n_threads)} Dask workers with {sum(n_threads.values())} threads\n"

    def find_workers(self, wishes: Sequence[tuple[str, ...]]) -> Workers:
        """Who takes part in a run of UDFs that take these formats, some of them of CUDA."""
        there: Sequence[Mapping[str, float]]
        if self._own is not None:  # its workers may be about to come
            there = dask_devices.in_spec(self._own.worker_spec)
        else:
            there = [worker.resources for worker in self.get_available_workers()]
        scheduler: Any = self.client.scheduler
        return dask_devices.find_workers(wishes, there, scheduler.address)

    def crew(self, run: Run) -> Crew | None:
        """The workers; None if threads of this process do it."""
        if not self._takes(run):
            return None
        self.check_open()
        from framefold.executor._dask.crew import DaskCrew

        return DaskCrew(self, run)

    def _takes(self, run: Run) -> bool:
        """Whether workers process the run."""
        if not self.is_local or not run.is_on_kernels:
            return True
        # What these workers hold is read there: here, Dask may know of another cluster, or of none.
        scheduler: Any = self.client.scheduler
        held = {future.client.scheduler.address for future in run.dataset._held}
        return scheduler.address in held

    def check_open(self) -> None:
        """Raise if the workers cannot be used any more."""
        if is_ending():
            raise too_late("workers of Dask cannot be used any more")
        if self._closed:
            raise InvalidArgumentError("this executor is closed; make another context")
        if os.getpid() != self._process:
            raise WorkerError(
                "the client of the Dask cluster belongs to the process that this one is a fork of; "
                "make another context here"
            )
        if self.client.status != "running":
            raise WorkerError(
                f"the client of the Dask scheduler is not connected (its status is "
                f"{self.client.status!r}); make another context"
            )

    def __reduce__(self) -> Any:
        raise cannot_be_pickled(self)

    def _owns(self, close: Callable[[], object]) -> None:
        """Call this with :meth:`close`, also if that is never called."""
        self._closing = Work(close, "framefold-close")
        finalizer = weakref.finalize(self, _start_closing, self._closing, os.getpid())
        finalizer.atexit = False  # it is too late then
        _owners.add(self)


def cluster_spec(
    cpus: int | Iterable[int],
    cudas: int | Iterable[int] = (),
    has_cupy: bool = False,
    name: str = "default",
    num_service: int = 1,
    options: Mapping[str, Any] | None = None,
    preload: Sequence[str] | None = None,
) -> dict[str, Any]:
    """Workers for :meth:`DaskJobExecutor.make_local`: a process for each CPU and CUDA device.

    Parameters
    ----------
    cpus
        How many workers, or an iterable with one entry for each.
    cudas
        How many CUDA devices, or the numbers of devices; one that is named twice gets two workers.
    has_cupy
        Whether workers with a device have the resource ``ndarray``; CuPy is used where it is
        installed.
    num_service
        Accepted and of no effect.
    name
        Names of workers begin with it.
    options
        For :class:`distributed.Worker`. Each has one thread if ``nthreads`` is not given.
    preload
        Modules that workers import when they start.

    Notes
    -----
    Workers have the resources of the reference system: ``CPU`` or ``CUDA``, ``compute``, and
    ``ndarray``.

    Raises
    ------
    InvalidArgumentError
        If there is no worker, or ``options`` or ``preload`` are not what workers take.
    """
    from framefold.executor._dask.cluster import LocalWorker
    from framefold.executor._dask.options import modules_to_preload, worker_options

    numbers, devices = listed(cpus, "cpus"), listed(cudas, "cudas")
    if not numbers and not devices:
        raise InvalidArgumentError("cpus is 0; a cluster needs at least one worker")
    given = {"memory_limit": 0, **worker_options(options)}
    modules = modules_to_preload(preload)
    if modules:
        given["preload"] = modules
    n_threads = given["nthreads"]
    on_cpu = {"resources": dask_devices.tags(n_threads, cuda=False, ndarray=True), **given}
    on_cuda = {"resources": dask_devices.tags(n_threads, cuda=True, ndarray=has_cupy), **given}
    spec: dict[str, Any] = {
        f"{name}-cpu-{number}": {"cls": LocalWorker, "options": {"options": on_cpu}}
        for number in numbers
    }
    for place, device in enumerate(devices):
        repeated = devices[:place].count(device)
        key = f"{name}-cuda-{device}" + (f"-{repeated - 1}" if repeated else "")
        spec[key] = {"cls": LocalWorker, "options": {"options": on_cuda, "device": device}}
    return spec


def _with_named(fn: Callable[..., T], kwargs: Mapping[str, Any]) -> Callable[..., T]:
    """A function with arguments by name, of which Dask takes some for its own, such as ``key``."""
    return partial(fn, **kwargs) if kwargs else fn


def _connected(cls: Any, *args: Any, within: float | None = None, **options: Any) -> Client:
    """A client; if it cannot connect, nothing is left of it.

    It would close itself as garbage: on any thread, such as that of the next client's event loop,
    which then cannot start, as the thread that starts it has the lock that closing takes.

    Parameters
    ----------
    within
        After how many seconds to raise TimeoutError. Dask's own limit does not hold while it waits
        for the first message of what listens there.
    """
    client = cls.__new__(cls)
    if within is not None:
        client.start = partial(client.start, callback_timeout=within)
    try:
        client.__init__(*args, **options)
    except BaseException:
        with suppress(Exception):
            client.close()
        raise
    finally:
        client.__dict__.pop("start", None)
    return client


def _close_connected(client: Client, transfers: Transfers) -> None:
    """Close a client whose cluster goes on."""
    _await_arrivals(client, transfers)
    client.close()


def _await_arrivals(client: Client, transfers: Transfers) -> None:
    """Wait until what is on its way has arrived: only then can it be released."""
    if client.status == "running" and not client.asynchronous:
        with suppress(Exception):  # they take too long, or the loop has ended
            client.sync(transfers.end, callback_timeout=LEAVING)


def _checked_times(timeout: float | None, startup_timeout: float) -> tuple[float | None, float]:
    """How long to wait for partitions and for workers, in seconds."""
    check_seconds(timeout=timeout, startup_timeout=startup_timeout)
    return timeout, number("startup_timeout", startup_timeout, most=inf, unit="seconds")


def import_distributed() -> Any:
    """The package, or an error that says how to get it."""
    try:
        import distributed
    except ImportError as error:
        raise MissingLibraryError(
            "Dask's package 'distributed' is not installed, which this executor needs: "
            "pip install 'framefold[dask]'"
        ) from error
    except RuntimeError as error:  # it starts threads
        if not is_ending():
            raise
        raise too_late("Dask cannot be used any more") from error
    if is_ending():
        raise too_late("workers of Dask cannot be used any more")
    return distributed


def _start_closing(closing: Work[object], process: int) -> None:
    """Close what an executor has left; the garbage collector asks for it, on any thread."""
    if os.getpid() != process:
        return
    try:
        # Not on a `Thread` right away: the collector may come while this very thread starts one,
        # and has the lock that starting another takes.
        _thread.start_new_thread(closing.start, ())
    except RuntimeError:  # there can be no more threads
        closing.start()


#: The executors that have started something.
_owners: weakref.WeakSet[DaskJobExecutor] = weakref.WeakSet()


def _close_all() -> None:
    """End clusters when the interpreter ends, before it waits for all threads."""
    with ExitStack() as ending:  # where one fails, the others are closed nevertheless
        for executor in list(_owners):
            ending.callback(executor.close)


at_end(_close_all)
