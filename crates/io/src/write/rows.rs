//! Files of results, which get their rows while a run goes on.
//!
//! A file is written from its beginning to its end. Rows lie in C order, in the shape of the scan:
//!
//! | layout | before the rows | after them |
//! |---|---|---|
//! | NPY | the header | nothing |
//! | Zarr, version 3 | nothing | zeros up to the end of a chunk, 16 bytes for each chunk (offset and length), CRC32C of these |
//!
//! So the rows can be mapped in both. For Zarr, such a file is one shard of uncompressed chunks, each
//! of which is a run of the array in C order.
//!
//! Endianness: that of the machine; the index of a shard is little-endian, as Zarr has it.

mod file;
mod record;

use crate::write::npy;
use crate::write::whole::{WholeOutput, failed};
use file::RowFile;
use framefold_core::{BufferDtype, Error, NewRows, Result, Roi, Sink, SinkJob};
use record::Recorder;
use std::ops::Range;
use std::path::PathBuf;
use std::sync::Arc;

/// One result and the file that it goes to.
#[derive(Clone, Debug)]
pub struct RowsEntry {
    /// The number of its UDF.
    pub udf: usize,
    /// The name of the buffer.
    pub name: String,
    /// The number of the output that it goes to.
    pub output: usize,
    /// How it lies there.
    pub layout: RowsLayout,
}

/// How rows lie in an output.
#[derive(Clone, Debug)]
pub enum RowsLayout {
    /// The output is an NPY file.
    Npy,
    /// The output is a folder.
    Chunks {
        /// The file within.
        file: PathBuf,
        /// The size of each chunk.
        chunk_bytes: u64,
    },
}

/// What a resumed run has already.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RowsDone {
    /// Whole partitions.
    pub n_merged: usize,
    /// All positions of the scan before this one.
    pub position: usize,
}

/// A sink whose rows go to files.
pub struct RowsSink {
    entries: Vec<RowsEntry>,
    targets: Vec<Target>,
    files: Vec<RowFile>,
    recorder: Option<Recorder>,
    roi: Option<Arc<Roi>>,
    n_positions: usize,
    /// All positions before this one are written.
    position: usize,
    /// The same for whole partitions.
    done: RowsDone,
    process: u32,
    finished: bool,
}

/// What the sink has to know of an output.
struct Target {
    path: PathBuf,
    part: PathBuf,
    file: Option<std::fs::File>,
}

impl RowsSink {
    /// A sink for `outputs`, which are to be published when the run is over.
    ///
    /// With `about`, a JSON object, records beside the outputs say what is in them, for
    /// [`WholeOutput::resume`]; `done` is what such records said.
    ///
    /// # Errors
    /// `Io`; `Bug` if `about` is no object.
    pub fn try_new(
        outputs: &[WholeOutput],
        entries: Vec<RowsEntry>,
        about: Option<&str>,
        done: RowsDone,
    ) -> Result<Self> {
        let target = |output: &WholeOutput| {
            let (path, part) = (output.path().to_path_buf(), output.part().to_path_buf());
            let file = output.file().ok().map(std::fs::File::try_clone).transpose();
            Ok(Target { file: file.map_err(|error| failed(error, &path))?, path, part })
        };
        let targets = outputs.iter().map(target).collect::<Result<_>>()?;
        let recorder = about.map(|about| Recorder::try_new(about, outputs)).transpose()?;
        Ok(RowsSink {
            entries,
            targets,
            files: Vec::new(),
            recorder,
            roi: None,
            n_positions: 0,
            position: done.position,
            done,
            process: std::process::id(),
            finished: false,
        })
    }

