//! Sets of several files, with and without gaps, through a decoder or plain.

use crate::oracle::{Frames, any_frames, any_questions, check, compare};
use framefold_core::{
    DType, DataSource, Error, ErrorKind, FrameIndices, MetadataList, Presence, Result, SigSlice,
    StoredDType, TilingScheme,
};
use framefold_io::{
    Backend, FrameDecoder, LinearFile, LinearSource, LinearSpec, Pixels, PlainDecoder, Storage,
};
use proptest::prelude::*;
use std::ops::Range;
use std::path::Path;
use std::sync::Arc;

/// Pixels whose bits are all flipped in the file.
#[derive(Debug)]
struct Flipped(PlainDecoder);

impl FrameDecoder for Flipped {
    fn stored_len(&self) -> usize {
        self.0.stored_len()
    }
    fn stored_range(&self, _: &SigSlice) -> Range<usize> {
        0..self.0.stored_len()
    }
    fn decode(&self, stored: &[u8], sig: &SigSlice, out: &mut [u8]) -> Result<()> {
        let stored: Vec<u8> = stored.iter().map(|byte| !byte).collect();
        self.0.decode(&stored[self.0.stored_range(sig)], sig, out)
    }
}

fn linear_file(path: &Path, backend: Backend, frames: Range<u64>, stride: usize) -> LinearFile {
    let storage = Storage::open(path, backend).unwrap();
    LinearFile { storage, frames, first_pixel: 3, stride: stride as u64 }
}

fn spec(frames: &Frames, files: Vec<LinearFile>) -> LinearSpec {
    LinearSpec {
        format: "test",
        files,
        pixels: Pixels::Plain { stored: frames.stored },
        sig_shape: frames.sig_shape.clone(),
        nav_shape: vec![frames.n_frames],
        metadata: MetadataList::new(),
        details: Vec::new(),
        warnings: Vec::new(),
    }
}

proptest! {
    #[test]
    fn files_with_gaps_between_them(
        frames in any_frames(),
        ask in any_questions(),
        // What becomes of each frame: starts a new file, goes on in the same one, is missing.
        fates in prop::collection::vec(0u8..3, 9),
        gap in 0usize..4,
        flipped in any::<bool>(),
        backend in prop::sample::select(vec![Backend::Mmap, Backend::Buffered]),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let mut ranges: Vec<Range<usize>> = Vec::new();
        for (frame, fate) in fates.iter().take(frames.n_frames).enumerate() {
            match (fate, ranges.last_mut()) {
                (0, Some(last)) if last.end == frame => last.end += 1,
                (2, _) => {}
                _ => ranges.push(frame..frame + 1),
            }
        }
        prop_assume!(!ranges.is_empty());
        let stride = frames.frame_bytes() + gap;
        let mut files = Vec::new();
        for (i, range) in ranges.iter().enumerate() {
            let mut bytes = vec![0xA5; 3];
            for frame in range.clone() {
                let flip = if flipped { 0xFF } else { 0 };
                bytes.extend(frames.frame(frame).iter().map(|byte| byte ^ flip));
                bytes.extend(vec![0xA5; gap]);
            }
            let path = dir.path().join(format!("{i}.bin"));
            std::fs::write(&path, bytes).unwrap();
            files.push(linear_file(&path, backend, range.start as u64..range.end as u64, stride));
        }
        let mut spec = spec(&frames, files);
        if flipped {
            let decoder = Flipped(PlainDecoder::new(frames.stored, &frames.sig_shape));
            spec.pixels = Pixels::Coded { decoder: Arc::new(decoder), stored: frames.stored };
        }
        let source = LinearSource::try_new(spec).unwrap();
        let present: Vec<u64> = ranges.iter().flat_map(Clone::clone).map(|f| f as u64).collect();
        let last = *present.last().unwrap();
        prop_assert_eq!(source.info().n_frames, last + 1);
        let listed: Vec<u64> = match &source.info().presence {
            Presence::All => (0..=last).collect(),
            Presence::Ranges(ranges) => ranges.iter().flat_map(Clone::clone).collect(),
        };
        prop_assert_eq!(&listed, &present);
        check(&source, &frames, &present, &ask);
    }
}

