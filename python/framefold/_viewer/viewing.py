"""From a data set to a widget."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from framefold import _engine
from framefold.api import Context
from framefold.common._integers import whole
from framefold.common.optional import require
from framefold.exceptions import ArgumentTypeError
from framefold.io.dataset.base import DataSet
from framefold.io.dataset.memory import MemoryDataSet

if TYPE_CHECKING:
    from framefold._viewer.functions import Functions
    from framefold._viewer.widget import ViewerWidget
    from framefold.udf.base import UDF

__all__ = ["host_of", "view"]


def view(
    dataset: DataSet,
    udfs: Mapping[str, UDF] | None = None,
    *,
    context: Context | None = None,
    budget: int | None = None,
) -> ViewerWidget:
    """Look at a data set: the viewer of ``framefold view`` as a widget of a notebook.

    It only makes the widget, which a notebook shows as the result of a cell; from scripts and
    terminals, use the command ``framefold view``. Reads no pixel before it is shown.

    Parameters
    ----------
    dataset
        From :meth:`Context.open` or :meth:`Context.load`; its frames have one or two axes.
    udfs
        Functions whose results are pictures, by the names that the viewer shows. Buffers of kind
        ``nav``, of scans of one or two axes, are pictures of the scan, those of kind ``sig``
        pictures of frames. They run when they are looked at.
    context
        Where ``udfs`` run; a new one by default.
    budget
        How many bytes of what passes over the data leave may stay in memory. By default a quarter
        of what is free, at most 4 GiB.

    Returns
    -------
    ViewerWidget
        A widget of anywidget. ``close()`` ends it, and what is computed for it.

    Raises
    ------
    MissingLibraryError
        If anywidget is not installed: ``pip install 'framefold[widget]'``.
    UnsupportedError
        If frames have more than two axes.
    ArgumentTypeError
        If ``udfs`` are no dict of UDFs.

    Examples
    --------
    >>> import framefold as ff
    >>> dataset = ff.example_scan()
    >>> widget = ff.view(dataset)  # doctest: +SKIP
    """
    if not isinstance(dataset, DataSet):
        raise ArgumentTypeError(
            f"view takes a data set, got a {type(dataset).__name__}; open it first: "
            f"ff.view(ff.Context().open(path))"
        )
    require("anywidget", "framefold.view", "widgets in notebooks; 'framefold[widget]' has it")
    from framefold._viewer.widget import ViewerWidget

    return ViewerWidget(host_of(dataset, udfs, context=context, budget=budget))


def host_of(
    dataset: DataSet,
    udfs: Mapping[str, UDF] | None = None,
    *,
    context: Context | None = None,
    budget: int | None = None,
) -> _engine.ViewerHost:
    """What answers the clients of a viewer; see :func:`view`."""
    functions = None
    if udfs:
        from framefold._viewer.functions import Functions

        functions = Functions(context or Context(), dataset, udfs)
    dataset._check_files()
    corrections, corrected = dataset._corrected(None, None)
    changes = [(name, dict(given)) for name, given in dataset._changes]
    is_own = type(dataset).get_correction_data is not DataSet.get_correction_data
    if corrections is not None and is_own:
        changes.append(("piped_corrections", {}))  # a script does not know the class
    opened = dataset._opened_with
    sync_offset: Any = None
    if isinstance(dataset, MemoryDataSet):
        sync_offset = dataset._how["sync_offset"]
    return _engine.ViewerHost(
        corrected,
        _name_of(dataset),
        file=None if opened is None else opened[1:],
        changes=changes,
        functions=functions,
        reopen=None if opened is None else _Reopened(dataset, functions),
        budget=None if budget is None else whole("budget", budget),
        sync_offset=sync_offset,
    )


class _Reopened:
    """Opens the files of a data set again, with another scan.

    Gives the engine's data set with its corrections, and the functions over the new one.
    """

    def __init__(self, dataset: DataSet, functions: Functions | None) -> None:
        self._dataset = dataset
        self._functions = functions

    def __call__(
        self, nav_shape: list[int] | None, sync_offset: int | None
    ) -> tuple[_engine.Dataset, Functions | None]:
        from framefold.io.dataset._file import open_files

        old = self._dataset
        assert old._opened_with is not None
        kind, path, options = old._opened_with
        new: dict[str, Any] = {"nav_shape": nav_shape, "sync_offset": sync_offset}
        options = {**options, **{name: value for name, value in new.items() if value is not None}}
        opened = DataSet._of(*open_files(kind, path, options, quiet=True))._changed(*old._changes)
        # Its class may say how frames are corrected, by attributes of its own.
        dataset = old._with_resident(None)
        dataset.__dict__.update(opened.__dict__)
        functions = None if self._functions is None else self._functions.over(dataset)
        return dataset._corrected(None, None)[1], functions


def _name_of(dataset: DataSet) -> str:
    paths = dataset.paths
    if paths:
        # Letters that are no text are shown as the command shows them.
        return os.fsencode(paths[0].name).decode(errors="replace")
    return f"{dataset.format} {'×'.join(str(n) for n in dataset.shape)}"
