//! All tests of stages. They are not within the crate, which would be compiled once more for them: what it
//! keeps to itself is compiled here, as far as it knows nothing of stages.
#![cfg(test)]

mod arriving;
mod bins;
mod bounds;
mod contract;
mod logs;
mod medians;
mod networks;
mod windows;

#[path = "../../src/stages/middle.rs"]
mod middle;
#[expect(dead_code, reason = "stages use all of it")]
#[path = "../../src/stages/ordered.rs"]
mod ordered;
#[expect(dead_code, reason = "stages use all of it")]
#[path = "../../src/stages/window.rs"]
mod window;

/// Where `Cargo.toml` says that there are none, none would be run.
#[test]
fn the_crate_itself_has_no_tests() {
    let mut folders = vec![std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("src")];
    let mut n_files = 0;
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                let text = std::fs::read_to_string(&path).unwrap();
                assert!(!text.contains("#[test]"), "{}: move tests to here", path.display());
                n_files += 1;
            }
        }
    }
    assert!(n_files > 10);
}
