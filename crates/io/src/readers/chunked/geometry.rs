//! Where the cells of a frame lie in a grid of chunks.

use framefold_core::{Error, Result, SigSlice, interrupt, memory};

/// After so many parts of a slice, or rows of a part, it is asked whether the tile is still wanted.
const CHECK: usize = 4096;

/// All that makes a [`Geometry`]: an array in C order, and which of its axes are which.
#[derive(Clone, Debug)]
pub(crate) struct GeometrySpec {
    pub(crate) shape: Vec<usize>,
    pub(crate) chunk: Vec<usize>,
    /// The numbers of the axes that count frames, slowest first.
    pub(crate) nav_axes: Vec<usize>,
    /// The numbers of the axes of a frame, slowest first.
    pub(crate) sig_axes: Vec<usize>,
}

/// One axis of the array.
#[derive(Clone, Copy, Debug)]
struct Axis {
    len: usize,
    chunk: usize,
    n_chunks: usize,
    /// Elements of a chunk from one position to the next.
    stride: usize,
    /// Chunks from one to the next on this axis.
    grid_stride: u64,
}

impl Axis {
    /// How far the chunks of one number along this axis are from the first ones.
    fn grid_offset(&self, number: usize) -> u64 {
        u64::try_from(number).unwrap_or(u64::MAX).saturating_mul(self.grid_stride)
    }
}

/// An array in chunks.
#[derive(Clone, Debug)]
pub(crate) struct Geometry {
    nav: Vec<Axis>,
    sig: Vec<Axis>,
    n_frames: u64,
    chunk_cells: u64,
    /// Whether cells lie in a chunk as they lie in a tile.
    in_order: bool,
}

/// The part of a slice that lies in one chunk.
#[derive(Clone, Debug)]
pub(crate) struct Part {
    /// The number of the chunk, less that of the chunk of the frame.
    pub(crate) grid_offset: u64,
    /// Whether chunk and slice are the same cells.
    pub(crate) whole: bool,
    pub(crate) rows: Vec<Row>,
    /// Elements of the chunk from one cell of a row to the next.
    pub(crate) step: usize,
}

/// Cells that follow each other.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Row {
    /// Elements from the frame's first one in the chunk.
    pub(crate) from: usize,
    /// Cells from the start of the slice.
    pub(crate) to: usize,
    pub(crate) n: usize,
}

impl Geometry {
    /// # Errors
    /// `BadFile` if an axis or a chunk has no length, or the array has too many cells; `Bug` if
    /// the axes are not each either of the scan or of the frame.
    pub(crate) fn try_new(spec: &GeometrySpec) -> Result<Self> {
        let GeometrySpec { shape, chunk, nav_axes, sig_axes } = spec;
        if shape.len() != chunk.len() || shape.contains(&0) || chunk.contains(&0) {
            return Err(Error::bad_file(format!(
                "an array of shape {shape:?} cannot be in chunks of shape {chunk:?}"
            )));
        }
        let mut seen: Vec<usize> = nav_axes.iter().chain(sig_axes).copied().collect();
        seen.sort_unstable();
        if seen != (0..shape.len()).collect::<Vec<_>>() || sig_axes.is_empty() {
            return Err(Error::bug(format!("axes {nav_axes:?} and {sig_axes:?} of {shape:?}")));
        }
        let too_many = || Error::bad_file(format!("the shape {shape:?} has too many cells"));
        framefold_core::checked_product(shape).ok_or_else(too_many)?;
        let mut axes = Vec::with_capacity(shape.len());
        let (mut stride, mut grid_stride) = (1usize, 1u64);
        for (&len, &chunk) in shape.iter().zip(chunk).rev() {
            let n_chunks = len.div_ceil(chunk);
            axes.push(Axis { len, chunk, n_chunks, stride, grid_stride });
            stride = stride.checked_mul(chunk).ok_or_else(too_many)?;
            let n_chunks = u64::try_from(n_chunks).map_err(|_| too_many())?;
            grid_stride = grid_stride.checked_mul(n_chunks).ok_or_else(too_many)?;
        }
        axes.reverse();
        let pick = |numbers: &[usize]| -> Vec<Axis> {
            numbers.iter().filter_map(|&number| axes.get(number).copied()).collect()
        };
        let (nav, sig) = (pick(nav_axes), pick(sig_axes));
        let lens: Vec<usize> = nav.iter().map(|axis| axis.len).collect();
        let in_order = nav_axes.iter().chain(sig_axes).copied().eq(0..shape.len());
        let n_frames = framefold_core::checked_product(&lens).ok_or_else(too_many)?;
        let chunk_cells = u64::try_from(stride).map_err(|_| too_many())?;
        Ok(Geometry { nav, sig, n_frames, chunk_cells, in_order })
    }

