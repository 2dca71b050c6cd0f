"""Scripts and notebooks that the viewer exports give its arrays.

With framefold, and with LiberTEM where FRAMEFOLD_LIBERTEM_PYTHON names an interpreter that has it.
"""

import ast
import base64
import json
import os
import re
import sys
from pathlib import Path

import numpy as np
import pytest
from exported_scripts import run
from view_client import Client

import framefold as ff

NAV, SIG = (5, 6), (16, 18)


def shape(kind, sign="plus", **numbers):
    return {"shape": {"kind": kind, **numbers}, "sign": sign}


DISK = [shape("disk", cy=7.3, cx=8.0, r=4.2)]
#: One detector of each kind of shapes, and a signed sum.
SHAPES = {
    "point": [shape("point", y=6.5, x=3.2)],
    "disk": DISK,
    "disk at a distance of pixels": [shape("disk", cy=7, cx=8, r=13**0.5)],
    "ring": [shape("ring", cy=7.5, cx=8.5, ri=3.0, ro=6.5)],
    "wedge": [shape("wedge", cy=7, cx=8, ri=1, ro=7, **{"from": 315, "to": 45})],
    "full wedge": [shape("wedge", cy=7, cx=8, ri=0, ro=5, **{"from": 0, "to": 360})],
    "rectangle": [shape("rectangle", y0=9.8, x0=2.2, y1=3.4, x1=11.9)],
    "polygon": [shape("polygon", points=[[1, 2], [12.5, 4], [9, 15], [3, 9.5], [14, 1]])],
    "lattice": [shape("lattice", cy=7, cx=8, a=[4.2, 0.5], b=[0, 5], r=2.2, order=2)],
    "signed": [
        shape("disk", cy=7, cx=8, r=6),
        shape("rectangle", "minus", y0=5, x0=0, y1=9, x1=17),
        shape("ring", cy=2, cx=3, ri=0, ro=2.5),
    ],
}
COM = {"kind": "com", "centre": {"at": [7.25, 8.5]}, "rotation": 30.0, "flip_y": True}
SCAN_CHANNELS = {
    "mean": {"kind": "mean"},
    "std": {"kind": "std"},
    "max": {"kind": "max"},
    "com": {"kind": "com"},
    "com turned": COM,
    **{
        part: {**COM, "part": part, "centre": "mean"}
        for part in ("magnitude", "y", "x", "divergence", "curl")
    },
    "idpc": {"kind": "idpc", "rotation": -20.0},
}
REGION = [shape("rectangle", y0=1, x0=0, y1=3, x1=4), shape("point", "minus", y=2, x=2)]
PATTERN_CHANNELS = ("sum", "mean", "std", "max")


def scan(detector=(), channel="sum", **rest):
    channel = {"kind": channel} if isinstance(channel, str) else channel
    return {"pane": "scan", "channel": channel, "detector": list(detector), **rest}


def pattern(region=(), channel="mean", **rest):
    return {"pane": "pattern", "channel": {"kind": channel}, "region": list(region), **rest}


def all_queries():
    """By name, each query that is to give the same array; those of sums and maxima bit for bit."""
    queries = {f"sum of {name}": scan(detector) for name, detector in SHAPES.items()}
    queries["sum of all"] = scan()
    for name in ("disk", "signed"):
        for channel, query in SCAN_CHANNELS.items():
            queries[f"{channel} of {name}"] = scan(SHAPES[name], query)
    queries["fft"] = scan(DISK, transform="fft")
    queries["fft of vectors"] = scan(DISK, "com", transform="fft")
    for channel in PATTERN_CHANNELS:
        queries[f"pattern {channel}"] = pattern(channel=channel)
        queries[f"pattern {channel} of a region"] = pattern(REGION, channel)
    queries["frame"] = pattern([shape("point", y=3, x=2)])
    queries["pattern ewpc"] = pattern(REGION, transform="ewpc")
    queries["pattern fft"] = pattern(transform="fft")
    return queries


def is_exact(name):
    return name.startswith(("sum", "mean", "max", "pattern sum", "pattern max", "frame")) or (
        "mean" in name and "pattern" in name
    )


