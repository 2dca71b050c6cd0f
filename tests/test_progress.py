"""Who asks to be told how far a run is hears of every merge."""

from __future__ import annotations

import numpy as np
import pytest

import framefold as ff
from framefold.common.progress import ProgressReporter, TQDMProgressReporter
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


@pytest.mark.parametrize("call", ["run_udf", "run_udf_iter", "plots"])
def test_a_reporter_hears_of_each_merge(ctx, dataset, call):
    recorder = Recorder()
    if call == "run_udf":
        ctx.run_udf(dataset=dataset, udf=ff.SumUDF(), progress=recorder)
    elif call == "plots":
        ctx.run_udf(dataset=dataset, udf=ff.SumUDF(), progress=recorder, plots=[])
    else:
        for _ in ctx.run_udf_iter(dataset=dataset, udf=ff.SumUDF(), progress=recorder):
            pass
    kinds = [kind for kind, _ in recorder.states]
    states = [state for _, state in recorder.states]
    assert kinds == ["start", *["update"] * 5, "end"]
    assert [state.num_part_complete for state in states] == [0, 1, 2, 3, 4, 5, 5]
    frames = [state.num_frames_complete for state in states]
    assert frames[0] == 0
    assert frames[-2:] == [42, 42]
    assert frames[:-1] == sorted(set(frames))
    assert {state.num_frames_total for state in states} == {42}
    assert {state.num_part_total for state in states} == {5}
    assert len({state.progress_id for state in states}) == 1
    assert states[-1].num_part_in_progress == 0


def test_a_reporter_hears_of_the_end_of_failed_runs(ctx, dataset):
    class Failing(Level):
        def process_frame(self, frame):
            raise LookupError("mine")

    for call in (ctx.run_udf, lambda **kwargs: next(ctx.run_udf_iter(**kwargs))):
        recorder = Recorder()
        with pytest.raises(LookupError, match="mine"):
            call(dataset=dataset, udf=Failing(), progress=recorder)
        assert [kind for kind, _ in recorder.states] == ["start", "end"]


def test_a_failing_reporter_ends_the_run(ctx, dataset):
    class Full(Recorder):
        def update(self, state):
            raise OSError("disk full")

    for call in (ctx.run_udf, lambda **kwargs: next(ctx.run_udf_iter(**kwargs))):
        with pytest.raises(OSError, match="disk full"):
            call(dataset=dataset, udf=ff.SumUDF(), progress=Full())


def test_a_progress_bar(ctx, dataset, capsys):
    pytest.importorskip("tqdm")
    for _ in ctx.run_udf_iter(dataset=dataset, udf=ff.SumUDF(), progress=True):
        pass
    error = capsys.readouterr().err
    assert "Partitions 5/5, Frames: 100%" in error
    assert "42.0/42.0" in error
    ctx.run_udf(dataset=dataset, udf=ff.SumUDF(), progress=TQDMProgressReporter())
    assert "Partitions 5/5" in capsys.readouterr().err
