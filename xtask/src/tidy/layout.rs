//! A module `foo` is `foo.rs` and a folder `foo/`, so that no two tabs are called `mod.rs`.

use super::{File, Finding};

/// Checks that there is no `mod.rs`.
pub(super) fn check(file: File<'_>) -> Vec<Finding> {
    if file.name() != "mod.rs" {
        return vec![];
    }
    let folder = file.path.strip_suffix("/mod.rs").unwrap_or("the folder");
    vec![file.finding("mod-rs", 1, format!("move this file to '{folder}.rs'"))]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mod_rs_is_found_in_sources_and_in_tests() {
        for path in ["crates/io/src/mib/mod.rs", "crates/io/tests/common/mod.rs"] {
            let found = check(File { path, text: "" });
            assert_eq!(found.len(), 1, "{path}");
            assert!(found[0].message.contains(path.strip_suffix("/mod.rs").unwrap()));
        }
        assert_eq!(check(File { path: "src/my_mod.rs", text: "" }), []);
    }
}
