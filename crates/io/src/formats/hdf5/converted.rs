//! Frames in another dtype than they are stored in: what a virtual data set makes of its sources.
//!
//! Values are converted as the HDF5 library does it. What an integer cannot hold becomes the nearest
//! value that it can, floats become integers towards zero, and what is beyond the largest number of
//! a shorter float becomes infinite.
//!
//! In places the library does one thing or another, by byte orders, machine and version. Where all
//! values are at stake, the pair of dtypes is refused when the file is opened: half-precision numbers
//! but to longer floats, and floats in the other byte order to integers or to shorter floats. Where
//! some are, they are refused when they are read: NaN and floats just beyond the largest integer, as
//! integers; and what has to be clipped between integers of one size in different byte orders.

mod values;

use framefold_core::{
    Complex64, DType, DataSource, DenseTile, Error, FrameIndices, FrameReader, Result, Scratch,
    SigSlice, SourceInfo, StoredDType, TileFrames, convert_tile,
};
use std::sync::Arc;
use values::{to_integers, write};

/// A source whose pixels become those of another dtype.
#[derive(Debug)]
pub(super) struct Converted {
    info: SourceInfo,
    source: Arc<dyn DataSource>,
    pair: Pair,
}

/// From what to what, with the byte orders in the files.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pair {
    pub(super) from: StoredDType,
    pub(super) to: StoredDType,
}

impl Converted {
    /// The source itself, which is called `name`, if that has the dtype already.
    ///
    /// # Errors
    /// `Unsupported` if the library has no way from its dtype to that one.
    pub(super) fn of(
        source: Arc<dyn DataSource>,
        name: &str,
        pair: Pair,
    ) -> Result<Arc<dyn DataSource>> {
        if source.info().dtype.dtype == pair.to.dtype {
            return Ok(source);
        }
        pair.check(name)?;
        let mut info = source.info().clone();
        info.dtype = StoredDType::native(pair.to.dtype);
        info.lends = false;
        Ok(Arc::new(Converted { info, source, pair }))
    }
}

impl Pair {
    /// Whether one becomes the other in what is called `name`.
    ///
    /// # Errors
    /// `Unsupported` if not.
    fn check(self, name: &str) -> Result<()> {
        let [from, to] = [self.from.dtype, self.to.dtype];
        let floats = from.is_float() || from.is_complex();
        let shorter = to.is_integer() || to.size() < from.size();
        let native = self.from.is_native() && self.to.is_native();
        let why = match (from, to) {
            (_, DType::Bool) => "HDF5 does not make truth values of numbers",
            (from, to) if from.is_complex() != to.is_complex() => {
                "HDF5 knows no way between complex and real numbers"
            }
            (DType::F16, DType::F32 | DType::F64) => return Ok(()),
            (DType::F16, _) | (_, DType::F16) => {
                "HDF5 converts half-precision numbers in other ways from one version to the next"
            }
            _ if floats && shorter && !native => {
                "HDF5 rounds floats in the other byte order in ways of its own"
            }
            _ => return Ok(()),
        };
        let [from, to] = [self.from, self.to];
        Err(Error::unsupported(format!(
            "the virtual data set has the dtype {to}, but {name} that it shows {from}: {why}"
        ))
        .with_hint("open the data set that it shows, or copy it in the dtype that is wanted"))
    }

    /// Whether values beyond what an integer can hold are clipped, and not taken bit by bit.
    fn clips(self) -> bool {
        self.from.dtype.size() != self.to.dtype.size() || self.from.order == self.to.order
    }
}

/// One element, in native byte order, as one of the other dtype.
///
/// # Errors
/// As [`Converted::of`], and for values that have no counterpart.
pub(super) fn element(pair: Pair, bytes: &[u8]) -> Result<Vec<u8>> {
    let from = pair.from.dtype;
    if from == pair.to.dtype {
        return Ok(bytes.to_vec());
    }
    pair.check("the fill value")?;
    let mut aligned = Scratch::new();
    aligned.prepare(bytes.len())?.copy_from_slice(bytes);
    let element = aligned.bytes().get(..from.size()).unwrap_or_default();
    let frames = TileFrames::from_bytes(from, element, 1, 1, 1)?;
    let mut scratch = Scratch::new();
    let tile = convert(&DenseTile::borrowed(frames), pair, &mut scratch)?;
    Ok(tile.map_err(|odd| odd.error())?.frames().as_bytes().to_vec())
}

