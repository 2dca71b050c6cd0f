//! Conversion of what is written to another dtype, without losing anything unnoticed.

use framefold_core::{
    DType, DenseTile, Error, Result, Scratch, TileFrames, convert_tile, dispatch_frames,
};

/// What values without data are made of: NaN where there is one, and 0.
pub(super) fn fill(dtype: DType) -> Vec<u8> {
    match dtype {
        // The bits of the quiet NaN.
        DType::F16 => 0x7E00u16.to_ne_bytes().to_vec(),
        DType::F32 => f32::NAN.to_ne_bytes().to_vec(),
        DType::F64 => f64::NAN.to_ne_bytes().to_vec(),
        DType::C64 => f32::NAN.to_ne_bytes().repeat(2),
        DType::C128 => f64::NAN.to_ne_bytes().repeat(2),
        other => vec![0; other.size()],
    }
}

/// From which dtype to which other one.
#[derive(Clone, Copy, Debug)]
pub(super) struct Cast {
    pub(super) from: DType,
    pub(super) to: DType,
    /// Whether values may be rounded, towards zero to integers; even then, none may lie beyond what
    /// the dtype can hold.
    pub(super) lossy: bool,
}

impl Cast {
    /// # Errors
    /// `InvalidArgument` if complex numbers are to become real.
    pub(super) fn try_new(from: DType, to: Option<DType>, lossy: bool) -> Result<Self> {
        let to = to.unwrap_or(from);
        if from.is_complex() && !to.is_complex() {
            return Err(Error::invalid(format!("{from} cannot be written as {to}"))
                .with_hint("write complex64 or complex128"));
        }
        Ok(Cast { from, to, lossy })
    }

    /// Whether no value can be lost, so that nothing has to be looked at.
    fn is_safe(self) -> bool {
        // Promotion takes double precision for what is between 64 bits and a float.
        let rounded = self.too_large().is_some() && !self.to.is_integer();
        !rounded && DType::promote(self.from, self.to) == self.to
    }

    /// The least value above all of integers that double precision cannot tell apart; such values
    /// round to it, and would come back as the largest integer.
    fn too_large(self) -> Option<f64> {
        match self.from {
            DType::U64 => Some(2f64.powi(64)),
            DType::I64 => Some(2f64.powi(63)),
            _ => None,
        }
    }

    /// Whether a float, rounded towards zero, is one of the integers that are written.
    fn is_in_range(self, value: f64) -> bool {
        if !self.to.is_integer() {
            return true;
        }
        let is_signed = matches!(self.to, DType::I8 | DType::I16 | DType::I32 | DType::I64);
        let n_bits = self.to.size() as i32 * 8 - i32::from(is_signed);
        // As a float, the largest integer of 64 bits would be the one above it.
        let above = 2f64.powi(n_bits);
        let least = if is_signed { -above } else { 0.0 };
        (least..above).contains(&value.trunc())
    }

    /// Holds a converted tile against the original; errors come with the frame within the tile.
    pub(super) fn check(
        self,
        original: &DenseTile<'_>,
        converted: &DenseTile<'_>,
    ) -> std::result::Result<(), (usize, Error)> {
        if self.is_safe() {
            return Ok(());
        }
        self.compare(original, converted).map_err(|error| (0, error)).and_then(|found| {
            let Some((frame, pixel, value)) = found else { return Ok(()) };
            let what = if self.lossy { "it is out of range" } else { "it would change" };
            let error = Error::invalid(format!(
                "pixel {pixel} is {value}, which cannot be written as {}: {what}",
                self.to
            ));
            let error = if self.lossy {
                error.with_hint("choose a dtype that can hold it")
            } else {
                error.with_hint("choose another dtype, or allow rounding (--lossy, lossy=True)")
            };
            Err((frame, error))
        })
    }

