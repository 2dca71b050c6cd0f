"""Functions that others compiled, beside those in Python."""

from __future__ import annotations

import ctypes
import pickle
import platform
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from ctypes_plugin import MERGE, Plugin
from shared_contexts import shared

import framefold as ff
from framefold.exceptions import (
    ArgumentTypeError,
    InvalidArgumentError,
    UDFError,
    UnsupportedError,
)

HERE = Path(__file__).parent
#: Built against minor version 0 of the interface; kept as it is.
KEPT = HERE / "plugin" / "sums_x86_64_linux.so"
runs_here = pytest.mark.skipif(
    (sys.platform, platform.machine()) != ("linux", "x86_64"),
    reason="the compiled function that is kept is one for Linux on x86-64",
)

new_capsule = ctypes.pythonapi.PyCapsule_New
new_capsule.restype = ctypes.py_object
new_capsule.argtypes = [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
NAME = ctypes.c_char_p(b"framefold.udf_v1")


class Sums:
    """The kept function."""

    def __framefold_udf__(self) -> Any:
        library = ctypes.CDLL(str(KEPT))
        table = ctypes.addressof(ctypes.c_char.in_dll(library, "table"))
        return new_capsule(table, NAME, None)


class Returns:
    """Anything, from its method."""

    def __init__(self, returned: Any) -> None:
        self.returned = returned

    def __framefold_udf__(self) -> Any:
        if isinstance(self.returned, Exception):
            raise self.returned
        return self.returned


class Mean(ff.UDF):
    def get_result_buffers(self) -> Any:
        return {"mean": self.buffer("nav", dtype="float64")}

    def process_frame(self, frame: Any) -> None:
        self.results.mean[:] = frame.mean()


class InPercent(ff.NativeUDF):
    """Adds to the results of a function."""

    def get_results(self) -> Any:
        return {"of_frames": 100 * self.results.of_frames / self.results.of_frames.sum()}


DATA = np.random.default_rng(7).integers(0, 100, (4, 5, 6, 7)).astype(np.uint16)
ROI = np.random.default_rng(8).random((4, 5)) < 0.5


def check(result: Any, roi: Any = None) -> None:
    frames = DATA.reshape(20, 6, 7) if roi is None else DATA[roi]
    found = result["of_frames"].raw_data if roi is not None else result["of_frames"].data.ravel()
    assert np.array_equal(found, frames.sum((1, 2)))
    assert np.array_equal(result["of_pixels"].data, frames.sum(0))


@runs_here
@pytest.mark.parametrize("executor", ["inline", "threads", "processes", "delayed"])
def test_runs_beside_others_on_every_executor(executor):
    with shared(executor) as ctx:
        dataset = ctx.load("memory", data=DATA, sig_dims=2, num_partitions=3)
        for roi in (None, ROI):
            sums, own, mean = ctx.run_udf(
                dataset=dataset, udf=[Sums(), ff.SumUDF(), Mean()], roi=roi
            )
            check(sums, roi)
            assert np.array_equal(own["intensity"].data, sums["of_pixels"].data)
            kept = DATA.reshape(20, -1) if roi is None else DATA[roi].reshape(-1, 42)
            raw = mean["mean"].raw_data
            assert np.allclose(raw, kept.mean(1))


class Ones(Plugin):
    """Writes 1 for each frame."""

    def __framefold_udf__(self) -> Any:
        capsule = super().__framefold_udf__()
        self.tables = [*getattr(self, "tables", []), self.table]  # each is for a run
        return capsule

    def _process(self, _task: Any, _tile: Any, views: Any, *_: Any) -> int:
        rows_of(views)[:] = 1
        return 0


class Doubles(Ones):
    """Merges twice that."""

    def __framefold_udf__(self) -> Any:
        capsule = super().__framefold_udf__()
        self.table.merge = MERGE(self._merge)
        return capsule

    def _merge(self, _this: Any, dest: Any, src: Any, *_: Any) -> int:
        rows_of(dest)[:] = 2 * rows_of(src)
        return 0


class OneMore(ff.NativeUDF):
    def get_results(self) -> Any:
        return {"pid": self.results.pid + 1}


def rows_of(views: Any) -> Any:
    n = views[0].shape[0]
    return np.ctypeslib.as_array((ctypes.c_int64 * n).from_address(views[0].data))


@pytest.mark.parametrize("executor", ["inline", "delayed"])
def test_results_of_frames_that_the_function_merges_or_finishes(executor):
    with shared(executor) as ctx:
        dataset = ctx.load("memory", data=DATA, sig_dims=2, num_partitions=3)
        for function in (Doubles(), OneMore(Ones())):
            found = ctx.run_udf(dataset=dataset, udf=function, roi=ROI)["pid"]
            assert np.array_equal(found.data, 2 * ROI)


@runs_here
def test_taken_alone_wrapped_and_from_sparse_data():
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("memory", data=DATA, sig_dims=2)
    check(ctx.run_udf(dataset=dataset, udf=Sums()))
    check(ctx.run_udf(dataset=dataset, udf=ff.NativeUDF(Sums())))
    tiles = ctx.load("memory", data=DATA, sig_dims=2, tileshape=(3, 4, 3), num_partitions=4)
    check(ctx.run_udf(dataset=tiles, udf=Sums(), roi=ROI), ROI)
    for part in ctx.run_udf_iter(dataset=dataset, udf=[Sums()]):
        last = part.buffers[0]
    check(last)
    report = ff.check_udf(Sums(), dataset)
    assert report
    assert report.udf == "sums_in_c"
    of_udf = ctx.run_udf(dataset=dataset, udf=[Sums(), InPercent(Sums())])
    assert [result["of_frames"].about.udf for result in of_udf] == ["sums_in_c", "InPercent"]
    percent = of_udf[1]
    sums = DATA.sum((2, 3))
    assert np.allclose(percent["of_frames"].data, 100 * sums / sums.sum())
    assert np.array_equal(percent["of_pixels"].data, DATA.sum((0, 1)))


class OverScan:
    """Results for the whole scan, not all of them valid."""

    def get_results(self) -> Any:
        numbers = np.arange(20).reshape(self.meta.dataset_shape.nav)
        return {"pid": self.with_mask(numbers, numbers % 3 > 0)}


class OverScanNative(OverScan, ff.NativeUDF):
    pass


class OverScanInPython(OverScan, ff.UDF):
    def get_result_buffers(self) -> Any:
        return {"pid": self.buffer("nav", dtype="int64")}

    def process_frame(self, frame: Any) -> None:
        pass


@pytest.mark.parametrize("executor", ["inline", "processes", "delayed"])
@pytest.mark.parametrize("roi", [None, ROI])
def test_own_results_are_those_of_python(executor, roi):
    """Of one buffer of kind ``nav``, which delayed runs need not merge, and others put together."""
    udfs = [OverScanNative(Plugin()), OverScanInPython()]
    with shared(executor) as ctx:
        dataset = ctx.load("memory", data=DATA, sig_dims=2, num_partitions=3)
        native, in_python = (
            result["pid"] for result in ctx.run_udf(dataset=dataset, udf=udfs, roi=roi)
        )
        for name in ("data", "raw_data", "valid_mask"):
            assert np.array_equal(getattr(native, name), getattr(in_python, name))
        assert np.array_equal(native.data.ravel(), np.arange(20))
        if executor == "delayed":
            assert np.array_equal(native.delayed_data.compute(), native.data)
        else:
            assert np.array_equal(udfs[0].results.pid, native.raw_data)


@runs_here
def test_failures_name_function_and_place():
    ctx = ff.Context.make_with("inline")
    data = DATA.astype(np.int32)
    data[1, 2, 3, 4] = -1
    dataset = ctx.load("memory", data=data, sig_dims=2)
    with pytest.raises(UDFError, match=r"sums_in_c: frame at scan position \[1, 2\]: a pixel is b"):
        ctx.run_udf(dataset=dataset, udf=Sums())


@runs_here
def test_later_versions_and_broken_tables_are_refused():
    library = ctypes.CDLL(str(KEPT))
    n_bytes = 8 * 16
    start = ctypes.addressof(ctypes.c_char.in_dll(library, "table"))
    kept = ctypes.string_at(start, n_bytes)

    def refused(offset: int, value: int) -> str:
        table = ctypes.create_string_buffer(kept, n_bytes)
        ctypes.c_uint64.from_buffer(table, offset).value = value
        pointer = ctypes.addressof(table)
        with pytest.raises(InvalidArgumentError) as caught:
            plan(Returns(new_capsule(pointer, NAME, None)))
        return str(caught.value)

    assert "size is 17 bytes" in refused(0, 17)
    assert "major version 2 of the interface, and this framefold knows 1" in refused(8, 2)
    assert "has no function 'requirements'" in refused(48, 0)
    assert "has no function 'merge'" in refused(104, 0)


def plan(function: Any) -> None:
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("memory", data=DATA, sig_dims=2)
    ctx.run_udf(dataset=dataset, udf=function)


def test_what_is_no_capsule_of_the_interface_is_refused():
    some = ctypes.addressof(ctypes.create_string_buffer(256))
    later = ctypes.c_char_p(b"framefold.udf_v2")
    with pytest.raises(InvalidArgumentError, match=r"Returns: .*object of type int, expected a c"):
        plan(Returns(3))
    with pytest.raises(InvalidArgumentError, match=r"named 'framefold.udf_v2'.*version 2"):
        plan(Returns(new_capsule(some, later, None)))
    with pytest.raises(InvalidArgumentError, match="a capsule without a name, expected one named"):
        plan(Returns(new_capsule(some, None, None)))
    with pytest.raises(ZeroDivisionError, match="mine") as caught:
        plan(Returns(ZeroDivisionError("mine")))
    assert "__framefold_udf__" in "".join(caught.value.__notes__)


def test_what_is_no_function_is_refused():
    with pytest.raises(ArgumentTypeError, match=r"no method __framefold_udf__\(\)"):
        ff.NativeUDF(3)
    with pytest.raises(ArgumentTypeError, match="pass an instance, not the class"):
        ff.NativeUDF(Sums)
    with pytest.raises(ArgumentTypeError, match="pass an instance, not the class"):
        plan(Sums)

    class Merges(ff.NativeUDF):
        def merge(self, dest: Any, src: Any) -> None: ...

    class Processes(ff.NativeUDF):
        def process_frame(self, frame: Any) -> None: ...

    for cls, name in ((Merges, "merge"), (Processes, "process_frame")):
        with pytest.raises(UnsupportedError, match=f"{cls.__name__} overrides {name} of a comp"):
            plan(cls(Returns(None)))


@runs_here
def test_pickles_as_its_function_does():
    copy = pickle.loads(pickle.dumps(ff.NativeUDF(Sums())))
    plan(copy)
    assert isinstance(copy.params.function, Sums)
