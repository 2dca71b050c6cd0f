//! What the pass in the background leaves, against exact answers.

use crate::cases::{
    Case, DTYPES, answers, assert_close, case_with, double, impatient, shapes, slow,
};
use crate::oracle;
use framefold::core::DType;
use framefold_testkit::Random;
use framefold_view::{
    BackgroundState, Centre, ComPart, PatternChannel, PatternQuery, Picture, Query, ScanChannel,
    ScanQuery, Shape, Sign, Signed, State, Viewer, ViewerOptions, Wish,
};
use std::sync::atomic::Ordering;
use std::sync::mpsc;
use std::time::Duration;

/// Begins the pass, and waits for its end.
fn warm(viewer: &Viewer) {
    let (sender, receiver) = mpsc::channel();
    viewer.watch(move |now| sender.send(now.clone()).is_ok());
    viewer.warm();
    loop {
        let now = receiver.recv_timeout(Duration::from_secs(60)).expect("the pass has no end");
        match now.state {
            BackgroundState::Working => assert!((0.0..=1.0).contains(&now.done)),
            BackgroundState::Done => break,
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(viewer.background().state, BackgroundState::Done);
}

fn fast(case: &Case, channel: ScanChannel, detector: &[Signed], slice: &[usize]) -> Vec<Picture> {
    let (detector, slice) = (detector.to_vec(), slice.to_vec());
    let query = Query::Scan(ScanQuery { channel, detector, slice, ..Default::default() });
    answers(&case.viewer, &query, Wish::Fast).unwrap()
}

#[test]
fn sums_of_all_dtypes() {
    for (number, dtype) in (1..).zip(DTYPES) {
        for (nav, sig) in
            [(vec![6, 7], vec![20, 33]), (vec![2, 3, 4], vec![9, 8]), (vec![9], vec![40])]
        {
            let case = impatient(number, dtype, &nav, &sig);
            warm(&case.viewer);
            let mut random = Random::new(number);
            let (rows, columns) = (case.data.rows, case.data.columns);
            for turn in 0..12 {
                let detector = if turn == 0 { vec![] } else { shapes(&mut random, rows, columns) };
                let weights = oracle::weights(&detector, rows, columns, &[]);
                if weights.iter().all(|&weight| weight == 0.0) {
                    continue;
                }
                let slice = if nav.len() == 3 { vec![turn % 2] } else { vec![] };
                let n = nav[nav.len().saturating_sub(2)..].iter().product::<usize>();
                let first = slice.first().unwrap_or(&0) * n;
                let frames = &case.data.frames[first..first + n];
                let sums: Vec<f64> = frames
                    .iter()
                    .map(|f| {
                        f.as_ref().map_or(f64::NAN, |f| oracle::moments(f, &weights, columns)[0])
                    })
                    .collect();
                let most =
                    sums.iter().filter(|v| v.is_finite()).fold(1.0, |a: f64, b| a.max(b.abs()));
                let pictures = fast(&case, ScanChannel::Sum, &detector, &slice);
                let [picture] = &pictures[..] else { panic!("{} pictures", pictures.len()) };
                // Cells of such small frames are single pixels.
                let whole = !case.viewer.dataset().pixel_dtype().is_float();
                let what = format!("{dtype} {nav:?} {sig:?} {detector:?}: {}", picture.label);
                match (whole, picture.state) {
                    (true, State::Exact) => assert_close(&picture.values, &sums, 0.0, &what),
                    (false, State::Exact | State::Binned) => {
                        assert_close(&picture.values, &sums, 1e-5 * most.max(1.0), &what);
                    }
                    other => panic!("{what}: {other:?}"),
                }
            }
        }
    }
}

/// Frames with some structure, in blocks of 8 × 8: a budget for no finer ones.
fn coarse(dtype: DType) -> Case {
    let (nav, sig) = ([12, 12], [64, 64]);
    // Room for the sums of 64 cells of 144 positions, twice.
    let budget = Some(2 * 64 * 144 * 4 + 1);
    let options = ViewerOptions { budget, patience: Some(Duration::ZERO), ..Default::default() };
    let case = case_with(3, dtype, &nav, &sig, options);
    warm(&case.viewer);
    case
}

#[test]
fn blocks_that_are_cut_count_by_their_share() {
    for dtype in [DType::U16, DType::I16, DType::F32] {
        let case = coarse(dtype);
        for (detector, exact) in [
            // Whole blocks.
            (Shape::Rectangle { y0: 8.0, x0: 16.0, y1: 23.0, x1: 31.0 }, true),
            // All but a few.
            (Shape::Rectangle { y0: 0.0, x0: 0.0, y1: 55.0, x1: 63.0 }, true),
            (Shape::Disk { cy: 32.0, cx: 30.5, r: 13.0 }, false),
            (Shape::Disk { cy: 32.0, cx: 30.5, r: 41.0 }, false),
            (Shape::Point { y: 3.0, x: 9.0 }, false),
        ] {
            let detector = [Signed { shape: detector, sign: Sign::Plus }];
            let weights = oracle::weights(&detector, 64, 64, &[]);
            // The definition: each block counts as much as the mean of its weights.
            let block = |pixel: usize| pixel / 64 / 8 * 8 + pixel % 64 / 8;
            let mut means = vec![0.0; 64];
            weights.iter().enumerate().for_each(|(p, w)| means[block(p)] += w / 64.0);
            let means: Vec<f64> = (0..4096).map(|p| means[block(p)]).collect();
            let frames = case.data.frames.iter();
            let sums: Vec<f64> =
                frames.map(|f| oracle::moments(f.as_ref().unwrap(), &means, 64)[0]).collect();
            let most = sums.iter().fold(1.0, |a: f64, b| a.max(b.abs()));
            let pictures = fast(&case, ScanChannel::Sum, &detector, &[]);
            let [picture] = &pictures[..] else { panic!("{} pictures", pictures.len()) };
            let exact = exact && dtype != DType::F32;
            let expected =
                if exact { (State::Exact, "exact") } else { (State::Binned, "binned 8×8") };
            assert_eq!((picture.state, picture.label.as_str()), expected, "{dtype} {detector:?}");
            let tolerance = if exact { 0.0 } else { 1e-5 * most };
            assert_close(&picture.values, &sums, tolerance, "blocks");
            // The pointer rests: the same, and then the exact one.
            let query = ScanQuery { detector: detector.to_vec(), ..Default::default() };
            let pictures = answers(&case.viewer, &Query::Scan(query), Wish::Exact).unwrap();
            assert_eq!(pictures[0].state, expected.0);
            assert_eq!(pictures.last().unwrap().state, State::Exact);
        }
    }
}

#[test]
fn vectors_of_blocks() {
    let case = coarse(DType::U16);
    let com =
        |centre| ScanChannel::Com { part: ComPart::Vector, centre, rotation: 20.0, flip_y: true };
    let detector =
        [Signed { shape: Shape::Disk { cy: 31.0, cx: 33.0, r: 20.0 }, sign: Sign::Plus }];
    // Of whole frames, exact ones; of a disk, nearly so.
    for (detector, state, off) in
        [(&[][..], State::Exact, 1e-9), (&detector[..], State::Binned, 1.0)]
    {
        let binned = fast(&case, com(Centre::At([30.0, 31.0])), detector, &[]).pop().unwrap();
        assert_eq!(binned.state, state);
        let channel = com(Centre::At([30.0, 31.0]));
        let query = ScanQuery { channel, detector: detector.to_vec(), ..Default::default() };
        let exact = answers(&case.viewer, &Query::Scan(query), Wish::Exact).unwrap().pop().unwrap();
        assert_close(&binned.values, &exact.values, off, "vectors");
    }
}

#[test]
fn disks_and_rings_around_the_bright_one_are_exact() {
    // A bright disk around (30, 33), and noise.
    let (nav, n) = ([10, 10], 64);
    let options = ViewerOptions {
        // Enough for rings of half a pixel, and for coarser blocks.
        budget: Some(100 * 200 * 4 * 8),
        patience: Some(Duration::ZERO),
        ..Default::default()
    };
    let mut random = Random::new(7);
    let frames: Vec<u16> = (0..100 * n * n)
        .map(|i| {
            let (y, x) = ((i / n % n) as f64 - 30.0, (i % n) as f64 - 33.0);
            let bright = if y * y + x * x <= 12.0 * 12.0 { 1000 } else { 0 };
            bright + random.below(50) as u16
        })
        .collect();
    let values = framefold::core::TypedVec::from(frames);
    let all = double(&values);
    let array = framefold::core::NativeArray::try_new(&[100, n, n], values).unwrap();
    let source = framefold_testkit::MemorySource::try_new(array, Default::default()).unwrap();
    let dataset = framefold::Dataset::try_new(std::sync::Arc::new(source), Some(&nav), 0).unwrap();
    let viewer = Viewer::try_new("disk".into(), dataset, options).unwrap();
    warm(&viewer);
    let disk = viewer.guess_disk(&framefold::Cancel::new()).unwrap();
    assert_eq!((disk.cy, disk.cx), (30.0, 33.0));
    assert!((disk.r - 12.0).abs() <= 0.5, "{}", disk.r);
    let (cy, cx) = (disk.cy, disk.cx);
    for (shape, exact) in [
        (Shape::Disk { cy, cx, r: disk.r }, true),
        (Shape::Disk { cy, cx, r: 0.0 }, true),
        (Shape::Ring { cy, cx, ri: 12.0, ro: 25.0 }, true),
        (Shape::Ring { cy, cx, ri: 0.0, ro: 64.0 }, true),
        (Shape::Ring { cy, cx: 34.0, ri: 12.0, ro: 25.0 }, false),
    ] {
        let detector = [Signed { shape, sign: Sign::Plus }];
        let weights = oracle::weights(&detector, n, n, &[]);
        let sums: Vec<f64> =
            all.chunks(n * n).map(|frame| oracle::moments(frame, &weights, n)[0]).collect();
        let query = ScanQuery { detector: detector.to_vec(), ..Default::default() };
        let picture = answers(&viewer, &Query::Scan(query), Wish::Fast).unwrap().pop().unwrap();
        assert_eq!(picture.state == State::Exact, exact, "{detector:?} {}", picture.label);
        if exact {
            assert_close(&picture.values, &sums, 0.0, "rings");
        }
    }
}

/// Pixels that are not finite, or much larger than others, count where they are and nowhere else, and so
/// does a frame of them.
#[test]
fn odd_pixels_do_not_spoil_detectors_that_they_are_not_in() {
    let n = 64_usize;
    let options = ViewerOptions {
        // Enough for rings of two pixels, and for blocks of 4 × 4.
        budget: Some(8 * 27_200),
        patience: Some(Duration::ZERO),
        ..Default::default()
    };
    let odd = |y: usize, x: usize| match (y, x) {
        (32, 32) | (2, 6) => Some(f32::NAN),
        (31, 33) => Some(4e9),
        _ => None,
    };
    let frames: Vec<f32> = (0..144 * n * n)
        .map(|i| {
            let (y, x) = (i / n % n, i % n);
            let bright = y.abs_diff(32).pow(2) + x.abs_diff(32).pow(2) <= 100;
            let is_odd = i / (n * n) == 5;
            let usual = if bright { 1000.0 } else { (i % 7) as f32 };
            odd(y, x).unwrap_or(if is_odd { f32::NAN } else { usual })
        })
        .collect();
    let values = framefold::core::TypedVec::from(frames);
    let all = double(&values);
    let array = framefold::core::NativeArray::try_new(&[144, n, n], values).unwrap();
    let source = framefold_testkit::MemorySource::try_new(array, Default::default()).unwrap();
    let source = std::sync::Arc::new(source);
    let dataset = framefold::Dataset::try_new(source, Some(&[12, 12]), 0).unwrap();
    let viewer = Viewer::try_new("odd".into(), dataset, options).unwrap();
    warm(&viewer);
    let disk = viewer.guess_disk(&framefold::Cancel::new()).unwrap();
    let (cy, cx) = (disk.cy, disk.cx);
    let plus = |shape| Signed { shape, sign: Sign::Plus };
    let rows = |y0, y1| plus(Shape::Rectangle { y0, x0: 0.0, y1, x1: 63.0 });
    let middle = Shape::Rectangle { y0: 28.0, x0: 28.0, y1: 35.0, x1: 35.0 };
    for (detector, label) in [
        (vec![plus(Shape::Ring { cy, cx, ri: 14.0, ro: 24.0 })], "binned in rings of 2 px"),
        (vec![rows(4.0, 63.0), Signed { shape: middle, sign: Sign::Minus }], "binned 4×4"),
        // Blocks of which it has the pixels beside an odd one.
        (vec![rows(0.0, 1.0)], "preview"),
    ] {
        let weights = oracle::weights(&detector, n, n, &[]);
        let query = Query::Scan(ScanQuery { detector, ..Default::default() });
        let picture = answers(&viewer, &query, Wish::Fast).unwrap().pop().unwrap();
        assert!(picture.label.starts_with(label), "{} for {label}", picture.label);
        let sums = all.chunks(n * n).map(|frame| oracle::moments(frame, &weights, n)[0]);
        let sums: Vec<f64> = match picture.state {
            State::Binned => sums.collect(),
            // The first of them.
            _ => sums.take(1).collect(),
        };
        assert_close(&picture.values[..sums.len()], &sums, 1e-3, label);
    }
}

#[test]
fn statistics_of_all_frames_stay() {
    for seed in [3, 4, 6] {
        let case = impatient(seed, DType::U16, &[5, 6], &[12, 9]);
        warm(&case.viewer);
        let all: Vec<usize> = (0..30).collect();
        let channels =
            [PatternChannel::Sum, PatternChannel::Mean, PatternChannel::Std, PatternChannel::Max];
        for (index, channel) in channels.into_iter().enumerate() {
            let query = Query::Pattern(PatternQuery { channel, ..Default::default() });
            let pictures = answers(&case.viewer, &query, Wish::Fast).unwrap();
            let [picture] = &pictures[..] else { panic!("{} pictures", pictures.len()) };
            assert_eq!(picture.state, State::Exact);
            let of = |pixel| oracle::statistics(&case.data, &all, pixel)[index];
            let expected: Vec<f64> = (0..108).map(of).collect();
            assert_close(&picture.values, &expected, 1e-6 * 65535.0, "statistics");
        }
    }
}

#[test]
fn a_viewer_without_memory_answers_by_passes() {
    let options =
        ViewerOptions { budget: Some(0), patience: Some(Duration::ZERO), ..Default::default() };
    let case = case_with(3, DType::U16, &[6, 6], &[16, 16], options);
    warm(&case.viewer);
    let query = Query::Scan(ScanQuery::default());
    let pictures = answers(&case.viewer, &query, Wish::Exact).unwrap();
    let states: Vec<State> = pictures.iter().map(|picture| picture.state).collect();
    assert_eq!(states, [State::Preview, State::Exact]);
}

#[test]
fn the_background_ends_with_the_viewer() {
    let case = impatient(3, DType::U16, &[6, 6], &[16, 16]);
    case.viewer.rest();
    case.viewer.warm();
    case.viewer.rest();
    assert_ne!(case.viewer.background().state, BackgroundState::Working);
    assert!(answers(&case.viewer, &Query::Scan(ScanQuery::default()), Wish::Exact).is_ok());
}

#[test]
fn it_waits_for_answers_and_can_be_stopped() {
    let (case, n_read) = slow(Duration::from_millis(10), &[15, 15]);
    let n_read = || n_read.load(Ordering::SeqCst);
    case.viewer.warm();
    let query = Query::Pattern(PatternQuery {
        region: vec![Signed { shape: Shape::Point { y: 3.0, x: 4.0 }, sign: Sign::Plus }],
        ..Default::default()
    });
    for _ in 0..5 {
        assert_eq!(answers(&case.viewer, &query, Wish::Fast).unwrap().len(), 1);
    }
    // Neither the answers nor the end come after all frames.
    assert!(n_read() < 225, "{} frames", n_read());
    assert_eq!(case.viewer.background().state, BackgroundState::Working);
    case.viewer.rest();
    assert!(n_read() < 225, "{} frames", n_read());
    assert_eq!(case.viewer.background().state, BackgroundState::Stopped);
}

#[test]
fn no_more_is_kept_than_the_budget_allows() {
    let mut kept = vec![];
    for budget in [0, 10_000, 50_000, 200_000, 1_000_000, 10_000_000] {
        for (number, dtype) in (1..).zip([DType::U8, DType::U16, DType::I64, DType::F32]) {
            let options = ViewerOptions {
                budget: Some(budget),
                patience: Some(Duration::ZERO),
                ..Default::default()
            };
            let case = case_with(number, dtype, &[10, 10], &[24, 24], options);
            warm(&case.viewer);
            for r in 0..24 {
                let disk = Shape::Disk { cy: 11.0, cx: 12.0, r: f64::from(r) / 3.0 };
                let signed = vec![Signed { shape: disk, sign: Sign::Plus }];
                let query = ScanQuery { detector: signed.clone(), ..Default::default() };
                answers(&case.viewer, &Query::Scan(query), Wish::Exact).unwrap();
                let query = PatternQuery { region: signed, ..Default::default() };
                let _ = answers(&case.viewer, &Query::Pattern(query), Wish::Exact);
            }
            assert!(case.viewer.len_bytes() <= budget, "{dtype} {budget}");
            kept.push(case.viewer.len_bytes());
        }
    }
    assert_eq!(kept[0], 0);
    assert!(kept.last().is_some_and(|&bytes| bytes > 100_000), "{kept:?}");
}
