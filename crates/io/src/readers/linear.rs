//! The reader for every format whose frames are runs of bytes at a regular stride.
//!
//! A set of one or more storages, each holding the frames of a half-open interval. Pixels that
//! already lie as an array of the machine's own type are lent; all others go through a
//! [`FrameDecoder`] into a buffer that is used again from tile to tile.

mod copy;
mod decoder;
mod marks;
mod pieces;
mod reader;

pub(crate) use copy::{copy_pixels, normalise_in_place, swap_in_place};
pub use decoder::{FrameDecoder, PieceDecoder, PlainDecoder, Unit};
pub use marks::FrameMark;

use crate::access::Storage;
use framefold_core::{
    DType, DataSource, Error, FrameReader, MetadataList, Presence, Result, SourceInfo, StoredDType,
    checked_product,
};
use reader::LinearReader;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// The frames of one storage.
#[derive(Clone, Debug)]
pub struct LinearFile {
    /// Where they are.
    pub storage: Storage,
    /// Their numbers in the whole set; not empty.
    pub frames: Range<u64>,
    /// The offset of the first pixel byte of the first of them.
    pub first_pixel: u64,
    /// Bytes from one frame's first pixel to the next frame's.
    pub stride: u64,
}

/// How pixels become elements of a tile.
#[derive(Clone, Debug)]
pub enum Pixels {
    /// An array in C order.
    Plain {
        /// Its dtype and byte order.
        stored: StoredDType,
    },
    /// Anything else.
    Coded {
        /// Makes pixels out of bytes.
        decoder: Arc<dyn FrameDecoder>,
        /// The dtype of its pixels, and their byte order in the file where that means anything.
        stored: StoredDType,
    },
}

/// All that makes a [`LinearSource`].
#[derive(Clone, Debug)]
pub struct LinearSpec {
    /// The format's short name.
    pub format: &'static str,
    /// The files; their intervals are ascending and disjoint, with or without gaps in between.
    pub files: Vec<LinearFile>,
    /// How pixels are stored.
    pub pixels: Pixels,
    /// The shape of a frame.
    pub sig_shape: Vec<usize>,
    /// The scan shape that the file suggests.
    pub nav_shape: Vec<usize>,
    /// What the headers tell, by the names that all formats share.
    pub metadata: MetadataList,
    /// More that is worth showing to a person.
    pub details: Vec<(String, String)>,
    /// What is odd but not an error.
    pub warnings: Vec<String>,
}

/// Frames at a regular stride in one or several files, or in memory.
#[derive(Debug)]
pub struct LinearSource {
    info: SourceInfo,
    files: Vec<LinearFile>,
    decoder: Arc<dyn FrameDecoder>,
    /// Whether frames lie in the files as they lie in a tile.
    as_stored: bool,
    mark: Option<FrameMark>,
}

impl LinearSource {
    /// Checks that every frame lies within its file.
    ///
    /// The scan is laid out from frame 0: frames that no file holds are missing.
    ///
    /// # Errors
    /// `BadFile` if a file is too short for its frames, or two files claim the same frame;
    /// `InvalidArgument` if the frame shape is unusable; `Bug` if the decoder does not fit it.
    pub fn try_new(spec: LinearSpec) -> Result<Self> {
        let stored = match &spec.pixels {
            Pixels::Plain { stored, .. } | Pixels::Coded { stored, .. } => *stored,
        };
        let as_stored = match &spec.pixels {
            Pixels::Plain { stored } => lies_as_in_a_tile(*stored),
            Pixels::Coded { .. } => false,
        };
        // Proves that the frame's size fits in memory, which the decoder relies on.
        frame_bytes(&spec.sig_shape, stored)?;
        let decoder: Arc<dyn FrameDecoder> = match spec.pixels {
            Pixels::Plain { stored, .. } => Arc::new(PlainDecoder::new(stored, &spec.sig_shape)),
            Pixels::Coded { decoder, .. } => decoder,
        };
        let stored_len = u64::try_from(decoder.stored_len()).unwrap_or(u64::MAX);
        let mut end = 0;
        for file in &spec.files {
            check_file(file, stored_len, end)
                .map_err(|error| file.storage.locate(error.with_format(spec.format)))?;
            end = file.frames.end;
        }
        if end == 0 {
            return Err(Error::bug("a source without frames").with_format(spec.format));
        }
        let mut paths: Vec<PathBuf> =
            spec.files.iter().filter_map(|f| Some(f.storage.path()?.into())).collect();
        // A file can hold several runs of frames.
        paths.dedup();
        let info = SourceInfo {
            format: spec.format,
            paths,
            n_frames: end,
            presence: presence(&spec.files, end),
            base_shape: full_row(&spec.sig_shape),
            sig_shape: spec.sig_shape,
            nav_shape: spec.nav_shape,
            dtype: stored,
            preferred_depth: 1,
            lends: as_stored && spec.files.iter().all(|file| lies_aligned(file, stored.dtype)),
            metadata: spec.metadata,
            details: spec.details,
            warnings: spec.warnings,
        };
        Ok(LinearSource { info, files: spec.files, decoder, as_stored, mark: None })
    }

