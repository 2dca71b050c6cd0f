"""Centre of mass of each frame: differential phase contrast."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import IntEnum
from math import inf
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, Self

import numpy as np
import numpy.typing as npt

from framefold import _engine
from framefold.common._masked import refuse_masked
from framefold.common.buffers import AuxBufferWrapper, BufferDeclaration
from framefold.common.sparse import is_sparse, to_csr
from framefold.common.udf import UDFMethod
from framefold.exceptions import InvalidArgumentError, UnsupportedError
from framefold.masks._disks import in_disk
from framefold.udf._blank import tell_of_blank
from framefold.udf._com_numbers import check_numbers
from framefold.udf._positions import selected, where_known
from framefold.udf._shifts import as_shifts, check_finite, check_scan, whole
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
from framefold.udf._with_params import ClassOrObject, check_names
from framefold.udf.base import UDF, own_method
from framefold.udf.references import FromResult

if TYPE_CHECKING:
    from framefold.io.dataset.base import DataSet

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


#: How many pixels are weighed at a time, in Python.
BLOCK_PIXELS = 1 << 14


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
    """Parameters of :class:`CoMUDF`, described there."""

    cy: float | None = None
    cx: float | None = None
    r: float = inf
    ri: float | None = 0.0
    scan_rotation: float = 0.0
    flip_y: bool = False
    regression: RegressionOptionsT = RegressionOptions.NO_REGRESSION
    shifts: npt.ArrayLike | AuxBufferWrapper | FromResult | None = None


DEFAULTS = CoMParams()


class CoMUDF(UDF):
    """Centre of mass of each frame, and the field that follows from it.

    The pass over the data runs on a native kernel, that over complex frames in NumPy.

    Parameters
    ----------
    com_params
        All parameters in one object, in place of the others.
    cy, cx
        The reference position in pixels; half of the frame, rounded down, if None.
    r, ri
        Only pixels with a distance to it of ``ri < distance <= r`` count; all inner ones if
        ``ri`` is None, 0 or below. In pixels.
    scan_rotation
        Rotation of the scan against the detector in degrees; a positive one turns shifts
        clockwise, seen with y pointing down.
    flip_y
        Whether the detector's y axis is flipped against the scan's.
    regression
        One of :class:`RegressionOptions`, fitted to the frames of this run; or an array of
        shape ``(3, 2)`` to subtract, such as the ``regression`` of a reference measurement.
        A fit to the data themselves can also take away what was to be measured. Frames without
        intensity take part as shifts of 0, of which
        :class:`~framefold.warnings.NoIntensityWarning` says how many there are; leave them out by
        a ROI.
    shifts
        How far the reference position is moved, in pixels: (dy, dx) for all frames, or an array
        of shape ``(*nav, 2)`` or ``(positions, 2)`` with one pair for each position of the scan,
        such as the ``shifts`` of :func:`framefold.fit_origin`; or AUX data of kind ``nav``, or
        :func:`framefold.from_result`. The disk or ring is the one around
        (cy + dy, cx + dx), and ``raw_shifts`` and the field are relative to that position.
        Fractions move it by fractions of a pixel.

    Raises
    ------
    InvalidArgumentError
        If ``ri`` is not below ``r``, ``regression`` is none of these, or ``com_params`` is given
        together with others. When a run is planned: if ``shifts`` do not have one of these
        shapes. Later, if the shift of a frame that is processed is not finite.

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

    Notes
    -----
    All but ``regression`` have dtype ``result_type(data, float32)``.
    """

    _native_kernel = "com"
    _native_finish = True

    def __init__(
        self,
        com_params: CoMParams | None = None,
        *,
        cy: float | None = None,
        cx: float | None = None,
        r: float = inf,
        ri: float | None = 0.0,
        scan_rotation: float = 0.0,
        flip_y: bool = False,
        regression: RegressionOptionsT = RegressionOptions.NO_REGRESSION,
        shifts: npt.ArrayLike | AuxBufferWrapper | FromResult | None = None,
    ) -> None:
        given = CoMParams(cy, cx, r, ri, scan_rotation, flip_y, regression)
        if com_params is None:
            com_params = given
        elif not isinstance(com_params, CoMParams):
            raise InvalidArgumentError(
                f"CoMUDF: com_params is a {type(com_params).__name__}; use CoMUDF(cy=…, cx=…, r=…)"
            )
        elif (shifts is not None and com_params.shifts is not None) or any(
            x is not y and not np.array_equal(x, y)  # type: ignore[arg-type]
            for x, y in zip(given, DEFAULTS, strict=True)
        ):
            raise InvalidArgumentError(
                "CoMUDF: got both com_params and others; pass all of them by name, or "
                "com_params._replace(…)"
            )
        check_numbers(com_params._asdict())
        _regression(com_params.regression)
        shifts = com_params.shifts if shifts is None else shifts
        if isinstance(shifts, FromResult):
            # By itself, where it is looked for; the value that takes its place joins the others.
            super().__init__(com_params=com_params._replace(shifts=None), shifts=shifts)
        else:
            super().__init__(com_params=com_params._replace(shifts=whole(shifts)))

    @ClassOrObject
    def with_params(  # type: ignore[override] # on the class, it makes a new one
        cls,
        *,
        cy: float | None = None,
        cx: float | None = None,
        r: float = inf,
        ri: float | None = 0.0,
        scan_rotation: float = 0.0,
        flip_y: bool = False,
        regression: RegressionOptionsT = RegressionOptions.NO_REGRESSION,
        shifts: npt.ArrayLike | AuxBufferWrapper | FromResult | None = None,
    ) -> Self:
        """The same as the class with these parameters: the reference's way to write it.

        Of an object, a copy that keeps all parameters but those that are given, as
        :meth:`framefold.udf.UDF.with_params`.
        """
        return cls(CoMParams(cy, cx, r, ri, scan_rotation, flip_y, regression, shifts))

    def _changed(self, params: Mapping[str, Any]) -> dict[str, Any]:
        check_names(type(self).__name__, params, self._parameter_names())
        own = {name: value for name, value in params.items() if name in CoMParams._fields}
        others = {name: value for name, value in params.items() if name not in own}
        com_params: CoMParams = others.get("com_params", self._kwargs["com_params"])
        kept = {name: value for name, value in self._kwargs.items() if name not in params}
        if own and "com_params" in others:
            raise InvalidArgumentError(
                "CoMUDF: got both com_params and others; pass all of them by name, or "
                "com_params._replace(…)"
            )
        return {
            **kept,
            **others,
            "com_params": com_params._replace(**own) if own else com_params,
        }

    def _parameter_names(self) -> Iterable[str]:
        return dict.fromkeys((*CoMParams._fields, *self._kwargs))

    def _native_parameters(self, dtype: np.dtype[Any]) -> dict[str, Any] | None:
        params: CoMParams = self.params.com_params
        # Complex data, and disks without a radius, are left to the methods below.
        if dtype.kind == "c" or params.r <= 0:
            return None
        # What comes of the shifts is the same for both, and computed here.
        inner = {"ri": params.ri} if params.ri is not None and params.ri > 0 else {}
        region = {"cy": params.cy, "cx": params.cx, "r": params.r, **inner}
        return {**region, "shifts_only": True, "shifts": self._shifts()}

    def _shifts(self) -> npt.NDArray[np.float64] | None:
        """The ``shifts``, or None."""
        shifts = self.params.com_params.shifts
        return None if shifts is None else as_shifts(type(self).__name__, whole(shifts), 2)

    def _shifts_of_frames(self) -> npt.NDArray[np.float64]:
        """One shift for each frame that is being processed, or one for all of them."""
        shifts = self._shifts()
        if shifts is None or shifts.ndim == 1:
            return np.zeros((1, 2)) if shifts is None else shifts[np.newaxis]
        nav = tuple(self.meta.dataset_shape.nav)
        by_position: npt.NDArray[np.float64] = shifts.reshape((*nav, 2))[
            tuple(self.meta.coordinates.T)
        ]
        return by_position

    def _doubts(self, dataset: DataSet) -> list[str]:
        params: CoMParams = self.params.com_params
        # Radii below zero are as good as none.
        r, ri = max(0.0, params.r), max(0.0, params.ri or 0.0)
        region = {"cy": params.cy, "cx": params.cx, "r": r, "ri": ri}
        return _engine.doubts("com", region, tuple(dataset.shape.sig))

    def get_backends(self) -> tuple[str, ...]:
        """All."""
        return self.BACKEND_ALL

    def get_method(self) -> UDFMethod | str:
        """Tiles; single frames in classes that have a ``process_frame`` of their own."""
        return own_method(self, CoMUDF)

    def get_result_buffers(self) -> dict[str, BufferDeclaration]:
        """Centres of mass and what follows from them."""
        self._check_data()
        dtype = np.result_type(self.meta.input_dtype, np.float32)
        vector = self.buffer(
            kind="nav", extra_shape=(2,), dtype=dtype, use="result_only", unit="px", vector=True
        )
        scalar = self.buffer(kind="nav", dtype=dtype, use="result_only", unit="px")
        change = self.buffer(kind="nav", dtype=dtype, use="result_only")
        wide = np.result_type(dtype, np.float64)
        background = wide if dtype.kind == "c" else np.dtype(np.float64)
        return {
            "raw_mask_result": self.buffer(kind="nav", extra_shape=(3,), dtype=wide, use="private"),
            "raw_shifts": vector,
            "raw_com": vector,
            "field": vector,
            "field_y": scalar,
            "field_x": scalar,
            "regression": self.buffer(
                kind="single", extra_shape=(3, 2), dtype=background, use="result_only"
            ),
            "magnitude": scalar,
            "divergence": change,
            "curl": change,
        }

    def get_params(self) -> CoMParams:
        """The parameters, with the reference position in pixels."""
        params: CoMParams = self.params.com_params
        height, width = self.meta.dataset_shape.sig
        return params._replace(
            cy=height // 2 if params.cy is None else params.cy,
            cx=width // 2 if params.cx is None else params.cx,
        )

    def centre(self) -> tuple[float, float]:
        """The reference position (y, x) in pixels."""
        params = self.get_params()
        assert params.cy is not None
        assert params.cx is not None
        return params.cy, params.cx

    def get_task_data(self) -> dict[str, Any]:
        """The pixels that count, and the numbers of rows and columns."""
        height, width = self.meta.dataset_shape.sig
        y = np.arange(height, dtype=np.float64)[:, np.newaxis]
        x = np.arange(width, dtype=np.float64)[np.newaxis]
        inside = self._inside(y, x, (0.0, 0.0))
        return {"com_params": self.get_params(), "inside": inside, "y": y, "x": x}

    def _inside(self, y: Any, x: Any, shift: Any) -> Any:
        """Whether pixels of these rows and columns count on a frame with this shift."""
        params, (cy, cx) = self.get_params(), self.centre()
        if params.r == inf and not (params.ri and params.ri > 0):
            return np.ones(np.broadcast_shapes(y.shape, x.shape), dtype=bool)
        dy, dx = y - (cy + shift[0]), x - (cx + shift[1])
        inside = in_disk(dy, dx, params.r)
        if params.ri and params.ri > 0:
            inside &= ~in_disk(dy, dx, params.ri)
        return inside

    def process_tile(self, tile: Any) -> None:
        """Add what the tile has to the sum and the moments of its frames."""
        rows, columns = place = self.meta.sig_slice.get()
        y, x = self.task_data.y[rows], self.task_data.x[:, columns]
        moments = self.results.raw_mask_result.reshape((-1, 3))
        shape = (len(y), x.shape[1])
        if is_sparse(tile):
            add, frames = self._add_sparse_moments, to_csr(tile.reshape((len(moments), -1)))
        else:
            add, frames = self._add_moments, np.asarray(tile).reshape((len(moments), *shape))
        if self.params.com_params.shifts is None:
            add(moments, frames, self.task_data.inside[place], y, x)
            return
        shifts = np.broadcast_to(self._shifts_of_frames(), (len(moments), 2))
        for i, shift in enumerate(shifts):
            frame = slice(i, i + 1)
            check_finite(type(self).__name__, shift)
            add(moments[frame], frames[frame], self._inside(y, x, shift), y, x)

    @staticmethod
    def _add_sparse_moments(moments: Any, frames: Any, inside: Any, y: Any, x: Any) -> None:
        """Add the sum and the moments of the pixels that count, frame by frame."""
        pixels = frames[:, np.flatnonzero(inside)].astype(moments.dtype)
        moments[:, 0] += np.asarray(pixels.sum(axis=1)).reshape(-1)
        moments[:, 1] += pixels @ np.broadcast_to(y, inside.shape)[inside]
        moments[:, 2] += pixels @ np.broadcast_to(x, inside.shape)[inside]

    @staticmethod
    def _add_moments(moments: Any, frames: Any, inside: Any, y: Any, x: Any) -> None:
        """The same for dense frames."""
        rows, columns = (np.flatnonzero(inside.any(axis=axis)) for axis in (1, 0))
        if not rows.size:
            return
        # No more than the rectangle around what counts.
        box = slice(rows[0], rows[-1] + 1), slice(columns[0], columns[-1] + 1)
        frames, inside, y, x = frames[:, *box], inside[box], y[box[0], 0], x[0, box[1]]
        # Pixels that do not count may be anything, such as NaN: they stay 0.
        counts = True if inside.all() else inside
        # Some frames at a time, which stay in the cache. Each is summed alone, in C order, so that
        # the order in which it is summed does not follow from how many there are.
        n_frames = max(1, min(len(frames), BLOCK_PIXELS // inside.size))
        block = np.zeros((n_frames, *inside.shape), dtype=moments.dtype)
        for first in range(0, len(frames), n_frames):
            sums = moments[first : first + n_frames]
            pixels = block[: len(sums)]
            np.copyto(pixels, frames[first : first + n_frames], where=counts)
            # Not by products of matrices, which round as the number of cores has it, nor by `sum`,
            # which takes up to three times as long for short rows.
            of_rows, of_columns = np.einsum("fyx->fy", pixels), np.einsum("fyx->fx", pixels)
            sums[:, 0] += of_rows.sum(axis=1)
            sums[:, 1] += (of_rows * y).sum(axis=1)
            sums[:, 2] += (of_columns * x).sum(axis=1)

    def process_frame(self, frame: Any) -> None:
        """Add one frame, for classes that have a ``process_frame`` of their own."""
        CoMUDF.process_tile(self, frame)

    def get_field_results(
        self, field_y: npt.NDArray[Any], field_x: npt.NDArray[Any]
    ) -> dict[str, npt.NDArray[Any]]:
        """What follows from the field; for classes that compute something else of it.

        Parameters
        ----------
        field_y, field_x
            In the shape of the scan; NaN where there is no centre.

        Returns
        -------
        dict
            Name of a declared result buffer to values, in the shape of the scan. As in
            ``get_results``, they may have a mask.
        """
        nav = field_y.shape
        if len(nav) != 2 or min(nav) < 2:
            nothing = np.full(nav, np.nan)
            source, curl = nothing, nothing
        else:
            source, curl = divergence(field_y, field_x), curl_2d(field_y, field_x)
        return {"magnitude": magnitude(field_y, field_x), "divergence": source, "curl": curl}

    def get_regression(
        self, field: npt.NDArray[Any], valid_mask: npt.NDArray[np.bool_]
    ) -> tuple[npt.NDArray[Any], npt.NDArray[np.float64] | None]:
        """What is to be subtracted from the field.

        Parameters
        ----------
        field
            Shape ``(*nav, 2)``: (y, x) for each position of the scan.
        valid_mask
            For each position whether it has a centre.

        Returns
        -------
        regression : numpy.ndarray
            Shape ``(3, 2)``.
        positions : numpy.ndarray or None
            1, row and column for each position of the scan, if rows and columns matter.
        """
        regression = _regression(self.get_params().regression)
        if not isinstance(regression, RegressionOptions):
            return regression, self._positions(valid_mask.shape)
        background = np.zeros((3, 2), dtype=field.dtype)
        if regression is RegressionOptions.NO_REGRESSION or not valid_mask.any():
            return background, None
        if regression is RegressionOptions.SUBTRACT_MEAN:
            background[0] = np.mean(field[valid_mask], axis=0)
            return background, None
        positions = self._positions(valid_mask.shape)
        fit, *_ = np.linalg.lstsq(positions[valid_mask], field[valid_mask], rcond=None)
        background[:] = fit
        return background, positions

    def apply_mean_regression(
        self,
        regression: npt.NDArray[Any],
        field_inout: npt.NDArray[Any],
        valid_mask: npt.NDArray[np.bool_],
    ) -> None:
        """Subtract the mean from the field, in place."""
        field_inout[valid_mask] -= regression[0]

    def apply_lin_regression(
        self,
        regression: npt.NDArray[Any],
        inp: npt.NDArray[np.float64],
        field_inout: npt.NDArray[Any],
        valid_mask: npt.NDArray[np.bool_],
    ) -> None:
        """Subtract a plane from the field, in place; ``inp`` is 1, row and column each."""
        field_inout[valid_mask] -= inp[valid_mask] @ regression

    def get_results(self) -> dict[str, Any]:
        """The field and its derivatives."""
        params = self.get_params()
        shifts, raw_com = self._centres()
        nav, roi = tuple(self.meta.dataset_shape.nav), self.meta.roi
        field = np.full((*nav, 2), np.nan, dtype=np.result_type(shifts.dtype, np.float64))
        if roi is None:
            field[:] = shifts.reshape(field.shape)
        else:
            field[roi] = shifts
        if params.scan_rotation or params.flip_y:
            field = np.stack(
                apply_correction(field[..., 0], field[..., 1], params.scan_rotation, params.flip_y),
                axis=-1,
            )
        known: npt.NDArray[np.bool_] = np.asarray(np.isfinite(field).all(axis=-1))
        fit = _regression(params.regression)
        if isinstance(fit, RegressionOptions) and fit is not RegressionOptions.NO_REGRESSION:
            tell_of_blank(field)
        background, positions = self.get_regression(field, valid_mask=known)
        if positions is not None:
            self.apply_lin_regression(background, positions, field, known)
        elif background.any():
            self.apply_mean_regression(background, field, known)
        more = self.get_field_results(field_y=field[..., 0], field_x=field[..., 1])
        # A frame without a centre of its own has derivatives from its neighbours: not wanted.
        more = {name: where_known(values, known, roi) for name, values in more.items()}
        return {
            "raw_shifts": shifts,
            "raw_com": raw_com,
            "field": selected(field, len(nav), roi),
            "field_y": selected(field[..., 0], len(nav), roi),
            "field_x": selected(field[..., 1], len(nav), roi),
            "regression": background,
            **more,
        }

    def _centres(self) -> tuple[npt.NDArray[Any], npt.NDArray[Any]]:
        """Shifts and centres of selected frames; not a number for those that are not merged."""
        moments = self.results.get("raw_mask_result")
        if moments is None:  # the kernel gives them
            return self.results.raw_shifts, self.results.raw_com
        cy, cx = self.centre()
        centres = np.array([cy, cx]) + self._shifts_of_frames()
        y, x = center_shifts(
            moments[:, 0], moments[:, 1], moments[:, 2], centres[:, 0], centres[:, 1]
        )
        shifts = np.stack([y, x], axis=-1)
        merged = self.meta.get_valid_nav_mask()
        if merged is not None:
            shifts[~merged] = np.nan
        dtype = np.result_type(self.meta.input_dtype, np.float32)
        return shifts.astype(dtype), (shifts + centres).astype(dtype)

    def _check_data(self) -> None:
        """Refuse frames and scans that the parameters make no sense for."""
        shape = self.meta.dataset_shape
        if len(shape.sig) != 2:
            raise UnsupportedError(
                f"CoMUDF: a centre of mass needs frames with two axes, these have shape "
                f"{tuple(shape.sig)}; load the data with a two-dimensional signal shape"
            )
        shifts = self._shifts()
        if shifts is not None:
            check_scan(type(self).__name__, shifts, shape)
        regression = _regression(self.get_params().regression)
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

    @staticmethod
    def _positions(nav: tuple[int, ...]) -> npt.NDArray[np.float64]:
        """1, row and column for each position; 0 for both if the scan has not two axes."""
        positions = np.zeros((*nav, 3))
        positions[..., 0] = 1
        if len(nav) == 2:
            positions[..., 1:] = np.moveaxis(np.indices(nav), 0, -1)
        return positions


def _regression(value: Any) -> RegressionOptions | npt.NDArray[np.float64]:
    """The parameter as an option, or as a finite array of shape (3, 2)."""
    if isinstance(value, (int, np.integer)) and not isinstance(value, bool):
        try:
            return RegressionOptions(int(value))
        except ValueError:
            pass
    else:
        refuse_masked("regression", value)
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
