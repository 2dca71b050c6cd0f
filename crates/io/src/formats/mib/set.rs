//! Which files make up an acquisition, and in which order.
//!
//! Long acquisitions are spread over files whose names differ in trailing digits. Names alone
//! do not tell such a set from separate acquisitions (`scan1.mib`, `scan2.mib`); the sequence
//! numbers in the headers do, as they count on through all files of one acquisition.

use super::file::MibFile;
use super::inserts_gap;
use super::layout::Depth;
use super::sidecar::{self, Sidecar};
use crate::access::{Storage, names};
use crate::options::DISABLE_GLOB;
use crate::options::{Backend, OpenOptions};
use framefold_core::{Error, Result};
use std::ffi::OsStr;
use std::ops::Range;
use std::path::{Path, PathBuf};

/// A set whose sequence numbers span more than this many times the frames that are there is
/// not believed.
const MAX_SPAN_PER_FRAME: u64 = 1 << 16;

/// The files of an acquisition.
#[derive(Debug)]
pub(super) struct FileSet {
    /// In the order of their sequence numbers; at least one. All have the same geometry.
    pub(super) files: Vec<MibFile>,
    /// The sidecar, if there is one.
    pub(super) sidecar: Option<(PathBuf, Sidecar)>,
    /// What is odd about the set.
    pub(super) warnings: Vec<String>,
}

impl FileSet {
    /// The frames of the acquisition that `file` holds, counted from the first one of the set.
    pub(super) fn frames_of(&self, file: &MibFile) -> Range<u64> {
        let first = self.files.first().map_or(0, |first| first.header.sequence);
        let start = file.header.sequence.saturating_sub(first);
        start..start.saturating_add(file.n_frames)
    }

    /// The number of frames, missing ones in between included.
    pub(super) fn n_frames(&self) -> u64 {
        self.files.last().map_or(0, |last| self.frames_of(last).end)
    }
}

/// Finds the files that belong to the `.mib` or `.hdr` file at `path`, and reads their headers.
///
/// # Errors
/// `BadFile` if the file itself is no MIB file, if files of the set contradict each other, or if
/// there is no `.mib` file for a `.hdr`; `Io`, `Unsupported`.
pub(super) fn find(path: &Path, options: &OpenOptions) -> Result<FileSet> {
    let mut warnings = Vec::new();
    let opened_sidecar = is_sidecar(path)?;
    let mut sidecar = if opened_sidecar {
        Some((path.to_path_buf(), read_sidecar(path)?))
    } else {
        find_sidecar(path, &mut warnings)
    };
    let mut probe = Probe {
        depth: sidecar.as_ref().and_then(|(_, sidecar)| sidecar.depth),
        insert_gap: inserts_gap(options),
    };
    let mut neighbours = Vec::new();
    if !options.is_on(&DISABLE_GLOB) {
        match candidates(path, opened_sidecar) {
            Ok(found) => neighbours = found,
            Err(error) => warnings
                .push(format!("other files of the set cannot be looked for: {}", error.message())),
        }
    }
    let anchor_path = if opened_sidecar {
        let same_stem = path.with_extension("mib");
        let first = || neighbours.first().cloned();
        if same_stem.is_file() { Some(same_stem) } else { first() }.ok_or_else(|| {
            let hint = match options.is_on(&DISABLE_GLOB) {
                true => "only a .mib file of the same name is looked for with disable_glob: leave it out",
                false => "put them into one directory",
            };
            Error::bad_file("there is no .mib file that belongs to this .hdr file")
                .with_path(path)
                .with_format("mib")
                .with_hint(format!("{hint}, or open the .mib file itself"))
        })?
    } else {
        path.to_path_buf()
    };
    let mut anchor = probe.open(&anchor_path);
    let of_another =
        |(path, _): &(PathBuf, Sidecar)| !probe.has_in_set(path, &anchor_path, &anchor);
    if !opened_sidecar && probe.depth.is_some() && sidecar.as_ref().is_some_and(of_another) {
        sidecar = None;
        probe.depth = None;
        anchor = probe.open(&anchor_path);
    }
    let anchor = anchor?;
    neighbours.retain(|neighbour| *neighbour != anchor_path);
    let files = select(anchor, &neighbours, probe, &mut warnings)?;
    if !opened_sidecar {
        // `scan.hdr` next to `scan2.mib` may describe the separate acquisition `scan.mib`.
        sidecar = sidecar.filter(|(path, _)| {
            let partner = path.with_extension("mib");
            files.iter().any(|file| file.path == partner) || !partner.is_file()
        });
    }
    warn_about_frames(&files, &mut warnings);
    Ok(FileSet { files, sidecar, warnings })
}

/// How to open one file of the set.
#[derive(Clone, Copy)]
struct Probe {
    depth: Option<Depth>,
    insert_gap: bool,
}

