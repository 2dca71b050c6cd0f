//! Shapes as functions in Python that give their weights.

use super::python::{Literal, number, quoted};
use super::shots::Arrays;
use crate::{Shape, Sign, Signed};
use framefold::{Error, Result};
use std::collections::BTreeSet;

/// Arrays of more values together are not written into scripts.
const MOST_VALUES: usize = 1 << 22;

/// A function, and what it uses.
#[derive(Clone, Debug, Default)]
pub(super) struct Code {
    pub(super) pieces: BTreeSet<&'static str>,
    pub(super) definitions: Vec<String>,
}

/// The function `name`, which adds `shapes` up, on an array of lengths `lens`, in the script `shape`.
///
/// # Errors
/// `InvalidArgument` if an array is not known or does not fit; `Limit` if it is too large.
pub(super) fn function(
    name: &str,
    shapes: &[Signed],
    shape: &str,
    lens: &[usize],
    arrays: Arrays<'_>,
) -> Result<Code> {
    let mut code = Code::default();
    if shapes.is_empty() {
        code.definitions.push(format!(
            "def {name}():\n    \"\"\"All, with the weight 1.\"\"\"\n    return np.ones({shape})"
        ));
        return Ok(code);
    }
    let (rows, columns) = match lens {
        [columns] => (1, *columns),
        [rows, columns] => (*rows, *columns),
        _ => return Err(Error::unsupported("shapes are drawn on one or two axes")),
    };
    let mut lines = vec![
        format!("def {name}():"),
        "    \"\"\"The sum of all shapes, each with its sign.\"\"\"".to_owned(),
        format!("    y, x = np.ogrid[:{rows}, :{columns}]"),
        format!("    weights = np.zeros(({rows}, {columns}), dtype=np.float32)"),
    ];
    let mut n_values = 0;
    for (i, Signed { shape, sign }) in shapes.iter().enumerate() {
        let sign = if *sign == Sign::Plus { '+' } else { '-' };
        let made = match shape {
            Shape::Array { id } => {
                let (lens, values) = arrays(*id).ok_or_else(|| {
                    Error::invalid(format!("there is no array of weights with the number {id}"))
                })?;
                n_values += values.len();
                check_values(n_values)?;
                let constant = format!("{}_{}", name.to_uppercase(), i + 1);
                code.definitions.push(array(&constant, &lens, &values));
                code.pieces.insert("from_text");
                format!("from_text(*{constant}).reshape(({rows}, {columns}))")
            }
            shape => {
                let (piece, arguments) = piece(shape);
                code.pieces.insert(piece);
                format!("{piece}(y, x, {arguments})")
            }
        };
        lines.push(format!("    weights {sign}= {made}"));
    }
    lines.push(format!("    return weights.reshape({shape}).astype(np.float64)"));
    code.definitions.push(lines.join("\n"));
    Ok(code)
}

/// The piece that draws a shape, and its arguments.
fn piece(shape: &Shape) -> (&'static str, String) {
    let named = |all: &[(&str, f64)]| {
        let one = |(name, value): &(&str, f64)| format!("{name}={}", number(*value));
        all.iter().map(one).collect::<Vec<_>>().join(", ")
    };
    let pair = |[y, x]: &[f64; 2]| Literal::Tuple(vec![Literal::Number(*y), Literal::Number(*x)]);
    match shape {
        Shape::Point { y, x } => ("point", named(&[("at_y", *y), ("at_x", *x)])),
        Shape::Disk { cy, cx, r } => ("disk", named(&[("cy", *cy), ("cx", *cx), ("r", *r)])),
        Shape::Ring { cy, cx, ri, ro } => {
            ("ring", named(&[("cy", *cy), ("cx", *cx), ("ri", *ri), ("ro", *ro)]))
        }
        Shape::Wedge { cy, cx, ri, ro, from, to } => {
            let ring = [("cy", *cy), ("cx", *cx), ("ri", *ri), ("ro", *ro)];
            ("wedge", named(&[&ring[..], &[("begin", *from), ("end", *to)]].concat()))
        }
        Shape::Rectangle { y0, x0, y1, x1 } => {
            ("rectangle", named(&[("y0", *y0), ("x0", *x0), ("y1", *y1), ("x1", *x1)]))
        }
        Shape::Polygon { points } => {
            let points = Literal::List(points.iter().map(pair).collect());
            ("polygon", format!("points={}", points.code()))
        }
        Shape::Lattice { cy, cx, a, b, r, order } => {
            let (a, b) = (pair(a).code(), pair(b).code());
            let centre = named(&[("cy", *cy), ("cx", *cx), ("r", *r)]);
            ("lattice", format!("{centre}, a={a}, b={b}, order={order}"))
        }
        Shape::Array { id } => ("from_text", id.to_string()),
    }
}

