"""framefold and LiberTEM: their interface is the same, and so is the code that runs here.

``package`` is ``framefold`` or ``libertem``, and decides where names are imported from.
"""

from __future__ import annotations

import importlib
import platform
from collections.abc import Callable
from typing import Any

import numpy as np
from format_data import load_options
from work import (
    COUNTED_ABOVE,
    DERIVED,
    Array,
    Output,
    UnsupportedError,
    beam_shifts,
    binned,
    counted,
    dense_masks,
    disk_masks,
    glance,
    scattered_roi,
)

#: Class, module, and the buffer to look at.
BUILT_IN = {
    "sum": ("SumUDF", "sum", "intensity"),
    "sumsig": ("SumSigUDF", "sumsigudf", "intensity"),
    "max": ("MaxUDF", "max", "intensity"),
    "stddev": ("StdDevUDF", "stddev", "std"),
    "com": ("CoMUDF", "com", "raw_com"),
    "logsum": ("LogsumUDF", "logsum", "logsum"),
}

#: Of the file ``loops.py``, which needs Numba.
LOOPS = ("frame-brightest", "frame-largest", "frame-add")


class Engine:
    """One package with one executor."""

    def __init__(self, package: str, executor: str | None) -> None:
        self.package = package
        self.api = importlib.import_module(f"{package}.api")
        self.udf = importlib.import_module(f"{package}.udf")
        self.executor = executor
        self.context = self.make_context(None)

    def make_context(self, cpus: int | None) -> Any:
        """Make a context; without an executor it is the package's own choice."""
        if self.executor is None:
            return self.api.Context()
        options = {} if cpus is None else {"cpus": cpus}
        return self.api.Context.make_with(self.executor, **options)

    def versions(self) -> dict[str, str]:
        """Say what runs."""
        package = importlib.import_module(self.package)
        versions = {"python": platform.python_version(), "numpy": np.__version__}
        return versions | {self.package: package.__version__}

    def prepare(self, data: dict[str, Any], task: str, params: dict[str, Any]) -> Any:
        """Make a function of no arguments that does the work and gives the answer."""
        make_udf, buffer = self.task(data, task, params)
        roi = None
        if "roi" in params:
            roi = scattered_roi(tuple(data["nav"]), params["roi"])
        context = self.context
        if "cpus" in params and self.executor == "threads":
            context = self.make_context(params["cpus"])

        def run(dataset: Any) -> Array:
            return np.asarray(context.run_udf(dataset=dataset, udf=make_udf(), roi=roi)[buffer])

        if params.get("fresh"):
            return lambda: run(self.load(context, data))
        dataset = self.load(context, data)
        if self.package == "framefold" and task in DERIVED:
            middle = ",".join(f"{n // 4}:{-(n // 4)}" for n in data["sig"])
            stages = {"binned-max": "bin 2", "counted-sum": f"count {COUNTED_ABOVE}"}
            dataset = dataset.pipe(stages.get(task, f"crop {middle}"))
        if task == "to-zarr":
            output = Output(data, "results")

            def written() -> Array:
                results = context.run_udf(dataset=dataset, udf=make_udf(), out=output.fresh())
                return glance(results[buffer].data)

            return written
        return lambda: run(dataset)

    def load(self, context: Any, data: dict[str, Any]) -> Any:
        """Open the file."""
        if data["kind"] is not None:
            return context.load(data["format"], path=data["path"], **load_options(data))
        options = {"path": data["path"], "nav_shape": tuple(data["nav"])}
        if data["format"] == "raw":
            options |= {"dtype": data["dtype"], "sig_shape": tuple(data["sig"])}
        return context.load(data["format"], **options)

    def tile_shape(self, data: dict[str, Any]) -> tuple[int, ...]:
        """The shape of most tiles that a function of the user's gets."""
        shapes: list[tuple[int, ...]] = []
        base = python_udf(self.udf.UDF, "tile-sum", {})

        class Look(base):  # type: ignore[misc,valid-type]
            def process_tile(self, tile: Any) -> None:
                shapes.append(tile.shape)

        self.context.run_udf(dataset=self.load(self.context, data), udf=Look())
        return max(set(shapes), key=shapes.count)

    def task(
        self, data: dict[str, Any], task: str, params: dict[str, Any]
    ) -> tuple[Callable[[], Any], str]:
        """Find what makes the UDF of a task, and its buffer."""
        sig = tuple(data["sig"])
        if self.package == "framefold":
            task = task.split("-")[1] if task in DERIVED else task
        if task in BUILT_IN:
            name, module, buffer = BUILT_IN[task]
            try:
                found = getattr(importlib.import_module(f"{self.package}.udf.{module}"), name)
            except ModuleNotFoundError:
                return python_udf(self.udf.UDF, task, params), "result"
            return found, buffer
        if task in ("masks", "disks", "shifted-masks"):
            stack = (
                disk_masks(params["n"], sig) if task == "disks" else dense_masks(params["n"], sig)
            )
            masks = importlib.import_module(f"{self.package}.udf.masks")
            sparse = self.sparse_format() if task == "disks" else None
            options = {"use_sparse": sparse, "mask_count": len(stack)}
            if task == "shifted-masks":
                shifts = beam_shifts(tuple(data["nav"]), params.get("fractions", False))
                aux = masks.ApplyMasksUDF.aux_data
                options["shifts"] = aux(shifts, kind="nav", extra_shape=(2,), dtype=shifts.dtype)

            def make() -> Any:
                return masks.ApplyMasksUDF(mask_factories=lambda: stack, **options)

            return make, "intensity"
        if task in LOOPS:
            loops = importlib.import_module("loops")
            return loops.loop_udf(self.package, self.udf.UDF, task), "result"
        return python_udf(self.udf.UDF, task, params), "result"

    def sparse_format(self) -> Any:
        """The format of sparse masks; for LiberTEM the fastest one that was found."""
        return True if self.package == "framefold" else "scipy.sparse.csc"


