"""TIFF stacks: what tifffile writes, real files, and files that are damaged."""

from __future__ import annotations

import hashlib
import json
import pickle
import struct

import numpy as np
import pytest
import tifffile
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from known_oddities import POSITIONS_WITHOUT_DATA, odd
from real_files import manifest, real_data, real_file

import framefold as ff
from framefold.exceptions import BadFileError, FramefoldError, UnsupportedError

BACKENDS = ["mmap", "buffered"]
COMPRESSIONS = ["zlib", "lzw", "packbits", "zstd"]
DTYPES = [
    *["uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"],
    *["float16", "float32", "float64"],
]


def pixels(shape, dtype, seed=1):
    # Smooth enough to be compressed, and with every byte in use.
    rng = np.random.default_rng(seed)
    data = np.cumsum(rng.normal(0, 3, shape), axis=-1) * 50
    if np.dtype(dtype).kind == "f":
        return data.astype(dtype)
    return data.astype("int64").astype(dtype)


def write(path, data, **options):
    tifffile.imwrite(path, data, **{"photometric": "minisblack", **options})


def frames_of(ctx, dataset, roi=None):
    return ctx.run_udf(dataset, ff.PickUDF(), roi=roi)["intensity"].raw_data


def assert_reads(ctx, path, data, **options):
    for backend in BACKENDS:
        dataset = ctx.open(path, io_backend=backend, **options)
        assert dataset.format == "tiff"
        assert dataset.warnings == []
        assert dataset.dtype == data.dtype.newbyteorder("=")
        frames = frames_of(ctx, dataset)
        assert np.array_equal(frames.reshape(data.shape), data)
        mask = np.random.default_rng(2).random(tuple(dataset.shape.nav)) < 0.5
        picked = frames_of(ctx, dataset, roi=mask)
        assert np.array_equal(picked, frames.reshape(-1, *frames.shape[1:])[mask.reshape(-1)])
    return dataset


@pytest.mark.parametrize("byteorder", "<>")
@pytest.mark.parametrize("bigtiff", [False, True])
@pytest.mark.parametrize("dtype", DTYPES)
def test_plain_stacks(ctx, tmp_path, byteorder, bigtiff, dtype):
    data = pixels((3, 5, 14, 17), dtype)
    path = tmp_path / "a.tif"
    write(path, data, byteorder=byteorder, bigtiff=bigtiff)
    dataset = assert_reads(ctx, path, data)
    assert tuple(dataset.shape) == data.shape
    write(path, data[0], byteorder=byteorder, bigtiff=bigtiff, rowsperstrip=4)
    dataset = assert_reads(ctx, path, data[0])
    assert tuple(dataset.shape.nav) == (5,)


@pytest.mark.parametrize("byteorder", "<>")
@pytest.mark.parametrize("compression", COMPRESSIONS)
@pytest.mark.parametrize("dtype", ["uint8", "uint16", "int32", "float32", "float64"])
def test_compressed_stacks(ctx, tmp_path, byteorder, compression, dtype):
    data = pixels((6, 35, 52), dtype)
    path = tmp_path / "a.tif"
    for layout in ({"rowsperstrip": 35}, {"rowsperstrip": 8}, {"tile": (16, 32)}):
        for predictor in (False, True):
            if predictor and compression == "packbits":
                continue
            write(
                path,
                data,
                byteorder=byteorder,
                compression=compression,
                predictor=predictor,
                **layout,
            )
            assert_reads(ctx, path, data)


@pytest.mark.parametrize("compression", ["zlib", "packbits"])
def test_short_last_strips(ctx, tmp_path, compression):
    """They are a small part of what a whole strip may be compressed to."""
    frame = np.zeros((515, 512), np.uint8)
    frame[:512] = 3
    tifffile.imwrite(tmp_path / "s.tif", frame, compression=compression, rowsperstrip=512)
    dataset = ctx.load("tiff", tmp_path / "s.tif")
    assert np.array_equal(ctx.run_udf(dataset, ff.SumUDF())["intensity"].data, frame)


