//! The files that `framefold run` writes.

use crate::support::{Bench, npy_f32};
use serde_json::{Value, json};
use std::io::Read;

#[test]
fn npy_holds_one_buffer_and_nan_where_there_is_nothing() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    assert_eq!(bench.call("run sum_sig scan.npy -o out.npy --roi 0,1;1,2 -q").code, 0);
    let (header, values) = npy_f32(&bench.path("out.npy"));
    assert!(header.contains("(2, 3)"), "{header}");
    assert_eq!((values[1], values[5]), (2190.0, 10190.0));
    assert!([0, 2, 3, 4].into_iter().all(|i| values[i].is_nan()), "{values:?}");
}

#[test]
fn integers_without_data_become_nan_too() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    assert_eq!(bench.call("run pick scan.npy -o out.npy --roi 1,: --sync-offset 1 -q").code, 0);
    let (header, values) = npy_f32(&bench.path("out.npy"));
    assert!(header.contains("(3, 4, 5)"), "{header}");
    assert_eq!((values[0], values[39]), (400.0, 519.0));
    assert!(values[40..].iter().all(|value| value.is_nan()));
}

#[test]
fn sums_over_nothing_are_no_zeros() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    // The last row has no frames, and nothing else is selected.
    let none = "--sync-offset 3 --roi 1:,: -q";
    for reduction in ["sum", "logsum", "max"] {
        let call = |rest: &str| bench.call(&format!("run {reduction} scan.npy {none} {rest}"));
        assert_eq!(call("-f -o out.npy").code, 0);
        assert!(npy_f32(&bench.path("out.npy")).1.iter().all(|value| value.is_nan()));
        let csv = call("-o -").stdout;
        assert_eq!(csv.lines().filter(|line| line.ends_with(',')).count(), 20, "{csv}");
        let json = call("--json --probe 1,1").json().remove(0);
        let buffer = &json["buffers"][0];
        assert_eq!((&buffer["n_values"], &buffer["sum"]), (&json!(0), &Value::Null));
        assert_eq!(
            (&buffer["first"][0], &buffer["probes"][0]["value"]),
            (&Value::Null, &Value::Null)
        );
        assert!(call("--probe 1,1").stdout.ends_with("[1, 1] = no data\n"));
        assert_eq!(call("-f -o out.npz").code, 0);
        assert!(member(&bench, "valid").ends_with(&[b'\n', 0, 0, 0, 0, 0, 0]));
        let name = buffer["name"].as_str().unwrap();
        let missing = if reduction == "max" { [0; 4] } else { f32::NAN.to_le_bytes() };
        assert!(member(&bench, name).ends_with(&missing));
        assert_eq!(call("-f -o out.tif").code, 0);
        let file = std::fs::File::open(bench.path("out.tif")).unwrap();
        match tiff::decoder::Decoder::new(file).unwrap().read_image().unwrap() {
            tiff::decoder::DecodingResult::F32(values) => assert!(values[0].is_nan()),
            other => panic!("{other:?}"),
        }
        assert_eq!(call("-f -o out.png --plain").code, 0);
        let file = std::io::BufReader::new(std::fs::File::open(bench.path("out.png")).unwrap());
        let mut reader = png::Decoder::new(file).read_info().unwrap();
        let mut pixels = vec![1; reader.output_buffer_size().unwrap()];
        reader.next_frame(&mut pixels).unwrap();
        assert!(pixels.chunks(4).all(|pixel| pixel[3] == 0));
        assert_eq!(call("-f -o out.h5").code, 0);
        let valid = format!("run max out.h5 --ds-path {name}/valid --sig-dims 2 --json -q");
        assert_eq!(bench.call(&valid).json()[0]["buffers"][0]["max"], json!(false));
    }
    let words = bench.call("run sum scan.npy --sync-offset 3 --roi 1:,:").stdout;
    assert_eq!(words, "scan.npy: intensity (4, 5) float32, no data\n");
}