impl Probe {
    /// Reads headers only, without a mapping, as the file may turn out not to be used.
    fn open(self, path: &Path) -> Result<MibFile> {
        let storage = Storage::open(path, Backend::Buffered)?;
        MibFile::try_new(&storage, self.depth, self.insert_gap)
            .map_err(|error| error.with_path(path).with_format("mib"))
    }

    /// Whether a sidecar can be that of the set of `anchor`: the file of its own name is the anchor, or continues its
    /// sequence, or is not there.
    fn has_in_set(self, sidecar: &Path, anchor_path: &Path, anchor: &Result<MibFile>) -> bool {
        let partner = sidecar.with_extension("mib");
        partner == anchor_path
            || !partner.is_file()
            || anchor.as_ref().is_ok_and(|anchor| {
                self.open(&partner).is_ok_and(|partner| {
                    partner.geometry == anchor.geometry && overlap(anchor, &partner).is_none()
                })
            })
    }
}

/// The files of the set, in order: the one that was asked for, and those of its neighbours that
/// continue its sequence.
fn select(
    anchor: MibFile,
    neighbours: &[PathBuf],
    probe: Probe,
    warnings: &mut Vec<String>,
) -> Result<Vec<MibFile>> {
    let mut files = Vec::new();
    let mut others: Vec<String> = Vec::new();
    for path in neighbours {
        let file = match probe.open(path) {
            Ok(file) => file,
            Err(error) => {
                warnings.push(format!(
                    "'{}' has the name of a file of this set, but is left out: {}",
                    path.display(),
                    error.message()
                ));
                continue;
            }
        };
        let overlaps = overlap(&anchor, &file).is_some();
        let same_start = file.header.sequence == anchor.header.sequence;
        if overlaps && (same_start || file.geometry != anchor.geometry) {
            others.push(file_name(path));
        } else if file.geometry == anchor.geometry {
            files.push(file);
        } else {
            return Err(different_frames(&anchor, &file));
        }
    }
    if let Some(first) = others.first() {
        let (count, names) = (others.len(), if others.len() > 1 { "s such as" } else { "" });
        warnings.push(format!(
            "left out {count} file{names} '{first}' that by name could belong to this set: frame \
             {} is in both, so that they are separate acquisitions",
            anchor.header.sequence
        ));
    }
    files.push(anchor);
    files.sort_by_key(|file| file.header.sequence);
    for pair in files.windows(2) {
        if let [a, b] = pair
            && let Some(frame) = overlap(a, b)
        {
            return Err(Error::bad_file(format!(
                "frame {frame} (by sequence number) is both in '{}' and in '{}'",
                file_name(&a.path),
                file_name(&b.path)
            ))
            .with_path(&b.path)
            .with_format("mib")
            .with_hint(
                "move files of other acquisitions elsewhere, or read one file with disable_glob",
            ));
        }
    }
    check_span(&files)?;
    Ok(files)
}

/// Refuses sequence numbers so far apart that they cannot be from one acquisition.
fn check_span(files: &[MibFile]) -> Result<()> {
    let (Some(first), Some(last)) = (files.first(), files.last()) else {
        return Ok(());
    };
    let present = files.iter().fold(0u64, |sum, file| sum.saturating_add(file.n_frames));
    let span = last.end_sequence().saturating_sub(first.header.sequence);
    if span / MAX_SPAN_PER_FRAME <= present {
        return Ok(());
    }
    Err(Error::bad_file(format!(
        "the sequence numbers {} in '{}' and {} in '{}' are too far apart for {present} frames of \
         one acquisition",
        first.header.sequence,
        file_name(&first.path),
        last.header.sequence,
        file_name(&last.path)
    ))
    .with_path(&last.path)
    .with_format("mib")
    .with_hint("read one file with disable_glob"))
}

fn different_frames(a: &MibFile, b: &MibFile) -> Error {
    Error::bad_file(format!(
        "its frames ({}) differ from those of '{}' ({}), although its sequence numbers continue them",
        b.describe(),
        file_name(&a.path),
        a.describe()
    ))
    .with_path(&b.path)
    .with_format("mib")
    .with_offset(0)
    .with_hint("move files of other acquisitions elsewhere, or read one file with disable_glob")
}

/// The first sequence number that is in both files.
fn overlap(a: &MibFile, b: &MibFile) -> Option<u64> {
    let start = a.header.sequence.max(b.header.sequence);
    (start < a.end_sequence().min(b.end_sequence())).then_some(start)
}