@pytest.mark.parametrize(("byteorder", "dtype"), [("<", "uint16"), (">", "float32")])
def test_lzma(ctx, tmp_path, byteorder, dtype):
    data = pixels((3, 35, 52), dtype)
    path = tmp_path / "a.tif"
    for layout in ({"rowsperstrip": 8}, {"tile": (16, 32), "predictor": True}):
        write(path, data, byteorder=byteorder, compression="lzma", **layout)
        assert_reads(ctx, path, data)


@pytest.mark.parametrize("byteorder", "<>")
@pytest.mark.parametrize("bits", [*range(2, 8), *range(9, 16)])
def test_samples_of_a_few_bits(ctx, tmp_path, byteorder, bits):
    path = tmp_path / "a.tif"
    dtype = "uint8" if bits < 8 else "uint16"
    for shape, how in [
        ((4, 22, 31), {"rowsperstrip": 5}),
        ((3, 35, 52), {"tile": (16, 32)}),
        ((2, 19, 33, 3), {"photometric": "rgb"}),
        ((2, 3, 19, 33), {"photometric": "rgb", "planarconfig": "separate"}),
    ]:
        data = np.random.default_rng(bits).integers(0, 1 << bits, shape, dtype=dtype)
        write(path, data, byteorder=byteorder, bitspersample=bits, **how)
        stored = tifffile.imread(path)
        # Of numbers of two bytes, it swaps the bytes before it packs them for big-endian files.
        assert np.array_equal(stored, data) or (bits > 8 and byteorder == ">")
        assert_reads(ctx, path, stored)


@pytest.mark.parametrize("compression", [None, "packbits", "zlib", "lzma"])
def test_truth_values(ctx, tmp_path, compression):
    data = np.random.default_rng(3).random((4, 22, 31)) < 0.5
    path = tmp_path / "a.tif"
    for layout in ({}, {"rowsperstrip": 5}, {"tile": (16, 32)}):
        write(path, data, compression=compression, **layout)
        with tifffile.TiffFile(path) as file:
            assert file.pages[0].bitspersample == 1
        assert_reads(ctx, path, data)


@pytest.mark.parametrize("compression", [None, "zlib"])
@pytest.mark.parametrize("planar", ["contig", "separate"])
@pytest.mark.parametrize("layout", [{"rowsperstrip": 5}, {"tile": (16, 16)}])
def test_colours(ctx, tmp_path, compression, planar, layout):
    shape = (4, 22, 30, 3) if planar == "contig" else (4, 3, 22, 30)
    data = pixels(shape, "uint8")
    path = tmp_path / "a.tif"
    for predictor in (False, True) if compression else (False,):
        write(
            path,
            data,
            photometric="rgb",
            planarconfig=planar,
            compression=compression,
            predictor=predictor,
            **layout,
        )
        dataset = assert_reads(ctx, path, data)
        assert tuple(dataset.shape.sig) == shape[1:]


def test_pixels_that_lie_in_one_run_are_used_in_place(ctx, tmp_path, command):
    data = pixels((8, 16, 16), "uint16")
    path = tmp_path / "a.tif"
    write(path, data, rowsperstrip=4)
    facts = json.loads(command("info", "--json", path))
    assert facts["zero_copy"]
    assert facts["details"]["compression"] == "none"
    dataset = ctx.open(path, sig_shape=(256,), nav_shape=(2, 4))
    assert np.array_equal(frames_of(ctx, dataset), data.reshape(8, 256))
    write(path, data, compression="zlib")
    with pytest.raises(FramefoldError, match="leave sig_shape out"):
        ctx.open(path, sig_shape=(256,))