#[test]
fn npz_holds_all_buffers_and_the_mask() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    assert_eq!(bench.call("run com scan.npy -o out.npz --roi 0,: -q").code, 0);
    for name in ["raw_com", "raw_shifts", "field", "field_y", "field_x", "magnitude"] {
        assert!(!member(&bench, name).is_empty(), "{name}");
    }
    assert!(member(&bench, "valid").ends_with(&[b'\n', 1, 1, 1, 0, 0, 0]));
}

/// The bytes of an array in `out.npz`.
fn member(bench: &Bench, name: &str) -> Vec<u8> {
    let file = std::fs::File::open(bench.path("out.npz")).unwrap();
    let mut archive = zip::ZipArchive::new(file).unwrap();
    let mut bytes = Vec::new();
    archive.by_name(&format!("{name}.npy")).unwrap().read_to_end(&mut bytes).unwrap();
    bytes
}

#[test]
fn picked_frames_come_with_their_positions() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    assert_eq!(bench.call("run pick scan.npy -o out.npz --roi 0,2;1,1: -q").code, 0);
    assert!(member(&bench, "valid").ends_with(&[b'\n', 1, 1, 1]));
    let positions: Vec<u8> = [0i64, 2, 1, 1, 1, 2].into_iter().flat_map(i64::to_le_bytes).collect();
    assert!(member(&bench, "positions").ends_with(&positions));
    assert!(member(&bench, "intensity").ends_with(&519u16.to_le_bytes()));
}

#[test]
fn picked_frames_lie_along_no_axis_of_a_scan_of_two() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    // As many as the last axis of the scan has positions.
    let table = bench.call("run pick scan.npy --roi 0,0;1,1: --scan-step 10nm,1nm -o -").stdout;
    assert!(table.starts_with("index_0,y,x,intensity\n"), "{table}");
    let whole = bench.call("run pick scan.npy --nav-shape 6 --roi : --scan-step 2nm -o -").stdout;
    assert!(whole.lines().nth(21).unwrap().starts_with("2,0,0,"), "{whole}");
    assert!(whole.contains("(nm),y,x,intensity\n"), "{whole}");
}

#[test]
fn tif_holds_a_page_per_mask() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    assert_eq!(bench.call("run masks scan.npy --disk 0 --disk 1 -o out.tif -q").code, 0);
    let file = std::fs::File::open(bench.path("out.tif")).unwrap();
    let mut decoder = tiff::decoder::Decoder::new(file).unwrap();
    assert_eq!(decoder.dimensions().unwrap(), (3, 2));
    match decoder.read_image().unwrap() {
        tiff::decoder::DecodingResult::F32(values) => assert_eq!(values[..2], [12.0, 112.0]),
        other => panic!("{other:?}"),
    }
    assert!(decoder.more_images());
}

#[test]
fn png_shows_the_scan_enlarged_with_gaps_transparent() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    let outcome = bench.call("run sum_sig scan.npy -o out.png --cmap gray --roi 0,:;1,1: --plain");
    assert!(
        outcome.stdout.starts_with("out.png: intensity: colours of gray"),
        "{}",
        outcome.stdout
    );
    let file = std::io::BufReader::new(std::fs::File::open(bench.path("out.png")).unwrap());
    let mut reader = png::Decoder::new(file).read_info().unwrap();
    let mut pixels = vec![0; reader.output_buffer_size().unwrap()];
    let info = reader.next_frame(&mut pixels).unwrap();
    assert_eq!((info.width, info.height), (510, 340));
    let pixel = |y: usize, x: usize| &pixels[(y * 510 + x) * 4..][..4];
    assert_eq!(pixel(0, 0), [0, 0, 0, 255]);
    assert_eq!(pixel(339, 509), [255; 4]);
    assert_eq!(pixel(339, 0)[3], 0);
}

