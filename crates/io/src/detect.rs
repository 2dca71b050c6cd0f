//! Finding out which format a file is, and opening it.

use crate::access::{Storage, files, storage};
use crate::format::{Format, PREFIX_LEN, Prefix, Verdict};
use crate::formats::{FORMATS, hdf5, raw, zarr};
use crate::options::{self, Backend, OpenOptions, OptionSpec, OptionValue};
use crate::readers::stack;
use crate::registry::formats;
use framefold_core::{Dataset, Error, Result, guarded_call};
use std::path::Path;

/// What may panic, in errors.
const FORMAT: &str = "the format";

/// Which format a file is, and why.
#[derive(Clone, Debug)]
pub struct Detection {
    /// The format.
    pub format: &'static Format,
    /// Why, in one line: "it starts with the NPY signature".
    pub reason: String,
}

/// Finds out which format a file is by its content; its extension only decides who is asked first.
///
/// # Errors
/// `Unsupported` that says for every format why it is not that one; `BadFile` if the file is
/// empty, or its extension promises a format that it is not; `Io` or `InvalidArgument` if it
/// cannot be read at all.
pub fn detect(path: impl AsRef<Path>) -> Result<Detection> {
    let path = path.as_ref();
    if path.is_dir() {
        return detect_folder(&Prefix { path, bytes: &[], len: 0 });
    }
    if let Some(files) = files::expand(path, &[])?
        && let Some(first) = files.first()
    {
        let found = detect(first)?;
        let reason = format!("{} files match, of the first one: {}", files.len(), found.reason);
        return Ok(Detection { reason, ..found });
    }
    let storage = Storage::open(path, Backend::Buffered)?;
    let len = storage.len();
    let mut bytes = vec![0; usize::try_from(len).map_or(PREFIX_LEN, |len| len.min(PREFIX_LEN))];
    storage.read_at(0, &mut bytes)?;
    detect_in(&formats(), &Prefix { path, bytes: &bytes, len })
}

/// How files begin that were compressed as a whole, and a program that does it.
const COMPRESSED: [(&[u8], &str); 4] = [
    (b"\x1f\x8b\x08", "gzip"),
    (b"BZh", "bzip2"),
    (b"\xfd7zXZ\0", "xz"),
    (b"\x28\xb5\x2f\xfd", "zstd"),
];

/// Formats of which each file stands for itself, and several are a stack.
const STACKED: &[&str] =
    &["npy", "mrc", "blo", "seq", "ser", "empad", "hdf5", "zarr", "prz", "spe"];

/// Formats of which a folder of files is taken for a stack, one frame or more to a file.
const IN_FOLDERS: &[&str] = &["tiff", "dm", "npy", "mrc", "prz", "spe"];

/// A folder is Zarr, or the files in it are a stack, if they are all of one format.
fn detect_folder(folder: &Prefix<'_>) -> Result<Detection> {
    for format in
        formats().into_iter().filter(|format| !FORMATS.iter().any(|f| f.name == format.name))
    {
        if let Verdict::Match(reason) = looked_at(format, folder)? {
            return Ok(Detection { format, reason });
        }
    }
    let no_zarr = match (zarr::FORMAT.detect)(folder) {
        Verdict::Match(reason) => return Ok(Detection { format: &zarr::FORMAT, reason }),
        Verdict::No(reason) => reason,
        Verdict::Failed(error) => return Err(error),
    };
    let mut found = Vec::new();
    for format in FORMATS.iter().filter(|format| IN_FOLDERS.contains(&format.name)) {
        let n = files::in_folder(folder.path, format.extensions)?.len();
        if n > 0 {
            found.push((format, n));
        }
    }
    match found.as_slice() {
        [(format, n)] => {
            let reason = format!("the folder holds {n} files of its extensions");
            Ok(Detection { format, reason })
        }
        [] => Err(Error::invalid(format!("this is a directory, not a file; {no_zarr}"))
            .with_path(folder.path)
            .with_hint("name one of the files in it, or several by a pattern: 'folder/*.raw'")),
        several => {
            let counts: Vec<String> =
                several.iter().map(|(format, n)| format!("{n} {}", format.name)).collect();
            Err(Error::invalid(format!(
                "the folder holds files of several formats: {}",
                counts.join(", ")
            ))
            .with_path(folder.path)
            .with_hint("name those of one stack by a pattern: 'folder/*.tif'"))
        }
    }
}

/// Opens a file of whatever format it turns out to be.
///
/// # Errors
/// As [`detect`] and the format's reader; `InvalidArgument` if an option has no meaning for the
/// format.
pub fn open(path: impl AsRef<Path>, options: &OpenOptions) -> Result<Dataset> {
    let path = path.as_ref();
    // The first file of a list is looked at.
    let first = options.files.first().map_or(path, |file| file.as_path());
    open_with(detect(first)?.format, path, options)
}

/// Opens a file as the format of that name; `auto` finds out by itself.
///
/// # Errors
/// As [`open`]; `InvalidArgument` that lists the formats if there is none of that name.
pub fn open_as(format: &str, path: impl AsRef<Path>, options: &OpenOptions) -> Result<Dataset> {
    let path = path.as_ref();
    if format == "auto" {
        return open(path, options);
    }
    match formats().into_iter().find(|known| known.name == format) {
        Some(known) => open_with(known, path, options),
        None => {
            let known: Vec<&str> = formats().into_iter().map(|format| format.name).collect();
            Err(Error::invalid(format!("unknown format '{format}'"))
                .with_hint(format!("use 'auto' or one of {}", known.join(", "))))
        }
    }
}

