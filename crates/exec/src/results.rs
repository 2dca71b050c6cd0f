//! Merged results: complete or so far.

mod joined;
mod rows;

use rows::public;
pub use rows::{LastingResults, MergedRows};

use crate::call::call_of;
use crate::{PartialResult, Plan};
use framefold_core::{
    Array, BufferDecl, Error, ErrorKind, FinalRows, Merger, NativeArray, Partial, Partition,
    Result, Roi, Shape, TypedVec, memory,
};
use std::ops::Range;
use std::sync::Arc;

/// The merged results of a run; folds partial results in, in partition order.
pub struct Results {
    plan: Arc<Plan>,
    /// The UDFs whose results these are: all of the plan, or one.
    udfs: Range<usize>,
    /// For each UDF, one per band.
    mergers: Vec<Vec<Box<dyn Merger>>>,
    /// Whole partitions.
    merged: usize,
    /// How far the next one is merged, if it comes in pieces: the first frame that is not.
    piece_end: Option<usize>,
    /// What the latest merge has made final.
    latest: Range<usize>,
    /// The number of frames that are merged or never come.
    n_frames: usize,
    /// The partition that some UDFs have taken in and others have not, as one of them failed, and how.
    torn: Option<(usize, ErrorKind)>,
    /// Frames that were not processed, as some of them never came.
    absent: Vec<Range<usize>>,
}

/// What was merged for each band of a frame; see [`Merger::take_partials`].
pub type MergedState = Vec<Vec<Partial>>;

impl Results {
    /// Empty results for a plan.
    ///
    /// # Errors
    /// Whatever the UDFs report when they set up their buffers.
    pub fn try_new(plan: Arc<Plan>) -> Result<Self> {
        let udfs = 0..plan.udfs.len();
        Results::of_udfs(plan, udfs)
    }

    /// The same without the first partitions, whose rows a sink has already.
    ///
    /// # Errors
    /// `Bug` if there are not that many; as [`Results::try_new`].
    pub(crate) fn from_partition(plan: Arc<Plan>, merged: usize) -> Result<Self> {
        let mut results = Results::try_new(plan)?;
        results.skip(merged)?;
        Ok(results)
    }

    /// Results of one UDF of the plan alone, which go on from `state` after `merged` partitions.
    /// Partial results that are merged into it hold only what belongs to this UDF.
    ///
    /// # Errors
    /// `Bug` if there is no such UDF, there are not that many partitions, or the state is not one of
    /// this plan; whatever the UDF reports.
    pub fn of_udf(plan: Arc<Plan>, udf: usize, merged: usize, state: MergedState) -> Result<Self> {
        if udf >= plan.udfs.len() {
            return Err(Error::bug(format!("there is no UDF {udf} in the plan")));
        }
        let mut results = Results::of_udfs(plan, udf..udf + 1)?;
        let (n_states, n_bands) = (state.len(), results.plan.bands.len());
        if n_states != n_bands && (merged, n_states) != (0, 0) {
            return Err(Error::bug(format!(
                "what was merged is of {n_states} bands, and the plan has {n_bands}"
            )));
        }
        let before = Partition { index: 0, frames: 0..0 };
        let name = &results.plan.udfs[udf].name;
        for (merger, partials) in results.mergers.iter_mut().flatten().zip(state) {
            for partial in partials {
                call_of(name, || merger.merge(&before, partial))?;
            }
        }
        results.skip(merged)?;
        Ok(results)
    }

    /// Goes on after so many partitions.
    fn skip(&mut self, merged: usize) -> Result<()> {
        let n_partitions = self.plan.n_partitions();
        if merged > n_partitions {
            let message = format!("{merged} partitions were merged before, of {n_partitions}");
            return Err(Error::bug(message));
        }
        self.merged = merged;
        self.n_frames = (0..merged).map(|index| self.plan.completed_by(index).len()).sum();
        Ok(())
    }

