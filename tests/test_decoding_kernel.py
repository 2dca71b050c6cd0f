"""The kernel that decodes chunks, on the host, with what watches each access to memory."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from pathlib import Path

import encoded_files as files
import numpy as np
import pytest
from host_decoder import COMPILER, library

pytest.importorskip("h5py")
pytest.importorskip("hdf5plugin", reason="hdf5plugin brings bitshuffle")

pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C compiler is installed")

#: In a process with the sanitizer, of arrays that are as long as they have to be.
DECODES = """
    import sys
    import numpy as np
    from host_decoder import run

    path, size, chunk_bytes, n_blocks, block_bytes, rest, folder = sys.argv[1:]
    size, chunk_bytes, n_blocks = int(size), int(chunk_bytes), int(n_blocks)
    stored = np.load(folder + "/stored.npy")
    n_rows = n_blocks + (int(rest) > 0)
    pixels, flags = [], []
    for encoded, n_used in zip(stored, np.load(folder + "/used.npy")):
        parts, out = np.array(encoded[:n_used]), np.empty(chunk_bytes, dtype=np.uint8)
        flag = np.full(1, 2**64 - 1, dtype=np.uint64)
        run(path, n_rows, min(int(block_bytes), chunk_bytes), [
            parts.ctypes.data, out.ctypes.data, flag.ctypes.data, np.uint64(5), np.uint64(0),
            np.uint32(1), np.uint32(1), np.uint32(n_blocks), np.uint64(chunk_bytes),
            np.uint32(int(block_bytes)), np.uint32(int(rest)),
        ])
        pixels.append(out)
        flags.append(int(flag[0]))
    np.save(folder + "/pixels.npy", pixels)
    np.save(folder + "/flags.npy", np.array(flags, dtype=np.uint64))
"""


def encoded(chunk, size, decoded):
    """A part of one chunk, as the engine copies it, in as many bytes as its pixels."""
    rest = decoded % (8 * size)
    at, rows = 12, []
    n_blocks = -(-(decoded - rest) // int.from_bytes(chunk[8:12], "big"))
    n_rows = n_blocks + (rest > 0)
    for _ in range(n_blocks):
        n = int.from_bytes(chunk[at : at + 4], "big")
        rows.append((8 * n_rows + at + 4, n))
        at += 4 + n
    if rest:
        rows.append((8 * n_rows + at, rest))
    made = np.array(rows, dtype="<u4").tobytes() + chunk
    assert len(made) <= decoded
    return np.frombuffer(made + b"\xee" * (decoded - len(made)), dtype=np.uint8), n_blocks, rest


def sanitizer():
    """The library that watches memory; skips where the compiler has none."""
    name = "libasan.so"
    found = subprocess.run(
        [COMPILER, f"-print-file-name={name}"], capture_output=True, text=True, check=True
    ).stdout.strip()
    if sys.platform != "linux" or not Path(found).is_absolute():
        pytest.skip("the compiler has no address sanitizer")
    return str(Path(found).resolve())


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(("dtype", "nelems", "shape"), [
    ("uint8", 0, (13, 11)), ("uint16", 0, (16, 20)), ("uint16", 64, (13, 20)),
    ("float32", 64, (13, 11)), ("float64", 0, (16, 12)), ("complex128", 32, (9, 11)),
])  # fmt: skip
def test_damaged_blocks_reach_nothing_else(tmp_path, dtype, nelems, shape, descending):
    data = files.random(dtype, (1, *shape), spread=3)
    (chunk,) = files.chunks_of(files.write(tmp_path / "a.h5", data, nelems=nelems))
    size, decoded = data.dtype.itemsize, data[0].nbytes
    right, n_blocks, rest = encoded(chunk, size, decoded)
    block_bytes = int.from_bytes(chunk[8:12], "big")
    stored = [right]
    rng = np.random.default_rng(2)
    rows = 8 * (n_blocks + (rest > 0))
    n_used = [rows + len(chunk)]
    for i in range(n_used[0]):
        for flip in (0xFF, 1 << rng.integers(8)):
            stored.append(right.copy())
            stored[-1][i] ^= flip
            # The host has checked the rows; the kernel, that they are within the part.
            n_used.append(n_used[0] if i >= rows else decoded)
    stored += list(rng.integers(0, 256, (200, decoded), dtype=np.uint8))
    n_used += [decoded] * 200
    # Shorter blocks, at the end of memory.
    for n_left in range(1, len(chunk) - 16 if n_blocks == 1 and not rest else 1):
        stored.append(right.copy())
        stored[-1][4:8] = np.frombuffer(np.uint32(n_left).tobytes(), dtype=np.uint8)
        n_used.append(rows + 16 + n_left)
    np.save(tmp_path / "stored.npy", stored)
    np.save(tmp_path / "used.npy", n_used)
    options = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    path = library(size, descending=descending, options=options)
    script = tmp_path / "decodes.py"
    script.write_text(textwrap.dedent(DECODES))
    given = path, size, decoded, n_blocks, block_bytes, rest, tmp_path
    environment = {
        **os.environ,
        "LD_PRELOAD": sanitizer(),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(Path(__file__).parent),
    }
    done = subprocess.run(
        [sys.executable, script, *map(str, given)],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    pixels, flags = np.load(tmp_path / "pixels.npy"), np.load(tmp_path / "flags.npy")
    assert pixels[0].tobytes() == data.tobytes()
    assert flags[0] == 2**64 - 1
    assert set(flags[1:]) == {5, 2**64 - 1}
