//! Frames of neighbouring scan positions added.
//!
//! Frames are read in runs that follow each other in a row of the scan, a few at a time, and added to the
//! sums of their blocks; what is in memory is the sums of a part of the frame.

use super::bin::{Sums, sums};
use crate::arguments::Arguments;
use crate::cells::len_bytes;
use crate::row::{StageOption, StageRow};
use framefold_core::{
    Arrival, AxisMap, DataSource, Dataset, DenseTile, Error, FrameIndices, FrameReader,
    MetadataList, Orientation, Presence, Quantity, Result, Scratch, SigSlice, SourceInfo,
    StoredDType, TileFrames, memory,
};
use std::fmt;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

pub(super) const ROW: StageRow = StageRow {
    name: "rebin",
    summary: "sums of the frames of neighbouring scan positions, exact for integers",
    value: "N|NY,NX",
    options: &[StageOption { name: "mean", help: "true for means, not sums [default: false]" }],
    example: "2",
    make: |arguments, _| Err(arguments.refuse("it takes a scan, and single frames were given")),
};

/// So many bytes are read, and so many of sums kept, at a time.
const PIECE_BYTES: usize = 1 << 20;

/// Blocks of scan positions of which each becomes one.
#[derive(Clone, Debug)]
pub struct Rebin {
    factors: Vec<usize>,
    mean: bool,
}

impl Rebin {
    /// The blocks that `text` says for a scan of this shape, `rebin 2`; `None` if it is the text of another
    /// stage.
    ///
    /// # Errors
    /// `InvalidArgument` if the text is wrong, or no block is full.
    pub fn parse(text: &str, nav: &[usize]) -> Result<Option<Self>> {
        if text.split_whitespace().next() != Some(ROW.name) {
            return Ok(None);
        }
        let arguments = Arguments::parse(&ROW, text)?;
        let factors = arguments.lengths("a scan", nav.len())?;
        if nav.iter().zip(&factors).any(|(len, n)| len < n) {
            return Err(
                arguments.refuse(format_args!("no block is full in a scan of shape {nav:?}"))
            );
        }
        Ok(Some(Rebin { factors, mean: arguments.switch("mean")? }))
    }

    /// Where the positions of each axis of the scan come from: the middle of their blocks.
    pub fn axes(&self) -> Vec<AxisMap> {
        let map = |&n: &usize| AxisMap { first: (n as f64 - 1.0) / 2.0, step: n as f64 };
        self.factors.iter().map(map).collect()
    }

    /// The frames of the blocks, with this known of their axes. Corrections of `dataset` are not applied.
    ///
    /// A block of which a position has no data has none itself.
    ///
    /// # Errors
    /// `InvalidArgument` if the scan has other axes, no integer can hold the sums, or no block has data;
    /// `Limit` if there is no memory for what is known of the blocks.
    pub fn source(&self, dataset: &Dataset, metadata: MetadataList) -> Result<Arc<dyn DataSource>> {
        let (nav, of_source) = (dataset.shape().nav(), dataset.source().info());
        if nav.len() != self.factors.len() || nav.iter().zip(&self.factors).any(|(len, n)| len < n)
        {
            return Err(Error::bug(format!("{self:?} of a scan of shape {nav:?}")));
        }
        let n_in_block: usize = self.factors.iter().product();
        let pixels = of_source.dtype.dtype;
        let sums = Sums::try_new(pixels, n_in_block, self.mean).ok_or_else(|| {
            Error::invalid(format!(
                "the stage '{self}': sums of {n_in_block} pixels may exceed every integer"
            ))
        })?;
        let blocks = Blocks {
            factors: self.factors.clone(),
            nav: nav.to_vec(),
            shape: nav.iter().zip(&self.factors).map(|(len, n)| len / n).collect(),
            sync_offset: dataset.sync_offset(),
        };
        let n_blocks: usize = blocks.shape.iter().product();
        let mut info = of_source.clone();
        info.n_frames = count(n_blocks);
        info.presence = blocks.presence(dataset)?;
        info.nav_shape.clone_from(&blocks.shape);
        info.dtype = StoredDType::native(sums.dtype);
        // Pieces that can only be read as a whole would be read again for each part of a row of blocks.
        info.preferred_depth = match dataset.source().pieces() {
            Some(_) => blocks.in_row(),
            None => of_source.preferred_depth.div_ceil(blocks.along()).max(1),
        };
        info.lends = false;
        info.metadata = metadata;
        self.carry(&mut info.metadata);
        let rest: Vec<usize> = nav.iter().zip(&self.factors).map(|(len, n)| len % n).collect();
        if rest.iter().any(|&n| n > 0) {
            info.warnings.push(format!(
                "'{self}' leaves out the last {rest:?} positions of the axes of a scan of shape \
                 {nav:?}: they do not fill a block"
            ));
        }
        let frame_bytes = dataset.shape().frame_len().saturating_mul(pixels.size());
        let stored = dataset.source().stored_bytes();
        let stored = stored.map(|all| all.div_ceil(of_source.n_frames.max(1)));
        let stored = stored.unwrap_or(count(frame_bytes)).saturating_mul(count(n_in_block));
        let stored_bytes = stored.saturating_mul(count(n_blocks));
        let source = dataset.source().clone();
        let name = self.to_string();
        Ok(Arc::new(Rebinned { source, blocks, sums, name, info, stored_bytes }))
    }
}

