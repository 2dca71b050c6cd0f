//! Sets of which blocks were lost, written twice, or cut while they were recorded.

#![expect(clippy::single_range_in_vec_init, reason = "lists of ranges, some of one")]

use crate::k2is::round_trip::check;
use crate::k2is::writer::{BLOCK, Set, save};
use framefold_core::{Dataset, ErrorKind, FrameIndices, Presence, TilingScheme};
use framefold_io::{Backend, OpenOptions, open};
use std::ops::Range;
use std::path::PathBuf;

const N_FRAMES: usize = 5;

/// A set whose sector files are changed and written again.
struct Recorded {
    _dir: tempfile::TempDir,
    gtg: PathBuf,
    paths: Vec<PathBuf>,
    /// The files as they were first.
    whole: Vec<Vec<u8>>,
}

impl Recorded {
    fn new(n_idle: usize) -> Self {
        let set = Set::new(N_FRAMES, n_idle, Some([1, 2]));
        let dir = tempfile::tempdir().unwrap();
        let (gtg, paths) = save(&set, dir.path());
        let whole = paths.iter().map(|path| std::fs::read(path).unwrap()).collect();
        Recorded { _dir: dir, gtg, paths, whole }
    }

    /// Changes the blocks of some sectors for as long as `look` takes.
    fn with(&self, sectors: &[usize], change: impl Fn(&mut Vec<Vec<u8>>), look: impl Fn(&Dataset)) {
        for &index in sectors {
            let mut blocks: Vec<_> = self.whole[index].chunks(BLOCK).map(<[u8]>::to_vec).collect();
            change(&mut blocks);
            std::fs::write(&self.paths[index], blocks.concat()).unwrap();
        }
        for backend in [Backend::Mmap, Backend::Buffered] {
            let options = OpenOptions { backend, ..OpenOptions::default() };
            look(&open(&self.gtg, &options).unwrap());
        }
        for &index in sectors {
            std::fs::write(&self.paths[index], &self.whole[index]).unwrap();
        }
    }
}

fn present(dataset: &Dataset) -> Vec<Range<u64>> {
    let info = dataset.source().info();
    match &info.presence {
        Presence::All => vec![0..info.n_frames],
        Presence::Ranges(ranges) => ranges.clone(),
    }
}

/// Checks which frames are there, and some of the pixels of each of them, in all sectors.
fn expect(dataset: &Dataset, frames: &[Range<u64>]) {
    assert_eq!(present(dataset), frames, "{:?}", dataset.source().info().warnings);
    let scheme = TilingScheme::try_new(&[1860, 2048], &[930, 16], 1).unwrap();
    let frames: Vec<u64> = frames.iter().cloned().flatten().collect();
    for slice in scheme.slices().iter().step_by(23) {
        check(dataset.source().as_ref(), &FrameIndices::List(&frames), slice);
    }
}

fn warnings(dataset: &Dataset) -> String {
    dataset.source().info().warnings.join("; ")
}

#[test]
fn frames_with_lost_blocks_are_missing() {
    let recorded = Recorded::new(0);
    // A block, and blocks of several frames; block 32 begins frame 1.
    let lose =
        |range: Range<usize>| move |blocks: &mut Vec<Vec<u8>>| drop(blocks.drain(range.clone()));
    recorded.with(&[4], lose(40..41), |dataset| {
        expect(dataset, &[0..1, 2..5]);
        assert!(warnings(dataset).contains("blocks of 1 of 5 frames were lost (1)"));
    });
    recorded.with(&[4], lose(40..110), |dataset| {
        expect(dataset, &[0..1, 4..5]);
        assert!(warnings(dataset).contains("3 of 5 frames were lost (1 to 3)"));
    });
    // In several sectors; whole frames; the first block, and the last one.
    recorded.with(&[0, 3, 7], lose(63..65), |dataset| expect(dataset, &[0..1, 3..5]));
    recorded.with(&[0, 1, 2, 3, 4, 5, 6, 7], lose(64..96), |d| expect(d, &[0..2, 3..5]));
    recorded.with(&[6], lose(159..160), |dataset| expect(dataset, &[0..4]));
    recorded.with(&[6], lose(9..10), |dataset| expect(dataset, &[1..5]));
    let one_by_one = |blocks: &mut Vec<Vec<u8>>| {
        for lost in [130, 35, 34] {
            blocks.remove(lost);
        }
    };
    recorded.with(&[2], one_by_one, |dataset| expect(dataset, &[0..1, 2..4]));
}

