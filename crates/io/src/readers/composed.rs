//! The source for frames that are put together from those of other sources: virtual data sets of
//! HDF5, and sets of files that store their frames in different ways.
//!
//! A piece says which frames it is part of, which cells of them, and where those come from. A
//! tile that lies in a single piece is handed on as its source made it; others are copied together,
//! with the fill value where no piece is.

mod blocks;
mod reader;

pub(crate) use blocks::Blocks;

use framefold_core::{DataSource, Encoding, Error, FrameReader, Presence, Result, SourceInfo};
use reader::ComposedReader;
use std::ops::Range;
use std::sync::Arc;

/// The most places in lists of which pieces are where.
const MOST_PLACES: usize = 1 << 22;

/// The most that is looked at to find frames that are missing: seconds.
const MOST_STEPS: u64 = 1 << 27;

/// Part of the frames.
#[derive(Debug)]
pub(crate) struct Piece {
    /// The number of the source that has it; `None` if that is not there.
    pub(crate) source: Option<usize>,
    /// The frames that it is part of, by the axes of the scan.
    pub(crate) shown: Vec<Blocks>,
    /// The frames of the source, in the same order, by the axes that it has.
    pub(crate) taken: Vec<Blocks>,
    /// The lengths of those axes.
    pub(crate) taken_shape: Vec<u64>,
    /// The cells that it is.
    pub(crate) origin: Vec<usize>,
    pub(crate) shape: Vec<usize>,
    /// For each signal axis of the source: the axis here, and its first cell there.
    pub(crate) axes: Vec<(usize, usize)>,
}

/// Frames from other sources.
#[derive(Debug)]
pub(crate) struct ComposedSource {
    info: SourceInfo,
    sources: Vec<Arc<dyn DataSource>>,
    pieces: Vec<Piece>,
    /// One element, in native byte order, for cells that no piece has.
    fill: Vec<u8>,
    nav_shape: Vec<u64>,
    /// For each run of frames of one length, the pieces that may be part of some of them.
    places: Vec<Vec<u32>>,
    frames_per_place: u64,
    frames_together: usize,
}

/// What a [`ComposedSource`] is made of.
pub(crate) struct ComposedSpec {
    /// All but which frames are there.
    pub(crate) info: SourceInfo,
    pub(crate) sources: Vec<Arc<dyn DataSource>>,
    /// Later ones hide earlier ones.
    pub(crate) pieces: Vec<Piece>,
    pub(crate) fill: Vec<u8>,
    /// The axes of the scan that pieces know.
    pub(crate) nav_shape: Vec<u64>,
    /// Whether frames that are part of no piece are there, and made of the fill value.
    pub(crate) fills_frames: bool,
}

impl ComposedSource {
    /// # Errors
    /// `BadFile` if no frame is there; `Bug` if a piece does not fit.
    pub(crate) fn try_new(spec: ComposedSpec) -> Result<Self> {
        let ComposedSpec { info, sources, pieces, fill, nav_shape, fills_frames } = spec;
        let mut source = ComposedSource {
            info,
            sources,
            pieces,
            fill,
            nav_shape,
            places: vec![],
            frames_per_place: 1,
            frames_together: 1,
        };
        source.check()?;
        source.place();
        source.info.presence = source.find_presence(fills_frames)?;
        source.info.base_shape = source.base_shape();
        source.frames_together = source.find_frames_together();
        Ok(source)
    }

    fn check(&self) -> Result<()> {
        if self.fill.len() != self.info.dtype.dtype.size() {
            return Err(Error::bug("a fill value of another dtype"));
        }
        for piece in &self.pieces {
            let Some(number) = piece.source else { continue };
            let fits = self.sources.get(number).is_some_and(|source| {
                source.info().dtype.dtype == self.info.dtype.dtype
                    && source.info().sig_shape.len() == piece.axes.len()
            });
            let count = |blocks: &[Blocks]| blocks.iter().map(Blocks::len).product::<u64>();
            if !fits || count(&piece.shown) != count(&piece.taken) {
                return Err(Error::bug(format!("a piece does not fit: {piece:?}")));
            }
        }
        Ok(())
    }

