"""The example of a function in Rust: built, and run beside others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import framefold as ff

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.skipif(
    shutil.which("cargo") is None or sys.platform != "linux",
    reason="the example is built here where there is a compiler of Rust, on Linux",
)


@pytest.fixture(scope="module")
def udf_plugin(tmp_path_factory: pytest.TempPathFactory):
    """The example's module, built like any extension; its build is kept."""
    place = tmp_path_factory.mktemp("plugin")
    target = ROOT / "target" / "udf-plugin"
    source = ROOT / "examples" / "udf-plugin"
    crate = place / "crate"
    shutil.copytree(source, crate, ignore=shutil.ignore_patterns("target", "Cargo.lock"))
    manifest = (crate / "Cargo.toml").read_text()
    abi = (ROOT / "crates" / "abi").as_posix()
    (crate / "Cargo.toml").write_text(manifest.replace("../../crates/abi", abi))
    # The versions that the engine is built with.
    shutil.copy(ROOT / "Cargo.lock", crate / "Cargo.lock")
    build = ["cargo", "build", "--offline", "--quiet", "--manifest-path", str(crate / "Cargo.toml")]
    env = {**os.environ, "CARGO_TARGET_DIR": str(target), "PYO3_PYTHON": sys.executable}
    subprocess.run(build, check=True, env=env)
    modules = place / "modules"
    modules.mkdir()
    shutil.copy(target / "debug" / "libudf_plugin.so", modules / "udf_plugin.abi3.so")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(modules))
        patch.setenv("PYTHONPATH", f"{modules}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        import udf_plugin

        yield udf_plugin


class Brightest(ff.UDF):
    def get_result_buffers(self):
        return {"brightest": self.buffer("nav", dtype="float32")}

    def process_frame(self, frame):
        self.results.brightest[:] = frame.max()


DATA = np.random.default_rng(5).integers(0, 9, (4, 5, 6, 7)).astype(np.uint16)


@pytest.mark.parametrize("executor", ["inline", "threads", "processes"])
def test_runs_beside_others(udf_plugin, executor):
    with ff.Context.make_with(executor) as ctx:
        dataset = ctx.load("memory", data=DATA, sig_dims=2, num_partitions=3)
        udfs = [udf_plugin.Above(4.5), ff.SumUDF(), Brightest()]
        above, total, brightest = ctx.run_udf(dataset=dataset, udf=udfs)
        assert np.array_equal(above["counts"].data, (DATA > 4.5).sum((2, 3)))
        assert np.array_equal(above["image"].data, (DATA > 4.5).sum((0, 1)))
        assert np.array_equal(total["intensity"].data, DATA.sum((0, 1)))
        assert np.array_equal(brightest["brightest"].data, DATA.max((2, 3)))


def test_keeps_the_laws_of_functions(udf_plugin):
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("memory", data=DATA, sig_dims=2)
    assert ff.check_udf(udf_plugin.Above(4.5), dataset)


def test_failing_parameters_are_its_own_affair(udf_plugin):
    with pytest.raises(ValueError, match="not a number"):
        udf_plugin.Above(float("nan"))