def agree(name, found, expected, of_integers=True):
    """Sums, maxima and what is divided by a count are the same bits, others agree to rounding."""
    assert found.shape == expected.shape, name
    if of_integers and is_exact(name):
        np.testing.assert_array_equal(found, expected, err_msg=name)
        return
    # Differences and Fourier transforms of large values are small ones.
    scale = np.abs(expected[np.isfinite(expected)]).max(initial=1e-300)
    np.testing.assert_allclose(found, expected, rtol=1e-11, atol=1e-11 * scale, err_msg=name)


@pytest.fixture(scope="module")
def frames():
    return np.random.default_rng(7).poisson(3.0, (*NAV, *SIG)).astype(np.uint16)


@pytest.fixture
def opened(tmp_path):
    """Opens an array as a file, from a folder whose name would be code if it were not quoted."""
    folder = tmp_path / 'it\'s "a\\folder"; import os #'
    folder.mkdir()

    def open_array(array, **options):
        np.save(folder / "scan.npy", array)
        return ff.Context.make_with("inline").load("npy", folder / "scan.npy", **options)

    return open_array


def script_of(client, queries, state=None, form="script"):
    """The text of a script, or of a notebook, for these queries."""
    named = list(queries.values())
    return client.file(type="script", form=form, queries=named, state=state)[1].decode()


def arrays_of(queries, folder):
    """What a script wrote, by the names of the queries."""
    numbers = {"scan": 0, "pattern": 0}
    found = {}
    for name, query in queries.items():
        pane = query["pane"]
        numbers[pane] += 1
        ending = f"_{numbers[pane]}" if numbers[pane] > 1 else ""
        found[name] = np.load(folder / f"scan-{pane}{ending}.npy")
    return found


def check(
    dataset,
    queries,
    folder,
    python=sys.executable,
    of_integers=True,
    for_libertem=False,
    alone=False,
):
    client = Client(dataset)
    expected = {name: client.array(query) for name, query in queries.items()}
    script = script_of(client, queries)
    if for_libertem:
        # A cluster is not what is tested.
        script = script.replace("lt.Context()", 'lt.Context.make_with("inline")')
        script = 'import sys\nsys.modules["framefold"] = None\n' + script
    folder.mkdir()
    run(script, folder, python, alone)
    for name, found in arrays_of(queries, folder).items():
        agree(name, found, expected[name], of_integers)
    n_pictures = len(list(folder.glob("*.png")))
    assert n_pictures == len(queries)
    return script


def test_scripts_give_the_arrays_of_the_viewer(frames, opened, tmp_path):
    check(opened(frames), all_queries(), tmp_path / "run", alone=True)


def test_floats_agree_to_rounding(frames, opened, tmp_path):
    values = frames.astype(np.float32) / 7
    queries = all_queries()
    some = {name: queries[name] for name in list(queries)[::3]}
    check(opened(values), some, tmp_path / "run", of_integers=False)


def not_finite(frames):
    """Frames with pixels that are no numbers, inside a detector and outside, and questions."""
    values = frames.astype(np.float32) / 7
    values[0, 1, -1, -1], values[1, 0, -1, 0], values[2, 1, 3, 4] = np.nan, np.inf, np.nan
    inside = [shape("disk", cy=3, cx=4, r=1)]
    channels = ("sum", "mean", "std", "max", "com", "idpc")
    return values, {channel: scan(inside, channel) for channel in channels}


def test_what_is_not_finite_counts_where_it_has_weight(frames, opened, tmp_path):
    values, queries = not_finite(frames)
    check(opened(values), queries, tmp_path / "run", of_integers=False)


def test_infinite_pixels_where_coordinates_are_0(frames, opened, tmp_path):
    """Sparse masks do not count what is infinite times 0."""
    values = frames.astype(np.float32)
    values[0, 1, 0, 4], values[2, 3, 5, 0] = np.inf, -np.inf
    queries = {
        f"com {part} {centre}": scan((), {"kind": "com", "part": part, "centre": centre})
        for part in ("y", "x")
        for centre in ("mean", {"at": [7.5, 8.0]})
    }
    queries["idpc"] = scan((), "idpc")
    check(opened(values), queries, tmp_path / "run", of_integers=False)


