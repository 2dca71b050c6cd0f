"""Array objects that are used again from frame to frame, and when they must not be."""

import threading
import weakref

import numpy as np
import pytest
from shared_contexts import shared

from framefold.udf import UDF


class Noted(UDF):
    """Keeps what :meth:`note` returns for each frame; all of it is compared at the end."""

    def get_preferred_input_dtype(self):
        return self.USE_NATIVE_DTYPE

    def get_result_buffers(self):
        return {"x": self.buffer(kind="nav", dtype="float64"), "seen": self.buffer(kind="nav")}

    def preprocess(self):
        self.noted = []

    def process_frame(self, frame):
        self.results.x[:] = self.meta.slice.origin[0]
        self.noted.append(self.note(frame))

    def postprocess(self):
        for index, noted in enumerate(self.noted, self.meta.slice.origin[0]):
            self.check(index, noted)
        self.results.seen[:] = 1


@pytest.fixture
def frames():
    values = np.arange(60, dtype=np.uint16).reshape(5, 12, 1, 1)
    return np.broadcast_to(values, (5, 12, 4, 6)).copy()


def run(frames, udf, executor="inline", roi=None):
    with shared(executor) as ctx:
        dataset = ctx.load("memory", data=frames, num_partitions=3)
        result = ctx.run_udf(dataset=dataset, udf=udf, roi=roi)
    positions = np.arange(60).reshape(5, 12)
    if roi is None:
        assert np.array_equal(result["x"].data, positions)
        assert result["seen"].data.all()
    return result


class KeepsFrames(Noted):
    def note(self, frame):
        return frame

    def check(self, index, noted):
        assert (noted == index).all()


class KeepsPartsOfFrames(KeepsFrames):
    def note(self, frame):
        return frame[1:, ::2].T


class KeepsMemory(KeepsFrames):
    def note(self, frame):
        return memoryview(frame)

    def check(self, index, noted):
        assert (np.asarray(noted) == index).all()


class KeepsResults(Noted):
    def note(self, frame):
        return self.results.x

    def check(self, index, noted):
        assert noted.shape == (1,)
        assert noted[0] == index


class KeepsPartsOfResults(KeepsResults):
    def note(self, frame):
        return self.results.x[...]


class ChangesHeaders(Noted):
    """Whatever is done to one array must not be seen in the next."""

    def note(self, frame):
        assert frame.shape == (4, 6)
        assert frame.strides == (12, 2)
        assert self.results.x.flags.writeable
        self.results.x.flags.writeable = False
        frame.shape = (24,)

    def check(self, index, noted):
        assert noted is None


class Refers(Noted):
    """Who refers to an array weakly sees it end, and not become another frame."""

    def note(self, frame):
        return weakref.ref(frame)

    def check(self, index, noted):
        frame = noted()
        assert frame is None or (frame == index).all()


@pytest.mark.parametrize("executor", ["inline", "threads"])
@pytest.mark.parametrize(
    "udf",
    [
        KeepsFrames,
        KeepsPartsOfFrames,
        KeepsMemory,
        KeepsResults,
        KeepsPartsOfResults,
        ChangesHeaders,
        Refers,
    ],
)
@pytest.mark.filterwarnings("ignore:Setting the shape:DeprecationWarning")
def test_what_is_kept_stays_as_it_was(frames, udf, executor):
    run(frames, udf(), executor)


def test_nothing_is_made_for_a_frame_that_is_not_kept(frames):
    class Same(Noted):
        def note(self, frame):
            return id(frame), id(self.results.x)

        def check(self, index, noted):
            assert noted == self.noted[0]

    run(frames, Same())


@pytest.mark.parametrize("executor", ["inline", "threads"])
def test_a_run_within_a_run(frames, executor):
    class Nested(Noted):
        def note(self, frame):
            if self.meta.slice.origin[0] % 7 == 0:
                run(frames, KeepsFrames(), executor)
            return frame

        def check(self, index, noted):
            assert (noted == index).all()

    run(frames, Nested(), executor)


@pytest.mark.parametrize("executor", ["inline", "threads"])
def test_other_threads_run_while_frames_are_processed(frames, executor):
    """Nothing of a run keeps the interpreter for itself from frame to frame."""
    ticks = 0
    stop = threading.Event()

    def tick():
        nonlocal ticks
        while not stop.wait(0.001):
            ticks += 1

    class Waits(Noted):
        def note(self, frame):
            before = ticks
            for _ in range(10**6):
                if ticks > before:
                    return True
                sum(range(100))
            return False

        def check(self, index, noted):
            assert noted

    thread = threading.Thread(target=tick)
    thread.start()
    try:
        run(frames, Waits(), executor)
    finally:
        stop.set()
        thread.join()


@pytest.mark.parametrize("executor", ["inline", "threads"])
def test_a_failing_partition_gives_the_interpreter_back(frames, executor):
    class Fails(Noted):
        def note(self, frame):
            if frame[0, 0] == 33:
                raise LookupError("frame 33")

        def check(self, index, noted):
            pass

    class FailsAtOnce(Fails):
        def get_task_data(self):
            if self.meta.slice.origin[0] > 0:
                raise LookupError("frame 20")
            return {}

    for _ in range(3):
        for udf in (Fails, FailsAtOnce):
            with pytest.raises(LookupError, match="frame"):
                run(frames, udf(), executor)
        run(frames, KeepsFrames(), executor)


@pytest.mark.parametrize("executor", ["inline", "threads"])
def test_coordinates_and_slices_of_frames_in_a_roi(frames, executor):
    class Places(Noted):
        def get_result_buffers(self):
            buffers = super().get_result_buffers()
            return {**buffers, "place": self.buffer(kind="nav", extra_shape=(2,), dtype=int)}

        def note(self, frame):
            coordinates = self.meta.coordinates
            assert coordinates.shape == (1, 2)
            assert coordinates.dtype == np.dtype(int)
            self.results.place[:] = coordinates[0]
            assert tuple(self.meta.slice.shape) == (1, 4, 6)
            assert self.meta.slice.sig == self.meta.sig_slice
            return int(frame[0, 0])

        def check(self, index, noted):
            assert noted == np.flatnonzero(roi)[index]

    roi = np.zeros((5, 12), dtype=bool)
    roi[1:4, ::5] = True
    result = run(frames, Places(), executor, roi)
    assert np.array_equal(result["place"].data[roi], np.argwhere(roi))
