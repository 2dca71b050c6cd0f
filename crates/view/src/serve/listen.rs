//! Who connects, and how long that may take.

use super::app::{Alive, App};
use super::{ServeOptions, limits};
use framefold::{Error, Result};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio::sync::{OwnedSemaphorePermit, mpsc};

/// Where a server listens.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Address {
    /// An address and a port.
    Tcp(SocketAddr),
    /// A Unix socket.
    Unix(PathBuf),
}

/// What listens.
pub(super) struct Listener {
    address: Address,
    kind: Kind,
}

enum Kind {
    Tcp(TcpListener),
    #[cfg(unix)]
    Unix(unix::Socket),
}

impl Listener {
    /// # Errors
    /// `Io` if the system refuses; `InvalidArgument` for a Unix socket where there are none.
    pub(super) fn bind(options: &ServeOptions) -> Result<Self> {
        match &options.socket {
            None => Self::tcp(SocketAddr::new(options.host, options.port)),
            #[cfg(unix)]
            Some(path) => {
                let kind = Kind::Unix(unix::Socket::bind(path)?);
                Ok(Listener { address: Address::Unix(path.clone()), kind })
            }
            #[cfg(not(unix))]
            Some(_) => Err(Error::invalid("this system has no Unix sockets")),
        }
    }

    fn tcp(address: SocketAddr) -> Result<Self> {
        let listen = || {
            let listener = std::net::TcpListener::bind(address)?;
            listener.set_nonblocking(true)?;
            let address = listener.local_addr()?;
            Ok((TcpListener::from_std(listener)?, address))
        };
        let (listener, address) = listen().map_err(|error| {
            Error::io(format!("listen on {address}"), error)
                .with_hint("choose another port; without one, one that is free is taken")
        })?;
        Ok(Listener { address: Address::Tcp(address), kind: Kind::Tcp(listener) })
    }

    pub(super) fn address(&self) -> &Address {
        &self.address
    }

    /// Serves until the app stops.
    pub(super) async fn serve(self, app: Arc<App>) {
        let mut stopped = app.stopped.clone();
        // Each connection has one; when all are gone, so are the connections.
        let (alive, mut all_gone) = mpsc::channel::<Infallible>(1);
        let accept = async {
            // A connection that finds no place waits for one, in the system's line: strangers can make others wait, not
            // keep them out.
            while let Ok(place) = app.connections.clone().acquire_owned().await {
                let accepted = match &self.kind {
                    Kind::Tcp(listener) => listener.accept().await.map(|(stream, _)| {
                        let _ = stream.set_nodelay(true);
                        connected(&app, stream, place, &alive);
                    }),
                    #[cfg(unix)]
                    Kind::Unix(socket) => {
                        socket.accept().await.map(|stream| connected(&app, stream, place, &alive))
                    }
                };
                if accepted.is_err() {
                    // No descriptors are left, say.
                    tokio::time::sleep(Duration::from_millis(100)).await;
                }
            }
        };
        tokio::select! {
            () = accept => {}
            _ = stopped.wait_for(|stopped| *stopped) => {}
        }
        drop((self.kind, app, alive));
        let _ = tokio::time::timeout(limits::GOODBYE, all_gone.recv()).await;
    }
}

/// Serves a connection.
fn connected<S>(app: &Arc<App>, stream: S, place: OwnedSemaphorePermit, alive: &Alive)
where
    S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let alive = alive.clone();
    let app = app.clone();
    tokio::spawn(async move {
        let service = service_fn(|request| {
            let answer = app.answer(request, &alive);
            async move { Ok::<_, Infallible>(answer) }
        });
        let mut server = http1::Builder::new();
        server
            .timer(TokioTimer::new())
            .header_read_timeout(limits::HEAD_TIME)
            .max_headers(limits::MAX_HEADERS)
            .max_header_size(limits::MAX_HEAD)
            .max_buf_size(limits::MAX_HEAD);
        let connection = server.serve_connection(TokioIo::new(stream), service).with_upgrades();
        let mut stopped = app.stopped.clone();
        tokio::select! {
            _ = tokio::time::timeout(limits::REQUEST_TIME, connection) => {}
            _ = stopped.wait_for(|stopped| *stopped) => {}
        }
        drop(place);
    });
}

#[cfg(unix)]
mod unix {
    use framefold::{Error, Result};
    use std::fs::{self, Permissions};
    use std::os::unix::fs::{FileTypeExt, PermissionsExt};
    use std::path::{Path, PathBuf};
    use tokio::net::{UnixListener, UnixStream};

    /// A socket in a file, which goes with it.
    pub(super) struct Socket {
        listener: UnixListener,
        path: PathBuf,
    }

    impl Socket {
        /// A socket that only the user of this process may open.
        pub(super) fn bind(path: &Path) -> Result<Self> {
            let failed = |error| Error::io("listen on this socket", error).with_path(path);
            if let Ok(meta) = fs::symlink_metadata(path) {
                let left_over = meta.file_type().is_socket()
                    && std::os::unix::net::UnixStream::connect(path).is_err();
                if !left_over {
                    return Err(Error::invalid("there is something of that name already")
                        .with_path(path)
                        .with_hint("name another socket"));
                }
                fs::remove_file(path).map_err(failed)?;
            }
            let listener = UnixListener::bind(path).map_err(failed)?;
            let socket = Socket { listener, path: path.to_owned() };
            fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(failed)?;
            Ok(socket)
        }

        pub(super) async fn accept(&self) -> std::io::Result<UnixStream> {
            self.listener.accept().await.map(|(stream, _)| stream)
        }
    }

    impl Drop for Socket {
        fn drop(&mut self) {
            let _ = fs::remove_file(&self.path);
        }
    }
}
