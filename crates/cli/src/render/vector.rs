//! Fields of two components as colours: hue shows the direction, saturation the length.

use super::{MISSING, Picture, Plane, ROBUST, ScaleOptions, direction_colour};

/// What is subtracted from a field before it is drawn.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Center {
    /// Nothing: vectors are drawn as they are.
    None,
    /// The mean of each component.
    Mean,
    /// The median of each component: a common offset (a beam that is not on the detector's
    /// centre, say) would otherwise paint everything in one hue.
    #[default]
    Median,
}

/// How a field of vectors is drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct VectorOptions {
    /// How the length with full saturation is chosen: `max`, or the upper percentile. The
    /// lower end is `min`, or 0. Logarithmic scales are not used.
    pub scale: ScaleOptions,
    /// What is subtracted first.
    pub center: Center,
}

/// What the colours of a drawn field mean.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct VectorScale {
    /// What was subtracted, y and x.
    pub offset: (f64, f64),
    /// The length drawn grey.
    pub min: f64,
    /// The length with full saturation.
    pub max: f64,
}

/// Draws the field with components `y` and `x`, one pixel per vector.
///
/// Vectors of which a component is not finite have no colour. Planes of different shape are
/// cut to what they have in common.
pub fn draw_vectors(y: &Plane, x: &Plane, options: &VectorOptions) -> (Picture, VectorScale) {
    let finite = |(y, x): &(f64, f64)| y.is_finite() && x.is_finite();
    let vectors: Vec<(f64, f64)> =
        y.values().iter().copied().zip(x.values().iter().copied()).collect();
    let known: Vec<(f64, f64)> = vectors.iter().copied().filter(finite).collect();
    let (ys, xs): (Vec<f64>, Vec<f64>) = known.iter().copied().unzip();
    let offset = match options.center {
        Center::None => (0.0, 0.0),
        Center::Mean => (mean(&ys), mean(&xs)),
        Center::Median => (median(ys), median(xs)),
    };
    let lengths: Vec<f64> = known.iter().map(|(y, x)| (y - offset.0).hypot(x - offset.1)).collect();
    let ScaleOptions { percentiles, min, max, .. } = options.scale;
    let zero = max.is_none_or(|max| max > 0.0).then_some(0.0);
    let fit = ScaleOptions {
        percentiles: Some((0.0, percentiles.unwrap_or(ROBUST).1)),
        min: min.or(zero),
        max,
        log: false,
    };
    let fitted = super::Scale::fit(&lengths, &fit);
    let scale = VectorScale { offset, min: fitted.min, max: fitted.max };
    let picture = Picture::from_fn(y.width(), y.height(), |row, column| {
        match vectors.get(row * y.width() + column).filter(|vector| finite(vector)) {
            Some((y, x)) => {
                let (y, x) = (y - offset.0, x - offset.1);
                let value = fitted.position(y.hypot(x)).unwrap_or(0.0);
                let [r, g, b] = direction_colour(y, x, value);
                [r, g, b, 255]
            }
            None => MISSING,
        }
    });
    (picture, scale)
}

fn mean(values: &[f64]) -> f64 {
    if values.is_empty() { 0.0 } else { values.iter().sum::<f64>() / values.len() as f64 }
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let n = values.len();
    match (values.get(n / 2), values.get(n.saturating_sub(1) / 2)) {
        (Some(a), Some(b)) => 0.5 * a + 0.5 * b,
        _ => 0.0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn colour(y: f64, x: f64, saturation: f64) -> [u8; 4] {
        let [r, g, b] = direction_colour(y, x, saturation);
        [r, g, b, 255]
    }

    fn draw(vectors: &[(f64, f64)], options: &VectorOptions) -> (Vec<[u8; 4]>, VectorScale) {
        let (y, x): (Vec<f64>, Vec<f64>) = vectors.iter().copied().unzip();
        let n = vectors.len();
        let (picture, scale) = draw_vectors(&Plane::new(n, y), &Plane::new(n, x), options);
        (picture.pixels().to_vec(), scale)
    }

    #[test]
    fn lengths_are_saturation_up_to_the_longest() {
        let options = VectorOptions { center: Center::None, ..VectorOptions::default() };
        let vectors = [(0.0, 2.0), (0.0, -2.0), (2.0, 0.0), (-2.0, 0.0), (0.0, 1.0), (0.0, 0.0)];
        let (pixels, scale) = draw(&vectors, &options);
        assert!((scale.max - 2.0).abs() < 1e-12);
        for ((y, x), pixel) in vectors.iter().zip(&pixels) {
            assert_eq!(*pixel, colour(*y, *x, y.hypot(*x) / 2.0));
        }
        assert_eq!(pixels[5], [127, 127, 127, 255]);
    }

    #[test]
    fn a_common_offset_is_taken_away() {
        let vectors = [(10.0, 9.0), (10.0, 10.0), (10.0, 11.0)];
        let (pixels, scale) = draw(&vectors, &VectorOptions::default());
        assert_eq!(scale.offset, (10.0, 10.0));
        let grey = [127, 127, 127, 255];
        assert_eq!(pixels, [colour(0.0, -1.0, 1.0), grey, colour(0.0, 1.0, 1.0)]);
        let mean = VectorOptions { center: Center::Mean, ..VectorOptions::default() };
        assert_eq!(draw(&vectors, &mean).0, pixels);
    }

    #[test]
    fn missing_vectors_have_no_colour() {
        let vectors = [(f64::NAN, 1.0), (1.0, f64::INFINITY), (0.0, 1.0)];
        let options = VectorOptions { center: Center::None, ..VectorOptions::default() };
        let (pixels, _) = draw(&vectors, &options);
        assert_eq!(pixels, [MISSING, MISSING, colour(0.0, 1.0, 1.0)]);
        assert_eq!(draw(&[(f64::NAN, f64::NAN)], &VectorOptions::default()).0, [MISSING]);
    }

    #[test]
    fn medians() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert_eq!(median(vec![]), 0.0);
    }
}
