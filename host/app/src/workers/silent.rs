//! Kinds whose server has left a request without an answer for long.
//!
//! A key that waits for an answer takes one of its plugin's places. If a thousand keys asked a
//! server that hangs, each would wait for the deadline, and no other key would run meanwhile. So
//! one asks, and the others are told at once that nothing is known.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pilothouse_core::{Kind, ReadFailure};
use tokio::time::Instant;

use super::Fetched;

/// A request that is not answered in this time has held its key up.
const LONG: Duration = Duration::from_secs(1);

/// For how long a kind is not asked for then. After that one request tries again.
const PAUSE: Duration = Duration::from_secs(10);

/// See the module's documentation. Holds when each such kind may be asked for again.
#[derive(Debug, Default)]
pub(super) struct SilentKinds(Mutex<HashMap<Kind, Instant>>);

impl SilentKinds {
    /// Makes a read of an object of this kind, unless its server is silent.
    pub async fn ask(&self, kind: &Kind, read: impl Future<Output = Fetched>) -> Fetched {
        if !self.may_ask(kind) {
            let reason = "its server has not answered a request just now".to_owned();
            return Err(ReadFailure::NoAnswer(reason));
        }
        let asked = Instant::now();
        let answer = read.await;
        let is_silent = matches!(answer, Err(ReadFailure::NoAnswer(_))) && asked.elapsed() >= LONG;
        self.change(|silent| match is_silent {
            true => silent.insert(kind.clone(), Instant::now() + PAUSE),
            false => silent.remove(kind),
        });
        answer
    }

    /// Whether a request may be made. If that tries a silent server again, no other may meanwhile.
    fn may_ask(&self, kind: &Kind) -> bool {
        let now = Instant::now();
        self.change(|silent| match silent.entry(kind.clone()) {
            Entry::Vacant(_) => true,
            Entry::Occupied(until) if now < *until.get() => false,
            Entry::Occupied(mut until) => {
                until.insert(now + PAUSE);
                true
            }
        })
    }

    fn change<T>(&self, change: impl FnOnce(&mut HashMap<Kind, Instant>) -> T) -> T {
        let mut silent = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        change(&mut silent)
    }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};

    use super::*;

    /// A server, how long it takes to answer, what it says, and how often it is asked.
    struct Server {
        takes: Cell<Duration>,
        says: RefCell<Fetched>,
        asked: Cell<usize>,
    }

    impl Server {
        fn hanging() -> Self {
            Self {
                takes: Cell::new(Duration::from_secs(5)),
                says: RefCell::new(Err(ReadFailure::NoAnswer("timeout".into()))),
                asked: Cell::new(0),
            }
        }

        async fn read(&self) -> Fetched {
            self.asked.set(self.asked.get() + 1);
            tokio::time::sleep(self.takes.get()).await;
            self.says.borrow().clone()
        }
    }

    fn report() -> Kind {
        Kind::new("example.com", "v1", "Report")
    }

    #[tokio::test(start_paused = true)]
    async fn many_keys_that_ask_a_server_that_hangs_wait_for_one_request() {
        let (kinds, server) = (SilentKinds::default(), Server::hanging());
        let start = Instant::now();
        for _ in 0..2_000 {
            let answer = kinds.ask(&report(), server.read()).await;
            assert!(matches!(answer, Err(ReadFailure::NoAnswer(_))));
        }
        assert_eq!(start.elapsed(), Duration::from_secs(5));
        let other = Server::hanging();
        drop(other.says.replace(Ok(None)));
        let answer = kinds
            .ask(&Kind::new("example.com", "v1", "Other"), other.read())
            .await;
        assert_eq!(answer, Ok(None), "another kind is asked for");
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_is_tried_by_one_request_at_a_time() {
        let (kinds, server) = (SilentKinds::default(), Server::hanging());
        let report = report();
        let ask = || kinds.ask(&report, server.read());
        drop(ask().await);
        tokio::time::advance(PAUSE).await;
        let answers = futures::future::join_all((0..20).map(|_| ask())).await;
        assert!(answers.iter().all(Result::is_err));
        assert_eq!(server.asked.get(), 2);
        drop(ask().await);
        assert_eq!(server.asked.get(), 2, "it is silent still");
        tokio::time::advance(PAUSE).await;
        drop(server.says.replace(Ok(None)));
        assert_eq!(ask().await, Ok(None));
        assert_eq!(ask().await, Ok(None), "it is silent no more");
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_says_at_once_that_it_cannot_answer_is_asked_again() {
        let (kinds, server) = (SilentKinds::default(), Server::hanging());
        server.takes.set(Duration::from_millis(10));
        for _ in 0..20 {
            drop(kinds.ask(&report(), server.read()).await);
        }
        assert_eq!(server.asked.get(), 20);
    }
}
