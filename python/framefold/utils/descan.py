"""Where the beam is on the detector, position by position: fits over a scan, and shifts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import product
from typing import Any, Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from framefold.common._masked import masked_in, refuse_masked
from framefold.exceptions import InvalidArgumentError
from framefold.udf._blank import at_reference

__all__ = ["Model", "OriginFit", "fit_origin"]

Array = npt.NDArray[np.float64]
Model = Literal["constant", "plane", "parabola"]

#: The degree of the polynomial in the coordinates of the scan.
_DEGREES: dict[str, int] = {"constant": 0, "plane": 1, "parabola": 2}

#: The median length of a vector of two normal numbers, in standard deviations of one of them.
_MEDIAN_LENGTH = np.sqrt(2 * np.log(2))

#: Residuals below this, in pixels, are rounding.
_ROUNDING = 1e-6

#: Above this condition, positions do not determine the coefficients.
_UNDETERMINED = 1e12

_MAX_STEPS = 20


class OriginFit(NamedTuple):
    """What :func:`fit_origin` returns; arrays have the shape of the scan, ``nav``.

    Attributes
    ----------
    shifts
        ``origin - centre``, shape ``(*nav, 2)``, float64, in pixels: how far the beam is away
        from ``centre`` at each position. For ``shifts`` of
        :class:`~framefold.udf.masks.ApplyMasksUDF` and :class:`~framefold.udf.com.CoMUDF`.
    origin
        The fitted place of the beam (y, x) at each position, shape ``(*nav, 2)``, float64, in
        pixels of the frame. Also where nothing was measured.
    residual
        What was measured, less ``origin``: shape ``(*nav, 2)``, float64, in pixels; NaN where
        nothing was measured.
    used
        Whether the position took part in the fit in the end: shape ``nav``, bool.
    centre
        The reference (y, x) of ``shifts``, shape ``(2,)``, float64, in pixels.
    """

    shifts: Array
    origin: Array
    residual: Array
    used: npt.NDArray[np.bool_]
    centre: Array


def fit_origin(
    positions: Mapping[str, Any] | npt.ArrayLike,
    model: Model = "plane",
    *,
    centre: Sequence[float] | npt.ArrayLike | None = None,
    weights: npt.ArrayLike | None = None,
    clip: float | None = 4.0,
) -> OriginFit:
    """Fit where the beam is over a scan, from where it was measured.

    The result of :class:`~framefold.udf.com.CoMUDF` at each position has the deflection by the
    specimen, noise and outliers in it; a smooth function of the coordinates of the scan has only
    the way of the beam through scan and descan coils.

    Parameters
    ----------
    positions
        The result of a run of :class:`~framefold.udf.com.CoMUDF`, of which ``raw_com`` is taken;
        or an array of shape ``(*nav, 2)``: (y, x) in pixels of the frame. Positions with a
        number that is not finite, such as those outside of a ROI, or that is masked, such as in
        ``masked_data`` of a result, are not used. Nor are those of a result whose ``raw_shifts``
        are exactly 0, as of frames without intensity, unless all are. Of an array, leave such
        frames out by ``weights``.
    model
        A polynomial in the coordinates of the scan, for y and x each: ``"constant"``,
        ``"plane"`` (degree 1) or ``"parabola"`` (degree 2, all terms). Powers of an axis of the
        scan that has too few positions for them are left out.
    centre
        The reference (y, x) in pixels that ``shifts`` are relative to, such as the centre of a
        mask; by default the mean of the fitted origins over the scan.
    weights
        How much each position counts, shape ``nav``: numbers from 0 on, or a boolean mask of the
        positions to use. Masked ones are 0.
    clip
        Positions that are further away from the fit than so many standard deviations are
        outliers, and not used; None if there are none.

    Returns
    -------
    OriginFit
        ``shifts``, ``origin``, ``residual``, ``used`` and ``centre``.

    Raises
    ------
    InvalidArgumentError
        If ``positions`` do not have such a shape, ``model`` is none of these, weights are
        negative or not of the shape of the scan, or the positions that are left do not determine
        the coefficients.

    Notes
    -----
    With ``clip``, the fit begins with the one of least absolute deviations, by iteratively
    reweighted least squares (E. J. Schlossmacher, J. Am. Stat. Assoc. 68 (1973) 857), which
    outliers hardly move. Then positions are dropped whose distance from the fit is above
    ``clip`` standard deviations, as estimated from the median distance (P. J. Rousseeuw and
    C. Croux, J. Am. Stat. Assoc. 88 (1993) 1273), and the others are fitted by least squares,
    until the same ones are left. Outliers may be up to about a third of the positions.
    """
    measured = _measured(positions)
    nav = measured.shape[:-1]
    if model not in _DEGREES:
        raise InvalidArgumentError(f"model is {model!r}; expected {', '.join(map(repr, _DEGREES))}")
    if clip is not None and not clip > 0:
        raise InvalidArgumentError(f"clip is {clip}; expected a number above 0, or None")
    reference = None if centre is None else _pair("centre", centre)
    known: npt.NDArray[np.bool_] = np.asarray(np.isfinite(measured).all(axis=-1))
    counts = _weights(weights, nav) * known
    # What is not known has no weight; NaN times 0 would still be NaN.
    values = np.where(known[..., np.newaxis], measured, 0.0).reshape(-1, 2)
    terms, flat = _terms(nav, _DEGREES[model]), counts.reshape(-1)

    origin = _least_squares(terms, values, flat, model)
    if clip is not None:
        origin, flat = _without_outliers(terms, values, flat, origin, model, clip)
    origin = origin.reshape(measured.shape)
    mean = origin.reshape(-1, 2).mean(axis=0) if reference is None else reference
    used = (flat > 0).reshape(nav)
    return OriginFit(origin - mean, origin, measured - origin, used, mean)


def _without_outliers(
    terms: Array, values: Array, weights: Array, origin: Array, model: str, clip: float
) -> tuple[Array, Array]:
    """The fit to all positions but outliers, and the weights that are left."""
    counts = weights > 0

    def distances(fitted: Array) -> Array:
        length: Array = np.hypot(*(values - fitted).T)
        return length

    for _ in range(_MAX_STEPS):
        before, distance = origin, distances(origin)
        floor = 1e-2 * np.median(distance[counts]) + _ROUNDING
        origin = _least_squares(terms, values, weights / np.maximum(distance, floor), model)
        if np.abs(origin - before).max() < floor:
            break
    left: Array = weights
    for _ in range(_MAX_STEPS):
        distance = distances(origin)
        deviation = np.median(distance[counts]) / _MEDIAN_LENGTH
        kept = np.where(distance <= clip * deviation + _ROUNDING, weights, 0.0)
        origin = _least_squares(terms, values, kept, model)
        if np.array_equal(kept, left):
            break
        left = kept
    return origin, left


def _least_squares(terms: Array, values: Array, weights: Array, model: str) -> Array:
    """The fitted values at all positions."""
    weighted = terms * weights[:, np.newaxis]
    normal = terms.T @ weighted
    n_used = int(np.count_nonzero(weights))
    scale = np.sqrt(np.maximum(np.diag(normal), np.finfo(np.float64).tiny))
    normal = normal / np.outer(scale, scale)
    if n_used < terms.shape[1] or not np.linalg.cond(normal) < _UNDETERMINED:
        raise InvalidArgumentError(
            f"{n_used} positions that are known, and count, do not determine a {model} over the "
            f"scan; choose a simpler model, or use more positions"
        )
    right = (weighted.T @ values) / scale[:, np.newaxis]
    fitted: Array = terms @ (np.linalg.solve(normal, right) / scale[:, np.newaxis])
    return fitted


def _terms(nav: tuple[int, ...], degree: int) -> Array:
    """The terms of the polynomial at each position, shape ``(positions, terms)``.

    Polynomials of Legendre along each axis from -1 to 1: nearly orthogonal over a scan.
    """
    axes = []
    for length in nav:
        place = np.linspace(-1, 1, length) if length > 1 else np.zeros(1)
        powers = np.stack([np.ones(length), place, (3 * place**2 - 1) / 2])
        axes.append(powers[: min(degree + 1, length)])
    terms = []
    for powers_of in product(*(range(len(axis)) for axis in axes)):
        if sum(powers_of) <= degree:
            term = np.ones(())
            for axis, power in zip(axes, powers_of, strict=True):
                term = np.multiply.outer(term, axis[power])
            terms.append(term.reshape(-1))
    return np.stack(terms, axis=-1)


def _measured(positions: Any) -> Array:
    """The measured positions, shape ``(*nav, 2)``."""
    blank: npt.NDArray[np.bool_] = np.zeros((), dtype=bool)
    if isinstance(positions, Mapping):
        if "raw_com" not in positions:
            raise InvalidArgumentError(
                f"the result has {', '.join(map(str, positions))}, but no 'raw_com'; pass the "
                f"result of CoMUDF, or an array of positions"
            )
        blank = at_reference(_values(positions.get("raw_shifts", ())))
        positions = positions["raw_com"]
    positions = _values(positions)
    array = np.asarray(positions)
    if array.dtype.kind not in "iuf" or array.ndim < 2 or array.shape[-1] != 2 or not array.size:
        raise InvalidArgumentError(
            f"positions have dtype {array.dtype} and shape {array.shape}; expected real numbers "
            f"of shape (*nav, 2): (y, x) for each position of the scan"
        )
    unknown = masked_in(positions)
    if blank.shape == array.shape[:-1]:
        unknown = unknown | blank[..., np.newaxis]
    return np.where(unknown, np.nan, array.astype(np.float64))


def _values(positions: Any) -> Any:
    """The numbers of a result buffer, which knows where there is no result; or what is given."""
    return getattr(positions, "data", positions) if hasattr(positions, "raw_data") else positions


def _weights(weights: Any, nav: tuple[int, ...]) -> Array:
    if weights is None:
        return np.ones(nav)
    array = np.asarray(weights)
    if array.dtype.kind not in "biuf" or array.shape != nav:
        raise InvalidArgumentError(
            f"weights have dtype {array.dtype} and shape {array.shape}; expected a number or a "
            f"truth value for each position of a scan of shape {nav}"
        )
    numbers = np.where(masked_in(weights), 0.0, array.astype(np.float64))
    if not (np.isfinite(numbers).all() and (numbers >= 0).all()):
        raise InvalidArgumentError("weights are negative or not finite; expected 0 or more")
    return numbers


def _pair(name: str, value: Any) -> Array:
    refuse_masked(name, value)
    array = np.asarray(value)
    if array.dtype.kind not in "iuf" or array.shape != (2,) or not np.isfinite(array).all():
        raise InvalidArgumentError(f"{name} is {value!r}; expected two finite numbers, (y, x)")
    return array.astype(np.float64)
