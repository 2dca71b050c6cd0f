//! The files of a set.

use crate::access::{Storage, names};
use crate::options::OpenOptions;
use framefold_core::{Error, Result};
use std::path::{Path, PathBuf};

/// One file for each sector.
pub(super) const N_SECTORS: usize = 8;

#[derive(Debug)]
pub(super) struct FileSet {
    pub(super) gtg: PathBuf,
    /// In the order of the detector's columns.
    pub(super) sectors: Vec<Storage>,
}

/// Finds the files that belong to a `.gtg` or `.bin` file.
///
/// # Errors
/// `BadFile` if there is no `.gtg` file, or there are not eight `.bin` files; `Io`.
pub(super) fn find(path: &Path, options: &OpenOptions) -> Result<FileSet> {
    // Fails with the right words if there is no such file.
    Storage::open(path, crate::options::Backend::Buffered)?;
    let (gtg, sectors) = names(path)?;
    let refused = |message: String| Error::bad_file(message).with_path(path).with_format("k2is");
    let Some(gtg) = gtg else {
        return Err(refused("there is no .gtg file beside the .bin files".to_owned())
            .with_hint("copy it into the same directory: it says what the data are"));
    };
    if sectors.len() != N_SECTORS {
        let shown: Vec<_> = sectors.iter().take(10).map(|path| file_name(path)).collect();
        return Err(refused(format!(
            "{} .bin files belong to this set ({}), expected {N_SECTORS}",
            sectors.len(),
            shown.join(", ")
        ))
        .with_hint("each of the 8 sectors of the detector has a file; copy all of them"));
    }
    let open = |path: &PathBuf| Storage::open(path, options.backend);
    Ok(FileSet { gtg, sectors: sectors.iter().map(open).collect::<Result<_>>()? })
}

/// Whether the file at `path` is one of a complete set, by names alone.
pub(super) fn has_neighbours(path: &Path) -> bool {
    names(path).is_ok_and(|(gtg, sectors)| gtg.is_some() && sectors.len() == N_SECTORS)
}

/// The `.gtg` file and the `.bin` files that belong to one of them, the latter in order.
fn names(path: &Path) -> Result<(Option<PathBuf>, Vec<PathBuf>)> {
    let stem = names::stem(path);
    let is_gtg = has_extension(path, "gtg");
    let base = if is_gtg { &*stem } else { stem.trim_end_matches(|c: char| c.is_ascii_digit()) };
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let unreadable = |source| Error::io("list the directory", source).with_path(directory);
    let (mut gtg, mut sectors) = (None, Vec::new());
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        let candidate = path.with_file_name(entry.map_err(unreadable)?.file_name());
        let stem = names::stem(&candidate);
        let Some(tail) = stem.strip_prefix(base) else { continue };
        if has_extension(&candidate, "gtg") && tail.is_empty() {
            gtg = Some(candidate);
        } else if has_extension(&candidate, "bin")
            && !tail.is_empty()
            && tail.bytes().all(|byte| byte.is_ascii_digit())
        {
            sectors.push((tail.len(), tail.to_owned(), candidate));
        }
    }
    // As numbers: 2 comes before 10.
    sectors.sort();
    Ok((gtg, sectors.into_iter().map(|(_, _, path)| path).collect()))
}

fn has_extension(path: &Path, wanted: &str) -> bool {
    path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case(wanted))
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}
