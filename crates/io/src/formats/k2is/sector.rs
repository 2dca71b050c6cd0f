//! The file of one sector: which blocks are in it, and where.
//!
//! Blocks are numbered, and follow each other as long as none was lost. So the file is known as a few
//! runs of blocks. A run ends where a block is not the one that is expected there, which is found by
//! bisection: of a file without losses, the first and the last block are looked at. Numbers that
//! jump ahead mean that blocks were lost; blocks whose headers were there before are not used a
//! second time. Where bytes were lost within a block, that block is left out.

use super::block::{self, Header, PER_FRAME};
use crate::access::Storage;
use framefold_core::{Error, Result};
use memchr::memmem;

/// How far a block is looked for.
const SEARCHED: u64 = 1 << 20;
/// The most blocks that are believed to be lost in one place: 80 seconds of the camera.
const MOST_LOST: u64 = 1 << 20;
/// How often runs may end; what follows then is left out.
const MOST_ENDS: usize = 1000;

/// The file of one sector.
#[derive(Clone, Debug)]
pub(super) struct Sector {
    pub(super) storage: Storage,
    /// In the order of their numbers and of the file; at least one, none of them empty.
    runs: Vec<Run>,
    /// What is odd about the file.
    pub(super) warnings: Vec<String>,
}

/// Blocks that follow each other, with numbers that do so as well.
#[derive(Clone, Copy, Debug)]
pub(super) struct Run {
    offset: u64,
    /// The number of the first block. Where numbers begin anew, they are counted on.
    pub(super) first: u64,
    /// The number that is in its header.
    stored: u64,
    n_blocks: u64,
}

/// Where a block is, and what number is in its header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    pub(super) offset: u64,
    pub(super) stored: u64,
}

/// What a block is to those before it.
enum Next {
    /// It has this number.
    Number(u64),
    /// So many blocks are there a second time.
    Again(u64),
    /// It does not fit.
    Odd(String),
}

impl Run {
    /// The number after that of its last block.
    pub(super) fn end(&self) -> u64 {
        self.first.saturating_add(self.n_blocks)
    }

    fn place(&self, index: u64) -> Place {
        Place {
            offset: self.offset.saturating_add(index.saturating_mul(block::LEN)),
            stored: self.stored.saturating_add(index),
        }
    }
}

impl Sector {
    /// Finds the blocks of a file.
    ///
    /// # Errors
    /// `BadFile` if there is none near its start.
    pub(super) fn try_new(storage: &Storage) -> Result<Self> {
        let mut sector =
            Sector { storage: storage.clone(), runs: Vec::new(), warnings: Vec::new() };
        let Some((offset, header)) = find_block(storage, 0)? else {
            let error = Error::bad_file(format!(
                "there is no block (FF FF 00 55) in the first {} bytes of the file",
                storage.len().min(SEARCHED)
            ));
            return Err(storage
                .locate(error)
                .with_hint("this is not the data of a sector of a K2"));
        };
        sector.runs.push(run_from(storage, offset, &header, u64::from(header.block))?);
        sector.find_runs()?;
        Ok(sector)
    }

    pub(super) fn runs(&self) -> &[Run] {
        &self.runs
    }

    /// The number of the first block.
    pub(super) fn first(&self) -> u64 {
        self.runs.first().map_or(0, |run| run.first)
    }

    /// The number after that of the last block.
    pub(super) fn end(&self) -> u64 {
        self.runs.last().map_or(0, Run::end)
    }

    /// The block with that number, unless it was lost.
    pub(super) fn place(&self, number: u64) -> Option<Place> {
        let run = match self.runs.as_slice() {
            [run] => run,
            runs => runs.get(runs.partition_point(|run| run.end() <= number))?,
        };
        let index = number.checked_sub(run.first).filter(|&index| index < run.n_blocks)?;
        Some(run.place(index))
    }

    /// Reads the header of a block.
    ///
    /// # Errors
    /// `BadFile` if there is none.
    pub(super) fn header(&self, number: u64) -> Result<Header> {
        let Some(place) = self.place(number) else {
            let error = Error::bad_file(format!("block {number} is not there"));
            return Err(self.storage.locate(error).with_hint("blocks were lost while recording"));
        };
        let mut bytes = [0; block::HEADER_LEN];
        self.storage.read_at(place.offset, &mut bytes)?;
        Header::parse(&bytes).ok_or_else(|| {
            self.storage.locate(block::not_a_block(&bytes)).with_offset(place.offset)
        })
    }

    /// Finds all runs after the first one.
    fn find_runs(&mut self) -> Result<()> {
        let storage = self.storage.clone();
        let mut skipped_to = None;
        for _ in 0..MOST_ENDS {
            let Some(last) = self.runs.last_mut() else { return Ok(()) };
            let end = skipped_to.take().unwrap_or(last.place(last.n_blocks).offset);
            let Some((offset, header)) = find_next(&storage, end)? else {
                if storage.len().saturating_sub(end) >= block::LEN {
                    self.leave_out(end, "no block follows");
                }
                return Ok(());
            };
            let whole = offset >= end && (offset - end).is_multiple_of(block::LEN);
            if !whole && last.n_blocks > 1 {
                // Bytes are missing, perhaps of the last block, whose place others then took.
                last.n_blocks -= 1;
            } else if !whole {
                self.runs.pop();
            }
            match self.what_is(&header)? {
                Next::Number(first) => {
                    let run = run_from(&storage, offset, &header, first)?;
                    self.runs.push(run);
                }
                Next::Again(n_blocks) => {
                    let what = format!("{n_blocks} blocks from byte {offset} on are there twice");
                    self.warn(&what);
                    skipped_to = Some(offset.saturating_add(n_blocks.saturating_mul(block::LEN)));
                }
                Next::Odd(why) => {
                    self.leave_out(offset, &why);
                    return Ok(());
                }
            }
        }
        let end = self.runs.last().map_or(0, |last| last.place(last.n_blocks).offset);
        self.leave_out(end, "blocks were lost too often");
        Ok(())
    }

