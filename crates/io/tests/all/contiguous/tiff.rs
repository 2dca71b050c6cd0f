//! TIFF stacks in every byte order, offset size and layout, whole and damaged.

use crate::contiguous::{any_of, check, frames, hostile, plain, read_all};
use crate::oracle::{Frames, any_questions};
use framefold_core::{ByteOrder, DType, ErrorKind, StoredDType};
use framefold_io::{OpenOptions, detect, open, open_as};
use proptest::prelude::*;
use std::path::{Path, PathBuf};

#[derive(Clone, Copy, Debug, PartialEq)]
enum Coding {
    Plain,
    Deflate,
    PackBits,
    Zstd,
}

#[derive(Clone, Copy, Debug)]
struct How {
    is_big: bool,
    /// Rows of a strip, or height and width of tiles.
    rows: usize,
    tile: Option<(usize, usize)>,
    coding: Coding,
}

struct Writer {
    bytes: Vec<u8>,
    order: ByteOrder,
    is_big: bool,
}

impl Writer {
    fn number(&self, value: usize, size: usize) -> Vec<u8> {
        match self.order {
            ByteOrder::Little => value.to_le_bytes()[..size].to_vec(),
            ByteOrder::Big => value.to_be_bytes()[8 - size..].to_vec(),
        }
    }

    fn word(&self) -> usize {
        if self.is_big { 8 } else { 4 }
    }

    /// Puts numbers somewhere, or into the entry itself.
    fn entry(&mut self, tag: usize, kind: usize, values: &[usize]) -> Vec<u8> {
        let size = match kind {
            3 => 2,
            4 => 4,
            _ => 8,
        };
        let mut value: Vec<u8> = values.iter().flat_map(|&v| self.number(v, size)).collect();
        if value.len() > self.word() {
            let at = self.bytes.len();
            self.bytes.extend(value);
            value = self.number(at, self.word());
        }
        value.resize(self.word(), 0);
        [self.number(tag, 2), self.number(kind, 2), self.number(values.len(), self.word()), value]
            .concat()
    }
}

fn encode(coding: Coding, chunk: &[u8]) -> Vec<u8> {
    match coding {
        Coding::Plain => chunk.to_vec(),
        Coding::Deflate => {
            let mut tool = libdeflater::Compressor::new(libdeflater::CompressionLvl::default());
            let mut out = vec![0; tool.zlib_compress_bound(chunk.len())];
            let n = tool.zlib_compress(chunk, &mut out).unwrap();
            out.truncate(n);
            out
        }
        Coding::Zstd => zstd::bulk::compress(chunk, 1).unwrap(),
        Coding::PackBits => {
            let pieces = chunk.chunks(100);
            pieces.flat_map(|piece| [&[piece.len() as u8 - 1], piece].concat()).collect()
        }
    }
}

/// The strips or tiles of a frame; tiles are filled up.
fn chunks(frames: &Frames, frame: usize, how: How) -> Vec<Vec<u8>> {
    let (height, width, size) = (frames.sig_shape[0], frames.sig_shape[1], frames.size());
    let pixels = frames.frame(frame);
    let Some((rows, columns)) = how.tile else {
        return pixels.chunks(how.rows * width * size).map(<[u8]>::to_vec).collect();
    };
    let mut tiles = Vec::new();
    for y in (0..height).step_by(rows) {
        for x in (0..width).step_by(columns) {
            let mut tile = vec![0xEE; rows * columns * size];
            for (i, row) in (y..height.min(y + rows)).enumerate() {
                let n = columns.min(width - x) * size;
                let from = (row * width + x) * size;
                tile[i * columns * size..][..n].copy_from_slice(&pixels[from..from + n]);
            }
            tiles.push(tile);
        }
    }
    tiles
}

