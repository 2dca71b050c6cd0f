//! What a format declares of an option, and what a caller may give for it.

use framefold_core::{ByteOrder, Error, Result, StoredDType};
use std::fmt;
use std::path::PathBuf;

/// An option of a format, declared in its row and nowhere else: the command line, the Python
/// classes, what they say of it and how their values are checked follow from here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct OptionSpec {
    /// The name, as callers from Python spell it.
    pub name: &'static str,
    /// Another name that Python takes for the sake of older scripts.
    pub alias: Option<&'static str>,
    /// Its name on the command line without dashes in front, if that differs from `name`.
    pub flag: Option<&'static str>,
    /// What may be given.
    pub kind: OptionKind,
    /// What a number counts, if it counts something.
    pub unit: Option<&'static str>,
    /// What counts if nothing is given, as the command line spells it; `None` where the format
    /// goes by the file.
    pub default: Option<&'static str>,
    /// Whether `None` may be given in Python, and is another value than the default.
    pub takes_none: bool,
    /// What it is for: a sentence without its full stop.
    pub help: &'static str,
}

/// What may be given for an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum OptionKind {
    /// Lengths of axes: `128,128` or `(128, 128)`.
    Shape,
    /// A whole number from 0 up.
    Count,
    /// A number of bytes.
    Bytes,
    /// A whole number.
    Integer,
    /// A finite number.
    Number,
    /// A name.
    Text,
    /// One of these words.
    Choice(&'static [&'static str]),
    /// A dtype, as NumPy names it.
    DType,
    /// `<` or `little`, `>` or `big`.
    ByteOrder,
    /// On if given.
    Flag,
    /// On, off, or as the format likes it.
    Switch {
        /// What it does if it is off; on the command line `--no-…`.
        off: &'static str,
    },
    /// A file.
    Path,
    /// Several files.
    Paths,
    /// Whatever the format takes for it, as a text: formats differ in what that is.
    Written,
}

/// The value of an option.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum OptionValue {
    /// Of [`OptionKind::Shape`].
    Shape(Vec<usize>),
    /// Of [`OptionKind::Count`] and [`OptionKind::Bytes`].
    Count(u64),
    /// Of [`OptionKind::Integer`].
    Integer(i64),
    /// Of [`OptionKind::Number`].
    Number(f64),
    /// Of [`OptionKind::Text`] and [`OptionKind::Choice`].
    Text(String),
    /// Of [`OptionKind::DType`].
    DType(StoredDType),
    /// Of [`OptionKind::ByteOrder`].
    ByteOrder(ByteOrder),
    /// Of [`OptionKind::Flag`] and [`OptionKind::Switch`].
    Switch(bool),
    /// Of [`OptionKind::Path`].
    Path(PathBuf),
    /// Of [`OptionKind::Paths`].
    Paths(Vec<PathBuf>),
    /// Of [`OptionKind::Written`]: what [`OptionSpec::parse`] of the format that opens the file reads.
    Written(String),
    /// `None`, where [`OptionSpec::takes_none`].
    Nothing,
}

impl OptionSpec {
    /// An option without unit, default and other names. Flags are off by default.
    #[must_use]
    pub const fn new(name: &'static str, kind: OptionKind, help: &'static str) -> Self {
        let default = match kind {
            OptionKind::Flag => Some("false"),
            _ => None,
        };
        let (alias, flag, unit, takes_none) = (None, None, None, false);
        OptionSpec { name, alias, flag, kind, unit, default, takes_none, help }
    }

    /// The same with what a number counts.
    #[must_use]
    pub const fn with_unit(mut self, unit: &'static str) -> Self {
        self.unit = Some(unit);
        self
    }

    /// The same with a default, as the command line spells it.
    #[must_use]
    pub const fn with_default(mut self, default: &'static str) -> Self {
        self.default = Some(default);
        self
    }

    /// The same with another name on the command line.
    #[must_use]
    pub const fn with_flag(mut self, flag: &'static str) -> Self {
        self.flag = Some(flag);
        self
    }

