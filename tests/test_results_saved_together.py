"""Files of the results of several UDFs: a group for each, under names that can be foretold."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

import framefold as ff
from framefold.exceptions import ArgumentTypeError, FramefoldError, InvalidArgumentError
from framefold.udf.base import NoOpUDF

NAV, SIG = (3, 4), (6, 5)
DATA = np.random.default_rng(1).integers(0, 50, (*NAV, *SIG)).astype(np.float32)
GROUPS = ["CoMUDF", "SumUDF", "CoMUDF_2", "Counts"]


class Counts(ff.UDF):
    """Has names of results that are parameters of functions that write files."""

    def get_result_buffers(self):
        return {
            "file": self.buffer("nav", dtype=np.int32),
            "single": self.buffer("single", extra_shape=(2,), dtype=np.int64, unit="counts"),
        }

    def process_frame(self, frame):
        self.results.file[:] = frame.max()
        self.results.single[:] += (1, int(frame.sum()))

    def merge(self, dest, src):
        dest.file[:] = src.file
        dest.single += src.single


@pytest.fixture
def dataset():
    scan = ff.Context.make_with("inline").load("memory", data=DATA, sig_dims=2, num_partitions=3)
    return scan.calibrate(scan_step=(0.5, "nm"), pixel_size=(2, "mrad"))


def udfs():
    return [ff.CoMUDF(), ff.SumUDF(), ff.CoMUDF(cy=1, cx=1), Counts()]


@pytest.fixture
def results(dataset):
    return ff.Context.make_with("inline").run_udf(dataset, udfs())


def test_results_of_several_are_a_tuple(dataset, results):
    ctx = ff.Context.make_with("inline")
    assert isinstance(results, tuple)
    a, b, *_rest = results
    assert (a, b) == results[:2] == tuple(results)[:2]
    assert isinstance(ctx.run_udf(dataset, [ff.SumUDF()]), tuple)
    assert isinstance(ctx.run_udf(dataset, ff.SumUDF()), dict)
    for part in ctx.run_udf_iter(dataset, udfs()):
        assert isinstance(part.buffers, tuple)


def test_hdf5_has_an_entry_for_each(results, tmp_path):
    h5py = pytest.importorskip("h5py", reason="h5py reads HDF5")
    with h5py.File(results.save(tmp_path / "all.h5")) as file:
        assert sorted(file) == sorted(GROUPS)
        assert file.attrs["default"] == "CoMUDF"
        for group, of_one in zip(GROUPS, results, strict=True):
            assert file[group].attrs["NX_class"] == "NXentry"
            assert file[group].attrs["default"] == next(iter(of_one))
            assert sorted(file[group]) == sorted(of_one)
            for name, result in of_one.items():
                found = file[group][name]
                assert found.attrs["title"] == f"{group}: {name}"
                np.testing.assert_array_equal(found["data"], result.data)
        assert file["SumUDF/intensity/x"].attrs["units"] == "mrad"
        assert file["Counts/single/data"].attrs["units"] == "counts"


def test_zarr_has_a_group_for_each(results, tmp_path):
    zarr = pytest.importorskip("zarr", reason="zarr reads it")
    path = results.save(tmp_path / "all.zarr")
    root = zarr.open_group(path, mode="r")
    assert sorted(root.group_keys()) == sorted(GROUPS)
    for group, of_one in zip(GROUPS, results, strict=True):
        for name, result in of_one.items():
            np.testing.assert_array_equal(root[group][name][...], result.data)


def test_xarray_opens_each_group(results, tmp_path):
    xarray = pytest.importorskip("xarray", reason="xarray is not installed")
    pytest.importorskip("zarr", reason="xarray reads Zarr with it")
    path = results.save(tmp_path / "all.zarr")
    for group, of_one in zip(GROUPS, results, strict=True):
        opened = xarray.open_zarr(path, group=group, consolidated=False).load()
        xarray.testing.assert_equal(opened, of_one.to_xarray())


@pytest.mark.parametrize("ending", [".hspy", ".zspy"])
def test_hyperspy_has_a_signal_for_each(results, tmp_path, ending):
    hs = pytest.importorskip("hyperspy.api", reason="HyperSpy reads its formats")
    signals = hs.load(str(results.save(tmp_path / f"all{ending}")))
    found = {signal.metadata.General.title: signal for signal in signals}
    assert len(found) == len(signals) == sum(map(len, results))
    np.testing.assert_array_equal(found["CoMUDF_2: magnitude"].data, results[2]["magnitude"].data)
    assert found["SumUDF: intensity"].axes_manager[0].units == "mrad"


def test_npz_has_groups_in_its_names(results, tmp_path):
    with np.load(results.save(tmp_path / "all.npz"), allow_pickle=False) as file:
        about = json.loads(str(file["about"]))
        assert set(file.files) - {"about"} == set(about)
        for group, of_one in zip(GROUPS, results, strict=True):
            for name, result in of_one.items():
                np.testing.assert_array_equal(file[f"{group}/{name}"], result.data)
    assert about["Counts/single"]["unit"] == "counts"
    with np.load(results[3].save(tmp_path / "one.npz")) as file:
        np.testing.assert_array_equal(file["file"], DATA.max((2, 3)))


def test_results_so_far_say_which_positions_are_merged(dataset, tmp_path):
    h5py = pytest.importorskip("h5py", reason="h5py reads HDF5")
    with ff.Context.make_with("inline").run_udf_iter(dataset, udfs()) as steps:
        part = next(steps)
        path = part.save(tmp_path / "part.h5", names=["a", "b", "c", "d"])
    done = part.damage.data
    assert done.any()
    assert not done.all()
    with h5py.File(path) as file:
        assert sorted(file) == ["a", "b", "c", "d", "damage"]
        np.testing.assert_array_equal(file["damage/data"], done)
        np.testing.assert_array_equal(file["b/intensity/data"], DATA[done].sum(0))
        np.testing.assert_array_equal(file["d/file/valid"], done)
    paths = part.save(tmp_path / "part.tif", separate=True)
    assert tmp_path / "part-damage.tif" in paths


def test_formats_of_one_picture_get_a_file_each(results, tmp_path):
    tifffile = pytest.importorskip("tifffile", reason="tifffile reads TIFF")
    with pytest.raises(InvalidArgumentError, match=r"\.tif holds one result.*separate=True"):
        results.save(tmp_path / "x.tif")
    paths = results[0].save(tmp_path / "com.ome.tif", separate=True)
    assert [path.name for path in paths] == [f"com-{name}.ome.tif" for name in results[0]]
    for path, result in zip(paths, results[0].values(), strict=True):
        channels = result.kind == "nav" and result.extra_shape
        picture = np.moveaxis(result.data, -1, 0) if channels else result.data
        np.testing.assert_array_equal(tifffile.imread(path), picture)
    paths = results.save(tmp_path / "x.hspy", separate=True)
    assert len(paths) == sum(map(len, results)) == len(set(paths))
    assert tmp_path / "x-CoMUDF_2-field.hspy" in paths
    before = sorted(os.listdir(tmp_path))
    (tmp_path / "x-Counts-file.npy").write_text("mine")
    with pytest.raises(InvalidArgumentError, match="exists"):
        results.save(tmp_path / "x.npy", separate=True)
    assert sorted(os.listdir(tmp_path)) == sorted([*before, "x-Counts-file.npy"])
    results.save(tmp_path / "x.npy", separate=True, overwrite=True)
    np.testing.assert_array_equal(np.load(tmp_path / "x-Counts-file.npy"), DATA.max((2, 3)))


def test_names_are_checked(results, tmp_path):
    for names, error, match in (
        ("abcd", ArgumentTypeError, "a list of texts"),
        (["a", "b", "c", 4], ArgumentTypeError, "a list of texts"),
        (["a", "b"], InvalidArgumentError, "2 names for the results of 4"),
        (["a", "b", "a", "d"], InvalidArgumentError, "'a' is there twice"),
        (["a", "b", "../c", "d"], InvalidArgumentError, "cannot be that of a group"),
        (["a", "", "c", "d"], InvalidArgumentError, "cannot be that of a group"),
        (["a", "zarr.json", "c", "d"], InvalidArgumentError, "cannot be that of a group"),
    ):
        with pytest.raises(error, match=match):
            results.save(tmp_path / "x.h5", names=names)
    with pytest.raises(FramefoldError, match="there are no results"):
        ff.Context.make_with("inline").run_udf(
            ff.Context.make_with("inline").load("memory", data=DATA, sig_dims=2), [NoOpUDF()]
        ).save(tmp_path / "x.h5")
    assert os.listdir(tmp_path) == []


@pytest.mark.parametrize("executor", ["threads", "delayed"])
def test_other_executors_give_what_can_be_saved(dataset, tmp_path, executor):
    if executor == "delayed":
        pytest.importorskip("dask", reason="delayed runs need Dask")
    with ff.Context.make_with(executor) as ctx:
        path = ctx.run_udf(dataset, [ff.SumUDF(), ff.SumUDF()]).save(tmp_path / "x.npz")
    with np.load(path) as file:
        np.testing.assert_array_equal(file["SumUDF_2/intensity"], DATA.sum((0, 1)))


def test_slices_can_be_saved_as_well(ctx, tmp_path):
    dataset = ctx.load("memory", data=np.ones((2, 3, 4, 5), dtype="uint8"), sig_dims=2)
    results = ctx.run_udf(dataset, [ff.SumUDF(), ff.MaxUDF(), ff.SumSigUDF()])
    results[1:].save(tmp_path / "some.npz")
    with np.load(tmp_path / "some.npz") as file:
        assert {name.split("/")[0] for name in file.files} == {"MaxUDF", "SumSigUDF", "about"}
    assert results[0] is results[-3]
