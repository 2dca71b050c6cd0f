"""``ff.check_udf`` finds functions that break a rule, names the rule, and passes the others."""

from __future__ import annotations

import os
import re
import threading

import numpy as np
import pytest
import test_guide

import framefold as ff
from framefold.checking import rules

DATA = np.random.default_rng(0).poisson(30, (9, 10, 6, 7)).astype("uint16")


class Sums(ff.UDF):
    """Right: the sum of all frames, and of each."""

    def get_result_buffers(self):
        return {
            "image": self.buffer(kind="sig", dtype="float64"),
            "n": self.buffer(kind="nav", dtype="float64"),
        }

    def process_tile(self, tile):
        self.results.image += tile.sum(axis=0)
        self.results.n += tile.sum(axis=(1, 2))

    def merge(self, dest, src):
        dest.image += src.image
        dest.n[:] = src.n


class FrameSums(ff.UDF):
    """Right, frame by frame."""

    get_result_buffers = Sums.get_result_buffers
    merge = Sums.merge

    def process_frame(self, frame):
        self.results.image += frame
        self.results.n[:] = frame.sum()


class ReplacesTiles(Sums):
    def process_tile(self, tile):
        self.results.image[:] = tile.sum(axis=0)
        self.results.n += tile.sum(axis=(1, 2))


class ReplacesParts(Sums):
    def process_tile(self, tile):
        self.results.image += tile.sum(axis=0)
        self.results.n[:] = tile.sum(axis=(1, 2))


class RootOfParts(Sums):
    def process_tile(self, tile):
        self.results.n += np.sqrt(tile.sum(axis=(1, 2)))


class ReplacesFrames(FrameSums):
    def process_frame(self, frame):
        self.results.image[:] = frame


class ReplacesMerged(FrameSums):
    def merge(self, dest, src):
        dest.image[:] = src.image
        dest.n[:] = src.n


class MeanOfMeans(FrameSums):
    def merge(self, dest, src):
        dest.image[:] = (dest.image + src.image) / 2
        dest.n[:] = src.n


class NoMerge(ff.UDF):
    get_result_buffers = Sums.get_result_buffers
    process_frame = FrameSums.process_frame


class Counts(FrameSums):
    def process_frame(self, frame):
        self.seen = getattr(self, "seen", 0) + 1
        self.results.n[:] = self.seen


class CountsForAll(FrameSums):
    seen = 0

    def process_frame(self, frame):
        CountsForAll.seen += 1
        self.results.n[:] = CountsForAll.seen


class Chance(FrameSums):
    def process_frame(self, frame):
        self.results.n[:] = np.random.default_rng().random()


class NeedsAll(FrameSums):
    def get_results(self):
        n = self.results.n.reshape(tuple(self.meta.dataset_shape.nav))
        return {"n": n, "image": self.results.image}


class Overflows(FrameSums):
    def get_preferred_input_dtype(self):
        return self.USE_NATIVE_DTYPE

    def process_frame(self, frame):
        self.results.n[:] = (frame * frame).sum()


class Writes(FrameSums):
    def process_frame(self, frame):
        frame -= frame.min()
        self.results.n[:] = frame.sum()


class Process(FrameSums):
    def process_frame(self, frame):
        self.results.n[:] = os.getpid()


class Refuses(FrameSums):
    """Right, and not made for data of any brightness."""

    def process_frame(self, frame):
        if frame.max() > 1000:
            raise ValueError("too bright")
        super().process_frame(frame)


class Maximum(ff.UDF):
    """Right, and equal data change nothing in it."""

    def get_result_buffers(self):
        return {"most": self.buffer(kind="sig", dtype="float32")}

    def process_tile(self, tile):
        self.results.most[:] = np.maximum(self.results.most, tile.max(axis=0))

    def merge(self, dest, src):
        dest.most[:] = np.maximum(dest.most, src.most)


