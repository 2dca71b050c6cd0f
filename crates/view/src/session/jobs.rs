//! What a client wants besides pictures.

use super::binary::{SentMask, Weights};
use super::work::check_unchanged;
use super::{Message, Session, files, npy, reply};
use crate::export::FileMade;
use crate::host::{Class, Shown, Wanted};
use crate::{Query, ScanQuery};
use framefold::{Cancel, Error, Result};
use serde::Deserialize;
use serde_json::{Value, json};
use std::sync::Arc;

/// A job.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Job {
    Guess(Guess, Value),
    Mask(SentMask),
    Files(Option<String>),
    Open(Wanted),
    Export(Query, String),
    Script(String, Vec<Query>, Value),
}

/// What is to be guessed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Guess {
    /// The bright disk of the mean pattern.
    Disk,
    /// Rotation, flip and centre of vectors.
    Com,
}

impl Job {
    /// How long it takes.
    pub(super) fn class(&self) -> Class {
        match self {
            Job::Mask(_) | Job::Files(_) | Job::Open(..) | Job::Script(..) => Class::Fast,
            Job::Guess(..) | Job::Export(..) => Class::Slow,
        }
    }

    /// Whether it reads frames of the data set that is shown.
    pub(super) fn reads(&self) -> bool {
        matches!(self, Job::Guess(..) | Job::Export(..))
    }

    /// How many bytes of arrays it holds.
    pub(super) fn size(&self) -> usize {
        match self {
            Job::Mask(SentMask { weights: Weights::Plain(_, weights), .. }) => 4 * weights.len(),
            Job::Mask(SentMask { weights: Weights::Npy(bytes), .. }) => bytes.len(),
            _ => 0,
        }
    }
}

impl Session {
    /// Does a job; the answer to it.
    pub(super) fn done(&self, id: u64, job: Job, cancel: &Cancel) -> Result<Answer> {
        let shown = self.lock().shown.clone();
        let viewer = &shown.viewer;
        if job.reads() {
            check_unchanged(viewer)?;
        }
        let text = |kind, fields| Answer::Message(Message::Text(reply::answer(kind, id, fields)));
        let file = |file: &FileMade| Answer::Message(Message::Bytes(reply::file(id, file)));
        Ok(match job {
            Job::Guess(Guess::Disk, _) => text("guess", json!(viewer.guess_disk(cancel)?)),
            Job::Guess(Guess::Com, query) => {
                text("guess", json!(viewer.guess_com(&scan_query(query)?, cancel)?))
            }
            Job::Mask(SentMask { name, weights }) => {
                let (shape, weights) = match weights {
                    Weights::Plain(shape, weights) => (shape, weights),
                    Weights::Npy(bytes) => npy::weights(&bytes)?,
                };
                let mask = viewer.add_mask(&shape, weights)?;
                text("mask", json!({ "mask": mask, "name": name, "shape": shape }))
            }
            Job::Files(folder) => {
                text("files", json!(self.host.opener().files(folder.as_deref())?))
            }
            Job::Open(wanted) => {
                let shown = self.host.open(&shown, wanted)?;
                let hello = reply::hello(&shown, &self.host, Some(id));
                Answer::Replace(shown, hello)
            }
            Job::Export(query, format) => file(&files::array(&shown, &query, &format, cancel)?),
            Job::Script(form, queries, state) => {
                file(&files::script(&shown, &form, &queries, &state, self.host.options())?)
            }
        })
    }
}

/// The query of a guess: that of a picture of the scan, or nothing.
fn scan_query(query: Value) -> Result<ScanQuery> {
    let mut query = query;
    if let Some(query) = query.as_object_mut() {
        query.remove("pane");
    }
    if query.is_null() {
        return Ok(ScanQuery::default());
    }
    ScanQuery::deserialize(query)
        .map_err(|error| Error::invalid(format!("a query is wrong: {error}")))
}

/// What comes of a job.
pub(super) enum Answer {
    /// A message.
    Message(Message),
    /// Another data set, and the message that says so.
    Replace(Arc<Shown>, String),
}
