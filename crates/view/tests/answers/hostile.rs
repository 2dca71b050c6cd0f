//! Queries of clients that mean harm.

use crate::cases::{case, exact};
use framefold::core::DType;
use framefold_view::{PatternQuery, Query, ScanChannel, ScanQuery, Shape, Sign, Signed};
use std::time::{Duration, Instant};

fn refused(shape: Shape) -> String {
    let case = case(3, DType::U16, &[3, 4], &[6, 7]);
    let signed = vec![Signed { shape, sign: Sign::Plus }];
    let begin = Instant::now();
    let scan = Query::Scan(ScanQuery { detector: signed.clone(), ..Default::default() });
    let pattern = Query::Pattern(PatternQuery { region: signed, ..Default::default() });
    let (scan, pattern) = (exact(&case.viewer, &scan), exact(&case.viewer, &pattern));
    assert!(begin.elapsed() < Duration::from_secs(2), "it took too long");
    assert!(pattern.is_err());
    scan.unwrap_err().to_string()
}

#[test]
fn numbers_that_are_none() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1e300, -1e10] {
        for shape in [
            Shape::Point { y: bad, x: 1.0 },
            Shape::Disk { cy: bad, cx: 1.0, r: 1.0 },
            Shape::Disk { cy: 1.0, cx: 1.0, r: bad },
            Shape::Ring { cy: 1.0, cx: 1.0, ri: bad, ro: 2.0 },
            Shape::Wedge { cy: 1.0, cx: 1.0, ri: 0.0, ro: 2.0, from: bad, to: 1.0 },
            Shape::Rectangle { y0: 1.0, x0: 1.0, y1: bad, x1: 2.0 },
            Shape::Polygon { points: vec![[0.0, 0.0], [0.0, bad], [5.0, 5.0]] },
            Shape::Lattice { cy: 1.0, cx: 1.0, a: [bad, 1.0], b: [0.0, 1.0], r: 1.0, order: 1 },
        ] {
            let text = refused(shape);
            assert!(text.contains("expected a number of at most"), "{text}");
        }
    }
}

#[test]
fn shapes_that_are_none() {
    let text = refused(Shape::Disk { cy: 1.0, cx: 1.0, r: -1.0 });
    assert!(text.contains("r of a disk is -1") && text.contains("0 or more"), "{text}");
    let text = refused(Shape::Ring { cy: 1.0, cx: 1.0, ri: 3.0, ro: 2.0 });
    assert!(text.contains("inner radius 3 of a ring is above the outer radius 2"), "{text}");
    let text = refused(Shape::Polygon { points: vec![[0.0, 0.0]; 2] });
    assert!(text.contains("2 corners has no inside"), "{text}");
    let text = refused(Shape::Polygon { points: vec![[0.0, 0.0]; 1_000_000] });
    assert!(text.contains("1000000 corners"), "{text}");
    let lattice =
        |order, r| Shape::Lattice { cy: 0.0, cx: 0.0, a: [0.0, 0.0], b: [0.0, 0.0], r, order };
    let text = refused(lattice(u32::MAX, 1.0));
    assert!(text.contains("order 4294967295"), "{text}");
    let text = refused(Shape::Array { id: 7 });
    assert!(text.contains("no mask with the number 7"), "{text}");
    for outside in [
        Shape::Disk { cy: 1e9, cx: -1e9, r: 1.0 },
        Shape::Point { y: -1.0, x: 0.0 },
        Shape::Rectangle { y0: 9.0, x0: 0.0, y1: 12.0, x1: 9.0 },
        Shape::Wedge { cy: 1.0, cx: 1.0, ri: 0.0, ro: 9.0, from: 5.0, to: 5.0 },
    ] {
        let text = refused(outside);
        assert!(text.contains("no pixel in frames of shape [6, 7]"), "{text}");
    }
    // All of it, whatever the numbers.
    let case = case(3, DType::U16, &[3, 4], &[6, 7]);
    for all in [
        Shape::Disk { cy: 1e8, cx: -1e8, r: 1e9 },
        lattice(32, 1e9),
        Shape::Rectangle { y0: -1e9, x0: 1e9, y1: 1e9, x1: -1e9 },
        // The angle of a pixel less the first one is a turn but for rounding.
        Shape::Wedge { cy: -1.0, cx: -1.0, ri: 0.0, ro: 99.0, from: 45.00000000000001, to: 406.0 },
    ] {
        let query = |detector| Query::Scan(ScanQuery { detector, ..Default::default() });
        let found =
            exact(&case.viewer, &query(vec![Signed { shape: all, sign: Sign::Plus }])).unwrap();
        assert_eq!(found.values, exact(&case.viewer, &query(vec![])).unwrap().values);
    }
}

