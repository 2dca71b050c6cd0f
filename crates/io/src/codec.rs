//! Decoding of compressed chunks: the filters of HDF5, which are the codecs of Zarr, too.
//!
//! A chunk went through a list of filters when it was written; reading undoes them, last one
//! first. The size of the decoded chunk is known from its shape, and all memory is of that size:
//! whatever decodes to more, or to less, is an error. No filter takes a lock or starts a thread, so
//! that as many chunks are decoded at a time as there are workers.

mod bits;
mod bitshuffle;
mod blosc;
mod blosclz;
mod bzip2;
mod delta;
mod encode;
mod encode_tools;
mod lz4;
mod lzf;
mod lzma;
mod lzw;
mod packbits;
mod predictor;
mod reach;
mod recast;
mod shuffle;
mod unpack;

pub(crate) use bitshuffle::{Blocks, block_bytes, blocks};
pub(crate) use delta::Delta;
pub(crate) use encode::{Encoder, Step};
pub(crate) use lzma::Lzma;
pub(crate) use predictor::Predictor;
pub(crate) use recast::Recast;
pub(crate) use unpack::Unpack;

use framefold_core::{Error, Result, memory};
use framefold_simd::Simd;
use hdf5_reader::messages::filter_pipeline::FilterDescription;
use std::fmt;

/// Bytes that what is coded by the library's filters may be longer than the data: scale-offset puts 21 before
/// them, and 1 behind.
const LIBRARY_ADDS: usize = 64;

/// One step from pixels to stored bytes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Filter {
    /// A zlib stream.
    Deflate,
    /// A gzip stream.
    Gzip,
    /// The first bytes of all elements, then the second ones, and so on.
    Shuffle {
        /// Bytes of an element.
        size: usize,
    },
    /// A checksum after the data.
    Fletcher32,
    /// A CRC-32C after the data.
    Crc32c,
    /// LibLZF, as h5py writes it.
    Lzf,
    /// Blocks of LZ4 behind a header.
    Lz4,
    /// One block of LZ4 behind its decoded size, as numcodecs writes it.
    SizedLz4,
    /// One Zstandard frame.
    Zstd,
    /// The first bits of all elements, then the second ones; compressed or not.
    Bitshuffle {
        /// Bytes of an element.
        size: usize,
        /// Elements of a block; 0 for the default.
        block: usize,
        /// What compresses the blocks.
        inner: Inner,
    },
    /// A Blosc frame, which says itself how it was made.
    Blosc,
    /// LZW, as TIFF has it.
    Lzw,
    /// Runs of bytes, as TIFF has them.
    PackBits,
    /// Differences of neighbours in a row.
    Predict(Predictor),
    /// Differences of neighbours in the whole chunk.
    Delta(Delta),
    /// Streams of bzip2.
    Bzip2,
    /// LZMA, in one container or another.
    Lzma(Lzma),
    /// Elements as those of another dtype.
    Recast(Recast),
    /// Truth values as bits.
    Bits,
    /// Samples of a few bits.
    Unpack(Unpack),
    /// One that the HDF5 library decodes.
    Library(FilterDescription, usize),
}

/// What compresses the blocks of [`Filter::Bitshuffle`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Inner {
    Nothing,
    Lz4,
    Zstd,
}

/// The filters of a data set, in the order in which they were applied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Pipeline(pub(crate) Vec<Filter>);

/// Memory of one worker, used again from chunk to chunk.
pub(crate) struct Buffers {
    steps: [Vec<u8>; 2],
    tools: Tools,
}

/// What decoders keep from chunk to chunk.
pub(crate) struct Tools {
    simd: Simd,
    deflate: libdeflater::Decompressor,
    zstd: Option<zstd::bulk::Decompressor<'static>>,
    lzw: Option<weezl::decode::Decoder>,
    /// Blocks on their way.
    block: Vec<u8>,
    planes: Vec<u8>,
}

