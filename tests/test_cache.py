"""Results that a context keeps: given again for the same run alone, never for another one."""

from __future__ import annotations

import asyncio
import os
import sys
import textwrap
import threading
import time
import types

import numpy as np
import pytest
from out_cases import NAV, SIG, Mixed, assert_same, contexts, frames, in_file, in_memory

import framefold as ff
from framefold import _engine
from framefold.common.progress import ProgressReporter
from framefold.exceptions import InvalidArgumentError, UnsupportedError
from framefold.io.corrections import CorrectionSet
from framefold.run import kept
from framefold.udf import UDF
from framefold.viz.base import Live2DPlot

if sys.platform == "win32":
    pytest.skip("files that are open cannot be changed here", allow_module_level=True)


@pytest.fixture(params=list(contexts()))
def anywhere(request):
    with contexts()[request.param]() as context:
        yield context


@pytest.fixture
def ctx():
    return ff.Context("inline")


def settled(path, age=60):
    """Files that were not written just now."""
    then = time.time() - age
    for each in [path, *path.rglob("*")] if path.is_dir() else [path]:
        os.utime(each, (then, then))


def load(ctx, folder, **kwargs):
    path = folder / "scan.raw"
    if not path.exists():
        in_file(ctx, folder)
        settled(path)
    return in_file(ctx, folder, **kwargs)


class Runs:
    """Counts runs that process data."""

    def __init__(self, monkeypatch):
        self.n = 0
        driver = ff.run.plan._engine.Driver

        def counted(*args, **kwargs):
            self.n += 1
            return driver(*args, **kwargs)

        fake = types.SimpleNamespace(**{**vars(_engine), "Driver": counted})
        monkeypatch.setattr(ff.run.plan, "_engine", fake)

    def during(self, work):
        before = self.n
        result = work()
        return self.n - before, result


@pytest.fixture
def runs(monkeypatch):
    return Runs(monkeypatch)


class Above(UDF):
    """A threshold, a table, and AUX data."""

    def __init__(self, threshold=5, table=None, aux=None):
        super().__init__(threshold=threshold, table=table, aux=aux)

    def get_result_buffers(self):
        return {
            "n": self.buffer("nav", dtype="int64"),
            "total": self.buffer("sig", dtype="float64"),
            "n_frames": self.buffer("single", dtype="int64", use="private"),
        }

    def process_frame(self, frame):
        level = self.params.threshold
        if self.params.table is not None:
            level = level + self.params.table[0]
        if self.params.aux is not None:
            level = level + self.params.aux
        self.results.n[:] = (frame > level).sum()
        self.results.total[:] += frame
        self.results.n_frames[:] += 1

    def merge(self, dest, src):
        dest.n[:] = src.n
        dest.total[:] += src.total
        dest.n_frames[:] += src.n_frames

    def get_results(self):
        return {"total": self.results.total / 2}


def test_the_same_run_is_not_run_again(anywhere, tmp_path, runs):
    ctx, roi = anywhere, np.arange(126).reshape(NAV) % 7 != 3
    for udf, how in (
        (ff.SumUDF(), {}),
        (ff.CoMUDF(cy=4, cx=5, r=3), {"roi": roi}),
        (Above(), {}),
        (Above(table=np.arange(3)), {"roi": roi}),
        ([Above(3), ff.StdDevUDF(), Mixed()], {}),
        (ff.ApplyMasksUDF(lambda: np.ones((2, *SIG))), {}),
    ):
        dataset = load(ctx, tmp_path)
        expected = ctx.run_udf(dataset, udf, **how)
        first, one = runs.during(lambda: ctx.run_udf(dataset, udf, cache=True, **how))  # noqa: B023
        assert first == 1
        # Another data set of the same files is the same.
        dataset = load(ctx, tmp_path)
        again, two = runs.during(lambda: ctx.run_udf(dataset, udf, cache=True, **how))  # noqa: B023
        assert again == 0, udf
        for found in (one, two):
            assert_same(found, expected)
            assert type(found) is type(expected)


