"""Recording: the file holds the data, and no other file is harmed."""

from __future__ import annotations

import errno
import gc
import os
import sys

import numpy as np
import pytest
from known_oddities import POSITIONS_WITHOUT_DATA
from shared_contexts import shared

import framefold as ff
from framefold.exceptions import FileAccessError
from framefold.udf import UDF, record
from framefold.udf.base import NoOpUDF
from framefold.udf.record import RecordUDF

#: What there is of a file while it is being written.
HIDDEN = [".frames.npy.framefold-lock", ".frames.npy.framefold-part"]


@pytest.mark.parametrize("dtype", ["uint8", ">u2", "float32", ">f8", "complex64", "bool", "int64"])
def test_the_file_holds_the_data_in_their_dtype(ctx, data, tmp_path, dtype):
    data = (data % 200).astype(dtype)
    dataset = ctx.load("memory", data=data, num_partitions=5)
    result = ctx.run_udf(dataset, RecordUDF(tmp_path / "frames.npy"))
    assert result == {}
    found = np.load(tmp_path / "frames.npy")
    assert found.dtype == data.dtype.newbyteorder("=")
    assert found.shape == data.shape
    assert np.array_equal(found, data)


def test_many_threads_and_partitions(tmp_path):
    data = np.random.default_rng(3).integers(0, 2**16, (32, 33, 20, 21), dtype=np.uint16)
    with ff.Context.make_with("threads", cpus=8) as ctx:
        dataset = ctx.load("memory", data=data, num_partitions=97)
        ctx.run_udf(dataset, [RecordUDF(tmp_path / "frames.npy"), ff.SumUDF()])
    assert np.array_equal(np.load(tmp_path / "frames.npy"), data)


class NarrowTiles(RecordUDF):
    """Wants tiles far smaller than a frame."""

    def get_tiling_preferences(self):
        return {"depth": 3, "total_size": 64}


def test_any_tiling(ctx, dataset, data, tmp_path):
    ctx.run_udf(dataset, NarrowTiles(tmp_path / "frames.npy"))
    assert np.array_equal(np.load(tmp_path / "frames.npy"), data)


def test_other_shapes(ctx, data, tmp_path):
    dataset = ctx.load("memory", data=data, sig_dims=1)
    ctx.run_udf(dataset, RecordUDF(tmp_path / "lines.npy"))
    assert np.array_equal(np.load(tmp_path / "lines.npy"), data)


def test_with_a_roi_the_selected_frames_in_their_order(ctx, dataset, data, tmp_path):
    roi = np.random.default_rng(1).random((6, 7)) < 0.3
    ctx.run_udf(dataset, RecordUDF(tmp_path / "frames.npy"), roi=roi)
    assert np.array_equal(np.load(tmp_path / "frames.npy"), data[roi])


@POSITIONS_WITHOUT_DATA
def test_positions_without_data_are_zero(ctx, data, tmp_path):
    dataset = ctx.load("memory", data=data, sync_offset=-4)
    ctx.run_udf(dataset, RecordUDF(tmp_path / "frames.npy"))
    found = np.load(tmp_path / "frames.npy").reshape((42, 10, 12))
    assert not found[:4].any()
    assert np.array_equal(found[4:], data.reshape((42, 10, 12))[:38])


def test_an_existing_file_is_not_touched(ctx, dataset, tmp_path):
    path = tmp_path / "frames.npy"
    path.write_bytes(b"precious")
    with pytest.raises(FileAccessError, match="overwrite=True") as caught:
        ctx.run_udf(dataset, RecordUDF(path))
    assert str(path) in str(caught.value)
    assert caught.value.path == str(path)
    assert path.read_bytes() == b"precious"


def test_overwriting_on_request(ctx, dataset, data, tmp_path):
    path = tmp_path / "frames.npy"
    for _ in range(2):
        ctx.run_udf(dataset, RecordUDF(path, overwrite=True))
        assert np.array_equal(np.load(path), data)


def test_a_replaced_file_lives_on_for_its_readers(ctx, dataset, data, tmp_path):
    path = tmp_path / "frames.npy"
    np.save(path, data + 1)
    old = np.load(path, mmap_mode="r")
    ctx.run_udf(dataset, RecordUDF(path, overwrite=True))
    assert np.array_equal(old, data + 1)
    assert np.array_equal(np.load(path), data)


