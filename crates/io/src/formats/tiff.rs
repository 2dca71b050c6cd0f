//! TIFF: stacks of pages, in one file or in many.
//!
//! | bytes | content |
//! |---|---|
//! | 0–1 | `II` little endian, `MM` big endian: of all numbers, pixels included |
//! | 2–3 | 42; 43 for BigTIFF, whose offsets have 64 bits |
//! | 4–7 (8–15) | offset of the first directory |
//! | directory | number of entries, entries (tag, type, count, value or its offset), offset of the next |
//!
//! Each directory is a page, each page a frame. Its tags say how large it is (256, 257), what its
//! samples are (258, 277, 339), how they are compressed (259, 317), and where its strips (273, 278,
//! 279) or tiles (322 to 325) lie. Pages that show another one in small (tag 254) are no frames.
//! ImageJ writes files beyond 4 GB with one directory and all frames after the pixels of the first
//! one, and says how many in the description (270). So does MetaMorph in its files (`.stk`), which say
//! it by the number of values of tag 33629, beside tag 33628. OME's description says which page is
//! which plane: see `planes`.
//!
//! Known writers: ImageJ, tifffile, libtiff, Bio-Formats, MetaMorph, microscopes of many makers.
//! Limits: no JPEG, no floats of 24 bits, no volumes. Of pages of several kinds, such as a preview
//! before the data, those of one kind are the frames: see `series`.

mod describe;
mod ifd;
mod page;
mod planes;
mod series;
mod source;
mod vendors;

use crate::access::{Storage, files};
use crate::format::{Format, Prefix, Verdict};
use crate::options;
use crate::options::OpenOptions;
use describe::Description;
use framefold_core::{Dataset, Error, Result};
use ifd::Flavour;
use page::{Layout, Place};
use series::Kind;
use std::ops::Range;
use std::path::Path;

/// More than this many times the frames that are there are not believed to be missing.
const MOST_PROMISED: u64 = 1024;

/// The registry's entry.
pub(crate) const FORMAT: Format = Format {
    name: "tiff",
    title: "a TIFF stack",
    extensions: &["tif", "tiff", "btf", "tf8", "stk"],
    options: &[
        options::NAV_SHAPE,
        options::SIG_SHAPE,
        options::SYNC_OFFSET,
        options::IO_BACKEND,
        options::FILES,
        options::DATASET_INDEX,
    ],
    detect: &detect,
    open: &open,
};

fn detect(prefix: &Prefix<'_>) -> Verdict {
    match ifd::signature(prefix.bytes) {
        Some(flavour) => Verdict::Match(format!(
            "it starts as a {} file in {} endian",
            if flavour.is_big { "BigTIFF" } else { "TIFF" },
            if flavour.big_endian { "big" } else { "little" },
        )),
        None => Verdict::No(format!(
            "it starts with {}, not with 'II' or 'MM' and 42 or 43",
            prefix.describe()
        )),
    }
}

fn open(path: &Path, options: &OpenOptions) -> Result<Dataset> {
    let mut stack = Stack { wanted: options.count(&options::DATASET_INDEX), ..Stack::default() };
    if options.files.is_empty() {
        let storage = Storage::open(path, options.backend)?;
        stack.add(storage).map_err(|error| error.with_path(path))?;
    }
    for path in &options.files {
        let located = |error: Error| error.with_path(path).with_format(FORMAT.name);
        let storage = Storage::open(path, options.backend).map_err(located)?;
        stack.add(storage).map_err(located)?;
    }
    stack.check_places()?;
    stack.warnings.extend(files::notes(&options.files));
    stack.warnings.extend(stack.sizes.warning());
    stack.warnings.extend(stack.doubt.take().map(|(why, n)| match n {
        1 => why,
        n => format!("{why}; so in {n} files"),
    }));
    stack.arrange();
    source::make(stack, options)
}

/// Frames that lie in the same way.
#[derive(Clone, Debug)]
struct Piece {
    /// The numbers of its file and its layout.
    file: usize,
    layout: usize,
    frames: Range<u64>,
    /// Of the first frame; the others follow it, `stride` bytes apart.
    place: Place,
    stride: u64,
}

impl Piece {
    /// The place of one of its frames.
    fn place_of(&self, frame: u64) -> Place {
        match self.place {
            Place::Run(start) => {
                let skipped = (frame - self.frames.start).saturating_mul(self.stride);
                Place::Run(start.saturating_add(skipped))
            }
            chunks @ Place::Chunks(..) => chunks,
        }
    }
}

