//! From arguments to an exit code.

use crate::args::{Cli, Command};
use crate::terminal::{self, is_broken_pipe};
use crate::{command, exit, interrupt};
use clap::error::{ContextKind, ContextValue, ErrorKind as ClapKind};
use framefold::{Error, ErrorKind, Result};
use std::error::Error as _;
use std::ffi::OsString;
use std::path::Path;

/// Runs the command line `args`, the program's name first, and returns the exit code.
///
/// Results go to standard output; progress, warnings and one-line errors to standard error. When
/// the reader of the output stops reading, the command ends quietly. May be called again, but not
/// from two threads at once: Ctrl-C cancels the latest run only.
pub fn run<I>(args: I) -> u8
where
    I: IntoIterator,
    I::Item: Into<OsString> + Clone,
{
    framefold::exec::heed_system_memory();
    let outcome = match Cli::of(args.into_iter().map(Into::into)) {
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
        #[cfg(feature = "view")]
        Command::View(args) => command::view(*args),
        Command::Convert(args) => command::convert(&args),
        Command::Formats(args) => command::formats(&args),
        Command::Reductions(args) => command::reductions(&args),
    }
}

/// Prints an error in one line; gives its exit code.
pub(crate) fn report(error: &Error) -> u8 {
    // What user code says is the reason; the error alone says where it was called.
    match error.source().filter(|_| error.kind() == ErrorKind::UserCode) {
        Some(reason) => terminal::complain(&format!("{error}: {reason}")),
        None => terminal::complain(&error.to_string()),
    }
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
            let missing = if is_about_run(error) { "reduction" } else { "command" };
            report(&Error::invalid(format!("there is no {missing}")).with_hint(help_hint(error)))
        }
        _ => report(&refusal(error)),
    }
}

/// What is wrong with the call, and what to do.
fn refusal(error: &clap::Error) -> Error {
    if error.kind() == ClapKind::InvalidUtf8 {
        return Error::invalid("an argument is not UTF-8").with_hint(
            "data, --dark and --gain may have any name; rename what others name, as -o, --roi and --bad-pixels do",
        );
    }
    let what = Error::invalid(one_line(&error.to_string()));
    match error.get(ContextKind::InvalidSubcommand) {
        // A file stands where a command, or a reduction, is missing.
        Some(ContextValue::String(word)) if Path::new(word).exists() => {
            let missing = match is_about_run(error) {
                true => format!("name a reduction before it, such as 'framefold run sum {word}'"),
                false => format!("name a command before it, such as 'framefold info {word}'"),
            };
            Error::invalid(format!("'{word}' is a file, not a command")).with_hint(missing)
        }
        Some(ContextValue::String(word)) if word == "disk" || word == "ring" => {
            Error::invalid(format!("'{word}' is a reduction together with its numbers"))
                .with_hint(format!("put both in quotes, as in 'ring 18,50', or use masks --{word}"))
        }
        _ => what.with_hint(help_hint(error)),
    }
}

/// The message without label, usage and blank lines.
pub(crate) fn one_line(message: &str) -> String {
    let lines: Vec<&str> = message
        .lines()
        .map(str::trim)
        .take_while(|line| !line.starts_with("Usage:") && !line.starts_with("For more information"))
        .filter(|line| !line.is_empty() && !line.starts_with("tip: to pass"))
        .collect();
    let text = lines.iter().fold(String::new(), |text, line| match line.strip_prefix("tip: ") {
        // Of what is similar, the names alone.
        Some(tip) => format!("{text}; similar: {}", tip.split_once(": ").map_or(tip, |t| t.1)),
        None if text.is_empty() => (*line).to_owned(),
        None => format!("{text} {line}"),
    });
    text.strip_prefix("error: ").unwrap_or(&text).to_owned()
}

/// Where to read on.
fn help_hint(error: &clap::Error) -> String {
    format!("see '{} --help'", command_of(error).join(" "))
}

fn is_about_run(error: &clap::Error) -> bool {
    command_of(error).get(1).is_some_and(|word| word == "run")
}

