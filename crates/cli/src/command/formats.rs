//! `framefold formats`: lists the file formats.

use crate::args::ListArgs;
use crate::{exit, terminal};
use framefold::Result;
use framefold::io::{self, OptionSpec};
use serde_json::json;

/// Prints the table of formats.
pub(crate) fn formats(args: &ListArgs) -> Result<u8> {
    for format in io::formats() {
        let line = if args.json {
            json!({
                "name": format.name,
                "title": format.title,
                "extensions": format.extensions,
                "options": names(format.options),
            })
            .to_string()
        } else {
            let extensions: Vec<String> =
                format.extensions.iter().map(|extension| format!(".{extension}")).collect();
            let options = names(format.options).join(", ");
            let endings = if extensions.is_empty() {
                String::new()
            } else {
                format!(" ({})", extensions.join(", "))
            };
            format!("{:<8}{}{endings}; options: {options}", format.name, format.title)
        };
        terminal::print(&line)?;
    }
    Ok(exit::SUCCESS)
}

fn names(options: &[OptionSpec]) -> Vec<&'static str> {
    options.iter().map(|spec| spec.name).collect()
}
