"""Runs that were killed or failed, and go on: the same bits as one that was not."""

from __future__ import annotations

import importlib
import json
import os
import random
import signal
import subprocess
import sys
import textwrap
import threading
import types

import numpy as np
import pytest
from out_cases import (
    NAV,
    SIG,
    Breaks,
    Mixed,
    Wave,
    assert_same,
    contexts,
    in_file,
    in_memory,
    left_in,
)

import framefold as ff
from framefold.exceptions import BadFileError, InvalidArgumentError, UnsupportedError
from framefold.udf import UDF

RECORD = ".x.zarr.framefold-record"
PART = ".x.zarr.framefold-part"


@pytest.fixture(scope="module", params=list(contexts()))
def ctx(request):
    with contexts()[request.param]() as context:
        yield context


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "own").mkdir()
    (tmp_path / "data").mkdir()
    return tmp_path


def broken(ctx, folder, out="own/x.zarr", roi=None, **kwargs):
    """A run that fails, and what it was over."""
    dataset = in_file(ctx, folder / "data")
    (folder / "break").touch()
    out = folder / out if isinstance(out, str) else out
    with pytest.raises(ZeroDivisionError) as caught:
        ctx.run_udf(dataset, Breaks(folder, **kwargs), roi=roi, out=out)
    assert any("resume=True goes on there" in note for note in caught.value.__notes__)
    (folder / "break").unlink()
    return dataset


def seen(folder):
    """The frames that were processed since this was asked."""
    path = folder / "seen"
    found = set(map(int, path.read_text().split()))
    path.unlink()
    return found


@pytest.mark.parametrize("roi", [None, np.arange(126).reshape(NAV) % 7 != 3], ids=["all", "some"])
def test_a_run_that_failed_goes_on(ctx, folder, roi):
    dataset = broken(ctx, folder, roi=roi)
    assert left_in(folder / "own") == [PART, RECORD]
    n = json.loads((folder / "own" / RECORD).read_text())["partitions"]
    assert 0 < n < 8
    plan = ctx._prepare(dataset, Breaks(folder), roi).plan
    seen(folder)
    found = ctx.run_udf(dataset, Breaks(folder), roi=roi, out=folder / "own/x.zarr", resume=True)
    assert min(seen(folder)) == plan.partitions()[n][0] > 0
    assert left_in(folder / "own") == ["x.zarr"]
    assert_same(found, ctx.run_udf(dataset, Breaks(folder), roi=roi))
    whole = folder / "own/whole.zarr"
    ctx.run_udf(dataset, Breaks(folder), roi=roi, out=whole)
    for name in ("x/c/0/0/0/0", "n/c/0/0"):
        assert (whole / name).read_bytes() == (folder / "own/x.zarr" / name).read_bytes()


def test_several_files_go_on_together(ctx, folder):
    out = {"x": folder / "own/x.npy", "n": folder / "own/n.zarr"}
    dataset = broken(ctx, folder, out)
    assert len(left_in(folder / "own")) == 4
    record = folder / "own/.n.zarr.framefold-record"
    about = json.loads(record.read_text())
    # One that is behind decides.
    about["partitions"], about["positions"] = (
        1,
        ctx._prepare(dataset, Breaks(folder), None).partitions[0][1],
    )
    record.write_text(json.dumps(about))
    seen(folder)
    found = ctx.run_udf(dataset, Breaks(folder), out=out, resume=True)
    assert min(seen(folder)) == about["positions"]
    assert_same(found, ctx.run_udf(dataset, Breaks(folder)))
    assert left_in(folder / "own") == ["n.zarr", "x.npy"]


def test_names_that_are_not_of_utf_8(tmp_path):
    folder = tmp_path / "\udcff"
    try:
        (folder / "data").mkdir(parents=True)
    except OSError:
        pytest.skip("there are no such names here")
    ctx = ff.Context("inline")
    out = {"x": folder / "x\udcff.npy", "n": folder / "n.zarr"}
    dataset = broken(ctx, folder, out)
    found = ctx.run_udf(dataset, Breaks(folder), out=out, resume=True)
    assert_same(found, ctx.run_udf(dataset, Breaks(folder)))
    about = json.loads((folder / "n.zarr/zarr.json").read_text())["attributes"]
    assert "\\udcff" in about["data_set"][0]


