"""The results of a run that has not begun."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from framefold.run.plan import plan_run

if TYPE_CHECKING:
    from framefold.common.buffers import BufferWrapper
    from framefold.io.dataset.base import DataSet
    from framefold.udf.base import UDF


def empty_results(
    dataset: DataSet, udf: UDF, roi: Any = None
) -> tuple[dict[str, BufferWrapper], BufferWrapper]:
    """Plan a run and give its results before the first partition; reads no pixel.

    Parameters
    ----------
    dataset, udf, roi
        As for :meth:`framefold.Context.run_udf`.

    Returns
    -------
    buffers : dict
        Name to :class:`~framefold.common.buffers.BufferWrapper`, after ``preprocess`` and
        ``get_results`` of the merged result.
    damage : BufferWrapper
        False everywhere; kind ``nav``, dtype bool.
    """
    run = plan_run(dataset, udf, roi, threads=0)
    try:
        with np.errstate(all="ignore"):  # means of nothing, ratios of zeros
            lists, valid = run.plan.results().snapshot()
            (buffers,) = run.wrap(lists, valid)
    finally:
        run.end(complete=False)
    return buffers, run.damage(valid)
