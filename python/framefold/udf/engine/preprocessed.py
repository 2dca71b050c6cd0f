"""What a UDF learns in ``preprocess``, for runs of which each merge is a task of its own."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.udf.base import UDF
from framefold.udf.engine.main_side import OF_A_RUN, twin


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
        if "preprocess" in vars(udf) or type(udf).preprocess is not UDF.preprocess:
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

        made, kept = vars(recipe.copy()), {}
        for name, value in self.attributes.items():
            if made.get(name, self) is value:
                continue
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


def _shortened(array: npt.NDArray[Any]) -> npt.NDArray[Any]:
    """One value, if all are the same."""
    if array.size < 2 or array.dtype.hasobject:
        return array
    first = array.reshape(-1)[0]
    same = array == first
    if array.dtype.kind in "fc":
        same |= np.isnan(array) & np.isnan(first)
    return np.asarray(first) if same.all() else array