def test_imagej_and_ome_say_what_the_axes_are(ctx, tmp_path):
    data = pixels((3, 4, 14, 17), "uint16")
    path = tmp_path / "a.tif"
    write(
        path,
        data,
        imagej=True,
        resolution=(1 / 0.5, 1 / 0.25),
        metadata={"unit": "nm", "axes": "TZYX", "finterval": 0.125},
    )
    dataset = assert_reads(ctx, path, data)
    assert tuple(dataset.shape) == data.shape
    metadata = dataset.metadata
    assert metadata["image_step_x"] == pytest.approx(0.5)
    assert metadata["image_step_y"] == pytest.approx(0.25)
    assert metadata["frame_time"] == 0.125
    path = tmp_path / "a.ome.tif"
    write(
        path,
        data,
        metadata={
            "axes": "TZYX",
            "PhysicalSizeX": 0.02,
            "PhysicalSizeXUnit": "nm^-1",
            "PhysicalSizeY": 3,
            "PhysicalSizeYUnit": "Å",
        },
    )
    dataset = assert_reads(ctx, path, data)
    assert tuple(dataset.shape) == data.shape
    assert dataset.metadata["image_step_y"] == pytest.approx(0.3)
    assert dataset.metadata["diffraction_step_x"] == pytest.approx(0.02)


def shown(dataset):
    return [str(axis) for axis in dataset.axes]


@pytest.mark.parametrize(
    ("tunit", "frame_time", "times"),
    [
        (None, 20.0, "time: 3 × 20 s"),
        ("ms", 0.02, "time: 3 × 20 ms"),
        ("h", 72_000.0, "time: 3 × 20 h"),
        ("moons", None, "time: 3"),
    ],
)
def test_imagej_says_times_and_where_axes_begin(ctx, tmp_path, tunit, frame_time, times):
    about = {"axes": "TYX", "unit": "nm", "finterval": 20.0, "xorigin": 2, "yorigin": -4}
    if tunit is not None:
        about["tunit"] = tunit
    path = tmp_path / "a.tif"
    write(path, pixels((3, 4, 5), "uint8"), imagej=True, resolution=(2, 4), metadata=about)
    dataset = ctx.open(path)
    assert dataset.metadata.get("frame_time") == frame_time
    assert shown(dataset) == [times, "y: 4 × 0.25 nm, from 1 nm", "x: 5 × 0.5 nm, from -1 nm"]


TIMES_AND_DEPTHS = (
    "ImageJ=1.11a\nimages=12\nframes=3\nslices=4\nfinterval=0.5\nspacing=2.5\nunit=\\u00B5m\n"
)


@pytest.mark.parametrize("compression", [None, "zlib"])
@pytest.mark.parametrize(
    ("nav_shape", "expected"),
    [
        (None, ["scan_x: 24"]),
        ((4, 6), ["scan_y: 4", "scan_x: 6"]),
        ((6, 4), ["time: 6 × 0.5 s", "depth: 4 × 2.5 µm"]),
        ((2, 3, 4), ["scan_2: 2", "time: 3 × 0.5 s", "depth: 4 × 2.5 µm"]),
    ],
)
def test_steps_of_axes_that_several_files_have_not_are_left_out(
    ctx, tmp_path, compression, nav_shape, expected
):
    paths = [tmp_path / "a.tif", tmp_path / "b.tif"]
    how = {"description": TIMES_AND_DEPTHS, "metadata": None, "compression": compression}
    for path in paths:
        write(path, pixels((12, 14, 17), "uint16"), **how)
    rows = ["y: 14 × 1000 nm", "x: 17 × 1000 nm"]
    one = ["time: 3 × 0.5 s", "depth: 4 × 2.5 µm", *rows]
    assert shown(ctx.open(paths[0])) == one
    assert shown(ctx.open(paths, nav_shape=nav_shape)) == [*expected, *rows]


def test_steps_of_axes_that_the_pages_of_a_file_have_not_are_left_out(ctx, tmp_path):
    path = tmp_path / "a.tif"
    write(path, pixels((8, 14, 17), "uint16"), description=TIMES_AND_DEPTHS, metadata=None)
    assert shown(ctx.open(path))[:-2] == ["scan_x: 8"]
    scan = ctx.open(path, nav_shape=(2, 4))
    assert shown(scan)[:-2] == ["time: 2 × 0.5 s", "depth: 4 × 2.5 µm"]


