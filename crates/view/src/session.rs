//! One client: what it asks for, and what waits to be sent to it.
//!
//! A session knows no network. What a client sends goes into [`Session::receive_text`] and
//! [`Session::receive_bytes`], which only note it down; threads of the [`ViewerHost`] do the work; what is to be
//! sent comes out of [`Session::next`], or of [`Session::take`] for those who may not wait.
//!
//! Memory is bounded, whatever a client does: for each pane there is one picture that waits, for everything else
//! a line of limited length.
//!
//! *Invariant:* no picture comes out that belongs to another question than the latest one of its pane. That
//! is looked at under one lock, both where a picture is put down and where it is handed out.

mod base64;
mod binary;
mod encode;
mod files;
mod jobs;
mod line;
mod npy;
mod outbox;
mod reply;
mod request;
mod slot;
mod state;
mod work;

pub use encode::{Precision, encode};

use crate::Background;
use crate::host::{Shown, ViewerHost};
use framefold::Error;
use framefold::core::guarded;
use reply::About;
use request::{Pane, Request};
use slot::Ask;
use state::State;
use std::fmt;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

/// The longest text that a client may send, in bytes.
pub const MAX_TEXT: usize = 1 << 20;
/// The longest binary message that a client may send, in bytes: 64 MiB of weights, and what stands before them.
pub const MAX_BINARY: usize = (64 << 20) + (1 << 17);

/// What is to be sent to a client.
#[derive(Clone, Debug, PartialEq)]
pub enum Message {
    /// JSON.
    Text(String),
    /// A binary message of the protocol.
    Bytes(Vec<u8>),
    /// Nothing any more: the session has ended.
    Closed,
}

/// One client of a [`ViewerHost`].
pub struct Session {
    this: Weak<Session>,
    host: Arc<ViewerHost>,
    state: Mutex<State>,
    /// Something can be handed out.
    ready: Condvar,
    /// Called then, too.
    on_ready: OnceLock<Box<dyn Fn() + Send + Sync>>,
}

impl Session {
    /// A client of what `host` shows now.
    pub fn new(host: Arc<ViewerHost>) -> Arc<Session> {
        let state = Mutex::new(State::new(host.current()));
        let (ready, on_ready) = (Condvar::new(), OnceLock::new());
        let session =
            |this: &Weak<Session>| Session { this: this.clone(), host, state, ready, on_ready };
        let session = Arc::new_cyclic(session);
        let shown = session.lock().shown.clone();
        session.watch(&shown);
        session
    }

    /// What is called, from any thread, when something may be handed out; the first one stays. It must not
    /// block.
    pub fn set_on_ready(&self, call: impl Fn() + Send + Sync + 'static) {
        let _ = self.on_ready.set(Box::new(call));
    }

    /// Takes a text of the client. Does not block; from any thread.
    pub fn receive_text(&self, text: &str) {
        if text.len() > MAX_TEXT {
            return self.end_with(&too_long(text.len(), MAX_TEXT, "a message"));
        }
        match request::parse(text) {
            Ok(request) => self.receive(request),
            Err((error, about)) => self.tell(reply::error(&error, &about)),
        }
    }

    /// Takes a binary message of the client. Does not block; from any thread.
    pub fn receive_bytes(&self, bytes: &[u8]) {
        if bytes.len() > MAX_BINARY {
            return self.end_with(&too_long(bytes.len(), MAX_BINARY, "a binary message"));
        }
        match binary::parse(bytes) {
            Ok((id, mask)) => self.line_up(id, jobs::Job::Mask(mask)),
            Err((error, about)) => self.tell(reply::error(&error, &about)),
        }
    }

    fn receive(&self, request: Request) {
        match request {
            Request::Hello { version } => self.hello(version),
            Request::Ask { pane, ask } => self.ask(pane, ask),
            Request::Ack { pane } => self.change(|state| state.slot(pane).ack()),
            Request::Cancel { pane } => self.change(|state| state.slot(pane).cancel()),
            Request::Job { id, job } => self.line_up(id, job),
        }
    }

