"""The rules that results have to keep to, each tried by runs that must not differ."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterator
from contextlib import contextmanager
from math import prod
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from framefold.checking.compare import differing
from framefold.checking.report import Finding
from framefold.checking.sample import Results, Sample
from framefold.executor.make import ExecutorName
from framefold.udf._conversions import differ, is_known, shown

if TYPE_CHECKING:
    from framefold.io.dataset.base import DataSet

#: What another order of sums may change in single precision, and what it may not.
ROUNDING = 1e-4
#: What framefold itself sets on each copy.
OWN = frozenset({"_kwargs", "_dicts", "params", "results", "task_data", "meta"})
#: Results of kinds other than nav are merged once for each partition.
LARGE = 256 << 20


def repeats(sample: Sample, base: Results) -> Iterator[Finding]:
    """A second run gives the same."""
    for name, how in differing(sample.run(), base).items():
        yield Finding(
            "repeat",
            True,
            f"'{name}' differs from one run to the next ({how}). Results must follow from data and "
            f"parameters alone: seed random numbers by a parameter, and keep nothing in variables "
            f"of the class or the module",
            name,
        )


def copies(sample: Sample, base: Results) -> Iterator[Finding]:
    """It makes no difference whether workers' copies have the attributes of the object."""
    if sample.is_native:
        return
    there = vars(sample.udf.copy())
    own = {
        name: value
        for name, value in vars(sample.udf).items()
        if name not in OWN and not _is_same(value, there.get(name, sample)) and _is_copied(value)
    }
    different = _differing_with(sample, base, own)
    if not different:
        return
    # Which of them it is.
    alone = [name for name in own if _differing_with(sample, base, {name: own[name]})] or list(own)
    here = ", ".join(f"self.{name} = {shown(own[name])}" for name in alone)
    elsewhere = ", ".join(shown(there[name]) if name in there else "no such" for name in alone)
    cls, name = type(sample.udf).__name__, alone[0].lstrip("_")
    for buffer, how in different.items():
        yield Finding(
            "copies",
            True,
            f"'{buffer}' differs if workers have {here} as the object that you pass in ({how}); "
            f"they have {elsewhere} there. Their copies are made by calling {cls} with what its "
            f"constructor passes on: super().__init__({name}={name}), and then self.params.{name}",
            buffer,
        )


def each_frame_counts(sample: Sample, base: Results) -> Iterator[Finding]:
    """Results that are of all frames do not follow from the last one alone."""
    merged = [name for name, result in base.items() if result.kind != "nav"]
    last = np.zeros(len(sample.data.reshape(-1, *sample.sig)), bool)
    last[-1] = True
    for name in _follow_from(sample, base, merged, _frames(sample, last)):
        yield Finding(
            "frames",
            True,
            f"'{name}' (kind '{base[name].kind}') is that of the last frame alone: each call "
            f"replaces what the calls before it wrote. Use +=, or combine with what is there",
            name,
        )


