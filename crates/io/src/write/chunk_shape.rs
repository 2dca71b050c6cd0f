//! How arrays are cut into chunks.

use super::units::UNIT_BYTES;
use framefold_core::{Error, Result};

/// The most pixels that a chunk may have.
const LARGEST_CHUNK: usize = 1 << 28;

/// The chunks that were asked for, no larger than the array.
pub(super) fn given(chunks: &[usize], nav: &[usize], sig: &[usize]) -> Result<Vec<usize>> {
    let shape: Vec<usize> = nav.iter().chain(sig).copied().collect();
    let wrong = |what: String| Error::invalid(what).with_hint("give a length for each axis");
    // Of a data set of one image, they may be those of its axes, the one of the scan among them.
    let chunks = match chunks {
        [n, of_image @ ..] if *n > 0 && nav.is_empty() && of_image.len() == sig.len() => of_image,
        all => all,
    };
    if chunks.len() != shape.len() {
        return Err(wrong(format!("chunks {chunks:?} are not of the axes of {shape:?}")));
    }
    if chunks.contains(&0) {
        return Err(wrong(format!("chunks {chunks:?} have a length of 0")));
    }
    let chunk: Vec<usize> = chunks.iter().zip(&shape).map(|(&chunk, &n)| chunk.min(n)).collect();
    let cells = chunk.iter().fold(1, |cells: usize, &len| cells.saturating_mul(len));
    if cells > LARGEST_CHUNK {
        return Err(Error::limit(format!("chunks of {cells} pixels do not fit in memory"))
            .with_hint("choose smaller ones, of about 1 MB"));
    }
    Ok(chunk)
}

/// Chunks that serve both: frames are made of a few of them, and single pixels of all positions
/// lie in a small share of them. They extend along the fast axes of the scan, so that frames that
/// are read in order need no chunk twice.
pub(super) fn runs(nav: &[usize], sig: &[usize], size: usize) -> Vec<usize> {
    const PARTS: usize = 4;
    const BYTES: usize = 512 << 10;
    const MOST_FRAMES: usize = 16;
    let (least, most) = if sig.len() == 1 { (1024, 16_384) } else { (64, 256) };
    let part = |&len: &usize| len.div_ceil(PARTS).clamp(least, most).min(len);
    let mut sig: Vec<usize> = sig.iter().map(part).collect();
    // With more than two axes, the others would make chunks huge.
    sig.iter_mut().rev().skip(2).for_each(|len| *len = 1);
    let bytes = sig.iter().product::<usize>() * size;
    let mut frames = (BYTES / bytes.max(1)).clamp(1, MOST_FRAMES);
    let mut chunk = vec![1; nav.len()];
    for (chunk, &len) in chunk.iter_mut().zip(nav).rev() {
        *chunk = frames.min(len);
        frames /= *chunk;
        if *chunk < len {
            break;
        }
    }
    chunk.extend(sig);
    chunk
}

/// Chunks for programs that take them one by one, as HyperSpy does: 8 × 8 positions of 128 × 128
/// pixels; of frames so large that 64 of them do not fit into a piece, half as many positions and
/// twice as many pixels along each axis, until they do. Pieces then hold whole frames, so that none
/// is decoded twice.
pub(super) fn blocks(nav: &[usize], sig: &[usize], size: usize) -> Vec<usize> {
    let frame_bytes = sig.iter().fold(size, |n: usize, &len| n.saturating_mul(len));
    let (mut positions, mut pixels) = (8, 128);
    while positions > 1 && frame_bytes.saturating_mul(positions * positions) > UNIT_BYTES {
        (positions, pixels) = (positions / 2, pixels * 2);
    }
    blocks_of(nav, positions).chain(blocks_of(sig, pixels)).collect()
}

/// Along the last two axes, or as many along a single one as along both.
fn blocks_of(lens: &[usize], along_each: usize) -> impl Iterator<Item = usize> {
    let one = if lens.len() == 1 { along_each * along_each } else { along_each };
    let n_others = lens.len().saturating_sub(2);
    lens.iter().enumerate().map(move |(i, &len)| if i < n_others { 1 } else { one.min(len) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn blocks_are_of_scan_and_frame() {
        let check = |nav: &[usize], sig: &[usize], size, expected: &[usize]| {
            assert_eq!(blocks(nav, sig, size), expected, "{nav:?} {sig:?} {size}");
        };
        check(&[256, 256], &[256, 256], 2, &[8, 8, 128, 128]);
        check(&[256, 256], &[512, 512], 2, &[8, 8, 128, 128]);
        // Fewer of larger frames.
        check(&[256, 256], &[1024, 1024], 2, &[4, 4, 256, 256]);
        check(&[256, 256], &[512, 512], 4, &[4, 4, 256, 256]);
        check(&[64, 64], &[4096, 4096], 2, &[1, 1, 1024, 1024]);
        check(&[64, 64], &[9000, 9000], 16, &[1, 1, 1024, 1024]);
        // No larger than the array, whatever axes there are.
        check(&[5, 100], &[100, 300], 2, &[5, 8, 100, 128]);
        check(&[10_000], &[256, 256], 2, &[64, 128, 128]);
        check(&[10, 20, 30], &[256, 256], 2, &[1, 8, 8, 128, 128]);
        check(&[100, 100], &[2048], 4, &[8, 8, 2048]);
        check(&[100], &[100_000], 4, &[64, 16_384]);
        check(&[7, 7], &[3, 200, 200], 2, &[7, 7, 1, 128, 128]);
        check(&[], &[2048, 2048], 2, &[512, 512]);
        check(&[1], &[1], 1, &[1, 1]);
    }
}
