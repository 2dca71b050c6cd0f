//! Arrays that are cut, that lie, or that change while they are read.

use crate::raw_csr::support::{Sparse, integers, read_frames, stored, whole};
use framefold_core::{DataSource, Dataset, ErrorKind, FrameIndices, Result};
use framefold_io::{Backend, OpenOptions, detect, open_as};
use proptest::prelude::*;
use std::path::Path;

const BACKENDS: [Backend; 2] = [Backend::Mmap, Backend::Buffered];

fn open(path: &Path, backend: Backend) -> Result<Dataset> {
    open_as("raw_csr", path, &OpenOptions { backend, ..OpenOptions::default() })
}

/// Writes, opens and reads; the error has to name the file `name` and hold `words`.
fn assert_bad(sparse: &Sparse, name: &str, words: &[&str]) -> framefold_core::Error {
    let dir = tempfile::tempdir().unwrap();
    let path = sparse.write(dir.path());
    let mut last = None;
    for backend in BACKENDS {
        let read = |dataset: Dataset| read_frames(dataset.source().as_ref());
        let error = open(&path, backend).and_then(read).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadFile, "{error}");
        assert_eq!(error.path(), Some(dir.path().join(name).as_path()), "{error}");
        assert_eq!(error.format(), Some("raw_csr"), "{error}");
        for word in words {
            assert!(error.to_string().contains(word), "no '{word}' in {error}");
        }
        last = Some(error);
    }
    last.unwrap()
}

#[test]
fn arrays_cut_at_every_byte() {
    let dir = tempfile::tempdir().unwrap();
    let path = Sparse::small().write(dir.path());
    for name in ["pointers", "columns", "values"] {
        let whole = std::fs::read(dir.path().join(name)).unwrap();
        for len in 0..whole.len() {
            std::fs::write(dir.path().join(name), &whole[..len]).unwrap();
            for backend in BACKENDS {
                let result = open(&path, backend);
                if name == "pointers" && len == 24 {
                    // Frames at the end are gone, and so is what they held; the scan is as it was.
                    let dataset = result.unwrap();
                    assert_eq!(dataset.positions_with_data(), std::slice::from_ref(&(0..2)));
                    assert!(dataset.source().info().warnings[0].contains("1 of 3 entries"));
                } else if name == "pointers" && len == 16 {
                    assert_eq!(result.unwrap().source().info().n_frames, 1);
                } else {
                    let error = result.unwrap_err();
                    assert_eq!(error.kind(), ErrorKind::BadFile, "{name} {len}: {error}");
                    assert!(error.path().is_some() && error.offset().is_some(), "{error}");
                }
            }
        }
        std::fs::write(dir.path().join(name), whole).unwrap();
    }
}

#[test]
fn a_descriptor_cut_at_every_byte() {
    let dir = tempfile::tempdir().unwrap();
    let path = Sparse::small().write(dir.path());
    let whole = std::fs::read(&path).unwrap();
    for len in 0..whole.len() - 1 {
        std::fs::write(&path, &whole[..len]).unwrap();
        let error = open(&path, Backend::Mmap).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadFile, "{len}: {error}");
        assert_eq!(error.path(), Some(path.as_path()));
        let _ = detect(&path);
    }
    std::fs::write(&path, vec![b'#'; 3 << 20]).unwrap();
    let error = open(&path, Backend::Mmap).unwrap_err();
    assert!(error.to_string().contains("3145728 bytes long"), "{error}");
    std::fs::write(&path, b"a = '\xff'").unwrap();
    assert_eq!(open(&path, Backend::Mmap).unwrap_err().offset(), Some(5));
}

#[test]
fn row_pointers_that_fall_or_leave_the_entries() {
    let small = Sparse::small();
    let with = |pointers: &[i64]| Sparse { pointers: pointers.to_vec(), ..small.clone() };
    let error = assert_bad(&with(&[0, 2, 1, 3]), "pointers", &["found 1", "expected 2 to 3"]);
    assert_eq!((error.frame(), error.offset()), (Some(1), Some(16)));
    let error = assert_bad(&with(&[0, 9, 2, 3]), "pointers", &["found 9", "expected 0 to 3"]);
    assert_eq!((error.frame(), error.offset()), (Some(0), Some(8)));
    let error = assert_bad(&with(&[0, 2, -1, 3]), "pointers", &["found -1", "expected 2 to 3"]);
    assert_eq!(error.frame(), Some(1));
    assert_bad(&with(&[1, 0, 2, 3]), "pointers", &["found 0", "expected 1 to 3"]);
    // The first and the last are looked at when the file is opened.
    for (pointers, words) in [
        (&[-1i64, 0, 3][..], "the first row pointer is -1"),
        (&[0, 1, 4], "the last one 4"),
        (&[3, 3, 2], "the first row pointer is 3"),
        (&[0], "1 row pointers"),
        (&[], "0 row pointers"),
    ] {
        let sparse = Sparse { pointers: pointers.to_vec(), ..small.clone() };
        if pointers.len() > 1 {
            assert_bad(&sparse, "pointers", &[words]);
        }
        assert!(sparse.in_memory().unwrap_err().to_string().contains(words));
    }
    let unsigned = Sparse { pointer_dtype: stored("<u8"), ..with(&[0, 2, -1, 3]) };
    assert_bad(&unsigned, "pointers", &["found 18446744073709551615"]);
}

