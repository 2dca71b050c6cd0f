//! A data source in memory that can be made awkward.

use framefold_core::{
    ArrayFormat, CsrScratch, CsrTile, DataSource, DenseTile, Error, FrameIndices, FrameReader,
    MetadataList, NativeArray, Presence, Result, Scratch, SigSlice, SourceInfo, StoredDType,
    TileFrames, sparsify,
};

/// How a [`MemorySource`] behaves.
#[derive(Clone, Debug)]
pub struct MemoryOptions {
    /// Whether tiles are lent as they lie in memory, where that is possible.
    pub lends: bool,
    /// Elements between one frame and the next, in memory and in tiles.
    pub gap: usize,
    /// Which frames are there.
    pub presence: Presence,
    /// Whether the source claims to have its data dense or sparse. It can do both.
    pub format: ArrayFormat,
}

impl Default for MemoryOptions {
    fn default() -> Self {
        MemoryOptions { lends: true, gap: 0, presence: Presence::All, format: ArrayFormat::Dense }
    }
}

/// Frames in memory. Gaps and missing frames hold bytes that no test would take for data.
#[derive(Debug)]
pub struct MemorySource {
    info: SourceInfo,
    frame_len: usize,
    gap: usize,
    cells: NativeArray,
    format: ArrayFormat,
}

/// Fills gaps: NaN in every float type, a large number in every integer type.
const POISON: u8 = 0xff;

impl MemorySource {
    /// A source of `frames`, of shape `(n_frames, *sig_shape)`.
    ///
    /// # Errors
    /// `InvalidArgument` if the array has no signal axes or an axis of length 0.
    pub fn try_new(frames: NativeArray, options: MemoryOptions) -> Result<Self> {
        let (n_frames, sig_shape) = match frames.shape() {
            [n, sig @ ..] if *n > 0 && !sig.is_empty() && !sig.contains(&0) => (*n, sig.to_vec()),
            shape => {
                return Err(Error::invalid(format!("an array of shape {shape:?} has no frames")));
            }
        };
        let dtype = frames.dtype();
        let frame_len: usize = sig_shape.iter().product();
        let stride = frame_len + options.gap;
        let info = SourceInfo {
            format: "memory",
            paths: vec![],
            n_frames: n_frames as u64,
            presence: options.presence,
            base_shape: vec![1; sig_shape.len()],
            sig_shape,
            nav_shape: vec![n_frames],
            dtype: StoredDType::native(dtype),
            preferred_depth: 1,
            lends: options.lends,
            metadata: MetadataList::new(),
            details: vec![],
            warnings: vec![],
        };
        let mut cells = NativeArray::zeros(dtype, &[n_frames * stride]);
        let size = dtype.size();
        let target = cells.values_mut().as_bytes_mut();
        target.fill(POISON);
        let frames = frames.values().as_bytes().chunks_exact(frame_len * size);
        for (i, frame) in frames.enumerate() {
            if is_present(&info, i as u64) {
                target[i * stride * size..][..frame.len()].copy_from_slice(frame);
            }
        }
        Ok(MemorySource { info, frame_len, gap: options.gap, cells, format: options.format })
    }
}

fn is_present(info: &SourceInfo, frame: u64) -> bool {
    frame < info.n_frames
        && match &info.presence {
            Presence::All => true,
            Presence::Ranges(ranges) => ranges.iter().any(|range| range.contains(&frame)),
        }
}

impl DataSource for MemorySource {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
        Ok(Box::new(Reader { source: self, scratch: Scratch::new(), sparse: CsrScratch::new() }))
    }

    fn format(&self) -> ArrayFormat {
        self.format
    }
}

struct Reader<'a> {
    source: &'a MemorySource,
    scratch: Scratch,
    sparse: CsrScratch,
}

impl Reader<'_> {
    fn dense<'s>(
        source: &'s MemorySource,
        scratch: &'s mut Scratch,
        frames: FrameIndices<'_>,
        sig: &SigSlice,
    ) -> Result<DenseTile<'s>> {
        let MemorySource { info, frame_len, gap, cells, .. } = source;
        if let Some(frame) = frames.iter().find(|&frame| !is_present(info, frame)) {
            return Err(Error::invalid(format!(
                "the source of {} frames has no such",
                info.n_frames
            ))
            .with_frame(frame));
        }
        let end = sig.origin().iter().zip(sig.shape()).map(|(o, s)| o + s);
        if sig.origin().len() != info.sig_shape.len()
            || end.zip(&info.sig_shape).any(|(end, &sig)| end > sig)
        {
            return Err(Error::invalid(format!(
                "slice {sig:?} does not fit frames of shape {:?}",
                info.sig_shape
            )));
        }
        let dtype = cells.dtype();
        let (size, stride) = (dtype.size(), frame_len + gap);
        let bytes = cells.values().as_bytes();
        let start_of = |frame: u64| frame as usize * stride;
        if let (true, FrameIndices::Run(run), Some(cells)) = (info.lends, &frames, sig.linear()) {
            let bytes = &bytes[(start_of(run.start) + cells.start) * size..];
            let frames = TileFrames::from_bytes(dtype, bytes, frames.len(), sig.len(), stride)?;
            return Ok(DenseTile::borrowed(frames));
        }
        let (depth, stride) = (frames.len(), sig.len() + gap);
        let len_bytes = depth * stride * size;
        let out = scratch.prepare(len_bytes)?;
        out.fill(POISON);
        for (frame, out) in frames.iter().zip(out.chunks_exact_mut(stride * size)) {
            let mut place = 0;
            for run in sig.runs(&info.sig_shape) {
                let run = (start_of(frame) + run.start) * size..(start_of(frame) + run.end) * size;
                out[place..place + run.len()].copy_from_slice(&bytes[run.clone()]);
                place += run.len();
            }
        }
        let bytes = &scratch.bytes()[..len_bytes];
        let frames = TileFrames::from_bytes(dtype, bytes, depth, sig.len(), stride)?;
        DenseTile::lent(frames, scratch.owner())
    }
}

impl FrameReader for Reader<'_> {
    fn read(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<DenseTile<'_>> {
        Reader::dense(self.source, &mut self.scratch, frames, sig)
    }

    fn read_csr(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<CsrTile<'_>> {
        let dense = Reader::dense(self.source, &mut self.scratch, frames, sig)?;
        sparsify(&dense, &mut self.sparse)
    }

    fn verify(&mut self) -> Result<()> {
        Ok(())
    }
}
