"""How much each pixel of the detector varies.

Mean and standard deviation over the scan, beside what counting statistics alone would give. What
is left belongs to the specimen: disks that move and change.
"""

import matplotlib.pyplot as plt
import numpy as np

import framefold as ff

ctx = ff.Context()
dataset = ff.example_scan("medium")
result = ctx.run_udf(dataset=dataset, udf=ff.StdDevUDF())
mean, deviation = result["mean"].data, result["std"].data
excess = deviation / np.sqrt(np.maximum(mean, 1e-3))

figure, axes = plt.subplots(1, 3, figsize=(10, 3.1), layout="constrained")
pictures = {
    "mean": np.log1p(mean),
    "standard deviation": np.log1p(deviation),
    "relative to counting noise": np.clip(excess, 0.8, 2),
}
for axis, (title, picture) in zip(axes, pictures.items(), strict=True):
    figure.colorbar(axis.imshow(picture), ax=axis)
    axis.set_title(title)
plt.show()