def test_two_recordings_cannot_share_a_file(ctx, dataset, tmp_path):
    path = tmp_path / "frames.npy"
    with pytest.raises(FileAccessError, match="another run is writing it"):
        ctx.run_udf(dataset, [RecordUDF(path), RecordUDF(path)])
    assert list(tmp_path.iterdir()) == []


def test_planning_makes_no_file(ctx, dataset, tmp_path):
    ctx.explain(dataset, RecordUDF(tmp_path / "frames.npy"))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there(ctx, dataset, tmp_path):
    with pytest.raises(FileAccessError, match="No such file"):
        ctx.run_udf(dataset, RecordUDF(tmp_path / "missing" / "frames.npy"))


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="space cannot be taken ahead")
def test_a_full_disk_shows_at_the_start(ctx, dataset, tmp_path, monkeypatch):
    def full(*_):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(record.os, "posix_fallocate", full)
    with pytest.raises(FileAccessError, match="No space left"):
        ctx.run_udf(dataset, RecordUDF(tmp_path / "frames.npy"))
    assert list(tmp_path.iterdir()) == []


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="space cannot be taken ahead")
def test_file_systems_that_cannot_take_space_ahead(ctx, dataset, data, tmp_path, monkeypatch):
    def unknown(*_):
        raise OSError(errno.EOPNOTSUPP, "Operation not supported")

    monkeypatch.setattr(record.os, "posix_fallocate", unknown)
    ctx.run_udf(dataset, RecordUDF(tmp_path / "frames.npy"))
    assert np.array_equal(np.load(tmp_path / "frames.npy"), data)