    pub(crate) fn n_frames(&self) -> u64 {
        self.n_frames
    }

    /// Elements of a chunk.
    pub(crate) fn chunk_cells(&self) -> u64 {
        self.chunk_cells
    }

    /// Whether cells lie in a chunk as they lie in a tile.
    pub(crate) fn in_order(&self) -> bool {
        self.in_order
    }

    /// The shape of a frame's part of a chunk.
    pub(crate) fn sig_chunk(&self) -> Vec<usize> {
        self.sig.iter().map(|axis| axis.chunk.min(axis.len)).collect()
    }

    /// Frames of a chunk.
    pub(crate) fn chunk_frames(&self) -> usize {
        self.nav.iter().map(|axis| axis.chunk).product()
    }

    /// Elements of a chunk's part of a frame.
    pub(crate) fn chunk_frame_cells(&self) -> usize {
        self.sig.iter().map(|axis| axis.chunk).product()
    }

    /// Whether chunks hold whole frames.
    pub(crate) fn has_whole_frames(&self) -> bool {
        self.sig.iter().all(|axis| axis.chunk == axis.len)
    }

    /// The slowest axis of the scan on which a chunk holds more than one position.
    fn row_axis(&self) -> usize {
        let deep = self.nav.iter().position(|axis| axis.chunk > 1);
        deep.unwrap_or(self.nav.len().saturating_sub(1))
    }

    /// How many frames lie in chunks that frames read in order reach before they reach others: the
    /// next such run begins at a multiple of it.
    pub(crate) fn row_frames(&self) -> usize {
        let axis = self.row_axis();
        let inner = self.nav.iter().skip(axis + 1).map(|axis| axis.len);
        let deep = self.nav.get(axis).map_or(1, |axis| axis.chunk.min(axis.len));
        inner.fold(deep, usize::saturating_mul)
    }

    /// The chunks of those frames.
    pub(crate) fn row_chunks(&self) -> usize {
        let nav = self.nav.iter().skip(self.row_axis() + 1);
        nav.chain(&self.sig).map(|axis| axis.n_chunks).fold(1, usize::saturating_mul)
    }

    /// The elements of those chunks.
    pub(crate) fn row_cells(&self) -> usize {
        let chunk = usize::try_from(self.chunk_cells).unwrap_or(usize::MAX);
        chunk.saturating_mul(self.row_chunks())
    }

    /// The number of the chunk of a frame's first cell, and the elements before the frame in it.
    pub(crate) fn locate(&self, frame: u64) -> (u64, usize) {
        let mut rest = usize::try_from(frame).unwrap_or(usize::MAX);
        let (mut chunk, mut inner) = (0u64, 0);
        for axis in self.nav.iter().rev() {
            let at = rest % axis.len;
            rest /= axis.len;
            let number = u64::try_from(at / axis.chunk).unwrap_or(u64::MAX);
            // The product of all axes was checked to fit.
            chunk += number * axis.grid_stride;
            inner += at % axis.chunk * axis.stride;
        }
        (chunk, inner)
    }

    /// Cuts a slice of the frame along the chunks.
    ///
    /// # Errors
    /// `Limit` if there is no memory for so many parts; `Cancelled` if the run was
    /// stopped.
    pub(crate) fn parts(&self, slice: &SigSlice) -> Result<Vec<Part>> {
        let mut parts = vec![];
        let bounds: Vec<(usize, usize)> =
            slice.origin().iter().zip(slice.shape()).map(|(&o, &n)| (o, o + n)).collect();
        let first: Vec<usize> =
            bounds.iter().zip(&self.sig).map(|(b, axis)| b.0 / axis.chunk).collect();
        let last: Vec<usize> =
            bounds.iter().zip(&self.sig).map(|(b, axis)| (b.1 - 1) / axis.chunk).collect();
        let mut at = first.clone();
        loop {
            if parts.len() % CHECK == CHECK - 1 {
                interrupt::check()?;
            }
            memory::push(&mut parts, self.part(&at, &bounds)?)?;
            let mut axes = at.iter_mut().zip(first.iter().zip(&last)).rev();
            let goes_on = axes.any(|(at, (first, last))| {
                let goes_on = *at < *last;
                *at = if goes_on { *at + 1 } else { *first };
                goes_on
            });
            if !goes_on {
                return Ok(parts);
            }
        }
    }

