//! Native tests of a controller, with a cluster in memory that answers as the host does: all that
//! the host decides is decided by the host's own code (`pilothouse-core`), and all that an API
//! server does by a small one in memory.

mod actions;
mod caches;
mod convert;
mod documents;
mod guest;
mod server;
mod typed;

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Duration;

use pilothouse_core::{self as host, Execution, ReadFailure, Rehearsal};
use serde::Serialize;
use serde_json::Value;

use crate::{
    Controller, Effect, Failure, Host, Level, Manifest, Next, ObjectRef, Outcome, Query, ReadError,
    Request,
};

pub use actions::to_json;
use caches::Caches;
use guest::{Guest, Reading};
use server::Server;

/// Most reconciles of one [`FakeCluster::run_due`].
const MAX_RUNS: usize = 10_000;

/// Checks a manifest as the host does.
///
/// # Errors
///
/// The host's message for a manifest that it would refuse.
pub fn check_manifest(manifest: &Manifest) -> Result<(), String> {
    checked(manifest).map(drop)
}

/// The manifest as the host reads it.
fn checked(manifest: &Manifest) -> Result<host::Manifest, String> {
    let read = host::Manifest::from_json(&manifest.to_json());
    let checked = read.and_then(|manifest| manifest.validate().map(|()| manifest));
    checked.map_err(|error| error.to_string())
}

/// A cluster in memory, seen through one manifest, all of which is granted.
///
/// What the host decides is decided by its own code: whether it refuses the manifest, what the
/// controller may read and what it sees, whether it refuses the outcome, which writes it sends, and
/// which keys it runs. A test therefore notices what is missing in the manifest. Each reconcile is
/// run twice, and must decide and read the same both times.
///
/// [`reconcile`](Self::reconcile) runs a key without performing its outcome. [`turn`](Self::turn)
/// also performs it, and the next reconcile sees the result. [`run_due`](Self::run_due) runs the
/// keys that the host would run.
pub struct FakeCluster {
    server: Server,
    guest: Arc<Guest>,
    caches: RefCell<Caches>,
    now: Duration,
    /// What a key that has not been run yet is given.
    first: Told,
    /// What the next reconcile of each key is given.
    turns: BTreeMap<host::SubjectKey, Told>,
    /// The last reconcile, until its outcome is performed.
    seen: RefCell<Option<Rehearsal>>,
}

/// What a reconcile is given of the ones before.
#[derive(Clone)]
struct Told {
    attempt: u32,
    previous: Vec<Effect>,
    memo: Option<String>,
}

/// One reconcile of [`FakeCluster::run_due`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Run {
    /// The object of its key. `None` for a singleton.
    pub key: Option<ObjectRef>,
    /// Why it failed, in the host's words, or `None`.
    pub error: Option<String>,
}

