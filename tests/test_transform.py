"""Stages of one's own in Python, held against NumPy on the whole array."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings
from itertools import product

import numpy as np
import pytest
from shared_contexts import shared
from stage_cases import DTYPES, binned, numbers
from test_stages import Frames
from transform_cases import FORMS, CompiledArrays, Each, by_numpy

import framefold as ff
from framefold.io.corrections import CorrectionSet
from framefold.udf.engine import native
from framefold.warnings import DataSetWarning, NotCompiledWarning

NAV, SIG = (3, 5), (8, 11)


@pytest.fixture(scope="module")
def ctx():
    return ff.Context.make_with("inline")


def check(found, expected):
    assert found.dtype == expected.dtype
    np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("form", FORMS)
def test_each_form_gives_what_numpy_gives(ctx, form):
    # Compiling takes its time.
    some = ("bool", "uint8", "int32", "float64", "complex64")
    for dtype in some if "compiled" in form else DTYPES:
        out = "complex64" if dtype.startswith("complex") else "float32"
        array = numbers((*NAV, *SIG), dtype)
        dataset = ctx.load("memory", data=array).pipe(FORMS[form](dtype=out))
        assert tuple(dataset.shape) == (*NAV, 7, 11)
        check(np.asarray(dataset), by_numpy(array, dtype=out))


def test_compiled_expressions_of_whole_arrays_give_what_numpy_gives(ctx):
    array = numbers((*NAV, *SIG), "int32")
    check(np.asarray(ctx.load("memory", data=array).pipe(CompiledArrays())), by_numpy(array))


def test_half_precision(ctx):
    array = numbers((*NAV, *SIG), "float16")
    for form in ("frames", "stacks"):
        dataset = ctx.load("memory", data=array).pipe(FORMS[form](dtype="float16"))
        check(np.asarray(dataset), by_numpy(array, dtype="float16"))


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("method", ["tile", "frame", "partition"])
def test_any_tiling_region_and_piece(ctx, form, method):
    array = numbers((*NAV, *SIG), "int32", seed=2)
    roi = np.random.default_rng(3).random(NAV) < 0.6
    dataset = ctx.load("memory", data=array, num_partitions=4).pipe(FORMS[form](0.25, "float64"))
    expected = by_numpy(array, 0.25, "float64")
    for depth, size, mask in product((1, 4), (400, 1 << 20), (None, roi)):
        udf = Frames(method, depth, size)
        found = ctx.run_udf(dataset=dataset, udf=udf, roi=mask)["frames"].raw_data
        check(found, expected[np.ones(NAV, bool) if mask is None else mask])


@pytest.mark.parametrize("form", FORMS)
def test_frames_that_take_many_pieces(ctx, form):
    array = numbers((9, 300, 1000), "uint16", seed=3)
    dataset = ctx.load("memory", data=array, sig_dims=2, num_partitions=2).pipe(FORMS[form]())
    check(np.asarray(dataset), by_numpy(array))


def test_large_frames_are_made_once_and_in_many_partitions(ctx):
    calls = []

    class Counted(ff.Transform):
        def process_frame(self, frame, out):
            calls.append(int(frame[0, 0]))
            out[:] = frame

    array = np.zeros((20, 1100, 1000), np.uint16) + np.arange(20, dtype=np.uint16)[:, None, None]
    dataset = ctx.load("memory", data=array, sig_dims=2).pipe(Counted(), ff.Bin(2))
    found = ctx.run_udf(dataset=dataset, udf=ff.SumUDF())["intensity"].data
    assert (np.asarray(found) == 4 * sum(range(20))).all()
    assert sorted(calls) == list(range(20))
    # Not bands of frames, which would leave one worker to make all of them.
    assert (
        ff._engine.Plan(dataset._engine, [native.native_udf(ff.SumUDF(), dataset)]).n_partitions > 8
    )


@pytest.mark.parametrize("executor", ["inline", "threads", "processes", "auto"])
def test_the_same_bits_on_every_executor(executor):
    array = numbers((*NAV, *SIG), "uint16", seed=4)
    options = {} if executor == "inline" else {"cpus": 2}
    with shared(executor, **options) as ctx:
        for form in FORMS.values():
            dataset = ctx.load("memory", data=array, num_partitions=5).pipe(form(0.3))
            both = ctx.run_udf(dataset=dataset, udf=[Frames(), ff.SumUDF()])
            check(np.asarray(both[0]["frames"].data), by_numpy(array, 0.3))
            one = ctx.run_udf(dataset=dataset, udf=ff.SumUDF())["intensity"].data
            assert np.asarray(one).tobytes() == np.asarray(both[1]["intensity"].data).tobytes()


@pytest.mark.parametrize("executor", ["dask", "delayed"])
def test_dask(executor):
    array = numbers((*NAV, *SIG), "uint16", seed=4)
    with shared(executor) as ctx:
        for form in ("frames", "compiled stacks"):
            dataset = ctx.load("memory", data=array, num_partitions=3).pipe(FORMS[form](0.3))
            found = ctx.run_udf(dataset=dataset, udf=Frames())["frames"]
            check(np.asarray(found.data), by_numpy(array, 0.3))


def test_what_auto_and_processes_take():
    array = numbers((*NAV, *SIG), "uint16")

    def explained(ctx, form, udf):
        dataset = ctx.load("memory", data=array, num_partitions=3)
        dataset = dataset.pipe(FORMS[form]()) if form else dataset
        return str(ctx.explain(dataset=dataset, udf=udf))

    with ff.Context.make_with("auto", cpus=2) as ctx:
        assert "all UDFs run on native kernels\n" in explained(ctx, None, ff.SumUDF())
        assert "worker processes" in explained(ctx, "frames", ff.SumUDF())
        assert "worker processes" in explained(ctx, "stacks", ff.SumUDF())
        threads = "threads, as all UDFs run on native kernels, and all transforms are compiled"
        assert threads in explained(ctx, "compiled", ff.SumUDF())
        assert "worker processes" in explained(ctx, "compiled", Frames())
    with shared("processes", cpus=2) as ctx:
        assert "threads" in explained(ctx, None, ff.SumUDF())
        for form in FORMS:
            assert "2 worker processes" in explained(ctx, form, ff.SumUDF())


class ProcessId(ff.Transform):
    def get_output(self):
        return self.output(sig=1, dtype="int64")

    def process_frame(self, frame, out):
        out[:] = os.getpid()


def test_native_kernels_over_python_run_in_worker_processes():
    with shared("processes", cpus=2) as ctx:
        dataset = ctx.load("memory", data=np.zeros((6, 4, 4)), sig_dims=2).pipe(ProcessId())
        ids = np.unique(ctx.run_udf(dataset=dataset, udf=ff.PickUDF())["intensity"].data)
        assert os.getpid() not in ids


def test_a_random_chain(ctx):
    rng = np.random.default_rng(int(os.environ.get("FRAMEFOLD_SEED", "7")))
    for _ in range(12):
        array = numbers((*NAV, 24, 26), rng.choice(["uint8", "float64"]), seed=5)
        dataset, expected = ctx.load("memory", data=array), array
        for _ in range(int(rng.integers(2, 5))):
            kind = rng.integers(3)
            ny, nx = expected.shape[-2:]
            if kind == 0 and min(ny, nx) > 4:
                part = np.s_[int(rng.integers(3)) :, : nx - int(rng.integers(3))]
                dataset, expected = dataset.pipe(ff.Crop(part)), expected[..., *part]
            elif kind == 1 and min(ny, nx) > 4:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", DataSetWarning)
                    dataset = dataset.pipe(ff.Bin((2, 1)))
                expected = binned(expected, (2, 1))
            else:
                form = FORMS[str(rng.choice(list(FORMS)))]
                dataset = dataset.pipe(form(0.5, "float64"))
                expected = by_numpy(expected, 0.5, "float64")
        roi = rng.random(NAV) < 0.7
        method = str(rng.choice(["tile", "frame"]))
        udf = Frames(method, int(rng.integers(1, 5)), int(rng.choice([500, 1 << 20])))
        found = ctx.run_udf(dataset=dataset, udf=udf, roi=roi)["frames"].raw_data
        assert found.dtype == expected.dtype
        np.testing.assert_allclose(found, expected[roi], rtol=1e-12, err_msg=str(dataset.stages))


class Profile(ff.Transform):
    """Frames of another number of axes."""

    def get_output(self):
        ny, _ = self.meta.dataset_shape.sig
        return self.output(sig=[ny], dtype="uint64")

    @ff.compiled
    def process_frame(self, frame, out):
        for y in range(frame.shape[0]):
            for x in range(frame.shape[1]):
                out[y] += frame[y, x]


def test_frames_of_other_axes(ctx):
    array = numbers((*NAV, *SIG), "uint16")
    dataset = ctx.load("memory", data=array, pixel_size="2mrad").pipe(Profile())
    assert tuple(dataset.shape.sig) == (8,)
    check(np.asarray(dataset), array.sum(-1, dtype="u8"))
    assert dataset.axes[-1].unit == ""


class Same(ff.Transform):
    def process_frame(self, frame, out):
        out[:] = frame


class Nothing(ff.Transform):
    def process_frame(self, frame, out):
        pass


def test_calibration_is_kept_where_the_shape_is(ctx):
    array = numbers((*NAV, *SIG), "uint16")
    dataset = ctx.load("memory", data=array, pixel_size="2mrad", centre=(4, 5))
    same = dataset.pipe(Same())
    assert [str(axis) for axis in same.axes] == [str(axis) for axis in dataset.axes]
    assert same.dtype == np.uint16
    check(np.asarray(same), array)
    check(np.asarray(dataset.pipe(Nothing())), np.zeros_like(array))
    assert dataset.pipe(Each()).axes[-1].unit == ""


def test_corrections_come_first(ctx):
    array = numbers((*NAV, *SIG), "uint16")
    dark = np.full(SIG, 3, "f4")
    dataset = ctx.load("memory", data=array)

    class Dtypes(Each):
        def get_output(self):
            assert self.meta.input_dtype == np.float32
            assert self.meta.dataset_dtype == np.float32
            return super().get_output()

    found = dataset.pipe(CorrectionSet(dark=dark), Dtypes(dtype="float64"))
    check(np.asarray(found), by_numpy(array.astype("f4") - dark, dtype="float64"))
    of_run = ctx.run_udf(
        dataset=dataset.pipe(Each(dtype="float64")),
        udf=Frames(),
        corrections=CorrectionSet(dark=np.full((7, 11), 2, "f4")),
    )
    check(np.asarray(of_run["frames"].data), by_numpy(array, dtype="float64") - 2)


def test_sparse_frames_come_dense(ctx):
    import scipy.sparse

    array = np.where(numbers((15, *SIG), "uint16", seed=7) > 60000, 3, 0).astype("uint16")
    data = scipy.sparse.csr_matrix(array.reshape((15, -1)))
    dataset = ctx.load("memory", data=data, sig_shape=SIG, nav_shape=NAV)
    for form in FORMS.values():
        found = dataset.pipe(form())
        assert found.native_backends == (ff.UDF.BACKEND_NUMPY,)
        check(np.asarray(found), by_numpy(array.reshape((*NAV, *SIG))))


def test_derived_data_sets_are_data_sets(ctx, tmp_path):
    array = numbers((*NAV, *SIG), "uint16", seed=8).astype(">u2")
    np.save(tmp_path / "scan.npy", array)
    for form in FORMS.values():
        mask = np.ones((2, 2))
        dataset = ctx.open(tmp_path / "scan.npy").pipe(form(0.1, mask=mask), ff.Bin((1, 11)))
        expected = by_numpy(array, 0.1)[..., None].sum(-2, dtype="f8").astype("f4")
        check(dataset[1, 2], expected[1, 2])
        check(np.asarray(pickle.loads(pickle.dumps(dataset))), expected)
        for name in ("copy.npy", "copy.zarr"):
            ctx.export_dataset(dataset, tmp_path / name, overwrite=True)
            check(np.asarray(ctx.open(tmp_path / name)), expected)
        dask_array = ff.contrib.daskadapter.make_dask_array(dataset)[0]
        check(np.asarray(dask_array.compute()), expected)
        text = f"{form.__name__}(amount=0.1, dtype='float32', mask=<float64 array of shape (2, 2)>)"
        text += ", compiled" if "Compiled" in form.__name__ else ""
        assert dataset.stages == [text, "bin 1,11"]
        assert f"{text}, then bin" in str(ctx.explain(dataset=dataset, udf=ff.SumUDF()))


class Cropped(ff.Transform):
    def __init__(self, table):
        super().__init__(table=table)

    def process_frame(self, frame, out):
        out[:] = frame + self.params.table


def test_data_sets_do_not_change_with_the_arrays_of_users(ctx):
    array, table = np.ones((*NAV, *SIG)), np.ones(SIG)
    dataset = ctx.load("memory", data=array).pipe(Cropped(table))
    table[:] = 100
    check(np.asarray(dataset), array + 1)

    class Writes(Cropped):
        def process_frame(self, frame, out):
            self.params.table[:] += 1

    again = pickle.loads(pickle.dumps(dataset._changes[0][1]["transform"]))
    assert not again.params.table.flags.writeable
    with pytest.raises(ValueError, match="read-only"):
        np.asarray(ctx.load("memory", data=array).pipe(Writes(table)))


KEPT: list = []


class Keeps(ff.Transform):
    """Keeps all that it is given, and writes to all of it with every frame."""

    def __init__(self, keep):
        super().__init__(keep=keep)

    def process_frame(self, frame, out):
        for known, copy, kept in KEPT:
            np.testing.assert_array_equal(known, copy)
            kept[...] = 77
        out[:] = frame
        KEPT.append((frame, frame.copy(), self.params.keep(out)))


class KeepsStacks(Keeps):
    def process_frames(self, frames, out):
        self.process_frame(frames, out)


@pytest.mark.parametrize("cls", [Keeps, KeepsStacks])
@pytest.mark.parametrize(
    "keep", [lambda out: out, lambda out: out[..., 1:], lambda out: np.asarray(memoryview(out))]
)
def test_kept_arrays_change_nothing_and_do_not_change(ctx, cls, keep):
    KEPT.clear()
    values = np.arange(60, dtype=np.uint16).reshape((60, 1, 1))
    array = np.broadcast_to(values, (60, 4, 6)).copy()
    dataset = ctx.load("memory", data=array, sig_dims=2, num_partitions=10)
    # Binned first, so that frames lie in memory that the engine uses again.
    dataset = dataset.pipe(ff.Bin(1), cls(keep), ff.Cast("uint16"))
    if cls is Keeps:
        check(np.asarray(dataset), array)
    else:
        udf = Frames("tile", 3)
        check(ctx.run_udf(dataset=dataset, udf=udf)["frames"].raw_data, array)
    assert len(KEPT) > 5
    for frame, copy, out in KEPT[:-1]:
        check(frame, copy)
        assert (out == 77).all()


class Both(ff.Transform):
    def process_frame(self, frame, out):
        raise AssertionError

    def process_frames(self, frames, out):
        out[:] = frames


def test_stacks_come_before_frames(ctx):
    array = numbers((*NAV, *SIG), "uint16")
    check(np.asarray(ctx.load("memory", data=array).pipe(Both())), array)


class Scratch(ff.Transform):
    """Uses what it keeps between frames, as if it were alone."""

    def process_frame(self, frame, out):
        import time

        self.sum = np.zeros(frame.shape)
        time.sleep(0.001)
        self.sum += frame
        time.sleep(0.001)
        out[:] = self.sum


def test_each_thread_has_a_copy_of_its_own():
    array = numbers((64, 4, 4), "uint16")
    with ff.Context.make_with("threads", cpus=4) as ctx:
        dataset = ctx.load("memory", data=array, sig_dims=2, num_partitions=16).pipe(Scratch())
        check(ctx.run_udf(dataset=dataset, udf=Frames())["frames"].raw_data, array)


SCRIPT = """
import numpy as np
import framefold as ff

