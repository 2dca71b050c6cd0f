"""Run notebooks, and keep them with their output: ``python docs/notebooks/run.py [NAME.ipynb …]``.

Each runs in a folder of its own, which is gone afterwards. Without names, all of this folder.
"""

from __future__ import annotations

import asyncio
import sys
from collections import Counter
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import nbformat
from nbclient import NotebookClient

HERE = Path(__file__).resolve().parent


class Watching(NotebookClient):  # type: ignore[misc]
    """Counts how often each picture was replaced while its cell ran."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.updates: Counter[str] = Counter()

    def process_message(self, msg: Any, cell: Any, cell_index: int) -> Any:
        if msg["msg_type"] == "update_display_data":
            self.updates[msg["content"]["transient"]["display_id"]] += 1
        return super().process_message(msg, cell, cell_index)


def executed(path: Path, folder: Path, **options: Any) -> tuple[Any, Counter[str]]:
    """Run a notebook in a folder; gives it with its output, and the updates of its pictures."""
    notebook = nbformat.read(path, as_version=4)
    client = Watching(
        notebook,
        timeout=300,
        kernel_name="python3",
        # What one call of print shows may come in two messages.
        coalesce_streams=True,
        resources={"metadata": {"path": str(folder)}},
        **options,
    )
    asyncio.run(client.async_execute())
    for cell in notebook.cells:
        # When each cell ran is of no interest, and other every time.
        cell.metadata.pop("execution", None)
    return notebook, client.updates


def main(names: list[str]) -> None:
    for path in [HERE / name for name in names] or sorted(HERE.glob("*.ipynb")):
        with TemporaryDirectory() as folder:
            notebook, _ = executed(path, Path(folder))
        nbformat.write(notebook, path)
        print(path)


if __name__ == "__main__":
    main(sys.argv[1:])
