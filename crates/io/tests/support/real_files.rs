//! Real files, and what independent readers say of them.
//!
//! `FRAMEFOLD_TEST_DATA` names the folder that holds `MANIFEST.json`; the default is `shared/data`
//! next to the repository. Without it there is nothing to compare, and the tests say so.

use framefold_core::{Dataset, FrameIndices, TilingScheme};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

pub fn data_dir() -> PathBuf {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    std::env::var_os("FRAMEFOLD_TEST_DATA").map_or_else(default, PathBuf::from)
}

/// The entries of one format; none, with a word to whoever runs the tests, if there is no folder.
pub fn entries(format: &str) -> Vec<Value> {
    let manifest = data_dir().join("MANIFEST.json");
    let Ok(text) = std::fs::read_to_string(&manifest) else {
        eprintln!("skipped: there is no '{}'", manifest.display());
        return Vec::new();
    };
    // Written by Python, which knows numbers that JSON does not.
    let text = text.replace("-Infinity", "null").replace("Infinity", "null").replace("NaN", "null");
    let manifest: Value = serde_json::from_str(&text).unwrap();
    let entries = manifest["entries"].as_array().unwrap().iter();
    let entries: Vec<Value> = entries.filter(|entry| entry["format"] == format).cloned().collect();
    assert!(!entries.is_empty(), "the manifest has no entry of format {format}");
    entries
}

pub fn numbers(value: &Value) -> Vec<usize> {
    value.as_array().unwrap().iter().map(|n| n.as_u64().unwrap() as usize).collect()
}

/// All frames in C order, in native byte order.
pub fn bytes_of(dataset: &Dataset) -> Vec<u8> {
    let info = dataset.source().info();
    let scheme = TilingScheme::try_new(&info.sig_shape, &info.sig_shape, 1).unwrap();
    let mut reader = dataset.source().reader().unwrap();
    let mut all = Vec::new();
    for frame in 0..info.n_frames {
        let run = FrameIndices::Run(frame..frame + 1);
        all.extend(reader.read(run, &scheme.slices()[0]).unwrap().frames().as_bytes());
    }
    reader.verify().unwrap();
    all
}

/// Whether `bytes` are what the reader got, by its checksum.
pub fn is_the_same(bytes: &[u8], dtype: &str, reading: &Value) -> bool {
    let hash = Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    reading["dtype"].as_str() == Some(dtype)
        && reading["sha256_c_order_le"].as_str() == Some(hash.as_str())
}
