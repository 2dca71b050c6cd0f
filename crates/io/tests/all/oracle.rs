//! An array as plain as can be, and the check that a source delivers it.

use framefold_core::{
    ByteOrder, DType, DataSource, FrameIndices, FrameReader, SigSlice, StoredDType, TilingScheme,
};
use proptest::prelude::*;

/// Frames as a list of elements, in C order.
#[derive(Clone, Debug)]
pub struct Frames {
    pub stored: StoredDType,
    pub n_frames: usize,
    pub sig_shape: Vec<usize>,
    /// As they lie in a file: stored byte order, truth values of any kind.
    pub bytes: Vec<u8>,
}

impl Frames {
    /// Random frames; the same for the same seed.
    pub fn random(stored: StoredDType, n_frames: usize, sig_shape: &[usize], seed: u64) -> Self {
        let len = n_frames * sig_shape.iter().product::<usize>() * stored.dtype.size();
        let mut state = seed | 1;
        let bytes = (0..len)
            .map(|_| {
                state ^= state << 13;
                state ^= state >> 7;
                state ^= state << 17;
                // Zeros are common in counting detectors, and the only false truth value.
                if state.is_multiple_of(3) { 0 } else { (state >> 32) as u8 }
            })
            .collect();
        Frames { stored, n_frames, sig_shape: sig_shape.to_vec(), bytes }
    }

    pub fn cells(&self) -> usize {
        self.sig_shape.iter().product()
    }

    pub fn size(&self) -> usize {
        self.stored.dtype.size()
    }

    pub fn frame_bytes(&self) -> usize {
        self.cells() * self.size()
    }

    /// One frame as it lies in a file.
    pub fn frame(&self, frame: usize) -> &[u8] {
        &self.bytes[frame * self.frame_bytes()..][..self.frame_bytes()]
    }

    /// One element in native byte order, truth values as 0 and 1.
    fn element(&self, frame: usize, cell: usize) -> Vec<u8> {
        let mut element = self.frame(frame)[cell * self.size()..][..self.size()].to_vec();
        if self.stored.dtype == DType::Bool {
            element[0] = u8::from(element[0] != 0);
        } else if self.stored.order != ByteOrder::NATIVE {
            let unit = if self.stored.dtype.is_complex() { self.size() / 2 } else { self.size() };
            element.chunks_mut(unit).for_each(<[u8]>::reverse);
        }
        element
    }

    /// The cells of a slice, found one by one from their coordinates.
    fn slice(&self, frame: usize, slice: &SigSlice) -> Vec<u8> {
        let mut out = Vec::new();
        for k in 0..slice.len() {
            let (mut rest, mut flat, mut weight) = (k, 0, 1);
            for axis in (0..self.sig_shape.len()).rev() {
                let coordinate = slice.origin()[axis] + rest % slice.shape()[axis];
                rest /= slice.shape()[axis];
                flat += coordinate * weight;
                weight *= self.sig_shape[axis];
            }
            out.extend(self.element(frame, flat));
        }
        out
    }
}

/// What to ask a source for.
#[derive(Clone, Debug)]
pub struct Questions {
    pub tile_shape: Vec<usize>,
    pub picks: Vec<prop::sample::Index>,
}

/// Asks for the whole, for runs and for lists of the frames in `present`, over every slice.
pub fn check(source: &dyn DataSource, frames: &Frames, present: &[u64], ask: &Questions) {
    assert_eq!(source.info().sig_shape, frames.sig_shape);
    assert_eq!(source.info().dtype, frames.stored);
    let mut tile_shape = ask.tile_shape.clone();
    tile_shape.resize(frames.sig_shape.len(), 2);
    let scheme = TilingScheme::try_new(&frames.sig_shape, &tile_shape, 1).unwrap();
    let mut picked: Vec<u64> = ask.picks.iter().map(|pick| *pick.get(present)).collect();
    picked.sort_unstable();
    picked.dedup();
    let every_other: Vec<u64> = present.iter().copied().step_by(2).collect();
    let run = run_around(picked[0], present);
    let mut reader = source.reader().unwrap();
    for slice in scheme.slices() {
        for indices in [
            FrameIndices::Run(run.clone()),
            FrameIndices::List(&picked),
            FrameIndices::List(&every_other),
            FrameIndices::List(present),
        ] {
            compare(reader.as_mut(), &indices, slice, frames);
        }
    }
    reader.verify().unwrap();
}

/// The longest run of present frames that holds `frame`.
fn run_around(frame: u64, present: &[u64]) -> std::ops::Range<u64> {
    let mut run = frame..frame + 1;
    while run.start > 0 && present.contains(&(run.start - 1)) {
        run.start -= 1;
    }
    while present.contains(&run.end) {
        run.end += 1;
    }
    run
}

pub fn compare(
    reader: &mut dyn FrameReader,
    indices: &FrameIndices<'_>,
    slice: &SigSlice,
    frames: &Frames,
) {
    let tile = reader.read(indices.clone(), slice).unwrap();
    assert_eq!(tile.frames().dtype(), frames.stored.dtype);
    assert_eq!(tile.frames().depth(), indices.len());
    assert_eq!(tile.frames().frame_len(), slice.len());
    let stride = tile.frames().stride() * frames.size();
    let len = slice.len() * frames.size();
    for (i, frame) in indices.iter().enumerate() {
        let found = &tile.frames().as_bytes()[i * stride..i * stride + len];
        let expected = frames.slice(usize::try_from(frame).unwrap(), slice);
        assert_eq!(found, expected, "frame {frame}, {slice:?}");
    }
}

/// Any dtype in either byte order.
pub fn any_dtype() -> impl Strategy<Value = StoredDType> {
    let dtypes: Vec<DType> = DType::all().collect();
    (prop::sample::select(dtypes), any::<bool>()).prop_map(|(dtype, big)| StoredDType {
        dtype,
        order: match (big, dtype.size()) {
            // NumPy does not distinguish these either.
            (_, 1) | (false, _) => ByteOrder::Little,
            (true, _) => ByteOrder::Big,
        },
    })
}

/// Random frames of any dtype.
pub fn any_frames() -> impl Strategy<Value = Frames> {
    (any_dtype(), 1usize..9, prop::collection::vec(1usize..6, 1..4), any::<u64>())
        .prop_map(|(stored, n, sig, seed)| Frames::random(stored, n, &sig, seed))
}

/// Random tilings and frame lists.
pub fn any_questions() -> impl Strategy<Value = Questions> {
    let tile_shape = prop::collection::vec(1usize..6, 3);
    let picks = prop::collection::vec(any::<prop::sample::Index>(), 1..6);
    (tile_shape, picks).prop_map(|(tile_shape, picks)| Questions { tile_shape, picks })
}

/// All of `0..n`.
pub fn all(n: usize) -> Vec<u64> {
    (0..n as u64).collect()
}
