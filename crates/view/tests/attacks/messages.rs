//! What clients that were let in may send.

use crate::support::{Bench, Frame};
use framefold_view::{MAX_BINARY, MAX_TEXT};
use serde_json::{Value, json};

#[test]
fn texts_that_are_no_messages() {
    let bench = Bench::new();
    let mut client = bench.client();
    let deep = format!("{}{}", "[".repeat(200_000), "]".repeat(200_000));
    let nested = format!("{}1{}", r#"{"type":"#.repeat(100_000), "}".repeat(100_000));
    for text in [
        "",
        "null",
        "[]",
        "{}",
        "hello",
        "\0",
        "{\"type\":",
        r#"{"type":"hello"}"#,
        r#"{"type":"eval","code":"1"}"#,
        r#"{"type":"hello","version":-1}"#,
        r#"{"type":"ask"}"#,
        &deep,
        &nested,
        r#"{"type":"ask","pane":"scan","gen":1,"query":{"detector":"x"}}"#,
        r#"{"type":"ask","pane":"scan","gen":1.5,"query":{}}"#,
        r#"{"type":"ask","pane":"scan","gen":NaN,"query":{}}"#,
        r#"{"type":"ask","pane":"scan","gen":18446744073709551616,"query":{}}"#,
        r#"{"type":"open","id":1,"nav_shape":"../x"}"#,
        r#"{"type":"open","id":1,"sync_offset":1e300}"#,
    ] {
        client.text(text);
        assert!(!client.next_error().is_empty(), "{text}");
    }
    client.assert_well();
}

#[test]
fn another_version() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.send(&json!({ "type": "hello", "version": 2 }));
    assert!(client.next_error().contains("version 2"));
}

#[test]
fn binary_garbage() {
    let bench = Bench::new();
    let mut client = bench.client();
    let noise: Vec<u8> =
        (0_u32..10_000).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let cases: [&[u8]; 6] =
        [&[], &noise, b"FFV1", b"FFV1\xff\xff\xff\xff{}", b"FFV1\x02\0\0\0{}", b"FFV1\x02\0\0\0[]"];
    for bytes in cases {
        client.binary(bytes);
        client.next_error();
    }
    client.assert_well();
}

fn mask(header: &Value, bytes: &[u8]) -> Vec<u8> {
    let mut json = header.to_string().into_bytes();
    json.resize(json.len().next_multiple_of(8), b' ');
    [b"FFV1", &(json.len() as u32).to_le_bytes()[..], &json, bytes].concat()
}

#[test]
fn masks_that_do_not_fit() {
    let bench = Bench::new();
    let mut client = bench.client();
    let header = |shape: Value| json!({ "type": "mask", "id": 5, "name": "m", "dtype": "f32", "shape": shape });
    for (shape, bytes, words) in [
        (json!([16, 15]), vec![0; 16 * 15 * 4], "[16, 15]"),
        (json!([16, 16]), vec![0; 16 * 15 * 4], "[16, 16]"),
        (json!([256]), vec![0; 1024], "[256]"),
        (json!([]), vec![0; 4], "[]"),
        (json!([0, 0]), vec![], "[0, 0]"),
        (json!([u64::MAX, 2]), vec![], "shape"),
        (json!([-1, 16]), vec![], "-1"),
        (json!([16, 16]), f32::NAN.to_le_bytes().repeat(256), "NaN"),
    ] {
        client.binary(&mask(&header(shape), &bytes));
        let error = client.next_text();
        assert!(error["message"].as_str().unwrap().contains(words), "{error}");
    }
    for bytes in [&b"\x93NUMPY"[..], b"", b"\x93NUMPY\x01\0\xff\xff{}"] {
        client.binary(&mask(&json!({ "type": "mask", "id": 6, "format": "npy" }), bytes));
        let error = client.next_text();
        assert_eq!((&error["type"], &error["id"]), (&json!("error"), &json!(6)));
    }
    client.binary(&mask(&header(json!([16, 16])), &1_f32.to_le_bytes().repeat(256)));
    let answer = client.until("mask");
    assert_eq!((&answer["id"], &answer["shape"]), (&json!(5), &json!([16, 16])));
    let own = json!({ "detector": [{ "shape": { "kind": "array", "id": answer["mask"] } }] });
    client.ask(1, &own, "exact");
    client.until("done");
    let unknown =
        json!({ "detector": [{ "shape": { "kind": "array", "id": 4_000_000_000_u32 } }] });
    client.ask(2, &unknown, "exact");
    assert!(client.until("error")["message"].as_str().unwrap().contains("4000000000"));
}

#[test]
fn more_masks_than_may_be_kept() {
    let bench = Bench::new();
    let mut client = bench.client();
    let header = json!({ "type": "mask", "id": 5, "dtype": "f32", "shape": [16, 16] });
    let mut kept = 0_u8;
    loop {
        client.binary(&mask(&header, &[kept; 1024]));
        let answer = client.next_text();
        if answer["type"] == "error" {
            assert_eq!(answer["kind"], "limit exceeded", "{answer}");
            break;
        }
        kept += 1;
        assert!(kept < 100, "no limit");
    }
    client.assert_well();
}

