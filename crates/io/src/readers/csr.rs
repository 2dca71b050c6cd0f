//! Frames as compressed sparse rows: three arrays, in files or in memory.
//!
//! | array | elements | content |
//! |---|---|---|
//! | row pointers | frames + 1 | frame k has entries from the k-th pointer up to the next one |
//! | columns | entries | the pixel of each entry, counted in C order of the frame |
//! | values | entries | the value of each entry; pixels without an entry are 0 |
//!
//! Each array has a dtype and byte order of its own. Columns of 4 bytes in the machine's byte order
//! are lent as they lie in memory, together with values that need no conversion, wherever they
//! ascend within each row. Everything else is converted into a buffer, tile by tile: rows are put
//! in order, and entries of the same pixel are added up. Opening looks at the lengths and at the
//! first and last pointer only; every pointer and column is checked whenever it is read.

mod array;
pub(in crate::readers) mod duplicates;
mod in_order;
mod reader;
mod rows;
mod select;
mod slice;
mod tiles;

use crate::access::Storage;
use crate::readers::linear::{frame_bytes, lies_as_in_a_tile};
use array::Array;
use framefold_core::{
    ArrayFormat, DType, DataSource, Error, FrameReader, MetadataList, Presence, Result, SourceInfo,
    StoredDType, checked_product,
};
use reader::CsrReader;
pub(crate) use select::{Selected, Threshold};
use std::ops::Range;
use std::path::PathBuf;
pub(crate) use tiles::Tiles;

/// One array: elements from the first byte of a storage to its last.
#[derive(Clone, Debug)]
pub struct CsrArray {
    /// Where they are.
    pub storage: Storage,
    /// Their dtype and byte order.
    pub stored: StoredDType,
}

/// All that makes a [`CsrSource`].
#[derive(Clone, Debug)]
pub struct CsrSpec {
    /// The format's short name.
    pub format: &'static str,
    /// Integers: where the entries of each frame begin, and where those of the last one end.
    pub row_pointers: CsrArray,
    /// Integers: the pixel of each entry.
    pub columns: CsrArray,
    /// The value of each entry.
    pub values: CsrArray,
    /// The file that names the arrays, if there is one.
    pub descriptor: Option<PathBuf>,
    /// The shape of a frame.
    pub sig_shape: Vec<usize>,
    /// The scan shape to suggest; `None` is one axis.
    pub nav_shape: Option<Vec<usize>>,
    /// What is known of the experiment.
    pub metadata: MetadataList,
    /// Meta data worth showing to a person.
    pub details: Vec<(String, String)>,
}

/// Frames as compressed sparse rows.
///
/// Readers give sparse tiles ([`FrameReader::read_csr`]), and dense ones to callers that want them.
#[derive(Debug)]
pub struct CsrSource {
    info: SourceInfo,
    row_pointers: Array,
    columns: Array,
    values: Array,
    /// Pixels of a frame; columns can count them.
    frame_len: u32,
    /// The entries that belong to frames.
    entries: Range<u64>,
    /// Whether columns and values can be lent as they lie in memory.
    lends: bool,
}

impl CsrSource {
    /// Checks the lengths of the arrays against each other. Takes the same time for all sizes.
    ///
    /// # Errors
    /// `BadFile` if an array ends within an element, there are not as many values as columns, or
    /// fewer than the last row pointer says; `InvalidArgument` if row pointers or columns are not
    /// integers, or the frame shape is unusable; `Limit` if 32 bits cannot count its pixels.
    pub fn try_new(spec: CsrSpec) -> Result<Self> {
        let format = spec.format;
        Self::build(spec).map_err(|error| error.with_format(format))
    }

