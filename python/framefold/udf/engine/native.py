"""Which UDFs can run on a native kernel, and how its parameters are found."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold.common.buffers import AuxBufferWrapper, BufferDeclaration
from framefold.exceptions import UnsupportedError
from framefold.udf.base import PROCESS_METHODS, UDF
from framefold.udf.data import RESULTS, UDFData
from framefold.udf.meta import UDFMeta

if TYPE_CHECKING:
    from framefold.io.dataset.base import DataSet

#: Name, kind, extra shape and values of each result of one UDF.
Results = list[Any]


def native_udf(
    udf: UDF, dataset: DataSet, *, only_declares: bool = False
) -> _engine.NativeUdf | None:
    """The native kernel for ``udf``, or None if it is to run in Python.

    A subclass of a built-in UDF that overrides nothing of it still runs natively. Functions that
    others compiled always do.

    ``only_declares``: the kernel will say which results it has, and process no frame.

    Raises
    ------
    UnsupportedError
        If a method is set on the object, which no kernel calls.
    """
    plugin = udf._plugin
    if plugin is not None:
        _refuse_own_methods(udf)
        return _engine.NativeUdf.of_plugin(plugin)
    kernel = udf._native_kernel
    if kernel is None or _overrides(udf):
        return None
    declaration, parameters = udf._native_declaration, udf._native_parameters
    given = (declaration if only_declares else parameters)(dataset.dtype)
    if given is None:
        return None
    _refuse_own_methods(udf)
    if udf._native_finish:
        _main_side(udf, dataset, None, None)
    return _engine.NativeUdf(kernel, type(udf).__name__, given, tuple(dataset.shape.sig))


def kernel_aux(udf: UDF, bridge: object) -> dict[str, tuple[str, npt.NDArray[Any]]]:
    """Kind and values of AUX data as they are now, of a UDF whose work a kernel does.

    The kernel has a copy itself; this one is for other processes.
    """
    given = {} if bridge is not None else udf._kwargs
    aux = {name: each for name, each in given.items() if isinstance(each, AuxBufferWrapper)}
    return {name: (each.kind, each.data.copy()) for name, each in aux.items()}


def _refuse_own_methods(udf: UDF) -> None:
    processing = PROCESS_METHODS.values()
    for name in vars(udf):
        if name in processing or callable(getattr(UDF, name, None)):
            cls = type(udf).__name__
            raise UnsupportedError(
                f"{cls}.{name} is set on the object, but compiled code does the work of {cls} and "
                f"does not call it; derive a class that has it"
            )


def finish_native(
    udf: UDF,
    dataset: DataSet,
    roi: npt.NDArray[np.bool_] | None,
    results: Results,
    valid: npt.NDArray[np.bool_],
) -> Results:
    """The results of ``udf``, of which a native kernel computed the merged buffers.

    UDFs with ``_native_finish`` compute the rest in their own ``get_results``, which is the
    same for native and Python runs. Others are finished by the kernel, and all those that run
    in Python by the engine: for these nothing changes.

    Parameters
    ----------
    udf, dataset, roi
        As they were planned; ``roi`` has the shape of the navigation axes.
    results
        What the engine gave for this UDF.
    valid
        Whether each selected frame is merged.
    """
    from framefold.udf.engine.results import final_results

    if udf._plugin is not None:
        return _finish_plugin(udf, dataset, roi, results, valid)
    if not udf._native_finish or udf._native_kernel is None or _overrides(udf):
        return results
    udf, buffers = _main_side(udf, dataset, roi, valid)
    native = {name: np.asarray(array) for name, _, _, array in results if name in buffers}
    # As the kernel computes them: a deviation may fit a dtype that its square does not.
    udf.results = UDFData(RESULTS, native)
    public = {name: decl for name, decl in buffers.items() if decl.use != "private"}
    shape = dataset.shape
    computed = udf.get_results()
    with np.errstate(over="ignore"):  # what a narrow dtype cannot hold is infinite there
        merged = {
            name: array.astype(buffers[name].dtype, copy=False) for name, array in native.items()
        }
        name, n_selected = type(udf).__name__, len(valid)
        arrays = final_results(name, buffers, merged, computed, shape, n_selected, roi)
    return [
        (name, decl.kind, decl.extra_shape, array)
        for (name, decl), array in zip(public.items(), arrays, strict=True)
    ]


def finishes_in_python(udf: UDF) -> bool:
    """Whether results that a kernel or a compiled function merged are not those that users get."""
    if udf._plugin is not None:
        return udf._computes_results
    return udf._native_finish


def _finish_plugin(
    udf: UDF,
    dataset: DataSet,
    roi: npt.NDArray[np.bool_] | None,
    results: Results,
    valid: npt.NDArray[np.bool_],
) -> Results:
    """The results of a function that others compiled, with what its class in Python adds."""
    from framefold.udf.engine.results import final_results

    if not udf._computes_results:
        return results
    udf = _with_meta(udf, dataset, roi, valid)
    merged = {name: np.asarray(array) for name, _, _, array in results}
    buffers = {
        name: udf.buffer(kind, extra_shape, merged[name].dtype)
        for name, kind, extra_shape, _ in results
    }
    udf.results = UDFData(RESULTS, merged)
    computed = udf.get_results()
    name, n_selected = type(udf).__name__, len(valid)
    arrays = final_results(name, buffers, merged, computed, dataset.shape, n_selected, roi)
    return [
        (name, decl.kind, decl.extra_shape, array)
        for (name, decl), array in zip(buffers.items(), arrays, strict=True)
    ]


def leave_behind(
    udf: UDF,
    dataset: DataSet,
    roi: npt.NDArray[np.bool_] | None,
    results: Results,
    valid: npt.NDArray[np.bool_],
) -> None:
    """Let the user's object know the run and its results, as after one in Python.

    Parameters
    ----------
    udf, dataset, roi, valid
        As for :func:`finish_native`.
    results
        What that gave.
    """
    from framefold.udf.engine.main_side import enter
    from framefold.udf.engine.results import apart

    known = partial(
        UDFMeta,
        dataset_shape=dataset.shape,
        dataset_dtype=dataset.dtype,
        roi=roi,
        merged=valid,
    )
    udf.meta = known(input_dtype=dataset.dtype)  # its preference may depend on it
    meta = known(input_dtype=np.result_type(udf.get_preferred_input_dtype(), dataset.dtype))
    arrays = {name: apart(result)[0] for name, _, _, result in results}
    enter(udf, params=udf._kwargs, meta=meta, results=UDFData(RESULTS, arrays))


def declared_by(
    udf: UDF, dataset: DataSet, roi: npt.NDArray[np.bool_] | None
) -> dict[str, BufferDeclaration]:
    """The buffers that a UDF with ``_native_finish`` declares."""
    return _main_side(udf, dataset, roi, None)[1]


def _with_meta(
    udf: UDF,
    dataset: DataSet,
    roi: npt.NDArray[np.bool_] | None,
    valid: npt.NDArray[np.bool_] | None,
) -> UDF:
    """A clean copy that knows the run."""
    udf = udf.copy()
    udf.meta = UDFMeta(
        dataset_shape=dataset.shape,
        dataset_dtype=dataset.dtype,
        input_dtype=dataset.dtype,
        roi=roi,
        merged=valid,
    )
    return udf


def _main_side(
    udf: UDF,
    dataset: DataSet,
    roi: npt.NDArray[np.bool_] | None,
    valid: npt.NDArray[np.bool_] | None,
) -> tuple[UDF, dict[str, BufferDeclaration]]:
    """A clean copy that knows the run, and its buffers; raises what they raise."""
    from framefold.udf.engine.declarations import declared_buffers

    udf = _with_meta(udf, dataset, roi, valid)
    return udf, declared_buffers(udf)


def _overrides(udf: UDF) -> bool:
    """Whether anything that the built-in class has is overridden, helpers included.

    A method that a subclass overrides has to be called.
    """
    mro = type(udf).__mro__
    builtin = next(cls for cls in mro if "_native_kernel" in vars(cls))
    derived = mro[: mro.index(builtin)]
    names = {name for cls in derived for name in vars(cls)}
    # Also one that the built-in class has not, as it would come before those that it has.
    processing = PROCESS_METHODS.values()
    if any(getattr(type(udf), n, None) is not getattr(builtin, n, None) for n in processing):
        return True
    return any(
        hasattr(builtin, name)
        for name in names
        if not name.startswith("__") or name in ("__init__", "__new__")
    )
