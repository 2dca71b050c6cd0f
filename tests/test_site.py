"""The checks that `make docs` does of the site find what they are for."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

SITE = Path(__file__).resolve().parent.parent / "docs" / "site"


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    """The modules that build the site, imported as its build does."""
    pytest.importorskip("sphinx", reason="Sphinx is not installed")
    sys.path.insert(0, str(SITE))
    try:
        import api
        import checks
        import contents
        import drawings
        import public
        import stage
    finally:
        sys.path.remove(str(SITE))
    modules = {"api": api, "checks": checks, "contents": contents, "drawings": drawings}
    yield type("Site", (), {**modules, "public": public, "stage": stage})
    for name in ("api", "checks", "contents", "drawings", "public", "stage"):
        del sys.modules[name]


def test_public_names_are_found_without_a_list(site):
    paths = {name.path for name in site.public.public_names()}
    assert {"framefold.Context", "framefold.masks.ring", "framefold.exceptions.LimitError"} <= paths
    assert "framefold.io.dataset.tiff.TIFFDataSet" in paths
    # Once, where users import it from.
    assert "framefold.api.Context" not in paths
    # What only the table promises.
    assert "framefold.udf.base.UDFRunner" in paths
    assert not any(".run." in path or "._engine" in path for path in paths)


def test_the_packages_own_folders_are_those_of_the_architecture(site):
    text = (site.stage.ROOT / "ARCHITECTURE.md").read_text(encoding="utf-8")
    (sentence,) = re.findall(r"underscore are its own, and so are ([^.]+)\.", text)
    assert set(re.findall(r"`(\w+)/`", sentence)) | {"udf.engine"} == set(site.public.OWN)


def test_a_name_without_an_entry_is_a_fault(site):
    entries = {name.path for name in site.public.public_names()}
    assert site.checks.undescribed(entries, "") == []
    assert site.checks.undescribed(entries - {"framefold.masks.ring"}, "") == [
        "framefold.masks.ring"
    ]
    table = "| a | `framefold.udf.UDF.get_method` | works | |\n"
    assert site.checks.undescribed(entries, table) == ["framefold.udf.UDF.get_method"]
    assert site.checks.undescribed(entries | {"framefold.UDF.get_method"}, table) == []


def test_the_reference_has_a_page_for_every_part(site, tmp_path):
    site.api.write_reference(tmp_path)
    text = "".join(page.read_text(encoding="utf-8") for page in tmp_path.rglob("*.rst"))
    assert ".. autoclass:: framefold.Context\n" in text
    assert ".. autofunction:: framefold.masks.ring\n" in text
    assert "- ``Context``: :py:obj:`framefold.Context`" in text


def test_pages_that_load_from_elsewhere_are_found(site):
    found = site.checks.loaded_from_elsewhere
    assert found('<script src="https://example.org/x.js"></script>') == ["https://example.org/x.js"]
    assert found('<link rel="stylesheet" href="//example.org/x.css">') == ["//example.org/x.css"]
    assert found('<a href="https://example.org">here</a><img src="../a.png">') == []


def test_links_follow_pages_to_their_places(site):
    page = site.stage.DOCS / "guide" / "formats.md"
    files = {}
    text = "[a](../../CONTRIBUTING.md#hostile-files) [b](mib.md) [c](../../examples/demo.py)"
    assert site.stage.relocated(text, page, files) == (
        "[a](../project/contributing.md#hostile-files) [b](mib.md) [c](../files/examples/demo.py)"
    )
    assert [place.name for place in files.values()] == ["demo.py"]
    code = "```python\nx[a](b)\n```"
    assert site.stage.relocated(code, page, {}) == code
    with pytest.raises(FileNotFoundError, match=r"formats.md.*nowhere.md"):
        site.stage.relocated("[a](nowhere.md)", page, {})


def test_every_page_has_its_place_in_the_menu(site):
    placed = {page for s in site.contents.SECTIONS for g in s.groups for page in g.pages}
    pages = set()
    for path in [*site.stage.DOCS.rglob("*.md"), *site.stage.DOCS.rglob("*.ipynb")]:
        pages.add(str(site.stage.place_of(path).with_suffix("")).replace("\\", "/"))
    pages |= {place.removesuffix(".md") for place in site.contents.FROM_ROOT.values()}
    unplaced = {page for page in pages - placed if not page.startswith("decisions/0")}
    assert unplaced - {"index"} == set()
    assert placed - pages == set()


def test_drawings_are_what_their_script_draws(site):
    for name, draw in site.drawings.DRAWINGS.items():
        committed = site.stage.DOCS / "drawings" / f"{name}.svg"
        assert committed.read_text(encoding="utf-8") == draw().svg(), (
            "run python docs/site/drawings.py"
        )


def test_the_plot_of_speed_shows_what_was_measured(site):
    page = "| case | ms |\n| sum | 1 | 2 % | 3 | 0.4 | 5.5 (dask) | 2.1 (dask) | x |\n"
    assert site.drawings.ratios(page, ("sum",)) == {"sum": 5.5}


def test_a_notebook_is_a_page_with_its_output(site):
    outputs = [
        {"output_type": "stream", "text": ["one\n", "two\n"]},
        {"output_type": "display_data", "data": {"image/png": "iVBORw==", "text/plain": "x"}},
    ]
    cells = [
        {"cell_type": "markdown", "source": ["# Title"]},
        {"cell_type": "code", "source": ["print()"], "outputs": outputs},
    ]
    text, pictures = site.stage.from_notebook({"cells": cells}, "job")
    assert "# Title\n\n```python\nprint()\n```\n\n```text\none\ntwo\n```" in text
    assert "](job-1.png)" in text
    assert pictures == {"job-1.png": b"\x89PNG"}


def test_a_summary_is_the_first_sentence(site):
    text = "# Title\n\n```python\nx\n```\n\nThe *first*\n[sentence](a.md). The second.\n"
    assert site.stage.title_and_summary(text) == ("Title", "The *first* sentence.")
