//! `framefold run`: numbers of every reduction, regions of interest, plans.

use crate::support::Bench;
use serde_json::{Value, json};

fn summary(bench: &Bench, line: &str) -> Value {
    bench.call(&format!("run {line} --json")).json().remove(0)
}

fn buffer<'a>(summary: &'a Value, name: &str) -> &'a Value {
    summary["buffers"].as_array().unwrap().iter().find(|b| b["name"] == name).unwrap()
}

fn probed(bench: &Bench, line: &str) -> Value {
    let summary = summary(bench, line);
    let main = summary["main_buffer"].as_str().unwrap();
    buffer(&summary, main)["probes"][0]["value"].clone()
}

#[test]
fn stages_are_applied_in_the_order_in_which_they_are_given() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    let bins = 4.0 * 1500.0;
    for (line, value) in [
        ("sum scan.npy --crop 1:3,1:5 --probe 0,0", 1500.0 + 6.0 * 6.0),
        ("sum scan.npy --crop 0:4,0:4 --bin 2 --probe 0,0", bins + 6.0 * 12.0),
        ("sum scan.npy --bin 2,5 --crop 1:2,0:1 --probe 0,0", 10.0 * 1500.0 + 6.0 * 145.0),
        ("sum scan.npy --crop 2:4,0:5 --bin 2,5 --probe 0,0", 10.0 * 1500.0 + 6.0 * 145.0),
        // Before the reduction, and behind it.
        ("--bin 2,1 sum scan.npy --bin 1,5 --probe 1,0", 10.0 * 1500.0 + 6.0 * 145.0),
        ("-j 2 --crop 0:4,0:4 sum --bin 2 scan.npy --probe 0,0", bins + 6.0 * 12.0),
    ] {
        assert_eq!(probed(&bench, line).as_f64(), Some(value), "{line}");
    }
    let words = ["the stage 'bin 9': no bin is full", "write 'bin N|NY,NX"];
    bench.call("run sum scan.npy --bin 9").assert_failed(2, &words);
}

#[test]
fn options_on_both_sides_of_the_reduction_are_those_of_one_call() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    bench.npy("dark.npy", "<f4", "4, 5", &[0; 80]);
    let both = ["run", "--stage", "crop 2:4,0:5", "sum", "scan.npy", "--stage", "bin 2,5"];
    let said = bench.call_of(&both).stdout;
    assert_eq!(said, "scan.npy: intensity (1, 1) float64, from 15870 to 15870, sum 15870\n");
    let probes = bench.call("run --probe 0,0 sum scan.npy --probe 0,1 -q").stdout;
    assert_eq!(probes, "intensity[0, 0] = 1500\nintensity[0, 1] = 1506\n");
    for (line, words) in [
        ("run --roi 0,0 sum scan.npy --roi 1,1", &["'--roi <ROI>'", "multiple times"][..]),
        ("run --dark dark.npy sum scan.npy --corrections", &["--dark", "--corrections", "cannot"]),
    ] {
        bench.call(line).assert_failed(2, words);
    }
}

#[test]
fn every_reduction_gives_its_numbers() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    for (line, value) in [
        ("sum scan.npy --probe 1,2", 1500.0 + 6.0 * 7.0),
        ("sum_sig scan.npy --probe 1,0", 20.0 * 300.0 + 190.0),
        ("sumsig scan.npy --probe 0,0", 190.0),
        ("max scan.npy --probe 3,4", 519.0),
        ("stddev scan.npy --buffer mean --probe 0,0", 250.0),
        ("masks scan.npy --disk 0 --probe 0,1,0", 112.0),
        ("masks scan.npy --disk 1,1,0 --ring 1,1,0,1 --probe 0,0,1", 1.0 + 5.0 + 7.0 + 11.0),
        ("pick scan.npy --roi 1,2 --probe 0,3,4", 519.0),
    ] {
        assert_eq!(probed(&bench, line).as_f64(), Some(value), "{line}");
    }
    let logsum = probed(&bench, "logsum scan.npy --probe 0,1").as_f64().unwrap();
    assert!((logsum - 6.0 * 2f64.ln()).abs() < 1e-5);
    let deviation = probed(&bench, "stddev scan.npy --probe 2,2").as_f64().unwrap();
    assert!((deviation - (35.0f64 / 12.0).sqrt() * 100.0).abs() < 1e-9);
    // The frame of values 0 to 19: the centre is pulled down and to the right.
    let rows: f64 = (0..20).map(|pixel| f64::from(pixel * (pixel / 5))).sum::<f64>() / 190.0;
    let centre = probed(&bench, "com scan.npy --buffer raw_com --probe 0,0,0").as_f64().unwrap();
    assert!((centre - rows).abs() < 1e-5, "{centre} {rows}");
    let shift = "com scan.npy --cy 1 --buffer field_y --probe 0,0";
    assert!((probed(&bench, shift).as_f64().unwrap() - (rows - 1.0)).abs() < 1e-5);
}

