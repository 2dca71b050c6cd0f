"""The code of the specification's introduction to UDFs, with the results that it promises.

One test per block, in the order of the text. The blocks are as published, but for the name of
the package; ``test_under_the_other_name`` runs them under the original one.
"""

import asyncio

import numpy as np
import pytest

from framefold.udf import UDF
from framefold.udf.sum import SumUDF


class SumOverSig(UDF):
    def get_result_buffers(self):
        return {"pixelsum": self.buffer(kind="nav", dtype="float32")}

    def process_frame(self, frame):
        self.results.pixelsum[:] = np.sum(frame)


class MaxUDF(UDF):
    def get_result_buffers(self):
        return {"maxbuf": self.buffer(kind="sig", dtype=self.meta.input_dtype)}

    def preprocess(self):
        self.results.maxbuf[:] = -np.inf

    def process_frame(self, frame):
        self.results.maxbuf[:] = np.maximum(frame, self.results.maxbuf)

    def merge(self, dest, src):
        dest.maxbuf[:] = np.maximum(dest.maxbuf, src.maxbuf)


def test_declaring_buffers(ctx):
    # "Suppose our dataset has the shape (14, 14, 32, 32)"
    dataset = ctx.load("memory", data=np.zeros((14, 14, 32, 32), dtype=np.float32), sig_dims=2)

    class Declaring(UDF):
        def get_result_buffers(self):
            buffers = {
                "nav_buffer": self.buffer(
                    kind="nav",
                    extra_shape=(3, 2),
                    dtype="float32",
                ),
                "sig_buffer": self.buffer(
                    kind="sig",
                    extra_shape=(2,),
                    dtype="float32",
                ),
                "single_buffer": self.buffer(
                    kind="single",
                    extra_shape=(16, 16),
                    dtype="float32",
                ),
            }
            return buffers

        def process_frame(self, frame):
            assert self.results.nav_buffer.shape == (3, 2)
            assert self.results.sig_buffer.shape == (32, 32, 2)
            assert self.results.single_buffer.shape == (16, 16)

        def merge(self, dest, src):
            dest.nav_buffer[:] = src.nav_buffer

    res = ctx.run_udf(udf=Declaring(), dataset=dataset)
    assert {name: buffer.data.shape for name, buffer in res.items()} == {
        "nav_buffer": (14, 14, 3, 2),
        "sig_buffer": (32, 32, 2),
        "single_buffer": (16, 16),
    }
    assert {buffer.data.dtype for buffer in res.values()} == {np.dtype("float32")}


def test_processing_function(ctx, dataset, data):
    res = ctx.run_udf(
        udf=SumOverSig(),
        dataset=dataset,
    )

    # to access the named buffer as a NumPy array:
    array = res["pixelsum"].data

    assert np.allclose(array, np.sum(data, axis=(2, 3)))


def test_merging_partial_results(ctx, dataset, data):
    res = ctx.run_udf(
        udf=MaxUDF(),
        dataset=dataset,
    )
    assert np.array_equal(res["maxbuf"].data, data.max(axis=(0, 1)))
    assert res["maxbuf"].data.dtype == np.float32


def test_passing_parameters(ctx, dataset, data):
    def correlate_peaks(frame, peaks):
        return [frame[peak] for peak in peaks]

    class MyUDF(UDF):
        def get_result_buffers(self):
            return {"corr": self.buffer("nav", extra_shape=(len(self.params.peaks),))}

        def process_frame(self, frame):
            result = correlate_peaks(frame, self.params.peaks)
            self.results.corr[:] = result

    peaks, other = [(1, 2), (3, 4)], object()
    udf = MyUDF(peaks=peaks, other=other)
    assert udf.params.other is other
    res = ctx.run_udf(udf=udf, dataset=dataset)
    assert np.array_equal(res["corr"].data, data[:, :, [1, 3], [2, 4]])


class MyParamUDF(UDF):
    def __init__(self, my_param=None):
        if my_param is None:
            my_param = "Eins, zwei drei!"
        super().__init__(my_param=my_param)

    def get_result_buffers(self):
        return {
            "demo": self.buffer(
                kind="single",
                dtype=object,
            ),
        }

    def process_frame(self, frame):
        self.results.demo[:] = self.params.my_param

    def merge(self, dest, src):
        dest.demo[:] = src.demo


