//! The tag tree of a DM3 or DM4 file: read as a whole, but for the contents of arrays.
//!
//! | part | DM3 | DM4 |
//! |---|---|---|
//! | version, u4 | 0: 3 | 0: 4 |
//! | size of the file, not used | 4: u4 | 4: u8 |
//! | order of the values' bytes, u4: 1 is little endian, 0 big endian | 8 | 12 |
//! | root group | 12 | 16 |
//!
//! With Q = u4 (DM3) or u8 (DM4), and everything but the values big endian:
//!
//! - group: u1 sorted, u1 open, Q number of entries, the entries;
//! - entry: u1 kind (20 group, 21 value), u2 length of the name, the name, DM4 only: u8 bytes
//!   that follow; then a group or a value. Entries without a name are counted from 0;
//! - value: `%%%%`, Q number of words, the words (Q each) which say what it is, its bytes.
//!
//! | words | value |
//! |---|---|
//! | type | one number |
//! | 18, length | text |
//! | 15, length, n, n × (length, type) | a record of n numbers |
//! | 20, type, count | an array; of type 4 also text, in UTF-16 |
//! | 20, 15, length, n, n × (length, type), count | an array of records |

use super::cursor::Cursor;
use crate::access::Storage;
use framefold_core::{ByteOrder, Error, Result};

/// Groups within groups; real files have fewer than 20.
const MAX_DEPTH: usize = 64;
/// Entries of a file; real ones have a few thousand.
const MAX_TAGS: usize = 1 << 20;
/// Words that describe one value; they grow with the fields of a record.
const MAX_WORDS: u64 = 1 << 12;
/// Texts longer than this (in bytes) are left where they are.
const MAX_TEXT: u64 = 1 << 16;

/// What a tag holds.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Value {
    /// A group: the numbers of its entries.
    Group(Vec<usize>),
    /// A whole number or a truth value.
    Integer(i128),
    /// A real number.
    Real(f64),
    /// A text; where it is one of UTF-16, it could be an array as well.
    Text(String, Option<TagArray>),
    /// An array, which stays in the file.
    Array(TagArray),
    /// A record of numbers, a text that is too long, and what else is not used.
    Other,
}

/// Where the elements of an array are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct TagArray {
    /// The offset of the first one; all of them are within the file.
    pub(crate) offset: u64,
    pub(crate) len_bytes: u64,
    pub(crate) count: u64,
}

#[derive(Debug)]
struct Tag {
    name: String,
    value: Value,
}

/// All tags of a file.
#[derive(Debug)]
pub(crate) struct Tags {
    /// 3 or 4.
    pub(crate) version: u32,
    /// That of the values.
    pub(crate) order: ByteOrder,
    tags: Vec<Tag>,
    root: Vec<usize>,
}

/// A group of [`Tags`].
#[derive(Clone, Copy, Debug)]
pub(crate) struct Group<'t> {
    tags: &'t Tags,
    entries: &'t [usize],
}

/// What the first bytes say: the version and the order of the values' bytes.
pub(crate) fn signature(prefix: &[u8]) -> Option<(u32, ByteOrder)> {
    let version = u32::from_be_bytes(*prefix.first_chunk()?);
    let at = match version {
        3 => 8,
        4 => 12,
        _ => return None,
    };
    match u32::from_be_bytes(*prefix.get(at..)?.first_chunk()?) {
        0 => Some((version, ByteOrder::Big)),
        1 => Some((version, ByteOrder::Little)),
        _ => None,
    }
}

impl Tags {
    /// Reads all tags of a file.
    ///
    /// # Errors
    /// `BadFile` if it is no DM file or ends before its last tag; `Unsupported` if there is a value
    /// of a type that is not known; `Limit` if there are too many tags.
    pub(crate) fn read(storage: &Storage) -> Result<Self> {
        let mut prefix = [0; 16];
        let len = usize::try_from(storage.len()).map_or(prefix.len(), |len| len.min(prefix.len()));
        let start = prefix.get_mut(..len).unwrap_or_default();
        storage.read_at(0, start)?;
        let Some((version, order)) = signature(start) else {
            let error = Error::bad_file(format!(
                "the file does not begin as a DM3 or DM4 file: its first bytes are {:02x?}, \
                 expected 00 00 00 03 or 00 00 00 04, and the byte order 0 or 1 soon after",
                start
            ));
            return Err(storage.locate(error.with_offset(0)));
        };
        let start = if version == 3 { 12 } else { 16 };
        let mut parser =
            Parser { cursor: Cursor::new(storage, start), version, order, tags: Vec::new() };
        let root = parser.group(0)?;
        Ok(Tags { version, order, tags: parser.tags, root })
    }

    /// The group of all others.
    pub(crate) fn root(&self) -> Group<'_> {
        Group { tags: self, entries: &self.root }
    }
}

