//! The files of a recording, and their headers.

use super::{buffered, damaged};
use crate::access::{Storage, names};
use crate::headers::fields::{Fields, read_header};
use crate::headers::geometry::FrameCount;
use crate::options::Backend;
use crate::readers::linear::LinearFile;
use framefold_core::{Error, Result};
use std::path::{Path, PathBuf};

const HEADER: u64 = 1024;
const FRAME_HEADER: u64 = 64;

/// Whether a file begins like one with frames.
pub(super) fn is_frms6(prefix: &[u8]) -> bool {
    prefix.starts_with(&[0, 4, 64, 0]) && prefix.get(7) == Some(&6)
}

/// The `.hdr` file of the recording that `path` belongs to, and the letters of the name that
/// all its files begin with.
///
/// # Errors
/// `BadFile` if there is none beside a file with frames.
pub(super) fn hdr_of(path: &Path) -> Result<(PathBuf, String)> {
    let stem = names::stem(path);
    let is_frames = path.extension().is_some_and(|ext| ext.eq_ignore_ascii_case("frms6"))
        || is_frms6(&start(path)?);
    if !is_frames {
        return Ok((path.to_path_buf(), stem));
    }
    let base = match stem.rsplit_once('_') {
        Some((base, number)) if is_number(number) => base,
        _ => &stem,
    };
    for extension in ["hdr", "HDR"] {
        let hdr = names::beside(path, &format!("{base}.{extension}"));
        if hdr.is_file() {
            return Ok((hdr, base.to_owned()));
        }
    }
    Err(Error::bad_file(format!(
        "there is no file '{}' beside it, which tells how frames are to be read",
        names::beside(Path::new(""), &format!("{base}.hdr")).display()
    ))
    .with_path(path)
    .with_hint("put all files of the recording into one folder"))
}

fn start(path: &Path) -> Result<Vec<u8>> {
    let storage = buffered(path)?;
    let mut bytes = vec![0; usize::try_from(storage.len().min(8)).unwrap_or(0)];
    storage.read_at(0, &mut bytes)?;
    Ok(bytes)
}

fn is_number(text: &str) -> bool {
    text.len() >= 3 && text.len() <= 9 && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// The files of a recording.
pub(super) struct FileSet {
    /// The file with dark frames.
    pub(super) dark: Option<LinearFile>,
    /// Those with the frames of the scan, in order; at least one.
    files: Vec<LinearFile>,
    /// Columns and rows as stored.
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) warnings: Vec<String>,
}

impl FileSet {
    /// Finds the files beside the `.hdr` file and reads their headers.
    ///
    /// # Errors
    /// `BadFile` if there are none, one is missing or cut short in between, or a header is not what it must be.
    pub(super) fn find(hdr: &Path, base: &str, backend: Backend) -> Result<Self> {
        let numbered = numbered_files(hdr, base)?;
        let mut set =
            FileSet { dark: None, files: Vec::new(), width: 0, height: 0, warnings: Vec::new() };
        let mut expected = 1;
        let mut next_frame = Some(0);
        let mut before = PathBuf::new();
        for (number, path) in numbered {
            if number > 0 && number != expected {
                return Err(Error::bad_file(format!(
                    "the file number {expected} of the recording is missing, and nothing tells \
                     how many frames it held"
                ))
                .with_path(&path)
                .with_hint("put all files of the recording into one folder"));
            }
            let Some(first) = next_frame else {
                return Err(damaged(
                    "the file ends in the middle of a frame, and nothing tells how many it held"
                        .to_owned(),
                )
                .with_path(&before));
            };
            let storage = Storage::open(&path, backend)?;
            let file = set.read(storage, first).map_err(|error| error.with_path(&path))?;
            if number == 0 {
                set.dark = Some(file.0);
            } else {
                expected += 1;
                next_frame = file.1;
                set.files.push(file.0);
            }
            before = path;
        }
        if set.files.is_empty() {
            let first = hdr.file_stem().unwrap_or_default().to_string_lossy();
            return Err(Error::bad_file(format!("there is no file '{first}_001.frms6' beside it"))
                .with_path(hdr)
                .with_hint("put all files of the recording into one folder"));
        }
        Ok(set)
    }