/// Writes pixels, then the directory, page after page.
fn bytes(frames: &Frames, how: How) -> Vec<u8> {
    let order = frames.stored.order;
    let mut writer = Writer { bytes: Vec::new(), order, is_big: how.is_big };
    writer.bytes.extend(if order == ByteOrder::Little { b"II" } else { b"MM" });
    writer.bytes.extend(writer.number(if how.is_big { 43 } else { 42 }, 2));
    if how.is_big {
        writer.bytes.extend([writer.number(8, 2), writer.number(0, 2)].concat());
    }
    let mut link = writer.bytes.len();
    writer.bytes.extend(vec![0; writer.word()]);
    for frame in 0..frames.n_frames {
        let (mut offsets, mut lens) = (Vec::new(), Vec::new());
        for chunk in chunks(frames, frame, how) {
            let stored = encode(how.coding, &chunk);
            offsets.push(writer.bytes.len());
            lens.push(stored.len());
            writer.bytes.extend(stored);
        }
        let long = if how.is_big { 16 } else { 4 };
        let format = match frames.stored.dtype {
            dtype if dtype.is_complex() => 6,
            dtype if dtype.is_float() => 3,
            DType::I8 | DType::I16 | DType::I32 | DType::I64 => 2,
            _ => 1,
        };
        let compression = match how.coding {
            Coding::Plain => 1,
            Coding::Deflate => 8,
            Coding::PackBits => 32773,
            Coding::Zstd => 50000,
        };
        let mut entries = vec![
            writer.entry(256, 3, &[frames.sig_shape[1]]),
            writer.entry(257, 3, &[frames.sig_shape[0]]),
            writer.entry(258, 3, &[8 * frames.size()]),
            writer.entry(259, 3, &[compression]),
            writer.entry(339, 3, &[format]),
        ];
        match how.tile {
            None => {
                entries.push(writer.entry(273, long, &offsets));
                entries.push(writer.entry(278, 3, &[how.rows]));
                entries.push(writer.entry(279, long, &lens));
            }
            Some((rows, columns)) => {
                entries.push(writer.entry(322, 3, &[columns]));
                entries.push(writer.entry(323, 3, &[rows]));
                entries.push(writer.entry(324, long, &offsets));
                entries.push(writer.entry(325, long, &lens));
            }
        }
        let at = writer.number(writer.bytes.len(), writer.word());
        writer.bytes[link..link + at.len()].copy_from_slice(&at);
        let count = writer.number(entries.len(), if how.is_big { 8 } else { 2 });
        writer.bytes.extend(count);
        writer.bytes.extend(entries.concat());
        link = writer.bytes.len();
        writer.bytes.extend(vec![0; writer.word()]);
    }
    writer.bytes
}

fn write(dir: &Path, name: &str, bytes: &[u8]) -> PathBuf {
    let path = dir.join(name);
    std::fs::write(&path, bytes).unwrap();
    path
}

const PLAIN: How = How { is_big: false, rows: 3, tile: None, coding: Coding::Plain };

fn any_how() -> impl Strategy<Value = How> {
    let coding =
        prop::sample::select(vec![Coding::Plain, Coding::Deflate, Coding::PackBits, Coding::Zstd]);
    let tile = prop::option::of((1usize..6, 1usize..6));
    (any::<bool>(), 1usize..12, tile, coding).prop_map(|(is_big, rows, tile, coding)| How {
        is_big,
        rows,
        tile,
        coding,
    })
}

proptest! {
    #[test]
    fn equals_what_was_written(
        dtype in any_of(&[
            DType::U8, DType::U16, DType::U32, DType::U64, DType::I8, DType::I16, DType::I32,
            DType::I64, DType::F16, DType::F32, DType::F64, DType::C64, DType::C128,
        ]),
        big_endian in any::<bool>(),
        how in any_how(),
        n_frames in 1usize..8,
        sig in prop::collection::vec(1usize..12, 2),
        seed in any::<u64>(),
        ask in any_questions(),
    ) {
        let dir = tempfile::tempdir().unwrap();
        let order = if big_endian { ByteOrder::Big } else { ByteOrder::Little };
        let frames = Frames::random(StoredDType { dtype, order }, n_frames, &sig, seed);
        let path = write(dir.path(), "a.tif", &bytes(&frames, how));
        assert_eq!(detect(&path).unwrap().format.name, "tiff");
        let one_tile = how.tile.is_some_and(|(rows, columns)| sig == [rows, columns]);
        let in_order = how.coding == Coding::Plain && (how.tile.is_none() || one_tile);
        let lends = if !in_order || !frames.stored.is_native() {
            Some(false)
        } else if dtype.size() == 1 {
            Some(true)
        } else {
            None
        };
        check("tiff", &path, &frames, &ask, lends);
        // The same frames, each in a file of its own.
        let files: Vec<PathBuf> = (0..n_frames)
            .map(|i| {
                let one = Frames { n_frames: 1, bytes: frames.frame(i).to_vec(), ..frames.clone() };
                write(dir.path(), &format!("{i}.tiff"), &bytes(&one, how))
            })
            .collect();
        let options = OpenOptions { files: files.clone(), ..OpenOptions::default() };
        let stack = open_as("tiff", &files[0], &options).unwrap();
        crate::oracle::check(stack.source().as_ref(), &frames, &crate::oracle::all(n_frames), &ask);
        framefold_testkit::check_source(stack.source().as_ref()).unwrap();
    }
}

