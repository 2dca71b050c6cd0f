"""Writes the small files from which fuzzing starts into ``fuzz/corpus``.

Run it after a format learned something new: ``python tests/fuzz_seeds.py [FORMAT …]``. The files
come from the writers that the tests use; what fuzzing found, ``found-*``, is left alone.
Needs the packages of ``requirements-dev.txt`` and the package framefold itself.
"""

from __future__ import annotations

import json
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import detector_files
import h5py
import hdf5plugin
import numcodecs
import numpy as np
import sparse_files
import tiff_makers
import tifffile
import vendor_files
import zarr
import zarr.codecs as codecs
from old_hdf5 import with_old_layout

from framefold.utils.write_mib import write_mib

NAV = (2, 3)
CORPUS = Path(__file__).parents[1] / "fuzz" / "corpus"
#: Lengths below which a run of zeros at the end of a file is written out.
SHORT_TAIL = 512


def pixels(dtype: str, sig: tuple[int, ...], nav: tuple[int, ...] = NAV) -> np.ndarray:
    """Reproducible pixels."""
    rng = np.random.default_rng(5)
    return rng.integers(0, 60, (*nav, *sig)).astype(dtype)


def save(
    kind: str,
    name: str,
    folder: Path,
    main: str,
    *,
    choices: dict[int, int] | None = None,
    blocks: Callable[[Path], bytes] | None = None,
) -> None:
    """Put the files of a folder into one input; ``main`` is the one to open."""
    head = bytearray(16)
    for at, value in (choices or {}).items():
        head[at] = value
    # A first file that is empty is not there.
    data = bytes(head) + ((folder / main).read_bytes() if (folder / main).exists() else b"")
    sectors = False
    for path in sorted(folder.rglob("*")):
        relative = path.relative_to(folder).as_posix()
        if path.is_dir() or relative == main:
            continue
        if blocks is not None and path.suffix == ".bin":
            if not sectors:
                data += b"\n=== #scan*.bin\n" + blocks(path)
            sectors = True
            continue
        content = path.read_bytes()
        short = content.rstrip(b"\0")
        if len(content) - len(short) > SHORT_TAIL:
            data += f"\n=== {relative} {len(content)}\n".encode() + short
        else:
            data += f"\n=== {relative}\n".encode() + content
    target = CORPUS / kind / name
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_bytes(data)


def raw(folder: Path) -> None:
    """Frames of 4 x 5 pixels, as options say."""
    path = folder / "scan.raw"
    path.write_bytes(pixels("uint16", (4, 5)).tobytes())
    given = {2: 2, 3: 3, 4: 4, 5: 5}
    save("raw", "plain", folder, path.name, choices={1: 0b1011, 7: 2, **given})
    save("raw", "swapped", folder, path.name, choices={1: 0b1011, 7: 0x82, **given})
    save("raw", "headers", folder, path.name, choices={1: 0b11011, 7: 1, 9: 3, 11: 2, **given})
    save("raw", "buffered", folder, path.name, choices={0: 1, 1: 0b1011, 7: 9, 8: 1, **given})
    save("raw", "shrinks", folder, path.name, choices={0: 2, 1: 0b1011, 7: 2, 14: 80, **given})


def npy(folder: Path) -> None:
    """C and Fortran order, swapped bytes, Booleans."""
    for name, array in {
        "uint16": pixels("uint16", (4, 5)),
        "fortran": np.asfortranarray(pixels("float32", (4, 5))),
        "swapped": pixels("int32", (4, 5)).astype(">i4"),
        "bool": pixels("uint8", (4, 5)) > 30,
        "complex": pixels("complex64", (3, 2)),
    }.items():
        np.save(folder / "scan.npy", array)
        save("npy", name, folder, "scan.npy")