/// The words of the command that an error is about: `framefold`, `run`.
pub(crate) fn command_of(error: &clap::Error) -> Vec<String> {
    let message = error.to_string();
    let usage = message.lines().find_map(|line| line.trim().strip_prefix("Usage: "));
    let words = usage.unwrap_or("framefold").split(' ');
    let words = words.take_while(|word| !word.starts_with(['[', '<', '-']));
    words.map(str::to_owned).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[test]
    fn usage_errors_are_one_line_with_a_hint() {
        let message = |line: &str| {
            let error = Cli::of(line.split(' ').map(Into::into)).unwrap_err();
            format!("{}; {}", one_line(&error.to_string()), help_hint(&error))
        };
        assert_eq!(
            message("framefold run com a.mib --cyy 3"),
            "unexpected argument '--cyy' found; similar: '--cy'; see 'framefold run com --help'"
        );
        assert_eq!(
            message("framefold run summm a.mib"),
            "unrecognized subcommand 'summm'; similar: 'sum'; see 'framefold run --help'"
        );
        assert_eq!(
            message("framefold run smu a.mib"),
            "unrecognized subcommand 'smu'; similar: 'sum'; see 'framefold run --help'"
        );
        assert_eq!(
            message("framefold inf a.mib"),
            "unrecognized subcommand 'inf'; similar: 'info'; see 'framefold --help'"
        );
        assert_eq!(
            message("framefold run frobnicate a.mib"),
            "unrecognized subcommand 'frobnicate'; see 'framefold run --help'"
        );
        // The hint that the word could be passed as a file's name does not help with a typo.
        assert_eq!(
            message("framefold run sum a.mib --no-such-thing"),
            "unexpected argument '--no-such-thing' found; see 'framefold run sum --help'"
        );
        let wrong = message("framefold run com a.mib --radius 6mrad");
        assert!(wrong.ends_with("0 or more; see 'framefold run com --help'"), "{wrong}");
        let wrong = message("framefold info a.raw --dtype uint61");
        assert!(wrong.ends_with("'>f4'; see 'framefold info --help'"), "{wrong}");
        let missing = message("framefold run sum");
        assert!(missing.contains("<FILE>") && missing.contains("required"), "{missing}");
        assert!(!missing.contains('\n'));
    }

    #[test]
    fn a_file_in_the_place_of_a_command_is_said_so() {
        let file = tempfile::NamedTempFile::new().unwrap();
        let path = file.path().to_str().unwrap();
        for (words, hint) in [(&["run"][..], "'framefold run sum "), (&[], "'framefold info ")] {
            let line = [&["framefold"], words, &[path]].concat();
            let refused = refusal(&Cli::try_parse_from(line).unwrap_err()).to_string();
            assert!(
                refused.contains("is a file, not a command") && refused.contains(hint),
                "{refused}"
            );
        }
    }

    #[cfg(unix)]
    #[test]
    fn names_that_have_to_be_utf_8_are_said() {
        use std::os::unix::ffi::OsStrExt;
        let odd = std::ffi::OsStr::from_bytes(b"a\xff.npy");
        fn of(words: &str) -> Vec<&std::ffi::OsStr> {
            words.split(' ').map(std::ffi::OsStr::new).collect()
        }
        for words in ["framefold run sum -o", "framefold info b.npy --bad-pixels"] {
            let error = Cli::try_parse_from([of(words), vec![odd]].concat()).unwrap_err();
            let said = refusal(&error).to_string();
            assert!(said.contains("not UTF-8") && said.contains("rename"), "{said}");
        }
        let line = [of("framefold run sum"), vec![odd], of("--dark"), vec![odd]].concat();
        assert!(Cli::try_parse_from(line).is_ok());
    }

    #[test]
    fn panics_become_errors() {
        let error = guarded(|| panic!("on purpose")).unwrap_err();
        assert_eq!(exit::exit_code(error.kind()), 70);
    }
}
