//! What is said of axes that files say nothing of.

use framefold_core::{DType, Dataset, Quantity, checked_product};
use framefold_io::{Calibrate, MemoryArray, MemorySource, parse_steps};
use std::sync::Arc;

fn dataset(shape: &[usize], sig_dims: usize) -> Dataset {
    let bytes = vec![0u8; usize::try_from(checked_product(shape).unwrap()).unwrap()];
    let layout = MemoryArray {
        shape: shape.to_vec(),
        offset_bytes: 0,
        stored: DType::U8.into(),
        sig_dims,
        strides_bytes: None,
    };
    let source = MemorySource::try_new(Arc::new(bytes), layout).unwrap();
    Dataset::try_new(Arc::new(source), None, 0).unwrap()
}

fn shown(dataset: &Dataset) -> String {
    dataset.axes().iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[test]
fn texts_are_numbers_with_units() {
    for (text, value, unit) in [
        ("0.5nm", 0.5, "nm"),
        ("-2e-3 1/Å", -2e-3, "1/Å"),
        ("0.5eV", 0.5, "eV"),
        (".5 seconds", 0.5, "seconds"),
        ("10 K", 10.0, "K"),
    ] {
        assert_eq!(parse_steps(text).unwrap(), [(value, unit.to_owned())], "{text}");
    }
    assert_eq!(parse_steps("1nm, 2 s").unwrap().len(), 2);
    for text in ["", "nm", "0.5", "0.5 furlong", "0nm", "nan nm", "1e999nm", "1nm,", "0.5 nm nm"] {
        assert!(parse_steps(text).is_err(), "{text:?}");
    }
    let error = parse_steps("0.5 furlong").unwrap_err().to_string();
    assert!(error.contains("'furlong'") && error.contains("nm, ") && error.contains("mrad"));
}

#[test]
fn steps_replace_those_that_were_known() {
    let with = |scan: &str, pixel: &str, centre: &[f64]| {
        let steps = |text: &str| if text.is_empty() { vec![] } else { parse_steps(text).unwrap() };
        let facts = Calibrate {
            scan_step: steps(scan),
            pixel_size: steps(pixel),
            centre: centre.to_vec(),
            ..Calibrate::default()
        };
        move |dataset: Dataset| facts.apply(dataset).unwrap()
    };
    let plain = || dataset(&[2, 3, 4, 5, 6], 2);
    let once = with("0.5nm", "1.2mrad", &[])(plain());
    assert_eq!(
        shown(&once),
        "scan_2: 2; scan_y: 3 × 0.5 nm; scan_x: 4 × 0.5 nm; y: 5 × 1.2 mrad; x: 6 × 1.2 mrad"
    );
    assert_eq!(once.metadata().get_number(Quantity::AngleStepX), Some(1.2));
    // 0 stays at its pixel when the unit changes, whichever comes first.
    let frame = "y: 5 × 0.2 1/nm, from -0.4 1/nm; x: 6 × 0.2 1/nm, from -0.6 1/nm";
    let scan = "scan_2: 2 × 10 K; scan_y: 3 × 1 s; scan_x: 4 × 0.5 nm";
    let centred = with("10K,1s,5Å", "", &[2.0, 3.0])(once);
    let changed = with("", "0.02 1/Å", &[])(centred);
    assert_eq!(shown(&changed), format!("{scan}; {frame}"));
    assert_eq!(changed.metadata().get_number(Quantity::AngleStepX), None);
    assert_eq!(changed.metadata().get_number(Quantity::AngleOffsetX), None);
    let counted = with("", "", &[2.0, 3.0])(plain());
    assert!(shown(&counted).ends_with("y: 5 × 1, from -2; x: 6 × 1, from -3"));
    let moved = with("", "", &[1.0, 0.0])(counted.clone());
    assert!(shown(&moved).ends_with("y: 5 × 1, from -1; x: 6"), "{}", shown(&moved));
    assert!(shown(&with("", "0.2 1/nm", &[])(counted)).ends_with(frame));
    // Spectra have energies or wavelengths.
    let spectra = || dataset(&[2, 8], 1);
    assert!(shown(&with("", "0.5eV", &[2.0])(spectra())).ends_with("8 × 0.5 eV, from -1 eV"));
    assert!(shown(&with("", "-0.5nm", &[])(spectra())).ends_with("channel: 8 × -0.5 nm"));
}

#[test]
fn what_does_not_fit_is_refused() {
    let nm = || (1.0, "nm".to_owned());
    let refused =
        |facts: Calibrate| facts.apply(dataset(&[2, 3, 4, 5], 2)).unwrap_err().to_string();
    let all = Calibrate::default;
    for (facts, word) in [
        (Calibrate { scan_step: vec![nm(), nm(), nm()], ..all() }, "3 values"),
        (Calibrate { scan_step: vec![(f64::NAN, "nm".into())], ..all() }, "NaN"),
        (Calibrate { pixel_size: vec![(1.0, String::new())], ..all() }, "no unit"),
        (Calibrate { pixel_size: vec![(0.0, "mrad".into())], ..all() }, "is 0 mrad"),
        (Calibrate { rotation: Some(f64::INFINITY), ..all() }, "rotation is inf"),
        (Calibrate { centre: vec![1.0], ..all() }, "2 axes"),
        (Calibrate { names: vec!["a".into()], ..all() }, "4 axes"),
        (Calibrate { names: ["a", "b", "c", "a"].map(Into::into).into(), ..all() }, "twice"),
        (Calibrate { names: ["a", "b", "c", "d,e"].map(Into::into).into(), ..all() }, "'d,e'"),
    ] {
        let error = refused(facts.clone());
        assert!(error.contains(word), "{facts:?}: {error}");
    }
}

#[test]
fn axes_are_named() {
    let named = |names: &str| {
        let names = names.split(' ').map(str::to_owned).collect();
        let facts = Calibrate { names, rotation: Some(12.0), ..Calibrate::default() };
        facts.apply(dataset(&[2, 3, 4, 5], 2)).unwrap()
    };
    assert_eq!(shown(&named("time scan_x ky kx")), "time: 2; scan_x: 3; ky: 4; kx: 5");
    let usual = named("scan_y scan_x y x");
    assert_eq!(usual.metadata().get(Quantity::ScanAxes), None);
    assert_eq!(usual.metadata().get_number(Quantity::ScanRotation), Some(12.0));
}
