"""Single side band ptychography with ptychography40, on a CUDA device and on all cores of the CPU.

The package is used as it is published. Its masks, one for each spatial frequency that the scan
resolves, are made once beforehand, as it takes seconds. On the CPU it computes in two ways: with
NumPy and SciPy, in processes, because SciPy keeps the interpreter's lock; or with threads of its
own. Both are measured, and the faster one counts.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import framefold as ff
from framefold.executor.inline import InlineJobExecutor
from framefold.executor.pipelined import PipelinedExecutor
from framefold.run.plan import available_cores

NAME = "single side band"
GOAL = 5
INSTALL = "pip install numba scipy sparse; pip install --no-deps ptychography40"
#: Rows and columns of the scan, and of the detector.
SCAN = 96
DETECTOR = 128
#: Of the results: a part of the largest one that is not the mean.
PRECISION = 1e-4


def microscope(detector: int) -> dict[str, Any]:
    """A beam of 25 mrad at 80 kV, whose disk has about half the width of the detector."""
    return {
        "lamb": 4.1757e-12,
        "dpix": 0.4e-10,
        "semiconv": 25e-3,
        "semiconv_pix": 0.235 * detector,
        "cy": detector / 2,
        "cx": detector / 2,
        "cutoff": 16,
    }


def write_frames(path: Path, scan: int, detector: int) -> None:
    """Counts within the disk of the beam: a different one of 256 patterns for each frame."""
    rng = np.random.default_rng(7)
    y, x = np.mgrid[:detector, :detector] - detector / 2
    inside = np.hypot(y, x) < microscope(detector)["semiconv_pix"]
    patterns = rng.poisson(8.0 * inside, (256, detector, detector)).astype(np.uint16)
    with path.open("wb") as file:
        for row in rng.integers(0, len(patterns), (scan, scan)):
            patterns[row].tofile(file)


def time_of(ctx: ff.Context, dataset: Any, udf: Any, runs: int, **options: Any) -> float:
    """The median of seconds of some runs."""
    times = []
    for _ in range(runs):
        start = time.perf_counter()
        ctx.run_udf(dataset=dataset, udf=udf, **options)
        times.append(time.perf_counter() - start)
    return statistics.median(times)


def check(found: Any, expected: Any) -> None:
    """All frequencies are the same to rounding."""
    there, here = (np.array(result["fourier"].data) for result in (found, expected))
    np.testing.assert_allclose(there[0, 0], here[0, 0], rtol=PRECISION, err_msg=NAME)
    there[0, 0] = here[0, 0] = 0
    largest = np.abs(here).max()
    np.testing.assert_allclose(there, here, atol=PRECISION * largest, rtol=0, err_msg=NAME)


def measure(folder: Path, runs: int, scan: int = SCAN, detector: int = DETECTOR) -> Iterator[str]:
    """A table of one row, line by line."""
    yield "| case | goal | device | CPU | ratio |"
    yield "|---|---|--:|--:|--:|"
    case = f"{NAME}, {scan}² frames of {detector}²"
    goal = f"{GOAL} x all cores"
    ff.install_as_libertem()
    try:
        import sparse
        from ptychography40.reconstruction.ssb import SSB_UDF, generate_masks
    except ImportError as error:
        yield f"| {case} | {goal} | {error}: {INSTALL} |"
        return
    from framefold.common.container import MaskContainer

    plain, stored = folder / "side-band.raw", folder / "side-band-masks.npz"
    write_frames(plain, scan, detector)
    parameters = microscope(detector)
    masks = generate_masks(
        reconstruct_shape=(scan, scan),
        mask_shape=(detector, detector),
        dtype=np.float32,
        **parameters,
    )
    sparse.save_npz(stored, masks, compressed=False)
    # From a file, so that other processes need not be sent them.
    container = MaskContainer(
        mask_factories=partial(sparse.load_npz, stored),
        dtype=masks.dtype,
        use_sparse="scipy.sparse.csr",
        count=len(masks),
    )
    udf = SSB_UDF(**parameters, mask_container=container)
    cores = available_cores()
    on_cpu = {
        "processes": PipelinedExecutor(
            PipelinedExecutor.make_spec(cpus=cores), early_setup=ff.install_as_libertem
        ),
        "own threads": InlineJobExecutor(inline_threads=cores, gpus=0),
    }

    def opened(ctx: ff.Context) -> Any:
        nav, sig = (scan, scan), (detector, detector)
        return ctx.load("raw", plain, dtype="uint16", nav_shape=nav, sig_shape=sig)

    times, expected = {}, None
    for name, executor in on_cpu.items():
        with ff.Context(executor) as ctx:
            dataset = opened(ctx)
            found = ctx.run_udf(dataset=dataset, udf=udf, backends="numpy")
            if expected is not None:
                check(found, expected)
            expected = found
            times[name] = time_of(ctx, dataset, udf, 1, backends="numpy")
    with ff.Context.make_with("threads", cpus=0, gpus=[0]) as ctx:
        dataset = opened(ctx)
        check(ctx.run_udf(dataset=dataset, udf=udf, backends="cupy"), expected)
        on_device = time_of(ctx, dataset, udf, runs, backends="cupy")
    best = min(times.values())
    ways = ", ".join(f"{name} {seconds * 1e3:.0f} ms" for name, seconds in times.items())
    yield f"| {case} | {goal} | {on_device * 1e3:.0f} ms | {ways} | {best / on_device:.1f} x |"
