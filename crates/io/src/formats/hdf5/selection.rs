//! Selections: which elements of an array a virtual data set takes, or shows them at.
//!
//! | type | version | what follows |
//! |---|---|---|
//! | 0 none, 3 all | 1 | 8 bytes |
//! | 1 points | any | refused |
//! | 2 blocks | 1 | 4 bytes, length 4, axes 4, blocks 4, then corners of each, 4 an axis |
//! | 2 blocks | 2 | flags 1, length 4, axes 4, then start, stride, count, block of each axis, 8 each |
//! | 2 blocks | 3 | flags 1, width 1, axes 4, then as above with that width, or corners with it |
//!
//! Elements are taken in C order. A count, or a block, without end has all bits set.

use crate::headers::fields::number;
use crate::readers::composed::Blocks;
use framefold_core::{Error, Result};
use std::ops::Range;

/// Blocks on one axis beyond this are refused.
const MOST_BLOCKS: usize = 1 << 22;
/// No array has so many axes.
const MOST_AXES: u64 = 32;
const ENDLESS: u64 = u64::MAX;

/// A selection as it was stored.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Selection {
    Nothing,
    All,
    Axes(Vec<AxisSelection>),
}

/// What is selected on one axis.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum AxisSelection {
    /// Blocks at even distances; count or block may be without end.
    Even { start: u64, stride: u64, count: u64, block: u64 },
    /// Blocks: ascending, disjoint, not empty.
    Blocks(Vec<Range<u64>>),
}

impl AxisSelection {
    /// Whether it goes on for as long as there are elements.
    pub(super) fn is_endless(&self) -> bool {
        match self {
            AxisSelection::Even { count, block, .. } => *count == ENDLESS || *block == ENDLESS,
            AxisSelection::Blocks(_) => false,
        }
    }

    /// Block number `number` of endless ones.
    pub(super) fn block(&self, number: u64) -> Option<Range<u64>> {
        let AxisSelection::Even { start, stride, count: ENDLESS, block } = *self else {
            return None;
        };
        let start = start.checked_add(number.checked_mul(stride)?)?;
        Some(start..start.checked_add(block)?)
    }

    /// Behind the last element, if there is one.
    pub(super) fn end(&self) -> Option<u64> {
        match self {
            _ if self.is_endless() => None,
            AxisSelection::Blocks(blocks) => blocks.last().map(|block| block.end),
            AxisSelection::Even { start, stride, count, block } => {
                start.checked_add(stride.checked_mul(count - 1)?)?.checked_add(*block)
            }
        }
    }

    /// Behind the first `n` elements of endless ones.
    pub(super) fn end_of_first(&self, n: u64) -> Option<u64> {
        let AxisSelection::Even { start, stride, block, .. } = *self else { return None };
        let last = n.checked_sub(1)?;
        let last = match block {
            0 => return None,
            _ if block >= stride => last,
            _ => (last / block).checked_mul(stride)? + last % block,
        };
        start.checked_add(last)?.checked_add(1)
    }

    /// The blocks, of which nothing reaches beyond `len`.
    fn within(&self, len: u64) -> Result<Vec<Range<u64>>> {
        let beyond =
            || Error::bad_file(format!("a selection reaches beyond an axis of {len} elements"));
        match self {
            AxisSelection::Blocks(blocks) => match blocks.last() {
                Some(last) if last.end > len => Err(beyond()),
                _ => Ok(blocks.clone()),
            },
            AxisSelection::Even { start, stride, count, block } => {
                let (start, stride, block) = (*start, (*stride).max(1), *block);
                let endless = self.is_endless();
                if start >= len {
                    return if endless { Ok(vec![]) } else { Err(beyond()) };
                }
                if block >= stride && *count > 1 || block == ENDLESS {
                    // They touch.
                    let end = start.saturating_add(match count {
                        _ if endless => len,
                        _ => stride.saturating_mul(count - 1).saturating_add(block),
                    });
                    let end = if endless { end.min(len) } else { end };
                    return if end > len {
                        Err(beyond())
                    } else {
                        Ok(std::iter::once(start..end).collect())
                    };
                }
                let fits = (len - start).div_ceil(stride);
                let count = if endless { fits } else { *count };
                if count > fits {
                    return Err(beyond());
                }
                if usize::try_from(count).is_ok_and(|count| count > MOST_BLOCKS) {
                    return Err(Error::limit(format!(
                        "a virtual data set takes {count} blocks of an axis"
                    )));
                }
                let mut blocks = vec![];
                for number in 0..count {
                    let from = start + number * stride;
                    let to = from.saturating_add(block);
                    if to > len && !endless {
                        return Err(beyond());
                    }
                    blocks.push(from..to.min(len));
                }
                Ok(blocks)
            }
        }
    }
}

