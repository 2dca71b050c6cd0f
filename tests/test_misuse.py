"""Each misuse gives an error that names the culprit and the way out; nothing hangs or dies."""

import warnings

import numpy as np
import pytest
from shared_contexts import shared

import framefold as ff
from framefold.exceptions import (
    BadFileError,
    FramefoldError,
    InvalidArgumentError,
    LimitError,
    UDFError,
)
from framefold.udf import UDF
from framefold.warnings import IgnoredReturnWarning


class Nav(UDF):
    """One number per frame."""

    def get_result_buffers(self):
        return {"x": self.buffer(kind="nav")}

    def process_frame(self, frame):
        self.results.x[:] = frame.sum()


#: Three rows in each element, with a text in each.
ROWS = [("rows", [("n", int), ("text", str)], (3,))]


def declares(buffers, **methods):
    """A UDF class with the given declarations."""

    def get_result_buffers(self):
        return buffers(self)

    methods = {"process_frame": lambda self, frame: None, **methods}
    return type("Culprit", (UDF,), {"get_result_buffers": get_result_buffers, **methods})()


async def awaits(self, *_):
    """Of which a call does nothing."""


def yields(self, *_):
    """Another one."""
    yield


@pytest.mark.parametrize(
    ("roi", "message"),
    [
        (np.ones((3, 3), dtype=bool), r"shape \(3, 3\).*shape \(6, 7\)"),
        (np.full((6, 7), 2), "dtype int64, expected bool"),
        (np.ones((3, 3)), r"shape \(3, 3\).*shape \(6, 7\)"),
        ((9, 9), r"\(9, 9\) are outside of the scan"),
        ((1, 2, 3), r"\(1, 2, 3\) do not fit a scan of shape \(6, 7\)"),
        ([(1, 2), (3,)], r"\(3,\) do not fit"),
        ([[(1, 2), (3, 4)]], r"the ROI at \(1, 2\)=\(3, 4\) is not True or False"),
        ([((1, 2), (3, 4))], r"the ROI at \(1, 2\)=\(3, 4\) is not True or False"),
        ([((1, 2), "no")], r"the ROI at \(1, 2\)='no' is not True or False"),
    ],
)
def test_unusable_roi(ctx, dataset, roi, message):
    with pytest.raises(InvalidArgumentError, match=message):
        ctx.run_udf(dataset=dataset, udf=Nav(), roi=roi)


