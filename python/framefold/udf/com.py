"""Centre of mass of each frame: differential phase contrast."""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

import numpy as np

from framefold.common.buffers import BufferDeclaration
from framefold.exceptions import InvalidArgumentError
from framefold.udf.base import UDF


class CoMParams(NamedTuple):
    """Parameters of :class:`CoMUDF`.

    Attributes
    ----------
    cy, cx
        The reference position in pixels; the centre of the frame if None.
    r, ri
        Only pixels with a distance to it of ``ri < distance <= r`` count; all inner ones if ``ri``
        is 0 or None.
    scan_rotation
        Rotation of the scan axes against the detector axes in degrees.
    flip_y
        Whether the detector's y axis is flipped against the scan's.
    """

    cy: float | None = None
    cx: float | None = None
    r: float = inf
    ri: float | None = 0.0
    scan_rotation: float = 0.0
    flip_y: bool = False


class CoMUDF(UDF):
    """Centre of mass of each frame.

    Parameters
    ----------
    com_params
        See :class:`CoMParams`, and :meth:`with_params`.

    Results
    -------
    raw_com : kind ``nav``, extra_shape ``(2,)``
        Centre of mass (y, x) in pixels; (cy, cx) for frames without intensity.
    raw_shifts : kind ``nav``, extra_shape ``(2,)``
        The same, relative to (cy, cx).
    field : kind ``nav``, extra_shape ``(2,)``
        Shifts (y, x) after undoing ``flip_y`` and ``scan_rotation``.
    field_y, field_x, magnitude : kind ``nav``
        The parts of ``field`` and its length.
    """

    _native_kernel = "com"

    def __init__(self, com_params: CoMParams | None = None) -> None:
        super().__init__(com_params=CoMParams() if com_params is None else com_params)

    @classmethod
    def with_params(
        cls,
        *,
        cy: float | None = None,
        cx: float | None = None,
        r: float = inf,
        ri: float | None = 0.0,
        scan_rotation: float = 0.0,
        flip_y: bool = False,
    ) -> CoMUDF:
        """A centre of mass UDF with the given :class:`CoMParams`."""
        return cls(CoMParams(cy, cx, r, ri, scan_rotation, flip_y))

    def get_result_buffers(self) -> dict[str, BufferDeclaration]:
        """Centres of mass and what follows from them."""
        if len(self.meta.dataset_shape.sig) != 2:
            raise InvalidArgumentError(
                f"CoMUDF: frames have shape {tuple(self.meta.dataset_shape.sig)}, "
                f"but the centre of mass needs two signal axes"
            )
        dtype = np.result_type(self.meta.input_dtype, np.float32)
        vector = self.buffer(kind="nav", extra_shape=(2,), dtype=dtype, use="result_only")
        scalar = self.buffer(kind="nav", dtype=dtype, use="result_only")
        return {
            "raw_com": self.buffer(kind="nav", extra_shape=(2,), dtype=dtype),
            "raw_shifts": vector,
            "field": vector,
            "field_y": scalar,
            "field_x": scalar,
            "magnitude": scalar,
        }

    def centre(self) -> tuple[float, float]:
        """The reference position (y, x) in pixels."""
        height, width = self.meta.dataset_shape.sig
        params = self.params.com_params
        return (
            height // 2 if params.cy is None else params.cy,
            width // 2 if params.cx is None else params.cx,
        )

    def get_task_data(self) -> dict[str, Any]:
        """Weights for the sum and for both moments."""
        params = self.params.com_params
        cy, cx = self.centre()
        y, x = np.indices(tuple(self.meta.dataset_shape.sig), dtype=np.float64)
        distance = np.hypot(y - cy, x - cx)
        inside = distance <= params.r
        if params.ri:
            inside &= distance > params.ri
        weights = np.stack([inside, y * inside, x * inside]).reshape((3, -1))
        return {"weights": weights.T}

    def process_frame(self, frame: Any) -> None:
        """Sum and moments of one frame."""
        total, moment_y, moment_x = frame.reshape(-1) @ self.task_data.weights
        centre = self.centre()
        self.results.raw_com[:] = (moment_y / total, moment_x / total) if total else centre

    def get_results(self) -> dict[str, Any]:
        """Shifts and fields."""
        params = self.params.com_params
        shifts = self.results.raw_com - np.asarray(self.centre())
        angle = np.deg2rad(params.scan_rotation)
        y = -shifts[:, 0] if params.flip_y else shifts[:, 0]
        x = shifts[:, 1]
        field = np.stack(
            [y * np.cos(angle) + x * np.sin(angle), x * np.cos(angle) - y * np.sin(angle)],
            axis=-1,
        )
        return {
            "raw_shifts": shifts,
            "field": field,
            "field_y": field[:, 0],
            "field_x": field[:, 1],
            "magnitude": np.hypot(field[:, 0], field[:, 1]),
        }
