"""Results that are files beside copies of data sets: bytes that get to the disk in a second.

A function whose result is each frame as it is writes as many bytes as a copy of the data set has.
What was written is compared before times are taken; each figure is the best of some rounds, in
which all take turns, and the disk is waited for. Run it on its own:
``python bench/writing.py [--mib N] [--folder PATH] [--markdown]``.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import framefold as ff

ROUNDS = 5
SIG = (256, 256)


class Same(ff.UDF):
    """Each frame as it is."""

    def get_preferred_input_dtype(self) -> Any:
        """Those of the data set."""
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self) -> Any:
        """A frame for each frame."""
        return {"x": self.buffer("nav", extra_shape=SIG, dtype=self.meta.input_dtype)}

    def process_frames(self, frames: Any) -> None:
        """Copy them."""
        self.results.x[:] = frames


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--mib", type=int, default=1024)
    parser.add_argument("--folder", type=Path)
    parser.add_argument("--markdown", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        rates = measure(Path(folder), arguments.mib)
    if arguments.markdown:
        print("| what is written | MB/s | of the fastest copy in that format |\n|---|---:|---:|")
    for (how, ending), rate in rates.items():
        copies = (r for (h, e), r in rates.items() if e == ending and h.startswith("export"))
        cells = f"{how}, {ending}", f"{rate:.0f}", f"{rate / max(copies):.2f}"
        print("| " + " | ".join(cells) + " |" if arguments.markdown else "  ".join(cells))


def measure(folder: Path, mib: int) -> dict[tuple[str, str], float]:
    """MB of pixels in a second, by how and what is written."""
    n_frames = (mib << 20) // (2 * SIG[0] * SIG[1])
    counts = np.random.default_rng(0).poisson(2.0, (16, *SIG)).astype(np.uint16)
    with (folder / "scan.raw").open("wb") as file:
        for i in range(n_frames):
            file.write(np.roll(counts[i % 16], i).tobytes())
    ctx = ff.Context.make_with("threads")
    nav = (n_frames // 16, 16)
    ds = ctx.load("raw", folder / "scan.raw", dtype="uint16", nav_shape=nav, sig_shape=SIG)
    zarr, npy = folder / "x.zarr", folder / "x.npy"
    export = ctx.export_dataset
    ways: dict[tuple[str, str], Callable[[], Any]] = {
        ("export", ".zarr"): lambda: export(ds, zarr),
        ("export, verify=False", ".zarr"): lambda: export(ds, zarr, verify=False),
        ("export, verify=False, compression='none'", ".zarr"): lambda: export(
            ds, zarr, verify=False, compression="none"
        ),
        ("export", ".npy"): lambda: export(ds, npy),
        ("export, verify=False", ".npy"): lambda: export(ds, npy, verify=False),
        ("run_udf, out=…", ".zarr"): lambda: ctx.run_udf(ds, Same(), out=zarr),
        ("run_udf, out=…", ".npy"): lambda: ctx.run_udf(ds, Same(), out=npy),
    }
    for path in (zarr, npy):
        frames = ctx.run_udf(ds, Same(), out=path)["x"].data
        expected = np.memmap(folder / "scan.raw", np.uint16, "r", shape=frames.shape)
        assert np.array_equal(frames, expected), f"what was written to {path} is wrong"
        del frames
        remove(path)
    taken: dict[tuple[str, str], list[float]] = {name: [] for name in ways}
    for _ in range(ROUNDS):
        for name, way in ways.items():
            begin = time.perf_counter()
            way()
            taken[name].append(time.perf_counter() - begin)
            remove(zarr)
            remove(npy)
    n_bytes = n_frames * SIG[0] * SIG[1] * 2
    return {name: n_bytes / min(times) / 1e6 for name, times in taken.items()}


def remove(path: Path) -> None:
    """Remove a file or a folder, if there is one."""
    if path.is_dir():
        shutil.rmtree(path)
    else:
        path.unlink(missing_ok=True)


if __name__ == "__main__":
    main()
