//! `framefold convert`: sparse files that hold what the dense ones do.

use crate::support::{Bench, Outcome};
use serde_json::{Value, json};

/// The sum over all pixels of each frame.
fn sums(bench: &Bench, file: &str) -> Vec<f64> {
    let outcome = bench.call(&format!("run sum_sig {file} --json")).json().remove(0);
    let first = outcome["buffers"][0]["first"].as_array().unwrap();
    first.iter().map(|value| value.as_f64().unwrap_or(f64::NAN)).collect()
}

#[test]
fn a_converted_file_gives_the_same_results() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    let outcome = bench.call("convert scan.npy --to raw_csr sparse.toml");
    // One pixel of the 120 is 0.
    let expected = "sparse.toml: 6 frames, 119 entries (99.167 % of the pixels), 770 B\n";
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, expected), "{}", outcome.stderr);
    assert_eq!(outcome.stderr, "");
    let arrays = ["sparse.data", "sparse.indices", "sparse.indptr", "sparse.toml"];
    assert_eq!(bench.names(), ["scan.npy", arrays[0], arrays[1], arrays[2], arrays[3]]);
    assert_eq!(sums(&bench, "sparse.toml"), sums(&bench, "scan.npy"));
    let info = &bench.call("info --json sparse.toml").json()[0];
    assert_eq!(info["format"], "raw_csr");
    assert_eq!((&info["nav_shape"], &info["sig_shape"]), (&json!([2, 3]), &json!([4, 5])));
    assert_eq!(info["paths"].as_array().unwrap().len(), 4);
    let words = bench.call("info sparse.toml").stdout;
    assert!(words.contains("columns: int32 in 'sparse.indices'"), "{words}");
}

#[test]
fn thresholds_shapes_and_json() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    let line = "convert scan.npy --to raw_csr s.toml --threshold 500.5 --nav-shape 6 --json";
    let summary: Value = bench.call(line).json().remove(0);
    assert_eq!((&summary["n_frames"], &summary["n_entries"]), (&json!(6), &json!(19)));
    assert_eq!((&summary["bytes"], &summary["dtype"]), (&json!(7 * 8 + 19 * 6), &json!("uint16")));
    let last: f64 = (501..520).map(f64::from).sum();
    assert_eq!(sums(&bench, "s.toml"), [0.0, 0.0, 0.0, 0.0, 0.0, last]);
    let quiet = bench.call("convert s.toml --to raw_csr t.toml --threshold 510 -q");
    assert_eq!((quiet.code, quiet.stdout.as_str()), (0, ""));
    assert_eq!(sums(&bench, "t.toml")[5], (511..520).map(f64::from).sum::<f64>());
}

#[test]
fn wrong_calls() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    assert_eq!(bench.call("convert scan.npy --to raw_csr s.toml").code, 0);
    let before = bench.names();
    for (line, words) in [
        ("convert scan.npy s.toml", &["'s.toml'", "exists", "--force"][..]),
        ("convert scan.npy s.unknown", &["does not end in .npy"]),
        ("convert scan.npy --to dm s.dm4", &["'dm'", "raw_csr"]),
        ("convert scan.npy --to raw_csr", &["<OUT>"]),
        ("convert scan.npy --to raw_csr s.toml", &["'s.toml'", "exists", "--force"]),
        ("convert s.toml --to raw_csr s.toml --force", &["one of the input files"]),
        ("convert scan.npy --to raw_csr out", &["extension", "NAME.toml"]),
        ("convert scan.npy --to raw_csr n.toml --threshold -1", &["0 or more"]),
        ("convert scan.npy --to raw_csr n.toml --nav-shape 0,3", &["length 0"]),
    ] {
        bench.call(line).assert_failed(2, words);
    }
    let mut odd = bench.call("convert scan.npy --to raw_csr n.toml --sync-offset -2");
    let (warning, error) = odd.stderr.split_once('\n').unwrap();
    assert!(
        warning.contains("warning: scan.npy: ") && warning.contains("have no data"),
        "{warning}"
    );
    odd.stderr = error.to_owned();
    odd.assert_failed(4, &["position 0 has no data", "sync_offset"]);
    bench
        .call("convert scan.npy --to raw_csr no/n.toml")
        .assert_failed(5, &["find the folder of the output", "'no'"]);
    bench.call("convert none.npy --to raw_csr n.toml").assert_failed(5, &["'none.npy'"]);
    assert_eq!(bench.names(), before);
    assert_eq!(bench.call("convert scan.npy --to raw_csr s.toml --force -q").code, 0);
    // Arrays beside the descriptor, too, take the place of nothing that is read.
    bench.npy("d.data", "<f4", "4, 5", &[0; 80]);
    let dark = std::fs::read(bench.path("d.data")).unwrap();
    for line in ["convert scan.npy d.toml --dark d.data -f -q", "convert d.data d.toml -f -q"] {
        assert_eq!(bench.call(line).code, 0);
        assert_eq!(std::fs::read(bench.path("d.data")).unwrap(), dark);
    }
}

#[cfg(target_os = "linux")]
#[test]
fn threads_that_cannot_be_started_are_an_error() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    let mut command = bench.command("convert scan.npy -q out.npy");
    // No address space holds such a stack.
    command.env("RUST_MIN_STACK", (1u64 << 50).to_string());
    let outcome: Outcome = command.output().unwrap().into();
    outcome.assert_failed(5, &["start a worker thread"]);
}
