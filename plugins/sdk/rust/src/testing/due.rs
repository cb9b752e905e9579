//! The reconciles that the host would run.

use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;

use pilothouse_core as host;

use super::settled::Settled;
use super::{FakeCluster, convert};
use crate::{Controller, Effect, ObjectRef};

/// Most reconciles of one [`FakeCluster::run_due`].
const MAX_RUNS: usize = 10_000;

/// One reconcile of [`FakeCluster::run_due`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The object of its key. `None` for a singleton.
    pub key: Option<ObjectRef>,
    /// Why it failed, in the host's words, or `None`.
    pub error: Option<String>,
    /// What became of each write: what the key's next reconcile gets as
    /// [`previous`](crate::Request::previous). Empty if there was none.
    pub effects: Vec<Effect>,
}

impl FakeCluster {
    /// Runs the keys that the host would run now, and those that their writes wake, until none is
    /// due. Returns them in the order in which they ran.
    ///
    /// At first these are the keys of all objects that the plugin reconciles. After that they are
    /// the keys for which something that they have read has changed, whether another reconcile,
    /// [`with`] or [`delete`] has changed it, and those whose time has come ([`at`]): after a
    /// failure or a requeue. So a test sees whether a change wakes the keys that it should wake,
    /// and no others.
    ///
    /// The host counts the attempts of these reconciles and remembers their results. It does not
    /// know of those of [`turn`](Self::turn), nor of what [`attempt`](Self::attempt) and
    /// [`previous`](Self::previous) have set.
    ///
    /// [`with`]: Self::with
    /// [`delete`]: Self::delete
    /// [`at`]: Self::at
    ///
    /// # Panics
    ///
    /// There is no end to it: after 10,000 reconciles some key is still due. Or an outcome says
    /// that it is [settled](crate::Outcome::settled), and the next run would do something. Also
    /// as for [`reconcile`](Self::reconcile).
    pub fn run_due<C: Controller>(&mut self) -> Vec<Run> {
        self.seen.take();
        self.guest.set(Some(C::reconcile));
        let (mut runs, mut settled) = (Vec::new(), BTreeMap::new());
        while let Some(run) = self.run_next(&mut settled) {
            runs.push(run);
            assert!(
                runs.len() < MAX_RUNS,
                "{MAX_RUNS} reconciles, and keys are still due: the controller never comes to rest"
            );
        }
        self.guest.set(None);
        for (key, settled) in &settled {
            // What has changed since runs it when it has rested.
            if !(settled.rests && self.caches.borrow().is_queued(key)) {
                self.check_settled::<C>(key, settled, None);
            }
        }
        runs
    }

    /// Runs the next key that is due, to the end of its writes. `settled`: the keys whose last
    /// outcome is.
    fn run_next(&mut self, settled: &mut BTreeMap<host::SubjectKey, Settled>) -> Option<Run> {
        let wall_clock_ms = u64::try_from(self.now.as_millis()).unwrap_or(u64::MAX);
        let reconcile = loop {
            let caches = self.caches.get_mut();
            caches.list(&self.server, self.now);
            match caches.hub.next(self.now, wall_clock_ms) {
                host::Next::Run(reconcile) => break reconcile,
                host::Next::Fetch(fetch) => {
                    let questions = fetch.questions.iter();
                    let answers = questions.map(|question| self.fetch(question)).collect();
                    let caches = self.caches.get_mut();
                    caches.hub.fetched(&fetch, answers, self.now);
                }
                host::Next::Idle(Some(due)) if due <= self.now => {}
                host::Next::Idle(_) => return None,
            }
        };
        let ran = reconcile.run();
        let is_settled = ran.settled();
        let is_settled =
            is_settled.map(|(reads, follow_up)| Settled::new(reads.clone(), follow_up));
        let mut finished = match self.caches.get_mut().hub.ran(ran, self.now) {
            host::Decision::Finished(finished) => finished,
            host::Decision::Writing(writing) => self.send_all(writing),
            host::Decision::Fetching(fetching) => self.fetched(fetching),
            host::Decision::Confirming(confirming) => match self.confirm(confirming) {
                ControlFlow::Continue(writing) => self.send_all(writing),
                ControlFlow::Break(finished) => finished,
            },
        };
        let effects = finished.executed().effects.iter().cloned();
        let run = Run {
            key: convert::subject(&finished.held().request.key),
            error: finished.error().map(ToString::to_string),
            effects: effects.map(Into::into).collect(),
        };
        let events = finished.take_events();
        let key = finished.held().request.key.clone();
        self.caches.get_mut().hub.finished(finished, self.now);
        self.write_events(&events);
        match is_settled.filter(|_| run.error.is_none()) {
            Some(run) => settled.insert(key, run),
            None => settled.remove(&key),
        };
        Some(run)
    }

    fn send_all(&mut self, mut writing: host::Writing) -> host::Finished {
        let mut pending = VecDeque::new();
        loop {
            let sending = match writing.advance() {
                ControlFlow::Break(finished) => return finished,
                ControlFlow::Continue((begun, sending)) => {
                    pending.extend(begun);
                    sending
                }
            };
            let write = pending.pop_front().expect("a write is under way");
            let answer = self.send(write.write());
            writing = sending.answered(write, answer);
        }
    }

    /// Answers what an outcome wants to have confirmed. If the server contradicts what the
    /// reconcile has seen, brings the caches up to date.
    fn confirm(
        &mut self,
        confirming: host::Confirming,
    ) -> ControlFlow<host::Finished, host::Writing> {
        let answers = self.confirm_answers(confirming.objects(), confirming.lists());
        match self.caches.get_mut().hub.confirmed(confirming, answers) {
            host::ConfirmEnd::Writing(writing) => ControlFlow::Continue(writing),
            host::ConfirmEnd::Finished(finished) => ControlFlow::Break(finished),
            host::ConfirmEnd::Contradicted(fetch, finished) => {
                let questions = fetch.questions.iter();
                let answers = questions.map(|question| self.fetch(question)).collect();
                self.caches.get_mut().hub.fetched(&fetch, answers, self.now);
                ControlFlow::Break(finished)
            }
        }
    }
}
