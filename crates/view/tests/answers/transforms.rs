//! Fourier transforms of pictures, with their axes.

use crate::cases::{assert_close, case, exact};
use framefold::Dataset;
use framefold::core::{AxisKind, Calibration, DType};
use framefold_view::{
    Centre, ComPart, PatternQuery, Picture, Query, ScanChannel, ScanQuery, Transform, Viewer,
    ViewerOptions,
};
use std::f64::consts::PI;

/// |F|, frequency 0 in the middle, by the definition.
fn spectrum(values: &[f64], rows: usize, columns: usize) -> Vec<f64> {
    let mut spectrum = vec![0.0; rows * columns];
    for v in 0..rows {
        for u in 0..columns {
            let (mut re, mut im) = (0.0, 0.0);
            let (ky, kx) = (v as f64 - (rows / 2) as f64, u as f64 - (columns / 2) as f64);
            for (i, value) in values.iter().enumerate() {
                let (y, x) = ((i / columns) as f64, (i % columns) as f64);
                let angle = -2.0 * PI * (ky * y / rows as f64 + kx * x / columns as f64);
                re += value * angle.cos();
                im += value * angle.sin();
            }
            spectrum[v * columns + u] = re.hypot(im);
        }
    }
    spectrum
}

/// The same data with steps of 2 nm on the scan and 0.5 1/Å on frames.
fn calibrated(viewer: &Viewer) -> Viewer {
    let dataset: Dataset = viewer.dataset().clone();
    let mut metadata = dataset.metadata().clone();
    for axis in 0..2 {
        let scan = Calibration { step: 2.0, offset: 7.0, unit: "nm".into() };
        metadata.calibrate(AxisKind::Nav, axis, scan);
        let frame = Calibration { step: 0.5, offset: -1.0, unit: "1/Å".into() };
        metadata.calibrate(AxisKind::Sig, axis, frame);
    }
    let dataset = dataset.with_metadata(metadata);
    Viewer::try_new("calibrated".into(), dataset, ViewerOptions::default()).unwrap()
}

fn axes_of(picture: &Picture) -> Vec<(usize, f64, f64, String)> {
    let axes = picture.axes.as_ref().expect("axes of their own").iter();
    axes.map(|axis| (axis.size, axis.scale, axis.offset, axis.unit.clone())).collect()
}

#[test]
fn of_the_scan() {
    for (nav, rows, columns) in [(vec![6, 9], 6, 9), (vec![7], 1, 7), (vec![5, 4], 5, 4)] {
        let viewer = case(3, DType::U16, &nav, &[8, 8]).viewer;
        let ask = |transform| {
            exact(&viewer, &Query::Scan(ScanQuery { transform, ..Default::default() })).unwrap()
        };
        let (plain, transformed) = (ask(Transform::None), ask(Transform::Fft));
        assert!(plain.axes.is_none());
        assert_eq!(transformed.shape, plain.shape);
        let most = plain.values.iter().sum::<f64>();
        let expected = spectrum(&plain.values, rows, columns);
        assert_close(&transformed.values, &expected, 1e-9 * most, "a spectrum");
        let last = axes_of(&transformed).pop().unwrap();
        let scale = 1.0 / columns as f64;
        assert_eq!(last, (columns, scale, -((columns / 2) as f64) * scale, "1/px".to_owned()));
    }
}

#[test]
fn of_frames() {
    let viewer = calibrated(&case(3, DType::U16, &[3, 4], &[6, 9]).viewer);
    let ask = |transform| {
        exact(&viewer, &Query::Pattern(PatternQuery { transform, ..Default::default() })).unwrap()
    };
    let (plain, transformed) = (ask(Transform::None), ask(Transform::Ewpc));
    let smallest = plain.values.iter().copied().filter(|v| *v > 0.0).fold(f64::INFINITY, f64::min);
    let logarithms: Vec<f64> = plain.values.iter().map(|value| value.max(smallest).ln()).collect();
    assert_close(&transformed.values, &spectrum(&logarithms, 6, 9), 1e-6, "a cepstrum");
    let steps: Vec<(usize, f64, String)> =
        axes_of(&transformed).into_iter().map(|(n, scale, _, unit)| (n, scale, unit)).collect();
    // From 1/Å to Å.
    let expected = [(6, 1.0 / (6.0 * 0.5)), (9, 1.0 / (9.0 * 0.5))];
    assert_eq!(steps, expected.map(|(n, scale)| (n, scale, "Å".to_owned())));
}

#[test]
fn positions_without_data_do_not_spoil_them() {
    // This seed leaves positions out.
    let viewer = calibrated(&case(4, DType::U16, &[6, 6], &[8, 8]).viewer);
    let ask = |channel, transform| {
        exact(&viewer, &Query::Scan(ScanQuery { channel, transform, ..Default::default() }))
            .unwrap()
    };
    let mut plain = ask(ScanChannel::Sum, Transform::None).values;
    let known: Vec<f64> = plain.iter().copied().filter(|value| value.is_finite()).collect();
    assert_eq!(known.len(), 34);
    let mean = known.iter().sum::<f64>() / known.len() as f64;
    plain.iter_mut().filter(|value| value.is_nan()).for_each(|value| *value = mean);
    let transformed = ask(ScanChannel::Sum, Transform::Fft);
    assert_close(&transformed.values, &spectrum(&plain, 6, 6), 1e-9 * mean * 36.0, "gaps");
    let com = ScanChannel::Com {
        part: ComPart::Vector,
        centre: Centre::Mean,
        rotation: 0.0,
        flip_y: false,
    };
    let vectors = ask(com, Transform::Fft);
    assert_eq!((vectors.planes.len(), vectors.values.len()), (2, 72));
    assert!(vectors.values.iter().all(|value| value.is_finite()));
    let idpc = ScanChannel::Idpc { centre: Centre::Mean, rotation: 0.0, flip_y: false };
    let phase = ask(idpc, Transform::None);
    let unknown: Vec<bool> = phase.values.iter().map(|value| value.is_nan()).collect();
    assert_eq!(unknown.iter().filter(|&&unknown| unknown).count(), 2);
}
