//! TIFF's predictors: samples were stored as differences to their neighbours on the left.

use super::all_of;
use framefold_core::{ByteOrder, Result, StoredDType};

/// How the samples of a row follow from each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Predictor {
    /// Differences are of bytes, and those of the same significance lie together, the highest first.
    pub(crate) floats: bool,
    /// Samples, and their order of bytes.
    pub(crate) stored: StoredDType,
    /// Samples of a row.
    pub(crate) row: usize,
    /// Samples of a pixel: how far to the left the neighbour is.
    pub(crate) samples: usize,
}

impl Predictor {
    /// Adds up the differences, row by row; the last row may be shorter.
    pub(super) fn undo(&self, stored: &[u8], out: &mut [u8]) -> Result<()> {
        all_of("the predictor", stored.len(), out.len())?;
        let size = self.stored.dtype.size();
        let row = self.row.saturating_mul(size).max(1);
        for (from, to) in stored.chunks(row).zip(out.chunks_mut(row)) {
            if self.floats {
                self.floats(from, to);
            } else {
                to.copy_from_slice(from);
                self.add_up(to);
            }
        }
        Ok(())
    }

    #[expect(
        clippy::indexing_slicing,
        reason = "i counts cells, from the one on that has a left neighbour"
    )]
    fn add_up(&self, row: &mut [u8]) {
        let apart = self.samples;
        macro_rules! add_up {
            ($type:ty, $read:ident, $write:ident) => {{
                let (cells, _) = row.as_chunks_mut::<{ size_of::<$type>() }>();
                for i in apart..cells.len() {
                    let left = <$type>::$read(cells[i - apart]);
                    cells[i] = <$type>::$read(cells[i]).wrapping_add(left).$write();
                }
            }};
        }
        match (self.stored.dtype.size(), self.stored.order) {
            (1, _) => add_up!(u8, from_le_bytes, to_le_bytes),
            (2, ByteOrder::Little) => add_up!(u16, from_le_bytes, to_le_bytes),
            (2, ByteOrder::Big) => add_up!(u16, from_be_bytes, to_be_bytes),
            (4, ByteOrder::Little) => add_up!(u32, from_le_bytes, to_le_bytes),
            (4, ByteOrder::Big) => add_up!(u32, from_be_bytes, to_be_bytes),
            (_, ByteOrder::Little) => add_up!(u64, from_le_bytes, to_le_bytes),
            (_, ByteOrder::Big) => add_up!(u64, from_be_bytes, to_be_bytes),
        }
    }

    fn floats(&self, from: &[u8], to: &mut [u8]) {
        let size = self.stored.dtype.size();
        let n = from.len() / size;
        let mut sums = vec![0u8; self.samples];
        // Planes hold whole pixels, so that each begins with a first sample.
        for (plane, bytes) in from.chunks_exact(n.max(1)).enumerate().take(size) {
            let place = if self.stored.order == ByteOrder::Big { plane } else { size - 1 - plane };
            for (pixel, cells) in bytes.chunks(self.samples).zip(to.chunks_mut(self.samples * size))
            {
                for ((byte, sum), cell) in pixel.iter().zip(&mut sums).zip(cells.chunks_mut(size)) {
                    *sum = sum.wrapping_add(*byte);
                    if let Some(place) = cell.get_mut(place) {
                        *place = *sum;
                    }
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framefold_core::DType;

    fn predictor(dtype: DType, order: ByteOrder, floats: bool, samples: usize) -> Predictor {
        Predictor { floats, stored: StoredDType { dtype, order }, row: 6, samples }
    }

    #[test]
    fn differences_add_up_in_either_order_of_bytes() {
        for order in [ByteOrder::Little, ByteOrder::Big] {
            let to = |value: u16| match order {
                ByteOrder::Little => value.to_le_bytes(),
                ByteOrder::Big => value.to_be_bytes(),
            };
            let bytes = |values: &[u16]| values.iter().copied().flat_map(to).collect::<Vec<u8>>();
            let values = [3u16, 65535, 0, 300, 40000, 7];
            for samples in [1, 2, 3] {
                let mut differences = values;
                for i in (samples..6).rev() {
                    differences[i] = values[i].wrapping_sub(values[i - samples]);
                }
                let mut out = vec![0; 24];
                let stored = [bytes(&differences), bytes(&differences)].concat();
                predictor(DType::U16, order, false, samples).undo(&stored, &mut out).unwrap();
                assert_eq!(out, [bytes(&values), bytes(&values)].concat());
            }
        }
    }

    #[test]
    fn floats_in_planes_of_bytes() {
        let values = [1.5f32, -2.25, 1e-30, 7e20, 0.0, 3.0];
        for samples in [1, 2] {
            // As Adobe's technical note 3 says: planes of bytes first, then differences.
            let mut planes: Vec<u8> =
                (0..4).flat_map(|plane| values.map(|value| value.to_be_bytes()[plane])).collect();
            for i in (samples..24).rev() {
                planes[i] = planes[i].wrapping_sub(planes[i - samples]);
            }
            for order in [ByteOrder::Little, ByteOrder::Big] {
                let mut out = vec![0; 24];
                predictor(DType::F32, order, true, samples).undo(&planes, &mut out).unwrap();
                let expected: Vec<u8> = match order {
                    ByteOrder::Little => values.iter().flat_map(|v| v.to_le_bytes()).collect(),
                    ByteOrder::Big => values.iter().flat_map(|v| v.to_be_bytes()).collect(),
                };
                assert_eq!(out, expected);
            }
        }
    }
}
