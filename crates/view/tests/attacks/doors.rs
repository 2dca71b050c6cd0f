//! Who is let in, and what answers tell browsers.

use crate::support::{Bench, Reply, Setup, Ws};
use framefold_view::serve::ServeOptions;

const PATHS: [&str; 5] = ["/", "/viewer.js", "/viewer.css", "/ws", "/unknown"];

/// That nothing of the viewer is in an answer.
fn assert_refused(reply: &Reply, status: u16) {
    assert_eq!(reply.status, status, "{reply:?}");
    assert!(!reply.body.contains("<script") && !reply.head.contains("set-cookie"), "{reply:?}");
}

#[test]
fn no_token() {
    let bench = Bench::new();
    for path in PATHS {
        assert_refused(&bench.get(path, ""), 403);
    }
}

#[test]
fn wrong_token() {
    let bench = Bench::new();
    let token = bench.token();
    let almost = format!("{}{}", &token[..63], if token.ends_with('0') { '1' } else { '0' });
    for wrong in
        ["", "0", &token[..32], &almost, &format!("{token}0"), &token.to_uppercase(), "%00"]
    {
        if wrong != token {
            assert_refused(&bench.get(&format!("/?token={wrong}"), ""), 403);
        }
    }
}

#[test]
fn the_token_in_another_place() {
    let bench = Bench::new();
    let token = bench.token();
    for headers in [
        format!("authorization: Bearer {token}\r\n"),
        format!("authorization: token {token}\r\n"),
        format!("x-token: {token}\r\n"),
        format!("cookie: token={token}\r\n"),
        format!("cookie: framefold-view-{}={token}\r\n", bench.address().port()),
    ] {
        assert_refused(&bench.get("/", &headers), 403);
    }
    for path in PATHS.iter().filter(|path| **path != "/") {
        assert_refused(&bench.get(&format!("{path}?token={token}"), ""), 403);
    }
}

#[test]
fn the_token_gives_a_cookie_and_goes_from_the_address() {
    let bench = Bench::new();
    let link = format!("/?token={}", bench.token());
    let reply = bench.get(&link, "");
    assert_eq!((reply.status, reply.header("location")), (303, Some("./")));
    let cookie = reply.header("set-cookie").unwrap();
    assert!(cookie.ends_with("; httponly; samesite=strict"), "{cookie}");
    assert!(cookie.starts_with(&format!("framefold-view-{}=", bench.address().port())));
    assert!(!cookie.contains(&bench.token()));
    let page = bench.get("/", &bench.cookie());
    assert_eq!(page.status, 200);
    assert!(page.body.contains("viewer.js") && !page.body.contains(&bench.token()));
    // From a link of another site, the page goes on by itself: a cookie is not sent after a redirect then.
    let reply = bench.get(&link, "sec-fetch-site: cross-site\r\n");
    assert_eq!(reply.status, 200);
    assert!(reply.body.contains("http-equiv=\"refresh\"") && reply.head.contains("set-cookie"));
}

#[test]
fn what_is_served_to_those_who_are_let_in() {
    let bench = Bench::new();
    let cookie = bench.cookie();
    for (path, media_type) in
        [("/", "text/html"), ("/viewer.js", "text/javascript"), ("/viewer.css", "text/css")]
    {
        let reply = bench.get(path, &cookie);
        assert_eq!(reply.status, 200);
        assert!(reply.header("content-type").unwrap().starts_with(media_type));
        // Nothing is fetched from elsewhere: the only addresses are names of kinds of elements.
        let body = reply.body.replace("http://www.w3.org/", "");
        assert!(!body.contains("http://") && !body.contains("https://"), "{path}");
    }
}

