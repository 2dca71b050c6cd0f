"""Private parts of other packages: those that are used are there, and in one module only."""

from __future__ import annotations

import ast
import concurrent.futures
import os
import pickle
import signal
import subprocess
import sys
import threading
import tomllib
from pathlib import Path
from typing import Any

import pytest

import framefold
from framefold.common import _foreign

PACKAGE = Path(framefold.__file__).parent
ROOT = Path(__file__).parent.parent
#: Names with an underscore in front that are public all the same.
PUBLIC = {"_exit", "_replace", "_asdict", "_fields", "_getvalue"}


def test_threads_are_waited_for_after_what_is_registered() -> None:
    assert callable(threading._register_atexit)  # type: ignore[attr-defined]
    script = """
import threading, time
from framefold.common import _foreign
stop = threading.Event()
_foreign.before_threads_end(stop.set)
thread = threading.Thread(target=lambda: print("stopped" if stop.wait(20) else "waited"))
thread.start()
"""
    run = [sys.executable, "-c", script]
    assert subprocess.run(run, capture_output=True, text=True).stdout.strip() == "stopped"


def test_handlers_of_signals() -> None:
    handlers = _foreign.signal_handlers()
    before = signal.getsignal(signal.SIGINT)
    assert handlers.getsignal(int(signal.SIGINT)) is before
    assert handlers.signal(int(signal.SIGINT), before) is before


def test_flags_of_the_interpreter() -> None:
    script = "from framefold.common import _foreign; print(_foreign.interpreter_flags())"
    run = [sys.executable, "-O", "-W", "error", "-c", script]
    # Variables such as PYTHONDONTWRITEBYTECODE set flags, too.
    kept = {k: v for k, v in os.environ.items() if k == "PYTHONPATH" or not k.startswith("PYTHON")}
    done = subprocess.run(run, capture_output=True, text=True, env=kept)
    assert ast.literal_eval(done.stdout) == ["-O", "-Werror"]


def test_sizes_of_pools() -> None:
    with concurrent.futures.ThreadPoolExecutor(3) as pool:
        assert _foreign.size_of(pool) == 3
    with concurrent.futures.ProcessPoolExecutor(2) as processes:
        assert _foreign.size_of(processes) == 2
    assert _foreign.size_of(object()) is None


def test_classes_and_functions_are_taken_along_by_their_code() -> None:
    import io

    import cloudpickle

    class Pickler(cloudpickle.Pickler):  # type: ignore[misc]
        keeps_identity = True

        def reducer_override(self, obj: Any) -> Any:
            if obj is Sample:
                reduced = _foreign.reduced_class(obj)
                return reduced if self.keeps_identity else _foreign.without_identity(reduced)
            if obj is function:
                return _foreign.reduced_function(self, obj)
            return super().reducer_override(obj)

    def again(value: Any, keeps_identity: bool = True) -> Any:
        file = io.BytesIO()
        pickler = Pickler(file, protocol=5)
        pickler.keeps_identity = keeps_identity
        pickler.dump(value)
        return pickle.loads(file.getvalue())

    assert again(Sample) is Sample  # by its identity
    other = again(Sample, keeps_identity=False)
    assert other is not Sample
    assert other().answer() == 42
    assert again(function)(2) == 3
    assert again(function) is not function
    for unchanged in ("a name", (len, (1,))):
        assert _foreign.without_identity(unchanged) == unchanged


def test_a_callback_of_dask_for_one_computation() -> None:
    import dask
    from dask.callbacks import Callback

    class Counting(Callback):  # type: ignore[misc]
        n = 0

        def _posttask(self, key: Any, result: Any, dsk: Any, state: Any, worker: Any) -> None:
            self.n += 1

    counting = Counting()
    heard = {"callbacks": _foreign.callbacks_of(counting)}
    assert dask.delayed(sum)([1, 2]).compute(scheduler="sync", **heard) == 3
    heard_once = counting.n
    assert heard_once > 0
    assert dask.delayed(sum)([1, 2]).compute(scheduler="sync") == 3
    assert counting.n == heard_once