    /// Compares a block with those of the runs so far.
    fn what_is(&mut self, header: &Header) -> Result<Next> {
        let stored = u64::from(header.block);
        let Some(last) = self.runs.last().copied() else { return Ok(Next::Number(stored)) };
        let expected = last.place(last.n_blocks).stored;
        if let Some(lost) = stored.checked_sub(expected).filter(|&lost| lost <= MOST_LOST) {
            return Ok(Next::Number(last.end().saturating_add(lost)));
        }
        for run in self.runs.iter().rev() {
            let index = stored.checked_sub(run.stored).filter(|&index| index < run.n_blocks);
            let Some(index) = index else { continue };
            if self.header(run.first + index)? == *header {
                return Ok(Next::Again(run.n_blocks - index));
            }
        }
        // The next one in a frame, or the first one of the next frame, by its place.
        let before = self.header(last.end().saturating_sub(1))?;
        let follows = match (before.index(), header.index()) {
            (Some(before), Some(index)) => (before + 1) % PER_FRAME == index,
            _ => false,
        };
        if follows {
            self.warn(&format!("numbers of blocks jump from {} to {stored}", expected - 1));
            return Ok(Next::Number(last.end()));
        }
        Ok(Next::Odd(format!("block {stored} does not follow block {}", expected - 1)))
    }

    fn leave_out(&mut self, offset: u64, why: &str) {
        self.warn(&format!("what follows byte {offset} is left out: {why}"));
    }

    fn warn(&mut self, what: &str) {
        let path = self.storage.path().and_then(|path| path.file_name());
        let name = path.unwrap_or_default().to_string_lossy();
        self.warnings.push(format!("{name}: {what}"));
    }
}

/// All blocks from this one on that are numbered one after the other.
fn run_from(storage: &Storage, offset: u64, header: &Header, first: u64) -> Result<Run> {
    let n_blocks = storage.len().saturating_sub(offset) / block::LEN;
    let mut run = Run { offset, first, stored: u64::from(header.block), n_blocks };
    let fits = |index: u64| -> Result<bool> {
        let place = run.place(index);
        Ok(header_at(storage, place.offset)?.is_some_and(|h| u64::from(h.block) == place.stored))
    };
    // The first one does; is there one that does not?
    let (mut good, mut bad) = (0, n_blocks.max(1));
    if n_blocks > 1 && fits(n_blocks - 1)? {
        good = n_blocks - 1;
    }
    while bad - good > 1 {
        let middle = good + (bad - good) / 2;
        if fits(middle)? {
            good = middle;
        } else {
            bad = middle;
        }
    }
    run.n_blocks = bad;
    Ok(run)
}

fn header_at(storage: &Storage, offset: u64) -> Result<Option<Header>> {
    let mut bytes = [0; block::HEADER_LEN];
    if offset.saturating_add(block::LEN) > storage.len() {
        return Ok(None);
    }
    storage.read_at(offset, &mut bytes)?;
    Ok(Header::parse(&bytes))
}

/// The next block: right at `end`, or else from within the block before that on.
fn find_next(storage: &Storage, end: u64) -> Result<Option<(u64, Header)>> {
    match header_at(storage, end)? {
        Some(header) if repeats(storage, end)? => Ok(Some((end, header))),
        _ => find_block(storage, end.saturating_sub(block::LEN) + 1),
    }
}

/// The first whole block from `start` on, with its offset.
fn find_block(storage: &Storage, start: u64) -> Result<Option<(u64, Header)>> {
    let header_len = block::HEADER_LEN as u64;
    let searched = storage.len().saturating_sub(start).min(SEARCHED + header_len);
    let mut bytes = vec![0; usize::try_from(searched).unwrap_or(0)];
    storage.read_at(start, &mut bytes)?;
    for at in memmem::find_iter(&bytes, &block::SYNC) {
        let offset = start.saturating_add(at as u64);
        if let Some(header) = bytes.get(at..).and_then(Header::parse)
            && repeats(storage, offset)?
        {
            return Ok(Some((offset, header)));
        }
    }
    Ok(None)
}

/// Whether the block at `offset` is a whole one: another one follows, or the file ends.
fn repeats(storage: &Storage, offset: u64) -> Result<bool> {
    let next = offset.saturating_add(block::LEN);
    if next.saturating_add(block::HEADER_LEN as u64) > storage.len() {
        return Ok(next <= storage.len());
    }
    let mut bytes = [0; block::HEADER_LEN];
    storage.read_at(next, &mut bytes)?;
    Ok(Header::parse(&bytes).is_some())
}
