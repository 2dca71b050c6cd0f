//! Blocks: their size, their headers, and where their pixels belong.

use framefold_core::Error;

/// Bytes of a block.
pub(super) const LEN: u64 = 22360;
/// What each block begins with.
pub(super) const SYNC: [u8; 4] = [0xFF, 0xFF, 0x00, 0x55];
/// Bytes of its header.
pub(super) const HEADER_LEN: usize = 40;
/// Pixels of a block.
pub(super) const ROWS: usize = 930;
pub(super) const COLUMNS: usize = 16;
/// Bytes of a row of a block.
pub(super) const ROW_LEN: usize = 24;
/// Blocks of a sector in one frame.
pub(super) const PER_FRAME: u64 = 32;
/// Columns of a sector.
pub(super) const SECTOR_COLUMNS: usize = 256;

/// What a block says about itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Header {
    pub(super) shutter: bool,
    pub(super) block: u32,
    pub(super) frame: u32,
    x: u16,
    y: u16,
}

impl Header {
    /// `None` if these are not the first bytes of a block.
    pub(super) fn parse(bytes: &[u8]) -> Option<Self> {
        let bytes: &[u8; HEADER_LEN] = bytes.first_chunk()?;
        let u16_at = |at: usize| Some(u16::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        let u32_at = |at: usize| Some(u32::from_be_bytes(*bytes.get(at..)?.first_chunk()?));
        if !bytes.starts_with(&SYNC) || (u16_at(20)?, u16_at(22)?) != (256, 1860) {
            return None;
        }
        Some(Header {
            shutter: bytes.get(9)? & 1 == 1,
            block: u32_at(16)?,
            frame: u32_at(24)?,
            x: u16_at(28)?,
            y: u16_at(30)?,
        })
    }

    /// Its place among the blocks of its frame in the sector, from its first pixel.
    pub(super) fn index(&self) -> Option<u64> {
        let (x, y) = (u64::from(self.x), u64::from(self.y));
        let on_grid = x % 16 == 0 && y % 930 == 0 && x < 256 && y < 1860;
        on_grid.then(|| 15 - x / 16 + 16 * (y / 930))
    }
}

/// The error for bytes that are no block.
pub(super) fn not_a_block(found: &[u8]) -> Error {
    let found = found.get(..4).unwrap_or(found);
    Error::bad_file(format!(
        "there is no block: it begins with {found:02x?}, expected ff ff 00 55 and a sector of 256 \
         x 1860 pixels"
    ))
    .with_hint("blocks were lost, or the file is damaged; copy it again")
}