    /// About how many bytes the parts of a slice take.
    pub(crate) fn parts_bytes(&self, slice: &SigSlice) -> usize {
        let axes = slice.origin().iter().zip(slice.shape()).zip(&self.sig);
        let n_parts = axes
            .map(|((&origin, &len), axis)| {
                (origin + len - 1) / axis.chunk - origin / axis.chunk + 1
            })
            .fold(1, usize::saturating_mul);
        n_parts.saturating_mul(size_of::<Part>() + 4 * size_of::<Row>())
    }

    /// From the chunk of a frame's first cell to that of a slice's first cell.
    pub(crate) fn offset_to(&self, slice: &SigSlice) -> u64 {
        let axes = slice.origin().iter().zip(&self.sig);
        axes.map(|(&origin, axis)| axis.grid_offset(origin / axis.chunk)).sum()
    }

    /// What of the slice lies in the chunk at that place of the grid.
    fn part(&self, at: &[usize], bounds: &[(usize, usize)]) -> Result<Part> {
        let mut grid_offset = 0;
        let mut whole = self.in_order;
        // Of each axis: first element in the chunk, first cell in the slice, how many.
        let mut spans = Vec::with_capacity(at.len());
        for ((axis, &number), &(start, end)) in self.sig.iter().zip(at).zip(bounds) {
            grid_offset += axis.grid_offset(number);
            let chunk_start = number * axis.chunk;
            let from = start.max(chunk_start);
            let to = end.min(chunk_start + axis.chunk);
            spans.push((from - chunk_start, from - start, to - from));
            whole &= start == chunk_start && end == chunk_start + axis.chunk;
        }
        let lens: Vec<usize> = bounds.iter().map(|(start, end)| end - start).collect();
        let step = self.sig.last().map_or(1, |axis| axis.stride);
        Ok(Part { grid_offset, whole, rows: self.rows(&spans, &lens)?, step })
    }

    /// The rows of a box of cells, joined where they follow each other.
    fn rows(&self, spans: &[(usize, usize, usize)], lens: &[usize]) -> Result<Vec<Row>> {
        let Some(((_, _, n), outer)) = spans.split_last() else { return Ok(vec![]) };
        let mut rows: Vec<Row> = vec![];
        let mut at = vec![0; outer.len()];
        let mut done = 0usize;
        loop {
            // Of those that are joined, too.
            done += 1;
            if done.is_multiple_of(CHECK) {
                interrupt::check()?;
            }
            let (mut from, mut to) = (0, 0);
            for (i, ((span, axis), len)) in spans.iter().zip(&self.sig).zip(lens).enumerate() {
                let offset = at.get(i).copied().unwrap_or(0);
                from += (span.0 + offset) * axis.stride;
                to = to * len + span.1 + offset;
            }
            let step = self.sig.last().map_or(1, |axis| axis.stride);
            match rows.last_mut() {
                Some(row) if row.to + row.n == to && row.from + row.n * step == from => row.n += n,
                _ => memory::push(&mut rows, Row { from, to, n: *n })?,
            }
            let goes_on = at.iter_mut().zip(outer).rev().any(|(at, (_, _, n))| {
                let goes_on = *at + 1 < *n;
                *at = if goes_on { *at + 1 } else { 0 };
                goes_on
            });
            if !goes_on {
                return Ok(rows);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framefold_core::ErrorKind;

    #[test]
    fn cutting_a_slice_can_be_stopped() {
        // Very many chunks, and one chunk of which very many rows are wanted.
        for (sig, chunk, wanted) in
            [([128, 128], [1, 1], [128, 128]), ([9999, 2], [9999, 2], [9999, 1])]
        {
            let spec = GeometrySpec {
                shape: [&[1], &sig[..]].concat(),
                chunk: [&[1], &chunk[..]].concat(),
                nav_axes: vec![0],
                sig_axes: vec![1, 2],
            };
            let geometry = Geometry::try_new(&spec).unwrap();
            let slice = SigSlice::try_within(vec![0, 0], wanted.to_vec(), &sig).unwrap();
            let stopped = interrupt::watched(|| Err(Error::cancelled()), || geometry.parts(&slice));
            assert_eq!(stopped.unwrap_err().kind(), ErrorKind::Cancelled);
            assert!(geometry.parts(&slice).is_ok());
        }
    }
}
