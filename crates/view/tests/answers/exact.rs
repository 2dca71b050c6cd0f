//! Exact answers, for all dtypes, channels, shapes, slices and gaps.

use crate::cases::{Case, DTYPES, assert_close, case, exact, shape, shapes};
use crate::oracle;
use framefold_testkit::Random;
use framefold_view::{
    Centre, ComPart, PatternChannel, PatternQuery, Query, ScanChannel, ScanQuery, Shape, Sign,
    Signed, State, Viewer,
};

fn shapes_of_data() -> [(Vec<usize>, Vec<usize>); 6] {
    [
        (vec![4, 5], vec![9, 12]),
        (vec![7], vec![8, 8]),
        (vec![2, 3, 4], vec![5, 16]),
        (vec![3, 3], vec![33]),
        (vec![1, 6], vec![64, 3]),
        (vec![2, 2, 2, 3], vec![1, 7]),
    ]
}

/// Calls `check` for many cases, with a random slice of each, the first position and the shape of it.
fn for_cases(mut check: impl FnMut(&Case, &mut Random, &[usize], usize, [usize; 2], u64)) {
    let mut seed = 0;
    for dtype in DTYPES {
        for (nav, sig) in shapes_of_data() {
            for _ in 0..4 {
                seed += 1;
                let case = case(seed, dtype, &nav, &sig);
                let mut random = Random::new(seed + 1000);
                let front = &nav[..nav.len().saturating_sub(2)];
                let slice: Vec<usize> = front.iter().map(|&n| random.below(n)).collect();
                let index = slice.iter().zip(front).fold(0, |at, (&i, &n)| at * n + i);
                let [rows, columns] = match nav[..] {
                    [.., rows, columns] => [rows, columns],
                    _ => [1, nav[0]],
                };
                check(&case, &mut random, &slice, index * rows * columns, [rows, columns], seed);
            }
        }
    }
}

#[test]
fn scans() {
    let mut n_checked = 0;
    for_cases(|case, random, slice, first, [rows, columns], seed| {
        let detector = shapes(random, case.data.rows, case.data.columns);
        let weights = oracle::weights(&detector, case.data.rows, case.data.columns, &[]);
        let ask = |channel| {
            let query = ScanQuery {
                channel,
                detector: detector.clone(),
                slice: slice.to_vec(),
                ..Default::default()
            };
            exact(&case.viewer, &Query::Scan(query))
        };
        if weights.iter().all(|&weight| weight == 0.0) {
            let error = ask(ScanChannel::Sum).unwrap_err();
            assert!(error.to_string().contains("no pixel"), "{error}");
            return;
        }
        n_checked += 1;
        let frames = &case.data.frames[first..first + rows * columns];
        let each = |of: &dyn Fn(&[f64]) -> f64| -> Vec<f64> {
            frames.iter().map(|f| f.as_ref().map_or(f64::NAN, |f| of(f))).collect()
        };
        let what = format!("seed {seed} {} {detector:?}", case.dtype);
        let shown = |channel, expected: Vec<f64>, tolerance: f64| {
            let picture = ask(channel).unwrap();
            assert_eq!((picture.state, picture.label.as_str()), (State::Exact, "exact"));
            let shape = if case.nav.len() == 1 { vec![columns] } else { vec![rows, columns] };
            assert_eq!((picture.shape, picture.stride), (shape, [1, 1]));
            assert_close(&picture.values, &expected, tolerance, &what);
        };
        let columns_of_frame = case.data.columns;
        let sum = |f: &[f64]| oracle::moments(f, &weights, columns_of_frame)[0];
        // Sums of integers are exact.
        let whole = weights.iter().all(|w| w.fract() == 0.0)
            && case.viewer.dataset().pixel_dtype() == case.dtype;
        let sums = each(&sum);
        let most = sums.iter().filter(|v| v.is_finite()).fold(1.0, |a: f64, b| a.max(b.abs()));
        let tolerance = if case.dtype.is_float() || !whole { 1e-6 * most } else { 0.0 };
        shown(ScanChannel::Sum, sums, tolerance);
        let total: f64 = weights.iter().map(|w| w.abs()).sum();
        shown(ScanChannel::Mean, each(&|f| sum(f) / total), 1e-6 * most);
        let largest = each(&|f| oracle::largest(f, &weights));
        let scale = largest.iter().filter(|v| v.is_finite()).fold(1.0, |a: f64, b| a.max(b.abs()));
        shown(ScanChannel::Max, largest, 1e-6 * scale);
        shown(ScanChannel::Std, each(&|f| oracle::spread(f, &weights)), 1e-6 * scale);
    });
    assert!(n_checked > 150, "{n_checked}");
}

