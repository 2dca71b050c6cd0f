"""What every executor does when something goes wrong: the right result, or one clear error."""

from __future__ import annotations

import asyncio
import copy
import ctypes
import gc
import os
import pickle
import signal
import sys
import threading

import numpy as np
import pytest
from contract_async import Slow, endless
from executor_cases import assert_same, load
from process_cases import (
    Numbers,
    PerFrame,
    assert_usable,
    eventually,
    forking,
    frames,
    gone,
    is_running,
    sleep_in_python,
    sleep_with_the_lock,
    sleepy,
    the_fork,
)
from sample_udfs import Level, Recorder

from framefold.exceptions import (
    FramefoldError,
    InvalidArgumentError,
    LimitError,
    UDFError,
    UDFRunCancelled,
    UnsupportedError,
    WorkerError,
    WorkerTimeoutError,
)
from framefold.udf import UDF

#: Ends a worker, and says how in the error: all of them with what the message has.
DEADLY = {
    "kill": lambda _frame: os.kill(os.getpid(), signal.SIGKILL),
    "crash": lambda _frame: ctypes.string_at(0),
    "leave": lambda _frame: os._exit(3),
}


#: What a forked process does next.
FORKED = {"exit": lambda: sys.exit(0), "return": lambda: None, "raise": lambda: 1 // 0}


def fork_and_wait(end):
    """A function that forks at frame 3, and looks at how the other process has ended."""

    def fork(frame):
        if frame == 3:
            other = os.fork()
            if other == 0:
                FORKED[end]()
            else:
                code = os.waitstatus_to_exitcode(os.waitpid(other, 0)[1])
                assert code == (1 if end == "raise" else 0)

    return fork


def ending(folder, ways):
    """A function that ends its worker in these ways, one after the other; a file tells of each."""

    def end(frame):
        n_ended = len(list(folder.iterdir()))
        way = ways[n_ended % len(ways)]
        (folder / f"{n_ended} {way}").touch()
        DEADLY[way](frame)

    return end


class MineError(ValueError):
    def __init__(self, code):
        super().__init__(code)
        self.code = code


class Awkward(Exception):
    def __init__(self, one, two):
        super().__init__(f"{one} and {two}")
        self.lock = threading.Lock()


class ToldError(Exception):
    """Makes a message of what it is given."""

    def __init__(self, what, *, where):
        super().__init__(f"{what} at {where}")
        self.where = where


class NotedError(ToldError):
    """Takes no notes."""

    __notes__ = 7


#: Called where they are raised: not all of them can be sent as they are.
TELLING = [
    lambda: ToldError("found nothing", where=3),
    lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    lambda: FileNotFoundError(2, "nothing there", "dark.npy"),
    lambda: LimitError("too much"),
    lambda: NotedError("no list of notes", where=2),
    lambda: ExceptionGroup("several", [ToldError("one", where=1), KeyError("two")]),
]


def computed(results):
    """All that a run has computed, wherever that is done."""
    for each in results if isinstance(results, tuple) else (results,):
        for buffer in each.values():
            buffer.data  # noqa: B018
    return results


class Failures:
    """Errors are those of the functions, the first in the order of partitions, as themselves."""

    @pytest.fixture(autouse=True)
    def usable_afterwards(self, request, ctx):
        yield
        if "two_workers" not in request.fixturenames:  # which looks at that
            assert_usable(ctx)

    def test_exceptions_come_back_as_themselves(self, ctx, subject):
        def raise_mine(frame):
            if frame >= 7:
                raise MineError(frame)

        if subject.computes_later:  # the scheduler says which one is met first
            with pytest.raises(MineError):
                computed(ctx.run_udf(frames(ctx), PerFrame(raise_mine)))
        run = subject.in_order(ctx)
        with pytest.raises(MineError) as caught:
            run(frames(ctx), PerFrame(raise_mine))
        # The first in the order of partitions, whichever came first in time.
        assert caught.value.code == 7
        assert "UDF PerFrame, partition 3, frame 7" in "".join(caught.value.__notes__)
        if subject.has_processes:
            text = str(caught.value.__cause__)
            assert "In a worker process" in text
            assert "in raise_mine" in text
            assert f'File "{__file__}"' in text

    def test_exceptions_that_cannot_be_pickled(self, ctx, subject):
        def raise_awkward(_frame):
            raise Awkward(1, 2)

        kinds = UDFError if subject.has_processes else (Awkward, UDFError)
        with pytest.raises(kinds, match="1 and 2") as caught:
            subject.in_order(ctx)(frames(ctx), PerFrame(raise_awkward))
        assert "partition 0" in "".join(caught.value.__notes__)
        if subject.has_processes:
            assert "Awkward: 1 and 2" in str(caught.value)
            assert "raise_awkward" in str(caught.value.__cause__)

    def test_exceptions_elsewhere(self, ctx):
        class Failing(Level):
            def __init__(self, where, offset=1):
                UDF.__init__(self, offset=offset, where=where)

            def preprocess(self):
                self.fail("preprocess", self.meta.slice is not None)

            def postprocess(self):
                self.fail("postprocess")

            def merge(self, dest, src):
                self.fail("merge")
                super().merge(dest, src)

            def get_results(self):
                self.fail("get_results")
                return {}

            def fail(self, place, really=True):
                if really and place == self.params.where:
                    raise KeyError(place)

        for where in ("preprocess", "postprocess", "get_results", "merge"):
            with pytest.raises(KeyError, match=where):
                computed(ctx.run_udf(frames(ctx), Failing(where)))

    def test_an_exception_in_the_middle(self, ctx, inline, tmp_path):
        class Failing(Level):
            def process_frame(self, frame):
                if self.meta.slice.origin[0] == 30:
                    raise KeyError("broken here")
                super().process_frame(frame)

        dataset = load("raw", "uint16", inline, tmp_path)
        n_steps = 0
        with pytest.raises(KeyError, match="broken here") as caught:  # noqa: PT012
            for _ in ctx.run_udf_iter(dataset, Failing()):
                n_steps += 1
        # All those before it, and none after.
        assert n_steps == 3
        assert "UDF Failing, partition 3, frame 30" in "".join(caught.value.__notes__)
        wanted = inline.run_udf(dataset, Level(offset=3))
        assert_same([ctx.run_udf(dataset, Level(offset=3))], [wanted])

    def test_an_exception_that_ends_loops(self, ctx, inline, tmp_path):
        class Failing(Level):
            def process_frame(self, frame):
                if self.meta.slice.origin[0] == 30:
                    next(iter(()))
                super().process_frame(frame)

        dataset = load("raw", "uint16", inline, tmp_path)
        with pytest.raises(StopIteration) as caught:
            # Not a result, at least.
            assert ctx.run_udf(dataset, Failing())["level"].data is None
        assert "UDF Failing, partition 3, frame 30" in "".join(caught.value.__notes__)
        # It must not end a loop over results as if they were complete.
        with pytest.raises(RuntimeError, match="StopIteration") as in_loop:
            list(ctx.run_udf_iter(dataset, Failing()))
        assert "UDF Failing, partition 3, frame 30" in "".join(in_loop.value.__notes__)

    def test_exceptions_keep_what_they_say(self, ctx, inline, tmp_path):
        class Failing(Level):
            def __init__(self, make_one, offset=1):
                UDF.__init__(self, offset=offset, make_one=make_one)

            def process_frame(self, frame):
                raise self.params.make_one()

        dataset = load("raw", "uint16", inline, tmp_path)
        for make_one in TELLING:
            wanted = make_one()
            with pytest.raises(type(wanted)) as caught:
                assert ctx.run_udf(dataset, Failing(make_one))["level"].data is None
            assert str(caught.value) == str(wanted)
            assert getattr(caught.value, "where", None) == getattr(wanted, "where", None)
            several = getattr(caught.value, "exceptions", ())
            assert repr(several) == repr(getattr(wanted, "exceptions", ()))

    def test_too_much_memory(self, ctx):
        def allocate(_frame):
            np.ones(1 << 50)

        with pytest.raises(MemoryError):
            computed(ctx.run_udf(frames(ctx), PerFrame(allocate)))

    def test_a_file_that_is_gone(self, ctx, subject, tmp_path, inline):
        dataset = load("raw", "float32", inline, tmp_path)
        before = computed(ctx.run_udf(dataset, Level()))
        (tmp_path / "scan.raw").unlink()
        if subject.has_processes:
            with pytest.raises(FramefoldError, match=r"scan\.raw") as caught:
                ctx.run_udf(dataset, Level())
            notes = getattr(caught.value, "__notes__", ())
            assert "worker" in "".join([str(caught.value), *notes])
        elif subject.workers is None:  # this process has it open
            assert_same([ctx.run_udf(dataset, Level())], [before])
        # In its place is what it cannot be.
        (tmp_path / "scan.raw").mkdir()
        with pytest.raises(FramefoldError, match=r"scan\.raw"):
            computed(ctx.run_udf(dataset, Level()))

    @pytest.mark.filterwarnings("ignore::framefold.warnings.ThreadsInsteadWarning")
    def test_what_cannot_be_sent(self, ctx, subject):
        lock = threading.Lock()

        class Closed(Level):
            def process_frame(self, frame):
                with lock:
                    super().process_frame(frame)

        class Locked(Level):
            def __init__(self, offset, lock):
                UDF.__init__(self, offset=offset, lock=lock)

        if not subject.has_processes:  # nothing is sent, or the calling thread goes on
            for udf in (Locked(2, lock), Closed(2)):
                level = ctx.run_udf(frames(ctx), udf)["level"].data
                assert level.tolist() == [2] * 40
            return
        with pytest.raises(
            InvalidArgumentError, match="Locked: parameter 'lock', a lock, cannot be sent"
        ):
            ctx.run_udf(frames(ctx), Locked(2, lock))
        with pytest.raises(
            InvalidArgumentError, match="Closed: 'process_frame' of the class refers"
        ):
            ctx.run_udf(frames(ctx), Closed())
        with ctx.run_udf_iter(frames(ctx, 4000, 2000), Level()) as steps:
            next(steps)
            steps.update_parameters_experimental([{"offset": lock}])
            with pytest.raises(InvalidArgumentError, match="parameter 'offset', a lock"):
                next(steps)

    def test_results_that_cannot_be_sent(self, ctx, subject):
        subject.lacks("has_processes")

        class Locks(UDF):
            def get_result_buffers(self):
                return {"lock": self.buffer(kind="nav", dtype=object)}

            def process_frame(self, frame):
                self.results.lock[:] = threading.Lock()

        with pytest.raises(TypeError, match="pickle"):
            ctx.run_udf(frames(ctx), Locks())

    def test_functions_that_declare_something_else_elsewhere(self, ctx, subject):
        subject.lacks("has_processes")
        here = os.getpid()

        class Changing(Level):
            def get_result_buffers(self):
                extra = () if os.getpid() == here else (2,)
                return {"level": self.buffer(kind="nav", extra_shape=extra)}

        with pytest.raises(WorkerError, match="plans the run of Changing differently: 'level: nav"):
            ctx.run_udf(frames(ctx), Changing())

    def test_executors_with_workers_cannot_be_copied(self, ctx, subject):
        subject.lacks("has_processes")
        with pytest.raises(UnsupportedError, match="cannot be pickled or copied: its workers"):
            copy.deepcopy(ctx)
        with pytest.raises(UnsupportedError, match="cannot be pickled or copied: its workers"):
            pickle.dumps(ctx.executor)

    # Workers that die.

    @pytest.fixture
    def two_workers(self, ctx, subject):
        """Those that have died are replaced."""
        subject.lacks("has_processes")

        def there_are_two():
            return sum(map(is_running, subject.workers(ctx.executor))) == 2

        assert eventually(there_are_two, 20)
        before = subject.workers(ctx.executor)
        yield before
        assert_usable(ctx)
        assert eventually(there_are_two, 20)

    def test_a_worker_that_is_killed(self, ctx, subject, two_workers, tmp_path):
        def kill_once(frame):
            if frame == 11 and not (tmp_path / "killed").exists():
                (tmp_path / "killed").touch()
                os.kill(os.getpid(), signal.SIGKILL)

        results = ctx.run_udf(frames(ctx), [PerFrame(kill_once), Numbers()])
        assert (tmp_path / "killed").exists()
        assert results[1]["number"].data.tolist() == list(range(40))
        assert len(set(results[0]["pid"].data.tolist())) <= 3
        # Another one is started in its place.
        assert_usable(ctx)
        assert eventually(lambda: len(subject.workers(ctx.executor)) == 2, 20)
        assert set(subject.workers(ctx.executor)) != set(two_workers)

    def test_idle_workers_that_are_killed(self, ctx, two_workers):
        for pid in two_workers:
            os.kill(pid, signal.SIGKILL)
        assert_usable(ctx)

    @pytest.mark.parametrize("how", DEADLY)
    def test_a_function_that_ends_its_worker(
        self, ctx, subject, two_workers, how, expected, tmp_path
    ):
        what = "died while processing partition 0 of PerFrame, 3 times"
        # Where errors do not say how workers end, one run has them end in all ways.
        says_it = len({*subject.says_how.values()}) > 1
        case = ("ends", subject.name, how if says_it else "")

        def message_and_ways():
            ways = [how] * 3 if says_it else [*DEADLY]
            with pytest.raises(WorkerError, match=what) as caught:
                ctx.run_udf(frames(ctx, 10, 1), PerFrame(ending(tmp_path, ways)))
            return str(caught.value), sorted(path.name.split()[1] for path in tmp_path.iterdir())

        message, seen = expected.made(case, message_and_ways)
        assert seen.count(how) == (3 if says_it else 1)
        assert subject.says_how[how] in message

    @pytest.mark.parametrize("end", FORKED)
    def test_a_function_that_forks(self, ctx, two_workers, end):
        """The other process leaves what it was doing, and the run, to the worker."""
        results = ctx.run_udf(frames(ctx), [PerFrame(fork_and_wait(end)), Numbers()])
        assert set(results[0]["pid"].data.ravel().tolist()) <= set(two_workers)
        assert results[1]["number"].data.tolist() == list(range(40))


def never_return(frame):
    """One worker sleeps with the lock, and the others in Python."""
    (sleep_with_the_lock if frame == 0 else sleep_in_python)(frame)


class Endings:
    """Runs and contexts that end early: nothing is left, and nothing waits."""

    def test_a_closed_context(self, subject, tmp_path, capfd):
        """Its workers end, and what they have forked."""
        with subject.make() as ctx:
            assert_usable(ctx)
            forks = []
            if subject.has_processes and subject.owns_workers:
                ctx.run_udf(frames(ctx), PerFrame(forking(tmp_path)))
                forks.append(the_fork(tmp_path))
                for end in FORKED if subject.forgotten is None else ():
                    ctx.run_udf(frames(ctx), PerFrame(fork_and_wait(end)))
                    assert_usable(ctx)
                    assert ("ZeroDivisionError" in capfd.readouterr().err) == (end == "raise")
            workers = subject.workers(ctx.executor) if subject.workers is not None else []
        if subject.owns_workers:
            assert gone([*workers, *forks])
        if subject.can_be_closed:
            with pytest.raises(InvalidArgumentError, match="this executor is closed"):
                ctx.run_udf(frames(ctx), Level())
        ctx.close()

    def test_a_context_that_is_dropped(self, subject):
        ctx = subject.make()
        assert_usable(ctx)
        workers = subject.workers(ctx.executor) if subject.workers is not None else []
        del ctx
        gc.collect()
        if subject.owns_workers:
            assert gone(workers)
        else:
            assert all(map(is_running, workers))

    def test_closing_during_runs(self, subject):
        """One that a thread waits for, and others that an event loop does."""
        if not subject.has_processes:
            pytest.skip(f"{subject.name}: what runs need is not closed with the executor")
        ctx = subject.make()
        workers = subject.workers(ctx.executor)

        async def main():
            recorders = Recorder(), Recorder()
            runs = [
                asyncio.create_task(
                    ctx.run_udf(endless(ctx), Slow(), sync=False, progress=recorder)
                )
                for recorder in recorders
            ]
            while any(len(recorder.states) < 2 for recorder in recorders):
                await asyncio.sleep(0.02)
            await asyncio.to_thread(ctx.close)
            return await asyncio.gather(*runs, return_exceptions=True)

        steps = ctx.run_udf_iter(frames(ctx, 10_000, 500), PerFrame(sleepy))
        next(steps)
        failures = asyncio.run(main())
        assert [type(failure) for failure in failures] == [UDFRunCancelled] * 2
        with pytest.raises(UDFRunCancelled, match="closed"):
            list(steps)
        if subject.owns_workers:
            assert gone(workers)

    @pytest.mark.parametrize("action", [sleepy, never_return])
    def test_a_run_that_is_closed(self, ctx, subject, action):
        if action is not sleepy and not (subject.has_processes and subject.owns_workers):
            pytest.skip(f"{subject.name}: it cannot end a process whose function never returns")
        steps = ctx.run_udf_iter(frames(ctx, 10_000, 50), PerFrame(action))
        closer = threading.Timer(0.7, steps.close)
        closer.start()
        with pytest.raises(UDFRunCancelled):
            next(steps)
        closer.join()
        assert_usable(ctx)

    def test_a_generator_that_is_dropped(self, ctx):
        steps = ctx.run_udf_iter(frames(ctx, 400, 200), PerFrame(sleepy))
        next(steps)
        del steps
        gc.collect()
        assert_usable(ctx)

    def test_nothing_is_kept_of_a_run(self, ctx):
        """Be it whole or given up after a step: ``nothing_is_left`` looks when it has ended."""
        whole = ctx.run_udf(frames(ctx), Level())
        with ctx.run_udf_iter(frames(ctx), Level()) as steps:
            first = next(steps)
        assert set(first.buffers[0]) == set(whole)

    @pytest.mark.parametrize("how", ["whole", "steps"])
    def test_ctrl_c(self, ctx, subject, how):
        dataset, udf = frames(ctx, 4000, 500), PerFrame(sleepy)
        run = subject.in_order(ctx, steps=how == "steps")
        main = threading.main_thread().ident
        interrupt = threading.Timer(0.4, signal.pthread_kill, (main, signal.SIGINT))
        interrupt.start()
        try:
            with pytest.raises(KeyboardInterrupt):
                run(dataset, udf)
        finally:  # or it ends the tests, if the run has ended before
            interrupt.cancel()
            interrupt.join()
        assert_usable(ctx)

    def test_a_function_that_never_returns(self, subject):
        subject.lacks("with_timeout")
        import framefold as ff

        with ff.Context(executor=subject.with_timeout(2.0)) as ctx:
            for action in (sleep_in_python, sleep_with_the_lock):
                assert_usable(ctx)
                workers = subject.workers(ctx.executor)
                what = "partition 0 took longer than timeout=2"
                with pytest.raises(WorkerTimeoutError, match=what):
                    ctx.run_udf(frames(ctx), PerFrame(action))
                assert eventually(lambda pids=workers: not all(map(is_running, pids)))
            assert_usable(ctx)
