"""Work that Ctrl-C does not stop in the middle."""

from __future__ import annotations

import _thread
import signal
import sys
import threading

import pytest
from process_cases import LIMIT, eventually, hard_limit  # noqa: F401 - a fixture

from framefold.executor._dask import uninterrupted
from framefold.executor._dask.uninterrupted import Work, made

pytestmark = [
    pytest.mark.usefixtures("hard_limit"),
    pytest.mark.skipif(sys.platform == "win32", reason="no such signals"),
]


@pytest.fixture
def interrupts():
    """Signals as in a script, wherever the tests run; how many have come."""
    come = threading.Semaphore(0)

    def interrupt(_number, _frame):
        come.release()
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    yield come
    signal.signal(signal.SIGINT, before)
    assert eventually(lambda: not any(each.name == "making" for each in threading.enumerate()))


class Making:
    """Makes something that takes until ``go_on``; this thread is interrupted in between."""

    def __init__(self, interrupts, n_times):
        self.begun, self.go_on = threading.Event(), threading.Event()
        self.undone = []
        self._interrupts, self._n_times = interrupts, n_times

    def __call__(self):
        self.begun.set()
        self.go_on.wait()
        return "made"

    def interrupt(self):
        self.begun.wait()
        for _ in range(self._n_times):
            signal.raise_signal(signal.SIGINT)
            self._interrupts.acquire()

    def run(self, then=None):
        interrupter = threading.Thread(target=lambda: (self.interrupt(), then and then()))
        interrupter.start()
        try:
            made(self, self.undone.append, "making")
        finally:
            interrupter.join()


def test_what_is_made_and_what_is_raised_comes_back():
    assert made(lambda: threading.current_thread().name, print, "making") == "making"
    with pytest.raises(ZeroDivisionError):
        made(lambda: 1 / 0, print, "making")


def test_what_is_made_is_undone_when_its_maker_is_interrupted(interrupts, monkeypatch):
    monkeypatch.setattr(uninterrupted, "LEAVING", 2 * LIMIT)
    making = Making(interrupts, 1)
    with pytest.raises(KeyboardInterrupt):
        making.run(then=making.go_on.set)
    assert set(making.undone) == {"made"}


def test_a_second_interrupt_ends_the_wait(interrupts, monkeypatch):
    monkeypatch.setattr(uninterrupted, "LEAVING", 2 * LIMIT)
    making = Making(interrupts, 2)
    with pytest.raises(KeyboardInterrupt):
        making.run()
    assert not making.undone
    making.go_on.set()
    assert eventually(lambda: making.undone == ["made"])


def test_an_interrupt_before_the_thread_runs(interrupts, monkeypatch):
    done = []
    monkeypatch.setattr(uninterrupted, "LEAVING", 2 * LIMIT)
    monkeypatch.setattr(threading.Thread, "start", lambda _: signal.raise_signal(signal.SIGINT))
    with pytest.raises(KeyboardInterrupt):
        made(lambda: done.append(True), done.append, "making")
    assert not done


def test_it_is_done_once_however_often_it_is_begun():
    done, go_on = [], threading.Event()

    def add():
        go_on.wait()
        done.append(True)

    work = Work(add, "making")
    for _ in range(5):
        work.start()
    assert not work.wait(0.01)
    go_on.set()
    assert work.wait()
    work.start()
    assert work.wait()
    work.check()
    assert done == [True]


def test_where_there_can_be_no_thread_it_is_done_at_once(monkeypatch):
    def no_more(_thread):
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(threading.Thread, "start", no_more)
    assert made(threading.get_ident, print, "making") == _thread.get_ident()
