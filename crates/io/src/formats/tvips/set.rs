//! The files of a series.

use super::header::{self, Header};
use crate::access::{Storage, names};
use crate::options::DISABLE_GLOB;
use crate::options::{Backend, OpenOptions};
use framefold_core::{Error, Result};
use std::ops::Range;
use std::path::{Path, PathBuf};

/// Digits of the number in a file's name, at least.
const DIGITS: usize = 3;

/// One file of a series.
#[derive(Debug)]
pub(super) struct File {
    pub(super) storage: Storage,
    /// Its frames, counted in the series; not empty.
    pub(super) frames: Range<u64>,
    /// The offset of the first one's header.
    pub(super) first_record: u64,
    /// Bytes from one header to the next.
    record_len: u64,
}

/// The files of a series that hold frames, in order.
#[derive(Debug)]
pub(super) struct FileSet {
    pub(super) header: Header,
    pub(super) files: Vec<File>,
    pub(super) warnings: Vec<String>,
}

impl FileSet {
    /// The number of frames, missing ones in between included.
    pub(super) fn n_frames(&self) -> u64 {
        self.files.last().map_or(0, |file| file.frames.end)
    }

    /// Bytes of the header of a frame; `None` if it has fewer, or the frame is missing.
    ///
    /// # Errors
    /// `Io` if they cannot be read.
    pub(super) fn frame_header(&self, frame: u64, range: Range<u64>) -> Result<Option<Vec<u8>>> {
        let index = self.files.partition_point(|file| file.frames.end <= frame);
        let there = |file: &&File| file.frames.contains(&frame);
        let Some(file) = self.files.get(index).filter(there) else { return Ok(None) };
        if range.end > self.header.frame_header {
            return Ok(None);
        }
        let len = usize::try_from(range.end - range.start).unwrap_or(0);
        let mut bytes = vec![0; len];
        let record = (frame - file.frames.start) * self.header.record_len();
        file.storage.read_at(file.first_record + record + range.start, &mut bytes)?;
        Ok(Some(bytes))
    }
}

/// The number in a file's name, as in `name_003.tvips`.
pub(super) fn number(path: &Path) -> Option<u64> {
    split_stem(path).map(|(_, number)| number)
}

/// The letters before the number in a file's name, and the number.
fn split_stem(path: &Path) -> Option<(String, u64)> {
    let stem = names::stem(path);
    let (base, digits) = stem.rsplit_once('_')?;
    let is_number = digits.len() >= DIGITS && digits.bytes().all(|byte| byte.is_ascii_digit());
    Some((base.to_owned(), digits.parse().ok().filter(|_| is_number)?))
}

