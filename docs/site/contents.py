"""What the site consists of: its sections, and the pages of each in the order of reading.

A page is named by its file below ``docs``, without ``.md``. Files of the repository's root are
pages of ``project``. Pages that are not named here are an error of the build, as are names
without a page.
"""

from __future__ import annotations

from dataclasses import dataclass

#: Files outside of docs/ that are pages, by their paths, and what they are called on the site.
FROM_ROOT = {
    "ARCHITECTURE.md": "project/architecture.md",
    "CHANGELOG.md": "project/changes.md",
    "CONTRIBUTING.md": "project/contributing.md",
    "CORRECTNESS.md": "project/correctness.md",
    "SECURITY.md": "project/security-policy.md",
    "crates/view/PROTOCOL.md": "project/viewer-protocol.md",
}


@dataclass(frozen=True)
class Group:
    """Pages under one heading."""

    title: str
    pages: tuple[str, ...]


@dataclass(frozen=True)
class Section:
    """An entry of the site's main menu: its index page is written by the build."""

    name: str
    title: str
    summary: str
    groups: tuple[Group, ...]


SECTIONS = (
    Section(
        "tutorials",
        "Tutorials",
        "Worked scripts to follow from top to bottom.",
        (
            Group("Begin here", ("tutorials/first-hour", "tutorials/own-function")),
            Group(
                "Coming from",
                ("tutorials/from-libertem", "tutorials/from-hyperspy", "tutorials/from-py4dstem"),
            ),
            Group(
                "Notebooks",
                (
                    "notebooks/virtual-detectors",
                    "notebooks/own-function",
                    "notebooks/live-plots",
                    "notebooks/hyperspy-and-zarr",
                    "notebooks/tiffs-and-raw",
                ),
            ),
        ),
    ),
    Section(
        "how-to",
        "How-to guides",
        "One job each. Their code runs as it stands; the tests run it on every change.",
        (
            Group(
                "Data in and out",
                (
                    "guide/getting-started",
                    "guide/files",
                    "guide/metadata",
                    "guide/export",
                    "guide/zarr",
                    "guide/hdf5",
                    "guide/raw-csr",
                    "guide/own-formats",
                ),
            ),
            Group(
                "Analyse",
                (
                    "guide/reductions",
                    "guide/masks",
                    "guide/descan",
                    "guide/stages",
                    "guide/passes",
                    "guide/results",
                    "guide/roi",
                    "guide/corrections",
                    "guide/partial-results",
                    "guide/live-plots",
                    "guide/view",
                    "guide/command-line",
                ),
            ),
            Group(
                "Functions of your own",
                (
                    "guide/udfs",
                    "guide/good-udfs",
                    "guide/make-it-fast",
                    "guide/compiled",
                    "guide/libraries",
                    "guide/array-formats",
                    "guide/packages",
                    "guide/errors",
                ),
            ),
            Group(
                "Larger machines",
                (
                    "guide/executors",
                    "guide/cluster",
                    "guide/dask",
                    "guide/cuda",
                    "guide/security",
                    "guide/benchmarks",
                ),
            ),
        ),
    ),
    Section(
        "formats",
        "Formats",
        "What can be opened, and what is to know of each format.",
        (
            Group("All formats", ("guide/formats", "fuzzing")),
            Group(
                "Detectors and cameras",
                (
                    "guide/mib",
                    "guide/blo",
                    "guide/empad",
                    "guide/mrc",
                    "guide/seq",
                    "guide/frms6",
                    "guide/dm",
                    "guide/ser",
                    "guide/tvips",
                    "guide/k2is",
                    "guide/prz",
                    "guide/spe",
                ),
            ),
            Group("Arrays", ("guide/raw", "guide/npy", "guide/tiff", "guide/memory")),
        ),
    ),
    Section(
        "explained",
        "Explained",
        "How to think of it, what it promises, and how it compares.",
        (
            Group("Ideas", ("concepts", "glossary", "faq", "rust")),
            Group("Facts", ("performance", "comparison", "compatibility", "guide/same-bits")),
        ),
    ),
    Section(
        "project",
        "Project",
        "How framefold is made, what it promises, and how to take part.",
        (
            Group(
                "Promises",
                ("versions", "project/changes", "project/correctness", "project/security-policy"),
            ),
            Group("In published work", ("citing",)),
            Group(
                "Taking part",
                (
                    "project/contributing",
                    "project/architecture",
                    "project/viewer-protocol",
                    "decisions/index",
                ),
            ),
        ),
    ),
)
