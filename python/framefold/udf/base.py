"""The base class of user-defined functions."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Self

import numpy as np
import numpy.typing as npt

from framefold.common._notes import add_note
from framefold.common.buffers import (
    ArrayWithMask,
    AuxBufferWrapper,
    BufferDeclaration,
    BufferKind,
    BufferUse,
)
from framefold.common.sparse import to_dense
from framefold.common.udf import BackendConstants, TileDepthEnum, TileSizeEnum, UDFMethod
from framefold.compat.elsewhere import elsewhere
from framefold.compilation.marks import options_of
from framefold.exceptions import MissingMergeError, UDFRunCancelled
from framefold.exceptions import UDFError as UDFException
from framefold.udf._mixins import (
    UDFFrameMixin,
    UDFMergeAllMixin,
    UDFPartitionMixin,
    UDFPostprocessMixin,
    UDFPreprocessMixin,
    UDFTileMixin,
    check_cast,
)
from framefold.udf._resources import get_resources_for_backends
from framefold.udf._with_params import check_names
from framefold.udf.data import (
    PARAMETERS,
    RESULTS,
    TASK_DATA,
    MergeData,
    UDFData,
    copies_of,
    role_of,
)
from framefold.udf.meta import UDFMeta
from framefold.warnings import UseDiscouragedWarning

if TYPE_CHECKING:
    from framefold.common.slice import Slice
    from framefold.io.dataset.base import DataSet
    from framefold.udf.noop import NoOpUDF

__all__ = [
    "UDF",
    "MergeAttrMapping",
    "NoOpUDF",
    "UDFBase",
    "UDFData",
    "UDFException",
    "UDFFrameMixin",
    "UDFMergeAllMixin",
    "UDFMeta",
    "UDFMethod",
    "UDFParams",
    "UDFPartitionMixin",
    "UDFPostprocessMixin",
    "UDFPreprocessMixin",
    "UDFRunCancelled",
    "UDFTileMixin",
    "UseDiscouragedWarning",
    "check_cast",
    "get_resources_for_backends",
]

#: Methods of which one processes the data, in order of precedence.
PROCESS_METHODS = {
    "tile": "process_tile",
    "frames": "process_frames",
    "frame": "process_frame",
    "partition": "process_partition",
}


class UDF(BackendConstants):
    """Base class of user-defined functions.

    Subclasses declare result buffers in :meth:`get_result_buffers` and implement one of
    ``process_tile(self, tile)``, ``process_frames(self, frames)``, ``process_frame(self, frame)``
    and ``process_partition(self, partition)``, in this order of precedence. Keyword arguments of
    the constructor are available as ``self.params``.

    Parameters
    ----------
    **kwargs
        Parameters. A clean copy for each partition is made by calling the class with them, so
        a constructor must accept exactly what it passes on, and pass on what it is given: one that
        converts a parameter, and once more in the copy, is an error when a run is planned.

    Attributes
    ----------
    params : UDFData
        The parameters.
    results : UDFData
        Views of the result buffers: for ``nav`` buffers the part that belongs to the frames
        being processed, for ``sig`` buffers the part that belongs to the tile.
    task_data : UDFData
        What :meth:`get_task_data` returned.
    meta : UDFMeta
        Information about the run and the part being processed.
    """

    USE_NATIVE_DTYPE: ClassVar[type[np.bool_]] = np.bool_
    """Preferred dtype that leaves the data as they are."""
    TILE_SIZE_BEST_FIT: ClassVar[int] = TileSizeEnum.TILE_SIZE_BEST_FIT
    TILE_SIZE_MAX: ClassVar[float] = float("inf")
    TILE_DEPTH_DEFAULT: ClassVar[int] = TileDepthEnum.TILE_DEPTH_DEFAULT
    TILE_DEPTH_MAX: ClassVar[float] = float("inf")

    UDF_METHOD = UDFMethod

    #: Name of the engine's reduction that computes the same, for the UDFs that come with framefold.
    _native_kernel: ClassVar[str | None] = None
    #: Whether the kernel computes the merged buffers only, and :meth:`get_results` the rest.
    _native_finish: ClassVar[bool] = False
    #: Attributes that are computed from parameters, whenever they are needed.
    _computed: ClassVar[frozenset[str]] = frozenset()
    #: Whether its methods are functions by the names of parameters of ``run_udf``.
    _is_of_functions: ClassVar[bool] = False
    #: Whether results of two channels are vectors, where a kernel finishes them.
    _native_vectors: bool = False
    #: What has the functions of the C interface, for those that others compiled.
    _plugin: Any = None

    params: UDFData
    results: UDFData
    task_data: UDFData
    meta: UDFMeta

    @property
    def _shown_name(self) -> str:
        """What results and plots say they are of."""
        return type(self).__name__

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = kwargs
        #: What was in dicts among them when the constructor saw them; they may change.
        self._dicts = {name: dict(d) for name, d in kwargs.items() if type(d) is dict}
        self.params = UDFData(PARAMETERS, kwargs)
        self.results = UDFData(RESULTS)
        self.task_data = UDFData(TASK_DATA)

    @classmethod
    def new_for_partition(
        cls, kwargs: Mapping[str, Any], partition: object = None, roi: object = None
    ) -> Self:
        """A clean copy: the class called with ``kwargs``.

        Parameters
        ----------
        kwargs
            What the constructor passed to ``UDF.__init__``.
        partition, roi
            Not used; the interface has them.

        Raises
        ------
        TypeError
            If the constructor does not accept what it passed to the base class.
        """
        try:
            return cls(**kwargs)
        except TypeError as error:
            add_note(
                error,
                f"framefold makes a clean copy of {cls.__name__} by calling it with the "
                f"parameters that its constructor passed to UDF.__init__ "
                f"({', '.join(kwargs) or 'none'}); the constructor must accept exactly these",
            )
            raise

    def copy(self) -> Self:
        """A clean copy of this UDF."""
        # Classes that override it may have the other two without a default.
        return self.new_for_partition(self._kwargs, None, None)

    def copy_for_partition(self, partition: object = None, roi: object = None) -> Self:
        """A clean copy of this UDF, for one partition."""
        return self.new_for_partition(self._kwargs, partition, roi)

    def with_params(self, **params: Any) -> Self:
        """A clean copy of this UDF with some parameters changed.

        It is made as those for partitions are: the class is called with what the constructor
        passed to ``UDF.__init__``, where ``params`` take the place of what is there. The parameters
        that stay are the same objects; attributes that were set on the object, and what it has
        learned in a run, do not go along.

        Parameters
        ----------
        **params
            The parameters to change, by their names in ``self.params``.

        Raises
        ------
        InvalidArgumentError
            If there is no such parameter.
        """
        return self._other(params)

    def _other(self, params: Mapping[str, Any]) -> Self:
        """A copy with these parameters changed."""
        return self.new_for_partition(self._changed(params), None, None)

    def _changed(self, params: Mapping[str, Any]) -> dict[str, Any]:
        """What the class is called with for a copy with these parameters changed."""
        if "_kwargs" not in self.__dict__:
            raise UDFException(
                f"{type(self).__name__}.__init__ does not call super().__init__; it has to pass "
                f"all parameters on to it, as keyword arguments"
            )
        check_names(type(self).__name__, params, self._parameter_names())
        return {**self._kwargs, **params}

    def _parameter_names(self) -> Iterable[str]:
        """The parameters that can be changed."""
        return self._kwargs

    def get_result_buffers(self) -> dict[str, BufferDeclaration]:
        """Declare the result buffers: name to :meth:`buffer`.

        ``self.meta`` is available; names must be valid Python identifiers.
        """
        raise NotImplementedError(f"{type(self).__name__} does not implement get_result_buffers")

    def buffer(
        self,
        kind: BufferKind,
        extra_shape: Sequence[int] = (),
        dtype: npt.DTypeLike = "float32",
        where: str | None = None,
        use: BufferUse | None = None,
        *,
        unit: str = "",
        vector: bool = False,
    ) -> BufferDeclaration:
        """Declare a result buffer.

        Parameters
        ----------
        kind
            ``'nav'``: one entry per frame; ``'sig'``: one entry per pixel of a frame;
            ``'single'``: a shape of its own.
        extra_shape
            Axes appended to that shape. ``'single'`` without it has shape ``(1,)``.
        dtype
            Any NumPy dtype.
        where
            ``'device'`` keeps the buffer on a CUDA device until a partition is done, where the
            UDF gets arrays of CuPy; it is an array of CuPy, then.
        use
            ``'private'`` leaves the buffer out of the results; ``'result_only'`` says that it
            is only computed in :meth:`get_results`.
        unit
            The unit of the values, for pictures and files: ``'px'``, ``'mrad'``.
        vector
            The last axis, of length 2, holds the components (y, x) of vectors. Pictures show these
            as one field of colours; those of other results of two channels are two pictures.
        """
        return BufferDeclaration(kind, extra_shape, dtype, where, use, unit=unit, vector=vector)

    def _native_parameters(self, dtype: np.dtype[Any]) -> dict[str, Any] | None:
        """Parameters in the reduction's row, for data of ``dtype``; None if it cannot take them."""
        return {}

    def _native_declaration(self, dtype: np.dtype[Any]) -> dict[str, Any] | None:
        """The same for a kernel that declares its results, and will process no frame."""
        return self._native_parameters(dtype)

    def get_method(self) -> UDFMethod | str:
        """What processes the data: ``'tile'``, ``'frames'``, ``'frame'`` or ``'partition'``."""
        for method, name in PROCESS_METHODS.items():
            if hasattr(self, name):
                return UDFMethod(method)
        raise TypeError(
            f"{type(self).__name__} implements none of {', '.join(PROCESS_METHODS.values())}; "
            f"implement one of them"
        )

    def _marked_function(self, method: str) -> Callable[..., Any] | None:
        """What processes the data by that method, if it is to be compiled."""
        function = getattr(type(self), PROCESS_METHODS[method], None)
        return function if options_of(function) is not None else None

    def get_preferred_input_dtype(self) -> npt.DTypeLike:
        """The dtype that the data should be converted to, unless they need a wider one."""
        return np.float32

    def get_tiling_preferences(self) -> dict[str, Any]:
        """Wishes for the size of tiles: ``depth`` in frames and ``total_size`` in bytes.

        For ``process_frames``, if this is overridden, the most frames, and the most bytes, that
        it gets at a time; otherwise as many as fit the cache.
        """
        return {"depth": self.TILE_DEPTH_DEFAULT, "total_size": self.TILE_SIZE_MAX}

    def get_task_data(self) -> dict[str, Any]:
        """Objects to be made once per partition, available as ``self.task_data``."""
        return {}

    def preprocess(self) -> None:
        """Initialize result buffers; runs before each partition, and for the merged result."""

    def postprocess(self) -> None:
        """Finish a partition; runs after its data were processed."""

    def merge(self, dest: UDFData, src: UDFData) -> None:
        """Merge the partial result ``src`` into ``dest``.

        The default assigns; it works for UDFs whose buffers are all of kind ``nav``, and is an
        error for others, also where a method that overrides it calls it. Such a method has to
        assign buffers of kind ``nav``, too; what it returns has no effect.
        """
        declared = role_of(dest).declared
        for name, part in vars(src).items():
            if declared[name].kind != "nav":
                raise missing_merge(type(self).__name__, not_assignable(declared))
            getattr(dest, name)[:] = part

    def merge_all(self, ordered_results: Mapping[Slice, Mapping[str, Any]]) -> Mapping[str, Any]:
        """Merge the partial results of all partitions in one step.

        Called instead of :meth:`merge` by
        :class:`~framefold.executor.delayed.DelayedJobExecutor`, and by no other executor; what it
        gives has to be what :meth:`merge` gives. It is called before anything is computed, on
        arrays of Dask, so it builds a part of the graph of tasks.

        The default puts ``nav`` buffers together; it works for UDFs that have no others, and no
        :meth:`merge` of their own. Those of which it cannot are merged by :meth:`merge`.

        Parameters
        ----------
        ordered_results
            For each partition, in order: its :class:`~framefold.common.slice.Slice`, with
            flattened navigation axes and counted within the ROI, and its result buffers by name,
            which are attributes, too. Buffers of kind ``nav`` have one entry for each frame of
            the partition.

        Returns
        -------
        dict
            Name to array of Dask or NumPy; ``nav`` buffers with one entry for each frame of all
            partitions. Buffers that are left out are zero.
        """
        if self.requires_custom_merge_all:
            raise NotImplementedError(
                f"{type(self).__name__} has no merge_all of a base class to call, and its results "
                f"cannot just be put together; merge them in its own merge_all, or leave that out: "
                f"merge does the same"
            )
        partitions = list(ordered_results.values())
        return {
            name: np.concatenate([results[name] for results in partitions])
            for name in (partitions[0] if partitions else ())
        }

    @property
    def _assigns(self) -> bool:
        """Whether partial results are assigned to merged ones, which are the results."""
        return not self._overrides("merge") and not self._computes_results

    @property
    def _computes_results(self) -> bool:
        """Whether :meth:`get_results` does more than to give what is merged."""
        return self._overrides("get_results")

    def _overrides(self, method: str) -> bool:
        """Whether its class, or the object itself, has another method in place of this one."""
        return getattr(type(self), method) is not getattr(UDF, method) or method in vars(self)

    def get_results(self) -> dict[str, Any]:
        """Compute results from the merged buffers; runs on the main side, perhaps repeatedly.

        The base class returns the merged public buffers by name. They are copies, which may be
        changed; buffers with ``use="result_only"`` are not among them, as nothing merges these.

        Returns
        -------
        dict
            Name to array. Public buffers that are left out are returned as they are, but those with
            ``use="result_only"`` must not be left out.
        """
        return copies_of(self.results)

    def _doubts(self, dataset: DataSet) -> list[str]:
        """What is odd about its parameters for that data set, and no error."""
        return []

    def _at_begin(self, dataset: DataSet) -> None:
        """What is to be forgotten, or refused, when a run of this object is planned."""

    def _at_end(self) -> Callable[[bool], None] | None:
        """What is to be called when the run is over, with whether it is complete.

        Asked for on the main side, after :meth:`preprocess`.
        """
        return None

    def cleanup(self) -> None:
        """Release what a partition held; runs after each partition."""

    @classmethod
    def aux_data(
        cls,
        data: npt.ArrayLike,
        kind: BufferKind,
        extra_shape: Sequence[int] = (),
        dtype: npt.DTypeLike = "float32",
    ) -> AuxBufferWrapper:
        """Make auxiliary data, to be passed as a parameter.

        While a frame, tile or partition is processed, the parameter is a read-only view of the
        part that belongs to it.

        Parameters
        ----------
        data
            For kind ``'nav'`` of shape ``(*nav, *extra_shape)``, or with flattened navigation
            axes; for ``'sig'`` of shape ``(*sig, *extra_shape)``; for ``'single'`` of shape
            ``extra_shape``. Of the whole data set, whatever the ROI.
        kind, extra_shape, dtype
            As for :meth:`buffer`.
        """
        return AuxBufferWrapper(kind, extra_shape, dtype, data=data)

    def get_backends(self) -> str | Sequence[str]:
        """The array formats that the UDF takes, the one to prefer first; by default NumPy's.

        One or several of the ``BACKEND_`` constants. A run chooses one of them for each UDF, see
        :attr:`UDFMeta.array_backend`: one in which the data set has its data, if there is one,
        and otherwise rather one of the same kind, dense or sparse.

        Sparse formats of SciPy, and ``numpy.matrix``, have two axes: tiles and partitions come
        with flattened signal axes, ``(frames, pixels)``, and frames as ``(1, pixels)``. Others
        have the shapes that dense arrays have. Functions may change them, but not arrays on a CUDA
        device, which all functions of a run share.

        A run with formats of CUDA uses the devices of its context; see the guide.
        """
        return (self.BACKEND_NUMPY,)

    def forbuf(self, arr: Any, target: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Convert an array to one that can be assigned to the result buffer ``target``.

        Parameters
        ----------
        arr
            Dense or sparse, in any of the array formats; of the shape of ``target``, or with as
            many elements.
        target
            A view in ``self.results``; of NumPy or CuPy, and so is what is returned.
        """
        if isinstance(target, np.ndarray):
            dense = to_dense(arr)
        else:
            from framefold.arrays.cuda.arrays import to_device

            dense = to_device(arr)
        return dense.reshape(target.shape) if dense.size == target.size else dense

    @staticmethod
    def with_mask(data: npt.ArrayLike, mask: npt.ArrayLike | bool) -> ArrayWithMask:
        """A result of :meth:`get_results` that is valid only where ``mask`` is True."""
        return ArrayWithMask(data, mask)

    @property
    def xp(self) -> Any:
        """The array module to compute with: CuPy where the UDF gets arrays of CuPy, or NumPy."""
        meta = self.__dict__.get("meta")
        if meta is not None and meta.array_backend in self.CUPY_BACKENDS:
            import cupy

            return cupy
        return np

    @property
    def requires_custom_merge(self) -> bool:
        """Whether the default :meth:`merge` cannot merge the declared buffers."""
        return bool(not_assignable(self.get_result_buffers()))

    @property
    def requires_custom_merge_all(self) -> bool:
        """Whether results cannot be merged in one step by putting them together."""
        return self._overrides("merge") or self.requires_custom_merge

    def __getstate__(self) -> Any:
        # Pickles and copies do not hold what the latest run left, which may be large.
        from framefold.udf.engine.main_side import without_run

        return without_run(super().__getstate__())

    @property
    def _process(self) -> Callable[[Any], None]:
        method: Callable[[Any], None] = getattr(self, PROCESS_METHODS[self.get_method()])
        return method

    def __repr__(self) -> str:
        params = ", ".join(f"{name}={value!r}" for name, value in self._kwargs.items())
        return f"{type(self).__name__}({params})"


def not_assignable(buffers: Mapping[str, BufferDeclaration]) -> dict[str, BufferDeclaration]:
    """The buffers to which partial results cannot just be assigned."""
    return {
        name: decl
        for name, decl in buffers.items()
        if decl.kind != "nav" and decl.use != "result_only"
    }


def missing_merge(udf: str, unmerged: Mapping[str, BufferDeclaration]) -> MissingMergeError:
    """That the default :meth:`UDF.merge` cannot merge these buffers."""
    names = ", ".join(f"{name!r} ({decl.kind})" for name, decl in unmerged.items())
    return MissingMergeError(
        f"{udf} needs a merge method: the default one only assigns buffers of kind 'nav', but "
        f"there are also {names}; implement merge(self, dest, src) for all buffers, without "
        f"super().merge(…)"
    )


def own_method(udf: UDF, builtin: type[UDF]) -> UDFMethod:
    """The way to process data that a class has of its own, in order of precedence, else tiles.

    Parameters
    ----------
    udf
        Of a class that derives from ``builtin``.
    builtin
        Has ``process_tile`` and ``process_frame``, which do the same.
    """
    cls: Any = type(udf)
    for method in (UDFMethod.TILE, UDFMethod.FRAMES, UDFMethod.FRAME):
        name = PROCESS_METHODS[method]
        if getattr(cls, name, None) is not getattr(builtin, name, None):
            return method
    return UDFMethod.TILE


#: The reference system's names for the same things.
UDFBase = UDF
UDFParams = UDFData
MergeAttrMapping = MergeData


def __getattr__(name: str) -> Any:
    """Names that scripts find here, as in the reference."""
    return elsewhere(__name__, name)
