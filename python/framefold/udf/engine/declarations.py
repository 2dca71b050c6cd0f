"""What a UDF declares before a run, checked: its buffers, method, dtype, formats and wishes."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Mapping
from math import isinf, prod
from operator import attrgetter
from typing import Any

import numpy as np

from framefold.common._integers import MOST
from framefold.common._telling import tell
from framefold.common.buffers import BufferDeclaration, BufferWrapper
from framefold.common.udf import SPARSE_BACKENDS
from framefold.exceptions import InvalidResultError, UDFError, UnsupportedError
from framefold.udf._conversions import converted_again
from framefold.udf.base import PROCESS_METHODS, UDF
from framefold.udf.engine.changes import laid_out_to_travel

Buffers = dict[str, BufferDeclaration]

#: All that a declaration says.
_content = attrgetter(*BufferDeclaration.__slots__)


def declared_buffers(udf: UDF) -> Buffers:
    """What ``get_result_buffers`` of ``udf`` declares.

    Raises
    ------
    UDFError
        If a name, kind, use, place or extra shape is none; names the UDF and the buffer.
    """
    return _checked(type(udf).__name__, udf.get_result_buffers())


def declared_as_planned(udf: UDF, planned: Buffers, where: str) -> Buffers:
    """What another copy of a UDF declares, or the user's own object, in the order of the plan.

    Its results go on as those that were planned, by their names or in that order.

    Parameters
    ----------
    udf
        Any that knows the run.
    planned
        What the plan has, of a clean copy.
    where
        What ``udf`` is, for messages.

    Raises
    ------
    UDFError
        As :func:`declared_buffers`, and if it declares something else than planned.
    """
    buffers = udf.get_result_buffers()
    if _are_those_planned(buffers, planned):
        return planned
    declared = _checked(type(udf).__name__, buffers)
    for name in (*planned, *declared):
        first, now = planned.get(name), declared.get(name)
        if _facts(first) != _facts(now):
            raise UDFError(
                f"{type(udf).__name__}.get_result_buffers declares {name!r} as {first} for the "
                f"plan of the run, and as {now} {where}; what it declares has to follow from the "
                f"parameters and self.meta alone: pass on to super().__init__ what it depends on"
            )
    return {name: declared[name] for name in planned}


def checked_task_data(udf: UDF) -> Mapping[str, Any]:
    """What ``get_task_data`` of ``udf`` returns.

    Raises
    ------
    UDFError
        If that has no names.
    """
    data = udf.get_task_data()
    if data is not None and not hasattr(data, "keys"):
        raise UDFError(
            f"{type(udf).__name__}.get_task_data returned {type(data).__name__}, expected a dict "
            f"of name to value"
        )
    return data or {}


def _are_those_planned(buffers: Any, planned: Buffers) -> bool:
    """Whether these are the same declarations, which are checked."""
    if not isinstance(buffers, dict) or buffers.keys() != planned.keys():
        return False
    for key, decl in buffers.items():
        if type(decl) is not BufferDeclaration or _content(decl) != _content(planned[key]):
            return False
    return True


def _facts(decl: BufferDeclaration | None) -> Any:
    # Not where it is on a worker: that changes no result.
    return decl and (decl.kind, decl.extra_shape, decl.dtype, decl.use)


def _is_one_of(value: Any, *texts: str) -> bool:
    """Whether it is one of these texts; arrays are compared element by element."""
    return isinstance(value, str) and value in texts


def _checked(udf: str, buffers: Any) -> Buffers:
    if not isinstance(buffers, Mapping):
        raise UDFError(
            f"{udf}.get_result_buffers returned {type(buffers).__name__}, expected a dict of "
            f"buffer name to self.buffer(...)"
        )
    return {key: _checked_declaration(udf, key, decl) for key, decl in buffers.items()}


def _checked_declaration(udf: str, key: Any, decl: Any) -> BufferDeclaration:
    if not isinstance(key, str) or not key.isidentifier():
        raise UDFError(
            f"{udf} declares a buffer {key!r}; a buffer's name must be a valid Python "
            f"identifier, because it is reached as self.results.<name>"
        )
    if key.startswith(("__", "_UDFData__")):
        raise UDFError(
            f"{udf} declares a buffer {key!r}; names that begin with '__' or '_UDFData__' are "
            f"taken, use another one"
        )
    if isinstance(decl, BufferWrapper):
        decl = BufferDeclaration(decl.kind, decl.extra_shape, decl.dtype, decl.where, decl.use)
    if not isinstance(decl, BufferDeclaration):
        raise UDFError(
            f"{udf} declares buffer {key!r} as {type(decl).__name__}; use self.buffer(...)"
        )
    wrong = None
    if not _is_one_of(decl.kind, "nav", "sig", "single"):
        wrong = f"kind {decl.kind!r}; use 'nav', 'sig' or 'single'"
    elif not (decl.use is None or isinstance(decl.use, str)):
        wrong = f"use={decl.use!r}; use None, 'private' or 'result_only'"
    elif not (decl.where is None or _is_one_of(decl.where, "device")):
        wrong = f"where={decl.where!r}; use None or 'device'"
    elif prod(decl.extra_shape) > MOST:
        wrong = f"extra_shape={decl.extra_shape}; there cannot be so many elements"
    elif min(decl.extra_shape, default=0) < 0:
        wrong = f"extra_shape={decl.extra_shape}; lengths of axes are 0 or more"
    elif decl.vector and decl.extra_shape[-1:] != (2,):
        wrong = f"vector=True and extra_shape={decl.extra_shape}; vectors have 2 components, (2,)"
    elif decl.dtype.subdtype is not None:
        wrong = f"dtype={decl.dtype}, an array in each element; say its axes by extra_shape"
    elif decl.use != "result_only" and _lacks_length(decl.dtype):
        wrong = f"dtype={decl.dtype}, texts or bytes without a length, of which one or none is kept"
        wrong += "; say how long they can be, as in dtype='U20' or 'V20'"
    elif not isinstance(decl.unit, str):
        wrong = f"unit={decl.unit!r}; use a text, such as 'mrad'"
    if wrong is not None:
        raise InvalidResultError(f"{udf} declares buffer {key!r} with {wrong}")
    if decl.use not in (None, "private", "result_only"):
        tell(
            f"{udf} declares buffer {key!r} with use={decl.use!r}, which means nothing; use None, "
            f"'private' or 'result_only'",
            UserWarning,
        )
        use = None
        return BufferDeclaration(
            decl.kind,
            decl.extra_shape,
            decl.dtype,
            decl.where,
            use,
            unit=decl.unit,
            vector=decl.vector,
        )
    return decl


def _lacks_length(dtype: np.dtype[Any]) -> bool:
    """Whether NumPy allocates it for texts or bytes of a length that was not said."""
    dtype = dtype.base
    if dtype.names is None:
        return dtype.kind in "SUV" and dtype.itemsize == 0
    return any(_lacks_length(dtype[name]) for name in dtype.names)


#: What has to do its work when it is called.
HOOKS = ("get_result_buffers", "preprocess", "postprocess", "cleanup", "merge", "get_results")
_CALLED = frozenset((*PROCESS_METHODS.values(), *HOOKS))


def processing_method(udf: UDF, known: str | None = None) -> str:
    """The name of the method that processes the data: ``tile``, ``frame`` or ``partition``.

    Parameters
    ----------
    udf
        Any.
    known
        The method of another copy, with which the functions of the class were checked.
    """
    own = not _CALLED.isdisjoint(vars(udf))
    if known is not None and not own and type(udf).get_method is UDF.get_method:
        return known
    name, chosen = type(udf).__name__, udf.get_method()
    method = str(getattr(chosen, "value", chosen))
    if method == known and not own:
        return method
    if method not in PROCESS_METHODS:
        raise UDFError(
            f"{name}.get_method returned {method!r}, "
            f"expected one of {', '.join(map(repr, PROCESS_METHODS))}"
        )
    if not hasattr(udf, PROCESS_METHODS[method]):
        raise UDFError(
            f"{name}.get_method returned {method!r}, but there is no {PROCESS_METHODS[method]}"
        )
    for hook in (PROCESS_METHODS[method], *HOOKS):
        function = getattr(udf, hook)
        if not callable(function):
            raise UDFError(
                f"{name}.{hook} is {function!r}, expected a method; leave the line out: a method "
                f"that is inherited cannot be taken away"
            )
        check_that_a_call_runs(f"{name}.{hook}", function)
    return method


def uncalled_methods(udf: UDF, method: str) -> list[str]:
    """What is odd about a class that has its own way to process data, and one that is built in.

    Parameters
    ----------
    udf
        Any.
    method
        The name of the method that processes the data, as :func:`processing_method` gives it.
    """
    cls, called = type(udf), PROCESS_METHODS[method]
    of_called = place(cls, called)
    if called in vars(udf) or of_called == len(cls.__mro__):
        return []
    inherited = cls.__mro__[of_called]
    if not _is_built_in(inherited):
        return []  # it may call the others itself, as those that are built in do not
    found = []
    for other, name in PROCESS_METHODS.items():
        at = place(cls, name)
        chooses = place(cls, "get_method") <= at  # the class itself, or one that derives from it
        if at >= of_called or chooses:
            continue
        own = cls.__mro__[at]
        if _is_built_in(own):
            continue  # a class of the user's that is listed behind it brings another method along
        found.append(
            f"{name} of {own.__name__} is not called: {called}, inherited from "
            f"{inherited.__name__}, comes before it; implement {called} in {own.__name__}, or have "
            f"get_method return {other!r}"
        )
    return found


def _is_built_in(cls: type) -> bool:
    return cls.__module__.startswith("framefold.")


def place(cls: type, name: str) -> int:
    """How far up in the hierarchy of classes a method is from."""
    classes = (n for n, each in enumerate(cls.__mro__) if name in vars(each))
    return next(classes, len(cls.__mro__))


#: What is called on copies alone.
OF_COPIES = (*PROCESS_METHODS.values(), "get_task_data", "postprocess", "cleanup")


def check_that_a_call_runs(
    name: str, function: Any, instead: str = "write to the result buffers"
) -> None:
    """Refuse a function of which a call alone does nothing: buffers would stay as they are.

    ``instead`` says what it is to do.

    Raises
    ------
    UDFError
        If it is asynchronous, or a generator; names it.
    """
    code = getattr(getattr(function, "__func__", function), "__code__", None)
    flags = getattr(code, "co_flags", 0)
    if flags & (inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR):
        raise UDFError(f"{name} is declared with 'async def'; use 'def', as it is not awaited")
    if flags & inspect.CO_GENERATOR:
        raise UDFError(
            f"{name} has a 'yield' in it, so that a call does nothing; {instead} instead"
        )


def preferred_dtype(udf: UDF) -> str:
    """The name of the dtype that ``udf`` prefers."""
    preferred = udf.get_preferred_input_dtype()
    try:
        return np.dtype(preferred).name
    except TypeError as error:
        raise UDFError(
            f"{type(udf).__name__}.get_preferred_input_dtype returned {preferred!r}, which is no "
            f"dtype: {error}"
        ) from None


def stack_wishes(udf: UDF) -> tuple[int | None, int | None]:
    """The most frames and bytes that ``process_frames`` takes; None to leave it to the planner."""
    if type(udf).get_tiling_preferences is UDF.get_tiling_preferences:
        return None, None
    depth, total_size = tiling_wishes(udf)
    return depth or sys.maxsize, total_size


def tiling_wishes(udf: UDF) -> tuple[int | None, int | None]:
    """Depth in frames and size in bytes of the tiles, None for as much as possible."""
    name, wishes = type(udf).__name__, udf.get_tiling_preferences()
    if not isinstance(wishes, Mapping):
        raise UDFError(
            f"{name}.get_tiling_preferences returned {wishes!r}, expected a dict such as "
            f"{{'depth': 8, 'total_size': UDF.TILE_SIZE_BEST_FIT}}"
        )
    return _wish(name, wishes, "depth"), _wish(name, wishes, "total_size")


def _wish(name: str, wishes: Mapping[str, Any], key: str) -> int | None:
    wish = wishes.get(key)
    if wish is None:
        return None
    if not isinstance(wish, int | float | np.number) or not wish > 0:
        raise UDFError(
            f"{name}.get_tiling_preferences returned {key}={wish!r}, expected a positive number "
            f"or float('inf')"
        )
    return None if isinf(wish) or wish >= sys.maxsize else max(1, int(wish))


def check_dtype(udf: str, dtype: np.dtype[Any], format_: str) -> None:
    """Refuse a dtype that arrays of that format cannot hold.

    Raises
    ------
    UnsupportedError
        For half precision in sparse arrays, which no library has.
    """
    if dtype == np.float16 and format_ in SPARSE_BACKENDS:
        raise UnsupportedError(
            f"{udf} is to get float16 data as {format_}, which cannot hold them; prefer float32 "
            f"in get_preferred_input_dtype, or BACKEND_NUMPY in get_backends"
        )


def recipe_of(udf: UDF) -> UDF:
    """A clean copy of a UDF, which makes the same copies as that does.

    What the constructor passes on for the copy may be something else than what it was given; the
    copies for partitions all begin with the latter, wherever they are made, with arrays laid out as
    those are that are sent there. Where a parameter is a dict that changed since, they begin with
    what the constructor makes of it now.

    Raises
    ------
    TypeError
        If the constructor does not accept what it passed on.
    UDFError
        If it does not call that of the base class, or converts what it passed on once more; if the
        object has a method that copies do not have, and no other than copies would call.
    """
    if "_kwargs" not in udf.__dict__:
        raise UDFError(
            f"{type(udf).__name__}.__init__ does not call super().__init__; it has to pass all "
            f"parameters on to it, as keyword arguments"
        )
    copy = udf.copy()
    for name in OF_COPIES:
        if name in vars(udf) and name not in vars(copy):
            cls = type(udf).__name__
            raise UDFError(
                f"{cls}.{name} is set on the object, but copies process the data, which are made "
                f"of class and parameters and do not have it; derive a class that has it"
            )
    by_copy = vars(copy).get("_kwargs", {})
    passed_on = udf._kwargs
    wrong = converted_again(type(udf), "UDF", passed_on, by_copy, "in get_task_data")
    if wrong is not None:
        if _follows_dicts(udf):
            passed_on = by_copy  # made of what is in them now
        # What is another one at each call, as a number of its own, is not made of what it gets.
        elif _passes_on(udf.copy(), by_copy):
            raise UDFError(wrong)
    copy._kwargs = laid_out_to_travel(passed_on)
    return copy


def _passes_on(udf: UDF, parameters: Mapping[str, Any]) -> bool:
    now = vars(udf).get("_kwargs", {})
    return converted_again(type(udf), "UDF", parameters, now, "") is None


def _follows_dicts(udf: UDF) -> bool:
    """Whether dicts changed since, and nothing is converted where they are as they were."""
    changed = {
        name: before
        for name, before in udf._dicts.items()
        if not _have_same_items(before, udf._kwargs.get(name))
    }
    then = {**udf._kwargs, **changed}
    return bool(changed) and _passes_on(udf.new_for_partition(then), then)


def _have_same_items(before: dict[Any, Any], now: Any) -> bool:
    return (
        type(now) is dict
        and before.keys() == now.keys()
        and all(now[key] is value for key, value in before.items())
    )