impl Selection {
    /// Reads one from the start of `bytes`; also how long it is.
    ///
    /// # Errors
    /// `BadFile` if it makes no sense, `Unsupported` if it is of another kind.
    pub(super) fn parse(bytes: &[u8]) -> Result<(Self, usize)> {
        let cut = || Error::bad_file("the description of a virtual data set is cut short");
        let get = |at: usize, width: usize| number(bytes, at, width).ok_or_else(cut);
        let (kind, version) = (get(0, 4)?, get(4, 4)?);
        match (kind, version) {
            (0, 1) => Ok((Selection::Nothing, 16)),
            (3, 1) => Ok((Selection::All, 16)),
            (2, 1) => Self::corners(&get, 16, 4),
            (2, 2 | 3) => {
                let regular = get(8, 1)? & 1 != 0;
                let (width, at) = if version == 2 {
                    (8, 13)
                } else {
                    let width = usize::try_from(get(9, 1)?).unwrap_or(0);
                    (width, 10)
                };
                if ![2, 4, 8].contains(&width) {
                    return Err(Error::bad_file(format!(
                        "numbers of {width} bytes in a selection"
                    )));
                }
                if !regular {
                    return Self::corners(&get, at, width);
                }
                let n_axes = axes(get(at, 4)?)?;
                let mut at = at + 4;
                let mut next = || {
                    let value = get(at, width)?;
                    at += width;
                    let endless = value == u64::MAX >> (64 - 8 * width);
                    Ok::<u64, Error>(if endless { ENDLESS } else { value })
                };
                let mut selected = vec![];
                for _ in 0..n_axes {
                    let (start, stride, count, block) = (next()?, next()?, next()?, next()?);
                    if start == ENDLESS || count == 0 || block == 0 {
                        return Err(Error::bad_file(format!(
                            "a selection takes {count} blocks of {block} elements from {start} on"
                        )));
                    }
                    selected.push(AxisSelection::Even { start, stride, count, block });
                }
                Ok((Selection::Axes(selected), at))
            }
            (1, _) => Err(Error::unsupported("a virtual data set is made of single points")
                .with_hint("rewrite it with h5repack")),
            _ => Err(Error::unsupported(format!(
                "a virtual data set is made of a selection of type {kind} and version {version}"
            ))
            .with_hint("rewrite it with h5repack")),
        }
    }

    /// Blocks by their corners, which have to be all combinations of some on each axis.
    fn corners(
        get: &impl Fn(usize, usize) -> Result<u64>,
        at: usize,
        width: usize,
    ) -> Result<(Self, usize)> {
        let n_axes = axes(get(at, 4)?)?;
        let n_blocks = get(at + 4, width)?;
        let mut at = at + 4 + width;
        let mut of_axes: Vec<Vec<Range<u64>>> = vec![vec![]; n_axes];
        for _ in 0..n_blocks {
            for (axis, blocks) in of_axes.iter_mut().enumerate() {
                let first = get(at + axis * width, width)?;
                let last = get(at + (n_axes + axis) * width, width)?;
                let block = first..last.saturating_add(1);
                if block.is_empty() {
                    return Err(Error::bad_file(format!(
                        "a block of a selection goes from {first} to {last}"
                    )));
                }
                if blocks.last() != Some(&block) {
                    blocks.push(block);
                }
            }
            at += 2 * n_axes * width;
        }
        let mut combinations = 1u64;
        for blocks in &mut of_axes {
            blocks.sort_unstable_by_key(|block| (block.start, block.end));
            blocks.dedup();
            combinations = combinations.saturating_mul(u64::try_from(blocks.len()).unwrap_or(0));
            if !blocks.is_sorted_by(|one, next| one.end <= next.start) {
                return Err(no_grid());
            }
        }
        if combinations != n_blocks {
            return Err(no_grid());
        }
        Ok((Selection::Axes(of_axes.into_iter().map(AxisSelection::Blocks).collect()), at))
    }

    /// The axis without an end, if there is one.
    pub(super) fn endless_axis(&self) -> Option<usize> {
        match self {
            Selection::Axes(axes) => axes.iter().position(AxisSelection::is_endless),
            _ => None,
        }
    }

    /// The same with block number `number` in the place of all those without end.
    pub(super) fn with_block(&self, number: u64) -> Option<Self> {
        let Selection::Axes(axes) = self else { return None };
        let axes = axes.iter().map(|axis| match axis.is_endless() {
            true => axis.block(number).map(|block| AxisSelection::Blocks(vec![block])),
            false => Some(axis.clone()),
        });
        axes.collect::<Option<Vec<_>>>().map(Selection::Axes)
    }