def test_wedges_that_go_back_are_those_of_the_viewer(frames, opened, tmp_path):
    about = {"cy": 3, "cx": 4, "ri": 0, "ro": 3}
    angles = ((0, 90), (360, 90), (360, -270), (370, -10), (400, -360), (90, 450))
    queries = {
        f"sum {begin} to {end}": scan([shape("wedge", **about, **{"from": begin, "to": end})])
        for begin, end in angles
    }
    check(opened(frames), queries, tmp_path / "run")


def test_slices_of_scans_with_more_axes(frames, opened, tmp_path):
    dataset = opened(np.stack([frames, frames[::-1] * 2]), nav_shape=(2, *NAV))
    queries = {
        "sum": scan(DISK, slice=[1]),
        "com": scan(DISK, COM, slice=[0]),
        "max": scan(DISK, "max", slice=[1]),
        "pattern mean": pattern(REGION, slice=[1]),
        "pattern max": pattern(channel="max", slice=[0]),
        # Where it is not said, the first one.
        "sum of the first": scan(DISK),
        "pattern mean of the first": pattern(),
    }
    check(dataset, queries, tmp_path / "run")


def test_steps_and_pixels_that_are_longer_along_y(frames, opened, tmp_path):
    """They count as such where both axes have the same unit, in scripts as in the viewer."""
    step, pixel = 3.0, 0.75
    plain = opened(frames, nav_shape=NAV)
    dataset = plain.calibrate(
        scan_step=[(-1.5, "nm"), (0.5, "nm")], pixel_size=[(0.3, "mrad"), (0.4, "mrad")]
    )
    turn = {name: value for name, value in COM.items() if name != "kind"}
    parts = ("vector", "magnitude", "divergence", "curl")
    queries = {part: scan((), {**COM, "part": part}) for part in parts}
    queries["idpc"] = scan((), {"kind": "idpc", **turn})

    total, y, x = (np.sum(frames * at, axis=(2, 3)) for at in (1, *np.indices(SIG)))
    field = x / total - 8.5 - 1j * pixel * (y / total - 7.25)
    field *= np.exp(1j * np.radians(30))
    y, x = field.imag, field.real
    fy, fx = np.meshgrid(np.fft.fftfreq(NAV[0], step), np.fft.fftfreq(NAV[1]), indexing="ij")
    squared = np.where((fy == 0) & (fx == 0), np.inf, fy**2 + fx**2)
    phase = np.fft.ifft2(-1j * (fy * np.fft.fft2(y) + fx * np.fft.fft2(x)) / squared)
    (yy, yx), (xy, xx) = np.gradient(y, step, 1), np.gradient(x, step, 1)
    expected = [np.stack([y, x]), np.hypot(y, x), yy + xx, yx - xy, phase.real]
    client = Client(dataset)
    for (name, query), values in zip(queries.items(), expected, strict=True):
        agree(name, client.array(query), values)
    check(dataset, queries, tmp_path / "run")

    others = plain.calibrate(
        scan_step=[(1.5, "nm"), (0.5, "s")], pixel_size=[(0.3, "1/nm"), (0.4, "mrad")]
    )
    others, plain = Client(others), Client(plain)
    for query in queries.values():
        np.testing.assert_array_equal(others.array(query), plain.array(query))


def test_lines(frames, opened, tmp_path):
    """Scans and frames of one axis."""
    dataset = opened(frames.reshape((-1, SIG[0] * SIG[1])), sig_dims=1)
    queries = {
        "sum": scan([shape("rectangle", y0=0, x0=20, y1=0, x1=90)]),
        "max": scan((), "max"),
        "com": scan([shape("rectangle", y0=0, x0=20, y1=0, x1=90)], "com"),
        "curl": scan((), {"kind": "com", "part": "curl"}),
        "pattern mean": pattern([shape("rectangle", y0=0, x0=3, y1=0, x1=9)]),
        "pattern fft": pattern(transform="fft"),
    }
    check(dataset, queries, tmp_path / "run")


