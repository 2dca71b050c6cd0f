"""Data sets are written as arrays, completely or not at all, and other programs read them."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest
from known_oddities import POSITIONS_WITHOUT_DATA
from sample_udfs import Recorder

import framefold as ff
from framefold.exceptions import (
    FileAccessError,
    InvalidArgumentError,
)
from framefold.warnings import MissingFramesWarning

ENDINGS = ["npy", "zarr", "h5", "hspy", "zspy"]
COMPRESSIONS = ["none", "gzip", "zstd", "blosc", "bitshuffle"]


@pytest.fixture
def ctx():
    """Exports do not depend on the executor."""
    return ff.Context.make_with("inline")


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def read(path):
    """The array, as an independent program reads it."""
    if path.suffix == ".npy":
        return np.load(path)
    if path.suffix == ".zarr":
        zarr = pytest.importorskip("zarr")
        return zarr.open_array(path, mode="r")[...]
    if path.suffix == ".zspy":
        zarr = pytest.importorskip("zarr")
        return zarr.open_group(path, mode="r")["Experiments/__unnamed__/data"][...]
    h5py = pytest.importorskip("h5py")
    pytest.importorskip("hdf5plugin")
    with h5py.File(path) as file:
        name = "data" if path.suffix == ".h5" else "Experiments/__unnamed__/data"
        return file[name][...]


@pytest.mark.parametrize("ending", ENDINGS)
@pytest.mark.parametrize("dtype", [">u2", "float64", "complex64", "bool", "float16", "int8"])
def test_export(ctx, tmp_path, data, dtype, ending):
    array = (data % 2 if dtype == "bool" else data % 100).astype(dtype)
    source, target = tmp_path / "source.raw", tmp_path / f"out.{ending}"
    array.tofile(source)
    dataset = ctx.load(
        "raw", source, dtype=dtype, nav_shape=(6, 7), sig_shape=(10, 12), num_partitions=4
    )
    recorder = Recorder()
    assert ctx.export_dataset(dataset, target, progress=recorder) is None
    written = read(target)
    assert written.dtype == dataset.dtype
    assert np.array_equal(written, array)
    counts = [state.num_frames_complete for _, state in recorder.states]
    assert counts == sorted(counts)
    assert counts[-1] == 42
    assert names(tmp_path) == sorted([target.name, "source.raw"])
    again = ctx.open(target)
    assert (again.shape, again.dtype) == (dataset.shape, dataset.dtype)


@pytest.mark.parametrize("ending", ["zarr", "h5"])
@pytest.mark.parametrize("compression", COMPRESSIONS)
def test_compressed_chunks_are_those_of_other_programs(ctx, tmp_path, ending, compression):
    rng = np.random.default_rng(3)
    for dtype, shape, chunks in [
        ("uint16", (9, 11, 40, 50), (2, 3, 16, 50)),
        ("float32", (30, 64, 65), (8, 64, 65)),
        ("uint8", (3, 4, 5, 100), (3, 1, 5, 33)),
        ("complex128", (3, 20, 20), (1, 20, 20)),
        ("uint16", (4, 300, 300), (3, 300, 300)),
    ]:
        array = rng.poisson(2, shape).astype(dtype)
        array[0, 0] = 0
        dataset = ctx.load("memory", data=array, sig_dims=2)
        path = tmp_path / f"{dtype}{shape[0]}.{ending}"
        ctx.export_dataset(dataset, path, chunks=chunks, compression=compression)
        assert np.array_equal(read(path), array)


def test_many_chunks_need_several_levels(ctx, tmp_path):
    array = np.arange(70 * 70 * 2 * 3, dtype="uint32").reshape(70, 70, 2, 3) + 1
    dataset = ctx.load("memory", data=array, sig_dims=2)
    ctx.export_dataset(dataset, tmp_path / "out.h5", chunks=(1, 1, 2, 3))
    assert np.array_equal(read(tmp_path / "out.h5"), array)


@pytest.mark.parametrize("ending", ENDINGS)
def test_special_values_stay(ctx, tmp_path, ending):
    array = np.array([np.nan, np.inf, -np.inf, -0.0, 5e-324, 0.0], dtype="float64")
    array = np.tile(array, (4, 5, 6, 1))
    target = tmp_path / f"out.{ending}"
    ctx.export_dataset(ctx.load("memory", data=array, sig_dims=2), target)
    assert read(target).tobytes() == array.tobytes()


@pytest.mark.parametrize("ending", ENDINGS)
@POSITIONS_WITHOUT_DATA
def test_missing_frames_are_filled(ctx, tmp_path, data, ending):
    for dtype in ("uint16", "float32"):
        target = tmp_path / f"{dtype}.{ending}"
        dataset = ctx.load("memory", data=data.astype(dtype), sig_dims=2, sync_offset=-3)
        with pytest.warns(MissingFramesWarning, match="3 of 42 scan positions have no data"):
            ctx.export_dataset(dataset, path=target)
        written = read(target).reshape(42, 10, 12)
        assert np.isnan(written[:3]).all() if dtype == "float32" else not written[:3].any()
        assert np.array_equal(written[3:], data.reshape(42, 10, 12)[:-3])


@pytest.mark.parametrize("ending", ENDINGS)
def test_regions(ctx, tmp_path, data, dataset, ending):
    box = np.zeros((6, 7), dtype=bool)
    box[2:5, 1:] = True
    ctx.export_dataset(dataset, tmp_path / f"box.{ending}", roi=box)
    assert np.array_equal(read(tmp_path / f"box.{ending}"), data[2:5, 1:])
    some = np.random.default_rng(5).random((6, 7)) < 0.4
    ctx.export_dataset(dataset, tmp_path / f"some.{ending}", roi=some)
    assert np.array_equal(read(tmp_path / f"some.{ending}"), data[some])


def test_corrections_are_applied(ctx, tmp_path, data, dataset):
    from framefold.io.corrections import CorrectionSet

    dark = np.full((10, 12), 2.5)
    ctx.export_dataset(dataset, tmp_path / "out.zarr", corrections=CorrectionSet(dark=dark))
    written = read(tmp_path / "out.zarr")
    assert written.dtype == np.float32
    assert np.array_equal(written, data.astype("float32") - np.float32(2.5))


def test_other_dtypes(ctx, tmp_path):
    array = np.arange(2 * 3 * 4 * 5, dtype="uint32").reshape(2, 3, 4, 5) * 3
    dataset = ctx.load("memory", data=array, sig_dims=2)
    for dtype in ("uint16", "float32", "int64", "complex64"):
        ctx.export_dataset(dataset, tmp_path / "out.npy", dtype=dtype, overwrite=True)
        written = np.load(tmp_path / "out.npy")
        assert written.dtype == dtype
        assert np.array_equal(written, array)
    for lossy in (False, True):
        with pytest.raises(InvalidArgumentError, match=r"pixel 6 is 258.*frame 4"):
            ctx.export_dataset(dataset, tmp_path / "no.npy", dtype="uint8", lossy=lossy)
    halves = ctx.load("memory", data=array / 2, sig_dims=2)
    with pytest.raises(InvalidArgumentError, match="allow rounding"):
        ctx.export_dataset(halves, tmp_path / "no.npy", dtype="int32")
    ctx.export_dataset(halves, tmp_path / "rounded.npy", dtype="int32", lossy=True)
    assert np.array_equal(np.load(tmp_path / "rounded.npy"), (array / 2).astype("int32"))
    assert names(tmp_path) == ["out.npy", "rounded.npy"]


@pytest.mark.parametrize("lossy", [False, True])
def test_floats_beyond_integers(ctx, tmp_path, lossy):
    beyond = {"int64": 2.0**63, "uint64": 2.0**64, "uint8": 256.0, "int32": 2155e6}
    for dtype, value in beyond.items():
        dataset = ctx.load("memory", data=np.full((2, 2, 2, 2), value), sig_dims=2)
        with pytest.raises(InvalidArgumentError, match=f"cannot be written as {dtype}"):
            ctx.export_dataset(dataset, tmp_path / "no.npy", dtype=dtype, lossy=lossy)
    ends = np.array([[[-0.9, 255.9]]])
    if lossy:
        dataset = ctx.load("memory", data=ends, sig_dims=2)
        ctx.export_dataset(dataset, tmp_path / "ends.npy", dtype="uint8", lossy=True)
        assert np.load(tmp_path / "ends.npy").ravel().tolist() == [0, 255]


def test_misuse_of_export(ctx, tmp_path, data, dataset):
    target = tmp_path / "out.npy"
    target.write_text("precious")
    with pytest.raises(FileExistsError, match="exists; pass overwrite=True") as caught:
        ctx.export_dataset(dataset, path=target)
    assert isinstance(caught.value, FileAccessError)
    assert target.read_text() == "precious"
    ctx.export_dataset(dataset, path=target, overwrite=True)
    assert np.array_equal(np.load(target), data)
    with pytest.raises(InvalidArgumentError, match=r"does not end in \.npy"):
        ctx.export_dataset(dataset, path=tmp_path / "out.raw")
    with pytest.raises(FileAccessError, match="could not find the folder"):
        ctx.export_dataset(dataset, path=tmp_path / "nowhere" / "out.npy")
    with pytest.raises(InvalidArgumentError, match="that the data set is read from"):
        ctx.export_dataset(ctx.open(target), path=target, overwrite=True)
    with pytest.raises(InvalidArgumentError, match="no compression 'best'"):
        ctx.export_dataset(dataset, tmp_path / "out.h5", compression="best")
    with pytest.raises(InvalidArgumentError, match="no way to write 'tiff'"):
        ctx.export_dataset(dataset, tmp_path / "out.h5", format="tiff")
    with pytest.raises(InvalidArgumentError, match="gzip has no level 11"):
        ctx.export_dataset(dataset, tmp_path / "out.h5", compression="gzip", level=11)
    assert names(tmp_path) == ["out.npy"]


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_failed_export_leaves_the_old_file(ctx, tmp_path, dataset, ending):
    class Full(Recorder):
        def update(self, state):
            raise RuntimeError("stop")

    target = tmp_path / f"out.{ending}"
    target.write_text("precious")
    with pytest.raises(RuntimeError, match="stop"):
        ctx.export_dataset(dataset, path=target, overwrite=True, progress=Full())
    assert target.read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == [target.name]


KILLED = """
import sys
import numpy as np
import framefold as ff
from framefold.common.progress import ProgressReporter

