"""Files in formats of detectors and of libraries, and how plain NumPy, h5py and zarr read them.

The writers are those that the tests use, so that neither they nor these readers share code with
the engine.
"""

from __future__ import annotations

import math
import re
import shutil
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

#: The ending of what is opened.
ENDINGS = {
    "k2is": ".gtg",
    "dm": ".dm4",
    "dm-transposed": ".dm4",
    "mrc": ".mrc",
    "seq": ".seq",
    "blo": ".blo",
    "empad": ".xml",
    "hdf5": ".h5",
    "hdf5-gzip": ".h5",
    "hdf5-bslz4": ".h5",
    "zarr": ".zarr",
}
#: What engines call these formats, where it is another name.
OPENED_AS = {kind: kind.partition("-")[0] for kind in ENDINGS}
#: Those of which chunks have to be decoded.
COMPRESSED = ("hdf5-gzip", "hdf5-bslz4", "zarr")
#: Those of which the path is not that of the file with all pixels.
SEVERAL_FILES = ("k2is", "empad", "zarr")
#: Where the pixels of the first frame begin, what lies between frames, in bytes.
_CONTIGUOUS = {"mrc": (1024, 0), "seq": (8192, 24), "blo": (0x1406, 6), "empad": (0, 1024)}
#: The data set within an HDF5 file.
INSIDE = "/data"


def stored_bytes(kind: str, decoded: int) -> int:
    """How many bytes of the file hold pixels that take so many as an array."""
    return decoded * 3 // 4 if kind == "k2is" else decoded


def write_format(kind: str, frames: Iterator[Array], shape: tuple[int, ...], path: Path) -> None:
    """Write a scan of this shape."""
    if kind.startswith("hdf5"):
        write_hdf5(kind, frames, shape, path)
        return
    if kind == "zarr":
        write_zarr(frames, shape, path)
        return
    sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "tests"))
    import detector_files
    import vendor_files

    data = np.stack(list(frames))
    if kind == "k2is":
        vendor_files.write_k2is(path.parent, path.stem, data, scan=shape[:2])
    elif kind == "dm":
        vendor_files.write_dm(path, data.reshape(shape), swapped=True)
    elif kind == "dm-transposed":
        swapped = np.ascontiguousarray(data.reshape(len(data), -1).T)
        del data
        vendor_files.write_dm(path, swapped.reshape(shape[2:] + shape[:2]), swapped=False)
    else:
        getattr(detector_files, f"write_{kind}")(path, data.reshape(shape))


def write_hdf5(kind: str, frames: Iterator[Array], shape: tuple[int, ...], path: Path) -> None:
    """Write a data set, whose compressed chunks are frames (bitshuffle) or several of them."""
    import h5py
    import hdf5plugin

    options: dict[str, Any] = {
        "hdf5": {},
        "hdf5-gzip": {"chunks": (1, min(4, shape[1]), *shape[2:]), "compression": "gzip"},
        "hdf5-bslz4": {"chunks": (1, 1, *shape[2:]), **hdf5plugin.Bitshuffle(cname="lz4")},
    }[kind]
    with h5py.File(path, "w") as file:
        data = file.create_dataset(INSIDE, shape, **(options | {"dtype": "uint16"}))
        for row in range(shape[0]):
            data[row] = np.stack([next(frames) for _ in range(shape[1])])


def write_zarr(frames: Iterator[Array], shape: tuple[int, ...], path: Path) -> None:
    """Write an array in chunks of several frames, compressed with Zstandard."""
    import zarr

    chunks = (1, min(8, shape[1]), *shape[2:])
    data = zarr.create_array(str(path), shape=shape, chunks=chunks, dtype="uint16")
    for row in range(shape[0]):
        data[row] = np.stack([next(frames) for _ in range(shape[1])])


def remove_format(kind: str, path: Path) -> None:
    """Delete a file, and what belongs to it."""
    if kind == "zarr":
        shutil.rmtree(path, ignore_errors=True)
        return
    path.unlink(missing_ok=True)
    others = {"k2is": f"{path.stem}?.bin", "empad": f"{path.stem}_*.raw"}.get(kind)
    for other in path.parent.glob(others) if others else ():
        other.unlink()


