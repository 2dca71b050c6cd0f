"""Methods of a class that nothing calls, as their names are not those of the interface."""

from __future__ import annotations

import inspect
from collections.abc import Iterator
from difflib import get_close_matches
from types import CodeType

from framefold.checking.report import Finding
from framefold.checking.sample import Sample
from framefold.udf.base import PROCESS_METHODS, UDF
from framefold.udf.engine.declarations import place, processing_method, uncalled_methods

HOOKS = (
    *PROCESS_METHODS.values(),
    *("get_result_buffers", "get_results", "get_task_data", "preprocess", "postprocess", "cleanup"),
    *("merge", "merge_all", "get_method", "get_backends"),
    *("get_preferred_input_dtype", "get_tiling_preferences"),
)
#: What is close to a name here is meant to be that hook.
MEANT = {
    **{hook: hook for hook in HOOKS},
    "get_preferred_dtype": "get_preferred_input_dtype",
    "get_input_dtype": "get_preferred_input_dtype",
}
#: One letter of eight or more may be missing; `process_file` is not `process_tile`.
CLOSE = 0.92


def uncalled(sample: Sample) -> Iterator[Finding]:
    """Each method is called."""
    if sample.is_native:
        return
    udf, cls = sample.planned(), type(sample.udf)
    for message in uncalled_methods(udf, processing_method(udf)):
        yield Finding("uncalled", True, message)
    own = [each for each in cls.__mro__ if not each.__module__.startswith("framefold.")]
    methods = {
        name: function
        for each in reversed(own)
        for name, function in vars(each).items()
        if inspect.isfunction(function)
    }
    called = {name for function in methods.values() for name in _names(function.__code__)}
    for name in methods:
        close = get_close_matches(name, MEANT, 1, CLOSE)
        if name.startswith("_") or hasattr(UDF, name) or name in called or not close:
            continue
        hook = MEANT[close[0]]
        # A class that has the hook, too, means something else by the other name.
        if name not in HOOKS and place(cls, hook) > place(cls, name):
            yield Finding(
                "uncalled", True, f"nothing calls the method {name}: did you mean {hook}?"
            )


def _names(code: CodeType) -> Iterator[str]:
    """All names that a function uses, attributes included."""
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
