//! Everything decided before the first pixel is read.

mod alignment;
mod arrived;
mod bands;
mod explain;
mod formats;
mod inputs;
mod memory;
mod partitions;
mod passed_on;
mod pieces;
mod tiling;

pub use explain::{BufferExplanation, Explanation, UdfExplanation};

pub(crate) use arrived::Piece;
pub(crate) use bands::Band;

use crate::PlanOptions;
use crate::call::{call_of, call_of_source};
use formats::FrameSize;
use framefold_core::{
    ArrayFormat, Arrival, BufferDecl, BufferUse, CorrectedSlice, DType, DataSource, Dataset, Error,
    FrameIndices, JobMeta, Partition, Requirements, Result, Roi, RunMeta, TilingScheme, Udf,
    guarded_call,
};
use std::collections::HashSet;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

/// A run, decided but not started: cheap to make, printable, and shared by all workers.
pub struct Plan {
    pub(crate) dataset: Dataset,
    pub(crate) roi: Option<Arc<Roi>>,
    pub(crate) udfs: Vec<PlannedUdf>,
    pub(crate) tiling: Arc<TilingScheme>,
    /// How the selected frames are cut.
    pub(crate) cuts: Arc<[Partition]>,
    /// How each frame is cut: one band is all of it. A partition is one band of one cut; those of
    /// one cut follow each other.
    pub(crate) bands: Vec<Band>,
    /// What to read and repair for each slice of the tiling; empty without corrections.
    pub(crate) corrected: Vec<CorrectedSlice>,
    contends: bool,
    reasons: Reasons,
}

/// A UDF with what was decided for it.
pub(crate) struct PlannedUdf {
    pub(crate) udf: Arc<dyn Udf>,
    /// As it was when the run was planned.
    pub(crate) name: String,
    pub(crate) requirements: Requirements,
    pub(crate) buffers: Vec<BufferDecl>,
    /// Those whose rows go to a sink.
    pub(crate) to_sink: Arc<[String]>,
    /// The dtype of its tiles.
    pub(crate) input_dtype: DType,
    /// The format of its tiles.
    pub(crate) format: ArrayFormat,
    /// One per band.
    pub(crate) metas: Vec<RunMeta>,
}

/// Why partitions and tiles are as they are.
pub(crate) struct Reasons {
    pub(crate) partitions: String,
    pub(crate) tiling: String,
}

impl Plan {
    /// Decides how `udfs` run over the positions of `dataset` that `roi` selects.
    ///
    /// # Errors
    /// `InvalidArgument` if there is no UDF, the ROI does not fit the scan, a UDF declares two
    /// buffers of one name, or an option is out of range; whatever the UDFs report.
    pub fn try_new(
        dataset: &Dataset,
        udfs: Vec<Arc<dyn Udf>>,
        roi: Option<Arc<Roi>>,
        options: &PlanOptions,
    ) -> Result<Plan> {
        crate::heed_system_memory();
        check_arguments(dataset, &udfs, roi.as_deref())?;
        // What may panic besides: functions are named by then.
        guarded_call("the source of the frames", || Plan::decide(dataset, udfs, roi, options))
    }