impl DataSource for Converted {
    fn info(&self) -> &SourceInfo {
        &self.info
    }

    fn reader(&self) -> Result<Box<dyn FrameReader + '_>> {
        let reader = self.source.reader()?;
        Ok(Box::new(ConvertedReader { source: self, reader, scratch: Scratch::new() }))
    }

    fn stored_bytes(&self) -> Option<u64> {
        self.source.stored_bytes()
    }

    fn frames_together(&self) -> usize {
        self.source.frames_together()
    }

    fn pieces(&self) -> Option<&[u64]> {
        self.source.pieces()
    }
}

struct ConvertedReader<'s> {
    source: &'s Converted,
    reader: Box<dyn FrameReader + 's>,
    scratch: Scratch,
}

impl FrameReader for ConvertedReader<'_> {
    fn read(&mut self, frames: FrameIndices<'_>, sig: &SigSlice) -> Result<DenseTile<'_>> {
        let info = &self.source.info;
        let tile = self.reader.read(frames.clone(), sig)?;
        convert(&tile, self.source.pair, &mut self.scratch)?.map_err(|odd| {
            let error = odd.error().with_format(info.format);
            let error = match frames.get(odd.frame) {
                Some(frame) => error.with_frame(frame),
                None => error,
            };
            match info.paths.as_slice() {
                [path] => error.with_path(path),
                _ => error,
            }
        })
    }

    fn verify(&mut self) -> Result<()> {
        self.reader.verify()
    }
}

/// A value of which the library makes one thing or another.
struct Odd {
    /// Its place in the tile.
    frame: usize,
    value: f64,
    to: DType,
}

impl Odd {
    fn error(&self) -> Error {
        Error::unsupported(format!(
            "the virtual data set has the dtype {}, which cannot hold {} of the data set that it \
             shows: HDF5 does not say what becomes of it",
            self.to, self.value
        ))
        .with_hint("open the data set that is shown instead of the virtual one")
    }
}