#[test]
fn files_that_are_cut() {
    let dir = tempfile::tempdir().unwrap();
    for coding in [Coding::Plain, Coding::Deflate, Coding::PackBits] {
        for is_big in [false, true] {
            let how = How { is_big, coding, ..PLAIN };
            let path = write(dir.path(), "a.tif", &bytes(&frames(DType::U16, 4, &[7, 9]), how));
            hostile::cut_everywhere("tiff", &path, 400);
        }
    }
}

#[test]
fn files_that_lie() {
    let dir = tempfile::tempdir().unwrap();
    for how in [
        PLAIN,
        How { is_big: true, ..PLAIN },
        How { coding: Coding::Deflate, tile: Some((4, 4)), ..PLAIN },
        How { coding: Coding::PackBits, ..PLAIN },
    ] {
        let written = bytes(&frames(DType::U16, 2, &[7, 9]), how);
        let path = write(dir.path(), "a.tif", &written);
        hostile::lie_everywhere("tiff", &path, written.len());
    }
}

#[test]
fn chains_that_lead_back_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let mut written = bytes(&frames(DType::U16, 3, &[7, 9]), PLAIN);
    let first: [u8; 4] = written[4..8].try_into().unwrap();
    let end = written.len();
    written[end - 4..].copy_from_slice(&first);
    let error = plain("tiff", &write(dir.path(), "a.tif", &written)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::BadFile);
    assert!(error.message().contains("leads back"), "{error}");
}

#[test]
fn a_page_that_is_not_all_there_is_missing() {
    let dir = tempfile::tempdir().unwrap();
    let frames = frames(DType::U16, 3, &[7, 9]);
    let how = How { rows: 7, coding: Coding::Deflate, ..PLAIN };
    let mut written = bytes(&frames, how);
    // The second of three directories: the offset of its strip leaves the file.
    let entries: Vec<usize> =
        (0..written.len() - 4).filter(|&i| written[i..].starts_with(&[0x11, 1, 4, 0])).collect();
    written[entries[1] + 8..][..4].copy_from_slice(&[0xff; 4]);
    let dataset = plain("tiff", &write(dir.path(), "a.tif", &written)).unwrap();
    let info = dataset.source().info();
    assert_eq!(dataset.positions_with_data(), [0..1, 2..3]);
    assert!(info.warnings[0].contains("1 of its 3 pages, the first of them page 1"), "{info:?}");
    let read = read_all(&dataset).unwrap();
    assert_eq!(read, [(0, frames.frame(0).to_vec()), (2, frames.frame(2).to_vec())]);
}

#[test]
fn a_strip_that_does_not_decode_names_its_place() {
    let dir = tempfile::tempdir().unwrap();
    let mut written =
        bytes(&frames(DType::U16, 2, &[7, 9]), How { coding: Coding::Deflate, ..PLAIN });
    written[12..20].fill(0xff);
    let path = write(dir.path(), "a.tif", &written);
    let error = read_all(&plain("tiff", &path).unwrap()).unwrap_err();
    assert_eq!(
        (error.kind(), error.path(), error.offset()),
        (ErrorKind::BadFile, Some(&*path), Some(8))
    );
}

#[test]
fn folders_are_stacks_in_natural_order() {
    let dir = tempfile::tempdir().unwrap();
    let frames = frames(DType::U16, 12, &[7, 9]);
    for i in 0..12 {
        let one = Frames { n_frames: 1, bytes: frames.frame(i).to_vec(), ..frames.clone() };
        write(dir.path(), &format!("img{i}.tif"), &bytes(&one, PLAIN));
    }
    assert_eq!(detect(dir.path()).unwrap().format.name, "tiff");
    let dataset = open(dir.path(), &OpenOptions::default()).unwrap();
    let read = read_all(&dataset).unwrap();
    for (i, (frame, bytes)) in read.iter().enumerate() {
        assert_eq!((*frame, bytes.as_slice()), (i as u64, frames.frame(i)));
    }
    assert_eq!(read.len(), 12);
}
