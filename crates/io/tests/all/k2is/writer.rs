//! Writes sets, from the description of the format alone.

use std::path::{Path, PathBuf};

pub const ROWS: usize = 1860;
pub const COLUMNS: usize = 2048;
pub const BLOCK: usize = 22360;

/// How a set is to be written.
#[derive(Clone, Debug)]
pub struct Set {
    /// Complete frames.
    pub n_frames: usize,
    /// Frames before the one with the shutter's flag.
    pub n_idle: usize,
    /// Blocks of the frame before the first complete one, for each sector.
    pub early_blocks: [usize; 8],
    /// Bytes of a block before the first whole one, for each sector.
    pub partial: [usize; 8],
    /// Blocks after the last complete frame, for each sector.
    pub late_blocks: [usize; 8],
    /// Height and width of the scan, if it is one.
    pub scan: Option<[u32; 2]>,
}

impl Set {
    pub fn new(n_frames: usize, n_idle: usize, scan: Option<[u32; 2]>) -> Self {
        let none = [0; 8];
        Set { n_frames, n_idle, early_blocks: none, partial: none, late_blocks: none, scan }
    }
}

/// The pixel of a frame: all are different from their neighbours, in 12 bits.
pub fn pixel(frame: i64, row: usize, column: usize) -> u16 {
    let mixed = (frame + 3).unsigned_abs() * 1543 + (row * 2048 + column) as u64 * 2_654_435_761;
    (mixed >> 7) as u16 & 0x0FFF
}

/// One block; frames before the first complete one have negative numbers.
pub fn block(set: &Set, sector: usize, frame: i64, index: usize) -> Vec<u8> {
    let (half, column_block) = (index / 16, 15 - index % 16);
    let (x, y) = (column_block * 16, half * 930);
    let mut out = 0xFFFF_0055u32.to_be_bytes().to_vec();
    out.extend([0; 4]);
    let shutter = u8::from(frame >= set.n_idle as i64);
    out.extend([1, shutter, 0, 0, 0, 0, 0, 0]);
    out.extend((1000 + frame * 32 + index as i64).cast_unsigned().to_be_bytes()[4..].to_vec());
    out.extend(256u16.to_be_bytes());
    out.extend(1860u16.to_be_bytes());
    out.extend((70 + frame).cast_unsigned().to_be_bytes()[4..].to_vec());
    for corner in [x, y, x + 15, y + 929] {
        out.extend((corner as u16).to_be_bytes());
    }
    out.extend((BLOCK as u32).to_be_bytes());
    for row in y..y + 930 {
        for pair in 0..8 {
            let column = sector * 256 + x + 2 * pair;
            let (a, b) = (pixel(frame, row, column), pixel(frame, row, column + 1));
            out.extend([a as u8, (a >> 8) as u8 | (b << 4) as u8, (b >> 4) as u8]);
        }
    }
    assert_eq!(out.len(), BLOCK);
    out
}

/// The bytes of a sector's file.
pub fn sector(set: &Set, sector: usize) -> Vec<u8> {
    let mut out = vec![0xAB; set.partial[sector]];
    for index in 32 - set.early_blocks[sector]..32 {
        out.extend(block(set, sector, -1, index));
    }
    for frame in 0..set.n_frames as i64 {
        (0..32).for_each(|index| out.extend(block(set, sector, frame, index)));
    }
    for index in 0..set.late_blocks[sector] {
        let frame = set.n_frames + index / 32;
        out.extend(block(set, sector, frame as i64, index % 32));
    }
    out
}

/// A DM4 file of tags, with the shape of the scan.
pub fn gtg(scan: Option<[u32; 2]>) -> Vec<u8> {
    fn entry(kind: u8, name: &str, content: Vec<u8>) -> Vec<u8> {
        let mut out = vec![kind];
        out.extend((name.len() as u16).to_be_bytes());
        out.extend(name.as_bytes());
        out.extend((content.len() as u64).to_be_bytes());
        out.extend(content);
        out
    }
    fn group(entries: &[Vec<u8>]) -> Vec<u8> {
        let mut out = vec![1, 0];
        out.extend((entries.len() as u64).to_be_bytes());
        out.extend(entries.concat());
        out
    }
    let number = |name: &str, value: u32| {
        let mut content = b"%%%%".to_vec();
        content.extend(1u64.to_be_bytes());
        content.extend(5u64.to_be_bytes());
        content.extend(value.to_le_bytes());
        entry(21, name, content)
    };
    let mut out = 4u32.to_be_bytes().to_vec();
    out.extend(0u64.to_be_bytes());
    out.extend(1u32.to_be_bytes());
    let entries = scan.map(|[height, width]| {
        let lengths = [number("Size X", width), number("Size Y", height)];
        entry(20, "SI Dimensions", group(&lengths))
    });
    out.extend(group(&entries.into_iter().collect::<Vec<_>>()));
    out.extend([0; 8]);
    out
}

/// Writes all files; gives the path of the `.gtg` file and those of the sectors.
pub fn save(set: &Set, folder: &Path) -> (PathBuf, Vec<PathBuf>) {
    let gtg_path = folder.join("Capture1_.gtg");
    std::fs::write(&gtg_path, gtg(set.scan)).unwrap();
    let write = |index: usize| {
        let path = folder.join(format!("Capture1_{}.bin", index + 1));
        std::fs::write(&path, sector(set, index)).unwrap();
        path
    };
    (gtg_path, (0..8).map(write).collect())
}
