//! One function per reduction.

use super::{Frames, rounded};
use crate::compare::{Expected, magnitude};
use framefold_core::{Bool8, Complex64, Complex128, DType, F16, NativeArray, Result, TypedVec};

/// What a sum in double precision may be off by, per unit of the sum of magnitudes.
const SUM_ERROR: f64 = 1e-13;

const NAN: Complex128 = Complex128::new(f64::NAN, f64::NAN);
const ZERO: Complex128 = Complex128::new(0.0, 0.0);

/// `promote(promote(data, float32), dtype)`.
fn result_dtype(frames: &Frames, dtype: DType) -> DType {
    DType::promote(DType::promote(frames.dtype, DType::F32), dtype)
}

/// Values whose cells not yet merged hold NaN, complex only where the dtype is.
fn near(shape: &[usize], dtype: DType, values: Vec<Complex128>, tolerances: Vec<f64>) -> Expected {
    let flat = |z: Complex128| if dtype.is_complex() { z } else { Complex128::new(z.re, 0.0) };
    let values = values.into_iter().map(flat).collect();
    Expected::Near { shape: shape.to_vec(), dtype, values, tolerances }
}

/// Sum over frames, promoted with `dtype`.
///
/// # Errors
/// `Bug` if the dtype is neither float nor complex.
pub fn sum(frames: &Frames, dtype: DType) -> Result<Expected> {
    let dtype = result_dtype(frames, dtype);
    if frames.is_integer() {
        return Ok(Expected::Same(rounded(&frames.sig, dtype, &integer_sums(frames))?));
    }
    let (sums, sizes) = sums(frames);
    Ok(near(&frames.sig, dtype, sums, sizes.iter().map(|size| size * SUM_ERROR).collect()))
}

fn integer_sums(frames: &Frames) -> Vec<i128> {
    let mut sums = vec![0i128; frames.frame_len()];
    for (_, frame) in &frames.frames {
        for (sum, cell) in sums.iter_mut().zip(frame.integers.iter().flatten()) {
            *sum += cell;
        }
    }
    sums
}

/// Sums over frames and sums of magnitudes.
fn sums(frames: &Frames) -> (Vec<Complex128>, Vec<f64>) {
    let mut sums = vec![ZERO; frames.frame_len()];
    let mut sizes = vec![0.0; frames.frame_len()];
    for (_, frame) in &frames.frames {
        for (p, cell) in frame.values.iter().enumerate() {
            sums[p] += cell;
            sizes[p] += magnitude(*cell);
        }
    }
    (sums, sizes)
}

/// Sum of each frame.
///
/// # Errors
/// None on valid frames.
pub fn sum_sig(frames: &Frames) -> Result<Expected> {
    let dtype = result_dtype(frames, DType::F32);
    let mut values = vec![NAN; frames.n_selected];
    let mut tolerances = vec![0.0; frames.n_selected];
    for (index, frame) in &frames.frames {
        if let Some(integers) = &frame.integers {
            // One rounding, to the result: `near` then finds the very same number.
            let sum: i128 = integers.iter().sum();
            let exact = if dtype == DType::F32 { f64::from(sum as f32) } else { sum as f64 };
            values[*index] = Complex128::new(exact, 0.0);
        } else {
            values[*index] = frame.values.iter().sum();
            let size: f64 = frame.values.iter().map(|&cell| magnitude(cell)).sum();
            tolerances[*index] = size * SUM_ERROR;
        }
    }
    Ok(near(&[frames.n_selected], dtype, values, tolerances))
}

