"""Runs the code of the README, the tutorials and the guide, so that what they show works.

The ``python`` blocks of a page run from top to bottom in one namespace, in a folder of their
own that holds the files which the guide talks about (see :func:`prepare`). A ``text`` block that
follows one of them is what it prints, but for where lines are broken. ``sh`` blocks run
only if the line before them is ``<!-- run -->``. A Python block is left out by a line
``<!-- not run: reason -->`` before it; the reason is required. A page that has a line
``<!-- needs: module -->`` is skipped where that module is not installed.
"""

from __future__ import annotations

import re
import shutil
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from detector_files import (
    write_blo,
    write_de_movie,
    write_empad,
    write_frms6,
    write_seq,
    write_seq_sidecars,
)
from vendor_files import write_dm, write_k2is, write_ser, write_tvips

import framefold
from framefold.utils.example import example_files
from framefold.utils.simulate import StrainedCrystal

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
PAGES = [
    ROOT / "README.md",
    DOCS / "index.md",
    *sorted((DOCS / "tutorials").glob("*.md")),
    *sorted((DOCS / "guide").glob("*.md")),
    DOCS / "faq.md",
]

FENCE = re.compile(r"^```(\w*)")
NOT_RUN = re.compile(r"^<!-- not run: (.+) -->$")
NEEDS = re.compile(r"^<!-- needs: (\w+) -->$", re.MULTILINE)


@dataclass(frozen=True)
class Block:
    """A fenced block of code; ``line`` is that of its first line, counted from 1."""

    language: str
    code: str
    line: int
    before: str


def blocks(text: str) -> list[Block]:
    """Find the fenced blocks of a page."""
    found: list[Block] = []
    lines = text.splitlines()
    index = 0
    while index < len(lines):
        fence = FENCE.match(lines[index])
        if fence is None:
            index += 1
            continue
        end = next((i for i in range(index + 1, len(lines)) if lines[i] == "```"), None)
        if end is None:
            raise ValueError(f"line {index + 1}: the block is not closed")
        before = next((line for line in reversed(lines[:index]) if line.strip()), "")
        found.append(Block(fence[1], "\n".join(lines[index + 1 : end]), index + 2, before))
        index = end + 1
    return found


def prepare(folder: Path) -> None:
    """Write the files that the guide talks about: one scan, in every format."""
    crystal = StrainedCrystal(
        nav_shape=(8, 10), sig_shape=(64, 64), camera_step=0.22, disk_radius=3.0, scan_step=6.0
    )
    counts = crystal.counts()
    example_files(folder)
    assert np.array_equal(np.load(folder / "scan.npy"), counts)
    write_blo(folder / "scan.blo", counts)
    write_empad(folder / "scan.xml", counts)
    write_de_movie(folder / "20250101_00001_movie.mrc", counts)
    write_seq(folder / "scan.seq", counts)
    dark, gain = np.full((64, 64), 0.5, np.float32), np.full((64, 64), 2, np.float32)
    write_frms6(folder / "pn.hdr", counts, np.full((3, 64, 64), 2, np.uint16))
    write_seq_sidecars(folder / "scan.seq", dark, gain, bad_row=20)
    write_dm(folder / "scan.dm4", counts, swapped=True)
    write_dm(folder / "transposed.dm4", counts.transpose(2, 3, 0, 1), swapped=False)
    for index in range(4):
        write_dm(folder / f"image_{index}.dm3", counts[0, index], version=3)
    frames = counts.reshape(-1, 64, 64)
    write_ser(folder / "scan_1.ser", frames)
    positions = [divmod(position, 10) for position in range(80)]
    write_tvips(folder, "scan", frames, positions=positions, files=2)


def prepare_k2is(folder: Path) -> None:
    """Write raw data of a K2 IS, whose frames are large."""
    frames = np.random.default_rng(0).integers(0, 4096, (3, 1860, 2048), dtype=np.uint16)
    write_k2is(folder, "Capture_", frames, idle=1, scan=(1, 2))


#: The scan that many pages simulate: once for all of them, as data sets do not change.
example_scan = cache(framefold.example_scan)
#: Pages that need more files than all others.
MORE = {"k2is.md": prepare_k2is}


@pytest.fixture(scope="module")
def prepared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Prepare the files once; each page gets a copy."""
    folder = tmp_path_factory.mktemp("guide")
    prepare(folder)
    return folder


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_the_code_of_a_page_runs(
    page: Path,
    prepared: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    text = page.read_text(encoding="utf-8")
    for module in NEEDS.findall(text):
        pytest.importorskip(module, reason=f"{module} is not installed")
    shutil.copytree(prepared, tmp_path, dirs_exist_ok=True)
    if page.name in MORE:
        MORE[page.name](tmp_path)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("MPLBACKEND", "Agg")
    monkeypatch.setattr(framefold, "example_scan", example_scan)
    namespace: dict[str, object] = {"__name__": "__main__"}
    printed = None
    for block in blocks(text):
        if block.language == "text" and block.before == "```" and printed is not None:
            assert printed.split() == block.code.split(), (
                f"{page}:{block.line}: it prints {printed}"
            )
        printed = None
        if block.language == "python" and not NOT_RUN.match(block.before):
            # Tracebacks show the page and the line in it.
            code = "\n" * (block.line - 1) + block.code + "\n"
            capsys.readouterr()
            exec(compile(code, str(page), "exec"), namespace)
            printed = capsys.readouterr().out
        elif block.language == "sh" and block.before == "<!-- run -->":
            shell = ["bash", "-eu", "-o", "pipefail", "-c", block.code]
            done = subprocess.run(shell, capture_output=True, text=True, timeout=120, check=False)
            assert done.returncode == 0, (
                f"{page}:{block.line}: exit code {done.returncode}\n{done.stdout}{done.stderr}"
            )


def test_every_page_has_code_that_is_run() -> None:
    assert len(PAGES) > 5
    for page in PAGES:
        runs = [
            block
            for block in blocks(page.read_text(encoding="utf-8"))
            if (block.language == "python" and not NOT_RUN.match(block.before))
            or (block.language == "sh" and block.before == "<!-- run -->")
        ]
        assert runs, f"{page} shows no code that is run"


def test_every_block_names_its_language() -> None:
    for page in PAGES:
        for block in blocks(page.read_text(encoding="utf-8")):
            assert block.language, f"{page}:{block.line}: the block names no language"


def test_links_between_pages_lead_somewhere() -> None:
    for page in [*ROOT.glob("*.md"), *DOCS.rglob("*.md")]:
        for target in re.findall(r"\]\(([^)#:]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            assert (page.parent / target).exists(), f"{page} links to '{target}'"


def test_blocks_are_found_with_their_place() -> None:
    text = "a\n<!-- not run: why -->\n```python\nx = 1\n```\n\n```sh\ny\nz\n```\n"
    assert blocks(text) == [
        Block("python", "x = 1", 4, "<!-- not run: why -->"),
        Block("sh", "y\nz", 8, "```"),
    ]
    with pytest.raises(ValueError, match="line 1"):
        blocks("```python\nx")
