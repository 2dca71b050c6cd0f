//! Words that may stand in some places only: `pyo3`, `unsafe`, and what Python calls.

use super::rust_code::code_only;
use super::{File, Finding};

/// The only crate that may name pyo3.
const PYTHON: &str = "crates/python/";
/// The crates that need `unsafe`: mapped files, vector instructions, the C interfaces of Python and of
/// plug-ins.
const MAY_BE_UNSAFE: &[&str] =
    &["crates/abi/", "crates/io/", "crates/kernels/", "crates/plugins/", "crates/simd/", PYTHON];

/// Checks that only the Python crate names pyo3.
pub(super) fn check_pyo3(file: File<'_>) -> Vec<Finding> {
    // The workspace's manifest says which version; only members can depend on it.
    let manifest_of_member = file.name() == "Cargo.toml" && file.path != "Cargo.toml";
    // Examples are built on the engine from outside.
    let outside = file.path.starts_with(PYTHON) || file.path.starts_with("examples/");
    if outside || !(file.has_extension(&["rs"]) || manifest_of_member) {
        return vec![];
    }
    let code =
        if manifest_of_member { without_toml_comments(file.text) } else { code_only(file.text) };
    let message = "only crates/python names pyo3; keep Python types out of the engine";
    lines_with(&code, "pyo3").map(|line| file.finding("pyo3", line, message)).collect()
}

/// Checks that `unsafe` stands only where it is needed.
pub(super) fn check_unsafe(file: File<'_>) -> Vec<Finding> {
    let allowed = MAY_BE_UNSAFE.iter().any(|folder| file.path.starts_with(folder));
    if allowed || !file.has_extension(&["rs"]) {
        return vec![];
    }
    let message =
        "`unsafe` is allowed in the abi, io, kernels, plugins, simd and python crates only";
    lines_with(&code_only(file.text), "unsafe")
        .map(|line| file.finding("unsafe", line, message))
        .collect()
}

/// Checks that what Python calls is behind the door that turns panics into exceptions.
pub(super) fn check_door(file: File<'_>) -> Vec<Finding> {
    // The door itself has what makes it panic.
    if !file.path.starts_with(PYTHON) || file.name() == "door.rs" || !file.has_extension(&["rs"]) {
        return vec![];
    }
    let message = "put `#[caught]` above it: what panics here has to be an exception of ours";
    let code = code_only(file.text);
    let mut above = "";
    let mut findings = vec![];
    for (index, line) in code.lines().enumerate() {
        let called = ["#[pyfunction]", "#[pymethods]"].contains(&line.trim());
        if called && above != "#[caught]" {
            findings.push(file.finding("door", index + 1, message));
        }
        above = line.trim();
    }
    findings
}

/// The numbers of the lines that hold `word` as a whole identifier.
fn lines_with<'a>(code: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    code.lines().enumerate().filter_map(move |(index, line)| {
        line.split(|c: char| !c.is_alphanumeric() && c != '_')
            .any(|found| found == word)
            .then_some(index + 1)
    })
}

fn without_toml_comments(text: &str) -> String {
    text.lines().map(|line| line.split('#').next().unwrap_or("")).collect::<Vec<_>>().join("\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    const NONE: [usize; 0] = [];

    fn pyo3_lines(path: &str, text: &str) -> Vec<usize> {
        check_pyo3(File { path, text }).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn what_python_calls_is_behind_the_door() {
        let lines = |path: &str, text: &str| -> Vec<usize> {
            check_door(File { path, text }).iter().map(|finding| finding.line).collect()
        };
        let good = "#[caught]\n#[pyfunction]\nfn a() {}\n#[caught]\n#[pymethods]\nimpl A {}\n";
        let bad = "#[pyfunction]\nfn a() {}\n// #[caught]\n    #[pymethods]\nimpl A {}\n";
        assert_eq!(lines("crates/python/src/a.rs", good), NONE);
        assert_eq!(lines("crates/python/src/a.rs", bad), [1, 4]);
        assert_eq!(lines("crates/python/src/door.rs", bad), NONE);
        assert_eq!(lines("crates/io/src/a.rs", bad), NONE);
    }

    fn unsafe_lines(path: &str, text: &str) -> Vec<usize> {
        check_unsafe(File { path, text }).iter().map(|finding| finding.line).collect()
    }

    #[test]
    fn pyo3_belongs_to_one_crate() {
        let text = "//! Docs.\nuse pyo3::prelude::*;\n";
        assert_eq!(pyo3_lines("crates/exec/src/lib.rs", text), [2]);
        assert_eq!(pyo3_lines("crates/python/src/lib.rs", text), NONE);
    }

    #[test]
    fn manifests_of_members_count_and_the_workspace_does_not() {
        let text = "[dependencies]\npyo3.workspace = true\n";
        assert_eq!(pyo3_lines("crates/exec/Cargo.toml", text), [2]);
        assert_eq!(pyo3_lines("crates/python/Cargo.toml", text), NONE);
        assert_eq!(pyo3_lines("Cargo.toml", text), NONE);
        assert_eq!(pyo3_lines("crates/exec/Cargo.toml", "# no pyo3 here\n"), NONE);
    }

    #[test]
    fn talking_about_pyo3_is_no_use_of_it() {
        assert_eq!(pyo3_lines("crates/exec/src/lib.rs", "//! Never names pyo3.\n"), NONE);
        assert_eq!(pyo3_lines("crates/exec/src/lib.rs", "const A: &str = \"pyo3\";\n"), NONE);
    }

    #[test]
    fn unsafe_code_is_found_outside_of_four_crates() {
        let text = "fn f() {\n    unsafe { g() }\n}\nunsafe fn g() {}\n";
        assert_eq!(unsafe_lines("crates/core/src/cast.rs", text), [2, 4]);
        assert_eq!(unsafe_lines("xtask/src/main.rs", text), [2, 4]);
        for path in ["crates/io/src/map.rs", "crates/kernels/src/sum.rs", "crates/python/src/a.rs"]
        {
            assert_eq!(unsafe_lines(path, text), NONE);
        }
    }

    #[test]
    fn forbidding_unsafe_code_is_no_unsafe_code() {
        let text = "#![forbid(unsafe_code)]\n// unsafe\nconst A: &str = \"unsafe\";\n";
        assert_eq!(unsafe_lines("crates/core/src/lib.rs", text), NONE);
    }
}
