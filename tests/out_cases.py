"""What tests of results in files share: functions, data sets, and how results are compared."""

from __future__ import annotations

import os
import warnings

import numpy as np

import framefold as ff
from framefold.udf import UDF
from framefold.warnings import DataSetWarning

NAV, SIG = (9, 14), (10, 12)


class Wave(UDF):
    """Rows of any dtype, of the shape of a frame."""

    def __init__(self, dtype="float32", factor=1):
        super().__init__(dtype=dtype, factor=factor)

    def get_result_buffers(self):
        dtype = self.params.dtype
        return {
            "wave": self.buffer(
                kind="nav", extra_shape=tuple(self.meta.dataset_shape.sig), dtype=dtype
            ),
            "spot": self.buffer(kind="nav", dtype="int32", unit="px"),
        }

    def process_frame(self, frame):
        self.results.wave[:] = frame * self.params.factor
        self.results.spot[:] = frame.argmax()


class Breaks(UDF):
    """Square roots of frames; fails at a position as long as there is a file that says so."""

    def __init__(self, folder, factor=1):
        super().__init__(folder=str(folder), factor=factor)

    def get_result_buffers(self):
        sig = tuple(self.meta.dataset_shape.sig)
        return {
            "x": self.buffer(kind="nav", extra_shape=sig, dtype="float32"),
            "n": self.buffer(kind="nav", dtype="int16"),
        }

    def process_frame(self, frame):
        at = int(self.meta.slice.origin[0])
        folder = self.params.folder
        with open(f"{folder}/seen", "a") as seen:
            seen.write(f"{at}\n")
        if at == 60 and os.path.exists(f"{folder}/break"):
            raise ZeroDivisionError("in the middle")
        self.results.x[:] = np.sqrt(frame) * self.params.factor
        self.results.n[:] = at


class Mixed(UDF):
    """A buffer of kind ``sig`` beside one of kind ``nav``."""

    def get_result_buffers(self):
        return {"total": self.buffer(kind="sig"), "place": self.buffer(kind="nav")}

    def process_frame(self, frame):
        self.results.total[:] += frame
        self.results.place[:] = frame.flat[0]

    def merge(self, dest, src):
        dest.total[:] += src.total
        dest.place[:] = src.place


class Finished(UDF):
    """Rows that ``get_results`` changes."""

    def get_result_buffers(self):
        return {"x": self.buffer(kind="nav")}

    def process_frame(self, frame):
        self.results.x[:] = frame.sum()

    def get_results(self):
        return {"x": self.results.x / 2}


def frames(dtype="uint16", nav=NAV):
    rng = np.random.default_rng(5)
    return (rng.random((*nav, *SIG)) * 200).astype(dtype)


def in_memory(context, dtype="uint16", **kwargs):
    return context.load("memory", data=frames(dtype), sig_dims=2, num_partitions=8, **kwargs)


def in_file(context, folder, dtype="uint16", missing=0, num_partitions=8):
    """A data set in a file that may lack the last frames."""
    path = folder / "scan.raw"
    if not path.exists():
        flat = frames(dtype).reshape(-1, *SIG)
        flat[: len(flat) - missing].tofile(path)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DataSetWarning)
        return context.load(
            "raw", path, dtype=dtype, nav_shape=NAV, sig_shape=SIG, num_partitions=num_partitions
        )


def as_tuple(results):
    return (results,) if isinstance(results, dict) else tuple(results)


def assert_same(found, expected):
    for one, other in zip(as_tuple(found), as_tuple(expected), strict=True):
        assert list(one) == list(other)
        for name in one:
            for show in ("data", "valid_mask"):
                left, right = getattr(one[name], show), getattr(other[name], show)
                assert (left.dtype, left.shape) == (right.dtype, right.shape), (name, show)
                assert left.tobytes() == right.tobytes(), (name, show)
            valid = ~np.ma.getmaskarray(one[name].raw_masked_data)
            left, right = one[name].raw_data[valid], other[name].raw_data[valid]
            assert left.tobytes() == right.tobytes(), name
            assert (one[name].kind, one[name].unit) == (other[name].kind, other[name].unit)
            assert one[name].axes == other[name].axes


def left_in(folder):
    return sorted(os.listdir(folder))


def contexts():
    return {
        "inline": lambda: ff.Context("inline"),
        "threads": lambda: ff.Context.make_with("threads", cpus=3),
        "processes": lambda: ff.Context.make_with("processes", cpus=2),
        "auto": lambda: ff.Context.make_with("auto", cpus=2),
    }