@pytest.mark.parametrize("ending", [".tif", ".ome.tif"])
def test_axes_of_saved_results_are_read(ctx, tmp_path, ending):
    frames = ctx.load("memory", data=np.ones((2, 3, 4, 5), "float32"))
    frames = frames.calibrate(pixel_size=("0.5 nm", "0.25 nm"), centre=(1, 2))
    path = tmp_path / f"a{ending}"
    ctx.run_udf(frames, ff.SumUDF())["intensity"].save(path)
    expected = ["y: 4 × 0.5 nm, from -0.5 nm", "x: 5 × 0.25 nm, from -0.5 nm"]
    if ending == ".ome.tif":  # OME has no place for where axes begin
        expected = ["y: 4 × 0.5 nm", "x: 5 × 0.25 nm"]
    assert shown(ctx.open(path))[1:] == expected


def test_tags_of_digitalmicrograph_go_before_imagej(ctx, tmp_path):
    # As HyperSpy writes them: ImageJ has one unit for both axes.
    path = tmp_path / "a.tif"
    units = [(65003, "s", 0, "1/nm", True), (65004, "s", 0, "nm", True)]
    steps = [(65009, "d", 1, 0.5, True), (65010, "d", 1, 2.0, True)]
    write(
        path,
        pixels((4, 5), "uint8"),
        description="ImageJ=1.11a\nunit=1/nm\nxorigin=2\nyorigin=2\n",
        metadata=None,
        resolution=(2, 0.5),
        extratags=units + steps,
    )
    dataset = ctx.open(path)
    assert shown(dataset)[1:] == ["y: 4 × 2 nm", "x: 5 × 0.5 1/nm"]
    about = {name for name in dataset.metadata if "step" in name or "offset" in name}
    assert about == {"image_step_y", "diffraction_step_x"}


def test_axes_of_hyperspy_begin_where_it_says(ctx, tmp_path):
    path = tmp_path / "a.tif"
    units = [(65003, "s", 0, "nm", True), (65004, "s", 0, "nm", True)]
    numbers = [(65006, 7.0), (65007, -3.0), (65009, 0.5), (65010, 2.0)]
    tags = units + [(tag, "d", 1, number, True) for tag, number in numbers]
    for software, shown_x in [("hyperspy", "x: 5 × 0.5 nm, from 7 nm"), ("dm", "x: 5 × 0.5 nm")]:
        write(path, pixels((4, 5), "uint8"), software=software, metadata=None, extratags=tags)
        assert shown(ctx.open(path))[-1] == shown_x


def test_the_axis_of_a_stack_of_hyperspy_begins_where_it_says(ctx, tmp_path):
    path = tmp_path / "a.tif"
    tags = [(65005, "s", 0, "nm", True)]
    tags += [(tag, "d", 1, number, True) for tag, number in [(65008, 7.0), (65011, 2.0)]]
    tags += [(tag, "d", 1, 0.5, True) for tag in (65009, 65010)]
    for software, begin in [("hyperspy", " × 2 nm, from 7 nm"), ("dm", "")]:
        write(path, pixels((3, 4, 5), "uint8"), software=software, metadata=None, extratags=tags)
        assert shown(ctx.open(path))[0].partition(": 3")[2] == begin


@odd("contradict each other")
@pytest.mark.parametrize("rows", [None, 4])
@pytest.mark.parametrize(("tag", "value"), [(256, 17), (256, 9), (257, 3), (258, 8), (258, 1)])
def test_tags_that_contradict_the_length_of_strips_are_said(ctx, tmp_path, tag, value, rows):
    """The pixels are not compressed, so that their number is known twice."""
    path = tmp_path / "a.tif"
    data = pixels((3, 12, 18), "uint16")
    how = {"rowsperstrip": rows, "metadata": None, "contiguous": False}
    with tifffile.TiffWriter(path) as file:
        for page in data:
            file.write(page, photometric="minisblack", **how)
    assert_reads(ctx, path, data)
    with tifffile.TiffFile(path, mode="r+") as file:
        for page in file.pages:
            page.tags[tag].overwrite(value)
    (warning,) = ctx.open(path).warnings
    size = 2 * 18 * (rows or 12)
    assert f"'a.tif': the first strip or tile has {size} bytes, but" in warning


