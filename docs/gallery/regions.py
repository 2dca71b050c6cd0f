"""Patterns of two regions.

A region of interest says which positions take part; the others are not read. Here, the mean
pattern of the inclusion, that beside it, and their difference.
"""

import matplotlib.pyplot as plt
import numpy as np

import framefold as ff

ctx = ff.Context()
dataset = ff.example_scan("medium")
y, x = np.indices(tuple(dataset.shape.nav)) - 32
regions = {"in the inclusion": np.hypot(y, x) < 10, "beside it": np.hypot(y, x) > 20}

means = {}
for name, roi in regions.items():
    total = ctx.run_udf(dataset=dataset, udf=ff.SumUDF(), roi=roi)["intensity"].data
    means[name] = total / roi.sum()

figure, axes = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
for axis, (name, mean) in zip(axes[:2], means.items(), strict=True):
    axis.imshow(np.log1p(mean), cmap="magma")
    axis.set_title(name)
first, second = means.values()
shown = axes[2].imshow(first - second, cmap="RdBu_r", vmin=-4, vmax=4)
figure.colorbar(shown, ax=axes[2], label="counts")
axes[2].set_title("difference")
plt.show()
