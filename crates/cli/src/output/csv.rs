//! CSV: a row for each position, with a column for each axis and each channel.
//!
//! The first row names the columns: `scan_y (nm),scan_x (nm),intensity`. Positions are in the units of their
//! axes; those without data have empty fields. Complex numbers take two columns.

use super::atomic::failed;
use crate::field::Field;
use crate::numbers::{Number, number_at};
use framefold::Result;
use framefold::core::Axis;
use std::io::Write;

/// Writes `field`.
///
/// # Errors
/// `Io`.
pub(super) fn write(out: &mut impl Write, field: &Field) -> Result<()> {
    let is_complex = field.array.dtype().is_complex();
    let mut columns: Vec<String> = field
        .axes
        .iter()
        .map(|axis| match axis.unit.as_str() {
            "" => quoted(&axis.name),
            unit => quoted(&format!("{} ({unit})", axis.name)),
        })
        .collect();
    for channel in field.channel_names() {
        let name = format!("{}{channel}", field.name);
        match is_complex {
            true => columns.extend([quoted(&format!("{name}.re")), quoted(&format!("{name}.im"))]),
            false => columns.push(quoted(&name)),
        }
    }
    writeln!(out, "{}", columns.join(",")).map_err(failed)?;
    let shape = field.base_shape();
    let n_rows: usize = shape.iter().product();
    let n_channels = field.array.values().len().checked_div(n_rows).unwrap_or(0);
    for row in 0..n_rows {
        let mut rest = row;
        let mut cells: Vec<String> = Vec::with_capacity(columns.len());
        for (axis, &len) in field.axes.iter().zip(shape).rev() {
            cells.push(place_on(axis, rest % len).to_string());
            rest /= len;
        }
        cells.reverse();
        for cell in row * n_channels..(row + 1) * n_channels {
            match number_at(field.array.values(), cell).filter(|_| field.has_data(cell)) {
                Some(Number::Complex(re, im)) => cells.extend([re.to_string(), im.to_string()]),
                Some(number) => cells.push(number.to_string()),
                None if is_complex => cells.extend([String::new(), String::new()]),
                None => cells.push(String::new()),
            }
        }
        writeln!(out, "{}", cells.join(",")).map_err(failed)?;
    }
    out.flush().map_err(failed)
}

/// Where a position is. Multiples of steps such as 0.1 have errors in their last digits, which are left out, but
/// for those that tell it from its neighbours.
fn place_on(axis: &Axis, index: usize) -> f64 {
    let place = axis.offset + index as f64 * axis.scale;
    let n_steps = (place / axis.scale).abs();
    let digits = (n_steps.log10() as usize).saturating_add(3).clamp(12, 16);
    format!("{place:.digits$e}").parse().unwrap_or(place)
}

/// A field of the first row, which may have commas in it.
fn quoted(text: &str) -> String {
    if text.contains([',', '"', '\n', '\r']) {
        format!("\"{}\"", text.replace('"', "\"\""))
    } else {
        text.to_owned()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::tests::field;
    use framefold::core::Complex64;

    fn written(field: &Field) -> String {
        let mut out = Vec::new();
        write(&mut out, field).unwrap();
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn rows_are_positions_and_columns_channels() {
        let mut scan = field(&[2, 2], vec![1u64 << 63, 2, 3, 4], 0, None);
        scan.axes[1].unit = "nm".into();
        scan.axes[1].scale = 0.1;
        scan.axes[1].offset = 0.2;
        assert_eq!(
            written(&scan),
            "index_0,index_1 (nm),x\n0,0.2,9223372036854775808\n0,0.3,2\n1,0.2,3\n1,0.3,4\n"
        );
        let valid = Some(vec![true, false]);
        let masks = field(&[2, 2], vec![0.5, 1.5, 0.0, 0.0], 1, valid);
        assert_eq!(written(&masks), "index_0,x[0],x[1]\n0,0.5,1.5\n1,,\n");
        let complex = field(&[1], vec![Complex64::new(1.0, -2.0)], 0, None);
        assert_eq!(written(&complex), "index_0,x.re,x.im\n0,1,-2\n");
        assert_eq!(quoted("a,\"b\""), "\"a,\"\"b\"\"\"");
    }

    #[test]
    fn places_of_neighbours_differ() {
        let mut times = field(&[3], vec![1u8, 2, 3], 0, None);
        // Seconds since 1970, and frames of a camera.
        (times.axes[0].offset, times.axes[0].scale) = (1.7e9, 1e-4);
        assert_eq!(
            written(&times),
            "index_0,x\n1700000000,1\n1700000000.0001,2\n1700000000.0002,3\n"
        );
        (times.axes[0].offset, times.axes[0].scale) = (-1.0, 0.1);
        assert!(written(&times).ends_with("\n-1,1\n-0.9,2\n-0.8,3\n"));
    }
}
