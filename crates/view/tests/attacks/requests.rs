//! Requests that are none.

use crate::support::{Bench, LONG};
use std::io::{Read, Write};
use std::net::Shutdown;
use std::time::{Duration, Instant};

#[test]
fn paths_that_lead_elsewhere() {
    let bench = Bench::new();
    let cookie = bench.cookie();
    for path in [
        "/../../etc/passwd",
        "/..%2f..%2fetc%2fpasswd",
        "/%2e%2e/%2e%2e/etc/passwd",
        "/%252e%252e%252fetc%252fpasswd",
        "/..\\..\\windows\\win.ini",
        "/..%5c..%5cwindows",
        "/scan.npy",
        "/viewer.js%00.html",
        "/viewer.js/",
        "/viewer.js/../scan.npy",
        "//viewer.js/..",
        "/./viewer.js",
        "/VIEWER.JS",
        "/favicon.ico",
        "/.git/config",
        "/%ff%fe",
        "/file:///etc/passwd",
    ] {
        let reply = bench.get(path, &cookie);
        assert_eq!(reply.status, 404, "{path}: {reply:?}");
        assert_eq!(reply.body, "There is nothing of that name.\n");
        assert_eq!(bench.get(path, "").status, 403, "{path}");
    }
    for path in ["/viewer.js\0", "/a b", "\\", "", "viewer.js"] {
        let reply = bench.get(path, &cookie);
        assert!(matches!(reply.status, 0 | 400 | 404), "{path}: {reply:?}");
    }
}

#[test]
fn other_methods() {
    let bench = Bench::new();
    let (cookie, host) = (bench.cookie(), bench.host());
    for method in ["POST", "PUT", "DELETE", "OPTIONS", "TRACE", "HEAD", "PATCH", "PROPFIND", "get"]
    {
        let request =
            format!("{method} / HTTP/1.1\r\nhost: {host}\r\norigin: http://{host}\r\n{cookie}\r\n");
        let reply = bench.raw(request);
        assert_eq!((reply.status, reply.header("allow")), (405, Some("get")), "{method}");
        assert!(!reply.head.contains("access-control") && !reply.body.contains("cookie"));
    }
    let reply = bench.raw(format!("CONNECT {host} HTTP/1.1\r\nhost: {host}\r\n{cookie}\r\n"));
    assert!(matches!(reply.status, 400 | 405), "{reply:?}");
}

#[test]
fn bodies_and_requests_within_them() {
    let bench = Bench::new();
    let (cookie, host) = (bench.cookie(), bench.host());
    let inner = format!("GET /viewer.js HTTP/1.1\r\nhost: {host}\r\n{cookie}\r\n");
    for framing in [
        format!("content-length: {}", inner.len()),
        "transfer-encoding: chunked".to_owned(),
        format!("content-length: {}\r\ntransfer-encoding: chunked", inner.len()),
        format!("content-length: 0\r\ncontent-length: {}", inner.len()),
        "content-length: 99999999999999999999".to_owned(),
        "content-length: -1".to_owned(),
    ] {
        let reply = bench
            .raw(format!("GET / HTTP/1.1\r\nhost: {host}\r\n{cookie}{framing}\r\n\r\n{inner}"));
        assert!(matches!(reply.status, 400 | 413), "{framing}: {reply:?}");
        assert_eq!(reply.body.matches("HTTP/1.1").count(), 0, "two answers: {reply:?}");
    }
    // One connection, one answer.
    let two = format!("GET / HTTP/1.1\r\nhost: {host}\r\n{cookie}\r\n").repeat(2);
    let reply = bench.raw(two);
    assert_eq!((reply.status, reply.body.matches("HTTP/1.1").count()), (200, 0));
}

#[test]
fn huge_heads() {
    let bench = Bench::new();
    let host = bench.host();
    for request in [
        format!("GET /{} HTTP/1.1\r\nhost: {host}\r\n\r\n", "a".repeat(1 << 20)),
        format!("GET / HTTP/1.1\r\nhost: {host}\r\nx: {}\r\n\r\n", "a".repeat(1 << 20)),
        format!("GET / HTTP/1.1\r\nhost: {host}\r\n{}\r\n", "x: y\r\n".repeat(1000)),
        format!("GET / HTTP/1.1\r\n{}", "a".repeat(1 << 20)),
        "A".repeat(1 << 20),
    ] {
        let reply = bench.raw(request);
        assert!(matches!(reply.status, 0 | 400 | 414 | 431), "{reply:?}");
    }
    // Cookies of all servers of this machine are long.
    let cookie = bench.cookie();
    let cookie = cookie.trim_start_matches("cookie: ");
    let long = format!("cookie: {}{cookie}", "other-cookie=0123456789; ".repeat(1000));
    assert_eq!(bench.get("/", &long).status, 200);
}

