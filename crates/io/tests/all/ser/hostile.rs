//! Files that are cut, or lie about themselves.

use crate::real_files::bytes_of;
use crate::ser::round_trip::{open_bytes, some_frames};
use crate::ser::writer::Series;
use framefold_core::{ErrorKind, FrameIndices, TilingScheme};
use framefold_io::{Backend, OpenOptions};
use proptest::prelude::*;

#[test]
fn a_file_cut_at_every_byte() {
    for long in [false, true] {
        let frames = some_frames(1, 4, &[3, 5]);
        let whole = Series { long, ..Series::of(&frames) }.write(&frames);
        let mut most = 0;
        for len in 0..whole.len() {
            match open_bytes(&whole[..len], &OpenOptions::default()) {
                Ok(dataset) => {
                    let n = dataset.source().info().n_frames as usize;
                    assert!(n >= most && n < 4, "{len}: {n} frames");
                    assert_eq!(bytes_of(&dataset), frames.bytes[..n * frames.frame_bytes()]);
                    assert_eq!(dataset.source().info().warnings.len(), 1);
                    assert_eq!(dataset.shape().nav(), [4]);
                    most = n;
                }
                Err(error) => {
                    assert_eq!(most, 0, "{len}: {error}");
                    assert_eq!(error.kind(), ErrorKind::BadFile, "{len}: {error}");
                    assert!(error.path().is_some() && error.format() == Some("ser"), "{error}");
                }
            }
        }
        assert_eq!(most, 3);
    }
}

#[test]
fn headers_that_lie_are_refused() {
    let frames = some_frames(1, 4, &[3, 5]);
    let whole = Series::of(&frames).write(&frames);
    let first = u32::from_le_bytes(*whole[22..].first_chunk().unwrap()) as usize;
    let element = u32::from_le_bytes(*whole[first..].first_chunk().unwrap()) as usize;
    let cases: [(usize, &[u8], &str); 14] = [
        (0, b"X", "49 49 97 01"),
        (4, &[0x30, 0x02], "10 02"),
        (6, &[0, 0, 0, 0], "0x0000"),
        (18, &[0, 0, 0, 0], "none of the 4"),
        (18, &[0xFF, 0xFF, 0xFF, 0xFF], "-1"),
        (18, &[0xFF, 0xFF, 0xFF, 0x7F], "2147483647"),
        (22, &[0xFF, 0xFF, 0xFF, 0xFF], "4294967295"),
        (26, &[17, 0, 0, 0], "17"),
        (26 + 28, &[0xFF, 0xFF, 0xFF, 0x7F], "description"),
        (first, &[0xFF, 0xFF, 0xFF, 0xFF], "ends within"),
        (element + 40, &[11, 0], "type 11"),
        (element + 42, &[0, 0, 0, 0], "length"),
        (element + 42, &[0xFF, 0xFF, 0xFF, 0x7F, 0xFF, 0xFF, 0xFF, 0x7F], ""),
        // The second offset: the others are there.
        (first + 4, &[0xFF, 0xFF, 0xFF, 0xFF], "element 1"),
    ];
    for (at, bytes, words) in cases {
        let mut lying = whole.clone();
        lying[at..at + bytes.len()].copy_from_slice(bytes);
        let error = open_bytes(&lying, &OpenOptions::default()).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::BadFile, "{at}: {error}");
        assert!(error.to_string().contains(words), "{words}: {error}");
    }
}

#[test]
fn an_element_of_another_size_is_noticed_when_it_is_read() {
    let frames = some_frames(1, 4, &[3, 5]);
    let mut bytes = Series::of(&frames).write(&frames);
    let len = bytes.len();
    // The width of the last element.
    bytes[len - 30 - 8] = 4;
    let dataset = open_bytes(&bytes, &OpenOptions::default()).unwrap();
    let scheme = TilingScheme::try_new(&[3, 5], &[1, 5], 1).unwrap();
    let mut reader = dataset.source().reader().unwrap();
    for slice in scheme.slices() {
        let frames = FrameIndices::Run(0..3);
        assert!(reader.read(frames, slice).is_ok());
        let error = reader.read(FrameIndices::Run(2..4), slice).unwrap_err();
        assert_eq!((error.kind(), error.frame()), (ErrorKind::BadFile, Some(3)), "{error}");
    }
}

/// Reads all that can be read; elements that differ are errors.
fn read_what_is_there(bytes: &[u8], options: &OpenOptions) {
    let Ok(dataset) = open_bytes(bytes, options) else { return };
    let info = dataset.source().info();
    let scheme = TilingScheme::try_new(&info.sig_shape, &info.sig_shape, 1).unwrap();
    let mut reader = dataset.source().reader().unwrap();
    for frame in 0..info.n_frames {
        let result = reader.read(FrameIndices::Run(frame..frame + 1), &scheme.slices()[0]);
        assert!(result.is_ok() || result.unwrap_err().kind() == ErrorKind::BadFile);
    }
}

#[test]
fn every_byte_may_lie() {
    let frames = some_frames(1, 3, &[2, 3]);
    let whole = Series::of(&frames).write(&frames);
    for at in 0..whole.len() {
        for value in [0, 0x7F, 0xFF] {
            let mut bytes = whole.clone();
            bytes[at] = value;
            read_what_is_there(&bytes, &OpenOptions::default());
        }
    }
}

proptest! {
    /// Whatever the bytes, there is an answer and no panic.
    #[test]
    fn noise_anywhere(
        long in any::<bool>(),
        changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
    ) {
        let frames = some_frames(1, 3, &[2, 3]);
        let mut bytes = Series { long, ..Series::of(&frames) }.write(&frames);
        for (place, value) in &changes {
            let place = place.index(bytes.len());
            bytes[place] = *value;
        }
        for backend in [Backend::Mmap, Backend::Buffered] {
            let options = OpenOptions { backend, ..OpenOptions::default() };
            read_what_is_there(&bytes, &options);
        }
    }
}
