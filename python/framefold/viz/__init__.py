"""Live plots: pictures of results that follow a run.

:class:`~framefold.viz.mpl.MPLLive2DPlot` draws with matplotlib,
:class:`~framefold.viz.bqp.BQLive2DPlot` with bqplot; both are
:class:`~framefold.viz.base.Live2DPlot`, which finds out what to draw and when. Importing this
package imports neither library.
"""

from typing import Any

from framefold.compat.submodules import submodule
from framefold.results.colours import (
    cyclic_colormap,
    encode_image,
    rgb_from_2dvector,
    robust_limits,
    visualize_simple,
)
from framefold.viz._channels import get_plottable_2D_channels
from framefold.viz.base import Dummy2DPlot, Live2DPlot
from framefold.viz.bqp import BQLive2DPlot
from framefold.viz.mpl import MPLLive2DPlot
from framefold.viz.tiling import UDFInfo

__all__ = [
    "BQLive2DPlot",
    "Dummy2DPlot",
    "Live2DPlot",
    "MPLLive2DPlot",
    "UDFInfo",
    "encode_image",
    "get_plottable_2D_channels",
    "rgb_from_2dvector",
    "robust_limits",
    "visualize_simple",
]


def __getattr__(name: str) -> Any:
    """A submodule that was not imported yet, or the colour map of directions."""
    if name == "libertem_cyclic":
        return cyclic_colormap()
    return submodule(__name__, name)
