//! Progress bars.

use framefold::Result;
use framefold::exec::{Event, Observer, Results};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

const TEMPLATE: &str = "{msg} {wide_bar} {percent:>3}% {binary_bytes} of {binary_total_bytes}, \
     {binary_bytes_per_sec}, {eta} left";

const FRAMES_TEMPLATE: &str = "{msg} {wide_bar} {percent:>3}% {pos} of {len} frames, {eta} left";

/// Shows a run on standard error, if that is a terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
    visible: bool,
}

impl Progress {
    /// A bar labelled `name`, shown from the start of the run on; hidden if `quiet`, or if standard
    /// error is no terminal.
    pub(crate) fn new(name: String, quiet: bool) -> Self {
        let bar = ProgressBar::hidden().with_message(name);
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        Progress { bar, visible: !quiet && std::io::stderr().is_terminal() }
    }
}

/// Shows on standard error how many frames are done, if that is a terminal.
pub(crate) struct Frames(ProgressBar);

impl Frames {
    /// A bar labelled `name`, hidden if `quiet`, or if standard error is no terminal.
    pub(crate) fn new(name: String, n_frames: usize, quiet: bool) -> Self {
        let bar = ProgressBar::hidden().with_message(name);
        if let Ok(style) = ProgressStyle::with_template(FRAMES_TEMPLATE) {
            bar.set_style(style);
        }
        bar.set_length(n_frames as u64);
        if !quiet && std::io::stderr().is_terminal() {
            bar.set_draw_target(ProgressDrawTarget::stderr());
        }
        Frames(bar)
    }

    /// So many frames are done.
    pub(crate) fn set(&mut self, n_done: u64) {
        self.0.set_position(n_done);
    }
}

impl Drop for Frames {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}

impl Observer for Progress {
    fn event(&mut self, event: &Event, _: &Results) -> Result<()> {
        match event {
            Event::Started { bytes, .. } => {
                self.bar.set_length(*bytes);
                self.bar.reset();
                if self.visible {
                    self.bar.set_draw_target(ProgressDrawTarget::stderr());
                }
            }
            Event::Merged { bytes, .. } => self.bar.set_position(*bytes),
            _ => self.bar.finish_and_clear(),
        }
        Ok(())
    }

    fn poll(&mut self) -> Result<()> {
        self.bar.tick();
        Ok(())
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
