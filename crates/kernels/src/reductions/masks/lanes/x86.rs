//! The registers of x86-64. The licence to use an instruction set is the proof that it is there.

use super::{LANES, Lanes, Load, Registers};
use framefold_simd::{Avx2, Avx512};
use std::arch::x86_64::*;

impl Registers for Avx2 {
    const MANY: bool = false;
}

impl Registers for Avx512 {
    const MANY: bool = true;
}

/// Operations on an array of registers: `$n` of them hold all lanes, `$width` each.
macro_rules! registers {
    ($proof:ty: $type:ty, $register:ty, $n:literal of $width:literal, $splat:ident, $mul_add:ident, $store:ident) => {
        impl Lanes<$type> for $proof {
            type Row = [$register; $n];

            #[inline(always)]
            fn splat(self, value: $type) -> Self::Row {
                // SAFETY: `self` proves that the processor has the instruction.
                [unsafe { $splat(value) }; $n]
            }

            #[inline(always)]
            fn mul_add(self, a: Self::Row, b: Self::Row, c: Self::Row) -> Self::Row {
                let mut row = c;
                for i in 0..$n {
                    // SAFETY: `self` proves that the processor has the instruction.
                    row[i] = unsafe { $mul_add(a[i], b[i], c[i]) };
                }
                row
            }

            #[inline(always)]
            fn store(self, row: Self::Row) -> [$type; LANES] {
                let mut values = [0.0; LANES];
                for (part, register) in values.chunks_exact_mut($width).zip(row) {
                    // SAFETY: as above; `part` has as many numbers as are written.
                    unsafe { $store(part.as_mut_ptr(), register) };
                }
                values
            }
        }
    };
}

registers!(Avx2: f32, __m256, 2 of 8, _mm256_set1_ps, _mm256_fmadd_ps, _mm256_storeu_ps);
registers!(Avx2: f64, __m256d, 4 of 4, _mm256_set1_pd, _mm256_fmadd_pd, _mm256_storeu_pd);
registers!(Avx512: f32, __m512, 1 of 16, _mm512_set1_ps, _mm512_fmadd_ps, _mm512_storeu_ps);
registers!(Avx512: f64, __m512d, 2 of 8, _mm512_set1_pd, _mm512_fmadd_pd, _mm512_storeu_pd);

/// Loads into each register `$width` cells, which `$cells` points to.
macro_rules! load {
    ($($proof:ty, $cell:ty => $number:ty, $width:literal, |$cells:ident| $load:expr;)*) => {$(
        impl Load<$cell, $number> for $proof {
            #[inline(always)]
            fn load(self, cells: &[$cell; LANES]) -> Self::Row {
                let mut row = <Self as Lanes<$number>>::splat(self, 0.0);
                for (register, part) in row.iter_mut().zip(cells.as_chunks::<$width>().0) {
                    let $cells = part.as_ptr();
                    // SAFETY: `self` proves that the processor has the instructions; `part` has as
                    // many cells as are read.
                    *register = unsafe { $load };
                }
                row
            }
        }
    )*};
}
load! {
    Avx2, u8 => f32, 8, |p| _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(_mm_loadl_epi64(p.cast())));
    Avx2, i8 => f32, 8, |p| _mm256_cvtepi32_ps(_mm256_cvtepi8_epi32(_mm_loadl_epi64(p.cast())));
    Avx2, u16 => f32, 8, |p| _mm256_cvtepi32_ps(_mm256_cvtepu16_epi32(_mm_loadu_si128(p.cast())));
    Avx2, i16 => f32, 8, |p| _mm256_cvtepi32_ps(_mm256_cvtepi16_epi32(_mm_loadu_si128(p.cast())));
    Avx2, f32 => f32, 8, |p| _mm256_loadu_ps(p);
    Avx2, f32 => f64, 4, |p| _mm256_cvtps_pd(_mm_loadu_ps(p));
    Avx2, f64 => f64, 4, |p| _mm256_loadu_pd(p);
    Avx512, u8 => f32, 16, |p| _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(_mm_loadu_si128(p.cast())));
    Avx512, i8 => f32, 16, |p| _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(p.cast())));
    Avx512, u16 => f32, 16, |p| _mm512_cvtepi32_ps(_mm512_cvtepu16_epi32(_mm256_loadu_si256(p.cast())));
    Avx512, i16 => f32, 16, |p| _mm512_cvtepi32_ps(_mm512_cvtepi16_epi32(_mm256_loadu_si256(p.cast())));
    Avx512, f32 => f32, 16, |p| _mm512_loadu_ps(p);
    Avx512, f32 => f64, 8, |p| _mm512_cvtps_pd(_mm256_loadu_ps(p));
    Avx512, f64 => f64, 8, |p| _mm512_loadu_pd(p);
}
