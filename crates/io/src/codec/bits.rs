//! Truth values as bits, as numcodecs packs them: a byte that counts the bits that are missing in the
//! last byte, and then eight values a byte, the highest bit first.

use super::{all_of, damaged};
use framefold_core::Result;

/// The bytes of as many bits as there are cells.
pub(super) fn size_after(cells: usize) -> Option<usize> {
    cells.div_ceil(8).checked_add(1)
}

/// Writes 0 and 1 to just as many bytes as `out` has.
pub(super) fn decode(stored: &[u8], out: &mut [u8]) -> Result<()> {
    all_of("packbits", stored.len(), size_after(out.len()).unwrap_or(usize::MAX))?;
    let Some((&missing, packed)) = stored.split_first() else { return Ok(()) };
    let expected = packed.len().wrapping_mul(8).wrapping_sub(out.len());
    if usize::from(missing) != expected {
        return Err(damaged(
            "packbits",
            &format!("{missing} bits should be missing, but {expected} are"),
        ));
    }
    for (cells, bits) in out.chunks_mut(8).zip(packed) {
        for (place, cell) in cells.iter_mut().enumerate() {
            *cell = bits >> (7 - place) & 1;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_highest_bit_comes_first() {
        let mut out = [7; 9];
        decode(&[7, 0b1011_0000, 0b1000_0000], &mut out).unwrap();
        assert_eq!(out, [1, 0, 1, 1, 0, 0, 0, 0, 1]);
        decode(&[0, 0b0000_0001], &mut out[..8]).unwrap();
        assert_eq!(out[..8], [0, 0, 0, 0, 0, 0, 0, 1]);
    }

    #[test]
    fn other_lengths_are_damaged() {
        for stored in [&[7, 1][..], &[7, 1, 1, 1], &[6, 1, 1], &[]] {
            assert!(decode(stored, &mut [0; 9]).is_err(), "{stored:?}");
        }
    }
}
