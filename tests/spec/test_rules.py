"""Rules of the UDF interface that its users rely on, and what happens to those who break them."""

import itertools
import sys

import numpy as np
import pytest
from shared_contexts import shared

import framefold.udf.base
from framefold.common.buffers import AuxBufferWrapper, BufferWrapper, InvalidMaskError
from framefold.common.exceptions import ExecutorSpecException, UDFException, UDFRunCancelled
from framefold.exceptions import InvalidArgumentError, UDFError
from framefold.udf import (
    UDF,
    UDFFrameMixin,
    UDFPartitionMixin,
    UDFPreprocessMixin,
    UDFTileMixin,
    check_cast,
)
from framefold.udf.base import UDFRunner
from framefold.udf.sum import SumUDF
from framefold.warnings import UseDiscouragedWarning


class Sums(UDF):
    """One number per frame."""

    def get_result_buffers(self):
        return {"x": self.buffer(kind="nav")}

    def process_frame(self, frame):
        self.results.x[:] = frame.sum()


class Computes(Sums):
    """Returns whatever ``value`` makes of it."""

    def __init__(self, value, kind="nav", extra_shape=(), dtype="float32"):
        super().__init__(value=value, kind=kind, extra_shape=extra_shape, dtype=dtype)

    def get_result_buffers(self):
        params = self.params
        y = self.buffer(params.kind, params.extra_shape, params.dtype, use="result_only")
        return {**super().get_result_buffers(), "y": y}

    def get_results(self):
        return {"y": self.params.value(self)}


def declares(*buffers, **methods):
    """A UDF whose one buffer ``x`` is declared with these arguments."""

    def get_result_buffers(self):
        return {"x": self.buffer(*buffers[:1], **buffers[1])}

    methods = {"process_frame": lambda self, frame: None, **methods}
    return type("Culprit", (UDF,), {"get_result_buffers": get_result_buffers, **methods})()


@pytest.fixture
def sums(data):
    return data.sum(axis=(2, 3), dtype=np.float32)


def test_published_names_are_the_same_classes():
    base = framefold.udf.base
    assert base.UDFBase is base.UDF
    assert base.UDFException is UDFException is UDFError
    assert base.UDFRunCancelled is UDFRunCancelled
    assert issubclass(ExecutorSpecException, InvalidArgumentError)
    assert isinstance(UDF.aux_data([1.0], kind="single"), AuxBufferWrapper)
    names = {each.name for each in UDF.UDF_METHOD}
    assert names == {"TILE", "FRAME", "PARTITION", "FRAMES"}  # the last one is our own
    with pytest.raises(AttributeError, match="UDFWalker"):
        _ = base.UDFWalker


@pytest.mark.parametrize(
    ("mixin", "method"),
    [(UDFFrameMixin, "frame"), (UDFTileMixin, "tile"), (UDFPartitionMixin, "partition")],
)
def test_mixins_say_how_a_udf_processes(ctx, dataset, mixin, method):
    class Mixed(mixin, UDFPreprocessMixin, UDF):
        def get_result_buffers(self):
            return {"x": self.buffer("nav")}

    udf = Mixed()
    assert udf.get_method() == method
    with pytest.raises(NotImplementedError, match=f"Mixed does not implement process_{method}"):
        getattr(udf, f"process_{method}")(None)
    with pytest.raises(NotImplementedError, match="Mixed does not implement preprocess"):
        ctx.run_udf(dataset=dataset, udf=udf)


def test_check_cast():
    check_cast(np.zeros(2, np.float32), np.zeros(2, np.float64))
    with pytest.raises(TypeError, match="float64 cannot be kept safely in an array of float32"):
        check_cast(np.zeros(2, np.float64), np.zeros(2, np.float32))


def test_item_access_works_with_a_warning(ctx, dataset, sums):
    class Items(Sums):
        def process_frame(self, frame):
            assert self.params["factor"] == 2
            self.results["x"] = frame.sum()
            self.results["x"][:] *= self.params.factor

    with pytest.warns(UseDiscouragedWarning) as caught:
        res = ctx.run_udf(dataset=dataset, udf=Items(factor=2))
    assert np.allclose(res["x"].data, 2 * sums)
    assert {warning.filename for warning in caught} == {__file__}


