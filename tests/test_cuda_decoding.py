"""Chunks of bitshuffle with LZ4 that the device decodes."""

from __future__ import annotations

import struct

import encoded_files as files
import fake_cupy
import numpy as np
import pytest
from cuda_udfs import CUPY
from host_decoder import COMPILER

import framefold as ff
from framefold.arrays.cuda.decoding import Decoder
from framefold.io.corrections import CorrectionSet
from framefold.udf import UDF

pytest.importorskip("h5py")
pytest.importorskip("hdf5plugin", reason="hdf5plugin brings bitshuffle")


class Frames(UDF):
    """The frames as they come to the device."""

    def __init__(self, dtype=None, backend=CUPY):
        super().__init__(dtype=dtype, backend=backend)

    def get_backends(self):
        return (self.params.backend,)

    def get_preferred_input_dtype(self):
        return self.USE_NATIVE_DTYPE if self.params.dtype is None else self.params.dtype

    def get_result_buffers(self):
        where = "device" if self.params.backend == CUPY else None
        sig = self.meta.dataset_shape.sig
        return {"frames": self.buffer("nav", sig, self.meta.input_dtype, where=where)}

    def process_tile(self, tile):
        self.results.frames[:] = tile


class Sums(Frames):
    def get_result_buffers(self):
        return {"total": self.buffer("nav", dtype="float64", where="device")}

    def process_tile(self, tile):
        self.results.total[:] = tile.sum(axis=(1, 2))


@pytest.fixture(autouse=True)
def compiler(device):
    if not device.is_real and COMPILER is None:
        pytest.skip("no C compiler is installed, which makes the kernel of the stand-in")


@pytest.fixture(params=["inline", "threads"])
def ctx(request):
    with ff.Context.make_with(request.param) as context:
        yield context


@pytest.fixture
def decoded(monkeypatch):
    """The number of frames that the device was to decode, of each tile."""
    found = []
    decode = Decoder.decode

    def counted(self, encoded, parts, pixels, first):
        found.append(sum(stop - start for start, stop in encoded.runs(len(pixels))))
        decode(self, encoded, parts, pixels, first)

    monkeypatch.setattr(Decoder, "decode", counted)
    return found


@pytest.mark.parametrize("wanted", [None, "float32"])
@pytest.mark.parametrize("nelems", [0, 64])
@pytest.mark.parametrize("native", ["uint8", "int16", "uint16", "uint32", "int64", "float32",
                                    "float64", "complex64", "complex128"])  # fmt: skip
def test_every_dtype_is_decoded(device, tmp_path, decoded, native, nelems, wanted):
    ctx = ff.Context.make_with("inline")
    data = files.random(native, (23, 31, 37))
    path = files.write(tmp_path / "a.h5", data, nelems=nelems)
    dataset = ctx.load("hdf5", path, num_partitions=3)
    found = ctx.run_udf(dataset, Frames(wanted))["frames"].data
    common = np.result_type(data.dtype, wanted) if wanted else data.dtype
    np.testing.assert_array_equal(found, data.astype(common))
    assert sum(decoded) == 23


def test_the_link_carries_what_is_in_the_file(monkeypatch, tmp_path):
    if COMPILER is None:
        pytest.skip("no C compiler is installed")
    machine = fake_cupy.install(monkeypatch)
    ctx = ff.Context.make_with("inline")
    data = files.random("uint16", (23, 64, 64))
    path = files.write(tmp_path / "a.h5", data)
    stored = sum(map(len, files.chunks_of(path)))
    dataset = ctx.load("hdf5", path)
    with machine.counting_transfers() as n_bytes:
        ctx.run_udf(dataset, Frames())
    assert stored < sum(n_bytes) < stored + 23 * 20
    assert stored < data.nbytes / 4


@pytest.mark.parametrize("roi", [False, True])
@pytest.mark.parametrize("corrected", [False, True])
def test_a_roi_corrections_and_several_functions(device, ctx, tmp_path, decoded, roi, corrected):
    data = files.random("uint16", (6, 5, 48, 40))
    path = files.write(tmp_path / "a.h5", data)
    dataset = ctx.load("hdf5", path, num_partitions=4)
    rng = np.random.default_rng(8)
    mask = rng.random((6, 5)) < 0.5 if roi else None
    planes = rng.random((48, 40)), rng.random((48, 40)) + 0.5
    excluded = rng.random((48, 40)) < 0.02
    corrections = CorrectionSet(*planes, excluded_pixels=excluded) if corrected else None
    words = {"roi": mask, "corrections": corrections}
    wanted = "float32", "float64", None
    *found, total = ctx.run_udf(dataset, [*map(Frames, wanted), Sums("float64")], **words)
    cpu = [*(Frames(dtype, "numpy") for dtype in wanted), Sums("float64")]
    *expected, _ = ctx.run_udf(dataset, cpu, **words)
    tolerance = 1e-5 if device.is_real else 0
    for one, other in zip(found, expected, strict=True):
        one, other = one["frames"].raw_data, other["frames"].raw_data
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=tolerance, atol=tolerance)
    pixels = expected[1]["frames"].raw_data
    np.testing.assert_allclose(total["total"].raw_data, pixels.sum(axis=(1, 2)), rtol=1e-6)
    assert sum(decoded) > 0