/// What was found in all files so far.
#[derive(Debug, Default)]
struct Stack {
    files: Vec<(Storage, Flavour)>,
    /// The number of the first one that promises more pages than there are.
    cut: Option<usize>,
    layouts: Vec<Layout>,
    /// The number of the series that the user wants, and the kind of the pages that are frames.
    wanted: Option<usize>,
    kind: Option<Kind>,
    pieces: Vec<Piece>,
    n_frames: u64,
    /// The numbers of the pages of the first file that are frames.
    pages: Vec<u64>,
    /// Pages that only show others in small.
    n_small: u64,
    description: Description,
    sizes: files::PixelSizes,
    warnings: Vec<String>,
    /// What is wrong with the tags of the first file of which something is, and how many there are.
    doubt: Option<(String, usize)>,
}

impl Stack {
    /// # Errors
    /// `BadFile` if a file is cut short before another one, and not all have one frame: others may have moved.
    fn check_places(&self) -> Result<()> {
        let behind =
            self.cut.and_then(|cut| self.files.get(cut).filter(|_| cut + 1 < self.files.len()));
        match behind {
            Some((file, _)) if self.n_frames != self.files.len() as u64 => Err(file.locate(
                Error::bad_file(
                    "the file ends before its last page, and nothing tells how many it had: frames \
                     of the files behind it would move up",
                )
                .with_hint("copy it again, or leave it out of the list"),
            )),
            _ => Ok(()),
        }
    }

    /// Adds the pages of a file.
    ///
    /// # Errors
    /// `BadFile` if there is none of use, or frames are not like those of the first file.
    fn add(&mut self, storage: Storage) -> Result<()> {
        let file = self.files.len();
        let first_frame = self.n_frames;
        let (mut n_pages, mut n_missing) = (0u64, 0u64);
        let mut first_missing = None;
        if file == 0 {
            let (kind, others) = series::choose(&storage, self.wanted)?;
            self.kind = kind;
            self.warnings.extend(others);
        }
        let mut odd: Option<(u64, Error)> = None;
        let mut doubt = None;
        let mut numbers = 0u64;
        let mut description = None;
        // How many bytes there are from the first frame to what is no pixel.
        let mut room = None;
        let (flavour, cut) = ifd::walk(&storage, |directory| {
            let page = n_pages;
            n_pages += 1;
            let kind = Kind::of(directory);
            if file == 0 && kind.is_some() && kind != self.kind {
                // Between frames, leaving it out moves all later ones: only on request.
                if self.wanted.is_none() && self.n_frames > first_frame {
                    let error = Error::bad_file(format!(
                        "page {page} is of another kind than those before and after it"
                    ));
                    let hint = "choose a series by dataset_index, or save frames of one kind into \
                                files of their own";
                    odd.get_or_insert((page, error.with_offset(directory.at).with_hint(hint)));
                }
                return Ok(());
            }
            let Some((layout, place)) = page::read(directory)? else {
                self.n_small += 1;
                return Ok(());
            };
            if let Place::Chunks(offsets, lens) = place {
                // Pages that share their lists of strips could be read for ever.
                let lens = lens.map_or(0, ifd::Numbers::len_bytes);
                numbers = numbers.saturating_add(offsets.len_bytes()).saturating_add(lens);
                if numbers > storage.len() {
                    return Err(directory.wrong("the lists of strips of pages overlap"));
                }
            }
            if let Some(first) = self.layouts.first()
                && (&first.shape, first.stored) != (&layout.shape, layout.stored)
            {
                let error = unlike(directory.at, first, &layout, page);
                if self.n_frames == first_frame {
                    return Err(error);
                }
                odd.get_or_insert((page, error));
                return Ok(());
            }
            if let Some((_, error)) = odd.take() {
                return Err(error);
            }
            description.get_or_insert_with(|| Description::read(directory));
            if self.n_frames == first_frame {
                doubt = place.doubt(&storage, directory.flavour(), &layout);
            }
            let frame = self.n_frames;
            self.n_frames = self.n_frames.checked_add(1).ok_or_else(too_many)?;
            if file == 0 {
                self.pages.push(page);
            }
            let place = place.joined(&storage, directory.flavour(), &layout);
            if let Ok(Place::Run(start)) = place {
                room.get_or_insert_with(|| directory.start_behind(start) - start);
            }
            let layout = self.remember(layout);
            match place {
                Ok(place) => self.push(file, layout, frame, place),
                Err(error) => {
                    n_missing += 1;
                    first_missing.get_or_insert((page, error));
                }
            }
            Ok(())
        })?;
        let name = storage.path().and_then(Path::file_name).unwrap_or_default().to_string_lossy();
        if let Some((page, error)) = first_missing {
            if n_missing == self.n_frames - first_frame {
                return Err(error);
            }
            self.warnings.push(format!(
                "'{name}' is cut short or damaged: {n_missing} of its {n_pages} pages, the first of \
                 them page {page}, are not all there; their positions have no data"
            ));
        }
        if let Some((page, _)) = odd.filter(|_| file > 0) {
            self.warnings.push(format!(
                "'{name}' has other pages after its frames, from page {page} on, which are left out"
            ));
        }
        self.cut = self.cut.or(cut.is_some().then_some(file));
        if let Some(why) = doubt {
            self.doubt.get_or_insert_with(|| (format!("'{name}': {why}"), 0)).1 += 1;
        }
        self.warnings.extend(cut.map(|why| format!("'{name}': {why}")));
        if self.n_frames == first_frame {
            return Err(storage.locate(Error::bad_file("there is no page of full size")));
        }
        let description = description.unwrap_or_default();
        let pixels = self.layouts.first().map_or([1, 1], Layout::rows_and_columns);
        self.sizes.add(storage.path().unwrap_or(Path::new("")), &pixels, &description.metadata);
        if let (1, Some(room)) = (n_pages, room) {
            self.repeat(room, first_frame, &description, &name)?;
        }
        if file == 0 {
            let odd = description.warnings.iter().map(|odd| format!("'{name}': {odd}"));
            self.warnings.extend(odd);
            self.description = description;
        }
        self.files.push((storage, flavour));
        Ok(())
    }

