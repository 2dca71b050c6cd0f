//! The committed inputs: small files of each format, and what fuzzing found.

use crate::Target;
use std::io;
use std::path::Path;

/// One committed input.
#[derive(Clone, Debug)]
pub struct Seed {
    /// Its file name.
    pub name: String,
    /// Its bytes.
    pub data: Vec<u8>,
}

/// The inputs for a target, by name.
///
/// # Errors
/// Whatever the system says; that there are none.
pub fn corpus(target: Target) -> io::Result<Vec<Seed>> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("corpus");
    let folder = root.join(target.name);
    let mut seeds = vec![];
    for entry in std::fs::read_dir(&folder)? {
        let path = entry?.path();
        let name = path.file_name().map(|name| name.to_string_lossy().into_owned());
        seeds.push(Seed { name: name.unwrap_or_default(), data: std::fs::read(&path)? });
    }
    seeds.sort_by(|a, b| a.name.cmp(&b.name));
    if seeds.is_empty() {
        return Err(io::Error::other(format!("there is nothing in '{}'", folder.display())));
    }
    Ok(seeds)
}