class Weighted(Sums):
    def process_tile(self, tile):
        self.results.n += tile.sum(axis=(1, 2)) * self.params.weights


class Threshold(FrameSums):
    def __init__(self, thr=0):
        super().__init__()
        self.thr = thr

    def process_frame(self, frame):
        self.results.n[:] = frame[frame > self.thr].sum()


class Listed(Threshold):
    """Of an object that knows the threshold, which no comparison shows."""

    def __init__(self, thr=0):
        super().__init__()
        self.thr, self.label, self.kept = None, f"over {thr}", [slice(thr, 99)]

    def process_frame(self, frame):
        self.results.n[:] = frame[frame > self.kept[0].start].sum()


class Scaled(FrameSums):
    """Right: what is set on the object, and learned in merge, is used by it alone."""

    def __init__(self, scale=1):
        super().__init__()
        self.scale, self.random, self.seen, self.n = scale, np.random.default_rng(3), [], scale

    def process_frame(self, frame):
        self.seen.append(self.random.random())
        self.results.n[:] = len(self.seen) <= self.meta.partition_shape.nav.size

    def merge(self, dest, src):
        super().merge(dest, src)
        self.n += 1

    def get_results(self):
        return {"image": self.results.image, "n": self.results.n * self.scale}


class Returns(FrameSums):
    def process_frame(self, frame):
        return frame.sum()


class ReturnsMerged(FrameSums):
    def merge(self, dest, src):
        super().merge(dest, src)
        return dest.n.sum()


class ForgetsRows(FrameSums):
    def merge(self, dest, src):
        dest.image += src.image


class ForgetsRowsCompiled(FrameSums):
    @ff.compiled
    def process_frame(self, frame):
        for y in range(frame.shape[0]):
            for x in range(frame.shape[1]):
                self.results.image[y, x] += frame[y, x]
        self.results.n[0] = frame[0, 0]

    def merge(self, dest, src):
        dest.image += src.image


class RowsOfItsOwn(ForgetsRows):
    """Right: rows are finished on the main side, and what was merged is returned."""

    def merge(self, dest, src):
        super().merge(dest, src)
        return dest

    def get_results(self):
        return {"image": self.results.image, "n": np.full(self.results.n.shape, 3.0)}


class Private(FrameSums):
    """Right: what is not merged is used on workers alone."""

    def get_result_buffers(self):
        part = self.buffer("nav", dtype="float64", use="private")
        return {**super().get_result_buffers(), "part": part}

    def process_frame(self, frame):
        super().process_frame(frame)
        self.results.part[:] = frame.max()


class Inherited(ff.SumUDF):
    def process_frame(self, frame):
        self.results.intensity[:] = 0


class Near(FrameSums):
    """Right: names close to those of hooks are helpers, or of hooks that there are, too."""

    def process_frame(self, frame):
        super().process_frame(self.preproces(frame))

    def preproces(self, frame):
        return frame

    def process_frame2(self, frame):
        return frame

    def process_file(self, path):
        return path

    def merged(self):
        return self.merge


def misspelt(name, of=FrameSums):
    """A class with a method of that name."""
    return type("Misspelt", (of,), {name: lambda self, *given: None})


class Names(ff.UDF):
    """Right, with results that are no numbers."""

    def get_result_buffers(self):
        return {"name": self.buffer(kind="nav", dtype=object)}

    def process_frame(self, frame):
        self.results.name[:] = str(frame.max())


@pytest.fixture
def dataset(ctx):
    return ctx.load("memory", data=DATA, sig_dims=2)


@pytest.fixture
def ctx():
    with ff.Context.make_with("inline") as ctx:
        yield ctx


@pytest.fixture
def in_one_process(monkeypatch):
    """Leaves out the runs on threads and processes, which take their time to start."""
    monkeypatch.setattr(rules, "executors", lambda sample: ())


