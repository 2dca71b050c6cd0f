"""Five results from one pass over a scan: three images, a mean pattern and a strain map.

Without arguments, a crystal with a strained inclusion is simulated and written as a Merlin MIB
data set first. With a path, the same is done with any file that framefold can open::

    python examples/demo.py
    python examples/demo.py scan.hdr --out pictures
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt

import framefold as ff
from framefold.detectors import disk, ring
from framefold.udf.com import CoMUDF
from framefold.udf.masks import ApplyMasksUDF
from framefold.udf.sum import SumUDF
from framefold.utils.simulate import StrainedCrystal, write_mib


class BraggVectorUDF(ff.UDF):
    """The vector from the undiffracted beam to one Bragg disk, frame by frame.

    A function written in Python that runs in the same pass as the native ones. A disk is found
    by its brightest neighbourhood, then by the centre of mass around it, moved along with the
    result until it stays. Since the beam is measured as well, shifts of the pattern drop out.

    Parameters
    ----------
    beam, disk
        Where the two are on average: (y, x) in pixels.
    r_disk
        The radius of a disk in pixels.
    """

    def __init__(self, beam: tuple[float, float], disk: tuple[float, float], r_disk: float) -> None:
        super().__init__(beam=beam, disk=disk, r_disk=r_disk)

    def get_result_buffers(self) -> dict[str, Any]:
        """Declare a vector (y, x) in pixels for each frame."""
        return {"vector": self.buffer(kind="nav", extra_shape=(2,), dtype="float64")}

    def process_frame(self, frame: npt.NDArray[Any]) -> None:
        """Measure one frame."""
        radius = self.params.r_disk
        beam = find_disk(frame, self.params.beam, radius)
        self.results.vector[:] = find_disk(frame, self.params.disk, radius) - beam


def find_disk(
    frame: npt.NDArray[Any], near: tuple[float, float], radius: float
) -> npt.NDArray[np.float64]:
    """Find the disk (y, x) whose centre is at most about its radius from ``near``."""
    reach = int(np.ceil(2 * radius))
    top = max(0, round(near[0]) - reach)
    left = max(0, round(near[1]) - reach)
    window = frame[top : round(near[0]) + reach + 1, left : round(near[1]) + reach + 1]
    blurred = box_sum(window, max(1, round(0.7 * radius)))
    found = np.array(np.unravel_index(np.argmax(blurred), window.shape), dtype=float)
    for _ in range(3):
        found = center_of_mass(window, found, 1.3 * radius)
    return found + np.array([top, left])


def box_sum(frame: npt.NDArray[Any], size: int) -> npt.NDArray[np.float64]:
    """Sum over a square of 2 * size + 1 pixels around each pixel."""
    padded = np.pad(frame.astype(np.float64), ((size + 1, size), (size + 1, size)))
    sums = padded.cumsum(axis=0).cumsum(axis=1)
    edge = 2 * size + 1
    result: npt.NDArray[np.float64] = (
        sums[edge:, edge:] - sums[:-edge, edge:] - sums[edge:, :-edge] + sums[:-edge, :-edge]
    )
    return result


def center_of_mass(
    frame: npt.NDArray[Any], position: npt.NDArray[np.float64], radius: float
) -> npt.NDArray[np.float64]:
    """Give the centre of mass (y, x) within a circle; the circle's centre if it is empty."""
    first = np.maximum(np.floor(position - radius).astype(int), 0)
    last = np.ceil(position + radius).astype(int) + 1
    window = frame[first[0] : last[0], first[1] : last[1]]
    y = np.arange(first[0], first[0] + window.shape[0])[:, None]
    x = np.arange(first[1], first[1] + window.shape[1])[None, :]
    weights = window * ((y - position[0]) ** 2 + (x - position[1]) ** 2 <= radius**2)
    total = weights.sum()
    if total <= 0:
        return position
    return np.array([(weights * y).sum(), (weights * x).sum()]) / total


