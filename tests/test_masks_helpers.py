"""Lattices, made-up frames, and helpers for user code."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from framefold import utils
from framefold.common import math
from framefold.common import numba as helpers
from framefold.common.numba.indices import numba_unravel_index_single
from framefold.corrections import coordinates
from framefold.exceptions import ArgumentTypeError, InvalidArgumentError
from framefold.masks import circular
from framefold.udf.com import apply_correction
from framefold.utils import generate

POINTS = st.lists(st.tuples(st.floats(-99, 99), st.floats(-99, 99)), min_size=1, max_size=5)


@given(POINTS, st.floats(-700, 700))
def test_coordinates_can_be_turned_back(points, degrees):
    points = np.array(points)
    np.testing.assert_allclose(utils.make_cartesian(utils.make_polar(points)), points, atol=1e-9)
    y, x = utils.rotate_deg(points[:, 0], points[:, 1], degrees)
    np.testing.assert_allclose(np.hypot(y, x), np.hypot(*points.T), atol=1e-9)
    back = utils.rotate_rad(y, x, -np.deg2rad(degrees))
    np.testing.assert_allclose(np.stack(back, axis=-1), points, atol=1e-9)


def test_coordinates_as_the_reference():
    np.testing.assert_allclose(
        utils.make_polar([(1, 2), (-1, 0)]), [(5**0.5, 0.463648), (1, -np.pi / 2)], rtol=1e-5
    )
    np.testing.assert_allclose(utils.make_cartesian([(1, np.pi / 6)]), [(0.5, 0.75**0.5)])
    np.testing.assert_allclose(utils.rotate_deg(1.0, 2.0, 90), (2, -1))
    np.testing.assert_allclose(utils.rotate_precalc(1.0, 2.0, 0.5, 0.2), (0.9, 0.8))


@pytest.mark.parametrize("of", [np.uint8, np.int8, np.int16, np.uint64, np.float16])
def test_angles_of_numpy_count_as_those_of_python(of):
    y, x = np.ones(2), np.zeros(2)
    amp, phi = np.ones((8, 8)), np.zeros((8, 8))
    for turn in (
        lambda angle: utils.rotate_deg(y, x, angle),
        lambda angle: utils.rotate_rad(y, x, angle),
        lambda angle: apply_correction(y, x, angle, flip_y=True),
        lambda angle: apply_correction(y, x, angle, flip_y=True, forward=False),
        lambda angle: generate.hologram_frame(amp, phi, f_angle=angle),
        coordinates.rotate,
        coordinates.rotate_deg,
    ):
        np.testing.assert_array_equal(turn(of(30)), turn(30.0))
    for what, turn in (("degrees", utils.rotate_deg), ("the angle", utils.rotate_rad)):
        with pytest.raises(InvalidArgumentError, match=f"{what}.* masked"):
            turn(y, x, np.ma.masked)
    for turn in (coordinates.rotate, coordinates.rotate_deg):
        with pytest.raises(ArgumentTypeError, match="expected a number"):
            turn(np.ma.masked)


@pytest.mark.parametrize("of", [np.uint8, np.int16, np.float16])
def test_small_numbers_that_are_turned_and_squared(of):
    y, x = of(3), np.array([5, 100], of)
    found = utils.rotate_precalc(y, x, 0, 1)
    np.testing.assert_array_equal(np.stack(found), [[5, 100], [-3, -3]])
    assert all(each.dtype.itemsize == 8 for each in found)
    assert utils.rotate_precalc(np.float32(3), np.float32(5), 0.5, 0.5)[0].dtype == np.float32
    amp, phi = np.full((4, 4), 200, of), np.full((4, 4), 3, of)
    expected = generate.hologram_frame(amp.astype(float), phi.astype(float))
    np.testing.assert_array_equal(generate.hologram_frame(amp, phi), expected)


@pytest.mark.parametrize("of", [np.uint8, np.int8, np.int16, np.uint64, np.float16])
def test_lattices_of_small_numbers_do_not_wrap_around(of):
    lattice = [np.array(vector) for vector in ((100, 90), (30, 2), (1, 28))]
    indices = np.array([(1, 2), (100, 100)])
    small = [each.astype(of) for each in lattice]
    expected = utils.calc_coords(*lattice, indices)
    np.testing.assert_array_equal(utils.calc_coords(*small, indices.astype(of)), expected)
    np.testing.assert_array_equal(utils.make_polar(small), utils.make_polar(lattice))
    np.testing.assert_array_equal(utils.make_cartesian(small), utils.make_cartesian(lattice))
    inside = utils.within_frame(small, of(5), of(100), of(101))
    np.testing.assert_array_equal(inside, utils.within_frame(lattice, 5, 100, 101))
    # Neither single precision nor complex numbers become anything else.
    assert utils.make_polar(np.ones((1, 2), np.float32)).dtype == np.float32
    assert utils.calc_coords((1, 1j), (1, 0), (0, 1), [(1, 1)]).dtype == np.complex128


def test_peaks_of_a_frame():
    indices, peaks = utils.frame_peaks(16, 16, (8, 8), (4, 0), (0, 4), 2, np.mgrid[-2:3, -2:3])
    expected = [(i, j) for j in (-1, 0, 1) for i in (-1, 0, 1)]
    np.testing.assert_array_equal(indices, expected)
    np.testing.assert_array_equal(peaks, 8 + 4 * np.array(expected))
    skewed = utils.calc_coords((8, 8), (4, 1), (0, 4), [(0, 0), (1, 1), (2, 0)])
    np.testing.assert_array_equal(skewed, [(8, 8), (12, 13), (16, 10)])
    near = [(2, 2), (1.9, 5), (13, 14), (14, 13), (13.99, 13)]
    np.testing.assert_array_equal(utils.within_frame(near, 2, 16, 16), [1, 0, 0, 0, 1])
    with pytest.raises(InvalidArgumentError, match=r"\(3, 3\)"):
        utils.regularize_indices(np.zeros((3, 3)))


def test_frames_of_disks():
    data, indices, peaks = generate.cbed_frame(32, 48, (16, 20), (9, 0), (1, 8), all_equal=True)
    assert (data.shape, data.dtype) == ((1, 32, 48), np.float32)
    np.testing.assert_array_equal(peaks, [(16 + 9 * i + j, 20 + 8 * j) for i, j in indices])
    expected = sum(circular(x, y, 48, 32, 4, antialiased=True) for y, x in peaks)
    np.testing.assert_allclose(data[0], expected, rtol=1e-6)
    assert len(generate.cbed_frame(margin=40)[1]) == 9
    data, _, peaks = generate.cbed_frame(
        32, 48, (16, 20), (9, 0), (1, 8), np.mgrid[-1:2, -1:2], radius=2
    )
    heights = [float(data[0, int(y), int(x)]) for y, x in peaks]
    expected = [1.0, 6.7441, 4.4925, 7.8062, 17.8062, 9.8062, 8.4925, 12.7440, 9.0]
    np.testing.assert_allclose(heights, expected, atol=1e-3)


def test_holograms():
    amp, phi = np.full((8, 8), 2.0), np.full((8, 8), 0.3)
    hologram = generate.hologram_frame(amp, phi, sampling=4.0, visibility=0.5, f_angle=90)
    expected = [3455.3365, 2795.5202, 1544.6635, 2204.4798] * 2
    np.testing.assert_allclose(hologram, [expected] * 8, rtol=1e-6)
    noisy = generate.hologram_frame(np.ones((64, 64)), np.zeros((64, 64)), poisson_noise=0.1)
    np.testing.assert_allclose(noisy % 100, 0)
    assert noisy.mean() == pytest.approx(1000, rel=0.05)
    pytest.importorskip("scipy")
    blurred = generate.hologram_frame(amp, phi, gaussian_noise=2.0)
    assert blurred.std() < generate.hologram_frame(amp, phi).std() / 2
    with pytest.raises(InvalidArgumentError, match="same shape"):
        generate.hologram_frame(amp, phi[:4])


def test_ramps():
    data = generate.gradient_data((2, 3), (4, 5))
    assert (data.shape, data.dtype) == ((2, 3, 4, 5), np.float32)
    np.testing.assert_allclose(data.reshape(-1), np.linspace(5, 30, 120), rtol=1e-6)
    assert generate.gradient_data(np.array([20, 20], np.uint8), (1, 1)).shape == (20, 20, 1, 1)


@given(st.integers(0, 2**32 - 1), st.integers(1, 5))
def test_excluded_pixels_keep_apart(seed, count):
    pixels = generate.exclude_pixels((9, 11), count, rng=np.random.default_rng(seed)).T
    assert pixels.shape == (count, 2)
    assert (pixels >= 1).all()
    assert (pixels <= (7, 9)).all()
    for i, one in enumerate(pixels):
        assert all(abs(one - other).max() > 1 for other in pixels[:i])


def test_excluded_pixels_without_room():
    assert generate.exclude_pixels((4, 5), 0) is None
    assert generate.exclude_pixels((4, 5), 2).shape == (2, 2)
    with pytest.raises(InvalidArgumentError, match=r"3 pixels .* do not fit .*\(4, 5\)"):
        generate.exclude_pixels((4, 5), 3)
    with pytest.raises(InvalidArgumentError, match="do not fit"):
        generate.exclude_pixels((2, 2), 1)


def test_products():
    assert math.prod(()) == 1
    assert math.prod((2**40, 2**40)) == 2**80
    assert math.prod(np.array([200, 200], dtype=np.uint8)) == 40000
    assert type(math.prod((np.int8(3), np.True_))) is int
    with pytest.raises(InvalidArgumentError, match=r"2\.0 is of type float"):
        math.prod((2.0, 3))


def test_squares():
    assert math.make_2D_square((16,)) == (4, 4)
    assert math.make_2D_square((12,)) == (12,)
    assert math.make_2D_square((4, 4)) == (4, 4)


def test_what_is_not_zero():
    array = np.array([[0, 1, 2], [3, 0, 0]])
    variants = [array]
    scipy_sparse = pytest.importorskip("scipy.sparse")
    sparse = pytest.importorskip("sparse")
    coo = sparse.COO(array)
    variants += [coo, coo.asformat("gcxs"), coo.asformat("dok"), scipy_sparse.csc_matrix(array)]
    stored_zero = scipy_sparse.coo_matrix(([1, 0, 2, 3], ([0, 0, 0, 1], [1, 0, 2, 0])))
    for variant in [*variants, stored_zero]:
        assert math.count_nonzero(variant) == 3
        np.testing.assert_array_equal(math.flat_nonzero(variant), [1, 2, 3])
        elements = [(index, int(value)) for index, value in math.ndenumerate(variant) if value]
        assert elements == [((0, 1), 1), ((0, 2), 2), ((1, 0), 3)]
    assert len(list(math.ndenumerate(array))) == 6


@given(st.lists(st.integers(1, 5), min_size=1, max_size=4), st.data())
def test_indices_of_compiled_code(shape, data):
    flat = data.draw(st.integers(0, int(np.prod(shape)) - 1))
    several = np.array([flat, 0, flat])
    # Plain and, where Numba is installed, compiled.
    plain = getattr(numba_unravel_index_single, "py_func", numba_unravel_index_single)
    shape = tuple(shape)
    expected = np.unravel_index(flat, shape)
    for unravel in (plain, helpers.numba_unravel_index_single):
        np.testing.assert_array_equal(unravel(flat, np.array(shape)), expected)
    index = np.array(expected)
    assert helpers.numba_ravel_multi_index_single(index, np.array(shape)) == flat
    multi = helpers.numba_unravel_index_multi(several, np.array(shape))
    np.testing.assert_array_equal(multi, np.unravel_index(several, shape))
    back = helpers.numba_ravel_multi_index_multi(multi, np.array(shape))
    np.testing.assert_array_equal(back, several)


def test_indices_of_narrow_and_unsigned_integers():
    def plain(name):
        compiled = getattr(helpers, name)
        return getattr(compiled, "py_func", compiled)

    for of, shape, index in (
        (np.uint8, (200, 250), (190, 240)),
        (np.int32, (60_000, 60_000), (59_999, 59_998)),
        (np.uint64, (2**50, 2**12), (2**50 - 1, 2**12 - 1)),
    ):
        flat, several = index[0] * shape[1] + index[1], np.array(index, of)[:, np.newaxis]
        for dims in (shape, np.array(shape, of)):
            assert plain("numba_ravel_multi_index_single")(np.array(index, of), dims) == flat
            assert plain("numba_ravel_multi_index_multi")(several, dims)[0] == flat
        flats = np.array([flat], np.uint64)
        found = plain("numba_unravel_index_single")(flats[0], np.array(shape, of))
        assert found.tolist() == list(index)
        assert plain("numba_unravel_index_multi")(flats, shape)[:, 0].tolist() == list(index)
    assert plain("numba_unravel_index_single")(np.uint8(5), (300, 300)).tolist() == [0, 5]
    # Compiled, where unsigned and signed integers of 64 bits would make a float.
    assert helpers.numba_unravel_index_multi(flats, shape)[:, 0].tolist() == list(index)


def test_dense_times_sparse():
    scipy_sparse = pytest.importorskip("scipy.sparse")
    rng = np.random.default_rng(0)
    left = rng.random((4, 5)).astype(np.float32)
    right = rng.random((5, 3)) * (rng.random((5, 3)) < 0.5)
    for make in (scipy_sparse.csr_matrix, scipy_sparse.csc_matrix, scipy_sparse.csr_array):
        product = helpers.rmatmul(left, make(right))
        assert isinstance(product, np.ndarray)
        assert product.dtype == np.float64
        np.testing.assert_allclose(product, left @ right)
    with pytest.raises(InvalidArgumentError, match="CSR or CSC"):
        helpers.rmatmul(left, scipy_sparse.coo_matrix(right))
    with pytest.raises(InvalidArgumentError, match="two axes"):
        helpers.rmatmul(left[0], scipy_sparse.csr_matrix(right))
    with pytest.raises(InvalidArgumentError, match=r"\(4, 5\) does not match"):
        helpers.rmatmul(left, scipy_sparse.csr_matrix(right.T))


def test_functions_that_cannot_be_kept_are_compiled_nevertheless():
    pytest.importorskip("numba")
    namespace: dict[str, object] = {}
    exec("def add_one(x):\n    return x + 1", namespace)
    assert helpers.cached_njit()(namespace["add_one"])(2) == 3