impl Buffers {
    pub(crate) fn new() -> Self {
        Buffers {
            steps: [Vec::new(), Vec::new()],
            tools: Tools {
                simd: Simd::best(),
                deflate: libdeflater::Decompressor::new(),
                zstd: None,
                lzw: None,
                block: Vec::new(),
                planes: Vec::new(),
            },
        }
    }
}

impl Tools {
    /// Decodes one Zstandard frame to exactly as many bytes as `out` has.
    fn zstd(&mut self, stored: &[u8], out: &mut [u8]) -> Result<()> {
        let n = self.zstd_some(stored, out)?;
        all_of("Zstandard", n, out.len())
    }

    /// The same to at most as many; how many there are.
    fn zstd_some(&mut self, stored: &[u8], out: &mut [u8]) -> Result<usize> {
        if self.zstd.is_none() {
            let fresh = zstd::bulk::Decompressor::new();
            self.zstd = Some(fresh.map_err(|error| Error::io("set up Zstandard", error))?);
        }
        let Some(decoder) = &mut self.zstd else {
            return Err(Error::bug("Zstandard was not set up"));
        };
        decoder
            .decompress_to_buffer(stored, out)
            .map_err(|error| damaged("Zstandard", &error.to_string()))
    }

    fn deflate(&mut self, stored: &[u8], out: &mut [u8]) -> Result<()> {
        let n = self.deflate_some(stored, out)?;
        all_of("deflate", n, out.len())
    }

    /// To at most as many bytes as `out` has; how many there are.
    fn deflate_some(&mut self, stored: &[u8], out: &mut [u8]) -> Result<usize> {
        let n = self.deflate.zlib_decompress(stored, out);
        n.map_err(|error| damaged("deflate", &error.to_string()))
    }
}

impl Pipeline {
    /// Whether chunks are stored as they are.
    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Decodes one chunk. `out` is as long as the chunk is decoded; bit `i` of `mask` says that
    /// filter `i` was left out when this chunk was written.
    ///
    /// # Errors
    /// `BadFile` if the stored bytes do not decode to just that many; `Unsupported` for filters in
    /// an order that gives no clue to the sizes in between.
    pub(crate) fn decode(
        &self,
        mask: u32,
        stored: &[u8],
        out: &mut [u8],
        buffers: &mut Buffers,
    ) -> Result<()> {
        self.check_reach(mask, stored.len(), out.len())?;
        let Buffers { steps: [a, b], tools } = buffers;
        // Where the data are: in the file first, then in either buffer.
        let mut input = Input::Stored(stored);
        let sizes = self.sizes(mask, out.len())?;
        let n_steps = sizes.len();
        for (step, (filter, size)) in sizes.into_iter().rev().enumerate() {
            if let Some(width) = filter.trailer(input.bytes(a, b))? {
                input = input.without_last(width);
                continue;
            }
            let last = step + 1 == n_steps;
            let (from, to): (&[u8], &mut Vec<u8>) = match &input {
                Input::Stored(bytes) => (bytes, a),
                Input::First(len) => (a.get(..*len).unwrap_or_default(), b),
                Input::Second(len) => (b.get(..*len).unwrap_or_default(), a),
            };
            if last {
                return filter.undo(from, out, tools);
            }
            grow(to, size.most)?;
            let to = to.get_mut(..size.most).unwrap_or_default();
            let size = if size.exact {
                filter.undo(from, to, tools)?;
                size.most
            } else {
                filter.undo_some(from, to, tools)?
            };
            input = match input {
                Input::First(_) => Input::Second(size),
                Input::Stored(_) | Input::Second(_) => Input::First(size),
            };
        }
        let decoded = input.bytes(a, b);
        all_of("the chunk", decoded.len(), out.len())?;
        out.copy_from_slice(decoded);
        Ok(())
    }

