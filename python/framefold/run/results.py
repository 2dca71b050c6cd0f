"""Results of a run, complete or so far."""

from __future__ import annotations

import os
import threading
from collections.abc import Awaitable, Sequence
from typing import TYPE_CHECKING, Any, Literal, SupportsIndex, overload

import numpy as np

from framefold import _engine
from framefold.common._booleans import boolean
from framefold.common._tracebacks import shorten, shortened
from framefold.common.buffers import BufferWrapper
from framefold.exceptions import ArgumentTypeError, UDFError

if TYPE_CHECKING:
    from pathlib import Path

    from framefold.run.plan import Run
    from framefold.udf.engine.changes import ParameterChange


class UDFResultDict(dict[str, BufferWrapper]):
    """The results of one UDF: name to :class:`~framefold.common.buffers.BufferWrapper`."""

    def __missing__(self, name: Any) -> BufferWrapper:
        raise KeyError(f"there is no result {name!r}; there are {', '.join(self) or 'none'}")

    if not TYPE_CHECKING:  # type checkers know that there are no others

        def __getattr__(self, name: str) -> Any:
            example = next(iter(self), "NAME")
            raise AttributeError(
                f"results have no attribute {name!r}; each is found by its name, as in "
                f"results[{example!r}].data"
            )

    def __repr__(self) -> str:
        """One line for each result."""
        lines = "".join(f"\n    {name!r}: {buffer!r}," for name, buffer in self.items())
        return f"{{{lines}\n}}" if lines else "{}"

    def to_xarray(self) -> Any:
        """All results as an ``xarray.Dataset``, see :meth:`BufferWrapper.to_xarray`.

        ``NAME_valid`` says which elements of a result are valid, where some are not.
        """
        from framefold.results.exports import to_dataset

        return to_dataset(self)

    @overload
    def save(
        self,
        path: str | os.PathLike[str],
        *,
        overwrite: bool = ...,
        separate: Literal[False] = ...,
    ) -> Path: ...
    @overload
    def save(
        self, path: str | os.PathLike[str], *, overwrite: bool = ..., separate: Literal[True]
    ) -> list[Path]: ...
    def save(
        self, path: str | os.PathLike[str], *, overwrite: bool = False, separate: bool = False
    ) -> Path | list[Path]:
        """Write all results to one file: ``.h5``, ``.hspy``, ``.zspy``, ``.zarr`` or ``.npz``.

        Parameters
        ----------
        path, overwrite
            As for :meth:`BufferWrapper.save`.
        separate
            Write each result to a file of its own, of any format: ``com.tif`` becomes
            ``com-field.tif``, ``com-magnitude.tif``, ….

        Returns
        -------
        pathlib.Path
            Where it is; with ``separate``, a list with one for each result.

        Raises
        ------
        FramefoldError
            As for :meth:`BufferWrapper.save`.
        """
        return _save({"": self}, path, overwrite, separate)

    def plot(self, **kwargs: Any) -> Any:
        """Draw all results side by side, with matplotlib.

        Those of kind ``single`` are drawn if there are no others.

        Parameters
        ----------
        **kwargs
            As for :meth:`BufferWrapper.plot`.

        Returns
        -------
        numpy.ndarray
            Of :class:`matplotlib.axes.Axes`, one for each picture.
        """
        from framefold.results.plots import plot_all

        return plot_all(self, kwargs)


