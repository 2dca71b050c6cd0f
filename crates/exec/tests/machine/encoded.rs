//! Chunks that a simulated device decodes: their bytes are inverted.

use crate::differential::{EXECUTORS, bits, run_on};
use crate::staged::{Fetched, Kind};
use framefold_core::{
    DType, DataSource, Dataset, DenseTile, Encoding, Error, FrameIndices, FrameReader, NativeArray,
    Result, Roi, SigSlice, SourceInfo,
};
use framefold_exec::PlanOptions;
use framefold_kernels::SumSig;
use framefold_testkit::{MemoryOptions, MemorySource, Values, random_values};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

const SIG: [usize; 2] = [64, 64];
const N_FRAMES: usize = 3000;

/// Every hundredth frame is stored in another way.
#[derive(Debug)]
struct Stored {
    inner: MemorySource,
    encoding: Encoding,
    together: usize,
    /// Frames that were given as they are stored.
    n_given: Arc<AtomicUsize>,
    /// One that cannot be read.
    bad: Option<u64>,
}

impl DataSource for Stored {
    fn info(&self) -> &SourceInfo {
        self.inner.info()
    }

    fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
        Ok(Box::new(StoredReader { source: self, inner: self.inner.reader()? }))
    }

    fn frames_together(&self) -> usize {
        self.together
    }

    fn encoding(&self) -> Option<Encoding> {
        Some(self.encoding)
    }
}

struct StoredReader<'s> {
    source: &'s Stored,
    inner: Box<dyn FrameReader + 's>,
}

impl FrameReader for StoredReader<'_> {
    fn read(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<DenseTile<'_>> {
        if let Some(bad) = self.source.bad.filter(|bad| frames.iter().any(|frame| frame == *bad)) {
            return Err(Error::bad_file("there is a mistake").with_frame(bad));
        }
        self.inner.read(frames, sig)
    }

    fn read_encoded(&mut self, frames: FrameIndices<'_>, out: &mut [u8]) -> Result<Option<usize>> {
        if frames.iter().any(|frame| frame % 100 == 99) {
            out.fill(0x11);
            return Ok(None);
        }
        self.source.n_given.fetch_add(frames.len(), Ordering::SeqCst);
        let sig = SigSlice::try_within(vec![0, 0], SIG.to_vec(), &SIG)?;
        let tile = self.inner.read(frames, &sig)?;
        for (to, from) in out.iter_mut().zip(tile.frames().as_bytes()) {
            *to = !from;
        }
        Ok(Some(out.len()))
    }

    fn verify(&mut self) -> Result<()> {
        self.inner.verify()
    }
}

fn stored(chunk_frames: usize, together: usize, bad: Option<u64>) -> (Dataset, Arc<AtomicUsize>) {
    let values = random_values(DType::U16, N_FRAMES * SIG[0] * SIG[1], Values::Full, 5);
    let frames = NativeArray::try_new(&[N_FRAMES, SIG[0], SIG[1]], values).unwrap();
    let inner = MemorySource::try_new(frames, MemoryOptions::default()).unwrap();
    let encoding = Encoding { element_bytes: 2, block_bytes: 8192, chunk_frames };
    let n_given = Arc::default();
    let source = Stored { inner, encoding, together, n_given: Arc::clone(&n_given), bad };
    (Dataset::try_new(Arc::new(source), None, 0).unwrap(), n_given)
}

fn decodes(block_bytes: usize, damaged: Option<usize>) -> Kind {
    Kind { n_readers: 3, block_bytes, damaged, ..Kind::default() }
}

fn options(n_partitions: usize, depth: usize) -> PlanOptions {
    let num_partitions = Some(n_partitions);
    PlanOptions { num_partitions, tile_depth: Some(depth), ..PlanOptions::default() }
}

#[test]
fn the_device_gets_what_is_stored() {
    let roi = Arc::new(Roi::try_new((0..N_FRAMES).map(|frame| frame % 7 != 1).collect()).unwrap());
    for (chunk_frames, depth) in [(1, 3000), (1, 50), (10, 1200)] {
        let (dataset, n_given) = stored(chunk_frames, chunk_frames, None);
        for roi in [None, Some(&roi)] {
            let options = options(2, depth);
            let plain = vec![Arc::new(SumSig) as _];
            let expected = run_on(EXECUTORS[0], &dataset, plain, roi.cloned(), &options).unwrap();
            for executor in EXECUTORS {
                n_given.store(0, Ordering::SeqCst);
                let udf = Fetched::of(Arc::new(SumSig), decodes(8192, None));
                let found = run_on(executor, &dataset, vec![udf], roi.cloned(), &options).unwrap();
                assert_eq!(bits(&found).unwrap(), bits(&expected).unwrap());
                // Of pieces of 512 frames none is without frame 99, but the last one.
                let given = n_given.load(Ordering::SeqCst);
                let some = if depth == 50 { 1000..N_FRAMES } else { 0..100 };
                assert!(some.contains(&given), "{chunk_frames} {depth} {given}");
            }
        }
    }
}

#[test]
fn what_the_device_cannot_decode_is_decoded_here() {
    let (dataset, n_given) = stored(1, 1, None);
    let options = PlanOptions { tile_shape: Some(vec![32, 64]), ..options(2, 50) };
    let udf = Fetched::of(Arc::new(SumSig), decodes(8192, None));
    run_on(EXECUTORS[0], &dataset, vec![udf], None, &options).unwrap();
    let udf = Fetched::of(Arc::new(SumSig), decodes(4096, None));
    run_on(EXECUTORS[0], &dataset, vec![udf], None, &self::options(2, 50)).unwrap();
    assert_eq!(n_given.load(Ordering::SeqCst), 0);
}

#[test]
fn pieces_that_are_no_whole_chunks_are_decoded_here() {
    // Tiles of 512 and 48 frames: the chunks of the latter would have no number.
    for (chunk_frames, given) in [(3, false), (4, true)] {
        let (dataset, n_given) = stored(chunk_frames, 1, None);
        let udf = Fetched::of(Arc::new(SumSig), decodes(8192, None));
        run_on(EXECUTORS[0], &dataset, vec![udf], None, &options(1, 560)).unwrap();
        assert_eq!(n_given.load(Ordering::SeqCst) > 0, given);
    }
}

#[test]
fn a_damaged_chunk_is_the_error_of_the_host() {
    for (bad, message) in [(Some(123), "there is a mistake"), (None, "but the host can")] {
        let (dataset, _) = stored(1, 1, bad);
        for executor in EXECUTORS {
            let udf = Fetched::of(Arc::new(SumSig), decodes(8192, Some(123)));
            let error = run_on(executor, &dataset, vec![udf], None, &options(2, 50)).unwrap_err();
            assert!(error.message().contains(message), "{error}");
            assert_eq!(error.frame(), Some(123), "{error}");
        }
    }
}
