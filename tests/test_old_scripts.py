"""What scripts written for LiberTEM pass and look at, under the names that it has there."""

from __future__ import annotations

import ast
import importlib
import inspect
import pickle
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest
from vendor_files import write_dm

import framefold as ff
from framefold.common.analysis import AnalysisResult, AnalysisResultSet
from framefold.exceptions import InvalidArgumentError, MissingLibraryError, ReadOnlyError
from framefold.io.dataset import filetypes, get_dataset_cls
from framefold.io.dataset import load as load_dataset
from framefold.io.dataset._own import _own as own_formats
from framefold.io.dataset.memory import MemoryDataSet
from framefold.io.dataset.npy import NPYDataSet
from framefold.viz.base import Dummy2DPlot

SHAPE = (6, 7, 16, 12)


@pytest.fixture
def ctx():
    return ff.Context.make_with("inline")


@pytest.fixture
def data():
    return np.random.default_rng(3).random(SHAPE, dtype=np.float32)


@pytest.fixture
def ds(ctx, data):
    return ctx.load("memory", data=data, sig_dims=2)


def test_plot_class_can_be_set(ctx, ds):
    made = []

    class Plot(Dummy2DPlot):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            made.append(self)

    ctx.plot_class = Plot
    assert ctx.plot_class is Plot
    ctx.run_udf(ds, ff.SumUDF(), plots=True)
    assert len(made) == 1
    # Fewer lists than UDFs: those that are missing are empty.
    udfs = [ff.SumUDF(), ff.SumSigUDF(), ff.StdDevUDF()]
    ctx.run_udf(ds, udfs, plots=[[], ["intensity"]])
    assert [plot.udf for plot in made[1:]] == [udfs[1]]


def test_file_types_by_keyword_in_capitals_and_as_classes(ctx, data, tmp_path):
    path = tmp_path / "a.npy"
    np.save(path, data)
    data.tofile(tmp_path / "a.raw")
    raw = {"dtype": "float32", "nav_shape": SHAPE[:2], "sig_shape": SHAPE[2:]}
    for dataset in (
        ctx.load("NPY", path=path),
        ctx.load(filetype="npy", path=path),
        ctx.load("AUTO", path=path),
        ctx.load(NPYDataSet, path=path),
        ctx.load(filetype="RAW", path=tmp_path / "a.raw", enable_direct=True, **raw),
        ctx.load("npy", path=path, enable_direct=False),
        ctx.load(MemoryDataSet, data=data, sig_dims=2),
        load_dataset("Memory", data=data, sig_dims=2, executor=None),
    ):
        assert tuple(dataset.shape) == SHAPE
        picked = ctx.run_udf(dataset, ff.PickUDF())["intensity"].data
        assert np.array_equal(picked.reshape(SHAPE), data)
        assert dataset.initialize(ctx.executor) is dataset
    with pytest.raises(
        InvalidArgumentError, match=r"of type int; .*load\('memory', data=…\) for an"
    ):
        ctx.load(3, path)


def test_every_file_type_has_a_class_that_says_its_endings():
    built_in = {name for name in ff._engine.known_formats() if name not in own_formats}
    assert built_in | {"memory", "dask"} == set(filetypes)
    for name, dotted in filetypes.items():
        module, _, cls_name = dotted.rpartition(".")
        cls = getattr(importlib.import_module(module), cls_name)
        assert get_dataset_cls(name.upper()) is cls
        assert get_dataset_cls(cls) is cls
        assert getattr(cls, "filetype", name) == name
        assert cls.get_supported_extensions() == set(ff._engine.known_extensions().get(name, []))
        assert bool(cls.get_supported_io_backends()) == (name not in ("memory", "dask"))
        assert cls.detect_params("/nothing/of/that/name") is False


def test_file_types_cannot_be_changed(ctx, data, tmp_path):
    class Halved(NPYDataSet):
        """A class of the user's."""

    with pytest.raises(ReadOnlyError, match=r"no effect on what load opens; pass the class itself"):
        filetypes["npy"] = Halved
    np.save(tmp_path / "a.npy", data)
    assert type(ctx.load(Halved, path=tmp_path / "a.npy")) is Halved


@pytest.mark.parametrize(
    ("roi", "expected"),
    [
        ([[0, 1], [2, 3]], [(0, 1), (2, 3)]),
        ([[5, -1]], [(5, 6)]),
        ([np.array([1, 1]).tolist()] * 2, [(1, 1)]),
        ([[[0, 1], True], [[2, 3], True]], [(0, 1), (2, 3)]),
        ([([0, 1], True)], [(0, 1)]),
        ([[False] * 7] * 5 + [[True] + [False] * 6], [(5, 0)]),
    ],
)
def test_lists_in_lists_are_regions(ctx, ds, roi, expected):
    result = ctx.run_udf(ds, ff.SumSigUDF(), roi=roi)["intensity"]
    assert list(zip(*np.nonzero(result.valid_mask), strict=True)) == expected


