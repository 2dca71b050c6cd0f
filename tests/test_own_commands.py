"""Functions of one's own on the command line, through Python's entry point."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest

from framefold import _own_commands, cli

MODULE = """
import numpy as np
import framefold as ff


class Brightest(ff.UDF):
    def __init__(self, least=0):
        super().__init__(least=least)

    def get_result_buffers(self):
        return {
            "position": self.buffer(kind="nav", extra_shape=(2,), dtype="int64"),
            "value": self.buffer(kind="nav"),
        }

    def process_frame(self, frame):
        self.results.position[:] = np.unravel_index(np.argmax(frame), frame.shape)
        self.results.value[:] = max(frame.max(), self.params.least)


brightest = Brightest(least=3)


class Large(ff.UDF):
    def get_result_buffers(self):
        return {"n": self.buffer(kind="nav", dtype="int64")}

    def process_frame(self, frame):
        self.results.n[:] = 2**53 + 1


def total(frame):
    return frame.sum()


def broken(frame):
    return frame.nonsense
"""
DATA = np.random.default_rng(4).integers(0, 50, (4, 6, 3, 5), dtype=np.uint16)
MAXIMUM = DATA.max(axis=(2, 3))


@pytest.fixture
def run(tmp_path, monkeypatch, request):
    """Runs a command in a folder with a module of a name of its own, and data."""
    name = f"own_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    np.save(tmp_path / "a.npy", DATA)
    np.save(tmp_path / "b.npy", DATA[::-1].copy())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    yield lambda line: _own_commands.run(["run", *line.replace("mine", name).split(" ")])
    sys.modules.pop(name, None)


def test_what_names_a_function_is_told_from_files_and_values():
    for line in ("run mine:F a.mib", "run -q mine.deep:f a.mib", "run dir/mine.py:F a.mib"):
        assert _own_commands.wants(line.split(" ")), line
    for line in (
        "run sum a.mib",
        "run sum a.mib --roi 1:3,2",
        "run sum a.h5 --ds-path entry:data",
        "run sumsig a.h5 --ds-path entry:data",
        "run sum a.mib --roi 1:3",
        "info mine:F",
        "run sum c:/data/a.mib",
        "run",
        "",
    ):
        assert not _own_commands.wants(line.split(" ")), line


def test_classes_objects_and_functions(run, capsys):
    assert run("mine:Brightest a.npy -o out.npz -p least=40 -q") == 0
    out = np.load("out.npz")
    assert sorted(out.files) == ["about", "position", "value"]
    assert np.array_equal(out["value"], np.maximum(MAXIMUM, 40))
    assert run("mine:brightest a.npy b.npy -o {stem}-out.npy --buffer value") == 0
    assert np.array_equal(np.load("b-out.npy"), MAXIMUM[::-1])
    assert run("mine.py:total a.npy --threads 2") == 0
    told = capsys.readouterr().out.splitlines()
    sums = DATA.sum(axis=(2, 3))
    assert told[0].startswith("a-out.npy: value (4, 6) float32, from ")
    low, high = float(sums.min()), float(sums.max())
    assert told[-1] == f"a.npy: result (4, 6) float32, from {low} to {high}"


def test_regions_are_those_of_the_command_line(run):
    for roi, index in [("::2", np.s_[::2]), ("1:3,-1", np.s_[1:3, -1]), ("2,3", (2, 3))]:
        assert run(f"mine:Brightest a.npy -o out.npy -f -r {roi}") == 0
        seen = np.zeros((4, 6), dtype=bool)
        seen[index] = True
        # Positions are integers; those without a result are not 0.
        assert np.array_equal(np.isfinite(np.load("out.npy")).all(axis=-1), seen)
    assert run("mine:Brightest a.npy -o out.npz --roi 1:3") == 0
    assert np.array_equal(np.load("out.npz")["value_valid"].all(axis=1), [0, 1, 1, 0])
    assert np.load("out.npz")["value_valid"].shape == (4, 6)
    assert run("mine:total a.npy --roi 0;3 -o out.npy --force") == 0
    assert np.array_equal(np.isfinite(np.load("out.npy")).all(axis=1), [1, 0, 0, 1])


def test_results_are_saved_as_by_save(run):
    h5py = pytest.importorskip("h5py")
    assert run("mine:Brightest a.npy -o out.h5 -q") == 0
    with h5py.File("out.h5") as file:
        assert np.array_equal(file["value/data"], MAXIMUM)
    # Integers that no float holds are not rounded for the sake of NaN.
    assert run("mine:Large a.npy -o out.npy --roi 1:3") == 4
    assert run("mine:Large a.npy -o out.npz --roi 1:3") == 0
    assert np.all(np.load("out.npz")["n"][1:3] == 2**53 + 1)


def test_options_about_the_file(run, capsys):
    DATA.tofile("scan.raw")
    line = "mine:total scan.raw --format raw --nav-shape 8,3 --sig-shape 3,5 --dtype uint16"
    assert run(line) == 0
    assert "result (8, 3)" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        ("mine:nope a.npy", 2, "has no 'nope'; it has np, ff, Brightest, brightest, Large, total"),
        ("nowhere:f a.npy", 2, "no module 'nowhere'"),
        ("nowhere.py:f a.npy", 2, "no file 'nowhere.py'"),
        ("mine:np a.npy", 2, "it is a module"),
        ("mine:total missing.npy", 5, "'missing.npy': could not open the file"),
        ("mine:total a.npy --roi 9", 2, r"does not fit a scan of shape (4, 6)"),
        ("mine:total a.npy --roi a:b", 2, "write slices such as"),
        ("mine:total a.npy -p x=1", 2, "parameters are for UDF classes"),
        ("mine:Brightest a.npy -p x=1", 2, "unexpected keyword argument 'x'"),
        ("mine:Brightest a.npy -p x", 2, "'x' is not NAME=VALUE"),
        ("mine:Brightest a.npy --buffer x", 2, "no result buffer 'x'; there are position, value"),
        ("mine:total a.npy -o out.png", 2, "does not end in anything that results are saved as"),
        ("mine:total a.npy b.npy -o out.npy", 2, "put {stem}"),
        ("mine:total a.npy -o a.npy", 2, "the output exists"),
        ("mine:broken a.npy -o out.npy", 6, "has no attribute 'nonsense'"),
    ],
)
def test_errors_are_those_of_the_command_line(run, capsys, tmp_path, line, code, message):
    before = sorted(tmp_path.iterdir())
    assert run(line) == code
    told = capsys.readouterr().err
    assert message in told
    assert code == 6 or told.count("\n") == 1
    assert [path for path in sorted(tmp_path.iterdir()) if path.suffix == ".npy"] == [
        path for path in before if path.suffix == ".npy"
    ]
    if code == 6:
        assert told.count("  File ") == 1


def test_an_option_that_there_is_not_is_refused(run, capsys):
    with pytest.raises(SystemExit) as ended:
        run("mine:total a.npy --nope")
    assert ended.value.code == 2
    assert "unrecognized arguments: --nope; see" in capsys.readouterr().err


def test_the_command_itself(run, tmp_path):
    (name,) = (path.stem for path in tmp_path.glob("own_*.py"))
    done = subprocess.run(
        [sys.executable, "-m", "framefold", "run", f"{name}:total", "a.npy"],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "result (4, 6)" in done.stdout
    assert cli.main is not None