def test_buffers_may_be_named_like_methods_of_their_namespace(ctx, dataset, sums):
    class Named(UDF):
        def get_result_buffers(self):
            return {name: self.buffer("nav") for name in ("items", "keys", "get", "_what")}

        def process_frame(self, frame):
            self.results.items[:] = self.results.get[:] = frame.sum()
            self.results.keys = self.results._what = 3

    res = ctx.run_udf(dataset=dataset, udf=Named())
    assert np.allclose(res["items"].data, sums)
    assert (res["_what"].data == 3).all()


@pytest.mark.parametrize("forms", ["attribute", "swapped", "other names"])
def test_merge_gets_its_arguments_by_name(ctx, dataset, sums, forms):
    def attribute(self, dest, src):
        dest.x = src.x

    def swapped(self, src, dest):
        dest.x[:] = src.x

    def other_names(self, so_far, new):
        so_far.x[:] = new.x

    merge = {"attribute": attribute, "swapped": swapped, "other names": other_names}[forms]
    udf = type("Merging", (Sums,), {"merge": merge})()
    assert np.allclose(ctx.run_udf(dataset=dataset, udf=udf)["x"].data, sums)


def test_private_buffers_need_a_merge_too(ctx, dataset):
    class Private(Sums):
        def get_result_buffers(self):
            private = self.buffer("single", use="private")
            return {**super().get_result_buffers(), "total": private}

    class Calls(Private):
        def merge(self, dest, src):
            super().merge(dest, src)  # which would assign
            dest.total += src.total

    for udf in (Private(), Calls()):
        with pytest.raises(UDFError, match=r" needs a merge method.*'total' \(single\).*super"):
            ctx.run_udf(dataset=dataset, udf=udf)
    assert Private.merge is UDF.merge
    assert not declares("nav", {}).requires_custom_merge
    assert declares("sig", {}).requires_custom_merge
    assert not declares("sig", {"use": "result_only"}).requires_custom_merge_all


def test_a_result_that_nothing_computes_is_refused_before_data_are_read(ctx, dataset):
    class Forgets(Sums):
        def get_result_buffers(self):
            return {"x": self.buffer("nav", use="result_only")}

        def process_frame(self, frame):
            raise AssertionError("a frame was read")

    with pytest.raises(UDFError, match=r"Forgets.get_results did not return 'x'"):
        ctx.run_udf(dataset=dataset, udf=Forgets())


def test_buffer_wrappers_serve_as_declarations(ctx, dataset, sums):
    class Wrapped(Sums):
        def get_result_buffers(self):
            return {
                "x": BufferWrapper("nav", (), "float64"),
                "y": BufferWrapper("nav", (), "int8", None, "private"),
            }

    res = ctx.run_udf(dataset=dataset, udf=Wrapped())
    assert list(res) == ["x"]
    assert res["x"].data.dtype == np.float64
    assert np.allclose(res["x"].data, sums)


@pytest.mark.parametrize(
    ("udf", "error", "message"),
    [
        (declares("nav", {"extra_shape": (-1,)}), UDFError, r"Culprit.*'x' with extra_shape=\(-1"),
        (declares("nav", {"extra_shape": 3}), TypeError, "extra_shape is 3, expected a tuple"),
        (declares("nav", {"extra_shape": (2.5,)}), TypeError, r"extra_shape is \(2.5,\)"),
        (declares("nav", {"where": "gpu"}), UDFError, "Culprit declares buffer 'x' with where="),
        (declares("nav", {"dtype": "flot"}), TypeError, "flot"),
        (
            declares("nav", {}, get_preferred_input_dtype=lambda self: "flot"),
            UDFError,
            "Culprit.get_preferred_input_dtype returned 'flot'",
        ),
        (
            declares("nav", {}, get_backends=lambda self: 3),
            UDFError,
            "Culprit.get_backends returned 3",
        ),
        (
            declares("nav", {}, process_tile=print, get_tiling_preferences=lambda self: 7),
            UDFError,
            "Culprit.get_tiling_preferences returned 7",
        ),
        (
            declares("nav", {}, process_tile=print, get_tiling_preferences=lambda s: {"depth": 0}),
            UDFError,
            "depth=0, expected a positive number",
        ),
        (
            declares(
                "nav", {}, process_tile=print, get_tiling_preferences=lambda s: {"depth": "a"}
            ),
            UDFError,
            "depth='a', expected a positive number",
        ),
    ],
)
def test_declarations_that_make_no_sense(ctx, dataset, udf, error, message):
    with pytest.raises(error, match=message) as caught:
        ctx.run_udf(dataset=dataset, udf=udf)
    assert "Culprit" in str(caught.value) + "".join(getattr(caught.value, "__notes__", []))


