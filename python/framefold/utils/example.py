"""A simulated scan to try things with: no file, no download, the same for everyone."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from os import PathLike, cpu_count
from pathlib import Path
from typing import Literal, get_args

import numpy as np

from framefold.common._paths import path_text
from framefold.exceptions import FileAccessError, InvalidArgumentError
from framefold.io.dataset.memory import MemoryDataSet
from framefold.utils.simulate import StrainedCrystal

__all__ = ["Size", "example_files", "example_scan"]

Size = Literal["small", "medium", "large"]

#: Edges of the scan and of the detector.
_EDGES: dict[Size, tuple[int, int]] = {"small": (32, 64), "medium": (64, 128), "large": (128, 128)}


def example_scan(size: Size = "small") -> MemoryDataSet:
    """A simulated 4D-STEM scan over a crystal with a strained inclusion, in memory.

    The data are those of ``make demo``: disks of a square lattice, an inclusion of 28 nm that is
    stretched and deflects the beam away from itself, and Poisson noise. The axes of scan and
    detector are the same; :func:`~framefold.udf.com.guess_corrections` finds about 180 degrees, as
    it expects that atoms attract the beam. All sizes show the same 64 nm, and each
    is the same every time.

    Parameters
    ----------
    size
        ``'small'``: shape (32, 32, 64, 64), 8 MiB, made within a second; ``'medium'``:
        (64, 64, 128, 128), 128 MiB, some seconds; ``'large'``: (128, 128, 128, 128), 512 MiB,
        some more.

    Returns
    -------
    DataSet
        Counts of dtype uint16, with the steps of scan and detector as its axes. The beam meets the
        detector at its middle, (32, 32) pixels for ``'small'``, and a disk has a radius of 3
        pixels for ``'small'``, of 6 for others. For other shapes, doses or strains:
        :class:`framefold.utils.simulate.StrainedCrystal`.

    Raises
    ------
    InvalidArgumentError
        If there is no such size.

    Examples
    --------
    >>> import framefold as ff
    >>> dataset = ff.example_scan()
    >>> dataset.shape
    (32, 32, 64, 64)
    >>> result = ff.Context().run_udf(dataset=dataset, udf=ff.SumUDF())
    >>> result["intensity"].data.shape
    (64, 64)
    """
    if size not in _EDGES:
        sizes = ", ".join(map(repr, get_args(Size)))
        raise InvalidArgumentError(f"there is no example scan of size {size!r}; there are {sizes}")
    crystal = _crystal(*_EDGES[size])
    counts = np.empty((*crystal.nav_shape, *crystal.sig_shape), dtype=np.uint16)
    # Rows have random generators of their own.
    with ThreadPoolExecutor(cpu_count()) as pool:
        for row, frames in enumerate(pool.map(crystal.row, range(len(counts)))):
            counts[row] = frames
    return MemoryDataSet(counts, sig_dims=2).calibrate(
        scan_step=(crystal.scan_step, "nm"),
        pixel_size=(crystal.camera_step, "1/nm"),
        centre=crystal.center,
    )


def example_files(folder: str | PathLike[str] = ".") -> list[Path]:
    """Write the files that the documentation opens: a small scan, as MIB, NPY and raw pixels.

    A simulated crystal of 8 × 10 positions with 64 × 64 pixels each, 640 KiB as uint16.

    Parameters
    ----------
    folder
        Where to write; made if it is not there. Files that are there already stay as they are.

    Returns
    -------
    list of pathlib.Path
        ``scan.mib``, ``scan.hdr``, ``scan.npy`` and ``scan.raw``.

    Raises
    ------
    OSError
        If they cannot be written, or one of ``scan.mib`` and ``scan.hdr`` is there without the
        other.
    """
    from framefold.utils.write_mib import write_mib

    folder = Path(path_text("folder", folder))
    mib, hdr, npy, raw = (folder / f"scan.{ending}" for ending in ("mib", "hdr", "npy", "raw"))
    for there, missing in ((mib, hdr), (hdr, mib)):
        if there.exists() and not missing.exists():
            raise FileAccessError(
                f"'{there}' exists without '{missing.name}', so that it is no file of this scan; "
                f"choose another folder"
            )
    counts = StrainedCrystal(
        nav_shape=(8, 10), sig_shape=(64, 64), camera_step=0.22, disk_radius=3.0, scan_step=6.0
    ).counts()
    folder.mkdir(parents=True, exist_ok=True)
    if not mib.exists():
        write_mib(mib, counts)
    if not npy.exists():
        np.save(npy, counts)
    if not raw.exists():
        counts.tofile(raw)
    return [mib, hdr, npy, raw]


def _crystal(scan_edge: int, detector_edge: int) -> StrainedCrystal:
    """The crystal of the demo, seen with other numbers of positions and pixels."""
    pixel = 128 / detector_edge  # in pixels of the demo's detector
    return StrainedCrystal(
        nav_shape=(scan_edge, scan_edge),
        sig_shape=(detector_edge, detector_edge),
        scan_step=64 / scan_edge,
        camera_step=0.11 * pixel,
        disk_radius=6 / pixel,
        field_shift=0.8 / pixel,
        descan_shift=(0.5 / pixel, -0.7 / pixel),
    )