#[test]
fn files_are_compressed_for_browsers_that_take_it_and_refusals_are_not() {
    let bench = Bench::new();
    let cookie = bench.cookie();
    for path in ["/", "/viewer.js", "/viewer.css"] {
        let plain = bench.get(path, &cookie);
        assert_eq!(
            (plain.header("content-encoding"), plain.header("vary")),
            (None, Some("accept-encoding"))
        );
        let packed = bench.get(path, &format!("{cookie}accept-encoding: br, gzip\r\n"));
        assert_eq!((packed.status, packed.header("content-encoding")), (200, Some("gzip")));
        assert_eq!(
            (packed.header("vary"), packed.header("content-type")),
            (plain.header("vary"), plain.header("content-type"))
        );
        let len: usize = packed.header("content-length").unwrap().parse().unwrap();
        assert!(len == packed.bytes.len() && len < plain.bytes.len() * 2 / 3, "{path}: {len}");
        let mut bytes = vec![0; plain.bytes.len()];
        let mut tool = libdeflater::Decompressor::new();
        assert_eq!(tool.gzip_decompress(&packed.bytes, &mut bytes).unwrap(), bytes.len());
        assert!(bytes == plain.bytes, "{path}");
        // Who is not let in gets the words that all get; and only who asks for it gets what is compressed.
        let refused = bench.get(path, "accept-encoding: gzip\r\n");
        assert_refused(&refused, 403);
        assert_eq!(refused.header("content-encoding"), None);
        for odd in ["gzip;q=0", "identity", "gzip\u{e9}", &"x,".repeat(20_000), ";;;,,;q"] {
            let reply = bench.get(path, &format!("{cookie}accept-encoding: {odd}\r\n"));
            assert_eq!((reply.status, reply.header("content-encoding")), (200, None), "{odd:.20}");
        }
    }
}

/// Answers of all kinds have them.
#[test]
fn headers_that_protect() {
    let bench = Bench::new();
    let cookie = bench.cookie();
    let replies = [
        bench.get("/", &cookie),
        bench.get("/viewer.js", &cookie),
        bench.get("/", ""),
        bench.get("/unknown", &cookie),
        bench.get(&format!("/?token={}", bench.token()), ""),
        bench.raw("POST / HTTP/1.1\r\nhost: localhost\r\ncontent-length: 0\r\n\r\n"),
    ];
    for reply in replies {
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "no-referrer"),
            ("cache-control", "no-store"),
            ("x-frame-options", "sameorigin"),
            ("cross-origin-resource-policy", "same-origin"),
        ] {
            assert_eq!(reply.header(name), Some(value), "{reply:?}");
        }
        let policy = reply.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'self'"), "{policy}");
        assert!(
            policy.contains("frame-ancestors 'self'") && !policy.contains("unsafe"),
            "{policy}"
        );
        assert!(!reply.head.contains("access-control"), "{reply:?}");
    }
}

#[test]
fn another_host_as_after_dns_rebinding() {
    let bench = Bench::new();
    let port = bench.address().port();
    let (cookie, token) = (bench.cookie(), bench.token());
    for host in [
        "evil.example".to_owned(),
        format!("evil.example:{port}"),
        format!("127.0.0.1.evil:{port}"),
    ] {
        let request = format!("GET / HTTP/1.1\r\nhost: {host}\r\n{cookie}\r\n");
        assert_refused(&bench.raw(request), 403);
        let request = format!("GET /?token={token} HTTP/1.1\r\nhost: {host}\r\n\r\n");
        assert_refused(&bench.raw(request), 403);
        let headers = format!("{cookie}origin: http://{host}\r\n");
        let refused = Ws::open(bench.connect(), &host, &headers).err().unwrap();
        assert_eq!(refused.status, 403);
    }
    let own = format!("GET / HTTP/1.1\r\nhost: localhost:{port}\r\n{cookie}\r\n");
    assert_eq!(bench.raw(own).status, 200);
}

#[test]
fn no_host_several_or_one_in_the_target() {
    let bench = Bench::new();
    let (cookie, host) = (bench.cookie(), bench.host());
    for head in [
        format!("GET / HTTP/1.1\r\n{cookie}\r\n"),
        format!("GET / HTTP/1.0\r\n{cookie}\r\n"),
        format!("GET / HTTP/1.1\r\nhost:\r\n{cookie}\r\n"),
        format!("GET / HTTP/1.1\r\nhost: {host}\r\nhost: evil\r\n{cookie}\r\n"),
        format!("GET http://evil.example/ HTTP/1.1\r\nhost: {host}\r\n{cookie}\r\n"),
    ] {
        assert_refused(&bench.raw(head), 400);
    }
}

