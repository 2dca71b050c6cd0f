//! What is written, and how.

use crate::codec::Step;
use framefold_core::{DType, Error, Result, Roi};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The formats of whole arrays that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteFormat {
    /// NumPy's `.npy`: pixels one after the other.
    Npy,
    /// Zarr: a folder of files with compressed chunks.
    Zarr,
    /// HDF5, with the array `/data`.
    Hdf5,
    /// HDF5 as HyperSpy writes it.
    Hspy,
    /// Zarr as HyperSpy writes it: groups around an array of version 2.
    Zspy,
}

/// Versions of Zarr.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ZarrVersion {
    /// A file for each chunk. Programs from before 2025 read it.
    V2,
    /// Files hold many chunks each.
    V3,
}

impl ZarrVersion {
    /// The version of that number.
    ///
    /// # Errors
    /// `InvalidArgument` if it is neither 2 nor 3.
    pub fn of_number(number: u32) -> Result<Self> {
        match number {
            2 => Ok(ZarrVersion::V2),
            3 => Ok(ZarrVersion::V3),
            other => {
                Err(Error::invalid(format!("Zarr has no version {other} that can be written"))
                    .with_hint("choose 2 or 3"))
            }
        }
    }
}

impl WriteFormat {
    /// All of them with the endings of their names; the first one is the usual one.
    pub const ALL: &[(WriteFormat, &[&str])] = &[
        (WriteFormat::Npy, &["npy"]),
        (WriteFormat::Zarr, &["zarr"]),
        (WriteFormat::Hdf5, &["h5", "hdf5"]),
        (WriteFormat::Hspy, &["hspy"]),
        (WriteFormat::Zspy, &["zspy"]),
    ];

    /// The format that a name's ending means, if it means one.
    pub fn of_path(path: &Path) -> Option<Self> {
        let ending = path.extension()?.to_str()?.to_ascii_lowercase();
        let known = WriteFormat::ALL.iter().find(|(_, endings)| endings.contains(&ending.as_str()));
        known.map(|(format, _)| *format)
    }

    /// The name: `zarr`.
    pub fn name(self) -> &'static str {
        match self {
            WriteFormat::Npy => "npy",
            WriteFormat::Zarr => "zarr",
            WriteFormat::Hdf5 => "hdf5",
            WriteFormat::Hspy => "hspy",
            WriteFormat::Zspy => "zspy",
        }
    }

    /// Whether HyperSpy is to read it.
    pub(super) fn is_hyperspy(self) -> bool {
        matches!(self, WriteFormat::Hspy | WriteFormat::Zspy)
    }

    /// Whether it is a folder of chunks.
    pub(super) fn is_zarr(self) -> bool {
        matches!(self, WriteFormat::Zarr | WriteFormat::Zspy)
    }

    /// The reader of what is written.
    pub(super) fn reader(self) -> &'static str {
        match self {
            WriteFormat::Npy => "npy",
            WriteFormat::Zarr | WriteFormat::Zspy => "zarr",
            WriteFormat::Hdf5 | WriteFormat::Hspy => "hdf5",
        }
    }
}

/// How chunks are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compression {
    /// Not at all.
    None,
    /// gzip; in HDF5 after a shuffle. Every program reads it.
    Gzip,
    /// Zstandard; in HDF5 after a shuffle.
    Zstd,
    /// Shuffled bits and Zstandard, in a frame of Blosc.
    Blosc,
    /// Shuffled bits and LZ4.
    Bitshuffle,
}

impl Compression {
    /// All of them, by name.
    pub const ALL: &[(&str, Compression)] = &[
        ("none", Compression::None),
        ("gzip", Compression::Gzip),
        ("zstd", Compression::Zstd),
        ("blosc", Compression::Blosc),
        ("bitshuffle", Compression::Bitshuffle),
    ];

