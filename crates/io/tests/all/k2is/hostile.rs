//! Sets that are cut, incomplete, or have lost blocks.

use crate::k2is::writer::{BLOCK, Set, save};
use framefold_core::{Dataset, ErrorKind, FrameIndices, Presence, Result, TilingScheme};
use framefold_io::{Backend, OpenOptions, detect, open, open_as};
use std::path::{Path, PathBuf};

fn small_set() -> (tempfile::TempDir, PathBuf, Vec<PathBuf>) {
    let dir = tempfile::tempdir().unwrap();
    let (gtg, sectors) = save(&Set::new(3, 1, Some([1, 2])), dir.path());
    (dir, gtg, sectors)
}

fn change(path: &Path, change: impl FnOnce(&mut Vec<u8>)) {
    let mut bytes = std::fs::read(path).unwrap();
    change(&mut bytes);
    std::fs::write(path, bytes).unwrap();
}

fn set_len(path: &Path, len: usize) {
    std::fs::OpenOptions::new().write(true).open(path).unwrap().set_len(len as u64).unwrap();
}

/// Reads every frame, in tiles that are single blocks.
fn read_all(dataset: &Dataset) -> Result<()> {
    let scheme = TilingScheme::try_new(&[1860, 2048], &[930, 16], 1).unwrap();
    let mut reader = dataset.source().reader()?;
    for slice in scheme.slices() {
        reader.read(FrameIndices::Run(0..dataset.source().info().n_frames), slice)?;
    }
    reader.verify()
}

#[test]
fn a_sector_cut_anywhere_makes_the_set_shorter() {
    let (_dir, gtg, sectors) = small_set();
    let frame = 32 * BLOCK;
    // From long to short, as the file is cut in place.
    let mut lengths: Vec<usize> = (0..3 * frame).step_by(37 * 997).collect();
    lengths.extend([0, 1, 39, 40, BLOCK - 1, BLOCK, BLOCK + 39, BLOCK + 40, frame, 2 * frame]);
    lengths.extend([2 * frame - 1, 3 * frame - 1]);
    lengths.sort_unstable();
    for len in lengths.into_iter().rev() {
        set_len(&sectors[5], len);
        match open_as("k2is", &gtg, &OpenOptions::default()) {
            Ok(dataset) => {
                assert_eq!(dataset.source().info().n_frames, (len / frame) as u64);
                read_all(&dataset).unwrap();
            }
            Err(error) => {
                assert!(len < frame, "{len}: {error}");
                assert_eq!(error.kind(), ErrorKind::BadFile, "{len}: {error}");
                assert_eq!(error.path(), Some(sectors[5].as_path()), "{len}: {error}");
            }
        }
    }
}

#[test]
fn the_gtg_file_cut_at_every_byte() {
    let (_dir, gtg, _) = small_set();
    let whole = std::fs::read(&gtg).unwrap();
    for len in 0..whole.len() - 8 {
        std::fs::write(&gtg, &whole[..len]).unwrap();
        let error = open_as("k2is", &gtg, &OpenOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadFile, "{len}: {error}");
        assert_eq!(error.path(), Some(gtg.as_path()), "{len}: {error}");
    }
}

#[test]
fn every_byte_of_a_header_may_lie() {
    let (_dir, gtg, sectors) = small_set();
    let write = |at: usize, value: u8| {
        use std::os::unix::fs::FileExt;
        let file = std::fs::OpenOptions::new().write(true).read(true).open(&sectors[3]).unwrap();
        let mut before = [0];
        file.read_exact_at(&mut before, at as u64).unwrap();
        file.write_all_at(&[value], at as u64).unwrap();
        before[0]
    };
    let scheme = TilingScheme::try_new(&[1860, 2048], &[930, 256], 1).unwrap();
    for at in 0..40 {
        for value in [0, 0x7F, 0xFF] {
            let before = write(at, value);
            if let Ok(dataset) = open_as("k2is", &gtg, &OpenOptions::default()) {
                let mut reader = dataset.source().reader().unwrap();
                let first = match &dataset.source().info().presence {
                    Presence::All => 0,
                    Presence::Ranges(ranges) => ranges[0].start,
                };
                let frame = FrameIndices::Run(first..first + 1);
                assert!(reader.read(frame, &scheme.slices()[3]).is_ok());
            }
            write(at, before);
        }
    }
    let whole = std::fs::read(&gtg).unwrap();
    for at in 0..whole.len() {
        for value in [0, 0x7F, 0xFF] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            std::fs::write(&gtg, bytes).unwrap();
            // Some of it is not looked at.
            let _ = open_as("k2is", &gtg, &OpenOptions::default());
        }
    }
}

