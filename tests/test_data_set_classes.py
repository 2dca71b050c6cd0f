"""The class of each format: made directly, by ``load``, and what it says about itself."""

from __future__ import annotations

import asyncio
import inspect
import pickle
from pathlib import Path

import numpy as np
import pytest
from known_oddities import POSITIONS_WITHOUT_DATA

import framefold as ff
from framefold import _engine
from framefold.exceptions import ArgumentTypeError, FramefoldError, InvalidArgumentError
from framefold.io import dataset as data_sets
from framefold.io.dataset._file import CLASSES, FileDataSet
from framefold.io.dataset._opening import of_format
from framefold.io.dataset.base import DataSet
from framefold.io.dataset.dm import DMDataSet, StackedDMDataSet
from framefold.io.dataset.dm_single import SingleDMDataSet
from framefold.io.dataset.npy import NPYDataSet
from framefold.io.dataset.raw import RawFileDataSet
from framefold.utils.write_mib import write_mib

SHAPE = (4, 5, 16, 64)
#: What the reference's constructors take, and in which order.
PARAMETERS = {
    "raw": "path dtype scan_size detector_size enable_direct detector_size_raw crop_detector_to "
    "tileshape nav_shape sig_shape sync_offset io_backend num_partitions",
    "mib": "path tileshape scan_size disable_glob nav_shape sig_shape sync_offset io_backend "
    "num_partitions",
    "raw_csr": "path nav_shape sig_shape sync_offset io_backend num_partitions",
    "npy": "path sig_dims nav_shape sig_shape sync_offset io_backend num_partitions",
    "hdf5": "path ds_path tileshape nav_shape sig_shape target_size min_num_partitions sig_dims "
    "io_backend sync_offset num_partitions",
    "blo": "path tileshape endianess nav_shape sig_shape sync_offset io_backend num_partitions",
    "k2is": "path nav_shape sig_shape sync_offset io_backend num_partitions",
    "ser": "path emipath nav_shape sig_shape sync_offset io_backend num_partitions",
    "frms6": "path enable_offset_correction gain_map_path dest_dtype nav_shape sig_shape "
    "sync_offset io_backend num_partitions",
    "empad": "path scan_size nav_shape sig_shape sync_offset io_backend num_partitions",
    "seq": "path scan_size nav_shape sig_shape sync_offset io_backend num_partitions",
    "mrc": "path nav_shape sig_shape sync_offset io_backend num_partitions",
    "tvips": "path nav_shape sig_shape sync_offset io_backend num_partitions",
}


@pytest.fixture
def counts():
    return np.random.default_rng(4).integers(0, 50, SHAPE, dtype=np.uint8)


@pytest.fixture
def files(tmp_path, counts):
    counts.tofile(tmp_path / "scan.raw")
    np.save(tmp_path / "scan.npy", counts)
    write_mib(tmp_path / "scan.mib", counts)
    raw = {"nav_shape": SHAPE[:2], "sig_shape": SHAPE[2:], "dtype": "uint8"}
    return {
        "raw": (tmp_path / "scan.raw", raw),
        "npy": (tmp_path / "scan.npy", {}),
        "mib": (tmp_path / "scan.mib", {}),
    }


@pytest.mark.parametrize("filetype", PARAMETERS)
def test_constructors_take_what_the_reference_takes(filetype):
    found = inspect.signature(of_format(filetype)).parameters.values()
    # framefold's own options have names only, so that positions are those of the reference.
    own = [parameter.name for parameter in found if parameter.kind is parameter.KEYWORD_ONLY]
    assert [parameter.name for parameter in found if parameter.name not in own] == PARAMETERS[
        filetype
    ].split()


def test_options_without_names_are_those_of_the_class(files, counts):
    raw, _ = files["raw"]
    ctx = ff.Context.make_with("inline")
    with pytest.warns(FutureWarning, match="scan_size is now called nav_shape"):
        dataset = ctx.load("raw", raw, "uint8", SHAPE[:2], sig_shape=SHAPE[2:])
    np.testing.assert_array_equal(
        ctx.run_udf(dataset, ff.SumUDF())["intensity"], counts.sum((0, 1))
    )
    assert ctx.load("npy", files["npy"][0], 1).shape.nav == SHAPE[:3]
    with pytest.raises(InvalidArgumentError, match="got sig_dims twice"):
        ctx.load("npy", files["npy"][0], 1, sig_dims=2)
    with pytest.raises(InvalidArgumentError, match="pass a list of them"):
        ctx.load("npy", *[files["npy"][0]] * 9)