    fn decide(
        dataset: &Dataset,
        udfs: Vec<Arc<dyn Udf>>,
        roi: Option<Arc<Roi>>,
        options: &PlanOptions,
    ) -> Result<Plan> {
        let info = dataset.source().info();
        let native_dtype = info.dtype.dtype;
        let mut requirements = Vec::with_capacity(udfs.len());
        let mut names = Vec::with_capacity(udfs.len());
        for udf in &udfs {
            let name = guarded_call("the name of a function", || Ok(udf.name().to_owned()))?;
            requirements.push(call_of(&name, || udf.requirements(info))?);
            names.push(name);
        }
        let pixel_dtype = dataset.pixel_dtype();
        let mut jobs = Vec::with_capacity(udfs.len());
        for ((udf, name), required) in udfs.iter().zip(&names).zip(&requirements) {
            let meta = JobMeta {
                shape: dataset.shape().clone(),
                native_dtype,
                input_dtype: inputs::input_dtype(pixel_dtype, required),
                roi: roi.clone(),
            };
            let buffers = call_of(name, || udf.buffers(&meta))?;
            check_names(name, &buffers)?;
            jobs.push((meta, buffers));
        }

        let formats = formats::choose(dataset, &names, &requirements)?;
        let frame = FrameSize::of(dataset, &formats);
        let wanted = (0..).map(|udf| options.to_sink.get(udf));
        let to_sink = requirements.iter().zip(&jobs).zip(wanted);
        let to_sink: Vec<_> = to_sink
            .map(|((required, (_, buffers)), wanted)| passed_on::of_udf(required, buffers, wanted))
            .collect();
        memory::check(&names, &jobs, &to_sink)?;
        let runs = runs_with_data(dataset, roi.as_deref());
        let given = pieces::given(dataset, roi.as_deref(), options);
        let together = dataset.source().frames_together();
        let align = together > 1 && given.is_none() && options.num_partitions.is_none();
        let mut cuts = match given {
            Some((bounds, why)) => pieces::cut(&runs, &bounds, why),
            None => partitions::choose(info, frame, &jobs, &requirements, runs, options)?,
        };
        if align {
            let positions = roi.as_ref().map(|roi| roi.positions());
            let frame_of = |index: usize| {
                let position = positions.map_or(Some(index), |all| all.get(index).copied());
                position.and_then(|position| dataset.frame_at(position))
            };
            cuts.frames = alignment::align(cuts.frames, saturating_u64(together), frame_of);
            cuts.why.push_str(&format!(
                ", ending where frames that are stored together do ({together} at a time)"
            ));
        }
        let lent = formats::lends(dataset, &formats);
        let tiles = tiling::choose(info, &jobs, &requirements, frame, &cuts, lent, options)?;
        let bands = bands::cut(&tiles, cuts.n_bands)?;
        let tiling = tiles.scheme;
        let corrected = match dataset.corrections() {
            None => Vec::new(),
            Some(corrections) => {
                let prepare = |s| CorrectedSlice::try_new(corrections, s, &info.base_shape);
                tiling.slices().iter().map(prepare).collect::<Result<_>>()?
            }
        };
        let reasons = Reasons { partitions: cuts.why, tiling: tiles.why };
        let cuts = Arc::<[Partition]>::from(cuts.frames);
        let contends = requirements.iter().any(|required| required.contends);
        let contends = contends || dataset.source().contends();
        let udfs = udfs
            .into_iter()
            .zip(names)
            .zip(requirements)
            .zip(jobs)
            .zip(formats)
            .zip(to_sink)
            .map(|(((((udf, name), requirements), (job, buffers)), format), to_sink)| {
                let waits = dataset.source().may_wait();
                let metas = bands::metas(&job, &bands, &cuts, format, waits, &to_sink)?;
                let input_dtype = job.input_dtype;
                Ok(PlannedUdf {
                    udf,
                    name,
                    requirements,
                    buffers,
                    to_sink,
                    input_dtype,
                    format,
                    metas,
                })
            })
            .collect::<Result<_>>()?;
        let dataset = dataset.clone();
        Ok(Plan { dataset, roi, udfs, tiling, cuts, bands, corrected, contends, reasons })
    }

    /// The data set.
    pub fn dataset(&self) -> &Dataset {
        &self.dataset
    }

    /// The region of interest.
    pub fn roi(&self) -> Option<&Arc<Roi>> {
        self.roi.as_ref()
    }

    /// The number of partitions. Positions without data are in none of them.
    pub fn n_partitions(&self) -> usize {
        self.cuts.len() * self.bands.len()
    }

