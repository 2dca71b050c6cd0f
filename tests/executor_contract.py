"""What every executor does, those of other packages, too.

A test file makes a module-scoped fixture ``subject`` that yields a :class:`Subject`, imports the
fixtures from here, and derives a class from :class:`ExecutorContract`. What an executor is not able
to do is said by its subject; nothing else is left out.
"""

from __future__ import annotations

import gc
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest
from contract_async import Async
from contract_failures import Endings, Failures
from contract_results import Results
from contract_scripts import Scripts
from process_cases import (
    PerFrame,
    eventually,
    files_and_threads,
    frames,
    gone,
    new_since,
    nothing_new,
    sleepy,
)

import framefold as ff


@dataclass(frozen=True)
class Subject:
    """An executor, and what it is able to do."""

    name: str
    #: Makes a context of its own, with two workers where that can be chosen.
    make: Callable[[], ff.Context]
    #: The process ids of its workers; None if it has none.
    workers: Callable[[Any], list[int]] | None = None
    #: Those of them that are ready; all, if None. Who dies before that again and again is given up.
    ready: Callable[[Any], list[int]] | None = None
    #: Whether functions in Python run in workers, and never in this process.
    has_processes: bool = False
    #: Makes an executor that ends partitions which take longer than so many seconds.
    with_timeout: Callable[[float], Any] | None = None
    #: Whether its processes belong to it, and end with it.
    owns_workers: bool = True
    #: Whether runs can end with results that are not computed yet, which plots cannot show.
    computes_later: bool = False
    #: Whether an error says that it was closed.
    can_be_closed: bool = True
    #: Whether nothing is kept of the runs so far; looks at open files and threads if None.
    forgotten: Callable[[Any], bool] | None = None
    #: What ``explain`` says of functions in Python.
    explains: str = ""
    #: How a script makes a context with two workers.
    script: str | None = None
    #: Where it finds their process ids.
    script_workers: str = ""
    #: What errors say of workers that were killed, crashed, and left.
    says_how: dict[str, str] = field(default_factory=dict)

    def in_order(self, context, *, steps=False):
        """``run_udf``; step by step, if runs as a whole are left to another scheduler."""
        if steps or self.computes_later:
            return lambda *arguments: list(context.run_udf_iter(*arguments))
        return context.run_udf

    def lacks(self, ability: str) -> None:
        """Skip the test if the executor lacks what it is about."""
        if not getattr(self, ability):
            pytest.skip(f"{self.name}: {ability} is not among its abilities")


@pytest.fixture(scope="module")
def inline():
    return ff.Context.make_with("inline")


class Expected(dict):
    """By case, each made once."""

    def made(self, case, make, *args, **kwargs):
        """What there is for a case; made now if there is none."""
        if case not in self:
            self[case] = make(*args, **kwargs)
        return self[case]


@pytest.fixture(scope="module")
def expected():
    """Results of the calling thread that several executors are held against."""
    return Expected()


@pytest.fixture(scope="module")
def opened(subject):
    """A context of the executor, all of whose workers have started, and what is open then."""
    # The tests collect garbage one by one, but not among the libraries that were imported for this.
    gc.collect()
    gc.freeze()
    before = files_and_threads()
    with subject.make() as context:
        if subject.workers is not None:

            def started():
                context.run_udf(frames(context), PerFrame(sleepy))
                return len(subject.workers(context.executor)) == 2

            assert eventually(started, 40)
        yield context, files_and_threads()
        workers = [] if subject.workers is None else subject.workers(context.executor)
        if subject.owns_workers and subject.workers is not None:
            assert len(workers) == 2
    if subject.owns_workers:
        assert gone(workers)
    gc.collect()
    if subject.forgotten is None:
        assert nothing_new(before), new_since(before)


@pytest.fixture(scope="module")
def ctx(opened):
    """A context of the executor."""
    return opened[0]


@pytest.fixture(autouse=True)
def nothing_is_left(subject, opened):
    """Each test leaves of its runs what it found."""
    context, before = opened
    yield
    gc.collect()
    if subject.forgotten is not None:
        assert subject.forgotten(context.executor)
    else:
        assert nothing_new(before), new_since(before)


class ExecutorContract(Results, Async, Failures, Endings, Scripts):
    """All of it."""
