"""Strain from the positions of diffraction disks, found by libertem-blobfinder.

The package was written for LiberTEM, and runs as it was published. A crystal with a strained
inclusion is simulated, whose strain is known; the package finds disks, fits a lattice to those
of each frame, and the strain follows from how the lattice changes::

    pip install libertem-blobfinder matplotlib
    python examples/blobfinder.py --out pictures
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt

import framefold as ff
from framefold.utils.simulate import StrainedCrystal

# Before the first import of a package that imports libertem.
ff.install_as_libertem()

from libertem_blobfinder.common.correlation import get_peaks  # noqa: E402
from libertem_blobfinder.common.gridmatching import Matcher  # noqa: E402
from libertem_blobfinder.common.patterns import BackgroundSubtraction, MatchPattern  # noqa: E402
from libertem_blobfinder.udf.refinement import run_refine  # noqa: E402
from libertem_blobfinder.udf.utils import visualize_frame  # noqa: E402

Array = npt.NDArray[Any]


def first_guess(total: Array, pattern: MatchPattern, center: tuple[float, float]) -> list[Array]:
    """Estimate the lattice (zero, a, b) from the sum of all frames.

    The peaks nearest to the beam are its neighbours in the lattice: the first is a, and the
    first of the others that is not on one line with it is b.
    """
    peaks = get_peaks(np.log1p(total), pattern, num_peaks=9)
    zero = peaks[np.argmin(np.linalg.norm(peaks - center, axis=1))]
    steps = sorted((peak - zero for peak in peaks), key=np.linalg.norm)[1:]
    a = steps[0]
    b = next(
        step
        for step in steps
        if abs(np.cross([*a, 0], [*step, 0])[2]) > 0.5 * np.linalg.norm(a) * np.linalg.norm(step)
    )
    return [zero, a, b]


def strain_of(a: Array, b: Array, reference: Array) -> Array:
    r"""Relative change of distances in the crystal: shape ``(*nav, 2, 2)``, axes (y, x).

    Lattice vectors in a diffraction pattern are reciprocal ones: with those of the reference in
    the rows of :math:`G_0` and the local ones in :math:`G`, positions in the crystal are
    deformed by :math:`G^{-1} G_0`, of which strain is the symmetric part minus 1 (Hÿtch, Snoeck
    and Kilaas, Ultramicroscopy 74 (1998) 131).

    Parameters
    ----------
    a, b
        Shape ``(*nav, 2)``.
    reference
        Which frames show the unstrained crystal: bool, shape ``nav``.
    """
    bases = np.stack([a, b], axis=-2)
    unstrained = bases[reference].mean(axis=0)
    deformation = np.linalg.inv(bases) @ unstrained
    symmetric: Array = (deformation + np.swapaxes(deformation, -1, -2)) / 2 - np.eye(2)
    return symmetric


def main() -> None:
    """Simulate, find, fit, compare, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("blobfinder-output"), metavar="FOLDER")
    parser.add_argument("--scan", type=int, nargs=2, default=(40, 40), metavar=("ROWS", "COLUMNS"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)

    rows, columns = arguments.scan
    crystal = StrainedCrystal(
        nav_shape=(rows, columns),
        scan_step=60.0 / max(rows, columns),
        electrons_per_frame=100_000.0,
    )
    ctx = ff.Context()
    dataset = ctx.load("memory", data=crystal.counts(), sig_dims=2)

    pattern = BackgroundSubtraction(radius=crystal.disk_radius)
    total = ctx.run_udf(dataset=dataset, udf=ff.SumUDF())["intensity"].data
    zero, a, b = first_guess(total, pattern, crystal.center)
    result, indices = run_refine(
        ctx,
        dataset,
        zero=zero,
        a=a,
        b=b,
        match_pattern=pattern,
        matcher=Matcher(),
        match="affine",
        indices=np.mgrid[-2:3, -2:3],
        upsample=True,
    )
    print(f"{len(indices)} disks in each of {dataset.shape.nav.size} frames")

    # Far from the inclusion the crystal is as good as unstrained.
    reference = np.linalg.norm(crystal.positions, axis=-1) > 2 * crystal.inclusion_radius
    found = strain_of(result["a"].data, result["b"].data, reference)
    truth = crystal.strain - crystal.strain[reference].mean(axis=0)
    error = np.sqrt(np.mean((found - truth) ** 2))
    print(f"strain: from {truth.min():.2%} to {truth.max():.2%}, found within {error:.2%} (rms)")

    draw_lattice(ctx, dataset, result, indices, crystal, arguments.out / "lattice.png")
    draw_strain(found, truth, crystal, arguments.out / "strain.png")
    print(f"pictures in {arguments.out}")


def draw_lattice(
    ctx: ff.Context,
    dataset: Any,
    result: Any,
    indices: Array,
    crystal: StrainedCrystal,
    path: Path,
) -> None:
    """Draw the middle frame with the disks that were found and the lattice through them."""
    y, x = (length // 2 for length in crystal.nav_shape)
    figure, axes = plt.subplots(figsize=(5, 5), layout="constrained")
    visualize_frame(
        ctx, dataset, result, indices, r=crystal.disk_radius, y=y, x=x, axes=axes, stretch=10
    )
    axes.set_title(f"disks and lattice at y={y}, x={x}")
    height, width = crystal.sig_shape
    axes.set(xlabel="x / px", ylabel="y / px")
    axes.set(xlim=(-0.5, width - 0.5), ylim=(height - 0.5, -0.5))
    figure.savefig(path, dpi=120)
    plt.close(figure)


def draw_strain(found: Array, truth: Array, crystal: StrainedCrystal, path: Path) -> None:
    """Draw the three components of strain: what was found above what was put in."""
    figure, axes = plt.subplots(
        2, 3, figsize=(9, 6), sharex=True, sharey=True, layout="constrained"
    )
    rows, columns = crystal.nav_shape
    extent = (0, columns * crystal.scan_step, rows * crystal.scan_step, 0)
    limit = 100 * np.abs(truth).max()
    components = {"xx": (1, 1), "yy": (0, 0), "xy": (0, 1)}
    for line, (label, strain) in zip(axes, {"found": found, "truth": truth}.items(), strict=True):
        for ax, (name, index) in zip(line, components.items(), strict=True):
            image = ax.imshow(
                100 * strain[(..., *index)], cmap="RdBu_r", vmin=-limit, vmax=limit, extent=extent
            )
            ax.set_title(rf"$\epsilon_{{{name}}}$, {label}")
    for ax in axes[-1]:
        ax.set_xlabel("x / nm")
    for ax in axes[:, 0]:
        ax.set_ylabel("y / nm")
    figure.colorbar(image, ax=axes, label="strain / %", shrink=0.8)
    figure.savefig(path, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    main()
