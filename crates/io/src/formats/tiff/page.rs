//! What the tags of a page say about its pixels, and where they are.

use super::ifd::{Directory, Flavour, Numbers, tag};
use crate::access::Storage;
use crate::codec::{Filter, Lzma, Pipeline, Predictor, Unpack};
use crate::readers::linear::frame_bytes;
use framefold_core::{ByteOrder, DType, Error, Result, StoredDType};
use std::ops::Range;

/// The number that says that samples are of brightness and two differences of colours.
const YCBCR: u64 = 6;

/// How the pixels of a page are stored; pages of a stack mostly have it in common.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Layout {
    /// The shape of a frame: rows and columns, with the samples of colours last (next to each
    /// other) or first (in planes).
    pub(super) shape: Vec<usize>,
    /// Whether the samples of colours are in planes.
    pub(super) planes: bool,
    /// The shape of a strip or tile.
    pub(super) chunk: Vec<usize>,
    pub(super) stored: StoredDType,
    pub(super) pipeline: Pipeline,
    /// Which axis strips are cut along. Their last one is as long as the page, and tiles are filled up.
    strips: Option<usize>,
}

/// Where the pixels of a page are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// In one run from this byte on.
    Run(u64),
    /// In strips or tiles, at these offsets, of these lengths.
    Chunks(Numbers, Option<Numbers>),
}

/// Reads a page. `None` if it only shows another one in small.
///
/// # Errors
/// `BadFile` if tags are missing or make no sense; `Unsupported` for pixels of another kind.
pub(super) fn read(directory: &Directory<'_>) -> Result<Option<(Layout, Place)>> {
    if directory.number(tag::SUBFILE_TYPE)?.is_some_and(|kind| kind & 1 == 1) {
        return Ok(None);
    }
    let axis = |name: &str, tag: u16| {
        let n = directory.number(tag)?.filter(|&n| n > 0).and_then(|n| usize::try_from(n).ok());
        n.ok_or_else(|| directory.wrong(format!("the page has no {name} (tag {tag})")))
    };
    let (height, width) = (axis("height", tag::HEIGHT)?, axis("width", tag::WIDTH)?);
    let stored = stored_dtype(directory)?;
    let samples = usize::try_from(directory.number(tag::SAMPLES)?.unwrap_or(1)).unwrap_or(0);
    if samples == 0 {
        return Err(directory.wrong("0 samples to a pixel make no frames"));
    }
    for tag in [tag::DEPTH, tag::TILE_DEPTH] {
        if let Some(depth) = directory.number(tag)?.filter(|&depth| depth > 1) {
            return Err(directory
                .unsupported(format!("the page is a volume of {depth} planes"))
                .with_hint("rewrite the file with a page for each plane"));
        }
    }
    let planes = directory.number(tag::PLANAR)? == Some(2);
    let around = |rows: usize, columns: usize, n: usize| match (samples, planes) {
        (1, _) => vec![rows, columns],
        (_, true) => vec![n, rows, columns],
        (_, false) => vec![rows, columns, samples],
    };
    let shape = around(height, width, samples);
    let tiled = directory.number(tag::TILE_WIDTH)?.is_some();
    let chunk = if tiled {
        around(
            axis("height of tiles", tag::TILE_HEIGHT)?,
            axis("width of tiles", tag::TILE_WIDTH)?,
            1,
        )
    } else {
        let rows = directory.number(tag::ROWS_PER_STRIP)?.filter(|&rows| rows > 0);
        let rows = rows.and_then(|rows| usize::try_from(rows).ok()).unwrap_or(height);
        around(rows.min(height), width, 1)
    };
    // Proves that both fit in memory.
    for shape in [&shape, &chunk] {
        frame_bytes(shape, stored).map_err(|error| directory.wrong(error.message()))?;
    }
    let row = if planes || samples == 1 {
        *chunk.last().unwrap_or(&1)
    } else {
        chunk.iter().skip(1).product()
    };
    let pipeline = pipeline(directory, stored, row, if planes { 1 } else { samples })?;
    // Without the tag, colours have half as many rows and columns.
    if directory.number(tag::PHOTOMETRIC)? == Some(YCBCR)
        && (directory.number(tag::SUBSAMPLING)? != Some(1)
            || !directory.all_equal(tag::SUBSAMPLING)?)
    {
        return Err(directory
            .unsupported("the page has fewer pixels of colours than of brightness (YCbCr)")
            .with_hint("rewrite the file with colours in RGB"));
    }
    let strips = (!tiled).then_some(usize::from(planes && samples > 1));
    let layout = Layout { shape, planes, chunk, stored, pipeline, strips };
    let (offsets, lens) = if tiled && directory.numbers(tag::TILE_OFFSETS)?.is_some() {
        (tag::TILE_OFFSETS, tag::TILE_BYTES)
    } else {
        (tag::STRIP_OFFSETS, tag::STRIP_BYTES)
    };
    let offsets = directory.numbers(offsets)?.filter(|found| found.count >= layout.n_chunks());
    let offsets = offsets.ok_or_else(|| {
        directory.wrong(format!(
            "the page has {} strips or tiles, but their offsets are not all in the file",
            layout.n_chunks()
        ))
    })?;
    let lens = directory.numbers(lens)?.filter(|found| found.count >= layout.n_chunks());
    if lens.is_none() && !layout.pipeline.is_empty() {
        return Err(directory.wrong("the page is compressed, but its strips have no lengths"));
    }
    Ok(Some((layout, Place::Chunks(offsets, lens))))
}

