"""The results of a run that has not begun."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold.common.buffers import BufferWrapper

if TYPE_CHECKING:
    from framefold import _engine
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
    plan, mask = plan_run(dataset, [udf], roi)
    with np.errstate(all="ignore"):  # means of nothing, ratios of zeros
        (buffers,), valid = plan.results().snapshot()
    flat_roi = None if mask is None else mask.reshape(-1)
    results = {
        name: BufferWrapper(
            kind,
            extra_shape,
            array.dtype,
            raw=array,
            dataset_shape=dataset.shape,
            roi=flat_roi,
            valid=valid,
        )
        for name, kind, extra_shape, array in buffers
    }
    damage = BufferWrapper(
        "nav", (), bool, raw=np.zeros_like(valid), dataset_shape=dataset.shape, roi=flat_roi
    )
    return results, damage


def plan_run(
    dataset: DataSet, udfs: list[UDF], roi: Any
) -> tuple[_engine.Plan, npt.NDArray[np.bool_] | None]:
    """The engine's plan of a run, and its ROI as a boolean array of shape ``nav``."""
    from framefold.api import Context

    return Context()._plan(dataset, udfs, roi)
