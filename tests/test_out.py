"""Results that are files: the same bits as in memory, written while the run goes on."""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import textwrap
import warnings
from pathlib import Path

import numpy as np
import pytest
from out_cases import (
    NAV,
    SIG,
    Breaks,
    Finished,
    Mixed,
    Wave,
    as_tuple,
    assert_same,
    contexts,
    frames,
    in_file,
    in_memory,
    left_in,
)

import framefold as ff
from framefold.exceptions import (
    ArgumentTypeError,
    FileAccessError,
    InvalidArgumentError,
    UnsupportedError,
)
from framefold.results.mapped import stored
from framefold.udf import UDF
from framefold.udf.reduction import ReductionUDF

ROIS = {
    "all": None,
    "few": np.arange(126).reshape(NAV) % 5 == 2,
    "none": np.zeros(NAV, bool),
    "last": np.arange(126).reshape(NAV) == 125,
}


@pytest.fixture(scope="module", params=list(contexts()))
def ctx(request):
    with contexts()[request.param]() as context:
        yield context


def pick():
    return ReductionUDF("pick")


def masks():
    return ff.ApplyMasksUDF(mask_factories=[lambda: np.ones(SIG), lambda: np.eye(*SIG)])


def zarr_arrays(path):
    zarr = pytest.importorskip("zarr", minversion="3")
    return zarr.open_group(path, mode="r")


@pytest.mark.parametrize("roi", ROIS)
@pytest.mark.parametrize("udf", [Wave, pick, masks, ff.SumSigUDF])
def test_same_bits_as_in_memory(ctx, tmp_path, udf, roi):
    dataset = in_file(ctx, tmp_path, missing=17)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        expected = ctx.run_udf(dataset, udf(), roi=ROIS[roi])
        found = ctx.run_udf(dataset, udf(), roi=ROIS[roi], out=tmp_path / "x.zarr")
    assert_same(found, expected)
    group = zarr_arrays(tmp_path / "x.zarr")
    for name, result in expected.items():
        assert group[name][...].tobytes() == result.data.tobytes()
        assert group[name].dtype == result.dtype
        valid = result.valid_mask
        if valid.all():
            assert f"{name}_valid" not in group
            continue
        found = group[f"{name}_valid"][...]
        if result.kind == "nav":
            assert found.shape == NAV
            found = found.reshape(*NAV, *(1 for _ in result.extra_shape))
        np.testing.assert_array_equal(np.broadcast_to(found, valid.shape), valid)
    assert left_in(tmp_path) == ["scan.raw", "x.zarr"]


@pytest.mark.parametrize(
    "dtype", ["bool", "uint8", "int16", "int64", "float32", "float64", "complex64", "complex128"]
)
def test_dtypes(tmp_path, dtype):
    ctx = ff.Context("inline")
    dataset = in_memory(ctx)
    roi = ROIS["few"]
    expected = ctx.run_udf(dataset, Wave(dtype), roi=roi)
    out = {"wave": tmp_path / "wave.npy", "spot": tmp_path / "spot.zarr"}
    found = ctx.run_udf(dataset, Wave(dtype), roi=roi, out=out)
    assert_same(found, expected)
    loaded = np.load(tmp_path / "wave.npy")
    assert (loaded.dtype, loaded.shape) == (np.dtype(dtype), (*NAV, *SIG))
    assert loaded.tobytes() == expected["wave"].data.tobytes()
    assert left_in(tmp_path) == ["spot.zarr", "wave.npy"]


def test_data_is_the_mapped_file(tmp_path):
    ctx = ff.Context("threads")
    dataset = in_memory(ctx)
    for path in (tmp_path / "wave.npy", tmp_path / "x.zarr"):
        out = {"wave": path}
        result = ctx.run_udf(dataset, Wave(), out=out)["wave"]
        assert isinstance(result.data, np.memmap)
        assert str(result.data.filename).startswith(str(path))
        assert result.raw_data.shape == (126, *SIG)
        assert isinstance(result.raw_data, np.memmap)
        with pytest.raises(ValueError, match="read-only"):
            result.data[0] = 1
        assert str(path) in repr(result)
        assert result.has_data()
        result.replace_array(np.zeros((126, *SIG)))
        assert not result.data.any()


