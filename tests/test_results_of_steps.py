"""Results of steps that are looked at late, or never."""

from __future__ import annotations

import copy
import pickle
import threading
from pathlib import Path

import numpy as np
import pytest

import framefold as ff
from framefold.exceptions import UDFRunCancelled
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


def test_only_what_is_looked_at_is_finished(ctx, data, monkeypatch):
    wrapped = []
    wrap = Run.wrap
    monkeypatch.setattr(Run, "wrap", lambda *args, **more: wrapped.append(1) or wrap(*args, **more))
    dataset = ctx.load("memory", data=data, num_partitions=8)
    # The last ones are what the user's object knows afterwards.
    for udf in (SumSigUDF(), SumUDF()):
        wrapped.clear()
        for _ in ctx.run_udf_iter(dataset=dataset, udf=udf):
            pass
        assert len(wrapped) == 1, udf


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


class Mean(ff.UDF):
    """Divides the merged sum in place, as scripts do."""

    def get_result_buffers(self):
        return {
            "mean": self.buffer("sig", dtype=np.float64),
            "n": self.buffer("single", dtype=np.int64),
            "rows": self.buffer("nav", dtype=np.float64),
        }

    def process_frame(self, frame):
        self.results.mean += frame
        self.results.n += 1
        self.results.rows[:] = frame.sum()

    def merge(self, dest, src):
        # What it sees of all frames is what was merged.
        assert np.array_equal(self.results.mean, dest.mean)
        dest.mean[:] += src.mean
        dest.n[:] += src.n
        dest.rows[:] = src.rows

    def get_results(self):
        self.results.mean /= max(1, self.results.n[0])
        self.results.rows[:] -= 1
        return {"mean": self.results.mean}


class Fraction(SumUDF):
    def get_results(self):
        self.results.intensity[:] /= 24
        return {"intensity": self.results.intensity}


def test_get_results_may_change_its_buffers(ctx, data):
    dataset = ctx.load("memory", data=data, num_partitions=8)
    flat = data.reshape(-1, *SHAPE[2:]).astype(np.float64)
    for number, step in enumerate(ctx.run_udf_iter(dataset=dataset, udf=[Mean(), Fraction()]), 1):
        n = 3 * number
        mean, fraction = step.buffers
        np.testing.assert_allclose(mean["mean"].data, flat[:n].mean(axis=0))
        np.testing.assert_array_equal(mean["rows"].raw_data[:n], flat[:n].sum(axis=(1, 2)) - 1)
        np.testing.assert_allclose(fraction["intensity"].data, flat[:n].sum(axis=0) / 24, 1e-6)
    # What it has changed stays with the object after each kind of run.
    for run in (ctx.run_udf, lambda **of: list(ctx.run_udf_iter(**of))):
        run(dataset=dataset, udf=(udf := Mean()))
        np.testing.assert_allclose(udf.results.mean, flat.mean(axis=0))
    whole = ctx.run_udf(dataset=dataset, udf=[Mean(), Fraction()])
    for of_step, of_run in zip(step.buffers, whole, strict=True):
        for name in of_run:
            np.testing.assert_array_equal(of_step[name].raw_data, of_run[name].raw_data)


def test_a_loop_that_another_thread_ends_is_not_complete(ctx, data):
    def close():
        closer = threading.Thread(target=steps.close)
        closer.start()
        closer.join()

    dataset = ctx.load("memory", data=data, num_partitions=8)
    steps = ctx.run_udf_iter(dataset, SumSigUDF())
    next(steps)
    close()
    with pytest.raises(UDFRunCancelled, match="another thread"):
        next(steps)
    assert list(steps) == []
    steps = ctx.run_udf_iter(dataset, SumSigUDF())
    next(steps)
    steps.close()
    assert list(steps) == []
    steps = ctx.run_udf_iter(dataset, SumSigUDF())
    for _ in range(8):
        next(steps)
    close()
    assert list(steps) == []


@pytest.mark.parametrize("copied", [copy.deepcopy, lambda each: pickle.loads(pickle.dumps(each))])
def test_steps_can_be_copied(ctx, data, copied):
    dataset = ctx.load("memory", data=data, num_partitions=8)
    with ctx.run_udf_iter(dataset, [SumUDF(), SumSigUDF()]) as steps:
        step = next(steps)
        copies = copied(step)
    assert np.array_equal(copies.damage.data, step.damage.data)
    assert np.array_equal(copies[0]["intensity"].data, data.reshape(24, 3, 5)[:3].sum(axis=0))
    assert np.array_equal(copies[1]["intensity"].data, rows_until(data, 3), equal_nan=True)
