//! Real files, and what independent readers say of them.
//!
//! `FRAMEFOLD_TEST_DATA` names the folder that holds `MANIFEST.json`, and has to be right; the default
//! is `shared/data` next to the repository. Without it there is nothing to compare, and the tests
//! say so.

use framefold_core::{Dataset, FrameIndices, TilingScheme};
use serde_json::Value;
use sha2::{Digest, Sha256};
use std::path::{Path, PathBuf};

/// The folder of real files. If one is named, it has to be there.
pub fn data_dir() -> PathBuf {
    let default = || Path::new(env!("CARGO_MANIFEST_DIR")).join("../../../shared/data");
    std::env::var_os("FRAMEFOLD_TEST_DATA").map_or_else(default, PathBuf::from)
}

/// The same if it is there; `None`, and a message, if it is not and the variable is not set.
pub fn data_directory() -> Option<PathBuf> {
    let path = data_dir();
    if path.join("MANIFEST.json").is_file() {
        return Some(path);
    }
    let named = std::env::var_os("FRAMEFOLD_TEST_DATA").is_some();
    assert!(!named, "FRAMEFOLD_TEST_DATA: there is no MANIFEST.json in {}", path.display());
    eprintln!("skipped: there is no MANIFEST.json in {}", path.display());
    None
}

/// What the manifest says of each file; nothing where there are no files.
pub fn manifest() -> Vec<Value> {
    let Some(directory) = data_directory() else { return Vec::new() };
    let text = std::fs::read_to_string(directory.join("MANIFEST.json")).unwrap();
    // Written by Python, which knows numbers that JSON does not.
    let text = text.replace("-Infinity", "null").replace("Infinity", "null").replace("NaN", "null");
    let manifest: Value = serde_json::from_str(&text).unwrap();
    manifest["entries"].as_array().unwrap().clone()
}

/// The entries of one format; none, and a message, if there is no folder.
pub fn entries(format: &str) -> Vec<Value> {
    let all = manifest();
    let some = all.iter().filter(|entry| entry["format"] == format).cloned().collect::<Vec<_>>();
    assert!(all.is_empty() || !some.is_empty(), "the manifest has no entry of format {format}");
    some
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
