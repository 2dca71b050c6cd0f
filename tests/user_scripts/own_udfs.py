"""Functions of one's own, partial results, plots."""

import asyncio

import libertem.api as lt
import numpy as np
from libertem.common.exceptions import UDFRunCancelled
from libertem.udf import UDF
from libertem.udf.auto import AutoUDF
from libertem.viz.base import Dummy2DPlot


class Everything(UDF):
    def __init__(self, factor=2.0, *args, **kwargs):
        super().__init__(*args, factor=factor, **kwargs)

    def get_result_buffers(self):
        return {
            "total": self.buffer(kind="nav", dtype="float32"),
            "brightest": self.buffer(kind="sig", dtype="float32"),
            "histogram": self.buffer(kind="single", extra_shape=(16,), dtype=np.int64),
        }

    def process_frame(self, frame):
        self.results.total[:] = np.sum(frame) * self.params.factor
        self.results.brightest[:] = np.maximum(self.results.brightest, frame)
        self.results.histogram[:] += np.histogram(frame, bins=16, range=(0, 16))[0]

    def merge(self, dest, src):
        dest.total[:] = src.total
        dest.brightest[:] = np.maximum(dest.brightest, src.brightest)
        dest.histogram[:] += src.histogram


data = np.random.default_rng(0).poisson(2, (6, 7, 16, 16)).astype("u2")
with lt.Context.make_with("threads", cpus=2) as ctx:
    ctx.plot_class = Dummy2DPlot
    ds = ctx.load("memory", data=data, sig_dims=2, num_partitions=4)
    first, second = ctx.run_udf(
        dataset=ds, udf=[Everything(factor=3), AutoUDF(f=np.max)], plots=[["total"]]
    )
    assert np.allclose(first["total"].data, 3 * data.sum(axis=(2, 3)))
    assert np.array_equal(first["brightest"], data.max(axis=(0, 1)))
    assert first["histogram"].data.sum() == data.size
    assert np.array_equal(second["result"].data, data.max(axis=(2, 3)))
    for part in ctx.run_udf_iter(dataset=ds, udf=Everything()):
        damage = part.damage.data
    assert damage.all()

    async def run():
        async for _ in ctx.run_udf_iter(dataset=ds, udf=Everything(), sync=False):
            pass
        return await ctx.run_udf(dataset=ds, udf=Everything(), sync=False)

    assert asyncio.run(run())["total"].data.shape == (6, 7)
    parts = ctx.run_udf_iter(dataset=ds, udf=Everything())
    try:
        for index, _ in enumerate(parts):
            if index == 1:
                parts.throw(UDFRunCancelled())
    except UDFRunCancelled:
        pass
    assert ctx.map(dataset=ds, f=lambda frame: frame.max(axis=0)).data.shape == (6, 7, 16)

    # A loop by hand.
    by_hand = np.zeros(ds.shape.sig)
    for partition in ds.get_partitions():
        for tile in partition.get_tiles():
            by_hand += np.asarray(tile).sum(axis=0)
    assert np.array_equal(by_hand, data.sum(axis=(0, 1)))