def mib(folder: Path) -> None:
    """Processed and raw frames, one chip and four, with and without the text beside them."""
    for name, shape, options in (
        ("u08", (4, 6), {"depth": 6}),
        ("u16", (4, 6), {"depth": 12}),
        ("raw1", (4, 64), {"depth": 1, "raw": True}),
        ("raw6", (4, 32), {"depth": 6, "raw": True}),
        ("raw12", (4, 16), {"depth": 12, "raw": True}),
        ("quad1", (4, 128), {"depth": 1, "raw": True, "layout": "2x2"}),
    ):
        with tempfile.TemporaryDirectory() as each:
            data = pixels("uint16", shape) % 2 if options["depth"] == 1 else pixels("uint16", shape)
            write_mib(Path(each) / "scan", data, frames_per_file=6, **options)
            save("mib", name, Path(each), "scan0.mib")
    with tempfile.TemporaryDirectory() as each:
        write_mib(Path(each) / "scan", pixels("uint16", (4, 6)), frames_per_file=4)
        save("mib", "set", Path(each), "scan0.mib")


def blo(folder: Path) -> None:
    """8 bits and 16 bits."""
    for dtype in ("uint8", "uint16"):
        detector_files.write_blo(folder / "scan.blo", pixels(dtype, (4, 4)))
        save("blo", dtype, folder, "scan.blo")


def empad(folder: Path) -> None:
    """A recording whose pixels are zeros but for the first ones."""
    detector_files.write_empad(folder / "scan.xml", np.zeros((1, 2, 128, 128), "float32"))
    (raw_path,) = folder.glob("*.raw")
    frames = np.zeros((2, 130, 128), "<f4")
    frames[0, 0, :4] = [1, 2, 3, 4]
    frames.tofile(raw_path)
    save("empad", "acquire", folder, "scan.xml")
    text = (folder / "scan.xml").read_text()
    series = text.replace('mode="acquire"', 'mode="series"').replace("_resolution_x>", "_count>")
    (folder / "scan.xml").write_text(series)
    save("empad", "series", folder, "scan.xml")


def mrc(folder: Path) -> None:
    """All modes with pixels of several bytes, and the text of Direct Electron."""
    for dtype in ("int8", "int16", "float32", "complex64", "uint16", "float16"):
        detector_files.write_mrc(folder / "scan_movie.mrc", pixels(dtype, (4, 5)))
        save("mrc", dtype, folder, "scan_movie.mrc")
    detector_files.write_de_movie(folder / "scan_movie.mrc", pixels("uint16", (4, 5)))
    save("mrc", "direct-electron", folder, "scan_movie.mrc")


def seq(folder: Path) -> None:
    """With and without the files beside it."""
    path = folder / "scan.seq"
    detector_files.write_seq(path, pixels("uint16", (4, 5)))
    save("seq", "plain", folder, "scan.seq")
    dark, gain = np.ones((4, 5), "float32"), np.full((4, 5), 2, "float32")
    detector_files.write_seq_sidecars(path, dark, gain, 1)
    save("seq", "sidecars", folder, "scan.seq")


def frms6(folder: Path) -> None:
    """With and without a dark frame; two files."""
    path = folder / "scan.hdr"
    detector_files.write_frms6(path, pixels("uint16", (4, 6)), per_file=4)
    save("frms6", "plain", folder, "scan.hdr")
    detector_files.write_frms6(path, pixels("uint16", (4, 6)), np.ones((2, 4, 6), "uint16"))
    # A line for each column.
    np.savetxt(folder / "gain.csv", np.full((6, 4), 2.0), fmt="%g", delimiter=";")
    save("frms6", "dark-gain", folder, "scan.hdr", choices={1: 64})


def dm(folder: Path) -> None:
    """Both versions, images in stacks, spectra, and several files."""
    for name, array, options in (
        ("dm4", pixels("uint16", (4, 5)), {"swapped": True}),
        ("dm3", pixels("float32", (4, 5), (3,)), {"version": 3}),
        ("complex", pixels("complex64", (2, 3), (3,)), {"version": 3}),
        ("spectra", pixels("int32", (5,)), {"spectra": True}),
    ):
        vendor_files.write_dm(folder / "scan.dm4", array, **options)
        save("dm", name, folder, "scan.dm4", choices={0: 8} if array.ndim == 4 else None)
    for name in ("scan.dm4", "scan-2.dm4"):
        vendor_files.write_dm(folder / name, pixels("uint8", (4, 5), ()))
    save("dm", "stack", folder, "scan.dm4", choices={1: 64})


