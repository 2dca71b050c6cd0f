"""Delayed runs give the results of all others, bit for bit, and compute nothing before."""

import gc
import pickle
import subprocess
import sys
import threading
import weakref
from collections import Counter, OrderedDict, defaultdict, deque
from typing import Any, NamedTuple

import numpy as np
import pytest
from dask_scripts import run_script
from delayed_cases import (
    NAV,
    SIG,
    Everything,
    PerFrame,
    Total,
    assert_same,
    everything,
    same_bits,
    scan,
    some,
)
from known_oddities import POSITIONS_WITHOUT_DATA
from sample_udfs import Level

import framefold as ff
from framefold.exceptions import InvalidArgumentError, UnsupportedError
from framefold.executor.delayed import DelayedJobExecutor
from framefold.executor.utils.dask_buffer import DaskResultBufferWrapper
from framefold.io.corrections import CorrectionSet
from framefold.udf import UDF
from framefold.udf.com import CoMUDF
from framefold.udf.masks import ApplyMasksUDF
from framefold.udf.record import RecordUDF
from framefold.udf.stddev import StdDevUDF

dask = pytest.importorskip("dask", reason="dask is not installed")
da = pytest.importorskip("dask.array", reason="dask.array is not installed")


@pytest.fixture(scope="module")
def inline():
    return ff.Context.make_with("inline")


@pytest.fixture(scope="module")
def ctx():
    return ff.Context(executor=DelayedJobExecutor())


def masks():
    return ApplyMasksUDF(mask_factories=[lambda: np.ones(SIG), lambda: np.eye(*SIG) * 0.3])


def native():
    return [
        ff.SumUDF(),
        ff.SumSigUDF(),
        StdDevUDF(),
        CoMUDF.with_params(cy=5, cx=6),
        ff.PickUDF(),
        masks(),
    ]


def real_only():
    return [ff.LogsumUDF(), ff.MaxUDF(), ff.ReductionUDF("com", flip_y=True)]


def python(data):
    return [PerFrame(), Total(), everything(data), Level(offset=3)]


KINDS = {
    "native": lambda data: native(),
    "one native": lambda data: [ff.SumUDF()],
    "python": python,
    "mixed": lambda data: [*python(data), *native()],
}


#: Few tasks, and no row of the scan ends with a partition.
FEW = {"num_partitions": 5}
CASES = [
    *((kind, dtype, FEW) for kind in KINDS for dtype in ("uint16", "int32", "float32", "float64")),
    *(
        ("mixed", "float32", options)
        for options in (
            {},  # as many as one task merges
            {"num_partitions": 40},
            {"num_partitions": 1},
            {"sync_offset": 3, **FEW},
            {"sync_offset": -5, **FEW},
        )
    ),
]


@pytest.mark.parametrize(("kind", "dtype", "options"), CASES, ids=str)
@pytest.mark.parametrize("roi", [None, some()], ids=["all", "roi"])
@POSITIONS_WITHOUT_DATA
def test_the_same_bits(inline, ctx, kind, dtype, options, roi):
    data = scan(dtype)
    dataset = inline.load("memory", data=data, sig_dims=2, **options)
    udfs = [*KINDS[kind](data), *(real_only() if kind == "native" else [])]
    with np.errstate(all="ignore"):
        expected = inline.run_udf(dataset=dataset, udf=udfs, roi=roi)
        found = ctx.run_udf(dataset=dataset, udf=udfs, roi=roi)
        lazy = [[each.delayed_data for each in of.values()] for of in found]
        raw = [[each.delayed_raw_data for each in of.values()] for of in found]
        lazy_values, raw_values = dask.compute(lazy, raw)
    for udf, mine, other, values, raws in zip(
        udfs, found, expected, lazy_values, raw_values, strict=True
    ):
        assert_same(mine, other, type(udf).__name__)
        for name, full, flat in zip(other, values, raws, strict=True):
            wanted = other[name]
            delayed = mine[name].delayed_data
            assert (delayed.shape, delayed.dtype) == (wanted.data.shape, wanted.data.dtype), name
            assert same_bits(full, wanted.data), name
            assert same_bits(flat, wanted.raw_data), name