def test_positions_without_data(frames, opened, tmp_path):
    with pytest.warns(ff.warnings.DataSetWarning, match="sync_offset"):
        dataset = opened(frames, nav_shape=NAV, sync_offset=-3)
    queries = {
        "sum": scan(DISK),
        "std": scan(DISK, "std"),
        "com": scan(DISK, "com"),
        "idpc": scan(DISK, "idpc"),
        "divergence": scan(DISK, {**COM, "part": "divergence"}),
        "fft": scan(DISK, transform="fft"),
        "pattern mean": pattern(),
        "pattern std of a region": pattern(REGION, "std"),
    }
    expected = check_incomplete(dataset, queries, tmp_path / "run")
    assert np.isnan(expected["sum"]).sum() == 3


def test_regions_without_data(frames, opened, tmp_path):
    with pytest.warns(ff.warnings.DataSetWarning, match="sync_offset"):
        dataset = opened(frames, nav_shape=NAV, sync_offset=2)
    place = [shape("point", y=NAV[0] - 1, x=NAV[1] - 1)]
    queries = {f"pattern {name}": pattern(place, name) for name in PATTERN_CHANNELS}
    expected = check_incomplete(dataset, queries, tmp_path / "run")
    assert all(np.isnan(values).all() for values in expected.values())


def check_incomplete(dataset, queries, folder):
    client = Client(dataset)
    expected = {name: client.array(query) for name, query in queries.items()}
    folder.mkdir()
    # Some positions have no frame, of which runs warn.
    silence = "import warnings\nwarnings.simplefilter('ignore')\n"
    run(silence + script_of(client, queries), folder)
    for name, found in arrays_of(queries, folder).items():
        agree(name, found, expected[name])
    return expected


def test_arrays_of_weights_are_in_the_script(frames, opened, tmp_path):
    client = Client(opened(frames))
    rng = np.random.default_rng(3)
    bits = client.mask("bits", rng.integers(0, 2, SIG))
    weights = client.mask("weights", rng.normal(size=SIG))
    queries = {
        "sum of bits": scan([shape("array", id=bits)]),
        "signed": scan([shape("array", id=weights), shape("array", "minus", id=bits)], "mean"),
    }
    expected = {name: client.array(query) for name, query in queries.items()}
    script = script_of(client, queries)
    folder = tmp_path / "run"
    folder.mkdir()
    run(script, folder)
    found = arrays_of(queries, folder)
    np.testing.assert_array_equal(found["sum of bits"], expected["sum of bits"])
    np.testing.assert_allclose(found["signed"], expected["signed"], rtol=1e-11, atol=1e-12)


def test_frames_that_stages_made(frames, opened, tmp_path):
    dataset = opened(frames).orient(flip="y").pipe("bin 2")
    script = check(dataset, {"sum": scan(), "pattern max": pattern((), "max")}, tmp_path / "run")
    assert "LiberTEM cannot run it" in script


@pytest.mark.filterwarnings("ignore::framefold.warnings.DataSetWarning")
@pytest.mark.filterwarnings("ignore::framefold.warnings.MissingFramesWarning")
@pytest.mark.parametrize("options", [{"sig_dims": 1}, {"sync_offset": -3}])
def test_arrays_in_memory_are_loaded_as_they_were(frames, tmp_path, options):
    array = frames[:, :, 0] if "sig_dims" in options else frames
    client = Client(ff.Context.make_with("inline").load("memory", data=array, **options))
    queries = {"sum": scan(), "pattern mean": pattern()}
    expected = {name: client.array(query) for name, query in queries.items()}
    script = script_of(client, queries)
    np.save(tmp_path / "array.npy", array)
    (folder := tmp_path / "run").mkdir()
    silence = "import warnings\nwarnings.simplefilter('ignore')\n"
    run(silence + script.replace("DATA = None", 'DATA = np.load("../array.npy")'), folder)
    for name, query in queries.items():
        (path,) = folder.glob(f"*-{query['pane']}.npy")
        np.testing.assert_array_equal(np.load(path), expected[name])