/// Says what is odd about the frames of the set and of each file.
fn warn_about_frames(files: &[MibFile], warnings: &mut Vec<String>) {
    if let Some(first) = files.first().filter(|file| file.header.sequence > 1) {
        warnings.push(format!(
            "the first frame has sequence number {}: earlier frames are not there; frames are \
             counted from this one",
            first.header.sequence
        ));
    }
    for pair in files.windows(2) {
        if let [a, b] = pair
            && a.end_sequence() < b.header.sequence
        {
            warnings.push(format!(
                "frames {} to {} (by sequence number), between '{}' and '{}', are missing; their \
                 scan positions have no data",
                a.end_sequence(),
                b.header.sequence - 1,
                file_name(&a.path),
                file_name(&b.path)
            ));
        }
    }
    warnings.extend(files.iter().flat_map(MibFile::warnings));
}

/// The files next to `path` whose names mark them as members of its set, in the order of their
/// names. Names are compared literally, so that `[` or `*` in them mean themselves.
fn candidates(path: &Path, opened_sidecar: bool) -> Result<Vec<PathBuf>> {
    let stem = names::stem(path);
    let extension = path.extension().unwrap_or_default();
    let (base, extension) = if opened_sidecar {
        (&*stem, OsStr::new("mib"))
    } else {
        (without_number(&stem), extension)
    };
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let unreadable = |source| Error::io("list the directory", source).with_path(directory);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        let name = Path::new(&name);
        let same_extension = name.extension().unwrap_or_default().eq_ignore_ascii_case(extension);
        let stem = names::stem(name);
        let tail = stem.strip_prefix(base);
        // Joined to the parent as given, so that a path given twice is spelled the same.
        let candidate = path.with_file_name(name);
        if same_extension && tail.is_some_and(is_number) && candidate.is_file() {
            found.push(candidate);
        }
    }
    found.sort();
    Ok(found)
}

/// `stem` without the digits at its end.
fn without_number(stem: &str) -> &str {
    stem.trim_end_matches(|c: char| c.is_ascii_digit())
}

/// Whether `tail` is what distinguishes the files of one set: nothing, or digits, which may
/// follow one separator.
fn is_number(tail: &str) -> bool {
    let digits = tail.strip_prefix(['_', '-', ' ', '.']).unwrap_or(tail);
    digits.bytes().all(|byte| byte.is_ascii_digit()) && (tail.is_empty() || !digits.is_empty())
}

/// Whether the file at `path` is a sidecar, by its contents.
fn is_sidecar(path: &Path) -> Result<bool> {
    let storage = Storage::open(path, Backend::Buffered)?;
    let mut head = vec![0; usize::try_from(storage.len().min(64)).unwrap_or(64)];
    storage.read_at(0, &mut head)?;
    let by_name = path.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("hdr"));
    Ok(sidecar::is_sidecar(&head) || (by_name && !head.starts_with(b"MQ1,")))
}

fn read_sidecar(path: &Path) -> Result<Sidecar> {
    let storage = Storage::open(path, Backend::Buffered)?;
    let len = storage.len();
    if len > sidecar::MAX_LEN {
        return Err(Error::bad_file(format!(
            "the file has {len} bytes, expected a sidecar of at most {}",
            sidecar::MAX_LEN
        ))
        .with_path(path)
        .with_format("mib")
        .with_hint("this is not the .hdr file of a Merlin acquisition"));
    }
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    storage.read_at(0, &mut bytes)?;
    Sidecar::parse(&bytes).map_err(|error| error.with_path(path))
}

/// The sidecar of a `.mib` file: of the same name, or of the name of its set.
fn find_sidecar(path: &Path, warnings: &mut Vec<String>) -> Option<(PathBuf, Sidecar)> {
    let stem = names::stem(path);
    let base = without_number(&stem);
    let trimmed = base.trim_end_matches(['_', '-', ' ', '.']);
    let path = [&*stem, base, trimmed]
        .into_iter()
        .filter(|stem| !stem.is_empty())
        .flat_map(|stem| ["hdr", "HDR"].map(|ext| names::beside(path, &format!("{stem}.{ext}"))))
        .find(|candidate| candidate != path && candidate.is_file())?;
    match read_sidecar(&path) {
        Ok(sidecar) => Some((path, sidecar)),
        Err(error) => {
            warnings.push(format!("the .hdr file is not used: {error}"));
            None
        }
    }
}

fn file_name(path: &Path) -> String {
    path.file_name().unwrap_or(path.as_os_str()).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn members_of_a_set_differ_in_trailing_digits() {
        for tail in ["", "1", "0001", "_1", "-12", ".003", " 4"] {
            assert!(is_number(tail), "{tail}");
        }
        for tail in ["_", "RAW", "1RAW", "_a", "__1", "1_1", "²"] {
            assert!(!is_number(tail), "{tail}");
        }
        assert_eq!(without_number("default_0012"), "default_");
        assert_eq!(without_number("123"), "");
    }
}
