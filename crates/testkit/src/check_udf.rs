//! The laws of a UDF.

use crate::compare::{assert_same, numbers};
use crate::evaluate::{Results, Run, cut, evaluate, evaluate_in, runs_with_data};
use crate::random::Random;
use framefold_core::{
    Dataset, Error, Merger, Method, NativeArray, Partition, Result, Roi, TilingScheme, Udf,
};
use std::sync::Arc;

/// How far results may differ between one tiling and another.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Agreement {
    /// Not at all.
    Exact,
    /// By this much, relative to the largest finite magnitude in the buffer.
    Relative(f64),
}

/// Holds `udf` to the laws of its contract on this data set.
///
/// - Declarations are the same every time they are asked for.
/// - Results have the declared shapes and dtypes.
/// - `results()` may be called after any merge, any number of times, and changes nothing.
/// - A partition can be repeated: a second run gives the same bits.
/// - Merging the partial result of an accumulator that saw no tile changes nothing, if the true
///   one follows.
/// - Rows that a merger says are final are those of its results, and tell earlier results later.
/// - Rows that are said to follow from their frames alone are the same however frames are parted.
/// - A fresh merger that merges what another one says it has merged goes on in its place.
/// - Results do not depend on tiling and partitions, within `agreement`, nor on which of the array
///   formats that it asks for its tiles come in.
///
/// Tilings and partitions are random, from `seed`.
///
/// # Errors
/// `Bug` that names the law, or whatever error the UDF gives.
pub fn check_udf(
    udf: &dyn Udf,
    dataset: &Dataset,
    roi: Option<&Arc<Roi>>,
    agreement: Agreement,
    seed: u64,
) -> Result<()> {
    let mut random = Random::new(seed);
    let runs = runs_with_data(dataset, roi.map(Arc::as_ref));
    let sig = dataset.shape().sig();
    let whole = (Arc::new(TilingScheme::try_new(sig, sig, usize::MAX)?), cut(&runs, &[]));
    let law = |law: &'static str| move |e: Error| Error::bug(format!("{law}: {e}"));
    let whole = evaluate(udf, dataset, roi, &whole.0, &whole.1)?;
    for _ in 0..3 {
        let (tiling, partitions) = random_cut(udf, dataset, &runs, &mut random)?;
        let run = Run::try_new(udf, dataset, roi, &tiling, &partitions)?;
        check_declarations(udf, dataset, &run)?;
        let results = evaluate(udf, dataset, roi, &tiling, &partitions)?;
        let repeated = evaluate(udf, dataset, roi, &tiling, &partitions)?;
        same(&repeated, &results).map_err(law("a second run gives the same"))?;
        check_merges(&run, udf, dataset, &results)?;
        if udf.requirements(dataset.source().info())?.framewise {
            let alone = evaluate(udf, dataset, roi, &tiling, &cut(&runs, &[1]))?;
            same(&alone, &results).map_err(law("rows follow from their frames alone"))?;
        }
        for ((found, expected), decl) in results.arrays.iter().zip(&whole.arrays).zip(&whole.decls)
        {
            agree(found, expected, agreement).map_err(|e| {
                let how = format!("tiling {:?} × {}", tiling.tile_shape(), tiling.depth());
                Error::bug(format!("'{}' does not depend on tiling ({how}): {e}", decl.name))
            })?;
        }
        for format in udf.requirements(dataset.source().info())?.formats {
            let results = evaluate_in(format, udf, dataset, roi, &tiling, &partitions)?;
            for ((found, expected), decl) in
                results.arrays.iter().zip(&whole.arrays).zip(&whole.decls)
            {
                agree(found, expected, agreement).map_err(|e| {
                    let name = format.name();
                    Error::bug(format!(
                        "'{}' does not depend on the format ({name}): {e}",
                        decl.name
                    ))
                })?;
            }
        }
    }
    Ok(())
}

fn check_declarations(udf: &dyn Udf, dataset: &Dataset, run: &Run) -> Result<()> {
    let info = dataset.source().info();
    let requirements = || udf.requirements(info).map(|r| format!("{r:?}"));
    if requirements()? != requirements()? || udf.buffers(&run.meta.job)? != run.decls {
        return Err(Error::bug("declarations are the same every time"));
    }
    let names: Vec<&str> = run.decls.iter().map(|decl| decl.name.as_str()).collect();
    match names.iter().enumerate().find(|(i, name)| names[..*i].contains(name)) {
        Some((_, name)) => Err(Error::bug(format!("the buffer '{name}' is declared twice"))),
        None => Ok(()),
    }
}

