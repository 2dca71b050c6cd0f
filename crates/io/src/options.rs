//! What a caller may say about a file beyond its path.

mod common;
mod spec;

pub(crate) use common::{
    ALLOW_EXTERNAL_LINKS, DATASET_INDEX, DISABLE_GLOB, DS_PATH, DTYPE, ENABLE_CORRECTIONS, FILES,
    IO_BACKEND, NAV_SHAPE, SIG_DIMS, SIG_SHAPE, SYNC_OFFSET,
};
pub use spec::{OptionKind, OptionSpec, OptionValue};

use framefold_core::{ByteOrder, Error, Result, StoredDType};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// How the bytes of a file are brought into memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Backend {
    /// The file is mapped; tiles are lent as they lie in it where dtype and layout allow.
    #[default]
    Mmap,
    /// The file is read piece by piece. Slower on a local disk; robust on network file systems.
    Buffered,
}

impl Backend {
    /// The name used by callers: `mmap` or `buffered`.
    pub fn name(self) -> &'static str {
        match self {
            Backend::Mmap => "mmap",
            Backend::Buffered => "buffered",
        }
    }
}

/// What a caller may say about a file beyond its path; the default says nothing.
///
/// The fields are what opening itself goes by. All else belongs to a format: it is declared in the
/// format's row ([`OptionSpec`]), given by name with [`with`](Self::with) or [`set`](Self::set), and
/// checked against the row when a file is opened. An option given to a format that has no use for
/// it is an error, never ignored.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct OpenOptions {
    /// The scan shape. Its product may differ from the number of frames: surplus frames are
    /// left out, positions without a frame have no data. `None` takes what the file suggests.
    pub nav_shape: Option<Vec<usize>>,
    /// The shape of a frame. `None` takes what the file says.
    pub sig_shape: Option<Vec<usize>>,
    /// Scan position `p` shows frame `p + sync_offset`.
    pub sync_offset: i64,
    /// Whether `sync_offset` is what the caller wants even where it is 0. Formats that know
    /// themselves where the scan begins (`tvips`, `k2is`) go by the file otherwise.
    pub fixed_sync: bool,
    /// How the bytes are brought into memory.
    pub backend: Backend,
    /// The files of a stack, in the order of its frames; empty for a single file or a set that is
    /// found by itself. The path that is opened is then that of the first one.
    pub files: Vec<PathBuf>,
    /// The options of the format, by name; see [`with`](Self::with).
    pub own: BTreeMap<String, OptionValue>,
}

impl OpenOptions {
    /// These options with one more, by its name in the format's row. Checked when a file is opened.
    #[must_use]
    pub fn with(mut self, name: &str, value: impl Into<OptionValue>) -> Self {
        self.put(name, value.into());
        self
    }

    /// The same if there is a value.
    #[must_use]
    pub fn with_some(self, name: &str, value: Option<impl Into<OptionValue>>) -> Self {
        match value {
            Some(value) => self.with(name, value),
            None => self,
        }
    }

    /// Sets what a caller gave for an option; its default says nothing.
    ///
    /// # Errors
    /// `InvalidArgument` that names option, value and what was expected.
    pub fn set(&mut self, spec: &OptionSpec, value: OptionValue) -> Result<()> {
        let value = spec.check(value)?;
        // Zero is an offset, too, where the file has another.
        let is_default = spec.default_value().as_ref() == Some(&value);
        if is_default && ![SYNC_OFFSET.name, IO_BACKEND.name].contains(&spec.name) {
            self.own.remove(spec.name);
        } else {
            self.put(spec.name, value);
        }
        Ok(())
    }

    /// The value of an option, if it was given.
    pub fn get(&self, name: &str) -> Option<OptionValue> {
        let backend = (self.backend != Backend::default()).then(|| self.backend.name());
        match name {
            "nav_shape" => self.nav_shape.clone().map(OptionValue::Shape),
            // `None`, where a format takes it, is no shape.
            "sig_shape" => self
                .sig_shape
                .clone()
                .map(OptionValue::Shape)
                .or_else(|| self.own.get(name).cloned()),
            "sync_offset" => (self.sync_offset != 0 || self.fixed_sync)
                .then_some(OptionValue::Integer(self.sync_offset)),
            "io_backend" => backend.map(|name| OptionValue::Text(name.to_owned())),
            "files" => (!self.files.is_empty()).then(|| OptionValue::Paths(self.files.clone())),
            _ => self.own.get(name).cloned(),
        }
    }