@pytest.mark.parametrize(
    ("udf", "message"),
    [
        (
            declares(lambda self: {"s": self.buffer(kind="sig")}),
            r"Culprit needs a merge.*'s' \(sig",
        ),
        (
            declares(lambda self: {"not a name": self.buffer(kind="nav")}),
            "'not a name'.*identifier",
        ),
        (declares(lambda self: {"x": self.buffer(kind="navi")}), "'x' with kind 'navi'"),
        (declares(lambda self: {"x": self.buffer(kind=np.array(["nav", "sig"]))}), "'x' with kind"),
        (declares(lambda self: {"x": self.buffer("nav", where=np.zeros(2))}), "'x' with where="),
        (declares(lambda self: {"x": self.buffer(kind="nav", use=7)}), "use=7"),
        (
            declares(lambda self: {"x": self.buffer("nav", dtype=("f4", (3,)))}),
            "'x' with dtype=.*say its axes by extra_shape",
        ),
        (declares(lambda self: {"x": self.buffer("nav", dtype=str)}), "dtype=<U0, texts or"),
        (declares(lambda self: {"x": self.buffer("sig", dtype="S")}), "as in dtype='U20'"),
        (declares(lambda self: {"x": self.buffer("nav", dtype="V")}), "V0, texts or bytes"),
        (
            declares(lambda self: {"x": self.buffer("nav", dtype=[("n", int), ("text", str)])}),
            "texts or bytes without a length, of which one or none is kept",
        ),
        (declares(lambda self: {"x": self.buffer("nav", dtype=ROWS)}), "or bytes without a length"),
        (declares(lambda self: {"x": np.zeros(3)}), "'x' as ndarray; use self.buffer"),
        (declares(lambda self: [1]), "returned list, expected a dict"),
        (
            declares(lambda self: {"x": self.buffer(kind="nav", use="result_only")}),
            "did not return 'x'",
        ),
        (
            declares(
                lambda self: {"x": self.buffer(kind="nav", use="private")},
                get_results=lambda self: {"x": self.results.x},
            ),
            "returned 'x', which is declared with use='private'",
        ),
        (
            declares(
                lambda self: {"x": self.buffer(kind="nav")}, get_results=lambda self: {"y": 1}
            ),
            "returned 'y', which is not declared",
        ),
        (
            declares(
                lambda self: {"x": self.buffer(kind="nav")},
                get_results=lambda self: {"x": np.zeros(3)},
            ),
            r"'x' with shape \(3,\).*must have shape \(42,\)",
        ),
        (
            declares(
                lambda self: {"x": self.buffer(kind="nav", dtype=int)},
                get_results=lambda self: {"x": np.zeros(42)},
            ),
            "dtype float64.*declared int64",
        ),
        (
            declares(lambda self: {"x": self.buffer(kind="nav")}, get_results=lambda self: [1, 2]),
            "get_results returned list",
        ),
        (
            declares(lambda self: {"__class__": self.buffer(kind="nav")}),
            "declares a buffer '__class__'; names that begin",
        ),
        (
            declares(
                lambda self: {"x": self.buffer(kind="nav")}, get_task_data=lambda self: np.ones(3)
            ),
            "get_task_data returned ndarray, expected a dict",
        ),
        (
            declares(lambda self: {"x": self.buffer(kind="nav")}, get_method=lambda self: "pixel"),
            "get_method returned 'pixel'",
        ),
        (
            declares(lambda self: {"x": self.buffer(kind="nav")}, process_frame=awaits),
            "Culprit.process_frame is declared with 'async def'",
        ),
        (
            declares(lambda self: {"x": self.buffer(kind="sig")}, merge=yields),
            "Culprit.merge has a 'yield' in it",
        ),
    ],
)
def test_broken_rules(ctx, dataset, udf, message):
    with pytest.raises(UDFError, match=message):
        ctx.run_udf(dataset=dataset, udf=udf)


def test_rules_are_checked_before_any_frame_is_read(ctx, dataset):
    def process_frame(self, frame):
        raise AssertionError("a frame was read")

    udf = declares(lambda self: {"s": self.buffer(kind="sig")}, process_frame=process_frame)
    with pytest.raises(UDFError, match="needs a merge"):
        ctx.run_udf(dataset=dataset, udf=udf)


def test_no_process_method(ctx, dataset):
    class Idle(UDF):
        def get_result_buffers(self):
            return {"x": self.buffer(kind="nav")}

    with pytest.raises(TypeError, match="Idle implements none of process_tile"):
        ctx.run_udf(dataset=dataset, udf=Idle())


@pytest.mark.parametrize("name", ["process_frame", "merge", "get_result_buffers", "get_results"])
@pytest.mark.parametrize("marked", [False, True])
def test_methods_that_are_none(ctx, dataset, name, marked):
    def process_frame(self, frame):
        raise AssertionError("a frame was read")

    base = declares(lambda self: {"x": self.buffer(kind="nav")}, process_frame=process_frame)
    if marked:
        process_frame = ff.compiled(process_frame)
    without = type("Without", (type(base),), {"process_frame": process_frame, name: None})
    with pytest.raises(UDFError, match=f"Without.{name} is None, expected a method"):
        ctx.run_udf(dataset=dataset, udf=without())


