"""What a run would return, found out without reading data."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from framefold.common._roi import roi_mask
from framefold.common.buffers import About, BufferWrapper
from framefold.exceptions import UnsupportedError
from framefold.io.dataset.base import DataSet
from framefold.run.plan import plan_run
from framefold.run.results import UDFResults
from framefold.udf.base import UDF
from framefold.udf.engine.bridge import Bridge
from framefold.udf.engine.declarations import declared_buffers, preferred_dtype
from framefold.udf.references import refuse_references


class UDFRunner:
    """Looks at UDFs as a run would."""

    def __init__(self, *_: Any, **__: Any) -> None:
        raise UnsupportedError(
            "framefold has no UDFRunner(…).run_for_dataset(…): runs are made by "
            "Context.run_udf(dataset=…, udf=…), and those in steps by Context.run_udf_iter"
        )

    @staticmethod
    def inspect_udf(udf: UDF, dataset: DataSet, roi: Any = None) -> dict[str, BufferWrapper]:
        """The declared buffers of ``udf``, private ones included, without data.

        Parameters
        ----------
        udf, dataset, roi
            As for :meth:`framefold.Context.run_udf`.

        Returns
        -------
        dict
            Buffer name to :class:`~framefold.common.buffers.BufferWrapper` with ``kind``,
            ``dtype``, ``extra_shape``, ``use`` and ``shape``.
        """
        refuse_references([udf])
        mask = roi_mask(roi, tuple(dataset.shape.nav))
        bridge = Bridge(udf, dataset.shape, dataset.dtype, mask)
        aux = bridge.aux_for(0, bridge.n_selected)
        preferred = np.dtype(preferred_dtype(bridge.copy_with(bridge.meta(), aux)))
        bridge.input_dtype = np.result_type(preferred, dataset.dtype)
        buffers = declared_buffers(bridge.copy_with(bridge.meta(), aux))
        return {
            name: BufferWrapper(
                decl.kind,
                decl.extra_shape,
                decl.dtype,
                decl.where,
                decl.use,
                dataset_shape=dataset.shape,
                roi=None if mask is None else mask.reshape(-1),
                about=About(udf._shown_name, name, decl.unit, decl.vector, dataset.axes),
            )
            for name, decl in buffers.items()
        }

    @staticmethod
    def dry_run(udfs: UDF | Iterable[UDF], dataset: DataSet, roi: Any = None) -> UDFResults:
        """The results before any partition is merged.

        Parameters
        ----------
        udfs, dataset, roi
            As for :meth:`framefold.Context.run_udf`.

        Returns
        -------
        UDFResults
            ``preprocess`` and ``get_results`` have run; no element of kind ``nav`` is valid.
        """
        run = plan_run(dataset, udfs, roi, 0)
        try:
            lists, valid = run.plan.results().snapshot()
            return UDFResults(run.wrap(lists, valid), run.damage(valid))
        finally:
            run.end(complete=False)
