"""Virtual detectors, statistics and files, without importing what one names."""

import functools

import libertem.api
import numpy as np
from libertem import masks
from libertem.io.dataset import detect, filetypes, get_extensions
from libertem.udf.stddev import StdDevUDF, run_stddev

ctx = libertem.api.Context(executor=libertem.api.InlineJobExecutor())
data = np.random.default_rng(0).poisson(2, (6, 7, 32, 32)).astype("u2")
data.tofile("a.raw")
ds = ctx.load(
    filetype="RAW",
    path="a.raw",
    nav_shape=(6, 7),
    sig_shape=(32, 32),
    dtype="uint16",
    enable_direct=False,
)
ds = ds.initialize(ctx.executor)
ds.set_num_cores(4)
disk = functools.partial(
    masks.circular, centerX=16, centerY=16, imageSizeX=32, imageSizeY=32, radius=8
)
udf = libertem.udf.masks.ApplyMasksUDF(mask_factories=[disk, lambda: np.ones(ds.shape.sig)])
result = ctx.run_udf(dataset=ds, udf=udf)
assert np.array_equal(result["intensity"].data[..., 1], data.sum(axis=(2, 3)))
deviations = run_stddev(ctx, ds)
assert np.allclose(deviations["std"], data.std(axis=(0, 1)), rtol=1e-5)
assert set(deviations) == set(ctx.run_udf(ds, StdDevUDF()))
total = ctx.run_udf(ds, libertem.udf.sum.SumUDF(), roi=ds.roi[2:4, ::2])
assert np.array_equal(total["intensity"].data, data[2:4, ::2].sum(axis=(0, 1)))
listed = ctx.run_udf(ds, libertem.udf.sumsigudf.SumSigUDF(), roi=[(0, 1), [2, 3]])
assert listed["intensity"].valid_mask.sum() == 2
ctx.export_dataset(ds, "exported.npy")
assert detect("exported.npy", executor=ctx.executor)["type"] == "npy"
assert "raw" in filetypes
assert "mib" in get_extensions()
assert (ds.meta.image_count, tuple(ds.meta.shape)) == (42, (6, 7, 32, 32))
assert np.array_equal(ds[2, -1], data[2, -1])
