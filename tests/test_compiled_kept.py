"""What was compiled is kept, and loaded by other processes."""

import os
import subprocess
import sys

import numpy as np
import pytest
from forked_scripts import forked_scripts

import framefold as ff
from framefold.compilation import store

pytest.importorskip("numba")


SCRIPT = """
import os, sys, warnings
os.environ["FRAMEFOLD_CACHE_DIR"] = {cache!r}
class Blocked:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] in ("numba", "llvmlite") and {blocked}:
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, Blocked())
import numpy as np
import framefold as ff
@ff.compiled
def factorial(n):
    return 1 if n < 2 else n * factorial(n - 1)
LARGE, GAPS = np.ones(2**17), np.ones(8)[::2]
class N(ff.UDF):
    def get_result_buffers(self):
        return {{"n": self.buffer("nav", dtype="int64")}}
    @ff.compiled
    def process_frame(self, frame):
        for value in frame.flat:
            if value > self.params.threshold:
                self.results.n[0] += {step}
ctx = ff.Context.make_with({executor!r})
data = np.arange(4 * 5 * 6).reshape(4, 5, 6).astype("u2")
ds = ctx.load("memory", data=data)
with warnings.catch_warnings(record=True) as said:
    warnings.simplefilter("always")
    found = ctx.run_udf(dataset=ds, udf=N(threshold=17))
assert (found["n"].data == {step} * (data > 17).sum((1, 2))).all()
print([str(w.message) for w in said])
print(ctx.explain(dataset=ds, udf=N(threshold=1)))
if "numba_ready" in sys.modules:  # in a fork
    print("COMPILED", bool(sys.modules["numba_ready"].events))
else:
    print("NUMBA", "numba" in sys.modules)
"""


def script(tmp_path, blocked=False, step=1, executor="inline"):
    """Writes it to a file; what it compiles is kept beside it."""
    path, cache = tmp_path / "script.py", str(tmp_path / "cache")
    path.write_text(SCRIPT.format(blocked=blocked, step=step, executor=executor, cache=cache))
    return path


def run_alone(tmp_path, **options):
    package = os.path.dirname(os.path.dirname(ff.__file__))
    path, env = script(tmp_path, **options), {**os.environ, "PYTHONPATH": package}
    done = subprocess.run(
        [sys.executable, str(path)], capture_output=True, text=True, env=env, check=False
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="module")
def run_fork():
    """Runs the script in forks of a process that has imported Numba: each compiles by itself."""
    package, tests = os.path.dirname(os.path.dirname(ff.__file__)), os.path.dirname(__file__)
    with forked_scripts(PYTHONPATH=f"{package}{os.pathsep}{tests}") as run:

        def run_fork(tmp_path, **options):
            modules = ["numba_ready", "framefold", "framefold.compilation._compiler"]
            return run(script(tmp_path, **options), folder=tmp_path, modules=modules)

        yield run_fork


def test_without_numba(tmp_path):
    said = run_alone(tmp_path, blocked=True)
    assert "not compiled: Numba is not installed; pip install framefold[numba]" in said
    assert said.count("not compiled: Numba is not installed") == 2


def test_a_second_process_loads_what_the_first_compiled(tmp_path, run_fork):
    assert "COMPILED True" in run_fork(tmp_path)
    assert "NUMBA False" in run_alone(tmp_path)
    # Edited between runs.
    assert "COMPILED True" in run_fork(tmp_path, step=2)
    folder = tmp_path / "cache" / "compiled"
    assert folder.stat().st_mode & 0o777 == 0o700
    for file in folder.iterdir():  # cut short, as by a full disk
        file.write_bytes(file.read_bytes()[:-10])
    assert "COMPILED True" in run_fork(tmp_path)
    folder.chmod(0o777)  # anybody could have written there
    assert "COMPILED True" in run_fork(tmp_path)


def test_worker_processes_load_what_the_main_process_compiled(tmp_path):
    assert "NUMBA True" in run_alone(tmp_path, executor="processes")
    assert len(list((tmp_path / "cache" / "compiled").iterdir())) == 1


def test_what_allocates_is_loaded_by_another_process(tmp_path, run_fork):
    assert "COMPILED True" in run_fork(tmp_path, step="np.ones(2, np.int64).sum()")
    # By Numba, which it needs.
    assert "NUMBA True" in run_alone(tmp_path, step="np.ones(2, np.int64).sum()")
    assert len(list((tmp_path / "cache" / "compiled").iterdir())) == 1


def test_what_is_kept_with_scipy_is_not_for_an_environment_without(monkeypatch):
    pytest.importorskip("scipy")
    about, find = store.about_numba(), store.find_spec
    monkeypatch.setattr(store, "_origins", {})
    monkeypatch.setattr(store, "find_spec", lambda name: None if name == "scipy" else find(name))
    assert store.about_numba() != about


# Numba fills in addresses of functions that call themselves, and not in what another process has
# kept; those of arrays that are large or not contiguous are in its code.
@pytest.mark.parametrize("step", ["factorial(3)", "int(LARGE[3] * GAPS[2])"])
def test_what_has_addresses_of_one_process_is_compiled_anew(tmp_path, run_fork, step):
    for _ in range(2):
        assert "COMPILED True" in run_fork(tmp_path, step=step)
    assert not list((tmp_path / "cache" / "compiled").iterdir())


def test_large_arrays_of_the_module_are_read_by_each_run():
    class Looks(ff.UDF):
        def get_result_buffers(self):
            return {"x": self.buffer("nav", dtype="float64")}

        @ff.compiled
        def process_frame(self, frame):
            self.results.x[0] = LARGE[0]

    def found():
        return ctx.run_udf(dataset=ctx.load("memory", data=np.ones((1, 2, 2))), udf=Looks())[
            "x"
        ].data[0]

    global LARGE
    ctx = ff.Context.make_with("inline")
    LARGE = first = np.ones(2**17)
    assert found() == 1
    first[:] = 5
    LARGE = np.ones(2**17)  # as the first one was
    assert found() == 1


@ff.compiled(cache=False)
def not_kept(frame):
    return frame.sum()


def calls_it(frame):
    return not_kept(frame)


def test_what_is_not_to_be_kept_is_not_kept(tmp_path, monkeypatch):
    monkeypatch.setenv("FRAMEFOLD_CACHE_DIR", str(tmp_path))
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("memory", data=np.ones((1, 1, 2, 2)), sig_dims=2)
    for function in not_kept, ff.compiled(calls_it):
        assert ctx.map(dataset, function).data == 4
    assert not list(tmp_path.glob("compiled/*"))
