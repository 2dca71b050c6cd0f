"""Integers that cannot be are refused in words, whatever their type."""

from __future__ import annotations

import numpy as np
import pytest

import framefold as ff
from framefold.exceptions import FramefoldError, LimitError
from framefold.udf import UDF

NEVER = [-3, 2**70, -(2**70), 2.5, np.int64(-3), np.float32(1.5), "x", None, True, np.True_]


def ids(value):
    return f"{type(value).__name__} {value}"


@pytest.fixture(scope="module")
def ctx():
    return ff.Context.make_with("inline")


@pytest.fixture(scope="module")
def dataset(ctx):
    return ctx.load("memory", data=np.ones((4, 5, 6, 7), dtype=np.float32))


def refused(call, name):
    with pytest.raises(FramefoldError, match=name) as caught:
        call()
    assert not isinstance(caught.value, OverflowError)


@pytest.mark.parametrize("value", NEVER, ids=ids)
@pytest.mark.parametrize("option", ["nav_shape", "sig_shape", "num_partitions"])
def test_options_of_files(tmp_path, ctx, option, value):
    path = tmp_path / "a.raw"
    path.write_bytes(bytes(6400))
    if option == "num_partitions":
        if value is None:
            return
        given = value
    else:
        given = (value,)
    options = {"dtype": "uint8", "nav_shape": (4,), "sig_shape": (4, 4), option: given}
    refused(lambda: ctx.load("raw", path, **options), option)


@pytest.mark.parametrize("value", NEVER, ids=ids)
@pytest.mark.parametrize("option", ["nav_shape", "sig_shape", "datashape", "tileshape"])
def test_shapes_of_data_in_memory(ctx, option, value):
    data = np.ones((4, 5, 6, 7))
    refused(lambda: ctx.load("memory", data=data, **{option: (value,)}), option)


@pytest.mark.parametrize(
    "given", [{2, 3}, frozenset({2, 3}), {2: 3, 4: 5}, b"23", bytearray(b"23")]
)
def test_what_has_no_order_is_no_sequence(tmp_path, ctx, dataset, given):
    data, path = np.ones((2, 3, 4, 5)), tmp_path / "a.npy"
    np.save(path, data)
    refused(lambda: ff.Bin(given), "factors")
    refused(lambda: ff.Rebin(given), "factors")
    refused(lambda: ff.Pad(given), "widths")
    refused(lambda: ff.Pad((2, given)), "widths")
    refused(lambda: ctx.load("memory", data=data, nav_shape=given), "nav_shape")
    refused(lambda: ctx.load("npy", path, nav_shape=given), "nav_shape")
    for name in ("disk", "pixels"):
        refused(lambda: ctx.run_udf(dataset, ff.ReductionUDF("masks", **{name: given})), name)  # noqa: B023


@pytest.mark.parametrize("value", [value for value in NEVER if value is not None], ids=ids)
@pytest.mark.parametrize("option", ["num_partitions", "sig_dims", "sync_offset"])
def test_numbers_of_data_in_memory(ctx, option, value):
    if option == "sync_offset" and value == -3:
        return
    data = np.ones((4, 5, 6, 7))
    refused(lambda: ctx.load("memory", data=data, **{option: value}), option)


@pytest.mark.parametrize("value", [True, False, np.True_, 2.0, np.float64(1), "2", b"2", [2]])
def test_numbers_of_signal_axes(ctx, value):
    data = np.ones((4, 5, 6, 7))
    words = "sig_dims(=| is ).* whole number"
    refused(lambda: ctx.load("memory", data=data, sig_dims=value), words)
    array = pytest.importorskip("dask.array").from_array(data)
    refused(lambda: ctx.load("dask", array, sig_dims=value), words)


@pytest.mark.parametrize("number", [np.int8(2), np.uint64(2), 2], ids=ids)
def test_integers_of_other_libraries_are_taken(ctx, number):
    data = np.ones((4, 5, 6, 7))
    dataset = ctx.load("memory", data=data, num_partitions=number, sig_dims=np.int32(2))
    assert tuple(dataset.shape.nav) == (4, 5)
    assert ctx.run_udf(dataset, ff.SumSigUDF())["intensity"].data.sum() == data.sum()


@pytest.mark.parametrize("length", [-3, 2**70, -(2**70)], ids=ids)
def test_extra_axes(ctx, dataset, length):
    class Extra(UDF):
        def get_result_buffers(self):
            return {"x": self.buffer(kind="nav", extra_shape=(length,))}

        def process_frame(self, frame):
            raise AssertionError

    refused(lambda: ctx.run_udf(dataset, Extra()), "extra_shape")


@pytest.mark.parametrize("value", NEVER, ids=ids)
def test_exports(tmp_path, ctx, dataset, value):
    path = tmp_path / "a.zarr"
    refused(lambda: ctx.export_dataset(dataset, path, chunks=(value, 1, 6, 7)), "chunks")
    if value is not None:
        options = {"compression": "zstd", "level": value}
        refused(lambda: ctx.export_dataset(dataset, path, **options), "level")
    assert not path.exists()


