"""The Python half of the engine's adapter for Python UDFs.

The engine calls a :class:`Bridge` when it plans, a
:class:`~framefold.udf.engine.partition_task.PartitionTask` once per partition on a worker thread,
and a :class:`~framefold.udf.engine.merge_task.MergeTask` on the main side. What happens once per
tile or frame is done by the engine itself, which sets views through ``PartitionTask.bindings``.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Container, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold._engine import CompiledCode
from framefold.arrays.formats import Formats, asked_for, layout
from framefold.common._telling import tell_of
from framefold.common.aux_data import AuxBufferWrapper
from framefold.common.shape import Shape, n_selected
from framefold.common.tiling_scheme import Intent, TilingScheme
from framefold.common.udf import CPU_BACKENDS, CUDA_BACKENDS, NUMPY
from framefold.exceptions import InvalidArgumentError
from framefold.udf.base import PROCESS_METHODS, UDF, missing_merge, not_assignable
from framefold.udf.data import PARAMETERS, RESULTS, TASK_DATA, Role, set_role
from framefold.udf.engine import compiled, main_side
from framefold.udf.engine.changes import Aux, HandedOut, Version, Versions
from framefold.udf.engine.declarations import (
    Buffers,
    check_dtype,
    declared_buffers,
    preferred_dtype,
    processing_method,
    recipe_of,
    stack_wishes,
    tiling_wishes,
    uncalled_methods,
)
from framefold.udf.engine.memory import Arrays, keep_memory
from framefold.udf.engine.merge_task import MergeTask
from framefold.udf.engine.partition_task import PartitionTask
from framefold.udf.engine.results import check_omitted
from framefold.udf.meta import UDFMeta
from framefold.warnings import NotCompiledWarning, UncalledMethodWarning

if TYPE_CHECKING:
    from collections.abc import Callable

    from framefold.arrays.cuda.placement import OnDevice
    from framefold.arrays.cuda.staging import Staging
    from framefold.arrays.sparse_tiles import SparseTiles
    from framefold.io.corrections.corrset import CorrectionSet
    from framefold.udf.engine.preprocessed import MainSideState

#: What tiles are for, by the method that gets them.
INTENTS: dict[str, Intent] = {
    "tile": "tile",
    "frames": "frame",
    "frame": "frame",
    "partition": "partition",
}
Declared = tuple[str, str, tuple[int, ...], str, int, str | None]
#: Method, preferred dtype, tile depth, tile size in bytes, the engine's layout, and the most
#: frames that a tile may have.
Requirements = tuple[str, str, int | None, int | None, str, int | None]


#: Built-in functions whose Python code computes with arrays of CuPy, too.
ON_DEVICES = ("framefold.udf.noop", "framefold.udf.sum", "framefold.udf.sumsigudf")


class Bridge:
    """What the planner asks about one UDF of a run."""

    def __init__(
        self,
        udf: UDF,
        shape: Shape,
        dtype: npt.DTypeLike,
        roi: npt.NDArray[np.bool_] | None,
        corrections: CorrectionSet | None = None,
        laid_out: dict[int, npt.NDArray[Any]] | None = None,
    ) -> None:
        #: What copies are made of; the user's own object may learn from the run.
        self.udf = recipe_of(udf)
        keep_memory()
        #: Weak, since it keeps what it was in a run, which keeps this.
        self.own = weakref.ref(udf)
        self.corrections = corrections
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.roi = roi
        self.n_selected = n_selected(shape, roi)
        self.input_dtype: np.dtype[Any] = self.dtype
        self.positions = None if roi is None else np.flatnonzero(roi)
        self.aux: Aux = {}
        self.aux = self.laid_out_aux(self.udf, laid_out=laid_out)
        #: What copies for partitions are made of, by their first frames; the latest comes last.
        self.versions = Versions((Version(0, self.udf, self.aux, {}),))
        #: Those that the run came with, where it was sent to, once there are others.
        self.as_planned: Versions | None = None
        #: How far frames are handed out; one for all UDFs of a run.
        self.handed_out = HandedOut()
        #: The array format that the UDF gets, whether it is made of the other layout, and the
        #: method that gets it.
        self.array_backend = NUMPY
        self.crosses = False
        self.method = "tile"
        #: What the engine makes tiles of, if that is not the format's own layout.
        self.layout: str | None = None
        #: What makes sparse tiles; None for dense ones.
        self.tiles: SparseTiles | None = None
        #: What it gets on workers with a CUDA device, if any take part.
        self.on_device: OnDevice | None = None
        #: Whether it does the work of a native kernel, with that one's results.
        self.is_twin = False
        #: Whether results are asked for once more at most: those of a twin need not be copied then.
        self.is_last_look = False
        #: How many whole frames a tile has there, if others than planned.
        self.device_depth: int | None = None
        #: What merges, once there is one.
        self.main_side: weakref.ref[MergeTask] | None = None
        #: Its state on the main side after ``preprocess``, if each merge is a separate task.
        self.main_state: MainSideState | None = None
        #: Whether the run is over.
        self.has_ended = False
        #: The warnings that were given already.
        self.warned: set[str] = set()
        #: What parameters, task data and results of this run are.
        self.parameter_role = Role(PARAMETERS.what, self.warned)
        self.task_data_role = Role(TASK_DATA.what, self.warned)
        self.result_role = Role(RESULTS.what, self.warned)
        #: What is called when the run is over, with whether it is complete.
        self.ending: Callable[[bool], None] | None = None
        #: The names of what it declares in the order of the same run elsewhere; None for its own.
        self.order: list[str] | None = None
        #: What the UDF declares, once the run is planned.
        self.declared: Buffers = {}
        #: Whether what processes the data is compiled, and why not, if it is marked.
        self.is_compiled = False
        #: Whether all results are ``nav`` buffers to which partial results are assigned.
        self.by_rows = False
        self.why_interpreted = ""
        #: The run, while there is one.
        self.described: weakref.ref[RunDescription] | None = None

    @cached_property
    def asked_for(self) -> Formats:
        """The array formats that the UDF takes."""
        udf = self.copy_with(self.meta(), self.aux_for(0, self.n_selected))
        self.method = processing_method(udf)
        formats = asked_for(udf)
        if compiled.to_compile(udf, self.method) is not None:
            if compiled.numba_is_installed():
                self.is_compiled = True
                return compiled.formats_of(self.name, formats)
            self.why_interpreted = compiled.NO_NUMBA
        # Not every callable says where it was defined.
        process = getattr(udf, PROCESS_METHODS[self.method])
        module = getattr(process, "__module__", None) or ""
        if module.startswith("framefold.udf.") and module not in ON_DEVICES:
            # What is inherited from a built-in function computes with NumPy.
            return tuple(format_ for format_ in formats if format_ in CPU_BACKENDS) or formats
        return formats

    def requirements(self, native_dtype: str) -> Requirements:
        """What the UDF asks of the planner."""
        udf = self.copy_with(self.meta(), self.aux_for(0, self.n_selected))
        self.by_rows = udf._assigns
        method = self.method = processing_method(udf)
        depth, total_size = None, None
        if method == "tile":
            depth, total_size = tiling_wishes(udf)
            total_size = total_size or sys.maxsize  # None is for what fits the cache
        elif method == "frames":
            depth, total_size = stack_wishes(udf)
        how = self.layout or layout(self.array_backend)
        return method, preferred_dtype(udf), depth, total_size, how, self._max_depth()

    def _max_depth(self) -> int | None:
        """The most frames that a tile may have; None for no limit."""
        frames, sig = self.method == "frame", tuple(self.shape.sig)
        limits = []
        if self.tiles is not None:
            limits.append(self.tiles.max_depth(self.array_backend, frames, sig))
        if self.on_device is not None:
            limits.append(self.on_device.max_depth(frames, sig))
        return min((limit for limit in limits if limit is not None), default=None)

    def declare(self, input_dtype: str) -> list[Declared]:
        """The declared buffers; checks the rules for them."""
        self.input_dtype = np.dtype(input_dtype)
        check_dtype(self.name, self.input_dtype, self.array_backend)
        udf = self.copy_with(self.meta(), self.aux_for(0, self.n_selected))
        buffers = declared_buffers(udf)
        if self.order is not None and buffers.keys() == set(self.order):
            buffers = {name: buffers[name] for name in self.order}
        self.declared = buffers
        self.result_role = Role(RESULTS.what, self.warned, buffers)
        unmerged = {} if self.udf._overrides("merge") else not_assignable(buffers)
        if unmerged:
            raise missing_merge(self.name, unmerged)
        if not self.udf._computes_results:
            check_omitted(self.name, buffers, {})
        return [
            (name, decl.kind, decl.extra_shape, decl.dtype.name, decl.dtype.itemsize, decl.use)
            for name, decl in buffers.items()
        ]

    def describe_run(self, depth: int, tile_shape: list[int], n_partitions: int) -> RunDescription:
        """The description of the run that all its partitions share."""
        described = RunDescription(self, depth, tuple(tile_shape), n_partitions)
        self.described = weakref.ref(described)
        return described

    def follow(self, versions: Versions) -> None:
        """Make the copies for partitions of these."""
        self.versions = versions
        self.udf, self.aux = versions.latest.udf, versions.latest.aux

    def compiled_with(self, version: Version) -> CompiledCode | None:
        """Machine code with other parameters; None if the UDF is interpreted, or did not begin."""
        described = None if self.described is None else self.described()
        if described is None or not self.is_compiled:
            return None
        return described.compiled.make(described, version)

    def change_code(self, code: CompiledCode, first: int) -> int:
        """Have partitions run other code from that frame on, or a later one: that is returned."""
        described = None if self.described is None else self.described()
        assert described is not None
        return described.code.follow(code, first)

    def renew_code(self) -> None:
        """Let compiled code go over to changes that were made elsewhere."""
        described = None if self.described is None else self.described()
        if described is not None and self.is_compiled:
            described.compiled.renew(described)

    def renew(self) -> None:
        """Let the main side go over to the latest parameters."""
        main_side = None if self.main_side is None else self.main_side()
        if main_side is not None:
            main_side.update_parameters()

    def staging(self) -> Staging | None:
        """The staging memory of this thread, if it is a worker that gets tiles on a device."""
        gets = self.on_device
        if gets is None or gets.device_tiles is None:
            return None
        from framefold.arrays.cuda.staging import NOTHING_TO_READ
        from framefold.arrays.cuda.worker import current_worker

        worker = current_worker()
        if worker is None:
            return None
        if gets.device_tiles.are_resident:
            return NOTHING_TO_READ
        staging = worker.staging
        if staging is not None:
            staging.depth = self.device_depth
            staging.corrects = self.corrections is not None
        return staging

    @property
    def gets_cupy(self) -> bool:
        """Whether it gets arrays of CuPy on devices."""
        return self.on_device is not None and self.on_device.on_cupy

    @property
    def name(self) -> str:
        """The name of the UDF's class."""
        return type(self.udf).__name__

    @property
    def described_format(self) -> str:
        """The array format, and how it is made, for people to read."""
        how = []
        if self.crosses:
            how.append("made of dense data" if self.tiles else "made of sparse data")
        if self.tiles is not None:
            frames = self.method == "frame"
            n_sharing = self.tiles.n_sharing(self.array_backend, frames)
            if n_sharing > 1:
                how.append(f"once per {'frame' if frames else 'tile'} for {n_sharing} UDFs")
        made = f"{self.array_backend} ({', '.join(how)})" if how else self.array_backend
        if self.on_device is not None and self.on_device.array_backend != self.array_backend:
            made += f"; on CUDA devices {self.on_device.array_backend}"
        if self.is_compiled:
            made += ", compiled"
        elif self.why_interpreted:
            made += f", {self.why_interpreted}"
        return made

    def tell_oddities(self) -> None:
        """Warn of what is odd about how the UDF processes the data."""
        uncalled = uncalled_methods(self.udf, self.method)
        tell_of(self.name, uncalled, UncalledMethodWarning)
        if self.why_interpreted:
            why = f"{self.why_interpreted}; pip install framefold[numba]"
            tell_of(self.name, [why], NotCompiledWarning)

    def meta(self, **kwargs: Any) -> UDFMeta:
        """Meta information of this run."""
        format_ = kwargs.setdefault("array_backend", self.array_backend)
        return UDFMeta(
            dataset_shape=self.shape,
            dataset_dtype=self.dtype,
            input_dtype=self.input_dtype,
            roi=self.roi,
            corrections=self.corrections,
            positions=self.positions,
            device_class="cuda" if format_ in CUDA_BACKENDS else "cpu",
            **kwargs,
        )

    def copy_with(self, meta: UDFMeta, aux: Arrays, recipe: UDF | None = None) -> UDF:
        """A clean copy of the UDF that knows ``meta`` and sees these views of AUX data.

        It is made of the latest parameters, unless it is given what to make it of.
        """
        udf = (self.udf if recipe is None else recipe).copy()
        udf.meta = meta
        udf.params.__dict__.update(aux)
        set_role(udf.params, self.parameter_role)
        return udf

    def take(self, task: MergeTask) -> UDF:
        """The object for the main side: the one that the user passed in."""
        own = self.own()
        return recipe_of(self.udf) if own is None else main_side.take(own, task)

    def aux_for(self, start: int, stop: int, of: Aux | None = None) -> Arrays:
        """AUX data for the selected frames ``start`` to ``stop``; the latest, or those given."""
        whole = self.aux if of is None else of
        if not whole:
            return {}
        part: Any = slice(start, stop)
        if self.positions is not None:
            part = self.positions[part]
        views = {}
        for name, (kind, data) in whole.items():
            view = data[part] if kind == "nav" else data
            view.flags.writeable = False
            views[name] = view
        return views

    def laid_out_aux(
        self,
        udf: UDF,
        given: Container[str] = (),
        laid_out: dict[int, npt.NDArray[Any]] | None = None,
    ) -> dict[str, tuple[str, npt.NDArray[Any]]]:
        """Kind and values of AUX data of the whole data set, with flattened navigation axes.

        Those that are not ``given`` anew are as they were when the run began. Those that are
        ``laid_out``, by the address of their object, are not copied again.
        """
        aux: dict[str, tuple[str, npt.NDArray[Any]]] = {}
        known = {} if laid_out is None else laid_out
        for name, wrapper in udf._kwargs.items():
            if name in self.aux and name not in given and self.udf._kwargs[name] is wrapper:
                aux[name] = self.aux[name]
            elif isinstance(wrapper, AuxBufferWrapper):
                if id(wrapper) not in known:
                    try:
                        known[id(wrapper)] = wrapper.laid_out(name, self.shape)
                    except InvalidArgumentError as error:
                        raise InvalidArgumentError(f"{self.name}: {error}") from None
                aux[name] = (wrapper.kind, known[id(wrapper)])
        return aux