#[test]
fn more_than_can_be_drawn() {
    let case = case(3, DType::U16, &[3, 4], &[6, 7]);
    let disk = Signed { shape: Shape::Disk { cy: 1.0, cx: 1.0, r: 1.0 }, sign: Sign::Plus };
    let query = Query::Scan(ScanQuery { detector: vec![disk; 65], ..Default::default() });
    assert!(exact(&case.viewer, &query).unwrap_err().to_string().contains("65 shapes"));
    // Each row meets all edges of all of them.
    let points: Vec<[f64; 2]> =
        (0..5001).map(|i| [if i % 2 == 0 { 0.0 } else { 9.0 }, f64::from(i) / 800.0]).collect();
    let zigzag = |n| {
        let shape = Shape::Polygon { points: points[..n].to_vec() };
        Signed { shape, sign: Sign::Plus }
    };
    let query = |detector| Query::Scan(ScanQuery { detector, ..Default::default() });
    let error = exact(&case.viewer, &query(vec![zigzag(5001), zigzag(5000)])).unwrap_err();
    assert!(error.to_string().contains("10001 corners"), "{error}");
    assert!(exact(&case.viewer, &query(vec![zigzag(5000), zigzag(5000)])).is_ok());
}

#[test]
fn slices_and_centres_that_do_not_fit() {
    let case = case(3, DType::U16, &[2, 3, 4], &[6, 7]);
    for (slice, words) in [
        (vec![2], "index 2 of the slice is outside of axis 0"),
        (vec![usize::MAX], "is outside of axis 0 of the scan, which has 2 positions"),
        (vec![0, 0], "has 2 numbers"),
    ] {
        let query = Query::Scan(ScanQuery { slice: slice.clone(), ..Default::default() });
        assert!(exact(&case.viewer, &query).unwrap_err().to_string().contains(words));
        let query = Query::Pattern(PatternQuery { slice, ..Default::default() });
        assert!(exact(&case.viewer, &query).unwrap_err().to_string().contains(words));
    }
    for (rotation, centre) in [(f64::NAN, [0.0, 0.0]), (0.0, [f64::INFINITY, 0.0])] {
        let centre = framefold_view::Centre::At(centre);
        let channel = ScanChannel::Idpc { centre, rotation, flip_y: false };
        let query = Query::Scan(ScanQuery { channel, ..Default::default() });
        assert!(exact(&case.viewer, &query).unwrap_err().to_string().contains("finite number"));
    }
    let own = ScanChannel::Own { name: "mine".into(), buffer: "result".into() };
    let query = Query::Scan(ScanQuery { channel: own, ..Default::default() });
    assert!(exact(&case.viewer, &query).unwrap_err().to_string().contains("no function 'mine'"));
}

#[test]
fn masks_that_do_not_fit() {
    let viewer = case(3, DType::U16, &[3, 4], &[6, 7]).viewer;
    let text = |shape: &[usize], weights| viewer.add_mask(shape, weights).unwrap_err().to_string();
    assert!(text(&[7, 6], vec![1.0; 42]).contains("frames have shape [6, 7] and the scan [3, 4]"));
    assert!(text(&[6, 7], vec![1.0; 41]).contains("41 weights"));
    assert!(text(&[6, 7], vec![f32::NAN; 42]).contains("weight number 0 of the mask is NaN"));
    for i in 0..64 {
        viewer.add_mask(&[6, 7], vec![i as f32; 42]).unwrap();
    }
    assert!(text(&[6, 7], vec![0.5; 42]).contains("64 masks"));
    // One for the scan is none for frames.
    let viewer = case(3, DType::U16, &[3, 4], &[6, 7]).viewer;
    let id = viewer.add_mask(&[3, 4], vec![1.0; 12]).unwrap();
    let array = Signed { shape: Shape::Array { id }, sign: Sign::Plus };
    let query = Query::Scan(ScanQuery { detector: vec![array], ..Default::default() });
    let text = exact(&viewer, &query).unwrap_err().to_string();
    assert!(text.contains("the mask has shape [3, 4], but frames have shape [6, 7]"), "{text}");
}
