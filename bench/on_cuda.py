"""Measures functions on a CUDA device, and which share of what bounds them they reach.

Two bounds, measured first: the *link*, as pinned memory is copied to the device, and the
*arithmetic*, as the function's own work on tiles that are on the device already. A run of plain
pixels cannot be faster than the slower of them, and with perfect overlap is as fast as that. Over
resident data only the arithmetic counts; compressed chunks may be less on the link.

Results are compared with those of the CPU before any time is taken. The table shows medians. A
second one compares a published package with all cores of the CPU::

    python bench/on_cuda.py                    # some minutes
    python bench/on_cuda.py --gigabytes 0.5    # less data
    python bench/on_cuda.py --only masks       # cases whose name has that in it

Without a device, or without CuPy, it says so and ends.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt
import side_band

import framefold as ff
from framefold.run.plan import available_cores
from framefold.utils.devices import cuda_ids, has_cupy, why_no_device

Array = npt.NDArray[Any]
SIG = (256, 256)
TILE_BYTES = 64 << 20
GIGABYTE = 1e9


class OnDevice(ff.UDF):
    """A function that runs on devices; on the CPU to compare with."""

    def __init__(self, backends: tuple[str, ...] = (ff.UDF.BACKEND_CUPY,)) -> None:
        super().__init__(backends=backends)

    def get_backends(self) -> tuple[str, ...]:
        return self.params.backends


class Nothing(OnDevice):
    """Looks at no pixel."""

    def get_result_buffers(self) -> dict[str, Any]:
        return {"n_frames": self.buffer("single", dtype="int64")}

    def process_tile(self, tile: Any) -> None:
        self.results.n_frames[:] += len(tile)

    def merge(self, dest: Any, src: Any) -> None:
        dest.n_frames[:] += src.n_frames


class Total(OnDevice):
    """The sum of all frames, of the user's own making."""

    def get_result_buffers(self) -> dict[str, Any]:
        return {"total": self.buffer("sig", dtype="float32", where="device")}

    def process_tile(self, tile: Any) -> None:
        self.results.total[:] += self.work(self.xp, tile)

    def merge(self, dest: Any, src: Any) -> None:
        dest.total[:] += src.total

    @staticmethod
    def work(xp: Any, tile: Any) -> Any:
        return tile.sum(axis=0)


class Spectrum(OnDevice):
    """The power of each frame's spectrum at 64 frequencies, many frames at a time."""

    def get_result_buffers(self) -> dict[str, Any]:
        return {"power": self.buffer("nav", (64,), dtype="float32", where="device")}

    def process_frames(self, frames: Any) -> None:
        self.results.power[:] = self.work(self.xp, frames)

    def merge(self, dest: Any, src: Any) -> None:
        dest.power[:] = src.power

    @staticmethod
    def work(xp: Any, frames: Any) -> Any:
        return (xp.abs(xp.fft.rfft2(frames)[:, 0, :64]) ** 2).astype(np.float32)


class Case(NamedTuple):
    """What is measured."""

    name: str
    goal: str
    udf: Callable[[], Any]
    #: The work on one tile in the dtype of the UDF, without bringing it there; None for no work.
    work: Callable[[Any, Any], Any] | None
    resident: bool = False
    #: Instead of the file of plain pixels.
    compressed: bool = False
    #: What the function gets.
    dtype: npt.DTypeLike = np.float32


def cases(masks: Callable[[int], Array]) -> Iterator[Case]:
    """Those of the table, in order."""

    def products(n: int) -> Callable[[Any, Any], Any]:
        @cache
        def there() -> Any:
            import cupy

            return cupy.asarray(masks(n).reshape((n, -1)).T)

        return lambda _, tile: tile.reshape((len(tile), -1)) @ there()

    def in_integers(_: Any, tile: Any) -> Any:
        return tile.sum(axis=0, dtype=np.int64)

    def apply(n: int) -> Callable[[], Any]:
        return lambda: ff.ApplyMasksUDF(
            mask_factories=lambda: masks(n), mask_count=n, mask_dtype=np.float32
        )

    yield Case("no-op, by tile", "0.8 of the link", Nothing, None)
    yield Case("sum, by tile", "0.8 of the link", Total, Total.work)
    yield Case("rfft2, by stack", "0.8 of the bound", Spectrum, Spectrum.work)
    for n in (64, 512):
        yield Case(f"masks x{n}", "0.8 of the link", apply(n), products(n))
    yield Case("bslz4 HDF5, sum", "0.5 of the link", Total, Total.work, compressed=True)
    yield Case("resident sum", "1000 GB/s", ff.SumUDF, in_integers, resident=True, dtype=np.uint16)
    yield Case("resident masks x64", "200 GB/s", apply(64), products(64), resident=True)


