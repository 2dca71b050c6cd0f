//! How long the viewer's answers take, and how far binned ones are off, on a generated file: `view_engine [ROWS]
//! [FOLDER] [BUDGET]`.
//!
//! BUDGET is in MiB. A scan of ROWS × ROWS (256) frames of 256² uint16 is written to FOLDER and removed afterwards. Answers are
//! checked against each other before times are printed.

use framefold::{Cancel, OpenOptions};
use framefold_view::{
    BackgroundState, Centre, ComPart, PatternQuery, Picture, Query, ScanChannel, ScanQuery, Shape,
    Sign, Signed, State, Viewer, ViewerOptions, Wish,
};
use std::error::Error;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

type Outcome<T> = Result<T, Box<dyn Error>>;

const EDGE: usize = 256;

fn main() -> Outcome<()> {
    let mut arguments = std::env::args().skip(1);
    let rows: usize = arguments.next().map_or(Ok(256), |rows| rows.parse())?;
    let folder = arguments.next().map_or_else(std::env::temp_dir, PathBuf::from);
    let budget = arguments.next().map(|text| text.parse::<u64>()).transpose()?;
    let budget = budget.map(|mebibytes| mebibytes << 20);
    let path = folder.join(format!("framefold-view-bench-{}.npy", std::process::id()));
    let outcome = write(&path, rows).and_then(|()| measure(&path, rows, budget));
    std::fs::remove_file(&path)?;
    outcome
}

/// Frames with a bright disk that moves a little, and counts elsewhere.
fn write(path: &Path, rows: usize) -> Outcome<()> {
    const DIFFERENT: usize = 61;
    let mut seed = 1u64;
    let mut random = move || {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (seed >> 33) as usize
    };
    let mut frames = Vec::new();
    for number in 0..DIFFERENT {
        let centre = [127.5 + (number % 3) as f64, 128.0 - (number % 2) as f64];
        let mut frame = Vec::with_capacity(2 * EDGE * EDGE);
        for pixel in 0..EDGE * EDGE {
            let [y, x] = [(pixel / EDGE) as f64 - centre[0], (pixel % EDGE) as f64 - centre[1]];
            let bright = if y * y + x * x <= 16.0 * 16.0 { 2000 } else { 0 };
            let count = u16::try_from(bright + random() % (2 + number))?;
            frame.extend_from_slice(&count.to_le_bytes());
        }
        frames.push(frame);
    }
    let header = format!(
        "{{'descr': '<u2', 'fortran_order': False, 'shape': ({rows}, {rows}, {EDGE}, {EDGE}), }}"
    );
    let mut file = BufWriter::with_capacity(1 << 20, std::fs::File::create(path)?);
    file.write_all(b"\x93NUMPY\x01\x00")?;
    let len = (10 + header.len() + 1).next_multiple_of(64) - 10;
    file.write_all(&u16::try_from(len)?.to_le_bytes())?;
    writeln!(file, "{header:<width$}", width = len - 1)?;
    for number in 0..rows * rows {
        file.write_all(&frames[(number * 7 + number / rows) % DIFFERENT])?;
    }
    file.flush()?;
    Ok(())
}

/// The first and the last picture of an answer, and when they came.
struct Answer {
    first: Picture,
    first_at: Duration,
    last: Picture,
    last_at: Duration,
}

fn answer(viewer: &Viewer, query: &Query, wish: Wish, start: Instant) -> Outcome<Answer> {
    let (mut first, mut last) = (None, None);
    viewer.answer(query, wish, &Cancel::new(), &mut |picture| {
        let at = start.elapsed();
        first.get_or_insert_with(|| (picture.clone(), at));
        last = Some((picture, at));
        Ok(())
    })?;
    let ((first, first_at), (last, last_at)) = first.zip(last).ok_or("no picture")?;
    Ok(Answer { first, first_at, last, last_at })
}

