//! What a script does to draw an array as the viewer showed it.

use super::python::{Literal, number, quoted};
use super::shots::Shot;
use super::state::{Display, Scale};
use super::weights::packed;
use crate::AxisDescription;

/// The colour maps of matplotlib that are the viewer's under the same name.
const IN_MATPLOTLIB: &[&str] =
    &["viridis", "inferno", "magma", "plasma", "cividis", "gray", "turbo", "twilight"];

/// The colour map of directions, whatever else is chosen.
const DIRECTION: &str = "direction";

/// The table of a colour map, 256 × RGB, by its name.
pub type Tables<'a> = &'a dyn Fn(&str) -> Option<Vec<u8>>;

/// Statements that draw `shot` and save the picture as `file`.
pub(super) fn draw(
    shot: &mut Shot,
    display: &Display,
    tables: Tables<'_>,
    file: &str,
) -> Vec<String> {
    let name = shot.name.clone();
    let mut lines = vec!["fig, ax = plt.subplots()".to_owned()];
    let axes = shot.axes.clone();
    match (&axes[..], shot.is_vector) {
        ([y, x], is_vector) => {
            let norm = norm(&format!("np.hypot(*{name})"), &name, display, is_vector);
            let map = if is_vector { DIRECTION } else { &display.colormap };
            lines.push(format!("cmap = {}", colormap(shot, map, tables)));
            lines.push(format!("norm = {norm}"));
            let array = match (is_vector, display.scale) {
                (true, _) => {
                    shot.pieces.insert("wheel");
                    let table = "cmap(np.arange(256))[:, :3]";
                    lines.push(format!("colours = wheel({name}, {table}, norm)"));
                    "colours".to_owned()
                }
                // Matplotlib has no colour for what has no logarithm.
                (false, Scale::Log) => {
                    lines.push(
                        "norm.autoscale_None(np.ma.masked_less_equal(".to_owned() + &name + ", 0))",
                    );
                    format!("np.maximum({name}, norm.vmin)")
                }
                (false, _) => name.clone(),
            };
            let mut arguments = vec![array];
            if !is_vector {
                arguments.extend(["cmap=cmap".to_owned(), "norm=norm".to_owned()]);
            }
            let (rows, columns) = (extent(y), extent(x));
            let extent = [columns.0, columns.1, rows.1, rows.0].map(Literal::Number);
            arguments.push(format!("extent={}", Literal::Tuple(extent.to_vec()).code()));
            arguments.push("interpolation=\"nearest\"".to_owned());
            if y.unit != x.unit {
                arguments.push("aspect=\"auto\"".to_owned());
            }
            lines.push(super::opened::call("image = ax.imshow", &arguments));
            lines.push(format!("ax.set_ylabel({})", quoted(&label(y))));
            lines.push(format!("ax.set_xlabel({})", quoted(&label(x))));
            if !is_vector {
                lines.push("fig.colorbar(image)".to_owned());
            }
        }
        ([x], _) => {
            let (start, step) = (number(x.offset), number(x.scale));
            lines.push(format!("places = {start} + {step} * np.arange({})", x.size));
            lines.push(format!("ax.plot(places, np.reshape({name}, (-1, {})).T)", x.size));
            lines.push(format!("ax.set_xlabel({})", quoted(&label(x))));
            if display.scale == Scale::Log {
                lines.push("ax.set_yscale(\"log\")".to_owned());
            }
        }
        _ => return Vec::new(),
    }
    lines.push(format!("ax.set_title({})", quoted(&shot.title)));
    lines.push(format!("fig.savefig({}, dpi=150)", quoted(file)));
    lines
}

/// From values to positions on the colour map.
fn norm(length: &str, name: &str, display: &Display, is_vector: bool) -> String {
    let values = if is_vector { length } else { name };
    let or = |limit: Option<f64>, found: &str| {
        let limit = limit.filter(|limit| limit.is_finite());
        limit.map_or_else(|| format!("np.nanmin({values})").replace("min", found), number)
    };
    let limits = format!("{}, {}", or(display.low, "min"), or(display.high, "max"));
    match display.scale {
        Scale::Linear => format!("colors.Normalize({limits}, clip=True)"),
        Scale::Sqrt => format!("colors.PowerNorm(0.5, {limits}, clip=True)"),
        Scale::Power => format!("colors.PowerNorm({}, {limits}, clip=True)", number(display.gamma)),
        Scale::Log => {
            let positive = |limit: Option<f64>| {
                let limit = limit.filter(|limit| limit.is_finite() && *limit > 0.0);
                limit.map_or_else(|| "None".to_owned(), number)
            };
            format!(
                "colors.LogNorm({}, {}, clip=True)",
                positive(display.low),
                positive(display.high)
            )
        }
    }
}

/// The colour map: that of matplotlib, or the viewer's own, which the script then holds.
fn colormap(shot: &mut Shot, name: &str, tables: Tables<'_>) -> String {
    let own = tables(name).filter(|table| table.len() == 768 && !IN_MATPLOTLIB.contains(&name));
    let Some(table) = own else { return format!("plt.get_cmap({})", quoted(name)) };
    let constant = format!("{}_COLOURS", shot.name.to_uppercase());
    shot.definitions.push(packed(&constant, &[256, 3], &table, "u1"));
    shot.pieces.insert("from_text");
    format!("colors.ListedColormap(from_text(*{constant}) / 255)")
}

/// Where an axis begins and ends, half a step beyond its first and last positions.
fn extent(axis: &AxisDescription) -> (f64, f64) {
    let at = |i: f64| axis.offset + i * axis.scale;
    (at(-0.5), at(axis.size as f64 - 0.5))
}

/// Steps without a unit have none in words, either, unless they are pixels.
fn label(axis: &AxisDescription) -> String {
    match (axis.unit.as_str(), axis.scale, axis.offset) {
        ("", 1.0, 0.0) => format!("{} (px)", axis.name),
        ("", ..) => axis.name.clone(),
        (unit, ..) => format!("{} ({unit})", axis.name),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_without_a_unit_are_not_called_pixels() {
        let axis = |scale, offset, unit: &str| {
            label(&AxisDescription { name: "x".into(), size: 4, scale, offset, unit: unit.into() })
        };
        assert_eq!(axis(1.0, 0.0, ""), "x (px)");
        assert_eq!([axis(0.5, 0.0, ""), axis(1.0, -2.0, "")], ["x", "x"]);
        assert_eq!(axis(0.5, 0.0, "nm"), "x (nm)");
    }
}
