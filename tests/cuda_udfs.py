"""Functions that add up what they get on devices, and checks of runs on the stand-in for CuPy."""

from __future__ import annotations

import gc
import os
import time

import fake_cupy
import numpy as np

from framefold.arrays.cuda.staging import MOST_SPARE, drop_spare
from framefold.common.backend import get_device_class, get_use_cpu, get_use_cuda
from framefold.udf import UDF

NAV, SIG = (5, 6), (7, 9)
CUPY = UDF.BACKEND_CUPY
CUPYX = (UDF.BACKEND_CUPY_SCIPY_CSR, UDF.BACKEND_CUPY_SCIPY_CSC, UDF.BACKEND_CUPY_SCIPY_COO)


class Sums(UDF):
    """Sums over both kinds of axes, with buffers on the device, from many small tiles."""

    def __init__(self, formats=(CUPY,), tile_bytes=400, keep=None, gate=None):
        super().__init__(formats=formats, tile_bytes=tile_bytes, keep=keep, gate=gate)

    def get_backends(self):
        return self.params.formats

    def get_tiling_preferences(self):
        return {"depth": 4, "total_size": self.params.tile_bytes}

    def get_result_buffers(self):
        return {
            "each": self.buffer("nav", dtype="float64", where="device"),
            "total": self.buffer("sig", dtype="float64", where="device"),
            "n_tiles": self.buffer("single", dtype=int),
            "ran": self.buffer("nav", dtype=object),
        }

    def get_task_data(self):
        if self.params.gate is not None:
            self.params.gate.wait(20)  # until all workers have a partition
        return {}

    def add(self, array, n_frames):
        on_device = self.meta.array_backend in self.CUPY_BACKENDS
        assert (self.xp is np) != on_device
        assert isinstance(self.results.each, fake_cupy.ndarray if on_device else np.ndarray)
        assert isinstance(self.results.total, fake_cupy.ndarray if on_device else np.ndarray)
        flat = array.reshape((n_frames, -1))
        self.results.each[:] += self.forbuf(flat.sum(axis=1), self.results.each)
        self.results.total[:] += self.forbuf(flat.sum(axis=0), self.results.total)
        self.results.n_tiles[:] += 1
        self.results.ran[:] = f"{self.meta.array_backend} {get_use_cuda()} {get_device_class()}"
        assert self.meta.device_class == ("cuda" if on_device else "cpu")
        if self.params.keep is not None:
            self.params.keep.append((self.meta.slice.get(), array))

    def merge(self, dest, src):
        assert all(isinstance(array, np.ndarray) for array in src.values())
        dest.each[:] = src.each
        dest.ran[:] = src.ran
        dest.total[:] += src.total
        dest.n_tiles[:] += src.n_tiles

    def get_results(self):
        assert self.xp is np
        return {}


class Tiles(Sums):
    def process_tile(self, tile):
        self.add(tile, len(tile) if isinstance(tile, fake_cupy.ndarray) else tile.shape[0])


class Frames(Sums):
    def process_frame(self, frame):
        self.add(frame, 1)


class Partitions(Sums):
    def process_partition(self, partition):
        self.add(partition, partition.shape[0])


def holds(condition):
    """Whether it does, if need be once garbage is collected, which takes its time."""
    return condition() or (gc.collect() >= 0 and condition())


def check_spare(machine):
    """Look what pinned memory there is for later runs, and give it back."""

    def n_bytes():
        return sum(len(pinned() or b"") for pinned in machine.pinned)

    assert holds(lambda: n_bytes() <= MOST_SPARE)
    drop_spare()
    assert holds(lambda: n_bytes() == 0)


class Meeting(Tiles):
    """Waits in each worker until so many have begun, which leave a file each in a folder."""

    def __init__(self, formats, folder, n_workers, keep=None, gate=None, tile_bytes=400):
        UDF.__init__(
            self,
            formats=formats,
            folder=folder,
            n_workers=n_workers,
            keep=keep,
            gate=gate,
            tile_bytes=tile_bytes,
        )

    def get_task_data(self):
        folder = self.params.folder
        (folder / str(os.getpid())).touch()
        deadline = time.monotonic() + 60
        while len(list(folder.iterdir())) < self.params.n_workers:
            assert time.monotonic() < deadline, "the others did not begin"
            time.sleep(0.01)
        return {}


