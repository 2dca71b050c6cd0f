//! Workers that share pieces, while the calling thread tells how far they are.

use framefold_core::{Cancel, Error, ErrorKind, Result, guarded, interrupt};
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError, Sender};
use std::time::Duration;

/// How often the pool looks whether it is to stop.
const TICK: Duration = Duration::from_millis(100);

/// What workers tell the calling thread, and hear from it.
pub(super) struct Link<'p> {
    sender: Sender<u64>,
    stop: &'p Cancel,
}

impl Link<'_> {
    /// So many frames more are done.
    ///
    /// # Errors
    /// `Cancelled` if a job failed, or the caller has stopped waiting.
    pub(super) fn done(&self, n_frames: u64) -> Result<()> {
        // Only the caller's end is ever closed, and then there is no receiver.
        let _ = self.sender.send(n_frames);
        self.check()
    }

    /// # Errors
    /// As [`Link::done`].
    pub(super) fn check(&self) -> Result<()> {
        self.stop.check()
    }
}

/// Calls `work` with each of `0..n`, in ascending order as far as they begin, on some threads.
///
/// `tick` is called on this thread with the frames that were done since; an error from it stops
/// the workers.
///
/// # Errors
/// That of `tick`, or that of the first piece which failed; `Bug` if it panicked; `Io` if no thread
/// can be started.
pub(super) fn share<W>(
    n: usize,
    threads: Option<NonZeroUsize>,
    worker: &(dyn Fn() -> Result<W> + Sync),
    work: &(dyn Fn(&mut W, usize, &Link<'_>) -> Result<()> + Sync),
    tick: &mut dyn FnMut(u64) -> Result<()>,
) -> Result<()> {
    let threads = threads.or_else(|| std::thread::available_parallelism().ok());
    let n_threads = threads.map_or(1, NonZeroUsize::get).min(n).max(1);
    let (stop, next) = (&Cancel::new(), &AtomicUsize::new(0));
    std::thread::scope(|scope| {
        let (sender, receiver) = mpsc::channel();
        let mut workers = Vec::with_capacity(n_threads);
        for _ in 0..n_threads {
            let link = Link { sender: sender.clone(), stop };
            let spawned = std::thread::Builder::new().spawn_scoped(scope, move || {
                let mut mine = usize::MAX;
                let pieces = || -> Result<()> {
                    let mut state = worker()?;
                    loop {
                        link.check()?;
                        mine = next.fetch_add(1, Ordering::Relaxed);
                        if mine >= n {
                            return Ok(());
                        }
                        work(&mut state, mine, &link)?;
                    }
                };
                // Within pieces as well: one may take long to read.
                let wanted = stop.clone();
                let pieces = || interrupt::watched(move || wanted.check(), pieces);
                guarded(pieces).map_err(|error| {
                    stop.cancel();
                    (mine, error)
                })
            });
            match spawned {
                Ok(worker) => workers.push(worker),
                // Fewer threads do as well; none at all is an error.
                Err(error) if workers.is_empty() => {
                    return Err(Error::io("start a worker thread", error));
                }
                Err(_) => break,
            }
        }
        drop(sender);
        let mut outcome = Ok(());
        loop {
            let n_frames = match receiver.recv_timeout(TICK) {
                Ok(n_frames) => n_frames + receiver.try_iter().sum::<u64>(),
                Err(RecvTimeoutError::Timeout) => 0,
                Err(RecvTimeoutError::Disconnected) => break,
            };
            if outcome.is_ok() {
                outcome = tick(n_frames);
                if outcome.is_err() {
                    stop.cancel();
                }
            }
        }
        let ended = workers.into_iter().map(|worker| {
            // What panics in it is an error.
            worker.join().unwrap_or_else(|_| Err((usize::MAX, Error::bug("a worker is lost"))))
        });
        let mut failures: Vec<(usize, Error)> = ended.filter_map(Result::err).collect();
        outcome?;
        // Who was stopped has nothing to say.
        failures.sort_by_key(|(piece, error)| (error.kind() == ErrorKind::Cancelled, *piece));
        failures.into_iter().next().map_or(Ok(()), |(_, error)| Err(error))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_error_counts_and_ends_all() {
        let work = |(): &mut (), i: usize, link: &Link<'_>| {
            if i == 3 { Err(Error::invalid("three")) } else { link.done(1) }
        };
        let error = share(1000, NonZeroUsize::new(3), &|| Ok(()), &work, &mut |_| Ok(()));
        assert_eq!(error.unwrap_err().message(), "three");
    }

    #[test]
    fn a_piece_that_panics_is_an_error_and_ends_all() {
        let n_done = AtomicUsize::new(0);
        let work = |(): &mut (), i: usize, link: &Link<'_>| {
            assert_ne!(i, 3, "three");
            std::thread::sleep(Duration::from_millis(1));
            n_done.fetch_add(1, Ordering::Relaxed);
            link.done(1)
        };
        let error = share(100_000, NonZeroUsize::new(3), &|| Ok(()), &work, &mut |_| Ok(()));
        let error = error.unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Bug);
        assert!(error.message().contains("three"), "{error}");
        assert!(n_done.load(Ordering::Relaxed) < 99_999);
    }

    #[test]
    fn the_counter_may_stop() {
        let work = |(): &mut (), _: usize, link: &Link<'_>| link.done(1);
        let mut seen = 0;
        let mut tick = |n| {
            seen += n;
            if seen > 10 { Err(Error::invalid("enough")) } else { Ok(()) }
        };
        let error = share(100_000, NonZeroUsize::new(2), &|| Ok(()), &work, &mut tick);
        assert_eq!(error.unwrap_err().message(), "enough");
    }

    #[test]
    fn pieces_that_take_long_are_stopped() {
        let work = |(): &mut (), _: usize, _: &Link<'_>| {
            for _ in 0..10_000 {
                interrupt::check()?;
                std::thread::sleep(Duration::from_millis(1));
            }
            panic!("it was not stopped");
        };
        let mut tick = |_| Err(Error::invalid("enough"));
        let error = share(1, NonZeroUsize::new(1), &|| Ok(()), &work, &mut tick);
        assert_eq!(error.unwrap_err().message(), "enough");
    }

    #[test]
    fn all_pieces_are_done_once() {
        let sum = AtomicUsize::new(0);
        let work = |(): &mut (), i: usize, link: &Link<'_>| {
            sum.fetch_add(i, Ordering::Relaxed);
            link.done(2)
        };
        let mut counted = 0;
        let mut tick = |n| {
            counted += n;
            Ok(())
        };
        share(101, None, &|| Ok(()), &work, &mut tick).unwrap();
        assert_eq!((sum.load(Ordering::Relaxed), counted), (5050, 202));
    }
}
