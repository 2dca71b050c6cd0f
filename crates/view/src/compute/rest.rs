//! Passes over all of the data make room for what is more urgent.

use super::gate::{Gate, Urgent};
use framefold::core::{
    Accumulator, Array, ArrayFormat, BufferDecl, BufferKind, CsrTile, DType, JobMeta, Merger,
    Method, NativeArray, Partial, Partition, Requirements, RunMeta, SourceInfo, Tile, TilePosition,
    Udf,
};
use framefold::{Cancel, Result};
use std::sync::Arc;
use std::time::Duration;

/// No longer at a time, so that a pass ends while a detector is dragged all the time, too.
const LONGEST: Duration = Duration::from_millis(100);

/// Beside the functions of a pass, has it wait before each partition until what is more urgent is done. Its one
/// result is the number of frames.
pub(crate) struct Rest {
    pub(crate) gate: Arc<Gate>,
    pub(crate) until: Urgent,
    pub(crate) cancel: Cancel,
}

impl Udf for Rest {
    fn name(&self) -> &str {
        "rest"
    }

    fn requirements(&self, _: &SourceInfo) -> Result<Requirements> {
        Ok(Requirements {
            method: Method::Frame,
            formats: vec![ArrayFormat::Dense, ArrayFormat::Csr],
            ..Requirements::native_tiles()
        })
    }

    fn buffers(&self, _: &JobMeta) -> Result<Vec<BufferDecl>> {
        Ok(vec![BufferDecl::new("n_frames", BufferKind::Single, DType::I64)])
    }

    fn accumulator(&self, _: &RunMeta, _: &Partition) -> Result<Box<dyn Accumulator>> {
        self.gate.quiet(self.until, &self.cancel, LONGEST)?;
        Ok(Box::new(Rested))
    }

    fn merger(&self, _: &RunMeta) -> Result<Box<dyn Merger>> {
        Ok(Box::new(Merged { n_frames: 0 }))
    }
}

struct Rested;

impl Accumulator for Rested {
    fn process(&mut self, _: &Tile<'_>) -> Result<()> {
        Ok(())
    }

    fn process_csr(&mut self, _: &TilePosition<'_>, _: &CsrTile<'_>) -> Result<()> {
        Ok(())
    }

    fn finish(self: Box<Self>) -> Result<Partial> {
        Ok(Partial::new())
    }
}

struct Merged {
    n_frames: usize,
}

impl Merger for Merged {
    fn merge(&mut self, partition: &Partition, _: Partial) -> Result<()> {
        self.n_frames += partition.n_frames();
        Ok(())
    }

    fn results(&self) -> Result<Vec<Array>> {
        let n = i64::try_from(self.n_frames).unwrap_or(i64::MAX);
        Ok(vec![NativeArray::try_new(&[1], vec![n])?.into()])
    }
}
