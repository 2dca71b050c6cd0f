r"""A small, physically sensible 4D-STEM scan: a crystal with a strained inclusion.

The model is made to be checked against, not to compete with multislice codes: every quantity
that an analysis tries to find (strain, deflection of the beam, thickness) is known exactly.

* **Crystal.** A square lattice seen along its zone axis. The convergent beam gives a disk at
  each point of the reciprocal lattice. Intensities follow the two-beam formula of Howie and
  Whelan for each disk on its own, :math:`I_g \propto \xi_g^{-2}
  \sin^2(\pi t s_\mathrm{eff}) / s_\mathrm{eff}^2` with :math:`s_\mathrm{eff}^2 = s_g^2 +
  \xi_g^{-2}` and :math:`s_g = \lambda g^2 / 2`, and are then scaled to a sum of 1 (see
  Williams and Carter, *Transmission Electron Microscopy*, 2nd ed., ch. 13). The extinction
  distance grows with :math:`|g|` as the scattering factor falls. The thickness changes
  steadily along the scan, and so do the intensities.
* **Inclusion.** A cylinder that would be larger (or smaller) than the hole it sits in by the
  misfit :math:`f`, with a graded border. In plane strain and with equal elastic constants, the
  radial displacement is :math:`u(r) = \frac{1}{(1-\nu) r} \int_0^r f(s)\, s\, ds` (Timoshenko
  and Goodier, *Theory of Elasticity*, 3rd ed., ch. 13, with misfit for thermal expansion;
  Eshelby, *Proc. R. Soc. A* 241 (1957) 376): a uniform expansion inside, and a shear that
  falls off as :math:`1/r^2` outside.
* **Field.** The inclusion's inner potential is lower than that of the matrix, with the shape of
  the graded border, and gives the beam a phase whose gradient shifts the whole pattern, away from
  the inclusion. That is what differential phase contrast and centre of mass measure. Axes of scan
  and detector are the same; :func:`~framefold.udf.com.guess_corrections`, which takes what attracts
  the beam for the atoms, finds about 180 degrees instead. Imperfect descan adds a shift that is
  linear in the scan position.
* **Detector.** Disks have soft edges, a diffuse background decays with the angle and is
  stronger in the inclusion (atomic number contrast), and counts follow Poisson statistics.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from .write_mib import write_mib

__all__ = ["StrainedCrystal", "write_mib"]

FloatArray = npt.NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class StrainedCrystal:
    r"""A scan over a crystal with a strained inclusion; see the module's notes for the model.

    Positions and directions are (y, x): y counts down the rows of the scan and the detector,
    x along them. The inclusion sits in the middle of the scan.

    Parameters
    ----------
    nav_shape
        Rows and columns of the scan.
    sig_shape
        Rows and columns of the detector.
    scan_step
        Distance between scan positions in nm.
    camera_step
        Width of a detector pixel in 1/nm.
    lattice_constant
        Edge of the unstrained unit cell in nm.
    lattice_angle
        Angle between the first lattice vector and the x axis in radians.
    disk_radius
        Radius of the diffraction disks (the convergence angle) in detector pixels.
    edge_width
        Softness of the disks' edges in detector pixels.
    wavelength
        Of the electrons, in nm; the default belongs to 200 kV.
    thickness
        At the left border of the scan, in nm.
    thickness_slope
        How much thicker the crystal is at the right border, in nm.
    extinction_distance
        For vanishing scattering angle, in nm.
    debye_waller
        Decay of the scattering factors with the angle, :math:`\exp(-B g^2)`, in nm².
    inclusion_radius
        In nm.
    border_width
        Of the graded border of the inclusion, in nm.
    misfit
        Relative difference in size between inclusion and matrix.
    poisson_ratio
        Of both materials.
    field_shift
        The largest deflection of the beam by the inclusion's field, in detector pixels.
    descan_shift
        The shift of the pattern between opposite corners of the scan by imperfect descan,
        (y, x) in detector pixels.
    extinction_contrast
        How much more strongly the inclusion diffracts: a relative change of the inverse
        extinction distance.
    diffuse
        Part of the electrons in the diffuse background of the matrix.
    diffuse_contrast
        How much more the inclusion scatters into the background, relative to the matrix.
    electrons_per_frame
        The mean dose of a frame. Some of it misses the detector.
    seed
        Of the noise. Equal seeds give equal data.

    Examples
    --------
    >>> crystal = StrainedCrystal(nav_shape=(4, 4), sig_shape=(64, 64), seed=1)
    >>> crystal.counts().shape
    (4, 4, 64, 64)
    """

    nav_shape: tuple[int, int] = (64, 64)
    sig_shape: tuple[int, int] = (128, 128)
    scan_step: float = 1.0
    camera_step: float = 0.11
    lattice_constant: float = 0.39
    lattice_angle: float = 0.2
    disk_radius: float = 6.0
    edge_width: float = 0.7
    wavelength: float = 0.00251
    thickness: float = 25.0
    thickness_slope: float = 6.0
    extinction_distance: float = 55.0
    debye_waller: float = 0.018
    inclusion_radius: float = 14.0
    border_width: float = 2.0
    misfit: float = 0.04
    poisson_ratio: float = 0.3
    field_shift: float = 0.8
    descan_shift: tuple[float, float] = (0.5, -0.7)
    extinction_contrast: float = 0.12
    diffuse: float = 0.12
    diffuse_contrast: float = 0.8
    electrons_per_frame: float = 10_000.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name in ("nav_shape", "sig_shape"):
            shape = getattr(self, name)
            if len(shape) != 2 or min(shape) < 1:
                raise ValueError(f"found {name} {shape}, expected two lengths of at least 1")
        for name in (
            "scan_step",
            "camera_step",
            "lattice_constant",
            "disk_radius",
            "edge_width",
            "inclusion_radius",
            "border_width",
        ):
            if not getattr(self, name) > 0:
                raise ValueError(f"found {name} {getattr(self, name)}, expected more than 0")
        if not (self.diffuse >= 0 and self.diffuse * (1 + max(self.diffuse_contrast, 0)) < 1):
            raise ValueError(
                f"found diffuse {self.diffuse} with diffuse_contrast {self.diffuse_contrast}, "
                "expected a share between 0 and 1 in matrix and inclusion"
            )

    @property
    def center(self) -> tuple[float, float]:
        """Where the unshifted beam meets the detector, (y, x) in pixels."""
        return (self.sig_shape[0] / 2, self.sig_shape[1] / 2)

    @cached_property
    def positions(self) -> FloatArray:
        """Scan positions relative to the inclusion's centre in nm: shape ``(*nav_shape, 2)``."""
        axes = [(np.arange(n) - (n - 1) / 2) * self.scan_step for n in self.nav_shape]
        return np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1)

    @cached_property
    def concentration(self) -> FloatArray:
        """How much of the inclusion is at each position, from 0 to 1: shape nav_shape."""
        return self._concentration(np.linalg.norm(self.positions, axis=-1))

    def _concentration(self, radius: FloatArray) -> FloatArray:
        return 0.5 * (1 - np.tanh((radius - self.inclusion_radius) / self.border_width))

    @cached_property
    def strain(self) -> FloatArray:
        """Strain relative to the undisturbed matrix: shape ``(*nav_shape, 2, 2)``, axes (y, x)."""
        radius = np.linalg.norm(self.positions, axis=-1)
        fine = np.linspace(0.0, radius.max() + self.scan_step, 4096)
        misfit = self.misfit * self._concentration(fine)
        # The integral of f(s) s ds by the trapezoidal rule.
        integrand = misfit * fine
        steps = (integrand[1:] + integrand[:-1]) / 2 * np.diff(fine)
        integral = np.concatenate([[0.0], np.cumsum(steps)])
        stiffness = 1 - self.poisson_ratio
        tangential = np.full_like(fine, misfit[0] / (2 * stiffness))
        tangential[1:] = integral[1:] / (stiffness * fine[1:] ** 2)
        radial = misfit / stiffness - tangential

        direction = np.divide(
            self.positions,
            radius[..., None],
            out=np.zeros_like(self.positions),
            where=radius[..., None] > 0,
        )
        outer = direction[..., :, None] * direction[..., None, :]
        along = np.interp(radius, fine, radial)[..., None, None]
        across = np.interp(radius, fine, tangential)[..., None, None]
        strain: FloatArray = across * np.eye(2) + (along - across) * outer
        return strain

    @cached_property
    def shift(self) -> FloatArray:
        """The shift of the whole pattern, (y, x) in detector pixels: shape ``(*nav_shape, 2)``."""
        radius = np.linalg.norm(self.positions, axis=-1)
        # Minus the gradient of the concentration, scaled to 1 at the middle of the border.
        steepness = 1 / np.cosh((radius - self.inclusion_radius) / self.border_width) ** 2
        direction = self.positions / np.maximum(radius, 1e-12)[..., None]
        field = self.field_shift * steepness[..., None] * direction
        extent = [max(n - 1, 1) * self.scan_step for n in self.nav_shape]
        descan = np.asarray(self.descan_shift) * self.positions / np.asarray(extent)
        total: FloatArray = field + descan
        return total

    @cached_property
    def local_thickness(self) -> FloatArray:
        """Thickness in nm: shape nav_shape."""
        n_y, n_x = self.nav_shape
        ramp = self.thickness + self.thickness_slope * np.arange(n_x) / max(n_x - 1, 1)
        return np.broadcast_to(ramp, (n_y, n_x)).copy()

    @cached_property
    def reciprocal_basis(self) -> FloatArray:
        """The unstrained reciprocal lattice: two rows (y, x) in 1/nm."""
        sin, cos = np.sin(self.lattice_angle), np.cos(self.lattice_angle)
        return np.array([[sin, cos], [cos, -sin]]) / self.lattice_constant

    @cached_property
    def local_bases(self) -> FloatArray:
        r"""The strained reciprocal lattice: shape ``(*nav_shape, 2, 2)``, rows (y, x) in 1/nm.

        A lattice stretched by :math:`1 + \epsilon` has reciprocal vectors that are shortened
        by :math:`(1 + \epsilon)^{-1}`.
        """
        inverse = np.linalg.inv(np.eye(2) + self.strain)
        bases: FloatArray = self.reciprocal_basis @ inverse
        return bases

    @cached_property
    def orders(self) -> npt.NDArray[np.int64]:
        """The Miller indices of the disks that reach the detector: shape (n_disks, 2)."""
        # The half diagonal, and some room for strain and shift.
        reach = 1.1 * np.hypot(*self.sig_shape) / 2 + self.disk_radius
        limit = int(np.ceil(reach * self.camera_step * self.lattice_constant))
        axis = np.arange(-limit, limit + 1)
        indices = np.stack(np.meshgrid(axis, axis, indexing="ij"), axis=-1).reshape(-1, 2)
        offsets = np.abs(indices @ self.reciprocal_basis) / self.camera_step
        room = np.asarray(self.sig_shape) / 2 * 1.1 + self.disk_radius
        return indices[(offsets < room).all(axis=1)]

    @cached_property
    def disk_intensities(self) -> FloatArray:
        """The share of the electrons in each disk: shape ``(*nav_shape, n_disks)``."""
        g_squared = np.square(self.orders @ self.reciprocal_basis).sum(axis=1)
        strength = (1 + self.extinction_contrast * self.concentration) / self.extinction_distance
        coupling = np.exp(-self.debye_waller * g_squared) * strength[..., None]
        error = self.wavelength * g_squared / 2
        effective = np.hypot(error, coupling)
        phase = np.pi * self.local_thickness[..., None] * effective
        intensity = (coupling / effective * np.sin(phase)) ** 2
        direct = (self.orders == 0).all(axis=1)
        intensity[..., direct] = 1.0
        share: FloatArray = intensity / intensity.sum(axis=-1, keepdims=True)
        return share * (1 - self._diffuse())[..., None]

    def _diffuse(self) -> FloatArray:
        return self.diffuse * (1 + self.diffuse_contrast * self.concentration)

    def expected(self, row: int) -> FloatArray:
        """Give the mean counts of one row of the scan: shape ``(nav_shape[1], *sig_shape)``."""
        n_frames, (height, width) = self.nav_shape[1], self.sig_shape
        half = int(np.ceil(self.disk_radius + 4 * self.edge_width)) + 1
        # A margin takes what falls off the detector.
        n_rows, n_columns = height + 2 * half, width + 2 * half
        frames = np.zeros((n_frames, n_rows, n_columns))
        pixels = frames.reshape(-1)
        first = np.arange(n_frames)[:, None] * (n_rows * n_columns)
        area = np.pi * self.disk_radius**2
        offsets = np.arange(-half, half + 1)
        origin = np.asarray(self.center) + self.shift[row]
        for order, share in zip(self.orders, self.disk_intensities[row].T, strict=True):
            disk = origin + order @ self.local_bases[row] / self.camera_step
            corner = np.floor(disk).astype(int)
            y = corner[:, 0, None] + offsets
            x = corner[:, 1, None] + offsets
            # Pixels are points at their centres: pixel 0 reaches from -0.5 to 0.5.
            squared_y, squared_x = (y - disk[:, 0, None]) ** 2, (x - disk[:, 1, None]) ** 2
            distance = np.sqrt(squared_y[:, :, None] + squared_x[:, None, :])
            profile = 0.5 * (1 - np.tanh((distance - self.disk_radius) / self.edge_width))
            profile *= (share / area)[:, None, None]
            rows = first + n_columns * np.clip(y + half, 0, n_rows - 1)
            columns = np.clip(x + half, 0, n_columns - 1)
            # Indices repeat in the margin only, whose contents do not matter.
            pixels[rows[:, :, None] + columns[:, None, :]] += profile
        seen = frames[:, half:-half, half:-half]
        return self.electrons_per_frame * (seen + self._background(row))

    def _background(self, row: int) -> FloatArray:
        """Diffuse scattering, as a share of the electrons per pixel."""
        y, x = (np.arange(n) for n in self.sig_shape)
        center = np.asarray(self.center) + self.shift[row]
        squared = (y - center[:, 0, None])[:, :, None] ** 2 + (
            (x - center[:, 1, None])[:, None, :] ** 2
        )
        scale = 0.25 * min(self.sig_shape)
        share = self._diffuse()[row]
        # The two-dimensional integral of this profile over the plane is 1.
        profile = (1 + squared / scale**2) ** -2 / (np.pi * scale**2)
        background: FloatArray = profile * share[:, None, None]
        return background

    def rows(self) -> Iterator[npt.NDArray[np.uint16]]:
        """Yield the counts row by row: arrays of shape ``(nav_shape[1], *sig_shape)``.

        Each row has a random generator of its own, so that it comes out the same on its own.
        """
        for row in range(self.nav_shape[0]):
            yield self.row(row)

    def row(self, row: int) -> npt.NDArray[np.uint16]:
        """Simulate one row of the scan: shape ``(nav_shape[1], *sig_shape)``, dtype uint16.

        Counters of 12 bits stop at 4095, as the detector's do.
        """
        random = np.random.default_rng([self.seed, row])
        counts: npt.NDArray[np.int64] = random.poisson(self.expected(row))
        return np.minimum(counts, np.int64(4095)).astype(np.uint16)

    def counts(self) -> npt.NDArray[np.uint16]:
        """Simulate all counts: shape ``(*nav_shape, *sig_shape)``, dtype uint16."""
        return np.stack(list(self.rows()))