#[test]
fn messages_that_are_too_long() {
    let bench = Bench::new();
    let mut client = bench.client();
    client.text(&" ".repeat(MAX_TEXT));
    assert!(client.next_error().contains("not JSON"));
    client.text(&" ".repeat(MAX_TEXT + 1));
    let (words, code) = client.read_to_end();
    assert!(words.contains(&MAX_TEXT.to_string()), "{words}");
    assert_eq!(code, Some(1008));
    // Weights of 64 MiB have room for what stands before them.
    let mut client = bench.client();
    let header = json!({ "type": "mask", "id": 6, "format": "npy" });
    client.frame(0x82, Some([0; 4]), &mask(&header, &vec![0; 64 << 20]));
    let error = client.next_text();
    assert!(error["message"].as_str().unwrap().contains("no file of NumPy"), "{error}");
    let mut client = bench.client();
    // Said to be long, and not sent.
    let claimed = (MAX_BINARY as u64 * 1000).to_be_bytes();
    let head = [&[0x82, 0x80 | 127][..], &claimed, &[0; 4]].concat();
    std::io::Write::write_all(&mut client.stream, &head).unwrap();
    let (words, _) = client.read_to_end();
    assert!(words.contains("too long") || words.contains("refused"), "{words}");
    // In pieces that are short by themselves.
    let mut client = bench.client();
    let piece = vec![b' '; 8 << 20];
    client.frame(0x02, Some([0; 4]), &piece);
    for _ in 0..9 {
        client.frame(0x00, Some([0; 4]), &piece);
    }
    let (words, _) = client.read_to_end();
    assert!(!words.is_empty());
    bench.client().assert_well();
}