def test_only_on_request(ctx, tmp_path, runs):
    dataset = load(ctx, tmp_path)
    ctx.run_udf(dataset, ff.SumUDF(), cache=True)
    assert runs.during(lambda: ctx.run_udf(dataset, ff.SumUDF()))[0] == 1
    assert runs.during(lambda: ff.Context("inline").run_udf(dataset, ff.SumUDF(), cache=True))[0]


def test_what_was_written_into_results_does_not_come_back(ctx, tmp_path, runs):
    dataset = load(ctx, tmp_path)
    expected = ctx.run_udf(dataset, Above())
    for _ in range(3):
        udf = Above()
        found = ctx.run_udf(dataset, udf, cache=True)
        assert_same(found, expected)
        for buffer in found.values():
            buffer.data[...] = 7
            buffer.raw_data[...] = 7
        for array in udf.results.values():
            array[...] = 7
    assert runs.n == 2


def test_objects_know_what_they_know_after_a_run(anywhere, tmp_path, runs):
    dataset, ctx = load(anywhere, tmp_path), anywhere
    roi = np.arange(126).reshape(NAV) % 7 != 3
    for make in (Above, ff.SumSigUDF, lambda: ff.CoMUDF(r=4), lambda: Above(aux=aux())):
        after, hit = make(), make()
        ctx.run_udf(dataset, after, roi=roi, cache=True)
        assert runs.during(lambda: ctx.run_udf(dataset, hit, roi=roi, cache=True))[0] == 0  # noqa: B023
        assert list(hit.results) == list(after.results)
        for name, array in after.results.items():
            assert array.tobytes() == getattr(hit.results, name).tobytes(), name
        assert list(hit.params) == list(after.params)
        assert hit.meta.dataset_shape == after.meta.dataset_shape
        np.testing.assert_array_equal(hit.meta.roi, roi)
        np.testing.assert_array_equal(
            hit.meta.get_valid_nav_mask(), after.meta.get_valid_nav_mask()
        )
        assert (hit.meta.tiling_scheme is None) == (after.meta.tiling_scheme is None)
    assert Above().results.get("n") is None


def aux(value=2.0):
    return UDF.aux_data(np.full(NAV, value), kind="nav", dtype="float64")


# --- What is another run ----------------------------------------------------------------------


def test_parameters(ctx, tmp_path, runs):
    dataset, table = load(ctx, tmp_path), np.array([1, 2, 3])
    data = np.full(NAV, 2.0)
    own_aux = UDF.aux_data(data, kind="nav", dtype="float64")
    udf = Above(table=table)
    results = [
        ctx.run_udf(dataset, each, cache=True)
        for each in (Above(), Above(9), udf, Above(aux=aux()), Above(aux=own_aux))
    ]
    assert runs.n == 4
    assert_same(results[3], results[4])
    # Arrays that are changed in place.
    table[0] = 40
    assert_same(ctx.run_udf(dataset, udf, cache=True), ctx.run_udf(dataset, Above(45)))
    data[:] = 50
    assert own_aux.data[0, 0] == 50
    found = ctx.run_udf(dataset, Above(aux=own_aux), cache=True)
    np.testing.assert_array_equal(found["n"].data, ctx.run_udf(dataset, Above(55))["n"].data)


