"""The programs in ``examples`` run, and do what they say."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from forked_scripts import forked_scripts
from real_files import real_file

ROOT = Path(__file__).resolve().parent.parent
PICTURES = ["bright-field", "com-x", "com-y", "dark-field", "mean-pattern", "overview", "strain"]
PYPLOT = "matplotlib.pyplot"
#: What its ``api`` imports when a name is asked for.
HYPERSPY = ["hyperspy._signals.signal2d", "hyperspy.roi", "hyperspy.io"]
Run = Callable[..., str]


@pytest.fixture(scope="module")
def scripts() -> Iterator[Run]:
    """Runs scripts for all tests of this module."""
    with forked_scripts() as run:
        yield run


@pytest.fixture
def run(scripts: Run, tmp_path: Path) -> Run:
    """Runs an example in a folder of its own, with what it imports; gives what it prints."""

    def example(script: str, *arguments: str, **options: Any) -> str:
        return scripts(ROOT / script, *arguments, folder=tmp_path, **options)

    return example


def pictures(folder: Path) -> list[str]:
    """List the pictures in a folder: those files that really are."""
    magic = b"\x89PNG\r\n\x1a\n"
    return sorted(p.stem for p in folder.glob("*.png") if p.read_bytes().startswith(magic))


def test_the_demo_simulates_and_then_takes_a_file(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    printed = run("examples/demo.py", "--scan", "12", "10", "--out", "first", modules=[PYPLOT])
    assert pictures(tmp_path / "first") == PICTURES
    assert "pictures in first" in printed
    # The second run reads what the first one wrote, as a file of the user's.
    printed = run("examples/demo.py", "first/scan.hdr", "--out", "second", modules=[PYPLOT])
    assert pictures(tmp_path / "second") == PICTURES
    assert "(12, 10, 128, 128)" in printed
    assert "simulating" not in printed


def test_strain_is_found_by_libertem_blobfinder(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("libertem_blobfinder", reason="libertem-blobfinder is not installed")
    # Each worker process would compile the package's functions for itself, for many seconds.
    options = ["--scan", "12", "10", "--out", "out"]
    printed = run("examples/blobfinder.py", *options, modules=[PYPLOT, "numba"], one_core=True)
    assert pictures(tmp_path / "out") == ["lattice", "strain"]
    error = re.search(r"found within ([\d.]+)% \(rms\)", printed)
    assert error is not None
    assert float(error[1]) < 0.3


def test_a_phase_is_found_by_ptychography40(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("ptychography40", reason="ptychography40 is not installed")
    pytest.importorskip("numba", reason="numba is not installed; ptychography40 needs it")
    options = ["--scan", "28", "--out", "out"]
    modules = [PYPLOT, "numba", "scipy.sparse", "sparse"]
    printed = run("examples/single_side_band.py", *options, modules=modules)
    assert pictures(tmp_path / "out") == ["phase"]
    match = re.search(r"correlation with the true phase ([\d.]+)", printed)
    assert match is not None
    assert float(match[1]) > 0.9


def test_electrons_are_counted_with_numba(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("numba", reason="numba is not installed")
    printed = run("examples/numba_counting.py", modules=["numba"])
    assert "all of them found in 100.0% of the frames" in printed


def test_power_spectra_are_made_with_pyfftw(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("pyfftw", reason="pyfftw is not installed")
    printed = run("examples/pyfftw_power_spectrum.py", modules=["pyfftw"])
    assert "5 periods down and 3 across" in printed


def test_masks_are_multiplied_with_torch(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="torch is not installed")
    printed = run("examples/torch_masks.py", modules=["torch"])
    assert "8 detectors for (24, 20) positions" in printed


def test_a_lazy_signal_of_hyperspy_goes_in_and_comes_out(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("dask", reason="dask is not installed")
    pytest.importorskip("hyperspy", reason="hyperspy is not installed")
    script, options = "examples/hyperspy_lazy.py", ["--scan", "20", "24", "--out", "out"]
    printed = run(script, *options, modules=[PYPLOT, "dask.array", "distributed", *HYPERSPY])
    assert pictures(tmp_path / "out") == ["radial-profiles"]
    assert "5 tasks of Dask, one for each partition" in printed
    match = re.search(r"correlation with the mean of the pixels in the ring: ([\d.]+)", printed)
    assert match is not None
    assert float(match[1]) > 0.99


def test_a_dask_array_goes_in_and_dask_arrays_come_out(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("dask", reason="dask is not installed")
    script, options = "examples/dask_array.py", ["--scan", "24", "20", "--out", "out"]
    printed = run(script, *options, modules=[PYPLOT, "dask.array", "distributed"])
    assert pictures(tmp_path / "out") == ["vortex"]
    assert re.search(r"\d+ electrons in 480 frames", printed)
    match = re.search(r"the beam is found within ([\d.]+) pixels \(rms\)", printed)
    assert match is not None
    assert float(match[1]) < 0.3


def test_electrons_are_counted_and_their_field_opens_elsewhere(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    pytest.importorskip("xarray", reason="xarray is not installed")
    pytest.importorskip("zarr", reason="zarr is not installed")
    pytest.importorskip("hyperspy", reason="hyperspy is not installed")
    script, options = "examples/electron_counting.py", ["--scan", "24", "20", "--out", "out"]
    printed = run(script, *options, modules=[PYPLOT, "dask.array", "xarray", "zarr", *HYPERSPY])
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


def test_local_maxima_are_counted_in_a_real_scan(run: Run, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    scan = real_file("BLO/rosettasciio/test1.blo")
    dark = np.random.default_rng(1).normal(10, 1, (8, 144, 144)).astype(np.uint8)
    dark[:, 30, 40] = 200
    np.save(tmp_path / "dark.npy", dark)
    script = "examples/electron_counting.py"
    arguments = (str(scan), "--dark", "dark.npy", "--out", "out")
    printed = run(script, *arguments, modules=[PYPLOT])
    assert pictures(tmp_path / "out") == ["electron-counting"]
    assert "test1.blo: (3, 2, 144, 144), uint8" in printed
    assert "1 hot pixels" in printed