def test_clusters_call_what_is_overridden() -> None:
    import time

    from distributed import Scheduler, Worker

    calls: list[str] = []

    class Cluster(_foreign.spec_cluster()):  # type: ignore[misc]
        def on_started(self) -> None:
            calls.append("started")
            assert self.scheduler is not None

        def on_closed(self) -> None:
            calls.append("closed")

        def comes_back(self, address: str) -> bool:
            calls.append(f"left {address}")
            return True

    address = {"host": "127.0.0.1", "dashboard": False, "port": 0, "dashboard_address": ":0"}
    options = {"nthreads": 1, "host": "127.0.0.1", "dashboard_address": ":0"}
    workers = {0: {"cls": Worker, "options": options}}
    scheduler = {"cls": Scheduler, "options": address}
    with Cluster(workers, scheduler=scheduler, silence_logs=50) as cluster:
        cluster.scale(1)
        deadline = time.monotonic() + 30
        while not cluster.scheduler_info["workers"] and time.monotonic() < deadline:
            time.sleep(0.01)
        worker = cluster.workers[0]
        assert _foreign.cluster_of(worker) is cluster
        cluster.sync(cluster.scheduler.remove_worker, worker.address, stimulus_id="test")
        while f"left {worker.address}" not in calls and time.monotonic() < deadline:
            time.sleep(0.01)
    assert calls[0] == "started"
    assert f"left {worker.address}" in calls
    assert calls[-1] == "closed"
    assert _foreign.cluster_of(object()) is None


def test_code_that_numba_made() -> None:
    numba = pytest.importorskip("numba")
    from numba.core.compiler_lock import global_compiler_lock

    made = numba.njit(lambda value: value + 1)
    made.compile((numba.int64,))
    (compiled,) = made.overloads.values()
    with global_compiler_lock:
        library = compiled.library.codegen.create_library("test")
        library.enable_object_caching()
        library.add_ir_module(library.create_ir_module("test"))
        library.add_linking_library(compiled.library)
        library.finalize()
        library.get_pointer_to_function(compiled.fndesc.llvm_func_name)
    code = _foreign.object_code_of(library)
    assert len(code) > 100
    assert code[1:4] == b"ELF" or sys.platform != "linux"


def test_machine_code_of_numba_on_demand() -> None:
    numba = pytest.importorskip("numba")

    def checked(value: int) -> int:
        if value < 0:
            raise ValueError("below 0", value)  # of which Python objects are made
        return value

    only_linked = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    inner, unused = (numba.njit(**only_linked)(checked) for _ in range(2))
    signature = (numba.int64,)
    with _foreign.machine_code_on_demand():
        unused.compile(signature)
        outer = numba.njit(lambda value: inner(value) + 1)
        outer.compile(signature)
    later = numba.njit(lambda value: unused(value) + 2)
    assert outer(1) == 2
    assert later(1) == 3
    for function in outer, later:
        with pytest.raises(ValueError, match=r"below 0.*-1"):
            function(-1)
    for function in inner, unused:
        (compiled,) = function.overloads.values()
        assert compiled.library.waits
        assert compiled.library.get_pointer_to_function("another") == 0
        assert compiled.library.waits
        assert compiled.library.get_pointer_to_function(compiled.fndesc.llvm_func_name) > 0
        assert not compiled.library.waits
    # Of a literal and of other numbers, of which one calls the other by its address.
    with _foreign.machine_code_on_demand():

        @numba.njit(**only_linked)  # type: ignore[untyped-decorator]
        def factorial(n: int) -> int:
            return 1 if n < 2 else n * factorial(n - 1)  # type: ignore[no-any-return]

        outer = numba.njit(lambda: factorial(5))
        outer.compile(())
    assert outer() == 120


