//! Every stage, and pairs of them, held to the laws of a source: any part of a frame, read in any tiles,
//! is that part of the whole frame.

use framefold_core::{
    ArrayFormat, AxisMap, DType, Dataset, DenseTile, Error, FrameIndices, FrameKind, Presence,
    Result, SigSlice, Stage, StagePart, TileFrames,
};
use framefold_io::{MemoryArray, MemorySource, pipe, rescan};
use framefold_stages::{Rebin, STAGES, Shifts, make};
use framefold_testkit::check_source;
use std::fmt;
use std::sync::Arc;

/// Seven frames of no particular values. Floats are numbers between 0 and 1.
fn frames(dtype: DType, sig: &[usize]) -> Result<Dataset> {
    let shape = [&[7], sig].concat();
    let n = shape.iter().product::<usize>();
    let mut state = 1_u64;
    let mut next = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        state >> 33
    };
    let mut bytes = Vec::new();
    for _ in 0..n {
        match dtype {
            DType::Bool => bytes.push((next() % 2) as u8),
            DType::F16 => bytes.extend((0x3800 | (next() % 1024) as u16).to_ne_bytes()),
            DType::F32 => bytes.extend((next() as f32 / 2_f32.powi(31)).to_ne_bytes()),
            DType::F64 => bytes.extend((next() as f64 / 2_f64.powi(31)).to_ne_bytes()),
            DType::C64 => {
                let of = |n: u64| (n as f32 / 2_f32.powi(31)).to_ne_bytes();
                bytes.extend([of(next()), of(next())].concat());
            }
            DType::C128 => {
                let of = |n: u64| (n as f64 / 2_f64.powi(31)).to_ne_bytes();
                bytes.extend([of(next()), of(next())].concat());
            }
            integer => bytes.extend(&next().to_ne_bytes()[..integer.size()]),
        }
    }
    let layout = MemoryArray {
        shape,
        offset_bytes: 0,
        stored: dtype.into(),
        sig_dims: sig.len(),
        strides_bytes: None,
    };
    let source = MemorySource::try_new(Arc::new(bytes), layout)?;
    Dataset::try_new(Arc::new(source), None, 0)
}

/// `frames` of a kind behind a stage.
fn staged(dtype: DType, sig: &[usize], text: &str) -> Result<Dataset> {
    piped(frames(dtype, sig)?, text)
}

fn piped(dataset: Dataset, text: &str) -> Result<Dataset> {
    match Rebin::parse(text, dataset.shape().nav())? {
        Some(rebin) => {
            rescan(dataset, &rebin.axes(), |dataset, metadata| rebin.source(dataset, metadata))
        }
        None => pipe(dataset, |frames| make(text, frames)),
    }
}

