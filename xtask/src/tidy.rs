//! Checks of the house rules that compilers and linters do not know.
//!
//! A rule is a plain function from a file's path and text to findings; [`RULES`] lists them
//! all. The dependency laws need the whole workspace and stand apart in [`layers`], [`modules`] and
//! [`imports`].

mod docs;
mod imports;
mod layers;
mod layout;
mod length;
mod licences;
mod modules;
mod places;
mod rust_code;
mod words;

use anyhow::{Context, Result, ensure};
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::path::Path;
use std::process::Command;

/// One broken rule, at one place.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    /// Relative to the root of the repository, with forward slashes.
    pub(crate) path: String,
    /// Counted from 1.
    pub(crate) line: usize,
    /// The rule's short name.
    pub(crate) rule: &'static str,
    /// What was found and what to do.
    pub(crate) message: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: [{}] {}", self.path, self.line, self.rule, self.message)
    }
}

/// A text file of the repository.
#[derive(Clone, Copy, Debug)]
pub(crate) struct File<'a> {
    /// Relative to the root of the repository, with forward slashes.
    pub(crate) path: &'a str,
    /// All of it.
    pub(crate) text: &'a str,
}

impl File<'_> {
    /// Whether the file name ends in one of these extensions.
    fn has_extension(&self, extensions: &[&str]) -> bool {
        Path::new(self.path)
            .extension()
            .and_then(|found| found.to_str())
            .is_some_and(|found| extensions.contains(&found))
    }

    /// The last part of the path.
    fn name(&self) -> &str {
        self.path.rsplit('/').next().unwrap_or(self.path)
    }

    fn finding(&self, rule: &'static str, line: usize, message: impl Into<String>) -> Finding {
        Finding { path: self.path.to_owned(), line, rule, message: message.into() }
    }
}

/// A rule that looks at one file at a time.
type Rule = fn(File<'_>) -> Vec<Finding>;

/// Every rule that looks at one file at a time.
const RULES: &[Rule] = &[
    length::check,
    docs::check,
    layout::check,
    words::check_pyo3,
    words::check_unsafe,
    words::check_door,
    places::check_machine_paths,
    places::check_registries,
];

/// Checks the repository at `root`.
///
/// # Errors
/// If git or cargo cannot be run there, or a file cannot be read.
pub(crate) fn check(root: &Path) -> Result<Vec<Finding>> {
    let mut findings = layers::check(root)?;
    let mut texts = vec![];
    for path in files(root)? {
        let bytes = match std::fs::read(root.join(&path)) {
            Ok(bytes) => bytes,
            // Deleted, but still in the index.
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
            Err(error) => return Err(error).with_context(|| format!("could not read '{path}'")),
        };
        // What is not UTF-8 is data; no rule is about data.
        if let Ok(text) = String::from_utf8(bytes) {
            texts.push((path, text));
        }
    }
    let all: Vec<File<'_>> = texts.iter().map(|(path, text)| File { path, text }).collect();
    findings.extend(all.iter().flat_map(|file| RULES.iter().flat_map(|rule| rule(*file))));
    findings.extend(imports::check(&all));
    findings.extend(modules::check(&all));
    findings.extend(licences::check(root, &all)?);
    findings.sort();
    Ok(findings)
}

/// The files of the repository: tracked ones, and new ones that git does not ignore.
fn files(root: &Path) -> Result<Vec<String>> {
    let output = Command::new("git")
        .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
        .current_dir(root)
        .output()
        .context("could not run git")?;
    ensure!(output.status.success(), "git: {}", String::from_utf8_lossy(&output.stderr).trim());
    let list = String::from_utf8(output.stdout).context("a file name is not UTF-8")?;
    let mut files: Vec<String> =
        list.split('\0').filter(|path| !path.is_empty()).map(str::to_owned).collect();
    files.sort();
    files.dedup();
    ensure!(!files.is_empty(), "git lists no files in '{}'", root.display());
    Ok(files)
}

/// Whether a graph of modules leads from one to another, or they are the same.
fn reaches(graph: &BTreeMap<&str, BTreeSet<&str>>, from: &str, to: &str) -> bool {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from]);
    while let Some(module) = next.pop() {
        if module == to {
            return true;
        }
        if seen.insert(module) {
            next.extend(graph.get(module).into_iter().flatten());
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn findings_read_like_compiler_messages() {
        let file = File { path: "crates/io/src/mod.rs", text: "" };
        assert_eq!(
            file.finding("mod-rs", 1, "say why").to_string(),
            "crates/io/src/mod.rs:1: [mod-rs] say why"
        );
    }

    #[test]
    fn extensions_are_compared_whole() {
        let file = File { path: "a/b.pyi", text: "" };
        assert!(file.has_extension(&["py", "pyi"]));
        assert!(!file.has_extension(&["py"]));
        assert_eq!(file.name(), "b.pyi");
    }
}
