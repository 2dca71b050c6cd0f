//! The centre of mass.

use crate::support::{check, dataset, run};
use framefold_core::{Complex64, DType, Dataset, ErrorKind, NativeArray};
use framefold_kernels::{Com, Shifts};
use framefold_testkit::cases_of;
use framefold_testkit::oracle::{self, ComOptions};
use proptest::prelude::*;
use std::sync::Arc;

fn real() -> Vec<DType> {
    DType::all().filter(|dtype| !dtype.is_complex()).collect()
}

fn options() -> impl Strategy<Value = ComOptions> {
    let centre = || prop::option::of(-3.0..12.0);
    let r = prop_oneof![Just(f64::INFINITY), 0.5..8.0];
    let ri = prop_oneof![Just(0.0), Just(-1.0), 0.0..0.45];
    let angle = prop_oneof![Just(0.0), -180.0..180.0];
    (centre(), centre(), r, ri, angle, any::<bool>()).prop_map(
        |(cy, cx, r, ri, scan_rotation, flip_y)| ComOptions {
            cy,
            cx,
            r,
            ri,
            scan_rotation,
            flip_y,
        },
    )
}

proptest! {
    #[test]
    fn equals_its_definition(case in cases_of(real(), 2..3), options in options()) {
        let ComOptions { cy, cx, r, ri, scan_rotation, flip_y } = options;
        let udf = Com { cy, cx, r, ri, scan_rotation, flip_y, ..Com::default() };
        check(&udf, &case, false, true, |frames| oracle::com(frames, &options)).unwrap();
    }
}

proptest! {
    #[test]
    fn a_shift_moves_the_reference_point(
        case in cases_of(real(), 2..3),
        options in options(),
        shift in prop::array::uniform2(-3.5..3.5),
    ) {
        let ComOptions { cy, cx, r, ri, scan_rotation, flip_y } = options;
        let (rows, columns) = (case.sig[0], case.sig[1]);
        let n_frames = case.dataset().unwrap().shape().n_frames();
        let each = NativeArray::try_new(&[n_frames, 2], shift.repeat(n_frames)).unwrap();
        let shifts = Some(Arc::new(Shifts::try_new(each).unwrap()));
        let udf = Com { cy, cx, r, ri, scan_rotation, flip_y, shifts, ..Com::default() };
        let moved = ComOptions {
            cy: Some(cy.unwrap_or((rows / 2) as f64) + shift[0]),
            cx: Some(cx.unwrap_or((columns / 2) as f64) + shift[1]),
            ..options
        };
        check(&udf, &case, false, true, |frames| oracle::com(frames, &moved)).unwrap();
    }
}

/// Four frames of 5 × 6: one bright pixel, all ones, empty, and a corner.
fn example() -> Dataset {
    let mut cells = vec![0f64; 4 * 30];
    cells[3 * 6 + 5] = 2.0;
    cells[30..60].fill(1.0);
    cells[90] = 1.0;
    dataset(&[2, 2], &[5, 6], cells)
}

fn results(com: &Com, name: &str) -> Vec<f64> {
    run(com, &example()).unwrap().get(name).unwrap().as_slice::<f64>().unwrap().to_vec()
}

#[test]
fn shifts_alone_are_those_that_come_with_the_rest() {
    let all = Com { cy: Some(1.0), r: 4.0, ..Com::default() };
    let some = Com { shifts_only: true, ..all.clone() };
    for name in ["raw_com", "raw_shifts"] {
        let bits = |com| results(com, name).into_iter().map(f64::to_bits).collect::<Vec<_>>();
        assert_eq!(bits(&some), bits(&all));
    }
    assert!(run(&some, &example()).unwrap().get("field").is_err());
    assert!(run(&all, &example()).unwrap().get("field").is_ok());
}

#[test]
fn an_empty_frame_has_its_centre_of_mass_at_the_reference_point() {
    let com = Com::default();
    assert_eq!(results(&com, "raw_com"), [3.0, 5.0, 2.0, 2.5, 2.0, 3.0, 0.0, 0.0]);
    assert_eq!(results(&com, "raw_shifts"), [1.0, 2.0, 0.0, -0.5, 0.0, 0.0, -2.0, -3.0]);
    let com = Com { cy: Some(1.0), cx: Some(2.0), ..Com::default() };
    assert_eq!(results(&com, "raw_com"), [3.0, 5.0, 2.0, 2.5, 1.0, 2.0, 0.0, 0.0]);
}

#[test]
fn the_field_is_flipped_and_rotated() {
    let close = |found: Vec<f64>, expected: &[f64]| {
        let near = |(f, e): (&f64, &f64)| (f - e).abs() < 1e-12;
        assert!(found.iter().zip(expected).all(near), "{found:?}");
    };
    let com = Com { scan_rotation: 30.0, flip_y: true, ..Com::default() };
    close(results(&com, "field_y")[..2].to_vec(), &[0.13397459621556118, -0.25]);
    close(results(&com, "field_x")[..2].to_vec(), &[2.232050807568877, -0.4330127018922193]);
    close(results(&com, "magnitude"), &[5f64.sqrt(), 0.5, 0.0, 13f64.sqrt()]);
}

#[test]
fn rings_include_their_outer_rim_only() {
    // All ones, without the 13 pixels at most 2 away from (2, 3).
    let com = Com { ri: 2.0, ..Com::default() };
    assert_eq!(results(&com, "raw_com")[3], 36.0 / 17.0);
    let com = Com { r: 2.0, ..Com::default() };
    assert_eq!(results(&com, "raw_com")[2..4], [2.0, 3.0]);
}

#[test]
fn nan_outside_of_the_disk_does_no_harm() {
    let mut cells = vec![1f32; 25];
    cells[0] = f32::NAN;
    let data = dataset(&[1], &[5, 5], cells);
    let centre = |com: &Com| {
        let results = run(com, &data).unwrap();
        results.get("raw_com").unwrap().as_slice::<f32>().unwrap().to_vec()
    };
    assert_eq!(centre(&Com { r: 2.0, ..Com::default() }), [2.0, 2.0]);
    assert!(centre(&Com::default()).iter().all(|c| c.is_nan()));
}

#[test]
fn large_integers_do_not_overflow() {
    let results = run(&Com::default(), &dataset(&[1], &[3, 500], vec![u64::MAX; 1500])).unwrap();
    assert_eq!(results.get("raw_com").unwrap().as_slice::<f64>().unwrap(), [1.0, 249.5]);
}

#[test]
fn what_has_no_centre_of_mass_is_refused() {
    let kind = |com: &Com, dataset: &Dataset| run(com, dataset).unwrap_err().kind();
    let line = dataset(&[2], &[4], vec![0u8; 8]);
    assert_eq!(kind(&Com::default(), &line), ErrorKind::Unsupported);
    let complex = dataset(&[1], &[1, 1], vec![Complex64::new(1.0, 0.0)]);
    assert_eq!(kind(&Com::default(), &complex), ErrorKind::Unsupported);
    for com in [
        Com { r: 2.0, ri: 2.0, ..Com::default() },
        Com { r: f64::NAN, ..Com::default() },
        Com { r: -1.0, ri: -2.0, ..Com::default() },
        Com { cy: Some(f64::INFINITY), ..Com::default() },
        Com { scan_rotation: f64::NAN, ..Com::default() },
    ] {
        assert_eq!(kind(&com, &example()), ErrorKind::InvalidArgument, "{com:?}");
    }
}