def test_regions_corrections_and_stages(ctx, tmp_path, runs):
    dataset, udf = load(ctx, tmp_path), ff.SumUDF()
    roi = np.zeros(NAV, bool)
    roi[2:5] = True
    dark = np.full(SIG, 2.0)
    corrections = CorrectionSet(dark=dark)
    shifts = np.ones((*NAV, 2))
    for how in (
        lambda: {},
        lambda: {"roi": roi},
        lambda: {"roi": np.s_[2:5]},
        lambda: {"corrections": corrections},
        lambda: {"dataset": dataset.pipe(ff.Crop(np.s_[1:8, 2:8]))},
        lambda: {"dataset": dataset.pipe(ff.Shift(shifts))},
        lambda: {"dataset": dataset.pipe(corrections)},
        lambda: {"dataset": load(ctx, tmp_path, num_partitions=5)},
    ):
        given = {"dataset": dataset, **how()}
        expected = ctx.run_udf(udf=udf, **given)
        assert_same(ctx.run_udf(udf=udf, cache=True, **given), expected)
        assert_same(ctx.run_udf(udf=udf, cache=True, **given), expected)
    assert runs.n == 8 + 7  # slices are the region
    roi[:] = False
    roi[0, 0] = True
    shifts[:] = 2
    for given in (
        {"dataset": dataset, "roi": roi},
        {"dataset": dataset.pipe(ff.Shift(shifts))},
        {"dataset": dataset, "corrections": CorrectionSet(dark=dark + 1)},
    ):
        expected = ctx.run_udf(udf=udf, **given)
        assert_same(ctx.run_udf(udf=udf, cache=True, **given), expected)


def write(path, data, how):
    if how == "replaced":
        other = path.with_suffix(".new")
        data.tofile(other)
        settled(other)
        other.replace(path)
    else:
        before = os.stat(path)
        with path.open("r+b") as file:
            file.write(data.tobytes())
        if how == "same time":
            os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns))
        else:
            settled(path, 30)


FEWER = pytest.mark.filterwarnings("ignore::framefold.warnings.MissingFramesWarning")


@pytest.mark.parametrize("how", ["replaced", "in place", "same time"])
def test_files_that_change(ctx, tmp_path, how, runs):
    dataset = load(ctx, tmp_path)
    before = ctx.run_udf(dataset, ff.SumUDF(), cache=True)["intensity"].data
    write(tmp_path / "scan.raw", frames() + np.uint16(1), how)
    after = ctx.run_udf(load(ctx, tmp_path), ff.SumUDF(), cache=True)["intensity"].data
    np.testing.assert_array_equal(after, before + 126)
    if how != "same time":
        with pytest.raises(ff.exceptions.FileChangedError):
            ctx.run_udf(dataset, ff.SumUDF(), cache=True)
    assert runs.n == 2


@FEWER
def test_a_file_that_grows(ctx, tmp_path, runs):
    path = tmp_path / "scan.raw"
    whole = frames().reshape(-1, *SIG)
    whole[:100].tofile(path)
    settled(path)
    short = in_file(ctx, tmp_path)
    udf = ff.SumUDF()
    expected = ctx.run_udf(short, udf, cache=True)
    with path.open("ab") as file:
        file.write(whole[100:].tobytes())
    settled(path, 30)
    longer = in_file(ctx, tmp_path)
    found = ctx.run_udf(longer, udf, cache=True)
    np.testing.assert_array_equal(found["intensity"].data, whole.sum(axis=0))
    assert_same(ctx.run_udf(short, udf, cache=True), expected)
    assert runs.n == 3


def test_files_that_were_just_written_are_read_again(ctx, tmp_path, runs):
    """The next write may get the same time."""
    dataset = in_file(ctx, tmp_path)
    for _ in range(2):
        ctx.run_udf(dataset, ff.SumUDF(), cache=True)
    assert runs.n == 2
    assert ctx._kept._entries == {}


class During(UDF):
    """Changes the file while it is read."""

    def __init__(self, path):
        super().__init__(path=str(path))

    def get_result_buffers(self):
        return {"x": self.buffer("nav")}

    def process_frame(self, frame):
        self.results.x[:] = frame.sum()
        os.chmod(self.params.path, 0o640)  # which only the time of the system tells


def test_a_file_that_changes_during_the_run(ctx, tmp_path):
    ctx.run_udf(load(ctx, tmp_path), During(tmp_path / "scan.raw"), cache=True)
    assert ctx._kept._entries == {}


