"""Results of steps that are looked at late, or never."""

from __future__ import annotations

import threading
from pathlib import Path

import numpy as np
import pytest

import framefold as ff
from framefold.run.plan import Run
from framefold.udf.masks import ApplyMasksUDF
from framefold.udf.sum import SumUDF
from framefold.udf.sumsigudf import SumSigUDF

SHAPE = (6, 4, 3, 5)


@pytest.fixture(scope="module")
def data():
    return np.random.default_rng(7).integers(1, 100, SHAPE).astype(np.float32)


@pytest.fixture(params=["inline", "threads"])
def ctx(request):
    with ff.Context.make_with(request.param) as ctx:
        yield ctx


def rows_until(data, n_frames):
    sums = data.sum(axis=(2, 3)).reshape(-1)
    return np.where(np.arange(24) < n_frames, sums, np.nan).reshape(SHAPE[:2])


@pytest.mark.parametrize("others", [[], [SumUDF]])
def test_late_results_are_those_of_their_step(ctx, data, others):
    dataset = ctx.load("memory", data=data, num_partitions=8)
    masks = ApplyMasksUDF(mask_factories=[lambda: np.ones(SHAPE[2:])])
    udfs = [SumSigUDF(), *(other() for other in others), masks]
    steps = list(ctx.run_udf_iter(dataset=dataset, udf=udfs))
    assert len(steps) == 8
    for number, step in reversed(list(enumerate(steps, 1))):
        expected = rows_until(data, 3 * number)
        found = step.buffers[0]["intensity"].data
        assert np.array_equal(found, expected, equal_nan=True)
        assert np.array_equal(step.buffers[-1]["intensity"].data[..., 0], found, equal_nan=True)
        assert np.array_equal(step.damage.data, ~np.isnan(expected))
        # They are the user's own.
        step.buffers[0]["intensity"].raw_data[:] = -1
    # What the user's object knows are the latest, whichever were looked at last.
    assert np.array_equal(udfs[-1].results.intensity.reshape(-1), data.sum(axis=(2, 3)).reshape(-1))


def test_late_results_leave_out_what_is_not_selected(ctx, data):
    dataset = ctx.load("memory", data=data, num_partitions=8)
    roi = np.arange(24).reshape(SHAPE[:2]) % 3 != 1
    steps = list(ctx.run_udf_iter(dataset=dataset, udf=SumSigUDF(), roi=roi))
    sums = data.sum(axis=(2, 3))
    for step in steps:
        merged = (
            step.damage.data.filled(False) if np.ma.isMA(step.damage.data) else step.damage.data
        )
        found = np.asarray(step.buffers[0]["intensity"].data)
        assert np.array_equal(found[merged & roi], sums[merged & roi])
        assert np.isnan(found[~(merged & roi)]).all()
    assert len(steps) == 8


def test_nothing_is_copied_that_nobody_looks_at(ctx, data, monkeypatch):
    wrapped = []
    wrap = Run.wrap
    monkeypatch.setattr(Run, "wrap", lambda *args, **more: wrapped.append(1) or wrap(*args, **more))
    dataset = ctx.load("memory", data=data, num_partitions=8)
    # The last ones are what the user's object knows afterwards.
    for udf, expected in ((SumSigUDF(), 1), (SumUDF(), 8)):
        wrapped.clear()
        for _ in ctx.run_udf_iter(dataset=dataset, udf=udf):
            pass
        assert len(wrapped) == expected, udf


class Held:
    """Frames of which the last ones can be read when a test says so."""

    shape, sig, dtype = (24,), SHAPE[2:], "float32"

    def __init__(self, frames, may_go_on, waits):
        self.frames, self.may_go_on, self.waits = frames, may_go_on, waits

    def read(self, frames, out):
        if max(frames) >= 12:
            self.waits.set()
            assert self.may_go_on.wait(60)
        out[:] = self.frames[np.asarray(frames)]


def test_results_can_be_looked_at_while_a_step_goes_on(data, tmp_path):
    may_go_on, waits = threading.Event(), threading.Event()
    source = Held(data.reshape(24, *SHAPE[2:]), may_go_on, waits)
    path = tmp_path / "frames.held"
    path.write_bytes(b"HELD")

    class Format:
        name = "held_by_a_test"
        extensions = ("held",)

        @staticmethod
        def open(path: Path) -> Held:
            return source

    ff.register_format(Format)
    with ff.Context.make_with("inline") as ctx:
        dataset = ctx.load("held_by_a_test", path=path, nav_shape=SHAPE[:2], num_partitions=8)
        steps = ctx.run_udf_iter(dataset=dataset, udf=SumSigUDF())
        first = next(steps)
        stepping = threading.Thread(target=lambda: list(steps))
        stepping.start()
        assert waits.wait(60)
        looked = []
        looking = threading.Thread(
            target=lambda: looked.append((first.buffers[0]["intensity"].data, first.damage.data))
        )
        looking.start()
        looking.join(60)
        try:
            ((found, damage),) = looked
        finally:
            may_go_on.set()
            stepping.join()
    assert np.array_equal(found, rows_until(data, damage.sum()), equal_nan=True)
