//! Several reductions in one command and one pass.

use crate::support::Bench;
use serde_json::Value;
use std::path::Path;

/// A list, and for each item its name and the command that is the same.
const LIST: &str = "sum,com --cy 1 --radius 2,ring 0,2,stddev -b var,ring 1.5,2,1,3,sumsig,disk 1";
const APART: [(&str, &str); 7] = [
    ("sum", "sum"),
    ("com", "com --cy 1 --radius 2"),
    ("ring", "masks --ring 0,2"),
    ("stddev", "stddev --buffer var"),
    ("ring-2", "masks --ring 1.5,2,1,3"),
    ("sum_sig", "sum_sig"),
    ("disk", "masks --disk 1"),
];

fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).unwrap();
    let mut names: Vec<String> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn each_file_is_the_one_of_a_run_by_itself() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    let more = "--roi 0,:2;1,1: --scan-step 2nm --log --threads 2 -q";
    std::fs::create_dir(bench.path("apart")).unwrap();
    for ending in ["npy", "npz", "h5", "csv", "tif", "png", "jpg"] {
        let output = format!("{ending}/{{reduction}}.{ending}");
        let outcome = bench.run_list(LIST, &format!("scan.npy {more} -o {output}"));
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{ending}");
        for (name, line) in APART {
            let alone = format!("apart/{name}.{ending}");
            let outcome = bench.call(&format!("run {line} scan.npy {more} -o {alone}"));
            assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{line} {ending}");
            let bytes = |path: String| std::fs::read(bench.path(&path)).unwrap();
            let same = bytes(format!("{ending}/{name}.{ending}")) == bytes(alone);
            assert!(same, "{name}.{ending}");
        }
        assert_eq!(names(&bench.path(ending)).len(), APART.len());
    }
}

#[test]
fn a_folder_gets_a_file_with_all_results_of_each() {
    let bench = Bench::new();
    for name in ["a.npy", "b.npy"] {
        bench.scan(name);
    }
    let outcome = bench.run_list("sum,ring 0,2", "a.npy -o out/");
    assert_eq!(outcome.stderr, "");
    let lines: Vec<&str> = outcome.stdout.lines().collect();
    assert_eq!(lines[0], "out/sum.h5: intensity (4, 5) float32, from 1500 to 1614, sum 31140");
    assert!(lines[1].starts_with("out/ring.h5: intensity (2, 3, 1) float32, "), "{lines:?}");
    // It is used from then on; what is in it is not replaced.
    bench.run_list("max,sum", "a.npy -o out").assert_failed(2, &["'out/sum.h5'", "exists"]);
    assert_eq!(names(&bench.path("out")), ["ring.h5", "sum.h5"]);
    assert_eq!(bench.run_list("max,sum", "a.npy b.npy -o out -q").code, 0);
    assert_eq!(bench.run_list("max,sum", "a.npy -o out --force -q").code, 0);
    assert_eq!(bench.run_list("max", "b.npy -o . -q").code, 0);
    let all = ["a-max.h5", "a-sum.h5", "b-max.h5", "b-sum.h5", "max.h5", "ring.h5", "sum.h5"];
    assert_eq!(names(&bench.path("out")), all);
    assert_eq!(bench.names(), ["a.npy", "b.npy", "max.h5", "out"]);
    // A list of one is that reduction.
    assert_eq!(bench.run_list("ring 0,2", "a.npy -o ring.npy -q").code, 0);
    assert!(bench.path("ring.npy").exists());
}

#[test]
fn all_run_in_one_pass() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    let plan = &bench.run_list("sum,com,ring 0,2", "scan.npy --explain --json -o x/").json()[0];
    assert_eq!(plan["bytes_to_read"], 240);
    let udfs: Vec<&str> =
        plan["udfs"].as_array().unwrap().iter().map(|udf| udf["name"].as_str().unwrap()).collect();
    assert_eq!(udfs, ["sum", "com", "masks"]);
    assert_eq!(bench.names(), ["scan.npy"]);
    let mut all = bench.run_list(LIST, "scan.npy --json --roi :,1").json();
    for (summary, (name, line)) in all.iter_mut().zip(APART) {
        let mut alone =
            bench.call(&format!("run {line} scan.npy --json --roi :,1")).json().remove(0);
        assert_eq!(summary["name"], name);
        for summary in [&mut *summary, &mut alone] {
            summary["seconds"] = Value::Null;
            summary["name"] = Value::Null;
        }
        assert_eq!(*summary, alone, "{line}");
    }
    assert_eq!(all.len(), APART.len());
    let said = bench.run_list("max, disk 1, 2, 0", "scan.npy").stdout;
    let expected = "scan.npy: max: intensity (4, 5) uint16, from 500 to 519, sum 10190\n\
                    scan.npy: disk 1,2,0: intensity (2, 3, 1) float32, from 7 to 507, sum 1542\n";
    assert_eq!(said, expected);
}

