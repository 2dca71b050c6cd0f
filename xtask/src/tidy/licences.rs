//! Licences of all dependencies are among those that `deny.toml` allows.

use super::{File, Finding};
use anyhow::{Context, Result, ensure};
use serde_json::Value;
use std::path::Path;
use std::process::Command;

const RULE: &str = "licences";
const LIST: &str = "deny.toml";

/// Checks what the workspace at `root` depends on, on any system.
///
/// # Errors
/// If cargo cannot tell, or there is no list of licences.
pub(super) fn check(root: &Path, files: &[File<'_>]) -> Result<Vec<Finding>> {
    let list = files.iter().find(|file| file.path == LIST).context("there is no deny.toml")?;
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let output = Command::new(cargo)
        .args(["metadata", "--locked", "--format-version", "1"])
        .current_dir(root)
        .output()
        .context("could not run cargo metadata")?;
    let said = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "cargo metadata: {}", said.trim());
    let metadata = serde_json::from_slice(&output.stdout).context("cargo metadata is not JSON")?;
    check_metadata(&metadata, *list)
}

fn check_metadata(metadata: &Value, list: File<'_>) -> Result<Vec<Finding>> {
    let (line, allowed) = allowed_in(list.text)?;
    let packages = metadata["packages"].as_array().context("cargo metadata lists no packages")?;
    let mut findings = vec![];
    for package in packages {
        let name = package["name"].as_str().unwrap_or("?");
        let message = match package["license"].as_str() {
            Some(licence) if is_allowed(licence, &allowed) => continue,
            Some(licence) => format!("'{name}' has the licence '{licence}', which is not in here"),
            None => format!("'{name}' does not say its licence"),
        };
        findings.push(list.finding(RULE, line, message));
    }
    Ok(findings)
}

/// The line of the list of licences, and what is in it.
fn allowed_in(text: &str) -> Result<(usize, Vec<String>)> {
    let begin = text.lines().position(|line| line.trim() == "allow = [");
    let begin = begin.context("deny.toml has no line 'allow = ['")?;
    let entries = text.lines().skip(begin + 1).take_while(|line| line.trim() != "]");
    let allowed: Vec<String> =
        entries.filter_map(|line| Some(line.split('"').nth(1)?.to_owned())).collect();
    ensure!(!allowed.is_empty(), "deny.toml allows no licence");
    Ok((begin + 1, allowed))
}

/// Whether one may choose licences that are allowed; what cannot be read is not.
fn is_allowed(expression: &str, allowed: &[String]) -> bool {
    // Old manifests write a slash for "or".
    let spaced = expression.replace('/', " OR ").replace('(', " ( ").replace(')', " ) ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut words = words.as_slice();
    any_of(&mut words, allowed) == Some(true) && words.is_empty()
}

fn any_of(words: &mut &[&str], allowed: &[String]) -> Option<bool> {
    let mut found = all_of(words, allowed)?;
    while let Some((&"OR", rest)) = words.split_first() {
        *words = rest;
        found |= all_of(words, allowed)?;
    }
    Some(found)
}

fn all_of(words: &mut &[&str], allowed: &[String]) -> Option<bool> {
    let mut found = one(words, allowed)?;
    while let Some((&"AND", rest)) = words.split_first() {
        *words = rest;
        found &= one(words, allowed)?;
    }
    Some(found)
}

fn one(words: &mut &[&str], allowed: &[String]) -> Option<bool> {
    let (first, rest) = words.split_first()?;
    *words = rest;
    if *first == "(" {
        let found = any_of(words, allowed)?;
        let (end, rest) = words.split_first()?;
        *words = rest;
        return (*end == ")").then_some(found);
    }
    let mut licence = (*first).to_owned();
    if let [with @ "WITH", exception, rest @ ..] = *words {
        licence = format!("{licence} {with} {exception}");
        *words = rest;
    }
    Some(allowed.contains(&licence))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn one_may_choose_among_licences() {
        let allowed: Vec<String> = ["MIT", "Zlib", "X WITH y"].map(str::to_owned).to_vec();
        for (expression, expected) in [
            ("MIT", true),
            ("GPL-3.0", false),
            ("GPL-3.0 OR MIT", true),
            ("GPL-3.0/MIT", true),
            ("GPL-3.0 AND MIT", false),
            ("Zlib AND MIT", true),
            ("(GPL-3.0 OR MIT) AND Zlib", true),
            ("GPL-3.0 OR MIT AND GPL-2.0", false),
            ("X WITH y", true),
            ("MIT WITH y", false),
            ("X", false),
            ("", false),
            ("(MIT", false),
            ("MIT Zlib", false),
            ("MIT OR", false),
        ] {
            assert_eq!(is_allowed(expression, &allowed), expected, "{expression}");
        }
    }

    #[test]
    fn dependencies_are_held_against_the_list() {
        let text = "[licenses]\nallow = [\n    \"MIT\",\n]\n";
        let list = File { path: LIST, text };
        let metadata = json!({"packages": [
            {"name": "good", "license": "MIT OR Apache-2.0"},
            {"name": "bad", "license": "GPL-3.0-only"},
            {"name": "silent", "license": null},
        ]});
        let found = check_metadata(&metadata, list).unwrap();
        let messages: Vec<String> = found.iter().map(ToString::to_string).collect();
        assert_eq!(
            messages,
            [
                "deny.toml:2: [licences] 'bad' has the licence 'GPL-3.0-only', which is not in here",
                "deny.toml:2: [licences] 'silent' does not say its licence",
            ]
        );
        assert!(allowed_in("[licenses]\n").is_err());
    }
}
