//! The viewer behind HTTP and a WebSocket, for browsers.
//!
//! A thread of its own serves all connections; what is computed is computed by the host's threads. Every request
//! goes through `security`, which lets in who has the token, by a name that is allowed, from a page of this
//! server. There are four paths and nothing else, and none of them is the name of a file.
//!
//! *Invariant:* a connection costs bounded memory and, if it does nothing, bounded time.

mod app;
mod assets;
mod limits;
mod listen;
mod security;
mod socket;
mod token;

pub use listen::Address;

use crate::ViewerHost;
use app::App;
use framefold::{Error, Result};
use listen::Listener;
use security::Gate;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr};
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use token::Secret;
use tokio::sync::watch;

/// Where and for whom a viewer is served.
#[derive(Clone, Debug)]
pub struct ServeOptions {
    /// The address to listen on.
    pub host: IpAddr,
    /// The port; 0 is one that is free.
    pub port: u16,
    /// A Unix socket to listen on instead.
    pub socket: Option<PathBuf>,
    /// The path under which browsers see the viewer, behind a proxy.
    pub base_url: String,
    /// Names by which browsers may call this machine, besides its own for itself.
    pub allow_hosts: Vec<String>,
}

impl Default for ServeOptions {
    fn default() -> Self {
        ServeOptions {
            host: IpAddr::V4(Ipv4Addr::LOCALHOST),
            port: 0,
            socket: None,
            base_url: "/".to_owned(),
            allow_hosts: Vec::new(),
        }
    }
}

/// A viewer that is served until this goes.
pub struct Server {
    address: Address,
    base: String,
    token: String,
    gate: Arc<Gate>,
    stop: watch::Sender<bool>,
    thread: Option<JoinHandle<()>>,
}

impl Server {
    /// Listens, and serves `host` from a thread of its own; `ended` is called from there if that ends.
    ///
    /// # Errors
    /// `InvalidArgument` if the options cannot work; `Io` if the system does not let it listen.
    pub fn start(
        host: Arc<ViewerHost>,
        options: &ServeOptions,
        ended: impl FnOnce() + Send + 'static,
    ) -> Result<Self> {
        let base = base_of(&options.base_url)?;
        options.allow_hosts.iter().try_for_each(|name| check_name(name))?;
        let (token, cookie) = (Secret::new()?, Secret::new()?);
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|error| Error::io("start to serve", error))?;
        let listener = runtime.block_on(async { Listener::bind(options) })?;
        let address = listener.address().clone();
        let (stop, stopped) = watch::channel(false);
        let text = token.text().to_owned();
        let app = App::new(host, token, cookie, &base, options, stopped);
        let gate = app.gate.clone();
        let thread = std::thread::Builder::new().name("viewer-http".to_owned());
        let serve = move || {
            let _last = Last(Some(ended));
            runtime.block_on(listener.serve(Arc::new(app)));
            // Not waited for: nothing that blocks runs there.
            runtime.shutdown_background();
        };
        let thread = thread.spawn(serve).map_err(|error| Error::io("start a thread", error))?;
        Ok(Server { address, base, token: text, gate, stop, thread: Some(thread) })
    }

    /// Where it listens.
    pub fn address(&self) -> &Address {
        &self.address
    }

    /// What to open in a browser: with the token. Behind a Unix socket, the part after the name of the machine.
    pub fn link(&self) -> String {
        self.link_with(&self.token)
    }

    /// A link that works once, within a minute, for the command line of a browser: other users of the machine may
    /// see that. A second one makes the first one useless.
    ///
    /// # Errors
    /// `Io` if the system has no random numbers.
    pub fn link_for_once(&self) -> Result<String> {
        Ok(self.link_with(&self.gate.ticket()?))
    }

    fn link_with(&self, token: &str) -> String {
        let base = &self.base;
        match &self.address {
            Address::Tcp(address) if address.ip().is_unspecified() => {
                format!("http://localhost:{}{base}?token={token}", address.port())
            }
            Address::Tcp(address) => format!("http://{address}{base}?token={token}"),
            Address::Unix(_) => format!("{base}?token={token}"),
        }
    }

    /// Tells all clients that the viewer ends, and ends it. Takes half a second at most.
    pub fn stop(&mut self) {
        let _ = self.stop.send(true);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

impl fmt::Debug for Server {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // Not the token.
        f.debug_struct("Server").field("address", &self.address).finish_non_exhaustive()
    }
}

/// Calls at the end, even of a panic.
struct Last<F: FnOnce()>(Option<F>);

impl<F: FnOnce()> Drop for Last<F> {
    fn drop(&mut self) {
        if let Some(call) = self.0.take() {
            call();
        }
    }
}

/// An error if no browser calls a machine so: with a scheme or a port, the name would never be met.
fn check_name(name: &str) -> Result<()> {
    let inner = name.strip_prefix('[').and_then(|rest| rest.strip_suffix(']'));
    let is_plain = match inner {
        Some(inner) => inner.parse::<std::net::Ipv6Addr>().is_ok(),
        None => {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
            (1..=253).contains(&name.len()) && name.bytes().all(plain)
        }
    };
    match is_plain {
        true => Ok(()),
        false => Err(Error::invalid(format!("'{name}' is not the name of a machine")).with_hint(
            "write it without scheme, port and path, as in --allow-host hub.example.org",
        )),
    }
}

/// A path with a slash at both ends.
fn base_of(text: &str) -> Result<String> {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~/%@:+,=".contains(&byte);
    if !text.bytes().all(plain) {
        return Err(Error::invalid(format!("'{text}' is not the path of a URL"))
            .with_hint("write it as in --base-url /user/me/proxy/8000/"));
    }
    let inner = text.trim_matches('/');
    Ok(if inner.is_empty() { "/".to_owned() } else { format!("/{inner}/") })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_machines() {
        for name in ["hub.example.org", "node_7", "10.0.0.1", "[::1]", "xn--bcher-kva.example"] {
            assert!(check_name(name).is_ok(), "{name}");
        }
        let long = "x".repeat(254);
        for name in [
            "",
            "https://hub.example.org",
            "hub:8443",
            "a/b",
            "a b",
            "::1",
            "[hub]",
            "*",
            "bücher",
            &long,
        ] {
            assert!(check_name(name).is_err(), "{name}");
        }
    }

    #[test]
    fn base_paths() {
        for (text, base) in [("", "/"), ("/", "/"), ("a", "/a/"), ("/a/b", "/a/b/"), ("/a/", "/a/")]
        {
            assert_eq!(base_of(text).unwrap(), base);
        }
        for text in ["http://a b/", "/a?b", "/a#b", "/a\r\nSet-Cookie: x", "/ä"] {
            assert!(base_of(text).is_err(), "{text}");
        }
    }
}