#[test]
fn what_is_wrong_with_a_list_is_said_before_anything_runs() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    for (list, line, words) in [
        ("sum,comm", "scan.npy", &["no reduction 'comm'", "similar: 'com'", "run --help"][..]),
        ("sum,,com", "scan.npy", &["'sum,,com' is empty"]),
        ("sum,ring", "scan.npy", &["in 'ring'", "<RI,RO>"]),
        ("sum,ring 18", "scan.npy", &["in 'ring 18'", "RI smaller than RO"]),
        ("sum,disk 1 2", "scan.npy", &["in 'disk 1 2'", "'2'"]),
        ("sum,com --cyy 1", "scan.npy", &["in 'com --cyy 1'", "similar: '--cy'"]),
        ("sum,com", "scan.npy --cy 3", &["'--cy' is an option of a single", "\"com --cy …\""]),
        ("sum,com", "scan.npy --ccy 3", &["'--ccy'"]),
        ("sum,com", "", &["<FILE>"]),
        ("sum,com", "scan.npy -b field", &["--buffer is for one", "\"com --buffer …\""]),
        ("sum,com -b nope", "scan.npy", &["'com' has no result buffer 'nope'", "field_y"]),
        ("sum,com", "scan.npy --probe 0,0", &["--probe is for one"]),
        ("sum,com", "scan.npy -o out.npz", &["2 reductions", "one output", "-o out/"]),
        ("sum,com", "scan.npy -o -", &["2 reductions", "standard output", "-o out/"]),
        ("sum,com", "scan.npy -o {reduction}.docx", &["'.docx'"]),
        ("sum,com", "scan.npy -o no/no/", &["directory", "'no'"]),
        ("sum,max", "scan.npy -o scan.npy/", &["directory"]),
    ] {
        let outcome = bench.run_list(list, line);
        outcome.assert_failed(2, words);
    }
    let input = "scan.npy --force -o {reduction}.npy";
    std::fs::copy(bench.path("scan.npy"), bench.path("sum.npy")).unwrap();
    bench.run_list("max,sum", &input.replace("scan", "sum")).assert_failed(2, &["input files"]);
    assert_eq!(bench.names(), ["scan.npy", "sum.npy"]);
}

#[test]
fn nothing_is_written_into_what_is_read() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    std::fs::create_dir(bench.path("frames")).unwrap();
    std::fs::copy(bench.path("scan.npy"), bench.path("frames/a.npy")).unwrap();
    for name in ["scan", "other"] {
        assert_eq!(bench.call(&format!("convert scan.npy {name}.zarr -q")).code, 0);
    }
    assert_eq!(bench.call("convert scan.npy second.zarr --zarr-format 2 -q").code, 0);
    let before =
        ["scan.zarr", "other.zarr", "second.zarr", "frames"].map(|n| names(&bench.path(n)));
    let zarr = "would be in a Zarr array or group";
    for (line, words) in [
        ("scan.zarr -o scan.zarr", "would be in a folder that is read"),
        ("scan.zarr -o scan.zarr/new/", zarr),
        ("scan.zarr -o scan.zarr/c/{reduction}.png", zarr),
        ("scan.zarr -o other.zarr", zarr),
        ("scan.npy -o other.zarr/sum.npy", zarr),
        ("scan.npy -f -o second.zarr/", zarr),
        ("frames -o frames", "would be in a folder that is read"),
        ("frames/ -o ./frames/sum.npy", "would be in a folder that is read"),
    ] {
        bench.call(&format!("run sum {line}")).assert_failed(2, &[words, "outside of it"]);
    }
    let after = ["scan.zarr", "other.zarr", "second.zarr", "frames"].map(|n| names(&bench.path(n)));
    assert_eq!(before, after);
    for line in ["frames -o frames/results/", "frames -o sum.npy", "scan.zarr -o results/"] {
        assert_eq!(bench.call(&format!("run sum {line} -q")).code, 0, "{line}");
    }
}

#[test]
fn all_files_appear_or_none() {
    let bench = Bench::new();
    bench.npy("complex.npy", "<c8", "1, 2, 2", &[0; 32]);
    let outcome = bench.run_list("sum_sig,sum", "complex.npy -o out/{reduction}.npy -q");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    // The first one can be written, the second one cannot.
    let outcome = bench.run_list("stddev -b num_frames,sum", "complex.npy -o half/{reduction}.tif");
    outcome.assert_failed(4, &["TIFF"]);
    assert_eq!(bench.names(), ["complex.npy", "out"]);
}
