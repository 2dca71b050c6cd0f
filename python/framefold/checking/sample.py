"""A part of a data set in memory, and the ways to run a UDF over it."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from dataclasses import dataclass
from math import prod
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.api import Context
from framefold.common.buffers import AuxBufferWrapper
from framefold.exceptions import InvalidArgumentError
from framefold.executor.make import ExecutorName
from framefold.io.dataset.base import DataSet
from framefold.io.dataset.memory import MemoryDataSet
from framefold.udf.base import UDF
from framefold.udf.data import PARAMETERS, UDFData
from framefold.udf.engine.native import native_udf
from framefold.udf.meta import UDFMeta

#: The most that a sample takes of memory, unless two frames take more.
SAMPLE_BYTES = 256 << 20


@dataclass(frozen=True)
class Result:
    """A result of one run."""

    kind: str
    array: npt.NDArray[Any]


Results = Mapping[str, Result]


class Sample:
    """Runs a UDF over the first positions of a scan, cut in one way or another.

    Parameters
    ----------
    udf, dataset
        As for :func:`framefold.check_udf`.
    n_frames
        About how many frames: a block at the beginning of each axis of the scan.
    """

    def __init__(self, udf: UDF, dataset: DataSet, n_frames: int) -> None:
        nav, sig = tuple(dataset.shape.nav), tuple(dataset.shape.sig)
        frame_bytes = max(1, prod(sig) * np.dtype(dataset.dtype).itemsize)
        block = _block(nav, max(2, min(n_frames, SAMPLE_BYTES // frame_bytes)))
        if prod(block) < 2:
            raise InvalidArgumentError(
                f"a check needs two frames at least, and this scan has shape {nav}"
            )
        index = tuple(slice(0, length) for length in block)
        self.data = np.asarray(dataset[index])
        self.nav, self.sig, self.n_frames = block, sig, prod(block)
        self.udf = _cut_to(udf, index, nav)
        #: Whether the engine computes the results.
        self.is_native = native_udf(udf, dataset) is not None
        self.runs = 0
        self._meta: UDFMeta | None = None
        self._contexts: dict[ExecutorName, Context] = {}

    def run(
        self,
        data: npt.NDArray[Any] | None = None,
        *,
        udf: UDF | None = None,
        partitions: int = 1,
        tile: tuple[int, ...] | None = None,
        roi: npt.NDArray[np.bool_] | None = None,
        executor: ExecutorName = "inline",
    ) -> Results:
        """The results of one run.

        Parameters
        ----------
        data
            Others than those of the sample, of the same shape.
        udf
            Another than that of the sample.
        partitions, tile
            How many partitions, and the shape of tiles: frames, then signal axes. All frames in
            one by default.
        roi, executor
            As for :meth:`framefold.Context.run_udf` and :meth:`framefold.Context.make_with`.
        """
        dataset = MemoryDataSet(
            self.data if data is None else data,
            sig_dims=len(self.sig),
            num_partitions=partitions,
            tileshape=tile or (self.n_frames, *self.sig),
        )
        # The object that was passed stays as it is.
        own = copy.copy(self.udf if udf is None else udf)
        self.runs += 1
        try:
            found = self._context(executor).run_udf(dataset=dataset, udf=own, roi=roi)
        finally:
            self._meta = vars(own).get("meta")
        return {
            name: Result(buffer.kind, np.array(buffer.raw_data)) for name, buffer in found.items()
        }

    def planned(self) -> UDF:
        """The UDF as the latest run had it: what processes the data may depend on ``meta``."""
        own = copy.copy(self.udf)
        if self._meta is not None:
            own.meta = self._meta
        return own

    def _context(self, executor: ExecutorName) -> Context:
        if executor not in self._contexts:
            cpus = None if executor == "inline" else 2
            self._contexts[executor] = Context.make_with(executor, cpus=cpus)
        return self._contexts[executor]

    def close(self) -> None:
        """End workers."""
        for context in self._contexts.values():
            context.close()

    def __str__(self) -> str:
        return f"{self.n_frames} frames of {self.sig}, {self.data.dtype}"


def _block(nav: tuple[int, ...], n_frames: int) -> tuple[int, ...]:
    """About so many positions at the beginning of a scan, on all its axes."""
    block: list[int] = []
    for i, length in enumerate(nav):
        left = n_frames // max(1, prod(block))
        block.append(max(1, min(length, round(left ** (1 / (len(nav) - i))))))
    return tuple(block)


def _cut_to(udf: UDF, index: tuple[slice, ...], nav: tuple[int, ...]) -> UDF:
    """The UDF with AUX data for a part of the scan."""
    kwargs = dict(udf._kwargs)
    for name, value in kwargs.items():
        if isinstance(value, AuxBufferWrapper) and value.kind == "nav":
            data = value.data.reshape((*nav, *value.extra_shape))[index]
            kwargs[name] = AuxBufferWrapper("nav", value.extra_shape, value.dtype, data=data)
    own = copy.copy(udf)
    own._kwargs = kwargs
    own.params = UDFData(PARAMETERS, kwargs)
    return own
