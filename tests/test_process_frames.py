"""``process_frames``: whole frames, some at a time."""

from __future__ import annotations

import numpy as np
import pytest
from shared_contexts import shared

import framefold as ff
from framefold.udf.base import UDFException, UDFMethod

DATA = np.random.default_rng(3).integers(0, 900, (7, 9, 12, 10)).astype("uint16")


class Spectra(ff.UDF):
    """The mean power spectrum, and how deep the stacks were."""

    def get_result_buffers(self):
        return {
            "power": self.buffer(kind="sig", dtype="float64"),
            "total": self.buffer(kind="nav", dtype="float64"),
            "stack": self.buffer(kind="nav", dtype=int),
            "first": self.buffer(kind="nav", dtype=int),
        }

    def process_frames(self, frames):
        assert frames.shape[1:] == tuple(self.meta.dataset_shape.sig)
        assert frames.flags.c_contiguous
        self.results.power += (np.abs(np.fft.fft2(frames)) ** 2).sum(axis=0)
        self.results.total[:] = frames.sum(axis=(1, 2), dtype="float64")
        self.results.stack[:] = len(frames)
        self.results.first[:] = self.meta.slice.origin[0]

    def merge(self, dest, src):
        dest.power += src.power
        for name in ("total", "stack", "first"):
            getattr(dest, name)[:] = getattr(src, name)


class Deep(Spectra):
    """With a wish."""

    def __init__(self, depth, total_size=float("inf")):
        super().__init__(depth=depth, total_size=total_size)

    def get_tiling_preferences(self):
        return {"depth": self.params.depth, "total_size": self.params.total_size}


class AlsoFrame(Spectra):
    """Stacks come before single frames."""

    def process_frame(self, frame):
        raise AssertionError("process_frames comes first")


class AlsoTile(Spectra):
    """Tiles come before stacks."""

    def process_tile(self, tile):
        self.results.total += tile.sum(axis=(1, 2))

    def process_frames(self, frames):
        raise AssertionError("process_tile comes first")


@pytest.fixture(params=["inline", "threads", "processes"])
def ctx(request):
    with shared(request.param) as ctx:
        yield ctx


@pytest.fixture
def here():
    with ff.Context.make_with("inline") as ctx:
        yield ctx


def power(data):
    return (np.abs(np.fft.fft2(data.reshape(-1, *data.shape[-2:]).astype("f8"))) ** 2).sum(axis=0)


def check(results, data=DATA, mask=None):
    chosen = data if mask is None else data[mask]
    assert np.allclose(results["power"].data, power(chosen))
    expected = chosen.sum(axis=(-1, -2)).reshape(-1)
    assert np.array_equal(results["total"].raw_data, expected)


@pytest.mark.parametrize("partitions", [1, 4])
def test_every_frame_is_seen_once(ctx, partitions):
    dataset = ctx.load("memory", data=DATA, sig_dims=2, num_partitions=partitions)
    check(ctx.run_udf(dataset=dataset, udf=Spectra()))
    results = ctx.run_udf(dataset=dataset, udf=Deep(4))
    check(results)
    assert results["stack"].data.max() == 4
    # Stacks begin where partitions begin, and the last of each may be shorter.
    stack, first = results["stack"].raw_data, results["first"].raw_data
    assert all(first[i] <= i < first[i] + stack[i] for i in range(63))


@pytest.mark.parametrize(
    ("wish", "deepest"),
    [
        ((5,), 5),
        ((float("inf"),), 63),
        ((ff.UDF.TILE_DEPTH_MAX, 120 * 4 * 7), 7),
        ((20, 120 * 4 * 7), 7),
        ((20, 1), 1),
        ((1,), 1),
    ],
)
def test_wishes_for_the_depth(here, wish, deepest):
    dataset = here.load("memory", data=DATA, sig_dims=2, num_partitions=1)
    results = here.run_udf(dataset=dataset, udf=Deep(*wish))
    check(results)
    assert results["stack"].data.max() == deepest


def test_without_a_wish_stacks_fit_the_cache(here):
    data = np.ones((40, 256, 256), dtype="float32")
    dataset = here.load("memory", data=data, sig_dims=2, num_partitions=1)
    stack = here.run_udf(dataset=dataset, udf=Spectra())["stack"].data
    assert set(stack) == {4}
    # Frames that are larger than that come one by one, and whole.
    data = np.ones((3, 1030, 1030), dtype="uint8")
    dataset = here.load("memory", data=data, sig_dims=2)
    assert set(here.run_udf(dataset=dataset, udf=Spectra())["stack"].data) == {1}


def test_the_smallest_wish_of_a_run_counts(here):
    dataset = here.load("memory", data=DATA, sig_dims=2, num_partitions=1)
    all_of_them = here.run_udf(dataset=dataset, udf=[Deep(3), Deep(8), ff.SumUDF(), Spectra()])
    for results in (all_of_them[0], all_of_them[1], all_of_them[3]):
        check(results)
        assert results["stack"].data.max() == 3
    assert np.array_equal(all_of_them[2]["intensity"].data, DATA.sum(axis=(0, 1)))


