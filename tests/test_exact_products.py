"""ApplyMasksUDF with results of integers: right, or an error, however large sums are."""

from __future__ import annotations

import numpy as np
import pytest

import framefold as ff
from framefold.exceptions import InvalidArgumentError
from framefold.udf._exact_products import always_fit, product
from framefold.udf._exact_sums import fit
from framefold.udf.masks import ApplyMasksUDF

CTX = ff.Context.make_with("inline")
SIG = (4, 6)
PIXELS = 24

#: Data, masks, mask_dtype and the integers that results are.
DTYPES = [
    ("int64", "int64", None, "int64"),
    ("int32", "int32", None, "int64"),
    ("uint64", "uint8", None, "uint64"),
    ("uint32", "int32", None, "int64"),
    ("int64", "bool", None, "int64"),
    ("int16", "int16", "int16", "int16"),
]


def frames_and_masks(data_dtype, mask_dtype, rng):
    """Frames of all magnitudes, and masks of which one has both signs if there are."""
    limits = np.iinfo(data_dtype)
    frames = rng.integers(limits.min, limits.max, (12, *SIG), data_dtype, endpoint=True)
    frames >>= np.linspace(0, limits.bits - 2, 12).astype(data_dtype)[:, None, None]
    frames[rng.random(frames.shape) < 0.3] = 0
    # Positive and negative terms, whose sums are far less than what is added up.
    frames[-4:, 0], frames[-4:, 1:] = limits.max, 0
    frames[-1, 0, 0] = limits.min
    masks = np.ones((3, *SIG), mask_dtype)
    if mask_dtype != "bool":
        info = np.iinfo(mask_dtype)
        masks[1] = rng.integers(max(info.min, -50), 50, SIG)
        masks[2] = info.max
        if info.min < 0:
            masks[:, 0, ::2] *= -1
    masks[:, 2] = 0
    return frames, masks


def moved(frames, shift):
    under = np.zeros_like(frames)
    (dy, dx), (height, width) = shift, SIG
    under[:, : height - dy, : width - dx] = frames[:, dy:, dx:]
    return under


def load(frames, form, **options):
    if form == "sparse":
        scipy = pytest.importorskip("scipy.sparse")
        rows = scipy.csr_matrix(frames.reshape(len(frames), -1))
        return CTX.load("memory", data=rows, sig_shape=SIG, nav_shape=(len(frames),))
    return CTX.load("memory", data=frames, sig_dims=2, **options)


def outcome(dataset, masks, frame, **options):
    """The results of one frame, or None for an error."""
    udf = ApplyMasksUDF(lambda: masks, preferred_dtype=ApplyMasksUDF.USE_NATIVE_DTYPE, **options)
    roi = np.zeros(dataset.shape.nav, dtype=bool)
    roi[frame] = True
    try:
        return CTX.run_udf(dataset, udf, roi=roi)["intensity"].raw_data[0]
    except InvalidArgumentError:
        return None


@pytest.mark.parametrize("form", ["dense", "sparse"])
@pytest.mark.parametrize("use_sparse", [False, True])
@pytest.mark.parametrize("shift", [None, (1, 2)])
@pytest.mark.parametrize("dtypes", DTYPES, ids=lambda dtypes: "-".join(map(str, dtypes)))
def test_right_or_an_error(form, use_sparse, shift, dtypes):
    if use_sparse:
        pytest.importorskip("scipy")
    data_dtype, mask_dtype, asked, result = dtypes
    if shift is not None and asked is not None:
        result = "int64"  # shifted sums are not as narrow as the masks
    frames, masks = frames_and_masks(data_dtype, mask_dtype, np.random.default_rng(1))
    dataset, limits, seen = load(frames, form), np.iinfo(result), set()
    under = frames if shift is None else moved(frames, shift)
    options = {"mask_dtype": asked, "use_sparse": use_sparse, "shifts": shift}
    for i, frame in enumerate(under.reshape(len(frames), -1).astype(object)):
        for mask in masks:
            expected = frame @ mask.reshape(-1).astype(object)
            fits = limits.min <= expected <= limits.max
            found = outcome(dataset, mask[None], i, **options)
            assert (found is not None) == fits
            if fits:
                assert found.dtype == result
                assert found.tolist() == [expected]
            seen.add(fits)
    assert True in seen


@pytest.mark.parametrize("use_sparse", [False, True])
def test_parts_of_frames(use_sparse):
    """What the pixels of one tile add up to has to fit, too."""
    if use_sparse:
        pytest.importorskip("scipy")
    n_right = 0
    for dtypes in DTYPES:
        data_dtype, mask_dtype, asked, result = dtypes
        frames, masks = frames_and_masks(data_dtype, mask_dtype, np.random.default_rng(2))
        dataset, limits = load(frames, "dense", tileshape=(1, 1, 3)), np.iinfo(result)
        for i, frame in enumerate(frames.reshape(len(frames), -1).astype(object)):
            expected = [frame @ mask.reshape(-1).astype(object) for mask in masks]
            found = outcome(dataset, masks, i, mask_dtype=asked, use_sparse=use_sparse)
            if found is not None:
                assert found.tolist() == expected
                n_right += 1
            if np.abs(frame) @ np.abs(masks.reshape(3, -1).astype(object)).max(axis=0) < limits.max:
                assert found is not None
    assert n_right > 20


def test_what_is_said():
    frames = np.full((1, 1, 2, 2), 2**31 - 1, dtype="int32")
    dataset = CTX.load("memory", data=frames, sig_dims=2)
    udf = ApplyMasksUDF(lambda: frames[0], preferred_dtype=ApplyMasksUDF.USE_NATIVE_DTYPE)
    with pytest.raises(InvalidArgumentError) as caught:
        CTX.run_udf(dataset, udf)
    total = 4 * (2**31 - 1) ** 2
    assert f"with a mask is {total}, which int64 cannot hold" in str(caught.value)
    as_floats = ApplyMasksUDF(lambda: frames[0], preferred_dtype="float64")
    assert CTX.run_udf(dataset, as_floats)["intensity"].data.item() == float(total)


def test_products_of_all_bits():
    rng = np.random.default_rng(3)
    for dtype in ("int64", "uint64"):
        limits = np.iinfo(dtype)
        left = rng.integers(limits.min, limits.max, (3, 50), dtype, endpoint=True)
        right = rng.integers(limits.min, limits.max, (50, 2), dtype, endpoint=True)
        left[0, :2], right[:2, 0] = (limits.min, limits.max), (limits.min, limits.min)
        expected = left.astype(object) @ right.astype(object)
        assert (product(left, right, plain=False) == expected).all()
        nothing = product(left, np.zeros_like(right), plain=False)
        assert nothing.shape == (3, 2)
        assert not nothing.any()


def test_what_fits():
    long = np.dtype("int64")
    assert always_fit(np.dtype("uint16"), 2.0**46, long)
    assert not always_fit(np.dtype("int64"), 1.0, long)
    assert not fit(np.array([-(2**63)]), 1.0, long)
    assert fit(np.array([2**62]), 1.0, long)
    assert not fit(np.array([2**62]), 2.0, long)
    assert fit(np.array([], dtype="int64"), 1e30, long)
    assert fit(np.array([2**63], dtype="uint64"), 1.0, np.dtype("uint64"))
