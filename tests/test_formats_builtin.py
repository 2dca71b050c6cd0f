"""Built-in functions on every array format that they take, against NumPy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sparse_files import counts, write_raw_csr
from uncompiled import sparse

import framefold as ff
from framefold.udf import UDF
from framefold.udf.base import NoOpUDF
from framefold.udf.crystallinity import CrystallinityUDF
from framefold.udf.FEM import FEMUDF
from framefold.udf.record import RecordUDF

NAV, SIG = (4, 5), (8, 9)
DTYPES = ("uint16", "float32")
#: Masks with signs, zeros, and a row and column of nothing.
MASKS = np.random.default_rng(5).integers(-2, 3, (3, *SIG)).astype(np.float64)
MASKS[:, 2] = MASKS[:, :, 4] = 0
SHIFT = (2, -1)


def sparse_masks() -> Any:
    return sparse.COO.from_numpy(MASKS)


def mask_stack() -> Any:
    return MASKS


# --- What NumPy says ------------------------------------------------------------------------


def wide(frames):
    return frames.astype(np.float64)


def shifted(frames):
    padded = np.pad(wide(frames), [(0, 0), (4, 4), (4, 4)])
    y, x = (4 + shift for shift in SHIFT)
    moved = padded[:, y : y + SIG[0], x : x + SIG[1]]
    return np.tensordot(moved, MASKS, ((1, 2), (1, 2)))


def centres(frames):
    y, x = np.indices(SIG)
    inside = np.hypot(y - 3, x - 4) <= 3.5
    weights = wide(frames) * inside
    total = weights.sum(axis=(1, 2))
    with np.errstate(invalid="ignore"):
        moments = np.stack([(weights * y).sum(axis=(1, 2)), (weights * x).sum(axis=(1, 2))], -1)
        centre = moments / total[:, np.newaxis]
    return np.where(total[:, np.newaxis] == 0, (3, 4), centre)


def logs(frames):
    lowest = frames.min(axis=(1, 2), keepdims=True)
    return np.log(wide(frames) - lowest + 1).sum(axis=0)


def ring_deviation(frames):
    y, x = np.indices(SIG)
    distance = np.hypot(y - 3, x - 4)
    return wide(frames)[:, (distance > 1) & (distance <= 3)].std(axis=1)


def crystallinity(frames):
    spectrum = np.abs(np.fft.rfft2(wide(frames)))
    y, x = np.fft.fftfreq(SIG[0], 1 / SIG[0]), np.fft.rfftfreq(SIG[1], 1 / SIG[1])
    distance = np.hypot(y[:, np.newaxis], x)
    return spectrum[:, (distance > 1) & (distance <= 3)].sum(axis=1)


@dataclass(frozen=True)
class Builtin:
    """How a function is made, and the results that it must have."""

    make: Callable[..., UDF]
    expected: dict[str, Callable[[Any], Any]]
    #: The formats of the CPU that it takes; all recommended ones if None.
    formats: tuple[str, ...] | None = ("numpy",)


ANY_AXES = ("numpy", "sparse.COO", "sparse.GCXS")
MATRICES = (
    "scipy.sparse.csr_matrix",
    "scipy.sparse.csc_matrix",
    "scipy.sparse.coo_matrix",
    *ANY_AXES,
)
PRODUCTS = {"intensity": lambda f: np.tensordot(wide(f), MASKS, ((1, 2), (1, 2)))}

BUILTIN = {
    "sum": Builtin(ff.SumUDF, {"intensity": lambda f: wide(f).sum(axis=0)}, None),
    "sumsig": Builtin(ff.SumSigUDF, {"intensity": lambda f: wide(f).sum(axis=(1, 2))}, None),
    "max": Builtin(ff.MaxUDF, {"intensity": lambda f: f.max(axis=0)}),
    "stddev": Builtin(
        ff.StdDevUDF,
        {
            "std": lambda f: wide(f).std(axis=0),
            "var": lambda f: wide(f).var(axis=0),
            "mean": lambda f: wide(f).mean(axis=0),
            "sum": lambda f: wide(f).sum(axis=0),
            "num_frames": lambda f: [len(f)],
        },
    ),
    "logsum": Builtin(ff.LogsumUDF, {"logsum": logs}, ANY_AXES),
    "com": Builtin(partial(ff.CoMUDF.with_params, cy=3, cx=4, r=3.5), {"raw_com": centres}, None),
    "masks": Builtin(partial(ff.ApplyMasksUDF, mask_stack), PRODUCTS, MATRICES),
    "masks csc": Builtin(
        partial(ff.ApplyMasksUDF, mask_stack, use_sparse="scipy.sparse.csc"), PRODUCTS, MATRICES
    ),
    "masks sparse": Builtin(partial(ff.ApplyMasksUDF, sparse_masks), PRODUCTS, MATRICES),
    "masks pydata": Builtin(
        partial(ff.ApplyMasksUDF, mask_stack, use_sparse="sparse.pydata"), PRODUCTS, MATRICES
    ),
    "masks on arrays": Builtin(
        partial(ff.ApplyMasksUDF, mask_stack, backends=sorted(UDF.CPU_BACKENDS - {"sparse.DOK"})),
        PRODUCTS,
        tuple(sorted(UDF.CPU_BACKENDS - {"sparse.DOK"})),
    ),
    "masks shifted": Builtin(
        partial(ff.ApplyMasksUDF, mask_stack, shifts=SHIFT),
        {"intensity": shifted},
        tuple(f for f in MATRICES if f != "scipy.sparse.coo_matrix"),
    ),
    "sparse masks shifted": Builtin(
        partial(ff.ApplyMasksUDF, sparse_masks, shifts=SHIFT),
        {"intensity": shifted},
        tuple(f for f in MATRICES if f != "scipy.sparse.coo_matrix"),
    ),
    "pick": Builtin(ff.PickUDF, {"intensity": lambda f: f}),
    "auto": Builtin(
        partial(ff.AutoUDF, partial(np.sum, axis=-1)), {"result": lambda f: wide(f).sum(axis=-1)}
    ),
    "no-op": Builtin(NoOpUDF, {}),
    "FEM": Builtin(
        partial(FEMUDF, center=(3, 4), rad_in=1, rad_out=3), {"intensity": ring_deviation}
    ),
    "crystallinity": Builtin(
        partial(CrystallinityUDF, rad_in=1, rad_out=3), {"intensity": crystallinity}
    ),
}


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    """Data, and a raw_csr file of them, for each dtype."""
    made = {}
    for dtype in DTYPES:
        data = counts((*NAV, *SIG), dtype)
        if dtype == "float32":
            data[2, 2, 1] = -3  # not all counts are positive, and not all pixels are ever zero
            data[3, 3] += 1
        path = write_raw_csr(tmp_path_factory.mktemp(dtype), data.reshape(-1, *SIG), NAV)
        made[dtype] = data, path
    return made


def in_python(udf: UDF) -> UDF:
    """The same function without its native kernel."""
    cls = type(udf)
    plain = type(cls.__name__, (cls,), {"_native_kernel": None})
    return plain(**udf._kwargs)


class Dense(UDF):
    """Makes the planner cut frames, as dense data are cut."""

    def get_result_buffers(self):
        return {}

    def get_tiling_preferences(self):
        return {"depth": 3, "total_size": 400}

    def process_tile(self, tile):
        pass


def runs(ctx, files, backends):
    """Data sets, dense and sparse, with and without ROI, whole frames and parts of frames."""
    rng = np.random.default_rng(2)
    roi = rng.random(NAV) < 0.5
    for data, path in files.values():
        for dataset in (
            ctx.load("memory", data=data, num_partitions=3),
            ctx.load("raw_csr", path, num_partitions=3),
        ):
            for chosen in (None, roi):
                frames = data[np.ones(NAV, bool) if chosen is None else chosen]

                def run(udf, dataset=dataset, chosen=chosen, cut=False):
                    if not cut:
                        return ctx.run_udf(dataset, udf, roi=chosen, backends=backends)
                    return ctx.run_udf(dataset, [udf, Dense()], roi=chosen)[0]

                yield frames, run


@pytest.mark.parametrize("executor", ["inline", "threads"])
@pytest.mark.parametrize("name", BUILTIN)
def test_every_format_that_a_function_takes(files, name, executor):
    builtin = BUILTIN[name]
    taken = tuple(f for f in asked(builtin.make()) if f in UDF.CPU_BACKENDS)
    recommended = tuple(f for f in UDF.BACKEND_ALL if f in UDF.CPU_BACKENDS)
    expected_formats = recommended if builtin.formats is None else builtin.formats
    assert set(taken) == set(expected_formats)
    with ff.Context.make_with(executor, cpus=2) as ctx:
        for format_ in taken:
            for frames, run in runs(ctx, files, format_):
                compare(builtin, frames, run(in_python(builtin.make())))
                compare(builtin, frames, run(builtin.make()))


@pytest.mark.parametrize("name", BUILTIN)
def test_parts_of_frames(files, name):
    builtin = BUILTIN[name]
    with ff.Context.make_with("inline") as ctx:
        for frames, run in runs(ctx, files, None):
            compare(builtin, frames, run(in_python(builtin.make()), cut=True))
            compare(builtin, frames, run(builtin.make(), cut=True))


def asked(udf):
    given = udf.get_backends()
    return (given,) if isinstance(given, str) else tuple(given)


def compare(builtin, frames, results):
    for name, oracle in builtin.expected.items():
        found = results[name]
        raw = found.raw_data if found.kind == "nav" else found.data
        expected = oracle(frames)
        np.testing.assert_allclose(raw, expected, rtol=2e-5, atol=2e-4, err_msg=name)


def test_all_functions_in_one_run(files):
    names = list(BUILTIN)
    with ff.Context.make_with("threads", cpus=3) as ctx:
        for frames, run in runs(ctx, files, None):
            for order in (names, names[::-1]):
                native = [BUILTIN[name].make() for name in order]
                for udfs in (native, [in_python(udf) for udf in native]):
                    for name, result in zip(order, run(udfs), strict=True):
                        compare(BUILTIN[name], frames, result)


def test_record(files, tmp_path):
    with ff.Context.make_with("inline") as ctx:
        for index, (frames, run) in enumerate(runs(ctx, files, "numpy")):
            path = Path(tmp_path) / f"{index}.npy"
            run(RecordUDF(path))
            np.testing.assert_array_equal(np.load(path).reshape(frames.shape), frames)


def test_masks_of_a_run_may_differ_in_format(files):
    data, path = files["uint16"]
    expected = np.tensordot(wide(data), MASKS, ((2, 3), (1, 2)))
    with ff.Context.make_with("inline") as ctx:
        dataset = ctx.load("raw_csr", path)
        udfs = [
            ff.ApplyMasksUDF(mask_stack, backends=format_)
            for format_ in sorted(UDF.CPU_BACKENDS - {"sparse.DOK"})
        ]
        for result in ctx.run_udf(dataset, udfs):
            np.testing.assert_allclose(result["intensity"].data, expected, rtol=1e-5)


def test_pixels_outside_do_not_matter_even_if_they_are_not_numbers(tmp_path):
    data = counts((*NAV, *SIG), "f8")
    data[:, :, 0, 0] = np.nan
    path = write_raw_csr(tmp_path, data.reshape(-1, *SIG), NAV)
    with ff.Context.make_with("inline") as ctx:
        udf = in_python(BUILTIN["com"].make())
        dense = ctx.run_udf(ctx.load("memory", data=data), udf, backends="numpy")
        for format_ in (f for f in UDF.BACKEND_ALL if f in UDF.CPU_BACKENDS):
            found = ctx.run_udf(ctx.load("raw_csr", path), udf, backends=format_)
            np.testing.assert_allclose(found["raw_com"].data, dense["raw_com"].data)
            assert np.isfinite(found["raw_com"].data).all()
