//! Nothing in the repository depends on the machine or the mirror it was written on.

use super::{File, Finding};

/// Top-level folders that exist on one machine; written without slashes so that this
/// file passes its own check.
const MACHINE_FOLDERS: &[&str] = &["home", "root", "work", "tmp", "Users"];
/// Hosts from which packages come, and so does nothing else.
const REGISTRIES: &[&str] = &["pypi.org", "pythonhosted.org", "crates.io", "npmjs.org"];
/// Options and keys that choose another registry.
const MIRROR_KEYS: &[&str] = &["index-url", "find-links", "replace-with"];
/// The one place from which Rust packages come.
const PUBLIC_INDEX: &str = "registry+https://github.com/rust-lang/crates.io-index";

/// Checks that no file names an absolute path of one machine.
pub(super) fn check_machine_paths(file: File<'_>) -> Vec<Finding> {
    let mut findings = vec![];
    for (index, line) in file.text.lines().enumerate() {
        for folder in MACHINE_FOLDERS {
            let path = format!("/{folder}/");
            let found = line.match_indices(&path).any(|(at, _)| begins_here(line, at));
            if found {
                let message = format!("'{path}…' exists on one machine only; use a relative path");
                findings.push(file.finding("machine-path", index + 1, message));
            }
        }
    }
    findings
}

/// Checks that packages come from the public registries by default, not from a named host.
pub(super) fn check_registries(file: File<'_>) -> Vec<Finding> {
    let is_lock = file.name() == "Cargo.lock";
    let is_settings = file.has_extension(&["toml", "txt", "cfg", "ini", "yml", "yaml"])
        || file.name() == "Makefile";
    let mut findings = vec![];
    for (index, line) in file.text.lines().enumerate() {
        let mut report = |message: String| {
            findings.push(file.finding("registry", index + 1, message));
        };
        if is_lock {
            let source = line.strip_prefix("source = ").map(|source| source.trim_matches('"'));
            if let Some(source) = source.filter(|source| *source != PUBLIC_INDEX) {
                report(format!(
                    "'{source}' is not the public index; run `cargo update` without a mirror"
                ));
            }
            continue;
        }
        for host in hosts(line).filter(|host| is_registry(host)) {
            report(format!("names the package registry '{host}'; link to the project's own page"));
        }
        if is_settings && MIRROR_KEYS.iter().any(|key| line.contains(key)) {
            report("chooses a package registry; leave that to the user's settings".to_owned());
        }
    }
    findings
}

/// Whether a path begins at `at`, and is not the middle of a longer one or of a URL.
fn begins_here(line: &str, at: usize) -> bool {
    let before = line[..at].chars().next_back();
    !before.is_some_and(|c| c.is_alphanumeric() || "/._-~})$*:".contains(c))
}

/// The hosts of all URLs in a line.
fn hosts(line: &str) -> impl Iterator<Item = &str> {
    line.match_indices("://").filter_map(|(at, scheme)| {
        let rest = &line[at + scheme.len()..];
        let end = rest.find(|c: char| !c.is_alphanumeric() && c != '.' && c != '-');
        let host = rest[..end.unwrap_or(rest.len())].trim_end_matches('.');
        (!host.is_empty()).then_some(host)
    })
}

fn is_registry(host: &str) -> bool {
    REGISTRIES.iter().any(|registry| {
        host.strip_suffix(registry).is_some_and(|sub| sub.is_empty() || sub.ends_with('.'))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn machine_path_lines(text: &str) -> Vec<usize> {
        let file = File { path: "docs/guide/raw.md", text };
        check_machine_paths(file).iter().map(|finding| finding.line).collect()
    }

    fn registry_lines(path: &str, text: &str) -> Vec<usize> {
        check_registries(File { path, text }).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn every_machine_folder_is_found() {
        for folder in MACHINE_FOLDERS {
            assert_eq!(machine_path_lines(&format!("\nopen(\"/{folder}/a.mib\")\n")), [2]);
            assert_eq!(machine_path_lines(&format!("see /{folder}/me/data")), [1]);
        }
    }

    #[test]
    fn relative_paths_and_urls_are_fine() {
        for folder in MACHINE_FOLDERS {
            assert_eq!(machine_path_lines(&format!("cd build/{folder}/x")), NONE);
            assert_eq!(machine_path_lines(&format!("https://example.org/{folder}/x")), NONE);
            assert_eq!(machine_path_lines(&format!("\"$DIR/{folder}/x\" ../{folder}/y")), NONE);
        }
        assert_eq!(machine_path_lines("#!/usr/bin/env bash"), NONE);
    }

    #[test]
    fn registry_hosts_are_found_by_host_name() {
        let url = |host: &str| format!("see https{}{host}/project/x.", "://");
        for registry in REGISTRIES {
            assert_eq!(registry_lines("README.md", &url(registry)), [1]);
            assert_eq!(registry_lines("README.md", &url(&format!("files.{registry}"))), [1]);
            assert_eq!(registry_lines("README.md", &url(&format!("not{registry}"))), NONE);
        }
        assert_eq!(
            registry_lines("README.md", "https://github.com/rust-lang/crates.io-index"),
            NONE
        );
    }

    #[test]
    fn settings_do_not_choose_a_mirror() {
        for key in MIRROR_KEYS {
            assert_eq!(registry_lines("requirements-dev.txt", &format!("numpy\n--{key} x\n")), [2]);
            assert_eq!(registry_lines("notes.md", &format!("--{key} x\n")), NONE);
        }
    }

    #[test]
    fn the_lock_file_names_the_public_index() {
        let good = format!("name = \"a\"\nsource = \"{PUBLIC_INDEX}\"\n");
        assert_eq!(registry_lines("Cargo.lock", &good), NONE);
        let bad = good.replace("github.com", "mirror.example.org");
        assert_eq!(registry_lines("Cargo.lock", &bad), [2]);
    }
}