def python_udf(base: Any, task: str, params: dict[str, Any]) -> Callable[[], Any]:
    """Make functions of the user's own; local classes, so that any executor can ship them."""

    class OwnUDF(base):  # type: ignore[misc]
        def get_preferred_input_dtype(self) -> Any:
            return self.USE_NATIVE_DTYPE

        def get_tiling_preferences(self) -> Any:
            wishes = super().get_tiling_preferences()
            if "tile_bytes" in params:
                wishes["total_size"] = params["tile_bytes"]
                wishes["depth"] = self.TILE_DEPTH_MAX
            return wishes

    class Same(OwnUDF):
        def get_result_buffers(self) -> Any:
            sig, dtype = tuple(self.meta.dataset_shape.sig), self.meta.input_dtype
            return {"result": self.buffer(kind="nav", extra_shape=sig, dtype=dtype)}

        def process_frames(self, frames: Any) -> None:
            self.results.result[:] = frames

    class PerFrame(OwnUDF):
        def get_result_buffers(self) -> Any:
            return {"result": self.buffer(kind="nav", dtype="float64")}

    class NoOp(PerFrame):
        def process_frame(self, frame: Any) -> None:
            pass

    class FrameSum(PerFrame):
        def process_frame(self, frame: Any) -> None:
            self.results.result[:] = np.sum(frame)

    class Sum(OwnUDF):
        def get_result_buffers(self) -> Any:
            kind = "float64" if np.dtype(self.meta.input_dtype).kind == "f" else "uint64"
            return {"result": self.buffer(kind="sig", dtype=kind)}

        def merge(self, dest: Any, src: Any) -> None:
            dest.result[:] += src.result

    class TileSum(Sum):
        def process_tile(self, tile: Any) -> None:
            self.results.result[:] += np.sum(tile, axis=0)

    class PartitionSum(Sum):
        def process_partition(self, partition: Any) -> None:
            self.results.result[:] += np.sum(partition, axis=0)

    class TileMax(OwnUDF):
        def get_result_buffers(self) -> Any:
            return {"result": self.buffer(kind="sig", dtype=self.meta.input_dtype)}

        def process_tile(self, tile: Any) -> None:
            self.results.result[:] = np.maximum(self.results.result, tile.max(axis=0))

        def merge(self, dest: Any, src: Any) -> None:
            dest.result[:] = np.maximum(dest.result, src.result)

    class CroppedSum(Sum):
        def get_result_buffers(self) -> Any:
            shape = tuple(n // 2 for n in self.meta.dataset_shape.sig)
            return {"result": self.buffer(kind="single", extra_shape=shape, dtype="uint64")}

        def process_frame(self, frame: Any) -> None:
            y, x = (n // 4 for n in frame.shape)
            self.results.result[:] += frame[y:-y, x:-x]

    class BinnedMax(CroppedSum):
        def process_frame(self, frame: Any) -> None:
            self.results.result[:] = np.maximum(self.results.result, binned(frame))

        def merge(self, dest: Any, src: Any) -> None:
            dest.result[:] = np.maximum(dest.result, src.result)

    class CountedSum(Sum):
        def process_frame(self, frame: Any) -> None:
            self.results.result[:] += counted(frame)

    tasks = {
        "cropped-sum": CroppedSum,
        "counted-sum": CountedSum,
        "binned-max": BinnedMax,
        "to-zarr": Same,
        "frame-noop": NoOp,
        "frame-sum": FrameSum,
        "tile-sum": TileSum,
        "partition-sum": PartitionSum,
        "max": TileMax,
    }
    if task not in tasks:
        raise UnsupportedError(f"there is no task '{task}' here")
    return tasks[task]
