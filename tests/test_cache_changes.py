"""Results that a context keeps are not given for another run: whatever has changed."""

from __future__ import annotations

import functools
import os
import sys
import textwrap
import types

import numpy as np
import pytest
from cache_cases import Above, Runs, aux, load, settled
from out_cases import NAV, SIG, assert_same, frames, in_file

import framefold as ff
from framefold.exceptions import UnsupportedError
from framefold.io.corrections import CorrectionSet
from framefold.udf import UDF
from framefold.udf.FEM import FEMUDF

if sys.platform == "win32":
    pytest.skip("files that are open cannot be changed here", allow_module_level=True)


@pytest.fixture
def ctx():
    return ff.Context("inline")


@pytest.fixture
def runs(monkeypatch):
    return Runs(monkeypatch)


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


class Doubled(Above):
    """A threshold that follows from a dict."""

    def __init__(self, model, threshold=None, seen=None, table=None, aux=None):
        if model["level"] != seen:
            threshold = 2 * model["level"]
        UDF.__init__(
            self, model=model, threshold=threshold, seen=model["level"], table=table, aux=aux
        )


def test_parameters_that_follow_from_a_dict(ctx, tmp_path, runs):
    dataset, model = load(ctx, tmp_path), {"level": 2}
    udf = Doubled(model)
    for model["level"], n_runs in ((2, 1), (3, 1), (3, 0), (2, 0)):
        n, found = runs.during(lambda: ctx.run_udf(dataset, udf, cache=True))
        assert n == n_runs
        assert udf.params.threshold == 2 * model["level"]
        expected = ctx.run_udf(dataset, Above(2 * model["level"]))
        assert_same(found, expected)


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
    in_file(ctx, tmp_path)
    settled(tmp_path / "scan.raw", -60)  # however long the runs take
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
    import enum
    import functools

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

    class Mode(enum.Enum):
        FAST = 1

        @property
        def level(self):
            return self.value

    class Cached:
        @functools.lru_cache
        def __call__(self):
            return 1

    class Kind(type):
        level = 1

    class OfKind(metaclass=Kind):
        pass

    def levels():
        return Mode.FAST.level + Cached()() + OfKind.level

    class Mine(ff.UDF):
        def get_result_buffers(self):
            return {"x": self.buffer("nav", dtype="float64")}

        def process_frame(self, frame):
            self.results.x[:] = helper(frame) * LEVEL + TABLE[0] + Config.offset + levels()

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
    "an attribute of its class": "Kind.level = 100",
    "a property of an Enum": """
        class Mode(enum.Enum):
            FAST = 1

            @property
            def level(self):
                return 100
    """,
    "a call with a cache": """
        class Cached:
            @functools.lru_cache
            def __call__(self):
                return 100
    """,
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


def test_code_that_hides_behind_a_cache(ctx, tmp_path, notebook):
    notebook.helper = functools.wraps(np.sum)(functools.cache(lambda frame: 1))
    with pytest.raises(UnsupportedError, match=r"'sum' of functools\.cache, which hides"):
        ctx.run_udf(load(ctx, tmp_path), notebook.Mine(), cache=True)


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


def test_attributes_of_objects_of_framefold(ctx, tmp_path, runs):
    dataset, udf = load(ctx, tmp_path), FEMUDF(center=(3, 4), rad_in=0, rad_out=3)
    before = ctx.run_udf(dataset, udf, cache=True)["intensity"].data
    udf.get_results = lambda: {"intensity": 2 * udf.results.intensity}
    after = ctx.run_udf(dataset, udf, cache=True)["intensity"].data
    np.testing.assert_array_equal(after, 2 * before)
    ctx.run_udf(dataset, udf, cache=True)
    assert runs.n == 2
