//! Several files of one format as one stack: the frames of the first file, then those of the second.
//!
//! For formats that know nothing of stacks themselves. Each file is opened by its own reader; a
//! worker holds that of one file at a time.

use crate::access::files;
use crate::format::Format;
use crate::options;
use crate::options::OpenOptions;
use framefold_core::{
    ArrayFormat, AxisKind, DataSource, Dataset, DenseTile, Error, FrameIndices, FrameReader,
    Presence, Result, Scratch, SigSlice, SourceInfo, TileFrames,
};
use std::cell::LazyCell;
use std::collections::HashSet;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Opens the files of a list one by one.
///
/// # Errors
/// Those of the format; `BadFile` that names the first file whose frames are not like those of the
/// first one, or a file that is cut short and does not say how many it had; `InvalidArgument` for one
/// that reads another one of the list; `Unsupported` for files with corrections of their own.
pub(crate) fn open(format: &'static Format, options: &OpenOptions) -> Result<Dataset> {
    let alone =
        OpenOptions { nav_shape: None, sync_offset: 0, files: Vec::new(), ..options.clone() };
    let alone = if format.takes(options::DISABLE_GLOB.name) {
        alone.with(options::DISABLE_GLOB.name, true)
    } else {
        alone
    };
    let mut parts: Vec<Part> = Vec::with_capacity(options.files.len());
    let mut info: Option<SourceInfo> = None;
    let mut present: Vec<Range<u64>> = Vec::new();
    let mut n_frames = 0u64;
    let mut unused = None;
    let mut sizes = files::PixelSizes::default();
    let listed =
        LazyCell::new(|| options.files.iter().map(|path| real(path)).collect::<HashSet<_>>());
    for (number, path) in (1..).zip(&options.files) {
        let located = |error: Error| error.with_path(path).with_format(format.name);
        let dataset = (format.open)(path, &alone).map_err(located)?;
        let source = dataset.source().clone();
        let own = source.info();
        if dataset.corrections().is_some() || source.format() != ArrayFormat::Dense {
            return Err(located(
                Error::unsupported("files with corrections of their own make no stack")
                    .with_hint("open them with enable_corrections=False, or one by one"),
            ));
        }
        // As an `.emi` file reads its series, half a movie the other half, and a file those that it links to.
        let others = own.paths.iter().filter(|read| *read != path).map(|read| real(read));
        let mut others = others.filter(|read| *read != real(path));
        if let Some(twice) = others.find(|read| listed.contains(read)) {
            let error = Error::invalid(format!(
                "it reads '{}', which is in the list, too: its frames would be there twice",
                twice.display()
            ));
            let hint = "name one of both; for those of a folder, by a pattern such as '*.xml' or '*_master.h5'";
            return Err(located(error.with_hint(hint)));
        }
        unused = unused.or_else(|| dataset.unused_corrections().map(str::to_owned));
        let lost = match dataset.lost_frames() {
            Some(lost) => lost,
            // Nothing follows it.
            None if number == options.files.len() => 0,
            None => {
                return Err(located(
                    Error::bad_file(
                        "frames are lost at its end, and nothing tells how many: those of the next file \
                         would move up",
                    )
                    .with_hint("copy all of it again, or leave it out"),
                ));
            }
        };
        let start = n_frames;
        // Frames of later files do not move up.
        n_frames = start
            .checked_add(own.n_frames)
            .and_then(|end| end.checked_add(lost))
            .ok_or_else(|| Error::limit("the files have too many frames"))?;
        let everything = 0..own.n_frames;
        let ranges = match &own.presence {
            Presence::All => std::slice::from_ref(&everything),
            Presence::Ranges(ranges) => ranges,
        };
        for range in ranges {
            let range = start + range.start..start + range.end;
            match present.last_mut() {
                Some(last) if last.end == range.start => last.end = range.end,
                _ => present.push(range),
            }
        }
        sizes.add(path, &own.sig_shape, &own.metadata);
        match &mut info {
            None => info = Some(own.clone()),
            Some(info) => {
                check(info, own).map_err(located)?;
                let name = path.file_name().unwrap_or_default().to_string_lossy();
                info.warnings.extend(own.warnings.iter().map(|text| format!("'{name}': {text}")));
            }
        }
        parts.push(Part { frames: start..n_frames, source });
    }
    let Some(mut info) = info else {
        return Err(Error::invalid("the list of files is empty"));
    };
    if matches!(present.as_slice(), [all] if *all == (0..n_frames)) {
        info.presence = Presence::All;
    } else {
        info.presence = Presence::Ranges(present);
    }
    // Who opens the stack again does so by these.
    info.paths = options.files.clone();
    info.n_frames = n_frames;
    info.lends = false;
    info.preferred_depth = 1;
    let in_a_row = vec![usize::try_from(n_frames).map_err(|_| Error::limit("too many frames"))?];
    // The first file has rows of its own, and a stack of them none.
    let nav_shape = options.nav_shape.as_ref().unwrap_or(&in_a_row);
    info.metadata.lay_out(AxisKind::Nav, &info.nav_shape, nav_shape);
    info.nav_shape = in_a_row;
    info.details.push(("files".to_owned(), options.files.len().to_string()));
    info.warnings.extend(files::notes(&options.files));
    info.warnings.extend(sizes.warning());
    let source = StackSource { info, parts };
    Ok(Dataset::try_new(Arc::new(source), options.nav_shape.as_deref(), options.sync_offset)?
        .with_unused_corrections(unused))
}

