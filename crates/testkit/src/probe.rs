//! A UDF that watches its driver.

use framefold_core::{
    Accumulator, Array, BufferDecl, BufferKind, DType, Error, JobMeta, Merger, NativeArray,
    Partial, Partition, Requirements, Result, RunMeta, SourceInfo, Tile, TilingScheme, Udf,
};
use std::sync::Arc;

/// Counts how often each cell of each frame was processed: the buffer `count` (nav, extra shape
/// of a frame, int64). A driver that keeps its promises makes every count 1 where there is data.
#[derive(Clone, Debug, Default)]
pub struct CellCount;

impl Udf for CellCount {
    fn name(&self) -> &str {
        "cell_count"
    }

    fn requirements(&self, _source: &SourceInfo) -> Result<Requirements> {
        Ok(Requirements::native_tiles())
    }

    fn buffers(&self, job: &JobMeta) -> Result<Vec<BufferDecl>> {
        let decl = BufferDecl::new("count", BufferKind::Nav, DType::I64);
        Ok(vec![decl.with_extra_shape(job.shape.sig())])
    }

    fn accumulator(&self, run: &RunMeta, partition: &Partition) -> Result<Box<dyn Accumulator>> {
        let frame_len = run.job.shape.frame_len();
        let counts = vec![0; partition.n_frames() * frame_len];
        let tiling = Arc::clone(&run.tiling);
        let next = vec![0; tiling.slices().len()];
        Ok(Box::new(Worker { tiling, counts, frame_len, next, first: partition.frames.start }))
    }

    fn merger(&self, run: &RunMeta) -> Result<Box<dyn Merger>> {
        let shape = [&[run.job.n_selected()], run.job.shape.sig()].concat();
        let frame_len = run.job.shape.frame_len();
        Ok(Box::new(Merged { counts: NativeArray::zeros(DType::I64, &shape), frame_len, next: 0 }))
    }
}

struct Worker {
    tiling: Arc<TilingScheme>,
    counts: Vec<i64>,
    frame_len: usize,
    /// The next frame that each slice must show.
    next: Vec<usize>,
    first: usize,
}

impl Accumulator for Worker {
    fn process(&mut self, tile: &Tile<'_>) -> Result<()> {
        let place = &tile.position;
        let frames = &place.in_partition;
        let next = &mut self.next[place.sig.index()];
        let shape = (tile.frames().depth(), tile.frames().frame_len());
        if shape != (frames.len(), place.sig.len())
            || place.frames.start != self.first + frames.start
        {
            return Err(Error::bug(format!("a tile of {shape:?} came as {place:?}")));
        }
        if frames.start < *next {
            return Err(Error::bug(format!("{place:?} came after frame {next} of its slice")));
        }
        *next = frames.end;
        for frame in frames.clone() {
            for cell in place.sig.runs(self.tiling.sig_shape()).flatten() {
                self.counts[frame * self.frame_len + cell] += 1;
            }
        }
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        Ok(Partial::new().with("count", NativeArray::try_new(&[self.counts.len()], self.counts)?))
    }
}

struct Merged {
    counts: NativeArray,
    frame_len: usize,
    next: usize,
}

impl Merger for Merged {
    fn merge(&mut self, partition: &Partition, mut partial: Partial) -> Result<()> {
        if partition.frames.start < self.next {
            return Err(Error::bug(format!("{partition:?} was merged out of order")));
        }
        self.next = partition.frames.start;
        let part = partial.take_native("count")?;
        let place = partition.frames.start * self.frame_len..partition.frames.end * self.frame_len;
        let counts = &mut self.counts.as_mut_slice::<i64>()?[place];
        for (count, part) in counts.iter_mut().zip(part.as_slice::<i64>()?) {
            *count += part;
        }
        Ok(())
    }

    fn results(&self) -> Result<Vec<Array>> {
        Ok(vec![self.counts.clone().into()])
    }
}