def test_lists_that_are_no_region_are_refused_in_words(ctx, ds):
    with pytest.raises(InvalidArgumentError, match="no array of shape"):
        ctx.run_udf(ds, ff.SumSigUDF(), roi=[[True], [True, False]])
    with pytest.raises(InvalidArgumentError, match="expected bool"):
        ctx.run_udf(ds, ff.SumSigUDF(), roi=[[0, 1, 2], [2, 3, 4]])


@pytest.mark.parametrize(
    "index", [np.s_[[1, 0], [2, 0]], np.s_[[1, 0],], ([1, 0], (2, 0)), ([1, 0], [2, 0], [1, 1])]
)
def test_lists_in_a_tuple_may_be_an_index(ctx, ds, index):
    with pytest.raises(InvalidArgumentError, match="is a tuple with a list in it: it can mean"):
        ctx.run_udf(ds, ff.SumSigUDF(), roi=index)


def test_arrays_in_a_tuple_are_an_index(ctx, ds):
    result = ctx.run_udf(ds, ff.SumSigUDF(), roi=(np.array([1, 0]), np.array([2, 0])))["intensity"]
    np.testing.assert_array_equal(np.argwhere(result.valid_mask), [(0, 0), (1, 2)])


def test_numbers_of_numpy_for_dask_arrays(ctx, data):
    da = pytest.importorskip("dask.array", reason="dask is not installed")
    array = da.from_array(data, chunks=(2, -1, -1, -1))
    for min_size in (np.int64(0), np.float32(1e3), 10.0):
        ds = ctx.load("dask", array, sig_dims=np.int64(2), min_size=min_size)
        assert tuple(ds.shape) == SHAPE


def test_functions_of_the_centre_of_mass(ctx, ds, data):
    from framefold.analysis import com as analysis
    from framefold.udf import com as udf

    for name in analysis.__all__[2:]:
        assert getattr(analysis, name) is getattr(udf, name)
    factories = udf.com_masks_factory(16, 12, 7.0, 6.0, 5.0)
    products = ctx.run_udf(ds, ff.ApplyMasksUDF(factories))["intensity"].data
    y, x = udf.center_shifts(*np.moveaxis(products, -1, 0), 7.0, 6.0)
    field = ctx.run_udf(ds, ff.CoMUDF.with_params(cy=7.0, cx=6.0, r=5.0))["field"].data
    np.testing.assert_allclose(np.stack([y, x], axis=-1), field, atol=1e-4)
    weights = udf.com_masks_generic(2, 3, lambda: np.array([[1, 2, 0], [0, 1, 1]]))
    assert [mask().tolist() for mask in weights[1:]] == [
        [[0, 0, 0], [0, 1, 1]],
        [[0, 2, 0], [0, 1, 2]],
    ]


@pytest.mark.parametrize("dtype", ["bool", "u1", "i2", "f2", "f4", "i4", "u8", "f8", "c8", "c16"])
def test_masks_for_the_centre_of_mass_are_not_rounded(dtype):
    from framefold.udf.com import com_masks_generic

    step = 1 / 3 + 1j / 7 if dtype[0] == "c" else 5
    weights = (np.arange(6).reshape(2, 3) * step).astype(dtype)
    _, of_y, of_x = (mask() for mask in com_masks_generic(2, 3, lambda: weights))
    y, x = np.mgrid[:2, :3]
    expected = np.result_type(weights.dtype, np.float32)
    assert of_y.dtype == of_x.dtype == expected
    np.testing.assert_array_equal(of_y, weights.astype(expected) * y)
    np.testing.assert_array_equal(of_x, weights.astype(expected) * x)


def test_masks_for_the_centre_of_mass_may_be_sparse():
    scipy_sparse = pytest.importorskip("scipy.sparse", reason="SciPy makes sparse masks")
    from framefold.udf.com import com_masks_generic

    masks = com_masks_generic(2, 3, lambda: scipy_sparse.csr_matrix(np.eye(2, 3)))
    assert [mask().tolist() for mask in masks[1:]] == [[[0, 0, 0], [0, 1, 0]]] * 2