class Wait(ProgressReporter):
    def start(self, state): pass
    def end(self, state): pass
    def update(self, state):
        if state.num_frames_complete >= 50:
            print("half", flush=True)
            sys.stdin.read()

ctx = ff.Context()
dataset = ctx.load("memory", data=np.ones((400, 512, 512), dtype=np.uint8), sig_dims=2)
ctx.export_dataset(dataset, sys.argv[1], progress=Wait())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="processes are killed otherwise there")
@pytest.mark.parametrize("ending", ["npy", "zarr", "h5", "zspy"])
def test_what_a_killed_process_leaves_is_removed(ctx, tmp_path, dataset, ending):
    target = tmp_path / f"out.{ending}"
    script = tmp_path / "script.py"
    script.write_text(KILLED)
    with subprocess.Popen(
        [sys.executable, script, target], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == b"half\n"
        process.send_signal(signal.SIGKILL)
        process.wait(timeout=60)
    left = [f".out.{ending}.framefold-lock", f".out.{ending}.framefold-part"]
    assert names(tmp_path) == [*left, "script.py"]
    ctx.export_dataset(dataset, target)
    assert names(tmp_path) == sorted([target.name, "script.py"])


def test_metadata_comes_along(ctx, tmp_path, data):
    from framefold.utils.simulate import write_mib

    write_mib(tmp_path / "scan.mib", data.astype("uint16"))
    dataset = ctx.open(tmp_path / "scan.hdr")
    assert dataset.metadata["exposure_time"] > 0
    for ending in ("zarr", "h5", "hspy"):
        target = tmp_path / f"out.{ending}"
        ctx.export_dataset(dataset, target)
        turned = {"orientation": "flip y of mib"} if ending == "hspy" else {}
        assert ctx.open(target).metadata == {**dataset.metadata, **turned}
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "out.h5") as file:
        facts = dict(file["metadata"].attrs)
        assert file.attrs["sig_dims"] == 2
        assert list(file["axes"]) == ["scan_x", "scan_y", "x", "y"]
    assert facts["exposure_time"] == dataset.metadata["exposure_time"]
    assert facts["exposure_time_unit"] == "s"
    described = json.loads((tmp_path / "out.zarr" / "zarr.json").read_text())
    assert described["dimension_names"] == ["scan_y", "scan_x", "y", "x"]
    fact = described["attributes"]["metadata"]["exposure_time"]
    assert fact == {"value": dataset.metadata["exposure_time"], "unit": "s"}


