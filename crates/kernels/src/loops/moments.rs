//! First moments of rows of pixels.

use super::{LANES, join};
use crate::cell::{MOMENT_CELLS, Moment, Real};

/// The sum of a row of pixels, and the sum of each times its distance from the start of the row.
pub(crate) fn moments<T: Real>(cells: &[T]) -> (T::Moment, T::Moment) {
    let (mut sum, mut moment) = (T::Moment::default(), T::Moment::default());
    for (chunk, cells) in cells.chunks(MOMENT_CELLS).enumerate() {
        let mut plain = [T::Block::default(); LANES];
        let mut weighed = [T::Block::default(); LANES];
        let (eights, rest) = cells.as_chunks::<LANES>();
        let mut distance = 0;
        for eight in eights {
            for lane in 0..LANES {
                plain[lane] += eight[lane].block();
                weighed[lane] += eight[lane].weighed(distance + lane as i32);
            }
            distance += LANES as i32;
        }
        for (lane, &cell) in rest.iter().enumerate() {
            plain[lane] += cell.block();
            weighed[lane] += cell.weighed(distance + lane as i32);
        }
        let chunk_sum = T::moment(join(plain));
        sum += chunk_sum;
        moment += T::moment(join(weighed));
        if chunk > 0 {
            moment += chunk_sum.times(chunk * MOMENT_CELLS);
        }
    }
    (sum, moment)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plain twins on the extreme values of a type, for lengths around the block sizes.
    macro_rules! extremes_are_exact {
        ($($name:ident: $type:ty),*) => {$(
            #[test]
            fn $name() {
                for value in [<$type>::MIN, <$type>::MAX] {
                    for n in [1, 7, 8, 255, 256, 257, 4095, 4097, 70_000] {
                        let cells = vec![value; n];
                        let wide = value as i128;
                        let weights = (0..n as i128).sum::<i128>();
                        assert_eq!(moments(&cells), (wide * n as i128, wide * weights));
                    }
                }
            }
        )*};
    }
    extremes_are_exact!(
        u8_extremes: u8, u16_extremes: u16, u32_extremes: u32, u64_extremes: u64,
        i8_extremes: i8, i16_extremes: i16, i32_extremes: i32, i64_extremes: i64
    );
}