#[test]
fn names_that_are_allowed() {
    let serve =
        ServeOptions { allow_hosts: vec!["hub.example.org".to_owned()], ..ServeOptions::default() };
    let bench = Bench::with(|_| Setup { serve, ..Setup::default() });
    let token = bench.token();
    let request = |host: &str| format!("GET /?token={token} HTTP/1.1\r\nhost: {host}\r\n\r\n");
    assert_eq!(bench.raw(request("hub.example.org")).status, 303);
    assert_refused(&bench.raw(request("x.hub.example.org")), 403);
}

#[test]
fn pages_of_others_do_not_connect() {
    let bench = Bench::new();
    let (cookie, host, port) = (bench.cookie(), bench.host(), bench.address().port());
    let other = Bench::new().host();
    for origin in [
        String::new(),
        "origin: null\r\n".to_owned(),
        "origin: \r\n".to_owned(),
        "origin: http://evil.example\r\n".to_owned(),
        format!("origin: http://evil.example:{port}\r\n"),
        format!("origin: http://localhost:{port}\r\n"),
        format!("origin: http://{other}\r\n"),
        format!("origin: http://{host}.evil.example\r\n"),
        "origin: http://127.0.0.1\r\n".to_owned(),
        format!("origin: http://{host}\r\norigin: http://evil.example\r\n"),
        "origin: file://\r\n".to_owned(),
    ] {
        let refused = Ws::open(bench.connect(), &host, &format!("{cookie}{origin}")).err();
        assert_eq!(refused.map(|reply| reply.status), Some(403), "{origin}");
    }
    // The right one, without the cookie.
    let refused = Ws::open(bench.connect(), &host, &format!("origin: http://{host}\r\n")).err();
    assert_eq!(refused.map(|reply| reply.status), Some(403));
    bench.client().assert_well();
}

#[test]
fn the_cookie_of_another_viewer() {
    let (one, other) = (Bench::new(), Bench::new());
    assert_eq!(one.get("/", &one.cookie()).status, 200);
    assert_refused(&other.get("/", &one.cookie()), 403);
    // Under the name that the other one has.
    let (_, value) =
        one.cookie().trim().rsplit_once('=').map(|(a, b)| (a.to_owned(), b.to_owned())).unwrap();
    let renamed = format!("cookie: framefold-view-{}={value}\r\n", other.address().port());
    assert_refused(&other.get("/", &renamed), 403);
    // A browser sends both.
    let value = |bench: &Bench| bench.cookie().trim().split_once(": ").unwrap().1.to_owned();
    let both = format!("cookie: {}; {}\r\n", value(&one), value(&other));
    assert_eq!((one.get("/", &both).status, other.get("/", &both).status), (200, 200));
}

#[test]
fn behind_a_path() {
    let serve = ServeOptions { base_url: "/user/me/".to_owned(), ..ServeOptions::default() };
    let bench = Bench::with(|_| Setup { serve, ..Setup::default() });
    assert!(bench.server.link().contains("/user/me/?token="));
    let reply = bench.get(&format!("/user/me/?token={}", bench.token()), "");
    assert_eq!((reply.status, reply.header("location")), (303, Some("./")));
    let cookie = bench.cookie();
    // As a proxy leaves it, and as one cuts it.
    for path in ["/user/me/viewer.js", "/viewer.js", "/user/me/", "/"] {
        assert_eq!(bench.get(path, &cookie).status, 200, "{path}");
    }
    // Names in the page would be wrong without the slash.
    assert_eq!(bench.get("/user/me", &cookie).status, 404);
    assert_eq!(bench.get("/user/other/viewer.js", &cookie).status, 404);
}

/// A link out of the browser's command line is no longer valid.
#[test]
fn the_link_for_the_browser_works_once() {
    let bench = Bench::new();
    let link = bench.server.link_for_once().unwrap();
    let target = format!("/?{}", link.split_once('?').unwrap().1);
    assert_ne!(link, bench.server.link());
    assert_eq!(bench.get(&target, "").status, 303);
    assert_refused(&bench.get(&target, ""), 403);
    assert_eq!(bench.get(&format!("/?token={}", bench.token()), "").status, 303);
}
