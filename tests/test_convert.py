"""Data sets are written as sparse files, completely or not at all."""

from __future__ import annotations

import numpy as np
import pytest
from known_oddities import POSITIONS_WITHOUT_DATA

import framefold as ff
from framefold.common.progress import ProgressReporter
from framefold.exceptions import (
    FileAccessError,
    InvalidArgumentError,
    UnsupportedError,
)
from framefold.io.corrections import CorrectionSet

NAMES = ["out.data", "out.indices", "out.indptr", "out.toml"]


class Recorder(ProgressReporter):
    def __init__(self, stop_at=None):
        self.states = []
        self.stop_at = stop_at

    def start(self, state):
        self.states.append(("start", state))

    def update(self, state):
        self.states.append(("update", state))
        if self.stop_at is not None and state.num_frames_complete >= self.stop_at:
            raise KeyboardInterrupt

    def end(self, state):
        self.states.append(("end", state))


@pytest.fixture
def counts():
    return np.random.default_rng(3).poisson(0.1, (5, 6, 16, 12))


def names(folder):
    return sorted(path.name for path in folder.iterdir())


@pytest.mark.parametrize("dtype", ["uint8", "<u2", ">i4", "float32", "bool", "complex64"])
def test_what_is_written_reads_as_it_was(ctx, tmp_path, counts, dtype):
    source = tmp_path / "source.raw"
    counts.astype(dtype).tofile(source)
    dataset = ctx.load("raw", source, dtype=dtype, nav_shape=(5, 6), sig_shape=(16, 12))
    recorder = Recorder()
    written = ctx.convert(dataset, tmp_path / "out.toml", progress=recorder)
    assert names(tmp_path) == [*NAMES, "source.raw"]
    assert sorted(written.paths) == [str(tmp_path / name) for name in NAMES]
    assert written.n_frames == 30
    assert written.n_entries == np.count_nonzero(counts)
    assert written.n_bytes == sum((tmp_path / name).stat().st_size for name in NAMES[:3])
    result = ctx.open(written.paths[0])
    assert (result.format, result.shape, result.dtype) == ("raw_csr", dataset.shape, dataset.dtype)
    picked = ctx.run_udf(result, ff.PickUDF())["intensity"].raw_data
    np.testing.assert_array_equal(picked.reshape(counts.shape), counts.astype(dataset.dtype))
    kinds = [kind for kind, _ in recorder.states]
    assert (kinds[0], kinds[-1], set(kinds[1:-1])) == ("start", "end", {"update"})
    last = recorder.states[-1][1]
    assert (last.num_frames_complete, last.num_frames_total) == (30, 30)
    assert (last.num_part_complete, last.num_part_in_progress) == (1, 0)


def test_thresholds(ctx, tmp_path, counts):
    dataset = ctx.load("memory", data=counts.astype(np.float32) - 0.5)
    written = ctx.convert(dataset, tmp_path / "out.toml", "raw_csr", threshold=0.5)
    assert written.n_entries == np.count_nonzero(counts > 1)
    picked = ctx.run_udf(ctx.open(written.paths[0]), ff.PickUDF())["intensity"].raw_data
    expected = np.where(counts > 1, counts - 0.5, 0).reshape(30, 16, 12)
    np.testing.assert_array_equal(picked, expected)
    with pytest.raises(InvalidArgumentError, match="threshold is -1"):
        ctx.convert(dataset, tmp_path / "other.toml", threshold=-1)
    with pytest.raises(InvalidArgumentError, match="threshold is '3', expected a number"):
        ctx.convert(dataset, tmp_path / "other.toml", threshold="3")
    assert names(tmp_path) == NAMES


def test_sparse_data_are_written_without_a_detour(ctx, tmp_path, counts):
    scipy_sparse = pytest.importorskip("scipy.sparse", reason="scipy is not installed")
    rows = scipy_sparse.csr_array(counts.reshape(30, -1))
    dataset = ctx.load("memory", data=rows, nav_shape=(5, 6), sig_shape=(16, 12))
    ctx.convert(dataset, str(tmp_path / "out.toml"))
    for name, part in (("indices", rows.indices), ("indptr", rows.indptr), ("data", rows.data)):
        dtype = {"indices": "i4", "indptr": "i8", "data": counts.dtype}[name]
        np.testing.assert_array_equal(np.fromfile(tmp_path / f"out.{name}", dtype), part)


