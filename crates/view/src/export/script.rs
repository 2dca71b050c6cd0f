//! A script, and a notebook, that make the same arrays and pictures as the viewer.

use super::drawing::{Tables, draw};
use super::opened::Opened;
use super::pieces::pieces;
use super::python::{Literal, commented, quoted};
use super::shots::{Arrays, Shot, lens};
use super::state::State;
use super::weights::check_values;
use super::{FileMade, stem};
use crate::{Description, Query};
use framefold::{Error, Result};
use serde_json::{Value, json};
use std::collections::BTreeSet;

/// A script has no more pictures.
const MOST_QUERIES: usize = 64;

/// What a script is to make again.
pub struct Script<'a> {
    /// How the data set was opened.
    pub opened: &'a Opened,
    /// The data set.
    pub description: &'a Description,
    /// The pictures.
    pub queries: &'a [Query],
    /// How they were shown; null if that is not known.
    pub state: &'a Value,
    /// The tables of colour maps that matplotlib may not have.
    pub tables: Tables<'a>,
    /// The weights that clients sent.
    pub arrays: Arrays<'a>,
}

/// In which form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ScriptForm {
    /// A file for `python`.
    Script,
    /// A notebook for Jupyter, nbformat 4.5.
    Notebook,
}

/// A part of a notebook, or some lines of a script.
enum Cell {
    Words(String),
    /// At the top level.
    Definitions(String),
    /// Within `main`.
    Statements(String),
    /// The same, and leaves a figure, which notebooks show.
    Drawing(String),
}