impl Rebin {
    /// Has the list say what holds for the times and the counts of the frames of blocks.
    fn carry(&self, list: &mut MetadataList) {
        let n_in_block = self.factors.iter().product::<usize>() as f64;
        if n_in_block == 1.0 {
            return;
        }
        if !self.mean {
            for time in [Quantity::ExposureTime, Quantity::DwellTime] {
                list.number(time, list.get_number(time).map(|one| one * n_in_block));
            }
        }
        // Blocks of several rows do not begin one after the other.
        let along = self.factors.last().map_or(1.0, |&n| n as f64);
        let next = list.get_number(Quantity::FrameTime).filter(|_| along == n_in_block);
        list.remove(Quantity::FrameTime);
        list.number(Quantity::FrameTime, next.map(|next| next * along));
        list.remove(Quantity::BitDepth);
    }
}

impl fmt::Display for Rebin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let factors: Vec<String> = self.factors.iter().map(ToString::to_string).collect();
        write!(f, "rebin {}", factors.join(","))?;
        if self.mean { f.write_str(" mean=true") } else { Ok(()) }
    }
}

fn count(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

/// Where the frames of blocks are.
#[derive(Debug)]
struct Blocks {
    factors: Vec<usize>,
    /// The shape of the scan, in positions and in blocks.
    nav: Vec<usize>,
    shape: Vec<usize>,
    sync_offset: i64,
}

impl Blocks {
    /// The first positions of the rows of a block, each of as many positions as the last factor says.
    fn rows(&self, block: usize) -> impl Iterator<Item = usize> + '_ {
        let (mut rest, mut first, mut stride) = (block, 0, 1);
        for (axis, &len) in self.shape.iter().enumerate().rev() {
            first += rest % len * self.factors[axis] * stride;
            rest /= len;
            stride *= self.nav[axis];
        }
        let lead = self.factors.len() - 1;
        let n_rows: usize = self.factors[..lead].iter().product();
        (0..n_rows).map(move |row| {
            let (mut rest, mut at, mut stride) = (row, first, self.nav[lead]);
            for axis in (0..lead).rev() {
                at += rest % self.factors[axis] * stride;
                rest /= self.factors[axis];
                stride *= self.nav[axis];
            }
            at
        })
    }

    /// The positions of a row of each block.
    fn along(&self) -> usize {
        self.factors.last().copied().unwrap_or(1)
    }

    /// The blocks of a row of the scan.
    fn in_row(&self) -> usize {
        self.shape.last().copied().unwrap_or(1)
    }

    /// The frame that a position shows, or would show.
    fn frame(&self, position: usize) -> Option<u64> {
        let frame = i128::try_from(position).ok()? + i128::from(self.sync_offset);
        u64::try_from(frame).ok()
    }

    /// Which blocks have data: those of which all positions have.
    fn presence(&self, dataset: &Dataset) -> Result<Presence> {
        let n_blocks: usize = self.shape.iter().product();
        let with_data = dataset.positions_with_data();
        let has_data = |row: usize| {
            let i = with_data.partition_point(|range| range.end <= row);
            // Ranges that follow each other without a gap are one.
            with_data.get(i).is_some_and(|range| range.start <= row)
        };
        let mut ranges: Vec<Range<u64>> = Vec::new();
        for block in 0..n_blocks {
            let whole = |row: usize| (row..row + self.along()).all(has_data);
            if !self.rows(block).all(whole) {
                continue;
            }
            let number = count(block);
            match ranges.last_mut() {
                Some(last) if last.end == number => last.end += 1,
                _ => memory::push(&mut ranges, number..number + 1)?,
            }
        }
        match ranges.as_slice() {
            [] => Err(Error::invalid(format!(
                "no block of {:?} positions has data at all of them",
                self.factors
            ))
            .with_hint("check nav_shape and sync_offset, or make the blocks smaller")),
            [all] if *all == (0..count(n_blocks)) => Ok(Presence::All),
            _ => Ok(Presence::Ranges(ranges)),
        }
    }
}