def ser(folder: Path) -> None:
    """Images and spectra; one that was stopped."""
    for name, frames, planned in (
        ("images", pixels("uint16", (4, 5), (3,)), None),
        ("stopped", pixels("int32", (4, 5), (3,)), 6),
        ("spectra", pixels("float32", (7,), (4,)), None),
    ):
        vendor_files.write_ser(folder / "scan_1.ser", frames, planned=planned)
        save("ser", name, folder, "scan_1.ser")
    meta = "<ObjectInfo><ExperimentalConditions><MicroscopeConditions><AcceleratingVoltage>200"
    meta += "</AcceleratingVoltage></MicroscopeConditions></ExperimentalConditions></ObjectInfo>"
    (folder / "scan.emi").write_bytes(b"JP\0\0" + meta.encode() + b"\0")
    save("ser", "emi", folder, "scan_1.ser", choices={1: 64})


def tvips(folder: Path) -> None:
    """One file and two, with and without positions."""
    frames = pixels("uint16", (3, 5), (6,))
    positions = [(y, x) for y in range(2) for x in range(3)]
    vendor_files.write_tvips(folder, "scan", frames, positions=positions)
    save("tvips", "positions", folder, "scan_000.tvips")
    vendor_files.write_tvips(folder, "scan", frames.astype("uint8"), files=2)
    save("tvips", "set", folder, "scan_000.tvips")


def k2is(folder: Path) -> None:
    """Headers of the blocks of two frames."""

    def headers(path: Path) -> bytes:
        content = path.read_bytes()
        return b"".join(content[at : at + 40] for at in range(0, len(content), 22_360))

    frames = np.zeros((2, 1860, 2048), "uint16")
    vendor_files.write_k2is(folder, "scan", frames)
    save("k2is", "two-frames", folder, "scan.gtg", blocks=headers)
    vendor_files.write_k2is(folder, "scan", frames, idle=1, scan=(1, 1))
    save("k2is", "scan", folder, "scan.gtg", blocks=headers)


def raw_csr(folder: Path) -> None:
    """Few entries, of two dtypes."""
    for dtype in ("uint16", "complex64"):
        frames = sparse_files.counts((*NAV, 3, 4), dtype).reshape(6, 3, 4)
        sparse_files.write_raw_csr(folder, frames, NAV)
        save("raw_csr", dtype, folder, "scan.toml")


