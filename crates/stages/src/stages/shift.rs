//! The content of frames moved, by the same way for all or by one for each position of the scan.
//!
//! With the shift `n + f` along an axis (`n` whole, `0 <= f < 1`), pixel `j` is
//! `(1 - f) * before[j - n] + f * before[j - n - 1]`, axis by axis. Frames are surrounded by one value.

mod mixed;

use crate::cells::{cells_mut, pixel};
use crate::row::{StageOption, StageRow};
use framefold_core::{
    DType, Dataset, DenseTile, Element, Error, FrameIndices, FrameKind, FramesView, Result,
    SigSlice, Stage, StagePart, TypedVec, dispatch_frames,
};
use mixed::Mixed;
use std::fmt;
use std::ops::Range;
use std::sync::Arc;

pub(super) const ROW: StageRow = StageRow {
    name: "shift",
    summary: "the content of each frame moved; fractions of pixels are interpolated",
    value: "N|DY,DX",
    options: &[StageOption {
        name: "fill",
        help: "the value of pixels from outside of the frame [default: 0]",
    }],
    example: "2,-1",
    make: |arguments, input| {
        let vectors = arguments.numbers(input.shape.len())?;
        let fill = arguments.number_of("fill")?.unwrap_or(0.0);
        Shifts { vectors, sync_offset: None }.stage(fill, input)
    },
};

/// How far the content of frames moves along each of their axes, in pixels.
#[derive(Debug)]
pub struct Shifts {
    /// A number for each axis, for all frames or for one position after the other.
    vectors: Vec<f64>,
    /// Of vectors for positions: the frame that the first position shows.
    sync_offset: Option<i64>,
}

impl Shifts {
    /// The shifts in an array of this shape: a vector for all frames, or one for each position of the scan of
    /// `dataset`, axes of the scan first.
    ///
    /// # Errors
    /// `InvalidArgument` if the shape is another one, or a number is not finite.
    pub fn try_new(dataset: &Dataset, shape: &[usize], vectors: Vec<f64>) -> Result<Self> {
        let (nav, n_axes) = (dataset.shape().nav(), dataset.shape().sig().len());
        let of_positions = [nav, &[n_axes]].concat();
        let for_all = shape == [n_axes];
        let n = shape.iter().try_fold(1usize, |n, &len| n.checked_mul(len));
        if !(for_all || shape == of_positions) || n != Some(vectors.len()) {
            return Err(Error::invalid(format!(
                "the shifts have shape {shape:?}, expected {of_positions:?}, which is one number for \
                 each position and each axis of frames, or [{n_axes}] for all frames"
            )));
        }
        if let Some(at) = vectors.iter().position(|number| !number.is_finite()) {
            let position = match for_all {
                true => String::new(),
                false => format!(" of position {:?}", dataset.shape().nav_coordinates(at / n_axes)),
            };
            let error = Error::invalid(format!("a shift{position} is {}", vectors[at]));
            return Err(error.with_hint("give finite numbers; 0 leaves a frame where it is"));
        }
        Ok(Shifts { vectors, sync_offset: (!for_all).then_some(dataset.sync_offset()) })
    }

    /// The stage that moves frames of this kind, where `fill` comes in from outside.
    ///
    /// Shifts that are all whole numbers copy pixels. If one is not, all frames become floats.
    ///
    /// # Errors
    /// `InvalidArgument` if no pixel can have the value `fill`.
    pub fn stage(self, fill: f64, input: FrameKind) -> Result<Arc<dyn Stage>> {
        let whole = self.vectors.iter().all(|number| number.fract() == 0.0);
        let dtype = if whole { input.dtype } else { DType::promote(input.dtype, DType::F32) };
        let one = pixel(fill, dtype)?.ok_or_else(|| {
            Error::invalid(format!("the stage 'shift': fill={fill} is no value of {dtype}"))
        })?;
        let n_axes = input.shape.len();
        let mut reach = vec![0..0; n_axes];
        for vector in self.vectors.chunks_exact(n_axes) {
            for ((reach, &by), &len) in reach.iter_mut().zip(vector).zip(&input.shape) {
                let (n, fraction) = parts(by, len);
                // Frames that no position shows stay where they are.
                reach.start = reach.start.min(n);
                reach.end = reach.end.max(n + i64::from(fraction > 0.0));
            }
        }
        let output = FrameKind { shape: input.shape.clone(), dtype };
        Ok(Arc::new(Shift { shifts: self, reach, whole, fill, one, input, output }))
    }

    /// How far that frame moves.
    fn of_frame(&self, frame: u64, n_axes: usize) -> Option<&[f64]> {
        let Some(sync_offset) = self.sync_offset else { return Some(&self.vectors) };
        let position = usize::try_from(i128::from(frame) - i128::from(sync_offset)).ok()?;
        let start = position.checked_mul(n_axes)?;
        self.vectors.get(start..start.checked_add(n_axes)?)
    }
}

