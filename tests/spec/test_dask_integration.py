"""The code of the specification's page on Dask, with the results that it promises.

One test per block, in the order of the text. The blocks are as published, but for the name of
the package; ``test_under_the_other_name`` runs them under the original one.
"""

import numpy as np
import pytest

from framefold.api import Context
from framefold.common.slice import Slice
from framefold.udf import UDF

da = pytest.importorskip("dask.array", reason="dask.array is not installed")

#: Executors that follow Dask's current scheduler.
COMPATIBLE = ["dask-integration", "delayed"]


@pytest.fixture
def data():
    return np.random.default_rng(11).integers(0, 4000, (16, 16, 20, 24)).astype("float32")


@pytest.fixture
def dataset(data):
    return Context.make_with("inline").load("memory", data=data, sig_dims=2, num_partitions=5)


def test_load_datasets_as_dask_arrays(dataset, data):
    from framefold.contrib.daskadapter import make_dask_array

    # Construct a Dask array from the dataset
    # The second return value contains information
    # on workers that hold parts of a dataset in local
    # storage to ensure optimal data locality
    dask_array, workers = make_dask_array(dataset)

    result = dask_array.sum(axis=(-1, -2)).compute(workers=workers)

    assert dask_array.shape == data.shape
    assert np.allclose(result, data.sum(axis=(-1, -2)))


@pytest.mark.parametrize("name", COMPATIBLE)
def test_load_dask_arrays_as_datasets(name):
    import dask.array as da

    from framefold.udf.sum import SumUDF

    ctx = Context.make_with(name)

    a = da.random.random((23, 42, 17, 19))

    ds = ctx.load("dask", a, sig_dims=2)
    res = ctx.run_udf(dataset=ds, udf=SumUDF())

    assert np.allclose(
        a.sum(axis=(0, 1)).compute(),
        res["intensity"].raw_data,
    )


def test_create_dask_arrays_with_udfs(dataset, data):
    from framefold.api import Context
    from framefold.executor.delayed import DelayedJobExecutor
    from framefold.udf.sumsigudf import SumSigUDF

    ctx = Context(executor=DelayedJobExecutor())
    res = ctx.run_udf(dataset=dataset, udf=SumSigUDF())

    shown = repr(res["intensity"].delayed_data)
    assert shown.startswith("dask.array<reshape, shape=(16, 16), dtype=float32, chunksize=(")
    assert shown.endswith("chunktype=numpy.ndarray>")
    delayed = res["intensity"].delayed_raw_data
    assert isinstance(delayed, da.Array)
    assert delayed.shape == (256,)
    assert isinstance(res["intensity"].data, np.ndarray)
    assert np.array_equal(res["intensity"].delayed_data.compute(), res["intensity"].data)
    assert np.array_equal(delayed.compute(), res["intensity"].raw_data)
    assert np.allclose(res["intensity"].data, data.sum(axis=(-1, -2)))


class MySumUDF(UDF):
    def get_result_buffers(self):
        return {"intensity": self.buffer(kind="sig", dtype=self.meta.input_dtype)}

    def process_tile(self, tile):
        self.results.intensity[:] += np.sum(tile, axis=0)

    def merge(self, dest, src):
        dest.intensity[:] += src.intensity


class MySumMergeUDF(MySumUDF):
    # Define the merge_all() method for the UDF above
    def merge_all(self, ordered_results):
        # List and not generator for NumPy dispatch to work
        chunks = [b.intensity for b in ordered_results.values()]
        # NumPy will dispatch the stacking to the appropriate method
        # for the chunks.
        # See also
        stack = np.stack(chunks)
        # Perform computation on the stacked chunks
        # equivalent to the normal merge()
        intensity = stack.sum(axis=0)

        # Return a dictionary mapping buffer name to new content
        return {"intensity": intensity}


def test_merge_function_for_dask_array_results(dataset, data):
    from framefold.executor.delayed import DelayedJobExecutor

    ctx = Context(executor=DelayedJobExecutor())
    result = ctx.run_udf(udf=MySumUDF(), dataset=dataset)

    result2 = ctx.run_udf(udf=MySumMergeUDF(), dataset=dataset)

    expected = data.sum(axis=(0, 1))
    assert np.allclose(result["intensity"].delayed_data.compute(), expected)
    assert np.allclose(result2["intensity"].delayed_data.compute(), expected)
    inline = Context.make_with("inline").run_udf(udf=MySumUDF(), dataset=dataset)
    assert np.array_equal(result["intensity"].data, inline["intensity"].data)


class SumOfFrames(MySumUDF):
    """The example of the page on UDFs."""

    def merge_all(self, ordered_results):
        # "keyed by Slice objects, one for each partition processed"
        assert all(isinstance(key, Slice) for key in ordered_results)
        starts = [key.origin[0] for key in ordered_results]
        assert starts == sorted(starts)
        intensity = np.stack([b.intensity for b in ordered_results.values()]).sum(axis=0)
        return {"intensity": intensity}


def test_one_step_merge(dataset, data):
    roi = np.arange(256).reshape((16, 16)) % 3 == 0
    ctx = Context.make_with("delayed")
    result = ctx.run_udf(udf=SumOfFrames(), dataset=dataset, roi=roi)
    assert np.allclose(result["intensity"].data, data[roi].sum(axis=0))


def test_resources():
    from framefold.executor.delayed import DelayedJobExecutor

    class OnlyCuda(MySumUDF):
        def get_backends(self):
            return (self.BACKEND_CUPY,)

    # "CUDA-only computations will require passing the appropriate tags"
    assert "CUDA" in DelayedJobExecutor.get_resources_from_udfs(OnlyCuda())
    assert "CUDA" not in DelayedJobExecutor.get_resources_from_udfs([MySumUDF()])