def hdf5(folder: Path) -> None:
    """Layouts, indices of chunks, filters and dialects."""
    data = pixels("uint16", (6, 8))
    chunk = {"chunks": (1, 2, 6, 8)}
    layouts: dict[str, dict[str, Any]] = {
        "contiguous": {},
        "chunked": {"chunks": (2, 2, 4, 5)},
        "gzip": {"compression": "gzip", "shuffle": True, **chunk},
        "lzf-fletcher": {"compression": "lzf", "fletcher32": True, **chunk},
        "scaleoffset": {"scaleoffset": 7, **chunk},
        "growing": {"chunks": (1, 1, 6, 8), "maxshape": (None, 3, 6, 8)},
        "bitshuffle": {**chunk, **hdf5plugin.Bitshuffle()},
        "blosc": {**chunk, **hdf5plugin.Blosc()},
        "zstd": {**chunk, **hdf5plugin.Zstd()},
    }
    for name, options in layouts.items():
        for version in ("earliest", "latest"):
            with h5py.File(folder / "scan.h5", "w", libver=version) as file:
                file.create_dataset("data", data=data, **options)
            if version == "latest" and name in ("lzf-fletcher", "scaleoffset", "blosc", "zstd"):
                continue
            save("hdf5", f"{name}-{version}", folder, "scan.h5")
    with h5py.File(folder / "scan.h5", "w", libver="latest") as file:
        group = file.create_group("Experiments/a")
        group["data"] = data
        for axis in range(4):
            group.create_group(f"axis-{axis}").attrs["navigate"] = axis < 2
    save("hdf5", "hyperspy", folder, "scan.h5")
    with h5py.File(folder / "scan.h5", "w", libver="latest") as file:
        group = file.create_group("entry/data")
        for number in (1, 2):
            name = f"scan_{number}.h5"
            group[f"data_{number:06}"] = h5py.ExternalLink(name, "entry/data/data")
            with h5py.File(folder / name, "w", libver="latest") as other:
                part = other.create_dataset(
                    "entry/data/data",
                    data=data[number - 1],
                    **{
                        "chunks": (1, 6, 8),
                        "compression": "gzip",
                    },
                )
                part.attrs["image_nr_low"] = 3 * number - 2
    save("hdf5", "dectris", folder, "scan.h5")
    # More links than a header holds; most lead nowhere.
    with h5py.File(folder / "scan.h5", "w", libver="latest") as file:
        for number in range(1, 10):
            link = h5py.ExternalLink(f"scan_{number}.h5", "entry/data/data")
            file[f"entry/data/data_{number:06}"] = link
    save("hdf5", "dectris-many", folder, "scan.h5")
    for path in folder.glob("scan_*.h5"):
        path.unlink()
    layout = h5py.VirtualLayout(shape=(6, 6, 8), dtype="<u1")
    for number, dtype in enumerate(["<f8", ">i4"]):
        name = f"scan_{number}.h5"
        with h5py.File(folder / name, "w", libver="latest") as other:
            other["data"] = data[number].astype(dtype) * 9 - 50
        layout[number * 3 : number * 3 + 3] = h5py.VirtualSource(name, "data", shape=(3, 6, 8))
    with h5py.File(folder / "scan.h5", "w", libver="latest") as file:
        file.create_virtual_dataset("data", layout, fillvalue=7)
    save("hdf5", "virtual-converted", folder, "scan.h5")
    for path in folder.glob("scan_*.h5"):
        path.unlink()
    with h5py.File(folder / "scan.h5", "w", libver="latest") as file:
        file.attrs["default"] = "entry"
        entry = file.create_group("entry")
        entry.attrs["default"] = "data"
        entry.create_group("data").attrs["signal"] = "counts"
        entry["data/counts"] = data.astype(">f4")
        entry["loop"] = h5py.SoftLink("/entry")
        entry["out"] = h5py.ExternalLink("../other.h5", "data")
    save("hdf5", "nexus", folder, "scan.h5")
    # What tells units: of a detector and of axes, those of EMD among them.
    with h5py.File(folder / "scan.h5", "w", libver="latest") as file:
        entry = file.create_group("entry")
        entry.attrs["NX_class"] = "NXentry"
        group = entry.create_group("data")
        group.attrs.update({"NX_class": "NXdata", "axes": ["y", "x", "ky", "."]})
        group["counts"] = data
        for name, unit in (("y", "um"), ("x", "nm"), ("dim3", "A^-1"), ("ky", "mrad")):
            group[name] = np.arange(2.0)
            group[name].attrs["units"] = unit
        detector = entry.create_group("instrument/detector")
        detector["count_time"] = 0.5
        detector["count_time"].attrs["units"] = "ms"
    save("hdf5", "nexus-units", folder, "scan.h5")
    structures(folder, data)
    velox(folder, data[0])
    nion(folder, data)


def nion(folder: Path, data: np.ndarray) -> None:
    """A data item as Nion Swift keeps it: all that is said of it is JSON."""
    axes = [{"offset": -4.0, "scale": 2.0, "units": "nm"}] * 2
    axes += [{"offset": -20.0, "scale": 5.0, "units": "mrad"}] * 2
    said = {
        "created": "2026-11-22T19:49:50.838147",
        "is_sequence": False,
        "collection_dimension_count": 2,
        "datum_dimension_count": 2,
        "dimensional_calibrations": axes,
        "metadata": {
            "hardware_source": {"hardware_source_name": "Ronchigram", "exposure": 0.025},
            "instrument": {"high_tension": 1e5, "defocus": 5e-7},
            "scan": {"rotation": 0.1},
        },
        "title": "a scan",
        "session": {"instrument": "UltraSTEM"},
    }
    with h5py.File(folder / "scan.h5", "w") as file:
        file["data"] = data
        file["data"].attrs["properties"] = json.dumps(said)
    save("hdf5", "nion", folder, "scan.h5")


