//! Zarr in a ZIP archive, as `zarr.storage.ZipStore` reads it: version 3, without compression.
//!
//! | member | what |
//! |---|---|
//! | `zarr.json` | the group, with title and name of the data set |
//! | `data/zarr.json`, `data/c/0/0` | the array |
//! | `NAME/zarr.json`, `NAME/c/0` | the positions of an axis, as xarray has its coordinates |

use super::array::Exported;
use framefold::{Error, Result};
use serde_json::{Value, json};
use std::io::{Cursor, Write};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// The bytes of the archive.
///
/// # Errors
/// `Bug` if the archive cannot be made.
pub(super) fn store(what: &Exported<'_>) -> Result<Vec<u8>> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let mut add = |name: &str, bytes: &[u8]| -> Result<()> {
        let options = SimpleFileOptions::default().compression_method(CompressionMethod::Stored);
        let failed = |error: String| Error::bug(format!("the archive could not be made: {error}"));
        archive.start_file(name, options).map_err(|error| failed(error.to_string()))?;
        archive.write_all(bytes).map_err(|error| failed(error.to_string()))
    };
    let about = json!({
        "title": what.title,
        "dataset": what.dataset,
        "quality": what.picture.label,
        "creator": "framefold",
    });
    let group = json!({ "zarr_format": 3, "node_type": "group", "attributes": about });
    add("zarr.json", &text(&group))?;
    let axes = what.all_axes();
    let mut names: Vec<String> = Vec::new();
    for axis in &axes {
        // Names of folders in the archive, each another one.
        let kept = |c: char| if c.is_alphanumeric() || c == '_' { c } else { '_' };
        let mut name: String = axis.name.chars().map(kept).collect();
        while name.is_empty() || name == "data" || names.contains(&name) {
            name.push('_');
        }
        names.push(name);
    }
    let bytes: Vec<u8> = what.picture.values.iter().flat_map(|value| value.to_le_bytes()).collect();
    let of_data = json!({ "title": what.title });
    add("data/zarr.json", &text(&array(&what.shape(), &names, &of_data)))?;
    let chunk = vec!["0"; axes.len()].join("/");
    add(&format!("data/c/{chunk}"), &bytes)?;
    for (axis, name) in axes.iter().zip(&names) {
        let about = match axis.unit.as_str() {
            "" => json!({}),
            unit => json!({ "units": unit }),
        };
        let place = |i: usize| (axis.offset + i as f64 * axis.scale).to_le_bytes();
        let places: Vec<u8> = (0..axis.size).flat_map(place).collect();
        let described = array(&[axis.size], std::slice::from_ref(name), &about);
        add(&format!("{name}/zarr.json"), &text(&described))?;
        add(&format!("{name}/c/0"), &places)?;
    }
    let done = archive.finish();
    let done =
        done.map_err(|error| Error::bug(format!("the archive could not be made: {error}")))?;
    Ok(done.into_inner())
}

/// The description of an array in one chunk.
fn array(shape: &[usize], names: &[String], attributes: &Value) -> Value {
    json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": shape,
        "data_type": "float64",
        "chunk_grid": { "name": "regular", "configuration": { "chunk_shape": shape } },
        "chunk_key_encoding": { "name": "default", "configuration": { "separator": "/" } },
        "fill_value": "NaN",
        "codecs": [{ "name": "bytes", "configuration": { "endian": "little" } }],
        "attributes": attributes,
        "dimension_names": names,
    })
}

fn text(value: &Value) -> Vec<u8> {
    format!("{value:#}\n").into_bytes()
}