@pytest.mark.parametrize("executor", ["inline", "threads", "processes", "delayed"])
def test_constructors_that_change_parameters(data, executor):
    class Doubles(Sums):
        def __init__(self, scale=2):
            super().__init__(scale=2 * scale)

        def process_frame(self, frame):
            self.results.x[:] = self.params.scale

        def get_results(self):
            return {"x": self.results.x * self.params.scale}

    with shared(executor) as ctx:
        dataset = ctx.load("memory", data=data, sig_dims=2, num_partitions=2)
        # What it was made with is 4; all of its copies would be made with that, and have 8.
        with pytest.raises(UDFError, match=r"converts parameter 'scale': it passes on 4 .* and 8"):
            ctx.run_udf(dataset=dataset, udf=Doubles())


class Matrix:
    def __init__(self, gain):
        self.gain = gain


@pytest.mark.parametrize("make", [float, Matrix])
@pytest.mark.parametrize("executor", ["inline", "threads", "processes", "dask", "delayed"])
def test_what_constructors_make_of_a_dict_follows_it(data, executor, make):
    class Follows(Sums):
        def __init__(self, model, matrix=None, seen=None):
            if model["gain"] != seen:
                matrix = make(2 * model["gain"])
            super().__init__(model=model, matrix=matrix, seen=model["gain"])

        def gain(self):
            return getattr(self.params.matrix, "gain", self.params.matrix)

        def process_frame(self, frame):
            self.results.x[:] = self.gain()

        def get_results(self):
            return {"x": self.results.x * self.gain()}

    model = {"gain": 1}
    udf = Follows(model)
    with shared(executor) as ctx:
        dataset = ctx.load("memory", data=data, sig_dims=2, num_partitions=2)
        for model["gain"] in (2, 3, 3, 1):
            assert (ctx.run_udf(dataset=dataset, udf=udf)["x"].data == 4 * model["gain"] ** 2).all()


