"""Small data with known truth, and what published packages make of them.

The functions ``…_results`` use nothing but ``libertem``'s interface, so that they run on
framefold and on the reference system alike. ``expected/packages.json`` holds what they give on
the latter: it was written by running this file where LiberTEM 0.16.0, libertem-blobfinder 0.6.1
and ptychography40 0.1.0 are installed, and framefold is not::

    python tests/package_cases.py > tests/expected/packages.json
"""

from __future__ import annotations

import json
import sys
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]

EXPECTED = Path(__file__).resolve().parent / "expected" / "packages.json"
#: Of the disks, in pixels.
RADIUS = 5.0
CORRELATIONS = ("fast", "fullframe", "sparse")


class LatticeScan(NamedTuple):
    """Frames with a lattice of disks that differs from frame to frame."""

    #: Shape (3, 4, 96, 104), dtype uint16.
    frames: Array
    #: Origin and lattice vectors (y, x) in pixels, shape (3, 4, 2).
    zero: Array
    a: Array
    b: Array
    #: Of the disks: shape (25, 2).
    indices: Array

    def start(self) -> dict[str, Array]:
        """The mean lattice: where to begin."""
        return {name: getattr(self, name).mean(axis=(0, 1)) for name in ("zero", "a", "b")}


@cache
def lattice_scan() -> LatticeScan:
    """Disks with soft edges on a smooth background, at positions between the pixels."""
    nav, sig = (3, 4), (96, 104)
    row, column = np.mgrid[: nav[0], : nav[1]].reshape(2, -1) / 3.0
    zero = np.stack([47.3 + 1.1 * row - 0.4 * column, 51.8 - 0.7 * row + 0.9 * column], axis=-1)
    a = np.stack([19.0 + 1.2 * row, 2.0 + 0.9 * column], axis=-1)
    b = np.stack([-3.0 + 0.8 * column, 20.0 - 1.5 * row], axis=-1)
    indices = np.mgrid[-2:3, -2:3].reshape(2, -1).T
    y, x = np.mgrid[: sig[0], : sig[1]]
    frames = np.empty((len(zero), *sig))
    for frame, origin, step_a, step_b in zip(frames, zero, a, b, strict=True):
        frame[:] = 20 * np.exp(-((y - origin[0]) ** 2 + (x - origin[1]) ** 2) / 40**2)
        for number, (h, k) in enumerate(indices):
            center = origin + h * step_a + k * step_b
            height = 3000 if h == k == 0 else 900 / (h * h + k * k) + 40 * (number % 3)
            distance = np.hypot(y - center[0], x - center[1])
            frame += height / (1 + np.exp((distance - RADIUS) / 0.3))
    counts = np.round(frames).astype(np.uint16).reshape(*nav, *sig)
    return LatticeScan(counts, *(v.reshape(*nav, 2) for v in (zero, a, b)), indices)


def lattice_peaks(scan: LatticeScan) -> Array:
    """Rough positions of the disks that lie inside all frames, shape (n_peaks, 2), integer."""
    from libertem_blobfinder.base.utils import frame_peaks

    (fy, fx), start = scan.frames.shape[2:], scan.start()
    _, peaks = frame_peaks(fy=fy, fx=fx, r=2 * RADIUS, indices=scan.indices, **start)
    return np.round(peaks).astype(int)


def drift(scan: LatticeScan) -> Array:
    """How far the pattern of each frame is from the mean one: shape (3, 4, 2), float32."""
    return (scan.zero - scan.start()["zero"]).astype(np.float32)


def blobfinder_results(ctx: Any, dataset: Any) -> dict[str, Array]:
    """What libertem-blobfinder finds in :func:`lattice_scan`, by most of its functions."""
    from libertem_blobfinder.common.gridmatching import Matcher
    from libertem_blobfinder.common.patterns import (
        BackgroundSubtraction,
        Circular,
        RadialGradient,
        RadialGradientBackgroundSubtraction,
    )
    from libertem_blobfinder.udf.correlation import (
        FastCorrelationUDF,
        run_blobfinder,
        run_fastcorrelation,
    )
    from libertem_blobfinder.udf.integration import IntegrationUDF
    from libertem_blobfinder.udf.refinement import run_refine

    scan = lattice_scan()
    gradient, solid = RadialGradient(RADIUS), Circular(RADIUS)
    results: dict[str, Array] = {}
    for correlation in CORRELATIONS:
        for match in ("fast", "affine"):
            found, _ = run_refine(
                ctx,
                dataset,
                **scan.start(),
                match_pattern=gradient,
                matcher=Matcher(),
                correlation=correlation,
                match=match,
                indices=scan.indices,
                steps=4,
            )
            for name in ("zero", "a", "b", "error"):
                results[f"refine {correlation} {match} {name}"] = found[name].data
        for name in ("centers", "refineds", "peak_values", "selector"):
            results[f"refine {correlation} {name}"] = found[name].data[1, 2]

    peaks = lattice_peaks(scan)
    shift = FastCorrelationUDF.aux_data(drift(scan), kind="nav", extra_shape=(2,), dtype="float32")
    found = run_fastcorrelation(ctx, dataset, peaks, solid, zero_shift=shift, upsample=20)
    results["upsampled, with zero shift"] = found["refineds"].data[2]

    for name, pattern in {
        "background": BackgroundSubtraction(RADIUS),
        "gradient and background": RadialGradientBackgroundSubtraction(RADIUS),
    }.items():
        found = run_fastcorrelation(ctx, dataset, peaks, pattern)
        results[f"{name} refineds"] = found["refineds"].data[0, 1]

    roi = np.zeros(scan.frames.shape[:2], dtype=bool)
    roi[1, 1:3] = roi[2, 0] = True
    total, centers, refineds, values, elevations, peaks = run_blobfinder(
        ctx, dataset, solid, num_peaks=5, roi=roi
    )
    results["blobfinder sum"] = total[::16, ::16]
    results["blobfinder peaks"] = peaks
    results["blobfinder centers"] = centers.raw_data
    results["blobfinder refineds"] = refineds.raw_data
    results["blobfinder values"] = values.raw_data
    results["blobfinder elevations"] = elevations.raw_data

    at = np.round(disk_positions(scan)).astype(int)
    where = IntegrationUDF.aux_data(at, kind="nav", extra_shape=at.shape[2:], dtype=int)
    integrated = ctx.run_udf(dataset=dataset, udf=IntegrationUDF(centers=where, pattern=solid))
    results["integration"] = integrated["integration"].data[1]
    return results


