"""Tracebacks that users see: their call, one line of framefold, and their own code."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
import traceback

import numpy as np
import pytest
from shared_contexts import shared

import framefold as ff
from framefold.common import _tracebacks
from framefold.exceptions import EngineError, InvalidArgumentError

PACKAGE = os.path.dirname(ff.__file__)


class Faulty(ff.UDF):
    """Raises in one of its methods, one call deep."""

    def __init__(self, where):
        super().__init__(where=where)

    def fail(self, where):
        if self.params.where == where:
            raise LookupError("oops")

    def get_result_buffers(self):
        self.fail("get_result_buffers")
        return {"x": self.buffer(kind="nav")}

    def process_frame(self, frame):
        self.fail("process_frame")

    def get_results(self):
        self.fail("get_results")
        return {"x": self.results.x}


WHERE = ["get_result_buffers", "process_frame", "get_results"]


@pytest.fixture(scope="module")
def dataset():
    return ff.Context().load("memory", data=np.ones((4, 4, 3, 3), dtype=np.float32))


def names(error):
    """The functions of a traceback; those of framefold in brackets."""
    lines = traceback.extract_tb(error.__traceback__)
    return [f"[{line.name}]" if line.filename.startswith(PACKAGE) else line.name for line in lines]


def caught(call):
    try:
        call()
    except Exception as error:
        return error
    raise AssertionError("nothing was raised")


@pytest.mark.parametrize("where", WHERE)
@pytest.mark.parametrize("executor", ["inline", "threads"])
def test_of_user_code_it_shows_the_call_and_the_code(dataset, executor, where):
    ctx = ff.Context.make_with(executor)
    seen = names(caught(lambda: ctx.run_udf(dataset, Faulty(where))))
    assert seen == ["caught", "<lambda>", "[run_udf]", where, "fail"]
    steps = caught(lambda: [results[0] for results in ctx.run_udf_iter(dataset, Faulty(where))])
    assert len([name for name in names(steps) if name.startswith("[")]) == 1
    assert names(steps)[-2:] == [where, "fail"]


def test_beside_an_event_loop(dataset):
    later = ff.Context().run_udf(dataset, Faulty("process_frame"), sync=False)
    assert names(caught(lambda: asyncio.run(later)))[-3:] == ["[awaited]", "process_frame", "fail"]


def test_of_worker_processes_it_shows_the_code_there(dataset):
    with shared("processes", cpus=1) as ctx:
        error = caught(lambda: ctx.run_udf(dataset, Faulty("process_frame")))
    assert names(error) == ["caught", "<lambda>", "[run_udf]"]
    text = str(error.__cause__)
    assert text.count("File ") == 2
    assert "in process_frame" in text
    assert "in fail" in text
    assert "partition 0" in text


def test_of_wrong_arguments_it_shows_the_call(dataset):
    ctx = ff.Context()
    for call, name in [
        (lambda: ctx.run_udf(dataset, 3), "run_udf"),
        (lambda: ctx.map(dataset, None), "map"),
        (lambda: ctx.open("not-there.mib"), "open"),
        (lambda: ctx.load("mib", "x", nonsense=1), "load"),
        (lambda: ctx.run_udf_iter(dataset, 3), "run_udf_iter"),
        (lambda: ctx.export_dataset(dataset, "x.unknown"), "export_dataset"),
    ]:
        assert names(caught(call)) == ["caught", "<lambda>", f"[{name}]"]
    # The interpreter itself refuses these.
    assert names(caught(lambda: ctx.run_udf())) == ["caught", "<lambda>"]


def test_mistakes_of_framefold_are_shown_whole(dataset, monkeypatch):
    def broken(*_args, **_options):
        raise failure

    monkeypatch.setattr(ff.api, "plan_run", broken)
    for mistake in (ZeroDivisionError("a mistake"), EngineError("another one")):
        failure = mistake
        seen = names(caught(lambda: ff.Context().run_udf(dataset, ff.SumUDF())))
        assert seen == ["caught", "<lambda>", "[run_udf]", "[_prepare]", "broken"]
    failure = InvalidArgumentError("of the user")
    seen = names(caught(lambda: ff.Context().run_udf(dataset, ff.SumUDF())))
    assert seen == ["caught", "<lambda>", "[run_udf]", "broken"]


def test_a_variable_keeps_it_whole(dataset, monkeypatch):
    ctx = ff.Context.make_with("inline")
    monkeypatch.setenv(_tracebacks.VARIABLE, "1")
    whole = names(caught(lambda: ctx.run_udf(dataset, Faulty("process_frame"))))
    assert whole.index("[run_udf]") < whole.index("[run_to_end]") < whole.index("process_frame")
    assert "[call]" not in whole
    monkeypatch.setenv(_tracebacks.VARIABLE, "0")
    assert len(names(caught(lambda: ctx.run_udf(dataset, Faulty("process_frame"))))) == 5


def test_what_a_script_prints(tmp_path):
    script = tmp_path / "script.py"
    lines = inspect.getsource(Faulty)
    script.write_text(
        f"import framefold as ff\n{lines}\n"
        "ff.Context().run_udf(dataset=ff.example_scan(), udf=Faulty('process_frame'))\n"
    )
    done = subprocess.run(
        [sys.executable, script], capture_output=True, text=True, timeout=60, check=False
    )
    assert done.returncode == 1
    assert done.stderr.count("  File ") == 4
    assert done.stderr.count(PACKAGE) == 1


def test_signatures_and_documentation_stay():
    assert "roi" in inspect.signature(ff.Context.run_udf).parameters
    assert ff.Context.open.__doc__
    assert ff.Context.open.__name__ == "open"