/// Largest value of each pixel; NaN wins. With no frames, the smallest value of the dtype.
///
/// # Errors
/// `Bug` if the data are complex.
pub fn max(frames: &Frames) -> Result<Expected> {
    macro_rules! tops {
        ($variant:ident, $lowest:expr, |$a:ident, $b:ident| $larger:expr) => {{
            let mut tops = vec![$lowest; frames.frame_len()];
            for (_, frame) in &frames.frames {
                if let TypedVec::$variant(cells) = &frame.cells {
                    for (top, &$b) in tops.iter_mut().zip(cells) {
                        let $a = *top;
                        *top = $larger;
                    }
                }
            }
            TypedVec::from(tops)
        }};
    }
    macro_rules! floats {
        ($variant:ident, $type:ty) => {
            tops!($variant, <$type>::NEG_INFINITY, |a, b| {
                if a.is_nan() || b.is_nan() {
                    <$type>::NAN
                } else if b > a {
                    b
                } else {
                    a
                }
            })
        };
    }
    let tops = match frames.dtype {
        DType::Bool => tops!(Bool, Bool8(0), |a, b| a.max(b)),
        DType::U8 => tops!(U8, 0, |a, b| a.max(b)),
        DType::U16 => tops!(U16, 0, |a, b| a.max(b)),
        DType::U32 => tops!(U32, 0, |a, b| a.max(b)),
        DType::U64 => tops!(U64, 0, |a, b| a.max(b)),
        DType::I8 => tops!(I8, i8::MIN, |a, b| a.max(b)),
        DType::I16 => tops!(I16, i16::MIN, |a, b| a.max(b)),
        DType::I32 => tops!(I32, i32::MIN, |a, b| a.max(b)),
        DType::I64 => tops!(I64, i64::MIN, |a, b| a.max(b)),
        DType::F16 => floats!(F16, F16),
        DType::F32 => floats!(F32, f32),
        DType::F64 => floats!(F64, f64),
        DType::C64 | DType::C128 => {
            return Err(framefold_core::Error::bug("complex numbers have no order"));
        }
    };
    Ok(Expected::Same(NativeArray::try_new(&frames.sig, tops)?))
}

/// `varsum`, `num_frames`, `sum`, `var`, `std` and `mean`, by two passes over the data.
///
/// # Errors
/// None for a float or complex `dtype`.
pub fn stddev(frames: &Frames, dtype: DType) -> Result<Vec<Expected>> {
    let complex = frames.dtype.is_complex();
    let mean_dtype = if complex { DType::promote(dtype, DType::C64) } else { dtype };
    let n = frames.frames.len() as f64;
    let (mut sums, sizes) = sums(frames);
    if frames.is_integer() {
        sums = integer_sums(frames).iter().map(|&s| Complex128::new(s as f64, 0.0)).collect();
    }
    let part = |im: f64| if complex { im / n } else { 0.0 };
    let means: Vec<Complex128> =
        sums.iter().map(|sum| Complex128::new(sum.re / n, part(sum.im))).collect();
    let mut varsums = vec![0.0; frames.frame_len()];
    let mut squares = vec![0.0; frames.frame_len()];
    for (_, frame) in &frames.frames {
        for (p, cell) in frame.values.iter().enumerate() {
            let distance = cell - means[p];
            varsums[p] += distance.re * distance.re + distance.im * distance.im;
            squares[p] += magnitude(*cell) * magnitude(*cell);
        }
    }
    let real = |values: Vec<f64>, tolerances: Vec<f64>| {
        let values = values.into_iter().map(|x| Complex128::new(x, 0.0)).collect();
        near(&frames.sig, dtype, values, tolerances)
    };
    let scaled = |sizes: &[f64], factor: f64| sizes.iter().map(|size| size * factor).collect();
    // Rounded values differ from the mean by an error of the order of the values, squared; the
    // cross term with the true distance adds the root of both.
    let errors: Vec<f64> = squares
        .iter()
        .zip(&varsums)
        .map(|(square, varsum)| {
            1e-30 * square * n + 1e-13 * varsum + 1e-14 * (square * varsum).sqrt()
        })
        .collect();
    let vars: Vec<f64> = varsums.iter().map(|varsum| varsum / n).collect();
    let stds: Vec<f64> = vars.iter().map(|var| var.sqrt()).collect();
    let var_errors: Vec<f64> = scaled(&errors, 1.0 / n);
    // Of a standard deviation near zero, the error is the root of that of the variance.
    let std_errors = var_errors
        .iter()
        .zip(&stds)
        .map(|(error, std)| error.sqrt().min(error / std.max(f64::MIN_POSITIVE)))
        .collect();
    let count = vec![frames.frames.len() as i64];
    let sum = if frames.is_integer() {
        Expected::Same(rounded(&frames.sig, mean_dtype, &integer_sums(frames))?)
    } else {
        near(&frames.sig, mean_dtype, sums, scaled(&sizes, SUM_ERROR))
    };
    Ok(vec![
        real(varsums, errors),
        Expected::Same(NativeArray::try_new(&[1], count)?),
        sum,
        real(vars, var_errors),
        real(stds, std_errors),
        near(&frames.sig, mean_dtype, means, scaled(&sizes, SUM_ERROR / n)),
    ])
}