WRONG = [
    (ReplacesTiles, "tiles", "image", "replaces what the tiles before it gave"),
    (ReplacesParts, "tiles", "n", "replaces what the tiles before it gave"),
    (RootOfParts, "tiles", "n", "is for process_frame"),
    (ReplacesFrames, "frames", "image", "that of the last frame alone"),
    (ReplacesMerged, "merge", "image", "dest.image[:] += src.image"),
    (MeanOfMeans, "partitions", "image", "divide in get_results"),
    (NoMerge, "merge", "", "implement merge(self, dest, src)"),
    (Counts, "partitions", "n", "depends on other frames of its partition"),
    (CountsForAll, "repeat", "n", "variables of the class"),
    (Chance, "repeat", "n", "seed random numbers"),
    (NeedsAll, "roi", "", "fails with a ROI: ValueError: cannot reshape"),
    (Overflows, "dtype", "n", "overflow"),
]


@pytest.mark.parametrize(("cls", "rule", "buffer", "words"), WRONG)
def test_what_is_wrong_is_named(dataset, in_one_process, cls, rule, buffer, words):
    report = ff.check_udf(cls(), dataset)
    assert not report
    (finding,) = (each for each in report.findings if each.wrong)
    assert (finding.rule, finding.buffer) == (rule, buffer)
    assert words in finding.message
    assert str(report).startswith(f"{cls.__name__}: 1 wrong, in {report.runs} run")
    with pytest.raises(ff.udf.base.UDFException, match=cls.__name__):
        report.raise_if_wrong()


