"""Virtual detectors.

Bright field, a ring of Bragg disks, and annular dark field from one pass. A mask says how much
each pixel of the detector counts.
"""

import matplotlib.pyplot as plt

import framefold as ff

ctx = ff.Context()
dataset = ff.example_scan("medium")

detectors = ff.ReductionUDF("masks", disk=8, ring=[(14, 34), (50, 90)])
result = ctx.run_udf(dataset=dataset, udf=detectors)
images = result["intensity"].data

figure, axes = plt.subplots(1, 3, figsize=(10, 3), layout="constrained")
for index, title in enumerate(("bright field", "Bragg disks", "dark field")):
    shown = axes[index].imshow(images[..., index], cmap="gray")
    figure.colorbar(shown, ax=axes[index], label="counts")
    axes[index].set_title(title)
plt.show()
