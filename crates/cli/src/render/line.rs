//! One-dimensional results as a line on a light ground.

use super::{Picture, Scale};

const GROUND: [u8; 4] = [250, 250, 250, 255];
const GAP: [u8; 4] = [205, 205, 205, 255];
const LINE: [u8; 4] = [33, 84, 140, 255];

/// Draws `values` from left to right on `width` columns, the upper end of the scale at the top.
///
/// A value takes several columns where there are fewer values than columns; where there are
/// more, a column shows the range of its values. Columns without data are grey, and the line is
/// broken there.
pub fn draw_line(values: &[f64], scale: &Scale, width: usize, height: usize) -> Picture {
    let height = height.max(2);
    let mut picture = Picture::filled(width, height, GROUND);
    let row = |value: &f64| {
        let position = scale.position(*value)?;
        Some(((1.0 - position) * (height - 1) as f64).round() as usize)
    };
    let mut previous: Option<usize> = None;
    for x in 0..width {
        let first = x * values.len() / width;
        let end = ((x + 1) * values.len() / width).max(first + 1).min(values.len());
        let rows = || values[first.min(end)..end].iter().filter_map(row);
        match (rows().min(), rows().max()) {
            (Some(top), Some(bottom)) => {
                let from = previous.map_or(top, |y| y.min(top));
                let to = previous.map_or(bottom, |y| y.max(bottom));
                // One row more, so that level stretches are two pixels thick.
                for y in from..=to + 1 {
                    picture.set(y, x, LINE);
                }
            }
            _ => (0..height).for_each(|y| picture.set(y, x, GAP)),
        }
        previous = rows().next_back();
    }
    picture
}

#[cfg(test)]
mod tests {
    use super::*;

    const UNIT: Scale = Scale { min: 0.0, max: 1.0, log: false };

    #[test]
    fn high_values_are_at_the_top_and_gaps_are_grey() {
        let picture = draw_line(&[0.0, 1.0, f64::NAN, 1.0], &UNIT, 12, 11);
        assert_eq!((picture.width(), picture.height()), (12, 11));
        assert_eq!(picture.pixel(10, 1), LINE);
        assert_eq!(picture.pixel(0, 5), LINE);
        assert_eq!(picture.pixel(0, 1), GROUND);
        assert!((0..11).all(|y| (6..9).all(|x| picture.pixel(y, x) == GAP)));
        assert_eq!(picture.pixel(0, 10), LINE);
        assert!((2..11).all(|y| picture.pixel(y, 9) == GROUND), "no line across the gap");
    }

    #[test]
    fn steps_are_joined() {
        let picture = draw_line(&[0.0, 1.0], &UNIT, 4, 11);
        assert!((0..11).all(|y| picture.pixel(y, 2) == LINE));
        assert!((2..11).all(|y| picture.pixel(y, 3) == GROUND));
    }

    #[test]
    fn crowded_columns_show_the_range() {
        let values: Vec<f64> = (0..100).map(|i| f64::from(i % 2)).collect();
        let picture = draw_line(&values, &UNIT, 10, 11);
        assert!((0..11).all(|y| (0..10).all(|x| picture.pixel(y, x) == LINE)));
        let empty = draw_line(&[], &UNIT, 3, 4);
        assert!(empty.pixels().iter().all(|&pixel| pixel == GAP));
    }
}
