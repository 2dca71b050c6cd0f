//! Real files against what independent readers found in them.
//!
//! `FRAMEFOLD_TEST_DATA` names the directory of test data, and has to be right; without it,
//! `../shared/data` beside the repository is used. Where there is none, the test says so and passes.

use crate::support::Bench;
use serde_json::Value;
use std::path::PathBuf;

fn data() -> Option<PathBuf> {
    let folder = std::env::var_os("FRAMEFOLD_TEST_DATA").map_or_else(
        || PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../../../shared/data")),
        PathBuf::from,
    );
    if folder.join("MANIFEST.json").is_file() {
        return Some(folder);
    }
    let named = std::env::var_os("FRAMEFOLD_TEST_DATA").is_some();
    assert!(!named, "FRAMEFOLD_TEST_DATA: there is no MANIFEST.json in {}", folder.display());
    eprintln!("skipped: there is no MANIFEST.json in {}", folder.display());
    None
}

/// The C-order coordinates in `shape` of the cell at `index` of an array of shape `of`.
fn reshaped(index: &Value, of: &Value, shape: &Value) -> String {
    let numbers = |value: &Value| -> Vec<u64> {
        value.as_array().unwrap().iter().map(|n| n.as_u64().unwrap()).collect()
    };
    let mut flat = numbers(index).iter().zip(numbers(of)).fold(0, |flat, (i, len)| flat * len + i);
    let mut coordinates = Vec::new();
    for len in numbers(shape).into_iter().rev() {
        coordinates.insert(0, (flat % len).to_string());
        flat /= len;
    }
    coordinates.join(",")
}

#[test]
fn pick_gives_what_other_readers_found() {
    let Some(folder) = data() else { return };
    let text = std::fs::read_to_string(folder.join("MANIFEST.json")).unwrap();
    // Python writes what JSON does not know; none of it is compared here.
    let text = text.replace("-Infinity", "null").replace("Infinity", "null").replace("NaN", "null");
    let manifest: Value = serde_json::from_str(&text).unwrap();
    let bench = Bench::new();
    let mut n_readings = 0;
    for entry in manifest["entries"].as_array().unwrap() {
        let format = entry["format"].as_str().unwrap_or("");
        if !["MIB", "NPY", "BLO"].contains(&format) {
            continue;
        }
        let file = folder.join(entry["file"].as_str().unwrap());
        let pick = |extra: &str| -> Value {
            let mut command = bench.command("run pick --json --quiet");
            command.arg(&file).args(extra.split(' ').filter(|word| !word.is_empty()));
            let output = command.output().unwrap();
            assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
            let json: Value = serde_json::from_slice(&output.stdout).unwrap();
            json["buffers"][0].clone()
        };
        for reading in entry["readings"].as_array().into_iter().flatten() {
            if reading["sum_f64"].is_null() {
                continue;
            }
            n_readings += 1;
            let name = file.display();
            let found = pick("");
            let dtype = reading["dtype"].as_str().unwrap();
            assert!(
                framefold::core::StoredDType::parse(dtype).unwrap().dtype.name() == found["dtype"],
                "{name}: {dtype} {}",
                found["dtype"]
            );
            for key in ["min", "max"] {
                assert_eq!(found[key].as_f64(), reading[key].as_f64(), "{name}: {key}");
            }
            assert_eq!(found["sum"].as_f64(), reading["sum_f64"].as_f64(), "{name}: sum");
            if let Some(first) = reading["sum_first_frame"].as_f64() {
                let axes = found["shape"].as_array().unwrap().len() - 2;
                let roi = vec!["0"; axes].join(",");
                let frame = pick(&format!("--roi {roi}"));
                assert_eq!(frame["sum"].as_f64(), Some(first), "{name}: first frame");
            }
            // Most other readers of MIB turn frames upside down.
            let reader = reading["reader"].as_str().unwrap_or("");
            if format == "MIB" && !reader.contains("LiberTEM") {
                continue;
            }
            let probes: Vec<(&Value, &Value)> = reading["probes"]
                .as_array()
                .into_iter()
                .flatten()
                .map(|probe| (&probe[0], &probe[1]))
                .collect();
            let options: Vec<String> = probes
                .iter()
                .map(|(index, _)| {
                    format!("--probe {}", reshaped(index, &reading["shape"], &found["shape"]))
                })
                .collect();
            let probed = pick(&options.join(" "));
            for (i, (index, value)) in probes.iter().enumerate() {
                let found = &probed["probes"][i]["value"];
                assert_eq!(found.as_f64(), value.as_f64(), "{name}: probe {index}");
            }
        }
    }
    assert!(n_readings > 0, "the manifest has no reading to compare with");
}

#[test]
fn a_real_scan_gives_a_picture() {
    let Some(folder) = data() else { return };
    let scan = "MIB/rosettasciio/Merlin_navigation4x2_signalNx256_ROI/\
                003_merlin_test_roi_sig256x64_nav4x2_hot_pixel_52x_39y.mib";
    let bench = Bench::new();
    let output =
        bench.command("run com -o com.png --plain").arg(folder.join(scan)).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let file = std::io::BufReader::new(std::fs::File::open(bench.path("com.png")).unwrap());
    let reader = png::Decoder::new(file).read_info().unwrap();
    assert_eq!((reader.info().width, reader.info().height), (512, 256));
}