def test_several_functions(ctx, tmp_path):
    dataset = in_memory(ctx)
    udfs = lambda: [Wave(), ff.SumUDF(), Mixed(), ff.SumSigUDF(), Finished(), ff.CoMUDF(), Wave()]  # noqa: E731
    expected = ctx.run_udf(dataset, udfs())
    found = ctx.run_udf(dataset, udfs(), out=tmp_path / "x.zarr")
    assert_same(found, expected)
    group = zarr_arrays(tmp_path / "x.zarr")
    names = ["Wave", "SumUDF", "Mixed", "SumSigUDF", "Finished", "CoMUDF", "Wave_2"]
    assert sorted(group) == sorted(names)
    for name, results in zip(names, expected, strict=True):
        for key, result in results.items():
            assert group[name][key][...].tobytes() == result.data.tobytes(), (name, key)
    mapped = {
        name for udf in found for name, each in udf.items() if isinstance(each.data, np.memmap)
    }
    assert mapped == {"wave", "spot", "intensity"}

    out = {"Wave_2/wave": tmp_path / "w.npy", "SumUDF/intensity": tmp_path / "sum.npy"}
    found = ctx.run_udf(dataset, udfs(), out=out)
    assert_same(found, expected)
    assert not isinstance(found[0]["wave"].data, np.memmap)
    assert np.load(tmp_path / "w.npy").tobytes() == expected[6]["wave"].data.tobytes()
    assert np.load(tmp_path / "sum.npy").tobytes() == expected[1]["intensity"].data.tobytes()


def test_axes_units_and_where_it_is_from(tmp_path):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("zarr", minversion="3")
    ctx = ff.Context("threads")
    dataset = in_file(ctx, tmp_path).calibrate(scan_step="0.5 nm")
    roi = ROIS["few"]
    ctx.run_udf(dataset, Wave(factor=np.arange(12)), roi=roi, out=tmp_path / "x.zarr")
    with xarray.open_zarr(tmp_path / "x.zarr", consolidated=False) as opened:
        assert opened["wave"].dims[:2] == opened["spot"].dims == opened["wave_valid"].dims
        assert opened["spot"].attrs["units"] == "px"
        np.testing.assert_allclose(opened[opened["spot"].dims[0]], np.arange(9) * 0.5)
        about = opened.attrs
    assert about["creator"] == f"framefold {ff.__version__}"
    assert about["numpy"] == np.__version__
    assert about["data_set"] == [str(tmp_path / "scan.raw")]
    assert about["data_set_format"] == "raw"
    assert about["data_set_shape"] == str((*NAV, *SIG))
    assert about["roi"].startswith("25 of 126 positions, sha256:")
    assert about["udf"] == "out_cases.Wave"
    parameters = json.loads(about["parameters"])
    assert parameters["dtype"] == "'float32'"
    assert parameters["factor"].startswith("<i8 (12,) sha256:")
    assert "date" in about
    assert "python" in about
    assert "scan_step" in str(about["data_set_changes"]) or "0.5" in str(about["data_set_changes"])


def test_corrections_are_named(tmp_path):
    from framefold.io.corrections import CorrectionSet

    ctx = ff.Context("inline")
    dark = CorrectionSet(dark=np.ones(SIG))
    expected = ctx.run_udf(in_memory(ctx), Wave(), corrections=dark)
    found = ctx.run_udf(in_memory(ctx), Wave(), corrections=dark, out=tmp_path / "x.zarr")
    assert_same(found, expected)
    about = json.loads((tmp_path / "x.zarr/zarr.json").read_text())["attributes"]
    assert "sha256:" in about["corrections"]


