"""libertem-blobfinder, as published, runs on framefold and finds what it should."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import package_cases as cases
import pytest

import framefold as ff
from framefold.udf.masks import ApplyMasksUDF
from framefold.udf.sum import SumUDF

pytest.importorskip(
    "libertem_blobfinder",
    reason="libertem-blobfinder is not installed; requirements-dev.txt lists it",
)


@pytest.fixture(scope="module", autouse=True)
def libertem() -> None:
    """The package imports libertem's modules."""
    ff.install_as_libertem()


@pytest.fixture
def frames() -> Any:
    return cases.lattice_scan().frames


@pytest.fixture
def scan(ctx: ff.Context, frames: Any) -> Any:
    return ctx.load("memory", data=frames, sig_dims=2, num_partitions=3)


def test_results_are_those_on_libertem(ctx: ff.Context, scan: Any) -> None:
    found = cases.blobfinder_results(ctx, scan)
    expected = {k: v for k, v in cases.expected().items() if not k.startswith("ssb")}
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        assert found[name].shape == values.shape, name
        np.testing.assert_allclose(found[name], values, rtol=1e-4, atol=1e-4, err_msg=name)


@pytest.mark.parametrize("correlation", cases.CORRELATIONS)
def test_lattices_are_found_between_the_pixels(
    ctx: ff.Context, scan: Any, correlation: str
) -> None:
    from libertem_blobfinder.common.gridmatching import Matcher
    from libertem_blobfinder.common.patterns import RadialGradient
    from libertem_blobfinder.udf.refinement import run_refine

    truth = cases.lattice_scan()
    result, used = run_refine(
        ctx,
        scan,
        **truth.start(),
        match_pattern=RadialGradient(cases.RADIUS),
        matcher=Matcher(),
        correlation=correlation,
        indices=truth.indices,
        steps=4,
    )
    assert len(used) == 17
    assert result["selector"].data.all()
    for name in ("zero", "a", "b"):
        # The mean lattice, from which the search starts, is off by much more.
        assert np.abs(truth.start()[name] - getattr(truth, name)).max() > 0.4
        np.testing.assert_allclose(result[name].data, getattr(truth, name), atol=0.15)


@pytest.mark.parametrize("correlation", cases.CORRELATIONS)
def test_disks_of_the_packages_own_pattern_are_where_it_says(
    ctx: ff.Context, correlation: str
) -> None:
    """The frame and the tolerance of the package's documentation."""
    from libertem_blobfinder.base.utils import cbed_frame
    from libertem_blobfinder.common.gridmatching import Matcher
    from libertem_blobfinder.common.patterns import RadialGradient
    from libertem_blobfinder.udf.refinement import run_refine

    frame, indices, peaks = cbed_frame(radius=4)
    dataset = ctx.load("memory", data=np.repeat(frame, 5, axis=0), sig_dims=2, num_partitions=2)
    result, used = run_refine(
        ctx,
        dataset,
        zero=np.array([64, 64]),
        a=np.array([16, 0]),
        b=np.array([0, 16]),
        match_pattern=RadialGradient(radius=4),
        matcher=Matcher(),
        correlation=correlation,
        indices=indices,
        steps=3,
    )
    known = {tuple(order): peak for order, peak in zip(indices, peaks, strict=True)}
    truth = np.array([known[tuple(order)] for order in used])
    assert len(truth) == 49
    np.testing.assert_allclose(
        result["refineds"].data, np.broadcast_to(truth, (5, 49, 2)), atol=0.1
    )


@cache
def found_in_arrays(upsample: bool | int) -> list[Any]:
    """What the package's functions for NumPy arrays find, the fast one and that of full frames."""
    from libertem_blobfinder.common.correlation import process_frames_fast, process_frames_full
    from libertem_blobfinder.common.patterns import RadialGradient

    scan = cases.lattice_scan()
    pattern, peaks = RadialGradient(cases.RADIUS), cases.lattice_peaks(scan)
    stack = scan.frames.reshape(-1, *scan.frames.shape[2:]).astype(np.float32)
    return [
        process(pattern=pattern, frames=stack, peaks=peaks, upsample=upsample)
        for process in (process_frames_fast, process_frames_full)
    ]


@pytest.mark.parametrize("upsample", [False, 10])
def test_frames_give_what_the_package_finds_in_arrays(
    ctx: ff.Context, scan: Any, frames: Any, upsample: bool | int
) -> None:
    """The package's functions for NumPy arrays do the same without any UDF."""
    from libertem_blobfinder.common.patterns import RadialGradient
    from libertem_blobfinder.udf.correlation import FastCorrelationUDF, FullFrameCorrelationUDF

    pattern, peaks = RadialGradient(cases.RADIUS), cases.lattice_peaks(cases.lattice_scan())
    options = {"peaks": peaks, "match_pattern": pattern, "upsample": upsample}
    udfs = [FastCorrelationUDF(**options), FullFrameCorrelationUDF(**options), SumUDF()]
    *correlated, total = ctx.run_udf(dataset=scan, udf=udfs)
    np.testing.assert_array_equal(total["intensity"].data, frames.sum(axis=(0, 1)))

    for result, parts in zip(correlated, found_in_arrays(upsample), strict=True):
        names = ("centers", "refineds", "peak_values", "peak_elevations")
        for name, part in zip(names, parts, strict=True):
            expected = part.reshape(3, 4, *part.shape[1:])
            np.testing.assert_allclose(
                result[name].data, expected, rtol=1e-5, atol=1e-5, err_msg=name
            )


