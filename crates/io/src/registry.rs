//! Formats that other crates bring along.

use crate::format::Format;
use crate::formats::FORMATS;
use crate::options::{OptionKind, OptionSpec};
use framefold_core::{Error, Result};
use std::sync::{PoisonError, RwLock};

static ADDED: RwLock<Vec<&'static Format>> = RwLock::new(Vec::new());

/// Adds a format to those that [`open`](crate::open), [`detect`](crate::detect) and
/// [`formats`] know, until the program ends.
///
/// It is asked before the built-in formats, so that it can tell its own files from others in the
/// same container; and like them, it is asked first about files of its extensions.
///
/// On the command line, an option that no built-in format has is called `--option-` and its name, so that
/// it is none of the command line's own.
///
/// ```
/// use framefold_core::{Dataset, StoredDType};
/// use framefold_io::{
///     Format, MemoryArray, MemorySource, OpenOptions, OptionKind, OptionSpec, Prefix, Verdict,
///     detect, open, register,
/// };
/// use std::path::Path;
/// use std::sync::Arc;
///
/// /// `TINY`, one byte that is the edge of the frames, and the frames, a byte for each pixel.
/// fn is_tiny(prefix: &Prefix<'_>) -> Verdict {
///     if prefix.bytes.starts_with(b"TINY") {
///         Verdict::Match("it starts with 'TINY'".into())
///     } else {
///         Verdict::No(format!("it starts with {}, not with 'TINY'", prefix.describe()))
///     }
/// }
///
/// fn open_tiny(path: &Path, options: &OpenOptions) -> framefold_core::Result<Dataset> {
///     let bytes = std::fs::read(path).map_err(|e| framefold_core::Error::io("read it", e))?;
///     let edge = bytes.get(4).copied().unwrap_or(1).into();
///     let skipped = match options.get("skip") {
///         Some(framefold_io::OptionValue::Count(frames)) => frames as usize,
///         _ => 0,
///     };
///     let offset_bytes = 5 + skipped * edge * edge;
///     let n_frames = (bytes.len() - offset_bytes) / (edge * edge);
///     let layout = MemoryArray {
///         shape: vec![n_frames, edge, edge],
///         offset_bytes,
///         stored: StoredDType::parse("uint8")?,
///         sig_dims: 2,
///         strides_bytes: None,
///     };
///     let source = Arc::new(MemorySource::try_new(Arc::new(bytes), layout)?);
///     Dataset::try_new(source, options.nav_shape.as_deref(), options.sync_offset)
/// }
///
/// const OPTIONS: &[OptionSpec] = &[
///     OptionSpec::new("nav_shape", OptionKind::Shape, "The scan shape"),
///     OptionSpec::new("skip", OptionKind::Count, "How many frames to leave out at the start")
///         .with_unit("frames")
///         .with_default("0"),
/// ];
///
/// register(Format {
///     name: "tiny",
///     title: "tiny frames",
///     extensions: &["tiny"],
///     options: OPTIONS,
///     detect: &is_tiny,
///     open: &open_tiny,
/// })?;
///
/// # let dir = tempfile::tempdir()?;
/// # let path = dir.path().join("scan.tiny");
/// std::fs::write(&path, [b"TINY\x02".as_slice(), &[7; 12]].concat())?;
/// assert_eq!(detect(&path)?.format.name, "tiny");
/// let dataset = open(&path, &OpenOptions::default().with("skip", 1u64))?;
/// assert_eq!(dataset.shape().to_string(), "(2,) + (2, 2)");
///
/// // What a row does not declare is refused, and so are values of another kind.
/// assert!(open(&path, &OpenOptions::default().with("skip", "one")).is_err());
/// assert!(open(&path, &OpenOptions::default().with("leap", 1u64)).is_err());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// `InvalidArgument` if there is a format of that name, or an option of the same name that takes
/// something else, or a word that cannot be a name.
pub fn register(format: Format) -> Result<&'static Format> {
    add(format, false)
}

/// As [`register`], in the place of a format of that name that was added before, if there is one:
/// for those who write a format with a program that goes on. Data sets that are open stay as they
/// are.
///
/// # Errors
/// As [`register`].
pub fn replace(format: Format) -> Result<&'static Format> {
    add(format, true)
}