    fn of_udfs(plan: Arc<Plan>, udfs: Range<usize>) -> Result<Self> {
        let mut mergers = Vec::with_capacity(udfs.len());
        for planned in &plan.udfs[udfs.clone()] {
            let of_bands = planned.metas.iter();
            let of_bands = of_bands.map(|meta| call_of(&planned.name, || planned.udf.merger(meta)));
            mergers.push(of_bands.collect::<Result<_>>()?);
        }
        Ok(Results {
            plan,
            udfs,
            mergers,
            merged: 0,
            piece_end: None,
            latest: 0..0,
            n_frames: 0,
            torn: None,
            absent: Vec::new(),
        })
    }

    /// What was merged so far, for [`Results::of_udf`] to go on from; `None` if the UDF has it in
    /// another form.
    ///
    /// # Errors
    /// Whatever the UDF reports.
    pub fn into_state(mut self) -> Result<Option<MergedState>> {
        self.check()?;
        let mergers = self.mergers.iter_mut().zip(&self.plan.udfs[self.udfs.clone()]);
        let mergers =
            mergers.flat_map(|(bands, planned)| bands.iter_mut().map(move |m| (m, planned)));
        mergers.map(|(merger, of)| call_of(&of.name, || merger.take_partials())).collect()
    }

    /// The plan these are the results of.
    pub fn plan(&self) -> &Arc<Plan> {
        &self.plan
    }

    /// The number of partitions merged so far.
    pub fn n_merged(&self) -> usize {
        self.merged
    }

    /// The number of frames that are merged, or will never come.
    pub fn n_frames(&self) -> usize {
        self.n_frames
    }

    /// Folds the next partition in, or the next frames of it: see [`PartialResult::frames`].
    ///
    /// # Errors
    /// `Bug` if these are not the next ones; whatever a UDF's merge reports. Results cannot be had any
    /// more then: some UDFs have taken the partition in, and others have not.
    pub fn merge(&mut self, partial: PartialResult) -> Result<()> {
        self.check()?;
        if partial.partition != self.merged {
            return Err(Error::bug(format!(
                "partition {} was to be merged after {} others",
                partial.partition, self.merged
            )));
        }
        let (partition, band) = self.plan.partition(partial.partition)?;
        let (index, absent) = (partial.partition, partial.absent);
        let left = self.piece_end.unwrap_or(partition.frames.start)..partition.frames.end;
        let frames = partial.frames.unwrap_or(left.clone());
        let is_last = frames.end == left.end;
        let is_next = frames.start == left.start && !frames.is_empty() && frames.end <= left.end;
        if !is_next || !(is_last || self.plan.is_framewise()) {
            return Err(Error::bug(format!(
                "frames {frames:?} of partition {index} were to be merged, of which {left:?} are left"
            )));
        }
        // Of frames that never came, nothing was processed.
        let n_udfs = if absent { 0 } else { self.udfs.len() };
        let n_partials = partial.partials.len();
        if n_partials != n_udfs {
            return Err(Error::bug(format!(
                "partition {index} has {n_partials} partial results for {n_udfs} functions"
            )));
        }
        let (piece_end, piece) = (frames.end, Partition { index: partition.index, frames });
        self.torn = Some((index, ErrorKind::Bug));
        let planned = &self.plan.udfs[self.udfs.clone()];
        let udfs = self.mergers.iter_mut().zip(partial.partials).zip(planned);
        for ((mergers, merged), planned) in udfs {
            call_of(&planned.name, || mergers[band].merge(&piece, merged)).map_err(|error| {
                self.torn = Some((index, error.kind()));
                error.with_partition(index)
            })?;
        }
        self.torn = None;
        self.latest = if self.plan.completes(index) { piece.frames } else { 0..0 };
        self.n_frames += self.latest.len();
        if absent {
            self.absent.push(std::mem::replace(&mut self.latest, 0..0));
        }
        self.piece_end = (!is_last).then_some(piece_end);
        self.merged += usize::from(is_last);
        Ok(())
    }

