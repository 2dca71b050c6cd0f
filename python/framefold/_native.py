"""Which UDFs can run on a native kernel, and how its parameters are found."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from framefold import _engine
from framefold.udf.base import UDF

if TYPE_CHECKING:
    from framefold.io.dataset.base import DataSet

#: Whoever overrides one of these in a subclass wants them called.
HOOKS = frozenset(
    {
        "__init__",
        "cleanup",
        "copy",
        "get_backends",
        "get_method",
        "get_preferred_input_dtype",
        "get_result_buffers",
        "get_results",
        "get_task_data",
        "get_tiling_preferences",
        "merge",
        "postprocess",
        "preprocess",
        "process_frame",
        "process_partition",
        "process_tile",
    }
)


def native_udf(udf: UDF, dataset: DataSet) -> _engine.NativeUdf | None:
    """The native kernel for ``udf``, or None if it is to run in Python.

    A subclass of a built-in UDF that overrides nothing of the interface still runs natively.
    """
    kernel = udf._native_kernel
    if kernel is None or _overrides(udf):
        return None
    return _engine.NativeUdf(kernel, type(udf).__name__, _parameters(kernel, udf, dataset))


def _overrides(udf: UDF) -> bool:
    """Whether a class more derived than the built-in one overrides a hook."""
    for cls in type(udf).__mro__:
        if "_native_kernel" in vars(cls):
            break
        if HOOKS & vars(cls).keys():
            return True
    return bool(HOOKS & vars(udf).keys())


def _parameters(kernel: str, udf: UDF, dataset: DataSet) -> dict[str, Any]:
    if kernel in ("sum", "stddev"):
        return {"dtype": np.dtype(udf.params.dtype).name}
    if kernel == "masks":
        return {"masks": udf.mask_stack()}  # type: ignore[attr-defined]
    if kernel == "com":
        parameters: dict[str, Any] = udf.params.com_params._asdict()
        return parameters
    return {}
