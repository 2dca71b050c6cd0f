"""The example of a function in Rust: built, and run beside others."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from executor_subjects import SUBJECTS, made
from shared_contexts import shared
from test_native_udf import Sums

import framefold as ff
from framefold.exceptions import UDFError

ROOT = Path(__file__).parent.parent
pytestmark = pytest.mark.skipif(
    shutil.which("cargo") is None or sys.platform != "linux",
    reason="the example is built here where there is a compiler of Rust, on Linux",
)


@pytest.fixture(scope="module")
def udf_plugin(tmp_path_factory: pytest.TempPathFactory):
    """The example's module, built like any extension; its build is kept."""
    place = tmp_path_factory.mktemp("plugin")
    target = ROOT / "target" / "udf-plugin"
    source = ROOT / "examples" / "udf-plugin"
    crate = place / "crate"
    shutil.copytree(source, crate, ignore=shutil.ignore_patterns("target", "Cargo.lock"))
    manifest = (crate / "Cargo.toml").read_text()
    abi = (ROOT / "crates" / "abi").as_posix()
    (crate / "Cargo.toml").write_text(manifest.replace("../../crates/abi", abi))
    # The versions that the engine is built with.
    shutil.copy(ROOT / "Cargo.lock", crate / "Cargo.lock")
    build = ["cargo", "build", "--offline", "--quiet", "--manifest-path", str(crate / "Cargo.toml")]
    env = {**os.environ, "CARGO_TARGET_DIR": str(target), "PYO3_PYTHON": sys.executable}
    subprocess.run(build, check=True, env=env)
    modules = place / "modules"
    modules.mkdir()
    shutil.copy(target / "debug" / "libudf_plugin.so", modules / "udf_plugin.abi3.so")
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(str(modules))
        patch.setenv("PYTHONPATH", f"{modules}{os.pathsep}{os.environ.get('PYTHONPATH', '')}")
        import udf_plugin

        yield udf_plugin


class Brightest(ff.UDF):
    def get_result_buffers(self):
        return {"brightest": self.buffer("nav", dtype="float32")}

    def process_frame(self, frame):
        self.results.brightest[:] = frame.max()


DATA = np.random.default_rng(5).integers(0, 9, (4, 5, 6, 7)).astype(np.uint16)


ROI = np.random.default_rng(6).random((4, 5)) < 0.4


@pytest.fixture(scope="module", params=[*SUBJECTS, "dask, one process"])
def ctx(request, udf_plugin):
    """Contexts of all executors, whose workers are made where they find the module."""
    if request.param == "dask, one process":
        distributed = pytest.importorskip("distributed")
        from framefold.executor.dask import DaskJobExecutor

        options = {"threads_per_worker": 2, "processes": False, "dashboard_address": ":0"}
        with (
            distributed.LocalCluster(1, **options) as cluster,
            distributed.Client(cluster, set_as_default=False) as client,
            ff.Context(executor=DaskJobExecutor(client)) as context,
        ):
            yield context
    elif request.param in ("dask", "dask, connected"):
        with ExitStack() as stack:
            context = stack.enter_context(shared("dask"))
            if request.param == "dask, connected":
                from dask_cases import connected_to

                executor = connected_to(context.executor)
                context = stack.enter_context(ff.Context(executor=executor))
            yield context
    else:
        with ExitStack() as stack, made(request.param, stack).make() as context:
            yield context


def same_bits(found, expected):
    for name, buffer in expected.items():
        found_raw, expected_raw = np.asarray(found[name].raw_data), np.asarray(buffer.raw_data)
        assert found_raw.dtype == expected_raw.dtype
        assert found_raw.tobytes() == expected_raw.tobytes(), name