def test_hyperspy_knows_the_axes(ctx, tmp_path):
    h5py = pytest.importorskip("h5py")
    hs = pytest.importorskip("hyperspy.api")
    rng = np.random.default_rng(1)
    array = rng.poisson(3, (5, 6, 16, 17)).astype("uint16")
    source = hs.signals.Signal2D(array)
    for axis, (name, scale, units, offset) in zip(
        source.axes_manager._axes,
        [
            ("a", 2.0, "nm", 0.0),
            ("b", 3.0, "nm", 40.0),
            ("c", 0.1, "1/nm", -0.8),
            ("d", 0.2, "1/nm", -1.5),
        ],
        strict=True,
    ):
        axis.name, axis.scale, axis.units, axis.offset = name, scale, units, offset
    source.metadata.General.title = "of / a / scan"
    source.metadata.set_item("Acquisition_instrument.TEM.beam_energy", 200.0)
    source.metadata.set_item("Acquisition_instrument.TEM.Stage.x", -0.125)
    source.metadata.set_item("Acquisition_instrument.TEM.Stage.tilt_alpha", 12.5)
    source.metadata.General.date, source.metadata.General.time = "2024-05-06", "07:08:09"
    source.metadata.General.notes = "thin there"
    source.save(tmp_path / "source.hspy")
    dataset = ctx.open(tmp_path / "source.hspy")
    assert dataset.metadata == {
        "scan_step_x": 3.0,
        "scan_step_y": 2.0,
        "scan_offset_x": 40.0,
        "acceleration_voltage": 200.0,
        "diffraction_step_x": 0.2,
        "diffraction_step_y": 0.1,
        "diffraction_offset_x": -1.5,
        "diffraction_offset_y": -0.8,
        "stage_x": -125.0,
        "stage_alpha": 12.5,
        "recorded_at": "2024-05-06T07:08:09",
        "title": "of / a / scan",
        "note": "thin there",
        "scan_axes": "a, b",
        "frame_axes": "c, d",
    }
    ctx.export_dataset(dataset, tmp_path / "out.hspy")
    signal = hs.load(tmp_path / "out.hspy", lazy=True)
    assert signal._lazy
    assert (signal.axes_manager.navigation_shape, signal.axes_manager.signal_shape) == (
        (6, 5),
        (17, 16),
    )
    shown = [
        (axis.scale, axis.offset, axis.units, axis.navigate) for axis in signal.axes_manager._axes
    ]
    assert shown == [
        (2.0, 0.0, "nm", True),
        (3.0, 40.0, "nm", True),
        (0.1, -0.8, "1/nm", False),
        (0.2, -1.5, "1/nm", False),
    ]
    for node in ("General.title", "General.date", "General.time", "General.notes"):
        assert signal.metadata.get_item(node) == source.metadata.get_item(node)
    instrument = signal.metadata.Acquisition_instrument.as_dictionary()
    assert instrument == source.metadata.Acquisition_instrument.as_dictionary()
    assert np.array_equal(signal.data.compute(), array)
    assert ctx.open(tmp_path / "out.hspy").metadata == dataset.metadata
    with h5py.File(tmp_path / "out.hspy") as file:
        assert list(file["Experiments"]) == ["of - a - scan"]


