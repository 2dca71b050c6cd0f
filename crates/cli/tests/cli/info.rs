//! `framefold info` and the lists.

use crate::support::Bench;
use serde_json::json;

#[test]
fn info_says_what_a_file_is_and_why() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    let text = bench.call("info scan.npy").stdout;
    for part in ["scan.npy", "npy (detected: ", "NPY signature", "(2, 3), 6", "(4, 5) uint16"] {
        assert!(text.contains(part), "no '{part}' in {text}");
    }
    let facts = &bench.call("info scan.npy --json --sync-offset -2").json()[0];
    assert_eq!(facts["nav_shape"], json!([2, 3]));
    assert_eq!(facts["sig_shape"], json!([4, 5]));
    assert_eq!(facts["dtype"], "uint16");
    assert_eq!(facts["n_frames"], 6);
    assert_eq!(facts["n_positions_without_data"], 2);
    assert_eq!(facts["frames_inserted_start"], 2);
    assert_eq!(facts["frames_ignored_end"], 2);
}

#[test]
fn raw_files_are_described_with_their_options() {
    let bench = Bench::new();
    std::fs::write(bench.path("x.raw"), vec![0; 6 * 20]).unwrap();
    bench.call("info x.raw").assert_failed(4, &["'x.raw'", "raw"]);
    let options = "--format raw --dtype >u2 --nav-shape 3 --sig-shape 4x5";
    let facts = &bench.call(&format!("info x.raw --json {options}")).json()[0];
    assert_eq!((&facts["n_frames"], &facts["byte_order"]), (&json!(3), &json!("big")));
    assert_eq!(facts["reason"], "as --format says");
}

#[test]
fn lists_come_from_the_tables() {
    let bench = Bench::new();
    for format in framefold::io::FORMATS {
        assert!(bench.call("formats").stdout.contains(&format!("{:<8}", format.name)));
    }
    let reductions = bench.call("reductions --json").json();
    assert_eq!(reductions.len(), framefold::kernels::REDUCTIONS.len());
    assert!(reductions.iter().any(|r| r["name"] == "com" && r["buffers"][0] == "raw_com"));
}

#[test]
fn a_bad_file_does_not_stop_the_others() {
    let bench = Bench::new();
    bench.scan("good.npy");
    std::fs::write(bench.path("bad.npy"), b"").unwrap();
    let outcome = bench.call("info bad.npy good.npy");
    assert_eq!(outcome.code, 3);
    assert!(outcome.stdout.contains("good.npy") && outcome.stderr.contains("bad.npy"));
}
