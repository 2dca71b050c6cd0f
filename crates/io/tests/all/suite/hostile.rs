//! Files that are cut, lie about themselves, or change while they are read.

use crate::suite::npy::{header, open_bytes};
use framefold_core::{Dataset, ErrorKind, FrameIndices, TilingScheme};
use framefold_io::{Backend, OpenOptions, detect, open, open_as};
use proptest::prelude::*;
use std::path::Path;

const BACKENDS: [Backend; 2] = [Backend::Mmap, Backend::Buffered];
const DICT: &str = "{'descr': '<u2', 'fortran_order': False, 'shape': (6, 64, 64), }";

/// Reads all frames, and gives the sum of all bytes or the first error.
fn read_all(dataset: &Dataset) -> framefold_core::Result<u64> {
    let info = dataset.source().info();
    let scheme = TilingScheme::try_new(&info.sig_shape, &info.sig_shape, 1)?;
    let mut reader = dataset.source().reader()?;
    let mut sum = 0;
    for frame in 0..info.n_frames {
        let tile = reader.read(FrameIndices::Run(frame..frame + 1), &scheme.slices()[0])?;
        sum += tile.frames().as_bytes().iter().map(|&b| u64::from(b)).sum::<u64>();
    }
    reader.verify()?;
    Ok(sum)
}

#[test]
fn an_npy_file_cut_at_every_byte_of_its_header() {
    for version in 1..4 {
        let whole = header(version, DICT, 20);
        for len in 0..whole.len() {
            let error = open_bytes(&whole[..len], &OpenOptions::default()).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadFile, "{len}: {error}");
            assert!(error.path().is_some() && error.format() == Some("npy"), "{len}: {error}");
        }
    }
}

#[test]
fn npy_headers_that_lie_about_sizes() {
    let shapes = [
        "(18446744073709551615, 2, 2)",
        "(4294967296, 4294967296, 2)",
        "(2, 4294967296, 4294967296)",
        "(1, 2147483648, 2147483648)",
        "(99999999999999999999999, 2, 2)",
        "(3, 1000000, 1000000)",
        "(0, 2, 2)",
    ];
    for shape in shapes {
        for order in ["False", "True"] {
            let dict = format!("{{'descr': '<u2', 'fortran_order': {order}, 'shape': {shape}, }}");
            let mut bytes = header(1, &dict, 0);
            bytes.extend([0; 1000]);
            let error = open_bytes(&bytes, &OpenOptions::default()).unwrap_err();
            let kinds = [ErrorKind::BadFile, ErrorKind::InvalidArgument];
            assert!(kinds.contains(&error.kind()), "{shape}: {error}");
        }
    }
    // A header that claims to be longer than the file, and one longer than any real one.
    let mut bytes = header(2, DICT, 0);
    bytes[8..12].copy_from_slice(&u32::MAX.to_le_bytes());
    assert!(open_bytes(&bytes, &OpenOptions::default()).is_err());
    bytes[8..12].copy_from_slice(&2_000_000u32.to_le_bytes());
    bytes.resize(3_000_000, b' ');
    let error = open_bytes(&bytes, &OpenOptions::default()).unwrap_err();
    assert!(error.to_string().contains("2000000 bytes"), "{error}");
    let mut bytes = header(1, DICT, 0);
    bytes[6] = 4;
    let error = open_bytes(&bytes, &OpenOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}

proptest! {
    /// Whatever the bytes, there is an answer and no panic.
    #[test]
    fn noise_in_the_header(
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = header(1, DICT, 10);
        let header_len = bytes.len();
        bytes.resize(header_len + 6 * 64 * 64 * 2, 7);
        for (place, value) in &changes {
            bytes[place.index(header_len)] = *value;
        }
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("noise.npy");
        std::fs::write(&path, bytes).unwrap();
        for backend in BACKENDS {
            let options = OpenOptions { backend, ..OpenOptions::default() };
            if let Ok(dataset) = open_as("npy", &path, &options) {
                read_all(&dataset).unwrap();
            }
        }
    }
}

fn npy_file(path: &Path) -> usize {
    let mut bytes = header(1, DICT, 10);
    bytes.resize(bytes.len() + 6 * 64 * 64 * 2, 1);
    std::fs::write(path, &bytes).unwrap();
    bytes.len()
}

fn set_len(path: &Path, len: usize) {
    let file = std::fs::OpenOptions::new().write(true).open(path).unwrap();
    file.set_len(len as u64).unwrap();
}

#[test]
fn a_file_that_shrinks_after_opening_gives_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("scan.npy");
    for backend in BACKENDS {
        for left in [0, 1, 5_000, 30_000] {
            let len = npy_file(&path);
            let options = OpenOptions { backend, ..OpenOptions::default() };
            let dataset = open(&path, &options).unwrap();
            set_len(&path, left);
            let error = read_all(&dataset).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadFile, "{error}");
            assert_eq!(error.path(), Some(path.as_path()));
            let text = error.to_string();
            assert!(text.contains(&format!("{len} bytes")), "{text}");
            assert!(text.contains(&format!("{left} bytes")), "{text}");
        }
    }
}

#[test]
fn a_file_that_grows_is_read_as_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("scan.npy");
    for backend in BACKENDS {
        let len = npy_file(&path);
        let options = OpenOptions { backend, ..OpenOptions::default() };
        let dataset = open(&path, &options).unwrap();
        set_len(&path, 3 * len);
        assert_eq!(read_all(&dataset).unwrap(), 6 * 64 * 64 * 2);
    }
}

#[test]
fn what_cannot_be_opened_at_all() {
    let dir = tempfile::tempdir().unwrap();
    let empty = dir.path().join("empty.npy");
    std::fs::write(&empty, []).unwrap();
    let folder = dir.path().join("folder");
    std::fs::create_dir(&folder).unwrap();
    let default = OpenOptions::default();
    for (path, kind, words) in [
        (folder, ErrorKind::InvalidArgument, "the folder has no file *.npy"),
        (dir.path().join("missing.npy"), ErrorKind::Io, "check the path"),
        (empty, ErrorKind::BadFile, "after 0 bytes"),
    ] {
        let error = open_as("npy", &path, &default).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        let text = error.to_string();
        assert!(text.contains(words) || text.contains("empty"), "{text}");
        assert_eq!(error.path(), Some(path.as_path()));
        assert_eq!(detect(&path).unwrap_err().kind(), kind);
    }
}
