//! Which pixels of a frame are bad, from the list for the whole camera.
//!
//! The XML file has elements `BadPixelMap` with `Rows`, `Columns` and, for a camera that adds
//! pixels up, `Binning`. Each holds elements `Defect` with `Row`, `Rows="a-b"`, `Column` or
//! `Columns="a-b"`: a row, a column, or where both are given the pixels that are in both.
//!
//! The binary file tells the part of the camera that was read, at these offsets, as i32:
//!
//! | offset | content |
//! |---|---|
//! | 290, 294 | width and height of the part, in pixels of the camera |
//! | 298, 302 | its first column and row |
//! | 306 | how many pixels the camera added up along each axis |
//!
//! Numbers of rows and columns are halved if pixels were added up, as the reference does.
//! Rotation and flips, which follow, are not applied by anybody known; defects with a pattern are
//! left out, because nothing tells what it means.

use crate::headers::fields::Fields;
use crate::headers::xml::Element;
use framefold_core::{Error, Result};
use std::ops::Range;

/// The largest number of rows or columns of a camera that is believed.
const MAX_AXIS: usize = 1 << 16;

/// Pixels may be named this many times each, all together.
const MAX_REPEATS: usize = 16;

/// The bad pixels as flat cells of a frame, ascending.
///
/// # Errors
/// `BadFile` if a number of the list makes no sense, or pixels are named far too often.
pub(super) fn find(
    root: &Element,
    binary: &[u8],
    sig_shape: [usize; 2],
    warnings: &mut Vec<String>,
) -> Result<Vec<usize>> {
    let part = Part::read(binary);
    let maps = root.all("BadPixelMap");
    let binned = part.is_some_and(|part| part.binning > 1);
    let is_binned = |map: &&&Element| number(map, "Binning").is_some_and(|binning| binning > 1);
    let fitting = maps.iter().filter(|map| is_binned(map) == binned);
    let Some(map) = fitting.max_by_key(|map| number(map, "Columns").unwrap_or(0)) else {
        return Ok(Vec::new());
    };
    let axis = |name: &str| {
        number(map, name).filter(|n| (1..=MAX_AXIS).contains(n)).ok_or_else(|| {
            bad(format!(
                "a BadPixelMap has {name}='{}', expected a number from 1 to {MAX_AXIS}",
                map.attribute(name).unwrap_or("")
            ))
        })
    };
    let camera = [axis("Rows")?, axis("Columns")?];
    let whole = [0..camera[0], 0..camera[1]];
    let window = part.map(Part::window).filter(|window| {
        window.iter().zip(camera).all(|(range, len)| range.start < range.end && range.end <= len)
    });
    let [rows, columns] = window.unwrap_or(whole);
    if [rows.len(), columns.len()] != sig_shape {
        warnings.push(format!(
            "the list of bad pixels is for {} x {} pixels and does not fit frames of {} x {}: it \
             is not used",
            rows.len(),
            columns.len(),
            sig_shape[0],
            sig_shape[1]
        ));
        return Ok(Vec::new());
    }
    let mut marks = Marks { rows, columns, bad: vec![false; sig_shape[0] * sig_shape[1]], n: 0 };
    for defect in map.children.iter().filter(|child| child.name == "Defect") {
        if defect.attribute("pattern").is_some() {
            warnings.push("a defect with a pattern is left out: its meaning is not known".into());
            continue;
        }
        let rows = range(defect, "Row", "Rows")?;
        let columns = range(defect, "Column", "Columns")?;
        if rows.is_none() && columns.is_none() {
            return Err(bad("a Defect names neither rows nor columns".into()));
        }
        let all = |len: usize| 0..len;
        marks.add(rows.unwrap_or(all(camera[0])), columns.unwrap_or(all(camera[1])))?;
    }
    let cells = marks.bad.iter().enumerate().filter(|(_, bad)| **bad);
    Ok(cells.map(|(cell, _)| cell).collect())
}

/// The part of the camera that was read.
#[derive(Clone, Copy, Debug)]
struct Part {
    width: usize,
    height: usize,
    column: usize,
    row: usize,
    binning: i32,
}

impl Part {
    /// `None` where the file is of another kind, or too short.
    fn read(bytes: &[u8]) -> Option<Self> {
        let fields = Fields::little(bytes);
        let length = |at: usize| usize::try_from(fields.i32(at)?).ok().filter(|&n| n <= MAX_AXIS);
        Some(Part {
            width: length(290)?,
            height: length(294)?,
            column: length(298)?,
            row: length(302)?,
            binning: fields.i32(306).filter(|binning| (0..=64).contains(binning))?,
        })
    }

    /// Its rows and columns, in those of the camera or of added pixels.
    fn window(self) -> [Range<usize>; 2] {
        let by = if self.binning > 1 { 2 } else { 1 };
        [(self.row, self.height), (self.column, self.width)]
            .map(|(start, len)| start / by..start / by + len / by)
    }
}

/// The pixels of the part that are bad.
struct Marks {
    rows: Range<usize>,
    columns: Range<usize>,
    bad: Vec<bool>,
    /// How often one was marked.
    n: usize,
}

impl Marks {
    fn add(&mut self, rows: Range<usize>, columns: Range<usize>) -> Result<()> {
        let inside = |wanted: &Range<usize>, part: &Range<usize>| {
            let start = wanted.start.clamp(part.start, part.end);
            let end = wanted.end.clamp(start, part.end);
            start - part.start..end - part.start
        };
        let (rows, columns) = (inside(&rows, &self.rows), inside(&columns, &self.columns));
        self.n = self.n.saturating_add(rows.len().saturating_mul(columns.len()));
        if self.n > self.bad.len().saturating_mul(MAX_REPEATS) {
            return Err(bad(format!("bad pixels are named more than {MAX_REPEATS} times each")));
        }
        let width = self.columns.len();
        for row in rows {
            let cells = row * width + columns.start..row * width + columns.end;
            if let Some(cells) = self.bad.get_mut(cells) {
                cells.fill(true);
            }
        }
        Ok(())
    }
}