def structures(folder: Path, data: np.ndarray) -> None:
    """Layouts of old versions; links and attributes in heaps."""
    for version in (1, 2):
        with h5py.File(folder / "scan.h5", "w", libver="earliest") as file:
            file["data"] = data
        with_old_layout(folder / "scan.h5", "data", version)
        save("hdf5", f"layout-{version}", folder, "scan.h5")
    with h5py.File(folder / "scan.h5", "w", libver="latest") as file:
        dataset = file.create_dataset("entry/data/data_000001", data=data)
        for number in range(9):
            dataset.attrs[f"a{number}"] = number
            file[f"entry/data/b{number}"] = dataset
        dataset.attrs["image_nr_low"] = 1
        dataset.attrs["large"] = np.bytes_(b"x" * 5000)
    save("hdf5", "heaps", folder, "scan.h5")


def velox(folder: Path, images: np.ndarray) -> None:
    """Images with JSON beside them, a column for each."""
    said = {
        "Optics": {"AccelerationVoltage": "300000", "CameraLength": "0.3", "Defocus": "-2e-8"},
        "Stage": {"Position": {"x": "1e-6"}, "AlphaTilt": "0.1"},
        "Scan": {"ScanSize": {"width": "8"}, "FrameTime": "0.2"},
        "Detectors": {"Detector-0": {"ExposureTime": "0.1", "Binning": {"width": "2"}}},
        "BinaryResult": {
            "DetectorIndex": "0",
            "PixelSize": {"width": "2e-9", "height": "3e-9"},
            "PixelUnitX": "m",
            "PixelUnitY": "1/m",
        },
        "Acquisition": {"AcquisitionStartDatetime": {"DateTime": "1596041374"}},
    }
    column = np.frombuffer(json.dumps(said).encode().ljust(700, b"\0"), dtype=np.uint8)
    with h5py.File(folder / "scan.h5", "w", libver="latest") as file:
        group = file.create_group("Data/Image/7")
        group["Data"] = np.moveaxis(images, 0, -1)
        group["Metadata"] = np.repeat(column[:, None], len(images), axis=1)
    save("hdf5", "velox", folder, "scan.h5")


def zarr_(folder: Path) -> None:
    """Versions 2 and 3, and several chunks in a file."""
    data = pixels("uint16", (6, 8))
    crc = codecs.Crc32cCodec()
    arrays: dict[str, dict[str, Any]] = {
        "plain": {"compressors": None},
        "zstd": {"compressors": codecs.ZstdCodec()},
        "gzip-crc": {"compressors": [codecs.GzipCodec(), crc]},
        "blosc": {"compressors": codecs.BloscCodec()},
        "shards": {"shards": (2, 2, 6, 8)},
        "transposed": {"filters": [codecs.TransposeCodec(order=(3, 0, 2, 1))]},
        "v2": {"zarr_format": 2, "compressors": None},
        "v2-delta": {
            "zarr_format": 2,
            "order": "F",
            "filters": [numcodecs.Delta("<u2", "|i1")],
            "compressors": None,
        },
        "v2-bz2": {"zarr_format": 2, "compressors": numcodecs.BZ2()},
        "v2-lzma": {"zarr_format": 2, "compressors": numcodecs.LZMA()},
        "v2-lzma-alone": {"zarr_format": 2, "compressors": numcodecs.LZMA(format=2)},
        "v2-scaled": {
            "zarr_format": 2,
            "filters": [numcodecs.FixedScaleOffset(5, 0.5, "<f4", "|u1")],
            "compressors": numcodecs.LZMA(format=3, filters=[{"id": 3, "dist": 2}, {"id": 33}]),
        },
        "v2-astype": {
            "zarr_format": 2,
            "filters": [numcodecs.AsType("<f4", "<u2")],
            "compressors": None,
        },
    }
    for name, options in arrays.items():
        with tempfile.TemporaryDirectory() as each:
            store = Path(each) / "scan.zarr"
            cells = data.astype("float32") if name == "v2-scaled" else data
            zarr.create_array(store, data=cells, chunks=(1, 2, 6, 8), **options)
            save("zarr", name, Path(each), "scan.zarr/zarr.json")
    with tempfile.TemporaryDirectory() as each:
        store = Path(each) / "scan.zarr"
        bits = {"filters": [numcodecs.PackBits()], "compressors": None, "zarr_format": 2}
        zarr.create_array(store, data=data > 30, chunks=(1, 2, 6, 7), **bits)
        save("zarr", "v2-bits", Path(each), "scan.zarr/zarr.json")
    with tempfile.TemporaryDirectory() as each:
        group = zarr.create_group(Path(each) / "scan.zarr")
        group.create_array("Experiments/a/data", data=data, chunks=(2, 3, 6, 8))
        save("zarr", "group", Path(each), "scan.zarr/zarr.json")