def disk_positions(scan: LatticeScan) -> Array:
    """The true positions of the four disks around the middle one: shape (3, 4, 4, 2)."""
    orders = np.array([[1, 0], [0, 1], [-1, 0], [0, -1]])
    bases = np.stack([scan.a, scan.b], axis=-2)
    positions: Array = scan.zero[:, :, None] + orders @ bases
    return positions


class PhaseScan(NamedTuple):
    """A scan over a thin object that shifts the phase of the electrons a little."""

    #: Shape (11, 12, 20, 22), dtype uint16.
    frames: Array
    #: The phase in radians: shape (11, 12).
    phase: Array
    #: Of the microscope, as ``SSB_UDF`` takes them.
    parameters: dict[str, float]


@cache
def phase_scan() -> PhaseScan:
    """Disks that interfere: the beam, and one on each side for each wave in the object.

    The object is a sum of plane waves that fit the scan, weak enough to leave out products of
    two of them.
    """
    nav, sig, radius, step = (11, 12), (20, 22), 5.0, 0.45e-10
    wavelength, angle = 4.1757e-12, 25e-3
    pixel = np.sin(angle) / wavelength / radius
    y, x = np.mgrid[: nav[0], : nav[1]]
    ky, kx = np.mgrid[: sig[0], : sig[1]]

    def aperture(shift_y: float, shift_x: float) -> Array:
        distance = np.hypot(ky - sig[0] // 2 - shift_y, kx - sig[1] // 2 - shift_x)
        return 1 / (1 + np.exp((distance - radius) / 0.25))

    phase = np.zeros(nav)
    wave = np.zeros((*nav, *sig), dtype=complex) + aperture(0, 0)
    for p, q, height, start in [
        (1, 0, 0.06, 0.3),
        (0, 1, 0.05, 1.1),
        (2, 1, 0.04, 2.0),
        (1, -2, 0.03, 0.5),
        (3, 0, 0.03, -1.0),
    ]:
        argument = 2 * np.pi * (p * y / nav[0] + q * x / nav[1]) + start
        phase += height * np.cos(argument)
        for sign in (1, -1):
            disk = aperture(sign * p / (nav[0] * step) / pixel, sign * q / (nav[1] * step) / pixel)
            wave += 0.5j * height * np.exp(sign * 1j * argument)[..., None, None] * disk
    frames = np.round(1000 * np.abs(wave) ** 2).astype(np.uint16)
    parameters = {
        "lamb": wavelength,
        "dpix": step,
        "semiconv": angle,
        "semiconv_pix": radius,
        "cy": sig[0] // 2,
        "cx": sig[1] // 2,
    }
    return PhaseScan(frames, phase, parameters)


def ssb_results(ctx: Any, dataset: Any) -> dict[str, Array]:
    """The reconstruction of :func:`phase_scan`."""
    from ptychography40.reconstruction.ssb import SSB_UDF

    udf = SSB_UDF(**phase_scan().parameters, dtype=np.float64)
    result = ctx.run_udf(dataset=dataset, udf=udf)
    return {f"ssb {name}": result[name].data for name in ("phase", "amplitude")}


def expected(prefix: str = "") -> dict[str, Array]:
    """The results on the reference system whose names begin with ``prefix``."""
    stored = json.loads(EXPECTED.read_text(encoding="utf-8"))["results"]
    return {name: np.array(v) for name, v in stored.items() if name.startswith(prefix)}


def main() -> None:
    """Write the results on the reference system."""
    import libertem.api

    assert "framefold" not in sys.modules
    ctx = libertem.api.Context.make_with("inline")
    results: dict[str, Array] = {}
    for make, frames in [
        (blobfinder_results, lattice_scan().frames),
        (ssb_results, phase_scan().frames),
    ]:
        dataset = ctx.load("memory", data=frames, sig_dims=2, num_partitions=3)
        results |= make(ctx, dataset)
    packages = ("libertem", "libertem-blobfinder", "ptychography40", "numpy")
    note = "; ".join(f"{name} {version(name)}" for name in packages)
    listed = {
        name: np.vectorize(lambda v: v if isinstance(v, bool) else float(f"{v:.8g}"), otypes="O")(
            array.astype(object)
        ).tolist()
        for name, array in results.items()
    }
    lines = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in listed.items())
    made = f"written by tests/package_cases.py with {note}"
    print(f'{{"made": {json.dumps(made)},\n "results": {{\n{lines}\n}}}}')


if __name__ == "__main__":
    main()
