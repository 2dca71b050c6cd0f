"""The Python half of the engine's adapter for transforms: checks, copies, and machine code."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold.common._items import has_items, indices
from framefold.common._user_code import signature_of
from framefold.compilation.marks import NO_NUMBA, options_of
from framefold.compilation.plan import N_RESERVED, Buffer, Member, Wanted
from framefold.compilation.values import Block, is_number
from framefold.exceptions import InvalidArgumentError, UDFError
from framefold.udf.engine.compiled import functions_called, raise_failure
from framefold.udf.engine.declarations import check_that_a_call_runs, place

if TYPE_CHECKING:
    from framefold.udf.transform import Transform, TransformMeta

#: The dtypes of pixels.
DTYPES = (
    *("bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64"),
    *("float16", "float32", "float64", "complex64", "complex128"),
)
#: The most axes of a frame, as a stack of them is an array of NumPy, too.
MOST_AXES = 31


class Prepared:
    """A transform for frames of one kind.

    Parameters
    ----------
    transform
        What copies are made of.
    meta
        The frames that it gets.

    Raises
    ------
    InvalidArgumentError
        If it cannot be what it declares; names the class.
    UDFError
        If it cannot be compiled.
    """

    def __init__(self, transform: Transform, meta: TransformMeta) -> None:
        self._transform, self._meta = transform, meta
        self._name = type(transform).__name__
        copy = self._copy()
        self._method = _checked_method(copy)
        output = copy._output()
        self._sig = _checked_sig(f"{self._name}.get_output", output.sig)
        self._dtype = _checked_dtype(f"{self._name}.get_output", output.dtype)
        #: The machine code, if it is compiled.
        self.code: _engine.CompiledCode | None = None
        shown = _shown(transform)
        text = shown
        if copy._is_compiled:
            self.code = self._compiled(copy)
            text = f"{shown}, compiled"
        elif copy._marked:
            text = f"{shown}, {NO_NUMBA}"
        #: What the engine knows of it.
        self.declared = (
            shown,
            text,
            list(self._sig),
            self._dtype.name,
            self._method == "process_frames",
        )

    def _copy(self) -> Transform:
        copy = self._transform._copy()
        copy.meta = self._meta
        return copy

    def worker(self) -> Callable[[npt.NDArray[Any], npt.NDArray[Any]], Any]:
        """What processes frames for one worker: a method of a copy of its own."""
        process: Callable[[npt.NDArray[Any], npt.NDArray[Any]], Any]
        process = getattr(self._copy(), self._method)
        return process

    def explain_failure(
        self, pixels: bytes, n_frames: int, frame: int | None, address: int
    ) -> None:
        """Raise what the user is to see of a failure of compiled code.

        Parameters
        ----------
        pixels, n_frames
            The frames that it was given.
        frame
            The one that it failed on, if it gets single ones.
        address
            Of Numba's description of the exception.
        """

        def run_again() -> None:
            sig = tuple(self._meta.dataset_shape.sig)
            frames = np.frombuffer(pixels, self._meta.input_dtype).reshape((n_frames, *sig))
            out = np.zeros((n_frames, *self._sig), self._dtype)
            process = self.worker()
            if self._method == "process_frames":
                process(frames, out)
            else:
                process(frames[frame or 0], out[0])

        raise_failure(address, run_again)

    def _compiled(self, copy: Transform) -> _engine.CompiledCode:
        from framefold.compilation import store

        meta = self._meta
        for what, dtype in (("gets", meta.input_dtype), ("makes", self._dtype)):
            if not is_number(dtype):
                raise UDFError(
                    f"{self._name} is compiled and {what} frames of {dtype}, with which compiled "
                    f"code does not compute; use another dtype, or leave out @ff.compiled"
                )
        process = getattr(type(copy), self._method)
        methods, names = functions_called(type(copy), [process])
        block = Block(N_RESERVED)
        nav, sig = tuple(meta.dataset_shape.nav), tuple(meta.dataset_shape.sig)
        shape_slot = block.add_int(*nav, *sig)
        params = tuple(
            Member(key, *block.add(value))
            for key, value in sorted(copy.params.__dict__.items())
            if key in names
        )
        wanted = Wanted(
            udf=self._name,
            method="frame" if self._method == "process_frame" else "frames",
            sparse=False,
            input_dtype=meta.input_dtype.name,
            dataset_dtype=meta.dataset_dtype.name if is_number(meta.dataset_dtype) else "",
            n_nav=len(nav),
            n_sig=len(sig),
            buffers=(Buffer("out", "nav", self._dtype.name, len(self._sig)),),
            params=params,
            task_data=(),
            shape_slot=shape_slot,
            process=process,
            postprocess=None,
            merge=None,
            methods=methods,
            names=names,
            makes_frames=True,
        )
        loaded = store.load(wanted)
        return _engine.CompiledCode(
            self._name,
            (loaded.addresses["process"], 0, 0),
            False,
            wanted.method != "frame",
            block.finished().tolist(),
            [],
            [],
            (loaded, block),
        )


def _checked_method(copy: Transform) -> str:
    """The name of the method that processes frames."""
    cls, name, method = type(copy), type(copy).__name__, copy._method
    if method is None:
        raise InvalidArgumentError(
            f"{name} implements neither process_frame(self, frame, out) nor "
            f"process_frames(self, frames, out); implement one of them"
        )
    if method == "process_frames" and place(cls, "process_frame") < place(cls, method):
        raise InvalidArgumentError(
            f"{name} has a process_frame of its own, and process_frames of a class that it "
            f"derives from, which would be called instead; implement process_frames in {name}"
        )
    arguments = "frames, out" if method == "process_frames" else "frame, out"
    process = getattr(copy, method)
    if not callable(process):
        raise InvalidArgumentError(
            f"{name}.{method} is {process!r}, expected a method {method}(self, {arguments})"
        )
    try:
        check_that_a_call_runs(f"{name}.{method}", process)
    except UDFError as error:
        raise InvalidArgumentError(str(error)) from None
    try:
        signature_of(process).bind(None, None)
    except TypeError as error:
        raise InvalidArgumentError(
            f"{name}.{method} cannot be called with two arrays ({error}); expected "
            f"{method}(self, {arguments})"
        ) from None
    except ValueError:  # what is written in C may not say what it takes
        pass
    if options_of(getattr(cls, method, None)) is None:
        other = "process_frame" if method == "process_frames" else "process_frames"
        if options_of(getattr(cls, other, None)) is not None:
            raise InvalidArgumentError(
                f"{name}.{other} is marked with @ff.compiled, and {method}, which is called, is "
                f"not; mark both or leave one out"
            )
    return method


def _checked_sig(name: str, given: Any) -> tuple[int, ...]:
    try:
        sig = indices("sig", given if has_items(given) else (given,))
    except TypeError:
        sig = ()
    if not 0 < len(sig) <= MOST_AXES or min(sig) < 1:
        raise InvalidArgumentError(
            f"{name} gives sig={given!r}, expected the lengths of 1 to {MOST_AXES} axes, each 1 or "
            f"more"
        )
    return sig


def _checked_dtype(name: str, given: Any) -> np.dtype[Any]:
    try:
        named = np.dtype(given).name
    except (TypeError, ValueError):
        named = ""
    if named not in DTYPES:
        raise InvalidArgumentError(
            f"{name} gives dtype={given!r}, expected one of {', '.join(DTYPES)}"
        )
    found: np.dtype[Any] = np.dtype(named)  # in this machine's byte order
    return found


def _shown(transform: Transform) -> str:
    """Class and parameters in words that are the same in each process."""
    params = (f"{name}={_word(value)}" for name, value in transform._kwargs.items())
    return f"{type(transform).__name__}({', '.join(params)})"


#: Longer texts of parameters are left out.
MOST_CHARACTERS = 60


def _word(value: Any) -> str:
    if isinstance(value, np.ndarray):
        return f"<{value.dtype} array of shape {value.shape}>"
    text = ""
    if isinstance(value, tuple):
        text = f"({', '.join(map(_word, value))}{',' if len(value) == 1 else ''})"
    elif isinstance(value, np.generic):
        text = str(value.item())
    elif isinstance(value, bool | int | float | complex | str | bytes | type(None)):
        text = repr(value)
    if 0 < len(text) <= MOST_CHARACTERS:
        return text
    return f"<{getattr(value, '__name__', type(value).__name__)}>"
