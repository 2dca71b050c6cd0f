"""Corrections of the command line in the viewer: what it says, and scripts that apply them."""

import os

import numpy as np
import pytest
from exported_scripts import run
from test_view_scripts import NAV, REGION, SIG, arrays_of, pattern, scan, script_of, shape
from view_socket import served

import framefold as ff
from framefold.io.corrections import CorrectionSet

DISK = [shape("disk", cy=7.3, cx=8.0, r=4.2)]
QUERIES = {
    "sum": scan(DISK),
    "max": scan(DISK, "max"),
    "com": scan(DISK, "com"),
    "pattern mean": pattern(REGION),
    "pattern max": pattern((), "max"),
}
BAD = [(3, 4), (10, 9), (10, 10)]


@pytest.fixture
def folder(tmp_path):
    """A scan and its corrections, in a folder whose name would be code if it were not quoted."""
    folder = tmp_path / 'it\'s "a\\folder"; import os #'
    folder.mkdir()
    rng = np.random.default_rng(3)
    np.save(folder / "scan.npy", rng.poisson(30.0, (*NAV, *SIG)).astype(np.uint16))
    np.save(folder / "dark.npy", rng.random(SIG))
    np.save(folder / "gain.npy", 0.5 + rng.random(SIG).astype(np.float32))
    mask = np.zeros(SIG, dtype=bool)
    mask[tuple(np.transpose(BAD))] = True
    np.save(folder / "mask.npy", mask)
    np.save(folder / "rows.npy", np.array(BAD))
    np.save(folder / "columns.npy", np.transpose(BAD))
    return folder


def corrections(folder):
    return CorrectionSet(
        dark=np.load(folder / "dark.npy"),
        gain=np.load(folder / "gain.npy"),
        excluded_pixels=np.load(folder / "mask.npy"),
    )


BAD_FORMS = ["mask.npy", "rows.npy", "columns.npy", "3,4;10,9:11"]


@pytest.mark.parametrize("bad", BAD_FORMS)
def test_scripts_apply_them_again(folder, tmp_path, bad):
    given = ("--dark", "dark.npy", "--gain", "gain.npy", "--bad-pixels", bad)
    with served("scan.npy", *given, folder=folder) as client:
        about = client.hello()["description"]
        assert about["excluded"] == sorted(y * SIG[1] + x for y, x in BAD)
        assert about["dtype"] == "float32"
        words = "corrections are applied: dark frame, gain map, 3 excluded pixels"
        assert words in about["warnings"]
        expected = {name: client.array(query) for name, query in QUERIES.items()}
        script = script_of(client, QUERIES)
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("npy", folder / "scan.npy")
    total = ctx.run_udf(dataset=dataset, udf=ff.MaxUDF(), corrections=corrections(folder))
    np.testing.assert_allclose(expected["pattern max"], total["intensity"].data, rtol=1e-6)
    assert "Runs with framefold, and unmodified with LiberTEM." in script
    there = tmp_path / "run"
    there.mkdir()
    run(script, there)
    for name, found in arrays_of(QUERIES, there).items():
        scale = np.abs(expected[name]).max()
        np.testing.assert_allclose(
            found, expected[name], rtol=1e-5, atol=1e-5 * scale, err_msg=name
        )


LIBERTEM = os.environ.get("FRAMEFOLD_LIBERTEM_PYTHON")


@pytest.mark.skipif(LIBERTEM is None, reason="FRAMEFOLD_LIBERTEM_PYTHON names no interpreter")
def test_scripts_apply_them_again_with_libertem(folder, tmp_path):
    given = ("--dark", "dark.npy", "--gain", "gain.npy", "--bad-pixels", "rows.npy")
    with served("scan.npy", *given, folder=folder) as client:
        expected = {name: client.array(query) for name, query in QUERIES.items()}
        script = script_of(client, QUERIES)
    there = tmp_path / "run"
    there.mkdir()
    # A cluster is not what is tested.
    script = script.replace("lt.Context()", 'lt.Context.make_with("inline")')
    run('import sys\nsys.modules["framefold"] = None\n' + script, there, LIBERTEM)
    for name, found in arrays_of(QUERIES, there).items():
        scale = np.abs(expected[name]).max()
        np.testing.assert_allclose(found, expected[name], rtol=1e-5, atol=1e-5 * scale)


def test_they_come_before_stages(folder, tmp_path):
    given = ("--flip", "y", "--dark", "dark.npy", "--bad-pixels", "3,4", "--bin", "2")
    queries = {"sum": scan(), "pattern max": pattern((), "max")}
    with served("scan.npy", *given, folder=folder) as client:
        about = client.hello()["description"]
        # They are others behind the stage.
        assert about["excluded"] == []
        assert "corrections are applied: dark frame, 1 excluded pixel" in about["warnings"]
        expected = {name: client.array(query) for name, query in queries.items()}
        script = script_of(client, queries)
    there = tmp_path / "run"
    there.mkdir()
    run(script, there)
    for name, found in arrays_of(queries, there).items():
        np.testing.assert_allclose(found, expected[name], rtol=1e-5, err_msg=name)


def test_scripts_of_lines(folder, tmp_path):
    """Frames of one axis, corrected by files of one axis."""
    n = SIG[0] * SIG[1]
    np.save(folder / "lines.npy", np.load(folder / "scan.npy").reshape(-1, n))
    np.save(folder / "gain.npy", np.load(folder / "gain.npy").reshape(n))
    queries = {"sum": scan((), "sum"), "pattern max": pattern((), "max")}
    given = ("--sig-dims", "1", "--gain", "gain.npy", "--bad-pixels", "0;5:7")
    with served("lines.npy", *given, folder=folder) as client:
        assert client.hello()["description"]["excluded"] == [0, 5, 6]
        expected = {name: client.array(query) for name, query in queries.items()}
        script = script_of(client, queries)
    there = tmp_path / "run"
    there.mkdir()
    run(script, there)
    for name in queries:
        pane = queries[name]["pane"]
        found = np.load(there / f"lines-{pane}.npy")
        np.testing.assert_allclose(found, expected[name], rtol=1e-5, err_msg=name)
