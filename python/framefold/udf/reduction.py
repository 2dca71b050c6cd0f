"""Any reduction of the engine, by its name."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold.common._dtypes import as_dtype
from framefold.common._masked import refuse_masked
from framefold.common.buffers import BufferDeclaration
from framefold.common.udf import UDFMethod
from framefold.exceptions import InvalidArgumentError, UnsupportedError
from framefold.udf.base import PROCESS_METHODS, UDF

if TYPE_CHECKING:
    from framefold.io.dataset.base import DataSet


class ReductionUDF(UDF):
    """A reduction of the engine with parameters as its row has them.

    For those with a class of their own, such as :class:`~framefold.udf.max.MaxUDF`, that class
    can do more: methods can be overridden. This one runs on the engine or not at all.

    Parameters
    ----------
    reduction
        One of those that ``framefold reductions`` lists.
    **parameters
        As the guide lists them for it, with the same defaults as on the command line.

    Raises
    ------
    InvalidArgumentError
        If there is no such reduction or parameter, or elements of a parameter are masked; when a
        run is planned, if a value is not what the parameter can be.

    Results
    -------
    Those of the reduction.
    """

    _computed = frozenset({"_kinds", "_native_vectors"})

    def __init__(self, reduction: str, **parameters: Any) -> None:
        rows = {row["name"]: row for row in _engine.native_reductions()}
        if reduction not in rows:
            raise InvalidArgumentError(
                f"there is no reduction {reduction!r}; choose one of {', '.join(rows)}"
            )
        self._kinds = {each["name"]: each["kind"] for each in rows[reduction]["parameters"]}
        self._native_vectors = rows[reduction]["vectors"]
        unknown = [name for name in parameters if name not in self._kinds]
        if unknown:
            known = f"its parameters are {', '.join(self._kinds)}" if self._kinds else "it has none"
            raise InvalidArgumentError(f"{reduction!r} has no parameter {unknown[0]!r}; {known}")
        for name, value in parameters.items():
            refuse_masked(f"parameter {name!r} of {reduction!r}", value)
        super().__init__(reduction=reduction, **parameters)

    @property
    def _native_kernel(self) -> str:  # type: ignore[override]
        reduction: str = self.params.reduction
        return reduction

    def _native_parameters(self, dtype: np.dtype[Any]) -> dict[str, Any]:
        given = {name: value for name, value in self._kwargs.items() if name != "reduction"}
        return {
            name: _dtype_name(value) if self._kinds[name] == "dtype" else value
            for name, value in given.items()
        }

    def _parameter_names(self) -> Iterable[str]:
        return "reduction", *self._kinds

    def _doubts(self, dataset: DataSet) -> list[str]:
        parameters = self._native_parameters(dataset.dtype)
        return _engine.doubts(self._native_kernel, parameters, tuple(dataset.shape.sig))

    def get_preferred_input_dtype(self) -> npt.DTypeLike:
        """The dtype of the data."""
        return self.USE_NATIVE_DTYPE

    def get_method(self) -> UDFMethod | str:
        """Only classes that derive from this one get here.

        Raises
        ------
        UnsupportedError
            If nothing processes the data.
        """
        if not any(hasattr(self, name) for name in PROCESS_METHODS.values()):
            raise UnsupportedError(
                f"{type(self).__name__} overrides part of a reduction that runs in the engine "
                f"alone; derive from UDF, or from a class of its own if the reduction has one"
            )
        return super().get_method()

    def get_result_buffers(self) -> dict[str, BufferDeclaration]:
        """What the reduction declares."""
        meta, name = self.meta, type(self).__name__
        nav, sig = tuple(meta.dataset_shape.nav), tuple(meta.dataset_shape.sig)
        dtype = np.dtype(meta.dataset_dtype)
        roi = None if meta.roi is None else np.ascontiguousarray(meta.roi, dtype=bool).reshape(-1)
        kernel = _engine.NativeUdf(self._native_kernel, name, self._native_parameters(dtype), sig)
        return {
            name: self.buffer(
                kind=kind,
                extra_shape=tuple(extra),
                dtype=of,
                use=use,
                vector=self._native_vectors and tuple(extra) == (2,),
            )
            for name, kind, extra, of, use in kernel.buffers(nav, sig, dtype.name, roi)
        }


def _dtype_name(dtype: Any) -> Any:
    return dtype if dtype is None else as_dtype("dtype of the reduction", dtype).name
