"""Measures functions on a CUDA device, and which share of what bounds them they reach.

Two bounds, measured first: the *link*, as pinned memory is copied to the device; and the
*arithmetic*, as the function's own work on tiles that are on the device already. A run cannot be
faster than the slower of the two, and with perfect overlap is as fast as that.

Cases: products with 64 masks, by tile; a Fourier transform of each frame, many at a time. Results
are compared with NumPy's before any time is taken. The table shows medians::

    python bench/on_cuda.py                # about a minute
    python bench/on_cuda.py --frames 4096  # less data

Without a device, or without CuPy, it says so and ends.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt

import framefold as ff
from framefold.utils.devices import cuda_ids, has_cupy, why_no_device

Array = npt.NDArray[Any]
SIG = (128, 128)
N_MASKS = 64
TILE_BYTES = 16 << 20


class Masks(ff.UDF):
    """Products with masks."""

    def get_backends(self) -> tuple[str, ...]:
        return (self.BACKEND_CUPY,)

    def get_task_data(self) -> dict[str, Any]:
        return {"masks": self.xp.asarray(self.params.masks)}

    def get_result_buffers(self) -> dict[str, Any]:
        return {"result": self.buffer("nav", (N_MASKS,), where="device")}

    def process_tile(self, tile: Any) -> None:
        assert tuple(tile.shape[1:]) == SIG
        self.results.result[:] = self.work(self.xp, tile, self.task_data.masks)

    @staticmethod
    def work(xp: Any, tile: Any, masks: Any) -> Any:
        return tile.reshape((len(tile), -1)) @ masks


class Spectrum(Masks):
    """The power of the frame's spectrum at 64 frequencies."""

    @staticmethod
    def work(xp: Any, tile: Any, masks: Any) -> Any:
        spectra = xp.fft.fft2(tile)
        return (xp.abs(spectra[:, 0, :N_MASKS]) ** 2).astype(np.float32)


CASES = {"mask x64": Masks, "fft": Spectrum}


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


def arithmetic_time(cupy: Any, udf: type[Masks], masks: Array, n_frames: int, runs: int) -> float:
    """Seconds for the work on all frames, without moving them."""
    depth = TILE_BYTES // (4 * SIG[0] * SIG[1])
    tile, there = cupy.ones((depth, *SIG), dtype=np.float32), cupy.asarray(masks)

    def work() -> None:
        for _ in range(-(-n_frames // depth)):
            udf.work(cupy, tile, there)
        cupy.cuda.Device().synchronize()

    return median_time(work, runs)


def main() -> None:
    """Measure, and print the table."""
    parser = argparse.ArgumentParser(description="Measures functions on a CUDA device.")
    parser.add_argument("--frames", type=int, default=32768, help="frames of 128 x 128 float32")
    parser.add_argument("--runs", type=int, default=5, help="how often each case runs")
    options = parser.parse_args()
    if not cuda_ids():
        print(f"no CUDA device: {why_no_device()}")
        return
    if not has_cupy():
        print("CuPy cannot be imported; install the package for your version of CUDA")
        return
    import cupy

    name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
    rng = np.random.default_rng(5)
    data = rng.random((options.frames, *SIG), dtype=np.float32)
    masks = rng.random((SIG[0] * SIG[1], N_MASKS), dtype=np.float32)
    link = link_speed(cupy, options.runs)
    print(
        f"{name}; link {link / 1e9:.1f} GB/s; {options.frames} frames, {data.nbytes / 1e9:.1f} GB"
    )
    print("| case | threads | time | GB/s | link alone | arithmetic alone | share of the bound |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for case, udf in CASES.items():
        arithmetic = arithmetic_time(cupy, udf, masks, options.frames, options.runs)
        bound = max(arithmetic, data.nbytes / link)
        for n_threads in (1, 2, 4):
            ctx = ff.Context.make_with("threads", cpus=0, gpus=[0] * n_threads)
            dataset = ctx.load("memory", data=data, sig_dims=2)
            result = ctx.run_udf(dataset=dataset, udf=udf(masks=masks))["result"].data
            check = slice(0, None, max(1, options.frames // 64))
            expected = udf.work(np, data[check].astype(np.float64), masks)
            np.testing.assert_allclose(result[check], expected, rtol=1e-3)

            def run(ctx: Any = ctx, dataset: Any = dataset, udf: type[Masks] = udf) -> None:
                ctx.run_udf(dataset=dataset, udf=udf(masks=masks))

            seconds = median_time(run, options.runs)
            speed = data.nbytes / seconds / 1e9
            print(
                f"| {case} | {n_threads} | {seconds * 1e3:.0f} ms | {speed:.1f} "
                f"| {data.nbytes / link * 1e3:.0f} ms | {arithmetic * 1e3:.0f} ms "
                f"| {bound / seconds:.0%} |"
            )


if __name__ == "__main__":
    main()
