"""The benchmark suite checks answers before times, and reports what it measured."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

RUN = Path(__file__).resolve().parent.parent / "bench" / "run.py"

#: Like NumPy's engine, but for one frame that it counts twice.
WRONG = """
import numpy_engine

class Engine(numpy_engine.Engine):
    def prepare(self, data, task, params):
        work = super().prepare(data, task, params)

        def wrong():
            result = work()
            result.flat[3] += 1
            return result

        return wrong
"""


def bench(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Run the suite on data of a few frames."""
    command = [sys.executable, str(RUN), "--engines", "framefold,framefold-inline,numpy"]
    return subprocess.run(
        [*command, "--scale", "4096", "--rounds", "2", "--out", "out", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )


def report(folder: Path) -> dict:
    (path,) = (folder / "out").glob("*.json")
    return json.loads(path.read_text())


ONLY = ["sum-u16", "roi-u16", "tile-sum", "mask8-f32", "com-u8", "frame-noop", "mask1-mib-12"]
ONLY += ["shifted-8-masks", "shifted-8-masks-fractions", "results-to-zarr"]
LOOPS = ["frame-brightest", "frame-add", "frame-largest"]
TILES = [f"tile-{kib}" for kib in (16, 64, 256, 1024, 4096)]
SPARSE = [
    f"{task}-raw_csr-{data}"
    for task in ("sum", "com", "mask8")
    for data in ("1", "0.1", "0.01", "dense")
]
STARTUP = ["startup-import", "startup-context", "startup-first"]


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A folder with what came of one call, for all that needs no other packages."""
    folder = tmp_path_factory.mktemp("measured")
    only = [*ONLY, "frame-[bla]*", "tile-[0-9]*", "raw_csr", "startup-*"]
    done = bench(folder, *(word for name in only for word in ("--only", name)))
    assert done.returncode == 0, done.stdout + done.stderr
    return folder


@pytest.fixture
def cases(measured):
    """What is reported of each case."""
    return {case["name"]: case for case in report(measured)["cases"]}


def test_answers_agree_and_times_are_reported(measured, cases):
    found = report(measured)
    assert set(cases) == {*ONLY, *LOOPS, *TILES, *SPARSE, *STARTUP}
    assert found["environment"]["cores"] >= 1
    assert {"framefold", "numpy", "python"} <= set(found["environment"]["versions"])
    for case in (cases[name] for name in (*ONLY, *TILES)):
        assert not case["wrong"]
        for name, entry in case["engines"].items():
            assert len(entry["times_s"]) == 2, (case["name"], name)
            assert 0 < entry["min_s"] <= entry["median_s"] <= entry["max_s"]
        ours = case["engines"][case["ours"]]
        assert case["figures"]["max_seconds"] == ours["median_s"]
    assert set(cases["sum-u16"]["engines"]) == {"framefold", "numpy"}
    assert set(cases["roi-u16"]["engines"]) == {"framefold", "framefold-inline", "numpy"}
    assert set(cases["frame-noop"]["engines"]) == {"framefold", "framefold-inline"}
    kinds = {target["kind"] for target in cases["frame-noop"]["targets"]}
    assert kinds == {"max_us_per_frame"}
    assert not (measured / "out" / "data").exists()


def test_the_same_tables_can_be_made_again_from_what_was_written(measured, cases):
    (path,) = (measured / "out").glob("*.json")
    again = subprocess.run(
        [sys.executable, str(RUN), "--markdown", str(path)],
        capture_output=True,
        text=True,
        timeout=60,
        check=True,
    )
    rows = [line for line in again.stdout.splitlines() if line.startswith("|")]
    in_tables = [case for case in cases.values() if case["sweep"] is None]
    assert len(in_tables) == len(cases) - len(TILES)
    assert len(rows) == 2 * (2 + len(in_tables))
    assert all(f"| {case['title']} |" in again.stdout for case in in_tables)


def test_loops_are_compared_with_numpy(cases):
    pytest.importorskip("numba")
    for case in (cases[name] for name in LOOPS):
        assert not case["wrong"]
        assert set(case["engines"]) == {"framefold", "framefold-inline", "numpy"}


def test_sparse_files_are_compared_with_each_other_and_with_dense_ones(cases):
    for case in (cases[name] for name in SPARSE):
        assert not case["wrong"], case["name"]
        per_event = case["figures"]["max_ns_per_event"] * case["events"]
        assert per_event == pytest.approx(1e9 * case["figures"]["max_seconds"])
    counts = [cases[f"sum-raw_csr-{percent}"]["events"] for percent in ("1", "0.1", "0.01")]
    for hit, n_events in zip((0.01, 0.001, 0.0001), counts, strict=True):
        assert n_events == pytest.approx(hit * 16 * 256 * 256, rel=0.3)
    assert cases["sum-raw_csr-1"]["bytes"] == 6 * counts[0] + 8 * 17
    assert {"framefold", "numpy"} == set(cases["com-raw_csr-1"]["engines"])


def test_files_of_formats_are_compared_with_other_readers(tmp_path):
    pytest.importorskip("hdf5plugin")
    pytest.importorskip("zarr")
    done = bench(
        tmp_path, "--only", "formats", "--engines", "framefold,framefold-inline,numpy,peak"
    )
    assert done.returncode == 0, done.stdout + done.stderr
    cases = {case["name"]: case for case in report(tmp_path)["cases"]}
    data = ("k2is", "dm", "dm-transposed", "mrc", "seq", "blo", "empad")
    data = (*data, "hdf5", "hdf5-gzip", "hdf5-bslz4", "zarr")
    assert set(cases) == {f"{task}-{name}" for task in ("sum", "mask1") for name in data} | {
        "inline-k2is"
    }
    for case in cases.values():
        assert not case["wrong"], case["name"]
        assert not case["left_out"], case["name"]
    # Decoders beside the compressor's own library, and beside a copy.
    peaked = {name for name, case in cases.items() if "peak" in case["engines"]}
    assert peaked == {"sum-hdf5-gzip", "sum-hdf5-bslz4", "inline-k2is"}
    kinds = {target["kind"] for target in cases["inline-k2is"]["targets"]}
    assert kinds == {"of_peak", "times_arrays"}
    assert cases["inline-k2is"]["bytes"] == 1860 * 2048 * 3 // 2
    assert not (tmp_path / "out" / "data").exists()


def test_a_wrong_engine_is_caught_and_no_time_is_taken(tmp_path):
    (tmp_path / "off_by_one.py").write_text(WRONG)
    extra = ["--engine", "wrong=off_by_one.py", "--engines", "framefold,numpy"]
    done = bench(tmp_path, "--only", "sum-u16", *extra)
    assert done.returncode == 1, done.stdout + done.stderr
    (case,) = report(tmp_path)["cases"]
    assert list(case["wrong"]) == ["wrong"]
    assert "1 of 65536 values differ" in case["wrong"]["wrong"]
    assert all("median_s" not in entry for entry in case["engines"].values())
    assert case["figures"] == {}
    assert "wrong answers, so no times: sum-u16" in done.stdout


def test_plots_are_drawn_from_what_was_swept(measured):
    pytest.importorskip("matplotlib")
    assert (measured / "out" / "tile.png").read_bytes().startswith(b"\x89PNG\r\n\x1a\n")


def test_sweeps_are_what_is_plotted_alone(tmp_path):
    done = bench(tmp_path, "--only", "tile-*", "--sweeps", "--list")
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.split() == TILES


def test_start_up_is_measured_in_new_processes(cases):
    first, *parts = (
        cases[f"startup-{part}"]["figures"]["max_seconds"]
        for part in ("first", "import", "context")
    )
    assert all(first > part > 0 for part in parts)


def test_what_is_not_there_is_said(tmp_path):
    done = bench(tmp_path, "--only", "sum-u1")
    assert done.returncode == 2
    assert "no case has such a name" in done.stderr