impl<'t> Group<'t> {
    /// Its entries and their names, in the order of the file.
    pub(crate) fn entries(self) -> impl Iterator<Item = (&'t str, Entry<'t>)> {
        let tags = self.tags;
        let entry = move |index: &usize| {
            let tag = tags.tags.get(*index)?;
            Some((tag.name.as_str(), Entry { tags, value: &tag.value }))
        };
        self.entries.iter().filter_map(entry)
    }

    /// The entry at a path of names, such as `["ImageData", "Data"]`.
    pub(crate) fn entry(self, path: &[&str]) -> Option<Entry<'t>> {
        let (first, rest) = path.split_first()?;
        let (_, entry) = self.entries().find(|(name, _)| name == first)?;
        if rest.is_empty() { Some(entry) } else { entry.group()?.entry(rest) }
    }

    /// The group at a path of names.
    pub(crate) fn group(self, path: &[&str]) -> Option<Group<'t>> {
        self.entry(path)?.group()
    }

    /// The whole number at a path of names.
    pub(crate) fn integer(self, path: &[&str]) -> Option<i128> {
        match self.entry(path)?.value() {
            Value::Integer(number) => Some(*number),
            _ => None,
        }
    }

    /// The number at a path of names.
    pub(crate) fn number(self, path: &[&str]) -> Option<f64> {
        match self.entry(path)?.value() {
            #[expect(clippy::cast_precision_loss, reason = "values are for people to read")]
            Value::Integer(number) => Some(*number as f64),
            Value::Real(number) => Some(*number),
            _ => None,
        }
    }

    /// The text at a path of names.
    pub(crate) fn text(self, path: &[&str]) -> Option<&'t str> {
        match self.entry(path)?.value() {
            Value::Text(text, _) => Some(text),
            _ => None,
        }
    }

    /// The array at a path of names.
    pub(crate) fn array(self, path: &[&str]) -> Option<TagArray> {
        match self.entry(path)?.value() {
            Value::Array(array) | Value::Text(_, Some(array)) => Some(*array),
            _ => None,
        }
    }
}

/// One tag.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Entry<'t> {
    tags: &'t Tags,
    value: &'t Value,
}

impl<'t> Entry<'t> {
    pub(crate) fn value(self) -> &'t Value {
        self.value
    }

    pub(crate) fn group(self) -> Option<Group<'t>> {
        match self.value {
            Value::Group(entries) => Some(Group { tags: self.tags, entries }),
            _ => None,
        }
    }
}

struct Parser<'s> {
    cursor: Cursor<'s>,
    version: u32,
    order: ByteOrder,
    tags: Vec<Tag>,
}

