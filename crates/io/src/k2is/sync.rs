//! Aligns the sectors: where complete frames begin in each file, and how many there are.
//!
//! Files begin where the recording of their sector happened to begin. The first block is found by
//! its mark, which repeats after the length of a block. All sectors are then moved on to the block
//! number at which the last of them begins, and on from there to the first block of the next frame,
//! unless a frame begins right there. Frames end where the shortest file does.

use super::block::{self, Header, PER_FRAME};
use super::set::FileSet;
use crate::Storage;
use framefold_core::{Error, Result};

/// How far the first block is looked for.
const SEARCHED: u64 = 1 << 20;

/// Files with frames that begin at known places.
#[derive(Debug)]
pub(super) struct Sectors {
    pub(super) sectors: Vec<Sector>,
    /// Complete frames, the same in all of them; at least 1.
    pub(super) n_frames: u64,
    pub(super) warnings: Vec<String>,
}

/// The file of one sector.
#[derive(Clone, Debug)]
pub(super) struct Sector {
    pub(super) storage: Storage,
    /// The offset of the first block of the first complete frame.
    pub(super) start: u64,
}

impl Sector {
    /// Where a block begins, counted from the first complete frame on. Blocks that are in the file
    /// are within 64 bits.
    pub(super) fn offset_of(&self, block: u64) -> u64 {
        self.start.saturating_add(block.saturating_mul(block::LEN))
    }

    fn n_blocks(&self) -> u64 {
        self.storage.len().saturating_sub(self.start) / block::LEN
    }

    /// Reads the header of a block.
    ///
    /// # Errors
    /// `BadFile` if there is none.
    pub(super) fn header(&self, block: u64) -> Result<Header> {
        let mut bytes = [0; block::HEADER_LEN];
        let offset = self.offset_of(block);
        self.storage.read_at(offset, &mut bytes)?;
        Header::parse(&bytes)
            .ok_or_else(|| self.storage.locate(block::not_a_block(&bytes)).with_offset(offset))
    }
}

/// Finds the complete frames of all sectors.
///
/// # Errors
/// `BadFile` that names the file if one has no block, sectors do not overlap, or the blocks at the
/// first and the last frame do not fit together.
pub(super) fn align(set: &FileSet) -> Result<Sectors> {
    let mut sectors = Vec::new();
    for storage in &set.sectors {
        let start = first_block(storage)?;
        sectors.push(Sector { storage: storage.clone(), start });
    }
    let mut firsts = Vec::new();
    for sector in &sectors {
        firsts.push(u64::from(sector.header(0)?.block));
    }
    let latest = firsts.iter().copied().max().unwrap_or(0);
    for (sector, first) in sectors.iter_mut().zip(firsts) {
        move_on(sector, latest - first, Some(latest))?;
    }
    let to_frame = blocks_to_frame(&sectors)?;
    for sector in &mut sectors {
        move_on(sector, to_frame, None)?;
    }
    let n_frames = sectors.iter().map(|sector| sector.n_blocks() / PER_FRAME).min().unwrap_or(0);
    let Some(last) = n_frames.checked_sub(1) else {
        let error = Error::bad_file("the files do not hold one complete frame that is in all 8");
        return Err(match sectors.iter().min_by_key(|sector| sector.n_blocks()) {
            Some(sector) => sector.storage.locate(error),
            None => error,
        }
        .with_hint("the recording was stopped too early, or the files are truncated"));
    };
    for frame in [0, last] {
        check_frame(&sectors, frame)?;
    }
    let mut warnings = Vec::new();
    let longest = sectors.iter().map(Sector::n_blocks).max().unwrap_or(0) / PER_FRAME;
    if longest > n_frames + 1 {
        warnings.push(format!(
            "only the first {n_frames} frames are in all files; one of them has {longest}"
        ));
    }
    Ok(Sectors { sectors, n_frames, warnings })
}