    /// Notes where pieces are.
    fn place(&mut self) {
        let most = (MOST_PLACES / self.pieces.len().max(1)).clamp(1, 4096);
        let most = u64::try_from(most).unwrap_or(1);
        self.frames_per_place = self.info.n_frames.div_ceil(most).max(1);
        let n_places = self.info.n_frames.div_ceil(self.frames_per_place);
        self.places = vec![vec![]; usize::try_from(n_places).unwrap_or(0)];
        for (piece, number) in self.pieces.iter().zip(0u32..) {
            let span = self.span(&piece.shown);
            if span.is_empty() {
                continue;
            }
            let first = span.start / self.frames_per_place;
            let last = (span.end - 1) / self.frames_per_place;
            for place in first..=last {
                let place = usize::try_from(place).ok().and_then(|i| self.places.get_mut(i));
                if let Some(place) = place {
                    place.push(number);
                }
            }
        }
    }

    /// From the first of the frames to behind the last.
    fn span(&self, shown: &[Blocks]) -> Range<u64> {
        let (mut first, mut last) = (0u64, 0u64);
        for (blocks, &len) in shown.iter().zip(&self.nav_shape) {
            let span = blocks.span();
            if span.is_empty() {
                return 0..0;
            }
            // The number of all frames was checked to fit.
            first = first * len + span.start;
            last = last * len + (span.end - 1);
        }
        first..last + 1
    }

    /// The pieces that may be part of these frames, in order.
    fn pieces_near(&self, frames: Range<u64>) -> Vec<u32> {
        let first = usize::try_from(frames.start / self.frames_per_place).unwrap_or(usize::MAX);
        let last = frames.end.saturating_sub(1) / self.frames_per_place;
        let last = usize::try_from(last).unwrap_or(usize::MAX);
        let near = self.places.get(first..=last.min(self.places.len().saturating_sub(1)));
        let mut near: Vec<u32> = near.unwrap_or_default().iter().flatten().copied().collect();
        near.sort_unstable();
        near.dedup();
        near
    }

    /// Which of the piece's frames that is, counted from 0.
    fn number_in(&self, piece: &Piece, frame: u64) -> Option<u64> {
        let mut rest = frame;
        let mut at = [0u64; 32];
        for (&len, at) in self.nav_shape.iter().zip(&mut at).rev() {
            *at = rest % len;
            rest /= len;
        }
        let mut number = 0;
        for (blocks, at) in piece.shown.iter().zip(at) {
            number = number * blocks.len() + blocks.number_of(at)?;
        }
        Some(number)
    }

    /// The frame of the piece's source that belongs to a frame; `None` if the piece is not part of
    /// that frame.
    fn taken_frame(&self, piece: &Piece, frame: u64) -> Option<u64> {
        let mut rest = self.number_in(piece, frame)?;
        let (mut taken, mut stride) = (0, 1);
        for (blocks, len) in piece.taken.iter().zip(&piece.taken_shape).rev() {
            taken += blocks.element(rest % blocks.len())? * stride;
            rest /= blocks.len();
            stride *= len;
        }
        Some(taken)
    }

    /// The piece's source, if that is there and has that frame.
    fn has_frame(&self, piece: &Piece, taken: u64) -> bool {
        let source = piece.source.and_then(|number| self.sources.get(number));
        source.is_some_and(|source| is_present(&source.info().presence, taken))
    }

