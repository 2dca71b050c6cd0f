//! A result in a few numbers, for people and for programs.

use crate::field::Field;
use crate::numbers::{Number, ToNumber, number_at, with_values};
use framefold::{Error, Result};
use serde_json::{Value, json};

/// How many of a buffer's first values are listed.
const N_FIRST: usize = 8;

/// Extremes and sum of the values that are there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stats {
    /// The number of values that have data.
    pub n_values: usize,
    /// How many of them are not a number.
    pub n_nan: usize,
    /// The smallest of the others; `None` if there are none, or for complex numbers.
    pub min: Option<Number>,
    /// The largest.
    pub max: Option<Number>,
    /// The sum of the others: exact for integers. `None` if no value has data.
    pub sum: Option<Number>,
}

impl Stats {
    /// Looks at all values of `field` that have data.
    pub(crate) fn of(field: &Field) -> Self {
        with_values!(field.array.values(), values => {
            let there = values.iter().enumerate().filter(|(cell, _)| field.has_data(*cell));
            collect(there.map(|(_, value)| value.number()))
        })
    }
}

fn collect(numbers: impl Iterator<Item = Number>) -> Stats {
    let mut n_values = 0;
    let mut n_nan = 0;
    let mut integers: Option<(i128, i128, i128)> = None;
    let mut reals: Option<(f64, f64)> = None;
    let mut is_bool = false;
    let mut is_complex = false;
    let mut sums = [CompensatedSum::default(); 2];
    for number in numbers {
        n_values += 1;
        match number {
            Number::Bool(value) => {
                is_bool = true;
                add_integer(&mut integers, value.into());
            }
            Number::Int(value) => add_integer(&mut integers, value),
            Number::Real(value) if value.is_nan() => n_nan += 1,
            Number::Real(value) => {
                let (min, max) = reals.get_or_insert((value, value));
                *min = min.min(value);
                *max = max.max(value);
                sums[0].add(value);
            }
            Number::Complex(re, im) if re.is_nan() || im.is_nan() => n_nan += 1,
            Number::Complex(re, im) => {
                sums[0].add(re);
                sums[1].add(im);
            }
        }
        is_complex |= matches!(number, Number::Complex(..));
    }
    let (min, max, sum) = match (integers, reals) {
        (Some((min, max, sum)), _) if is_bool => {
            (Some(Number::Bool(min != 0)), Some(Number::Bool(max != 0)), Number::Int(sum))
        }
        (Some((min, max, sum)), _) => {
            (Some(Number::Int(min)), Some(Number::Int(max)), Number::Int(sum))
        }
        (None, Some((min, max))) => {
            (Some(Number::Real(min)), Some(Number::Real(max)), Number::Real(sums[0].value()))
        }
        (None, None) if is_complex => {
            (None, None, Number::Complex(sums[0].value(), sums[1].value()))
        }
        (None, None) => (None, None, Number::Real(0.0)),
    };
    Stats { n_values, n_nan, min, max, sum: (n_values > 0).then_some(sum) }
}

fn add_integer(integers: &mut Option<(i128, i128, i128)>, value: i128) {
    let (min, max, sum) = integers.get_or_insert((value, value, 0));
    *min = (*min).min(value);
    *max = (*max).max(value);
    *sum += value;
}

/// A sum of floats that keeps the error of each addition (Neumaier's variant of Kahan's).
#[derive(Clone, Copy, Debug, Default)]
struct CompensatedSum {
    sum: f64,
    lost: f64,
}

impl CompensatedSum {
    fn add(&mut self, value: f64) {
        let sum = self.sum + value;
        self.lost += if self.sum.abs() >= value.abs() {
            (self.sum - sum) + value
        } else {
            (value - sum) + self.sum
        };
        self.sum = sum;
    }

    fn value(&self) -> f64 {
        if self.sum.is_finite() { self.sum + self.lost } else { self.sum }
    }
}

/// The value of `field` at `index`; `None` if there is no data.
///
/// # Errors
/// `InvalidArgument` if the index does not fit its shape.
pub(crate) fn probe(field: &Field, index: &[usize]) -> Result<Option<Number>> {
    let shape = field.array.shape();
    let fits = index.len() == shape.len() && index.iter().zip(shape).all(|(i, len)| i < len);
    let flat = index.iter().zip(shape);
    let flat = flat.fold(0usize, |flat, (i, len)| flat.saturating_mul(*len).saturating_add(*i));
    let number = number_at(field.array.values(), flat).filter(|_| fits).ok_or_else(|| {
        Error::invalid(format!("there is no value at index {index:?} of shape {shape:?}"))
    })?;
    Ok(field.has_data(flat).then_some(number))
}