/// A shift as a whole number and a fraction from 0 on, below 1. Beyond the frame, all are the same.
fn parts(by: f64, len: usize) -> (i64, f64) {
    let most = len as f64 + 1.0;
    let by = by.clamp(-most, most);
    let fraction = by - by.floor();
    // The fraction of what is just below a whole number is rounded to 1.
    if fraction < 1.0 { (by.floor() as i64, fraction) } else { (by.floor() as i64 + 1, 0.0) }
}

#[derive(Debug)]
struct Shift {
    shifts: Shifts,
    /// Along each axis, the least and the most that content moves.
    reach: Vec<Range<i64>>,
    /// Whether all shifts are whole numbers.
    whole: bool,
    fill: f64,
    /// The same as one pixel.
    one: TypedVec,
    input: FrameKind,
    output: FrameKind,
}

impl Stage for Shift {
    fn input(&self) -> &FrameKind {
        &self.input
    }

    fn output(&self) -> &FrameKind {
        &self.output
    }

    fn part(&self, sig: &SigSlice) -> Result<Box<dyn StagePart + '_>> {
        let (mut origin, mut shape) = (Vec::new(), Vec::new());
        for (axis, &of) in self.input.shape.iter().enumerate() {
            let (start, of) = (signed(sig.origin()[axis])?, signed(of)?);
            let end = start + signed(sig.shape()[axis])?;
            // A slice is never empty: one pixel is read, and not used, where all come from outside.
            let first = (start - self.reach[axis].end).clamp(0, of - 1);
            let end = (end - self.reach[axis].start).clamp(first + 1, of);
            origin.push(unsigned(first)?);
            shape.push(unsigned(end - first)?);
        }
        let read = SigSlice::try_within(origin, shape, &self.input.shape)?;
        let n_axes = self.input.shape.len();
        let along = vec![Along { offset: 0, fraction: 0.0, len: 1, of: 1 }; n_axes];
        let (sig, rows) = (sig.clone(), Rows::default());
        Ok(Box::new(Part { stage: self, read, sig, along, rows, mixed: Mixed::default() }))
    }
}

fn signed(n: usize) -> Result<i64> {
    // With room for a shift.
    let signed = i64::try_from(n).ok().filter(|&n| n < i64::MAX / 4);
    signed.ok_or_else(|| Error::limit(format!("frames with an axis of {n} pixels")))
}

fn unsigned(n: i64) -> Result<usize> {
    usize::try_from(n).map_err(|_| Error::bug(format!("{n} is no place in a frame")))
}

/// Where the pixels of a slice come from, along one axis: pixel `j` is made of what is read at
/// `j + offset` and, with the weight `fraction`, of the pixel before that.
#[derive(Clone, Copy, Debug)]
struct Along {
    offset: i64,
    fraction: f64,
    /// The pixels of the slice.
    len: usize,
    /// The pixels that are read.
    of: usize,
}

impl Along {
    /// Those of the `len` places from `offset` on that are among what is read.
    fn inside(&self, offset: i64, len: usize) -> Range<usize> {
        let place = |n: i64, most: usize| usize::try_from(n.max(0)).unwrap_or(usize::MAX).min(most);
        let end = place((self.of as i64).saturating_sub(offset), len);
        place(-offset, end)..end
    }

    /// What is read at that place.
    fn at(&self, place: i64) -> Option<usize> {
        usize::try_from(place).ok().filter(|&place| place < self.of)
    }

    /// What pixel `j` is made of, with weights.
    fn taps(&self, j: usize) -> impl Iterator<Item = (f64, Option<usize>)> + use<> {
        let place = j as i64 + self.offset;
        let before = (self.fraction > 0.0).then(|| (self.fraction, self.at(place - 1)));
        std::iter::once((1.0 - self.fraction, self.at(place))).chain(before)
    }
}

/// The rows that each row of a slice is made of.
#[derive(Default)]
struct Rows {
    /// Weights and rows of what is read, as many for each; `None` for rows from outside.
    taps: Vec<(f64, Option<usize>)>,
    before: Vec<(f64, Option<usize>)>,
    /// How many make one row.
    n_taps: usize,
}

impl Rows {
    /// For these axes, which are all but the last one.
    fn prepare(&mut self, along: &[Along]) -> Result<()> {
        self.taps.clear();
        self.taps.push((1.0, Some(0)));
        self.n_taps = 1;
        for axis in along {
            std::mem::swap(&mut self.taps, &mut self.before);
            self.taps.clear();
            let per_pixel = if axis.fraction > 0.0 { 2 } else { 1 };
            let room = self.before.len().checked_mul(axis.len * per_pixel);
            let room = room.ok_or_else(|| Error::limit("frames with too many rows"))?;
            framefold_core::memory::make_room(&mut self.taps, room)?;
            for row in self.before.chunks_exact(self.n_taps) {
                for j in 0..axis.len {
                    for (weight, at) in axis.taps(j) {
                        self.taps.extend(row.iter().map(|&(of_row, row)| {
                            let row = row.zip(at).map(|(row, at)| row * axis.of + at);
                            (of_row * weight, row)
                        }));
                    }
                }
            }
            self.n_taps *= per_pixel;
        }
        Ok(())
    }
}