/// The tile in the other dtype.
fn convert<'t>(
    tile: &DenseTile<'t>,
    pair: Pair,
    scratch: &'t mut Scratch,
) -> Result<Result<DenseTile<'t>, Odd>> {
    let (dtype, clips) = (pair.to.dtype, pair.clips());
    let (depth, len) = (tile.frames().depth(), tile.frames().frame_len());
    let len_bytes = depth.checked_mul(len).and_then(|cells| cells.checked_mul(dtype.size()));
    let len_bytes = len_bytes.ok_or_else(|| Error::limit("a tile does not fit in memory"))?;
    macro_rules! integers {
        ($view:expr) => {
            to_integers($view, dtype, clips, scratch.prepare(len_bytes)?)
        };
    }
    let done = match tile.frames() {
        TileFrames::F64(view) if dtype == DType::F32 => {
            write::<_, f32>(view, clips, scratch.prepare(len_bytes)?)
        }
        TileFrames::C128(view) if dtype == DType::C64 => {
            write::<_, Complex64>(view, clips, scratch.prepare(len_bytes)?)
        }
        TileFrames::U8(view) if dtype.is_integer() => integers!(view),
        TileFrames::U16(view) if dtype.is_integer() => integers!(view),
        TileFrames::U32(view) if dtype.is_integer() => integers!(view),
        TileFrames::U64(view) if dtype.is_integer() => integers!(view),
        TileFrames::I8(view) if dtype.is_integer() => integers!(view),
        TileFrames::I16(view) if dtype.is_integer() => integers!(view),
        TileFrames::I32(view) if dtype.is_integer() => integers!(view),
        TileFrames::I64(view) if dtype.is_integer() => integers!(view),
        TileFrames::F32(view) if dtype.is_integer() => integers!(view),
        TileFrames::F64(view) if dtype.is_integer() => integers!(view),
        // Everything else becomes longer, or the nearest float.
        _ => return convert_tile(tile, dtype, scratch).map(Ok),
    };
    if let Err((frame, value)) = done? {
        return Ok(Err(Odd { frame, value, to: dtype }));
    }
    let scratch: &Scratch = scratch;
    let bytes = scratch.bytes().get(..len_bytes).unwrap_or_default();
    let frames = TileFrames::from_bytes(dtype, bytes, depth, len, len)?;
    Ok(Ok(DenseTile::lent(frames, scratch.owner())?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use framefold_core::{ByteOrder, Element};

    fn pair(from: DType, to: DType) -> Pair {
        Pair { from: StoredDType::native(from), to: StoredDType::native(to) }
    }

    fn swapped(dtype: DType) -> StoredDType {
        StoredDType { dtype, order: ByteOrder::Big }
    }

    fn cell<S: Element, T: Element>(value: S) -> Result<T> {
        let bytes = element(pair(S::DTYPE, T::DTYPE), bytemuck::bytes_of(&value))?;
        Ok(bytemuck::pod_read_unaligned(&bytes))
    }

    #[test]
    fn integers_are_kept_or_clipped() {
        assert_eq!(cell::<i64, u8>(-1).unwrap(), 0);
        assert_eq!(cell::<i64, u64>(i64::MIN).unwrap(), 0);
        assert_eq!(cell::<u64, i64>(u64::MAX).unwrap(), i64::MAX);
        assert_eq!(cell::<i32, i8>(-129).unwrap(), -128);
        assert_eq!(cell::<u16, u32>(65535).unwrap(), 65535);
        assert_eq!(cell::<i8, f32>(-3).unwrap(), -3.0);
    }

    #[test]
    fn integers_of_one_size_in_two_orders_are_kept_or_refused() {
        let pair = Pair { from: swapped(DType::U16), to: DType::I16.into() };
        assert_eq!(element(pair, &7u16.to_ne_bytes()).unwrap(), 7i16.to_ne_bytes());
        let error = element(pair, &65535u16.to_ne_bytes()).unwrap_err();
        assert!(error.message().contains("65535"), "{error}");
        let pair = Pair { to: swapped(DType::I16), ..pair };
        assert_eq!(element(pair, &65535u16.to_ne_bytes()).unwrap(), i16::MAX.to_ne_bytes());
    }

    #[test]
    fn floats_become_integers_towards_zero_where_that_is_sure() {
        assert_eq!(cell::<f32, i16>(-1.9).unwrap(), -1);
        assert_eq!(cell::<f64, u8>(f64::INFINITY).unwrap(), 255);
        assert_eq!(cell::<f64, u32>(-7.0).unwrap(), 0);
        assert_eq!(cell::<f32, i32>(f32::INFINITY).unwrap(), i32::MAX);
        // A double holds the largest integer of 32 bits, a single does not.
        assert_eq!(cell::<f64, i32>(2147483648.0).unwrap(), i32::MAX);
        let error = cell::<f32, i32>(2147483648.0).unwrap_err();
        assert!(error.message().contains("2147483648"), "{error}");
        cell::<f64, u64>(2f64.powi(64)).unwrap_err();
        cell::<f32, u8>(f32::NAN).unwrap_err();
    }

    #[test]
    fn shorter_floats_are_infinite_beyond_their_largest_number() {
        assert_eq!(cell::<f64, f32>(f64::from(f32::MAX) * (1.0 + 1e-9)).unwrap(), f32::INFINITY);
        assert_eq!(cell::<f64, f32>(-1e300).unwrap(), f32::NEG_INFINITY);
        assert_eq!(cell::<f64, f32>(-0.1).unwrap(), -0.1);
        assert!(cell::<f64, f32>(f64::NAN).unwrap().is_nan());
    }

    #[test]
    fn pairs_without_a_way_are_refused() {
        for (from, to) in [
            (DType::U8, DType::Bool),
            (DType::F16, DType::U16),
            (DType::F32, DType::F16),
            (DType::C64, DType::F32),
            (DType::F64, DType::C128),
        ] {
            let error = pair(from, to).check("'x'").unwrap_err();
            assert!(error.message().contains(to.name()), "{error}");
        }
        for to in [DType::F32, DType::I32] {
            Pair { from: swapped(DType::F64), to: to.into() }.check("'x'").unwrap_err();
            Pair { from: DType::F64.into(), to: swapped(to) }.check("'x'").unwrap_err();
        }
        Pair { from: swapped(DType::F32), to: DType::F64.into() }.check("'x'").unwrap();
    }
}
