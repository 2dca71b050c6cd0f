//! Whole frames of a data set, a few at a time, in the order of the scan.

use framefold_core::{
    ArrayFormat, CorrectedSlice, CorrectionPlanes, CsrTile, Dataset, DenseTile, Error,
    FrameIndices, FrameReader, Result, Scratch, TilingScheme, correct_tile, interrupt,
};
use std::ops::Range;

/// The size of the frames of a tile as dense pixels.
const TILE_BYTES: usize = 4 << 20;

/// Some frames, as the source has them.
pub(crate) enum AnyTile<'a> {
    Dense(DenseTile<'a>),
    Sparse(CsrTile<'a>),
}

pub(crate) struct Tiles<'d> {
    reader: Box<dyn FrameReader + 'd>,
    scheme: TilingScheme,
    /// Those that are still to be read.
    frames: Range<u64>,
    corrections: Option<(CorrectedSlice, CorrectionPlanes)>,
    scratch: Scratch,
    sparse: bool,
}

impl<'d> Tiles<'d> {
    /// # Errors
    /// `Unsupported` if there is a position without data before one with data;
    /// `InvalidArgument` if none has data.
    pub(crate) fn try_new(dataset: &'d Dataset) -> Result<Self> {
        let source = dataset.source();
        let sig = dataset.shape().sig();
        let frame_bytes = dataset.shape().frame_len() * dataset.pixel_dtype().size();
        let depth = (TILE_BYTES / frame_bytes.max(1)).max(1);
        let scheme = TilingScheme::try_new(sig, sig, depth)?;
        let corrections = match (dataset.corrections(), scheme.slices()) {
            (Some(corrections), [slice]) => Some((
                CorrectedSlice::try_new(corrections, slice, &source.info().base_shape)?,
                CorrectionPlanes::try_new(corrections, dataset.pixel_dtype())?,
            )),
            _ => None,
        };
        Ok(Tiles {
            reader: source.reader()?,
            scheme,
            frames: frames(dataset)?,
            sparse: source.format() == ArrayFormat::Csr && corrections.is_none(),
            corrections,
            scratch: Scratch::new(),
        })
    }

    /// Calls `work` with the next tile, after which all that it saw was confirmed to be in the
    /// file; false at the end.
    pub(crate) fn next(
        &mut self,
        work: &mut dyn FnMut(&AnyTile<'_>) -> Result<()>,
    ) -> Result<bool> {
        let [slice] = self.scheme.slices() else {
            return Err(Error::bug("whole frames were cut"));
        };
        let Range { start, end } = self.frames;
        let depth = u64::try_from(self.scheme.depth()).unwrap_or(u64::MAX);
        let run = start..end.min(start.saturating_add(depth));
        if run.is_empty() {
            return Ok(false);
        }
        interrupt::check()?;
        self.frames.start = run.end;
        let frames = FrameIndices::Run(run);
        if self.sparse {
            work(&AnyTile::Sparse(self.reader.read_csr(frames, slice)?))?;
        } else {
            let tile = self.reader.read(frames, slice)?;
            work(&AnyTile::Dense(match &self.corrections {
                Some((slice, planes)) => correct_tile(&tile, slice, planes, &mut self.scratch)?,
                None => tile,
            }))?;
        }
        self.reader.verify()?;
        Ok(true)
    }
}

/// The frames of all positions, which have to begin at the first one and to have no gaps.
fn frames(dataset: &Dataset) -> Result<Range<u64>> {
    let mut n_positions = 0;
    for positions in dataset.positions_with_data() {
        if positions.start > n_positions {
            return Err(gap(n_positions));
        }
        n_positions = positions.end;
    }
    if n_positions == 0 {
        let error = Error::invalid("no scan position has data");
        return Err(error.with_hint("check nav_shape and sync_offset"));
    }
    let first = dataset.frame_at(0).ok_or_else(|| Error::bug("position 0 has no frame"))?;
    let n = u64::try_from(n_positions).unwrap_or(u64::MAX);
    Ok(first..first.saturating_add(n))
}

fn gap(position: usize) -> Error {
    Error::unsupported(format!(
        "scan position {position} has no data, which raw_csr can say of positions at the end only"
    ))
    .with_hint(match position {
        0 => "leave sync_offset out, and give it when you open the result",
        _ => "add the missing file, or choose a nav_shape that ends before it",
    })
}
