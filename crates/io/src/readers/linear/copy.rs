//! Copies pixels into native byte order.

use framefold_core::{DType, StoredDType};
use framefold_simd::{Simd, run};

/// Copies whole elements; truth values become 0 and 1. Both slices have the same length.
pub(crate) fn copy_pixels(stored: StoredDType, from: &[u8], to: &mut [u8]) {
    copy_pixels_by(Simd::best(), stored, from, to);
}

fn copy_pixels_by(simd: Simd, stored: StoredDType, from: &[u8], to: &mut [u8]) {
    if stored.dtype == DType::Bool {
        for (to, from) in to.iter_mut().zip(from) {
            *to = u8::from(*from != 0);
        }
    } else if stored.is_native() {
        to.copy_from_slice(from);
    } else {
        match stored.dtype.swap_size() {
            2 => run!(simd, copy_each(from, to, |g| u16::from_be_bytes(g).to_le_bytes())),
            4 => run!(simd, copy_each(from, to, |g| u32::from_be_bytes(g).to_le_bytes())),
            8 => run!(simd, copy_each(from, to, |g| u64::from_be_bytes(g).to_le_bytes())),
            _ => to.copy_from_slice(from),
        }
    }
}

/// Copies groups of `N` bytes, each as `each` makes it.
#[inline(always)]
fn copy_each<const N: usize>(from: &[u8], to: &mut [u8], each: impl Fn([u8; N]) -> [u8; N]) {
    for (to, from) in to.as_chunks_mut().0.iter_mut().zip(from.as_chunks().0) {
        *to = each(*from);
    }
}

/// Brings elements that were copied as they are into native byte order.
pub(crate) fn swap_in_place(stored: StoredDType, elements: &mut [u8]) {
    if !stored.is_native() {
        match stored.dtype.swap_size() {
            2 => reverse_in_place::<2>(elements),
            4 => reverse_in_place::<4>(elements),
            8 => reverse_in_place::<8>(elements),
            _ => {}
        }
    }
}

fn reverse_in_place<const N: usize>(elements: &mut [u8]) {
    for group in elements.as_chunks_mut::<N>().0 {
        group.reverse();
    }
}

/// Makes truth values that were copied as they are 0 or 1.
pub(crate) fn normalise_in_place(stored: StoredDType, elements: &mut [u8]) {
    if stored.dtype == DType::Bool {
        for value in elements {
            *value = u8::from(*value != 0);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use framefold_core::ByteOrder;

    #[test]
    fn every_dtype_in_both_orders() {
        // Longer than the widest vectors, and no multiple of them.
        let from: Vec<u8> = (0..208).map(|i| i + 1).collect();
        for dtype in DType::all() {
            for order in [ByteOrder::Little, ByteOrder::Big] {
                let stored = StoredDType { dtype, order };
                let mut expected = from.clone();
                if dtype == DType::Bool {
                    expected.fill(1);
                } else if order != ByteOrder::NATIVE {
                    let unit = if dtype.is_complex() { dtype.size() / 2 } else { dtype.size() };
                    expected.chunks_exact_mut(unit).for_each(<[u8]>::reverse);
                }
                for simd in Simd::all() {
                    let mut to = vec![0; from.len()];
                    copy_pixels_by(simd, stored, &from, &mut to);
                    assert_eq!(to, expected, "{stored}, {simd:?}");
                }
                let mut in_place = from.clone();
                swap_in_place(stored, &mut in_place);
                normalise_in_place(stored, &mut in_place);
                assert_eq!(in_place, expected, "{stored}");
            }
        }
    }

    #[test]
    fn zero_stays_false() {
        let mut to = [9; 3];
        copy_pixels(DType::Bool.into(), &[0, 1, 255], &mut to);
        assert_eq!(to, [0, 1, 1]);
    }
}
