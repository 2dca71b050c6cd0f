//! The laws of a data source.

use crate::random::Random;
use framefold_core::{
    ArrayFormat, DataSource, Element, Error, FrameIndices, FrameReader, Presence, Result, Scratch,
    SigSlice, TileFrames, TilingScheme, densify, dispatch_frames,
};

/// Holds `source` to the laws of its contract.
///
/// - The geometry is consistent, and stays the same while data are read.
/// - Any tile of any scheme holds the same cells as the whole frames, for frames that follow each
///   other and for any others, in the promised dtype and shape.
/// - A source that has its data sparse gives the same cells as sparse rows.
/// - What was read once reads the same again, also by another reader.
/// - Frames past the end are refused.
/// - `verify` finds nothing wrong with a source that was not changed.
///
/// Reads at most a few dozen frames, so that it is fit for large files.
///
/// # Errors
/// `Bug` that names the law, or whatever error the source gives.
pub fn check_source(source: &dyn DataSource) -> Result<()> {
    let info = source.info().clone();
    check_info(source)?;
    let frames = frames_to_read(source);
    let sig = &info.sig_shape;
    let whole = TilingScheme::try_new(sig, sig, 1)?;
    let mut reader = source.reader()?;
    let mut expected = vec![];
    for &frame in &frames {
        let cells = read(reader.as_mut(), FrameIndices::Run(frame..frame + 1), &whole.slices()[0])?;
        expected.push(cells.concat());
    }
    let mut random = Random::new(info.n_frames);
    let size = info.dtype.dtype.size();
    for round in 0..6 {
        let tile: Vec<usize> = match round {
            0 => sig.clone(),
            1 => sig.iter().zip(&info.base_shape).map(|(&s, &b)| b.clamp(1, s)).collect(),
            _ => sig.iter().map(|&axis| 1 + random.below(axis)).collect(),
        };
        let scheme = TilingScheme::try_new(sig, &tile, 1)?;
        for _ in 0..8 {
            let slice = &scheme.slices()[random.below(scheme.slices().len())];
            let (first, last) = (random.below(frames.len()), random.below(frames.len()));
            let chosen = first.min(last)..first.max(last) + 1;
            let list = &frames[chosen.clone()];
            for indices in indices_of(list) {
                let what = format!("frames {indices:?} of slice {slice:?}");
                let found = read(reader.as_mut(), indices.clone(), slice)?;
                if source.format() == ArrayFormat::Csr {
                    check_csr(reader.as_mut(), indices, slice, &found)?;
                }
                for (cells, whole) in found.iter().zip(&expected[chosen.clone()]) {
                    let mut left = cells.as_slice();
                    let same = slice.runs(sig).all(|run| {
                        let rest = left.strip_prefix(&whole[run.start * size..run.end * size]);
                        left = rest.unwrap_or_default();
                        rest.is_some()
                    });
                    if !same || !left.is_empty() {
                        return Err(Error::bug(format!("{what} differ from the whole frames")));
                    }
                }
            }
        }
    }
    refuses(source, FrameIndices::Run(info.n_frames..info.n_frames + 1), &whole.slices()[0])?;
    refuses(source, FrameIndices::List(&[frames[0], u64::MAX - 1]), &whole.slices()[0])?;
    reader.verify()?;
    drop(reader);
    if format!("{info:?}") != format!("{:?}", source.info()) {
        return Err(Error::bug("the geometry of the source changed while it was read"));
    }
    let mut reader = source.reader()?;
    for (&frame, expected) in frames.iter().zip(&expected) {
        let cells = read(reader.as_mut(), FrameIndices::Run(frame..frame + 1), &whole.slices()[0])?;
        if cells.concat() != *expected {
            return Err(Error::bug("a second reader reads something else").with_frame(frame));
        }
    }
    reader.verify()
}

fn check_info(source: &dyn DataSource) -> Result<()> {
    let info = source.info();
    let fail = |what: &str| Err(Error::bug(format!("{what}: {info:?}")));
    if info.n_frames == 0 || info.sig_shape.is_empty() || info.sig_shape.contains(&0) {
        return fail("the source has no frames");
    }
    if info.nav_shape.is_empty() || info.nav_shape.contains(&0) {
        return fail("the suggested scan has no positions");
    }
    if info.base_shape.len() != info.sig_shape.len() || info.base_shape.contains(&0) {
        return fail("the base shape does not fit the signal shape");
    }
    if let Presence::Ranges(ranges) = &info.presence {
        let mut end = 0;
        for range in ranges {
            if range.start < end || range.is_empty() || range.end > info.n_frames {
                return fail("the ranges of frames present are not in order");
            }
            end = range.end;
        }
        if ranges.is_empty() {
            return fail("no frame is present");
        }
    }
    Ok(())
}

/// Up to two dozen frames that are there: the first, the last, and some at the seams.
fn frames_to_read(source: &dyn DataSource) -> Vec<u64> {
    let info = source.info();
    let everything = 0..info.n_frames;
    let ranges = match &info.presence {
        Presence::All => std::slice::from_ref(&everything),
        Presence::Ranges(ranges) => ranges,
    };
    let mut frames: Vec<u64> = vec![];
    for range in ranges.iter().take(4).chain(ranges.last()) {
        let middle = range.start + (range.end - range.start) / 2;
        let near = |frame: u64| frame.saturating_sub(1).max(range.start)..range.end.min(frame + 2);
        frames.extend(near(range.start).chain(near(middle)).chain(near(range.end - 1)));
    }
    frames.sort_unstable();
    frames.dedup();
    frames
}

