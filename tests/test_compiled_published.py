"""Functions of kinds that are published, compiled and interpreted: their results are equal.

The first is the example of the specification with Numba: a loop over the pixels of some frames.
"""

import threading

import numpy as np
import pytest
from compiled_cases import both, cache, dataset, interpreted, results  # noqa: F401

import framefold as ff

pytest.importorskip("numba")


@pytest.fixture(scope="module")
def ctx():
    return ff.Context.make_with("threads")


@pytest.fixture(scope="module")
def data():
    return np.random.default_rng(0).integers(0, 50, (6, 5, 16, 16)).astype("f4")


class Deviation(ff.UDF):
    """Sum and sum of squares, tile by tile."""

    def get_result_buffers(self):
        return {
            "sums": self.buffer("sig", dtype="float64"),
            "squares": self.buffer("sig", dtype="float64"),
        }

    @ff.compiled
    def process_tile(self, tile):
        sums, squares = self.results.sums, self.results.squares
        for i in range(tile.shape[0]):
            for y in range(tile.shape[1]):
                for x in range(tile.shape[2]):
                    sums[y, x] += tile[i, y, x]
                    squares[y, x] += np.float64(tile[i, y, x]) ** 2

    @ff.compiled
    def merge(self, dest, src):
        dest.sums += src.sums
        dest.squares += src.squares


def test_example_of_the_specification(ctx, data):
    found = both(ctx, data, Deviation)
    n = 30
    variance = found["squares"] / n - (found["sums"] / n) ** 2
    np.testing.assert_allclose(variance, data.var((0, 1), dtype="f8"))


class RadialProfile(ff.UDF):
    def get_result_buffers(self):
        return {"profile": self.buffer("nav", (self.params.n_bins,), "float64")}

    def get_task_data(self):
        y, x = np.indices(tuple(self.meta.dataset_shape.sig))
        r = np.hypot(y - self.params.cy, x - self.params.cx).astype(int)
        r = np.minimum(r, self.params.n_bins - 1)
        return {"bin": r, "n": np.bincount(r.reshape(-1), minlength=self.params.n_bins)}

    @ff.compiled
    def process_frame(self, frame):
        bins, n, profile = self.task_data.bin, self.task_data.n, self.results.profile
        for y in range(frame.shape[0]):
            for x in range(frame.shape[1]):
                profile[bins[y, x]] += frame[y, x]
        for i in range(profile.size):
            if n[i] > 0:
                profile[i] /= n[i]


def test_radial_profile(ctx, data):
    params = {"n_bins": 9, "cy": 7.5, "cx": 7.0}
    found = both(ctx, data, RadialProfile, params=lambda: params)["profile"]
    y, x = np.indices((16, 16))
    r = np.minimum(np.hypot(y - 7.5, x - 7.0).astype(int), 8)
    for i in range(9):
        np.testing.assert_allclose(found[:, i], data.reshape(30, 16, 16)[:, r == i].mean(1))


class Counting(ff.UDF):
    """Electrons of a counting camera: local maxima above a threshold."""

    def get_result_buffers(self):
        return {"n": self.buffer("nav", dtype="int64"), "image": self.buffer("sig", dtype="int64")}

    @ff.compiled
    def is_hit(self, frame, y, x):
        value = frame[y, x]
        if value <= self.params.threshold:
            return False
        return (
            value > frame[y - 1, x]
            and value > frame[y + 1, x]
            and value >= frame[y, x - 1]
            and value > frame[y, x + 1]
        )

    @ff.compiled
    def process_frame(self, frame):
        for y in range(1, frame.shape[0] - 1):
            for x in range(1, frame.shape[1] - 1):
                if self.is_hit(frame, y, x):
                    self.results.image[y, x] += 1
                    self.results.n += 1

    @ff.compiled
    def merge(self, dest, src):
        dest.n = src.n
        dest.image += src.image


def test_threshold_counting(ctx, data):
    found = both(ctx, data, Counting, params=lambda: {"threshold": 40})
    inner = data[..., 1:-1, 1:-1]
    hit = (inner > 40) & (inner > data[..., :-2, 1:-1]) & (inner > data[..., 2:, 1:-1])
    hit &= (inner >= data[..., 1:-1, :-2]) & (inner > data[..., 1:-1, 2:])
    np.testing.assert_array_equal(found["image"][1:-1, 1:-1], hit.sum((0, 1)))


class Peaks(ff.UDF):
    """The largest value and the centre of mass in windows."""

    def get_result_buffers(self):
        return {"peaks": self.buffer("nav", (len(self.params.windows), 3), "float64")}

    @ff.compiled
    def process_frame(self, frame):
        windows, size = self.params.windows, self.params.size
        for i in range(windows.shape[0]):
            top, total, at_y, at_x = frame[windows[i, 0], windows[i, 1]], 0.0, 0.0, 0.0
            for y in range(windows[i, 0], windows[i, 0] + size):
                for x in range(windows[i, 1], windows[i, 1] + size):
                    value = frame[y, x]
                    top = max(top, value)
                    total += value
                    at_y += y * value
                    at_x += x * value
            self.results.peaks[i, 0] = top
            if total > 0:
                self.results.peaks[i, 1] = at_y / total
                self.results.peaks[i, 2] = at_x / total


