"""A Dask cluster on this machine: a scheduler in this process, and workers in others.

Workers are started like those of ``processes``, and not by Dask's nannies: those would run the main
script again, which then needs a guard.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import shutil
import stat
import subprocess
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from functools import partial
from pathlib import Path
from typing import Any

import psutil  # which distributed needs, too
from distributed import Scheduler, Security
from distributed.core import Status
from distributed.deploy.spec import ProcessInterface
from distributed.diagnostics.plugin import SchedulerPlugin

from framefold.common import _foreign
from framefold.common.threading import Keep, OfProcess
from framefold.executor._dask import security as dask_security
from framefold.executor._dask.messages import not_started
from framefold.executor._processes.workers import Started, command_of, environment_for
from framefold.executor._processes.workers import start as start_process
from framefold.executor._wire.failures import describe_exit

try:
    import fcntl
except ImportError:  # on Windows
    fcntl = None  # type: ignore[assignment]

#: How many times in a row a worker may end before it is ready; then it is given up.
FAILED_STARTS = 3
#: How often to look whether a worker has ended, in seconds.
POLL = 0.1
#: How long a worker may take to end, in seconds.
PATIENCE = 1.0
#: What the names of folders begin with; the process that they belong to comes next.
PREFIX = "framefold-dask-"
#: How old a folder is at least that is taken for left behind, in seconds: a younger one may be
#: about to be locked.
YOUNG = 60.0


class LocalWorker(ProcessInterface):  # type: ignore[misc] # distributed has no types
    """A worker process, which is started again when it dies.

    Parameters
    ----------
    scheduler
        The address of its scheduler.
    name
        Of the worker.
    options
        For :class:`distributed.Worker`.
    device
        The number of its CUDA device; None for a worker on the CPU.
    security
        The certificates for its connections.
    """

    def __init__(
        self,
        scheduler: str,
        name: str,
        options: Mapping[str, Any],
        device: int | None = None,
        security: Security | None = None,
    ) -> None:
        super().__init__()
        self._device = device
        self.name = name
        given = {"dashboard": False, **dask_security.local_options(options), "name": name}
        self._startup_data = pickle.dumps((scheduler, given, security or Security()))
        self._process: subprocess.Popen[bytes] | None = None
        self._started: Started | None = None
        self._watching: asyncio.Task[None] | None = None
        #: Why it was given up, if it was.
        self.reason: str | None = None

    async def start(self) -> None:
        """Start the process; it need not be ready."""
        self._launch()
        self._watching = asyncio.get_running_loop().create_task(self._watch())
        await super().start()

    async def close(self) -> None:
        """End the process; returns when it is gone."""
        if self._watching is not None:
            self._watching.cancel()
        if self._started is not None:
            self._started.close()
            self._started = None
        process, self._process = self._process, None
        if process is not None:
            deadline = time.monotonic() + PATIENCE
            while process.poll() is None and time.monotonic() < deadline:
                await asyncio.sleep(0.01)
            process.kill()
            process.wait()
        await super().close()

    def kill(self) -> None:
        """End the process at once; another one is started."""
        if self._process is not None:
            self._process.kill()

    def _launch(self) -> None:
        command = command_of("framefold.executor._dask.process")
        started = start_process(command, environment_for(self._device))
        if self._started is not None:
            self._started.close()  # that of the process before
        self._started, self._process = started, started.process
        # All users can read a command line.
        with suppress(OSError):  # it may have ended already
            started.channel.send((self._startup_data,))

    async def _watch(self) -> None:
        failed = 0
        while failed < FAILED_STARTS:
            while self._process is not None and self._process.poll() is None:
                await asyncio.sleep(POLL)
            if self._process is None or self.status != Status.running:
                return
            failed = 0 if self._was_ready() else failed + 1
            if failed == FAILED_STARTS:
                self.reason = describe_exit(self._process.returncode)
            # The scheduler refuses a second worker of a name that it has not missed yet.
            while self._is_known() and self.status == Status.running:
                await asyncio.sleep(POLL)
            if failed < FAILED_STARTS and self.status == Status.running:
                try:
                    self._launch()
                except OSError as error:
                    self.reason = str(error)
                    return

    def _is_known(self) -> bool:
        """Whether the scheduler has a worker of this name."""
        cluster = _foreign.cluster_of(self)
        return cluster is not None and self.name in cluster.scheduler.aliases

    def _was_ready(self) -> bool:
        """Whether the scheduler has come to know the process that has ended."""
        cluster = _foreign.cluster_of(self)
        if cluster is None or self.name not in cluster.arrivals.names:
            return False
        cluster.arrivals.names.remove(self.name)
        return True


class Arrivals(SchedulerPlugin):  # type: ignore[misc] # distributed has no types
    """The names of workers that have connected: polling would miss those that die soon."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def add_worker(self, scheduler: Scheduler, worker: str) -> None:
        """A worker has come."""
        self.names.add(scheduler.workers[worker].name)


