"""What is checked of a site that was built, beyond what Sphinx warns of."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path
from types import ModuleType

from public import COMPATIBILITY, promised, public_names, split
from sphinx.util.inventory import InventoryFile
from stage import RUSTDOC

#: Attributes by which a page has a browser load something.
LOADS = {"script": "src", "img": "src", "source": "src", "iframe": "src", "link": "href"}


#: How a page links to what rustdoc wrote.
RUST = re.compile(rf'href="((?:\.\./)*{RUSTDOC}/[^"]+)"')


class Loads(HTMLParser):
    """Collects what a page loads as it is opened."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Look at one tag."""
        given = dict(attrs)
        if tag == "link" and given.get("rel") == "canonical":
            return
        if tag in LOADS:
            self.found.append(given.get(LOADS[tag]) or "")


def loaded_from_elsewhere(html: str) -> list[str]:
    """Name what a page loads from another place than the site itself."""
    page = Loads()
    page.feed(html)
    return [address for address in page.found if re.match(r"(\w+:)?//", address)]


def described(out: Path) -> set[str]:
    """Find the dotted paths of all Python objects that the site has an entry for."""
    with (out / "objects.inv").open("rb") as stream:
        inventory = InventoryFile.load(stream, "", lambda base, path: path)
    return {path for kind, paths in inventory.items() if kind.startswith("py:") for path in paths}


def undescribed(entries: set[str], page: str) -> list[str]:
    """Name what is public and has no entry: names of modules, and what the page promises.

    Of a class, what it inherits may be described with the class that has it.
    """
    missing = [name.path for name in public_names() if name.path not in entries]
    homes = {id(name.value): name.path for name in public_names()}
    for path in promised(page):
        module, name, rest = split(path)
        value = getattr(module, name)
        classes = value.__mro__ if isinstance(value, type) else (value,)
        places = [homes[id(each)] for each in classes if id(each) in homes]
        wanted = [f"{place}.{rest}" if rest else place for place in places]
        if not isinstance(value, ModuleType) and not entries.intersection([path, *wanted]):
            missing.append(path)
    return missing


def check_site(out: Path, *, rust: bool) -> list[str]:
    """Say in words what is wrong with a site; an empty list if nothing is.

    ``rust``: whether the reference of the crates is part of it.
    """
    faults = []
    for page in sorted(out.rglob("*.html")):
        text = page.read_text(encoding="utf-8")
        for address in loaded_from_elsewhere(text):
            faults.append(f"{page.relative_to(out)} loads {address}: pages have to work offline")
        for link in RUST.findall(text) if rust else ():
            if not (page.parent / link).is_file():
                faults.append(f"{page.relative_to(out)} links to {link}, which is not there")
    for sheet in sorted(out.rglob("*.css")):
        if re.search(r"url\(['\"]?(https?:)?//|@import\s+['\"]https?:", sheet.read_text("utf-8")):
            faults.append(f"{sheet.relative_to(out)} loads from elsewhere")
    for path in undescribed(described(out), COMPATIBILITY.read_text(encoding="utf-8")):
        faults.append(f"{path} is public, and has no entry in the reference")
    return faults