def test_peaks_in_windows(ctx, data):
    windows = np.array([[0, 0], [3, 4], [9, 11]])
    # An integer times a float32 is a float64 in compiled code, and a float32 for NumPy.
    params = {"windows": windows, "size": 5}
    found = both(ctx, data, Peaks, equal=False, params=lambda: params)["peaks"]
    for i, (y, x) in enumerate(windows):
        part = data.reshape(30, 16, 16)[:, y : y + 5, x : x + 5]
        np.testing.assert_array_equal(found[:, i, 0], part.max((1, 2)))


class Correlation(ff.UDF):
    """Where a template fits best, in a window."""

    def get_result_buffers(self):
        return {"shift": self.buffer("nav", (2,), "int64"), "best": self.buffer("nav", (), "f8")}

    @ff.compiled
    def process_frame(self, frame):
        template = self.params.template
        best = -np.inf
        for dy in range(frame.shape[0] - template.shape[0] + 1):
            for dx in range(frame.shape[1] - template.shape[1] + 1):
                total = 0.0
                for y in range(template.shape[0]):
                    for x in range(template.shape[1]):
                        total += frame[dy + y, dx + x] * template[y, x]
                if total > best:
                    best = total
                    self.results.shift[0], self.results.shift[1] = dy, dx
        self.results.best = best


def test_cross_correlation_of_a_window(ctx, data):
    template = np.random.default_rng(3).integers(0, 9, (6, 7)).astype("f8")
    part = data[:2, :3]
    found = both(ctx, part, Correlation, params=lambda: {"template": template})
    views = np.lib.stride_tricks.sliding_window_view(part.reshape(6, 16, 16), (6, 7), (1, 2))
    scores = np.einsum("nyxab,ab->nyx", views, template)
    np.testing.assert_array_equal(found["best"], scores.max((1, 2)))


class Autocorrelation(ff.UDF):
    """Over the frames of the whole scan, for small shifts within a frame."""

    def get_result_buffers(self):
        n = self.params.n
        return {"map": self.buffer("single", (n, n), "float64")}

    @ff.compiled
    def process_frames(self, frames):
        n = self.params.n
        for i in range(frames.shape[0]):
            for dy in range(n):
                for dx in range(n):
                    total = 0.0
                    for y in range(frames.shape[1] - dy):
                        for x in range(frames.shape[2] - dx):
                            total += frames[i, y, x] * frames[i, y + dy, x + dx]
                    self.results.map[dy, dx] += total

    def merge(self, dest, src):
        dest.map += src.map


def test_autocorrelation(ctx, data):
    found = both(ctx, data, Autocorrelation, params=lambda: {"n": 3})["map"]
    assert found[0, 0] == (data.astype("f8") ** 2).sum()
    assert found[1, 2] == (data[..., :-1, :-2].astype("f8") * data[..., 1:, 2:]).sum()


class Stressed(ff.UDF):
    """Allocates for each frame, and raises for some values of a parameter."""

    def get_result_buffers(self):
        return {"sum": self.buffer("nav", dtype="float64"), "all": self.buffer("sig", dtype="f8")}

    @ff.compiled
    def process_frame(self, frame):
        copy = frame.astype(np.float64) * 2
        parts = [copy[i].copy() for i in range(copy.shape[0])]
        for part in parts:
            if part[0] < self.params.bad:
                raise ValueError("bad pixel")
            self.results.sum[0] += part.sum()
        self.results.all += copy

    @ff.compiled
    def merge(self, dest, src):
        dest.sum[:] = src.sum
        dest.all += src.all


def test_eight_threads_that_allocate_and_raise():
    data = np.random.default_rng(1).random((16, 16, 12, 12)).astype("f4") + 1
    ctx = ff.Context.make_with("threads", cpus=8)
    ds = dataset(ctx, data, num_partitions=32)
    expected = data.sum((2, 3), dtype="f8").reshape(-1) * 2
    failures = []

    def work(number):
        for round_ in range(6):
            try:
                if (round_ + number) % 2:
                    with pytest.raises(ValueError, match="bad pixel"):
                        ctx.run_udf(dataset=ds, udf=Stressed(bad=2.01))
                else:
                    found = ctx.run_udf(dataset=ds, udf=Stressed(bad=0.0))
                    np.testing.assert_allclose(found["sum"].raw_data, expected)
            except BaseException as error:
                failures.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_arithmetic_that_differs(ctx):
    # What the guide says: integers are not wrapped at their own width, but computed with 64 bits.
    class Widths(ff.UDF):
        def get_preferred_input_dtype(self):
            return self.USE_NATIVE_DTYPE

        def get_result_buffers(self):
            return {"x": self.buffer("nav", dtype="int64")}

        @ff.compiled
        def process_frame(self, frame):
            self.results.x[0] = frame[0, 0] + frame[0, 1]

    data = np.full((1, 2, 2, 2), 200, "uint8")
    assert results(ctx, data, Widths())["x"].tolist() == [400, 400]
    with pytest.warns(RuntimeWarning, match="overflow"):
        assert results(ctx, data, interpreted(Widths)())["x"].tolist() == [144, 144]