class Where(UDF):
    """What a worker says about itself."""

    def __init__(self, formats):
        super().__init__(formats=formats)

    def get_backends(self):
        return self.params.formats

    def get_result_buffers(self):
        return {"setting": self.buffer("nav", dtype=object), "pid": self.buffer("nav", dtype=int)}

    def process_frame(self, frame):
        self.results.setting[0] = (
            get_use_cuda(),
            get_use_cpu(),
            os.environ.get("FRAMEFOLD_USE_CUDA"),
            os.environ.get("LIBERTEM_USE_CUDA"),
            os.environ.get("CUDA_VISIBLE_DEVICES"),
        )
        self.results.pid[:] = os.getpid()
        if self.meta.array_backend == CUPY:
            assert fake_cupy.machine.device == get_use_cuda()


class Memory(Tiles):
    """What earlier runs have left on the device, and whether CuPy gave its own memory back."""

    def get_result_buffers(self):
        return {
            **super().get_result_buffers(),
            "left": self.buffer("single", dtype="int64"),
            "freed": self.buffer("nav", dtype=object),
        }

    def preprocess(self):
        if self.meta.slice is not None:
            gc.collect()
            # What is there belongs to this partition's own buffers.
            own = sum(array.nbytes for array in (self.results.each, self.results.total))
            self.results.left[:] = fake_cupy.machine.live_bytes() - own
            self.results.freed[:] = " ".join(name for name, _ in fake_cupy.machine.freed_pools)

    def merge(self, dest, src):
        super().merge(dest, src)
        dest.left[:] = np.maximum(dest.left, src.left)
        dest.freed[:] = src.freed


def check(result, data):
    np.testing.assert_array_equal(result["each"].data, data.sum(axis=(2, 3)))
    np.testing.assert_array_equal(result["total"].data, data.sum(axis=(0, 1)))


def ran(result):
    return set(result["ran"].raw_data)


def check_released(machine):
    gc.collect()
    assert machine.live_bytes() == 0
    check_spare(machine)
    assert ("device", 0) in machine.freed_pools
    assert machine.freed_pools[-1][0] == "pinned"


class Beside(UDF):
    """Takes as long for a partition on the CPU as devices take for so many.

    These leave a byte each in a file. The buffers say how many they were when a partition began,
    and whether they got stuck.
    """

    def __init__(self, path, slower):
        super().__init__(path=path, slower=slower)

    def get_backends(self):
        return ("numpy", CUPY)

    def get_result_buffers(self):
        return {
            "before": self.buffer("nav", dtype="int64"),
            "stuck": self.buffer("nav", dtype=bool),
        }

    def n_on_devices(self):
        return os.path.getsize(self.params.path)

    def process_partition(self, partition):
        before = self.n_on_devices()
        if self.meta.device_class == "cuda":
            self.results.before[:] = -1
            time.sleep(0.002)
            with open(self.params.path, "ab", buffering=0) as file:
                file.write(b".")
            return
        self.results.before[:] = before
        known, since = before, time.monotonic()
        while known < before + self.params.slower:
            time.sleep(0.001)
            now = self.n_on_devices()
            if now > known:
                known, since = now, time.monotonic()
            elif time.monotonic() > since + (3 if known else 20):  # devices take long to start
                self.results.stuck[:] = True
                return

    def merge(self, dest, src):
        dest.before[:] = src.before
        dest.stuck[:] = src.stuck


def check_beside(ctx, tmp_path, n, slower, *, may_repeat=False, **options):
    """Workers without a device neither hold up a run in which others have one, nor come last.

    Some executors may have an idle worker repeat what another is late with.
    """
    dataset = ctx.load("memory", data=np.zeros((n, 3, 4), np.uint8), sig_dims=2, num_partitions=n)
    path = tmp_path / "on_devices"
    path.write_bytes(b"")
    result = ctx.run_udf(dataset, Beside(str(path), slower), **options)
    before, stuck = result["before"].data, result["stuck"].data
    others = before[before >= 0]
    n_on_devices = path.stat().st_size
    if may_repeat:
        assert len(others) + n_on_devices >= n
    else:
        assert len(others) + n_on_devices == n
    assert len(others) >= 2, "they help"
    # Some pass between the moment that a worker gets a partition and the one that it begins.
    assert others.max() < n - slower / 2, f"{sorted(others)} of {n}"
    assert not stuck[(before >= 0) & (before < n - 2 * slower)].any(), before[stuck]
