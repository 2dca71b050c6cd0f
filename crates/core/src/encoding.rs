//! Chunks as they are stored, for devices that decode them.

/// How the chunks of a source are stored, all of them: bitshuffle with LZ4, of whole frames that follow
/// each other, with the pixels in native byte order.
///
/// In a chunk, pixels come in blocks, each of which was compressed by itself: of `block_bytes`, but for
/// the last one, which may be shorter. What is left of a chunk beyond whole groups of eight elements
/// is stored as it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Encoding {
    /// Bytes of an element: 1, 2, 4, 8 or 16.
    pub element_bytes: usize,
    /// Bytes of a block of pixels, a multiple of eight elements.
    pub block_bytes: usize,
    /// Frames of a chunk.
    pub chunk_frames: usize,
}

impl Encoding {
    /// Bytes of a chunk of so many that are stored as they are.
    pub fn rest_bytes(&self, chunk_bytes: usize) -> usize {
        chunk_bytes % self.element_bytes.saturating_mul(8).max(1)
    }

    /// Rows of a chunk of so many bytes in [`crate::FrameReader::read_encoded`].
    pub fn rows(&self, chunk_bytes: usize) -> usize {
        let rest = self.rest_bytes(chunk_bytes);
        (chunk_bytes - rest).div_ceil(self.block_bytes.max(1)) + usize::from(rest > 0)
    }
}

/// A tile some parts of which are encoded, each where its pixels would lie.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EncodedTile<'t> {
    /// How they are stored.
    pub encoding: Encoding,
    /// Frames of a part, but for the last one.
    pub part_frames: usize,
    /// For each part how many bytes [`crate::FrameReader::read_encoded`] has written; 0 where
    /// there are pixels.
    pub lens: &'t [usize],
}