def test_what_is_changed_in_hyperspy_is_changed(ctx, tmp_path):
    hs = pytest.importorskip("hyperspy.api")
    source = hs.signals.Signal2D(np.zeros((3, 4, 5, 6), "uint16"))
    for axis in source.axes_manager._axes:
        axis.scale, axis.offset, axis.units = 2, 1, "nm" if axis.navigate else "1/nm"
    source.save(tmp_path / "source.hspy")
    ctx.export_dataset(ctx.open(tmp_path / "source.hspy"), tmp_path / "copy.hspy")
    changed = hs.load(tmp_path / "copy.hspy")
    for axis, scale in zip(changed.axes_manager._axes, (3, 5, 7, 9), strict=True):
        axis.scale, axis.offset = scale, 0
    changed.save(tmp_path / "changed.hspy")
    facts = ctx.open(tmp_path / "changed.hspy").metadata
    assert facts == {
        "scan_step_y": 3,
        "scan_step_x": 5,
        "diffraction_step_y": 7,
        "diffraction_step_x": 9,
    }


def test_what_is_deleted_in_hyperspy_is_deleted(ctx, tmp_path):
    hs = pytest.importorskip("hyperspy.api")
    source = hs.signals.Signal2D(np.zeros((3, 4, 5, 6), "uint16"))
    source.metadata.General.title = "gold"
    source.metadata.General.notes = "on carbon"
    source.metadata.set_item("Acquisition_instrument.TEM.beam_energy", 200.0)
    source.save(tmp_path / "source.hspy")
    ctx.export_dataset(ctx.open(tmp_path / "source.hspy"), tmp_path / "copy.hspy")
    facts = ctx.open(tmp_path / "copy.hspy").metadata
    assert facts == {"title": "gold", "note": "on carbon", "acceleration_voltage": 200.0}
    changed = hs.load(tmp_path / "copy.hspy")
    changed.metadata.General.title = ""
    del changed.metadata.General.notes
    del changed.metadata.Acquisition_instrument
    changed.save(tmp_path / "changed.hspy")
    assert ctx.open(tmp_path / "changed.hspy").metadata == {}


