"""The code of the specification's advanced topics of UDFs, with the results that it promises.

One test per block, in the order of the text. The blocks are as published, but for the name of
the package; ``test_under_the_other_name`` runs them under the original one.
"""

import functools
import sys

import numpy as np
import pytest

from framefold.udf import UDF


def test_mask_container_with_tiles(ctx, dataset):
    """Tiled processing, post-processing and task data: three blocks that make one UDF."""
    if "libertem" not in sys.modules:
        pytest.skip("libertem_blobfinder imports libertem: run by test_under_the_other_name")
    correlation = pytest.importorskip("libertem_blobfinder.base.correlation")
    from libertem_blobfinder.common.patterns import RadialGradient
    from libertem_blobfinder.udf.correlation import SparseCorrelationUDF

    import framefold.masks as masks
    from framefold.common.container import MaskContainer

    log_scale = correlation.log_scale
    evaluate_correlations = correlation.evaluate_correlations

    def process_tile(self, tile):
        tile_slice = self.meta.slice
        c = self.task_data.mask_container
        tile_t = np.zeros((np.prod(tile.shape[1:]), tile.shape[0]), dtype=tile.dtype)
        log_scale(tile.reshape((tile.shape[0], -1)).T, out=tile_t)

        sl = c.get(key=tile_slice, transpose=False)
        self.results.corr[:] += sl.dot(tile_t).T

    def postprocess(self):
        steps = 2 * self.params.steps + 1
        corrmaps = self.results.corr.reshape(
            (
                -1,  # frames
                len(self.params.peaks),  # peaks
                steps,  # Y steps
                steps,  # X steps
            )
        )
        peaks = self.params.peaks
        (centers, refineds, peak_values, peak_elevations) = self.output_buffers()
        for f in range(corrmaps.shape[0]):
            evaluate_correlations(
                corrs=corrmaps[f],
                peaks=peaks,
                crop_size=self.params.steps,
                out_centers=centers[f],
                out_refineds=refineds[f],
                out_heights=peak_values[f],
                out_elevations=peak_elevations[f],
            )

    def get_task_data(self):
        match_pattern = self.params.match_pattern
        crop_size = match_pattern.get_crop_size()
        size = (2 * crop_size + 1, 2 * crop_size + 1)
        template = match_pattern.get_mask(sig_shape=size)
        steps = self.params.steps
        peak_offset_y, peak_offset_x = np.mgrid[-steps : steps + 1, -steps : steps + 1]

        offset_y = self.params.peaks[:, 0, np.newaxis, np.newaxis] + peak_offset_y - crop_size
        offset_x = self.params.peaks[:, 1, np.newaxis, np.newaxis] + peak_offset_x - crop_size

        offset_y = offset_y.flatten()
        offset_x = offset_x.flatten()

        stack = functools.partial(
            masks.sparse_template_multi_stack,
            mask_index=range(len(offset_y)),
            offsetX=offset_x,
            offsetY=offset_y,
            template=template,
            imageSizeX=self.meta.dataset_shape.sig[1],
            imageSizeY=self.meta.dataset_shape.sig[0],
        )
        # CSC matrices in combination with transposed data are fastest
        container = MaskContainer(
            mask_factories=stack, dtype=np.float32, use_sparse="scipy.sparse.csc"
        )

        kwargs = {
            "mask_container": container,
            "crop_size": crop_size,
        }
        return kwargs

    class TestUDF(SparseCorrelationUDF):
        pass

    TestUDF.process_tile = process_tile
    TestUDF.postprocess = postprocess
    TestUDF.get_task_data = get_task_data

    u = TestUDF(peaks=np.array([(8, 8)]), match_pattern=RadialGradient(2), steps=3)
    res = ctx.run_udf(dataset=dataset, udf=u)

    unchanged = SparseCorrelationUDF(
        peaks=np.array([(8, 8)]), match_pattern=RadialGradient(2), steps=3
    )
    expected = ctx.run_udf(dataset=dataset, udf=unchanged)
    assert set(res) == set(expected)
    for name, buffer in expected.items():
        assert np.allclose(res[name].data, buffer.data, equal_nan=True), name