def test_declaring_a_constructor(ctx, dataset):
    res = ctx.run_udf(dataset=dataset, udf=MyParamUDF())
    assert res["demo"].data[0] == "Eins, zwei drei!"

    res2 = ctx.run_udf(dataset=dataset, udf=MyParamUDF(my_param=42))
    assert res2["demo"].data[0] == 42


def test_constructors_that_the_text_warns_of(ctx, dataset):
    class OtherName(MyParamUDF):
        def __init__(self, my_param=None):
            UDF.__init__(self, other_param=my_param)

    class NotPassedOn(MyParamUDF):
        def __init__(self, my_param=None):
            self.my_param = my_param
            UDF.__init__(self)

    with pytest.raises(TypeError, match="other_param"):
        ctx.run_udf(dataset=dataset, udf=OtherName(my_param=1))
    with pytest.raises(AttributeError, match="my_param"):
        ctx.run_udf(dataset=dataset, udf=NotPassedOn(my_param=1))


class YourUDF(UDF):
    def get_result_buffers(self):
        return {"buf1": self.buffer("nav")}

    def process_frame(self, frame):
        self.results.buf1[:] = frame.mean()


def test_running_udfs(ctx, dataset, data):
    udf = YourUDF(param1="value1")
    res = ctx.run_udf(udf=udf, dataset=dataset)

    arr = res["buf1"].data
    assert np.allclose(arr, data.mean(axis=(2, 3)))
    assert np.array_equal(np.array(res["buf1"]), arr)
    assert np.sum(res["buf1"]) == np.sum(arr)


def test_running_udfs_with_a_progress_bar(ctx, dataset, capsys):
    pytest.importorskip("tqdm")
    udf = YourUDF(param1="value1")
    ctx.run_udf(udf=udf, dataset=dataset, progress=True)
    assert "256/256" in capsys.readouterr().err


def test_running_several_udfs(ctx, dataset, data):
    udf = YourUDF()
    res, res_sum = ctx.run_udf(udf=[udf, SumUDF()], dataset=dataset)
    assert np.array_equal(res["buf1"].data, ctx.run_udf(udf=udf, dataset=dataset)["buf1"].data)
    assert np.allclose(res_sum["intensity"].data, data.sum(axis=(0, 1)))


def test_regions_of_interest(ctx, data):
    dataset = ctx.load("memory", data=data[:14, :14], sig_dims=2)
    assert dataset.shape.nav == (14, 14)
    udf = YourUDF()
    roi = np.random.default_rng(1).choice(a=[False, True], size=dataset.shape.nav)
    res = ctx.run_udf(udf=udf, dataset=dataset, roi=roi)

    everything = ctx.run_udf(udf=udf, dataset=dataset)["buf1"].data
    assert np.array_equal(res["buf1"].data[roi], everything[roi])
    assert np.isnan(res["buf1"].data[~roi]).all()
    assert np.array_equal(res["buf1"].raw_data, everything[roi])


def test_live_plotting(ctx, dataset, data, plots):
    udf = YourUDF()
    ctx.run_udf(dataset=dataset, udf=udf, plots=True)

    (plot,) = plots
    assert plot.udf is udf
    assert plot.shown
    picture = plot.drawn[-1]
    assert picture.shape == (16, 16)
    np.testing.assert_allclose(picture, data.mean(axis=(2, 3)), rtol=1e-6)


def test_partial_results(ctx, data):
    dataset = ctx.load("memory", data=data, sig_dims=2, num_partitions=4)
    sums = []
    for udf_results in ctx.run_udf_iter(dataset=dataset, udf=SumUDF()):
        sums.append(np.sum(udf_results.buffers[0]["intensity"]))

    # "after the loop, `udf_results` contains the final results as usual"
    assert np.allclose(udf_results.buffers[0]["intensity"].data, data.sum(axis=(0, 1)))
    assert len(sums) == 4
    assert sums == sorted(sums)
    assert udf_results.damage.data.all()


def test_asynchronous_execution(ctx, dataset, data):
    udf = SumUDF()

    async def script():
        async for udf_results in ctx.run_udf_iter(dataset=dataset, udf=udf, sync=False):
            a = np.sum(udf_results[0]["intensity"])
            assert a > 0
        in_steps = udf_results[0]

        # or the version without intermediate results:
        udf_results = await ctx.run_udf(dataset=dataset, udf=udf, sync=False)
        return in_steps, udf_results

    in_steps, at_once = asyncio.run(script())
    assert np.allclose(at_once["intensity"].data, data.sum(axis=(0, 1)))
    assert np.array_equal(in_steps["intensity"].data, at_once["intensity"].data)