    fn build(spec: CsrSpec) -> Result<Self> {
        let stored = spec.values.stored;
        frame_bytes(&spec.sig_shape, stored)?;
        let pixels = checked_product(&spec.sig_shape).and_then(|n| u32::try_from(n).ok());
        let frame_len = pixels.ok_or_else(|| {
            Error::limit(format!(
                "sparse frames of shape {:?} have more pixels than 32 bits can count",
                spec.sig_shape
            ))
        })?;
        let row_pointers = Array::integers("row pointers", spec.row_pointers)?;
        let columns = Array::integers("columns", spec.columns)?;
        let values = Array::try_new("values", spec.values)?;
        let entries = entries(&row_pointers, &columns, &values)?;
        let n_frames = row_pointers.len() - 1;
        let n_rows = usize::try_from(n_frames).map_err(|_| Error::limit("too many frames"))?;
        let as_u32 = match columns.stored().dtype {
            DType::U32 => true,
            // A negative column must not pass for one that a very large frame has.
            DType::I32 => i32::try_from(frame_len).is_ok(),
            _ => false,
        };
        let as_stored = as_u32 && columns.stored().is_native() && lies_as_in_a_tile(stored);
        let arrays = [&row_pointers, &columns, &values];
        let paths = arrays.into_iter().filter_map(|array| Some(array.storage().path()?.into()));
        let lends = as_stored && columns.storage().lends() && values.storage().lends();
        let info = SourceInfo {
            format: spec.format,
            paths: spec.descriptor.into_iter().chain(paths).collect(),
            n_frames,
            presence: Presence::All,
            base_shape: spec.sig_shape.clone(),
            sig_shape: spec.sig_shape,
            nav_shape: spec.nav_shape.unwrap_or_else(|| vec![n_rows]),
            dtype: stored,
            preferred_depth: 1,
            lends,
            metadata: spec.metadata,
            details: spec.details,
            warnings: surplus(&entries, columns.len()),
        };
        Ok(CsrSource { info, row_pointers, columns, values, frame_len, entries, lends })
    }

    /// Row pointers, columns and values, each with its dtype, where they are in memory.
    #[must_use]
    pub fn parts(&self) -> Option<[(StoredDType, &[u8]); 3]> {
        let [row_pointers, columns, values] =
            self.arrays().map(|array| Some((array.stored(), array.lent(0..array.len())?)));
        Some([row_pointers?, columns?, values?])
    }

    fn arrays(&self) -> [&Array; 3] {
        [&self.row_pointers, &self.columns, &self.values]
    }

    fn verify(&self) -> Result<()> {
        let verify = |array: &Array| array.storage().verify();
        self.arrays().into_iter().try_for_each(verify).map_err(|e| e.with_format(self.info.format))
    }
}

impl DataSource for CsrSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
        self.arrays().into_iter().try_for_each(|array| array.storage().prepare())?;
        Ok(Box::new(CsrReader::new(self)))
    }

    fn format(&self) -> ArrayFormat {
        ArrayFormat::Csr
    }

    fn stored_bytes(&self) -> Option<u64> {
        let n_entries = self.entries.end - self.entries.start;
        let per_entry = self.columns.size().checked_add(self.values.size())?;
        let pointers = self.row_pointers.len().checked_mul(self.row_pointers.size())?;
        n_entries.checked_mul(per_entry)?.checked_add(pointers)
    }
}

/// The entries that belong to frames, if all lengths agree.
fn entries(row_pointers: &Array, columns: &Array, values: &Array) -> Result<Range<u64>> {
    let n_pointers = row_pointers.len();
    let Some(last) = n_pointers.checked_sub(1).filter(|&last| last > 0) else {
        let message = format!(
            "there are {n_pointers} row pointers, but one more than there are frames is needed, \
             at least 2"
        );
        return Err(row_pointers.error(n_pointers, message));
    };
    let n_entries = columns.len();
    if values.len() != n_entries {
        let message = format!(
            "there are {} values for {n_entries} columns; each entry needs one of both",
            values.len()
        );
        let error = values.error(n_entries.min(values.len()), message);
        return Err(error.with_hint("check the dtypes, or copy the files again"));
    }
    let (first_entry, end) = (row_pointers.integer(0)?, row_pointers.integer(last)?);
    match (u64::try_from(first_entry), u64::try_from(end)) {
        (Ok(start), Ok(end)) if start <= end && end <= n_entries => Ok(start..end),
        _ => {
            let message = format!(
                "the first row pointer is {first_entry} and the last one {end}, but there are \
                 {n_entries} entries; 0 and {n_entries} were expected"
            );
            let hint = "check the dtype of the row pointers, or copy the files again";
            Err(row_pointers.error(last, message).with_hint(hint))
        }
    }
}

/// Entries that no frame claims are odd, but do no harm.
fn surplus(entries: &Range<u64>, n_entries: u64) -> Vec<String> {
    let n_surplus = n_entries - (entries.end - entries.start);
    if n_surplus == 0 {
        return Vec::new();
    }
    vec![format!(
        "{n_surplus} of {n_entries} entries belong to no frame and were left out (row pointers go \
         from {} to {})",
        entries.start, entries.end
    )]
}