fn add(format: Format, replaces: bool) -> Result<&'static Format> {
    let mut added = ADDED.write().unwrap_or_else(PoisonError::into_inner);
    let same = |other: &&'static Format| replaces && other.name == format.name;
    let others: Vec<&'static Format> = added.iter().copied().filter(|o| !same(o)).collect();
    check(&format, &others)?;
    let options: Vec<OptionSpec> = format.options.iter().map(on_command_line).collect();
    let format = Format { options: options.leak(), ..format };
    let format: &'static Format = Box::leak(Box::new(format));
    *added = others;
    added.push(format);
    Ok(format)
}

/// All formats, in the order in which detection asks them.
pub fn formats() -> Vec<&'static Format> {
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    added.iter().copied().chain(FORMATS).collect()
}

/// The options of all formats, each once. Where a format that was added has another default, or takes
/// something else, than the others of the name, it takes a text, which the format that opens a file reads.
pub fn all_options() -> Vec<OptionSpec> {
    let mut found: Vec<OptionSpec> = Vec::new();
    for spec in FORMATS.iter().flat_map(|format| format.options) {
        if found.iter().all(|known| known.name != spec.name) {
            found.push(*spec);
        }
    }
    let added = ADDED.read().unwrap_or_else(PoisonError::into_inner);
    for spec in added.iter().flat_map(|format| format.options) {
        match found.iter_mut().find(|known| known.name == spec.name) {
            None => found.push(*spec),
            Some(known) if BY_ALL.contains(&known.name) || known.is_like(spec) => {}
            Some(known) => {
                let on_or_off = |kind| matches!(kind, OptionKind::Flag | OptionKind::Switch { .. });
                known.kind = match on_or_off(known.kind) && on_or_off(spec.kind) {
                    true => OptionKind::Switch { off: "Turn it off" },
                    false => OptionKind::Written,
                };
                known.default = None;
            }
        }
    }
    found
}

/// What opening itself goes by, whatever the format.
const BY_ALL: [&str; 5] = ["nav_shape", "sig_shape", "sync_offset", "io_backend", "files"];

/// The same with the flag that its option has on the command line.
fn on_command_line(spec: &OptionSpec) -> OptionSpec {
    let mut built_in = FORMATS.iter().flat_map(|format| format.options);
    let flag = match built_in.find(|known| known.name == spec.name) {
        Some(known) => known.flag,
        None => Some(&*format!("option-{}", spec.name.replace('_', "-")).leak()),
    };
    OptionSpec { flag, ..*spec }
}

fn check(format: &Format, added: &[&'static Format]) -> Result<()> {
    let is_word = |name: &str| {
        let ok = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'_';
        name.bytes().all(ok) && name.starts_with(|first: char| first.is_ascii_lowercase())
    };
    let wrong = |message: String| Err(Error::invalid(message));
    if !is_word(format.name) || ["auto", "memory", "dask"].contains(&format.name) {
        return wrong(format!(
            "a format cannot be called '{}': use small letters, digits and '_', and none of \
             auto, memory, dask",
            format.name
        ));
    }
    let known = || added.iter().copied().chain(FORMATS);
    if known().any(|other| other.name == format.name) {
        return wrong(format!("there is a format '{}' already", format.name));
    }
    for extension in format.extensions {
        if extension.contains('.') || *extension != extension.to_lowercase() {
            return wrong(format!(
                "the extension '{extension}' of '{}' is not in small letters without a dot",
                format.name
            ));
        }
    }
    for (i, spec) in format.options.iter().enumerate() {
        let twice = format.options.iter().take(i).any(|other| other.name == spec.name);
        let no_default = spec.default.filter(|_| spec.default_value().is_none());
        let why = match no_default {
            _ if twice => Some("is there twice".to_owned()),
            _ if !is_word(spec.name) => Some("is no word in small letters".to_owned()),
            Some(text) => Some(format!("has the default {text}, which is not {}", spec.expected())),
            None => None,
        };
        if let Some(why) = why {
            let named = format!("the option '{}' of the format '{}'", spec.name, format.name);
            return wrong(format!("{named} {why}"));
        }
        // Formats that were added share nothing: which came first would decide.
        let others = FORMATS.iter().flat_map(|other| other.options.iter().map(move |o| (other, o)));
        for (other, same) in others.filter(|(_, other)| other.name == spec.name) {
            if same.kind != spec.kind {
                return wrong(format!(
                    "the option '{}' of the format '{}' takes {}, but that of '{}' takes {}: give \
                     it another name",
                    spec.name,
                    format.name,
                    spec.expected(),
                    other.name,
                    same.expected()
                ));
            }
        }
    }
    Ok(())
}