def test_functions_of_the_session_are_asked_for(frames, opened, tmp_path):
    client = Client(opened(frames), udfs={"my sum": ff.SumUDF()})
    channel = {"kind": "own", "name": "my sum", "buffer": "intensity"}
    # It runs over all positions, whatever region is drawn.
    query = {"pane": "pattern", "channel": channel, "region": REGION}
    expected = client.array(query)
    np.testing.assert_array_equal(expected, frames.sum(axis=(0, 1)))
    script = script_of(client, {"own": query})
    folder = tmp_path / "run"
    folder.mkdir()
    with pytest.raises(AssertionError, match="set PATTERN_FUNCTION in this script"):
        run(script, folder)
    given = "import framefold as ff\nPATTERN_FUNCTION = ff.SumUDF()"
    run(script.replace("PATTERN_FUNCTION = None", given), folder)
    np.testing.assert_array_equal(np.load(folder / "scan-pattern.npy"), expected)


def test_results_of_functions_that_are_not_valid(frames, opened, tmp_path):
    given = """
import framefold as ff

class Odd(ff.UDF):
    def get_result_buffers(self):
        return {"value": self.buffer(kind="nav", dtype="int64", extra_shape=(2, 2))}

    def process_frame(self, frame):
        self.results.value[:] = frame.sum() + [[0, 1], [2, 3]]

    def get_results(self):
        return {"value": self.with_mask(self.results.value, self.results.value % 2 == 1)}

SCAN_FUNCTION = Odd()
"""
    known = {}
    exec(given, known)
    client = Client(opened(frames), udfs={"odd": known["SCAN_FUNCTION"]})
    query = scan((), {"kind": "own", "name": "odd", "buffer": "value[2]"})
    expected = client.array(query)
    assert 0 < np.isnan(expected).sum() < expected.size
    folder = tmp_path / "run"
    folder.mkdir()
    run(script_of(client, {"own": query}).replace("SCAN_FUNCTION = None", given), folder)
    np.testing.assert_array_equal(np.load(folder / "scan-scan.npy"), expected)


def test_files_that_have_changed_are_noticed(frames, opened, tmp_path):
    dataset = opened(frames, nav_shape=NAV)
    script = script_of(Client(dataset), {"sum": scan()})
    np.save(dataset.paths[0], frames[..., :-1])
    folder = tmp_path / "run"
    folder.mkdir()
    with pytest.raises(
        AssertionError, match=r"the data have the shape .* expected \(\(5, 6\), \(16, 18\)\)"
    ):
        run(script, folder)


@pytest.mark.parametrize("scale", ["linear", "log", "sqrt", "power"])
def test_pictures_have_colours_and_limits_of_the_viewer(frames, opened, tmp_path, scale):
    """By pixels, against the arithmetic of the page (web/src/picture/colour.ts)."""
    display = {"colormap": "magma", "scale": scale, "gamma": 0.4, "low": 40.0, "high": 90.5}
    client = Client(opened(frames))
    values = client.array(scan(DISK))
    state = {"version": 1, "scan": {"display": display}}
    script = script_of(client, {"sum": scan(DISK)}, state)
    folder = tmp_path / "run"
    folder.mkdir()
    saved = 'np.save("drawn.npy", image.to_rgba(image.get_array(), bytes=True))'
    text = re.sub(r"^( *)(fig\.savefig)", rf"\1{saved}\n\1\2", script, flags=re.MULTILINE)
    run(text, folder)
    table = client.hello()["colormaps"]["magma"]
    table = np.frombuffer(base64.b64decode(table), np.uint8).reshape(256, 3)
    with np.errstate(invalid="ignore", divide="ignore"):
        position = np.clip((values - 40.0) / (90.5 - 40.0), 0, 1)
        if scale == "log":
            position = np.log(values / 40.0) / np.log(90.5 / 40.0)
            position = np.where(values <= 40.0, 0, np.minimum(position, 1))
    position = {"sqrt": position**0.5, "power": position**0.4}.get(scale, position)
    expected = table[np.minimum(255, np.floor(position * 256)).astype(int)]
    drawn = np.load(folder / "drawn.npy")
    assert (drawn[..., 3] == 255).all()
    # A value at the border of two colours may have either.
    assert (np.abs(drawn[..., :3].astype(int) - expected).max(axis=-1) <= 4).all()
    assert (drawn[..., :3] == expected).all(axis=-1).mean() > 0.9


