//! Single reconciles of a key that the test names.

use pilothouse_core::{self as host, Rehearsal};

use super::guest::Reconcile;
use super::settled::Settled;
use super::{FakeCluster, Told, convert};
use crate::{Controller, Effect, Failure, Next, ObjectRef, Outcome, Request};

impl FakeCluster {
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
        let outcome = self.run_fetching(C::reconcile, &request, &mut rehearsal);
        self.seen.replace(Some(rehearsal.clone()));
        let outcome = outcome?;
        let checked = rehearsal.execution(&convert::outcome(&outcome));
        let checked = checked.map(drop);
        checked.map_err(|reason| Failure::Terminal(reason.to_string()))?;
        Ok(outcome)
    }

    /// Runs a controller, and again as long as it asks about objects that no watch brings.
    pub(super) fn run_fetching(
        &self,
        controller: Reconcile,
        request: &Request,
        rehearsal: &mut Rehearsal,
    ) -> Result<Outcome, Failure> {
        let mut fetched = host::FetchedObjects::default();
        loop {
            let mut again = rehearsal.clone();
            again.reader = again.reader.with_fetched(fetched);
            let outcome = self.guest.run(controller, request, &mut again.reader);
            let (known, asked) = again.reader.take_unfetched();
            if asked.is_empty() {
                *rehearsal = again;
                return outcome;
            }
            fetched = known;
            for object in &asked {
                let answer = self.on_server(&object.kind, &object.key);
                fetched.add(object, Ok(answer), self.now);
            }
        }
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
    /// As for [`reconcile`](Self::reconcile) and [`apply`](Self::apply). Or the outcome says that
    /// it is [settled](Outcome::settled), and the next run would do something.
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
            Ok(outcome) => {
                // It may be wrong about what it has not seen.
                let is_sure = self.caches.get_mut().are_current(&self.server);
                let settled = is_sure.then(|| self.settled(outcome)).flatten();
                drop(self.carry_out(key.clone(), outcome));
                let told = self.told(&key);
                if let Some(settled) = settled.filter(|_| told.attempt == 1) {
                    self.check_settled::<C>(&key, &settled, Some(told));
                }
            }
            Err(_) => {
                let mut told = self.told(&key);
                told.attempt += 1;
                self.turns.insert(key, told);
            }
        }
        outcome
    }

    /// The last run, if its outcome is settled.
    fn settled(&self, outcome: &Outcome) -> Option<Settled> {
        let outcome = convert::outcome(outcome);
        let seen = self.seen.borrow();
        let reads = seen.as_ref()?.settled(&outcome)?;
        Some(Settled::new(reads, &outcome.follow_up))
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
    ///   `metadata.ownerReferences`. Without force, a field that somebody else owns with another
    ///   value is a conflict: one that the plugin has not applied, or that was changed since, by
    ///   another client or by an update or a patch of the plugin. A value that both have stays when
    ///   the plugin leaves it out.
    /// - `status` is written only through the subresource `status`. Writes to other subresources
    ///   have no effect here.
    /// - Deleting an object that has finalizers sets its `deletionTimestamp`. The object disappears
    ///   when the last finalizer is removed; one without finalizers at once, a Pod, too, whatever
    ///   its grace period. There is no garbage collector: objects survive their owners, and
    ///   `Propagation` changes nothing.
    /// - `resourceVersion`, `uid`, `creationTimestamp` and `generation` are maintained,
    ///   `managedFields` are not. An object has a generation if it has a `spec`; it moves with all
    ///   but `metadata` and `status`, with the beginning of a deletion, and that of a Deployment
    ///   with its annotations. No defaults are filled in. Schemas, quotas and admission are not
    ///   checked: see [`failing`](Self::failing).
    /// - Events are kept in [`events`](Self::events), not as objects.
    ///
    /// If the server contradicts what the outcome wants to have [confirmed](Outcome::confirm),
    /// nothing is done, and nothing is returned. The next reconcile sees what the server has.
    ///
    /// # Panics
    ///
    /// [`reconcile`](Self::reconcile) would refuse the outcome, or the outcome has a strategic
    /// merge patch, which cannot be applied without the kinds' schemas. Or the plugin reconciles
    /// several kinds.
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

    /// A reconcile of this key on the cluster as it is.
    pub(super) fn rehearse(&self, key: &host::SubjectKey) -> Rehearsal {
        let mut caches = self.caches.borrow_mut();
        caches.list(&self.server, self.now);
        caches.rehearse(key, self.now)
    }

    /// What the next reconcile of this key is given of the ones before.
    fn told(&self, key: &host::SubjectKey) -> Told {
        self.turns.get(key).unwrap_or(&self.first).clone()
    }
}
