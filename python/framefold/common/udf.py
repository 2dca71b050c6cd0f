"""Constants of the UDF interface: methods, and names and sets of array formats.

An array format ("backend") is named after the class that holds it. Formats are sorted into sets
by device (:data:`CPU_BACKENDS`, :data:`CUDA_BACKENDS`), by storage (:data:`DENSE_BACKENDS`,
:data:`SPARSE_BACKENDS`) and by whether they have any number of axes (:data:`ND_BACKENDS`) or two
(:data:`D2_BACKENDS`).
"""

from __future__ import annotations

from enum import IntEnum, StrEnum
from typing import Protocol, TypedDict


class UDFMethod(StrEnum):
    """How much of the data a UDF wants to see in one call."""

    TILE = "tile"
    FRAMES = "frames"
    FRAME = "frame"
    PARTITION = "partition"


class TileDepthEnum(IntEnum):
    """Depths of tiles that have a name."""

    TILE_DEPTH_DEFAULT = 32


class TileSizeEnum(IntEnum):
    """Sizes of tiles in bytes that have a name."""

    TILE_SIZE_BEST_FIT = 1 << 20


class TilingPreferences(TypedDict):
    """What ``get_tiling_preferences`` of a UDF returns: frames of a tile, and its bytes."""

    depth: float
    total_size: float


class UDFProtocol(Protocol):
    """What a run asks of a UDF before it begins."""

    def get_method(self) -> UDFMethod:
        """Which method processes the data."""

    def get_tiling_preferences(self) -> TilingPreferences:
        """What it wishes of tiles."""


NUMPY = "numpy"
NUMPY_MATRIX = "numpy.matrix"
CUPY = "cupy"
CUDA = "cuda"
SPARSE_COO = "sparse.COO"
SPARSE_GCXS = "sparse.GCXS"
SPARSE_DOK = "sparse.DOK"
SCIPY_COO = "scipy.sparse.coo_matrix"
SCIPY_CSR = "scipy.sparse.csr_matrix"
SCIPY_CSC = "scipy.sparse.csc_matrix"
SCIPY_COO_ARRAY = "scipy.sparse.coo_array"
SCIPY_CSR_ARRAY = "scipy.sparse.csr_array"
SCIPY_CSC_ARRAY = "scipy.sparse.csc_array"
CUPY_SCIPY_COO = "cupyx.scipy.sparse.coo_matrix"
CUPY_SCIPY_CSR = "cupyx.scipy.sparse.csr_matrix"
CUPY_SCIPY_CSC = "cupyx.scipy.sparse.csc_matrix"

_SCIPY = frozenset(
    {SCIPY_COO, SCIPY_CSR, SCIPY_CSC, SCIPY_COO_ARRAY, SCIPY_CSR_ARRAY, SCIPY_CSC_ARRAY}
)
_CUPY_SCIPY = frozenset({CUPY_SCIPY_COO, CUPY_SCIPY_CSR, CUPY_SCIPY_CSC})
_SPARSE = frozenset({SPARSE_COO, SPARSE_GCXS, SPARSE_DOK})

CPU_BACKENDS = frozenset({NUMPY, NUMPY_MATRIX}) | _SPARSE | _SCIPY
CUPY_BACKENDS = frozenset({CUPY}) | _CUPY_SCIPY
CUDA_BACKENDS = frozenset({CUDA}) | CUPY_BACKENDS
SPARSE_BACKENDS = _SPARSE | _SCIPY | _CUPY_SCIPY
DENSE_BACKENDS = frozenset({NUMPY, NUMPY_MATRIX, CUDA, CUPY})
ND_BACKENDS = frozenset({NUMPY, CUDA, CUPY}) | _SPARSE
D2_BACKENDS = frozenset({NUMPY_MATRIX}) | _SCIPY | _CUPY_SCIPY

#: All recommended formats, the one to prefer first.
ALL_BACKENDS = (
    CUPY_SCIPY_CSR,
    CUPY_SCIPY_CSC,
    CUPY_SCIPY_COO,
    SCIPY_COO_ARRAY,
    SCIPY_CSC_ARRAY,
    SCIPY_CSR_ARRAY,
    SCIPY_CSR,
    SCIPY_CSC,
    SCIPY_COO,
    CUPY,
    NUMPY,
    SPARSE_COO,
    SPARSE_GCXS,
)


class BackendConstants:
    """The constants above as attributes, as UDFs use them: ``self.BACKEND_NUMPY``."""

    BACKEND_NUMPY = NUMPY
    BACKEND_CUPY = CUPY
    BACKEND_CUDA = CUDA
    BACKEND_SPARSE_COO = SPARSE_COO
    BACKEND_SPARSE_GCXS = SPARSE_GCXS
    BACKEND_SPARSE_DOK = SPARSE_DOK
    BACKEND_SCIPY_COO = SCIPY_COO
    BACKEND_SCIPY_CSR = SCIPY_CSR
    BACKEND_SCIPY_CSC = SCIPY_CSC
    BACKEND_SCIPY_COO_ARRAY = SCIPY_COO_ARRAY
    BACKEND_SCIPY_CSR_ARRAY = SCIPY_CSR_ARRAY
    BACKEND_SCIPY_CSC_ARRAY = SCIPY_CSC_ARRAY
    BACKEND_CUPY_SCIPY_COO = CUPY_SCIPY_COO
    BACKEND_CUPY_SCIPY_CSR = CUPY_SCIPY_CSR
    BACKEND_CUPY_SCIPY_CSC = CUPY_SCIPY_CSC
    BACKEND_ALL = ALL_BACKENDS
    CPU_BACKENDS = CPU_BACKENDS
    CUDA_BACKENDS = CUDA_BACKENDS
    CUPY_BACKENDS = CUPY_BACKENDS
    SPARSE_BACKENDS = SPARSE_BACKENDS
    DENSE_BACKENDS = DENSE_BACKENDS
    ND_BACKENDS = ND_BACKENDS
    D2_BACKENDS = D2_BACKENDS
