//! Turns the cells of a tile.

use framefold_core::{Error, Orientation, Result};
use framefold_simd::{Simd, prefetch, prefetch_beyond, reverse, transpose};

/// Rows that become columns together, while the next ones are fetched.
const GROUP: usize = 32;
/// How far ahead of a row that is read backwards memory is asked for: processors do not by themselves.
const AHEAD: usize = 8 << 10;

/// A part of turned frames: planes of rows and columns, one after the other.
#[derive(Clone, Copy, Debug)]
pub(super) struct Planes {
    orientation: Orientation,
    height: usize,
    width: usize,
}

impl Planes {
    /// Those of a part of shape `part` of frames that are turned.
    pub(super) fn new(orientation: Orientation, part: &[usize]) -> Self {
        let mut lengths = part.iter().rev().copied();
        let (width, height) = (lengths.next().unwrap_or(1), lengths.next().unwrap_or(1));
        Planes { orientation, height: height.max(1), width: width.max(1) }
    }

    /// Writes the cells of `from`, of `size` bytes each, to `out`; frames of `from` are `stride`
    /// cells apart, those of `out` follow each other. `None` if lengths do not fit.
    pub(super) fn turn(
        &self,
        size: usize,
        from: &[u8],
        stride: usize,
        out: &mut [u8],
    ) -> Option<()> {
        match size {
            1 => self.frames::<1>(from, stride, out),
            2 => self.frames::<2>(from, stride, out),
            4 => self.frames::<4>(from, stride, out),
            8 => self.frames::<8>(from, stride, out),
            16 => self.frames::<16>(from, stride, out),
            _ => None,
        }
    }

    fn frames<const SIZE: usize>(&self, from: &[u8], stride: usize, out: &mut [u8]) -> Option<()> {
        let plane = self.height.checked_mul(self.width)?.checked_mul(SIZE)?;
        let depth = from.len().div_ceil(stride.checked_mul(SIZE)?.max(1)).max(1);
        let simd = Simd::best();
        let mut rows = Vec::new();
        let frames = from.chunks(stride * SIZE);
        for (from, out) in frames.zip(out.chunks_exact_mut(out.len() / depth)) {
            let from = from.get(..out.len())?;
            for (from, out) in from.chunks_exact(plane).zip(out.chunks_exact_mut(plane)) {
                if self.orientation.transpose {
                    rows.clear();
                    rows.extend(from.chunks_exact(self.height * SIZE));
                    if self.orientation.flip_x {
                        rows.reverse();
                    }
                    for (i, group) in rows.chunks(GROUP).enumerate() {
                        rows.iter()
                            .skip((i + 1) * GROUP)
                            .take(GROUP)
                            .for_each(|next| prefetch(next));
                        let out = out.get_mut(i * GROUP * SIZE..)?;
                        transpose::<SIZE>(simd, group, out, self.width)?;
                    }
                    if self.orientation.flip_y {
                        reverse_rows(out, self.width * SIZE);
                    }
                } else {
                    self.copy::<SIZE>(simd, from, out)?;
                }
            }
        }
        Some(())
    }

    /// Copies a plane, with rows or columns in reverse.
    fn copy<const SIZE: usize>(&self, simd: Simd, from: &[u8], out: &mut [u8]) -> Option<()> {
        let len = self.width * SIZE;
        let (from_rows, out_rows) = (from.chunks_exact(len), out.chunks_exact_mut(len));
        match (self.orientation.flip_y, self.orientation.flip_x) {
            (true, true) => reverse(simd, SIZE, from, out)?,
            (false, true) => {
                for (from, out) in from_rows.zip(out_rows) {
                    prefetch_beyond(from, AHEAD);
                    reverse(simd, SIZE, from, out)?;
                }
            }
            (true, false) => {
                from_rows.rev().zip(out_rows).for_each(|(from, out)| out.copy_from_slice(from));
            }
            (false, false) => out.copy_from_slice(from),
        }
        Some(())
    }

    /// Where the turned part has the cell that the other one has at `column`.
    ///
    /// # Errors
    /// `Bug` if it has none.
    pub(super) fn column(&self, column: u32) -> Result<u32> {
        let [height, width] = [self.height as u64, self.width as u64];
        // Rows and columns as they are after the swap.
        let (n_rows, n_columns) =
            if self.orientation.transpose { (width, height) } else { (height, width) };
        let column = u64::from(column);
        let (plane, row, cell) =
            (column / n_columns / n_rows, column / n_columns % n_rows, column % n_columns);
        let (y, x) = if self.orientation.transpose { (cell, row) } else { (row, cell) };
        let y = if self.orientation.flip_y { height - 1 - y } else { y };
        let x = if self.orientation.flip_x { width - 1 - x } else { x };
        let turned = plane * height * width + y * width + x;
        u32::try_from(turned).map_err(|_| Error::bug(format!("column {turned} of a sparse tile")))
    }
}

/// Brings the rows of a plane, of `len` bytes each, into reverse order.
fn reverse_rows(plane: &mut [u8], len: usize) {
    let half = plane.len() / len / 2 * len;
    let middle = plane.len() - half;
    let (upper, lower) = plane.split_at_mut(middle);
    let pairs = upper.chunks_exact_mut(len).zip(lower.chunks_exact_mut(len).rev());
    pairs.for_each(|(a, b)| a.swap_with_slice(b));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_turned_is_copied() {
        let from: Vec<u8> = (0..2 * 30).collect();
        let planes = Planes::new(Orientation::default(), &[2, 3, 2]);
        let mut out = vec![0; 2 * 24];
        // Frames of 12 cells that are 15 apart.
        planes.turn(2, &from, 15, &mut out).unwrap();
        assert_eq!(out, [&from[..24], &from[30..54]].concat());
        assert!((0..12).all(|column| planes.column(column).unwrap() == column));
    }
}
