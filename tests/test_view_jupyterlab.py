"""The widget in JupyterLab: its picture follows pointer and keys, and is NumPy's."""

from __future__ import annotations

from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser_cases import DIST, PICTURES, drive
from canvas_pixels import check, disk, tables

# Importing them takes a second, which only the process that runs the test has to spend.
MISSING = [
    name for name in ("anywidget", "ipykernel", "jupyterlab", "nbformat") if find_spec(name) is None
]

pytestmark = [
    pytest.mark.skipif(
        bool(MISSING),
        reason=f"the widget is tried in JupyterLab: pip install {' '.join(MISSING)}",
    ),
    pytest.mark.usefixtures("one_browser"),
]

SCAN, FRAME = (10, 12), (16, 14)
CODE = """
import framefold as ff

ctx = ff.Context.make_with("inline")
widget = ff.view(ctx.open("scan.npy"), {"total": ff.SumSigUDF()}, context=ctx)
widget
"""
#: The page that is being worked at, instead of the one that the package holds.
OWN_PAGE = f"""
from pathlib import Path
from framefold._viewer.widget import ViewerWidget

ViewerWidget._esm = Path({str(DIST)!r}, "viewer.js").read_text()
ViewerWidget._css = Path({str(DIST)!r}, "viewer.css").read_text()
"""


def test_the_widget_in_jupyterlab(tmp_path: Path) -> None:
    import nbformat
    from own_jupyterlab import TOKEN, jupyterlab_server

    counts = np.random.default_rng(4).poisson(7.0, (*SCAN, *FRAME)).astype(np.uint16)
    np.save(tmp_path / "scan.npy", counts)
    cell = nbformat.v4.new_code_cell((OWN_PAGE if DIST else "") + CODE)
    kernel = {"kernelspec": {"name": "python3", "display_name": "Python 3"}}
    notebook = nbformat.v4.new_notebook(cells=[cell], metadata=kernel)
    nbformat.write(notebook, tmp_path / "look.ipynb")
    with jupyterlab_server(tmp_path) as url:
        found = drive(
            "jupyterlab.mjs", url=f"{url}doc/tree/look.ipynb?token={TOKEN}", folder=PICTURES
        )
    print(found["errors"], found["painted"])
    assert found["painted"] > 0
    # What was typed moved the detector, and is no command of JupyterLab's.
    assert found["cells"] == [1, 1]
    assert found["kinds"] == [True]
    for name in ("first", "dragged", "keys"):
        (detector,) = found[name]["state"]["scan"]["query"]["detector"]
        shape = detector["shape"]
        pixels = disk(FRAME, shape["cy"], shape["cx"], shape["r"])
        check_pane(found[name], "scan", counts[..., pixels].sum(axis=-1))
        check_pane(found[name], "pattern", counts.mean(axis=(0, 1)))
    moved = found["dragged"]["state"]["scan"]["query"]["detector"][0]["shape"]
    assert (moved["cy"], moved["cx"]) == pytest.approx((10, 3), abs=0.11)
    check_pane(found["own"], "scan", counts.sum(axis=(2, 3)))
    # The kernel was restarted.
    assert all("run the cell again" in words for words in found["lost"])
    assert len(found["lost"]) == 1
    assert found["errors"] == []


def check_pane(found: dict[str, Any], pane: str, values: np.ndarray) -> None:
    display = found["state"][pane]["display"]
    check(found[pane], values.astype(float), display, tables()[display["colormap"]])