def test_precedence(ctx, dataset):
    class Frame(UDF):
        def get_result_buffers(self):
            return {"ndim": self.buffer("nav", dtype=int), "by": self.buffer("nav", dtype=object)}

        def note(self, name, pixels):
            self.results.ndim[:] = pixels.ndim
            self.results.by[:] = name

        def process_frame(self, frame):
            self.note("frame", frame)

        def process_partition(self, partition):
            self.note("partition", partition)

    class Tile(Frame):
        def process_tile(self, tile):
            self.note("tile", tile)

    class Chosen(Tile):
        def get_method(self):
            return self.UDF_METHOD.PARTITION

    for udf, name, ndim in [(Frame(), "frame", 2), (Tile(), "tile", 3), (Chosen(), "partition", 3)]:
        res = ctx.run_udf(dataset=dataset, udf=udf)
        assert set(res["by"].data.reshape(-1)) == {name}
        assert (res["ndim"].data == ndim).all()


class AverageUDF(UDF):
    """
    Like SumUDF, but also computes the average
    """

    def get_result_buffers(self):
        return {
            "sum": self.buffer(kind="sig", dtype=np.float32),
            "num_frames": self.buffer(kind="single", dtype=np.uint64),
            "average": self.buffer(kind="sig", dtype=np.float32, use="result_only"),
        }

    def process_frame(self, frame):
        self.results.sum[:] += frame
        self.results.num_frames[:] += 1

    def merge(self, dest, src):
        dest.sum[:] += src.sum
        dest.num_frames[:] += src.num_frames

    def get_results(self):
        return {
            # NOTE: 'sum' omitted here, will be returned unchanged
            "average": self.results.sum / self.results.num_frames,
        }


def test_post_processing_after_merging(ctx, dataset, data):
    res = ctx.run_udf(dataset=dataset, udf=AverageUDF())
    assert list(res) == ["sum", "num_frames", "average"]
    assert np.allclose(res["sum"].data, data.sum(axis=(0, 1)))
    assert res["num_frames"].data == [256]
    assert np.allclose(res["average"].data, data.mean(axis=(0, 1)))
    assert res["average"].data.dtype == np.float32


def test_aux_data(ctx, dataset, data):
    class Weighted(UDF):
        def get_result_buffers(self):
            return {"weighted": self.buffer("nav")}

        def process_frame(self, frame):
            assert self.params.weight.shape == (1,)
            assert self.params.window.shape == (32, 32)
            self.results.weighted[:] = self.params.weight * np.sum(frame * self.params.window)

    weight = np.arange(256, dtype=np.float32).reshape(16, 16)
    window = np.hanning(32)[:, np.newaxis] * np.hanning(32)
    udf = Weighted(
        weight=Weighted.aux_data(data=weight, kind="nav", dtype="float32"),
        window=Weighted.aux_data(data=window, kind="sig", dtype="float64"),
    )
    res = ctx.run_udf(dataset=dataset, udf=udf)
    assert np.allclose(res["weighted"].data, weight * (data * window).sum(axis=(2, 3)))


class PixelsumUDF(UDF):
    def get_result_buffers(self):
        if self.meta.roi is not None:
            navsize = np.count_nonzero(self.meta.roi)
        else:
            navsize = np.prod(self.meta.dataset_shape.nav)
        return {
            "pixelsum_nav_raw": self.buffer(
                kind="single",
                dtype=self.meta.dataset_dtype,
                extra_shape=(navsize,),
            )
        }

    def merge(self, dest, src):
        dest.pixelsum_nav_raw[:] += src.pixelsum_nav_raw

    def process_frame(self, frame):
        np_slice = self.meta.slice.get(nav_only=True)
        self.results.pixelsum_nav_raw[np_slice] = np.sum(frame)


