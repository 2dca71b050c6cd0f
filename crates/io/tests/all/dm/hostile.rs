//! Files that are cut, or lie about themselves.

use crate::dm::round_trip::open_bytes;
use crate::dm::writer::{Image, Writer, file};
use crate::real_files::bytes_of;
use framefold_core::{ByteOrder, DType, ErrorKind};
use framefold_io::{Backend, OpenOptions};
use proptest::prelude::*;

fn small_file(version: u32) -> Vec<u8> {
    let bytes: Vec<u8> = (0..3 * 4 * 5 * 2).map(|i| i as u8).collect();
    let image = Image {
        swapped: Some(true),
        format: Some("Image"),
        ..Image::new(DType::U16.into(), &[5, 4, 3], &bytes)
    };
    let picture = Image::new(DType::U8.into(), &[2, 3], &[9; 6]);
    file(version, ByteOrder::Little, &[picture, image], 1)
}

#[test]
fn a_file_cut_at_every_byte() {
    for version in [3, 4] {
        let whole = small_file(version);
        let expected = bytes_of(&open_bytes(&whole, &OpenOptions::default()).unwrap());
        for len in 0..whole.len() {
            match open_bytes(&whole[..len], &OpenOptions::default()) {
                // Nothing but what follows the last tag is missing.
                Ok(dataset) => {
                    assert!(len + 8 >= whole.len(), "{len}");
                    assert_eq!(bytes_of(&dataset), expected);
                }
                Err(error) => {
                    assert_eq!(error.kind(), ErrorKind::BadFile, "{len}: {error}");
                    assert!(error.path().is_some() && error.format() == Some("dm"), "{error}");
                    assert!(error.offset().is_some(), "{len}: {error}");
                }
            }
        }
    }
}

#[test]
fn a_large_image_cut_at_every_37th_byte() {
    let image = Image::new(DType::U8.into(), &[40, 50, 3], &[7; 6000]);
    let whole = file(4, ByteOrder::Little, &[image], 0);
    for len in (0..whole.len() - 8).step_by(37) {
        let error = open_bytes(&whole[..len], &OpenOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadFile, "{len}: {error}");
    }
}

/// A file whose root group has one entry, made by `content`.
fn with_entry(version: u32, kind: u8, name: &str, content: impl FnOnce(&mut Writer)) -> Vec<u8> {
    let mut writer = Writer::new(version, ByteOrder::Little);
    writer.group_start(1);
    writer.entry(kind, name, content);
    writer.finish()
}

#[test]
fn tags_that_lie_are_refused() {
    let refused = |bytes: &[u8], kind: ErrorKind, words: &str| {
        let error = open_bytes(bytes, &OpenOptions::default()).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words), "{words}: {error}");
    };
    use ErrorKind::{BadFile, Limit, Unsupported};
    for version in [3, 4] {
        let value = |words: &[u64]| with_entry(version, 21, "x", |w| w.described(words));
        let most = if version == 3 { u64::from(u32::MAX) } else { u64::MAX };
        refused(&value(&[20, 5, most]), BadFile, "");
        refused(&value(&[20, 15, 0, 1, 0, 7, most]), BadFile, "");
        refused(&value(&[20, 4, most]), BadFile, "");
        refused(&value(&[18, most]), BadFile, "");
        refused(&value(&[15, 0, most, 0, 3]), Unsupported, "[15, 0, ");
        refused(&value(&[]), BadFile, "0 words");
        refused(&with_entry(version, 21, "x", |w| w.raw(b"%%%x")), BadFile, "'%%%%'");
        refused(&with_entry(version, 22, "x", |_| ()), BadFile, "kind 22");
        let words = with_entry(version, 21, "x", |w| {
            w.raw(b"%%%%");
            w.word(most);
        });
        refused(&words, BadFile, "words");
        let entries = with_entry(version, 20, "ImageList", |w| w.group_start(most));
        // What follows the last tag is zeros.
        refused(&entries, BadFile, "a group of tags ends after 0 entries");
        let mut deep = Writer::new(version, ByteOrder::Little);
        for _ in 0..100 {
            deep.group_start(1);
            deep.raw(&[20, 0, 0]);
            deep.raw(if version == 4 { &[0; 8] } else { &[] });
        }
        refused(&deep.finish(), Limit, "64");
        let mut many = Writer::new(version, ByteOrder::Little);
        many.group_start(most);
        for _ in 0..1_100_000 {
            many.raw(&[20, 0, 0]);
            many.raw(if version == 4 { &[0; 8] } else { &[] });
            many.group_start(0);
        }
        refused(&many.finish(), Limit, "tags");
    }
    refused(b"\0\0\0\x05\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\0", BadFile, "DM3 or DM4");
    refused(b"\0\0\0\x03\0\0\0\0\0\0\0\x02\0\0\0\0\0\0\0\0", BadFile, "DM3 or DM4");
}

#[test]
fn images_that_lie_are_refused() {
    let refused = |image: Image, kind: ErrorKind, words: &str| {
        let bytes = file(4, ByteOrder::Little, &[image], 0);
        let error = open_bytes(&bytes, &OpenOptions::default()).unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
        assert!(error.to_string().contains(words), "{words}: {error}");
    };
    let image = |lengths: &[usize]| Image::new(DType::U16.into(), lengths, &[1; 24]);
    refused(image(&[3, 5]), ErrorKind::BadFile, "[5, 3]");
    // Fewer pixels than there are, and such of fewer bytes.
    refused(image(&[3, 3]), ErrorKind::BadFile, "[3, 3] in uint16, but its data are 12 elements");
    let bytes = Image { code: Some(6), ..image(&[3, 4]) };
    refused(bytes, ErrorKind::BadFile, "[4, 3] in uint8, but its data are 12 elements in 24 bytes");
    refused(image(&[3, 0]), ErrorKind::BadFile, "length");
    refused(image(&[]), ErrorKind::BadFile, "0 axes");
    refused(image(&[1; 9]), ErrorKind::BadFile, "9 axes");
    refused(image(&[4_000_000_000; 4]), ErrorKind::BadFile, "bytes");
    for code in [0, 4, 5, 28, 99] {
        let image = Image { code: Some(code), ..image(&[3, 4]) };
        refused(image, ErrorKind::Unsupported, &format!("type {code}"));
    }
    // Pixels of more bytes than there are.
    refused(Image { code: Some(13), ..image(&[3, 4]) }, ErrorKind::BadFile, "complex128");
}

#[test]
fn every_byte_may_lie() {
    let whole = small_file(4);
    for at in 0..whole.len() {
        for value in [0, 0x7F, 0xFF] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            if let Ok(dataset) = open_bytes(&bytes, &OpenOptions::default()) {
                bytes_of(&dataset);
            }
        }
    }
}

proptest! {
    /// Whatever the bytes, there is an answer and no panic.
    #[test]
    fn noise_anywhere(
        version in 3u32..5,
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let mut bytes = small_file(version);
        for (place, value) in &changes {
            let place = place.index(bytes.len());
            bytes[place] = *value;
        }
        for backend in [Backend::Mmap, Backend::Buffered] {
            let options = OpenOptions { backend, ..OpenOptions::default() };
            if let Ok(dataset) = open_bytes(&bytes, &options) {
                bytes_of(&dataset);
            }
        }
    }
}
