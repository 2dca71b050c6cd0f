"""framefold runs user-defined functions over huge stacks of detector frames.

The common names sit at the top level; everything else is where the reference
system has it, with ``libertem`` read as ``framefold``::

    import framefold as ff

    ctx = ff.Context()
    dataset = ctx.open("scan.mib")
    result = ctx.run_udf(dataset=dataset, udf=ff.SumUDF())
"""

from typing import TYPE_CHECKING, Any

from framefold._engine import __version__
from framefold.common import _daemon_threads as _daemon_threads
from framefold.compat.submodules import submodule

if TYPE_CHECKING:
    from framefold._viewer.viewing import view
    from framefold.api import Context
    from framefold.checking import check_udf
    from framefold.compat.as_libertem import install_as_libertem
    from framefold.compilation.marks import compiled
    from framefold.io.dataset._own import register_format
    from framefold.io.stages import (
        Bin,
        Cast,
        Count,
        Crop,
        Flip,
        Gaussian,
        Log,
        Median,
        Pad,
        Rebin,
        Rotate,
        Shift,
        Threshold,
        Transpose,
    )
    from framefold.udf.auto import AutoUDF
    from framefold.udf.base import UDF
    from framefold.udf.com import CoMUDF
    from framefold.udf.logsum import LogsumUDF
    from framefold.udf.masks import ApplyMasksUDF
    from framefold.udf.max import MaxUDF
    from framefold.udf.native import NativeUDF
    from framefold.udf.raw import PickUDF
    from framefold.udf.reduction import ReductionUDF
    from framefold.udf.references import from_result
    from framefold.udf.stddev import StdDevUDF
    from framefold.udf.sum import SumUDF
    from framefold.udf.sumsigudf import SumSigUDF
    from framefold.udf.transform import Transform
    from framefold.utils.descan import fit_origin
    from framefold.utils.example import example_files, example_scan

__all__ = [
    "UDF",
    "ApplyMasksUDF",
    "AutoUDF",
    "Bin",
    "Cast",
    "CoMUDF",
    "Context",
    "Count",
    "Crop",
    "Flip",
    "Gaussian",
    "Log",
    "LogsumUDF",
    "MaxUDF",
    "Median",
    "NativeUDF",
    "Pad",
    "PickUDF",
    "Rebin",
    "ReductionUDF",
    "Rotate",
    "Shift",
    "StdDevUDF",
    "SumSigUDF",
    "SumUDF",
    "Threshold",
    "Transform",
    "Transpose",
    "__version__",
    "check_udf",
    "compiled",
    "example_files",
    "example_scan",
    "fit_origin",
    "from_result",
    "install_as_libertem",
    "register_format",
    "view",
]


#: What not every program needs, and the module it is imported from when it is asked for.
_LAZY = {
    "UDF": "framefold.udf.base",
    "Context": "framefold.api",
    "ApplyMasksUDF": "framefold.udf.masks",
    "AutoUDF": "framefold.udf.auto",
    "CoMUDF": "framefold.udf.com",
    "LogsumUDF": "framefold.udf.logsum",
    "MaxUDF": "framefold.udf.max",
    "NativeUDF": "framefold.udf.native",
    "PickUDF": "framefold.udf.raw",
    "ReductionUDF": "framefold.udf.reduction",
    "StdDevUDF": "framefold.udf.stddev",
    "SumSigUDF": "framefold.udf.sumsigudf",
    "SumUDF": "framefold.udf.sum",
    "Transform": "framefold.udf.transform",
    "Bin": "framefold.io.stages",
    "Cast": "framefold.io.stages",
    "Count": "framefold.io.stages",
    "Crop": "framefold.io.stages",
    "Flip": "framefold.io.stages",
    "Gaussian": "framefold.io.stages",
    "Log": "framefold.io.stages",
    "Median": "framefold.io.stages",
    "Pad": "framefold.io.stages",
    "Rebin": "framefold.io.stages",
    "Rotate": "framefold.io.stages",
    "Shift": "framefold.io.stages",
    "Threshold": "framefold.io.stages",
    "Transpose": "framefold.io.stages",
    "check_udf": "framefold.checking",
    "compiled": "framefold.compilation.marks",
    "example_files": "framefold.utils.example",
    "example_scan": "framefold.utils.example",
    "from_result": "framefold.udf.references",
    "fit_origin": "framefold.utils.descan",
    "install_as_libertem": "framefold.compat.as_libertem",
    "register_format": "framefold.io.dataset._own",
    "view": "framefold._viewer.viewing",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for, once; start-up stays short."""
    if name not in _LAZY:
        if name in ("open", "load", "run_udf", "map"):
            raise AttributeError(
                f"module {__name__!r} has no attribute {name!r}; it is a method of Context: "
                f"framefold.Context().{name}(…)"
            )
        return submodule(__name__, name)
    from importlib import import_module

    value = globals()[name] = getattr(import_module(_LAZY[name]), name)
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