    /// The same with another name in Python.
    #[must_use]
    pub const fn with_alias(mut self, alias: &'static str) -> Self {
        self.alias = Some(alias);
        self
    }

    /// The default as a value.
    pub fn default_value(&self) -> Option<OptionValue> {
        self.default.and_then(|text| self.parse(text).ok())
    }

    /// The value that a text stands for, as on the command line.
    ///
    /// # Errors
    /// `InvalidArgument` that names option, value and what was expected.
    pub fn parse(&self, text: &str) -> Result<OptionValue> {
        let wrong = || self.wrong(&format!("'{text}'"));
        let value = match self.kind {
            OptionKind::Shape => {
                let parts = text.trim_end_matches(',').split([',', 'x']);
                let lengths: std::result::Result<_, _> =
                    parts.map(|part| part.trim().parse::<usize>()).collect();
                OptionValue::Shape(lengths.map_err(|_| wrong())?)
            }
            OptionKind::Count | OptionKind::Bytes => {
                OptionValue::Count(text.parse().map_err(|_| wrong())?)
            }
            OptionKind::Integer => OptionValue::Integer(text.parse().map_err(|_| wrong())?),
            OptionKind::Number => OptionValue::Number(text.parse().map_err(|_| wrong())?),
            OptionKind::Text | OptionKind::Choice(_) => OptionValue::Text(text.to_owned()),
            OptionKind::DType => OptionValue::DType(StoredDType::parse(text)?),
            OptionKind::ByteOrder => OptionValue::ByteOrder(match text {
                "<" | "little" => ByteOrder::Little,
                ">" | "big" => ByteOrder::Big,
                _ => return Err(wrong()),
            }),
            OptionKind::Flag | OptionKind::Switch { .. } => OptionValue::Switch(match text {
                "true" => true,
                "false" => false,
                _ => return Err(wrong()),
            }),
            OptionKind::Path => OptionValue::Path(PathBuf::from(text)),
            OptionKind::Paths => OptionValue::Paths(vec![PathBuf::from(text)]),
            OptionKind::Written => OptionValue::Written(text.to_owned()),
        };
        self.check(value)
    }

    /// The value itself, if it is of the kind.
    pub(crate) fn check(&self, value: OptionValue) -> Result<OptionValue> {
        let value = match (self.kind, value) {
            // Whole numbers are whole numbers, whatever type they come in.
            (OptionKind::Integer, OptionValue::Count(n)) => {
                i64::try_from(n).map_or(OptionValue::Count(n), OptionValue::Integer)
            }
            (OptionKind::Count | OptionKind::Bytes, OptionValue::Integer(n)) => {
                u64::try_from(n).map_or(OptionValue::Integer(n), OptionValue::Count)
            }
            (_, value) => value,
        };
        let fits = match (self.kind, &value) {
            (OptionKind::Count | OptionKind::Bytes, OptionValue::Count(_))
            | (OptionKind::Shape, OptionValue::Shape(_))
            | (OptionKind::Integer, OptionValue::Integer(_))
            | (OptionKind::Text, OptionValue::Text(_))
            | (OptionKind::DType, OptionValue::DType(_))
            | (OptionKind::ByteOrder, OptionValue::ByteOrder(_))
            | (OptionKind::Flag | OptionKind::Switch { .. }, OptionValue::Switch(_))
            | (OptionKind::Path, OptionValue::Path(_))
            | (OptionKind::Paths, OptionValue::Paths(_))
            | (OptionKind::Written, OptionValue::Written(_)) => true,
            (_, OptionValue::Nothing) => self.takes_none,
            (OptionKind::Number, OptionValue::Number(number)) => number.is_finite(),
            (OptionKind::Choice(choices), OptionValue::Text(text)) => {
                choices.contains(&text.as_str())
            }
            _ => false,
        };
        if fits { Ok(value) } else { Err(self.wrong(&value.to_string())) }
    }