def test_constructor_that_does_not_round_trip(ctx, dataset):
    class Renames(Nav):
        def __init__(self, mine=1):
            super().__init__(theirs=mine)

    with pytest.raises(TypeError, match="theirs") as caught:
        ctx.run_udf(dataset=dataset, udf=Renames())
    assert any("clean copy of Renames" in note for note in caught.value.__notes__)


class Scaled(Nav):
    """Of the gain that its constructor makes of what it is given."""

    def __init__(self, gain):
        super().__init__(gain=self.convert(gain))

    def process_frame(self, frame):
        self.results.x[:] = frame.sum() * np.sum(self.params.gain)


def converting(convert):
    """A UDF class whose constructor converts its parameter."""
    return type("Converting", (Scaled,), {"convert": staticmethod(convert)})


@pytest.mark.parametrize(
    ("convert", "given", "found"),
    [
        (lambda gain: 1 / gain, 10, r"passes on 0.1 to UDF.__init__, and 10.0 when"),
        (lambda gain: np.asarray(gain) * 2, [1, 2], r"passes on array\(\[2, 4\]\)"),
        (lambda gain: [gain], 3, r"passes on \[3\] to UDF.__init__, and \[\[3\]\] when"),
        (lambda gain: {"by": np.float32(gain["by"]) ** 2}, {"by": 3}, "9.0.*81.0"),
        (lambda gain: (*gain, None), (1,), r"\(1, None\) to UDF.__init__, and \(1, None, None"),
    ],
)
def test_constructor_that_converts_a_parameter(ctx, dataset, convert, given, found):
    udf = converting(convert)(given)
    with pytest.raises(UDFError, match=rf"Converting.__init__ .* 'gain': .*{found}") as caught:
        ctx.run_udf(dataset=dataset, udf=udf)
    assert "super().__init__(gain=gain), and convert in get_task_data" in str(caught.value)


@pytest.mark.parametrize(
    ("convert", "given"),
    [
        (float, 3),
        (int, 3.7),
        (tuple, [1, 2]),
        (np.asarray, [1, 2]),
        (lambda gain: np.array(gain, "float32"), [1, np.nan]),
        # In the last bits, this differs from once to twice.
        (lambda gain: np.asarray(gain) / np.sum(gain), np.linspace(0, 1, 1001, dtype="float32")),
        (lambda gain: [each / sum(gain) for each in gain], [0.1, 0.7, 0.9]),
        (lambda gain: gain * 2, np.inf),
    ],
)
def test_constructor_that_converts_and_changes_no_more(ctx, dataset, convert, given):
    result = ctx.run_udf(dataset=dataset, udf=converting(convert)(given))["x"].data
    sums = ctx.run_udf(dataset=dataset, udf=Nav())["x"].data
    assert np.allclose(result, sums * np.sum(convert(given)), equal_nan=True)


class SpecialError(Exception):
    """An exception with a constructor of its own."""

    def __init__(self, code, text):
        super().__init__(code, text)
        self.code = code


@pytest.mark.parametrize("hook", ["process_frame", "process_tile", "process_partition"])
def test_exceptions_from_user_code_come_back_as_themselves(ctx, dataset, hook):
    def process(self, pixels):
        if (self.meta.coordinates == (3, 4)).all(axis=-1).any():
            raise SpecialError(42, "at (3, 4)")

    methods = {"get_result_buffers": Nav.get_result_buffers, hook: process}
    udf = type("Failing", (UDF,), methods)()
    with pytest.raises(SpecialError) as caught:
        ctx.run_udf(dataset=dataset, udf=[Nav(), udf])
    assert caught.value.code == 42
    (note,) = caught.value.__notes__
    assert "UDF Failing" in note
    assert "partition 2" in note  # frames 18 to 25; (3, 4) is number 25
    assert caught.traceback[-1].name == "process", "the traceback must end in user code"
    # Nothing is left behind: the next run works.
    assert ctx.run_udf(dataset=dataset, udf=Nav())["x"].data.shape == (6, 7)