/// The offset of the first whole block.
fn first_block(storage: &Storage) -> Result<u64> {
    let header_len = block::HEADER_LEN as u64;
    let searched = storage.len().min(SEARCHED + header_len);
    let mut bytes = vec![0; usize::try_from(searched).unwrap_or(0)];
    storage.read_at(0, &mut bytes)?;
    for (at, window) in (0u64..).zip(bytes.windows(block::HEADER_LEN)) {
        if window[0] != 0xFF || Header::parse(window).is_none() {
            continue;
        }
        let next = at + block::LEN;
        let mut header = [0; block::HEADER_LEN];
        let repeats = match next + header_len {
            end if end <= storage.len() => {
                storage.read_at(next, &mut header)?;
                Header::parse(&header).is_some()
            }
            // A single block has no neighbour.
            _ => next <= storage.len(),
        };
        if repeats {
            return Ok(at);
        }
    }
    let error = Error::bad_file(format!(
        "there is no block (FF FF 00 55) in the first {searched} bytes of the file"
    ));
    Err(storage.locate(error).with_hint("this is not the data of a sector of a K2"))
}

/// Moves the start on by some blocks, to the one with the number `expected`.
fn move_on(sector: &mut Sector, n_blocks: u64, expected: Option<u64>) -> Result<()> {
    if n_blocks >= sector.n_blocks() {
        let error = Error::bad_file(format!(
            "the file ends {} blocks after its first one, but {n_blocks} are needed to reach the \
             frames of the other sectors",
            sector.n_blocks()
        ));
        return Err(sector.storage.locate(error).with_hint("the files are not from one recording"));
    }
    let found = sector.header(n_blocks)?.block;
    sector.start = sector.offset_of(n_blocks);
    if let Some(expected) = expected.filter(|&expected| expected != u64::from(found)) {
        let error = Error::bad_file(format!(
            "the block has the number {found}, expected {expected}: blocks were lost"
        ));
        return Err(sector.storage.locate(error).with_offset(sector.start));
    }
    Ok(())
}

/// The blocks from the common start to the next begin of a frame.
fn blocks_to_frame(sectors: &[Sector]) -> Result<u64> {
    let mut to_frame = 0;
    for sector in sectors {
        let first = sector.header(0)?;
        for block in 1..PER_FRAME.min(sector.n_blocks()) {
            if sector.header(block)?.frame != first.frame {
                to_frame = to_frame.max(block);
                break;
            }
        }
    }
    Ok(to_frame)
}

/// Checks that the blocks of a frame are of one frame in all sectors, and in order.
fn check_frame(sectors: &[Sector], frame: u64) -> Result<()> {
    let mut number = None;
    for sector in sectors {
        for index in 0..PER_FRAME {
            let block = frame * PER_FRAME + index;
            let header = sector.header(block)?;
            let expected = *number.get_or_insert(header.frame);
            check(&header, index, expected).map_err(|error| {
                sector.storage.locate(error).with_offset(sector.offset_of(block)).with_frame(frame)
            })?;
        }
    }
    Ok(())
}

/// Checks that a block is at its place in the frame with this number.
pub(super) fn check(header: &Header, index: u64, frame: u32) -> Result<()> {
    if header.index() == Some(index) && header.frame == frame {
        return Ok(());
    }
    Err(Error::bad_file(format!(
        "block {} is number {:?} of frame {}, expected number {index} of frame {frame}: blocks \
         were lost while recording",
        header.block,
        header.index(),
        header.frame
    ))
    .with_hint("leave these frames out with a region of interest, or record the data again"))
}

/// The first frame whose last block has the shutter's flag.
pub(super) fn first_with_shutter(sectors: &Sectors) -> Result<Option<u64>> {
    let Some(sector) = sectors.sectors.first() else { return Ok(None) };
    for frame in 0..sectors.n_frames {
        // The flag stays on once it is; in the first frame, not all blocks need have it.
        if sector.header(frame * PER_FRAME + PER_FRAME - 1)?.shutter {
            return Ok(Some(frame));
        }
    }
    Ok(None)
}