def as_zspy(source, target):
    """What HyperSpy writes as .zspy: the same groups, attributes and arrays."""
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")

    def copy(group, to):
        # h5py keeps its lock between two items: zarr's thread, which is waited for, waits for that
        # lock if it collects what is left of a file.
        for name, value in list(group.attrs.items()):
            to.attrs[name] = value.item() if isinstance(value, np.generic) else value
        for name, item in list(group.items()):
            if isinstance(item, h5py.Group):
                copy(item, to.create_group(name))
            elif name == "data":
                to.create_array(name, data=item[()])

    with h5py.File(source) as file:
        copy(file, zarr.open_group(target, mode="w", zarr_format=2))


@pytest.mark.parametrize("ending", ["hspy", "zspy"])
@pytest.mark.parametrize("between", [None, "h5", "zarr"])
def test_types_and_names_of_hyperspy_survive_copies(ctx, tmp_path, ending, between):
    hs = pytest.importorskip("hyperspy.api")
    source = hs.signals.Signal1D(np.arange(2 * 3 * 8, dtype="float32").reshape(2, 3, 8))
    # One that is not known to a program becomes a plain signal with a warning there.
    source.metadata.Signal.signal_type = "EELS"
    for axis, name in zip(source.axes_manager._axes, ["time", None, "Energy loss"], strict=True):
        if name:
            axis.name = name
    source.save(tmp_path / "source.hspy")
    if ending == "zspy":
        as_zspy(tmp_path / "source.hspy", tmp_path / "source.zspy")
    dataset = ctx.open(tmp_path / f"source.{ending}")
    facts = {"signal_type": "EELS", "scan_axes": "time,", "frame_axes": "Energy loss"}
    assert facts.items() <= dataset.metadata.items()
    if between:
        ctx.export_dataset(dataset, tmp_path / f"copy.{between}")
        dataset = ctx.open(tmp_path / f"copy.{between}")
    ctx.export_dataset(dataset, tmp_path / "out.hspy")
    (signal,) = pytest.importorskip("rsciio.hspy").file_reader(tmp_path / "out.hspy")
    assert signal["metadata"]["Signal"]["signal_type"] == "EELS"
    assert [axis["name"] for axis in signal["axes"]] == ["time", "scan_x", "Energy loss"]
    again = {**facts, "scan_axes": "time, scan_x"}
    assert again.items() <= ctx.open(tmp_path / "out.hspy").metadata.items()
    # Other positions have other axes; frames still have theirs.
    box = np.array([[True, False, False], [False, True, True]])
    ctx.export_dataset(dataset, tmp_path / "list.hspy", roi=box)
    (signal,) = pytest.importorskip("rsciio.hspy").file_reader(tmp_path / "list.hspy")
    assert [axis["name"] for axis in signal["axes"]] == ["scan_x", "Energy loss"]