def test_notebooks_run(frames, opened, tmp_path):
    nbformat = pytest.importorskip("nbformat")
    client = Client(opened(frames))
    queries = {"com": scan(DISK, "com"), "pattern mean": pattern(REGION)}
    content = script_of(client, queries, {"version": 1}, form="notebook")
    notebook = nbformat.reads(content, as_version=4)
    nbformat.validate(notebook)
    code = "\n".join(cell.source for cell in notebook.cells if cell.cell_type == "code")
    folder = tmp_path / "run"
    folder.mkdir()
    run(code, folder)
    for each, found in arrays_of(queries, folder).items():
        agree(each, found, client.array(queries[each]))


HOSTILE = [
    "a\nimport os",
    'a";raise SystemExit(1)#',
    "a\\",
    "'''",
    '"""',
    "a\r#",
    "\u202ea",
    "{x}",
    "\x7f",
]


@pytest.mark.skipif(os.name != "posix", reason="such names of files are allowed on POSIX alone")
@pytest.mark.parametrize("name", HOSTILE)
def test_names_of_files_are_no_code(frames, tmp_path, name):
    path = tmp_path / f"{name}.npy"
    np.save(path, frames[:1, :2])
    client = Client(ff.Context.make_with("inline").load("npy", path))
    saved, script = client.file(type="script", form="script", queries=[scan()], state=None)
    assert re.fullmatch(r"[A-Za-z0-9._-]+", saved)
    tree = ast.parse(script)
    texts = [node.value for node in ast.walk(tree) if isinstance(node, ast.Constant)]
    assert os.fspath(path) in texts
    clean = tmp_path / "clean.npy"
    np.save(clean, frames[:1, :2])
    client = Client(ff.Context.make_with("inline").load("npy", clean))
    plain = script_of(client, {"sum": scan()})
    # But for its texts it is the same script.
    assert _without_texts(tree) == _without_texts(ast.parse(plain))


def _without_texts(tree):
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and isinstance(node.value, str):
            node.value = ""
    return ast.dump(tree)


def _libertem():
    return os.environ.get("FRAMEFOLD_LIBERTEM_PYTHON")


@pytest.mark.skipif(_libertem() is None, reason="FRAMEFOLD_LIBERTEM_PYTHON names no interpreter")
class TestWithLiberTEM:
    def run(self, dataset, queries, folder, **options):
        python = Path(_libertem())
        check(dataset, queries, folder, python=str(python), for_libertem=True, **options)

    def test_all(self, frames, opened, tmp_path):
        self.run(opened(frames), all_queries(), tmp_path / "run")

    def test_floats(self, frames, opened, tmp_path):
        values = frames.astype(np.float32) / 7
        self.run(opened(values), all_queries(), tmp_path / "run", of_integers=False)

    def test_what_is_not_finite(self, frames, opened, tmp_path):
        values, queries = not_finite(frames)
        self.run(opened(values), queries, tmp_path / "run", of_integers=False)

    def test_slices(self, frames, opened, tmp_path):
        dataset = opened(np.stack([frames, frames[::-1] * 2]), nav_shape=(2, *NAV))
        queries = {"sum": scan(DISK, slice=[1]), "pattern mean": pattern(REGION, slice=[1])}
        self.run(dataset, queries, tmp_path / "run")


def test_a_script_holds_the_words_of_a_state(frames, opened):
    """A state that is none is an error in words, and nothing else."""
    client = Client(opened(frames))
    client.send(type="script", id=9, form="script", queries=[scan()], state={"scan": 3})
    header, _ = client.next()
    assert (header["type"], header["id"]) == ("error", 9), json.dumps(header)
    assert "state" in header["message"]
