//! Values as they stand in Python's source code. Whatever a text holds, it stays a text.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

/// A value in Python.
#[derive(Clone, Debug, PartialEq)]
pub enum Literal {
    /// `None`.
    None,
    /// A truth value.
    Truth(bool),
    /// A whole number.
    Integer(i64),
    /// A number; what is not finite becomes a call of `float`.
    Number(f64),
    /// A text.
    Text(String),
    /// A path, also one whose bytes are no text.
    Path(PathBuf),
    /// A tuple.
    Tuple(Vec<Literal>),
    /// A list.
    List(Vec<Literal>),
}

impl Literal {
    /// The lengths of axes.
    pub fn shape(lens: &[usize]) -> Self {
        Literal::Tuple(lens.iter().map(|len| Literal::count(*len)).collect())
    }

    /// How many.
    pub fn count(n: usize) -> Self {
        i64::try_from(n).map_or(Literal::Number(n as f64), Literal::Integer)
    }

    /// As source code.
    pub fn code(&self) -> String {
        let list = |all: &[Literal]| all.iter().map(Literal::code).collect::<Vec<_>>().join(", ");
        match self {
            Literal::None => "None".to_owned(),
            Literal::Truth(true) => "True".to_owned(),
            Literal::Truth(false) => "False".to_owned(),
            Literal::Integer(value) => value.to_string(),
            Literal::Number(value) => number(*value),
            Literal::Text(text) => quoted(text),
            Literal::Path(path) => path_code(path),
            Literal::Tuple(all) if all.len() == 1 => format!("({},)", list(all)),
            Literal::Tuple(all) => format!("({})", list(all)),
            Literal::List(all) => format!("[{}]", list(all)),
        }
    }
}

/// A file, wherever the script is run.
pub(super) fn path_of(path: &Path) -> Literal {
    Literal::Path(std::path::absolute(path).unwrap_or_else(|_| path.to_path_buf()))
}

/// A number as Python reads it back to the last bit.
pub(super) fn number(value: f64) -> String {
    match value.is_finite() {
        true => format!("{value:?}"),
        false => format!("float(\"{value}\")"),
    }
}

/// A text in quotes, on one line, with nothing in it that is not seen or that turns what follows round.
pub(super) fn quoted(text: &str) -> String {
    let mut code = String::from('"');
    for c in text.chars() {
        push(&mut code, c);
    }
    code.push('"');
    code
}

/// A text as it stands in a comment, on one line.
pub(super) fn commented(text: &str) -> String {
    let mut code = String::new();
    for c in text.chars() {
        match c {
            '"' | '\\' => code.push(c),
            c => push(&mut code, c),
        }
    }
    code
}

fn push(code: &mut String, c: char) {
    let plain = c == ' ' || c.is_ascii_graphic() || c.is_alphanumeric() || "×°µ¹²³⁻".contains(c);
    // Writing to a text does not fail.
    let _ = match (c, u32::from(c)) {
        ('"' | '\\', _) => write!(code, "\\{c}"),
        ('\n', _) => write!(code, "\\n"),
        ('\t', _) => write!(code, "\\t"),
        _ if plain => write!(code, "{c}"),
        (_, n @ ..0x100) => write!(code, "\\x{n:02x}"),
        (_, n @ ..0x1_0000) => write!(code, "\\u{n:04x}"),
        (_, n) => write!(code, "\\U{n:08x}"),
    };
}

/// A path: bytes that are no text as Python's file functions have them, lone surrogates from `\udc80` on.
fn path_code(path: &Path) -> String {
    let mut code = String::from('"');
    for chunk in path.as_os_str().as_encoded_bytes().utf8_chunks() {
        chunk.valid().chars().for_each(|c| push(&mut code, c));
        for byte in chunk.invalid() {
            let _ = write!(code, "\\udc{byte:02x}");
        }
    }
    code.push('"');
    code
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_stay_texts() {
        for (text, code) in [
            ("plain name.mib", r#""plain name.mib""#),
            ("Größe", r#""Größe""#),
            ("\"; import os; \"", r#""\"; import os; \"""#),
            ("a\\", r#""a\\""#),
            ("a\nb\r\tc", r#""a\nb\x0d\tc""#),
            ("\u{202e}gpj", r#""\u202egpj""#),
            ("\u{2028}", r#""\u2028""#),
            ("\0", r#""\x00""#),
            ("😀", r#""\U0001f600""#),
        ] {
            assert_eq!(quoted(text), code);
            assert!(!quoted(text).chars().any(char::is_control));
        }
    }

    #[test]
    fn comments_are_one_line() {
        assert_eq!(commented("a\rimport os\n\"\\\u{2028}"), "a\\x0dimport os\\n\"\\\\u2028");
    }

    #[cfg(unix)]
    #[test]
    fn bytes_of_paths_that_are_no_text_are_kept() {
        use std::os::unix::ffi::OsStrExt;
        let path = Path::new(std::ffi::OsStr::from_bytes(b"/a\xff/\"b\xc3\xa9"));
        assert_eq!(Literal::Path(path.into()).code(), r#""/a\udcff/\"bé""#);
    }

    #[test]
    fn numbers_are_read_back() {
        for (value, code) in [
            (1.0, "1.0"),
            (0.1, "0.1"),
            (-2.5e-300, "-2.5e-300"),
            (1e16, "1e16"),
            (f64::NAN, "float(\"NaN\")"),
            (f64::NEG_INFINITY, "float(\"-inf\")"),
        ] {
            assert_eq!(number(value), code);
        }
    }

    #[test]
    fn values_are_pythons() {
        let value = Literal::Tuple(vec![
            Literal::shape(&[3]),
            Literal::shape(&[]),
            Literal::List(vec![Literal::None, Literal::Truth(true), Literal::Integer(-1)]),
        ]);
        assert_eq!(value.code(), "((3,), (), [None, True, -1])");
    }
}