def test_results_have_the_classes_of_the_documentation(ctx, ds):
    expected = {
        "sum.SumResultSet": ctx.create_sum_analysis(ds),
        "com.COMResultSet": ctx.create_com_analysis(ds),
        "masks.MasksResultSet": ctx.create_mask_analysis([lambda: np.eye(16, 12)], ds),
        "masks.SingleMaskResultSet": ctx.create_disk_analysis(ds),
        "radialfourier.RadialFourierResultSet": ctx.create_radial_fourier_analysis(ds),
        "raw.PickResultSet": ctx.create_pick_analysis(ds, x=1, y=2),
    }
    for name, analysis in expected.items():
        module, cls = name.split(".")
        found = ctx.run(analysis)
        kind = getattr(importlib.import_module(f"framefold.analysis.{module}"), cls)
        assert type(found) is kind
        assert issubclass(kind, AnalysisResultSet)


def test_results_of_analyses_are_used_as_arrays(ctx, ds, data):
    total = ctx.run(ctx.create_sum_analysis(ds)).intensity
    expected = total.raw_data
    assert total.shape == (16, 12)
    assert len(total) == 16
    assert total.max() == expected.max()
    assert np.array_equal(total + 1, expected + 1)
    assert np.array_equal(2 / total, 2 / expected)
    assert np.array_equal(np.log(total), np.log(expected))
    assert np.array_equal(total[3:5, 2], expected[3:5, 2])
    assert np.array_equal(total == total, np.ones((16, 12)))
    assert np.array_equal(np.stack(list(total)), expected)
    assert len({total, total}) == 1
    with pytest.raises(AttributeError, match="nonsense"):
        total.nonsense  # noqa: B018


def test_sets_of_results_contain_keys_and_results(ctx, ds):
    found, other = (ctx.run(ctx.create_sum_analysis(ds)) for _ in range(2))
    assert "intensity" in found
    assert found[0] in found
    for each in ("nonsense", 0, 1.0, [], None, np.ones(3), other[0]):
        assert each not in found


def test_results_can_be_made_late_and_of_pictures():
    picture = np.zeros((2, 2, 4), dtype=np.uint8)
    calls = []

    def results():
        calls.append(1)
        return [AnalysisResult(np.eye(2), picture, "title", "what", "key")]

    late = AnalysisResultSet(results)
    assert not calls
    assert late.key.visualized is picture
    assert late["key"] is late[0]
    assert len(calls) == 1