@pytest.mark.parametrize("roi", [None, some()], ids=["all", "roi"])
def test_corrected_and_complex_data(inline, ctx, roi):
    corrections = CorrectionSet(dark=np.linspace(0, 9, 120).reshape(SIG))
    for dtype, udfs in (("uint8", native), ("complex64", lambda: [ff.SumUDF(), ff.SumSigUDF()])):
        dataset = inline.load("memory", data=scan(dtype), sig_dims=2)
        for given in (corrections, None):
            run = {"dataset": dataset, "roi": roi, "corrections": given}
            found, expected = ctx.run_udf(udf=udfs(), **run), inline.run_udf(udf=udfs(), **run)
            for udf, mine, other in zip(udfs(), found, expected, strict=True):
                assert_same(mine, other, (dtype, type(udf).__name__))


def test_frames_in_bands_and_sparse_data(inline, ctx):
    sparse = pytest.importorskip("scipy.sparse", reason="scipy is not installed")
    large = np.random.default_rng(2).integers(0, 99, (40, 512, 512), dtype=np.uint16)
    few = sparse.csr_array(scan("uint16").reshape(42, 120) * (scan("uint8").reshape(42, 120) > 190))
    banded = inline.load("memory", data=large, sig_dims=2)
    assert "bands" in inline.explain(banded, ff.SumUDF())
    rows = inline.load("memory", data=few, sig_shape=SIG, nav_shape=NAV)
    for dataset, udfs in (
        (banded, lambda: [ff.SumUDF(), StdDevUDF()]),
        (rows, lambda: [ff.SumUDF(), ff.SumSigUDF(), PerFrame(), masks()]),
    ):
        found, expected = ctx.run_udf(dataset, udfs()), inline.run_udf(dataset, udfs())
        for mine, other in zip(found, expected, strict=True):
            assert_same(mine, other, dataset)


class Counting(UDF):
    """Counts in this process how often frames are processed."""

    seen: list[int] = []  # noqa: RUF012 - shared on purpose
    lock = threading.Lock()

    def get_result_buffers(self):
        return {
            "first": self.buffer(kind="nav"),
            "second": self.buffer(kind="nav"),
            "third": self.buffer(kind="sig"),
        }

    def process_frame(self, frame):
        with self.lock:
            self.seen.append(self.meta.slice.origin[0])

    def merge(self, dest, src):
        dest.first[:] = src.first


def test_nothing_runs_before_it_is_asked_for_and_then_once(ctx):
    dataset = ctx.load("memory", data=scan("uint16"), sig_dims=2, num_partitions=6)
    Counting.seen.clear()
    one, other = ctx.run_udf(dataset=dataset, udf=[Counting(), PerFrame()])
    arrays = [of.delayed_data for of in (*one.values(), *other.values())]
    assert all(isinstance(array, da.Array) for array in arrays)
    assert isinstance(one["first"], DaskResultBufferWrapper)
    assert not Counting.seen
    dask.compute(*arrays)
    assert sorted(Counting.seen) == list(range(42))
    # Looking at one result computes it, once, and what else that UDF has.
    Counting.seen.clear()
    assert "not computed" in repr(one["second"])
    for name in ("first", "second", "third", "first"):
        assert one[name].data.shape in (NAV, SIG)
        assert np.asarray(one[name]).shape in (NAV, SIG)
    assert sorted(Counting.seen) == list(range(42))
    assert "not computed" not in repr(one["second"])
    assert "not computed" in repr(other["total"])


def test_large_results_are_not_computed_along_with_others(ctx, monkeypatch):
    from framefold.executor.utils import dask_buffer

    monkeypatch.setattr(dask_buffer, "TOGETHER", 1000)
    dataset = ctx.load("memory", data=scan("uint16"), sig_dims=2)
    results = ctx.run_udf(dataset=dataset, udf=PerFrame())
    sizes = {name: each.delayed_raw_data.nbytes for name, each in results.items()}
    assert sizes["total"] <= 1000
    assert sizes["corner"] <= 1000
    monkeypatch.setattr(dask_buffer, "TOGETHER", sizes["total"])
    assert results["total"].data.shape == NAV
    assert "not computed" in repr(results["corner"])
    assert "not computed" not in repr(results["names"])


