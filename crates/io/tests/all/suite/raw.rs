//! Raw files: dtypes, headers and footers, backends.

use crate::oracle::{Frames, all, any_frames, any_questions, check};
use framefold_core::{DType, Dataset, ErrorKind, Result};
use framefold_io::{Backend, OpenOptions, open_as};
use proptest::prelude::*;
use std::path::Path;

/// Writes frames with noise in the gaps, which must never show up.
fn write(frames: &Frames, around: [u64; 4], surplus: usize, path: &Path) {
    let [file_header, file_footer, frame_header, frame_footer] = around;
    let noise = |n: u64| vec![0xA5u8; usize::try_from(n).unwrap()];
    let mut bytes = noise(file_header);
    for frame in 0..frames.n_frames {
        bytes.extend(noise(frame_header));
        bytes.extend(frames.frame(frame));
        bytes.extend(noise(frame_footer));
    }
    bytes.extend(vec![0xA5; surplus]);
    bytes.extend(noise(file_footer));
    std::fs::write(path, bytes).unwrap();
}

fn options(frames: &Frames) -> OpenOptions {
    OpenOptions {
        sig_shape: Some(frames.sig_shape.clone()),
        nav_shape: Some(vec![frames.n_frames]),
        ..OpenOptions::default().with("dtype", frames.stored)
    }
}

proptest! {
    #[test]
    fn equals_the_oracle(
        frames in any_frames(),
        ask in any_questions(),
        // Multiples of 16 keep elements aligned, so that tiles are lent.
        sizes in prop::array::uniform4(prop_oneof![Just(0u64), Just(16), 0u64..20]),
        surplus in 0usize..3,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("scan.raw");
        let [file_header, file_footer, frame_header, frame_footer] = sizes;
        let options = options(&frames)
            .with("file_header", file_header)
            .with("file_footer", file_footer)
            .with("frame_header", frame_header)
            .with("frame_footer", frame_footer);
        let stride = frames.frame_bytes() as u64 + frame_header + frame_footer;
        let surplus = surplus.min(usize::try_from(stride).unwrap() - 1);
        write(&frames, sizes, surplus, &path);
        for backend in [Backend::Mmap, Backend::Buffered] {
            let options = OpenOptions { backend, ..options.clone() };
            let dataset = open_as("raw", &path, &options).unwrap();
            let info = dataset.source().info();
            prop_assert_eq!(info.n_frames, frames.n_frames as u64);
            prop_assert_eq!(info.warnings.len(), usize::from(surplus > 0));
            check(dataset.source().as_ref(), &frames, &all(frames.n_frames), &ask);
        }
    }
}

fn of_bytes(len: usize, options: &OpenOptions) -> Result<Dataset> {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("scan.raw");
    std::fs::write(&path, vec![0; len]).unwrap();
    open_as("raw", &path, options)
}

#[test]
fn what_must_be_said_is_asked_for() {
    let frames = Frames::random(DType::U16.into(), 6, &[4, 4], 1);
    let full = options(&frames);
    let no_dtype = OpenOptions {
        sig_shape: full.sig_shape.clone(),
        nav_shape: full.nav_shape.clone(),
        ..OpenOptions::default()
    };
    for (incomplete, name) in [
        (no_dtype, "dtype"),
        (OpenOptions { sig_shape: None, ..full.clone() }, "sig_shape"),
        (OpenOptions { nav_shape: None, ..full.clone() }, "nav_shape"),
    ] {
        let error = of_bytes(6 * 32, &incomplete).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidArgument);
        assert!(error.to_string().contains(&format!("'{name}'")), "{error}");
        if name == "nav_shape" {
            assert!(error.hint().unwrap().contains("6 frames"), "{error}");
        }
    }
    let with_sig_dims = full.with("sig_dims", 2usize);
    let error = of_bytes(6 * 32, &with_sig_dims).unwrap_err();
    assert!(error.to_string().contains("'sig_dims'") && error.to_string().contains("'raw'"));
}

#[test]
fn sizes_that_do_not_fit() {
    let frames = Frames::random(DType::U16.into(), 6, &[4, 4], 1);
    let full = options(&frames);
    assert_eq!(of_bytes(0, &full).unwrap_err().kind(), ErrorKind::BadFile);
    let error = of_bytes(31, &full).unwrap_err();
    assert!(error.to_string().contains("31 bytes") && error.to_string().contains("32 bytes"));
    for huge in [u64::MAX, u64::MAX / 2, 1 << 40] {
        for name in ["file_header", "file_footer", "frame_header", "frame_footer"] {
            let options = full.clone().with(name, huge);
            assert_eq!(of_bytes(192, &options).unwrap_err().kind(), ErrorKind::BadFile);
        }
    }
    for sig_shape in [vec![], vec![0, 4], vec![usize::MAX, 2], vec![1 << 31, 1 << 31]] {
        let options = OpenOptions { sig_shape: Some(sig_shape), ..full.clone() };
        assert_eq!(of_bytes(192, &options).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    for nav_shape in [vec![], vec![0], vec![usize::MAX, 2]] {
        let options = OpenOptions { nav_shape: Some(nav_shape), ..full.clone() };
        assert_eq!(of_bytes(192, &options).unwrap_err().kind(), ErrorKind::InvalidArgument);
    }
    let more_positions = OpenOptions { nav_shape: Some(vec![10]), sync_offset: -2, ..full };
    let dataset = of_bytes(192, &more_positions).unwrap();
    assert_eq!(dataset.positions_with_data(), std::slice::from_ref(&(2..8)));
}

#[test]
fn surplus_bytes_are_reported() {
    let frames = Frames::random(DType::U16.into(), 6, &[4, 4], 1);
    let dataset = of_bytes(192 + 31, &options(&frames)).unwrap();
    assert_eq!(dataset.source().info().n_frames, 6);
    assert!(dataset.source().info().warnings[0].contains("31 bytes"));
}