fn scan(channel: ScanChannel, shape: Option<Shape>) -> Query {
    let detector = shape.map(|shape| Signed { shape, sign: Sign::Plus }).into_iter().collect();
    Query::Scan(ScanQuery { channel, detector, ..Default::default() })
}

fn row(what: &str, picture: &Picture, seconds: Duration) {
    println!("| {what} | {} | {:.1} ms |", picture.label, 1000.0 * seconds.as_secs_f64());
}

fn measure(path: &Path, rows: usize, budget: Option<u64>) -> Outcome<()> {
    let (cy, cx) = (127.5, 127.0);
    let bf = |by: f64| Shape::Disk { cy: cy + by, cx, r: 16.0 };
    let adf = |by: f64| Shape::Ring { cy: cy + by, cx, ri: 40.0, ro: 100.0 };
    let com = ScanChannel::Com {
        part: ComPart::Vector,
        centre: Centre::Mean,
        rotation: 0.0,
        flip_y: false,
    };
    println!("| what | picture | time |\n|---|---|---|");
    let start = Instant::now();
    let open = || -> Outcome<Viewer> {
        let dataset = framefold::open(path, &OpenOptions::default())?;
        let options = ViewerOptions { budget, ..ViewerOptions::default() };
        Ok(Viewer::try_new("bench".into(), dataset, options)?)
    };
    let viewer = open()?;
    let found = answer(&viewer, &Query::Pattern(PatternQuery::default()), Wish::Fast, start)?;
    row("open, first mean pattern", &found.first, found.first_at);
    let start = Instant::now();
    let found = answer(&viewer, &scan(ScanChannel::Sum, Some(bf(0.0))), Wish::Fast, start)?;
    row("first bright field", &found.first, found.first_at);
    for by in [1.0, 2.0] {
        let start = Instant::now();
        let found = answer(&viewer, &scan(ScanChannel::Sum, Some(adf(by))), Wish::Fast, start)?;
        row("annular dark field, moved", &found.first, found.first_at);
    }
    // By itself: nothing goes on beside it.
    viewer.rest();
    let mut exact = Vec::new();
    for (what, query) in [
        ("bright field", scan(ScanChannel::Sum, Some(bf(3.0)))),
        ("annular dark field", scan(ScanChannel::Sum, Some(adf(3.0)))),
        ("whole frame", scan(ScanChannel::Sum, None)),
        ("standard deviation", scan(ScanChannel::Std, None)),
        ("maximum", scan(ScanChannel::Max, None)),
        ("centre of mass", scan(com.clone(), None)),
        ("mean pattern", Query::Pattern(PatternQuery::default())),
    ] {
        let start = Instant::now();
        let found = answer(&viewer, &query, Wish::Exact, start)?;
        row(&format!("{what}: first"), &found.first, found.first_at);
        row(&format!("{what}: exact"), &found.last, found.last_at);
        exact.push(found.last);
    }
    drop(viewer);
    let viewer = open()?;
    let start = Instant::now();
    viewer.warm();
    while viewer.background().state == BackgroundState::Working {
        std::thread::sleep(Duration::from_millis(5));
    }
    println!(
        "| pass in the background | {:?} | {:.1} ms |",
        viewer.background().state,
        1000.0 * start.elapsed().as_secs_f64()
    );
    for (what, query, number) in [
        ("bright field", scan(ScanChannel::Sum, Some(bf(3.0))), Some(0)),
        ("annular dark field", scan(ScanChannel::Sum, Some(adf(3.0))), Some(1)),
        ("annular dark field, moved", scan(ScanChannel::Sum, Some(adf(4.25))), None),
        ("annular dark field, moved", scan(ScanChannel::Sum, Some(adf(5.0))), None),
        ("ring around the disk", scan(ScanChannel::Sum, Some(adf(0.0))), None),
        ("centre of mass of a disk", scan(com.clone(), Some(bf(0.5))), None),
        ("centre of mass", scan(com.clone(), None), Some(5)),
        ("whole frame", scan(ScanChannel::Sum, None), Some(2)),
        ("mean pattern", Query::Pattern(PatternQuery::default()), Some(6)),
    ] {
        let mut times = Vec::new();
        let mut picture = None;
        for _ in 0..25 {
            let start = Instant::now();
            let found = answer(&viewer, &query, Wish::Fast, start)?;
            times.push(found.last_at);
            picture = Some(found.last);
        }
        times.sort();
        let picture = picture.ok_or("no picture")?;
        if let Some(other) = number.and_then(|number| exact.get(number)) {
            check(what, &picture, other)?;
        }
        row(&format!("then {what}: median of 25"), &picture, times[12]);
        row(&format!("then {what}: best"), &picture, times[0]);
    }
    errors(&viewer)?;
    println!("\n{rows}² frames of {EDGE}²; {}", memory());
    Ok(())
}