@pytest.mark.parametrize(("chunk", "n_decoded"), [
    ((1, 2, 32, 32), 0), ((1, 5, 32, 32), 0), ((1, 7, 32, 32), 56), ((2, 7, 32, 32), 56),
    ((3, 7, 32, 32), 0), ((2, 1, 32, 32), 0), ((1, 1, 32, 16), 0),
])  # fmt: skip
@pytest.mark.parametrize("num_partitions", [1, 3])
def test_chunks_of_several_frames(device, tmp_path, decoded, chunk, n_decoded, num_partitions):
    ctx = ff.Context.make_with("inline")
    data = files.random("uint16", (8, 7, 32, 32))
    path = files.write(tmp_path / "a.h5", data, chunk=chunk)
    dataset = ctx.load("hdf5", path, num_partitions=num_partitions)
    np.testing.assert_array_equal(ctx.run_udf(dataset, Frames())["frames"].data, data)
    if num_partitions == 1:
        assert sum(decoded) == n_decoded
    roi = np.random.default_rng(2).random((8, 7)) < 0.7
    found = ctx.run_udf(dataset, Frames(), roi=roi)["frames"].raw_data
    np.testing.assert_array_equal(found, data[roi])


def test_the_last_chunk_is_not_full(device, ctx, tmp_path, decoded):
    """Parts of 4 MiB: the second one ends within a chunk."""
    data = files.random("uint16", (50, 256, 256))
    path = files.write(tmp_path / "a.h5", data, chunk_frames=4)
    dataset = ctx.load("hdf5", path, num_partitions=1)
    np.testing.assert_array_equal(ctx.run_udf(dataset, Frames())["frames"].data, data)
    assert decoded == [32]


def test_chunks_that_are_stored_in_another_way(device, ctx, tmp_path, decoded):
    """Large tiles, of several parts; some of the parts have a chunk that the host decodes."""
    data = files.random("uint16", (200, 128, 256))
    data[77] = np.random.default_rng(1).integers(0, 2**16, (128, 256))
    path = tmp_path / "a.h5"
    import h5py
    import hdf5plugin

    with h5py.File(path, "w") as file:
        there = file.create_dataset("data", data.shape, data.dtype, chunks=(1, 128, 256),
                                    fillvalue=7, **hdf5plugin.Bitshuffle())  # fmt: skip
        for frame in range(200):
            if frame != 3:
                there[frame] = data[frame]
    data[3] = 7
    data[140] = 3
    files.put(path, {140: (data[140].tobytes(), 1)})
    dataset = ctx.load("hdf5", path, num_partitions=2)
    np.testing.assert_array_equal(ctx.run_udf(dataset, Frames())["frames"].data, data)
    # Parts are 64 frames: those with frames 3 and 140 are decoded on the host.
    assert 0 < sum(decoded) < 200


@pytest.fixture(scope="module")
def in_two_files(tmp_path_factory):
    """As programs of detectors write them; parts are 16 frames, and files have 40."""
    import h5py

    data, folder = files.random("uint16", (80, 256, 512)), tmp_path_factory.mktemp("two")
    names = [files.write(folder / f"{i}.h5", data[40 * i : 40 * i + 40]).name for i in range(2)]
    paths = {kind: folder / f"{kind}.h5" for kind in ("virtual", "links")}
    with h5py.File(paths["virtual"], "w") as file:
        layout = h5py.VirtualLayout(data.shape, data.dtype)
        for i, name in enumerate(names):
            source = h5py.VirtualSource(name, "data", (40, 256, 512))
            layout[40 * i : 40 * i + 40] = source
        file.create_virtual_dataset("data", layout)
    with h5py.File(paths["links"], "w") as file:
        for i, name in enumerate(names):
            file[f"entry/data/data_{i + 1:06d}"] = h5py.ExternalLink(name, "data")
    return data, paths


