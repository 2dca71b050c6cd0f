"""Runs that are the same, bit for bit, on every executor, and how that is looked at."""

from __future__ import annotations

import numpy as np
from sample_udfs import Level

import framefold as ff
from framefold.udf import UDF
from framefold.utils.write_mib import write_mib

NAV, SIG = (6, 7), (10, 12)


def scan(dtype):
    rng = np.random.default_rng(23)
    data = rng.integers(0, 200, size=(*NAV, *SIG))
    return (data * 1.37).astype(dtype) if np.dtype(dtype).kind in "fc" else data.astype(dtype)


class Everything(UDF):
    """All kinds of buffers, a dtype of objects, task data, and sums that depend on the order."""

    def get_result_buffers(self):
        return {
            "total": self.buffer(kind="sig", dtype="float32"),
            "place": self.buffer(kind="nav", extra_shape=(2,), dtype="int64"),
            "names": self.buffer(kind="nav", dtype=object),
            "flag": self.buffer(kind="nav", dtype=bool),
            "mean": self.buffer(kind="single", dtype="complex128"),
            "hidden": self.buffer(kind="single", dtype="float16", use="private"),
            "ratio": self.buffer(kind="sig", dtype="float64", use="result_only"),
        }

    def get_task_data(self):
        return {"weights": np.linspace(0.1, 1, int(np.prod(self.meta.dataset_shape.sig)))}

    def process_frame(self, frame):
        weights = self.task_data.weights.reshape(frame.shape)
        self.results.total[:] += frame * weights
        self.results.place[:] = self.meta.coordinates[0, :2]
        self.results.names[:] = f"frame {self.meta.slice.origin[0]}"
        self.results.flag[:] = frame.flat[0] > 100
        self.results.mean[:] += (frame * weights).mean() * 1j
        self.results.hidden[:] += 0.1

    def merge(self, dest, src):
        for name in ("total", "mean", "hidden"):
            getattr(dest, name)[:] += getattr(src, name)
        for name in ("place", "names", "flag"):
            getattr(dest, name)[:] = getattr(src, name)

    def get_results(self):
        return {"ratio": self.results.total / np.maximum(self.results.hidden, 1)}


UDFS = {
    "native": lambda: [ff.SumUDF(), ff.StdDevUDF()],
    "python": lambda: [Everything(), Level(offset=3)],
    "mixed": lambda: [ff.SumSigUDF(), Everything(), ff.StdDevUDF(), ff.MaxUDF()],
}
ROIS = {
    "all": None,
    "few": np.arange(42).reshape(NAV) % 5 == 2,
    "one": np.arange(42).reshape(NAV) == 17,
}


def load(kind, dtype, context, folder):
    data = scan(dtype)
    if kind == "memory":
        return context.load("memory", data=data, sig_dims=2, num_partitions=5)
    if kind == "raw":
        data.tofile(folder / "scan.raw")
        return context.load(
            "raw", folder / "scan.raw", dtype=dtype, nav_shape=NAV, sig_shape=SIG, num_partitions=5
        )
    if kind == "mib":
        write_mib(folder / "scan.mib", data)
        return context.load("mib", folder / "scan.mib", nav_shape=NAV, num_partitions=5)
    source = context.load("memory", data=data * (data > 50), sig_dims=2)
    context.convert(source, folder / "scan.toml")
    return context.load("raw_csr", folder / "scan.toml", num_partitions=5)


def assert_same(one, other):
    assert type(one) is type(other)
    for a, b in zip(one, other, strict=True):
        assert a.keys() == b.keys()
        for name in a:
            for show in ("data", "raw_data", "valid_mask"):
                left, right = getattr(a[name], show), getattr(b[name], show)
                assert left.dtype == right.dtype
                assert left.shape == right.shape
                if left.dtype == object:
                    assert left.tolist() == right.tolist()
                else:
                    assert left.tobytes() == right.tobytes(), (name, show)