    /// The most bytes that a chunk of so many has between two filters, as far as these do not compress.
    pub(crate) fn widest(&self, decoded: u64) -> u64 {
        let mut size = usize::try_from(decoded).ok();
        self.0.iter().fold(decoded, |most, filter| {
            size = size.and_then(|size| filter.size_after(size));
            most.max(size.and_then(|size| u64::try_from(size).ok()).unwrap_or(0))
        })
    }

    /// How many bytes `decoded` ones are when stored, if that does not depend on them.
    pub(crate) fn stored_len(&self, decoded: usize) -> Option<usize> {
        self.0.iter().try_fold(decoded, |size, filter| filter.size_after(size))
    }

    /// The filters that were applied, each with the size of what it was applied to.
    fn sizes(&self, mask: u32, decoded: usize) -> Result<Vec<(&Filter, Size)>> {
        let exactly = |most| Size { most, exact: true };
        let mut size = Some(exactly(decoded));
        let mut sizes = Vec::with_capacity(self.0.len());
        for (i, filter) in self.0.iter().enumerate() {
            if i < 32 && mask >> i & 1 == 1 {
                continue;
            }
            let adds_a_trailer = matches!(filter, Filter::Fletcher32 | Filter::Crc32c);
            let before = size.or(adds_a_trailer.then_some(exactly(0)));
            sizes.push((filter, before.ok_or_else(|| filtered_again(filter))?));
            size = size.and_then(|size| filter.after(size));
        }
        Ok(sizes)
    }
}

/// The size of what a filter is applied to, or the most that it may be.
#[derive(Clone, Copy)]
struct Size {
    most: usize,
    exact: bool,
}

fn filtered_again(filter: &Filter) -> Error {
    Error::unsupported(format!("chunks are compressed, and then filtered again by {filter}"))
        .with_hint("rewrite the data with one compressor")
}

/// Where the data are on their way through a pipeline.
enum Input<'s> {
    Stored(&'s [u8]),
    First(usize),
    Second(usize),
}

impl<'s> Input<'s> {
    fn bytes<'b>(&self, a: &'b [u8], b: &'b [u8]) -> &'b [u8]
    where
        's: 'b,
    {
        match self {
            Input::Stored(bytes) => bytes,
            Input::First(len) => a.get(..*len).unwrap_or_default(),
            Input::Second(len) => b.get(..*len).unwrap_or_default(),
        }
    }

    fn without_last(self, width: usize) -> Self {
        match self {
            Input::Stored(bytes) => {
                Input::Stored(bytes.get(..bytes.len().saturating_sub(width)).unwrap_or_default())
            }
            Input::First(len) => Input::First(len.saturating_sub(width)),
            Input::Second(len) => Input::Second(len.saturating_sub(width)),
        }
    }
}

impl Filter {
    /// The size of what the filter makes of so many bytes, if that does not depend on them.
    fn size_after(&self, size: usize) -> Option<usize> {
        match self {
            Filter::Shuffle { .. }
            | Filter::Bitshuffle { inner: Inner::Nothing, .. }
            | Filter::Predict(_) => Some(size),
            Filter::Fletcher32 | Filter::Crc32c => size.checked_add(4),
            Filter::Delta(delta) => delta.size_after(size),
            Filter::Recast(recast) => recast.size_after(size),
            Filter::Bits => bits::size_after(size),
            Filter::Unpack(unpack) => unpack.size_after(size),
            _ => None,
        }
    }

    /// The same, of something of such a size. How long what the library's filters make is depends on the data.
    fn after(&self, size: Size) -> Option<Size> {
        let by_library = matches!(self, Filter::Library(..));
        let most = match by_library {
            true => size.most.checked_add(LIBRARY_ADDS)?,
            false => self.size_after(size.most)?,
        };
        Some(Size { most, exact: size.exact && !by_library })
    }

