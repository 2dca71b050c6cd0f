//! The modules within crates: at the top of a crate they use each other in one direction, and in
//! the folders below, in no circle.
//!
//! A module and all in its folder count as one for the modules beside it; what they use of each
//! other is their own affair. Names that a module has from another one lead to that. Tests do not
//! count.

use super::rust_code::code_only;
use super::{File, Finding, reaches};
use std::collections::{BTreeMap, BTreeSet};

const RULE: &str = "modules";

/// The crates that are looked at, and the modules at the top of each, from the bottom up.
const ORDERS: &[(&str, &[&str])] = &[(
    "crates/io/src/",
    &[
        "options",
        "format",
        "access",
        "codec",
        "readers",
        "headers",
        "calibrate",
        "formats",
        "orient",
        "pipe",
        "registry",
        "detect",
        "reopen",
        "write",
    ],
)];

/// The names of modules from the top of the crate down to one; empty for the top itself.
type Path = Vec<String>;

/// What is known of one module.
struct Module<'a> {
    file: File<'a>,
    /// Paths that its code names, and their lines.
    named: Vec<(usize, Path)>,
    /// Where names come from that it takes from elsewhere.
    taken: BTreeMap<String, Path>,
}

/// A module in a folder that uses another one there: the folder, the names of both, file, line, and
/// what is used.
type Use<'a> = (Path, String, String, &'a str, usize, Path);

