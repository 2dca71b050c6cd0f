//! Who is let in, and what answers tell browsers to refuse.
//!
//! A page of another site can make a browser send requests here. It has no cookie of this server (`SameSite`), it is
//! distinguished by `Origin`, and if it had its own name point to this machine (DNS rebinding), by `Host`.

use super::limits;
use super::token::Secret;
use bytes::Bytes;
use framefold::Result;
use http_body_util::Full;
use hyper::header::{self, HeaderMap, HeaderName, HeaderValue};
use hyper::http::request::Parts;
use hyper::{Method, Response, StatusCode};
use std::sync::{Mutex, PoisonError};
use std::time::Instant;

/// An answer.
pub(super) type Answer = Response<Full<Bytes>>;

/// What every answer tells the browser.
const HEADERS: [(HeaderName, &str); 7] = [
    (
        header::CONTENT_SECURITY_POLICY,
        "default-src 'self'; img-src 'self' data: blob:; object-src 'none'; base-uri 'none'; \
         form-action 'none'; frame-ancestors 'self'",
    ),
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::REFERRER_POLICY, "no-referrer"),
    (header::CACHE_CONTROL, "no-store"),
    (header::X_FRAME_OPTIONS, "SAMEORIGIN"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
];

/// Who is let in.
pub(super) struct Gate {
    /// In links.
    token: Secret,
    /// In the cookie, which a browser gets for the token.
    cookie: Secret,
    /// Lets in once, and up to some time.
    ticket: Mutex<Option<(Secret, Instant)>>,
    /// Names by which this machine may be called; `None` if only this user can reach the socket.
    hosts: Option<Vec<String>>,
}

/// How someone was let in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Entrance {
    Cookie,
    Token,
}

impl Gate {
    pub(super) fn new(token: Secret, cookie: Secret, hosts: Option<Vec<String>>) -> Self {
        Gate { token, cookie, ticket: Mutex::new(None), hosts }
    }

    /// A token that lets in once: others may see it in the list of this machine's processes.
    ///
    /// # Errors
    /// `Io` if the system has none.
    pub(super) fn ticket(&self) -> Result<String> {
        let ticket = Secret::new()?;
        let text = ticket.text().to_owned();
        let until = Instant::now() + limits::TICKET_TIME;
        *self.ticket.lock().unwrap_or_else(PoisonError::into_inner) = Some((ticket, until));
        Ok(text)
    }

    fn takes(&self, token: &str) -> bool {
        let mut ticket = self.ticket.lock().unwrap_or_else(PoisonError::into_inner);
        let right = ticket.take_if(|(ticket, _)| ticket.is(token));
        right.is_some_and(|(_, until)| Instant::now() <= until)
    }

    /// What is wrong with a request from any client, if something is.
    pub(super) fn refuse(&self, request: &Parts) -> Option<Answer> {
        let Some(host) = host_of(request) else {
            return Some(words(
                StatusCode::BAD_REQUEST,
                "The request does not say for which host it is.",
            ));
        };
        if !self.allows(host) {
            return Some(words(
                StatusCode::FORBIDDEN,
                "This viewer is not served under that name. If it should be: framefold view --allow-host NAME",
            ));
        }
        if request.method != Method::GET {
            let mut answer = words(StatusCode::METHOD_NOT_ALLOWED, "Only GET is answered.");
            answer.headers_mut().insert(header::ALLOW, HeaderValue::from_static("GET"));
            return Some(answer);
        }
        let has_body = request.headers.contains_key(header::TRANSFER_ENCODING)
            || request.headers.get(header::CONTENT_LENGTH).is_some_and(|len| len != "0");
        has_body.then(|| words(StatusCode::PAYLOAD_TOO_LARGE, "A request has no body here."))
    }

    fn allows(&self, host: &str) -> bool {
        let Some(hosts) = &self.hosts else { return true };
        let name = name_of(host);
        hosts.iter().any(|allowed| allowed.eq_ignore_ascii_case(name))
    }

    /// How the one who sent a request is let in, if at all. `token` is the one in the address.
    pub(super) fn entrance(&self, request: &Parts, token: Option<&str>) -> Option<Entrance> {
        let host = host_of(request)?;
        let own = cookie_name(host);
        let cookies = request.headers.get_all(header::COOKIE).iter();
        let cookies = cookies.filter_map(|line| line.to_str().ok());
        let mut cookies = cookies
            .flat_map(|line| line.split(';'))
            .filter_map(|cookie| cookie.trim().split_once('=').filter(|(name, _)| *name == own));
        if token.is_some_and(|token| self.token.is(token) || self.takes(token)) {
            Some(Entrance::Token)
        } else if cookies.any(|(_, value)| self.cookie.is(value)) {
            Some(Entrance::Cookie)
        } else {
            None
        }
    }

    /// What gives a browser the cookie. It is sent back to this folder of this server only: no path means the
    /// one that the browser sees, also behind a proxy.
    pub(super) fn set_cookie(&self, request: &Parts) -> Option<HeaderValue> {
        let name = cookie_name(host_of(request)?);
        let text = format!("{name}={}; HttpOnly; SameSite=Strict", self.cookie.text());
        HeaderValue::from_str(&text).ok()
    }
}

/// Whether the page that opens a WebSocket is one of this server.
pub(super) fn is_own_origin(request: &Parts) -> bool {
    let mut origins = request.headers.get_all(header::ORIGIN).iter();
    let (Some(origin), None) = (origins.next(), origins.next()) else { return false };
    let origin = origin.to_str().unwrap_or_default();
    let authority = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    match (authority, host_of(request)) {
        (Some(authority), Some(host)) => authority.eq_ignore_ascii_case(host),
        _ => false,
    }
}

