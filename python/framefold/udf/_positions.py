"""Values of all positions of the scan, as results have them: one row for each selected position."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from framefold.common._masked import as_masked, has_masked
from framefold.common.buffers import ArrayWithMask

Mask = npt.NDArray[np.bool_]


def selected(over_scan: npt.NDArray[Any], n_axes: int, roi: Mask | None) -> npt.NDArray[Any]:
    """A copy of what there is for the selected positions, along one axis.

    Parameters
    ----------
    over_scan
        Values for all positions of a scan with ``n_axes`` axes.
    """
    if roi is not None:
        copy: npt.NDArray[Any] = over_scan[roi]
        return copy
    # Not by a mask: that takes five times as long.
    return over_scan.copy().reshape((-1, *over_scan.shape[n_axes:]))


def where_known(values: Any, known: Mask, roi: Mask | None) -> Any:
    """The values of selected positions; not a number where there is no centre.

    Parameters
    ----------
    values
        What ``get_field_results`` of a class gives, perhaps with a mask.
    known
        For each position of the scan whether there is a centre.
    """
    if isinstance(values, ArrayWithMask):
        mask = where_known(values.mask, known, roi)
        return ArrayWithMask(where_known(values.arr, known, roi), mask)
    if has_masked(values):
        masked = as_masked(values)
        return where_known(ArrayWithMask(masked.data, ~np.ma.getmaskarray(masked)), known, roi)
    values = np.asarray(values)
    if values.shape[: known.ndim] != known.shape:
        return values  # a class may give something else than one value for each position
    if not known.all() and values.dtype.kind in "fc":
        values = values.copy()
        values[~known] = np.nan
    return selected(values, known.ndim, roi)
