"""The benchmark of devices: answers first, then a table with the bound of each row."""

from __future__ import annotations

import argparse
import importlib.util
import re
import sys
from pathlib import Path

import fake_cupy
import numpy as np
import pytest

PATH = Path(__file__).resolve().parent.parent / "bench" / "on_cuda.py"


@pytest.fixture
def on_cuda(monkeypatch):
    """The script, for small frames."""
    monkeypatch.syspath_prepend(PATH.parent)
    spec = importlib.util.spec_from_file_location("on_cuda", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "SIG", (8, 128))
    monkeypatch.setattr(module, "TILE_BYTES", 1 << 14)
    return module


def measure(on_cuda, folder, only=""):
    options = argparse.Namespace(gigabytes=32e-6, runs=1, only=only)
    return list(on_cuda.measure(options, folder))


def test_each_case_has_its_bound(monkeypatch, on_cuda, tmp_path):
    fake_cupy.install(monkeypatch, n_devices=2)
    monkeypatch.setattr(on_cuda, "available_cores", lambda: 2)
    monkeypatch.setattr(on_cuda, "cuda_ids", lambda: [0, 1])
    first, *table = measure(on_cuda, tmp_path)
    assert first.startswith("a stand-in, ")
    assert "15 frames of (8, 128)" in first
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]
    names = [case.name for case in on_cuda.cases(lambda n: np.ones((n, 8, 128)))]
    assert sorted({row[0] for row in rows}) == sorted(names)
    by_tile = [row[2] for row in rows if row[0] == "no-op, by tile"]
    assert by_tile == ["1", "2 for one device", "1, and 1 on the CPU", "2 devices"]
    for row in rows:
        if len(row) > 3:
            assert (row[3][-3:], row[5][-1:], row[6][-3:]) == (" ms", "%", " ms")


def test_a_wrong_answer_ends_it(monkeypatch, on_cuda, tmp_path):
    fake_cupy.install(monkeypatch)

    def wrong(self, tile):
        self.results.total[:] += tile.sum(axis=0) + (self.xp is not np)

    monkeypatch.setattr(on_cuda.Total, "process_tile", wrong)
    with pytest.raises(AssertionError, match="sum, by tile"):
        measure(on_cuda, tmp_path, "sum, by tile")


def test_without_a_device_it_says_so(monkeypatch, on_cuda, capsys):
    fake_cupy.install(monkeypatch, n_devices=0)
    monkeypatch.setattr(on_cuda, "cuda_ids", list)
    monkeypatch.setattr(on_cuda, "why_no_device", lambda: "none in this test")
    monkeypatch.setattr("sys.argv", ["on_cuda.py"])
    on_cuda.main()
    assert capsys.readouterr().out == "no CUDA device: none in this test\n"


@pytest.fixture
def side_band(on_cuda):
    for module in ("numba", "sparse", "scipy", "ptychography40"):
        pytest.importorskip(module, reason=f"{module} is not installed; ptychography40 needs it")
    return on_cuda.side_band


def test_a_package_has_its_ratio(monkeypatch, side_band, tmp_path):
    fake_cupy.install(monkeypatch)
    monkeypatch.setattr(side_band, "available_cores", lambda: 2)
    _, _, row = side_band.measure(tmp_path, runs=1, scan=12, detector=32)
    name, goal, device, cpu, ratio = (cell.strip() for cell in row.strip("|").split("|"))
    assert (name, goal) == ("single side band, 12² frames of 32²", "5 x all cores")
    milliseconds = float(device.removesuffix(" ms"))
    assert milliseconds > 0
    found = re.fullmatch(r"processes (\d+) ms, own threads (\d+) ms", cpu)
    best = min(map(float, found.groups()))
    assert float(ratio.removesuffix(" x")) == pytest.approx(best / milliseconds, rel=0.5, abs=0.1)


def test_a_package_that_is_wrong_on_a_device_ends_it(monkeypatch, side_band, tmp_path):
    import framefold as ff

    fake_cupy.install(monkeypatch)
    monkeypatch.setattr(side_band, "available_cores", lambda: 1)
    ff.install_as_libertem()
    from ptychography40.reconstruction.ssb import SSB_UDF

    right = SSB_UDF.process_tile

    def wrong(self, tile):
        right(self, tile * 1.001 if self.xp is not np else tile)

    monkeypatch.setattr(SSB_UDF, "process_tile", wrong)
    with pytest.raises(AssertionError, match="single side band"):
        list(side_band.measure(tmp_path, runs=1, scan=12, detector=32))


def test_a_package_that_is_not_there_is_named(monkeypatch, on_cuda, tmp_path):
    monkeypatch.setitem(sys.modules, "sparse", None)
    *_, row = on_cuda.side_band.measure(tmp_path, runs=1)
    assert "sparse" in row
    assert "pip install --no-deps ptychography40 |" in row
