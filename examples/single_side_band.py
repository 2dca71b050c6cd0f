"""The phase of a thin crystal, by single side band ptychography with ptychography40.

The package was written for LiberTEM, and runs as it was published. A scan over a lattice of
light atoms is simulated, in which one atom is missing and one is heavier; from how disks
interfere in each frame follows the phase that the atoms give the electrons::

    pip install numba scipy sparse matplotlib
    pip install --no-deps ptychography40
    python examples/single_side_band.py --out pictures
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt

import framefold as ff

# Before the first import of a package that imports libertem.
ff.install_as_libertem()

from ptychography40.reconstruction.common import wavelength  # noqa: E402
from ptychography40.reconstruction.ssb import SSB_UDF  # noqa: E402

Array = npt.NDArray[Any]

#: Edge of the simulated square in m, and the number of points along it.
FIELD = 17.1e-10
POINTS = 96
#: Rows and columns of the detector.
DETECTOR = 48
#: Half angle of the beam's cone in radians, and the voltage in kV.
ANGLE = 25e-3
VOLTAGE = 80
#: Electrons per frame.
DOSE = 20_000


def atoms_phase() -> Array:
    """The phase in radians that the atoms add: shape (POINTS, POINTS), periodic.

    A honeycomb of 7 by 4 cells, stretched by less than a percent to fit the square.
    """
    cell_y, cell_x = FIELD / 4, FIELD / 7
    within = np.array([[0, 0], [1 / 6, 1 / 2], [1 / 2, 1 / 2], [2 / 3, 0]])
    cells = np.stack(np.mgrid[:4, :7], axis=-1).reshape(-1, 1, 2)
    atoms = ((cells + within) * (cell_y, cell_x)).reshape(-1, 2)
    heights = np.full(len(atoms), 0.12)
    heights[65], heights[47] = 0.0, 0.25

    axis = np.arange(POINTS) * FIELD / POINTS
    phase = np.zeros((POINTS, POINTS))
    for (y, x), height in zip(atoms, heights, strict=True):
        # The distance to the nearest copy of the atom.
        dy, dx = ((axis - at + FIELD / 2) % FIELD - FIELD / 2 for at in (y, x))
        phase += height * np.exp(-(dy[:, None] ** 2 + dx**2) / (2 * (0.3e-10) ** 2))
    return phase


def aperture_radius() -> float:
    """The radius of the beam's disk in detector pixels, which are 1 / FIELD wide."""
    return float(np.sin(ANGLE) / wavelength(VOLTAGE) * FIELD)


def simulate(phase: Array, n_scan: int, rng: np.random.Generator) -> Array:
    """Counts for a scan of ``n_scan`` by ``n_scan`` positions: shape (n, n, DETECTOR, DETECTOR).

    A focused probe is multiplied by the object's transmission and goes to the far field.
    """
    frequency = np.fft.fftfreq(POINTS, 1 / POINTS)
    distance = np.hypot(frequency[:, None], frequency)
    aperture = 1 / (1 + np.exp((distance - aperture_radius()) / 0.2))
    aperture /= np.sqrt((aperture**2).sum())
    transmission = np.exp(1j * phase)
    steps = np.arange(n_scan) / n_scan
    crop = slice(POINTS // 2 - DETECTOR // 2, POINTS // 2 + DETECTOR // 2)
    counts = np.empty((n_scan, n_scan, DETECTOR, DETECTOR), dtype=np.uint16)
    for row, y in enumerate(steps):
        tilt = frequency[:, None] * y + frequency * steps[:, None, None]
        probes = np.fft.ifft2(aperture * np.exp(-2j * np.pi * tilt), norm="ortho")
        waves = np.fft.fftshift(np.fft.fft2(probes * transmission, norm="ortho"), axes=(1, 2))
        counts[row] = rng.poisson(DOSE * np.abs(waves[:, crop, crop]) ** 2)
    return counts


def resolved(phase: Array, n_scan: int) -> Array:
    """What of the phase the method can see: waves up to twice the aperture, at the scan's points.

    Parameters
    ----------
    phase
        Shape (POINTS, POINTS).
    n_scan
        Along each axis.
    """
    spectrum = np.fft.fft2(phase)
    frequency = np.fft.fftfreq(POINTS, 1 / POINTS)
    spectrum[np.hypot(frequency[:, None], frequency) > 2 * aperture_radius()] = 0
    spectrum[0, 0] = 0
    kept = np.abs(np.fft.fftfreq(POINTS, 1 / POINTS)) < n_scan / 2
    position = np.exp(2j * np.pi * np.outer(np.arange(n_scan) / n_scan, frequency * kept)) * kept
    seen: Array = (position @ spectrum @ position.T).real / POINTS**2
    return seen


def main() -> None:
    """Simulate, reconstruct, compare, draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("ssb-output"), metavar="FOLDER")
    parser.add_argument("--scan", type=int, default=48, metavar="N", help="positions per axis")
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)

    truth = atoms_phase()
    counts = simulate(truth, arguments.scan, np.random.default_rng(5))
    ctx = ff.Context()
    # The package makes its masks for each partition: some hundred times the work on 10 frames.
    dataset = ctx.load("memory", data=counts, sig_dims=2, num_partitions=8)

    udf = SSB_UDF(
        lamb=wavelength(VOLTAGE),
        dpix=FIELD / arguments.scan,
        semiconv=ANGLE,
        semiconv_pix=aperture_radius(),
        cy=DETECTOR // 2,
        cx=DETECTOR // 2,
        # Overlaps of few pixels carry more noise than signal.
        cutoff=16,
    )
    reconstruction, total = ctx.run_udf(dataset=dataset, udf=[udf, ff.SumUDF()])
    found = reconstruction["phase"].data
    found = found - found.mean()
    expected = resolved(truth, arguments.scan)
    match = np.corrcoef(found.reshape(-1), expected.reshape(-1))[0, 1]
    print(f"{dataset.shape.nav.size} frames; correlation with the true phase {match:.3f}")

    draw(total["intensity"].data, expected, found, arguments.out / "phase.png")
    print(f"picture in {arguments.out}")


def draw(total: Array, expected: Array, found: Array, path: Path) -> None:
    """Draw the sum of all frames, the true phase and the reconstructed one."""
    figure, (left, middle, right) = plt.subplots(1, 3, figsize=(12, 4), layout="constrained")
    left.imshow(np.log1p(total), cmap="viridis")
    left.set(title="sum of frames, logarithmic", xlabel="x / px", ylabel="y / px")
    extent = (0, FIELD * 1e9, FIELD * 1e9, 0)
    low, high = min(expected.min(), found.min()), max(expected.max(), found.max())
    for axes, phase, title in [
        (middle, expected, "true phase, as resolved"),
        (right, found, "single side band"),
    ]:
        image = axes.imshow(phase, cmap="inferno", vmin=low, vmax=high, extent=extent)
        axes.set(title=title, xlabel="x / nm", ylabel="y / nm")
    figure.colorbar(image, ax=[middle, right], label="phase / rad", shrink=0.8)
    figure.savefig(path, dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    main()
