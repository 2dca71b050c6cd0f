"""From one lazy HyperSpy signal to another: radial profiles of a scan.

HyperSpy opens a file without reading it. framefold makes the radial profile of each diffraction
pattern, as tasks of the same graph, and HyperSpy goes on with the profiles. Nothing is read before
the end, and then every chunk of the file once::

    pip install hyperspy dask matplotlib
    python examples/hyperspy_lazy.py --out pictures
"""

from __future__ import annotations

import argparse
from functools import partial
from pathlib import Path
from typing import Any

import dask
import hyperspy.api as hs
import matplotlib.pyplot as plt
import numpy as np

import framefold as ff
from framefold.masks import radial_bins
from framefold.udf.masks import ApplyMasksUDF
from framefold.utils.simulate import StrainedCrystal

#: Widths of a scan step in nm and of a detector pixel in 1/nm.
SCAN_STEP, CAMERA_STEP = 6.0, 0.22
#: Rows and columns of the detector, and the number of rings.
DETECTOR, RINGS = 64, 32
#: Between which scattering vectors, in 1/nm, the ring detector lies.
RING = (4.5, 7.0)


def simulate(folder: Path, scan: tuple[int, int]) -> Path:
    """Write a scan over a crystal with an inclusion as a file of HyperSpy's own format."""
    crystal = StrainedCrystal(
        nav_shape=scan,
        sig_shape=(DETECTOR, DETECTOR),
        scan_step=SCAN_STEP,
        camera_step=CAMERA_STEP,
        disk_radius=3.0,
        inclusion_radius=60.0,
    )
    signal = hs.signals.Signal2D(crystal.counts())
    for axis, name in zip(signal.axes_manager.navigation_axes, "xy", strict=True):
        axis.name, axis.scale, axis.units = name, SCAN_STEP, "nm"
    for axis, name in zip(signal.axes_manager.signal_axes, ("kx", "ky"), strict=True):
        axis.name, axis.scale, axis.units = name, CAMERA_STEP, "1/nm"
    path = folder / "scan.hspy"
    signal.save(path, overwrite=True, chunks=(4, scan[1], DETECTOR, DETECTOR))
    return path


def profiles_of(patterns: Any) -> Any:
    """The radial profiles of a lazy signal of patterns, as a lazy signal.

    Rings of equal width around the centre of the detector, from 0 to its edge; values are mean
    counts per pixel.
    """
    ctx = ff.Context.make_with("delayed")
    manager = patterns.axes_manager
    dataset = ctx.load("dask", patterns.data, sig_dims=manager.signal_dimension)
    height, width = dataset.shape.sig
    rings = partial(
        radial_bins,
        centerX=width / 2,
        centerY=height / 2,
        imageSizeX=width,
        imageSizeY=height,
        radius=width / 2,
        n_bins=RINGS,
        normalize=True,
        use_sparse=False,
    )
    masks = ApplyMasksUDF(mask_factories=rings, mask_count=RINGS, mask_dtype=np.float32)
    print(ctx.explain(dataset, masks))
    result = ctx.run_udf(dataset=dataset, udf=masks)["intensity"]

    # A Dask array of shape (rows, columns, rings): nothing is computed yet.
    profiles = hs.signals.Signal1D(result.delayed_data).as_lazy()
    for mine, theirs in zip(
        profiles.axes_manager.navigation_axes, manager.navigation_axes, strict=True
    ):
        mine.name, mine.scale, mine.units = theirs.name, theirs.scale, theirs.units
    axis = profiles.axes_manager.signal_axes[0]
    axis.name, axis.units = "scattering vector", "1/nm"
    axis.scale = manager.signal_axes[0].scale * width / 2 / RINGS
    axis.offset = axis.scale / 2
    return profiles


def check(patterns: Any, dark_field: Any) -> None:
    """Hold the picture against the mean of pixels in that ring."""
    y, x = np.indices((DETECTOR, DETECTOR)) - DETECTOR / 2
    radius = np.hypot(y, x) * CAMERA_STEP
    inside = (radius >= RING[0]) & (radius < RING[1])
    pixels = np.asarray(patterns.data)[..., inside].mean(axis=-1)
    agreement = np.corrcoef(pixels.ravel(), np.asarray(dark_field).ravel())[0, 1]
    print(f"correlation with the mean of the pixels in the ring: {agreement:.4f}")


def draw(profile: Any, dark_field: Any, path: Path) -> None:
    """Draw the mean profile and the image of the ring detector."""
    figure, (left, right) = plt.subplots(1, 2, figsize=(9, 3.6), layout="constrained")
    axis = profile.axes_manager.signal_axes[0]
    left.semilogy(axis.axis, profile.data)
    left.axvspan(*RING, alpha=0.2, label="ring detector")
    left.set(
        xlabel=f"{axis.name} ({axis.units})", ylabel="mean counts per pixel", title="radial profile"
    )
    left.legend()
    x, y = dark_field.axes_manager.signal_axes
    extent = (0, x.size * x.scale, y.size * y.scale, 0)
    image = right.imshow(dark_field.data, extent=extent)
    right.set(xlabel=f"{x.name} ({x.units})", ylabel=f"{y.name} ({y.units})", title="dark field")
    figure.colorbar(image, ax=right, label="mean counts per pixel")
    figure.savefig(path, dpi=120)


def main() -> None:
    """Simulate, open lazily, compute at the end, and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scan", type=int, nargs=2, default=(48, 60), metavar=("ROWS", "COLUMNS"))
    parser.add_argument("--out", type=Path, default=Path("pictures"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)

    path = simulate(arguments.out, tuple(arguments.scan))
    patterns = hs.load(path, lazy=True)
    profiles = profiles_of(patterns)
    assert profiles._lazy

    # HyperSpy's own operations, lazily, on what framefold will compute.
    profile = profiles.mean(axis=profiles.axes_manager.navigation_axes)
    dark_field = profiles.isig[RING[0] : RING[1]].mean(axis=-1).T

    # One pass for both.
    profile.data, dark_field.data = dask.compute(profile.data, dark_field.data)
    for signal in (profile, dark_field):
        signal._lazy = False
        signal._assign_subclass()
    check(patterns, dark_field.data)
    picture = arguments.out / "radial-profiles.png"
    draw(profile, dark_field, picture)
    print(f"the picture is in {picture}")


if __name__ == "__main__":
    main()