#[test]
fn sets_that_are_not_complete() {
    let (dir, gtg, sectors) = small_set();
    let stray = dir.path().join("Capture1_9.bin");
    std::fs::copy(&sectors[0], &stray).unwrap();
    let error = open_as("k2is", &gtg, &OpenOptions::default()).unwrap_err();
    assert!(error.to_string().contains("9 .bin files"), "{error}");
    std::fs::remove_file(&stray).unwrap();
    // Others beside it do no harm.
    std::fs::copy(&sectors[0], dir.path().join("Capture11_1.bin")).unwrap();
    std::fs::copy(&sectors[0], dir.path().join("Capture1_x1.bin")).unwrap();
    assert!(open(&gtg, &OpenOptions::default()).is_ok());
    std::fs::remove_file(&sectors[2]).unwrap();
    let error = open_as("k2is", &sectors[0], &OpenOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadFile);
    assert!(error.to_string().contains("7 .bin files"), "{error}");
    std::fs::copy(&sectors[0], &sectors[2]).unwrap();
    std::fs::remove_file(&gtg).unwrap();
    let error = open_as("k2is", &sectors[0], &OpenOptions::default()).unwrap_err();
    assert!(error.to_string().contains(".gtg"), "{error}");
    let error = open_as("k2is", &gtg, &OpenOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
}

#[test]
fn sectors_that_do_not_fit_together() {
    let options = OpenOptions::default();
    // Zeros instead of blocks.
    let (_dir, gtg, sectors) = small_set();
    change(&sectors[1], |bytes| bytes.fill(0));
    let error = open(&gtg, &options).unwrap_err();
    assert_eq!(error.path(), Some(sectors[1].as_path()), "{error}");
    assert!(detect(&sectors[1]).is_ok(), "its name and neighbours tell");
    // Another recording, whose blocks are numbered from elsewhere.
    let (_dir, gtg, sectors) = small_set();
    change(&sectors[6], |bytes| {
        let blocks = bytes.chunks_mut(BLOCK).enumerate();
        blocks.for_each(|(i, block)| {
            block[16..20].copy_from_slice(&(900_000 + i as u32).to_be_bytes());
        });
    });
    let error = open(&gtg, &options).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadFile);
    assert!(error.to_string().contains("not from one recording"), "{error}");
    // Frames with other numbers.
    let (_dir, gtg, sectors) = small_set();
    change(&sectors[6], |bytes| bytes.chunks_mut(BLOCK).for_each(|block| block[27] += 1));
    let error = open(&gtg, &options).unwrap_err();
    assert!(error.to_string().contains("lost"), "{error}");
}

#[test]
fn lost_blocks_are_noticed_when_they_are_read() {
    for backend in [Backend::Mmap, Backend::Buffered] {
        let options = OpenOptions { backend, ..OpenOptions::default() };
        // Within the frame in the middle: the header of a block is gone, or a block is of another
        // frame, or at another place.
        let damages: [(usize, u8); 3] = [(0, 0), (27, 99), (29, 32)];
        for (at, value) in damages {
            let (_dir, gtg, sectors) = small_set();
            change(&sectors[4], |bytes| bytes[40 * BLOCK + at] = value);
            let dataset = open(&gtg, &options).unwrap();
            let error = read_all(&dataset).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadFile, "{error}");
            assert_eq!(error.frame(), Some(1), "{error}");
            assert_eq!(error.path(), Some(sectors[4].as_path()), "{error}");
            assert_eq!(error.offset(), Some(40 * BLOCK as u64), "{error}");
        }
    }
}

#[test]
fn a_sector_that_shrinks_after_opening_gives_an_error() {
    for backend in [Backend::Mmap, Backend::Buffered] {
        let (_dir, gtg, sectors) = small_set();
        let options = OpenOptions { backend, ..OpenOptions::default() };
        let dataset = open(&gtg, &options).unwrap();
        set_len(&sectors[2], 5000);
        let error = read_all(&dataset).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadFile, "{error}");
        assert_eq!(error.path(), Some(sectors[2].as_path()), "{error}");
    }
}
