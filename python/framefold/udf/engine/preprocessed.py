"""What a UDF learns in ``preprocess``, for runs of which each merge is a task of its own."""

from __future__ import annotations

from collections.abc import Mapping
from copy import deepcopy
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.udf.base import UDF
from framefold.udf.engine.main_side import OF_A_RUN, twin


class MainSideState:
    """A UDF on the main side after ``preprocess``: for runs of which each merge is a task.

    What goes on is another object with the same attributes, and the same initial values; what
    it learns is its own. All of them are copies, so that no task sees what another one changes.

    Parameters
    ----------
    udf
        The object that the user passed in.
    arrays
        Its result buffers.
    """

    def __init__(self, udf: UDF, arrays: Mapping[str, npt.NDArray[Any]]) -> None:
        #: The object that attributes refer to as their own, such as methods that are bound to it.
        self._of = id(udf)
        # Parameters are for reading; what is made of them when a copy is made is made again.
        made = vars(udf.copy())
        attributes = {
            name: value
            for name, value in vars(udf).items()
            if name not in (*OF_A_RUN, "_kwargs") and made.get(name, self) is not value
        }
        #: A value, if the array has no other.
        values: dict[str, npt.NDArray[Any]] = {}
        if "preprocess" in vars(udf) or type(udf).preprocess is not UDF.preprocess:
            values = {name: _shortened(array) for name, array in arrays.items()}
        self.attributes, self.values = _copies(attributes, values, {self._of: udf})

    def another(self, recipe: UDF) -> tuple[UDF, Mapping[str, npt.NDArray[Any]]]:
        """Another object with the same attributes, made of a clean copy, and the initial values."""
        udf = recipe.copy()
        attributes, values = _copies(self.attributes, self.values, {self._of: udf})
        udf.__dict__.update(attributes, _kwargs=recipe._kwargs)
        return udf, values

    def for_others(self, recipe: UDF) -> MainSideState:
        """The same for other processes: without what is only here, and the constructor makes."""
        import cloudpickle

        made, kept = vars(recipe.copy()), {}
        for name, value in self.attributes.items():
            try:
                cloudpickle.dumps(value)
            except Exception:
                if name not in made:
                    raise
            else:
                kept[name] = value
        other = twin(self)
        other.attributes = kept
        return other


def copied(value: Any, known: Mapping[int, Any] | None = None) -> Any:
    """A copy of a value with all that is in it; what cannot be copied stays shared.

    Parameters
    ----------
    value
        Any; of a dict, each entry by itself if not all can be copied.
    known
        What takes the place of objects, by their addresses.
    """
    try:
        return deepcopy(value, dict(known or {}))
    except Exception:
        if type(value) is not dict:
            return value
        return {name: copied(each, known) for name, each in value.items()}


def own_objects(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """The array; with copies of them, if it holds objects."""
    return copied(array) if array.dtype.hasobject else array


def _copies(
    attributes: dict[str, Any], values: Mapping[str, npt.NDArray[Any]], known: Mapping[int, Any]
) -> tuple[dict[str, Any], dict[str, npt.NDArray[Any]]]:
    """Copies of attributes and objects in arrays; what is in both is one object in both copies."""
    objects = {name: array for name, array in values.items() if array.dtype.hasobject}
    both = copied({"attributes": attributes, "objects": objects}, known)
    return both["attributes"], {**values, **both["objects"]}


def _shortened(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """One value, if all are the same, bit for bit."""
    if array.size < 2 or array.dtype.hasobject:
        return array
    rows = np.ascontiguousarray(array).reshape(-1)
    raw = rows.view(np.uint8).reshape(array.size, -1)
    return rows[0].copy() if (raw == raw[0]).all() else array
