"""Work that Ctrl-C does not stop in the middle."""

from __future__ import annotations

import _thread
import signal
import sys
import threading
import time

import pytest
from process_cases import eventually, hard_limit  # noqa: F401 - a fixture

from framefold.executor._dask import uninterrupted
from framefold.executor._dask.uninterrupted import Work, made

pytestmark = [
    pytest.mark.usefixtures("hard_limit"),
    pytest.mark.skipif(sys.platform == "win32", reason="no such signals"),
]


@pytest.fixture
def interrupting():
    """Signals as in a script, wherever the tests run."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)
    assert eventually(lambda: not any(each.name == "making" for each in threading.enumerate()))


def interrupted(make, undo, *times):
    """Makes something, and is interrupted after so many seconds."""
    for seconds in times:
        threading.Timer(seconds, signal.raise_signal, [signal.SIGINT]).start()
    made(make, undo, "making")


def test_what_is_made_and_what_is_raised_comes_back():
    assert made(lambda: threading.current_thread().name, print, "making") == "making"
    with pytest.raises(ZeroDivisionError):
        made(lambda: 1 / 0, print, "making")


def test_what_is_made_is_undone_when_its_maker_is_interrupted(interrupting):
    done, undone = [], []

    def make():
        time.sleep(0.6)
        done.append("made")
        return "made"

    with pytest.raises(KeyboardInterrupt):
        interrupted(make, undone.append, 0.2)
    assert done == ["made"]
    assert set(undone) == {"made"}


def test_a_second_interrupt_ends_the_wait(interrupting, monkeypatch):
    undone = []

    def make():
        time.sleep(4)
        return "made"

    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        interrupted(make, undone.append, 0.2, 0.5)
    assert time.monotonic() - begun < 3.8
    assert not undone
    assert eventually(lambda: undone == ["made"])


def test_an_interrupt_before_the_thread_runs(interrupting, monkeypatch):
    done = []
    monkeypatch.setattr(threading.Thread, "start", lambda _: signal.raise_signal(signal.SIGINT))
    begun = time.monotonic()
    with pytest.raises(KeyboardInterrupt):
        made(lambda: done.append(True), done.append, "making")
    assert time.monotonic() - begun < uninterrupted.LEAVING / 2
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