/// Texts to try for frames of this shape.
fn texts(n_axes: usize) -> Vec<String> {
    let ranges = ["1:-1", "2:", ":-3"].into_iter().cycle().take(n_axes).collect::<Vec<_>>();
    let each = |values: &[&'static str]| -> Vec<&'static str> {
        values.iter().copied().cycle().take(n_axes).collect()
    };
    vec![
        format!("crop {}", ranges.join(",")),
        "bin 2".into(),
        format!("bin {}", each(&["3", "2", "1"]).join(",")),
        "bin 3 mean=true".into(),
        "bin 1".into(),
        format!("pad {}", each(&["2:1", "0", "3:0"]).join(",")),
        "pad 1 value=1".into(),
        format!("shift {} fill=1", each(&["2", "-3", "1"]).join(",")),
        format!("shift {}", each(&["-0.25", "1.5", "0"]).join(",")),
        "shift 100.5".into(),
        "threshold 0.5".into(),
        "threshold 20 maximum=100".into(),
        "count 0.4".into(),
        "count 20 maximum=100".into(),
        "rebin 2".into(),
        "rebin 3 mean=true".into(),
        "cast uint8".into(),
        "cast float32".into(),
        "cast complex64".into(),
        "log 1".into(),
        "gaussian 0.8".into(),
        "median 3".into(),
        format!("median {}", each(&["5", "1", "3"]).join(",")),
    ]
}

#[test]
fn stages_keep_the_laws_of_sources() {
    for sig in [&[9, 14][..], &[23], &[4, 5, 6]] {
        for dtype in DType::all() {
            for text in texts(sig.len()) {
                match staged(dtype, sig, &text) {
                    Ok(dataset) => check_source(dataset.source().as_ref())
                        .unwrap_or_else(|e| panic!("{text} of {dtype} {sig:?}: {e}")),
                    Err(error) => {
                        let refused = dtype.is_complex() || text == "pad 1 value=1";
                        assert!(refused, "{text} of {dtype} {sig:?}: {error}");
                    }
                }
            }
        }
    }
}

#[test]
fn pairs_of_stages_keep_them() {
    for first in texts(2) {
        for second in texts(2) {
            let both =
                staged(DType::U16, &[17, 12], &first).and_then(|dataset| piped(dataset, &second));
            match both {
                Ok(dataset) => check_source(dataset.source().as_ref())
                    .unwrap_or_else(|e| panic!("{first}, then {second}: {e}")),
                Err(error) => assert!(
                    first == "cast complex64"
                        || error.to_string().contains("empty")
                        || error.to_string().contains("no block is full"),
                    "{first}, then {second}: {error}"
                ),
            }
        }
    }
}

#[test]
fn each_stage_has_an_example() {
    for row in STAGES {
        let dataset = frames(DType::U16, &[64, 64]).unwrap();
        let text = format!("{} {}", row.name, row.example);
        let derived = piped(dataset, &text).unwrap();
        assert!(derived.source().stages()[0].starts_with(row.name), "{text}");
        // What a stage says of itself can be read again, and is the same stage.
        let said = derived.source().stages()[0].clone();
        let again = staged(DType::U16, &[64, 64], &said).unwrap();
        assert_eq!(again.source().stages()[0], said);
    }
}

#[test]
fn what_a_stage_says_of_large_numbers_can_be_read_again() {
    for text in [
        "threshold 1e23",
        "count 0 maximum=1.8446744073709552e19",
        "log -1e23",
        "pad 1 value=1e23",
        "shift -1e23,0 fill=1e23",
    ] {
        let derived = staged(DType::F64, &[8, 9], text).unwrap();
        let said = derived.source().stages()[0].clone();
        let again = staged(DType::F64, &[8, 9], &said).unwrap();
        assert_eq!(again.source().stages(), [said], "{text}");
    }
}

#[test]
fn what_does_not_fit_is_named() {
    for (text, words) in [
        ("", "there is no stage ''"),
        ("shrink 2", "there is no stage 'shrink'"),
        ("bin", "its value is missing"),
        ("bin 2 3", "it has one value"),
        ("bin 0", "whole numbers from 1 on"),
        ("bin -2", "whole numbers from 1 on"),
        ("bin 2,2,2", "3 values for frames of 2 axes"),
        ("bin 100", "no bin is full"),
        ("bin 2 mean=maybe", "mean=maybe, expected true or false"),
        ("bin 2 man=true", "there is no 'man'"),
        ("bin 2 mean=true mean=true", "'mean' is given twice"),
        ("crop 1:3", "1 ranges for frames of shape [8, 9]"),
        ("crop 3:3,:", "the range 3:3 is empty"),
        ("crop 0:9,:", "reaches beyond the 8 pixels"),
        ("crop 1:2:3,:", "'1:2:3' is no range"),
        ("crop a,b", "'a' is no range"),
        ("pad -1", "whole numbers from 0 on"),
        ("pad 1 value=0.5", "0.5 is no value of uint16"),
        ("pad 1 value=-1", "-1 is no value of uint16"),
        ("pad 1 value=9007199254740993", "the number next to it is 9007199254740992"),
        ("pad 18446744073709551615", "frames would be too large"),
        ("pad 9223372036854775807,1", "frames would be too large"),
        ("shift 1,2,3", "3 values for frames of 2 axes"),
        ("shift 1,nan", "'nan' is no finite number"),
        ("shift 1 fill=-1", "fill=-1 is no value of uint16"),
        ("count nan", "'nan' is no finite number"),
        ("count 5 maximum=5", "the maximum is not above the threshold"),
        ("rebin 0", "whole numbers from 1 on"),
        ("rebin 8", "no block is full in a scan of shape [7]"),
        ("rebin 2,2", "2 values for a scan of 1 axes"),
        ("rebin 2 mean=no", "mean=no, expected true or false"),
        ("threshold nan", "'nan' is no finite number"),
        ("threshold 9007199254740993", "does not hold 9007199254740993"),
        ("threshold 5 maximum=4", "the maximum is below the minimum"),
        ("cast uint17", "uint17"),
        ("gaussian -1", "0 or more"),
        ("gaussian 1e9", "would reach"),
        ("median 2", "odd"),
        ("median 99999", "at most"),
    ] {
        let error = staged(DType::U16, &[8, 9], text).unwrap_err().to_string();
        assert!(error.contains(words), "{text}: {error}");
    }
    for (dtype, beyond) in [
        (DType::U64, "18446744073709551616"),
        (DType::I64, "9223372036854775808"),
        (DType::I64, "-9223372036854777856"),
    ] {
        let error = staged(dtype, &[8, 9], &format!("pad 1 value={beyond}")).unwrap_err();
        assert!(error.to_string().contains(&format!("is no value of {dtype}")), "{error}");
    }
    for end in ["pad 1 value=-9223372036854775808", "pad 1 value=9223372036854774784"] {
        assert!(staged(DType::I64, &[8, 9], end).is_ok(), "{end}");
    }
    let error = staged(DType::C64, &[8, 9], "cast float32").unwrap_err().to_string();
    assert!(error.contains("complex64") && error.contains("imaginary"), "{error}");
}

#[test]
fn sums_of_64_bits_that_do_not_fit_are_an_error() {
    let layout = MemoryArray {
        shape: vec![2, 2],
        offset_bytes: 0,
        stored: DType::U64.into(),
        sig_dims: 1,
        strides_bytes: None,
    };
    let bytes: Vec<u8> = [1, 2, u64::MAX, 1].iter().flat_map(|n: &u64| n.to_ne_bytes()).collect();
    let source = MemorySource::try_new(Arc::new(bytes), layout).unwrap();
    let dataset = Dataset::try_new(Arc::new(source), None, 0).unwrap();
    let read = |dataset: &Dataset, frame: u64| -> Result<u64, Error> {
        let mut reader = dataset.source().reader()?;
        let sig = framefold_core::SigSlice::try_within(vec![0], vec![1], &[1])?;
        let tile = reader.read(framefold_core::FrameIndices::Run(frame..frame + 1), &sig)?;
        Ok(u64::from_ne_bytes(tile.frames().as_bytes().try_into().unwrap()))
    };
    let rows = dataset.clone();
    let sums = piped(dataset, "bin 2").unwrap();
    assert_eq!(read(&sums, 0).unwrap(), 3);
    let error = read(&sums, 1).unwrap_err().to_string();
    assert!(error.contains("frame 1") && error.contains("does not fit uint64"), "{error}");
    let sums = piped(rows, "rebin 2").unwrap();
    let mut reader = sums.source().reader().unwrap();
    let sig = |at| SigSlice::try_within(vec![at], vec![1], &[2]).unwrap();
    let tile = reader.read(FrameIndices::Run(0..1), &sig(1)).unwrap();
    assert_eq!(tile.frames().as_bytes(), 3_u64.to_ne_bytes());
    let error = reader.read(FrameIndices::Run(0..1), &sig(0)).unwrap_err().to_string();
    assert!(error.contains("'rebin 2'") && error.contains("does not fit uint64"), "{error}");
}

/// Frames of seven positions, moved by as many vectors.
fn moved(sync_offset: i64, sig: &[usize], vectors: &[f64]) -> Result<Dataset> {
    let dataset = frames(DType::U16, sig)?;
    let dataset = Dataset::try_new(dataset.source().clone(), Some(&[7]), sync_offset)?;
    let shifts = Shifts::try_new(&dataset, &[7, sig.len()], vectors.to_vec())?;
    pipe(dataset, |frames| shifts.stage(0.0, frames))
}

#[test]
fn shifts_of_positions_keep_the_laws() {
    let whole = [0., 3., -2., 1., 20., 0., 0., -20., 1., 1., 2., 2., -1., -4.];
    let fractions = whole.map(|by| by * 0.75);
    for vectors in [whole, fractions] {
        for sync_offset in [-2, 0, 3] {
            let dataset = moved(sync_offset, &[9, 14], &vectors).unwrap();
            check_source(dataset.source().as_ref()).unwrap();
        }
    }
}

#[test]
fn shifts_belong_to_positions() {
    let sig = SigSlice::try_within(vec![0], vec![5], &[5]).unwrap();
    let frame = |dataset: &Dataset, frame: u64| {
        let mut reader = dataset.source().reader().unwrap();
        let tile = reader.read(FrameIndices::Run(frame..frame + 1), &sig).unwrap();
        bytemuck::pod_collect_to_vec::<u8, u16>(tile.frames().as_bytes())
    };
    let raw = frames(DType::U16, &[5]).unwrap();
    let dataset = moved(2, &[5], &[0., 1., 2., 3., 4., 5., 6.]).unwrap();
    // Position 1 shows frame 3.
    assert_eq!(frame(&dataset, 3), [&[0], &frame(&raw, 3)[..4]].concat());
    // Frames that no position shows stay as they are.
    assert_eq!(frame(&dataset, 1), frame(&raw, 1));
    let said = dataset.source().stages()[0].clone();
    assert_eq!(said, "shift by position, 0 to 6");
    for (shape, numbers, words) in [
        (&[7][..], vec![0.0; 7], "shape [7], expected [7, 1]"),
        (&[7, 1], vec![f64::NAN; 7], "position [0] is NaN"),
        (&[1], vec![f64::INFINITY], "a shift is inf"),
    ] {
        let error = Shifts::try_new(&raw, shape, numbers).unwrap_err().to_string();
        assert!(error.contains(words), "{error}");
    }
}

#[test]
fn electrons_are_sparse() {
    for sig in [&[9, 14][..], &[23], &[4, 5, 6]] {
        let counted = staged(DType::U16, sig, "count 40000 maximum=60000").unwrap();
        assert_eq!(counted.source().format(), ArrayFormat::Csr);
        assert_eq!(counted.source().info().dtype.dtype, DType::U8);
        // Parts of sparse frames are sparse; what is computed of them is not.
        let crop = vec!["1:-1"; sig.len()].join(",");
        let cropped = piped(counted.clone(), &format!("crop {crop}")).unwrap();
        assert_eq!(cropped.source().format(), ArrayFormat::Csr);
        check_source(cropped.source().as_ref()).unwrap();
        let binned = piped(counted, "bin 2").unwrap();
        assert_eq!(binned.source().format(), ArrayFormat::Dense);
        check_source(binned.source().as_ref()).unwrap();
    }
}

#[test]
fn blocks_of_a_scan_have_data_if_all_their_positions_have() {
    let raw = frames(DType::U16, &[3]).unwrap();
    let scan = |nav: &[usize], sync_offset| {
        let dataset = Dataset::try_new(raw.source().clone(), Some(nav), sync_offset).unwrap();
        piped(dataset, "rebin 2")
    };
    let presence = |dataset: Result<Dataset>| dataset.unwrap().source().info().presence.clone();
    let these = |range| Presence::Ranges(std::iter::once(range).collect());
    assert_eq!(presence(scan(&[7], 0)), Presence::All);
    assert_eq!(presence(scan(&[8], 0)), these(0..3));
    assert_eq!(presence(scan(&[8], -1)), these(1..4));
    assert_eq!(presence(scan(&[8], 2)), these(0..2));
    assert_eq!(presence(scan(&[2, 4], -1)), these(1..2));
    let error = scan(&[2, 2], 4).unwrap_err().to_string();
    assert!(error.contains("no block of [2, 2] positions has data"), "{error}");
    for (nav, sync_offset) in [(&[8][..], -1), (&[2, 4], -1), (&[2, 3], 1), (&[2, 1, 3], 0)] {
        let factors = if nav.len() == 3 { "rebin 2,1,3" } else { "rebin 2" };
        let dataset = Dataset::try_new(raw.source().clone(), Some(nav), sync_offset).unwrap();
        check_source(piped(dataset, factors).unwrap().source().as_ref()).unwrap();
    }
    let left_out = scan(&[7], 0).unwrap().warnings().join("|");
    assert!(left_out.contains("'rebin 2' leaves out the last [1] positions"), "{left_out}");
}

#[test]
fn axes_keep_their_values() {
    use framefold_io::{Calibrate, parse_steps};
    let facts = Calibrate {
        pixel_size: parse_steps("2mrad, 0.5mrad").unwrap(),
        centre: vec![4.0, 4.0],
        ..Calibrate::default()
    };
    let known = facts.apply(frames(DType::U16, &[8, 12]).unwrap()).unwrap();
    let shown = |dataset: &Dataset| {
        let axes = dataset.axes().split_off(1);
        axes.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    };
    for (text, expected) in [
        ("crop 2:8,4:8", "y: 6 × 2 mrad, from -4 mrad; x: 4 × 0.5 mrad"),
        ("bin 2", "y: 4 × 4 mrad, from -7 mrad; x: 6 × 1 mrad, from -1.75 mrad"),
        ("bin 2,1", "y: 4 × 4 mrad, from -7 mrad; x: 12 × 0.5 mrad, from -2 mrad"),
        ("pad 1", "y: 10 × 2 mrad, from -10 mrad; x: 14 × 0.5 mrad, from -2.5 mrad"),
        ("median 3", "y: 8 × 2 mrad, from -8 mrad; x: 12 × 0.5 mrad, from -2 mrad"),
    ] {
        assert_eq!(shown(&piped(known.clone(), text).unwrap()), expected, "{text}");
    }
}

#[test]
fn what_bins_leave_out_is_said() {
    let dataset = staged(DType::U16, &[9, 14], "bin 4").unwrap();
    assert_eq!(dataset.shape().sig(), [2, 3]);
    let warnings = dataset.source().info().warnings.join("|");
    assert!(warnings.contains("the last [1, 2] pixels of the axes"), "{warnings}");
    let fitting = staged(DType::U16, &[8, 12], "bin 4").unwrap();
    assert!(fitting.source().info().warnings.is_empty());
}

/// A stage from outside, whose frames have other axes: each pixel, and whether its value is even.
#[derive(Debug)]
struct Doubled {
    input: FrameKind,
    output: FrameKind,
}

impl fmt::Display for Doubled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("doubled")
    }
}

