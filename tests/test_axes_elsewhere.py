"""Axes of real files in every format that is written, as other programs read them.

A corner of each file is written, and read by rosettasciio, h5py, zarr-python and tifffile. The
table in the guide is made of what is found here: FRAMEFOLD_WRITE_GUIDE=1 writes it anew. NPY holds
no axes.
"""

from __future__ import annotations

import html
import json
import re
import warnings
from collections import defaultdict
from importlib import import_module

import numpy as np
import pytest
from axes_facts import TABLE
from guide_tables import assert_in_guide
from real_files import manifest, real_data
from test_axes_survive import opened, shown

import framefold as ff

FACTS = json.loads(TABLE.read_text(encoding="utf-8"))
BEGIN, END = "<!-- axes elsewhere -->", "<!-- end of axes elsewhere -->"
#: Larger frames are left out.
MOST_BYTES = 1 << 20

#: What is written, how, and who reads it.
WRITTEN = {
    ".hspy": ({}, "rosettasciio"),
    ".zspy": ({}, "rosettasciio"),
    ".h5": ({}, "h5py"),
    ".zarr": ({"zarr_format": 3}, "zarr"),
    ".zarr (2)": ({"zarr_format": 2}, "zarr"),
}
#: A picture has the axes of frames, of the sum over the corner.
PICTURES = [".tif", ".ome.tif"]


def by_rosettasciio(path):
    (signal,) = import_module(f"rsciio.{path.suffix[1:]}").file_reader(str(path))
    return [
        (axis["name"], axis["size"], axis["scale"], axis["offset"], axis["units"])
        for axis in signal["axes"]
    ]