    /// For filters that only add something at the end: checks it, and says how long it is.
    fn trailer(&self, stored: &[u8]) -> Result<Option<usize>> {
        type Checksum = fn(&[u8]) -> u32;
        let (name, checksum): (_, Checksum) = match self {
            Filter::Fletcher32 => ("Fletcher-32", hdf5_reader::checksum::fletcher32),
            Filter::Crc32c => ("CRC-32C", crc32c::crc32c),
            _ => return Ok(None),
        };
        let Some((data, end)) = stored.split_last_chunk::<4>() else {
            return Err(damaged(name, "there is no room for the checksum"));
        };
        let (found, expected) = (checksum(data), u32::from_le_bytes(*end));
        if found != expected {
            return Err(damaged(
                name,
                &format!("the checksum is {found:08x}, but {expected:08x} was stored"),
            ));
        }
        Ok(Some(4))
    }

    /// Decodes `stored` to at most as many bytes as `out` has; how many there are.
    fn undo_some(&self, stored: &[u8], out: &mut [u8], tools: &mut Tools) -> Result<usize> {
        match self {
            Filter::Deflate => tools.deflate_some(stored, out),
            Filter::Zstd => tools.zstd_some(stored, out),
            Filter::Lzf => lzf::decode(stored, out),
            Filter::Shuffle { size } => {
                let room = out.len();
                let Some(out) = out.get_mut(..stored.len()) else {
                    return all_of("shuffle", stored.len(), room).map(|()| room);
                };
                shuffle::unshuffle(tools.simd, stored, *size, out);
                Ok(stored.len())
            }
            other => Err(filtered_again(other)),
        }
    }

    /// Decodes `stored` to just as many bytes as `out` has.
    fn undo(&self, stored: &[u8], out: &mut [u8], tools: &mut Tools) -> Result<()> {
        match self {
            Filter::Deflate | Filter::Shuffle { .. } | Filter::Lzf | Filter::Zstd => {
                let n = self.undo_some(stored, out, tools)?;
                if n == out.len() { Ok(()) } else { all_of(&self.to_string(), n, out.len()) }
            }
            Filter::Gzip => {
                let n = tools.deflate.gzip_decompress(stored, out);
                let n = n.map_err(|error| damaged("gzip", &error.to_string()))?;
                all_of("gzip", n, out.len())
            }
            Filter::Lz4 => lz4::decode(stored, out),
            Filter::SizedLz4 => lz4::decode_sized(stored, out),
            Filter::Bitshuffle { size, block, inner } => {
                bitshuffle::decode(stored, *size, *block, *inner, out, tools)
            }
            Filter::Blosc => blosc::decode(stored, out, tools),
            Filter::Lzw => lzw::decode(stored, out, &mut tools.lzw),
            Filter::PackBits => packbits::decode(stored, out),
            Filter::Predict(predictor) => predictor.undo(stored, out),
            Filter::Delta(delta) => delta.undo(stored, out),
            Filter::Bzip2 => bzip2::decode(stored, out),
            Filter::Lzma(lzma) => lzma.decode(stored, out),
            Filter::Recast(recast) => recast.undo(stored, out),
            Filter::Bits => bits::decode(stored, out),
            Filter::Unpack(unpack) => unpack.undo(stored, out),
            Filter::Library(description, size) => by_library(description, *size, stored, out),
            Filter::Fletcher32 | Filter::Crc32c => {
                Err(Error::bug("a checksum was to be decoded as data"))
            }
        }
    }
}

