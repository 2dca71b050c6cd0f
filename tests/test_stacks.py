"""Folders, patterns and lists of files that make up one stack."""

from __future__ import annotations

import json
import pickle
import resource
import shutil
import struct

import h5py
import mrcfile
import numpy as np
import pytest
import tifffile
from detector_files import write_blo, write_de_movie, write_empad, write_seq
from known_oddities import POSITIONS_WITHOUT_DATA, odd
from vendor_files import write_dm, write_ser

import framefold as ff
from framefold.exceptions import (
    BadFileError,
    FramefoldError,
    InvalidArgumentError,
    UnsupportedError,
)
from framefold.warnings import DataSetWarning

BACKENDS = ["mmap", "buffered"]


def random(shape, dtype="uint16", seed=1):
    return np.random.default_rng(seed).integers(0, 200, shape).astype(dtype)


def frames_of(ctx, dataset, roi=None):
    return ctx.run_udf(dataset, ff.PickUDF(), roi=roi)["intensity"].raw_data


def write_npy(path, frame):
    np.save(path, frame)


def write_tif(path, frame):
    tifffile.imwrite(path, frame, photometric="minisblack")


def write_zipped_tif(path, frame):
    tifffile.imwrite(path, frame, photometric="minisblack", compression="zlib", rowsperstrip=4)


def write_mrc(path, frame):
    mrcfile.write(path, frame)


WRITERS = {
    "npy": ("npy", write_npy),
    "tif": ("tiff", write_tif),
    "tiff": ("tiff", write_zipped_tif),
    "mrc": ("mrc", write_mrc),
    "dm4": ("dm", write_dm),
}


@pytest.fixture(params=WRITERS)
def folder(request, tmp_path):
    """Twelve files of one format, whose names sort naturally only, and their frames."""
    extension = request.param
    kind, write = WRITERS[extension]
    data = random((12, 13, 15))
    for i, frame in enumerate(data):
        write(tmp_path / f"img{i + 1}.{extension}", frame)
    (tmp_path / "notes.txt").write_text("not a frame")
    (tmp_path / f".img13.{extension}").write_text("hidden")
    return kind, tmp_path, extension, data


