//! Parsers of single values on the command line.

use framefold::core::StoredDType;
use std::num::NonZeroUsize;

/// A shape: `128,128` or `128x128`.
pub(super) fn shape(text: &str) -> Result<Shape, String> {
    let number = |part: &str| {
        let not = if part.trim().is_empty() { text } else { part.trim() };
        part.trim()
            .parse::<usize>()
            .map_err(|_| format!("'{not}' is not a length; write a shape like 128,128"))
    };
    text.trim_end_matches(',').split([',', 'x']).map(number).collect()
}

/// A number of things, of which there must be one.
pub(super) fn count(text: &str) -> Result<NonZeroUsize, String> {
    text.parse().map_err(|_| "it must be a whole number from 1 on".to_owned())
}

/// An index into an array: `3,4,0`.
pub(super) fn index(text: &str) -> Result<Shape, String> {
    shape(text).map_err(|_| {
        format!("'{text}' is not an index; write one number per axis, from 0 on: 3,4,0")
    })
}

/// A list of lengths or indices; named so that clap takes the list for one value.
pub(super) type Shape = Vec<usize>;

/// A NumPy dtype name or type string.
pub(super) fn dtype(text: &str) -> Result<StoredDType, String> {
    StoredDType::parse(text).map_err(|error| error.to_string())
}

/// Two percentiles: `0.1,99.9`.
pub(super) fn percentiles(text: &str) -> Result<(f64, f64), String> {
    match numbers(text)?.as_slice() {
        &[low, high] if 0.0 <= low && low < high && high <= 100.0 => Ok((low, high)),
        _ => Err("expected two percentiles between 0 and 100, the lower first: 0.1,99.9".into()),
    }
}

/// A finite number.
pub(super) fn finite(text: &str) -> Result<f64, String> {
    match text.trim().parse::<f64>() {
        Ok(value) if value.is_finite() => Ok(value),
        _ => Err("expected a finite number".into()),
    }
}

/// A number of bytes: `500MB`, `2GiB`, `1000`.
#[cfg(feature = "view")]
pub(super) fn bytes(text: &str) -> Result<u64, String> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    let factor = match unit.trim().to_ascii_lowercase().as_str() {
        "" | "b" => Some(1.0),
        "kb" => Some(1e3),
        "mb" => Some(1e6),
        "gb" => Some(1e9),
        "tb" => Some(1e12),
        "kib" => Some(1024.0),
        "mib" => Some(1024f64.powi(2)),
        "gib" => Some(1024f64.powi(3)),
        "tib" => Some(1024f64.powi(4)),
        _ => None,
    };
    match (number.parse::<f64>(), factor) {
        (Ok(number), Some(factor)) if number.is_finite() => Ok((number * factor) as u64),
        _ => Err("expected a number of bytes with a unit: 500MB, 2GiB".into()),
    }
}

/// Numbers separated by commas.
pub(super) fn numbers(text: &str) -> Result<Vec<f64>, String> {
    text.split(',').map(finite).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shapes() {
        assert_eq!(shape("128,64"), Ok(vec![128, 64]));
        assert_eq!(shape("128x64"), Ok(vec![128, 64]));
        assert_eq!(shape("128,"), Ok(vec![128]));
        assert_eq!(shape(" 3 , 4 "), Ok(vec![3, 4]));
        assert!(shape("x").unwrap_err().starts_with("'x' is not a length"));
        for bad in ["", "a", "1,,2", "-1", "1.5", "99999999999999999999"] {
            assert!(shape(bad).is_err(), "{bad}");
        }
    }

    #[cfg(feature = "view")]
    #[test]
    fn numbers_of_bytes() {
        for (text, expected) in
            [("0", 0), ("17", 17), ("500MB", 500_000_000), ("1.5 GiB", 3 << 29), ("2kib", 2048)]
        {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for bad in ["", "GB", "-1GB", "1XB", "1.2.3", "one", "1 GB 2"] {
            assert!(bytes(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn percentile_pairs() {
        assert_eq!(percentiles("1,99"), Ok((1.0, 99.0)));
        for bad in ["99,1", "0", "0,101", "-1,5", "nan,5", "0,50,100"] {
            assert!(percentiles(bad).is_err(), "{bad}");
        }
    }
}
