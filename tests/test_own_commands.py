"""Functions of one's own on the command line, through Python's entry point."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys

import numpy as np
import pytest
from own_command_cases import DATA, MAXIMUM, run_own  # noqa: F401 - a fixture

import framefold as ff
from framefold import _own_commands, cli
from framefold._own_commands import functions


@pytest.fixture(autouse=True)
def one_command(monkeypatch):
    """Each test is a program of its own, as to where modules are."""
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.setattr(functions, "_beside", [])
    yield
    for name in [name for name in sys.modules if name.startswith(("own_s", "own_p", "own_q"))]:
        del sys.modules[name]


def test_lists_with_files_of_functions(run, tmp_path, request, capfd):
    name = f"own_{abs(hash(request.node.name))}"
    (tmp_path / "with,comma.py").write_text((tmp_path / f"{name}.py").read_text())
    for what, expected in {
        "mine.py:total,com": {"total", "com"},
        "com,mine.py:total,sum": {"total", "com", "sum"},
        "with,comma.py:total": {"total"},
        "ring 1,2,mine.py:total,ring 0.5,1.5 -b intensity": {"total", "ring"},
    }.items():
        assert run(f"'{what}' a.npy -o out/{{reduction}}.npy -q") == 0, what
        written = list((tmp_path / "out").iterdir())
        assert {path.stem.partition("-")[0] for path in written} == expected
        for path in written:
            path.unlink()
    for number in ("inf", "Infinity"):  # a number of the ring, and no reduction of the list
        assert run(f"'ring 1,{number},mine.py:total' a.npy -o out/{{reduction}}.npy") == 2
        assert f"in 'ring 1,{number}'" in capfd.readouterr().err


def test_files_may_be_called_as_modules_are(run, tmp_path):
    (tmp_path / "mine").mkdir()
    known = {name: sys.modules.get(name) for name in ("signal", "sparse", "__main__")}
    for name in known:
        (tmp_path / f"mine/{name}.py").write_text("def f(frame):\n    return frame.sum()\n")
        assert _own_commands.run(["run", f"mine/{name}.py:f", "a.npy", "-f", "-o", "out.npy"]) == 0
        np.testing.assert_array_equal(np.load("out.npy"), DATA.sum(axis=(2, 3)))
        assert sys.modules.pop(f"{name}_py").f(DATA) == DATA.sum()
    assert known == {name: sys.modules.get(name) for name in known}


def test_files_may_import_modules_beside_them(run, tmp_path):
    (tmp_path / "beside").mkdir()
    (tmp_path / "beside/own_factor.py").write_text("factor = 3\n")
    (tmp_path / "beside/signal.py").write_text("raise AssertionError\n")
    code = "import signal\nfrom own_factor import factor\nf = lambda frame: factor * frame.sum()\n"
    (tmp_path / "beside/uses.py").write_text(code)
    assert _own_commands.run(["run", "beside/uses.py:f", "a.npy", "-f", "-o", "out.npy"]) == 0
    np.testing.assert_array_equal(np.load("out.npy"), 3 * DATA.sum(axis=(2, 3)))


@pytest.mark.parametrize(
    "names", ["p/own_p.py:f,q/own_q.py:f", "p/own_p.py:f,own_q:f", "own_q:f,p/own_p.py:f"]
)
@pytest.mark.parametrize("module", ["own_setting.py", "own_set/setting.py"])
def test_two_folders_with_a_module_of_the_same_name(run, tmp_path, capfd, names, module):
    """The second function got the module of the first one."""
    for folder, of in ("p", "own_p"), ("q" if "q/" in names else ".", "own_q"):
        (tmp_path / folder / module).parent.mkdir(exist_ok=True, parents=True)
        (tmp_path / folder / module).write_text(f"name = '{of}'\n")
        code = f"from {module[:-3].replace('/', '.')} import name\ndef f(frame): return len(name)\n"
        (tmp_path / folder / f"{of}.py").write_text(code)
    assert _own_commands.run(["run", names, "a.npy", "-f", "-o", "{reduction}.npy"]) == 2
    said = capfd.readouterr().err
    assert f"both have a module '{module.partition('/')[0].removesuffix('.py')}'" in said


def test_a_module_of_the_current_folder_that_comes_first(run, tmp_path, capfd):
    """As `python -m framefold` has it, which finds modules here."""
    (tmp_path / "p").mkdir()
    for folder in (tmp_path, tmp_path / "p"):
        (folder / "own_setting.py").touch()
    (tmp_path / "p/uses.py").write_text("from own_setting import factor\n")
    sys.path.insert(0, str(tmp_path))
    assert run("p/uses.py:f a.npy -f -o out.npy") == 2
    assert "both have a module 'own_setting'" in capfd.readouterr().err


def test_two_files_of_the_same_name(run, tmp_path):
    """As two versions of a function, with modules of other names beside them."""
    for folder, factor in {"p": 2, "q": 3}.items():
        (tmp_path / folder).mkdir()
        (tmp_path / folder / f"own_of_{folder}.py").write_text(f"factor = {factor}\n")
        code = f"def {folder}(frame): return factor * frame.sum()\n"
        (tmp_path / folder / "own_same.py").write_text(
            f"from own_of_{folder} import factor\n{code}"
        )
    names = "p/own_same.py:p,q/own_same.py:q"
    assert _own_commands.run(["run", names, "a.npy", "-f", "-o", "{reduction}.npy"]) == 0
    for folder, factor in {"p": 2, "q": 3}.items():
        np.testing.assert_array_equal(np.load(f"{folder}.npy"), factor * DATA.sum(axis=(2, 3)))


def test_what_names_a_function_is_distinguished_from_files_and_values():
    for line in (
        "run mine:F a.mib",
        "run -q mine.deep:f a.mib",
        "run dir/mine.py:F a.mib",
        "run sum,mine:F a.mib",
        "run --roi 1:3,2 'ring 18,50,mine:F -p x=3' a.mib",
        "run 'com --cy 3,dir/mine.py:F,max' a.mib",
    ):
        assert _own_commands.wants(shlex.split(line)), line
    for line in (
        "run sum a.mib",
        "run sum a.mib --roi 1:3,2",
        "run sum a.h5 --ds-path entry:data",
        "run sumsig a.h5 --ds-path entry:data",
        "run sum a.mib --roi 1:3",
        "info mine:F",
        "run sum c:/data/a.mib",
        "run sum,com a.h5 --ds-path entry:data",
        "run 'ring 18,50' a.h5 --ds-path entry:data",
        "run",
        "",
    ):
        assert not _own_commands.wants(shlex.split(line)), line


@pytest.mark.parametrize("text", ["true", "FALSE", "True", "False"])
def test_true_and_false_are_no_texts(run, text):
    assert run(f"framefold:CoMUDF a.npy -f -o out.npz -p cy=2 -p flip_y={text}") == 0
    dataset = ff.Context.make_with("inline").load("memory", data=DATA)
    flip_y = text.lower() == "true"
    expected = ff.Context.make_with("inline").run_udf(dataset, ff.CoMUDF(cy=2, flip_y=flip_y))
    np.testing.assert_array_equal(np.load("out.npz")["field_y"], expected["field_y"].data)


def test_classes_objects_and_functions(run, capsys):
    assert run("mine:Brightest a.npy -o out.npz -p least=40 -q") == 0
    out = np.load("out.npz")
    assert sorted(out.files) == ["about", "position", "value"]
    assert np.array_equal(out["value"], np.maximum(MAXIMUM, 40))
    assert run("mine:brightest a.npy b.npy -o {stem}-out.npy --buffer value") == 0
    assert np.array_equal(np.load("b-out.npy"), MAXIMUM[::-1])
    assert run("mine.py:total a.npy --threads 2") == 0
    printed = capsys.readouterr().out.splitlines()
    sums = DATA.sum(axis=(2, 3))
    assert printed[0].startswith("a-out.npy: value (4, 6) float32, from ")
    low, high = float(sums.min()), float(sums.max())
    assert printed[-1] == f"a.npy: result (4, 6) float32, from {low} to {high}"


def test_regions_are_those_of_the_command_line(run):
    for roi, index in [("::2", np.s_[::2]), ("-3:-1,-1", np.s_[1:3, -1]), ("2,3", (2, 3))]:
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


def test_axes_are_said_as_for_reductions(run):
    h5py = pytest.importorskip("h5py")
    line = "mine:total a.npy -o out.h5 --scan-step 0.5nm,2nm --names v,u,ky,kx"
    assert run(line) == 0
    with h5py.File("out.h5") as file:
        group = file["result"]
        assert list(group.attrs["axes"]) == ["v", "u"]
        assert (group["v"].attrs["units"], group["u"].attrs["units"]) == ("nm", "nm")
        np.testing.assert_allclose(group["v"], 0.5 * np.arange(4))
        np.testing.assert_allclose(group["u"], 2 * np.arange(6))
    ctx = ff.Context.make_with("inline")
    frames = "mine:Frame a.npy -f -o out.h5 --pixel-size 2mrad --centre -1,2 --rotation 30"
    assert run(frames) == 0
    expected = ctx.load("npy", "a.npy", pixel_size="2mrad", centre=(-1, 2), rotation=30).axes[2:]
    with h5py.File("out.h5") as file:
        for axis in expected:
            np.testing.assert_allclose(file["pixels"][axis.name], axis.values)
            assert file["pixels"][axis.name].attrs["units"] == "mrad"
    assert run("mine:total a.npy --scan-step 3") == 2


def test_functions_and_reductions_in_one_pass(run, capsys, tmp_path, monkeypatch):
    counted = []
    original = ff.Context.run_udf

    def counting(self, *args, **kwargs):
        counted.append(kwargs["udf"])
        return original(self, *args, **kwargs)

    monkeypatch.setattr(ff.Context, "run_udf", counting)
    own = "mine:Brightest -p least=40 -b value"
    reductions = "ring 0,2,masks --disk 1.5,2,1,ring -0.25,2,1,2,com --cy -0.25 --radius inf,stddev"
    what = f"sum,{own},mine.py:total,{reductions}"
    # What a list with a function in it gives is what the engine's command line gives.
    assert run(f"'{what}' a.npy -o 'out/{{reduction}}.npy' --roi 1:") == 0
    assert len(counted) == 1
    of_engine = ["com", "masks", "ring", "ring-2", "stddev", "sum"]
    names = sorted(["Brightest", "total", *of_engine])
    assert sorted(path.stem for path in (tmp_path / "out").iterdir()) == names
    (tmp_path / "engine").mkdir()
    monkeypatch.undo()
    monkeypatch.chdir(tmp_path)
    engine = f"sum,{reductions}"
    done = subprocess.run(
        [
            *(sys.executable, "-m", "framefold", "run", engine, "a.npy", "--roi", "1:"),
            *("-o", "engine/{reduction}.npy", "-q"),
        ],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, "")
    for name in of_engine:
        found, expected = np.load(f"out/{name}.npy"), np.load(f"engine/{name}.npy")
        np.testing.assert_array_equal(found, expected)
        assert found.dtype == expected.dtype
    np.testing.assert_array_equal(np.load("out/Brightest.npy")[1:], np.maximum(MAXIMUM, 40)[1:])
    np.testing.assert_array_equal(np.load("out/total.npy")[1:], DATA.sum(axis=(2, 3))[1:])
    printed = capsys.readouterr().out.splitlines()
    assert [line.split(":")[0] for line in printed][:2] == ["out/sum.npy", "out/Brightest.npy"]


@pytest.mark.parametrize(
    ("line", "code", "message"),
    [
        (
            "mine:nope a.npy",
            2,
            "has no 'nope'; it has os, signal, np, ff, Brightest, brightest, Large, Frame, Wave, ",
        ),
        ("nowhere:f a.npy", 2, "no module 'nowhere'"),
        ("nowhere.py:f a.npy", 2, "no file 'nowhere.py'"),
        ("mine:np a.npy", 2, "it is a module"),
        ("mine:total missing.npy", 5, "'missing.npy': could not open the file"),
        ("mine:total a.npy --roi 9,:", 2, "axis 0 of the scan goes from 0 to 4"),
        ("mine:total a.npy -r 3", 2, "write '3,:' for all positions of that row; the radius of"),
        ("mine:total a.npy --roi 0:99", 2, "axis 0 of the scan goes from 0 to 4"),
        ("mine:total a.npy --roi 1:2:3:4", 2, "neither an index nor a slice"),
        ("mine:total a.npy --roi a.npy", 2, "the ROI has dtype uint16, not bool"),
        ("mine:total a.npy --roi a:b", 2, "write slices such as"),
        ("mine:total a.npy -p x=1", 2, "this is a function; bind"),
        ("mine:Brightest a.npy -p x=1", 2, "unexpected keyword argument 'x'"),
        ("mine:Brightest a.npy -p x", 2, "'x' is not NAME=VALUE"),
        ("mine:Brightest a.npy -p least=1 -p least=2", 2, "parameter 'least' is given twice"),
        ("mine:Brightest a.npy -p 'least={[1]: 2}'", 2, "has no value: unhashable type: 'list'"),
        ("mine:Brightest a.npy --buffer x", 2, "no result buffer 'x'; there are position, value"),
        ("mine:total a.npy -o out.png", 2, "does not end in anything that results are saved as"),
        ("mine:total a.npy b.npy -o out.npy", 2, "put {stem}"),
        ("mine:total a.npy -o a.npy", 2, "the output exists"),
        ("mine:total a.npy ./a.npy -o '{stem}.npz'", 2, "files of the same name one by one"),
        ("mine:total a.npy -o new/out.npy", 2, "'new': the output's directory does not exist"),
        ("mine:total a.npy -o 'a/{reduction}/out.npy'", 2, "directory does not exist"),
        ("sum,mine:total,comm a.npy", 2, "there is no reduction 'comm', as in 'sum,own_"),
        ("sum,mine:total,comm a.npy", 2, "similar: 'com'"),
        ("mine:total,smu a.npy", 2, "similar: 'sum'"),
        ("sum,,mine:total a.npy", 2, "an item of the list 'sum,,own_"),
        ("sum,mine:nope a.npy", 2, "has no 'nope'"),
        ("'ring,mine:total' a.npy", 2, "in 'ring': argument --ring: expected one argument"),
        ("'ring a,mine:total' a.npy", 2, "in 'ring a': argument --ring: 'a' is not a finite"),
        ("'masks --masks mine.py,mine:total' a.npy", 3, "cannot be read: the magic string"),
        ("'ring -a,mine:total' a.npy", 2, "argument --ring: '-a' is not a finite number"),
        ("'com --cyy 3,mine:total' a.npy", 2, "in 'com --cyy 3': unrecognized arguments: --cyy 3"),
        ("sum,mine:Brightest a.npy -p least=3", 2, "-p is for one function, and here are 2"),
        ("sum,mine:Brightest a.npy -b value", 2, "--buffer is for one function, and here are 2"),
        ("sum,mine:total a.npy -o out.npz", 2, "2 reductions would be written to one output"),
        ("sum,mine:total a.npy -o -", 2, "2 reductions would be written to one output, '-'"),
        ("sum,mine:total a.npy -o '{reduction}.png'", 2, "does not end in anything that results"),
        ("mine:broken a.npy -o out.npy", 6, "has no attribute 'nonsense'"),
        ("mine:ends a.npy -o out.npy", 6, "SystemExit: 3"),
    ],
)
def test_errors_are_those_of_the_command_line(run, capsys, tmp_path, line, code, message):
    before = sorted(tmp_path.iterdir())
    assert run(line) == code
    printed = capsys.readouterr().err
    assert message in printed
    assert code == 6 or printed.count("\n") == 1
    assert [path for path in sorted(tmp_path.iterdir()) if path.suffix == ".npy"] == [
        path for path in before if path.suffix == ".npy"
    ]
    if code == 6:
        assert printed.count("  File ") == 1


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--nope", "unrecognized arguments: --nope"),
        ("--centre 1;2", "argument --centre: '1;2' is not a finite number"),
        ("--nav-shape 4;6", "argument --nav-shape: '4;6' is not a shape; write one like 128,128"),
        ("-j few", "argument -j/--threads: 'few' is not a whole number"),
    ],
)
def test_options_that_are_refused(run, capsys, options, message):
    with pytest.raises(SystemExit) as ended:
        run(f"mine:total a.npy {options}")
    assert ended.value.code == 2
    assert f"{message}; see" in capsys.readouterr().err


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


LIBERTEM = """
import numpy as np
from libertem.udf import UDF
from libertem.udf.sum import SumUDF


