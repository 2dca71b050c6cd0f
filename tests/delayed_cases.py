"""Functions that tests of delayed runs share."""

import time

import numpy as np

from framefold.udf import UDF
from framefold.udf.masks import ApplyMasksUDF

NAV, SIG = (6, 7), (10, 12)


def scan(dtype):
    """A scan of NAV with frames of SIG."""
    rng = np.random.default_rng(23)
    data = rng.integers(0, 200, size=(*NAV, *SIG))
    return (data * 1.37).astype(dtype) if np.dtype(dtype).kind in "fc" else data.astype(dtype)


def some():
    """A ROI."""
    return np.random.default_rng(5).random(NAV) < 0.4


class PerFrame(UDF):
    """Buffers of kind ``nav`` alone, which need no merging."""

    def get_result_buffers(self):
        return {
            "total": self.buffer(kind="nav", dtype="float64"),
            "corner": self.buffer(kind="nav", extra_shape=(2, 3), dtype="int16"),
            "names": self.buffer(kind="nav", dtype=object),
        }

    def process_frame(self, frame):
        self.results.total[:] = frame.sum()
        self.results.corner[:] = frame[:2, :3].real
        self.results.names[:] = f"frame {self.meta.slice.origin[0]}"


class Slow(PerFrame):
    """Gives events time to arrive."""

    def process_frame(self, frame):
        time.sleep(0.01)
        super().process_frame(frame)


class Total(UDF):
    """A sum whose bits depend on the order of merging."""

    def get_result_buffers(self):
        return {"intensity": self.buffer(kind="sig", dtype="float32")}

    def process_tile(self, tile):
        self.results.intensity[:] += np.sum(tile, axis=0) / 7

    def merge(self, dest, src):
        dest.intensity[:] += src.intensity


class Everything(UDF):
    """All kinds of buffers, AUX and task data, and results that are computed at the end."""

    def get_result_buffers(self):
        return {
            "total": self.buffer(kind="sig", dtype="float32"),
            "place": self.buffer(kind="nav", extra_shape=(2,), dtype="int64"),
            "flag": self.buffer(kind="nav", dtype=bool),
            "most": self.buffer(kind="single", dtype="float64"),
            "hidden": self.buffer(kind="single", extra_shape=(3,), use="private"),
            "ratio": self.buffer(kind="sig", dtype="float64", use="result_only"),
            "even": self.buffer(kind="nav", dtype="float32", use="result_only"),
        }

    def get_task_data(self):
        return {"weights": np.linspace(0.1, 1, int(np.prod(self.meta.dataset_shape.sig)))}

    def preprocess(self):
        self.results.most[:] = -np.inf
        self.results.place[:] = -7

    def process_frame(self, frame):
        frame = np.abs(frame)
        weights = self.task_data.weights.reshape(frame.shape)
        self.results.total[:] += frame * weights * self.params.gain
        self.results.place[:] = self.meta.coordinates[0]
        self.results.flag[:] = frame[0, 0] > 100
        self.results.most[:] = max(self.results.most[0], frame.max())
        self.results.hidden[:] += 1 / 3

    def merge(self, dest, src):
        dest.total[:] += src.total
        dest.place[:] = src.place
        dest.flag[:] = src.flag
        dest.most[:] = np.maximum(dest.most, src.most)
        dest.hidden[:] += src.hidden

    def get_results(self):
        place = self.results.place.sum(axis=-1)
        return {
            "ratio": self.results.total / self.results.hidden[0],
            "even": self.with_mask(place.astype("float32") / 2, place % 2 == 0),
        }


def everything(data):
    """That, with AUX data for a scan like ``data``."""
    gain = np.arange(np.prod(NAV), dtype="float32").reshape(NAV) / 11
    return Everything(gain=Everything.aux_data(gain, kind="nav"))


class Weighing(UDF):
    """The mean of all weights: an array, arrays in lists, numbers in a list, and AUX data."""

    def get_result_buffers(self):
        return {"mean": self.buffer(kind="nav", dtype="float64")}

    def process_frame(self, frame):
        params = self.params
        weights = [params.weights, *params.others["more"], params.others["numbers"], params.aux]
        self.results.mean[:] = np.mean([np.mean(each) for each in weights])


def with_reused_arrays(ctx):
    """Results of runs whose parameters are filled anew for each: 1, 2 and 3."""
    dataset = ctx.load("memory", data=np.ones((6, 4, 4), dtype="float32"), num_partitions=3)
    weights, numbers, lazy = np.zeros((4, 4)), [0], []
    for value in (1, 2, 3):
        weights[:] = numbers[:] = [value]
        aux = Weighing.aux_data(weights, kind="sig", dtype="float64")
        weighing = Weighing(
            weights=weights, others={"more": [weights], "numbers": numbers}, aux=aux
        )
        masks = ApplyMasksUDF(lambda: weights[np.newaxis] / 16)
        of_both = ctx.run_udf(dataset, [weighing, masks])
        lazy += [next(iter(results.values())).delayed_data for results in of_both]
    return lazy


def assert_each_has_its_own(arrays):
    assert [array.tolist() for array in arrays[::2]] == [[n] * 6 for n in (1, 2, 3)]
    assert [array.ravel().tolist() for array in arrays[1::2]] == [[n] * 6 for n in (1, 2, 3)]


def assert_same(found, expected, what):
    """Two results of one UDF have the same names, shapes, dtypes, masks, and bits."""
    assert list(found) == list(expected), what
    for name in expected:
        mine, other = found[name], expected[name]
        for of in ("data", "raw_data"):
            array, wanted = getattr(mine, of), getattr(other, of)
            assert array.dtype == wanted.dtype, (what, name, of)
            assert array.shape == wanted.shape, (what, name, of)
            assert same_bits(array, wanted), (what, name, of)
        assert np.array_equal(mine.valid_mask, other.valid_mask), (what, name)
        assert (mine.kind, mine.extra_shape) == (other.kind, other.extra_shape)


def same_bits(array, wanted):
    if wanted.dtype == object:
        return array.tolist() == wanted.tolist()
    return array.tobytes() == wanted.tobytes()