#[test]
fn what_is_cut_within_a_block_is_not_used() {
    let recorded = Recorded::new(0);
    // Frame 1 has blocks 32 to 63.
    let cut = |blocks: &mut Vec<Vec<u8>>| drop(blocks[45].drain(100..5100));
    recorded.with(&[5], cut, |dataset| expect(dataset, &[0..1, 2..5]));
    // The header, too.
    let cut = |blocks: &mut Vec<Vec<u8>>| drop(blocks[64].drain(..50));
    recorded.with(&[5], cut, |dataset| expect(dataset, &[0..1, 3..5]));
    let insert = |blocks: &mut Vec<Vec<u8>>| blocks[100].extend([0xFF; 77]);
    recorded.with(&[5], insert, |dataset| expect(dataset, &[0..3, 4..5]));
    // Nothing but rubbish at the end.
    let rubbish = |blocks: &mut Vec<Vec<u8>>| {
        blocks[100..].iter_mut().for_each(|block| block.fill(0xFF));
    };
    recorded.with(&[5], rubbish, |dataset| {
        expect(dataset, &[0..3]);
        assert!(warnings(dataset).contains("left out"), "{}", warnings(dataset));
    });
}

#[test]
fn blocks_that_are_there_twice_are_used_once() {
    let recorded = Recorded::new(0);
    for range in [40..41, 40..80, 0..64, 96..97] {
        let repeat = |blocks: &mut Vec<Vec<u8>>| {
            let copy = blocks[range.clone()].to_vec();
            blocks.splice(range.end..range.end, copy);
        };
        recorded.with(&[1], repeat, |dataset| {
            expect(dataset, &[0..5]);
            assert!(warnings(dataset).contains("twice"), "{}", warnings(dataset));
        });
    }
}

#[test]
fn losses_that_cancel_out_are_noticed_when_they_are_read() {
    let recorded = Recorded::new(0);
    let shift = |blocks: &mut Vec<Vec<u8>>| {
        let twice = blocks[90].clone();
        blocks.insert(90, twice);
        blocks.remove(40);
    };
    recorded.with(&[4], shift, |dataset| {
        assert_eq!(present(dataset), [0..5]);
        let scheme = TilingScheme::try_new(&[1860, 2048], &[930, 256], 1).unwrap();
        let mut reader = dataset.source().reader().unwrap();
        for frame in 0..5 {
            let of_sector = scheme.slices().iter().filter(|slice| slice.origin()[1] == 4 * 256);
            let read = of_sector.into_iter().try_for_each(|slice| {
                reader.read(FrameIndices::Run(frame..frame + 1), slice).map(drop)
            });
            match read {
                Ok(()) => assert!([0, 3, 4].contains(&frame), "{frame}"),
                Err(error) => {
                    assert!([1, 2].contains(&frame), "{frame}: {error}");
                    assert_eq!((error.kind(), error.frame()), (ErrorKind::BadFile, Some(frame)));
                    assert!(error.to_string().contains("lost"), "{error}");
                }
            }
        }
    });
}

#[test]
fn numbers_that_begin_anew_are_counted_on() {
    let recorded = Recorded::new(0);
    let anew = |blocks: &mut Vec<Vec<u8>>| {
        for (i, block) in blocks[96..].iter_mut().enumerate() {
            block[16..20].copy_from_slice(&(i as u32).to_be_bytes());
        }
    };
    recorded.with(&[0, 1, 2, 3, 4, 5, 6, 7], anew, |dataset| {
        expect(dataset, &[0..5]);
        assert!(warnings(dataset).contains("jump"), "{}", warnings(dataset));
    });
    // In the middle of a frame, where blocks were lost as well: it is not known how many.
    let odd = |blocks: &mut Vec<Vec<u8>>| {
        anew(blocks);
        drop(blocks.drain(90..100));
    };
    recorded.with(&[0, 1, 2, 3, 4, 5, 6, 7], odd, |dataset| {
        expect(dataset, &[0..2]);
        assert!(warnings(dataset).contains("left out"), "{}", warnings(dataset));
    });
}

#[test]
fn a_loss_before_the_shutter_opens_is_pointed_out() {
    let recorded = Recorded::new(3);
    // Of all sectors, the block that would have the flag.
    let lose = |blocks: &mut Vec<Vec<u8>>| drop(blocks.remove(95));
    recorded.with(&[0, 1, 2, 3, 4, 5, 6, 7], lose, |dataset| {
        expect(dataset, &[0..2, 3..5]);
        assert_eq!(dataset.sync_offset(), 2);
        assert!(warnings(dataset).contains("may begin earlier"), "{}", warnings(dataset));
    });
    // Others tell when the shutter opened.
    let lose = |blocks: &mut Vec<Vec<u8>>| drop(blocks.remove(127));
    recorded.with(&[0, 5], lose, |dataset| {
        expect(dataset, &[0..3, 4..5]);
        assert_eq!(dataset.sync_offset(), 2);
        assert!(!warnings(dataset).contains("may begin earlier"), "{}", warnings(dataset));
    });
    // Elsewhere, it does not matter.
    let lose = |blocks: &mut Vec<Vec<u8>>| drop(blocks.remove(5));
    recorded.with(&[2], lose, |dataset| {
        expect(dataset, &[1..5]);
        assert_eq!(dataset.sync_offset(), 2);
        assert!(!warnings(dataset).contains("may begin earlier"), "{}", warnings(dataset));
    });
}