impl FakeCluster {
    /// An empty cluster, at time 0, with the configuration `{}`.
    ///
    /// # Panics
    ///
    /// The host would refuse the manifest. See [`check_manifest`].
    #[must_use]
    #[allow(
        clippy::needless_pass_by_value,
        reason = "a manifest is made for its cluster, and for nothing else"
    )]
    pub fn new(manifest: Manifest) -> Self {
        let manifest = checked(&manifest)
            .unwrap_or_else(|reason| panic!("the host refuses the manifest: {reason}"));
        let guest = Arc::new(Guest::new(manifest));
        Self {
            server: Server::new(),
            caches: RefCell::new(Caches::new(&guest)),
            guest,
            now: Duration::ZERO,
            first: Told {
                attempt: 1,
                previous: Vec::new(),
                memo: None,
            },
            turns: BTreeMap::new(),
            seen: RefCell::default(),
        }
    }

    /// Adds a whole object: `json!({…})`, or a type that writes its `apiVersion` and `kind`, as
    /// those of k8s-openapi do. It replaces an object of the same kind, namespace and name. An
    /// object without a resourceVersion is given one.
    ///
    /// # Panics
    ///
    /// The object has no `apiVersion`, `kind` or `metadata.name`, or no JSON form.
    #[must_use]
    #[allow(
        clippy::needless_pass_by_value,
        reason = "an object is made for its cluster, and for nothing else"
    )]
    pub fn with(mut self, object: impl Serialize) -> Self {
        let object = serde_json::to_value(&object).expect("an object has a JSON form");
        let (kind, is_older) = self.server.place(object);
        self.caches.get_mut().doubt(kind, is_older);
        self
    }

    /// Adds a whole object as [`with`](Self::with) does, that is on the server but that no watch
    /// has brought yet: reconciles do not see it. What an outcome has [confirmed](Outcome::confirm)
    /// is asked of the server, which has it. The next change of the kind by [`with`](Self::with)
    /// brings it.
    ///
    /// # Panics
    ///
    /// As for [`with`](Self::with).
    #[must_use]
    pub fn with_unseen(mut self, object: Value) -> Self {
        // What has been added before is seen.
        self.caches.get_mut().list(&self.server, self.now);
        self.server.place(object);
        self
    }

    /// From now on, the cluster does not serve this kind. Its objects are there again when it does.
    ///
    /// # Panics
    ///
    /// The manifest does not say that the kind is [optional](Manifest::optional).
    #[must_use]
    pub fn without(self, kind: &str) -> Self {
        self.serves(kind, false)
    }

    /// From now on, the cluster serves this kind, which it has been [without](Self::without).
    ///
    /// # Panics
    ///
    /// The manifest does not say that the kind is [optional](Manifest::optional).
    #[must_use]
    pub fn serving(self, kind: &str) -> Self {
        self.serves(kind, true)
    }

    fn serves(mut self, kind: &str, is_served: bool) -> Self {
        let kind = convert::kind(kind);
        let is_optional = self.guest.is_optional(&kind);
        assert!(
            is_optional,
            "the manifest does not say that {kind} is optional"
        );
        self.seen.take();
        let caches = self.caches.get_mut();
        let mut absent = caches.absent().clone();
        if is_served {
            absent.remove(&kind);
        } else {
            absent.insert(kind);
        }
        caches.serve_all_but(absent, &self.guest, self.now);
        self
    }

    /// Sets the time, since the Unix epoch.
    #[must_use]
    pub fn at(mut self, now: Duration) -> Self {
        self.now = now;
        self.server.set_time(now);
        self
    }

    /// Sets the plugin's configuration.
    #[must_use]
    pub fn configured(mut self, config: &Value) -> Self {
        let now = self.now;
        self.caches.get_mut().configure(config.to_string(), now);
        self
    }

    /// Sets the `attempt` of the next reconcile of each key: 1 for the first, one more after each
    /// failure. Also forgets what earlier reconciles have left for later ones.
    #[must_use]
    pub fn attempt(mut self, attempt: u32) -> Self {
        self.first.attempt = attempt;
        self.turns.clear();
        self
    }

    /// Sets the effects that the next reconcile of each key gets as `previous`. Also forgets what
    /// earlier reconciles have left for later ones.
    #[must_use]
    pub fn previous(mut self, effects: impl IntoIterator<Item = Effect>) -> Self {
        self.first.previous = effects.into_iter().collect();
        self.turns.clear();
        self
    }

    /// Sets the [memo](Outcome::remember) that the next reconcile of each key gets. Also forgets
    /// what earlier reconciles have left for later ones.
    ///
    /// # Panics
    ///
    /// The value has no JSON form.
    #[must_use]
    pub fn memo(mut self, memo: &impl Serialize) -> Self {
        let memo = serde_json::to_string(memo).expect("a memo has a JSON form");
        self.first.memo = Some(memo);
        self.turns.clear();
        self
    }

    /// From now on no reconcile is given a memo. The host may forget memos at any time, so a test
    /// should come to the same end with this.
    #[must_use]
    pub fn forgetting_memos(self) -> Self {
        self.guest.forget_memos();
        self
    }

    /// Reconciles a key. The outcome is checked but not performed. A plugin with several kinds has
    /// keys of the same namespace and name: see [`reconcile_key`](Self::reconcile_key).
    ///
    /// # Errors
    ///
    /// Those that the controller returns. Also [`Failure::Terminal`] with the host's message if the
    /// host would refuse the outcome, for example because of a write that the manifest does not
    /// declare, or if the controller has gone on after a read that the manifest does not declare.
    ///
    /// # Panics
    ///
    /// The controller decides or reads something else when it is run again on the same request and
    /// snapshot. Or the plugin reconciles several kinds.
    pub fn reconcile<C: Controller>(
        &self,
        namespace: &str,
        name: &str,
    ) -> Result<Outcome, Failure> {
        self.decide::<C>(&self.guest.only_key(namespace, name))
    }

    /// [`reconcile`](Self::reconcile) for the key of an object of any kind that the plugin
    /// reconciles.
    ///
    /// # Errors
    ///
    /// As for [`reconcile`](Self::reconcile).
    ///
    /// # Panics
    ///
    /// As for [`reconcile`](Self::reconcile). Or the plugin does not reconcile the kind.
    pub fn reconcile_key<C: Controller>(&self, key: &ObjectRef) -> Result<Outcome, Failure> {
        self.decide::<C>(&self.guest.key_of(key))
    }

    fn decide<C: Controller>(&self, key: &host::SubjectKey) -> Result<Outcome, Failure> {
        let mut rehearsal = self.rehearse(key);
        let Told {
            attempt,
            previous,
            memo,
        } = self.told(key);
        self.seen.take();
        let request = self
            .guest
            .request(&rehearsal.request, &mut rehearsal.reader)?;
        let request = Request {
            attempt,
            previous,
            memo: memo.filter(|_| !self.guest.forgets_memos()),
            ..request
        };
        let outcome = self
            .guest
            .run(C::reconcile, &request, &mut rehearsal.reader);
        self.seen.replace(Some(rehearsal.clone()));
        let outcome = outcome?;
        let checked = rehearsal.execution(&convert::outcome(&outcome));
        let checked = checked.map(drop);
        checked.map_err(|reason| Failure::Terminal(reason.to_string()))?;
        Ok(outcome)
    }

    /// Reconciles a key and performs its outcome ([`apply`](Self::apply)).
    ///
    /// # Errors
    ///
    /// As for [`reconcile`](Self::reconcile). Nothing is written then, and the key's `attempt` goes
    /// up by one.
    ///
    /// # Panics
    ///
    /// As for [`reconcile`](Self::reconcile) and [`apply`](Self::apply).
    pub fn turn<C: Controller>(&mut self, namespace: &str, name: &str) -> Result<Outcome, Failure> {
        self.run_and_apply::<C>(self.guest.only_key(namespace, name))
    }

    /// [`turn`](Self::turn) for the key of an object of any kind that the plugin reconciles.
    ///
    /// # Errors
    ///
    /// As for [`turn`](Self::turn).
    ///
    /// # Panics
    ///
    /// As for [`turn`](Self::turn). Or the plugin does not reconcile the kind.
    pub fn turn_key<C: Controller>(&mut self, key: &ObjectRef) -> Result<Outcome, Failure> {
        self.run_and_apply::<C>(self.guest.key_of(key))
    }

    fn run_and_apply<C: Controller>(&mut self, key: host::SubjectKey) -> Result<Outcome, Failure> {
        let outcome = self.decide::<C>(&key);
        match &outcome {
            Ok(outcome) => drop(self.carry_out(key, outcome)),
            Err(_) => {
                let mut told = self.told(&key);
                told.attempt += 1;
                self.turns.insert(key, told);
            }
        }
        outcome
    }

    /// Performs the outcome of a reconcile of this key, so that the next reconcile sees the result.
    /// Returns what became of each write, which the key's next reconcile also gets as
    /// [`previous`](crate::Request::previous).
    ///
    /// Which writes are sent, under which conditions, and what is skipped after a failure is as in
    /// the host. If the last reconcile was of this key and has not been performed yet, the outcome
    /// is taken to be decided on what that one saw and read; otherwise, on the cluster as it is.
    ///
    /// Writes have the effect they would have on an API server, as far as that is possible without
    /// the kinds' schemas:
    ///
    /// - An apply merges objects member by member and removes what the plugin had applied before
    ///   and now leaves out. A list is replaced as a whole, except for `metadata.finalizers` and
    ///   `metadata.ownerReferences`. Without force, a field that has another value and that the
    ///   plugin has not applied before is a conflict.
    /// - `status` is written only through the subresource `status`. Writes to other subresources
    ///   have no effect here.
    /// - Deleting an object that has finalizers sets its `deletionTimestamp`. The object disappears
    ///   when the last finalizer is removed. There is no garbage collector, so objects survive
    ///   their owners.
    /// - `resourceVersion`, `uid` and `generation` are maintained, `managedFields` are not. No
    ///   defaults are filled in. Schemas, quotas and admission are not checked.
    /// - Events are not kept.
    ///
    /// If the server contradicts what the outcome wants to have [confirmed](Outcome::confirm),
    /// nothing is done, and nothing is returned. The next reconcile sees what the server has.
    ///
    /// # Panics
    ///
    /// [`reconcile`](Self::reconcile) would refuse the outcome, or the outcome has a strategic
    /// merge patch with a list that is not the object's owners: it cannot be applied without the
    /// kinds' schemas. Or the plugin reconciles several kinds.
    pub fn apply(&mut self, namespace: &str, name: &str, outcome: &Outcome) -> Vec<Effect> {
        self.carry_out(self.guest.only_key(namespace, name), outcome)
    }

    /// [`apply`](Self::apply) for the key of an object of any kind that the plugin reconciles.
    ///
    /// # Panics
    ///
    /// As for [`apply`](Self::apply). Or the plugin does not reconcile the kind.
    pub fn apply_key(&mut self, key: &ObjectRef, outcome: &Outcome) -> Vec<Effect> {
        self.carry_out(self.guest.key_of(key), outcome)
    }

    fn carry_out(&mut self, key: host::SubjectKey, outcome: &Outcome) -> Vec<Effect> {
        let seen = self.seen.take().filter(|seen| seen.request.key == key);
        let rehearsal = seen.unwrap_or_else(|| self.rehearse(&key));
        let is_gone = rehearsal.is_gone();
        let planned = convert::outcome(outcome);
        let confirmed = rehearsal.confirmed(&planned);
        if confirmed.is_ok_and(|confirmed| !self.is_confirmed(&confirmed)) {
            return Vec::new();
        }
        let execution = rehearsal.execution(&planned);
        let execution =
            execution.unwrap_or_else(|reason| panic!("the host refuses the outcome: {reason}"));
        let executed = self.perform(execution);
        let effects: Vec<Effect> = executed.effects.into_iter().map(Into::into).collect();
        let is_failure = executed.failure.is_some() || matches!(outcome.next, Next::Retry(_));
        let told = Told {
            attempt: if is_failure {
                self.told(&key).attempt + 1
            } else {
                1
            },
            previous: effects.clone(),
            memo: outcome.memo.clone().filter(|_| !is_gone),
        };
        self.turns.insert(key, told);
        effects
    }

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
    /// There is no end to it: after 10,000 reconciles some key is still due. Also as for
    /// [`reconcile`](Self::reconcile).
    pub fn run_due<C: Controller>(&mut self) -> Vec<Run> {
        self.seen.take();
        self.guest.set(Some(C::reconcile));
        let mut runs = Vec::new();
        while let Some(run) = self.run_next() {
            runs.push(run);
            assert!(
                runs.len() < MAX_RUNS,
                "{MAX_RUNS} reconciles, and keys are still due: the controller never comes to rest"
            );
        }
        self.guest.set(None);
        runs
    }

    /// Deletes an object as another client would: it disappears, or waits until its finalizers are
    /// removed.
    ///
    /// # Panics
    ///
    /// The kind of `object` is none.
    pub fn delete(&mut self, object: &ObjectRef) {
        let (kind, key) = convert::object_ref(object);
        self.delete_one(&kind, &key);
    }

    /// The whole object, as it is stored. [`Host`] returns what the plugin sees of it.
    ///
    /// # Panics
    ///
    /// The kind of `object` is none.
    #[must_use]
    pub fn object(&self, object: &ObjectRef) -> Option<&Value> {
        let (kind, key) = convert::object_ref(object);
        self.server.get(&kind, &key)
    }

    /// The lines logged so far, in the form `INFO message name=value`.
    #[must_use]
    pub fn lines(&self) -> Vec<String> {
        self.guest.lines().all()
    }

    /// A reconcile of this key on the cluster as it is.
    fn rehearse(&self, key: &host::SubjectKey) -> Rehearsal {
        let mut caches = self.caches.borrow_mut();
        caches.list(&self.server, self.now);
        caches.rehearse(key, self.now)
    }

    /// What the next reconcile of this key is given of the ones before.
    fn told(&self, key: &host::SubjectKey) -> Told {
        self.turns.get(key).unwrap_or(&self.first).clone()
    }

    /// Sends the writes of an outcome, and answers each before the next is begun.
    fn perform(&mut self, mut execution: Execution) -> host::Executed {
        let mut pending = VecDeque::new();
        loop {
            let under_way = match execution.advance() {
                ControlFlow::Break(executed) => return executed,
                ControlFlow::Continue((begun, under_way)) => {
                    pending.extend(begun);
                    under_way
                }
            };
            let write = pending.pop_front().expect("a write is under way");
            let answer = self.send(write.write());
            execution = under_way.answered(write, answer);
        }
    }

    fn send(&mut self, write: &host::Write) -> host::WriteAnswer {
        if let host::Operation::DeleteAll { labels, .. } = &write.operation {
            return self.delete_all(&write.kind, &write.key.namespace, labels);
        }
        let answer = self.server.write(write);
        let caches = self.caches.get_mut();
        caches.watch(&self.server, &write.kind, &write.key, self.now);
        answer
    }

    fn delete_all(
        &mut self,
        kind: &host::Kind,
        namespace: &str,
        labels: &str,
    ) -> host::WriteAnswer {
        let labels = host::LabelSelector::parse(labels);
        let wanted = host::InformerKey {
            namespace: Some(namespace.into()),
            labels: labels.expect("the host has written the selector"),
            ..host::InformerKey::all(kind.clone())
        };
        let text = |object: &Value, member: &str| {
            let text = object["metadata"][member].as_str();
            text.unwrap_or_default().to_owned()
        };
        let deleted = self.server.matching(&wanted).into_iter().map(|object| {
            let key = host::ObjectKey::new(&text(object, "namespace"), &text(object, "name"));
            (key, text(object, "uid"))
        });
        let deleted: Vec<(host::ObjectKey, String)> = deleted.collect();
        for (key, _) in &deleted {
            self.delete_one(kind, key);
        }
        host::WriteAnswer {
            deleted,
            ..host::ActionResult::Done(None).into()
        }
    }

    fn delete_one(&mut self, kind: &host::Kind, key: &host::ObjectKey) {
        // Without preconditions nothing refuses it.
        drop(self.server.delete(kind, key, None, None));
        let caches = self.caches.get_mut();
        caches.watch(&self.server, kind, key, self.now);
    }

    /// Runs the next key that is due, to the end of its writes.
    fn run_next(&mut self) -> Option<Run> {
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
        let finished = match self.caches.get_mut().hub.ran(ran, self.now) {
            host::Decision::Finished(finished) => finished,
            host::Decision::Writing(writing) => self.send_all(writing),
            host::Decision::Confirming(confirming) => match self.confirm(confirming) {
                ControlFlow::Continue(writing) => self.send_all(writing),
                ControlFlow::Break(finished) => finished,
            },
        };
        let run = Run {
            key: convert::subject(&finished.held().request.key),
            error: finished.error().map(ToString::to_string),
        };
        self.caches.get_mut().hub.finished(finished, self.now);
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

    /// Whether the server has what an outcome wants to have confirmed as it was shown. If not, the
    /// next reconcile sees what the server has.
    fn is_confirmed(&mut self, confirmed: &host::Confirmed) -> bool {
        let answers = self.confirm_answers(&confirmed.objects, &confirmed.lists);
        let caches = self.caches.get_mut();
        let contradicted = caches.hub.contradicted(confirmed, answers);
        let contradicted = contradicted.unwrap_or_else(|reason| panic!("{reason}"));
        let Some(questions) = contradicted else {
            return true;
        };
        for host::Question { kind, key, .. } in &questions {
            caches.watch(&self.server, kind, key, self.now);
        }
        false
    }

    fn confirm_answers(
        &self,
        objects: &[host::ConfirmedObject],
        lists: &[host::ConfirmedList],
    ) -> host::ConfirmAnswers {
        let object = |asked: &host::ConfirmedObject| {
            let found = self.server.get(asked.kind(), &asked.key);
            let found = found.map(Value::to_string);
            asked
                .examine(found.as_deref())
                .map_err(ReadFailure::Refused)
        };
        let list = |asked: &host::ConfirmedList| {
            let objects = self.server.matching(&asked.target).into_iter();
            let found = objects.map(|object| asked.examine(&object.to_string()));
            let found: Result<Vec<_>, String> = found.collect();
            let found = found.map_err(ReadFailure::Refused)?;
            Ok(found.into_iter().flatten().collect())
        };
        host::ConfirmAnswers {
            objects: objects.iter().map(object).collect(),
            lists: lists.iter().map(list).collect(),
        }
    }

    fn fetch(&self, question: &host::Question) -> Result<Option<String>, ReadFailure> {
        let found = self.server.get(&question.kind, &question.key);
        Ok(found.map(Value::to_string))
    }

    /// Reads from the cluster as it is, outside of any reconcile.
    fn read<T>(&self, read: impl FnOnce(&Reading<'_>) -> T) -> T {
        let mut rehearsal = self.rehearse(&host::SubjectKey::singleton());
        read(&Reading::new(&mut rehearsal.reader, self.guest.lines()))
    }
}

/// Reads of the cluster as it is, for the test itself.
impl Host for FakeCluster {
    fn get_json(&self, object: &ObjectRef) -> Result<Option<String>, ReadError> {
        self.read(|reading| reading.get_json(object))
    }

    fn list_json(&self, query: &Query) -> Result<String, ReadError> {
        self.read(|reading| reading.list_json(query))
    }

    fn list_page_json(
        &self,
        query: &Query,
        after: Option<&ObjectRef>,
        limit: u32,
    ) -> Result<String, ReadError> {
        self.read(|reading| reading.list_page_json(query, after, limit))
    }

    fn now(&self) -> Duration {
        self.now
    }

    fn log(&self, level: Level, message: &str, fields: &[(&str, &str)]) {
        self.guest.lines().add(level, message, fields);
    }
}
