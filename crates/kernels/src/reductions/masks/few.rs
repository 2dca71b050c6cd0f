//! The product with a few masks: sums run along the pixels, in lanes.
//!
//! Pixels are converted on their way into registers, where a frame's are multiplied with as many
//! masks as there is room for sums.

use super::columns::Columns;
use super::lanes::{LANES, Lanes, Loads, Work};
use super::number::{Number, Operand};
use framefold_simd::prefetch;
use std::ops::Range;

/// Pixels of a block: the masks for them fit the first-level cache. A lane sums a sixteenth of
/// them, well below [`super::product::TERMS`].
pub(super) const PIXELS: usize = 1024;

/// The most rows that share one reading of the masks: a multiple of those that are multiplied at a
/// time.
pub(super) const ROWS: usize = 12;

/// `products[r][m] += Σ_p rows[r][p] * mask_m[p]` for the `pixels` of each mask.
pub(super) struct Few<'a, T, M> {
    /// As many cells each as there are `pixels`, at most [`PIXELS`].
    pub(super) rows: &'a [&'a [T]],
    /// The rows of the next block, to be asked for in time; any others will do.
    pub(super) ahead: &'a [&'a [T]],
    pub(super) columns: &'a Columns<M>,
    pub(super) pixels: Range<usize>,
    /// Row by row, one per mask.
    pub(super) products: &'a mut [f64],
}

impl<T: Operand<S>, S: Number, M: Operand<S>> Work<S> for Few<'_, T, M> {
    #[inline(always)]
    fn run<L: Loads<S>>(mut self, lanes: L) {
        let n_masks = self.columns.n_columns();
        let mut first = 0;
        while first < n_masks {
            let left = n_masks - first;
            // As many sums as there are registers for; in double precision, each takes two.
            first += match (L::MANY, size_of::<S>()) {
                (true, 4) if left >= 8 => self.run_with::<S, L, 3, 8>(lanes, first),
                (true, 4) if left >= 4 => self.run_with::<S, L, 4, 4>(lanes, first),
                (true, 4) if left >= 2 => self.run_with::<S, L, 4, 2>(lanes, first),
                (true, 8) if left >= 4 => self.run_with::<S, L, 3, 4>(lanes, first),
                (false, 4) if left >= 3 => self.run_with::<S, L, 2, 3>(lanes, first),
                (false, 8) if left >= 3 => self.run_with::<S, L, 1, 3>(lanes, first),
                (true, _) | (_, 4) => self.run_with::<S, L, 4, 1>(lanes, first),
                _ => self.run_with::<S, L, 2, 1>(lanes, first),
            };
        }
    }
}

impl<T, M> Few<'_, T, M> {
    /// Multiplies `R` rows at a time with `C` masks from the `first` on; gives `C`.
    #[inline(always)]
    fn run_with<S, L, const R: usize, const C: usize>(&mut self, lanes: L, first: usize) -> usize
    where
        S: Number,
        L: Loads<S>,
        T: Operand<S>,
        M: Operand<S>,
    {
        let n_masks = self.columns.n_columns();
        let masks = std::array::from_fn(
            #[inline(always)]
            |i| self.columns.column(first + i, &self.pixels),
        );
        let (groups, rest) = self.rows.as_chunks::<R>();
        let (places, rest_places) = self.products.split_at_mut(groups.len() * R * n_masks);
        let mut ahead = groups.iter().skip(1).chain(self.ahead.as_chunks::<R>().0.first());
        for (rows, products) in groups.iter().zip(places.chunks_exact_mut(R * n_masks)) {
            let ahead = ahead.next().unwrap_or(rows);
            put(&dots::<T, S, M, L, R, C>(lanes, rows, ahead, masks), first, n_masks, products);
        }
        for (row, products) in rest.iter().zip(rest_places.chunks_exact_mut(n_masks)) {
            let row = std::array::from_ref(row);
            put(&dots::<T, S, M, L, 1, C>(lanes, row, row, masks), first, n_masks, products);
        }
        C
    }
}

#[inline(always)]
fn put<const R: usize, const C: usize>(
    sums: &[[f64; C]; R],
    first: usize,
    n_masks: usize,
    products: &mut [f64],
) {
    for (row, sums) in products.chunks_exact_mut(n_masks).zip(sums) {
        for (product, sum) in row[first..].iter_mut().zip(sums) {
            *product += sum;
        }
    }
}

