//! The header of an NPY file: a Python dict in text.

use super::MAGIC;
use crate::access::Storage;
use framefold_core::{Error, Result, StoredDType};

/// Longer headers are refused. NumPy itself stops at 10 000 characters.
const MAX_HEADER: u64 = 1 << 20;
/// More axes than NumPy allows.
const MAX_AXES: usize = 64;

/// What the header says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) version: (u8, u8),
    pub(super) stored: StoredDType,
    pub(super) fortran_order: bool,
    /// At least one axis, none of which is 0.
    pub(super) shape: Vec<usize>,
    /// Where the array begins; within the file.
    pub(super) data_start: u64,
}

impl Header {
    /// Reads and checks the header.
    pub(super) fn read(storage: &Storage) -> Result<Self> {
        let mut start = [0; 12];
        let present = start.len().min(usize::try_from(storage.len()).unwrap_or(usize::MAX));
        storage.read_at(0, start.get_mut(..present).unwrap_or_default())?;
        if !start.starts_with(MAGIC) {
            return Err(Error::bad_file(format!(
                "it starts with bytes {:02x?}, not with '\\x93NUMPY'",
                start.get(..present.min(6)).unwrap_or_default()
            ))
            .with_offset(0)
            .with_hint("it is not an NPY file; let the format be detected, or load it as 'raw'"));
        }
        let version = (start[6], start[7]);
        let prefix: u64 = match version.0 {
            1 => 10,
            2 | 3 => 12,
            other if present > 6 => {
                return Err(Error::unsupported(format!(
                    "NPY version {other}.{} is not known; versions 1 to 3 are",
                    version.1
                ))
                .with_offset(6));
            }
            _ => return Err(cut_short(storage.len(), 8)),
        };
        if storage.len() < prefix {
            return Err(cut_short(storage.len(), prefix));
        }
        let len = match version.0 {
            1 => u64::from(u16::from_le_bytes([start[8], start[9]])),
            _ => u64::from(u32::from_le_bytes([start[8], start[9], start[10], start[11]])),
        };
        if prefix + len > storage.len() {
            return Err(cut_short(storage.len(), prefix + len));
        }
        if len > MAX_HEADER {
            return Err(Error::bad_file(format!("the header claims to be {len} bytes long"))
                .with_offset(8)
                .with_hint("the file is damaged"));
        }
        let mut text = vec![0; usize::try_from(len).unwrap_or(0)];
        storage.read_at(prefix, &mut text)?;
        // Latin-1 and UTF-8 agree on all that matters here: names and numbers are ASCII.
        let text = String::from_utf8_lossy(&text);
        let (stored, fortran_order, shape) =
            parse(&text).map_err(|error| error.with_offset(prefix))?;
        Ok(Header { version, stored, fortran_order, shape, data_start: prefix + len })
    }
}

fn cut_short(len: u64, needed: u64) -> Error {
    Error::bad_file(format!("the file ends after {len} bytes, within its header of {needed}"))
        .with_offset(len)
        .with_hint("copy the file again")
}