def test_partitions_are_chunks_and_only_those_needed_are_computed(ctx):
    dataset = ctx.load("memory", data=scan("uint16"), sig_dims=2, num_partitions=6)
    Counting.seen.clear()
    results = ctx.run_udf(dataset=dataset, udf=[PerFrame(), Counting()])[0]
    assert results["total"].delayed_raw_data.chunks == ((7,) * 6,)
    assert results["corner"].delayed_raw_data.chunks == ((7,) * 6, (2,), (3,))
    rows = results["total"].delayed_data
    assert rows.chunks == ((1,) * 6, (7,))
    rows[2].compute()
    assert sorted(Counting.seen) == list(range(14, 21))


def test_tasks_for_each_partition_are_one(ctx):
    dataset = ctx.load("memory", data=scan("uint16"), sig_dims=2, num_partitions=6)
    results = ctx.run_udf(dataset=dataset, udf=[PerFrame(), ff.SumUDF(), Total()])
    graph = {}
    for of_udf in results:
        for each in of_udf.values():
            graph.update(each.delayed_data.__dask_graph__())
    processed = [key for key in graph if str(key[0]).startswith("framefold-partition")]
    assert len(processed) == 6


def test_one_run_can_be_computed_twice_with_the_same_bits(ctx):
    dataset = ctx.load("memory", data=scan("float32"), sig_dims=2, num_partitions=40)
    results = ctx.run_udf(dataset=dataset, udf=[Total(), ff.SumUDF(), StdDevUDF()])
    arrays = [each.delayed_data for of in results for each in of.values()]
    first = dask.compute(*arrays, scheduler="threads", num_workers=4)
    second = dask.compute(*arrays, scheduler="sync")
    assert all(same_bits(a, b) for a, b in zip(first, second, strict=True))


class Learning(UDF):
    """What is merged into objects: of a buffer and of the object itself, which are the same."""

    def get_result_buffers(self):
        return {
            "found": self.buffer(kind="single", dtype=object),
            "counts": self.buffer(kind="single", extra_shape=(2,), dtype="int64"),
        }

    def preprocess(self):
        self.results.found[0] = self.seen = []
        self.merge = self._merge

    def process_partition(self, partition):
        self.results.found[0] = [len(partition)]

    def _merge(self, dest, src):
        if dest.found[0] is self.seen:
            self.seen.append(0)
        dest.found[0].extend(src.found[0])
        src.found[0].append("merged")
        dest.counts[0] += 1

    def merge(self, dest, src):
        raise NotImplementedError

    def get_results(self):
        self.results.found[0].append("got")
        return {"found": self.results.found, "counts": [self.results.counts[0], len(self.seen)]}


@pytest.mark.parametrize("scheduler", ["sync", "threads"])
def test_what_preprocess_sets_belongs_to_one_task(ctx, scheduler):
    dataset = ctx.load("memory", data=scan("uint8"), sig_dims=2, num_partitions=20)
    udf = Learning()
    results = ctx.run_udf(dataset=dataset, udf=udf)
    found, counts = (results[name].delayed_data for name in ("found", "counts"))
    udf.seen.append("later")
    for _ in range(2):
        (both,), there = dask.compute(found, counts, scheduler=scheduler)
        assert there.tolist() == counts.compute(scheduler=scheduler).tolist() == [20, 0]
        assert sum(each for each in both if isinstance(each, int)) == 42
        assert both.count(0) == 16  # those that the first task merges
        assert both.count("got") == 1


