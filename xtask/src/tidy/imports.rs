//! The layers of the Python package: imports point down, and never in a circle.
//!
//! What stands below `if TYPE_CHECKING:` does not count: it names the types of those that call, such
//! as the context that a function is given, and nothing of it is imported when the package runs.

use super::{File, Finding, reaches};
use std::collections::{BTreeMap, BTreeSet};

const RULE: &str = "imports";

/// Modules from the bottom up; what is in a package is where its nearest row is. A module that has
/// its place from the reference system stands where its contents belong.
const LAYERS: &[&[&str]] = &[
    &["exceptions", "warnings", "_engine", "compat"],
    &["common", "compilation", "masks", "arrays", "results", "utils.devices"],
    &["io", "corrections"],
    &["udf", "arrays.cuda"],
    &["run"],
    &["viz"],
    &["executor", "common.executor"],
    &["analysis", "common.analysis"],
    &["context"],
    &["api"],
    &[
        "",
        "contrib",
        "utils",
        "checking",
        "detectors",
        "cli",
        "_own_commands",
        "_viewer",
        "__main__",
    ],
];

/// One import that counts: the importing module, its file, the line, and what is imported.
type Import<'a> = (String, &'a str, usize, String);

/// Checks the Python files of the package among `files`.
pub(super) fn check(files: &[File<'_>]) -> Vec<Finding> {
    let modules: BTreeMap<String, File<'_>> =
        files.iter().filter_map(|file| Some((module_of(file.path)?, *file))).collect();
    let imports: BTreeSet<Import<'_>> = modules
        .iter()
        .flat_map(|(module, file)| {
            imported(file.text).into_iter().map(|(line, base, name)| {
                let inner = format!("{base}.{name}").trim_matches('.').to_owned();
                let is_module = modules.contains_key(&inner) || layer_of(&inner).1 == inner;
                (module.clone(), file.path, line, if is_module { inner } else { base })
            })
        })
        .collect();
    let mut graph: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for (from, _, _, to) in &imports {
        graph.entry(from).or_default().insert(to);
    }
    let report = |(from, path, line, to): &Import<'_>| {
        let message = if layer_of(from).0 < layer_of(to).0 {
            format!("'{from}' imports '{to}', which stands above it")
        } else if reaches(&graph, to, from) {
            format!("'{from}' imports '{to}', which comes back to it")
        } else {
            return None;
        };
        Some(Finding { path: (*path).to_owned(), line: *line, rule: RULE, message })
    };
    let unknown = modules.iter().filter(|(module, _)| layer_of(module).0 == LAYERS.len()).map(
        |(module, file)| file.finding(RULE, 1, format!("'{module}' has no row in xtask's layers")),
    );
    unknown.chain(imports.iter().filter_map(report)).collect()
}

/// The dotted name below the package, empty for the package itself.
fn module_of(path: &str) -> Option<String> {
    let name = path.strip_prefix("python/framefold/")?.strip_suffix(".py")?;
    let name = name.strip_suffix("__init__").unwrap_or(name);
    Some(name.trim_end_matches('/').replace('/', "."))
}

/// The number of a module's layer, and the row that says so; their count if there is none.
fn layer_of(module: &str) -> (usize, &'static str) {
    let rows =
        LAYERS.iter().enumerate().flat_map(|(n, rows)| rows.iter().map(move |row| (n, *row)));
    let is_in = |row: &str| {
        module
            .strip_prefix(row)
            .is_some_and(|rest| rest.is_empty() || (!row.is_empty() && rest.starts_with('.')))
    };
    rows.filter(|(_, row)| is_in(row))
        .max_by_key(|(_, row)| row.len())
        .unwrap_or((LAYERS.len(), "?"))
}

/// Line, module and name of each import from the package that counts; the house style has no others
/// than `from framefold… import …`.
fn imported(text: &str) -> Vec<(usize, String, String)> {
    let mut found = vec![];
    let mut lines = text.lines().enumerate().map(|(number, line)| (number + 1, line)).peekable();
    let mut types_within = None;
    while let Some((number, line)) = lines.next() {
        let indent = line.len() - line.trim_start().len();
        if types_within.is_some_and(|within| indent <= within && !line.trim().is_empty()) {
            types_within = None;
        }
        if line.trim_start().starts_with("if TYPE_CHECKING:") {
            types_within = Some(indent);
        }
        let Some((base, names)) = (line.trim_start().strip_prefix("from framefold"))
            .and_then(|rest| rest.split_once(" import "))
            .filter(|(base, _)| base.is_empty() || base.starts_with('.'))
        else {
            continue;
        };
        let mut names = names.split('#').next().unwrap_or_default().to_owned();
        while names.contains('(') && !names.contains(')') {
            let Some((_, more)) = lines.next() else { break };
            names.push_str(more.split('#').next().unwrap_or_default());
        }
        if types_within.is_none() {
            for name in names.split(['(', ')', ',']).map(str::trim).filter(|n| !n.is_empty()) {
                let name = name.split(' ').next().unwrap_or(name);
                found.push((number, base.trim_start_matches('.').to_owned(), name.to_owned()));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is found in files of the package, given as path and text.
    fn found(files: &[(&str, &str)]) -> Vec<String> {
        let paths: Vec<(String, &str)> = files
            .iter()
            .map(|(path, text)| (format!("python/framefold/{path}.py"), *text))
            .collect();
        let files: Vec<File<'_>> = paths.iter().map(|(path, text)| File { path, text }).collect();
        check(&files).iter().map(|f| format!("{} {}", f.line, f.message)).collect()
    }

    #[test]
    fn imports_point_down() {
        let run =
            "from framefold import _engine\n\ndef f():\n    from framefold.udf.base import UDF\n";
        assert_eq!(found(&[("run/plan", run), ("udf/base", "import numpy\n")]), [""; 0]);
        let message = "'udf.base' imports 'run.plan', which stands above it";
        let late =
            "def f():\n    from framefold.run.plan import (\n        a,\n        b,\n    )\n";
        assert_eq!(found(&[("udf/base", late)]), [format!("2 {message}")]);
        let whole = "from framefold.run import plan\n";
        assert_eq!(found(&[("udf/base", whole), ("run/plan", "")]), [format!("1 {message}")]);
        assert_eq!(found(&[("new", "")]), ["1 'new' has no row in xtask's layers"]);
    }

    #[test]
    fn types_of_callers_do_not_count() {
        let text = "if TYPE_CHECKING:\n    from framefold.api import Context\n\nx = 1\n";
        assert_eq!(found(&[("udf/base", text)]), [""; 0]);
        let after = format!("{text}from framefold.api import Context\n");
        assert_eq!(found(&[("udf/base", &after)]).len(), 1);
    }

    #[test]
    fn modules_of_one_layer_do_not_go_in_circles() {
        let to = |name: &str| format!("from framefold.udf.{name} import x\n");
        let (b, c, a) = (to("b"), to("c"), to("a"));
        assert_eq!(found(&[("udf/a", &b), ("udf/b", &c)]), [""; 0]);
        let circle = found(&[("udf/a", &b), ("udf/b", &c), ("udf/c", &a)]);
        assert_eq!(circle.len(), 3);
        assert_eq!(circle[0], "1 'udf.a' imports 'udf.b', which comes back to it");
    }

    #[test]
    fn public_places_stand_with_what_they_hold() {
        let text = "from framefold.executor.base import JobExecutor\n";
        assert_eq!(found(&[("common/executor", text)]), [""; 0]);
        assert_eq!(found(&[("common/other", text)]).len(), 1);
    }
}
