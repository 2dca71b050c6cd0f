"""Progress that is asked for is reported at every merge."""

from __future__ import annotations

import sys

import pytest
from sample_udfs import Level, Recorder

import framefold as ff
from framefold.common.progress import TQDMProgressReporter
from framefold.run.progress import RunProgress


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


def test_nothing_is_in_progress_at_the_end():
    recorder = Recorder()
    progress = RunProgress(recorder, [(0, 4), (4, 8), (8, 9)])
    progress.start()
    progress.merged(1, 2)
    progress.end()
    assert [state.num_part_in_progress for _, state in recorder.states] == [0, 2, 0]
    assert recorder.states[-1][1].num_part_complete == 1


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


def test_there_may_be_nowhere_to_show_a_bar(ctx, dataset, monkeypatch):
    pytest.importorskip("tqdm")
    monkeypatch.setattr(sys, "stderr", None)
    total = ctx.run_udf(dataset=dataset, udf=ff.SumUDF(), progress=True)["intensity"].data
    assert total.shape == tuple(dataset.shape.sig)
