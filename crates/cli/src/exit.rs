//! Exit codes of the command: who has to act, as a number.

use framefold::ErrorKind;

/// Everything went well.
pub const SUCCESS: u8 = 0;

/// Cancelled by SIGHUP, as when the terminal is closed.
pub(crate) const HUNG_UP: u8 = 129;

/// Cancelled by Ctrl-C: 128 and the number of the signal, as shells have it.
pub(crate) const INTERRUPTED: u8 = 130;

/// Cancelled by SIGTERM.
pub(crate) const TERMINATED: u8 = 143;

/// The codes with their meaning, as printed by `framefold --help`.
pub const EXIT_CODES: &[(u8, &str)] = &[
    (SUCCESS, "everything went well"),
    (2, "the command line is wrong: change the call"),
    (3, "a file is damaged, or is not what it claims to be"),
    (4, "valid input that framefold cannot process, or a limit was exceeded"),
    (5, "the operating system refused: check permissions, disk and network"),
    (6, "a user-defined function failed"),
    (70, "framefold broke one of its own promises: please report it"),
    (HUNG_UP, "cancelled by SIGHUP"),
    (INTERRUPTED, "cancelled by Ctrl-C"),
    (TERMINATED, "cancelled by SIGTERM"),
];

/// The exit code for an error of `kind`.
pub fn exit_code(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::InvalidArgument => 2,
        ErrorKind::BadFile => 3,
        ErrorKind::Unsupported | ErrorKind::Limit => 4,
        ErrorKind::Io => 5,
        ErrorKind::UserCode => 6,
        ErrorKind::Bug => 70,
        ErrorKind::Cancelled => INTERRUPTED,
    }
}

/// The table for the end of the help text.
pub(crate) fn help_text() -> String {
    let rows = EXIT_CODES.iter().map(|(code, meaning)| format!("  {code:<5}{meaning}"));
    format!("Exit codes:\n{}", rows.collect::<Vec<_>>().join("\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_has_a_documented_code() {
        for kind in [
            ErrorKind::InvalidArgument,
            ErrorKind::BadFile,
            ErrorKind::Unsupported,
            ErrorKind::Limit,
            ErrorKind::Io,
            ErrorKind::UserCode,
            ErrorKind::Cancelled,
            ErrorKind::Bug,
        ] {
            let code = exit_code(kind);
            assert_ne!(code, SUCCESS);
            assert!(EXIT_CODES.iter().any(|entry| entry.0 == code), "{kind:?}");
        }
        assert!(EXIT_CODES.windows(2).all(|pair| pair[0].0 < pair[1].0));
    }
}