    /// What is done to a chunk of elements of `size` bytes.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no such level.
    pub(super) fn steps(
        self,
        level: Option<i32>,
        format: WriteFormat,
        size: usize,
    ) -> Result<Vec<Step>> {
        let range = match self {
            Compression::None | Compression::Bitshuffle => 0..=0,
            Compression::Gzip => 1..=9,
            Compression::Zstd | Compression::Blosc => 1..=19,
        };
        if let Some(level) = level.filter(|level| !range.contains(level)) {
            let name = Compression::ALL.iter().find(|(_, known)| *known == self);
            let name = match self {
                Compression::None => "data that is not compressed",
                _ => name.map_or("the compression", |(name, _)| name),
            };
            let error = Error::invalid(format!("{name} has no level {level}"));
            return Err(error.with_hint(match range.end() {
                0 => "leave the level out".to_owned(),
                end => format!("choose a level from 1 to {end}"),
            }));
        }
        let level = level.unwrap_or(1);
        let hdf5 = !format.is_zarr();
        Ok(match self {
            Compression::None => vec![],
            Compression::Gzip if hdf5 => vec![Step::Shuffle(size), Step::Deflate(level)],
            Compression::Gzip => vec![Step::Gzip(level)],
            Compression::Zstd if hdf5 => vec![Step::Shuffle(size), Step::Zstd(level)],
            Compression::Zstd => vec![Step::Zstd(level)],
            Compression::Blosc => vec![Step::Blosc { size, zstd: Some(level) }],
            Compression::Bitshuffle if hdf5 => vec![Step::Bitshuffle(size)],
            Compression::Bitshuffle => vec![Step::Blosc { size, zstd: None }],
        })
    }
}

/// How a data set is written.
#[derive(Clone, Debug, Default)]
pub struct WriteOptions {
    /// The format; by default, the one that the ending of the name means.
    pub format: Option<WriteFormat>,
    /// The version of Zarr; by default 3, and 2 as HyperSpy has it.
    pub zarr_format: Option<ZarrVersion>,
    /// The shape of a chunk, on all axes, those of the scan first; by default, one that serves
    /// frames as well as single pixels of all positions; larger ones for HyperSpy and for version 2 of
    /// Zarr.
    pub chunks: Option<Vec<usize>>,
    /// How chunks are compressed. By default, Blosc in Zarr, and gzip in HDF5.
    pub compression: Option<Compression>,
    /// How much trouble the compressor takes; 1 by default.
    pub level: Option<i32>,
    /// The dtype that is written; by default, that of the pixels.
    pub dtype: Option<DType>,
    /// Whether values may be rounded to that dtype, towards zero to integers. Values that are beyond its
    /// range then are refused anyway.
    pub lossy: bool,
    /// The positions that are written; by default, all.
    pub roi: Option<Arc<Roi>>,
    /// Whether output that exists is replaced.
    pub force: bool,
    /// Whether nothing is read back.
    pub unverified: bool,
    /// How many threads work; by default, one for each core.
    pub threads: Option<NonZeroUsize>,
    /// In whose orientation frames are written; by default in HyperSpy's where the format is its own
    /// and the frames are not turned already, and as the data set has them otherwise.
    pub orientation: Option<WriteOrientation>,
}

/// Which way rows and columns of the frames that are written run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriteOrientation {
    /// As those of the data set do.
    Framefold,
    /// As HyperSpy shows them of the file that the data set was opened from.
    Hyperspy,
}

impl WriteOrientation {
    /// Both, by name.
    pub const ALL: &[(&str, WriteOrientation)] =
        &[("framefold", WriteOrientation::Framefold), ("hyperspy", WriteOrientation::Hyperspy)];
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Written {
    /// The file or folder.
    pub path: PathBuf,
    /// Axes of the scan.
    pub nav_shape: Vec<usize>,
    /// Axes of a frame.
    pub sig_shape: Vec<usize>,
    /// The dtype of the pixels.
    pub dtype: DType,
    /// The shape of a chunk, if there are chunks.
    pub chunks: Option<Vec<usize>>,
    /// Positions that are written.
    pub n_frames: u64,
    /// Those of them that have no data, and are filled: with NaN, or with 0 where there is none.
    pub n_missing: u64,
    /// The size of the output.
    pub len_bytes: u64,
    /// Whether everything was read back and compared.
    pub verified: bool,
    /// How frames were turned for HyperSpy: `flip y`; `None` if they are as the data set has them.
    pub turned: Option<String>,
}

impl Written {
    /// What positions without data are made of: `NaN` or `0`.
    pub fn fill(&self) -> &'static str {
        if self.dtype.is_float() || self.dtype.is_complex() { "NaN" } else { "0" }
    }
}