@pytest.mark.parametrize("hook", ["preprocess", "postprocess", "get_results", "get_task_data"])
def test_exceptions_in_other_hooks(ctx, dataset, hook):
    def fail(self):
        raise SpecialError(1, hook)

    with pytest.raises(SpecialError, match=hook):
        ctx.run_udf(dataset=dataset, udf=type("Failing", (Nav,), {hook: fail})())


def test_the_first_error_in_partition_order_is_reported(ctx, dataset):
    class AllFail(Nav):
        def process_frame(self, frame):
            raise ValueError(f"at {self.meta.slice.origin[0]}")

    with pytest.raises(ValueError, match=r"^at 0\n"):
        ctx.run_udf(dataset=dataset, udf=AllFail())


def test_unknown_names_say_which_there_are(ctx, dataset):
    class Typo(Nav):
        def process_frame(self, frame):
            self.results.y[:] = 1

    with pytest.raises(AttributeError, match="no result buffer 'y'; there are: x"):
        ctx.run_udf(dataset=dataset, udf=Typo())

    class TypoInParameter(Nav):
        def process_frame(self, frame):
            self.results.x[:] = self.params.scael

    with pytest.raises(AttributeError, match="no parameter 'scael'; there are: scale"):
        ctx.run_udf(dataset=dataset, udf=TypoInParameter(scale=3))

    class TypoInAssignment(Nav):
        def process_frame(self, frame):
            self.results.z = 1

    with pytest.raises(AttributeError, match="no result buffer 'z' to assign to"):
        ctx.run_udf(dataset=dataset, udf=TypoInAssignment())


def test_wrong_arguments(ctx, dataset):
    with pytest.raises(InvalidArgumentError, match="not a UDF; pass an instance"):
        ctx.run_udf(dataset=dataset, udf=[Nav])
    with pytest.raises(InvalidArgumentError, match=r"is not a UDF; classes of .* derive"):
        ctx.run_udf(dataset=dataset, udf=object())
    with pytest.raises(InvalidArgumentError, match="no UDF"):
        ctx.run_udf(dataset=dataset, udf=[])
    with pytest.raises(InvalidArgumentError, match="dataset is a ndarray"):
        ctx.run_udf(dataset=np.zeros((2, 2, 2, 2)), udf=Nav())
    with pytest.raises(InvalidArgumentError, match="no executor 'dusk'"):
        ff.Context.make_with("dusk")
    with pytest.raises(InvalidArgumentError, match="n_threads is 0"):
        ff.Context.make_with("threads", cpus=0)
    with pytest.raises(InvalidArgumentError, match="no executor 'dusk'"):
        ff.Context(executor="dusk")
    with pytest.raises(InvalidArgumentError, match="executor is a int; use the name of one"):
        ff.Context(executor=4)


def test_wrong_arguments_of_load(ctx, tmp_path, data):
    path = tmp_path / "a.raw"
    data.tofile(path)
    options = {"nav_shape": (6, 7), "sig_shape": (10, 12), "dtype": "uint16"}
    assert ctx.load("raw", path, **options).shape == (6, 7, 10, 12)
    for wrong, message in [
        ({"dtype": "uint17"}, "uint17"),
        ({"dtype": None}, "dtype"),
        ({"nav_shape": "ab"}, "nav_shape='ab' is not a tuple"),
        ({"sig_shape": (0, 3)}, "0"),
        ({"sync_offset": 42}, r"sync_offset 42.*\(-42, 42\)"),
        ({"sync_offset": 1.5}, "sync_offset=1.5"),
        ({"sync_offset": True}, "sync_offset=True is not a whole number"),
        ({"nav_shape": (True, 42)}, r"nav_shape=\(True, 42\) is not a tuple"),
        ({"sig_shape": np.ones(2, dtype=bool)}, "sig_shape=array"),
        ({"file_header": np.True_}, "file_header=.*True"),
        ({"num_partitions": False}, "num_partitions=False"),
        ({"io_backend": "telepathy"}, "telepathy"),
        ({"colour": "red"}, "no option 'colour'"),
        ({"sig_shape": (1000, 1000)}, "a.raw"),
    ]:
        with pytest.raises((InvalidArgumentError, BadFileError), match=message):
            ctx.load("raw", path, **{**options, **wrong})
    with pytest.raises(InvalidArgumentError, match=r"no format.*'rwa'|'rwa'"):
        ctx.load("rwa", path)
    with pytest.raises(OSError, match="nowhere"):
        ctx.open(tmp_path / "nowhere.mib")
    with pytest.raises(FramefoldError):
        ctx.open(tmp_path)
    with pytest.raises(InvalidArgumentError, match=r"takes one path.*load\('mib', path\)"):
        ctx.load("raw")
    with pytest.raises(InvalidArgumentError, match=r"got 'a\.hdr' and path='b\.hdr'; pass one"):
        ctx.load("mib", "a.hdr", path="b.hdr")