fn number(element: &Element, name: &str) -> Option<usize> {
    element.attribute(name)?.parse().ok()
}

/// The numbers that `one` or `many` names, last one included; `None` if neither is there.
fn range(defect: &Element, one: &str, many: &str) -> Result<Option<Range<usize>>> {
    let Some((name, text)) =
        [one, many].into_iter().find_map(|name| defect.attribute(name).map(|text| (name, text)))
    else {
        return Ok(None);
    };
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    match (first.trim().parse::<usize>(), last.trim().parse::<usize>()) {
        (Ok(first), Ok(last)) if first <= last && last < MAX_AXIS => Ok(Some(first..last + 1)),
        _ => {
            Err(bad(format!("a Defect has {name}='{text}', expected a number, or two as in '3-7'")))
        }
    }
}

fn bad(message: String) -> Error {
    Error::bad_file(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn xml(inner: &str) -> Element {
        let text = format!("<Configuration><BadPixels>{inner}</BadPixels></Configuration>");
        Element::parse(text.as_bytes()).unwrap()
    }

    fn binary(width: i32, height: i32, column: i32, row: i32, binning: i32) -> Vec<u8> {
        let mut bytes = vec![0; 327];
        let numbers = [44, 1, width, height, column, row, binning];
        for (i, number) in numbers.into_iter().enumerate() {
            bytes[282 + 4 * i..][..4].copy_from_slice(&i32::to_le_bytes(number));
        }
        bytes
    }

    fn cells(inner: &str, binary: &[u8], shape: [usize; 2]) -> Vec<[usize; 2]> {
        let cells = find(&xml(inner), binary, shape, &mut Vec::new()).unwrap();
        cells.into_iter().map(|cell| [cell / shape[1], cell % shape[1]]).collect()
    }

    #[test]
    fn a_part_of_a_large_camera() {
        let list = "<BadPixelMap Rows='4096' Columns='4096'><Defect Rows='2311-2312'/>\
                    <Defect Rows='3413-3414'/><Defect Column='2311'/></BadPixelMap>";
        let found = cells(list, &binary(1024, 1024, 1536, 1536, 1), [1024, 1024]);
        let is_bad = |[y, x]: [usize; 2]| y == 775 || y == 776 || x == 775;
        assert!(found.iter().all(|&cell| is_bad(cell)));
        assert_eq!(found.len(), 3 * 1024 - 2);
    }

    #[test]
    fn cameras_that_are_not_square() {
        let list = "<BadPixelMap Rows='8' Columns='6'><Defect Row='3' Columns='4-9'/>\
                    <Defect Row='2' Column='1'/></BadPixelMap>";
        assert_eq!(cells(list, &[], [8, 6]), [[2, 1], [3, 4], [3, 5]]);
        assert_eq!(cells(list, &binary(4, 2, 2, 2, 1), [2, 4]), [[1, 2], [1, 3]]);
    }

    #[test]
    fn the_map_for_added_pixels() {
        let list = "<BadPixelMap Rows='8' Columns='8'><Defect Row='0'/></BadPixelMap>\
                    <BadPixelMap Rows='4' Columns='4' Binning='2'><Defect Row='3'/></BadPixelMap>";
        assert_eq!(cells(list, &binary(4, 4, 2, 4, 2), [2, 2]), [[1, 0], [1, 1]]);
        assert_eq!(cells(list, &[], [8, 8]).len(), 8);
    }

    #[test]
    fn lists_that_make_no_sense() {
        for inner in [
            "<BadPixelMap Rows='0' Columns='6'/>",
            "<BadPixelMap Rows='99999999' Columns='6'/>",
            "<BadPixelMap Columns='6'/>",
            "<BadPixelMap Rows='8' Columns='6'><Defect/></BadPixelMap>",
            "<BadPixelMap Rows='8' Columns='6'><Defect Rows='5-2'/></BadPixelMap>",
            "<BadPixelMap Rows='8' Columns='6'><Defect Row='-2'/></BadPixelMap>",
        ] {
            let error = find(&xml(inner), &[], [8, 6], &mut Vec::new()).unwrap_err();
            assert_eq!(error.kind(), framefold_core::ErrorKind::BadFile, "{inner}");
        }
        let many = "<Defect Rows='0-7'/>".repeat(20);
        let list = format!("<BadPixelMap Rows='8' Columns='6'>{many}</BadPixelMap>");
        assert!(find(&xml(&list), &[], [8, 6], &mut Vec::new()).is_err());
    }

    #[test]
    fn lists_that_do_not_fit_are_said_to_be_left_out() {
        let mut warnings = Vec::new();
        let list = xml("<BadPixelMap Rows='8' Columns='6'><Defect Row='1'/></BadPixelMap>");
        assert_eq!(find(&list, &[], [6, 8], &mut warnings).unwrap(), [] as [usize; 0]);
        assert!(warnings[0].contains("for 8 x 6 pixels"), "{warnings:?}");
        let pattern =
            xml("<BadPixelMap Rows='8' Columns='6'><Defect Row='1' pattern='01'/></BadPixelMap>");
        assert_eq!(find(&pattern, &[], [8, 6], &mut warnings).unwrap(), [] as [usize; 0]);
        assert_eq!(warnings.len(), 2);
    }
}