def test_chunks_of_zarr(ctx, tmp_path, runs):
    source, path = load(ctx, tmp_path), tmp_path / "x.zarr"
    ctx.export_dataset(source, path)
    settled(path)
    dataset = ctx.open(path)
    before = ctx.run_udf(dataset, ff.SumUDF(), cache=True)
    assert_same(ctx.run_udf(ctx.open(path), ff.SumUDF(), cache=True), before)
    assert runs.n == 1
    # Files of chunks are opened by name while data are read.
    other = tmp_path / "y.zarr"
    ctx.export_dataset(source.pipe(ff.Flip("y")), other)
    chunks = [p for p in other.rglob("*") if p.is_file() and p.name != "zarr.json"]
    assert chunks
    for chunk in chunks:
        written = path / chunk.relative_to(other)
        written.write_bytes(chunk.read_bytes())
        settled(written, 30)
    after = ctx.run_udf(ctx.open(path), ff.SumUDF(), cache=True)
    assert (after["intensity"].data != before["intensity"].data).any()


NOTEBOOK = """
    import numpy as np
    import framefold as ff

    LEVEL = 5
    TABLE = np.zeros(3)

    def helper(frame):
        return inner(frame)

    def inner(frame):
        return frame.sum()

    class Config:
        offset = 1

    class Mine(ff.UDF):
        def get_result_buffers(self):
            return {"x": self.buffer("nav", dtype="float64")}

        def process_frame(self, frame):
            self.results.x[:] = helper(frame) * LEVEL + TABLE[0] + Config.offset

    class Scaled(ff.Transform):
        def process_frame(self, frame, out):
            out[:] = frame * LEVEL

    @ff.register_format
    class Own:
        name = "own_of_notebook"
        extensions = ("own",)

        @staticmethod
        def open(path, factor: float = 1.0):
            return Source(path, factor)

    class Source:
        dtype, shape, sig = "float32", (9, 14), (10, 12)

        def __init__(self, path, factor):
            self.path, self.factor = path, factor

        def read(self, frames, out):
            data = np.fromfile(self.path, "u2").reshape(-1, 10, 12)
            out[:] = data[np.asarray(frames)] * self.factor
"""


@pytest.fixture
def notebook(request):
    """A module whose cells are run again, as a notebook's are."""
    module = types.ModuleType(f"a_notebook_of_{request.node.name.partition('[')[0]}")
    sys.modules[module.__name__] = module
    exec(textwrap.dedent(NOTEBOOK), vars(module))
    yield module
    del sys.modules[module.__name__]


CELLS = {
    "the class": """
        class Mine(Mine):
            def process_frame(self, frame):
                self.results.x[:] = -1
    """,
    "a function that it calls": "def helper(frame): return frame.max()",
    "a function that this calls": "def inner(frame): return frame.max()",
    "a number": "LEVEL = 7",
    "an array in place": "TABLE[0] = 3",
    "an attribute of a class": "Config.offset = 100",
}


@pytest.mark.parametrize("cell", CELLS)
def test_code_that_changes(ctx, tmp_path, runs, notebook, cell):
    dataset = load(ctx, tmp_path)
    before = ctx.run_udf(dataset, notebook.Mine(), cache=True)["x"].data
    exec(textwrap.dedent(NOTEBOOK), vars(notebook))  # the same again
    ctx.run_udf(dataset, notebook.Mine(), cache=True)
    assert runs.n == 1
    exec(textwrap.dedent(CELLS[cell]), vars(notebook))
    after = ctx.run_udf(dataset, notebook.Mine(), cache=True)["x"].data
    np.testing.assert_array_equal(after, ctx.run_udf(dataset, notebook.Mine())["x"].data)
    assert (after != before).any()


