//! Sends requests, and still accepts a late answer to an earlier, identical one.
//!
//! A server that has stopped answering must be asked again every few seconds, on another
//! connection, or its return is noticed late. But a server that is only slow would then never
//! complete an answer. Therefore a request that has timed out stays open for a while beside its
//! repetition, and the first answer wins.

use std::time::Duration;

use futures::StreamExt;
use futures::future::{BoxFuture, FutureExt};
use futures::stream::FuturesUnordered;
use http::{Request, Response};
use kube::client::Body;
use tokio::time::Instant;

use crate::client::{Client, OpenResponse, RequestError};
use crate::watch::machine::NextRequest;

/// How long a request stays open if an older one is open too. With a new one every four seconds, at
/// most five are open.
const LATE: Duration = Duration::from_secs(15);

/// A request to send.
pub(super) struct WatchRequest {
    pub(super) request: Request<Vec<u8>>,
    /// How long the server is asked to keep the answer open.
    pub(super) timeout: Duration,
    /// Counts the request in the metrics; `None` for a watch.
    pub(super) reading: Option<OpenResponse>,
}

/// An answer that has begun.
pub(super) struct Opened {
    pub(super) response: Response<Body>,
    /// How long the server was asked to keep it open.
    pub(super) timeout: Duration,
    /// To be kept until the answer has been read.
    pub(super) reading: Option<OpenResponse>,
}

type Asked = Result<Opened, RequestError>;

type Pending = FuturesUnordered<BoxFuture<'static, Asked>>;

/// Sends requests, and keeps those that are not answered yet.
pub(super) struct Asker {
    pub(super) client: Client,
    /// What the requests in `pending` ask for.
    asked: Option<NextRequest>,
    pending: Pending,
    /// Kept apart from the others: a probe interrupts a watch. A server that is slow with both
    /// would otherwise never complete an answer to either.
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

    /// Waits for `patience` until an answer begins. If none does, the request stays open for at
    /// most `life`, until something other than `next` or a probe is requested.
    pub(super) async fn ask(
        &mut self,
        next: &NextRequest,
        question: WatchRequest,
        patience: Duration,
        life: Duration,
    ) -> Asked {
        let is_probe = *next == NextRequest::Probe;
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
            let response = client.open(question.request, life).await?;
            Ok(Opened {
                response,
                timeout: question.timeout,
                reading: question.reading,
            })
        };
        pending.push(answer.boxed());
        let answer = first(pending, patience).await;
        // Answered, so the identical requests still open are not needed. The answer to a probe
        // leaves the other requests open.
        if !matches!(answer, Err(RequestError::Deadline(_))) {
            pending.clear();
            if !is_probe {
                self.probes.clear();
            }
        }
        answer
    }
}

/// True if two requests bring the same. The time for which a watch stays open makes no difference.
fn asks_same(one: &NextRequest, other: &NextRequest) -> bool {
    match (one, other) {
        (NextRequest::Watch { from, .. }, NextRequest::Watch { from: other, .. }) => from == other,
        _ => one == other,
    }
}

/// The first answer. A broken connection only counts if no other request is answered in time.
async fn first(pending: &mut Pending, patience: Duration) -> Asked {
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
    use crate::testing::{Scenario, ScriptedAnswer, text};

    const PATIENCE: Duration = Duration::from_secs(4);
    const LIFE: Duration = Duration::from_secs(60);

    fn late(seconds: u64) -> ScriptedAnswer {
        ScriptedAnswer::Late(Duration::from_secs(seconds), Box::new(text(200, "late")))
    }

    async fn ask(asker: &mut Asker, next: &NextRequest) -> Asked {
        let question = WatchRequest {
            request: Request::default(),
            timeout: Duration::ZERO,
            reading: None,
        };
        asker.ask(next, question, PATIENCE, LIFE).await
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_that_comes_late_counts_for_the_next_question() {
        let scenario = Scenario::new([late(6), ScriptedAnswer::Silence]);
        let mut asker = Asker::new(scenario.client().into());
        let began = Instant::now();
        let first = ask(&mut asker, &NextRequest::Probe).await;
        assert!(matches!(first, Err(RequestError::Deadline(_))));
        assert!(ask(&mut asker, &NextRequest::Probe).await.is_ok());
        assert_eq!(began.elapsed(), Duration::from_secs(6));
        assert!(asker.probes.is_empty(), "nobody waits for the other one");
    }

    #[tokio::test(start_paused = true)]
    async fn an_answer_to_another_question_does_not_count() {
        let scenario = Scenario::new([late(6), ScriptedAnswer::Silence]);
        let mut asker = Asker::new(scenario.client().into());
        assert!(ask(&mut asker, &NextRequest::Probe).await.is_err());
        let stream = NextRequest::Stream {
            not_older_than: None,
        };
        assert!(ask(&mut asker, &stream).await.is_err());
    }

    #[tokio::test(start_paused = true)]
    async fn requests_without_an_answer_do_not_pile_up() {
        let scenario = Scenario::new((0..100).map(|_| ScriptedAnswer::Silence));
        let mut asker = Asker::new(scenario.client().into());
        let mut most = 0;
        for _ in 0..100 {
            assert!(ask(&mut asker, &NextRequest::Probe).await.is_err());
            most = most.max(asker.probes.len());
        }
        assert!(most <= 5, "{most}");
    }
}