/// Checks the Rust files of these crates among `files`.
pub(super) fn check(files: &[File<'_>]) -> Vec<Finding> {
    let is_code = |file: &File<'_>| file.has_extension(&["rs"]) && file.name() != "tests.rs";
    ORDERS
        .iter()
        .flat_map(|(root, order)| {
            let of_crate = |file: &&File<'_>| is_code(file) && file.path.starts_with(root);
            let files: Vec<File<'_>> = files.iter().filter(of_crate).copied().collect();
            check_crate(root, order, &files)
        })
        .collect()
}

fn check_crate(root: &str, order: &[&str], files: &[File<'_>]) -> Vec<Finding> {
    let names: BTreeSet<Path> = files.iter().map(|file| module_of(root, file.path)).collect();
    let modules: BTreeMap<Path, Module<'_>> = files
        .iter()
        .map(|file| {
            let path = module_of(root, file.path);
            let module = Module::read(*file, &path, &names);
            (path, module)
        })
        .collect();
    let mut uses: Vec<Use<'_>> = vec![];
    let mut graphs: BTreeMap<Path, BTreeMap<&str, BTreeSet<&str>>> = BTreeMap::new();
    for (from, module) in &modules {
        for (line, named) in &module.named {
            let to = resolve(&modules, named.clone());
            let shared = from.iter().zip(&to).take_while(|(a, b)| a == b).count();
            if let (Some(a), Some(b)) = (from.get(shared), to.get(shared)) {
                let folder = from[..shared].to_vec();
                uses.push((folder, a.clone(), b.clone(), module.file.path, *line, to));
            }
        }
    }
    for (folder, a, b, ..) in &uses {
        graphs.entry(folder.clone()).or_default().entry(a).or_default().insert(b);
    }
    let place = |name: &str| order.iter().position(|known| *known == name);
    let report = |(folder, a, b, path, line, to): &Use<'_>| {
        let to = to.join("::");
        let message = match (folder.is_empty(), place(a), place(b)) {
            (true, Some(a), Some(b)) if b < a => return None,
            (true, Some(_), Some(_)) => format!("uses '{to}', which stands above '{a}'"),
            (true, known, _) => {
                let name = if known.is_none() { a } else { b };
                format!("'{name}' has no place in xtask's order of modules")
            }
            _ if reaches(&graphs[folder], b, a) => {
                format!("uses '{to}', which comes back to '{a}'")
            }
            _ => return None,
        };
        Some(Finding { path: (*path).to_owned(), line: *line, rule: RULE, message })
    };
    let found: BTreeSet<Finding> = uses.iter().filter_map(report).collect();
    found.into_iter().collect()
}

/// The module that a file holds.
fn module_of(root: &str, path: &str) -> Path {
    let name = path.strip_prefix(root).and_then(|name| name.strip_suffix(".rs")).unwrap_or(path);
    if matches!(name, "lib" | "main") {
        vec![]
    } else {
        name.split('/').map(str::to_owned).collect()
    }
}

/// The module that a path leads to: names that a module has from elsewhere lead on.
fn resolve(modules: &BTreeMap<Path, Module<'_>>, mut path: Path) -> Path {
    // No chain of names is longer.
    for _ in 0..8 {
        let len = (0..=path.len()).rev().find(|&len| modules.contains_key(&path[..len]));
        let (module, rest) = path.split_at(len.unwrap_or(0));
        let taken = modules.get(module).zip(rest.first()).and_then(|(m, name)| m.taken.get(name));
        match taken {
            Some(origin) => path = [origin.as_slice(), &rest[1..]].concat(),
            None => return module.to_vec(),
        }
    }
    path
}

impl<'a> Module<'a> {
    fn read(file: File<'a>, path: &[String], modules: &BTreeSet<Path>) -> Self {
        let code = code_only(file.text);
        let code = code.split("#[cfg(test)]\nmod ").next().unwrap_or_default();
        let (mut named, mut taken) = (vec![], BTreeMap::new());
        for (at, word) in words(code) {
            let before = code[..at].trim_end();
            let is_first = !before.ends_with("::") && !before.ends_with("(in");
            let is_use = word == "use" && !before.ends_with('<');
            let starts = is_use || (is_first && matches!(word, "crate" | "super"));
            // A path within `use` was read with it.
            let statement = &code[before.rfind([';', '}']).map_or(0, |end| end + 1)..at];
            if !starts || (!is_use && words(statement).any(|(_, word)| word == "use")) {
                continue;
            }
            let line = code[..at].matches('\n').count() + 1;
            let text = &code[if is_use { at + word.len() } else { at }..];
            for (names, known_as) in tree(text) {
                let Some(full) = absolute(&names, path, modules) else { continue };
                if is_use {
                    taken.insert(known_as, full.clone());
                }
                named.push((line, full));
            }
        }
        Module { file, named, taken }
    }
}

/// From the top of the crate; `None` for what is outside of it.
fn absolute(names: &[String], within: &[String], modules: &BTreeSet<Path>) -> Option<Path> {
    let n_up = names.iter().take_while(|name| *name == "super").count();
    let (base, rest) = match names.first()?.as_str() {
        "crate" => (&[][..], &names[1..]),
        "self" => (within, &names[1..]),
        "super" => (within.get(..within.len().checked_sub(n_up)?)?, &names[n_up..]),
        first => {
            let inner: Path = within.iter().cloned().chain([first.to_owned()]).collect();
            (within, if modules.contains(&inner) { names } else { return None })
        }
    };
    Some([base, rest].concat())
}

/// The paths of a `use`, or the one path that the text begins with, each with the name that it gets.
fn tree(text: &str) -> Vec<(Path, String)> {
    let mut found = vec![];
    branch(text.trim_start(), &[], &mut found);
    found
}

/// Reads what follows `prefix`; gives what is left of the text.
fn branch<'t>(text: &'t str, prefix: &[String], found: &mut Vec<(Path, String)>) -> &'t str {
    let mut path = prefix.to_vec();
    let mut rest = text;
    loop {
        if let Some(mut inner) = rest.strip_prefix('{') {
            loop {
                inner = inner.trim_start_matches([',', ' ', '\n']);
                if let Some(after) = inner.strip_prefix('}') {
                    return after;
                }
                let left = branch(inner, &path, found);
                if left.len() == inner.len() {
                    return left;
                }
                inner = left;
            }
        }
        let len = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
        let (name, after) = rest.split_at(len);
        // `*` and generic arguments end a path.
        if !name.is_empty() && name != "self" || path.is_empty() {
            path.push(name.to_owned());
        }
        match after.strip_prefix("::") {
            Some(after) if !name.is_empty() => rest = after,
            _ => {
                let renamed = after.strip_prefix(" as ").and_then(|to| words(to).next());
                let known_as = renamed.map_or(path.last().map_or("", String::as_str), |(_, to)| to);
                found.push((path.clone(), known_as.to_owned()));
                let skipped = renamed.map_or(0, |(_, to)| " as ".len() + to.len());
                return after[skipped..].strip_prefix('*').unwrap_or(&after[skipped..]);
            }
        }
    }
}

