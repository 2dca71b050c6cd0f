//! The frames of another source as a stage makes them, tile by tile.
//!
//! What a tile needs is read in pieces that fit the cache, and each piece is worked on while it is
//! there. A stage that only chooses cells passes on what is read, sparse rows as well.

use framefold_core::{
    ArrayFormat, Arrival, CsrRows, CsrScratch, CsrTile, DataSource, DenseTile, Error, FrameIndices,
    FrameKind, FrameReader, MetadataList, Orientation, Result, Scratch, SigSlice, SourceInfo,
    Stage, StagePart, StoredDType, TileFrames, guarded_call,
};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// So much is read at a time, but for single frames that are larger.
const PIECE_BYTES: usize = 1 << 20;
/// What may panic, in errors.
const STAGE: &str = "the stage";

#[derive(Debug)]
pub(crate) struct StagedSource {
    source: Arc<dyn DataSource>,
    stage: Arc<dyn Stage>,
    info: SourceInfo,
    /// What reading all frames takes.
    stored_bytes: Option<u64>,
}

impl StagedSource {
    /// The frames of `source` as `stage` makes them, with this known of them.
    ///
    /// # Errors
    /// `Bug` if the stage was made for other frames.
    pub(crate) fn try_new(
        source: Arc<dyn DataSource>,
        stage: Arc<dyn Stage>,
        metadata: MetadataList,
    ) -> Result<Self> {
        let of_source = source.info();
        let (shape, dtype) = (of_source.sig_shape.clone(), of_source.dtype.dtype);
        let given = FrameKind { shape, dtype };
        if &given != stage.input() {
            return Err(Error::bug(format!("{stage:?} was put behind frames of {given:?}")));
        }
        let whole = whole(&stage.output().shape)?;
        let read = guarded_call(STAGE, || stage.part(&whole))?.read().clone();
        let mut info = of_source.clone();
        info.base_shape = stage.base_shape(&of_source.base_shape);
        info.lends =
            of_source.lends && stage.passes() && read.runs(&of_source.sig_shape).nth(1).is_none();
        info.dtype = match stage.passes() {
            true => of_source.dtype,
            false => StoredDType::native(stage.output().dtype),
        };
        info.sig_shape.clone_from(&stage.output().shape);
        info.metadata = metadata;
        info.warnings.extend(stage.warnings());
        let pixels = |cells: usize| {
            let bytes = cells.saturating_mul(dtype_size(of_source));
            u64::try_from(bytes).unwrap_or(u64::MAX).saturating_mul(of_source.n_frames)
        };
        // Of what is stored in another way, part of a frame may take as much as all of it.
        let stored_bytes = source.stored_bytes().or_else(|| Some(pixels(read.len())));
        Ok(StagedSource { source, stage, info, stored_bytes })
    }
}

fn dtype_size(info: &SourceInfo) -> usize {
    info.dtype.dtype.size()
}

/// All of a frame of this shape.
fn whole(shape: &[usize]) -> Result<SigSlice> {
    SigSlice::try_within(vec![0; shape.len()], shape.to_vec(), shape)
}

impl DataSource for StagedSource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
        let reader = self.source.reader()?;
        let (scratch, rows, sparse) = (Scratch::new(), CsrRows::new(), CsrScratch::new());
        Ok(Box::new(StagedReader { source: self, reader, part: None, scratch, rows, sparse }))
    }

    fn format(&self) -> ArrayFormat {
        if self.stage.passes() { self.source.format() } else { self.stage.format() }
    }

    fn stored_bytes(&self) -> Option<u64> {
        self.stored_bytes
    }

    fn frames_together(&self) -> usize {
        self.source.frames_together()
    }

    fn pieces(&self) -> Option<&[u64]> {
        self.source.pieces()
    }

    fn arrival(&self, frames: Range<u64>) -> Arrival {
        self.source.arrival(frames)
    }

    fn wait(&self, most: Duration) {
        self.source.wait(most);
    }

    fn orientation(&self) -> Orientation {
        self.source.orientation()
    }

    fn stages(&self) -> Vec<String> {
        let mut stages = self.source.stages();
        stages.push(self.stage.to_string());
        stages
    }

    fn contends(&self) -> bool {
        self.stage.contends() || self.source.contends()
    }

    fn may_wait(&self) -> bool {
        self.source.may_wait()
    }
}

