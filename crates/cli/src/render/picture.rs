//! An RGBA picture in memory, and how pictures are enlarged and put side by side.

/// The pixel drawn where there is no data: transparent, grey below.
pub const MISSING: [u8; 4] = [128, 128, 128, 0];

/// Pixels of 8 bits red, green, blue and opacity, row after row from the top left.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Picture {
    width: usize,
    height: usize,
    pixels: Vec<[u8; 4]>,
}

impl Picture {
    /// A picture of one colour.
    pub fn filled(width: usize, height: usize, colour: [u8; 4]) -> Self {
        Picture { width, height, pixels: vec![colour; width * height] }
    }

    /// A picture whose pixel at (row, column) is `colour(row, column)`.
    pub fn from_fn(
        width: usize,
        height: usize,
        mut colour: impl FnMut(usize, usize) -> [u8; 4],
    ) -> Self {
        let mut pixels = Vec::with_capacity(width * height);
        for y in 0..height {
            pixels.extend((0..width).map(|x| colour(y, x)));
        }
        Picture { width, height, pixels }
    }

    /// The number of columns.
    pub fn width(&self) -> usize {
        self.width
    }

    /// The number of rows.
    pub fn height(&self) -> usize {
        self.height
    }

    /// The pixels, row after row.
    pub fn pixels(&self) -> &[[u8; 4]] {
        &self.pixels
    }

    /// The pixel at (row, column), or [`MISSING`] outside of the picture.
    pub fn pixel(&self, y: usize, x: usize) -> [u8; 4] {
        if x < self.width && y < self.height { self.pixels[y * self.width + x] } else { MISSING }
    }

    /// Sets the pixel at (row, column); outside of the picture nothing happens.
    pub fn set(&mut self, y: usize, x: usize, colour: [u8; 4]) {
        if x < self.width && y < self.height {
            self.pixels[y * self.width + x] = colour;
        }
    }

    /// Enlarges by a whole factor; every pixel becomes a square. A factor of 0 counts as 1.
    #[must_use]
    pub fn enlarged(self, factor: usize) -> Self {
        if factor <= 1 {
            return self;
        }
        Picture::from_fn(self.width * factor, self.height * factor, |y, x| {
            self.pixels[y / factor * self.width + x / factor]
        })
    }

    /// Copies `other` in with its top left corner at (row, column); what sticks out is cut off.
    pub fn paste(&mut self, other: &Picture, top: usize, left: usize) {
        for y in 0..other.height {
            for x in 0..other.width {
                self.set(top + y, left + x, other.pixel(y, x));
            }
        }
    }

    /// This picture with `other` to its right, both aligned at the bottom, `gap` columns apart.
    #[must_use]
    pub fn beside(self, other: &Picture, gap: usize) -> Self {
        let height = self.height.max(other.height);
        let mut joined = Picture::filled(self.width + gap + other.width, height, MISSING);
        joined.paste(&self, height - self.height, 0);
        joined.paste(other, height - other.height, self.width + gap);
        joined
    }
}

/// Lays pictures out on a grid, about as wide as high, `gap` pixels apart, in reading order.
pub fn montage(pictures: &[Picture], gap: usize) -> Picture {
    montage_on(pictures, gap, MISSING)
}

/// The same, on a ground of one colour.
pub fn montage_on(pictures: &[Picture], gap: usize, ground: [u8; 4]) -> Picture {
    let width = pictures.iter().map(Picture::width).max().unwrap_or(0);
    let height = pictures.iter().map(Picture::height).max().unwrap_or(0);
    let columns = grid_columns(pictures.len(), width, height);
    let rows = pictures.len().div_ceil(columns);
    let span = |n: usize, len: usize| n * len + n.saturating_sub(1) * gap;
    let mut sheet = Picture::filled(span(columns, width), span(rows, height), ground);
    for (i, picture) in pictures.iter().enumerate() {
        sheet.paste(picture, i / columns * (height + gap), i % columns * (width + gap));
    }
    sheet
}

/// The number of columns for which `n` cells of the given size are closest to a square.
fn grid_columns(n: usize, width: usize, height: usize) -> usize {
    let squareness = |columns: usize| {
        let across = (columns * width.max(1)) as f64;
        let down = (n.div_ceil(columns) * height.max(1)) as f64;
        (across.max(down) / across.min(down), columns)
    };
    (1..=n.max(1))
        .map(squareness)
        .min_by(|a, b| a.0.total_cmp(&b.0).then(b.1.cmp(&a.1)))
        .map_or(1, |best| best.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RED: [u8; 4] = [255, 0, 0, 255];
    const BLUE: [u8; 4] = [0, 0, 255, 255];

    #[test]
    fn enlarging_repeats_pixels() {
        let picture = Picture::from_fn(2, 1, |_, x| if x == 0 { RED } else { BLUE }).enlarged(3);
        assert_eq!((picture.width(), picture.height()), (6, 3));
        for y in 0..3 {
            for x in 0..6 {
                assert_eq!(picture.pixel(y, x), if x < 3 { RED } else { BLUE });
            }
        }
    }

    #[test]
    fn a_montage_keeps_reading_order() {
        let cells: Vec<_> = (0..5u8).map(|i| Picture::filled(2, 2, [i, 0, 0, 255])).collect();
        let sheet = montage(&cells, 1);
        assert_eq!((sheet.width(), sheet.height()), (8, 5));
        assert_eq!(sheet.pixel(0, 3), [1, 0, 0, 255]);
        assert_eq!(sheet.pixel(4, 0), [3, 0, 0, 255]);
        assert_eq!(sheet.pixel(0, 2), MISSING);
        assert_eq!(sheet.pixel(4, 7), MISSING);
        assert_eq!(montage(&cells[..1], 1), cells[0]);
    }

    #[test]
    fn flat_cells_are_stacked() {
        assert_eq!(grid_columns(4, 100, 10), 1);
        assert_eq!(grid_columns(2, 10, 10), 2);
        assert_eq!(grid_columns(0, 0, 0), 1);
    }

    #[test]
    fn beside_aligns_at_the_bottom() {
        let joined = Picture::filled(1, 3, RED).beside(&Picture::filled(1, 1, BLUE), 1);
        assert_eq!((joined.width(), joined.height()), (3, 3));
        assert_eq!(joined.pixel(2, 2), BLUE);
        assert_eq!(joined.pixel(0, 2), MISSING);
    }
}
