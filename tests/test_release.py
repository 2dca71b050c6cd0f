"""What a release is made of says the same everywhere: versions, requirements, flags, extras.

Workflows and the conda recipe run elsewhere; here they are held against what they are made from.
"""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest

import framefold as ff

ROOT = Path(__file__).resolve().parent.parent
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def read(path: str) -> str:
    return (ROOT / path).read_text(encoding="utf-8")


def parsed(path: str | Path) -> Any:
    yaml = pytest.importorskip("yaml", reason="PyYAML is not installed")
    return yaml.safe_load((ROOT / path).read_text(encoding="utf-8"))


def name_of(requirement: str) -> str:
    return re.match(r"[\w.-]+", requirement)[0]  # type: ignore[index]


PROJECT = tomllib.loads(read("pyproject.toml"))["project"]
EXTRAS = PROJECT["optional-dependencies"]
VERSION = tomllib.loads(read("Cargo.toml"))["workspace"]["package"]["version"]


def test_the_version_is_that_of_cargo_everywhere() -> None:
    assert ff.__version__ == VERSION
    assert re.search(r"^## (\S+)", read("CHANGELOG.md"), re.MULTILINE)[1] == VERSION  # type: ignore[index]
    assert parsed("recipe/recipe.yaml")["context"]["version"] == VERSION
    if (ROOT / "CITATION.cff").exists():
        assert parsed("CITATION.cff")["version"] == VERSION
    manifests = {*(ROOT / "crates").glob("*/Cargo.toml"), ROOT / "xtask" / "Cargo.toml"}
    manifests.remove(ROOT / "crates" / "abi" / "Cargo.toml")  # which has versions of its own
    assert manifests
    for manifest in manifests:
        package = tomllib.loads(manifest.read_text(encoding="utf-8"))["package"]
        assert package["version"] == {"workspace": True}, manifest


def test_the_recipe_requires_what_the_package_does() -> None:
    recipe = parsed("recipe/recipe.yaml")
    run = {entry.replace(" ", "", 1) for entry in recipe["requirements"]["run"]}
    assert run == {"python", *PROJECT["dependencies"]}
    scripts = [f"{name} = {target}" for name, target in PROJECT["scripts"].items()]
    assert recipe["build"]["python"]["entry_points"] == scripts
    assert recipe["about"]["license"] == PROJECT["license"]
    assert recipe["about"]["summary"] == PROJECT["description"]


def test_wheels_are_built_with_the_flags_of_the_makefile() -> None:
    makefile = read("Makefile")
    (flags,) = re.findall(r"maturin build (.*--out dist)$", makefile, re.MULTILINE)
    workflow = parsed(".github/workflows/wheels.yml")
    assert workflow["env"]["WHEEL_FLAGS"] == flags.replace("$(LOCKED)", "--locked")
    names = [each["name"] for each in workflow["jobs"]["wheel"]["strategy"]["matrix"]["include"]]
    systems = {"manylinux", "musllinux", "macos", "windows"}
    assert {name.partition("-")[0] for name in names} == systems
    stable = {name for name in names if not name.endswith("-3.14t")}
    assert {name for name in stable if "linux" in name} == {
        f"{linux}-{cpu}" for linux in ("manylinux", "musllinux") for cpu in ("x86_64", "aarch64")
    }


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.name)
def test_workflows_call_what_there_is_and_ask_for_no_more_than_they_need(path: Path) -> None:
    targets = set(re.findall(r"^([\w-]+):", read("Makefile"), re.MULTILINE))
    workflow = parsed(path)
    assert workflow["permissions"] == {"contents": "read"}
    for name, job in workflow["jobs"].items():
        steps = job["steps"]
        commands = "\n".join(step.get("run", "") for step in steps)
        assert set(re.findall(r"^make ([\w-]+)", commands, re.MULTILINE)) <= targets
        for script in re.findall(r"\bbash (\S+)", commands):
            assert (ROOT / script).exists(), script
        for test in re.findall(r"\btest_\w+\.py", commands):
            assert (ROOT / "tests" / test).exists(), test
        # Who may write does it in a job of its own, which builds nothing.
        if job.get("permissions", {}).get("id-token") == "write":
            assert "needs" in job, name
            assert "environment" in job, name
    assert "secrets." not in path.read_text(encoding="utf-8")


def test_extras_that_are_named_are_there() -> None:
    folders = ("python/framefold", "docs", "crates")
    files = [path for name in folders for path in (ROOT / name).rglob("*")]
    files += [ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
    named = {
        extra.strip()
        for path in files
        if path.suffix in (".py", ".md", ".rs")
        for extras in re.findall(r"framefold\[([a-z, ]+)\]", path.read_text(encoding="utf-8"))
        for extra in extras.split(",")
    }
    assert {"dask", "plot", "sparse"} <= named <= set(EXTRAS)


def test_all_is_all_of_the_extras_and_the_tests_have_them() -> None:
    (everything,) = EXTRAS["all"]
    others = set(EXTRAS) - {"all"}
    assert set(everything.removeprefix("framefold[").removesuffix("]").split(",")) == others
    lines = read("requirements-dev.txt").splitlines()
    installed = {name_of(line) for line in lines if line and not line.startswith("#")}
    for extra in others:
        assert {name_of(each) for each in EXTRAS[extra]} <= installed, extra


def test_compiled_functions_have_what_multiplies_matrices() -> None:
    # Numba asks for SciPy where code has `a @ b` or `np.linalg`, and does not require it.
    assert {name_of(each) for each in EXTRAS["numba"]} == {"numba", "scipy"}


def test_libraries_that_messages_ask_for_are_in_extras() -> None:
    # `install it with: pip install NAME`; CuPy's package depends on the device.
    asked = set()
    for path in (ROOT / "python" / "framefold").rglob("*.py"):
        asked |= set(re.findall(r"\brequire\(\s*\"(\w+)[\w.]*\"", path.read_text("utf-8")))
    packages = {
        "skimage": "scikit-image",
        "sklearn": "scikit-learn",
        "IPython": "ipython",
        "PIL": "pillow",
    }
    offered = {name_of(each) for extra in EXTRAS.values() for each in extra}
    known = {packages.get(name, name) for name in asked} - {"cupy", "cupyx"}
    assert "sparse" in known
    assert known <= offered