@POSITIONS_WITHOUT_DATA
@odd(
    "the file is cut short",
    "4 frames, but only [23]",
    "after the last of 2 whole",
    "of 4 elements, the first 3",
    "but there are only 3 frames",
    "after the last of 3 whole",
    "which is not the order of their numbers or",
)
def test_files_that_are_cut_keep_the_places_of_later_frames(ctx, tmp_path):
    data = random((3, 4, 5, 6))
    header = bytearray(4100)
    for place, kind, number in [(42, "H", 6), (108, "h", 3), (656, "H", 5), (1446, "i", 4)]:
        struct.pack_into(f"<{kind}", header, place, number)
    struct.pack_into("<I", header, 2996, 0x01234567)
    for i, frames in enumerate(data):
        np.save(tmp_path / f"{i}.npy", frames)
        (tmp_path / f"{i}.spe").write_bytes(header + frames.tobytes())
        tifffile.imwrite(tmp_path / f"{i}.tif", frames, photometric="minisblack", metadata=None)
    for extension in ("npy", "spe", "tif"):
        path = tmp_path / f"1.{extension}"
        path.write_bytes(path.read_bytes()[:-100])
    for pattern in (tmp_path / "*.npy", tmp_path / "*.spe"):
        dataset = ctx.open(pattern, nav_shape=(3, 4))
        assert dataset.valid_mask.tolist() == [[True] * 4, [True, True, False, False], [True] * 4]
        assert np.array_equal(frames_of(ctx, dataset, roi=(2, 3))[0], data[2, 3])
    scans = random((2, 2, 2, 5, 5), "uint8")
    for i, scan in enumerate(scans):
        write_blo(tmp_path / f"{i}.blo", scan)
        write_ser(tmp_path / f"{i}_1.ser", scan.reshape(-1, 5, 5))
    for names in (("0.blo", "1.blo"), ("0_1.ser", "1_1.ser")):
        files = [tmp_path / name for name in names]
        files[0].write_bytes(files[0].read_bytes()[:-10])
        dataset = ctx.open(files, nav_shape=(2, 4))
        assert dataset.valid_mask.tolist() == [[True] * 3 + [False], [True] * 4]
        assert np.array_equal(frames_of(ctx, dataset, roi=(1, 0))[0], scans[1, 0, 0])
    for i, frames in enumerate(data):
        write_mrc(tmp_path / f"{i}.mrc", frames)
        write_seq(tmp_path / f"{i}.seq", frames)
    for extension, stride in (("mrc", 60), ("seq", 84)):
        path = tmp_path / f"1.{extension}"
        # Headers count what was never written, or is cut off.
        for cut, missing in ((-stride, []), (-30, [6, 7])):
            path.write_bytes(path.read_bytes()[:cut])
            dataset = ctx.open(tmp_path / f"*.{extension}")
            assert np.flatnonzero(~dataset.valid_mask).tolist() == missing
            assert np.array_equal(frames_of(ctx, dataset, roi=-1)[0], data[2, 3])
    for i, scan in enumerate(scans):
        write_empad(tmp_path / f"{i}.xml", scan.astype("float32"))
    raw, whole = (tmp_path / f"{i}_x2_y2.raw" for i in range(2))
    raw.write_bytes(raw.read_bytes()[:-2000])
    dataset = ctx.open([tmp_path / "0.xml", tmp_path / "1.xml"], nav_shape=(2, 4))
    assert dataset.valid_mask.tolist() == [[True] * 3 + [False], [True] * 4]
    assert np.array_equal(frames_of(ctx, dataset, roi=(1, 0))[0, :5, :5], scans[1, 0, 0])
    # How many frames or pages were lost is nowhere.
    files = [raw.rename(tmp_path / "0.raw"), whole.rename(tmp_path / "1.raw")]
    with pytest.raises(BadFileError, match=r"0\.raw.* lost at its end, and nothing tells"):
        ctx.load("empad", files)
    assert tuple(ctx.load("empad", files[::-1]).shape.nav) == (7,)
    for extension, at in (("seq", 572), ("spe", 1446)):
        path = tmp_path / f"1.{extension}"
        content = bytearray(path.read_bytes()[:-30])
        content[at : at + 4] = bytes(4)
        path.write_bytes(content)
        with pytest.raises(BadFileError, match="lost at its end, and nothing tells"):
            ctx.open(tmp_path / f"*.{extension}")
    with pytest.raises(BadFileError, match=r"1\.tif.* ends before its last page"):
        ctx.open(tmp_path / "*.tif")


def test_scans_that_were_stopped_keep_the_places_of_later_frames(ctx, tmp_path):
    scans = random((2, 2, 3, 5, 6), "uint16")
    for i, scan in enumerate(scans):
        write_de_movie(tmp_path / f"{i}_movie.mrc", scan)
        write_ser(tmp_path / f"{i}_1.ser", scan.reshape(-1, 5, 6))
    mrcfile.write(tmp_path / "0_movie.mrc", scans[0].reshape(-1, 5, 6)[:4], overwrite=True)
    write_ser(tmp_path / "0_1.ser", scans[0].reshape(-1, 5, 6)[:4], planned=6)
    for pattern, words in (("*.mrc", "there are only 4"), ("*.ser", "was stopped")):
        with pytest.warns(DataSetWarning, match=words):
            dataset = ctx.open(tmp_path / pattern, nav_shape=(2, 6))
        assert dataset.valid_mask.tolist() == [[True] * 4 + [False] * 2, [True] * 6]
        assert np.array_equal(frames_of(ctx, dataset, roi=(1, 0))[0], scans[1, 0, 0])


