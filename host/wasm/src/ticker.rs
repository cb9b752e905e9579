//! The thread that advances the epoch while guests run, so that those which take too long are
//! stopped. While none runs, it sleeps: a host at rest uses no CPU time.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// How often a ticker at rest looks whether it is still needed.
const REST: Duration = Duration::from_secs(1);

pub(crate) struct Ticker {
    thread: JoinHandle<()>,
    runs: Arc<AtomicUsize>,
}

/// A run that is under way. Dropping it ends the run.
pub(crate) struct Ticking(Arc<AtomicUsize>);

impl Drop for Ticking {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::SeqCst);
    }
}

impl Ticker {
    /// Starts the thread. It calls `advance` once every `tick` during runs, and at rest once a
    /// second with `false`, and ends when that returns false.
    pub(crate) fn start(
        tick: Duration,
        advance: impl Fn(bool) -> bool + Send + 'static,
    ) -> std::io::Result<Self> {
        let runs = Arc::new(AtomicUsize::new(0));
        let seen = runs.clone();
        let thread = thread::Builder::new()
            .name("epoch-ticker".into())
            .spawn(move || {
                loop {
                    let is_running = seen.load(Ordering::SeqCst) > 0;
                    if is_running {
                        thread::sleep(tick);
                    } else {
                        // A run that has begun since has left its mark, and this returns at once.
                        thread::park_timeout(REST);
                    }
                    if !advance(is_running) {
                        return;
                    }
                }
            })?;
        Ok(Self { thread, runs })
    }

    /// A run begins.
    pub(crate) fn run(&self) -> Ticking {
        if self.runs.fetch_add(1, Ordering::SeqCst) == 0 {
            self.thread.thread().unpark();
        }
        Ticking(self.runs.clone())
    }

    pub(crate) fn is_alive(&self) -> bool {
        !self.thread.is_finished()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::{Receiver, channel};

    use super::*;

    const TICK: Duration = Duration::from_millis(1);
    const LONG: Duration = Duration::from_secs(60);

    /// A ticker that tells of its ticks, and ends when nobody listens.
    fn ticker() -> (Ticker, Receiver<()>) {
        let (sender, ticks) = channel();
        let advance = move |is_running: bool| !is_running || sender.send(()).is_ok();
        (Ticker::start(TICK, advance).unwrap(), ticks)
    }

    #[test]
    fn ticks_come_during_a_run_and_those_after_it_and_not_between() {
        let (ticker, ticks) = ticker();
        for _ in 0..3 {
            let (one, other) = (ticker.run(), ticker.run());
            drop(one);
            for _ in 0..3 {
                ticks.recv_timeout(LONG).unwrap();
            }
            drop(other);
            ticks.try_iter().for_each(drop);
            // One may have been about to come.
            let late = std::iter::from_fn(|| ticks.recv_timeout(100 * TICK).ok());
            assert!(late.take(3).count() <= 1);
        }
    }

    #[test]
    fn a_ticker_ends_when_it_is_told_that_nobody_needs_it() {
        let (ticker, ticks) = ticker();
        drop(ticks);
        let _run = ticker.run();
        ticker.thread.join().unwrap();
    }
}