/// Frames that are long enough, and as many, for several to be decoded side by side.
#[test]
fn longer_frames_at_odd_addresses() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.bin");
    for dtype in ["|b1", "<u2", ">u2", "<f4", ">c8"] {
        let frames = Frames::random(StoredDType::parse(dtype).unwrap(), 11, &[64, 67], 4);
        std::fs::write(&path, [&[0xA5; 3][..], &frames.bytes].concat()).unwrap();
        for backend in [Backend::Mmap, Backend::Buffered] {
            let file = linear_file(&path, backend, 0..11, frames.frame_bytes());
            let source = LinearSource::try_new(spec(&frames, vec![file])).unwrap();
            let scheme = TilingScheme::try_new(&[64, 67], &[63, 67], 1).unwrap();
            let mut reader = source.reader().unwrap();
            for slice in scheme.slices() {
                for run in [0..11, 1..10, 3..4] {
                    compare(reader.as_mut(), &FrameIndices::Run(run), slice, &frames);
                }
            }
        }
    }
}

#[test]
fn sets_that_contradict_themselves() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.bin");
    let frames = Frames::random(DType::U8.into(), 4, &[5, 5], 3);
    std::fs::write(&path, vec![0; 103]).unwrap();
    let open = |parts: &[(Range<u64>, u64, u64)]| {
        let files = parts.iter().map(|(range, first_pixel, stride)| LinearFile {
            first_pixel: *first_pixel,
            stride: *stride,
            ..linear_file(&path, Backend::Mmap, range.clone(), 25)
        });
        LinearSource::try_new(spec(&frames, files.collect())).map_err(|error| error.kind())
    };
    assert!(open(&[(0..4, 3, 25)]).is_ok());
    assert_eq!(open(&[(0..4, 4, 25)]).unwrap_err(), ErrorKind::BadFile);
    assert_eq!(open(&[(0..5, 3, 25)]).unwrap_err(), ErrorKind::BadFile);
    assert_eq!(open(&[(0..2, 3, u64::MAX)]).unwrap_err(), ErrorKind::BadFile);
    assert_eq!(open(&[(0..u64::MAX, 3, 25)]).unwrap_err(), ErrorKind::BadFile);
    assert_eq!(open(&[(0..4, 3, 25), (3..5, 3, 25)]).unwrap_err(), ErrorKind::BadFile);
    assert_eq!(open(&[(4..6, 3, 25), (0..2, 3, 25)]).unwrap_err(), ErrorKind::BadFile);
    assert_eq!(open(&[(0..4, 3, 24)]).unwrap_err(), ErrorKind::Bug);
    assert_eq!(open(&[]).unwrap_err(), ErrorKind::Bug);
}

#[test]
fn errors_of_a_decoder_name_the_place() {
    #[derive(Debug)]
    struct Picky;
    impl FrameDecoder for Picky {
        fn stored_len(&self) -> usize {
            25
        }
        fn stored_range(&self, _: &SigSlice) -> Range<usize> {
            0..25
        }
        fn decode(&self, stored: &[u8], _: &SigSlice, _: &mut [u8]) -> Result<()> {
            if stored[0] == 9 { Err(Error::bad_file("found 9")) } else { Ok(()) }
        }
    }
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("a.bin");
    let mut bytes = vec![0; 103];
    bytes[3 + 2 * 25] = 9;
    std::fs::write(&path, bytes).unwrap();
    let frames = Frames::random(DType::U8.into(), 4, &[5, 5], 3);
    for backend in [Backend::Mmap, Backend::Buffered] {
        let mut spec = spec(&frames, vec![linear_file(&path, backend, 10..14, 25)]);
        spec.pixels = Pixels::Coded { decoder: Arc::new(Picky), stored: frames.stored };
        let source = LinearSource::try_new(spec).unwrap();
        let scheme = framefold_core::TilingScheme::try_new(&[5, 5], &[5, 5], 4).unwrap();
        let mut reader = source.reader().unwrap();
        let run = framefold_core::FrameIndices::Run(10..14);
        let error = reader.read(run, &scheme.slices()[0]).unwrap_err();
        assert_eq!((error.frame(), error.offset()), (Some(12), Some(53)), "{error}");
        assert_eq!(error.path(), Some(path.as_path()));
    }
}