/// The dtype of the samples.
fn stored_dtype(directory: &Directory<'_>) -> Result<StoredDType> {
    let bits = directory.number(tag::BITS)?.unwrap_or(1);
    let format = directory.number(tag::SAMPLE_FORMAT)?.unwrap_or(1);
    let unsupported = |what: String| {
        Err(directory
            .unsupported(what)
            .with_hint("rewrite the file with samples of 8, 16, 32 or 64 bits, all alike"))
    };
    if !directory.all_equal(tag::BITS)? || !directory.all_equal(tag::SAMPLE_FORMAT)? {
        return unsupported("the samples of a pixel are not all of one kind".into());
    }
    if directory.number(tag::FILL_ORDER)? == Some(2) {
        return unsupported("the bits of each byte are stored back to front".into());
    }
    let dtype = match (format, bits) {
        // Fewer bits than a number has are taken out of their bytes.
        (1, 1) => DType::Bool,
        (1, 2..=7) => DType::U8,
        (1, 9..=15) => DType::U16,
        // 4 says that nothing is known about them.
        (1 | 4, 8) => DType::U8,
        (1 | 4, 16) => DType::U16,
        (1 | 4, 32) => DType::U32,
        (1 | 4, 64) => DType::U64,
        (2, 8) => DType::I8,
        (2, 16) => DType::I16,
        (2, 32) => DType::I32,
        (2, 64) => DType::I64,
        (3, 16) => DType::F16,
        (3, 32) => DType::F32,
        (3, 64) => DType::F64,
        (6, 64) => DType::C64,
        (6, 128) => DType::C128,
        _ => {
            return unsupported(format!(
                "samples of {bits} bits in sample format {format} are not known"
            ));
        }
    };
    let order = if directory.flavour().big_endian { ByteOrder::Big } else { ByteOrder::Little };
    Ok(StoredDType { dtype, order })
}

/// Whether chunks of that compression can be decoded.
pub(super) fn is_known(compression: u64) -> bool {
    matches!(compression, 1 | 5 | 8 | 32946 | 32773 | 50000 | 34926 | 34925)
}

