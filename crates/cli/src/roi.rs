//! Regions of interest: from a file, or written down as slices.

use crate::npy_input::read_npy;
use framefold::core::{Bool8, DType, Roi, memory};
use framefold::{Error, Result};
use std::ops::Range;
use std::path::Path;

/// The region of interest that `text` means on a scan of shape `nav`.
///
/// `text` is the name of an `.npy` file with a boolean array of shape `nav`, or blocks joined by
/// `;`. A block has an entry for each axis, slowest first: `a:b` (either end may be left out) or
/// one index. Negative numbers count from the end, and axes at the end that are left out are taken
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
        let ranges = parse_block(block, nav)?;
        mark(&mut mask, nav, &ranges)?;
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

fn parse_block(block: &str, nav: &[usize]) -> Result<Vec<Range<usize>>> {
    let entries: Vec<&str> = block.split(',').map(str::trim).collect();
    if entries.len() > nav.len() {
        return Err(refused(
            block,
            format!("has {} axes, the scan has {}", entries.len(), nav.len()),
        ));
    }
    let mut ranges = Vec::with_capacity(nav.len());
    for (axis, &len) in nav.iter().enumerate() {
        let Some(entry) = entries.get(axis) else {
            ranges.push(0..len);
            continue;
        };
        let range = parse_entry(entry, len).ok_or_else(|| {
            refused(block, format!("has '{entry}', which is neither an index nor a slice a:b"))
        })?;
        if range.is_empty() || range.end > len {
            let what = format!("has '{entry}', but axis {axis} of the scan goes from 0 to {len}");
            return Err(refused(block, what));
        }
        ranges.push(range);
    }
    Ok(ranges)
}

/// One entry of a block: an index or a slice. Negative numbers count from the end.
fn parse_entry(entry: &str, len: usize) -> Option<Range<usize>> {
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
    match entry.split_once(':') {
        Some((start, end)) => Some(or(start, 0)?..or(end, len)?),
        None => {
            let index = number(entry)?;
            Some(index..index.checked_add(1)?)
        }
    }
}

fn refused(block: &str, what: String) -> Error {
    Error::invalid(format!("the ROI '{}' {what}", block.trim()))
        .with_hint("write slices such as 0:64,10:20, a position such as 3,4, or name an .npy file")
}

/// Selects the positions of the block, row by row.
///
/// # Errors
/// `Limit` if there is no memory for as many numbers as there are rows.
fn mark(mask: &mut [bool], nav: &[usize], ranges: &[Range<usize>]) -> Result<()> {
    let Some((last, outer)) = ranges.split_last() else { return Ok(()) };
    let mut starts = vec![0];
    for (range, &len) in outer.iter().zip(nav) {
        let mut next = memory::with_room(starts.len().saturating_mul(range.len()))?;
        next.extend(starts.iter().flat_map(|s| range.clone().map(move |i| s * len + i)));
        starts = next;
    }
    let row_len = nav.last().copied().unwrap_or(1);
    for start in starts {
        mask[start * row_len + last.start..start * row_len + last.end].fill(true);
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
            axes in prop::collection::vec((1usize..6, 0usize..6, 1usize..6), 1..4),
        ) {
            let nav: Vec<usize> = axes.iter().map(|(len, start, n)| len + start + n).collect();
            let ranges: Vec<Range<usize>> =
                axes.iter().map(|&(_, start, n)| start..start + n).collect();
            let text: Vec<String> =
                ranges.iter().map(|r| format!("{}:{}", r.start, r.end)).collect();
            let roi = parse_roi(&text.join(","), &nav).unwrap();
            let shape = framefold::Shape::try_new(&nav, &[1]).unwrap();
            for (flat, selected) in roi.mask().iter().enumerate() {
                let inside = shape
                    .nav_coordinates(flat)
                    .iter()
                    .zip(&ranges)
                    .all(|(coordinate, range)| range.contains(coordinate));
                prop_assert_eq!(*selected, inside);
            }
        }
    }
}