    /// The selected frames that are complete once partition `index` is merged, and were not
    /// before. None, if the partition is part of its frames and not the last part; the ranges of
    /// all partitions are ascending and disjoint.
    pub fn completed_by(&self, index: usize) -> Range<usize> {
        match (self.cuts.get(index / self.bands.len()), (index + 1) % self.bands.len()) {
            (Some(cut), 0) => cut.frames.clone(),
            (Some(cut), _) => cut.frames.start..cut.frames.start,
            (None, _) => 0..0,
        }
    }

    /// Whether partition `index` completes its frames: it is the last of its bands.
    pub(crate) fn completes(&self, index: usize) -> bool {
        (index + 1).is_multiple_of(self.bands.len())
    }

    /// Whether partitions may be merged in pieces.
    pub(crate) fn is_framewise(&self) -> bool {
        self.bands.len() == 1 && self.udfs.iter().all(|planned| planned.requirements.framewise)
    }

    /// How frames are cut into tiles.
    pub fn tiling(&self) -> &TilingScheme {
        &self.tiling
    }

    /// The declared buffers of UDF number `udf`; none if there is no such.
    pub fn buffers(&self, udf: usize) -> &[BufferDecl] {
        self.udfs.get(udf).map_or(&[], |planned| &planned.buffers)
    }

    /// Whether UDF number `udf` merges [by rows](Requirements::by_rows): what partitions contribute are rows
    /// of its results.
    pub fn by_rows(&self, udf: usize) -> bool {
        self.udfs.get(udf).is_some_and(|planned| planned.requirements.by_rows)
    }

    /// The buffers whose rows go to a sink, with the numbers of their UDFs, in order.
    pub fn to_sink(&self) -> Vec<(usize, &BufferDecl)> {
        let all = self.udfs.iter().enumerate();
        let all = all.flat_map(|(udf, planned)| planned.buffers.iter().map(move |d| (udf, d)));
        all.filter(|&(udf, decl)| self.udfs[udf].to_sink.contains(&decl.name)).collect()
    }

    /// The first result that goes to no sink.
    pub(crate) fn first_kept(&self) -> Option<&str> {
        self.udfs.iter().find_map(|planned| {
            let names = planned.buffers.iter().filter(|decl| decl.usage != BufferUse::Private);
            let mut names = names.map(|decl| decl.name.as_str());
            names.find(|name| !planned.to_sink.iter().any(|each| each == name))
        })
    }

    /// The number of UDFs.
    pub fn n_udfs(&self) -> usize {
        self.udfs.len()
    }

    /// The number of selected positions, with or without data.
    pub fn n_selected(&self) -> usize {
        match &self.roi {
            Some(roi) => roi.n_selected(),
            None => self.dataset.shape().n_frames(),
        }
    }

    /// The number of frames that will be read.
    pub fn n_frames(&self) -> usize {
        self.cuts.iter().map(Partition::n_frames).sum()
    }

    /// Whether threads may hinder each other.
    pub(crate) fn contends(&self) -> bool {
        self.contends
    }

    /// The size of one frame in the data set's dtype; of sparse data, what an average frame takes.
    pub fn frame_bytes(&self) -> u64 {
        FrameSize::of(&self.dataset, &self.formats()).bytes()
    }

    /// In which format each UDF gets its tiles.
    fn formats(&self) -> Vec<ArrayFormat> {
        self.udfs.iter().map(|planned| planned.format).collect()
    }

    /// What was decided, and why, for people to read.
    pub fn explain(&self) -> Explanation {
        explain::explain(self, &self.reasons)
    }

    /// The frames of partition `index`, and the number of its band.
    pub(crate) fn partition(&self, index: usize) -> Result<(&Partition, usize)> {
        let cut = self.cuts.get(index / self.bands.len());
        let cut = cut.ok_or_else(|| Error::bug(format!("there is no partition {index}")))?;
        Ok((cut, index % self.bands.len()))
    }

    pub(crate) fn source(&self) -> &dyn DataSource {
        self.dataset.source().as_ref()
    }

