//! Round numbers: marks on scales, and lengths of scale bars.

use super::Scale;

/// The most marks of a scale.
const MOST: f64 = 6.0;

/// Round numbers on a scale, from low to high; its ends, where there is no room for round ones.
pub fn ticks(scale: &Scale) -> Vec<f64> {
    let (min, max) = (scale.min, scale.max);
    let ends = if max > min { vec![min, max] } else { vec![min] };
    if !(min.is_finite() && max.is_finite() && max > min) {
        return ends;
    }
    let found: Vec<f64> = if scale.log {
        let (low, high) = (min.max(f64::MIN_POSITIVE).log10(), max.log10());
        let step = ((high - low) / MOST).ceil().max(1.0);
        let first = low.ceil();
        (0..=MOST as i32)
            .map(|i| 10_f64.powf(first + f64::from(i) * step))
            .filter(|value| *value <= max * (1.0 + 1e-9))
            .collect()
    } else {
        let step = round_step((max - min) / MOST);
        let first = (min / step).ceil();
        (0..=MOST as i32 + 1)
            .map(|i| (first + f64::from(i)) * step)
            .filter(|value| *value <= max + 1e-9 * step)
            .collect()
    };
    if found.len() < 2 { ends } else { found }
}

/// The smallest of 1, 2 and 5 times a power of ten that is not below `least`.
fn round_step(least: f64) -> f64 {
    let power = 10_f64.powf(least.log10().floor());
    [1.0, 2.0, 5.0, 10.0]
        .into_iter()
        .map(|n| n * power)
        .find(|step| *step >= least * (1.0 - 1e-9))
        .unwrap_or(10.0 * power)
}

/// The largest of 1, 2 and 5 times a power of ten that is not above `most`.
pub fn round_length(most: f64) -> f64 {
    let power = 10_f64.powf(most.log10().floor());
    [5.0, 2.0]
        .into_iter()
        .map(|n| n * power)
        .find(|length| *length <= most * (1.0 + 1e-9))
        .unwrap_or(power)
}

/// A number with so many significant digits as a mark has room for.
pub fn label(value: f64) -> String {
    // Sums of steps have errors in their last digits.
    let rounded: f64 = format!("{value:.3e}").parse().unwrap_or(value);
    match rounded.abs() {
        0.0 => "0".to_owned(),
        size if !(1e-3..1e5).contains(&size) => format!("{rounded:e}"),
        _ => format!("{rounded}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn linear(min: f64, max: f64) -> Vec<f64> {
        ticks(&Scale { min, max, log: false })
    }

    #[test]
    fn marks_are_round_and_within_the_scale() {
        assert_eq!(linear(0.0, 10.0), [0.0, 2.0, 4.0, 6.0, 8.0, 10.0]);
        assert_eq!(linear(-1.0, 1.0), [-1.0, -0.5, 0.0, 0.5, 1.0]);
        for (min, max) in [(0.13, 7.9), (1e6, 1.1e6), (-3e-9, 4e-8), (5.0, 5.001)] {
            let found = linear(min, max);
            assert!((2..=7).contains(&found.len()), "{min} to {max}: {found:?}");
            let room = 1e-6 * (max - min);
            assert!(found.iter().all(|value| *value >= min - room && *value <= max + room));
        }
        assert_eq!(linear(3.0, 3.0), [3.0]);
        assert_eq!(linear(f64::NEG_INFINITY, 1.0).len(), 2);
        let decades = ticks(&Scale { min: 0.5, max: 2000.0, log: true });
        let labels: Vec<String> = decades.into_iter().map(label).collect();
        assert_eq!(labels, ["1", "10", "100", "1000"]);
        assert_eq!(ticks(&Scale { min: 2.0, max: 5.0, log: true }), [2.0, 5.0]);
    }

    #[test]
    fn lengths_are_round() {
        for (most, length) in [(3.2, 2.0), (0.99, 0.5), (1.0, 1.0), (70.0, 50.0), (0.0021, 0.002)] {
            assert!((round_length(most) / length - 1.0).abs() < 1e-12, "{most}");
        }
    }

    #[test]
    fn labels_are_short() {
        for (value, text) in
            [(0.1 + 0.2, "0.3"), (0.0, "0"), (1e-7, "1e-7"), (123_456.0, "1.235e5"), (-2.5, "-2.5")]
        {
            assert_eq!(label(value), text);
        }
    }
}