def test_functions_in_event_loops(tmp_path):
    ctx = ff.Context("threads")
    dataset = in_memory(ctx)
    expected = ctx.run_udf(dataset, Wave())
    run = ctx.run_udf(dataset, Wave(), out=tmp_path / "x.zarr", sync=False)
    assert_same(asyncio.run(run), expected)


def test_compiled_functions(tmp_path):
    pytest.importorskip("numba")
    from framefold import compiled

    class Scaled(UDF):
        def get_result_buffers(self):
            return {"x": self.buffer(kind="nav", extra_shape=(3,), dtype="float32")}

        @compiled
        def process_frame(self, frame):
            for n in range(3):
                self.results.x[n] = frame[0, n] * 2

    ctx = ff.Context("threads")
    dataset = in_memory(ctx)
    expected = ctx.run_udf(dataset, Scaled())
    assert_same(ctx.run_udf(dataset, Scaled(), out=tmp_path / "x.npy"), expected)


class Prepared(UDF):
    """Sets initial values in ``preprocess``, on workers and on the main side."""

    def get_result_buffers(self):
        return {
            "x": self.buffer(kind="nav", extra_shape=(2,)),
            "own": self.buffer(kind="nav", use="private"),
        }

    def preprocess(self):
        self.results.x[:] = 3

    def process_frame(self, frame):
        self.results.x[0] += frame.flat[0]


def test_what_preprocess_and_private_buffers_do(ctx, tmp_path):
    dataset = in_file(ctx, tmp_path, missing=20)
    udf = Prepared()
    with pytest.warns(ff.warnings.MissingFramesWarning):
        expected = ctx.run_udf(dataset, Prepared())
    with pytest.warns(ff.warnings.MissingFramesWarning):
        found = ctx.run_udf(dataset, udf, out=tmp_path / "x.npy")
    assert_same(found, expected)
    assert "x" not in udf.results, "zeros in memory would look like results"


def test_a_user_object_knows_no_result_of_a_kernel(tmp_path):
    ctx = ff.Context("inline")
    udf = ff.SumSigUDF()
    ctx.run_udf(in_memory(ctx), udf, out=tmp_path / "x.npy")
    assert "intensity" not in udf.results


class Empty(UDF):
    def get_result_buffers(self):
        return {"x": self.buffer(kind="nav", extra_shape=(0, 3))}

    def process_frame(self, frame):
        pass


def test_results_without_a_value(tmp_path):
    ctx = ff.Context("inline")
    for name in ("x.npy", "x.zarr"):
        found = ctx.run_udf(in_memory(ctx), Empty(), out=tmp_path / name)
        assert_same(found, ctx.run_udf(in_memory(ctx), Empty()))
    assert np.load(tmp_path / "x.npy").shape == (*NAV, 0, 3)
    assert zarr_arrays(tmp_path / "x.zarr")["x"][...].shape == (*NAV, 0, 3)


def test_files_are_overwritten_if_asked(ctx, tmp_path):
    dataset = in_memory(ctx)
    for path in (tmp_path / "x.zarr", tmp_path / "x.npy"):
        out = {"wave": path}
        ctx.run_udf(dataset, Wave(), out=out)
        with pytest.raises(InvalidArgumentError, match=f"{re.escape(str(path))}.* output exists"):
            ctx.run_udf(dataset, Wave(factor=2), out=out)
        again = ctx.run_udf(dataset, Wave(factor=2), out=out, overwrite=True)
        assert again["wave"].data.tobytes() == (frames() * np.float32(2)).astype("f4").tobytes()
    assert left_in(tmp_path) == ["x.npy", "x.zarr"]


class Names(UDF):
    def get_result_buffers(self):
        return {"name": self.buffer(kind="nav", dtype=object), "x": self.buffer(kind="nav")}

    def process_frame(self, frame):
        self.results.name[:] = "a"
        self.results.x[:] = frame.sum()