impl Script<'_> {
    /// The file that a client downloads.
    ///
    /// # Errors
    /// `InvalidArgument` if queries or state do not fit; `Limit` if an array of weights is too large.
    pub fn file(&self, form: ScriptForm) -> Result<FileMade> {
        let cells = self.cells()?;
        let (text, ending, media_type) = match form {
            ScriptForm::Script => (as_script(&cells), "py", "text/x-python"),
            ScriptForm::Notebook => (as_notebook(&cells), "ipynb", "application/x-ipynb+json"),
        };
        Ok(FileMade {
            name: format!("{}-view.{ending}", stem(&self.description.name)),
            media_type,
            bytes: text.into_bytes(),
        })
    }

    fn cells(&self) -> Result<Vec<Cell>> {
        let n = self.queries.len();
        if n > MOST_QUERIES {
            return Err(Error::limit(format!(
                "a script for {n} pictures was asked for, and there can be {MOST_QUERIES} at most"
            )));
        }
        let state = State::of(self.state)?;
        let n_values = std::cell::Cell::new(0);
        let arrays = |id: u64| {
            let (shape, values) = (self.arrays)(id)?;
            n_values.set(n_values.get() + values.len());
            Some((shape, values))
        };
        let mut shots: Vec<(Shot, Vec<String>)> = Vec::new();
        for query in self.queries {
            let (pane, display) = match query {
                Query::Scan(_) => ("scan", &state.scan.display),
                Query::Pattern(_) => ("pattern", &state.pattern.display),
            };
            let n = shots.iter().filter(|(shot, _)| shot.name.starts_with(pane)).count();
            let name = if n == 0 { pane.to_owned() } else { format!("{pane}_{}", n + 1) };
            let mut shot =
                Shot::of(&name, query, self.description, &arrays, self.opened.corrects_runs())?;
            check_values(n_values.get())?;
            let file = format!("{}-{name}", stem(&self.description.name));
            shot.body.push(format!("np.save({}, {name})", quoted(&format!("{file}.npy"))));
            let drawn = draw(&mut shot, display, self.tables, &format!("{file}.png"));
            shots.push((shot, drawn));
        }
        let names: BTreeSet<&'static str> =
            shots.iter().flat_map(|(shot, _)| shot.pieces.iter().copied()).collect();
        let pieces = pieces(&names);
        let mut cells = vec![Cell::Words(self.heading())];
        cells.push(Cell::Definitions(self.imports(&shots, &pieces)));
        cells.push(Cell::Definitions(self.constants()));
        cells.extend(pieces.into_iter().map(|code| Cell::Definitions(code.to_owned())));
        cells.push(Cell::Statements(self.opening()));
        for (shot, drawn) in &shots {
            cells.push(Cell::Words(shot.title.clone()));
            let definitions = shot.definitions.iter();
            cells.extend(definitions.map(|code| Cell::Definitions(code.clone())));
            cells.push(Cell::Statements(shot.body.join("\n")));
            if !drawn.is_empty() {
                cells.push(Cell::Drawing(drawn.join("\n")));
            }
        }
        Ok(cells)
    }

    fn heading(&self) -> String {
        let mut text = format!(
            "Pictures of {}, as the viewer of framefold showed them.\n\
             Writes each array as .npy and each picture as .png where it is run.\n",
            quoted(&self.description.name)
        );
        text.push_str(&match self.opened.only_here() {
            None => "Runs with framefold, and unmodified with LiberTEM.".to_owned(),
            Some(reason) => format!("Runs with framefold. LiberTEM cannot run it: {reason}."),
        });
        text
    }

    fn constants(&self) -> String {
        let about = self.description;
        let (scan, frame) = (lens(&about.nav), lens(&about.sig));
        let mut text = format!(
            "# The shapes of the scan and of a frame.\nSCAN = {}\nFRAME = {}",
            Literal::shape(&scan).code(),
            Literal::shape(&frame).code()
        );
        if self.opened.is_in_memory() {
            text.push_str(
                "\n# The array that was shown, of the shape (*SCAN, *FRAME).\nDATA = None",
            );
        }
        text
    }

    /// Opens the data set, and looks whether it is the one that was shown.
    fn opening(&self) -> String {
        let mut lines = Vec::new();
        if let Some(reason) = self.opened.only_here() {
            let words = format!("LiberTEM cannot run this: {reason}; install framefold");
            lines.push("if not lt.__name__.startswith(\"framefold\"):".to_owned());
            lines.push(format!("    raise SystemExit({})", quoted(&words)));
        }
        lines.push("ctx = lt.Context()".to_owned());
        lines.extend(self.opened.code(&lens(&self.description.nav)));
        lines.push("found = tuple(ds.shape.nav), tuple(ds.shape.sig)".to_owned());
        lines.push("if found != (SCAN, FRAME):".to_owned());
        lines.push(
            "    raise SystemExit(f\"the data have the shape {found}, expected {SCAN, FRAME}\")"
                .to_owned(),
        );
        lines.join("\n")
    }

    /// The modules that all of it needs.
    fn imports(&self, shots: &[(Shot, Vec<String>)], pieces: &[&str]) -> String {
        let mut lines = Vec::new();
        for (module, code) in [("base64", "base64."), ("math", "math.")] {
            if pieces.iter().any(|piece| piece.contains(code)) {
                lines.push(format!("import {module}"));
            }
        }
        if !lines.is_empty() {
            lines.push(String::new());
        }
        if shots.iter().any(|(_, drawn)| !drawn.is_empty()) {
            lines.push("import matplotlib.pyplot as plt".to_owned());
        }
        lines.push("import numpy as np".to_owned());
        if shots.iter().any(|(_, drawn)| drawn.iter().any(|line| line.contains("colors."))) {
            lines.push("from matplotlib import colors".to_owned());
        }
        let mut names: BTreeSet<_> =
            shots.iter().flat_map(|(shot, _)| &shot.imports).copied().collect();
        if self.opened.has_corrections() {
            names.insert(("io.corrections", "CorrectionSet"));
        }
        lines.push(String::new());
        for (package, indent) in [("framefold", "try:"), ("libertem", "except ImportError:")] {
            lines.push(indent.to_owned());
            lines.push(format!("    import {package}.api as lt"));
            for (module, name) in &names {
                lines.push(format!("    from {package}.{module} import {name}"));
            }
        }
        lines.join("\n")
    }
}

fn as_script(cells: &[Cell]) -> String {
    let mut top = Vec::new();
    let mut statements = Vec::new();
    for (i, cell) in cells.iter().enumerate() {
        match cell {
            Cell::Words(words) if i == 0 => top.push(comment(words)),
            Cell::Words(words) => statements.push(comment(words)),
            Cell::Definitions(code) => top.push(code.clone()),
            Cell::Statements(code) => statements.push(code.clone()),
            Cell::Drawing(code) => statements.push(format!("{code}\nplt.close(fig)")),
        }
    }
    let body = statements.join("\n");
    let indented: Vec<String> = body.lines().map(|line| format!("    {line}")).collect();
    top.push(format!("def main():\n{}", indented.join("\n")));
    // Workers that are processes import this file.
    top.push("if __name__ == \"__main__\":\n    main()\n".to_owned());
    top.join("\n\n\n")
}

fn comment(words: &str) -> String {
    let lines = words.split('\n').map(|line| format!("# {}", commented(line)));
    lines.collect::<Vec<_>>().join("\n")
}

