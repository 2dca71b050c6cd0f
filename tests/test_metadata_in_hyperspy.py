"""Copies of real files for HyperSpy have in its places what rosettasciio reads of the originals."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from real_files import real_file

import framefold as ff

TEM = "Acquisition_instrument.TEM"
#: What both have to say, by file.
PLACES = {
    "DM/rosettasciio/2D/test_diffraction_pattern_tags_removed.dm3": [f"{TEM}.Camera.exposure"],
    "DM/rosettasciio/3D/EELS_SI.dm4": [
        f"{TEM}.beam_energy",
        f"{TEM}.magnification",
        f"{TEM}.Stage.x",
        f"{TEM}.Stage.tilt_alpha",
        "Signal.signal_type",
        "General.title",
    ],
    "TIFF/rosettasciio/optical_Zeiss_AxioVision_BW.tif": ["General.date", "General.time"],
}


@pytest.mark.parametrize("ending", ["hspy", "zspy"])
@pytest.mark.parametrize("name", PLACES)
def test_places_are_those_of_hyperspy(tmp_path, name, ending):
    hs = pytest.importorskip("hyperspy.api")
    path = real_file(name)
    ctx = ff.Context.make_with("inline")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ff.warnings.DataSetWarning)
        dataset = ctx.open(path)
    first = tuple(slice(0, 1) for _ in dataset.shape.nav)
    ctx.export_dataset(dataset, tmp_path / f"copy.{ending}", roi=first)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rosettasciio, about tags that it does not know
        original, copy = hs.load(path), hs.load(tmp_path / f"copy.{ending}")
    for place in PLACES[name]:
        expected = original.metadata.get_item(place)
        assert expected not in (None, "")
        found = copy.metadata.get_item(place)
        if isinstance(expected, str):
            assert found == expected, place
        else:
            assert found == pytest.approx(expected, rel=1e-6), place
    again = ctx.open(tmp_path / f"copy.{ending}")
    assert again.metadata == dataset.metadata


def test_an_exposure_of_hyperspy_is_read(tmp_path):
    hs = pytest.importorskip("hyperspy.api")
    signal = hs.signals.Signal2D(np.zeros((2, 3, 4, 5), "uint8"))
    signal.metadata.set_item(f"{TEM}.Camera.exposure", 0.25)
    signal.save(tmp_path / "scan.hspy")
    ctx = ff.Context.make_with("inline")
    dataset = ctx.open(tmp_path / "scan.hspy")
    assert dataset.metadata == {"exposure_time": 0.25}
    ctx.export_dataset(dataset, tmp_path / "copy.hspy")
    copy = hs.load(tmp_path / "copy.hspy")
    assert copy.metadata.get_item(f"{TEM}.Camera.exposure") == 0.25
