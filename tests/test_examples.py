"""The programs in ``examples`` run, and do what they say."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from real_files import real_file

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ["bright-field", "com-x", "com-y", "dark-field", "mean-pattern", "overview", "strain"]


def one_core() -> None:
    """Leave one core to this process, where the system has such a choice."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})


def run(script: str, *arguments: str, folder: Path, first: Callable[[], None] | None = None) -> str:
    """Run a script of the repository in a folder of its own; gives what it prints."""
    done = subprocess.run(
        [sys.executable, str(ROOT / script), *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
        preexec_fn=first,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


def pictures(folder: Path) -> list[str]:
    """List the pictures in a folder: those files that really are."""
    magic = b"\x89PNG\r\n\x1a\n"
    return sorted(p.stem for p in folder.glob("*.png") if p.read_bytes().startswith(magic))


def test_the_demo_simulates_and_then_takes_a_file(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    printed = run("examples/demo.py", "--scan", "12", "10", "--out", "first", folder=tmp_path)
    assert pictures(tmp_path / "first") == PICTURES
    assert "pictures in first" in printed
    # The second run reads what the first one wrote, as a file of the user's.
    printed = run("examples/demo.py", "first/scan.hdr", "--out", "second", folder=tmp_path)
    assert pictures(tmp_path / "second") == PICTURES
    assert "(12, 10, 128, 128)" in printed
    assert "simulating" not in printed


def test_strain_is_found_by_libertem_blobfinder(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("libertem_blobfinder", reason="libertem-blobfinder is not installed")
    # Each worker process would compile the package's functions for itself, for many seconds.
    options = ["--scan", "12", "10", "--out", "out"]
    printed = run("examples/blobfinder.py", *options, folder=tmp_path, first=one_core)
    assert pictures(tmp_path / "out") == ["lattice", "strain"]
    error = re.search(r"found within ([\d.]+)% \(rms\)", printed)
    assert error is not None
    assert float(error[1]) < 0.3


def test_a_phase_is_found_by_ptychography40(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("ptychography40", reason="ptychography40 is not installed")
    pytest.importorskip("numba", reason="numba is not installed; ptychography40 needs it")
    printed = run("examples/single_side_band.py", "--scan", "28", "--out", "out", folder=tmp_path)
    assert pictures(tmp_path / "out") == ["phase"]
    match = re.search(r"correlation with the true phase ([\d.]+)", printed)
    assert match is not None
    assert float(match[1]) > 0.9


def test_electrons_are_counted_with_numba(tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="numba is not installed")
    printed = run("examples/numba_counting.py", folder=tmp_path)
    assert "all of them found in 100.0% of the frames" in printed


def test_power_spectra_are_made_with_pyfftw(tmp_path: Path) -> None:
    pytest.importorskip("pyfftw", reason="pyfftw is not installed")
    printed = run("examples/pyfftw_power_spectrum.py", folder=tmp_path)
    assert "5 periods down and 3 across" in printed


def test_masks_are_multiplied_with_torch(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    printed = run("examples/torch_masks.py", folder=tmp_path)
    assert "8 detectors for (24, 20) positions" in printed


def test_a_lazy_signal_of_hyperspy_goes_in_and_comes_out(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("dask", reason="dask is not installed")
    pytest.importorskip("hyperspy", reason="hyperspy is not installed")
    script = "examples/hyperspy_lazy.py"
    printed = run(script, "--scan", "20", "24", "--out", "out", folder=tmp_path)
    assert pictures(tmp_path / "out") == ["radial-profiles"]
    assert "5 tasks of Dask, one for each partition" in printed
    match = re.search(r"correlation with the mean of the pixels in the ring: ([\d.]+)", printed)
    assert match is not None
    assert float(match[1]) > 0.99


def test_a_dask_array_goes_in_and_dask_arrays_come_out(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("dask", reason="dask is not installed")
    script = "examples/dask_array.py"
    printed = run(script, "--scan", "24", "20", "--out", "out", folder=tmp_path)
    assert pictures(tmp_path / "out") == ["vortex"]
    assert re.search(r"\d+ electrons in 480 frames", printed)
    match = re.search(r"the beam is found within ([\d.]+) pixels \(rms\)", printed)
    assert match is not None
    assert float(match[1]) < 0.3


def test_electrons_are_counted_and_their_field_opens_elsewhere(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("xarray", reason="xarray is not installed")
    pytest.importorskip("zarr", reason="zarr is not installed")
    pytest.importorskip("hyperspy", reason="hyperspy is not installed")
    script = "examples/electron_counting.py"
    printed = run(script, "--scan", "24", "20", "--out", "out", folder=tmp_path)
    assert pictures(tmp_path / "out") == ["electron-counting"]
    assert "noise 2.9" in printed
    assert "12 hot pixels" in printed
    match = re.search(r"([\d.]+)% of the electrons are counted", printed)
    assert match is not None
    assert 80 < float(match[1]) < 100
    match = re.search(r"correlation with the true deflection: ([\d.]+)", printed)
    assert match is not None
    assert float(match[1]) > 0.8
    assert "'scan_y': 24, 'scan_x': 20" in printed
    assert "2.67 nm from row to row" in printed
    assert "HyperSpy: <Signal2D, title: CoMUDF: raw_com, dimensions: (2|20, 24)>" in printed


def test_local_maxima_are_counted_in_a_real_scan(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    scan = real_file("BLO/rosettasciio/test1.blo")
    dark = np.random.default_rng(1).normal(10, 1, (8, 144, 144)).astype(np.uint8)
    dark[:, 30, 40] = 200
    np.save(tmp_path / "dark.npy", dark)
    script = "examples/electron_counting.py"
    arguments = (str(scan), "--dark", "dark.npy", "--out", "out")
    printed = run(script, *arguments, folder=tmp_path)
    assert pictures(tmp_path / "out") == ["electron-counting"]
    assert "test1.blo: (3, 2, 144, 144), uint8" in printed
    assert "1 hot pixels" in printed
