//! BloscLZ, the compressor that Blosc brings along.
//!
//! The first control byte counts only with its lower five bits. Below 32, a control byte precedes
//! that many literal bytes, and one more. Otherwise its upper three bits are the length of a
//! repetition, less 2 (7: the following bytes are added, until one is not 255), its lower five bits
//! and the next byte the distance, less 1; where those are 31 and 255, two bytes more hold what the
//! distance exceeds 8191 by, big endian.

use super::{all_of, damaged, lzf::repeat};
use framefold_core::{Error, Result};

pub(super) fn decode(stored: &[u8], out: &mut [u8]) -> Result<()> {
    let too_short = || damaged("BloscLZ", "it ends within a run");
    let too_long = || damaged("BloscLZ", "it decodes to more than there is room for");
    let mut from = 0;
    let mut at = 0;
    let next = |from: &mut usize| -> Result<usize, Error> {
        let byte = stored.get(*from).ok_or_else(too_short)?;
        *from += 1;
        Ok(usize::from(*byte))
    };
    let mut first = true;
    while from < stored.len() {
        let mut control = next(&mut from)?;
        if first {
            control &= 31;
            first = false;
        }
        if control < 32 {
            let len = control + 1;
            let literal = stored.get(from..from + len).ok_or_else(too_short)?;
            out.get_mut(at..at + len).ok_or_else(too_long)?.copy_from_slice(literal);
            (from, at) = (from + len, at + len);
            continue;
        }
        let mut len = (control >> 5) - 1;
        if len == 6 {
            loop {
                let more = next(&mut from)?;
                len = len.saturating_add(more);
                if more != 255 {
                    break;
                }
            }
        }
        len = len.saturating_add(3);
        let low = next(&mut from)?;
        let mut distance = ((control & 31) << 8) + low;
        if distance == (31 << 8) + 255 {
            distance = (next(&mut from)? << 8) + next(&mut from)? + 8191;
        }
        let start = at.checked_sub(distance + 1);
        let start =
            start.ok_or_else(|| damaged("BloscLZ", "a repetition begins before the data"))?;
        repeat(out, start, at, len).ok_or_else(too_long)?;
        at += len;
    }
    all_of("BloscLZ", at, out.len())
}
