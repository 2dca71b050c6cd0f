"""Zarr of version 2 and HyperSpy's .zspy are written as zarr-python and HyperSpy have them."""

from __future__ import annotations

import json

import numpy as np
import pytest

import framefold as ff
from framefold.exceptions import InvalidArgumentError

COMPRESSIONS = ["none", "gzip", "zstd", "blosc", "bitshuffle"]


@pytest.fixture
def ctx():
    """Exports do not depend on the executor."""
    return ff.Context.make_with("inline")


def files(folder):
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


@pytest.mark.parametrize(
    "dtype", [">u2", "float64", "complex64", "complex128", "bool", "float16", "int8", "uint64"]
)
def test_version_2_is_that_of_zarr(ctx, tmp_path, data, dtype):
    zarr = pytest.importorskip("zarr")
    array = (data % 2 if dtype == "bool" else data % 100).astype(dtype)
    array[1] = 0  # is left out
    if array.dtype.kind in "fc":
        array[2, 3, 4] = [np.nan, np.inf, -np.inf, -0.0, *array[2, 3, 4, 4:]]
    array.tofile(tmp_path / "scan.raw")
    dataset = ctx.load(
        "raw", tmp_path / "scan.raw", dtype=dtype, nav_shape=(6, 7), sig_shape=(10, 12)
    )
    target = tmp_path / "out.zarr"
    ctx.export_dataset(dataset, target, zarr_format=2, chunks=(1, 4, 10, 5))
    written = zarr.open_array(target, mode="r")
    assert written.metadata.zarr_format == 2
    assert written.chunks == (1, 4, 10, 5)
    assert written.dtype == dataset.dtype
    assert written[...].tobytes() == array.astype(dataset.dtype).tobytes()
    assert "1/0/0/0" not in files(target)
    assert "2/1/0/2" in files(target)
    assert written.attrs["_ARRAY_DIMENSIONS"] == ["scan_y", "scan_x", "y", "x"]
    again = ctx.open(target)
    assert (again.shape, again.dtype) == (dataset.shape, dataset.dtype)
    assert again[2, 3].tobytes() == array[2, 3].astype(dataset.dtype).tobytes()


@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("ending", ["zarr", "zspy"])
def test_version_2_is_compressed_as_numcodecs_does(ctx, tmp_path, ending, compression):
    zarr = pytest.importorskip("zarr")
    array = np.random.default_rng(3).poisson(2, (9, 11, 40, 50)).astype("uint16")
    array[0, 0] = 0
    dataset = ctx.load("memory", data=array, sig_dims=2)
    target = tmp_path / f"out.{ending}"
    ctx.export_dataset(
        dataset, target, zarr_format=2, chunks=(2, 3, 16, 50), compression=compression
    )
    group = zarr.open(target, mode="r")
    found = group["Experiments/__unnamed__/data"] if ending == "zspy" else group
    assert np.array_equal(found[...], array)


def test_version_2_and_zspy_are_read_without_zarr_3(ctx, tmp_path, data, dataset):
    """No file of version 3 among them: programs from before it do not know these."""
    for name, options in [("out.zarr", {"zarr_format": 2}), ("out.zspy", {})]:
        ctx.export_dataset(dataset, tmp_path / name, **options)
        assert not [path for path in files(tmp_path / name) if path.endswith("zarr.json")]
    about = json.loads((tmp_path / "out.zarr" / ".zarray").read_text())
    assert about["zarr_format"] == 2
    assert np.dtype(about["dtype"]) == dataset.dtype
    ctx.export_dataset(dataset, tmp_path / "new.zarr", zarr_format=3)
    assert (tmp_path / "new.zarr" / "zarr.json").exists()


def calibrated(hs):
    source = hs.signals.Signal2D(
        np.random.default_rng(1).poisson(3, (5, 6, 16, 17)).astype("uint16")
    )
    for axis, (name, scale, units, offset) in zip(
        source.axes_manager._axes,
        [("a", 2, "nm", 0), ("b", 3, "nm", 40), ("c", -0.1, "1/nm", 0.8), ("d", 0.2, "1/nm", -1.5)],
        strict=True,
    ):
        axis.name, axis.scale, axis.units, axis.offset = name, scale, units, offset
    source.metadata.General.title = "gold: 3/4 'μ' .zarr"
    source.metadata.set_item("Acquisition_instrument.TEM.beam_energy", 200.0)
    source.metadata.set_item("Acquisition_instrument.TEM.Stage.tilt_alpha", 12.5)
    source.metadata.General.date, source.metadata.General.time = "2024-05-06", "07:08:09"
    return source


