"""The kernel that decodes chunks, on the host, with what watches each access to memory."""

from __future__ import annotations

import json
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

#: The dtype, the length of blocks, and the shape of a frame.
CHUNKS = [
    ("uint8", 0, (13, 11)), ("uint16", 0, (16, 20)), ("uint16", 64, (13, 20)),
    ("float32", 64, (13, 11)), ("float64", 0, (16, 12)), ("complex128", 32, (9, 11)),
]  # fmt: skip

#: In one process with the sanitizer for all chunks, of arrays that are as long as they have to be.
DECODES = """
    import json
    import sys
    import numpy as np
    from host_decoder import run

    for given in sys.argv[1:]:
        path, chunk_bytes, n_blocks, block_bytes, rest, folder = json.loads(given)
        print(folder, path, flush=True)
        stored = np.load(folder + "/stored.npy")
        pixels, flags = [], []
        for encoded, n_used in zip(stored, np.load(folder + "/used.npy")):
            parts, out = np.array(encoded[:n_used]), np.empty(chunk_bytes, dtype=np.uint8)
            flag = np.full(1, 2**64 - 1, dtype=np.uint64)
            run(path, n_blocks + (rest > 0), min(block_bytes, chunk_bytes), [
                parts.ctypes.data, out.ctypes.data, flag.ctypes.data, np.uint64(5), np.uint64(0),
                np.uint32(1), np.uint32(1), np.uint32(n_blocks), np.uint64(chunk_bytes),
                np.uint32(block_bytes), np.uint32(rest),
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


def save_damaged(folder, dtype, nelems, shape):
    """A part of one chunk as it is, and damaged in many ways; what there is to know of it."""
    data = files.random(dtype, (1, *shape), spread=3)
    (chunk,) = files.chunks_of(files.write(folder / "a.h5", data, nelems=nelems))
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
    np.save(folder / "stored.npy", stored)
    np.save(folder / "used.npy", n_used)
    return data, (decoded, n_blocks, block_bytes, rest, str(folder))


def test_damaged_blocks_reach_nothing_else(tmp_path):
    options = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
    cases, given = [], []
    for i, chunk in enumerate(CHUNKS):
        for descending in (False, True):
            folder = tmp_path / f"{i}-{descending}"
            folder.mkdir()
            data, numbers = save_damaged(folder, *chunk)
            path = library(data.dtype.itemsize, descending=descending, options=options)
            cases.append((folder, data))
            given.append(json.dumps([str(path), *numbers]))
    script = tmp_path / "decodes.py"
    script.write_text(textwrap.dedent(DECODES))
    environment = {
        **os.environ,
        "LD_PRELOAD": sanitizer(),
        "ASAN_OPTIONS": "detect_leaks=0",
        "PYTHONMALLOC": "malloc",
        "PYTHONPATH": str(Path(__file__).parent),
    }
    done = subprocess.run(
        [sys.executable, script, *given],
        env=environment, capture_output=True, text=True, timeout=300, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout[-300:] + done.stderr[-3000:]
    for folder, data in cases:
        pixels, flags = np.load(folder / "pixels.npy"), np.load(folder / "flags.npy")
        assert pixels[0].tobytes() == data.tobytes()
        assert flags[0] == 2**64 - 1
        assert set(flags[1:]) == {5, 2**64 - 1}
