//! Electrons counted: the local maxima above a threshold become 1, all else 0, as sparse rows.
//!
//! A pixel counts if it is larger than its neighbours before it, in the order of rows, and not smaller than
//! those behind it. Neighbours are the other pixels of a window of 3 along each axis. Of equal ones that
//! touch, the first one counts.

use super::ordered::{Bounds, Ordered};
use crate::cells::refuse_dtype;
use crate::row::{StageOption, StageRow};
use framefold_core::{
    ArrayFormat, CsrRows, DType, DenseTile, Error, FrameIndices, FrameKind, FramesView, Result,
    SigSlice, Stage, StagePart, TileFrames, memory,
};
use framefold_simd::{Simd, run};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub(super) const ROW: StageRow = StageRow {
    name: "count",
    summary: "electrons counted: local maxima above a threshold are 1, as sparse rows",
    value: "THRESHOLD",
    options: &[StageOption {
        name: "maximum",
        help: "pixels above this are left out, as if they were dark [default: none are]",
    }],
    example: "10",
    make: |arguments, input| {
        let (threshold, maximum) = (arguments.number()?, arguments.number_of("maximum")?);
        if maximum.is_some_and(|maximum| maximum <= threshold) {
            return Err(arguments.refuse("the maximum is not above the threshold"));
        }
        if input.dtype.is_complex() {
            return Err(refuse_dtype("count", input.dtype, "complex numbers have no order"));
        }
        let n_pixels =
            input.shape.iter().try_fold(1u32, |n, &len| n.checked_mul(len.try_into().ok()?));
        if n_pixels.is_none() {
            return Err(arguments.refuse(format_args!(
                "frames of shape {:?} are too large for sparse rows",
                input.shape
            )));
        }
        let output = FrameKind { shape: input.shape.clone(), dtype: DType::U8 };
        Ok(Arc::new(Count { threshold, maximum, input, output }))
    },
};

#[derive(Debug)]
struct Count {
    threshold: f64,
    maximum: Option<f64>,
    input: FrameKind,
    output: FrameKind,
}

impl Stage for Count {
    fn input(&self) -> &FrameKind {
        &self.input
    }

    fn output(&self) -> &FrameKind {
        &self.output
    }

    fn counts_of_one(&self) -> Option<f64> {
        None
    }

    fn format(&self) -> ArrayFormat {
        ArrayFormat::Csr
    }

    fn part(&self, sig: &SigSlice) -> Result<Box<dyn StagePart + '_>> {
        let (mut origin, mut shape) = (Vec::new(), Vec::new());
        for ((&start, &len), &of) in sig.origin().iter().zip(sig.shape()).zip(&self.input.shape) {
            let first = start.saturating_sub(1);
            origin.push(first);
            shape.push((start + len + 1).min(of) - first);
        }
        let read = SigSlice::try_within(origin, shape, &self.input.shape)?;
        let lines = Lines::try_new(sig, &read)?;
        let found = memory::with_room(sig.len())?;
        Ok(Box::new(Part { stage: self, read, lines, found }))
    }
}

/// The rows of a slice among those that are read.
struct Lines {
    /// The pixels of a row that is read, and those of them that are of the slice.
    width: usize,
    columns: Range<usize>,
    lines: Vec<Line>,
    /// Rows beside others, each with whether it comes before.
    beside: Vec<(usize, bool)>,
}

struct Line {
    row: usize,
    /// Its part of `beside`.
    beside: Range<usize>,
}

impl Lines {
    fn try_new(sig: &SigSlice, read: &SigSlice) -> Result<Self> {
        let last = sig.shape().len() - 1;
        // For each axis, where the slice begins among what is read.
        let starts: Vec<usize> =
            sig.origin().iter().zip(read.origin()).map(|(sig, read)| sig - read).collect();
        let (mut rows, mut lines, mut beside) = (vec![(0, Vec::new())], Vec::new(), Vec::new());
        let axes = starts.iter().zip(sig.shape()).zip(read.shape());
        for (axis, ((&start, &len), &of)) in axes.enumerate().take(last) {
            let mut next = Vec::new();
            for (row, around) in &rows {
                for at in start..start + len {
                    let near = at.saturating_sub(1)..(at + 2).min(of);
                    // Rows around, the row itself among them.
                    let around = match axis {
                        0 => near.collect::<Vec<usize>>(),
                        _ => around
                            .iter()
                            .flat_map(|&other| near.clone().map(move |at| other * of + at))
                            .collect(),
                    };
                    memory::push(&mut next, (row * of + at, around))?;
                }
            }
            rows = next;
        }
        for (row, around) in rows {
            let first = beside.len();
            for other in around {
                if other != row {
                    memory::push(&mut beside, (other, other < row))?;
                }
            }
            memory::push(&mut lines, Line { row, beside: first..beside.len() })?;
        }
        let columns = starts[last]..starts[last] + sig.shape()[last];
        Ok(Lines { width: read.shape()[last], columns, lines, beside })
    }
}