@pytest.mark.parametrize("kind", ["virtual", "links"])
def test_frames_in_several_files(device, ctx, in_two_files, decoded, kind):
    data, paths = in_two_files
    dataset = ctx.load("hdf5", paths[kind], num_partitions=1)
    found = ctx.run_udf(dataset, Frames())["frames"].data
    np.testing.assert_array_equal(found.reshape(data.shape), data)
    # The host puts together what is of two virtual sources.
    assert sum(decoded) == (64 if kind == "virtual" else 80)


@pytest.mark.parametrize("kind", ["random", "big endian", "bool", "large blocks", "zstd", "none"])
def test_what_the_host_decodes(device, tmp_path, decoded, kind):
    ctx = ff.Context.make_with("inline")
    dtype = {"big endian": ">u2", "bool": "bool"}.get(kind, "uint16")
    data = files.random(dtype, (9, 200, 200), spread=2)
    if kind == "random":
        data = np.random.default_rng(1).integers(0, 2**16, (9, 200, 200), dtype="uint16")
    cname = kind if kind in ("zstd", "none") else "lz4"
    nelems = 32768 if kind == "large blocks" else 0
    path = files.write(tmp_path / "a.h5", data, cname=cname, nelems=nelems)
    dataset = ctx.load("hdf5", path)
    np.testing.assert_array_equal(ctx.run_udf(dataset, Frames())["frames"].data, data)
    assert not decoded


def test_frames_that_are_cut_are_cut_on_the_host(device, tmp_path, decoded):
    ctx = ff.Context.make_with("inline")
    data = files.random("uint16", (9, 64, 64))
    dataset = ctx.load("hdf5", files.write(tmp_path / "a.h5", data))
    dataset = dataset.pipe(ff.Crop(np.s_[8:40, 3:50]))
    found = ctx.run_udf(dataset, Frames())["frames"].data
    np.testing.assert_array_equal(found, data[:, 8:40, 3:50])
    assert not decoded


def damaged(stored):
    """The chunk with a first token that asks for too much."""
    return stored[:16] + b"\xff" * (len(stored) - 16)


def error_of(ctx, dataset, udf, **words):
    with pytest.raises(ff.exceptions.FramefoldError) as raised:
        ctx.run_udf(dataset, udf, **words)
    return type(raised.value), str(raised.value)


def test_a_damaged_chunk_ends_the_run(device, ctx, tmp_path, decoded):
    data = files.random("uint16", (50, 48, 40))
    path = files.write(tmp_path / "a.h5", data)
    chunks = files.chunks_of(path)
    dataset = ctx.load("hdf5", path, num_partitions=2)
    files.put(path, {30: (damaged(chunks[30]), 0), 40: (damaged(chunks[40]), 0)})
    dataset = ctx.load("hdf5", path, num_partitions=2)
    found = error_of(ctx, dataset, Sums())
    assert sum(decoded) >= 25
    assert "a.h5" in found[1]
    assert "30" in found[1]
    assert found == error_of(ctx, dataset, Frames(None, "numpy"))
    device.check_released()
    files.put(path, {30: (chunks[30], 0), 40: (chunks[40], 0)})
    dataset = ctx.load("hdf5", path, num_partitions=2)
    np.testing.assert_array_equal(ctx.run_udf(dataset, Frames())["frames"].data, data)


def test_what_comes_of_a_damaged_chunk_is_not_the_error(device, tmp_path):
    ctx = ff.Context.make_with("inline")
    data = files.random("uint16", (5, 48, 40)) + np.uint16(1)
    path = files.write(tmp_path / "a.h5", data)
    files.put(path, {2: (damaged(files.chunks_of(path)[2]), 0)})

    class NoZeros(Sums):
        def process_tile(self, tile):
            assert tile.min().get() > 0, "a pixel is 0"

    dataset = ctx.load("hdf5", path)
    assert "a.h5" in error_of(ctx, dataset, NoZeros())[1]


def test_a_chunk_is_cut(device, tmp_path):
    ctx = ff.Context.make_with("inline")
    data = files.random("uint16", (5, 48, 40))
    path = files.write(tmp_path / "a.h5", data)
    stored = files.chunks_of(path)[2]
    for changed in (stored[:-10], stored[:14], stored[:5], stored + b"\0", b"\1" + stored[1:]):
        files.put(path, {2: (changed, 0)})
        dataset = ctx.load("hdf5", path, num_partitions=2)
        found = error_of(ctx, dataset, Frames())
        assert found == error_of(ctx, dataset, Frames(None, "numpy"))


def result_of(ctx, dataset, backend, roi):
    """Pixels, or kind and text of the error."""
    try:
        return ctx.run_udf(dataset, Frames(None, backend), roi=roi)["frames"].raw_data
    except ff.exceptions.FramefoldError as error:
        return type(error), str(error)