    pub(crate) fn put(&mut self, name: &str, value: OptionValue) {
        self.own.remove(name);
        match (name, value) {
            ("nav_shape", OptionValue::Shape(shape)) => self.nav_shape = Some(shape),
            ("sig_shape", OptionValue::Shape(shape)) => self.sig_shape = Some(shape),
            ("sync_offset", OptionValue::Integer(offset)) => {
                self.sync_offset = offset;
                self.fixed_sync = true;
            }
            ("io_backend", OptionValue::Text(name)) if name == Backend::Buffered.name() => {
                self.backend = Backend::Buffered;
            }
            ("io_backend", OptionValue::Text(name)) if name == Backend::Mmap.name() => {
                self.backend = Backend::Mmap;
            }
            ("files", OptionValue::Paths(files)) => self.files = files,
            (name, value) => {
                self.own.insert(name.to_owned(), value);
            }
        }
    }

    /// Whether a switch is on.
    pub(crate) fn is_on(&self, spec: &OptionSpec) -> bool {
        self.switch(spec).unwrap_or(false)
    }

    /// Whether a switch is on or off, if anything was said.
    pub(crate) fn switch(&self, spec: &OptionSpec) -> Option<bool> {
        match self.own.get(spec.name) {
            Some(OptionValue::Switch(on)) => Some(*on),
            _ => None,
        }
    }

    /// A number of things.
    pub(crate) fn count(&self, spec: &OptionSpec) -> Option<usize> {
        match self.own.get(spec.name) {
            Some(OptionValue::Count(count)) => usize::try_from(*count).ok(),
            _ => None,
        }
    }

    /// A number of bytes, 0 if nothing was said.
    pub(crate) fn bytes(&self, spec: &OptionSpec) -> u64 {
        match self.own.get(spec.name) {
            Some(OptionValue::Count(count)) => *count,
            _ => 0,
        }
    }

    /// A name or one of several words.
    pub(crate) fn text(&self, spec: &OptionSpec) -> Option<&str> {
        match self.own.get(spec.name) {
            Some(OptionValue::Text(text)) => Some(text),
            _ => None,
        }
    }

    pub(crate) fn path(&self, spec: &OptionSpec) -> Option<&Path> {
        match self.own.get(spec.name) {
            Some(OptionValue::Path(path)) => Some(path),
            _ => None,
        }
    }

    pub(crate) fn dtype(&self, spec: &OptionSpec) -> Option<StoredDType> {
        match self.own.get(spec.name) {
            Some(OptionValue::DType(dtype)) => Some(*dtype),
            _ => None,
        }
    }

    pub(crate) fn byte_order(&self, spec: &OptionSpec) -> Option<ByteOrder> {
        match self.own.get(spec.name) {
            Some(OptionValue::ByteOrder(order)) => Some(*order),
            _ => None,
        }
    }

    /// The names of what was given.
    fn given(&self) -> impl Iterator<Item = &str> {
        let shared = [NAV_SHAPE, SIG_SHAPE, SYNC_OFFSET, IO_BACKEND, FILES];
        let shared = shared.into_iter().map(|spec| spec.name).filter(|name| match *name {
            // That the caller means 0 is nothing that a format could refuse.
            "sync_offset" => self.sync_offset != 0,
            name => self.get(name).is_some(),
        });
        shared.chain(self.own.keys().map(String::as_str))
    }