@odd("contradict each other")
def test_tags_that_contradict_each_other_in_many_files_are_said_once(ctx, tmp_path):
    data = pixels((3, 12, 18), "uint16")
    for number, page in enumerate(data):
        path = tmp_path / f"a{number}.tif"
        write(path, page, metadata=None)
        with tifffile.TiffFile(path, mode="r+") as file:
            file.pages[0].tags["StripByteCounts"].overwrite(12 * 18)
    dataset = ctx.load("tiff", tmp_path / "a*.tif")
    (warning,) = dataset.warnings
    assert warning.startswith("'a0.tif': the first strip or tile has 216 bytes, but")
    assert warning.endswith("; so in 3 files")


@POSITIONS_WITHOUT_DATA
def test_one_directory_for_all_frames(ctx, tmp_path):
    data = pixels((3, 4, 14, 17), "uint16")
    path = tmp_path / "a.tif"
    write(path, data, truncate=True)
    assert_reads(ctx, path, data)
    # As ImageJ writes files beyond 4 GB: the chain of pages ends after the first one.
    write(path, data, imagej=True, metadata={"axes": "TZYX"}, byteorder=">")
    whole = bytearray(path.read_bytes())
    first = int.from_bytes(whole[4:8], "big")
    end = first + 2 + 12 * int.from_bytes(whole[first : first + 2], "big")
    whole[end : end + 4] = bytes(4)
    path.write_bytes(whole)
    dataset = assert_reads(ctx, path, data)
    assert tuple(dataset.shape) == data.shape
    start = bytes(whole).index(data.astype(">u2")[0, 0].tobytes())
    path.write_bytes(whole[: start + 14 * 17 * 2 * 9 - 1])
    dataset = ctx.open(path)
    assert dataset.valid_mask.sum() == 8
    assert "promises 12 frames, but only 8" in dataset.warnings[0]
    shown = frames_of(ctx, dataset, roi=dataset.valid_mask)
    assert np.array_equal(shown, data.reshape(-1, 14, 17)[:8])


def one_page(path, n_promised):
    """A page with its directory behind its pixels; the description promises more frames."""
    text = f"ImageJ=1.52\nimages={n_promised}\n".encode() + bytes(1)
    tags = [(256, 3, 1, 2), (257, 3, 1, 2), (258, 3, 1, 8), (270, 2, len(text), 12)]
    tags += [(273, 4, 1, 8), (278, 3, 1, 2), (279, 4, 1, 4)]
    at = 12 + len(text)
    directory = struct.pack("<H", len(tags)) + b"".join(struct.pack("<HHII", *tag) for tag in tags)
    path.write_bytes(struct.pack("<2sHI", b"II", 42, at) + b"abcd" + text + directory + bytes(4))


@odd("promises")
@POSITIONS_WITHOUT_DATA
def test_what_is_behind_a_page_is_no_frame(ctx, tmp_path):
    path = tmp_path / "a.tif"
    one_page(path, 5)
    dataset = ctx.open(path)
    assert tuple(dataset.shape) == (5, 2, 2)
    assert dataset.valid_mask.tolist() == [True] + [False] * 4
    assert "promises 5 frames, but only 1" in dataset.warnings[0]
    for n in (2**40, 2**64 - 1):
        one_page(path, n)
        dataset = ctx.load("tiff", [path, path])
        assert tuple(dataset.shape) == (2, 2, 2)
        assert f"promises {n} frames, but only 1 are there: so many are not" in dataset.warnings[0]


@pytest.mark.parametrize(
    ("shape", "frame", "options"),
    [
        ((5, 14, 17, 3), (14, 17, 3), {"photometric": "rgb"}),
        ((2, 5, 14, 17, 3), (14, 17, 3), {"photometric": "rgb"}),
        ((5, 3, 14, 17), (3, 14, 17), {"photometric": "rgb", "planarconfig": "separate"}),
        ((5, 14, 17, 1), (14, 17), {}),
    ],
)
def test_one_directory_for_all_frames_in_colours(ctx, tmp_path, shape, frame, options):
    """Which axes are those of a page, its own tags say."""
    data = pixels(shape, "uint8")
    path = tmp_path / "a.tif"
    write(path, data, truncate=True, **options)
    dataset = assert_reads(ctx, path, data)
    assert tuple(dataset.shape) == (*shape[: -len(frame)], *frame) or shape[-1] == 1
    assert tuple(dataset.shape.sig) == frame


