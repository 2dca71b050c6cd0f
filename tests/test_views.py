"""What user code sees of frames, tiles, partitions and buffers."""

import numpy as np

from framefold.udf import UDF


class Recorder(UDF):
    """Records the shapes it sees."""

    def get_result_buffers(self):
        return {
            "scalar": self.buffer(kind="nav"),
            "vector": self.buffer(kind="nav", extra_shape=(3, 2)),
            "frame": self.buffer(kind="sig", extra_shape=(2,)),
            "single": self.buffer(kind="single"),
            "shaped": self.buffer(kind="single", extra_shape=(4,)),
            "anything": self.buffer(kind="nav", dtype=object),
        }

    def shapes(self):
        return {name: array.shape for name, array in self.results.items()}

    def merge(self, dest, src):
        for name in ("scalar", "vector", "anything"):
            getattr(dest, name)[:] = getattr(src, name)


def expected(nav, sig=(10, 12), scalar=None, vector=None):
    return {
        "scalar": scalar or (nav,),
        "vector": vector or (nav, 3, 2),
        "frame": (*sig, 2),
        "single": (1,),
        "shaped": (4,),
        "anything": scalar or (nav,),
    }


def test_frame_views(ctx, dataset, data):
    class PerFrame(Recorder):
        def preprocess(self):
            part = self.meta.slice
            frames = 42 if part is None else part.shape[0]
            assert self.shapes() == expected(frames)

        def process_frame(self, frame):
            assert frame.shape == (10, 12)
            assert frame.dtype == np.float32
            assert self.shapes() == expected(0, scalar=(1,), vector=(3, 2))
            y, x = self.meta.coordinates[0]
            assert np.array_equal(frame, data[y, x])
            assert self.meta.slice.origin == (y * 7 + x, 0, 0)
            assert tuple(self.meta.slice.shape) == (1, 10, 12)
            self.results.scalar[:] = frame.sum()
            self.results.vector[:] = frame[:3, :2]
            self.results.anything[0] = (int(y), int(x))

        def postprocess(self):
            assert self.results.scalar.shape == self.meta.partition_shape.nav.to_tuple()

    result = ctx.run_udf(dataset=dataset, udf=PerFrame())
    assert np.array_equal(result["scalar"].data, data.sum(axis=(2, 3)).astype(np.float32))
    assert np.array_equal(result["vector"].data, data[:, :, :3, :2])
    assert result["anything"].data[4, 5] == (4, 5)


def test_tile_and_partition_views(ctx, dataset, data):
    class PerTile(Recorder):
        def process_tile(self, tile):
            depth = tile.shape[0]
            sig = self.meta.sig_slice.shape
            assert self.shapes() == expected(depth, tuple(sig))
            assert self.meta.coordinates.shape == (depth, 2)
            self.results.scalar[:] += tile.sum(axis=(1, 2))

    class PerPartition(Recorder):
        def process_partition(self, partition):
            assert partition.shape == tuple(self.meta.partition_shape)
            assert self.shapes() == expected(partition.shape[0])
            self.results.scalar[:] = partition.sum(axis=(1, 2))

    tile, partition = ctx.run_udf(dataset=dataset, udf=[PerTile(), PerPartition()])
    for result in (tile, partition):
        assert np.array_equal(result["scalar"].data, data.sum(axis=(2, 3)).astype(np.float32))


def test_frames_larger_than_a_tile_are_sliced(ctx):
    data = np.random.default_rng(3).integers(0, 9, size=(3, 5, 700, 800), dtype=np.uint8)
    seen = []

    class PerTile(UDF):
        def get_result_buffers(self):
            return {
                "total": self.buffer(kind="sig", dtype=np.float64),
                "each": self.buffer(kind="nav", dtype=np.float64),
            }

        def process_tile(self, tile):
            part = self.meta.slice
            seen.append(part.sig)
            assert tile.shape == tuple(part.shape)
            assert self.results.total.shape == tile.shape[1:]
            self.results.total[:] += tile.sum(axis=0)
            self.results.each[:] += tile.sum(axis=(1, 2))

        def merge(self, dest, src):
            dest.total[:] += src.total
            dest.each[:] = src.each

    dataset = ctx.load("memory", data=data)
    result = ctx.run_udf(dataset=dataset, udf=PerTile())
    assert len(set(seen)) > 1, "the frames were to be cut into several slices"
    assert np.array_equal(result["total"].data, data.sum(axis=(0, 1)))
    assert np.array_equal(result["each"].data, data.sum(axis=(2, 3)))


def test_views_kept_beyond_their_life_keep_their_contents(ctx, data):
    kept = []

    class Keeper(UDF):
        def get_result_buffers(self):
            return {"x": self.buffer(kind="nav")}

        def process_frame(self, frame):
            kept.append((self.meta.coordinates[0], frame))

    dataset = ctx.load("memory", data=data, num_partitions=4)
    ctx.run_udf(dataset=dataset, udf=Keeper())
    assert len(kept) == 42
    for (y, x), frame in kept:
        assert np.array_equal(frame, data[y, x])


def test_assigning_to_results_writes_into_the_buffer(ctx, dataset, data):
    class Assigning(UDF):
        def get_result_buffers(self):
            return {"a": self.buffer(kind="nav"), "b": self.buffer(kind="nav", extra_shape=(2,))}

        def process_frame(self, frame):
            self.results.a = frame.sum()
            self.results.b += 3
            self.results.b *= 2

    result = ctx.run_udf(dataset=dataset, udf=Assigning())
    assert np.array_equal(result["a"].data, data.sum(axis=(2, 3)).astype(np.float32))
    assert (result["b"].data == 6).all()


def test_zero_copy_when_the_dtype_fits(ctx):
    data = np.arange(4 * 4 * 8 * 8, dtype=np.float32).reshape(4, 4, 8, 8)

    class Sharing(UDF):
        def get_result_buffers(self):
            return {"shared": self.buffer(kind="nav", dtype=bool)}

        def process_tile(self, tile):
            self.results.shared[:] = np.shares_memory(tile, data)

    result = ctx.run_udf(dataset=ctx.load("memory", data=data), udf=Sharing())
    assert result["shared"].data.all()