/// Finds the files that belong to the one at `path`, and reads their headers.
///
/// # Errors
/// `BadFile` if there is no header, no whole frame, or a file is missing and the frames' numbers do
/// not tell how many frames it had; `Io`.
pub(super) fn find(path: &Path, options: &OpenOptions) -> Result<FileSet> {
    let mut members = vec![(number(path).unwrap_or(0), path.to_path_buf())];
    if !options.is_on(&DISABLE_GLOB) && number(path).is_some() {
        members = neighbours(path)?;
    }
    let Some((_, first_path)) = members.first() else {
        return Err(Error::bug("a series without files").with_path(path));
    };
    let mut warnings = Vec::new();
    let first = Storage::open(first_path, Backend::Buffered)?;
    let header = header_of(&first)?.map_err(|problem| {
        Error::bad_file(format!("this is not the first file of a TVIPS series: {problem}"))
            .with_path(first_path)
            .with_offset(0)
            .with_hint("the header is in the file whose name ends with '_000'")
    })?;
    let mut files: Vec<File> = Vec::new();
    let mut next_number = None;
    let mut cut = false;
    let (mut odd, mut n_more_odd) = (None, 0);
    for (index, (number, path)) in members.iter().enumerate() {
        let storage = Storage::open(path, options.backend)?;
        if index > 0 && header_of(&storage)?.is_ok() {
            return Err(Error::bad_file(
                "this is the first file of another series: it has a header",
            )
            .with_path(path)
            .with_offset(0)
            .with_hint("give it a name of its own, and open it by itself"));
        }
        let first_record = if index == 0 { header::LEN } else { 0 };
        let body = storage.len().saturating_sub(first_record);
        let (n_frames, surplus) = (body / header.record_len(), body % header.record_len());
        if surplus > 0 {
            warnings.push(format!(
                "'{}' ends in the middle of a frame: the last {surplus} bytes (of {} for a frame) \
                 are left out",
                path.display(),
                header.record_len()
            ));
        }
        let mut start = files.last().map_or(0, |file| file.frames.end);
        let first = counter(&storage, first_record, n_frames)?;
        if let Some(expected) = next_number.filter(|expected| expected != number) {
            start = after_gap(&files, start, first).ok_or_else(|| {
                Error::bad_file(format!(
                    "file number {expected} of the series is missing before this one, and the \
                     frames are not numbered in a way that tells how many it had"
                ))
                .with_path(path)
                .with_hint("copy all files of the series, or read one with disable_glob")
            })?;
            warnings.push(format!(
                "file number {expected} of the series is missing; the positions of its frames \
                 have no data"
            ));
        } else if index > 0 && n_frames > 0 {
            let before = members.get(index - 1).map_or(path, |(_, before)| before);
            let next = after_cut(&files, start, first, cut).map_err(|e| e.with_path(before))?;
            if next > start {
                warnings.push(format!(
                    "'{}' is cut short: frames {start} to {} are missing; their positions have no \
                     data",
                    before.display(),
                    next - 1
                ));
            }
            start = next;
        }
        if let (Some(first), 2..) = (first, n_frames) {
            let last = first_record + (n_frames - 1) * header.record_len();
            let last = counter(&storage, last, 1)?.unwrap_or(first);
            let expected = first.saturating_add(n_frames - 1);
            if last > first && last != expected {
                match &odd {
                    None => odd = Some((path, n_frames, last, expected)),
                    Some(_) => n_more_odd += 1,
                }
            }
        }
        cut = surplus > 0 || n_frames == 0;
        next_number = number.checked_add(1);
        if n_frames > 0 {
            let end = start
                .checked_add(n_frames)
                .ok_or_else(|| Error::limit("the series has too many frames"))?;
            let record_len = header.record_len();
            files.push(File { storage, frames: start..end, first_record, record_len });
        }
    }
    if let Some((path, n_frames, last, expected)) = odd {
        let more = match n_more_odd {
            0 => String::new(),
            n => format!(", and so on in {n} more"),
        };
        warnings.push(format!(
            "the last of the {n_frames} frames of '{}' has the number {last}, expected {expected}{more}: \
             frames were lost or repeated, and scan positions after them are shifted",
            path.display()
        ));
    }
    if files.is_empty() {
        return Err(Error::bad_file(format!(
            "there is not one whole frame of {} bytes in the series",
            header.record_len()
        ))
        .with_path(first_path)
        .with_offset(header::LEN)
        .with_hint("the file is truncated; copy it again"));
    }
    Ok(FileSet { header, files, warnings })
}

/// The header at the start of a file, or why it is none.
fn header_of(storage: &Storage) -> Result<std::result::Result<Header, String>> {
    let mut bytes = vec![0; usize::try_from(storage.len().min(header::LEN)).unwrap_or(0)];
    storage.read_at(0, &mut bytes)?;
    Ok(Header::parse(&bytes).and_then(|header| match storage.len() {
        len if len < header::LEN => Err(format!("the file has {len} bytes")),
        _ => Ok(header),
    }))
}

