"""Built-in UDFs: the native kernel equals the Python implementation, and overriding is honoured."""

from __future__ import annotations

import numpy as np
import pytest

import framefold as ff
from framefold import masks
from framefold.exceptions import InvalidArgumentError


def in_python(cls):
    """A subclass that overrides a hook without changing it, and so runs in Python."""

    def get_result_buffers(self):
        return super(derived, self).get_result_buffers()

    derived = type(f"Python{cls.__name__}", (cls,), {"get_result_buffers": get_result_buffers})
    return derived


MASKS = [
    lambda: masks.circular(6, 5, 12, 10, 3),
    lambda: masks.ring(6, 5, 12, 10, 4, 2),
    lambda: masks.gradient_x(12, 10),
]

CASES = [
    (ff.SumUDF, {}),
    (ff.SumUDF, {"dtype": "float64"}),
    (ff.SumSigUDF, {}),
    (ff.MaxUDF, {}),
    (ff.StdDevUDF, {}),
    (ff.LogsumUDF, {}),
    (ff.ApplyMasksUDF, {"mask_factories": MASKS}),
    (ff.ApplyMasksUDF, {"mask_factories": lambda: np.arange(240).reshape(2, 10, 12) * 1j}),
    (ff.CoMUDF, {}),
]


@pytest.mark.parametrize("with_roi", [False, True])
@pytest.mark.parametrize(("cls", "params"), CASES)
def test_native_equals_python(ctx, dataset, cls, params, with_roi):
    roi = None
    if with_roi:
        roi = np.random.default_rng(2).random((6, 7)) < 0.4
    native, python = ctx.run_udf(dataset, [cls(**params), in_python(cls)(**params)], roi=roi)
    assert set(native) == set(python)
    for name, expected in python.items():
        found = native[name]
        assert found.kind == expected.kind, name
        assert found.dtype == expected.dtype, name
        assert found.data.shape == expected.data.shape, name
        np.testing.assert_allclose(
            found.raw_data, expected.raw_data, rtol=2e-5, atol=1e-3, err_msg=name
        )


def test_whatever_is_overridden_is_called(ctx, dataset):
    class Documented(ff.CoMUDF):
        """Says more about it, and adds a method."""

        def explain_me(self):
            return "centre of mass"

    class Recentred(ff.CoMUDF):
        def centre(self):
            return (1.0, 2.0)

    plain = ctx.run_udf(dataset, ff.CoMUDF())
    same = ctx.run_udf(dataset, Documented())
    other = ctx.run_udf(dataset, Recentred())
    assert "by tile" in ctx.explain(dataset, Documented())
    assert same["field"].raw_data.tobytes() == plain["field"].raw_data.tobytes()
    assert not np.allclose(other["raw_shifts"].raw_data, plain["raw_shifts"].raw_data)


def test_native_udfs_run_on_native_kernels(ctx, dataset):
    plan = ctx.explain(dataset, [ff.SumUDF(), in_python(ff.SumUDF)()])
    assert "SumUDF: by tile, dense, uint16, as it is" in plan
    assert "PythonSumUDF: by tile, numpy, uint16 → float32" in plan


@pytest.mark.parametrize(
    ("params", "expected"),
    [
        ({}, [-2, -3]),
        ({"cy": 1, "cx": 2}, [2, 1]),
        ({"cy": 1, "cx": 2, "scan_rotation": 90}, [1, -2]),
        ({"cy": 1, "cx": 2, "flip_y": True}, [-2, 1]),
        ({"cy": 1, "cx": 2, "r": 1}, [0, 0]),
        ({"cy": 3, "cx": 3, "r": 1}, [0, 0]),
    ],
)
def test_centre_of_mass_of_one_pixel(ctx, params, expected):
    data = np.zeros((1, 2, 10, 12), dtype=np.uint8)
    data[..., 3, 3] = 7
    dataset = ctx.load("memory", data=data)
    for cls in (ff.CoMUDF, in_python(ff.CoMUDF)):
        result = ctx.run_udf(dataset, cls.with_params(**params))
        np.testing.assert_allclose(result["field"].data[0, 0], expected, atol=1e-6)
        np.testing.assert_allclose(result["magnitude"].data[0, 1], np.hypot(*expected), atol=1e-6)


