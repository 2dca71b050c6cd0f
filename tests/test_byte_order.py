"""Arrays keep their byte order on their way to worker processes, however their elements lie."""

from __future__ import annotations

import pickle
from functools import partial

import numpy as np
import pytest
from shared_contexts import shared

from framefold.executor._wire import code, failures, pickles
from framefold.udf import UDF

LAYOUTS = {
    "as made": lambda a: a,
    "backwards": lambda a: a[::-1],
    "both backwards": lambda a: a[::-1, ::-1],
    "every second": lambda a: a[:, ::2],
    "turned": lambda a: a.T,
    "turned backwards": lambda a: a.T[::-1],
    "read-only": lambda a: np.frombuffer(a.tobytes(), a.dtype)[::-1],
}
DTYPES = [">i2", "<i2", ">u8", ">f4", ">f8", ">c16", [("a", ">i4"), ("b", "<i2")]]


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("rows", [4, 4000])
def test_arrays(layout, dtype, rows):
    array = LAYOUTS[layout](np.arange(rows * 6).reshape(rows, 6).astype(dtype))
    for given in (array, [array, {"x": array[::-1]}], np.ma.masked_array(array)):
        for share in (False, True):
            for dumps in (pickles.dumps, pickles.dumps_by_value):
                data, large = dumps(given, share)
                found = pickle.loads(data, buffers=large)
                assert type(found) is type(given)
                for one, other in zip(_arrays(found), _arrays(given), strict=True):
                    assert one.dtype == other.dtype
                    assert type(one) is type(other)
                    np.testing.assert_array_equal(one, other)
                    assert one.tobytes() == other.tobytes()


def _arrays(value):
    return [value[0], value[1]["x"]] if isinstance(value, list) else [value]


def test_mapped_arrays_and_objects(tmp_path):
    mapped = np.memmap(tmp_path / "a", dtype=">u2", shape=(4, 6), mode="w+")
    mapped[:] = np.arange(24).reshape(4, 6)
    objects = np.zeros(3, dtype=[("a", ">i4"), ("b", object)])
    objects["a"], objects["b"] = [1, 2, 3], ["x", None, {}]
    for given in (mapped, mapped[::-1], objects, objects[::-1]):
        found = pickle.loads(pickles.dumps_by_value(given, share=False)[0])
        assert found.dtype == given.dtype
        np.testing.assert_array_equal(found, given)
    large = np.memmap(tmp_path / "b", dtype="u2", shape=(pickles.LARGE,), mode="w+")
    data, shared = pickles.dumps_by_value(large, share=True)
    assert len(data) < 1000
    assert [each.nbytes for each in shared] == [large.nbytes]


def test_arrays_in_code_and_in_exceptions():
    array = np.arange(12).reshape(3, 4).astype(">i4")[::-1]
    found = pickle.loads(pickle.dumps(code.sent(partial(np.sum, array))))
    assert found.args[0].dtype == array.dtype
    error = failures.unpack(failures.pack(ValueError(array)))
    assert error.args[0].dtype == array.dtype
    np.testing.assert_array_equal(error.args[0], array)


class Bytes(UDF):
    """Looks at bytes, as those do who pass arrays on to other programs."""

    def get_result_buffers(self):
        return {
            "total": self.buffer("nav", dtype="float64"),
            "seen": self.buffer("nav", dtype=object),
        }

    def process_frame(self, frame):
        self.results.total[:] = frame.sum() * self.params.factor.flat[-1]
        self.results.seen[0] = (self.params.table.tobytes(), str(self.params.factor.dtype))


def test_data_parameters_and_aux_data_of_a_run():
    data = np.arange(4 * 5 * 6 * 7).reshape(4, 5, 6, 7).astype(">u2")
    table = np.arange(12).reshape(3, 4).astype(">i4")[::-1]
    factor = np.linspace(1, 2, 20).reshape(4, 5).astype(">f8")[::-1]
    with shared("processes", cpus=1) as ctx:
        for layout in ("backwards", "both backwards", "every second"):
            given = LAYOUTS[layout](data)
            aux = UDF.aux_data(factor[:, : given.shape[1]], "nav", dtype=">f8")
            udf = Bytes(table=table, factor=aux)
            dataset = ctx.load("memory", data=given, num_partitions=2)
            result = ctx.run_udf(dataset, udf)
            expected = given.sum(axis=(2, 3)) * factor[:, : given.shape[1]]
            np.testing.assert_array_equal(result["total"].data, expected)
            assert set(result["seen"].data.flat) == {(table.tobytes(), ">f8")}
