"""Results that Dask workers leave in shared memory: the same bits, and nothing is left."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import traceback

import numpy as np
import pytest
from executor_cases import assert_same
from process_cases import (
    PerFrame,
    eventually,
    frames,
    hard_limit,  # noqa: F401 - a fixture
)

pytest.importorskip("distributed")

from dask_cases import (
    assert_usable,
    connected,  # noqa: F401 - a fixture
    inline,  # noqa: F401 - a fixture
    local,  # noqa: F401 - a fixture
    local_processes,
    raw_file,
)

from framefold.executor._dask import memory as lending
from framefold.udf import UDF

if lending.machine() is None:
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


def wait_for_rest():
    """Until this process has let go of what it keeps for a next run."""
    gc.collect()  # classes of earlier tests, and what they refer to
    assert eventually(lambda: not in_memory(os.getpid()))


@pytest.fixture(autouse=True)
def soon_gone(monkeypatch):
    monkeypatch.setattr(lending, "KEPT_SECONDS", 0.1)


def test_workers_here_share_memory(local, connected, inline, tmp_path, monkeypatch):  # noqa: F811
    seen = []
    read = lending.BufferPool.read

    def look(self, buffer, used):
        seen.append(used)
        return read(self, buffer, used)

    monkeypatch.setattr(lending.BufferPool, "read", look)
    dataset = raw_file(inline, tmp_path, shape=SHAPE)
    expected = inline.run_udf(dataset, [Large()])
    for context in (local, local, local, connected):
        assert_same(context.run_udf(dataset, [Large()]), expected)
        assert sum(seen) > expected[0]["sum"].data.nbytes
        seen.clear()
    assert_usable(local)
    everywhere = [os.getpid(), *local_processes(local.executor)]
    assert eventually(lambda: not any(in_memory(pid) for pid in everywhere))


def test_memory_is_kept_from_run_to_run(local, inline, tmp_path, monkeypatch):  # noqa: F811
    monkeypatch.setattr(lending, "KEPT_SECONDS", 30.0)
    dataset = raw_file(inline, tmp_path, shape=SHAPE)
    expected = inline.run_udf(dataset, [Large()])
    made = []
    allocate = lending.pickles.allocate
    monkeypatch.setattr(lending.pickles, "allocate", lambda n: made.append(n) or allocate(n))
    assert_same(local.run_udf(dataset, [Large()]), expected)
    buffers = local.executor._buffers
    assert made
    assert eventually(lambda: not buffers._lent)
    # More may be needed at a time than were before, but not all of them are new.
    n_kept = len(buffers._free)
    inodes = {os.fstat(memory.descriptor).st_ino for memory in buffers._free}
    assert_same(local.run_udf(dataset, [Large()]), expected)
    assert eventually(lambda: not buffers._lent)
    assert len(inodes & {os.fstat(memory.descriptor).st_ino for memory in buffers._free}) == n_kept
    buffers.release_unused()


@pytest.mark.parametrize("why", ["another machine", "another address", "not allowed"])
def test_results_are_sent_where_memory_cannot_be_shared(
    local,  # noqa: F811
    inline,  # noqa: F811
    tmp_path,
    monkeypatch,
    why,
):
    if why == "another machine":
        monkeypatch.setattr("framefold.executor._dask.crew.machine", lambda: None)
    elif why == "another address":
        monkeypatch.setattr("framefold.executor._dask.feed.is_near", lambda _address: False)
    else:
        monkeypatch.setattr(lending._Memory, "lend", lend_nothing)

    def refuse(_self, _tray, _used):
        raise AssertionError("nothing was shared")

    monkeypatch.setattr(lending.BufferPool, "read", refuse)
    dataset = raw_file(inline, tmp_path, shape=SHAPE)
    assert_same(local.run_udf(dataset, [Large()]), inline.run_udf(dataset, [Large()]))
    monkeypatch.undo()
    assert_usable(local)


def lend_nothing(self):
    """What a worker cannot open."""
    return lending.SharedBuffer(os.getpid(), 1 << 30, (0, 0), 0)


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


def written(buffer, value):
    """What a worker does with a buffer."""
    filling = lending.open_buffer(lending.SharedBuffer(*buffer))
    places = filling.add([memoryview(np.full(10, value, dtype=np.uint8))])
    filling.close()
    return places, filling.used


def test_a_file_of_another_process_is_not_taken_for_a_tray():
    """Process ids and descriptors are used again."""
    pool = lending.BufferPool()
    buffer, other = pool.lend(), pool.lend()
    assert lending.open_buffer(buffer._replace(file=other.file)) is None
    assert lending.open_buffer(buffer._replace(descriptor=other.descriptor)) is None
    assert lending.open_buffer(buffer._replace(descriptor=1 << 30)) is None
    (place,), used = written(buffer, 3)
    assert pool.read(buffer, used)[place[0] : sum(place)].tolist() == [3] * 10


def test_buffers_grow_and_are_lent_again():
    pool = lending.BufferPool()
    first = None
    for n in (100, 100_000, 300_000):
        buffer = pool.lend()
        first = first or buffer
        assert buffer.file == first.file
        one, two = np.random.default_rng(n).integers(0, 255, (2, n), dtype=np.uint8)
        filling = lending.open_buffer(buffer)
        places = [*filling.add([memoryview(one)]), *filling.add([memoryview(two)])]
        filling.close()
        memory = pool.read(buffer, filling.used)
        found = [memory[start : start + length] for start, length in places]
        pool.give_back(buffer)
        # As long as views of it exist, another one is lent.
        other = pool.lend()
        assert other.file != buffer.file
        pool.give_back(other)
        assert np.array_equal(found, [one, two])
        # That one is at hand, too, and is lent first.
        pool._free.reverse()
        del memory, found


def test_what_is_written_late_goes_nowhere():
    """A worker was thought to be gone, and is not."""
    pool = lending.BufferPool()
    buffer = pool.lend()
    late = lending.open_buffer(buffer)
    # Another attempt at the same batch.
    assert lending.open_buffer(buffer) is None
    pool.give_back(buffer)
    # It still writes: the buffer is not lent again.
    second = pool.lend()
    assert second.file != buffer.file
    late.add([memoryview(bytes(100))])
    late.close()
    pool.give_back(second)
    third = pool.lend()
    assert third.file == second.file
    # It begins only now.
    assert lending.open_buffer(second) is None
    lending.open_buffer(third).close()


def test_not_more_is_kept_than_allowed(monkeypatch):
    monkeypatch.setattr(lending, "KEPT_BYTES", 150_000)
    wait_for_rest()
    pool = lending.BufferPool()
    lent = [pool.lend() for _ in range(3)]
    for buffer in lent:
        filling = lending.open_buffer(buffer)
        filling.add([memoryview(bytes(100_000))])
        filling.close()
        pool.give_back(buffer)
    assert in_memory(os.getpid()) == 3
    assert pool.lend().file == lent[-1].file
    pool.release_later()  # no loop runs here, so no other run can come
    assert in_memory(os.getpid()) == 1

    async def run():
        pool.release_later()
        await asyncio.sleep(0.15)
        return len(pool._free)

    for buffer in [pool.lend(), pool.lend()]:
        pool.give_back(buffer)
    monkeypatch.setattr(lending, "KEPT_SECONDS", 30.0)
    assert asyncio.run(run()) == 2
    monkeypatch.setattr(lending, "KEPT_SECONDS", 0.01)
    assert asyncio.run(run()) == 0


def test_user_code_that_keeps_results_does_not_keep_all_buffers():
    pool = lending.BufferPool()
    kept = []
    for value in range(20):
        buffer = pool.lend()
        (place,), used = written(buffer, value)
        kept.append(pool.read(buffer, used)[place[0] : sum(place)])
        pool.give_back(buffer)
    assert len(pool._free) <= 2
    assert [array[0] for array in kept] == list(range(20))


def test_nothing_is_kept_after_the_end():
    wait_for_rest()
    pool = lending.BufferPool()
    buffer = pool.lend()
    (place,), used = written(buffer, 7)
    memory = pool.read(buffer, used)
    pool.close()
    pool.give_back(buffer)
    assert pool.lend() is None
    assert memory[place[0] : sum(place)].tolist() == [7] * 10  # as long as a view exists
    del memory
    assert in_memory(os.getpid()) == 0


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
    wait_for_rest()
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
