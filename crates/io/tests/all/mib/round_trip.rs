//! Synthetic files of every mode come back as they were written, whatever part is read.

use super::read::{alone, open, read, read_all};
use super::writer::Mode;
use framefold_core::{DType, FrameIndices, TilingScheme};
use framefold_io::{Backend, OpenOptions};
use proptest::prelude::*;

const BACKENDS: [Backend; 2] = [Backend::Mmap, Backend::Buffered];

fn any_mode() -> impl Strategy<Value = Mode> {
    let plain = (prop::sample::select(vec!["U08", "U16", "U32"]), 1usize..9, 1usize..20)
        .prop_map(|(kind, rows, columns)| Mode::plain(kind, [rows, columns]));
    let word = |depth| match depth {
        1 => 64,
        6 => 8,
        _ => 4,
    };
    let raw = (prop::sample::select(vec![1, 6, 12, 24]), 1usize..6, 1usize..4)
        .prop_map(move |(depth, rows, words)| Mode::raw(depth, [rows, words * word(depth)]));
    let quad = (prop::sample::select(vec![1, 6, 12]), 1usize..4, 1usize..3, any::<bool>())
        .prop_map(move |(depth, rows, words, gap)| Mode {
            layout: if gap { "2x2G" } else { "2x2" },
            ..Mode::quad(depth, [2 * rows, 2 * words * word(depth)])
        });
    prop_oneof![plain, raw, quad]
}

/// The frame with two empty rows and columns in the middle.
fn with_gap(frame: &[u32], [rows, columns]: [usize; 2]) -> Vec<u32> {
    let mut wide = Vec::new();
    for (y, row) in frame.chunks(columns).enumerate() {
        if y == rows / 2 {
            wide.extend(vec![0; 2 * (columns + 2)]);
        }
        wide.extend(&row[..columns / 2]);
        wide.extend([0, 0]);
        wide.extend(&row[columns / 2..]);
    }
    wide
}

proptest! {
    #[test]
    fn every_mode_slice_and_list_of_frames(
        mode in any_mode(),
        insert in any::<bool>(),
        n_frames in 1usize..5,
        tile in (1usize..10, 1usize..200),
        wanted in prop::collection::btree_set(0u64..5, 1..5),
        seed in any::<u32>(),
        surplus in 0usize..100,
    ) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("data.mib");
        let frames = mode.noise(n_frames, seed);
        let mut bytes = mode.file(1, &frames);
        bytes.extend(vec![b'x'; surplus]);
        std::fs::write(&path, bytes).unwrap();

        let gap = insert && mode.layout == "2x2G";
        let [rows, columns] = mode.shape;
        let shape = if gap { [rows + 2, columns + 2] } else { mode.shape };
        let expected: Vec<Vec<u32>> = frames
            .iter()
            .map(|frame| if gap { with_gap(frame, mode.shape) } else { frame.clone() })
            .collect();
        let wanted: Vec<u64> =
            wanted.into_iter().filter(|&frame| frame < n_frames as u64).collect();
        let scheme = TilingScheme::try_new(&shape, &[tile.0, tile.1], 2).unwrap();
        for backend in BACKENDS {
            let options = OpenOptions { backend, ..OpenOptions::default() }
                .with("quad_gap", if insert { "insert" } else { "omit" });
            let dataset = open(&path, &options).unwrap();
            let info = dataset.source().info();
            prop_assert_eq!(info.n_frames, n_frames as u64);
            prop_assert_eq!(&info.sig_shape, &shape);
            let cut = info.warnings.iter().any(|w| w.contains(&format!("the last {surplus} bytes")));
            prop_assert_eq!(cut, surplus > 0, "{:?}", info.warnings);
            prop_assert_eq!(read_all(&dataset), expected.concat());
            for sig in scheme.slices() {
                let cells = |frame: u64| {
                    let frame = &expected[frame as usize];
                    sig.runs(&shape).flat_map(|run| frame[run].to_vec()).collect::<Vec<_>>()
                };
                if !wanted.is_empty() {
                    let read = read(&dataset, FrameIndices::List(&wanted), sig);
                    prop_assert_eq!(read, wanted.iter().flat_map(|&f| cells(f)).collect::<Vec<_>>());
                }
                let run = 0..n_frames as u64;
                let read = read(&dataset, FrameIndices::Run(run.clone()), sig);
                prop_assert_eq!(read, run.flat_map(cells).collect::<Vec<_>>());
            }
        }
    }
}

