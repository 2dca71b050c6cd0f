//! A source that takes its time.

use framefold::Result;
use framefold::core::{DataSource, DenseTile, FrameIndices, FrameReader, SigSlice, SourceInfo};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

/// Waits for each frame, and counts them.
#[derive(Debug)]
pub struct Slow {
    pub source: Arc<dyn DataSource>,
    pub for_frame: Duration,
    /// How many frames were asked for.
    pub n_read: Arc<AtomicUsize>,
}

impl DataSource for Slow {
    fn info(&self) -> &SourceInfo {
        self.source.info()
    }

    fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
        Ok(Box::new(Reader { reader: self.source.reader()?, slow: self }))
    }
}

struct Reader<'a> {
    reader: Box<dyn FrameReader + 'a>,
    slow: &'a Slow,
}

impl FrameReader for Reader<'_> {
    fn read(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<DenseTile<'_>> {
        let n = u32::try_from(frames.len()).unwrap_or(u32::MAX);
        self.slow.n_read.fetch_add(frames.len(), Ordering::SeqCst);
        std::thread::sleep(self.slow.for_frame * n);
        self.reader.read(frames, sig)
    }

    fn verify(&mut self) -> Result<()> {
        self.reader.verify()
    }
}