def test_a_task_leaves_what_it_is_given_as_it_is(ctx):
    from framefold.executor._delayed import tasks

    dataset = ctx.load("memory", data=scan("uint8"), sig_dims=2, num_partitions=20)
    results = ctx.run_udf(dataset=dataset, udf=Learning())
    graph = dict(results["found"].delayed_data.__dask_graph__())
    delayed = next(value for key, value in graph.items() if str(key).startswith("framefold-run"))
    delayed = getattr(delayed, "value", delayed)
    parts = [tasks.process(index, delayed) for index in range(20)]
    before = tasks.merge(0, 0, delayed, None, parts[:16])
    merged = [[*tasks.merge(0, 16, delayed, before, parts[16:])["found"][0]] for _ in range(2)]
    assert merged[0] == merged[1]
    ended = [tasks.finish(0, ["found"], delayed, [[before["found"]]])[0][0][0] for _ in range(2)]
    assert ended[0].count("got") == ended[1].count("got") == 1


def test_negative_zeros_stay_negative(ctx):
    class Signed(PerFrame):
        def preprocess(self):
            self.results.total[:] = 0.0
            self.results.total[::2] = -0.0

        def process_frame(self, frame):
            pass

        def merge(self, dest, src):
            pass

    dataset = ctx.load("memory", data=scan("uint8"), sig_dims=2)
    total = ctx.run_udf(dataset=dataset, udf=Signed())["total"].raw_data
    assert np.signbit(total).tolist() == [True, False] * 21


def test_exceptions_come_back_as_themselves(ctx):
    class Failing(PerFrame):
        def process_frame(self, frame):
            if self.meta.slice.origin[0] == 20:
                raise KeyError("frame 20")

    class FailingAtTheEnd(PerFrame):
        def get_results(self):
            raise ZeroDivisionError("the end")

    class FailingToMerge(Total):
        def merge(self, dest, src):
            raise OSError("no merge")

    dataset = ctx.load("memory", data=scan("uint16"), sig_dims=2, num_partitions=6)
    for udf, kind, note in (
        (Failing(), KeyError, "UDF Failing, partition 2"),
        (FailingAtTheEnd(), ZeroDivisionError, "UDF FailingAtTheEnd, get_results"),
        (FailingToMerge(), OSError, "UDF FailingToMerge, partition 0, merge"),
    ):
        results = ctx.run_udf(dataset=dataset, udf=udf)
        with pytest.raises(kind) as caught:
            _ = next(iter(results.values())).data
        assert any(note in each for each in caught.value.__notes__), caught.value.__notes__


def test_what_has_no_result_runs_at_once(ctx, tmp_path):
    data = scan("uint16")
    dataset = ctx.load("memory", data=data, sig_dims=2)
    ctx.export_dataset(dataset, path=tmp_path / "exported.npy")
    assert np.array_equal(np.load(tmp_path / "exported.npy"), data)
    recorded = tmp_path / "recorded.npy"
    results = ctx.run_udf(dataset, [RecordUDF(recorded), ff.SumUDF()])
    assert np.array_equal(np.load(recorded), data)
    assert np.array_equal(results[1]["intensity"].data, data.sum(axis=(0, 1), dtype="float32"))


def test_partial_results_and_plots(inline, ctx):
    dataset = ctx.load("memory", data=scan("uint16"), sig_dims=2, num_partitions=6)
    steps = list(ctx.run_udf_iter(dataset=dataset, udf=Level()))
    assert len(steps) == 6
    assert_same(steps[-1].buffers[0], inline.run_udf(dataset, Level()), "the last step")
    with pytest.raises(UnsupportedError, match="run_udf_iter"):
        ctx.run_udf(dataset=dataset, udf=ff.SumUDF(), plots=True)


def test_asynchronous_runs(inline, ctx):
    import asyncio

    dataset = ctx.load("memory", data=scan("uint16"), sig_dims=2)

    async def run():
        return await ctx.run_udf(dataset=dataset, udf=Level(), sync=False)

    assert_same(asyncio.run(run()), inline.run_udf(dataset, Level()), "awaited")


def test_other_ways_to_run(inline, ctx):
    dataset = ctx.load("memory", data=scan("uint16"), sig_dims=2)
    for run in (
        lambda c: c.map(dataset, np.sum),
        lambda c: c.run(c.create_sum_analysis(dataset)).intensity.raw_data,
    ):
        assert np.array_equal(np.asarray(run(ctx)), np.asarray(run(inline)))


