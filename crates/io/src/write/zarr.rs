//! Zarr: a folder with an array, of version 2 or 3, and the groups that HyperSpy has around it.
//!
//! | version | description | chunks |
//! |---|---|---|
//! | 2 | `.zarray`, and attributes in `.zattrs` | a file for each, `0/0/0/0` |
//! | 3 | `zarr.json` | a file for each piece, `c/0/0/0/0`, with an index at its end |
//!
//! Endianness: that of the machine, which the description says. Readers: version 2, all of Zarr and
//! HyperSpy; version 3, zarr-python since 3.0 and what builds on it.

mod groups;
mod version_2;
mod version_3;

use super::chunks::{ChunkSpec, Encoded};
use super::units::Unit;
use super::{Job, WriteFormat, ZarrVersion};
use crate::headers::written::{NAME, OFFSET, SCALE, UNITS};
use crate::write::whole::{WholeOutput, failed};
use framefold_core::{DType, MetadataValue, Result};
pub(super) use groups::data_path;
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The folder of an array.
pub(super) struct ArrayFolder<'j> {
    path: &'j Path,
    folder: PathBuf,
    chunk: &'j [usize],
    /// The shape of a file, where it holds many chunks.
    shard: Option<Vec<usize>>,
    len_bytes: AtomicU64,
}

impl<'j> ArrayFolder<'j> {
    /// Writes the description, and the groups around it.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn create(
        job: &'j Job<'j>,
        spec: &'j ChunkSpec,
        target: &WholeOutput,
    ) -> Result<Self> {
        let root = target.part().to_path_buf();
        let mut folder = ArrayFolder {
            path: job.path,
            folder: root,
            chunk: &spec.shape,
            shard: None,
            len_bytes: AtomicU64::new(0),
        };
        if job.format == WriteFormat::Zspy {
            groups::write(&folder, job)?;
            folder.folder.push(data_path(job));
        }
        match job.zarr_format {
            ZarrVersion::V2 => {
                folder.write_json(".zarray", &version_2::description(job, spec))?;
                // What HyperSpy asks for is in the groups.
                if job.format == WriteFormat::Zarr {
                    folder.write_json(".zattrs", &version_2::attributes(job))?;
                }
            }
            ZarrVersion::V3 => {
                // A file is as large as a piece: whole chunks, also where frames end.
                let pieces = job.units.step.iter().chain(job.units.tiling.tile_shape());
                let shard = pieces.zip(&spec.shape).map(|(&n, &chunk)| n.next_multiple_of(chunk));
                let shard: Vec<usize> = shard.collect();
                folder.write_json("zarr.json", &version_3::description(job, spec, &shard))?;
                folder.shard = Some(shard);
            }
        }
        Ok(folder)
    }

    /// Writes the chunks of a piece; nothing, if all of them are left out.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn store(&self, unit: &Unit<'_>, encoded: &Encoded) -> Result<()> {
        match &self.shard {
            _ if encoded.chunks.iter().all(Option::is_none) => Ok(()),
            None => version_2::store(self, unit, encoded),
            Some(shard) => version_3::store(self, shard, unit, encoded),
        }
    }

    /// The size of all files.
    pub(super) fn complete(self) -> Result<u64> {
        Ok(self.len_bytes.into_inner())
    }

    fn write_json(&self, name: &str, content: &Value) -> Result<()> {
        self.write_file(Path::new(name), &[format!("{content:#}\n").as_bytes()])
    }

    /// Writes a file that was not there, and waits until it is on the disk: the folder gets its name
    /// afterwards.
    fn write_file(&self, name: &Path, parts: &[&[u8]]) -> Result<()> {
        let path = self.folder.join(name);
        let write = || {
            if let Some(parent) = path.parent() {
                std::fs::create_dir_all(parent)?;
            }
            let mut file = File::create_new(&path)?;
            parts.iter().try_for_each(|part| file.write_all(part))?;
            file.sync_data()
        };
        write().map_err(|error| failed(error, self.path))?;
        let n: usize = parts.iter().map(|part| part.len()).sum();
        self.len_bytes.fetch_add(n as u64, Ordering::Relaxed);
        Ok(())
    }
}

/// What is known of the axes.
fn axes(job: &Job<'_>) -> Vec<Value> {
    let about = |axis: framefold_core::Axis| {
        json!({
            NAME: axis.name,
            SCALE: axis.scale,
            OFFSET: axis.offset,
            UNITS: axis.unit,
        })
    };
    job.axes().into_iter().map(about).collect()
}

/// What is known of the experiment.
fn metadata(job: &Job<'_>) -> Map<String, Value> {
    let mut metadata = Map::new();
    for fact in job.metadata.iter() {
        let value = match &fact.value {
            MetadataValue::Number(number) => json!(number),
            MetadataValue::Text(text) => json!(text),
        };
        let about = match fact.quantity.unit() {
            "" => json!({ "value": value }),
            unit => json!({ "value": value, "unit": unit }),
        };
        metadata.insert(fact.quantity.name().to_owned(), about);
    }
    metadata
}

/// What chunks that are left out are made of.
fn zero(dtype: DType) -> Value {
    match dtype {
        DType::Bool => json!(false),
        DType::C64 | DType::C128 => json!([0.0, 0.0]),
        dtype if dtype.is_float() => json!(0.0),
        _ => json!(0),
    }
}