struct Part<'s> {
    stage: &'s Shift,
    read: SigSlice,
    sig: SigSlice,
    along: Vec<Along>,
    rows: Rows,
    mixed: Mixed,
}

impl Part<'_> {
    /// Finds out where the pixels of a frame come from.
    fn prepare(&mut self, frame: Option<u64>) -> Result<()> {
        let frame = frame.ok_or_else(|| Error::bug("a tile of more frames than were asked for"))?;
        let by = self.stage.shifts.of_frame(frame, self.along.len());
        for (axis, along) in self.along.iter_mut().enumerate() {
            let by = by.and_then(|by| by.get(axis)).copied().unwrap_or(0.0);
            let (n, fraction) = parts(by, self.stage.input.shape[axis]);
            let moved = signed(self.sig.origin()[axis])? - signed(self.read.origin()[axis])?;
            *along = Along {
                offset: moved - n,
                fraction,
                len: self.sig.shape()[axis],
                of: self.read.shape()[axis],
            };
        }
        let n_lead = self.along.len().saturating_sub(1);
        self.rows.prepare(&self.along[..n_lead])
    }

    /// The last axis.
    fn columns(&self) -> Result<Along> {
        self.along.last().copied().ok_or_else(|| Error::bug("frames without axes"))
    }

    /// Copies the pixels of each frame to where they belong.
    fn copy<T: Element>(
        &mut self,
        view: FramesView<'_, T>,
        frames: &FrameIndices<'_>,
        out: &mut [T],
    ) -> Result<()> {
        let fill = self.stage.one.as_slice::<T>().and_then(|one| one.first());
        let fill = *fill.ok_or_else(|| Error::bug("frames that are filled with another dtype"))?;
        for (i, out) in out.chunks_exact_mut(self.sig.len()).enumerate().take(view.depth()) {
            self.prepare(frames.get(i))?;
            let (frame, columns) = (view.frame(i), self.columns()?);
            let inside = columns.inside(columns.offset, columns.len);
            let first = unsigned(inside.start as i64 + columns.offset).unwrap_or(0);
            for (out, &(_, row)) in out.chunks_exact_mut(columns.len).zip(&self.rows.taps) {
                match row {
                    Some(row) if !inside.is_empty() => {
                        let from = row * columns.of + first;
                        out[..inside.start].fill(fill);
                        out[inside.clone()].copy_from_slice(&frame[from..from + inside.len()]);
                        out[inside.end..].fill(fill);
                    }
                    _ => out.fill(fill),
                }
            }
        }
        Ok(())
    }
}

impl StagePart for Part<'_> {
    fn read(&self) -> &SigSlice {
        &self.read
    }

    fn apply(
        &mut self,
        tile: &DenseTile<'_>,
        frames: &FrameIndices<'_>,
        out: &mut [u8],
    ) -> Result<()> {
        if self.stage.whole {
            return dispatch_frames!(tile.frames(), view => {
                self.copy(view, frames, cells_mut(out)?)
            });
        }
        let frame_bytes = self.sig.len() * self.stage.output.dtype.size();
        for (i, out) in out.chunks_exact_mut(frame_bytes).enumerate() {
            self.prepare(frames.get(i))?;
            let columns = self.columns()?;
            let to = (self.stage.output.dtype, out);
            self.mixed.write((tile, i), (&self.rows, columns), self.stage.fill, to)?;
        }
        Ok(())
    }
}

impl fmt::Display for Shift {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.shifts.sync_offset.is_none() {
            let by: Vec<String> = self.shifts.vectors.iter().map(ToString::to_string).collect();
            write!(f, "shift {}", by.join(","))?;
        } else {
            let n_axes = self.input.shape.len();
            let ends = (0..n_axes).map(|axis| {
                let along = || self.shifts.vectors.iter().skip(axis).step_by(n_axes).copied();
                let least = along().fold(f64::INFINITY, f64::min);
                let most = along().fold(f64::NEG_INFINITY, f64::max);
                format!("{} to {}", rounded(least), rounded(most))
            });
            let ends: Vec<String> = ends.collect();
            write!(f, "shift by position, {}", ends.join(" and "))?;
        }
        if self.fill == 0.0 { Ok(()) } else { write!(f, " fill={}", self.fill) }
    }
}

/// For people to read.
fn rounded(number: f64) -> f64 {
    (number * 1000.0).round() / 1000.0
}
