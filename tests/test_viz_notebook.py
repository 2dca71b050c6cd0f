"""The notebook about live plots runs, and shows plots that change."""

from __future__ import annotations

import asyncio
import base64
import shutil
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

NOTEBOOK = Path(__file__).resolve().parent.parent / "examples" / "live_plot.ipynb"
PNG = b"\x89PNG\r\n\x1a\n"


def run(path: Path) -> tuple[Any, Counter[str]]:
    """Run a notebook in its folder; gives it with its output, and how often each was updated."""
    nbclient = pytest.importorskip("nbclient", reason="nbclient is needed to run notebooks")
    nbformat = pytest.importorskip("nbformat")
    pytest.importorskip("ipykernel", reason="ipykernel is needed to run notebooks")
    updates: Counter[str] = Counter()

    class Watching(nbclient.NotebookClient):  # type: ignore[misc, name-defined]
        def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
            if msg["msg_type"] == "update_display_data":
                updates[msg["content"]["transient"]["display_id"]] += 1
            return super().process_message(msg, cell, cell_index)

    notebook = nbformat.read(path, as_version=4)
    client = Watching(
        notebook,
        timeout=300,
        kernel_name="python3",
        resources={"metadata": {"path": str(path.parent)}},
    )
    asyncio.run(client.async_execute())
    return notebook, updates


def test_the_notebook_shows_plots_that_follow_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib")
    # The kernel chooses its own backend, as it does for a user.
    monkeypatch.delenv("MPLBACKEND", raising=False)
    shutil.copy(NOTEBOOK, tmp_path)
    notebook, updates = run(tmp_path / NOTEBOOK.name)
    assert not any(
        output.output_type in ("error", "stream") for cell in notebook.cells
        for output in cell.get("outputs", [])
    )  # fmt: skip
    pictures = [
        [
            base64.b64decode(output.data["image/png"])
            for output in cell.outputs
            if output.output_type == "display_data" and "image/png" in output.data
        ]
        for cell in notebook.cells
        if cell.cell_type == "code"
    ]
    # Each plot once, in the cell that shows it: as it was at the end.
    assert [len(of_cell) for of_cell in pictures] == [0, 2, 2, 1, 0, 0]
    assert all(picture.startswith(PNG) for of_cell in pictures for picture in of_cell)
    assert len(updates) == 5
    assert max(updates.values()) >= 3
    assert min(updates.values()) >= 1
    for name in ("live-plot.png", "live-plot-half.png"):
        assert (tmp_path / name).read_bytes().startswith(PNG)
    (page,) = notebook.cells[-1].outputs
    assert "Periodicity" in page.data["text/html"]
    assert "<svg" in page.data["text/html"]


def test_the_notebook_is_kept_without_output() -> None:
    text = NOTEBOOK.read_text(encoding="utf-8")
    assert '"outputs": []' in text
    assert "image/png" not in text
    assert '"execution_count": 1' not in text
