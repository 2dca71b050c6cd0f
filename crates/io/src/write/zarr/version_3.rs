//! Zarr version 3: a file for each piece, with an index of the chunks in it.

use super::{ArrayFolder, axes, metadata, zero};
use crate::codec::Step;
use crate::headers::written::{AXES, METADATA, SIG_DIMS};
use crate::write::chunks::{ChunkSpec, Encoded};
use crate::write::units::{Unit, unravel};
use crate::write::{Compression, Job};
use crc32c::crc32c;
use framefold_core::{ByteOrder, Result, memory};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Writes the file of a piece, which is of shape `shard` but at edges.
pub(super) fn store(
    folder: &ArrayFolder<'_>,
    shard: &[usize],
    unit: &Unit<'_>,
    encoded: &Encoded,
) -> Result<()> {
    let grid: Vec<usize> = shard.iter().zip(folder.chunk).map(|(n, chunk)| n / chunk).collect();
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
    let mut name = PathBuf::from("c");
    for (at, shard) in unit.origin.iter().chain(unit.slice.origin()).zip(shard) {
        name.push((at / shard).to_string());
    }
    folder.write_file(&name, &[&encoded.bytes, &index])
}

pub(super) fn description(job: &Job<'_>, spec: &ChunkSpec, shard: &[usize]) -> Value {
    let axes = job.axes();
    let names: Vec<&str> = axes.iter().map(|axis| axis.name.as_str()).collect();
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
            AXES: self::axes(job),
            METADATA: metadata(job),
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
