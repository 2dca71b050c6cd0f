//! Records of how far files of rows are: never further than what is on the disk.

use super::RowsDone;
use super::file::RowFile;
use crate::write::whole::{Record, WholeOutput, failed};
use framefold_core::{Error, Result, guarded};
use serde_json::{Map, Value};
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How much work a killed run loses, but for what takes longer to get to the disk.
const EVERY: Duration = Duration::from_secs(1);

/// Writes the same record beside each output.
pub(super) struct Recorder {
    about: Map<String, Value>,
    /// With the output that each is about.
    records: Arc<[(PathBuf, Record)]>,
    /// What waits for the disk.
    under_way: Option<JoinHandle<Result<()>>>,
    latest: Instant,
}

impl Recorder {
    pub(super) fn try_new(about: &str, outputs: &[WholeOutput]) -> Result<Self> {
        let about = serde_json::from_str(about).map_err(|error| {
            Error::bug(format!("what a record is to say is no object: {error}"))
        })?;
        let records = outputs.iter().map(|each| (each.path().to_path_buf(), each.record()));
        let (records, latest) = (records.collect(), Instant::now());
        Ok(Recorder { about, records, under_way: None, latest })
    }

    /// Starts to write a record if the latest one is old enough; the files go on meanwhile.
    ///
    /// # Errors
    /// `Io`, also of the record before.
    pub(super) fn write_now_and_then(
        &mut self,
        files: &mut [RowFile],
        done: RowsDone,
    ) -> Result<()> {
        if self.latest.elapsed() < EVERY {
            return Ok(());
        }
        if self.under_way.as_ref().is_some_and(|thread| !thread.is_finished()) {
            return Ok(());
        }
        self.wait()?;
        let work = self.prepare(files, done)?;
        let named = std::thread::Builder::new().name("framefold-record".into());
        self.under_way = named.spawn(move || guarded(work)).ok();
        self.latest = Instant::now();
        Ok(())
    }

    /// Writes a record, and waits for it.
    ///
    /// # Errors
    /// `Io`, also of the record before.
    pub(super) fn write_now(&mut self, files: &mut [RowFile], done: RowsDone) -> Result<()> {
        self.wait()?;
        self.prepare(files, done)?()
    }

    /// Waits for the latest record.
    ///
    /// # Errors
    /// `Io`.
    pub(super) fn wait(&mut self) -> Result<()> {
        let Some(thread) = self.under_way.take() else { return Ok(()) };
        thread.join().unwrap_or_else(|_| Err(Error::bug("the thread of a record is lost")))
    }

    /// What makes a record of what the files hold now.
    fn prepare(
        &self,
        files: &mut [RowFile],
        done: RowsDone,
    ) -> Result<impl FnOnce() -> Result<()> + Send + 'static> {
        let mut synced: Vec<File> = Vec::with_capacity(files.len());
        for file in files {
            file.flush()?;
            synced.push(file.file()?);
        }
        let mut record = self.about.clone();
        record.insert("partitions".into(), done.n_merged.into());
        record.insert("positions".into(), done.position.into());
        let text = format!("{:#}\n", Value::Object(record));
        let records = self.records.clone();
        Ok(move || {
            let path = || records.first().map(|(path, _)| path.clone()).unwrap_or_default();
            for file in synced {
                file.sync_data().map_err(|error| failed(error, &path()))?;
            }
            for (path, record) in records.iter() {
                record.write(&text).map_err(|error| failed(error, path))?;
            }
            Ok(())
        })
    }
}
