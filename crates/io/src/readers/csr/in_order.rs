//! Sparse rows in memory that every reader can lend: in order, without duplicates.

use super::array::to_u64;
use super::reader::check_columns;
use super::rows::Rows;
use super::select::{Selected, Threshold};
use super::tiles::Tiles;
use super::{CsrArray, CsrSource, CsrSpec};
use crate::access::{SharedBytes, Storage};
use framefold_core::{
    CsrTile, DType, DataSource, Dataset, Error, FrameIndices, Result, StoredDType, TypedSlice,
    interrupt,
};
use std::ops::Range;
use std::sync::Arc;

/// About how many entries are looked at together.
const CHUNK: u64 = 1 << 20;

impl CsrSource {
    /// Checks every row pointer and every column, and gives a source whose rows are in order and
    /// hold each pixel once: this one, or a copy.
    ///
    /// Columns that do not have 4 bytes are copied without the values; values only if rows are out
    /// of order or have several entries of a pixel, which are added up. Takes time in proportion
    /// to the entries. What is copied has no path and no offset in a file any more.
    ///
    /// # Errors
    /// `BadFile` if row pointers fall, columns leave the frame, or integers of one pixel add up to
    /// more than their dtype holds.
    pub fn in_order(self: Arc<Self>) -> Result<Arc<Self>> {
        let format = self.info.format;
        let found = self.survey().map_err(|error| error.with_format(format))?;
        match found {
            Found::InOrder => Ok(self),
            Found::Narrowed(columns) => {
                let columns = shared(Elements(columns), DType::U32);
                Ok(Arc::new(CsrSource::try_new(CsrSpec { columns, ..self.spec() })?))
            }
            Found::OutOfOrder => {
                let frames: Arc<dyn DataSource> = self;
                Ok(Arc::new(CsrSource::from_frames(frames)?))
            }
        }
    }

    /// The frames of another source as sparse rows in memory: all pixels that are not 0.
    ///
    /// # Errors
    /// Those of the source; `Limit` if 32 bits cannot count the pixels of a frame.
    pub fn from_frames(source: Arc<dyn DataSource>) -> Result<Self> {
        let info = source.info();
        let dtype = info.dtype.dtype;
        let (format, sig_shape) = (info.format, info.sig_shape.clone());
        let (nav_shape, metadata) = (info.nav_shape.clone(), info.metadata.clone());
        let n_frames =
            usize::try_from(info.n_frames).map_err(|_| Error::limit("too many frames"))?;
        let frames = Dataset::try_new(source, Some(&[n_frames]), 0)?;
        let mut pointers = vec![0u64];
        let (mut columns, mut values) = (Vec::<i32>::new(), Bytes::default());
        let mut tiles = Tiles::try_new(&frames)?;
        let mut selected = Selected::default();
        while tiles.next(&mut |tile| selected.take(tile, Threshold::NotZero))? {
            let mut end = to_u64(columns.len());
            pointers.extend(selected.row_lens().iter().map(|&n| {
                end += to_u64(n);
                end
            }));
            columns.extend_from_slice(selected.columns());
            values.append(selected.values());
        }
        CsrSource::try_new(CsrSpec {
            format,
            row_pointers: shared(Elements(pointers), DType::U64),
            // Columns are written as they are: those of large frames are negative as i32.
            columns: shared(Elements(columns), DType::U32),
            values: shared(values, dtype),
            descriptor: None,
            sig_shape,
            nav_shape: Some(nav_shape),
            metadata,
            details: vec![("array format".into(), "compressed sparse rows".into())],
        })
    }

