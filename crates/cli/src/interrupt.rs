//! Ctrl-C and, where there are such things, SIGTERM and SIGHUP, which comes when a terminal is closed.

use crate::exit;
use framefold::Cancel;
use framefold::core::interrupt;
#[cfg(feature = "view")]
use std::sync::Condvar;
use std::sync::atomic::{AtomicU8, Ordering};
use std::sync::{Mutex, Once, PoisonError};

/// The run that a signal cancels.
static CURRENT: Mutex<Option<Cancel>> = Mutex::new(None);
/// Tells those who wait for a signal.
#[cfg(feature = "view")]
static CAME: Condvar = Condvar::new();
static INSTALL: Once = Once::new();
/// The exit code of a cancelled run: which signal it was.
static CODE: AtomicU8 = AtomicU8::new(exit::INTERRUPTED);

/// A run that the first signal cancels, until this goes. A second one, or one when nothing is running,
/// as while a file is opened and a run is planned, ends the process at once.
pub(crate) struct Interruptible {
    /// Set by the signal.
    pub(crate) cancel: Cancel,
}

impl Interruptible {
    /// Does `work`, which asks now and then whether to go on.
    pub(crate) fn run<T>(&self, work: impl FnOnce() -> T) -> T {
        let cancel = self.cancel.clone();
        interrupt::watched(move || cancel.check(), work)
    }

    /// Waits for a signal, or for a call of [`end`].
    #[cfg(feature = "view")]
    pub(crate) fn wait(&self) {
        let mut current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
        while !self.cancel.is_cancelled() {
            current = CAME.wait(current).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Drop for Interruptible {
    fn drop(&mut self) {
        *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// A new run.
pub(crate) fn cancel_on_interrupt() -> Interruptible {
    let cancel = Cancel::new();
    *CURRENT.lock().unwrap_or_else(PoisonError::into_inner) = Some(cancel.clone());
    CODE.store(exit::INTERRUPTED, Ordering::Relaxed);
    INSTALL.call_once(install);
    Interruptible { cancel }
}

/// Ends what waits for a signal.
#[cfg(feature = "view")]
pub(crate) fn end(run: &Cancel) {
    let _current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    run.cancel();
    CAME.notify_all();
}

/// The exit code of a run that was cancelled.
pub(crate) fn code() -> u8 {
    CODE.load(Ordering::Relaxed)
}

/// Where no handler can be installed, signals end the process: no output is half written even then,
/// because files are renamed into place.
#[cfg(unix)]
fn install() {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
    let mut wanted = vec![SIGINT, SIGTERM];
    // Under `nohup`, SIGHUP is ignored, and stays so.
    wanted.extend((!ignores_hangup()).then_some(SIGHUP));
    let Ok(mut signals) = signal_hook::iterator::Signals::new(wanted) else { return };
    let listen = move || {
        for signal in signals.forever() {
            came(match signal {
                SIGTERM => exit::TERMINATED,
                SIGHUP => exit::HUNG_UP,
                _ => exit::INTERRUPTED,
            });
        }
    };
    let _ = std::thread::Builder::new().name("signals".to_owned()).spawn(listen);
}

/// Whether SIGHUP, the first signal, is ignored; where that cannot be found out, it is left alone.
#[cfg(unix)]
fn ignores_hangup() -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok());
    mask.is_none_or(|mask| mask & 1 == 1)
}

#[cfg(not(unix))]
fn install() {
    let _ = ctrlc::set_handler(|| came(exit::INTERRUPTED));
}

fn came(code: u8) {
    let current = CURRENT.lock().unwrap_or_else(PoisonError::into_inner);
    match current.as_ref() {
        Some(cancel) if !cancel.is_cancelled() => {
            CODE.store(code, Ordering::Relaxed);
            cancel.cancel();
            #[cfg(feature = "view")]
            CAME.notify_all();
        }
        _ => std::process::exit(i32::from(code)),
    }
}
