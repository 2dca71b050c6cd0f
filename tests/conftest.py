"""Fixtures that many tests share."""

from __future__ import annotations

import gc
import os
import signal
import tempfile
from collections.abc import Generator, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import fake_cupy
import numpy as np
import pytest
import uncompiled  # noqa: F401 - before anything imports what it keeps from being compiled
from command_line import command as command
from hypothesis import HealthCheck, settings
from long_runs import IS_LONG
from own_environment import own_environment
from shared_contexts import close_shared

import framefold as ff

pytest.register_assert_rewrite(
    "canvas_pixels",
    "contract_async",
    "contract_failures",
    "contract_results",
    "contract_scripts",
    "cuda_devices",
    "cuda_udfs",
)


# How long an example takes, or making one, says how busy a machine is, and no more. Examples are
# other ones each time in long runs alone: elsewhere, what fails has changed.
_PATIENT = settings(
    deadline=None, derandomize=not IS_LONG, suppress_health_check=[HealthCheck.too_slow]
)
settings.register_profile("patient", _PATIENT)
settings.load_profile("patient")


@pytest.fixture(autouse=True, scope="module")
def environment_of_module() -> Iterator[None]:
    """What a module sets in the environment ends with it.

    What is there before a module, such as libraries that others imported, is not looked through
    again each time that one of its tests collects garbage: that took half of the time of all tests.
    """
    gc.collect()
    gc.freeze()
    with own_environment():
        yield
    close_shared("dask")  # its processes are never quite idle
    # The command handles signals from then on: the next SIGINT ends the process without a word.
    assert "signals" not in thread_names(), "run the command in another process: command_line.py"


@pytest.hookimpl(wrapper=True)
def pytest_runtest_protocol() -> Generator[None, Any, Any]:
    """After a test that collected garbage, what is left is not looked through by the next ones.

    These are what packages brought that were imported since the module began, and results of tests.
    """
    before = gc.get_stats()[-1]["collections"]
    result = yield
    if gc.get_stats()[-1]["collections"] > before:
        gc.collect()
        gc.freeze()
    return result


@pytest.fixture(autouse=True, scope="session")
def contexts_that_tests_share() -> Iterator[None]:
    """None of their workers is left in the end."""
    yield
    close_shared("processes")


def thread_names() -> set[str]:
    """The names of this process's threads, those of the engine included, where the system says."""
    names = set()
    for path in Path("/proc/self/task").glob("*/comm"):
        with suppress(OSError):  # it has just ended
            names.add(path.read_text().strip())
    return names


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, Any, Any]:
    """Nothing of what is made for ten thousand tests is garbage, and it is not looked through."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_configure(config: pytest.Config) -> None:
    # Compiled functions are kept for all processes of this run, and not among the user's own.
    # Workers of xdist have the environment of the process that starts them.
    if not hasattr(config, "workerinput"):
        cache = tempfile.TemporaryDirectory(prefix="framefold-tests-")
        os.environ["FRAMEFOLD_CACHE_DIR"] = cache.name
        os.environ["NUMBA_CACHE_DIR"] = os.path.join(cache.name, "numba")
        config.add_cleanup(cache.cleanup)
    # Where interrupts are ignored, as in jobs of a shell, tests could not send them to themselves.
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def one_browser() -> Iterator[None]:
    """One browser for all tests of a process; skips them where there is none."""
    from browser_cases import chromium, close_browser

    chromium()
    yield
    close_browser()


@pytest.fixture(params=["inline", "threads"])
def ctx(request: pytest.FixtureRequest) -> Iterator[ff.Context]:
    """A context on each executor."""
    with ff.Context.make_with(request.param, cpus=2) as context:
        yield context


def install_stand_in(kind: str, monkeypatch: pytest.MonkeyPatch) -> Any:
    """One CUDA device with the stand-in for CuPy, whose transfers come late, or early."""
    for name in (
        "FRAMEFOLD_USE_CUDA",
        "FRAMEFOLD_USE_CPU",
        "LIBERTEM_USE_CUDA",
        "LIBERTEM_USE_CPU",
    ):
        monkeypatch.delenv(name, raising=False)
    return fake_cupy.install(monkeypatch, early=kind == "early")


@pytest.fixture(params=["late", "early"])
def machine(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The stand-in's machine, where a test is about how it is driven."""
    return install_stand_in(request.param, monkeypatch)


@pytest.fixture(params=["late", "early", "real"])
def device(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """A CUDA device with CuPy: the stand-in, and a real one where there is one."""
    from cuda_devices import Real, StandIn

    if request.param == "real":
        return Real()
    return StandIn(install_stand_in(request.param, monkeypatch))


@pytest.fixture
def data() -> np.ndarray[Any, np.dtype[Any]]:
    """Frames of 10 x 12 pixels on a scan of 6 x 7, no two of them alike."""
    rng = np.random.default_rng(17)
    return rng.integers(0, 4000, size=(6, 7, 10, 12), dtype=np.uint16)


@pytest.fixture
def dataset(ctx: ff.Context, data: np.ndarray[Any, np.dtype[Any]]) -> Any:
    """The same as a data set of several partitions."""
    return ctx.load("memory", data=data, sig_dims=2, num_partitions=5)