/// The ways to ask for these frames.
fn indices_of(list: &[u64]) -> Vec<FrameIndices<'_>> {
    let mut indices = vec![FrameIndices::List(list)];
    if let (Some(&first), Some(&last)) = (list.first(), list.last())
        && last - first + 1 == list.len() as u64
    {
        indices.push(FrameIndices::Run(first..last + 1));
    }
    indices
}

/// The bytes of a tile, frame by frame, after a check of its dtype and shape.
fn read(
    reader: &mut dyn FrameReader,
    frames: FrameIndices<'_>,
    slice: &SigSlice,
) -> Result<Vec<Vec<u8>>> {
    let depth = frames.len();
    let tile = reader.read(frames, slice)?;
    let found = (tile.frames().depth(), tile.frames().frame_len());
    if found != (depth, slice.len()) {
        return Err(Error::bug(format!("a tile of {found:?} for {depth} frames of {slice:?}")));
    }
    Ok(bytes_of(tile.frames()))
}

/// Holds the sparse rows of a tile against its dense cells.
fn check_csr(
    reader: &mut dyn FrameReader,
    frames: FrameIndices<'_>,
    slice: &SigSlice,
    expected: &[Vec<u8>],
) -> Result<()> {
    let what = format!("sparse rows of frames {frames:?} of slice {slice:?}");
    let tile = reader.read_csr(frames, slice)?;
    if (tile.depth(), tile.frame_len()) != (expected.len(), slice.len()) {
        return Err(Error::bug(format!("{what}: a tile of another shape")));
    }
    let mut scratch = Scratch::new();
    let dense = densify(&tile, &mut scratch)?;
    let same = dispatch_frames!(dense.frames(), view => {
        view.frames().zip(expected).all(|(cells, bytes)| same_cells(cells, bytes))
    });
    if same { Ok(()) } else { Err(Error::bug(format!("{what} differ from the dense cells"))) }
}

/// Whether cells and bytes are the same; negative zero, which no sparse row holds, is zero.
fn same_cells<T: Element>(cells: &[T], bytes: &[u8]) -> bool {
    let size = size_of::<T>();
    let same = |(cell, bytes): (&T, &[u8])| {
        bytemuck::bytes_of(cell) == bytes || *cell == bytemuck::pod_read_unaligned(bytes)
    };
    bytes.len() == size_of_val(cells) && cells.iter().zip(bytes.chunks_exact(size)).all(same)
}

fn bytes_of(frames: TileFrames<'_>) -> Vec<Vec<u8>> {
    let size = frames.dtype().size();
    let (stride, len) = (frames.stride() * size, frames.frame_len() * size);
    let bytes = frames.as_bytes();
    dispatch_frames!(frames, view => {
        (0..view.depth()).map(|i| bytes[i * stride..i * stride + len].to_vec()).collect()
    })
}

fn refuses(source: &dyn DataSource, frames: FrameIndices<'_>, slice: &SigSlice) -> Result<()> {
    let what = format!("{frames:?}");
    match source.reader()?.read(frames, slice) {
        Err(_) => Ok(()),
        Ok(_) => Err(Error::bug(format!("{what} were read though the source ends before"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryOptions, MemorySource, Values, random_values};
    use framefold_core::{DType, DenseTile, NativeArray, SourceInfo};

    fn memory(dtype: DType, options: MemoryOptions) -> MemorySource {
        let values = random_values(dtype, 11 * 5 * 7, Values::NonFinite, 5);
        MemorySource::try_new(NativeArray::try_new(&[11, 5, 7], values).unwrap(), options).unwrap()
    }

    #[test]
    fn memory_sources_keep_the_law() {
        for dtype in DType::all() {
            for (lends, gap) in [(true, 0), (true, 3), (false, 0), (false, 5)] {
                for presence in [Presence::All, Presence::Ranges(vec![0..2, 5..10])] {
                    for format in [ArrayFormat::Dense, ArrayFormat::Csr] {
                        let presence = presence.clone();
                        let options = MemoryOptions { lends, gap, presence, format };
                        check_source(&memory(dtype, options)).unwrap();
                    }
                }
            }
        }
    }

    #[test]
    fn the_last_frame_is_read_however_many_gaps_there_are() {
        let presence = Presence::Ranges(vec![0..1, 2..3, 4..5, 6..7, 8..11]);
        let source = memory(DType::U8, MemoryOptions { presence, ..MemoryOptions::default() });
        assert_eq!(frames_to_read(&source), [0, 2, 4, 6, 8, 9, 10]);
    }

    /// Reads the next frame wherever less than a whole frame is asked for.
    #[derive(Debug)]
    struct Crooked(MemorySource);

    impl DataSource for Crooked {
        fn info(&self) -> &SourceInfo {
            self.0.info()
        }
        fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
            Ok(Box::new(CrookedReader(self.0.reader()?)))
        }
    }

    struct CrookedReader<'a>(Box<dyn FrameReader + 'a>);

    impl FrameReader for CrookedReader<'_> {
        fn read(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<DenseTile<'_>> {
            let later = match frames {
                FrameIndices::Run(run) if sig.len() < 35 && run.end < 11 => {
                    FrameIndices::Run(run.start + 1..run.end + 1)
                }
                frames => frames,
            };
            self.0.read(later, sig)
        }
        fn verify(&mut self) -> Result<()> {
            Ok(())
        }
    }

    #[test]
    fn a_source_that_mixes_up_frames_is_caught() {
        let source = Crooked(memory(DType::U16, MemoryOptions::default()));
        let error = check_source(&source).unwrap_err();
        assert!(error.message().contains("differ from the whole frames"), "{error}");
    }
}