def test_files_that_read_others_of_the_list_are_refused(ctx, tmp_path):
    """The frames were there twice, as a folder has the files that describe others, too."""
    for kind in ("empad", "ser", "seq", "hdf5"):
        (tmp_path / kind).mkdir()
    write_empad(tmp_path / "empad/a.xml", random((1, 2, 5, 5), "float32"))
    write_ser(tmp_path / "ser/a_1.ser", random((2, 5, 5)))
    (tmp_path / "ser/a.emi").write_bytes(b"JK\0\2<ObjectInfo></ObjectInfo>")
    for name in ("a_Top_1", "a_Bottom_2"):
        write_seq(tmp_path / f"seq/{name}.seq", random((2, 3, 5)))
    sizes = "<FileInfo><ImageSizeX Value='5'/><ImageSizeY Value='6'/></FileInfo>"
    (tmp_path / "seq/a.seq.Config.Metadata.xml").write_text(f"<a>{sizes}</a>")
    with h5py.File(tmp_path / "hdf5/a_data_1.h5", "w") as file:
        file["entry/data/data"] = random((2, 5, 5))
    with h5py.File(tmp_path / "hdf5/a_master.h5", "w") as file:
        link = h5py.ExternalLink("a_data_1.h5", "entry/data/data")
        file.create_group("entry/data")["data_1"] = link
    ones = {"empad": "a.xml", "ser": "a_1.ser", "seq": "*_Top_*.seq", "hdf5": "a_master.h5"}
    for kind, one in ones.items():
        with pytest.raises(InvalidArgumentError, match="would be there twice"):
            ctx.load(kind, tmp_path / kind)
        assert tuple(ctx.load(kind, tmp_path / kind / one).shape.nav) in ((2,), (1, 2))


@odd("files of the set are not there", "which is not the order of their numbers or")
def test_linked_files_that_are_lost_at_the_end_of_a_set(ctx, tmp_path):
    data = random((3, 2, 5, 6))
    for i, frames in enumerate(data):
        with h5py.File(tmp_path / f"{i // 2}_data_{i % 2 + 1:06}.h5", "w") as file:
            file["entry/data/data"] = frames
    masters = [tmp_path / f"{i}_master.h5" for i in range(2)]
    for i, path in enumerate(masters):
        with h5py.File(path, "w") as file:
            for k in range(1, 3 - i):
                link = h5py.ExternalLink(f"{i}_data_{k:06}.h5", "entry/data/data")
                file.require_group("entry/data")[f"data_{k:06}"] = link
    assert np.array_equal(frames_of(ctx, ctx.open(masters)), data.reshape(6, 5, 6))
    (tmp_path / "0_data_000002.h5").unlink()
    with pytest.raises(BadFileError, match=r"0_master.* lost at its end, and nothing tells"):
        ctx.open(masters)
    assert np.array_equal(frames_of(ctx, ctx.open(masters[::-1])), data[[2, 0]].reshape(4, 5, 6))


@odd("the file ends after 1 pages")
def test_pages_that_lead_nowhere_in_files_of_one_frame(ctx, tmp_path):
    data = random((3, 5, 6))
    for i, frame in enumerate(data):
        path = tmp_path / f"{i}.tif"
        tifffile.imwrite(path, frame, photometric="minisblack", byteorder="<")
        content = bytearray(path.read_bytes())
        (at,) = struct.unpack_from("<I", content, 4)
        (n_tags,) = struct.unpack_from("<H", content, at)
        struct.pack_into("<I", content, at + 2 + 12 * n_tags, 2**31)
        path.write_bytes(content)
    assert np.array_equal(frames_of(ctx, ctx.open(tmp_path / "*.tif")), data)
    tifffile.imwrite(tmp_path / "3.tif", data[:2], photometric="minisblack", metadata=None)
    with pytest.raises(BadFileError, match=r"0\.tif.* ends before its last page"):
        ctx.open(tmp_path / "*.tif")


@pytest.mark.parametrize("backend", BACKENDS)
def test_folders_patterns_and_lists(ctx, folder, backend):
    kind, path, extension, data = folder
    files = [path / f"img{i + 1}.{extension}" for i in range(12)]
    ways = [
        ctx.open(path, io_backend=backend),
        ctx.load(kind, path, io_backend=backend),
        ctx.open(str(path / f"img*.{extension}"), io_backend=backend),
        ctx.load(kind, str(path / f"img*.{extension}"), io_backend=backend),
        ctx.load(kind, files=files, io_backend=backend),
        ctx.open(files, io_backend=backend),
        ctx.load(kind, files=str(path / f"img*.{extension}"), io_backend=backend),
    ]
    for dataset in ways:
        assert dataset.format == kind
        assert tuple(dataset.shape) == data.shape
        assert dataset.warnings == []
        assert np.array_equal(frames_of(ctx, dataset), data)
        assert [file.name for file in dataset.paths] == [file.name for file in files]