class RunDescription:
    """What all partitions of a run share."""

    def __init__(
        self, bridge: Bridge, depth: int, tile_shape: tuple[int, ...], n_partitions: int
    ) -> None:
        self.bridge = bridge
        self.n_partitions = n_partitions
        self.tile_shape = tile_shape
        intent = INTENTS[bridge.method]
        self.tiling_scheme = TilingScheme(tile_shape, bridge.shape, depth, intent)
        #: What partitions know of the run, by the array format that they get, and whether on a
        #: device.
        self._metas: dict[tuple[str, bool], UDFMeta] = {}
        self.slice_shapes: list[tuple[int, ...]] = []
        if bridge.tiles is not None or bridge.on_device is not None:
            scheme = self.tiling_scheme
            self.slice_shapes = [tuple(scheme[i].shape) for i in range(len(scheme))]
        #: The same for workers with a device.
        self.device_scheme = self.tiling_scheme
        if bridge.device_depth is not None:
            deeper = max(depth, bridge.device_depth * len(self.slice_shapes))
            self.device_scheme = TilingScheme(tile_shape, bridge.shape, deeper, intent)
        self.compiled = compiled.Code()

    @property
    def code(self) -> CompiledCode:
        """The machine code, if the UDF is compiled."""
        return self.compiled.get(self)

    def explain_failure(self, *failed: Any) -> None:
        """Raise what the user is to see of a failure of compiled code."""
        compiled.explain_failure(self, *failed)

    def merge_failed(self, address: int) -> None:
        """Raise what a compiled ``merge`` raised."""
        compiled.merge_failed(address)

    def meta(
        self,
        array_backend: str,
        start: int,
        stop: int,
        *,
        on_device: bool = False,
    ) -> UDFMeta:
        """What the worker for the selected frames ``start`` to ``stop`` knows."""
        meta = self._metas.get((array_backend, on_device))
        if meta is None:
            scheme = self.device_scheme if on_device else self.tiling_scheme
            meta = self.bridge.meta(tiling_scheme=scheme, array_backend=array_backend)
            self._metas[array_backend, on_device] = meta
        return meta._for_partition(start, stop)

    def partition(self, index: int, start: int, stop: int) -> PartitionTask:
        """The worker for the selected frames ``start`` to ``stop``."""
        return PartitionTask(self, index, start, stop)

    def merger(self, to_sink: Sequence[str] = ()) -> MergeTask:
        """The keeper of the merged result, unless some of it goes to a sink."""
        if self.bridge.is_compiled:
            self.compiled.get(self)  # what cannot be compiled is an error before the run begins
        merger = MergeTask(self, self.bridge.main_state, merges=not to_sink)
        if self.compiled.returns:
            merger.tell_of_returned(f"is compiled and returns {self.compiled.returns}")
        return merger
