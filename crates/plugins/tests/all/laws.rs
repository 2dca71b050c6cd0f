//! The laws of UDFs, and results against those computed plainly.

use crate::sums::{F64, Sums, checked};
use framefold_abi::raw;
use framefold_core::{ArrayFormat, DType};
use framefold_plugins::PluginUdf;
use framefold_testkit::oracle::Frames;
use framefold_testkit::{Agreement, Case, Values, cases, check_udf, evaluate_in};
use proptest::prelude::*;
use std::sync::atomic::Ordering::Relaxed;

/// Small integers, whose sums are exact in whatever order.
fn small(case: Case) -> Case {
    let dtype = [DType::U16, DType::I8, DType::U8][(case.seed % 3) as usize];
    Case { dtype, values: Values::Full, ..case }
}

/// Sums of frames alone, in the dtype of the data set; rows are copied, and there is one task for all.
fn rows_only() -> Sums {
    let buffers = vec![
        ("hidden", raw::NAV, 0, vec![3], raw::PRIVATE),
        ("of_frames", raw::NAV, F64, vec![], raw::PUBLIC),
    ];
    Sums { buffers, ..Sums::default() }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn keeps_the_laws_of_udfs(case in cases().prop_map(small), contiguous in 0..2u64) {
        let (dataset, roi) = (case.dataset().unwrap(), case.roi().unwrap());
        let mut sums = Sums::default();
        sums.requirements.contiguous = contiguous;
        let (table, sums) = sums.table(|_| ());
        let udf = PluginUdf::new(checked(&table).unwrap().into());
        check_udf(&udf, &dataset, roi.as_ref(), Agreement::Exact, case.seed).unwrap();
        prop_assert_eq!(sums.begun.load(Relaxed), sums.dropped.load(Relaxed));
    }

    #[test]
    fn equals_its_definition(case in cases().prop_map(small), contiguous in 0..2u64) {
        let (dataset, roi) = (case.dataset().unwrap(), case.roi().unwrap());
        let mut sums = Sums::default();
        sums.requirements.contiguous = contiguous;
        let udf = sums.udf(|_| ());
        let frames = Frames::read(&dataset, roi.as_deref()).unwrap();
        let mut of_frames = vec![f64::NAN; frames.n_selected];
        let mut of_pixels = vec![0.0; frames.frame_len() * 2];
        for (index, frame) in &frames.frames {
            of_frames[*index] = frame.values.iter().map(|z| z.re).sum();
            for (at, value) in frame.values.iter().enumerate() {
                of_pixels[at * 2 + index % 2] += value.re;
            }
        }
        let total: f64 = of_pixels.iter().sum();
        let (tiling, partitions) = (case.tiling().unwrap(), case.partitions().unwrap());
        for format in [ArrayFormat::Dense, ArrayFormat::Csr] {
            let run = || evaluate_in(format, &udf, &dataset, roi.as_ref(), &tiling, &partitions);
            let results = run().unwrap();
            let found = |name| results.get(name).unwrap().as_slice::<f64>().unwrap();
            for (found, expected) in found("of_frames").iter().zip(&of_frames) {
                prop_assert!(found == expected || (found.is_nan() && expected.is_nan()));
            }
            prop_assert_eq!(found("of_pixels"), &of_pixels[..]);
            prop_assert_eq!(found("mean"), [total / frames.n_selected as f64]);
        }
    }
}

mod rows {
    use super::*;
    use framefold_abi::raw::{Host, Tile, UdfV1, View};
    use std::ffi::c_void;

    /// The sum of each frame, and nothing else.
    unsafe extern "C" fn process(
        this: *mut c_void,
        tile: *const Tile,
        views: *const View,
        n: usize,
        _host: *const Host,
    ) -> i32 {
        // SAFETY: the host's promises.
        unsafe {
            let tile = &*tile;
            assert_eq!((n, this.is_null()), (2, false));
            let row = (*views.add(1)).data.cast::<f64>();
            let len: usize =
                std::slice::from_raw_parts(tile.sig_shape, tile.n_sig).iter().product();
            for i in 0..tile.depth {
                let frame = tile.data.byte_add(i * tile.frame_stride).cast::<f64>();
                *row.add(i) += std::slice::from_raw_parts(frame, len).iter().sum::<f64>();
            }
        }
        raw::OK
    }

    /// With nothing that need not be there.
    fn least(table: &mut UdfV1) {
        table.process = Some(process);
        (table.begin, table.drop_task, table.process_csr) = (None, None, None);
        (table.end, table.merge, table.results) = (None, None, None);
    }

    fn udf() -> PluginUdf {
        let mut sums = rows_only();
        sums.requirements.formats = raw::DENSE;
        sums.udf(least)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(24))]

        #[test]
        fn need_no_merge(case in cases().prop_map(small)) {
            let (dataset, roi) = (case.dataset().unwrap(), case.roi().unwrap());
            check_udf(&udf(), &dataset, roi.as_ref(), Agreement::Exact, case.seed).unwrap();
            let frames = Frames::read(&dataset, roi.as_deref()).unwrap();
            let (tiling, partitions) = (case.tiling().unwrap(), case.partitions().unwrap());
            let run = evaluate_in(
                ArrayFormat::Dense, &udf(), &dataset, roi.as_ref(), &tiling, &partitions
            );
            let results = run.unwrap();
            prop_assert_eq!(results.arrays.len(), 1);
            let found = results.get("of_frames").unwrap().as_slice::<f64>().unwrap();
            for (index, frame) in &frames.frames {
                prop_assert_eq!(found[*index], frame.values.iter().map(|z| z.re).sum::<f64>());
            }
        }
    }
}
