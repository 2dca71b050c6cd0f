//! Blocks of scan positions of which frames arrive, or never come.

use framefold_core::{
    Arrival, DType, DataSource, Dataset, FrameReader, NativeArray, Result, SourceInfo,
};
use framefold_io::rescan;
use framefold_stages::Rebin;
use framefold_testkit::{MemoryOptions, MemorySource};
use std::ops::Range;
use std::sync::Arc;

/// The first `arrived` frames are here, and one never comes.
#[derive(Debug)]
struct Arriving {
    frames: MemorySource,
    arrived: u64,
    lost: u64,
}

impl DataSource for Arriving {
    fn info(&self) -> &SourceInfo {
        self.frames.info()
    }

    fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
        self.frames.reader()
    }

    fn arrival(&self, frames: Range<u64>) -> Arrival {
        if frames.contains(&self.lost) {
            Arrival::Never
        } else if frames.end <= self.arrived {
            Arrival::Here
        } else {
            Arrival::NotYet
        }
    }
}

/// Blocks of 2 × 2 positions of a scan of 4 × 11: two rows of five, and a column that is left out.
fn blocks(arrived: u64, lost: u64) -> Arc<dyn DataSource> {
    let frames = NativeArray::zeros(DType::U8, &[44, 1]);
    let frames = MemorySource::try_new(frames, MemoryOptions::default()).unwrap();
    let source = Arc::new(Arriving { frames, arrived, lost });
    let dataset = Dataset::try_new(source, Some(&[4, 11]), 0).unwrap();
    let rebin = Rebin::parse("rebin 2", &[4, 11]).unwrap().unwrap();
    let blocks = rescan(dataset, &rebin.axes(), |dataset, known| rebin.source(dataset, known));
    blocks.unwrap().source().clone()
}

#[test]
fn blocks_lack_what_never_comes_of_their_own_frames_alone() {
    use Arrival::{Here, Never, NotYet};
    // Frame 6 is in block 3, frame 10 in none.
    for (lost, lacking) in [(6, Some(3)), (10, None), (43, None), (31, Some(9))] {
        let blocks = blocks(44, lost);
        for start in 0..10 {
            for end in start + 1..=10 {
                let lacks = lacking.is_some_and(|block| (start..end).contains(&block));
                let expected = if lacks { Never } else { Here };
                assert_eq!(blocks.arrival(start..end), expected, "{lost}: {start} to {end}");
            }
        }
    }
    // Of block 1, the frames 2, 3 and 13 are here, and frame 14 is not yet.
    let blocks = blocks(14, 10);
    let each = |block| blocks.arrival(block..block + 1);
    assert_eq!([each(0), each(1), each(4)], [Here, NotYet, NotYet]);
    assert_eq!(blocks.arrival(0..2), NotYet);
}
