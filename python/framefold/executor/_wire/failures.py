"""Exceptions on their way from a worker process, and what is said of workers that died."""

from __future__ import annotations

import io
import pickle
import signal
import traceback
from functools import cache
from typing import Any

from framefold.common._notes import notes_of
from framefold.common._tracebacks import without_own_lines
from framefold.compilation.marks import NO_NUMBA
from framefold.exceptions import InvalidArgumentError, UDFError, WorkerError, WorkerTimeoutError
from framefold.executor._processes.channels import LOST
from framefold.executor._wire import pickles
from framefold.udf.base import UDF

#: Set in the flags of classes that are not written in C.
HEAP_TYPE = 1 << 9
#: An exception, and its traceback as text.
Packed = tuple[bytes, str]


class WorkerTraceback(Exception):  # noqa: N818 - it shows where another one was raised
    """Shows where in a worker process an exception was raised: the cause of what is raised here."""

    def __init__(self, text: str) -> None:
        super().__init__(text)
        self.text = text

    def __str__(self) -> str:
        return f"\n\nIn a worker process:\n{self.text}"


class NotStartedError(WorkerError):
    """There are no workers: nothing is known against the run itself."""


class DifferentCodeError(WorkerError):
    """What user code refers to is not the same in a worker process."""


def pack(exception: BaseException) -> Packed:
    """What :func:`unpack` makes an exception of."""
    text = "".join(traceback.format_exception(without_own_lines(exception)))
    try:
        data = _dumps(exception)
        _loaded(data)
    except BaseException:
        # Some exceptions cannot be pickled, and others cannot be made from their pickle.
        replacement = UDFError(_described(exception))
        for note in notes_of(exception):
            replacement.add_note(note)
        replacement.add_note(
            f"{type(exception).__qualname__} itself cannot be sent between processes"
        )
        data = pickle.dumps(replacement)
    return data, text


def clear_traceback(exception: BaseException) -> None:
    """Remove the traceback, and with it the references to its frames."""
    # The class may forbid to set attributes.
    BaseException.__setattr__(exception, "__traceback__", None)


def _described(exception: BaseException) -> str:
    try:
        return f"{type(exception).__name__}: {exception}"
    except Exception:
        return f"{type(exception).__name__}, which cannot say what it is about"


def _loaded(data: bytes) -> BaseException:
    exception = pickle.loads(data)
    if not isinstance(exception, BaseException):
        raise TypeError(f"it becomes a {type(exception).__name__}")
    return exception


def _dumps(exception: BaseException) -> bytes:
    """The pickle of an exception, and of what it holds."""
    file = io.BytesIO()
    _pickler_of_exceptions()(file, protocol=5).dump(exception)
    return file.getvalue()


@cache
def _pickler_of_exceptions() -> Any:
    class Pickler(pickles.pickler_by_value()):  # type: ignore[misc]
        def reducer_override(self, value: Any) -> Any:
            # Other ways that are registered, such as that of Dask, lose what is not in `args`.
            if isinstance(value, BaseException):
                return _made_again, (type(value), *value.__reduce_ex__(5)[:3])
            return super().reducer_override(value)

    return Pickler


def _made_again(cls: Any, make: Any, arguments: tuple[Any, ...], state: Any = None) -> Any:
    """An exception of class ``cls``, from how Python would make it again.

    Where that is to call the class with ``args``, its own constructor is left out: many make a
    message of what they are given, and pass on that alone.
    """
    if make is not cls:
        exception = make(*arguments)
    else:
        builtin = cls
        while builtin.__flags__ & HEAP_TYPE:
            builtin = builtin.__base__
        exception = builtin.__new__(cls, *arguments)
        builtin.__init__(exception, *arguments)
    if state is not None:
        exception.__setstate__(state)
    return exception


def unpack(packed: Packed) -> BaseException:
    """The exception, with the traceback of the worker process as its cause."""
    data, text = packed
    try:
        exception = _loaded(data)
    except BaseException as error:
        exception = UDFError(f"an exception in a worker process could not be read: {error!r}")
    BaseException.__setattr__(exception, "__cause__", WorkerTraceback(text))
    return exception


