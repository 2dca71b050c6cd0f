"""OME's descriptions of TIFF stacks: which page is which plane."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
import tifffile
from known_oddities import odd
from test_tiff import assert_reads, frames_of, pixels

#: Two times, of three depths each.
OME = (
    '<OME><Image Name="a"><Pixels DimensionOrder="XYZTC" Type="uint16" SizeX="5" SizeY="4"'
    ' SizeZ="3" SizeC="1" SizeT="2"><Channel SamplesPerPixel="1"/>{}</Pixels></Image></OME>'
)


def write_ome(path, pages, blocks, **options):
    """Pages in this order, with these elements ``TiffData``."""
    with tifffile.TiffWriter(path) as file:
        for i, page in enumerate(pages):
            text = OME.format(blocks) if i == 0 else None
            how = {"contiguous": False, "metadata": None, "photometric": "minisblack", **options}
            file.write(page, description=text, **how)


@pytest.mark.parametrize("compression", [None, "zlib"])
@pytest.mark.parametrize("order", [[0, 1, 2, 3, 4, 5], [0, 3, 1, 4, 2, 5], [3, 1, 5, 0, 2, 4]])
def test_ome_says_which_page_is_which_plane(ctx, tmp_path, compression, order):
    data = pixels((2, 3, 4, 5), "uint16")
    planes = data.reshape(6, 4, 5)
    of_pages = "".join(
        f'<TiffData IFD="{page}" FirstZ="{plane % 3}" FirstT="{plane // 3}" PlaneCount="1"/>'
        for page, plane in enumerate(order)
    )
    of_planes = "".join(
        f'<TiffData IFD="{order.index(plane)}" FirstZ="{plane % 3}" FirstT="{plane // 3}">'
        '<UUID FileName="a.ome.tif">urn:uuid:1</UUID></TiffData>'
        for plane in range(6)
    )
    path = tmp_path / "a.ome.tif"
    for blocks in (of_pages, of_planes):
        write_ome(path, planes[order], blocks, compression=compression)
        dataset = assert_reads(ctx, path, data)
        assert [axis.name for axis in dataset.axes[:2]] == ["time", "depth"]
        assert np.array_equal(tifffile.imread(path), data)


@odd("not give each page a plane of its own")
def test_planes_without_a_page_each_are_one_axis(ctx, tmp_path):
    planes = pixels((6, 4, 5), "uint16")
    path = tmp_path / "a.ome.tif"
    for blocks, words in [
        ('<TiffData IFD="0" FirstT="1" PlaneCount="3"/>', "not every page has a plane"),
        ('<TiffData/><TiffData IFD="4"/>', "plane 0 or page 4 comes twice"),
        ('<TiffData FirstZ="3"/>', "FirstZ is 3, expected less than SizeZ, 3"),
    ]:
        write_ome(path, planes, blocks)
        dataset = ctx.open(path)
        assert np.array_equal(frames_of(ctx, dataset), planes)
        assert tuple(dataset.shape.nav) == (6,)
        assert len(dataset.warnings) == 1
        assert words in dataset.warnings[0]
        assert "in the order of the file" in dataset.warnings[0]


@odd("images in 2 files")
def test_one_image_of_several_files_says_that_there_are_others(ctx, tmp_path):
    planes = pixels((2, 4, 5), "uint16")
    image = (
        '<Image><Pixels DimensionOrder="XYZTC" Type="uint16" SizeX="5" SizeY="4" SizeZ="1"'
        ' SizeC="1" SizeT="1"><TiffData IFD="0">'
        '<UUID FileName="{0}.ome.tif">urn:uuid:{0}</UUID></TiffData>'
        "</Pixels></Image>"
    )
    for number, plane in enumerate(planes):
        text = f'<OME UUID="urn:uuid:{number}">{image.format(0)}{image.format(1)}</OME>'
        tifffile.imwrite(tmp_path / f"{number}.ome.tif", plane, description=text, metadata=None)
    (warning,) = ctx.open(tmp_path / "1.ome.tif").warnings
    assert "it describes 2 images in 2 files, of which this is one" in warning
    dataset = ctx.open(tmp_path / "*.ome.tif")
    assert np.array_equal(frames_of(ctx, dataset), planes)
    assert dataset.warnings == []


def test_planes_without_a_file_are_in_this_one(ctx, tmp_path):
    (page,) = pixels((1, 4, 5), "uint16")
    own = '<TiffData IFD="0"><UUID FileName="a.ome.tif">urn:uuid:1</UUID></TiffData>'
    text = OME.format(f'{own}<TiffData IFD="1" FirstZ="1"/>')
    path = tmp_path / "a.ome.tif"
    for uuid, n_warnings in [("1", 0), ("2", 1)]:
        named = text.replace("<OME>", f'<OME UUID="urn:uuid:{uuid}">')
        tifffile.imwrite(path, page, description=named, metadata=None)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            assert len(ctx.open(path).warnings) == n_warnings


@odd("its planes are in 6 files")
def test_one_file_of_a_set_says_that_there_are_others(ctx, tmp_path):
    planes = pixels((6, 4, 5), "uint16")
    blocks = "".join(
        f'<TiffData IFD="0" FirstZ="{plane % 3}" FirstT="{plane // 3}">'
        f'<UUID FileName="{plane}.ome.tif">urn:uuid:{plane}</UUID></TiffData>'
        for plane in range(6)
    )
    for number, plane in enumerate(planes):
        write_ome(tmp_path / f"{number}.ome.tif", [plane], blocks)
    (warning,) = ctx.open(tmp_path / "1.ome.tif").warnings
    assert "its planes are in 6 files, of which this is one" in warning
    dataset = ctx.open(tmp_path / "*.ome.tif")
    assert np.array_equal(frames_of(ctx, dataset), planes)
    assert dataset.warnings == []
