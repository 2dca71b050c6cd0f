//! Which pixels a centre of mass looks at, and in which row and column each of them is.

/// The pixels of a frame, or of a disk or ring in it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Region {
    pub(super) n_pixels: usize,
    width: f64,
    per_width: f64,
    centre: [f64; 2],
    is_whole: bool,
    /// The squares of the outer and of the inner radius; of a disk, the latter is negative.
    radii: [f64; 2],
    pub(super) largest_coordinate: u64,
}

impl Region {
    /// The pixels at most `r` from the `centre` of a frame and, if there is an inner radius, more
    /// than that away.
    pub(super) fn new(
        [rows, columns]: [usize; 2],
        centre: [f64; 2],
        r: f64,
        ri: Option<f64>,
    ) -> Self {
        let inner = ri.map_or(-1.0, |ri| ri * ri);
        Region {
            n_pixels: rows * columns,
            width: columns as f64,
            per_width: 1.0 / columns as f64,
            centre,
            is_whole: r.is_infinite() && ri.is_none(),
            radii: [r * r, inner],
            largest_coordinate: u64::try_from(rows.max(columns)).unwrap_or(u64::MAX),
        }
    }

    /// Whether all pixels count.
    pub(super) fn is_whole(&self) -> bool {
        self.is_whole
    }

    /// The row and the column of a pixel, and whether it counts.
    ///
    /// A pixel is taken by its middle, which is at least half a pixel away from any other row:
    /// far more than what rounding could do. Adding [`ROUND`] rounds to the nearest integer.
    #[inline(always)]
    pub(super) fn place<const WHOLE: bool>(&self, pixel: u32) -> (f64, f64, bool) {
        /// Above this, numbers of double precision are integers.
        const ROUND: f64 = 6_755_399_441_055_744.0;
        let pixel = f64::from(pixel);
        let row = ((pixel + 0.5) * self.per_width - 0.5) + ROUND - ROUND;
        let column = pixel - row * self.width;
        if WHOLE {
            return (row, column, true);
        }
        let (dy, dx) = (row - self.centre[0], column - self.centre[1]);
        let distance = dx * dx + dy * dy;
        let [outer, inner] = self.radii;
        (row, column, (distance <= outer) & (distance > inner))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reductions::masks::geometry::row_spans;

    #[test]
    fn every_pixel_has_its_row_and_column() {
        let wide = u32::MAX as usize;
        for [rows, width] in [
            [7, 1],
            [1, 9],
            [256, 256],
            [300, 7],
            [4096, 4095],
            [65537, 65535],
            [1, wide],
            [wide, 1],
        ] {
            let region = Region::new([rows, width], [0.0, 0.0], f64::INFINITY, None);
            let step = (rows * width / 100_000).max(1);
            let edges = (0..rows)
                .step_by(rows.div_ceil(1000))
                .flat_map(|row| [row * width, (row + 1) * width - 1]);
            for pixel in (0..rows * width).step_by(step).chain(edges) {
                let (row, column, _) = region.place::<true>(pixel as u32);
                assert_eq!([row, column], [(pixel / width) as f64, (pixel % width) as f64]);
            }
        }
    }

    #[test]
    fn regions_are_those_of_dense_frames() {
        for centre in [[6.0, 8.0], [5.3, 9.7], [-2.0, 3.0], [12.5, 20.0]] {
            for (r, ri) in [(4.0, Some(2.0)), (7.5, None), (0.0, None), (f64::INFINITY, Some(3.3))]
            {
                let spans = row_spans([13, 17], centre, r, ri).unwrap();
                let region = Region::new([13, 17], centre, r, ri);
                for pixel in 0..13 * 17 {
                    let inside = spans[pixel / 17].iter().any(|span| span.contains(&(pixel % 17)));
                    assert_eq!(region.place::<false>(pixel as u32).2, inside, "{pixel}");
                }
            }
        }
    }
}