    /// The same source, each frame of which has to have this mark when it is read.
    pub fn with_mark(self, mark: FrameMark) -> Self {
        LinearSource { mark: Some(mark), ..self }
    }
}

/// Whether frames of a file lie where arrays of their dtype can lie. Memory has other addresses in
/// every process, which plans must not depend on: there it is seen when a tile is read.
fn lies_aligned(file: &LinearFile, dtype: DType) -> bool {
    if !file.storage.is_mapped() {
        return file.storage.lends();
    }
    let first = file.storage.bytes(file.first_pixel..file.first_pixel.saturating_add(1));
    let size = u64::try_from(dtype.size()).unwrap_or(u64::MAX);
    let single = file.frames.end - file.frames.start == 1;
    first.is_some_and(|bytes| (bytes.as_ptr() as usize).is_multiple_of(dtype.swap_size()))
        && (single || file.stride.is_multiple_of(size))
}

impl DataSource for LinearSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
        Ok(Box::new(LinearReader::try_new(self)?))
    }
}

/// Whether elements can be used where they lie. Truth values cannot: they may be other bytes than 0 and 1.
pub(crate) fn lies_as_in_a_tile(stored: StoredDType) -> bool {
    stored.is_native() && stored.dtype != framefold_core::DType::Bool
}

/// The smallest sensible tile of frames in C order: one row.
pub(crate) fn full_row(sig_shape: &[usize]) -> Vec<usize> {
    let mut base_shape = vec![1; sig_shape.len()];
    if let (Some(base), Some(width)) = (base_shape.last_mut(), sig_shape.last()) {
        *base = *width;
    }
    base_shape
}

/// The size of one frame of plain pixels.
///
/// # Errors
/// `InvalidArgument` if an axis is 0, there are none, or the size does not fit in memory.
pub(crate) fn frame_bytes(sig_shape: &[usize], stored: StoredDType) -> Result<u64> {
    if sig_shape.is_empty() || sig_shape.contains(&0) {
        return Err(Error::invalid(format!(
            "frames cannot have the shape {sig_shape:?}: at least one axis is needed, and each \
             must be at least 1 long"
        )));
    }
    checked_product(sig_shape)
        .and_then(|cells| cells.checked_mul(u64::try_from(stored.dtype.size()).ok()?))
        .filter(|&bytes| isize::try_from(bytes).is_ok())
        .ok_or_else(|| Error::invalid(format!("frames of shape {sig_shape:?} are too large")))
}

fn check_file(file: &LinearFile, stored_len: u64, previous_end: u64) -> Result<()> {
    let Range { start, end } = file.frames;
    if start >= end || (end - start > 1 && file.stride < stored_len) {
        return Err(Error::bug(format!(
            "frames {start}..{end} of {stored_len} bytes, {} bytes apart",
            file.stride
        )));
    }
    if start < previous_end {
        return Err(Error::bad_file(format!(
            "the file holds frames {start}..{end}, but another file of the set already holds \
             frame {start}"
        ))
        .with_hint("move files that do not belong to the set elsewhere"));
    }
    let last = (end - start - 1).checked_mul(file.stride);
    let needed = last
        .and_then(|last| last.checked_add(file.first_pixel))
        .and_then(|last| last.checked_add(stored_len));
    match needed {
        Some(needed) if needed <= file.storage.len() => Ok(()),
        _ => Err(Error::bad_file(format!(
            "{} frames of {stored_len} bytes do not fit into {} bytes",
            end - start,
            file.storage.len()
        ))
        .with_hint("the file is truncated, or not what it claims to be")),
    }
}

/// The frames that some file holds, joined where they touch.
fn presence(files: &[LinearFile], n_frames: u64) -> Presence {
    let mut ranges: Vec<Range<u64>> = Vec::new();
    for file in files {
        match ranges.last_mut() {
            Some(last) if last.end == file.frames.start => last.end = file.frames.end,
            _ => ranges.push(file.frames.clone()),
        }
    }
    match ranges.as_slice() {
        [all] if *all == (0..n_frames) => Presence::All,
        _ => Presence::Ranges(ranges),
    }
}