def test_names_are_relative_to_where_the_udf_was_made(ctx, dataset, data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    udf = RecordUDF("frames.npy")
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    ctx.run_udf(dataset, udf)
    assert np.array_equal(np.load(tmp_path / "frames.npy"), data)


class DtypeSeen(NoOpUDF):
    """Keeps the dtype of what it gets."""

    seen: set

    def process_tile(self, tile):
        self.seen.add(tile.dtype)


@pytest.mark.parametrize(
    ("params", "expected"),
    [({}, "uint16"), ({"preferred_input_dtype": "float64"}, "float64")],
)
def test_doing_nothing(ctx, dataset, params, expected):
    cls = type("Seen", (DtypeSeen,), {"seen": set()})
    assert isinstance(cls(**params), UDF)
    assert ctx.run_udf(dataset, cls(**params)) == {}
    assert ctx.run_udf(dataset, NoOpUDF(**params)) == {}
    assert cls.seen == {np.dtype(expected)}


@pytest.fixture(params=["inline", "threads", "processes", "auto", "delayed"])
def anywhere(request):
    if request.param == "delayed":
        pytest.importorskip("dask")
        return ff.Context.make_with("delayed")
    return request.getfixturevalue(f"on_{request.param}")


def _context(name):
    @pytest.fixture(scope="module", name=f"on_{name}")
    def make():
        with shared(name, cpus=2) as context:
            yield context

    return make


on_inline, on_threads, on_processes, on_auto = map(
    _context, ("inline", "threads", "processes", "auto")
)


class FailsAtFrame(UDF):
    """Fails late, or does not, and says which files there are."""

    def __init__(self, folder, last=None):
        super().__init__(folder=folder, last=last)

    def get_result_buffers(self):
        return {"files": self.buffer("nav", dtype=object)}

    def process_frame(self, frame):
        self.results.files[:] = " ".join(sorted(os.listdir(self.params.folder)))
        if self.meta.slice.origin[0] == self.params.last:
            raise KeyError("a late frame")


@pytest.mark.parametrize("old", [None, b"precious"])
def test_the_file_appears_when_it_is_complete(anywhere, data, tmp_path, old):
    path = tmp_path / "frames.npy"
    if old is not None:
        path.write_bytes(old)
    dataset = anywhere.load("memory", data=data, num_partitions=5)
    record = RecordUDF(path, overwrite=old is not None)
    with pytest.raises(KeyError, match="a late frame"):
        _, result = anywhere.run_udf(dataset, [record, FailsAtFrame(str(tmp_path), 37)])
    assert os.listdir(tmp_path) == ([] if old is None else ["frames.npy"])
    assert old is None or path.read_bytes() == old
    _, result = anywhere.run_udf(dataset, [record, FailsAtFrame(str(tmp_path))])
    before = " ".join(HIDDEN if old is None else [*HIDDEN, "frames.npy"])
    assert set(result["files"].data.flat) == {before}
    assert os.listdir(tmp_path) == ["frames.npy"]
    assert np.array_equal(np.load(path), data)


@pytest.mark.parametrize("n_steps", [0, 1, 4])
def test_a_cancelled_run_leaves_no_file(anywhere, data, tmp_path, n_steps):
    dataset = anywhere.load("memory", data=data, num_partitions=5)
    steps = anywhere.run_udf_iter(dataset, RecordUDF(tmp_path / "frames.npy"))
    for _ in range(n_steps):
        next(steps)
    assert sorted(os.listdir(tmp_path)) == HIDDEN
    steps.close()
    assert os.listdir(tmp_path) == []


def test_steps_that_are_never_taken_leave_no_file(on_inline, data, tmp_path):
    dataset = on_inline.load("memory", data=data, num_partitions=5)
    steps = on_inline.run_udf_iter(dataset, RecordUDF(tmp_path / "frames.npy"))
    del steps
    gc.collect()
    assert os.listdir(tmp_path) == []


def test_the_last_step_finds_the_file(anywhere, data, tmp_path):
    dataset = anywhere.load("memory", data=data, num_partitions=5)
    steps = anywhere.run_udf_iter(dataset, RecordUDF(tmp_path / "frames.npy"))
    for _ in range(5):
        next(steps)
    assert np.array_equal(np.load(tmp_path / "frames.npy"), data)
    steps.close()
    assert os.listdir(tmp_path) == ["frames.npy"]


def test_what_came_meanwhile_is_not_replaced(on_threads, data, tmp_path):
    path = tmp_path / "frames.npy"
    dataset = on_threads.load("memory", data=data, num_partitions=5)

    steps = on_threads.run_udf_iter(dataset, RecordUDF(path))
    next(steps)
    path.write_bytes(b"precious")
    with pytest.raises(FileAccessError, match="overwrite=True"):
        list(steps)
    assert path.read_bytes() == b"precious"
    assert os.listdir(tmp_path) == ["frames.npy"]
    path.unlink()
    on_threads.run_udf(dataset, RecordUDF(path))
    assert np.array_equal(np.load(path), data)


@pytest.mark.skipif(sys.platform == "win32", reason="permissions are others there")
def test_permissions_and_links_stay(anywhere, data, tmp_path):
    dataset = anywhere.load("memory", data=data, num_partitions=5)
    path, link = tmp_path / "frames.npy", tmp_path / "link.npy"
    link.symlink_to("frames.npy")
    with pytest.raises(FileAccessError, match="exists"):
        anywhere.run_udf(dataset, RecordUDF(link))
    for mode in (None, 0o600):
        # The first time, the link leads nowhere.
        if mode is not None:
            path.chmod(mode)
        anywhere.run_udf(dataset, RecordUDF(link, overwrite=True))
        assert link.is_symlink()
        assert np.array_equal(np.load(path), data)
    assert path.stat().st_mode & 0o777 == 0o600
    assert sorted(os.listdir(tmp_path)) == ["frames.npy", "link.npy"]


def test_two_runs_cannot_write_one_file(on_threads, data, tmp_path):
    path = tmp_path / "frames.npy"
    dataset = on_threads.load("memory", data=data, num_partitions=5)
    first = on_threads.run_udf_iter(dataset, RecordUDF(path))
    next(first)
    with pytest.raises(FileAccessError, match="another run is writing it; wait for it"):
        on_threads.run_udf(dataset, RecordUDF(path))
    list(first)
    assert np.array_equal(np.load(path), data)
    assert os.listdir(tmp_path) == ["frames.npy"]


@pytest.mark.skipif(sys.platform == "win32", reason="there are no locks of files")
def test_what_a_killed_process_left_is_written_anew(on_threads, data, tmp_path):
    for name in HIDDEN:
        (tmp_path / name).write_bytes(b"half a file")
    dataset = on_threads.load("memory", data=data, num_partitions=5)
    on_threads.run_udf(dataset, RecordUDF(tmp_path / "frames.npy"))
    assert np.array_equal(np.load(tmp_path / "frames.npy"), data)
    assert os.listdir(tmp_path) == ["frames.npy"]


def test_one_of_two_files_fails_at_the_start(on_threads, data, tmp_path):
    dataset = on_threads.load("memory", data=data, num_partitions=5)
    with pytest.raises(FileAccessError, match="No such file"):
        on_threads.run_udf(
            dataset, [RecordUDF(tmp_path / "one.npy"), RecordUDF(tmp_path / "missing" / "two.npy")]
        )
    assert os.listdir(tmp_path) == []
