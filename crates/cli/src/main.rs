//! The `framefold` binary: all it does is call the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    ExitCode::from(framefold_cli::run(std::env::args_os()))
}