@pytest.mark.parametrize("ending", ["zarr", "h5", "hspy"])
def test_parts_of_a_scan_say_where_they_are(ctx, tmp_path, ending):
    hs = pytest.importorskip("hyperspy.api")
    source = hs.signals.Signal2D(np.arange(5 * 6 * 2 * 3, dtype="uint16").reshape(5, 6, 2, 3))
    for axis, scale, offset in zip(source.axes_manager._axes[:2], (2, 3), (7, 0), strict=True):
        axis.scale, axis.units, axis.offset = scale, "nm", offset
    counts_down = source.axes_manager._axes[2]
    counts_down.scale, counts_down.units, counts_down.offset = -0.5, "mrad", 3
    source.save(tmp_path / "source.hspy")
    dataset = ctx.open(tmp_path / "source.hspy")
    frame = {"angle_step_y": -0.5, "angle_offset_y": 3}
    steps = {"scan_step_x": 3, "scan_step_y": 2, **frame}
    assert dataset.metadata == {**steps, "scan_offset_y": 7}
    box = np.zeros((5, 6), bool)
    box[2:4, 3:] = True
    ctx.export_dataset(dataset, tmp_path / f"box.{ending}", roi=box)
    part = ctx.open(tmp_path / f"box.{ending}")
    assert part.metadata == {**steps, "scan_offset_x": 9, "scan_offset_y": 11}
    box[0, 0] = True
    ctx.export_dataset(dataset, tmp_path / f"list.{ending}", roi=box)
    positions = ctx.open(tmp_path / f"list.{ending}")
    assert tuple(positions.shape.nav) == (7,)
    assert positions.metadata == frame


def test_frames_of_one_axis(ctx, tmp_path):
    array = np.random.default_rng(2).poisson(5, (12, 700)).astype("uint32")
    dataset = ctx.load("memory", data=array, sig_dims=1)
    for ending in ENDINGS:
        target = tmp_path / f"out.{ending}"
        ctx.export_dataset(dataset, target)
        assert np.array_equal(read(target), array)
        if ending != "npy":
            assert tuple(ctx.open(target).shape.sig) == (700,)


BOUNDED = """
import sys, threading, time
import framefold as ff

def own_memory():
    for line in open("/proc/self/status"):
        if line.startswith("RssAnon:"):
            return int(line.split()[1]) / 1024

def watch():
    while True:
        peak[0] = max(peak[0], own_memory())
        time.sleep(0.002)

source, target = sys.argv[1:]
ctx = ff.Context()
dataset = ctx.load("raw", path=source, dtype="uint16", nav_shape=(18, 64), sig_shape=(256, 256))
start = own_memory()
peak = [start]
threading.Thread(target=watch, daemon=True).start()
ctx.export_dataset(dataset, target)
print(peak[0] - start)
"""


