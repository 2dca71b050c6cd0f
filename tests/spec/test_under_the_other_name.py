"""The specification's code once more, unadapted: under ``install_as_libertem()``.

The same test modules, with the package's name in their imports put back to the original one,
run in a process of their own.
"""

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

HERE = Path(__file__).resolve().parent
MODULES = ["test_udf_basic.py", "test_udf_advanced.py", "test_udf_first_draft.py"]
#: Those whose tests choose the executor themselves.
ONCE = ["test_dask_integration.py"] if find_spec("dask") else []
#: Before that, what keeps PyData's sparse arrays from being compiled, as in tests/conftest.py.
INSTALL = f"""
import sys

sys.path.append({str(HERE.parent)!r})
import uncompiled
import framefold

framefold.install_as_libertem()

"""
IMPORT = re.compile(r"^(\s*)(from|import) framefold\b", re.MULTILINE)


def unadapted(name):
    return IMPORT.sub(r"\1\2 libertem", (HERE / name).read_text(encoding="utf-8"))


def test_the_code_runs_unadapted(tmp_path):
    n_expected = 0.0
    for name in [*MODULES, *ONCE]:
        text = unadapted(name)
        assert "framefold" not in re.sub(r'""".*?"""', "", text, flags=re.DOTALL)
        n_tests = len(re.findall(r"^def test_", text, re.MULTILINE))
        n_expected += n_tests if name in ONCE else 1.8 * n_tests  # two executors each, less skips
        (tmp_path / name).write_text(text, encoding="utf-8")
    conftest = INSTALL + unadapted("conftest.py").replace('"""', "#", 1).replace('"""', "", 1)
    (tmp_path / "conftest.py").write_text(conftest, encoding="utf-8")
    (tmp_path / "pytest.ini").write_text("[pytest]\nfilterwarnings = error\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", str(tmp_path)],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    passed = re.search(r"(\d+) passed", done.stdout)
    assert passed is not None, done.stdout
    assert int(passed[1]) >= n_expected, done.stdout
    if find_spec("libertem_blobfinder") is not None:
        assert "skipped" not in done.stdout, done.stdout
