//! The reference in the guide, which is written from the table of reductions.

use framefold_kernels::{DefaultValue, Parameter, REDUCTIONS, Reduction};
use std::path::Path;

const BEGIN: &str = "<!-- from the table of reductions: begin -->\n";
const END: &str = "<!-- from the table of reductions: end -->\n";

#[test]
fn the_reference_is_that_of_the_table() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/guide/reductions.md");
    let page = std::fs::read_to_string(&path).unwrap();
    let (before, rest) = page.split_once(BEGIN).unwrap();
    let (found, after) = rest.split_once(END).unwrap();
    let expected = format!("\n{}\n", REDUCTIONS.iter().map(section).collect::<Vec<_>>().join("\n"));
    if std::env::var_os("FRAMEFOLD_WRITE_GUIDE").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{expected}{END}{after}")).unwrap();
        return;
    }
    assert_eq!(found, expected, "write it anew: run this test with FRAMEFOLD_WRITE_GUIDE=1");
}

fn section(row: &Reduction) -> String {
    let alias = row.alias.map(|alias| format!(" (also `{alias}`)")).unwrap_or_default();
    let buffers: Vec<String> = row.buffers.iter().map(|name| format!("`{name}`")).collect();
    let heading = format!("### {}", row.name);
    let summary = format!("{}{alias}. Buffers: {}.", capital(row.summary), buffers.join(", "));
    if row.parameters.is_empty() {
        return format!("{heading}\n\n{summary}\n");
    }
    let lines: Vec<String> = row.parameters.iter().map(line).collect();
    let head = "| parameter | option | kind | unit | default | what |\n|---|---|---|---|---|---|";
    format!("{heading}\n\n{summary}\n\n{head}\n{}\n", lines.join("\n"))
}

fn line(parameter: &Parameter) -> String {
    let option = parameter.option.map_or("–".into(), |option| format!("`--{option}`"));
    let default = match parameter.default {
        DefaultValue::Is(text) => format!("`{text}`"),
        DefaultValue::Found(words) => words.to_owned(),
        DefaultValue::Nothing => "–".to_owned(),
        DefaultValue::OneOfThese => "one of these is needed".to_owned(),
    };
    let (name, kind, unit) = (parameter.name, parameter.kind.name(), parameter.unit.unwrap_or("–"));
    format!("| `{name}` | {option} | {kind} | {unit} | {default} | {} |", parameter.help)
}

fn capital(text: &str) -> String {
    let mut letters = text.chars();
    letters.next().map_or_else(String::new, |first| first.to_uppercase().chain(letters).collect())
}
