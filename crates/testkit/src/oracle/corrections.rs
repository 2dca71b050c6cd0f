//! Corrected frames, cell by cell.

use super::{Frames, OracleFrame, integers};
use crate::compare::numbers;
use framefold_core::{Complex64, Complex128, DType, Error, Result, TypedVec};

/// What is corrected: real planes in C order.
#[derive(Clone, Debug, Default)]
pub struct CorrectionOptions {
    /// The dark frame.
    pub dark: Option<Vec<f64>>,
    /// The gain map.
    pub gain: Option<Vec<f64>>,
    /// One truth value per cell, or none at all.
    pub excluded: Vec<bool>,
}

/// The frames as `(raw - dark) * gain` in the dtype of the data promoted with float32, excluded
/// cells replaced with the mean of the cells that are no further than one away on any axis and
/// not excluded, where there are such.
///
/// # Errors
/// `Bug` if the planes do not have one value per cell.
pub fn corrected(frames: &Frames, options: &CorrectionOptions) -> Result<Frames> {
    let len = frames.frame_len();
    for plane in [&options.dark, &options.gain].into_iter().flatten() {
        if plane.len() != len {
            return Err(Error::bug(format!("{} values for {len} cells", plane.len())));
        }
    }
    let dtype = DType::promote(frames.dtype, DType::F32);
    let around = around_excluded(&frames.sig, len, options);
    let correct = |frame: &OracleFrame| {
        let raw = &frame.values;
        let cells: TypedVec = match dtype {
            DType::F32 => {
                let raw = raw.iter().map(|z| z.re as f32).collect();
                let cells = linear(raw, options, |x, dark| x - dark as f32, |x, g| x * g as f32);
                repair(cells, &around, f64::from, |mean| mean as f32).into()
            }
            DType::F64 => {
                let raw = raw.iter().map(|z| z.re).collect();
                let cells = linear(raw, options, |x, dark| x - dark, |x, gain| x * gain);
                repair(cells, &around, |x| x, |mean| mean).into()
            }
            DType::C64 => {
                let raw = raw.iter().map(|z| Complex64::new(z.re as f32, z.im as f32)).collect();
                let dark = |z: Complex64, dark| Complex64::new(z.re - dark as f32, z.im);
                let gain = |z: Complex64, g| Complex64::new(z.re * g as f32, z.im * g as f32);
                let cells = linear(raw, options, dark, gain);
                let widen = |z: Complex64| Complex128::new(z.re.into(), z.im.into());
                let narrow = |z: Complex128| Complex64::new(z.re as f32, z.im as f32);
                repair(cells, &around, widen, narrow).into()
            }
            _ => {
                let dark = |z: Complex128, dark| Complex128::new(z.re - dark, z.im);
                let gain = |z: Complex128, g| Complex128::new(z.re * g, z.im * g);
                let cells = linear(raw.clone(), options, dark, gain);
                repair(cells, &around, |z| z, |mean| mean).into()
            }
        };
        OracleFrame { integers: integers(&cells), values: numbers(&cells), cells }
    };
    Ok(Frames {
        sig: frames.sig.clone(),
        dtype,
        n_selected: frames.n_selected,
        frames: frames.frames.iter().map(|(index, frame)| (*index, correct(frame))).collect(),
    })
}

fn linear<T: Copy>(
    mut cells: Vec<T>,
    options: &CorrectionOptions,
    subtract: impl Fn(T, f64) -> T,
    multiply: impl Fn(T, f64) -> T,
) -> Vec<T> {
    for (i, cell) in cells.iter_mut().enumerate() {
        if let Some(dark) = &options.dark {
            *cell = subtract(*cell, dark[i]);
        }
        if let Some(gain) = &options.gain {
            *cell = multiply(*cell, gain[i]);
        }
    }
    cells
}

/// Each excluded cell, and the cells that stand in for it.
fn around_excluded(
    sig: &[usize],
    len: usize,
    options: &CorrectionOptions,
) -> Vec<(usize, Vec<usize>)> {
    let around = |cell: usize| {
        let near = |other: &usize| {
            let (mut a, mut b) = (cell, *other);
            !options.excluded[b]
                && sig.iter().rev().all(|&len| {
                    let near = (a % len).abs_diff(b % len) <= 1;
                    (a, b) = (a / len, b / len);
                    near
                })
        };
        (cell, (0..len).filter(near).collect())
    };
    (0..len).filter(|&cell| options.excluded.get(cell) == Some(&true)).map(around).collect()
}

fn repair<T: Copy, W>(
    mut cells: Vec<T>,
    around: &[(usize, Vec<usize>)],
    widen: impl Fn(T) -> W,
    narrow: impl Fn(W) -> T,
) -> Vec<T>
where
    W: std::iter::Sum<W> + std::ops::Div<f64, Output = W>,
{
    let before = cells.clone();
    for (cell, good) in around {
        if !good.is_empty() {
            let sum: W = good.iter().map(|&other| widen(before[other])).sum();
            cells[*cell] = narrow(sum / good.len() as f64);
        }
    }
    cells
}
