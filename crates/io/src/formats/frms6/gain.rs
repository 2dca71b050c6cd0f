//! Gain maps in text files: a line for each column of the frame, numbers separated by `;`.

use crate::headers::fields::read_small;
use framefold_core::{Error, NativeArray, Result, TypedVec};
use std::path::Path;

const MAX_LEN: u64 = 1 << 30;

/// Reads a gain map for frames of the shape `native`, which are to have the shape `sig_shape`.
///
/// # Errors
/// `BadFile` if it is no such text, or has another shape; `Unsupported` for files of MATLAB.
pub(super) fn read(path: &Path, native: [usize; 2], sig_shape: &[usize]) -> Result<NativeArray> {
    if path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("mat")) {
        return Err(Error::unsupported("gain maps in files of MATLAB are not read")
            .with_path(path)
            .with_hint(
                "write the variable 'GainMap' to a text file, a line for each column of the frame \
                 with ';' between numbers, or pass it as CorrectionSet(gain=...)",
            ));
    }
    let bytes = read_small(path, MAX_LEN)?;
    let values = parse(&String::from_utf8_lossy(&bytes), native);
    NativeArray::try_new(sig_shape, TypedVec::from(values.map_err(|error| error.with_path(path))?))
}

fn parse(text: &str, [rows, columns]: [usize; 2]) -> Result<Vec<f64>> {
    let bad = |message: String| {
        Error::bad_file(message).with_hint(format!(
            "a gain map for these frames has {columns} lines, one for each column of the frame, \
             of {rows} numbers with ';' in between"
        ))
    };
    let mut values = vec![0.0; rows * columns];
    let mut n_lines = 0;
    for (column, line) in text.lines().filter(|line| !line.trim().is_empty()).enumerate() {
        n_lines = column + 1;
        let mut n_numbers = 0;
        for (row, number) in line.trim().trim_end_matches(';').split(';').enumerate() {
            n_numbers = row + 1;
            let value: f64 = number.trim().parse().map_err(|_| {
                let number: String = number.chars().take(20).collect();
                bad(format!("line {n_lines} has '{number}', expected a number"))
            })?;
            if column < columns
                && row < rows
                && let Some(place) = values.get_mut(row * columns + column)
            {
                *place = value;
            }
        }
        if n_numbers != rows {
            return Err(bad(format!("line {n_lines} has {n_numbers} numbers, expected {rows}")));
        }
    }
    if n_lines != columns {
        return Err(bad(format!("there are {n_lines} lines, expected {columns}")));
    }
    Ok(values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_columns() {
        assert_eq!(parse("1;2;3\n4;5;6;\n\n", [3, 2]).unwrap(), [1.0, 4.0, 2.0, 5.0, 3.0, 6.0]);
    }

    #[test]
    fn what_does_not_fit() {
        for (text, words) in [
            ("1;2\n4;5", "line 1 has 2 numbers, expected 3"),
            ("1;2;3", "there are 1 lines, expected 2"),
            ("1;2;3\n1;2;3\n1;2;3", "there are 3 lines, expected 2"),
            ("1;x;3\n1;2;3", "line 1 has 'x', expected a number"),
            ("", "there are 0 lines"),
        ] {
            let error = parse(text, [3, 2]).unwrap_err();
            assert!(error.message().contains(words), "{error}");
        }
    }
}
