//! Pixels put together in cells: square blocks, or rings around a point.

use framefold::Result;
use framefold::core::memory;

/// A cell for each pixel.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Binning {
    /// The cell of each pixel.
    pub(crate) of_pixel: Vec<u32>,
    /// The number of pixels of each cell.
    pub(crate) sizes: Vec<u32>,
    /// What it is called on pictures: `binned 8×8`.
    pub(crate) label: String,
    /// Rows and columns of a block; `None` for rings.
    pub(crate) block: Option<[usize; 2]>,
}

impl Binning {
    /// Blocks of `by × bx` pixels, smaller ones at the far borders.
    ///
    /// # Errors
    /// `Limit` if there is no memory for it.
    pub(crate) fn blocks(rows: usize, columns: usize, [by, bx]: [usize; 2]) -> Result<Self> {
        let wide = columns.div_ceil(bx);
        let n = rows.div_ceil(by) * wide;
        let cell = |pixel: usize| (pixel / columns / by) * wide + pixel % columns / bx;
        let label = format!("binned {by}×{bx}");
        Binning::new(rows * columns, n, cell, label, Some([by, bx]))
    }

    /// Rings around a point, `width` wide: ring `k` holds what is at most `k` widths away, and more
    /// than the ring before it.
    ///
    /// # Errors
    /// `Limit` if there is no memory for it.
    pub(crate) fn rings(
        rows: usize,
        columns: usize,
        [cy, cx]: [f64; 2],
        width: f64,
    ) -> Result<Self> {
        let cell = |pixel: usize| {
            let (dy, dx) = ((pixel / columns) as f64 - cy, (pixel % columns) as f64 - cx);
            let square = dx * dx + dy * dy;
            // As masks compare: by squares.
            let inside = |ring: f64| square <= (ring * width) * (ring * width);
            let mut ring = (square.sqrt() / width).floor();
            while !inside(ring) {
                ring += 1.0;
            }
            while ring > 0.0 && inside(ring - 1.0) {
                ring -= 1.0;
            }
            ring as usize
        };
        let last = (0..rows * columns).map(cell).max().unwrap_or(0);
        let label = format!("binned in rings of {width} px");
        Binning::new(rows * columns, last + 1, cell, label, None)
    }

    fn new(
        n_pixels: usize,
        n_cells: usize,
        cell: impl Fn(usize) -> usize,
        label: String,
        block: Option<[usize; 2]>,
    ) -> Result<Self> {
        let mut of_pixel = memory::with_room(n_pixels)?;
        let mut sizes = memory::zeros(n_cells)?;
        for pixel in 0..n_pixels {
            let cell = cell(pixel);
            of_pixel.push(u32::try_from(cell).unwrap_or(u32::MAX));
            sizes[cell] += 1;
        }
        Ok(Binning { of_pixel, sizes, label, block })
    }

    /// Which part of its cell each pixel is: by brightness in `frame`, and alike where nothing is bright, or if
    /// there is no frame.
    ///
    /// # Errors
    /// `Limit` if there is no memory for it.
    pub(crate) fn parts(&self, frame: &[f64]) -> Result<Vec<f32>> {
        let bright = |pixel: usize| match frame.get(pixel) {
            Some(&value) if value > 0.0 && value.is_finite() => value,
            _ => 0.0,
        };
        let mut totals: Vec<f64> = memory::zeros(self.n_cells())?;
        for (pixel, &cell) in self.of_pixel.iter().enumerate() {
            totals[cell as usize] += bright(pixel);
        }
        memory::collected(self.of_pixel.iter().enumerate().map(|(pixel, &cell)| {
            let total = totals[cell as usize];
            let part = match total > 0.0 && total.is_finite() {
                true => bright(pixel) / total,
                false => 1.0 / f64::from(self.sizes[cell as usize].max(1)),
            };
            part as f32
        }))
    }

    pub(crate) fn n_cells(&self) -> usize {
        self.sizes.len()
    }
}
