//! Regions of interest: from a file, or written down as slices.

use crate::npy_input::read_npy;
use framefold::core::{Bool8, DType, Roi, memory};
use framefold::{Error, Result};
use std::ops::Range;
use std::path::Path;

/// The region of interest that `text` means on a scan of shape `nav`.
///
/// `text` is the name of an `.npy` file with a boolean array of shape `nav`, or blocks joined by
/// `;`. A block has an entry for each axis, slowest first: `a:b` (either end may be left out),
/// `a:b:step`, or one index. Negative numbers count from the end, and axes at the end that are left out are taken
/// whole, as in NumPy. Unlike there, what lies outside of the scan is an error.
///
/// # Errors
/// `InvalidArgument` if it does not fit the scan or selects nothing; errors of the file.
pub(crate) fn parse_roi(text: &str, nav: &[usize]) -> Result<Roi> {
    if text.to_lowercase().ends_with(".npy") {
        return from_file(Path::new(text), nav);
    }
    let n_positions = nav.iter().fold(1, |n: usize, &len| n.saturating_mul(len));
    let mut mask = memory::filled(false, n_positions)?;
    for block in text.split(';') {
        let parts = parse_block(block, nav)?;
        mark(&mut mask, nav, &parts)?;
    }
    Roi::try_new(mask)
}

fn from_file(path: &Path, nav: &[usize]) -> Result<Roi> {
    let array = read_npy(path)?;
    if array.dtype() != DType::Bool {
        return Err(Error::invalid(format!("the ROI has dtype {}, not bool", array.dtype()))
            .with_path(path)
            .with_hint("write it with numpy.save('roi.npy', array.astype(bool))"));
    }
    let fits = array.shape() == nav || (nav.len() == 1 && array.shape() == [1, nav[0]]);
    if !fits {
        return Err(Error::invalid(format!(
            "the ROI has shape {:?}, but the scan has shape {nav:?}",
            array.shape()
        ))
        .with_path(path));
    }
    let mask = memory::collected(array.as_slice::<Bool8>()?.iter().map(|cell| cell.get()));
    mask.and_then(Roi::try_new).map_err(|error| error.with_path(path))
}

/// What a block selects of an axis: every `step`th position of a range.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Part {
    range: Range<usize>,
    step: usize,
}

impl Part {
    fn positions(&self) -> impl Iterator<Item = usize> + Clone + use<> {
        self.range.clone().step_by(self.step)
    }
}