    /// That `shown` was given, which is none of what may be.
    #[must_use]
    pub fn wrong(&self, shown: &str) -> Error {
        Error::invalid(format!("{}={shown} is not {}", self.name, self.expected()))
    }

    /// What may be given, in words: "a whole number from 0 up".
    pub fn expected(&self) -> String {
        match self.kind {
            OptionKind::Shape => "a tuple of lengths, such as 128,128".to_owned(),
            OptionKind::Count => "a whole number from 0 up".to_owned(),
            OptionKind::Bytes => "a number of bytes from 0 up".to_owned(),
            OptionKind::Integer => "a whole number".to_owned(),
            OptionKind::Number => "a finite number".to_owned(),
            OptionKind::Text => "a name".to_owned(),
            OptionKind::Choice(choices) => {
                let quoted: Vec<String> = choices.iter().map(|each| format!("'{each}'")).collect();
                quoted.join(" or ")
            }
            OptionKind::DType => "a dtype as NumPy names it, such as uint16".to_owned(),
            OptionKind::ByteOrder => {
                "'<' for little endian or '>' for big endian ('little' and 'big' are the same)"
                    .to_owned()
            }
            OptionKind::Flag => "True or False".to_owned(),
            OptionKind::Switch { .. } => "True, False or None".to_owned(),
            OptionKind::Path => "a path".to_owned(),
            OptionKind::Paths => "a list of paths".to_owned(),
            OptionKind::Written => "what the format takes".to_owned(),
        }
    }

    /// Whether the same values mean the same for both.
    pub fn is_like(&self, other: &OptionSpec) -> bool {
        let of = |spec: &OptionSpec| (spec.kind, spec.default, spec.takes_none);
        of(self) == of(other)
    }

    /// Its name on the command line, without dashes in front.
    pub fn flag_name(&self) -> String {
        self.flag.map_or_else(|| self.name.replace('_', "-"), str::to_owned)
    }
}

/// As it is written in Python.
impl fmt::Display for OptionValue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionValue::Shape(shape) => {
                let lengths: Vec<String> = shape.iter().map(usize::to_string).collect();
                let comma = if shape.len() == 1 { "," } else { "" };
                write!(f, "({}{comma})", lengths.join(", "))
            }
            OptionValue::Count(count) => write!(f, "{count}"),
            OptionValue::Integer(number) => write!(f, "{number}"),
            OptionValue::Number(number) => write!(f, "{number}"),
            OptionValue::Text(text) => write!(f, "'{text}'"),
            OptionValue::DType(dtype) => write!(f, "'{dtype}'"),
            OptionValue::ByteOrder(ByteOrder::Little) => f.write_str("'<'"),
            OptionValue::ByteOrder(ByteOrder::Big) => f.write_str("'>'"),
            OptionValue::Switch(true) => f.write_str("True"),
            OptionValue::Switch(false) => f.write_str("False"),
            OptionValue::Path(path) => write!(f, "'{}'", path.display()),
            OptionValue::Paths(paths) => f.debug_list().entries(paths).finish(),
            OptionValue::Written(text) => write!(f, "'{text}'"),
            OptionValue::Nothing => f.write_str("None"),
        }
    }
}

macro_rules! from {
    ($($from:ty => $variant:ident),* $(,)?) => {$(
        impl From<$from> for OptionValue {
            fn from(value: $from) -> Self {
                OptionValue::$variant(value.into())
            }
        }
    )*};
}

from! {
    Vec<usize> => Shape,
    u64 => Count,
    i64 => Integer,
    f64 => Number,
    &str => Text,
    String => Text,
    StoredDType => DType,
    framefold_core::DType => DType,
    ByteOrder => ByteOrder,
    bool => Switch,
    PathBuf => Path,
    Vec<PathBuf> => Paths,
}

impl From<usize> for OptionValue {
    fn from(count: usize) -> Self {
        OptionValue::Count(u64::try_from(count).unwrap_or(u64::MAX))
    }
}