/// Frames that are long enough, and as many, for several to be decoded side by side.
#[test]
fn longer_frames() {
    let dir = tempfile::tempdir().unwrap();
    for (depth, shape) in [(1, [530, 64]), (6, [67, 72]), (12, [61, 44]), (24, [40, 52])] {
        let mode = Mode::raw(depth, shape);
        let path = dir.path().join("data.mib");
        let frames = mode.noise(19, 5);
        std::fs::write(&path, mode.file(1, &frames)).unwrap();
        for backend in BACKENDS {
            let dataset = open(&path, &OpenOptions { backend, ..alone() }).unwrap();
            assert_eq!(read_all(&dataset), frames.concat(), "{depth} bits, {backend:?}");
            let scheme = TilingScheme::try_new(&shape, &[shape[0] - 2, shape[1]], 2).unwrap();
            let list = [0, 2, 3, 4, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18];
            for sig in scheme.slices() {
                let expected: Vec<u32> = list
                    .iter()
                    .flat_map(|&frame| frames[frame as usize][sig.linear().unwrap()].to_vec())
                    .collect();
                let found = read(&dataset, FrameIndices::List(&list), sig);
                assert_eq!(found, expected, "{depth} bits, {backend:?}");
            }
        }
    }
}

#[test]
fn the_dtype_follows_the_depth() {
    let dir = tempfile::tempdir().unwrap();
    let modes = [
        (Mode::plain("U08", [4, 8]), DType::U8),
        (Mode::plain("U16", [4, 8]), DType::U16),
        (Mode::plain("U32", [4, 8]), DType::U32),
        (Mode::raw(1, [4, 64]), DType::U8),
        (Mode::raw(6, [4, 64]), DType::U8),
        (Mode::raw(12, [4, 64]), DType::U16),
        (Mode::raw(24, [4, 64]), DType::U32),
        (Mode::quad(12, [4, 64]), DType::U16),
    ];
    for (mode, dtype) in modes {
        let path = dir.path().join("data.mib");
        std::fs::write(&path, mode.file(1, &mode.noise(1, 7))).unwrap();
        let dataset = open(&path, &alone()).unwrap();
        assert_eq!(dataset.source().info().dtype.dtype, dtype, "{mode:?}");
    }
}

#[test]
fn eight_bit_frames_are_lent_where_they_lie() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data.mib");
    let mode = Mode::plain("U08", [4, 8]);
    std::fs::write(&path, mode.file(1, &mode.noise(3, 7))).unwrap();
    let dataset = open(&path, &alone()).unwrap();
    assert!(dataset.source().info().lends);
    let scheme = TilingScheme::try_new(&[4, 8], &[4, 8], 3).unwrap();
    let mut reader = dataset.source().reader().unwrap();
    let tile = reader.read(FrameIndices::Run(0..3), &scheme.slices()[0]).unwrap();
    assert_eq!(tile.frames().stride(), 384 + 32, "frames with their headers in between");
}

#[test]
fn a_frame_may_be_given_another_shape_of_the_same_size() {
    let dir = tempfile::tempdir().unwrap();
    for mode in [Mode::plain("U16", [4, 64]), Mode::quad(12, [4, 64]), Mode::raw(24, [4, 64])] {
        let path = dir.path().join("data.mib");
        let frames = mode.noise(2, 3);
        std::fs::write(&path, mode.file(1, &frames)).unwrap();
        let with_shape =
            |shape: &[usize]| OpenOptions { sig_shape: Some(shape.to_vec()), ..alone() };
        let dataset = open(&path, &with_shape(&[2, 8, 16])).unwrap();
        assert_eq!(dataset.shape().sig(), [2, 8, 16]);
        assert_eq!(read_all(&dataset), frames.concat());
        let error = open(&path, &with_shape(&[4, 63])).unwrap_err().to_string();
        assert!(error.contains("sig_shape [4, 63]") && error.contains("4 x 64"), "{error}");
    }
}

#[test]
fn a_gap_that_cannot_be_inserted_is_mentioned() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("data.mib");
    let insert = alone().with("quad_gap", "insert");
    let warned = |mode: &Mode| {
        std::fs::write(&path, mode.file(1, &mode.noise(1, 3))).unwrap();
        let dataset = open(&path, &insert).unwrap();
        dataset.source().info().warnings.iter().any(|w| w.contains("quad_gap changes nothing"))
    };
    assert!(warned(&Mode::plain("U08", [4, 8])));
    assert!(warned(&Mode::quad(6, [4, 16])));
    assert!(!warned(&Mode { layout: "2x2G", ..Mode::quad(6, [4, 16]) }));
}