class _SavedTogether:
    """Results of several UDFs that one file can hold."""

    def _grouped(self, names: Sequence[str] | None) -> dict[str, Any]:
        """The results of each UDF by the name of its group."""
        raise NotImplementedError

    @overload
    def save(
        self,
        path: str | os.PathLike[str],
        *,
        names: Sequence[str] | None = ...,
        overwrite: bool = ...,
        separate: Literal[False] = ...,
    ) -> Path: ...
    @overload
    def save(
        self,
        path: str | os.PathLike[str],
        *,
        names: Sequence[str] | None = ...,
        overwrite: bool = ...,
        separate: Literal[True],
    ) -> list[Path]: ...
    def save(
        self,
        path: str | os.PathLike[str],
        *,
        names: Sequence[str] | None = None,
        overwrite: bool = False,
        separate: bool = False,
    ) -> Path | list[Path]:
        """Write the results of all UDFs to one file, with a group for each UDF.

        :class:`UDFResults` have ``damage`` beside the groups: which positions are merged.

        Parameters
        ----------
        path
            As for :meth:`UDFResultDict.save`. ``.h5`` and ``.zarr`` have groups, in ``.npz`` the
            arrays are called ``GROUP/NAME``; ``.hspy`` and ``.zspy`` have signals, called
            ``GROUP.NAME`` and with the title ``GROUP: NAME``.
        names
            Of the groups, one for each UDF. By default, the name of its class: ``SumUDF``, and
            for the second and third one of a class ``SumUDF_2`` and ``SumUDF_3``.
        overwrite
            Replace a file that there is.
        separate
            Write each result to a file of its own, of any format: ``x.tif`` becomes
            ``x-SumUDF-intensity.tif``, ….

        Returns
        -------
        pathlib.Path
            Where it is; with ``separate``, a list with one for each result.

        Raises
        ------
        InvalidArgumentError
            If ``names`` do not fit, and as for :meth:`BufferWrapper.save`.
        FramefoldError
            As for :meth:`BufferWrapper.save`.
        """
        return _save(self._grouped(names), path, overwrite, separate)


class UDFResultTuple(_SavedTogether, tuple[UDFResultDict, ...]):
    """The results of several UDFs: a tuple with one dict for each, which can be saved."""

    @overload
    def __getitem__(self, index: SupportsIndex, /) -> UDFResultDict: ...
    @overload
    def __getitem__(self, index: slice, /) -> UDFResultTuple: ...
    def __getitem__(self, index: SupportsIndex | slice, /) -> UDFResultDict | UDFResultTuple:
        """One of them, or those that a slice selects, which can be saved, too."""
        if isinstance(index, slice):
            return UDFResultTuple(super().__getitem__(index))
        if isinstance(index, str):
            raise ArgumentTypeError(
                f"there is a dict of results for each UDF: take one of them first, as in "
                f"results[0][{index!r}]"
            )
        return super().__getitem__(index)

    def _grouped(self, names: Sequence[str] | None) -> dict[str, Any]:
        from framefold.results.saving import grouped

        return grouped(self, names)


class UDFResults(_SavedTogether):
    """Results of all UDFs of a run, complete or so far.

    Attributes
    ----------
    buffers : tuple of dict
        For each UDF, in the order in which they were passed: buffer name to
        :class:`~framefold.common.buffers.BufferWrapper`.
    damage : BufferWrapper
        Kind ``nav``, dtype bool: which positions of the scan are merged.
    changes : tuple of ParameterChange
        What :meth:`ResultGenerator.update` has changed so far, in that order: the number of the
        UDF, the first frame with the new values, and these.
    """

    #: None, but for runs step by step.
    changes: tuple[ParameterChange, ...] = ()

    def __init__(self, buffers: Sequence[UDFResultDict], damage: BufferWrapper) -> None:
        self._buffers: UDFResultTuple | None = UDFResultTuple(buffers)
        self._damage: BufferWrapper | None = damage

    @property
    def buffers(self) -> UDFResultTuple:
        """One dict for each UDF."""
        assert self._buffers is not None
        return self._buffers

    @property
    def damage(self) -> BufferWrapper:
        """Which positions of the scan are merged."""
        assert self._damage is not None
        return self._damage

    @shortened
    def __getitem__(self, index: int) -> UDFResultDict:
        """The results of one UDF."""
        return self.buffers[index]

    def __len__(self) -> int:
        return len(self.buffers)

    def __reduce__(self) -> Any:
        """Copies and pickles hold the results themselves, computed now, and nothing of the run."""
        return _computed, (self.buffers, self.damage, self.changes)

    def _grouped(self, names: Sequence[str] | None) -> dict[str, Any]:
        from framefold.results.saving import grouped

        damage = {"damage": self.damage}
        return {**grouped(self.buffers, names, taken=("damage",)), "": damage}

    def __repr__(self) -> str:
        done = self.damage.raw_data
        return f"<UDFResults of {np.count_nonzero(done)} of {done.size} frames>"


