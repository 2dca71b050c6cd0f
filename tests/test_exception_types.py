"""Scripts catch what the reference raises: our exceptions derive from that, too."""

from __future__ import annotations

import pickle
import warnings

import numpy as np
import pytest

import framefold as ff
from framefold import exceptions
from framefold.udf import UDF
from framefold.warnings import UseDiscouragedWarning


class Plain(UDF):
    """One number for each frame."""

    def get_result_buffers(self):
        return {"x": self.buffer("nav")}

    def process_frame(self, frame):
        self.results.x[:] = 1


def like(**members):
    """A UDF with these members, the others as :class:`Plain` has them."""
    return type("Mine", (Plain,), members)()


@pytest.fixture
def dataset(ctx):
    return ctx.load("memory", data=np.ones((4, 5, 6, 7), np.float32), sig_dims=2)


@pytest.mark.parametrize(
    ("udf", "expected"),
    [
        (like(get_result_buffers=lambda self: {"x": self.buffer("sig")}), NotImplementedError),
        (like(get_results=lambda self: {"y": np.zeros(20)}), KeyError),
        (like(get_results=lambda self: {"x": np.zeros(19)}), ValueError),
        (like(get_result_buffers=lambda self: {"x": self.buffer("navi")}), ValueError),
        (Plain, TypeError),
        ([], ValueError),
    ],
)
def test_of_udfs(ctx, dataset, udf, expected):
    with pytest.raises(expected) as caught:
        ctx.run_udf(dataset, udf)
    assert isinstance(caught.value, exceptions.FramefoldError)
    assert not str(caught.value).startswith(("'", '"'))  # as KeyError alone would show it


@pytest.mark.parametrize("returned", [{"y": np.zeros(20)}, {"x": np.zeros(3)}])
def test_of_merge_all(returned):
    pytest.importorskip("dask")
    with ff.Context.make_with("delayed") as ctx:
        dataset = ctx.load("memory", data=np.ones((4, 5, 6, 7), np.float32), sig_dims=2)
        udf = like(merge_all=lambda self, ordered_results: returned)
        with pytest.raises(ValueError, match="merge_all returned"):
            ctx.run_udf(dataset, udf)


@pytest.mark.parametrize("kind", ["raw", "npy", "hdf5", "auto"])
def test_of_files_that_are_not_there(ctx, tmp_path, kind):
    options = {"nav_shape": (2, 2), "sig_shape": (2, 2), "dtype": "f4"} if kind == "raw" else {}
    with pytest.raises(FileNotFoundError, match="nowhere") as caught:
        ctx.load(kind, path=tmp_path / "nowhere", **options)
    assert isinstance(caught.value, exceptions.FileAccessError)
    assert caught.value.path == str(tmp_path / "nowhere")


@pytest.mark.parametrize("missing", ["nav_shape", "sig_shape", "dtype"])
def test_of_arguments_that_are_missing(ctx, tmp_path, missing):
    path = tmp_path / "frames.raw"
    np.zeros((4, 4), np.float32).tofile(path)
    options = {"nav_shape": (2, 2), "sig_shape": (2, 2), "dtype": "f4"}
    del options[missing]
    with pytest.raises(TypeError, match=missing):
        ctx.load("raw", path=path, **options)


@pytest.mark.parametrize("kind", ["raw", "memory", "hdf5"])
def test_of_arguments_that_there_are_not(ctx, tmp_path, kind):
    path = tmp_path / "frames.raw"
    np.zeros((4, 4), np.float32).tofile(path)
    where = {"data": np.zeros((3, 4, 4))} if kind == "memory" else {"path": path}
    with pytest.raises(TypeError, match="nonsense"):
        ctx.load(kind, **where, nonsense=1)


@pytest.mark.parametrize(
    "cls",
    [
        exceptions.ArgumentTypeError,
        exceptions.MissingFileError,
        exceptions.MissingMergeError,
        exceptions.UndeclaredResultError,
        exceptions.InvalidResultError,
    ],
)
def test_they_travel(cls):
    again = pickle.loads(pickle.dumps(cls("what it says")))
    assert type(again) is cls
    assert str(again) == "what it says"


def test_item_access_is_discouraged_once_for_each_run(ctx):
    dataset = ctx.load("memory", data=np.ones((40, 6, 7), np.float32), num_partitions=10)

    class Items(Plain):
        def process_frame(self, frame):
            self.results["x"][:] = 1

        def merge(self, dest, src):
            dest["x"][:] = src["x"]

        def get_results(self):
            return {"x": self.results["x"]}

    for _ in range(2):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            ctx.run_udf(dataset, Items())
        ours = [each for each in caught if each.category is UseDiscouragedWarning]
        assert len(ours) == 1
