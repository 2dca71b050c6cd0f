"""From the arguments of a run to its plan."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold.common._items import has_items, in_order, listed
from framefold.common._roi import roi_mask
from framefold.common._telling import tell_of
from framefold.common.buffers import About, BufferDeclaration, BufferWrapper
from framefold.common.cores import available_cores
from framefold.common.udf import CUPY, CUPY_BACKENDS, NUMPY
from framefold.exceptions import ArgumentTypeError, InvalidArgumentError, UnsupportedError
from framefold.io.dataset.base import DataSet
from framefold.run._no_udf import instead_of
from framefold.run.placing import assign_formats, resident_of
from framefold.run.results import UDFResultDict
from framefold.udf.base import UDF
from framefold.udf.engine.changes import HandedOut, ParameterChange, Version, own_values
from framefold.udf.engine.native import (
    Results,
    declared_by,
    finish_native,
    finishes_in_python,
    kernel_aux,
    leave_behind,
    native_udf,
)
from framefold.udf.native import as_udf
from framefold.udf.references import refuse_references
from framefold.warnings import DetectorWarning

if TYPE_CHECKING:
    from collections.abc import Callable

    from framefold._engine import CompiledCode
    from framefold.arrays.cuda.placement import Workers
    from framefold.arrays.cuda.worker import CpuWorker, DeviceWorker
    from framefold.common.axes import Axis
    from framefold.executor.base import JobExecutor, Place
    from framefold.io.corrections.corrset import CorrectionSet
    from framefold.run.kept import Keeping
    from framefold.run.out import Out
    from framefold.run.placing import FindWorkers
    from framefold.udf.engine.bridge import Bridge
    from framefold.udf.engine.merge_task import MergeTask


class Run:
    """One run of some UDFs, planned and not begun.

    Parameters
    ----------
    dataset, udfs
        What is run, and over what.
    plan
        The engine's plan of it.
    bridges
        For each UDF its half of the adapter, or None if it runs on a native kernel.
    roi
        Boolean, of the shape of the navigation axes; None for all.
    threads
        Of the executor: 0 for the calling thread alone, None for as many as there are cores.
    workers
        Who takes part, if CUDA devices do; None if they do not.
    """

    def __init__(
        self,
        dataset: DataSet,
        udfs: Sequence[UDF],
        plan: _engine.Plan,
        bridges: Sequence[Bridge | None],
        roi: npt.NDArray[np.bool_] | None,
        threads: int | None,
        workers: Workers | None = None,
    ) -> None:
        self.dataset = dataset
        self.udfs = tuple(udfs)
        self.plan = plan
        self.bridges = tuple(bridges)
        self.roi = roi
        self.threads = threads
        self._workers = workers
        #: Where partitions are processed, if that is not up to ``threads`` alone.
        self.executor: JobExecutor | None = None
        #: The array formats that it is restricted to, as they were given.
        self.backends: Any = None
        #: The numbers of selected frames at which partitions begin, if that is given.
        self.cuts: list[int] | None = None
        #: For each UDF the names of results that go to files as they come, None for all that can;
        #: None if there are no files.
        self.to_sink: list[list[str] | None] | None = None
        #: The files.
        self.out: Out | None = None
        #: What keeps the results, once they are complete; None if nothing does.
        self.keeping: Keeping | None = None
        #: What is corrected; None for the data set's own, of which it has none.
        self.corrections: CorrectionSet | None = None
        #: Where the engine's threads work, to be closed at the end.
        self._places: list[Place] = []
        #: For each UDF what other processes get of its AUX data, if a kernel does its work.
        self.kernel_aux = [kernel_aux(u, b) for u, b in zip(udfs, self.own_bridges, strict=True)]
        #: How far frames are handed out, and the changes of parameters since the run began.
        self.handed_out = HandedOut()
        self.changes: tuple[ParameterChange, ...] = ()
        for bridge in self.bridges:
            if bridge is not None:
                bridge.handed_out = self.handed_out
        self._flat_roi = None if roi is None else roi.reshape(-1)
        self._partitions = plan.partitions()
        #: For each UDF that was asked for, what it declares.
        self._declared: dict[int, Mapping[str, BufferDeclaration]] = {}

    @cached_property
    def axes(self) -> tuple[Axis, ...]:
        """Those of the data set."""
        return self.dataset.axes

    @property
    def partitions(self) -> list[tuple[int, int]]:
        """The selected frames of each partition, ``(start, stop)``, in merge order."""
        return self._partitions

    @property
    def n_workers(self) -> int:
        """How many partitions are processed at a time."""
        if self.threads == 0:
            return 1
        return max(1, min(len(self.devices) + self.n_cpus, len(self._partitions)))

    @property
    def n_cpus(self) -> int:
        """How many workers without a device there are at most."""
        if self._workers is not None and not self._workers.cpus:
            return 0
        # Each device keeps a core busy that feeds it.
        n_cores = max(1, available_cores() - len(self.devices))
        return n_cores if self.threads is None else self.threads

    @property
    def is_on_kernels(self) -> bool:
        """Whether all UDFs and stages are the engine's own: threads run these as well as processes.

        Functions that others compiled are not, as they can end the process, or never return.
        """
        ran = zip(self.udfs, self.bridges, strict=True)
        own = all(bridge is None and udf._plugin is None for udf, bridge in ran)
        return own and not self.dataset._transforms

    @property
    def is_interpreted(self) -> bool:
        """Whether any UDF or stage runs in the interpreter, on one thread at a time."""
        bridges = (bridge for bridge in self.bridges if bridge is not None)
        return not (
            all(bridge.is_compiled for bridge in bridges)
            and all(transform._is_compiled for transform in self.dataset._transforms)
        )

    @property
    def workers(self) -> Workers | None:
        """Who takes part, and what UDFs get where, for others that plan the same run."""
        if self._workers is None:
            return None
        gets = [bridge.on_device for bridge in self.bridges if bridge is not None]
        formats = tuple(each.array_backend for each in gets if each is not None)
        return self._workers._replace(elsewhere=True, formats=formats)

    @property
    def devices(self) -> tuple[int, ...]:
        """The CUDA devices that take part, one worker for each entry."""
        return () if self._workers is None else self._workers.devices

    def places(self) -> list[DeviceWorker | CpuWorker]:
        """One place for each worker, those with a device first."""
        with_device = self.devices[: self.n_workers]
        without = [None] * (self.n_workers - len(with_device))
        return [self.place(device) for device in (*with_device, *without)]

    def place(self, device: int | None, *, on_one_thread: bool = False) -> DeviceWorker | CpuWorker:
        """Where a worker with that device works, or one without, if devices take part.

        With ``on_one_thread``, the worker itself runs all Python code, that of a format included.
        """
        from framefold.arrays.cuda.placement import n_readers
        from framefold.arrays.cuda.worker import CpuWorker, DeviceWorker
        from framefold.io.dataset._own import class_of_own

        if device is None:
            return CpuWorker()
        n = n_readers(available_cores(), len(self.devices), beside_cpus=self.n_cpus > 0)
        if on_one_thread and class_of_own(self.dataset.format) is not None:
            n = 0
        return DeviceWorker(device, self.on_cupy, n)

    @property
    def on_cupy(self) -> bool:
        """Whether any UDF gets arrays of CuPy on devices."""
        gets = [bridge.on_device for bridge in self.bridges if bridge is not None]
        return any(each is not None and each.on_cupy for each in gets)

    def expect_last_look(self) -> list[MergeTask | None]:
        """Know that results are asked for once more, and then never again.

        Returns what merged them, which the engine drops with the results.
        """
        for bridge in self.bridges:
            if bridge is not None:
                bridge.is_last_look = True
        sides = [None if each is None else each.main_side for each in self.bridges]
        return [None if side is None else side() for side in sides]

    def wrap(
        self,
        buffers: _engine._ResultLists,
        valid: npt.NDArray[np.bool_],
        *,
        leaves_behind: bool = True,
    ) -> tuple[UDFResultDict, ...]:
        """The engine's results as users get them, and as their objects know them afterwards."""
        return tuple(
            UDFResultDict(
                (
                    name,
                    self._wrapper(number, name)(
                        kind,
                        extra_shape,
                        array.dtype,
                        raw=None if self._goes_to_file(number, name) else array,
                        dataset_shape=self.dataset.shape,
                        roi=self._flat_roi,
                        valid=valid,
                        about=self.about(number, name, extra_shape),
                    ),
                )
                for name, kind, extra_shape, array in self._finished(
                    number, of_one_udf, valid, leaves_behind
                )
            )
            for number, of_one_udf in enumerate(buffers)
        )

    @property
    def own_bridges(self) -> list[Bridge | None]:
        """As ``bridges``, without those that do the work of a kernel, with that one's results."""
        return [None if each is None or each.is_twin else each for each in self.bridges]

    def result_names(self, number: int) -> list[str]:
        """What the results of a UDF are called, before there are any."""
        udf, bridge = self.udfs[number], self.own_bridges[number]
        if bridge is None and not udf._native_finish:
            return [name for name, *_ in self.plan.results_of(number)]
        own = None if bridge is None else bridge.declared
        declared = declared_by(udf, self.dataset, self.roi) if own is None else own
        return [name for name, decl in declared.items() if decl.use != "private"]

    def _goes_to_file(self, number: int, name: str) -> bool:
        return self.out is not None and self.out.wrapped((number, name))

    def _wrapper(self, number: int, name: str) -> type[BufferWrapper]:
        if not self._goes_to_file(number, name):
            return BufferWrapper
        from framefold.results.mapped import MappedBufferWrapper

        return MappedBufferWrapper

    @property
    def first(self) -> int:
        """The first partition to process: those before are in files of an earlier run."""
        return 0 if self.out is None else self.out.n_merged

    def about(self, number: int, name: str, extra_shape: Sequence[int]) -> About:
        """Where the result of that name of a UDF is from, and what it means."""
        udf, bridge = self.udfs[number], self.own_bridges[number]
        if number not in self._declared:
            if bridge is not None:
                self._declared[number] = bridge.declared
            else:
                finish = udf._native_finish
                self._declared[number] = declared_by(udf, self.dataset, self.roi) if finish else {}
        declared = self._declared[number].get(name)
        known = About(udf._shown_name, name, axes=self.axes, files=self.dataset._inputs)
        if declared is None:
            return known._replace(vector=udf._native_vectors and tuple(extra_shape) == (2,))
        return known._replace(unit=declared.unit, vector=declared.vector)

    def _finished(
        self, number: int, results: Results, valid: npt.NDArray[np.bool_], leaves: bool
    ) -> Results:
        """The results of one UDF; what a kernel computed is finished here."""
        if self.own_bridges[number] is not None:
            return results
        udf = self.udfs[number]
        finished = finish_native(udf, self.dataset, self.roi, results, valid)
        if leaves:
            there = [each for each in finished if not self._goes_to_file(number, each[0])]
            leave_behind(udf, self.dataset, self.roi, there, valid)
        return finished

    def damage(self, valid: npt.NDArray[np.bool_]) -> BufferWrapper:
        """Which positions are merged, from the engine's one truth value per selected frame."""
        return BufferWrapper(
            "nav",
            (),
            bool,
            raw=valid,
            dataset_shape=self.dataset.shape,
            roi=self._flat_roi,
            about=About(name="damage", axes=self.axes, files=self.dataset._inputs),
        )

    def driver(self, callback: Callable[[int, int], None] | None) -> _engine.Driver:
        """Has the partitions processed by the executor, or by the engine's threads, and merges.

        Parameters
        ----------
        callback
            Called after each merge: ``callback(n_merged, in_progress)``.
        """
        executor = self.executor
        crew = None if executor is None else executor.crew(self)
        sink = None if self.out is None else self.out.files
        if crew is not None:
            return _engine.Driver(self.plan, crew=crew, callback=callback, sink=sink)
        self._places = [] if executor is None else executor.places(self)
        # At the end of the interpreter, there are no other threads any more.
        threads = self.threads if threading.main_thread().is_alive() else 0
        return _engine.Driver(self.plan, threads, places=self._places, callback=callback, sink=sink)

    def end(self, *, complete: bool) -> None:
        """Tell UDFs that the run is over, and whether everything is merged; the first time counts.

        Raises
        ------
        FramefoldError
            If a UDF cannot bring to an end what it does: then it is as if the run had failed.
        """
        failure: Exception | None = None
        places, self._places = self._places, []
        for place in places:
            place.close()
        for bridge in self.bridges:
            if bridge is None:
                continue
            bridge.has_ended = True
            if bridge.ending is None:
                continue
            ending, bridge.ending = bridge.ending, None
            try:
                ending(complete and failure is None)
            except Exception as error:
                failure = failure or error
        if failure is not None:
            raise failure

    def tell_oddities(self) -> None:
        """Warn of what is odd about the run; for the one who asked for it, not for workers."""
        self.dataset._tell_missing(self.roi)
        for udf in self.udfs:
            tell_of(type(udf).__name__, udf._doubts(self.dataset), DetectorWarning)
        for bridge in self.own_bridges:
            if bridge is not None:
                bridge.tell_oddities()

    def update_parameters(self, parameters: Sequence[Mapping[str, Any]]) -> None:
        """Change parameters of the UDFs for all partitions that are not begun yet."""
        if len(parameters) != len(self.udfs):
            raise InvalidArgumentError(
                f"got parameters for {len(parameters)} UDFs, but {len(self.udfs)} are running; "
                f"pass one dict for each, empty for no change"
            )
        changes = {n: own_values(new) for n, new in enumerate(parameters) if new}
        self._change(changes, lambda recipe, new: {**recipe._kwargs, **new})

    def update(self, udf: UDF, parameters: Mapping[str, Any]) -> None:
        """Change parameters of one UDF, as it is in the list, and record from where on.

        Raises
        ------
        InvalidArgumentError
            If it is not run, or has no such parameter.
        UnsupportedError
            If it runs on a native kernel.
        """
        numbers = [number for number, each in enumerate(self.udfs) if each is udf]
        if not numbers:
            raise InvalidArgumentError(
                f"{udf!r} is not among the UDFs that are run; pass the object that was passed to "
                f"run_udf_iter"
            )
        changes = dict.fromkeys(numbers, own_values(parameters))
        self._change(changes, lambda recipe, new: recipe._changed(new))

    def _recipe(self, number: int) -> UDF:
        """What copies of a UDF are made of now."""
        bridge = self.own_bridges[number]
        if bridge is None:
            raise UnsupportedError(
                f"{self.udfs[number]._shown_name} runs on a native kernel, whose parameters are "
                f"fixed when the run begins; start another run"
            )
        return bridge.udf

    def _change(
        self,
        changes: Mapping[int, Mapping[str, Any]],
        kwargs_of: Callable[[UDF, Mapping[str, Any]], dict[str, Any]],
    ) -> None:
        """Have copies made with other parameters from the first frame on that is not handed out.

        Parameters
        ----------
        changes
            New values, by the number of the UDF.
        kwargs_of
            All that the constructor gets, from what copies are made of and the new values.
        """
        made: list[tuple[int, Bridge, Version, CompiledCode | None]] = []
        handed_out = self.handed_out
        # One change after the other: each keeps what those before it have changed.
        with handed_out.lock:
            for number, new in changes.items():
                recipe, bridge = self._recipe(number), self.bridges[number]
                assert bridge is not None
                kwargs = kwargs_of(recipe, new)
                copy = recipe.new_for_partition(kwargs, None, None)
                was, own = recipe._kwargs, copy._kwargs
                differs = {k: own.get(k, v) for k, v in kwargs.items() if v is not was.get(k, made)}
                copy._kwargs = {**kwargs, **differs}  # new values as the constructor made them
                refuse_references([copy])
                version = Version(handed_out.end, copy, bridge.laid_out_aux(copy, new), differs)
                made.append((number, bridge, version, bridge.compiled_with(version)))
            for number, bridge, version, code in made:
                first = version.first
                if code is not None:
                    # Threads begin with partitions of compiled functions without the interpreter.
                    first = bridge.change_code(code, first)
                bridge.follow(bridge.versions.with_change(first, *version[1:]))
                self.changes = (*self.changes, ParameterChange(number, first, changes[number]))
            handed_out.n_pending += 1
        # Without the lock: the main side may be in the middle of a merge, which may want it.
        for _, bridge, *_ in made:
            bridge.renew()


