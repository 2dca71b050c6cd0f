"""What runs leave in the home folder, the one for temporary files, and the current one."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import framefold as ff

SCRIPT = """
import framefold as ff, numpy as np

class Plain(ff.UDF):
    def get_result_buffers(self):
        return {"x": self.buffer("nav")}

    def process_frame(self, frame):
        self.results.x[:] = frame.sum()

class Marked(Plain):
    @ff.compiled
    def process_frame(self, frame):
        self.results.x[:] = frame.sum()

if __name__ == "__main__":
    for executor in EXECUTORS:
        options = {"cpus": 1} if executor in ("dask", "processes") else {}
        with ff.Context.make_with(executor, **options) as ctx:
            dataset = ctx.load("memory", data=np.ones((4, 5, 6, 6), np.float32), sig_dims=2)
            for udf in (ff.SumUDF(), Marked() if COMPILED else Plain()):
                for result in ctx.run_udf(dataset, udf).values():
                    assert result.data.any()
"""


@pytest.mark.skipif(sys.platform == "win32", reason="the folders have other names")
@pytest.mark.parametrize(
    ("executors", "compiled"),
    [(["inline", "threads", "processes"], False), (["threads"], True), (["dask"], False)],
)
def test_runs_write_what_the_guide_says(tmp_path, executors, compiled):
    if "dask" in executors:
        pytest.importorskip("distributed")
    if compiled:
        pytest.importorskip("numba")
    script = tmp_path / "script.py"
    script.write_text(f"EXECUTORS, COMPILED = {executors}, {compiled}\n{SCRIPT}")
    home, temporary, here = (tmp_path / name for name in ("home", "temporary", "here"))
    for folder in (home, temporary, here):
        folder.mkdir()
    env = {
        name: value
        for name, value in os.environ.items()
        if name not in ("FRAMEFOLD_CACHE_DIR", "XDG_CACHE_HOME")
    }
    env |= {"HOME": str(home), "TMPDIR": str(temporary), "PYTHONDONTWRITEBYTECODE": "1"}
    env["PYTHONPATH"] = str(Path(ff.__file__).parents[1])
    subprocess.run([sys.executable, str(script)], cwd=here, env=env, check=True)

    assert list(here.iterdir()) == []
    left = [path for path in temporary.rglob("*") if path.is_file()]
    assert all(path.parent.name == "dask-scratch-space" for path in left), left
    assert not left or "dask" in executors
    assert sum(path.stat().st_size for path in left) == 0
    cache = home / ".cache" / "framefold" / "compiled"
    kept = [path for path in home.rglob("*") if path.is_file()]
    assert {path.parent for path in kept} == ({cache} if compiled else set())
    assert all(path.stat().st_mode & 0o077 == 0 for path in kept)


def test_shared_memory_has_no_names():
    """Nothing can be left of it, then, and tests look for what is open alone."""
    here = Path(__file__).parents[1]
    sources = [*here.glob("python/framefold/**/*.py"), *here.glob("crates/*/src/**/*.rs")]
    assert len(sources) > 100
    for path in sources:
        text = path.read_text("utf-8")
        assert not re.search(r"shm_open|shared_memory|/dev/shm", text), path
