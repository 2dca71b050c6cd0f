//! Zarr version 3: a folder with the array at its root, and a file for each piece.

use super::chunks::{ChunkSpec, Encoded};
use super::units::{Unit, unravel};
use super::{Compression, Job};
use crate::codec::Step;
use crate::headers::written::{AXES, METADATA, NAME, OFFSET, SCALE, SIG_DIMS, UNITS};
use crate::write::whole::{WholeOutput, failed};
use crc32c::crc32c;
use framefold_core::{ByteOrder, DType, MetadataValue, Result, memory};
use serde_json::{Map, Value, json};
use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// The folder of an array whose files hold many chunks each.
pub(super) struct ShardFolder<'j> {
    path: &'j Path,
    folder: PathBuf,
    chunk: &'j [usize],
    shard: Vec<usize>,
    len_bytes: AtomicU64,
}

impl<'j> ShardFolder<'j> {
    /// Writes the description.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn create(
        job: &'j Job<'j>,
        spec: &'j ChunkSpec,
        target: &WholeOutput,
    ) -> Result<Self> {
        // A file is as large as a piece: whole chunks, also where frames end.
        let pieces = job.units.step.iter().chain(job.units.tiling.tile_shape());
        let shard = pieces.zip(&spec.shape).map(|(&piece, &chunk)| piece.next_multiple_of(chunk));
        let shard: Vec<usize> = shard.collect();
        let folder = target.part().to_path_buf();
        let text = format!("{:#}\n", description(job, spec, &shard));
        let file = folder.join("zarr.json");
        std::fs::write(&file, &text)
            .and_then(|()| File::open(&file)?.sync_all())
            .map_err(|error| failed(error, job.path))?;
        let len_bytes = AtomicU64::new(text.len() as u64);
        Ok(ShardFolder { path: job.path, folder, chunk: &spec.shape, shard, len_bytes })
    }

    /// Writes the file of a piece; none, if all of its chunks are left out.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn store(&self, unit: &Unit<'_>, encoded: &Encoded) -> Result<()> {
        if encoded.chunks.iter().all(Option::is_none) {
            return Ok(());
        }
        let grid: Vec<usize> =
            self.shard.iter().zip(self.chunk).map(|(n, chunk)| n / chunk).collect();
        let n_chunks = grid.iter().product::<usize>();
        let mut index = memory::filled(0xFF, n_chunks.saturating_mul(16))?;
        for (i, range) in encoded.chunks.iter().enumerate() {
            let place = unravel(i, &encoded.grid);
            let flat = place.iter().zip(&grid).fold(0, |flat, (at, n)| flat * n + at);
            let entry = index.get_mut(16 * flat..).and_then(|rest| rest.first_chunk_mut::<16>());
            if let (Some(range), Some(entry)) = (range, entry) {
                let (offset, len) = (range.start as u64, range.len() as u64);
                entry[..8].copy_from_slice(&offset.to_le_bytes());
                entry[8..].copy_from_slice(&len.to_le_bytes());
            }
        }
        index.extend(crc32c(&index).to_le_bytes());
        let origin = unit.origin.iter().chain(unit.slice.origin());
        let mut file = self.folder.join("c");
        for (at, shard) in origin.zip(&self.shard) {
            file.push((at / shard).to_string());
        }
        let write = || {
            if let Some(parent) = file.parent() {
                std::fs::create_dir_all(parent)?;
            }
            let mut file = File::create_new(&file)?;
            file.write_all(&encoded.bytes)?;
            file.write_all(&index)?;
            file.sync_data()
        };
        write().map_err(|error| failed(error, self.path))?;
        let n = (encoded.bytes.len() + index.len()) as u64;
        self.len_bytes.fetch_add(n, Ordering::Relaxed);
        Ok(())
    }

    /// The size of all files.
    pub(super) fn complete(self) -> Result<u64> {
        Ok(self.len_bytes.into_inner())
    }
}

fn description(job: &Job<'_>, spec: &ChunkSpec, shard: &[usize]) -> Value {
    let axes = job.axes();
    let names: Vec<&str> = axes.iter().map(|axis| axis.name.as_str()).collect();
    let scales: Vec<Value> = axes
        .iter()
        .map(|axis| {
            json!({
                NAME: axis.name,
                SCALE: axis.scale,
                OFFSET: axis.offset,
                UNITS: axis.unit,
            })
        })
        .collect();
    let mut metadata = Map::new();
    for fact in job.metadata.iter() {
        let value = match &fact.value {
            MetadataValue::Number(number) => json!(number),
            MetadataValue::Text(text) => json!(text),
        };
        let fact_json = match fact.quantity.unit() {
            "" => json!({ "value": value }),
            unit => json!({ "value": value, "unit": unit }),
        };
        metadata.insert(fact.quantity.name().to_owned(), fact_json);
    }
    let endian = if ByteOrder::NATIVE == ByteOrder::Little { "little" } else { "big" };
    let bytes = json!({ "name": "bytes", "configuration": { "endian": endian } });
    let index = json!([
        { "name": "bytes", "configuration": { "endian": "little" } },
        { "name": "crc32c" },
    ]);
    let mut codecs = vec![bytes];
    codecs.extend(compressor(job.compression, spec));
    codecs.extend(spec.has_checksums.then(|| json!({ "name": "crc32c" })));
    json!({
        "zarr_format": 3,
        "node_type": "array",
        "shape": job.shape(),
        "data_type": job.cast.to.name(),
        "chunk_grid": { "name": "regular", "configuration": { "chunk_shape": shard } },
        "chunk_key_encoding": { "name": "default", "configuration": { "separator": "/" } },
        "fill_value": zero(job.cast.to),
        "codecs": [{
            "name": "sharding_indexed",
            "configuration": {
                "chunk_shape": spec.shape,
                "codecs": codecs,
                "index_codecs": index,
                "index_location": "end",
            },
        }],
        "dimension_names": names,
        "attributes": {
            SIG_DIMS: job.dataset.shape().sig().len(),
            AXES: scales,
            METADATA: metadata,
        },
    })
}

fn compressor(compression: Compression, spec: &ChunkSpec) -> Option<Value> {
    let blosc = |compressor: &str, level: i32| {
        json!({
            "name": "blosc",
            "configuration": {
                "typesize": spec.size,
                "cname": compressor,
                "clevel": level.min(9),
                "shuffle": "bitshuffle",
                "blocksize": 0,
            },
        })
    };
    match (compression, spec.steps.first()?) {
        (_, Step::Gzip(level)) => {
            Some(json!({ "name": "gzip", "configuration": { "level": level } }))
        }
        (_, Step::Zstd(level)) => {
            Some(json!({ "name": "zstd", "configuration": { "level": level, "checksum": false } }))
        }
        (_, Step::Blosc { zstd: Some(level), .. }) => Some(blosc("zstd", *level)),
        (_, Step::Blosc { zstd: None, .. }) => Some(blosc("lz4", 1)),
        _ => None,
    }
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