struct StagedReader<'s> {
    source: &'s StagedSource,
    reader: Box<dyn FrameReader + 's>,
    /// What was prepared for the last slice: tiles come slice by slice.
    part: Option<(SigSlice, Box<dyn StagePart + 's>)>,
    scratch: Scratch,
    rows: CsrRows,
    sparse: CsrScratch,
}

impl<'s> StagedReader<'s> {
    /// What is prepared for `sig`, taken out.
    fn part(&mut self, sig: &SigSlice) -> Result<Box<dyn StagePart + 's>> {
        match self.part.take() {
            Some((known, part)) if known == *sig => Ok(part),
            _ => guarded_call(STAGE, || self.source.stage.part(sig)),
        }
    }
}

impl FrameReader for StagedReader<'_> {
    fn read(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<DenseTile<'_>> {
        let part = self.part(sig)?;
        let (_, part) = self.part.insert((sig.clone(), part));
        if self.source.stage.passes() {
            return self.reader.read(frames, part.read());
        }
        let (info, dtype) = (self.source.source.info(), self.source.stage.output().dtype);
        let depth = frames.len();
        let frame_bytes = sig.len().checked_mul(dtype.size());
        let len_bytes = frame_bytes.and_then(|bytes| bytes.checked_mul(depth));
        let (Some(frame_bytes), Some(len_bytes)) = (frame_bytes, len_bytes) else {
            return Err(Error::limit(format!("a tile of {depth} × {} cells", sig.len())));
        };
        let out = self.scratch.prepare(len_bytes)?;
        let mut rest = &mut *out;
        each_piece(self.reader.as_mut(), info, &frames, part.as_mut(), &mut |part, tile, some| {
            let n = frame_bytes.saturating_mul(some.len()).min(rest.len());
            let (out, behind) = std::mem::take(&mut rest).split_at_mut(n);
            rest = behind;
            guarded_call(STAGE, || part.apply(tile, some, out))
        })?;
        let bytes = self.scratch.bytes().get(..len_bytes).unwrap_or_default();
        let tile = TileFrames::from_bytes(dtype, bytes, depth, sig.len(), sig.len())?;
        DenseTile::lent(tile, self.scratch.owner())
    }

    fn read_csr(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<CsrTile<'_>> {
        let part = self.part(sig)?;
        let (_, part) = self.part.insert((sig.clone(), part));
        if self.source.stage.passes() {
            return self.reader.read_csr(frames, part.read());
        }
        let (info, dtype) = (self.source.source.info(), self.source.stage.output().dtype);
        let rows = &mut self.rows;
        rows.clear();
        each_piece(self.reader.as_mut(), info, &frames, part.as_mut(), &mut |part, tile, some| {
            guarded_call(STAGE, || part.append(tile, some, rows))
        })?;
        rows.tile(frames.len(), dtype, sig.len(), &mut self.sparse)
    }

    fn verify(&mut self) -> Result<()> {
        self.reader.verify()
    }
}

/// What is done with some frames.
type Work<'w> =
    &'w mut dyn FnMut(&mut dyn StagePart, &DenseTile<'_>, &FrameIndices<'_>) -> Result<()>;

/// Reads what `part` needs of all `frames` of a source, and calls `work` with as many at a time as fit the
/// cache.
fn each_piece(
    reader: &mut dyn FrameReader,
    info: &SourceInfo,
    frames: &FrameIndices<'_>,
    part: &mut dyn StagePart,
    work: Work<'_>,
) -> Result<()> {
    let n_read = part.read().len();
    let read_bytes = n_read.saturating_mul(dtype_size(info)).max(1);
    let at_a_time = (PIECE_BYTES / read_bytes).max(info.preferred_depth).max(1);
    for start in (0..frames.len()).step_by(at_a_time) {
        let some = frames.part(start, at_a_time);
        let tile = reader.read(some.clone(), part.read())?;
        tile.check(some.len(), part.read(), info.dtype.dtype)?;
        work(part, &tile, &some)?;
    }
    Ok(())
}
