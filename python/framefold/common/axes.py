"""The axes of a data set: what a position on them is, in which unit."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, NoReturn

import numpy as np
import numpy.typing as npt

from framefold.exceptions import ReadOnlyError

__all__ = ["Axis"]

AxisKind = Literal["nav", "sig", "extra"]


class Axis(NamedTuple):
    """One axis of a data set; see :attr:`framefold.io.dataset.base.DataSet.axes`.

    Position ``i`` is at ``offset + i * scale``. Where nothing is known, ``scale`` is 1.0,
    ``offset`` 0.0 and ``unit`` empty: positions are counted.

    Parameters
    ----------
    name
        Such as ``scan_y``, ``scan_x``, ``y``, ``x`` or ``channel``. No other axis of the data
        set has the same.
    unit
        Of ``scale`` and ``offset``: ``nm``, ``mrad``, ``1/nm``, ``eV``.
    scale
        The distance of neighbours. Below 0 if values fall with the index.
    offset
        The value of the first position.
    size
        How many positions it has.
    kind
        ``nav`` for an axis of the scan, ``sig`` for one of frames, ``extra`` for one that a result
        has beside these.
    """

    name: str
    unit: str
    scale: float
    offset: float
    size: int
    kind: AxisKind

    def __setattr__(self, name: str, value: Any) -> NoReturn:
        """Refuse: data sets do not change."""
        raise ReadOnlyError(
            f"a change of {name!r} has no effect on the data set; dataset.calibrate(scan_step=…, "
            f"pixel_size=…, centre=…, names=…) gives one with other axes"
        )

    @property
    def direction(self) -> Literal[-1, 1]:
        """1 if values rise with the index, -1 if they fall."""
        return -1 if self.scale < 0 else 1

    @property
    def is_calibrated(self) -> bool:
        """Whether anything is known: if not, positions are counted from 0."""
        return (self.scale, self.offset, self.unit) != (1.0, 0.0, "")

    @property
    def values(self) -> npt.NDArray[np.float64]:
        """The values of all positions; shape ``(size,)``, in ``unit``."""
        return self.offset + self.scale * np.arange(self.size, dtype=np.float64)

    def __repr__(self) -> str:
        """``scan_y: 128 × 0.5 nm, from -2 nm``; what is not known is not said."""
        if not self.is_calibrated:
            return f"{self.name}: {self.size}"
        shown = f"{self.name}: {self.size} × {f'{self.scale:.7g} {self.unit}'.rstrip()}"
        if self.offset:
            shown += f", from {f'{self.offset:.7g} {self.unit}'.rstrip()}"
        return shown