def test_names_and_options():
    assert isinstance(ff.Context.make_with("delayed").executor, DelayedJobExecutor)
    assert isinstance(DelayedJobExecutor.make_local(), DelayedJobExecutor)
    with pytest.raises(InvalidArgumentError, match="scheduler"):
        ff.Context.make_with("delayed", cpus=2)


def test_explain(ctx):
    dataset = ctx.load("memory", data=scan("uint16"), sig_dims=2, num_partitions=6)
    assert "6 tasks of Dask" in ctx.explain(dataset, ff.SumUDF())


class OnDevice(PerFrame):
    def get_backends(self):
        return self.params.formats


@pytest.mark.parametrize(
    ("formats", "expected"),
    [
        ("numpy", {}),
        (("cupy", "numpy"), {}),
        (("cupy",), {"CUDA": 1, "compute": 1, "ndarray": 1}),
        (("cuda",), {"CUDA": 1, "compute": 1}),
    ],
)
def test_resources(formats, expected):
    get = DelayedJobExecutor.get_resources_from_udfs
    assert get(OnDevice(formats=formats)) == expected
    assert get([ff.SumUDF(), OnDevice(formats=formats)]) == expected
    assert get(ff.SumUDF(), user_backends=("cupy",)) == {"CUDA": 1, "compute": 1, "ndarray": 1}


def test_a_run_that_is_sent_back_is_the_same(ctx):
    from framefold.executor._delayed.tasks import DelayedRun

    dataset = ctx.load("memory", data=scan("uint16"), sig_dims=2)
    delayed = DelayedRun(ctx._prepare(dataset, Everything(gain=1), None))
    assert pickle.loads(pickle.dumps(delayed)) is delayed


def test_results_are_pickled_and_computed_elsewhere(inline, ctx, tmp_path):
    data = scan("uint16")
    dataset = ctx.load("memory", data=data, sig_dims=2, num_partitions=3)
    given, computed = tmp_path / "given", tmp_path / "computed"
    given.write_bytes(pickle.dumps(ctx.run_udf(dataset, everything(data))))
    code = (
        "import pickle, sys\n"
        "with open(sys.argv[1], 'rb') as file:\n"
        "    results = pickle.load(file)\n"
        "first = next(iter(results.values()))\n"
        "assert first.data is not None\n"
        "assert all(each._raw is not None for each in results.values())\n"
        "with open(sys.argv[2], 'wb') as file:\n"
        "    pickle.dump(results, file)\n"
    )
    done = run_script(tmp_path, code, given, computed)
    assert done.returncode == 0, done.stderr
    expected = inline.run_udf(dataset, everything(data))
    assert_same(pickle.loads(computed.read_bytes()), expected, "from another process")


