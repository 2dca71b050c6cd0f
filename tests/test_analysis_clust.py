"""Clusters of positions of the scan."""

from __future__ import annotations

import numpy as np
import pytest
from shared_contexts import shared

import framefold as ff
from framefold.analysis import ClusterAnalysis
from framefold.exceptions import InvalidArgumentError

RING = {"cx": 8, "cy": 7.5, "ri": 1, "ro": 7}
SIG = (16, 15)


@pytest.fixture
def libraries():
    pytest.importorskip("skimage", reason="scikit-image is not installed")
    pytest.importorskip("sklearn", reason="scikit-learn is not installed")


def run(data, executor="inline", **parameters):
    with shared(executor) as ctx:
        ds = ctx.load("memory", data=data, sig_dims=2, num_partitions=3)
        return ctx.run(ClusterAnalysis(ds, {**RING, "min_dist": 1, **parameters})).intensity


def in_shapes():
    """A scan of four regions, in three of which another pixel is bright; noise beyond the ring."""
    data = np.random.default_rng(3).random((9, 8, *SIG), dtype=np.float32) + 1
    data[:4, :3, 5, 6] += 20
    data[:4, 3:, 9, 10] += 20
    data[4:, :5, 11, 6] += 20
    data[::2, ::2, 15, 14] += 100
    regions = np.zeros((9, 8), dtype=int)
    regions[:4, 3:], regions[4:, :5], regions[4:, 5:] = 1, 2, 3
    return data, regions


@pytest.mark.parametrize("executor", ["inline", "threads"])
def test_regions_that_differ_are_clusters(libraries, executor):
    data, regions = in_shapes()
    found = run(data, executor, n_peaks=3, n_clust=4)
    assert found.raw_data.shape == (9, 8)
    assert sorted(np.unique(found)) == [1, 2, 3, 4]
    pairs = {*zip(regions.ravel(), np.ravel(found), strict=True)}
    assert len(pairs) == 4


def test_pixels_are_those_that_deviate_most_in_the_shape(libraries):
    data, regions = in_shapes()
    # On the right only one pixel is bright or not, all others are noise.
    roi = {"shape": "rect", "x": 5, "y": 0, "width": 2, "height": 8}
    found = np.asarray(run(data, n_peaks=1, n_clust=2, roi=roi))
    assert len({*zip((regions == 1).ravel(), found.ravel(), strict=True)}) == 2


def test_equal_to_the_libraries_by_hand(libraries):
    from skimage.feature import peak_local_max
    from sklearn.cluster import AgglomerativeClustering
    from sklearn.feature_extraction.image import grid_to_graph

    y, x = np.indices(SIG)
    distance = np.hypot(y - RING["cy"], x - RING["cx"])
    ring = (distance > RING["ri"]) & (distance <= RING["ro"])
    for seed in range(4):
        rng = np.random.default_rng(seed)
        data = (rng.random((7, 6, *SIG)) * rng.random(SIG) + rng.random(SIG)).astype(np.float32)
        peaks = peak_local_max(
            np.where(ring, data.std(axis=(0, 1)), 0), num_peaks=5, min_distance=1
        )
        values = data[:, :, peaks[:, 0], peaks[:, 1]].reshape((42, 5))
        clusters = AgglomerativeClustering(4, connectivity=grid_to_graph(7, 6), linkage="ward")
        expected = clusters.fit(values / values.mean(axis=0)).labels_ + 1
        assert np.array_equal(run(data, n_peaks=5, n_clust=4), expected.reshape((7, 6)))


def test_what_cannot_be(libraries):
    data, _ = in_shapes()
    with pytest.raises(InvalidArgumentError, match="needs n_peaks, n_clust, too"):
        run(data)
    with pytest.raises(InvalidArgumentError, match="no pixel of the ring"):
        run(np.ones((4, 5, *SIG), dtype=np.float32), n_peaks=3, n_clust=2)
    ctx = ff.Context.make_with("inline")
    line = ctx.load("memory", data=data.reshape((72, *SIG)), sig_dims=2)
    with pytest.raises(InvalidArgumentError, match="two navigation axes"):
        ClusterAnalysis(line, {**RING, "min_dist": 1, "n_peaks": 3, "n_clust": 2})
    ds = ctx.load("memory", data=data, sig_dims=2)
    waiting = ClusterAnalysis(ds, {**RING, "min_dist": 1, "n_peaks": 3, "n_clust": 2})
    with pytest.raises(InvalidArgumentError, match=r"use ctx\.run"):
        waiting.get_udf()
    with pytest.raises(InvalidArgumentError, match="roi"):
        ctx.run(waiting, roi=np.ones((9, 8), dtype=bool))