class LocalCluster(_foreign.spec_cluster()):  # type: ignore[misc] # distributed has no types
    """A scheduler in this process, and the workers of a specification."""

    def __init__(self, *args: Any, **options: Any) -> None:
        self.arrivals = Arrivals()
        super().__init__(*args, **options)

    def on_started(self) -> None:
        """Have the scheduler report workers that connect."""
        self.scheduler.add_plugin(self.arrivals)

    #: Removes temporary files, if there are any.
    clean: Callable[[], object] | None = None

    def comes_back(self, address: str) -> bool:
        """Whether a worker is one that starts its process again."""
        known = self.scheduler_info["workers"].get(address, {})
        return isinstance(self.workers.get(known.get("name")), LocalWorker)

    def replace(self, address: str) -> bool:
        """End a worker at once if another one is started in its place; whether it is."""
        state = self.scheduler.workers.get(address)
        worker = None if state is None else self.workers.get(state.name)
        if not isinstance(worker, LocalWorker):
            return False
        worker.kill()
        return True

    @property
    def why_none(self) -> str | None:
        """Why there will be no worker; None if there are some, or may be."""
        reasons = [getattr(worker, "reason", None) for worker in self.workers.values()]
        return None if None in reasons or not reasons else reasons[0]

    def on_closed(self) -> None:
        """Remove temporary files."""
        if self.clean is not None:
            self.clean()


def start(spec: Mapping[Any, Any], options: Mapping[str, Any]) -> LocalCluster:
    """Start a cluster.

    Parameters
    ----------
    spec
        The workers, as for :class:`distributed.SpecCluster`.
    options
        For that class, and ``dashboard_address``.
    """
    given = dict(options)
    given["security"] = security = dask_security.security(given.get("security"))
    dashboard = given.pop("dashboard_address", None)
    scheduler = given.get("scheduler")
    given["scheduler"] = dask_security.scheduler_spec(scheduler, dashboard, security)
    # It shows tracebacks of connections that are closed on purpose, when logs are loud again.
    batched = logging.getLogger("distributed.batched")
    if batched.level == logging.NOTSET:
        batched.setLevel(logging.WARNING)
    remove_stale()
    try:
        scratch = Scratch()
    except OSError as error:
        raise not_started(str(error)) from error
    ended = ExitStack()
    ended.callback(scratch.remove)
    workers = {name: _at_home(each, scratch.path, security) for name, each in spec.items()}
    if given.get("worker") is not None:
        given["worker"] = _at_home(given["worker"], scratch.path, security)
    level = given.pop("silence_logs", logging.ERROR)
    try:
        # What Dask does for that is undone by the first cluster to end, if there are several.
        _LOGS.enter("handlers", partial(_set_level, level), ended)
        cluster = LocalCluster(workers, **given)
    except OSError as error:
        ended.close()
        raise not_started(str(error)) from error
    except BaseException:
        ended.close()
        raise
    cluster.clean = weakref.finalize(cluster, ended.close)
    return cluster


_LOGS = OfProcess()


def _set_level(level: int | str | None, keep: Keep) -> None:
    """Have Dask say nothing below a level, if there is one; ``keep`` gets what undoes that."""
    handlers = [
        handler
        for handler in logging.getLogger("distributed").handlers
        if level and isinstance(handler, logging.StreamHandler)
    ]
    before = [(handler, handler.level) for handler in handlers]

    def undo() -> None:
        for handler, was in before:
            handler.setLevel(was)

    keep(undo)
    for handler in handlers:
        handler.setLevel(level.upper() if isinstance(level, str) else level)  # type: ignore[arg-type]


def _at_home(worker: Mapping[str, Any], folder: str, security: Security) -> dict[str, Any]:
    """The specification of a worker that keeps to itself, with its temporary files there."""
    if worker["cls"] is not LocalWorker:
        return dask_security.worker_spec(worker, security)
    options = worker.get("options", {})
    inner = {"local_directory": folder, **options.get("options", {})}
    return {**worker, "options": {"security": security, **options, "options": inner}}


class Scratch:
    """A folder for temporary files of workers, of which none is left, whatever ends.

    It is locked for as long as this process lives, so that others leave it alone.
    Process ids are not enough: containers that share a folder for temporary files use the same
    process ids.
    """

    def __init__(self) -> None:
        self._process = os.getpid()
        self.path = tempfile.mkdtemp(prefix=f"{PREFIX}{self._process}-")
        try:
            self._lock = _locked(self.path)
        except BaseException:
            os.rmdir(self.path)
            raise

    def remove(self) -> None:
        """Remove it, in the process that made it."""
        if os.getpid() == self._process:
            shutil.rmtree(self.path, ignore_errors=True)
            if self._lock is not None:
                os.close(self._lock)
                self._lock = None


def remove_stale() -> None:
    """Remove what processes left that were killed."""
    for path in Path(tempfile.gettempdir()).glob(f"{PREFIX}*-*"):
        with suppress(OSError):  # it is just gone, or that of another user
            about = path.lstat()
            # Others may leave links to folders of ours, or watch what is removed.
            if not stat.S_ISDIR(about.st_mode) or about.st_uid != _user():
                continue
            if time.time() - about.st_mtime > YOUNG and _is_stale(path):
                shutil.rmtree(path, ignore_errors=True)


def _user() -> int:
    return os.getuid() if hasattr(os, "getuid") else 0  # as files of Windows say


def _is_stale(path: Path) -> bool:
    if fcntl is None:
        number = path.name.removeprefix(PREFIX).partition("-")[0]
        return number.isdecimal() and not psutil.pid_exists(int(number))
    lock = _locked(os.fspath(path))
    if lock is None:
        return False
    os.close(lock)
    return True


def _locked(path: str) -> int | None:
    """A descriptor that locks a folder until it is closed; None if it is locked or cannot be."""
    if fcntl is None:
        return None
    descriptor = os.open(path, os.O_RDONLY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        os.close(descriptor)
        return None
    return descriptor
