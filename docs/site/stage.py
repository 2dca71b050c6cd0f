"""Lays out the sources of the site in a folder of their own.

The pages stay what they are on a code host: plain Markdown that link to each other's files.
Here they are copied to where the site has them, and links follow.
"""

from __future__ import annotations

import base64
import json
import os
import re
import shutil
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from contents import FROM_ROOT, SECTIONS, Section

DOCS = Path(__file__).resolve().parent.parent
ROOT = DOCS.parent

LINK = re.compile(r"(\]\()([^)\s#:]+)(#[^)\s]*)?(\))")
#: A link to the file that a crate begins with; the site has rustdoc's page of the crate instead.
CRATE = re.compile(r"\[([^\]]+)\]\([./]*crates/([\w-]+)/src/lib\.rs\)")
RUSTDOC = "rust-reference"
FENCE = re.compile(r"^\s*```")


def place_of(source: Path) -> Path | None:
    """Where the site has a file of the repository; None if it is no page."""
    if source.is_relative_to(ROOT):
        page = FROM_ROOT.get(source.relative_to(ROOT).as_posix())
        if page is not None:
            return Path(page)
    if source.is_relative_to(DOCS) and not source.is_relative_to(DOCS / "site"):
        within = source.relative_to(DOCS)
        if within.name == "README.md":
            return within.with_name("index.md")
        return within.with_suffix(".md") if within.suffix == ".ipynb" else within
    return None


def relocated(text: str, source: Path, files: dict[Path, Path]) -> str:
    """Let the links of a page lead to where the site has what they lead to.

    ``files`` collects what is linked to and is no page: the site gets copies of it.
    """
    here = place_of(source)
    if here is None:
        raise ValueError(f"'{source}' is no page")

    def described(link: re.Match[str]) -> str:
        # In HTML, since Sphinx would look among its own pages for what a link in Markdown names.
        crate = f"framefold-{link[2]}".replace("-framefold", "").replace("-", "_")
        page = os.path.relpath(f"{RUSTDOC}/{crate}/index.html", here.parent).replace(os.sep, "/")
        return f'<a href="{page}">{link[1]}</a>'

    def moved(link: re.Match[str]) -> str:
        target = (source.parent / link[2]).resolve()
        if target.is_dir():
            target = target / "README.md"
        place = place_of(target)
        if target == ROOT / "README.md":
            place = Path("index.md")
        if not target.exists():
            raise FileNotFoundError(f"'{source}' links to '{link[2]}', which is not there")
        if place is None:
            place = files[target] = Path("files") / target.relative_to(ROOT)
        relative = os.path.relpath(place, here.parent).replace(os.sep, "/")
        return f"{link[1]}{relative}{link[3] or ''}{link[4]}"

    lines, in_code = [], False
    for line in text.split("\n"):
        in_code ^= bool(FENCE.match(line))
        # What rustdoc is to do with a block is no part of the language's name.
        line = line.replace("```rust,no_run", "```rust")
        lines.append(line if in_code else LINK.sub(moved, CRATE.sub(described, line)))
    return "\n".join(lines)


def title_and_summary(text: str) -> tuple[str, str]:
    """Find the title of a page and the first sentence below it."""
    title = next(line[2:] for line in text.split("\n") if line.startswith("# "))
    rest = re.sub(r"^```.*?^```$", "", text.split(f"# {title}\n", 1)[1], flags=re.M | re.S)
    for paragraph in re.split(r"\n\s*\n", rest):
        words = " ".join(paragraph.split())
        if words and words[0] not in "#|<!>-*=":
            plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", words)
            # A full stop ends a sentence; a colon before a list or a code block does, too.
            return title, re.split(r"(?<=\.)\s|:$", plain)[0]
    return title, ""