def plan_run(
    dataset: DataSet,
    udf: UDF | Iterable[UDF],
    roi: Any,
    threads: int | None,
    corrections: CorrectionSet | None = None,
    backends: Any = None,
    find_workers: FindWorkers | None = None,
    cuts: list[int] | None = None,
    to_sink: list[list[str] | None] | None = None,
    orders: list[list[str] | None] | None = None,
) -> Run:
    """Plan a run; reads no pixel.

    Parameters
    ----------
    dataset, udf, roi
        As for :meth:`framefold.Context.run_udf`.
    threads
        Of the executor.
    corrections, backends
        As for :meth:`framefold.Context.run_udf`.
    find_workers
        Of the executor: who takes part, asked if a UDF takes a format of CUDA. This process and
        its devices if None.
    cuts
        The numbers of selected frames at which partitions begin; the planner's choice if None.
    to_sink
        For each UDF the names of results that go to files as they come, if they can; None: all.
    orders
        For each UDF the names of its buffers in the order of the same run elsewhere; None: its own.
    """
    udfs = checked_udfs(udf)
    refuse_references(udfs)
    allowed = _restriction(backends)
    resident = resident_of(dataset, allowed, find_workers)
    if resident is None:
        dataset._check_files()
    mask = roi_mask(roi, tuple(dataset.shape.nav))
    correction_set, frames = dataset._corrected(corrections, mask)
    if resident is None:
        dataset = dataset._plain()
    planned: list[Any] = []
    bridges: list[Bridge | None] = []
    laid_out: dict[int, npt.NDArray[Any]] = {}  # AUX data of several UDFs are there once
    # Frames that are brought to devices are reduced there, too.
    if allowed is None:
        on_devices = resident is not None
    else:
        alone = resident is not None or CUPY_BACKENDS.issuperset(allowed)
        on_devices = CUPY in allowed and alone
    for each in udfs:
        each._at_begin(dataset)
    natives = [native_udf(each, dataset, only_declares=on_devices) for each in udfs]
    # Corrected pixels are dense, whatever they were before, and no integers.
    corrects = correction_set is not None and correction_set.have_corrections()
    pixels = np.result_type(dataset.dtype, np.float32) if corrects else dataset.dtype
    for each, native in zip(udfs, natives, strict=True):
        twin = None
        if native is not None and on_devices:
            from framefold.arrays.cuda.reductions import twin_of

            twin = twin_of(each, native, dataset.dtype, pixels)
        if native is not None and twin is None and on_devices:
            native = native_udf(each, dataset)
        if native is None or twin is not None:
            from framefold.udf.engine.bridge import Bridge

            of = each if twin is None else twin
            applied = correction_set if corrects else None
            bridge = Bridge(of, dataset.shape, dataset.dtype, mask, applied, laid_out)
            bridge.is_twin = twin is not None
            bridge.order = None if orders is None else orders[len(bridges)]
            bridges.append(bridge)
            planned.append((type(each).__name__, bridge))
        else:
            bridges.append(None)
            planned.append(native)
    native_formats = (NUMPY,) if corrects else dataset.native_backends
    if resident is not None:
        native_formats = CUPY, NUMPY
    workers = assign_formats(udfs, bridges, native_formats, allowed, find_workers, resident)
    if resident is not None and not all(bridge and bridge.gets_cupy for bridge in bridges):
        dataset._check_files()
    flat = None if mask is None else np.ascontiguousarray(mask.reshape(-1))
    depth, large = None, False
    if workers is not None and workers.devices:
        from framefold.arrays.cuda import placement

        in_python = [bridge for bridge in bridges if bridge is not None]
        depth = placement.tile_depth(in_python, workers, resident=resident is not None)
        large = not workers.cpus and all(bridge and bridge.gets_cupy for bridge in bridges)
        if resident is not None and cuts is None:
            cuts = placement.resident_cuts(bridges)
    passed_on = None
    if to_sink is not None:
        of_udfs = zip(udfs, bridges, to_sink, strict=True)
        passed_on = [
            [] if (bridge is None or bridge.is_twin) and finishes_in_python(udf) else names
            for udf, bridge, names in of_udfs
        ]
    plan = _engine.Plan(frames, planned, flat, large, depth, cuts, passed_on)
    if resident is not None and not any(bridge and bridge.gets_cupy for bridge in bridges):
        dataset = dataset._plain()
    run = Run(dataset, udfs, plan, bridges, mask, threads, workers)
    run.corrections, run.cuts, run.to_sink = correction_set, cuts, to_sink
    return run


def checked_udfs(udf: UDF | Iterable[UDF]) -> list[UDF]:
    """The functions of a run, from its argument.

    Raises
    ------
    InvalidArgumentError
        If there is none; ``ArgumentTypeError`` if one of them is no UDF.
    """
    udf = as_udf(udf)
    if isinstance(udf, UDF):
        return [udf]
    single = isinstance(udf, str | bytes | DataSet) or not has_items(udf)  # these have others
    several = [udf] if single else listed("udf", in_order("udf", udf))
    udfs: list[Any] = [as_udf(each) for each in several]
    if not udfs:
        raise InvalidArgumentError("there is no UDF to run: the list is empty; pass at least one")
    for each in udfs:
        if not isinstance(each, UDF):
            raise ArgumentTypeError(f"{each!r} is not a UDF{instead_of(each)}")
    return udfs


def _restriction(backends: Any) -> tuple[str, ...] | None:
    """The array formats that a run is restricted to; None for no restriction."""
    if backends is None:
        return None
    from framefold.arrays.formats import restriction

    return restriction(backends)
