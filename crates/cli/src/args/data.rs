//! Options about the file: its format and what it does not say itself.

use super::parse;
use clap::{Args, ValueEnum};
use framefold::OpenOptions;
use framefold::core::StoredDType;
use framefold::io::{Backend, QuadGap};
use std::path::PathBuf;

/// What may be said about a file beyond its path.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Options about the file")]
pub(crate) struct DataArgs {
    /// The format; see 'framefold formats'
    #[arg(long, global = true, default_value = "auto", value_name = "NAME")]
    pub format: String,
    /// The scan shape, slowest axis first: 128,128
    #[arg(long, global = true, value_parser = parse::shape, value_name = "SHAPE")]
    pub nav_shape: Option<parse::Shape>,
    /// The shape of a frame: 256,256
    #[arg(long, global = true, value_parser = parse::shape, value_name = "SHAPE")]
    pub sig_shape: Option<parse::Shape>,
    /// The data set within a file that holds many: entry/data/data
    #[arg(long, global = true, value_name = "NAME")]
    pub ds_path: Option<String>,
    /// How many trailing axes of an array file make up a frame
    #[arg(long, global = true, value_name = "N")]
    pub sig_dims: Option<usize>,
    /// The dtype of the pixels, as NumPy names it: uint16, '>u2', float32
    #[arg(long, global = true, value_parser = parse::dtype, value_name = "DTYPE")]
    pub dtype: Option<StoredDType>,
    /// Scan position p shows frame p + N
    #[arg(
        long,
        global = true,
        default_value_t = 0,
        allow_negative_numbers = true,
        value_name = "N"
    )]
    pub sync_offset: i64,
    /// Bytes before the first frame of each file
    #[arg(long, global = true, default_value_t = 0, value_name = "BYTES")]
    pub file_header: u64,
    /// Bytes after the last frame of each file
    #[arg(long, global = true, default_value_t = 0, value_name = "BYTES")]
    pub file_footer: u64,
    /// Bytes before the pixels of each frame
    #[arg(long, global = true, default_value_t = 0, value_name = "BYTES")]
    pub frame_header: u64,
    /// Bytes after the pixels of each frame
    #[arg(long, global = true, default_value_t = 0, value_name = "BYTES")]
    pub frame_footer: u64,
    /// How bytes are brought into memory; 'buffered' is for network file systems
    #[arg(long, global = true, value_enum, default_value_t = BackendArg::Mmap)]
    pub backend: BackendArg,
    /// Read only the file that is named, not the other members of its set
    #[arg(long, global = true)]
    pub disable_glob: bool,
    /// What to do about the gap between the chips of a quad detector where the file has none
    #[arg(long, global = true, value_enum, default_value_t = QuadGapArg::Omit)]
    pub quad_gap: QuadGapArg,
    /// Leave out dark frames, gain maps and bad pixels that come with the file
    #[arg(long, global = true)]
    pub no_corrections: bool,
    /// A gain map, for formats that do not bring one
    #[arg(long, global = true, value_name = "FILE")]
    pub gain_map: Option<PathBuf>,
}

/// How bytes are brought into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackendArg {
    Mmap,
    Buffered,
}

/// What to do about the gap between chips.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum QuadGapArg {
    Omit,
    Insert,
}

impl DataArgs {
    /// The options for opening a file.
    pub(crate) fn open_options(&self) -> OpenOptions {
        OpenOptions {
            nav_shape: self.nav_shape.clone(),
            sig_shape: self.sig_shape.clone(),
            ds_path: self.ds_path.clone(),
            sig_dims: self.sig_dims,
            dtype: self.dtype,
            sync_offset: self.sync_offset,
            file_header: self.file_header,
            file_footer: self.file_footer,
            frame_header: self.frame_header,
            frame_footer: self.frame_footer,
            backend: match self.backend {
                BackendArg::Mmap => Backend::Mmap,
                BackendArg::Buffered => Backend::Buffered,
            },
            disable_glob: self.disable_glob,
            quad_gap: match self.quad_gap {
                QuadGapArg::Omit => QuadGap::Omit,
                QuadGapArg::Insert => QuadGap::Insert,
            },
            enable_corrections: self.no_corrections.then_some(false),
            gain_map_path: self.gain_map.clone(),
        }
    }
}