def test_dask_is_only_imported_where_it_is_needed():
    code = (
        "import sys, framefold as ff, numpy as np\n"
        "ctx = ff.Context()\n"
        "ds = ctx.load('memory', data=np.ones((2, 2, 4, 4)))\n"
        "ctx.run_udf(dataset=ds, udf=ff.SumUDF())['intensity'].data\n"
        "import framefold.executor.delayed, framefold.contrib.daskadapter\n"
        "assert 'dask' not in sys.modules\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_without_dask():
    code = (
        "import sys; sys.modules['dask'] = sys.modules['dask.array'] = None\n"
        "import framefold as ff, numpy as np\n"
        "from framefold.contrib.daskadapter import make_dask_array\n"
        "ctx = ff.Context()\n"
        "ds = ctx.load('memory', data=np.ones((2, 2, 4, 4)))\n"
        "for call in (lambda: ff.Context.make_with('delayed'), lambda: make_dask_array(ds),\n"
        "             lambda: ctx.load('dask', None)):\n"
        "    try:\n"
        "        call()\n"
        "    except ImportError as error:\n"
        "        assert 'pip install' in str(error), error\n"
        "    else:\n"
        "        raise AssertionError('it worked')\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_runs_within_a_delayed_one_have_chunks_of_their_own():
    values = np.arange(4 * 2 * 9, dtype=np.float64).reshape(4, 2, 3, 3)
    outer = da.from_array(np.ones((4, 2, 3, 3)), chunks=(2, 2, 3, 3))
    inner = da.from_array(values, chunks=(2, 2, 3, 3))
    roi = np.zeros((4, 2), dtype=bool)
    roi[0, 1] = roi[3, 0] = True

    class Nesting(UDF):
        def get_result_buffers(self):
            return {"sums": self.buffer(kind="nav", extra_shape=(2,), dtype="float64")}

        def process_frame(self, frame):
            with ff.Context.make_with("inline") as within:
                other = within.load("dask", inner, min_size=1)
                all_of_it = within.run_udf(other, ff.SumUDF())["intensity"].data.sum()
                part = within.run_udf(self.params.dataset, ff.SumSigUDF(), roi=self.params.roi)
                self.results.sums[:] = all_of_it, part["intensity"].raw_data.sum()

    with ff.Context.make_with("delayed") as ctx:
        dataset = ctx.load("dask", outer, min_size=1)
        with dask.config.set(scheduler="sync"):
            sums = ctx.run_udf(dataset, Nesting(dataset=dataset, roi=roi))["sums"].data
    np.testing.assert_array_equal(sums.reshape(-1, 2), [[values.sum(), 18]] * 8)


def test_results_are_let_go_without_the_collector():
    with ff.Context.make_with("delayed") as ctx:
        dataset = ctx.load("memory", data=np.ones((4, 2, 3, 3), dtype=np.float32), sig_dims=2)
        gc.collect()
        gc.disable()
        try:
            results = ctx.run_udf(dataset, StdDevUDF())
            known = [weakref.ref(buffer) for buffer in results.values()]
            assert results["mean"].data.all()
            assert results["num_frames"]._raw is not None
            del results
            assert not any(reference() for reference in known)
        finally:
            gc.enable()


class Weights(NamedTuple):
    """Parameters that belong together."""

    values: Any


class Weighted(ff.UDF):
    """Frames times weights."""

    def get_result_buffers(self):
        return {"total": self.buffer(kind="nav", dtype="float64")}

    def process_frame(self, frame):
        weights = self.params.weights
        weights = weights.values if isinstance(weights, Weights) else weights
        self.results.total[:] = (frame * weights).sum()


@pytest.mark.parametrize("kind", [np.asarray, np.ma.array, Weights])
def test_arrays_of_all_kinds_are_those_of_the_call(ctx, kind):
    weights = np.ma.array(np.ones(SIG)) if kind is np.ma.array else np.ones(SIG)
    data = np.ones((*NAV, *SIG))
    result = ctx.run_udf(ctx.load("memory", data=data), Weighted(weights=kind(weights)))
    expected = weights.sum()
    weights[:] = 7
    assert (result["total"].data == expected).all()


class First(ff.UDF):
    """The first of a container, or how many there are."""

    def get_result_buffers(self):
        return {name: self.buffer(kind="nav", dtype="float64") for name in ("one", "other")}

    def process_frame(self, frame):
        of = self.params.of
        value = len(of) if isinstance(of, set) else of[0]
        self.results.one[:] = self.results.other[:] = np.max(value)


@pytest.mark.parametrize(
    "given",
    [
        {0: 1},
        [1],
        OrderedDict({0: 1}),
        OrderedDict({0: np.ones(2)}),
        defaultdict(int, {0: 1}),
        Counter({0: 1}),
        deque([1], maxlen=1),
        deque([np.ones(2)]),
        bytearray(b"\1"),
        {5},
    ],
    ids=lambda given: type(given).__name__,
)
def test_containers_are_those_of_the_call(ctx, given):
    """Results that are computed before they are filled anew, and after that, go together."""
    dataset = ctx.load("memory", data=np.ones((*NAV, *SIG)))
    results = ctx.run_udf(dataset, First(of=given))
    before = results["one"].delayed_data.compute()
    if isinstance(given, set):
        given.add(6)
    elif isinstance(given[0], np.ndarray):
        given[0][:] = 2
    else:
        given[0] = 2
    assert (before == 1).all()
    assert np.array_equal(results["other"].delayed_data.compute(), before)
