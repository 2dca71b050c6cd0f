"""The Python half of the engine's adapter for Python UDFs.

The engine calls a :class:`Bridge` when it plans, a :class:`PartitionTask` once per partition
on a worker thread, and a :class:`MergeTask` on the main side. What happens once per tile or
frame is done by the engine itself, which sets views through ``PartitionTask.bindings``.
"""

from __future__ import annotations

import sys
import weakref
from collections.abc import Mapping
from math import isinf
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold._engine import TileCursor
from framefold.common.aux_data import AuxBufferWrapper
from framefold.common.buffers import ArrayWithMask, BufferDeclaration
from framefold.common.shape import Shape
from framefold.common.tiling_scheme import TilingScheme
from framefold.exceptions import UDFError, UnsupportedError
from framefold.io.corrections.corrset import CorrectionSet
from framefold.udf._results import check_omitted, final_results
from framefold.udf.base import PROCESS_METHODS, UDF, not_assignable
from framefold.udf.data import MergeData, UDFData
from framefold.udf.meta import UDFMeta

Buffers = dict[str, BufferDeclaration]
Arrays = dict[str, npt.NDArray[Any]]
Binding = tuple[dict[str, Any], str, npt.NDArray[Any], str, bool]
Declared = tuple[str, str, tuple[int, ...], str, int, str | None]


class Bridge:
    """What the planner asks about one UDF of a run."""

    def __init__(
        self,
        udf: UDF,
        shape: Shape,
        dtype: npt.DTypeLike,
        roi: npt.NDArray[np.bool_] | None,
        corrections: CorrectionSet | None = None,
    ) -> None:
        self.udf = udf
        self.corrections = CorrectionSet() if corrections is None else corrections
        self.shape = shape
        self.dtype = np.dtype(dtype)
        self.roi = roi
        self.n_selected = shape.nav.size if roi is None else int(np.count_nonzero(roi))
        self.input_dtype: np.dtype[Any] = self.dtype
        #: The copy that merges, once there is one.
        self.main_side: weakref.ref[UDF] | None = None

    def requirements(self, native_dtype: str) -> tuple[str, str, int | None, int | None]:
        """Method, preferred dtype, tile depth and tile size in bytes."""
        udf = self.udf.copy()
        udf.meta = self.meta()
        self._check_backends(udf)
        method = str(getattr(udf.get_method(), "value", udf.get_method()))
        if method not in PROCESS_METHODS:
            raise UDFError(
                f"{self.name}.get_method returned {method!r}, "
                f"expected one of {', '.join(map(repr, PROCESS_METHODS))}"
            )
        if not hasattr(udf, PROCESS_METHODS[method]):
            raise UDFError(
                f"{self.name}.get_method returned {method!r}, "
                f"but there is no {PROCESS_METHODS[method]}"
            )
        preferred = np.dtype(udf.get_preferred_input_dtype())
        preferences = udf.get_tiling_preferences() if method == "tile" else {}
        depth = _finite(preferences.get("depth"))
        total_size = _finite(preferences.get("total_size"))
        return method, preferred.name, depth, total_size

    def declare(self, input_dtype: str) -> list[Declared]:
        """The declared buffers; checks the rules for them."""
        self.input_dtype = np.dtype(input_dtype)
        buffers = declared_buffers(self.copy_with(self.meta()))
        unmerged = not_assignable(buffers) if type(self.udf).merge is UDF.merge else {}
        if unmerged:
            names = ", ".join(f"{name!r} ({decl.kind})" for name, decl in unmerged.items())
            raise UDFError(
                f"{self.name} needs a merge method: the default one only assigns buffers of kind "
                f"'nav', but there are also {names}; implement merge(self, dest, src)"
            )
        if type(self.udf).get_results is UDF.get_results:
            check_omitted(self.name, buffers, {})
        return [
            (name, decl.kind, decl.extra_shape, decl.dtype.name, decl.dtype.itemsize, decl.use)
            for name, decl in buffers.items()
        ]

    def begin(self, depth: int, tile_shape: list[int], n_partitions: int) -> RunDescription:
        """The description of the run that all its partitions share."""
        return RunDescription(self, depth, tuple(tile_shape), n_partitions)

    def _check_backends(self, udf: UDF) -> None:
        """Refuse a UDF that does not take what there is."""
        backends = udf.get_backends()
        backends = (backends,) if isinstance(backends, str) else tuple(backends)
        known = udf.CPU_BACKENDS | udf.CUDA_BACKENDS
        for backend in backends:
            if backend not in known:
                raise UDFError(
                    f"{self.name}.get_backends returned {backend!r}, which is no array format; "
                    f"use the BACKEND_ constants of UDF"
                )
        if udf.BACKEND_NUMPY not in backends:
            raise UnsupportedError(
                f"{self.name} takes {', '.join(backends) or 'no array format'}, but only dense "
                f"NumPy arrays are to be had; add BACKEND_NUMPY to get_backends"
            )

    def update_parameters(self, changed: UDF, parameters: Mapping[str, Any]) -> None:
        """Use ``changed``, which has other ``parameters``, for all partitions to come."""
        self.udf = changed
        main_side = None if self.main_side is None else self.main_side()
        if main_side is not None:
            main_side.params.__dict__.update(
                {name: changed.params.get(name, value) for name, value in parameters.items()}
            )

    @property
    def name(self) -> str:
        """The name of the UDF's class."""
        return type(self.udf).__name__

    def meta(self, **kwargs: Any) -> UDFMeta:
        """Meta information of this run."""
        return UDFMeta(
            dataset_shape=self.shape,
            dataset_dtype=self.dtype,
            input_dtype=self.input_dtype,
            roi=self.roi,
            corrections=self.corrections,
            **kwargs,
        )

    def copy_with(self, meta: UDFMeta) -> UDF:
        """A clean copy of the UDF that knows ``meta``."""
        udf = self.udf.copy()
        udf.meta = meta
        return udf


