//! The end of the server, and its idle time.

use crate::support::{Bench, Frame};
use serde_json::json;
use std::time::{Duration, Instant};

#[test]
fn the_server_is_ended_while_someone_drags() {
    let mut bench = Bench::new();
    let mut client = bench.client();
    let mut other = bench.client();
    for generation in 1..=100 {
        client.ask(generation, &json!({}), "fast");
    }
    let begin = Instant::now();
    bench.server.stop();
    assert!(begin.elapsed() < Duration::from_secs(2), "{:?}", begin.elapsed());
    for client in [&mut client, &mut other] {
        let (_, code) = client.read_to_end();
        assert_eq!(code, Some(1001), "going away");
    }
    assert!(std::net::TcpStream::connect(bench.address()).is_err());
}

#[test]
fn a_client_that_says_goodbye_is_let_go() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.frame(0x88, Some([0; 4]), &1000_u16.to_be_bytes());
    assert_eq!(client.next(), Frame::Close(Some(1000)));
    assert_eq!(client.next(), Frame::End);
}

#[cfg(unix)]
#[test]
fn a_unix_socket_is_its_users_alone_and_goes_with_the_server() {
    use crate::support::Setup;
    use framefold_view::serve::ServeOptions;
    use std::io::{Read, Write};
    use std::os::unix::fs::PermissionsExt;
    use std::os::unix::net::UnixStream;
    let mut bench = Bench::with(|dir| {
        let socket = Some(dir.join("socket"));
        Setup { serve: ServeOptions { socket, ..ServeOptions::default() }, ..Setup::default() }
    });
    let path = bench.dir.path().join("socket");
    let mode = std::fs::metadata(&path).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    let get = |target: &str| {
        let mut stream = UnixStream::connect(&path).unwrap();
        let request = format!("GET {target} HTTP/1.1\r\nhost: hub.example.org\r\n\r\n");
        stream.write_all(request.as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    };
    assert!(get("/").starts_with("HTTP/1.1 403"));
    let link = bench.server.link();
    assert!(link.starts_with("/?token="), "{link}");
    assert!(get(&link).starts_with("HTTP/1.1 303"));
    bench.server.stop();
    assert!(!path.exists());
}