def from_notebook(notebook: dict[str, Any], stem: str) -> tuple[str, dict[str, bytes]]:
    """Write a notebook as a page, with the output that is kept in it, and its pictures by name."""
    lines: list[str] = []
    pictures: dict[str, bytes] = {}
    for cell in notebook["cells"]:
        text = "".join(cell["source"])
        if cell["cell_type"] != "code":
            lines += [text, ""]
            continue
        if text.strip():
            lines += ["```python", text, "```", ""]
        for output in cell["outputs"]:
            data = output.get("data", {})
            if "image/png" in data:
                name = f"{stem}-{len(pictures) + 1}.png"
                pictures[name] = base64.b64decode("".join(data["image/png"]))
                lines += [f"![what the cell above draws]({name})", ""]
            elif shown := "".join(output.get("text", data.get("text/plain", ""))).strip("\n"):
                lines += ["```text", shown, "```", ""]
    return "\n".join(lines), pictures


def toctree(pages: Iterable[str], caption: str = "") -> str:
    """Tell Sphinx which pages follow below one, and what the menu calls them."""
    named = [f":caption: {caption}"] if caption else []
    return "\n".join(["```{toctree}", ":hidden:", *named, "", *pages, "```", ""])


def index_of(section: Section, stage: Path) -> str:
    """Write the index page of a section: each page with its first sentence."""
    lines = [f"# {section.title}", "", section.summary, ""]
    for group in section.groups:
        lines += [f"## {group.title}", ""]
        for page in group.pages:
            source = stage / f"{page}.md"
            if not source.exists():
                continue
            title, summary = title_and_summary(source.read_text(encoding="utf-8"))
            relative = os.path.relpath(source, stage / section.name).replace(os.sep, "/")
            lines.append(f"- [{title}]({relative})" + (f": {summary}" if summary else ""))
        lines.append("")
    lines += [
        toctree((f"/{page}" for page in group.pages), group.title) for group in section.groups
    ]
    return "\n".join(lines)


def lay_out(stage: Path) -> None:
    """Copy all pages and what they show and link to, and write the index pages."""
    shutil.rmtree(stage, ignore_errors=True)
    files: dict[Path, Path] = {}
    sources = [ROOT / name for name in FROM_ROOT if (ROOT / name).exists()]
    sources += sorted(DOCS.rglob("*"))
    for source in sources:
        place = place_of(source)
        if place is None or not source.is_file():
            continue
        target = stage / place
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.suffix == ".md":
            text = relocated(source.read_text(encoding="utf-8"), source, files)
            if place == Path("decisions/index.md"):
                records = sorted(p.stem for p in source.parent.glob("0*.md"))
                text += "\n" + toctree(records)
            target.write_text(text, encoding="utf-8")
        elif source.suffix == ".ipynb":
            shutil.copy2(source, target.with_suffix(".ipynb"))
            notebook = json.loads(source.read_text(encoding="utf-8"))
            for cell in notebook["cells"]:
                if cell["cell_type"] == "markdown":
                    cell["source"] = relocated("".join(cell["source"]), source, files)
            text, pictures = from_notebook(notebook, source.stem)
            text += f"\n[This page as a notebook]({source.name}).\n"
            target.write_text(text, encoding="utf-8")
            for name, picture in pictures.items():
                target.with_name(name).write_bytes(picture)
        else:
            shutil.copy2(source, target)
    for source, place in files.items():
        (stage / place).parent.mkdir(parents=True, exist_ok=True)
        shutil.copy2(source, stage / place)
    shutil.copytree(DOCS / "site" / "_static", stage / "_static")


def write_indexes(stage: Path) -> None:
    """Write the index page of each section, and the site's menu below the start page."""
    for section in SECTIONS:
        folder = stage / section.name
        folder.mkdir(exist_ok=True)
        (folder / "index.md").write_text(index_of(section, stage), encoding="utf-8")
    start = stage / "index.md"
    places = [f"{section.name}/index" for section in SECTIONS]
    menu = toctree([*places[:2], "gallery/index", places[2], "api/index", *places[3:]])
    start.write_text(start.read_text(encoding="utf-8") + "\n" + menu, encoding="utf-8")
