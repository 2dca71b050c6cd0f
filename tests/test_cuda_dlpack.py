"""Tiles that torch and JAX compute with, as the guide says. Needs a real device."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest
from cuda_devices import Real

import framefold as ff

GUIDE = Path(__file__).resolve().parent.parent / "docs" / "guide" / "cuda.md"
NAV, SIG = (24, 32), (128, 256)
#: How long a device is kept busy before it gets to a tile: far longer than it takes to bring two.
CYCLES = 30_000_000


def of_guide(name):
    """A class of the guide."""
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(encoding="utf-8"), re.DOTALL)
    (code,) = (block for block in blocks if f"class {name}(" in block)
    names = {"ff": ff, "np": np, "__name__": __name__}
    exec(compile(code, f"{GUIDE}: {name}", "exec"), names)
    return names[name]


@pytest.fixture
def cupy(monkeypatch):
    for name in ("FRAMEFOLD_USE_CUDA", "FRAMEFOLD_USE_CPU", "LIBERTEM_USE_CUDA"):
        monkeypatch.delenv(name, raising=False)
    return Real().cupy


@pytest.fixture
def torch(cupy):
    torch = pytest.importorskip("torch", reason="torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("torch was built without CUDA, or finds no device")
    return torch


@pytest.fixture
def jax(cupy, monkeypatch):
    jax = pytest.importorskip("jax", reason="JAX is not installed")
    # Before it looks for devices, once in a process.
    monkeypatch.setenv("XLA_PYTHON_CLIENT_PREALLOCATE", "false")
    try:
        jax.devices("cuda")
    except RuntimeError as error:
        pytest.skip(f"JAX finds no device: {error}")
    return jax


@pytest.fixture(params=["uint16", "float32"])
def data(request):
    rng = np.random.default_rng(11)
    return rng.integers(0, 4000, (*NAV, *SIG), dtype=np.uint16).astype(request.param)


@pytest.fixture(params=["file", "resident"])
def ran(request, data, tmp_path):
    """Runs a function over frames in a file, or on the device: two partitions, several tiles."""
    path = tmp_path / "frames.raw"
    data.tofile(path)

    def run(udf):
        with ff.Context.make_with("threads", cpus=0, gpus=[0]) as ctx:
            dataset = ctx.load(
                "raw", path, dtype=data.dtype, nav_shape=NAV, sig_shape=SIG, num_partitions=2
            )
            if request.param == "file":
                return ctx.run_udf(dataset=dataset, udf=udf)
            with dataset.to_device() as resident:
                return ctx.run_udf(dataset=resident, udf=udf)

    return run


def power(data):
    """What the functions of the guide compute."""
    spectrum = np.fft.rfft2(data.astype(np.float64))
    return (np.abs(spectrum) ** 2).sum(axis=(2, 3))


def watched(monkeypatch, module, address):
    """Where tiles are that ``from_dlpack`` gets, and what it makes of them."""
    places, real = [], module.from_dlpack

    def from_dlpack(tile):
        made = real(tile)
        places.append((tile.data.ptr, address(made)))
        return made

    monkeypatch.setattr(module, "from_dlpack", from_dlpack)
    return places


def check_uncopied(places):
    assert len(places) > 2, "too few tiles to see one written over"
    assert all(given == made for given, made in places)


def test_torch_as_in_the_guide(monkeypatch, torch, data, ran):
    places = watched(monkeypatch, torch, lambda tensor: tensor.data_ptr())
    rfft2, sizes = torch.fft.rfft2, []

    def late(tensor):
        assert tensor.is_cuda
        sizes.append(len(tensor))
        torch.cuda._sleep(CYCLES)
        return rfft2(tensor)

    monkeypatch.setattr(torch.fft, "rfft2", late)
    found = ran(of_guide("TorchSpectrum")())["power"].data
    np.testing.assert_allclose(found, power(data), rtol=1e-4)
    assert sum(sizes) == NAV[0] * NAV[1]
    check_uncopied(places)


class TorchSum(ff.UDF):
    """By tile, on CuPy's stream or torch's default one; what is made goes at once."""

    def __init__(self, on_ours):
        super().__init__(on_ours=on_ours)

    def get_backends(self):
        return (self.BACKEND_CUPY,)

    def get_result_buffers(self):
        return {"total": self.buffer("sig", dtype="float64", where="device")}

    def process_tile(self, tile):
        import torch

        stream = torch.cuda.default_stream(tile.device.id)
        if self.params.on_ours:
            ours = self.xp.cuda.get_current_stream()
            stream = torch.cuda.ExternalStream(ours.ptr, tile.device.id)
        with torch.cuda.stream(stream):
            torch.cuda._sleep(CYCLES)
            tensor = torch.from_dlpack(tile)
            total = tensor.to(torch.float64).sum(dim=0)
            self.results.total[:] += self.xp.from_dlpack(total)

    def merge(self, dest, src):
        dest.total[:] += src.total


@pytest.mark.parametrize("on_ours", [True, False])
def test_torch_by_tile(monkeypatch, torch, data, ran, on_ours):
    places = watched(monkeypatch, torch, lambda tensor: tensor.data_ptr())
    found = ran(TorchSum(on_ours))["total"].data
    np.testing.assert_array_equal(found, data.sum(axis=(0, 1), dtype=np.float64))
    check_uncopied(places)


def test_jax_as_in_the_guide(monkeypatch, jax, data, ran):
    places = watched(monkeypatch, jax.dlpack, lambda array: array.unsafe_buffer_pointer())
    found = ran(of_guide("JaxSpectrum")())["power"].data
    np.testing.assert_allclose(found, power(data), rtol=1e-4)
    check_uncopied(places)


class JaxSum(ff.UDF):
    """By tile; each multiplies with a matrix many times before it gets to the sum."""

    def get_backends(self):
        return (self.BACKEND_CUPY,)

    def get_result_buffers(self):
        return {"total": self.buffer("sig", dtype="float64")}

    def get_task_data(self):
        import jax

        def total(tile):
            # Takes a while, and changes nothing: zero times whatever comes out is added first.
            matrix = jax.numpy.full((2048, 2048), 1e-4, dtype="float32")
            product = jax.lax.fori_loop(0, 50, lambda _, m: m @ matrix, matrix)
            return (tile + 0 * product[0, 0]).sum(axis=0)

        return {"total": jax.jit(total)}

    def process_tile(self, tile):
        import jax

        total = self.task_data.total(jax.dlpack.from_dlpack(tile))
        self.results.total[:] += np.asarray(total)

    def merge(self, dest, src):
        dest.total[:] += src.total


def test_jax_by_tile(monkeypatch, jax, data, ran):
    places = watched(monkeypatch, jax.dlpack, lambda array: array.unsafe_buffer_pointer())
    found = ran(JaxSum())["total"].data
    np.testing.assert_allclose(found, data.sum(axis=(0, 1), dtype=np.float64), rtol=1e-5)
    check_uncopied(places)