    /// An error if the results are not those of whole partitions, or are not here any more.
    fn check(&self) -> Result<()> {
        if self.mergers.len() < self.udfs.len() {
            return Err(Error::invalid("the results of this run were taken out of it")
                .with_hint("keep what was returned, or run it again"));
        }
        match self.torn {
            None => Ok(()),
            Some((partition, ErrorKind::Cancelled)) => {
                let message = format!(
                    "Ctrl-C came while partition {partition} was merged, and some results have it \
                     and others do not"
                );
                let hint =
                    "run it again; the first Ctrl-C waits for the merge, and keeps the results";
                Err(Error::new(ErrorKind::Cancelled, message).with_hint(hint))
            }
            Some((partition, _)) => {
                let message =
                    format!("merging partition {partition} failed, and with it the results");
                let hint = "run it again; results of earlier steps are right";
                Err(Error::invalid(message).with_hint(hint))
            }
        }
    }

    /// One truth value per selected frame: whether it came, and has been merged.
    ///
    /// # Errors
    /// `Limit` if there is no memory for them.
    pub fn valid(&self) -> Result<Vec<bool>> {
        valid(&self.plan, self.merged, self.piece_end, &self.absent)
    }

    /// The results so far; changes nothing.
    ///
    /// # Errors
    /// `UserCode` from a UDF's own post-processing; `InvalidArgument` if a merge failed, `Cancelled` if it
    /// was stopped.
    pub fn snapshot(&self) -> Result<RunResults> {
        self.check()?;
        let arrays = self.udfs.clone().zip(&self.mergers);
        let arrays = arrays.map(|(udf, mergers)| self.arrays(udf, mergers));
        self.named(arrays.collect::<Result<_>>()?)
    }

    /// The same, last of all: rows that lie as they are given are moved, not copied. Nothing can be
    /// merged or looked at any more then.
    ///
    /// # Errors
    /// As [`Results::snapshot`]; after an error of a UDF, all results are still there.
    pub fn take(&mut self) -> Result<RunResults> {
        self.check()?;
        let arrays = self.udfs.clone().zip(&self.mergers);
        let arrays = arrays.map(|(udf, mergers)| match self.rows(udf, mergers)? {
            Some(rows) => Ok((rows, Vec::new())),
            None => Ok((Vec::new(), self.arrays(udf, mergers)?)),
        });
        let arrays: Vec<(Vec<FinalRows>, Vec<Array>)> = arrays.collect::<Result<_>>()?;
        // They show the same rows, and would have them copied.
        self.mergers.clear();
        let arrays = arrays.into_iter().map(|(rows, arrays)| {
            let moved = rows.into_iter().map(|rows| rows.into_array().map(Array::from));
            moved.chain(arrays.into_iter().map(Ok)).collect()
        });
        self.named(arrays.collect::<Result<_>>()?)
    }

    /// The arrays of a UDF, one for each public buffer.
    fn arrays(&self, udf: usize, mergers: &[Box<dyn Merger>]) -> Result<Vec<Array>> {
        let decls: Vec<_> = public(&self.plan, udf).cloned().collect();
        let shape = self.plan.dataset.shape();
        let planned = &self.plan.udfs[udf];
        let arrays = call_of(&planned.name, || joined::results(mergers, &decls, shape))?;
        decls.iter().zip(&arrays).try_for_each(|(decl, array)| match array {
            Array::Native(array) => self.check_declared(udf, decl, array),
            Array::Foreign(_) => Ok(()),
        })?;
        Ok(arrays)
    }

