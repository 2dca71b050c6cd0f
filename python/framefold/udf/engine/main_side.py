"""The object that the user passed in, at work on the main side of a run.

It keeps what it learns there, and after the run ``meta``, ``results`` and ``params``. One object is
on the main side of one run at a time: another run that begins meanwhile, or that has it in its list
twice, works with a twin of it, which has the same attributes.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, TypeVar

from framefold.udf.data import PARAMETERS, RESULTS, TASK_DATA, UDFData

if TYPE_CHECKING:
    from framefold.udf.base import UDF
    from framefold.udf.engine.merge_task import MergeTask

T = TypeVar("T")

#: The main sides that user's objects are at, by their addresses; they keep them alive.
_at_work: weakref.WeakValueDictionary[int, MergeTask] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def take(udf: UDF, task: MergeTask) -> UDF:
    """The object itself for the main side of a run, or a twin if it is at another one."""
    with _lock:
        before = _at_work.get(id(udf))
        if before is not None and not before.has_ended:
            return twin(udf)
        _at_work[id(udf)] = task
    if before is not None:
        before.go_on_with_a_twin()  # its results may be asked for later
    return udf


def is_free(udf: UDF) -> bool:
    """Whether the object is at no main side; what it was at before goes on with a twin of it."""
    with _lock:
        before = _at_work.get(id(udf))
        if before is not None and not before.has_ended:
            return False
        _at_work.pop(id(udf), None)
    if before is not None:
        before.go_on_with_a_twin()
    return True


def twin(thing: T) -> T:
    """Another object with the same attributes."""
    cls = type(thing)
    other = cls.__new__(cls)
    other.__dict__.update(thing.__dict__)
    return other


def enter(udf: UDF, *, params: Mapping[str, Any], **state: Any) -> UDF:
    """Give an object what belongs to a run; what it had of the one before is dropped.

    Parameters
    ----------
    udf
        Any.
    params
        The values of its parameters.
    state
        Attributes, such as ``meta``.
    """
    udf.params = UDFData(PARAMETERS, params)
    udf.task_data = UDFData(TASK_DATA)
    for name, value in state.items():
        setattr(udf, name, value)
    return udf


#: What of an object belongs to its latest run, and does not travel with it.
OF_A_RUN = ("meta", "results", "task_data", "params")


def without_run(state: Any) -> Any:
    """The state of an object as Python pickles and copies it, without what its last run left."""
    attributes = state[0] if isinstance(state, tuple) else state
    if not isinstance(attributes, dict) or "_kwargs" not in attributes:
        return state  # the constructor of the base class was not called
    clean = {name: value for name, value in attributes.items() if name not in OF_A_RUN}
    clean["params"] = UDFData(PARAMETERS, attributes["_kwargs"])
    clean["results"] = UDFData(RESULTS)
    clean["task_data"] = UDFData(TASK_DATA)
    return (clean, *state[1:]) if isinstance(state, tuple) else clean
