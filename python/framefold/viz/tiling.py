"""How UDFs would run, as a page for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from framefold.run.plan import plan_run

if TYPE_CHECKING:
    from collections.abc import Sequence

    from framefold.io.dataset.base import DataSet
    from framefold.udf.base import UDF

#: The longest side of the picture in pixels of the screen.
PICTURE = 240
#: The width of a letter in pixels, at most, for the line below the picture.
LETTER = 7.5
#: More lines than this are drawn no finer: they would fill the picture.
FINEST = 60


class UDFInfo:
    """Partitions, tiles, dtypes and result buffers of a run; reads no pixel.

    Notebooks show it as tables and a picture of how a frame is cut into tiles; printed, it is
    the text of :meth:`framefold.Context.explain`.

    Parameters
    ----------
    dataset, udf, roi
        As for :meth:`framefold.Context.run_udf`.

    Attributes
    ----------
    partitions : list of tuple of int
        The first frame of each partition, and the one behind its last, counted among the selected
        ones.
    tile_depth : int
        The largest number of frames in a tile.
    tile_shape : tuple of int
        The shape of a tile on the signal axes; smaller at the borders.
    """

    def __init__(self, dataset: DataSet, udf: UDF | Sequence[UDF], roi: Any = None) -> None:
        plan = plan_run(dataset, udf, roi, threads=0).plan
        self._text = plan.explain()
        self._general, self._udfs = plan.explained()
        self._sig = tuple(dataset.shape.sig)
        self.partitions = plan.partitions()
        self.tile_depth = plan.tile_depth
        self.tile_shape = plan.tile_shape

    def __str__(self) -> str:
        return self._text

    def __repr__(self) -> str:
        return self._text

    def _repr_html_(self) -> str:
        """The page."""
        parts = ["<div>", "<table><tbody>"]
        parts += [_row(_cell(name, "th"), _cell(text)) for name, text in self._general]
        parts += ["</tbody></table>", self._picture()]
        for title, how, buffers in self._udfs:
            parts.append(f"<h4>{escape(title)}</h4><p>{escape(how)}</p>")
            head = _row(*(_cell(name, "th") for name in ("result", "kind", "shape", "dtype", "")))
            parts.append(f"<table><thead>{head}</thead><tbody>")
            for result, kind, shape, dtype, use in buffers:
                numbers = f"({', '.join(map(str, shape))})"
                parts.append(_row(*map(_cell, (result, kind, numbers, dtype, use))))
            parts.append("</tbody></table>")
        parts.append("</div>")
        return "\n".join(parts)

    def _picture(self) -> str:
        """A frame, cut into tiles: SVG. Frames with more than two axes show the last two."""
        sig, tile = ((1,) * (2 - len(dims)) + dims for dims in (self._sig, self.tile_shape))
        height, width = sig[-2:]
        scale = PICTURE / max(height, width, 1)
        # At least some pixels high, so that frames of one row can be seen.
        w, h = max(width * scale, 12.0), max(height * scale, 12.0)
        lines = []
        for axis, (length, step, extent) in enumerate(
            ((width, tile[-1], w), (height, tile[-2], h))
        ):
            cuts = np.arange(step, length, step) * (extent / length)
            if len(cuts) > FINEST:
                cuts = cuts[:: -(-len(cuts) // FINEST)]
            ends = (
                ("x1='{0:.2f}' x2='{0:.2f}' y1='0' y2='{1:.2f}'", h)
                if axis == 0
                else ("y1='{0:.2f}' y2='{0:.2f}' x1='0' x2='{1:.2f}'", w)
            )
            lines += [f"<line {ends[0].format(cut, ends[1])}/>" for cut in cuts]
        first = (
            f"<rect width='{min(tile[-1] / max(width, 1), 1) * w:.2f}' "
            f"height='{min(tile[-2] / max(height, 1), 1) * h:.2f}' fill='#5b8db8' stroke='none'/>"
        )
        n_tiles = int(
            np.prod([-(-n // t) for n, t in zip(self._sig, self.tile_shape, strict=True)])
        )
        label = (
            f"frame {_times(self._sig)}, {n_tiles} tile{'s' * (n_tiles != 1)} of up to "
            f"{_times((self.tile_depth, *self.tile_shape))}"
        )
        full = max(w, LETTER * len(label))
        return (
            f"<svg xmlns='http://www.w3.org/2000/svg' width='{full + 2:.0f}' "
            f"height='{h + 24:.0f}' role='img' aria-label='{escape(label)}'>"
            f"<title>{escape(label)}</title>"
            f"<g transform='translate(1,1)' stroke='#44546a' stroke-width='1' fill='none'>"
            f"<rect width='{w:.2f}' height='{h:.2f}' fill='#eef2f6' stroke='none'/>{first}"
            f"{''.join(lines)}<rect width='{w:.2f}' height='{h:.2f}'/></g>"
            f"<text x='1' y='{h + 18:.0f}' font-family='sans-serif' font-size='12' "
            f"fill='#808080'>{escape(label)}</text></svg>"
        )


def _times(shape: tuple[int, ...]) -> str:
    return " × ".join(map(str, shape))


def _cell(text: str, tag: str = "td") -> str:
    return f"<{tag} style='text-align: left'>{escape(text)}</{tag}>"


def _row(*cells: str) -> str:
    return f"<tr>{''.join(cells)}</tr>"