class Total(UDF):
    def get_result_buffers(self):
        return {"total": self.buffer(kind="nav", dtype="float32")}

    def process_frame(self, frame):
        self.results.total[:] = np.sum(frame)
"""


@pytest.mark.parametrize("installed", [False, True])
def test_functions_written_for_libertem(run, tmp_path, installed):
    """They run as they are, and their base class is framefold's, if LiberTEM is installed, too."""
    (tmp_path / "theirs.py").write_text(LIBERTEM)
    if installed:
        (tmp_path / "libertem").mkdir()
        (tmp_path / "libertem/__init__.py").write_text("raise RuntimeError('it is LiberTEM')")

    def command(*words):
        done = subprocess.run(
            [sys.executable, "-m", "framefold", *words],
            capture_output=True,
            text=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    command("run", "theirs.py:Total,theirs.py:SumUDF", "a.npy", "-o", "{reduction}.npy")
    np.testing.assert_array_equal(np.load("Total.npy"), DATA.sum(axis=(2, 3)))
    np.testing.assert_array_equal(np.load("SumUDF.npy"), DATA.sum(axis=(0, 1)))
    assert command("check", "theirs:Total", "a.npy").startswith("Total: nothing wrong")


def test_libertem_that_was_imported_at_start(run, tmp_path):
    """What does not need it runs."""
    (name,) = (path.stem for path in tmp_path.glob("own_*.py"))
    (tmp_path / "libertem").mkdir()
    (tmp_path / "libertem/__init__.py").touch()
    (tmp_path / "sitecustomize.py").write_text("import libertem")
    command = ["run", f"{name}:total", "a.npy", "-o", "out.npy"]
    subprocess.run(
        [sys.executable, "-m", "framefold", *command],
        timeout=60,
        check=True,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([str(tmp_path), *sys.path])},
    )
    assert np.load("out.npy").shape == DATA.shape[:2]


