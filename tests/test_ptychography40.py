"""ptychography40, as published, runs on framefold: single side band reconstruction."""

from __future__ import annotations

from typing import Any

import numpy as np
import package_cases as cases
import pytest

import framefold as ff

for module in ("numba", "sparse", "scipy"):
    pytest.importorskip(module, reason=f"{module} is not installed; ptychography40 needs it")
pytest.importorskip(
    "ptychography40",
    reason="ptychography40 is not installed; pip install --no-deps -r requirements-packages.txt",
)


@pytest.fixture(scope="module", autouse=True)
def libertem() -> None:
    """The package imports libertem's modules."""
    ff.install_as_libertem()


@pytest.fixture
def frames() -> Any:
    return cases.phase_scan().frames


@pytest.fixture
def scan(ctx: ff.Context, frames: Any) -> Any:
    return ctx.load("memory", data=frames, sig_dims=2, num_partitions=4)


def trotters(dtype: Any = np.float64, **changes: Any) -> Any:
    """The package's masks: shape ``(n_masks, *sig)``, sparse."""
    from ptychography40.reconstruction.ssb import generate_masks

    frames = cases.phase_scan().frames
    return generate_masks(
        reconstruct_shape=frames.shape[:2],
        mask_shape=frames.shape[2:],
        dtype=dtype,
        **(cases.phase_scan().parameters | changes),
    )


def direct(frames: Any, masks: Any) -> Any:
    """The method as it is defined: transform along the scan, then weigh each frequency's frame.

    The lower half of the frequencies mirrors the upper one, with opposite sign because the
    masks of opposite frequencies are.
    """
    n_y, n_x, *sig = frames.shape
    half = n_y // 2 + 1
    spectrum = np.fft.fft2(frames.astype(float), axes=(0, 1))
    fourier = np.empty((n_y, n_x), dtype=complex)
    fourier[:half] = (spectrum[:half] * masks.reshape(half, n_x, *sig)).sum(axis=(2, 3))
    for y in range(half, n_y):
        for x in range(n_x):
            fourier[y, x] = -np.conj(fourier[-y % n_y, -x % n_x])
    return fourier


@pytest.mark.parametrize(("dtype", "rtol"), [(np.float64, 1e-12), (np.float32, 1e-5)])
def test_it_is_what_the_definition_says(
    ctx: ff.Context, scan: Any, frames: Any, dtype: Any, rtol: float
) -> None:
    from ptychography40.reconstruction.ssb import SSB_UDF

    udf = SSB_UDF(**cases.phase_scan().parameters, dtype=dtype)
    result = ctx.run_udf(dataset=scan, udf=udf)
    assert set(result) == {"fourier", "complex", "amplitude", "phase"}
    fourier = direct(frames, trotters().todense())
    wave = np.fft.ifft2(fourier)
    expected = {
        "fourier": fourier,
        "complex": np.sqrt(np.abs(wave)) * np.exp(1j * np.angle(wave)),
        "amplitude": np.sqrt(np.abs(wave)),
        "phase": np.angle(wave),
    }
    for name, values in expected.items():
        precision = np.result_type(dtype, np.complex64 if values.dtype.kind == "c" else np.float32)
        assert result[name].data.dtype == precision, name
        scale = np.abs(values).max()
        np.testing.assert_allclose(result[name].data, values, atol=rtol * scale, err_msg=name)


def test_results_are_those_on_libertem(ctx: ff.Context, scan: Any) -> None:
    found = cases.ssb_results(ctx, scan)
    expected = cases.expected("ssb")
    assert found.keys() == expected.keys()
    for name, values in expected.items():
        np.testing.assert_allclose(found[name], values, rtol=1e-6, atol=1e-7, err_msg=name)


def test_the_phase_is_that_of_the_object(ctx: ff.Context, scan: Any) -> None:
    phase = cases.ssb_results(ctx, scan)["ssb phase"]
    truth = cases.phase_scan().phase
    # Disks that overlap with both neighbours of the beam carry no signal in this method, and
    # soft edges take some: the shape is right to a percent, the size to some.
    assert np.corrcoef(phase.reshape(-1), truth.reshape(-1))[0, 1] > 0.99
    slope, offset = np.polyfit(truth.reshape(-1), phase.reshape(-1), 1)
    assert 0.8 < slope < 1
    assert abs(offset) < 1e-6


def test_its_masks_can_be_had_after_a_run(ctx: ff.Context, scan: Any) -> None:
    from ptychography40.reconstruction.ssb import SSB_UDF

    udf = SSB_UDF(**cases.phase_scan().parameters, dtype=np.float64)
    ctx.run_udf(dataset=scan, udf=udf)
    masks = udf.get_task_data()["masks"].computed_masks
    np.testing.assert_allclose(masks.todense(), trotters().todense(), atol=1e-12)


