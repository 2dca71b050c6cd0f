//! The order of the registry, and what is said when nothing fits.

use framefold_core::ErrorKind;
use framefold_io::{FORMATS, OpenOptions, detect, open, open_as};

fn file(name: &str, bytes: &[u8]) -> (tempfile::TempDir, std::path::PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join(name);
    std::fs::write(&path, bytes).unwrap();
    (dir, path)
}

fn npy() -> Vec<u8> {
    let text = "{'descr': '|u1', 'fortran_order': False, 'shape': (2, 3, 4), }\n";
    let mut bytes = b"\x93NUMPY\x01\x00".to_vec();
    bytes.extend(u16::try_from(text.len()).unwrap().to_le_bytes());
    bytes.extend(text.as_bytes());
    bytes.extend([0; 24]);
    bytes
}

#[test]
fn the_table_is_in_order() {
    let names: Vec<&str> = FORMATS.iter().map(|format| format.name).collect();
    assert_eq!(names.first(), Some(&"npy"));
    assert_eq!(names.last(), Some(&"raw"));
    for (i, format) in FORMATS.iter().enumerate() {
        assert!(!names[..i].contains(&format.name), "two formats are called {}", format.name);
        assert!(format.extensions.iter().all(|e| *e == e.to_lowercase() && !e.contains('.')));
        assert!(format.takes("nav_shape"));
    }
}

#[test]
fn an_option_is_of_one_kind_in_all_formats() {
    let specs: Vec<_> = FORMATS.iter().flat_map(|format| format.options).collect();
    for one in &specs {
        for other in specs.iter().filter(|other| other.name == one.name) {
            assert_eq!((one.kind, one.flag), (other.kind, other.flag), "{}", one.name);
        }
    }
}

#[test]
fn content_counts_and_not_the_extension() {
    for name in ["scan.npy", "scan.NPY", "scan.raw", "scan.mib", "scan"] {
        let (_dir, path) = file(name, &npy());
        let found = detect(&path).unwrap();
        assert_eq!(found.format.name, "npy");
        assert!(found.reason.contains("signature"));
        let dataset = open(&path, &OpenOptions::default()).unwrap();
        assert_eq!(dataset.shape().to_string(), "(2,) + (3, 4)");
    }
}

#[test]
fn a_promise_not_kept_says_what_was_found() {
    let (_dir, path) = file("scan.npy", b"GIF89a and so on");
    let error = detect(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadFile);
    let text = error.to_string();
    assert!(text.contains("'GIF89a a'") && text.contains("'.npy' promises"), "{text}");
    // It may be of that format and damaged: all that is known is how it begins.
    assert!(text.contains("does not begin as one") && !text.contains("something else"), "{text}");
}

#[test]
fn without_a_match_the_formats_are_named() {
    let (_dir, path) = file("scan.xyz", &[0, 1, 2]);
    let error = open_as("auto", &path, &OpenOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    let text = error.to_string();
    for format in FORMATS.iter().filter(|format| format.name != "raw") {
        assert!(text.contains(format.name), "{text}");
    }
    assert!(text.contains("bytes 00 01 02") && !text.contains('\n'), "{text}");
    assert!(text.len() < 400, "{text}");
    assert!(error.hint().unwrap().contains("load it as 'raw'"));
}

#[test]
fn a_plain_raw_extension_promises_nothing() {
    let (_dir, path) = file("scan.raw", &[0; 100]);
    assert_eq!(detect(&path).unwrap_err().kind(), ErrorKind::Unsupported);
}

#[test]
fn formats_by_name() {
    let (_dir, path) = file("scan.npy", &npy());
    for name in ["auto", "npy"] {
        assert!(open_as(name, &path, &OpenOptions::default()).is_ok());
    }
    let error = open_as("NPY", &path, &OpenOptions::default()).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.hint().unwrap().contains("npy") && error.hint().unwrap().contains("raw"));
}

#[test]
fn options_are_checked_for_detected_formats_too() {
    let (_dir, path) = file("scan.npy", &npy());
    let options = OpenOptions::default().with("frame_header", 3u64);
    let error = open(&path, &options).unwrap_err();
    assert_eq!((error.kind(), error.format()), (ErrorKind::InvalidArgument, Some("npy")));
    assert!(error.to_string().contains("'frame_header'"), "{error}");
}