/// Merges every partition after a fresh partial of itself, asking for results all the time.
fn check_merges(run: &Run, udf: &dyn Udf, dataset: &Dataset, expected: &Results) -> Result<()> {
    let mut merger = udf.merger(&run.meta)?;
    let mut watched = udf.merger(&run.meta)?;
    let mut moved = Some(udf.merger(&run.meta)?);
    let mut earlier = vec![];
    for partition in run.meta.partitions.iter() {
        let fresh = udf.accumulator(&run.meta, partition)?.finish()?;
        merger.merge(partition, fresh)?;
        merger.merge(partition, run.accumulate(udf, dataset, partition)?.finish()?)?;

        let before = run.results(watched.as_ref())?;
        same(&run.results(watched.as_ref())?, &before)
            .map_err(|e| Error::bug(format!("results() is repeatable: {e}")))?;
        watched.merge(partition, run.accumulate(udf, dataset, partition)?.finish()?)?;
        earlier.push((partition.frames.end, run.results(watched.as_ref())?));
        if let Some(partials) = moved.as_mut().map(|m| m.take_partials()).transpose()?.flatten() {
            let mut next = udf.merger(&run.meta)?;
            for partial in partials {
                next.merge(partition, partial)?;
            }
            next.merge(partition, run.accumulate(udf, dataset, partition)?.finish()?)?;
            moved = Some(next);
        } else {
            moved = None;
        }
    }
    check_final_rows(watched.as_ref(), &earlier)?;
    if let Some(moved) = moved {
        same(&run.results(moved.as_ref())?, expected)
            .map_err(|e| Error::bug(format!("a merger can be moved: {e}")))?;
    }
    same(&run.results(merger.as_ref())?, expected)
        .map_err(|e| Error::bug(format!("a fresh partial changes nothing: {e}")))?;
    same(&run.results(watched.as_ref())?, expected)
        .map_err(|e| Error::bug(format!("results() changes nothing: {e}")))
}

/// `earlier` are the results after each merge, and the number of frames by then.
fn check_final_rows(merger: &dyn Merger, earlier: &[(usize, Results)]) -> Result<()> {
    let Some(rows) = merger.final_rows() else { return Ok(()) };
    for (n_frames, results) in earlier {
        if rows.len() != results.arrays.len() {
            return Err(Error::bug("rows are final in all results, or in none"));
        }
        for ((rows, expected), decl) in rows.iter().zip(&results.arrays).zip(&results.decls) {
            assert_same(&rows.first(*n_frames)?, expected).map_err(|e| {
                let (name, why) = (&decl.name, e.message());
                Error::bug(format!("the first {n_frames} rows of '{name}' are final: {why}"))
            })?;
        }
    }
    Ok(())
}

fn random_cut(
    udf: &dyn Udf,
    dataset: &Dataset,
    runs: &[std::ops::Range<usize>],
    random: &mut Random,
) -> Result<(Arc<TilingScheme>, Vec<Partition>)> {
    let sig = dataset.shape().sig();
    let method = udf.requirements(dataset.source().info())?.method;
    let tile: Vec<usize> = match method {
        Method::Tile => sig.iter().map(|&axis| 1 + random.below(axis)).collect(),
        Method::Frame | Method::Partition => sig.to_vec(),
    };
    let depth = match method {
        Method::Partition => usize::MAX,
        Method::Tile | Method::Frame => 1 + random.below(9),
    };
    let lengths: Vec<usize> = (0..3).map(|_| 1 + random.below(12)).collect();
    Ok((Arc::new(TilingScheme::try_new(sig, &tile, depth)?), cut(runs, &lengths)))
}

fn same(found: &Results, expected: &Results) -> Result<()> {
    let arrays = found.arrays.iter().zip(&expected.arrays).zip(&expected.decls);
    for ((found, expected), decl) in arrays {
        assert_same(found, expected)
            .map_err(|e| Error::bug(format!("'{}': {}", decl.name, e.message())))?;
    }
    Ok(())
}

