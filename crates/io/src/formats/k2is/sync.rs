//! Aligns the sectors: with which block complete frames begin, and which of them are in all files.
//!
//! Files begin where the recording of their sector happened to begin. Frames are counted from the
//! first block number on that all files have, and that begins a frame by its place in it. Frames
//! end where the shortest file does. Frames of which blocks were lost are missing.

use super::block::{Header, PER_FRAME};
use super::sector::Sector;
use super::set::FileSet;
use framefold_core::{Error, Result};
use std::ops::Range;

/// How many ranges of missing frames a warning names.
const SHOWN: usize = 4;

/// Files with frames that begin at known blocks.
#[derive(Debug)]
pub(super) struct Sectors {
    pub(super) sectors: Vec<Sector>,
    /// The number of the first block of frame 0.
    pub(super) first_block: u64,
    /// Frames, missing ones in between included.
    pub(super) n_frames: u64,
    /// Those that are complete in all files: ascending, none of them empty.
    pub(super) present: Vec<Range<u64>>,
    pub(super) warnings: Vec<String>,
}

/// Finds the complete frames of all sectors.
///
/// # Errors
/// `BadFile` that names the file if one has no block, sectors do not overlap, or the blocks of the
/// first and the last frame do not fit together.
pub(super) fn align(set: &FileSet) -> Result<Sectors> {
    let sectors: Vec<_> = set.sectors.iter().map(Sector::try_new).collect::<Result<_>>()?;
    let latest = sectors.iter().map(Sector::first).max().unwrap_or(0);
    if let Some(sector) = sectors.iter().find(|sector| sector.end() <= latest) {
        let error = Error::bad_file(format!(
            "the file ends with block {}, but that of another sector begins with block {latest}",
            sector.end().saturating_sub(1)
        ));
        return Err(sector.storage.locate(error).with_hint("the files are not from one recording"));
    }
    let begin = frame_from(&sectors, latest)?;
    let end = sectors.iter().map(Sector::end).min().unwrap_or(0);
    let whole = 0..end.saturating_sub(begin) / PER_FRAME;
    let present = without(whole, lost(&sectors, begin));
    let (Some(first), Some(last)) = (present.first().cloned(), present.last().cloned()) else {
        let error = Error::bad_file("the files do not hold one complete frame that is in all 8");
        return Err(match sectors.iter().min_by_key(|sector| sector.end()) {
            Some(sector) => sector.storage.locate(error),
            None => error,
        }
        .with_hint("the recording was stopped too early, or the files are truncated"));
    };
    let mut sectors = Sectors {
        first_block: begin,
        n_frames: last.end,
        warnings: sectors.iter().flat_map(|sector| sector.warnings.clone()).collect(),
        present,
        sectors,
    };
    for frame in [first.start, last.end - 1] {
        sectors.check(frame)?;
    }
    sectors.warn_of_missing_frames();
    Ok(sectors)
}

impl Sectors {
    /// The number of a block.
    pub(super) fn number(&self, frame: u64, index: u64) -> u64 {
        // Blocks of frames that are there have numbers within 64 bits.
        self.first_block.saturating_add(frame.saturating_mul(PER_FRAME)).saturating_add(index)
    }

    /// Checks that the blocks of a frame are of one frame in all sectors, and in order.
    fn check(&self, frame: u64) -> Result<()> {
        let mut id = None;
        for sector in &self.sectors {
            for index in 0..PER_FRAME {
                let number = self.number(frame, index);
                let header = sector.header(number)?;
                let id = *id.get_or_insert(header.frame);
                let place = sector.place(number);
                check(&header, index, id, place.map_or(number, |place| place.stored)).map_err(
                    |error| {
                        let error = sector.storage.locate(error).with_frame(frame);
                        error.with_offset(place.map_or(0, |place| place.offset))
                    },
                )?;
            }
        }
        Ok(())
    }

    /// The first frame whose last block has the shutter's flag, whether it is complete or not.
    pub(super) fn first_with_shutter(&mut self) -> Result<Option<u64>> {
        let mut is_unknown = false;
        for frame in 0..self.n_frames {
            // The flag stays on once it is; in the first frame, not all blocks need have it.
            let number = self.number(frame, PER_FRAME - 1);
            let Some(sector) = self.sectors.iter().find(|s| s.place(number).is_some()) else {
                is_unknown = true;
                continue;
            };
            if sector.header(number)?.shutter {
                if is_unknown {
                    self.warnings.push(format!(
                        "nothing is left of frame {}, the last one before the shutter's flag: the \
                         scan may begin earlier; give sync_offset if you know",
                        frame - 1
                    ));
                }
                return Ok(Some(frame));
            }
            is_unknown = false;
        }
        Ok(None)
    }