@POSITIONS_WITHOUT_DATA
def test_options_roi_and_tiles(ctx, folder):
    kind, path, _, data = folder
    roi = np.random.default_rng(3).random((3, 4)) < 0.5
    for n in (1, 3, 12):
        dataset = ctx.load(kind, path, nav_shape=(3, 4), num_partitions=n)
        assert np.array_equal(frames_of(ctx, dataset, roi=roi), data.reshape(3, 4, 13, 15)[roi])
        total = ctx.run_udf(dataset, ff.SumUDF())["intensity"].data
        assert np.array_equal(total, data.sum(axis=0, dtype="float32"))
    dataset = ctx.load(kind, path, sync_offset=-2)
    assert dataset.valid_mask.tolist() == [False] * 2 + [True] * 10
    assert np.array_equal(frames_of(ctx, dataset, roi=dataset.valid_mask), data[:10])


def test_a_folder_that_grows_is_the_same_to_who_opens_it_again(ctx, folder):
    _, path, extension, data = folder
    dataset = ctx.open(path)
    (path / f"img0.{extension}").write_bytes((path / f"img1.{extension}").read_bytes())
    again = pickle.loads(pickle.dumps(dataset))
    assert np.array_equal(frames_of(ctx, again), data)


def test_files_of_several_frames(ctx, tmp_path):
    data = random((9, 7, 8))
    for i, (start, end) in enumerate([(0, 4), (4, 5), (5, 9)]):
        np.save(tmp_path / f"a{i}.npy", data[start:end])
        tifffile.imwrite(tmp_path / f"a{i}.tif", data[start:end], photometric="minisblack")
    for pattern in ("*.npy", "*.tif"):
        dataset = ctx.open(str(tmp_path / pattern))
        assert np.array_equal(frames_of(ctx, dataset), data)


def test_files_that_are_not_alike_are_named(ctx, folder):
    kind, path, extension, _ = folder
    odd = path / f"img7.{extension}"
    for other in (random((13, 14)), random((13, 15), "float32")):
        odd.unlink()
        WRITERS[extension][1](odd, other)
        with pytest.raises(BadFileError, match=r"first") as caught:
            ctx.load(kind, path)
        assert f"img7.{extension}" in str(caught.value)
        assert "img6" not in str(caught.value)
    odd.write_bytes(b"nothing of the kind")
    with pytest.raises(FramefoldError, match=rf"img7\.{extension}"):
        ctx.load(kind, path)


@odd("the numbers in the names of the files leave")
@odd("which is not the order of their numbers or")
def test_missing_numbers_and_odd_orders_are_noted(ctx, folder):
    kind, path, extension, data = folder
    (path / f"img5.{extension}").unlink()
    dataset = ctx.open(path)
    assert "leave out 1" in dataset.warnings[-1]
    assert f"'img4.{extension}' and 'img6.{extension}'" in dataset.warnings[-1]
    assert np.array_equal(frames_of(ctx, dataset), np.delete(data, 4, axis=0))
    names = sorted(str(file) for file in path.glob(f"img*.{extension}"))
    dataset = ctx.load(kind, files=names)
    assert any("the order of the list" in warning for warning in dataset.warnings)


