"""The code of the specification's first draft: UDFs as plain functions."""

import numpy as np

from framefold.common.buffers import BufferWrapper


def make_pixelsum_buffer():
    return {"pixelsum": BufferWrapper(kind="nav", dtype="float32")}


def make_pixel_sum(frame, pixelsum):
    pixelsum[:] = np.sum(frame)


def test_by_frame_processing(ctx, dataset, data):
    res = ctx.run_udf(
        dataset=dataset,
        fn=make_pixel_sum,
        make_buffers=make_pixelsum_buffer,
    )
    assert np.allclose(res["pixelsum"].data, data.sum(axis=(2, 3)))


def make_buffer():
    return {"maxbuf": BufferWrapper(kind="sig", dtype="float32")}


def make_max(frame, maxbuf):
    maxbuf[:] = np.maximum(frame, maxbuf)


def max_merge(dest, src):
    dest["maxbuf"][:] = np.maximum(dest["maxbuf"], src["maxbuf"])


def test_merging(ctx, dataset, data):
    res = ctx.run_udf(
        dataset=dataset,
        fn=make_max,
        make_buffers=make_buffer,
        merge=max_merge,
    )
    assert np.array_equal(res["maxbuf"].data, data.max(axis=(0, 1)))


def test_tiles_broadcast_with_frames(ctx, dataset, data):
    # "tile.shape == (N, Y, X) and gain_map.shape == (Y, X)"
    from framefold.udf import UDF

    class Gain(UDF):
        def get_result_buffers(self):
            return {"total": self.buffer("nav")}

        def process_tile(self, tile):
            gain_map = self.params.gain_map
            assert tile.shape[1:] == gain_map.shape
            corrected_tile = tile * gain_map
            self.results.total[:] += corrected_tile.sum(axis=(1, 2))

    gain_map = np.random.default_rng(3).random((32, 32)).astype(np.float32)
    udf = Gain(gain_map=Gain.aux_data(gain_map, kind="sig"))
    res = ctx.run_udf(dataset=dataset, udf=udf)
    assert np.allclose(res["total"].data, (data * gain_map).sum(axis=(2, 3)))