/// The host for which a request is, with the port, if it says exactly one.
pub(super) fn host_of(request: &Parts) -> Option<&str> {
    let mut hosts = request.headers.get_all(header::HOST).iter();
    match (hosts.next(), hosts.next()) {
        (Some(host), None) if request.uri.authority().is_none() => {
            host.to_str().ok().filter(|host| !host.is_empty())
        }
        _ => None,
    }
}

/// The name in `name:port`; that of an IPv6 address has brackets.
fn name_of(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) => name,
        _ => host,
    }
}

/// Browsers send a cookie to all ports of a machine: the name says for which it is.
fn cookie_name(host: &str) -> String {
    let port = host.strip_prefix(name_of(host)).unwrap_or_default().trim_start_matches(':');
    if port.is_empty() { "framefold-view".to_owned() } else { format!("framefold-view-{port}") }
}

/// An answer of words.
pub(super) fn words(status: StatusCode, text: &str) -> Answer {
    answer(status, "text/plain; charset=utf-8", Bytes::from(format!("{text}\n")))
}

/// An answer, with what every answer tells the browser.
pub(super) fn answer(status: StatusCode, media_type: &'static str, body: Bytes) -> Answer {
    let mut answer = Response::new(Full::new(body));
    *answer.status_mut() = status;
    let headers = answer.headers_mut();
    protect(headers);
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(media_type));
    // Clients that wait hold no connection. The server itself is not set to do so: it would say "close" of a
    // WebSocket, too, and some proxies then take it for none.
    headers.insert(header::CONNECTION, HeaderValue::from_static("close"));
    answer
}

fn protect(headers: &mut HeaderMap) {
    for (name, value) in HEADERS {
        headers.insert(name, HeaderValue::from_static(value));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hyper::Request;

    fn request(headers: &[(&str, &str)]) -> Parts {
        let mut request = Request::builder().uri("/");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        request.body(()).unwrap().into_parts().0
    }

    fn gate() -> Gate {
        let hosts = ["localhost", "127.0.0.1", "[::1]", "hub.example.org"].map(str::to_owned);
        Gate::new(Secret::new().unwrap(), Secret::new().unwrap(), Some(hosts.to_vec()))
    }

    #[test]
    fn hosts() {
        let gate = gate();
        for host in
            ["localhost", "LOCALHOST:80", "127.0.0.1:1", "[::1]:8000", "[::1]", "hub.example.org"]
        {
            assert!(gate.refuse(&request(&[("host", host)])).is_none(), "{host}");
        }
        for host in [
            "example.org",
            "localhost.example.org",
            "127.0.0.1.example.org",
            "127.0.0.2",
            "0.0.0.0",
            "::1",
            "localhost:80:80",
            "localhost@evil",
            "localhost:80a",
            "evil:80",
            "localhost.",
            "",
        ] {
            assert!(gate.refuse(&request(&[("host", host)])).is_some(), "{host}");
        }
        assert!(gate.refuse(&request(&[])).is_some());
        assert!(gate.refuse(&request(&[("host", "localhost"), ("host", "localhost")])).is_some());
    }

    #[test]
    fn origins() {
        let own = |origin| is_own_origin(&request(&[("host", "localhost:8"), ("origin", origin)]));
        assert!(own("http://localhost:8") && own("https://LOCALHOST:8"));
        for origin in [
            "null",
            "",
            "http://localhost",
            "http://localhost:9",
            "http://127.0.0.1:8",
            "localhost:8",
            "http://localhost:8.evil",
            "http://evil",
            "file://localhost:8",
            "http://localhost:8/",
        ] {
            assert!(!own(origin), "{origin}");
        }
        assert!(!is_own_origin(&request(&[("host", "localhost:8")])));
        let two = ("origin", "http://localhost:8");
        assert!(!is_own_origin(&request(&[("host", "localhost:8"), two, two])));
    }

    #[test]
    fn cookies() {
        let gate = gate();
        let value = gate.cookie.text().to_owned();
        let enters = |host: &str, cookie: &str| {
            gate.entrance(&request(&[("host", host), ("cookie", cookie)]), None).is_some()
        };
        assert!(enters("localhost:8", &format!("a=b; framefold-view-8={value}")));
        assert!(enters("localhost", &format!("framefold-view={value};c")));
        assert!(enters("[::1]:8", &format!("framefold-view-8=old;framefold-view-8={value}")));
        assert!(!enters("localhost:9", &format!("framefold-view-8={value}")));
        assert!(!enters("localhost:8", &format!("framefold-view-8={}", gate.token.text())));
        assert!(!enters("localhost:8", "framefold-view-8="));
        let token = gate.token.text();
        let plain = request(&[("host", "localhost:8")]);
        assert_eq!(gate.entrance(&plain, Some(token)), Some(Entrance::Token));
        assert_eq!(gate.entrance(&plain, Some(&value)), None);
        assert_eq!(gate.entrance(&plain, None), None);
        let ticket = gate.ticket().unwrap();
        assert_eq!(gate.entrance(&plain, Some(&ticket[..63])), None);
        assert_eq!(gate.entrance(&plain, Some(&ticket)), Some(Entrance::Token));
        assert_eq!(gate.entrance(&plain, Some(&ticket)), None, "twice");
        let ticket = gate.ticket().unwrap();
        gate.ticket.lock().unwrap().as_mut().unwrap().1 = Instant::now() - limits::TICKET_TIME;
        assert_eq!(gate.entrance(&plain, Some(&ticket)), None, "too late");
        let set = gate.set_cookie(&plain).unwrap();
        let set = set.to_str().unwrap();
        assert_eq!(set, format!("framefold-view-8={value}; HttpOnly; SameSite=Strict"));
    }
}
