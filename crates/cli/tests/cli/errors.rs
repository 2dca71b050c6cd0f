//! Everything that can be wrong with a call: an exit code and one line of words.

use crate::support::Bench;
use std::process::Stdio;

#[test]
fn wrong_calls_are_2() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    for (line, words) in [
        ("run", &["--help"][..]),
        ("fly", &["'fly'"]),
        ("run sum", &["<FILE>", "run sum --help"]),
        ("run sum scan.npy --cy 3", &["'--cy'"]),
        ("run ring 1,2 scan.npy", &["'ring 18,50'", "masks --ring"]),
        ("run com scan.npy --cy east", &["'--cy <PX>'", "finite number"]),
        ("run masks scan.npy", &["--disk", "--masks"]),
        ("run sum scan.npy --threads 0", &["--threads"]),
        ("run sum scan.npy --nav-shape 0,3", &["length 0"]),
        // Before the pass: nothing is planned for a buffer that is not there.
        ("run sum scan.npy --explain --buffer nope", &["no result buffer 'nope'", "intensity"]),
        ("run sum scan.npy --dtype uint17", &["'uint17'", "uint16"]),
        ("run sum scan.npy --format jpeg", &["'jpeg'", "npy"]),
        ("run sum scan.npy --frame-header 4", &["frame_header", "npy"]),
        ("run sum scan.npy --probe 9,9", &["[9, 9]", "[4, 5]"]),
        ("run sum scan.npy --probe -1,-1", &["'-1,-1' is not an index", "from 0 on: 3,4,0"]),
        ("run sum scan.npy --sync-offset 6", &["sync_offset 6"]),
        ("run sum scan.npy -o out.docx", &["'.docx'", ".png"]),
        ("run sum scan.npy -o out", &["extension"]),
        ("run sum scan.npy -o scan.npy", &["exists", "--force"]),
        ("run sum scan.npy -o scan.npy --force", &["one of the input files"]),
        ("run sum scan.npy -o nowhere/out.npy", &["directory", "nowhere"]),
        ("run sum scan.npy scan.npy -o out.npy", &["{stem}"]),
        ("run sum scan.npy --vmin 5 --vmax 3 -o out.png", &["--vmin 5", "not below --vmax 3"]),
        ("run sum scan.npy --vmin 3 --vmax 3 -o out.png", &["--vmin 3", "not below"]),
        ("run sum scan.npy --log --vmin -1 -o out.png", &["--vmin -1", "logarithmic", "--log"]),
        ("run sum scan.npy --log --vmax 0 -o out.png", &["--vmax 0", "logarithmic", "positive"]),
    ] {
        bench.call(line).assert_failed(2, words);
    }
    assert_eq!(bench.names(), ["scan.npy"]);
}

#[test]
fn bad_files_are_3_unsupported_ones_4_and_the_system_5() {
    let bench = Bench::new();
    std::fs::write(bench.path("empty.npy"), b"").unwrap();
    bench.call("run sum empty.npy").assert_failed(3, &["'empty.npy'", "empty"]);
    std::fs::write(bench.path("text.npy"), b"hello, world, this is text").unwrap();
    bench.call("run sum text.npy").assert_failed(3, &["'text.npy'", "'hello, w'"]);
    bench.npy("short.npy", "<u2", "2, 3, 4, 5", &[0; 10]);
    bench.call("run sum short.npy").assert_failed(3, &["cut short"]);
    bench.npy("complex.npy", "<c8", "1, 2, 2", &[0; 32]);
    bench.call("run com complex.npy").assert_failed(4, &["complex"]);
    bench.call("run sum_sig complex.npy -o out.tif").assert_failed(4, &["TIFF", ".npy"]);
    std::fs::write(bench.path("unknown.xyz"), b"hello, world").unwrap();
    bench.call("info unknown.xyz").assert_failed(4, &["no format", "'raw'"]);
    bench.call("run sum missing.npy").assert_failed(5, &["'missing.npy'"]);
    assert!(!bench.path("out.tif").exists());
}

#[test]
fn a_cut_file_is_used_as_far_as_it_goes_with_a_warning() {
    let bench = Bench::new();
    bench.npy("cut.npy", "|u1", "4, 2, 2", &[1; 10]);
    let outcome = bench.call("run sum_sig cut.npy -o out.npy");
    assert_eq!(outcome.code, 0);
    assert!(outcome.stderr.contains("warning: ") && outcome.stderr.contains("cut short"));
    let (_, values) = crate::support::npy_f32(&bench.path("out.npy"));
    assert_eq!(values[..2], [4.0, 4.0]);
    assert!(values[2..].iter().all(|value| value.is_nan()));
    // A mask file that lost some of its masks is of no use.
    bench.call("run masks cut.npy --masks cut.npy").assert_failed_last(3, "cut short");
}

impl crate::support::Outcome {
    /// As `assert_failed`, with warnings before the error.
    fn assert_failed_last(&self, code: i32, word: &str) {
        assert_eq!(self.code, code, "{}", self.stderr);
        assert!(self.stderr.lines().last().unwrap().contains(word), "{}", self.stderr);
    }
}

#[test]
fn help_and_version_are_no_errors() {
    let bench = Bench::new();
    for line in ["--help", "--version", "run --help", "run masks --help", "help info"] {
        let outcome = bench.call(line);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{line}");
        assert!(!outcome.stdout.is_empty());
    }
    assert!(bench.call("--help").stdout.contains("130"));
}

#[test]
fn a_closed_pipe_is_quiet() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    for line in ["info scan.npy", "formats", "run sum scan.npy --json", "--help"] {
        let mut child =
            bench.command(line).stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stderr), "", "{line}");
        assert_eq!(output.status.code(), Some(0), "{line}");
    }
}
