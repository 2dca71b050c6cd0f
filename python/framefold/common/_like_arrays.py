"""What can be used wherever an array can, and is not changed in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from numpy.lib.mixins import NDArrayOperatorsMixin


class LikeArray(NDArrayOperatorsMixin):
    """A result: operators, functions of NumPy and its truth are those of the array it holds.

    Derived classes have an ``__array__``. What is computed from it is a plain array.
    """

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        changed = inputs[:1] if method == "at" else kwargs.get("out", ())
        if any(isinstance(each, LikeArray) for each in changed):
            raise TypeError(
                "results of a run are not changed in place; write to an array of your own: "
                "out=np.array(result)"
            )
        options = {name: _array(each) for name, each in kwargs.items()}  # such as `where`
        return getattr(ufunc, method)(*map(_array, inputs), **options)

    def __bool__(self) -> bool:
        return bool(np.asarray(self))

    # Equal results are not the same result.
    __hash__ = object.__hash__


def converted(
    data: npt.NDArray[Any], dtype: npt.DTypeLike | None, copy: bool | None
) -> npt.NDArray[Any]:
    """An array as its ``__array__`` gives it: NumPy 1 does not take None for ``copy``."""
    if dtype is not None and np.dtype(dtype) != data.dtype:
        if copy is False:
            raise ValueError(f"a copy is needed to turn {data.dtype} into {np.dtype(dtype)}")
        return data.astype(dtype)
    return data.copy() if copy else data


def _array(value: Any) -> Any:
    """The array of a result; anything else as it is."""
    return np.asarray(value) if isinstance(value, LikeArray) else value


def _not_in_place(self: LikeArray, other: Any) -> Any:
    """``result += 1`` is ``result = result + 1``: a new array, as of numbers and tuples."""
    return NotImplemented


_OPERATORS = "add sub mul truediv floordiv mod pow matmul and or xor lshift rshift"
for _operator in _OPERATORS.split():
    setattr(LikeArray, f"__i{_operator}__", _not_in_place)