/// The summary of one buffer, with the values at `probes`.
///
/// # Errors
/// As [`probe`].
pub(crate) fn to_json(field: &Field, probes: &[Vec<usize>]) -> Result<Value> {
    let stats = Stats::of(field);
    let first: Vec<Option<Value>> = (0..N_FIRST)
        .map_while(|i| Some((i, number_at(field.array.values(), i)?)))
        .map(|(i, number)| field.has_data(i).then(|| number.to_json()))
        .collect();
    let mut probed = Vec::with_capacity(probes.len());
    for index in probes {
        let value = probe(field, index)?.map(Number::to_json);
        probed.push(json!({ "index": index, "value": value }));
    }
    Ok(json!({
        "name": field.name,
        "kind": field.kind.name(),
        "shape": field.array.shape(),
        "dtype": field.array.dtype().name(),
        "n_values": stats.n_values,
        "n_nan": stats.n_nan,
        "min": stats.min.map(Number::to_json),
        "max": stats.max.map(Number::to_json),
        "sum": stats.sum.map(Number::to_json),
        "first": first,
        "probes": probed,
    }))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::tests::field;
    use framefold::core::{Bool8, Complex64};

    #[test]
    fn integer_sums_are_exact() {
        let stats = Stats::of(&field(&[3], vec![u64::MAX, u64::MAX, 1], 0, None));
        assert_eq!(stats.sum, Some(Number::Int(2 * i128::from(u64::MAX) + 1)));
        assert_eq!(stats.min, Some(Number::Int(1)));
    }

    #[test]
    fn gaps_and_nan_do_not_count() {
        let valid = Some(vec![true, false, true]);
        let stats = Stats::of(&field(&[3], vec![5u8, 0, 7], 0, valid));
        assert_eq!((stats.n_values, stats.min), (2, Some(Number::Int(5))));
        let stats = Stats::of(&field(&[3], vec![1.0, f64::NAN, 3.0], 0, None));
        assert_eq!((stats.n_nan, stats.sum), (1, Some(Number::Real(4.0))));
    }

    #[test]
    fn what_has_no_data_is_no_zero() {
        let half = field(&[2, 2], vec![5u8, 6, 0, 0], 1, Some(vec![true, false]));
        let json = to_json(&half, &[vec![0, 1], vec![1, 1]]).unwrap();
        assert_eq!(json["first"], json!([5, 6, null, null]));
        assert_eq!((&json["probes"][0]["value"], &json["sum"]), (&json!(6), &json!(11)));
        assert_eq!(json["probes"][1]["value"], Value::Null);
        let none = field(&[2], vec![0u8; 2], 0, Some(vec![false]));
        assert_eq!(to_json(&none, &[]).unwrap()["sum"], Value::Null);
        assert_eq!(Stats::of(&none).n_values, 0);
    }

    #[test]
    fn float_sums_keep_small_terms() {
        let stats = Stats::of(&field(&[4], vec![1e16, 1.0, 1.0, -1e16], 0, None));
        assert_eq!(stats.sum, Some(Number::Real(2.0)));
        let stats = Stats::of(&field(&[2], vec![f64::INFINITY, 1.0], 0, None));
        assert_eq!(stats.sum, Some(Number::Real(f64::INFINITY)));
    }

    #[test]
    fn truth_and_complex_values() {
        let stats = Stats::of(&field(&[2], vec![Bool8(1), Bool8(0)], 0, None));
        assert_eq!((stats.max, stats.sum), (Some(Number::Bool(true)), Some(Number::Int(1))));
        let values = vec![Complex64::new(1.0, 2.0), Complex64::new(3.0, -1.0)];
        let stats = Stats::of(&field(&[2], values, 0, None));
        assert_eq!((stats.min, stats.sum), (None, Some(Number::Complex(4.0, 1.0))));
    }

    #[test]
    fn probes_are_checked() {
        let field = field(&[2, 3], (0..6u8).collect::<Vec<_>>(), 0, None);
        assert_eq!(probe(&field, &[1, 2]).unwrap(), Some(Number::Int(5)));
        for bad in [&[2, 0][..], &[0, 3], &[0], &[0, 0, 0], &[], &[usize::MAX, 0]] {
            assert!(probe(&field, bad).is_err(), "{bad:?}");
        }
    }
}
