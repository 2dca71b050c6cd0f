//! `framefold reductions`: lists the reductions and their result buffers.

use crate::args::{LISTS, ListArgs};
use crate::{exit, terminal};
use framefold::Result;
use framefold::kernels::REDUCTIONS;
use serde_json::json;

/// Prints the table of reductions.
pub(crate) fn reductions(args: &ListArgs) -> Result<u8> {
    for reduction in REDUCTIONS {
        let line = if args.json {
            json!({
                "name": reduction.name,
                "summary": reduction.summary,
                "buffers": reduction.buffers,
            })
            .to_string()
        } else {
            let buffers = reduction.buffers.join(", ");
            format!("{:<9}{}; buffers: {buffers}", reduction.name, reduction.summary)
        };
        terminal::print(&line)?;
    }
    if !args.json {
        terminal::print(&format!("\n{LISTS}"))?;
    }
    Ok(exit::SUCCESS)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::args::Cli;
    use clap::CommandFactory;

    #[test]
    fn every_listed_reduction_can_be_run_by_its_name() {
        let cli = Cli::command();
        let run = cli.find_subcommand("run").unwrap();
        for reduction in REDUCTIONS {
            assert!(run.find_subcommand(reduction.name).is_some(), "{}", reduction.name);
        }
        let names: Vec<&str> = run.get_subcommands().map(clap::Command::get_name).collect();
        assert_eq!(names.len(), REDUCTIONS.len(), "{names:?}");
    }
}
