//! The messages of object headers, and the superblock.

use super::NOWHERE;
use crate::codec::Step;
use framefold_core::{ByteOrder, DType, Error, Result};
use hdf5_reader::checksum::jenkins_lookup3;

pub(super) const DATASPACE: u8 = 0x01;
pub(super) const LINK_INFO: u8 = 0x02;
pub(super) const DATATYPE: u8 = 0x03;
pub(super) const FILL_VALUE: u8 = 0x05;
pub(super) const LINK: u8 = 0x06;
pub(super) const LAYOUT: u8 = 0x08;
pub(super) const GROUP_INFO: u8 = 0x0A;
pub(super) const FILTERS: u8 = 0x0B;
pub(super) const ATTRIBUTE: u8 = 0x0C;

/// Where pixels are.
#[derive(Clone, Debug)]
pub(in crate::write) enum Layout {
    Contiguous { address: u64, len: u64 },
    Chunked { tree: u64, chunk: Vec<usize>, size: usize },
}

/// The filters of chunks: number, whether readers may do without it, and parameters.
#[derive(Clone, Debug, Default)]
pub(in crate::write) struct Filters(Vec<(u16, Vec<u32>)>);

impl Filters {
    /// # Errors
    /// `Limit` if a parameter does not fit.
    pub(super) fn of(steps: &[Step], chunk: &[usize], size: usize) -> Result<Self> {
        let word =
            |n: usize| u32::try_from(n).map_err(|_| Error::limit("chunks are too large for HDF5"));
        let level = |level: i32| u32::try_from(level).unwrap_or(1);
        let bytes = word(chunk.iter().product::<usize>() * size)?;
        let mut filters = Vec::with_capacity(steps.len());
        for step in steps {
            filters.push(match *step {
                Step::Deflate(n) => (1, vec![level(n)]),
                Step::Shuffle(size) => (2, vec![word(size)?]),
                Step::Zstd(n) => (32_015, vec![level(n)]),
                // Version 0.4, bytes of an element, default blocks, LZ4.
                Step::Bitshuffle(size) => (32_008, vec![0, 4, word(size)?, 0, 2]),
                // Versions, bytes of an element and a chunk, level, shuffled bits, compressor.
                Step::Blosc { size, zstd } => {
                    let (n, compressor) = zstd.map_or((1, 1), |n| (level(n).min(9), 5));
                    (32_001, vec![2, 2, word(size)?, bytes, n, 2, compressor])
                }
                Step::Gzip(_) => return Err(Error::bug("HDF5 has no gzip streams")),
            });
        }
        Ok(Filters(filters))
    }

    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Version 2.
    pub(super) fn message(&self) -> Vec<u8> {
        let mut out = vec![2, self.0.len() as u8];
        for (id, parameters) in &self.0 {
            out.extend(id.to_le_bytes());
            if *id >= 256 {
                // Without a name.
                out.extend([0; 2]);
            }
            out.extend([0; 2]);
            out.extend((parameters.len() as u16).to_le_bytes());
            for parameter in parameters {
                out.extend(parameter.to_le_bytes());
            }
        }
        out
    }
}

impl Layout {
    /// Version 3.
    pub(super) fn message(&self) -> Vec<u8> {
        match self {
            Layout::Contiguous { address, len } => {
                [&[3, 1][..], &address.to_le_bytes(), &len.to_le_bytes()].concat()
            }
            Layout::Chunked { tree, chunk, size } => {
                let mut out = vec![3, 2, chunk.len() as u8 + 1];
                out.extend(tree.to_le_bytes());
                for len in chunk.iter().chain([size]) {
                    out.extend((*len as u32).to_le_bytes());
                }
                out
            }
        }
    }

    /// No fill value: what was never written is 0. Version 3.
    pub(super) fn fill_message(&self) -> Vec<u8> {
        let allocated = match self {
            Layout::Contiguous { .. } => 2,
            Layout::Chunked { .. } => 3,
        };
        vec![3, allocated | 2 << 2]
    }
}

