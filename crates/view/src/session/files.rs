//! Files that clients take away.

use crate::export::{ArrayFormat, Exported, FileMade, Script, ScriptForm, axes, title};
use crate::host::{HostOptions, Shown};
use crate::{Picture, Query, Wish};
use framefold::{Cancel, Error, Result};
use serde_json::Value;

/// The exact answer to a query as a file.
pub(super) fn array(
    shown: &Shown,
    query: &Query,
    format: &str,
    cancel: &Cancel,
) -> Result<FileMade> {
    let format = ArrayFormat::by_name(format)?;
    let picture = exact(shown, query, cancel)?;
    let about = shown.viewer.describe();
    let query = &query.sliced(about.nav.len());
    let exported = Exported {
        dataset: &about.name,
        pane: match query {
            Query::Scan(_) => "scan",
            Query::Pattern(_) => "pattern",
        },
        title: &title(query),
        picture: &picture,
        axes: &picture.axes.clone().unwrap_or_else(|| axes(query, &about)),
    };
    exported.file(format)
}

/// The last picture of the answer to a query: the exact one.
fn exact(shown: &Shown, query: &Query, cancel: &Cancel) -> Result<Picture> {
    let mut last = None;
    shown.viewer.answer(query, Wish::Exact, cancel, &mut |picture| {
        last = Some(picture);
        Ok(())
    })?;
    last.ok_or_else(|| Error::bug("a query was answered without a picture"))
}

/// A script, or a notebook, that makes the same pictures.
pub(super) fn script(
    shown: &Shown,
    form: &str,
    queries: &[Query],
    state: &Value,
    options: &HostOptions,
) -> Result<FileMade> {
    let form = match form {
        "script" => ScriptForm::Script,
        "notebook" => ScriptForm::Notebook,
        _ => {
            return Err(Error::invalid(format!("'{form}' is no form of a script"))
                .with_hint("ask for 'script' or 'notebook'"));
        }
    };
    let table = |name: &str| {
        let map = options.colormaps.iter().find(|map| map.name == name)?;
        Some(map.colours.concat())
    };
    let script = Script {
        opened: &shown.opened,
        description: &shown.viewer.describe(),
        queries,
        state,
        tables: &table,
        arrays: &|id| shown.viewer.mask(id),
    };
    script.file(form)
}
