//! HDF5 as NeXus describes it, like what `save` of the Python package writes: a group for each result, with
//! its array `data`, an array for each axis, and `valid`, of the shape of `data`, where there are gaps.

use super::{Extra, PictureStyle};
use crate::field::Field;
use framefold::Result;
use framefold::core::{Axis, AxisKind, DType, NativeArray};
use framefold::io::{OutputKind, Tree, TreeNode, TreeValue, WholeOutput, write_tree};
use std::path::Path;

/// Writes all fields, and what helps to understand them; the file is there when it is published.
///
/// # Errors
/// `Io`; `Limit` if names are too long; `InvalidArgument` if the file exists and `force` is not set.
pub(super) fn write(
    path: &Path,
    force: bool,
    style: &PictureStyle,
    fields: &[Field],
    extras: &[Extra],
) -> Result<WholeOutput> {
    let scales: Vec<Vec<Scale>> = fields.iter().map(scales).collect();
    let masks: Vec<Option<Vec<u8>>> = fields.iter().map(mask).collect();
    let mut members: Vec<(String, TreeNode<'_>)> = Vec::new();
    for ((field, scales), mask) in fields.iter().zip(&scales).zip(&masks) {
        let group = group(field, scales, mask.as_deref(), style);
        members.push((field.name.clone(), TreeNode::Group(group)));
    }
    for extra in extras.iter().filter(|extra| extra.name != "valid") {
        members.push((extra.name.to_owned(), array(&extra.array, None)));
    }
    let mut attributes = vec![text("NX_class", "NXroot"), text("creator", "framefold")];
    attributes.extend(fields.first().map(|field| text("default", &field.name)));
    let whole = WholeOutput::create(path, OutputKind::File, force, &[])?;
    write_tree(&whole, &Tree { attributes, members })?;
    Ok(whole)
}

/// An axis in the file.
struct Scale {
    /// A name that nothing else in the group has, without slashes.
    name: String,
    unit: String,
    /// Where its positions are, as floats of 64 bits.
    places: Vec<u8>,
}

/// The axes of the array: those of the scan or of frames, and channels, which are counted.
fn scales(field: &Field) -> Vec<Scale> {
    let known = field.axes.iter().chain(&field.colours).cloned();
    let channels = field.array.shape().iter().skip(known.clone().count()).enumerate();
    let channels = channels.map(|(i, &size)| Axis {
        name: format!("data_extra_{i}"),
        kind: AxisKind::Sig,
        size,
        scale: 1.0,
        offset: 0.0,
        unit: String::new(),
    });
    let mut all: Vec<Scale> = Vec::new();
    for axis in known.chain(channels) {
        let first = axis.name.replace('/', "_");
        let (mut name, mut number) = (first.clone(), 2);
        // HDF5 takes "." for the group itself.
        let is_taken = |name: &str| {
            ["data", "valid", "", "."].contains(&name) || all.iter().any(|other| other.name == name)
        };
        while is_taken(&name) {
            name = format!("{first}_{number}");
            number += 1;
        }
        all.push(Scale { name, unit: axis.unit.clone(), places: values(&axis) });
    }
    all
}

/// One truth value for each of the array's: whether there is data. `None` if all have it.
fn mask(field: &Field) -> Option<Vec<u8>> {
    field.valid.as_ref()?;
    Some((0..field.array.values().len()).map(|cell| u8::from(field.has_data(cell))).collect())
}

fn group<'a>(
    field: &'a Field,
    scales: &'a [Scale],
    mask: Option<&'a [u8]>,
    style: &PictureStyle,
) -> Tree<'a> {
    let mut attributes = vec![
        text("NX_class", "NXdata"),
        text("signal", "data"),
        ("axes".into(), TreeValue::Texts(scales.iter().map(|scale| scale.name.clone()).collect())),
        text("title", &format!("{}: {}", style.title, field.name)),
    ];
    let mut members = vec![("data".to_owned(), array(&field.array, field.unit))];
    for ((scale, &size), i) in scales.iter().zip(field.array.shape()).zip(0..) {
        attributes.push((format!("{}_indices", scale.name), TreeValue::Integer(i)));
        let unit = Some(&*scale.unit).filter(|unit| !unit.is_empty());
        let attributes = units(unit);
        let (shape, dtype, bytes) = (vec![size], DType::F64, &scale.places[..]);
        members.push((scale.name.clone(), TreeNode::Array { attributes, shape, dtype, bytes }));
    }
    if let Some(bytes) = mask {
        let (shape, attributes) = (field.array.shape().to_vec(), vec![]);
        let node = TreeNode::Array { attributes, shape, dtype: DType::Bool, bytes };
        members.push(("valid".to_owned(), node));
    }
    Tree { attributes, members }
}

fn array<'a>(array: &'a NativeArray, unit: Option<&str>) -> TreeNode<'a> {
    TreeNode::Array {
        attributes: units(unit),
        shape: array.shape().to_vec(),
        dtype: array.dtype(),
        bytes: array.values().as_bytes(),
    }
}

/// Where the positions of an axis are.
fn values(axis: &Axis) -> Vec<u8> {
    let place = |i: usize| axis.offset + i as f64 * axis.scale;
    (0..axis.size).flat_map(|i| place(i).to_ne_bytes()).collect()
}

/// The attribute that says a unit, where there is one.
fn units(unit: Option<&str>) -> Vec<(String, TreeValue)> {
    unit.map(|unit| text("units", unit)).into_iter().collect()
}

fn text(name: &str, value: &str) -> (String, TreeValue) {
    (name.to_owned(), TreeValue::Text(value.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::field::tests::field;

    #[test]
    fn nothing_in_a_group_has_the_name_of_an_axis() {
        let mut field = field(&[1, 1, 1, 1, 2, 3], vec![0u8; 6], 2, None);
        for (axis, name) in field.axes.iter_mut().zip(["data", "data_2", "a/b", "valid"]) {
            axis.name = name.to_owned();
        }
        let names: Vec<String> = scales(&field).into_iter().map(|scale| scale.name).collect();
        assert_eq!(names, ["data_2", "data_2_2", "a_b", "valid_2", "data_extra_0", "data_extra_1"]);
        field.axes[0].name = ".".to_owned();
        assert_eq!(scales(&field)[0].name, "._2");
    }
}