def test_streams_that_are_closed(run, tmp_path):
    (name,) = (path.stem for path in tmp_path.glob("own_*.py"))
    command = ["run", f"{name}:total", "a.npy", "-o", "out.npy"]
    closes = ["sh", "-c", 'exec "$@" 2>&-', "sh", sys.executable, "-m", "framefold"]
    for code in (0, 2):  # then there is such a file
        done = subprocess.run([*closes, *command], stdout=subprocess.PIPE, timeout=60, check=False)
        assert done.returncode == code
        assert done.stdout.startswith(b"out.npy: result") == (code == 0), done.stdout
    assert np.array_equal(np.load("out.npy"), DATA.sum(axis=(2, 3)))


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="needs a device that is full")
def test_standard_output_that_cannot_be_written(run, tmp_path):
    (name,) = (path.stem for path in tmp_path.glob("own_*.py"))
    for command in ("run", "check"):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [sys.executable, "-m", "framefold", command, f"{name}:total", "a.npy"],
                stdout=full,
                stderr=subprocess.PIPE,
                text=True,
                timeout=60,
                check=False,
            )
        assert done.returncode == 5
        assert done.stderr.startswith("framefold: could not write to standard output: ")
        assert done.stderr.count("\n") == 1


@pytest.mark.skipif(sys.platform == "win32", reason="sends a signal")
def test_ctrl_c_while_modules_are_imported():
    """It ends the command without a word: a traceback of NumPy's import says nothing to anyone."""
    script = (
        "import builtins, os, signal, sys\n"
        "from framefold import cli\n"
        "original = builtins.__import__\n"
        "def imported(name, *arguments):\n"
        "    if name == 'numpy':\n"
        "        os.kill(os.getpid(), signal.SIGINT)\n"
        "    return original(name, *arguments)\n"
        "builtins.__import__ = imported\n"
        "sys.argv[1:] = ['run', 'mine:brightest', 'scan.npy']\n"
        "cli.main()\n"
    )
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, timeout=60, check=False
    )
    assert (done.returncode, done.stdout, done.stderr) == (-signal.SIGINT, b"", b"")