@pytest.mark.parametrize("lazy", [False, True])
def test_zspy_is_that_of_hyperspy(ctx, tmp_path, lazy):
    hs = pytest.importorskip("hyperspy.api")
    source = calibrated(hs)
    source.save(tmp_path / "source.hspy")
    dataset = ctx.open(tmp_path / "source.hspy")
    ctx.export_dataset(dataset, tmp_path / "out.zspy")
    signal = hs.load(tmp_path / "out.zspy", lazy=lazy)
    assert signal._lazy == lazy
    assert np.array_equal(np.asarray(signal.data), source.data)
    assert signal.data.dtype == source.data.dtype
    for found, wanted in zip(signal.axes_manager._axes, source.axes_manager._axes, strict=True):
        for name in ("name", "scale", "offset", "units", "size", "navigate"):
            assert getattr(found, name) == getattr(wanted, name), name
    kept = {"title": "gold: 3/4 'μ' .zarr", "date": "2024-05-06", "time": "07:08:09"}
    assert kept.items() <= signal.metadata.General.as_dictionary().items()
    instrument = signal.metadata.Acquisition_instrument.as_dictionary()
    assert instrument == source.metadata.Acquisition_instrument.as_dictionary()
    again = ctx.open(tmp_path / "out.zspy")
    assert (again.shape, again.dtype) == (dataset.shape, dataset.dtype)
    assert again.metadata == dataset.metadata
    assert [str(axis) for axis in again.axes] == [str(axis) for axis in dataset.axes]
    assert np.array_equal(np.asarray(again), source.data)


def test_zspy_of_spectra_images_and_parts(ctx, tmp_path):
    hs = pytest.importorskip("hyperspy.api")
    spectra = np.arange(4 * 3 * 9, dtype="float32").reshape(4, 3, 9)
    dataset = ctx.load("memory", data=spectra, sig_dims=1)
    ctx.export_dataset(dataset, tmp_path / "spectra.zspy", roi=np.s_[1:3])
    signal = hs.load(tmp_path / "spectra.zspy")
    assert signal.axes_manager.signal_dimension == 1
    assert np.array_equal(signal.data, spectra[1:3])
    image = ctx.load("memory", data=spectra[None, :, :, 0], sig_dims=2)
    ctx.export_dataset(image, tmp_path / "image.zspy")
    signal = hs.load(tmp_path / "image.zspy")
    assert signal.axes_manager.navigation_dimension == 0
    assert np.array_equal(signal.data, spectra[:, :, 0])


def test_metadata_that_hyperspy_has_no_place_for_survive_zspy(ctx, tmp_path, data):
    from framefold.utils.simulate import write_mib

    write_mib(tmp_path / "scan.mib", data.astype("uint16"))
    dataset = ctx.open(tmp_path / "scan.hdr")
    assert dataset.metadata["exposure_time"] > 0
    for name, turned in [("out.zspy", {"orientation": "flip y of mib"}), ("two.zarr", {})]:
        ctx.export_dataset(dataset, tmp_path / name, zarr_format=2)
        assert ctx.open(tmp_path / name).metadata == {**dataset.metadata, **turned}


def test_what_is_changed_in_hyperspy_wins(ctx, tmp_path):
    zarr = pytest.importorskip("zarr")
    hs = pytest.importorskip("hyperspy.api")
    calibrated(hs).save(tmp_path / "source.hspy")
    ctx.export_dataset(ctx.open(tmp_path / "source.hspy"), tmp_path / "out.zspy")
    group = zarr.open_group(tmp_path / "out.zspy", mode="r+")
    (signal,) = group["Experiments"].group_values()
    signal["axis-1"].attrs["scale"] = 5.0
    metadata = ctx.open(tmp_path / "out.zspy").metadata
    assert (metadata["scan_step_x"], metadata["scan_step_y"]) == (5, 2)


