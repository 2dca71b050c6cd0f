"""What framefold promises of its speed, case by case: ratios within one run on one machine.

A value is the least ratio, or with ``max_`` the largest number, that passes.

- ``of_limit``: throughput, of the streaming limit on a warm mapping.
- ``of_peak``: throughput, of what NumPy's own loop or product reaches on all cores; of formats, of
  a copy on one core, or of the compressor's library on all cores; of results in files, of a copy of
  the data set.
- ``times_libertem``: speed, of LiberTEM with the best of its executors.
- ``times_arrays``: speed, of the better one of NumPy and dask.array.
- ``max_us_per_frame``, ``max_seconds``, ``max_anon_mb``: numbers in these units.
- ``max_mapped``: bytes of the file that became resident, of what was selected, or of what NumPy
  makes resident for it: systems map more than the page that was touched.
"""

from __future__ import annotations

#: What holds for every case that has no target of its own.
EVERY_CASE = {"times_arrays": 1.0}

#: Peak of anonymous memory of the process, for native reductions of the largest data set.
MAX_ANON_MB = 200.0

_STREAMED = {"of_limit": 0.8, "times_libertem": 4.0}

#: Decoding on one thread; the peak is a copy of the decoded bytes.
_DECODED = {"of_peak": 0.5, "times_libertem": 5.0}
#: Chunks; the peak is the compressor's own library on all cores.
_CHUNKS = {"of_peak": 0.9, "times_libertem": 3.0}
#: As raw files.
_CONTIGUOUS = {"of_limit": 0.7}

TARGETS: dict[str, dict[str, float]] = {
    **{f"{task}-u16": _STREAMED for task in ("sum", "sumsig", "max", "mask1", "com", "stddev")},
    "mask8-u16": {"of_limit": 0.5, "times_libertem": 4.0, "times_arrays": 2.0},
    "shifted-8-masks": {"of_limit": 0.25, "times_libertem": 4.0},
    "shifted-8-masks-fractions": {"of_limit": 0.25},
    "results-to-zarr": {"of_peak": 0.8},
    **{
        f"{task}-raw_csr-{percent}": {"times_libertem": 5.0}
        for task in ("sum", "com", "mask8")
        for percent in ("1", "0.1", "0.01")
    },
    **{f"inline-{data}": _DECODED for data in ("mib-1", "mib-6", "mib-12", "k2is")},
    **{f"sum-{data}": _CHUNKS for data in ("hdf5-gzip", "hdf5-bslz4")},
    **{f"sum-{data}": _CONTIGUOUS for data in ("dm", "mrc", "seq", "blo", "hdf5")},
    "mask64-u16": {"of_peak": 0.6, "times_libertem": 2.0},
    "frame-noop": {"max_us_per_frame": 2.0, "times_libertem": 10.0},
    "frame-brightest": {"max_us_per_frame": 5.0, "times_arrays": 4.0},
    "frame-largest": {"max_us_per_frame": 0.1},
    "tile-sum": {"of_peak": 0.9, "times_libertem": 2.0},
    "sum-4k": {"of_limit": 0.7, "times_libertem": 4.0},
    "roi-u16": {"times_libertem": 4.0, "max_mapped": 1.25},
    "startup-import": {"max_seconds": 0.05, "times_libertem": 20.0},
    "startup-context": {"max_seconds": 0.005, "times_libertem": 20.0},
    "startup-first": {"max_seconds": 0.3, "times_libertem": 20.0},
}


def targets_of(case: str, data: str) -> dict[str, float]:
    """All targets of a case."""
    targets = EVERY_CASE | TARGETS.get(case, {})
    native = not case.startswith(("frame-", "tile-", "partition-", "startup-"))
    if data == "u16" and native:
        targets = targets | {"max_anon_mb": MAX_ANON_MB}
    return targets