/// The frames of another source, added block by block.
#[derive(Debug)]
struct Rebinned {
    source: Arc<dyn DataSource>,
    blocks: Blocks,
    sums: Sums,
    /// What is done, in words.
    name: String,
    info: SourceInfo,
    stored_bytes: u64,
}

impl DataSource for Rebinned {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
        let [wide, means, out] = [(); 3].map(|()| Scratch::new());
        let reader = self.source.reader()?;
        Ok(Box::new(Reader { source: self, reader, wide, means, out }))
    }

    fn stored_bytes(&self) -> Option<u64> {
        Some(self.stored_bytes)
    }

    fn arrival(&self, frames: Range<u64>) -> Arrival {
        let ends = usize::try_from(frames.start).ok().zip(usize::try_from(frames.end).ok());
        let Some((start, end)) = ends.filter(|(start, end)| start < end) else {
            return Arrival::Here;
        };
        let of = |first: Option<usize>, behind: Option<usize>| {
            let first = self.blocks.frame(first?)?;
            Some(self.source.arrival(first..self.blocks.frame(behind?)?))
        };
        let along = self.blocks.along();
        let behind = self.blocks.rows(end - 1).last().map(|row| row + along);
        if of(self.blocks.rows(start).next(), behind) == Some(Arrival::Here) {
            return Arrival::Here;
        }
        // It may be that of frames between them, which are in other blocks or in none.
        let mut found = Arrival::Here;
        for row in (start..end).flat_map(|block| self.blocks.rows(block)) {
            match of(Some(row), Some(row + along)) {
                Some(Arrival::Here) => {}
                Some(Arrival::NotYet) => found = Arrival::NotYet,
                Some(Arrival::Never) | None => return Arrival::Never,
            }
        }
        found
    }

    fn wait(&self, most: Duration) {
        self.source.wait(most);
    }

    fn orientation(&self) -> Orientation {
        self.source.orientation()
    }

    fn stages(&self) -> Vec<String> {
        let mut stages = self.source.stages();
        stages.push(self.name.clone());
        stages
    }

    fn contends(&self) -> bool {
        self.source.contends()
    }

    fn may_wait(&self) -> bool {
        self.source.may_wait()
    }
}

struct Reader<'s> {
    source: &'s Rebinned,
    reader: Box<dyn FrameReader + 's>,
    /// The sums of some blocks.
    wide: Scratch,
    means: Scratch,
    out: Scratch,
}