def test_precedence(here):
    dataset = here.load("memory", data=DATA, sig_dims=2)
    check(here.run_udf(dataset=dataset, udf=AlsoFrame()))
    total = here.run_udf(dataset=dataset, udf=AlsoTile())["total"].data
    assert np.array_equal(total, DATA.sum(axis=(2, 3)))
    assert Spectra().get_method() == UDFMethod.FRAMES == "frames"


def test_regions_gaps_and_other_shapes(ctx):
    dataset = ctx.load("memory", data=DATA, sig_dims=2, num_partitions=3)
    mask = np.random.default_rng(1).random(DATA.shape[:2]) < 0.4
    for udf in (Spectra(), Deep(4)):
        check(ctx.run_udf(dataset=dataset, udf=udf, roi=mask), mask=mask)
    lines = ctx.load("memory", data=DATA.reshape(63, 120), sig_dims=1)

    class Lines(Spectra):
        def process_frames(self, frames):
            self.results.total[:] = frames.sum(axis=1)

    found = ctx.run_udf(dataset=lines, udf=Lines())["total"].data
    assert np.array_equal(found, DATA.sum(axis=(2, 3)).reshape(-1))


def test_columns_in_chunks(here, tmp_path):
    h5py = pytest.importorskip("h5py")
    with h5py.File(tmp_path / "a.h5", "w") as file:
        file.create_dataset("data", data=DATA, chunks=(1, 4, 5, 3), compression="gzip")
    dataset = here.load("hdf5", tmp_path / "a.h5", ds_path="data")
    check(here.run_udf(dataset=dataset, udf=Deep(6)))


def test_aux_data_are_those_of_the_stack(ctx):
    class Scaled(Spectra):
        def process_frames(self, frames):
            self.results.total[:] = (frames * self.params.image).sum(axis=(1, 2)) * self.params.each

    each, image = np.arange(63.0), np.random.default_rng(5).random((12, 10))
    udf = Scaled(
        each=ff.UDF.aux_data(each, kind="nav", dtype="float64"),
        image=ff.UDF.aux_data(image, kind="sig", dtype="float64"),
    )
    dataset = ctx.load("memory", data=DATA, sig_dims=2, num_partitions=4)
    found = ctx.run_udf(dataset=dataset, udf=udf)["total"].raw_data
    assert np.allclose(found, (DATA * image).sum(axis=(2, 3)).reshape(-1) * each)


def test_what_writes_into_frames_gets_copies(ctx):
    class Writes(Spectra):
        def process_frames(self, frames):
            frames -= frames.min(axis=(1, 2), keepdims=True)
            super().process_frames(frames)

    dataset = ctx.load("memory", data=DATA, sig_dims=2)
    lowest = DATA.min(axis=(2, 3), keepdims=True)
    check(ctx.run_udf(dataset=dataset, udf=Writes()), data=DATA - lowest)


def test_sparse_arrays(here):
    scipy_sparse = pytest.importorskip("scipy.sparse")
    data = np.where(DATA > 700, DATA, 0)

    class Rows(Spectra):
        def get_backends(self):
            return (self.BACKEND_SCIPY_CSR,)

        def process_frames(self, frames):
            assert scipy_sparse.issparse(frames)
            self.results.total[:] = np.asarray(frames.sum(axis=1)).reshape(-1)
            self.results.stack[:] = frames.shape[0]

    dense = here.load("memory", data=data, sig_dims=2, num_partitions=2)
    sparse = here.load(
        "memory",
        data=scipy_sparse.csr_matrix(data.reshape(63, 120)),
        nav_shape=(7, 9),
        sig_shape=(12, 10),
        num_partitions=2,
    )
    for dataset in (dense, sparse):
        results = here.run_udf(dataset=dataset, udf=Rows())
        assert np.array_equal(results["total"].data, data.sum(axis=(2, 3)))
        assert results["stack"].data.max() > 1


def test_classes_that_derive_from_ours(here):
    class Shifted(ff.StdDevUDF):
        def process_frames(self, frames):
            self.process_tile(frames + 1)

    dataset = here.load("memory", data=DATA, sig_dims=2)
    mean = here.run_udf(dataset=dataset, udf=Shifted())["mean"].data
    assert np.allclose(mean, DATA.mean(axis=(0, 1)) + 1)


def test_mistakes(here):
    dataset = here.load("memory", data=DATA, sig_dims=2)

    class Fails(Spectra):
        def process_frames(self, frames):
            raise KeyError("here")

    with pytest.raises(KeyError, match="here") as caught:
        here.run_udf(dataset=dataset, udf=Fails())
    assert "frames 0 to " in "".join(caught.value.__notes__)

    class Yields(Spectra):
        def process_frames(self, frames):
            yield frames

    with pytest.raises(UDFException, match=r"Yields\.process_frames has a 'yield' in it"):
        here.run_udf(dataset=dataset, udf=Yields())


def test_the_plan_says_so(here):
    dataset = here.load("memory", data=DATA, sig_dims=2)
    assert "stacks of whole frames" in str(here.explain(dataset, Deep(4)))
