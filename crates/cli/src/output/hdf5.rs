//! HDF5 as NeXus describes it, like what `save` of the Python package writes: a group for each result, with
//! its array `data`, an array for each axis, and `valid` where there are gaps.

use super::{Extra, PictureStyle};
use crate::field::{Field, is_calibrated};
use framefold::Result;
use framefold::core::{Axis, DType, NativeArray};
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
    let places: Vec<Vec<Vec<u8>>> =
        fields.iter().map(|field| field.axes.iter().map(values).collect()).collect();
    let masks: Vec<Vec<u8>> = fields
        .iter()
        .map(|field| field.valid.iter().flatten().map(|valid| u8::from(*valid)).collect())
        .collect();
    let mut members: Vec<(String, TreeNode<'_>)> = Vec::new();
    for ((field, places), mask) in fields.iter().zip(&places).zip(&masks) {
        members.push((field.name.clone(), TreeNode::Group(group(field, places, mask, style))));
    }
    for extra in extras.iter().filter(|extra| extra.name != "valid") {
        members.push((extra.name.to_owned(), array(&extra.array)));
    }
    let mut attributes = vec![text("NX_class", "NXroot"), text("creator", "framefold")];
    attributes.extend(fields.first().map(|field| text("default", &field.name)));
    let whole = WholeOutput::create(path, OutputKind::File, force, &[])?;
    write_tree(&whole, &Tree { attributes, members })?;
    Ok(whole)
}

fn group<'a>(
    field: &'a Field,
    places: &'a [Vec<u8>],
    mask: &'a [u8],
    style: &PictureStyle,
) -> Tree<'a> {
    // Names in the file: others than those of the array and the mask, without slashes.
    let named = |axis: &Axis| match axis.name.as_str() {
        taken @ ("data" | "valid") => format!("{taken}_2"),
        name => name.replace('/', "_"),
    };
    let channels = (0..field.n_channel_axes).map(|i| format!("extra_{i}"));
    let names: Vec<String> = field.axes.iter().map(named).chain(channels).collect();
    let mut members = vec![("data".to_owned(), array(&field.array))];
    for (axis, bytes) in field.axes.iter().zip(places) {
        let attributes = match is_calibrated(axis) && !axis.unit.is_empty() {
            true => vec![text("units", &axis.unit)],
            false => vec![],
        };
        let (shape, dtype) = (vec![axis.size], DType::F64);
        members.push((named(axis), TreeNode::Array { attributes, shape, dtype, bytes }));
    }
    if !mask.is_empty() {
        // One truth value for each entry of the first axes.
        let mut n = 1;
        let leading = field.array.shape().iter().take_while(|&&len| {
            let more = n < mask.len();
            n *= len;
            more
        });
        let (shape, attributes) = (leading.copied().collect(), vec![]);
        let node = TreeNode::Array { attributes, shape, dtype: DType::Bool, bytes: mask };
        members.push(("valid".to_owned(), node));
    }
    let attributes = vec![
        text("NX_class", "NXdata"),
        text("signal", "data"),
        ("axes".to_owned(), TreeValue::Texts(names)),
        text("title", &format!("{}: {}", style.title, field.name)),
    ];
    Tree { attributes, members }
}

fn array(array: &NativeArray) -> TreeNode<'_> {
    TreeNode::Array {
        attributes: vec![],
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

fn text(name: &str, value: &str) -> (String, TreeValue) {
    (name.to_owned(), TreeValue::Text(value.to_owned()))
}
