"""Functions that others compiled, as UDFs."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold.common.buffers import BufferDeclaration
from framefold.common.udf import UDFMethod
from framefold.exceptions import ArgumentTypeError, UnsupportedError
from framefold.udf.base import PROCESS_METHODS, UDF

#: The method that returns the capsule with the functions of the C interface.
METHOD = "__framefold_udf__"


class NativeUDF(UDF):
    """A function that was compiled from Rust, C or another language.

    Runs like the native kernels: on all cores, without the interpreter. Wherever UDFs are taken,
    such a function is taken as it is, too; this class is for those who want to add to its results:
    a class that derives from this one may override :meth:`get_results`, and nothing else. What
    that computes it assigns to results that the function declares.

    Parameters
    ----------
    function
        An object with a method ``__framefold_udf__()``, which returns a capsule of the C interface.
        Executors with worker processes pickle it.

    Raises
    ------
    ArgumentTypeError
        If it is no such object; when a run is planned, if it returns no such capsule.
    InvalidArgumentError
        When a run is planned, if the capsule is of another version of the interface, or what is in
        it cannot be used.

    Results
    -------
    Those that the function declares.
    """

    #: What a class that derives from this one may say itself.
    _MAY_OVERRIDE: ClassVar[frozenset[str]] = frozenset({"get_results"})

    def __init__(self, function: Any) -> None:
        if not is_native(function):
            instance = "; pass an instance, not the class" if isinstance(function, type) else ""
            raise ArgumentTypeError(
                f"{function!r} is no compiled function: it has no method {METHOD}(){instance}"
            )
        super().__init__(function=function)

    @property
    def _plugin(self) -> Any:
        for cls in type(self).__mro__:
            if cls is NativeUDF:
                break
            for name in vars(cls):
                inherited = hasattr(UDF, name) and not name.startswith("__")
                if (inherited and name not in self._MAY_OVERRIDE) or name in _PROCESSING:
                    raise UnsupportedError(
                        f"{type(self).__name__} overrides {name} of a compiled function; only "
                        f"get_results can be overridden"
                    )
        return self.params.function

    @property
    def _shown_name(self) -> str:
        """The function's own name, unless a class adds to its results."""
        if type(self) is not NativeUDF:
            return super()._shown_name
        return _engine.NativeUdf.of_plugin(self._plugin).name

    def get_preferred_input_dtype(self) -> npt.DTypeLike:
        """The dtype of the data; the function itself says what it gets."""
        return self.USE_NATIVE_DTYPE

    def get_method(self) -> UDFMethod | str:
        """Whatever the function asks for."""
        return UDFMethod.TILE

    def get_result_buffers(self) -> dict[str, BufferDeclaration]:
        """What the function declares."""
        meta = self.meta
        nav, sig = tuple(meta.dataset_shape.nav), tuple(meta.dataset_shape.sig)
        roi = None if meta.roi is None else np.ascontiguousarray(meta.roi, dtype=bool).reshape(-1)
        dtype = np.dtype(meta.input_dtype).name
        return {
            name: self.buffer(kind=kind, extra_shape=tuple(extra), dtype=of, use=use)
            for name, kind, extra, of, use in _engine.NativeUdf.of_plugin(self._plugin).buffers(
                nav, sig, dtype, roi
            )
        }


_PROCESSING = frozenset(PROCESS_METHODS.values())


def is_native(function: Any) -> bool:
    """Whether this is a compiled function, by its method."""
    return hasattr(function, METHOD) and not isinstance(function, type)


def as_udf(function: Any) -> Any:
    """A UDF of a compiled function; anything else as it is."""
    if isinstance(function, UDF) or not is_native(function):
        return function
    return NativeUDF(function)
