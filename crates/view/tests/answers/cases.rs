//! Random data sets, and detectors for them.

use crate::oracle::Data;
use crate::slow::Slow;
use framefold::core::{ArrayFormat, Corrections, DType, NativeArray, Presence, TypedVec};
use framefold::{Cancel, Dataset};
use framefold_testkit::{MemoryOptions, MemorySource, Random, Values, random_values};
use framefold_view::{Picture, Query, Shape, Sign, Signed, Viewer, ViewerOptions, Wish};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;

pub const DTYPES: [DType; 12] = [
    DType::Bool,
    DType::U8,
    DType::U16,
    DType::U32,
    DType::U64,
    DType::I8,
    DType::I16,
    DType::I32,
    DType::I64,
    DType::F16,
    DType::F32,
    DType::F64,
];

pub struct Case {
    pub viewer: Viewer,
    pub data: Data,
    pub nav: Vec<usize>,
    pub sig: Vec<usize>,
    pub dtype: DType,
}

pub fn double(values: &TypedVec) -> Vec<f64> {
    macro_rules! cast {
        ($($variant:ident),*) => {
            match values {
                $(TypedVec::$variant(values) => values.iter().map(|&v| v as f64).collect(),)*
                TypedVec::Bool(values) => values.iter().map(|v| f64::from(u8::from(v.get()))).collect(),
                TypedVec::F16(values) => values.iter().map(|v| v.to_f64()).collect(),
                other => panic!("{}", other.dtype()),
            }
        };
    }
    cast!(U8, U16, U32, U64, I8, I16, I32, I64, F32, F64)
}

/// A data set of counts, or of numbers of the whole range of their type that sums of a few thousand
/// still hold in double precision.
pub fn case(seed: u64, dtype: DType, nav: &[usize], sig: &[usize]) -> Case {
    case_with(seed, dtype, nav, sig, ViewerOptions::default())
}

/// Frames of 8 × 8 uint16 that each take a while to read, and how many of them were read.
pub fn slow(for_frame: std::time::Duration, nav: &[usize]) -> (Case, Arc<AtomicUsize>) {
    let Case { viewer, data, nav, sig, dtype } = impatient(3, DType::U16, nav, &[8, 8]);
    let n_read = Arc::new(AtomicUsize::new(0));
    let source = viewer.dataset().source().clone();
    let source = Arc::new(Slow { source, for_frame, n_read: Arc::clone(&n_read) });
    let dataset = Dataset::try_new(source, Some(&nav), 0).unwrap();
    let patience = Some(std::time::Duration::ZERO);
    let options = ViewerOptions { patience, ..Default::default() };
    let viewer = Viewer::try_new("slow".into(), dataset, options).unwrap();
    (Case { viewer, data, nav, sig, dtype }, n_read)
}

/// The same without patience: each answer begins with a preview.
pub fn impatient(seed: u64, dtype: DType, nav: &[usize], sig: &[usize]) -> Case {
    let patience = Some(std::time::Duration::ZERO);
    case_with(seed, dtype, nav, sig, ViewerOptions { patience, ..Default::default() })
}