    /// Looks at every row.
    fn survey(&self) -> Result<Found> {
        let usable =
            self.columns.stored().is_native() && self.columns.size() == 4 && self.aligned();
        let mut narrowed = (!usable).then(Vec::new);
        let len = usize::try_from(self.frame_len).unwrap_or(usize::MAX);
        let mut rows = Rows::default();
        let (mut columns, mut buffer) = (Vec::new(), Vec::new());
        let mut in_order = true;
        for frames in self.chunks() {
            interrupt::check()?;
            rows.read(self, &FrameIndices::Run(frames))?;
            columns.resize(rows.n_entries(), 0);
            for run in rows.runs() {
                let first = run.entries.start;
                self.columns.read_integers(first, &mut columns, u32::MAX, &mut buffer)?;
            }
            check_columns(self, &rows, &columns)?;
            let as_values = TypedSlice::U32(&columns);
            in_order &= CsrTile::try_new(rows.starts(), &columns, as_values, len).is_ok();
            if let Some(narrowed) = narrowed.as_mut().filter(|_| in_order) {
                narrowed.extend_from_slice(&columns);
            }
        }
        Ok(match narrowed {
            _ if !in_order => Found::OutOfOrder,
            // A new array of columns has to fit the pointers and values as they are.
            Some(columns) if self.entries == (0..self.columns.len()) => Found::Narrowed(columns),
            Some(_) => Found::OutOfOrder,
            None => Found::InOrder,
        })
    }

    /// All frames, so many at a time that they have a fair number of entries.
    fn chunks(&self) -> impl Iterator<Item = Range<u64>> {
        let n_frames = self.info.n_frames;
        let per_frame = ((self.entries.end - self.entries.start) / n_frames.max(1)).max(1);
        let depth = (CHUNK / per_frame).max(1);
        let firsts = (0..n_frames.div_ceil(depth)).map(move |i| i * depth);
        firsts.map(move |first| first..n_frames.min(first.saturating_add(depth)))
    }

    /// Whether columns lie where numbers of 4 bytes can.
    fn aligned(&self) -> bool {
        let columns = self.columns.lent(0..self.columns.len());
        columns.is_some_and(|bytes| {
            bytes.is_empty() || bytemuck::try_cast_slice::<u8, u32>(bytes).is_ok()
        })
    }

    /// What this source was made of.
    fn spec(&self) -> CsrSpec {
        let array = |array: &super::Array| CsrArray {
            storage: array.storage().clone(),
            stored: array.stored(),
        };
        CsrSpec {
            format: self.info.format,
            row_pointers: array(&self.row_pointers),
            columns: array(&self.columns),
            values: array(&self.values),
            descriptor: None,
            sig_shape: self.info.sig_shape.clone(),
            nav_shape: Some(self.info.nav_shape.clone()),
            metadata: self.info.metadata.clone(),
            details: self.info.details.clone(),
        }
    }
}

/// What the rows are like.
enum Found {
    /// They can stay as they are.
    InOrder,
    /// They are in order; these are their columns, in 4 bytes each.
    Narrowed(Vec<u32>),
    /// Some are not in order, or hold a pixel twice.
    OutOfOrder,
}

fn shared(bytes: impl SharedBytes + 'static, dtype: DType) -> CsrArray {
    CsrArray { storage: Storage::shared(Arc::new(bytes)), stored: StoredDType::native(dtype) }
}

/// Numbers as bytes.
struct Elements<T>(Vec<T>);

impl<T: bytemuck::NoUninit + Send + Sync> SharedBytes for Elements<T> {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.0)
    }
}

/// Values of any dtype, aligned for the largest.
#[derive(Default)]
struct Bytes {
    words: Vec<u128>,
    len: usize,
}

impl Bytes {
    fn append(&mut self, bytes: &[u8]) {
        let end = self.len + bytes.len();
        self.words.resize(end.div_ceil(size_of::<u128>()), 0);
        let all: &mut [u8] = bytemuck::cast_slice_mut(&mut self.words);
        if let Some(to) = all.get_mut(self.len..end) {
            to.copy_from_slice(bytes);
            self.len = end;
        }
    }
}

impl SharedBytes for Bytes {
    fn bytes(&self) -> &[u8] {
        bytemuck::cast_slice(&self.words).get(..self.len).unwrap_or_default()
    }
}
