"""The viewer's page in a real browser: what it shows, every control, and links that break."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from browser_cases import PICTURES, drive, viewer
from real_files import real_file

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


def pictures(tmp_path: Path) -> Path:
    """Where pictures of the page are left."""
    folder = Path(PICTURES) if PICTURES else tmp_path
    folder.mkdir(parents=True, exist_ok=True)
    return folder


# --- What is on the canvas -----------------------------------------------------------------------


def disk(cy: float, cx: float, r: float) -> np.ndarray:
    y, x = np.mgrid[: FRAME[0], : FRAME[1]]
    return (y - cy) ** 2 + (x - cx) ** 2 <= r**2


def spread(values: np.ndarray, display: dict[str, Any]) -> np.ndarray:
    """Where values lie between the limits, from 0 to 1, as matplotlib's norms have it."""
    low, high = display["low"], display["high"]
    with np.errstate(invalid="ignore", divide="ignore"):
        if display["scale"] == "log":
            t = (np.log(values) - np.log(low)) / (np.log(high) - np.log(low))
            return np.where(values <= low, 0, np.minimum(t, 1))
        t = np.clip((values - low) / (high - low), 0, 1)
    return t ** {"linear": 1, "sqrt": 0.5, "power": display["gamma"]}[display["scale"]]


def at_pixels(shown: dict[str, Any], shape: tuple[int, int]) -> tuple[np.ndarray, ...]:
    """The rows and columns that the canvas shows, where it surely shows them, and where any."""
    rows = (np.arange(shown["height"]) + 0.5 - shown["top"]) / shown["k"] + 0.5
    cols = (np.arange(shown["width"]) + 0.5 - shown["left"]) / shown["k"] + 0.5
    sure = [np.abs(place - np.round(place)) > 0.02 for place in (rows, cols)]
    index = [np.floor(place).astype(int) for place in (rows, cols)]
    inside = [(i >= 0) & (i < n) for i, n in zip(index, shape, strict=True)]
    clipped = [np.clip(i, 0, n - 1) for i, n in zip(index, shape, strict=True)]
    return np.ix_(*clipped), np.logical_and.outer(*sure), np.logical_and.outer(*inside)


def check(
    shown: dict[str, Any], values: np.ndarray, display: dict[str, Any], table: np.ndarray
) -> None:
    """The canvas shows these values in these colours, and nothing around them."""
    rgba = np.frombuffer(base64.b64decode(shown["rgba"]), np.uint8)
    rgba = rgba.reshape(shown["height"], shown["width"], 4).astype(int)
    index, sure, inside = at_pixels(shown, values.shape)
    assert inside.any()
    assert np.all(rgba[sure & ~inside] == 0)
    t = spread(values, display) * 256
    # Single precision may round to the neighbour where a value lies on the border of two colours.
    fine = np.abs(t - np.round(t)) > 1e-3 if display["scale"] != "linear" else np.ones_like(t, bool)
    expected = table[np.minimum(255, t.astype(int))]
    seen = (sure & inside & fine[index])[..., np.newaxis]
    off = np.abs(rgba[..., :3] - expected[index]) * seen
    assert seen.mean() > 0.3
    assert off.max() == 0, (off.max(), np.argwhere(off)[:3])
    assert np.all(rgba[sure & inside][..., 3] == 255)


def check_vectors(
    shown: dict[str, Any], field: np.ndarray, display: dict[str, Any], table: np.ndarray
) -> None:
    """Vectors have the colour of their direction, and are as bright as they are long."""
    rgba = np.frombuffer(base64.b64decode(shown["rgba"]), np.uint8)
    rgba = rgba.reshape(shown["height"], shown["width"], 4).astype(int)
    index, sure, inside = at_pixels(shown, field.shape[1:])
    y, x = field
    turn = np.arctan2(y, x) / (2 * np.pi) % 1 * 256
    brightness = spread(np.hypot(y, x), display)[..., np.newaxis]
    expected = table[turn.astype(int) % 256] * brightness
    fine = np.abs(turn - np.round(turn)) > 1e-3
    seen = (sure & inside & fine[index])[..., np.newaxis]
    assert (np.abs(rgba[..., :3] - expected[index]) * seen).max() < 1.01