def test_a_file_that_lost_its_record_begins_anew_and_so_do_all(ctx, folder):
    out = {"x": folder / "own/x.npy", "n": folder / "own/n.zarr"}
    dataset = broken(ctx, folder, out)
    (folder / "own/.n.zarr.framefold-record").unlink()
    seen(folder)
    found = ctx.run_udf(dataset, Breaks(folder), out=out, resume=True)
    assert min(seen(folder)) == 0
    assert_same(found, ctx.run_udf(dataset, Breaks(folder)))
    assert left_in(folder / "own") == ["n.zarr", "x.npy"]


class Both(Breaks):
    """Two results of the same shape and dtype."""

    def get_result_buffers(self):
        return {name: self.buffer(kind="nav", dtype="int32") for name in ("x", "n")}

    def process_frame(self, frame):
        at = int(self.meta.slice.origin[0])
        if at == 60 and os.path.exists(f"{self.params.folder}/break"):
            raise ZeroDivisionError("in the middle")
        self.results.x[:], self.results.n[:] = at, -at


@pytest.mark.parametrize(
    "places", [("x.npy", "n.npy"), ("x.zarr", "n.zarr"), ("1/x.npy", "2/x.npy")]
)
def test_each_file_gets_the_result_that_it_had(folder, places):
    ctx, (x, n) = ff.Context("inline"), (folder / place for place in places)
    x.parent.mkdir(exist_ok=True)
    n.parent.mkdir(exist_ok=True)
    dataset = in_file(ctx, folder / "data")
    (folder / "break").touch()
    with pytest.raises(ZeroDivisionError):
        ctx.run_udf(dataset, Both(folder), out={"x": x, "n": n})
    (folder / "break").unlink()
    with pytest.raises(
        InvalidArgumentError, match=r"other results to .*\['n'\] there, \['x'\] here"
    ):
        ctx.run_udf(dataset, Both(folder), out={"x": n, "n": x}, resume=True)
    found = ctx.run_udf(dataset, Both(folder), out={"n": n, "x": x}, resume=True)
    assert np.array_equal(found["x"].data.reshape(-1), np.arange(126))
    assert np.array_equal(found["n"].data.reshape(-1), -np.arange(126))


def test_resuming_what_is_not_there_begins(ctx, folder):
    dataset = in_file(ctx, folder / "data")
    out = folder / "own/x.zarr"
    found = ctx.run_udf(dataset, Breaks(folder), out=out, resume=True)
    assert_same(found, ctx.run_udf(dataset, Breaks(folder)))
    with pytest.raises(InvalidArgumentError, match=r"x\.zarr.* output exists"):
        ctx.run_udf(dataset, Breaks(folder), out=out, resume=True)


def test_a_new_run_replaces_what_was_left(folder):
    ctx = ff.Context("inline")
    dataset = broken(ctx, folder)
    seen(folder)
    found = ctx.run_udf(dataset, Breaks(folder), out=folder / "own/x.zarr")
    assert len(seen(folder)) == 126
    assert_same(found, ctx.run_udf(dataset, Breaks(folder)))
    assert left_in(folder / "own") == ["x.zarr"]
    broken(ctx, folder, "own/other.zarr")
    found["x"].save(folder / "own/other.zarr")
    assert left_in(folder / "own") == ["other.zarr", "x.zarr"]


def changed():
    """The same class after a change of its code."""

    def process_frame(self, frame):
        self.results.x[:] = np.sqrt(frame) + 1

    own = {**vars(Breaks), "process_frame": process_frame}
    own = {name: own[name] for name in ("__init__", "get_result_buffers", "process_frame")}
    names = {"__module__": Breaks.__module__, "__qualname__": Breaks.__qualname__}
    # What ``super()`` without arguments refers to is the class that was written down.
    own["__init__"] = lambda self, folder, factor=1: UDF.__init__(
        self, folder=str(folder), factor=factor
    )
    return type("Breaks", (UDF,), {**own, **names})