#[test]
fn centres_of_mass() {
    for_cases(|case, random, slice, first, [rows, columns], seed| {
        let (height, width) = (case.data.rows, case.data.columns);
        let detector = match seed % 2 {
            0 => vec![],
            _ => vec![Signed { shape: shape(random, height, width), sign: Sign::Plus }],
        };
        let weights = oracle::weights(&detector, height, width, &[]);
        if weights.iter().all(|&weight| weight == 0.0) {
            return;
        }
        let (rotation, flip_y) = (random.unit() * 360.0, random.below(2) == 0);
        let at = [random.unit() * 5.0, random.unit() * 5.0];
        let centre = if random.below(2) == 0 { Centre::Mean } else { Centre::At(at) };
        let middle = [(height / 2) as f64, (width / 2) as f64];
        let from = if let Centre::At(at) = centre { at } else { middle };
        let mut field: Vec<[f64; 2]> = case.data.frames[first..first + rows * columns]
            .iter()
            .map(|frame| {
                let Some(frame) = frame else { return [f64::NAN; 2] };
                let [sum, y, x] = oracle::moments(frame, &weights, width);
                let [y, x] =
                    if sum == 0.0 { [0.0; 2] } else { [y / sum - from[0], x / sum - from[1]] };
                let y = if flip_y { -y } else { y };
                let (sin, cos) = rotation.to_radians().sin_cos();
                [y * cos + x * sin, x * cos - y * sin]
            })
            .collect();
        if centre == Centre::Mean {
            for axis in 0..2 {
                let known: Vec<f64> =
                    field.iter().map(|v| v[axis]).filter(|v| v.is_finite()).collect();
                let mean = known.iter().sum::<f64>() / known.len().max(1) as f64;
                field.iter_mut().for_each(|v| v[axis] -= mean);
            }
        }
        let part = |axis: usize| field.iter().map(|v| v[axis]).collect::<Vec<f64>>();
        let (y, x) = (part(0), part(1));
        let known = |values: Vec<f64>| -> Vec<f64> {
            values.iter().zip(&y).map(|(v, y)| if y.is_nan() { f64::NAN } else { *v }).collect()
        };
        let add = |a: Vec<f64>, b: Vec<f64>, sign: f64| {
            known(a.iter().zip(b).map(|(a, b)| a + sign * b).collect())
        };
        let along = |values: &[f64], along_rows| oracle::gradient(values, columns, along_rows);
        for (part, expected) in [
            (ComPart::Vector, [y.clone(), x.clone()].concat()),
            (ComPart::Y, y.clone()),
            (ComPart::X, x.clone()),
            (ComPart::Magnitude, y.iter().zip(&x).map(|(y, x)| (y * y + x * x).sqrt()).collect()),
            (ComPart::Divergence, add(along(&y, true), along(&x, false), 1.0)),
            (ComPart::Curl, add(along(&y, false), along(&x, true), -1.0)),
        ] {
            let query = ScanQuery {
                channel: ScanChannel::Com { part, centre, rotation, flip_y },
                detector: detector.clone(),
                slice: slice.to_vec(),
                ..Default::default()
            };
            let picture = exact(&case.viewer, &Query::Scan(query)).unwrap();
            assert_eq!(picture.planes.len(), if part == ComPart::Vector { 2 } else { 1 });
            // Sums that nearly cancel make centres far away.
            let scale =
                expected.iter().filter(|v| v.is_finite()).fold(1.0, |a: f64, b| a.max(b.abs()));
            assert_close(
                &picture.values,
                &expected,
                1e-6 * scale,
                &format!("seed {seed} {part:?}"),
            );
        }
    });
}

