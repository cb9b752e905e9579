//! The preparation of a plugin that joins: its views and indexes, cut from every cached object, and
//! the keys it has to run first.
//!
//! For 100,000 objects this takes a second, which must not block the hub. So it is done on a clone
//! of the caches while the hub goes on. The changes that the hub applied meanwhile are then
//! replayed on the clone, in rounds that each have less to do. The rest, and the exchange of the
//! caches, is one short step ([`Hub::exchange`]).
//!
//! Guarantee: the result is the same as if the plugin had joined when the preparation began and had
//! seen all changes since. One exception: if an object was unreadable before and after, the plugin
//! may miss that it was deleted and recreated in between.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use super::controller::{Begun, Controller, KeyedChange};
use super::duties::{Duties, Duty};
use super::widening::Widened;
use super::{ControllerSettings, Garbage, Hub, PluginId, wanted_informers};
use crate::cache::snapshot::{InformerId, Snapshot};
use crate::cache::{Cache, Change, Subscribed, Subscription};
use crate::hub::plugin::Plugin;
use crate::model::informer_key::InformerKey;
use crate::model::key::Kind;
use crate::model::manifest::Manifest;
use crate::model::subject_key::SubjectKey;
use crate::queue::{LOW, NORMAL, Time};

/// Work that is done outside the hub's lock, step by step.
pub struct Preparation {
    pub(super) step: PreparationStep,
    /// Freed by the next build, and not under the hub's lock.
    pub(super) garbage: Garbage,
}

pub(super) enum PreparationStep {
    /// Caches are cut again, for a plugin that joins or because one has left.
    Caches(Box<Caches>),
    /// A version is installed, and its first keys are still to be queued.
    Keys(FirstKeys),
}

/// Caches that are being cut again, and the plugin or the kinds of patterns they are cut for.
/// Without either, what plugins that have left no longer need is removed.
pub(super) struct Caches {
    pub(super) joining: Option<Joining>,
    pub(super) widening: Option<Widening>,
    /// The kinds that have got informers.
    pub(super) widened: Widened,
    /// What the host ran when this began.
    duties: Duties,
    /// The kinds of patterns that the version in place has informers for.
    kept_kinds: Vec<Kind>,
    /// The informers whose caches are cut again.
    pub(super) informers: BTreeSet<InformerId>,
    /// The caches as they will be.
    pub(super) snapshot: Snapshot,
    pub(super) ids: HashMap<InformerKey, InformerId>,
    /// The hub's `layout` when this began; see [`Hub`].
    pub(super) layout: u64,
    /// The hub's caches when this was last brought up to date. `snapshot` has reached the same
    /// state once `missed` has been applied.
    pub(super) live: Snapshot,
    pub(super) missed: Vec<(InformerId, Change)>,
    pub(super) rounds: usize,
    is_cut: bool,
}

/// The keys that a version runs first because it is new.
pub(super) struct FirstKeys {
    pub(super) plugin: PluginId,
    /// The controller that was prepared for the version. Its queue has the keys until they are
    /// taken out.
    prepared: Option<Box<Controller>>,
    pub(super) keys: Vec<SubjectKey>,
}

/// Kinds of plugins' patterns that are about to get informers.
pub(super) struct Widening {
    pub(super) kinds: Vec<WideningKind>,
    /// How many more list-watches there may be.
    pub(super) room: usize,
}

/// A kind of a plugin's pattern.
pub(super) struct WideningKind {
    pub(super) plugin: PluginId,
    pub(super) kind: Kind,
    pub(super) subscription: Subscription,
}

/// A plugin that is about to join.
pub(super) struct Joining {
    pub(super) id: PluginId,
    pub(super) plugin: Arc<dyn Plugin>,
    /// The granted part of the plugin's own manifest.
    pub(super) manifest: Manifest,
    pub(super) settings: ControllerSettings,
    /// Whether it replaces the version of the plugin with this id.
    pub(super) replaces: bool,
    pub(super) controller: Option<Controller>,
}