def test_code_of_stages_and_formats_that_changes(ctx, tmp_path, notebook):
    dataset, udf = load(ctx, tmp_path), ff.SumUDF()
    own = tmp_path / "scan.own"
    own.write_bytes((tmp_path / "scan.raw").read_bytes())
    settled(own)

    def results():
        return [
            ctx.run_udf(dataset.pipe(notebook.Scaled()), udf, cache=True)["intensity"].data,
            ctx.run_udf(ctx.load("own_of_notebook", own), udf, cache=True)["intensity"].data,
        ]

    before = results()
    exec(textwrap.dedent(NOTEBOOK).replace("* LEVEL", "* 2 * LEVEL"), vars(notebook))
    np.testing.assert_array_equal(results()[0], 2 * before[0])
    exec(textwrap.dedent(NOTEBOOK).replace("* self.factor", "* 3"), vars(notebook))
    np.testing.assert_array_equal(results()[1], 3 * before[1])


def test_masks_of_closures_and_lambdas(ctx, tmp_path, runs):
    dataset = load(ctx, tmp_path)
    stack = np.ones((1, *SIG))
    udf = ff.ApplyMasksUDF(lambda: stack)
    before = ctx.run_udf(dataset, udf, cache=True)["intensity"].data
    stack[:] = 3
    after = ctx.run_udf(dataset, udf, cache=True)["intensity"].data
    np.testing.assert_array_equal(after, 3 * before)
    values = [ctx.map(dataset, lambda f, n=n: f.sum() * n, cache=True).data for n in (1, 2, 1)]
    np.testing.assert_array_equal(values[1], 2 * values[0])
    np.testing.assert_array_equal(values[2], values[0])
    assert runs.n == 4


class Learns(UDF):
    """Attributes of the object are used on the main side."""

    factor = 1

    def get_result_buffers(self):
        return {"x": self.buffer("nav")}

    def process_frame(self, frame):
        self.results.x[:] = frame.sum()

    def get_results(self):
        return {"x": self.results.x * self.factor}


def test_attributes_of_objects(ctx, tmp_path, runs):
    dataset, udf = load(ctx, tmp_path), Learns()
    before = ctx.run_udf(dataset, udf, cache=True)["x"].data
    udf.factor = 4
    after = ctx.run_udf(dataset, udf, cache=True)["x"].data
    np.testing.assert_array_equal(after, 4 * before)
    ctx.run_udf(dataset, udf, cache=True)
    assert runs.n == 2


# --- How it is asked for ----------------------------------------------------------------------


def test_the_call_counts_as_a_whole(ctx, tmp_path, runs):
    dataset = load(ctx, tmp_path)
    ctx.run_udf(dataset, [Above(), ff.SumUDF()], cache=True)
    for udf in ([ff.SumUDF(), Above()], [Above(), ff.SumUDF(), ff.SumUDF()], Above()):
        assert runs.during(lambda: ctx.run_udf(dataset, udf, cache=True))[0] == 1  # noqa: B023
    assert runs.during(lambda: ctx.run_udf(dataset, [Above(), ff.SumUDF()], cache=True))[0] == 0


def test_budget(tmp_path, runs):
    ctx = ff.Context("inline", cache_bytes=4 * 126 * 8)
    dataset = load(ctx, tmp_path)

    def took(factor):
        return runs.during(lambda: ctx.map(dataset, lambda f: f.sum() * factor, cache=True))[0]

    assert [took(n) for n in (1, 2, 1, 3, 1)] == [1, 1, 0, 1, 0]
    total = sum(entry.n_bytes for entry in ctx._kept._entries.values())
    assert 0 < total == ctx._kept._n_bytes <= 4 * 126 * 8
    # What was not asked for the longest is gone.
    for n in (5, 6, 7, 8, 9):
        took(n)
    assert took(1) == 1
    # What is larger than all of it is not kept, and nothing goes for it.
    n = len(ctx._kept._entries)
    assert n > 1
    ctx.map(dataset, lambda frame: frame * 1.0, cache=True)
    assert len(ctx._kept._entries) == n
    ctx.clear_cache()
    assert ctx._kept._n_bytes == 0
    assert took(9) == 1
    with pytest.raises(InvalidArgumentError, match="cache_bytes is -1"):
        ff.Context(cache_bytes=-1)
    assert kept.DEFAULT_BYTES == 256 << 20