class Crew(NamedTuple):
    """Who takes part in a run."""

    name: str
    gpus: list[int]
    cpus: int = 0

    @property
    def backends(self) -> tuple[str, ...]:
        """What functions take, so that all of them do."""
        both = (ff.UDF.BACKEND_CUPY, ff.UDF.BACKEND_NUMPY)
        return both if self.cpus else both[:1]

    def udf(self, case: Case) -> Any:
        """The function of a case, for all of them."""
        udf = case.udf()
        return type(udf)(self.backends) if isinstance(udf, OnDevice) else udf


def crews(case: Case) -> Iterator[Crew]:
    """Those of a case: more workers should make no run slower."""
    yield Crew("1", [0])
    if case.resident:
        return
    yield Crew("2 for one device", [0, 0])
    if isinstance(case.udf(), OnDevice) and not case.compressed:
        n_cores = max(1, available_cores() // 2)
        yield Crew(f"1, and {n_cores} on the CPU", [0], n_cores)
    devices = cuda_ids()
    if len(devices) > 1:
        yield Crew(f"{len(devices)} devices", devices)


def median_time(work: Callable[[], object], runs: int) -> float:
    """The median of the seconds that ``work`` takes, after a first time that does not count."""
    work()
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        work()
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def link_speed(cupy: Any, runs: int) -> float:
    """Bytes per second from pinned memory to the device."""
    pinned = cupy.cuda.alloc_pinned_memory(TILE_BYTES)
    host = np.frombuffer(pinned, dtype=np.uint8, count=TILE_BYTES)
    there, stream = cupy.empty(TILE_BYTES, dtype=np.uint8), cupy.cuda.Stream()

    def copies() -> None:
        for _ in range(16):
            there.set(host, stream=stream)
        stream.synchronize()

    return 16 * TILE_BYTES / median_time(copies, runs)


def arithmetic_time(cupy: Any, case: Case, n_frames: int, runs: int) -> float:
    """Seconds for the work on all frames, without moving or converting them."""
    if case.work is None:
        return 0.0
    depth = min(n_frames, max(1, TILE_BYTES // (4 * SIG[0] * SIG[1])))
    tile = cupy.ones((depth, *SIG), dtype=case.dtype)
    stream = cupy.cuda.Stream()
    work = case.work

    def repeat() -> None:
        with stream:
            for _ in range(-(-n_frames // depth)):
                work(cupy, tile)
            stream.synchronize()

    return median_time(repeat, runs)


def write_files(folder: Path, n_frames: int) -> tuple[Path, Path | None]:
    """Frames of counts as plain pixels, and as HDF5 with bitshuffle and LZ4 where h5py can."""
    rng = np.random.default_rng(5)
    some = rng.poisson(0.7, (min(n_frames, 256), *SIG)).astype(np.uint16)
    plain = folder / "frames.raw"
    with plain.open("wb") as file:
        for start in range(0, n_frames, len(some)):
            some[: n_frames - start].tofile(file)
    if not find_spec("hdf5plugin"):
        return plain, None
    import h5py
    import hdf5plugin

    compressed = folder / "frames.h5"
    with h5py.File(compressed, "w") as h5:
        shape, n_some = (n_frames, *SIG), len(some)
        data = h5.create_dataset(
            "frames", shape, some.dtype, chunks=(1, *SIG), **hdf5plugin.Bitshuffle()
        )
        data[:n_some] = some
        chunks = [data.id.read_direct_chunk((i, 0, 0)) for i in range(n_some)]
        for i in range(n_some, n_frames):
            mask, chunk = chunks[i % n_some]
            data.id.write_direct_chunk((i, 0, 0), chunk, mask)
    return plain, compressed


def check(found: Any, expected: Any, case: str) -> None:
    """Results on the device and those of the CPU are the same to rounding."""
    for name, buffer in expected.items():
        there = found[name].raw_data
        np.testing.assert_allclose(there, buffer.raw_data, rtol=1e-3, atol=1e-2, err_msg=case)


def on_cpu(plain: Path, case: Case, n_frames: int) -> Any:
    """What NumPy makes of the first frames."""
    frames = np.fromfile(plain, np.uint16, count=n_frames * SIG[0] * SIG[1])
    ctx, udf = ff.Context.make_with("inline"), case.udf()
    dataset = ctx.load("memory", data=frames.reshape((-1, *SIG)), sig_dims=2)
    if isinstance(udf, OnDevice):
        return ctx.run_udf(dataset, type(udf)(backends=(udf.BACKEND_NUMPY,)))
    return ctx.run_udf(dataset, udf, backends="numpy")


def measure(options: argparse.Namespace, folder: Path) -> Iterator[str]:
    """The table, line by line."""
    import cupy

    n_frames = max(2, int(options.gigabytes * GIGABYTE) // (2 * SIG[0] * SIG[1]))
    plain, compressed = write_files(folder, n_frames)
    n_bytes = n_frames * SIG[0] * SIG[1] * 2
    rng = np.random.default_rng(6)
    all_masks = rng.random((512, *SIG), dtype=np.float32)
    link = link_speed(cupy, options.runs)
    name = cupy.cuda.runtime.getDeviceProperties(0)["name"]
    yield (
        f"{name.decode()}, {available_cores()} cores; link {link / GIGABYTE:.1f} GB/s, "
        f"{n_frames} frames of {SIG}, uint16, "
        f"{n_bytes / GIGABYTE:.1f} GB"
    )
    yield "| case | goal | workers | time | GB/s | of the link | arithmetic alone | of the bound |"
    yield "|---|---|--:|--:|--:|--:|--:|--:|"
    nav = (n_frames,)
    for case in cases(lambda n: all_masks[:n]):
        if options.only and options.only not in case.name:
            continue
        if case.compressed and compressed is None:
            yield f"| {case.name} | {case.goal} | pip install hdf5plugin h5py |"
            continue
        arithmetic = arithmetic_time(cupy, case, n_frames, options.runs)
        bound = arithmetic if case.resident else max(arithmetic, n_bytes / link)
        first = np.arange(n_frames) < 64
        expected = on_cpu(plain, case, int(first.sum()))
        for crew in crews(case):
            ctx = ff.Context.make_with("threads", cpus=crew.cpus, gpus=crew.gpus)
            if case.compressed:
                dataset = ctx.load("hdf5", compressed, ds_path="frames")
            else:
                dataset = ctx.load("raw", plain, dtype="uint16", nav_shape=nav, sig_shape=SIG)
            if case.resident:
                dataset = dataset.to_device()
            on_device = partial(ctx.run_udf, backends=crew.backends)
            check(on_device(dataset, crew.udf(case), roi=first), expected, case.name)

            def run(
                on_device: Any = on_device,
                dataset: Any = dataset,
                case: Case = case,
                crew: Crew = crew,
            ) -> None:
                on_device(dataset, crew.udf(case))

            seconds = median_time(run, options.runs)
            speed = n_bytes / seconds
            share = f"{bound / seconds:.0%}" if bound else "-"
            yield (
                f"| {case.name} | {case.goal} | {crew.name} | {seconds * 1e3:.0f} ms "
                f"| {speed / GIGABYTE:.1f} | {speed / link:.0%} | {arithmetic * 1e3:.0f} ms "
                f"| {share} |"
            )
            if case.resident:
                dataset.close()


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description="Measures functions on a CUDA device.")
    parser.add_argument("--gigabytes", type=float, default=16.0, help="size of the file")
    parser.add_argument("--runs", type=int, default=5, help="how often each case runs")
    parser.add_argument("--only", default="", help="cases whose name has this in it")
    options = parser.parse_args()
    if not cuda_ids():
        print(f"no CUDA device: {why_no_device()}")
        return
    if not has_cupy():
        print("CuPy cannot be imported; install the package for your version of CUDA")
        return
    with tempfile.TemporaryDirectory(prefix="framefold-bench-") as folder:
        for line in measure(options, Path(folder)):
            print(line, flush=True)
    if options.only in side_band.NAME:
        print()
        with tempfile.TemporaryDirectory(prefix="framefold-bench-") as folder:
            for line in side_band.measure(Path(folder), options.runs):
                print(line, flush=True)


if __name__ == "__main__":
    main()