#[test]
fn columns_outside_of_the_frame() {
    for dtype in ["<i4", "<u4", ">i4", "<i8", "<i2", "u1", ">u8"] {
        let outside = |column: i64| Sparse {
            columns: vec![1, 4, column],
            column_dtype: stored(dtype),
            ..Sparse::small()
        };
        let error = assert_bad(&outside(6), "columns", &["found 6", "0 to 5", "6 pixels"]);
        let size = stored(dtype).dtype.size() as u64;
        assert_eq!((error.frame(), error.offset()), (Some(2), Some(2 * size)), "{dtype}");
        if dtype.contains('i') {
            assert_bad(&outside(-1), "columns", &["found -1"]);
        }
        if dtype.contains('8') {
            // Would be 0 if it were cut to 32 bits.
            assert_bad(&outside(1 << 32), "columns", &["found 4294967296"]);
        }
    }
    // Also where only a part of the frame is asked for, and where rows are out of order.
    let sparse = Sparse { columns: vec![4, 1, 77], ..Sparse::small() };
    let source = sparse.in_memory().unwrap();
    let scheme = framefold_core::TilingScheme::try_new(&[2, 3], &[1, 3], 1).unwrap();
    let mut reader = source.reader().unwrap();
    assert!(reader.read(FrameIndices::Run(0..1), &scheme.slices()[0]).is_ok());
    assert!(reader.read(FrameIndices::Run(0..3), &scheme.slices()[0]).is_err());
    assert!(reader.read_csr(FrameIndices::List(&[0, 2]), &whole(&[2, 3])).is_err());
    assert!(reader.read_csr(FrameIndices::List(&[0, 1]), &whole(&[2, 3])).is_ok());
}

#[test]
fn lengths_that_lie() {
    let small = Sparse::small();
    let more = Sparse { values: integers(&[1, 2, 3, 4], stored("u2")), ..small.clone() };
    assert_bad(&more, "values", &["4 values for 3 columns"]);
    let fewer = Sparse { columns: vec![1, 4], ..small.clone() };
    assert_bad(&fewer, "values", &["3 values for 2 columns"]);
    // dtypes that do not fit the files.
    let odd = Sparse { values: vec![0; 5], ..small.clone() };
    assert_bad(&odd, "values", &["5 bytes long"]);
    let huge = Sparse { pointers: vec![0, i64::MAX], ..small };
    assert_bad(&huge, "pointers", &["9223372036854775807", "there are 3 entries"]);
}

#[test]
fn sums_that_overflow() {
    let sparse = Sparse {
        columns: vec![1, 4, 4],
        pointers: vec![0, 0, 1, 3],
        values: integers(&[1, 40000, 40000], stored("u2")),
        ..Sparse::small()
    };
    let error = assert_bad(&sparse, "values", &["pixel 4", "uint16"]);
    assert_eq!((error.frame(), error.offset()), (Some(2), Some(2)));
}

#[test]
fn arrays_that_shrink_after_opening() {
    let dir = tempfile::tempdir().unwrap();
    let n = 5000;
    let sparse = Sparse {
        pointers: (0..=n).collect(),
        columns: (0..n).map(|k| k % 6).collect(),
        values: integers(&vec![7; n as usize], stored("u2")),
        ..Sparse::small()
    };
    for name in ["pointers", "columns", "values"] {
        for backend in BACKENDS {
            let path = sparse.write(dir.path());
            let dataset = open(&path, backend).unwrap();
            let file = dir.path().join(name);
            let handle = std::fs::OpenOptions::new().write(true).open(&file).unwrap();
            handle.set_len(1000).unwrap();
            let error = read_frames(dataset.source().as_ref()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadFile, "{error}");
            assert_eq!(error.path(), Some(file.as_path()), "{error}");
            assert!(error.to_string().contains("1000 bytes long now"), "{error}");
            drop(dataset);
        }
    }
}

proptest! {
    /// Whatever the arrays hold, there is an answer and no panic, and no tile breaks its promises.
    #[test]
    fn noise(
        pointers in prop::collection::vec(-2i64..14, 2..8),
        columns in prop::collection::vec(-2i64..8, 12),
        last in 0usize..13,
    ) {
        let sparse = Sparse {
            pointers,
            columns: columns[..last].to_vec(),
            values: integers(&vec![30000; last], stored("u2")),
            ..Sparse::small()
        };
        let Ok(source) = sparse.in_memory() else { return Ok(()) };
        let slices = [whole(&[2, 3])];
        let scheme = framefold_core::TilingScheme::try_new(&[2, 3], &[2, 2], 1).unwrap();
        let mut reader = source.reader().unwrap();
        let n = source.info().n_frames;
        for slice in slices.iter().chain(scheme.slices()) {
            for frames in [FrameIndices::Run(0..n), FrameIndices::List(&[0, n - 1])] {
                if n == 1 && matches!(frames, FrameIndices::List(_)) {
                    continue;
                }
                match reader.read_csr(frames, slice) {
                    Ok(tile) => prop_assert_eq!(tile.frame_len(), slice.len()),
                    Err(error) => prop_assert_eq!(error.kind(), ErrorKind::BadFile, "{}", error),
                }
            }
        }
    }
}
