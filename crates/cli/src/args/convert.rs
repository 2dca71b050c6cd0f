//! Options about writing data in another format.

use super::{DataArgs, parse};
use clap::{Args, ValueEnum};
use framefold::core::StoredDType;
use framefold::io::{Compression, WriteFormat, WriteOrientation};
use std::num::NonZeroUsize;
use std::path::PathBuf;

/// `framefold convert`.
#[derive(Debug, Args)]
pub(crate) struct ConvertArgs {
    /// The file to read
    #[arg(value_name = "IN")]
    pub input: PathBuf,
    /// The file or folder to write: NAME.npy, NAME.zarr, NAME.h5, NAME.hspy, NAME.zspy or
    /// NAME.toml (sparse; the arrays NAME.indptr, NAME.indices and NAME.data appear beside it)
    #[arg(value_name = "OUT")]
    pub output: PathBuf,
    /// The format to write [default: what the ending of OUT means]
    #[arg(long, value_enum, value_name = "FORMAT")]
    pub to: Option<ConvertTo>,
    /// The version of Zarr [default: 3]; version 2 has a file for each chunk
    #[arg(long, value_parser = clap::value_parser!(u32), value_name = "2|3")]
    pub zarr_format: Option<u32>,
    /// Write these scan positions only: 'a:b,c:d', '::2', several joined by ';', or a mask in an NPY
    /// file
    #[arg(short, long, allow_hyphen_values = true, value_name = "ROI")]
    pub roi: Option<String>,
    /// The shape of a chunk on all axes, those of the scan first: 1,32,64,64
    #[arg(long, value_parser = parse::shape, value_name = "SHAPE")]
    pub chunks: Option<parse::Shape>,
    /// How chunks are compressed [default: blosc in Zarr, gzip in HDF5]
    #[arg(long, value_enum, value_name = "NAME")]
    pub compression: Option<CompressionArg>,
    /// How much trouble the compressor takes, from 1 [default: 1]
    #[arg(long, value_name = "N")]
    pub level: Option<i32>,
    /// The dtype to write [default: that of the pixels]; values that it cannot hold are an error
    #[arg(long, value_parser = parse::dtype, value_name = "DTYPE")]
    pub to_dtype: Option<StoredDType>,
    /// Allow values to be rounded to the dtype of '--to-dtype'
    #[arg(long)]
    pub lossy: bool,
    /// Do not read back and compare what was written
    #[arg(long)]
    pub no_verify: bool,
    /// Work on N threads [default: one for each core]
    #[arg(short = 'j', long, value_parser = parse::count, value_name = "N")]
    pub threads: Option<NonZeroUsize>,
    /// In whose orientation frames are written: as HyperSpy shows those of IN, or as framefold does
    /// [default: hyperspy for .hspy and .zspy unless '--flip' or '--transpose' are given, else framefold]
    #[arg(long, value_enum, value_name = "WHOSE")]
    pub orientation: Option<OrientationArg>,
    /// Sparse files: keep pixels above X, which is 0 or more, and NaN [default: all that are not 0]
    #[arg(long, allow_negative_numbers = true, value_name = "X")]
    pub threshold: Option<f64>,
    /// Replace the output if it exists
    #[arg(short, long)]
    pub force: bool,
    /// Print one JSON object that sums up what was written
    #[arg(long)]
    pub json: bool,
    /// Print errors only: no progress, no warnings, no summary
    #[arg(short, long)]
    pub quiet: bool,
    #[command(flatten)]
    pub data: DataArgs,
}

/// Formats that can be written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ConvertTo {
    /// One array of NumPy
    Npy,
    /// Zarr: a folder of compressed chunks
    Zarr,
    /// HDF5, with the array in /data
    Hdf5,
    /// HDF5 as HyperSpy opens it
    Hspy,
    /// Zarr as HyperSpy opens it
    Zspy,
    /// Sparse frames: a TOML file and three arrays
    #[value(name = "raw_csr")]
    RawCsr,
}

/// In whose orientation frames are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum OrientationArg {
    /// Rows and columns as framefold has them
    Framefold,
    /// Rows and columns as HyperSpy shows those of the same file
    Hyperspy,
}

impl From<OrientationArg> for WriteOrientation {
    fn from(argument: OrientationArg) -> Self {
        match argument {
            OrientationArg::Framefold => WriteOrientation::Framefold,
            OrientationArg::Hyperspy => WriteOrientation::Hyperspy,
        }
    }
}

/// How chunks are compressed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum CompressionArg {
    /// Not at all
    None,
    /// gzip, which every program reads
    Gzip,
    /// Zstandard
    Zstd,
    /// Shuffled bits and Zstandard, in a frame of Blosc
    Blosc,
    /// Shuffled bits and LZ4
    Bitshuffle,
}

impl ConvertTo {
    /// The format of whole arrays, if it is one.
    pub(crate) fn array(self) -> Option<WriteFormat> {
        match self {
            ConvertTo::Npy => Some(WriteFormat::Npy),
            ConvertTo::Zarr => Some(WriteFormat::Zarr),
            ConvertTo::Hdf5 => Some(WriteFormat::Hdf5),
            ConvertTo::Hspy => Some(WriteFormat::Hspy),
            ConvertTo::Zspy => Some(WriteFormat::Zspy),
            ConvertTo::RawCsr => None,
        }
    }
}

impl From<CompressionArg> for Compression {
    fn from(argument: CompressionArg) -> Self {
        match argument {
            CompressionArg::None => Compression::None,
            CompressionArg::Gzip => Compression::Gzip,
            CompressionArg::Zstd => Compression::Zstd,
            CompressionArg::Blosc => Compression::Blosc,
            CompressionArg::Bitshuffle => Compression::Bitshuffle,
        }
    }
}