def test_pick(ctx, dataset, data):
    result = ctx.run_udf(dataset, ff.PickUDF(), roi=(2, 3))
    assert result["intensity"].data.dtype == data.dtype
    assert np.array_equal(np.squeeze(result["intensity"].raw_data), data[2, 3])
    roi = np.zeros((6, 7), dtype=bool)
    roi[1, 1] = roi[5, 6] = True
    native, python = ctx.run_udf(dataset, [ff.PickUDF(), in_python(ff.PickUDF)()], roi=roi)
    assert np.array_equal(native["intensity"].raw_data, data[roi])
    assert np.array_equal(python["intensity"].raw_data, data[roi])


def test_integer_sums_are_exact(ctx):
    data = np.full((64, 64, 2, 2), 2**62 + 12345, dtype=np.uint64)
    data[0, 0] = 1
    dataset = ctx.load("memory", data=data)
    total = ctx.run_udf(dataset, ff.SumUDF(dtype="float64"))["intensity"].data
    exact = (2**62 + 12345) * (64 * 64 - 1) + 1
    assert (total == float(exact)).all()


def test_a_native_result_does_not_change_when_another_udf_joins(ctx):
    data = np.random.default_rng(0).integers(0, 2**40, (5, 5, 8, 8), dtype=np.int64)
    dataset = ctx.load("memory", data=data)
    alone = ctx.run_udf(dataset, ff.SumUDF())["intensity"].data
    joined, _ = ctx.run_udf(dataset, [ff.SumUDF(), in_python(ff.SumUDF)("complex64")])
    assert alone.tobytes() == joined["intensity"].data.tobytes()


class OwnSum(ff.SumUDF):
    """Runs in Python, because it overrides something."""

    def cleanup(self):
        pass


@pytest.mark.parametrize("cls", [ff.SumUDF, OwnSum])
@pytest.mark.parametrize(
    ("pixels", "wanted", "expected"),
    [
        ("u1", "int64", "i8"),
        ("u1", "uint16", "u8"),
        ("i2", "bool", "i8"),
        ("?", "bool", "i8"),
        ("u8", "int8", "f8"),
        ("f4", "int64", "f8"),
        ("u2", "float32", "f4"),
    ],
)
def test_sums_of_integers_stay_integers_if_they_are_to(ctx, cls, pixels, wanted, expected):
    frames = np.full((300, 2, 3), 200).astype(pixels)
    dataset = ctx.load("memory", data=frames, sig_dims=2, num_partitions=3)
    total = ctx.run_udf(dataset, cls(dtype=wanted))["intensity"].data
    assert total.dtype == expected
    assert (total == 300 * (1 if pixels == "?" else 200)).all()


def test_a_sum_that_does_not_fit_is_an_error(ctx):
    frames = np.full((3, 1, 1), 2**62)
    dataset = ctx.load("memory", data=frames, sig_dims=2)
    with pytest.raises(InvalidArgumentError, match=r"13835058055282163712, which int64 cannot"):
        ctx.run_udf(dataset, ff.SumUDF(dtype="int64"))


@pytest.mark.parametrize("n_partitions", [1, 6])
@pytest.mark.parametrize(
    ("dtype", "values", "total"),
    [
        ("int64", [2**62] * 2, 2**63),
        ("int64", [-(2**62)] * 3, -3 * 2**62),
        ("uint64", [2**63, 2**63], 2**64),
        ("int64", [2**62, 2**62 - 1, 0], None),
        ("int64", [-(2**62), -(2**62), 0], None),
        ("uint64", [2**63, 2**63 - 1, 0], None),
    ],
)
def test_a_derived_sum_that_does_not_fit_is_an_error(ctx, dtype, values, total, n_partitions):
    frames = np.zeros((6, 2, 2), dtype)
    frames[: len(values), 1, 0] = values
    dataset = ctx.load("memory", data=frames, sig_dims=2, num_partitions=n_partitions)
    if total is None:
        sums = ctx.run_udf(dataset, OwnSum(dtype=dtype))["intensity"].data
        assert int(sums[1, 0]) == sum(values)
        assert sums.dtype == dtype
    else:
        with pytest.raises(InvalidArgumentError, match=rf"{total}, which {dtype} cannot hold"):
            ctx.run_udf(dataset, OwnSum(dtype=dtype))


