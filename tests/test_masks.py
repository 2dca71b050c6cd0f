"""Masks against their definitions, and against values of the reference system."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefold import masks
from framefold.exceptions import InvalidArgumentError

FRACTIONS = [0, 0.25, 1 / 3, 0.5, 0.75]


@st.composite
def geometries(draw):
    """A centre, perhaps outside of the frame, and the shape of a frame."""
    centre = [draw(st.integers(-2, 9)) + draw(st.sampled_from(FRACTIONS)) for _ in range(2)]
    return *centre, draw(st.integers(1, 9)), draw(st.integers(1, 9))


RADII = st.builds(lambda whole, part: whole + part, st.integers(0, 5), st.sampled_from(FRACTIONS))


def distances(cx, cy, width, height):
    return np.array([[np.hypot(y - cy, x - cx) for x in range(width)] for y in range(height)])


@given(geometries(), RADII)
def test_a_disk_holds_what_is_at_most_the_radius_away(geometry, radius):
    cx, cy, width, height = geometry
    disk = masks.circular(*geometry, radius)
    expected = [
        [(x - cx) ** 2 + (y - cy) ** 2 <= radius**2 for x in range(width)] for y in range(height)
    ]
    assert disk.dtype == bool
    np.testing.assert_array_equal(disk, expected)


@given(geometries(), RADII)
def test_an_antialiased_disk_falls_off_within_a_pixel(geometry, radius):
    cx, cy, width, height = geometry
    disk = masks.circular(*geometry, radius, antialiased=True)
    expected = np.clip(radius + 0.5 - distances(*geometry), 0, 1)
    if 0 <= round(cy) < height and 0 <= round(cx) < width:
        expected[round(cy), round(cx)] = 1
    assert disk.dtype == np.float64
    np.testing.assert_allclose(disk, expected, atol=1e-12)


@given(geometries(), RADII, RADII)
def test_a_ring_is_a_disk_without_a_disk(geometry, radius, radius_inner):
    ring = masks.ring(*geometry, radius, radius_inner)
    outer, inner = (masks.circular(*geometry, r) for r in (radius, radius_inner))
    np.testing.assert_array_equal(ring, outer & ~inner)


def test_antialiased_rings_as_the_reference():
    ring = masks.ring(3, 3, 7, 7, 3, 1, antialiased=True)
    quarter = [[0, 0, 0.3377, 0.5], [0, 0.6716, 1, 1], [0.3377, 1, 0.9142, 0.5], [0.5, 1, 0.5, 0]]
    np.testing.assert_allclose(ring[:4, :4], quarter, atol=1e-4)
    np.testing.assert_array_equal(ring, ring[::-1, ::-1])
    thin = masks.ring(-1, -0.75, 3, 3, 3.25, 3, antialiased=True)
    expected = [[0, 0, 0.5923], [0, 0.1575, 0.2769], [0.4262, 0.3496, 0]]
    np.testing.assert_allclose(thin, expected, atol=1e-4)


@given(geometries(), RADII.filter(bool))
def test_a_radial_gradient_rises_to_the_edge(geometry, radius):
    gradient = masks.radial_gradient(*geometry, radius)
    inside = masks.circular(*geometry, radius)
    expected = np.where(inside, distances(*geometry) / radius, 0)
    np.testing.assert_allclose(gradient, expected, atol=1e-12)


def test_antialiased_radial_gradients_as_the_reference():
    gradient = masks.radial_gradient(3, 3, 7, 7, 2, antialiased=True)
    expected = [[0, 0, 0, 0], [0, 0, -0.4721, 0], [0, -0.4721, 0.7071, 0.5], [0, 0, 0.5, 0]]
    np.testing.assert_allclose(gradient[:4, :4], expected, atol=1e-4)
    with pytest.raises(InvalidArgumentError, match="positive"):
        masks.radial_gradient(3, 3, 7, 7, 0)


def test_radial_gradient_with_background_as_the_reference():
    r = np.array([0, 1, 1.25, 1.5, 1.75, 2, 2.25, 2.5, 4, 4.25])
    profile = masks.radial_gradient_background_subtraction(r, 2, 4)
    np.testing.assert_allclose(profile, [0, 0.5, 0.625, 1, 0.5, 0, -0.5, -1, -1, 0])
    sharp = masks.radial_gradient_background_subtraction(r.astype(np.float32), 2, 4, delta=0)
    np.testing.assert_allclose(sharp, [0, 0.5, 0.625, 0.75, 0.875, -1, -1, -1, -1, 0])
    assert sharp.dtype == np.float32


@given(geometries(), RADII.filter(bool), st.floats(0.75, 3), st.booleans())
def test_background_subtraction_adds_up_to_nothing(geometry, inner, width, antialiased):
    try:
        mask = masks.background_subtraction(*geometry, inner + width, inner, antialiased)
    except InvalidArgumentError:
        assert not masks.ring(*geometry, inner + width, inner, antialiased).any()
        return
    assert abs(mask.sum()) < 1e-9 * max(1, abs(mask).sum())
    if not antialiased:
        np.testing.assert_array_equal(mask == 1, masks.circular(*geometry, inner))


@given(geometries(), st.floats(0.2, 5), st.floats(-10, 10))
def test_polar_maps_can_be_turned_back(geometry, stretch, angle):
    cx, cy, width, height = geometry
    y, x = np.mgrid[:height, :width]
    r, phi = masks.polar_map(*geometry)
    np.testing.assert_allclose(r * np.sin(phi), y - cy, atol=1e-12)
    np.testing.assert_allclose(r * np.cos(phi), x - cx, atol=1e-12)
    r, phi = masks.polar_map(*geometry, stretchY=stretch, angle=angle)
    along, across = r * np.cos(phi), stretch * r * np.sin(phi)
    np.testing.assert_allclose(
        along * np.cos(angle) - across * np.sin(angle), x - cx, rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(
        along * np.sin(angle) + across * np.cos(angle), y - cy, rtol=1e-9, atol=1e-9
    )


@given(st.integers(0, 2**32 - 1), st.sampled_from([np.float32, np.float64, np.int16]))
def test_balance(seed, dtype):
    template = (np.random.default_rng(seed).normal(size=(3, 4)) * 10).astype(dtype)
    template.flat[:2] = 3, -2
    before = template.copy()
    result = masks.balance(template)
    assert result.dtype == (np.float64 if dtype is np.int16 else dtype)
    assert abs(result.sum()) < 1e-5 * abs(result).sum()
    np.testing.assert_array_equal(result[template >= 0], template[template >= 0])
    np.testing.assert_array_equal(template, before)
    np.testing.assert_array_equal(masks.balance(abs(template)), abs(template))


@given(geometries())
def test_the_bounding_radius_covers_the_frame(geometry):
    assert masks.circular(*geometry, masks.bounding_radius(*geometry)).all()


def test_bounding_radius_as_the_reference():
    assert masks.bounding_radius(3, 4, 6, 8) == 6
    assert masks.bounding_radius(-2, 30, 5, 4) == 32
    assert masks.bounding_radius(64, 64, 128, 128) == 92


@given(geometries(), RADII, st.floats(1, 4), st.integers(1, 6), st.booleans())
def test_radial_bins_are_rings(geometry, inner, width, n_bins, normalize):
    outer = inner + width * n_bins
    bins = masks.radial_bins(*geometry, outer, inner, n_bins, normalize, use_sparse=False)
    edges = np.linspace(inner, outer, n_bins + 1)
    for bin_, low, high in zip(bins, edges, edges[1:], strict=False):
        ring = masks.ring(*geometry, high, low, antialiased=True)
        if normalize and ring.any():
            ring /= ring.sum()
            assert bin_.sum() == pytest.approx(1)
        np.testing.assert_allclose(bin_, ring, atol=1e-9)


def test_radial_bins_cover_the_frame_once():
    bins = masks.radial_bins(20, 11.5, 40, 30, use_sparse=False)
    assert bins.shape == (masks.bounding_radius(20, 11.5, 40, 30), 30, 40)
    np.testing.assert_allclose(bins.sum(axis=0), 1)


def test_misuse_of_radial_bins():
    with pytest.raises(InvalidArgumentError, match="not larger"):
        masks.radial_bins(3, 3, 7, 7, radius=1, radius_inner=2)
    with pytest.raises(InvalidArgumentError, match="n_bins is 0"):
        masks.radial_bins(3, 3, 7, 7, n_bins=0)


@pytest.mark.parametrize("use_sparse", [False, True])
def test_radial_bins_in_a_dtype_that_does_not_hold_parts(use_sparse):
    if use_sparse:
        pytest.importorskip("sparse")
    for dtype, normalize in ((np.uint8, False), (np.int32, True), (bool, False)):
        said = f"{np.dtype(dtype)} does not hold the weight .* of a ring's pixel"
        with pytest.raises(InvalidArgumentError, match=said):
            masks.radial_bins(
                8, 8, 17, 17, 7, n_bins=3, normalize=normalize, use_sparse=use_sparse, dtype=dtype
            )
    for dtype in (np.float16, np.complex64, np.dtype(">f4")):
        bins = masks.radial_bins(8, 8, 17, 17, 7, n_bins=3, use_sparse=use_sparse, dtype=dtype)
        assert bins.dtype == dtype


def test_radial_bins_of_frames_without_pixels():
    for height, width in ((0, 0), (0, 4), (4, 0)):
        assert masks.radial_bins(1, 2, width, height, n_bins=3).shape == (3, height, width)


def test_radial_bins_are_sparse_where_that_saves_memory():
    sparse = pytest.importorskip("sparse")
    geometry = (8, 8, 16, 16)
    thin = masks.radial_bins(*geometry, radius=4, n_bins=5)
    assert isinstance(thin, sparse.COO)
    assert isinstance(masks.radial_bins(*geometry, radius=4, n_bins=3), np.ndarray)
    dense = masks.radial_bins(*geometry, radius=4, n_bins=5, use_sparse=False, dtype="f4")
    assert dense.dtype == np.float32
    np.testing.assert_allclose(thin.todense(), dense, atol=1e-7)


@pytest.mark.parametrize(
    ("arguments", "rows", "columns"),
    [
        ((1, 2, 2, 3), range(2, 6), range(1, 4)),
        ((4, 5, -2, -3), range(2, 6), range(2, 5)),
        ((4, 2, -2, 3), range(2, 6), range(2, 5)),
        ((1.5, 2.5, 2, 3), range(2, 6), range(1, 4)),
        ((1, 2, 0, 3), [], []),
        ((-2, -1, 3, 4), range(0, 4), range(0, 2)),
        ((0, 0, -2, -2), [0], [0]),
        ((9, 9, 2, 2), [], []),
        ((-5, -5, 2, 2), [], []),
        ((4, 3, 10, 10), range(3, 7), range(4, 6)),
    ],
)
def test_rectangles_as_the_reference(arguments, rows, columns):
    expected = np.zeros((7, 6), dtype=bool)
    expected[np.ix_(list(rows), list(columns))] = True
    np.testing.assert_array_equal(masks.rectangular(*arguments, 6, 7), expected)


def test_gradients():
    y, x = np.mgrid[:3, :5]
    np.testing.assert_array_equal(masks.gradient_x(5, 3), x)
    np.testing.assert_array_equal(masks.gradient_y(5, 3, dtype=np.uint8), y)
    assert masks.gradient_x(5, 3).dtype == np.float32
    assert masks.gradient_y(5, 3, dtype=np.uint8).dtype == np.uint8
    for make, *frame, dtype, lost in (
        (masks.gradient_x, 300, 2, np.uint8, 256),
        (masks.gradient_y, 2, 3000, np.float16, 2049),
    ):
        with pytest.raises(InvalidArgumentError, match=f"does not hold the coordinate {lost}"):
            make(*frame, dtype=dtype)
    assert masks.gradient_y(2, 256, dtype=np.uint8)[-1, -1] == 255


@given(st.integers(0, 2**32 - 1))
def test_stacks_of_templates(seed):
    pytest.importorskip("sparse")
    rng = np.random.default_rng(seed)
    height, width, n = (int(i) for i in rng.integers(1, 9, 3))
    template = rng.integers(1, 9, (2, 3)).astype(np.float32)
    index, x, y = rng.integers(0, 3, n), rng.integers(-4, 9, n), rng.integers(-4, 9, n)
    stack = masks.sparse_template_multi_stack(index, x, y, template, width, height)
    expected = np.zeros((index.max() + 1, height + 20, width + 20), dtype=np.float32)
    for i, left, top in zip(index, x, y, strict=True):
        expected[i, top + 10 : top + 12, left + 10 : left + 13] += template
    assert stack.dtype == np.float32
    np.testing.assert_array_equal(stack.todense(), expected[:, 10:-10, 10:-10])


@given(st.integers(0, 2**32 - 1), RADII)
def test_stacks_of_disks(seed, radius):
    pytest.importorskip("sparse")
    rng = np.random.default_rng(seed)
    height, width, n = (int(i) for i in rng.integers(1, 9, 3))
    index, centres = rng.integers(0, 3, n), rng.integers(-8, 20, (2, n)) / 2
    stack = masks.sparse_circular_multi_stack(index, *centres, width, height, radius)
    expected = np.zeros((index.max() + 1, height, width), dtype=bool)
    for i, cx, cy in zip(index, *centres, strict=True):
        expected[i] |= masks.circular(cx, cy, width, height, radius)
    assert stack.dtype == bool
    np.testing.assert_array_equal(stack.todense(), expected)


def test_misuse_of_stacks():
    pytest.importorskip("sparse")
    template = np.ones((2, 2))
    with pytest.raises(InvalidArgumentError, match="2, 1 and 1 elements"):
        masks.sparse_template_multi_stack([0, 1], [1], [1], template, 5, 5)
    with pytest.raises(InvalidArgumentError, match="mask_index -1 is negative"):
        masks.sparse_template_multi_stack([-1], [1], [1], template, 5, 5)
    for index in (0.9, np.nan, 1e19):
        with pytest.raises(InvalidArgumentError, match=r"mask_index .* is not a whole number"):
            masks.sparse_template_multi_stack([0, index], [1, 1], [1, 1], template, 5, 5)
        with pytest.raises(InvalidArgumentError, match=r"mask_index .* is not a whole number"):
            masks.sparse_circular_multi_stack([0, index], [1, 1], [1, 1], 5, 5, 2)
    assert masks.sparse_circular_multi_stack([0.0, 1.0], [1, 1], [1, 1], 5, 5, 2).shape[0] == 2
    with pytest.raises(InvalidArgumentError, match="1, 2 and 1 elements"):
        masks.sparse_circular_multi_stack([0], [1, 2], [1], 5, 5, 2)
    for x, y, words in [([1, np.nan], [1, 1], "offsetX is nan"), ([1, 1], [1, 1e18], "offsetY is")]:
        with pytest.raises(InvalidArgumentError, match=words):
            masks.sparse_template_multi_stack([0, 1], x, y, template, 5, 5)
    with pytest.raises(InvalidArgumentError, match=r"has shape \(2,\), expected two axes"):
        masks.sparse_template_multi_stack([0], [1], [1], template[0], 5, 5)


def test_copies_that_add_up_to_more_than_their_dtype_holds():
    pytest.importorskip("sparse")
    template = np.full((2, 2), 100, np.uint8)
    stack = masks.sparse_template_multi_stack([0, 0, 1], [1, 2, 2], [1, 2, 2], template, 5, 5)
    assert (stack.dtype, stack.max()) == (np.uint8, 200)
    with pytest.raises(InvalidArgumentError, match="add up to 300 where they overlap"):
        masks.sparse_template_multi_stack([0] * 3, [1] * 3, [1] * 3, template, 5, 5)


@pytest.mark.parametrize("at", [(np.nan, 2), (2, np.nan), (np.inf, 2)])
@pytest.mark.parametrize("antialiased", [False, True])
def test_centres_are_places(at, antialiased):
    for make in (
        lambda: masks.circular(*at, 5, 4, 2, antialiased),
        lambda: masks.ring(*at, 5, 4, 2, 1, antialiased),
        lambda: masks.radial_gradient(*at, 5, 4, 2, antialiased),
        lambda: masks.background_subtraction(*at, 5, 4, 2, 1, antialiased),
        lambda: masks.polar_map(*at, 5, 4),
        lambda: masks.bounding_radius(*at, 5, 4),
        lambda: masks.radial_bins(*at, 5, 4, 2),
    ):
        with pytest.raises(InvalidArgumentError, match=r"center[XY] is (nan|inf), expected a num"):
            make()
    for radii in ((np.nan, 1), (2, np.nan)):
        with pytest.raises(
            InvalidArgumentError, match=r"radius(_inner)? is nan, expected a number"
        ):
            masks.ring(2, 2, 5, 4, *radii, antialiased)
    assert masks.circular(2, 2, 5, 4, np.inf, antialiased).all()


def test_centres_of_stacks_are_places():
    pytest.importorskip("sparse")
    with pytest.raises(InvalidArgumentError, match="centerX is nan, expected a number"):
        masks.sparse_circular_multi_stack([0, 0], [1, np.nan], [1, 1], 5, 4, 2)


SHAPES = {
    "circular": lambda of: masks.circular(*map(of, (60, 50, 120, 100)), of(30)),
    "antialiased": lambda of: masks.circular(*map(of, (60, 50, 120, 100)), of(30), True),
    "ring": lambda of: masks.ring(*map(of, (60, 50, 120, 100)), of(30), of(20)),
    "radial_gradient": lambda of: masks.radial_gradient(*map(of, (60, 50, 120, 100)), of(30)),
    "background": lambda of: masks.background_subtraction(
        *map(of, (60, 50, 120, 100)), of(30), of(20)
    ),
    "profile": lambda of: masks.radial_gradient_background_subtraction(
        np.arange(100).astype(of), of(30), of(50), of(3)
    ),
    "polar_map": lambda of: np.stack(masks.polar_map(*map(of, (60, 50, 120, 100)), of(2), of(30))),
    "bounding_radius": lambda of: masks.bounding_radius(*map(of, (90, 100, 60, 120))),
    "radial_bins": lambda of: masks.radial_bins(
        *map(of, (60, 50, 120, 100)), of(30), of(20), of(2), use_sparse=False
    ),
    "rectangular": lambda of: masks.rectangular(*map(of, (60, 50, 100, 80, 120, 100))),
    "gradient_x": lambda of: masks.gradient_x(of(120), of(100)),
    "gradient_y": lambda of: masks.gradient_y(of(120), of(100)),
}


@pytest.mark.parametrize("of", [np.int8, np.uint8, np.int16, np.uint64, np.float16])
@pytest.mark.parametrize("make", SHAPES.values(), ids=SHAPES)
def test_numbers_of_numpy_count_as_those_of_python(make, of):
    found, expected = (np.asarray(make(each)) for each in (of, float))
    if expected.dtype == np.float64 and make is SHAPES["profile"] and of is np.float16:
        expected = expected.astype(np.float16)
    assert found.dtype == expected.dtype
    np.testing.assert_allclose(found, expected, rtol=1e-3 if found.dtype == np.float16 else 0)


def test_stacks_of_numbers_of_numpy():
    pytest.importorskip("sparse")
    plain, small = (
        masks.sparse_circular_multi_stack([0], [60], [50], *map(of, (120, 100, 30)))
        for of in (int, np.int8)
    )
    np.testing.assert_array_equal(small.todense(), plain.todense())


@pytest.mark.parametrize(
    "value",
    ["3", True, 1j, [3], np.timedelta64(3, "s"), np.ma.masked, np.ma.array(3, mask=True)],
)
def test_what_is_no_number_is_named(value):
    frame = (2, 2, 5, 4)
    for name, make in {
        "centerX": lambda: masks.circular(value, 2, 5, 4, 2),
        "imageSizeY": lambda: masks.polar_map(2, 2, 5, value),
        "radius_inner": lambda: masks.ring(*frame, 3, value),
        "angle": lambda: masks.polar_map(*frame, angle=value),
        "n_bins": lambda: masks.radial_bins(*frame, n_bins=value),
        "Width": lambda: masks.rectangular(1, 2, value, 2, 5, 4),
    }.items():
        with pytest.raises(TypeError, match=f"(?s){name} is .*, expected a (whole )?number"):
            make()


def test_ellipses_have_a_height():
    with pytest.raises(InvalidArgumentError, match="stretchY is 0"):
        masks.polar_map(2, 2, 5, 4, stretchY=np.float32(0))


@pytest.mark.parametrize("radius", [-3, -np.inf])
def test_radii_are_not_negative(radius):
    frame = (2, 2, 5, 4)
    for make in (
        lambda: masks.circular(*frame, radius),
        lambda: masks.circular(*frame, radius, antialiased=True),
        lambda: masks.ring(*frame, 2, radius),
        lambda: masks.radial_bins(*frame, 2, radius),
    ):
        with pytest.raises(InvalidArgumentError, match=r"is -(3|inf), expected a number from 0 on"):
            make()


def test_radii_without_end():
    frame = (2, 2, 5, 4)
    bins = masks.radial_bins(*frame, np.inf, n_bins=2, use_sparse=False)
    expected = masks.radial_bins(*frame, n_bins=2, use_sparse=False)
    np.testing.assert_array_equal(bins, expected)
    with pytest.raises(InvalidArgumentError, match="is inf, expected a positive, finite number"):
        masks.radial_gradient(*frame, np.inf)
    assert masks.circular(*frame, 1e300).all()


def test_masks_need_no_optional_package():
    code = "import sys, framefold, framefold.masks, framefold.common.container, framefold.utils"
    check = "print(sorted({'scipy', 'sparse', 'numba'} & set(sys.modules)))"
    command = [sys.executable, "-c", f"{code}; {check}"]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
