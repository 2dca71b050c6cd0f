"""What says that a function is to be compiled. Nothing here needs Numba."""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from types import FunctionType
from typing import Any, NamedTuple, TypeVar, overload

from framefold.exceptions import ArgumentTypeError, InvalidArgumentError

F = TypeVar("F", bound=Callable[..., Any])

#: The attribute of functions that are to be compiled.
MARK = "__framefold_compiled__"
#: Why marked functions run in the interpreter where there is no Numba.
NO_NUMBA = "not compiled: Numba is not installed"


class Options(NamedTuple):
    """How a function is to be compiled."""

    boundscheck: bool = True
    fastmath: bool = False
    cache: bool = True


@overload
def compiled(function: F, /) -> F: ...


@overload
def compiled(
    *, boundscheck: bool = True, fastmath: bool = False, cache: bool = True
) -> Callable[[F], F]: ...


def compiled(function: Any = None, /, **options: Any) -> Any:
    """Have a function compiled by Numba when a run needs it.

    For methods of a :class:`~framefold.udf.base.UDF` that process data (``process_frame``,
    ``process_frames``, ``process_tile``, ``process_partition``), for ``postprocess`` and ``merge``,
    for those of a :class:`~framefold.udf.transform.Transform` that make frames, for methods and
    functions that those call, and for functions for :meth:`~framefold.api.Context.map`. The
    function stays what it is wherever else it is called, and wherever Numba is not installed.

    Parameters
    ----------
    function : function
        Written in Python. Left out, what is returned takes it: ``@ff.compiled(fastmath=True)``.
    boundscheck : bool, optional
        Whether an index outside of an array is an error; without it, any memory may be read or
        written. True by default.
    fastmath : bool, optional
        Whether floating-point operations may be done in another order, and without care for NaN
        and infinity. False by default.
    cache : bool, optional
        Whether the machine code is kept on disk for other processes. True by default.

    Returns
    -------
    function
        The same, marked.

    Raises
    ------
    ArgumentTypeError
        If it is no function written in Python.
    InvalidArgumentError
        For other options: compiled code never goes back to the interpreter, and starts no threads.

    Examples
    --------
    >>> import framefold as ff
    >>> @ff.compiled
    ... def largest(frame):
    ...     return frame.max()
    """
    for name, value in options.items():
        if name not in Options._fields:
            raise InvalidArgumentError(f"compiled has no option {name!r}{_WHY_NOT.get(name, '')}")
        if not isinstance(value, bool):
            raise ArgumentTypeError(f"{name} is {value!r}, expected True or False")
    made = Options(**options)

    def mark(function: Any) -> Any:
        function = getattr(function, "py_func", function)  # of what Numba compiles already
        if not isinstance(function, FunctionType):
            raise ArgumentTypeError(
                f"compiled got {function!r}, expected a function written with 'def' or 'lambda'"
            )
        setattr(function, MARK, made)
        return function

    return mark if function is None else mark(function)


#: What is said about options that Numba has and this has not.
_WHY_NOT = {
    "parallel": ": frames are spread over threads already, and a function may not start its own",
    "forceobj": ": what cannot be compiled is an error",
    "looplift": ": what cannot be compiled is an error",
    "nopython": ": code is always compiled as a whole, and what cannot be is an error",
    "nogil": ": compiled code never holds the interpreter's lock",
    "error_model": ": division by zero is an error, as in Python",
}


def options_of(function: Any) -> Options | None:
    """How a function or method is to be compiled; None if it is not marked."""
    function = getattr(function, "__func__", function)
    made = getattr(function, MARK, None)
    return made if isinstance(made, Options) else None


def numba_is_installed() -> bool:
    """Whether marked functions can be compiled here."""
    try:
        return find_spec("numba") is not None and find_spec("llvmlite") is not None
    except (ImportError, ValueError):
        return False
