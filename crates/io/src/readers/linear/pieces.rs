//! Frames that are decoded side by side, a piece of each at a time.
//!
//! Memory is read faster from several pages at a time than from one after the other, and a piece
//! is short enough to be there by the time that it is decoded.

use super::decoder::PieceDecoder;
use framefold_core::{Error, Result};
use framefold_simd::prefetch_beyond;

/// The number of frames that are decoded side by side.
pub(super) const TOGETHER: usize = 8;
/// Bytes of a piece, stored or decoded, whichever are more.
const PIECE: usize = 1 << 10;
/// How far ahead of the piece at hand each frame is asked for.
const AHEAD: usize = 1 << 10;
/// Frames that are shorter lie so close together that one after the other is as good.
pub(super) const SHORTEST: usize = 4 * PIECE;

/// Decodes frames of equal length, one after the other in `out`.
pub(super) fn decode_together(
    decoder: &dyn PieceDecoder,
    frames: &[&[u8]],
    out: &mut [u8],
) -> Result<()> {
    let unit = decoder.unit();
    let units = (PIECE / unit.stored.max(unit.decoded).max(1)).max(1);
    let (from_step, to_step) = (units * unit.stored, units * unit.decoded);
    let len = frames.first().map_or(0, |frame| frame.len());
    let n_units = len.checked_div(unit.stored).unwrap_or(0);
    let out_len = n_units * unit.decoded;
    if n_units * unit.stored != len || out_len * frames.len() != out.len() {
        return Err(Error::bug(format!(
            "{} frames of {len} bytes, in units of {unit:?}, do not make up {} bytes",
            frames.len(),
            out.len()
        )));
    }
    for (from, to) in (0..len).step_by(from_step).zip((0..out_len).step_by(to_step)) {
        let (from, to) = (from..len.min(from + from_step), to..out_len.min(to + to_step));
        for (i, frame) in frames.iter().enumerate() {
            let start = i * out_len;
            let out = out.get_mut(start + to.start..start + to.end);
            let (Some(stored), Some(out)) = (frame.get(from.clone()), out) else {
                return Err(Error::bug("frames of several lengths were to be decoded together"));
            };
            prefetch_beyond(stored, AHEAD);
            decoder.decode_piece(stored, out)?;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::super::decoder::Unit;
    use super::*;

    /// Three bytes become two: the first less the last, and the second.
    struct Three;

    impl PieceDecoder for Three {
        fn unit(&self) -> Unit {
            Unit { stored: 3, decoded: 2 }
        }

        fn decode_piece(&self, stored: &[u8], out: &mut [u8]) -> Result<()> {
            assert_eq!(stored.len() / 3 * 2, out.len());
            for (stored, out) in stored.chunks_exact(3).zip(out.chunks_exact_mut(2)) {
                out.copy_from_slice(&[stored[0].wrapping_sub(stored[2]), stored[1]]);
            }
            Ok(())
        }
    }

    #[test]
    fn pieces_make_up_the_frames() {
        // Around the ends of pieces, which hold 341 units here.
        for n_units in [1, 2, 340, 341, 342, 1023, 1500] {
            for n_frames in [1, 2, 7, 8, 9] {
                let len = 3 * n_units;
                let bytes: Vec<u8> = (0..n_frames * len).map(|i| (i * i / 5 % 253) as u8).collect();
                let frames: Vec<&[u8]> = bytes.chunks(len).collect();
                let mut out = vec![0xAA; n_frames * n_units * 2];
                decode_together(&Three, &frames, &mut out).unwrap();
                let mut expected = vec![0; out.len()];
                Three.decode_piece(&bytes, &mut expected).unwrap();
                assert_eq!(out, expected, "{n_frames} frames of {n_units} units");
            }
        }
    }

    #[test]
    fn lengths_that_do_not_fit_are_errors() {
        let (whole, part) = ([1; 9], [1; 8]);
        assert!(decode_together(&Three, &[&whole, &whole], &mut [0; 12]).is_ok());
        assert!(decode_together(&Three, &[&whole, &whole], &mut [0; 11]).is_err());
        assert!(decode_together(&Three, &[&whole, &whole], &mut [0; 13]).is_err());
        assert!(decode_together(&Three, &[&part, &part], &mut [0; 8]).is_err());
        assert!(decode_together(&Three, &[&whole, &part], &mut [0; 12]).is_err());
    }
}