class StepResults(UDFResults):
    """Results that are computed when first looked at.

    Where more merges would change what they are computed from, that is copied when the run goes on;
    functions in Python compute them then. Rows of ``nav`` buffers that kernels merged stay as they
    are, and can be copied at any time.
    """

    def __init__(
        self,
        run: Run,
        driver: _engine.Driver,
        lock: Any,
        kept: tuple[_engine._ResultLists, Any] | None = None,
    ) -> None:
        self._buffers = None
        self._damage = None
        self._run = run
        self._driver = driver
        self._n_merged = driver.n_merged
        self.changes = run.changes
        self._lasting = driver.lasting()
        #: What the engine had, once the run has gone on, or is over.
        self._kept = kept
        if self._lasting is None:
            self._damage = run.damage(driver.valid())
        # What lasts can be had while the run goes on.
        self._lock = lock if self._lasting is None else threading.RLock()
        self._failure: Exception | None = None
        self._failed_with = ""

    @property
    def damage(self) -> BufferWrapper:
        """Which positions of the scan are merged."""
        if self._damage is None:
            assert self._lasting is not None
            self._damage = self._run.damage(self._lasting.valid())
        return self._damage

    @property
    @shortened
    def buffers(self) -> UDFResultTuple:
        """One dict for each UDF."""
        if self._buffers is None:
            with self._lock:
                if self._failure is not None:
                    failure, self._failure = self._failure, None
                    self._failed_with = type(failure).__name__
                    try:
                        raise failure
                    finally:
                        del failure
                if self._failed_with:
                    raise UDFError(
                        f"the results of this step could not be computed ({self._failed_with}, "
                        f"raised where they were first looked at), and the run has gone on"
                    )
                if self._buffers is None:
                    kept = self._kept or (self._lasting or self._driver).snapshot()
                    # The user's object keeps the latest results, whichever are looked at.
                    is_latest = self._driver.n_merged == self._n_merged
                    self._buffers = UDFResultTuple(self._run.wrap(*kept, leaves_behind=is_latest))
                    self._kept = None
        return self._buffers

    def settle(self) -> None:
        """Keep what more merges would change; who looks at the results hears of failures."""
        complete = self._n_merged == len(self._run.partitions)
        if self._buffers is not None or (self._lasting is not None and not complete):
            return
        try:
            if complete:
                _ = self.buffers  # the user's object has them from now on
            else:
                self._kept = self._driver.snapshot()
        except Exception as exception:
            # With its traceback, it would refer to itself: the run would wait for the collector.
            self._failure = exception.with_traceback(None)


def _computed(
    buffers: UDFResultTuple, damage: BufferWrapper, changes: tuple[ParameterChange, ...]
) -> UDFResults:
    results = UDFResults(buffers, damage)
    results.changes = changes
    return results


def result_of(results: tuple[UDFResultDict, ...], single: bool) -> Any:
    """What is returned to the caller of a run of one UDF (``single``) or several."""
    return results[0] if single else UDFResultTuple(results)


def _save(
    results: dict[str, Any], path: str | os.PathLike[str], overwrite: bool, separate: bool
) -> Path | list[Path]:
    from framefold.results.saving import save, save_each

    return (save_each if boolean("separate", separate) else save)(results, path, overwrite)


async def at_once(results: tuple[UDFResultDict, ...], single: bool) -> Any:
    """The same, to be awaited."""
    return result_of(results, single)


async def in_a_while(results: Awaitable[tuple[UDFResultDict, ...]], single: bool) -> Any:
    """The same for results that are awaited."""
    try:
        return result_of(await results, single)
    except BaseException as error:
        shorten(error)
        raise