def test_wrong_arrays(ctx):
    with pytest.raises(InvalidArgumentError, match="dtype object"):
        ctx.load("memory", data=np.array([[None]]), sig_dims=1)
    with pytest.raises(InvalidArgumentError, match="sig_dims=3 does not fit"):
        ctx.load("memory", data=np.zeros((2, 2)), sig_dims=3)
    with pytest.raises(InvalidArgumentError):
        ctx.load("memory", data=np.zeros((0, 2, 2, 2)))
    with pytest.raises(InvalidArgumentError, match="pass data="):
        ctx.load("memory")


def test_masks_of_the_wrong_shape(ctx, dataset):
    udf = ff.ApplyMasksUDF(mask_factories=[lambda: np.ones((3, 4))])
    with pytest.raises(InvalidArgumentError, match=r"ApplyMasksUDF.*3.*4.*10.*12"):
        ctx.run_udf(dataset=dataset, udf=udf)


def test_picking_too_much(ctx):
    data = np.zeros((1, 1, 1), dtype=np.uint8)
    huge = np.broadcast_to(data, (40000, 200, 200))
    with pytest.raises((LimitError, MemoryError)):
        ctx.run_udf(dataset=ctx.load("memory", data=huge), udf=ff.PickUDF())


def test_a_use_that_means_nothing(ctx, dataset):
    class Used(ff.UDF):
        def get_result_buffers(self):
            return {"x": self.buffer(kind="nav", use="internal")}

        def process_frame(self, frame):
            self.results.x[:] = 3

    with pytest.warns(UserWarning, match="use='internal', which means nothing"):
        result = ctx.run_udf(dataset=dataset, udf=Used())["x"].data
    assert (result == 3).all()


@pytest.fixture(scope="module")
def scan():
    """The example scan, made once."""
    return ff.example_scan()


@pytest.mark.parametrize(
    ("attempt", "error", "words"),
    [
        (lambda ctx, ds: ff.load("scan.mib"), AttributeError, r"Context\(\)\.load"),
        (lambda ctx, ds: ctx.load("Scan.mib"), InvalidArgumentError, r"load\('Scan\.mib', .*open"),
        (lambda ctx, ds: ctx.run_udf(ds, np.sum), TypeError, "map.dataset, function."),
        (lambda ctx, ds: ctx.run_udf(ds, "sum"), TypeError, r"'sum' .* ReductionUDF\('sum'\)"),
        (lambda ctx, ds: ctx.run_udf(ds, ff.SumUDF), TypeError, "not the class"),
        (lambda ctx, ds: ctx.run_udf(ff.SumUDF(), ds), TypeError, "the data set comes first"),
        (lambda ctx, ds: ctx.run_udf(ds[:], ff.SumUDF()), ValueError, r"load\('memory', data="),
        (
            lambda ctx, ds: ff.detectors.disk(ctx, r=4),
            ValueError,
            "is a Context; pass the data set",
        ),
        (lambda ctx, ds: ff.detectors.disk(ds[0, 0], r=4), ValueError, r"frame: frame\.shape"),
    ],
)
def test_what_newcomers_try_first_is_answered(scan, attempt, error, words):
    with pytest.raises(error, match=words):
        attempt(ff.Context.make_with("inline"), scan)