@pytest.mark.parametrize("roi", [None, ROI], ids=["all", "roi"])
def test_equal_bits_on_every_executor_alone_and_beside_others(udf_plugin, ctx, roi):
    data = DATA * 1.37
    inline = ff.Context.make_with("inline")

    def loaded(ctx, data):
        return ctx.load("memory", data=data, sig_dims=2, num_partitions=3)

    above = udf_plugin.Above(4.5)
    # The sums of these depend on the order.
    udfs = [above, ff.NativeUDF(udf_plugin.Above(2)), Sums(), ff.SumUDF(), Brightest()]
    for chosen in ([above], udfs):
        expected = inline.run_udf(dataset=loaded(inline, data), udf=chosen, roi=roi)
        found = ctx.run_udf(dataset=loaded(ctx, data), udf=chosen, roi=roi)
        for one, other in zip(found, expected, strict=True):
            same_bits(one, other)
    frames = DATA.reshape(20, 6, 7) if roi is None else DATA[roi]
    counts = ctx.run_udf(dataset=loaded(ctx, DATA), udf=above, roi=roi)
    assert np.array_equal(counts["counts"].raw_data, (frames > 4.5).sum((1, 2)))
    assert np.array_equal(counts["image"].data, (frames > 4.5).sum(0))
    image = ctx.run_udf(dataset=loaded(ctx, DATA), udf=udf_plugin.Sum(), roi=roi)["image"].data
    assert np.array_equal(image, frames.sum(0))


def test_final_rows_go_to_a_file(udf_plugin, tmp_path):
    rng = np.random.default_rng(3)
    data = rng.normal(size=(6, 7, 12, 11)).astype(np.float32)
    data[1:3, :, 5, 4:6] = np.nan
    data[3] = np.nan
    np.save(tmp_path / "data.npy", data)
    roi = rng.random((6, 7)) < 0.6
    for executor in ("inline", "threads", "processes"):
        with ff.Context.make_with(executor) as ctx:
            dataset = ctx.load("npy", path=tmp_path / "data.npy")
            out = tmp_path / f"{executor}.zarr"
            # Only a run whose rows are all final as they come can go on later.
            found = ctx.run_udf(dataset, udf_plugin.Brightest(), roi=roi, out=out, resume=True)
            kept = ctx.run_udf(dataset, udf_plugin.Brightest(), roi=roi)
            with pytest.raises(ff.exceptions.UnsupportedError, match="'counts' does not"):
                ctx.run_udf(dataset, udf_plugin.Above(0.5), out=tmp_path / "x.zarr", resume=True)
        assert out.exists()
        frames = data[roi].reshape(roi.sum(), -1)
        assert np.array_equal(found["value"].raw_data, frames.max(1), equal_nan=True)
        assert np.array_equal(found["place"].raw_data, frames.argmax(1))
        same_bits(found, kept)


def test_what_a_sum_does_not_fit_is_refused(udf_plugin):
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("memory", data=np.zeros((65537, 1, 1), np.uint16), sig_dims=2)
    with pytest.raises(UDFError, match=r"Sum: .*the data are of float32, expected uint16"):
        ctx.run_udf(
            dataset=ctx.load("memory", data=np.float32(DATA), sig_dims=2), udf=udf_plugin.Sum()
        )
    with pytest.raises(UDFError, match=r"Sum: .*sums of 65537 frames may not fit, expected at mo"):
        ctx.run_udf(dataset=dataset, udf=udf_plugin.Sum())
    image = ctx.run_udf(dataset=dataset, udf=udf_plugin.Sum(), roi=np.s_[:9])["image"]
    assert image.data == 0


def test_keeps_the_laws_of_functions(udf_plugin):
    ctx = ff.Context.make_with("inline")
    dataset = ctx.load("memory", data=DATA, sig_dims=2)
    assert ff.check_udf(udf_plugin.Above(4.5), dataset)
    assert ff.check_udf(udf_plugin.Sum(), dataset)


def test_failing_parameters_are_its_own_affair(udf_plugin):
    with pytest.raises(ValueError, match="not a number"):
        udf_plugin.Above(float("nan"))
