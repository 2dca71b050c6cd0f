"""UDFs from plain functions: ``run_udf(dataset, fn=…, make_buffers=…, merge=…)``."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import copy
from typing import Any

from framefold.common.buffers import BufferDeclaration, BufferWrapper
from framefold.exceptions import InvalidArgumentError
from framefold.udf.base import UDF
from framefold.udf.engine.declarations import check_that_a_call_runs

MakeBuffers = Callable[[], Mapping[str, Any]]


def function_udf(
    fn: Callable[..., None] | None,
    make_buffers: MakeBuffers | None,
    merge: Callable[[Any, Any], None] | None,
) -> UDF:
    """A UDF that calls ``fn`` for each frame.

    Parameters
    ----------
    fn
        Called as ``fn(frame, name=view, …)`` with a view of each result buffer. What it returns
        is ignored, with an :class:`~framefold.warnings.IgnoredReturnWarning`.
    make_buffers
        Takes nothing, returns a dict of buffer name to
        :class:`~framefold.common.buffers.BufferWrapper`, or to what
        :meth:`framefold.udf.UDF.buffer` returns.
    merge
        Called as ``merge(dest, src)`` with dicts of buffer name to array: it writes into those of
        ``dest``, or puts others in their place. May be left out if all buffers are of kind ``nav``.

    Raises
    ------
    InvalidArgumentError
        If one of them is missing or does not fit the others.
    UDFError
        If a call of one of them alone does nothing.
    """
    if not callable(fn) or not callable(make_buffers):
        name, value = ("make_buffers", make_buffers) if callable(fn) else ("fn", fn)
        raise InvalidArgumentError(
            f"{name} is {value!r}, expected a function; pass either a UDF, or both fn=… and "
            f"make_buffers=…"
        )
    if merge is not None and not callable(merge):
        raise InvalidArgumentError(f"merge is {merge!r}, expected a function of (dest, src)")
    for what, function in (("fn", fn), ("merge", merge)):
        check_that_a_call_runs(what, function)
    if merge is not None:
        return MergedFunctionUDF(fn=fn, make_buffers=make_buffers, merge=merge)
    udf = FunctionUDF(fn=fn, make_buffers=make_buffers)
    need = [name for name, decl in udf.get_result_buffers().items() if decl.kind != "nav"]
    if need:
        raise InvalidArgumentError(
            f"{', '.join(map(repr, need))} {'is' if len(need) == 1 else 'are'} not of kind "
            f"'nav', so partial results need a way to be merged; pass merge=…, a function of "
            f"(dest, src)"
        )
    return udf


class FunctionUDF(UDF):
    """A function that is called for each frame; see :func:`function_udf`."""

    _is_of_functions = True

    def __init__(self, fn: Callable[..., None], make_buffers: MakeBuffers) -> None:
        super().__init__(fn=fn, make_buffers=make_buffers)

    def get_result_buffers(self) -> dict[str, BufferDeclaration]:
        """What ``make_buffers`` returns, as declarations."""
        buffers = self.params.make_buffers()
        if not isinstance(buffers, Mapping):
            raise InvalidArgumentError(
                f"make_buffers returned {type(buffers).__name__}, expected a dict of buffer name "
                f"to BufferWrapper(kind=…, dtype=…)"
            )
        return {name: self._declared(decl) for name, decl in buffers.items()}

    def _declared(self, decl: Any) -> BufferDeclaration:
        if isinstance(decl, BufferWrapper):
            return self.buffer(kind=decl.kind, extra_shape=decl.extra_shape, dtype=decl.dtype)
        declared: BufferDeclaration = decl
        return declared

    def process_frame(self, frame: Any) -> Any:
        """Call the function; what it returns is what the run warns of."""
        return self.params.fn(frame, **self.results.__dict__)


class MergedFunctionUDF(FunctionUDF):
    """The same with a function that merges partial results."""

    def __init__(
        self,
        fn: Callable[..., None],
        make_buffers: MakeBuffers,
        merge: Callable[[Any, Any], None],
    ) -> None:
        UDF.__init__(self, fn=fn, make_buffers=make_buffers, merge=merge)

    def merge(self, dest: Any, src: Any) -> Any:
        """Call the function with plain dicts; arrays that it puts into that of ``dest`` count."""
        entries = dict(dest.__dict__)
        returned = self.params.merge(entries, dict(src.__dict__))
        buffers = dest.__dict__
        # Copies, as one buffer may be the new entry of another.
        new = {name: copy(x) for name, x in entries.items() if x is not buffers.get(name)}
        for name, value in new.items():
            setattr(dest, name, value)
        return dest if returned is entries else returned
