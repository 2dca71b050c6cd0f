"""Keyword arguments for classes of Dask, looked at before these raise what they come upon."""

from __future__ import annotations

import inspect
from collections.abc import Iterable, Mapping
from typing import Any

import dask
from distributed import Client, SpecCluster, Worker
from distributed.core import Server

from framefold.common._integers import whole
from framefold.exceptions import ArgumentTypeError, InvalidArgumentError

#: How much longer than its timeout a client may take to connect, in seconds.
GREETING = 1.0


def client_options(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """``client_kwargs``, checked; a client of an executor is not Dask's default one.

    Raises
    ------
    InvalidArgumentError
        If clients have no such argument, or not for what works here; if the timeout is no time.
    """
    options = _checked("client_kwargs", given, Client)
    timeout = options.get("timeout", "1s")
    try:
        is_time = _seconds(timeout) > 0
    except Exception:  # of any class
        is_time = False
    if not is_time:
        raise InvalidArgumentError(
            f"client_kwargs have timeout={timeout!r}; use seconds, a number above 0 or a text such "
            f"as '500ms'"
        )
    return {"set_as_default": False, **options}


def cluster_options(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """``cluster_kwargs``, checked.

    Raises
    ------
    InvalidArgumentError
        If clusters have no such argument, or not for what works here.
    """
    return _checked("cluster_kwargs", given, SpecCluster, "dashboard_address")


def worker_options(given: Mapping[str, Any] | None) -> dict[str, Any]:
    """``options`` of workers, checked; each has one thread if they do not say another number.

    Raises
    ------
    InvalidArgumentError
        If workers have no such argument, or a number of threads is none.
    """
    more = (name for name in inspect.signature(Server).parameters if name != "kwargs")
    options = {"nthreads": 1, **_checked("options", given, Worker, *more)}
    options["nthreads"] = whole("nthreads of options", options["nthreads"], least=1)
    return options


def modules_to_preload(given: Any) -> list[str]:
    """``preload``, checked.

    Raises
    ------
    ArgumentTypeError
        If it is no list of texts.
    """
    is_list = given is None or (isinstance(given, Iterable) and not isinstance(given, str))
    modules: list[Any] = list(given or ()) if is_list else [None]
    if not all(isinstance(name, str) for name in modules):
        raise ArgumentTypeError(f"preload is {given!r}, expected a list of names of modules")
    return modules


def checked_spec(given: Any) -> Mapping[Any, Any]:
    """``spec``, checked: what :func:`cluster_spec` makes, or one for classes of Dask.

    Raises
    ------
    ArgumentTypeError
        If it is something else.
    """
    is_spec = isinstance(given, Mapping) and all(
        isinstance(each, Mapping) and "cls" in each for each in given.values()
    )
    if not is_spec:
        raise ArgumentTypeError(
            f"spec is {given!r}, expected a dict of workers as cluster_spec(…) makes it: name to "
            f"{{'cls': …, 'options': …}}"
        )
    found: Mapping[Any, Any] = given
    return found


def most_seconds(*args: Any, **options: Any) -> float:
    """How long a client that is made of these arguments may take to connect.

    Raises
    ------
    ValueError
        If they name no scheduler.
    """
    given = inspect.signature(Client).bind(*args, **options).arguments
    named = given.get("address") or given.get("scheduler_file")
    if not (named or dask.config.get("scheduler-address", None)):
        raise ValueError("a client without one starts a cluster, as make_local() does")
    configured = dask.config.get("distributed.comm.timeouts.connect")
    return _seconds(given.get("timeout", configured)) + GREETING


def _checked(what: str, given: Mapping[str, Any] | None, cls: Any, *more: str) -> dict[str, Any]:
    if not isinstance(given, Mapping | None):
        raise ArgumentTypeError(f"{what} is {given!r}, expected a dict of arguments by their names")
    parameters = inspect.signature(cls).parameters.values()
    known = [each.name for each in parameters if each.kind is not each.VAR_KEYWORD]
    options = dict(given or {})
    for name in options:
        if name not in (*known, *more):
            raise InvalidArgumentError(
                f"{what} have {name!r}, which distributed.{cls.__name__} does not take; use those "
                f"of {', '.join((*known, *more))}"
            )
    if options.get("asynchronous"):
        raise InvalidArgumentError(
            f"{what} have asynchronous=True; leave it out: run_udf(…, sync=False) does not block "
            f"the event loop"
        )
    return options


def _seconds(time: Any) -> float:
    seconds: float = dask.utils.parse_timedelta(time, "s")
    return seconds
