//! The product with many masks: each lane belongs to a mask.

use super::columns::Columns;
use super::lanes::{LANES, Lanes, Loads, Work};
use super::number::{Number, Operand};
use super::rows::{Row, Rows};
use std::ops::Range;

/// Pixels of a block: two panels of masks fit the first-level cache. A lane sums all of them.
pub(super) const PIXELS: usize = super::product::TERMS;

/// Frames of a block, which fits the second-level cache: a multiple of those that are multiplied
/// at a time.
pub(super) const ROWS: usize = 120;

/// The size of the groups of what is left of the frames.
const REST: usize = 4;

/// `products[r][m] += Σ_p rows[r].cells[p] * mask_m[p]` for the `pixels` of each mask.
pub(super) struct Many<'a, S, M> {
    /// At most [`ROWS`] rows; `products` says how many count.
    pub(super) rows: &'a Rows<S, PIXELS>,
    pub(super) columns: &'a Columns<M>,
    pub(super) pixels: Range<usize>,
    /// Row by row, one per column of the panels.
    pub(super) products: &'a mut [f64],
}

impl<S: Number, M: Operand<S>> Work<S> for Many<'_, S, M> {
    #[inline(always)]
    fn run<L: Loads<S>>(self, lanes: L) {
        if L::MANY && size_of::<S>() == 4 {
            self.run_with::<L, 12, 2>(lanes);
        } else if L::MANY {
            self.run_with::<L, 12, 1>(lanes);
        } else {
            self.run_with::<L, 6, 1>(lanes);
        }
    }
}

impl<S: Number, M: Operand<S>> Many<'_, S, M> {
    /// With `R` rows and `C` panels at a time: as many sums as there are registers for. What is
    /// left is done in smaller groups.
    #[inline(always)]
    fn run_with<L: Loads<S>, const R: usize, const C: usize>(self, lanes: L) {
        let Many { rows, columns, pixels, products } = self;
        let n_panels = columns.n_panels();
        let stride = n_panels * LANES;
        let mut first = 0;
        while first < n_panels {
            let together = if first + C <= n_panels { C } else { 1 };
            let mut rows = rows.all();
            let mut products = &mut *products;
            while !products.is_empty() {
                let n = if products.len() >= R * stride { R } else { REST };
                let Some((group, later)) = rows.split_at_checked(n) else { break };
                let (place, rest) = products.split_at_mut(products.len().min(n * stride));
                let place = Place { products: place, first: first * LANES, stride };
                if together == C {
                    let panels = std::array::from_fn(
                        #[inline(always)]
                        |i| columns.panel(first + i, &pixels),
                    );
                    group_of::<S, M, L, R, C>(lanes, group, panels, place);
                } else {
                    group_of::<S, M, L, R, 1>(lanes, group, [columns.panel(first, &pixels)], place);
                }
                (rows, products) = (later, rest);
            }
            first += together;
        }
    }
}

/// Where the products of some rows with some panels belong.
struct Place<'a> {
    products: &'a mut [f64],
    first: usize,
    stride: usize,
}

/// As [`multiply`], for `R` rows or [`REST`].
#[inline(always)]
fn group_of<S: Number, M: Operand<S>, L: Loads<S>, const R: usize, const C: usize>(
    lanes: L,
    rows: &[Row<S, PIXELS>],
    panels: [&[[M; LANES]]; C],
    place: Place<'_>,
) {
    if let Ok(rows) = <&[_; R]>::try_from(rows) {
        multiply::<S, M, L, R, C>(lanes, rows, panels, place);
    } else if let Ok(rows) = <&[_; REST]>::try_from(rows) {
        multiply::<S, M, L, REST, C>(lanes, rows, panels, place);
    }
}

/// Adds the products of `R` rows with the masks of `C` panels: for each row and mask the pixels
/// are summed one after the other, whatever `R` and `C` are.
#[inline(always)]
fn multiply<S: Number, M: Operand<S>, L: Loads<S>, const R: usize, const C: usize>(
    lanes: L,
    rows: &[Row<S, PIXELS>; R],
    mut panels: [&[[M; LANES]]; C],
    place: Place<'_>,
) {
    let Place { products, first, stride } = place;
    let n = panels[0].len().min(PIXELS);
    for panel in &mut panels {
        *panel = &panel[..n];
    }
    let mut sums = [[Lanes::<S>::splat(lanes, S::default()); C]; R];
    #[expect(clippy::needless_range_loop, reason = "panels and rows are read side by side")]
    for p in 0..n {
        let mut weights = [Lanes::<S>::splat(lanes, S::default()); C];
        for c in 0..C {
            weights[c] = M::load(lanes, &panels[c][p]);
        }
        for r in 0..R {
            let cell = Lanes::<S>::splat(lanes, rows[r].cells[p]);
            for c in 0..C {
                sums[r][c] = Lanes::<S>::mul_add(lanes, cell, weights[c], sums[r][c]);
            }
        }
    }
    for (row, sums) in products.chunks_exact_mut(stride).zip(&sums) {
        let places = row[first..].as_chunks_mut::<LANES>().0;
        for (products, &sums) in places.iter_mut().zip(sums) {
            for (product, sum) in products.iter_mut().zip(Lanes::<S>::store(lanes, sums)) {
                *product += sum.wide();
            }
        }
    }
}