/// Parameters of [`com`], with the meaning that the reduction gives them.
#[derive(Clone, Copy, Debug)]
#[expect(missing_docs, reason = "the names are those of the reduction's parameters")]
pub struct ComOptions {
    pub cy: Option<f64>,
    pub cx: Option<f64>,
    pub r: f64,
    pub ri: f64,
    pub scan_rotation: f64,
    pub flip_y: bool,
}

/// `raw_com`, `raw_shifts`, `field`, `field_y`, `field_x` and `magnitude` of frames with two axes.
///
/// # Errors
/// `Bug` if the frames do not have two axes.
pub fn com(frames: &Frames, options: &ComOptions) -> Result<Vec<Expected>> {
    let &[rows, columns] = &frames.sig[..] else {
        return Err(framefold_core::Error::bug("a centre of mass of frames without two axes"));
    };
    let dtype = result_dtype(frames, DType::F32);
    let cy = options.cy.unwrap_or((rows / 2) as f64);
    let cx = options.cx.unwrap_or((columns / 2) as f64);
    let counts = |y: f64, x: f64| {
        let distance = (y - cy) * (y - cy) + (x - cx) * (x - cx);
        distance <= options.r * options.r
            && !(options.ri > 0.0 && distance <= options.ri * options.ri)
    };
    let mut centres = vec![[f64::NAN; 2]; frames.n_selected];
    let mut errors = vec![0.0; frames.n_selected];
    for (index, frame) in &frames.frames {
        let (mut plain, mut by_row, mut by_column) = (0i128, 0i128, 0i128);
        let (mut sum, mut row_sum, mut column_sum, mut size) = (0.0, 0.0, 0.0, 0.0);
        for p in 0..rows * columns {
            let (row, column) = (p / columns, p % columns);
            if !counts(row as f64, column as f64) {
                continue;
            }
            if let Some(integers) = &frame.integers {
                plain += integers[p];
                by_row += integers[p] * row as i128;
                by_column += integers[p] * column as i128;
            } else {
                let value = frame.values[p].re;
                sum += value;
                row_sum += value * row as f64;
                column_sum += value * column as f64;
                size += value.abs();
            }
        }
        if frame.integers.is_some() {
            (sum, row_sum, column_sum) = (plain as f64, by_row as f64, by_column as f64);
        } else if sum.abs() < 1e-6 * size {
            // Terms cancel: the quotient of two rounding errors is anything.
            errors[*index] = f64::INFINITY;
        } else {
            let scale = size / sum.abs();
            errors[*index] = SUM_ERROR * (rows + columns) as f64 * scale * scale;
        }
        let empty = sum == 0.0;
        centres[*index] = if empty { [cy, cx] } else { [row_sum / sum, column_sum / sum] };
        if errors[*index].is_nan() {
            errors[*index] = 0.0;
        }
    }
    let (sin, cos) = options.scan_rotation.to_radians().sin_cos();
    let shifts: Vec<[f64; 2]> = centres.iter().map(|[y, x]| [y - cy, x - cx]).collect();
    let field: Vec<[f64; 2]> = shifts
        .iter()
        .map(|&[y, x]| {
            let y = if options.flip_y { -y } else { y };
            [y * cos + x * sin, -y * sin + x * cos]
        })
        .collect();
    // Shifts are differences of rounded numbers, at worst of the size of the frame.
    let size = |[y, x]: &[f64; 2]| (y.abs() + x.abs()) + cy.abs() + cx.abs();
    let tolerance: Vec<f64> = errors
        .iter()
        .zip(&centres)
        .map(|(error, centre)| {
            error + 1e-14 * Some(size(centre)).filter(|s| s.is_finite()).unwrap_or(0.0)
        })
        .collect();
    let real = |x: f64| Complex128::new(x, 0.0);
    let vectors = |values: &[[f64; 2]]| {
        let tolerances = tolerance.iter().flat_map(|&t| [t, t]).collect();
        let shape = [frames.n_selected, 2];
        near(&shape, dtype, values.iter().flatten().map(|&x| real(x)).collect(), tolerances)
    };
    let numbers = |number: fn(&[f64; 2]) -> f64| {
        let values = field.iter().map(|v| real(number(v))).collect();
        near(&[frames.n_selected], dtype, values, tolerance.clone())
    };
    Ok(vec![
        vectors(&centres),
        vectors(&shifts),
        vectors(&field),
        numbers(|v| v[0]),
        numbers(|v| v[1]),
        numbers(|v| (v[0] * v[0] + v[1] * v[1]).sqrt()),
    ])
}

