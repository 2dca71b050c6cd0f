//! What TopSpin says of a scan: XML beside each frame.
//!
//! | path, below the group of a frame | what |
//! |---|---|
//! | `Data` | the frame |
//! | `Metadata`, `Calibration/X`, `Calibration/Y` | `Offset`, `Scale` and the `Type/Text` of the axes of the frame, in rad or m |
//! | `Metadata`, item `RequestedBeamPosition` | `X`, `Y`: where the probe was, in m |
//!
//! Frames are numbered row by row. Where the positions are not those of a grid, the scan has one axis.

use super::find::Found;
use super::grid::grid;
use super::library::Library;
use super::values;
use crate::headers::calibration::{Calibration, Steps};
use crate::headers::xml::Element;

/// Longer descriptions are none.
const LONGEST: usize = 1 << 20;

/// The scan shape and the steps on its axes, if the frames say where they were recorded: those of a
/// grid, or else one axis without steps.
pub(super) fn scan(library: &Library, found: &Found) -> Option<(Vec<usize>, Vec<Calibration>)> {
    let positions: Option<Vec<_>> =
        found.parts.iter().map(|(path, _)| position(&about(library, path)?)).collect();
    let positions = positions?;
    Some(grid(&positions).unwrap_or_else(|| (vec![positions.len()], vec![])))
}

/// The steps on all axes. What the file has as frames may have fewer axes in the data set, `n_sig`: the
/// others are the last ones of the scan.
pub(super) fn steps(library: &Library, found: &Found, n_sig: usize) -> Option<Steps> {
    let (path, _) = found.parts.first()?;
    let root = about(library, path)?;
    let axis = |name: &str| {
        let said = root.path(&["Calibration", name])?;
        let number = |name: &str| said.child(name)?.text().parse::<f64>().ok();
        let unit = match said.path(&["Type", "Text"])?.text() {
            "Angle" => "rad",
            "Distance" | "Length" => "m",
            other => other,
        };
        Some(Calibration {
            step: number("Scale")?,
            offset: number("Offset"),
            unit: unit.to_owned(),
        })
    };
    let mut sig = vec![axis("Y"), axis("X")];
    let inner: Vec<_> = sig.drain(..sig.len().saturating_sub(n_sig)).collect();
    let scan = scan(library, found).map(|(_, steps)| steps.into_iter().map(Some).chain(inner));
    Some(Steps { nav: scan.map_or_else(Vec::new, Iterator::collect), sig })
}

/// What is written beside a frame.
fn about(library: &Library, path: &str) -> Option<Element> {
    let group = library.group(path.strip_suffix("/Data")?)?;
    let dataset = group.dataset("Metadata").ok()?;
    if dataset.num_elements().ok()? != 1 || dataset.raw_element_size().ok()? > LONGEST {
        return None;
    }
    Element::parse(values::text(&group, "Metadata")?.as_bytes()).ok()
}

/// Where a frame was recorded: x and y.
fn position(root: &Element) -> Option<(f64, f64)> {
    let item = root.all("Item").into_iter().find(|item| {
        item.child("Name").is_some_and(|name| name.text() == "RequestedBeamPosition")
    })?;
    let number = |name: &str| item.path(&["Value", name])?.text().parse::<f64>().ok();
    Some((number("X")?, number("Y")?)).filter(|(x, y)| x.is_finite() && y.is_finite())
}