/// Parses the dict of the header.
fn parse(text: &str) -> Result<(StoredDType, bool, Vec<usize>)> {
    let damaged = |what: String| {
        Error::bad_file(format!("the header '{}' {what}", abbreviated(text)))
            .with_hint("the file is damaged, or was not written by NumPy")
    };
    let mut parser = Parser { rest: text };
    let entries = match parser.value(0) {
        Some(Value::Dict(entries)) if parser.rest.trim().is_empty() => entries,
        _ => return Err(damaged("is not a Python dict".into())),
    };
    let get = |key: &str| {
        let entry = entries.iter().find(|(name, _)| *name == key);
        entry.map(|(_, value)| value).ok_or_else(|| damaged(format!("has no '{key}'")))
    };
    let stored = match get("descr")? {
        Value::Text(descr) => dtype(descr)?,
        _ => {
            return Err(Error::unsupported("the array has a structured dtype").with_hint(
                "save one of its fields as an array of its own: np.save(path, a['x'])",
            ));
        }
    };
    let Value::Bool(fortran_order) = *get("fortran_order")? else {
        return Err(damaged("has a 'fortran_order' that is neither True nor False".into()));
    };
    let Value::Sequence(axes) = get("shape")? else {
        return Err(damaged("has a 'shape' that is not a tuple".into()));
    };
    let mut shape = Vec::with_capacity(axes.len().min(MAX_AXES));
    for axis in axes {
        match axis {
            Value::Number(len) => {
                shape.push(usize::try_from(*len).map_err(|_| {
                    damaged(format!("has an axis of {len} in 'shape', too long for this machine"))
                })?);
            }
            _ => return Err(damaged("has a 'shape' that is not a tuple of numbers".into())),
        }
    }
    if shape.len() > MAX_AXES {
        return Err(damaged(format!("has {} axes", shape.len())));
    }
    if shape.is_empty() {
        return Err(Error::unsupported("the array is a single number, without any axis")
            .with_hint("save an array of at least one axis"));
    }
    if shape.contains(&0) {
        return Err(Error::bad_file(format!("the array of shape {shape:?} is empty"))
            .with_hint("check how it was written"));
    }
    Ok((stored, fortran_order, shape))
}

/// The dtype behind a NumPy type string.
fn dtype(descr: &str) -> Result<StoredDType> {
    let kind = descr.trim_start_matches(['<', '>', '|', '=']).chars().next();
    let what = match kind {
        Some('O') => "Python objects",
        Some('U' | 'S' | 'a') => "text",
        Some('M' | 'm') => "dates or time spans",
        Some('V') => "untyped bytes",
        _ => {
            return StoredDType::parse(descr).map_err(|error| {
                let hint = error.hint().unwrap_or_default().to_string();
                Error::unsupported(format!("the array has the dtype '{descr}'"))
                    .with_hint(format!("convert it with astype; {hint}"))
            });
        }
    };
    Err(Error::unsupported(format!("the array holds {what} (dtype '{descr}'), not numbers"))
        .with_hint("save a numeric array"))
}

fn abbreviated(text: &str) -> String {
    let text = text.trim_end();
    let start: String = text.chars().take(80).flat_map(char::escape_default).collect();
    if text.chars().nth(80).is_some() { format!("{start}…") } else { start }
}

/// A value of the subset of Python that headers are written in.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Value<'t> {
    Text(&'t str),
    Number(u64),
    Bool(bool),
    /// A tuple or a list.
    Sequence(Vec<Value<'t>>),
    Dict(Vec<(&'t str, Value<'t>)>),
}

/// Reads values off the start of a text; `None` at the first thing it does not understand.
struct Parser<'t> {
    rest: &'t str,
}

impl<'t> Parser<'t> {
    /// Structured dtypes nest; real ones are not nested deeper than this.
    const MAX_DEPTH: usize = 16;

