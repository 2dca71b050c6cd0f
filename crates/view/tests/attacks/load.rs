//! Many clients, and clients that ask for much or read nothing.

use crate::support::{Bench, Frame, LONG, Setup, Ws};
use framefold::{Cancel, Error, Result};
use framefold_view::{Own, OwnFunction, Picture, State};
use serde_json::json;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

/// Functions that are slow, wait until they may go on, panic, or send much.
#[derive(Default)]
struct Odd {
    running: AtomicUsize,
    most: AtomicUsize,
    /// How many were begun.
    begun: AtomicUsize,
    go_on: AtomicBool,
}

impl Own for Odd {
    fn describe(&self) -> Vec<OwnFunction> {
        let function = |name: &str| OwnFunction {
            name: name.to_owned(),
            nav: vec!["x".to_owned()],
            sig: Vec::new(),
        };
        ["panics", "sends", "slow", "waits"].map(function).to_vec()
    }

    fn run(
        &self,
        name: &str,
        _buffer: &str,
        cancel: &Cancel,
        emit: &mut dyn FnMut(Picture) -> Result<()>,
    ) -> Result<()> {
        let running = self.running.fetch_add(1, Ordering::SeqCst) + 1;
        self.most.fetch_max(running, Ordering::SeqCst);
        self.begun.fetch_add(1, Ordering::SeqCst);
        let result = match name {
            "panics" => panic!("on purpose"),
            "sends" => (0..60).try_for_each(|i| emit(picture(256, f64::from(i)))),
            "waits" => wait(cancel, 2 * LONG, &self.go_on),
            _ => wait(cancel, Duration::from_secs(1), &AtomicBool::new(false)),
        };
        self.running.fetch_sub(1, Ordering::SeqCst);
        result.and_then(|()| emit(picture(4, 1.0)))
    }
}

