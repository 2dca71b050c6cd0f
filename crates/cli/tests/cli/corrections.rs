//! Dark frames, gain maps and bad pixels on the command line.

use crate::support::{Bench, npy_f32};

/// What [`Bench::scan`] writes, corrected: (value − dark) × gain, and pixel (1, 2) is the mean of those around it.
fn expected(frame: usize, pixel: usize, gain: f32) -> f32 {
    let value = |pixel: usize| ((frame * 100 + pixel) as f32 - pixel as f32 / 2.0) * gain;
    if pixel != 7 {
        return value(pixel);
    }
    let around = [1, 2, 3, 6, 8, 11, 12, 13];
    around.iter().map(|&pixel| value(pixel)).sum::<f32>() / 8.0
}

/// A scan of 2 × 3 frames of 4 × 5, a dark frame of halves of pixel numbers, and a gain of 3.
fn bench() -> Bench {
    let bench = Bench::new();
    bench.scan("scan.npy");
    let dark: Vec<u8> = (0..20).flat_map(|pixel| (pixel as f64 / 2.0).to_le_bytes()).collect();
    bench.npy("dark.npy", "<f8", "4, 5", &dark);
    bench.npy("gain.npy", "|u1", "4, 5", &[3; 20]);
    let mut mask = [0; 20];
    mask[7] = 1;
    bench.npy("mask.npy", "|b1", "4, 5", &mask);
    bench.npy("rows.npy", "<i8", "1, 2", &[1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0]);
    bench
}

#[test]
fn dark_gain_and_bad_pixels_in_this_order() {
    let bench = bench();
    for (i, bad) in ["mask.npy", "rows.npy", "1,2", "-3,-3", "1:2,2;1,2:3"].iter().enumerate() {
        let line = format!(
            "convert scan.npy out-{i}.npy --dark dark.npy --gain gain.npy --bad-pixels {bad}"
        );
        let outcome = bench.call(&line);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""), "{bad}");
        let (header, values) = npy_f32(&bench.path(&format!("out-{i}.npy")));
        assert!(header.contains("(2, 3, 4, 5)"), "{header}");
        for (cell, value) in values.iter().enumerate() {
            let expected = expected(cell / 20, cell % 20, 3.0);
            assert!(
                (value - expected).abs() <= 1e-4 * expected.abs(),
                "{bad} {cell}: {value} {expected}"
            );
        }
    }
}

#[test]
fn they_come_before_stages_and_after_turns() {
    let bench = bench();
    let probe = |line: &str| -> f64 {
        let summary = bench.call(&format!("run sum scan.npy {line} --json")).json().remove(0);
        summary["buffers"][0]["probes"][0]["value"].as_f64().unwrap()
    };
    let sum =
        |pixel: usize| (0..6).map(|frame| f64::from(expected(frame, pixel, 1.0))).sum::<f64>();
    let given = "--dark dark.npy --bad-pixels 1,2";
    assert!((probe(&format!("{given} --probe 1,2")) - sum(7)).abs() < 1e-3);
    // The pixel is another one behind the crop, and was repaired before.
    assert!((probe(&format!("--crop 1:3,2:4 {given} --probe 0,0")) - sum(7)).abs() < 1e-3);
    // Of turned frames: pixel (2, 2) there is (1, 2) of the file, and what is subtracted is that of (2, 2).
    let raw = 6.0 * 7.0 + 1500.0;
    let turned = probe("--flip y --dark dark.npy --probe 2,2");
    assert!((turned - (raw - 6.0 * 6.0)).abs() < 1e-3, "{turned}");
}

#[test]
fn info_says_what_is_corrected() {
    let bench = bench();
    let plain = bench.call("info scan.npy");
    assert!(!plain.stdout.contains("corrected"), "{}", plain.stdout);
    let given = "--gain gain.npy --bad-pixels 1,2;:,0";
    let info = bench.call(&format!("info scan.npy {given}"));
    assert!(info.stdout.contains("corrected   gain map, 5 excluded pixels"), "{}", info.stdout);
    let piped = bench.call(&format!("info scan.npy {given} --bin 2 --json")).json().remove(0);
    assert_eq!(piped["corrected"], "gain map, 5 excluded pixels");
    assert_eq!(bench.call("info scan.npy --json").json()[0]["corrected"], serde_json::Value::Null);
}

#[test]
fn what_cannot_be_repaired_is_left_with_a_warning() {
    let bench = bench();
    let outcome = bench.call("run sum scan.npy --bad-pixels 0:3,0:3 --probe 1,1 --probe 0,0");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    for word in ["warning", "4 of 9 excluded pixels", "[0, 0]", "left as they are"] {
        assert!(outcome.stderr.contains(word), "no '{word}' in {}", outcome.stderr);
    }
    assert!(
        outcome.stdout.contains(&format!("intensity[1, 1] = {}", 1500 + 6 * 6)),
        "{}",
        outcome.stdout
    );
}

#[test]
fn what_does_not_fit_is_refused_in_one_line() {
    let bench = bench();
    bench.npy("wide.npy", "<f4", "5, 4", &[0; 80]);
    bench.npy("deep.npy", "<f4", "1, 4, 5", &[0; 80]);
    bench.npy("nan.npy", "<f4", "4, 5", &f32::NAN.to_le_bytes().repeat(20));
    bench.npy("waves.npy", "<c8", "4, 5", &[0; 160]);
    bench.npy("words.npy", "<U1", "4, 5", &[0; 80]);
    bench.npy("cut.npy", "<f4", "4, 5", &[0; 50]);
    bench.npy("square.npy", "|u1", "2, 2", &[0, 1, 2, 3]);
    bench.npy("outside.npy", "<i2", "1, 2", &[4, 0, 0, 0]);
    bench.npy("float.npy", "<f4", "3, 2", &[0; 24]);
    for (options, code, words) in [
        ("--dark none.npy", 5, &["'none.npy'"][..]),
        ("--dark wide.npy", 2, &["'wide.npy'", "dark frame", "[5, 4]", "[4, 5]"]),
        ("--gain deep.npy", 2, &["'deep.npy'", "gain map", "[1, 4, 5]", "[4, 5]"]),
        ("--dark nan.npy", 2, &["'nan.npy'", "NaN", "20 pixels", "--bad-pixels"]),
        ("--gain waves.npy", 2, &["'waves.npy'", "complex64", "uint16"]),
        ("--dark words.npy", 4, &["'words.npy'"]),
        ("--dark cut.npy", 3, &["'cut.npy'", "cut short"]),
        ("--bad-pixels square.npy", 2, &["'square.npy'", "rows or in columns"]),
        ("--bad-pixels outside.npy", 2, &["'outside.npy'", "(4, 0)", "[4, 5]"]),
        ("--bad-pixels float.npy", 2, &["'float.npy'", "[3, 2]", "float32", "[4, 5]"]),
        ("--bad-pixels 4,0", 2, &["'4,0'", "axis 0 of a frame", "0 to 4"]),
        ("--bad-pixels bad.tif", 2, &["'bad.tif'", ".npy"]),
        ("--bad-pixels 1,2,3", 2, &["3 axes", "a frame has 2"]),
        ("--dark dark.npy --corrections", 2, &["--dark", "--corrections"]),
    ] {
        for command in ["run sum scan.npy", "info scan.npy"] {
            bench.call(&format!("{command} {options}")).assert_failed(code, words);
        }
    }
    let outcome = bench.call("convert scan.npy out.npy --dark wide.npy");
    outcome.assert_failed(2, &["'wide.npy'"]);
    assert!(!bench.path("out.npy").exists());
}
