"""The main entry point: :class:`Context`.

Long because: half of it says what arguments are.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, Literal, overload

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold.common._booleans import boolean
from framefold.common._tracebacks import shortened
from framefold.common.buffers import BufferWrapper
from framefold.common.progress import ProgressReporter
from framefold.compat.elsewhere import elsewhere
from framefold.context.analyses import AnalysisMethods
from framefold.context.converting import ConvertMethods
from framefold.context.opening import OpenMethods
from framefold.exceptions import ArgumentTypeError, InvalidArgumentError, UnsupportedError
from framefold.executor.auto import AutoJobExecutor
from framefold.executor.base import JobExecutor
from framefold.executor.make import ExecutorName, make_executor
from framefold.io.dataset.base import DataSet
from framefold.run.asked import Asked, asked
from framefold.run.passes import passes_of
from framefold.run.plan import Run, checked_udfs, plan_run
from framefold.run.progress import RunProgress, progress_reporter
from framefold.run.results import (
    UDFResultDict,
    UDFResults,
    UDFResultTuple,
    at_once,
    in_a_while,
    result_of,
)
from framefold.udf.base import UDF
from framefold.udf.engine.changes import ParameterChange
from framefold.udf.native import as_udf

if TYPE_CHECKING:
    from framefold.io.corrections.corrset import CorrectionSet
    from framefold.run.aio import ResultAsyncGenerator
    from framefold.run.kept import Kept
    from framefold.run.steps import ResultGenerator
    from framefold.viz._live import RunPlots
    from framefold.viz.base import Live2DPlot
    from framefold.viz.tiling import UDFInfo

__all__ = [
    "Context",
    "ParameterChange",
    "ResultAsyncGenerator",
    "ResultGenerator",
    "UDFResultDict",
    "UDFResultTuple",
    "UDFResults",
]


class Context(OpenMethods, AnalysisMethods, ConvertMethods):
    """Opens data sets and runs UDFs on them.

    Making one starts nothing and returns at once.

    Parameters
    ----------
    executor
        Where partitions are processed, or the name of an executor as for :meth:`make_with`;
        :class:`~framefold.executor.auto.AutoJobExecutor` if None, which takes threads or worker
        processes, whichever suits a run. The results are the same, bit for bit, on every executor.
    plot_class
        The subclass of :class:`~framefold.viz.base.Live2DPlot` that live plots are made with;
        :class:`~framefold.viz.mpl.MPLLive2DPlot` if None.
    cache_bytes
        How much memory the results that ``run_udf(…, cache=True)`` keeps may take; 256 MiB if None.
        Those that were not asked for the longest are dropped first.

    Examples
    --------
    >>> import numpy as np
    >>> import framefold as ff
    >>> ctx = ff.Context()
    >>> data = np.ones((4, 4, 8, 8), dtype=np.uint16)
    >>> dataset = ctx.load("memory", data=data, sig_dims=2)
    >>> ctx.run_udf(dataset=dataset, udf=ff.SumSigUDF())["intensity"].data[0, 0]
    np.float32(64.0)
    """

    def __init__(
        self,
        executor: JobExecutor | ExecutorName | None = None,
        plot_class: type[Live2DPlot] | None = None,
        *,
        cache_bytes: int | None = None,
    ) -> None:
        if isinstance(executor, str):
            executor = make_executor(executor)
        if executor is not None and not isinstance(executor, JobExecutor):
            raise InvalidArgumentError(
                f"executor is a {type(executor).__name__}; use the name of one, such as "
                f"'threads', or InlineJobExecutor(), ConcurrentJobExecutor(), "
                f"ProcessJobExecutor() or DaskJobExecutor.connect(address)"
            )
        self.executor: JobExecutor = AutoJobExecutor() if executor is None else executor
        self._plot_class: type[Live2DPlot] | None = None
        self.plot_class = plot_class
        if cache_bytes is not None and not _is_amount(cache_bytes):
            raise InvalidArgumentError(f"cache_bytes is {cache_bytes!r}; use a number of bytes")
        self._cache_bytes = cache_bytes
        self._kept: Kept | None = None

    @classmethod
    def make_with(
        cls,
        executor_spec: ExecutorName = "auto",
        *,
        cpus: int | Iterable[int] | None = None,
        gpus: int | Iterable[int] | None = None,
        plot_class: type[Live2DPlot] | None = None,
        snooze_timeout: float | None = None,
        main_process_gpu: int | bool | None = None,
        cache_bytes: int | None = None,
    ) -> Context:
        """A context with the executor of that name.

        Parameters
        ----------
        executor_spec
            ``'auto'``, ``'inline'`` (or ``'synchronous'``), ``'threads'``, ``'processes'`` (or
            ``'pipelined'``); ``'dask'`` for a Dask cluster on this machine,
            ``'dask-make-default'`` for one that Dask itself uses as well,
            ``'dask-integration'`` for whatever Dask uses now, or ``'delayed'`` for results that are
            Dask arrays.
        cpus
            The number of threads or worker processes, or an iterable with one entry for each; of
            no effect for ``'inline'``. With ``gpus``, 0 keeps the CPU out of what can run on
            devices.
        gpus
            How many CUDA devices to use, or their numbers, for UDFs that take arrays of CUDA;
            all there are if None. A number that is named twice gets two threads or processes.
            ``'inline'`` uses the first.
        plot_class
            As for the class.
        snooze_timeout
            Accepted and of no effect: worker processes are kept until the context is closed.
        main_process_gpu
            Accepted and of no effect: partial results are merged on the CPU.
        cache_bytes
            As for the class.

        Raises
        ------
        ExecutorSpecException
            If there is no such executor, or it has no such option.
        """
        executor = make_executor(executor_spec, cpus, gpus, main_process_gpu)
        return cls(executor, plot_class=plot_class, cache_bytes=cache_bytes)

    @property
    def plot_class(self) -> type[Live2DPlot]:
        """What is made for live plots; matplotlib's by default."""
        if self._plot_class is None:
            from framefold.viz.mpl import MPLLive2DPlot

            self._plot_class = MPLLive2DPlot
        return self._plot_class

    @plot_class.setter
    def plot_class(self, plot_class: type[Live2DPlot] | None) -> None:
        if plot_class is not None and not callable(plot_class):
            raise InvalidArgumentError(
                f"plot_class is {plot_class!r}, expected a class that derives from Live2DPlot"
            )
        self._plot_class = plot_class

    @overload
    def run_udf(
        self,
        dataset: DataSet,
        udf: UDF,
        roi: Any = ...,
        corrections: Any = ...,
        progress: bool | ProgressReporter = ...,
        backends: Any = ...,
        plots: Any = ...,
        sync: Literal[True] = ...,
        *,
        out: Any = ...,
        resume: bool = ...,
        overwrite: bool = ...,
        cache: bool = ...,
    ) -> UDFResultDict: ...
    @overload
    def run_udf(
        self,
        dataset: DataSet,
        udf: Iterable[UDF],
        roi: Any = ...,
        corrections: Any = ...,
        progress: bool | ProgressReporter = ...,
        backends: Any = ...,
        plots: Any = ...,
        sync: Literal[True] = ...,
        *,
        out: Any = ...,
        resume: bool = ...,
        overwrite: bool = ...,
        cache: bool = ...,
    ) -> UDFResultTuple: ...
    @overload
    def run_udf(
        self,
        dataset: DataSet,
        udf: None = ...,
        roi: Any = ...,
        corrections: Any = ...,
        progress: bool | ProgressReporter = ...,
        backends: Any = ...,
        plots: Any = ...,
        sync: Literal[True] = ...,
        *,
        fn: Callable[..., None],
        make_buffers: Callable[[], Mapping[str, Any]],
        merge: Callable[[Any, Any], None] | None = ...,
        out: Any = ...,
        resume: bool = ...,
        overwrite: bool = ...,
        cache: bool = ...,
    ) -> UDFResultDict: ...
    @overload
    def run_udf(
        self,
        dataset: DataSet,
        udf: UDF,
        roi: Any = ...,
        corrections: Any = ...,
        progress: bool | ProgressReporter = ...,
        backends: Any = ...,
        plots: Any = ...,
        *,
        sync: Literal[False],
        out: Any = ...,
        resume: bool = ...,
        overwrite: bool = ...,
        cache: bool = ...,
    ) -> Coroutine[Any, Any, UDFResultDict]: ...
    @overload
    def run_udf(
        self,
        dataset: DataSet,
        udf: Iterable[UDF],
        roi: Any = ...,
        corrections: Any = ...,
        progress: bool | ProgressReporter = ...,
        backends: Any = ...,
        plots: Any = ...,
        *,
        sync: Literal[False],
        out: Any = ...,
        resume: bool = ...,
        overwrite: bool = ...,
        cache: bool = ...,
    ) -> Coroutine[Any, Any, UDFResultTuple]: ...
    @shortened
    def run_udf(
        self,
        dataset: DataSet,
        udf: UDF | Iterable[UDF] | None = None,
        roi: Any = None,
        corrections: Any = None,
        progress: bool | ProgressReporter = False,
        backends: Any = None,
        plots: Any = None,
        sync: bool = True,
        *,
        fn: Callable[..., None] | None = None,
        make_buffers: Callable[[], Mapping[str, Any]] | None = None,
        merge: Callable[[Any, Any], None] | None = None,
        out: str | PathLike[str] | Mapping[str, str | PathLike[str]] | None = None,
        resume: bool = False,
        overwrite: bool = False,
        cache: bool = False,
    ) -> Any:
        """Run one or several UDFs over a data set, in one pass.

        UDFs that have results of others as parameters (:func:`framefold.from_result`) run in a
        pass after them.

        Parameters
        ----------
        dataset
            From :meth:`open` or :meth:`load`.
        udf
            One UDF, or a list of them.
        roi
            Which positions of the scan to process: a boolean array of shape
            ``dataset.shape.nav``, slices such as ``np.s_[2:5, ::2]``, coordinates such as
            ``(3, 4)``, or a list of coordinates. All if None.
        corrections
            A :class:`~framefold.io.corrections.CorrectionSet`: dark frame, gain map and
            excluded pixels, applied to each frame before a UDF sees it. If None, those of the
            data set, if it has any; an empty set for pixels as they are.
        progress
            True for a progress bar, or a
            :class:`~framefold.common.progress.ProgressReporter`.
        backends
            The array formats that UDFs may get, as a name or several; no restriction if None.
            Built-in functions that run on a native kernel need a format that they take among
            them, and give the same result whichever it is.
        plots
            Live plots: True for all results that can be plotted; a list of channels for one
            UDF, such as ``['intensity', ('intensity', np.log1p)]``; a list of such lists, one
            for each UDF, where those that are missing are empty; or a list of
            :class:`~framefold.viz.base.Live2DPlot`.
        sync
            If False, return an awaitable: the run goes on beside the event loop.
        fn, make_buffers, merge
            In place of ``udf``: plain functions. ``fn(frame, name=view, …)`` is called for each
            frame with views of the result buffers that ``make_buffers()`` declares as a dict of
            name to :class:`~framefold.common.buffers.BufferWrapper`; ``merge(dest, src)`` merges
            partial results, and can be left out if all buffers are of kind ``nav``.
        out
            Write results to files: a path that ends in ``.zarr``, for all results, or in ``.npy``,
            for a single one; or a dict of result name to path, for some of them, where those of
            several UDFs are called ``UDF/NAME``. Buffers of kind ``nav`` that merge by assignment
            (no ``merge`` and no ``get_results`` of their own) are written while the run goes on,
            and take no memory; all others are written at its end. Then
            :attr:`~framefold.common.buffers.BufferWrapper.data` of the former is the mapped file.
        resume
            Go on with ``out`` where an earlier run of the same arguments was killed, stopped or
            failed; begin from the start if there was none. For runs of which all results are
            written while they go on, over data sets in files.
        overwrite
            Replace what ``out`` names, if it exists. That stays until the new results are complete.
        cache
            Give copies of the results of an earlier call with ``cache=True`` of this context where
            files, functions with their code and parameters, AUX data, stages, corrections and the
            ROI are the same, and read no data; otherwise run, and keep copies of the results. What
            else a function reads is up to the caller. For data sets in files.

        Returns
        -------
        dict, or tuple of dict if ``udf`` is a list
            Buffer name to :class:`~framefold.common.buffers.BufferWrapper`; :class:`UDFResultDict`
            and :class:`UDFResultTuple`, which can be saved. With ``sync=False``, a coroutine that
            returns this.

        Raises
        ------
        KeyboardInterrupt
            After Ctrl-C. Once the run has started, ``results`` of the exception are the results so
            far, :class:`UDFResults`, on all executors but the delayed one, and not with ``out``.
        UDFRunCancelled
            If a plot, a reporter or another thread cancels the run.
        FramefoldError
            If arguments, data or a UDF's declarations do not fit, or files of ``out`` exist, cannot
            be written, or were started by another run than the one to be resumed. Exceptions from
            user code come back as themselves, with a note that names UDF and partition.
        """
        if fn is not None or make_buffers is not None or merge is not None:
            if udf is not None:
                raise InvalidArgumentError("got both a UDF and functions; pass either udf= or fn=")
            from framefold.run.functions import function_udf

            udf = function_udf(fn, make_buffers, merge)
        elif udf is None:
            raise InvalidArgumentError("there is no UDF to run; pass udf=…")
        udf = as_udf(udf)
        single = isinstance(udf, UDF)
        sync, cache = boolean("sync", sync), boolean("cache", cache)
        to_files = asked(out, resume, overwrite)
        if cache and to_files is not None:
            raise InvalidArgumentError(
                "cache=True keeps results in memory, and out= writes them to files; leave one of "
                "them out"
            )
        if to_files is not None and _wants_plots(plots):
            raise InvalidArgumentError(
                "plots show results in memory, and out= writes them to files; leave one of them out"
            )
        udfs = checked_udfs(udf)
        passes = passes_of(udfs, roi)
        if passes is not None:
            if to_files is not None:
                raise UnsupportedError(
                    "out= writes the results of one pass over the data, and from_result needs "
                    "several; run the first functions by themselves, and pass on their results"
                )
            how = (
                lambda udfs, roi: self._prepare(dataset, udfs, roi, corrections, backends),
                lambda run, plots: self._begin(run, progress, plots, cache=cache),
                plots,
            )
            if not sync:
                return in_a_while(passes.run_async(*how), single)
            return result_of(passes.run(*how), single)
        run = self._prepare(dataset, udfs, roi, corrections, backends, to_files)
        started = self._begin(run, progress, plots, to_files, cache=cache)
        if isinstance(started, tuple):
            return result_of(started, single) if sync else at_once(started, single)
        if not sync:
            from framefold.run.aio import awaited

            return awaited(_async_generator(started), single)
        with started as steps:
            results = steps.run_to_end()
        return result_of(results, single)

    @overload
    def run_udf_iter(
        self,
        dataset: DataSet,
        udf: UDF | Iterable[UDF],
        roi: Any = ...,
        corrections: Any = ...,
        progress: bool | ProgressReporter = ...,
        backends: Any = ...,
        plots: Any = ...,
        sync: Literal[True] = ...,
    ) -> ResultGenerator: ...
    @overload
    def run_udf_iter(
        self,
        dataset: DataSet,
        udf: UDF | Iterable[UDF],
        roi: Any = ...,
        corrections: Any = ...,
        progress: bool | ProgressReporter = ...,
        backends: Any = ...,
        plots: Any = ...,
        *,
        sync: Literal[False],
    ) -> ResultAsyncGenerator: ...
    @shortened
    def run_udf_iter(
        self,
        dataset: DataSet,
        udf: UDF | Iterable[UDF],
        roi: Any = None,
        corrections: Any = None,
        progress: bool | ProgressReporter = False,
        backends: Any = None,
        plots: Any = None,
        sync: bool = True,
    ) -> ResultGenerator | ResultAsyncGenerator:
        """Run one or several UDFs, with partial results after each merge.

        Parameters
        ----------
        dataset, udf, roi, corrections, progress, backends, plots
            As for :meth:`run_udf`.
        sync
            If False, return an asynchronous generator.

        Returns
        -------
        ResultGenerator or ResultAsyncGenerator
            Yields :class:`UDFResults`: ``.buffers``, a tuple with a dict of results for each UDF,
            and ``.damage``, a boolean buffer of kind ``nav`` that says
            which positions are merged. ``results[0]`` is short for ``results.buffers[0]``. The
            last ones are the complete results. ``close()`` or ``throw()`` (``aclose()``,
            ``athrow()``) stop the run.

        Raises
        ------
        FramefoldError
            At once, if arguments or declarations do not fit; later, as for :meth:`run_udf`.
        """
        sync = boolean("sync", sync)
        run = self._prepare(dataset, udf, roi, corrections, backends)
        run.tell_oddities()
        reporting = RunProgress(progress_reporter(progress), run.partitions)
        generator = self._generator(run, reporting, plots)
        return generator if sync else _async_generator(generator)

    @shortened
    def map(
        self,
        dataset: DataSet,
        f: Callable[[npt.NDArray[Any]], Any],
        roi: Any = None,
        progress: bool | ProgressReporter = False,
        corrections: Any = None,
        backends: Any = None,
        *,
        out: str | PathLike[str] | Mapping[str, str | PathLike[str]] | None = None,
        resume: bool = False,
        overwrite: bool = False,
        cache: bool = False,
    ) -> BufferWrapper:
        """Apply a function to each frame.

        Parameters
        ----------
        dataset
            From :meth:`open` or :meth:`load`.
        f
            Takes a frame, returns a number or an array of fixed shape, much smaller than the
            frame, unless results go to a file.
        roi, progress, corrections, backends, out, resume, overwrite, cache
            As for :meth:`run_udf`; the result is called ``result``.

        Returns
        -------
        BufferWrapper
            Shape ``(*nav, *result)``.
        """
        if not callable(f):
            raise ArgumentTypeError(f"f is {f!r}, expected a function that takes a frame")
        from framefold.udf.auto import AutoUDF, tell_of_nothing

        results = self.run_udf(
            dataset,
            AutoUDF(f),
            roi=roi,
            progress=progress,
            corrections=corrections,
            backends=backends,
            out=out,
            resume=resume,
            overwrite=overwrite,
            cache=cache,
        )
        result: BufferWrapper = results["result"]
        tell_of_nothing(result)
        return result

    @shortened
    def export_dataset(
        self,
        dataset: DataSet,
        path: str | PathLike[str],
        progress: bool | ProgressReporter = False,
        overwrite: bool = False,
        *,
        format: Literal["npy", "zarr", "hdf5", "hspy", "zspy"] | None = None,
        zarr_format: Literal[2, 3] | None = None,
        chunks: Sequence[int] | None = None,
        compression: Literal["none", "gzip", "zstd", "blosc", "bitshuffle"] | None = None,
        level: int | None = None,
        dtype: npt.DTypeLike | None = None,
        lossy: bool = False,
        roi: Any = None,
        corrections: CorrectionSet | None = None,
        verify: bool = True,
        orientation: Literal["hyperspy", "framefold"] | None = None,
        flip: Literal["y", "x", "yx"] | None = None,
        transpose: bool = False,
        scan_step: Any = None,
        pixel_size: Any = None,
        rotation: Any = None,
        centre: Sequence[float] | None = None,
        names: Sequence[str] | None = None,
    ) -> None:
        """Write a data set as an array: NPY, Zarr, HDF5, or the latter as HyperSpy has them.

        Threads of this process read, compress and write pieces, so memory does not limit the size.
        The output appears under its name when all of it was read back and found equal; nothing is
        left of an export that fails or is stopped. What the headers know of the experiment
        (:attr:`DataSet.metadata`) is written, too, but not to NPY.

        Positions of the scan without data become NaN, or 0 in dtypes without NaN, and
        :class:`~framefold.warnings.MissingFramesWarning` says how many.

        Parameters
        ----------
        dataset
            From :meth:`open` or :meth:`load`.
        path
            Its ending says the format: ``.npy``, ``.zarr`` (a folder), ``.h5``, ``.hspy`` or
            ``.zspy`` (a folder).
        progress
            As for :meth:`run_udf`. Frames count half when they are written, and half when they
            are read back.
        overwrite
            Replace the output if it exists.
        format
            The format, whatever the ending is.
        zarr_format
            The version of Zarr: 3, the default, or 2, which older programs read; that has a file
            for each chunk, and no checksums but those of gzip. HyperSpy's ``.zspy`` is version 2.
        chunks
            The shape of a chunk on all axes, those of the scan first. By default, one that serves
            both whole frames and single pixels of all positions; for HyperSpy and version 2 of
            Zarr, larger blocks: (8, 8, 128, 128), of large frames fewer positions and more pixels.
        compression
            ``'blosc'`` (shuffled bits and Zstandard) is the default of Zarr, ``'gzip'`` that of
            HDF5, which every program reads. Others there need the package ``hdf5plugin``.
        level
            How much trouble the compressor takes: 1, the default, to 9 for gzip, or to 19 for
            Zstandard.
        dtype
            The dtype to write; that of the pixels by default. A value that it does not hold exactly
            is an error.
        lossy
            Allow values to be rounded to ``dtype``, towards zero to integers. Those beyond its
            range then are an error still.
        roi
            Positions to write, as for :meth:`run_udf`. If they are a rectangle, the result has its
            shape; otherwise, it is a list of frames.
        corrections
            As for :meth:`run_udf`: those of the data set by default.
        verify
            Read everything back and compare it.
        orientation
            ``'hyperspy'`` writes frames as HyperSpy shows those of the original file, which are
            turned over for ``mib``; ``'framefold'`` as the data set has them. By default
            ``'hyperspy'`` for ``.hspy`` and ``.zspy``, unless frames are turned already (``flip``,
            ``transpose``), and ``'framefold'`` otherwise. What was done is
            ``metadata["orientation"]`` of the copy.
        flip, transpose
            How frames are turned before they are written, as for
            :meth:`DataSet.orient() <framefold.io.dataset.base.DataSet.orient>`.
        scan_step, pixel_size, rotation, centre, names
            Steps, units and names of axes to write, as for
            :meth:`DataSet.calibrate() <framefold.io.dataset.base.DataSet.calibrate>`.

        Raises
        ------
        FileAccessError
            If the output exists (a ``FileExistsError``, too) or cannot be written.
        InvalidArgumentError
            If options do not fit each other or the data, or the data are read from there.
        BadFileError
            If something else is read back than was written.
        """
        from framefold.context.exporting import export

        export(
            dataset,
            path,
            progress=progress,
            overwrite=overwrite,
            format=format,
            zarr_format=zarr_format,
            chunks=chunks,
            compression=compression,
            level=level,
            dtype=dtype,
            lossy=lossy,
            roi=roi,
            corrections=corrections,
            verify=verify,
            orientation=orientation,
            turn={"flip": flip, "transpose": transpose},
            facts={
                "scan_step": scan_step,
                "pixel_size": pixel_size,
                "rotation": rotation,
                "centre": centre,
                "names": names,
            },
        )

    @shortened
    def display(self, dataset: DataSet, udf: UDF, roi: Any = None) -> UDFInfo:
        """How a UDF sees a data set: tiles, result buffers, dtypes; reads no pixel.

        Parameters as for :meth:`run_udf`, with one UDF.

        Returns
        -------
        UDFInfo
            Shown as HTML by notebooks, and as text by ``print``.
        """
        from framefold.viz.tiling import UDFInfo

        return UDFInfo(dataset, udf, roi=roi)

    @shortened
    def explain(
        self,
        dataset: DataSet,
        udf: UDF | Iterable[UDF],
        roi: Any = None,
        corrections: Any = None,
        backends: Any = None,
    ) -> str:
        """How a run would go: partitions, tiles, conversions, bytes to read, and why.

        Reads no pixel. Parameters as for :meth:`run_udf`.
        """
        udfs = checked_udfs(udf)

        def explain(run: Run) -> str:
            return run.plan.explain() + dataset._explain() + self.executor.explain(run)

        passes = passes_of(udfs, roi)
        if passes is None:
            return explain(self._prepare(dataset, udfs, roi, corrections, backends))
        return passes.explain(
            lambda udfs, roi: self._prepare(dataset, udfs, roi, corrections, backends), explain
        )

    def _plan(
        self, dataset: DataSet, udfs: Iterable[UDF], roi: Any
    ) -> tuple[_engine.Plan, npt.NDArray[np.bool_] | None]:
        """The engine's plan, and the ROI as a boolean array."""
        run = self._prepare(dataset, udfs, roi)
        return run.plan, run.roi

    def _prepare(
        self,
        dataset: DataSet,
        udf: UDF | Iterable[UDF],
        roi: Any,
        corrections: Any = None,
        backends: Any = None,
        to_files: Asked | None = None,
    ) -> Run:
        """Check all arguments and plan the run."""
        if not isinstance(dataset, DataSet):
            memory = "('memory', data=array)" if isinstance(dataset, np.ndarray) else ""
            raise InvalidArgumentError(
                f"dataset is a {type(dataset).__name__}; use the result of Context.open or "
                f"Context.load{memory}"
            )
        executor = self.executor
        options = corrections, backends, executor.find_workers
        to_sink = None
        if to_files is not None:
            from framefold.run.out import wishes

            udf = checked_udfs(udf)
            to_sink = wishes(to_files, udf)
        run = plan_run(dataset, udf, roi, executor.threads, *options, to_sink=to_sink)
        run.executor, run.backends = executor, backends
        return run

    def _begin(
        self,
        run: Run,
        progress: bool | ProgressReporter,
        plots: Any,
        to_files: Asked | None = None,
        *,
        cache: bool = False,
    ) -> ResultGenerator | tuple[UDFResultDict, ...]:
        """The steps of a run, or its results if they are kept, or computed later."""
        run.tell_oddities()
        reporter = progress_reporter(progress)
        if cache:
            found = self._kept_results(run, reporter, plots)
            if found is not None:
                return found
        later = self.executor.later(run, reporter, plots)
        if to_files is not None:
            from framefold.run.out import Out

            run.out = Out(run, to_files)
        if later is not None:
            return later
        return self._generator(run, RunProgress(reporter, run.partitions), plots)

    def _kept_results(
        self, run: Run, reporter: ProgressReporter | None, plots: Any
    ) -> tuple[UDFResultDict, ...] | None:
        """The results of an earlier run that was the same; None if those of this one are kept."""
        from framefold.run.kept import DEFAULT_BYTES, Keeping, Kept

        if type(self.executor).later is not JobExecutor.later:
            raise UnsupportedError(
                "cache=True keeps what a run has computed, but a delayed run computes nothing yet; "
                "use another executor"
            )
        if self._kept is None:
            self._kept = Kept(DEFAULT_BYTES if self._cache_bytes is None else self._cache_bytes)
        keeping = Keeping(self._kept, run)
        found = keeping.found()
        if found is None:
            run.keeping = keeping
            return None
        progress, live = RunProgress(reporter, run.partitions), self._live(run, plots)
        progress.start()
        progress.merged(len(run.partitions), 0)
        progress.end()
        if live is not None:
            results = UDFResults(found.results, run.damage(found.valid))
            live.begin(results)
            live.update(results, last=True)
        return found.results

    def clear_cache(self) -> None:
        """Drop all results that ``run_udf(…, cache=True)`` has kept."""
        if self._kept is not None:
            self._kept.clear()

    def _live(self, run: Run, plots: Any) -> RunPlots | None:
        """The live plots of a run, if it has any."""
        if not _wants_plots(plots):
            return None
        from framefold.viz._live import RunPlots

        return RunPlots(run, plots, self.plot_class)

    def _generator(self, run: Run, reporting: RunProgress, plots: Any) -> ResultGenerator:
        from framefold.run.steps import ResultGenerator

        return ResultGenerator(run, reporting, self._live(run, plots))

    def close(self) -> None:
        """Release what the executor holds, worker processes if it has any, and kept results."""
        self.clear_cache()
        self.executor.close()

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _async_generator(generator: ResultGenerator) -> ResultAsyncGenerator:
    from framefold.run.aio import ResultAsyncGenerator

    return ResultAsyncGenerator(generator)


def _wants_plots(plots: Any) -> bool:
    return plots is not None and plots is not False


def __getattr__(name: str) -> Any:
    """Names that scripts find here, as in the reference."""
    return elsewhere(__name__, name)


def _is_amount(value: Any) -> bool:
    """Whether it is a number from 0 on."""
    try:
        return bool(value >= 0)  # NaN is not
    except (TypeError, ValueError):
        return False
