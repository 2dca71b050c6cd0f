//! Corrections on frames small enough to follow by hand.

use super::*;
use crate::{Complex64, DenseTile, Element, FramesView, Scratch, TileFrames, TilingScheme};

fn real(shape: &[usize], values: Vec<f64>) -> Option<NativeArray> {
    Some(NativeArray::try_new(shape, values).unwrap())
}

fn excluding(sig: &[usize], cells: &[usize]) -> Corrections {
    Corrections::try_new(sig, None, None, cells.to_vec(), false).unwrap()
}

/// Corrects one frame, slice by slice of `tile`, and puts it together again.
fn correct<S: Element, T: Element>(corrections: &Corrections, raw: &[S], tile: &[usize]) -> Vec<T> {
    let sig = corrections.sig_shape();
    let scheme = TilingScheme::try_new(sig, tile, 1).unwrap();
    let planes = CorrectionPlanes::try_new(corrections, T::DTYPE).unwrap();
    let mut out = vec![T::default(); raw.len()];
    let mut scratch = Scratch::new();
    for slice in scheme.slices() {
        let part = CorrectedSlice::try_new(corrections, slice, &[]).unwrap();
        let read: Vec<S> = part.read().runs(sig).flatten().map(|cell| raw[cell]).collect();
        let view = FramesView::try_new(&read, 1, read.len(), read.len()).unwrap();
        let tile = DenseTile::borrowed(S::wrap_frames(view));
        let corrected = correct_tile(&tile, &part, &planes, &mut scratch).unwrap();
        let bytes = corrected.frames().as_bytes();
        assert_eq!(corrected.frames().frame_len(), slice.len());
        let cells: &[T] = bytemuck::cast_slice(bytes);
        for (&cell, place) in cells.iter().zip(slice.runs(sig).flatten()) {
            out[place] = cell;
        }
    }
    out
}

#[test]
fn the_mean_of_the_good_neighbours_not_the_median() {
    let raw: [u16; 25] = [
        100, 120, 140, 160, 180, 200, 220, 240, 260, 280, 300, 230, 60000, 1000, 65535, 240, 250,
        64, 1, 2, 3, 4, 5, 6, 7,
    ];
    let corrections = excluding(&[5, 5], &[12, 14]);
    let repaired: Vec<f32> = correct(&corrections, &raw, &[5, 5]);
    let around = [220.0, 240.0, 260.0, 230.0, 1000.0, 250.0, 64.0, 1.0];
    let mean = around.iter().sum::<f64>() / 8.0;
    assert_eq!(repaired[12], mean as f32);
    // The neighbours that are left at the border, the excluded one not among them.
    assert_eq!(repaired[14], ((260.0 + 280.0 + 1000.0 + 1.0 + 2.0) / 5.0) as f32);
    for tile in [[1, 5], [2, 2], [1, 1], [3, 4]] {
        assert_eq!(correct::<u16, f32>(&corrections, &raw, &tile), repaired, "{tile:?}");
    }
}

#[test]
fn neighbours_enter_with_their_corrected_values() {
    let corrections = Corrections::try_new(
        &[3],
        real(&[3], vec![1.0, f64::NAN, 3.0]),
        real(&[3], vec![2.0, f64::INFINITY, 0.5]),
        vec![1, 1],
        false,
    )
    .unwrap();
    assert_eq!(correct::<u8, f32>(&corrections, &[11, 200, 13], &[1]), [20.0, 12.5, 5.0]);
    assert_eq!(corrections.to_string(), "dark frame, gain map, 1 excluded pixel");
}

#[test]
fn complex_planes_for_complex_pixels() {
    let dark = NativeArray::try_new(&[2], vec![Complex64::new(0.0, 1.0); 2]).unwrap();
    let gain = NativeArray::try_new(&[2], vec![Complex64::new(0.0, 1.0); 2]).unwrap();
    let corrections = Corrections::try_new(&[2], Some(dark), Some(gain), vec![], false).unwrap();
    let raw = [Complex64::new(2.0, 3.0), Complex64::new(0.0, 1.0)];
    let expected = [Complex64::new(-2.0, 2.0), Complex64::new(0.0, 0.0)];
    assert_eq!(correct::<_, Complex64>(&corrections, &raw, &[2]), expected);
    let error = corrections.output_dtype(DType::F64).unwrap_err();
    assert!(error.message().contains("dark frame has dtype complex64"), "{error}");
    assert_eq!(corrections.output_dtype(DType::C64).unwrap(), DType::C64);
}

#[test]
fn planes_have_to_fit_what_pixels_are_corrected_in() {
    let planes = || real(&[3], vec![1e39, 1.0, -1e39]);
    for (what, dark, gain) in [("dark frame", planes(), None), ("gain map", None, planes())] {
        let with = |excluded| {
            Corrections::try_new(&[3], dark.clone(), gain.clone(), excluded, false).unwrap()
        };
        assert_eq!(with(vec![0, 2]).output_dtype(DType::U16).unwrap(), DType::F32);
        for native in [DType::U32, DType::F64] {
            assert_eq!(with(vec![]).output_dtype(native).unwrap(), DType::F64);
        }
        let error = with(vec![0]).output_dtype(DType::U16).unwrap_err();
        let expected = format!(
            "the {what} is too large for float32, in which data of dtype uint16 are corrected, at \
             1 pixels that are not excluded; the first is [2]"
        );
        assert_eq!(error.message(), expected);
    }
}