def test_there_is_a_class_of_each_format_it_names():
    assert set(CLASSES) <= set(_engine.known_formats())
    for filetype in CLASSES:
        cls = of_format(filetype)
        assert cls.filetype == filetype
        assert cls.get_supported_extensions() <= data_sets.get_extensions()
        assert data_sets.get_dataset_cls(filetype) is cls
    assert issubclass(SingleDMDataSet, DMDataSet)
    assert issubclass(StackedDMDataSet, DMDataSet)
    with pytest.raises(InvalidArgumentError, match="no file type 'nothing'"):
        data_sets.get_dataset_cls("nothing")


@pytest.mark.parametrize("files", ["scan.dm4", b"scan.dm4", Path("scan.dm4"), 3])
def test_stacks_are_lists_of_files(files):
    with pytest.raises(ArgumentTypeError, match=r"files is .*, expected a list of paths"):
        StackedDMDataSet(files)
    with pytest.raises(ArgumentTypeError, match="of type set; pass a tuple or a list"):
        StackedDMDataSet({files})


@pytest.mark.parametrize("filetype", ["raw", "npy", "mib"])
@POSITIONS_WITHOUT_DATA
def test_made_directly_and_by_load(ctx, files, counts, filetype):
    path, options = files[filetype]
    cls = of_format(filetype)
    made = cls(path, **options).initialize(ctx.executor)
    loaded = ctx.load(filetype, path, **options)
    assert made.check_valid()
    assert made.supports_correction()
    assert made.array_backends == made.native_backends
    assert made.get_diagnostics() == made.diagnostics
    for dataset in (made, loaded, pickle.loads(pickle.dumps(made))):
        assert type(dataset) is cls
        assert tuple(dataset.shape) == SHAPE
        total = ctx.run_udf(dataset, ff.SumUDF())["intensity"].data
        assert np.array_equal(total, counts.sum(axis=(0, 1)))
    assert made.get_cache_key() != cls(path, **{**options, "sync_offset": 1}).get_cache_key()


def test_what_a_file_is_and_what_it_takes_to_open_it(files, tmp_path):
    for filetype in ("npy", "mib"):
        path, _ = files[filetype]
        found = data_sets.detect(path, executor=None)
        assert found["type"] == filetype
        assert found["parameters"]["nav_shape"] == SHAPE[:2]
        assert found["info"] == {"image_count": 20, "native_sig_shape": SHAPE[2:]}
        cls = of_format(filetype)
        assert cls.detect_params(path, None) == {
            "parameters": found["parameters"],
            "info": found["info"],
        }
        assert tuple(cls(**found["parameters"]).shape) == SHAPE
        assert RawFileDataSet.detect_params(path) is False
    nothing = tmp_path / "nothing.txt"
    nothing.write_text("words")
    assert data_sets.detect(nothing) == {}
    assert NPYDataSet.detect_params(tmp_path / "absent.npy") is False


def test_former_names_and_options_of_no_effect(ctx, files):
    path, _ = files["raw"]
    with pytest.warns(FutureWarning, match="scan_size is now called nav_shape"):
        dataset = RawFileDataSet(path, "uint8", scan_size=(4, 5), sig_shape=(16, 64))
    assert tuple(dataset.shape) == SHAPE
    with pytest.warns(FutureWarning, match="detector_size is now called sig_shape"):
        dataset = ctx.load("raw", path, dtype="uint8", nav_shape=(4, 5), detector_size=(16, 64))
    assert tuple(dataset.shape) == SHAPE
    with pytest.raises(InvalidArgumentError, match="another name of nav_shape"):
        RawFileDataSet(path, "uint8", scan_size=(4, 5), nav_shape=(4, 5), sig_shape=(16, 64))
    with pytest.raises(InvalidArgumentError, match="frame_header"):
        RawFileDataSet(path, "uint8", nav_shape=(4, 5), crop_detector_to=(16, 64))
    mib = ctx.load("mib", files["mib"][0], tileshape=(1, 4, 16, 64))
    assert tuple(mib.shape) == SHAPE