#[test]
fn patterns() {
    let mut n_checked = 0;
    for_cases(|case, random, slice, first, [rows, columns], seed| {
        let region = shapes(random, rows, columns);
        let weights = oracle::weights(&region, rows, columns, &[]);
        let positions: Vec<usize> =
            (0..rows * columns).filter(|&i| weights[i] > 0.0).map(|i| first + i).collect();
        let ask = |channel| {
            let (region, slice) = (region.clone(), slice.to_vec());
            let query = PatternQuery { channel, region, slice, ..Default::default() };
            exact(&case.viewer, &Query::Pattern(query))
        };
        if positions.is_empty() {
            let error = ask(PatternChannel::Mean).unwrap_err();
            assert!(error.to_string().contains("position"), "{error}");
            return;
        }
        n_checked += 1;
        let len = case.data.rows * case.data.columns;
        let channels =
            [PatternChannel::Sum, PatternChannel::Mean, PatternChannel::Std, PatternChannel::Max];
        for (index, channel) in channels.into_iter().enumerate() {
            let of = |pixel| oracle::statistics(&case.data, &positions, pixel)[index];
            let expected: Vec<f64> = (0..len).map(of).collect();
            let scale =
                expected.iter().filter(|v| v.is_finite()).fold(1.0, |a: f64, b| a.max(b.abs()));
            let exact = index == 0
                && !case.dtype.is_float()
                && case.viewer.dataset().pixel_dtype() == case.dtype;
            let tolerance = if exact { 0.0 } else { 1e-6 * scale };
            let picture = ask(channel).unwrap();
            assert_eq!(picture.state, State::Exact);
            assert_eq!(picture.shape, case.sig);
            assert_close(
                &picture.values,
                &expected,
                tolerance,
                &format!("seed {seed} channel {index}"),
            );
        }
    });
    assert!(n_checked > 150, "{n_checked}");
}

#[test]
fn weights_from_arrays() {
    let case = case(3, framefold::core::DType::U16, &[3, 4], &[6, 7]);
    let mut random = Random::new(5);
    let weights: Vec<f32> = (0..42).map(|_| random.unit() as f32 - 0.5).collect();
    let region: Vec<f32> = (0..12).map(|i| if i % 3 == 0 { 1.0 } else { -1.0 }).collect();
    let arrays = [(weights, [6, 7]), (region, [3, 4])]
        .map(|(array, shape)| (case.viewer.add_mask(&shape, array.clone()).unwrap(), array));
    let array = |id| Signed { shape: Shape::Array { id }, sign: Sign::Plus };
    let disk = Shape::Disk { cy: 2.0, cx: 3.0, r: 2.0 };
    let detector = vec![array(arrays[0].0), Signed { shape: disk, sign: Sign::Minus }];
    let expected = oracle::weights(&detector, 6, 7, &arrays);
    let sums =
        case.data.frames.iter().map(|f| oracle::moments(f.as_ref().unwrap(), &expected, 7)[0]);
    let query = Query::Scan(ScanQuery { detector, ..Default::default() });
    let picture = exact(&case.viewer, &query).unwrap();
    assert_close(&picture.values, &sums.collect::<Vec<_>>(), 1e-2, "an array");

    let query = PatternQuery { region: vec![array(arrays[1].0)], ..Default::default() };
    let picture = exact(&case.viewer, &Query::Pattern(query)).unwrap();
    let of = |pixel| oracle::statistics(&case.data, &[0, 3, 6, 9], pixel)[1];
    assert_close(&picture.values, &(0..42).map(of).collect::<Vec<_>>(), 1e-6, "a region");
}

/// What was drawn with one array is drawn with that array, or not at all.
#[test]
fn arrays_are_known_by_what_they_hold() {
    let viewer = || case(3, framefold::core::DType::U16, &[3, 4], &[6, 7]).viewer;
    let ones = |viewer: &Viewer, n: usize| {
        let weights = (0..42).map(|i| if i < n { 1.0 } else { 0.0 }).collect();
        viewer.add_mask(&[6, 7], weights).unwrap()
    };
    let sums = |viewer: &Viewer, id| {
        let detector = vec![Signed { shape: Shape::Array { id }, sign: Sign::Plus }];
        exact(viewer, &Query::Scan(ScanQuery { detector, ..Default::default() }))
            .map(|picture| picture.values)
            .map_err(|error| error.to_string())
    };
    let (one, other) = (viewer(), viewer());
    let two = ones(&one, 2);
    assert_eq!(ones(&one, 2), two, "the same again");
    let three = ones(&other, 3);
    assert!(two != three && two.max(three) < 1 << 53, "{two} {three}");
    assert!(sums(&other, two).unwrap_err().contains(&format!("no mask with the number {two}")));
    assert_eq!(ones(&other, 2), two);
    assert_eq!(sums(&other, two), sums(&one, two));
    assert_ne!(sums(&other, two), sums(&other, three));
}