@pytest.mark.parametrize(
    ("udf", "rule", "words"),
    [
        (Threshold(30), "copies", "self.thr = 30 as .* have 0 there.* super().__init__(thr=thr)"),
        (Listed(30), "copies", "self.kept = [slice(30, 99, None)] as"),
        (Returns(), "returns", "process_frame returns a float32, which has no effect"),
        (ReturnsMerged(), "merge", "merge returns a float64, which has no effect"),
        (ForgetsRows(), "merge", "as in dest.n[:] = src.n"),
        (ForgetsRowsCompiled(), "merge", "as in dest.n[:] = src.n"),
        (Inherited(), "uncalled", "process_frame of Inherited is not called: process_tile, inh"),
        (misspelt("preproces")(), "uncalled", "method preproces: did you mean preprocess?"),
        (misspelt("postproces")(), "uncalled", "did you mean postprocess?"),
        (misspelt("post_process")(), "uncalled", "did you mean postprocess?"),
        (misspelt("get_result")(), "uncalled", "did you mean get_results?"),
        (misspelt("get_preferred_dtype")(), "uncalled", "mean get_preferred_input_dtype?"),
        (misspelt("process_frme")(), "uncalled", "did you mean process_frame?"),
        (misspelt("process_tiles", Sums)(), "uncalled", "did you mean process_tile?"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, ff.UDF) else None,
)
@pytest.mark.filterwarnings("ignore")
def test_what_has_no_effect_is_named(dataset, in_one_process, udf, rule, words):
    report = ff.check_udf(udf, dataset)
    (finding,) = report.findings
    assert (finding.rule, finding.wrong) == (rule, True), str(report)
    pattern = re.escape(words).replace(re.escape(".*"), ".*")
    assert re.search(pattern, finding.message), finding.message


def test_a_misspelt_merge_is_named(dataset, in_one_process):
    class Missing(NoMerge):
        def merge_(self, dest, src):
            pass

        def get_task_dat(self):
            return {}

    report = ff.check_udf(Missing(), dataset)
    assert [finding.rule for finding in report.findings] == ["merge", "uncalled"]
    assert "get_task_dat: did you mean get_task_data?" in report.findings[1].message


def test_an_object_that_has_run_is_as_it_was(dataset, in_one_process, ctx):
    udf = Scaled(5)
    ctx.run_udf(dataset=dataset, udf=udf)
    assert not ff.check_udf(udf, dataset).findings
    udf.thr = 7
    assert not ff.check_udf(udf, dataset).findings


@pytest.mark.parametrize(
    "cls", [Sums, FrameSums, Refuses, Maximum, Names, Threshold, RowsOfItsOwn, Private, Near]
)
def test_what_is_right_is_not_called_wrong(dataset, in_one_process, cls):
    report = ff.check_udf(cls(), dataset)
    assert not report.findings, str(report)
    assert report
    assert "µs a frame" in report.time
    report.raise_if_wrong()


@pytest.mark.parametrize(
    "data", [np.ones((5, 4, 4)), np.zeros((3, 2, 4, 4), "uint8"), np.full((2, 3, 5), np.nan)]
)
def test_data_without_differences_raise_no_alarm(ctx, in_one_process, data):
    dataset = ctx.load("memory", data=data, sig_dims=2)
    for cls in (Sums, FrameSums, Maximum):
        report = ff.check_udf(cls(), dataset)
        assert not report.findings, str(report)


def test_the_brightest_pixel_may_be_below_zero(ctx, in_one_process, recwarn):
    data = np.arange(-90, 6, dtype="int32").reshape((2, 3, 4, 4))
    report = ff.check_udf(Sums(), ctx.load("memory", data=data))
    assert not report.findings, str(report)
    assert not [each for each in recwarn if "cast" in str(each.message)]


@pytest.mark.parametrize(
    "udf",
    [
        ff.SumUDF(),
        ff.CoMUDF.with_params(cy=3, cx=3, r=2),
        ff.StdDevUDF(),
        ff.AutoUDF(np.max),
        ff.ApplyMasksUDF(mask_factories=[lambda: np.ones((6, 7))]),
        ff.PickUDF(),
    ],
    ids=lambda udf: type(udf).__name__,
)
def test_our_own_keep_the_rules(dataset, in_one_process, udf):
    assert not ff.check_udf(udf, dataset).findings


def test_what_costs_is_said_and_is_not_wrong(dataset, in_one_process):
    report = ff.check_udf(Writes(), dataset)
    assert [finding.rule for finding in report.findings] == ["in place"]
    report = ff.check_udf(Counts(), dataset)
    assert [finding.rule for finding in report.findings] == ["partitions", "state"]
    assert "process_frame sets self.seen" in report.findings[1].message
    assert report.findings[1].wrong is False


def test_functions_of_the_guide_keep_the_rules(in_one_process, tmp_path, monkeypatch):
    checked = []
    run_udf = ff.Context.run_udf

    def check_first(ctx, dataset, udf, **how):
        if isinstance(udf, ff.UDF) and dataset.shape.nav.size > 1:
            with monkeypatch.context() as patched:
                patched.setattr(ff.Context, "run_udf", run_udf)
                report = ff.check_udf(udf, dataset)
            assert report, str(report)
            checked.append(report)
        return run_udf(ctx, dataset, udf, **how)

    monkeypatch.setattr(ff.Context, "run_udf", check_first)
    monkeypatch.chdir(tmp_path)
    test_guide.prepare(tmp_path)
    text = (test_guide.DOCS / "guide" / "udfs.md").read_text(encoding="utf-8")
    namespace = {"__name__": "__main__"}
    for block in test_guide.blocks(text):
        if block.language == "python" and not test_guide.NOT_RUN.match(block.before):
            exec(block.code, namespace)
    assert len(checked) > 8


class Brightest(ff.UDF):
    """The brightest value of each pixel and the sum of each frame, compiled, merge included."""

    def get_preferred_input_dtype(self):
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self):
        return {"most": self.buffer("sig", dtype="int64"), "sum": self.buffer("nav", dtype="int64")}

    @ff.compiled
    def process_frame(self, frame):
        for y in range(frame.shape[0]):
            for x in range(frame.shape[1]):
                self.results.most[y, x] = max(self.results.most[y, x], frame[y, x])
                self.results.sum[0] += frame[y, x]

    # Loops, as NumPy's functions of whole arrays take much longer to be compiled.
    @ff.compiled
    def postprocess(self):
        for y in range(self.results.most.shape[0]):
            for x in range(self.results.most.shape[1]):
                self.results.most[y, x] += 1

    @ff.compiled
    def merge(self, dest, src):
        for n in range(src.sum.shape[0]):
            dest.sum[n] = src.sum[n]
        for y in range(src.most.shape[0]):
            for x in range(src.most.shape[1]):
                dest.most[y, x] = max(dest.most[y, x], src.most[y, x])