def test_roi_and_current_slice(ctx, dataset, roi):
    pixelsum = PixelsumUDF()
    res = ctx.run_udf(dataset=dataset, udf=pixelsum, roi=roi)

    assert np.allclose(res["pixelsum_nav_raw"].data, dataset.data[roi].sum(axis=(1, 2)))

    res = ctx.run_udf(dataset=dataset, udf=pixelsum)
    assert np.allclose(res["pixelsum_nav_raw"].data, dataset.data.sum(axis=(2, 3)).reshape(-1))


class CoordUDF(UDF):
    def get_result_buffers(self):
        # Declare a buffer that fits the coordinates,
        # i.e. one int per nav axis for each nav position
        nav_dims = len(self.meta.dataset_shape.nav)
        return {
            "coords": self.buffer(
                kind="nav",
                dtype=int,
                extra_shape=(nav_dims,),
            )
        }

    def process_tile(self, tile):
        # Simply copy the coordinates into
        # the result buffer
        self.results.coords[:] = self.meta.coordinates


def test_coordinates(ctx, dataset):
    my_roi = np.zeros(dataset.shape.nav, dtype=bool)
    my_roi[7, 13] = True
    my_roi[11, 3] = True

    res = ctx.run_udf(dataset=dataset, udf=CoordUDF(), roi=my_roi)

    assert np.all(res["coords"].raw_data == np.array([(7, 13), (11, 3)]))


def test_preferred_input_dtype(ctx):
    class Native(UDF):
        def get_preferred_input_dtype(self):
            return self.USE_NATIVE_DTYPE

        def get_result_buffers(self):
            return {"dtype": self.buffer("nav", dtype=object)}

        def process_frame(self, frame):
            assert frame.dtype == self.meta.input_dtype
            self.results.dtype[:] = frame.dtype.name

    class Default(Native):
        def get_preferred_input_dtype(self):
            return UDF.get_preferred_input_dtype(self)

    for dtype in ["uint8", "int32", "float64", "complex64", ">u2"]:
        dataset = ctx.load("memory", data=np.ones((2, 2, 4, 4), dtype=dtype), sig_dims=2)
        native = ctx.run_udf(dataset=dataset, udf=Native())["dtype"].data
        assert set(native.reshape(-1)) == {np.dtype(dtype).name}
        default = ctx.run_udf(dataset=dataset, udf=Default())["dtype"].data
        assert set(default.reshape(-1)) == {np.result_type(dtype, np.float32).name}


class SumSigUDF(UDF):
    def get_backends(self):
        # Support all recommended array backends
        # Please note that their APIs can differ so that comprehensive
        # tests with all supported backends are required
        return self.BACKEND_ALL

    def get_result_buffers(self):
        dtype = np.result_type(self.meta.input_dtype, np.float32)
        return {
            "intensity": self.buffer(
                kind="nav",
                dtype=dtype,
                where="device",
            ),
        }

    def process_tile(self, tile):
        # Show the backend that is currently used
        print(self.meta.array_backend)

        self.results.intensity[:] += self.forbuf(
            np.sum(
                # Flatten and sum axis 1 for cupyx.scipy.sparse support
                tile.reshape((tile.shape[0], -1)),
                axis=1,
            ),
            self.results.intensity,
        )


def test_device_buffers_and_all_array_formats_on_dense_data(ctx, dataset, data, capsys):
    res = ctx.run_udf(dataset=dataset, udf=SumSigUDF())
    assert np.allclose(res["intensity"].data, data.sum(axis=(2, 3)))
    assert set(capsys.readouterr().out.split()) == {UDF.BACKEND_NUMPY}


