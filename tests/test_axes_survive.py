"""Axes of real files are those that rosettasciio reads, and copies have the same ones.

The table in the guide is made of what is found here: FRAMEFOLD_WRITE_GUIDE=1 writes it anew.
"""

from __future__ import annotations

import json
import re
import shutil
import warnings
from collections import defaultdict

import pytest
from axes_facts import TABLE
from guide_tables import assert_in_guide
from real_files import manifest, real_data, real_file

import framefold as ff

FACTS = json.loads(TABLE.read_text(encoding="utf-8"))
BEGIN, END = "<!-- axes of real files -->", "<!-- end -->"

#: Larger files are read only, not copied.
MOST_BYTES = 4 << 20
#: Bytes of a frame of EMPAD, with what follows its pixels.
EMPAD_FRAME = 130 * 128 * 4

#: By how much of the unit of the SI a unit is, and which of those.
UNITS = {
    **dict.fromkeys(["nm", "pm", "um", "µm", "mm", "cm", "m", "Å", "A"], "m"),
    **dict.fromkeys(["1/nm", "1 / nm", "nm^-1", "1/Å", "1 / Å", "1 / µm"], "1/m"),
    **dict.fromkeys(["rad", "mrad", "Angle"], "rad"),
    **dict.fromkeys(["eV", "keV"], "eV"),
    **dict.fromkeys(["s", "ms"], "s"),
}
FACTORS = {
    "pm": 1e-12, "nm": 1e-9, "um": 1e-6, "µm": 1e-6, "mm": 1e-3, "cm": 1e-2, "Å": 1e-10,
    "A": 1e-10, "1/nm": 1e9, "1 / nm": 1e9, "nm^-1": 1e9, "1/Å": 1e10, "1 / Å": 1e10,
    "1 / µm": 1e6, "mrad": 1e-3, "keV": 1e3, "ms": 1e-3,
}  # fmt: skip

#: Why axes differ from what rosettasciio says: the start of the name of files, and the reason.
REASONS = {
    "EMPAD/": "it puts the origin of detector axes into their middle, which the files do not say, "
    "and takes another number for their step; a series has no unit of time",
    "MRC/": "it takes slices for depths without a unit, and a width of -1, which stands for none, "
    "for one; the scan step of a DE movie is in the file beside it",
    "NXS/": "steps without a unit are not read",
    "SER/": "it leaves the places at which axes begin, and inverse lengths, in metres",
    "TIFF/rosettasciio/test_loading_image_saved_with_imageJ": "it gives depths no unit",
    "TVIPS/": "it takes times of 0 for steps, and gives the unit of diffraction to pixels",
}


def in_si(scale, offset, unit):
    """Scale, offset and unit in units that can be compared."""
    factor = FACTORS.get(unit, 1.0)
    unit = "" if unit in ("None", "[]", "px") else UNITS.get(unit, unit)
    return scale * factor, offset * factor, unit


def same(ours, theirs):
    """Whether both are the same axis, or neither is calibrated."""
    ours, theirs = in_si(*ours), in_si(*theirs)
    if not ours[2] and not theirs[2] and ours[0] == theirs[0]:
        return ours[1] == pytest.approx(theirs[1], rel=1e-5)
    if ours[2] != theirs[2]:
        return False
    about = pytest.approx(theirs[1], rel=1e-5, abs=1e-5 * abs(theirs[0]))
    return ours[0] == pytest.approx(theirs[0], rel=1e-5) and ours[1] == about


def opened(ctx, name, folder):
    """A real file; those of EMPAD get the frames that are not there."""
    path = real_file(name)
    if path.suffix == ".xml" and name.startswith("EMPAD"):
        raw = re.search(r'raw_file filename="(?:[^"]*[/\\])?([^"/\\]*)"', path.read_text())[1]
        if not path.with_name(raw).exists():
            shutil.copy(path, folder)
            sizes = re.search(r"x(\d+)_y(\d+)", raw)
            n_frames = int(sizes[1]) * int(sizes[2])
            with (folder / raw).open("wb") as file:
                file.truncate(n_frames * EMPAD_FRAME)
            path = folder / path.name
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ff.warnings.DataSetWarning)  # the axes are compared below
        return ctx.open(path)