    /// The first value that is not kept.
    fn compare(
        self,
        original: &DenseTile<'_>,
        converted: &DenseTile<'_>,
    ) -> Result<Option<(usize, usize, String)>> {
        let mut back = Scratch::new();
        if self.to.is_complex() && !self.from.is_complex() {
            // What matters is the real part.
            let part = if self.to == DType::C64 { DType::F32 } else { DType::F64 };
            let real = convert_tile(original, part, &mut back)?;
            return Cast { to: part, ..self }.compare(original, &real);
        }
        // Integers and back: wide ones do not fit a float, but wrap around if they are too large.
        if self.from.is_integer() && self.to.is_integer() {
            let back = convert_tile(converted, self.from, &mut back)?;
            let sign = |frames: TileFrames<'_>| wide(frames, DType::F64);
            let (then, now) = (sign(original.frames())?, sign(converted.frames())?);
            let len = original.frames().frame_len();
            let same = equal_cells(original.frames(), back.frames());
            let mut cells = then.iter().zip(&now).enumerate();
            let odd = cells.find(|&(i, (&then, &now))| {
                !same.get(i).copied().unwrap_or(false) || (then < 0.0) != (now < 0.0)
            });
            return Ok(odd.map(|(i, (then, _))| (i / len, i % len, then.to_string())));
        }
        let wider = if self.from.is_complex() { DType::C128 } else { DType::F64 };
        let (then, now) = (wide(original.frames(), wider)?, wide(converted.frames(), wider)?);
        let parts = if wider == DType::C128 { 2 } else { 1 };
        let len = original.frames().frame_len() * parts;
        // u64 and i64 have values that f64 has not; those have to come back as they were.
        let exact = if self.from.is_integer() && self.to.is_float() && !self.lossy {
            let back = convert_tile(converted, self.from, &mut back)?;
            Some(equal_cells(original.frames(), back.frames()))
        } else {
            None
        };
        let kept = |i: usize, a: f64, b: f64| {
            let same = a == b || (a.is_nan() && b.is_nan());
            let exact = exact.as_ref().is_none_or(|exact| {
                exact.get(i).copied().unwrap_or(false)
                    && self.too_large().is_none_or(|limit| b < limit)
            });
            let short = !self.to.is_integer() && (a - b).abs() <= a.abs() / 256.0;
            let near = (a - b).abs() < 1.0 || short;
            let rounded = self.lossy && self.to != DType::Bool && near;
            self.is_in_range(a) && ((same && exact) || rounded)
        };
        let mut cells = then.iter().zip(&now).enumerate();
        let odd = cells.find(|&(i, (&then, &now))| !kept(i, then, now));
        Ok(odd.map(|(i, (then, _))| (i / len, i % len / parts, then.to_string())))
    }
}

/// All cells as f64, complex ones as pairs.
fn wide(frames: TileFrames<'_>, dtype: DType) -> Result<Vec<f64>> {
    let tile = DenseTile::borrowed(frames);
    let mut scratch = Scratch::new();
    let tile = convert_tile(&tile, dtype, &mut scratch)?;
    let mut values = Vec::with_capacity(tile.frames().depth() * tile.frames().frame_len());
    for i in 0..tile.frames().depth() {
        match tile.frames() {
            TileFrames::F64(view) => values.extend_from_slice(view.frame(i)),
            TileFrames::C128(view) => {
                values.extend(view.frame(i).iter().flat_map(|value| [value.re, value.im]));
            }
            _ => return Err(Error::bug("a tile was not widened")),
        }
    }
    Ok(values)
}

