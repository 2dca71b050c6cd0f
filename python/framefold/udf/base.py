"""The base class of user-defined functions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from framefold.common.aux_data import AuxBufferWrapper
from framefold.common.buffers import (
    ArrayWithMask,
    BufferDeclaration,
    BufferKind,
    BufferUse,
)
from framefold.common.udf import BackendConstants, UDFMethod
from framefold.udf.data import UDFData
from framefold.udf.meta import UDFMeta

__all__ = ["UDF", "NoOpUDF", "UDFData", "UDFMeta"]

#: Methods of which one processes the data, in order of precedence.
PROCESS_METHODS = {
    "tile": "process_tile",
    "frame": "process_frame",
    "partition": "process_partition",
}


class UDF(BackendConstants):
    """Base class of user-defined functions.

    Subclasses declare result buffers in :meth:`get_result_buffers` and implement one of
    ``process_tile(self, tile)``, ``process_frame(self, frame)`` and
    ``process_partition(self, partition)``, in this order of precedence. Keyword arguments of
    the constructor are available as ``self.params``.

    Parameters
    ----------
    **kwargs
        Parameters. A clean copy for each partition is made by calling the class with them, so
        a constructor must accept exactly what it passes on.

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
    TILE_SIZE_BEST_FIT: ClassVar[int] = 1 << 20
    TILE_SIZE_MAX: ClassVar[float] = float("inf")
    TILE_DEPTH_DEFAULT: ClassVar[int] = 32
    TILE_DEPTH_MAX: ClassVar[float] = float("inf")

    UDF_METHOD = UDFMethod

    #: Name of the native kernel that computes the same, for the UDFs that come with framefold.
    _native_kernel: ClassVar[str | None] = None
    #: Whether the kernel computes the merged buffers only, and :meth:`get_results` the rest.
    _native_finish: ClassVar[bool] = False

    params: UDFData
    results: UDFData
    task_data: UDFData
    meta: UDFMeta

    def __init__(self, **kwargs: Any) -> None:
        self._kwargs = kwargs
        self.params = UDFData("parameter", kwargs)
        self.results = UDFData("result buffer")
        self.task_data = UDFData("task data")

    @classmethod
    def new_for_partition(cls, kwargs: Mapping[str, Any]) -> UDF:
        """A clean copy: the class called with ``kwargs``.

        Raises
        ------
        TypeError
            If the constructor does not accept what it passed to the base class.
        """
        try:
            return cls(**kwargs)
        except TypeError as error:
            error.add_note(
                f"framefold makes a clean copy of {cls.__name__} by calling it with the "
                f"parameters that its constructor passed to UDF.__init__ "
                f"({', '.join(kwargs) or 'none'}); the constructor must accept exactly these"
            )
            raise

    def copy(self) -> UDF:
        """A clean copy of this UDF."""
        return self.new_for_partition(self._kwargs)

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
            ``'device'`` keeps the buffer on a GPU, if one is used.
        use
            ``'private'`` leaves the buffer out of the results; ``'result_only'`` says that it
            is only computed in :meth:`get_results`.
        """
        return BufferDeclaration(kind, extra_shape, dtype, where, use)

    def get_method(self) -> str:
        """Which method processes the data: ``'tile'``, ``'frame'`` or ``'partition'``."""
        for method, name in PROCESS_METHODS.items():
            if hasattr(self, name):
                return method
        raise TypeError(
            f"{type(self).__name__} implements none of {', '.join(PROCESS_METHODS.values())}; "
            f"implement one of them"
        )

    def get_preferred_input_dtype(self) -> npt.DTypeLike:
        """The dtype that the data should be converted to, unless they need a wider one."""
        return np.float32

    def get_tiling_preferences(self) -> dict[str, Any]:
        """Wishes for the size of tiles: ``depth`` in frames and ``total_size`` in bytes."""
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

        The default assigns; it works for UDFs whose buffers are all of kind ``nav``.
        """
        for name, array in src.items():
            getattr(dest, name)[:] = array

    def get_results(self) -> dict[str, Any]:
        """Compute results from the merged buffers; runs on the main side, perhaps repeatedly.

        Returns
        -------
        dict
            Name to array. Public buffers that are left out are returned as they are.
        """
        return {}

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
        """The array formats that the UDF takes, the one to prefer first: dense NumPy."""
        return (self.BACKEND_NUMPY,)

    def forbuf(self, arr: Any, target: npt.NDArray[Any]) -> npt.NDArray[Any]:
        """Convert an array to one that can be assigned to the result buffer ``target``.

        Parameters
        ----------
        arr
            Dense or sparse; of the shape of ``target``, or with as many elements.
        """
        if hasattr(arr, "toarray"):
            arr = arr.toarray()
        elif hasattr(arr, "todense"):
            arr = arr.todense()
        dense = np.asarray(arr)
        return dense.reshape(target.shape) if dense.size == target.size else dense

    def with_mask(self, data: npt.ArrayLike, mask: npt.ArrayLike | bool) -> ArrayWithMask:
        """A result of :meth:`get_results` that is valid only where ``mask`` is True."""
        return ArrayWithMask(data, mask)

    @property
    def xp(self) -> Any:
        """The array module to compute with: NumPy."""
        return np

    def requires_custom_merge(self, buffers: Mapping[str, BufferDeclaration]) -> bool:
        """Whether the default :meth:`merge` cannot merge these buffers."""
        return any(decl.kind != "nav" for decl in buffers.values() if decl.use is None)

    @property
    def _process(self) -> Callable[[Any], None]:
        method: Callable[[Any], None] = getattr(self, PROCESS_METHODS[self.get_method()])
        return method

    def __repr__(self) -> str:
        params = ", ".join(f"{name}={value!r}" for name, value in self._kwargs.items())
        return f"{type(self).__name__}({params})"


# Published code imports it from here; it needs the class above.
from framefold.udf.noop import NoOpUDF  # noqa: E402
