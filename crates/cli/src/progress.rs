//! The progress bar.

use framefold::Result;
use framefold::exec::{Event, Observer, Results};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use std::io::IsTerminal;

const TEMPLATE: &str = "{msg} {wide_bar} {percent:>3}% {binary_bytes} of {binary_total_bytes}, \
     {binary_bytes_per_sec}, {eta} left";

/// Shows a run on standard error, if that is a terminal.
pub(crate) struct Progress {
    bar: ProgressBar,
    visible: bool,
}

impl Progress {
    /// A bar labelled `name`, shown from the start of the run on; hidden if `quiet`, or if nobody
    /// would see it.
    pub(crate) fn new(name: String, quiet: bool) -> Self {
        let bar = ProgressBar::hidden().with_message(name);
        if let Ok(style) = ProgressStyle::with_template(TEMPLATE) {
            bar.set_style(style);
        }
        Progress { bar, visible: !quiet && std::io::stderr().is_terminal() }
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