impl FrameReader for Reader<'_> {
    fn read(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<DenseTile<'_>> {
        let Reader { source, reader, wide, means, out } = self;
        let (blocks, dtype) = (&source.blocks, source.sums.dtype);
        let (depth, frame_bytes) = (frames.len(), len_bytes(sig.len(), dtype)?);
        let len = frame_bytes.checked_mul(depth);
        let len = len.ok_or_else(|| Error::limit(format!("a tile of {depth} frames")))?;
        let out_bytes = out.prepare(len)?;
        let sum_bytes = len_bytes(sig.len(), source.sums.added)?.max(1);
        let most = (PIECE_BYTES / sum_bytes).max(source.info.preferred_depth).max(1);
        let mut done = 0;
        while done < depth {
            let first = source.block(frames.get(done))?;
            let most = most.min(blocks.in_row() - first % blocks.in_row()).min(depth - done);
            let follows = |n: &usize| frames.get(done + n) == Some(count(first + n));
            let n = (1..most).take_while(follows).count() + 1;
            let out = &mut out_bytes[done * frame_bytes..(done + n) * frame_bytes];
            source.add(reader.as_mut(), (first, n), sig, [wide, means], out)?;
            done += n;
        }
        let bytes = self.out.bytes().get(..len).unwrap_or_default();
        let tile = TileFrames::from_bytes(dtype, bytes, depth, sig.len(), sig.len())?;
        DenseTile::lent(tile, self.out.owner())
    }

    fn verify(&mut self) -> Result<()> {
        self.reader.verify()
    }
}

impl Rebinned {
    /// The block with this number.
    fn block(&self, number: Option<u64>) -> Result<usize> {
        let known = number.filter(|&number| number < self.info.n_frames);
        known.and_then(|number| usize::try_from(number).ok()).ok_or_else(|| {
            Error::bug(format!("block {number:?} of {} was to be read", self.info.n_frames))
        })
    }

    /// Writes `n` blocks of a row, from number `first` on, to `out`.
    fn add(
        &self,
        reader: &mut dyn FrameReader,
        (first, n): (usize, usize),
        sig: &SigSlice,
        [wide, means]: [&mut Scratch; 2],
        out: &mut [u8],
    ) -> Result<()> {
        let Sums { added, dtype, mean, .. } = self.sums;
        let of_source = self.source.info();
        // Integers of 64 bits are added in 128.
        let checked = !mean
            && added == dtype
            && added.is_integer()
            && dtype == of_source.dtype.dtype
            && added.size() == 8;
        let sum_bytes = match checked {
            true => sig.len().checked_mul(size_of::<i128>()),
            false => Some(len_bytes(sig.len(), added)?),
        };
        let all = sum_bytes.and_then(|bytes| bytes.checked_mul(n));
        let (Some(sum_bytes), Some(all)) = (sum_bytes, all) else {
            return Err(Error::limit(format!("sums of {n} × {} cells", sig.len())));
        };
        let added_up = wide.prepare(all)?;
        added_up.fill(0);
        let (along, n_frames) = (self.blocks.along(), n * self.blocks.along());
        let read_bytes = len_bytes(sig.len(), of_source.dtype.dtype)?.max(1);
        let at_a_time = (PIECE_BYTES / read_bytes).max(of_source.preferred_depth).max(1);
        for row in self.blocks.rows(first) {
            for start in (0..n_frames).step_by(at_a_time) {
                let some = at_a_time.min(n_frames - start);
                let frame = self.blocks.frame(row + start);
                let frame = frame.ok_or_else(|| Error::bug("a position without a frame"))?;
                let tile = reader.read(FrameIndices::Run(frame..frame + count(some)), sig)?;
                tile.check(some, sig, of_source.dtype.dtype)?;
                let frames = tile.frames();
                for i in 0..some {
                    let at = (start + i) / along * sum_bytes;
                    sums::add_frame_to(frames, i, added, &mut added_up[at..at + sum_bytes])?;
                }
            }
        }
        let frame_bytes = len_bytes(sig.len(), dtype)?;
        let each = added_up.chunks_exact_mut(sum_bytes).zip(out.chunks_exact_mut(frame_bytes));
        for (i, (sums, out)) in each.enumerate() {
            if !checked {
                self.sums.finish(sums, means, out)?;
            } else if !sums::narrowed(sums, dtype, out)? {
                return Err(Error::invalid(format!(
                    "the stage '{}': a sum of pixels of {dtype} does not fit {dtype}",
                    self.name
                ))
                .with_hint("make it 'rebin … mean=true', or cast to float64 before")
                .with_frame(count(first + i)));
            }
        }
        Ok(())
    }
}
