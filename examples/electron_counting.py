"""From a raw file to a field: correct, descan, count electrons, and pass the result on.

A scan of low dose, and some frames without a beam, as an integrating detector records them. The
dark frame and the hot pixels are found in the latter. The beam wanders over the detector while it
scans: a plane is fitted to where it is, and frames are moved back. Electrons are counted, which
makes frames sparse, and a copy holds their places only. Their centre of mass goes to a Zarr file
while it is computed, with axes and units, which xarray opens; HyperSpy has Zarr files of its own.
Without a file, a scan is simulated and written first, and what is found is compared with what was
put in::

    pip install matplotlib xarray zarr hyperspy
    python examples/electron_counting.py --out pictures
    python examples/electron_counting.py scan.raw --dark dark.raw --out pictures
"""

from __future__ import annotations

import argparse
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import matplotlib.pyplot as plt
import numpy as np
import numpy.typing as npt

import framefold as ff
from framefold.io.corrections import CorrectionSet
from framefold.utils.simulate import StrainedCrystal

Array = npt.NDArray[Any]

#: What an electron leaves in its pixel on average, the zero of the converter, and its noise.
ENERGY, OFFSET, NOISE = 80.0, 100.0, 3.0
#: How many pixels are hot, and how many frames are recorded without a beam.
N_HOT, N_DARK = 12, 64
#: Pixels that are binned to find the beam.
BIN = 4


