"""A UDF made from a plain function of one frame."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from framefold.common._booleans import boolean
from framefold.common._losses import first_lost
from framefold.common._masked import has_masked
from framefold.common._telling import tell
from framefold.common.buffers import BufferDeclaration, BufferWrapper
from framefold.compilation.marks import compiled, numba_is_installed, options_of
from framefold.exceptions import UDFError
from framefold.udf.base import UDF
from framefold.udf.engine.declarations import check_that_a_call_runs


class AutoUDF(UDF):
    """Applies a function to each frame and keeps what it returns.

    Shape and dtype of the result buffer follow from a trial call with a frame of ones. Results
    that have another number of elements then, that do not fit into integers or texts, that are
    complex where the trial was real, or of which elements are masked, are a
    :class:`~framefold.exceptions.UDFError`.

    Parameters
    ----------
    f
        Takes a frame of shape ``sig``, returns a number or an array of fixed shape.
    monitor
        Also keep the result for the most recent frame, as ``monitor``.

    Results
    -------
    result : nav, extra_shape as ``f`` returns
    monitor : single, only if asked for
    """

    def __init__(self, f: Callable[[Any], Any], monitor: bool = False) -> None:
        super().__init__(f=f, monitor=boolean("monitor", monitor))

    def _trial(self) -> np.ndarray[Any, np.dtype[Any]]:
        function = getattr(self.params.f, "__name__", "the function")
        check_that_a_call_runs(f"{function}(frame)", self.params.f, "return the result")
        sig = tuple(self.meta.dataset_shape.sig)
        trial = np.asarray(self.params.f(np.ones(sig, dtype=self.meta.input_dtype)))
        if options_of(self.params.f) is None or not numba_is_installed():
            return trial
        from framefold.compilation.store import return_type

        # What the machine code returns, whatever the interpreter does for this frame.
        return trial.astype(return_type(self.params.f, self.meta.input_dtype.name, len(sig)))

    def _marked_function(self, method: str) -> Callable[..., Any] | None:
        function = super()._marked_function(method)
        own = method == "frame" and type(self).process_frame is AutoUDF.process_frame
        if own and options_of(self.params.f) is not None:
            return _keep_both if self.params.monitor else _keep
        return function

    def auto_buffer(self, var: np.ndarray[Any, np.dtype[Any]]) -> BufferDeclaration:
        """The declaration of ``result``, of what the function returned for a trial."""
        return self.buffer(kind="nav", extra_shape=var.shape, dtype=var.dtype)

    def auto_monitor_buffer(self, var: np.ndarray[Any, np.dtype[Any]]) -> BufferDeclaration:
        """The declaration of ``monitor``."""
        return self.buffer(kind="single", extra_shape=var.shape, dtype=var.dtype)

    def get_result_buffers(self) -> dict[str, BufferDeclaration]:
        """One buffer of the shape and dtype that the function returns."""
        trial = self._trial()
        buffers = {"result": self.auto_buffer(trial)}
        if self.params.monitor:
            buffers["monitor"] = self.auto_monitor_buffer(trial)
        return buffers

    def process_frame(self, frame: Any) -> None:
        """Call the function."""
        result = self.params.f(frame)
        buffer = self.results.result
        _check_elements(result, buffer)
        kind = buffer.dtype.kind
        if kind not in "fcO" or (kind == "f" and np.iscomplexobj(result)):
            _check(result, buffer.dtype)
        buffer[:] = result
        if self.params.monitor:
            self.results.monitor[:] = result

    @property
    def _assigns(self) -> bool:
        if self.params.monitor or type(self).merge is not AutoUDF.merge:
            return super()._assigns
        return "merge" not in vars(self) and not self._computes_results

    def merge(self, dest: Any, src: Any) -> None:
        """Assign."""
        for name in src:
            getattr(dest, name)[:] = getattr(src, name)


def tell_of_nothing(result: BufferWrapper) -> None:
    """Warn if the function returned None for all frames; results computed later are not asked."""
    if type(result) is not BufferWrapper or result.dtype != object:
        return
    values = result.raw_data
    if values.size and all(value is None for value in values.flat):
        tell("the function returned None for all frames; it needs a 'return'", UserWarning)


@compiled
def _keep(self: Any, frame: Any) -> None:
    self.results.result[...] = _of_size(self.params.f(frame), self.results.result.size)


@compiled
def _keep_both(self: Any, frame: Any) -> None:
    result = _of_size(self.params.f(frame), self.results.result.size)
    self.results.result[...] = result
    self.results.monitor[...] = result


@compiled
def _of_size(result: Any, size: int) -> Any:
    array = np.asarray(result)
    if array.size != size:
        raise ValueError("another number of elements than for a frame of ones")
    return array


def _check_elements(result: Any, buffer: Any) -> None:
    if buffer.size != 1 and np.size(result) != buffer.size:
        raise UDFError(
            f"the function returned shape {np.shape(result)} for this frame, and {buffer.shape} "
            f"for a frame of ones; return the same shape for all frames"
        )
    if has_masked(result):
        raise UDFError(
            f"the function returned masked elements for this frame ({result!r}), which a result "
            f"does not hold; return numbers in their place, as by np.ma.filled(…, np.nan)"
        )


def _check(result: Any, dtype: np.dtype[Any]) -> None:
    if (lost := first_lost(np.asarray(result), dtype)) is not None:
        wider = "np.complex128" if isinstance(lost, complex) else "float"
        raise UDFError(
            f"the function returned {lost!r} for this frame, which does not fit into the {dtype} "
            f"that it returned for a frame of ones; return the same dtype for all frames, as by "
            f"{wider}(…)"
        )
