//! Zarr version 2: a file for each chunk.

use super::{ArrayFolder, axes, metadata, zero};
use crate::codec::Step;
use crate::headers::written::{AXES, METADATA, SIG_DIMS};
use crate::write::chunks::{ChunkSpec, Encoded};
use crate::write::units::{Unit, unravel};
use crate::write::{Compression, Job};
use framefold_core::{ByteOrder, DType, Error, Result};
use serde_json::{Value, json};
use std::path::PathBuf;

/// Writes the chunks of a piece that are not left out.
pub(super) fn store(folder: &ArrayFolder<'_>, unit: &Unit<'_>, encoded: &Encoded) -> Result<()> {
    let origin: Vec<usize> = unit.origin.iter().chain(unit.slice.origin()).copied().collect();
    for (i, range) in encoded.chunks.iter().enumerate() {
        let Some(range) = range else { continue };
        let bytes = encoded.bytes.get(range.clone());
        let bytes = bytes.ok_or_else(|| Error::bug("a chunk lies beyond its piece"))?;
        let place = unravel(i, &encoded.grid).into_iter().zip(&origin).zip(folder.chunk);
        let name: PathBuf =
            place.map(|((at, origin), chunk)| (origin / chunk + at).to_string()).collect();
        folder.write_file(&name, &[bytes])?;
    }
    Ok(())
}

pub(super) fn description(job: &Job<'_>, spec: &ChunkSpec) -> Value {
    json!({
        "zarr_format": 2,
        "shape": job.shape(),
        "chunks": spec.shape,
        "dtype": dtype(job.cast.to),
        "compressor": compressor(job.compression, spec),
        "fill_value": zero(job.cast.to),
        "order": "C",
        "filters": null,
        "dimension_separator": "/",
    })
}

pub(super) fn attributes(job: &Job<'_>) -> Value {
    let names: Vec<String> = job.axes().into_iter().map(|axis| axis.name).collect();
    json!({
        // Where xarray looks for names.
        "_ARRAY_DIMENSIONS": names,
        SIG_DIMS: job.dataset.shape().sig().len(),
        AXES: axes(job),
        METADATA: metadata(job),
    })
}

/// The dtype as NumPy writes it: `<u2`.
fn dtype(dtype: DType) -> String {
    let order = match (dtype.size(), ByteOrder::NATIVE) {
        (1, _) => '|',
        (_, ByteOrder::Little) => '<',
        (_, ByteOrder::Big) => '>',
    };
    let kind = match dtype {
        DType::Bool => 'b',
        dtype if dtype.is_complex() => 'c',
        dtype if dtype.is_float() => 'f',
        DType::U8 | DType::U16 | DType::U32 | DType::U64 => 'u',
        _ => 'i',
    };
    format!("{order}{kind}{}", dtype.size())
}

/// The codec, by the names of numcodecs.
fn compressor(compression: Compression, spec: &ChunkSpec) -> Value {
    /// Blosc's number for shuffled bits.
    const BITS: u8 = 2;
    let blosc = |name: &str, level: i32| {
        json!({
            "id": "blosc",
            "cname": name,
            "clevel": level.min(9),
            "shuffle": BITS,
            "blocksize": 0,
        })
    };
    match (compression, spec.steps.first()) {
        (_, Some(Step::Gzip(level))) => json!({ "id": "gzip", "level": level }),
        (_, Some(Step::Zstd(level))) => json!({ "id": "zstd", "level": level }),
        (_, Some(Step::Blosc { zstd: Some(level), .. })) => blosc("zstd", *level),
        (_, Some(Step::Blosc { zstd: None, .. })) => blosc("lz4", 1),
        _ => Value::Null,
    }
}
