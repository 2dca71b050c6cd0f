"""Results that Dask workers leave in shared memory: the same bits, and nothing is left."""

from __future__ import annotations

import contextlib
import gc
import os
import signal
import traceback

import numpy as np
import pytest
from process_cases import (
    PerFrame,
    eventually,
    frames,
    hard_limit,  # noqa: F401 - a fixture
)

pytest.importorskip("distributed")

from dask_cases import (
    assert_same,
    assert_usable,
    connected,  # noqa: F401 - a fixture
    inline,  # noqa: F401 - a fixture
    local,  # noqa: F401 - a fixture
    local_processes,
    raw_file,
)

from framefold.executor import _dask_trays as trays
from framefold.udf import UDF

if trays.machine() is None:
    pytest.skip("memory cannot be shared here", allow_module_level=True)

pytestmark = pytest.mark.usefixtures("hard_limit")

#: Large enough to be shared.
SHAPE = (6, 7, 64, 200)


class Large(UDF):
    def get_result_buffers(self):
        return {"sum": self.buffer(kind="sig", dtype="float64"), "n": self.buffer(kind="nav")}

    def process_frame(self, frame):
        self.results.sum[:] += np.sqrt(frame)
        self.results.n[:] = 1

    def merge(self, dest, src):
        dest.sum[:] += src.sum
        dest.n[:] = src.n


def in_memory(pid):
    """How many pieces of shared memory of framefold a process has."""
    n = 0
    for name in os.listdir(f"/proc/{pid}/fd"):
        with contextlib.suppress(FileNotFoundError):  # it is closed meanwhile
            n += "memfd:framefold" in os.readlink(f"/proc/{pid}/fd/{name}")
    return n


def test_workers_here_share_memory(local, connected, inline, tmp_path, monkeypatch):  # noqa: F811
    seen = []
    memory = trays.MappedTrays.memory

    def look(self, tray):
        seen.append(tray.process)
        return memory(self, tray)

    monkeypatch.setattr(trays.MappedTrays, "memory", look)
    dataset = raw_file(inline, tmp_path, shape=SHAPE)
    expected = inline.run_udf(dataset, [Large()])
    for _ in range(3):
        assert_same(local.run_udf(dataset, [Large()]), expected)
    assert_same(connected.run_udf(dataset, [Large()]), expected)
    assert seen
    assert set(seen) <= set(local_processes(local.executor))
    assert_usable(local)
    workers = [os.getpid(), *local_processes(local.executor)]
    assert eventually(lambda: not any(in_memory(pid) for pid in workers))


@pytest.mark.parametrize("why", ["another machine", "not allowed"])
def test_results_are_sent_where_memory_cannot_be_shared(
    local,  # noqa: F811
    inline,  # noqa: F811
    tmp_path,
    monkeypatch,
    why,
):
    if why == "another machine":
        monkeypatch.setattr("framefold.executor._dask_shipping.machine", lambda: None)
    else:

        def refuse(_self, _tray):
            raise PermissionError("not here")

        monkeypatch.setattr(trays.MappedTrays, "memory", refuse)
    dataset = raw_file(inline, tmp_path, shape=SHAPE)
    assert_same(local.run_udf(dataset, [Large()]), inline.run_udf(dataset, [Large()]))
    monkeypatch.undo()
    assert_usable(local)


def test_results_that_are_kept_stay_as_they_are(local, inline, tmp_path):  # noqa: F811
    class Keeps(Large):
        def __init__(self, kept=()):
            super().__init__(kept=kept)

        def merge(self, dest, src):
            super().merge(dest, src)
            kept.append((src.sum, src.sum.copy()))

    kept = []
    dataset = raw_file(inline, tmp_path, shape=SHAPE, num_partitions=40)
    local.run_udf(dataset, Keeps())
    assert len(kept) == 40
    assert all(np.array_equal(now, then) for now, then in kept)


def test_memory_of_a_worker_that_died(local, inline, tmp_path):  # noqa: F811
    def kill_once(frame):
        if frame == 30 and not (tmp_path / "killed").exists():
            (tmp_path / "killed").touch()
            os.kill(os.getpid(), signal.SIGKILL)

    dataset = raw_file(inline, tmp_path, shape=SHAPE, num_partitions=42)
    results = local.run_udf(dataset, [PerFrame(kill_once), Large()])
    assert (tmp_path / "killed").exists()
    assert_same(results[1:], inline.run_udf(dataset, [Large()]))
    assert_usable(local)