#[test]
fn pixels_in_colours_are_drawn_as_they_are() {
    let bench = Bench::new();
    let pixels: Vec<u8> = (0..24).map(|i| 10 * i).collect();
    let file = std::fs::File::create(bench.path("rgb.tif")).unwrap();
    let mut file = tiff::encoder::TiffEncoder::new(file).unwrap();
    file.write_image::<tiff::encoder::colortype::RGB8>(4, 2, &pixels).unwrap();
    let drawn = |line: &str| {
        let outcome = bench.call(&format!("run {line} -f -o out.png --plain --upscale 1"));
        let file = std::io::BufReader::new(std::fs::File::open(bench.path("out.png")).unwrap());
        let mut reader = png::Decoder::new(file).read_info().unwrap();
        let mut bytes = vec![0; reader.output_buffer_size().unwrap()];
        let info = reader.next_frame(&mut bytes).unwrap();
        (info.width, info.height, bytes, outcome.stdout)
    };
    let opaque: Vec<u8> = pixels.chunks(3).flat_map(|rgb| [rgb[0], rgb[1], rgb[2], 255]).collect();
    for line in ["max rgb.tif", "pick rgb.tif"] {
        let (width, height, bytes, said) = drawn(line);
        assert_eq!((width, height, bytes == opaque), (4, 2, true), "{line}");
        assert_eq!(said, "out.png: intensity: red, green and blue as they are\n");
    }
    // Sums are numbers, no colours: a picture for each.
    let (.., said) = drawn("sum rgb.tif");
    assert_eq!(said.matches("colours of viridis").count(), 3, "{said}");
    // Of other files one says which axis holds colours.
    bench.npy("rgb.npy", "|u1", "2, 4, 3", &pixels);
    let named = "max rgb.npy --sig-dims 3 --names scan,y,x,colour";
    let (width, height, bytes, _) = drawn(named);
    assert_eq!((width, height, bytes == opaque), (4, 2, true));
}

#[test]
fn pictures_are_labelled_unless_they_are_to_be_plain() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    let size = |name: &str| {
        let file = std::io::BufReader::new(std::fs::File::open(bench.path(name)).unwrap());
        let reader = png::Decoder::new(file).read_info().unwrap();
        (reader.info().width, reader.info().height)
    };
    assert_eq!(bench.call("run sum_sig scan.npy -o plain.png --plain -q").code, 0);
    assert_eq!(bench.call("run sum_sig scan.npy -o bar.png --legend -q").code, 0);
    assert_eq!(bench.call("run sum_sig scan.npy -o labelled.png -q").code, 0);
    assert_eq!(size("plain.png"), (510, 340));
    assert_eq!(size("bar.png").1, 340);
    assert!(size("labelled.png") > size("bar.png") && size("labelled.png").1 > 340);
    assert_eq!(bench.call("run sum_sig scan.npy -o out.jpg -q").code, 0);
    assert!(std::fs::read(bench.path("out.jpg")).unwrap().starts_with(&[0xFF, 0xD8, 0xFF]));
}

#[test]
fn csv_is_a_table_also_on_standard_output() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    assert_eq!(bench.call("run masks scan.npy --disk 0 --disk 1 -o out.csv -q").code, 0);
    let text = std::fs::read_to_string(bench.path("out.csv")).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines[0], "scan_y,scan_x,intensity[0],intensity[1]");
    assert_eq!(lines.len(), 7);
    assert!(lines[1].starts_with("0,0,12,"));
    let outcome = bench.call("run masks scan.npy --disk 0 --disk 1 -o -");
    assert_eq!((outcome.code, outcome.stdout.as_str()), (0, text.as_str()));
    let outcome = bench.call("run sum_sig scan.npy --roi 1,2 -o - -q");
    assert!(outcome.stdout.contains("\n0,0,\n"), "{}", outcome.stdout);
    bench.call("run sum scan.npy -o - --json").assert_failed(2, &["would mix"]);
}

#[test]
fn hdf5_holds_all_results_as_nexus() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    assert_eq!(bench.call("run stddev scan.npy -o out.h5 -q").code, 0);
    let outcome =
        bench.call("run sum out.h5 --format hdf5 --ds-path mean/data --sig-dims 1 --json");
    assert_eq!(outcome.code, 0, "{}", outcome.stderr);
    bench.call("run stddev scan.npy -o out.h5").assert_failed(2, &["exists"]);
}

