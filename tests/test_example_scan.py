"""The simulated scan that snippets are run on."""

from __future__ import annotations

import pickle
import subprocess
import sys

import numpy as np
import pytest

import framefold as ff
from framefold.exceptions import FileAccessError, InvalidArgumentError
from framefold.masks import circular


@pytest.fixture(scope="module")
def dataset() -> ff.DataSet:
    return ff.example_scan()


def test_the_example_needs_no_file_and_is_the_same_every_time(dataset) -> None:
    first, second = dataset, ff.example_scan("small")
    assert tuple(first.shape) == (32, 32, 64, 64)
    assert first.shape.sig.dims == 2
    assert first.dtype == np.uint16
    np.testing.assert_array_equal(first[:], second[:])
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(first))[3, 4], first[3, 4])


def test_the_example_has_what_its_docstring_says(dataset) -> None:
    def beam() -> np.ndarray:
        return circular(32, 32, 64, 64, 3)

    masks, com = ff.Context().run_udf(
        dataset=dataset, udf=[ff.ApplyMasksUDF(mask_factories=[beam]), ff.CoMUDF()]
    )
    bright = masks["intensity"].data[..., 0]
    # The beam is the brightest disk: its 28 pixels of 4096 hold more than a tenth of all.
    assert bright.mean() > 0.1 * dataset[:].sum(axis=(2, 3)).mean()
    # The inclusion differs from the matrix: it diffracts more, so less is left in the beam.
    assert bright[12:20, 12:20].mean() < 0.95 * np.concatenate([bright[:4], bright[-4:]]).mean()
    assert np.isfinite(com["field"].data).all()


def test_the_example_has_units(dataset) -> None:
    for axis, step, unit in zip(
        dataset.axes, (2, 2, 0.22, 0.22), ("nm", "nm", "1/nm", "1/nm"), strict=True
    ):
        assert axis.scale == pytest.approx(step)
        assert axis.unit == unit
    assert dataset.axes[2].offset == pytest.approx(-32 * 0.22)


def test_the_sizes_show_the_same_crystal() -> None:
    from framefold.utils.example import _EDGES, _crystal

    small, medium, large = (_crystal(*edges) for edges in _EDGES.values())
    for other in (medium, large):
        assert other.nav_shape[0] * other.scan_step == small.nav_shape[0] * small.scan_step
        assert other.sig_shape[0] * other.camera_step == small.sig_shape[0] * small.camera_step
        assert other.disk_radius * other.camera_step == small.disk_radius * small.camera_step
    # The medium one is what the demo shows.
    assert medium == type(medium)()


def test_a_size_that_is_not_there_is_said_so() -> None:
    with pytest.raises(InvalidArgumentError, match="'huge'; there are 'small', 'medium', 'large'"):
        ff.example_scan("huge")  # type: ignore[arg-type]


def test_the_example_needs_numpy_alone() -> None:
    script = (
        "import sys\n"
        "for name in ('matplotlib', 'scipy', 'sparse', 'h5py', 'dask'): sys.modules[name] = None\n"
        "import framefold as ff\n"
        "ff.Context().run_udf(dataset=ff.example_scan(), udf=ff.SumUDF())\n"
    )
    subprocess.run([sys.executable, "-c", script], check=True, timeout=60)


def test_example_files_are_one_scan_and_replace_nothing(tmp_path) -> None:
    (tmp_path / "scan.raw").write_text("mine")
    paths = ff.example_files(tmp_path)
    assert sorted(path.name for path in paths) == ["scan.hdr", "scan.mib", "scan.npy", "scan.raw"]
    assert (tmp_path / "scan.raw").read_text() == "mine"
    (tmp_path / "scan.raw").unlink()
    assert ff.example_files(tmp_path) == paths
    expected = np.load(tmp_path / "scan.npy")
    assert expected.shape == (8, 10, 64, 64)
    ctx = ff.Context.make_with("inline")
    shapes = {"nav_shape": (8, 10), "sig_shape": (64, 64), "dtype": "uint16"}
    for dataset in (
        ctx.open(tmp_path / "scan.hdr"),
        ctx.open(tmp_path / "scan.mib"),
        ctx.load("raw", tmp_path / "scan.raw", **shapes),
    ):
        np.testing.assert_array_equal(np.asarray(dataset), expected)


def test_example_files_come_into_a_new_folder(tmp_path):
    for path in ff.example_files(tmp_path / "new" / "folder"):
        assert path.parent == tmp_path / "new" / "folder"
        assert path.exists()


@pytest.mark.parametrize(("there", "missing"), [("scan.hdr", "scan.mib"), ("scan.mib", "scan.hdr")])
def test_files_of_another_scan_are_no_example(tmp_path, there, missing):
    (tmp_path / there).write_bytes(b"another")
    with pytest.raises(FileAccessError, match=f"{there}' exists without '{missing}'"):
        ff.example_files(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == [there]