fn as_notebook(cells: &[Cell]) -> String {
    let mut found: Vec<Value> = Vec::new();
    let mut definitions: Vec<&str> = Vec::new();
    for cell in cells {
        if !matches!(cell, Cell::Definitions(_)) && !definitions.is_empty() {
            found.push(code_cell(found.len(), &definitions.join("\n\n\n")));
            definitions.clear();
        }
        match cell {
            Cell::Definitions(code) => definitions.push(code),
            Cell::Statements(code) | Cell::Drawing(code) => {
                found.push(code_cell(found.len(), code));
            }
            Cell::Words(words) => found.push(json!({
                "cell_type": "markdown",
                "id": format!("part-{}", found.len()),
                "metadata": {},
                "source": source(&markdown(words)),
            })),
        }
    }
    let notebook = json!({
        "cells": found,
        "metadata": {
            "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
            "language_info": {"name": "python"},
        },
        "nbformat": 4,
        "nbformat_minor": 5,
    });
    format!("{notebook:#}\n")
}

fn code_cell(i: usize, code: &str) -> Value {
    json!({
        "cell_type": "code",
        "execution_count": null,
        "id": format!("part-{i}"),
        "metadata": {},
        "outputs": [],
        "source": source(code),
    })
}

/// The lines of a cell.
fn source(text: &str) -> Vec<&str> {
    text.split_inclusive('\n').collect()
}

