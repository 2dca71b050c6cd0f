//! Sparse rows against the dense frames that they were made of.

use crate::raw_csr::support::{Sparse, integers, read_frames, stored};
use framefold_core::{ArrayFormat, ByteOrder, DType, DataSource, StoredDType};
use framefold_io::{Backend, OpenOptions, open_as};
use framefold_testkit::check_source;
use proptest::prelude::*;

/// How sparse rows are made of dense frames.
#[derive(Clone, Debug)]
struct Recipe {
    dtype: StoredDType,
    pointers: StoredDType,
    columns: StoredDType,
    n_frames: usize,
    sig_shape: Vec<usize>,
    /// Entries in any order.
    shuffled: bool,
    seed: u64,
}

fn any_stored(dtypes: Vec<DType>) -> impl Strategy<Value = StoredDType> {
    let order = prop::sample::select(vec![ByteOrder::Little, ByteOrder::Big]);
    (prop::sample::select(dtypes), order).prop_map(|(dtype, order)| StoredDType {
        dtype,
        order: if dtype.size() == 1 { ByteOrder::NATIVE } else { order },
    })
}

fn any_recipe() -> impl Strategy<Value = Recipe> {
    let integers = || any_stored(DType::all().filter(|dtype| dtype.is_integer()).collect());
    let shapes = prop::collection::vec(1usize..6, 1..4);
    // So few entries that the narrowest row pointers can count them.
    let shapes = (1usize..9, shapes)
        .prop_filter("too many entries", |(n, sig)| n * sig.iter().product::<usize>() <= 120);
    (any_stored(DType::all().collect()), integers(), integers(), shapes, any::<(bool, u64)>())
        .prop_map(|(dtype, pointers, columns, (n_frames, sig_shape), (shuffled, seed))| Recipe {
            dtype,
            pointers,
            columns,
            n_frames,
            sig_shape,
            shuffled,
            seed,
        })
}

struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 >> 8
    }
}

impl Recipe {
    /// Dense frames in native byte order, and the same as sparse rows.
    fn make(&self) -> (Vec<Vec<u8>>, Sparse) {
        let mut random = Random(self.seed | 1);
        let size = self.dtype.dtype.size();
        let n_cells: usize = self.sig_shape.iter().product();
        let mut sparse = Sparse {
            sig_shape: self.sig_shape.clone(),
            pointers: vec![0],
            columns: vec![],
            values: vec![],
            pointer_dtype: self.pointers,
            column_dtype: self.columns,
            value_dtype: self.dtype,
        };
        let mut frames = vec![];
        for _ in 0..self.n_frames {
            let mut frame = vec![0; n_cells * size];
            let mut pixels: Vec<usize> =
                (0..n_cells).filter(|_| random.next().is_multiple_of(3)).collect();
            if self.shuffled {
                for i in 0..pixels.len() {
                    let other = random.next() as usize % pixels.len();
                    pixels.swap(i, other);
                }
            }
            for pixel in pixels {
                let cell = &mut frame[pixel * size..][..size];
                // Entries may be zero, too.
                let byte = |random: &mut Random| (random.next() % 5 * 51) as u8;
                cell.iter_mut().for_each(|place| *place = byte(&mut random));
                sparse.columns.push(pixel as i64);
                sparse.values.extend_from_slice(cell);
                if self.dtype.dtype == DType::Bool {
                    cell[0] = u8::from(cell[0] != 0);
                }
            }
            sparse.pointers.push(sparse.columns.len() as i64);
            frames.push(frame);
        }
        (frames, sparse)
    }
}