    /// That a result of a UDF has the dtype and the shape that were declared.
    fn check_declared(&self, udf: usize, decl: &BufferDecl, array: &NativeArray) -> Result<()> {
        let planned = &self.plan.udfs[udf];
        let is_kept = !planned.to_sink.contains(&decl.name);
        let n_frames = if is_kept { self.plan.n_selected() } else { 0 };
        let shape = decl.flat_shape(self.plan.dataset.shape(), n_frames);
        if decl.dtype == array.dtype().into() && array.shape() == shape {
            return Ok(());
        }
        Err(Error::bug(format!(
            "the result '{}' is {} {:?}, declared as {} {shape:?}",
            decl.name,
            array.dtype(),
            array.shape(),
            decl.dtype
        ))
        .with_udf(&planned.name))
    }

    /// The rows of a UDF, one for each public buffer; none, if its results are not such rows.
    ///
    /// # Errors
    /// `Bug` if they are others than were declared.
    fn rows(&self, udf: usize, mergers: &[Box<dyn Merger>]) -> Result<Option<Vec<FinalRows>>> {
        let [merger] = mergers else { return Ok(None) };
        let planned = &self.plan.udfs[udf];
        let rows = call_of(&planned.name, || Ok(merger.final_rows()))?;
        let rows = rows.filter(|rows| rows.len() == public(&self.plan, udf).count());
        for (rows, decl) in rows.iter().flatten().zip(public(&self.plan, udf)) {
            // Of those that go to a sink, there are the latest alone.
            if !rows.pass() {
                rows.look(|all| self.check_declared(udf, decl, all))?;
            }
        }
        Ok(rows)
    }

    /// The arrays of each UDF with their names.
    fn named(&self, arrays: Vec<Vec<Array>>) -> Result<RunResults> {
        let mut udfs = Vec::with_capacity(arrays.len());
        for (udf, arrays) in self.udfs.clone().zip(arrays) {
            let planned = &self.plan.udfs[udf];
            let buffers = public(&self.plan, udf).cloned().zip(arrays);
            let buffers = buffers.map(|(decl, array)| ResultBuffer { decl, array }).collect();
            udfs.push(UdfResults { name: planned.name.clone(), buffers });
        }
        Ok(RunResults {
            shape: self.plan.dataset.shape().clone(),
            roi: self.plan.roi.clone(),
            valid: self.valid()?,
            udfs,
        })
    }
}

fn valid(
    plan: &Plan,
    merged: usize,
    piece_end: Option<usize>,
    absent: &[Range<usize>],
) -> Result<Vec<bool>> {
    let mut valid = memory::zeros(plan.n_selected())?;
    for index in 0..merged {
        valid[plan.completed_by(index)].fill(true);
    }
    if let Some(end) = piece_end {
        valid[plan.partition(merged)?.0.frames.start..end].fill(true);
    }
    for frames in absent {
        valid[frames.clone()].fill(false);
    }
    Ok(valid)
}

/// The results of a run.
#[derive(Debug)]
pub struct RunResults {
    /// Scan and frame shape of the data set.
    pub shape: Shape,
    /// The region of interest, if there was one.
    pub roi: Option<Arc<Roi>>,
    /// One truth value per selected frame: whether it had data and was merged.
    pub valid: Vec<bool>,
    /// One entry per UDF, in the order in which they were passed.
    pub udfs: Vec<UdfResults>,
}

/// The results of one UDF.
#[derive(Debug)]
pub struct UdfResults {
    /// The UDF's name.
    pub name: String,
    /// Its public buffers, in the declared order.
    pub buffers: Vec<ResultBuffer>,
}

impl UdfResults {
    /// The buffer of that name.
    pub fn get(&self, name: &str) -> Option<&ResultBuffer> {
        self.buffers.iter().find(|buffer| buffer.decl.name == name)
    }
}

/// One result buffer.
#[derive(Debug)]
pub struct ResultBuffer {
    /// Its declaration.
    pub decl: BufferDecl,
    /// Its contents; `nav` buffers have one entry per selected frame.
    pub array: Array,
}

