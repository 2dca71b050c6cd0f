//! Options about the viewer.

use super::{DataArgs, parse};
use clap::Args;
use std::net::IpAddr;
use std::path::PathBuf;

/// `framefold view`.
#[derive(Debug, Args)]
pub(crate) struct ViewArgs {
    /// The files to view; the first one is shown first
    #[arg(required = true, value_name = "FILE")]
    pub files: Vec<PathBuf>,
    #[command(flatten)]
    pub serve: ServeArgs,
    #[command(flatten)]
    pub data: DataArgs,
}

/// Where, and for whom.
#[derive(Debug, Args)]
#[command(next_help_heading = "Options about the viewer")]
pub(crate) struct ServeArgs {
    /// Print the link, and open no browser
    #[arg(long)]
    pub no_browser: bool,
    /// The port to listen on [default: one that is free]
    #[arg(long, value_name = "N", conflicts_with = "socket")]
    pub port: Option<u16>,
    /// The address to listen on; others than 127.0.0.1 and ::1 can be reached by other machines
    #[arg(long, value_name = "ADDRESS", default_value = "127.0.0.1", conflicts_with = "socket")]
    pub host: IpAddr,
    /// Listen on this Unix socket instead, as for jupyter-server-proxy
    #[arg(long, value_name = "PATH")]
    pub socket: Option<PathBuf>,
    /// The path under which a proxy shows the viewer, as in /user/me/proxy/8000/
    #[arg(long, value_name = "PATH", default_value = "/")]
    pub base_url: String,
    /// A name by which browsers may call this machine, behind a proxy or with '--host'; may be repeated
    #[arg(long, value_name = "NAME")]
    pub allow_host: Vec<String>,
    /// Let clients open all files in this folder, too
    #[arg(long, value_name = "FOLDER")]
    pub root: Option<PathBuf>,
    /// How much memory may hold what makes pictures follow the pointer, as in 500MB or 2GiB
    /// [default: a quarter of the memory of this machine, at most 4GiB]
    #[arg(long, value_name = "SIZE", value_parser = parse::bytes)]
    pub budget: Option<u64>,
    /// Show what this file says, which the viewer has saved
    #[arg(long, value_name = "FILE.json")]
    pub state: Option<PathBuf>,
}
