"""Centre of mass of each frame: differential phase contrast."""

from __future__ import annotations

from enum import IntEnum
from math import inf, isfinite, isnan
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from framefold.common.buffers import BufferDeclaration
from framefold.common.sparse import is_sparse, to_csr
from framefold.exceptions import InvalidArgumentError, UnsupportedError
from framefold.udf._vector_field import (
    GuessResult,
    apply_correction,
    center_shifts,
    com_masks_factory,
    com_masks_generic,
    coordinate_check,
    curl_2d,
    divergence,
    guess_corrections,
    magnitude,
)
from framefold.udf.base import UDF

__all__ = [
    "CoMParams",
    "CoMUDF",
    "GuessResult",
    "RegressionOptions",
    "RegressionOptionsT",
    "apply_correction",
    "center_shifts",
    "com_masks_factory",
    "com_masks_generic",
    "coordinate_check",
    "curl_2d",
    "divergence",
    "guess_corrections",
    "magnitude",
]


class RegressionOptions(IntEnum):
    """What :class:`CoMUDF` fits to the field and subtracts from it."""

    NO_REGRESSION = -1
    """Nothing."""
    SUBTRACT_MEAN = 0
    """Its mean: the centre was off."""
    SUBTRACT_LINEAR = 1
    """A plane for each component: the centre was off, and moved with the scan."""


RegressionOptionsT = npt.NDArray[Any] | RegressionOptions | Literal[-1, 0, 1]


class CoMParams(NamedTuple):
    """Parameters of :class:`CoMUDF`, described at :meth:`CoMUDF.with_params`."""

    cy: float | None = None
    cx: float | None = None
    r: float = inf
    ri: float | None = 0.0
    scan_rotation: float = 0.0
    flip_y: bool = False
    regression: RegressionOptionsT = RegressionOptions.NO_REGRESSION