def test_modules_are_there_without_being_imported():
    code = """
import ast
import importlib
import framefold
framefold.install_as_libertem()
import libertem.api
for path in ("udf.masks.ApplyMasksUDF udf.sum.SumUDF udf.stddev.StdDevUDF masks.circular "
             "analysis.com.COMAnalysis analysis.SumAnalysis io.dataset.base.DataSet utils.generate "
             "io.corrections.corrset.CorrectionSet common.buffers.BufferWrapper viz.mpl "
             "executor.inline.InlineJobExecutor contrib.daskadapter.make_dask_array "
             "corrections.coordinates.identity udf.base.UDF exceptions.UDFException").split():
    found = libertem
    for name in path.split("."):
        found = getattr(found, name)
for package, name in ((libertem, "nothing"), (libertem.udf, "nothing"), (libertem.io, "_x")):
    try:
        getattr(package, name)
    except AttributeError as error:
        assert "framefold" in str(error), error
    else:
        raise AssertionError(package)
for name in "udf.nothing", "common.snooze", "web.server":
    try:
        importlib.import_module("libertem." + name)
    except ModuleNotFoundError as error:
        assert "framefold" in str(error) and error.name in "libertem." + name, error
        assert "docs/compatibility.md" in str(error), error
    else:
        raise AssertionError(name)
try:
    from libertem.io.dataset.base import Nothing
except ImportError as error:
    assert "framefold" in str(error)
else:
    raise AssertionError(Nothing)
print("all are there")
"""
    command = [sys.executable, "-W", "error", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.stdout == "all are there\n", done.stderr


class Image:
    """What a script in DigitalMicrograph has of an image."""

    def __init__(self, array):
        self.array, self.shown, self.updates, self.name = np.array(array), 0, 0, ""

    def SetName(self, name):
        self.name = name

    def ShowImage(self):
        self.shown += 1

    def UpdateImage(self):
        self.updates += 1

    def GetNumArray(self):
        return self.array


def test_plots_in_digital_micrograph(ctx, ds, data, monkeypatch):
    from framefold.viz.gms import GMSLive2DPlot

    with pytest.raises(MissingLibraryError, match="DigitalMicrograph"):
        GMSLive2DPlot(ds, ff.SumUDF())
    made = []

    def create(array):
        made.append(Image(array))
        return made[-1]

    monkeypatch.setitem(sys.modules, "DigitalMicrograph", SimpleNamespace(CreateImage=create))
    ctx.plot_class = GMSLive2DPlot
    udfs = [ff.SumUDF(), ff.CoMUDF()]
    channels = [
        ["intensity", ("intensity", lambda total: total[0]), ("intensity", lambda a: a > 60)],
        ["field", ("field", lambda field: field[..., 0] + 1j * field[..., 1])],
    ]
    results = ctx.run_udf(ds, udfs, plots=channels)
    total, field = results[0]["intensity"].data, results[1]["field"].data
    lengths = np.hypot(field[..., 0], field[..., 1])
    expected = [total, total[:1], total > 60, lengths, lengths]
    for image, picture in zip(made, expected, strict=True):
        assert image.shown == 1
        assert image.updates > 0
        assert image.name
        assert image.array.dtype.itemsize <= 4
        np.testing.assert_allclose(image.array, picture, rtol=1e-5)


def test_names_that_are_elsewhere():
    from framefold import api
    from framefold.compat.elsewhere import ELSEWHERE

    for module, names in ELSEWHERE.items():
        found = importlib.import_module(module)
        for name, where in names.items():
            assert getattr(found, name) is getattr(importlib.import_module(where), name)
        with pytest.raises(AttributeError, match=f"module '{module}' has no attribute 'nothing'"):
            found.nothing  # noqa: B018
    assert api.DaskJobExecutor.__module__ == "framefold.executor.dask"


def test_the_package_imports_names_from_where_they_are():
    from framefold.compat.elsewhere import ELSEWHERE

    for path in Path(ff.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and node.module in ELSEWHERE:
                names = {alias.name for alias in node.names}
                assert names.isdisjoint(ELSEWHERE[node.module]), path


def test_analyses_of_ones_own_and_by_name(ctx, ds, data):
    from framefold import analysis
    from framefold.analysis.base import Analysis, BaseAnalysis

    class Brightest(BaseAnalysis, id_="BRIGHTEST"):
        def get_parameters(self, parameters):
            return {"factor": 2, **parameters}

        def get_udf(self):
            return ff.MaxUDF()

        def get_udf_results(self, udf_results, roi, damage):
            values = udf_results["intensity"].data * self.parameters["factor"]
            return AnalysisResultSet([AnalysisResult(values, values, "max", "max", "max")])

    assert Analysis.get_analysis_by_type("BRIGHTEST") is Brightest
    found = ctx.run(Brightest(ds, {}))
    assert np.array_equal(found.max, 2 * data.max(axis=(0, 1)))
    assert sorted(analysis.IDS.values()) == sorted(analysis.CLASSES)
    for name, cls in analysis.IDS.items():
        assert Analysis.get_analysis_by_type(name) is getattr(analysis, cls)
    with pytest.raises(InvalidArgumentError, match="no analysis 'NOTHING'"):
        Analysis.get_analysis_by_type("NOTHING")


def test_classes_of_single_files_and_stacks_of_dm(ctx, tmp_path):
    from framefold.io.dataset.dm import DMDataSet, StackedDMDataSet
    from framefold.io.dataset.dm_single import SingleDMDataSet

    path = str(tmp_path / "a.dm4")
    write_dm(path, np.zeros((8, 6), np.uint16))
    for cls, given in ((SingleDMDataSet, {"path": path}), (StackedDMDataSet, {"files": [path]})):
        for dataset in (
            ctx.load("dm", **given),
            pickle.loads(pickle.dumps(ctx.load("dm", **given))),
        ):
            assert type(dataset) is cls
            assert isinstance(dataset, DMDataSet)
    assert type(ctx.open(path)) is SingleDMDataSet


def test_names_of_what_udfs_import():
    from framefold.common.udf import TileDepthEnum, TileSizeEnum, TilingPreferences, UDFProtocol
    from framefold.corrections.corrset import CorrectionSet
    from framefold.corrections.detector import RepairDescriptor
    from framefold.executor.base import BaseJobExecutor, JobExecutor
    from framefold.io.corrections import corrset, detector

    wishes: TilingPreferences = ff.UDF().get_tiling_preferences()
    assert wishes["depth"] == TileDepthEnum.TILE_DEPTH_DEFAULT
    assert TileSizeEnum.TILE_SIZE_BEST_FIT == ff.UDF.TILE_SIZE_BEST_FIT == 2**20
    assert {"get_method", "get_tiling_preferences"} <= set(dir(UDFProtocol))
    assert CorrectionSet is corrset.CorrectionSet
    assert RepairDescriptor is detector.RepairDescriptor
    assert BaseJobExecutor is JobExecutor


def test_names_of_arguments():
    import scipy.sparse

    from framefold.common.backend import set_use_cuda
    from framefold.common.sparse import is_sparse, to_dense, to_sparse

    a = scipy.sparse.eye(3)
    assert is_sparse(a=a)
    assert np.array_equal(to_dense(a=to_sparse(a=a)), np.eye(3))
    assert list(inspect.signature(set_use_cuda).parameters) == ["cuda_device"]