/// The number of the first frame of a file, as its header has it.
fn counter(storage: &Storage, at: u64, n_frames: u64) -> Result<Option<u64>> {
    if n_frames == 0 {
        return Ok(None);
    }
    let mut bytes = [0; 4];
    storage.read_at(at, &mut bytes)?;
    Ok(Some(u32::from_le_bytes(bytes).into()))
}

/// Where the frames of a file go on that follows another one, of which some may be missing; `cut`
/// says that some are.
///
/// # Errors
/// `BadFile` if the frames' numbers do not tell how many are missing, or are those of frames before; `Io`.
fn after_cut(files: &[File], start: u64, first: Option<u64>, cut: bool) -> Result<u64> {
    let unknown = || {
        Error::bad_file(
            "the file is cut short, and the frames of the series are not numbered in a way that \
             tells how many are missing",
        )
        .with_hint("copy all files of the series again, or read one with disable_glob")
    };
    let unordered = |place: u64| {
        Error::bad_file(format!(
            "frame {place}, as it is numbered, is in the file after this one, too, or that file is in \
             the place of another one"
        ))
        .with_hint("copy all files of the series again, or read one with disable_glob")
    };
    let (Some(file), Some(last)) = (files.first(), files.last()) else { return Err(unknown()) };
    let zero = counter(&file.storage, file.first_record, 1)?;
    let number = |counter: Option<u64>| counter.zip(zero).and_then(|(n, zero)| n.checked_sub(zero));
    // Numbers that do not count the frames before say nothing about those after; where some were lost
    // within a file, they are greater.
    let before = last.frames.end - 1;
    let in_file = (before - last.frames.start) * last.record_len;
    let counted = number(counter(&last.storage, last.first_record + in_file, 1)?);
    let counted = counted.filter(|&counted| counted >= before);
    match number(first).zip(counted) {
        // They may begin anew in each file.
        Some((place, counted)) if 0 < place && place <= counted => Err(unordered(place)),
        Some((place, _)) if place == start => Ok(start),
        Some((_, counted)) if counted == before => match after_gap(files, start, first) {
            Some(place) => Ok(place),
            None if cut => Err(unknown()),
            None => Ok(start),
        },
        _ if cut => Err(unknown()),
        _ => Ok(start),
    }
}

/// Where the frames go on whose first one has the number `first`, after some are missing: no
/// nearer than at `start`, and not unbelievably far.
fn after_gap(files: &[File], start: u64, first: Option<u64>) -> Option<u64> {
    let file = files.first()?;
    let zero = counter(&file.storage, file.first_record, 1).ok()??;
    let place = first?.checked_sub(zero)?;
    (start < place && place <= start.saturating_mul(1 << 16)).then_some(place)
}

/// All files of the series of `path`, in order.
fn neighbours(path: &Path) -> Result<Vec<(u64, PathBuf)>> {
    let Some((base, _)) = split_stem(path) else { return Ok(Vec::new()) };
    let directory = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let unreadable = |source| Error::io("list the directory", source).with_path(directory);
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(unreadable)? {
        let candidate = path.with_file_name(entry.map_err(unreadable)?.file_name());
        let extension_fits = candidate.extension().zip(path.extension());
        if let Some((of, number)) = split_stem(&candidate)
            && of == base
            && extension_fits.is_some_and(|(a, b)| a.eq_ignore_ascii_case(b))
            && candidate.is_file()
        {
            found.push((number, candidate));
        }
    }
    // Without the file itself, which may be missing, opening it says so.
    if !found.iter().any(|(_, candidate)| candidate == path) {
        Storage::open(path, Backend::Buffered)?;
    }
    found.sort();
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_in_names() {
        let number = |name: &str| number(Path::new(name));
        assert_eq!(number("a/scan_000.tvips"), Some(0));
        assert_eq!(number("a_b_1234.tvips"), Some(1234));
        assert_eq!(number("scan_01.tvips"), None);
        assert_eq!(number("scan_0a1.tvips"), None);
        assert_eq!(number("scan.tvips"), None);
    }
}
