"""A function and a reporter that several tests run."""

import numpy as np

from framefold.common.progress import ProgressReporter
from framefold.udf import UDF


class Level(UDF):
    """The frame's sum plus a parameter, and the maximum over all frames."""

    def __init__(self, offset=0):
        super().__init__(offset=offset)

    def get_result_buffers(self):
        return {
            "level": self.buffer(kind="nav", dtype="float64"),
            "peak": self.buffer(kind="sig"),
        }

    def process_frame(self, frame):
        self.results.level[:] = frame.sum() + self.params.offset
        self.results.peak[:] = np.maximum(self.results.peak, frame)

    def merge(self, dest, src):
        dest.level[:] = src.level
        dest.peak[:] = np.maximum(dest.peak, src.peak)


class Recorder(ProgressReporter):
    def __init__(self):
        self.states = []

    def start(self, state):
        self.states.append(("start", state))

    def update(self, state):
        self.states.append(("update", state))

    def end(self, state):
        self.states.append(("end", state))