/// Products of each frame with each of `masks`, of shape `(n, *sig)`.
///
/// Real masks multiply the parts of complex pixels one by one, so that infinities stay in theirs.
/// Results of single precision may have summed up to 256 products in it, unless all numbers are
/// integers.
///
/// # Errors
/// None if the shapes fit.
pub fn masks(frames: &Frames, masks: &NativeArray) -> Result<Expected> {
    let dtype = result_dtype(frames, masks.dtype());
    let n_masks = masks.shape()[0];
    let weights = crate::compare::numbers(masks.values());
    let exact = frames.is_integer() && weights.iter().all(|w| w.re.fract() + w.im.fract() == 0.0);
    let single = matches!(dtype, DType::F32 | DType::C64) && !exact;
    let error = if single { 256.0 * f64::from(f32::EPSILON) / 2.0 } else { SUM_ERROR };
    let mut values = vec![NAN; frames.n_selected * n_masks];
    let mut tolerances = vec![0.0; frames.n_selected * n_masks];
    for (index, frame) in &frames.frames {
        for (m, mask) in weights.chunks(frames.frame_len()).enumerate() {
            let (mut sum, mut size) = (ZERO, 0.0);
            for (cell, weight) in frame.values.iter().zip(mask) {
                sum.re += cell.re * weight.re;
                if frames.dtype.is_complex() {
                    sum.im += cell.im * weight.re;
                }
                if masks.dtype().is_complex() {
                    sum.im += cell.re * weight.im;
                }
                if frames.dtype.is_complex() && masks.dtype().is_complex() {
                    sum.re -= cell.im * weight.im;
                }
                size += magnitude(*cell) * magnitude(*weight);
            }
            values[index * n_masks + m] = sum;
            tolerances[index * n_masks + m] = size * error;
        }
    }
    Ok(near(&[frames.n_selected, n_masks], dtype, values, tolerances))
}

/// Sum of `ln(frame - min(frame) + 1)`.
///
/// # Errors
/// None on valid frames.
pub fn logsum(frames: &Frames) -> Result<Expected> {
    let mut sums = vec![0.0; frames.frame_len()];
    for (_, frame) in &frames.frames {
        let reals = || frame.values.iter().map(|cell| cell.re);
        let nan = reals().any(f64::is_nan);
        let floor = if nan { f64::NAN } else { reals().fold(f64::INFINITY, f64::min) };
        let exact_floor = frame.integers.as_ref().and_then(|cells| cells.iter().min().copied());
        for (p, sum) in sums.iter_mut().enumerate() {
            let above = match (&frame.integers, exact_floor) {
                (Some(cells), Some(floor)) => (cells[p] - floor) as f64,
                _ => frame.values[p].re - floor,
            };
            *sum += (above + 1.0).ln();
        }
    }
    let tolerances = sums.iter().map(|sum: &f64| 1e-11 * (1.0 + sum.abs())).collect();
    let values = sums.into_iter().map(|sum| Complex128::new(sum, 0.0)).collect();
    Ok(near(&frames.sig, DType::F32, values, tolerances))
}

/// The frames themselves; NaN, or zero where there is no NaN, at positions without data.
///
/// # Errors
/// None on valid frames.
pub fn pick(frames: &Frames) -> Result<Expected> {
    let shape = [&[frames.n_selected], &frames.sig[..]].concat();
    let mut picked = NativeArray::zeros(frames.dtype, &shape);
    match picked.values_mut() {
        TypedVec::F16(cells) => cells.fill(F16::NAN),
        TypedVec::F32(cells) => cells.fill(f32::NAN),
        TypedVec::F64(cells) => cells.fill(f64::NAN),
        TypedVec::C64(cells) => cells.fill(Complex64::new(f32::NAN, f32::NAN)),
        TypedVec::C128(cells) => cells.fill(NAN),
        _ => {}
    }
    for (index, frame) in &frames.frames {
        let bytes = frame.cells.as_bytes();
        let target = picked.values_mut().as_bytes_mut();
        target[index * bytes.len()..(index + 1) * bytes.len()].copy_from_slice(bytes);
    }
    Ok(Expected::Same(picked))
}