def table_of(text: str) -> np.ndarray:
    return np.frombuffer(base64.b64decode(text), np.uint8).reshape(256, 3).astype(int)


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
    *plain, vectors = found["shown"]
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
    check_vectors(
        vectors["scan"], field, vectors["display"]["scan"]["display"], tables["direction"]
    )


# --- Every control -------------------------------------------------------------------------------


@pytest.mark.parametrize("by", ["mouse", "keyboard"])
def test_every_control_does_what_it_says(by: str, scan: Path, tmp_path: Path) -> None:
    mask, wrong = tmp_path / "mask.npy", tmp_path / "wrong.npy"
    np.save(mask, disk(12, 10, 4).astype(np.float32))
    np.save(wrong, np.ones((3, 3), np.float32))
    with viewer(scan) as (link, _):
        found = drive(
            "controls.mjs",
            url=link,
            by=by,
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


# --- How soon it follows -------------------------------------------------------------------------


def test_the_picture_follows_the_pointer(scan: Path, tmp_path: Path) -> None:
    folder = pictures(tmp_path)
    with viewer(scan) as (link, _):
        found = drive("drag.mjs", url=link, steps=60, radius=4)
        strip = drive("drag.mjs", url=link, steps=12, radius=4, folder=str(folder))
    print({key: found[key] for key in ("painted", "dropped", "p50", "p95", "painter")})
    assert found["painted"] > 5
    assert found["stalePaints"] == strip["stalePaints"] == 0
    assert found["errors"] == strip["errors"] == []
    assert len(list(folder.glob("drag-*.png"))) == 6


def test_a_slow_link(scan: Path) -> None:
    with viewer(scan) as (link, _):
        found = drive("links.mjs", url=link, what="drag", rate=100_000, latency=150)
    print(found)
    assert found["painted"] >= 3
    assert found["stalePaints"] == 0
    # One question at a time: far fewer than the pointer moved.
    assert found["asked"] < 60
    assert found["errors"] == []


# --- Links ---------------------------------------------------------------------------------------


def test_a_prefix_that_a_proxy_takes_away(scan: Path) -> None:
    with viewer(scan) as (link, _):
        found = drive("links.mjs", url=link, what="drag", prefix="/user/me/proxy/8000/", steps=10)
    assert "/user/me/proxy/8000/" in found["address"]
    assert "token" not in found["address"]
    assert found["painted"] > 0
    assert found["errors"] == []


def test_the_viewer_ends_in_the_middle_of_a_drag(scan: Path, tmp_path: Path) -> None:
    with viewer(scan) as (link, pid):
        found = drive("links.mjs", url=link, what="killed", pid=pid, folder=str(pictures(tmp_path)))
    assert "connection is lost" in found["words"]
    assert "viewer has ended, or the network broke" in found["words"]
    assert "othing answers" in found["again"]


def test_a_link_that_breaks_is_taken_up_again(scan: Path) -> None:
    with viewer(scan) as (link, _):
        found = drive("links.mjs", url=link, what="cut")
    assert "connection is lost" in found["words"]
    assert found["shape"]["kind"] == "disk"


# --- Views ---------------------------------------------------------------------------------------


def test_a_notebook_shows_the_same(tmp_path: Path) -> None:
    found = drive("widget.mjs")
    assert found["errors"] == []
    assert [found["wishes"][0], found["wishes"][-1]] == ["fast", "exact"]
    assert found["hash"] == ""
    assert found["scale"][0].endswith("nm")
    assert "kernel has ended" in found["words"].lower()
    assert found["left"] == ""


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
        found = drive("views.mjs", url=link, views=views, folder=str(pictures(tmp_path)))
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
        found = drive("views.mjs", url=link, views=views, folder=str(pictures(tmp_path)))
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
        found = drive("views.mjs", url=link, views=views, folder=str(pictures(tmp_path)))
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
def test_real_files(name: str, file: str, options: tuple[str, ...], tmp_path: Path) -> None:
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
        found = drive("views.mjs", url=link, views=views, folder=str(pictures(tmp_path)))
    assert found["errors"] == []
    for view in views:
        assert "exact" in " ".join(shown(found, str(view["name"]))["badges"])