    /// What is selected on one axis, unless it is all or nothing.
    pub(super) fn axis(&self, axis: usize) -> Option<&AxisSelection> {
        match self {
            Selection::Axes(axes) => axes.get(axis),
            _ => None,
        }
    }

    /// What is selected of an array of this shape.
    ///
    /// # Errors
    /// `BadFile` if the selection does not fit the shape.
    pub(super) fn of(&self, shape: &[u64]) -> Result<Vec<Blocks>> {
        match self {
            Selection::Nothing => Ok(shape.iter().map(|_| Blocks::default()).collect()),
            Selection::All => Ok(shape.iter().map(|&len| Blocks::one(0..len)).collect()),
            Selection::Axes(axes) if axes.len() == shape.len() => axes
                .iter()
                .zip(shape)
                .map(|(axis, &len)| Ok(Blocks::new(axis.within(len)?)))
                .collect(),
            Selection::Axes(axes) => Err(Error::bad_file(format!(
                "a selection of {} axes is taken of an array of shape {shape:?}",
                axes.len()
            ))),
        }
    }
}

fn axes(n_axes: u64) -> Result<usize> {
    usize::try_from(n_axes)
        .ok()
        .filter(|_| (1..=MOST_AXES).contains(&n_axes))
        .ok_or_else(|| Error::bad_file(format!("a selection has {n_axes} axes")))
}

fn no_grid() -> Error {
    Error::unsupported("a virtual data set is made of blocks that are no grid")
        .with_hint("rewrite it with h5repack")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn even(start: u64, stride: u64, count: u64, block: u64) -> AxisSelection {
        AxisSelection::Even { start, stride, count, block }
    }

    fn blocks(selection: &AxisSelection, len: u64) -> Vec<(u64, u64)> {
        Blocks::new(selection.within(len).unwrap())
            .iter()
            .map(|(block, _)| (block.start, block.end))
            .collect()
    }

    #[test]
    fn blocks_of_one_axis() {
        assert_eq!(blocks(&even(1, 4, 3, 2), 20), [(1, 3), (5, 7), (9, 11)]);
        assert_eq!(blocks(&even(1, 2, 3, 2), 20), [(1, 7)]);
        assert_eq!(blocks(&even(1, 1, 5, 1), 6), [(1, 6)]);
        assert_eq!(blocks(&even(2, 1, 1, 3), 5), [(2, 5)]);
        assert_eq!(blocks(&even(1, 4, ENDLESS, 2), 10), [(1, 3), (5, 7), (9, 10)]);
        assert_eq!(blocks(&even(1, 1, ENDLESS, 1), 10), [(1, 10)]);
        assert_eq!(blocks(&even(3, 1, 1, ENDLESS), 10), [(3, 10)]);
        assert_eq!(blocks(&even(12, 1, 1, ENDLESS), 10), []);
        for beyond in [even(1, 4, 3, 2), even(9, 1, 2, 1), even(0, 1, 1, 11), even(10, 1, 1, 1)] {
            assert!(beyond.within(10).is_err(), "{beyond:?}");
        }
        assert!(even(0, 2, 1 << 40, 1).within(1 << 42).is_err());
        assert!(even(0, 1, 2, u64::MAX - 1).within(10).is_err());
    }

    #[test]
    fn corners_that_are_a_grid_and_that_are_not() {
        let stored = |corners: &[[u32; 4]]| {
            let head = [2, 1, 0, 0, 2, u32::try_from(corners.len()).unwrap()];
            let all = head.into_iter().chain(corners.iter().flatten().copied());
            all.flat_map(u32::to_le_bytes).collect::<Vec<u8>>()
        };
        let grid = stored(&[[0, 1, 0, 2], [0, 5, 0, 6], [3, 1, 4, 2], [3, 5, 4, 6]]);
        let (selection, len) = Selection::parse(&grid).unwrap();
        assert_eq!(len, grid.len());
        let of = selection.of(&[9, 9]).unwrap();
        assert_eq!((of[0].len(), of[1].len()), (3, 4));
        assert!(selection.of(&[4, 9]).is_err());
        assert!(selection.of(&[9, 9, 9]).is_err());
        assert!(Selection::parse(&stored(&[[0, 1, 0, 2], [3, 5, 4, 6]])).is_err());
        assert!(Selection::parse(&stored(&[[0, 3, 0, 2]])).is_err());
        for cut in 0..grid.len() {
            assert!(Selection::parse(&grid[..cut]).is_err());
        }
    }
}
