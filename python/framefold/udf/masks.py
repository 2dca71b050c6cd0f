"""Products of each frame with masks: virtual detectors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.common.buffers import BufferDeclaration
from framefold.exceptions import InvalidArgumentError, UnsupportedError
from framefold.udf.base import UDF

MaskFactory = Callable[[], Any]


class ApplyMasksUDF(UDF):
    """The scalar product of each frame with each of a number of masks.

    Parameters
    ----------
    mask_factories
        One function that returns a stack of masks, shape ``(n_masks, *sig)``, or one function
        per mask that returns an array of the shape of a frame. Functions, not arrays, so that
        they are cheap to send to workers.
    use_sparse
        ``False`` or None; sparse masks are not supported yet.
    mask_count
        The number of masks, if ``mask_factories`` is one function; checked.
    mask_dtype
        The dtype to convert masks to.
    preferred_dtype
        The preferred dtype of the data.

    Results
    -------
    intensity : kind ``nav``, extra_shape ``(n_masks,)``, dtype ``result_type(data, masks)``
    """

    _native_kernel = "masks"

    def __init__(
        self,
        mask_factories: MaskFactory | Sequence[MaskFactory],
        use_sparse: bool | None = None,
        mask_count: int | None = None,
        mask_dtype: npt.DTypeLike | None = None,
        preferred_dtype: npt.DTypeLike | None = None,
    ) -> None:
        if use_sparse:
            raise UnsupportedError(
                "ApplyMasksUDF: sparse masks are not supported yet; use use_sparse=False"
            )
        super().__init__(
            mask_factories=mask_factories,
            use_sparse=use_sparse,
            mask_count=mask_count,
            mask_dtype=mask_dtype,
            preferred_dtype=preferred_dtype,
        )

    def mask_stack(self) -> npt.NDArray[Any]:
        """All masks, shape ``(n_masks, *sig)``."""
        factories = self.params.mask_factories
        if callable(factories):
            stack = np.asarray(factories())
        else:
            stack = np.stack([np.asarray(factory()) for factory in factories])
        count = self.params.mask_count
        if count is not None and count != len(stack):
            raise InvalidArgumentError(
                f"ApplyMasksUDF: mask_count is {count}, but the factory made {len(stack)} masks"
            )
        if self.params.mask_dtype is not None:
            stack = stack.astype(self.params.mask_dtype)
        return stack

    def get_preferred_input_dtype(self) -> npt.DTypeLike:
        """The ``preferred_dtype`` parameter, or float32."""
        preferred = self.params.preferred_dtype
        return np.float32 if preferred is None else np.dtype(preferred)

    def get_task_data(self) -> dict[str, Any]:
        """The masks with flattened signal axes, one per column."""
        stack = self._checked_stack()
        return {"masks": stack.reshape((len(stack), -1)).T}

    def get_result_buffers(self) -> dict[str, BufferDeclaration]:
        """One number per frame and mask."""
        stack = self._checked_stack()
        dtype = np.result_type(self.meta.input_dtype, stack.dtype)
        return {"intensity": self.buffer(kind="nav", extra_shape=(len(stack),), dtype=dtype)}

    def process_frame(self, frame: Any) -> None:
        """Multiply."""
        self.results.intensity[:] = frame.reshape(-1) @ self.task_data.masks

    def _checked_stack(self) -> npt.NDArray[Any]:
        stack = self.mask_stack()
        sig = tuple(self.meta.dataset_shape.sig)
        if stack.shape[1:] != sig:
            raise InvalidArgumentError(
                f"ApplyMasksUDF: the masks have shape {stack.shape[1:]}, "
                f"but frames have shape {sig}"
            )
        return stack
