//! Writes any data set as one array: NPY, Zarr, HDF5.
//!
//! Workers take pieces of the data set, read and correct them, cut them into chunks, compress those
//! and store them, each for itself, so that memory follows from the number of workers alone. What
//! is written does not depend on it: the same options give the same bytes. It appears under its
//! name when all of it was read back and found equal.

mod bytes;
mod cast;
mod checksum;
mod chunk_shape;
mod chunks;
mod flat;
mod frames;
mod hdf5;
mod npy;
mod options;
mod pool;
pub(crate) mod raw_csr;
pub(crate) mod rows;
mod selection;
mod tif;
mod units;
mod verify;
pub(crate) mod whole;
mod zarr;

use crate::formats::shown_by_hyperspy;
use crate::orient::orient;
use crate::write::whole::{OutputKind, WholeOutput};
use cast::Cast;
use checksum::Checksums;
use chunks::{ChunkSpec, Chunker};
use flat::Flat;
use framefold_core::{Axis, Dataset, Error, MetadataList, Orientation, Result, axes, memory};
use frames::Frames;
pub use hdf5::{Tree, TreeNode, Value as TreeValue, tree_bytes, write_tree};
pub use npy::write_npy;
pub use options::{Compression, WriteFormat, WriteOptions, WriteOrientation, Written, ZarrVersion};
use pool::{Link, share};
use selection::Selection;
use std::path::Path;
pub use tif::{TiffLabels, TiffStep, write_tiff};
use units::{Unit, Units};

/// Writes `dataset` to `path`, with corrections applied.
///
/// `progress` is called with the number of frames done, again and again: reading back is half of
/// the work. It may return an error ([`Error::cancelled`], say): writing then stops, and nothing is
/// left. Positions without data become NaN, or 0 in dtypes that have no NaN.
///
/// # Errors
/// `InvalidArgument` if the output exists and is not to be replaced, an input is in the way, the
/// options do not fit, or values do not fit the dtype; `BadFile` if something else is read back
/// than what was written; `Io`; those of the source; and those of `progress`.
pub fn write_dataset(
    dataset: &Dataset,
    path: impl AsRef<Path>,
    options: &WriteOptions,
    progress: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<Written> {
    let path = path.as_ref();
    let given = dataset;
    let format = format_of(path, options)?;
    let turn = turn_for_hyperspy(given, format, options.orientation)?;
    let dataset = &orient(given.clone(), turn)?;
    let job = Job::try_new(dataset, path, format, options)?;
    let kind = match job.format {
        WriteFormat::Zarr => OutputKind::ZarrArray,
        WriteFormat::Zspy => OutputKind::ZarrGroup,
        _ => OutputKind::File,
    };
    let target = WholeOutput::create(path, kind, options.force, &dataset.inputs())?;
    let parts: u64 = if options.unverified { 1 } else { 2 };
    let mut n_done = 0;
    let mut tick = |n: u64| {
        n_done += n;
        progress(n_done / parts)
    };
    tick(0)?;
    let sums = Checksums::try_new(job.selection.len())?;
    let len_bytes = job.store(&target, &sums, &mut tick)?;
    if !options.unverified {
        verify::verify(&job, target.part(), &sums, &mut tick)
            .map_err(|error| verify::explain(error, path))?;
    }
    tick(0)?;
    let n_missing = job.selection.n_missing(dataset)?;
    target.publish()?;
    Ok(Written {
        path: path.to_path_buf(),
        nav_shape: job.selection.nav.clone(),
        sig_shape: dataset.shape().sig().to_vec(),
        dtype: job.cast.to,
        chunks: job.chunk.map(|chunk| chunk.shape),
        n_frames: job.selection.len() as u64,
        n_missing: n_missing as u64,
        len_bytes,
        verified: !options.unverified,
        turned: Some(turn.to_string()).filter(|turn| !turn.is_empty()),
    })
}

/// The format that was asked for, or that the name means.
fn format_of(path: &Path, options: &WriteOptions) -> Result<WriteFormat> {
    options.format.or_else(|| WriteFormat::of_path(path)).ok_or_else(|| {
        Error::invalid("the name of the output does not end in .npy, .zarr, .h5, .hspy or .zspy")
            .with_hint("give it one of these endings, or say the format")
    })
}

/// How frames are turned before they are written, so that they are as HyperSpy shows them.
fn turn_for_hyperspy(
    dataset: &Dataset,
    format: WriteFormat,
    asked: Option<WriteOrientation>,
) -> Result<Orientation> {
    let turned = dataset.source().orientation();
    let wanted = match asked {
        None => matches!(format, WriteFormat::Hspy | WriteFormat::Zspy) && turned.is_none(),
        Some(asked) => asked == WriteOrientation::Hyperspy,
    };
    match () {
        _ if !wanted => Ok(Orientation::default()),
        _ if turned.is_none() => Ok(shown_by_hyperspy(dataset.source().info().format)),
        _ => Err(Error::invalid(format!(
            "the orientation of HyperSpy was asked for, but the frames are turned already \
             ({turned})"
        ))
        .with_hint("leave out flip and transpose, or orientation")),
    }
}

/// All that is decided before the first pixel is read.
struct Job<'d> {
    dataset: &'d Dataset,
    path: &'d Path,
    options: &'d WriteOptions,
    format: WriteFormat,
    /// What folders of chunks are.
    zarr_format: ZarrVersion,
    selection: Selection,
    cast: Cast,
    /// How the array is cut, unless frames follow each other.
    chunk: Option<ChunkSpec>,
    compression: Compression,
    units: Units,
    metadata: MetadataList,
}

