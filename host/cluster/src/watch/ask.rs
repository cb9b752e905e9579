//! Asks, and does not forget what was asked before: an answer that comes late counts as well as one in time.
//!
//! A server that has stopped answering must be asked again every few seconds, on another connection, or its return is noticed
//! late. One that is only slow would then never get to answer anything. So a request that is given up stays open for a while
//! beside the one that repeats it, and whichever is answered first wins.

use std::time::Duration;

use futures::StreamExt;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::FuturesUnordered;
use http::{Request, Response};
use kube::client::Body;
use tokio::time::Instant;

use super::step::Next;
use crate::client::{Client, Reading};
use crate::request::{self, RequestError};

/// How long a request stays open beside an older one: with one every four seconds, at most five are.
const LATE: Duration = Duration::from_secs(15);

/// What is sent.
pub(super) struct Question {
    pub(super) request: Request<Vec<u8>>,
    /// How long the server is to keep the answer open.
    pub(super) timeout: Duration,
    /// What it counts as, if it is no watch.
    pub(super) reading: Option<Reading>,
}

/// An answer that has begun.
pub(super) struct Opened {
    pub(super) response: Response<Body>,
    /// How long the server was told to keep it open.
    pub(super) timeout: Duration,
    /// To be kept until the answer has been read.
    pub(super) reading: Option<Reading>,
}

type Answer = Result<Opened, RequestError>;

type Pending = FuturesUnordered<BoxFuture<'static, Answer>>;

/// Sends requests, and keeps those that have no answer yet.
pub(super) struct Asker {
    pub(super) client: Client,
    /// What the requests in `pending` ask.
    asked: Option<Next>,
    pending: Pending,
    /// Apart from the others: a probe interrupts a watch, and a server that is slow with both would never get to answer one.
    probes: Pending,
}

impl Asker {
    pub(super) fn new(client: Client) -> Self {
        Self {
            client,
            asked: None,
            pending: Pending::new(),
            probes: Pending::new(),
        }
    }

    /// Waits so long for the head of an answer. Unanswered, the request stays open, at most for `life`, until something else than
    /// `next` or a probe is asked.
    pub(super) async fn ask(
        &mut self,
        next: &Next,
        question: Question,
        patience: Duration,
        life: Duration,
    ) -> Answer {
        let is_probe = *next == Next::Probe;
        if !is_probe
            && !self
                .asked
                .as_ref()
                .is_some_and(|asked| asks_same(asked, next))
        {
            self.pending.clear();
            self.probes.clear();
            self.asked = Some(next.clone());
        }
        let pending = if is_probe {
            &mut self.probes
        } else {
            &mut self.pending
        };
        let life = if pending.is_empty() { life } else { LATE };
        let client = self.client.clone();
        let answer = async move {
            let response = request::send(&client, question.request, life).await?;
            Ok(Opened {
                response,
                timeout: question.timeout,
                reading: question.reading,
            })
        };
        pending.push(answer.boxed());
        let answer = first(pending, patience).await;
        if !matches!(answer, Err(RequestError::Deadline(_))) {
            pending.clear();
            if !is_probe {
                self.probes.clear();
            }
        }
        answer
    }
}

/// How long a watch is to stay open does not matter: what it brings is the same.
fn asks_same(one: &Next, other: &Next) -> bool {
    match (one, other) {
        (Next::Watch { from, .. }, Next::Watch { from: other, .. }) => from == other,
        _ => one == other,
    }
}

/// The first answer; a connection that broke is none as long as there are others.
async fn first(pending: &mut Pending, patience: Duration) -> Answer {
    let until = Instant::now() + patience;
    let mut last = RequestError::Deadline(patience);
    while let Ok(Some(answer)) = tokio::time::timeout_at(until, pending.next()).await {
        match answer {
            Err(error @ (RequestError::Transport(_) | RequestError::Deadline(_))) => {
                last = error;
            }
            answer => return answer,
        }
    }
    Err(last)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::fake::{Answer as Scripted, Scenario, text};

    const PATIENCE: Duration = Duration::from_secs(4);
    const LIFE: Duration = Duration::from_secs(60);

    fn late(seconds: u64) -> Scripted {
        Scripted::Late(Duration::from_secs(seconds), Box::new(text(200, "late")))
    }

    async fn ask(asker: &mut Asker, next: &Next) -> Answer {
        let question = Question {
            request: Request::default(),
            timeout: Duration::ZERO,
            reading: None,
        };
        asker.ask(next, question, PATIENCE, LIFE).await
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_comes_late_counts_for_the_next_question() {
        let scenario = Scenario::new([late(6), Scripted::Silence]);
        let mut asker = Asker::new(scenario.client().into());
        let began = Instant::now();
        let first = ask(&mut asker, &Next::Probe).await;
        assert!(matches!(first, Err(RequestError::Deadline(_))));
        assert!(ask(&mut asker, &Next::Probe).await.is_ok());
        assert_eq!(began.elapsed(), Duration::from_secs(6));
        assert!(asker.probes.is_empty(), "nobody waits for the other one");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_to_another_question_does_not_count() {
        let scenario = Scenario::new([late(6), Scripted::Silence]);
        let mut asker = Asker::new(scenario.client().into());
        assert!(ask(&mut asker, &Next::Probe).await.is_err());
        let stream = Next::Stream {
            not_older_than: None,
        };
        assert!(ask(&mut asker, &stream).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn requests_without_an_answer_do_not_pile_up() {
        let scenario = Scenario::new((0..100).map(|_| Scripted::Silence));
        let mut asker = Asker::new(scenario.client().into());
        let mut most = 0;
        for _ in 0..100 {
            assert!(ask(&mut asker, &Next::Probe).await.is_err());
            most = most.max(asker.probes.len());
        }
        assert!(most <= 5, "{most}");
    }
}
