//! BLO files.

use crate::contiguous::{any_of, check, frames, hostile, plain};
use crate::oracle::{Frames, any_questions};
use framefold_core::{
    ByteOrder, DType, ErrorKind, FrameIndices, MetadataValue, Quantity, StoredDType, TilingScheme,
};
use framefold_io::{Backend, OpenOptions, detect, open_as};
use proptest::prelude::*;
use std::path::{Path, PathBuf};

const FIRST_FRAME: usize = 400;

/// A file with these frames on a scan of `rows` × `columns`.
fn bytes(frames: &Frames, rows: u16, columns: u16, note: &str) -> Vec<u8> {
    let big = frames.stored.order == ByteOrder::Big && frames.stored.dtype.size() > 1;
    let n16 = |n: u16| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let n32 = |n: u32| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let n64 = |n: f64| if big { n.to_be_bytes() } else { n.to_le_bytes() };
    let mut header = b"IMGBLO".to_vec();
    header.extend(n16(if note.is_empty() { 0x0102 } else { 0x0103 }));
    header.extend(n32(340));
    header.extend(n32(u32::try_from(FIRST_FRAME).unwrap()));
    header.extend(n32(131_141));
    header.extend(n16(u16::try_from(frames.sig_shape[0]).unwrap()));
    header.extend(n16(0));
    header.extend(n16(columns));
    header.extend(n16(rows));
    header.extend(n16(9050));
    header.extend(n64(12.8));
    header.extend(n64(6.4));
    header.extend(n32(300_000));
    header.extend(n16(5000));
    header.extend(n32(1150));
    header.extend(n64(36_586.5));
    header.resize(240, 0);
    header.extend(note.as_bytes());
    header.resize(FIRST_FRAME, 0);
    for frame in 0..frames.n_frames {
        header.extend(n16(0x55AA));
        header.extend(n32(u32::try_from(frame).unwrap()));
        header.extend(frames.frame(frame));
    }
    header
}

fn write(dir: &Path, bytes: &[u8]) -> PathBuf {
    let path = dir.join("scan.blo");
    std::fs::write(&path, bytes).unwrap();
    path
}

fn note(dtype: DType) -> &'static str {
    if dtype == DType::U16 { "Title: x\r\nBlo Bit Depth: 16 bits\r\n" } else { "" }
}

proptest! {
    #[test]
    fn equals_what_was_written(
        dtype in any_of(&[DType::U8, DType::U16]),
        big in any::<bool>(),
        (rows, columns, edge) in (1u16..5, 1u16..5, 1usize..12),
        seed in any::<u64>(),
        ask in any_questions(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let order = if big && dtype == DType::U16 { ByteOrder::Big } else { ByteOrder::Little };
        let n_frames = usize::from(rows * columns);
        let frames = Frames::random(StoredDType { dtype, order }, n_frames, &[edge, edge], seed);
        let path = write(dir.path(), &bytes(&frames, rows, columns, note(dtype)));
        check("blo", &path, &frames, &ask, order == ByteOrder::Little);
        let dataset = plain("blo", &path).unwrap();
        prop_assert_eq!(dataset.shape().nav(), [usize::from(rows), usize::from(columns)]);
    }
}

#[test]
fn cut_and_lying_files() {
    for dtype in [DType::U8, DType::U16] {
        let dir = tempfile::tempdir().unwrap();
        let path = write(dir.path(), &bytes(&frames(dtype, 6, &[5, 5]), 2, 3, note(dtype)));
        hostile::cut_everywhere("blo", &path, FIRST_FRAME);
        hostile::lie_everywhere("blo", &path, 64);
    }
}

#[test]
fn frames_that_were_not_recorded_have_no_data() {
    let dir = tempfile::tempdir().unwrap();
    let whole = bytes(&frames(DType::U8, 6, &[5, 5]), 2, 3, "");
    let path = write(dir.path(), &whole[..whole.len() - 1]);
    let dataset = plain("blo", &path).unwrap();
    assert_eq!(dataset.shape().nav(), [2, 3]);
    assert_eq!(dataset.positions_with_data(), std::slice::from_ref(&(0..5)));
    assert!(dataset.source().info().warnings[0].contains("promises 6 frames, but only 5"));
    let mut longer = whole;
    longer.extend([0; 100]);
    let dataset = plain("blo", &write(dir.path(), &longer)).unwrap();
    assert!(dataset.source().info().warnings[0].contains("100 bytes after the 6 frames"));
}

#[test]
fn a_wrong_size_is_found_at_the_last_frame() {
    let dir = tempfile::tempdir().unwrap();
    let mut changed = bytes(&frames(DType::U8, 6, &[5, 5]), 2, 3, "");
    changed[20] = 4;
    let error = plain("blo", &write(dir.path(), &changed)).unwrap_err();
    assert_eq!((error.kind(), error.frame()), (ErrorKind::BadFile, Some(5)));
    assert!(error.message().contains("expected aa 55"), "{error}");
}

#[test]
fn what_is_no_frame_in_the_middle_is_found_when_it_is_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut changed = bytes(&frames(DType::U8, 6, &[5, 5]), 2, 3, "");
    let record = 6 + 25;
    let third = changed.len() - 4 * record;
    changed[third..third + record].fill(0);
    let path = write(dir.path(), &changed);
    for backend in [Backend::Mmap, Backend::Buffered] {
        let options = OpenOptions { backend, ..OpenOptions::default() };
        let dataset = open_as("blo", &path, &options).unwrap();
        let whole = TilingScheme::try_new(&[5, 5], &[5, 5], 6).unwrap();
        // As where rows at the top are left out.
        let rows = TilingScheme::try_new(&[5, 5], &[2, 5], 6).unwrap();
        let mut reader = dataset.source().reader().unwrap();
        assert!(reader.read(FrameIndices::Run(3..6), &whole.slices()[0]).is_ok());
        for part in [&whole.slices()[0], &rows.slices()[1]] {
            let error = reader.read(FrameIndices::Run(0..6), part).map(|_| ());
            let error = error.unwrap_err();
            assert_eq!((error.kind(), error.frame()), (ErrorKind::BadFile, Some(2)));
            assert!(error.message().contains("expected aa 55"), "{error}");
        }
    }
}