impl<'d> Job<'d> {
    fn try_new(
        dataset: &'d Dataset,
        path: &'d Path,
        format: WriteFormat,
        options: &'d WriteOptions,
    ) -> Result<Self> {
        let zarr_format = zarr_format(format, options.zarr_format)?;
        let mut selection = Selection::try_new(dataset, options.roi.as_deref())?;
        if dataset.shape().nav() == [1] && dataset.shape().sig().len() == 2 {
            // An image, and no scan.
            selection.nav.clear();
        }
        let cast = Cast::try_new(frames::native(dataset), options.dtype, options.lossy)?;
        let (nav, sig, size) = (&selection.nav, dataset.shape().sig(), cast.to.size());
        let compression = options.compression.unwrap_or(match format {
            WriteFormat::Npy => Compression::None,
            WriteFormat::Zarr | WriteFormat::Zspy => Compression::Blosc,
            WriteFormat::Hdf5 | WriteFormat::Hspy => Compression::Gzip,
        });
        let steps = compression.steps(options.level, format, size)?;
        let plain = compression == Compression::None && options.chunks.is_none();
        let chunk = match format {
            WriteFormat::Npy if plain => None,
            WriteFormat::Npy => {
                return Err(Error::invalid("NPY files have neither chunks nor compression")
                    .with_hint("leave these options out, or write Zarr or HDF5"));
            }
            WriteFormat::Hdf5 | WriteFormat::Hspy if plain => None,
            _ => {
                let shape = match &options.chunks {
                    Some(chunks) => chunk_shape::given(chunks, nav, sig)?,
                    // A file for each chunk, or a task for each: fewer and larger ones.
                    None if format.is_hyperspy() || zarr_format == ZarrVersion::V2 => {
                        chunk_shape::blocks(nav, sig, size)
                    }
                    None => chunk_shape::runs(nav, sig, size),
                };
                // Gzip has a checksum already, and version 2 of Zarr no place for one.
                let has_checksums = (format.is_zarr() && zarr_format == ZarrVersion::V3)
                    && !matches!(compression, Compression::None | Compression::Gzip);
                Some(ChunkSpec { shape, size, steps, skips_zeros: true, has_checksums })
            }
        };
        let units = match &chunk {
            Some(chunk) => Units::of_chunks(nav, sig, &chunk.shape, size)?,
            None => Units::of_frames(nav, sig, size)?,
        };
        let mut metadata = dataset.metadata().clone();
        selection.place(dataset.shape().nav().len(), &mut metadata);
        Ok(Job {
            dataset,
            path,
            options,
            format,
            zarr_format,
            selection,
            cast,
            chunk,
            compression,
            units,
            metadata,
        })
    }

    /// The axes of the array.
    fn axes(&self) -> Vec<Axis> {
        axes(&self.selection.nav, self.dataset.shape().sig(), &self.metadata)
    }

    /// The shape of the array.
    fn shape(&self) -> Vec<usize> {
        self.selection.nav.iter().chain(self.dataset.shape().sig()).copied().collect()
    }

