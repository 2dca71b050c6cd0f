"""A Dask array in, and Dask arrays out: electrons counted while they are simulated.

The frames are a Dask array that no memory holds: each chunk is made when it is needed. A function
of one's own counts hits per frame, and finds where the beam goes; more of Dask follows, and then
all is computed in one pass over the data::

    pip install dask matplotlib
    python examples/dask_array.py --out pictures
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import dask
import dask.array as da
import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt

import framefold as ff
from framefold.udf.com import CoMUDF

Array = npt.NDArray[Any]

#: Rows and columns of the detector, the radius of the beam on it, and electrons per frame.
DETECTOR, RADIUS, DOSE = 64, 9.0, 2000.0
#: How far the field of the vortex moves the beam at most, in pixels.
DEFLECTION = 3.0


def deflection(y: Array, x: Array) -> tuple[Array, Array]:
    """Where a vortex at (0, 0) moves the beam, in pixels, at positions from -1 to 1."""
    radius = np.hypot(y, x)
    strength = DEFLECTION * np.exp(0.5) * 2 * np.exp(-2 * radius**2)
    return strength * x, -strength * y


def frames(y: Array, x: Array) -> Array:
    """Counts at positions of shape (rows, columns, 1, 1): random, and the same every time."""
    shift_y, shift_x = deflection(y, x)
    rows, columns = np.ogrid[:DETECTOR, :DETECTOR]
    distance = np.hypot(rows - DETECTOR / 2 - shift_y, columns - DETECTOR / 2 - shift_x)
    disk = 1 / (1 + np.exp((distance - RADIUS) / 0.5))
    thickness = 1 - 0.6 * np.exp(-4 * ((y - 0.3) ** 2 + (x + 0.3) ** 2))
    expected = disk / disk.sum(axis=(2, 3), keepdims=True) * DOSE * thickness
    seed = [int(1e6 * (1 + value)) for value in (y.flat[0], x.flat[0])]
    return np.random.default_rng(seed).poisson(expected).astype(np.uint16)


def simulate(scan: tuple[int, int]) -> Any:
    """A scan as a Dask array of shape (rows, columns, DETECTOR, DETECTOR)."""
    rows, columns = scan
    y = da.linspace(-1, 1, rows, chunks=8).reshape((rows, 1, 1, 1))
    x = da.linspace(-1, 1, columns, chunks=columns).reshape((1, columns, 1, 1))
    return da.map_blocks(
        frames,
        *da.broadcast_arrays(y, x),
        dtype=np.uint16,
        chunks=(y.chunks[0], x.chunks[1], (DETECTOR,), (DETECTOR,)),
    )


class HitsUDF(ff.UDF):
    """How many electrons hit the detector, and how many pixels saw any, per frame."""

    def get_result_buffers(self) -> Any:
        return {
            "electrons": self.buffer(kind="nav", dtype="int64"),
            "pixels": self.buffer(kind="nav", dtype="int64"),
        }

    def process_tile(self, tile: Array) -> None:
        self.results.electrons[:] += tile.sum(axis=(1, 2), dtype="int64")
        self.results.pixels[:] += np.count_nonzero(tile, axis=(1, 2))


def draw(electrons: Array, curl: Array, coincidence: Array, path: Path) -> None:
    """Draw the three maps."""
    figure, axes = plt.subplots(1, 3, figsize=(11, 3.2), layout="constrained")
    maps = {
        "electrons per frame": (electrons, "viridis"),
        "curl of the deflection (px)": (curl, "RdBu"),
        "electrons per pixel hit": (coincidence, "magma"),
    }
    for axis, (title, (values, colours)) in zip(axes, maps.items(), strict=True):
        image = axis.imshow(values, cmap=colours)
        axis.set(title=title, xlabel="column", ylabel="row")
        figure.colorbar(image, ax=axis)
    figure.savefig(path, dpi=120)


def main() -> None:
    """Simulate, run, compute, and draw."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scan", type=int, nargs=2, default=(64, 72), metavar=("ROWS", "COLUMNS"))
    parser.add_argument("--out", type=Path, default=Path("pictures"))
    arguments = parser.parse_args()
    arguments.out.mkdir(parents=True, exist_ok=True)

    array = simulate(tuple(arguments.scan))
    print(array)
    ctx = ff.Context.make_with("delayed")
    dataset = ctx.load("dask", array, sig_dims=2)
    com = CoMUDF(cy=DETECTOR / 2, cx=DETECTOR / 2, r=RADIUS + 2 * DEFLECTION)
    hits, field = ctx.run_udf(dataset=dataset, udf=[HitsUDF(), com])

    # Dask arrays like any other: nothing is computed yet.
    electrons, pixels = hits["electrons"].delayed_data, hits["pixels"].delayed_data
    coincidence = electrons / da.maximum(pixels, 1)
    total = electrons.sum()

    # One pass over the data for all of them.
    values = dask.compute(electrons, coincidence, total, *(field[n].delayed_data for n in FIELD))
    electrons, coincidence, total, curl, shift_y, shift_x = values
    print(f"{total} electrons in {electrons.size} frames")

    rows, columns = arguments.scan
    expected = deflection(np.linspace(-1, 1, rows)[:, None], np.linspace(-1, 1, columns)[None])
    error = np.hypot(shift_y - expected[0], shift_x - expected[1])
    print(f"the beam is found within {np.sqrt((error**2).mean()):.2f} pixels (rms)")
    picture = arguments.out / "vortex.png"
    draw(electrons, curl, coincidence, picture)
    print(f"the picture is in {picture}")


#: Results of the centres of mass that are used.
FIELD = ("curl", "field_y", "field_x")

if __name__ == "__main__":
    main()
