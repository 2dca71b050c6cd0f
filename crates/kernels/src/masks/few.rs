//! The product with a few masks: sums run along the pixels, in lanes.

use super::columns::Columns;
use super::lanes::{LANES, Lanes, Registers, Work};
use super::number::{Number, Weight};
use super::rows::{Row, Rows};
use std::ops::Range;

/// Pixels of a block: some frames and masks of them fit the first-level cache. A lane sums a
/// sixteenth of them, well below [`super::product::TERMS`].
pub(super) const PIXELS: usize = 1024;

/// Frames that share one reading of a mask.
pub(super) const ROWS: usize = 4;

/// `products[r][m] += Σ_p rows[r].cells[p] * mask_m[p]` for the `pixels` of each mask.
pub(super) struct Few<'a, S, M> {
    /// At most [`ROWS`] rows; `products` says how many count.
    pub(super) rows: &'a Rows<S, PIXELS>,
    pub(super) columns: &'a Columns<M>,
    pub(super) pixels: Range<usize>,
    /// Row by row, one per mask.
    pub(super) products: &'a mut [f64],
}

impl<S: Number, M: Weight<S>> Work<S> for Few<'_, S, M> {
    #[inline(always)]
    fn run<L: Registers + Lanes<S>>(self, lanes: L) {
        if L::MANY {
            self.run_with::<L, 4, 4>(lanes);
        } else {
            self.run_with::<L, 2, 2>(lanes);
        }
    }
}

impl<S: Number, M: Weight<S>> Few<'_, S, M> {
    /// With `R` rows and `C` masks at a time: as many sums as there are registers for.
    #[inline(always)]
    fn run_with<L: Lanes<S>, const R: usize, const C: usize>(self, lanes: L) {
        let n_masks = self.columns.n_columns();
        for (rows, products) in
            self.rows.all().chunks_exact(R).zip(self.products.chunks_mut(R * n_masks))
        {
            let Ok(rows) = <&[_; R]>::try_from(rows) else { continue };
            let mut first = 0;
            while first + C <= n_masks {
                let masks = std::array::from_fn(
                    #[inline(always)]
                    |i| self.columns.column(first + i, &self.pixels),
                );
                put(&dots::<S, M, L, R, C>(lanes, rows, masks), first, n_masks, products);
                first += C;
            }
            for m in first..n_masks {
                let masks = [self.columns.column(m, &self.pixels)];
                put(&dots::<S, M, L, R, 1>(lanes, rows, masks), m, n_masks, products);
            }
        }
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
fn dots<S: Number, M: Weight<S>, L: Lanes<S>, const R: usize, const C: usize>(
    lanes: L,
    rows: &[Row<S, PIXELS>; R],
    masks: [&[M]; C],
) -> [[f64; C]; R] {
    let len = masks[0].len().min(PIXELS);
    let mut sums = [[lanes.splat(S::default()); C]; R];
    let whole = masks.map(
        #[inline(always)]
        |mask| mask[..len].as_chunks::<LANES>().0,
    );
    let cells: [&[[S; LANES]]; R] = std::array::from_fn(
        #[inline(always)]
        |r| rows[r].cells.as_chunks::<LANES>().0,
    );
    let n = len / LANES;
    let mut weights = [lanes.splat(S::default()); C];
    #[expect(clippy::needless_range_loop, reason = "masks and rows are read side by side")]
    for i in 0..n {
        for c in 0..C {
            weights[c] = M::load(lanes, &whole[c][i]);
        }
        add_products(lanes, &mut sums, &cells, i, &weights);
    }
    if n * LANES < len {
        // Rows end in zeros.
        for c in 0..C {
            let mut last = [M::default(); LANES];
            let rest = &masks[c][n * LANES..len];
            last[..rest.len()].copy_from_slice(rest);
            weights[c] = M::load(lanes, &last);
        }
        add_products(lanes, &mut sums, &cells, n, &weights);
    }
    let mut totals = [[0.0; C]; R];
    for r in 0..R {
        for c in 0..C {
            totals[r][c] = total(lanes.store(sums[r][c]));
        }
    }
    totals
}

#[inline(always)]
fn add_products<S: Number, L: Lanes<S>, const R: usize, const C: usize>(
    lanes: L,
    sums: &mut [[L::Row; C]; R],
    cells: &[&[[S; LANES]]; R],
    i: usize,
    weights: &[L::Row; C],
) {
    for r in 0..R {
        let cells = lanes.load(&cells[r][i]);
        for c in 0..C {
            sums[r][c] = lanes.mul_add(cells, weights[c], sums[r][c]);
        }
    }
}

/// The sum of all lanes in double precision, in pairs.
#[inline(always)]
fn total<S: Number>(lanes: [S; LANES]) -> f64 {
    let mut wide = [0.0; LANES];
    for (wide, lane) in wide.iter_mut().zip(lanes) {
        *wide = lane.wide();
    }
    for half in [8, 4, 2, 1] {
        for i in 0..half {
            wide[i] += wide[i + half];
        }
    }
    wide[0]
}
