//! Files that clients may open, and those that they may not.

use crate::support::{Bench, Setup, Ws, write_scan};
use serde_json::{Value, json};
use std::fs;

/// A folder with a scan, a folder in it with another one, and a secret beside it.
fn with_root() -> Bench {
    Bench::with(|dir| {
        let root = dir.join("root");
        fs::create_dir_all(root.join("inner")).unwrap();
        write_scan(&root.join("a.npy"), "2, 3, 16, 16");
        write_scan(&root.join("inner/b.npy"), "3, 2, 16, 16");
        write_scan(&dir.join("secret.npy"), "5, 5, 16, 16");
        fs::write(root.join(".hidden.npy"), "x").unwrap();
        fs::write(root.join("broken.npy"), "\u{93}NUMPY, but not really").unwrap();
        Setup { root: Some(root), ..Setup::default() }
    })
}

fn list(client: &mut Ws, folder: Option<&str>) -> Value {
    client.send(&json!({ "type": "files", "id": 1, "folder": folder }));
    client.next_text()
}

fn open(client: &mut Ws, file: &str) -> Value {
    client.send(&json!({ "type": "open", "id": 2, "file": file }));
    client.next_text()
}

fn names(listing: &Value) -> Vec<&str> {
    listing["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["name"].as_str().unwrap())
        .collect()
}

fn id(listing: &Value, name: &str) -> String {
    let entries = listing["entries"].as_array().unwrap();
    let entry = entries.iter().find(|entry| entry["name"] == name).unwrap();
    entry["id"].as_str().unwrap().to_owned()
}

#[test]
fn without_a_folder_there_is_what_was_named() {
    let bench = Bench::new();
    let mut client = bench.client();
    let first = list(&mut client, None);
    assert_eq!(names(&first), ["scan.npy"]);
    for folder in ["n0", "r0", "/", "..", "", "n99999999999999999999"] {
        assert_eq!(list(&mut client, Some(folder))["type"], "error", "{folder}");
    }
    assert_eq!(open(&mut client, "n0")["type"], "hello");
}

#[test]
fn what_is_open_can_be_opened_again() {
    let bench = with_root();
    let mut client = bench.client();
    client.send(&json!({ "type": "hello", "version": 1 }));
    let first = json!({ "file": "n0", "nav_shape": null, "sync_offset": null });
    assert_eq!(client.until("hello")["opened"], first);
    let root = id(&list(&mut client, None), "root");
    let file = id(&list(&mut client, Some(&root)), "a.npy");
    let wanted = json!({ "file": file, "nav_shape": [3, 2], "sync_offset": -1 });
    let mut message = json!({ "type": "open", "id": 2, "name": "a.npy" });
    message.as_object_mut().unwrap().extend(wanted.as_object().unwrap().clone());
    client.send(&message);
    assert_eq!(client.until("hello")["opened"], wanted);
    // A number that was noted in another viewer may be that of another file here.
    message["name"] = json!("b.npy");
    client.send(&message);
    let refused = client.until("error");
    let expected = "'b.npy' was expected, but this is 'a.npy'";
    assert_eq!((&refused["id"], &refused["message"]), (&json!(2), &json!(expected)), "{refused}");
    assert_eq!(bench.client().hello()["opened"], wanted);
}

#[test]
fn a_folder_is_gone_through_by_numbers() {
    let bench = with_root();
    let mut client = bench.client();
    let first = list(&mut client, None);
    assert_eq!(names(&first), ["scan.npy", "root"]);
    let root = list(&mut client, Some(&id(&first, "root")));
    assert_eq!(names(&root), ["a.npy", "broken.npy", "inner"]);
    assert_eq!(root["parent"], Value::Null);
    let inner = list(&mut client, Some(&id(&root, "inner")));
    assert_eq!((names(&inner), &inner["parent"]), (vec!["b.npy"], &json!(id(&first, "root"))));
    let hello = open(&mut client, &id(&inner, "b.npy"));
    assert_eq!(hello["description"]["name"], "b.npy");
    // Another shape of the scan is one of the same file.
    client.send(&json!({ "type": "open", "id": 2, "nav_shape": [6] }));
    let hello = client.until("hello");
    assert_eq!(hello["description"]["name"], "b.npy");
    assert_eq!(hello["description"]["nav"].as_array().unwrap().len(), 1);
    assert_eq!(hello["description"]["suggested_shapes"], json!([]));
    let broken = open(&mut client, &id(&root, "broken.npy"));
    assert_eq!((&broken["type"], &broken["id"]), (&json!("error"), &json!(2)), "{broken}");
    // What was open stays open.
    client.ask(1, &json!({}), "exact");
    client.until("done");
    for wrong in [
        "r999",
        "r-1",
        "r",
        "x0",
        "a.npy",
        "../secret.npy",
        "%2e%2e/secret.npy",
        "r0/../../secret.npy",
    ] {
        assert_eq!(open(&mut client, wrong)["type"], "error", "{wrong}");
    }
}

#[test]
fn too_many_are_refused_before_they_are_opened() {
    let bench = with_root();
    let mut client = bench.client();
    let open_with = |client: &mut Ws, shape: &[usize]| {
        client.send(&json!({ "type": "open", "id": 2, "nav_shape": shape }));
        client.next_text()
    };
    let shapes: [&[usize]; 7] = [&[48], &[2, 24], &[3, 16], &[4, 12], &[8, 6], &[12, 4], &[16, 3]];
    let others = shapes.map(|shape| {
        let mut client = bench.client();
        assert_eq!(open_with(&mut client, shape)["type"], "hello");
        client
    });
    let root = id(&list(&mut client, None), "root");
    let broken = id(&list(&mut client, Some(&root)), "broken.npy");
    let refused = open(&mut client, &broken);
    assert_eq!(refused["message"], "8 data sets are open already", "{refused}");
    assert_eq!(open_with(&mut client, &[2, 24])["type"], "hello");
    drop(others);
}

#[cfg(unix)]
#[test]
fn links_that_lead_out() {
    use std::os::unix::fs::symlink;
    let bench = with_root();
    let (dir, root) = (bench.dir.path(), bench.dir.path().join("root"));
    symlink(dir.join("secret.npy"), root.join("leak.npy")).unwrap();
    symlink("../secret.npy", root.join("relative.npy")).unwrap();
    symlink(dir, root.join("out")).unwrap();
    symlink("/", root.join("everything")).unwrap();
    symlink("loop", root.join("loop")).unwrap();
    symlink(root.join("a.npy"), root.join("within.npy")).unwrap();
    // As long as the name of the folder, and longer.
    fs::create_dir(dir.join("root-other")).unwrap();
    write_scan(&dir.join("root-other/c.npy"), "2, 2, 16, 16");
    symlink(dir.join("root-other/c.npy"), root.join("sibling.npy")).unwrap();
    let mut client = bench.client();
    let first = list(&mut client, None);
    let listing = list(&mut client, Some(&id(&first, "root")));
    assert_eq!(names(&listing), ["a.npy", "broken.npy", "inner", "within.npy"]);
    assert_eq!(open(&mut client, &id(&listing, "within.npy"))["type"], "hello");
    // What was listed becomes a link.
    let (a, inner) = (id(&listing, "a.npy"), id(&listing, "inner"));
    fs::remove_file(root.join("a.npy")).unwrap();
    symlink(dir.join("secret.npy"), root.join("a.npy")).unwrap();
    assert_eq!(open(&mut client, &a)["type"], "error");
    fs::rename(root.join("inner"), dir.join("moved")).unwrap();
    symlink(dir, root.join("inner")).unwrap();
    assert_eq!(list(&mut client, Some(&inner))["type"], "error");
}

#[cfg(unix)]
#[test]
fn pipes_and_devices_are_not_listed() {
    let bench = with_root();
    let pipe = bench.dir.path().join("root/pipe.npy");
    let made = std::process::Command::new("mkfifo").arg(&pipe).status().unwrap();
    assert!(made.success());
    let mut client = bench.client();
    let first = list(&mut client, None);
    let listing = list(&mut client, Some(&id(&first, "root")));
    assert!(!names(&listing).contains(&"pipe.npy"));
}

#[test]
fn a_file_that_is_replaced_while_it_is_viewed() {
    let bench = Bench::new();
    let file = bench.dir.path().join("scan.npy");
    let mut client = bench.client();
    client.ask(1, &json!({}), "exact");
    client.until("done");
    client.send(&json!({ "type": "ack", "pane": "scan", "gen": 1 }));
    let other = bench.dir.path().join("other.npy");
    write_scan(&other, "9, 7, 16, 16");
    fs::rename(&other, &file).unwrap();
    client.ask(2, &json!({}), "exact");
    let error = client.until("error");
    assert!(error["message"].as_str().unwrap().contains("scan.npy"), "{error}");
    assert_eq!(error["gen"], 2);
    // Nor is anything made of the former one.
    for wanted in [
        json!({ "type": "export", "id": 3, "query": { "pane": "scan" }, "format": "npy" }),
        json!({ "type": "guess", "id": 3, "what": "disk" }),
    ] {
        client.send(&wanted);
        let error = client.until("error");
        assert!(error["message"].as_str().unwrap().contains("scan.npy"), "{error}");
    }
    // Opened again, it is the new one.
    client.send(&json!({ "type": "open", "id": 3 }));
    let hello = client.until("hello");
    assert_eq!(hello["description"]["nav"][0]["size"], 9);
    client.ask(3, &json!({}), "exact");
    client.until("done");
}

#[test]
fn a_file_that_vanishes_or_breaks_is_said_so() {
    let bench = Bench::new();
    let file = bench.dir.path().join("scan.npy");
    let mut client = bench.client();
    fs::write(&file, "nothing of a scan").unwrap();
    client.send(&json!({ "type": "open", "id": 3 }));
    assert!(client.next_error().contains("scan.npy"));
    fs::remove_file(&file).unwrap();
    client.send(&json!({ "type": "open", "id": 4 }));
    assert!(client.next_error().contains("scan.npy"));
    client.assert_well();
}
