//! Writes any data set as compressed sparse rows: a descriptor and three arrays.
//!
//! Frames are read tile by tile and their entries appended, so that memory does not grow with the
//! data. All files are written under other names, and renamed when they are complete: the
//! descriptor, without which the arrays are nothing, comes last.

mod files;

use crate::formats::raw_csr::descriptor_text;
use crate::readers::csr::{Selected, Threshold, Tiles};
use files::{Output, Outputs};
use framefold_core::{DType, Dataset, Error, Result, StoredDType};
use std::path::{Path, PathBuf};

/// How frames are written as sparse rows.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct CsrWriteOptions {
    /// Pixels above it are kept, and NaN; all others become 0. It must not be negative, so that
    /// pixels below 0 are not kept either. `None` keeps all pixels that are not 0, whatever their
    /// sign, and loses nothing.
    pub threshold: Option<f64>,
    /// Whether files that exist are replaced.
    pub force: bool,
    /// Files that were read besides those of the data set, such as corrections: they are not replaced.
    pub inputs: Vec<PathBuf>,
}

/// What was written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsrWritten {
    /// The descriptor, row pointers, columns and values.
    pub paths: Vec<PathBuf>,
    /// The number of frames.
    pub n_frames: u64,
    /// The number of pixels that were kept.
    pub n_entries: u64,
    /// The size of the three arrays.
    pub len_bytes: u64,
}

/// Writes `dataset` in the format `raw_csr`: the descriptor `path`, and beside it three arrays
/// whose names begin with its name, without extension.
///
/// Row pointers are written as int64, columns as int32, values in the dtype of the data set's
/// pixels, all in native byte order. Corrections are applied. Scan positions at the end that have
/// no data are left out, so that they have none when the file is read, either.
///
/// `progress` is called with the number of frames done, at the beginning, after every few MiB of
/// pixels, and at the end. It may return an error ([`Error::cancelled`], say): writing then stops,
/// and no file is left.
///
/// # Errors
/// `InvalidArgument` if an output exists and is not to be replaced, or is one of the inputs; if
/// the threshold is negative or not finite, or no position has data; `Unsupported` if positions
/// without data lie elsewhere than at the end, or the pixels are complex and there is a threshold;
/// `Limit` if int32 cannot count the pixels of a frame; `Io`; those of the source; and those of
/// `progress`.
pub fn write_raw_csr(
    dataset: &Dataset,
    path: impl AsRef<Path>,
    options: &CsrWriteOptions,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<CsrWritten> {
    let (shape, dtype) = (dataset.shape(), dataset.pixel_dtype());
    let threshold = Threshold::try_new(options.threshold, dtype)?;
    if i32::try_from(shape.frame_len()).is_err() {
        return Err(Error::limit(format!(
            "frames of {} pixels are too large for columns of int32",
            shape.frame_len()
        )));
    }
    let mut tiles = Tiles::try_new(dataset)?;
    let inputs = [dataset.inputs(), options.inputs.clone()].concat();
    let outputs = Outputs::try_new(path.as_ref(), options.force, &inputs)?;
    let names = outputs.array_names()?;
    // First of all, so that one of two that write the same has to stop.
    let mut descriptor = outputs.create(Outputs::DESCRIPTOR)?;
    let mut arrays = Arrays {
        pointers: outputs.create(Outputs::ROW_POINTERS)?,
        columns: outputs.create(Outputs::COLUMNS)?,
        values: outputs.create(Outputs::VALUES)?,
        n_frames: 0,
        n_entries: 0,
    };
    arrays.pointers.append(&0i64.to_ne_bytes())?;
    progress(0)?;
    let mut selected = Selected::default();
    while tiles.next(&mut |tile| selected.take(tile, threshold))? {
        arrays.append(&selected)?;
        progress(arrays.n_frames)?;
    }
    let (n_frames, n_entries) = (arrays.n_frames, arrays.n_entries);
    let len_bytes = arrays.complete(dtype)?;

    let stored = [DType::I64, DType::I32, dtype].map(StoredDType::native);
    let text = descriptor_text(shape, names, stored, dataset.metadata());
    descriptor.append(text.as_bytes())?;
    descriptor.complete(text.len() as u64)?;
    // The last chance to stop: from here on, files appear.
    progress(n_frames)?;
    let paths = outputs.publish(descriptor, [arrays.pointers, arrays.columns, arrays.values])?;
    Ok(CsrWritten { paths, n_frames, n_entries, len_bytes })
}

/// The three arrays while they grow.
struct Arrays {
    pointers: Output,
    columns: Output,
    values: Output,
    n_frames: u64,
    n_entries: u64,
}

impl Arrays {
    fn append(&mut self, selected: &Selected) -> Result<()> {
        for &n_in_row in selected.row_lens() {
            self.n_entries += n_in_row as u64;
            self.n_frames += 1;
            self.pointers.append(&self.n_entries.to_ne_bytes())?;
        }
        self.columns.append(bytemuck::cast_slice(selected.columns()))?;
        self.values.append(selected.values())
    }

    /// Brings everything to the disk, and holds the lengths of the files against what was counted;
    /// gives their sum.
    fn complete(&mut self, dtype: DType) -> Result<u64> {
        let (pointers, columns) = (8 * (self.n_frames + 1), 4 * self.n_entries);
        let values = dtype.size() as u64 * self.n_entries;
        self.pointers.complete(pointers)?;
        self.columns.complete(columns)?;
        self.values.complete(values)?;
        Ok(pointers + columns + values)
    }
}