fn parse_block(block: &str, nav: &[usize]) -> Result<Vec<Part>> {
    let entries: Vec<&str> = block.split(',').map(str::trim).collect();
    if entries.len() > nav.len() {
        return Err(refused(
            block,
            format!("has {} axes, the scan has {}", entries.len(), nav.len()),
        ));
    }
    let mut parts = Vec::with_capacity(nav.len());
    for (axis, &len) in nav.iter().enumerate() {
        let Some(entry) = entries.get(axis) else {
            parts.push(Part { range: 0..len, step: 1 });
            continue;
        };
        let part = parse_entry(entry, len).ok_or_else(|| {
            let what =
                "which is neither an index nor a slice a:b or a:b:step, with steps of 1 or more";
            refused(block, format!("has '{entry}', {what}"))
        })?;
        if part.range.is_empty() || part.range.end > len {
            let what = format!("has '{entry}', but axis {axis} of the scan goes from 0 to {len}");
            return Err(refused(block, what));
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

fn refused(block: &str, what: String) -> Error {
    Error::invalid(format!("the ROI '{}' {what}", block.trim())).with_hint(
        "write slices such as 0:64,10:20 or ::2, a position such as 3,4, or name an .npy file",
    )
}

/// Selects the positions of the block, row by row.
///
/// # Errors
/// `Limit` if there is no memory for as many numbers as there are rows.
fn mark(mask: &mut [bool], nav: &[usize], parts: &[Part]) -> Result<()> {
    let Some((last, outer)) = parts.split_last() else { return Ok(()) };
    let mut starts = vec![0];
    for (part, &len) in outer.iter().zip(nav) {
        let n = part.range.len().div_ceil(part.step);
        let mut next = memory::with_room(starts.len().saturating_mul(n))?;
        next.extend(starts.iter().flat_map(|s| part.positions().map(move |i| s * len + i)));
        starts = next;
    }
    let row_len = nav.last().copied().unwrap_or(1);
    for start in starts {
        for position in last.positions() {
            mask[start * row_len + position] = true;
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn positions(text: &str, nav: &[usize]) -> Vec<usize> {
        parse_roi(text, nav).unwrap().positions().to_vec()
    }

    #[test]
    fn blocks_positions_and_unions() {
        assert_eq!(positions("1,2", &[3, 4]), [6]);
        assert_eq!(positions("0:2,1:3", &[3, 4]), [1, 2, 5, 6]);
        assert_eq!(positions("2", &[3, 4]), [8, 9, 10, 11]);
        assert_eq!(positions(":,3", &[3, 4]), [3, 7, 11]);
        assert_eq!(positions("-1:", &[3, 4]), [8, 9, 10, 11]);
        assert_eq!(positions("-3:-1,-4", &[3, 4]), [0, 4]);
        assert_eq!(positions("2:,:1; 0 , 0", &[3, 4]), [0, 8]);
        assert_eq!(positions("5:7", &[9]), [5, 6]);
        assert_eq!(positions("1,0,1", &[2, 2, 2]), [5]);
        assert_eq!(positions("::2", &[3, 2]), [0, 1, 4, 5]);
        assert_eq!(positions("::2,1::2", &[3, 4]), [1, 3, 9, 11]);
        assert_eq!(positions("-5:-1:3", &[9]), [4, 7]);
        assert_eq!(positions("::99", &[9]), [0]);
    }

    #[test]
    fn what_does_not_fit_is_refused_with_words() {
        for (text, word) in [
            ("3,0", "axis 0"),
            ("0,0:5", "axis 1"),
            ("1:1", "axis 0"),
            ("0,0,0", "3 axes"),
            ("a", "neither"),
            ("", "neither"),
            ("::0", "steps of 1 or more"),
            ("::-1", "steps of 1 or more"),
            ("0:1:1:1", "neither"),
            ("1:1:2", "axis 0"),
            ("-4,0", "axis 0"),
            (":-5", "axis 0"),
            ("-0:-0", "axis 0"),
            ("--1,0", "neither"),
            ("0;", "neither"),
            ("99999999999999999999", "neither"),
        ] {
            let error = parse_roi(text, &[3, 4]).unwrap_err();
            assert_eq!(error.kind(), framefold::ErrorKind::InvalidArgument, "{text}");
            assert!(error.to_string().contains(word), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_block_selects_what_lies_within(
            axes in prop::collection::vec((1usize..6, 0usize..6, 1usize..6, 1usize..4), 1..4),
        ) {
            let nav: Vec<usize> = axes.iter().map(|(len, start, n, _)| len + start + n).collect();
            let ends = |&(_, start, n, step): &(usize, usize, usize, usize)| (start, start + n, step);
            let ranges: Vec<(usize, usize, usize)> = axes.iter().map(ends).collect();
            let text: Vec<String> =
                ranges.iter().map(|(start, end, step)| format!("{start}:{end}:{step}")).collect();
            let roi = parse_roi(&text.join(","), &nav).unwrap();
            let shape = framefold::Shape::try_new(&nav, &[1]).unwrap();
            for (flat, selected) in roi.mask().iter().enumerate() {
                let inside = shape
                    .nav_coordinates(flat)
                    .iter()
                    .zip(&ranges)
                    .all(|(c, (start, end, step))| c >= start && c < end && (c - start) % step == 0);
                prop_assert_eq!(*selected, inside);
            }
        }
    }
}
