//! LZW as TIFF has it: codes from the highest bit on, which grow one code earlier than elsewhere.

use super::{all_of, damaged};
use framefold_core::Result;
use weezl::BitOrder;
use weezl::decode::Decoder;

/// Decodes to just as many bytes as `out` has. Codes after them are not looked at.
pub(super) fn decode(stored: &[u8], out: &mut [u8], tool: &mut Option<Decoder>) -> Result<()> {
    let decoder = tool.get_or_insert_with(|| Decoder::with_tiff_size_switch(BitOrder::Msb, 8));
    decoder.reset();
    let (mut from, mut done) = (0, 0);
    while done < out.len() {
        let (input, output) =
            (stored.get(from..).unwrap_or_default(), out.get_mut(done..).unwrap_or_default());
        let step = decoder.decode_bytes(input, output);
        let status = step.status.map_err(|error| damaged("LZW", &error.to_string()))?;
        from += step.consumed_in;
        done += step.consumed_out;
        let moved = step.consumed_in > 0 || step.consumed_out > 0;
        if !moved || matches!(status, weezl::LzwStatus::Done) {
            break;
        }
    }
    all_of("LZW", done, out.len())
}