def test_zero_shift_and_roi_follow_each_frame(ctx: ff.Context, scan: Any, frames: Any) -> None:
    from libertem_blobfinder.common.correlation import process_frames_fast
    from libertem_blobfinder.common.patterns import Circular
    from libertem_blobfinder.udf.correlation import FastCorrelationUDF, run_fastcorrelation

    pattern, peaks = Circular(cases.RADIUS), cases.lattice_peaks(cases.lattice_scan())
    # Larger than the drift of the pattern: a wrong frame's shift would show.
    shift = (np.arange(12).reshape(3, 4, 1) % 5 - 2) * np.array([1.0, -1.0])
    roi = np.zeros((3, 4), dtype=bool)
    roi[0, 1] = roi[1, 3] = roi[2] = True
    aux = FastCorrelationUDF.aux_data(shift, kind="nav", extra_shape=(2,), dtype="float64")
    result = run_fastcorrelation(ctx, scan, peaks, pattern, zero_shift=aux, roi=roi)
    assert np.isnan(result["refineds"].data[~roi]).all()
    for y, x in zip(*np.nonzero(roi), strict=True):
        moved = peaks + shift[y, x].astype(int)
        _, refined, _, _ = process_frames_fast(
            pattern=pattern, frames=frames[y, x][None].astype(np.float32), peaks=moved
        )
        np.testing.assert_allclose(result["refineds"].data[y, x], refined[0], atol=1e-4)


@pytest.mark.parametrize("correlation", cases.CORRELATIONS)
def test_bits_depend_on_no_executor_and_no_partitioning(frames: Any, correlation: str) -> None:
    from libertem_blobfinder.common.gridmatching import Matcher
    from libertem_blobfinder.common.patterns import RadialGradient
    from libertem_blobfinder.udf.refinement import run_refine

    truth = cases.lattice_scan()
    all_results = []
    for executor, n_partitions in [("inline", 1), ("inline", 5), ("threads", 5), ("threads", 12)]:
        with ff.Context.make_with(executor, cpus=2) as ctx:
            dataset = ctx.load("memory", data=frames, sig_dims=2, num_partitions=n_partitions)
            result, _ = run_refine(
                ctx,
                dataset,
                **truth.start(),
                match_pattern=RadialGradient(cases.RADIUS),
                matcher=Matcher(),
                correlation=correlation,
                match="affine",
                indices=truth.indices,
                steps=3,
            )
            all_results.append({name: buffer.data for name, buffer in result.items()})
    first, *others = all_results
    # A product of matrices may round differently when there are more or fewer frames in it.
    exact = correlation != "sparse"
    for other in others:
        for name, values in first.items():
            if exact:
                np.testing.assert_array_equal(other[name], values, err_msg=name)
            else:
                np.testing.assert_allclose(other[name], values, rtol=1e-4, err_msg=name)
    for name, values in all_results[1].items():
        np.testing.assert_array_equal(all_results[2][name], values, err_msg=name)


def test_intensities_at_given_positions(ctx: ff.Context, scan: Any, frames: Any) -> None:
    from libertem_blobfinder.common.patterns import Circular
    from libertem_blobfinder.udf.integration import IntegrationUDF

    pattern = Circular(cases.RADIUS)
    reach = pattern.get_crop_size()
    weights = pattern.get_mask(sig_shape=(2 * reach, 2 * reach))
    at = np.round(cases.disk_positions(cases.lattice_scan())).astype(int)
    aux = IntegrationUDF.aux_data(at, kind="nav", extra_shape=at.shape[2:], dtype=int)
    result = ctx.run_udf(dataset=scan, udf=IntegrationUDF(centers=aux, pattern=pattern))
    expected = np.empty(at.shape[:3])
    for index in np.ndindex(expected.shape):
        y, x = at[index]
        crop = frames[index[:2]][y - reach : y + reach, x - reach : x + reach]
        expected[index] = (crop * weights).sum()
    np.testing.assert_allclose(result["integration"].data, expected, rtol=1e-5)


def test_feature_vectors_are_masks(ctx: ff.Context, scan: Any, frames: Any) -> None:
    from libertem_blobfinder.common.patterns import BackgroundSubtraction, feature_vector

    peaks = cases.lattice_peaks(cases.lattice_scan())
    height, width = frames.shape[2:]
    pattern = BackgroundSubtraction(cases.RADIUS)

    def stack() -> Any:
        return feature_vector(
            imageSizeX=width, imageSizeY=height, peaks=peaks, match_pattern=pattern
        )

    udf = ApplyMasksUDF(mask_factories=stack, mask_count=len(peaks), mask_dtype=np.float32)
    result = ctx.run_udf(dataset=scan, udf=udf)
    masks = stack().todense()
    expected = np.einsum("abyx,kyx->abk", frames.astype(float), masks)
    np.testing.assert_allclose(result["intensity"].data, expected, rtol=1e-4, atol=1)


def test_a_frame_with_its_lattice_can_be_drawn(ctx: ff.Context, scan: Any, frames: Any) -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    from libertem_blobfinder.common.gridmatching import Matcher
    from libertem_blobfinder.common.patterns import RadialGradient
    from libertem_blobfinder.udf.refinement import run_refine
    from libertem_blobfinder.udf.utils import visualize_frame

    truth = cases.lattice_scan()
    result, used = run_refine(
        ctx,
        scan,
        **truth.start(),
        match_pattern=RadialGradient(cases.RADIUS),
        matcher=Matcher(),
        indices=truth.indices,
    )
    figure, axes = plt.subplots()
    drawn = visualize_frame(ctx, scan, result, used, r=cases.RADIUS, y=2, x=1, axes=axes)
    frame = frames[2, 1].astype(np.float32)
    np.testing.assert_allclose(drawn.get_array(), np.log(frame - frame.min() + 1), rtol=1e-6)
    plt.close(figure)
