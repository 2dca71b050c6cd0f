//! The dependency law: simd ← core ← {io, kernels, exec, plugins, stages} ← framefold ← view ← {cli, python}; abi ← plugins.

use super::Finding;
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const RULE: &str = "layers";
/// Any crate may use it in its tests, and none otherwise.
const TESTKIT: &str = "framefold-testkit";

/// Which crates of the workspace each crate may depend on, from the bottom up.
///
/// The tests of a crate may use more: any crate that is not built on the tested one.
const LAW: &[(&str, &[&str])] = &[
    ("framefold-abi", &[]),
    ("framefold-simd", &[]),
    ("framefold-core", &["framefold-simd"]),
    ("framefold-io", &["framefold-core", "framefold-simd"]),
    ("framefold-kernels", &["framefold-core", "framefold-simd"]),
    ("framefold-exec", &["framefold-core"]),
    ("framefold-plugins", &["framefold-core", "framefold-abi"]),
    ("framefold-stages", &["framefold-core", "framefold-simd"]),
    ("framefold-testkit", &["framefold-core"]),
    (
        "framefold",
        &[
            "framefold-core",
            "framefold-io",
            "framefold-kernels",
            "framefold-exec",
            "framefold-plugins",
            "framefold-stages",
        ],
    ),
    ("framefold-view", &["framefold", "framefold-simd"]),
    ("framefold-cli", &["framefold", "framefold-view"]),
    ("framefold-python-macros", &[]),
    (
        "framefold-python",
        &[
            "framefold",
            "framefold-abi",
            "framefold-cli",
            "framefold-python-macros",
            "framefold-view",
        ],
    ),
    // Nothing is built on it, and it is all tests.
    ("framefold-fuzz", &["framefold", "framefold-testkit"]),
    // Nothing is built on it, and it measures whatever it likes.
    ("framefold-bench", &[]),
    ("xtask", &[]),
];

/// Checks the manifests of the workspace at `root`.
///
/// # Errors
/// If cargo cannot read them.
pub(super) fn check(root: &Path) -> Result<Vec<Finding>> {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--no-deps", "--format-version", "1"])
        .current_dir(root)
        .output()
        .context("could not run cargo metadata")?;
    ensure!(
        output.status.success(),
        "cargo metadata: {}",
        String::from_utf8_lossy(&output.stderr).trim()
    );
    let metadata = serde_json::from_slice(&output.stdout).context("cargo metadata is not JSON")?;
    check_metadata(&metadata, |manifest| {
        std::fs::read_to_string(manifest).with_context(|| format!("could not read '{manifest}'"))
    })
}

/// Checks the output of `cargo metadata`; `read` gives the text of a manifest.
fn check_metadata(metadata: &Value, read: impl Fn(&str) -> Result<String>) -> Result<Vec<Finding>> {
    let root = text_of(metadata, "workspace_root")?;
    let mut findings = vec![];
    for package in list_of(metadata, "packages")? {
        let name = text_of(package, "name")?;
        let manifest = text_of(package, "manifest_path")?;
        let manifest_text = read(manifest)?;
        let mut report = |word: &str, message: String| {
            findings.push(Finding {
                path: relative(manifest, root),
                line: line_of(&manifest_text, word),
                rule: RULE,
                message,
            });
        };
        let Some((_, allowed)) = LAW.iter().find(|(crate_name, _)| *crate_name == name) else {
            report(name, format!("'{name}' has no row in the dependency law of xtask"));
            continue;
        };
        for dependency in list_of(package, "dependencies")? {
            // Dependencies on crates of other workspaces have no path.
            if dependency["path"].is_null() {
                continue;
            }
            let on = text_of(dependency, "name")?;
            let is_for_tests = dependency["kind"] == "dev";
            if allowed.contains(&on) || (is_for_tests && !is_built_on(on, name)) {
                continue;
            }
            let message = if is_for_tests {
                format!("'{on}' is built on '{name}', whose tests therefore cannot use it")
            } else if on == TESTKIT {
                format!("'{name}' may use '{on}' in [dev-dependencies] only")
            } else {
                format!("'{name}' must not depend on '{on}'; it may use {allowed:?}")
            };
            report(on, message);
        }
    }
    Ok(findings)
}