/// Words of a file's name stay words.
fn markdown(words: &str) -> String {
    let mut text = String::with_capacity(words.len());
    for c in words.chars() {
        match c {
            '<' => text.push_str("&lt;"),
            '&' => text.push_str("&amp;"),
            '\\' | '`' | '*' | '_' | '[' | ']' | '#' | '!' | '$' | '|' | '~' => {
                text.extend(['\\', c]);
            }
            c => text.push(c),
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        AxisDescription, PatternChannel, PatternQuery, ScanChannel, ScanQuery, Shape, Sign, Signed,
    };
    use framefold::OpenOptions;
    use std::path::Path;

    fn axis(name: &str, size: usize, unit: &str) -> AxisDescription {
        AxisDescription { name: name.into(), size, scale: 0.5, offset: -1.0, unit: unit.into() }
    }

    fn description(name: &str) -> Description {
        Description {
            name: name.into(),
            format: "mib".into(),
            dtype: "uint16".into(),
            nav: vec![axis("scan_y", 4, "nm"), axis("scan_x", 5, "nm")],
            sig: vec![axis("y", 8, "mrad"), axis("x", 9, "mrad")],
            warnings: vec![],
            excluded: vec![],
            n_missing: 0,
            suggested_shapes: vec![],
            own: vec![],
        }
    }

    fn made(name: &str, queries: &[Query], state: &Value, form: ScriptForm) -> FileMade {
        let opened = Opened::file("mib", &Path::new("/data").join(name), &OpenOptions::default());
        Script {
            opened: &opened,
            description: &description(name),
            queries,
            state,
            tables: &|name| (name == "direction").then(|| vec![7; 768]),
            arrays: &|_| None,
        }
        .file(form)
        .unwrap()
    }

    fn text(file: &FileMade) -> &str {
        std::str::from_utf8(&file.bytes).unwrap()
    }

    fn disk() -> Vec<Signed> {
        let shape = Shape::Disk { cy: 3.5, cx: 4.0, r: 2.0 };
        vec![Signed { shape, sign: Sign::Plus }]
    }

    #[test]
    fn a_script_holds_what_its_pictures_need_and_no_more() {
        let queries = [
            Query::Scan(ScanQuery { detector: disk(), ..ScanQuery::default() }),
            Query::Pattern(PatternQuery { region: disk(), ..PatternQuery::default() }),
        ];
        let state = json!({"version": 1, "scan": {"query": {}, "display": {
            "colormap": "magma", "scale": "power", "gamma": 0.25, "low": 1, "high": 7.5, "zoom": 2}}});
        let file = made("scan.mib", &queries, &state, ScriptForm::Script);
        assert_eq!((file.name.as_str(), file.media_type), ("scan-view.py", "text/x-python"));
        let text = text(&file);
        for part in [
            "ds = ctx.load(\"mib\", path=\"/data/scan.mib\", nav_shape=(4, 5))",
            "    weights += disk(y, x, cy=3.5, cx=4.0, r=2.0)\n",
            "np.save(\"scan-scan.npy\", scan)",
            "plt.get_cmap(\"magma\")",
            "colors.PowerNorm(0.25, 1.0, 7.5, clip=True)",
            "extent=(-1.25, 1.25, 0.75, -1.25)",
            "roi[...] = pattern_region() > 0",
            "pattern = pattern / np.count_nonzero(roi)",
        ] {
            assert!(text.contains(part), "{part} is not in\n{text}");
        }
        for other in ["class ", "def ring", "import UDF", "base64"] {
            assert!(!text.contains(other), "{other} is in\n{text}");
        }
    }

    #[test]
    fn colours_that_matplotlib_does_not_have_are_in_the_script() {
        let channel = ScanChannel::Com {
            part: crate::ComPart::Vector,
            centre: crate::Centre::Mean,
            rotation: 90.0,
            flip_y: true,
        };
        let query = Query::Scan(ScanQuery { channel, ..ScanQuery::default() });
        let state = json!({"scan": {"display": {"colormap": "gray"}}});
        let file = made("a.mib", &[query], &state, ScriptForm::Script);
        let text = text(&file);
        assert!(text.contains("SCAN_COLOURS = (") && text.contains("import base64\n"), "{text}");
        assert!(text.contains("wheel(scan, cmap(np.arange(256))[:, :3], norm)"), "{text}");
        assert!(text.contains(" rotation=90.0,\n        flip_y=True,\n"), "{text}");
    }

    #[test]
    fn a_script_holds_no_more_than_it_can() {
        let array = |id| Signed { shape: Shape::Array { id }, sign: Sign::Plus };
        let query = |n| {
            let detector = vec![array(0); n];
            Query::Scan(ScanQuery { detector, ..ScanQuery::default() })
        };
        let made = |queries: &[Query]| {
            Script {
                opened: &Opened::memory("memory"),
                description: &description("scan"),
                queries,
                state: &Value::Null,
                tables: &|_| None,
                arrays: &|_| Some((vec![1024, 1024], vec![1.0; 1 << 20])),
            }
            .file(ScriptForm::Script)
        };
        assert!(made(&[query(2), query(2)]).is_ok());
        for queries in [vec![query(5)], vec![query(3), query(2)], vec![query(1); 64]] {
            let error = made(&queries).unwrap_err();
            assert_eq!(error.kind(), framefold::ErrorKind::Limit);
            assert!(error.to_string().contains("weights are too many"), "{error}");
        }
        let error = made(&vec![query(0); 65]).unwrap_err().to_string();
        assert!(error.contains("65 pictures"), "{error}");
    }

    #[test]
    fn names_are_never_code() {
        let evil = "a\nimport os\r\"\"\"); import sys #\u{202e}\\.mib";
        let channel = PatternChannel::Own { name: evil.into(), buffer: evil.into() };
        let queries = [Query::Pattern(PatternQuery { channel, ..PatternQuery::default() })];
        let file = made(evil, &queries, &Value::Null, ScriptForm::Script);
        let text = text(&file);
        assert!(!text.contains(['\r', '\u{202e}']), "{text}");
        for line in text.lines() {
            let code = line.trim_start();
            assert!(!code.starts_with("import os") && !code.starts_with("import sys"), "{line}");
        }
        assert_eq!(file.name, "a_import_os_______import_sys____-view.py");
    }

    #[test]
    fn a_notebook_has_the_same_code() {
        let queries = [Query::Scan(ScanQuery::default())];
        let file = made("a_b*.mib", &queries, &Value::Null, ScriptForm::Notebook);
        let notebook: Value = serde_json::from_slice(&file.bytes).unwrap();
        assert_eq!((&notebook["nbformat"], &notebook["nbformat_minor"]), (&json!(4), &json!(5)));
        let cells = notebook["cells"].as_array().unwrap();
        assert!(cells[0]["source"][0].as_str().unwrap().contains("a\\_b\\*.mib"));
        let code: String = cells
            .iter()
            .filter(|cell| cell["cell_type"] == "code")
            .flat_map(|cell| cell["source"].as_array().unwrap())
            .map(|line| line.as_str().unwrap())
            .collect();
        assert!(code.contains("ApplyMasksUDF(") && !code.contains("def main"), "{code}");
    }

    #[test]
    fn a_state_of_something_else_is_refused() {
        let opened = Opened::memory("memory");
        let script = Script {
            opened: &opened,
            description: &description("a"),
            queries: &[],
            state: &json!({"scan": {"display": {"scale": "exp"}}}),
            tables: &|_| None,
            arrays: &|_| None,
        };
        let error = script.file(ScriptForm::Script).unwrap_err();
        assert!(error.to_string().contains("unknown variant `exp`"), "{error}");
    }
}
