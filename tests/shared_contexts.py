"""Contexts whose workers are started once, for tests that are not about how workers start and end.

Two worker processes take half a second of the processor's time to start, two of Dask's two seconds:
in most tests, that would be more than all that they look at.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from process_cases import gone

import framefold as ff

_kept: dict[tuple[Any, ...], ff.Context] = {}


@contextmanager
def shared(name: str, **options: Any) -> Iterator[ff.Context]:
    """A context as ``Context.make_with`` makes it, which other tests have used and will use.

    It is a new one if the executor has no worker processes, and for ``auto``, which begins without.
    """
    if name not in ("processes", "dask"):
        if name == "delayed":
            pytest.importorskip("dask")
        with ff.Context.make_with(name, **options) as context:
            yield context
        return
    if name == "dask":
        pytest.importorskip("distributed")
    options = {"cpus": 2, **options}
    key = (name, *sorted(options.items()))
    if key not in _kept:
        _kept[key] = ff.Context.make_with(name, **options)
    try:
        yield _kept[key]
    except BaseException:  # who knows what its workers do now
        _kept.pop(key).close()
        raise


def close_shared(name: str) -> None:
    """Close those of an executor, of whose workers none may be left."""
    for key in [key for key in _kept if key[0] == name]:
        context = _kept.pop(key)
        workers = worker_ids(context)
        context.close()
        assert gone(workers)


def worker_ids(context: ff.Context) -> list[int]:
    """The processes of its workers."""
    if hasattr(context.executor, "worker_ids"):
        return context.executor.worker_ids
    from dask_cases import local_processes

    return local_processes(context.executor)
