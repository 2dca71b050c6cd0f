"""A module with functions of one's own, data, and commands over them."""

from __future__ import annotations

import shlex
import sys

import numpy as np
import pytest

from framefold import _own_commands

MODULE = """
import os
import signal

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


class Frame(ff.UDF):
    def get_result_buffers(self):
        return {"pixels": self.buffer(kind="sig")}

    def process_frame(self, frame):
        self.results.pixels[:] += frame

    def merge(self, dest, src):
        dest.pixels[:] += src.pixels


class Wave(ff.UDF):
    def __init__(self, fails=False):
        super().__init__(fails=fails)

    def get_result_buffers(self):
        sig = tuple(self.meta.dataset_shape.sig)
        return {"wave": self.buffer("nav", sig, "int32"), "peak": self.buffer("nav")}

    def process_frame(self, frame):
        import pathlib

        at = int(self.meta.slice.origin[0])
        with open("seen", "a") as file:
            file.write(f"{at}\\n")
        if at == 20 and pathlib.Path("fail").exists():
            raise ZeroDivisionError("in the middle")
        self.results.wave[:] = frame
        self.results.peak[:] = frame.max()


class Replaces(ff.UDF):
    def get_result_buffers(self):
        return {"total": self.buffer(kind="single", dtype="float64")}

    def process_frame(self, frame):
        self.results.total[:] = frame.sum()

    def merge(self, dest, src):
        dest.total[:] = src.total


class Whole(ff.UDF):
    def get_result_buffers(self):
        return {"total": self.buffer(kind="nav")}

    def process_frame(self, frame):
        if np.isnan(frame).any():
            raise ValueError("not a number")
        self.results.total[:] = frame.sum()


class First(ff.UDF):
    def get_result_buffers(self):
        return {"corner": self.buffer(kind="nav")}

    def process_frame(self, frame):
        self.results.corner[:] = frame[0, -1]


def total(frame):
    return frame.sum()


def broken(frame):
    return frame.nonsense


def ends(frame):
    raise SystemExit(3)


def terminated(frame):
    os.kill(os.getpid(), signal.SIGTERM)


def hung_up(frame):
    os.kill(os.getpid(), signal.SIGHUP)
"""
DATA = np.random.default_rng(4).integers(0, 50, (4, 6, 3, 5), dtype=np.uint16)
MAXIMUM = DATA.max(axis=(2, 3))


@pytest.fixture(name="run")
def run_own(tmp_path, monkeypatch, request):
    """Runs a command in a folder with a module of a name of its own, and data."""
    name = f"own_{abs(hash(request.node.name))}"
    (tmp_path / f"{name}.py").write_text(MODULE)
    np.save(tmp_path / "a.npy", DATA)
    np.save(tmp_path / "b.npy", DATA[::-1].copy())
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "meta_path", list(sys.meta_path))  # libertem is framefold in commands
    yield lambda line: _own_commands.run(["run", *shlex.split(line.replace("mine", name))])
    sys.modules.pop(name, None)
