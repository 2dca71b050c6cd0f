//! The writer: what it wrote is what there was, and nothing is left of what failed.

use crate::raw_csr::support::{Sparse, read_frames, stored};
use framefold_core::{Corrections, DType, Dataset, Error, ErrorKind, NativeArray};
use framefold_io::{Backend, CsrWriteOptions, OpenOptions, open, open_as, write_raw_csr};
use framefold_testkit::{MemoryOptions, MemorySource, Values, check_source, random_values};
use std::path::Path;
use std::sync::Arc;

fn memory(dtype: DType, n_frames: usize, options: MemoryOptions) -> Arc<MemorySource> {
    let values = random_values(dtype, n_frames * 35, Values::NonFinite, 5);
    let frames = NativeArray::try_new(&[n_frames, 5, 7], values).unwrap();
    Arc::new(MemorySource::try_new(frames, options).unwrap())
}

fn dataset(dtype: DType) -> Dataset {
    Dataset::try_new(memory(dtype, 12, MemoryOptions::default()), Some(&[3, 4]), 0).unwrap()
}

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

const ALL: [&str; 4] = ["scan.data", "scan.indices", "scan.indptr", "scan.toml"];
const OTHERS: [&str; 4] = ["scan.2.data", "scan.2.indices", "scan.2.indptr", "scan.toml"];

fn write(dataset: &Dataset, folder: &Path, options: CsrWriteOptions) -> Result<u64, Error> {
    let written = write_raw_csr(dataset, folder.join("scan.toml"), &options, &mut |_| Ok(()))?;
    Ok(written.n_entries)
}

#[test]
fn every_dtype_is_read_back() {
    for dtype in DType::all() {
        let dir = tempfile::tempdir().unwrap();
        let dataset = dataset(dtype);
        let n_entries = write(&dataset, dir.path(), CsrWriteOptions::default()).unwrap();
        assert_eq!(names(dir.path()), ALL);
        let path = dir.path().join("scan.toml");
        let read = open(&path, &OpenOptions::default()).unwrap();
        assert_eq!(read.shape(), dataset.shape());
        let source = read.source();
        check_source(source.as_ref()).unwrap();
        assert_eq!(source.info().dtype.dtype, dtype);
        assert!(source.info().warnings.is_empty());
        let size = dtype.size();
        let expected = read_frames(dataset.source().as_ref()).unwrap();
        let mut n_not_zero = 0;
        for (found, expected) in read_frames(source.as_ref()).unwrap().iter().zip(&expected) {
            for (found, expected) in found.chunks(size).zip(expected.chunks(size)) {
                let is_zero = found.iter().all(|&byte| byte == 0);
                n_not_zero += u64::from(!is_zero);
                // Negative zeros become zeros.
                let zero = |byte: &u8| *byte == 0 || *byte == 0x80;
                assert!(found == expected || (is_zero && expected.iter().all(zero)), "{dtype}");
            }
        }
        assert_eq!(n_entries, n_not_zero);
        assert_eq!(source.stored_bytes(), Some(13 * 8 + n_entries * (4 + size as u64)), "{dtype}");
    }
}

#[test]
fn sparse_sources_are_written_from_their_rows() {
    let sparse = Sparse {
        // Out of order, twice the same pixel, and a zero.
        pointers: vec![0, 3, 3, 5],
        columns: vec![5, 1, 5, 0, 2],
        values: crate::raw_csr::support::integers(&[1, 2, 3, 0, 9], stored("u2")),
        ..Sparse::small()
    };
    let (dir, dataset) = sparse.open().unwrap();
    let out = tempfile::tempdir().unwrap();
    assert_eq!(write(&dataset, out.path(), CsrWriteOptions::default()).unwrap(), 3);
    let path = out.path().join("scan.toml");
    let read = open(&path, &OpenOptions::default()).unwrap();
    let frames = |dataset: &Dataset| read_frames(dataset.source().as_ref()).unwrap();
    assert_eq!(frames(&read), frames(&dataset));
    let columns = std::fs::read(out.path().join("scan.indices")).unwrap();
    assert_eq!(columns, crate::raw_csr::support::integers(&[1, 5, 2], stored("i4")));
    let options = CsrWriteOptions { threshold: Some(3.0), force: true, ..Default::default() };
    assert_eq!(write(&dataset, out.path(), options).unwrap(), 2);
    drop(dir);
}

