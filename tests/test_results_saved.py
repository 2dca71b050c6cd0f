"""Files of results, read back by other programs: the same numbers, steps and units."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import zlib
from pathlib import Path

import numpy as np
import pytest

import framefold as ff
from framefold.common._declared import ArrayWithMask
from framefold.common.axes import Axis
from framefold.common.buffers import About, BufferWrapper
from framefold.common.shape import Shape
from framefold.exceptions import InvalidArgumentError, UnsupportedError
from framefold.run.results import UDFResultDict

NAV, SIG = (3, 4), (6, 5)
AXES = (
    Axis("scan_y", "nm", 0.25, 2.0, 3, "nav"),
    Axis("scan_x", "nm", 0.5, -1.0, 4, "nav"),
    Axis("y", "Å⁻¹", 0.2, 0.0, 6, "sig"),
    Axis("x", "Å⁻¹", -0.1, 0.5, 5, "sig"),
)
#: All that are written as a whole result.
TOGETHER = [".h5", ".hspy", ".zspy", ".zarr", ".npz"]


def buffer(kind, array, *, name="image", unit="", valid=None, axes=AXES, vector=False):
    n_own = {"nav": 2, "sig": 2, "single": 0}[kind]
    array = np.asarray(array)
    raw = array.reshape(-1, *array.shape[2:]) if kind == "nav" else array
    return BufferWrapper(
        kind,
        array.shape[n_own:],
        array.dtype,
        raw=raw,
        dataset_shape=Shape((*NAV, *SIG), sig_dims=2),
        valid=None if valid is None else np.asarray(valid).reshape(-1),
        about=About("SomeUDF", name, unit, vector, axes),
    )


@pytest.fixture
def results():
    rng = np.random.default_rng(0)
    gaps = np.ones(NAV, bool)
    gaps[1, 2] = False
    return UDFResultDict(
        image=buffer("nav", rng.random(NAV, np.float32), name="image", unit="px"),
        two=buffer("nav", rng.random((*NAV, 2)), name="two"),
        counts=buffer("nav", rng.integers(1, 9, NAV, np.int32), name="counts", valid=gaps),
        pattern=buffer("sig", rng.random(SIG) + 1j, name="pattern"),
        table=buffer("single", np.arange(7), name="table"),
        flags=buffer("nav", rng.random(NAV) < 0.5, name="flags"),
    )


def test_hdf5_is_nexus(results, tmp_path):
    h5py = pytest.importorskip("h5py", reason="h5py reads HDF5")
    path = results.save(tmp_path / "all.h5")
    with h5py.File(path) as file:
        assert dict(file.attrs) == {
            "NX_class": "NXroot",
            "creator": "framefold",
            "default": "image",
        }
        assert list(file) == sorted(results)
        for name, result in results.items():
            group = file[name]
            assert (group.attrs["NX_class"], group.attrs["signal"]) == ("NXdata", "data")
            np.testing.assert_array_equal(group["data"][...], result.data)
            assert group["data"].dtype == result.dtype
            assert group.attrs["title"] == f"SomeUDF: {name}"
            for axis, found in zip(result.axes, group.attrs["axes"], strict=True):
                np.testing.assert_array_equal(group[found][...], axis.values)
                assert group[found].attrs.get("units", "") == axis.unit
        assert list(file["image"].attrs["axes"]) == ["scan_y", "scan_x"]
        assert file["image/data"].attrs["units"] == "px"
        np.testing.assert_array_equal(file["counts/valid"][...], results["counts"].valid_mask)
        assert "valid" not in file["image"]


@pytest.mark.parametrize("ending", [".hspy", ".zspy"])
def test_hyperspy_reads_its_formats(results, tmp_path, ending):
    hs = pytest.importorskip("hyperspy.api", reason="HyperSpy reads its formats")
    path = results.save(tmp_path / f"all{ending}")
    signals = {each.metadata.General.title: each for each in hs.load(str(path))}
    assert len(signals) == len(results) + 1
    for name, result in results.items():
        check_signal(signals[f"SomeUDF: {name}"], result)
    mask = signals["SomeUDF: counts_valid"]
    np.testing.assert_array_equal(mask.data, results["counts"].valid_mask)
    one = hs.load(str(results["image"].save(tmp_path / f"one{ending}")))
    check_signal(one, results["image"])
    assert one.metadata.Signal.quantity == "image (px)"


def check_signal(signal, result):
    """Whether a signal of HyperSpy is a result, with axes of ``extra_shape`` first."""
    n_own = sum(axis.kind != "extra" for axis in result.axes)
    n_extra = len(result.axes) - n_own if n_own else 0
    axes = [*result.axes[len(result.axes) - n_extra :], *result.axes[: len(result.axes) - n_extra]]
    data = np.moveaxis(result.data, range(-n_extra, 0), range(n_extra)) if n_extra else result.data
    np.testing.assert_array_equal(signal.data, data)
    found = signal.axes_manager._axes
    assert [axis.navigate for axis in found] == [True] * n_extra + [False] * (len(axes) - n_extra)
    for known, axis in zip(found, axes, strict=True):
        assert (known.name, known.scale, known.offset, known.size) == (
            axis.name,
            axis.scale,
            axis.offset,
            axis.size,
        )
        units = known.units
        assert (units if isinstance(units, str) else "") == axis.unit


def test_hyperspy_gets_signals(results):
    pytest.importorskip("hyperspy.api", reason="HyperSpy has the signals")
    for name, result in results.items():
        signal = result.to_hyperspy()
        check_signal(signal, result)
        assert signal.metadata.General.title == f"SomeUDF: {name}"
    assert type(results["image"].to_hyperspy()).__name__ == "Signal2D"
    assert type(results["table"].to_hyperspy()).__name__ == "Signal1D"
    assert type(results["pattern"].to_hyperspy()).__name__ == "ComplexSignal2D"


def test_zarr_has_named_dimensions_and_coordinates(results, tmp_path):
    zarr = pytest.importorskip("zarr", reason="zarr reads it")
    path = results.save(tmp_path / "all.zarr")
    group = zarr.open_group(path, mode="r")
    for name, result in results.items():
        array = group[name]
        assert (array.shape, array.dtype) == (result.shape, result.dtype)
        np.testing.assert_array_equal(array[...], result.data)
        for axis, found in zip(result.axes, array.metadata.dimension_names, strict=True):
            if axis.is_calibrated:
                np.testing.assert_array_equal(group[found][...], axis.values)
                assert group[found].attrs["units"] == axis.unit
            else:
                assert found not in group
    assert group["image"].attrs["units"] == "px"
    np.testing.assert_array_equal(group["counts_valid"][...], results["counts"].valid_mask)


def test_xarray_opens_zarr(results, tmp_path):
    xarray = pytest.importorskip("xarray", reason="xarray is not installed")
    pytest.importorskip("zarr", reason="xarray reads Zarr with it")
    path = results.save(tmp_path / "all.zarr")
    opened = xarray.open_zarr(path, consolidated=False)
    xarray.testing.assert_identical(opened.load().drop_attrs(), results.to_xarray().drop_attrs())
    assert opened["image"].attrs["units"] == "px"
    assert opened["scan_x"].attrs["units"] == "nm"


def test_xarray_gets_arrays(results):
    xarray = pytest.importorskip("xarray", reason="xarray is not installed")
    image = results["image"].to_xarray()
    assert isinstance(image, xarray.DataArray)
    assert (image.name, image.dims) == ("image", ("scan_y", "scan_x"))
    np.testing.assert_array_equal(image.values, results["image"].data)
    np.testing.assert_array_equal(image.scan_x.values, AXES[1].values)
    assert image.scan_x.attrs == {"units": "nm"}
    assert image.attrs == {"long_name": "SomeUDF: image", "units": "px"}
    counts = results["counts"].to_xarray()
    np.testing.assert_array_equal(counts.valid, results["counts"].valid_mask)
    dataset = results.to_xarray()
    assert set(dataset.data_vars) == {*results, "counts_valid"}
    assert dataset["two"].dims == ("scan_y", "scan_x", "two_extra_0")


def test_npz_says_what_its_arrays_are(results, tmp_path):
    with np.load(results.save(tmp_path / "all.npz")) as file:
        for name, result in results.items():
            np.testing.assert_array_equal(file[name], result.data)
        np.testing.assert_array_equal(file["counts_valid"], results["counts"].valid_mask)
        about = json.loads(str(file["about"]))
    assert about["image"]["unit"] == "px"
    assert about["image"]["axes"][0] == {
        "name": "scan_y",
        "unit": "nm",
        "scale": 0.25,
        "offset": 2.0,
        "size": 3,
        "kind": "nav",
    }


def test_npy_has_nan_where_nothing_is_known(results, tmp_path):
    found = np.load(results["counts"].save(tmp_path / "counts.npy"))
    np.testing.assert_array_equal(np.isnan(found), ~results["counts"].valid_mask)
    np.testing.assert_array_equal(np.nan_to_num(found), results["counts"].data)


@pytest.mark.parametrize("dtype", ["float32", "complex128", "int16"])
@pytest.mark.parametrize("ending", [".npy", ".tif", ".ome.tif"])
def test_masks_are_nan_in_files_that_hold_none(tmp_path, dtype, ending):
    tifffile = pytest.importorskip("tifffile", reason="tifffile reads TIFF")
    if dtype == "complex128" and ending != ".npy":
        pytest.skip("pages of TIFF hold no complex numbers")
    numbers = np.arange(12).reshape(NAV).astype(dtype)
    result = buffer("nav", numbers)
    masked = ArrayWithMask(result.raw_data, result.raw_data.real > 4)
    result = BufferWrapper("nav", raw=masked, dataset_shape=Shape((*NAV, *SIG), sig_dims=2))
    path = result.save(tmp_path / f"masked{ending}")
    found = np.load(path) if ending == ".npy" else tifffile.imread(path)
    assert np.array_equal(found, np.where(numbers.real > 4, numbers, np.nan), equal_nan=True)
    assert np.array_equal(result.data, numbers)


@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_integers_that_no_float_holds_have_no_nan_beside_them(tmp_path, dtype):
    numbers, there = np.full(NAV, 2**53, dtype), np.ones(NAV, bool)
    there[0, 0] = False
    path = buffer("nav", numbers, valid=there).save(tmp_path / "x.npy")
    assert np.array_equal(np.load(path), np.where(there, 2.0**53, np.nan), equal_nan=True)
    for large in (2**53 + 1, np.iinfo(dtype).max):
        numbers[1, 1] = large
        with pytest.raises(UnsupportedError, match="too large for a float"):
            buffer("nav", numbers, valid=there).save(tmp_path / "y.npy")


def test_tiff_is_as_imagej_writes_it(results, tmp_path):
    tifffile = pytest.importorskip("tifffile", reason="tifffile reads TIFF")
    with tifffile.TiffFile(results["image"].save(tmp_path / "image.tif")) as file:
        np.testing.assert_array_equal(file.asarray(), results["image"].data)
        assert file.imagej_metadata["unit"] == "nm"
        assert (file.imagej_metadata["xorigin"], file.imagej_metadata["yorigin"]) == (2, -8)
        steps = {}
        for name in ("XResolution", "YResolution"):
            numerator, denominator = file.pages[0].tags[name].value
            steps[name] = denominator / numerator
        assert steps == {"XResolution": 0.5, "YResolution": 0.25}
    with tifffile.TiffFile(results["two"].save(tmp_path / "two.tif")) as file:
        np.testing.assert_array_equal(file.asarray(), np.moveaxis(results["two"].data, -1, 0))
        assert len(file.pages) == 2
    with tifffile.TiffFile(results["counts"].save(tmp_path / "counts.tif")) as file:
        np.testing.assert_array_equal(np.isnan(file.asarray()), ~results["counts"].valid_mask)
    with tifffile.TiffFile(buffer("sig", np.ones(SIG)).save(tmp_path / "sig.tif")) as file:
        assert file.imagej_metadata["unit"] == "\\u00C5\\u207B\\u00B9"


def test_ome_tiff_has_sizes_and_an_annotation(results, tmp_path):
    tifffile = pytest.importorskip("tifffile", reason="tifffile reads TIFF")
    with tifffile.TiffFile(results["two"].save(tmp_path / "two.ome.tif")) as file:
        assert file.is_ome
        np.testing.assert_array_equal(file.asarray(), np.moveaxis(results["two"].data, -1, 0))
        assert file.series[0].axes == "CYX"
        for part in (
            'PhysicalSizeX="0.5" PhysicalSizeXUnit="nm"',
            'PhysicalSizeY="0.25" PhysicalSizeYUnit="nm"',
            '<M K="XOffset">-1</M>',
        ):
            assert part in file.ome_metadata


@pytest.mark.parametrize("ending", [*TOGETHER, ".tif", ".npy", ".ome.tif"])
def test_files_are_replaced_if_asked_and_whole(results, tmp_path, ending):
    path = tmp_path / f"x{ending}"
    image = results["image"]
    assert image.save(str(path)) == path
    with pytest.raises(InvalidArgumentError, match=rf"{re.escape(path.name)}': .* exists"):
        image.save(path)
    image.save(path, overwrite=True)
    assert os.listdir(tmp_path) == [path.name]
    nothing = buffer("nav", np.full(NAV, None))
    with pytest.raises(UnsupportedError, match="dtype object"):
        nothing.save(tmp_path / f"y{ending}")
    assert os.listdir(tmp_path) == [path.name]


def test_folders_with_something_else_are_not_replaced(results, tmp_path):
    path = results["image"].save(tmp_path / "x.zarr")
    (path / "notes.txt").write_text("mine")
    with pytest.raises(InvalidArgumentError, match=r"would remove 'notes\.txt'"):
        results["image"].save(path, overwrite=True)
    assert (path / "notes.txt").read_text() == "mine"


def test_what_cannot_be_saved_is_said(results, tmp_path):
    with pytest.raises(InvalidArgumentError, match=r"use one of .*\.h5.*plot\(\) draws pictures"):
        results.save(tmp_path / "x.docx")
    with pytest.raises(InvalidArgumentError, match=r"\.tif holds one result"):
        results.save(tmp_path / "x.tif")
    with pytest.raises(InvalidArgumentError, match="there are no results"):
        UDFResultDict().save(tmp_path / "x.h5")
    with pytest.raises(UnsupportedError, match="complex"):
        results["pattern"].save(tmp_path / "x.tif")
    with pytest.raises(UnsupportedError, match="has the name under which"):
        UDFResultDict(results, counts_valid=results["image"]).save(tmp_path / "x.h5")
    with pytest.raises(ff.exceptions.FramefoldError):
        results.save(tmp_path / "nowhere" / "x.h5")
    assert os.listdir(tmp_path) == []


def test_empty_axes_and_single_numbers_are_saved(tmp_path):
    number = UDFResultDict(
        n=buffer("single", np.array([5]), name="n"), none=buffer("single", np.zeros((0, 2)))
    )
    for ending in TOGETHER:
        number.save(tmp_path / f"x{ending}")
    h5py = pytest.importorskip("h5py", reason="h5py reads HDF5")
    with h5py.File(tmp_path / "x.h5") as file:
        assert file["n/data"][...] == [5]
        assert file["none/data"].shape == (0, 2)


def test_names_of_axes_do_not_clash_with_others(tmp_path):
    h5py = pytest.importorskip("h5py", reason="h5py reads HDF5")
    axes = (AXES[0]._replace(name="data"), AXES[1]._replace(name="a/b"))
    valid = np.ones(NAV, bool)
    valid[0] = False
    result = UDFResultDict(image=buffer("nav", np.ones(NAV), axes=axes, valid=valid))
    for ending in TOGETHER:
        result.save(tmp_path / f"x{ending}")
    with h5py.File(tmp_path / "x.h5") as file:
        assert list(file["image"].attrs["axes"]) == ["data_2", "a_b"]
        np.testing.assert_array_equal(file["image/data_2"], axes[0].values)
        assert file["image/valid"].shape == NAV


@pytest.mark.parametrize(
    ("name", "with_colours"), [("com", False), ("sum", False), ("sum", True), ("sum_sig", False)]
)
def test_hdf5_of_the_command_line_is_the_same(tmp_path, name, with_colours):
    h5py = pytest.importorskip("h5py", reason="h5py reads HDF5")

    def what_is_there(path, result):
        with h5py.File(path) as file:
            group = file[result]
            about = {name: group.attrs[name] for name in group.attrs if name != "title"}
            about["axes"] = about["axes"].tolist()
            assert set(about["axes"]) <= set(group)
            return about, {
                name: (each.dtype, dict(each.attrs), each[...].tolist())
                for name, each in group.items()
            }

    scan = np.random.default_rng(0).integers(1, 9, (3, 4, 6, 3)).astype("uint16")
    np.save(tmp_path / "scan.npy", scan)
    line = f"-m framefold run {name} scan.npy --roi 1: -o out.h5 -q"
    udf = {"com": ff.CoMUDF, "sum": ff.SumUDF, "sum_sig": ff.SumSigUDF}[name]()
    axes = {}
    if with_colours:
        axes = {"sig_dims": 3, "names": ["scan", "y", "x", "colour"]}
        line += " --sig-dims 3 --names scan,y,x,colour"
    dataset = ff.Context.make_with("inline").open(tmp_path / "scan.npy", **axes)
    roi = np.ones(dataset.shape.nav, bool)
    roi[0] = False
    result = ff.Context.make_with("inline").run_udf(dataset=dataset, udf=udf, roi=roi)
    result.save(tmp_path / "saved.h5")
    subprocess.run([sys.executable, *line.split()], check=True, cwd=tmp_path)
    for each in ("field", "raw_com") if name == "com" else ("intensity",):
        saved, written = (what_is_there(tmp_path / n, each) for n in ("saved.h5", "out.h5"))
        assert repr(saved) == repr(written)


def test_a_full_disk_leaves_nothing(tmp_path, monkeypatch):
    def full(*args):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ff.exceptions.FileAccessError, match=r"No space left.*; free space on that"):
        buffer("nav", np.ones(NAV)).save(tmp_path / "x.zarr")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("ending", [".zarr", ".zspy"])
def test_large_arrays_are_compressed_piece_by_piece(tmp_path, monkeypatch, ending):
    """One call for all of an array would keep Ctrl-C waiting until it is done."""
    lengths = []

    class Packer:
        def __init__(self, *args, **options):
            self._packer = compressobj(*args, **options)

        def compress(self, data):
            lengths.append(memoryview(data).nbytes)
            if len(lengths) == n_before:
                raise KeyboardInterrupt
            return self._packer.compress(data)

        def flush(self):
            return self._packer.flush()

    compressobj = zlib.compressobj
    monkeypatch.setattr(zlib, "compressobj", Packer)
    n_before = 5
    large = np.random.default_rng(0).integers(0, 9, (*NAV, 3 << 14))
    with pytest.raises(KeyboardInterrupt):
        buffer("nav", large).save(tmp_path / f"x{ending}")
    assert os.listdir(tmp_path) == []
    n_before = 0
    path = buffer("nav", large).save(tmp_path / f"x{ending}")
    assert max(lengths) < large.nbytes / 4
    zarr = pytest.importorskip("zarr", reason="zarr reads it")
    name = "image" if ending == ".zarr" else "Experiments/image/data"
    stored = zarr.open_group(path, mode="r")[name][...]
    assert np.array_equal(stored, large if ending == ".zarr" else np.moveaxis(large, -1, 0))


@pytest.mark.skipif(sys.platform == "win32", reason="no limits of files")
@pytest.mark.parametrize("ending", [".npy", ".npz", ".h5", ".hspy", ".tif"])
def test_what_cannot_be_written_is_named(tmp_path, monkeypatch, ending):
    import resource

    monkeypatch.setattr(sys, "dont_write_bytecode", True)  # it would be cut, too
    path = tmp_path / f"x{ending}"
    result = buffer("nav", np.random.default_rng(1).random(NAV))
    limits = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (20, limits[1]))
    try:
        with pytest.raises(ff.exceptions.FileAccessError) as refused:
            result.save(path)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, limits)
    assert str(path) in str(refused.value)
    assert "framefold-part" not in str(refused.value)


def test_results_of_a_run_are_saved(tmp_path):
    h5py = pytest.importorskip("h5py", reason="h5py reads HDF5")
    scan = ff.Context.make_with("inline").load(
        "memory", data=np.ones((*NAV, *SIG), np.float32), sig_dims=2
    )
    result = ff.Context.make_with("inline").run_udf(scan, ff.CoMUDF())
    path = result.save(Path(tmp_path) / "com.h5")
    with h5py.File(path) as file:
        assert set(file) == set(result)
        np.testing.assert_array_equal(file["field/data"], result["field"].data)


@pytest.mark.parametrize("name", ["..", ".", "zarr.json", "a/b", "..\\b"])
@pytest.mark.parametrize("how", ["save", "out"])
def test_names_of_axes_lead_nowhere_else(ctx, tmp_path, name, how):
    zarr = pytest.importorskip("zarr", reason="zarr reads it")
    around = zarr.open_group(tmp_path / "mine.zarr", mode="w")
    around.attrs["owner"] = "user"
    dataset = ctx.load("memory", data=np.ones((2, 3, *SIG)), sig_dims=2)
    dataset = dataset.calibrate(names=["p", name, "y", "x"], scan_step=(0.5, "nm"))
    path = tmp_path / "mine.zarr" / "result.zarr"
    if how == "save":
        result = ctx.run_udf(dataset, ff.SumSigUDF())
        result.save(path)
        result.save(tmp_path / "result.h5")
    else:
        ctx.run_udf(dataset, ff.SumSigUDF(), out=path)
    assert sorted(os.listdir(tmp_path / "mine.zarr")) == ["result.zarr", "zarr.json"]
    assert zarr.open_group(tmp_path / "mine.zarr", mode="r").attrs["owner"] == "user"
    group = zarr.open_group(path, mode="r")
    np.testing.assert_array_equal(group["intensity"][...], np.full((2, 3), 30))
    _, found = group["intensity"].metadata.dimension_names
    np.testing.assert_array_equal(group[found][...], [0, 0.5, 1])


@pytest.mark.skipif(sys.platform == "win32", reason="signals work differently")
@pytest.mark.parametrize("ending", [".h5", ".hspy", ".npy"])
def test_ctrl_c_is_heard_while_a_large_array_is_written(tmp_path, ending):
    """Within the one call that writes it: the file is not complete then."""

    class Stopped(Exception):
        pass

    def stop(*_):
        written = sum(path.stat().st_size for path in tmp_path.iterdir())
        if 0 < written < large.nbytes:
            signal.setitimer(signal.ITIMER_REAL, 0)
            raise Stopped

    large = np.zeros((*NAV, 6 << 20), np.uint8)
    result = buffer("nav", large)
    before = signal.signal(signal.SIGALRM, stop)
    try:
        signal.setitimer(signal.ITIMER_REAL, 0.0005, 0.0005)
        with pytest.raises(Stopped):
            result.save(tmp_path / f"x{ending}")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
    assert os.listdir(tmp_path) == []