def test_errors_come_when_a_data_set_is_made(tmp_path):
    for cls in map(of_format, CLASSES):
        options = {"dtype": "u1"} if cls is RawFileDataSet else {}
        with pytest.raises(FramefoldError, match="absent"):
            cls(tmp_path / "absent", **options)
    assert issubclass(FramefoldError, data_sets.DataSetException)
    assert issubclass(FileDataSet, data_sets.DataSet)


def test_load_without_a_context(files, counts):
    path, options = files["raw"]
    dataset = data_sets.load("raw", path=path, executor=None, **options)
    assert tuple(dataset.shape) == SHAPE

    async def opened():
        return await data_sets.load("npy", files["npy"][0], enable_async=True)

    assert tuple(asyncio.run(opened()).shape) == SHAPE


def test_relative_paths_hold_in_other_folders(files, monkeypatch):
    path, _ = files["npy"]
    monkeypatch.chdir(path.parent)
    dataset = NPYDataSet(path.name)
    monkeypatch.chdir("/")
    assert tuple(pickle.loads(pickle.dumps(dataset)).shape) == SHAPE


def test_backends_as_objects(ctx, files, counts):
    from framefold.io.dataset.base import BufferedBackend, DirectBackend, MMapBackend

    path, _ = files["npy"]
    for backend in (MMapBackend(), BufferedBackend(max_buffer_size=1 << 20), DirectBackend()):
        for dataset in (NPYDataSet(path, io_backend=backend), ctx.open(path, io_backend=backend)):
            total = ctx.run_udf(dataset, ff.SumUDF())["intensity"].data
            assert np.array_equal(total, counts.sum(axis=(0, 1)))
            assert pickle.loads(pickle.dumps(dataset)).get_cache_key() == dataset.get_cache_key()


@pytest.mark.parametrize("value", ["no", "False", "", 2, [False]])
def test_texts_and_other_numbers_do_not_turn_anything_on(files, value):
    path, _ = files["mib"]
    with pytest.raises(InvalidArgumentError, match=r"disable_glob=.* is not True or False"):
        ff.Context.make_with("inline").load("mib", path, disable_glob=value)
    for fine in (True, np.False_, 0, 1):
        ff.Context.make_with("inline").load("mib", path, disable_glob=fine)


def test_classes_turn_and_calibrate_as_load_does(tmp_path):
    from framefold.io.dataset.mib import MIBDataSet

    ff.example_files(tmp_path)
    options = {"flip": "y", "transpose": True, "scan_step": "2nm", "pixel_size": (1.2, "mrad")}
    ctx = ff.Context.make_with("inline")
    for some in ({}, {"flip": "y"}, {"scan_step": "2nm"}, options):
        made = MIBDataSet(tmp_path / "scan.hdr", **some)
        loaded = ctx.load("mib", tmp_path / "scan.hdr", **some)
        assert made.axes == loaded.axes
        np.testing.assert_array_equal(made[3, 4], loaded[3, 4])
        copy = pickle.loads(pickle.dumps(made))
        assert copy.axes == loaded.axes
        np.testing.assert_array_equal(copy[3, 4], loaded[3, 4])


@pytest.mark.parametrize("calls", ["nothing", "base", "a path", "io_backend"])
def test_errors_for_classes_that_read_frames_as_in_the_reference_say_what_to_do(ctx, calls):
    class Mine(DataSet):
        def __init__(self, path):
            if calls == "io_backend":
                super().__init__(io_backend=None)
            elif calls != "nothing":
                super().__init__(*([path] if calls == "a path" else []))
            self.path = path

        def get_partitions(self):
            raise AssertionError

    with pytest.raises(TypeError, match=r"Mine has no frames: .* framefold\.register_format"):
        ctx.load(Mine, "scan.bin")