impl Joining {
    pub(super) fn new(
        id: PluginId,
        plugin: Arc<dyn Plugin>,
        settings: &ControllerSettings,
        replaces: bool,
    ) -> Self {
        Self {
            id,
            manifest: settings.grants.limit(plugin.manifest()),
            plugin,
            settings: settings.clone(),
            replaces,
            controller: None,
        }
    }
}

impl Preparation {
    pub(super) fn of_caches(
        hub: &Hub,
        joining: Option<Joining>,
        widening: Option<Widening>,
    ) -> Self {
        Self {
            step: PreparationStep::Caches(Box::new(Caches::new(hub, joining, widening))),
            garbage: Garbage::default(),
        }
    }

    pub(super) fn of_keys(plugin: PluginId, prepared: Controller, garbage: Garbage) -> Self {
        let keys = FirstKeys {
            plugin,
            prepared: Some(Box::new(prepared)),
            keys: Vec::new(),
        };
        Self {
            step: PreparationStep::Keys(keys),
            garbage,
        }
    }

    /// Does all the work that needs no hub. The first time this is linear in the objects, then in
    /// the changes.
    pub fn build(&mut self, now: Time) {
        drop(std::mem::take(&mut self.garbage));
        match &mut self.step {
            PreparationStep::Caches(caches) => caches.build(now),
            PreparationStep::Keys(first) => first.build(now),
        }
    }
}

impl FirstKeys {
    fn build(&mut self, now: Time) {
        if let Some(controller) = self.prepared.take() {
            self.keys = controller.into_keys(now);
        }
    }

    pub(super) fn is_built(&self) -> bool {
        self.prepared.is_none()
    }
}

impl Caches {
    fn new(hub: &Hub, joining: Option<Joining>, widening: Option<Widening>) -> Self {
        let replaced = joining.as_ref().filter(|joining| joining.replaces);
        let replaced = replaced.and_then(|joining| hub.controllers.get(&joining.id));
        Self {
            kept_kinds: replaced
                .map(Controller::kinds_of_patterns)
                .unwrap_or_default(),
            joining,
            duties: hub.duties.clone(),
            widening,
            widened: Vec::new(),
            informers: BTreeSet::new(),
            snapshot: hub.snapshot.clone(),
            ids: hub.ids.clone(),
            layout: hub.layout,
            live: hub.snapshot.clone(),
            missed: Vec::new(),
            rounds: 0,
            is_cut: false,
        }
    }

    fn build(&mut self, now: Time) {
        if !self.is_cut {
            self.cut(now);
            self.is_cut = true;
        }
        let (missed, live) = (std::mem::take(&mut self.missed), self.live.clone());
        self.follow(&missed, &live, now);
    }

    pub(super) fn is_built(&self) -> bool {
        self.is_cut && self.missed.is_empty()
    }

    fn cut(&mut self, now: Time) {
        if self.joining.is_some() {
            self.cut_for_plugin(now);
        } else if let Some(widening) = self.widening.take() {
            self.cut_for_kinds(&widening);
            self.widening = Some(widening);
        } else {
            self.trim();
        }
    }

