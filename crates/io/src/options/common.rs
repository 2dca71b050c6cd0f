//! Options that several formats take.

use super::{OptionKind, OptionSpec};

pub(crate) const NAV_SHAPE: OptionSpec =
    OptionSpec::new("nav_shape", OptionKind::Shape, "The scan shape, slowest axis first: 128,128");

pub(crate) const SIG_SHAPE: OptionSpec =
    OptionSpec::new("sig_shape", OptionKind::Shape, "The shape of a frame: 256,256");

pub(crate) const SYNC_OFFSET: OptionSpec = OptionSpec::new(
    "sync_offset",
    OptionKind::Integer,
    "Scan position p shows frame p + N; by default as the file says, or 0",
)
.with_unit("frames");

pub(crate) const IO_BACKEND: OptionSpec = OptionSpec::new(
    "io_backend",
    OptionKind::Choice(&["mmap", "buffered"]),
    "How bytes are brought into memory; 'buffered' is for network file systems",
)
.with_default("mmap")
.with_flag("backend");

/// The command line has `--stack` instead.
pub(crate) const FILES: OptionSpec = OptionSpec::new(
    "files",
    OptionKind::Paths,
    "The files of a stack, in the order of their frames; in the place of a path",
);

pub(crate) const DS_PATH: OptionSpec = OptionSpec::new(
    "ds_path",
    OptionKind::Text,
    "The data set within a file that holds many: entry/data/data",
);

pub(crate) const SIG_DIMS: OptionSpec = OptionSpec::new(
    "sig_dims",
    OptionKind::Count,
    "How many trailing axes of an array file make up a frame",
)
.with_unit("axes");

pub(crate) const DTYPE: OptionSpec = OptionSpec::new(
    "dtype",
    OptionKind::DType,
    "The dtype of the pixels, as NumPy names it: uint16, '>u2', float32",
);

pub(crate) const DISABLE_GLOB: OptionSpec = OptionSpec::new(
    "disable_glob",
    OptionKind::Flag,
    "Read only the file that is named, not the other members of its set",
);

pub(crate) const ENABLE_CORRECTIONS: OptionSpec = OptionSpec::new(
    "enable_corrections",
    OptionKind::Switch {
        off: "Leave out dark frames, gain maps and bad pixels that come with the file",
    },
    "Apply what comes with the file: dark frames, gain maps, bad pixels; done by default, but for \
     the pixel masks of a DECTRIS detector",
)
.with_flag("corrections")
// The reference's name, which it has for FRMS6 alone.
.with_alias("enable_offset_correction");

pub(crate) const DATASET_INDEX: OptionSpec = OptionSpec::new(
    "dataset_index",
    OptionKind::Count,
    "Which of several data sets in a file to read, counted from 0",
);

pub(crate) const ALLOW_EXTERNAL_LINKS: OptionSpec = OptionSpec::new(
    "allow_external_links",
    OptionKind::Flag,
    "Follow links to files outside of the folder; only for files that are trusted",
);