@odd("the file has pages of several kinds")
def test_small_views_and_other_pages(ctx, tmp_path):
    data = pixels((4, 14, 17), "uint8")
    path = tmp_path / "a.tif"
    with tifffile.TiffWriter(path) as file:
        for frame in data:
            file.write(frame, contiguous=False)
            file.write(frame[::2, ::2], subfiletype=1)
    assert_reads(ctx, path, data)
    with tifffile.TiffWriter(path) as file:
        for frame in data:
            file.write(frame, contiguous=False)
        file.write(data[0, :5, :6])
    dataset = ctx.open(path)
    assert np.array_equal(frames_of(ctx, dataset), data)
    assert "0: 4 pages [14, 17] of 8 bits; 1: 1 pages [5, 6]" in dataset.warnings[0]
    with tifffile.TiffWriter(path) as file:
        for frame in (data[0], data[0, :5], data[1]):
            file.write(frame, contiguous=False)
    with pytest.raises(BadFileError, match=r"page 1 is of another kind.*dataset_index") as caught:
        ctx.open(path)
    assert str(path) in str(caught.value)
    assert np.array_equal(frames_of(ctx, ctx.open(path, dataset_index=0)), data[:2])


@pytest.mark.parametrize("compression", [None, "zlib", "jpeg"])
@odd("the file has pages of several kinds")
def test_previews_before_the_data_are_no_frames(ctx, tmp_path, compression):
    data = pixels((4, 14, 17), "uint16")
    preview = pixels((16, 24, 3), "uint8")
    path = tmp_path / "a.tif"
    with tifffile.TiffWriter(path, byteorder="<") as file:
        how = {} if compression == "jpeg" else {"compression": compression}
        file.write(preview, photometric="rgb", **how)
        for frame in data:
            file.write(frame, contiguous=False)
    if compression == "jpeg":
        # It takes no JPEG to see what becomes of one: the number of the compression is enough.
        with tifffile.TiffFile(path) as file:
            at = file.pages[0].tags[259].valueoffset
        whole = bytearray(path.read_bytes())
        whole[at : at + 2] = (7).to_bytes(2, "little")
        path.write_bytes(whole)
    dataset = ctx.open(path)
    assert tuple(dataset.shape) == data.shape
    assert np.array_equal(frames_of(ctx, dataset), data)
    assert "this is series 1; dataset_index chooses another one" in dataset.warnings[0]
    assert np.array_equal(frames_of(ctx, ctx.open(path, dataset_index=1)), data)
    if compression == "jpeg":
        with pytest.raises(UnsupportedError, match="JPEG"):
            ctx.open(path, dataset_index=0)
    else:
        shown = frames_of(ctx, ctx.open(path, dataset_index=0))
        assert np.array_equal(shown.reshape(preview.shape), preview)
    with pytest.raises(FramefoldError, match=r"no series 2.*0: 1 pages \[16, 24\] in 3 colours"):
        ctx.open(path, dataset_index=2)


def test_pages_of_several_layouts(ctx, tmp_path):
    data = pixels((8, 33, 17), "uint16")
    path = tmp_path / "a.tif"
    with tifffile.TiffWriter(path) as file:
        for i, frame in enumerate(data):
            how = [{}, {"compression": "zlib"}, {"tile": (16, 16)}, {"compression": "lzw"}][i // 2]
            file.write(frame, contiguous=False, rowsperstrip=7, **how)
    assert_reads(ctx, path, data)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"compression": "jpeg"}, r"compression 7 \(JPEG\)"),
        ({"compression": "lerc"}, "LERC"),
    ],
)
def test_what_is_not_read_is_refused_in_words(ctx, tmp_path, options, words):
    path = tmp_path / "a.tif"
    data = pixels((2, 32, 32), "uint8")
    try:
        write(path, data, **options)
    except Exception as error:  # not all that it names can be written everywhere
        pytest.skip(f"tifffile cannot write it: {error}")
    with pytest.raises(UnsupportedError, match=words) as caught:
        ctx.open(path)
    assert "rewrite the file" in str(caught.value)


