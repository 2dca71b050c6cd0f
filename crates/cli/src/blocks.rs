//! Parts of an array, written down as slices as in NumPy: positions of a scan, pixels of a frame.
//!
//! Blocks are joined by `;`. A block has an entry for each axis, slowest first: `a:b` (either end may be left out),
//! `a:b:step`, or one index. Negative numbers count from the end, and axes at the end that are left out are taken
//! whole, as in NumPy. Unlike there, what lies outside of the array is an error.

use framefold::core::memory;
use framefold::{Error, Result};
use std::ops::Range;

/// What errors call things.
pub(crate) struct Words {
    /// What is written: "the ROI".
    pub(crate) what: &'static str,
    /// What it is a part of: "the scan".
    pub(crate) array: &'static str,
    /// How to write it.
    pub(crate) hint: &'static str,
}

impl Words {
    fn refused(&self, block: &str, what: String) -> Error {
        Error::invalid(format!("{} '{}' {what}", self.what, block.trim())).with_hint(self.hint)
    }
}

/// What a block selects of an axis: every `step`th position of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub(crate) range: Range<usize>,
    pub(crate) step: usize,
}

impl Part {
    fn positions(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        self.range.clone().step_by(self.step)
    }
}

/// Whether a text names a file, where it could be blocks.
pub(crate) fn is_file(text: &str) -> bool {
    text.to_lowercase().ends_with(".npy")
}

/// The blocks that `text` means of an array of that shape.
///
/// # Errors
/// `InvalidArgument` if they do not fit it.
pub(crate) fn parse(text: &str, lens: &[usize], words: &Words) -> Result<Vec<Vec<Part>>> {
    text.split(';').map(|block| parse_block(block, lens, words)).collect()
}

/// Which elements are in any of the blocks.
///
/// # Errors
/// `Limit` if there is no memory for one truth value for each element.
pub(crate) fn mask(blocks: &[Vec<Part>], lens: &[usize]) -> Result<Vec<bool>> {
    let n = lens.iter().fold(1, |n: usize, &len| n.saturating_mul(len));
    let mut mask = memory::filled(false, n)?;
    blocks.iter().try_for_each(|parts| mark(&mut mask, lens, parts))?;
    Ok(mask)
}

fn parse_block(block: &str, lens: &[usize], words: &Words) -> Result<Vec<Part>> {
    let entries: Vec<&str> = block.split(',').map(str::trim).collect();
    let refused = |what| words.refused(block, what);
    if entries.len() > lens.len() {
        let (n, all) = (entries.len(), lens.len());
        return Err(refused(format!("has {n} axes, {} has {all}", words.array)));
    }
    let mut parts = Vec::with_capacity(lens.len());
    for (axis, &len) in lens.iter().enumerate() {
        let Some(entry) = entries.get(axis) else {
            parts.push(Part { range: 0..len, step: 1 });
            continue;
        };
        let part = parse_entry(entry, len).ok_or_else(|| {
            let what =
                "which is neither an index nor a slice a:b or a:b:step, with steps of 1 or more";
            refused(format!("has '{entry}', {what}"))
        })?;
        if part.range.is_empty() || part.range.end > len {
            let array = words.array;
            return Err(refused(format!(
                "has '{entry}', but axis {axis} of {array} goes from 0 to {len}"
            )));
        }
        parts.push(part);
    }
    Ok(parts)
}

/// One entry of a block: an index or a slice. Negative numbers count from the end.
fn parse_entry(entry: &str, len: usize) -> Option<Part> {
    let number = |text: &str| match text.trim().strip_prefix('-') {
        // What lies before the axis is out of it, as what lies behind.
        Some(back) => match back.parse().ok()? {
            0 => Some(0),
            back => Some(len.checked_sub(back).unwrap_or(usize::MAX - 1)),
        },
        None => text.trim().parse().ok(),
    };
    let or = |text: &str, default| {
        if text.trim().is_empty() { Some(default) } else { number(text) }
    };
    let step = |text: &str| match text.trim() {
        "" => Some(1),
        text => text.parse().ok().filter(|&step| step > 0),
    };
    let bounds: Vec<&str> = entry.split(':').collect();
    let (range, step) = match *bounds.as_slice() {
        [start, end] => (or(start, 0)?..or(end, len)?, 1),
        [start, end, by] => (or(start, 0)?..or(end, len)?, step(by)?),
        [index] => {
            let index = number(index)?;
            (index..index.checked_add(1)?, 1)
        }
        _ => return None,
    };
    Some(Part { range, step })
}

/// Sets the elements of the block, row by row.
///
/// # Errors
/// `Limit` if there is no memory for as many numbers as there are rows.
fn mark(mask: &mut [bool], lens: &[usize], parts: &[Part]) -> Result<()> {
    let Some((last, outer)) = parts.split_last() else { return Ok(()) };
    let mut starts = vec![0];
    for (part, &len) in outer.iter().zip(lens) {
        let n = part.range.len().div_ceil(part.step);
        let mut next = memory::with_room(starts.len().saturating_mul(n))?;
        next.extend(starts.iter().flat_map(|s| part.positions().map(move |i| s * len + i)));
        starts = next;
    }
    let row_len = lens.last().copied().unwrap_or(1);
    for start in starts {
        for position in last.positions() {
            mask[start * row_len + position] = true;
        }
    }
    Ok(())
}