    /// The number of a layout.
    fn remember(&mut self, layout: Layout) -> usize {
        // Pages are mostly like the one before.
        match self.layouts.iter().rposition(|known| *known == layout) {
            Some(number) => number,
            None => {
                self.layouts.push(layout);
                self.layouts.len() - 1
            }
        }
    }

    fn push(&mut self, file: usize, layout: usize, frame: u64, place: Place) {
        let bytes = self.layouts.get(layout).map_or(u64::MAX, Layout::frame_bytes);
        if let (Some(last), Place::Run(start)) = (self.pieces.last_mut(), place)
            && let Place::Run(first) = last.place
            && (last.file, last.layout, last.frames.end) == (file, layout, frame)
        {
            let n = frame - last.frames.start;
            let stride = if n == 1 { start.saturating_sub(first) } else { last.stride };
            let expected = n.checked_mul(stride).and_then(|n| n.checked_add(first));
            if stride >= bytes && expected == Some(start) {
                last.stride = stride;
                last.frames.end += 1;
                return;
            }
        }
        self.pieces.push(Piece { file, layout, frames: frame..frame + 1, place, stride: bytes });
    }

    /// Puts the frames of the only file where its description says that they are in the stack.
    fn arrange(&mut self) {
        let [(storage, _)] = self.files.as_slice() else { return };
        let places = match self.description.places(&self.pages) {
            None => return,
            Some(Ok(places)) => places,
            Some(Err(why)) => {
                let name = storage.path().and_then(Path::file_name).unwrap_or_default();
                self.warnings.push(format!(
                    "'{}': OME's description does not give each page a plane of its own: {why}; the \
                     frames are on one axis, in the order of the file",
                    name.to_string_lossy()
                ));
                return;
            }
        };
        let mut frames = Vec::new();
        for piece in std::mem::take(&mut self.pieces) {
            let at = |frame: u64| usize::try_from(frame).ok().and_then(|at| places.get(at));
            frames.extend(piece.frames.clone().filter_map(|frame| {
                Some((*at(frame)?, piece.file, piece.layout, piece.place_of(frame)))
            }));
        }
        frames.sort_by_key(|&(frame, ..)| frame);
        for (frame, file, layout, place) in frames {
            self.push(file, layout, frame, place);
        }
    }

    /// Adds the frames that follow the pixels of the only page without pages of their own, in so many bytes.
    fn repeat(
        &mut self,
        room: u64,
        first_frame: u64,
        description: &Description,
        name: &str,
    ) -> Result<()> {
        let sig_shape = self.layouts.first().map_or(&[][..], |layout| &layout.shape);
        let Some(promised) = description.n_frames(sig_shape).filter(|&n| n > 1) else {
            return Ok(());
        };
        let Some(piece) = self.pieces.last_mut().filter(|last| last.frames.start == first_frame)
        else {
            return Ok(());
        };
        let n = promised.min(room / piece.stride.max(1)).max(1);
        let believed = promised / MOST_PROMISED <= n;
        if n < promised {
            let rest = match believed {
                true => "; the other positions have no data",
                false => ": so many are not believed",
            };
            self.warnings
                .push(format!("'{name}' promises {promised} frames, but only {n} are there{rest}"));
        }
        let all = if believed { promised } else { n };
        piece.frames.end = first_frame.checked_add(n).ok_or_else(too_many)?;
        self.n_frames = first_frame.checked_add(all).ok_or_else(too_many)?;
        Ok(())
    }
}

fn too_many() -> Error {
    Error::limit("too many frames")
}

/// The error for frames that are not those of the first page.
fn unlike(offset: u64, first: &Layout, other: &Layout, page: u64) -> Error {
    let shown = |layout: &Layout| format!("{:?} pixels in {}", layout.shape, layout.stored);
    Error::bad_file(format!(
        "page {page} has {}, but the first page of the stack has {}",
        shown(other),
        shown(first)
    ))
    .with_offset(offset)
    .with_hint("leave the file out, or save frames of one kind into files of their own")
}
