"""Arrays that the viewer exports, read by the programs that they are for."""

import io
import zipfile

import numpy as np
import pytest
from view_client import Client

import framefold as ff

FRAMES = np.random.default_rng(5).poisson(4.0, (5, 6, 12, 14)).astype(np.uint16)
SUM = {"pane": "scan", "channel": {"kind": "sum"}}
FIELD = {"pane": "scan", "channel": {"kind": "com"}}
PATTERN = {"pane": "pattern", "channel": {"kind": "mean"}}
SPECTRUM = {"pane": "pattern", "transform": "fft"}


@pytest.fixture(scope="module")
def client():
    dataset = ff.Context.make_with("inline").load("memory", data=FRAMES)
    dataset = dataset.calibrate(
        scan_step=[(0.5, "nm"), (0.25, "nm")], pixel_size="1.5mrad", centre=(6, 7)
    )
    client = Client(dataset)
    yield client
    client.session.close()


def written(client, query, format, folder):
    name, content = client.file(type="export", query=query, format=format)
    path = folder / name
    path.write_bytes(content)
    return path


def test_npy(client, tmp_path):
    path = written(client, SUM, "npy", tmp_path)
    assert path.name.endswith("-scan.npy")
    np.testing.assert_array_equal(np.load(path), FRAMES.sum(axis=(2, 3)))
    field = np.load(written(client, FIELD, "npy", tmp_path))
    assert (field.shape, field.dtype) == ((2, 5, 6), np.float64)


def test_hyperspy_reads_signals_with_their_axes(client, tmp_path):
    hs = pytest.importorskip("hyperspy.api")
    signal = hs.load(written(client, SUM, "hspy", tmp_path))
    np.testing.assert_array_equal(signal.data, FRAMES.sum(axis=(2, 3)))
    assert signal.axes_manager.navigation_dimension == 0
    x, y = signal.axes_manager.signal_axes
    assert (x.name, x.scale, x.units, x.size) == ("scan_x", 0.25, "nm", 6)
    assert (y.name, y.scale, y.units, y.size) == ("scan_y", 0.5, "nm", 5)
    assert signal.metadata.General.title == "Sum of all pixels"
    pattern = hs.load(written(client, PATTERN, "hspy", tmp_path))
    x, y = pattern.axes_manager.signal_axes
    assert (x.scale, x.offset, x.units) == (1.5, -10.5, "mrad")
    assert (y.scale, y.offset, y.units) == (1.5, -9.0, "mrad")
    field = hs.load(written(client, FIELD, "hspy", tmp_path))
    assert field.axes_manager.navigation_shape == (2,)
    np.testing.assert_array_equal(field.data, client.array(FIELD))
    spectrum = hs.load(written(client, SPECTRUM, "hspy", tmp_path))
    x, y = spectrum.axes_manager.signal_axes
    assert (x.units, y.units) == ("1/mrad", "1/mrad")
    assert x.scale == pytest.approx(1 / (14 * 1.5))
    assert (x.offset, y.offset) == (pytest.approx(-7 * x.scale), pytest.approx(-6 * y.scale))


def test_tifffile_reads_pages_with_steps_and_units(client, tmp_path):
    tifffile = pytest.importorskip("tifffile")
    with tifffile.TiffFile(written(client, SUM, "tif", tmp_path)) as file:
        np.testing.assert_array_equal(file.asarray(), FRAMES.sum(axis=(2, 3)))
        assert file.imagej_metadata["unit"] == "nm"
        n, d = file.pages[0].tags["XResolution"].value
        assert n / d == pytest.approx(1 / 0.25)
        n, d = file.pages[0].tags["YResolution"].value
        assert n / d == pytest.approx(1 / 0.5)
    with tifffile.TiffFile(written(client, FIELD, "tif", tmp_path)) as file:
        np.testing.assert_array_equal(np.squeeze(file.asarray()), client.array(FIELD))


def test_zarr_reads_arrays_beside_their_axes(client, tmp_path):
    zarr = pytest.importorskip("zarr")
    path = written(client, SUM, "zarr", tmp_path)
    assert path.name.endswith("-scan.zarr.zip")
    assert zipfile.ZipFile(path).testzip() is None
    group = zarr.open_group(zarr.storage.ZipStore(path, mode="r"), mode="r")
    assert group.attrs["title"] == "Sum of all pixels"
    np.testing.assert_array_equal(group["data"][...], FRAMES.sum(axis=(2, 3)))
    assert group["data"].metadata.dimension_names == ("scan_y", "scan_x")
    np.testing.assert_allclose(group["scan_x"][...], np.arange(6) * 0.25)
    assert group["scan_y"].attrs["units"] == "nm"
    store = zarr.storage.ZipStore(written(client, FIELD, "zarr", tmp_path), mode="r")
    field = zarr.open_group(store, mode="r")
    np.testing.assert_array_equal(field["data"][...], client.array(FIELD))
    assert field["data"].metadata.dimension_names == ("component", "scan_y", "scan_x")


def test_xarray_opens_the_store(client, tmp_path):
    xarray = pytest.importorskip("xarray")
    pytest.importorskip("zarr")
    path = written(client, PATTERN, "zarr", tmp_path)
    with zipfile.ZipFile(path) as archive:
        archive.extractall(tmp_path / "store")
    found = xarray.open_zarr(tmp_path / "store", consolidated=False)["data"]
    np.testing.assert_array_equal(found.values, client.array(PATTERN))
    assert found.coords["x"].values[0] == -10.5


def test_lines(tmp_path):
    spectra = FRAMES.reshape(30, 168)
    dataset = ff.Context.make_with("inline").load("memory", data=spectra, sig_dims=1)
    client = Client(dataset)
    expected = spectra.mean(axis=0)
    np.testing.assert_array_equal(np.load(written(client, PATTERN, "npy", tmp_path)), expected)
    for format in ("tif", "hspy", "zarr"):
        assert written(client, PATTERN, format, tmp_path).stat().st_size > expected.nbytes
    client.session.close()


def test_another_format_is_refused(client):
    client.send(type="export", id=77, query=SUM, format="exe")
    header, _ = client.next()
    assert (header["type"], header["id"]) == ("error", 77)
    assert "npy, tif, hspy, zarr" in header["hint"]


def test_names_of_files_are_plain():
    dataset = ff.Context.make_with("inline").load("memory", data=FRAMES)
    client = Client(dataset)
    name, content = client.file(type="export", query=SUM, format="npy")
    assert set(name) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
    assert np.load(io.BytesIO(content)).shape == (5, 6)
    client.session.close()
