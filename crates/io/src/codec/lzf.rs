//! LibLZF.
//!
//! A control byte below 32 precedes that many literal bytes, and one more. Otherwise its upper
//! three bits are the length of a repetition, less 2 (7: the next byte is added), its lower five
//! bits and the next byte the distance, less 1.

use super::damaged;
use framefold_core::Result;

/// Decodes to at most as many bytes as `out` has; how many there are.
pub(super) fn decode(stored: &[u8], out: &mut [u8]) -> Result<usize> {
    let too_short = || damaged("LZF", "it ends within a run");
    let too_long = || damaged("LZF", "it decodes to more than the chunk's shape has room for");
    let next = |from: &mut usize| {
        let byte = stored.get(*from).ok_or_else(too_short)?;
        *from += 1;
        Ok::<_, framefold_core::Error>(usize::from(*byte))
    };
    let (mut from, mut at) = (0, 0);
    while from < stored.len() {
        let control = next(&mut from)?;
        if control < 32 {
            let len = control + 1;
            let literal = stored.get(from..from + len).ok_or_else(too_short)?;
            out.get_mut(at..at + len).ok_or_else(too_long)?.copy_from_slice(literal);
            (from, at) = (from + len, at + len);
            continue;
        }
        let mut len = (control >> 5) + 2;
        if len == 9 {
            len += next(&mut from)?;
        }
        let distance = ((control & 31) << 8) + next(&mut from)? + 1;
        let start = at.checked_sub(distance);
        let start = start.ok_or_else(|| damaged("LZF", "a repetition begins before the data"))?;
        repeat(out, start, at, len).ok_or_else(too_long)?;
        at += len;
    }
    Ok(at)
}

/// Writes at `at` again what begins at `start`, which may overlap with what is written.
#[expect(clippy::indexing_slicing, reason = "end was checked, and nothing lies before the start")]
pub(super) fn repeat(out: &mut [u8], start: usize, at: usize, len: usize) -> Option<()> {
    let end = at.checked_add(len).filter(|&end| end <= out.len())?;
    let distance = at.checked_sub(start).filter(|&distance| distance > 0)?;
    if distance >= len {
        out.copy_within(start..start + len, at);
    } else if distance == 1 {
        let byte = *out.get(start)?;
        out[at..end].fill(byte);
    } else {
        for i in at..end {
            out[i] = out[i - distance];
        }
    }
    Some(())
}