def load_options(data: dict[str, Any]) -> dict[str, Any]:
    """Name what has to be known to open a file besides its path."""
    if data["kind"].startswith("hdf5"):
        return {"ds_path": INSIDE}
    if data["kind"] in ("mrc", "seq"):
        return {"nav_shape": tuple(data["nav"])}
    return {}


def open_format(data: dict[str, Any]) -> Any:
    """Open with the means of NumPy, h5py or zarr: something that is cut as frames are."""
    kind, path = data["kind"], Path(data["path"])
    shape = (math.prod(data["nav"]), *data["sig"])
    dtype = np.dtype(data["dtype"])
    if kind == "k2is":
        return K2Frames(path, shape)
    if kind == "dm":
        return np.memmap(path, dtype, "r", dm_offset(path, shape), shape)
    if kind == "dm-transposed":
        return np.memmap(path, dtype, "r", dm_offset(path, shape), shape[1:] + shape[:1]).transpose(
            2, 0, 1
        )
    if kind in _CONTIGUOUS:
        start, gap = _CONTIGUOUS[kind]
        if kind == "empad":
            (path,) = path.parent.glob(f"{path.stem}_*.raw")
        inner = np.empty((1, *shape[1:]), dtype).strides
        file = np.memmap(path, np.uint8, "r")
        return np.ndarray(shape, dtype, file, start, (inner[0] + gap, *inner[1:]))
    return Chunked(data, shape)


def dm_offset(path: Path, shape: tuple[int, ...]) -> int:
    """Find where the pixels begin: behind three words: "array", their type, and their number."""
    with path.open("rb") as file:
        start = file.read(1 << 16)
    array, number = ((n).to_bytes(8, "big") for n in (20, math.prod(shape)))
    # The number alone may also stand across other words.
    found = re.search(re.escape(array) + b".{8}" + re.escape(number), start, re.DOTALL)
    assert found is not None, f"no pixels in the first {len(start)} bytes of {path}"
    return found.end()


class Chunked:
    """A data set of h5py or zarr, read row of the scan by row."""

    def __init__(self, data: dict[str, Any], shape: tuple[int, ...]) -> None:
        self.shape, self.dtype = shape, np.dtype(data["dtype"])
        self.columns = data["nav"][1]
        if data["kind"] == "zarr":
            import zarr

            self.array: Any = zarr.open_array(data["path"], mode="r")
        else:
            import h5py
            import hdf5plugin  # noqa: F401  registers the filter

            self.array = h5py.File(data["path"])[INSIDE]

    def __getitem__(self, index: slice) -> Array:
        start, stop, _ = index.indices(self.shape[0])
        parts = []
        while start < stop:
            row, column = divmod(start, self.columns)
            n = min(self.columns - column, stop - start)
            parts.append(np.asarray(self.array[row, column : column + n]))
            start += n
        return np.concatenate(parts) if len(parts) != 1 else parts[0]


class K2Frames:
    """Frames of eight sectors, unpacked as they are asked for."""

    def __init__(self, path: Path, shape: tuple[int, ...]) -> None:
        self.shape, self.dtype = shape, np.dtype(np.uint16)
        block = np.dtype([("header", "V40"), ("pixels", "u1", (930, 8, 3))])
        self.sectors = [
            np.memmap(path.with_name(f"{path.stem}{n}.bin"), block, "r").reshape(-1, 2, 16)
            for n in range(1, 9)
        ]

    def __getitem__(self, index: slice) -> Array:
        start, stop, _ = index.indices(self.shape[0])
        out = np.empty((stop - start, 2, 930, 8, 16, 16), np.uint16)
        for number, sector in enumerate(self.sectors):
            # Blocks of a half come from right to left.
            stored = sector["pixels"][start:stop, :, ::-1].astype(np.uint16)
            a, b, c = (stored[..., n].transpose(0, 1, 3, 2, 4) for n in range(3))
            out[:, :, :, number, :, 0::2] = a | (b & 15) << 8
            out[:, :, :, number, :, 1::2] = b >> 4 | c << 4
        return out.reshape(-1, *self.shape[1:])
