"""Copies of real files for HyperSpy have in its places what rosettasciio reads of the originals."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from real_files import real_file
from vendor_files import write_dm

import framefold as ff

TEM = "Acquisition_instrument.TEM"
SEM = "Acquisition_instrument.SEM"
#: What both have to say, by file.
PLACES = {
    "DM/rosettasciio/2D/test_diffraction_pattern_tags_removed.dm3": [f"{TEM}.Camera.exposure"],
    "DM/rosettasciio/3D/EELS_SI.dm4": [
        "General.date",
        "General.time",
        f"{TEM}.acquisition_mode",
        f"{TEM}.microscope",
        f"{TEM}.camera_length",
        f"{TEM}.convergence_angle",
        f"{TEM}.Detector.EELS.collection_angle",
        f"{TEM}.Detector.EELS.dwell_time",
        f"{TEM}.beam_energy",
        f"{TEM}.magnification",
        f"{TEM}.Stage.x",
        f"{TEM}.Stage.tilt_alpha",
        "Signal.signal_type",
        "General.title",
    ],
    "DM/rosettasciio/test-EELS_spectrum.dm3": [
        "General.date",
        "General.time",
        f"{TEM}.acquisition_mode",
        f"{TEM}.Detector.EELS.exposure",
        f"{TEM}.convergence_angle",
    ],
    "DM/pyTEMlib/AL-DFoffset0.00.dm3": [
        "General.date",
        "General.time",
        f"{TEM}.acquisition_mode",
        f"{TEM}.Detector.EELS.collection_angle",
        f"{TEM}.Detector.EELS.exposure",
    ],
    "DM/openNCEM/08_carbon.dm3": ["General.date", "General.time", f"{TEM}.acquisition_mode"],
    # Its two times are those of its start, which framefold takes, and of its end.
    "DM/rosettasciio/2D/test-MonarcCL_spectrum-SI.dm4": [
        "General.date",
        f"{SEM}.acquisition_mode",
        f"{SEM}.beam_energy",
        f"{SEM}.magnification",
        f"{SEM}.dwell_time",
        f"{SEM}.Stage.x",
        f"{SEM}.Stage.tilt_alpha",
        f"{SEM}.microscope",
    ],
    "TIFF/rosettasciio/optical_Zeiss_AxioVision_BW.tif": ["General.date", "General.time"],
    "TIFF/rosettasciio/JEOL-SightX-SAED-dummy.tif": [
        "General.date",
        "General.title",
        "General.time_zone",
        f"{TEM}.acquisition_mode",
        f"{TEM}.beam_energy",
        f"{TEM}.camera_length",
        f"{TEM}.microscope",
        f"{TEM}.Stage.tilt_alpha",
        f"{TEM}.Stage.tilt_beta",
    ],
    "TIFF/rosettasciio/tiff_FEI_Helios/FEI-Helios-Ebeam-16bits.tif": [
        "General.date",
        "General.time",
        "General.authors",
        f"{SEM}.beam_energy",
        f"{SEM}.beam_current",
        f"{SEM}.dwell_time",
        f"{SEM}.microscope",
        f"{SEM}.working_distance",
    ],
    "TIFF/rosettasciio/tiff_FEI_Helios/FEI-Helios-navcam-with-no-IRBeam.tif": [
        "General.date",
        "General.authors",
        f"{SEM}.microscope",
        f"{SEM}.working_distance",
    ],
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


def load_both(ctx, path, tmp_path):
    """A file as HyperSpy reads it, and as it reads our copy of it."""
    hs = pytest.importorskip("hyperspy.api")
    ctx.export_dataset(ctx.open(path), tmp_path / "copy.hspy")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of rosettasciio, about tags that it does not know
        return hs.load(path), hs.load(tmp_path / "copy.hspy")


def assert_same_steps(original, copy):
    """The axes of frames, whose units may be others of the same kind."""
    assert copy.axes_manager.navigation_size in (0, 1)
    for ours, other in zip(
        copy.axes_manager.signal_axes, original.axes_manager.signal_axes, strict=True
    ):
        other.convert_to_units(ours.units)
        assert (ours.size, ours.scale) == (other.size, pytest.approx(other.scale, rel=1e-6))


@pytest.mark.parametrize("ending", ["hspy", "zspy"])
def test_exposures_are_those_of_the_spectrometer_or_of_the_camera(tmp_path, ending):
    hs = pytest.importorskip("hyperspy.api")
    acquired = {"Acquisition": {"Exposure (s)": 0.25, "Number of frames": 2.0}}
    camera = {"Acquisition": {"Parameters": {"High Level": {"Exposure (s)": 0.5}}}}
    ctx = ff.Context.make_with("inline")
    for tags, spectra, group, other in [
        ({"Meta Data": {"Signal": "EELS"}, "EELS": acquired}, True, "Detector.EELS", "Camera"),
        (camera, False, "Camera", "Detector"),
    ]:
        stack = np.ones((3, 4, 5), "uint16")
        write_dm(tmp_path / "a.dm4", stack, swapped=True, spectra=spectra, tags=tags)
        dataset = ctx.open(tmp_path / "a.dm4")
        assert dataset.metadata["exposure_time"] == 0.5
        copy = tmp_path / f"copy.{ending}"
        ctx.export_dataset(dataset, copy, overwrite=True)
        microscope = hs.load(copy).metadata.Acquisition_instrument.TEM
        assert microscope.get_item(f"{group}.exposure") == 0.5
        assert not microscope.has_item(other)
        assert ctx.open(copy).metadata["exposure_time"] == 0.5


def test_the_stage_of_fei_is_in_the_units_of_hyperspy(tmp_path):
    """rosettasciio leaves metres and radians; HyperSpy has mm and degrees."""
    path = real_file("TIFF/rosettasciio/tiff_FEI_Helios/FEI-Helios-Ebeam-16bits.tif")
    original, copy = load_both(ff.Context.make_with("inline"), path, tmp_path)
    theirs = original.metadata.get_item(f"{SEM}.Stage").as_dictionary()
    ours = copy.metadata.get_item(f"{SEM}.Stage").as_dictionary()
    for name in "xyz":
        assert ours[name] == pytest.approx(theirs[name] * 1e3)
    for name in ("rotation", "tilt"):
        assert ours[name] == pytest.approx(np.degrees(theirs[name]))
    assert_same_steps(original, copy)


def test_a_diffraction_pattern_of_jeol_has_the_steps_of_its_camera_length(tmp_path):
    path = real_file("TIFF/rosettasciio/JEOL-SightX-SAED-dummy.tif")
    ctx = ff.Context.make_with("inline")
    dataset, (original, copy) = ctx.open(path), load_both(ctx, path, tmp_path)
    step = original.axes_manager.signal_axes[0].scale
    assert [axis.scale for axis in dataset.axes[-2:]] == pytest.approx([step, step], rel=1e-8)
    assert dataset.axes[-1].unit == "1/nm"
    # The current that it tells is that of the gun.
    assert "beam_current" not in dataset.metadata
    time = copy.metadata.General.time
    assert time.startswith(original.metadata.General.time)


ZEISS = """0
0
0
2.5e-09
1
AP_ACTUALKV
Actual kV = 5.00 kV
AP_MAG
Mag = 22.50 K X
AP_WD
WD = 6.7 mm
AP_IPROBE
I Probe = 120 pA
AP_STAGE_AT_X
Stage at X = 61.238 mm
AP_STAGE_AT_Z
Stage at Z = 250.5 \xb5m
AP_STAGE_AT_R
Stage at R = 12.5 \xb0
AP_STAGE_AT_T
Stage at T = -4.0 \xb0
DP_DWELL_TIME
Dwell Time = 400 ns
DP_DETECTOR_TYPE
Detector = InLens
SV_SERIAL_NUMBER
Serial No. = GeminiSEM 500-0001
SV_USER_NAME
User Name = Ada
AP_DATE
Date :27 Mar 2015
AP_TIME
Time :14:18:39
"""


def write_vendor_tiff(path, *tags, width=512):
    tifffile = pytest.importorskip("tifffile")
    extra = [(code, kind, 0 if kind == "s" else 1, value, True) for code, kind, value in tags]
    image = np.arange(8 * width, dtype="uint16").reshape(8, width)
    tifffile.imwrite(path, image, extratags=extra, metadata=None)


@pytest.mark.parametrize("width", [512, 2048])
def test_images_of_zeiss(tmp_path, width):
    path = tmp_path / "image.tif"
    write_vendor_tiff(path, (34118, "s", ZEISS.encode("latin-1")), width=width)
    ctx = ff.Context.make_with("inline")
    found = ctx.open(path).metadata
    step = 2.5 * 1024 / width
    assert [found[f"image_step_{axis}"] for axis in "xy"] == pytest.approx([step, step])
    assert (found["detector"], found["magnification"]) == ("InLens", 22500)
    original, copy = load_both(ctx, path, tmp_path)
    assert_same_steps(original, copy)
    for place in (
        "General.date",
        "General.time",
        "General.authors",
        *(f"{SEM}.{name}" for name in ("beam_energy", "working_distance", "beam_current")),
        *(f"{SEM}.{name}" for name in ("dwell_time", "microscope")),
        *(f"{SEM}.Stage.{name}" for name in ("x", "z", "rotation", "tilt")),
    ):
        expected, found = (signal.metadata.get_item(place) for signal in (original, copy))
        assert expected not in (None, ""), place
        assert found == (expected if isinstance(expected, str) else pytest.approx(expected)), place


@pytest.mark.parametrize(("unit", "name"), [("nm", "image"), ("1/nm", "diffraction")])
def test_tiffs_of_digitalmicrograph(tmp_path, unit, name):
    path = tmp_path / "image.tif"
    tags = [(65003, "s", unit), (65004, "s", unit), (65009, "f", 0.5), (65010, "d", 0.25)]
    write_vendor_tiff(path, *tags)
    found = ff.Context.make_with("inline").open(path).metadata
    assert (found[f"{name}_step_x"], found[f"{name}_step_y"]) == (0.5, 0.25)


def test_vendor_tags_that_say_nothing(tmp_path):
    path = tmp_path / "image.tif"
    for tags in (
        [(34118, "s", b"not what it should be")],
        [(34682, "s", b"[Scan]\nPixelWidth=wide\n[Beam]\nHV=\n")],
        [(271, "s", b"JEOL Ltd."), (270, "s", b"<TemReporter>")],
        [(271, "s", b"JEOL Ltd."), (270, "s", b"<TemReporter/>")],
        [(65009, "d", float("nan"))],
        [(65009, "d", 0.0)],
    ):
        write_vendor_tiff(path, *tags)
        dataset = ff.Context.make_with("inline").open(path)
        assert [axis.scale for axis in dataset.axes[-2:]] == [1, 1]


@pytest.mark.parametrize("ending", ["hspy", "zspy"])
@pytest.mark.parametrize("time", ["03:04:05", None])
def test_what_hyperspy_says_of_a_tem_beside_an_sem(tmp_path, ending, time):
    hs = pytest.importorskip("hyperspy.api")
    signal = hs.signals.Signal2D(np.zeros((2, 3, 4, 5), "uint8"))
    signal.metadata.set_item(f"{SEM}.microscope", "none")
    for name, value in {"beam_energy": 200.0, "acquisition_mode": "STEM"}.items():
        signal.metadata.set_item(f"{TEM}.{name}", value)
    signal.metadata.set_item("General.date", "2020-01-02")
    if time:
        signal.metadata.set_item("General.time", time)
        signal.metadata.set_item("General.time_zone", "UTC")
    signal.save(tmp_path / "scan.hspy")
    ctx = ff.Context.make_with("inline")
    dataset = ctx.open(tmp_path / "scan.hspy")
    assert dataset.metadata == {
        "acceleration_voltage": 200.0,
        "acquisition_mode": "STEM",
        "recorded_at": f"2020-01-02T{time}Z" if time else "2020-01-02",
    }
    ctx.export_dataset(dataset, tmp_path / f"copy.{ending}")
    assert ctx.open(tmp_path / f"copy.{ending}").metadata == dataset.metadata


@pytest.mark.parametrize("ending", ["hspy", "zspy"])
def test_what_hyperspy_says_of_an_sem_is_read(tmp_path, ending):
    hs = pytest.importorskip("hyperspy.api")
    signal = hs.signals.Signal2D(np.zeros((2, 3, 4, 5), "uint8"))
    numbers = {"beam_energy": 5.0, "working_distance": -0.5, "dwell_time": 1e-6}
    for name, number in {**numbers, "Stage.rotation": 30.0, "Stage.tilt": 2.0}.items():
        signal.metadata.set_item(f"{SEM}.{name}", number)
    signal.metadata.set_item("General.authors", "Ada")
    signal.metadata.set_item("General.date", "2020-01-02")
    signal.metadata.set_item("General.time", "03:04:05")
    signal.metadata.set_item("General.time_zone", "Europe/Berlin")
    signal.save(tmp_path / "scan.hspy")
    ctx = ff.Context.make_with("inline")
    dataset = ctx.open(tmp_path / "scan.hspy")
    assert dataset.metadata == {
        "acceleration_voltage": 5.0,
        "working_distance": -0.5,
        "dwell_time": 1e-6,
        "stage_rotation": 30.0,
        "stage_tilt": 2.0,
        "acquisition_mode": "SEM",
        "recorded_at": "2020-01-02T03:04:05",
        "operator": "Ada",
    }
    ctx.export_dataset(dataset, tmp_path / f"copy.{ending}")
    copy = hs.load(tmp_path / f"copy.{ending}")
    for name, number in numbers.items():
        assert copy.metadata.get_item(f"{SEM}.{name}") == number
    assert copy.metadata.get_item(TEM) is None
    # What was deleted there stays deleted.
    del copy.metadata.Acquisition_instrument.SEM.working_distance
    copy.save(tmp_path / "less.hspy")
    assert "working_distance" not in ctx.open(tmp_path / "less.hspy").metadata
