//! What a client wants besides pictures.

use super::binary::{SentMask, Weights};
use super::{Message, Session, reply};
use crate::Query;
use crate::host::{Class, ScanChoice};
use framefold::{Cancel, Error, Result};
use serde::Deserialize;
use serde_json::{Value, json};

/// A job.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Job {
    Guess(Guess, Value),
    Mask(SentMask),
    Files(Option<String>),
    Open(Option<String>, ScanChoice),
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
        let viewer = self.lock().viewer.clone();
        let none = || Error::unsupported("this viewer makes no files");
        let exporter = || self.host.options().exporter.clone().ok_or_else(none);
        match job {
            Job::Guess(..) => Err(Error::unsupported("guesses are not made yet")),
            Job::Mask(_) => Err(Error::unsupported("masks are not taken yet")),
            Job::Files(folder) => {
                let listing = self.host.opener().files(folder.as_deref())?;
                let text = reply::answer("files", id, json!(listing));
                Ok(Answer::Message(Message::Text(text)))
            }
            Job::Open(file, scan) => {
                let viewer = self.host.open(file.as_deref(), scan)?;
                let hello = reply::hello(&viewer, &self.host, Some(id));
                Ok(Answer::Replace(viewer, hello))
            }
            Job::Export(query, format) => {
                let file = exporter()?.export(&viewer, &query, &format, cancel)?;
                Ok(Answer::Message(Message::Bytes(reply::file(id, &file))))
            }
            Job::Script(form, queries, state) => {
                let file = exporter()?.script(&viewer, &form, &queries, &state)?;
                Ok(Answer::Message(Message::Bytes(reply::file(id, &file))))
            }
        }
    }
}

/// What comes of a job.
pub(super) enum Answer {
    /// A message.
    Message(Message),
    /// Another data set, and the message that says so.
    Replace(std::sync::Arc<crate::Viewer>, String),
}
