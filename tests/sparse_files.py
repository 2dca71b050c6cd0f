"""Sparse data sets for tests, written and checked by way of SciPy."""

from pathlib import Path

import numpy as np
import scipy.sparse


def write_raw_csr(folder: Path, frames, nav_shape) -> Path:
    """Write dense ``frames``, shape ``(n, *sig)``, as raw_csr; returns the descriptor."""
    rows = scipy.sparse.csr_array(frames.reshape(len(frames), -1))
    folder.mkdir(parents=True, exist_ok=True)
    text = (
        f'[params]\nfiletype = "raw_csr"\nnav_shape = {list(nav_shape)}\n'
        f"sig_shape = {list(frames.shape[1:])}\n[raw_csr]\n"
    )
    for name, array in (
        ("indptr", rows.indptr.astype("<i8")),
        ("indices", rows.indices.astype("<i4")),
        ("data", rows.data.astype(frames.dtype)),
    ):
        array.tofile(folder / name)
        text += f'{name}_file = "{name}"\n{name}_dtype = "{array.dtype.str}"\n'
    path = folder / "scan.toml"
    path.write_text(text)
    return path


def counts(shape, dtype, density=0.2, seed=3):
    """Frames that are mostly zero; some of them entirely."""
    rng = np.random.default_rng(seed)
    values = rng.integers(1, 100, shape)
    if np.dtype(dtype).kind == "c":
        values = values + 1j * rng.integers(-9, 9, shape)
    data = np.where(rng.random(shape) < density, values, 0).astype(dtype)
    data[0, 1] = 0
    data[-1, -1] = 0
    return data
