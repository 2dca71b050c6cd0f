"""The benchmark of devices: answers first, then a table with the bound of each row."""

from __future__ import annotations

import argparse
import importlib.util
from pathlib import Path

import fake_cupy
import numpy as np
import pytest

PATH = Path(__file__).resolve().parent.parent / "bench" / "on_cuda.py"


@pytest.fixture
def on_cuda(monkeypatch):
    """The script, for small frames."""
    spec = importlib.util.spec_from_file_location("on_cuda", PATH)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    monkeypatch.setattr(module, "SIG", (128, 128))
    monkeypatch.setattr(module, "TILE_BYTES", 1 << 18)
    return module


def measure(on_cuda, folder, only=""):
    options = argparse.Namespace(gigabytes=0.0005, runs=1, only=only)
    return list(on_cuda.measure(options, folder))


def test_each_case_has_its_bound(monkeypatch, on_cuda, tmp_path):
    fake_cupy.install(monkeypatch)
    first, *table = measure(on_cuda, tmp_path)
    assert first.startswith("a stand-in, ")
    assert "15 frames of (128, 128)" in first
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table[2:]]
    names = [case.name for case in on_cuda.cases(lambda n: np.ones((n, 128, 128)))]
    assert sorted({row[0] for row in rows}) == sorted(names)
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