class Log(ProgressReporter):
    def __init__(self):
        self.states = []

    def start(self, state):
        self.states.append(("start", state.num_frames_complete))

    def update(self, state):
        self.states.append(("update", state.num_frames_complete))

    def end(self, state):
        self.states.append(("end", state.num_frames_complete))


def test_plots_and_progress(ctx, tmp_path, runs):
    shown = []

    class Plot(Live2DPlot):
        def display(self):
            shown.append("display")

        def update(self, damage, force=False):
            shown.append((damage.all(), self.data.copy()))

    ctx.plot_class = Plot
    dataset = load(ctx, tmp_path)
    expected = ctx.run_udf(dataset, ff.SumSigUDF(), plots=True, cache=True)["intensity"].data
    shown.clear()
    log = Log()
    ctx.run_udf(dataset, ff.SumSigUDF(), plots=True, progress=log, cache=True)
    assert runs.n == 1
    assert shown[0] == "display"
    complete, last = shown[-1]
    assert complete
    np.testing.assert_array_equal(last, expected)
    assert log.states == [("start", 0), ("update", 126), ("end", 126)]


def test_beside_an_event_loop(ctx, tmp_path, runs):
    dataset = load(ctx, tmp_path)
    for _ in range(2):
        found = asyncio.run(ctx.run_udf(dataset, Above(), sync=False, cache=True))
        assert_same(found, ctx.run_udf(dataset, Above()))
    assert runs.n == 3


def test_each_pass_is_looked_for(ctx, tmp_path, runs):
    dataset = load(ctx, tmp_path)

    def both(level):
        total = ff.SumSigUDF()
        return [total, Above(level, aux=ff.from_result(total, "intensity", lambda x: x / 1000))]

    expected = ctx.run_udf(dataset, both(3))
    for level, n in ((3, 2), (3, 0), (4, 1)):
        taken, found = runs.during(lambda: ctx.run_udf(dataset, both(level), cache=True))  # noqa: B023
        assert taken == n
        if level == 3:
            assert_same(found, expected)


def test_what_is_refused(ctx, tmp_path):
    dataset = load(ctx, tmp_path)
    for run, error, why in (
        (
            lambda: ctx.run_udf(in_memory(ctx), ff.SumUDF(), cache=True),
            UnsupportedError,
            "in files",
        ),
        (
            lambda: ctx.run_udf(dataset, ff.SumUDF(), out=tmp_path / "x.zarr", cache=True),
            InvalidArgumentError,
            "leave one of them out",
        ),
        (
            lambda: ctx.run_udf(
                dataset, ff.udf.record.RecordUDF(str(tmp_path / "x.npy")), cache=True
            ),
            UnsupportedError,
            "RecordUDF has none",
        ),
        (
            lambda: ctx.run_udf(dataset, Above(table=[LOCK]), cache=True),
            UnsupportedError,
            r"the parameter 'table' of Above cannot be compared",
        ),
        (
            lambda: ctx.map(dataset, lambda frame: frame.sum() + hash(LOCK), cache=True),
            UnsupportedError,
            r"parameter 'f' of AutoUDF .*uses 'LOCK', a lock",
        ),
    ):
        with pytest.raises(error, match=why):
            run()
    pytest.importorskip("dask")
    delayed = ff.Context("delayed")
    with pytest.raises(UnsupportedError, match="a delayed run computes nothing yet"):
        delayed.run_udf(dataset, ff.SumUDF(), cache=True)


LOCK = threading.Lock()


def test_on_dask(tmp_path, runs):
    pytest.importorskip("distributed")
    with ff.Context.make_with("dask", cpus=2) as ctx:
        dataset = load(ctx, tmp_path)
        for _ in range(2):
            assert_same(
                ctx.run_udf(dataset, Above(), cache=True),
                ff.Context("inline").run_udf(dataset, Above()),
            )
    assert runs.n == 3
