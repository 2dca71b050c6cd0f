//! Numbers in pictures: round marks on scales, lengths of scale bars, and how many digits they have.

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
        let within = |value: &f64| (min * (1.0 - 1e-9)..=max * (1.0 + 1e-9)).contains(value);
        let decades: Vec<f64> = (0..=MOST as i32)
            .map(|i| 10_f64.powf(first + f64::from(i) * step))
            .filter(within)
            .collect();
        if decades.len() > 1 {
            decades
        } else {
            // Ends alone do not show that steps are ratios.
            (-1..=1)
                .map(|i| 10_f64.powf(first + f64::from(i)))
                .flat_map(|power| [power, 2.0 * power, 5.0 * power])
                .filter(within)
                .collect()
        }
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

/// Digits by which numbers are known more exactly than they differ: marks need not be round.
const BEYOND: i32 = 3;
/// Sums of steps have errors in the digits after these.
const EXACT: i32 = 15;

/// A number among others that differ by `step`: with so many significant digits, at least
/// `least`, that what they differ by can be read.
pub fn number(value: f64, step: f64, least: i32) -> String {
    let exponent = decade(value);
    let needed = exponent.saturating_sub(decade(step)).saturating_add(1);
    let digits = needed.saturating_add(BEYOND).min(EXACT).max(needed).clamp(least, EXACT + 2);
    let rounded: f64 = format!("{value:.*e}", digits as usize - 1).parse().unwrap_or(value);
    let all_known = (5..digits).contains(&exponent);
    match rounded.abs() {
        0.0 => "0".to_owned(),
        size if !all_known && !(1e-3..1e5).contains(&size) => format!("{rounded:e}"),
        _ => format!("{rounded}"),
    }
}

/// The numbers at marks of a scale that is `span` wide, with so many digits that neighbours differ.
pub fn labels(marks: &[f64], span: f64) -> Vec<String> {
    let step = |i: usize| match (marks.get(i), marks.get(i + 1)) {
        (Some(one), Some(next)) => (next - one).abs(),
        _ => span,
    };
    let before = |i: usize| i.checked_sub(1).map_or(span, step);
    let label = |(i, value): (usize, &f64)| number(*value, step(i).min(before(i)), 4);
    marks.iter().enumerate().map(label).collect()
}

/// The power of ten of the first digit.
fn decade(value: f64) -> i32 {
    match value.abs() {
        0.0 => 0,
        size if size.is_finite() => size.log10().floor() as i32,
        _ => i32::MAX,
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
        assert_eq!(labels(&decades, 2000.0), ["1", "10", "100", "1000"]);
        assert_eq!(ticks(&Scale { min: 2.0, max: 5.0, log: true }), [2.0, 5.0]);
        // Within two decades, too, neighbours are no equal differences apart.
        for (min, max, text) in [
            (14_040.0, 975_972.0, "20000 50000 1e5 2e5 5e5"),
            (1.5, 80.0, "2 5 10 20 50"),
            (0.02, 0.15, "0.02 0.05 0.1"),
            (3.0, 4.0, "3 4"),
        ] {
            let marks = ticks(&Scale { min, max, log: true });
            assert_eq!(labels(&marks, max - min).join(" "), text);
        }
    }

    #[test]
    fn lengths_are_round() {
        for (most, length) in [(3.2, 2.0), (0.99, 0.5), (1.0, 1.0), (70.0, 50.0), (0.0021, 0.002)] {
            assert!((round_length(most) / length - 1.0).abs() < 1e-12, "{most}");
        }
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in
            [(0.1 + 0.2, "0.3"), (0.0, "0"), (1e-7, "1e-7"), (123_456.0, "1.235e5"), (-2.5, "-2.5")]
        {
            assert_eq!(labels(&[value], f64::INFINITY), [text]);
        }
        for (value, text) in
            [(1.0 / 3.0, "0.333333"), (-2e12, "-2e12"), (123_456_789.0, "1.23457e8")]
        {
            assert_eq!(number(value, f64::INFINITY, 6), text);
        }
    }

    #[test]
    fn neighbouring_numbers_differ() {
        let at_marks = |min, max| labels(&linear(min, max), max - min).join(" ");
        assert_eq!(at_marks(12_347_310.2, 12_348_890.7), "12347500 12348000 12348500");
        assert_eq!(at_marks(12_345.0, 12_350.0), "12345 12346 12347 12348 12349 12350");
        assert_eq!(at_marks(1e6, 1.1e6), "1e6 1.02e6 1.04e6 1.06e6 1.08e6 1.1e6");
        assert_eq!(
            at_marks(-0.123_456, -0.123_453),
            "-0.123456 -0.1234555 -0.123455 -0.1234545 -0.123454 -0.1234535 -0.123453"
        );
        // Ends are no round numbers.
        assert_eq!(labels(&[12_347_310.2, 12_348_890.7], 1580.5), ["12347310", "12348891"]);
        assert_eq!(labels(&[0.0, 98_765.4], 98_765.4), ["0", "98770"]);
        let next = labels(&[1.0, 1.0 + f64::EPSILON], f64::EPSILON);
        assert_ne!(next[0], next[1]);
        // A mark alone, as of a scale without extent.
        assert_eq!(labels(&[12_348_890.7], 1580.5), ["12348891"]);
        assert_eq!(labels(&[12_348_890.7], 0.0), ["12348890.7"]);
    }
}