/// Which cells have the same bytes.
fn equal_cells(a: TileFrames<'_>, b: TileFrames<'_>) -> Vec<bool> {
    let bytes = |frames: TileFrames<'_>| {
        let mut bytes: Vec<u8> = Vec::new();
        dispatch_frames!(frames, view => {
            for frame in view.frames() {
                bytes.extend_from_slice(bytemuck::cast_slice(frame));
            }
        });
        bytes
    };
    let size = a.dtype().size();
    let (a, b) = (bytes(a), bytes(b));
    a.chunks_exact(size).zip(b.chunks_exact(size)).map(|(a, b)| a == b).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use framefold_core::{Element, FramesView};

    fn check<T: Element>(values: &[T], to: DType, lossy: bool) -> std::result::Result<(), String> {
        let view = FramesView::try_new(values, 1, values.len(), values.len()).unwrap();
        let original = DenseTile::borrowed(T::wrap_frames(view));
        let cast = Cast::try_new(T::DTYPE, Some(to), lossy).unwrap();
        let mut scratch = Scratch::new();
        let converted = convert_tile(&original, to, &mut scratch).unwrap();
        cast.check(&original, &converted).map_err(|(_, error)| error.message().to_owned())
    }

    #[test]
    fn values_that_fit_may_have_any_dtype() {
        check(&[0u16, 255], DType::U8, false).unwrap();
        check(&[0u32, 127], DType::I8, false).unwrap();
        check(&[0.0f32, -0.0, 255.0], DType::U8, false).unwrap();
        check(&[1.5f64, f64::NAN, f64::INFINITY], DType::F32, false).unwrap();
        check(&[1u64 << 60], DType::F64, false).unwrap();
        check(&[0u8, 1], DType::Bool, false).unwrap();
        check(&[0u32, 127], DType::C64, false).unwrap();
        check(&[0.5f64], DType::C64, false).unwrap();
    }

    #[test]
    fn values_that_change_are_refused() {
        assert!(check(&[0u16, 256], DType::U8, false).unwrap_err().contains("pixel 1 is 256"));
        for lossy in [false, true] {
            check(&[u64::MAX], DType::I64, lossy).unwrap_err();
            check(&[-1i8], DType::U8, lossy).unwrap_err();
            check(&[-1i64], DType::U64, lossy).unwrap_err();
            check(&[256u16], DType::U8, lossy).unwrap_err();
            check(&[f32::NAN], DType::I32, lossy).unwrap_err();
            check(&[1e10f32], DType::I32, lossy).unwrap_err();
            check(&[1e300f64], DType::F32, lossy).unwrap_err();
            check(&[2u8], DType::Bool, lossy).unwrap_err();
        }
        check(&[(1u64 << 60) + 1], DType::F64, false).unwrap_err();
        check(&[u64::MAX], DType::F64, false).unwrap_err();
        check(&[i64::MAX], DType::C128, false).unwrap_err();
        check(&[u64::MAX], DType::F64, true).unwrap();
        check(&[(1u64 << 60) + 1], DType::C64, false).unwrap_err();
        check(&[0.1f64], DType::F32, false).unwrap_err();
        check(&[0.1f64], DType::C64, false).unwrap_err();
        check(&[1.5f32], DType::I32, false).unwrap_err();
        check(&[0.1f64], DType::F32, true).unwrap();
        check(&[1.5f32], DType::I32, true).unwrap();
        assert!(Cast::try_new(DType::C64, Some(DType::F32), true).is_err());
    }

    #[test]
    fn floats_beyond_the_integers_are_refused() {
        let (top_i64, top_u64) = (2f64.powi(63), 2f64.powi(64));
        for lossy in [false, true] {
            check(&[top_i64], DType::I64, lossy).unwrap_err();
            check(&[top_u64], DType::U64, lossy).unwrap_err();
            check(&[top_i64 as f32], DType::I64, lossy).unwrap_err();
            check(&[top_u64 as f32], DType::U64, lossy).unwrap_err();
            check(&[-top_i64.next_up()], DType::I64, lossy).unwrap_err();
            check(&[f64::INFINITY], DType::U64, lossy).unwrap_err();
            check(&[f64::NEG_INFINITY], DType::I64, lossy).unwrap_err();
            check(&[256f32], DType::U8, lossy).unwrap_err();
            check(&[128f32], DType::I8, lossy).unwrap_err();
            check(&[-129f32], DType::I8, lossy).unwrap_err();
            check(&[-1f32], DType::U8, lossy).unwrap_err();
            check(&[2_155_000_000f64], DType::I32, lossy).unwrap_err();
            check(&[-top_i64, top_i64.next_down()], DType::I64, lossy).unwrap();
            check(&[-0.0, top_u64.next_down()], DType::U64, lossy).unwrap();
        }
    }

    #[test]
    fn rounding_to_integers_is_towards_zero_at_their_ends_too() {
        for (value, to) in [
            (255.4, DType::U8),
            (255.6, DType::U8),
            (-0.9, DType::U8),
            (127.9, DType::I8),
            (-128.9, DType::I8),
            (-32768.5, DType::I16),
            (2_147_483_647.9, DType::I32),
            (4_294_967_295.5, DType::U32),
        ] {
            check(&[value], to, true).unwrap();
            check(&[value], to, false).unwrap_err();
        }
    }
}
