//! The pieces in which a data set is written: a box of the scan, and all of its frames or a band.

use framefold_core::{Error, Result, SigSlice, TilingScheme, interrupt, memory};

/// Decoded pixels of a piece, as far as chunks allow it. It is what a worker holds, and the size
/// of a file of a folder of chunks before it is compressed.
pub(super) const UNIT_BYTES: usize = 32 << 20;

/// The most frames of a piece of a file in which frames follow each other.
const MOST_FRAMES: usize = 1 << 18;

/// All pieces of an array.
#[derive(Debug)]
pub(super) struct Units {
    nav: Vec<usize>,
    /// The positions of a piece.
    pub(super) step: Vec<usize>,
    grid: Vec<usize>,
    /// Cuts frames into bands: of whole chunks.
    pub(super) tiling: TilingScheme,
}

/// One piece.
#[derive(Debug)]
pub(super) struct Unit<'u> {
    pub(super) index: usize,
    /// Its first position.
    pub(super) origin: Vec<usize>,
    /// Positions along each axis of the scan.
    pub(super) shape: Vec<usize>,
    pub(super) slice: &'u SigSlice,
}

impl Units {
    /// Pieces of frames that follow each other, for files in which frames do.
    pub(super) fn of_frames(nav: &[usize], sig: &[usize], size: usize) -> Result<Self> {
        let n_frames = nav.iter().product();
        let frame_bytes = sig.iter().product::<usize>().saturating_mul(size).max(1);
        // Tiny frames are many.
        let step = (UNIT_BYTES / frame_bytes).clamp(1, n_frames).min(MOST_FRAMES);
        Self::with(vec![n_frames], vec![step], sig, sig)
    }

    /// Pieces of whole chunks of shape `chunk`.
    pub(super) fn of_chunks(
        nav: &[usize],
        sig: &[usize],
        chunk: &[usize],
        size: usize,
    ) -> Result<Self> {
        let (nav_chunk, sig_chunk) = chunk.split_at(nav.len().min(chunk.len()));
        let mut step = nav_chunk.to_vec();
        let n_positions = step.iter().fold(1, |n: usize, &len| n.saturating_mul(len));
        let mut band = sig.to_vec();
        for axis in 0..band.len() {
            let cells =
                |lens: &[usize]| lens.iter().fold(1, |n: usize, &len| n.saturating_mul(len));
            let bytes = cells(&band).saturating_mul(n_positions).saturating_mul(size);
            if bytes > UNIT_BYTES
                && let (Some(band), Some(&chunk), Some(&len)) =
                    (band.get_mut(axis), sig_chunk.get(axis), sig.get(axis))
            {
                let one = (bytes / *band).max(1);
                let whole = UNIT_BYTES / one / chunk * chunk;
                *band = whole.clamp(chunk, (*band).max(chunk)).min(len);
            }
        }
        let mut bytes = band.iter().product::<usize>().saturating_mul(n_positions * size).max(1);
        for (step, &len) in step.iter_mut().zip(nav).rev() {
            let times = (UNIT_BYTES / bytes).clamp(1, len.div_ceil(*step));
            *step *= times;
            bytes = bytes.saturating_mul(times);
            if *step < len {
                break;
            }
        }
        Self::with(nav.to_vec(), step, sig, &band)
    }

    fn with(nav: Vec<usize>, step: Vec<usize>, sig: &[usize], band: &[usize]) -> Result<Self> {
        let grid = nav.iter().zip(&step).map(|(&n, &step)| n.div_ceil(step)).collect();
        Ok(Units { nav, step, grid, tiling: TilingScheme::try_new(sig, band, 1)? })
    }

    /// How many there are.
    pub(super) fn len(&self) -> usize {
        self.grid.iter().product::<usize>() * self.tiling.slices().len()
    }

    /// The piece of that number.
    ///
    /// # Errors
    /// `Bug` if there are fewer.
    pub(super) fn get(&self, index: usize) -> Result<Unit<'_>> {
        let slices = self.tiling.slices();
        let slice = slices.get(index % slices.len().max(1));
        let slice = slice.ok_or_else(|| Error::bug(format!("there is no piece {index}")))?;
        let mut origin = unravel(index / slices.len(), &self.grid);
        for (at, step) in origin.iter_mut().zip(&self.step) {
            *at *= step;
        }
        let rest = self.nav.iter().zip(&origin).map(|(n, at)| n.saturating_sub(*at));
        let shape = rest.zip(&self.step).map(|(rest, &step)| rest.min(step)).collect();
        Ok(Unit { index, origin, shape, slice })
    }

    /// The flat positions of a piece, in C order.
    ///
    /// # Errors
    /// `Limit` if there is no memory for them; `Cancelled` if the run was stopped.
    pub(super) fn positions(&self, unit: &Unit<'_>) -> Result<Vec<usize>> {
        let Some((&row_len, rows)) = unit.shape.split_last() else { return Ok(vec![0]) };
        let n_rows = rows.iter().fold(1, |n: usize, &len| n.saturating_mul(len));
        let mut positions = memory::with_room(n_rows.saturating_mul(row_len))?;
        for row in 0..n_rows {
            interrupt::check()?;
            let mut within = unravel(row, rows);
            within.push(0);
            let coordinates = within.iter().zip(&unit.origin).map(|(at, origin)| at + origin);
            let first = coordinates.zip(&self.nav).fold(0, |flat, (at, n)| flat * n + at);
            positions.extend(first..first + row_len);
        }
        Ok(positions)
    }
}

/// Coordinates of the `index`-th cell of a grid, in C order.
pub(super) fn unravel(index: usize, grid: &[usize]) -> Vec<usize> {
    let mut rest = index;
    let mut coordinates = vec![0; grid.len()];
    for (at, &n) in coordinates.iter_mut().zip(grid).rev() {
        *at = rest % n.max(1);
        rest /= n.max(1);
    }
    coordinates
}

#[cfg(test)]
mod tests {
    use super::*;

    fn covers(units: &Units, nav: &[usize], sig: &[usize]) {
        let n_frames = nav.iter().product::<usize>();
        let mut seen = vec![0; n_frames];
        for i in 0..units.len() {
            let unit = units.get(i).unwrap();
            for position in units.positions(&unit).unwrap() {
                seen[position] += unit.slice.len();
            }
        }
        assert!(seen.iter().all(|&n| n == sig.iter().product::<usize>()), "{units:?}");
    }

    #[test]
    fn every_pixel_is_in_one_piece() {
        for (nav, sig, chunk) in [
            (vec![5, 7], vec![6, 9], vec![2, 3, 4, 4]),
            (vec![100, 100], vec![256, 256], vec![1, 16, 64, 64]),
            (vec![3], vec![4096, 4096], vec![2, 512, 512]),
            (vec![2, 2, 2], vec![70_000], vec![2, 1, 2, 1000]),
            (vec![1], vec![3, 4000, 2000], vec![1, 1, 3000, 7]),
        ] {
            let units = Units::of_chunks(&nav, &sig, &chunk, 8).unwrap();
            covers(&units, &nav, &sig);
            let band = units.tiling.tile_shape();
            for (axis, (&step, &chunk)) in units.step.iter().chain(band).zip(&chunk).enumerate() {
                let whole = axis >= nav.len() && step == sig[axis - nav.len()];
                assert!(step.is_multiple_of(chunk) || whole, "{step} {chunk}");
            }
            covers(&Units::of_frames(&nav, &sig, 8).unwrap(), &nav, &sig);
        }
    }
}
