//! The progress bar.

use framefold::Result;
use framefold::exec::{Event, Observer, Results};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::IsTerminal;

const TEMPLATE: &str = "{msg} {wide_bar} {percent:>3}% {binary_bytes} of {binary_total_bytes}, \
     {binary_bytes_per_sec}, {eta} left";

/// Shows a run on standard error, if that is a terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    /// A bar labelled `name`; hidden if `quiet`, or if nobody would see it.
    pub(crate) fn new(name: String, quiet: bool) -> Self {
        let hidden = quiet || !std::io::stderr().is_terminal();
        let bar = if hidden { ProgressBar::hidden() } else { ProgressBar::new(0) };
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        bar.set_message(name);
        Progress { bar }
    }
}

impl Observer for Progress {
    fn event(&mut self, event: &Event, _: &Results) -> Result<()> {
        match event {
            Event::Started { bytes, .. } => {
                self.bar.set_length(*bytes);
                self.bar.reset_eta();
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