def test_variables_of_numba() -> None:
    pytest.importorskip("numba")
    from numba.core import ir
    from numba.core.compiler import run_frontend

    function = run_frontend(lambda value: value)
    new = ir.Const(5, function.loc)
    _foreign.define(function, "$new", new)
    assert function.get_definition("$new") is new


def test_options_of_numba() -> None:
    numba = pytest.importorskip("numba")

    def same(value: float) -> float:
        return value

    made = numba.njit(error_model="numpy")(same)
    found = _foreign.options_of_numba(made)
    assert found["error_model"] == "numpy"
    assert found["signatures"] == []
    assert _foreign.declared_signatures(made) is None
    made = numba.njit("float32(float32)", locals={})(same)
    assert _foreign.options_of_numba(made)["signatures"] == ["(float32,) -> float32"]
    assert _foreign.declared_signatures(made) == [numba.float32(numba.float32)]


def test_they_are_used_in_one_module() -> None:
    nodes = {path: nodes_of(path) for path in PACKAGE.rglob("*.py")}
    assert len(nodes) > 100
    stub = nodes_of(PACKAGE / "_engine.pyi")
    own = set().union(*map(defined, [*nodes.values(), stub])) | PUBLIC
    found = [
        f"{path.relative_to(PACKAGE)}:{line}: {name}"
        for path, found_there in nodes.items()
        if path.name != "_foreign.py"
        for line, name in private(found_there)
        if name not in own
    ]
    assert found == []
    # Those that are named in its table are those that it uses.
    foreign = PACKAGE / "common" / "_foreign.py"
    table = _foreign.__doc__ or ""
    used = {name for _, name in private(nodes[foreign]) if name not in own}
    assert used >= {"_dynamic_class_reduce", "_can_compile", "_callback"}
    assert [name for name in used if name not in table] == []


def test_versions_are_within_what_was_tried() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf8"))["project"]
    needed = [*project["dependencies"], *project["optional-dependencies"]["dask"]]
    for package in ("cloudpickle", "dask", "distributed"):
        (need,) = (need for need in needed if need.startswith(package))
        assert "<" in need, need


def nodes_of(path: Path) -> list[ast.AST]:
    """All parts of a module's code."""
    return list(ast.walk(ast.parse(path.read_text("utf8"))))


def defined(nodes: list[ast.AST]) -> set[str]:
    """The private names that a module gives to something of its own."""
    names = set()
    for node in nodes:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            names.add(node.name)
        elif isinstance(node, (ast.Name, ast.Attribute)) and isinstance(node.ctx, ast.Store):
            names.add(node.id if isinstance(node, ast.Name) else node.attr)
        elif isinstance(node, ast.Constant) and isinstance(node.value, str):
            names.update([node.value] if node.value.startswith("_slots") else [])
    return names


def private(nodes: list[ast.AST]) -> list[tuple[int, str]]:
    """Private names that are looked up in something, or imported from elsewhere."""
    found = []
    for node in nodes:
        names: list[str] = []
        if isinstance(node, ast.Attribute):
            names = [node.attr]
        elif isinstance(node, ast.ImportFrom) and not (node.module or "").startswith("framefold"):
            names = [*(node.module or "").split("."), *(alias.name for alias in node.names)]
        elif isinstance(node, ast.Call):
            match node:
                case ast.Call(
                    func=ast.Name(id="getattr" | "hasattr" | "setattr"),
                    args=[_, ast.Constant(value=str(asked)), *_],
                ):
                    names = [asked]
        found += [
            (node.lineno, name)
            for name in names
            if name.startswith("_") and not name.startswith("__")
        ]
    return found


class Sample:
    """Found by its name, and sent by its code."""

    def answer(self) -> int:
        """The answer."""
        return 42


def function(number: int) -> int:
    """Found by its name, and sent by its code."""
    return number + 1
