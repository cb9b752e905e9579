//! Waits for the API server. The host may start before it, for example after a power cut. It then
//! logs that it waits, and goes on once the server answers.

use std::time::Duration;

use pilothouse_cluster::connect::ConnectError;
use tokio::sync::watch;
use tokio::time::Instant;
use tracing::{info, warn};

/// The time from the beginning of one attempt to that of the next.
const PACE: Duration = Duration::from_secs(1);

/// The time between two log lines about the same wait.
const REMINDER: Duration = Duration::from_secs(60);

/// For how long refused credentials are retried after the server has come up. A server that has
/// just started refuses the tokens of service accounts until it has read these.
const YOUTH: Duration = Duration::from_secs(30);

/// Lets other parts observe the wait.
#[derive(Clone)]
pub struct Reached(watch::Receiver<Option<String>>);

impl Reached {
    /// Why the server cannot be used yet. `None` once it has answered.
    pub fn why_not(&self) -> Option<String> {
        self.0.borrow().clone()
    }

    /// Waits until the server has answered.
    pub async fn wait(&mut self) {
        if self.0.wait_for(Option::is_none).await.is_err() {
            // The host is ending.
            std::future::pending::<()>().await;
        }
    }
}

/// Performs the wait, and publishes its state.
pub struct Reaching {
    told: watch::Sender<Option<String>>,
    began: Instant,
    /// When the wait was last logged.
    said: Option<Instant>,
    /// Since when the server has refused the credentials.
    refused: Option<Instant>,
    /// Whether the server was unreachable or not ready at some time during the wait.
    is_young: bool,
}

impl Reaching {
    pub fn new() -> (Self, Reached) {
        let reason = "the API server has not answered yet".to_owned();
        let (told, reached) = watch::channel(Some(reason));
        let reaching = Self {
            told,
            began: Instant::now(),
            said: None,
            refused: None,
            is_young: false,
        };
        (reaching, Reached(reached))
    }

    /// Retries until the server answers. Returns an error that waiting cannot fix.
    pub async fn reach<T>(
        mut self,
        attempt: impl AsyncFn() -> Result<T, ConnectError>,
    ) -> Result<T, ConnectError> {
        loop {
            let next = Instant::now() + PACE;
            let error = match attempt().await {
                Ok(answer) => {
                    self.end();
                    return Ok(answer);
                }
                Err(error) => error,
            };
            if self.is_final(&error) {
                return Err(error);
            }
            self.say(error.to_string());
            tokio::time::sleep_until(next).await;
        }
    }

    fn is_final(&mut self, error: &ConnectError) -> bool {
        if !error.is_of_credentials() {
            self.is_young = true;
            self.refused = None;
            return false;
        }
        // Only a server that has just come up may refuse valid credentials, and only for a while.
        let since = self.refused.get_or_insert_with(Instant::now);
        !self.is_young || since.elapsed() >= YOUTH
    }

    fn say(&mut self, reason: String) {
        if self.said.is_none_or(|said| said.elapsed() >= REMINDER) {
            self.said = Some(Instant::now());
            let waited = self.waited();
            warn!(waited, reason, "waiting for the API server");
        }
        self.told.send_replace(Some(reason));
    }

    fn end(self) {
        if self.said.is_some() {
            let waited = self.waited();
            info!(waited, "the API server answers");
        }
        self.told.send_replace(None);
    }

    fn waited(&self) -> String {
        format!("{:.1} s", self.began.elapsed().as_secs_f32())
    }
}

#[cfg(test)]
mod tests {
    use std::cell::Cell;

    use super::*;
    use crate::test_log::logged;

    fn refused() -> ConnectError {
        ConnectError::Unauthorized {
            origin: "FILE".into(),
            server: "https://s/".into(),
            message: "Unauthorized".into(),
        }
    }

    fn not_ready() -> ConnectError {
        ConnectError::NotKubernetes {
            origin: "FILE".into(),
            server: "https://s/".into(),
            cause: "it is starting".into(),
        }
    }

    /// A server whose answer depends on the seconds since the start.
    fn server<T>(
        answer: impl Fn(u64) -> Result<T, ConnectError>,
    ) -> (impl AsyncFn() -> Result<T, ConnectError>, impl Fn() -> u32) {
        let (began, tries) = (Instant::now(), std::rc::Rc::new(Cell::new(0)));
        let count = tries.clone();
        let attempt = async move || {
            count.set(count.get() + 1);
            answer(began.elapsed().as_secs())
        };
        (attempt, move || tries.get())
    }

    #[tokio::test(start_paused = true)]
    async fn the_wait_is_said_at_once_and_each_minute_and_ends_within_a_second() {
        let (log, _guard) = logged();
        let began = Instant::now();
        let (reaching, reached) = Reaching::new();
        assert!(reached.why_not().unwrap().contains("not answered"));
        let seen = reached.clone();
        let (attempt, tries) = server(|seconds| {
            let why_not = seen.why_not().unwrap();
            assert!(
                seconds == 0 || why_not.contains("it is starting"),
                "{why_not}"
            );
            if seconds < 150 {
                Err(not_ready())
            } else {
                Ok("v1")
            }
        });
        assert_eq!(reaching.reach(attempt).await.unwrap(), "v1");
        assert_eq!(began.elapsed().as_secs(), 150);
        assert_eq!(tries(), 151, "once a second");
        assert_eq!(reached.why_not(), None);
        reached.clone().wait().await;
        let reason = not_ready().to_string();
        let waiting = |waited| {
            format!(" WARN waiting for the API server waited={waited:?} reason={reason:?}")
        };
        let lines = [
            waiting("0.0 s"),
            waiting("60.0 s"),
            waiting("120.0 s"),
            " INFO the API server answers waited=\"150.0 s\"".to_owned(),
        ];
        assert_eq!(log.lines(), lines);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_is_there_is_not_spoken_of() {
        let (log, _guard) = logged();
        let (reaching, reached) = Reaching::new();
        let (attempt, _) = server(|_| Ok(()));
        reaching.reach(attempt).await.unwrap();
        assert_eq!(reached.why_not(), None);
        assert_eq!(log.lines(), [""; 0]);
    }

    #[tokio::test(start_paused = true)]
    async fn credentials_that_a_running_server_refuses_are_not_waited_for() {
        let (reaching, _) = Reaching::new();
        let (attempt, tries) = server(|_| Err::<(), _>(refused()));
        assert!(reaching.reach(attempt).await.is_err());
        assert_eq!(tries(), 1);
    }

    #[tokio::test(start_paused = true)]
    async fn a_server_that_has_just_come_up_may_refuse_them_for_a_while() {
        let (reaching, _) = Reaching::new();
        let (attempt, _) = server(|seconds| match seconds {
            0..10 | 30..35 => Err(not_ready()),
            10..30 | 35..60 => Err(refused()),
            _ => Ok(()),
        });
        reaching.reach(attempt).await.unwrap();

        let (reaching, _) = Reaching::new();
        let began = Instant::now();
        let (attempt, _) = server(|seconds| match seconds {
            0..10 => Err::<(), _>(not_ready()),
            _ => Err(refused()),
        });
        let error = reaching.reach(attempt).await.unwrap_err();
        assert!(error.is_of_credentials());
        assert_eq!(began.elapsed().as_secs(), 40);
    }
}