def test_another_run_is_not_gone_on_with(folder):
    ctx = ff.Context("inline")
    dataset = broken(ctx, folder)
    out, before = folder / "own/x.zarr", (folder / "own" / RECORD).read_bytes()
    roi = np.arange(126).reshape(NAV) % 2 == 0
    cut = in_file(ctx, folder / "data", num_partitions=2)  # three are merged
    for what, run in {
        "parameter 'factor' of Breaks": lambda **how: ctx.run_udf(
            dataset, Breaks(folder, 2), **how
        ),
        "ROI": lambda **how: ctx.run_udf(dataset, Breaks(folder), roi=roi, **how),
        "code of Breaks": lambda **how: ctx.run_udf(dataset, changed()(folder), **how),
        "data set": lambda **how: ctx.run_udf(cut, Breaks(folder), **how),
        "changes of the data set": lambda **how: ctx.run_udf(
            dataset.pipe(ff.Crop(np.s_[0:10, 0:12])), Breaks(folder), **how
        ),
    }.items():
        with pytest.raises(
            InvalidArgumentError, match=r"was another one: the .* differs"
        ) as caught:
            run(out=out, resume=True)
        assert f"the {what} differs" in str(caught.value)
        assert "leave resume=True out" in str(caught.value)
        assert left_in(folder / "own") == [PART, RECORD]
    assert (folder / "own" / RECORD).read_bytes() == before
    assert_same(
        ctx.run_udf(dataset, Breaks(folder), out=out, resume=True),
        ctx.run_udf(dataset, Breaks(folder)),
    )


def test_values_that_keep_state_out_of_their_attributes_differ():
    described = importlib.import_module("framefold.run.described").described
    assert described(random.Random(3)) == described(random.Random(3))
    assert described(random.Random(3)) != described(random.Random(4))
    rng = np.random.default_rng
    assert described(rng(1)) == described(rng(1)) != described(rng(2))
    with pytest.raises(UnsupportedError, match="lock"):
        described(threading.Lock())


FIRST = """
    import enum, functools, types
    import numpy as np
    import framefold as ff

    LEVEL = 1

    def helper(x):
        return inner(x) if x else recursive(x)

    def inner(x):
        return x + LEVEL

    def recursive(x):
        return helper(x) + Config.level

    class Config:
        level = 3

    class Model:
        def __init__(self):
            self.level, self.own = 1, None
        def __call__(self, x):
            return x * self.level

    class Kind(enum.Enum):
        A = 1

    class Own(np.ndarray):
        pass

    class State:
        # As tensors, whose numbers are not among their attributes.
        __slots__ = "_value", "__dict__"
        def __init__(self, value):
            self._value = value
        def __reduce_ex__(self, protocol):
            return State, (self._value,)

    @functools.lru_cache
    def cached(x):
        return x + 1

    class Scaled(ff.Transform):
        def process_frame(self, frame, out):
            out[:] = frame * LEVEL

    def masked(mask):
        return np.ma.MaskedArray([1, 2], mask=mask)

    def own_array(**kwargs):
        array = np.zeros(3).view(Own)
        vars(array).update(kwargs)
        return array
"""

DIFFERENT = {
    "a number of the module": ("helper", "LEVEL = 1", "LEVEL = 2"),
    "code of a function that is called": ("helper", "return x + LEVEL", "return x - LEVEL"),
    "a class that is referred to": ("helper", "level = 3", "level = 4"),
    "the class of an object": ("Model()", "x * self.level", "x / self.level"),
    "a method of an object": ("Model().__call__", "x * self.level", "x / self.level"),
    "a partial": ("functools.partial(helper, 3)", "LEVEL = 1", "LEVEL = 2"),
    "a member of an enumeration": ("(lambda: Kind.A)", "A = 1", "A = 2"),
    "a function whose results are cached": ("cached", "x + 1", "x + 2"),
    "a stage": ("Scaled()", "frame * LEVEL", "frame + LEVEL"),
}
VALUES = {
    "masks of arrays": ("masked([0, 1])", "masked([1, 0])"),
    "names of fields": ("np.zeros(2, 'f4,f4')", "np.zeros(2, [('x', 'f4'), ('y', 'f4')])"),
    "types of numbers": ("np.float32(1)", "np.float64(1)"),
    "attributes of arrays": ("own_array(unit='m')", "own_array(unit='s')"),
    "what is pickled in another way": ("State(1)", "State(2)"),
    "methods of objects": ("{1: 2}.get", "{1: 3}.get"),
    "methods of random generators": (
        "np.random.default_rng(1).random",
        "np.random.default_rng(2).random",
    ),
    "the order of a dict": ("{'a': 1, 'b': 2}", "{'b': 2, 'a': 1}"),
    "defaults": ("lambda x=1: x", "lambda x=2: x"),
    "attributes": ("types.SimpleNamespace(x=1)", "types.SimpleNamespace(x=2)"),
}