    /// Refuses options that `format` has no use for, and values that are of another kind than its
    /// row says; `used` are the options that it has.
    ///
    /// # Errors
    /// `InvalidArgument` that names the option and the format, or what was expected.
    pub(crate) fn check(&self, format: &'static str, used: &[OptionSpec]) -> Result<()> {
        for name in self.given() {
            let Some(spec) = used.iter().find(|spec| spec.name == name) else {
                let names: Vec<&str> = used.iter().map(|spec| spec.name).collect();
                return Err(Error::invalid(format!(
                    "the option '{name}' has no meaning for the format '{format}'"
                ))
                .with_hint(format!("leave it out; '{format}' takes {}", names.join(", "))));
            };
            if let Some(value) = self.own.get(name) {
                spec.check(value.clone())?;
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::FORMATS;
    use framefold_core::DType;

    /// The options of all formats, found by the compiler: a list that is read when tests run would have
    /// all formats compiled for the tests of this crate.
    const OPTIONS: [&[OptionSpec]; FORMATS.len()] = {
        let mut options = [&[] as &[OptionSpec]; FORMATS.len()];
        let mut i = 0;
        while i < FORMATS.len() {
            options[i] = FORMATS[i].options;
            i += 1;
        }
        options
    };

    fn every_option() -> (Vec<OptionSpec>, OpenOptions) {
        let mut specs: Vec<OptionSpec> = Vec::new();
        let mut options = OpenOptions::default();
        for spec in OPTIONS.into_iter().flatten() {
            if specs.iter().all(|known| known.name != spec.name) {
                specs.push(*spec);
            }
        }
        for spec in &specs {
            let value = match spec.kind {
                OptionKind::Shape => OptionValue::Shape(vec![1]),
                OptionKind::Count | OptionKind::Bytes => OptionValue::Count(1),
                OptionKind::Integer => OptionValue::Integer(1),
                OptionKind::Number => OptionValue::Number(1.5),
                OptionKind::Text => OptionValue::Text("entry/data".into()),
                OptionKind::Choice(choices) => {
                    OptionValue::Text((*choices.last().unwrap()).to_owned())
                }
                OptionKind::DType => OptionValue::DType(DType::U8.into()),
                OptionKind::ByteOrder => OptionValue::ByteOrder(ByteOrder::Big),
                OptionKind::Flag | OptionKind::Switch { .. } => OptionValue::Switch(true),
                OptionKind::Path => OptionValue::Path("gain.csv".into()),
                OptionKind::Paths => OptionValue::Paths(vec!["a".into()]),
                OptionKind::Written => OptionValue::Written("a".into()),
            };
            options.set(spec, value.clone()).unwrap();
            assert_eq!(options.get(spec.name), Some(value));
        }
        (specs, options)
    }

    #[test]
    fn defaults_are_of_their_kind_and_say_nothing() {
        let (specs, _) = every_option();
        let mut options = OpenOptions::default();
        for spec in specs {
            assert!(spec.default.is_none() == spec.default_value().is_none(), "{spec:?}");
            assert!(!spec.help.is_empty() && !spec.help.ends_with('.'), "{spec:?}");
            if let Some(value) = spec.default_value().filter(|_| spec.name != "sync_offset") {
                options.set(&spec, value).unwrap();
            }
        }
        assert_eq!(options, OpenOptions::default());
        assert!(options.check("npy", &[]).is_ok());
    }

    #[test]
    fn an_option_without_use_is_named() {
        let (specs, options) = every_option();
        assert!(options.check("npy", &specs).is_ok());
        for unused in &specs {
            let name = unused.name;
            let used: Vec<OptionSpec> =
                specs.iter().copied().filter(|spec| spec.name != name).collect();
            let error = options.check("npy", &used).unwrap_err().to_string();
            assert!(error.contains(&format!("'{name}'")) && error.contains("'npy'"), "{error}");
        }
    }

    #[test]
    fn a_value_of_another_kind_is_named() {
        let (specs, _) = every_option();
        let odd = OpenOptions::default().with("same_offset", "yes");
        let error = odd.check("dm", &specs).unwrap_err().to_string();
        assert!(error.contains("same_offset='yes'") && error.contains("True or False"), "{error}");
        let gap = OpenOptions::default().with("quad_gap", "wide");
        let error = gap.check("mib", &specs).unwrap_err().to_string();
        assert!(error.contains("quad_gap='wide'") && error.contains("'insert'"), "{error}");
    }
}