def test_a_tray_of_another_process_is_not_taken_for_it():
    """Process ids and descriptors are used again."""
    tray = trays.Memory(1)
    tray.add([memoryview(np.arange(10, dtype=np.uint8))])
    told = tray.told()
    mapped = trays.MappedTrays()
    assert mapped.memory(told)[:10].tolist() == list(range(10))
    assert mapped.merged() == [1]
    other = trays.Memory(2)
    other.add([memoryview(np.zeros(10, dtype=np.uint8))])
    with pytest.raises(FileNotFoundError, match=f"process {os.getpid()} is gone"):
        trays.MappedTrays().memory(told._replace(file=other.told().file))


def test_trays_grow_and_are_used_again():
    table, mapped = trays.Trays(), trays.MappedTrays()
    for n in (100, 100_000, 300_000):
        tray = table.take(mapped.merged())
        assert tray.number == 1
        one, two = np.random.default_rng(n).integers(0, 255, (2, n), dtype=np.uint8)
        places = [*tray.add([memoryview(one)]), *tray.add([memoryview(two)])]
        memory = mapped.memory(tray.told())
        found = [memory[start : start + length] for start, length in places]
        assert np.array_equal(found, [one, two])
        # As long as somebody has them, another one is taken.
        assert table.take(mapped.merged()).number == 2
        table.put_back(table._all[2])
        del memory, found


def test_another_process_may_have_the_same_numbers():
    """A worker that begins anew at the address that it had."""
    mapped = trays.MappedTrays()
    for value in (3, 4):
        memory = trays.Trays().take([])
        memory.add([memoryview(np.full(10, value, dtype=np.uint8))])
        assert memory.number == 1
        assert mapped.memory(memory.told())[:10].tolist() == [value] * 10
    # And what the first one was told means nothing to the next.
    assert trays.Trays().take([1]).number == 1


def test_nothing_is_kept_after_the_end():
    before = in_memory(os.getpid())
    table, mapped = trays.Trays(), trays.MappedTrays()
    tray = table.take([])
    tray.add([memoryview(np.arange(10, dtype=np.uint8))])
    told = tray.told()
    memory = mapped.memory(told)
    assert in_memory(os.getpid()) == before + 2
    mapped.close()
    table.close()
    assert memory[:10].tolist() == list(range(10))  # as long as somebody has it
    del memory
    assert in_memory(os.getpid()) == before
    with pytest.raises(FileNotFoundError, match="has ended"):
        mapped.memory(told)
    table.put_back(tray)
    assert table.take([1]).number == 1


@pytest.mark.parametrize("end", ["complete", "closed", "failing here", "failing there"])
def test_no_memory_is_left_where_exceptions_are_kept(local, inline, tmp_path, end):  # noqa: F811
    """Their frames refer to each other; nothing waits for these to be collected."""
    merged = []

    class Ends(Large):
        def merge(self, dest, src):
            super().merge(dest, src)
            merged.append(1)
            if end == "failing here" and len(merged) == 10:
                raise KeyError("merge")

    dataset = raw_file(inline, tmp_path, shape=SHAPE, num_partitions=21)
    udfs = [Ends(), PerFrame(raise_late)] if end == "failing there" else [Ends()]
    processes = [os.getpid(), *local_processes(local.executor)]
    before = [in_memory(pid) for pid in processes]
    caught = None
    gc.disable()
    try:
        with local.run_udf_iter(dataset, udfs) as steps:
            for _ in steps:
                if end == "closed":
                    break
    except (KeyError, ZeroDivisionError) as error:
        caught = error
    try:
        assert (caught is not None) == end.startswith("failing")
        if caught is not None:
            traceback.clear_frames(caught.__traceback__)  # those of merging have partial results
        assert eventually(lambda: [in_memory(pid) for pid in processes] == before)
    finally:
        gc.enable()


def raise_late(frame):
    if frame > 30:
        try:
            raise ValueError("first")
        except ValueError as error:
            raise ZeroDivisionError from error


def test_frames(local, inline):  # noqa: F811
    """Small results travel with the answer."""
    dataset = frames(inline, 40, 20)
    assert_same([local.run_udf(dataset, Small())], [inline.run_udf(dataset, Small())])


class Small(UDF):
    def get_result_buffers(self):
        return {"mean": self.buffer(kind="nav", dtype="float64")}

    def process_frame(self, frame):
        self.results.mean[:] = frame.mean()
