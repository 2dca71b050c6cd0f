//! One `.mib` file: its headers, its geometry and how many frames it holds.

use super::geometry::Geometry;
use super::header::{self, Header, HeaderProblem};
use super::layout::Depth;
use crate::access::Storage;
use framefold_core::{Error, Result};
use std::path::PathBuf;

/// Long enough for the headers of all known writers; longer ones cost a second read.
const USUAL_HEADER_LEN: u64 = 1024;

/// What the headers of one file say.
#[derive(Clone, Debug)]
pub(super) struct MibFile {
    /// Where it is.
    pub(super) path: PathBuf,
    /// The header of its first frame.
    pub(super) header: Header,
    /// The geometry of all its frames.
    pub(super) geometry: Geometry,
    /// The number of whole frames, at least 1.
    pub(super) n_frames: u64,
    /// Bytes after the last whole frame: less than a frame.
    surplus_bytes: u64,
    /// The sequence number of the last whole frame.
    last_sequence: u64,
}

impl MibFile {
    /// Reads the headers of the first and of the last whole frame.
    ///
    /// The last one is where a wrong idea of the geometry shows: all sizes of frames and headers
    /// before it add up to its place.
    ///
    /// # Errors
    /// `BadFile` if there is no whole frame, or a header is not what it must be; `Unsupported`
    /// as [`Geometry::try_new`]; `Io`.
    pub(super) fn try_new(
        storage: &Storage,
        depth: Option<Depth>,
        insert_gap: bool,
    ) -> Result<Self> {
        let len = storage.len();
        if len == 0 {
            return Err(Error::bad_file("the file is empty, expected at least one frame")
                .with_hint("copy it again from the detector"));
        }
        let header = read_header(storage, 0)?;
        let geometry = Geometry::try_new(&header, depth, insert_gap)?;
        let stride = geometry.stride_bytes();
        let n_frames = len.checked_div(stride).unwrap_or(0);
        let Some(last) = n_frames.checked_sub(1) else {
            return Err(Error::bad_file(format!(
                "the file has {len} bytes, expected at least {stride} for one frame of {} x {} \
                 pixels",
                header.width, header.height
            ))
            .with_hint("the file is truncated or still being written; copy it again"));
        };
        let mut last_sequence = header.sequence;
        if last > 0 {
            // Below the file's length, which fits.
            let start = last.saturating_mul(stride);
            let last_header =
                read_header(storage, start).map_err(|error| error.with_frame(last))?;
            let last_geometry = Geometry::try_new(&last_header, depth, insert_gap)?;
            if last_geometry != geometry {
                return Err(Error::bad_file(format!(
                    "the last frame ({}) differs from the first one ({})",
                    describe(&last_header),
                    describe(&header)
                ))
                .with_offset(start)
                .with_frame(last)
                .with_hint("the file is damaged, or several acquisitions were joined"));
            }
            last_sequence = last_header.sequence;
        }
        Ok(MibFile {
            path: storage.path().map(PathBuf::from).unwrap_or_default(),
            header,
            geometry,
            n_frames,
            surplus_bytes: len % stride,
            last_sequence,
        })
    }

    /// The sequence number after that of the last frame, going by the number of frames.
    pub(super) fn end_sequence(&self) -> u64 {
        self.header.sequence.saturating_add(self.n_frames)
    }

    /// Size and form of its frames, in words.
    pub(super) fn describe(&self) -> String {
        describe(&self.header)
    }

    /// What is odd about the file.
    pub(super) fn warnings(&self) -> Vec<String> {
        let name = self.path.display();
        let mut warnings = Vec::new();
        if self.surplus_bytes > 0 {
            warnings.push(format!(
                "'{name}' ends in the middle of a frame: the last {} bytes (of {} for a frame) are \
                 left out",
                self.surplus_bytes,
                self.geometry.stride_bytes()
            ));
        }
        let expected = self.end_sequence().saturating_sub(1);
        if self.last_sequence != expected {
            warnings.push(format!(
                "the last of the {} frames of '{name}' has sequence number {}, expected {expected}: \
                 frames were lost or repeated while recording, and scan positions after them are \
                 shifted",
                self.n_frames, self.last_sequence
            ));
        }
        warnings
    }
}

fn describe(header: &Header) -> String {
    let depth = header.depth.map_or(String::new(), |depth| format!(", {} bits", depth.bits()));
    format!(
        "{} x {} pixels, {}{depth}, headers of {} bytes",
        header.width, header.height, header.kind, header.len_bytes
    )
}

/// Reads the frame header that begins at `start`.
fn read_header(storage: &Storage, start: u64) -> Result<Header> {
    let available = storage.len().saturating_sub(start);
    let first_try = available.min(USUAL_HEADER_LEN);
    let parsed = match parse_prefix(storage, start, first_try)? {
        Err(HeaderProblem::Truncated { expected, .. })
            if expected > first_try && expected <= available.min(header::MAX_HEADER_LEN) =>
        {
            parse_prefix(storage, start, expected)?
        }
        Err(HeaderProblem::Truncated { expected, .. }) => {
            Err(HeaderProblem::Truncated { found: available, expected })
        }
        parsed => parsed,
    };
    parsed.map_err(|problem| problem.into_error(start))
}

fn parse_prefix(storage: &Storage, start: u64, len: u64) -> Result<Result<Header, HeaderProblem>> {
    let mut bytes = vec![0; usize::try_from(len).unwrap_or(0)];
    storage.read_at(start, &mut bytes)?;
    Ok(header::parse(&bytes))
}
