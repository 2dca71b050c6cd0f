//! Turned frames against cells that are counted one by one, and what is known of them.

use framefold_core::{
    Corrections, DType, DataSource, Dataset, FrameIndices, MetadataValue, Orientation, Quantity,
    TilingScheme,
};
use framefold_io::{
    Calibrate, CsrSource, MemoryArray, MemorySource, orient, parse_steps, row_order_of,
};
use framefold_testkit::{Values, check_source, random_values};
use std::sync::Arc;

fn dataset(sig: &[usize]) -> Dataset {
    let shape = [&[2, 3], sig].concat();
    let layout = MemoryArray {
        shape: shape.clone(),
        offset_bytes: 0,
        stored: DType::U8.into(),
        sig_dims: sig.len(),
        strides_bytes: None,
    };
    let bytes = vec![0u8; shape.iter().product()];
    let source = MemorySource::try_new(Arc::new(bytes), layout).unwrap();
    Dataset::try_new(Arc::new(source), None, 0).unwrap()
}

fn turned(dataset: &Dataset, flip: &str, transpose: bool) -> Dataset {
    let flip = Some(flip).filter(|flip| !flip.is_empty());
    orient(dataset.clone(), Orientation::of_options(flip, transpose).unwrap()).unwrap()
}

fn shown(dataset: &Dataset) -> String {
    let frame = dataset.axes().split_off(2);
    frame.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
}

#[test]
fn pixels_keep_their_values() {
    let facts = |centre: &[f64], names: &str| Calibrate {
        pixel_size: parse_steps("2mrad, 0.5mrad").unwrap(),
        centre: centre.to_vec(),
        names: names.split_terminator(' ').map(str::to_owned).collect(),
        ..Calibrate::default()
    };
    let known = facts(&[1.0, 2.0], "").apply(dataset(&[5, 7])).unwrap();
    assert_eq!(shown(&known), "y: 5 × 2 mrad, from -2 mrad; x: 7 × 0.5 mrad, from -1 mrad");
    for (flip, transpose, expected) in [
        ("y", false, "y: 5 × -2 mrad, from 6 mrad; x: 7 × 0.5 mrad, from -1 mrad"),
        ("x", false, "y: 5 × 2 mrad, from -2 mrad; x: 7 × -0.5 mrad, from 2 mrad"),
        ("", true, "y: 7 × 0.5 mrad, from -1 mrad; x: 5 × 2 mrad, from -2 mrad"),
        ("y", true, "y: 7 × -0.5 mrad, from 2 mrad; x: 5 × 2 mrad, from -2 mrad"),
    ] {
        assert_eq!(shown(&turned(&known, flip, transpose)), expected);
    }
    let named = facts(&[], "sy sx energy x").apply(dataset(&[5, 7])).unwrap();
    assert_eq!(shown(&turned(&named, "", true)), "y: 7 × 0.5 mrad; energy: 5 × 2 mrad");
    // What no quantity is for, and what is only counted.
    let counted =
        Calibrate { centre: vec![1.0, 0.0], ..Calibrate::default() }.apply(dataset(&[5, 7]));
    let counted = counted.unwrap();
    assert_eq!(shown(&turned(&counted, "yx", false)), "y: 5 × -1, from 3; x: 7");
    let spectra = Calibrate { pixel_size: parse_steps("0.5eV").unwrap(), ..Calibrate::default() };
    let spectra = spectra.apply(dataset(&[5])).unwrap();
    assert_eq!(shown(&turned(&spectra, "x", false)), "channel: 5 × -0.5 eV, from 2 eV");
    assert!(orient(spectra, Orientation::of_options(None, true).unwrap()).is_err());
}

#[test]
fn colours_are_not_turned_for_columns() {
    let named = |names: [&str; 5]| {
        let names = names.map(str::to_owned).into();
        let names = Calibrate { names, ..Calibrate::default() };
        names.apply(dataset(&[3, 5, 4])).unwrap()
    };
    let flip = Orientation::of_options(Some("x"), false).unwrap();
    let planes = named(["sy", "sx", "colour", "y", "x"]);
    assert!(orient(planes, flip).is_ok());
    let last = named(["sy", "sx", "y", "x", "colour"]);
    let error = orient(last.clone(), flip).unwrap_err().to_string();
    assert!(error.contains("last axis is 'colour'") && error.contains("flip x"), "{error}");
    assert!(orient(last, Orientation::default()).is_ok());
}