def matched(axes, signals):
    """Pairs of axes of the signal that has the same sizes; nothing if there is none."""
    ours = [axis for axis in axes if axis.size > 1]
    for signal in signals:
        theirs = [axis for axis in signal if axis[1] > 1]
        if sorted(a.size for a in ours) != sorted(a[1] for a in theirs):
            continue
        if [a.size for a in ours] != [a[1] for a in theirs]:
            # Of spectrum images, it has the energies first.
            theirs = theirs[1:] + theirs[:1]
        if [a.size for a in ours] == [a[1] for a in theirs]:
            return list(zip(ours, theirs, strict=True))
    return []


def shown(axis):
    return (axis.scale, axis.offset, axis.unit)


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """For each format and kind of axis: how many there are, are read, copied, and are the same."""
    if not (real_data() / "MANIFEST.json").exists():
        pytest.skip("no real files")
    folder = tmp_path_factory.mktemp("axes")
    ctx = ff.Context.make_with("inline")
    counts = defaultdict(lambda: [0, 0, 0, 0, 0, 0])
    differ, lost = [], []
    formats = {entry["file"]: entry["format"] for entry in manifest()}
    for number, (name, signals) in enumerate(FACTS.items()):
        try:
            dataset = opened(ctx, name, folder)
        except ff.exceptions.FramefoldError:
            continue  # refusals are tested with the formats
        axes = dataset.axes
        n_bytes = dataset.shape.size * dataset.dtype.itemsize
        copies = []
        if n_bytes <= MOST_BYTES and dataset.dtype.kind != "c":
            for ending in ("hspy", "zarr"):
                copy = folder / f"{number}.{ending}"
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", ff.warnings.MissingFramesWarning)
                    ctx.export_dataset(dataset, copy, verify=False)
                copies.append(ctx.open(copy).axes)
        pairs = {id(ours): theirs for ours, theirs in matched(axes, signals)}
        for index, axis in enumerate(axes):
            if axis.size == 1:
                continue
            count = counts[formats[name], axis.kind]
            count[0] += 1
            count[1] += (axis.scale, axis.offset, axis.unit) != (1.0, 0.0, "")
            if copies:
                count[2] += 1
                kept = [copy[index - len(axes)] for copy in copies]
                is_kept = all(
                    other.size == axis.size and same(shown(other), shown(axis)) for other in kept
                )
                count[3] += is_kept
                if not is_kept:
                    lost.append((name, str(axis), [str(other) for other in kept]))
            if id(axis) in pairs:
                theirs = pairs[id(axis)]
                count[4] += 1
                is_same = same(shown(axis), theirs[2:5])
                count[5] += is_same
                if not is_same:
                    differ.append((name, str(axis), theirs))
    return counts, differ, lost


def test_differences_from_rosettasciio_have_reasons(found):
    _, differ, _ = found
    unexplained = [each for each in differ if not any(each[0].startswith(name) for name in REASONS)]
    assert unexplained == []


def test_copies_keep_axes(found):
    _, _, lost = found
    assert lost == []


def test_the_guide_shows_what_is_found(found):
    counts, _, _ = found
    rows = ["| format | axes | calibrated | kept by copies | as rosettasciio reads them |"]
    rows.append("|---|---|---|---|---|")
    names = {"nav": "scan", "sig": "frames"}
    for (format_, kind), (n, n_read, n_copied, n_kept, n_compared, n_same) in sorted(
        counts.items()
    ):
        rows.append(
            f"| {format_} | {n} of {names[kind]} | {n_read} | {n_kept} of {n_copied} "
            f"| {n_same} of {n_compared} |"
        )
    rows.append("")
    rows += [f"- `{name}`: {reason}." for name, reason in REASONS.items()]
    table = "\n".join(rows)
    assert_in_guide(table, BEGIN, END)