@pytest.mark.parametrize("hook", ["preprocess", "process_frame", "postprocess", "get_results"])
def test_results_are_written_into_and_not_replaced(ctx, dataset, hook):
    def replaces(self, *_):
        self.results = {"x": 1}
        return {}

    with pytest.raises(
        UDFError, match=r"Replacing assigned a dict to self.results, .*results.x\[:\] ="
    ):
        ctx.run_udf(dataset, type("Replacing", (Nav,), {hook: replaces})())


def test_results_are_not_deleted(ctx, dataset):
    class Deleting(Nav):
        def process_frame(self, frame):
            del self.results.x

    with pytest.raises(AttributeError, match="result buffer 'x' cannot be deleted"):
        ctx.run_udf(dataset, Deleting())


def test_the_warning_of_a_merge_that_returns_results_says_to_write_them(ctx, scan):
    class Returning(Nav):
        def merge(self, dest, src):
            return {"x": src.x}

    class ReturningDest(Nav):
        def merge(self, dest, src):
            dest.x[:] = src.x
            return dest

    class ReturningSum(Nav):
        def merge(self, dest, src):
            return dest.x + src.x, None

    class ReturningOut(Nav):
        def merge(self, dest, src):
            return np.add(dest.x, src.x, out=dest.x)

    with pytest.raises(UDFError, match=r"Returning\.merge returned a dict, .* write into dest"):
        ctx.run_udf(scan, Returning())
    with pytest.warns(
        IgnoredReturnWarning, match=r"ReturningSum\.merge returned a tuple"
    ) as caught:
        ctx.run_udf(scan, ReturningSum())
    assert len(caught) == 1
    for udf in (ReturningDest(), ReturningOut()):
        assert ctx.run_udf(scan, udf)["x"].data.all()


@pytest.mark.parametrize("name", ["process_frame", "process_tile", "process_partition"])
@pytest.mark.parametrize("executor", ["inline", "threads", "processes"])
def test_what_is_returned_and_not_written_warns_once(executor, name, tmp_path):
    class Base(UDF):
        def get_result_buffers(self):
            return {"x": self.buffer(kind="nav")}

    returning = type("Returning", (Base,), {name: lambda self, data: data.sum()})
    writing = type("Writing", (Base,), {name: lambda self, data: np.add(1, 1, self.results.x)})
    with shared(executor, cpus=2) as ctx:
        dataset = ctx.load("memory", data=np.ones((4, 5, 6, 7)), num_partitions=4)
        for out in ({}, {"out": tmp_path / "out.zarr"}):
            words = rf"Returning\.{name} returned float.*ignored: .*self\.results\.x\[:\] ="
            with pytest.warns(IgnoredReturnWarning, match=words) as warned:
                ctx.run_udf(dataset, returning(), **out)
            assert [each.filename for each in warned] == [__file__]
        with warnings.catch_warnings():
            warnings.simplefilter("error")
            assert (ctx.run_udf(dataset, writing())["x"].data == 2).all()


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: ff.CoMUDF(r="2 mrad"), "r is '2 mrad', expected a number, in pixels"),
        (lambda: ff.CoMUDF(r=None), "r is None, expected a number, in pixels"),
        (lambda: ff.CoMUDF(cy=(6, 8)), r"cy is \(6, 8\), expected a number, in pixels"),
        (lambda: ff.CoMUDF(scan_rotation="33"), "scan_rotation is '33', .* in degrees"),
        (lambda: ff.CoMUDF(r=5, ri=np.ma.masked), "ri is masked, expected a number, in pixels"),
        (lambda: ff.CoMUDF().with_params(3), "of CoMUDF got 3 without a name"),
        (lambda: Nav().buffer("nav", dtype="flaot32"), "buffer is 'flaot32', expected one that"),
        (lambda: ff.Context().open(np.ones((2, 3))), r"type ndarray; use load\('memory', data="),
    ],
)
def test_arguments_of_another_type_are_named(use, message):
    with pytest.raises(TypeError, match=message):
        use()