def of_module(monkeypatch, text, value):
    module = types.ModuleType("a_module_of_users")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    exec(textwrap.dedent(text), vars(module))
    described = importlib.import_module("framefold.run.described").described
    found = described(eval(value, vars(module)))
    assert found == described(eval(value, vars(module)))
    return found


@pytest.mark.parametrize("what", [*DIFFERENT, *VALUES])
def test_what_differs_is_described_differently(monkeypatch, what):
    if what in DIFFERENT:
        value, before, after = DIFFERENT[what]
        assert before in FIRST
        others = [(FIRST.replace(before, after), value), (FIRST, value)]
    else:
        value, other = VALUES[what]
        others = [(FIRST, other), (FIRST, value)]
    first = of_module(monkeypatch, FIRST, value)
    assert of_module(monkeypatch, *others[0]) != first
    # The same in a module that was loaded again.
    assert of_module(monkeypatch, *others[1]) == first


def test_what_cannot_be_compared_is_named(monkeypatch):
    text = """
import sys, threading
from collections import UserDict

LOCK = threading.Lock()
f = lambda: LOCK
file = sys.stdout

class Odd(UserDict):
    def __getattr__(self, name):
        raise KeyError(name)

Odd = Odd()
"""
    for value, words in (
        ("f", r"a_module_of_users.<lambda> uses 'LOCK', a lock"),
        ("[iter, file]", "TextIOWrapper|EncodedFile|cannot be compared"),
        ("(lambda x: (yield x))(3)", "a generator, which cannot be compared"),
        ("lambda: Odd", "a function, or what it refers to, cannot be looked at: KeyError"),
    ):
        with pytest.raises(UnsupportedError, match=words):
            of_module(monkeypatch, text, value)


def test_a_file_that_was_replaced_underneath(folder):
    ctx = ff.Context("inline")
    broken(ctx, folder)
    path = folder / "data/scan.raw"
    data = bytearray(path.read_bytes())
    data[1000] ^= 1
    path.unlink()
    path.write_bytes(data)
    dataset = in_file(ctx, folder / "data")
    with pytest.raises(BadFileError, match=r"not the one that .* was begun with") as caught:
        ctx.run_udf(dataset, Breaks(folder), out=folder / "own/x.zarr", resume=True)
    assert "scan.raw" in str(caught.value)
    assert left_in(folder / "own") == [PART, RECORD]


@pytest.mark.skipif(sys.platform != "linux", reason="needs to know whose disk it is")
@pytest.mark.parametrize("what", ["removed", "changed", "added"])
def test_chunks_that_were_replaced_underneath(folder, what):
    """Files of chunks of a Zarr array, whose description stays as it was."""
    ctx = ff.Context("inline")
    path = folder / "data/scan.zarr"
    options = {"chunks": (1, 1, *SIG), "compression": "none", "zarr_format": 2}
    ctx.export_dataset(in_memory(ctx), path, **options)
    chunks = sorted(file for file in path.rglob("*") if file.name.isdigit() and file.is_file())
    assert len(chunks) == 126
    if what == "added":
        os.rename(chunks[3], folder / "chunk")
    (folder / "break").touch()
    out = folder / "own/x.zarr"
    with pytest.raises(ZeroDivisionError):
        ctx.run_udf(ctx.load("zarr", path, num_partitions=8), Breaks(folder), out=out)
    (folder / "break").unlink()
    if what == "removed":
        chunks[3].unlink()
    elif what == "changed":
        os.utime(chunks[3], (1e9, 1e9))
    else:
        os.rename(folder / "chunk", chunks[3])
    dataset = ctx.load("zarr", path, num_partitions=8)
    words = r"not the one that .* was begun with: .*scan\.zarr.* files of chunks"
    with pytest.raises(BadFileError, match=words):
        ctx.run_udf(dataset, Breaks(folder), out=out, resume=True)
    assert left_in(folder / "own") == [PART, RECORD]
    found = ctx.run_udf(dataset, Breaks(folder), out=out)
    assert_same(found, ctx.run_udf(dataset, Breaks(folder)))


