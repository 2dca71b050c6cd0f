"""What framefold uses of other packages that they do not promise: all of it, and nothing elsewhere.

A test names each part, and fails where another version has changed it; ``pyproject.toml`` says which
versions that was tried with.

| part | of | for |
|---|---|---|
| ``threading._register_atexit`` | CPython 3.11 – 3.14 | to stop runs before threads are waited for |
| ``_signal.getsignal``, ``_signal.signal`` | CPython, PyPy | handlers that are set for each merge: those of ``signal`` take twenty times as long |
| ``subprocess._args_from_interpreter_flags`` | CPython | workers with this interpreter's flags |
| ``ThreadPoolExecutor._max_workers``, ``ProcessPoolExecutor._max_workers`` | CPython | as many workers as a pool has |
| ``_dynamic_class_reduce``, ``Pickler._dynamic_function_reduce``, ``_make_skeleton_class`` | cloudpickle | code as it is in this process |
| ``SpecCluster._start``, ``_close``, ``_update_worker_status``, and ``_cluster`` of its workers | distributed | workers that start again |
| ``CodeLibrary._get_compiled_object``, ``FunctionIR._definitions``, ``Dispatcher._can_compile`` | Numba | machine code to be kept, assignments to results in compiled code, what it is made of |
| ``Callback._callback`` | dask | progress of one computation, and not of others |
"""  # noqa: E501

from __future__ import annotations

import importlib
import inspect
import threading
from collections.abc import Callable
from functools import cache
from typing import Any


def before_threads_end(function: Callable[[], object]) -> None:
    """Call a function before the interpreter waits for threads; the latest registered one first.

    The public :mod:`atexit` comes too late: its functions are called afterwards. Without this, the
    interpreter would wait until the partitions being processed are done.

    Raises
    ------
    RuntimeError
        If the interpreter waits for threads already.
    """
    nothing: Callable[[Callable[[], object]], None] = lambda _function: None  # noqa: E731
    getattr(threading, "_register_atexit", nothing)(function)


def signal_handlers() -> Any:
    """A module with ``getsignal`` and ``signal``, as in :mod:`signal`, of plain numbers."""
    return importlib.import_module("_signal")


def interpreter_flags() -> list[str]:
    """The options that this interpreter was started with, such as ``-O`` and ``-W``."""
    import subprocess  # takes longer than what else is imported here

    nothing: Callable[[], list[str]] = list
    return getattr(subprocess, "_args_from_interpreter_flags", nothing)()


def size_of(pool: Any) -> int | None:
    """How many threads or processes a pool of :mod:`concurrent.futures` has, if it says so."""
    size = getattr(pool, "_max_workers", None)
    return size if isinstance(size, int) else None


def reduced_class(cls: type) -> Any:
    """What cloudpickle makes of a class by its code, whether or not it can be imported."""
    from cloudpickle.cloudpickle import _dynamic_class_reduce

    return _dynamic_class_reduce(cls)


def reduced_function(pickler: Any, function: Any) -> Any:
    """What a pickler of cloudpickle makes of a function by its code."""
    return pickler._dynamic_function_reduce(function)


def without_identity(reduced: Any) -> Any:
    """The same for a class, without the id by which a process takes the class that it made before.

    What is no class by its code stays as it is.
    """
    if not isinstance(reduced, tuple) or reduced[0].__name__ != "_make_skeleton_class":
        return reduced
    make, arguments, *rest = reduced
    call = inspect.signature(make).bind(*arguments)
    if "class_tracker_id" in call.arguments:
        call.arguments["class_tracker_id"] = None
    return make, call.args, *rest


def callbacks_of(callback: Any) -> set[Any]:
    """A callback of Dask, active for one computation only: an argument of its schedulers."""
    return {callback._callback}


def cluster_of(worker: Any) -> Any:
    """The cluster that a worker of a specification belongs to; None if it has ended."""
    return getattr(worker, "_cluster", lambda: None)()


@cache
def spec_cluster() -> Any:
    """:class:`distributed.SpecCluster` with methods to override in the place of private ones."""
    from distributed import SpecCluster

    class HookedCluster(SpecCluster):  # type: ignore[misc] # distributed has no types
        async def _start(self) -> None:
            await super()._start()
            self.on_started()

        async def _close(self) -> None:
            await super()._close()
            self.on_closed()

        def _update_worker_status(self, op: str, msg: Any) -> None:
            if op == "remove" and self.comes_back(msg):
                # Dask would end a worker for good that does not come back within 15 seconds.
                super(SpecCluster, self)._update_worker_status(op, msg)
            else:
                super()._update_worker_status(op, msg)

        def on_started(self) -> None:
            """Called when the scheduler is there."""

        def on_closed(self) -> None:
            """Called when everything has ended; may be called again."""

        def comes_back(self, address: str) -> bool:
            """Whether a worker that has left is started again without Dask."""
            return False

    return HookedCluster


def object_code_of(library: Any) -> bytes:
    """The object file that Numba made of a library of code."""
    return bytes(library._get_compiled_object())


def options_of_numba(function: Any) -> dict[str, Any]:
    """What changes the results of a function that the user had Numba compile, beside its code."""
    declared = [str(each) for each in declared_signatures(function) or ()]
    return {**function.targetoptions, "locals": function.locals, "signatures": declared}


def declared_signatures(function: Any) -> list[Any] | None:
    """The signatures that the user had Numba compile a function for; None if it is for all."""
    return None if function._can_compile else list(function.nopython_signatures)


def define(function: Any, name: str, expression: Any) -> None:
    """Say what a variable is in Numba's form of a function, where a pass adds it."""
    function._definitions[name].append(expression)
