//! What a test says about the cluster and the runs to come.

use std::time::Duration;

use serde::Serialize;
use serde_json::Value;

use super::server::served_kind;
use super::{Failing, FakeCluster, convert, definition};
use crate::{Effect, ObjectRef};

impl FakeCluster {
    /// Adds a whole object: `json!({…})`, or a type that writes its `apiVersion` and `kind`, as
    /// those of k8s-openapi do. It replaces an object of the same kind, namespace and name, as an
    /// update of another client would.
    ///
    /// What it does not say of `metadata` is as the API server sets it: uid, creationTimestamp (the
    /// time of [`at`](Self::at)), resourceVersion, and a generation that moves with its content. To
    /// put another object in the place of one, give it another uid, or
    /// [`delete`](Self::delete) the old one first.
    ///
    /// A CustomResourceDefinition [defines](Self::defining) its kind, as its first served version
    /// says, for a plugin that reads it by a pattern.
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
        let defined = definition::served_kind(&object);
        let (kind, is_older) = self.server.place(object);
        let caches = self.caches.get_mut();
        caches.doubt(kind, is_older);
        if let Some(defined) = defined {
            caches.serve(defined, true);
        }
        self
    }

    /// Adds a whole object as [`with`](Self::with) does, that is on the server but that no watch
    /// has brought yet: reconciles do not see it. What an outcome has
    /// [confirmed](crate::Outcome::confirm) is asked of the server, which has it. The next change
    /// of the kind by [`with`](Self::with) brings it.
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

    /// From now on, the cluster does not serve this kind. Its objects are there again when it does.
    ///
    /// # Panics
    ///
    /// The manifest does not say that the kind is [optional](crate::Manifest::optional).
    #[must_use]
    pub fn without(self, kind: &str) -> Self {
        self.serves(kind, false)
    }

    /// From now on, the cluster serves this kind, which it has been [without](Self::without).
    ///
    /// # Panics
    ///
    /// The manifest does not say that the kind is [optional](crate::Manifest::optional).
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

    /// From now on the cluster serves this kind, also while there are no objects of it, for a
    /// plugin that reads it by a pattern. Kinds of which there are objects are served anyway. A
    /// kind that is defined in several versions is served in all of them; the first is the
    /// preferred one.
    ///
    /// # Panics
    ///
    /// The text is no kind.
    #[must_use]
    pub fn defining(mut self, kind: &str, is_namespaced: bool) -> Self {
        let served = served_kind(&convert::kind(kind), is_namespaced);
        self.caches.get_mut().serve(served, true);
        self
    }

    /// From now on the cluster serves this kind with these verbs alone, for a plugin that reads it
    /// by a pattern: `["get"]` for one whose objects can be read one by one and not be watched.
    ///
    /// # Panics
    ///
    /// The text is no kind.
    #[must_use]
    pub fn defining_with(mut self, kind: &str, is_namespaced: bool, verbs: &[&str]) -> Self {
        let mut served = served_kind(&convert::kind(kind), is_namespaced);
        served.verbs = verbs.iter().map(ToString::to_string).collect();
        self.caches.get_mut().serve(served, true);
        self
    }

    /// The objects of this kind are gone, and the cluster does not serve it any more, for a plugin
    /// that reads it by a pattern.
    ///
    /// # Panics
    ///
    /// The text is no kind.
    #[must_use]
    pub fn undefining(mut self, kind: &str) -> Self {
        let kind = convert::kind(kind);
        self.server.forget(&kind);
        self.caches.get_mut().serve(served_kind(&kind, true), false);
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

    /// From now on some writes fail: those that `failing` describes, such as
    /// `Failing::next(Verb::Create, "v1/Pod", WriteError::Forbidden)`. May be called several times.
    /// What such a failure stops, and when it is retried, is decided by the host's own code.
    #[must_use]
    pub fn failing(mut self, failing: Failing) -> Self {
        self.failing.add(failing);
        self
    }

    /// From now on, no write fails because of [`failing`](Self::failing).
    #[must_use]
    pub fn healed(mut self) -> Self {
        self.failing.clear();
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

    /// Sets the [memo](crate::Outcome::remember) that the next reconcile of each key gets. Also
    /// forgets what earlier reconciles have left for later ones.
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
}