/// Whether `upper` is `lower`, or reaches it by the law. A crate without a row reaches all.
fn is_built_on(upper: &str, lower: &str) -> bool {
    upper == lower
        || match LAW.iter().find(|(name, _)| *name == upper) {
            Some((_, allowed)) => allowed.iter().any(|on| is_built_on(on, lower)),
            None => true,
        }
}

fn relative(path: &str, root: &str) -> String {
    let path = path.strip_prefix(root).unwrap_or(path);
    path.replace('\\', "/").trim_start_matches('/').to_owned()
}

/// The line of the manifest that names the dependency (or the crate itself).
fn line_of(manifest: &str, name: &str) -> usize {
    let names = |line: &str| {
        line.split(|c: char| !c.is_alphanumeric() && c != '-' && c != '_').any(|word| word == name)
    };
    let as_key = manifest.lines().position(|line| {
        line.trim_start().split(['.', '=', ' ']).next().is_some_and(|key| key == name)
    });
    as_key.or_else(|| manifest.lines().position(names)).map_or(1, |index| index + 1)
}

fn text_of<'a>(value: &'a Value, key: &str) -> Result<&'a str> {
    value[key].as_str().with_context(|| format!("cargo metadata has no text '{key}'"))
}

fn list_of<'a>(value: &'a Value, key: &str) -> Result<&'a Vec<Value>> {
    value[key].as_array().with_context(|| format!("cargo metadata has no list '{key}'"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    /// Findings for one crate with one dependency.
    fn found(name: &str, on: &str, kind: Value) -> Vec<Finding> {
        let metadata = json!({
            "workspace_root": "/r",
            "packages": [{
                "name": name,
                "manifest_path": "/r/crates/x/Cargo.toml",
                "dependencies": [
                    { "name": on, "kind": kind, "path": "/r/crates/y" },
                    { "name": "serde", "kind": null },
                ],
            }],
        });
        let manifest =
            format!("[package]\nname = \"{name}\"\n\n[dependencies]\n{on}.workspace = true\n");
        check_metadata(&metadata, |_| Ok(manifest.clone())).unwrap()
    }

    #[test]
    fn the_law_allows_what_it_lists() {
        for (name, allowed) in LAW {
            for on in *allowed {
                assert_eq!(found(name, on, Value::Null), []);
            }
        }
    }

    #[test]
    fn everything_else_is_found_at_its_line() {
        let cases = [
            ("framefold-core", "framefold-io"),
            ("framefold-io", "framefold-exec"),
            ("framefold-kernels", "framefold-io"),
            ("framefold-exec", "framefold-kernels"),
            ("framefold", "framefold-cli"),
            ("framefold-cli", "framefold-python"),
            ("framefold-cli", "framefold-core"),
            ("xtask", "framefold"),
        ];
        for (name, on) in cases {
            for kind in [Value::Null, json!("build")] {
                let findings = found(name, on, kind);
                assert_eq!(findings.len(), 1, "{name} on {on}");
                assert_eq!(
                    (findings[0].path.as_str(), findings[0].line),
                    ("crates/x/Cargo.toml", 5)
                );
                assert!(findings[0].message.contains(on));
            }
        }
    }

    #[test]
    fn tests_may_use_what_is_beside_but_not_above() {
        assert_eq!(found("framefold-exec", "framefold-kernels", json!("dev")), []);
        for (name, on) in [
            ("framefold-core", "framefold-io"),
            ("framefold-core", TESTKIT),
            ("framefold-exec", "framefold-cli"),
            ("framefold-io", "framefold-io"),
        ] {
            assert_eq!(found(name, on, json!("dev")).len(), 1, "{name} on {on}");
        }
    }

    #[test]
    fn the_test_kit_is_for_tests() {
        assert_eq!(found("framefold-io", TESTKIT, json!("dev")), []);
        assert_eq!(found("framefold-io", TESTKIT, Value::Null).len(), 1);
    }

    #[test]
    fn a_new_crate_needs_a_row() {
        let findings = found("framefold-gpu", "framefold-core", Value::Null);
        assert_eq!(findings.len(), 1);
        assert!(findings[0].message.contains("no row"));
    }

    /// The law as a picture: no crate reaches itself through the others.
    #[test]
    fn the_law_has_no_cycle() {
        for (index, (name, allowed)) in LAW.iter().enumerate() {
            for on in *allowed {
                let position = LAW.iter().position(|(other, _)| other == on);
                assert!(position.is_some_and(|position| position < index), "{name} on {on}");
            }
        }
    }
}
