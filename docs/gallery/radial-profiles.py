"""Radial profiles.

Sums over thin rings, for each position: a profile in the inclusion and one beside it. Rings are
sparse masks, so that thirty of them take little longer than one.
"""

import matplotlib.pyplot as plt
import numpy as np

import framefold as ff
from framefold.masks import radial_bins

ctx = ff.Context()
dataset = ff.example_scan("medium")


def rings():
    """Thirty rings of equal width around the beam."""
    return radial_bins(64, 64, 128, 128, radius=60, n_bins=30, normalize=True, use_sparse=True)


profiles = ctx.run_udf(dataset=dataset, udf=ff.ApplyMasksUDF(rings))["intensity"].data

y, x = np.indices(tuple(dataset.shape.nav)) - 32
inside = np.hypot(y, x) < 10
outside = np.hypot(y, x) > 20
figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
radius = np.arange(1, 61, 2)
axes.semilogy(radius, profiles[inside].mean(axis=0), label="in the inclusion")
axes.semilogy(radius, profiles[outside].mean(axis=0), label="beside it")
axes.set(xlabel="distance from the beam in pixels", ylabel="mean counts per pixel")
axes.legend()
plt.show()