def by_h5py(path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(path) as file:
        sizes, n_sig = file["data"].shape, int(file.attrs["sig_dims"])
        n_nav = len(sizes) - n_sig
        # Groups have the names by which they are looked for, whatever the axes are called.
        scan = [["scan_x"], ["scan_y", "scan_x"], ["scan_2", "scan_y", "scan_x"]][n_nav - 1]
        frame = [["channel"], ["y", "x"], ["frame_2", "y", "x"]][n_sig - 1]
        groups = [*(scan if n_nav else []), *frame]
        assert sorted(file["axes"]) == sorted(groups)
        found = [dict(file["axes"][group].attrs) for group in groups]
    return [
        (about["name"], size, about["scale"], about["offset"], about["units"])
        for about, size in zip(found, sizes, strict=True)
    ]


def by_zarr(path):
    zarr = pytest.importorskip("zarr")
    array = zarr.open_array(path, mode="r")
    about = array.attrs["axes"]
    names = array.metadata.dimension_names if array.metadata.zarr_format == 3 else None
    names = names or array.attrs["_ARRAY_DIMENSIONS"]
    assert [axis["name"] for axis in about] == list(names)
    return [
        (axis["name"], size, axis["scale"], axis["offset"], axis["units"])
        for axis, size in zip(about, array.shape, strict=True)
    ]


def by_tifffile(path):
    """Scale, offset and unit of the y and x axes of a picture; ImageJ's steps have no sign."""
    tifffile = pytest.importorskip("tifffile")
    with tifffile.TiffFile(path) as file:
        if path.name.endswith(".ome.tif"):
            about = dict(re.findall(r'<M K="(\w+)">([^<]*)</M>', html.unescape(file.ome_metadata)))
            return [
                (float(about[f"{name}Scale"]), float(about[f"{name}Offset"]), about[f"{name}Unit"])
                if f"{name}Scale" in about
                else (1.0, 0.0, "")
                for name in "YX"
            ]
        about = file.imagej_metadata or {}
        steps = []
        for name in "yx":
            unit = str(about.get("unit", ""))
            if name == "y":
                unit = str(about.get("yunit", unit))
            unit = unit.encode("latin-1", "backslashreplace").decode("unicode_escape")
            scale = 1.0
            if tag := file.pages[0].tags.get(f"{name.upper()}Resolution"):
                over, under = tag.value
                scale = under / over
            offset = -float(about.get(f"{name}origin", 0.0)) * scale
            steps.append((scale, offset + 0.0, "" if unit == "pixel" else unit))
        return steps


READERS = {"rosettasciio": by_rosettasciio, "h5py": by_h5py, "zarr": by_zarr}


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """For each format and what is written: how many axes there are, how many are read alike."""
    if not (real_data() / "MANIFEST.json").exists():
        pytest.skip("no real files")
    pytest.importorskip("rsciio")
    folder = tmp_path_factory.mktemp("elsewhere")
    ctx = ff.Context.make_with("inline")
    counts = defaultdict(lambda: [0, 0])
    lost = []
    formats = {entry["file"]: entry["format"] for entry in manifest()}
    seen = set()
    for number, name in enumerate(FACTS):
        try:
            dataset = opened(ctx, name, folder)
        except ff.exceptions.FramefoldError:
            continue  # refusals are tested with the formats
        if int(np.prod(dataset.shape.sig)) * dataset.dtype.itemsize > MOST_BYTES:
            continue
        # One file stands for all of its format whose axes have the same names, units and numbers.
        kind = (formats[name], *((axis.name, *shown(axis)) for axis in dataset.axes))
        if kind in seen:
            continue
        seen.add(kind)
        corner = tuple(slice(size // 2, size // 2 + 2) for size in dataset.shape.nav)
        expected = cut(dataset, corner)
        for ending, (options, reader) in WRITTEN.items():
            path = folder / f"{number}{len(options)}{ending.split()[0]}"
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ff.warnings.MissingFramesWarning)
                ctx.export_dataset(
                    dataset, path, roi=corner, verify=False, overwrite=True, **options
                )
            read = READERS[reader](path)
            count = counts[formats[name], ending]
            count[0] += len(expected)
            if len(read) != len(expected):
                lost.append((name, ending, expected, read))
                continue
            for ours, theirs in zip(expected, read, strict=True):
                same = ours == theirs
                count[1] += same
                if not same:
                    lost.append((name, ending, ours, theirs))
        if len(dataset.shape.sig) == 2 and dataset.dtype.kind != "c":
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ff.warnings.MissingFramesWarning)
                image = ctx.run_udf(dataset, ff.SumUDF(), roi=corner)["intensity"]
            for ending in PICTURES:
                read = by_tifffile(image.save(folder / f"{number}{ending}"))
                for axis, theirs in zip(dataset.axes[-2:], read, strict=True):
                    ours = (axis.scale, axis.offset, axis.unit)
                    if ending == ".tif" and axis.scale < 0:
                        ours = (-axis.scale, -axis.offset, axis.unit)
                    about = pytest.approx(ours[:2], rel=1e-6, abs=1e-12 * abs(ours[0]))
                    same = theirs[:2] == about and theirs[2] == axis.unit
                    count = counts[formats[name], ending]
                    count[0] += 1
                    count[1] += same
                    if not same:
                        lost.append((name, ending, ours, theirs))
    return counts, lost


def cut(dataset, corner):
    """Name, size, scale, offset and unit of the axes of a part of a data set."""
    axes = dataset.axes
    image = tuple(dataset.shape.nav) == (1,) and len(dataset.shape.sig) == 2
    expected = []
    for axis in axes:
        size, offset = axis.size, axis.offset
        if axis.kind == "nav":
            if image:
                continue
            part = corner[axes.index(axis)]
            size = min(part.stop, size) - part.start
            if axis.is_calibrated:
                offset = offset + axis.scale * part.start
        expected.append((axis.name, size, axis.scale, offset, axis.unit))
    return expected


def test_axes_are_those_that_were_written(found):
    _, lost = found
    assert lost == []


def test_the_guide_shows_what_is_read(found):
    counts, _ = found
    endings = [*WRITTEN, *PICTURES]
    readers = [*(reader for _, reader in WRITTEN.values()), *("tifffile" for _ in PICTURES)]
    rows = ["| format | " + " | ".join(f"`{ending}`" for ending in endings) + " |"]
    rows[0] = rows[0].replace("`.zarr (2)`", "`.zarr` version 2")
    rows.append("|---" * (len(endings) + 1) + "|")
    rows.append("| read by | " + " | ".join(readers) + " |")
    for format_ in sorted({format_ for format_, _ in counts}):
        row = [counts[format_, ending] for ending in endings]
        rows.append(f"| {format_} | " + " | ".join(f"{n} of {all_}" for all_, n in row) + " |")
    table = "\n".join(rows).replace("0 of 0", "none")
    assert_in_guide(table, BEGIN, END)