proptest! {
    #[test]
    fn equals_the_dense_frames(recipe in any_recipe()) {
        let (frames, sparse) = recipe.make();
        let memory = sparse.in_memory().unwrap();
        check_source(&memory).unwrap();
        prop_assert_eq!(&read_frames(&memory).unwrap(), &frames);

        let dir = tempfile::tempdir().unwrap();
        let path = sparse.write(dir.path());
        for backend in [Backend::Mmap, Backend::Buffered] {
            let options = OpenOptions { backend, ..OpenOptions::default() };
            let dataset = open_as("raw_csr", &path, &options).unwrap();
            let source = dataset.source().as_ref();
            prop_assert_eq!(source.format(), ArrayFormat::Csr);
            prop_assert_eq!(source.info().dtype, sparse.value_dtype);
            check_source(source).unwrap();
            prop_assert_eq!(&read_frames(source).unwrap(), &frames);
        }
    }

    /// Entries of the same pixel, in any order, are added up.
    #[test]
    fn entries_of_one_pixel_are_added_up(
        rows in prop::collection::vec(prop::collection::vec((0usize..12, -9i16..9), 0..30), 1..6),
    ) {
        let mut sparse = Sparse {
            sig_shape: vec![3, 4],
            pointers: vec![0],
            columns: vec![],
            values: vec![],
            value_dtype: stored("i2"),
            ..Sparse::small()
        };
        let mut frames = vec![];
        for row in &rows {
            let mut frame = vec![0; 12];
            for &(pixel, value) in row {
                frame[pixel] += i64::from(value);
                sparse.columns.push(pixel as i64);
                sparse.values.extend(value.to_ne_bytes());
            }
            sparse.pointers.push(sparse.columns.len() as i64);
            frames.push(integers(&frame, stored("i2")));
        }
        let source = sparse.in_memory().unwrap();
        check_source(&source).unwrap();
        prop_assert_eq!(read_frames(&source).unwrap(), frames);
    }
}

#[test]
fn nan_and_infinity_are_values_like_any_other() {
    let values = [f32::NAN, f32::NEG_INFINITY, -0.0];
    let sparse = Sparse {
        value_dtype: stored("<f4"),
        values: values.iter().flat_map(|value| value.to_ne_bytes()).collect(),
        ..Sparse::small()
    };
    let (_dir, dataset) = sparse.open().unwrap();
    check_source(dataset.source().as_ref()).unwrap();
    let frames = read_frames(dataset.source().as_ref()).unwrap();
    assert_eq!(frames[0][4..8], f32::NAN.to_ne_bytes());
    assert_eq!(frames[0][16..20], f32::NEG_INFINITY.to_ne_bytes());
    assert_eq!(frames[2][20..24], (-0.0f32).to_ne_bytes());
}

#[test]
fn frames_without_any_entry() {
    let sparse =
        Sparse { pointers: vec![0; 5], columns: vec![], values: vec![], ..Sparse::small() };
    let (_dir, dataset) = sparse.open().unwrap();
    check_source(dataset.source().as_ref()).unwrap();
    assert_eq!(read_frames(dataset.source().as_ref()).unwrap(), vec![vec![0; 12]; 4]);
    assert_eq!(dataset.source().stored_bytes(), Some(5 * 8));
}

#[test]
fn the_planner_learns_what_reading_costs() {
    let source = Sparse::small().in_memory().unwrap();
    assert_eq!(source.stored_bytes(), Some(4 * 8 + 3 * (4 + 2)));
    assert_eq!(source.info().base_shape, [2, 3]);
    assert_eq!(source.info().n_frames, 3);
}

#[test]
fn entries_that_no_frame_claims_are_left_out_with_a_warning() {
    let sparse = Sparse { pointers: vec![1, 2, 2], ..Sparse::small() };
    let (_dir, dataset) = sparse.open().unwrap();
    let warning = &dataset.source().info().warnings[0];
    assert!(warning.contains("2 of 3 entries") && warning.contains("from 1 to 2"), "{warning}");
    check_source(dataset.source().as_ref()).unwrap();
    let frames = crate::raw_csr::support::read_u16(dataset.source().as_ref()).unwrap();
    assert_eq!(frames, [[0, 0, 0, 0, 20, 0], [0; 6]]);
}
