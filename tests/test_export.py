"""Data sets are written as NPY files, completely or not at all."""

from __future__ import annotations

import numpy as np
import pytest

from framefold.common.progress import ProgressReporter
from framefold.exceptions import (
    FileAccessError,
    InvalidArgumentError,
)


class Recorder(ProgressReporter):
    def __init__(self):
        self.states = []

    def start(self, state):
        self.states.append(("start", state))

    def update(self, state):
        self.states.append(("update", state))

    def end(self, state):
        self.states.append(("end", state))


@pytest.mark.parametrize("dtype", [">u2", "float64", "complex64", "bool"])
def test_export(ctx, tmp_path, data, dtype):
    array = (data % 2 if dtype == "bool" else data).astype(dtype)
    source, target = tmp_path / "source.raw", tmp_path / "out.npy"
    array.tofile(source)
    dataset = ctx.load(
        "raw", source, dtype=dtype, nav_shape=(6, 7), sig_shape=(10, 12), num_partitions=4
    )
    recorder = Recorder()
    assert ctx.export_dataset(dataset, path=target, progress=recorder) is None
    written = np.load(target)
    assert written.dtype == dataset.dtype
    assert np.array_equal(written, array)
    assert recorder.states[-1][1].num_frames_complete == 42
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out.npy", "source.raw"]


def test_export_of_missing_frames(ctx, tmp_path, data):
    dataset = ctx.load("memory", data=data, sig_dims=2, sync_offset=-3)
    ctx.export_dataset(dataset, path=tmp_path / "out.npy")
    written = np.load(tmp_path / "out.npy").reshape(42, 10, 12)
    assert not written[:3].any()
    assert np.array_equal(written[3:], data.reshape(42, 10, 12)[:-3])


def test_misuse_of_export(ctx, tmp_path, data, dataset):
    target = tmp_path / "out.npy"
    target.write_text("precious")
    with pytest.raises(FileExistsError, match="exists; pass overwrite=True") as caught:
        ctx.export_dataset(dataset, path=target)
    assert isinstance(caught.value, FileAccessError)
    assert target.read_text() == "precious"
    ctx.export_dataset(dataset, path=target, overwrite=True)
    assert np.array_equal(np.load(target), data)
    with pytest.raises(InvalidArgumentError, match=r"does not end in \.npy"):
        ctx.export_dataset(dataset, path=tmp_path / "out.raw")
    with pytest.raises(FileAccessError, match="cannot write"):
        ctx.export_dataset(dataset, path=tmp_path / "nowhere" / "out.npy")
    with pytest.raises(InvalidArgumentError, match="that the data set is read from"):
        ctx.export_dataset(ctx.open(target), path=target, overwrite=True)


def test_a_failed_export_leaves_the_old_file(ctx, tmp_path, dataset):
    class Full(Recorder):
        def update(self, state):
            raise RuntimeError("stop")

    target = tmp_path / "out.npy"
    target.write_text("precious")
    with pytest.raises(RuntimeError, match="stop"):
        ctx.export_dataset(dataset, path=target, overwrite=True, progress=Full())
    assert target.read_text() == "precious"
    assert [path.name for path in tmp_path.iterdir()] == ["out.npy"]
