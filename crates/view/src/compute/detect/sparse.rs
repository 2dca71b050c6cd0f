//! A detector over a frame of which there are only the pixels other than 0.

use super::What;
use crate::compute::pixel::{Pixel, Total};
use crate::compute::runs::Runs;
use framefold::Result;
use framefold::core::stray_column;

/// Puts what is seen of a frame into `seen`.
///
/// # Errors
/// `BadFile` if a column does not lie within the frame.
pub(super) fn see<T: Pixel>(
    what: What,
    runs: &Runs,
    (columns, values): (&[u32], &[T]),
    seen: &mut [f64],
) -> Result<()> {
    let weight_of = |column: u32| {
        let weight = runs.weights.get(column as usize).copied();
        weight.ok_or_else(|| stray_column(column, runs.weights.len()))
    };
    let entries = || columns.iter().zip(values);
    match what {
        What::Sum | What::Moments if runs.groups.is_some() || runs.integral && T::IS_WIDE => {
            let mut moments = [T::Total::default(); 3];
            for (&column, &value) in entries() {
                let weight = weight_of(column)?;
                if weight == 0.0 {
                    continue;
                }
                let value = T::total(value.block()).times(weight as i64);
                moments[0] += value;
                if what == What::Moments {
                    let column = column as usize;
                    moments[1] += value.times((column / runs.columns.max(1)) as i64);
                    moments[2] += value.times((column % runs.columns.max(1)) as i64);
                }
            }
            seen.iter_mut().zip(moments).for_each(|(seen, moment)| *seen = moment.value());
        }
        What::Sum | What::Moments => {
            let mut moments = [0.0; 3];
            for (&column, &value) in entries() {
                let weight = weight_of(column)?;
                if weight != 0.0 {
                    let value = value.value() * f64::from(weight);
                    let column = column as usize;
                    moments[0] += value;
                    moments[1] += value * (column / runs.columns.max(1)) as f64;
                    moments[2] += value * (column % runs.columns.max(1)) as f64;
                }
            }
            seen.iter_mut().zip(moments).for_each(|(seen, moment)| *seen = moment);
        }
        What::Std => {
            let (n, mut sum, mut found) = (runs.n_pixels as f64, 0.0, 0usize);
            for (&column, &value) in entries() {
                if weight_of(column)? != 0.0 {
                    sum += value.value();
                    found += 1;
                }
            }
            let mean = sum / n;
            let mut squares = (runs.n_pixels.saturating_sub(found)) as f64 * mean * mean;
            for (&column, &value) in entries() {
                if weight_of(column)? != 0.0 {
                    squares += (value.value() - mean).powi(2);
                }
            }
            seen[0] = (squares / n).sqrt();
        }
        What::Max => {
            let (mut top, mut found): (Option<T>, usize) = (None, 0);
            for (&column, &value) in entries() {
                if weight_of(column)? != 0.0 {
                    top = Some(top.map_or(value, |top| top.larger(value)));
                    found += 1;
                }
            }
            let top = top.map(Pixel::value);
            seen[0] = match top {
                Some(top) if found == runs.n_pixels || top.is_nan() => top,
                top => top.map_or(0.0, |top| top.max(0.0)),
            };
        }
    }
    Ok(())
}
