//! The groups of HyperSpy's `.zspy` around the array: a folder for each, with its attributes.

use super::ArrayFolder;
use crate::write::Job;
use crate::write::hdf5::{Node, Value as TreeValue, hyperspy};
use framefold_core::Result;
use serde_json::{Map, Value, json};
use std::path::{Path, PathBuf};

/// Where the array is.
pub(in crate::write) fn data_path(job: &Job<'_>) -> String {
    format!("Experiments/{}/data", name(job))
}

/// The title as the name of a folder, which has fewer letters to choose from on some systems.
fn name(job: &Job<'_>) -> String {
    /// In UTF-8; file systems allow 255.
    const LONGEST_BYTES: usize = 200;
    let title = hyperspy::title(job);
    let mut len_bytes = 0;
    let plain = |c: char| if r#"\:*?"<>|"#.contains(c) { '-' } else { c };
    let fits = |c: &char| {
        len_bytes += c.len_utf8();
        len_bytes <= LONGEST_BYTES
    };
    let name: String = title.chars().map(plain).take_while(fits).collect();
    let name = name.trim_matches([' ', '.']);
    // The latter is what describes a group of version 3.
    if name.is_empty() || name == "zarr.json" { hyperspy::UNNAMED } else { name }.to_owned()
}

/// Writes all groups.
///
/// # Errors
/// `Io`.
pub(super) fn write(folder: &ArrayFolder<'_>, job: &Job<'_>) -> Result<()> {
    let group = hyperspy::root(job, name(job), None);
    let mut groups = vec![(PathBuf::new(), &group)];
    while let Some((path, group)) = groups.pop() {
        let Node::Group { attributes, children } = group else { continue };
        let write = |name: &str, content: &Value| write_json(folder, &path.join(name), content);
        write(".zgroup", &json!({ "zarr_format": 2 }))?;
        if !attributes.is_empty() {
            let attributes = attributes.iter().map(|(name, value)| (name.clone(), as_json(value)));
            write(".zattrs", &Value::Object(attributes.collect::<Map<_, _>>()))?;
        }
        groups.extend(children.iter().map(|(name, child)| (path.join(name), child)));
    }
    Ok(())
}

fn write_json(folder: &ArrayFolder<'_>, name: &Path, content: &Value) -> Result<()> {
    folder.write_file(name, &[format!("{content:#}\n").as_bytes()])
}

fn as_json(value: &TreeValue) -> Value {
    match value {
        TreeValue::Number(number) => json!(number),
        TreeValue::Integer(number) => json!(number),
        TreeValue::Truth(truth) => json!(truth),
        TreeValue::Text(text) => json!(text),
        TreeValue::Texts(texts) => json!(texts),
    }
}
