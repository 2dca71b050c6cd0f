//! Sixteen numbers at a time, in the registers of each instruction set.
//!
//! The compiler keeps the many sums of a blocked product in registers only if they are vectors
//! from the outset, so this is written with intrinsics. Each operation works lane by lane and is
//! rounded once; so all instruction sets, and [`Plain`], give the same bits.

#[cfg(target_arch = "x86_64")]
use framefold_simd::Found;
use framefold_simd::{Simd, run_plain};

/// The number of lanes, in single and in double precision.
pub(super) const LANES: usize = 16;

/// Proof that the processor has an instruction set, and its operations on [`LANES`] numbers.
pub(super) trait Lanes<S>: Copy {
    /// The numbers, in registers.
    type Row: Copy;

    /// The same number in each lane.
    fn splat(self, value: S) -> Self::Row;

    /// `a * b + c`, rounded once.
    fn mul_add(self, a: Self::Row, b: Self::Row, c: Self::Row) -> Self::Row;

    /// Numbers to memory.
    fn store(self, row: Self::Row) -> [S; LANES];
}

/// Takes cells of type `T` from memory, and makes them numbers `S`; nothing is lost.
pub(super) trait Load<T, S>: Lanes<S> {
    /// The numbers, in registers.
    fn load(self, cells: &[T; LANES]) -> Self::Row;
}

/// All that can be loaded as `S`, and pixels of integers as single precision.
pub(super) trait Loads<S>: Registers + Load<f32, S> + Load<S, S> {}

impl<L, S> Loads<S> for L where L: Registers + Load<f32, S> + Load<S, S> {}

/// What is common to both precisions.
pub(super) trait Registers:
    Copy + Load<u8, f32> + Load<i8, f32> + Load<u16, f32> + Load<i16, f32>
{
    /// Whether there are 32 of 64 bytes, rather than 16 of 32 bytes.
    const MANY: bool;
}

/// Work on numbers `S` that is compiled for each instruction set.
pub(super) trait Work<S> {
    /// Does it; inlined.
    fn run<L: Loads<S>>(self, lanes: L);
}

/// A precision that there are operations for.
pub(super) trait Float: Sized {
    /// Does the work with the instructions of `simd`.
    fn run(simd: Simd, work: impl Work<Self>);
}

macro_rules! float {
    ($type:ty) => {
        impl Float for $type {
            fn run(simd: Simd, work: impl Work<Self>) {
                // Work of this size would not be inlined otherwise, and run as plain code.
                match simd.found() {
                    #[cfg(target_arch = "x86_64")]
                    Found::Avx512(avx512) => avx512.run(
                        #[inline(always)]
                        || work.run(avx512),
                    ),
                    #[cfg(target_arch = "x86_64")]
                    Found::Avx2(avx2) => avx2.run(
                        #[inline(always)]
                        || work.run(avx2),
                    ),
                    _ => run_plain(|| work.run(Plain(()))),
                }
            }
        }
    };
}
float!(f32);
float!(f64);

/// Loops that every processor can run.
#[derive(Clone, Copy)]
pub(super) struct Plain(());

impl Registers for Plain {
    const MANY: bool = false;
}

macro_rules! plain {
    ($type:ty: $($cell:ty),*) => {
        $(impl Load<$cell, $type> for Plain {
            #[inline(always)]
            fn load(self, cells: &[$cell; LANES]) -> [$type; LANES] {
                let mut row = [<$type>::default(); LANES];
                for (number, &cell) in row.iter_mut().zip(cells) {
                    *number = cell.into();
                }
                row
            }
        })*

        impl Lanes<$type> for Plain {
            type Row = [$type; LANES];

            #[inline(always)]
            fn splat(self, value: $type) -> Self::Row {
                [value; LANES]
            }

            #[inline(always)]
            fn mul_add(self, a: Self::Row, b: Self::Row, c: Self::Row) -> Self::Row {
                std::array::from_fn(
                    #[inline(always)]
                    |lane| a[lane].mul_add(b[lane], c[lane]),
                )
            }

            #[inline(always)]
            fn store(self, row: Self::Row) -> [$type; LANES] {
                row
            }
        }
    };
}
plain!(f32: u8, i8, u16, i16, f32);
plain!(f64: f32, f64);

#[cfg(target_arch = "x86_64")]
#[expect(unsafe_code, reason = "intrinsics are")]
mod x86;
