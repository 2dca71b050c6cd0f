"""Keyword arguments for classes of Dask, looked at before these raise what they come upon."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

import dask
from distributed import Client, SpecCluster

from framefold.exceptions import InvalidArgumentError

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
