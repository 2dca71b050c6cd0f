"""A first look at a file, as a notebook of LiberTEM's has it."""

import libertem.api as lt
import libertem.udf
import matplotlib.pyplot as plt
import numpy as np
from libertem.viz import rgb_from_2dvector

path = "scan.npy"
np.save(path, np.random.default_rng(0).poisson(2, (8, 9, 32, 32)).astype("u2"))
ctx = lt.Context.make_with("inline")
ds = ctx.load("auto", path=path)
frames = np.load(path)

sum_analysis = ctx.create_sum_analysis(dataset=ds)
sum_result = ctx.run(sum_analysis, progress=False)
fig, axes = plt.subplots()
axes.imshow(sum_result.intensity)
for channel in sum_result:
    axes.set_title(channel.title)
    axes.imshow(channel.visualized)
assert np.array_equal(sum_result.intensity, frames.sum(axis=(0, 1)))

com = ctx.run(ctx.create_com_analysis(dataset=ds, cx=16, cy=16, mask_radius=10))
x, y = com.field.raw_data
assert np.array_equal(x, com.x.raw_data)
guess = libertem.udf.com.guess_corrections(y, x)
assert isinstance(guess.flip_y, bool)
axes.imshow(rgb_from_2dvector(x=x, y=y))
assert com.divergence.raw_data.shape == com.curl.raw_data.shape == (8, 9)

ring = ctx.run(ctx.create_ring_analysis(dataset=ds, cx=16, cy=16, ri=5, ro=14))
disk = ctx.run(ctx.create_disk_analysis(ds, cx=16, cy=16, r=5))
np.save("ring.npy", ring["intensity"])
assert np.load("ring.npy").shape == (8, 9)
assert (np.asarray(ring.intensity) - disk.intensity).shape == (8, 9)
picked = ctx.run(ctx.create_pick_analysis(dataset=ds, x=3, y=5)).intensity.raw_data
assert np.array_equal(picked, frames[5, 3])
assert ctx.run(ctx.create_point_analysis(ds, x=3, y=5))[0].raw_data[1, 1] == frames[1, 1, 5, 3]
rings = ctx.create_radial_fourier_analysis(ds, n_bins=2, max_order=4, cx=16, cy=16, ri=3, ro=10)
assert ctx.run(rings).complex_0_1.raw_data.shape == (8, 9)
plt.close("all")
ctx.close()