impl RunResults {
    /// One truth value per flat navigation position: whether the results hold a value for it.
    ///
    /// # Errors
    /// `Limit` if there is no memory for them.
    pub fn valid_nav(&self) -> Result<Vec<bool>> {
        match &self.roi {
            None => memory::collected(self.valid.iter().copied()),
            Some(roi) => {
                let mut nav = memory::zeros(roi.n_frames())?;
                for (&position, &valid) in roi.positions().iter().zip(&self.valid) {
                    nav[position] = valid;
                }
                Ok(nav)
            }
        }
    }

    /// A `nav` buffer in the shape of the scan. Positions outside of the ROI or without data are
    /// NaN, or 0 or false if the dtype has no NaN: see [`RunResults::valid_nav`].
    ///
    /// # Errors
    /// `Bug` if the array does not have one entry per selected frame.
    pub fn expand_nav(&self, array: &NativeArray) -> Result<NativeArray> {
        expand_nav(array, &self.shape, self.roi.as_deref(), &self.valid)
    }
}

/// Spreads one entry per selected frame over the scan; see [`RunResults::expand_nav`].
///
/// # Errors
/// `Bug` if `array` or `valid` do not have one entry per selected frame, or `roi` is of another scan;
/// `Limit` if there is no memory for the scan.
pub fn expand_nav(
    array: &NativeArray,
    shape: &Shape,
    roi: Option<&Roi>,
    valid: &[bool],
) -> Result<NativeArray> {
    let n_selected = roi.map_or(shape.n_frames(), Roi::n_selected);
    if let Some(roi) = roi.filter(|roi| roi.n_frames() != shape.n_frames()) {
        let (of_roi, of_scan) = (roi.n_frames(), shape.n_frames());
        return Err(Error::bug(format!("a ROI of {of_roi} positions for a scan of {of_scan}")));
    }
    if array.shape().first() != Some(&n_selected) || valid.len() != n_selected {
        return Err(Error::bug(format!(
            "a nav buffer of shape {:?} for {n_selected} selected frames",
            array.shape()
        )));
    }
    let extra = &array.shape()[1..];
    let dims: Vec<usize> = shape.nav().iter().chain(extra).copied().collect();
    let entry_bytes = extra.iter().product::<usize>() * array.dtype().size();
    let len = framefold_core::checked_product(&dims).and_then(|len| usize::try_from(len).ok());
    let mut values = TypedVec::try_missing(array.dtype(), len.unwrap_or(usize::MAX))?;
    if entry_bytes > 0 {
        let source = array.values().as_bytes();
        let target = values.as_bytes_mut();
        for (index, entry) in source.chunks_exact(entry_bytes).enumerate() {
            if valid[index] {
                let position = roi.map_or(index, |roi| roi.positions()[index]);
                let start = position * entry_bytes;
                target[start..start + entry_bytes].copy_from_slice(entry);
            }
        }
    }
    NativeArray::try_new(&dims, values)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn positions_without_a_value_are_nan() {
        let shape = Shape::try_new(&[2, 2], &[1]).unwrap();
        let roi = Roi::try_new(vec![true, false, true, true]).unwrap();
        let array = NativeArray::try_new(&[3, 1], vec![1f32, 2.0, 3.0]).unwrap();
        let full = expand_nav(&array, &shape, Some(&roi), &[true, false, true]).unwrap();
        assert_eq!(full.shape(), [2, 2, 1]);
        let values = full.as_slice::<f32>().unwrap();
        assert_eq!((values[0], values[3]), (1.0, 3.0));
        assert!(values[1].is_nan() && values[2].is_nan());
        let other = Shape::try_new(&[3], &[1]).unwrap();
        let refused = expand_nav(&array, &other, Some(&roi), &[true, false, true]).unwrap_err();
        assert_eq!(refused.message(), "a ROI of 4 positions for a scan of 3");
    }
}
