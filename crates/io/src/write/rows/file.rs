//! One file of rows.

use crate::write::whole::failed;
use crc32c::crc32c_append;
use framefold_core::{DType, Error, Result, TypedVec};
use std::fs::{File, OpenOptions};
use std::io::{BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// Smaller pieces are collected.
const COLLECTED_BYTES: usize = 1 << 20;
/// Values that stand for none are written so many at a time.
const MISSING_CELLS: usize = 8 << 10;

pub(super) struct RowFile {
    out: BufWriter<File>,
    /// What it belongs to, for messages.
    path: PathBuf,
    /// The size of a row.
    row: u64,
    /// The size of a chunk, if there is an index of chunks at the end.
    chunk: Option<u64>,
    missing: TypedVec,
}

impl RowFile {
    pub(super) fn try_new(
        file: File,
        path: &Path,
        dtype: DType,
        row: u64,
        chunk: Option<u64>,
    ) -> Result<Self> {
        let missing = TypedVec::try_missing(dtype, MISSING_CELLS)?;
        let out = BufWriter::with_capacity(COLLECTED_BYTES, file);
        Ok(RowFile { out, path: path.to_path_buf(), row, chunk, missing })
    }

    /// Writes the header, or goes on after the rows of `n_there` positions. Space for all of it is
    /// taken, where the file system can do that, so that a full disk shows at once.
    pub(super) fn begin(&mut self, header: &[u8], n_there: usize, n_rows: usize) -> Result<()> {
        let header_bytes = len(header.len());
        let end = |n: usize| self.rows_bytes(n)?.checked_add(header_bytes).ok_or_else(too_large);
        let (start, end) = (end(n_there)?, end(n_rows)?);
        let there = self.out.get_ref().metadata().map_err(|error| self.failed(error))?.len();
        if n_there > 0 && there < start {
            return Err(Error::bad_file(format!(
                "the part of an earlier run has {there} bytes, and its record says {start}"
            ))
            .with_path(&self.path)
            .with_hint("begin anew, without resume=True"));
        }
        let begin = |file: &mut File| {
            // What came after the latest record is written again.
            file.set_len(if n_there > 0 { start } else { 0 })?;
            take_space(file, end)?;
            file.seek(SeekFrom::Start(0))?;
            file.write_all(header)?;
            file.seek(SeekFrom::Start(start))
        };
        begin(self.out.get_mut()).map(drop).map_err(|error| self.failed(error))
    }

    /// Writes the next `n` rows, which `rows` begins with, and gives the others back.
    pub(super) fn put<'r>(&mut self, rows: &'r [u8], n: usize) -> Result<&'r [u8]> {
        let len_bytes = usize::try_from(self.rows_bytes(n)?).ok();
        let parts = len_bytes.and_then(|len_bytes| rows.split_at_checked(len_bytes));
        let (next, rest) = parts.ok_or_else(|| Error::bug("there are too few rows for a file"))?;
        self.write(next)?;
        Ok(rest)
    }

    /// Writes `n` rows that stand for no value.
    pub(super) fn put_missing(&mut self, n: usize) -> Result<()> {
        let mut left = self.rows_bytes(n)?;
        let missing = std::mem::replace(&mut self.missing, TypedVec::zeros(DType::U8, 0));
        let mut outcome = Ok(());
        while left > 0 && outcome.is_ok() {
            let now = usize::try_from(left).unwrap_or(usize::MAX).min(missing.as_bytes().len());
            outcome = self.write(missing.as_bytes().get(..now).unwrap_or_default());
            left -= len(now);
        }
        self.missing = missing;
        outcome
    }

    /// Writes what comes after the rows, of which there are `n_rows`, and waits until all is on the
    /// disk.
    pub(super) fn finish(&mut self, n_rows: usize) -> Result<()> {
        if let Some(chunk) = self.chunk.filter(|&chunk| chunk > 0) {
            let rows = self.rows_bytes(n_rows)?;
            let n_chunks = rows.div_ceil(chunk);
            let end = n_chunks.checked_mul(chunk).ok_or_else(too_large)?;
            let mut padding = end - rows;
            let zeros = [0; 4096];
            while padding > 0 {
                let now = usize::try_from(padding).unwrap_or(usize::MAX).min(zeros.len());
                self.write(zeros.get(..now).unwrap_or_default())?;
                padding -= len(now);
            }
            let mut sum = 0;
            for i in 0..n_chunks {
                for number in [i * chunk, chunk] {
                    let bytes = number.to_le_bytes();
                    sum = crc32c_append(sum, &bytes);
                    self.write(&bytes)?;
                }
            }
            self.write(&sum.to_le_bytes())?;
        }
        self.flush()?;
        self.out.get_ref().sync_data().map_err(|error| self.failed(error))
    }

    /// Hands everything over to the system.
    pub(super) fn flush(&mut self) -> Result<()> {
        self.out.flush().map_err(|error| self.failed(error))
    }

    /// The file, for another thread.
    pub(super) fn file(&self) -> Result<File> {
        self.out.get_ref().try_clone().map_err(|error| self.failed(error))
    }

    fn write(&mut self, bytes: &[u8]) -> Result<()> {
        self.out.write_all(bytes).map_err(|error| self.failed(error))
    }

    fn rows_bytes(&self, n: usize) -> Result<u64> {
        len(n).checked_mul(self.row).ok_or_else(too_large)
    }

    fn failed(&self, error: std::io::Error) -> Error {
        failed(error, &self.path)
    }
}

/// Opens a file in a folder that may not be there yet.
pub(super) fn open(path: &Path) -> std::io::Result<File> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    OpenOptions::new().read(true).write(true).create(true).truncate(false).open(path)
}

fn len(n: usize) -> u64 {
    u64::try_from(n).unwrap_or(u64::MAX)
}

fn too_large() -> Error {
    Error::limit("the output would not fit a file")
}

/// Makes a file so long, with its place on the disk.
#[cfg(target_os = "linux")]
fn take_space(file: &File, len_bytes: u64) -> std::io::Result<()> {
    use std::os::fd::AsRawFd;
    let Ok(len_bytes) = libc::off_t::try_from(len_bytes) else {
        return Err(std::io::ErrorKind::FileTooLarge.into());
    };
    if len_bytes == 0 {
        return Ok(());
    }
    loop {
        // SAFETY: plain numbers, and a file that is open.
        if unsafe { libc::fallocate(file.as_raw_fd(), 0, 0, len_bytes) } == 0 {
            return Ok(());
        }
        let error = std::io::Error::last_os_error();
        match error.raw_os_error() {
            Some(libc::EINTR) => {}
            // The file system cannot do that.
            Some(libc::EOPNOTSUPP | libc::ENOSYS | libc::EINVAL) => return Ok(()),
            _ => return Err(error),
        }
    }
}

#[cfg(not(target_os = "linux"))]
fn take_space(_file: &File, _len_bytes: u64) -> std::io::Result<()> {
    Ok(())
}
