//! MRC files, and movies of Direct Electron cameras.

use crate::contiguous::{any_of, check, frames, hostile, plain};
use crate::oracle::{Frames, any_questions};
use framefold_core::{ByteOrder, DType, ErrorKind, MetadataValue, Quantity, StoredDType};
use framefold_io::{OpenOptions, detect, open_as};
use proptest::prelude::*;
use std::path::{Path, PathBuf};

const MODES: [(DType, i32); 6] = [
    (DType::I8, 0),
    (DType::I16, 1),
    (DType::F32, 2),
    (DType::C64, 4),
    (DType::U16, 6),
    (DType::F16, 12),
];

/// A file with these frames, and an extended header of as many bytes.
pub fn bytes(frames: &Frames, extended: usize, map: &[u8; 4]) -> Vec<u8> {
    let big = frames.stored.order == ByteOrder::Big && frames.stored.dtype.size() > 1;
    let mode = MODES.iter().find(|(dtype, _)| *dtype == frames.stored.dtype).unwrap().1;
    let mut header = vec![0; 1024 + extended];
    let mut put = |at: usize, value: i32| {
        let bytes = if big { value.to_be_bytes() } else { value.to_le_bytes() };
        header[at..at + 4].copy_from_slice(&bytes);
    };
    let number = |n: usize| i32::try_from(n).unwrap();
    put(0, number(frames.sig_shape[1]));
    put(4, number(frames.sig_shape[0]));
    put(8, number(frames.n_frames));
    put(12, mode);
    put(28, 4);
    put(32, 2);
    put(40, i32::from_ne_bytes(8f32.to_ne_bytes()));
    put(44, i32::from_ne_bytes(8f32.to_ne_bytes()));
    put(92, number(extended));
    put(220, 1);
    header[208..212].copy_from_slice(map);
    header[212..214].copy_from_slice(if big { &[0x11, 0x11] } else { &[0x44, 0x44] });
    header[224..229].copy_from_slice(b"hello");
    header[1024..].fill(0xA5);
    header.extend(&frames.bytes);
    header
}

