//! From pixels of the frame to cells of a slice.

use framefold_core::{Error, Result, SigSlice};

/// The pixels of a slice. Later pixels of the frame are later cells of the slice.
pub(super) enum Cells {
    /// All pixels: pixel and cell are the same.
    Whole,
    /// Runs of pixels of the same length.
    Runs {
        /// The first pixel of each, ascending.
        firsts: Vec<u32>,
        /// The length of each.
        len: u32,
    },
}

impl Cells {
    /// The cells of `slice`, in frames of shape `sig`, of `frame_len` pixels.
    pub(super) fn try_new(slice: &SigSlice, sig: &[usize], frame_len: u32) -> Result<Self> {
        let fits = slice.origin().len() == sig.len();
        let ends = slice.origin().iter().zip(slice.shape()).map(|(origin, len)| origin + len);
        if !fits || ends.zip(sig).any(|(end, &axis)| end > axis) {
            return Err(Error::bug(format!("slice {slice:?} leaves frames of shape {sig:?}")));
        }
        if u32::try_from(slice.len()).is_ok_and(|len| len == frame_len) {
            return Ok(Cells::Whole);
        }
        // All of them are below `frame_len`.
        let to_u32 = |n: usize| u32::try_from(n).unwrap_or(u32::MAX);
        let mut len = 0;
        let firsts = slice.runs(sig).map(|run| {
            len = to_u32(run.len());
            to_u32(run.start)
        });
        Ok(Cells::Runs { firsts: firsts.collect(), len })
    }

    pub(super) fn is_whole(&self) -> bool {
        matches!(self, Cells::Whole)
    }

    /// The cell of `pixel`, if it is in the slice.
    pub(super) fn cell(&self, pixel: u32) -> Option<u32> {
        match self {
            Cells::Whole => Some(pixel),
            Cells::Runs { firsts, len } => {
                let run = firsts.partition_point(|&first| first <= pixel).checked_sub(1)?;
                let within = pixel - firsts.get(run)?;
                let cells_before = u32::try_from(run).ok()?.checked_mul(*len)?;
                (within < *len).then_some(cells_before + within)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framefold_core::TilingScheme;

    #[test]
    fn every_pixel_is_one_cell_of_one_slice() {
        let sig = [3, 4, 5];
        for tile in [[3, 4, 5], [1, 4, 5], [2, 2, 5], [2, 3, 2], [1, 1, 1], [3, 1, 2]] {
            let scheme = TilingScheme::try_new(&sig, &tile, 1).unwrap();
            for slice in scheme.slices() {
                let cells = Cells::try_new(slice, &sig, 60).unwrap();
                let found: Vec<_> = (0..60).filter_map(|pixel| cells.cell(pixel)).collect();
                assert_eq!(found, (0..slice.len() as u32).collect::<Vec<_>>());
                let pixels: Vec<_> =
                    (0..60).filter(|&pixel| cells.cell(pixel as u32).is_some()).collect();
                assert_eq!(pixels, slice.runs(&sig).flatten().collect::<Vec<_>>());
            }
        }
    }
}