#[test]
fn arrays_of_one_axis_are_shifts_of_all_frames_and_lines() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    bench.npy("shift.npy", "<i2", "2", &[1, 0, 2, 0]);
    // The pixel at 1, 2 of frame 1.
    let line = "masks scan.npy --disk 0,0,0 --shifts shift.npy --probe 0,1,0";
    assert_eq!(probed(&bench, line).as_f64(), Some(100.0 + 7.0));
    // Frames, and a scan, of one axis.
    bench.npy("lines.npy", "|u1", "2, 3", &[1, 2, 3, 4, 5, 6]);
    bench.npy("line.npy", "|u1", "3", &[0, 0, 1]);
    bench.npy("roi.npy", "|b1", "2", &[0, 1]);
    for (line, value) in [
        ("sum_sig --dark line.npy --probe 1", 14.0),
        ("sum_sig --bad-pixels line.npy --probe 1", 14.0),
        ("masks --masks line.npy --probe 1,0", 6.0),
    ] {
        let line = format!("{line} --roi roi.npy lines.npy --sig-dims 1");
        assert_eq!(probed(&bench, &line).as_f64(), Some(value), "{line}");
    }
}

#[test]
fn mask_files_are_stacks_or_single_frames() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    bench.npy("one.npy", "|b1", "4, 5", &[1; 20]);
    bench.npy("two.npy", "|u1", "2, 4, 5", &[2; 40]);
    let masks = "masks scan.npy --disk 0 --masks one.npy --masks two.npy";
    let summary = summary(&bench, masks);
    assert_eq!(buffer(&summary, "intensity")["shape"], json!([2, 3, 4]));
    assert_eq!(probed(&bench, &format!("{masks} --probe 0,0,1")).as_f64(), Some(190.0));
    assert_eq!(probed(&bench, &format!("{masks} --probe 0,0,3")).as_f64(), Some(380.0));
    bench.npy("wrong.npy", "|u1", "5, 4", &[2; 20]);
    bench
        .call("run masks scan.npy --masks wrong.npy")
        .assert_failed(2, &["'wrong.npy'", "[5, 4]", "[4, 5]"]);
}

#[test]
fn regions_of_interest_select_positions() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    let sum = |roi: &str| {
        let summary = summary(&bench, &format!("sum scan.npy --roi {roi}"));
        buffer(&summary, "intensity")["first"][0].as_f64().unwrap()
    };
    assert_eq!(sum("1,2"), 500.0);
    assert_eq!(sum(":,0"), 300.0);
    assert_eq!(sum("0,0:2;1,2"), 600.0);
    bench.npy("roi.npy", "|b1", "2, 3", &[0, 0, 0, 0, 1, 1]);
    assert_eq!(sum("roi.npy"), 900.0);
    bench.npy("flat.npy", "|b1", "6", &[1; 6]);
    bench.call("run sum scan.npy --roi flat.npy").assert_failed(2, &["'flat.npy'", "shape"]);
    bench.npy("ints.npy", "|u1", "2, 3", &[1; 6]);
    bench.call("run sum scan.npy --roi ints.npy").assert_failed(2, &["uint8", "bool"]);
    bench.npy("none.npy", "|b1", "2, 3", &[0; 6]);
    bench.call("run sum scan.npy --roi none.npy").assert_failed(2, &["no position"]);
    bench.call("run sum scan.npy --roi 2,0").assert_failed(2, &["'2,0'", "axis 0"]);
}

#[test]
fn threads_change_no_bit() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    let results: Vec<Value> = ["1", "2", "7"]
        .map(|n| summary(&bench, &format!("stddev scan.npy --threads {n}"))["buffers"].clone())
        .to_vec();
    assert!(results.windows(2).all(|pair| pair[0] == pair[1]));
}