def test_masks_can_be_made_beforehand(ctx: ff.Context, scan: Any) -> None:
    from libertem.common.container import MaskContainer
    from ptychography40.reconstruction.ssb import SSB_UDF

    parameters = cases.phase_scan().parameters
    masks = trotters(np.float32)
    container = MaskContainer(
        mask_factories=lambda: masks,
        dtype=masks.dtype,
        use_sparse="scipy.sparse.csr",
        count=masks.shape[0],
    )
    given = ctx.run_udf(dataset=scan, udf=SSB_UDF(**parameters, mask_container=container))
    made = ctx.run_udf(dataset=scan, udf=SSB_UDF(**parameters))
    np.testing.assert_array_equal(given["fourier"].data, made["fourier"].data)

    first = type(masks).from_numpy(masks.todense()[:5])
    few = MaskContainer(mask_factories=lambda: first, dtype=first.dtype, use_sparse=True, count=5)
    with pytest.raises(ValueError, match=r"expected shape.*\(5, 20, 22\)"):
        ctx.run_udf(dataset=scan, udf=SSB_UDF(**parameters, mask_container=few))


@pytest.mark.parametrize("flip", [False, True])
def test_the_detector_may_be_turned(ctx: ff.Context, frames: Any, flip: bool) -> None:
    from libertem.corrections.coordinates import flip_y, identity
    from ptychography40.reconstruction.ssb import SSB_UDF

    parameters = cases.phase_scan().parameters
    if flip:
        frames = np.ascontiguousarray(frames[:, :, ::-1])
        parameters = parameters | {"cy": frames.shape[2] - 1 - parameters["cy"]}
    dataset = ctx.load("memory", data=frames, sig_dims=2)
    matrix = flip_y() if flip else identity()
    udf = SSB_UDF(**parameters, dtype=np.float64, transformation=matrix)
    phase = ctx.run_udf(dataset=dataset, udf=udf)["phase"].data
    np.testing.assert_allclose(phase, cases.expected("ssb phase")["ssb phase"], atol=1e-6)
    if flip:
        # The same without the matrix is a different picture.
        wrong = ctx.run_udf(dataset=dataset, udf=SSB_UDF(**parameters, dtype=np.float64))
        assert np.abs(wrong["phase"].data - phase).max() > 0.01


def test_partial_results_grow_into_the_complete_one(ctx: ff.Context, scan: Any) -> None:
    from ptychography40.reconstruction.ssb import SSB_UDF

    udf = SSB_UDF(**cases.phase_scan().parameters, dtype=np.float64)
    complete = ctx.run_udf(dataset=scan, udf=udf)["phase"].data
    phases = [part[0]["phase"].data for part in ctx.run_udf_iter(dataset=scan, udf=udf)]
    assert len(phases) == 4
    np.testing.assert_array_equal(phases[-1], complete)
    assert np.abs(phases[0] - complete).max() > 0.01


def test_threads_give_the_bits_of_inline(frames: Any) -> None:
    from ptychography40.reconstruction.ssb import SSB_UDF

    found = []
    for executor in ("inline", "threads"):
        with ff.Context.make_with(executor, cpus=2) as ctx:
            dataset = ctx.load("memory", data=frames, sig_dims=2, num_partitions=7)
            udf = SSB_UDF(**cases.phase_scan().parameters)
            found.append(ctx.run_udf(dataset=dataset, udf=udf)["fourier"].data)
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("beforehand", [False, True])
def test_on_a_device(device: Any, frames: Any, beforehand: bool) -> None:
    from libertem.common.container import MaskContainer
    from ptychography40.reconstruction.ssb import SSB_UDF

    container = None
    if beforehand:
        masks = trotters(np.float32)
        container = MaskContainer(
            mask_factories=lambda: masks, use_sparse="scipy.sparse.csr", count=len(masks)
        )
    udf = SSB_UDF(**cases.phase_scan().parameters, mask_container=container)
    with ff.Context.make_with("threads", cpus=0, gpus=[0]) as ctx:
        dataset = ctx.load("memory", data=frames, sig_dims=2, num_partitions=3)
        found = ctx.run_udf(dataset=dataset, udf=udf)
        assert "cupy" in ctx.explain(dataset=dataset, udf=udf)
    expected = direct(frames, trotters().todense())
    scale = np.abs(expected).max()
    np.testing.assert_allclose(found["fourier"].data, expected, atol=1e-5 * scale)
    phase = cases.expected("ssb phase")["ssb phase"]
    np.testing.assert_allclose(found["phase"].data, phase, atol=3e-5)
    del udf, found, container
    if not device.is_real:  # where libraries may hold some for later products
        device.check_released()