    /// Whether selected frames can be read.
    pub(crate) fn arrival(&self, frames: Range<usize>) -> Result<Arrival> {
        let last = self.source_frame(frames.end.saturating_sub(1))?;
        let first = self.source_frame(frames.start)?;
        let of = |run| call_of_source(self.source(), || Ok(self.source().arrival(run)));
        let of_all = of(first..last + 1)?;
        if of_all == Arrival::Here || last - first < saturating_u64(frames.len()) {
            return Ok(of_all);
        }
        // It may be that of frames between them, which are not selected.
        let mut found = Arrival::Here;
        for index in frames {
            let frame = self.source_frame(index)?;
            match of(frame..frame + 1)? {
                Arrival::Here => {}
                Arrival::NotYet => found = Arrival::NotYet,
                Arrival::Never => return Ok(Arrival::Never),
            }
        }
        Ok(found)
    }

    /// Returns when frames may have arrived, and after `most` at the latest.
    pub(crate) fn wait(&self, most: Duration) -> Result<()> {
        call_of_source(self.source(), || {
            self.source().wait(most);
            Ok(())
        })
    }

    /// The frame, in file order, that a selected frame shows.
    fn source_frame(&self, index: usize) -> Result<u64> {
        let position = match &self.roi {
            Some(roi) => roi.positions().get(index).copied(),
            None => Some(index),
        };
        position.and_then(|position| self.dataset.frame_at(position)).ok_or_else(|| {
            Error::bug(format!("selected frame {index} has no data but is in a partition"))
        })
    }

    /// The frames, in file order, that the selected frames `range` show.
    pub(crate) fn source_frames<'b>(
        &self,
        range: Range<usize>,
        buffer: &'b mut Vec<u64>,
    ) -> Result<FrameIndices<'b>> {
        let first = self.source_frame(range.start)?;
        let last = self.source_frame(range.end.saturating_sub(1))?;
        if last - first == saturating_u64(range.len()) - 1 {
            return Ok(FrameIndices::Run(first..last + 1));
        }
        buffer.clear();
        framefold_core::memory::make_room(buffer, range.len())?;
        for index in range {
            buffer.push(self.source_frame(index)?);
        }
        Ok(FrameIndices::List(buffer))
    }
}

pub(crate) fn saturating_u64(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

fn check_arguments(dataset: &Dataset, udfs: &[Arc<dyn Udf>], roi: Option<&Roi>) -> Result<()> {
    if udfs.is_empty() {
        return Err(Error::invalid("there is no UDF to run").with_hint("pass at least one UDF"));
    }
    if let Some(roi) = roi {
        let (found, expected) = (roi.n_frames(), dataset.shape().n_frames());
        if found != expected {
            return Err(Error::invalid(format!(
                "the ROI has {found} elements, but the scan of shape {:?} has {expected} positions",
                dataset.shape().nav()
            ))
            .with_hint("use a boolean array of the shape of the navigation axes"));
        }
    }
    Ok(())
}

fn check_names(udf: &str, buffers: &[BufferDecl]) -> Result<()> {
    let mut seen = HashSet::new();
    for decl in buffers {
        if !seen.insert(decl.name.as_str()) {
            return Err(Error::invalid(format!("two buffers are called '{}'", decl.name))
                .with_udf(udf)
                .with_hint("give each result buffer a name of its own"));
        }
    }
    Ok(())
}

/// The ranges of selected frames that have data: ascending, disjoint, not empty.
fn runs_with_data(dataset: &Dataset, roi: Option<&Roi>) -> Vec<Range<usize>> {
    let mut runs = dataset.positions_with_data();
    if let Some(roi) = roi {
        let positions = roi.positions();
        let index_of = |position| positions.partition_point(|&p| p < position);
        for run in &mut runs {
            *run = index_of(run.start)..index_of(run.end);
        }
        runs.retain(|run| !run.is_empty());
        // Runs that only the unselected positions between them kept apart are one run now.
        runs.dedup_by(|next, run| {
            let joins = run.end == next.start;
            if joins {
                run.end = next.end;
            }
            joins
        });
    }
    runs
}