    fn value(&mut self, depth: usize) -> Option<Value<'t>> {
        if depth > Self::MAX_DEPTH {
            return None;
        }
        self.rest = self.rest.trim_start();
        match self.rest.chars().next()? {
            '{' => self.dict(depth),
            '(' => self.sequence(')', depth),
            '[' => self.sequence(']', depth),
            '\'' | '"' => self.text().map(Value::Text),
            '0'..='9' => self.number(),
            _ => [("True", true), ("False", false)].into_iter().find_map(|(word, value)| {
                self.rest = self.rest.strip_prefix(word)?;
                Some(Value::Bool(value))
            }),
        }
    }

    fn dict(&mut self, depth: usize) -> Option<Value<'t>> {
        self.eat('{')?;
        let mut entries = Vec::new();
        while self.eat('}').is_none() {
            self.rest = self.rest.trim_start();
            let key = self.text()?;
            self.eat(':')?;
            entries.push((key, self.value(depth + 1)?));
            if self.eat(',').is_none() {
                self.eat('}')?;
                break;
            }
        }
        Some(Value::Dict(entries))
    }

    fn sequence(&mut self, close: char, depth: usize) -> Option<Value<'t>> {
        self.rest = self.rest.get(1..)?;
        let mut items = Vec::new();
        while self.eat(close).is_none() {
            items.push(self.value(depth + 1)?);
            if self.eat(',').is_none() {
                self.eat(close)?;
                break;
            }
        }
        Some(Value::Sequence(items))
    }

    /// A quoted text. Escapes end the parse: no type string has any.
    fn text(&mut self) -> Option<&'t str> {
        let quote = self.rest.chars().next().filter(|c| matches!(c, '\'' | '"'))?;
        let (text, rest) = self.rest.get(1..)?.split_once(quote)?;
        self.rest = rest;
        (!text.contains('\\')).then_some(text)
    }

    fn number(&mut self) -> Option<Value<'t>> {
        let end = self.rest.find(|c: char| !c.is_ascii_digit()).unwrap_or(self.rest.len());
        let (digits, rest) = self.rest.split_at_checked(end)?;
        // Python 2 wrote long integers with an L.
        self.rest = rest.strip_prefix('L').unwrap_or(rest);
        digits.parse().ok().map(Value::Number)
    }

    fn eat(&mut self, symbol: char) -> Option<()> {
        self.rest = self.rest.trim_start().strip_prefix(symbol)?;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_as_numpy_writes_them() {
        let text = "{'descr': '<u2', 'fortran_order': False, 'shape': (3, 4, 5), }      \n";
        let (stored, fortran, shape) = parse(text).unwrap();
        assert_eq!((stored, fortran), (StoredDType::parse("<u2").unwrap(), false));
        assert_eq!(shape, [3, 4, 5]);
        let text = "{\"shape\":(7L,),\"descr\":\">f4\",\"fortran_order\":True}";
        let (stored, fortran, shape) = parse(text).unwrap();
        assert_eq!((stored, fortran), (StoredDType::parse(">f4").unwrap(), true));
        assert_eq!(shape, [7]);
    }

    #[test]
    fn what_is_refused_and_in_which_words() {
        for (text, words) in [
            ("", "not a Python dict"),
            ("{'descr': '<u2'", "not a Python dict"),
            ("{'descr': '<u2'} trailing", "not a Python dict"),
            ("{'descr': '<u2', 'shape': (3,)}", "has no 'fortran_order'"),
            ("{'descr': '<u2', 'fortran_order': 1, 'shape': (3,)}", "neither True nor False"),
            ("{'descr': '<u2', 'fortran_order': False, 'shape': 3}", "not a tuple"),
            ("{'descr': '<u2', 'fortran_order': False, 'shape': ('a',)}", "tuple of numbers"),
            ("{'descr': '<u2', 'fortran_order': False, 'shape': (-3,)}", "not a Python dict"),
            ("{'descr': '<u2', 'fortran_order': False, 'shape': (0, 3)}", "is empty"),
            ("{'descr': '<u2', 'fortran_order': False, 'shape': ()}", "single number"),
            ("{'descr': '|O', 'fortran_order': False, 'shape': (3,)}", "Python objects"),
            ("{'descr': '<U7', 'fortran_order': False, 'shape': (3,)}", "text"),
            ("{'descr': '<M8[ns]', 'fortran_order': False, 'shape': (3,)}", "dates"),
            ("{'descr': '<f16', 'fortran_order': False, 'shape': (3,)}", "'<f16'"),
            ("{'descr': [('x', '<u2')], 'fortran_order': False, 'shape': (3,)}", "structured"),
        ] {
            let error = parse(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text}: {error}");
        }
    }

    #[test]
    fn nesting_and_numbers_have_limits() {
        assert!(parse(&"(".repeat(100_000)).is_err());
        assert!(parse(&"{'a':".repeat(100_000)).is_err());
        let huge = "{'descr': '<u2', 'fortran_order': False, 'shape': (99999999999999999999,)}";
        assert!(parse(huge).is_err());
    }
}