def tiles(sample: Sample, base: Results) -> Iterator[Finding]:
    """How frames are cut into tiles makes no difference."""
    rows = sample.sig[0]
    half = -(-rows // 2)
    last_frame = np.zeros(sample.n_frames, bool)
    last_frame[-1] = True
    last_rows = np.zeros(sample.sig, bool)
    last_rows[half:] = True
    ways = [
        ((1, *sample.sig), "one frame deep", _frames(sample, last_frame)),
        ((sample.n_frames, half, *sample.sig[1:]), "of half a frame", _pixels(sample, last_rows)),
    ]
    for shape, words, kept in ways:
        if shape == (sample.n_frames, *sample.sig):
            continue
        with _failing("tiles", f"over tiles {words}") as failed:
            found = sample.run(tile=shape)
        yield from failed
        if failed:
            continue
        different = differing(found, base, ROUNDING)
        replaced = _follow_from(sample, found, different, kept, tile=shape)
        for name, how in different.items():
            why = (
                "each tile replaces what the tiles before it gave: use +=, or combine with what "
                "is there"
                if name in replaced
                else "process_tile sees some frames, or a part of each, at a time, and has to give "
                "the same however they are cut. What needs whole frames is for process_frame"
            )
            yield Finding(
                "tiles", True, f"'{name}' differs with tiles {words} ({how}): {why}", name
            )


def partitions(sample: Sample, base: Results) -> Iterator[Finding]:
    """How the scan is cut into partitions makes no difference."""
    for n in (2, min(5, sample.n_frames), sample.n_frames):
        with _failing("partitions", f"with {n} partitions") as failed:
            found = sample.run(partitions=n)
        yield from failed
        if failed:
            return
        different = differing(found, base, ROUNDING)
        if n != 2:
            # Which frames the last of them has is known for two.
            replaced: Collection[str] = ()
        else:
            half = np.arange(sample.n_frames) >= -(-sample.n_frames // 2)
            replaced = _follow_from(sample, found, different, _frames(sample, half), partitions=2)
        for name, how in different.items():
            yield Finding(
                "merge" if name in replaced else "partitions",
                True,
                f"'{name}' differs between one partition and {n} ({how}): "
                + _about_partitions(name, base[name].kind, name in replaced),
                name,
            )


def _about_partitions(name: str, kind: str, replaced: bool) -> str:
    if replaced:
        return (
            f"merge replaces what was merged before. Combine both, as in "
            f"dest.{name}[:] += src.{name}"
        )
    if kind == "nav":
        return (
            "the entry of a frame depends on other frames of its partition, and partitions are cut "
            "anywhere. Compute what needs all frames in get_results"
        )
    return (
        "merged partial results have to be what one partition with all frames gives. Merge sums "
        "and counts, and divide in get_results"
    )


def selections(sample: Sample, base: Results) -> Iterator[Finding]:
    """A ROI works, however what it selects is cut."""
    roi = np.zeros(sample.n_frames, bool)
    roi[::2] = True
    roi = roi.reshape(sample.nav)
    with _failing("roi", "with a ROI") as failed:
        whole = sample.run(roi=roi)
        found = sample.run(roi=roi, partitions=min(3, int(roi.sum())))
    yield from failed
    for name, how in ({} if failed else differing(found, whole, ROUNDING)).items():
        yield Finding(
            "roi",
            True,
            f"'{name}' differs between one partition and three under a ROI ({how}), and without "
            f"one it does not: results of kind 'nav' have an entry for each selected frame, "
            f"in their order, and meta.dataset_shape is that of the whole scan",
            name,
        )


def ranges(sample: Sample, base: Results) -> Iterator[Finding]:
    """Buffers of integers hold what is written into them, as wider ones do."""
    small = {
        name: result.array
        for name, result in base.items()
        if result.array.dtype.kind in "iu" and result.array.dtype.itemsize < 8
    }
    if sample.is_native or not small:
        return
    cls = type(sample.udf)

    def wide_buffers(self: Any) -> dict[str, Any]:
        declared = {name: copy.copy(each) for name, each in cls.get_result_buffers(self).items()}
        for each in declared.values():
            if each.dtype.kind in "iu":
                each.dtype = np.dtype(f"{each.dtype.kind}8")
        return declared

    members = {"__module__": cls.__module__, "get_result_buffers": wide_buffers}
    udf = copy.copy(sample.udf)
    udf.__class__ = type(cls.__name__, (cls,), members)
    try:
        found = sample.run(udf=udf)
    except Exception:  # which is written for the dtype that it declares
        return
    for name, how in differing(found, base).items():
        # The same otherwise: what was written is not another for another dtype.
        held = small.get(name)
        if held is None:
            continue
        wide = found[name].array
        # The largest number, which stands for no value, is another one in each dtype.
        is_none = (wide == np.iinfo(wide.dtype).max) & (held == np.iinfo(held.dtype).max)
        wraps = (wide != held) & ~is_none
        if wraps.any() and np.array_equal(wide.astype(held.dtype), held):
            yield Finding(
                "range",
                True,
                f"'{name}' is {held.dtype}, which does not hold what is written into it "
                f"({how}). Declare its buffer with a wider dtype, as 'int64' or 'float64', unless "
                f"it is to wrap around",
                name,
            )


def dtypes(sample: Sample) -> Iterator[Finding]:
    """Integers give what the same values give as floating-point numbers."""
    if sample.data.dtype.kind not in "iu" or sample.data.dtype.itemsize > 4:
        return
    # As bright as the dtype allows, so that what would overflow does.
    limits = np.iinfo(sample.data.dtype)
    top, wide = limits.max, sample.data.astype("float64")
    scaled = wide * (top / max(1, np.abs(wide).max(initial=0)))
    bright = scaled.clip(limits.min, top).astype(sample.data.dtype)
    try:
        found, expected = sample.run(bright), sample.run(bright.astype("float64"))
    except Exception:  # the data have no values like these: it need not take them
        return
    for name, how in differing(found, expected, ROUNDING).items():
        yield Finding(
            "dtype",
            True,
            f"'{name}' differs between data of {bright.dtype} up to {top} and the same values as "
            f"float64 ({how}): sums and differences of integers overflow. Compute in a wider "
            f"dtype, as in frame.sum(dtype='float64'), or leave get_preferred_input_dtype as it is",
            name,
        )


def executors(sample: Sample) -> Iterator[Finding]:
    """Threads and worker processes give the same bits."""
    n = min(5, sample.n_frames)
    try:
        here = sample.run(partitions=n)
    except Exception:  # which partitions() has found
        return
    others: tuple[ExecutorName, ...] = ("threads", "processes")
    for executor in others:
        with _failing("executors", f"on {executor}") as failed:
            found = sample.run(partitions=n, executor=executor)
        yield from failed
        for name, how in ({} if failed else differing(found, here)).items():
            why = (
                "what a worker process changes outside of results stays in that process"
                if executor == "processes"
                else "threads share what is kept in variables of the class or the module"
            )
            yield Finding(
                "executors",
                True,
                f"'{name}' is other on {executor} ({how}): {why}. Use results, task_data "
                f"and params",
                name,
            )


def sizes(sample: Sample, base: Results, dataset: DataSet) -> Iterator[Finding]:
    """Results are smaller than the data."""
    frame = prod(sample.sig) * sample.data.itemsize
    for name, result in base.items():
        size = result.array.nbytes
        if result.kind == "nav":
            each = size / sample.n_frames
            whole = each * dataset.shape.nav.size
            if each >= frame and whole >= LARGE:
                yield Finding(
                    "size",
                    False,
                    f"'{name}' takes {whole / 2**30:.1f} GiB for the whole scan, as much as the "
                    f"data or more; results are kept in memory",
                    name,
                )
        elif size >= LARGE:
            yield Finding(
                "size",
                False,
                f"'{name}' takes {size / 2**20:.0f} MiB, which each partition makes and merges",
                name,
            )


def _is_same(a: Any, b: Any) -> bool:
    return a is b or (is_known(a) and is_known(b) and not differ(a, b))


def _is_copied(value: Any) -> bool:
    try:
        copy.deepcopy(value)
    except Exception:  # whatever a class raises that does not want to be copied
        return False
    return True


def _differing_with(sample: Sample, base: Results, attributes: dict[str, Any]) -> dict[str, str]:
    """The results that differ if each clean copy has copies of these attributes."""
    if not attributes:
        return {}
    cls = type(sample.udf)

    def clean_copy(self: Any) -> Any:
        made = cls.copy(self)
        vars(made).update(copy.deepcopy(attributes))
        return made

    udf = copy.copy(sample.udf)
    udf.__class__ = type(cls.__name__, (cls,), {"__module__": cls.__module__, "copy": clean_copy})
    try:
        found = sample.run(udf=udf)
    except Exception:  # copies without them do not fail
        return {}
    return differing(found, base)


def _frames(sample: Sample, kept: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which values are those of some frames."""
    mask = kept.reshape(*sample.nav, *(1,) * len(sample.sig))
    return np.broadcast_to(mask, sample.data.shape)


def _pixels(sample: Sample, kept: npt.NDArray[np.bool_]) -> npt.NDArray[np.bool_]:
    """Which values are those of some pixels."""
    return np.broadcast_to(kept, sample.data.shape)


def _follow_from(
    sample: Sample,
    results: Results,
    names: Collection[str],
    kept: npt.NDArray[np.bool_],
    **how: Any,
) -> set[str]:
    """Those of the results that change with the values that are kept, and with no others."""
    if not names or kept.all():
        return set()
    data = sample.data
    one = np.array(1, data.dtype)
    high = data.max() + one if data.max() + one > data.max() else data.min()
    fills = [np.zeros((), data.dtype), high]
    try:
        others = [sample.run(np.where(kept, data, fill), **how) for fill in fills]
        alone = [sample.run(np.where(kept, fill, data), **how) for fill in fills]
    except Exception:  # values that the function cannot bear say nothing about the others
        return set()
    changed: set[str] = set().union(*(differing(each, results) for each in others))
    matters: set[str] = set().union(*(differing(each, results) for each in alone))
    return (set(names) - changed) & matters


@contextmanager
def _failing(rule: str, when: str) -> Iterator[list[Finding]]:
    """Make a finding of what is raised."""
    found: list[Finding] = []
    try:
        yield found
    except Exception as error:
        words = " ".join(str(error).split())
        found.append(Finding(rule, True, f"fails {when}: {type(error).__name__}: {words}"))
