//! What a client wants besides pictures: jobs that are done one after the other.

use super::jobs::Job;
use crate::host::Class;
use framefold::{Cancel, Error, Result};
use std::collections::VecDeque;

/// How many jobs may wait.
const MAX_JOBS: usize = 16;
/// How many bytes of what was sent with jobs may wait.
const MAX_BYTES: usize = 2 * super::MAX_BINARY;

#[derive(Default)]
pub(super) struct Line {
    waiting: VecDeque<(u64, Job)>,
    running: Option<Cancel>,
    /// Of which classes there are entries in the host's line.
    entered: [bool; 2],
}

impl Line {
    /// # Errors
    /// `Limit` if too many wait.
    pub(super) fn add(&mut self, id: u64, job: Job) -> Result<()> {
        let bytes: usize = self.waiting.iter().map(|(_, job)| job.size()).sum();
        if self.waiting.len() >= MAX_JOBS || bytes.saturating_add(job.size()) > MAX_BYTES {
            let n = self.waiting.len();
            return Err(Error::limit(format!("{n} jobs of this client wait already"))
                .with_hint("wait for an answer"));
        }
        self.waiting.push_back((id, job));
        Ok(())
    }

    /// As what the next job is to be entered in the host's line, if it may begin and is not there yet.
    pub(super) fn entry(&mut self) -> Option<Class> {
        if self.running.is_some() {
            return None;
        }
        let class = self.waiting.front()?.1.class();
        let entered = self.entered.get_mut(class as usize)?;
        (!std::mem::replace(entered, true)).then_some(class)
    }

    /// The next job, for the thread whose turn an entry is.
    pub(super) fn begin(&mut self, class: Class) -> Option<(u64, Job, Cancel)> {
        if let Some(entered) = self.entered.get_mut(class as usize) {
            *entered = false;
        }
        if self.running.is_some() || self.waiting.front()?.1.class() != class {
            return None;
        }
        let (id, job) = self.waiting.pop_front()?;
        let cancel = Cancel::new();
        self.running = Some(cancel.clone());
        Some((id, job, cancel))
    }

    /// The job that was begun has ended.
    pub(super) fn finish(&mut self) {
        self.running = None;
    }

    /// Forgets all jobs, and stops the one that goes on.
    pub(super) fn clear(&mut self) {
        self.waiting.clear();
        if let Some(cancel) = &self.running {
            cancel.cancel();
        }
    }
}
