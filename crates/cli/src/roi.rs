//! Regions of interest: from a file, or written down as slices.

use crate::blocks::{self, Words};
use crate::npy_input::read_npy;
use framefold::core::{Bool8, DType, Roi, memory};
use framefold::{Error, Result};
use std::path::Path;

const WORDS: Words = Words {
    what: "the ROI",
    array: "the scan",
    hint: "write slices such as 0:64,10:20 or ::2, a position such as 3,4, or name an .npy file",
};

/// The region of interest that `text` means on a scan of shape `nav`.
///
/// `text` is the name of an `.npy` file with a boolean array of shape `nav`, or slices as in NumPy, joined by `;`.
///
/// # Errors
/// `InvalidArgument` if it does not fit the scan or selects nothing; errors of the file.
pub fn parse_roi(text: &str, nav: &[usize]) -> Result<Roi> {
    if blocks::is_file(text) {
        return from_file(Path::new(text), nav);
    }
    if nav.len() > 1 && text.trim().parse::<i64>().is_ok() {
        // In one letter, a ROI is as good as a radius.
        let row = text.trim();
        return Err(Error::invalid(format!(
            "the ROI '{row}' is one number, but the scan has {} axes",
            nav.len()
        ))
        .with_hint(format!(
            "write '{row},:' for all positions of that row; the radius of a reduction is --radius"
        )));
    }
    Roi::try_new(blocks::mask(&blocks::parse(text, nav, &WORDS)?, nav)?)
}

/// The file that `text` names, if it names one.
pub(crate) fn file_of_roi(text: Option<&str>) -> Option<&Path> {
    text.filter(|text| blocks::is_file(text)).map(Path::new)
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
        assert_eq!(positions("2,:", &[3, 4]), [8, 9, 10, 11]);
        assert_eq!(positions("2:", &[3, 4]), [8, 9, 10, 11]);
        assert_eq!(positions("2", &[9]), [2]);
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
            ("2", "one number"),
            (" -1 ", "'-1,:'"),
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
            for flat in 0..roi.n_frames() {
                let inside = shape
                    .nav_coordinates(flat)
                    .iter()
                    .zip(&ranges)
                    .all(|(c, (start, end, step))| c >= start && c < end && (c - start) % step == 0);
                prop_assert_eq!(roi.positions().contains(&flat), inside);
            }
        }
    }
}
