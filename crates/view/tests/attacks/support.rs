//! A viewer on a port, and those who connect to it.

mod ws;

pub use ws::{Frame, Ws};

use framefold_view::export::Opened;
use framefold_view::serve::{Address, ServeOptions, Server};
use framefold_view::{Files, HostOptions, Own, ScanChoice, ViewerHost, ViewerOptions};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;
use tempfile::TempDir;

/// Longer than anything may take.
pub const LONG: Duration = Duration::from_secs(30);

/// A viewer of a small scan: 6 × 8 frames of 16 × 16.
pub struct Bench {
    pub dir: TempDir,
    pub server: Server,
}

/// How a [`Bench`] differs from the plain one.
#[derive(Default)]
pub struct Setup {
    pub root: Option<PathBuf>,
    pub own: Option<Arc<dyn Own>>,
    pub serve: ServeOptions,
    pub patience: Option<Duration>,
}

impl Bench {
    pub fn new() -> Self {
        Self::with(|_| Setup::default())
    }

    pub fn with(setup: impl FnOnce(&Path) -> Setup) -> Self {
        let dir = TempDir::new().unwrap();
        let file = dir.path().join("scan.npy");
        write_scan(&file, "6, 8, 16, 16");
        let Setup { root, own, serve, patience } = setup(dir.path());
        let opener = Files::try_new(vec![file], root.as_deref(), open).unwrap();
        let viewer = ViewerOptions { own, patience, ..ViewerOptions::default() };
        let options = HostOptions { viewer, ..HostOptions::default() };
        let host = ViewerHost::try_new(Box::new(opener), options).unwrap();
        let server = Server::start(host, &serve, || {}).unwrap();
        Bench { dir, server }
    }

    pub fn address(&self) -> SocketAddr {
        match self.server.address() {
            Address::Tcp(address) => *address,
            Address::Unix(path) => panic!("{}", path.display()),
        }
    }

    /// `127.0.0.1:PORT`.
    pub fn host(&self) -> String {
        self.address().to_string()
    }

    pub fn token(&self) -> String {
        self.server.link().split_once("token=").unwrap().1.to_owned()
    }

    pub fn connect(&self) -> TcpStream {
        let stream = TcpStream::connect(self.address()).unwrap();
        stream.set_read_timeout(Some(LONG)).unwrap();
        stream.set_write_timeout(Some(LONG)).unwrap();
        stream
    }

    /// Sends bytes, and reads until the server closes the connection.
    pub fn raw(&self, request: impl AsRef<[u8]>) -> Reply {
        let mut stream = self.connect();
        // It may have been answered, and closed, before all of it was sent.
        let _ = stream.write_all(request.as_ref());
        Reply::read(&mut stream)
    }

    /// GET, as browsers do, with more headers, each with its end of line.
    pub fn get(&self, target: &str, headers: &str) -> Reply {
        let host = self.host();
        self.raw(format!("GET {target} HTTP/1.1\r\nhost: {host}\r\n{headers}\r\n"))
    }

    /// The cookie that the token gives, as a header.
    pub fn cookie(&self) -> String {
        let reply = self.get(&format!("/?token={}", self.token()), "");
        assert_eq!(reply.status, 303, "{reply:?}");
        let cookie = reply.header("set-cookie").unwrap();
        format!("cookie: {}\r\n", cookie.split_once(';').unwrap().0)
    }

    /// A client that was let in.
    pub fn client(&self) -> Ws {
        self.try_client().unwrap()
    }

    pub fn try_client(&self) -> Result<Ws, Reply> {
        let headers = format!("{}origin: http://{}\r\n", self.cookie(), self.host());
        Ws::open(self.connect(), &self.host(), &headers)
    }
}

fn open(path: &Path, scan: &ScanChoice) -> framefold::Result<(framefold::Dataset, Opened)> {
    let mut options = framefold::OpenOptions::default();
    options.nav_shape.clone_from(&scan.nav_shape);
    options.sync_offset = scan.sync_offset.unwrap_or(0);
    let dataset = framefold::open(path, &options)?;
    let opened = Opened::file(dataset.source().info().format, path, &options);
    Ok((dataset, opened))
}

/// Numbers from 0 up, as uint16.
pub fn write_scan(path: &Path, shape: &str) {
    let n: u32 = shape.split(", ").map(|len| len.parse::<u32>().unwrap()).product();
    let header = format!("{{'descr': '<u2', 'fortran_order': False, 'shape': ({shape}), }}");
    let header = format!("{header:<117}\n");
    let mut bytes = b"\x93NUMPY\x01\x00\x76\x00".to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.extend((0..n).flat_map(|i| (i as u16).to_le_bytes()));
    std::fs::write(path, bytes).unwrap();
}

/// An answer of HTTP.
#[derive(Debug)]
pub struct Reply {
    /// 0 if there was none.
    pub status: u16,
    pub head: String,
    pub body: String,
    /// The body, which need not be text.
    pub bytes: Vec<u8>,
}

impl Reply {
    pub fn read(stream: &mut TcpStream) -> Self {
        let mut bytes = Vec::new();
        let mut buffer = [0; 4096];
        loop {
            match stream.read(&mut buffer) {
                Ok(0) => break,
                Ok(n) => bytes.extend_from_slice(&buffer[..n]),
                Err(error) => {
                    // Closed with bytes that it has not read, but not left open.
                    assert_ne!(error.kind(), std::io::ErrorKind::WouldBlock, "no answer, no end");
                    break;
                }
            }
        }
        Self::of(&bytes)
    }

    pub fn of(bytes: &[u8]) -> Self {
        let text = String::from_utf8_lossy(bytes);
        let (head, body) = text.split_once("\r\n\r\n").unwrap_or((&text, ""));
        let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0);
        let begin = bytes.windows(4).position(|four| four == b"\r\n\r\n");
        let bytes = begin.map(|begin| bytes[begin + 4..].to_vec()).unwrap_or_default();
        Reply { status, head: head.to_lowercase(), body: body.to_owned(), bytes }
    }

    pub fn header(&self, name: &str) -> Option<&str> {
        let lines = self.head.lines().filter_map(|line| line.split_once(": "));
        lines.filter(|(known, _)| *known == name).map(|(_, value)| value).next()
    }
}