impl Parser<'_> {
    /// Reads a group; gives the numbers of its entries.
    fn group(&mut self, depth: usize) -> Result<Vec<usize>> {
        if depth > MAX_DEPTH {
            let error = Error::limit(format!("more than {MAX_DEPTH} groups of tags in each other"));
            return Err(self.cursor.locate(error));
        }
        self.cursor.skip(2)?;
        let n_entries = self.word()?;
        let mut n_unnamed = 0u64;
        let mut entries = Vec::new();
        for n in 0..n_entries {
            let start = self.cursor.position();
            let kind = self.cursor.u8()?;
            if kind == 0 {
                let error = Error::bad_file(format!(
                    "a group of tags ends after {n} entries, expected {n_entries}"
                ));
                let hint = "the file is cut short or damaged; copy it again";
                return Err(self.cursor.locate_at(error.with_hint(hint), start));
            }
            let name_len = self.cursor.u16()?;
            let mut name = self.cursor.text(u64::from(name_len))?;
            if name.is_empty() {
                name = n_unnamed.to_string();
                n_unnamed += 1;
            }
            let end = if self.version == 4 {
                let len = self.cursor.u64()?;
                self.cursor.position().checked_add(len)
            } else {
                None
            };
            if self.tags.len() >= MAX_TAGS {
                let error = Error::limit(format!("the file has more than {MAX_TAGS} tags"));
                return Err(self.cursor.locate(error));
            }
            let value = match kind {
                20 => Value::Group(self.group(depth + 1)?),
                21 => self.value(end)?,
                _ => {
                    let error = Error::bad_file(format!(
                        "an entry of a group of tags is of kind {kind}, expected 20 or 21"
                    ));
                    return Err(self.cursor.locate_at(error, start));
                }
            };
            entries.push(self.tags.len());
            self.tags.push(Tag { name, value });
        }
        Ok(entries)
    }

    /// Reads a value, of which DM4 files say where it ends.
    fn value(&mut self, end: Option<u64>) -> Result<Value> {
        let start = self.cursor.position();
        let mark = self.cursor.array::<4>()?;
        if mark != *b"%%%%" {
            let error =
                Error::bad_file(format!("a value begins with {mark:02x?}, expected '%%%%'"));
            return Err(self.cursor.locate_at(error, start));
        }
        let n_words = self.word()?;
        if n_words == 0 || n_words > MAX_WORDS {
            let error = Error::bad_file(format!(
                "a value is described by {n_words} words, expected 1 to {MAX_WORDS}"
            ));
            return Err(self.cursor.locate_at(error, start));
        }
        let words = (0..n_words).map(|_| self.word()).collect::<Result<Vec<u64>>>()?;
        match words.as_slice() {
            [number] if size_of(*number).is_some() => self.number(*number),
            [18, len] => self.text(*len, 1),
            [15, _, n_fields, fields @ ..] => {
                let size = record_size(*n_fields, fields).ok_or_else(|| self.unknown(&words))?;
                self.cursor.skip(size)?;
                Ok(Value::Other)
            }
            [20, 15, _, n_fields, fields @ .., count] => {
                let size = record_size(*n_fields, fields).ok_or_else(|| self.unknown(&words))?;
                self.array(size, *count)
            }
            [20, 4, count] if *count > 0 && count.saturating_mul(2) <= MAX_TEXT => {
                let (at, count) = (self.cursor.position(), *count);
                let array = self.array(2, count)?;
                self.cursor.go_to(at);
                // Pixels of a small image look like text as well.
                Ok(match (self.text(count, 2)?, array) {
                    (Value::Text(text, _), Value::Array(array)) => Value::Text(text, Some(array)),
                    (_, array) => array,
                })
            }
            [20, element, count] => {
                let size = size_of(*element).ok_or_else(|| self.unknown(&words))?;
                self.array(size, *count)
            }
            _ => match end.filter(|&end| end >= self.cursor.position()) {
                Some(end) => {
                    self.cursor.skip(end - self.cursor.position())?;
                    Ok(Value::Other)
                }
                None => Err(self.unknown(&words)),
            },
        }
    }

    fn array(&mut self, element_bytes: u64, count: u64) -> Result<Value> {
        let offset = self.cursor.position();
        let len_bytes = count.checked_mul(element_bytes).ok_or_else(|| {
            let error = Error::bad_file(format!("an array of {count} elements"));
            self.cursor.locate(error)
        })?;
        self.cursor.skip(len_bytes)?;
        Ok(Value::Array(TagArray { offset, len_bytes, count }))
    }

    fn text(&mut self, count: u64, unit: u64) -> Result<Value> {
        let len = count.checked_mul(unit).filter(|&len| len <= MAX_TEXT);
        let Some(len) = len else {
            self.cursor.skip(count.saturating_mul(unit))?;
            return Ok(Value::Other);
        };
        if unit == 1 {
            return Ok(Value::Text(self.cursor.text(len)?, None));
        }
        let units = self.cursor.bytes(len)?;
        let (pairs, _) = units.as_chunks::<2>();
        let units = pairs.iter().map(|pair| match self.order {
            ByteOrder::Little => u16::from_le_bytes(*pair),
            ByteOrder::Big => u16::from_be_bytes(*pair),
        });
        let text: String =
            char::decode_utf16(units).map(|unit| unit.unwrap_or('\u{fffd}')).collect();
        Ok(Value::Text(text, None))
    }

    fn number(&mut self, kind: u64) -> Result<Value> {
        macro_rules! read {
            ($type:ty) => {{
                let bytes = self.cursor.array()?;
                match self.order {
                    ByteOrder::Little => <$type>::from_le_bytes(bytes),
                    ByteOrder::Big => <$type>::from_be_bytes(bytes),
                }
            }};
        }
        Ok(match kind {
            2 => Value::Integer(read!(i16).into()),
            3 => Value::Integer(read!(i32).into()),
            4 => Value::Integer(read!(u16).into()),
            5 => Value::Integer(read!(u32).into()),
            6 => Value::Real(read!(f32).into()),
            7 => Value::Real(read!(f64)),
            9 => Value::Integer(read!(i8).into()),
            11 => Value::Integer(read!(i64).into()),
            12 => Value::Integer(read!(u64).into()),
            _ => Value::Integer(read!(u8).into()),
        })
    }

    /// A structural number.
    fn word(&mut self) -> Result<u64> {
        if self.version == 4 { self.cursor.u64() } else { self.cursor.u32().map(u64::from) }
    }

    fn unknown(&self, words: &[u64]) -> Error {
        let shown = words.get(..8).unwrap_or(words);
        let error = Error::unsupported(format!(
            "a value of a type that is not known: it is described by {shown:?}"
        ));
        self.cursor.locate(error)
    }
}

/// The size of one number of a type.
fn size_of(kind: u64) -> Option<u64> {
    match kind {
        8..=10 => Some(1),
        2 | 4 => Some(2),
        3 | 5 | 6 => Some(4),
        7 | 11 | 12 => Some(8),
        _ => None,
    }
}

/// The size of a record with these fields, each a length of its name and a type.
fn record_size(n_fields: u64, fields: &[u64]) -> Option<u64> {
    let (fields, rest) = fields.as_chunks::<2>();
    if !rest.is_empty() || u64::try_from(fields.len()).ok() != Some(n_fields) {
        return None;
    }
    fields.iter().try_fold(0u64, |size, [_, kind]| size.checked_add(size_of(*kind)?))
}