def test_sparse_example(ctx, capsys):
    # Empty memory dataset for testing that returns SCIPY_CSR tiles
    ds = ctx.load(
        "memory",
        datashape=(23, 42, 17, 4),
        sig_dims=2,
        array_backends=(UDF.BACKEND_SCIPY_CSR,),
        num_partitions=2,
    )

    res = ctx.run_udf(dataset=ds, udf=SumSigUDF())

    assert capsys.readouterr().out.split() == ["scipy.sparse.csr_matrix", "scipy.sparse.csr_matrix"]
    assert res["intensity"].data.shape == (23, 42)
    assert not res["intensity"].data.any()


@pytest.mark.parametrize(
    "backend", sorted(UDF.CPU_BACKENDS & set(UDF.BACKEND_ALL) - {UDF.BACKEND_NUMPY})
)
def test_data_sets_of_each_sparse_format(ctx, data, backend, capsys):
    data = data[:4]  # plain loops make some of these formats
    sparse = np.where(data > 0.9, data, 0)
    how = {"sig_dims": 2, "num_partitions": 16, "array_backends": (backend,)}
    ds = ctx.load("memory", data=sparse, **how)
    res = ctx.run_udf(dataset=ds, udf=SumSigUDF())
    assert np.allclose(res["intensity"].data, sparse.sum(axis=(2, 3)))
    # Threads may print between the text and the end of the line of others.
    assert set(capsys.readouterr().out.replace(backend, f" {backend} ").split()) == {backend}


@pytest.mark.parametrize("backend", UDF.BACKEND_ALL)
def test_the_sparse_example_restricted_to_one_format(ctx, data, backend, capsys):
    data = data[:3, :4]  # plain loops make some of these formats
    dataset = ctx.load("memory", data=data, sig_dims=2)
    if backend in UDF.CUPY_BACKENDS:
        with pytest.raises(NotImplementedError, match="takes no array format that is to be had"):
            ctx.run_udf(dataset=dataset, udf=SumSigUDF(), backends=(backend,))
        return
    pytest.importorskip("sparseconverter", reason="sparseconverter is not installed")
    res = ctx.run_udf(dataset=dataset, udf=SumSigUDF(), backends=(backend,))
    assert np.allclose(res["intensity"].data, data.sum(axis=(2, 3)))
    # Threads may print between the text and the end of the line of others.
    assert set(capsys.readouterr().out.replace(backend, f" {backend} ").split()) == {backend}


@pytest.mark.parametrize("backend", ["cupy", "cuda"])
def test_formats_for_cuda_need_a_cuda_worker(ctx, dataset, backend):
    class OnlyThis(SumSigUDF):
        def get_backends(self):
            return (backend,)

    with pytest.raises(NotImplementedError, match=f"OnlyThis takes no .*'{backend}' needs a CUDA"):
        ctx.run_udf(dataset=dataset, udf=OnlyThis())


def test_auto_udf(ctx, dataset, data):
    result = ctx.map(dataset=dataset, f=functools.partial(np.sum, axis=-1))

    # or alternatively:
    from framefold.udf import AutoUDF

    udf = AutoUDF(f=functools.partial(np.sum, axis=-1))
    result_2 = ctx.run_udf(dataset=dataset, udf=udf)

    assert np.allclose(result.data, data.sum(axis=-1))
    assert np.array_equal(result.data, result_2["result"].data)


def test_merge_all_is_left_to_the_executors_that_use_it(ctx, dataset, data):
    class SumAll(UDF):
        def get_result_buffers(self):
            return {"intensity": self.buffer("sig")}

        def process_frame(self, frame):
            self.results.intensity += frame

        def merge(self, dest, src):
            dest.intensity += src.intensity

        def merge_all(self, ordered_results):
            intensity = np.stack([b.intensity for b in ordered_results.values()]).sum(axis=0)
            return {"intensity": intensity}

    res = ctx.run_udf(dataset=dataset, udf=SumAll())
    assert np.allclose(res["intensity"].data, data.sum(axis=(0, 1)))
