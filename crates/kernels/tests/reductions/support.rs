//! What the tests of all reductions share.

use framefold_core::{Dataset, Element, Error, NativeArray, Result, Shape, TilingScheme, Udf};
use framefold_kernels::{Parameters, Reduction};
use framefold_testkit::oracle::Frames;
use framefold_testkit::{
    Agreement, Case, Expected, MemoryOptions, MemorySource, Results, Values, assert_same,
    check_udf, cut, evaluate, runs_with_data,
};
use std::sync::Arc;

/// Runs `udf` on the case, compares with the oracle and checks the laws of the contract.
///
/// Integer results must not depend on tiling and partitions in a single bit, unless `exact` says
/// that they may.
pub fn check(
    udf: &dyn Udf,
    case: &Case,
    whole_frames: bool,
    exact: bool,
    oracle: impl Fn(&Frames) -> Result<Vec<Expected>>,
) -> Result<()> {
    let (dataset, roi) = (case.dataset()?, case.roi()?);
    let tiling = if whole_frames { case.frame_tiling()? } else { case.tiling()? };
    let results = evaluate(udf, &dataset, roi.as_ref(), &tiling, &case.partitions()?)?;
    let frames = Frames::read(&dataset, roi.as_deref())?;
    let expected = oracle(&frames)?;
    assert_eq!(results.arrays.len(), expected.len());
    for ((decl, found), expected) in results.decls.iter().zip(&results.arrays).zip(&expected) {
        expected
            .check(found)
            .map_err(|e| framefold_core::Error::bug(format!("'{}': {}", decl.name, e.message())))?;
    }
    // Also where sums are rounded: partitions may be merged in pieces as frames arrive.
    if udf.requirements(dataset.source().info())?.framewise {
        let alone = cut(&runs_with_data(&dataset, roi.as_deref()), &[1]);
        let alone = evaluate(udf, &dataset, roi.as_ref(), &tiling, &alone)?;
        for (found, expected) in alone.arrays.iter().zip(&results.arrays) {
            assert_same(found, expected)?;
        }
    }
    let agreement = match exact && frames.is_integer() {
        true => Agreement::Exact,
        false => Agreement::Relative(1e-5),
    };
    // Over its whole range, a float sum can cancel to nothing but its rounding errors.
    if frames.is_integer() || case.values == Values::Counts {
        check_udf(udf, &dataset, roi.as_ref(), agreement, case.seed)?;
    }
    Ok(())
}

/// A data set of these cells.
pub fn dataset<T: Element>(nav: &[usize], sig: &[usize], cells: Vec<T>) -> Dataset {
    let shape = Shape::try_new(nav, sig).unwrap();
    let frames = NativeArray::try_new(&[&[shape.n_frames()], sig].concat(), cells).unwrap();
    let source = MemorySource::try_new(frames, MemoryOptions::default()).unwrap();
    Dataset::try_new(Arc::new(source), Some(nav), 0).unwrap()
}

/// Runs with small tiles and partitions of two frames.
pub fn run(udf: &dyn Udf, dataset: &Dataset) -> Result<Results> {
    let sig = dataset.shape().sig();
    let tiling = Arc::new(TilingScheme::try_new(sig, &vec![2; sig.len()], 3)?);
    evaluate(udf, dataset, None, &tiling, &cut(&runs_with_data(dataset, None), &[2]))
}

/// As [`run`], with whole frames.
pub fn run_frames(udf: &dyn Udf, dataset: &Dataset) -> Result<Results> {
    let sig = dataset.shape().sig();
    let tiling = Arc::new(TilingScheme::try_new(sig, sig, 3)?);
    evaluate(udf, dataset, None, &tiling, &cut(&runs_with_data(dataset, None), &[2]))
}

/// Parameters from text.
pub fn parameters(row: &'static Reduction, given: &[(&str, &str)]) -> Result<Parameters> {
    let mut parameters = Parameters::new(row);
    for (name, text) in given {
        parameters.set(name, row.parameter(name)?.kind.parse(text).map_err(Error::invalid)?)?;
    }
    Ok(parameters)
}