REFUSED = {
    "another ending": (Wave, "x.h5", InvalidArgumentError, "neither .zarr nor .npy"),
    "two in one .npy": (Wave, "x.npy", InvalidArgumentError, "holds one result"),
    "an unknown name": (Wave, {"weve": "x.npy"}, InvalidArgumentError, "there are 'wave', 'spot'"),
    "one file for two": (
        Wave,
        {"wave": "x.npy", "spot": "./x.npy"},
        InvalidArgumentError,
        "two results go to",
    ),
    "objects": (Names, "x.zarr", UnsupportedError, "'name' has dtype object"),
    "no path": (Wave, 5, ArgumentTypeError, "pass the path"),
    "nothing": (Wave, {}, ArgumentTypeError, "pass the path"),
    "no folder": (Wave, "nowhere/x.zarr", FileAccessError, "create it"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_written_is_refused_at_once(tmp_path, monkeypatch, case):
    monkeypatch.chdir(tmp_path)
    udf, out, error, message = REFUSED[case]
    ctx = ff.Context("inline")
    with pytest.raises(error, match=message) as caught:
        ctx.run_udf(in_memory(ctx), udf(), out=out)
    assert message in str(caught.value) + str(getattr(caught.value, "hint", ""))
    assert left_in(tmp_path) == []


def test_objects_can_be_left_out(tmp_path):
    ctx = ff.Context("inline")
    found = ctx.run_udf(in_memory(ctx), Names(), out={"x": tmp_path / "x.npy"})
    np.testing.assert_array_equal(np.load(tmp_path / "x.npy"), found["x"].data)
    assert found["name"].data[0, 0] == "a"


def test_a_read_only_folder(tmp_path):
    if os.geteuid() == 0:
        pytest.skip("root may write anywhere")
    (tmp_path / "there").mkdir(mode=0o500)
    ctx = ff.Context("inline")
    with pytest.raises(FileAccessError, match="Permission denied"):
        ctx.run_udf(in_memory(ctx), Wave(), out=tmp_path / "there/x.zarr")


def test_an_input_is_not_overwritten(tmp_path):
    np.save(tmp_path / "scan.npy", frames())
    ctx = ff.Context("inline")
    dataset = ctx.load("npy", tmp_path / "scan.npy")
    with pytest.raises(InvalidArgumentError, match="one of the input files"):
        ctx.run_udf(dataset, ff.SumSigUDF(), out=tmp_path / "scan.npy", overwrite=True)


def test_arguments_that_do_not_fit(tmp_path):
    ctx = ff.Context("inline")
    dataset = in_memory(ctx)
    for given in ({"resume": True}, {"overwrite": True}):
        with pytest.raises(InvalidArgumentError, match="nothing to write"):
            ctx.run_udf(dataset, Wave(), **given)
    with pytest.raises(InvalidArgumentError, match="plots show results in memory"):
        ctx.run_udf(dataset, Wave(), out=tmp_path / "x.zarr", plots=True)
    pytest.importorskip("dask.array")
    with (
        ff.Context("delayed") as delayed,
        pytest.raises(UnsupportedError, match="a delayed run computes nothing"),
    ):
        delayed.run_udf(in_memory(delayed), Wave(), out=tmp_path / "x.zarr")
    assert left_in(tmp_path) == []


class Fails(UDF):
    def get_result_buffers(self):
        return {"x": self.buffer(kind="nav")}

    def process_frame(self, frame):
        if self.meta.slice.origin[0] == 70:
            raise ZeroDivisionError("in the middle")


def test_a_run_that_fails_leaves_nothing_that_looks_whole(ctx, tmp_path):
    dataset = in_memory(ctx)
    with pytest.raises(ZeroDivisionError) as caught:
        ctx.run_udf(dataset, Fails(), out=tmp_path / "x.zarr")
    assert not any("resume" in note for note in caught.value.__notes__)
    with pytest.raises(ZeroDivisionError):
        ctx.run_udf(dataset, [Fails(), ff.SumUDF()], out=tmp_path / "x.zarr")
    assert left_in(tmp_path) == [], "data in memory cannot be resumed"
    assert_same(ctx.run_udf(dataset, Wave(), out=tmp_path / "x.zarr"), ctx.run_udf(dataset, Wave()))


@pytest.mark.parametrize(
    "shape",
    [(1,), (7,), (256, 256), (3, 257, 64, 64), (1, 1, 5000, 1000), (2, 1_000_003), (4, 2048, 2048)],
)
@pytest.mark.parametrize("dtype", ["uint8", "float64"])
def test_chunks_follow_each_other_in_c_order(shape, dtype):
    layout = stored(shape, np.dtype(dtype))
    size = np.dtype(dtype).itemsize
    whole = [
        n
        for n, (length, chunk) in enumerate(zip(shape, layout.chunk, strict=True))
        if chunk == length
    ]
    part = [n for n, chunk in enumerate(layout.chunk) if chunk not in (1, shape[n])]
    assert len(part) <= 1
    for n in part:
        assert set(range(n + 1, len(shape))) <= set(whole)
        assert all(layout.chunk[before] == 1 for before in range(n))
        assert shape[n] % layout.chunk[n] == 0 or all(shape[before] == 1 for before in range(n))
    n_bytes = int(np.prod(layout.chunk)) * size
    assert n_bytes >= 1 << 20 or layout.chunk == shape
    for shard, chunk, length in zip(layout.shard, layout.chunk, shape, strict=True):
        assert shard % chunk == 0
        assert shard >= length


LARGE = """
    import sys, threading, time
    import numpy as np
    import framefold as ff
    from framefold.udf import UDF

    def own_memory():
        for line in open("/proc/self/status"):
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) / 1024

    def watch():
        while True:
            peak[0] = max(peak[0], own_memory())
            time.sleep(0.002)

    class Same(UDF):
        def get_result_buffers(self):
            return {"x": self.buffer(kind="nav", extra_shape=(128, 128), dtype="float32")}

        def process_frames(self, frames):
            self.results.x[:] = frames

    class ByFrame(UDF):
        get_result_buffers = Same.get_result_buffers

        def process_frame(self, frame):
            self.results.x[:] = frame

    path, out, n_frames = sys.argv[1], sys.argv[2], int(sys.argv[3])
    ctx = ff.Context("threads")
    ds = ctx.load("raw", path=path, dtype="uint16", nav_shape=(n_frames,), sig_shape=(128, 128))
    for udf in (Same(), ByFrame()):
        peak = [own_memory()]
        threading.Thread(target=watch, daemon=True).start()
        start = peak[0] = own_memory()
        result = ctx.run_udf(dataset=ds, udf=udf, out=out, overwrite=True)
        name, buffer = next(iter(result.items()))
        print(name, max(peak[0], own_memory()) - start, buffer.data.nbytes >> 20)
"""


@pytest.mark.skipif(
    not Path("/proc/self/status").exists(), reason="needs the memory figures of Linux"
)
def test_large_results_take_little_memory(tmp_path):
    path, n_frames = tmp_path / "frames.raw", 1 << 12
    with path.open("wb") as file:
        file.truncate(n_frames << 15)
    script = textwrap.dedent(LARGE)
    command = [sys.executable, "-c", script, str(path), str(tmp_path / "x.zarr"), str(n_frames)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    for line in done.stdout.splitlines():
        _, taken, of_result = line.split()
        assert float(taken) < 120, done.stdout
        assert int(of_result) == 256
    print(done.stdout)


def test_results_larger_than_memory_are_not_refused_for_that(tmp_path):
    class Large(UDF):
        def get_result_buffers(self):
            return {"x": self.buffer(kind="nav", extra_shape=(1 << 38,))}

        def process_frame(self, frame):
            raise AssertionError("no frame is read for results that do not fit")

    ctx = ff.Context("inline")
    data = np.zeros((40, 4, 4), dtype=np.float32)
    dataset = ctx.load("memory", data=data, num_partitions=20)
    with pytest.raises(ff.exceptions.LimitError, match="the results would take"):
        ctx.run_udf(dataset, Large())
    with pytest.raises(FileAccessError, match=r"No space left|too large"):
        ctx.run_udf(dataset, Large(), out=tmp_path / "x.npy")
    assert left_in(tmp_path) == []


def test_progress_and_many_kinds_of_results(tmp_path):
    from sample_udfs import Recorder

    ctx = ff.Context("threads")
    recorder = Recorder()
    found = ctx.run_udf(in_memory(ctx), Wave(), out=tmp_path / "x.zarr", progress=recorder)
    assert recorder.states[-1][1].num_part_complete == 8
    assert len(as_tuple(found)) == 1


def test_map_writes_files(ctx, tmp_path):
    dataset = in_memory(ctx)
    expected = ctx.map(dataset, np.sqrt).data
    for name in ("x.zarr", "x.npy"):
        found = ctx.map(dataset, np.sqrt, out=tmp_path / name)
        assert isinstance(found.data, np.memmap)
        assert found.data.tobytes() == expected.tobytes()
    assert np.load(tmp_path / "x.npy").tobytes() == expected.tobytes()
    with pytest.raises(InvalidArgumentError, match=r"x\.npy.* output exists"):
        ctx.map(dataset, np.sqrt, out=tmp_path / "x.npy")
    found = ctx.map(dataset, np.square, out=tmp_path / "x.npy", overwrite=True)
    assert found.data.tobytes() == ctx.map(dataset, np.square).data.tobytes()


def test_a_map_that_failed_goes_on(tmp_path):
    ctx = ff.Context("inline")
    dataset = in_file(ctx, tmp_path)

    def run(**how):
        return ctx.map(dataset, root, out=tmp_path / "x.zarr", **how)

    def root(frame):
        if os.path.exists(tmp_path / "fail") and os.path.getsize(tmp_path / "seen") > 60:
            raise ZeroDivisionError
        with open(tmp_path / "seen", "a") as file:
            file.write(".")
        return np.sqrt(frame)

    (tmp_path / "fail").touch()
    (tmp_path / "seen").touch()
    with pytest.raises(ZeroDivisionError):
        run()
    (tmp_path / "fail").unlink()
    (tmp_path / "seen").write_text("")
    found = run(resume=True)
    # Some partitions, and the trials with a frame of ones.
    assert 0 < os.path.getsize(tmp_path / "seen") < 126
    assert found.data.tobytes() == ctx.map(dataset, np.sqrt).data.tobytes()


def test_map_with_a_monitor_is_merged(ctx, tmp_path):
    from framefold.udf.auto import AutoUDF

    dataset, udf = in_memory(ctx), AutoUDF(np.sqrt, monitor=True)
    found = ctx.run_udf(dataset, udf, out=tmp_path / "x.zarr")
    assert_same(found, ctx.run_udf(dataset, udf))


def test_records_of_very_many_files(tmp_path, monkeypatch):
    """They name each: those of 65 536 frames in files of their own have 16 MiB."""
    ctx = ff.Context.make_with("inline")
    monkeypatch.setattr("framefold.run.out.as_words", lambda path: str(path).rjust(17 << 20))
    dataset, out = in_file(ctx, tmp_path), tmp_path / "x.zarr"
    (tmp_path / "break").touch()
    with pytest.raises(ZeroDivisionError):
        ctx.run_udf(dataset, Breaks(tmp_path), out=out)
    (tmp_path / "break").unlink()
    (tmp_path / "seen").unlink()
    ctx.run_udf(dataset, Breaks(tmp_path), out=out, resume=True)
    assert min(map(int, (tmp_path / "seen").read_text().split())) > 0