@pytest.mark.skipif(sys.platform != "linux", reason="names of files are UTF-8 there")
def test_names_that_are_not_utf_8(run, tmp_path):
    (name,) = (path.stem for path in tmp_path.glob("own_*.py"))
    (tmp_path / "a.npy").rename(tmp_path / os.fsdecode(b"\xff\xfe.npy"))
    for words in (["info"], ["run", "sum"], ["run", f"{name}:total"]):
        done = subprocess.run(
            [sys.executable, "-m", "framefold", *words, b"\xff\xfe.npy"],
            env={**os.environ, "PYTHONIOENCODING": "utf-8:strict"},
            capture_output=True,
            timeout=60,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert "\ufffd\ufffd.npy".encode() in done.stdout


def test_frames_are_turned_first(run):
    for options, turned in [("--flip y", DATA[:, :, ::-1]), ("--transpose", DATA.swapaxes(2, 3))]:
        assert run(f"mine:First a.npy -o out.npy -f -q {options}") == 0
        assert np.array_equal(np.load("out.npy"), turned[..., 0, -1])


def test_frames_are_corrected_before_stages(run, capsys):
    dark, gain = np.full((3, 5), 0.5), np.arange(15.0).reshape(3, 5)
    np.save("dark.npy", dark)
    np.save("gain.npy", gain)
    given = "--dark dark.npy --gain gain.npy"
    assert run(f"mine:First a.npy -o out.npy -f -q {given} --crop 2:3,0:1") == 0
    assert np.allclose(np.load("out.npy"), (DATA[..., 2, 0] - 0.5) * gain[2, 0])
    assert run("mine:First a.npy -o out.npy -f -q --bad-pixels 0,4") == 0
    around = DATA[..., [0, 1, 1], [3, 3, 4]].mean(axis=-1)
    assert np.allclose(np.load("out.npy"), around)
    np.save("gain.npy", gain.T)
    assert run("mine:First a.npy -f -q --gain gain.npy") == 2
    printed = capsys.readouterr().err
    assert "gain.npy" in printed
    assert "[5, 3]" in printed
    assert run("mine:First a.npy -f -q --dark dark.npy --corrections") == 2
    assert "--corrections" in capsys.readouterr().err
    with pytest.warns(ff.warnings.DataSetWarning, match="left as they are"):
        assert run("mine:First a.npy -f -q --bad-pixels :,:") == 0


def test_check(run, tmp_path, monkeypatch, capsys):
    name = next(tmp_path.glob("own_*.py")).stem
    command = f"check {name}:Brightest a.npy -p least=40 --frames 12"
    assert _own_commands.wants(command.split(" "))
    assert _own_commands.run(command.split(" ")) == 0
    printed = capsys.readouterr().out
    assert printed.startswith("Brightest: nothing wrong, in ")
    assert "over 12 frames of (3, 5), uint16" in printed
    assert _own_commands.run(["check", f"{name}:Replaces", "a.npy"]) == 6
    printed = capsys.readouterr().out
    assert printed.startswith("Replaces: 1 wrong, in ")
    assert "wrong (frames): 'total' (kind 'single')" in printed
    assert _own_commands.run(["check", f"{name}:broken", "a.npy"]) == 6
    assert "nonsense" in capsys.readouterr().err
    for no_function in ("sum", "a.npy", ":total", ".mine:total"):
        assert _own_commands.run(["check", no_function, "a.npy"]) == 2
        assert f"'{no_function}' names no function; write MODULE" in capsys.readouterr().err
    with pytest.raises(SystemExit):
        _own_commands.run(["check"])
    assert "framefold check MODULE:NAME --help" in capsys.readouterr().err


def test_the_help_names_them(command):
    assert "'framefold check --help'" in command("help")
    assert "framefold run MODULE:NAME --help" in command("run", "--help")
    assert "usage: framefold check" in command("help", "check")


def test_tips_name_the_command():
    """And not the file that ``python -m framefold`` runs."""
    for words, tip in (["rnu"], "framefold --help"), (["run", "x", "y"], "framefold run --help"):
        command = [sys.executable, "-m", "framefold", *words]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        assert done.returncode == 2
        assert f"see '{tip}'" in done.stderr
