"""Which array format each function of a run gets, and what is said where there is none."""

from __future__ import annotations

import numpy as np
import pytest
from format_udfs import Asks
from sparse_files import counts

import framefold as ff
from framefold.arrays import formats as array_formats
from framefold.arrays.formats import choose, layout, usable
from framefold.exceptions import (
    InvalidArgumentError,
    MissingLibraryError,
    UDFError,
    UnsupportedError,
)
from framefold.udf import UDF

NAV, SIG = (5, 6), (7, 9)
NP, COO, GCXS, DOK = UDF.BACKEND_NUMPY, "sparse.COO", "sparse.GCXS", "sparse.DOK"
CSR, CSC = UDF.BACKEND_SCIPY_CSR, UDF.BACKEND_SCIPY_CSC
COO_ARRAY, CSC_ARRAY = UDF.BACKEND_SCIPY_COO_ARRAY, UDF.BACKEND_SCIPY_CSC_ARRAY
ALL_CPU = tuple(f for f in UDF.BACKEND_ALL if f in UDF.CPU_BACKENDS)
FORMATS = sorted(UDF.CPU_BACKENDS)


# --- What is chosen -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("native", "wishes", "chosen"),
    [
        # What the data set has, if the UDF takes it, wherever in its list.
        ((NP,), [ALL_CPU], [NP]),
        ((CSR,), [ALL_CPU], [CSR]),
        ((COO,), [ALL_CPU], [COO]),
        ((CSR,), [(COO, NP, CSR)], [CSR]),
        ((COO, NP), [ALL_CPU], [COO]),
        ((COO, NP), [(NP, COO)], [COO]),
        # The same kind rather than the other one; then the UDF's own order.
        ((CSR,), [(NP, COO)], [COO]),
        ((CSR,), [(NP, GCXS, CSC)], [GCXS]),
        ((CSR,), [(NP, CSC, GCXS)], [CSC]),
        ((CSR,), [(NP,)], [NP]),
        ((NP,), [(COO, NP)], [NP]),
        ((NP,), [(GCXS, CSC)], [GCXS]),
        # Few different ones: what another function gets anyway.
        ((NP,), [(COO,), (CSR, COO)], [COO, COO]),
        ((CSR,), [(COO,), (CSC, COO)], [COO, COO]),
        ((CSR,), [(CSC, COO), (GCXS, COO), (DOK, COO)], [COO, COO, COO]),
        ((CSR,), [(CSC, COO), (GCXS, COO), (CSC, GCXS)], [CSC, GCXS, CSC]),
        ((NP,), [(CSR,), (COO,), (GCXS, COO, CSR)], [CSR, COO, COO]),
        ((COO, NP), [(NP,), (COO, NP)], [NP, NP]),
        # But not at the price of a better rank.
        ((CSR,), [(COO,), (CSR, COO)], [COO, CSR]),
        ((CSR,), [(NP,), (COO, NP)], [NP, COO]),
        ((CSR,), [(NP,), ALL_CPU], [NP, CSR]),
        ((NP,), [(COO,), ALL_CPU], [COO, NP]),
        ((NP,), [], []),
    ],
)
def test_what_is_chosen(native, wishes, chosen):
    assert choose(native, wishes) == tuple(chosen)


def test_as_few_formats_as_can_be():
    rng = np.random.default_rng(8)
    formats = [CSC, COO, GCXS, DOK, COO_ARRAY, CSC_ARRAY]
    for _ in range(200):
        wishes = [
            tuple(rng.permutation(formats)[: rng.integers(1, 5)].tolist())
            for _ in range(rng.integers(1, 6))
        ]
        chosen = choose((CSR,), wishes)
        assert all(one in wish for one, wish in zip(chosen, wishes, strict=True))
        n_made = len(set(chosen))
        # No smaller set has something for everybody.
        for bits in range(1 << len(formats)):
            kept = {f for i, f in enumerate(formats) if bits >> i & 1}
            if len(kept) < n_made:
                assert not all(kept & set(wish) for wish in wishes)


def test_every_format_is_made_of_one_layout():
    assert {f: layout(f) for f in FORMATS} == {
        f: "dense" if f in UDF.DENSE_BACKENDS else "csr" for f in FORMATS
    }


# --- What there is to choose from -----------------------------------------------------------


