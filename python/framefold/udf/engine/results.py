"""From merged buffers and ``get_results`` to the arrays that the user gets."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.common._losses import first_lost
from framefold.common._masked import as_masked, has_masked
from framefold.common.buffers import ArrayWithMask, BufferDeclaration, OverScan
from framefold.common.shape import Shape
from framefold.exceptions import InvalidResultError, UDFError, UndeclaredResultError


def final_results(
    udf: str,
    buffers: Mapping[str, BufferDeclaration],
    merged: Mapping[str, npt.NDArray[Any]],
    computed: Any,
    shape: Shape,
    n_selected: int,
    roi: npt.NDArray[np.bool_] | None = None,
    *,
    owned: bool = False,
) -> list[npt.NDArray[Any] | ArrayWithMask | OverScan]:
    """The public results in the order of their declaration; checks what was computed.

    Parameters
    ----------
    udf
        The name of the UDF, for messages.
    buffers
        The declarations.
    merged
        The merged buffers, navigation flattened.
    computed
        What ``get_results`` returned.
    shape, n_selected, roi
        Shape of the data set, number of selected frames, and which they are.
    owned
        Whether nothing changes these arrays any more: they need not be copied.
    """
    if not isinstance(computed, Mapping):
        found = "None" if computed is None else type(computed).__name__
        hint = "; was 'return' forgotten? {} gives all as merged" if computed is None else ""
        raise UDFError(
            f"{udf}.get_results returned {found}, expected a dict of buffer name to array{hint}"
        )
    for name in computed:
        if name not in buffers:
            raise UndeclaredResultError(
                f"{udf}.get_results returned {name!r}, which is not declared in "
                f"get_result_buffers; declared are {', '.join(buffers)}"
            )
        if buffers[name].use == "private":
            raise UDFError(
                f"{udf}.get_results returned {name!r}, which is declared with use='private'; "
                f"leave it out, or declare it without"
            )
    check_omitted(udf, buffers, computed)
    fit = _Fit(shape, n_selected, roi, owned)
    results: list[npt.NDArray[Any] | ArrayWithMask | OverScan] = []
    for name, decl in buffers.items():
        if decl.use == "private":
            continue
        if name in computed:
            results.append(_checked(udf, name, decl, computed[name], fit))
        else:
            # A merged buffer goes on changing with every further merge.
            results.append(merged[name] if owned else merged[name].copy())
    return results


def apart(
    result: npt.NDArray[Any] | ArrayWithMask | OverScan,
) -> tuple[npt.NDArray[Any], tuple[npt.NDArray[np.bool_] | None, npt.NDArray[Any] | None]]:
    """A result; its mask, if it has one, and what it has for the whole scan in a run with a ROI."""
    part, full = (result.part, result.full) if isinstance(result, OverScan) else (result, None)
    array, mask = (part.arr, part.mask) if isinstance(part, ArrayWithMask) else (part, None)
    return array, (mask, full)


def check_omitted(
    udf: str, buffers: Mapping[str, BufferDeclaration], computed: Mapping[str, Any]
) -> None:
    """Refuse results that leave out what only ``get_results`` can compute."""
    for name, decl in buffers.items():
        if decl.use == "result_only" and name not in computed:
            raise UDFError(
                f"{udf}.get_results did not return {name!r}, which is declared with "
                f"use='result_only' and so can come from nowhere else"
            )


class _Fit:
    """Brings what ``get_results`` may return into the shape of the merged buffer."""

    def __init__(
        self, shape: Shape, n_selected: int, roi: npt.NDArray[np.bool_] | None, owned: bool
    ) -> None:
        self.shape = shape
        self.n_selected = n_selected
        self.roi = roi
        self.owned = owned

    def expected(self, decl: BufferDeclaration) -> tuple[int, ...]:
        """The shape of the merged buffer."""
        return decl.flat_shape(self.shape, self.n_selected)

    def is_over_scan(self, decl: BufferDeclaration, array: npt.NDArray[Any]) -> bool:
        """Whether an array has values for positions outside of the ROI, too."""
        full = (*self.shape.nav, *decl.extra_shape)
        over = decl.kind == "nav" and self.roi is not None and array.shape == full
        return over and array.shape != self.expected(decl)

    def __call__(self, decl: BufferDeclaration, array: npt.NDArray[Any]) -> npt.NDArray[Any]:
        expected = self.expected(decl)
        nav, sig = self.shape.nav, self.shape.sig
        if array.shape == expected:
            return array
        if decl.kind == "nav" and array.shape == (*nav, *decl.extra_shape):
            return array.reshape(expected) if self.roi is None else array[self.roi]
        if decl.kind == "sig" and array.shape == (sig.size, *decl.extra_shape):
            return array.reshape(expected)
        if decl.kind == "single" and array.shape == decl.extra_shape:
            return array.reshape(expected)
        return array


def _checked(
    udf: str, name: str, decl: BufferDeclaration, value: Any, fit: _Fit
) -> npt.NDArray[Any] | ArrayWithMask | OverScan:
    mask: npt.NDArray[np.bool_] | None = None
    if isinstance(value, ArrayWithMask):
        value, mask = value.arr, value.mask
    elif isinstance(value, np.ma.MaskedArray) or has_masked(value):
        masked = as_masked(value)
        value, mask = masked.data, ~np.ma.getmaskarray(masked)
    array = _checked_array(udf, name, decl, value, fit)
    # A copy, as of the result: a mask may be a merged buffer, too.
    part = array if mask is None else ArrayWithMask(array, fit(decl, mask).copy())
    if fit.is_over_scan(decl, np.asarray(value)):
        with np.errstate(all="ignore"):  # what is outside belongs to no result
            return OverScan(part, np.asarray(value).astype(decl.dtype, copy=True))
    return part


def _checked_array(
    udf: str, name: str, decl: BufferDeclaration, value: Any, fit: _Fit
) -> npt.NDArray[Any]:
    given = np.asarray(value)
    array, expected = fit(decl, given), fit.expected(decl)
    if array.shape != expected:
        raise InvalidResultError(
            f"{udf}.get_results returned {name!r} with shape {given.shape}; "
            f"declared as kind={decl.kind!r}, extra_shape={decl.extra_shape} "
            f"it must have shape {expected}"
        )
    what = f"{udf}.get_results returned {name!r}"
    check_kind(what, array.dtype, decl.dtype)
    return cast(what, decl.dtype, array, copy=not fit.owned)


def check_kind(what: str, dtype: np.dtype[Any], declared: np.dtype[Any]) -> None:
    """Refuse a result of a dtype that cannot become the declared one."""
    if not np.can_cast(dtype, declared, casting="same_kind"):
        raise InvalidResultError(
            f"{what} with dtype {dtype}, which cannot become the declared {declared} without "
            f"losing information of another kind"
        )
    if dtype.names and declared.names and dtype.names != declared.names:
        raise InvalidResultError(
            f"{what} with the fields {dtype.names}; the declared ones are {declared.names}, in "
            f"that order, as NumPy assigns by position"
        )


def cast(
    what: str, declared: np.dtype[Any], array: npt.NDArray[Any], *, copy: bool = True
) -> npt.NDArray[Any]:
    """A result in its declared dtype, which has to hold all values."""
    if (lost := first_lost(array, declared)) is not None:
        raise InvalidResultError(
            f"{what} with the value {lost!r}, which the declared {declared} cannot hold; declare a "
            f"wider one"
        )
    return array.astype(declared, copy=copy)
