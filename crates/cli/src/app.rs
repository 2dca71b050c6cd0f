//! From arguments to an exit code.

use crate::args::{Cli, Command};
use crate::terminal::{self, is_broken_pipe};
use crate::{command, exit, interrupt};
use clap::Parser;
use clap::error::ErrorKind as ClapKind;
use framefold::{Error, ErrorKind, Result};
use std::ffi::OsString;

/// Runs the command line `args`, the program's name first, and returns the exit code.
///
/// Results go to standard output; progress, warnings and one-line errors to standard error. When
/// whoever reads the output stops reading, the command ends quietly. May be called again, but not
/// from two threads at once: Ctrl-C cancels the latest run only.
pub fn run<I>(args: I) -> u8
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    framefold::exec::heed_system_memory();
    let outcome = match Cli::try_parse_from(args) {
        Ok(cli) => guarded(|| dispatch(cli)),
        Err(error) => return usage(&error),
    };
    match outcome {
        Ok(code) => code,
        Err(error) if is_broken_pipe(&error) => exit::SUCCESS,
        Err(error) => report(&error),
    }
}

fn dispatch(cli: Cli) -> Result<u8> {
    match cli.command {
        Command::Info(args) => command::info(&args),
        Command::Run(args) => command::run(&args),
        Command::Convert(args) => command::convert(&args),
        Command::Formats(args) => command::formats(&args),
        Command::Reductions(args) => command::reductions(&args),
    }
}

/// Prints an error in one line; gives its exit code.
pub(crate) fn report(error: &Error) -> u8 {
    terminal::complain(&error.to_string());
    match error.kind() {
        ErrorKind::Cancelled => interrupt::code(),
        kind => exit::exit_code(kind),
    }
}

/// Turns a panic into an error: whatever happens, the user gets a line and an exit code.
fn guarded(work: impl FnOnce() -> Result<u8>) -> Result<u8> {
    std::panic::catch_unwind(std::panic::AssertUnwindSafe(work)).unwrap_or_else(|_| {
        Err(Error::bug("the command panicked")
            .with_hint("please report this, with the call that led to it"))
    })
}

/// Prints help and version as asked for, or says in one line what is wrong with the call.
fn usage(error: &clap::Error) -> u8 {
    match error.kind() {
        ClapKind::DisplayHelp | ClapKind::DisplayVersion => match error.print() {
            Ok(()) => exit::SUCCESS,
            Err(io) if io.kind() == std::io::ErrorKind::BrokenPipe => exit::SUCCESS,
            Err(io) => report(&Error::io("print the help", io)),
        },
        ClapKind::DisplayHelpOnMissingArgumentOrSubcommand => {
            report(&Error::invalid("there is no command").with_hint("see 'framefold --help'"))
        }
        _ => report(&Error::invalid(one_line(&error.to_string())).with_hint(help_hint(error))),
    }
}

/// The message without label, usage and blank lines.
fn one_line(message: &str) -> String {
    let lines: Vec<&str> = message
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .filter(|line| !line.is_empty())
        .collect();
    let text = lines.join(" ");
    text.strip_prefix("error: ").unwrap_or(&text).to_owned()
}

/// Where to read on.
fn help_hint(error: &clap::Error) -> String {
    let message = error.to_string();
    let usage = message.lines().find_map(|line| line.trim().strip_prefix("Usage: "));
    let words = usage.unwrap_or("framefold").split(' ');
    let command: Vec<&str> = words.take_while(|word| !word.starts_with(['[', '<', '-'])).collect();
    format!("see '{} --help'", command.join(" "))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_errors_are_one_line_with_a_hint() {
        let message = |line: &str| {
            let error = Cli::try_parse_from(line.split(' ')).unwrap_err();
            format!("{}; {}", one_line(&error.to_string()), help_hint(&error))
        };
        assert_eq!(
            message("framefold run com a.mib --cyy 3"),
            "unexpected argument '--cyy' found tip: a similar argument exists: '--cy'; see \
             'framefold run com --help'"
        );
        let missing = message("framefold run sum");
        assert!(missing.contains("<FILE>") && missing.contains("required"), "{missing}");
        assert!(!missing.contains('\n'));
    }

    #[test]
    fn panics_become_errors() {
        let error = guarded(|| panic!("on purpose")).unwrap_err();
        assert_eq!(exit::exit_code(error.kind()), 70);
    }
}
