//! Detection, options, and files beside the descriptor.

use crate::raw_csr::support::{Sparse, read_u16};
use framefold_core::{ErrorKind, Result};
use framefold_io::{OpenOptions, detect, open, open_as};

#[test]
fn content_counts_and_not_the_extension() {
    let dir = tempfile::tempdir().unwrap();
    let path = Sparse::small().write(dir.path());
    let text = std::fs::read_to_string(&path).unwrap();
    for name in ["scan.toml", "scan.TOML", "scan.npy", "scan"] {
        let path = dir.path().join(name);
        std::fs::write(&path, &text).unwrap();
        let found = detect(&path).unwrap();
        assert_eq!(found.format.name, "raw_csr");
        assert!(found.reason.contains("params.filetype"), "{}", found.reason);
        assert_eq!(
            open(&path, &OpenOptions::default()).unwrap().shape().to_string(),
            "(3,) + (2, 3)"
        );
    }
    // Comments may make it long; its last line within the prefix is cut.
    std::fs::write(&path, text.clone() + &"# a comment of some length\n".repeat(1000)).unwrap();
    assert_eq!(detect(&path).unwrap().format.name, "raw_csr");
    for (other, words) in [
        ("[package]\nname = \"x\"\n", "no key params.filetype"),
        ("[params]\nfiletype = \"hdf5\"\n", "is 'hdf5'"),
        ("just some text", "no TOML file"),
    ] {
        std::fs::write(&path, other).unwrap();
        let error = detect(&path).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadFile);
        assert!(error.to_string().contains(words), "{error}");
    }
}

#[test]
fn options_of_the_caller_win() {
    let dir = tempfile::tempdir().unwrap();
    let path = Sparse::small().write(dir.path());
    let shape = |options: OpenOptions| -> Result<String> {
        Ok(open_as("raw_csr", &path, &options)?.shape().to_string())
    };
    let default = OpenOptions::default;
    let nav_shape = OpenOptions { nav_shape: Some(vec![2, 2]), ..default() };
    assert_eq!(shape(nav_shape.clone()).unwrap(), "(2, 2) + (2, 3)");
    let dataset = open_as("raw_csr", &path, &nav_shape).unwrap();
    assert_eq!(dataset.positions_with_data(), std::slice::from_ref(&(0..3)));
    let sig_shape = OpenOptions { sig_shape: Some(vec![6]), ..default() };
    assert_eq!(shape(sig_shape).unwrap(), "(3,) + (6,)");
    let error = shape(OpenOptions { sig_shape: Some(vec![5]), ..default() }).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.to_string().contains("[2, 3]") && error.to_string().contains("[5]"), "{error}");
    let offset = OpenOptions { sync_offset: 1, ..default() };
    let dataset = open_as("raw_csr", &path, &offset).unwrap();
    assert_eq!(dataset.positions_with_data(), std::slice::from_ref(&(0..2)));
    assert!(shape(OpenOptions { sync_offset: 3, ..default() }).is_err());
    assert!(shape(default().with("frame_header", 3u64)).is_err());
}

#[test]
fn a_scan_shape_of_the_caller_replaces_a_missing_one() {
    let dir = tempfile::tempdir().unwrap();
    let path = Sparse::small().write(dir.path());
    let text = std::fs::read_to_string(&path).unwrap().replace("nav_shape = [3]\n", "");
    std::fs::write(&path, text).unwrap();
    let error = open(&path, &OpenOptions::default()).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::BadFile, Some(path.as_path())));
    assert!(error.to_string().contains("'params.nav_shape' is missing"), "{error}");
    let options = OpenOptions { nav_shape: Some(vec![3]), ..OpenOptions::default() };
    assert_eq!(read_u16(open(&path, &options).unwrap().source().as_ref()).unwrap()[2][5], 30);
}

#[test]
fn files_lie_beside_the_descriptor_or_where_it_says_if_that_is_allowed() {
    let dir = tempfile::tempdir().unwrap();
    let path = Sparse::small().write(dir.path());
    let elsewhere = tempfile::tempdir().unwrap();
    let absolute = elsewhere.path().join("v");
    std::fs::rename(dir.path().join("values"), &absolute).unwrap();
    let error = open(&path, &OpenOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Io);
    assert_eq!(error.path(), Some(dir.path().join("values").as_path()));
    let text = std::fs::read_to_string(&path).unwrap();
    std::fs::write(&path, text.replace("\"values\"", &format!("'{}'", absolute.display())))
        .unwrap();
    let error = open(&path, &OpenOptions::default()).unwrap_err();
    assert_eq!((error.kind(), error.path()), (ErrorKind::BadFile, Some(absolute.as_path())));
    let trusted = OpenOptions::default().with("allow_external_links", true);
    let dataset = open(&path, &trusted).unwrap();
    assert_eq!(read_u16(dataset.source().as_ref()).unwrap()[0], [0, 10, 0, 0, 20, 0]);
    let paths = &dataset.source().info().paths;
    assert_eq!(paths[0], path);
    assert_eq!(paths[3], absolute);
}
