//! All that a session holds under its lock.

use super::jobs::Job;
use super::line::Line;
use super::outbox::Outbox;
use super::request::Pane;
use super::slot::{Ask, Slot};
use super::{Message, Task, reply};
use crate::host::{Class, Shown};
use framefold::{Error, Result};
use std::sync::Arc;

pub(super) struct State {
    pub(super) shown: Arc<Shown>,
    pub(super) line: Line,
    slots: [Slot; 2],
    /// The pane whose turn it is.
    turn: usize,
    outbox: Outbox,
    /// How far the pass in the background is, if that has not been sent.
    progress: Option<String>,
    closed: bool,
}

impl State {
    pub(super) fn new(shown: Arc<Shown>) -> Self {
        let slots = [Slot::new(Pane::Scan), Slot::new(Pane::Pattern)];
        let (line, outbox) = (Line::default(), Outbox::default());
        State { shown, line, slots, turn: 0, outbox, progress: None, closed: false }
    }

    pub(super) fn slot(&mut self, pane: Pane) -> &mut Slot {
        let [scan, pattern] = &mut self.slots;
        match pane {
            Pane::Scan => scan,
            Pane::Pattern => pattern,
        }
    }

    pub(super) fn ask(&mut self, pane: Pane, ask: Ask) -> Result<()> {
        if self.closed { Ok(()) } else { self.slot(pane).ask(ask) }
    }

    pub(super) fn line_up(&mut self, id: u64, job: Job) -> Result<()> {
        if self.closed { Ok(()) } else { self.line.add(id, job) }
    }

    /// What threads of the host may begin with, each once.
    pub(super) fn entries(&mut self) -> Vec<(Task, Class)> {
        let room = self.outbox.has_room_for_files();
        let [scan, pattern] = &mut self.slots;
        // Frames under the pointer first.
        let slots = [(Pane::Pattern, pattern), (Pane::Scan, scan)];
        let slots = slots.into_iter();
        let mut entries: Vec<(Task, Class)> =
            slots.filter_map(|(pane, slot)| Some((Task::Pane(pane), slot.entry()?))).collect();
        if room {
            entries.extend(self.line.entry().map(|class| (Task::Line, class)));
        }
        entries
    }

    /// Adds a message to what is to be sent; a client that lets too many wait is sent away.
    pub(super) fn event(&mut self, message: Message) {
        if self.closed {
            return;
        }
        if let Err(error) = self.outbox.push(message) {
            self.close_with(reply::error(&error, &reply::About::Nothing));
        }
    }

    /// Another data set: pictures of the one before are stale.
    pub(super) fn replace(&mut self, shown: Arc<Shown>, hello: String) {
        if self.closed {
            return;
        }
        self.shown = shown;
        self.progress = None;
        self.slots.iter_mut().for_each(Slot::cancel);
        self.event(Message::Text(hello));
    }

    pub(super) fn close(&mut self) {
        self.closed = true;
        self.slots.iter_mut().for_each(Slot::cancel);
        self.line.clear();
        self.outbox.clear();
        self.progress = None;
    }

    /// Replaces the message about how far the background pass of `shown` is; false once the session is closed or
    /// shows something else.
    pub(super) fn progress(&mut self, shown: &Arc<Shown>, text: String) -> bool {
        let wanted = !self.closed && Arc::ptr_eq(&self.shown, shown);
        if wanted {
            self.progress = Some(text);
        }
        wanted
    }

    pub(super) fn close_with(&mut self, text: String) {
        if !self.closed {
            self.close();
            self.outbox.last(Message::Text(text));
        }
    }

    /// What is sent next: answers and errors before pictures, pictures of both panes in turn, progress last.
    pub(super) fn take(&mut self) -> Option<Message> {
        if let Some(message) = self.outbox.pop() {
            return Some(message);
        }
        if self.closed {
            return Some(Message::Closed);
        }
        let [scan, pattern] = &mut self.slots;
        let turns =
            if self.turn == 0 { [(1, scan), (0, pattern)] } else { [(0, pattern), (1, scan)] };
        for (next, slot) in turns {
            if let Some(message) = slot.take() {
                self.turn = next;
                return Some(message);
            }
        }
        self.progress.take().map(Message::Text)
    }
}

/// The error of a session whose client does not read its answers.
pub(super) fn overflow(n: usize) -> Error {
    Error::limit(format!("{n} answers wait for a client that does not read them"))
        .with_hint("load the page again")
}