#[test]
fn what_is_turned_back_is_as_it_was() {
    let excluded = Corrections::try_new(&[4, 5], None, None, vec![6], false).unwrap();
    let plain = dataset(&[4, 5]).with_corrections(Some(Arc::new(excluded))).unwrap();
    let once = turned(&plain, "y", true);
    assert_eq!(once.shape().sig(), [5, 4]);
    assert_eq!(once.corrections().unwrap().sig_shape(), [5, 4]);
    let said = |dataset: &Dataset| match dataset.metadata().get(Quantity::Orientation) {
        Some(MetadataValue::Text(text)) => text.clone(),
        _ => String::new(),
    };
    assert_eq!(said(&once), "transpose, flip y of memory");
    assert_eq!(row_order_of(&once).unwrap(), "turned (transpose, flip y); without that, as stored");
    let back = turned(&once, "x", true);
    assert_eq!(said(&back), "");
    assert!(Arc::ptr_eq(back.source(), plain.source()));
    assert_eq!(back.corrections(), plain.corrections());
    assert_eq!(back.metadata(), plain.metadata());
}

fn all() -> impl Iterator<Item = Orientation> {
    (0..8).map(|i| Orientation { transpose: i & 1 > 0, flip_y: i & 2 > 0, flip_x: i & 4 > 0 })
}

/// Five frames of random numbers.
fn counts(dtype: DType, sig: &[usize]) -> Arc<dyn DataSource> {
    let n = 5 * sig.iter().product::<usize>();
    let values = random_values(dtype, n, Values::Counts, 3);
    let layout = MemoryArray {
        shape: [&[5], sig].concat(),
        offset_bytes: 0,
        stored: dtype.into(),
        sig_dims: sig.len(),
        strides_bytes: None,
    };
    Arc::new(MemorySource::try_new(Arc::new(values.as_bytes().to_vec()), layout).unwrap())
}

fn frames(source: &dyn DataSource) -> Vec<Vec<u8>> {
    let sig = &source.info().sig_shape;
    let scheme = TilingScheme::try_new(sig, sig, 1).unwrap();
    let mut reader = source.reader().unwrap();
    let tile = reader.read(FrameIndices::Run(0..5), &scheme.slices()[0]).unwrap();
    let len = tile.frames().frame_len() * tile.frames().dtype().size();
    tile.frames().as_bytes().chunks(len).map(<[u8]>::to_vec).collect()
}

#[test]
fn turned_frames_are_a_source_with_the_same_cells() {
    let dtypes = [DType::U8, DType::U16, DType::F32, DType::I64, DType::C128];
    for (i, sig) in
        [&[1, 1][..], &[1, 9], &[16, 64], &[33, 17], &[3, 5, 4], &[70, 35]].into_iter().enumerate()
    {
        let dtype = dtypes[i % dtypes.len()];
        for orientation in all() {
            let dense = counts(dtype, sig);
            let sparse = Arc::new(CsrSource::from_frames(dense.clone()).unwrap());
            let plain = frames(dense.as_ref());
            for source in [dense as Arc<dyn DataSource>, sparse] {
                let dataset = Dataset::try_new(source, None, 0).unwrap();
                let turned = orient(dataset, orientation).unwrap();
                let turned = turned.source().as_ref();
                check_source(turned).unwrap();
                let (shape, size) = (turned.info().sig_shape.clone(), dtype.size());
                for (found, plain) in frames(turned).iter().zip(&plain) {
                    for (cell, found) in found.chunks(size).enumerate() {
                        let from = orientation.cell(cell, &shape) * size;
                        assert_eq!(*found, plain[from..from + size], "{sig:?} {orientation}");
                    }
                }
            }
        }
    }
}