def test_folders_that_tell_nothing(ctx, tmp_path):
    with pytest.raises(InvalidArgumentError, match="directory"):
        ctx.open(tmp_path)
    np.save(tmp_path / "a.npy", random((5, 6)))
    write_tif(tmp_path / "a.tif", random((5, 6)))
    with pytest.raises(InvalidArgumentError, match=r"several formats: 1 npy, 1 tiff|1 tiff, 1 npy"):
        ctx.open(tmp_path)
    with pytest.raises(InvalidArgumentError, match="no file"):
        ctx.load("dm", tmp_path)
    with pytest.raises(InvalidArgumentError, match="matches this as a pattern"):
        ctx.open(str(tmp_path / "*.mrc"))
    with pytest.raises(UnsupportedError, match="make no stack"):
        ctx.load("mib", files=[tmp_path / "a.mib", tmp_path / "b.mib"])
    (tmp_path / "a.mib").write_bytes(b"MQ1")
    with pytest.raises(UnsupportedError, match=r"\*\.mib' \(mib\): .* make no stack"):
        ctx.load("mib", str(tmp_path / "*.mib"))


def test_patterns_take_hidden_files_only_where_they_have_a_dot(ctx, folder):
    kind, path, extension, data = folder
    shutil.copy(path / f"img1.{extension}", path / f"._img1.{extension}")
    (path / ".hidden").mkdir()
    shutil.copy(path / f"img2.{extension}", path / f".hidden/img2.{extension}")
    for pattern in (f"*.{extension}", f"**/*.{extension}"):
        assert np.array_equal(frames_of(ctx, ctx.load(kind, str(path / pattern))), data)
    dotted = [f"._*.{extension}", f".h*/*.{extension}", f"**/.hidden/*.{extension}"]
    for pattern, frame in zip(dotted, data[[0, 1, 1]], strict=True):
        assert np.array_equal(frames_of(ctx, ctx.load(kind, str(path / pattern))), frame[None])


def test_names_that_look_like_patterns_are_names(ctx, tmp_path):
    data = random((3, 5, 6))
    np.save(tmp_path / "a[1]*.npy", data)
    assert np.array_equal(frames_of(ctx, ctx.open(tmp_path / "a[1]*.npy")), data)


@pytest.mark.parametrize("backend", BACKENDS)
@odd("whole frames were left out")
def test_raw_files_with_headers(ctx, tmp_path, backend):
    data = random((10, 6, 7), ">u2")
    for i, (start, end) in enumerate([(0, 3), (3, 4), (4, 10)]):
        content = b"H" * 5
        for frame in data[start:end]:
            content += b"h" * 3 + frame.astype(">u2").tobytes() + b"f" * 2
        (tmp_path / f"run{i + 9}.bin").write_bytes(content + b"F" * 7)
    options = {
        "dtype": ">u2",
        "sig_shape": (6, 7),
        "nav_shape": (2, 5),
        "file_header": 5,
        "frame_header": 3,
        "frame_footer": 2,
        "file_footer": 7,
        "io_backend": backend,
    }
    names = [tmp_path / f"run{i}.bin" for i in (9, 10, 11)]
    for path in (names, tmp_path, str(tmp_path / "run*.bin")):
        dataset = ctx.load("raw", path=path, **options)
        assert np.array_equal(frames_of(ctx, dataset).reshape(data.shape), data)
        assert dataset.warnings == []
    for name in (names[2], names[1]):
        with name.open("ab") as file:
            file.write(b"more")
        if name == names[2]:  # only the last one may end within a frame
            assert "run11.bin" in ctx.load("raw", names, **options).warnings[0]
    with pytest.raises(BadFileError, match=r"run10\.bin.* 4 bytes follow the last of 1 whole"):
        ctx.load("raw", names, **options)
    names[1].write_bytes(b"short")
    with pytest.raises(BadFileError, match=r"run10\.bin"):
        ctx.load("raw", names, **options)
    with pytest.raises(InvalidArgumentError, match="nav_shape") as caught:
        ctx.load("raw", [names[0], names[2]], **{**options, "nav_shape": None})
    assert "hold 9 frames" in str(caught.value)