@pytest.mark.parametrize("value", [-3, 2.5, np.int64(-3), np.float32(1.5)], ids=ids)
@pytest.mark.parametrize("executor", ["threads", "processes", "auto", "dask"])
@pytest.mark.parametrize("option", ["cpus", "gpus"])
def test_numbers_of_workers(executor, option, value):
    refused(lambda: ff.Context.make_with(executor, **{option: value}), option + "|n_workers|n_thr")


@pytest.mark.parametrize("executor", ["threads", "processes", "auto", "dask"])
def test_truth_values_are_no_numbers_of_workers(executor):
    refused(lambda: ff.Context.make_with(executor, cpus=True), "cpus=True")


@pytest.mark.parametrize("value", [2**70, -(2**70), 2**63, 1e300, float("nan"), "x", [1, 2]])
@pytest.mark.parametrize(
    ("analysis", "name"),
    [("disk", "cx"), ("disk", "r"), ("ring", "cy"), ("ring", "ri"), ("radial_fourier", "cx")],
)
def test_places_and_radii_of_analyses(ctx, dataset, analysis, name, value):
    create = getattr(ctx, f"create_{analysis}_analysis")
    refused(lambda: ctx.run(create(dataset, **{name: value})), name)


@pytest.mark.parametrize(
    ("analysis", "options"),
    [
        ("disk", {"cx": 40, "cy": 30, "r": 20}),
        ("ring", {"cx": 40, "cy": 30, "ri": 17, "ro": 29}),
        ("radial_fourier", {"cx": 40, "cy": 30, "ri": 17, "ro": 29, "n_bins": 1, "max_order": 1}),
    ],
)
@pytest.mark.parametrize("of", [np.uint8, np.int8, np.float16])
def test_numbers_of_numpy_for_analyses(ctx, analysis, options, of):
    dataset = ctx.load("memory", data=np.ones((1, 2, 60, 80), dtype=np.float32))
    create = getattr(ctx, f"create_{analysis}_analysis")
    small = {name: of(value) for name, value in options.items()}
    found, expected = (ctx.run(create(dataset, **each)) for each in (small, options))
    np.testing.assert_array_equal(found[0].raw_data, expected[0].raw_data)
    np.testing.assert_array_equal(found[1].raw_data, expected[1].raw_data)


@pytest.mark.parametrize("value", [-3, -np.inf, np.nan, np.ma.masked, True, "3"])
@pytest.mark.parametrize(
    ("analysis", "name"), [("disk", "r"), ("ring", "ri"), ("ring", "ro"), ("radial_fourier", "ri")]
)
def test_what_is_no_radius_of_analyses(ctx, dataset, analysis, name, value):
    with pytest.raises(FramefoldError, match=rf"{name} is .*, expected a number"):
        getattr(ctx, f"create_{analysis}_analysis")(dataset, **{name: value})


@pytest.mark.parametrize("dtype", [np.float32, np.complex64])
@pytest.mark.parametrize("name", ["mask_radius", "mask_radius_inner", "scan_rotation", "cx"])
def test_masked_numbers_of_centres_of_mass(ctx, name, dtype):
    dataset = ctx.load("memory", data=np.ones((2, 2, 4, 4), dtype=dtype))
    with pytest.raises(FramefoldError, match=r"(r|ri|scan_rotation|cx) is masked, expected a num"):
        ctx.run(ctx.create_com_analysis(dataset, **{name: np.ma.masked}))


@pytest.mark.parametrize("value", [np.nan, np.inf, "1", 1.5, [1], True, np.ma.masked])
def test_positions_that_are_picked_are_whole(ctx, dataset, value):
    with pytest.raises(FramefoldError, match=r"x is .*, expected a whole number"):
        ctx.create_pick_analysis(dataset, x=value, y=0)
    assert ctx.create_pick_analysis(dataset, x=1.0, y=np.uint8(2)).get_roi()[2, 1]


def test_orders_that_do_not_fit_into_memory_are_refused_at_once(ctx, dataset):
    for many in ({"max_order": 2**31}, {"max_order": 2**70}, {"n_bins": 2**40}):
        with pytest.raises(LimitError, match="no memory"):
            ctx.create_radial_fourier_analysis(dataset, **many)


def test_rings_without_end_are_whole_frames(ctx, dataset):
    options = {"ri": 0, "n_bins": 1, "max_order": 0}
    found, expected = (
        ctx.run(ctx.create_radial_fourier_analysis(dataset, ro=ro, **options)).raw_results
        for ro in (np.inf, None)
    )
    np.testing.assert_array_equal(found, expected)
    assert (abs(found) > 0).all()


def test_radii_without_end_are_whole_frames(ctx, dataset):
    result = ctx.run(ctx.create_disk_analysis(dataset, r=float("inf")))
    assert (result.intensity.raw_data == 6 * 7).all()


@pytest.mark.parametrize(
    "key", [2.5, (1, 2.5), 2**70, "x", (0, 0, 0), np.ones((2, 2), bool), 2**63]
)
def test_indices_of_a_scan(dataset, key):
    with pytest.raises(IndexError, match=r"does not fit a scan of shape \(4, 5\)"):
        dataset.roi[key]