def test_files_are_replaced_only_on_demand(ctx, tmp_path, counts):
    dataset = ctx.load("memory", data=counts)
    ctx.convert(dataset, tmp_path / "out.toml")
    before = (tmp_path / "out.data").stat().st_size
    fewer = ctx.load("memory", data=counts[:2])
    with pytest.raises(FileExistsError, match=r"out\.toml.*overwrite=True"):
        ctx.convert(fewer, tmp_path / "out.toml")
    (tmp_path / "out.toml").unlink()
    with pytest.raises(
        FileAccessError, match=r"out\.indptr.*overwrite=True to give the arrays other names"
    ):
        ctx.convert(fewer, tmp_path / "out.toml")
    assert (tmp_path / "out.data").stat().st_size == before
    ctx.convert(fewer, tmp_path / "out.toml", overwrite=True)
    result = ctx.open(tmp_path / "out.toml")
    assert tuple(result.shape) == (2, 6, 16, 12)
    with pytest.raises(InvalidArgumentError, match="one of the input files"):
        ctx.convert(result, tmp_path / "out.toml", overwrite=True)
    assert tuple(ctx.open(tmp_path / "out.toml").shape) == (2, 6, 16, 12)


def test_nothing_is_left_of_what_was_stopped(ctx, tmp_path):
    dataset = ctx.load("memory", data=np.ones((40, 3, 512, 256), dtype=np.uint16))
    recorder = Recorder(stop_at=40)
    with pytest.raises(KeyboardInterrupt):
        ctx.convert(dataset, tmp_path / "out.toml", progress=recorder)
    assert names(tmp_path) == []
    kind, last = recorder.states[-1]
    assert kind == "end"
    assert 40 <= last.num_frames_complete < 120
    assert last.num_part_complete == 0


@POSITIONS_WITHOUT_DATA
def test_what_cannot_be_written_is_refused(ctx, tmp_path, counts):
    dataset = ctx.load("memory", data=counts)
    with pytest.raises(InvalidArgumentError, match=r"out\.csr.*\.toml"):
        ctx.convert(dataset, tmp_path / "out.csr")
    with pytest.raises(InvalidArgumentError, match="'npy'; use 'raw_csr'"):
        ctx.convert(dataset, tmp_path / "out.toml", "npy")
    with pytest.raises(InvalidArgumentError, match="dataset is a ndarray"):
        ctx.convert(counts, tmp_path / "out.toml")
    with pytest.raises(FileAccessError, match="no-such-folder"):
        ctx.convert(dataset, tmp_path / "no-such-folder" / "out.toml")
    gap = ctx.load("memory", data=counts, sync_offset=-3)
    with pytest.raises(UnsupportedError, match="position 0 has no data"):
        ctx.convert(gap, tmp_path / "out.toml")
    assert names(tmp_path) == []


def test_how_frames_were_turned_stays_known(ctx, tmp_path):
    """Of copies of copies, too, and for all who turn them again."""
    path = tmp_path / "scan.npy"
    frames = np.arange(2 * 3 * 4 * 5, dtype="uint16").reshape(2, 3, 4, 5)
    np.save(path, frames)
    ctx.convert(ctx.open(path, flip="y"), tmp_path / "turned.toml")
    turned = ctx.open(tmp_path / "turned.toml")
    assert turned.metadata == {"orientation": "flip y of npy"}
    ctx.convert(turned, tmp_path / "again.toml")
    again = ctx.open(tmp_path / "again.toml", transpose=True)
    assert again.metadata["orientation"] == "flip y of npy; transpose of raw_csr"
    ctx.convert(ctx.open(path), tmp_path / "plain.toml")
    assert ctx.open(tmp_path / "plain.toml").metadata == {}
    assert "framefold" not in (tmp_path / "plain.toml").read_text(encoding="utf-8")


def test_corrections_of_own_classes_are_applied(ctx, tmp_path, counts):
    class Corrected(ff.io.dataset.memory.MemoryDataSet):
        def get_correction_data(self):
            return CorrectionSet(dark=np.full((16, 12), 3))

    ctx.convert(Corrected(counts).initialize(), tmp_path / "out.toml")
    np.testing.assert_array_equal(ctx.open(tmp_path / "out.toml")[...], counts - 3.0)
