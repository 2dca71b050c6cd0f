//! The plainest driver of the contracts.

use framefold_core::{
    Accumulator, Array, ArrayFormat, BufferDecl, BufferUse, CsrScratch, DType, Dataset, DenseTile,
    Error, FrameIndices, FrameReader, InputDType, JobMeta, Merger, Method, NativeArray, Partition,
    Result, Roi, RunMeta, Scratch, SigSlice, Tile, TilePosition, TilingScheme, Udf, convert_csr,
    convert_tile, sparsify,
};
use std::ops::Range;
use std::sync::Arc;

/// The results of a run: declarations and arrays side by side, private buffers left out.
#[derive(Clone, Debug)]
pub struct Results {
    /// What was declared.
    pub decls: Vec<BufferDecl>,
    /// What came out.
    pub arrays: Vec<NativeArray>,
}

impl Results {
    /// The array of that name.
    ///
    /// # Errors
    /// `Bug` if no such buffer was declared.
    pub fn get(&self, name: &str) -> Result<&NativeArray> {
        let i = self.decls.iter().position(|decl| decl.name == name);
        i.and_then(|i| self.arrays.get(i))
            .ok_or_else(|| Error::bug(format!("there is no result '{name}'")))
    }
}

/// Runs `udf` over `dataset` with just this tiling and these partitions, on this thread.
///
/// Tiles come frame block by frame block in partitions of even number and slice by slice in
/// those of odd number, since the contract promises neither.
///
/// # Errors
/// Those of the UDF and of the source; `InvalidArgument` if the tiling does not suit the method
/// that the UDF asks for; `Unsupported` if it has foreign buffers.
pub fn evaluate(
    udf: &dyn Udf,
    dataset: &Dataset,
    roi: Option<&Arc<Roi>>,
    tiling: &Arc<TilingScheme>,
    partitions: &[Partition],
) -> Result<Results> {
    evaluate_run(&Run::try_new(udf, dataset, roi, tiling, partitions)?, udf, dataset)
}

/// As [`evaluate`], with all tiles in `format`, which the UDF must have asked for.
///
/// # Errors
/// As [`evaluate`]; `InvalidArgument` if the UDF does not take that format.
pub fn evaluate_in(
    format: ArrayFormat,
    udf: &dyn Udf,
    dataset: &Dataset,
    roi: Option<&Arc<Roi>>,
    tiling: &Arc<TilingScheme>,
    partitions: &[Partition],
) -> Result<Results> {
    if !udf.requirements(dataset.source().info())?.formats.contains(&format) {
        return Err(Error::invalid(format!("{} does not take {format:?} tiles", udf.name())));
    }
    let mut run = Run::try_new(udf, dataset, roi, tiling, partitions)?;
    run.meta.format = format;
    evaluate_run(&run, udf, dataset)
}

fn evaluate_run(run: &Run, udf: &dyn Udf, dataset: &Dataset) -> Result<Results> {
    let mut merger = udf.merger(&run.meta)?;
    for partition in run.meta.partitions.iter() {
        let partial = run.accumulate(udf, dataset, partition)?.finish()?;
        merger.merge(partition, partial)?;
    }
    run.results(merger.as_ref())
}

/// A run that is prepared: what the suites take to pieces.
pub(crate) struct Run {
    pub(crate) meta: RunMeta,
    pub(crate) decls: Vec<BufferDecl>,
}

impl Run {
    pub(crate) fn try_new(
        udf: &dyn Udf,
        dataset: &Dataset,
        roi: Option<&Arc<Roi>>,
        tiling: &Arc<TilingScheme>,
        partitions: &[Partition],
    ) -> Result<Self> {
        let info = dataset.source().info();
        let requirements = udf.requirements(info)?;
        let deepest = partitions.iter().map(Partition::n_frames).max().unwrap_or(0);
        let suits = match requirements.method {
            Method::Tile => true,
            Method::Frame => tiling.is_full_frame(),
            Method::Partition => tiling.is_full_frame() && tiling.depth() >= deepest,
        };
        if !suits {
            return Err(Error::invalid(format!(
                "tiles of shape {:?}, {} deep, do not suit method '{}'",
                tiling.tile_shape(),
                tiling.depth(),
                requirements.method.name()
            )));
        }
        let native_dtype = info.dtype.dtype;
        let input_dtype = match requirements.input {
            InputDType::Native => native_dtype,
            InputDType::AtLeast(dtype) => DType::promote(native_dtype, dtype),
        };
        let job = JobMeta {
            shape: dataset.shape().clone(),
            native_dtype,
            input_dtype,
            roi: roi.cloned(),
        };
        let decls = udf.buffers(&job)?;
        let meta = RunMeta {
            may_wait: false,
            to_sink: Arc::from([]),
            job,
            tiling: Arc::clone(tiling),
            partitions: partitions.into(),
            format: requirements.format_for(dataset.source().format())?,
        };
        Ok(Run { meta, decls })
    }