    /// Reads the header of a file whose first frame has the number `first`; gives the file and the
    /// number of the frame after those that it should hold, if that is known.
    fn read(&mut self, storage: Storage, first: u64) -> Result<(LinearFile, Option<u64>)> {
        let bytes = read_header(&storage, "the header", 0, 1024)?;
        let fields = Fields::little(&bytes);
        for (at, what, found, expected) in [
            (0, "size of the header", fields.u16(0), 1024),
            (2, "size of frame headers", fields.u16(2), 64),
            (7, "version", fields.u8(7).map(u16::from), 6),
        ] {
            if found != Some(expected) {
                let found = found.unwrap_or(0);
                let message = format!("the {what} is {found}, expected {expected}");
                return Err(damaged(message).with_offset(at));
            }
        }
        let axis = |at: usize| fields.u16(at).map_or(0, usize::from);
        let (width, height) = (axis(88), axis(90));
        if width == 0 || height == 0 || width % 2 == 1 {
            return Err(damaged(format!(
                "frames have {width} columns and {height} rows, expected at least 1 row, and as \
                 many columns for either chip"
            ))
            .with_offset(88));
        }
        if self.width != 0 && (width, height) != (self.width, self.height) {
            return Err(damaged(format!(
                "frames have {width} columns and {height} rows, but {} and {} in the first file",
                self.width, self.height
            ))
            .with_offset(88));
        }
        (self.width, self.height) = (width, height);
        let pixels = u64::try_from(width * height * 2).unwrap_or(u64::MAX);
        let stride = FRAME_HEADER + pixels;
        let count = FrameCount::try_new(storage.len(), HEADER, stride, stride)?;
        let (n_frames, end, warning) = match fields.u32(1020).map_or(0, u64::from) {
            0 => {
                let warning = count.warning(stride);
                let end = warning.is_none().then_some(first + count.n_frames);
                (count.n_frames, end, warning)
            }
            promised => {
                let (n_frames, warning) = count.promised(promised, stride);
                (n_frames, Some(first + promised), warning)
            }
        };
        let name = storage.path().map(|path| path.display().to_string()).unwrap_or_default();
        self.warnings.extend(warning.map(|warning| format!("'{name}': {warning}")));
        let file = LinearFile {
            storage,
            frames: first..first + n_frames,
            first_pixel: HEADER + FRAME_HEADER,
            stride,
        };
        Ok((file, end))
    }

    /// The files with the frames of the scan, no more than `n_frames` of them.
    pub(super) fn first_frames(
        &self,
        n_frames: Option<u64>,
        warnings: &mut Vec<String>,
    ) -> Vec<LinearFile> {
        let end = self.files.last().map_or(0, |file| file.frames.end);
        let Some(n_frames) = n_frames.filter(|&n| n != end) else { return self.files.clone() };
        warnings.push(format!(
            "the .hdr file announces {n_frames} frames, but the files hold {end}; {}",
            if n_frames < end {
                "the others are left out"
            } else {
                "those that are there are used"
            }
        ));
        let mut files = self.files.clone();
        for file in &mut files {
            file.frames.end = file.frames.end.min(n_frames.max(file.frames.start));
        }
        files.retain(|file| !file.frames.is_empty());
        files
    }
}

/// The files `base_NNN.frms6` beside the `.hdr` file, in the order of their numbers.
fn numbered_files(hdr: &Path, base: &str) -> Result<Vec<(u32, PathBuf)>> {
    let folder = match hdr.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let unreadable = |source| Error::io("list the directory", source).with_path(folder);
    let mut files = Vec::new();
    for entry in std::fs::read_dir(folder).map_err(unreadable)? {
        let name = entry.map_err(unreadable)?.file_name();
        let path = Path::new(&name);
        let is_frames = path.extension().is_some_and(|ext| ext.eq_ignore_ascii_case("frms6"));
        let number = path.file_stem().and_then(|stem| {
            let stem = names::letters(stem);
            let number = stem.strip_prefix(base)?.strip_prefix('_')?;
            if is_number(number) { number.parse::<u32>().ok() } else { None }
        });
        if let Some(number) = number.filter(|_| is_frames) {
            files.push((number, hdr.with_file_name(&name)));
        }
    }
    files.sort();
    Ok(files)
}
