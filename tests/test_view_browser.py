"""The viewer's page in a real browser: what it shows, every control, and links that break."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser_cases import PICTURES, drive, viewer
from canvas_pixels import check, check_means, check_vectors, rgba_of, table_of, tables
from canvas_pixels import disk as disk_in
from real_files import real_file

pytestmark = pytest.mark.usefixtures("one_browser")

SCAN = (14, 18)
FRAME = (24, 20)


@pytest.fixture(scope="module")
def counts() -> np.ndarray:
    """Frames with a bright disk that moves, and spots around it."""
    rng = np.random.default_rng(5)
    y, x = np.mgrid[: FRAME[0], : FRAME[1]]
    scan = np.zeros(SCAN + FRAME)
    for i, j in np.ndindex(SCAN):
        r = np.hypot(y - 12 - np.sin(j / 3), x - 10 - np.cos(i / 3))
        scan[i, j] = 60 * (r < 5) + 3 + (10 + 6 * np.sin(i + j)) * np.exp(-((r - 8) ** 2))
    return rng.poisson(scan).astype(np.uint16)


@pytest.fixture(scope="module")
def scan(counts: np.ndarray, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("scan") / "scan.npy"
    np.save(path, counts)
    return path


# --- What is on the canvas -----------------------------------------------------------------------


def disk(cy: float, cx: float, r: float) -> np.ndarray:
    return disk_in(FRAME, cy, cx, r)


RING = {"kind": "ring", "cy": 12, "cx": 10, "ri": 3.5, "ro": 8}
SMALL = {"kind": "disk", "cy": 11.5, "cx": 9, "r": 3}
STATES = [
    {"name": "first", "changes": {"scan.display.colormap": "magma"}},
    {
        "name": "typed limits",
        "changes": {
            "scan.display.auto": False,
            "scan.display.low": 900,
            "scan.display.high": 1700,
            "scan.query.detector": [{"shape": SMALL, "sign": "plus"}],
        },
    },
    {
        "name": "square root, ring",
        "changes": {
            "scan.display.auto": True,
            "scan.display.scale": "sqrt",
            "scan.query.detector": [{"shape": RING, "sign": "plus"}],
            "pattern.display.scale": "linear",
        },
    },
    {
        "name": "power, difference, zoomed, one frame",
        "changes": {
            "scan.display.scale": "power",
            "scan.display.gamma": 0.7,
            "scan.display.zoom": {"k": 3, "cy": 4, "cx": 11},
            "scan.query.detector": [
                {"shape": RING, "sign": "plus"},
                {"shape": SMALL, "sign": "minus"},
            ],
            "pattern.query.region": [{"shape": {"kind": "point", "y": 3, "x": 5}, "sign": "plus"}],
            "pattern.display.zoom": {"k": 2, "cy": 20, "cx": 3},
        },
    },
    {
        "name": "vectors",
        "changes": {
            "scan.display.scale": "linear",
            "scan.display.zoom": None,
            "scan.query.detector": [{"shape": RING, "sign": "plus"}],
            "scan.query.channel": {
                "kind": "com",
                "part": "vector",
                "centre": "mean",
                "rotation": 0,
                "flip_y": False,
            },
        },
    },
    {"name": "vectors, logarithmic", "changes": {"scan.display.scale": "log"}},
]


@pytest.mark.parametrize("webgl", [True, False], ids=["WebGL2", "Canvas"])
def test_the_canvas_shows_the_picture_of_numpy(webgl: bool, scan: Path, counts: np.ndarray) -> None:
    with viewer(scan) as (link, _):
        found = drive("pixels.mjs", url=link, states=STATES, webgl=webgl)
    assert found["painter"] == ("webgl2" if webgl else "canvas2d")
    assert found["errors"] == []
    frames = counts.astype(float)
    ring = disk(12, 10, 8) & ~disk(12, 10, 3.5)
    small = disk(11.5, 9, 3)
    detectors = [disk(12, 10, 3), small, ring, ring.astype(int) - small]
    mean = frames.mean(axis=(0, 1))
    tables = {name: table_of(text) for name, text in found["colormaps"].items()}
    assert np.array_equal(tables["gray"], np.repeat(np.arange(256)[:, np.newaxis], 3, axis=1))
    *plain, vectors, logarithmic = found["shown"]
    for shown, detector in zip(plain, detectors, strict=True):
        for pane in ("scan", "pattern"):
            saved = shown["display"][pane]
            if pane == "scan":
                values = (frames * detector).sum(axis=(2, 3))
            else:
                values = frames[3, 5] if saved["query"]["region"] else mean
            check(shown[pane], values, saved["display"], tables[saved["display"]["colormap"]])
    y, x = np.mgrid[: FRAME[0], : FRAME[1]]
    weighted = frames * ring
    field = np.stack(
        [(weighted * at).sum(axis=(2, 3)) / weighted.sum(axis=(2, 3)) for at in (y, x)]
    )
    field -= field.mean(axis=(1, 2), keepdims=True)
    for shown in (vectors, logarithmic):
        check_vectors(
            shown["scan"], field, shown["display"]["scan"]["display"], tables["direction"]
        )
    assert rgba_of(logarithmic["scan"])[..., :3].max() > 200


def test_where_several_pixels_fall_on_one_their_mean_is_shown(tmp_path: Path) -> None:
    # More columns than the canvas has points.
    frames = np.random.default_rng(6).integers(0, 200, (1, 2, 500, 900), dtype=np.uint16)
    np.save(tmp_path / "large.npy", frames)
    states = [{"name": "linear", "changes": {"pattern.display.scale": "linear"}}]
    with viewer(tmp_path / "large.npy") as (link, _):
        found = drive("pixels.mjs", url=link, states=states, webgl=True)
    assert found["painter"] == "webgl2"
    assert found["errors"] == []
    (shown,) = found["shown"]
    display = shown["display"]["pattern"]["display"]
    table = tables()[display["colormap"]]
    check_means(shown["pattern"], frames.mean(axis=(0, 1)), display, table)


# --- Every control -------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["mouse", "keyboard"])
def test_every_control_does_what_it_says(by: str, scan: Path, tmp_path: Path) -> None:
    mask, wrong = tmp_path / "mask.npy", tmp_path / "wrong.npy"
    np.save(mask, disk(12, 10, 4).astype(np.float32))
    np.save(wrong, np.ones((3, 3), np.float32))
    calibrated = ("--scan-step", "0.5nm", "--pixel-size", "1.2mrad", "--centre", "12,10")
    with viewer(scan, *calibrated) as (link, _):
        found = drive(
            "controls.mjs",
            url=link,
            by=by,
            pixel=1.2,
            centre=(12, 10),
            mask=str(mask),
            wrongMask=str(wrong),
            folder=str(tmp_path),
        )
    wrong_steps = [step for step in found["steps"] if not step["ok"]]
    assert wrong_steps == []
    assert len(found["steps"]) > 120
    assert found["errors"] == []
    said = next(s["found"] for s in found["steps"] if s["name"] == "a mask that does not fit")
    assert "3" in said, said
    assert "24" in said, said


@pytest.mark.parametrize("by", ["mouse", "keyboard"])
def test_axes_of_the_scan(by: str, tmp_path: Path) -> None:
    five, series = tmp_path / "five.npy", tmp_path / "series.npy"
    rng = np.random.default_rng(9)
    cube, line = rng.poisson(5, (3, 6, 7, 12, 10)), rng.poisson(9, (64, 12, 10))
    np.save(five, cube.astype(np.uint16))
    np.save(series, line.astype(np.uint16))
    with viewer(five) as (first, _), viewer(series) as (second, _):
        found = drive("axes.mjs", five=first, series=second, by=by)
    assert found["errors"] == []
    assert "8 × 8" in found["suggested"]
    assert (found["fft"], found["none"], found["asked"]) == (True, True, False)
    assert found["words"] == "1"
    small = disk_in((12, 10), 6, 5, 1)
    for shown, data in [
        (found["slice"], cube[1]),
        (found["typed"], line[4:].reshape(5, 12, 12, 10)),
    ]:
        pictures = {"scan": data[..., small].sum(axis=-1), "pattern": data.mean(axis=(0, 1))}
        for pane, values in pictures.items():
            display = shown["state"][pane]["display"]
            check(shown[pane], values.astype(float), display, tables()[display["colormap"]])


def test_numbers_that_the_page_finds(scan: Path, counts: np.ndarray) -> None:
    """Percentiles, histogram, profiles and values are NumPy's."""
    line, places = [[2, 3], [11, 14.5]], [(0, 0), (13, 17), (5, 9)]
    n = round(float(np.hypot(9, 11.5))) + 1
    with viewer(scan) as (link, _):
        found = drive("values.mjs", url=link, line=line, n=n, places=places)
    assert found["errors"] == []
    values = counts[..., disk(12, 10, 3)].sum(axis=-1).astype(float)
    for name in ("percentiles", "power", "limits"):
        display = found[name]["display"]
        check(found[name], values, display, tables()[display["colormap"]])
    for name in ("percentiles", "power"):
        display = found[name]["display"]
        expected = np.percentile(values, [5, 90])
        assert [display["low"], display["high"]] == pytest.approx(expected, rel=1e-9)
    low, high = values.min(), values.max()
    t = found["handle"]
    assert found["limits"]["display"]["low"] == pytest.approx(low + t * (high - low), rel=1e-4)
    assert_bars(found["bars"], values)
    for (y, x), text in zip(places, found["values"], strict=True):
        assert text.endswith(f"  ·  {values[y, x]:.0f}"), text
    assert found["byKeys"].endswith(f"y 4, x 7  ·  {values[4, 7]:.0f}")
    check_profiles(found, values, line, n)
    radius, mean = map(float, found["followed"].split(": "))
    y, x = np.mgrid[: SCAN[0], : SCAN[1]]
    rings = np.floor(np.hypot(y - SCAN[0] // 2, x - SCAN[1] // 2) + 0.5)
    assert mean == pytest.approx(counts.sum(axis=(2, 3))[rings == radius].mean(), rel=1e-5)
    both = found["zoomed"]["both"]
    zooms = [both[pane]["display"]["zoom"] for pane in ("scan", "pattern")]
    assert zooms[0]["k"] == zooms[1]["k"] > 1.5
    # The same part of both, from 0 to 1.
    parts = [
        [(zoom["cy"] + 0.5) / shape[0], (zoom["cx"] + 0.5) / shape[1]]
        for zoom, shape in zip(zooms, (SCAN, FRAME), strict=True)
    ]
    assert parts[0] == pytest.approx(parts[1])
    assert parts[0][0] > 0.6
    for pane, expected in [("scan", values), ("pattern", counts.mean(axis=(0, 1)))]:
        display = both[pane]["display"]
        check(found["zoomed"][pane], expected, display, tables()[display["colormap"]])
    # The cursor went to the last row, which is in view now.
    shown = found["zoomed"]["scan"]
    assert found["zoomed"]["cursor"].startswith("y 13, ")
    assert shown["top"] + 13 * shown["k"] < shown["height"]


def assert_bars(drawn: str, values: np.ndarray) -> None:
    """The bars of a histogram are as high as the logarithm of NumPy's counts."""
    expected, _ = np.histogram(values, 128)
    found = np.zeros(128)
    for left, height in re.findall(r"M(\S+) 56v-([\d.]+)", drawn):
        found[round(float(left) / 2)] = float(height)
    np.testing.assert_allclose(found, 52 * np.log1p(expected) / np.log1p(expected.max()), atol=0.01)


def check_profiles(
    found: dict[str, Any], values: np.ndarray, line: list[list[float]], n: int
) -> None:
    """Along a line, between the four neighbours; in rings, the mean about the middle."""
    ndimage = pytest.importorskip("scipy.ndimage")
    (y0, x0), (y1, x1) = line
    t = np.linspace(0, 1, n)
    length = np.hypot(y1 - y0, x1 - x0)
    along = ndimage.map_coordinates(values, [y0 + t * (y1 - y0), x0 + t * (x1 - x0)], order=1)
    y, x = np.mgrid[: SCAN[0], : SCAN[1]]
    ring = np.floor(np.hypot(y - SCAN[0] // 2, x - SCAN[1] // 2) + 0.5).astype(int)
    radial = np.bincount(ring.ravel(), values.ravel()) / np.bincount(ring.ravel())
    for name, positions, expected in [
        ("Line profile", t * length, along),
        ("Radial profile", np.arange(len(radial)), radial),
    ]:
        read = np.array([[float(part) for part in text.split(": ")] for text in found[name]])
        np.testing.assert_allclose(read[:, 0], positions[: len(read)], atol=6e-3)
        np.testing.assert_allclose(read[:, 1], expected[: len(read)], rtol=1e-5)
        assert len(read) >= 6
        assert found[f"{name} by keys"] == found[name][:3]


def test_rows_and_columns_may_have_other_units(scan: Path) -> None:
    """Along a line, lengths are those of both axes; rings of pixels have none; places have both."""
    steps = ("--scan-step", "0.5nm,0.25nm", "--pixel-size", "2mrad,0.5eV")
    with viewer(scan, *steps) as (link, _):
        found = drive("units.mjs", url=link, line=[[2, 3], [10, 3]])
    assert found["errors"] == []
    assert found["Line profile"] == [8 * 0.5, "nm"]
    radius, words = found["Radial profile"]
    assert words == "radius, px"
    assert radius == np.floor(np.hypot(SCAN[0] // 2, SCAN[1] // 2) + 0.5)
    assert found["scan"] == "1, 1 nm"
    assert found["pattern"] == "4 mrad, 2 eV"


def test_neighbouring_numbers_differ(tmp_path: Path, counts: np.ndarray) -> None:
    path = tmp_path / "large.npy"
    np.save(path, counts + 123456789.0)
    steps = ("--pixel-size", "1eV,0.01eV", "--centre", "0,-1234500")
    with viewer(path, *steps) as (link, _):
        found = drive("units.mjs", url=link, line=[[2, 3], [10, 3]])
    assert found["errors"] == []
    assert found["pattern"] == "2, 12345.04 eV"
    numbers = [float(text) for text in found["ticks"] if text[0].isdigit()]
    wide = [number for number in numbers if number > 1000]
    assert len(wide) > 2
    np.testing.assert_allclose(np.diff(wide), wide[1] - wide[0], rtol=1e-6)
    assert 12345 <= wide[0] < wide[-1] < 12346
    bar = np.diff([float(text) for text in found["bar"]])
    assert len(bar) == 4
    np.testing.assert_allclose(bar, bar[0], rtol=0.05)


# --- How soon it follows -------------------------------------------------------------------------


def test_the_picture_follows_the_pointer(scan: Path) -> None:
    with viewer(scan) as (link, _):
        found = drive("drag.mjs", url=link, steps=60, radius=4, folder=PICTURES)
    print({key: found[key] for key in ("painted", "dropped", "p50", "p95", "painter")})
    assert found["painted"] > 5
    assert found["changed"]
    assert found["stalePaints"] == 0
    assert found["errors"] == []


def test_a_slow_link(scan: Path) -> None:
    with viewer(scan) as (link, _):
        found = drive("links.mjs", url=link, what="drag", rate=100_000, latency=150)
    print(found)
    assert found["painted"] >= 3
    assert found["stalePaints"] == 0
    # One question at a time, or another after 100 ms without an answer, however often it moves.
    assert found["asked"] <= 10 * found["seconds"] + 3
    assert found["errors"] == []


def test_coarse_pictures_of_a_slow_link(tmp_path: Path) -> None:
    """While the pointer moves, values are sent as 255 steps: the nearest step is shown."""
    counts = np.random.default_rng(8).poisson(9.0, (64, 64, 12, 12)).astype(np.uint16)
    counts[20:40, 10:50] += 40
    path = tmp_path / "scan.npy"
    np.save(path, counts)
    with viewer(path) as (link, _):
        found = drive("links.mjs", url=link, what="coarse", rate=400_000)
    assert found["errors"] == []
    assert len(found["shown"]) >= 2
    # Exact pictures that are no burden to the link have all digits.
    assert "f64" in found["exact"]
    assert "f32" not in found["exact"]
    for shown in found["shown"]:
        picture, (detector,) = shown["picture"], shown["query"]["detector"]
        codes = np.frombuffer(base64.b64decode(picture["codes"]), np.uint8)
        assert picture["scale"] > 1
        values = picture["offset"] + picture["scale"] * codes.reshape(picture["shape"])
        shape = detector["shape"]
        pixels = disk_in((12, 12), shape["cy"], shape["cx"], shape["r"])
        # On a busy computer it is a preview, of which each position stands for some.
        sy, sx = picture["stride"]
        expected = counts[::sy, ::sx, pixels].sum(axis=-1)
        assert np.abs(values - expected).max() <= 0.5 * picture["scale"] * (1 + 1e-9)
        values = values.repeat(sy, axis=0).repeat(sx, axis=1)[:64, :64]
        display = shown["state"]["scan"]["display"]
        check(shown, values, display, tables()[display["colormap"]])


# --- Links ---------------------------------------------------------------------------------------


def test_a_prefix_that_a_proxy_takes_away(scan: Path) -> None:
    with viewer(scan) as (link, _):
        found = drive("links.mjs", url=link, what="drag", prefix="/user/me/proxy/8000/", steps=10)
    assert "/user/me/proxy/8000/" in found["address"]
    assert "token" not in found["address"]
    assert found["painted"] > 0
    assert found["errors"] == []


def test_a_prefix_that_a_proxy_leaves(scan: Path) -> None:
    prefix = "/user/me/proxy/8000/"
    with viewer(scan, "--base-url", prefix) as (link, _):
        assert prefix in link
        found = drive("links.mjs", url=link, what="drag", prefix=prefix, steps=10)
    assert found["address"].endswith(prefix)
    assert found["painted"] > 0
    assert found["errors"] == []


def test_a_link_that_is_copied_shows_the_same(scan: Path) -> None:
    with viewer(scan) as (link, _):
        found = drive("links.mjs", url=link, what="copied", changes=STATES[3]["changes"])
    assert found["errors"] == []
    assert found["said"] == "the link is copied"
    assert found["links"][0] == found["links"][1]
    assert "token" not in found["links"][0]
    before = found["before"]["state"]
    assert before["scan"]["query"]["detector"] == STATES[3]["changes"]["scan.query.detector"]
    display = before["scan"]["display"]
    assert (display["scale"], display["gamma"], display["zoom"]["k"]) == ("power", 0.7, 3)
    # The same picture, to the last pixel.
    assert found["after"] == found["before"]
    assert found["typed"] == before


def test_the_viewer_ends_in_the_middle_of_a_drag(scan: Path) -> None:
    with viewer(scan) as (link, pid):
        found = drive("links.mjs", url=link, what="killed", pid=pid, folder=PICTURES)
    assert "connection is lost" in found["words"]
    assert "viewer has ended, or the network broke" in found["words"]
    assert (found["badge"], found["stop"], found["saved"]) == ("of earlier settings", 0, [])
    assert [words.split(":")[0] for words in found["refused"]] == [
        "the picture is of earlier settings"
    ] * 2
    assert found["guess"] == "there is no connection to the viewer"
    assert "othing answers" in found["again"]


def test_a_link_that_breaks_is_taken_up_again(scan: Path) -> None:
    with viewer(scan) as (link, _):
        found = drive("links.mjs", url=link, what="cut")
    assert "connection is lost" in found["words"]
    assert found["shape"]["kind"] == "disk"


# --- Views ---------------------------------------------------------------------------------------


def test_a_notebook_shows_the_same() -> None:
    found = drive("widget.mjs")
    assert found["errors"] == []
    assert [found["wishes"][0], found["wishes"][-1]] == ["fast", "exact"]
    assert found["hash"] == ""
    assert found["scale"][0].endswith("nm")
    assert found["background"] == ["reads all data 12 %", "", "the disk is gone"]
    assert "kernel has ended" in found["words"].lower()
    assert found["left"] == ""
    assert all("run the cell again" in words for words in found["restarted"])
    assert found["late"].startswith("Opening … The kernel has not answered yet.")


def shown(found: dict[str, Any], name: str) -> dict[str, Any]:
    one = next(view for view in found["words"] if view["name"] == name)
    assert one["trouble"] == [], one
    return one


def test_a_scan_of_unknown_shape(tmp_path: Path) -> None:
    path = tmp_path / "series.npy"
    rng = np.random.default_rng(3)
    np.save(path, rng.poisson(9, (64, 16, 16)).astype(np.uint16))
    views = [
        {"name": "series"},
        {"name": "series-4-16", "click": [".ffv-thumb:has-text('4 × 16')"]},
    ]
    with viewer(path) as (link, _):
        found = drive("views.mjs", url=link, views=views, folder=PICTURES)
    assert found["errors"] == []
    first, chosen = shown(found, "series")["text"], shown(found, "series-4-16")["text"]
    assert "does not say what shape the scan has" in first
    assert "8 × 8" in first
    assert "scan 4 × 16" in chosen


def test_spectra_are_lines(tmp_path: Path) -> None:
    path = tmp_path / "spectra.npy"
    energy = np.exp(-((np.arange(200) - 90) ** 2) / 200)
    np.save(path, np.random.default_rng(4).poisson(50 * energy + 3, (9, 12, 200)).astype(np.uint16))
    views = [
        {"name": "spectra"},
        {"name": "spectra-point", "click": [".ffv-pane-scan [data-kind=point]"]},
    ]
    with viewer(path, "--sig-dims", "1") as (link, _):
        found = drive("views.mjs", url=link, views=views, folder=PICTURES)
    assert found["errors"] == []
    assert "Span" in shown(found, "spectra")["text"]
    shown(found, "spectra-point")


def test_more_axes_have_sliders(tmp_path: Path) -> None:
    path = tmp_path / "five.npy"
    np.save(path, np.random.default_rng(4).poisson(5, (3, 6, 7, 12, 12)).astype(np.uint16))
    views = [
        {"name": "five-axes", "changes": {"scan.query.slice": [2], "pattern.query.slice": [2]}}
    ]
    with viewer(path) as (link, _):
        found = drive("views.mjs", url=link, views=views, folder=PICTURES)
    assert found["errors"] == []
    shown(found, "five-axes")


#: A real scan, and one of spectra.
REAL = [
    (
        "mib",
        "MIB/rosettasciio/Merlin_navigation4x2_signalNx256_ROI/"
        "003_merlin_test_roi_sig256x64_nav4x2_hot_pixel_52x_39y.mib",
        (),
    ),
    ("empad", "EMPAD/hyperspy/scan_x4_y4.raw", ("--format", "empad")),
    ("blo", "BLO/rosettasciio/test1.blo", ()),
    ("hdf5", "HDF5/LiberTEM/hdf5_sample.h5", ()),
]


@pytest.mark.parametrize(("name", "file", "options"), REAL, ids=[name for name, *_ in REAL])
def test_real_files(name: str, file: str, options: tuple[str, ...]) -> None:
    vectors = {"kind": "com", "part": "vector", "centre": "mean", "rotation": 0, "flip_y": False}
    views = [
        {"name": f"{name}-first"},
        {
            "name": f"{name}-vectors",
            "changes": {"scan.query.channel": vectors, "scan.axes": True, "pattern.axes": True},
            "click": [".ffv-pane-scan [data-kind=point]", ".ffv-pane-pattern [data-kind=ring]"],
        },
    ]
    with viewer(real_file(file), *options) as (link, _):
        found = drive("views.mjs", url=link, views=views, folder=PICTURES)
    assert found["errors"] == []
    for view in views:
        assert "exact" in " ".join(shown(found, str(view["name"]))["badges"])
