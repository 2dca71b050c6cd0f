"""A Python UDF at work on one partition, as the engine calls it on a worker thread."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold._engine import TileCursor
from framefold.common.shape import Shape
from framefold.common.udf import NUMPY_MATRIX
from framefold.udf.base import PROCESS_METHODS
from framefold.udf.data import UDFData, values_of
from framefold.udf.engine.declarations import (
    Buffers,
    checked_task_data,
    declared_as_planned,
    processing_method,
)
from framefold.udf.engine.memory import Arrays, allocate, views
from framefold.udf.engine.returned import RETURNED, is_lost

if TYPE_CHECKING:
    from collections.abc import Callable

    from framefold.arrays.cuda.partition import DevicePartition
    from framefold.arrays.sparse_tiles import Give
    from framefold.udf.engine.bridge import RunDescription

#: Where a view is shown, its name, the whole array, its kind, whether it can be written to, and
#: whether user code has the whole array.
Binding = tuple[dict[str, Any], str, npt.NDArray[Any], str, bool, bool]


class PartitionTask:
    """A clean copy of the UDF at work on one partition."""

    def __init__(self, run: RunDescription, index: int, start: int, stop: int) -> None:
        bridge = self.bridge = run.bridge
        self.cursor = TileCursor(start, stop)
        self.device = _device_partition(run, start)
        format_ = bridge.array_backend
        if self.device is not None:
            format_ = self.device.array_backend
        # First it is known to be under way: what changes from now on holds for others.
        bridge.handed_out.mark(stop)
        version = bridge.versions.at(start)
        aux = bridge.aux_for(start, stop, version.aux)
        on_device = self.device is not None
        self.meta = run.meta(format_, start, stop, on_device=on_device)
        self.udf = bridge.copy_with(self.meta, aux, version.udf)
        self.buffers = declared_as_planned(self.udf, bridge.declared, "for a partition")
        if self.device is None:
            self.arrays = allocate(self.buffers, bridge.shape, stop - start)
        else:
            self.arrays = self.device.allocate(self.buffers, stop - start)
        role = bridge.result_role
        if self.buffers is not bridge.declared:
            role = role._replace(declared=self.buffers)
        self.udf.results = UDFData(role, self.arrays)
        n_references = {name: sys.getrefcount(array) for name, array in self.arrays.items()}
        self.udf.task_data = UDFData(bridge.task_data_role, checked_task_data(self.udf))
        self.udf.preprocess()
        results, params = values_of(self.udf, "results"), values_of(self.udf, "params")
        # User code that kept a whole buffer may write to it at any time.
        held = {
            name
            for name, array in self.arrays.items()
            if sys.getrefcount(array) > n_references[name]
        }
        if self.device is not None:
            self.device.held = held
        self.method = processing_method(self.udf, bridge.method)
        process = getattr(self.udf, PROCESS_METHODS[self.method])
        frames = self.method == "frame"
        if format_ == NUMPY_MATRIX:
            process = _as_matrices(process, frames)
        self.process = process
        #: What makes tiles of the engine's; None for dense tiles as they are.
        self.give: Give | Callable[..., Any] | None = None
        #: The same of tiles in the staging memory of a worker with a device.
        self.give_staged: Callable[..., Any] | None = None
        if self.device is not None:
            self.give, self.give_staged = self.device.giver(results, frames, run.slice_shapes)
        elif bridge.tiles is not None:
            bridge.tiles.clear()
            self.give = bridge.tiles.giver(format_, frames, run.slice_shapes)
        self.partition = (start, stop)
        self.bindings: list[Binding] = [
            (
                results,
                sys.intern(name),
                array,
                self.buffers[name].kind,
                True,
                name in held,
            )
            for name, array in self.arrays.items()
            if self.device is None or not self.device.is_moved(name)
        ]
        for name, view in aux.items():
            kind, _ = version.aux[name]
            self.bindings.append((params, sys.intern(name), view, kind, False, False))
        self.aux = aux
        #: The type of what the function returned, if that is lost.
        self.returned = ""
        self.meta._cursor = self.cursor  # from now on, the engine moves it from tile to tile

    def note_returned(self, returned: Any) -> None:
        """Know what the function returned first, where that is something."""
        if is_lost(returned, values_of(self.udf, "results").values()):
            self.returned = type(returned).__name__

    def finish(self) -> tuple[Arrays, int]:
        """Post-process; returns the partial result and its size in bytes."""
        self.meta._cursor = None
        # User code may have set the shape of what it was shown.
        self.arrays = _in_shape(self.buffers, self.arrays, self.bridge.shape, self.partition)
        values_of(self.udf, "results").update(views(self.arrays))
        values_of(self.udf, "params").update(self.aux)
        if self.device is not None:
            self.device.end()
        elif self.bridge.tiles is not None:
            self.bridge.tiles.clear()
        self.udf.postprocess()
        values_of(self.udf, "results")
        arrays = self.arrays if self.device is None else self.device.export(self.arrays)
        self.udf.cleanup()
        if self.device is not None:
            self.device.check_kept()
        n_bytes = sum([array.nbytes for array in arrays.values()])
        if self.returned:
            arrays = {**arrays, RETURNED: np.asarray(self.returned)}
        return arrays, n_bytes


def _device_partition(run: RunDescription, start: int) -> DevicePartition | None:
    """What a partition does differently, if this thread is a worker with a CUDA device."""
    gets = run.bridge.on_device
    if gets is None:
        return None
    from framefold.arrays.cuda.partition import DevicePartition
    from framefold.arrays.cuda.worker import current_worker

    return None if current_worker() is None else DevicePartition(run, gets, start)


def _in_shape(buffers: Buffers, arrays: Arrays, shape: Shape, partition: tuple[int, int]) -> Arrays:
    """The arrays in the shape that they were made in."""
    start, stop = partition
    return {
        name: array.reshape(buffers[name].flat_shape(shape, stop - start))
        for name, array in arrays.items()
    }


def _as_matrices(process: Callable[[Any], Any], one_frame: bool) -> Callable[[Any], Any]:
    """``process``, which then gets a ``numpy.matrix`` of one row per frame."""

    def process_rows(array: npt.NDArray[Any]) -> Any:
        n_frames = 1 if one_frame else len(array)
        return process(array.reshape((n_frames, -1)).view(np.matrix))

    return process_rows