/// How far pictures of random disks and rings are off while they are dragged, and how long they take.
fn errors(viewer: &Viewer) -> Outcome<()> {
    let mut seed = 7u64;
    let mut random = move |from: f64, to: f64| {
        seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        from + (to - from) * (seed >> 11) as f64 / (1u64 << 53) as f64
    };
    for is_ring in [false, true] {
        let (mut off, mut rms, mut times) = (Vec::new(), Vec::new(), Vec::new());
        let mut labels = std::collections::BTreeSet::new();
        for _ in 0..100 {
            let (cy, cx) = (random(97.5, 157.5), random(97.5, 157.5));
            let inner = random(5.0, 60.0);
            let shape = match is_ring {
                true => Shape::Ring { cy, cx, ri: inner, ro: inner + random(5.0, 40.0) },
                false => Shape::Disk { cy, cx, r: inner },
            };
            let query = scan(ScanChannel::Sum, Some(shape));
            let fast = answer(viewer, &query, Wish::Fast, Instant::now())?;
            let exact = answer(viewer, &query, Wish::Exact, Instant::now())?.last;
            let scale = exact.values.iter().fold(0.0, |a: f64, b| a.max(b.abs())).max(1e-300);
            let pairs = fast.last.values.iter().zip(&exact.values);
            let all: Vec<f64> = pairs.map(|(found, exact)| (found - exact).abs() / scale).collect();
            off.push(all.iter().fold(0.0, |a: f64, &b| a.max(b)));
            rms.push((all.iter().map(|v| v * v).sum::<f64>() / all.len() as f64).sqrt());
            times.push(fast.last_at.as_secs_f64());
            labels.insert(fast.last.label);
        }
        for all in [&mut off, &mut rms, &mut times] {
            all.sort_by(f64::total_cmp);
        }
        println!(
            "| 100 {}, off by: median, 95 %, most; rms median, most; time median, 95 % | {} | {:.2} %, {:.2} %, \
             {:.2} %; {:.3} %, {:.3} %; {:.1} ms, {:.1} ms |",
            if is_ring { "rings" } else { "disks" },
            labels.into_iter().collect::<Vec<_>>().join(", "),
            100.0 * off[50],
            100.0 * off[95],
            100.0 * off[99],
            100.0 * rms[50],
            100.0 * rms[99],
            1000.0 * times[50],
            1000.0 * times[95]
        );
    }
    Ok(())
}

/// Exact pictures are equal, binned ones nearly.
fn check(what: &str, found: &Picture, exact: &Picture) -> Outcome<()> {
    let scale = exact.values.iter().fold(0.0, |a: f64, b| a.max(b.abs()));
    let tolerance = if found.state == State::Exact { 1e-9 } else { 0.2 };
    let off =
        found.values.iter().zip(&exact.values).fold(0.0, |a: f64, (f, e)| a.max((f - e).abs()));
    if off > tolerance * scale {
        return Err(format!("{what}: {off} off, of {scale}").into());
    }
    Ok(())
}

/// What the system says of this process.
fn memory() -> String {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let lines = status.lines().filter(|line| line.starts_with("RssAnon"));
    lines.collect::<Vec<_>>().join(", ")
}