    /// Frames are not there if pieces of them are missing and none is there.
    fn find_presence(&self, fills_frames: bool) -> Result<Presence> {
        let whole = |piece: &Piece| {
            let source = piece.source.and_then(|number| self.sources.get(number));
            source.is_some_and(|source| source.info().presence == Presence::All)
        };
        if fills_frames && self.pieces.iter().all(whole) {
            return Ok(Presence::All);
        }
        let near = |place: &Vec<u32>| u64::try_from(place.len()).unwrap_or(u64::MAX).max(1);
        let steps = self.places.iter().map(near).fold(0, u64::saturating_add);
        if steps.saturating_mul(self.frames_per_place) > MOST_STEPS {
            return Err(Error::limit(format!(
                "it would take too long to tell which of {} frames of {} parts are missing",
                self.info.n_frames,
                self.pieces.len()
            ))
            .with_hint("copy the files that are missing into the folder"));
        }
        let mut ranges: Vec<Range<u64>> = vec![];
        for frame in 0..self.info.n_frames {
            let (mut missing, mut there) = (false, false);
            let place = usize::try_from(frame / self.frames_per_place).ok();
            for &number in place.and_then(|i| self.places.get(i)).into_iter().flatten() {
                let piece = usize::try_from(number).ok().and_then(|i| self.pieces.get(i));
                let Some(piece) = piece else { continue };
                if piece.source.is_none() {
                    missing |= self.number_in(piece, frame).is_some();
                } else if let Some(taken) = self.taken_frame(piece, frame) {
                    let has = self.has_frame(piece, taken);
                    there |= has;
                    missing |= !has;
                }
            }
            if there || !missing && fills_frames {
                match ranges.last_mut() {
                    Some(last) if last.end == frame => last.end += 1,
                    _ => ranges.push(frame..frame + 1),
                }
            }
        }
        match ranges.as_slice() {
            [] => Err(Error::bad_file("none of the frames is there")),
            [all] if *all == (0..self.info.n_frames) => Ok(Presence::All),
            _ => Ok(Presence::Ranges(ranges)),
        }
    }

    /// That of the sources, if all have the same and their frames are whole.
    fn base_shape(&self) -> Vec<usize> {
        let whole = |piece: &Piece| piece.shape == self.info.sig_shape;
        let mut bases = self.sources.iter().map(|source| &source.info().base_shape);
        let first = bases.next();
        match first.filter(|first| bases.all(|base| base == *first)) {
            Some(base)
                if base.len() == self.info.sig_shape.len() && self.pieces.iter().all(whole) =>
            {
                base.clone()
            }
            _ => self.info.sig_shape.clone(),
        }
    }

    /// That of the sources, if their frames follow each other here as they do there.
    fn find_frames_together(&self) -> usize {
        let most = self.sources.iter().map(|source| source.frames_together()).max().unwrap_or(1);
        let step = u64::try_from(most).unwrap_or(u64::MAX);
        let in_step = |piece: &Piece| {
            let span = self.span(&piece.shown);
            let taken = self.taken_frame(piece, span.start);
            let n: u64 = piece.shown.iter().map(Blocks::len).product();
            piece.source.is_none()
                || n == span.end - span.start
                    && span.start.is_multiple_of(step)
                    && taken.is_some_and(|taken| taken.is_multiple_of(step))
        };
        if self.pieces.iter().all(in_step) { most } else { 1 }
    }
}

/// Whether that frame is there.
fn is_present(presence: &Presence, frame: u64) -> bool {
    match presence {
        Presence::All => true,
        Presence::Ranges(ranges) => {
            let i = ranges.partition_point(|range| range.end <= frame);
            ranges.get(i).is_some_and(|range| range.contains(&frame))
        }
    }
}

impl DataSource for ComposedSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
        Ok(Box::new(ComposedReader::new(self)))
    }

    fn frames_together(&self) -> usize {
        self.frames_together
    }

    /// That of the sources, if all have the same, and frames like these.
    fn encoding(&self) -> Option<Encoding> {
        let of = |source: &Arc<dyn DataSource>| {
            source.encoding().filter(|_| source.info().sig_shape == self.info.sig_shape)
        };
        let mut all = self.sources.iter().map(of);
        let first = all.next()??;
        all.all(|each| each == Some(first)).then_some(first)
    }
}