impl Stage for Doubled {
    fn input(&self) -> &FrameKind {
        &self.input
    }

    fn output(&self) -> &FrameKind {
        &self.output
    }

    fn axes(&self) -> Option<Vec<AxisMap>> {
        None
    }

    fn part(&self, sig: &SigSlice) -> Result<Box<dyn StagePart + '_>> {
        let (origin, shape) = (sig.origin()[..1].to_vec(), sig.shape()[..1].to_vec());
        let read = SigSlice::try_within(origin, shape, &self.input.shape)?;
        Ok(Box::new(DoubledPart { read, first: sig.origin()[1], n: sig.shape()[1] }))
    }
}

struct DoubledPart {
    read: SigSlice,
    first: usize,
    n: usize,
}

impl StagePart for DoubledPart {
    fn read(&self) -> &SigSlice {
        &self.read
    }

    fn apply(&mut self, tile: &DenseTile<'_>, _: &FrameIndices<'_>, out: &mut [u8]) -> Result<()> {
        // Frames may lie apart.
        let TileFrames::U8(view) = tile.frames() else {
            return Err(Error::bug("pixels of another dtype"));
        };
        for (&cell, out) in view.frames().flatten().zip(out.chunks_exact_mut(self.n)) {
            let both = [cell, u8::from(cell % 2 == 0)];
            out.copy_from_slice(&both[self.first..self.first + self.n]);
        }
        Ok(())
    }
}

#[test]
fn a_stage_from_outside_may_have_other_axes() {
    use framefold_io::{Calibrate, parse_steps};
    let facts = Calibrate { pixel_size: parse_steps("2mrad").unwrap(), ..Calibrate::default() };
    let known = facts.apply(frames(DType::U8, &[9]).unwrap()).unwrap();
    let doubled = pipe(known, |input| {
        let output = FrameKind { shape: vec![9, 2], dtype: DType::U8 };
        Ok(Arc::new(Doubled { input, output }))
    });
    let doubled = doubled.unwrap();
    check_source(doubled.source().as_ref()).unwrap();
    // Nothing is known of axes that are others.
    let shown: Vec<String> = doubled.axes()[1..].iter().map(ToString::to_string).collect();
    assert_eq!(shown, ["y: 9", "x: 2"]);
}
