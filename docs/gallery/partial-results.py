"""A result while the run goes on.

After each step, what is there so far can be looked at; positions that are still to come are
invalid, not zero.
"""

import matplotlib.pyplot as plt
import numpy as np

import framefold as ff

ctx = ff.Context.make_with("inline")
frames = np.asarray(ff.example_scan())
dataset = ctx.load("memory", data=frames, sig_dims=2, num_partitions=8)

so_far = []
for results in ctx.run_udf_iter(dataset=dataset, udf=ff.SumSigUDF()):
    so_far.append(results.buffers[0]["intensity"].data.copy())

figure, axes = plt.subplots(1, 4, figsize=(10, 2.8), layout="constrained")
for axis, step in zip(axes, (1, 3, 5, 7), strict=True):
    axis.imshow(so_far[step], vmin=so_far[-1].min(), vmax=so_far[-1].max())
    axis.set_title(f"after {step + 1} of 8 steps")
plt.show()