/// The path of a file without links, and from the root: formats name files that they find in this way, too.
fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}

fn check(first: &SourceInfo, other: &SourceInfo) -> Result<()> {
    if first.sig_shape == other.sig_shape && first.dtype.dtype == other.dtype.dtype {
        return Ok(());
    }
    let shown = |info: &SourceInfo| format!("{:?} pixels in {}", info.sig_shape, info.dtype.dtype);
    Err(Error::bad_file(format!(
        "its frames have {}, but those of the first file have {}",
        shown(other),
        shown(first)
    ))
    .with_offset(0)
    .with_hint("leave the file out of the list"))
}

#[derive(Debug)]
struct Part {
    frames: Range<u64>,
    source: Arc<dyn DataSource>,
}

#[derive(Debug)]
struct StackSource {
    info: SourceInfo,
    parts: Vec<Part>,
}

impl DataSource for StackSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
        Ok(Box::new(StackReader {
            stack: self,
            current: None,
            scratch: Scratch::new(),
            numbers: Vec::new(),
        }))
    }

    /// That of a file on its own: files of another length only cost a little.
    fn frames_together(&self) -> usize {
        self.parts.first().map_or(1, |part| part.source.frames_together())
    }
}

struct StackReader<'s> {
    stack: &'s StackSource,
    /// The number of a file, and its reader.
    current: Option<(usize, Box<dyn FrameReader + 's>)>,
    scratch: Scratch,
    /// Numbers of frames within their file.
    numbers: Vec<u64>,
}

impl<'s> StackReader<'s> {
    /// The file that holds a frame.
    fn part_of(&self, frame: u64) -> Result<(usize, &'s Part)> {
        let parts = &self.stack.parts;
        let number = parts.partition_point(|part| part.frames.end <= frame);
        let part = parts.get(number);
        let part =
            part.ok_or_else(|| Error::bug("a frame that no file holds").with_frame(frame))?;
        Ok((number, part))
    }

    /// Makes the reader of a file the current one. What was read before is confirmed first.
    fn enter(&mut self, number: usize, part: &'s Part) -> Result<()> {
        if self.current.as_ref().is_some_and(|(current, _)| *current == number) {
            return Ok(());
        }
        if let Some((_, reader)) = &mut self.current {
            reader.verify()?;
        }
        self.current = Some((number, part.source.reader()?));
        Ok(())
    }

    /// Copies the frames of a tile from one file after the other.
    fn gather(
        &mut self,
        frames: &FrameIndices<'_>,
        sig: &SigSlice,
        frame_len: usize,
    ) -> Result<()> {
        let total = frame_len.checked_mul(frames.len());
        let total = total.ok_or_else(|| Error::bug("a tile does not fit in memory"))?;
        let mut scratch = std::mem::take(&mut self.scratch);
        let mut rest = scratch.prepare(total)?;
        let mut position = 0;
        while let Some(frame) = frames.get(position) {
            let (number, part) = self.part_of(frame)?;
            self.enter(number, part)?;
            self.numbers.clear();
            while let Some(frame) = frames.get(position).filter(|f| part.frames.contains(f)) {
                self.numbers.push(frame - part.frames.start);
                position += 1;
            }
            let Some((_, reader)) = &mut self.current else { break };
            let tile = reader.read(FrameIndices::List(&self.numbers), sig)?;
            let size = tile.frames().dtype().size();
            let from = tile.frames().as_bytes().chunks(tile.frames().stride() * size);
            let (to, after) = rest.split_at_mut(self.numbers.len() * frame_len);
            for (from, to) in from.zip(to.chunks_mut(frame_len)) {
                let from =
                    from.get(..frame_len).ok_or_else(|| Error::bug("a tile is too short"))?;
                to.copy_from_slice(from);
            }
            rest = after;
        }
        self.scratch = scratch;
        Ok(())
    }
}

impl FrameReader for StackReader<'_> {
    fn read(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<DenseTile<'_>> {
        let dtype = self.stack.info.dtype.dtype;
        let frame_len = sig.len().saturating_mul(dtype.size());
        let (Some(first), true) = (frames.get(0), frame_len > 0) else {
            return Err(Error::bug("a tile without cells was asked for"));
        };
        let (number, part) = self.part_of(first)?;
        if frames.iter().all(|frame| part.frames.contains(&frame)) {
            self.enter(number, part)?;
            let start = part.frames.start;
            self.numbers.clear();
            let run = match frames {
                FrameIndices::Run(run) => FrameIndices::Run(run.start - start..run.end - start),
                FrameIndices::List(list) => {
                    self.numbers.extend(list.iter().map(|frame| frame - start));
                    FrameIndices::List(&self.numbers)
                }
            };
            return match &mut self.current {
                Some((_, reader)) => reader.read(run, sig),
                None => Err(Error::bug("no file is open")),
            };
        }
        self.gather(&frames, sig, frame_len)?;
        let depth = frames.len();
        let bytes = self.scratch.bytes().get(..depth * frame_len).unwrap_or_default();
        let frames = TileFrames::from_bytes(dtype, bytes, depth, sig.len(), sig.len())?;
        DenseTile::lent(frames, self.scratch.owner())
    }

    fn verify(&mut self) -> Result<()> {
        self.current.as_mut().map_or(Ok(()), |(_, reader)| reader.verify())
    }
}
