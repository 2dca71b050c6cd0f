//! `framefold view`: what it prints, what it refuses, and how it ends.

use crate::support::Bench;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::{Duration, Instant};

/// A viewer that goes on, ended with the test.
struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
    link: String,
}

impl Running {
    fn start(bench: &Bench, line: &str) -> Self {
        let mut command = bench.command(line);
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut out = BufReader::new(child.stdout.take().unwrap());
        let mut link = String::new();
        out.read_line(&mut link).unwrap();
        Running { child, out, link: link.trim_end().to_owned() }
    }

    fn line(&mut self) -> String {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        line
    }

    /// `127.0.0.1:PORT`, and what follows it.
    fn address(&self) -> (String, String) {
        let rest = self.link.strip_prefix("http://").unwrap();
        let (host, path) = rest.split_once('/').unwrap();
        (host.to_owned(), format!("/{path}"))
    }

    fn get(&self) -> String {
        let (host, path) = self.address();
        let mut stream = TcpStream::connect(&host).unwrap();
        write!(stream, "GET {path} HTTP/1.1\r\nhost: {host}\r\n\r\n").unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// What an attempt with a port of its own gives: with another one if that was taken meanwhile.
fn with_port<T>(attempt: impl Fn(u16) -> Option<T>) -> T {
    let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    (0..5).find_map(|_| attempt(free())).expect("a port")
}

#[test]
fn the_link_is_the_first_line_and_how_to_reach_it_the_second() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    let mut running = Running::start(&bench, "view scan.npy --no-browser");
    assert!(running.link.starts_with("http://127.0.0.1:"), "{}", running.link);
    let (host, path) = running.address();
    assert_eq!(path.strip_prefix("/?token=").unwrap().len(), 64);
    let port = host.split_once(':').unwrap().1.to_owned();
    let second = running.line();
    assert!(second.contains(&format!("ssh -N -L {port}:127.0.0.1:{port} ")), "{second}");
    assert!(running.get().starts_with("HTTP/1.1 303"));
}

#[test]
fn a_port_a_path_and_a_state() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    std::fs::write(bench.path("state.json"), r#"{"version": 1}"#).unwrap();
    let line = |port| {
        format!("view scan.npy --no-browser --port {port} --base-url /x/y --state state.json")
    };
    let (port, running) = with_port(|port| {
        let running = Running::start(&bench, &line(port));
        (!running.link.is_empty()).then_some((port, running))
    });
    let expected = format!("http://127.0.0.1:{port}/x/y/?token=");
    assert!(running.link.starts_with(&expected), "{}", running.link);
    // The port is taken now.
    let second = bench.call(&line(port));
    second.assert_failed(5, &["listen on", &port.to_string(), "choose another port"]);
}

#[test]
fn what_cannot_work_is_refused_in_one_line() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    std::fs::write(bench.path("broken.npy"), b"").unwrap();
    bench.npy("complex.npy", "<c8", "1, 2, 2", &[0; 32]);
    std::fs::write(bench.path("state.json"), b"[1]").unwrap();
    std::fs::write(bench.path("words.json"), b"words").unwrap();
    for (line, code, words) in [
        ("view", 2, &["<FILE>"][..]),
        ("view none.npy", 5, &["'none.npy'"]),
        ("view broken.npy", 3, &["'broken.npy'", "empty"]),
        ("view scan.npy --nav-shape 0,3", 2, &["length 0"]),
        ("view scan.npy --port 70000", 2, &["70000"]),
        ("view scan.npy --host example.org", 2, &["example.org"]),
        ("view scan.npy --budget much", 2, &["500MB"]),
        ("view scan.npy --root none", 5, &["'none'"]),
        ("view scan.npy --root scan.npy", 2, &["'scan.npy'", "folder"]),
        ("view scan.npy --base-url http://x/?y", 2, &["path of a URL"]),
        ("view scan.npy --allow-host https://hub.example.org", 2, &["without scheme"]),
        ("view scan.npy --state none.json", 5, &["'none.json'"]),
        ("view scan.npy --state state.json", 3, &["'state.json'", "object"]),
        ("view scan.npy --state words.json", 3, &["'words.json'", "JSON"]),
        ("view scan.npy --socket s --port 1", 2, &["--port"]),
        ("view scan.npy --dark scan.npy", 2, &["'scan.npy'", "[2, 3, 4, 5]", "[4, 5]"]),
        ("view scan.npy --bad-pixels 9,9", 2, &["'9,9'", "0 to 4"]),
        ("view complex.npy", 4, &["complex64", "magnitude"]),
    ] {
        bench.call(&format!("{line} --no-browser")).assert_failed(code, words);
    }
}