/// For so long, unless it is cancelled or may go on.
fn wait(cancel: &Cancel, most: Duration, go_on: &AtomicBool) -> Result<()> {
    let end = Instant::now() + most;
    while Instant::now() < end && !go_on.load(Ordering::SeqCst) {
        cancel.check().map_err(|_| Error::cancelled())?;
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(())
}

fn picture(n: usize, value: f64) -> Picture {
    Picture {
        planes: vec!["value".to_owned()],
        shape: vec![n, n],
        values: vec![value; n * n],
        stride: [1, 1],
        state: State::Exact,
        label: "exact".to_owned(),
        progress: 1.0,
        axes: None,
    }
}

fn bench() -> (Bench, Arc<Odd>) {
    let odd = Arc::new(Odd::default());
    let own: Arc<dyn Own> = odd.clone();
    (Bench::with(|_| Setup { own: Some(own), ..Setup::default() }), odd)
}

fn ask(client: &mut Ws, generation: u64, name: &str) {
    let query = json!({ "channel": { "kind": "own", "name": name, "buffer": "x" } });
    client.ask(generation, &query, "exact");
}

/// Memory of this process, in bytes.
fn memory() -> u64 {
    let status = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = status.split(' ').nth(1).and_then(|pages| pages.parse::<u64>().ok());
    pages.unwrap_or(0) * 4096
}

#[test]
fn of_a_flood_of_questions_the_latest_is_answered() {
    let (bench, odd) = bench();
    let mut client = bench.client();
    for generation in 1..=5000 {
        ask(&mut client, generation, "waits");
    }
    client.assert_well(); // all were asked
    let begun = odd.begun.load(Ordering::SeqCst);
    odd.go_on.store(true, Ordering::SeqCst);
    loop {
        match client.next() {
            Frame::Binary(header, _) => assert_eq!(header["gen"], 5000, "a stale picture"),
            Frame::Text(value) => {
                assert_eq!((&value["type"], &value["gen"]), (&json!("done"), &json!(5000)));
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    // The latest, and one whose turn had come before it was replaced.
    assert!(odd.begun.load(Ordering::SeqCst) <= begun + 2);
    // One, and one that has not noticed yet.
    assert!(odd.most.load(Ordering::SeqCst) <= 2);
}

/// A picture waits until one is acknowledged; by then, another question has replaced its own.
#[test]
fn no_picture_comes_after_a_question_was_taken_back() {
    let (bench, _) = bench();
    let mut client = bench.client();
    for round in 0..20 {
        let generation = 2 * round + 1;
        ask(&mut client, generation, "sends");
        for _ in 0..2 {
            let picture = client.next();
            assert!(
                matches!(&picture, Frame::Binary(head, _) if head["gen"] == generation),
                "{picture:?}"
            );
        }
        // The third one is made.
        std::thread::sleep(Duration::from_millis(50));
        if round % 2 == 0 {
            client.send(&json!({ "type": "cancel", "pane": "scan" }));
        } else {
            ask(&mut client, generation + 1, "slow");
        }
        for _ in 0..2 {
            client.send(&json!({ "type": "ack", "pane": "scan", "gen": generation }));
        }
        client.send(&json!({ "type": "files", "id": round }));
        assert_eq!(client.next_text()["type"], "files");
        let late = client.next_within(Duration::from_millis(20));
        assert_eq!(late, None, "after the question was taken back");
        client.send(&json!({ "type": "cancel", "pane": "scan" }));
    }
}

#[test]
fn a_panic_is_an_error_in_words() {
    let (bench, _) = bench();
    let mut client = bench.client();
    ask(&mut client, 1, "panics");
    let error = client.until("error");
    assert_eq!((&error["kind"], &error["gen"]), (&json!("bug in framefold"), &json!(1)));
    client.assert_well();
}

/// Two pictures are on their way, one waits, whatever is computed.
#[test]
fn a_client_that_never_acknowledges() {
    let (bench, odd) = bench();
    let mut client = bench.client();
    ask(&mut client, 1, "sends");
    for _ in 0..2 {
        assert!(matches!(client.next(), Frame::Binary(..)));
    }
    // All but the last one are made, which takes longer on a busy machine.
    let begin = Instant::now();
    while odd.running.load(Ordering::SeqCst) > 0 && begin.elapsed() < LONG {
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!(client.next_within(Duration::from_millis(1500)), None, "a third picture");
    // Other answers come.
    client.assert_well();
    client.send(&json!({ "type": "ack", "pane": "scan", "gen": 1 }));
    // The newest has taken the place of those between.
    assert!(matches!(client.next(), Frame::Binary(header, _) if header["shape"] == json!([4, 4])));
    assert_eq!(client.next_text()["type"], "done");
}

#[test]
fn clients_that_never_read() {
    let (bench, _) = bench();
    let mut clients: Vec<Ws> = (0..40).map(|_| bench.client()).collect();
    let before = memory();
    for client in &mut clients {
        client.stream.set_write_timeout(Some(Duration::from_millis(100))).unwrap();
        for generation in 1..=50 {
            ask(client, generation, "sends");
            client.send(&json!({ "type": "ack", "pane": "scan", "gen": generation }));
            client.send(&json!({ "type": "hello", "version": 1 }));
            client.send(&json!({ "type": "files", "id": generation }));
        }
    }
    let mut other = bench.client();
    other.assert_well();
    std::thread::sleep(Duration::from_secs(1));
    // A picture of 256² codes is 65 kB, three for each client; values while they are made, 0.5 MB on each thread.
    // What the system buffers does not count. Other tests run meanwhile.
    let grown = memory().saturating_sub(before);
    assert!(grown < 150 << 20, "{grown} bytes");
    other.assert_well();
}

/// Answers that wait are limited: then the client is sent away.
#[test]
fn a_client_that_asks_for_much_and_reads_nothing_is_sent_away() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.stream.set_write_timeout(Some(Duration::from_millis(500))).unwrap();
    let begin = Instant::now();
    let message = json!({ "type": "hello", "version": 1 }).to_string();
    for _ in 0..200_000 {
        client.text(&message);
        if begin.elapsed() > Duration::from_secs(5) {
            break;
        }
    }
    let before = memory();
    let (words, _) = client.read_to_end();
    assert!(words.contains("does not read"), "{words}");
    assert!(memory() < before + (100 << 20));
    bench.client().assert_well();
}

#[test]
fn a_hundred_clients() {
    let (bench, _) = bench();
    let (mut clients, mut refused) = (Vec::new(), 0);
    for _ in 0..100 {
        match bench.try_client() {
            Ok(client) => clients.push(client),
            Err(reply) => {
                assert_eq!(reply.status, 503);
                refused += 1;
            }
        }
    }
    assert_eq!((clients.len(), refused), (64, 36));
    for client in &mut clients {
        client.ask(1, &json!({}), "exact");
    }
    for client in &mut clients {
        client.until("done");
    }
    // Their places are free when they have gone.
    drop(clients);
    let end = Instant::now() + LONG;
    while bench.try_client().is_err() {
        assert!(Instant::now() < end);
    }
}

/// Those who move the pointer do not wait for those who want everything.
#[test]
fn one_client_does_not_keep_the_others_from_answers() {
    let (bench, odd) = bench();
    let mut greedy: Vec<Ws> = (0..20).map(|_| bench.client()).collect();
    for client in &mut greedy {
        ask(client, 1, "waits");
        client.assert_well(); // it has been asked
    }
    let mut client = bench.client();
    client.ask(1, &json!({}), "fast");
    client.until("done");
    odd.go_on.store(true, Ordering::SeqCst);
    for client in &mut greedy {
        client.until("done");
    }
}

/// What one looks at is not what the other sees.
#[test]
fn two_tabs() {
    let bench = Bench::new();
    let (mut one, mut other) = (bench.client(), bench.client());
    assert_eq!(other.hello()["description"]["nav"][1]["size"], 8);
    one.send(&json!({ "type": "open", "id": 1, "nav_shape": [4, 12] }));
    assert_eq!(one.until("hello")["description"]["nav"][1]["size"], 12);
    assert_eq!(other.hello()["description"]["nav"][1]["size"], 8);
    for (client, columns) in [(&mut one, 12), (&mut other, 8)] {
        client.ask(1, &json!({}), "exact");
        loop {
            match client.next() {
                Frame::Binary(header, _) if header["state"] == "exact" => {
                    assert_eq!(header["shape"][1], columns);
                    break;
                }
                Frame::Binary(..) => {
                    client.send(&json!({ "type": "ack", "pane": "scan", "gen": 1 }))
                }
                other => panic!("{other:?}"),
            }
        }
    }
}

/// Every client hears of the pass in the background, also one that comes later, but not what is outdated.
#[test]
fn how_far_the_background_is() {
    let bench = Bench::with(|_| Setup { patience: Some(Duration::ZERO), ..Setup::default() });
    let mut client = bench.client();
    client.ask(1, &json!({}), "exact");
    let progress = loop {
        let progress = client.until("progress");
        assert_eq!(progress["what"], "background");
        if progress["state"] != "working" {
            break progress;
        }
    };
    assert_eq!((&progress["state"], progress["done"].as_f64()), (&json!("done"), Some(1.0)));
    let mut late = bench.client();
    late.hello();
    assert_eq!(late.until("progress")["state"], "done");
}
