"""A format that a Python class reads, a function for it, and a reader that fails.

In a module of their own, which commands, scripts and packages of the tests import as well: modules
of tests import pytest, which takes longer than all that a command does.
"""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np

import framefold as ff

SHAPE = (6, 7, 9, 11)
MAGIC = b"FEDFRAME"


class FedSource:
    def __init__(self, path, skip):
        self.path = path
        self.sig = SHAPE[2:]
        n_frames = (path.stat().st_size - len(MAGIC)) // (2 * 9 * 11) - skip
        self.shape = SHAPE[:2] if n_frames == 42 else (n_frames,)
        self.dtype = ">u2"
        self.skip = skip
        self.details = {"skipped": skip}

    def read(self, frames, out):
        assert out.shape == (len(frames), *self.sig)
        assert isinstance(frames, range | np.ndarray)
        data = np.memmap(self.path, ">u2", "r", offset=len(MAGIC)).reshape(-1, *self.sig)
        for i, frame in enumerate(frames):
            out[i] = data[frame + self.skip]


class Fed:
    name = "fed"
    title = "fed frames"
    extensions = ("fed",)
    option_help: ClassVar = {"skip_frames": "How many frames to leave out"}

    @staticmethod
    def detect(path: Path, head: bytes) -> str | None:
        return "it starts with FEDFRAME" if head.startswith(MAGIC) else None

    @staticmethod
    def open(path: Path, skip_frames: int = 0) -> FedSource:
        return FedSource(path, skip_frames)


class Broken(Exception):
    pass


class BrokenSource(FedSource):
    def read(self, frames, out):
        raise Broken("no frame today")


class Own(ff.UDF):
    def get_result_buffers(self):
        return {
            "std": self.buffer(kind="nav", dtype=np.float64),
            "total": self.buffer(kind="sig", dtype=np.float32),
        }

    def process_frame(self, frame):
        self.results.std[:] = np.std(frame)
        self.results.total[:] += frame / 3

    def merge(self, dest, src):
        dest.std[:] = src.std
        dest.total[:] += src.total
