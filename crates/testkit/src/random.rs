//! Random pixels from a seed.

use framefold_core::{Bool8, Complex64, Complex128, DType, F16, TypedVec};

/// A small generator (SplitMix64): the same numbers for the same seed, on every machine.
#[derive(Clone, Debug)]
pub struct Random(u64);

impl Random {
    /// A generator that starts from `seed`.
    pub fn new(seed: u64) -> Self {
        Random(seed)
    }

    /// The next 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// A number below `end`, which must not be 0; evenly spread for all practical purposes.
    pub fn below(&mut self, end: usize) -> usize {
        (self.bits() % (end.max(1) as u64)) as usize
    }

    /// A number in `0.0..1.0`.
    pub fn unit(&mut self) -> f64 {
        (self.bits() >> 11) as f64 / (1u64 << 53) as f64
    }
}

/// What random pixels look like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Values {
    /// Counts as of a detector: small, not negative, mostly zero.
    Counts,
    /// Integers over their whole range with many extremes; floats of either sign.
    Full,
    /// As `Full`, with NaN and infinities among floats.
    NonFinite,
    /// As `NonFinite`, with zeros in all but a few pixels.
    Rare,
}

/// `len` random pixels of `dtype`.
pub fn random_values(dtype: DType, len: usize, values: Values, seed: u64) -> TypedVec {
    let mut random = Random::new(seed);
    let mut real = move || real_number(&mut random, values);
    let mut number = Random::new(!seed);
    let mut integer = move |bits: u32, signed: bool| integer_of(&mut number, values, bits, signed);
    macro_rules! fill {
        ($next:expr) => {
            (0..len).map(|_| $next).collect::<Vec<_>>().into()
        };
    }
    match dtype {
        DType::Bool => fill!(Bool8::from(integer(8, false) % 2 == 1)),
        DType::U8 => fill!(integer(8, false) as u8),
        DType::U16 => fill!(integer(16, false) as u16),
        DType::U32 => fill!(integer(32, false) as u32),
        DType::U64 => fill!(integer(64, false) as u64),
        DType::I8 => fill!(integer(8, true) as i8),
        DType::I16 => fill!(integer(16, true) as i16),
        DType::I32 => fill!(integer(32, true) as i32),
        DType::I64 => fill!(integer(64, true) as i64),
        DType::F16 => fill!(F16::from_f64(real())),
        DType::F32 => fill!(real() as f32),
        DType::F64 => fill!(real()),
        DType::C64 => fill!(Complex64::new(real() as f32, real() as f32)),
        DType::C128 => fill!(Complex128::new(real(), real())),
    }
}

fn count(random: &mut Random) -> usize {
    if random.below(3) == 0 { random.below(100) } else { 0 }
}

fn integer_of(random: &mut Random, values: Values, bits: u32, signed: bool) -> i128 {
    if values == Values::Counts {
        return count(random) as i128;
    }
    if is_zero(random, values) {
        return 0;
    }
    let lowest = if signed { -(1i128 << (bits - 1)) } else { 0 };
    let highest = lowest + (1i128 << bits) - 1;
    match random.below(4) {
        0 => highest - random.below(3) as i128,
        1 => lowest + random.below(3) as i128,
        _ => lowest + (i128::from(random.bits()) & ((1i128 << bits) - 1)),
    }
}

fn is_zero(random: &mut Random, values: Values) -> bool {
    values == Values::Rare && random.below(12) > 0
}

fn real_number(random: &mut Random, values: Values) -> f64 {
    if is_zero(random, values) {
        return 0.0;
    }
    match (values, random.below(40)) {
        (Values::Counts, _) => count(random) as f64,
        (Values::NonFinite | Values::Rare, 0) => f64::NAN,
        (Values::NonFinite | Values::Rare, 1) => f64::INFINITY,
        (Values::NonFinite | Values::Rare, 2) => f64::NEG_INFINITY,
        (_, 3) => -0.0,
        _ => (random.unit() - 0.5) * [1e-3, 1.0, 1e3][random.below(3)],
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_seed_gives_the_same_pixels() {
        for dtype in DType::all() {
            let values = random_values(dtype, 50, Values::Full, 3);
            assert_eq!((values.len(), values.dtype()), (50, dtype));
            assert_eq!(values, random_values(dtype, 50, Values::Full, 3));
            assert_ne!(values, random_values(dtype, 50, Values::Full, 4));
        }
    }

    #[test]
    fn extremes_and_non_finite_values_occur() {
        let values = random_values(DType::I64, 200, Values::Full, 1);
        let values: &[i64] = values.as_slice().unwrap();
        assert!(values.contains(&i64::MIN) && values.contains(&i64::MAX));
        let values = random_values(DType::F32, 500, Values::NonFinite, 1);
        let values: &[f32] = values.as_slice().unwrap();
        assert!(values.iter().any(|v| v.is_nan()) && values.iter().any(|v| v.is_infinite()));
        let values = random_values(DType::I8, 500, Values::Rare, 1);
        let zeros = values.as_slice::<i8>().unwrap().iter().filter(|&&v| v == 0).count();
        assert!((400..500).contains(&zeros), "{zeros}");
    }
}