def test_chunks_for_hyperspy_are_blocks(ctx, tmp_path):
    """8 × 8 positions of 128 × 128 pixels, as the guide says; less of larger frames."""
    h5py, zarr = pytest.importorskip("h5py"), pytest.importorskip("zarr")
    for nav, sig, dtype, wanted in [
        ((9, 10), (130, 140), "uint8", (8, 8, 128, 128)),
        ((5, 9), (20, 600), "uint16", (5, 8, 20, 128)),
        ((70,), (12, 13), "float32", (64, 12, 13)),
        ((2, 9, 10), (300,), "float32", (1, 8, 8, 300)),
        ((3, 5), (700, 700), "uint8", (3, 5, 128, 128)),
        ((3, 5), (700, 700), "uint16", (3, 4, 256, 256)),
    ]:
        dataset = ctx.load("memory", data=np.ones((*nav, *sig), dtype), sig_dims=len(sig))
        ctx.export_dataset(dataset, tmp_path / "out.hspy", overwrite=True)
        with h5py.File(tmp_path / "out.hspy") as file:
            assert file["Experiments/__unnamed__/data"].chunks == wanted
        ctx.export_dataset(dataset, tmp_path / "out.zspy", overwrite=True)
        group = zarr.open_group(tmp_path / "out.zspy", mode="r")
        assert group["Experiments/__unnamed__/data"].chunks == wanted
        ctx.export_dataset(dataset, tmp_path / "out.zarr", overwrite=True, zarr_format=2)
        assert zarr.open_array(tmp_path / "out.zarr", mode="r").chunks == wanted


@pytest.mark.parametrize(
    "title",
    ["a/b", "..", "zarr.json", ".zgroup", "x" * 300, "長" * 150, 'C:\\a*"?<>|', " trailing. "],
)
def test_any_title_is_a_folder(ctx, tmp_path, title):
    h5py = pytest.importorskip("h5py")
    hs = pytest.importorskip("hyperspy.api")
    hs.signals.Signal2D(np.ones((2, 3, 4, 5), "uint8")).save(tmp_path / "source.hspy")
    with h5py.File(tmp_path / "source.hspy", "r+") as file:
        file["Experiments/__unnamed__/metadata/General"].attrs["title"] = title
    dataset = ctx.open(tmp_path / "source.hspy")
    ctx.export_dataset(dataset, tmp_path / "out.zspy")
    assert (hs.load(tmp_path / "out.zspy").data == 1).all()
    assert ctx.open(tmp_path / "out.zspy").metadata == dataset.metadata
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.zspy", "source.hspy"]


def test_versions_that_do_not_fit_are_refused(ctx, tmp_path, dataset):
    for name, version, words in [
        ("out.zarr", 4, "no version 4"),
        ("out.zspy", 3, "is Zarr of version 2"),
        ("out.h5", 2, "'hdf5' is no format of Zarr"),
        ("out.npy", 3, "'npy' is no format of Zarr"),
    ]:
        with pytest.raises(InvalidArgumentError, match=words):
            ctx.export_dataset(dataset, tmp_path / name, zarr_format=version)
    with pytest.raises(InvalidArgumentError, match="zarr_format"):
        ctx.export_dataset(dataset, tmp_path / "out.zarr", zarr_format="two")
    assert list(tmp_path.iterdir()) == []


def test_what_is_replaced(ctx, tmp_path, data, dataset):
    target = tmp_path / "out.zarr"
    for version in (2, 3, 2, 2):
        ctx.export_dataset(dataset, target, overwrite=True, zarr_format=version)
        assert np.array_equal(np.asarray(ctx.open(target)), data)
    with pytest.raises(FileExistsError):
        ctx.export_dataset(dataset, target, zarr_format=2)
    (target / "0" / "thesis.txt").write_text("words")
    with pytest.raises(InvalidArgumentError, match=r"remove 'thesis\.txt'"):
        ctx.export_dataset(dataset, target, overwrite=True, zarr_format=2)
    assert (target / "0" / "thesis.txt").read_text() == "words"
    signal = tmp_path / "out.zspy"
    for _ in range(2):
        ctx.export_dataset(dataset, signal, overwrite=True)
    (signal / "thesis.txt").write_text("words")
    with pytest.raises(InvalidArgumentError, match=r"remove 'thesis\.txt'"):
        ctx.export_dataset(dataset, signal, overwrite=True)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.zarr", "out.zspy"]


def test_the_command_line(tmp_path, data, command):
    zarr = pytest.importorskip("zarr")
    np.save(tmp_path / "in.npy", data)
    run = ["convert", tmp_path / "in.npy"]
    command(*run, tmp_path / "out.zarr", "--zarr-format", "2")
    assert zarr.open_array(tmp_path / "out.zarr", mode="r").metadata.zarr_format == 2
    command(*run, tmp_path / "out.zspy")
    group = zarr.open_group(tmp_path / "out.zspy", mode="r")
    assert np.array_equal(group["Experiments/__unnamed__/data"][...], data)
    command(*run, tmp_path / "named", "--to", "zspy")
    said = command(*run, tmp_path / "a.zarr", "--zarr-format", "5", code=2)
    assert "choose 2 or 3" in said
    said = command(*run, tmp_path / "a.toml", "--zarr-format", "2", code=2)
    assert "'--zarr-format' is for whole arrays" in said
