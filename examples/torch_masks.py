"""Virtual detectors as a product of matrices in PyTorch.

framefold's own ``ApplyMasksUDF`` does the same faster; this shows how frames get into a library
that has arrays and threads of its own::

    pip install torch
    python examples/torch_masks.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch

import framefold as ff

Array = npt.NDArray[Any]

# The workers are threads already. Set once, for all: this number belongs to the process.
torch.set_num_threads(1)


class TorchMasksUDF(ff.UDF):
    """The product of each frame with each mask; ``masks`` has the shape (n, height, width)."""

    def __init__(self, masks: Array) -> None:
        super().__init__(masks=masks)

    def get_result_buffers(self) -> Any:
        n_masks = len(self.params.masks)
        return {"intensity": self.buffer(kind="nav", extra_shape=(n_masks,), dtype=np.float32)}

    def get_task_data(self) -> Any:
        # Tensors stay with the worker: parameters are what is sent to it.
        return {"masks": torch.tensor(self.params.masks, dtype=torch.float32)}

    def get_preferred_input_dtype(self) -> Any:
        return np.float32

    def process_tile(self, tile: Array) -> None:
        # Frames are read-only. PyTorch has no such arrays and warns about them, so it gets a copy;
        # a tile is small enough for the cache.
        pixels = torch.from_numpy(tile.copy()).flatten(start_dim=1)
        masks = self.meta.sig_slice.get(self.task_data.masks, sig_only=True).flatten(start_dim=1)
        self.results.intensity[:] += (pixels @ masks.T).numpy()


def main() -> None:
    rng = np.random.default_rng(5)
    frames = rng.poisson(3.0, (24, 20, 64, 72)).astype(np.uint16)
    masks = rng.random((8, 64, 72), dtype=np.float32)
    ctx = ff.Context()
    dataset = ctx.load("memory", data=frames, sig_dims=2)
    result = ctx.run_udf(dataset=dataset, udf=TorchMasksUDF(masks))["intensity"].data

    native = ff.ApplyMasksUDF(mask_factories=lambda: masks)
    expected = ctx.run_udf(dataset=dataset, udf=native)["intensity"].data
    error = np.abs(result / expected - 1).max()
    assert error < 1e-5, error
    print(f"{result.shape[-1]} detectors for {result.shape[:-1]} positions, with PyTorch")
    print(f"differs from ApplyMasksUDF by {error:.1e}")


if __name__ == "__main__":
    main()