    /// Writes everything, and gives its size.
    fn store(
        &self,
        target: &WholeOutput,
        sums: &Checksums,
        tick: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<u64> {
        match (&self.chunk, self.format) {
            (Some(spec), WriteFormat::Zarr | WriteFormat::Zspy) => {
                let folder = zarr::ArrayFolder::create(self, spec, target)?;
                self.store_chunks(
                    spec,
                    &|_, unit, encoded| folder.store(unit, encoded),
                    sums,
                    tick,
                )?;
                folder.complete()
            }
            (Some(spec), _) => {
                let file = hdf5::ChunkedFile::new(self, spec, target);
                self.store_chunks(
                    spec,
                    &|link, unit, encoded| file.store(link, unit, encoded),
                    sums,
                    tick,
                )?;
                file.complete()
            }
            (None, WriteFormat::Npy) => {
                let header = npy::header(self.cast.to, &self.shape());
                bytes::write_at(target.file()?, &header, 0, self.path)?;
                let flat = Flat::new(self, target, header.len() as u64);
                flat.store(sums, tick)
            }
            (None, _) => {
                let flat = Flat::new(self, target, hdf5::FIRST_PIXEL);
                let end = flat.store(sums, tick)?;
                hdf5::complete_flat(self, target, end)
            }
        }
    }

    /// Reads, cuts and encodes piece after piece, and passes them on.
    fn store_chunks(
        &self,
        spec: &ChunkSpec,
        store: &(dyn Fn(&Link<'_>, &Unit<'_>, &chunks::Encoded) -> Result<()> + Sync),
        sums: &Checksums,
        tick: &mut dyn FnMut(u64) -> Result<()>,
    ) -> Result<()> {
        let worker = || {
            let frames = Frames::try_new(self.dataset, self.cast)?;
            Ok((frames, Chunker::try_new(spec)?))
        };
        let work = |state: &mut (Frames<'_>, Chunker<'_>), index: usize, link: &Link<'_>| {
            let (frames, chunker) = state;
            let unit = self.units.get(index)?;
            let positions = self.units.positions(&unit)?;
            let frame_bytes = unit.slice.len() * spec.size;
            let mut block = std::mem::take(&mut chunker.block);
            memory::resize(&mut block, positions.len().saturating_mul(frame_bytes), 0)?;
            let mut take = |start: usize, bytes: &[u8]| {
                link.check()?;
                self.sum(sums, &positions, &unit, start, bytes);
                let at = start * frame_bytes;
                match block.get_mut(at..at + bytes.len()) {
                    Some(place) => place.copy_from_slice(bytes),
                    None => return Err(Error::bug("a tile does not fit its piece")),
                }
                Ok(())
            };
            frames.read(&self.frames_at(&positions)?, unit.slice, &mut take)?;
            chunker.block = block;
            let encoded = chunker.encode(&unit)?;
            store(link, &unit, encoded)?;
            link.done(if unit.slice.index() == 0 { positions.len() as u64 } else { 0 })
        };
        share(self.units.len(), self.options.threads, &worker, &work, tick)
    }

    /// The frames at flat positions of the output.
    fn frames_at(&self, positions: &[usize]) -> Result<Vec<Option<u64>>> {
        memory::collected(positions.iter().map(|&at| self.selection.frame(self.dataset, at)))
    }

    /// Adds the frames of a tile to the checksums.
    fn sum(
        &self,
        sums: &Checksums,
        positions: &[usize],
        unit: &Unit<'_>,
        start: usize,
        bytes: &[u8],
    ) {
        if self.options.unverified {
            return;
        }
        let frames = bytes.chunks_exact((unit.slice.len() * self.cast.to.size()).max(1));
        for (position, frame) in positions.iter().skip(start).zip(frames) {
            sums.add(*position, unit.slice.index(), frame);
        }
    }
}

/// The version of Zarr that is written, if it is one.
fn zarr_format(format: WriteFormat, wanted: Option<ZarrVersion>) -> Result<ZarrVersion> {
    match (format, wanted) {
        (WriteFormat::Zarr, wanted) => Ok(wanted.unwrap_or(ZarrVersion::V3)),
        (WriteFormat::Zspy, None | Some(ZarrVersion::V2)) => Ok(ZarrVersion::V2),
        (WriteFormat::Zspy, Some(ZarrVersion::V3)) => {
            Err(Error::invalid("HyperSpy's .zspy is Zarr of version 2")
                .with_hint("leave 'zarr_format' out, or write .zarr"))
        }
        (_, None) => Ok(ZarrVersion::V3),
        (other, Some(_)) => Err(Error::invalid(format!("'{}' is no format of Zarr", other.name()))
            .with_hint("leave 'zarr_format' out, or write .zarr")),
    }
}
