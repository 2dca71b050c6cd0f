//! Which value gets which place on the colour scale.

use super::{Colormap, MISSING, Picture, Plane};

/// The ends of colour scales, as percentiles: a few extremes do not spoil the contrast.
pub const ROBUST: (f64, f64) = (0.1, 99.9);

/// How the ends of the colour scale are chosen.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ScaleOptions {
    /// The ends as percentiles of the finite values, 0 to 100; [`ROBUST`] if not given.
    pub percentiles: Option<(f64, f64)>,
    /// The value at the lower end, instead of the percentile.
    pub min: Option<f64>,
    /// The value at the upper end, instead of the percentile.
    pub max: Option<f64>,
    /// Whether equal ratios get equal steps; values that are not positive are at the lower end.
    pub log: bool,
}

/// The ends of a colour scale.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Scale {
    /// The value at the lower end.
    pub min: f64,
    /// The value at the upper end.
    pub max: f64,
    /// Whether steps are equal ratios rather than equal differences.
    pub log: bool,
}

impl Scale {
    /// The scale for `values`; those that are not finite (not positive, on a logarithmic
    /// scale) do not count. An end that is given beyond all values is kept, and the other one
    /// follows it. Without any values the scale goes from 0 to 1, a logarithmic one from 0.1.
    pub fn fit<'a>(values: impl IntoIterator<Item = &'a f64>, options: &ScaleOptions) -> Self {
        let counts = |value: &f64| value.is_finite() && (!options.log || *value > 0.0);
        let mut sorted: Vec<f64> = values.into_iter().copied().filter(counts).collect();
        sorted.sort_by(f64::total_cmp);
        let (low, high) = options.percentiles.unwrap_or(ROBUST);
        // Percentiles of sparse data can coincide although the data is not constant.
        let lows = || [percentile(&sorted, low), sorted.first().copied()].into_iter().flatten();
        let highs = || [percentile(&sorted, high), sorted.last().copied()].into_iter().flatten();
        let (min, max) = match (options.min, options.max) {
            (Some(min), Some(max)) => (min, max),
            (Some(min), None) => {
                (min, highs().find(|high| *high > min).unwrap_or(min + extent(min)))
            }
            (None, Some(max)) => {
                let below = if options.log { 0.5 * max } else { max - extent(max) };
                (lows().find(|low| *low < max).unwrap_or(below), max)
            }
            (None, None) => {
                let ends = lows().zip(highs());
                ends.reduce(|ends, whole| if ends.0 < ends.1 { ends } else { whole })
                    .unwrap_or((if options.log { 0.1 } else { 0.0 }, 1.0))
            }
        };
        Scale { min: min.max(f64::MIN), max: max.min(f64::MAX), log: options.log }
    }

    /// The place of `value`, 0 (lower end) to 1; `None` if it is not a number.
    ///
    /// On a scale without extent everything above `min` is at the upper end, all else at the
    /// lower.
    pub fn position(&self, value: f64) -> Option<f64> {
        if value.is_nan() {
            return None;
        }
        let place = |value: f64| if self.log { value.max(f64::MIN_POSITIVE).ln() } else { value };
        let (min, max) = (place(self.min), place(self.max));
        if value == f64::INFINITY {
            return Some(1.0);
        }
        let position = if max > min {
            (place(value) - min) / (max - min)
        } else {
            f64::from(u8::from(value > self.min))
        };
        // Ends as far apart as floats go give infinity / infinity.
        Some(if position.is_nan() { 0.0 } else { position.clamp(0.0, 1.0) })
    }
}

/// How far the other end of a scale is from `end`, if no value is.
fn extent(end: f64) -> f64 {
    if end == 0.0 { 1.0 } else { end.abs() }
}

/// Draws a plane: one pixel per value.
pub fn draw_scalars(plane: &Plane, scale: &Scale, colours: &Colormap) -> Picture {
    Picture::from_fn(plane.width(), plane.height(), |y, x| {
        let value = plane.values()[y * plane.width() + x];
        scale.position(value).map_or(MISSING, |position| colours.colour(position))
    })
}

