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
from framefold.api import Context
from framefold.udf import UDF, AutoUDF
from framefold.udf.com import CoMUDF
from framefold.udf.logsum import LogsumUDF
from framefold.udf.masks import ApplyMasksUDF
from framefold.udf.max import MaxUDF
from framefold.udf.raw import PickUDF
from framefold.udf.stddev import StdDevUDF
from framefold.udf.sum import SumUDF
from framefold.udf.sumsigudf import SumSigUDF

if TYPE_CHECKING:
    from framefold._as_libertem import install_as_libertem

__all__ = [
    "UDF",
    "ApplyMasksUDF",
    "AutoUDF",
    "CoMUDF",
    "Context",
    "LogsumUDF",
    "MaxUDF",
    "PickUDF",
    "StdDevUDF",
    "SumSigUDF",
    "SumUDF",
    "__version__",
    "install_as_libertem",
]


def __getattr__(name: str) -> Any:
    """Import what few programs need, and only when it is asked for: start-up stays short."""
    if name == "install_as_libertem":
        from framefold._as_libertem import install_as_libertem

        return install_as_libertem
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