/// An error if these are more weights than a script can hold.
pub(super) fn check_values(n: usize) -> Result<()> {
    if n <= MOST_VALUES {
        return Ok(());
    }
    Err(Error::limit(format!("{n} weights are too many for a script, of at most {MOST_VALUES}"))
        .with_hint("save them as .npy, and load them in a script of your own"))
}

/// A constant with weights.
fn array(name: &str, lens: &[usize], values: &[f32]) -> String {
    let is_bits = values.iter().all(|value| *value == 0.0 || *value == 1.0);
    let bytes: Vec<u8> = match is_bits {
        true => values.chunks(8).map(bits).collect(),
        false => values.iter().flat_map(|value| value.to_le_bytes()).collect(),
    };
    packed(name, lens, &bytes, if is_bits { "bits" } else { "<f4" })
}

/// A constant with the arguments of the piece `from_text`.
pub(super) fn packed(name: &str, lens: &[usize], bytes: &[u8], kind: &str) -> String {
    let text = base64(bytes);
    let mut lines = vec![format!("{name} = ("), format!("    {},", Literal::shape(lens).code())];
    lines.push("    (".to_owned());
    for chunk in text.as_bytes().chunks(88) {
        lines.push(format!("        \"{}\"", String::from_utf8_lossy(chunk)));
    }
    if text.is_empty() {
        lines.push("        \"\"".to_owned());
    }
    lines.push("    ),".to_owned());
    lines.push(format!("    {},", quoted(kind)));
    lines.push(")".to_owned());
    lines.join("\n")
}

/// Eight truth values, the first one highest, as NumPy's `packbits` has them.
fn bits(values: &[f32]) -> u8 {
    let bit = |i: usize| u8::from(values.get(i).is_some_and(|value| *value != 0.0)) << (7 - i);
    (0..8).map(bit).sum()
}

/// RFC 4648, section 4.
fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |bits: u32| char::from(DIGITS.get((bits & 63) as usize).copied().unwrap_or(b'='));
    let mut text = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let at = |i: usize| u32::from(chunk.get(i).copied().unwrap_or(0));
        let bits = at(0) << 16 | at(1) << 8 | at(2);
        for (i, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            text.push(if i <= chunk.len() { digit(bits >> shift) } else { '=' });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_standard() {
        for (bytes, text) in
            [("", ""), ("f", "Zg=="), ("fo", "Zm8="), ("foo", "Zm9v"), ("foobar", "Zm9vYmFy")]
        {
            assert_eq!(base64(bytes.as_bytes()), text);
        }
    }

    #[test]
    fn shapes_are_added_with_their_signs() {
        let disk = Shape::Disk { cy: 1.5, cx: 2.0, r: 3.0 };
        let shapes = [
            Signed { shape: disk.clone(), sign: Sign::Plus },
            Signed { shape: Shape::Array { id: 7 }, sign: Sign::Minus },
        ];
        let arrays = |id: u64| (id == 7).then(|| (vec![2, 3], vec![1.0, 0.0, 1.0, 0.0, 0.0, 1.0]));
        let code = function("scan_detector", &shapes, "FRAME", &[2, 3], &arrays).unwrap();
        assert_eq!(code.pieces, BTreeSet::from(["disk", "from_text"]));
        assert_eq!(
            code.definitions[0],
            "SCAN_DETECTOR_2 = (\n    (2, 3),\n    (\n        \"pA==\"\n    ),\n    \"bits\",\n)"
        );
        let text = &code.definitions[1];
        assert!(text.contains("weights += disk(y, x, cy=1.5, cx=2.0, r=3.0)\n"), "{text}");
        assert!(
            text.contains("weights -= from_text(*SCAN_DETECTOR_2).reshape((2, 3))\n"),
            "{text}"
        );
        let none = |_| None;
        assert!(function("scan_detector", &shapes, "FRAME", &[2, 3], &none).is_err());
        assert!(function("scan_detector", &shapes, "FRAME", &[2, 3, 4], &arrays).is_err());
    }
}