#[test]
fn frames_against_the_rules() {
    let bench = Bench::new();
    let mask = Some([1, 2, 3, 4]);
    type Send = fn(&mut crate::support::Ws, Option<[u8; 4]>);
    let cases: [(&str, Send); 9] = [
        ("no mask", |client, _| client.frame(0x81, None, b"{}")),
        ("a reserved bit", |client, mask| client.frame(0xc1, mask, b"{}")),
        ("a kind that there is not", |client, mask| client.frame(0x83, mask, b"{}")),
        ("a control frame in pieces", |client, mask| client.frame(0x09, mask, b"x")),
        ("a long control frame", |client, mask| client.frame(0x89, mask, &[0; 200])),
        ("the middle of nothing", |client, mask| client.frame(0x80, mask, b"{}")),
        ("two beginnings", |client, mask| {
            client.frame(0x01, mask, b"{");
            client.frame(0x01, mask, b"}");
        }),
        ("no text", |client, mask| client.frame(0x81, mask, b"\xff\xfe\xfd")),
        ("an end of one byte", |client, mask| client.frame(0x88, mask, b"\x03")),
    ];
    for (what, send) in cases {
        let mut client = bench.client();
        client.hello();
        send(&mut client, mask);
        client.read_to_end();
        assert_eq!(bench.get("/", &bench.cookie()).status, 200, "{what}");
    }
    // Pieces that are in order, and a ping between them.
    let mut client = bench.client();
    client.frame(0x01, mask, br#"{"type":"hel"#);
    client.frame(0x89, mask, b"");
    client.frame(0x80, mask, br#"lo","version":1}"#);
    let mut kinds = Vec::new();
    while kinds.is_empty() {
        match client.next() {
            Frame::Text(value) => kinds.push(value["type"].clone()),
            Frame::Ping => {}
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(kinds, ["hello"]);
}

/// Each gets an answer: a picture, or an error in words.
#[test]
fn odd_numbers() {
    let bench = Bench::new();
    let mut client = bench.client();
    let mut generation = 0;
    let numbers = [
        "1e308",
        "-1e308",
        "1e-320",
        "-0.0",
        "9007199254740993",
        "0.1",
        "-5",
        "4294967296",
        "18446744073709551615",
    ];
    for number in numbers {
        let number: Value = serde_json::from_str(number).unwrap();
        let n = &number;
        for shape in [
            json!({ "kind": "point", "y": n, "x": n }),
            json!({ "kind": "disk", "cy": n, "cx": n, "r": 3 }),
            json!({ "kind": "disk", "cy": 8, "cx": 8, "r": n }),
            json!({ "kind": "ring", "cy": 8, "cx": 8, "ri": n, "ro": n }),
            json!({ "kind": "wedge", "cy": 8, "cx": n, "ri": 0, "ro": n, "from": n, "to": n }),
            json!({ "kind": "rectangle", "y0": n, "x0": n, "y1": 3, "x1": 3 }),
            json!({ "kind": "rectangle", "y0": 0, "x0": 0, "y1": n, "x1": n }),
            json!({ "kind": "polygon", "points": [[n, n], [0, n], [n, 0], [3, 3]] }),
            json!({ "kind": "polygon", "points": [] }),
            json!({ "kind": "lattice", "cy": n, "cx": 8, "a": [n, 0], "b": [0, n], "r": 1, "order": 3 }),
            json!({ "kind": "lattice", "cy": 8, "cx": 8, "a": [0, 0], "b": [0, 0], "r": n, "order": 4294967295_u32 }),
        ] {
            for channel in [
                json!({ "kind": "sum" }),
                json!({ "kind": "com", "centre": { "at": [n, n] }, "rotation": n }),
            ] {
                generation += 1;
                let query = json!({ "detector": [{ "shape": shape }], "channel": channel });
                client.ask(generation, &query, "exact");
                answered(&mut client, generation, &query);
            }
        }
        generation += 1;
        client.ask(generation, &json!({ "slice": [n] }), "fast");
        answered(&mut client, generation, &json!({ "slice": [n] }));
    }
    client.assert_well();
}

/// Reads up to the end of an answer.
fn answered(client: &mut crate::support::Ws, generation: u64, query: &Value) {
    loop {
        match client.next() {
            Frame::Binary(header, _) => {
                assert_eq!(header["gen"], generation, "a stale picture");
                client.send(&json!({ "type": "ack", "pane": "scan", "gen": generation }));
            }
            Frame::Text(value) if value["type"] == "done" => return,
            Frame::Text(value) if value["type"] == "error" => {
                // Odd numbers are the client's fault, never the engine's.
                assert_ne!(value["kind"], "bug in framefold", "{query}: {value}");
                return;
            }
            Frame::Text(_) | Frame::Ping => {}
            other => panic!("{query}: {other:?}"),
        }
    }
}

#[test]
fn scans_that_do_not_fit() {
    let bench = Bench::new();
    let mut client = bench.client();
    for fields in [
        json!({ "nav_shape": [] }),
        json!({ "nav_shape": [0] }),
        json!({ "nav_shape": [1_u64 << 62, 1_u64 << 62] }),
        json!({ "nav_shape": [usize::MAX] }),
        json!({ "nav_shape": vec![1; 10_000] }),
        json!({ "sync_offset": 48 }),
        json!({ "sync_offset": i64::MIN }),
        json!({ "file": "/etc/passwd" }),
        json!({ "file": "n1" }),
        json!({ "file": "n-1" }),
        json!({ "file": "ä" }),
        json!({ "file": "" }),
    ] {
        let mut open = fields.clone();
        (open["type"], open["id"]) = (json!("open"), json!(3));
        client.send(&open);
        let answer = client.next_text();
        // Very long scans of few frames are possible; most of them is missing then.
        if answer["type"] != "hello" {
            assert_eq!((&answer["type"], &answer["id"]), (&json!("error"), &json!(3)), "{fields}");
            assert_ne!(answer["kind"], "bug in framefold", "{answer}");
        }
    }
    client.send(&json!({ "type": "open", "id": 4, "nav_shape": [4, 12] }));
    let hello = client.until("hello");
    assert_eq!(hello["description"]["nav"][0]["size"], 4);
    client.ask(1, &json!({}), "exact");
    client.until("done");
}

/// Names of files come from the name of the data, and contents are what was asked for.
#[test]
fn files_to_take_away() {
    let bench = Bench::new();
    let mut client = bench.client();
    let query = json!({ "pane": "scan" });
    client.send(&json!({ "type": "export", "id": 1, "query": query, "format": "npy" }));
    client.send(&json!({ "type": "script", "id": 2, "form": "script", "queries": [query] }));
    for (id, name, begin) in [(1, "scan-scan.npy", &b"\x93NUMPY"[..]), (2, "scan-view.py", b"")] {
        let file = loop {
            match client.next() {
                Frame::Binary(header, bytes) => break (header, bytes),
                Frame::Text(value) if value["type"] == "progress" => {}
                other => panic!("{other:?}"),
            }
        };
        assert_eq!((&file.0["type"], &file.0["id"]), (&json!("file"), &json!(id)));
        assert_eq!(file.0["name"], name);
        assert!(file.1.starts_with(begin) && !file.1.is_empty());
    }
    // As many queries as a message holds.
    let many = vec![query.clone(); 20_000];
    client.send(&json!({ "type": "script", "id": 5, "form": "script", "queries": many }));
    assert!(client.next_error().contains("20000 pictures"));
    for (format, form) in [("exe", "shell"), ("../npy", "../x"), ("", "")] {
        client.send(&json!({ "type": "export", "id": 3, "query": query, "format": format }));
        assert!(!client.next_error().is_empty());
        client
            .send(&json!({ "type": "script", "id": 4, "form": form, "queries": [], "state": [] }));
        assert!(!client.next_error().is_empty());
    }
}
