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

import numpy as np
import numpy.typing as npt

from framefold.udf.data import UDFData

if TYPE_CHECKING:
    from framefold.udf._bridge import MergeTask
    from framefold.udf.base import UDF

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
        before.step_aside()  # its results may be asked for later
    return udf


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
    udf.params = UDFData("parameter", params)
    udf.task_data = UDFData("task data")
    for name, value in state.items():
        setattr(udf, name, value)
    return udf


class MainSideState:
    """A UDF on the main side after ``preprocess``: for runs of which each merge is a task.

    What goes on is another object with the same attributes, and the same initial values; what
    it learns is its own.

    Parameters
    ----------
    udf
        The object that the user passed in.
    arrays
        Its result buffers.
    """

    def __init__(self, udf: UDF, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        self.attributes = {
            name: value for name, value in vars(udf).items() if name not in (*OF_A_RUN, "_kwargs")
        }
        #: A value, if the array has no other.
        self.values: dict[str, npt.NDArray[Any]] = {}
        if "preprocess" in vars(udf) or type(udf).preprocess is not _base().preprocess:
            self.values = {name: _shortened(array) for name, array in arrays.items()}

    def another(self, recipe: UDF) -> UDF:
        """Another object with the same attributes, made of a clean copy."""
        udf = recipe.copy()
        udf.__dict__.update(self.attributes, _kwargs=recipe._kwargs)
        return udf

    def fill(self, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        """Set the initial values."""
        for name, value in self.values.items():
            arrays[name][...] = value

    def for_others(self, recipe: UDF) -> MainSideState:
        """The same for other processes: without what is only here, and the constructor makes."""
        import cloudpickle

        made, sent = vars(recipe.copy()), {}
        for name, value in self.attributes.items():
            if made.get(name, self) is value:
                continue
            try:
                cloudpickle.dumps(value)
            except Exception:
                if name not in made:
                    raise
            else:
                sent[name] = value
        other = twin(self)
        other.attributes = sent
        return other


def _base() -> type[UDF]:
    from framefold.udf.base import UDF

    return UDF


def _shortened(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """One value, if all are the same."""
    if array.size < 2 or array.dtype.hasobject:
        return array
    first = array.reshape(-1)[0]
    same = array == first
    if array.dtype.kind in "fc":
        same |= np.isnan(array) & np.isnan(first)
    return np.asarray(first) if same.all() else array


#: What of an object belongs to its latest run, and does not travel with it.
OF_A_RUN = ("meta", "results", "task_data", "params")


def without_run(state: Any) -> Any:
    """The state of an object as Python pickles and copies it, without what its last run left."""
    attributes = state[0] if isinstance(state, tuple) else state
    if not isinstance(attributes, dict) or "_kwargs" not in attributes:
        return state  # the constructor of the base class was not called
    clean = {name: value for name, value in attributes.items() if name not in OF_A_RUN}
    clean["params"] = UDFData("parameter", attributes["_kwargs"])
    clean["results"] = UDFData("result buffer")
    clean["task_data"] = UDFData("task data")
    return (clean, *state[1:]) if isinstance(state, tuple) else clean
