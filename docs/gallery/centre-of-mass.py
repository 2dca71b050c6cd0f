"""Centre of mass.

Where the pattern is shifted to, at each position: its direction as a hue, its length as
saturation, with a colour wheel. The inclusion deflects the beam at its border; a slow change over
the scan, from the deflection of the beam itself, is fitted and taken off.
"""

import matplotlib.pyplot as plt
import numpy as np

import framefold as ff
from framefold.udf.com import RegressionOptions
from framefold.viz import rgb_from_2dvector

ctx = ff.Context()
dataset = ff.example_scan("medium")

udf = ff.CoMUDF(cy=64, cx=64, r=9, regression=RegressionOptions.SUBTRACT_LINEAR)
result = ctx.run_udf(dataset=dataset, udf=udf)
y, x = result["field_y"].data, result["field_x"].data

figure, (left, middle, right) = plt.subplots(1, 3, figsize=(10, 3.2), layout="constrained")
left.imshow(rgb_from_2dvector(x=x, y=y, vmax=0.6))
left.set_title("direction and length")
wheel_y, wheel_x = np.mgrid[-1:1:101j, -1:1:101j]
inside = np.hypot(wheel_y, wheel_x) <= 1
corner = left.inset_axes((0.74, 0.02, 0.24, 0.24))
corner.imshow(rgb_from_2dvector(x=wheel_x * inside, y=wheel_y * inside))
corner.axis("off")
for axis, image, title in ((middle, y, "shift in y"), (right, x, "shift in x")):
    shown = axis.imshow(image, cmap="RdBu_r", vmin=-0.6, vmax=0.6)
    figure.colorbar(shown, ax=axis, label="pixels")
    axis.set_title(title)
plt.show()
