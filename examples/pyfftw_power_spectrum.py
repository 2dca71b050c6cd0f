"""The mean power spectrum of all frames, with pyFFTW's builder interface.

A plan of pyFFTW works on its own buffers, so each worker makes one for itself, in
``get_task_data``. pyFFTW's cache of plans is not needed, and nothing is shared between threads::

    pip install pyfftw
    python examples/pyfftw_power_spectrum.py
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyfftw
import pyfftw.builders

import framefold as ff

Array = npt.NDArray[Any]


class PowerSpectrumUDF(ff.UDF):
    """The sum of the squared magnitudes of each frame's Fourier transform."""

    def get_result_buffers(self) -> Any:
        height, width = self.meta.dataset_shape.sig
        # Of real frames, half of the spectrum is the mirror image of the other half.
        shape = (height, width // 2 + 1)
        return {"power": self.buffer(kind="single", extra_shape=shape, dtype=np.float64)}

    def get_task_data(self) -> Any:
        frame = pyfftw.empty_aligned(tuple(self.meta.dataset_shape.sig), dtype="float32")
        transform = pyfftw.builders.rfft2(frame, threads=self.meta.threads_per_worker)
        return {"frame": frame, "transform": transform}

    def process_frame(self, frame: Array) -> None:
        # Into the buffer that the plan was made for; it converts, too.
        self.task_data.frame[:] = frame
        spectrum = self.task_data.transform()
        self.results.power[:] += spectrum.real**2 + spectrum.imag**2

    def merge(self, dest: Any, src: Any) -> None:
        dest.power[:] += src.power


def main() -> None:
    rng = np.random.default_rng(3)
    y, x = np.mgrid[:96, :80]
    waves = 20 + 10 * np.cos(2 * np.pi * (5 * y / 96 + 3 * x / 80))
    frames = rng.poisson(waves, (16, 16, 96, 80)).astype(np.uint16)
    ctx = ff.Context()
    dataset = ctx.load("memory", data=frames, sig_dims=2)
    power = ctx.run_udf(dataset=dataset, udf=PowerSpectrumUDF())["power"].data

    expected = (np.abs(np.fft.rfft2(frames)) ** 2).sum(axis=(0, 1))
    error = np.abs(power - expected).max() / expected.max()
    assert error < 1e-5, error
    power[0, 0] = 0
    row, column = np.unravel_index(power.argmax(), power.shape)
    print(f"the strongest wave has {row} periods down and {column} across")
    print(f"differs from numpy.fft by {error:.1e} of the largest value")


if __name__ == "__main__":
    main()
