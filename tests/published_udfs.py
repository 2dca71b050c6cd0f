"""Functions of kinds that are published, compiled where that is possible.

This file runs on framefold with Numba and without, and on LiberTEM, where the decorator does
nothing. As a program, it writes all results to a file: ``python published_udfs.py FILE``.
"""

import numpy as np

try:
    from framefold import UDF, Context, compiled
except ImportError:
    from libertem.api import Context
    from libertem.udf import UDF

    def compiled(function):
        return function


class Deviation(UDF):
    """Sum and sum of squares, tile by tile."""

    def get_result_buffers(self):
        return {
            "sums": self.buffer("sig", dtype="float64"),
            "squares": self.buffer("sig", dtype="float64"),
        }

    @compiled
    def process_tile(self, tile):
        sums, squares = self.results.sums, self.results.squares
        for i in range(tile.shape[0]):
            for y in range(tile.shape[1]):
                for x in range(tile.shape[2]):
                    sums[y, x] += tile[i, y, x]
                    squares[y, x] += np.float64(tile[i, y, x]) ** 2

    def merge(self, dest, src):
        dest.sums[:] += src.sums
        dest.squares[:] += src.squares


class RadialProfile(UDF):
    def get_result_buffers(self):
        return {"profile": self.buffer("nav", (self.params.n_bins,), "float64")}

    def get_task_data(self):
        y, x = np.indices(tuple(self.meta.dataset_shape.sig))
        r = np.hypot(y - self.params.cy, x - self.params.cx).astype(int)
        r = np.minimum(r, self.params.n_bins - 1)
        return {"bin": r, "n": np.bincount(r.reshape(-1), minlength=self.params.n_bins)}

    @compiled
    def process_frame(self, frame):
        bins, n, profile = self.task_data.bin, self.task_data.n, self.results.profile
        for y in range(frame.shape[0]):
            for x in range(frame.shape[1]):
                profile[bins[y, x]] += frame[y, x]
        for i in range(profile.size):
            if n[i] > 0:
                profile[i] /= n[i]


class Counting(UDF):
    """Electrons of a counting camera: local maxima above a threshold."""

    def get_result_buffers(self):
        return {"n": self.buffer("nav", dtype="int64"), "image": self.buffer("sig", dtype="int64")}

    @compiled
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

    @compiled
    def process_frame(self, frame):
        for y in range(1, frame.shape[0] - 1):
            for x in range(1, frame.shape[1] - 1):
                if self.is_hit(frame, y, x):
                    self.results.image[y, x] += 1
                    self.results.n[0] += 1

    @compiled
    def merge(self, dest, src):
        dest.n[:] = src.n
        dest.image[:] += src.image


class Peaks(UDF):
    """The largest value and the centre of mass in windows."""

    def get_result_buffers(self):
        return {"peaks": self.buffer("nav", (len(self.params.windows), 3), "float64")}

    @compiled
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


class Correlation(UDF):
    """Where a template fits best, in a window."""

    def get_result_buffers(self):
        return {"shift": self.buffer("nav", (2,), "int64"), "best": self.buffer("nav", (), "f8")}

    @compiled
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
        self.results.best[0] = best


class Autocorrelation(UDF):
    """Over the frames of the whole scan, for small shifts within a frame."""

    def get_result_buffers(self):
        n = self.params.n
        return {"map": self.buffer("single", (n, n), "float64")}

    @compiled
    def process_frame(self, frame):
        for dy in range(self.params.n):
            for dx in range(self.params.n):
                total = 0.0
                for y in range(frame.shape[0] - dy):
                    for x in range(frame.shape[1] - dx):
                        total += frame[y, x] * frame[y + dy, x + dx]
                self.results.map[dy, dx] += total

    def merge(self, dest, src):
        dest.map[:] += src.map


def numbers():
    """Frames of small integers, so that no sum is rounded."""
    return np.random.default_rng(0).integers(0, 50, (6, 5, 16, 16)).astype("f4")


WINDOWS = np.array([[0, 0], [3, 4], [9, 11]])
TEMPLATE = np.random.default_rng(3).integers(0, 9, (6, 7)).astype("f8")

#: Each with its parameters.
CASES = {
    Deviation: {},
    RadialProfile: {"n_bins": 9, "cy": 7.5, "cx": 7.0},
    Counting: {"threshold": 40},
    Peaks: {"windows": WINDOWS, "size": 5},
    Correlation: {"template": TEMPLATE},
    Autocorrelation: {"n": 3},
}


def main(path):
    """Run all of them, and write what they give."""
    found = {}
    with Context.make_with("inline") as ctx:
        for cls, params in CASES.items():
            data = numbers()[:2, :3] if cls is Correlation else numbers()
            dataset = ctx.load("memory", data=data, sig_dims=2)
            for name, buffer in ctx.run_udf(dataset=dataset, udf=cls(**params)).items():
                found[f"{cls.__name__}.{name}"] = np.asarray(buffer.data)
    np.savez(path, engine=np.array(UDF.__module__.partition(".")[0]), **found)


if __name__ == "__main__":
    import sys

    main(sys.argv[1])