fn write(dir: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

proptest! {
    #[test]
    fn equals_what_was_written(
        dtype in any_of(&[DType::I8, DType::I16, DType::F32, DType::C64, DType::U16, DType::F16]),
        big in any::<bool>(),
        n_frames in 1usize..8,
        sig in prop::collection::vec(1usize..9, 2),
        extended in prop_oneof![Just(0usize), Just(160), 0usize..99],
        seed in any::<u64>(),
        ask in any_questions(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let order = if big && dtype.size() > 1 { ByteOrder::Big } else { ByteOrder::Little };
        let frames = Frames::random(StoredDType { dtype, order }, n_frames, &sig, seed);
        let path = write(dir.path(), "scan.mrc", &bytes(&frames, extended, b"MAP "));
        let lends = order == ByteOrder::Little && extended.is_multiple_of(dtype.swap_size());
        check("mrc", &path, &frames, &ask, lends);
    }
}

#[test]
fn cut_and_lying_files() {
    let dir = tempfile::tempdir().unwrap();
    let path = write(dir.path(), "scan.mrc", &bytes(&frames(DType::U16, 4, &[6, 5]), 80, b"MAP "));
    hostile::cut_everywhere("mrc", &path, 1024 + 80);
    hostile::lie_everywhere("mrc", &path, 230);
}

#[test]
fn files_are_recognized_with_and_without_their_mark() {
    let dir = tempfile::tempdir().unwrap();
    let frames = frames(DType::F32, 2, &[3, 5]);
    let marked = write(dir.path(), "a.bin", &bytes(&frames, 0, b"MAP "));
    assert_eq!(detect(&marked).unwrap().format.name, "mrc");
    let old = write(dir.path(), "b.mrc", &bytes(&frames, 0, &[0; 4]));
    assert_eq!(detect(&old).unwrap().format.name, "mrc");
    let unnamed = write(dir.path(), "b.bin", &bytes(&frames, 0, &[0; 4]));
    assert!(detect(&unnamed).is_err());
    let zeros = write(dir.path(), "c.mrc", &[0; 4000]);
    let error = detect(&zeros).unwrap_err().to_string();
    assert!(error.contains("the number of columns is 0"), "{error}");
}

#[test]
fn pixels_of_8_bits_have_a_sign_unless_something_says_otherwise() {
    let dir = tempfile::tempdir().unwrap();
    let signed = bytes(&frames(DType::I8, 2, &[3, 5]), 0, b"MAP ");
    let path = write(dir.path(), "a.mrc", &signed);
    let dtype = |path: &Path| plain("mrc", path).unwrap().source().info().dtype.dtype;
    assert_eq!(dtype(&path), DType::I8);
    let mut imod = signed.clone();
    imod[152..156].copy_from_slice(&1_146_047_817i32.to_le_bytes());
    assert_eq!(dtype(&write(dir.path(), "b.mrc", &imod)), DType::U8);
    imod[156] = 1;
    assert_eq!(dtype(&write(dir.path(), "b.mrc", &imod)), DType::I8);
    let option = |dtype: DType| OpenOptions::default().with("dtype", dtype);
    let dataset = open_as("mrc", &path, &option(DType::U8)).unwrap();
    assert_eq!(dataset.source().info().dtype.dtype, DType::U8);
    let error = open_as("mrc", &path, &option(DType::U16)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::InvalidArgument);
    assert!(error.message().contains("int8 or uint8"), "{error}");
}

#[test]
fn the_byte_order_is_that_of_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let big = StoredDType { dtype: DType::I16, order: ByteOrder::Big };
    let option = |dtype: StoredDType| OpenOptions::default().with("dtype", dtype);
    for stored in [big, DType::I16.into()] {
        let frames = Frames::random(stored, 2, &[3, 5], 3);
        let path = write(dir.path(), "a.mrc", &bytes(&frames, 0, b"MAP "));
        let given = open_as("mrc", &path, &option(big));
        match stored.order {
            ByteOrder::Big => assert_eq!(given.unwrap().source().info().dtype, stored),
            ByteOrder::Little => {
                let error = given.unwrap_err();
                assert_eq!(error.kind(), ErrorKind::InvalidArgument);
                assert!(error.message().contains("byte order"), "{error}");
            }
        }
        let plain = open_as("mrc", &path, &option(DType::I16.into())).unwrap();
        assert_eq!(plain.source().info().dtype, stored);
    }
}

#[test]
fn modes_that_are_not_read() {
    let dir = tempfile::tempdir().unwrap();
    let mut whole = bytes(&frames(DType::F32, 2, &[3, 5]), 0, b"MAP ");
    let unsupported = [3, 16, 101, 1002].map(|mode| (mode, ErrorKind::Unsupported));
    for (mode, kind) in unsupported.into_iter().chain([(77, ErrorKind::BadFile)]) {
        whole[12..14].copy_from_slice(&u16::to_le_bytes(mode));
        let error = plain("auto", &write(dir.path(), "a.mrc", &whole)).unwrap_err();
        assert_eq!((error.kind(), error.offset()), (kind, Some(12)), "{error}");
    }
}

#[test]
fn numbers_of_images_that_are_not_true() {
    let dir = tempfile::tempdir().unwrap();
    let mut whole = bytes(&frames(DType::F32, 2, &[3, 5]), 0, b"MAP ");
    whole[8..12].copy_from_slice(&32_766i32.to_le_bytes());
    let dataset = plain("mrc", &write(dir.path(), "a.mrc", &whole)).unwrap();
    assert_eq!(dataset.shape().nav(), [2]);
    assert!(dataset.source().info().warnings[0].contains("promises 32766 frames, but only 2"));
}

#[test]
fn the_header_tells_about_the_experiment() {
    let dir = tempfile::tempdir().unwrap();
    let whole = bytes(&frames(DType::F32, 2, &[3, 5]), 0, b"MAP ");
    let dataset = plain("mrc", &write(dir.path(), "a.mrc", &whole)).unwrap();
    let facts = &dataset.source().info().metadata;
    assert_eq!(facts.get(Quantity::ImageStepX), Some(&MetadataValue::Number(0.2)));
    assert_eq!(facts.get(Quantity::ImageStepY), Some(&MetadataValue::Number(0.4)));
    assert_eq!(facts.get(Quantity::Title), Some(&MetadataValue::Text("hello".into())));
}

#[test]
fn movies_take_the_scan_from_the_text_beside_them() {
    let dir = tempfile::tempdir().unwrap();
    let whole = bytes(&frames(DType::U16, 6, &[3, 5]), 0, b"MAP ");
    let info = "Camera Model = DESim\nScan - Enable = Enable\nScan - Type = Raster\n\
                Scan - Size X = 3\nScan - Size Y = 2\nInstrument Accelerating Voltage (V) = 200000\n";
    write(dir.path(), "20250101_00001_info.txt", info.as_bytes());
    for name in ["20250101_00001_movie.mrc", "20250101_00001_x_0_movie.mrc"] {
        let dataset = plain("auto", &write(dir.path(), name, &whole)).unwrap();
        assert_eq!(dataset.shape().nav(), [2, 3], "{name}");
        let facts = &dataset.source().info().metadata;
        let voltage = facts.get(Quantity::AccelerationVoltage);
        assert_eq!(voltage, Some(&MetadataValue::Number(200.0)));
    }
    let sum = plain("auto", &write(dir.path(), "20250101_00001_final.mrc", &whole)).unwrap();
    assert_eq!(sum.shape().nav(), [6]);
}
