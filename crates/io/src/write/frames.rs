//! Frames of a data set as they are written: corrected, in the dtype of the output.

use super::cast::{Cast, fill};
use framefold_core::{
    Arrival, CorrectedSlice, CorrectionPlanes, DType, Dataset, DenseTile, Error, FrameIndices,
    FrameReader, Result, Scratch, SigSlice, convert_tile, correct_tile, guarded_call, memory,
};

/// What may panic, in errors.
const SOURCE: &str = "the source of the frames";
/// Decoded pixels that are passed on at a time.
const TILE_BYTES: usize = 2 << 20;

/// One worker's way to the frames.
pub(super) struct Frames<'d> {
    dataset: &'d Dataset,
    reader: Box<dyn FrameReader + 'd>,
    planes: Option<CorrectionPlanes>,
    corrected: Scratch,
    converted: Scratch,
    cast: Cast,
    packed: Vec<u8>,
}

impl<'d> Frames<'d> {
    pub(super) fn try_new(dataset: &'d Dataset, cast: Cast) -> Result<Self> {
        let planes = dataset.corrections();
        let planes = planes.map(|c| CorrectionPlanes::try_new(c, dataset.pixel_dtype()));
        Ok(Frames {
            dataset,
            reader: guarded_call(SOURCE, || dataset.source().reader())?,
            planes: planes.transpose()?,
            corrected: Scratch::new(),
            converted: Scratch::new(),
            cast,
            packed: Vec::new(),
        })
    }

    /// Reads the cells `slice` of some frames in ascending order, `None` for those that are
    /// missing. `each` gets the number of the first frame among them, and the bytes of one or more
    /// without gaps.
    pub(super) fn read(
        &mut self,
        frames: &[Option<u64>],
        slice: &SigSlice,
        each: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let frame_bytes = slice.len() * self.cast.to.size();
        let depth = (TILE_BYTES / frame_bytes.max(1)).max(1);
        let corrected = match self.dataset.corrections() {
            Some(corrections) => {
                let base = &self.dataset.source().info().base_shape;
                Some(CorrectedSlice::try_new(corrections, slice, base)?)
            }
            None => None,
        };
        let mut list = Vec::new();
        let mut start = 0;
        while let Some(first) = frames.get(start) {
            let rest = frames.get(start..).unwrap_or_default();
            let n = rest.iter().take(depth).take_while(|f| f.is_some() == first.is_some()).count();
            if first.is_none() {
                let (value, n) = (fill(self.cast.to), n.saturating_mul(slice.len()));
                let mut filling = memory::with_room(n.saturating_mul(value.len()))?;
                (0..n).for_each(|_| filling.extend_from_slice(&value));
                each(start, &filling)?;
            } else {
                list.clear();
                list.extend(rest.iter().take(n).flatten());
                self.tile(&list, slice, corrected.as_ref(), start, each)?;
            }
            start += n;
        }
        guarded_call(SOURCE, || self.reader.verify())
    }

    fn tile(
        &mut self,
        list: &[u64],
        slice: &SigSlice,
        corrected: Option<&CorrectedSlice>,
        start: usize,
        each: &mut dyn FnMut(usize, &[u8]) -> Result<()>,
    ) -> Result<()> {
        let indices = match (list.first(), list.last()) {
            (Some(&first), Some(&last)) if last - first + 1 == list.len() as u64 => {
                FrameIndices::Run(first..last + 1)
            }
            _ => FrameIndices::List(list),
        };
        let read = corrected.map_or(slice, CorrectedSlice::read);
        let source = self.dataset.source();
        let frames = list.first().copied().unwrap_or(0)..list.last().map_or(0, |last| last + 1);
        match guarded_call(SOURCE, || Ok(source.arrival(frames)))? {
            Arrival::Here => {}
            Arrival::NotYet => {
                return Err(Error::unsupported("some frames of the data set have not arrived")
                    .with_hint("write it when all of them are there"));
            }
            Arrival::Never => {
                return Err(Error::unsupported("some frames of the data set will never arrive"));
            }
        }
        let reader = self.reader.as_mut();
        let mut tile = guarded_call(SOURCE, || reader.read(indices, read))?;
        tile.check(list.len(), read, source.info().dtype.dtype)?;
        if let (Some(slice), Some(planes)) = (corrected, &self.planes) {
            tile = correct_tile(&tile, slice, planes, &mut self.corrected)?;
        }
        let made: DenseTile<'_>;
        if tile.frames().dtype() != self.cast.to {
            made = convert_tile(&tile, self.cast.to, &mut self.converted)?;
            self.cast.check(&tile, &made).map_err(|(i, error)| match list.get(i) {
                Some(&frame) => error.with_frame(frame),
                None => error,
            })?;
            tile = made;
        }
        let frames = tile.frames();
        let size = frames.dtype().size();
        let (len, stride) = (frames.frame_len() * size, frames.stride() * size);
        let bytes = frames.as_bytes();
        if len == stride || frames.depth() == 1 {
            return each(start, bytes.get(..len * frames.depth()).unwrap_or_default());
        }
        self.packed.clear();
        memory::make_room(&mut self.packed, len.saturating_mul(frames.depth()))?;
        for i in 0..frames.depth() {
            self.packed.extend_from_slice(bytes.get(i * stride..i * stride + len).unwrap_or(&[]));
        }
        each(start, &self.packed)
    }
}

/// The dtype in which a data set is written if nothing else is wanted.
pub(super) fn native(dataset: &Dataset) -> DType {
    dataset.pixel_dtype()
}
