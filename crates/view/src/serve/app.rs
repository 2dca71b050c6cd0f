//! The four paths, and who gets them.

use super::assets::Assets;
use super::security::{self, Answer, Entrance, Gate, answer, words};
use super::token::Secret;
use super::{ServeOptions, limits, socket};
use crate::{Session, ViewerHost};
use bytes::Bytes;
use http_body_util::Full;
use hyper::body::Incoming;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::upgrade::OnUpgrade;
use hyper::{Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::sync::Arc;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;

/// Each connection has one; when all are dropped, no connection is left.
pub(super) type Alive = mpsc::Sender<Infallible>;

/// What is served.
pub(super) struct App {
    host: Arc<ViewerHost>,
    pub(super) gate: Arc<Gate>,
    /// Before each path: a proxy may leave it there, or take it away.
    base: String,
    assets: Assets,
    clients: Arc<Semaphore>,
    pub(super) connections: Arc<Semaphore>,
    /// Becomes true when all is to end.
    pub(super) stopped: watch::Receiver<bool>,
}

impl App {
    pub(super) fn new(
        host: Arc<ViewerHost>,
        token: Secret,
        cookie: Secret,
        base: &str,
        options: &ServeOptions,
        stopped: watch::Receiver<bool>,
    ) -> Self {
        // Only who may open a Unix socket reaches it: no browser, without a proxy.
        let hosts = options.socket.is_none().then(|| {
            let own = ["localhost", "127.0.0.1", "[::1]"].map(str::to_owned).into_iter();
            let bound = match options.host {
                std::net::IpAddr::V6(host) => format!("[{host}]"),
                std::net::IpAddr::V4(host) => host.to_string(),
            };
            let bound = (!options.host.is_unspecified()).then_some(bound);
            own.chain(bound).chain(options.allow_hosts.iter().cloned()).collect()
        });
        App {
            host,
            gate: Arc::new(Gate::new(token, cookie, hosts)),
            base: base.to_owned(),
            assets: Assets::new(),
            clients: Arc::new(Semaphore::new(limits::MAX_CLIENTS)),
            connections: Arc::new(Semaphore::new(limits::MAX_CONNECTIONS)),
            stopped,
        }
    }

    /// Answers a request.
    pub(super) fn answer(&self, mut request: Request<Incoming>, alive: &Alive) -> Answer {
        let upgrade = hyper::upgrade::on(&mut request);
        let (request, _) = request.into_parts();
        if let Some(refusal) = self.gate.refuse(&request) {
            return refusal;
        }
        let path = request.uri.path();
        let path = path.strip_prefix(&self.base).unwrap_or(path.trim_start_matches('/'));
        let token = (path.is_empty()).then(|| token_of(request.uri.query())).flatten();
        match (self.gate.entrance(&request, token), path) {
            (None, _) => words(
                StatusCode::FORBIDDEN,
                "This viewer asks for its token: open the link that 'framefold view' printed.",
            ),
            (Some(Entrance::Token), _) => self.admit(&request),
            (_, "") => self.assets.page.answer(&request.headers),
            (_, "viewer.js") => self.assets.script.answer(&request.headers),
            (_, "viewer.css") => self.assets.style.answer(&request.headers),
            (_, "ws") => self.connect(&request, upgrade, alive),
            _ => words(StatusCode::NOT_FOUND, "There is nothing of that name."),
        }
    }

    /// Gives the browser the cookie, and takes the token out of its address.
    fn admit(&self, request: &Parts) -> Answer {
        // A link of another site: the cookie would not be sent after a redirect. It is, if the page itself goes on.
        let from_elsewhere = request.headers.get("sec-fetch-site");
        let from_elsewhere =
            from_elsewhere.is_some_and(|site| site != "none" && site != "same-origin");
        let mut answer = if from_elsewhere {
            let page = "<!doctype html><meta http-equiv=\"refresh\" content=\"0;url=./\"><title>framefold</title>\n";
            answer(StatusCode::OK, "text/html; charset=utf-8", Bytes::from_static(page.as_bytes()))
        } else {
            let mut answer = words(StatusCode::SEE_OTHER, "The viewer is at './'.");
            answer.headers_mut().insert(header::LOCATION, HeaderValue::from_static("./"));
            answer
        };
        if let Some(cookie) = self.gate.set_cookie(request) {
            answer.headers_mut().insert(header::SET_COOKIE, cookie);
        }
        answer
    }

    /// Makes a WebSocket of the connection (RFC 6455, section 4.2).
    fn connect(&self, request: &Parts, upgrade: OnUpgrade, alive: &Alive) -> Answer {
        let headers = &request.headers;
        if !security::is_own_origin(request) {
            return words(StatusCode::FORBIDDEN, "Only pages of this viewer may connect.");
        }
        let key = headers.get(header::SEC_WEBSOCKET_KEY).filter(|key| key.len() == 24);
        let asks = has_word(headers, header::UPGRADE, "websocket")
            && has_word(headers, header::CONNECTION, "upgrade")
            && headers.get(header::SEC_WEBSOCKET_VERSION).is_some_and(|version| version == "13");
        let Some(key) = key.filter(|_| asks) else {
            return words(StatusCode::BAD_REQUEST, "This is no request for a WebSocket.");
        };
        let Ok(place) = self.clients.clone().try_acquire_owned() else {
            return words(StatusCode::SERVICE_UNAVAILABLE, "There are too many clients already.");
        };
        let (session, stopped) = (Session::new(self.host.clone()), self.stopped.clone());
        let alive = alive.clone();
        tokio::spawn(async move {
            if let Ok(connection) = upgrade.await {
                socket::serve(TokioIo::new(connection), session, stopped).await;
            }
            drop((place, alive));
        });
        let mut answer = Response::new(Full::new(Bytes::new()));
        *answer.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = answer.headers_mut();
        headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
        headers.insert(header::CONNECTION, HeaderValue::from_static("upgrade"));
        if let Ok(accept) = HeaderValue::from_str(&derive_accept_key(key.as_bytes())) {
            headers.insert(header::SEC_WEBSOCKET_ACCEPT, accept);
        }
        answer
    }
}

fn token_of(query: Option<&str>) -> Option<&str> {
    query?.split('&').find_map(|pair| pair.strip_prefix("token="))
}

fn has_word(headers: &HeaderMap, name: HeaderName, word: &str) -> bool {
    let lines = headers.get_all(name);
    let mut lines = lines.iter().filter_map(|line| line.to_str().ok());
    lines.any(|line| line.split(',').any(|each| each.trim().eq_ignore_ascii_case(word)))
}
