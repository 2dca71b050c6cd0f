"""The notebooks run, and what they say is what is kept in them; live plots change as they run.

What they say that one writes with LiberTEM and HyperSpy runs, too, and comes to the same results.
"""

from __future__ import annotations

import base64
import importlib.util
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from forked_scripts import forked_scripts
from own_kernels import own_sockets

FOLDER = Path(__file__).resolve().parent.parent / "docs" / "notebooks"
NOTEBOOKS = sorted(path.name for path in FOLDER.glob("*.ipynb"))
#: What one writes elsewhere, and compares with what the notebook has saved.
BLOCK = re.compile(r"```python\n# (LiberTEM|HyperSpy)\n(.*?)```", re.DOTALL)
AS_LIBERTEM = "import framefold\nframefold.install_as_libertem()\n"
Elsewhere = Callable[[Any, Path], None]
PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Run the notebook of a name in a folder of its own."""
    pytest.importorskip("nbclient", reason="nbclient is needed to run notebooks")
    pytest.importorskip("ipykernel", reason="ipykernel is needed to run notebooks")
    pytest.importorskip("matplotlib")
    monkeypatch.syspath_prepend(str(FOLDER))
    sys.modules.pop("run", None)
    from run import executed  # type: ignore[import-not-found]

    # The kernel chooses its own backend, as it does for a user.
    monkeypatch.delenv("MPLBACKEND", raising=False)
    with own_sockets() as config:
        yield lambda name: executed(FOLDER / name, tmp_path, config=config)


def texts(notebook: Any) -> list[tuple[int, str]]:
    """What cells print and show as text, each with the number of its cell."""
    found = []
    for number, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            if output.output_type == "stream":
                found.append((number, output.text))
            elif output.output_type == "execute_result":
                found.append((number, output.data["text/plain"]))
    return found


def pictures(notebook: Any) -> list[list[bytes]]:
    """The pictures of each cell of code."""
    return [
        [
            base64.b64decode(output.data["image/png"])
            for output in cell.outputs
            if output.output_type == "display_data" and "image/png" in output.data
        ]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]


@pytest.fixture(scope="module")
def elsewhere() -> Iterator[Elsewhere]:
    """Runs what a notebook says of LiberTEM, on framefold, and of HyperSpy if it is there."""
    modules = {"LiberTEM": ["matplotlib.pyplot"]}
    if importlib.util.find_spec("hyperspy"):
        modules["HyperSpy"] = ["hyperspy._signals.signal2d", "hyperspy.roi", "hyperspy.io"]
        modules["HyperSpy"] += ["dask.array", "distributed", "scipy.ndimage", "h5py", "zarr"]
        modules["HyperSpy"] += ["rsciio.empad", "rsciio.utils._units"]
    with forked_scripts(MPLBACKEND="Agg") as run:

        def run_blocks(notebook: Any, folder: Path) -> None:
            cells = [cell.source for cell in notebook.cells if cell.cell_type == "markdown"]
            blocks = dict(BLOCK.findall(cells[-1]))
            assert sorted(blocks) == ["HyperSpy", "LiberTEM"]
            for name in modules:
                before = AS_LIBERTEM if name == "LiberTEM" else ""
                script = folder / f"{name}.py"
                script.write_text(before + blocks[name], encoding="utf-8")
                run(script, folder=folder, modules=modules[name])

        yield run_blocks


@pytest.mark.parametrize("name", [name for name in NOTEBOOKS if name != "live-plots.ipynb"])
def test_a_notebook_says_what_is_kept_in_it(
    run: Any, elsewhere: Elsewhere, name: str, tmp_path: Path
) -> None:
    import nbformat

    kept = nbformat.read(FOLDER / name, as_version=4)
    notebook, _ = run(name)
    assert texts(notebook) == texts(kept), f"run: python docs/notebooks/run.py {name}"
    assert [len(cell) for cell in pictures(notebook)] == [len(cell) for cell in pictures(kept)]
    elsewhere(notebook, tmp_path)


def test_live_plots_follow_the_run(run: Any, elsewhere: Elsewhere, tmp_path: Path) -> None:
    notebook, updates = run("live-plots.ipynb")
    assert not any(
        output.output_type in ("error", "stream") for cell in notebook.cells
        for output in cell.get("outputs", [])
    )  # fmt: skip
    shown = pictures(notebook)
    # Each plot once, in the cell that shows it: as it was at the end.
    assert [len(of_cell) for of_cell in shown] == [0, 2, 2, 1, 0, 0]
    assert all(picture.startswith(PNG) for of_cell in shown for picture in of_cell)
    assert len(updates) == 5
    assert max(updates.values()) >= 3
    assert min(updates.values()) >= 1
    for name in ("live-plot.png", "live-plot-half.png"):
        assert (tmp_path / name).read_bytes().startswith(PNG)
    (page,) = notebook.cells[-2].outputs
    assert "Periodicity" in page.data["text/html"]
    assert "<svg" in page.data["text/html"]
    elsewhere(notebook, tmp_path)


@pytest.mark.parametrize("name", NOTEBOOKS)
def test_notebooks_are_kept_with_their_output(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    assert '"execution_count": 1' in text
    assert "image/png" in text
    # Folders of the machine that it ran on.
    assert "/tmp" not in text
    assert "/home" not in text
