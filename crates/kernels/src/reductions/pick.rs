//! The selected frames themselves.

use crate::dispatch::dispatch_dtype;
use crate::entries::{Pixels, dense_or_sparse, scatter};
use crate::nav::NavRows;
use crate::row::{Look, Reduction};
use framefold_core::{
    Accumulator, BufferDecl, BufferKind, CsrTile, Element, Error, JobMeta, Merger, NativeArray,
    Partial, Partition, Requirements, Result, RunMeta, SourceInfo, Tile, TilePosition,
    TilingScheme, Udf,
};
use std::sync::Arc;

pub(super) const ROW: Reduction = Reduction::new(
    "pick",
    "the selected frames themselves; choose few with a ROI",
    &[INTENSITY],
    |_, _| Ok(Arc::new(Pick::default())),
)
.with_look(Look::Frames);

/// Copies the selected frames: the buffer `intensity` (single, extra shape
/// `(n_selected, *sig)`), in the dtype of the data.
///
/// Meant for a few frames, chosen with a ROI. Frames without data are NaN, or 0 in a dtype
/// without NaN: whether a frame had data, the run's valid mask tells.
#[derive(Clone, Debug)]
pub struct Pick {
    /// The largest result in bytes; more is refused rather than filling the memory by mistake.
    pub max_bytes: u64,
}

impl Default for Pick {
    fn default() -> Self {
        Pick { max_bytes: 1 << 30 }
    }
}

const INTENSITY: &str = "intensity";

impl Pick {
    fn decl(&self, job: &JobMeta) -> Result<BufferDecl> {
        let decl = BufferDecl::new(INTENSITY, BufferKind::Single, job.input_dtype)
            .with_extra_shape(&[&[job.n_selected()], job.shape.sig()].concat());
        let len_bytes = decl.len_bytes(&job.shape, job.n_selected());
        if len_bytes <= self.max_bytes {
            return Ok(decl);
        }
        Err(Error::limit(format!(
            "{} frames take {len_bytes} bytes, more than the limit of {}",
            job.n_selected(),
            self.max_bytes
        ))
        .with_hint("select fewer positions, or run a function that returns less"))
    }
}

impl Udf for Pick {
    fn name(&self) -> &str {
        "pick"
    }

    fn requirements(&self, _source: &SourceInfo) -> Result<Requirements> {
        Ok(Requirements { framewise: true, ..dense_or_sparse() })
    }

    fn buffers(&self, job: &JobMeta) -> Result<Vec<BufferDecl>> {
        Ok(vec![self.decl(job)?])
    }

    fn accumulator(&self, run: &RunMeta, partition: &Partition) -> Result<Box<dyn Accumulator>> {
        self.decl(&run.job)?;
        let shape = [&[partition.n_frames()], run.job.shape.sig()].concat();
        let frames = NativeArray::try_zeros(run.job.input_dtype, &shape)?;
        Ok(Box::new(Worker { tiling: Arc::clone(&run.tiling), pixels: Pixels::default(), frames }))
    }

    fn merger(&self, run: &RunMeta) -> Result<Box<dyn Merger>> {
        self.decl(&run.job)?;
        let job = &run.job;
        Ok(Box::new(NavRows::new(INTENSITY, job.input_dtype, run, job.shape.sig())?))
    }
}

struct Worker {
    tiling: Arc<TilingScheme>,
    pixels: Pixels,
    /// All zero before they are picked.
    frames: NativeArray,
}

impl Worker {
    fn put<T: Element>(&mut self, position: &TilePosition<'_>, tile: &CsrTile<'_>) -> Result<()> {
        let sig_shape = self.tiling.sig_shape();
        let entries = self.pixels.entries::<T>(tile, position.sig, sig_shape)?;
        let frame_len: usize = sig_shape.iter().product();
        let place = &position.in_partition;
        let found = self.frames.dtype();
        let Some(frames) = T::values_mut(self.frames.values_mut()) else {
            return Err(Error::bug(format!("a sparse tile of {} was picked as {found}", T::DTYPE)));
        };
        let frames = &mut frames[place.start * frame_len..place.end * frame_len];
        for (frame, entries) in frames.chunks_exact_mut(frame_len).zip(entries.by_frame()) {
            scatter(frame, entries, |pixel, value| *pixel = value)?;
        }
        Ok(())
    }
}

impl Accumulator for Worker {
    fn process(&mut self, tile: &Tile<'_>) -> Result<()> {
        let cells = tile.frames();
        if cells.dtype() != self.frames.dtype() {
            return Err(Error::bug(format!("a tile of {} was picked", cells.dtype())));
        }
        // Pixels are copied as bytes: their dtype makes no difference.
        let size = cells.dtype().size();
        let sig_shape = self.tiling.sig_shape();
        let frame_bytes = sig_shape.iter().product::<usize>() * size;
        let place = &tile.position.in_partition;
        let target = self.frames.values_mut().as_bytes_mut();
        let target = &mut target[place.start * frame_bytes..place.end * frame_bytes];
        let source = cells.as_bytes().chunks(cells.stride() * size);
        for (target, source) in target.chunks_exact_mut(frame_bytes).zip(source) {
            let mut rest = source;
            for run in tile.position.sig.runs(sig_shape) {
                let (here, later) = rest.split_at(run.len() * size);
                target[run.start * size..run.end * size].copy_from_slice(here);
                rest = later;
            }
        }
        Ok(())
    }

    fn process_csr(&mut self, position: &TilePosition<'_>, tile: &CsrTile<'_>) -> Result<()> {
        dispatch_dtype!(tile.dtype(), T => self.put::<T>(position, tile))
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        Ok(Partial::new().with(INTENSITY, self.frames))
    }
}
