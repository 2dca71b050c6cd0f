//! Any UDF, with its tiles in another array format.

use framefold_core::{
    Accumulator, ArrayFormat, BufferDecl, CsrTile, JobMeta, Merger, Partial, Partition,
    Requirements, Result, RunMeta, Scratch, SourceInfo, Tile, TilePosition, Udf, densify,
};
use std::sync::Arc;

/// A UDF that asks for other array formats than the one it wraps, which gets dense tiles whatever
/// comes. A driver that converts tiles rightly gives both the same results.
#[derive(Clone)]
pub struct InFormat {
    /// What does the work.
    pub udf: Arc<dyn Udf>,
    /// What is asked for, best first.
    pub formats: Vec<ArrayFormat>,
}

impl Udf for InFormat {
    fn name(&self) -> &str {
        self.udf.name()
    }

    fn requirements(&self, source: &SourceInfo) -> Result<Requirements> {
        Ok(Requirements { formats: self.formats.clone(), ..self.udf.requirements(source)? })
    }

    fn buffers(&self, job: &JobMeta) -> Result<Vec<BufferDecl>> {
        self.udf.buffers(job)
    }

    fn accumulator(&self, run: &RunMeta, partition: &Partition) -> Result<Box<dyn Accumulator>> {
        let run = RunMeta { format: ArrayFormat::Dense, ..run.clone() };
        Ok(Box::new(Worker(self.udf.accumulator(&run, partition)?)))
    }

    fn merger(&self, run: &RunMeta) -> Result<Box<dyn Merger>> {
        self.udf.merger(run)
    }
}

struct Worker(Box<dyn Accumulator>);

impl Accumulator for Worker {
    fn process(&mut self, tile: &Tile<'_>) -> Result<()> {
        self.0.process(tile)
    }

    fn process_csr(&mut self, position: &TilePosition<'_>, tile: &CsrTile<'_>) -> Result<()> {
        let mut scratch = Scratch::new();
        let data = densify(tile, &mut scratch)?;
        self.0.process(&Tile { position: position.clone(), data })
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        self.0.finish()
    }
}