BROKEN = {
    "no JSON": lambda text: text[:-40],
    "empty": lambda text: "",
    "another object": lambda text: "[1, 2]",
    "too far": lambda text: text.replace('"partitions": ', '"partitions": 9'),
    "behind its beginning": lambda text: text.replace('"positions": ', '"positions": -'),
}


@pytest.mark.parametrize("how", BROKEN)
def test_records_that_are_broken(folder, how):
    ctx = ff.Context("inline")
    dataset = broken(ctx, folder)
    record = folder / "own" / RECORD
    record.write_text(BROKEN[how](record.read_text()))
    with pytest.raises(BadFileError, match=r"cannot be read .* leave resume=True out"):
        ctx.run_udf(dataset, Breaks(folder), out=folder / "own/x.zarr", resume=True)
    found = ctx.run_udf(dataset, Breaks(folder), out=folder / "own/x.zarr")
    assert_same(found, ctx.run_udf(dataset, Breaks(folder)))
    assert left_in(folder / "own") == ["x.zarr"]


def test_a_part_that_is_shorter_than_its_record_says(folder):
    ctx = ff.Context("inline")
    dataset = broken(ctx, folder)
    os.truncate(folder / "own" / PART / "x/c/0/0/0/0", 1000)
    with pytest.raises(BadFileError, match="has 1000 bytes, and its record says"):
        ctx.run_udf(dataset, Breaks(folder), out=folder / "own/x.zarr", resume=True)


def test_runs_that_cannot_be_resumed(folder):
    ctx = ff.Context("inline")
    dataset, out = in_file(ctx, folder / "data"), folder / "own/x.zarr"
    for run, why in (
        (lambda: ctx.run_udf(dataset, Mixed(), out=out, resume=True), "'total' does not"),
        (
            lambda: ctx.run_udf(dataset, [Wave(), ff.SumUDF()], out=out, resume=True),
            "'SumUDF/intensity' does not",
        ),
        (
            lambda: ctx.run_udf(dataset, Wave(), out={"wave": out}, resume=True),
            "'spot' does not",
        ),
        (lambda: ctx.run_udf(in_memory(ctx), Wave(), out=out, resume=True), "in files"),
    ):
        with pytest.raises(UnsupportedError, match="resume=True is not for this run") as caught:
            run()
        assert why in str(caught.value)
    assert left_in(folder / "own") == []


def test_one_run_at_a_time(folder):
    ctx = ff.Context("threads")
    dataset, out = in_file(ctx, folder / "data"), folder / "own/x.zarr"
    messages = []

    class Meanwhile(UDF):
        def get_result_buffers(self):
            return {"x": self.buffer(kind="nav")}

        def process_frame(self, frame):
            if self.meta.slice.origin[0] == 0:
                for resume in (False, True):
                    with pytest.raises(InvalidArgumentError) as caught:
                        ff.Context("inline").run_udf(dataset, Wave(), out=out, resume=resume)
                    messages.append(str(caught.value))

    ctx.run_udf(dataset, Meanwhile(), out=out)
    assert len(messages) == 2
    assert all("another run is writing it" in message for message in messages)