/// How chunks are decoded; [`is_known`] lists the same compressions.
fn pipeline(
    directory: &Directory<'_>,
    stored: StoredDType,
    row: usize,
    samples: usize,
) -> Result<Pipeline> {
    let compression = directory.number(tag::COMPRESSION)?.unwrap_or(1);
    let bits = directory.number(tag::BITS)?.unwrap_or(1);
    let bits = usize::try_from(bits).unwrap_or(usize::MAX);
    let unpack = Unpack::new(bits, row, stored).map(Filter::Unpack);
    let compressor = match compression {
        1 => return Ok(Pipeline(Vec::from_iter(unpack))),
        5 => Filter::Lzw,
        8 | 32946 => Filter::Deflate,
        32773 => Filter::PackBits,
        50000 | 34926 => Filter::Zstd,
        34925 => Filter::Lzma(Lzma::Xz),
        other => {
            let name = match other {
                2..=4 => " (fax)",
                6 | 7 | 34892 => " (JPEG)",
                34712 | 33003 | 33005 => " (JPEG 2000)",
                34887 => " (LERC)",
                50001 => " (WebP)",
                50002 => " (JPEG XL)",
                _ => "",
            };
            return Err(directory
                .unsupported(format!("compression {other}{name} is not known"))
                .with_hint(
                    "rewrite the file without compression, or with deflate, LZW, PackBits, zstd or LZMA",
                ));
        }
    };
    let predictor = match directory.number(tag::PREDICTOR)?.unwrap_or(1) {
        1 => return Ok(Pipeline(unpack.into_iter().chain([compressor]).collect())),
        other if unpack.is_some() => {
            return Err(directory
                .unsupported(format!("predictor {other} of samples of {bits} bits is not known"))
                .with_hint("rewrite the file without a predictor"));
        }
        2 if !stored.dtype.is_complex() => Predictor { floats: false, stored, row, samples },
        3 if stored.dtype.is_float() => Predictor { floats: true, stored, row, samples },
        other => {
            return Err(directory
                .unsupported(format!("predictor {other} of {} is not known", stored.dtype))
                .with_hint("rewrite the file without a predictor"));
        }
    };
    Ok(Pipeline(vec![Filter::Predict(predictor), compressor]))
}

impl Layout {
    /// Strips or tiles of a page.
    pub(super) fn n_chunks(&self) -> u64 {
        let along = self.shape.iter().zip(&self.chunk).map(|(n, chunk)| n.div_ceil(*chunk));
        along.fold(1u64, |n, along| n.saturating_mul(u64::try_from(along).unwrap_or(u64::MAX)))
    }

    /// The shape of a frame without its colours.
    pub(super) fn rows_and_columns(&self) -> [usize; 2] {
        match *self.shape {
            [rows, columns] => [rows, columns],
            [_, rows, columns] if self.planes => [rows, columns],
            [rows, columns, ..] => [rows, columns],
            _ => [1, 1],
        }
    }

    /// Bytes of a page. That they fit was checked when it was read.
    pub(super) fn frame_bytes(&self) -> u64 {
        frame_bytes(&self.shape, self.stored).unwrap_or(u64::MAX)
    }

    /// Bytes of a decoded strip or tile: the last strip of a page may have fewer rows.
    pub(super) fn chunk_bytes(&self, chunk: u64) -> u64 {
        let whole = frame_bytes(&self.chunk, self.stored).unwrap_or(u64::MAX);
        let rows = self.strips.and_then(|axis| self.shape.get(axis).zip(self.chunk.get(axis)));
        let Some((&height, &rows)) = rows else { return whole };
        let n_strips = u64::try_from(height.div_ceil(rows)).unwrap_or(u64::MAX);
        let last = height % rows;
        if last == 0 || chunk % n_strips != n_strips - 1 {
            return whole;
        }
        let row = whole / u64::try_from(rows).unwrap_or(u64::MAX);
        row.saturating_mul(u64::try_from(last).unwrap_or(u64::MAX))
    }

    /// Bytes of a strip or tile in the file, if that does not depend on its pixels.
    fn stored_bytes(&self, chunk: u64) -> Option<u64> {
        let decoded = usize::try_from(self.chunk_bytes(chunk)).ok()?;
        u64::try_from(self.pipeline.stored_len(decoded)?).ok()
    }