    /// The next message for the client. Waits up to `timeout` for one; `None` if there is none by then.
    pub fn next(&self, timeout: Duration) -> Option<Message> {
        let until = Instant::now().checked_add(timeout);
        let mut state = self.lock();
        loop {
            if let Some(message) = state.take() {
                drop(state);
                // What waits until a file was handed out may go on.
                self.go_on();
                return Some(message);
            }
            let now = Instant::now();
            let left = until.map_or(Duration::MAX, |until| until.saturating_duration_since(now));
            if left.is_zero() {
                return None;
            }
            let woken = self.ready.wait_timeout(state, left);
            state = woken.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// The next message for the client, if there is one now.
    pub fn take(&self) -> Option<Message> {
        self.next(Duration::ZERO)
    }

    /// Ends the session: stops what is computed for it. From any thread, also more than once.
    pub fn close(&self) {
        self.change(State::close);
    }

    /// Ends the session with an error as its last message.
    pub fn end_with(&self, error: &Error) {
        let text = reply::error(error, &About::Nothing);
        self.change(|state| state.close_with(text));
    }

    fn hello(&self, version: u64) {
        if version != reply::VERSION {
            let error = Error::unsupported(format!(
                "the page speaks version {version} of the viewer's messages, this is version {}",
                reply::VERSION
            ));
            return self
                .tell(reply::error(&error.with_hint("load the page again"), &About::Nothing));
        }
        let shown = self.lock().shown.clone();
        let said = guarded(|| Ok(reply::hello(&shown, &self.host, None)));
        self.tell(said.unwrap_or_else(|error| reply::error(&error, &About::Nothing)));
        self.progress(&shown, &shown.viewer.background());
    }

    /// Has the client learn how far the pass in the background is, as long as it looks at this data set.
    fn watch(&self, shown: &Arc<Shown>) {
        let (this, viewed) = (self.this.clone(), Arc::downgrade(shown));
        shown.viewer.watch(move |now| match (this.upgrade(), viewed.upgrade()) {
            (Some(session), Some(shown)) => session.progress(&shown, now),
            _ => false,
        });
    }

    fn progress(&self, shown: &Arc<Shown>, now: &Background) -> bool {
        match reply::progress(now) {
            Some(text) => self.change(|state| state.progress(shown, text)),
            None => true,
        }
    }

    fn ask(&self, pane: Pane, ask: Ask) {
        let about = About::Picture { pane, generation: ask.generation };
        match self.change(|state| state.ask(pane, ask)) {
            Ok(()) => self.go_on(),
            Err(error) => self.tell(reply::error(&error, &about)),
        }
    }

    fn line_up(&self, id: u64, job: jobs::Job) {
        match self.change(|state| state.line_up(id, job)) {
            Ok(()) => self.go_on(),
            Err(error) => self.tell(reply::error(&error, &About::Id(id))),
        }
    }

    /// Puts a text at the end of what is to be sent.
    fn tell(&self, text: String) {
        self.change(|state| state.event(Message::Text(text)));
    }

    /// Has the host's threads do what may be done now.
    fn go_on(&self) {
        let entries = self.lock().entries();
        for (task, class) in entries {
            let Some(this) = self.this.upgrade() else { return };
            self.host.pool().push(class, Box::new(move || this.work(task, class)));
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Changes the state, then tells those who wait for messages.
    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let result = change(&mut self.lock());
        self.ready.notify_all();
        if let Some(call) = self.on_ready.get() {
            call();
        }
        result
    }
}

impl fmt::Debug for Session {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Session").finish_non_exhaustive()
    }
}

fn too_long(found: usize, most: usize, what: &str) -> Error {
    Error::limit(format!("{what} of {found} bytes was received, at most {most} are allowed"))
}

/// What a thread of the host is to do for a session.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Task {
    /// Answer the latest question of a pane.
    Pane(Pane),
    /// Do the next of the jobs that are done one after the other.
    Line,
}

/// An error, and what it is about.
type Refusal = (Error, About);