class Replaces(Brightest):
    @ff.compiled
    def merge(self, dest, src):
        for n in range(src.sum.shape[0]):
            dest.sum[n] = src.sum[n]
        for y in range(src.most.shape[0]):
            for x in range(src.most.shape[1]):
                dest.most[y, x] = src.most[y, x]


def test_compiled_functions(dataset, in_one_process):
    pytest.importorskip("numba")
    report = ff.check_udf(Brightest(), dataset)
    assert not report.findings
    assert report.time.endswith("ms for a run with two partitions, compiled")
    assert [finding.rule for finding in ff.check_udf(Replaces(), dataset).findings] == ["merge"]


def test_aux_data_are_cut_as_the_data_are(dataset, in_one_process):
    weights = np.arange(90.0).reshape(9, 10)
    for given in (weights, weights.reshape(-1)):
        aux = ff.UDF.aux_data(given, kind="nav", dtype="float64")
        udf = Weighted(weights=aux)
        assert not ff.check_udf(udf, dataset).findings
        assert udf.params.weights is aux, "the UDF itself stays as it is"


def test_workers(dataset):
    report = ff.check_udf(Process(), dataset)
    assert [finding.rule for finding in report.findings] == ["executors"]
    assert "on processes" in report.findings[0].message
    assert not ff.check_udf(Sums(), dataset).findings


def test_what_cannot_be_sent_to_workers_is_a_finding(dataset):
    lock = threading.Lock()

    class Locked(FrameSums):
        def process_frame(self, frame):
            with lock:
                super().process_frame(frame)

    report = ff.check_udf(Locked(), dataset)
    (finding,) = report.findings
    assert finding.rule == "executors"
    assert finding.message.startswith("fails on processes: ")
    assert "lock" in finding.message


def test_exceptions_of_the_function_come_through(dataset, in_one_process):
    class Broken(FrameSums):
        def process_frame(self, frame):
            raise ZeroDivisionError("as such")

    with pytest.raises(ZeroDivisionError, match="as such"):
        ff.check_udf(Broken(), dataset)


def test_arguments(dataset, ctx):
    with pytest.raises(TypeError, match="pass an instance, not the class"):
        ff.check_udf(Sums, dataset)
    with pytest.raises(TypeError, match="dataset is None; use the result of"):
        ff.check_udf(Sums(), None)
    for frames in (0, -1, float("nan")):
        with pytest.raises(ValueError, match=f"frames={frames} is not a whole number"):
            ff.check_udf(Sums(), dataset, frames=frames)
    one = ctx.load("memory", data=DATA[:1, :1], sig_dims=2)
    with pytest.raises(ValueError, match="two frames at least"):
        ff.check_udf(Sums(), one)


@pytest.mark.parametrize(
    ("nav", "frames", "block"),
    [((9, 10), 64, (8, 8)), ((100,), 64, (64,)), ((2, 100), 64, (2, 32)), ((9, 10), 500, (9, 10))],
)
def test_the_sample(ctx, in_one_process, nav, frames, block):
    data = np.random.default_rng(1).integers(0, 9, (*nav, 3, 4), dtype=np.uint8)
    dataset = ctx.load("memory", data=data, sig_dims=2)
    report = ff.check_udf(Sums(), dataset, frames=frames)
    assert report.sample == f"{np.prod(block)} frames of (3, 4), uint8"