#[test]
fn a_real_gain_leaves_infinite_parts_alone() {
    let corrections =
        Corrections::try_new(&[1], None, real(&[1], vec![2.0]), vec![], false).unwrap();
    let raw = [Complex64::new(f32::INFINITY, 1.0)];
    let expected = [Complex64::new(f32::INFINITY, 2.0)];
    assert_eq!(correct::<_, Complex64>(&corrections, &raw, &[1]), expected);
}

#[test]
fn more_is_read_only_where_a_repair_needs_it() {
    let corrections = excluding(&[8, 4], &[9, 29]);
    let scheme = TilingScheme::try_new(&[8, 4], &[2, 4], 1).unwrap();
    let rows = |base: &[usize]| -> Vec<_> {
        let read = |slice| CorrectedSlice::try_new(&corrections, slice, base).unwrap();
        scheme
            .slices()
            .iter()
            .map(|slice| {
                let part = read(slice);
                assert_eq!((part.read().origin()[1], part.read().shape()[1]), (0, 4));
                assert_eq!(part.kept().is_none(), part.read() == slice);
                let first = part.read().origin()[0];
                first..first + part.read().shape()[0]
            })
            .collect()
    };
    assert_eq!(rows(&[1, 4]), [0..2, 1..4, 4..6, 6..8]);
    assert_eq!(rows(&[2, 4]), [0..2, 0..4, 4..6, 6..8]);
}

#[test]
fn gaps_between_frames_and_several_frames() {
    let corrections = excluding(&[2, 2], &[3]);
    let raw = [1i32, 2, 3, 99, -7, -7, 4, 5, 6, 99];
    let frames = TileFrames::I32(FramesView::try_new(&raw, 2, 4, 6).unwrap());
    let tile = DenseTile::borrowed(frames);
    let scheme = TilingScheme::try_new(&[2, 2], &[2, 2], 2).unwrap();
    let part = CorrectedSlice::try_new(&corrections, &scheme.slices()[0], &[1, 2]).unwrap();
    let planes = CorrectionPlanes::try_new(&corrections, DType::F64).unwrap();
    let mut scratch = Scratch::new();
    let corrected = correct_tile(&tile, &part, &planes, &mut scratch).unwrap();
    let TileFrames::F64(view) = corrected.frames() else { panic!("{corrected:?}") };
    assert_eq!(view.contiguous().unwrap(), [1.0, 2.0, 3.0, 2.0, 4.0, 5.0, 6.0, 5.0]);
}

#[test]
fn pixels_without_good_neighbours() {
    let error = Corrections::try_new(&[2, 3], None, None, vec![0, 1, 3, 4], false).unwrap_err();
    assert!(error.message().contains("2 of 4 excluded pixels"), "{error}");
    assert!(error.message().contains("[0, 0]"), "{error}");
    let corrections = Corrections::try_new(&[2, 3], None, None, vec![0, 1, 3, 4], true).unwrap();
    let repaired: Vec<f32> = correct(&corrections, &[7u8, 1, 2, 8, 3, 4], &[1, 2]);
    assert_eq!(repaired, [7.0, 3.0, 2.0, 8.0, 3.0, 4.0]);
}

#[test]
fn what_does_not_fit_is_refused() {
    let message = |dark, gain, excluded| {
        Corrections::try_new(&[2, 2], dark, gain, excluded, false).unwrap_err().to_string()
    };
    let wrong = message(real(&[4], vec![0.0; 4]), None, vec![]);
    assert!(wrong.contains("dark frame has shape [4]") && wrong.contains("[2, 2]"), "{wrong}");
    let wrong = message(None, real(&[2, 1], vec![0.0; 2]), vec![]);
    assert!(wrong.contains("gain map has shape [2, 1]"), "{wrong}");
    let wrong = message(None, real(&[2, 2], vec![1.0, f64::NAN, 1.0, f64::INFINITY]), vec![3]);
    assert!(wrong.contains("at 1 pixels") && wrong.contains("[0, 1]"), "{wrong}");
    let wrong = message(None, None, vec![1, 4]);
    assert!(wrong.contains("number 4"), "{wrong}");
    assert!(Corrections::try_new(&[], None, None, vec![], false).is_err());
    assert!(Corrections::try_new(&[2, 0], None, None, vec![], false).is_err());
}

#[test]
fn dtypes_follow_numpy() {
    let none = Corrections::try_new(&[1], None, None, vec![], false).unwrap();
    assert!(none.is_empty());
    for (native, expected) in [
        (DType::Bool, DType::F32),
        (DType::U16, DType::F32),
        (DType::U32, DType::F64),
        (DType::F16, DType::F32),
        (DType::C64, DType::C64),
    ] {
        assert_eq!(none.output_dtype(native).unwrap(), expected);
    }
    assert!(CorrectionPlanes::try_new(&none, DType::U16).is_err());
}

#[test]
fn corrections_turn_with_the_frames() {
    let values = |n: u16| (0..n).collect::<Vec<u16>>();
    let dark = NativeArray::try_new(&[2, 3], values(6)).unwrap();
    let corrections = Corrections::try_new(&[2, 3], Some(dark), None, vec![2, 3], true).unwrap();
    let orientation = Orientation { transpose: true, flip_y: true, flip_x: false };
    let turned = corrections.turned(orientation).unwrap();
    // 0 1 2, 3 4 5 → 2 5, 1 4, 0 3
    assert_eq!(turned.sig_shape(), [3, 2]);
    assert_eq!(turned.dark(), Some(&TypedVec::from(vec![2u16, 5, 1, 4, 0, 3])));
    assert_eq!(turned.excluded(), [0, 5]);
    assert_eq!(turned.gain(), None);
}