struct Part<'s> {
    stage: &'s Count,
    read: SigSlice,
    lines: Lines,
    /// The cells of a frame that count.
    found: Vec<u32>,
}

impl Part<'_> {
    /// Calls `each` with the cells that count of one frame after the other.
    fn find(
        &mut self,
        tile: &DenseTile<'_>,
        each: &mut dyn FnMut(&[u32]) -> Result<()>,
    ) -> Result<()> {
        match tile.frames() {
            TileFrames::Bool(view) => self.find_in(view, each),
            TileFrames::U8(view) => self.find_in(view, each),
            TileFrames::U16(view) => self.find_in(view, each),
            TileFrames::U32(view) => self.find_in(view, each),
            TileFrames::U64(view) => self.find_in(view, each),
            TileFrames::I8(view) => self.find_in(view, each),
            TileFrames::I16(view) => self.find_in(view, each),
            TileFrames::I32(view) => self.find_in(view, each),
            TileFrames::I64(view) => self.find_in(view, each),
            TileFrames::F16(view) => self.find_in(view, each),
            TileFrames::F32(view) => self.find_in(view, each),
            TileFrames::F64(view) => self.find_in(view, each),
            TileFrames::C64(_) | TileFrames::C128(_) => {
                Err(Error::bug("complex pixels were compared"))
            }
        }
    }

    fn find_in<T: Ordered>(
        &mut self,
        view: FramesView<'_, T>,
        each: &mut dyn FnMut(&[u32]) -> Result<()>,
    ) -> Result<()> {
        let bounds = Bounds::above(self.stage.threshold, self.stage.maximum);
        for frame in view.frames() {
            self.found.clear();
            if let Some(bounds) = &bounds {
                run!(Simd::best(), find_peaks(frame, &self.lines, bounds, &mut self.found));
            }
            each(&self.found)?;
        }
        Ok(())
    }
}

impl StagePart for Part<'_> {
    fn read(&self) -> &SigSlice {
        &self.read
    }

    fn apply(
        &mut self,
        tile: &DenseTile<'_>,
        _frames: &FrameIndices<'_>,
        out: &mut [u8],
    ) -> Result<()> {
        out.fill(0);
        let mut frames = out.chunks_exact_mut(self.lines.lines.len() * self.lines.columns.len());
        self.find(tile, &mut |found| {
            let out = frames.next().ok_or_else(|| Error::bug("a tile with too many frames"))?;
            found.iter().for_each(|&cell| out[cell as usize] = 1);
            Ok(())
        })
    }

    fn append(
        &mut self,
        tile: &DenseTile<'_>,
        _frames: &FrameIndices<'_>,
        rows: &mut CsrRows,
    ) -> Result<()> {
        self.find(tile, &mut |found| {
            found.iter().try_for_each(|&cell| rows.push(cell, 1u8))?;
            rows.end_row()
        })
    }
}

/// So many pixels are looked at together, most of which are below the threshold.
const CHUNK: usize = 32;

#[inline(always)]
fn find_peaks<T: Ordered>(frame: &[T], lines: &Lines, bounds: &Bounds<T>, found: &mut Vec<u32>) {
    let n_columns = lines.columns.len();
    for (n, line) in lines.lines.iter().enumerate() {
        let row = &frame[line.row * lines.width..][..lines.width];
        for (m, cells) in row[lines.columns.clone()].chunks(CHUNK).enumerate() {
            if !cells.iter().fold(false, |any, &cell| any | bounds.hold(cell)) {
                continue;
            }
            for (i, &cell) in cells.iter().enumerate() {
                let column = m * CHUNK + i;
                if bounds.hold(cell) && is_peak(frame, lines, line, column, bounds) {
                    // As many fit as there are cells, and these can be counted.
                    found.push((n * n_columns + column) as u32);
                }
            }
        }
    }
}

/// Whether the pixel of the slice in this column is larger than those before it, and not smaller than those
/// behind it.
fn is_peak<T: Ordered>(
    frame: &[T],
    lines: &Lines,
    line: &Line,
    column: usize,
    bounds: &Bounds<T>,
) -> bool {
    let column = lines.columns.start + column;
    let row = |row: usize| &frame[row * lines.width..][..lines.width];
    let own = row(line.row);
    let value = own[column].key();
    let exceeds = |cell: &T, before: bool| {
        let key = cell.key();
        // Pixels above the maximum are as good as dark, and NaN is above nothing.
        key <= bounds.high && if before { key >= value } else { key > value }
    };
    let near = column.saturating_sub(1)..(column + 2).min(lines.width);
    let beaten = own[near.start..column].iter().any(|cell| exceeds(cell, true))
        || own[column + 1..near.end].iter().any(|cell| exceeds(cell, false))
        || lines.beside[line.beside.clone()].iter().any(|&(other, before)| {
            row(other)[near.clone()].iter().any(|cell| exceeds(cell, before))
        });
    !beaten
}

impl fmt::Display for Count {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "count {}", self.threshold)?;
        self.maximum.map_or(Ok(()), |maximum| write!(f, " maximum={maximum}"))
    }
}
