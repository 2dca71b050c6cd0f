"""The data sets: what they look like, and how their files are made."""

from __future__ import annotations

import math
import shutil
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from format_data import ENDINGS as KINDS
from format_data import OPENED_AS, remove_format, stored_bytes, write_format
from sparse_data import ENDINGS, n_events, write_dense, write_sparse

#: How many values are drawn at random; frames are parts of them that begin anywhere.
POOL = 1 << 24
#: What has to remain free on the disk.
SPARE_BYTES = 1 << 30


@dataclass(frozen=True)
class Data:
    """A data set in a file of its own."""

    name: str
    nav: tuple[int, int]
    sig: tuple[int, int]
    dtype: str = "uint16"
    #: Bits of a counter, for raw MIB files; None for files without structure.
    mib_bits: int | None = None
    #: The share of pixels with counts, for frames that are mostly zeros; None for others.
    occupancy: float | None = None
    #: Whether frames with few counts are written with all their zeros.
    dense: bool = False
    #: For formats beyond these, and layouts of one: see ``format_data.py``.
    kind: str | None = None

    @property
    def format(self) -> str:
        """What the file is opened as."""
        if self.kind is not None:
            return OPENED_AS[self.kind]
        if self.mib_bits is not None:
            return "mib"
        return "raw" if self.occupancy is None or self.dense else "raw_csr"

    @property
    def group(self) -> str:
        """What it is measured together with."""
        if self.kind is not None:
            return "formats"
        return self.format if self.occupancy is None else "raw_csr"

    @property
    def n_events(self) -> int | None:
        """Pixels with counts, where most have none."""
        return None if self.occupancy is None else n_events(self)

    @property
    def n_frames(self) -> int:
        """All frames of the scan."""
        return math.prod(self.nav)

    @property
    def n_bytes(self) -> int:
        """What a pass over the pixels reads; headers do not count."""
        if self.format == "raw_csr":
            return n_events(self) * 6 + (self.n_frames + 1) * 8
        pixels = self.n_frames * math.prod(self.sig)
        if self.kind is not None:
            return stored_bytes(self.kind, self.decoded_bytes)
        if self.mib_bits is not None:
            # Counters of 6 bits are stored in 8, those of 12 in 16.
            return pixels * {1: 1, 6: 8, 12: 16}[self.mib_bits] // 8
        return pixels * np.dtype(self.dtype).itemsize

    @property
    def decoded_bytes(self) -> int:
        """What all pixels take as an array."""
        return self.n_frames * math.prod(self.sig) * np.dtype(self.dtype).itemsize

    def scaled(self, factor: int) -> Data:
        """The same with fewer frames: the scan is made smaller, first along its slow axis."""
        slow = min(factor, self.nav[0])
        nav = (self.nav[0] // slow, max(1, self.nav[1] // max(1, factor // slow)))
        return replace(self, nav=nav)

    def path(self, folder: Path) -> Path:
        """Where the file lies; its name says what is inside."""
        shape = "x".join(str(n) for n in (*self.nav, *self.sig))
        endings = KINDS | {"raw": ".raw", "mib": ".mib", "raw_csr": ".toml"}
        ending = endings[self.kind or self.format]
        return folder / f"{self.name.replace('.', '_')}-{shape}{ending}"

    def describe(self, folder: Path) -> dict[str, Any]:
        """Say to a worker where the data are and what they look like."""
        return {
            "path": str(self.path(folder)),
            "format": self.format,
            "nav": self.nav,
            "sig": self.sig,
            "dtype": self.dtype,
            "mib_bits": self.mib_bits,
            "kind": self.kind,
            "decoded_bytes": self.decoded_bytes,
        }

    def write(self, folder: Path) -> None:
        """Make the file, unless it is there."""
        path = self.path(folder)
        if path.exists():
            return
        n_bytes = self.n_bytes
        folder.mkdir(parents=True, exist_ok=True)
        free = shutil.disk_usage(folder).free
        if free < n_bytes + SPARE_BYTES:
            raise OSError(
                f"{folder} has {free / 1e9:.1f} GB free, and {self.name} needs "
                f"{n_bytes / 1e9:.1f} GB and {SPARE_BYTES / 1e9:.1f} GB to spare; "
                f"name another folder with --data, or scale with --scale"
            )
        if self.format == "raw_csr":
            write_sparse(self, path)  # the file that is looked for above comes last
            return
        if self.kind is not None:
            # Files that others belong to are known by their name, and looked for by it.
            parts = folder / f"unfinished-{path.stem}"
            parts.mkdir(exist_ok=True)
            write_format(self.kind, frames(self), self.nav + self.sig, parts / path.name)
            for part in sorted(parts.iterdir(), key=lambda part: part.name == path.name):
                part.rename(folder / part.name)
            parts.rmdir()
            return
        # A file that is not complete must not be taken for the data set later.
        unfinished = path.with_name("unfinished-" + path.name)
        if self.mib_bits is not None:
            write_mib(self, unfinished)
        elif self.occupancy is not None:
            write_dense(self, unfinished)
        else:
            write_raw(self, unfinished)
        unfinished.rename(path)

    def remove(self, folder: Path) -> None:
        """Delete the file, and what belongs to it."""
        path = self.path(folder)
        if self.kind is not None:
            remove_format(self.kind, path)
            return
        for ending in (path.suffix, *(ENDINGS if self.format == "raw_csr" else ())):
            path.with_suffix(ending).unlink(missing_ok=True)


DATA = {
    data.name: data
    for data in (
        Data("u16", (128, 128), (256, 256)),
        Data("u16-64", (256, 256), (64, 64)),
        Data("f32", (64, 32), (256, 256), "float32"),
        Data("u8", (128, 64), (256, 256), "uint8"),
        Data("u32", (64, 32), (256, 256), "uint32"),
        Data("tiny", (1024, 1024), (16, 16)),
        Data("4k", (8, 8), (4096, 4096)),
        Data("mib-1", (64, 64), (256, 256), "uint8", mib_bits=1),
        Data("mib-6", (64, 64), (256, 256), "uint8", mib_bits=6),
        Data("mib-12", (64, 64), (256, 256), "uint16", mib_bits=12),
        Data("k2is", (8, 8), (1860, 2048), kind="k2is"),
        Data("dm", (128, 64), (128, 128), kind="dm"),
        Data("dm-transposed", (128, 64), (128, 128), kind="dm-transposed"),
        Data("mrc", (64, 32), (256, 256), kind="mrc"),
        Data("seq", (64, 32), (256, 256), kind="seq"),
        Data("blo", (64, 64), (256, 256), "uint8", kind="blo"),
        Data("empad", (64, 64), (128, 128), "float32", kind="empad"),
        Data("hdf5", (64, 32), (256, 256), kind="hdf5"),
        Data("hdf5-gzip", (64, 32), (256, 256), kind="hdf5-gzip"),
        Data("hdf5-bslz4", (64, 32), (256, 256), kind="hdf5-bslz4"),
        Data("zarr", (64, 32), (256, 256), kind="zarr"),
        Data("raw_csr-1", (256, 256), (256, 256), occupancy=0.01),
        Data("raw_csr-0.1", (256, 256), (256, 256), occupancy=0.001),
        Data("raw_csr-0.01", (256, 256), (256, 256), occupancy=0.0001),
        Data("raw_csr-dense", (64, 128), (256, 256), occupancy=0.01, dense=True),
    )
}


def frames(data: Data) -> Any:
    """Make the frames of a data set, one at a time: small counts, as detectors give them."""
    n_pixels = math.prod(data.sig)
    rng = np.random.default_rng(4)
    total = n_pixels * data.n_frames
    n = min(max(POOL, 2 * n_pixels), n_pixels + total)
    counts = rng.integers(0, 1 << 12, n) if data.kind == "k2is" else rng.poisson(2.0, n)
    if data.mib_bits is not None:
        counts = np.minimum(counts, 2**data.mib_bits - 1)
    pool: npt.NDArray[Any] = counts.astype(data.dtype)
    if pool.dtype.kind == "f":
        pool *= 0.37
    for start in rng.integers(0, len(pool) - n_pixels, data.n_frames):
        yield pool[start : start + n_pixels].reshape(data.sig)


def write_raw(data: Data, path: Path) -> None:
    """Write bare frames."""
    with path.open("wb") as file:
        for frame in frames(data):
            file.write(frame.data)


def write_mib(data: Data, path: Path) -> None:
    """Write raw frames of a Merlin detector; no ``.hdr`` file is needed to read them."""
    from framefold.utils.write_mib import write_mib as write

    write(path, frames(data), data.nav, depth=data.mib_bits, raw=True, hdr=False)