@pytest.fixture(scope="module")
def thousands(tmp_path_factory, extension):
    """A folder with a file for each of many frames, and the frames."""
    folder, data = tmp_path_factory.mktemp("thousands"), random((1500, 4, 5))
    for i, frame in enumerate(data):
        WRITERS[extension][1](folder / f"{i}.{extension}", frame)
    return folder, data


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("extension", ["tif", "npy"], scope="module")
def test_thousands_of_files_need_no_raised_limits(ctx, thousands, backend, extension):
    folder, data = thousands
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (512, before[1]))
    try:
        dataset = ctx.open(folder, io_backend=backend)
        assert np.array_equal(frames_of(ctx, dataset), data)
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_the_command_takes_folders_and_patterns(command, folder):
    kind, path, extension, _ = folder
    for what in (path, f"{path}/img*.{extension}"):
        facts = json.loads(command("info", "--json", what))
        assert (facts["format"], facts["n_frames"], len(facts["paths"])) == (kind, 12, 12)
        assert "12 files" in facts["reason"]


def write_calibrated(path, step):
    data = random((4, 5))
    if path.suffix == ".tif":
        how = {"resolution": (1 / step, 1 / step), "metadata": {"unit": "nm"}}
        tifffile.imwrite(path, data, photometric="minisblack", imagej=True, **how)
    else:
        with mrcfile.new(path) as file:
            file.set_data(data)
            file.voxel_size = 10 * step


@pytest.mark.parametrize("extension", ["tif", "mrc"])
@odd("pixels are not of one size in all files")
def test_sizes_of_pixels_that_differ_are_told(ctx, tmp_path, extension):
    for i, step in enumerate([0.5, 0.5, 2.0, 4.0]):
        write_calibrated(tmp_path / f"a{i + 1}.{extension}", step)
    dataset = ctx.open(tmp_path)
    (warning,) = dataset.warnings
    assert f"y 0.5 nm, x 0.5 nm in 'a1.{extension}', y 2 nm, x 2 nm in 'a3.{extension}'" in warning
    assert f"in 1 more; those of 'a1.{extension}' are taken for all frames" in warning
    assert [axis.scale for axis in dataset.axes[-2:]] == [0.5, 0.5]
    alike = ctx.open([tmp_path / f"a{i}.{extension}" for i in (1, 2)])
    assert alike.warnings == []


@pytest.mark.parametrize("ending", ["h5", "zarr"])
@pytest.mark.parametrize(
    ("nav_shape", "steps"),
    [
        (None, [""]),
        ((10, 4), ["", ""]),
        ((8, 5), [" × 3 nm", " × 2 nm"]),
        ((2, 4, 5), ["", " × 3 nm", " × 2 nm"]),
    ],
)
@odd("the data have rows of 5 positions")
def test_steps_of_rows_that_a_stack_has_not_are_left_out(ctx, tmp_path, ending, nav_shape, steps):
    data = random((4, 5, 6, 7))
    one = ctx.load("memory", data=data, sig_dims=2)
    one = one.calibrate(scan_step=[(3, "nm"), (2, "nm")], pixel_size=[(4, "nm"), (5, "nm")])
    paths = [tmp_path / f"{name}.{ending}" for name in "ab"]
    for path in paths:
        ctx.export_dataset(one, path)
    stack = ctx.open(paths, nav_shape=nav_shape)
    names = ["scan_2", "scan_y", "scan_x"][-len(steps) :]
    scan = [
        f"{name}: {n}{step}" for name, n, step in zip(names, stack.shape.nav, steps, strict=True)
    ]
    assert [str(axis) for axis in stack.axes] == [*scan, "y: 6 × 4 nm", "x: 7 × 5 nm"]
    assert ("scan_step_x" in stack.metadata) == (steps[-1] != "")
    assert np.array_equal(frames_of(ctx, stack), np.concatenate([data, data]).reshape(-1, 6, 7))


def test_a_stack_of_rows_keeps_their_step(ctx, tmp_path):
    one = ctx.load("memory", data=random((4, 6, 7)), sig_dims=2).calibrate(scan_step=(2, "nm"))
    for name in "ab":
        ctx.export_dataset(one, tmp_path / f"{name}.h5")
    paths = [tmp_path / "a.h5", tmp_path / "b.h5"]
    assert str(ctx.open(paths).axes[0]) == "scan_x: 8 × 2 nm"
    assert str(ctx.open(paths, nav_shape=(2, 4)).axes[1]) == "scan_x: 4 × 2 nm"