    /// The accumulator of a partition, after its last tile.
    pub(crate) fn accumulate(
        &self,
        udf: &dyn Udf,
        dataset: &Dataset,
        partition: &Partition,
    ) -> Result<Box<dyn Accumulator>> {
        let mut accumulator = udf.accumulator(&self.meta, partition)?;
        let mut reader = dataset.source().reader()?;
        let tiling = &self.meta.tiling;
        let blocks: Vec<Range<usize>> = partition
            .frames
            .clone()
            .step_by(tiling.depth())
            .map(|start| start..partition.frames.end.min(start.saturating_add(tiling.depth())))
            .collect();
        let mut tile = |block: &Range<usize>, slice: &SigSlice| {
            let first = partition.frames.start;
            let position = TilePosition {
                frames: block.clone(),
                in_partition: block.start - first..block.end - first,
                sig: slice,
            };
            let frames = self.frames_of(dataset, block)?;
            let native = dataset.source().format();
            process(reader.as_mut(), native, &frames, position, &self.meta, accumulator.as_mut())
        };
        if partition.index.is_multiple_of(2) {
            for block in &blocks {
                tiling.slices().iter().try_for_each(|slice| tile(block, slice))?;
            }
        } else {
            for slice in tiling.slices() {
                blocks.iter().try_for_each(|block| tile(block, slice))?;
            }
        }
        reader.verify()?;
        drop(reader);
        Ok(accumulator)
    }

    /// Frame numbers in the file of the selected frames `block`.
    fn frames_of(&self, dataset: &Dataset, block: &Range<usize>) -> Result<Vec<u64>> {
        let frame = |index| dataset.frame_at(self.meta.job.position(index));
        let missing = || Error::bug(format!("partition {block:?} has frames without data"));
        block.clone().map(|index| frame(index).ok_or_else(missing)).collect()
    }

    /// The results so far, checked against their declarations.
    pub(crate) fn results(&self, merger: &dyn Merger) -> Result<Results> {
        let decls: Vec<BufferDecl> =
            self.decls.iter().filter(|d| d.usage != BufferUse::Private).cloned().collect();
        let arrays = merger.results()?;
        if arrays.len() != decls.len() {
            return Err(Error::bug(format!(
                "{} results for {} declared buffers",
                arrays.len(),
                decls.len()
            )));
        }
        let n_frames = self.meta.job.n_selected();
        let check = |(array, decl): (Array, &BufferDecl)| match array {
            Array::Foreign(_) => {
                Err(Error::unsupported(format!("'{}' is a foreign array", decl.name)))
            }
            Array::Native(array) => {
                let shape = decl.flat_shape(&self.meta.job.shape, n_frames);
                if array.shape() == shape && decl.dtype == array.dtype().into() {
                    return Ok(array);
                }
                Err(Error::bug(format!(
                    "result '{}' is {} {:?}, declared as {} {shape:?}",
                    decl.name,
                    array.dtype(),
                    array.shape(),
                    decl.dtype
                )))
            }
        };
        let arrays = arrays.into_iter().zip(&decls).map(check).collect::<Result<_>>()?;
        Ok(Results { decls, arrays })
    }
}

fn process(
    reader: &mut dyn FrameReader,
    native: ArrayFormat,
    frames: &[u64],
    position: TilePosition<'_>,
    meta: &RunMeta,
    accumulator: &mut dyn Accumulator,
) -> Result<()> {
    let indices = match frames {
        [first, .., last] if last - first + 1 == frames.len() as u64 => {
            FrameIndices::Run(*first..last + 1)
        }
        [only] => FrameIndices::Run(*only..only + 1),
        list => FrameIndices::List(list),
    };
    let (mut scratch, mut sparse) = (Scratch::new(), CsrScratch::new());
    if meta.format == ArrayFormat::Csr {
        let tile = match native {
            ArrayFormat::Csr => reader.read_csr(indices, position.sig)?,
            _ => sparsify(&reader.read(indices, position.sig)?, &mut sparse)?,
        };
        let tile = convert_csr(&tile, meta.job.input_dtype, &mut scratch)?;
        return accumulator.process_csr(&position, &tile);
    }
    let tile: DenseTile<'_> = reader.read(indices, position.sig)?;
    let data = convert_tile(&tile, meta.job.input_dtype, &mut scratch)?;
    accumulator.process(&Tile { position, data })
}

/// The runs of selected frames that have data, in compressed indices.
pub fn runs_with_data(dataset: &Dataset, roi: Option<&Roi>) -> Vec<Range<usize>> {
    let n_positions = dataset.shape().n_frames();
    let positions: Vec<usize> =
        roi.map_or_else(|| (0..n_positions).collect(), |roi| roi.positions().to_vec());
    let mut runs: Vec<Range<usize>> = vec![];
    for (index, &position) in positions.iter().enumerate() {
        if dataset.frame_at(position).is_none() {
            continue;
        }
        match runs.last_mut() {
            Some(run) if run.end == index => run.end += 1,
            _ => runs.push(index..index + 1),
        }
    }
    runs
}

/// Cuts runs into partitions whose lengths are taken from `lengths` in turn.
pub fn cut(runs: &[Range<usize>], lengths: &[usize]) -> Vec<Partition> {
    let mut lengths = lengths.iter().copied().filter(|&n| n > 0).cycle();
    let mut partitions = vec![];
    for run in runs {
        let mut start = run.start;
        while start < run.end {
            let end = lengths.next().map_or(run.end, |n| run.end.min(start.saturating_add(n)));
            partitions.push(Partition { index: partitions.len(), frames: start..end });
            start = end;
        }
    }
    partitions
}