    fn warn_of_missing_frames(&mut self) {
        let n_present: u64 = self.present.iter().map(|range| range.end - range.start).sum();
        let n_missing = self.n_frames - n_present;
        if n_missing > 0 {
            let gaps = without(0..self.n_frames, self.present.clone());
            let n_gaps = gaps.len();
            let gaps = gaps.into_iter().map(|gap| match gap.end - gap.start {
                1 => gap.start.to_string(),
                _ => format!("{} to {}", gap.start, gap.end - 1),
            });
            let mut shown: Vec<_> = gaps.take(SHOWN).collect();
            if n_gaps > SHOWN {
                shown.push("…".to_owned());
            }
            self.warnings.push(format!(
                "blocks of {n_missing} of {} frames were lost ({}): these frames are missing",
                self.n_frames,
                shown.join(", ")
            ));
        }
        let longest = self.sectors.iter().map(Sector::end).max().unwrap_or(0);
        let longest = longest.saturating_sub(self.first_block) / PER_FRAME;
        if longest > self.n_frames + 1 {
            self.warnings.push(format!(
                "only the first {} frames are in all files; one of them has {longest}",
                self.n_frames
            ));
        }
    }
}

/// The number of the first block from `earliest` on that begins a frame.
fn frame_from(sectors: &[Sector], earliest: u64) -> Result<u64> {
    let mut begin = None;
    for sector in sectors {
        let first = sector.first();
        let header = sector.header(first)?;
        let Some(index) = header.index() else {
            let error = Error::bad_file(format!(
                "block {first} is at no place where blocks of a sector are"
            ));
            return Err(sector.storage.locate(error).with_hint("the file is damaged"));
        };
        // Of the block that begins the frame, as a remainder.
        let phase = (first % PER_FRAME + PER_FRAME - index) % PER_FRAME;
        let wanted = (phase + PER_FRAME - earliest % PER_FRAME) % PER_FRAME;
        let number = earliest.saturating_add(wanted);
        let expected = *begin.get_or_insert(number);
        if number != expected {
            let error = Error::bad_file(format!(
                "frames begin with block {number}, expected {expected} as in the first sector"
            ));
            return Err(sector.storage.locate(error).with_hint(
                "the files are not from one recording, or blocks were lost at their start",
            ));
        }
    }
    Ok(begin.unwrap_or(earliest))
}

/// The frames, counted from the block `begin` on, of which some block is in no run.
fn lost(sectors: &[Sector], begin: u64) -> Vec<Range<u64>> {
    let frame = |number: u64| number.saturating_sub(begin) / PER_FRAME;
    let mut lost = Vec::new();
    for sector in sectors {
        for pair in sector.runs().windows(2) {
            let [before, after] = pair else { continue };
            if before.end() < after.first && after.first > begin {
                lost.push(frame(before.end())..frame(after.first - 1) + 1);
            }
        }
    }
    lost.sort_unstable_by_key(|range| range.start);
    lost
}

/// What is left of a range without others, which are in the order of their starts.
fn without(whole: Range<u64>, lost: Vec<Range<u64>>) -> Vec<Range<u64>> {
    let (mut left, mut start) = (Vec::new(), whole.start);
    for gap in lost {
        let end = gap.start.min(whole.end);
        if end > start {
            left.push(start..end);
        }
        start = start.max(gap.end);
        if start >= whole.end {
            return left;
        }
    }
    if start < whole.end {
        left.push(start..whole.end);
    }
    left
}

/// Checks that a block is at its place in the frame with this number, and has its own number.
pub(super) fn check(header: &Header, index: u64, frame: u32, stored: u64) -> Result<()> {
    let is_at_place = header.index() == Some(index) && u64::from(header.block) == stored;
    if is_at_place && header.frame == frame {
        return Ok(());
    }
    let found = match header.index() {
        Some(index) => format!("number {index}"),
        None => "at no place".to_owned(),
    };
    Err(Error::bad_file(format!(
        "block {} is {found} of frame {}, expected block {stored}, number {index} of frame \
         {frame}: blocks were lost while recording, or the file is damaged",
        header.block, header.frame
    ))
    .with_hint("leave these frames out with a region of interest, or record the data again"))
}

#[cfg(test)]
#[expect(clippy::single_range_in_vec_init, reason = "lists of ranges, some of one")]
mod tests {
    use super::*;

    #[test]
    fn what_is_left_of_a_range() {
        let left = |lost: &[Range<u64>]| without(0..10, lost.to_vec());
        assert_eq!(left(&[]), [0..10]);
        assert_eq!(left(&[2..3, 2..5, 7..8]), [0..2, 5..7, 8..10]);
        assert_eq!(left(&[0..1, 9..20]), [1..9]);
        assert_eq!(left(&[3..30]), [0..3]);
        assert_eq!(left(&[0..6, 1..2, 4..10]), []);
        assert_eq!(left(&[12..13]), [0..10]);
    }
}
