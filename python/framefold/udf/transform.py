"""A stage of one's own, written in Python: makes other frames of frames."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from framefold.common._telling import tell_of
from framefold.common.aux_data import AuxBufferWrapper
from framefold.common.shape import Shape
from framefold.compilation.marks import NO_NUMBA, numba_is_installed, options_of
from framefold.exceptions import InvalidArgumentError
from framefold.io.stages import Stage
from framefold.udf._conversions import converted_again
from framefold.udf.data import PARAMETERS, UDFData
from framefold.warnings import NotCompiledWarning

__all__ = ["Transform", "TransformMeta", "TransformOutput"]


class TransformMeta(NamedTuple):
    """What a :class:`Transform` can know of the frames that it gets, as ``self.meta``."""

    #: The shape of the data set that it is put behind: ``dataset_shape.nav`` and ``.sig``.
    dataset_shape: Shape
    #: The dtype of the frames that it gets.
    input_dtype: np.dtype[Any]
    #: That of the data set before its corrections, which make floats of integers.
    dataset_dtype: np.dtype[Any]


class TransformOutput(NamedTuple):
    """Shape and dtype of the frames that a :class:`Transform` makes: what ``self.output`` gives."""

    sig: Any
    dtype: Any


class Transform(Stage):
    """A stage of one's own for :meth:`~framefold.io.dataset.base.DataSet.pipe`.

    A subclass implements one of these methods, and :meth:`get_output` if its frames have another
    shape or dtype than those it gets:

    ``process_frame(self, frame, out)``
        Makes a frame of a frame: ``frame`` is a read-only array of shape ``sig``, and ``out`` an
        array of zeros in the shape and dtype of :meth:`get_output`, in C order, to be written into.
    ``process_frames(self, frames, out)``
        The same for stacks, of shapes ``(n, *sig)``. How many frames there are follows from their
        size and how the file is cut, and each must be made of its own frame alone. It is called if
        there are both.

    Keyword arguments of the constructor are ``self.params``; arrays among them are copied, and
    read-only. Each worker calls the class with them for a copy of its own, so the constructor must
    accept exactly what it passes on, and pass on what it is given. With
    :func:`framefold.compiled`, the method that processes frames is compiled, and runs on all
    threads without the interpreter.

    Parameters
    ----------
    **kwargs
        Parameters.

    Attributes
    ----------
    params : UDFData
        The parameters.
    meta : TransformMeta
        Shape and dtype of what it gets; in the methods above.
    xp : module
        NumPy.

    Raises
    ------
    InvalidArgumentError
        By ``pipe``: if it has no method for frames, or one with other arguments, if its output has
        no such shape or dtype, or if a constructor does not pass on its parameters as they are.
    UDFError
        By ``pipe``: if something cannot be compiled. In a run: if the method returns something.

    Examples
    --------
    >>> import numpy as np, framefold as ff
    >>> class Scaled(ff.Transform):
    ...     def __init__(self, factor=2.0):
    ...         super().__init__(factor=factor)
    ...
    ...     def get_output(self):
    ...         return self.output(dtype="float32")
    ...
    ...     def process_frame(self, frame, out):
    ...         out[:] = frame * self.params.factor
    >>> data = np.arange(24, dtype=np.uint16).reshape((2, 3, 2, 2))
    >>> dataset = ff.Context.make_with("inline").load("memory", data=data)
    >>> scaled = dataset.pipe(Scaled(0.5))
    >>> scaled[0, 1].tolist()
    [[2.0, 2.5], [3.0, 3.5]]
    >>> scaled.stages
    ['Scaled(factor=0.5)']
    """

    params: UDFData
    meta: TransformMeta
    xp: Any = np

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = kwargs
        self.params = UDFData(PARAMETERS, kwargs)

    def get_output(self) -> TransformOutput:
        """Shape and dtype of the frames that it makes: ``self.output(…)``; as those that it gets.

        ``self.meta`` is available.
        """
        return self.output()

    def output(
        self, sig: int | Sequence[int] | None = None, dtype: npt.DTypeLike | None = None
    ) -> TransformOutput:
        """What :meth:`get_output` returns.

        Parameters
        ----------
        sig
            The shape of the frames that it makes; that of those it gets if None. The
            calibration of their axes is only carried along if it is the same.
        dtype
            The dtype of their pixels, one that data sets may have; as before if None.
        """
        meta = self.meta
        return TransformOutput(
            tuple(meta.dataset_shape.sig) if sig is None else sig,
            meta.input_dtype if dtype is None else dtype,
        )

    def _output(self) -> TransformOutput:
        """What :meth:`get_output` returns."""
        given: Any = self.get_output()
        if not isinstance(given, TransformOutput):
            found = "None" if given is None else f"a {type(given).__name__}"
            raise InvalidArgumentError(
                f"{type(self).__name__}.get_output returned {found}, expected "
                f"self.output(sig=…, dtype=…)"
            )
        return given

    @property
    def _method(self) -> str | None:
        """The name of the method that processes frames; None if there is none."""
        names = ("process_frames", "process_frame")
        return next((name for name in names if hasattr(self, name)), None)

    @property
    def _marked(self) -> bool:
        """Whether that method is to be compiled."""
        function = getattr(type(self), self._method or "", None)
        return options_of(function) is not None

    @property
    def _is_compiled(self) -> bool:
        """Whether that method is compiled."""
        return self._marked and numba_is_installed()

    def _copy(self) -> Self:
        """A clean copy."""
        made = _called(type(self), self._kwargs)
        assert isinstance(made, type(self))
        # What it passes on for the copy may be something else than what it was given.
        made._kwargs = dict(self._kwargs)
        return made

    def _changes(self) -> tuple[tuple[str, dict[str, Any]], ...]:
        name = type(self).__name__
        if "_kwargs" not in vars(self):
            raise InvalidArgumentError(
                f"{name}.__init__ does not call super().__init__; it has to pass all parameters "
                f"on to it, as keyword arguments"
            )
        for key, value in self._kwargs.items():
            if isinstance(value, AuxBufferWrapper):
                raise InvalidArgumentError(
                    f"{name}: parameter {key!r} is AUX data, which only UDFs get in parts; pass "
                    f"the array itself"
                )
        if self._marked and not self._is_compiled:
            tell_of(name, [f"{NO_NUMBA}; pip install framefold[numba]"], NotCompiledWarning)
        return (("transformed", {"transform": transform_of(type(self), self._kwargs)}),)

    def _prepared(self, nav: Sequence[int], sig: Sequence[int], dtype: str, native: str) -> Any:
        """What the engine calls for frames of this kind."""
        from framefold.udf.engine.transforms import Prepared

        shape = Shape((*nav, *sig), sig_dims=len(sig))
        return Prepared(self, TransformMeta(shape, np.dtype(dtype), np.dtype(native)))

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Pickles hold the class and its parameters."""
        return transform_of, (type(self), self._kwargs)

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return object.__hash__(self)

    def __repr__(self) -> str:
        params = ", ".join(f"{name}={value!r}" for name, value in self._kwargs.items())
        return f"{type(self).__name__}({params})"


def transform_of(cls: type[Transform], kwargs: Mapping[str, Any]) -> Transform:
    """A transform as data sets keep it: it does not change with arrays of the user's."""
    kept = {key: _kept(value) for key, value in kwargs.items()}
    made = _called(cls, kept)
    by_copy = vars(made).get("_kwargs", {})
    where = "in a property or the method, from self.params"
    wrong = converted_again(cls, "Transform", kept, by_copy, where)
    if wrong is not None:
        raise InvalidArgumentError(wrong)
    made._kwargs = kept
    return made


def _called(cls: type[Transform], kwargs: Mapping[str, Any]) -> Transform:
    try:
        return cls(**kwargs)
    except TypeError as error:
        error.add_note(
            f"framefold makes a clean copy of {cls.__name__} by calling it with the parameters "
            f"that its constructor passed to Transform.__init__ ({', '.join(kwargs) or 'none'}); "
            f"the constructor must accept exactly these"
        )
        raise


def _kept(value: Any) -> Any:
    if type(value) is not np.ndarray or not value.flags.writeable:
        return value
    copy = value.copy()
    copy.flags.writeable = False
    return copy