fn agree(found: &NativeArray, expected: &NativeArray, agreement: Agreement) -> Result<()> {
    let relative = match agreement {
        Agreement::Exact => return assert_same(found, expected),
        Agreement::Relative(relative) => relative,
    };
    let (found, expected) = (numbers(found.values()), numbers(expected.values()));
    let size = expected.iter().map(|z| z.norm()).filter(|n| n.is_finite()).fold(0.0, f64::max);
    let near =
        |a: f64, b: f64| a == b || (a.is_nan() && b.is_nan()) || (a - b).abs() <= relative * size;
    for (cell, (a, b)) in found.iter().zip(&expected).enumerate() {
        if !near(a.re, b.re) || !near(a.im, b.im) {
            return Err(Error::bug(format!("cell {cell} is {a} here and {b} there")));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{MemoryOptions, MemorySource};
    use framefold_core::{
        Accumulator, Array, BufferDecl, BufferKind, DType, FinalRows, JobMeta, Partial,
        Requirements, RunMeta, SourceInfo, Tile,
    };
    use std::sync::atomic::{AtomicI64, Ordering};

    /// Counts frames of the first slice, and breaks one law.
    #[derive(Clone, Copy, PartialEq)]
    enum Count {
        /// Says that results have one row per frame, and adds up frames and partitions.
        NotFramewise,
        Right,
        /// Counts tiles instead.
        DependsOnTiling,
        /// `results()` adds to the count.
        ResultsChange,
        /// A partial result without tiles counts one frame.
        FreshCounts,
        /// The result has one cell too many.
        WrongShape,
        /// Says that its count is final, which goes on changing.
        NeverFinal,
    }

    impl Udf for Count {
        fn name(&self) -> &str {
            "count"
        }
        fn requirements(&self, _source: &SourceInfo) -> Result<Requirements> {
            let framewise = *self == Count::NotFramewise;
            Ok(Requirements { framewise, ..Requirements::native_tiles() })
        }
        fn buffers(&self, _job: &JobMeta) -> Result<Vec<BufferDecl>> {
            Ok(vec![BufferDecl::new("n", BufferKind::Single, DType::I64)])
        }
        fn accumulator(&self, _run: &RunMeta, _p: &Partition) -> Result<Box<dyn Accumulator>> {
            Ok(Box::new(Worker(*self, i64::from(*self == Count::FreshCounts))))
        }
        fn merger(&self, _run: &RunMeta) -> Result<Box<dyn Merger>> {
            let rows = FinalRows::try_new(DType::I64, 1, &[])?;
            Ok(Box::new(Merged(*self, AtomicI64::new(0), rows)))
        }
    }

    struct Worker(Count, i64);

    impl Accumulator for Worker {
        fn process(&mut self, tile: &Tile<'_>) -> Result<()> {
            match self.0 {
                Count::DependsOnTiling => self.1 += 1,
                _ if tile.position.sig.index() == 0 => self.1 += tile.frames().depth() as i64,
                _ => {}
            }
            Ok(())
        }
        fn finish(self: Box<Self>) -> Result<Partial> {
            Ok(Partial::new().with("n", NativeArray::try_new(&[1], vec![self.1])?))
        }
    }

    struct Merged(Count, AtomicI64, FinalRows);

    impl Merger for Merged {
        fn merge(&mut self, _partition: &Partition, mut partial: Partial) -> Result<()> {
            let n = partial.take_native("n")?.as_slice::<i64>()?[0];
            let n = n + i64::from(self.0 == Count::NotFramewise && n > 0);
            let before = self.1.fetch_add(n, Ordering::Relaxed);
            self.2.put(0..1, NativeArray::try_new(&[1], vec![before + n])?)
        }
        fn results(&self) -> Result<Vec<Array>> {
            let step = i64::from(self.0 == Count::ResultsChange);
            let n = self.1.fetch_add(step, Ordering::Relaxed);
            let len = if self.0 == Count::WrongShape { 2 } else { 1 };
            Ok(vec![NativeArray::try_new(&[len], vec![n; len])?.into()])
        }
        fn final_rows(&self) -> Option<Vec<FinalRows>> {
            (self.0 == Count::NeverFinal).then(|| vec![self.2.clone()])
        }
    }

    #[test]
    fn each_broken_law_is_named() {
        let frames = NativeArray::zeros(DType::U8, &[12, 4, 4]);
        let source = MemorySource::try_new(frames, MemoryOptions::default()).unwrap();
        let dataset = Dataset::try_new(Arc::new(source), None, 0).unwrap();
        let check = |udf: Count| check_udf(&udf, &dataset, None, Agreement::Exact, 7);
        check(Count::Right).unwrap();
        for (udf, law) in [
            (Count::DependsOnTiling, "does not depend on tiling"),
            (Count::ResultsChange, "results()"),
            (Count::FreshCounts, "fresh partial"),
            (Count::WrongShape, "declared as int64 [1]"),
            (Count::NotFramewise, "rows follow from their frames"),
            (Count::NeverFinal, "rows of 'n' are final"),
        ] {
            let error = check(udf).unwrap_err();
            assert!(error.message().contains(law), "{error}");
        }
    }
}
