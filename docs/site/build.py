"""Builds the documentation as a static site: ``make docs``.

Nothing is fetched, neither while the site is built nor while it is read. Warnings of Sphinx
are errors; so are links that lead nowhere, pages that no menu has, and public names without an
entry.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
import time
from pathlib import Path

import stage
from api import write_reference
from checks import check_site
from gallery import write_gallery


def main() -> int:
    """Build the site; return 1 if something is wrong with it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=stage.ROOT / "target" / "site")
    parser.add_argument(
        "--rustdoc", type=Path, help="what `cargo doc` wrote, which becomes part of the site"
    )
    given = parser.parse_args()
    out = given.out.resolve()
    sources = out.with_name(out.name + "-sources")
    began = time.perf_counter()
    stage.lay_out(sources)
    write_reference(sources)
    write_gallery(sources)
    stage.write_indexes(sources)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "sphinx", "--builder", "html", "--quiet"),
            *("--fail-on-warning", "--fresh-env", "--write-all", "--jobs", "auto"),
            *("--conf-dir", str(Path(__file__).parent)),
            *("--doctree-dir", str(out.with_name(out.name + "-doctrees"))),
            *(str(sources), str(out)),
        ],
        check=False,
    )
    if given.rustdoc:
        shutil.rmtree(out / stage.RUSTDOC, ignore_errors=True)
        shutil.copytree(given.rustdoc, out / stage.RUSTDOC)
    faults = check_site(out, rust=bool(given.rustdoc)) if done.returncode == 0 else []
    for fault in faults:
        print(fault, file=sys.stderr)
    if done.returncode or faults:
        return 1
    print(f"{out / 'index.html'}: built in {time.perf_counter() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main())
