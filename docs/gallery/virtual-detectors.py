"""Virtual detectors.

Bright field, a ring of Bragg disks, and annular dark field from one pass. A mask says how much
each pixel of the detector counts.
"""

import matplotlib.pyplot as plt
import numpy as np

import framefold as ff
from framefold.masks import circular, ring

ctx = ff.Context()
dataset = ff.example_scan("medium")
cy, cx, size = 64, 64, 128


def detectors():
    """Three masks: a disk and two rings."""
    return np.stack(
        [
            circular(cx, cy, size, size, 8),
            ring(cx, cy, size, size, 34, 14),
            ring(cx, cy, size, size, 90, 50),
        ]
    )


result = ctx.run_udf(dataset=dataset, udf=ff.ApplyMasksUDF(detectors))
images = result["intensity"].data

figure, axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained")
for index, title in enumerate(("bright field", "Bragg disks", "dark field")):
    shown = axes[index].imshow(images[..., index], cmap="gray")
    figure.colorbar(shown, ax=axes[index], label="counts")
    axes[index].set_title(title)
plt.show()