#[test]
fn the_header_tells_about_the_experiment() {
    let dir = tempfile::tempdir().unwrap();
    let whole = bytes(&frames(DType::U16, 6, &[5, 5]), 2, 3, note(DType::U16));
    let path = write(dir.path(), &whole);
    assert_eq!(detect(&path).unwrap().format.name, "blo");
    let dataset = plain("blo", &path).unwrap();
    let facts = &dataset.source().info().metadata;
    for (quantity, value) in [
        (Quantity::ScanStepX, 12.8),
        (Quantity::ScanStepY, 6.4),
        (Quantity::ScanRotation, 90.5),
        (Quantity::AccelerationVoltage, 300.0),
        (Quantity::CameraLength, 115.0),
        (Quantity::PixelSizeX, 200.0),
    ] {
        assert_eq!(facts.get(quantity), Some(&MetadataValue::Number(value)), "{quantity:?}");
    }
    let text = |quantity| match facts.get(quantity) {
        Some(MetadataValue::Text(text)) => text.clone(),
        other => panic!("{other:?}"),
    };
    assert_eq!(text(Quantity::RecordedAt), "2000-03-01T12:00:00");
    assert!(text(Quantity::Note).starts_with("Title: x"));
}

#[test]
fn options() {
    let dir = tempfile::tempdir().unwrap();
    let stored = StoredDType { dtype: DType::U16, order: ByteOrder::Big };
    let path = write(dir.path(), &bytes(&frames(stored, 6, &[4, 4]), 2, 3, note(DType::U16)));
    let open = |options: OpenOptions| open_as("blo", &path, &options);
    let given = OpenOptions {
        nav_shape: Some(vec![6]),
        sig_shape: Some(vec![2, 8]),
        sync_offset: 2,
        ..OpenOptions::default().with("endianess", ByteOrder::Big)
    };
    let dataset = open(given).unwrap();
    assert_eq!(dataset.shape().dims(), [6, 2, 8]);
    assert_eq!(dataset.positions_with_data(), std::slice::from_ref(&(0..4)));
    let wrong = OpenOptions::default().with("endianess", ByteOrder::Little);
    let error = open(wrong).unwrap_err();
    assert!(error.to_string().contains("version 0x0301") && error.offset() == Some(6), "{error}");
    let wrong = OpenOptions { sig_shape: Some(vec![3, 3]), ..OpenOptions::default() };
    assert_eq!(open(wrong).unwrap_err().kind(), ErrorKind::InvalidArgument);
    let unknown = bytes(&frames(DType::U8, 6, &[4, 4]), 2, 3, "Blo Bit Depth: 32 bits");
    let error = plain("blo", &write(dir.path(), &unknown)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
}
