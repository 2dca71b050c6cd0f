//! What the host's threads do for a session.

use super::jobs::Answer;
use super::reply::{self, About};
use super::request::Pane;
use super::{Message, Session, Task, encode};
use crate::Viewer;
use crate::host::Class;
use framefold::core::guarded;
use framefold::{Error, Result, io};

impl Session {
    /// Does a task whose turn it is, if there is still something to do. A panic is an error as any other.
    pub(super) fn work(&self, task: Task, class: Class) {
        match task {
            Task::Pane(pane) => self.answer(pane, class),
            Task::Line => self.do_job(class),
        }
        self.go_on();
    }

    fn answer(&self, pane: Pane, class: Class) {
        let mut state = self.lock();
        let Some((ask, cancel)) = state.slot(pane).begin(class) else { return };
        let shown = state.shown.clone();
        drop(state);
        let generation = ask.generation;
        let result = guarded(|| {
            check_unchanged(&shown.viewer)?;
            shown.viewer.answer(&ask.query, ask.wish, &cancel, &mut |picture| {
                // Not worth to be encoded.
                cancel.check()?;
                let message = encode::encode_for(&picture, pane, generation, ask.precision);
                match self.change(|state| state.slot(pane).offer(generation, message)) {
                    true => Ok(()),
                    false => Err(Error::cancelled()),
                }
            })
        });
        let end = match result {
            Ok(()) => reply::done(pane, generation),
            Err(error) => reply::error(&error, &About::Picture { pane, generation }),
        };
        self.change(|state| state.slot(pane).finish(generation, end));
    }

    fn do_job(&self, class: Class) {
        let Some((id, job, cancel)) = self.lock().line.begin(class) else { return };
        let result = guarded(|| self.done(id, job, &cancel));
        let other = match &result {
            Ok(Answer::Replace(shown, _)) => Some(shown.clone()),
            _ => None,
        };
        self.change(|state| {
            state.line.finish();
            match result {
                Ok(Answer::Message(message)) => state.event(message),
                Ok(Answer::Replace(shown, hello)) => state.replace(shown, hello),
                Err(error) => {
                    state.event(Message::Text(reply::error(&error, &About::Id(id))));
                }
            }
        });
        if let Some(shown) = other {
            self.watch(&shown);
            self.progress(&shown, &shown.viewer.background());
        }
    }
}

/// An error if a file is another one now: what is open of the old one would be shown on and on.
pub(super) fn check_unchanged(viewer: &Viewer) -> Result<()> {
    match viewer.is_unchanged() {
        true => Ok(()),
        // It was deleted, or it has grown, perhaps.
        false => io::check_unchanged(viewer.dataset()),
    }
}