REAL = [pytest.param(entry, id=entry["file"].split("/")[-1]) for entry in manifest("TIFF")]


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("entry", REAL)
def test_real_files(ctx, entry, backend, command):
    path = real_data() / entry["file"]
    dataset = ctx.open(path, io_backend=backend)
    reading = next(r for r in entry["readings"] if r["reader"].startswith("tifffile"))
    frames = np.ascontiguousarray(frames_of(ctx, dataset))
    shape = reading["shape"]
    assert tuple(dataset.shape)[-len(shape) :] == tuple(shape) or dataset.shape.nav.size == 1
    assert frames.size == np.prod(shape)
    assert frames.dtype == reading["dtype"]
    assert frames.min() == reading["min"]
    assert frames.max() == reading["max"]
    assert frames.sum(dtype="float64") == pytest.approx(reading["sum_f64"], rel=1e-12)
    digest = hashlib.sha256(frames.astype(frames.dtype.newbyteorder("<")).tobytes()).hexdigest()
    assert digest == reading["sha256_c_order_le"]
    for index, value in reading["probes"]:
        assert frames.reshape(shape)[tuple(index)] == value
    facts = json.loads(command("info", "--json", path))
    assert (facts["format"], facts["dtype"]) == ("tiff", reading["dtype"])
    assert facts["nav_shape"] + facts["sig_shape"] == list(dataset.shape)


def test_units_of_a_real_file(ctx):
    path = real_file("TIFF/rosettasciio/test_loading_image_saved_with_imageJ_stack.tif")
    metadata = ctx.open(path).metadata
    assert metadata["image_step_x"] == pytest.approx(168.67471098853332)


@settings(
    max_examples=60,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)
@given(data=st.data())
@POSITIONS_WITHOUT_DATA
def test_any_stack(ctx, tmp_path_factory, data):
    draw = data.draw
    # Of one column, tifffile makes one row.
    height, width = draw(st.integers(2, 40)), draw(st.integers(2, 40))
    nav = tuple(draw(st.lists(st.integers(1, 5), min_size=1, max_size=2)))
    dtype = draw(st.sampled_from(DTYPES))
    compression = draw(st.sampled_from([None, *COMPRESSIONS]))
    # tifffile has no predictor for the others.
    known = compression in ("zlib", "lzw", "zstd") and dtype not in ("float16", "int64", "uint64")
    predictor = known and draw(st.booleans())
    layout = draw(
        st.sampled_from([{}, {"rowsperstrip": draw(st.integers(1, 40))}, {"tile": (16, 32)}])
    )
    array = pixels((*nav, height, width), dtype)
    path = tmp_path_factory.mktemp("any") / "a.tif"
    write(
        path,
        array,
        byteorder=draw(st.sampled_from("<>")),
        bigtiff=draw(st.booleans()),
        compression=compression,
        predictor=predictor,
        **layout,
    )
    n = int(np.prod(nav))
    dataset = ctx.open(path, nav_shape=(n,), num_partitions=draw(st.integers(1, n)))
    flat = array.reshape(n, height, width)
    roi = np.array(draw(st.lists(st.booleans(), min_size=n, max_size=n)))
    if roi.any():
        assert np.array_equal(frames_of(ctx, dataset, roi=roi), flat[roi], equal_nan=True)

    total = ctx.run_udf(dataset, ff.SumUDF())["intensity"].data
    expected = flat.sum(axis=0, dtype="float64")
    np.testing.assert_allclose(total, expected, rtol=1e-3, atol=1e-3 * (1 + abs(expected).max()))
    offset = draw(st.integers(-n + 1, n - 1))
    shifted = ctx.open(path, nav_shape=(n,), sync_offset=offset)
    where = shifted.valid_mask
    assert np.array_equal(
        frames_of(ctx, shifted, roi=where), flat[np.flatnonzero(where) + offset], equal_nan=True
    )


def test_data_sets_travel(ctx, tmp_path):
    data = pixels((4, 14, 17), "uint8")
    write(tmp_path / "a.tif", data, compression="zlib")
    again = pickle.loads(pickle.dumps(ctx.open(tmp_path / "a.tif")))
    assert np.array_equal(frames_of(ctx, again), data)