pub fn case_with(
    seed: u64,
    dtype: DType,
    nav: &[usize],
    sig: &[usize],
    options: ViewerOptions,
) -> Case {
    let mut random = Random::new(seed);
    let n_frames: usize = nav.iter().product();
    let len: usize = sig.iter().product();
    let wide = matches!(dtype, DType::U64 | DType::I64) || dtype.is_float();
    let values = if wide || seed.is_multiple_of(3) { Values::Counts } else { Values::Full };
    let values = random_values(dtype, n_frames * len, values, seed);
    let all = double(&values);
    let presence = match seed % 4 {
        0 if n_frames > 4 => {
            let cut = 1 + random.below(n_frames - 3) as u64;
            Presence::Ranges(vec![0..cut, cut + 2..n_frames as u64])
        }
        _ => Presence::All,
    };
    let there = |frame: usize| match &presence {
        Presence::All => true,
        Presence::Ranges(ranges) => ranges.iter().any(|range| range.contains(&(frame as u64))),
    };
    let mut frames: Vec<Option<Vec<f64>>> =
        (0..n_frames).map(|i| there(i).then(|| all[i * len..(i + 1) * len].to_vec())).collect();
    let format = if seed % 5 == 1 { ArrayFormat::Csr } else { ArrayFormat::Dense };
    let of_memory = MemoryOptions { lends: seed.is_multiple_of(2), gap: 0, presence, format };
    let array = NativeArray::try_new(&[&[n_frames], sig].concat(), values).unwrap();
    let source = Arc::new(MemorySource::try_new(array, of_memory).unwrap());
    let mut dataset = Dataset::try_new(source, Some(nav), 0).unwrap();
    if seed % 7 == 2 && sig.len() == 2 && sig.iter().all(|&n| n > 2) {
        // One bad pixel, the mean of its neighbours.
        let (y, x) = (random.below(sig[0]), random.below(sig[1]));
        let bad = y * sig[1] + x;
        let corrections = Corrections::try_new(sig, None, None, vec![bad], false).unwrap();
        dataset = dataset.with_corrections(Some(Arc::new(corrections))).unwrap();
        for frame in frames.iter_mut().flatten() {
            let mut neighbours = vec![];
            for v in y.saturating_sub(1)..(y + 2).min(sig[0]) {
                for u in x.saturating_sub(1)..(x + 2).min(sig[1]) {
                    if (v, u) != (y, x) {
                        neighbours.push(frame[v * sig[1] + u]);
                    }
                }
            }
            frame[bad] = neighbours.iter().sum::<f64>() / neighbours.len() as f64;
        }
    }
    let (rows, columns) = if sig.len() == 1 { (1, sig[0]) } else { (sig[0], sig[1]) };
    let viewer = Viewer::try_new("case".into(), dataset, options).unwrap();
    Case {
        viewer,
        data: Data { rows, columns, frames },
        nav: nav.to_vec(),
        sig: sig.to_vec(),
        dtype,
    }
}

/// Shapes on a grid, some of them partly or wholly outside.
pub fn shapes(random: &mut Random, rows: usize, columns: usize) -> Vec<Signed> {
    let n = random.below(4);
    (0..n)
        .map(|_| {
            let sign = if random.below(4) == 0 { Sign::Minus } else { Sign::Plus };
            Signed { shape: shape(random, rows, columns), sign }
        })
        .collect()
}

pub fn shape(random: &mut Random, rows: usize, columns: usize) -> Shape {
    // Often on the middle of a pixel, where borders are reached exactly.
    let mut number = |least: f64, most: f64| {
        let value = least + random.unit() * (most - least);
        if random.below(2) == 0 { value.round() } else { value }
    };
    let (h, w) = (rows as f64, columns as f64);
    let (cy, cx) = (number(-2.0, h + 1.0), number(-2.0, w + 1.0));
    let (ri, more) = (number(0.0, h.max(w) / 3.0), number(0.0, h.max(w) / 2.0));
    let (y1, x1) = (number(-2.0, h + 1.0), number(-2.0, w + 1.0));
    let (from, to) = (number(-360.0, 360.0), number(-360.0, 360.0));
    let (a, b) = ([number(-4.0, 4.0), 3.0], [2.0, number(-4.0, 4.0)]);
    let points: Vec<[f64; 2]> =
        (0..5).map(|_| [number(-2.0, h + 1.0), number(-2.0, w + 1.0)]).collect();
    let order = random.below(4) as u32;
    match random.below(7) {
        0 => Shape::Point { y: cy, x: cx },
        1 => Shape::Disk { cy, cx, r: more },
        2 => Shape::Ring { cy, cx, ri, ro: ri + more },
        3 => Shape::Wedge { cy, cx, ri, ro: ri + more, from, to },
        4 => Shape::Rectangle { y0: cy, x0: cx, y1, x1 },
        5 => Shape::Polygon { points },
        _ => Shape::Lattice { cy, cx, a, b, r: ri.min(2.0), order },
    }
}

/// All pictures of an answer.
pub fn answers(viewer: &Viewer, query: &Query, wish: Wish) -> framefold::Result<Vec<Picture>> {
    let mut pictures = vec![];
    viewer.answer(query, wish, &Cancel::new(), &mut |picture| {
        pictures.push(picture);
        Ok(())
    })?;
    Ok(pictures)
}

/// The last picture of an exact answer.
pub fn exact(viewer: &Viewer, query: &Query) -> framefold::Result<Picture> {
    Ok(answers(viewer, query, Wish::Exact)?.pop().expect("a picture"))
}

/// Equal, or both NaN, or nearly so.
pub fn assert_close(found: &[f64], expected: &[f64], tolerance: f64, what: &str) {
    assert_eq!(found.len(), expected.len(), "{what}");
    for (i, (f, e)) in found.iter().zip(expected).enumerate() {
        let same = f == e || (f.is_nan() && e.is_nan()) || (f - e).abs() <= tolerance;
        assert!(same, "{what}: {f} instead of {e} at {i}");
    }
}
