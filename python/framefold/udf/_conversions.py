"""Whether a constructor converts once more what it passed on, when a copy is made of that."""

from __future__ import annotations

from collections.abc import Mapping
from reprlib import Repr
from typing import Any

import numpy as np
import numpy.typing as npt

SCALARS = (bool, int, float, complex, str, bytes, type(None), np.number, np.bool_)
INEXACT = (float, complex, np.inexact)
COMPARED = (*SCALARS, list, tuple, dict)

_short = Repr()
_short.maxstring = _short.maxother = 60


def converted_again(
    cls: type, base: str, passed_on: Mapping[str, Any], by_copy: Mapping[str, Any], instead: str
) -> str | None:
    """What is wrong, in words, if the copy has other parameters than it was called with.

    Values whose kinds cannot be compared, such as objects of classes of the user, are taken as the
    same.

    Parameters
    ----------
    cls
        Of the object.
    base
        The class whose constructor gets the parameters.
    passed_on, by_copy
        The parameters that the constructor of the object passed on, and that of the copy.
    instead
        Where the message says to convert.
    """
    for name, value in passed_on.items():
        if name in by_copy and differ(value, by_copy[name]):
            return (
                f"{cls.__name__}.__init__ converts parameter {name!r}: it passes on "
                f"{shown(value)} to {base}.__init__, and {shown(by_copy[name])} when a clean "
                f"copy for a worker is made by calling {cls.__name__} with that. Pass on what was "
                f"given, super().__init__({name}={name}), and convert {instead}"
            )
    return None


def differ(a: Any, b: Any) -> bool:
    """Whether two values are known to differ, by more than rounding: in the first half of digits.

    A sum of 1 is another one in its last bits after it was divided by itself, and a mean of 0 is
    one in those of what it was taken from.
    """
    if a is b:
        return False
    if isinstance(a, SCALARS) and isinstance(b, SCALARS):
        return _scalars_differ(a, b)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        return len(a) != len(b) or any(map(differ, a, b))
    if isinstance(a, dict) and isinstance(b, dict):
        return a.keys() != b.keys() or any(differ(a[key], b[key]) for key in a)
    if type(a) is np.ndarray and type(b) is np.ndarray:
        return _arrays_differ(a, b)
    return _is_compared(a) and _is_compared(b)


def _is_compared(value: Any) -> bool:
    return isinstance(value, COMPARED) or type(value) is np.ndarray


def _scalars_differ(a: Any, b: Any) -> bool:
    if a == b or (a != a and b != b):  # NaN is the same as NaN
        return False
    if not (isinstance(a, INEXACT) and isinstance(b, INEXACT)):
        return True
    eps = max(float(np.finfo(np.asarray(each).dtype).eps) for each in (a, b))
    x, y = complex(a), complex(b)
    return not abs(x - y) <= eps**0.5 * max(abs(x), abs(y))


def _arrays_differ(a: npt.NDArray[Any], b: npt.NDArray[Any]) -> bool:
    if a.shape != b.shape or a.dtype != b.dtype:
        return True
    if a.dtype.hasobject or np.array_equal(a, b, equal_nan=a.dtype.kind in "fcmM"):
        return False
    if a.dtype.kind not in "fc":
        return True
    finite = np.abs(a[np.isfinite(a)])
    rounding = float(np.finfo(a.dtype).eps) ** 0.5 * float(finite.max(initial=0))
    return not np.allclose(a, b, rtol=0, atol=rounding, equal_nan=True)


def is_known(value: Any) -> bool:
    """Whether two of this kind that do not differ are the same."""
    return isinstance(value, SCALARS) or (type(value) is np.ndarray and not value.dtype.hasobject)


def shown(value: Any) -> str:
    """A value in a few words, on one line."""
    value = value.item() if isinstance(value, np.generic) else value
    return " ".join(_short.repr(value).split())
