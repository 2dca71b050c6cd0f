//! The repository's own checks: `cargo run -p xtask -- tidy`.
#![forbid(unsafe_code)]

mod tidy;

use anyhow::{Context, Result, bail};
use std::path::PathBuf;
use std::process::ExitCode;

const USAGE: &str = "usage: cargo run -p xtask -- tidy";

fn main() -> ExitCode {
    match run() {
        Ok(code) => code,
        Err(error) => {
            eprintln!("xtask: {error:#}");
            ExitCode::from(2)
        }
    }
}

fn run() -> Result<ExitCode> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    match args.iter().map(String::as_str).collect::<Vec<_>>().as_slice() {
        ["tidy"] => report(&tidy::check(&repository()?)?),
        ["help" | "--help" | "-h"] => {
            println!("{USAGE}");
            Ok(ExitCode::SUCCESS)
        }
        other => bail!("found arguments {other:?}; {USAGE}"),
    }
}

/// Prints findings one a line, in the form that editors turn into links.
fn report(findings: &[tidy::Finding]) -> Result<ExitCode> {
    for finding in findings {
        println!("{finding}");
    }
    Ok(match findings.len() {
        0 => ExitCode::SUCCESS,
        n => {
            eprintln!("tidy: {n} finding(s)");
            ExitCode::FAILURE
        }
    })
}

/// The root of the repository: the parent of this crate, as cargo sees it at run time.
fn repository() -> Result<PathBuf> {
    let xtask = std::env::var_os("CARGO_MANIFEST_DIR")
        .context("CARGO_MANIFEST_DIR is not set; run this through `cargo run -p xtask`")?;
    let mut root = PathBuf::from(xtask);
    root.pop();
    Ok(root)
}
