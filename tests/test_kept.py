"""Data sets that stay open in worker processes: only for as long as they are the same."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import time

import numpy as np
import pytest
from known_oddities import FRAMES_LEFT_OVER
from process_cases import eventually
from shared_contexts import shared

import framefold as ff
from framefold.exceptions import FileAccessError, FileChangedError
from framefold.executor._wire import datasets
from framefold.udf import UDF

if sys.platform == "win32":
    pytest.skip("files that are open cannot be changed here", allow_module_level=True)


@pytest.fixture(autouse=True)
def nothing_kept():
    datasets.forget()
    yield
    datasets.forget()


def write(path, value, n_frames=4, age=60):
    np.full((n_frames, 3, 5), value, dtype=np.uint16).tofile(path)
    then = time.time() - age
    os.utime(path, (then, then))


def load(path, n_frames=4):
    ctx = ff.Context.make_with("inline")
    return ctx.load("raw", path, dtype="uint16", nav_shape=(n_frames,), sig_shape=(3, 5))


def sent(dataset):
    return pickle.dumps(datasets.sent(dataset))


def total(dataset):
    return ff.Context.make_with("inline").run_udf(dataset, ff.SumUDF())["intensity"].data.sum()


def test_the_same_data_set_is_opened_once(tmp_path):
    write(tmp_path / "a.raw", 1)
    write(tmp_path / "b.raw", 2)
    one = sent(load(tmp_path / "a.raw"))
    first = pickle.loads(one)
    assert pickle.loads(one) is first
    assert pickle.loads(sent(load(tmp_path / "a.raw"))) is first
    other = pickle.loads(sent(load(tmp_path / "b.raw")))
    assert (total(first), total(other)) == (60, 120)


@pytest.mark.parametrize("how", ["written", "replaced", "longer"])
@FRAMES_LEFT_OVER
def test_files_that_change_are_not_kept(tmp_path, how):
    path = tmp_path / "a.raw"
    write(path, 1)
    data = sent(load(path))
    first = pickle.loads(data)
    if how == "replaced":
        write(tmp_path / "new.raw", 7)
        os.replace(tmp_path / "new.raw", path)
    else:
        write(path, 7, n_frames=5 if how == "longer" else 4, age=30)
    with pytest.raises(FileChangedError, match=r"a\.raw"):
        pickle.loads(data)
    with pytest.raises(FileChangedError, match=r"a\.raw"):
        total(first)
    assert total(pickle.loads(sent(load(path)))) == 420


def test_files_that_have_just_changed_are_not_kept(tmp_path):
    path = tmp_path / "a.raw"
    write(path, 1, age=-60)  # however long it takes until it is looked at
    data = sent(load(path))
    first = pickle.loads(data)
    assert pickle.loads(data) is not first


def test_a_file_that_is_gone(tmp_path):
    path = tmp_path / "a.raw"
    write(path, 1)
    data = sent(load(path))
    assert total(pickle.loads(data)) == 60
    path.unlink()
    with pytest.raises(FileAccessError, match=r"a\.raw"):
        pickle.loads(data)


def test_not_many_are_kept(tmp_path):
    opened = []
    for number in range(datasets.MOST + 1):
        write(tmp_path / f"{number}.raw", number)
        data = sent(load(tmp_path / f"{number}.raw"))
        opened.append((data, pickle.loads(data)))
    (oldest, was), (latest, is_now) = opened[0], opened[-1]
    assert pickle.loads(latest) is is_now
    assert pickle.loads(oldest) is not was


def test_they_are_closed_after_some_time(tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "SECONDS", 0.05)
    write(tmp_path / "a.raw", 1)
    pickle.loads(sent(load(tmp_path / "a.raw")))
    assert eventually(lambda: not datasets._open_datasets)


def test_data_in_memory_are_not_kept():
    dataset = ff.Context.make_with("inline").load("memory", data=np.ones((4, 3, 5)))
    assert datasets.sent(dataset) is dataset


class Total(UDF):
    def get_result_buffers(self):
        return {"total": self.buffer(kind="nav"), "pid": self.buffer(kind="nav", dtype="int64")}

    def process_frame(self, frame):
        self.results.total[:] = frame.sum()
        self.results.pid[:] = os.getpid()


def test_worker_processes_see_changes(tmp_path):
    path = tmp_path / "a.raw"
    write(path, 1)
    with shared("processes", cpus=1) as ctx:
        dataset = load(path)
        before = ctx.run_udf(dataset, Total())
        assert before["total"].data.tolist() == [15] * 4
        assert int(before["pid"].data[0]) != os.getpid()
        # By another program, in place.
        script = "import sys, numpy as np; np.memmap(sys.argv[1], np.uint16, 'r+')[:] = 2"
        subprocess.run([sys.executable, "-c", script, path], check=True, timeout=60)
        with pytest.raises(FileChangedError, match=r"a\.raw"):
            ctx.run_udf(dataset, Total())
        assert ctx.run_udf(load(path), Total())["total"].data.tolist() == [30] * 4
        write(tmp_path / "new.raw", 7)
        os.replace(tmp_path / "new.raw", path)
        assert ctx.run_udf(load(path), Total())["total"].data.tolist() == [105] * 4