fn open_with(format: &'static Format, path: &Path, options: &OpenOptions) -> Result<Dataset> {
    let mut patterns = Vec::new();
    let open = || {
        let found = if !options.files.is_empty() || is_store(format, path) {
            None
        } else if can_be_many(format) {
            files::expand(path, format.extensions)?
        } else if path.is_dir() {
            None
        } else {
            // A pattern of files is refused as a list of them is; what matches none may be a name.
            files::expand(path, format.extensions).ok().flatten()
        };
        match found {
            Some(files) => {
                patterns = files::patterns(path, format.extensions);
                open_files(format, path, &OpenOptions { files, ..options.clone() })
            }
            None => open_files(format, path, options),
        }
    };
    storage::recorded(open)
        .map(|(dataset, opened)| dataset.with_opened(opened).with_found_by(patterns))
        .map_err(|error| error.with_path(path).with_format(format.name))
}

/// Whether files of this format can be opened together.
fn can_be_many(format: &Format) -> bool {
    format.takes(options::FILES.name) || STACKED.contains(&format.name)
}

/// Whether the folder is itself what the format reads.
fn is_store(format: &Format, path: &Path) -> bool {
    format.name == zarr::FORMAT.name && path.is_dir()
}

/// The same options, each of the kind that the format takes: `used`.
fn settled(options: &OpenOptions, used: &[OptionSpec]) -> Result<OpenOptions> {
    let mut settled = options.clone();
    for (name, value) in &options.own {
        let spec = used.iter().find(|spec| spec.name == name);
        let value = match (spec, value) {
            (Some(spec), OptionValue::Written(text)) => spec.parse(text)?,
            (Some(spec), value) => spec.check(value.clone())?,
            // The default of an option says nothing to formats that do not have it.
            (None, OptionValue::Written(text)) if is_default(name, text) => {
                settled.own.remove(name);
                continue;
            }
            (None, _) => continue,
        };
        settled.own.remove(name);
        settled.put(name, value);
    }
    Ok(settled)
}

fn is_default(name: &str, text: &str) -> bool {
    let mut options = formats().into_iter().flat_map(|format| format.options);
    options.any(|spec| spec.name == name && spec.default == Some(text))
}

fn open_files(format: &'static Format, path: &Path, options: &OpenOptions) -> Result<Dataset> {
    let stacked = !options.files.is_empty() && !format.takes(options::FILES.name);
    let used = [format.options, if stacked { &[options::FILES] } else { &[] }].concat();
    let options = &settled(options, &used)?;
    options.check(format.name, &used)?;
    if !stacked {
        return guarded_call(FORMAT, || (format.open)(path, options));
    }
    if !STACKED.contains(&format.name) {
        return Err(Error::unsupported(format!(
            "files of the format '{}' make no stack",
            format.name
        ))
        .with_hint("open one of the files; what belongs to it is found"));
    }
    stack::open(format, options)
}

/// What a format says of a file, which may be one of another crate.
fn looked_at(format: &'static Format, prefix: &Prefix<'_>) -> Result<Verdict> {
    let verdict = guarded_call(FORMAT, || match (format.detect)(prefix) {
        Verdict::Failed(error) => Err(error),
        verdict => Ok(verdict),
    });
    verdict.map_err(|error| error.with_path(prefix.path).with_format(format.name))
}

/// Asks the formats whose extension fits first, then the others, each in the table's order.
fn detect_in(formats: &[&'static Format], prefix: &Prefix<'_>) -> Result<Detection> {
    if prefix.len == 0 {
        return Err(Error::bad_file("the file is empty")
            .with_path(prefix.path)
            .with_hint("copy it again, or check how it was written"));
    }
    if let Some(error) = hdf5::older(prefix.bytes) {
        return Err(error.with_path(prefix.path));
    }
    let extension = prefix.extension();
    let fits = |format: &&'static Format| format.extensions.contains(&extension.as_str());
    let (first, others): (Vec<_>, Vec<_>) = formats.iter().copied().partition(fits);
    let in_order = first.into_iter().chain(others);
    let mut reasons = Vec::new();
    for format in in_order {
        match looked_at(format, prefix)? {
            Verdict::Match(reason) => return Ok(Detection { format, reason }),
            // Of others, what the file begins with tells enough.
            Verdict::No(reason) if fits(&format) => reasons.push((format, reason)),
            Verdict::No(_) => {}
            Verdict::Failed(error) => return Err(error),
        }
    }
    // An extension of plain pixels, too, promises nothing.
    let promises = !raw::FORMAT.extensions.contains(&extension.as_str());
    let of_extension: Vec<String> =
        reasons.iter().map(|(format, why)| format!("not {}: {why}", format.name)).collect();
    let error = match reasons.first().filter(|_| promises) {
        Some((format, _)) => Error::bad_file(format!(
            "the extension '.{extension}' promises {}, but the file does not begin as one ({}); \
             no other format matches",
            format.title,
            of_extension.join("; ")
        )),
        None => {
            let names: Vec<&str> = formats.iter().map(|format| format.name).collect();
            let names = names.strip_suffix(&[raw::FORMAT.name]).unwrap_or(&names).join(", ");
            let start = [format!("it starts with {}, unlike files of {names}", prefix.describe())];
            let reasons = [&start, of_extension.as_slice()].concat().join("; ");
            Error::unsupported(format!("no format matches: {reasons}"))
        }
    };
    let compressed = COMPRESSED.iter().find(|(start, _)| prefix.bytes.starts_with(start));
    Err(error.with_path(prefix.path).with_hint(match compressed {
        Some((_, program)) => format!("it is compressed as by {program}: decompress it first"),
        None => {
            "if it holds plain pixels, load it as 'raw' with dtype, nav_shape and sig_shape".into()
        }
    }))
}
