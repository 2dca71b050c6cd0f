"""What to pass to a run where something is no UDF."""

from __future__ import annotations

from typing import Any

from framefold.io.dataset.base import DataSet


def instead_of(other: Any) -> str:
    """The end of a message that says that something is no UDF."""
    if isinstance(other, type):
        return "; pass an instance, not the class"
    if isinstance(other, str):
        return f"; ReductionUDF({other!r}) is the reduction of a name"
    if isinstance(other, DataSet):
        return "; the data set comes first, as in run_udf(dataset, udf)"
    if callable(other):
        return "; map(dataset, function) applies a function to each frame"
    if any(base.__module__.partition(".")[0] == "libertem" for base in type(other).__mro__):
        return (
            ", but LiberTEM's; call framefold.install_as_libertem() before anything imports "
            "libertem, and it is one"
        )
    return "; classes of functions derive from framefold.UDF"