#[test]
fn scan_shapes_that_do_not_fit_are_announced_by_each_command() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    for (shape, words) in [
        ("2,2", "; the last 2 frames are not shown"),
        ("3,3", "; the last 3 positions have no data"),
        ("3,2", "; the data have rows of 3 positions: the picture is sheared"),
    ] {
        for line in ["run sum_sig scan.npy", "convert scan.npy copy.npy --force"] {
            let outcome = bench.call(&format!("{line} --nav-shape {shape}"));
            assert_eq!(outcome.code, 0, "{}", outcome.stderr);
            assert!(outcome.stderr.contains("warning: scan.npy: the scan shape"), "{line} {shape}");
            assert!(outcome.stderr.contains(words), "{line} {shape}: {}", outcome.stderr);
        }
        let info = bench.call(&format!("info scan.npy --nav-shape {shape}"));
        assert!(info.stdout.contains(words), "{}", info.stdout);
    }
}

#[test]
fn detectors_that_see_nothing_are_announced() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    bench.npy("zeros.npy", "|u1", "4, 5", &[0; 20]);
    for (line, words) in [
        ("masks scan.npy --ring 20,30", "the ring 20,30 covers no pixel of frames of shape [4, 5]"),
        ("masks scan.npy --disk 9,9,8", "the disk 9,9,8 has its centre (9, 9) outside of frames"),
        ("masks scan.npy --masks zeros.npy", "the mask covers no pixel: all of its weights are 0"),
        ("com scan.npy --cy 100 --radius 3", "the region around (cy, cx) covers no pixel"),
    ] {
        let outcome = bench.call(&format!("run {line} --json"));
        assert_eq!(outcome.code, 0, "{line}: {}", outcome.stderr);
        let said = format!("warning: scan.npy: {words}");
        assert!(outcome.stderr.contains(&said), "{line}: {}", outcome.stderr);
        assert_eq!(outcome.json()[0]["warnings"].as_array().unwrap().len(), 1, "{line}");
        assert_eq!(bench.call(&format!("run {line} -q")).stderr, "", "{line}");
    }
}

#[test]
fn positions_without_data_do_not_count_and_are_announced() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    let outcome = bench.call("run sum_sig scan.npy --json --sync-offset 4");
    let said = |words: &str| outcome.stderr.contains(&format!("warning: scan.npy: {words}"));
    assert!(said("4 of 6 selected scan positions have no data"), "{}", outcome.stderr);
    assert!(said("the scan shape [2, 3] with sync_offset 4 has 6 positions"), "{}", outcome.stderr);
    assert_eq!(outcome.json()[0]["warnings"].as_array().unwrap().len(), 2);
    let one = bench.call("run sum_sig scan.npy --sync-offset 1").stderr;
    assert!(one.contains("1 of 6 selected scan positions has no data; it does not"), "{one}");
    let intensity = &outcome.json()[0]["buffers"][0];
    assert_eq!(intensity["n_values"], 2);
    assert_eq!(intensity["sum"].as_f64(), Some(20.0 * 900.0 + 380.0));
    assert_eq!(intensity["first"][2], Value::Null);
    assert_eq!(bench.call("run sum_sig scan.npy --json -q --sync-offset 4").stderr, "");
}

#[test]
fn explain_prints_the_plan_and_runs_nothing() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    let outcome = bench.call("run com scan.npy --explain -o out.png");
    assert_eq!(outcome.code, 0);
    for part in ["partitions", "tiles", "com", "uint16"] {
        assert!(outcome.stdout.contains(part), "{}", outcome.stdout);
    }
    assert_eq!(bench.names(), ["scan.npy"]);
    let plan = &bench.call("run com scan.npy --explain --json").json()[0];
    assert_eq!((&plan["n_frames"], &plan["bytes_to_read"]), (&json!(6), &json!(240)));
}

#[test]
fn results_are_summed_up_in_words() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    let outcome = bench.call("run max scan.npy --probe 0,0");
    assert_eq!(outcome.stderr, "");
    let expected = "intensity[0, 0] = 500\n\
                    scan.npy: intensity (4, 5) uint16, from 500 to 519, sum 10190\n";
    assert_eq!(outcome.stdout, expected);
    assert_eq!(bench.call("run max scan.npy -q").stdout, "");
}