def main() -> None:
    """Simulate if asked to, analyse in one pass, draw."""
    arguments = parse_arguments()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    path = arguments.data or simulate(out / "scan.hdr", tuple(arguments.scan))

    ctx = ff.Context()
    dataset = ctx.open(path)
    print(f"{path}: {tuple(dataset.shape)}, {dataset.dtype}")
    height, width = tuple(dataset.shape.sig)[-2:]

    # One look at some frames tells where the beam is and how wide.
    few = np.zeros(tuple(dataset.shape.nav), dtype=bool)
    few.flat[:: max(1, few.size // 100)] = True
    mean = np.asarray(ctx.run_udf(dataset=dataset, udf=SumUDF(), roi=few)["intensity"].data)
    cy, cx, r = find_beam(mean)
    # High angles, where diffuse scattering counts more than diffraction; up to the corners.
    outer = np.hypot(height, width) / 2
    inner = min(9 * r, 0.6 * outer)
    bragg_disk = find_strongest_disk(mean, cy, cx, r)
    print(f"beam at y = {cy:.1f}, x = {cx:.1f}, radius {r:.1f} pixels")
    print(f"strongest Bragg disk at y = {bragg_disk[0]:.1f}, x = {bragg_disk[1]:.1f}")

    def bright_field() -> npt.NDArray[Any]:
        return disk((height, width), cy=cy, cx=cx, r=1.3 * r)

    def dark_field() -> npt.NDArray[Any]:
        return ring((height, width), cy=cy, cx=cx, ri=inner, ro=outer)

    start = time.perf_counter()
    images, total, com, bragg = ctx.run_udf(
        dataset=dataset,
        udf=[
            ApplyMasksUDF(mask_factories=[bright_field, dark_field]),
            SumUDF(),
            CoMUDF(cy=cy, cx=cx, r=1.5 * r),
            BraggVectorUDF(beam=(cy, cx), disk=bragg_disk, r_disk=r),
        ],
        progress=True,
    )
    seconds = time.perf_counter() - start
    print(f"{dataset.shape.nav.size} frames, 4 functions, one pass: {seconds:.1f} s")

    intensity = np.asarray(images["intensity"].data)
    length = np.linalg.norm(np.asarray(bragg["vector"].data), axis=-1)
    # Stretched in real space means closer together in the pattern.
    strain = np.nanmedian(length) / length - 1
    pictures = {
        "mean-pattern": (np.log1p(total["intensity"].data), "sum of all frames", "log(1 + counts)"),
        "bright-field": (intensity[..., 0], "virtual bright field", "counts"),
        "dark-field": (intensity[..., 1], "annular dark field", "counts"),
        "com-y": (com["field_y"].data, "centre of mass, y", "shift in pixels"),
        "com-x": (com["field_x"].data, "centre of mass, x", "shift in pixels"),
        "strain": (100 * strain, "strain along one Bragg vector", "strain in %"),
    }
    signed = ("com-y", "com-x", "strain")
    for name, (image, title, unit) in pictures.items():
        figure, axes = plt.subplots(figsize=(5.5, 4.5), layout="constrained")
        draw(axes, np.asarray(image), title, unit, is_signed=name in signed)
        figure.savefig(out / f"{name}.png", dpi=150)
        plt.close(figure)
    figure, places = plt.subplots(2, 3, figsize=(10, 5.6), layout="constrained")
    for axes, (name, (image, title, unit)) in zip(places.flat, pictures.items(), strict=True):
        draw(axes, np.asarray(image), title, unit, is_signed=name in signed)
        axes.set(xlabel="", ylabel="", xticks=[], yticks=[])
    figure.savefig(out / "overview.png", dpi=100)
    plt.close(figure)
    print(f"pictures in {out}: " + ", ".join(f"{name}.png" for name in ("overview", *pictures)))


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path, help="a file that framefold can open")
    parser.add_argument("--out", type=Path, default=Path("demo-output"), help="where to write")
    parser.add_argument(
        "--scan",
        type=int,
        nargs=2,
        default=(64, 64),
        metavar=("ROWS", "COLUMNS"),
        help="size of the simulated scan",
    )
    return parser.parse_args()


def simulate(path: Path, nav_shape: tuple[int, int]) -> Path:
    """Write a simulated scan as a MIB data set; the path is that of its ``.hdr`` file."""
    # The field of view stays the same.
    crystal = StrainedCrystal(nav_shape=nav_shape, scan_step=64 / max(nav_shape))
    print(f"simulating {nav_shape[0]} x {nav_shape[1]} frames of a strained crystal …")
    frames = (frame for row in crystal.rows() for frame in row)
    write_mib(path, frames, nav_shape, depth=12, overwrite=True)
    return path


def find_beam(mean: npt.NDArray[Any]) -> tuple[float, float, float]:
    """Estimate centre (y, x) and radius of the undiffracted beam, the brightest disk."""
    image = np.asarray(mean, dtype=np.float64)
    seed = max(1, min(image.shape) // 40)
    blurred = box_sum(image, seed)
    position = np.array(np.unravel_index(np.argmax(blurred), image.shape), dtype=float)
    radius = float(seed)
    for _ in range(12):
        position = center_of_mass(image, position, max(1.5 * radius, 2.0))
        y, x = np.indices(image.shape)
        distance = np.hypot(y - position[0], x - position[1])
        core = np.median(image[distance <= max(radius / 2, 1.0)])
        # The area of what is brighter than half; no further out, so that no other disk counts.
        near = distance < max(1.8 * radius, 3.0)
        radius = float(np.sqrt(np.count_nonzero((image > core / 2) & near) / np.pi))
        radius = float(np.clip(radius, 1.0, min(image.shape) / 8))
    return float(position[0]), float(position[1]), radius


def find_strongest_disk(
    mean: npt.NDArray[Any], cy: float, cx: float, r: float
) -> tuple[float, float]:
    """Find the brightest disk (y, x) apart from the undiffracted beam."""
    y, x = np.indices(mean.shape)
    distance = np.hypot(y - cy, x - cx)
    blurred = box_sum(mean, max(1, round(0.7 * r)))
    # Far enough from the beam, and not cut off by the detector's border.
    inside = np.minimum.reduce([y, x, mean.shape[0] - 1 - y, mean.shape[1] - 1 - x]) > 2 * r
    apart = (distance > 2.5 * r) & inside
    if not apart.any():
        return cy, cx
    brightest = np.argmax(np.where(apart, blurred, -np.inf))
    found = np.array(np.unravel_index(brightest, mean.shape), dtype=float)
    for _ in range(4):
        found = center_of_mass(mean, found, 1.3 * r)
    return float(found[0]), float(found[1])


def draw(axes: Any, image: npt.NDArray[Any], title: str, unit: str, *, is_signed: bool) -> None:
    """Draw one image with title and colour bar; contrast between percentiles."""
    # Scans of one axis become a line of pixels, higher ones show their first plane.
    image = np.atleast_2d(image)
    while image.ndim > 2:
        image = image[0]
    low, high = np.nanpercentile(image, (0.5, 99.5)) if np.isfinite(image).any() else (0, 1)
    if is_signed:
        middle = np.nanmedian(image)
        reach = max(high - middle, middle - low, 1e-9)
        low, high = middle - reach, middle + reach
    shown = axes.imshow(
        image, vmin=low, vmax=high, cmap="RdBu_r" if is_signed else "viridis", aspect="equal"
    )
    axes.set(title=title, xlabel="x in pixels", ylabel="y in pixels")
    axes.figure.colorbar(shown, ax=axes, label=unit)


if __name__ == "__main__":
    main()