def describe_exit(code: int | None) -> str:
    """How a process ended."""
    if code is None:
        return "it closed its connection"
    if code == LOST:
        return (
            "it lost the connection that its results go through, as by code that closes file "
            "descriptors which are not its own"
        )
    if code >= 0:
        return f"it ended with exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = "unknown"
    hint = {
        "SIGKILL": ": it was killed, or memory ran out",
        "SIGSEGV": ": compiled code that the UDF calls used memory that is not its own",
    }
    return f"signal {-code} ({name}){hint.get(name, '')}"


def died(names: str, partition: int | None, attempts: int, code: int | None) -> WorkerError:
    """For a partition that several workers did not survive; None before they began with it."""
    doing = f"processing partition {partition}" if partition is not None else "preparing the run"
    return WorkerError(
        f"a worker process died while {doing} of {names}, {attempts} times; "
        f"{describe_exit(code)}. Its messages are above, if there are any; run the UDF with the "
        f"executor 'inline' to look for the cause"
    )


def planned_differently(who: str, names: str, difference: str) -> WorkerError:
    """For a worker whose plan has another fingerprint."""
    rule = (
        "what a UDF declares must follow from its parameters and meta data alone, and the files "
        "must be the same everywhere, and not change during a run"
    )
    if NO_NUMBA in difference:
        # Not interpreted there: integers of another width would be other results.
        rule = "install Numba both here and there, or in neither place"
    return WorkerError(f"{who} plans the run of {names} differently: {difference}; {rule}")


def took_too_long(
    who: str, names: str, partition: int | None, seconds: float
) -> WorkerTimeoutError:
    """For a partition that takes longer than it may; None for planning the run."""
    if partition is None:
        return WorkerTimeoutError(
            f"{names}: {who} did not get ready for the run within {seconds:g} seconds. What it "
            f"gets as parameters, or its get_result_buffers, may wait for something; use a longer "
            f"startup_timeout if it only needs time"
        )
    return WorkerTimeoutError(
        f"{names}: partition {partition} took longer than timeout={seconds:g} seconds on {who}. "
        f"Use a longer timeout, or more partitions (num_partitions)"
    )


def cannot_be_sent(udfs: list[UDF], dataset: Any, error: Exception) -> Exception:
    """Says which part of a run cannot be sent to a worker process."""
    for udf in udfs:
        name = type(udf).__name__
        for key, value in udf._kwargs.items():
            reason = _refusal(value)
            if reason is not None:
                return InvalidArgumentError(
                    f"{name}: parameter {key!r}, a {type(value).__name__}, cannot be sent to a "
                    f"worker process: {reason}; make it in get_task_data, where each partition "
                    f"has its own, or use the executor 'threads'"
                )
        if _refusal(type(udf)) is None:
            continue
        for cls in type(udf).__mro__:
            for key, value in vars(cls).items():
                reason = None if key.startswith("__") else _refusal(value)
                if reason is not None:
                    return InvalidArgumentError(
                        f"{name}: {key!r} of the class refers to something that cannot be sent to "
                        f"a worker process: {reason}; import it or make it within the method, or "
                        f"use the executor 'threads'"
                    )
    if (reason := _refusal(dataset)) is not None:
        return InvalidArgumentError(
            f"the data set cannot be sent to a worker process: {reason}; use the executor 'threads'"
        )
    return InvalidArgumentError(
        f"the run cannot be sent to worker processes: {type(error).__name__}: {error}; "
        f"use the executor 'threads'"
    )


def held_elsewhere() -> Exception:
    """For a Dask array that workers cannot get."""
    return InvalidArgumentError(
        "a Dask cluster holds chunks of the array (they were persisted, or are futures), and "
        "workers that do not belong to it cannot get them; use 'dask-integration', 'delayed' or "
        "'threads', or the array as it was before persist()"
    )


def _refusal(value: Any) -> str | None:
    """Why a value cannot be pickled; None if it can."""
    try:
        pickles.packed(value)
    except Exception as error:
        return f"{type(error).__name__}: {error}"
    return None
