//! The functions and classes of `pieces.py`, by name.

use std::collections::BTreeSet;

const SOURCE: &str = include_str!("pieces.py");

/// The pieces of these names and all that they use, in the order of the file.
pub(super) fn pieces(names: &BTreeSet<&'static str>) -> Vec<&'static str> {
    let all = all();
    let mut wanted: BTreeSet<&str> = names.iter().copied().collect();
    // What a piece uses stands above it.
    for (name, code) in all.iter().rev() {
        if wanted.contains(name) {
            let used = all.iter().filter(|(other, _)| other != name && calls(code, other));
            wanted.extend(used.map(|(other, _)| *other));
        }
    }
    all.into_iter().filter(|(name, _)| wanted.contains(name)).map(|(_, code)| code).collect()
}

fn all() -> Vec<(&'static str, &'static str)> {
    let named = |code: &'static str| {
        let rest = code.strip_prefix("def ").or_else(|| code.strip_prefix("class "))?;
        Some((rest.split(['(', ':']).next()?, code.trim_end()))
    };
    SOURCE.split("\n\n\n").filter_map(named).collect()
}

/// Whether `code` has a call of `name`.
fn calls(code: &str, name: &str) -> bool {
    let call = format!("{name}(");
    code.match_indices(&call).any(|(at, _)| {
        let before = code.get(..at).and_then(|text| text.chars().next_back());
        !before.is_some_and(|c| c.is_alphanumeric() || c == '_' || c == '.')
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_bring_what_they_use() {
        let found = pieces(&BTreeSet::from(["wedge", "cepstrum"]));
        let first = |code: &&str| code.split('(').next().unwrap_or_default().to_owned();
        let names: Vec<String> = found.iter().map(first).collect();
        let expected = ["disk", "ring", "wedge", "known", "fourier", "cepstrum"];
        assert_eq!(names, expected.map(|name| format!("def {name}")));
        assert!(pieces(&BTreeSet::new()).is_empty());
        assert!(all().len() > 15);
    }
}