impl fmt::Display for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Filter::Deflate => f.write_str("deflate"),
            Filter::Gzip => f.write_str("gzip"),
            Filter::Shuffle { .. } => f.write_str("shuffle"),
            Filter::Fletcher32 => f.write_str("Fletcher-32"),
            Filter::Crc32c => f.write_str("CRC-32C"),
            Filter::Lzf => f.write_str("LZF"),
            Filter::Lz4 | Filter::SizedLz4 => f.write_str("LZ4"),
            Filter::Zstd => f.write_str("Zstandard"),
            Filter::Bitshuffle { inner, .. } => f.write_str(match inner {
                Inner::Nothing => "bitshuffle",
                Inner::Lz4 => "bitshuffle with LZ4",
                Inner::Zstd => "bitshuffle with Zstandard",
            }),
            Filter::Blosc => f.write_str("Blosc"),
            Filter::Lzw => f.write_str("LZW"),
            Filter::PackBits => f.write_str("PackBits"),
            Filter::Predict(_) => f.write_str("predictor"),
            Filter::Delta(_) => f.write_str("delta"),
            Filter::Bzip2 => f.write_str("bzip2"),
            Filter::Lzma(_) => f.write_str("LZMA"),
            Filter::Recast(_) => f.write_str("another dtype"),
            Filter::Bits | Filter::Unpack(_) => f.write_str("bits"),
            Filter::Library(description, _) => {
                let name = match description.id {
                    4 => "SZIP",
                    5 => "n-bit",
                    6 => "scale-offset",
                    _ => "a filter",
                };
                write!(f, "{name} (decoded by the HDF5 library)")
            }
        }
    }
}

impl fmt::Display for Pipeline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<String> = self.0.iter().map(Filter::to_string).collect();
        f.write_str(if names.is_empty() { "none".into() } else { names.join(", ") }.as_str())
    }
}

/// Filters that are rare: the library decodes them, without a lock.
fn by_library(
    description: &FilterDescription,
    size: usize,
    stored: &[u8],
    out: &mut [u8],
) -> Result<()> {
    let filters = std::slice::from_ref(description);
    let limit = Some(out.len());
    let decoded = std::panic::catch_unwind(|| {
        hdf5_reader::filters::apply_pipeline_with_limit(stored, filters, 0, size, None, limit)
    });
    let decoded = match decoded {
        Ok(decoded) => decoded.map_err(|error| damaged("the filter", &error.to_string()))?,
        Err(_) => return Err(damaged("the filter", "the HDF5 library gave up on it")),
    };
    all_of("the filter", decoded.len(), out.len())?;
    out.copy_from_slice(&decoded);
    Ok(())
}

/// Checks bytes that end in their CRC-32C.
///
/// # Errors
/// `BadFile` if they do not.
pub(crate) fn check_crc32c(bytes: &[u8]) -> Result<()> {
    Filter::Crc32c.trailer(bytes).map(drop)
}

/// Chunks are as large as a file says: makes sure that there is memory for one, or for a tile of
/// them, before it is taken.
///
/// # Errors
/// `Limit` if there is not as much.
pub(crate) fn check_memory(len_bytes: usize) -> Result<()> {
    if u64::try_from(len_bytes).is_ok_and(memory::fits) {
        return Ok(());
    }
    Err(do_not_fit(len_bytes))
}

/// Makes memory at least so long.
///
/// # Errors
/// `Limit` if there is not as much.
fn grow(buffer: &mut Vec<u8>, len: usize) -> Result<()> {
    if buffer.len() < len {
        // What was in it is of no use any more.
        *buffer = Vec::new();
        *buffer = memory::zeros(len).map_err(|_| do_not_fit(len))?;
    }
    Ok(())
}

fn do_not_fit(len_bytes: usize) -> Error {
    Error::limit(format!("chunks of {len_bytes} bytes together do not fit in memory"))
        .with_hint("rewrite the data in smaller chunks, if the shapes are right")
}

/// The error for stored bytes that are not what they should be.
fn damaged(what: &str, why: &str) -> Error {
    Error::bad_file(format!("a chunk cannot be decoded: {what}: {why}"))
        .with_hint("the file is damaged; copy it again")
}

/// Refuses data that decode to another number of bytes than their shape has.
fn all_of(what: &str, found: usize, expected: usize) -> Result<()> {
    if found == expected {
        return Ok(());
    }
    Err(damaged(what, &format!("there are {found} bytes, but the chunk's shape needs {expected}")))
}

#[cfg(test)]
mod tests;
