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
| ``Codegen._library_class``, ``_create_empty_module``, ``_engine``; ``JITCodeLibrary._optimize_final_module``, ``_finalize_final_module``, ``_ensure_finalized``, ``_final_module``, ``_finalized``, ``_codegen`` | Numba | machine code of what is called by address, and not of each function within it |
| ``Callback._callback`` | dask | progress of one computation, and not of others |
"""  # noqa: E501

from __future__ import annotations

import importlib
import inspect
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

from framefold.common._user_code import with_known_annotations


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


@cache
def pickler() -> Any:
    """:class:`cloudpickle.Pickler`, for functions with any annotations."""
    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        def _dynamic_function_reduce(self, func: Any) -> Any:
            return super()._dynamic_function_reduce(with_known_annotations(func))

    return Pickler


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


@contextmanager
def machine_code_on_demand() -> Iterator[None]:
    """Have Numba optimise code, and make machine code of it, when an address in it is asked for.

    By itself it does both for each function, although one that is called by another becomes part of
    that one's code, and is optimised there once more. Other threads compile nothing meanwhile.
    """
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.registry import cpu_target
    from numba.core.runtime import rtsys

    context = cpu_target.target_context
    rtsys.initialize(context)  # has an address that is asked for while code is made ready
    with global_compiler_lock:
        context.codegen()._library_class = _library_on_demand()
        try:
            yield
        finally:
            del context.codegen()._library_class  # so that it is that of the class
            _library_on_demand().leave(context)


@cache
def _library_on_demand() -> Any:
    """Numba's library of code, which is ready for others to take it as soon as it is complete."""
    from llvmlite import binding
    from numba.core.codegen import JITCodeLibrary, RuntimeLinker
    from numba.core.compiler_lock import global_compiler_lock
    from numba.core.registry import cpu_target

    #: Python objects that functions without machine code may use, by the name of the variable.
    waiting: dict[str, Any] = {}
    #: Libraries without machine code.
    unfinished: list[Any] = []

    class Environments:
        """Sets such variables as a ``Codegen`` does, or has them wait."""

        def __init__(self, codegen: Any) -> None:
            self.codegen = codegen

        def __getattr__(self, name: str) -> Any:
            return getattr(self.codegen, name)

        def set_env(self, name: str, value: Any) -> None:
            if self.codegen._engine.is_symbol_defined(name):
                self.codegen.set_env(name, value)
            else:
                waiting[name] = value

    class Library(JITCodeLibrary):  # type: ignore[misc] # Numba has no types
        waits = False

        @property
        def codegen(self) -> Any:
            return Environments(self._codegen)

        @classmethod
        def leave(cls, context: Any) -> None:
            unfinished.clear()
            cls.place_environments(context)

        @staticmethod
        def place_environments(context: Any) -> None:
            """Have the variables that wait in memory, for all code that is loaded afterwards."""
            if not waiting:
                return
            codegen = context.codegen()
            module = codegen._create_empty_module("environments")
            for name in waiting:
                context.declare_env_global(module, name)
            parsed = binding.parse_assembly(str(module))
            codegen._engine.add_module(parsed)
            while waiting:
                codegen.set_env(*waiting.popitem())

        @property
        def has_dynamic_globals(self) -> bool:
            self._ensure_finalized()
            self.finish()  # which looks for them
            return bool(super().has_dynamic_globals)

        def get_pointer_to_function(self, name: str) -> int:
            self._ensure_finalized()
            if self.defines(name):
                self.finish()
            return int(super().get_pointer_to_function(name))

        def defines(self, name: str) -> bool:
            try:
                return not self._final_module.get_function(name).is_declaration
            except NameError:
                return False

        def finish(self) -> None:
            """Make machine code."""
            with global_compiler_lock:
                if self.waits:
                    self.waits = False
                    super()._optimize_final_module()
                    self._final_module.verify()
                    self._finalize_final_module()

        def _get_compiled_object(self) -> Any:
            self.finish()
            return super()._get_compiled_object()

        def _optimize_final_module(self) -> None:
            variables = self._final_module.global_variables
            # Functions that call each other do so by addresses, which have to be there.
            self.waits = not any(each.name.startswith(RuntimeLinker.PREFIX) for each in variables)
            if self.waits:
                unfinished.append(self)
                return
            while unfinished:
                unfinished.pop().finish()
            super()._optimize_final_module()

        def _finalize_final_module(self) -> None:
            if self.waits:
                self._finalized = True
            else:
                self.place_environments(cpu_target.target_context)
                super()._finalize_final_module()

    return Library


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
