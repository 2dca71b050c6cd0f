"""The simulated scan obeys the physics that it documents."""

from __future__ import annotations

import numpy as np
import pytest

from framefold.utils.simulate import StrainedCrystal

SMALL = {"nav_shape": (6, 5), "sig_shape": (64, 64), "camera_step": 0.22, "disk_radius": 3.0}


def test_shapes_and_seeds() -> None:
    crystal = StrainedCrystal(**SMALL, seed=3)
    counts = crystal.counts()
    assert counts.shape == (6, 5, 64, 64)
    assert counts.dtype == np.uint16
    np.testing.assert_array_equal(counts, StrainedCrystal(**SMALL, seed=3).counts())
    np.testing.assert_array_equal(counts[4], crystal.row(4))
    assert (counts != StrainedCrystal(**SMALL, seed=4).counts()).any()


def test_the_inclusion_is_stretched_evenly_by_eshelbys_factor() -> None:
    crystal = StrainedCrystal(nav_shape=(101, 101), misfit=0.04, border_width=0.5)
    expected = 0.04 / (2 * (1 - crystal.poisson_ratio))
    inside = np.linalg.norm(crystal.positions, axis=-1) < 10
    strain = crystal.strain[inside]
    np.testing.assert_allclose(
        strain, np.broadcast_to(expected * np.eye(2), strain.shape), atol=1e-5
    )


def test_around_the_inclusion_is_a_shear_that_falls_with_the_square() -> None:
    crystal = StrainedCrystal(nav_shape=(1, 301), border_width=0.5, inclusion_radius=20)
    x = crystal.positions[0, :, 1]
    outside = x > 30
    strain = crystal.strain[0, outside]
    np.testing.assert_allclose(np.trace(strain, axis1=-2, axis2=-1), 0, atol=1e-6)
    np.testing.assert_allclose(strain[:, 0, 1], 0, atol=1e-12)
    # Compressed along the radius (x), stretched across it.
    assert (strain[:, 1, 1] < 0).all()
    scaled = strain[:, 1, 1] * x[outside] ** 2
    np.testing.assert_allclose(scaled, scaled[0], rtol=1e-3)


def test_a_stretched_lattice_has_a_smaller_reciprocal_lattice() -> None:
    crystal = StrainedCrystal(nav_shape=(65, 65), misfit=0.05)
    length = np.linalg.norm(crystal.local_bases, axis=-1) * crystal.lattice_constant
    expected = 1 / (1 + crystal.strain[32, 32, 0, 0])
    np.testing.assert_allclose(length[32, 32], expected, rtol=1e-6)
    assert expected < 0.97


def test_the_dose_is_shared_out() -> None:
    crystal = StrainedCrystal(nav_shape=(3, 3), electrons_per_frame=5000)
    disks = crystal.disk_intensities.sum(axis=-1)
    diffuse = crystal.diffuse * (1 + crystal.diffuse_contrast * crystal.concentration)
    np.testing.assert_allclose(disks + diffuse, 1)
    seen = crystal.expected(1).sum(axis=(1, 2))
    assert (seen < 5000).all()
    assert (seen > 0.9 * 5000).all()


def test_disks_sit_where_the_lattice_says() -> None:
    crystal = StrainedCrystal(nav_shape=(1, 1), diffuse=0.0, descan_shift=(0, 0), field_shift=0)
    frame = crystal.expected(0)[0]
    y, x = np.indices(frame.shape)
    for order in ([0, 0], [1, 0], [0, 1], [-1, -1]):
        disk = crystal.center + order @ crystal.local_bases[0, 0] / crystal.camera_step
        near = np.hypot(y - disk[0], x - disk[1]) < crystal.disk_radius + 3
        weights = frame * near
        found = np.array([(weights * y).sum(), (weights * x).sum()]) / weights.sum()
        np.testing.assert_allclose(found, disk, atol=0.02)


def test_the_centre_of_mass_follows_the_field() -> None:
    crystal = StrainedCrystal(nav_shape=(1, 41), descan_shift=(0, 0), diffuse=0.0)
    frames = crystal.expected(0)
    y, x = np.indices(frames.shape[1:])
    # The direct beam alone: what else is seen depends on the borders of the detector.
    near = np.hypot(y - crystal.center[0], x - crystal.center[1]) < crystal.disk_radius + 4
    frames = frames * near
    found = (frames * x).sum(axis=(1, 2)) / frames.sum(axis=(1, 2)) - crystal.center[1]
    shift = crystal.shift[0, :, 1]
    assert np.abs(shift).max() > 0.7
    np.testing.assert_allclose(found, shift, atol=0.01)


def test_counts_are_poisson() -> None:
    crystal = StrainedCrystal(
        nav_shape=(1, 400), misfit=0, field_shift=0, descan_shift=(0, 0), thickness_slope=0,
        extinction_contrast=0, diffuse_contrast=0, sig_shape=(32, 32), disk_radius=3.0,
    )  # fmt: skip
    expected = crystal.expected(0)
    np.testing.assert_allclose(expected, np.broadcast_to(expected[:1], expected.shape))
    counts = crystal.row(0).astype(float)
    bright = expected[0] > 5
    assert bright.sum() > 20
    np.testing.assert_allclose(counts.mean(axis=0)[bright], expected[0][bright], rtol=0.1)
    ratio = counts.var(axis=0)[bright] / expected[0][bright]
    assert abs(ratio.mean() - 1) < 0.05


def test_thickness_changes_the_intensities() -> None:
    crystal = StrainedCrystal(nav_shape=(1, 9), thickness_slope=20, extinction_contrast=0)
    direct = (crystal.orders == 0).all(axis=1)
    share = crystal.disk_intensities[0, :, direct].ravel()
    assert share.max() / share.min() > 1.2


@pytest.mark.parametrize(
    "wrong",
    [{"nav_shape": (0, 4)}, {"sig_shape": (4,)}, {"camera_step": 0.0}, {"diffuse": 0.9}],
)
def test_impossible_parameters_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ValueError, match="expected"):
        StrainedCrystal(**wrong)  # type: ignore[arg-type]
