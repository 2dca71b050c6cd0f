//! LZMA in its containers: `.xz` as Python's `lzma` and libtiff write it, the older `.lzma`, and raw
//! LZMA2 without any, whose filters the format stores elsewhere.

use super::bzip2::all_from;
use super::damaged;
use framefold_core::{Error, Result};
use lzma_rust2::filter::delta::DeltaReader;
use lzma_rust2::{Lzma2Reader, LzmaReader, XzReader};

/// The memory that a stream may ask for its dictionary: four times what the highest preset does.
const MOST_KIB: u32 = 256 << 10;
/// The smallest dictionary that there is.
const SMALLEST: usize = 4096;

/// How a stream is stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Lzma {
    /// Streams that say all about themselves, and hold checksums.
    Xz,
    /// A short header before one stream.
    Alone,
    /// No header: LZMA2, and perhaps differences of bytes so far apart before it.
    Raw {
        /// From 1 to 256.
        distance: Option<usize>,
    },
}

impl Lzma {
    /// Decodes to just as many bytes as `out` has.
    pub(super) fn decode(self, stored: &[u8], out: &mut [u8]) -> Result<()> {
        let decode = || self.decode_by_library(stored, out);
        std::panic::catch_unwind(std::panic::AssertUnwindSafe(decode))
            .unwrap_or_else(|_| Err(damaged("LZMA", "the decoder gave up on it")))
    }

    fn decode_by_library(self, stored: &[u8], out: &mut [u8]) -> Result<()> {
        match self {
            Lzma::Xz => all_from("LZMA", XzReader::new_mem_limit(stored, true, MOST_KIB), out),
            Lzma::Alone => {
                let decoder = LzmaReader::new_mem_limit(stored, MOST_KIB, None);
                let decoder = decoder.map_err(|error| damaged("LZMA", &error.to_string()))?;
                all_from("LZMA", decoder, out)
            }
            Lzma::Raw { distance } => {
                // Nothing can refer to more than all of the chunk.
                let all = u32::try_from(out.len().max(SMALLEST));
                let all = all.map_err(|_| Error::limit("chunks of LZMA end at 4 GiB"))?;
                let decoder = Lzma2Reader::new(stored, all, None);
                match distance {
                    Some(distance) => all_from("LZMA", DeltaReader::new(decoder, distance), out),
                    None => all_from("LZMA", decoder, out),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `bytes(range(40)) * 5` as Python's `lzma.compress` makes it.
    const XZ: &str = include_str!("lzma/xz.hex");
    const ALONE: &str = include_str!("lzma/alone.hex");
    const RAW: &str = include_str!("lzma/raw.hex");

    fn stored(hex: &str) -> Vec<u8> {
        let digits: Vec<char> = hex.trim().chars().collect();
        let byte =
            |pair: &[char]| u8::from_str_radix(&pair.iter().collect::<String>(), 16).unwrap();
        digits.chunks(2).map(byte).collect()
    }

    fn expected() -> Vec<u8> {
        (0..200).map(|i| i % 40).collect()
    }

    #[test]
    fn each_container_is_decoded() {
        let raw = Lzma::Raw { distance: Some(4) };
        for (lzma, hex) in [(Lzma::Xz, XZ), (Lzma::Alone, ALONE), (raw, RAW)] {
            let stored = stored(hex);
            let mut out = vec![0; 200];
            lzma.decode(&stored, &mut out).unwrap();
            assert_eq!(out, expected(), "{lzma:?}");
            for len in [0, 199, 201] {
                assert!(lzma.decode(&stored, &mut vec![0; len]).is_err(), "{lzma:?} to {len}");
            }
        }
        let twice = [stored(XZ), stored(XZ)].concat();
        let mut out = vec![0; 400];
        Lzma::Xz.decode(&twice, &mut out).unwrap();
        assert_eq!(out, [expected(), expected()].concat());
    }

    #[test]
    fn damage_is_an_error() {
        let whole = stored(XZ);
        let mut out = vec![0; 200];
        for len in 0..whole.len() {
            assert!(Lzma::Xz.decode(&whole[..len], &mut out).is_err(), "cut at {len}");
        }
        for at in 0..whole.len() {
            let mut flipped = whole.clone();
            flipped[at] ^= 0x10;
            assert!(Lzma::Xz.decode(&flipped, &mut out).is_err(), "flipped at {at}");
        }
        for (lzma, hex) in [(Lzma::Alone, ALONE), (Lzma::Raw { distance: None }, RAW)] {
            let whole = stored(hex);
            for at in 0..whole.len() {
                let mut flipped = whole.clone();
                flipped[at] ^= 0x10;
                // Without checksums, it may come out as something else.
                let error = lzma.decode(&flipped, &mut out).err();
                assert!(error.is_none_or(|e| !e.message().contains("gave up")), "{at}");
            }
        }
    }

    #[test]
    fn dictionaries_are_bounded() {
        let mut whole = stored(ALONE);
        whole[1..5].copy_from_slice(&0x6000_0000u32.to_le_bytes());
        assert!(Lzma::Alone.decode(&whole, &mut [0; 200]).is_err());
    }
}