@pytest.fixture(scope="module")
def large_file(tmp_path_factory):
    """More than an export may take of memory: 144 MiB."""
    source = tmp_path_factory.mktemp("large") / "source.raw"
    with source.open("wb") as file:
        file.truncate(144 << 20)
        # So that there is something to compress.
        for frame in range(0, 1152, 7):
            file.seek(frame << 17)
            file.write(os.urandom(4096))
    return source


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="needs Linux's memory figures")
@pytest.mark.parametrize("ending", ENDINGS)
def test_memory_is_bounded(tmp_path, large_file, ending):
    done = subprocess.run(
        [sys.executable, "-c", BOUNDED, large_file, tmp_path / f"out.{ending}"],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    # MiB; pieces, decoded and encoded, however many cores there are.
    assert float(done.stdout) <= 130


@pytest.mark.skipif(sys.platform == "win32", reason="interrupts are sent otherwise there")
@pytest.mark.parametrize(
    ("sent", "ending", "code"),
    [("SIGINT", "h5", 130), ("SIGTERM", "zarr", 143), ("SIGHUP", "h5", 129)],
)
def test_ctrl_c_sigterm_and_sighup_leave_nothing(tmp_path, sent, ending, code):
    source = tmp_path / "source.raw"
    with source.open("wb") as file:
        file.truncate(2 << 30)
    command = [
        sys.executable,
        "-c",
        "from framefold.cli import main; main()",
        *("convert", source, tmp_path / f"out.{ending}", "--format", "raw", "--dtype", "uint16"),
        *("--nav-shape", "128,128", "--sig-shape", "256,256", "--compression", "blosc"),
        *("--level", "15", "--threads", "1"),
    ]
    number = getattr(signal, sent)
    # What a terminal, or ``nohup``, had these tests ignore is not ignored there.
    inherited = signal.signal(number, signal.default_int_handler)
    try:
        process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    finally:
        signal.signal(number, inherited)
    with process:
        limit = time.monotonic() + 60
        while not any(name.endswith(".framefold-part") for name in names(tmp_path)):
            assert process.poll() is None, process.stderr.read()
            assert time.monotonic() < limit
            time.sleep(0.01)
        process.send_signal(number)
        process.wait(timeout=60)
    assert process.returncode == code
    assert names(tmp_path) == ["source.raw"]


def test_convert_on_the_command_line(tmp_path, data, command):
    np.save(tmp_path / "in.npy", data)
    run = ["convert", tmp_path / "in.npy"]
    facts = json.loads(command(*run, tmp_path / "out.zarr", "--json", "--roi", "1:3,2:6"))
    assert facts["nav_shape"] == [2, 4]
    assert facts["verified"]
    assert np.array_equal(read(tmp_path / "out.zarr"), data[1:3, 2:6])
    shown = command(*run, tmp_path / "out.h5", "--to-dtype", "float64")
    assert "read back and compared" in shown
    assert read(tmp_path / "out.h5").dtype == np.float64
    assert "the output exists" in command(*run, tmp_path / "out.h5", code=2)
    said = command(*run, tmp_path / "out.toml", "--level", "2", code=2)
    assert "'--level' is for whole arrays" in said
    assert "does not end in .npy" in command(*run, tmp_path / "out.xyz", code=2)


def test_sparse_and_dask_data_sets(ctx, tmp_path, data):
    scipy = pytest.importorskip("scipy.sparse")
    rows = scipy.csr_array(data.reshape(42, 120))
    sparse = ctx.load("memory", data=rows, nav_shape=(6, 7), sig_shape=(10, 12))
    ctx.export_dataset(sparse, tmp_path / "sparse.zarr")
    assert np.array_equal(read(tmp_path / "sparse.zarr"), data)
    dask = pytest.importorskip("dask.array")
    lazy = ctx.load("dask", dask.from_array(data, chunks=(2, 7, 10, 12)), sig_dims=2)
    ctx.export_dataset(lazy, tmp_path / "lazy.h5", chunks=(3, 3, 10, 12))
    assert np.array_equal(read(tmp_path / "lazy.h5"), data)
    some = ff.Context()
    assert np.array_equal(
        some.run_udf(some.open(tmp_path / "lazy.h5"), ff.SumUDF())["intensity"].data,
        data.sum(axis=(0, 1)),
    )