#[test]
fn corrections_are_applied() {
    let dark = NativeArray::try_new(&[5, 7], vec![1.0f64; 35]).unwrap();
    let corrections = Corrections::try_new(&[5, 7], Some(dark), None, vec![], false).unwrap();
    let frames = NativeArray::try_new(&[2, 5, 7], vec![1u8; 70]).unwrap();
    let source = MemorySource::try_new(frames, MemoryOptions::default()).unwrap();
    let dataset = Dataset::try_new(Arc::new(source), None, 0).unwrap();
    let dataset = dataset.with_corrections(Some(Arc::new(corrections))).unwrap();
    let dir = tempfile::tempdir().unwrap();
    assert_eq!(write(&dataset, dir.path(), CsrWriteOptions::default()).unwrap(), 0);
    let read = open(dir.path().join("scan.toml"), &OpenOptions::default()).unwrap();
    assert_eq!(read.source().info().dtype.dtype, DType::F32);
}

#[test]
fn positions_without_data() {
    let with = |presence, nav: &[usize], offset| {
        let options = MemoryOptions { presence, ..MemoryOptions::default() };
        Dataset::try_new(memory(DType::U8, 12, options), Some(nav), offset).unwrap()
    };
    use framefold_core::Presence::{All, Ranges};
    // At the end: the rows are left out.
    for (dataset, n_rows) in [
        (with(All, &[4, 5], 0), 12),
        (with(All, &[12], 3), 9),
        (with(All, &[2, 2], 1), 4),
        (with(Ranges(vec![0..3, 3..7]), &[12], 0), 7),
    ] {
        let dir = tempfile::tempdir().unwrap();
        write(&dataset, dir.path(), CsrWriteOptions::default()).unwrap();
        let read = open(dir.path().join("scan.toml"), &OpenOptions::default()).unwrap();
        assert_eq!(read.source().info().n_frames, n_rows);
        let n_positions: usize = dataset.positions_with_data().iter().map(|run| run.len()).sum();
        assert_eq!(read.positions_with_data(), std::slice::from_ref(&(0..n_positions)));
        assert_eq!(read.shape(), dataset.shape());
    }
    // Elsewhere: zeros would be a lie.
    for (dataset, words) in [
        (with(All, &[12], -2), "position 0 has no data"),
        (with(Ranges(vec![0..3, 5..12]), &[12], 0), "position 3 has no data"),
    ] {
        let dir = tempfile::tempdir().unwrap();
        let error = write(&dataset, dir.path(), CsrWriteOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Unsupported);
        assert!(error.to_string().contains(words), "{error}");
        assert!(names(dir.path()).is_empty());
    }
}

#[test]
fn nothing_is_left_of_what_was_stopped() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("scan.toml");
    let frames = NativeArray::zeros(DType::U8, &[24, 1024, 1024]);
    let source = MemorySource::try_new(frames, MemoryOptions::default()).unwrap();
    let dataset = Dataset::try_new(Arc::new(source), None, 0).unwrap();
    let mut reports = vec![];
    let options = CsrWriteOptions::default();
    write_raw_csr(&dataset, &path, &options, &mut |n| {
        reports.push(n);
        Ok(())
    })
    .unwrap();
    assert_eq!(reports, [0, 4, 8, 12, 16, 20, 24, 24]);
    for name in ALL {
        std::fs::remove_file(dir.path().join(name)).unwrap();
    }
    for stop in 0..reports.len() {
        let mut calls = 0;
        let error = write_raw_csr(&dataset, &path, &options, &mut |_| {
            calls += 1;
            if calls > stop { Err(Error::cancelled()) } else { Ok(()) }
        })
        .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Cancelled);
        assert!(names(dir.path()).is_empty(), "{:?}", names(dir.path()));
    }
}

#[test]
fn files_that_exist_are_kept_or_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let force = CsrWriteOptions { force: true, ..CsrWriteOptions::default() };
    for name in ALL {
        std::fs::write(dir.path().join(name), b"mine").unwrap();
        let error = write(&dataset(DType::U8), dir.path(), CsrWriteOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert_eq!(error.path(), Some(dir.path().join(name).as_path()));
        assert_eq!(names(dir.path()), [name]);
        assert_eq!(std::fs::read(dir.path().join(name)).unwrap(), b"mine");
        write(&dataset(DType::U8), dir.path(), force.clone()).unwrap();
        let expected = match name {
            "scan.toml" => ALL.map(str::to_owned).to_vec(),
            // An array of others stays.
            kept => {
                assert_eq!(std::fs::read(dir.path().join(kept)).unwrap(), b"mine");
                let mut all = OTHERS.map(str::to_owned).to_vec();
                all.push(kept.to_owned());
                all.sort();
                all
            }
        };
        assert_eq!(names(dir.path()), expected);
        let path = dir.path().join("scan.toml");
        check_source(open(&path, &OpenOptions::default()).unwrap().source().as_ref()).unwrap();
        // Replacing what is being read would change it on the way.
        for backend in [Backend::Mmap, Backend::Buffered] {
            let options = OpenOptions { backend, ..OpenOptions::default() };
            let error =
                write(&open_as("raw_csr", &path, &options).unwrap(), dir.path(), force.clone());
            assert!(error.unwrap_err().to_string().contains("one of the input files"));
        }
        for name in names(dir.path()) {
            std::fs::remove_file(dir.path().join(name)).unwrap();
        }
    }
    let error =
        write_raw_csr(&dataset(DType::U8), dir.path().join("scan"), &force, &mut |_| Ok(()));
    assert!(error.unwrap_err().to_string().contains("extension"));
    let nowhere = dir.path().join("nowhere").join("scan.toml");
    let error = write_raw_csr(&dataset(DType::U8), nowhere, &force, &mut |_| Ok(())).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert!(names(dir.path()).is_empty());
}

