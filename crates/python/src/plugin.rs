//! Functions that others compiled, which may take the interpreter's lock, as those of Cython do.
//!
//! A thread that asks for it when the interpreter ends would be unwound: so the end waits for calls
//! that are under way, and none begins after that.

use crate::ending::{EngineThread, Inside};
use framefold::Result;
use framefold::core::{
    Accumulator, Array, BufferDecl, CsrTile, FinalRows, JobMeta, Merger, Partial, Partition,
    Requirements, RunMeta, SourceInfo, Tile, TilePosition, Udf,
};
use framefold::plugins::PluginUdf;

/// Such a function.
pub(crate) struct Plugin(pub(crate) PluginUdf);

impl Udf for Plugin {
    fn name(&self) -> &str {
        self.0.name()
    }

    fn requirements(&self, source: &SourceInfo) -> Result<Requirements> {
        let _inside = Inside::enter();
        self.0.requirements(source)
    }

    fn buffers(&self, job: &JobMeta) -> Result<Vec<BufferDecl>> {
        let _inside = Inside::enter();
        self.0.buffers(job)
    }

    fn accumulator(&self, run: &RunMeta, partition: &Partition) -> Result<Box<dyn Accumulator>> {
        let thread = EngineThread::new();
        let _inside = Inside::enter();
        let at_work = Some(self.0.accumulator(run, partition)?);
        Ok(Box::new(AtWork { at_work, _thread: thread }))
    }

    fn merger(&self, run: &RunMeta) -> Result<Box<dyn Merger>> {
        let _inside = Inside::enter();
        Ok(Box::new(Merging { merging: Some(self.0.merger(run)?) }))
    }
}

/// The function at work on a partition.
struct AtWork {
    /// Until it is finished.
    at_work: Option<Box<dyn Accumulator>>,
    _thread: EngineThread,
}

impl Accumulator for AtWork {
    fn process(&mut self, tile: &Tile<'_>) -> Result<()> {
        let _inside = Inside::enter();
        self.at_work.as_mut().map_or(Ok(()), |at_work| at_work.process(tile))
    }

    fn process_csr(&mut self, position: &TilePosition<'_>, tile: &CsrTile<'_>) -> Result<()> {
        let _inside = Inside::enter();
        self.at_work.as_mut().map_or(Ok(()), |at_work| at_work.process_csr(position, tile))
    }

    fn finish(mut self: Box<Self>) -> Result<Partial> {
        let _inside = Inside::enter();
        self.at_work.take().map_or_else(|| Ok(Partial::new()), |at_work| at_work.finish())
    }
}

impl Drop for AtWork {
    fn drop(&mut self) {
        if self.at_work.is_some() {
            let _inside = Inside::enter();
            self.at_work = None;
        }
    }
}

/// The function where its results are merged.
struct Merging {
    /// Until this is dropped.
    merging: Option<Box<dyn Merger>>,
}

impl Merger for Merging {
    fn merge(&mut self, partition: &Partition, partial: Partial) -> Result<()> {
        let _inside = Inside::enter();
        self.merging.as_mut().map_or(Ok(()), |merging| merging.merge(partition, partial))
    }

    fn results(&self) -> Result<Vec<Array>> {
        let _inside = Inside::enter();
        self.merging.as_ref().map_or_else(|| Ok(Vec::new()), |merging| merging.results())
    }

    fn final_rows(&self) -> Option<Vec<FinalRows>> {
        let _inside = Inside::enter();
        self.merging.as_ref()?.final_rows()
    }

    fn take_partials(&mut self) -> Result<Option<Vec<Partial>>> {
        let _inside = Inside::enter();
        self.merging.as_mut().map_or(Ok(None), |merging| merging.take_partials())
    }
}

impl Drop for Merging {
    fn drop(&mut self) {
        let _inside = Inside::enter();
        self.merging = None;
    }
}
