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
use super::library::Library;
use super::values;
use crate::headers::calibration::{Calibration, Steps};
use crate::headers::xml::Element;

/// Longer descriptions are none.
const LONGEST: usize = 1 << 20;
/// Positions may be so far from the grid, in steps of it.
const TOLERANCE: f64 = 1e-2;

/// The scan shape and the steps on its axes, if the frames say where they were recorded and that
/// is a grid.
pub(super) fn scan(library: &Library, found: &Found) -> Option<(Vec<usize>, Vec<Calibration>)> {
    let positions: Option<Vec<_>> =
        found.parts.iter().map(|(path, _)| position(&about(library, path)?)).collect();
    grid(&positions?)
}

/// The steps on the axes of frames.
pub(super) fn steps(library: &Library, found: &Found) -> Option<Steps> {
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
    let nav = scan(library, found).map_or_else(Vec::new, |(_, steps)| steps);
    Some(Steps { nav: nav.into_iter().map(Some).collect(), sig: vec![axis("Y"), axis("X")] })
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

/// The shape of the grid that positions are on, row by row, and its steps.
fn grid(positions: &[(f64, f64)]) -> Option<(Vec<usize>, Vec<Calibration>)> {
    let &[(x0, y0), (x1, _), ..] = positions else { return None };
    let dx = x1 - x0;
    let in_row = |&&(_, y): &&(f64, f64)| (y - y0).abs() < TOLERANCE * dx.abs();
    let columns = positions.iter().take_while(in_row).count();
    let dy = positions.get(columns).map_or(0.0, |&(_, y)| y - y0);
    let is_grid = columns > 0
        && positions.len().is_multiple_of(columns)
        && positions.iter().enumerate().all(|(number, &(x, y))| {
            let (row, column) = ((number / columns) as f64, (number % columns) as f64);
            (x - x0 - column * dx).abs() <= TOLERANCE * dx.abs()
                && (y - y0 - row * dy).abs() <= TOLERANCE * dy.abs().max(dx.abs())
        });
    let step = |step, first| Calibration { step, offset: Some(first), unit: "m".to_owned() };
    is_grid.then(|| match positions.len() / columns {
        1 => (vec![columns], vec![step(dx, x0)]),
        rows => (vec![rows, columns], vec![step(dy, y0), step(dx, x0)]),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_make_a_grid_or_none() {
        let raster = |rows: usize, columns: usize| -> Vec<(f64, f64)> {
            let all = (0..rows * columns).map(|n| (n / columns, n % columns));
            all.map(|(row, column)| (1e-7 + column as f64 * 2e-9, row as f64 * -3e-9)).collect()
        };
        let shape = |positions: &[_]| grid(positions).map(|(shape, _)| shape);
        assert_eq!(shape(&raster(3, 4)), Some(vec![3, 4]));
        assert_eq!(shape(&raster(1, 4)), Some(vec![4]));
        let (_, steps) = grid(&raster(3, 4)).unwrap();
        assert!((steps[0].step + 3e-9).abs() < 1e-15 && (steps[1].step - 2e-9).abs() < 1e-15);
        let mut snake = raster(2, 3);
        snake.swap(3, 5);
        assert_eq!(shape(&snake), None);
        assert_eq!(shape(&raster(3, 4)[..11]), None);
        for useless in [&[][..], &[(0.0, 0.0)], &[(0.0, 0.0); 4], &[(0.0, 0.0), (0.0, 1.0)]] {
            assert_eq!(shape(useless), None, "{useless:?}");
        }
    }
}