def tiff(folder: Path) -> None:
    """Byte orders, sizes of offsets, compressions, tiles, and other programs' descriptions."""
    data = pixels("uint16", (6, 8), (5,))
    kinds: dict[str, dict[str, Any]] = {
        "plain": {"photometric": "minisblack"},
        "big": {"bigtiff": True, "byteorder": ">"},
        "deflate": {"compression": "zlib", "predictor": 2, "rowsperstrip": 4},
        "lzw": {"compression": "lzw"},
        "packbits": {"compression": "packbits"},
        "zstd": {"compression": "zstd", "byteorder": ">", "predictor": 2},
        "lzma": {"compression": "lzma", "rowsperstrip": 4},
        "bits": {"bitspersample": 12, "byteorder": ">"},
        "tiles": {"tile": (16, 16), "compression": "zlib"},
        "imagej": {"imagej": True},
        "ome": {"ome": True},
    }
    for name, options in kinds.items():
        tifffile.imwrite(folder / "scan.tif", data, **options)
        save("tiff", name, folder, "scan.tif")
    tifffile.imwrite(folder / "scan.tif", data > 30, compression="packbits")
    save("tiff", "truth", folder, "scan.tif")
    floats = data.astype("float32")
    tifffile.imwrite(folder / "scan.tif", floats, compression="zlib", predictor=3)
    save("tiff", "floats", folder, "scan.tif")
    path = folder / "scan.tif"
    tiff_makers.write_tvips(path, {"PixelSizeX": 0.5, "PixelSizeY": 0.25, "TemHighTension": 2e5})
    save("tiff", "tvips", folder, "scan.tif")
    tiff_makers.write_olympus(path, apart=True)
    save("tiff", "olympus", folder, "scan.tif")
    tiff_makers.write_hamamatsu(path, x=300 + 2.5 * np.arange(8), y=0.5 * np.arange(6))
    save("tiff", "hamamatsu", folder, "scan.tif")
    for name in ("scan.tif", "scan-2.tif"):
        tifffile.imwrite(folder / name, data[0])
    save("tiff", "stack", folder, "scan.tif", choices={1: 64})


def prz(folder: Path) -> None:
    """Stored and compressed, with what is known of the data."""
    known = np.array('[{"type": "4D", "electron_gun.voltage": 80000}]')
    for name, write in (("stored", np.savez), ("deflated", np.savez_compressed)):
        with (folder / "scan.prz").open("wb") as file:
            write(file, data=pixels("uint16", (4, 5)), meta_data_json=known)
        save("prz", name, folder, "scan.prz")


def spe(folder: Path) -> None:
    """Both kinds of headers."""
    for name, options in (("winview", {}), ("xml", {"version": 3.0, "gap": 6})):
        detector_files.write_spe(folder / "scan.spe", pixels("uint16", (4, 5), (6,)), **options)
        save("spe", name, folder, "scan.spe")


def detect() -> None:
    """The beginning of one input of each format, and noise."""
    for folder in sorted(CORPUS.iterdir()):
        if folder.is_dir() and folder.name != "detect":
            seed = min(folder.glob("[!f]*"), key=lambda path: path.stat().st_size)
            target = CORPUS / "detect" / folder.name
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(seed.read_bytes()[:6000])


FORMATS = {
    "raw": raw,
    "npy": npy,
    "mib": mib,
    "blo": blo,
    "empad": empad,
    "mrc": mrc,
    "seq": seq,
    "frms6": frms6,
    "dm": dm,
    "ser": ser,
    "tvips": tvips,
    "k2is": k2is,
    "raw_csr": raw_csr,
    "hdf5": hdf5,
    "zarr": zarr_,
    "tiff": tiff,
    "prz": prz,
    "spe": spe,
}


if __name__ == "__main__":
    for chosen in sys.argv[1:] or FORMATS:
        with tempfile.TemporaryDirectory() as temporary:
            FORMATS[chosen](Path(temporary))
    detect()
