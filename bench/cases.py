"""The cases: which work is done on which data, by which engines."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

#: Threads, and the calling thread alone, for what runs in Python.
PYTHON_ENGINES = (
    "framefold",
    "framefold-inline",
    "libertem-inline",
    "libertem-threads",
    "libertem-dask",
    "numpy",
    "dask",
)
#: dask.array does not read sparse files.
_SPARSE_ENGINES = tuple(name for name in PYTHON_ENGINES if name not in ("framefold-inline", "dask"))
#: Nor does it read detectors' formats.
_FORMAT_ENGINES = tuple(name for name in PYTHON_ENGINES if name not in ("dask", "libertem-dask"))
#: Compiled by framefold, by Numba within a function of LiberTEM's, and NumPy frame by frame.
_LOOP_ENGINES = tuple(name for name in PYTHON_ENGINES if name not in ("dask", "libertem-dask"))
NATIVE_ENGINES = tuple(name for name in PYTHON_ENGINES if name != "framefold-inline")


@dataclass(frozen=True)
class Case:
    """One piece of work; ``data`` names a data set, ``task`` what the engines know it by."""

    name: str
    title: str
    data: str
    task: str
    params: dict[str, Any] = field(default_factory=dict)
    engines: tuple[str, ...] = NATIVE_ENGINES
    #: Largest relative difference from NumPy's answer; single precision adds up many pixels.
    rtol: float = 1e-5
    #: Whose time the ratios and targets are about.
    ours: str = "framefold"
    quick: bool = False
    #: Frames that take part, of all frames.
    fraction: float = 1.0
    #: For the plots: which axis this is a point of, and where.
    sweep: tuple[str, float] | None = None


def _native(
    data: str, title: str, tasks: tuple[str, ...], quick: tuple[str, ...] = ()
) -> list[Case]:
    cases = []
    for name in tasks:
        words, task, params, rtol = _TASKS[name]
        cases.append(
            Case(
                f"{name}-{data}",
                f"{words}, {title}",
                data,
                task,
                params,
                # Some engines add up float32 in single precision: 8192 pixels here.
                rtol=max(rtol, 1e-4) if data in ("f32", "empad") else rtol,
                quick=name in quick,
            )
        )
    return cases


_TASKS: dict[str, tuple[str, str, dict[str, Any], float]] = {
    "sum": ("sum", "sum", {}, 1e-5),
    "sumsig": ("sum of each frame", "sumsig", {}, 1e-5),
    "max": ("maximum", "max", {}, 0.0),
    "stddev": ("standard deviation", "stddev", {}, 1e-3),
    "com": ("centre of mass", "com", {}, 2e-5),
    "logsum": ("sum of logarithms", "logsum", {}, 1e-4),
    "mask1": ("1 mask", "masks", {"n": 1}, 1e-4),
    "mask8": ("8 masks", "masks", {"n": 8}, 1e-4),
    "mask64": ("64 masks", "masks", {"n": 64}, 1e-4),
    "disks100": ("100 sparse masks", "disks", {"n": 100}, 1e-5),
}

_MAIN = ("sum", "sumsig", "max", "stddev", "com", "logsum", "mask1", "mask8", "mask64", "disks100")
_SOME = ("sum", "sumsig", "stddev", "com", "mask8")

CASES = [
    *_native("u16", "uint16", _MAIN, quick=("sum", "stddev", "com", "mask8")),
    Case("fresh-u16", "sum, file opened anew", "u16", "sum", {"fresh": True}),
    Case(
        "roi-u16",
        "sum, ROI of 1 %",
        "u16",
        "sum",
        {"roi": 0.01},
        PYTHON_ENGINES,
        fraction=0.01,
        quick=True,
    ),
    Case("tile-sum", "Python per tile: np.sum", "u16", "tile-sum", {}, PYTHON_ENGINES, quick=True),
    Case(
        "partition-sum",
        "Python per partition: np.sum",
        "u16",
        "partition-sum",
        {},
        PYTHON_ENGINES,
    ),
    *_native("u16-64", "uint16, 64²", ("sum", "sumsig", "max", "stddev", "com", "mask1", "mask8")),
    Case(
        "frame-noop",
        "Python per frame: nothing",
        "u16-64",
        "frame-noop",
        {},
        # A loop over an array that does nothing is no engine.
        tuple(name for name in PYTHON_ENGINES if name not in ("numpy", "dask")),
        ours="framefold-inline",
        quick=True,
    ),
    Case("frame-sum", "Python per frame: np.sum", "u16-64", "frame-sum", {}, PYTHON_ENGINES),
    *(
        Case(f"frame-{task}", f"loop per frame: {words}", data, f"frame-{task}", {}, _LOOP_ENGINES)
        for task, words, data in (
            ("brightest", "brightest pixel", "u16"),
            ("add", "sum of frames", "u16"),
            ("largest", "frame.max(), 1 M frames of 16²", "tiny"),
        )
    ),
    *(
        Case(task, words, "u16", task, {}, NATIVE_ENGINES)
        for task, words in (
            ("cropped-sum", "half of the rows and columns, sum"),
            ("binned-max", "bins of 2 × 2, maximum"),
            ("counted-sum", "electrons counted into sparse frames, sum"),
        )
    ),
    Case(
        "shifted-8-masks",
        "8 masks, shifted for each frame",
        "u16",
        "shifted-masks",
        {"n": 8},
        tuple(name for name in NATIVE_ENGINES if name != "dask"),
        rtol=1e-4,
    ),
    Case(
        "shifted-8-masks-fractions",
        "8 masks, shifted by fractions",
        "u16",
        "shifted-masks",
        {"n": 8, "fractions": True},
        # LiberTEM moves masks by whole pixels only.
        ("framefold", "numpy"),
        rtol=1e-4,
    ),
    Case(
        "results-to-zarr",
        "results of the size of the data, to Zarr",
        "u8",
        "to-zarr",
        {},
        ("framefold",),
        rtol=0.0,
    ),
    *_native("f32", "float32", _SOME),
    *_native("u8", "uint8", _SOME),
    *_native("u32", "uint32", _SOME),
    *_native("tiny", "1 M frames of 16²", ("sum", "sumsig", "com", "mask1")),
    *_native("4k", "frames of 4096²", ("sum", "mask1")),
    *(
        replace(case, engines=_FORMAT_ENGINES)
        for data, title in (
            ("mib-1", "MIB raw, 1 bit"),
            ("mib-6", "MIB raw, 6 bits"),
            ("mib-12", "MIB raw, 12 bits"),
            ("k2is", "K2IS, 12 bits"),
            ("dm", "DM4"),
            ("dm-transposed", "DM4, transposed"),
            ("mrc", "MRC"),
            ("seq", "SEQ"),
            ("blo", "BLO"),
            ("empad", "EMPAD"),
            ("hdf5", "HDF5, contiguous"),
            ("hdf5-gzip", "HDF5, gzip"),
            ("hdf5-bslz4", "HDF5, bitshuffle and LZ4"),
            ("zarr", "Zarr, Zstandard"),
        )
        for case in _native(data, title, ("sum", "mask1"))
    ),
    *(
        # Like with like: decoding on one thread.
        Case(
            f"inline-{data}",
            f"sum, {title}, one thread",
            data,
            "sum",
            {},
            ("framefold-inline", "libertem-inline", "numpy"),
            ours="framefold-inline",
        )
        for data, title in (
            ("mib-1", "MIB raw, 1 bit"),
            ("mib-6", "MIB raw, 6 bits"),
            ("mib-12", "MIB raw, 12 bits"),
            ("k2is", "K2IS, 12 bits"),
        )
    ),
    *(
        replace(case, engines=engines)
        for data, title, engines in (
            ("raw_csr-1", "1 % hit", _SPARSE_ENGINES),
            ("raw_csr-0.1", "0.1 % hit", _SPARSE_ENGINES),
            ("raw_csr-0.01", "0.01 % hit", _SPARSE_ENGINES),
            ("raw_csr-dense", "1 % hit, dense", ("framefold",)),
        )
        for case in _native(data, title, ("sum", "com", "mask8"), quick=("com",))
    ),
]

#: Points of the plots; the data are parts of the largest data set.
_SWEEP_ENGINES = ("framefold", "libertem-threads", "numpy", "dask")


def sweeps(cores: int) -> list[Case]:
    """The cases behind the plots."""
    sizes = [
        Case(
            f"size-{mib}",
            f"sum of {mib} MiB",
            "u16",
            "sum",
            {"nav": (mib // 16, 128)},
            _SWEEP_ENGINES,
            sweep=("size", mib),
        )
        for mib in (16, 64, 256, 1024, 2048)
    ]
    tiles = [
        Case(
            f"tile-{kib}",
            f"Python per tile of {kib} KiB",
            "u16-64",
            "tile-sum",
            {"tile_bytes": kib << 10},
            ("framefold", "libertem-threads"),
            sweep=("tile", kib),
        )
        for kib in (16, 64, 256, 1024, 4096)
    ]
    counts = sorted({1, 2, cores, 2 * cores, *(2**n for n in range(1, cores.bit_length()))})
    threads = [
        Case(
            f"threads-{n}",
            f"centre of mass on {n} thread{'s' if n > 1 else ''}",
            "u16",
            "com",
            {"cpus": n},
            ("framefold", "libertem-threads"),
            rtol=2e-5,
            sweep=("threads", n),
        )
        for n in counts
    ]
    return [*sizes, *tiles, *threads]