    fn open(&self, entry: &RowsEntry, job: &SinkJob<'_>, index: usize) -> Result<RowFile> {
        let wrong = || Error::bug(format!("'{}' is not what the sink expects", entry.name));
        let (udf, decl) = job.buffers.get(index).ok_or_else(wrong)?;
        let target = self.targets.get(entry.output).ok_or_else(wrong)?;
        let BufferDtype::Native(dtype) = decl.dtype else { return Err(wrong()) };
        if (*udf, &decl.name) != (entry.udf, &entry.name) {
            return Err(wrong());
        }
        let shape = [job.shape.nav(), &decl.extra_shape].concat();
        let (opened, header, chunk) = match &entry.layout {
            RowsLayout::Npy => {
                let file = target.file.as_ref().ok_or_else(wrong)?.try_clone();
                (file, npy::header(dtype, &shape), None)
            }
            RowsLayout::Chunks { file, chunk_bytes } => {
                let path = target.part.join(file);
                (file::open(&path), Vec::new(), Some(*chunk_bytes))
            }
        };
        let opened = opened.map_err(|error| failed(error, &target.path))?;
        let cells = framefold_core::checked_product(&decl.extra_shape);
        let size = u64::try_from(dtype.size()).ok();
        let row = cells.zip(size).and_then(|(n, size)| n.checked_mul(size));
        let row = row.ok_or_else(|| Error::limit("a row is too large for a file"))?;
        let mut file = RowFile::try_new(opened, &target.path, dtype, row, chunk)?;
        file.begin(&header, self.done.position, self.n_positions)?;
        Ok(file)
    }

    /// Writes the rows of frames, with positions without a value before them.
    fn put(&mut self, rows: &NewRows<'_>) -> Result<()> {
        let mut first = rows.frames.start;
        let mut left = rows.rows.to_vec();
        while first < rows.frames.end {
            let positions = run_of(self.roi.as_deref(), first..rows.frames.end)?;
            let gap = positions.start.checked_sub(self.position).ok_or_else(|| {
                Error::bug(format!("the rows of position {} came twice", positions.start))
            })?;
            for (file, left) in self.files.iter_mut().zip(&mut left) {
                file.put_missing(gap)?;
                *left = file.put(left, positions.len())?;
            }
            first += positions.len();
            self.position = positions.end;
        }
        Ok(())
    }
}

/// The positions of the first of these frames, as far as they follow each other.
fn run_of(roi: Option<&Roi>, frames: Range<usize>) -> Result<Range<usize>> {
    let Some(roi) = roi else { return Ok(frames) };
    let positions = roi.positions().get(frames).unwrap_or_default();
    let Some(&start) = positions.first() else {
        return Err(Error::bug("rows of frames that are not selected"));
    };
    let follows = |&(i, &position): &(usize, &usize)| position == start + i;
    Ok(start..start + positions.iter().enumerate().take_while(follows).count())
}

impl Sink for RowsSink {
    fn begin(&mut self, job: &SinkJob<'_>) -> Result<usize> {
        self.n_positions = job.shape.n_frames();
        self.roi = job.roi.cloned();
        if self.entries.len() != job.buffers.len() || self.done.position > self.n_positions {
            return Err(Error::bug("the results of a run are not those that its files are for"));
        }
        let files = self.entries.iter().enumerate();
        let files = files.map(|(index, entry)| self.open(entry, job, index));
        self.files = files.collect::<Result<_>>()?;
        if let Some(recorder) = &mut self.recorder {
            recorder.write_now(&mut self.files, self.done)?;
        }
        Ok(self.done.n_merged)
    }

    fn merged(&mut self, rows: &NewRows<'_>) -> Result<()> {
        self.put(rows)?;
        // A record is of whole partitions.
        if rows.n_merged == self.done.n_merged {
            return Ok(());
        }
        self.done = RowsDone { n_merged: rows.n_merged, position: self.position };
        match &mut self.recorder {
            Some(recorder) => recorder.write_now_and_then(&mut self.files, self.done),
            None => Ok(()),
        }
    }

    fn finish(&mut self) -> Result<()> {
        if let Some(recorder) = &mut self.recorder {
            recorder.wait()?;
        }
        let gap = self.n_positions.saturating_sub(self.position);
        for file in &mut self.files {
            file.put_missing(gap)?;
            file.finish(self.n_positions)?;
        }
        self.finished = true;
        Ok(())
    }
}

impl Drop for RowsSink {
    fn drop(&mut self) {
        if self.finished || self.process != std::process::id() || self.files.is_empty() {
            return;
        }
        if let Some(recorder) = &mut self.recorder {
            // What went wrong before is the error of the run; the latest record still holds.
            let _ = recorder.write_now(&mut self.files, self.done);
        }
    }
}

#[cfg(test)]
mod tests;
