//! Raw binary: pixels and nothing else.
//!
//! | bytes | content |
//! |---|---|
//! | `file_header` | skipped, once per file |
//! | `frame_header` | skipped, once per frame |
//! | product of `sig_shape` × size of `dtype` | one frame, C order |
//! | `frame_footer` | skipped, once per frame |
//! | `file_footer` | skipped, once per file |
//!
//! Byte order: that of `dtype`. Known writers: many; the common exchange form of other tools.
//! The file says nothing about itself, so that the caller has to, and it is never detected.
//! Several files make a stack, each with headers of the same length and with as many frames as it
//! holds. Limits: bytes after the last whole frame of a file are left out, with a warning.

use crate::access::{Storage, files};
use crate::format::{Format, Prefix, Verdict};
use crate::options::OpenOptions;
use crate::options::{self, OptionKind, OptionSpec};
use crate::readers::linear::frame_bytes;
use crate::readers::linear::{LinearFile, LinearSource, LinearSpec, Pixels};
use framefold_core::{Dataset, Error, MetadataList, Result, suggested_scans};
use std::path::{Path, PathBuf};
use std::sync::Arc;

const FILE_HEADER: OptionSpec = around("file_header", "Bytes before the first frame of each file");
const FILE_FOOTER: OptionSpec = around("file_footer", "Bytes after the last frame of each file");
const FRAME_HEADER: OptionSpec = around("frame_header", "Bytes before the pixels of each frame");
const FRAME_FOOTER: OptionSpec = around("frame_footer", "Bytes after the pixels of each frame");

const fn around(name: &'static str, help: &'static str) -> OptionSpec {
    OptionSpec::new(name, OptionKind::Bytes, help).with_unit("bytes").with_default("0")
}

/// The registry's entry.
pub(crate) const FORMAT: Format = Format {
    name: "raw",
    title: "raw binary",
    extensions: &["raw", "bin", "dat"],
    options: &[
        options::DTYPE,
        options::NAV_SHAPE,
        options::SIG_SHAPE,
        options::SYNC_OFFSET,
        FILE_HEADER,
        FILE_FOOTER,
        FRAME_HEADER,
        FRAME_FOOTER,
        options::IO_BACKEND,
        options::FILES,
    ],
    detect: &detect,
    open: &open,
};

fn detect(_: &Prefix<'_>) -> Verdict {
    Verdict::No("raw files have no signature and are never guessed".into())
}

fn open(path: &Path, options: &OpenOptions) -> Result<Dataset> {
    let one = [path.to_path_buf()];
    let paths: &[PathBuf] = if options.files.is_empty() { &one } else { &options.files };
    let (Some(stored), Some(sig_shape)) = (options.dtype(&options::DTYPE), &options.sig_shape)
    else {
        Storage::open(path, options.backend)?;
        let missing = if options.dtype(&options::DTYPE).is_none() { "dtype" } else { "sig_shape" };
        return Err(Error::invalid(format!("raw files need the option '{missing}'"))
            .with_hint("give dtype, nav_shape and sig_shape: the file itself holds pixels only"));
    };
    let frame = frame_bytes(sig_shape, stored)?;
    let mut files = Vec::with_capacity(paths.len());
    let mut warnings = Vec::new();
    let mut n_frames = 0u64;
    for (number, path) in paths.iter().enumerate() {
        let storage = Storage::open(path, options.backend)?;
        let geometry = Geometry::try_new(options, frame, storage.len());
        let geometry = geometry.map_err(|error| error.with_path(path).with_format(FORMAT.name))?;
        if geometry.surplus > 0 && number + 1 < paths.len() {
            return Err(geometry.cut(path));
        }
        let start = n_frames;
        n_frames = start
            .checked_add(geometry.n_frames)
            .ok_or_else(|| Error::limit("the files have too many frames"))?;
        warnings.extend(geometry.warning(frame).map(|warning| match options.files.is_empty() {
            true => warning,
            false => format!("'{}': {warning}", path.display()),
        }));
        files.push(LinearFile {
            storage,
            frames: start..n_frames,
            first_pixel: geometry.first_pixel,
            stride: geometry.stride,
        });
    }
    warnings.extend(files::notes(&options.files));
    let Some(nav_shape) = &options.nav_shape else {
        let what = if options.files.is_empty() { "file holds" } else { "files hold" };
        return Err(Error::invalid("raw files need the option 'nav_shape'").with_hint(format!(
            "the {what} {n_frames} frames: give, for example, {}",
            suggested_scans(n_frames)
        )));
    };
    let mut details = Vec::new();
    if !options.files.is_empty() {
        details.push(("files".to_owned(), files.len().to_string()));
    }
    let source = LinearSource::try_new(LinearSpec {
        format: FORMAT.name,
        files,
        pixels: Pixels::Plain { stored },
        sig_shape: sig_shape.clone(),
        nav_shape: nav_shape.clone(),
        metadata: MetadataList::new(),
        details,
        warnings,
    })?;
    Dataset::try_new(Arc::new(source), Some(nav_shape), options.sync_offset)
}

/// Where the frames lie in a file.
#[derive(Debug)]
struct Geometry {
    n_frames: u64,
    first_pixel: u64,
    stride: u64,
    /// Bytes between the last whole frame and the file's footer.
    surplus: u64,
}

impl Geometry {
    fn try_new(options: &OpenOptions, frame: u64, len: u64) -> Result<Self> {
        let around = options.bytes(&FILE_HEADER).checked_add(options.bytes(&FILE_FOOTER));
        let body = around.and_then(|around| len.checked_sub(around));
        let stride = options
            .bytes(&FRAME_HEADER)
            .checked_add(frame)
            .and_then(|bytes| bytes.checked_add(options.bytes(&FRAME_FOOTER)));
        match (body, stride, options.bytes(&FILE_HEADER).checked_add(options.bytes(&FRAME_HEADER)))
        {
            (Some(body), Some(stride), Some(first_pixel)) if body >= stride => Ok(Geometry {
                n_frames: body / stride,
                first_pixel,
                stride,
                surplus: body % stride,
            }),
            _ => Err(Error::bad_file(format!(
                "the file is {len} bytes long, which is less than one frame: {frame} bytes of \
                 pixels, {} + {} bytes around each frame and {} + {} around all of them",
                options.bytes(&FRAME_HEADER),
                options.bytes(&FRAME_FOOTER),
                options.bytes(&FILE_HEADER),
                options.bytes(&FILE_FOOTER),
            ))
            .with_hint("check dtype, sig_shape and the header and footer options")),
        }
    }

    /// That the next file would begin in the middle of a frame, or that there is something else.
    fn cut(&self, path: &Path) -> Error {
        Error::bad_file(format!(
            "{} bytes follow the last of {} whole frames, of {} bytes each: the next file may begin \
             with the rest of a frame",
            self.surplus, self.n_frames, self.stride
        ))
        .with_path(path)
        .with_format(FORMAT.name)
        .with_hint(
            "join the files if frames go on from one to the next, or give the bytes that are no \
             frames as file_header and file_footer",
        )
    }

    fn warning(&self, frame: u64) -> Option<String> {
        (self.surplus > 0).then(|| {
            format!(
                "{} bytes after the last of {} whole frames were left out (a frame takes {} \
                 bytes, {frame} of them pixels)",
                self.surplus, self.n_frames, self.stride
            )
        })
    }
}
