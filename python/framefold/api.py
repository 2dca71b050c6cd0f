"""The main entry point: :class:`Context`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from os import PathLike, fspath
from typing import Any, Literal, overload

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold._loading import load_memory
from framefold._native import native_udf
from framefold._progress import progress_callback
from framefold._roi import roi_mask
from framefold.common.buffers import BufferWrapper
from framefold.exceptions import InvalidArgumentError
from framefold.executor.base import JobExecutor
from framefold.executor.concurrent import ConcurrentJobExecutor
from framefold.executor.inline import InlineJobExecutor
from framefold.io.dataset.base import DataSet
from framefold.udf.auto import AutoUDF
from framefold.udf.base import UDF

UDFResultDict = dict[str, BufferWrapper]
ExecutorName = Literal["inline", "synchronous", "threads"]


class Context:
    """Opens data sets and runs UDFs on them.

    Making one starts nothing and returns at once.

    Parameters
    ----------
    executor
        Where partitions are processed; threads of this process if None. The results are the
        same, bit for bit, on every executor.

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

    def __init__(self, executor: JobExecutor | None = None) -> None:
        if executor is not None and not isinstance(executor, JobExecutor):
            raise InvalidArgumentError(
                f"executor is a {type(executor).__name__}; "
                f"use InlineJobExecutor() or ConcurrentJobExecutor(), or Context.make_with(name)"
            )
        self.executor = ConcurrentJobExecutor() if executor is None else executor

    @classmethod
    def make_with(
        cls, executor_spec: ExecutorName = "threads", *, cpus: int | None = None
    ) -> Context:
        """A context with the executor of that name.

        Parameters
        ----------
        executor_spec
            ``'inline'`` (or ``'synchronous'``) or ``'threads'``.
        cpus
            The number of threads.
        """
        if executor_spec in ("inline", "synchronous"):
            return cls(InlineJobExecutor())
        if executor_spec == "threads":
            return cls(ConcurrentJobExecutor(cpus))
        raise InvalidArgumentError(
            f"there is no executor {executor_spec!r}; use 'inline' or 'threads'"
        )

    def open(self, path: str | PathLike[str], **options: Any) -> DataSet:
        """Open a file, finding out by its contents what it is.

        Parameters
        ----------
        path
            The file; any member of a set of files.
        **options
            As for :meth:`load`.

        Raises
        ------
        UnsupportedError
            If no format recognizes the file; the message says why, for each.
        """
        return self.load("auto", path, **options)

    def load(self, filetype: str, /, *args: Any, **options: Any) -> DataSet:
        """Open a data set of a given type.

        Parameters
        ----------
        filetype
            ``'raw'``, ``'npy'``, ``'mib'``, ``'memory'`` or ``'auto'``.
        path
            The file, for all types but ``'memory'``.
        nav_shape, sig_shape : tuple of int
            Shapes of the scan and of a frame, where the file does not say or to override it.
        dtype
            The dtype of the pixels, for ``'raw'``; type strings give the byte order: ``'>u2'``.
        sync_offset : int
            Position ``p`` of the scan shows frame ``p + sync_offset``. Positions without a frame
            are skipped, and invalid in results.
        io_backend : {'mmap', 'buffered'}
            How files are read; use ``'buffered'`` on network file systems.
        num_partitions : int
            How many partitions to process the data in.
        sig_dims : int
            How many of the last axes are signal axes, for ``'npy'`` and ``'memory'``.
        file_header, file_footer, frame_header, frame_footer : int
            Bytes to skip, for ``'raw'``.
        disable_glob : bool
            Read only the named file of a set, for ``'mib'``.
        quad_gap : {'omit', 'insert'}
            The gap between chips of a quad detector in raw mode, for ``'mib'``.
        data : numpy.ndarray
            The array, for ``'memory'``; read in place, not copied. Do not change it during a run.

        Raises
        ------
        FramefoldError
            If the file cannot be opened; names the file, what was found and what was expected.
        """
        if filetype == "memory":
            return DataSet(load_memory(*args, **options))
        if "path" in options:
            args = (options.pop("path"), *args)
        if len(args) != 1:
            raise InvalidArgumentError(f"load({filetype!r}, …) takes one path, got {len(args)}")
        return DataSet(_engine.load(filetype, fspath(args[0]), options))

    @overload
    def run_udf(
        self,
        dataset: DataSet,
        udf: UDF,
        roi: Any = ...,
        progress: bool = ...,
    ) -> UDFResultDict: ...
    @overload
    def run_udf(
        self,
        dataset: DataSet,
        udf: Sequence[UDF],
        roi: Any = ...,
        progress: bool = ...,
    ) -> tuple[UDFResultDict, ...]: ...
    def run_udf(
        self,
        dataset: DataSet,
        udf: UDF | Sequence[UDF],
        roi: Any = None,
        progress: bool = False,
    ) -> UDFResultDict | tuple[UDFResultDict, ...]:
        """Run one or several UDFs over a data set, in one pass.

        Parameters
        ----------
        dataset
            From :meth:`open` or :meth:`load`.
        udf
            One UDF, or a list of them.
        roi
            Which positions of the scan to process: a boolean array of shape
            ``dataset.shape.nav``, coordinates such as ``(3, 4)``, or a list of coordinates.
            All if None.
        progress
            Show a progress bar.

        Returns
        -------
        dict, or tuple of dict if ``udf`` is a list
            Buffer name to :class:`~framefold.common.buffers.BufferWrapper`.

        Raises
        ------
        FramefoldError
            If arguments, data or a UDF's declarations do not fit. Exceptions from user code
            come back as themselves, with a note that names UDF and partition.
        """
        udfs = [udf] if isinstance(udf, UDF) else list(udf)
        plan, mask = self._plan(dataset, udfs, roi)
        with progress_callback(progress) as callback:
            buffers, valid = plan.run(self.executor.threads, callback)
        flat_roi = None if mask is None else mask.reshape(-1)
        results = tuple(
            {
                name: BufferWrapper(
                    kind,
                    extra_shape,
                    array.dtype,
                    raw=array,
                    dataset_shape=dataset.shape,
                    roi=flat_roi,
                    valid=valid,
                )
                for name, kind, extra_shape, array in of_one_udf
            }
            for of_one_udf in buffers
        )
        return results[0] if isinstance(udf, UDF) else results

    def map(
        self,
        dataset: DataSet,
        f: Callable[[npt.NDArray[Any]], Any],
        roi: Any = None,
        progress: bool = False,
    ) -> BufferWrapper:
        """Apply a function to each frame.

        Parameters
        ----------
        dataset
            From :meth:`open` or :meth:`load`.
        f
            Takes a frame, returns a number or an array of fixed shape, much smaller than the
            frame.
        roi, progress
            As for :meth:`run_udf`.

        Returns
        -------
        BufferWrapper
            Shape ``(*nav, *result)``.
        """
        return self.run_udf(dataset, AutoUDF(f), roi=roi, progress=progress)["result"]

    def explain(self, dataset: DataSet, udf: UDF | Sequence[UDF], roi: Any = None) -> str:
        """How a run would go: partitions, tiles, conversions, bytes to read, and why.

        Reads no pixel. Parameters as for :meth:`run_udf`.
        """
        plan, _ = self._plan(dataset, [udf] if isinstance(udf, UDF) else list(udf), roi)
        return plan.explain()

    def _plan(
        self, dataset: DataSet, udfs: list[UDF], roi: Any
    ) -> tuple[_engine.Plan, npt.NDArray[np.bool_] | None]:
        from framefold.udf._bridge import Bridge

        if not isinstance(dataset, DataSet):
            raise InvalidArgumentError(
                f"dataset is a {type(dataset).__name__}; use the result of Context.open or "
                f"Context.load"
            )
        for udf in udfs:
            if not isinstance(udf, UDF):
                hint = "; pass an instance, not the class" if isinstance(udf, type) else ""
                raise InvalidArgumentError(f"{udf!r} is not a UDF{hint}")
        mask = roi_mask(roi, tuple(dataset.shape.nav))
        planned: list[Any] = []
        for udf in udfs:
            native = native_udf(udf, dataset)
            if native is None:
                bridge = Bridge(udf, dataset.shape, dataset.dtype, mask)
                planned.append((type(udf).__name__, bridge))
            else:
                planned.append(native)
        flat = None if mask is None else np.ascontiguousarray(mask.reshape(-1))
        return _engine.Plan(dataset._engine, planned, flat), mask

    def close(self) -> None:
        """Release what the executor holds."""
        self.executor.close()

    def __enter__(self) -> Context:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