/// The value below which `percent` of the sorted values lie, interpolated as NumPy does.
fn percentile(sorted: &[f64], percent: f64) -> Option<f64> {
    let last = sorted.len().checked_sub(1)?;
    let place = (percent / 100.0).clamp(0.0, 1.0) * last as f64;
    let below = place.floor() as usize;
    let (a, b) = (*sorted.get(below)?, *sorted.get((below + 1).min(last))?);
    let fraction = place - place.floor();
    // Rounding does not lead beyond the two: of equal values, it is that value.
    Some((a * (1.0 - fraction) + b * fraction).clamp(a, b))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_as_numpy() {
        let sorted = [1.0, 2.0, 4.0, 8.0];
        assert_eq!(percentile(&sorted, 0.0), Some(1.0));
        assert_eq!(percentile(&sorted, 50.0), Some(3.0));
        assert_eq!(percentile(&sorted, 100.0), Some(8.0));
        assert!((percentile(&sorted, 10.0).unwrap() - 1.3).abs() < 1e-12);
        assert_eq!(percentile(&[], 50.0), None);
        let widest = percentile(&[f64::MIN, f64::MAX], 50.0);
        assert_eq!(widest, Some(0.0));
        for value in [0.1, 2.5, 1.2] {
            let all = vec![value; 42];
            assert_eq!((percentile(&all, 0.1), percentile(&all, 99.9)), (Some(value), Some(value)));
        }
    }

    #[test]
    fn one_hot_pixel_and_nan_do_not_spoil_the_contrast() {
        let mut values: Vec<f64> = (0..10_000).map(f64::from).collect();
        values.extend([1e12, f64::NAN, f64::INFINITY, f64::NEG_INFINITY]);
        let scale = Scale::fit(&values, &ScaleOptions::default());
        assert!(scale.min >= 0.0 && scale.max < 10_000.0, "{scale:?}");
        assert_eq!(scale.position(f64::NAN), None);
        assert_eq!(scale.position(f64::INFINITY), Some(1.0));
        assert_eq!(scale.position(f64::NEG_INFINITY), Some(0.0));
    }

    #[test]
    fn sparse_values_still_get_a_scale() {
        let mut values = vec![0.0; 100_000];
        values[5] = 3.0;
        let scale = Scale::fit(&values, &ScaleOptions::default());
        assert_eq!((scale.min, scale.max), (0.0, 3.0));
        assert_eq!(scale.position(3.0), Some(1.0));
    }

    #[test]
    fn constant_and_empty_values() {
        let scale = Scale::fit(&[2.0, 2.0], &ScaleOptions::default());
        assert_eq!(scale.position(2.0), Some(0.0));
        assert_eq!(scale.position(2.5), Some(1.0));
        let scale = Scale::fit(&[f64::NAN], &ScaleOptions::default());
        assert_eq!((scale.min, scale.max), (0.0, 1.0));
    }

    #[test]
    fn logarithmic_steps_are_ratios() {
        let percentiles = Some((0.0, 100.0));
        let options = ScaleOptions { percentiles, log: true, ..ScaleOptions::default() };
        let scale = Scale::fit(&[-5.0, 0.0, 1.0, 100.0], &options);
        assert_eq!((scale.min, scale.max), (1.0, 100.0));
        assert!((scale.position(10.0).unwrap() - 0.5).abs() < 1e-12);
        assert_eq!(scale.position(0.0), Some(0.0));
        assert_eq!(scale.position(-1.0), Some(0.0));
        let scale = Scale::fit(&[-5.0, 0.0], &options);
        assert_eq!((scale.min, scale.max), (0.1, 1.0));
    }

    #[test]
    fn given_ends_win() {
        let options = ScaleOptions { min: Some(0.0), max: Some(10.0), ..ScaleOptions::default() };
        let scale = Scale::fit(&[4.0, 5.0], &options);
        assert_eq!(scale.position(5.0), Some(0.5));
        assert_eq!(scale.position(11.0), Some(1.0));
    }

    #[test]
    fn given_ends_beyond_all_values_are_kept() {
        let ends = |min, max, log| {
            let options = ScaleOptions { min, max, log, ..ScaleOptions::default() };
            let scale = Scale::fit(&[3.0, 4.0, 5.0], &options);
            (scale.min, scale.max)
        };
        assert_eq!(ends(Some(100.0), None, false), (100.0, 200.0));
        assert_eq!(ends(Some(5.0), None, false), (5.0, 10.0));
        assert_eq!(ends(None, Some(0.0), false), (-1.0, 0.0));
        assert_eq!(ends(None, Some(-2.0), false), (-4.0, -2.0));
        assert_eq!(ends(None, Some(2.0), false), (0.0, 2.0));
        assert_eq!(ends(None, Some(2.0), true), (1.0, 2.0));
        assert_eq!(ends(Some(f64::MAX), None, false), (f64::MAX, f64::MAX));
        assert_eq!(ends(Some(4.5), None, false).0, 4.5);
        let options = ScaleOptions { max: Some(-3.0), ..ScaleOptions::default() };
        let nothing = Scale::fit(&[], &options);
        assert_eq!((nothing.min, nothing.max), (-6.0, -3.0));
    }

    #[test]
    fn missing_values_are_transparent() {
        let plane = Plane::new(3, vec![0.0, f64::NAN, 1.0]);
        let scale = Scale { min: 0.0, max: 1.0, log: false };
        let gray = Colormap::by_name("gray").unwrap();
        let picture = draw_scalars(&plane, &scale, &gray);
        assert_eq!(picture.pixels(), [[0, 0, 0, 255], MISSING, [255; 4]]);
    }

    #[test]
    fn the_widest_scale_is_still_defined() {
        let scale = Scale { min: f64::MIN, max: f64::MAX, log: false };
        for value in [f64::MIN, 0.0, f64::MAX] {
            assert!((0.0..=1.0).contains(&scale.position(value).unwrap()));
        }
    }
}