/// Identifiers and words, each with where it begins.
fn words(code: &str) -> impl Iterator<Item = (usize, &str)> {
    code.split(|c: char| !c.is_alphanumeric() && c != '_')
        .filter(|word| !word.is_empty())
        .map(|word| (word.as_ptr() as usize - code.as_ptr() as usize, word))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found in files of a crate, given as path and text.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let root = "crates/io/src/";
        let paths: Vec<(String, &str)> =
            files.iter().map(|(path, text)| (format!("{root}{path}.rs"), *text)).collect();
        let files: Vec<File<'_>> = paths.iter().map(|(path, text)| File { path, text }).collect();
        let findings = check(&files);
        findings
            .iter()
            .map(|f| format!("{}:{} {}", &f.path[root.len()..], f.line, f.message))
            .collect()
    }

    const NONE: [&str; 0] = [];

    #[test]
    fn folders_use_those_below_them() {
        let format =
            ("formats/mib", "use crate::{\n    access::files,\n    readers::{linear as l},\n};\n");
        let files = [format, ("access/files", ""), ("readers/linear", "fn f() {}\n")];
        assert_eq!(found(&files), NONE);
        let late = ("access/files", "//! It.\nfn f() -> u8 {\n    crate::formats::mib::FIRST\n}\n");
        let above = "access/files.rs:3 uses 'formats::mib', which stands above 'access'";
        assert_eq!(found(&[format, late]), [above]);
        let from_parent = ("access/files", "use super::super::formats::mib;\n");
        assert_eq!(found(&[format, from_parent]), [above.replace(":3", ":1")]);
        let unknown = ("new", "use crate::access::files;\n");
        let message = "new.rs:1 'new' has no place in xtask's order of modules";
        assert_eq!(found(&[unknown, ("access/files", "")]), [message]);
    }

    #[test]
    fn names_lead_to_where_they_are_from() {
        let facade = ("lib", "mod access;\npub use access::Storage;\npub use formats::open;\n");
        let access = ("access", "mod storage;\npub use storage::Storage;\n");
        let formats = ("formats", "pub fn open() {}\n");
        let files = |text| [facade, access, formats, ("access/storage", ""), ("readers/a", text)];
        assert_eq!(found(&files("use crate::{Storage};\n")), NONE);
        let above = "readers/a.rs:1 uses 'formats', which stands above 'readers'";
        assert_eq!(found(&files("use crate::open;\n")), [above]);
    }

    #[test]
    fn neighbours_do_not_go_in_circles() {
        let parent = ("codec", "mod a;\nmod b;\nmod c;\nuse b::Made;\npub const SIZE: u8 = 1;\n");
        let (a, b) = (("codec/a", "use super::b;\n"), ("codec/b", "use super::c::{X, Y};\n"));
        assert_eq!(found(&[parent, a, b, ("codec/c", "use super::SIZE;\n")]), NONE);
        let circle = found(&[parent, a, b, ("codec/c", "fn f() { super::a::g() }\n")]);
        assert_eq!(circle.len(), 3);
        assert_eq!(circle[0], "codec/a.rs:1 uses 'codec::b', which comes back to 'a'");
        // By a name of the parent's, and from a folder below.
        let deep = ("codec/c/deep", "use super::super::Made;\n");
        assert_eq!(found(&[parent, a, b, ("codec/c", "mod deep;\n"), deep]).len(), 2);
    }

    #[test]
    fn tests_and_what_is_only_said_do_not_count() {
        let test = "// See crate::formats::mib.\n#[cfg(test)]\nmod tests {\n    use crate::formats::mib;\n}\n";
        let seen = "pub(in crate::access) fn f() {}\npub(super) fn g() {}\n";
        let files = [("formats/mib", ""), ("access/a", test), ("access/b", seen)];
        assert_eq!(found(&files), NONE);
    }
}
