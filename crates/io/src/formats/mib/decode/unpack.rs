//! From the words of a chip row to pixels.
//!
//! Pixels lie in words of 8 bytes, most significant byte first. The first pixel of a word is in
//! its least significant place. So a row read forwards is the row with each word turned around,
//! and a row read backwards is the words in reverse order, each as it lies in the file.

use super::bits::unpack_bits;
use super::chips::Direction;
use bytemuck::Pod;
use framefold_simd::{Simd, run};

/// The words of some pixels.
#[derive(Clone, Copy)]
pub(super) struct Words<'a> {
    /// In the order of the file: backwards, the last word holds the first pixels.
    pub(super) stored: &'a [[u8; 8]],
    /// The lower halves of the pixels, in as many words; empty if there is one image only.
    pub(super) lower: &'a [[u8; 8]],
    pub(super) direction: Direction,
}

/// How one kind of counter is unpacked.
pub(super) trait Unpack: Copy {
    /// What becomes of its pixels.
    type Pixel: Pod;
    /// Pixels in one word.
    const PER_WORD: usize;

    /// Fills `out`, which has room for the pixels of all words. Called for a row of a chip, or for
    /// a few of its words.
    fn unpack(self, words: Words<'_>, out: &mut [Self::Pixel]);
}

/// 1-bit counters.
#[derive(Clone, Copy)]
pub(super) struct OneBit(pub(super) Simd);

/// 6-bit counters, one to a byte.
#[derive(Clone, Copy)]
pub(super) struct SixBits(pub(super) Simd);

/// 12-bit counters, one to two bytes.
#[derive(Clone, Copy)]
pub(super) struct TwelveBits(pub(super) Simd);

/// 24-bit counters: two images of 12 bits.
#[derive(Clone, Copy)]
pub(super) struct TwentyFourBits(pub(super) Simd);

impl Unpack for OneBit {
    type Pixel = u8;
    const PER_WORD: usize = 64;

    fn unpack(self, words: Words<'_>, out: &mut [u8]) {
        unpack_bits(self.0, words.stored, words.direction, out.as_chunks_mut().0);
    }
}

// Below are plain loops, one for each direction: the compiler makes shuffles of whole vectors out of
// them.

impl Unpack for SixBits {
    type Pixel = u8;
    const PER_WORD: usize = 8;

    fn unpack(self, words: Words<'_>, out: &mut [u8]) {
        let (stored, out) = (words.stored, out.as_chunks_mut().0);
        match words.direction {
            Direction::Forward => run!(self.0, {
                for (out, word) in out.iter_mut().zip(stored) {
                    *out = u64::from_be_bytes(*word).to_le_bytes();
                }
            }),
            Direction::Backward => run!(self.0, {
                for (out, word) in out.iter_mut().zip(stored.iter().rev()) {
                    *out = *word;
                }
            }),
        }
    }
}

impl Unpack for TwelveBits {
    type Pixel = u16;
    const PER_WORD: usize = 4;

    fn unpack(self, words: Words<'_>, out: &mut [u16]) {
        let (stored, out) = (words.stored, out.as_chunks_mut().0);
        match words.direction {
            Direction::Forward => run!(self.0, {
                for (out, word) in out.iter_mut().zip(stored) {
                    *out = pixels_of_16_bits(u64::from_be_bytes(*word));
                }
            }),
            Direction::Backward => run!(self.0, {
                for (out, word) in out.iter_mut().zip(stored.iter().rev()) {
                    *out = pixels_of_16_bits(turned(*word));
                }
            }),
        }
    }
}

impl Unpack for TwentyFourBits {
    type Pixel = u32;
    const PER_WORD: usize = 4;

    fn unpack(self, words: Words<'_>, out: &mut [u32]) {
        let pairs = words.stored.iter().zip(words.lower);
        let out = out.as_chunks_mut().0;
        match words.direction {
            Direction::Forward => run!(self.0, {
                for (out, (upper, lower)) in out.iter_mut().zip(pairs) {
                    *out = joined(u64::from_be_bytes(*upper), u64::from_be_bytes(*lower));
                }
            }),
            Direction::Backward => run!(self.0, {
                for (out, (upper, lower)) in out.iter_mut().zip(pairs.rev()) {
                    *out = joined(turned(*upper), turned(*lower));
                }
            }),
        }
    }
}

/// The word whose pixels are those of `word` in reverse order, each of 16 bits.
#[inline(always)]
fn turned(word: [u8; 8]) -> u64 {
    let word = u64::from_le_bytes(word);
    ((word & 0x00FF_00FF_00FF_00FF) << 8) | ((word >> 8) & 0x00FF_00FF_00FF_00FF)
}

/// The four pixels of a word, the least significant one first.
#[inline(always)]
fn pixels_of_16_bits(word: u64) -> [u16; 4] {
    bytemuck::cast::<_, [u16; 4]>(word.to_le_bytes()).map(u16::from_le)
}

/// Pixels of 24 bits from their halves of 12 bits.
#[inline(always)]
#[expect(clippy::indexing_slicing, reason = "all three arrays have four elements")]
fn joined(upper: u64, lower: u64) -> [u32; 4] {
    let (upper, lower) = (pixels_of_16_bits(upper), pixels_of_16_bits(lower));
    // At most 0xFFFF000 + 0xFFFF: never wraps.
    std::array::from_fn(|i| (u32::from(upper[i]) << 12) + u32::from(lower[i]))
}