class RunDescription:
    """What all partitions of a run share."""

    def __init__(
        self, bridge: Bridge, depth: int, tile_shape: tuple[int, ...], n_partitions: int
    ) -> None:
        self.bridge = bridge
        self.n_partitions = n_partitions
        self.tiling_scheme = TilingScheme(tile_shape, bridge.shape, depth)
        #: AUX data of the whole data set, with flattened navigation axes.
        self.aux = {
            name: (wrapper.kind, wrapper.laid_out(name, bridge.shape))
            for name, wrapper in bridge.udf.params.items()
            if isinstance(wrapper, AuxBufferWrapper)
        }
        self.positions = None if bridge.roi is None else np.flatnonzero(bridge.roi)

    def aux_for(self, start: int, stop: int) -> dict[str, npt.NDArray[Any]]:
        """AUX data for the selected frames ``start`` to ``stop``."""
        part: Any = slice(start, stop)
        if self.positions is not None:
            part = self.positions[part]
        views = {}
        for name, (kind, data) in self.aux.items():
            view = data[part] if kind == "nav" else data
            view.flags.writeable = False
            views[name] = view
        return views

    def partition(self, index: int, start: int, stop: int) -> PartitionTask:
        """The worker for the selected frames ``start`` to ``stop``."""
        return PartitionTask(self, index, start, stop)

    def merger(self) -> MergeTask:
        """The keeper of the merged result."""
        return MergeTask(self)


class PartitionTask:
    """A clean copy of the UDF at work on one partition."""

    def __init__(self, run: RunDescription, index: int, start: int, stop: int) -> None:
        bridge = run.bridge
        self.cursor = TileCursor(start, stop)
        meta = bridge.meta(run=run, partition=(start, stop), cursor=self.cursor)
        self.udf = bridge.copy_with(meta)
        self.buffers = declared_buffers(self.udf)
        self.arrays = allocate(self.buffers, bridge.shape, stop - start)
        self.udf.results = UDFData("result buffer", self.arrays)
        aux = run.aux_for(start, stop)
        self.udf.params.__dict__.update(aux)
        self.udf.task_data = UDFData("task data", self.udf.get_task_data())
        self.udf.preprocess()
        self.method = str(getattr(self.udf.get_method(), "value", self.udf.get_method()))
        self.process = getattr(self.udf, PROCESS_METHODS[self.method])
        self.partition = (start, stop)
        self.bindings: list[Binding] = [
            (self.udf.results.__dict__, sys.intern(name), array, self.buffers[name].kind, True)
            for name, array in self.arrays.items()
        ]
        self.bindings += [
            (self.udf.params.__dict__, sys.intern(name), view, run.aux[name][0], False)
            for name, view in aux.items()
        ]
        self.aux = aux

    def finish(self) -> tuple[Arrays, int]:
        """Post-process; returns the partial result and its size in bytes."""
        self.udf.results.__dict__.update(self.arrays)
        self.udf.params.__dict__.update(self.aux)
        self.udf.postprocess()
        self.udf.cleanup()
        return self.arrays, sum(array.nbytes for array in self.arrays.values())