def test_cpu_formats_on_the_cpu_and_cuda_formats_elsewhere():
    assert usable("U", UDF.BACKEND_ALL) == ALL_CPU
    assert usable("U", ("cuda", NP)) == (NP,)
    assert usable("U", ("cuda", NP), device_class="cuda") == ("cuda",)
    assert usable("U", ("cupy", "cuda"), ("cuda", NP), "cuda") == ("cuda",)
    assert usable("U", (COO, NP), allowed=(NP,)) == (NP,)


def test_why_there_is_no_device_is_said_once():
    with pytest.raises(UnsupportedError) as caught:
        usable("U", ("cuda", "cupy"), why_no_device="none is plugged in")
    assert str(caught.value).count("none is plugged in") == 1


@pytest.fixture(scope="module")
def dense():
    return ff.Context.make_with("inline").load("memory", data=counts((*NAV, *SIG), "u2"))


@pytest.fixture(scope="module")
def inline():
    return ff.Context.make_with("inline")


@pytest.mark.parametrize(
    ("formats", "options", "error", "message"),
    [
        (("cupy",), {}, UnsupportedError, r"Asks takes no .*'cupy' needs a CUDA worker"),
        (("cuda", "cupy"), {}, UnsupportedError, r"'cuda' needs a CUDA worker.*'cupy' needs"),
        ((COO,), {"backends": NP}, UnsupportedError, r"backends=\('numpy',\).*To be had .*'numpy'"),
        (
            NP,
            {"backends": ("cupy",)},
            UnsupportedError,
            r"\. Leave backends out, or name",
        ),
        ((), {}, UDFError, r"returned no array format"),
        (None, {}, UDFError, r"Asks.get_backends returned None, expected"),
        (("numpie",), {}, UDFError, r"'numpie', which is no array format"),
        (([NP],), {}, UDFError, r"\['numpy'\], which is no array format"),
        (NP, {"backends": 3}, InvalidArgumentError, r"backends is 3, expected"),
        (NP, {"backends": ("numpie",)}, InvalidArgumentError, r"'numpie' is no array format"),
        (NP, {"backends": []}, InvalidArgumentError, r"backends is empty"),
    ],
)
def test_nothing_to_choose_from(inline, dense, formats, options, error, message):
    with pytest.raises(error, match=message):
        inline.run_udf(dense, Asks(formats=formats), **options)
    with pytest.raises(error, match=message):
        inline.explain(dense, [ff.SumUDF(), Asks(formats=formats)], **options)


def test_a_native_kernel_needs_a_format_to_be_had_as_well(inline, dense):
    expected = inline.run_udf(dense, ff.SumUDF())["intensity"].data
    for backends in (NP, (CSC, NP), (COO,)):
        found = inline.run_udf(dense, ff.SumUDF(), backends=backends)["intensity"].data
        np.testing.assert_array_equal(found, expected)
    with pytest.raises(UnsupportedError, match=r"StdDevUDF takes no .*'numpy' is not among"):
        inline.run_udf(dense, ff.StdDevUDF(), backends=COO)


def test_a_missing_library_is_named(inline, dense, monkeypatch):
    monkeypatch.setattr(array_formats, "_installed", lambda library: library != "sparseconverter")
    with pytest.raises(MissingLibraryError, match=r"needs sparseconverter.*framefold\[sparse\]"):
        inline.run_udf(dense, Asks(formats=(CSC, GCXS)))
    # What it can do without is used instead.
    format_ = inline.run_udf(dense, Asks(formats=(CSC, GCXS, COO)))["format"].data
    assert set(format_.reshape(-1)) == {COO}
    monkeypatch.setattr(array_formats, "_installed", lambda library: False)
    assert usable("U", ALL_CPU) == (NP,)


def test_half_precision_is_dense_only(inline, tmp_path):
    frames = counts((*NAV, *SIG), "f2")
    dataset = inline.load("memory", data=frames)
    inline.run_udf(dataset, Asks(formats=(NP, CSR)))
    for format_ in (CSR, COO):
        with pytest.raises(UnsupportedError, match=rf"Asks is to get float16 data as {format_}"):
            inline.run_udf(dataset, Asks(formats=format_))


def test_sets_have_an_order(inline, dense):
    asked = array_formats.asked_for(Asks(formats=UDF.CPU_BACKENDS))
    assert asked[: len(ALL_CPU)] == ALL_CPU
    assert set(asked) == UDF.CPU_BACKENDS
    inline.run_udf(dense, Asks(formats=UDF.CPU_BACKENDS), backends=UDF.DENSE_BACKENDS)
