//! PackBits: a byte that counts, and then as many bytes, or one byte as many times.

use super::{all_of, damaged};
use framefold_core::Result;

/// Decodes to just as many bytes as `out` has. What follows them is not looked at.
pub(super) fn decode(stored: &[u8], out: &mut [u8]) -> Result<()> {
    let mut rest = stored;
    let mut done = 0;
    while done < out.len() {
        let Some((&count, after)) = rest.split_first() else { break };
        let to = out.get_mut(done..).unwrap_or_default();
        let ends = || damaged("PackBits", "it ends within a run");
        rest = match count {
            128 => after,
            0..128 => {
                let n = usize::from(count) + 1;
                let (bytes, after) = after.split_at_checked(n).ok_or_else(ends)?;
                let fits = n.min(to.len());
                to.iter_mut().zip(bytes).for_each(|(to, byte)| *to = *byte);
                done += fits;
                after
            }
            129.. => {
                let n = 257 - usize::from(count);
                let (&byte, after) = after.split_first().ok_or_else(ends)?;
                let fits = n.min(to.len());
                to.get_mut(..fits).unwrap_or_default().fill(byte);
                done += fits;
                after
            }
        };
    }
    all_of("PackBits", done, out.len())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_example_of_apples_note() {
        let stored = [
            0xFE, 0xAA, 0x02, 0x80, 0x00, 0x2A, 0xFD, 0xAA, 0x03, 0x80, 0x00, 0x2A, 0x22, 0xF7,
            0xAA,
        ];
        let expected = [
            0xAA, 0xAA, 0xAA, 0x80, 0x00, 0x2A, 0xAA, 0xAA, 0xAA, 0xAA, 0x80, 0x00, 0x2A, 0x22,
            0xAA, 0xAA, 0xAA, 0xAA, 0xAA, 0xAA, 0xAA, 0xAA, 0xAA, 0xAA,
        ];
        let mut out = [0; 24];
        decode(&stored, &mut out).unwrap();
        assert_eq!(out, expected);
        for len in 0..stored.len() {
            assert!(decode(&stored[..len], &mut out).is_err(), "{len}");
        }
    }
}
