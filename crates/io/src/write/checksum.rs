//! Checksums by which what was written is held against what is read back.

use framefold_core::{Result, memory};
use std::sync::atomic::{AtomicU64, Ordering};

const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;

/// A checksum for each frame, to which bands add up in any order.
pub(super) struct Checksums(Vec<AtomicU64>);

impl Checksums {
    /// # Errors
    /// `Limit` if there is no memory for so many.
    pub(super) fn try_new(n_frames: usize) -> Result<Self> {
        memory::collected((0..n_frames).map(|_| AtomicU64::new(0))).map(Checksums)
    }

    /// Adds the bytes of band `band` of a frame.
    pub(super) fn add(&self, frame: usize, band: usize, bytes: &[u8]) {
        if let Some(sum) = self.0.get(frame) {
            sum.fetch_add(checksum(band, bytes), Ordering::Relaxed);
        }
    }

    /// The first frame in which both differ.
    pub(super) fn first_difference(&self, other: &Checksums) -> Option<usize> {
        let value = |sum: &AtomicU64| sum.load(Ordering::Relaxed);
        self.0.iter().zip(&other.0).position(|(a, b)| value(a) != value(b))
    }
}

/// Four lanes of multiplications: each step is reversible, so that a change of any one word
/// always shows.
fn checksum(seed: usize, bytes: &[u8]) -> u64 {
    let mut lanes = [1, 2, 3, 4].map(|lane: u64| (lane + seed as u64).wrapping_mul(FACTOR));
    let mut step = |word: [u8; 32]| {
        for (lane, bytes) in lanes.iter_mut().zip(word.as_chunks::<8>().0) {
            *lane = (lane.rotate_left(29) ^ u64::from_le_bytes(*bytes)).wrapping_mul(FACTOR);
        }
    };
    let (words, rest) = bytes.as_chunks::<32>();
    words.iter().for_each(|word| step(*word));
    let mut last = [0; 32];
    last.iter_mut().zip(rest).for_each(|(last, byte)| *last = *byte);
    step(last);
    let sum = lanes
        .iter()
        .fold(bytes.len() as u64, |sum, lane| (sum.rotate_left(23) ^ lane).wrapping_mul(FACTOR));
    sum ^ sum >> 32
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_bit_and_place_counts() {
        let bytes: Vec<u8> = (0..77u8).collect();
        let sum = checksum(0, &bytes);
        for i in 0..bytes.len() * 8 {
            let mut changed = bytes.clone();
            changed[i / 8] ^= 1 << (i % 8);
            assert_ne!(checksum(0, &changed), sum);
        }
        for i in 1..bytes.len() {
            let mut changed = bytes.clone();
            changed.swap(0, i);
            assert_ne!(checksum(0, &changed), sum);
        }
        assert_ne!(checksum(1, &bytes), sum);
        assert_ne!(checksum(0, &bytes[..76]), sum);
    }
}