KILLED = """
    import json, os, signal, sys, time
    import numpy as np
    import framefold as ff
    from framefold.udf import UDF
    from framefold.udf.reduction import ReductionUDF

    folder, executor, kind = sys.argv[1:]
    os.environ.setdefault("MAIN", str(os.getpid()))

    def merged():
        try:
            with open(folder + "/own/.x.zarr.framefold-record") as file:
                return json.load(file)["partitions"]
        except FileNotFoundError:
            return 0

    class Root(UDF):
        def get_result_buffers(self):
            return {"x": self.buffer(kind="nav", extra_shape=(10, 12), dtype="float32")}

        def process_frame(self, frame):
            at = int(self.meta.slice.origin[0])
            with open(folder + "/seen", "a") as seen:
                seen.write(f"{at}\\n")
            if os.environ.get("KILL"):
                # Long enough for a record; then the main process is killed.
                time.sleep(0.05)
                if at >= 100 and merged():
                    os.kill(int(os.environ["MAIN"]), signal.SIGKILL)
            self.results.x[:] = np.sqrt(frame)

    if __name__ == "__main__":
        with ff.Context.make_with(executor, cpus=2) as ctx:
            dataset = ctx.load(
                "raw", folder + "/data/scan.raw", dtype="uint16", nav_shape=(9, 14),
                sig_shape=(10, 12), num_partitions=40,
            )
            found = ctx.run_udf(dataset, Root(), out=folder + "/own/x.zarr", resume=True)
            expected = np.sqrt(np.fromfile(folder + "/data/scan.raw", "u2"), dtype="f4")
            assert np.array_equal(found["x"].data.reshape(-1), expected)
"""


@pytest.mark.skipif(os.name == "nt", reason="kills as Unix does")
@pytest.mark.parametrize("executor", ["inline", "threads", "processes", "auto"])
def test_a_run_that_was_killed_goes_on(folder, executor):
    in_file(ff.Context("inline"), folder / "data")
    script = folder / "script.py"
    script.write_text(textwrap.dedent(KILLED))
    command = [sys.executable, str(script), str(folder), executor, "raw"]

    def run(**environment):
        environment = {**os.environ, **environment}
        environment.pop("MAIN", None)
        return subprocess.run(command, env=environment, capture_output=True, text=True, timeout=120)

    killed = run(KILL="1")
    assert killed.returncode == -signal.SIGKILL, killed.stderr
    names = left_in(folder / "own")
    assert {PART, RECORD} <= set(names)
    assert "x.zarr" not in names
    n = json.loads((folder / "own" / RECORD).read_text())["partitions"]
    assert n > 0
    seen(folder)
    done = run()
    assert done.returncode == 0, done.stderr
    assert min(seen(folder)) > 0
    assert left_in(folder / "own") == ["x.zarr"]


def test_all_is_there_but_the_name(folder):
    """A run that was killed when all was merged."""
    ctx = ff.Context("inline")
    dataset, out = in_file(ctx, folder / "data"), folder / "own/x.zarr"
    udf = ff.SumSigUDF()
    run = ctx._prepare(dataset, udf, None, to_files=ff.run.asked.asked(out, False, False))
    run.out = ff.run.out.Out(run, ff.run.asked.asked(out, False, False))
    run.driver(None).run()
    run.out.close()
    del run
    assert left_in(folder / "own") == [PART, RECORD]
    found = ctx.run_udf(dataset, udf, out=out, resume=True)
    assert_same(found, ctx.run_udf(dataset, udf))


def test_on_dask(folder):
    pytest.importorskip("distributed")
    with ff.Context.make_with("dask", cpus=2) as ctx:
        dataset = broken(ctx, folder)
        record = json.loads((folder / "own" / RECORD).read_text())
        assert record["partitions"] > 0
        seen(folder)
        found = ctx.run_udf(dataset, Breaks(folder), out=folder / "own/x.zarr", resume=True)
        assert min(seen(folder)) == record["positions"]
        assert_same(found, ctx.run_udf(dataset, Breaks(folder)))
        expected = ctx.run_udf(dataset, [Wave(), ff.SumUDF()])
        found = ctx.run_udf(dataset, [Wave(), ff.SumUDF()], out=folder / "own/y.zarr")
        assert_same(found, expected)
