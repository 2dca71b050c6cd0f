//! Chunks as they are stored, for devices that decode them.

use super::{CHECK, ChunkedSource, Segment};
use crate::codec::{Blocks, Filter, Inner, block_bytes, blocks};
use crate::readers::linear::lies_as_in_a_tile;
use framefold_core::{Encoding, FrameIndices, Result, SourceInfo, interrupt};

/// Bytes of a row of the table before the stored bytes.
const ROW_BYTES: usize = 8;

/// How all segments store their chunks, if devices can decode them.
pub(super) fn encoding_of(info: &SourceInfo, segments: &[Segment]) -> Option<Encoding> {
    let mut all = segments.iter().map(|segment| encoding_of_segment(info, segment));
    let first = all.next()??;
    all.all(|each| each == Some(first)).then_some(first)
}

fn encoding_of_segment(info: &SourceInfo, segment: &Segment) -> Option<Encoding> {
    let &[Filter::Bitshuffle { size, block, inner: Inner::Lz4 }] = segment.pipeline.0.as_slice()
    else {
        return None;
    };
    let geometry = &segment.geometry;
    let fits = size == info.dtype.dtype.size()
        && lies_as_in_a_tile(info.dtype)
        && geometry.in_order()
        && geometry.has_whole_frames();
    let (block_bytes, chunk_frames) = (block_bytes(size, block), geometry.chunk_frames());
    fits.then_some(Encoding { element_bytes: size, block_bytes, chunk_frames })
}

/// As [`framefold_core::FrameReader::read_encoded`].
pub(super) fn copy(
    source: &ChunkedSource,
    frames: &FrameIndices<'_>,
    out: &mut [u8],
    stored: &mut Vec<u8>,
) -> Result<Option<usize>> {
    let Some(encoding) = source.encoding else { return Ok(None) };
    let (n, whole) = (frames.len() / encoding.chunk_frames, frames.len());
    let len = out.len().checked_div(n).unwrap_or(0);
    if n == 0 || n * encoding.chunk_frames != whole || len * n != out.len() {
        return Ok(None);
    }
    let expected =
        Blocks { size: encoding.element_bytes, block_bytes: encoding.block_bytes, decoded: len };
    let rows = n.saturating_mul(encoding.rows(len)).saturating_mul(ROW_BYTES);
    let Some((table, room)) = out.split_at_mut_checked(rows) else { return Ok(None) };
    let mut rows_left = table.as_chunks_mut::<ROW_BYTES>().0.iter_mut();
    let mut used = 0;
    for i in 0..n {
        if i % CHECK == CHECK - 1 {
            interrupt::check()?;
        }
        let chunk = frames.part(i * encoding.chunk_frames, encoding.chunk_frames);
        let Some((segment, number)) = whole_chunk(source, &chunk)? else { return Ok(None) };
        if segment.chunk_bytes(encoding.element_bytes) != len
            || segment.store.decoded_len(number, len) != len
        {
            return Ok(None);
        }
        let found = segment.store.fetch(number, stored)?;
        let Some(found) = found.filter(|found| found.mask == 0) else { return Ok(None) };
        let Some(to) = room.get_mut(used..).and_then(|room| room.get_mut(..found.bytes.len()))
        else {
            return Ok(None);
        };
        let walked = blocks(found.bytes, expected, |place| {
            let [start, n] = [rows + used + place.start, place.len()];
            let row = rows_left.next()?.as_chunks_mut::<4>().0;
            for (to, number) in row.iter_mut().zip([start, n]) {
                *to = u32::try_from(number).ok()?.to_le_bytes();
            }
            Some(())
        });
        if walked.is_none() {
            return Ok(None);
        }
        to.copy_from_slice(found.bytes);
        used += found.bytes.len();
    }
    Ok(Some(rows + used))
}

/// The chunk that is just these frames, in that order.
fn whole_chunk<'s>(
    source: &'s ChunkedSource,
    frames: &FrameIndices<'_>,
) -> Result<Option<(&'s Segment, u64)>> {
    let (_, segment) = source.segment_of(frames.get(0).unwrap_or(0))?;
    let (geometry, start) = (&segment.geometry, segment.frames.start);
    let mut number = None;
    for (i, frame) in frames.iter().enumerate() {
        if !segment.frames.contains(&frame) {
            return Ok(None);
        }
        let (chunk, inner) = geometry.locate(frame - start);
        let in_order = inner == i * geometry.chunk_frame_cells();
        if !in_order || *number.get_or_insert(chunk) != chunk {
            return Ok(None);
        }
    }
    Ok(number.map(|number| (segment, number)))
}
