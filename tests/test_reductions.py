"""Every reduction of the engine's table, by its name."""

from __future__ import annotations

import numpy as np
import pytest

import framefold as ff
from framefold import _engine
from framefold.exceptions import InvalidArgumentError, UnsupportedError
from framefold.udf.reduction import ReductionUDF

ROWS = {row["name"]: row for row in _engine.native_reductions()}

#: A class that does the same, and its name in the table.
CLASSES = [
    (ff.SumUDF(dtype="float64"), ReductionUDF("sum", dtype=np.float64)),
    (ff.SumSigUDF(), ReductionUDF("sum_sig")),
    (ff.MaxUDF(), ReductionUDF("max")),
    (ff.StdDevUDF(), ReductionUDF("stddev")),
    (ff.CoMUDF.with_params(cy=2, r=4), ReductionUDF("com", cy=2, r=4.0)),
    (ff.LogsumUDF(), ReductionUDF("logsum")),
    (ff.PickUDF(), ReductionUDF("pick")),
]


def example(name):
    return ReductionUDF(name, **dict(ROWS[name]["example"]))


@pytest.mark.parametrize("name", ROWS)
def test_every_reduction_runs_by_its_name(ctx, dataset, name):
    result = ctx.run_udf(dataset, example(name))
    assert list(result) == ROWS[name]["buffers"]
    assert f"ReductionUDF: by {'frame' if name == 'logsum' else 'tile'}" in ctx.explain(
        dataset, example(name)
    )


@pytest.mark.parametrize("name", ROWS)
def test_declarations_are_those_of_the_run(ctx, dataset, name):
    roi = np.random.default_rng(3).random(dataset.shape.nav) < 0.5
    udf = example(name)
    result = ctx.run_udf(dataset, udf, roi=roi)
    declared = udf.get_result_buffers()
    assert list(declared) == list(result)
    for key, buffer in result.items():
        assert declared[key].kind == buffer.kind
        assert declared[key].dtype == buffer.dtype
        assert tuple(declared[key].extra_shape) == tuple(buffer.extra_shape)


@pytest.mark.parametrize(("own", "named"), CLASSES, ids=lambda udf: type(udf).__name__)
def test_a_class_and_its_row_give_the_same_bits(ctx, dataset, own, named):
    expected, found = ctx.run_udf(dataset, [own, named])
    shared = [name for name in found if name in expected]
    assert shared
    for name in shared:
        assert found[name].raw_data.dtype == expected[name].raw_data.dtype
        if type(own) is not ff.CoMUDF or name.startswith("raw"):
            assert found[name].raw_data.tobytes() == expected[name].raw_data.tobytes(), name


@pytest.mark.parametrize(
    "disks", ["1,2,3", (1, 2, 3), [(1, 2, 3)], [np.array([1.0, 2.0, 3.0])]], ids=repr
)
def test_disks_are_text_or_numbers(ctx, dataset, data, disks):
    result = ctx.run_udf(dataset, ReductionUDF("masks", disk=disks))["intensity"].data
    y, x = np.ogrid[: data.shape[2], : data.shape[3]]
    inside = (y - 1) ** 2 + (x - 2) ** 2 <= 9
    assert np.allclose(result[..., 0], data[:, :, inside].sum(axis=-1))


@pytest.mark.parametrize(
    ("given", "each"),
    [
        ([2, 4, 6], [2, 4, 6]),
        (np.array([2, 4, 6]), [2, 4, 6]),
        ([2, 4], [2, 4]),
        ([3], [3]),
        ([4, (6, 7, 3)], [4, (6, 7, 3)]),
        ([4, [6, 7, 3]], [4, (6, 7, 3)]),
        (((1, 2, 3), (4, 5, 6)), [(1, 2, 3), (4, 5, 6)]),
        (np.array([[1, 2, 3], [4, 5, 6]]), [(1, 2, 3), (4, 5, 6)]),
    ],
    ids=str,
)
def test_a_list_holds_several_disks(ctx, dataset, given, each):
    results = ctx.run_udf(dataset, [ReductionUDF("masks", disk=one) for one in (given, *each)])
    found, *expected = (result["intensity"].data for result in results)
    np.testing.assert_array_equal(found, np.concatenate(expected, axis=-1))


@pytest.mark.parametrize(
    ("name", "parameters", "words"),
    [
        ("fly", {}, "there is no reduction 'fly'; choose one of sum"),
        ("sum", {"cy": 3}, "'sum' has no parameter 'cy'; its parameters are dtype"),
        ("max", {"cy": 3}, "'max' has no parameter 'cy'; it has none"),
        ("com", {"cy": "east"}, "parameter 'cy' of 'com' is 'east'; expected a finite number"),
        ("com", {"cx": [1]}, r"parameter 'cx' of 'com' is \[1\]; expected a finite number"),
        ("com", {"r": -1}, "parameter 'r' of 'com' is -1; expected a radius"),
        ("com", {"flip_y": 3}, "parameter 'flip_y' of 'com' is 3; expected true or false"),
        ("masks", {"ring": (5, 2)}, "parameter 'ring' of 'masks' is 5,2; expected RI,RO"),
        ("masks", {"ring": [5, 9]}, r"'ring' of 'masks' is \[5, 9\].*several are a list of tuples"),
        ("masks", {"masks": [np.ones((2, 3)), np.ones((2, 2, 3))]}, r"(?s)'masks' .*np\.stack"),
        ("masks", {"disk": []}, r"'disk' of 'masks' is \[\]; expected R or CY,CX,R"),
        ("masks", {"pixels": [-1]}, r"parameter 'pixels' of 'masks' is \[-1\]; expected whole"),
        ("masks", {}, "'masks' needs one of its parameters.*'disk' or 'ring' or 'masks'"),
    ],
)
def test_what_is_wrong_with_a_parameter_is_named(ctx, dataset, name, parameters, words):
    with pytest.raises(InvalidArgumentError, match=words):
        ctx.run_udf(dataset, ReductionUDF(name, **parameters))


@pytest.mark.parametrize(
    "parameters",
    [
        {"masks": np.ma.array(np.ones((8, 9)), mask=np.eye(8, 9))},
        {"masks": np.ones((8, 9)), "shifts": np.ma.array([3, 4], mask=[True, False])},
        {"disk": [(4, 5, 2), np.ma.array([4, 5, 2], mask=[False, False, True])]},
        {"disk": np.ma.masked},
    ],
)
def test_masked_elements_of_parameters_are_refused(parameters):
    *_, name = parameters
    with pytest.raises(InvalidArgumentError, match=f"elements of parameter '{name}' of 'masks'"):
        ReductionUDF("masks", **parameters)


def test_parts_cannot_be_overridden(ctx, dataset):
    class Shifted(ReductionUDF):
        def get_result_buffers(self):
            return super().get_result_buffers()

    with pytest.raises(UnsupportedError, match="Shifted overrides part of a reduction"):
        ctx.run_udf(dataset, Shifted("max"))


@pytest.mark.parametrize("params", [{"r": 0, "ri": -1}, {"r": -1, "ri": -2}, {"ri": -3}])
def test_radii_below_zero_are_taken_as_ever(ctx, dataset, params):
    class InPython(ff.CoMUDF):
        def get_result_buffers(self):
            return super().get_result_buffers()

    found = ctx.run_udf(dataset, ff.CoMUDF.with_params(**params))
    expected = ctx.run_udf(dataset, InPython.with_params(**params))
    np.testing.assert_allclose(found["field"].data, expected["field"].data, atol=1e-4)