#[test]
fn hdf5_has_an_axis_and_a_truth_value_for_each_channel() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    assert_eq!(bench.call("run com scan.npy --roi 1,: -o out.h5 -q").code, 0);
    let found = |path: &str, sig_dims: usize| {
        let line =
            format!("run pick out.h5 --ds-path field/{path} --sig-dims {sig_dims} --json -q");
        let buffer = bench.call(&line).json()[0]["buffers"][0].clone();
        (buffer["shape"].clone(), buffer["first"].clone())
    };
    assert_eq!(found("data_extra_0", 1), (json!([1, 2]), json!([0.0, 1.0])));
    let (shape, first) = found("valid", 3);
    assert_eq!(shape, json!([1, 2, 3, 2]));
    assert_eq!(first, json!([false, false, false, false, false, false, true, true]));
}

#[test]
fn buffers_and_files_are_chosen_by_name() {
    let bench = Bench::new();
    for name in ["a.npy", "b.npy"] {
        bench.scan(name);
    }
    let outcome = bench.call("run stddev a.npy b.npy --buffer var -o {stem}-var.tif -q");
    assert_eq!((outcome.code, outcome.stderr.as_str()), (0, ""));
    assert_eq!(bench.names(), ["a-var.tif", "a.npy", "b-var.tif", "b.npy"]);
    bench.call("run stddev a.npy --buffer nope").assert_failed(2, &["'nope'", "varsum"]);
}

#[cfg(unix)]
#[test]
fn outputs_have_the_permissions_of_ordinary_files() {
    use std::os::unix::fs::PermissionsExt;
    let bench = Bench::new();
    bench.scan("scan.npy");
    assert_eq!(bench.call("run sum scan.npy -o out.npy -q").code, 0);
    let mode = |name: &str| std::fs::metadata(bench.path(name)).unwrap().permissions().mode();
    assert_eq!(mode("out.npy"), mode("scan.npy"));
}

#[test]
fn files_that_are_read_are_not_replaced() {
    let bench = Bench::new();
    for name in ["a.npy", "a-sum.npy"] {
        bench.scan(name);
    }
    bench.npy("plane.npy", "<f4", "4, 5", &[0; 80]);
    bench.npy("roi.npy", "|b1", "2, 3", &[1; 6]);
    let before = ["a.npy", "a-sum.npy", "plane.npy", "roi.npy"]
        .map(|name| std::fs::read(bench.path(name)).unwrap());
    for line in [
        "run sum a.npy a-sum.npy -o {stem}-sum.npy -f",
        "run sum a.npy --dark plane.npy -o plane.npy -f",
        "run sum a.npy --gain plane.npy -o plane.npy -f",
        "run sum a.npy --bad-pixels plane.npy -o plane.npy -f",
        "run masks a.npy --masks plane.npy -o plane.npy -f",
        "run sum a.npy --roi roi.npy -o roi.npy -f",
        "convert a.npy plane.npy --dark plane.npy -f",
        "convert a.npy roi.npy --roi roi.npy -f",
    ] {
        bench.call(line).assert_failed(2, &["the output is one of the input files"]);
    }
    let after = ["a.npy", "a-sum.npy", "plane.npy", "roi.npy"]
        .map(|name| std::fs::read(bench.path(name)).unwrap());
    assert!(before == after);
}

#[test]
fn enlargements_beyond_all_numbers_are_refused() {
    let bench = Bench::new();
    bench.scan("scan.npy");
    let wide: Vec<u8> = vec![1; 32];
    bench.npy("wide.npy", "|u1", "1, 2, 16", &wide);
    for (file, factor) in [("scan.npy", u64::MAX), ("wide.npy", 1 << 60), ("wide.npy", u64::MAX)] {
        let line = format!("run sum {file} -o out.png --upscale {factor}");
        bench.call(&line).assert_failed(4, &["too large"]);
    }
    assert!(!bench.path("out.png").exists());
}
