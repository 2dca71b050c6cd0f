"""Parameters that change while a run goes on: from which frame on, known in every process.

A change holds from the first frame that was not handed out when it was made. Each partition finds
its parameters by its first frame, wherever and however often it is processed. So it never matters
when a worker hears of a change, as long as that is before it gets partitions for which it holds.
"""

from __future__ import annotations

import operator
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    from framefold.udf.base import UDF

#: Containers that can be filled anew, of which the entries can hold arrays.
CONTAINERS = (dict, list, OrderedDict, defaultdict, Counter, deque)

#: Kind and values of AUX data by name, laid out for the whole data set.
Aux = Mapping[str, tuple[str, npt.NDArray[Any]]]


class ParameterChange(NamedTuple):
    """A change of parameters in the middle of a run.

    Attributes
    ----------
    udf : int
        Which of the UDFs of the run.
    first_frame : int
        The first frame, counted among the selected ones, that was processed with the new values;
        all after it were, too, and none before.
    parameters : dict
        The new values by name.
    """

    udf: int
    first_frame: int
    parameters: Mapping[str, Any]


class Version(NamedTuple):
    """What copies for partitions are made of, from one frame on."""

    first: int
    udf: UDF
    aux: Aux
    #: All that differs from what the run began with.
    changed: Mapping[str, Any]


class Versions(tuple[Version, ...]):
    """All that copies for partitions are made of; the latest comes last."""

    __slots__ = ()

    @property
    def latest(self) -> Version:
        """What holds from the latest change on."""
        return self[-1]

    def at(self, start: int) -> Version:
        """What the copy for a partition that begins at that frame is made of."""
        for version in self[:0:-1]:
            if version.first <= start:
                return version
        return self[0]

    def with_change(
        self, first: int, changed: UDF, aux: Aux, parameters: Mapping[str, Any]
    ) -> Versions:
        """The same with ``changed``, which has other ``parameters``, from the frame on."""
        values = {name: changed.params.get(name, value) for name, value in parameters.items()}
        version = Version(first, changed, aux, {**self.latest.changed, **values})
        # What no frame was processed with is gone.
        kept = self[:-1] if self.latest.first == first else self
        return Versions((*kept, version) if kept else (version._replace(first=0),))


class HandedOut:
    """How far the frames of a run have been handed out to those who process them.

    What hands out partitions marks their end while it holds the lock. Where workers have to be
    sent changes first, it hands out none as long as changes are pending.
    """

    def __init__(self) -> None:
        self.lock = threading.RLock()
        #: No frame from this one on is processed, or about to be.
        self.end = 0
        #: Changes that workers have not been sent.
        self.n_pending = 0

    def mark(self, end: int) -> None:
        """The frames before this one are handed out."""
        with self.lock:
            if end > self.end:
                self.end = end

    def sent(self, n_changes: int) -> None:
        """So many changes reach workers before any partition that is handed out from now on."""
        with self.lock:
            self.n_pending -= n_changes


def own_values(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Values with copies of arrays and containers, which their owner may fill anew."""
    return {
        name: _each_array(value, lambda array: array.copy("A"), own=True)
        for name, value in parameters.items()
    }


def laid_out_to_travel(parameters: Mapping[str, Any]) -> dict[str, Any]:
    """Values with arrays laid out as pickles do: the last bit of a sum depends on strides."""
    return {
        name: _each_array(value, lambda array: array if array.flags.forc else array.copy("C"))
        for name, value in parameters.items()
    }


def _each_array(
    value: Any,
    change: Callable[[npt.NDArray[Any]], npt.NDArray[Any]],
    around: tuple[int, ...] = (),
    *,
    own: bool = False,
) -> Any:
    """The value, with changed arrays; what has none, or is within itself, is the same object.

    With ``own``, containers are other ones.
    """
    if isinstance(value, np.ndarray):
        return change(value)
    cls = type(value)
    if own and cls in (set, bytearray):
        return value.copy()
    make = getattr(cls, "_make", cls)  # named tuples have this function
    if (make is cls and cls not in (*CONTAINERS, tuple)) or id(value) in around:
        return value
    is_dict = issubclass(cls, dict)
    entries = list(value.values() if is_dict else value)
    changed = [_each_array(entry, change, (*around, id(value)), own=own) for entry in entries]
    if not (own and cls in CONTAINERS) and all(map(operator.is_, changed, entries)):
        return value
    if cls not in CONTAINERS:
        return make(changed)
    copied = value.copy()  # with what else it knows, such as its default
    for key, entry in zip(list(value) if is_dict else count(), changed, strict=False):
        copied[key] = entry
    return copied