def main() -> None:
    """Simulate if asked to, correct, descan, count, and draw."""
    arguments = parse_arguments()
    out: Path = arguments.out
    out.mkdir(parents=True, exist_ok=True)
    crystal, path, dark_path = None, arguments.data, arguments.dark
    if path is None:
        crystal = simulated(tuple(arguments.scan))
        path, dark_path = record(crystal, out)
    ctx = ff.Context()
    scan = ctx.open(path)
    if crystal is not None:
        scan = scan.calibrate(
            scan_step=(crystal.scan_step, "nm"), pixel_size=(crystal.camera_step, "1/nm")
        )
    print(f"{path.name}: {tuple(scan.shape)}, {scan.dtype}")

    dark, noise, hot = without_beam(ctx, ctx.open(dark_path))
    clean = scan.pipe(CorrectionSet(dark=dark, excluded_pixels=hot))
    threshold = 6 * noise
    print(f"noise {noise:.2f}, {np.count_nonzero(hot)} hot pixels, threshold {threshold:.1f}")

    # The way of the beam over the detector is a smooth function of the place in the scan.
    coarse = clean.pipe(ff.Threshold(threshold), ff.Bin(BIN))
    found = ctx.run_udf(dataset=coarse, udf=ff.CoMUDF())
    fit = ff.fit_origin(in_pixels(found["raw_com"].data), "plane")
    shifts = np.rint(fit.shifts)
    print(f"the beam wanders by {np.ptp(fit.shifts, axis=(0, 1)).round(1)} pixels")

    # Electrons, where they would have hit the detector without that.
    electrons = clean.pipe(ff.Shift(-shifts), ff.Count(threshold))
    copy = out / "electrons.toml"
    ctx.convert(electrons, copy, overwrite=True)
    counted = ctx.open(copy)
    share = sum(file.stat().st_size for file in out.glob("electrons*")) / path.stat().st_size
    print(f"{copy.name}: sparse, {100 * share:.1f}% of the size of {path.name}")

    pattern, field = ctx.run_udf(
        dataset=counted,
        udf=[ff.SumUDF(), ff.CoMUDF()],
        out=out / "field.zarr",
        overwrite=True,
    )
    field.save(out / "field.zspy", overwrite=True)
    n_electrons = int(np.asarray(pattern["intensity"].data).sum())
    print(f"{n_electrons} electrons; their centres of mass are in {out / 'field.zarr'}")
    open_elsewhere(out)
    deflection = np.asarray(field["raw_com"].data) - fit.centre
    deflection += shifts - fit.shifts  # frames were moved by whole pixels
    if crystal is not None:
        compare(crystal, deflection, n_electrons)
    first = tuple(n // 2 for n in scan.shape.nav)
    frames = scan.frame(*first), counted.frame(*first)
    draw(out, frames, pattern["intensity"].data, fit.shifts, deflection)


def parse_arguments() -> argparse.Namespace:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", nargs="?", type=Path, help="a scan that framefold can open")
    parser.add_argument("--dark", type=Path, help="frames of the same detector without a beam")
    parser.add_argument("--out", type=Path, default=Path("counting-output"), help="where to write")
    parser.add_argument("--scan", type=int, nargs=2, default=(48, 48), help="of the simulation")
    arguments = parser.parse_args()
    if (arguments.data is None) != (arguments.dark is None):
        parser.error("a scan and frames without a beam go together: scan.raw --dark dark.raw")
    return arguments


def open_elsewhere(out: Path) -> None:
    """Open what was written with the programs that go on from there, as far as they are there."""
    if find_spec("xarray") and find_spec("zarr"):
        import xarray

        store = xarray.open_zarr(out / "field.zarr", group="CoMUDF", consolidated=False)
        centres = store["raw_com"]
        rows = centres.coords[centres.dims[0]]
        step = float(rows[1] - rows[0])
        print(f"xarray: {dict(centres.sizes)}, {step:.2f} {rows.units} from row to row")
    if find_spec("hyperspy"):
        import hyperspy.api as hs

        signals = hs.load(out / "field.zspy")
        signal = next(each for each in signals if each.metadata.General.title.endswith("raw_com"))
        print(f"HyperSpy: {signal}")


def without_beam(ctx: ff.Context, dataset: ff.DataSet) -> tuple[Array, float, Array]:
    """The dark frame, its noise, and which pixels are hot: far from what pixels usually are."""
    result = ctx.run_udf(dataset=dataset, udf=ff.StdDevUDF())
    mean, deviation = np.asarray(result["mean"].data), np.asarray(result["std"].data)
    hot = np.zeros(mean.shape, dtype=bool)
    for values in (mean, deviation):
        middle = np.median(values)
        usual = 1.4826 * np.median(np.abs(values - middle))
        hot |= values > middle + 8 * max(usual, 1e-3)
    return mean, float(np.median(deviation)), hot


def in_pixels(centres: Any) -> Array:
    """Places in binned frames as places in frames: a bin lies in the middle of its pixels."""
    return BIN * np.asarray(centres) + (BIN - 1) / 2


def simulated(nav_shape: tuple[int, int]) -> StrainedCrystal:
    """A scan whose beam wanders, and which the specimen deflects by up to 10 pixels."""
    return StrainedCrystal(
        nav_shape=nav_shape,
        scan_step=64 / max(nav_shape),
        camera_step=0.02,
        disk_radius=28.0,
        field_shift=10.0,
        border_width=4.0,
        descan_shift=(8.0, -10.0),
        electrons_per_frame=80.0,
        diffuse=0.02,
    )


def record(crystal: StrainedCrystal, folder: Path) -> tuple[Path, Path]:
    """Write what the detector would record: the scan, and frames without a beam."""
    rng = np.random.default_rng(7)
    offset = OFFSET + rng.normal(0, 5, crystal.sig_shape)
    hot = rng.choice(offset.size, N_HOT, replace=False)
    offset.flat[hot] += rng.uniform(500, 3000, N_HOT)

    def digitized(electrons: Array) -> Array:
        energy = np.where(electrons > 0, rng.gamma(12.0 * np.maximum(electrons, 1), ENERGY / 12), 0)
        return np.rint(np.clip(rng.normal(offset + energy, NOISE), 0, 65535)).astype(np.uint16)

    scan = np.stack([digitized(row) for row in crystal.rows()])
    np.save(folder / "scan.npy", scan)
    np.save(folder / "dark.npy", digitized(np.zeros((N_DARK, *crystal.sig_shape))))
    return folder / "scan.npy", folder / "dark.npy"


def compare(crystal: StrainedCrystal, deflection: Array, n_electrons: int) -> None:
    """Say how near the result is to what was put in."""
    true = sum(int(row.sum()) for row in crystal.rows())
    extent = [(n - 1) * crystal.scan_step for n in crystal.nav_shape]
    descan = np.asarray(crystal.descan_shift) * crystal.positions / np.asarray(extent)
    field = crystal.shift - descan
    known = deflection - deflection.mean(axis=(0, 1))
    correlation = np.corrcoef(known.ravel(), (field - field.mean(axis=(0, 1))).ravel())[0, 1]
    share = 100 * n_electrons / true
    print(f"{share:.1f}% of the electrons are counted; those that touch in a frame count once")
    print(f"correlation with the true deflection: {correlation:.3f}")


def draw(
    out: Path, frames: tuple[Array, Array], pattern: Any, shifts: Array, deflection: Array
) -> None:
    """One picture of all steps."""
    figure, places = plt.subplots(2, 3, figsize=(11, 7), layout="constrained")
    limit = float(np.abs(deflection).max())
    low, high = np.percentile(frames[0], (1, 99.5))
    for axes, image, title, how in (
        (places[0, 0], frames[0], "a frame as recorded", {"vmin": low, "vmax": high}),
        (places[0, 1], frames[1], "its electrons, beam moved back", {"cmap": "gray"}),
        (places[0, 2], pattern, "all electrons", {}),
        (places[1, 0], np.hypot(*np.moveaxis(shifts, -1, 0)), "distance of the beam (px)", {}),
        (places[1, 1], deflection[..., 0], "deflection, y (px)", {"cmap": "RdBu"}),
        (places[1, 2], deflection[..., 1], "deflection, x (px)", {"cmap": "RdBu"}),
    ):
        if "deflection" in title:
            how = {**how, "vmin": -limit, "vmax": limit}
        figure.colorbar(axes.imshow(image, **how), ax=axes, shrink=0.8)
        axes.set(title=title, xticks=[], yticks=[])
    figure.savefig(out / "electron-counting.png", dpi=120)
    plt.close(figure)


if __name__ == "__main__":
    main()