    /// The bytes of a chunk that begins at `start` and is said to have `len` bytes.
    ///
    /// # Errors
    /// `BadFile` if they are not all in the file, or more than any chunk can take.
    fn check(&self, storage: &Storage, i: u64, start: u64, len: Option<u64>) -> Result<Range<u64>> {
        let decoded = self.chunk_bytes(i);
        let len = len.filter(|_| !self.pipeline.is_empty()).unwrap_or(decoded);
        // What cannot be compressed grows a little.
        let most = decoded.saturating_mul(2).saturating_add(1 << 16);
        match start.checked_add(len).filter(|&end| end <= storage.len()) {
            Some(end) if start > 0 && len > 0 && len <= most => Ok(start..end),
            _ => Err(storage.locate(
                Error::bad_file(format!(
                    "strip or tile {i} of a page should take {len} bytes from byte {start} on, of \
                     a file of {} bytes",
                    storage.len()
                ))
                .with_offset(start.min(storage.len()))
                .with_hint("the file is cut short or damaged; copy it again"),
            )),
        }
    }

    /// Whether chunks, one after the other, are the page.
    fn in_order(&self) -> bool {
        self.pipeline.is_empty() && (self.strips.is_some() || self.chunk == self.shape)
    }

    /// The bytes before a chunk in a page that lies in one run.
    fn before(&self, chunk: u64) -> u64 {
        let whole = self.chunk_bytes(0);
        let Some((&height, &rows)) =
            self.strips.and_then(|axis| self.shape.get(axis).zip(self.chunk.get(axis)))
        else {
            return whole.saturating_mul(chunk);
        };
        let n_strips = u64::try_from(height.div_ceil(rows)).unwrap_or(u64::MAX);
        let plane =
            (self.chunk_bytes(n_strips - 1)).saturating_add(whole.saturating_mul(n_strips - 1));
        let strip = (chunk % n_strips).saturating_mul(whole);
        (chunk / n_strips).saturating_mul(plane).saturating_add(strip)
    }
}

impl Place {
    /// The bytes of a chunk.
    ///
    /// # Errors
    /// `BadFile` if they are not all in the file, or more than any chunk can take; `Io`.
    pub(super) fn chunk(
        self,
        storage: &Storage,
        flavour: Flavour,
        layout: &Layout,
        i: u64,
    ) -> Result<Range<u64>> {
        let (start, len) = match self {
            Place::Run(start) => (start.saturating_add(layout.before(i)), None),
            Place::Chunks(offsets, lens) => {
                let len = lens.map(|lens| lens.get(storage, flavour, i)).transpose()?;
                (offsets.get(storage, flavour, i)?, len)
            }
        };
        layout.check(storage, i, start, len)
    }

    /// A word about pixels that are not compressed and still take another number of bytes than the page
    /// says. Last strips are filled up by some programs, so the first one counts; 0 says nothing.
    pub(super) fn doubt(
        self,
        storage: &Storage,
        flavour: Flavour,
        layout: &Layout,
    ) -> Option<String> {
        let Place::Chunks(_, Some(lens)) = self else { return None };
        let said = lens.get(storage, flavour, 0).ok().filter(|&len| len > 0)?;
        let needed = layout.stored_bytes(0).filter(|&needed| needed != said)?;
        let shape = &layout.chunk;
        Some(format!(
            "the first strip or tile has {said} bytes, but {shape:?} pixels of its bits take {needed}: \
             the tags of the page contradict each other, and its pixels may be wrong"
        ))
    }

    /// The place of a page as one run of bytes, if it is one.
    ///
    /// # Errors
    /// `BadFile` if part of it is not in the file; `Io`.
    pub(super) fn joined(
        self,
        storage: &Storage,
        flavour: Flavour,
        layout: &Layout,
    ) -> Result<Place> {
        let Place::Chunks(offsets, lens) = self else { return Ok(self) };
        let offsets = offsets.all(storage, flavour)?;
        let lens = lens.map(|lens| lens.all(storage, flavour)).transpose()?;
        let mut joined = layout.in_order();
        let mut end = None;
        for i in 0..layout.n_chunks() {
            let at = usize::try_from(i).unwrap_or(usize::MAX);
            let start = offsets.get(at).copied().unwrap_or(0);
            let len = lens.as_ref().and_then(|lens| lens.get(at).copied());
            let range = layout.check(storage, i, start, len)?;
            joined &= end.is_none_or(|end| end == range.start);
            end = Some(range.end);
        }
        Ok(if joined { Place::Run(offsets.first().copied().unwrap_or(0)) } else { self })
    }
}
