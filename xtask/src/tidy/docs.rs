//! Every source file says what it is for, first thing.

use super::{File, Finding};

const RULE: &str = "module-docs";

/// Checks that Rust files begin with `//!` and Python modules with a docstring.
pub(super) fn check(file: File<'_>) -> Vec<Finding> {
    if file.has_extension(&["rs"]) && !begins_with_inner_doc(file.text) {
        let message = "a Rust file begins with a `//!` line that says what it is for";
        return vec![file.finding(RULE, 1, message)];
    }
    if file.has_extension(&["py"]) && !begins_with_docstring(file.text) {
        let message = "a Python module begins with a docstring that says what it is for";
        return vec![file.finding(RULE, 1, message)];
    }
    vec![]
}

fn begins_with_inner_doc(text: &str) -> bool {
    text.lines()
        .next()
        .and_then(|line| line.strip_prefix("//!"))
        .is_some_and(|doc| !doc.trim().is_empty())
}

/// Whether the first statement is a string; comments and empty lines may come before it.
fn begins_with_docstring(text: &str) -> bool {
    let first = text.lines().map(str::trim).find(|line| !line.is_empty() && !line.starts_with('#'));
    let Some(first) = first else { return false };
    let string = first.trim_start_matches(['r', 'R', 'u', 'U']);
    ["\"\"\"", "'''"].iter().any(|quotes| {
        string.strip_prefix(quotes).is_some_and(|doc| !doc.trim_end_matches(quotes).is_empty())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn is_fine(path: &str, text: &str) -> bool {
        check(File { path, text }).is_empty()
    }

    #[test]
    fn rust_files_begin_with_a_doc_line() {
        assert!(is_fine("a.rs", "//! What it is.\nfn main() {}\n"));
        assert!(!is_fine("a.rs", "\n//! Late.\n"));
        assert!(!is_fine("a.rs", "// A comment.\n"));
        assert!(!is_fine("a.rs", "//!\nfn main() {}\n"));
        assert!(!is_fine("a.rs", ""));
    }

    #[test]
    fn python_modules_begin_with_a_docstring() {
        assert!(is_fine("a.py", "\"\"\"What it is.\"\"\"\nimport os\n"));
        assert!(is_fine("a.py", "#!/usr/bin/env python3\n\nr\"\"\"What it is.\n\"\"\"\n"));
        assert!(!is_fine("a.py", "import os\n\"\"\"Late.\"\"\"\n"));
        assert!(!is_fine("a.py", "\"\"\"\"\"\"\n"));
        assert!(!is_fine("__init__.py", ""));
    }

    #[test]
    fn other_files_need_none() {
        assert!(is_fine("a.toml", "x = 1\n"));
        assert!(is_fine("_engine.pyi", "x: int\n"));
    }
}