def check_as_on_the_host(ctx, path, data, changed, nelems=0):
    """Give frames to the device, each one alone; the same pixels or the same error as on the host.

    Returns how many were right, were other pixels, and were refused.
    """
    files.write(path, np.repeat(data, len(changed), axis=0), nelems=nelems)
    files.put(path, {i: (chunk, 0) for i, chunk in enumerate(changed)})
    dataset = ctx.load("hdf5", path)
    n_right = n_others = n_errors = 0
    for i in range(len(changed)):
        roi = np.arange(len(changed)) == i
        expected, found = (result_of(ctx, dataset, backend, roi) for backend in ("numpy", CUPY))
        if isinstance(expected, np.ndarray):
            np.testing.assert_array_equal(found, expected)
            is_right = np.array_equal(expected, data)
            n_right, n_others = n_right + is_right, n_others + (not is_right)
        else:
            assert found == expected
            n_errors += 1
    return n_right, n_others, n_errors


def test_each_damaged_byte_is_as_on_the_host(device, tmp_path):
    ctx = ff.Context.make_with("inline")
    data = files.random("uint16", (1, 16, 24), spread=3)
    (stored,) = files.chunks_of(files.write(tmp_path / "a.h5", data))
    changed = [
        stored[:i] + bytes([stored[i] ^ flip]) + stored[i + 1 :]
        for i in range(12, len(stored))
        for flip in (0xFF, 1, 0x10)
    ]
    step = 5 if device.is_real else 1  # each is a run, for which memory is pinned
    _, n_others, n_errors = check_as_on_the_host(ctx, tmp_path / "b.h5", data, changed[::step])
    assert n_others > 50 // step
    assert n_errors > 20 // step


def test_the_end_of_a_block_is_as_on_the_host(device, tmp_path, decoded):
    """LZ4 ends in literals, so many that decoders can copy without a look at each byte."""
    ctx = ff.Context.make_with("inline")
    # A second block that is short: chunks that take more room than their pixels are the host's.
    data, second = np.zeros((1, 32, 16), dtype="uint16"), b"\x1f\0\1\0\xff\xe8\x50" + bytes(5)
    changed = []
    for match in (*range(4, 10), 19, 30):
        for last in range(9):
            first = 512 - match - last
            block = bytes([0xF0 | min(match - 4, 15), 255, first - 270]) + bytes(first) + b"\1\0"
            block += bytes([match - 19] if match >= 19 else []) + bytes([last << 4]) + bytes(last)
            chunk = struct.pack(">QII", 1024, 512, len(block)) + block
            changed.append(chunk + struct.pack(">I", len(second)) + second)
    n_right, _, n_errors = check_as_on_the_host(ctx, tmp_path / "b.h5", data, changed, 256)
    assert n_right > 5
    assert n_errors > 20
    # Each of them in vain, or not, on the device.
    assert len(decoded) == len(changed)


def test_a_match_with_itself_is_refused(device, tmp_path):
    """An offset of 0, for which the specification of LZ4 has no use."""
    ctx = ff.Context.make_with("inline")
    data = files.random("uint16", (3, 16, 16))
    path = files.write(tmp_path / "a.h5", data)
    block = b"\x1f\0\0\0" + bytes([255, 512 - 1 - 5 - 19 - 255]) + b"\x50" + b"\0" * 5
    stored = struct.pack(">QII", 512, 8192, len(block)) + block
    files.put(path, {1: (stored, 0)})
    dataset = ctx.load("hdf5", path)
    assert "a.h5" in error_of(ctx, dataset, Frames())[1]


def test_resident_frames_are_decoded_there(device, tmp_path, decoded):
    ctx = ff.Context.make_with("inline")
    data = files.random("uint16", (50, 48, 40))
    dataset = ctx.load("hdf5", files.write(tmp_path / "a.h5", data))
    resident = dataset.to_device()
    np.testing.assert_array_equal(ctx.run_udf(resident, Frames())["frames"].data, data)
    assert sum(decoded) == 50


@pytest.mark.parametrize("raised", [KeyboardInterrupt, SystemExit, ValueError])
def test_what_ends_the_program_goes_before_a_damaged_chunk(ctx, device, tmp_path, raised):
    data = files.random("uint16", (5, 48, 40))
    path = files.write(tmp_path / "a.h5", data)
    chunk = files.chunks_of(path)[3]
    files.put(path, {3: (chunk[:16] + b"\xff" * (len(chunk) - 16), 0)})

    class Raises(Frames):
        def process_tile(self, tile):
            raise raised

    is_error = issubclass(raised, Exception)
    with pytest.raises(ff.exceptions.BadFileError if is_error else raised):
        ctx.run_udf(ctx.load("hdf5", path, num_partitions=1), Raises())