#[test]
fn an_address_that_others_reach_is_warned_of() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    let mut running = Running::start(&bench, "view scan.npy --no-browser --host 0.0.0.0");
    assert!(running.link.starts_with("http://localhost:"), "{}", running.link);
    let mut words = String::new();
    BufReader::new(running.child.stderr.take().unwrap()).read_line(&mut words).unwrap();
    assert!(words.contains("warning") && words.contains("other machines"), "{words}");
}

#[cfg(unix)]
#[test]
fn signals_end_it_at_once_with_open_connections() {
    for (signal, socket) in [("-INT", false), ("-TERM", true)] {
        let bench = Bench::new();
        bench.scan("scan.npy");
        let option = if socket { " --socket viewer.socket" } else { "" };
        let mut running = Running::start(&bench, &format!("view scan.npy --no-browser{option}"));
        let _open: Option<TcpStream> =
            (!socket).then(|| TcpStream::connect(running.address().0).unwrap());
        let begin = Instant::now();
        let id = running.child.id().to_string();
        assert!(Command::new("kill").args([signal, &id]).status().unwrap().success());
        let status = loop {
            if let Some(status) = running.child.try_wait().unwrap() {
                break status;
            }
            assert!(begin.elapsed() < Duration::from_secs(20), "it does not end");
            std::thread::sleep(Duration::from_millis(10));
        };
        assert_eq!(status.code(), Some(0));
        assert!(begin.elapsed() < Duration::from_secs(3), "{:?}", begin.elapsed());
        assert!(!bench.path("viewer.socket").exists());
    }
}

/// None of them has an end, and a pipe has no beginning until something is written.
#[cfg(unix)]
#[test]
fn devices_and_pipes_are_refused_at_once() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    assert!(Command::new("mkfifo").arg(bench.path("pipe")).status().unwrap().success());
    let pipe = bench.path("pipe.npy");
    std::os::unix::fs::symlink(bench.path("pipe"), &pipe).unwrap();
    let begin = Instant::now();
    for (line, words) in [
        ("view pipe", "'pipe'"),
        ("view /dev/zero", "'/dev/zero'"),
        ("view scan.npy --state pipe", "'pipe'"),
        ("view scan.npy --state /dev/zero", "'/dev/zero'"),
        ("view scan.npy --state .", "regular file"),
        ("view scan.npy --dark pipe.npy", "'pipe.npy'"),
        ("view scan.npy --bad-pixels pipe.npy", "'pipe.npy'"),
        ("view scan.npy --root pipe", "'pipe'"),
        ("view scan.npy --socket pipe", "'pipe'"),
    ] {
        let outcome = bench.call(&format!("{line} --no-browser"));
        assert!(outcome.stderr.contains(words), "{line}: {}", outcome.stderr);
        assert_eq!(outcome.code, 2, "{line}: {}", outcome.stderr);
    }
    assert!(begin.elapsed() < Duration::from_secs(30));
}

/// As `framefold view … | head -1` has it.
#[cfg(target_os = "linux")]
#[test]
fn it_goes_on_when_only_the_link_is_read() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    let ended = with_port(|port| {
        let (reader, mut writer) = std::io::pipe().unwrap();
        // The link fills what a pipe holds: the next line waits, until the reader has gone.
        let link = format!("http://127.0.0.1:{port}/?token={}\n", "0".repeat(64));
        writer.write_all(&vec![b'.'; (64 << 10) - link.len()]).unwrap();
        let mut command = bench.command(&format!("view scan.npy --no-browser --port {port}"));
        let mut child = command.stdout(writer).stderr(Stdio::null()).spawn().unwrap();
        // With it goes the other copy of the writer.
        drop(command);
        let begin = Instant::now();
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(begin.elapsed() < Duration::from_secs(20), "it does not listen");
            std::thread::sleep(Duration::from_millis(10));
        }
        std::thread::sleep(Duration::from_millis(500));
        if child.try_wait().unwrap().is_some() {
            return None; // another program listens there
        }
        drop(reader);
        std::thread::sleep(Duration::from_millis(500));
        let ended = child.try_wait().unwrap();
        let _ = child.kill();
        child.wait().unwrap();
        Some(ended)
    });
    assert_eq!(ended, None);
}