/// Version 2; no axes mean a single value.
pub(super) fn dataspace(shape: &[usize]) -> Vec<u8> {
    let mut out = vec![2, shape.len() as u8, 0, u8::from(!shape.is_empty())];
    for &len in shape {
        out.extend((len as u64).to_le_bytes());
    }
    out
}

/// The type of pixels; bool and complex as h5py has them.
pub(super) fn datatype(dtype: DType) -> Vec<u8> {
    match dtype {
        DType::Bool => {
            let base = fixed(1, true);
            let mut out = head(0x38, [2, 0, 0], 1);
            out.extend(base);
            out.extend(b"FALSE\0TRUE\0\0\x01");
            out
        }
        DType::C64 | DType::C128 => {
            let part = if dtype == DType::C64 { DType::F32 } else { DType::F64 };
            let mut out = head(0x36, [2, 0, 0], dtype.size());
            for (name, offset) in [(b"r\0", 0), (b"i\0", part.size() as u8)] {
                out.extend(name);
                out.push(offset);
                out.extend(datatype(part));
            }
            out
        }
        // Exponent and mantissa.
        DType::F16 => float(2, 10, 5, 15),
        DType::F32 => float(4, 23, 8, 127),
        DType::F64 => float(8, 52, 11, 1023),
        integer => {
            let signed = matches!(integer, DType::I8 | DType::I16 | DType::I32 | DType::I64);
            fixed(integer.size(), signed)
        }
    }
}

/// Texts of any length in UTF-8, each kept elsewhere.
pub(super) fn text_type() -> Vec<u8> {
    let mut out = head(0x19, [1, 1, 0], 16);
    out.extend(head(0x13, [0x10, 0, 0], 1));
    out
}

fn head(class: u8, bits: [u8; 3], size: usize) -> Vec<u8> {
    let mut out = vec![class];
    out.extend(bits);
    out.extend((size as u32).to_le_bytes());
    out
}

fn big_endian() -> u8 {
    u8::from(ByteOrder::NATIVE == ByteOrder::Big)
}

fn fixed(size: usize, signed: bool) -> Vec<u8> {
    let mut out = head(0x10, [big_endian() | u8::from(signed) << 3, 0, 0], size);
    out.extend([0, 0]);
    out.extend((8 * size as u16).to_le_bytes());
    out
}

fn float(size: usize, mantissa: u8, exponent: u8, bias: u32) -> Vec<u8> {
    let sign = 8 * size as u8 - 1;
    let mut out = head(0x11, [big_endian() | 0x20, sign, 0], size);
    out.extend([0, 0]);
    out.extend((8 * size as u16).to_le_bytes());
    out.extend([mantissa, exponent, 0, mantissa]);
    out.extend(bias.to_le_bytes());
    out
}

/// A header of version 2 with these messages.
pub(super) fn object_header(messages: &[(u8, Vec<u8>)]) -> Result<Vec<u8>> {
    let mut body = Vec::new();
    for (kind, message) in messages {
        let len = u16::try_from(message.len())
            .map_err(|_| Error::limit("a name or list is too long for HDF5"))?;
        body.push(*kind);
        body.extend(len.to_le_bytes());
        body.push(0);
        body.extend_from_slice(message);
    }
    // Its length takes 4 bytes.
    let mut out = b"OHDR\x02\x02".to_vec();
    let len = u32::try_from(body.len()).map_err(|_| Error::limit("a group is too large"))?;
    out.extend(len.to_le_bytes());
    out.extend(body);
    out.extend(jenkins_lookup3(&out).to_le_bytes());
    Ok(out)
}

/// Version 2.
pub(super) fn superblock(root: u64, end: u64) -> Vec<u8> {
    let mut out = b"\x89HDF\r\n\x1a\n".to_vec();
    out.extend([2, 8, 8, 0]);
    for address in [0, NOWHERE, end, root] {
        out.extend(address.to_le_bytes());
    }
    out.extend(jenkins_lookup3(&out).to_le_bytes());
    out
}