class MergeTask:
    """The UDF on the main side: merges partial results and computes the final ones."""

    def __init__(self, run: RunDescription) -> None:
        bridge = run.bridge
        self.run = run
        self.bridge = bridge
        self.merged = np.zeros(bridge.n_selected, dtype=bool)
        self.udf = bridge.copy_with(bridge.meta(run=run, merged=self.merged))
        bridge.main_side = weakref.ref(self.udf)
        self.buffers = declared_buffers(self.udf)
        self.arrays = allocate(self.buffers, bridge.shape, bridge.n_selected)
        self.udf.results = UDFData("result buffer", self.arrays)
        self.udf.task_data = UDFData("task data")
        self._show_all()
        self.udf.preprocess()

    def _show_all(self) -> None:
        """Set the views of results and AUX data to all selected frames."""
        self.udf.results.__dict__.update(self.arrays)
        self.udf.params.__dict__.update(self.run.aux_for(0, self.bridge.n_selected))

    def merge(self, start: int, stop: int, partial: Arrays) -> None:
        """Merge the partial result of the selected frames ``start`` to ``stop``."""
        part = slice(start, stop)
        views = {
            name: array[part] if self.buffers[name].kind == "nav" else array
            for name, array in self.arrays.items()
        }
        self.udf.params.__dict__.update(self.run.aux_for(start, stop))
        self.udf.merge(MergeData("result buffer", views), MergeData("result buffer", partial))
        self.merged[part] = True

    def results(self) -> list[npt.NDArray[Any] | ArrayWithMask]:
        """The public results, in the order of their declaration."""
        self._show_all()
        return final_results(
            self.bridge.name,
            self.buffers,
            self.arrays,
            self.udf.get_results(),
            self.bridge.shape,
            self.bridge.n_selected,
        )


def declared_buffers(udf: UDF) -> Buffers:
    """What ``get_result_buffers`` of ``udf`` declares, checked."""
    name = type(udf).__name__
    buffers = udf.get_result_buffers()
    if not isinstance(buffers, dict):
        raise UDFError(
            f"{name}.get_result_buffers returned {type(buffers).__name__}, expected a dict of "
            f"buffer name to self.buffer(...)"
        )
    for key, decl in buffers.items():
        if not isinstance(key, str) or not key.isidentifier():
            raise UDFError(
                f"{name} declares a buffer {key!r}; a buffer's name must be a valid Python "
                f"identifier, because it is reached as self.results.<name>"
            )
        if not isinstance(decl, BufferDeclaration):
            raise UDFError(
                f"{name} declares buffer {key!r} as {type(decl).__name__}; use self.buffer(...)"
            )
        if decl.kind not in ("nav", "sig", "single"):
            raise UDFError(
                f"{name} declares buffer {key!r} with kind {decl.kind!r}; "
                f"use 'nav', 'sig' or 'single'"
            )
        if decl.use not in (None, "private", "result_only"):
            raise UDFError(
                f"{name} declares buffer {key!r} with use={decl.use!r}; "
                f"use None, 'private' or 'result_only'"
            )
    return dict(buffers)


def allocate(buffers: Buffers, shape: Shape, n_frames: int) -> Arrays:
    """Zeroed arrays for all buffers that exist on workers, navigation flattened."""
    return {
        name: np.zeros(decl.flat_shape(shape, n_frames), dtype=decl.dtype)
        for name, decl in buffers.items()
        if decl.use != "result_only"
    }


def _finite(wish: Any) -> int | None:
    """A tiling preference as a number, or None for "as much as possible"."""
    if wish is None or isinf(wish) or wish >= sys.maxsize:
        return None
    return max(1, int(wish))