#[test]
fn files_that_are_read_besides_the_frames_are_not_replaced() {
    let dir = tempfile::tempdir().unwrap();
    write(&dataset(DType::U8), dir.path(), CsrWriteOptions::default()).unwrap();
    let array = dir.path().join("scan.data");
    let read = open(dir.path().join("scan.toml"), &OpenOptions::default()).unwrap();
    let opened = read.opened().iter().cloned().zip(read.stamps().iter().copied());
    let opened = opened.filter(|(path, _)| *path == array);
    for (dataset, inputs) in [
        (dataset(DType::U8).with_opened(opened), vec![]),
        (dataset(DType::U8), vec![array.clone()]),
    ] {
        let options = CsrWriteOptions { force: true, inputs, ..CsrWriteOptions::default() };
        let error = write(&dataset, dir.path(), options).unwrap_err();
        assert!(error.to_string().contains("one of the input files"), "{error}");
    }
}

#[test]
fn a_descriptor_keeps_its_arrays_until_it_is_replaced() {
    let dir = tempfile::tempdir().unwrap();
    let force = CsrWriteOptions { force: true, ..CsrWriteOptions::default() };
    write(&dataset(DType::U8), dir.path(), force.clone()).unwrap();
    let path = dir.path().join("scan.toml");
    let bytes = || {
        let read = open(&path, &OpenOptions::default()).unwrap();
        read_frames(read.source().as_ref()).unwrap()
    };
    let old = bytes();
    for expected in [OTHERS, ALL, OTHERS] {
        #[cfg(unix)]
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            use std::os::unix::fs::PermissionsExt;
            let private = std::fs::Permissions::from_mode(0o600);
            std::fs::set_permissions(entry.unwrap().path(), private).unwrap();
        }
        // Stopped at the last moment: the old ones are what there is.
        let before = (names(dir.path()), bytes());
        let mut n = 0;
        let mut stop = |n_done: u64| {
            n += u64::from(n_done == 12);
            if n == 2 { Err(Error::cancelled()) } else { Ok(()) }
        };
        write_raw_csr(&dataset(DType::U16), &path, &force, &mut stop).unwrap_err();
        assert_eq!((names(dir.path()), bytes()), before);
        write(&dataset(DType::U16), dir.path(), force.clone()).unwrap();
        assert_eq!(names(dir.path()), expected);
        assert_ne!(bytes(), old);
        #[cfg(unix)]
        for entry in std::fs::read_dir(dir.path()).unwrap() {
            use std::os::unix::fs::PermissionsExt;
            let mode = entry.unwrap().metadata().unwrap().permissions().mode();
            assert_eq!(mode & 0o777, 0o600);
        }
    }
}

#[test]
fn arrays_of_other_descriptors_stay() {
    let dir = tempfile::tempdir().unwrap();
    let force = CsrWriteOptions { force: true, ..CsrWriteOptions::default() };
    let frames = |dataset: &Dataset| read_frames(dataset.source().as_ref()).unwrap();
    let mut there = std::collections::BTreeMap::new();
    for (name, dtype) in [
        ("scan.2.toml", DType::U8),
        ("scan.toml", DType::U16),
        ("scan.toml", DType::I16),
        ("scan.2.toml", DType::I32),
        ("scan.txt", DType::U32),
        ("scan.toml", DType::U64),
        ("scan.2.toml", DType::I64),
    ] {
        write_raw_csr(&dataset(dtype), dir.path().join(name), &force, &mut |_| Ok(())).unwrap();
        there.insert(name, dtype);
        assert_eq!(names(dir.path()).len(), 4 * there.len());
        for (name, dtype) in &there {
            let read = open_as("raw_csr", dir.path().join(name), &OpenOptions::default());
            assert_eq!(frames(&read.unwrap()), frames(&dataset(*dtype)), "{name}");
        }
    }
}