def test_a_derived_sum_is_refused_on_the_way_where_partitions_do_not_fit(ctx):
    frames = np.array([2**63 - 1, 2**63 - 1, -(2**63), -(2**63)])[:, None, None]
    dataset = ctx.load("memory", data=frames, sig_dims=2, num_partitions=2)
    with pytest.raises(InvalidArgumentError, match="a sum over some of the frames is 1844"):
        ctx.run_udf(dataset, OwnSum(dtype="int64"))


@pytest.mark.parametrize(("pixels", "wanted"), [("f2", "float16"), ("u2", "uint8"), ("u8", "i8")])
def test_a_derived_sum_of_reshaped_tiles(ctx, pixels, wanted):
    class Flat(ff.SumUDF):
        def process_tile(self, tile):
            super().process_tile(tile.reshape((len(tile), -1)))

    frames = np.full((100, 4, 6), 1000, pixels)
    dataset = ctx.load("memory", data=frames, sig_dims=2, num_partitions=3)
    own, native = (ctx.run_udf(dataset, cls(dtype=wanted)) for cls in (Flat, ff.SumUDF))
    assert own["intensity"].data.dtype == native["intensity"].data.dtype
    assert (own["intensity"].data == 100_000).all()
    assert (native["intensity"].data == 100_000).all()


@pytest.mark.parametrize(("pixels", "wanted"), [("f4", "i8"), ("c8", "f8"), ("i2", "u8")])
def test_a_derived_sum_does_not_cast_what_its_buffer_cannot_hold(ctx, pixels, wanted):
    class Narrow(ff.SumUDF):
        def get_result_buffers(self):
            return {"intensity": self.buffer(kind="sig", dtype=wanted)}

    frames = np.full((10, 4, 6), -0.75).astype(pixels)
    dataset = ctx.load("memory", data=frames, sig_dims=2, num_partitions=1)
    with pytest.raises(TypeError, match=r"[Cc]annot cast"):
        ctx.run_udf(dataset, Narrow())


def test_only_the_pixels_that_may_not_fit_are_summed_exactly(ctx):
    frames = np.random.default_rng(2).integers(-(2**40), 2**40, (40, 5, 6))
    frames[:, 2, 3] = 2**57
    dataset = ctx.load("memory", data=frames, sig_dims=2, num_partitions=1)
    total = ctx.run_udf(dataset, OwnSum(dtype="int64"))["intensity"].data
    assert (total == frames.sum(axis=0)).all()


def test_a_derived_sum_may_be_large_on_the_way(ctx):
    frames = np.array([2**63 - 1, 2**63 - 1, -(2**63), -(2**63)])[:, None, None]
    dataset = ctx.load("memory", data=frames, sig_dims=2, num_partitions=1)
    assert ctx.run_udf(dataset, OwnSum(dtype="int64"))["intensity"].data.item() == -2


def test_a_sum_of_frames_has_no_parameters():
    with pytest.raises(InvalidArgumentError, match="SumSigUDF has no parameter 'dtype'; it has"):
        ff.SumSigUDF(dtype="float64")


def test_a_derived_sum_of_frames_has_parameters(ctx, dataset, data):
    class Scaled(ff.SumSigUDF):
        def __init__(self, factor=2):
            super().__init__(factor=factor)

        def get_results(self):
            return {"intensity": self.results.intensity * self.params.factor}

    result = ctx.run_udf(dataset, Scaled(3))["intensity"].data
    assert np.array_equal(result, 3 * data.sum(axis=(2, 3)))