#[test]
fn garbage() {
    let bench = Bench::new();
    let noise: Vec<u8> =
        (0_u32..100_000).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    for bytes in [
        noise.as_slice(),
        b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03 a TLS hello",
        b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n",
        b"\r\n\r\n\r\n\r\n",
        b"GET / HTTP/9.9\r\nhost: localhost\r\n\r\n",
        b"GET / HTTP/1.1\r\nhost: local\x00host\r\n\r\n",
        b"GET / HTTP/1.1\r\n host: localhost\r\n\r\n",
        b"GET\t/\tHTTP/1.1\r\nhost: localhost\r\n\r\n",
    ] {
        let mut stream = bench.connect();
        let _ = stream.write_all(bytes);
        let _ = stream.shutdown(Shutdown::Write);
        let reply = crate::support::Reply::read(&mut stream);
        assert!(matches!(reply.status, 0 | 400 | 403 | 414 | 431), "{reply:?}");
    }
    assert_eq!(bench.get("/", &bench.cookie()).status, 200);
}

/// Byte by byte: the whole head has ten seconds.
#[test]
fn slow_heads_are_cut_off() {
    let bench = Bench::new();
    let mut stream = bench.connect();
    let begin = Instant::now();
    let mut sent = 0;
    stream.set_read_timeout(Some(Duration::from_millis(250))).unwrap();
    let head = format!("GET / HTTP/1.1\r\nhost: localhost\r\nx: {}", "a".repeat(1000));
    for byte in head.bytes() {
        if stream.write_all(&[byte]).is_err() {
            break;
        }
        sent += 1;
        let mut buffer = [0; 512];
        match stream.read(&mut buffer) {
            Ok(0) => break,
            Ok(_) => {}
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {}
            Err(_) => break,
        }
        assert!(begin.elapsed() < LONG, "{sent} bytes in {:?}", begin.elapsed());
    }
    assert!(sent > 8 && sent < 200, "{sent}");
    assert!(begin.elapsed() > Duration::from_secs(5), "{:?}", begin.elapsed());
}

/// Strangers cannot take all places for ever, nor keep those who are in from being answered.
#[test]
fn connections_that_say_nothing() {
    let bench = Bench::new();
    let mut client = bench.client();
    let silent: Vec<_> = (0..100).map(|_| bench.connect()).collect();
    client.assert_well();
    // Each has ten seconds, once it is its turn.
    for (i, mut stream) in silent.into_iter().enumerate() {
        stream.set_read_timeout(Some(LONG)).unwrap();
        let mut bytes = Vec::new();
        let end = stream.read_to_end(&mut bytes);
        assert!(!end.is_err_and(|error| error.kind() == std::io::ErrorKind::WouldBlock), "{i}");
    }
    assert_eq!(bench.get("/", &bench.cookie()).status, 200);
    client.assert_well();
}

#[test]
fn connections_half_closed() {
    let bench = Bench::new();
    for _ in 0..50 {
        let stream = bench.connect();
        stream.shutdown(Shutdown::Write).unwrap();
        let mut stream = bench.connect();
        stream.write_all(b"GET / HT").unwrap();
        stream.shutdown(Shutdown::Both).unwrap();
    }
    let mut client = bench.client();
    client.hello();
    client.stream.shutdown(Shutdown::Write).unwrap();
    client.read_to_end();
    bench.client().assert_well();
}

#[test]
fn no_request_for_a_websocket() {
    let bench = Bench::new();
    let (cookie, host) = (bench.cookie(), bench.host());
    let good = [
        "upgrade: websocket",
        "connection: upgrade",
        "sec-websocket-version: 13",
        "sec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==",
    ];
    let bad =
        ["upgrade: h2c", "connection: close", "sec-websocket-version: 8", "sec-websocket-key: x"];
    for i in 0..good.len() {
        for replaced in [None, Some(bad[i])] {
            let mut lines = good.to_vec();
            match replaced {
                Some(line) => lines[i] = line,
                None => drop(lines.remove(i)),
            }
            let headers = format!("{cookie}origin: http://{host}\r\n{}\r\n", lines.join("\r\n"));
            let reply = bench.get("/ws", &headers);
            assert_eq!(reply.status, 400, "{lines:?}");
        }
    }
}