class CoMUDF(UDF):
    """Centre of mass of each frame, and the field that follows from it.

    The pass over the data runs on a native kernel.

    Parameters
    ----------
    com_params
        Made most easily by :meth:`with_params`.

    Results
    -------
    raw_shifts : kind ``nav``, extra_shape ``(2,)``
        Centre of mass (y, x) relative to (cy, cx), in pixels; 0 for frames without intensity.
    raw_com : kind ``nav``, extra_shape ``(2,)``
        The same, relative to the first pixel.
    field : kind ``nav``, extra_shape ``(2,)``
        Shifts (y, x) in the axes of the scan: after ``flip_y``, then ``scan_rotation``, less
        the ``regression``.
    field_y, field_x : kind ``nav``
        Its components.
    regression : kind ``single``, extra_shape ``(3, 2)``, float64
        What was subtracted, (y, x) each: at the first position of the scan, more per row, and
        more per column.
    magnitude : kind ``nav``
        The length of ``field``.
    divergence, curl : kind ``nav``
        Of ``field``, per scan step, by finite differences. NaN where a neighbour that is needed
        lies outside of the ROI, and for scans that do not have two axes of at least two
        positions.

    All but ``regression`` have dtype ``result_type(data, float32)``.
    """

    _native_kernel = "com"
    _native_finish = True

    def __init__(self, com_params: CoMParams | None = None) -> None:
        if com_params is None:
            com_params = CoMParams()
        _check_numbers(com_params)
        _regression(com_params.regression)
        super().__init__(com_params=com_params)

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
        regression: RegressionOptionsT = RegressionOptions.NO_REGRESSION,
    ) -> CoMUDF:
        """A centre of mass UDF with the given parameters.

        Parameters
        ----------
        cy, cx
            The reference position in pixels; half of the frame, rounded down, if None.
        r, ri
            Only pixels with a distance to it of ``ri < distance <= r`` count; all inner ones if
            ``ri`` is 0 or None. In pixels.
        scan_rotation
            Rotation of the scan against the detector in degrees; a positive one turns shifts
            clockwise, seen with y pointing down.
        flip_y
            Whether the detector's y axis is flipped against the scan's.
        regression
            One of :class:`RegressionOptions`, fitted to the frames of this run; or an array of
            shape ``(3, 2)`` to subtract, such as the ``regression`` of a reference measurement.
            A fit to the data themselves can also take away what was to be measured.

        Raises
        ------
        InvalidArgumentError
            If ``ri`` is not below ``r``, or ``regression`` is none of these.
        """
        return cls(CoMParams(cy, cx, r, ri, scan_rotation, flip_y, regression))

    def get_backends(self) -> tuple[str, ...]:
        """All."""
        return self.BACKEND_ALL

    def get_result_buffers(self) -> dict[str, BufferDeclaration]:
        """Centres of mass and what follows from them."""
        self._check_data()
        dtype = np.result_type(self.meta.input_dtype, np.float32)
        vector = self.buffer(kind="nav", extra_shape=(2,), dtype=dtype)
        scalar = self.buffer(kind="nav", dtype=dtype, use="result_only")
        return {
            "raw_shifts": vector,
            "raw_com": vector,
            "field": self.buffer(kind="nav", extra_shape=(2,), dtype=dtype, use="result_only"),
            "field_y": scalar,
            "field_x": scalar,
            "regression": self.buffer(
                kind="single", extra_shape=(3, 2), dtype=np.float64, use="result_only"
            ),
            "magnitude": scalar,
            "divergence": scalar,
            "curl": scalar,
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
        """The pixels that count, and the weights for their sum and for both moments."""
        params = self.params.com_params
        cy, cx = self.centre()
        y, x = np.indices(tuple(self.meta.dataset_shape.sig), dtype=np.float64)
        distance = np.hypot(y - cy, x - cx)
        inside = distance <= params.r
        if params.ri and params.ri > 0:
            inside &= distance > params.ri
        weights = np.stack([np.ones(np.count_nonzero(inside)), y[inside], x[inside]], axis=-1)
        places = np.cumsum(inside.reshape(-1)) - 1
        return {"inside": inside, "weights": weights, "places": places}

    def preprocess(self) -> None:
        """Frames that are not merged yet are no shifts of zero."""
        self.results.raw_shifts[:] = np.nan
        self.results.raw_com[:] = np.nan

    def process_frame(self, frame: Any) -> None:
        """The centre of one frame."""
        inside, weights = self.task_data.inside, self.task_data.weights
        if is_sparse(frame):
            row = to_csr(frame.reshape((1, -1)))
            entries = inside.reshape(-1)[row.indices]
            # Weights are those of the pixels inside, in their order.
            places = self.task_data.places[row.indices[entries]]
            pixels, weights = row.data[entries].astype(np.float64), weights[places]
        else:
            pixels = frame[inside].astype(np.float64)
        total, moment_y, moment_x = pixels @ weights
        cy, cx = self.centre()
        y, x = center_shifts(total, moment_y, moment_x, cy, cx)
        self.results.raw_shifts[:] = y, x
        self.results.raw_com[:] = y + cy, x + cx

    def get_results(self) -> dict[str, Any]:
        """The field and its derivatives."""
        params = self.params.com_params
        field = self.results.raw_shifts.astype(np.float64)
        if params.scan_rotation or params.flip_y:
            field = np.stack(
                apply_correction(field[:, 0], field[:, 1], params.scan_rotation, params.flip_y),
                axis=-1,
            )
        background = self._background(field)
        if background.any():
            field -= self._positions() @ background
        source, curl = self._derivatives(field)
        return {
            "field": field,
            "field_y": field[:, 0],
            "field_x": field[:, 1],
            "regression": background,
            "magnitude": magnitude(field[:, 0], field[:, 1]),
            "divergence": source,
            "curl": curl,
        }

    def _check_data(self) -> None:
        """Refuse frames and scans that the parameters make no sense for."""
        shape = self.meta.dataset_shape
        if len(shape.sig) != 2:
            raise UnsupportedError(
                f"CoMUDF: a centre of mass needs frames with two axes, these have shape "
                f"{tuple(shape.sig)}; load the data with a two-dimensional signal shape"
            )
        if np.dtype(self.meta.input_dtype).kind == "c":
            raise UnsupportedError(
                "CoMUDF: complex frames have no centre of mass; use their squared magnitude"
            )
        regression = _regression(self.params.com_params.regression)
        if isinstance(regression, RegressionOptions):
            slopes = regression is RegressionOptions.SUBTRACT_LINEAR
        else:
            slopes = bool(regression[1:].any())
        if slopes and len(shape.nav) != 2:
            raise InvalidArgumentError(
                f"CoMUDF: a linear regression is over the rows and columns of a scan, but the "
                f"navigation shape is {tuple(shape.nav)}; use regression=0, or load the data "
                f"with two navigation axes"
            )

    def _positions(self) -> npt.NDArray[np.float64]:
        """1, row and column for each selected frame; 0 for both if the scan has not two axes."""
        positions = np.zeros((len(self.results.raw_shifts), 3))
        positions[:, 0] = 1
        if len(self.meta.dataset_shape.nav) == 2:
            positions[:, 1:] = self.meta.coordinates
        return positions

    def _background(self, field: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
        """The regression, shape (3, 2); fitted to frames whose centre is known."""
        regression = _regression(self.params.com_params.regression)
        if not isinstance(regression, RegressionOptions):
            return regression
        background = np.zeros((3, 2))
        if regression is RegressionOptions.NO_REGRESSION:
            return background
        known = _known(field)
        if not known.any():
            return background
        if regression is RegressionOptions.SUBTRACT_MEAN:
            background[0] = np.mean(field[known], axis=0)
        else:
            fit, *_ = np.linalg.lstsq(self._positions()[known], field[known], rcond=None)
            background[:] = fit
        return background

    def _derivatives(
        self, field: npt.NDArray[np.float64]
    ) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Divergence and curl for each selected frame."""
        nav = tuple(self.meta.dataset_shape.nav)
        if len(nav) != 2 or min(nav) < 2:
            nothing = np.full(len(field), np.nan)
            return nothing, nothing
        roi = self.meta.roi
        if roi is None:
            y, x = (part.reshape(nav) for part in field.T)
            both = divergence(y, x).ravel(), curl_2d(y, x).ravel()
        else:
            y, x = np.full(nav, np.nan), np.full(nav, np.nan)
            y[roi], x[roi] = field.T
            both = divergence(y, x)[roi], curl_2d(y, x)[roi]
        # A frame without a centre of its own has derivatives from its neighbours: not wanted.
        known = _known(field)
        if not known.all():
            for derivative in both:
                derivative[~known] = np.nan
        return both


def _known(field: npt.NDArray[np.float64]) -> npt.NDArray[np.bool_]:
    """For each frame whether it has a centre."""
    return np.isfinite(field[:, 0]) & np.isfinite(field[:, 1])


def _check_numbers(params: CoMParams) -> None:
    inner = params.ri or 0.0
    if isnan(params.r) or isnan(inner) or inner >= params.r:
        raise InvalidArgumentError(
            f"CoMUDF: the inner radius {inner} is not below the outer radius {params.r}; "
            f"choose ri < r"
        )
    for name in ("cy", "cx", "scan_rotation"):
        value = getattr(params, name)
        if value is not None and not isfinite(value):
            raise InvalidArgumentError(f"CoMUDF: {name} is {value}, not a finite number")


def _regression(value: Any) -> RegressionOptions | npt.NDArray[np.float64]:
    """The parameter as an option, or as a finite array of shape (3, 2)."""
    if isinstance(value, (int, np.integer)):
        try:
            return RegressionOptions(int(value))
        except ValueError:
            pass
    else:
        try:
            array = np.array(value, dtype=np.float64)
        except (TypeError, ValueError):
            array = np.empty(0)
        if array.shape == (3, 2) and np.isfinite(array).all():
            return array
    raise InvalidArgumentError(
        f"CoMUDF: regression is {value!r}; expected -1, 0, 1, or finite numbers of shape (3, 2): "
        f"(y, x) at the first position, per row, and per column"
    )
