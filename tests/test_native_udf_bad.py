"""Functions that others compiled, and that do what they should not."""

from __future__ import annotations

import gc
import os
import sys
import types
import weakref
from typing import Any

import ctypes_plugin
import numpy as np
import pytest
from ctypes_plugin import NAV, SIG, SINGLE, Plugin, crash, fail_with, never_return
from process_cases import hard_limit  # noqa: F401 - a fixture
from shared_contexts import shared

import framefold as ff
from framefold.exceptions import (
    InvalidArgumentError,
    UDFError,
    WorkerError,
    WorkerTimeoutError,
)
from framefold.executor.processes import ProcessJobExecutor

pytestmark = pytest.mark.usefixtures("hard_limit")

DATA = np.ones((2, 3, 4, 5), np.uint8)


def run(function: Any, ctx: ff.Context | None = None) -> Any:
    ctx = ctx or ff.Context.make_with("inline")
    dataset = ctx.load("memory", data=DATA, sig_dims=2, num_partitions=3)
    return ctx.run_udf(dataset=dataset, udf=function)


def test_a_crash_ends_a_worker_alone():
    with ff.Context.make_with("processes", cpus=2) as ctx:
        assert os.getpid() not in run(Plugin(), ctx)["pid"].data
        assert "worker processes" in ctx.explain(
            ctx.load("memory", data=DATA, sig_dims=2), Plugin()
        )
        with pytest.raises(WorkerError, match="SIGSEGV"):
            run(Plugin(crash), ctx)
        assert os.getpid() not in run([Plugin(), ff.SumUDF()], ctx)[0]["pid"].data
    with ff.Context.make_with("auto", cpus=2) as ctx:
        assert set(run(Plugin(), ctx)["pid"].data.flat) == {os.getpid()}


def test_what_never_returns_ends_by_a_timeout():
    with (
        ff.Context(executor=ProcessJobExecutor(1, timeout=1.0)) as ctx,
        pytest.raises(WorkerTimeoutError, match="partition 0 took longer than timeout=1"),
    ):
        run(Plugin(never_return), ctx)


@pytest.mark.parametrize(
    ("bad", "words"),
    [
        (fail_with(b"\xff\xfe!"), "\ufffd\ufffd!"),
        (fail_with(None, 7), "it failed and did not say why"),
        (fail_with(b""), "it failed and did not say why"),
        (lambda *_: 2, "it panicked and did not say why"),
        (lambda *_: -9, "it returned the unknown status -9"),
        (lambda *_: 3, "it returned FF_CANCELLED, but the run was not cancelled"),
    ],
)
def test_whatever_it_says_is_an_error_with_its_name(bad, words):
    with pytest.raises(UDFError, match="in_ctypes: ") as caught:
        run(Plugin(bad))
    assert words in str(caught.value)


@pytest.mark.parametrize("kind", [NAV, SIG, SINGLE])
def test_shapes_that_cannot_be(kind):
    for extra in ((2**62, 8), (2**45,)):
        with pytest.raises(MemoryError, match=r"the largest is 'pid' of in_ctypes"):
            run(Plugin(kind=kind, extra=extra))
    with pytest.raises(InvalidArgumentError, match="in_ctypes: the buffer 'pid' has 65 extra axes"):
        run(Plugin(kind=kind, extra=(1,) * 65))


@pytest.mark.parametrize("executor", ["processes", "dask"])
def test_a_worker_without_the_module_says_so(executor, monkeypatch):
    module = types.ModuleType("only_on_this_side")
    module.Plugin = type("Plugin", (Plugin,), {"__module__": module.__name__})
    monkeypatch.setitem(sys.modules, module.__name__, module)
    with (
        shared(executor, cpus=1) as ctx,
        pytest.raises(ModuleNotFoundError, match="No module named 'only_on_this_side'") as caught,
    ):
        run(module.Plugin(), ctx)
    assert "worker" in "".join(caught.value.__notes__)


def test_no_entries_are_a_shape():
    for kind in (NAV, SIG, SINGLE):
        assert run(Plugin(kind=kind, extra=(0,)))["pid"].data.size == 0


def test_a_run_keeps_its_function():
    gone = []

    def look(_plugin: Any, _host: Any) -> int:
        gc.collect()
        gone.append(there() is None)
        return 0

    functions = [Plugin(look)]
    there = weakref.ref(functions[0])
    run(functions.pop())
    assert gone == [False] * 3
    gc.collect()
    assert there() is None


def test_tables_say_their_size_as_the_header_does():
    # Else the tests of this file were about nothing.
    assert ctypes_plugin.ctypes.sizeof(ctypes_plugin.Table) == 128


class Odd(Plugin):
    called = "../ein Täfelchen/\n".encode()


def test_odd_names_are_no_paths(tmp_path):
    results = run([Odd(), Odd()])
    assert "../ein Täfelchen/" in repr(results[0]["pid"])
    with np.load(results.save(tmp_path / "x.npz")) as file:
        assert {"___ein_Täfelchen__/pid", "___ein_Täfelchen___2/pid"} <= set(file)
    assert [path.name for path in tmp_path.iterdir()] == ["x.npz"]