def test_constructors_that_convert_are_found_beside_a_dict(ctx, dataset):
    class Doubles(Sums):
        def __init__(self, model, scale=2):
            super().__init__(model=model, scale=2 * scale)

    class Halves(Sums):
        def __init__(self, scale):
            super().__init__(scale=max(1, scale // 2))

    class Percent(Sums):
        def __init__(self, model, scale):
            super().__init__(model=model, scale=scale / 100 if scale > 1 else scale)

    changed = Percent({"gain": 1}, 150)
    changed.params.model["gain"] = 2
    unchanged = Percent({"gain": 1}, 150), Percent(np.ones(3), 150)
    for udf in (Doubles({"gain": 1}), Halves(4), changed, *unchanged):
        with pytest.raises(UDFError, match="converts parameter 'scale'"):
            ctx.run_udf(dataset=dataset, udf=udf)


def test_constructors_that_take_means_off_and_count(ctx, dataset):
    numbers = itertools.count()

    class Settles(Sums):
        def __init__(self, template):
            template = np.asarray(template, "float32")
            super().__init__(template=(template - template.mean()) / template.std())

    class Counts(Sums):
        def __init__(self, **ignored):
            super().__init__(number=next(numbers))

    template = 1000 + np.random.default_rng(1).random(60)
    for udf in (Settles(template), Counts()):
        assert ctx.run_udf(dataset=dataset, udf=udf)["x"].data.any()


def test_constructors_that_call_no_other(ctx, dataset):
    class Forgets(Sums):
        def __init__(self):
            pass

    with pytest.raises(UDFError, match=r"Forgets.__init__ does not call super\(\).__init__"):
        ctx.run_udf(dataset=dataset, udf=Forgets())


def test_constructors_that_tidy_up_do_round_trip(ctx, dataset, sums):
    class Tidies(Sums):
        def __init__(self, a=None, b=(), c=np.nan, f=len):
            super().__init__(a=np.array([1, np.nan]) if a is None else np.array(a), b=list(b), c=c)
            self.helper = lambda frame: f(frame)

    udf = Tidies(b=(1, 2.5, "c"))
    assert np.allclose(ctx.run_udf(dataset=dataset, udf=udf)["x"].data, sums)


def test_aux_data_are_views_in_every_hook(ctx, data, roi):
    dataset = ctx.load("memory", data=data, sig_dims=2, num_partitions=1)
    seen = {}

    class Looks(Sums):
        def look(self, hook):
            assert type(self.params.weight) is np.ndarray
            seen.setdefault(hook, []).append(len(self.params.weight))

        def process_tile(self, tile):
            assert len(self.params.weight) == len(tile)

    def looking(hook):
        def method(self, *args, **kwargs):
            self.look(hook)
            return getattr(Sums, hook)(self, *args, **kwargs)

        return method

    hooks = [
        "get_result_buffers",
        "get_preferred_input_dtype",
        "get_tiling_preferences",
        "get_backends",
        "get_method",
        "get_task_data",
        "preprocess",
        "postprocess",
        "merge",
        "get_results",
        "cleanup",
    ]
    udf = type("Looking", (Looks,), {hook: looking(hook) for hook in hooks})
    weight = UDF.aux_data(np.ones((16, 16)), kind="nav")
    ctx.run_udf(dataset=dataset, udf=udf(weight=weight), roi=roi)
    n_selected = np.count_nonzero(roi)
    assert set(seen) == set(hooks)
    assert {length for lengths in seen.values() for length in lengths} == {n_selected}


def test_aux_data_that_do_not_fit_name_udf_and_parameter(ctx, dataset):
    udf = Sums(weight=UDF.aux_data(np.ones(3), kind="nav"))
    with pytest.raises(InvalidArgumentError, match=r"Sums: AUX data 'weight' have shape \(3,\)"):
        ctx.run_udf(dataset=dataset, udf=udf)


def test_what_get_results_may_return(ctx, dataset, sums, roi):
    def run(value, roi=None, **declared):
        return ctx.run_udf(dataset=dataset, udf=Computes(value, **declared), roi=roi)["y"]

    assert np.allclose(run(lambda udf: udf.results.x).data, sums)
    assert np.allclose(run(lambda udf: udf.results.x.reshape(16, 16)).data, sums)
    assert np.allclose(run(lambda udf: list(udf.results.x)).data, sums)
    assert run(lambda udf: np.ones(1024), kind="sig").data.shape == (32, 32)
    assert run(lambda udf: 2.5, kind="single").data == [2.5]
    assert run(lambda udf: np.ones(256, np.float64)).data.dtype == np.float32

    everywhere = np.arange(256.0).reshape(16, 16)
    # What is given for all of the scan stays; where nothing is given, there is no number.
    for value, outside in ((everywhere, everywhere[~roi]), (everywhere[roi], np.nan)):
        result = run(lambda udf, value=value: value, roi=roi)
        assert np.array_equal(result.data[roi], everywhere[roi])
        assert np.array_equal(result.data[~roi], np.broadcast_to(outside, 256 - roi.sum()), True)
        assert np.array_equal(result.raw_data, everywhere[roi])
        assert np.array_equal(result.valid_mask, roi)
    mask = everywhere > 100
    result = run(lambda udf: udf.with_mask(everywhere, mask), roi=roi)
    assert np.array_equal(result.valid_mask, mask & roi)


@pytest.mark.parametrize(
    ("value", "declared", "message"),
    [
        (np.ones(3), {}, r"Computes.get_results returned 'y' with shape \(3,\).*\(256,\)"),
        (1.0, {}, r"'y' with shape \(\).*kind='nav'"),
        (np.ones(1024), {"kind": "sig", "extra_shape": (2,)}, r"\(1024,\).*\(32, 32, 2\)"),
        (np.ones((3, 4)), {"kind": "single", "extra_shape": (2,)}, r"\(3, 4\).*\(2,\)"),
        (np.ones(256), {"dtype": "int32"}, "'y' with dtype float64.*declared int32"),
        (np.ones(256, complex), {}, "'y' with dtype complex128.*declared float32"),
        ("text", {"kind": "single"}, "'y' with dtype <U4"),
    ],
)
def test_what_get_results_may_not_return(ctx, dataset, value, declared, message):
    with pytest.raises(UDFError, match=message):
        ctx.run_udf(dataset=dataset, udf=Computes(lambda udf: value, **declared))


def test_masks_of_results_are_checked():
    assert UDF.with_mask(np.zeros((2, 2)), True).mask.all()
    with pytest.raises(InvalidMaskError, match="dtype int64"):
        UDF.with_mask(np.zeros((2, 2)), np.ones((2, 2), dtype=np.int64))


def test_exceptions_on_the_main_side_name_the_udf(ctx, dataset):
    for hook in ["preprocess", "merge", "get_results", "get_result_buffers", "cleanup"]:

        def fail(self, *args, **kwargs):
            raise LookupError("no such thing")

        udf = type("Failing", (Sums,), {hook: fail})()
        with pytest.raises(LookupError, match="no such thing") as caught:
            ctx.run_udf(dataset=dataset, udf=udf)
        assert "UDF Failing" in "".join(caught.value.__notes__), hook


def test_results_hold_arrays_that_can_be_replaced(ctx, dataset, sums):
    result = ctx.run_udf(dataset=dataset, udf=Sums())["x"]
    assert result.has_data()
    result.replace_array(np.arange(256))
    assert result.data[1, 0] == 16
    assert result.dtype == result.data.dtype
    with pytest.raises(InvalidArgumentError, match=r"shape \(3,\), expected one of shape \(256,\)"):
        result.replace_array(np.ones(3))
    assert not BufferWrapper("nav").has_data()


def test_outside_of_the_roi_complex_results_are_not_a_number(ctx, dataset, roi):
    res = ctx.run_udf(dataset=dataset, udf=declares("nav", {"dtype": "complex64"}), roi=roi)
    outside = res["x"].data[~roi]
    assert np.isnan(outside.real).all()
    assert np.isnan(outside.imag).all()


def test_looking_at_a_udf_without_a_run(ctx, dataset, roi):
    class Never(Computes):
        def process_frame(self, frame):
            raise AssertionError("a frame was read")

    udf = Never(lambda udf: np.full(1024, 7.0), kind="sig")
    buffers = UDFRunner.inspect_udf(udf, dataset, roi=roi)
    assert {name: (b.kind, b.shape, b.use) for name, b in buffers.items()} == {
        "x": ("nav", (16, 16), None),
        "y": ("sig", (32, 32), "result_only"),
    }
    assert not buffers["x"].has_data()
    assert UDFRunner.inspect_udf(SumUDF(), dataset)["intensity"].shape == (32, 32)

    results = UDFRunner.dry_run([udf, SumUDF()], dataset, roi=roi)
    assert not results.damage.data.any()
    assert not results[0]["x"].valid_mask.any()
    assert (results[0]["y"].data == 7).all()
    assert not results[1]["intensity"].data.any()


def test_what_is_written_into_tiles_is_not_seen_by_others(ctx, dataset):
    class Vandal(Sums):
        def process_tile(self, tile):
            tile += 1

    plain = ctx.run_udf(dataset=dataset, udf=SumUDF())["intensity"].data
    *_, beside = ctx.run_udf(dataset=dataset, udf=[Vandal(), SumUDF()])
    assert np.array_equal(beside["intensity"].data, plain)


def test_importing_the_package_needs_numpy_only():
    import subprocess

    code = "import sys, framefold.udf.base; print(*sorted({n.split('.')[0] for n in sys.modules}))"
    names = subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True
    ).stdout.split()
    assert not {"scipy", "sparse", "matplotlib", "numba", "dask", "tqdm"} & set(names)