    fn cut_for_plugin(&mut self, now: Time) {
        let Some(joining) = &mut self.joining else {
            return;
        };
        let ids = &mut self.ids;
        let (asked, manifest) = (joining.plugin.manifest(), &joining.manifest);
        let mut scope = wanted_informers::join(
            asked,
            manifest,
            &joining.settings,
            &mut self.snapshot,
            |snapshot, informer_key, subscription| {
                subscribe(ids, snapshot, informer_key, subscription)
            },
        );
        scope.absent = wanted_informers::absent(asked, &joining.settings.grants);
        for kind in &self.kept_kinds {
            let Some(pattern) = scope.pattern_of_mut(kind) else {
                continue;
            };
            let informer_key = InformerKey::all(kind.clone());
            let (snapshot, subscription) = (&mut self.snapshot, &pattern.subscription);
            let (informer, subscribed) = subscribe(ids, snapshot, informer_key, subscription);
            pattern.add(kind, informer, subscribed);
        }
        self.informers = scope.parts().map(|part| part.informer).collect();
        let plugin = joining.plugin.clone();
        let settings = &joining.settings;
        let duty = Duty::of(&self.duties, &manifest.name, settings.division);
        let mut controller = Controller::new(plugin, manifest.clone(), settings, scope, duty, now);
        controller.start(&self.snapshot, now);
        controller.start_when_synced(&self.snapshot, now);
        joining.controller = Some(controller);
    }

    fn cut_for_kinds(&mut self, widening: &Widening) {
        for wanted in &widening.kinds {
            let informer_key = InformerKey::all(wanted.kind.clone());
            let (ids, snapshot) = (&mut self.ids, &mut self.snapshot);
            let (informer, subscribed) =
                subscribe(ids, snapshot, informer_key, &wanted.subscription);
            self.informers.insert(informer);
            let begun = Begun {
                kind: wanted.kind.clone(),
                informer,
                subscribed,
            };
            self.widened.push((wanted.plugin, begun));
        }
    }

    /// Removes what only plugins that have left needed.
    fn trim(&mut self) {
        let informers = self.snapshot.informers.iter();
        let loose = informers.filter(|(_, cache)| cache.is_loose());
        self.informers = loose.map(|(informer, _)| informer).collect();
        for informer in &self.informers {
            if let Some(cache) = self.snapshot.cache_mut(*informer) {
                cache.trim();
            }
        }
    }

    /// Replays these changes of the hub, which led to `live`.
    pub(super) fn follow(&mut self, missed: &[(InformerId, Change)], live: &Snapshot, now: Time) {
        for (informer, change) in missed {
            let Some(cache) = self.snapshot.cache_mut(*informer) else {
                continue;
            };
            let priority = if cache.is_initial() { LOW } else { NORMAL };
            let change = cache.follow(change);
            if let (Some(change), Some(controller)) = (change, controller_of(&mut self.joining)) {
                let changed = KeyedChange {
                    informer: *informer,
                    key: &change.key().to_key(),
                    change: &change,
                    is_step: false,
                };
                controller.wake(&self.snapshot, changed, priority, now);
            }
        }
        for informer in &self.informers {
            // An informer that only this plugin asks for is not in the hub yet.
            let Some(live) = live.informers.get(*informer) else {
                continue;
            };
            let cache = self.snapshot.cache_mut(*informer);
            let turned = cache.map(|cache| cache.follow_state(live));
            if let Some(controller) = controller_of(&mut self.joining) {
                let wake = |key| controller.wake_readers(*informer, key, NORMAL, now);
                turned.iter().flatten().for_each(wake);
            }
        }
        if let Some(controller) = controller_of(&mut self.joining) {
            controller.start_when_synced(&self.snapshot, now);
        }
    }
}

/// Subscribes to the informer of a key, which is made if there is none.
fn subscribe(
    ids: &mut HashMap<InformerKey, InformerId>,
    snapshot: &mut Snapshot,
    informer_key: InformerKey,
    subscription: &Subscription,
) -> (InformerId, Subscribed) {
    let informer = ids.entry(informer_key).or_insert_with_key(|informer_key| {
        let informers = Arc::make_mut(&mut snapshot.informers);
        informers.add(Cache::new(informer_key.clone()))
    });
    let cache = snapshot.cache_mut(*informer);
    let cache = cache.expect("no informer in `ids` has ended");
    (*informer, cache.join(subscription))
}

fn controller_of(joining: &mut Option<Joining>) -> Option<&mut Controller> {
    joining.as_mut()?.controller.as_mut()
}