FACTOR = {factor}

def helper(frame):
    return frame * FACTOR

class Mine(ff.Transform):
    def process_frame(self, frame, out):
        out[:] = helper(frame)

class Compiled(ff.Transform):
    def __init__(self, table):
        super().__init__(table=table)

    @ff.compiled
    def process_frame(self, frame, out):
        for y in range(2):
            for x in range(2):
                out[y, x] = frame[y, x] * FACTOR - self.params.table[y, x]

if __name__ == "__main__":
    for executor in ("processes", "dask"):
        with ff.Context.make_with(executor, cpus=1) as ctx:  # one worker, which is another process
            data = np.arange(48).reshape((3, 4, 2, 2))
            dataset = ctx.load("memory", data=data, num_partitions=3)
            dataset = dataset.pipe(Mine(), Compiled(np.ones((2, 2), int)))
            total = ctx.run_udf(dataset=dataset, udf=ff.SumSigUDF())["intensity"].data
            np.testing.assert_array_equal(total, data.sum((2, 3)) * FACTOR**2 - 4)
    print("done")
"""


def test_classes_of_scripts(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT.format(factor=3))
    done = subprocess.run([sys.executable, path], capture_output=True, text=True, timeout=300)
    assert done.stdout.strip() == "done", done.stderr


def test_workers_run_the_code_as_it_is_here(tmp_path, monkeypatch):
    """Not what the file holds: a method may have been assigned to."""
    path = tmp_path / "own_transforms.py"
    path.write_text(SCRIPT.format(factor=3))
    monkeypatch.syspath_prepend(tmp_path)
    import own_transforms

    data = np.arange(48).reshape((3, 4, 2, 2))
    with shared("processes", cpus=2) as ctx:
        for factor in (3, 5):
            monkeypatch.setattr(own_transforms, "FACTOR", factor)
            dataset = ctx.load("memory", data=data, num_partitions=3).pipe(own_transforms.Mine())
            total = ctx.run_udf(dataset=dataset, udf=ff.SumSigUDF())["intensity"].data
            np.testing.assert_array_equal(total, data.sum((2, 3)) * factor)


def test_without_numba(ctx, monkeypatch):
    from framefold.udf import transform as module

    monkeypatch.setattr(module, "numba_is_installed", lambda: False)
    array = numbers((*NAV, *SIG), "uint16")
    with pytest.warns(NotCompiledWarning, match="CompiledEach: not compiled: Numba"):
        dataset = ctx.load("memory", data=array).pipe(FORMS["compiled"]())
    assert dataset.stages[0].endswith(", not compiled: Numba is not installed")
    check(np.asarray(dataset), by_numpy(array))


def test_new_values_of_scalars_compile_nothing(ctx, monkeypatch):
    array = numbers((*NAV, *SIG), "uint16")
    dataset = ctx.load("memory", data=array)
    dataset.pipe(FORMS["compiled"](0.5))
    from framefold.compilation import _compiler

    monkeypatch.setattr(_compiler, "compile_wanted", None)
    check(np.asarray(dataset.pipe(FORMS["compiled"](0.25))), by_numpy(array, 0.25))
