//! Options about the file: its format and what it does not say itself.

use super::parse;
use clap::{Args, ValueEnum};
use framefold::OpenOptions;
use framefold::core::{ByteOrder, StoredDType};
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
    /// Scan position p shows frame p + N [default: as the file says, or 0]
    #[arg(long, global = true, allow_negative_numbers = true, value_name = "N")]
    pub sync_offset: Option<i64>,
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
    /// Repair the pixels that a DECTRIS detector's own mask marks as bad
    #[arg(long, global = true, conflicts_with = "no_corrections")]
    pub corrections: bool,
    /// Leave out dark frames, gain maps and bad pixels that come with the file
    #[arg(long, global = true)]
    pub no_corrections: bool,
    /// The byte order of a file that does not say so itself
    #[arg(long, global = true, value_enum, value_name = "ORDER")]
    pub byte_order: Option<ByteOrderArg>,
    /// A gain map, for formats that do not bring one
    #[arg(long, global = true, value_name = "FILE")]
    pub gain_map: Option<PathBuf>,
    /// Read all files that are named as one stack, in the order in which they are named
    #[arg(long, global = true)]
    pub stack: bool,
    /// Take the pixels of all files of a stack to begin where those of the first one do
    #[arg(long, global = true)]
    pub same_offset: bool,
    /// Take axes to be in the order scan, detector, whatever the file says or leaves open
    #[arg(long, global = true)]
    pub force_c_order: bool,
    /// Which of several data sets in a file to read, counted from 0
    #[arg(long, global = true, value_name = "N")]
    pub dataset_index: Option<usize>,
    /// The file of meta data that belongs to a series, where it is not named like it
    #[arg(long, global = true, value_name = "FILE")]
    pub emipath: Option<PathBuf>,
    /// Follow links to files outside of the folder; only for files that are trusted
    #[arg(long, global = true)]
    pub allow_external_links: bool,
}

/// How bytes are brought into memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum BackendArg {
    Mmap,
    Buffered,
}

/// Which byte of a number comes first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ByteOrderArg {
    Little,
    Big,
}

/// What to do about the gap between chips.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum QuadGapArg {
    Omit,
    Insert,
}

impl DataArgs {
    /// What to open: each file by itself, or the first one with all the others.
    pub(crate) fn inputs<'f>(&self, files: &'f [PathBuf]) -> &'f [PathBuf] {
        if self.stack { files.get(..1).unwrap_or(files) } else { files }
    }

    /// The options for opening one of `files`.
    pub(crate) fn open_options(&self, files: &[PathBuf]) -> OpenOptions {
        OpenOptions {
            nav_shape: self.nav_shape.clone(),
            sig_shape: self.sig_shape.clone(),
            ds_path: self.ds_path.clone(),
            sig_dims: self.sig_dims,
            dtype: self.dtype,
            sync_offset: self.sync_offset.unwrap_or(0),
            fixed_sync: self.sync_offset.is_some(),
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
            enable_corrections: match (self.corrections, self.no_corrections) {
                (true, _) => Some(true),
                (_, true) => Some(false),
                _ => None,
            },
            byte_order: self.byte_order.map(|order| match order {
                ByteOrderArg::Little => ByteOrder::Little,
                ByteOrderArg::Big => ByteOrder::Big,
            }),
            gain_map_path: self.gain_map.clone(),
            files: if self.stack { files.to_vec() } else { Vec::new() },
            same_offset: self.same_offset,
            force_c_order: self.force_c_order,
            dataset_index: self.dataset_index,
            emipath: self.emipath.clone(),
            allow_external_links: self.allow_external_links,
        }
    }
}
