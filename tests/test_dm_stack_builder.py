"""Stacks of DigitalMicrograph's stack builder: what they keep of the first of their images."""

from __future__ import annotations

import numpy as np
import pytest
from real_files import real_file
from vendor_files import write_dm

import framefold as ff

TAGS = {
    "DataBar": {"Acquisition Date": "5/17/2015", "Acquisition Time": "5:00:16 PM"},
    "DigiScan": {"Sample Time": 30.0},
    "Microscope Info": {
        "Illumination Mode": "STEM",
        "Imaging Mode": "MAG",
        "Indicated Magnification": 200_000.0,
        "Name": "JEOL COM",
        "STEM Camera Length": 15.0,
        "Voltage": 200_000.0,
        "Stage Position": {"Stage X": 12.5, "Stage Alpha": -3.0},
    },
    "Session Info": {"Operator": "B. S.", "Microscope": "JEM-ARM200F"},
}
#: The names of HyperSpy, ours, and by how much ours are larger.
NAMES = {
    "beam_energy": ("acceleration_voltage", 1),
    "camera_length": ("camera_length", 1),
    "magnification": ("magnification", 1),
    "acquisition_mode": ("acquisition_mode", None),
    "microscope": ("microscope", None),
    "dwell_time": ("dwell_time", 1),
    "Stage.tilt_alpha": ("stage_alpha", 1),
    "Stage.x": ("stage_x", 1e3),
}


@pytest.fixture
def ctx():
    """What a file says does not depend on the executor."""
    return ff.Context.make_with("inline")


def by_rosettasciio(path):
    """The axes, and what it makes of the tags of the experiment."""
    reader = pytest.importorskip("rsciio.digitalmicrograph").file_reader
    (signal,) = reader(str(path))
    axes = [(axis["scale"], axis["offset"], axis["units"]) for axis in signal["axes"]]
    facts = {}
    for place, (name, convert) in signal["mapping"].items():
        value = signal["original_metadata"]
        for part in place.split("."):
            value = value.get(part, {}) if isinstance(value, dict) else {}
        if value != {} and name.startswith("Acquisition_instrument.TEM."):
            found = convert(value) if convert else value
            if found is not None:
                facts[name.removeprefix("Acquisition_instrument.TEM.")] = found
    return axes, facts


def assert_same(ctx, path, at_least):
    dataset = ctx.open(path)
    axes, facts = by_rosettasciio(path)
    assert len(axes) == len(dataset.axes)
    for ours, (scale, offset, unit) in zip(dataset.axes, axes, strict=True):
        factor, unit = {"µm": (1e3, "nm")}.get(unit, (1, unit))
        assert (ours.scale, ours.offset) == pytest.approx((scale * factor, offset * factor))
        assert ours.unit == unit
    compared = 0
    for name, (ours, factor) in NAMES.items():
        if name in facts:
            compared += 1
            expected = facts[name] if factor is None else pytest.approx(facts[name] * factor)
            assert dataset.metadata[ours] == expected, name
    assert compared >= at_least
    return dataset


def test_a_real_stack(ctx):
    path = real_file("DM/rosettasciio/test_stackbuilder_imagestack.dm3")
    dataset = assert_same(ctx, path, 5)
    assert tuple(dataset.shape) == (3, 2, 16)
    metadata = dataset.metadata
    assert metadata["recorded_at"] == "2015-05-17T17:00:16"
    assert metadata["microscope"] == "JEM-ARM200F"
    assert metadata["dwell_time"] == pytest.approx(0.03, rel=1e-5)


@pytest.mark.parametrize("version", [3, 4])
def test_what_a_stack_keeps_of_its_first_image(ctx, tmp_path, version):
    path = tmp_path / f"a.dm{version}"
    stack = np.arange(96, dtype="uint16").reshape(3, 4, 8)
    write_dm(path, stack, version=version, first=TAGS)
    dataset = assert_same(ctx, path, 7)
    assert dataset.metadata["operator"] == "B. S."
    assert np.array_equal(ctx.run_udf(dataset, ff.PickUDF())["intensity"].raw_data, stack)
    # The same as the tags of an image.
    plain = tmp_path / f"b.dm{version}"
    write_dm(plain, stack, version=version, tags=TAGS)
    assert ctx.open(plain).metadata == dataset.metadata


def test_a_stack_has_its_own_order_of_axes(ctx, tmp_path):
    """What is said of the layout of the first image is not about the stack."""
    first = {**TAGS, "Meta Data": {"Format": "Spectrum image", "Signal": "EELS"}}
    stack = np.arange(96, dtype="uint16").reshape(3, 4, 8)
    write_dm(tmp_path / "a.dm4", stack, first=first)
    dataset = ctx.open(tmp_path / "a.dm4")
    assert tuple(dataset.shape.sig) == (4, 8)
    assert np.array_equal(ctx.run_udf(dataset, ff.PickUDF())["intensity"].raw_data, stack)