/// The products of each row with each mask: summed in the same order whatever `R` and `C` are.
#[inline(always)]
fn dots<T: Operand<S>, S: Number, M: Operand<S>, L: Loads<S>, const R: usize, const C: usize>(
    lanes: L,
    rows: &[&[T]; R],
    ahead: &[&[T]; R],
    masks: [&[M]; C],
) -> [[f64; C]; R] {
    let len = masks[0].len().min(PIXELS);
    let ahead: [&[[T; LANES]]; R] = std::array::from_fn(
        #[inline(always)]
        |r| if ahead[r].len() < len { rows[r] } else { ahead[r] }[..len].as_chunks().0,
    );
    let cells: [(&[[T; LANES]], &[T]); R] = std::array::from_fn(
        #[inline(always)]
        |r| rows[r][..len].as_chunks::<LANES>(),
    );
    let weights: [(&[[M; LANES]], &[M]); C] = std::array::from_fn(
        #[inline(always)]
        |c| masks[c][..len].as_chunks::<LANES>(),
    );
    let mut sums = [[Lanes::<S>::splat(lanes, S::default()); C]; R];
    for i in 0..len / LANES {
        // The processor cannot foresee where the next rows begin.
        for row in ahead {
            prefetch(&row[i]);
        }
        add_products(
            lanes,
            &mut sums,
            #[inline(always)]
            |r| &cells[r].0[i],
            #[inline(always)]
            |c| &weights[c].0[i],
        );
    }
    if !len.is_multiple_of(LANES) {
        // Less than there are lanes, and zeros.
        let mut last_cells = [[T::default(); LANES]; R];
        for (last, (_, rest)) in last_cells.iter_mut().zip(&cells) {
            last[..rest.len()].copy_from_slice(rest);
        }
        let mut last_weights = [[M::default(); LANES]; C];
        for (last, (_, rest)) in last_weights.iter_mut().zip(&weights) {
            last[..rest.len()].copy_from_slice(rest);
        }
        add_products(
            lanes,
            &mut sums,
            #[inline(always)]
            |r| &last_cells[r],
            #[inline(always)]
            |c| &last_weights[c],
        );
    }
    // Two loops: sums stay in registers only if the one that stores them is short enough to be
    // unrolled.
    let mut stored = [[[S::default(); LANES]; C]; R];
    for r in 0..R {
        for c in 0..C {
            stored[r][c] = Lanes::<S>::store(lanes, sums[r][c]);
        }
    }
    let mut totals = [[0.0; C]; R];
    for (totals, stored) in totals.iter_mut().zip(&stored) {
        for (sum, lanes) in totals.iter_mut().zip(stored) {
            *sum = total(lanes);
        }
    }
    totals
}

#[inline(always)]
fn add_products<'a, T, S, M, L, const R: usize, const C: usize>(
    lanes: L,
    sums: &mut [[<L as Lanes<S>>::Row; C]; R],
    cells: impl Fn(usize) -> &'a [T; LANES],
    weights: impl Fn(usize) -> &'a [M; LANES],
) where
    T: Operand<S> + 'a,
    S: Number,
    M: Operand<S> + 'a,
    L: Loads<S>,
{
    let mut row = [Lanes::<S>::splat(lanes, S::default()); R];
    for (r, row) in row.iter_mut().enumerate() {
        *row = T::load(lanes, cells(r));
    }
    #[expect(clippy::needless_range_loop, reason = "sums and weights are taken side by side")]
    for c in 0..C {
        let weights = M::load(lanes, weights(c));
        for r in 0..R {
            sums[r][c] = Lanes::<S>::mul_add(lanes, row[r], weights, sums[r][c]);
        }
    }
}

/// The sum of all lanes in double precision, in pairs.
#[inline(always)]
fn total<S: Number>(lanes: &[S; LANES]) -> f64 {
    let eight: [f64; 8] = std::array::from_fn(
        #[inline(always)]
        |i| lanes[i].wide() + lanes[i + 8].wide(),
    );
    let four: [f64; 4] = std::array::from_fn(
        #[inline(always)]
        |i| eight[i] + eight[i + 4],
    );
    (four[0] + four[2]) + (four[1] + four[3])
}