def test_results_that_are_not_there_and_those_that_are(ctx, dataset):
    result = ctx.run_udf(dataset=dataset, udf=ff.SumUDF())
    with pytest.raises(KeyError, match="no result 'intensty'; there are intensity"):
        result["intensty"]
    assert result.get("intensty") is None
    assert "intensty" not in result


def test_functions_that_return_nothing(ctx, dataset):
    with pytest.warns(UserWarning, match="returned None for all frames; it needs a 'return'"):
        ctx.map(dataset, lambda frame: None)
    some = ctx.map(dataset, lambda frame: {} if frame[0, 0] > 2000 else None)
    assert some.dtype == object


def test_kinds_are_texts():
    with pytest.raises(InvalidArgumentError, match=r"AUX data of kind array"):
        UDF.aux_data(np.ones(3), kind=np.array(["nav", "sig"]))


def test_one_mask_without_a_list(ctx, dataset):
    shape = tuple(dataset.shape.sig)
    with pytest.raises(InvalidArgumentError, match="single mask, give a list with one factory"):
        ctx.run_udf(dataset=dataset, udf=ff.ApplyMasksUDF(lambda: np.ones(shape)))


@pytest.mark.parametrize("text", ["1,2 mrad", "0,5nm"])
def test_decimal_commas_are_refused_in_words(dataset, text):
    with pytest.raises(InvalidArgumentError, match=f"in '{text}' has no unit; .* with a point"):
        dataset.calibrate(pixel_size=text)


def test_numbers_are_of_dtypes_of_numbers(ctx, dataset):
    for dtype in ([("a", "f4")], "M8[s]", "U3", object):
        with pytest.raises(InvalidArgumentError, match=r"dtype of StdDevUDF is .*of numbers"):
            ctx.run_udf(dataset, ff.StdDevUDF(dtype=dtype))


@pytest.mark.parametrize("dtype", ["floatt", 3, [1], {"a": 1}], ids=str)
def test_what_is_no_dtype_is_named(ctx, dataset, tmp_path, dtype):
    def stack():
        return np.ones((1, *dataset.shape.sig))

    for call in (
        lambda: ff.Cast(dtype),
        lambda: ctx.run_udf(dataset, ff.SumUDF(dtype=dtype)),
        lambda: ctx.run_udf(dataset, ff.StdDevUDF(dtype=dtype)),
        lambda: ctx.run_udf(dataset, ff.ReductionUDF("sum", dtype=dtype)),
        lambda: ctx.run_udf(dataset, ff.ApplyMasksUDF(stack, mask_dtype=dtype)),
        lambda: ctx.run_udf(dataset, ff.ApplyMasksUDF(stack, preferred_dtype=dtype)),
        lambda: UDF.aux_data(np.ones((6, 7)), kind="nav", dtype=dtype),
        lambda: ctx.export_dataset(dataset, tmp_path / "a.npy", dtype=dtype),
    ):
        with pytest.raises(InvalidArgumentError, match=r"dtype( of .*)? is .*, expected one that"):
            call()


def test_results_of_a_list_are_asked_for_one_of_them_first(ctx, dataset):
    results = ctx.run_udf(dataset, [ff.SumUDF()])
    with pytest.raises(TypeError, match=r"as in results\[0\]\['intensity'\]"):
        results["intensity"]
    with pytest.raises(AttributeError, match=r"by its name, as in results\['intensity'\]\.data"):
        results[0].data  # noqa: B018
